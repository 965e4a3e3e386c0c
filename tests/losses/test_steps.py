"""Gradients averaged over a step: what score="loss" multiplies attributions by."""

import numpy as np
import pytest

from tests.losses.cases import CASES, each, loss_of, make, rows_of
from treeinner.errors import DataError, UnsupportedModelError
from treeinner.losses import Loss, forest_error
from treeinner.losses.quadrature import gauss

LARGEST = 3.0
REFERENCE = gauss(64, 64)  # points on the way, so many that no loss needs more between its kinks


def steps_of(m, seed=2):
    """Steps of many sizes, some 0."""
    rng = np.random.default_rng(seed)
    size = rng.choice([0.0, 1e-9, 1e-4, 0.3, 1.5], len(m))
    return np.clip(rng.normal(size=m.shape) * size[:, None], -LARGEST, LARGEST)


@pytest.mark.parametrize("weighted", [False, True])
@each(CASES)
def test_step_times_mean_gradient_is_the_change_of_the_loss(case, weighted):
    loss, y, m = rows_of(case)
    weighted = weighted and loss.multiplies_weights
    step, weight = steps_of(m), np.random.default_rng(3).random(len(m)) + 0.5 if weighted else None
    mean = loss.mean_gradients(y, m, step, weight=weight, largest=LARGEST)
    before, after = (loss.losses(y, at, weight=weight) for at in (m, m + step))
    size = np.abs(before) + np.abs(after) + np.abs(mean).max(axis=1) * np.abs(m).max(axis=1)
    # Rounding of the two losses and of their margins; softmax's rule has 1e-12.
    assert np.abs((step * mean).sum(axis=1) - (after - before)).max() <= 1e-12 * size.max()
    still = ~step.any(axis=1)
    np.testing.assert_allclose(mean[still], loss.gradients(y, m, weight=weight)[still], rtol=1e-14, atol=1e-15)


@each([case for case in CASES if case[1] not in ("reg:squaredlogerror", "survival:aft")])  # whose gradients are clipped
def test_mean_gradient_is_the_average_along_the_way(case):
    loss, y, m = rows_of(case)
    step = steps_of(m)
    at, weights = REFERENCE
    expected = sum(w * loss.gradients(y, m + u * step) for u, w in zip(at, weights, strict=True))
    found = loss.mean_gradients(y, m, step, largest=LARGEST)
    # A jump of 2 inside one of 4,096 pieces of the way costs the reference 5e-4.
    kinked = bool(case[-1]) or loss.curvature == 0 or (loss.coupled and loss.core is None)
    np.testing.assert_allclose(found, expected, rtol=1e-3 if kinked else 1e-9, atol=1e-3 if kinked else 1e-9)


@each(CASES)
def test_a_row_does_not_depend_on_the_rows_beside_it(case):
    loss, y, m = rows_of(case)
    step, some = steps_of(m), np.arange(7, 100, 3)
    whole = loss.mean_gradients(y, m, step, largest=LARGEST)
    np.testing.assert_array_equal(loss.mean_gradients(y[some], m[some], step[some], largest=LARGEST), whole[some])


def test_the_breakdown_of_smooth_losses_follows_what_they_smooth():
    y, m = make("real")[1], np.zeros((300, 1))
    for name, params in (("reg:absoluteerror", {}), ("reg:quantileerror", {"quantile_alpha": 0.3})):
        new, old = (loss_of("xgboost", name, params, version=(3, minor)) for minor in (4, 2))
        new.metric.check_breakdown()
        np.testing.assert_array_equal(new.metric.losses(y, m), old.losses(y, m))
        assert (new.scope, new.metric.words) == ("round", old.words)


def test_losses_without_a_value_of_each_row_are_refused():
    own = Loss(name="own", gradient=lambda y, m: m - y)
    for loss in (own, loss_of("xgboost", "survival:cox"), loss_of("catboost", "QueryRMSE")):
        with pytest.raises(UnsupportedModelError, match="tree_inner"):
            loss.check_breakdown()
    shared = Loss(name="own", gradient=lambda y, m: m - y, value=lambda y, m: 0.5 * ((m - y) ** 2).sum(axis=1))
    with pytest.raises(DataError, match="coupled=True"):
        shared.mean_gradients(np.zeros((5, 2)), np.ones((5, 2)), np.ones((5, 2)), largest=1.0)


def test_least_losses_leave_the_deviance():
    deviance = pytest.importorskip("sklearn.metrics")
    theirs = {
        ("xgboost", "count:poisson", "count"): lambda y, p: deviance.mean_poisson_deviance(y, p) / 2,
        ("xgboost", "reg:gamma", "above"): lambda y, p: deviance.mean_gamma_deviance(y, p) / 2,
        ("xgboost", "binary:logistic", "bit"): deviance.log_loss,
        ("sklearn", "squared_error", "real"): lambda y, p: deviance.mean_squared_error(y, p) / 2,
    }
    m = np.random.default_rng(0).normal(size=300)
    for (library, name, kind), expected in theirs.items():
        loss, y = loss_of(library, name), make(kind)[1]
        found = (loss.losses(y, m) - loss.least_losses(y)).mean()
        assert found == pytest.approx(expected(y, loss.link(m)), rel=1e-12)


def test_the_mean_of_a_forest_is_judged_by_the_squared_error():
    y, m = np.array([0.0, 2.0, 1.0]), np.array([[0.5], [1.0], [1.0]])
    forest = loss_of("sklearn forest", "squared_error")
    np.testing.assert_array_equal(forest.gradients(y, m)[:, 0], -y)
    np.testing.assert_array_equal(forest_error(forest).losses(y, m), [0.125, 0.5, 0.0])
    np.testing.assert_array_equal(forest_error(forest).gradients(y, m)[:, 0], [0.5, -1.0, 0.0])
