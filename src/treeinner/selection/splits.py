"""The splits of a model on some of its columns: what they score, from the sums in the leaves below them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treeinner.scores.setting import GRADIENT_BITS, Setting

__all__ = ["Splits"]

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

    def scores(self, setting: Setting, sums: NDArray[np.int64], weights: NDArray[np.int64]) -> FloatArray:
        """Sum over the splits of (c_l - c_r)(g_l - g_r) W_l W_r / W for every draw: (draws,).

        c and g are means over the rows on either side: of leaf values, and of minus the gradients. sums, weights:
        (draws, leaves, width), fixed-point sums in all leaves of the model.
        """
        leaf = setting.ensemble.value[setting.forest.leaf_nodes[self.leaves]]
        weight, residual = (array[:, self.leaves].astype(np.float64) for array in (weights, sums))
        total = np.zeros((3, len(sums), len(self.leaves) + 1, sums.shape[2]))
        np.cumsum([weight, residual, weight * leaf], axis=2, out=total[:, :, 1:])
        first, middle, stop = (total[:, :, self.ranges[:, i]] for i in range(3))
        (w_l, g_l, v_l), (w_r, g_r, v_r) = middle - first, stop - middle
        # A split that all rows pass on one side gives nothing.
        both = (w_l > 0) & (w_r > 0)
        w_l, w_r = np.where(both, w_l, 1.0), np.where(both, w_r, 1.0)
        parts = np.where(both, (v_l / w_l - v_r / w_r) * (g_l * w_r - g_r * w_l) / (w_l + w_r), 0.0)
        return np.asarray(parts.sum(axis=(1, 2)) * 2.0 ** (setting.scale_bits - GRADIENT_BITS))
