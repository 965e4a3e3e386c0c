"""Errors of the kernels against exact numbers: the bounds of docs/evidence/accuracy.md. U is 2^-53, one rounding."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from tests import oracle
from tests.kernels import accuracy
from tests.kernels.accuracy import U, bushes, rows, target
from tests.kernels.models import attribute, chain
from treeinner.kernels.quadrature import NUMPY_POINTS, quadrature

# Roundings of a sum of n numbers of one size are random: their total grows with the square root of n, and relative to
# the sum of the sizes it shrinks. Seen: 1.4 U at most.
FEW = 4 * U
# Gradients are held in units of 2^-32 of 16 to 32 times the largest leaf, and residuals are off by half a unit at most.
SCORE = 4e-9
# Shares of small trees are added in float32, 2^-24 each. Seen: 4e-8; in float64 the leaf sums above are what is left.
SHARE_FLOAT32, SHARE_FLOAT64 = 2e-7, 2e-8


def test_exact_shapley_values_are_their_definition():
    trees, X = bushes(2, depth=4, n_columns=4), rows(3, 4)
    exact = [[float(x) for x in accuracy.shapley(trees, row)] for row in X]
    assert np.allclose(exact, oracle.shapley(trees, X)[:, :, 0], rtol=0, atol=1e-14)


def check(trees, X):
    assert accuracy.margin_error(trees, X) <= FEW
    assert accuracy.path_error(trees, X) <= FEW
    assert accuracy.path_error(trees, X, "saabas") <= FEW
    assert accuracy.shap_error(trees, X[:2]) <= FEW


@pytest.mark.parametrize("n_trees", [1, 30, 1000])
def test_many_trees(n_trees):
    check(bushes(n_trees), rows(3))


@pytest.mark.parametrize(("depth", "n_columns"), [(1, 1), (10, 10), (30, 30), (100, 3), (300, 2)])
@pytest.mark.parametrize("share", [None, 0.999, 0.001])
def test_deep_trees(depth, n_columns, share):
    X = np.ones((2, n_columns))
    X[1, min(depth // 2, n_columns - 1)] = 0.0  # leaves the chain in its middle
    check(chain(depth, n_columns, share=share, thresholds=0.5), X)


@pytest.mark.parametrize("size", [1e3, 1e9, 1e15])
def test_leaves_that_cancel(size):
    trees = bushes(40, depth=3)
    sign = np.where(trees.tree_of_node % 2, -1.0, 1.0)
    check(accuracy.with_leaves(trees, sign * size + np.random.default_rng(0).normal(size=trees.n_nodes)), rows(3))


def test_a_large_base_value_takes_no_digits_from_attributions():
    near, X = bushes(50), rows(5)
    far = replace(near, base=[1e9])
    for method in ("predecomp", "saabas", "treeshap"):
        assert np.array_equal(attribute(near, X, method)[0], attribute(far, X, method)[0])


@pytest.mark.parametrize("ratio", [1e3, 1e30])
@pytest.mark.parametrize("empty", [0.0, 0.2])
def test_absurd_covers(ratio, empty):
    check(accuracy.with_covers(bushes(10, depth=5), ratio, empty), rows(3))


@pytest.mark.parametrize("share", [1e-2, 1e-8, 1e-14])
def test_rare_leaves_of_huge_value_cost_treeshap_no_digits(share):
    trees = bushes(10, depth=5)
    cover, value = trees.cover.copy(), trees.value[:, 0].copy()
    split = np.flatnonzero((trees.column >= 0) & (trees.column[trees.right] < 0))[::3]
    cover[trees.right[split]], value[trees.right[split]] = share * cover[trees.left[split]], 1 / share
    assert accuracy.shap_error(accuracy.with_leaves(replace(trees, cover=cover), value), rows(3)) <= FEW


def test_points_and_weights_of_the_quadrature_are_rounded_exact_numbers():
    for n in (NUMPY_POINTS, NUMPY_POINTS + 1, 20, 51):
        u, w = quadrature(n)
        assert (np.diff(u) > 0).all()
        for degree in (0, 1, n, 2 * n - 1):  # exact for polynomials of degree 2 n - 1
            exact = sum(Decimal(float(b)) * Decimal(float(a)) ** degree for a, b in zip(u, w, strict=True))
            # A point is off by U / 2 at most, its power by `degree` times that, relative to the power; numpy's by 12 U.
            assert abs(float(exact) * (degree + 1) - 1) <= (12 if n <= NUMPY_POINTS else 1) * (degree + 2) * U


@pytest.mark.parametrize(
    ("trees", "n_rows", "base", "of_share"),
    [
        ({"n_trees": 1}, 10, 0.0, SHARE_FLOAT32),
        ({"n_trees": 20}, 200, 0.0, SHARE_FLOAT32),
        ({"n_trees": 3, "depth": 8, "grow": 1.0}, 60, 0.0, SHARE_FLOAT64),  # more than 64 leaves
        ({"n_trees": 50}, 60, 1e6, SHARE_FLOAT32),  # residuals are y less a margin near it: 2^-53 is lost in a round
    ],
)
def test_centred_scores_and_shares(trees, n_rows, base, of_share):
    trees, X = replace(bushes(**trees), base=[base]), rows(n_rows)
    score, share = accuracy.score_errors(trees, X, target(trees, X))
    assert score <= SCORE + trees.n_trees * base * U
    assert share <= of_share + trees.n_trees * base * U
