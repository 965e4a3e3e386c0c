"""An Ensemble in its compiled form."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner import _core
from treeinner.compiled.binning import plan

if TYPE_CHECKING:
    from treeinner.ensemble import Ensemble

__all__ = ["BLOCK", "ENVIRONMENT_VARIABLE", "INSTRUCTION_SETS", "LOSSES", "TASK_ROWS", "Forest", "instruction_set"]

# The position is the number that core/kernels/bin.h knows the type by; a bool is a byte.
_DTYPE_CODE = {np.dtype(t): i for i, t in enumerate(("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"))}
_DTYPE_CODE[np.dtype(bool)] = _DTYPE_CODE[np.dtype("u1")]

BLOCK = 64  # rows that go down a tree together
TASK_ROWS = 4096  # rows of one task at most
TASK_BYTES = 1 << 23  # of sums that one task holds at most
ENVIRONMENT_VARIABLE = "TREEINNER_ISA"
INSTRUCTION_SETS: tuple[str, ...] = tuple(_core.levels())  # that this machine can run, slowest first

# Losses whose gradients the core computes, by their number in the core.
LOSSES = {"squared": 0, "logistic": 1, "poisson": 2, "softmax": 3}


def instruction_set() -> str:
    """Name of the instruction set in use: "baseline", "avx2", "avx512" or "neon"."""
    return _core.use_level("")


def use_instruction_set(name: str) -> None:
    """Switch to another instruction set; for tests and the environment variable."""
    if name not in INSTRUCTION_SETS:
        raise ValueError(f"This machine cannot run the instruction set {name!r}; it has {', '.join(INSTRUCTION_SETS)}.")
    _core.use_level(name)


if os.environ.get(ENVIRONMENT_VARIABLE):
    use_instruction_set(os.environ[ENVIRONMENT_VARIABLE])


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
        self.cache: dict[Any, Any] = {}  # what callers work out of the model alone, once for all their calls
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
        sums: NDArray[np.float64],
    ) -> None:
        """Take rows through all rounds (core/boost.h, BoostInput)."""
        self.core.boost(
            codes, loss, loss_scale, first_trees, y, weight, margin, whole_scale, leaf_sums, largest,
            whole_weight, leaf_weights, paths, sums,
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


def _players(e: Ensemble) -> tuple[list[tuple[int, ...]], NDArray[np.int32]]:
    """Who gets credit: the features (or sets of features that share a column) in use, and the one of each split."""
    used = np.unique(e.feature[e.feature >= 0]).tolist()
    features = [(c,) if e.column_features is None else e.column_features[c] for c in used]
    players = sorted(set(features))
    position = {player: i for i, player in enumerate(players)}
    of_column = np.zeros(e.schema.n_columns + 1, np.int32)
    of_column[used] = [position[f] for f in features]
    return players, of_column[e.feature]
