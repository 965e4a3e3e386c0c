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
from treeinner.tables import Table, as_read
from treeinner.tables.arrays import ColumnTable, DenseTable
from treeinner.tables.frames import polars_as_pandas

__all__ = ["Columns", "Source", "Splits", "leaf_table", "path_columns", "plain_columns", "symmetric_columns"]

BLOCK_CELLS = 2**23  # codes in a block: 8 or 16 MB
BLOCK_ROWS = 8192


class Source(NamedTuple):
    """What splits are on."""

    kind: int  # 0: float, 1: one-hot, 2: CTR
    number: int  # of the feature or CTR among its kind
    features: tuple[int, ...]  # features that share its credit
    missing_left: bool = True


@dataclass(frozen=True, eq=False)
class Splits:
    """The questions that a model may ask, as CatBoost numbers them: through the borders or values of each source.

    The entry behind the last split serves the leaves, whose split is -1.
    """

    sources: Sequence[Source]
    source: IntArray  # (splits + 1,)  position in `sources`; -1 for leaves
    level: NDArray[np.float64]  # (splits + 1,)  border, or hash of the category; NaN for leaves

    def look_up(self, of_source: Callable[[Source], Any], at_leaves: Any, split: NDArray[Any]) -> NDArray[Any]:
        """A property of the source of each node's split: (n_nodes,)."""
        found: NDArray[Any] = np.array([*map(of_source, self.sources), at_leaves])
        return np.asarray(found[self.source][split])


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


def plain_columns(splits: Splits, split: IntArray, n_features: int) -> Columns:
    """Columns are the features: every split is on a number."""
    column = splits.look_up(lambda source: source.features[0], -1, split).astype(np.int32)
    return Columns(column, splits.level[split], np.full(len(split), -1, np.int32), n_columns=n_features)


def symmetric_columns(splits: Splits, split: IntArray, tree_start: NDArray[np.int64]) -> Columns:
    """Columns of a model of symmetric trees, level by level."""
    numbers, first = np.unique(split, return_index=True)
    trees = np.searchsorted(tree_start, first, side="right") - 1
    places = zip(numbers.tolist(), trees.tolist(), (first - tree_start[trees] + 1).tolist(), strict=True)
    found = {number: (tree, place) for number, tree, place in places if number >= 0}
    # Splits on one source are one column, in the order of their levels.
    column, category_set = np.full((2, len(splits.level)), -1, np.int32)
    threshold = np.full(len(splits.level), np.nan)
    plan: list[list[list[int]]] = []
    sources: list[Source] = []
    codes: list[int] = []
    source_of = splits.source.tolist()
    for number in sorted(found, key=lambda n: (splits.sources[source_of[n]], splits.level[n])):
        this = splits.sources[source_of[number]]
        if not sources or this is not sources[-1]:
            sources.append(this)
            plan.append([])
        column[number] = len(plan) - 1
        if this.kind == 1:
            category_set[number] = len(codes)
            codes.append(len(plan[-1]) + 1)
        else:
            threshold[number] = len(plan[-1]) + 0.5
        tree, place = found[number]  # level j of a tree begins at its node 2^j, counted from 1
        plan[-1].append([tree, place.bit_length() - 1])
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


def path_columns(splits: Splits, split: IntArray, right: IntArray, tree_start: NDArray[np.int64]) -> Columns:
    """Columns of a model of other trees, in depth-first order: its leaves come from left to right."""
    leaf = split < 0
    before: NDArray[np.int64] = np.cumsum(leaf) - leaf  # leaves in front of a node
    tree = np.repeat(np.arange(len(tree_start) - 1), np.diff(tree_start))
    first: NDArray[np.int64] = before[tree_start[:-1]][tree]
    sets = sorted({source.features for source in splits.sources})
    set_number = {features: i for i, features in enumerate(sets)}
    set_of = splits.look_up(lambda source: set_number[source.features], -1, split)
    keys, column = np.unique((tree * len(sets) + set_of)[~leaf], return_inverse=True)
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

    def take(self, rows: NDArray[np.intp]) -> DenseTable:
        """Table of some rows."""
        return DenseTable(self.block(0, self.n_rows)[rows])


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

    def take(self, rows: NDArray[np.intp]) -> ColumnTable:
        """Table of some rows."""
        return ColumnTable([column[rows] for column in self.block(0, self.n_rows)])


def _leaves(model: Any, rows: Any, trees: Sequence[int]) -> tuple[int, NDArray[np.uint32]]:
    """Return the number of the first tree asked for, and leaf indexes from there on: (trees, rows)."""
    first, last = min(trees), max(trees)
    try:
        # One thread: the blocks themselves are spread over threads.
        leaves = model.calc_leaf_indexes(rows, ntree_start=first, ntree_end=last + 1, thread_count=1)
    except MemoryError:
        raise
    except Exception as error:  # its own, or what it meets in a frame that it does not know
        raise DataError(f"CatBoost cannot apply this model to X: {error}; pass X as its predict() takes it.") from error
    return first, np.ascontiguousarray(np.asarray(leaves, dtype=np.uint32).T)


def _rows(X: Any, names: Sequence[str] | None) -> tuple[int, Callable[[int, int], Any]]:
    """Return how many rows X has, and a function that cuts some of them out in a form CatBoost takes."""
    if hasattr(X, "num_row") and hasattr(X, "slice"):  # catboost.Pool
        n_rows = int(X.num_row())
        return n_rows, lambda start, stop: X if (start, stop) == (0, n_rows) else X.slice(np.arange(start, stop))
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):  # pyarrow.Table
        X = X.to_pandas()
    X = polars_as_pandas(as_read(X))
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
    if hasattr(X, "shape"):
        return int(X.shape[0]), lambda start, stop: X[start:stop]
    if isinstance(X, Sequence):
        return len(X), lambda start, stop: X[start:stop]
    raise DataError(f"X is a {type(X).__name__}; pass a data frame, a 2-D array or a catboost.Pool.")
