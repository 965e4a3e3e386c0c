"""Slow, recursive, obviously right. Every kernel is compared with these; nothing here calls a kernel.

X is a 2-D float64 array in the model's column order; NaN is missing. Categorical columns hold codes.
"""

from itertools import combinations, pairwise
from math import factorial

import numpy as np

from treeinner import sign_flips


def goes_left(e, node, x):
    """Does value x go left at this node?"""
    if e.float32_input:
        with np.errstate(over="ignore"):
            x = float(np.float32(x))
    column = int(e.feature[node])
    with np.errstate(over="ignore"):
        marked = np.float32(x) == np.float32(
            e.schema.missing
        )  # XGBoost alone has such a number, and compares in float32
    if np.isnan(x) or marked or (column in e.zero_as_missing and abs(x) <= 1e-35):
        return bool(e.missing_left[node])
    s = int(e.category_set[node])
    if s >= 0:
        code = float(np.floor(x)) if e.category_rule == "floor" else float(np.trunc(x))
        known = e.schema.known_codes[column] if e.schema.known_codes is not None else None
        if known is not None and not 0 <= code < known:
            return bool(e.missing_left[node])
        members = e.set_codes[e.set_start[s] : e.set_start[s + 1]]
        return not bool(np.any(members == code))
    threshold = e.threshold[node]
    return not (x >= threshold if e.right_if == "greater_equal" else x > threshold)


def path(e, tree, row):
    """Nodes from root to leaf that a row visits."""
    node = int(e.tree_start[tree])
    nodes = [node]
    while e.feature[node] >= 0:
        node = int(e.left[node] if goes_left(e, node, row[e.feature[node]]) else e.right[node])
        nodes.append(node)
    return nodes


def predict(e, X):
    """Margins: (rows, outputs)."""
    out = np.tile(e.base_score, (len(X), 1))
    for i, row in enumerate(X):
        for tree in range(e.n_trees):
            first = e.tree_output[tree]
            out[i, first : first + e.width] += e.value[path(e, tree, row)[-1]]
    return out


def apply(e, X):
    """Leaf ids: (rows, trees)."""
    return np.array([[e.leaf_id[path(e, tree, row)[-1]] for tree in range(e.n_trees)] for row in X])


def path_attribution(e, node_value, X):
    """Attribution by path: (rows, columns, outputs)."""
    out = np.zeros((len(X), e.schema.n_columns, e.n_outputs))
    for i, row in enumerate(X):
        for tree in range(e.n_trees):
            outputs = slice(e.tree_output[tree], e.tree_output[tree] + e.width)
            nodes = path(e, tree, row)
            for parent, child in pairwise(nodes):
                out[i, e.feature[parent], outputs] += node_value[child] - node_value[parent]
    return out


def mean_value(e, node):
    """Cover-weighted mean of the leaves below a node: (width,)."""
    if e.feature[node] < 0:
        return e.value[node]
    left, right = e.left[node], e.right[node]
    total = e.cover[left] + e.cover[right]
    if total == 0:
        return (mean_value(e, left) + mean_value(e, right)) / 2
    return (e.cover[left] * mean_value(e, left) + e.cover[right] * mean_value(e, right)) / total


def conditional(e, node, row, known):
    """Expected value of a tree when only the `known` columns are: the game that path-dependent TreeSHAP plays."""
    if e.feature[node] < 0:
        return e.value[node]
    column, left, right = int(e.feature[node]), e.left[node], e.right[node]
    if column in known:
        return conditional(e, left if goes_left(e, node, row[column]) else right, row, known)
    share = e.cover[left] / (e.cover[left] + e.cover[right])
    return share * conditional(e, left, row, known) + (1 - share) * conditional(e, right, row, known)


def shapley(e, X):
    """Shapley values by their definition, over all coalitions: (rows, columns, outputs). For a handful of columns."""
    out = np.zeros((len(X), e.schema.n_columns, e.n_outputs))
    for tree in range(e.n_trees):
        root, end = int(e.tree_start[tree]), int(e.tree_start[tree + 1])
        outputs = slice(e.tree_output[tree], e.tree_output[tree] + e.width)
        players = sorted({int(f) for f in e.feature[root:end] if f >= 0})
        n = len(players)
        for i, row in enumerate(X):
            for player in players:
                others = [p for p in players if p != player]
                for size in range(n):
                    weight = factorial(size) * factorial(n - size - 1) / factorial(n)
                    for coalition in combinations(others, size):
                        with_it = conditional(e, root, row, {*coalition, player})
                        out[i, player, outputs] += weight * (with_it - conditional(e, root, row, set(coalition)))
    return out


# -- scores: the definition on the full trees x rows x features tensor -----------------------------------------------
def tensor(e, X, method):
    """Attribution of every tree on its own, in the units of the margin: (trees, rows, columns, outputs)."""
    parts = []
    for tree in range(e.n_trees):
        one = e.slice_trees(tree, tree + 1)
        if method == "treeshap":
            parts.append(shapley(one, X))
        else:
            means = np.array([mean_value(one, node) for node in range(one.n_nodes)])
            parts.append(path_attribution(one, one.node_value if method == "predecomp" else means, X))
    return np.array(parts)


def paths(e, X):
    """Nodes that every row visits: (tree, row, nodes from root to leaf)."""
    return [(tree, i, path(e, tree, row)) for tree in range(e.n_trees) for i, row in enumerate(X)]


def tree_values(e, X):
    """What every tree adds to the margin: (trees, rows, outputs)."""
    out = np.zeros((e.n_trees, len(X), e.n_outputs))
    for tree in range(e.n_trees):
        outputs = slice(e.tree_output[tree], e.tree_output[tree] + e.width)
        for i, row in enumerate(X):
            out[tree, i, outputs] = e.value[path(e, tree, row)[-1]]
    return out


def residuals(e, X, gradient, weight=None, base=None):
    """Minus the gradient at the margin before each round, times the weight: (rounds, rows, outputs)."""
    base = np.tile(e.base_score, (len(X), 1)) if base is None else base
    weight = np.ones(len(X)) if weight is None else weight
    values = tree_values(e, X)
    out = []
    for r in range(e.n_rounds):
        margin = base + values[e.tree_round < r].sum(axis=0)
        out.append(-gradient(margin) * weight[:, None])
    return np.array(out)


# -- the centred score: node values are means over the rows -----------------------------------------------------------
def node_means(e, X, residual, weight=None, share=None):
    """Weight of the rows in every node, their mean leaf value and mean residual: (n_nodes, width) each.

    residual: of `residuals`, weight included. share: (trees, rows) what a row counts for in a tree; None: 1. Means are
    0 where no row comes by.
    """
    total, value, push = (np.zeros((e.n_nodes, e.width)) for _ in range(3))
    weight = np.ones(len(X)) if weight is None else weight
    share = np.ones((e.n_trees, len(X))) if share is None else share
    for tree, i, nodes in paths(e, X):
        outputs = slice(e.tree_output[tree], e.tree_output[tree] + e.width)
        total[nodes] += share[tree, i] * weight[i]
        value[nodes] += share[tree, i] * weight[i] * e.value[nodes[-1]]
        push[nodes] += share[tree, i] * residual[e.tree_round[tree], i, outputs]
    reached = np.where(total > 0, total, 1.0)
    return total, value / reached, push / reached


def centred_tensor(e, X, weight=None):
    """`tensor` of the attribution whose node values are the means of the leaf values over the rows."""
    value = node_means(e, X, np.zeros((e.n_rounds, len(X), e.n_outputs)), weight)[1]
    out = np.zeros((e.n_trees, len(X), e.schema.n_columns, e.n_outputs))
    for tree, i, nodes in paths(e, X):
        outputs = slice(e.tree_output[tree], e.tree_output[tree] + e.width)
        for parent, child in pairwise(nodes):
            out[tree, i, e.feature[parent], outputs] += value[child] - value[parent]
    return out


def centred_shares(e, X, residual, weight=None, share=None):
    """Share of every round and row in the centred score, by its influence function: (rounds, rows, columns, outputs).

    (c_u - c_v)(g_i - g_v) + (g_u - g_v)(l_i - c_u) for every step of the row from a node v to its child u, times the
    weight of the row; l_i: its leaf value.
    """
    _, value, push = node_means(e, X, residual, weight, share)
    weight = np.ones(len(X)) if weight is None else weight
    share = np.ones((e.n_trees, len(X))) if share is None else share
    out = np.zeros((e.n_rounds, len(X), e.schema.n_columns, e.n_outputs))
    for tree, i, nodes in paths(e, X):
        outputs = slice(e.tree_output[tree], e.tree_output[tree] + e.width)
        w, g = share[tree, i] * weight[i], share[tree, i] * residual[e.tree_round[tree], i, outputs]
        for v, u in pairwise(nodes):
            term = (value[u] - value[v]) * (g - w * push[v]) + w * (push[u] - push[v]) * (e.value[nodes[-1]] - value[u])
            out[e.tree_round[tree], i, e.feature[v], outputs] += term
    return out


def centred_product(e, X, residual, weight=None, share=None):
    """Sum over the splits of (c_l - c_r)(g_l - g_r) W_l W_r / W: (rounds, columns, outputs)."""
    total, value, push = node_means(e, X, residual, weight, share)
    out = np.zeros((e.n_rounds, e.schema.n_columns, e.n_outputs))
    for node in np.flatnonzero(e.feature >= 0):
        left, right, tree = e.left[node], e.right[node], e.tree_of_node[node]
        both = np.where(total[node] > 0, total[left] * total[right] / np.where(total[node] > 0, total[node], 1), 0)
        outputs = slice(e.tree_output[tree], e.tree_output[tree] + e.width)
        gain = (value[left] - value[right]) * (push[left] - push[right]) * both
        out[e.tree_round[tree], e.feature[node], outputs] += gain
    return out


# -- the account: gradients averaged over the step of a round ---------------------------------------------------------
def steps(e, X):
    """What every round adds to the margin: (rounds, rows, outputs)."""
    values = tree_values(e, X)
    return np.array([values[e.tree_round == r].sum(axis=0) for r in range(e.n_rounds)])


def mean_residuals(e, X, gradient, weight=None, base=None, n_points=40):
    """`residuals` averaged over the step of each round, by Gauss-Legendre: (rounds, rows, outputs).

    For losses without kinks and steps of a few units 40 points leave rounding errors alone.
    """
    margin = np.tile(e.base_score, (len(X), 1)) if base is None else base
    weight = np.ones(len(X)) if weight is None else weight
    points, weights = np.polynomial.legendre.leggauss(n_points)
    out = []
    for step in steps(e, X):
        along = zip((points + 1) / 2, weights / 2, strict=True)
        out.append(-weight[:, None] * sum(w * gradient(margin + u * step) for u, w in along))
        margin = margin + step
    return np.array(out)


def paper_units(e):
    """One over the learning rate (and DART weight) in a tree's values; a forest's is a mean: (trees,)."""
    return 1 / e.tree_rate if e.averaged else 1 / (e.tree_rate * e.tree_weight)


def tree_inner(e, r, residual):
    """Share of every round and row in TreeInner, of `tensor` and `residuals`: (rounds, rows, columns, outputs)."""
    out = np.zeros((e.n_rounds, *r.shape[1:]))
    for tree in range(e.n_trees):
        out[e.tree_round[tree]] += r[tree] * residual[e.tree_round[tree]][:, None, :]
    return out


def gains(e, r, residual):
    """The paper's TreeInner: summed over the rows, every tree divided by its learning rate: (columns,)."""
    return tree_inner(e, paper_units(e)[:, None, None, None] * r, residual).sum(axis=(0, 1, 3))


def forest_inner(e, r, factor):
    """Share of every row in ForestInner, factor being the residuals or the label: (rows, columns, outputs)."""
    return r.sum(axis=0) * factor[:, None, :]


# -- sizes of shares ---------------------------------------------------------------------------------------------
def bin_of(values):
    """Bin of the size of each value, as in `sign_flips`; -1 if it is outside the bins and not counted."""
    index = _leading_bits(values, sign_flips.BITS)
    return np.where((index >= 0) & (index < sign_flips.N_BINS), index, -1)


def offset_of(values):
    """Where in its bin the size of each value is, from 0 to 2^OFFSET_BITS - 1."""
    return _leading_bits(values, sign_flips.BITS + sign_flips.OFFSET_BITS) & ((1 << sign_flips.OFFSET_BITS) - 1)


def _leading_bits(values, bits):
    double = np.abs(np.asarray(values, np.float64)).view(np.int64)
    return (double >> (52 - bits)) - ((1023 + sign_flips.LOWEST) << bits)
