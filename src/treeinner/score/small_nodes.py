"""What chance adds to the score of a split with few rows, where node means and gradients come from the same rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treeinner.kernels.units import WEIGHT_BITS
from treeinner.read import Model
from treeinner.score.passes import Centre
from treeinner.score.spec import Spec
from treeinner.score.sums import Sums

__all__ = ["leave_one_out"]

Float = NDArray[np.float64]
ENOUGH = 1.5  # mean weights in a node for a covariance: two rows


def leave_one_out(model: Model, spec: Spec, leaf: Sums, centre: Centre, counts: Float | float = 1.0) -> Float:
    """What centred TreeInner loses if no row counts in the mean of its own child, summed over rows: (names, outputs).

    A split has the score (c_l - c_r)(g_l - g_r) n_l n_r / n_v. Even for noise, leaf values L and gradients g of the
    rows of a child u have a covariance, s_u = (sum of L g - n_u c_u g_u) / (n_u - 1), so that their means have s_u /
    n_u, and the split (n_r s_l + n_l s_r) / n_v. In a leaf L is constant and s_u is 0. Where a child that is no leaf
    has one row, s_u is not known, and the split loses all its score. With weights, n is the weight of the node, and one
    row is the mean weight, sum of w^2 / sum of w.

    leaf, centre: sums and node means of the first pass. counts: what an out-of-bag row counts for in each tree.
    """
    trees, forest = model.trees, model.trees.forest
    assert centre.residual is not None
    at, root, tree = forest.leaf_nodes, trees.start[:-1], trees.tree_of_node
    sums, weights, bits = leaf.leaf_sums()
    weight = weights * 2.0 ** (bits - WEIGHT_BITS)
    # Counted from the means of all rows, so that differences do not cancel.
    value = trees.value[at] - centre.value[root][tree[at]]
    gradient = sums * (spec.gradient_unit * 2.0**bits) - weight * centre.residual[root][tree[at]]
    total = np.zeros((4, trees.n_nodes, trees.width))
    total[:, at] = weight, weight * value, gradient, value * gradient
    for node, left, right in trees.upwards:
        total[:, node] = total[:, left] + total[:, right]
    weight, values, gradients, products = total
    of_means = np.divide(values * gradients, weight, out=np.zeros_like(weight), where=weight > 0)
    mean_weight = leaf.sum_of_weights() / leaf.effective_rows()
    one = np.minimum(np.broadcast_to(mean_weight * counts, trees.n_trees)[tree][:, None], weight)
    enough = weight > ENOUGH * one
    covariance = np.divide((products - of_means) * one, weight - one, out=np.zeros_like(weight), where=enough)
    known = enough | (trees.column < 0)[:, None] | (weight == 0)

    split = forest.split_nodes
    left, right = trees.left[split], trees.right[split]
    by_chance = weight[right] * covariance[left] + weight[left] * covariance[right]
    np.divide(by_chance, weight[split], out=by_chance, where=weight[split] > 0)
    score = of_means[left] + of_means[right] - of_means[split]
    lost = np.where(known[left] & known[right], by_chance, score)
    by_player = np.zeros((forest.n_players, trees.n_outputs))
    for column in range(trees.width):
        np.add.at(by_player, (forest.split_player, trees.output[tree[split]] + column), lost[:, column])
    return spec.credit.add_up(by_player, axis=0)
