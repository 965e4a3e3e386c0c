"""Errors of the kernels against exact numbers: models that are hard to add up, and what is measured on them.

An error is the largest difference from the exact number, relative to a natural scale: what the numbers that were added
up have as sizes. `tests/test_accuracy.py` holds a part to its bounds, `benchmarks/accuracy.py` measures all of it.
"""

import warnings
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np

import treeinner as ti
from treeinner import compiled
from treeinner.attribution import root_values
from treeinner.compiled.forest import LOSSES
from treeinner.scores.exact import ExactSums
from treeinner.scores.row_shares import row_shares
from treeinner.tables import read_table

from . import exact_oracle, oracle
from .forests import Recipe, make_ensemble

U = 2.0**-53  # largest relative error of one rounding in float64


# -- models ----------------------------------------------------------------------------------------------------------
def bushes(n_trees, depth=4, n_columns=6, seed=0, grow=0.9):
    """Random trees of a few leaves each."""
    return make_ensemble(Recipe(n_trees=n_trees, depth=depth, n_columns=n_columns, grow=grow), seed)


def chain(depth, n_columns, seed=0, share=0.5):
    """A tree that is one path with a leaf at every split; `share` of a split's cover goes to the leaf.

    A row of ones goes all the way down, a row with 0 in a column leaves at the first split on it.
    """
    rng, n = np.random.default_rng(seed), 2 * depth + 1
    base = make_ensemble(Recipe(n_trees=1, depth=0, n_columns=n_columns), seed)
    feature, left, right = (np.full(n, -1) for _ in range(3))
    inner = np.arange(depth) * 2
    feature[inner], left[inner], right[inner] = np.arange(depth) % n_columns, inner + 1, inner + 2
    threshold = np.where(feature >= 0, 0.5, np.nan)
    value = np.where(feature < 0, rng.normal(size=n), 0.0)[:, None]
    cover = np.ones(n)
    for i in inner:
        part = rng.uniform(0.05, 0.95) if share is None else share
        cover[i + 1], cover[i + 2] = part * cover[i], (1 - part) * cover[i]
    return replace(
        base, tree_start=[0, n], feature=feature, threshold=threshold, left=left, right=right, value=value,
        missing_left=np.zeros(n, bool), category_set=np.full(n, -1), cover=cover, gain=np.zeros(n),
        node_value=np.where(feature[:, None] < 0, value, rng.normal(size=(n, 1))),
        leaf_id=np.where(feature < 0, np.arange(n), -1),
    )  # fmt: skip


def chain_rows(depth, n_columns):
    """Rows that leave a chain at its end, in its middle and near its start."""
    X = np.ones((3, n_columns))
    X[1, min(depth // 2, n_columns - 1)] = X[2, min(1, n_columns - 1)] = 0.0
    return X


def rows(n, n_columns=6, seed=1):
    """Random rows."""
    return np.random.default_rng(seed).normal(size=(n, n_columns))


def with_leaves(e, value):
    """Return the ensemble with other leaf values, (n_nodes,); inner nodes get values of the same sizes."""
    value = np.asarray(value, float)[:, None]
    inner = np.random.default_rng(5).permutation(value[:, 0])[:, None]
    leaf = (e.feature < 0)[:, None]
    return replace(e, value=np.where(leaf, value, 0.0), node_value=np.where(leaf, value, inner))


def cancelling(n_trees, size, seed=0):
    """Return trees in pairs: each leaf of `size` is taken back by the next tree, but for a number near 1."""
    e = bushes(2 * n_trees, depth=3, seed=seed)
    sign = np.where(e.tree_of_node % 2, -1.0, 1.0)
    return with_leaves(e, sign * size + np.random.default_rng(seed).normal(size=e.n_nodes))


def with_covers(e, ratio, seed=0, empty=0.0):
    """Return the ensemble with covers whose ratios of siblings are from 1 / ratio to ratio; some children have none."""
    rng, cover = np.random.default_rng(seed), np.ones(e.n_nodes)
    for node in np.flatnonzero(e.feature >= 0):
        r = ratio ** rng.uniform(-1, 1)
        cover[e.left[node]], cover[e.right[node]] = (0.0 if rng.random() < empty else x for x in (r, 1.0))
    return replace(e, cover=cover)


# -- errors of attributions --------------------------------------------------------------------------------------------
def attributed(e, X, method):
    """Values by the kernels, (rows, columns), and the base value."""
    value = e.node_value if method == "predecomp" else e.mean_value
    paths = None if method == "treeshap" else e.forest.path_table(value)
    found = compiled.attribute(e.forest, read_table(X, e.schema), paths)
    return found[:, :, 0], float((e.base_score + root_values(e, value))[0])


def largest_leaves(e):
    """Largest |leaf| of every tree, added up."""
    size = np.where(e.feature < 0, np.abs(e.value[:, 0]), 0.0)
    return float(np.maximum.reduceat(size, e.tree_start[:-1]).sum())


def _worst(found, exact, scale):
    """Largest difference, relative to the scale."""
    pairs = zip(np.ravel(found).tolist(), exact, strict=True)
    return max(abs(type(x)(f) - x) for f, x in pairs).__float__() / scale


def margin_error(e, X):
    """Of predictions; scale: the base score and the leaves that the row reaches, by their sizes."""
    worst = 0.0
    for row, found in zip(X, e.predict(X), strict=True):
        leaves = [e.value[oracle.path(e, tree, row)[-1], 0] for tree in range(e.n_trees)]
        scale = abs(e.base_score[0]) + np.abs(leaves).sum()
        worst = max(worst, _worst(found, [exact_oracle.margin(e, row)], scale))
    return worst


def path_error(e, X, method="predecomp"):
    """Of attributions by path; scale: the node values on the row's paths, by their sizes."""
    stored = [Fraction(value) for value in e.node_value[:, 0].tolist()]
    exact_value = stored if method == "predecomp" else exact_oracle.mean_values(e)
    found, worst = attributed(e, X, method)[0], 0.0
    for row, values in zip(X, found, strict=True):
        nodes = [node for tree in range(e.n_trees) for node in oracle.path(e, tree, row)]
        scale = float(sum(abs(exact_value[node]) for node in nodes))
        worst = max(worst, _worst(values, exact_oracle.path_attribution(e, exact_value, row), scale))
    return worst


def base_error(e):
    """Of the base value of Saabas and TreeSHAP; scale: the base score and the trees' cover-weighted means of |leaf|."""
    sizes = exact_oracle.mean_values(e, of=abs)
    exact = exact_oracle.mean_values(e)
    roots, base = e.tree_start[:-1].tolist(), Decimal(float(e.base_score[0]))
    scale = abs(base) + sum(sizes[root] for root in roots)
    found = attributed(e, rows(1, e.schema.n_columns), "treeshap")[1]
    return _worst(found, [base + sum(exact[root] for root in roots)], float(scale))


def shap_error(e, X, found=None):
    """Of TreeSHAP; scale: the largest |leaf| of every tree, added up."""
    found = attributed(e, X, "treeshap")[0] if found is None else found
    return max(_worst(v, exact_oracle.shapley(e, row), largest_leaves(e)) for v, row in zip(found, X, strict=True))


def local_accuracy_error(e, X, method):
    """Of base value plus attributions less the prediction; scale: the largest |leaf| of every tree, and the base."""
    values, base = attributed(e, X, method)
    scale = abs(e.base_score[0]) + largest_leaves(e)
    return float(np.abs(base + values.sum(axis=1) - e.predict(X)).max()) / scale


# -- errors of scores --------------------------------------------------------------------------------------------------
def target(e, X, noise=1.0, seed=3):
    """A target that the model explains in part."""
    return e.predict(X) + noise * np.random.default_rng(seed).normal(size=len(X))


def score_error(e, X, y):
    """Of the centred score; scale: mean over the rows of the sum over the trees of |leaf - its mean| |residual|."""
    exact = exact_oracle.Centred(e, X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ti.importance(e, X, y, objective="squared_error", std_errors=False).scores
    roots, scale = e.tree_start[:-1].tolist(), 0.0
    for way, residual in zip(exact.paths, exact.residual, strict=True):
        for root, nodes, g in zip(roots, way, residual, strict=True):
            scale += abs(float(exact.leaf_value[nodes[-1]] - exact.mean[root])) * abs(float(g))
    return _worst(found, exact.scores(), scale / len(X))


def share_error(e, X, y, n=20):
    """Of row shares of n rows; scale: as for the score, of the row, with means counted in."""
    exact = exact_oracle.Centred(e, X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = row_shares(e, X, y, objective="squared_error").shares[:, :, 0]
    worst = 0.0
    for row in range(min(n, len(X))):
        scale = 0.0
        for root, nodes, g in zip(e.tree_start[:-1].tolist(), exact.paths[row], exact.residual[row], strict=True):
            far = max(abs(float(exact.mean[node] - exact.mean[root])) for node in nodes)
            pushed = max(abs(float(exact.mean_push[node] - exact.mean_push[root])) for node in nodes)
            scale += far * (abs(float(g - exact.mean_push[root])) + pushed)
        worst = max(worst, _worst(found[row], exact.shares(row), scale))
    return worst


def exact_sum_error(values):
    """Of sums that do not depend on the order, as they are held; scale: 2^-89 of the unit per number."""
    exponent = -int(np.frexp(np.abs(values).max())[1])
    sums = ExactSums.zeros(1, exponent)
    sums.add(values[:, None])
    units = (40, 8, -24, -56, -88)
    held = sum(int(limb) * Fraction(2) ** (unit - exponent) for limb, unit in zip(sums.limbs[0], units, strict=True))
    exact = sum(map(Fraction, values.tolist()))
    return float(abs(held - exact) / (len(values) * Fraction(2) ** (-89 - exponent)))


# -- errors of residuals -----------------------------------------------------------------------------------------------
def residual_errors(margins):
    """Of the losses that the core knows, by loss; scale: |target| + |prediction|, for probabilities 1."""
    e = make_ensemble(Recipe(n_trees=3, depth=1, n_outputs=3), 0)
    one = make_ensemble(Recipe(n_trees=1, depth=1), 0)
    n, out = len(margins), {}
    for name, expected in (("logistic", exact_oracle.probability), ("poisson", exact_oracle.exponential)):
        for y in (0.0, 1.0):
            got = _residuals(one, name, np.full((1, n), y), margins[None])[0]
            exact = [expected(m) for m in margins.tolist()]
            scale = [1.0 if name == "logistic" else float(x) + y for x in exact]
            errors = [_worst(g, [type(x)(y) - x], s) for g, x, s in zip(got, exact, scale, strict=True)]
            out[name] = max(out.get(name, 0.0), *errors)
    three = np.stack([margins, margins[::-1], np.roll(margins, n // 3)])
    got = _residuals(e, "softmax", np.zeros((1, n)), three)
    for i in range(n):
        p = exact_oracle.softmax(three[:, i])
        exact = [(k == 0) - part for k, part in enumerate(p)]
        out["softmax"] = max(out.get("softmax", 0.0), _worst(got[:, i], exact, 1.0))
    return out


def _residuals(e, loss, y, margins):
    """Of the core: (outputs, rows)."""
    f, n = e.forest, margins.shape[1]
    codes = f.bin(np.zeros((n, e.schema.n_columns)))
    margin, out = (compiled.aligned((e.n_outputs, compiled.padded_rows(n))) for _ in range(2))
    margin[:, :n] = margins
    f.core.residuals(codes, LOSSES[loss], 1.0, y, None, margin, out)
    return out[:, :n]
