"""CatBoost models with categorical features: columns and tables made from the library's own leaf indexes.

CatBoost hashes categories and replaces them by target statistics (CTRs), so rows cannot be routed from X
alone. But a row's decisions can be read off the leaf it ends in, and `calc_leaf_indexes` tells that leaf:

* Symmetric trees ("catboost"): bit j of the leaf index is the answer to split j, wherever the row is. A
  column is a float feature, a one-hot feature or a CTR; its value is how many of its borders a row exceeds
  (one-hot: 1 + the position of the category, 0 for every other one).
* Other trees ("catboost-path"): only the answers on the row's own path are known. A column is a tree and the
  features of a split; its value is the position of the row's leaf from left to right, which lies right of a
  split if it is behind the last leaf on the left. Off the row's path that means nothing, so only path
  attributions may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble import Ensemble
from treeinner.errors import DataError
from treeinner.readers._trees import IntArray
from treeinner.tables import Table

__all__ = ["Columns", "Split", "leaf_table", "path_columns", "plain_columns", "symmetric_columns"]

BLOCK_CELLS = 2**23  # codes in a block: 8 or 16 MB
BLOCK_ROWS = 8192


class Split(NamedTuple):
    """One distinct question of a model."""

    kind: int  # 0: float, 1: one-hot, 2: CTR
    source: int  # number of the feature or CTR among its kind
    level: float  # border, or hash of the category
    features: tuple[int, ...]  # features that share its credit


@dataclass(frozen=True, eq=False)
class Columns:
    """What the columns of a model are, and which of them each node tests."""

    feature: IntArray  # (n_nodes,)  -1 at a leaf
    threshold: NDArray[np.float64]  # (n_nodes,)
    category_set: IntArray  # (n_nodes,)
    set_codes: tuple[int, ...] = ()  # each set has one code
    n_columns: int = 0
    categorical: tuple[bool, ...] | None = None
    column_features: tuple[tuple[int, ...], ...] | None = None
    external: str = ""
    # Where a column comes from. Symmetric: [[tree, bit], ...], one per level; other trees: the tree.
    plan: list[Any] | None = None

    def params(self, named: bool) -> dict[str, Any]:
        """Return what `leaf_table` needs besides the model; `named`: features go by name, not by place."""
        return {"leaf_columns": self.plan, "named_features": named} if self.external else {}


def plain_columns(splits: Sequence[Split], split: IntArray, n_features: int) -> Columns:
    """Columns are the features: every split is on a number."""
    column = np.array([s.features[0] for s in splits] + [-1], dtype=np.int32)
    border = np.array([s.level for s in splits] + [np.nan])
    return Columns(column[split], border[split], np.full(len(split), -1, np.int32), n_columns=n_features)


def symmetric_columns(splits: Sequence[Split], split: IntArray, tree_splits: Sequence[Sequence[int]]) -> Columns:
    """Columns of a model of symmetric trees; `tree_splits` lists the split of each bit of each tree."""
    found: dict[int, list[int]] = {}
    for tree, numbers in enumerate(tree_splits):
        for bit, number in enumerate(numbers):
            found.setdefault(number, [tree, bit])
    # Splits on one source are one column, in the order of their levels. The entry behind the last split
    # serves the leaves, whose split is -1.
    column, category_set = np.full((2, len(splits) + 1), -1, np.int32)
    threshold = np.full(len(splits) + 1, np.nan)
    plan: list[list[list[int]]] = []
    sources: list[Split] = []
    codes: list[int] = []
    for number in sorted(found, key=lambda n: (splits[n].kind, splits[n].source, splits[n].level)):
        this = splits[number]
        if not sources or (this.kind, this.source) != (sources[-1].kind, sources[-1].source):
            sources.append(this)
            plan.append([])
        column[number] = len(plan) - 1
        if this.kind == 1:
            category_set[number] = len(codes)
            codes.append(len(plan[-1]) + 1)
        else:
            threshold[number] = len(plan[-1]) + 0.5
        plan[-1].append(found[number])
    return Columns(
        column[split],
        threshold[split],
        category_set[split],
        set_codes=tuple(codes),
        n_columns=len(plan),
        categorical=tuple(source.kind == 1 for source in sources),
        column_features=tuple(source.features for source in sources),
        external="catboost",
        plan=plan,
    )


def path_columns(splits: Sequence[Split], split: IntArray, right: IntArray, tree_start: NDArray[np.int64]) -> Columns:
    """Columns of a model of other trees, in depth-first order: its leaves come from left to right."""
    leaf = split < 0
    before: NDArray[np.int64] = np.cumsum(leaf) - leaf  # leaves in front of a node
    tree = np.repeat(np.arange(len(tree_start) - 1), np.diff(tree_start))
    first: NDArray[np.int64] = before[tree_start[:-1]][tree]
    sets = sorted({s.features for s in splits})
    set_number = {features: i for i, features in enumerate(sets)}
    set_of = np.array([set_number[s.features] for s in splits] + [-1], dtype=np.int64)
    keys, column = np.unique((tree * len(sets) + set_of[split])[~leaf], return_inverse=True)
    feature = np.full(len(split), -1, np.int32)
    feature[~leaf] = column
    return Columns(
        feature,
        np.where(leaf, np.nan, before[right] - first - 0.5),
        np.full(len(split), -1, np.int32),
        n_columns=len(keys),
        column_features=tuple(sets[key % len(sets)] for key in keys),
        external="catboost-path",
        plan=[int(key // len(sets)) for key in keys],
    )


def _leaf_positions(model: Any, tree: int) -> IntArray:
    """Position from left to right of each leaf of a tree that is not symmetric, by CatBoost's number: (leaves,).

    A step of (0, d) or (d, 0) stays at its node: that child is a leaf and its number is stored at the node.
    """
    try:
        steps, number = model._get_tree_step_nodes(tree), model._get_tree_node_to_leaf(tree)
    except AttributeError:
        raise DataError("This CatBoost does not expose its leaf numbering; use version 1.2.") from None
    order: list[int] = []
    stack = [(0, False)]
    while stack:
        node, stays = stack.pop()
        left, right = steps[node]
        if stays or not (left or right):
            order.append(int(number[node]))
        else:
            stack += [(node + right, right == 0), (node + left, left == 0)]
    # With several outputs, older versions tell where a leaf's values begin instead of its number: same order.
    return np.argsort(order).astype(np.int32)


def leaf_table(model: Any, X: Any, ensemble: Ensemble) -> Table:
    """Make the table of an ensemble whose schema is external."""
    n_rows, rows = _rows(X, ensemble.feature_names if ensemble.params.get("named_features") else None)
    used = np.unique(ensemble.feature[ensemble.feature >= 0]).tolist()
    plan = ensemble.params["leaf_columns"]
    block_rows = max(64, min(BLOCK_ROWS, BLOCK_CELLS // max(ensemble.schema.n_columns, 1)))
    source = (model, rows, n_rows, block_rows, ensemble.schema.n_columns)
    if ensemble.schema.external == "catboost-path":
        columns = {column: plan[column] for column in used}
        return PathTable(*source, columns, {tree: _leaf_positions(model, tree) for tree in set(columns.values())})
    categorical = ensemble.schema.categorical or ()
    bits = [
        (column, tree, bit, position + 1 if categorical[column] else 1)
        for column in used
        for position, (tree, bit) in enumerate(plan[column])
    ]
    return LeafTable(*source, bits)


@dataclass(frozen=True, eq=False)
class _CatBoostTable:
    """Rows whose columns are read off the leaves that CatBoost itself finds for them."""

    model: Any
    rows: Callable[[int, int], Any]
    n_rows: int
    block_rows: int | None
    n_columns: int


@dataclass(frozen=True, eq=False)
class LeafTable(_CatBoostTable):
    """Codes of the columns of symmetric trees, added up from the bits of leaf indexes."""

    bits: list[tuple[int, int, int, int]]  # column, tree, bit, what the bit adds to the code

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Codes of some rows: (rows, columns)."""
        codes = np.zeros((self.n_columns, stop - start), np.min_scalar_type(len(self.bits)))
        if self.bits and stop > start:
            first, leaves = _leaves(self.model, self.rows(start, stop), [tree for _, tree, _, _ in self.bits])
            for column, tree, bit, weight in self.bits:
                answer = (leaves[tree - first] >> np.uint32(bit)) & np.uint32(1)
                codes[column] += answer.astype(codes.dtype) * codes.dtype.type(weight)
        return codes.T


@dataclass(frozen=True, eq=False)
class PathTable(_CatBoostTable):
    """Positions of leaves; the columns of one tree share one array."""

    columns: Mapping[int, int]  # column -> tree
    ranks: Mapping[int, IntArray]  # tree -> position of each leaf from left to right

    def block(self, start: int, stop: int) -> list[IntArray]:
        """Positions for some rows: one array per column."""
        unused = np.zeros(stop - start, np.int32)
        if not self.ranks or stop == start:
            return [unused] * self.n_columns
        first, leaves = _leaves(self.model, self.rows(start, stop), list(self.ranks))
        position = {tree: rank[leaves[tree - first]] for tree, rank in self.ranks.items()}
        return [position[self.columns[c]] if c in self.columns else unused for c in range(self.n_columns)]


def _leaves(model: Any, rows: Any, trees: Sequence[int]) -> tuple[int, NDArray[np.uint32]]:
    """Return the number of the first tree asked for, and leaf indexes from there on: (trees, rows)."""
    first, last = min(trees), max(trees)
    try:
        # One thread: the blocks themselves are spread over threads.
        leaves = model.calc_leaf_indexes(rows, ntree_start=first, ntree_end=last + 1, thread_count=1)
    except Exception as error:
        if type(error).__name__ != "CatBoostError":
            raise
        raise DataError(f"CatBoost cannot apply this model to X: {error}; pass X as its predict() takes it.") from error
    return first, np.ascontiguousarray(np.asarray(leaves, dtype=np.uint32).T)


def _rows(X: Any, names: Sequence[str] | None) -> tuple[int, Callable[[int, int], Any]]:
    """Return how many rows X has, and a function that cuts some of them out in a form CatBoost takes."""
    if hasattr(X, "num_row") and hasattr(X, "slice"):  # catboost.Pool
        n_rows = int(X.num_row())
        return n_rows, lambda start, stop: X if (start, stop) == (0, n_rows) else X.slice(np.arange(start, stop))
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):  # pyarrow.Table
        X = X.to_pandas()
    if hasattr(X, "columns"):
        if names is not None:
            absent = [name for name in names if name not in X.columns]
            if absent:
                raise DataError(
                    f"X lacks the columns {absent[:5]} of the model; pass a frame with its training columns."
                )
            # CatBoost takes columns by position without looking at their names.
            X = X[list(names)]
        if hasattr(X, "iloc"):
            return len(X), lambda start, stop: X.iloc[start:stop]
    if hasattr(X, "tocsr"):
        X = X.tocsr()
    if hasattr(X, "shape"):
        return int(X.shape[0]), lambda start, stop: X[start:stop]
    if isinstance(X, Sequence):
        return len(X), lambda start, stop: X[start:stop]
    raise DataError(f"X is a {type(X).__name__}; pass a data frame, a 2-D array or a catboost.Pool.")
