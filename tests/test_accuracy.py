"""Errors of the kernels against exact fractions and decimals of 60 digits: the bounds that docs/accuracy.md states.

U is 2^-53, the error of one rounding. Scales are in tests/accuracy.py. A part of what benchmarks/accuracy.py measures.
"""

import warnings
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import treeinner as ti
from treeinner.compiled.quadrature import NUMPY_POINTS, quadrature
from treeinner.ensemble.ensemble import RARE
from treeinner.errors import TreeInnerWarning

from . import accuracy, exact_oracle, oracle
from .accuracy import U, bushes, chain, chain_rows, rows, target

# Roundings of a sum of n numbers of one size are random: their total grows with the square root of n, and relative to
# the sum of the sizes it shrinks. Seen: 1.4 U at most.
FEW = 4 * U


def rare_leaves(share, seed=0):
    """Return trees with leaves that have `share` of their sibling's cover, and values of 1 / share."""
    e, rng = bushes(10, depth=5, seed=seed), np.random.default_rng(seed)
    cover, value = e.cover.copy(), np.where(e.feature < 0, rng.normal(size=e.n_nodes), 0.0)
    for i in np.flatnonzero(e.feature >= 0):
        a, b = (e.left[i], e.right[i]) if rng.random() < 0.5 else (e.right[i], e.left[i])
        if e.feature[a] < 0 and rng.random() < 0.3:
            cover[a], value[a] = share * cover[b], value[a] / share
    return accuracy.with_leaves(replace(e, cover=cover), value)


# -- the oracles ------------------------------------------------------------------------------------------------------
def test_decimals_are_fractions():
    e, X = bushes(2, depth=4, n_columns=4), rows(2, 4)
    for row in X:
        exact = exact_oracle.shapley(e, row, Fraction)
        for found, x in zip(exact_oracle.shapley(e, row), exact, strict=True):
            assert abs(Fraction(found) - x) < Fraction(1, 10**50)
    for found, x in zip(exact_oracle.mean_values(e), exact_oracle.mean_values(e, Fraction, Fraction), strict=True):
        assert abs(Fraction(found) - x) < Fraction(1, 10**50)


def test_exact_shapley_values_are_their_definition():
    e, X = bushes(2, depth=4, n_columns=4), rows(3, 4)
    exact = [[float(x) for x in exact_oracle.shapley(e, row, Fraction)] for row in X]
    assert np.allclose(exact, oracle.shapley(e, X)[:, :, 0], rtol=0, atol=1e-14)


# -- attributions -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n_trees", [1, 30, 1000])
def test_many_trees(n_trees):
    e, X = bushes(n_trees), rows(3)
    assert accuracy.margin_error(e, X) <= FEW
    assert accuracy.path_error(e, X) <= FEW
    assert accuracy.path_error(e, X, "saabas") <= FEW
    assert accuracy.base_error(e) <= FEW
    assert accuracy.shap_error(e, X[:2]) <= FEW


@pytest.mark.parametrize(("depth", "n_columns"), [(1, 1), (10, 10), (30, 30), (48, 48), (100, 3), (300, 2)])
@pytest.mark.parametrize("share", [None, 0.999, 0.001])
def test_deep_trees(depth, n_columns, share):
    e, X = chain(depth, n_columns, share=share), chain_rows(depth, n_columns)
    assert accuracy.path_error(e, X) <= FEW
    assert accuracy.path_error(e, X, "saabas") <= FEW
    assert accuracy.shap_error(e, X[:2] if n_columns > 30 else X) <= FEW


@pytest.mark.parametrize("size", [1e3, 1e9, 1e15])
def test_leaves_that_cancel(size):
    e, X = accuracy.cancelling(20, size), rows(3)
    for error in (accuracy.margin_error, accuracy.path_error, accuracy.shap_error):
        assert error(e, X) <= FEW


def test_a_large_base_value_takes_no_digits_from_attributions():
    near, X = bushes(50), rows(5)
    far = replace(near, base_score=np.array([1e9]))
    for method in ("predecomp", "saabas", "treeshap"):
        assert np.array_equal(accuracy.attributed(near, X, method)[0], accuracy.attributed(far, X, method)[0])
        assert accuracy.local_accuracy_error(far, X, method) <= FEW
    assert accuracy.margin_error(far, X) <= FEW


@pytest.mark.parametrize("ratio", [1e3, 1e12, 1e30])
@pytest.mark.parametrize("empty", [0.0, 0.2])
def test_absurd_covers(ratio, empty):
    e, X = accuracy.with_covers(bushes(10, depth=5), ratio, empty=empty), rows(3)
    assert accuracy.shap_error(e, X) <= FEW
    assert accuracy.path_error(e, X, "saabas") <= FEW
    assert accuracy.base_error(e) <= FEW
    deep = accuracy.with_covers(chain(30, 30), ratio, empty=empty)
    assert accuracy.shap_error(deep, chain_rows(30, 30)) <= FEW


@pytest.mark.parametrize("share", [1e-2, 1e-8, 1e-14, 1e-20])
@pytest.mark.parametrize("seed", range(3))
def test_a_rare_leaf_of_huge_value_keeps_its_part_of_the_mean(share, seed):
    """The scale is the cover-weighted mean of |leaf|, in which the huge leaf counts as the others do."""
    e = rare_leaves(share, seed)
    # From 2^-10 of the cover on, the share of the sibling is subtracted from 1: an error of U, times the huge leaf.
    bound = FEW + (U / share if share > RARE else 0)
    assert accuracy.base_error(e) <= bound
    assert accuracy.path_error(e, rows(3), "saabas") <= bound
    assert accuracy.shap_error(e, rows(3)) <= FEW


def test_points_and_weights_of_the_quadrature_are_rounded_exact_numbers():
    for n in (NUMPY_POINTS, NUMPY_POINTS + 1, 20, 51):
        u, w = quadrature(n)
        assert (np.diff(u) > 0).all()
        for degree in (0, 1, n, 2 * n - 1):  # exact for polynomials of degree 2 n - 1
            exact = sum(Decimal(float(b)) * Decimal(float(a)) ** degree for a, b in zip(u, w, strict=True))
            # A point is off by U / 2 at most, its power by `degree` times that, relative to the power; numpy's by 12 U.
            assert abs(float(exact) * (degree + 1) - 1) <= (12 if n <= NUMPY_POINTS else 1) * (degree + 2) * U


# -- scores -----------------------------------------------------------------------------------------------------------
# Gradients are held in units of 2^-32 of 16 to 32 times the largest leaf, 8e-9 of it; residuals are off by half a unit
# at most, and at random. Seen: 2e-9 with ten rows, 3e-11 with a hundred.
SCORE = 4e-9
# Shares of small trees are added in float32, 2^-24 each. Seen: 4e-8; in float64 the leaf sums above are what is left.
SHARE_FLOAT32, SHARE_FLOAT64 = 2e-7, 2e-8


@pytest.mark.parametrize(("n_trees", "n_rows"), [(1, 10), (20, 300), (200, 40)])
def test_centred_scores_and_shares(n_trees, n_rows):
    e, X = bushes(n_trees), rows(n_rows)
    y = target(e, X)
    assert accuracy.score_error(e, X, y) <= SCORE
    assert accuracy.share_error(e, X, y, 5) <= SHARE_FLOAT32


def test_shares_of_large_trees_are_added_in_float64():
    e, X = bushes(3, depth=8, grow=1.0), rows(60)
    assert np.diff(e.forest.first_leaf).min() > 64
    assert accuracy.share_error(e, X, target(e, X), 5) <= SHARE_FLOAT64


@pytest.mark.parametrize("base", [1e3, 1e6, 1e9])
def test_scores_far_from_zero(base):
    """Residuals are y less a margin near `base`: 2^-53 of it is lost in every round."""
    e, X = replace(bushes(50), base_score=np.array([base])), rows(60)
    y = target(e, X)
    assert accuracy.score_error(e, X, y) <= SCORE + 50 * base * U
    assert accuracy.share_error(e, X, y, 5) <= SHARE_FLOAT32 + 50 * base * U


def with_huge_leaf(size, X):
    """Return trees of which one has a huge leaf, which none of the rows reaches."""
    e = bushes(20)
    reached = {oracle.path(e, tree, row)[-1] for row in X for tree in range(e.n_trees)}
    value = e.value[:, 0].copy()
    value[next(i for i in np.flatnonzero(e.feature < 0) if i not in reached)] = size
    return accuracy.with_leaves(e, value)


@pytest.mark.parametrize(("size", "bound"), [(1e3, 1e-7), (1e6, 2e-6), (1e9, 4e-6)])  # seen: 4e-9, 4e-7, 7e-7
def test_a_huge_leaf_that_no_row_reaches_costs_few_digits_of_the_scores(size, bound):
    X = rows(200)
    e = with_huge_leaf(size, X)
    y = target(e, X)
    assert accuracy.score_error(e, X, y) <= bound
    assert accuracy.share_error(e, X, y, 5) <= 10 * bound + SHARE_FLOAT32
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ti.importance(e, X, y, objective="squared_error")
    assert not any("out of proportion" in str(one.message) for one in told)


@pytest.mark.parametrize("size", [1e13, 1e18])
@pytest.mark.parametrize("std_errors", [False, True])
def test_scores_that_lost_their_digits_to_a_huge_leaf_say_so(size, std_errors):
    X = rows(200)
    e = with_huge_leaf(size, X)
    with pytest.warns(TreeInnerWarning, match="far out of proportion to the others") as told:
        found = ti.importance(e, X, target(e, X), objective="squared_error", std_errors=std_errors)
    assert any(str(one.message) in found.notes for one in told)


# -- sums and residuals -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("spread", [0, 20, 60])
def test_exact_sums_are_exact_to_their_last_limb(spread):
    rng = np.random.default_rng(spread)
    values = rng.normal(size=2000) * 2.0 ** -rng.uniform(0, spread, 2000)
    assert accuracy.exact_sum_error(values) <= 1
    assert accuracy.exact_sum_error(np.concatenate([values, -values[::-1], [2.0**-40]])) <= 1


def test_residuals():
    margins = np.concatenate([np.linspace(-700, 700, 101), np.linspace(-3, 3, 101), [0.0, 1e-300, -1e-9]])
    for error in accuracy.residual_errors(margins).values():
        assert error <= FEW  # the exponential is good to about a unit
