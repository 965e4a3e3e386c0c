"""The splits of a model on some of its columns: what they score, from the sums in the leaves below them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treeinner.scores.setting import GRADIENT_BITS, WEIGHT_BITS, Setting

__all__ = ["Sides", "Splits"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


class Splits:
    """The splits of a model on some of its columns, and the trees that they are in."""

    def __init__(self, setting: Setting, columns: IntArray) -> None:
        e, forest = setting.ensemble, setting.forest
        wanted = np.zeros(e.schema.n_columns, np.bool_)
        wanted[columns] = True
        self.planes = np.flatnonzero(wanted[forest.plane_column])
        here = np.flatnonzero(wanted[e.feature[forest.split_nodes]])
        self.trees = np.unique(e.tree_of_node[forest.split_nodes[here]]).astype(np.int32)
        self.rounds, first = np.unique(e.tree_round[self.trees], return_index=True)
        self.first_tree = np.append(first, len(self.trees)).astype(np.int32)
        # Leaves of these trees, one after the other; and of every split the first, the first on its right, and the end.
        start, stop = forest.first_leaf[self.trees], forest.first_leaf[self.trees + 1]
        self.leaves = np.concatenate([np.arange(*ends) for ends in zip(start, stop, strict=True)] or [start])
        self.ranges = np.searchsorted(self.leaves, forest.leaf_ranges[here])


class Sides:
    """Means over the rows on either side of some splits, for every draw: leaf values c and minus the gradients g.

    sums, weights: (draws, leaves, width) fixed-point sums in the leaves of the model.
    """

    def __init__(self, setting: Setting, splits: Splits, sums: NDArray[np.int64], weights: NDArray[np.int64]) -> None:
        self.splits, leaves = splits, splits.leaves
        self.leaf = setting.ensemble.value[setting.forest.leaf_nodes[leaves]]
        unit = 2.0 ** (setting.scale_bits - GRADIENT_BITS + WEIGHT_BITS)
        weight, residual = weights[:, leaves].astype(np.float64), sums[:, leaves] * unit
        total = np.zeros((3, len(sums), len(leaves) + 1, sums.shape[2]))
        np.cumsum([weight, residual, weight * self.leaf], axis=2, out=total[:, :, 1:])
        first, middle, stop = (total[:, :, splits.ranges[:, i]] for i in range(3))
        (w_l, g_l, v_l), (w_r, g_r, v_r) = middle - first, stop - middle
        # A split that all rows pass on one side gives nothing to anybody.
        self.both = (w_l > 0) & (w_r > 0)
        w_l, w_r = np.where(self.both, w_l, 1.0), np.where(self.both, w_r, 1.0)
        self.share = (w_l / (w_l + w_r), w_r / (w_l + w_r))  # of the rows, on either side
        self.weight = np.where(self.both, w_l + w_r, 0.0) * 2.0**-WEIGHT_BITS
        self.c, self.g = (v_l / w_l, v_r / w_r), (g_l / w_l, g_r / w_r)

    def scores(self) -> FloatArray:
        """Sum over the splits of (c_l - c_r)(g_l - g_r) W_l W_r / W: (draws,)."""
        (c_l, c_r), (g_l, g_r), (p_l, p_r) = self.c, self.g, self.share
        return np.asarray(((c_l - c_r) * (g_l - g_r) * (p_l * p_r * self.weight)).sum(axis=(1, 2)))

    def by_leaf(self, draws: slice, n_leaves: int) -> tuple[FloatArray, FloatArray]:
        """What a row's residual and its weight are multiplied by in each leaf, for its share: (draws, leaves, width).

        Over the splits above the leaf: (c' - c)(g_i - g) + (g' - g)(l - c'), see core/README.md.
        """
        (c_l, c_r), (g_l, g_r), (p_l, p_r) = self.c, self.g, self.share
        c, g = c_l * p_l + c_r * p_r, g_l * p_l + g_r * p_r
        n_draws, n, width = len(self.both[draws]), len(self.leaf), self.leaf.shape[1]
        change = np.zeros((n + 1, 3, n_draws, width))  # where a part begins and ends to count: step, constant, slope
        for side in range(2):
            c_s, g_s = self.c[side], self.g[side]
            parts = np.array([c_s - c, -(c_s - c) * g - (g_s - g) * c_s, g_s - g]) * self.both
            by_split = parts[:, draws].transpose(2, 0, 1, 3)
            np.add.at(change, self.splits.ranges[:, side], by_split)
            np.subtract.at(change, self.splits.ranges[:, side + 1], by_split)
        step, constant, slope = change.cumsum(axis=0)[:-1].transpose(1, 2, 0, 3)
        steps, levels = np.zeros((2, n_draws, n_leaves, width))
        steps[:, self.splits.leaves] = step
        levels[:, self.splits.leaves] = constant + slope * self.leaf
        return steps, levels
