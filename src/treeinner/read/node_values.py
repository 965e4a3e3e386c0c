"""Node values of PreDecomp where a library stores those of its leaves alone: one formula, for LightGBM and CatBoost."""

from __future__ import annotations

import numpy as np

from treeinner.read.trees import Float, Trees

__all__ = ["l2_node_values"]


def l2_node_values(trees: Trees, weight: Float, penalty: float | Float, constant: float | Float = 0.0) -> Float:
    """What each node would have predicted as a leaf under l2 regularisation alone: (V, w), the leaves as they are.

    A leaf holds v = -rate * G / (H + penalty). So (H + penalty) * v adds up over the leaves below a node, and divided
    by the node's own H + penalty it gives the node's value. Nodes without weight get the mean of their leaves.

    trees: their `value` must not contain the starting margin; a constant factor of a tree does no harm.
    weight: (V,) second derivatives H of the rows of each leaf; not read at splits.
    penalty: l2 penalty of each node's own value, one for all or (V,).
    constant: part of a tree's values that is no step of it, one for all or (V,): in all its nodes alike.
    """
    leaf = trees.column < 0
    added = np.broadcast_to(np.asarray(penalty, dtype=np.float64), leaf.shape)
    apart = np.broadcast_to(np.asarray(constant, dtype=np.float64), leaf.shape)[:, None]
    hessian = np.where(leaf, weight, 0.0)
    total = np.where(leaf, hessian + added, 0.0)[:, None] * (trees.value - apart)
    for node, left, right in trees.upwards:
        hessian[node] = hessian[left] + hessian[right]
        total[node] = total[left] + total[right]
    own = (hessian + added)[:, None]
    found = np.divide(total, own, out=trees.mean_value - apart, where=own > 0) + apart
    return np.where(leaf[:, None], trees.value, found)
