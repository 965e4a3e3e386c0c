"""Arrays of trees, and walks over them: all trees in one set of arrays, children positions in them, -1 at a leaf."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble.validation import BoolArray, FloatArray, IntArray, Links, LongArray

__all__ = [
    "DART_ROUNDS", "BoolArray", "FloatArray", "IntArray", "LongArray", "add_up", "handed_over", "mean_of_leaves",
]  # fmt: skip


DART_ROUNDS = (
    "DART: the model does not store which trees each round dropped, so gradients are those at the sum of all trees "
    "before it. score='loss' adds up to the loss all the same."
)


def handed_over(**arrays: NDArray[Any]) -> dict[str, Any]:
    """Arrays of an Ensemble that nobody writes to any more, so that it need not copy them."""
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def add_up(values: FloatArray, left: Links, right: Links, levels: list[Links]) -> FloatArray:
    """Sum of the leaves below every node; `values` counts at leaves only, and is written to."""
    for nodes in reversed(levels):
        values[nodes] = values[left[nodes]] + values[right[nodes]]
    return values


def mean_of_leaves(value: FloatArray, weight: FloatArray, left: Links, right: Links, levels: list[Links]) -> FloatArray:
    """Mean of the leaves below each node, by their weights; halves where there is no weight: (n_nodes, width)."""
    mean = value.copy()
    for nodes in reversed(levels):
        a, b = left[nodes], right[nodes]
        total = weight[a] + weight[b]
        share = np.where(total > 0, weight[a] / np.where(total > 0, total, 1.0), 0.5)[:, None]
        mean[nodes] = share * mean[a] + (1 - share) * mean[b]
    return mean
