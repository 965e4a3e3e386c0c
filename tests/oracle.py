"""Slow, recursive, obviously right. Every kernel is compared with these; nothing here calls a kernel.

`trees` is a Trees of T trees, V nodes, w values in a leaf, K outputs, R rounds, p features. X is a 2-D float64 array in
the model's column order; NaN is missing. Categorical columns hold codes.
"""

from itertools import combinations, pairwise
from math import factorial

import numpy as np


# -- rows through the trees -------------------------------------------------------------------------------------------
def goes_left(trees, node, x):
    """Whether value x goes left at this node."""
    if trees.float32_input:
        with np.errstate(over="ignore"):
            x = float(np.float32(x))
    column = int(trees.column[node])
    if np.isnan(x) or (column in trees.zero_as_missing and abs(x) <= 1e-35):
        return bool(trees.missing_left[node])
    s = int(trees.category_set[node])
    if s >= 0:
        code = float(np.floor(x)) if trees.category_rule == "floor" else float(np.trunc(x))
        known = trees.known_codes[column] if trees.known_codes is not None else None
        if known is not None and not 0 <= code < known:
            return bool(trees.missing_left[node])
        members = trees.set_codes[trees.set_start[s] : trees.set_start[s + 1]]
        return not bool(np.any(members == code))
    threshold = trees.threshold[node]
    return not (x >= threshold if trees.right_if == "greater_equal" else x > threshold)


def path(trees, tree, row):
    """Nodes from root to leaf that a row visits."""
    node = int(trees.start[tree])
    nodes = [node]
    while trees.column[node] >= 0:
        node = int(trees.left[node] if goes_left(trees, node, row[trees.column[node]]) else trees.right[node])
        nodes.append(node)
    return nodes


def paths(trees, X):
    """Nodes that every row visits: (tree, row, nodes from root to leaf)."""
    return [(tree, i, path(trees, tree, row)) for tree in range(trees.n_trees) for i, row in enumerate(X)]


def outputs_of(trees, tree):
    """Outputs that a tree adds to."""
    return slice(trees.output[tree], trees.output[tree] + trees.width)


def tree_values(trees, X):
    """What every tree adds to the margin: (T, rows, K)."""
    out = np.zeros((trees.n_trees, len(X), trees.n_outputs))
    for tree, i, nodes in paths(trees, X):
        out[tree, i, outputs_of(trees, tree)] = trees.value[nodes[-1]]
    return out


def predict(trees, X):
    """Margins: (rows, K)."""
    return trees.base + tree_values(trees, X).sum(axis=0)


def apply(trees, X):
    """Leaf ids: (rows, T)."""
    return np.array([[trees.leaf_id[path(trees, tree, row)[-1]] for tree in range(trees.n_trees)] for row in X])


# -- attributions -----------------------------------------------------------------------------------------------------
def credited(trees, node):
    """Features that get the credit of a split, and the part of each."""
    shared = trees.player_features[trees.player[node]]
    return list(shared), 1 / len(shared)


def path_tensor(trees, node_value, X):
    """Attribution of every tree by the changes of `node_value` along the paths: (T, rows, p, K)."""
    out = np.zeros((trees.n_trees, len(X), trees.n_features, trees.n_outputs))
    for tree, i, nodes in paths(trees, X):
        for parent, child in pairwise(nodes):
            features, part = credited(trees, parent)
            out[tree, i, features, outputs_of(trees, tree)] += part * (node_value[child] - node_value[parent])
    return out


def path_attribution(trees, node_value, X):
    """Attribution by path: (rows, p, K)."""
    return path_tensor(trees, node_value, X).sum(axis=0)


def mean_value(trees, node):
    """Cover-weighted mean of the leaves below a node: (w,)."""
    if trees.column[node] < 0:
        return trees.value[node]
    left, right = trees.left[node], trees.right[node]
    total = trees.cover[left] + trees.cover[right]
    if total == 0:
        return (mean_value(trees, left) + mean_value(trees, right)) / 2
    weighted = trees.cover[left] * mean_value(trees, left) + trees.cover[right] * mean_value(trees, right)
    return weighted / total


def mean_values(trees):
    """`mean_value` of every node: (V, w)."""
    return np.array([mean_value(trees, node) for node in range(trees.n_nodes)])


def conditional(trees, node, row, known):
    """Expected value of a tree when only the `known` players are: the game that path-dependent TreeSHAP plays."""
    if trees.column[node] < 0:
        return trees.value[node]
    left, right = trees.left[node], trees.right[node]
    if int(trees.player[node]) in known:
        child = left if goes_left(trees, node, row[trees.column[node]]) else right
        return conditional(trees, child, row, known)
    share = trees.cover[left] / (trees.cover[left] + trees.cover[right])
    return share * conditional(trees, left, row, known) + (1 - share) * conditional(trees, right, row, known)


def shapley_tensor(trees, X):
    """Shapley values of every tree by their definition, for a handful of players: (T, rows, p, K)."""
    out = np.zeros((trees.n_trees, len(X), trees.n_features, trees.n_outputs))
    for tree in range(trees.n_trees):
        root, end = int(trees.start[tree]), int(trees.start[tree + 1])
        players = sorted({int(player) for player in trees.player[root:end] if player >= 0})
        n = len(players)
        for i, row in enumerate(X):
            for player in players:
                others = [p for p in players if p != player]
                features = list(trees.player_features[player])
                for size in range(n):
                    weight = factorial(size) * factorial(n - size - 1) / factorial(n) / len(features)
                    for coalition in combinations(others, size):
                        with_it = conditional(trees, root, row, {*coalition, player})
                        gained = with_it - conditional(trees, root, row, set(coalition))
                        out[tree, i, features, outputs_of(trees, tree)] += weight * gained
    return out


def shapley(trees, X):
    """Shapley values: (rows, p, K)."""
    return shapley_tensor(trees, X).sum(axis=0)


def tensor(trees, X, method, weight=None):
    """Attribution of every tree on its own, in the units of the margin: (T, rows, p, K)."""
    if method == "treeshap":
        return shapley_tensor(trees, X)
    if method == "centred":
        residual = np.zeros((trees.n_rounds, len(X), trees.n_outputs))
        return path_tensor(trees, node_means(trees, X, residual, weight)[1], X)
    return path_tensor(trees, trees.known.value if method == "predecomp" else mean_values(trees), X)


# -- residuals --------------------------------------------------------------------------------------------------------
def residuals(trees, X, gradient, weight=None, base=None):
    """Minus the gradient at the margin before each round, times the weight: (R, rows, K)."""
    base = np.tile(trees.base, (len(X), 1)) if base is None else base
    weight = np.ones(len(X)) if weight is None else weight
    values = tree_values(trees, X)
    out = []
    for r in range(trees.n_rounds):
        margin = base + values[trees.round < r].sum(axis=0)
        out.append(-gradient(margin) * weight[:, None])
    return np.array(out)


def steps(trees, X):
    """What every round adds to the margin: (R, rows, K)."""
    values = tree_values(trees, X)
    return np.array([values[trees.round == r].sum(axis=0) for r in range(trees.n_rounds)])


def mean_residuals(trees, X, gradient, weight=None, base=None, n_points=40):
    """`residuals` averaged over the step of each round, by Gauss-Legendre: (R, rows, K).

    For losses without kinks and steps of a few units 40 points leave rounding errors alone.
    """
    margin = np.tile(trees.base, (len(X), 1)) if base is None else base
    weight = np.ones(len(X)) if weight is None else weight
    points, weights = np.polynomial.legendre.leggauss(n_points)
    out = []
    for step in steps(trees, X):
        along = zip((points + 1) / 2, weights / 2, strict=True)
        out.append(-weight[:, None] * sum(w * gradient(margin + u * step) for u, w in along))
        margin = margin + step
    return np.array(out)


# -- scores: the definition on the full trees x rows x features tensor ------------------------------------------------
def tree_inner(trees, r, residual):
    """Share of every round and row in TreeInner, of `tensor` and `residuals`: (R, rows, p, K)."""
    out = np.zeros((trees.n_rounds, *r.shape[1:]))
    for tree in range(trees.n_trees):
        out[trees.round[tree]] += r[tree] * residual[trees.round[tree]][:, None, :]
    return out


def gains(trees, r, residual):
    """The paper's TreeInner: summed over the rows, every tree divided by rate and weight in its values: (p,)."""
    factor = 1 / (trees.known.rate * trees.weight)
    return tree_inner(trees, factor[:, None, None, None] * r, residual).sum(axis=(0, 1, 3))


def node_means(trees, X, residual, weight=None, share=None):
    """Weight of the rows in every node, their mean leaf value and mean residual: (V, w) each.

    residual: of `residuals`, weight included. share: (T, rows) what a row counts for in a tree; None: 1. Means are 0
    where no row comes by.
    """
    total, value, mean_residual = (np.zeros((trees.n_nodes, trees.width)) for _ in range(3))
    weight = np.ones(len(X)) if weight is None else weight
    share = np.ones((trees.n_trees, len(X))) if share is None else share
    for tree, i, nodes in paths(trees, X):
        total[nodes] += share[tree, i] * weight[i]
        value[nodes] += share[tree, i] * weight[i] * trees.value[nodes[-1]]
        mean_residual[nodes] += share[tree, i] * residual[trees.round[tree], i, outputs_of(trees, tree)]
    reached = np.where(total > 0, total, 1.0)
    return total, value / reached, mean_residual / reached


def centred_shares(trees, X, residual, weight=None, share=None):
    """Share of every round and row in the centred score, by its influence function: (R, rows, p, K).

    (c_u - c_v)(g_i - g_v) + (g_u - g_v)(l_i - c_u) for every step of the row from a node v to its child u, times the
    weight of the row; l_i: its leaf value.
    """
    _, value, mean = node_means(trees, X, residual, weight, share)
    weight = np.ones(len(X)) if weight is None else weight
    share = np.ones((trees.n_trees, len(X))) if share is None else share
    out = np.zeros((trees.n_rounds, len(X), trees.n_features, trees.n_outputs))
    for tree, i, nodes in paths(trees, X):
        outputs, leaf = outputs_of(trees, tree), trees.value[nodes[-1]]
        w, g = share[tree, i] * weight[i], share[tree, i] * residual[trees.round[tree], i, outputs]
        for v, u in pairwise(nodes):
            features, part = credited(trees, v)
            term = (value[u] - value[v]) * (g - w * mean[v]) + w * (mean[u] - mean[v]) * (leaf - value[u])
            out[trees.round[tree], i, features, outputs] += part * term
    return out


def centred_product(trees, X, residual, weight=None, share=None):
    """Sum over the splits of (c_l - c_r)(g_l - g_r) W_l W_r / W: (R, p, K)."""
    total, value, mean = node_means(trees, X, residual, weight, share)
    out = np.zeros((trees.n_rounds, trees.n_features, trees.n_outputs))
    for node in np.flatnonzero(trees.column >= 0):
        left, right, tree = trees.left[node], trees.right[node], trees.tree_of_node[node]
        both = np.where(total[node] > 0, total[left] * total[right] / np.where(total[node] > 0, total[node], 1), 0)
        features, part = credited(trees, node)
        gained = (value[left] - value[right]) * (mean[left] - mean[right]) * both
        out[trees.round[tree], features, outputs_of(trees, tree)] += part * gained
    return out
