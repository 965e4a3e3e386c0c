"""The l2 term of CatBoost's leaves, l2_leaf_reg times the mean weight of the training rows, as far as trees show it.

CatBoost stores l2_leaf_reg and the sum of the weights in each leaf, but neither the weights nor the number of rows. A
leaf is v = -rate * G / (W + lam), all training rows counted. Two laws tell lam:

    squared error   a step of v in a leaf changes its gradients by W v, so that the gradients of all rows, which each
                    tree shows as the sum of -v (W + lam) / rate, go from one tree to the next by the sum of W v: an
                    equation for lam from every two trees
    classes         before the first tree all rows have the same probabilities p, so that G = p W - (weight of the
                    class in the leaf), and without weights that is a count: a whole number for the right lam only
"""

from __future__ import annotations

import numpy as np

from treeinner.readers._trees import FloatArray, LongArray
from treeinner.readers.catboost.trees import Trees

__all__ = ["lam_of_squares", "rows_are_counted"]

AGREEMENT = 1e-7  # of the equations, relative to their terms; measured 5e-9 and better, 0.2 and more where they fail
SURE = 1e-6  # largest error of lam, relative to 1 + lam
WHOLE = 1e-4  # how near to a whole number a count must be; leaf values have nine digits


def lam_of_squares(trees: Trees, rate: FloatArray) -> float | None:
    """Find lam of a model of squared error; None if the trees do not agree on one. `rate` (n_trees,)."""
    leaf, tree = np.flatnonzero(trees.split < 0), np.repeat(np.arange(len(rate)), np.diff(trees.start))
    value, weight = trees.value[leaf], trees.weight[leaf, None]
    values, weighted = (_by_tree(terms, tree[leaf], len(rate)) for terms in (value, value * weight))
    # lam * a = b, an equation for every two neighbouring trees and every output
    a = np.diff(values / rate[:, None], axis=0).ravel()
    b = (-weighted[:-1] - np.diff(weighted / rate[:, None], axis=0)).ravel()
    size = max(float(np.abs(weighted / rate[:, None]).max()), float(np.abs(a).max(initial=0.0)))
    if len(a) < 2 or not np.any(a):  # two unknowns would fit, or none is in question
        return None
    lam = float(a @ b) / float(a @ a)
    left_over = float(np.abs(b - lam * a).max())
    agree = left_over <= AGREEMENT * size and left_over <= SURE * (1 + lam) * float(np.abs(a).max())
    return max(lam, 0.0) if agree and lam > -SURE else None


def rows_are_counted(trees: Trees, rate: float, lam: float, probability: FloatArray) -> bool:
    """Whether the first tree's leaves hold whole numbers of rows of each class. `probability` (outputs,)."""
    leaf = np.flatnonzero(trees.split[: trees.start[1]] < 0)
    value, weight = trees.value[leaf], trees.weight[leaf, None]
    count = probability * weight + value * (weight + lam) / rate
    tolerance = WHOLE + 1e-7 * weight
    return bool(np.all(np.abs(count - np.round(count)) <= tolerance) and np.any((value != 0) & (tolerance < 0.1)))


def _by_tree(terms: FloatArray, tree: LongArray, n_trees: int) -> FloatArray:
    """Sums over the leaves of each tree: (n_trees, outputs)."""
    return np.stack([np.bincount(tree, column, n_trees) for column in terms.T], axis=1)
