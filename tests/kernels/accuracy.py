"""Errors of the kernels against exact fractions, and for TreeSHAP decimals of 60 digits; no kernel is called for them.

An error is the largest difference from the exact number, relative to a natural scale: the sizes of what is added up.
Models of one output with one tree per round, squared error; floats are the exact numbers that they are.
tests/kernels/test_accuracy.py holds a part to its bounds, benchmarks/accuracy.py measures all of it.
"""

from dataclasses import replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from math import comb

import numpy as np

from tests import oracle
from tests.forests import Recipe, make_model, make_trees
from tests.kernels.models import attribute, predict
from treeinner.losses import find_loss
from treeinner.read.columns import credit
from treeinner.read.trees import NodeValues
from treeinner.rows import read_rows
from treeinner.score.conclude import conclude
from treeinner.score.passes import leaf_pass, node_means, share_pass
from treeinner.score.spec import make_spec

U = 2.0**-53  # largest relative error of one rounding in float64
DIGITS = Context(prec=60)
SQUARED = {"told": "squared_error", "library": "xgboost", "name": "", "params": {}, "n_outputs": 1}


# -- models -----------------------------------------------------------------------------------------------------
def bushes(n_trees, depth=4, n_columns=6, seed=0, grow=0.9):
    """Random trees of a few leaves each."""
    return make_trees(Recipe(n_trees=n_trees, depth=depth, n_columns=n_columns, grow=grow), seed)


def rows(n, n_columns=6, seed=1):
    """Random rows."""
    return np.random.default_rng(seed).normal(size=(n, n_columns))


def target(trees, X, noise=1.0, seed=3):
    """A target that the model explains in part."""
    return predict(trees, X)[:, 0] + noise * np.random.default_rng(seed).normal(size=len(X))


def with_leaves(trees, value):
    """The trees with other leaf values, (nodes,); inner nodes get values of the same sizes."""
    value, leaf = np.asarray(value, float)[:, None], (trees.column < 0)[:, None]
    node_value = np.where(leaf, value, np.random.default_rng(5).permutation(value))
    return replace(trees, value=np.where(leaf, value, 0.0), node_values=NodeValues(node_value, np.ones(trees.n_trees)))


def with_covers(trees, ratio, empty=0.0, seed=0):
    """The trees with covers of siblings whose ratios are from 1 / ratio to ratio; some children have none."""
    rng, cover = np.random.default_rng(seed), np.ones(trees.n_nodes)
    for node in np.flatnonzero(trees.column >= 0):
        sides = (0.0 if rng.random() < empty else x for x in (ratio ** rng.uniform(-1, 1), 1.0))
        cover[trees.left[node]], cover[trees.right[node]] = sides
    return replace(trees, cover=cover)


# -- exact numbers ----------------------------------------------------------------------------------------------
def shares_of_cover(trees, node):
    """Parts of a split's cover that go left and right; halves where there is none."""
    left, right = (Decimal(float(trees.cover[child])) for child in (trees.left[node], trees.right[node]))
    return (left / (left + right), right / (left + right)) if left + right else (Decimal("0.5"),) * 2


def mean_values(trees, of=Decimal):
    """Cover-weighted mean of the leaves below every node, or of their sizes (of=abs)."""
    out = [Decimal(0)] * trees.n_nodes
    with localcontext(DIGITS):
        for node in reversed(range(trees.n_nodes)):  # children have larger numbers
            if trees.column[node] < 0:
                out[node] = of(Decimal(float(trees.value[node, 0])))
            else:
                left, right = shares_of_cover(trees, node)
                out[node] = left * out[trees.left[node]] + right * out[trees.right[node]]
    return out


def shapley(trees, row):
    """Shapley values of the game of path-dependent TreeSHAP, leaf by leaf: one number per column.

    The game of a leaf is its value times, for every player on its path, 1 or 0 (whether the row satisfies the player's
    splits) if the player is in the coalition, and the product of its cover shares if not.
    """
    out, waiting = [Decimal(0)] * trees.n_columns, [(int(root), {}) for root in trees.start[:-1]]
    with localcontext(DIGITS):
        while waiting:  # no recursion: chains are deep
            node, players = waiting.pop()
            if trees.column[node] < 0:
                value = Decimal(float(trees.value[node, 0]))
                for j, (z, o) in players.items():
                    out[j] += value * (o - z) * mean_over_orders([p for i, p in players.items() if i != j])
                continue
            column, left = int(trees.column[node]), oracle.goes_left(trees, node, row[trees.column[node]])
            sides = (trees.left[node], trees.right[node]), shares_of_cover(trees, node), (left, not left)
            for child, share, goes in zip(*sides, strict=True):
                z, o = players.get(column, (Decimal(1), True))
                waiting.append((int(child), {**players, column: (z * share, o and goes)}))
    return out


def mean_over_orders(others):
    """Mean over all orders of the players of the product of 1 or 0 (those before) and of shares (those after)."""
    sums = [Decimal(1)]  # by the size of the coalition: sums over all coalitions of that size
    for z, o in others:
        before = [Decimal(0), *(sums if o else [Decimal(0)] * len(sums))]
        sums = [without * z + with_it for without, with_it in zip([*sums, Decimal(0)], before, strict=True)]
    n = len(others)
    return sum(a / (comb(n, size) * (n + 1)) for size, a in enumerate(sums))


def centred(trees, X, y):
    """Shares of the rows in the centred score, (rows, columns), whose mean it is, and the scale of each row's.

    A row adds (c' - c)(g - m) + (m' - m)(l - c') on every step; the scale is the largest step from the root times the
    residuals, both counted from the root's means.
    """
    zero, leaf = Fraction(0), [Fraction(v) for v in trees.value[:, 0].tolist()]
    sums, ways = [[0, zero, zero] for _ in range(trees.n_nodes)], []
    for row, wanted in zip(X, y, strict=True):
        g, way = Fraction(float(wanted)) - Fraction(trees.base[0]), []
        for tree in range(trees.n_trees):
            nodes = oracle.path(trees, tree, row)
            way.append((nodes, g))
            for node in nodes:
                sums[node] = [a + b for a, b in zip(sums[node], (1, leaf[nodes[-1]], g), strict=True)]
            g -= leaf[nodes[-1]]
        ways.append(way)
    c, m = ([total[i] / max(total[0], 1) for total in sums] for i in (1, 2))
    shares, scales = [[zero] * trees.n_columns for _ in X], [0.0] * len(X)
    for i, way in enumerate(ways):
        for nodes, g in way:
            for v, u in pairwise(nodes):
                shares[i][trees.column[v]] += (c[u] - c[v]) * (g - m[v]) + (m[u] - m[v]) * (leaf[nodes[-1]] - c[u])
            far, moved = (max(abs(float(means[n] - means[nodes[0]])) for n in nodes) for means in (c, m))
            scales[i] += far * (abs(float(g - m[nodes[0]])) + moved)
    return shares, scales


# -- errors -----------------------------------------------------------------------------------------------------
def worst(found, exact, scale):
    """Largest difference, relative to the scale."""
    return float(max(abs(type(x)(f) - x) for f, x in zip(np.ravel(found).tolist(), exact, strict=True))) / scale


def margin_error(trees, X):
    """Of predictions; scale: the base score and the leaves that the row reaches, by their sizes."""
    errors = []
    for row, found in zip(X, predict(trees, X), strict=True):
        leaves = [float(trees.value[oracle.path(trees, tree, row)[-1], 0]) for tree in range(trees.n_trees)]
        parts = [float(trees.base[0]), *leaves]
        errors.append(worst(found, [sum(map(Fraction, parts))], np.abs(parts).sum()))
    return max(errors)


def path_error(trees, X, method="predecomp"):
    """Of attributions by path; scale: the node values on the row's paths, by their sizes."""
    value = mean_values(trees) if method == "saabas" else list(map(Fraction, trees.known.value[:, 0].tolist()))
    errors = []
    with localcontext(DIGITS):
        for row, found in zip(X, attribute(trees, X, method)[0], strict=True):
            exact, scale = [type(value[0])(0)] * trees.n_columns, 0.0
            for nodes in (oracle.path(trees, tree, row) for tree in range(trees.n_trees)):
                scale += float(sum(abs(value[node]) for node in nodes))
                for parent, child in pairwise(nodes):
                    exact[trees.column[parent]] += value[child] - value[parent]
            errors.append(worst(found, exact, scale))
    return max(errors)


def shap_error(trees, X):
    """Of TreeSHAP; scale: the largest |leaf| of every tree, added up."""
    scale = float(np.maximum.reduceat(np.abs(trees.value[:, 0]), trees.start[:-1]).sum())
    found = attribute(trees, X, "treeshap")[0]
    return max(worst(values, shapley(trees, row), scale) for values, row in zip(found, X, strict=True))


def score_errors(trees, X, y, n=5):
    """Of the centred score, and of the shares of n rows; scale: as `centred` says, its mean for the score."""
    model = make_model(trees, find_loss(**SQUARED))
    stream = read_rows(model, X, y)
    (data,), spec = stream, make_spec(model, credit(model, None, None), score="tree_inner", method="centred")
    leaf, found = leaf_pass(model, spec, data), np.zeros((1, len(X), trees.n_columns, 1))
    centre = node_means(model, spec, leaf)
    share_pass(model, spec, data, centre, keep=found)
    exact, scales = centred(trees, X, y)
    mean = [sum(column) / len(X) for column in zip(*exact, strict=True)]
    of_score = worst(conclude(model, spec, leaf, None, centre).scores, mean, np.mean(scales))
    return of_score, max(worst(found[0, i], exact[i], scales[i]) for i in range(min(n, len(X))))
