"""Shares of single rows: they add up to the scores, and give the statistics of `importance` back."""

import numpy as np
import pytest
import xgboost as xgb

import treeinner as ti
from treeinner.scores.row_shares import importance_of_shares, row_shares

RNG = np.random.default_rng(3)
X = RNG.normal(size=(900, 6))
Y = X[:, 0] + np.sin(X[:, 1]) * X[:, 2] + RNG.normal(size=900)
CLASSES = np.digitize(Y, [-1, 1])
WEIGHT = np.where(np.arange(300) % 7 == 0, 0.0, RNG.uniform(0.5, 2.0, 300))

SETTINGS = [
    {}, {"score": "loss"}, {"method": "predecomp"}, {"method": "treeshap"}, {"sample_weight": WEIGHT},
    {"feature_groups": {"pair": [0, 1]}},
]  # fmt: skip


@pytest.fixture(scope="module")
def regressor():
    return xgb.XGBRegressor(n_estimators=40, max_depth=3).fit(X[:600], Y[:600])


@pytest.fixture(scope="module")
def classifier():
    return xgb.XGBClassifier(n_estimators=20, max_depth=3).fit(X[:600], CLASSES[:600])


@pytest.mark.parametrize("settings", SETTINGS, ids=["centred", "loss", "predecomp", "treeshap", "weights", "groups"])
def test_shares_add_up_to_the_scores(regressor, settings):
    found = row_shares(regressor, X[600:], Y[600:], **settings)
    imp = ti.importance(regressor, X[600:], Y[600:], **settings)
    assert np.array_equal(found.importance.scores, imp.scores)
    # The core adds the shares of small trees in float32.
    total = found.shares.sum(axis=(0, 2)) / imp.sum_of_weights
    np.testing.assert_allclose(total, imp.scores, atol=1e-5 * np.abs(imp.scores).max())


@pytest.mark.parametrize("settings", SETTINGS, ids=["centred", "loss", "predecomp", "treeshap", "weights", "groups"])
def test_shares_give_the_statistics_back(regressor, settings):
    found = row_shares(regressor, X[600:], Y[600:], **settings)
    imp = ti.importance(regressor, X[600:], Y[600:], **settings)
    again = importance_of_shares(found.shares, found.weight, like=imp, score=(imp.scores * imp.sum_of_weights)[:, None])
    np.testing.assert_allclose(again.scores, imp.scores, rtol=1e-12)
    # Sums of squares are in other units, and exact in each.
    np.testing.assert_allclose(again.std_errors, imp.std_errors, rtol=1e-9)
    # Sizes are counted in other bins where the units differ by no power of two; they do, so only rounding is left.
    np.testing.assert_allclose(again.p_values, imp.p_values, rtol=1e-6)
    assert (again.n_rows, again.sum_of_weights) == (imp.n_rows, pytest.approx(imp.sum_of_weights))


def test_clusters_and_outputs(classifier):
    labels = np.arange(300) // 5
    imp = ti.importance(classifier, X[600:], CLASSES[600:], clusters=labels)
    found = row_shares(classifier, X[600:], CLASSES[600:])
    again = importance_of_shares(found.shares, None, like=imp, clusters=labels)
    np.testing.assert_allclose(again.std_errors, imp.std_errors, rtol=1e-5)  # centred by sums in float32
    np.testing.assert_allclose(again.outputs.std_error, imp.outputs.std_error, rtol=1e-5)


def test_shares_that_are_not_finite_are_refused(classifier):
    imp = ti.importance(classifier, X[600:], CLASSES[600:])
    with pytest.raises(ti.DataError, match="not finite"):
        importance_of_shares(np.full((3, 6, 3), np.nan), None, like=imp)
