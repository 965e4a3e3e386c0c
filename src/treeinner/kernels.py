"""The only importer of the compiled core: an Ensemble in its compiled form, and what is done to rows with it.

A row's results depend on that row alone, rows are cut into blocks whose size depends on the model alone, and blocks are
put together in their order: so the number of threads changes no bit.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner import _core
from treeinner.binning import plan
from treeinner.threads import Progress, map_rows

if TYPE_CHECKING:
    from treeinner.ensemble import Ensemble
    from treeinner.tables import Table

__all__ = [
    "FOURTHS_EXPONENTS",
    "LOSSES",
    "Forest",
    "Shuffle",
    "Sums",
    "add_exact",
    "aligned",
    "apply",
    "attribute",
    "find_holes",
    "instruction_set",
    "join_numbers",
    "padded_rows",
    "predict",
    "task_rows",
]

# The position is the number that core/bin.h knows the type by; a bool is a byte.
_DTYPE_CODE = {np.dtype(t): i for i, t in enumerate(("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"))}
_DTYPE_CODE[np.dtype(bool)] = _DTYPE_CODE[np.dtype("u1")]

BLOCK = 64  # rows that go down a tree together
TASK_ROWS = 4096  # rows of one task at most
TASK_BYTES = 1 << 23  # of sums that one task holds at most
ENVIRONMENT_VARIABLE = "TREEINNER_ISA"

# Losses whose gradients the core computes, by their number in core/forest.h.
LOSSES = {"squared": 0, "logistic": 1, "poisson": 2, "softmax": 3}

# (values, scale, then limbs or None: sums, squares, small and large fourths) -> whether all fitted; see core/exact.h
add_exact = _core.add_exact
FOURTHS_EXPONENTS = _core.FOURTHS_EXPONENTS
find_holes, join_numbers = _core.find_holes, _core.join_numbers  # of UBJSON; see core/records.h


def instruction_set(name: str | None = None) -> str:
    """Name of the instruction set in use; with a name ("baseline", "avx2", "avx512", "neon"), switch to it first."""
    if name is not None and name not in _core.levels():
        raise ValueError(f"This machine cannot run {name!r}; it has {', '.join(_core.levels())}.")
    return _core.use_level(name or "")


if os.environ.get(ENVIRONMENT_VARIABLE):
    instruction_set(os.environ[ENVIRONMENT_VARIABLE])


def aligned(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Zeros at an address that is a multiple of 64, as the vector loads need."""
    size = int(np.prod(shape))
    buffer = np.zeros(size + 8)
    offset = -buffer.ctypes.data % 64 // 8
    return buffer[offset : offset + size].reshape(shape)


def padded_rows(n_rows: int) -> int:
    """Rows rounded up to whole blocks."""
    return -(-n_rows // BLOCK) * BLOCK


class Forest:
    """An Ensemble in its compiled form."""

    def __init__(self, e: Ensemble) -> None:
        order, depth = np.empty(e.n_nodes, np.int32), np.empty(e.n_nodes, np.int32)
        _core.preorder(e.tree_start, e.left, e.right, order, depth)
        inner = (e.feature >= 0)[order]
        tree = e.tree_of_node
        splits_before = np.concatenate([[0], np.cumsum(inner)])
        self.first_split = splits_before[e.tree_start]
        self.first_leaf = e.tree_start - self.first_split
        # Number of each node among its tree's splits, or among its tree's leaves, in pre-order.
        split_number = splits_before[:-1] - self.first_split[tree]
        leaf_number = np.arange(e.n_nodes) - splits_before[:-1] - self.first_leaf[tree]
        number = np.empty(e.n_nodes, np.int32)
        number[order] = np.where(inner, split_number, leaf_number)

        layout = plan(e)
        self.player_features, node_player = _players(e)
        split_nodes, leaf_nodes = order[inner], order[~inner]
        splits = np.zeros((len(split_nodes), 8), np.int32)
        splits[:, 0] = layout.node_plane[split_nodes]
        splits[:, 1] = layout.node_cut[split_nodes]
        splits[:, 2] = layout.node_set[split_nodes]
        n_splits = np.diff(self.first_split)[tree[split_nodes]]
        for field, child in ((3, e.left[split_nodes]), (4, e.right[split_nodes])):
            splits[:, field] = np.where(e.feature[child] >= 0, number[child], n_splits + number[child])
        splits[:, 5] = node_player[split_nodes]
        leaves_before = np.empty(e.n_nodes, np.int64)
        leaves_before[order] = leaf_number
        splits[:, 6], splits[:, 7] = leaves_before[split_nodes], leaves_before[e.right[split_nodes]]

        self.split_nodes, self.leaf_nodes = split_nodes, leaf_nodes
        self.split_player = node_player[split_nodes]
        # The core numbers the nodes of a tree: its splits in pre-order, then its leaves.
        self.numbered = np.empty(e.n_nodes, np.int32)
        within = np.where(inner, split_number, leaf_number + np.diff(self.first_split)[tree])
        self.numbered[e.tree_start[tree] + within] = order
        self.n_trees, self.n_outputs, self.width = e.n_trees, e.n_outputs, e.width
        self.n_players, self.n_features = len(self.player_features), e.n_features
        one_each = all(len(features) == 1 for features in self.player_features)
        # Feature of each player, in ascending order, if every player is one feature.
        self.player_feature = np.array(self.player_features, np.intp).reshape(-1) if one_each else None
        self.features_are_players = one_each and self.n_players == self.n_features
        self.core = _core.CoreForest(
            splits, self.first_split, self.first_leaf, e.tree_output,
            np.ascontiguousarray(e.value[leaf_nodes]), e.leaf_id[leaf_nodes], layout.sets,
            e.n_outputs, len(layout.planes), self.n_players, layout.code_bytes, int(depth.max(initial=0)),
        )  # fmt: skip
        self.core.set_binning(
            layout.columns, layout.planes, layout.thresholds, layout.thresholds32, layout.codes_of_category,
            layout.other_code, e.right_if == "greater_equal", e.float32_input, e.category_rule == "truncate",
        )  # fmt: skip
        self._shap_inputs: Any = (e, order, depth, number, node_player)
        self.kept: dict[Any, Any] = {}  # what callers work out of the model alone, once for all their calls
        # Blocks depend on the model alone, so that they do not depend on the number of threads.
        rows = TASK_BYTES // (8 * max(1, self.n_players * self.n_outputs))
        self.task_rows = min(TASK_ROWS, max(BLOCK, rows // BLOCK * BLOCK))

    def prepare_shap(self) -> None:
        """Hand the splits and quadrature rules of TreeSHAP to the core, on first use."""
        if self._shap_inputs is None:
            return
        e, order, depth, number, node_player = self._shap_inputs
        splits = np.empty((e.n_nodes - e.n_trees) // 2 * _core.SHAP_SPLIT_BYTES, np.uint8)
        kinds, distinct = np.empty((e.n_trees, 4), np.int32), np.empty(e.n_trees, np.int32)
        _core.shap_splits(
            e.tree_start, e.left, e.right, e.cover, order, depth, number, node_player, self.n_players,
            splits, kinds, distinct,
        )  # fmt: skip
        n_points = (distinct + 1) // 2
        rules = np.unique(n_points[n_points > 0])
        first = dict(zip(rules.tolist(), np.concatenate([[0], np.cumsum(rules)]).tolist(), strict=False))
        points = [np.polynomial.legendre.leggauss(int(n)) for n in rules]
        u = np.concatenate([(x + 1) / 2 for x, _ in points]) if points else np.zeros(1)
        w = np.concatenate([weight / 2 for _, weight in points]) if points else np.zeros(1)
        first_point = np.array([first.get(n, 0) for n in n_points.tolist()], np.int64)
        self.core.set_shap(splits, kinds, n_points.astype(np.int32), first_point, u, w)
        self._shap_inputs = None

    def path_table(self, node_value: NDArray[np.float64], *, with_scores: bool = False) -> Any:
        """Path attribution by these node values, (n_nodes, width), compiled; for row scores too if asked."""
        return self.core.path_table(np.ascontiguousarray(node_value[self.numbered]), with_scores)

    def bin(self, block: NDArray[Any] | Sequence[NDArray[Any]]) -> Any:
        """Codes of a block of rows; `block` as `Table.block` gives it."""
        if isinstance(block, np.ndarray):
            n_rows, n_columns = block.shape
            addresses = block.ctypes.data + np.arange(n_columns, dtype=np.int64) * block.strides[1]
            strides = np.full(n_columns, block.strides[0], np.int64)
            dtypes = np.full(n_columns, _DTYPE_CODE[block.dtype], np.int32)
        else:
            n_rows = len(block[0]) if block else 0
            addresses = np.array([column.ctypes.data for column in block], np.int64)
            strides = np.array([column.strides[0] for column in block], np.int64)
            dtypes = np.array([_DTYPE_CODE[column.dtype] for column in block], np.int32)
        return self.core.bin(addresses.astype(np.uint64), strides, dtypes, n_rows)

    def sums(self, n_rows: int) -> Sums:
        """Empty sums for so many rows."""
        return Sums(self, n_rows)

    def boost(
        self,
        codes: Any,
        loss: int,
        loss_scale: float,
        first_trees: NDArray[np.int32],
        y: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        margin: NDArray[np.float64],
        whole_scale: float,
        leaf_sums: NDArray[np.int64],
        largest: NDArray[np.float64],
        whole_weight: NDArray[np.int64] | None,
        leaf_weights: NDArray[np.int64],
        paths: Any,
        sums: Sums,
    ) -> None:
        """Take rows through all rounds (core/boost.h, BoostInput)."""
        self.core.boost(
            codes, loss, loss_scale, first_trees, y, weight, margin, whole_scale, leaf_sums, largest,
            whole_weight, leaf_weights, paths, sums.by_row,
        )  # fmt: skip

    def by_feature(self, sums: NDArray[np.float64], out: NDArray[np.float64]) -> None:
        """Turn sums of the players, (rows, outputs, players), into those of the features, (rows, features, outputs).

        `out` comes as zeros.
        """
        by_player = sums.transpose(0, 2, 1)
        place = self.player_feature
        if place is not None:
            if len(place) and place[-1] - place[0] == len(place) - 1:  # neighbours: a view is much faster than a list
                out[:, place[0] : place[-1] + 1] = by_player
            else:
                out[:, place] = by_player
            return
        # Features that share a split share its credit equally.
        for player, features in enumerate(self.player_features):
            for feature in features:
                out[:, feature] += by_player[:, player] / len(features)

    def features(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums by feature, (rows, features, outputs), from those of the players; a view where these are the same."""
        if self.features_are_players:
            return sums.transpose(0, 2, 1)
        out = np.zeros((len(sums), self.n_features, self.n_outputs))
        self.by_feature(sums, out)
        return out


class Sums:
    """Attributions that add up tree by tree: by path row by row, by TreeSHAP in blocks, as the kernels like it."""

    def __init__(self, forest: Forest, n_rows: int) -> None:
        self.forest, self.n_rows = forest, n_rows
        self.by_row = np.zeros((n_rows, forest.n_outputs, forest.n_players))
        self._blocks: NDArray[np.float64] | None = None

    def add_path(self, codes: Any, first: int, n: int, table: Any, weight: NDArray[np.float64] | None = None) -> None:
        """Add the path attributions by trees first..first + n, times a weight per row and output."""
        self.forest.core.path(codes, first, n, table, weight, self.by_row)

    def add_shap(
        self,
        codes: Any,
        first: int,
        n: int,
        tree_scale: NDArray[np.float64] | None = None,
        weight: NDArray[np.float64] | None = None,
    ) -> None:
        """Add the TreeSHAP values of trees first..first + n, times a factor per tree and a weight."""
        if self._blocks is None:
            n_slices = padded_rows(self.n_rows) // _core.SWEEP_ROWS
            shape = (n_slices, self.forest.n_outputs, self.forest.n_players, _core.SWEEP_ROWS)
            self._blocks = aligned(shape)
        self.forest.core.shap(codes, first, n, tree_scale, weight, self._blocks)

    def move_absolute(self, players: NDArray[np.int32], total: Sums) -> None:
        """Add |sums| of some players to those of `total`, and set them to zero here."""
        if self._blocks is None:
            here, there = self.by_row, total.by_row
        else:
            if total._blocks is None:
                total._blocks = aligned(self._blocks.shape)
            here, there = self._blocks, total._blocks
        for player in players.tolist():
            there[:, :, player] += np.abs(here[:, :, player])
            here[:, :, player] = 0.0

    def players(self) -> NDArray[np.float64]:
        """Return the sums of the players: (rows, outputs, players)."""
        if self._blocks is None:
            return self.by_row
        shape = (padded_rows(self.n_rows), self.forest.n_outputs, self.forest.n_players)
        blocks = self._blocks.transpose(0, 3, 1, 2).reshape(shape)
        return self.by_row + blocks[: self.n_rows]


class Shuffle:
    """A table whose columns are shuffled, group by group, and what that does to the margins.

    Parameters
    ----------
    group_of_column
        Columns of one group are shuffled together; -1 for columns that no tree uses.
    """

    def __init__(
        self, forest: Forest, group_of_column: NDArray[np.int32], n_groups: int, table: Table, *, n_jobs: int | None
    ) -> None:
        self.forest, self.n_groups = forest, n_groups
        self.step = task_rows(forest, table)
        self._core = _core.CoreShuffle(forest.core, group_of_column, n_groups)
        self._codes = list(map_rows(table.n_rows, self.step, lambda a, b: forest.bin(table.block(a, b)), n_jobs=n_jobs))

    def margins(self, start: int, order: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Leaf sums of the task that begins at `start`, and their changes if its rows are those of `order`.

        (outputs, rows) as the rows are, and (groups, outputs, rows) with each group shuffled.
        """
        own = self._codes[start // self.step]
        n_blocks = padded_rows(own.n_rows) // BLOCK
        change = aligned((n_blocks, self.n_groups + 1, self.forest.n_outputs, BLOCK))
        self._core.changes(own, self._core.gather(self._codes, self.step, order), change)
        by_group = change.transpose(1, 2, 0, 3).reshape(self.n_groups + 1, self.forest.n_outputs, -1)
        return by_group[-1, :, : own.n_rows], by_group[:-1, :, : own.n_rows]


def _players(e: Ensemble) -> tuple[list[tuple[int, ...]], NDArray[np.int32]]:
    """Who gets credit: the features (or sets of features that share a column) in use, and the one of each split."""
    used = np.unique(e.feature[e.feature >= 0]).tolist()
    features = [(c,) if e.column_features is None else e.column_features[c] for c in used]
    players = sorted(set(features))
    position = {player: i for i, player in enumerate(players)}
    of_column = np.zeros(e.schema.n_columns + 1, np.int32)
    of_column[used] = [position[f] for f in features]
    return players, of_column[e.feature]


def task_rows(forest: Forest, table: Table) -> int:
    """Rows of one task: the model's, or fewer where the table asks for it."""
    return forest.task_rows if table.block_rows is None else max(1, min(forest.task_rows, table.block_rows))


# -- what is done to rows --------------------------------------------------------------------------------------


def predict(forest: Forest, table: Table, *, n_jobs: int | None = -1) -> NDArray[np.float64]:
    """Sum of the leaf values of every row, without the base score: (rows, outputs)."""
    out = np.empty((table.n_rows, forest.n_outputs))

    def work(start: int, stop: int) -> None:
        codes = forest.bin(table.block(start, stop))
        margin = aligned((forest.n_outputs, padded_rows(stop - start)))
        forest.core.margins(codes, 0, forest.n_trees, margin)
        out[start:stop] = margin[:, : stop - start].T

    for _ in map_rows(table.n_rows, task_rows(forest, table), work, n_jobs=n_jobs):
        pass
    return out


def apply(forest: Forest, table: Table, *, n_jobs: int | None = -1) -> NDArray[np.int32]:
    """Leaf of every row in every tree: (rows, trees)."""
    out = np.empty((table.n_rows, forest.n_trees), np.int32)

    def work(start: int, stop: int) -> None:
        forest.core.leaves(forest.bin(table.block(start, stop)), out[start:stop])

    for _ in map_rows(table.n_rows, task_rows(forest, table), work, n_jobs=n_jobs):
        pass
    return out


def attribute(
    forest: Forest,
    table: Table,
    n_features: int,
    table_of_paths: Any,
    *,
    n_jobs: int | None = -1,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Attribution of every row, by path with a `Forest.path_table`, else by TreeSHAP: (rows, features, outputs)."""
    if table_of_paths is None:
        forest.prepare_shap()
    out = np.zeros((table.n_rows, n_features, forest.n_outputs))
    # One output: rows of features are rows of players, and the core can add to them where they are.
    in_place = table_of_paths is not None and forest.n_outputs == 1 and forest.features_are_players

    def work(start: int, stop: int) -> None:
        codes = forest.bin(table.block(start, stop))
        if in_place:
            forest.core.path(codes, 0, forest.n_trees, table_of_paths, None, out[start:stop].reshape(-1, 1, n_features))
            return
        sums = forest.sums(stop - start)
        if table_of_paths is None:
            sums.add_shap(codes, 0, forest.n_trees)
        else:
            sums.add_path(codes, 0, forest.n_trees, table_of_paths)
        forest.by_feature(sums.players(), out[start:stop])

    for _ in map_rows(table.n_rows, task_rows(forest, table), work, n_jobs=n_jobs, progress=progress):
        pass
    return out
