"""What docs/theory.md proves of the scores, measured on real models; and what intervals promise."""

from itertools import pairwise

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from scipy.optimize import brentq

import treeinner as ti
from tests import oracle
from tests.cases import logistic, squared

COLUMNS = 5


def draw(seed, n):
    """Rows with an interaction, a target of numbers and one of two classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, COLUMNS)).astype(np.float32)
    signal = X[:, 0] + X[:, 1] * X[:, 2]
    return X, {
        "squared": signal + rng.normal(size=n),
        "logistic": (signal + rng.logistic(size=n) > 0).astype(float),
        "softmax": np.digitize(signal + rng.normal(size=n), [-1, 1]).astype(float),
    }


OBJECTIVES = {"squared": "reg:squarederror", "logistic": "binary:logistic", "softmax": "multi:softprob"}
GRADIENTS = {"squared": squared, "logistic": logistic}


def train(loss="squared", rounds=8, rows=None, **params):
    """A booster of XGBoost on rows of `draw`."""
    X, targets = draw(0, 400) if rows is None else rows
    params = {"num_class": 3, **params} if loss == "softmax" else params
    params = {"objective": OBJECTIVES[loss], "eta": 0.3, "max_depth": 3, "nthread": 1, "base_score": 0.5, **params}
    return xgb.train(params, xgb.DMatrix(X, targets[loss]), rounds)


def read(booster, loss="squared", rate=0.3, penalty=1.0):
    """The model with everything said that a file may not store."""
    return ti.read_model(booster, objective=OBJECTIVES[loss], learning_rate=rate, reg_lambda=penalty)


# -- node values -----------------------------------------------------------------------------------------------------
def test_the_root_of_predecomp_does_not_depend_on_the_split():
    """Specimens A, B, C of the paper's table S6: 0 for either split; the mean of the leaves is 1/18 or -1/18."""
    X, y = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([0.0, 1.0, -1.0])
    for column, sign in ((0, 1), (1, -1)):
        only = X.copy()
        only[:, 1 - column] = 0.0  # leaves one of the two equally good splits
        params = {"eta": 1.0, "max_depth": 1, "min_child_weight": 0, "base_score": 0.0}
        model = read(train("squared", 1, (only, {"squared": y}), **params), rate=1.0)
        for method, root in (("predecomp", 0.0), ("saabas", sign / 18)):
            found = ti.attribute(model, only, method=method)
            assert found.base_values.ravel()[0] == pytest.approx(root, abs=6e-8)  # float32 leaves
            np.testing.assert_allclose(found.base_values.ravel() + found.values.sum(axis=1), model.predict(only))


@pytest.mark.parametrize("loss", GRADIENTS)
@pytest.mark.parametrize("penalty", [0.0, 10.0])
def test_without_l2_the_attributions_of_a_tree_sum_to_zero_in_sample(loss, penalty):
    """Remark 1: the sum over the training rows of H f_mk is 0 for every tree and feature."""
    X, targets = draw(5, 400)
    trees = read(train(loss, 4, (X, targets), reg_lambda=penalty, min_child_weight=5), loss, penalty=penalty).trees
    tensor, values = oracle.tensor(trees, X, "predecomp")[..., 0], oracle.tree_values(trees, X)
    worst = 0.0
    for m, attribution in enumerate(tensor):
        p = 1 / (1 + np.exp(-(trees.base + values[:m].sum(axis=0))[:, 0]))
        hessian = (p * (1 - p) if loss == "logistic" else np.ones(len(X)))[:, None]
        worst = max(worst, np.abs((hessian * attribution).sum(axis=0)).max() / np.abs(hessian * attribution).sum())
    assert (worst < 2e-6) if penalty == 0 else (worst > 1e-3)  # float32 leaves


@pytest.mark.parametrize(("loss", "params", "same"), [
    ("squared", {"reg_lambda": 0.0}, True), ("squared", {"reg_lambda": 10.0}, False),
    ("logistic", {"reg_lambda": 0.0}, False),
])  # fmt: skip
def test_centred_is_predecomp_in_sample_without_penalties_and_with_unit_hessians(loss, params, same):
    X, targets = draw(14, 400)
    model = read(train(loss, rows=(X, targets), **params), loss, penalty=params["reg_lambda"])
    asked = ({"score": "tree_inner", "method": method} for method in ("centred", "predecomp"))
    centred, plain = (ti.importance(model, X, targets[loss], **how).scores for how in asked)
    off = np.abs(centred - plain).max() / np.abs(plain).max()
    assert off < 1e-5 if same else off > 1e-4  # leaf values and the gradients of the training are float32


# -- the centred score -----------------------------------------------------------------------------------------------
def test_a_common_level_of_the_gradients_does_not_count():
    """Squared error: y + 5 adds 5 to every negative gradient."""
    model, (X, targets), change = read(train(reg_lambda=10.0), penalty=10.0), draw(12, 250), {}
    for method in ("centred", "predecomp"):
        asked = {"score": "tree_inner", "method": method}
        a, b = (ti.importance(model, X, targets["squared"] + shift, **asked).scores for shift in (0.0, 5.0))
        change[method] = np.abs(b - a).max() / np.abs(a).max()
    assert change["centred"] < 1e-8  # units of the leaf sums
    assert change["predecomp"] > 0.01


# -- signal: the feature's own effect put back (section 8) -------------------------------------------------------------
def by_round(model, X):
    """Centred contributions of every round, and what they have added up to before it: (rounds, rows, features) each."""
    phi = oracle.tensor(model.trees, X, "centred")[..., 0]  # one tree in a round
    return phi, np.cumsum(phi, axis=0) - phi


def population(levels=8):
    """Rows on which noise is exactly independent: every (signals, y) beside every pair of two correlated noise columns.

    Returned with a model of other rows, where the noise columns helped by mistake.
    """
    rng = np.random.default_rng(3)
    signals, noise = rng.normal(size=(60, 3)), np.arange(levels, dtype=float)
    noise = np.column_stack([noise, noise + 3 * rng.permutation(levels)])
    y = signals @ [1.0, 0.5, 0.0] + rng.normal(size=60)
    X = np.column_stack([np.repeat(signals, levels, axis=0), np.tile(noise, (60, 1))])

    def model(columns, **params):
        wrong = X[:150, columns]
        target = wrong[:, 0] + (wrong[:, 3] > 3) + 0.1 * wrong[:, -1] + rng.normal(size=150)
        return read(train("squared", 30, (wrong, {"squared": target}), **params), rate=params["eta"]), X[:, columns]

    return np.repeat(y, levels), model


@pytest.mark.parametrize("eta", [0.05, 0.3, 1.0])
def test_noise_has_signal_0_at_any_rate_where_the_others_do_not_depend_on_it(eta):
    """Proposition 12: stumps, so that contributions depend on one column each. TreeInner of the noise is not 0."""
    y, model = population()
    model, X = model([0, 1, 2, 3], eta=eta, max_depth=1)
    phi, _ = by_round(model, X)
    inner, signal = (ti.importance(model, X, y, score=score).scores[3] for score in ("tree_inner", "signal"))
    expected = ((phi**2).sum(axis=0) - phi.sum(axis=0) ** 2).mean(axis=0)[3] / 2
    assert inner == pytest.approx(expected, rel=1e-6)  # units of the leaf sums
    assert abs(expected) > 1e-3
    assert abs(signal) < 1e-6 * abs(expected)


@pytest.mark.parametrize("eta", [0.3, 1.0])
def test_of_noise_only_covariances_with_the_contributions_of_others_are_left(eta):
    """Proposition 12: correlated noise and deep trees. ForestInner of the noise is 0 even so (Proposition 14)."""
    y, model = population()
    model, X = model([0, 1, 2, 3, 4], eta=eta, max_depth=4)
    phi, before = by_round(model, X)
    left = -(phi * (before.sum(axis=2, keepdims=True) - before)).sum(axis=0).mean(axis=0)[3:]
    np.testing.assert_allclose(ti.importance(model, X, y).scores[3:], left, rtol=1e-6)  # units of the leaf sums
    assert abs(left).min() > 1e-4
    assert abs(ti.forest_inner(model, X, y).scores[3:]).max() < 1e-9


def test_for_squared_error_signal_is_tree_inner_and_half_the_squares_that_rounds_do_not_explain():
    """Proposition 13."""
    model, (X, targets) = read(train()), draw(12, 250)
    phi, _ = by_round(model, X)
    half = (phi.sum(axis=0) ** 2 - (phi**2).sum(axis=0)).mean(axis=0) / 2
    signal, inner = (
        ti.importance(model, X, targets["squared"], score=score).scores for score in ("signal", "tree_inner")
    )
    np.testing.assert_allclose(signal - inner, half, rtol=1e-6, atol=1e-9)  # units of the leaf sums


def test_signal_of_a_smooth_loss_is_near_its_exact_form():
    """Logistic: the gradient at the margin without the feature, instead of a line towards it."""
    model, (X, targets) = read(train("logistic"), "logistic"), draw(12, 250)
    phi, before = by_round(model, X)
    y, residual = targets["logistic"], oracle.residuals(model.trees, X, logistic(targets["logistic"]))[..., 0]
    margin = np.log((y - residual) / (1 - y + residual))[:, :, None] - before
    exact = (phi * (y[:, None] - 1 / (1 + np.exp(-margin)))).sum(axis=0).mean(axis=0)
    found, inner = (ti.importance(model, X, y, score=score).scores for score in ("signal", "tree_inner"))
    assert np.abs(found - exact).max() < 0.1 * np.abs(inner - exact).max()  # eight rounds: of second order


# -- holds -----------------------------------------------------------------------------------------------------------
def parts(model, X, imp):
    """Margins and the centred contributions that belong to a result."""
    return model.predict(X).ravel(), ti.attribute(model, X, method="centred", reference=imp).values.reshape(X.shape)


def test_holds_is_the_slope_of_partial_residuals_and_the_factor_that_fits_best():
    model, (X, targets) = read(train()), draw(12, 250)
    imp = ti.importance(model, X, targets["squared"])
    margin, phi = parts(model, X, imp)
    np.testing.assert_allclose(phi.mean(axis=0), 0, atol=1e-12)
    for k in range(COLUMNS):
        partial = targets["squared"] - margin + phi[:, k]
        slope = np.polyfit(phi[:, k], partial, 1)[0]
        assert imp.holds[k] == pytest.approx(slope, rel=1e-6)
        loss = [((partial - factor * phi[:, k]) ** 2).mean() for factor in imp.holds[k] + np.array([-0.01, 0, 0.01])]
        assert loss[1] < min(loss[0], loss[2])


def test_holds_of_other_losses_is_a_step_of_the_secant_to_the_best_factor():
    model, (X, targets) = read(train("logistic", 30), "logistic"), draw(12, 2000)
    imp = ti.importance(model, X, targets["logistic"])
    margin, phi = parts(model, X, imp)

    def slope(factor, k):
        """Minus the derivative of the mean loss by the factor of one contribution."""
        chance = 1 / (1 + np.exp(-(margin + (factor - 1) * phi[:, k])))
        return (phi[:, k] * (targets["logistic"] - chance)).mean()

    for k in range(COLUMNS):
        without, with_it = slope(0.0, k), slope(1.0, k)
        assert imp.holds[k] == pytest.approx(without / (without - with_it), rel=1e-6)
        assert imp.holds[k] == pytest.approx(brentq(slope, -5.0, 5.0, args=k), abs=0.1)  # the loss is nearly quadratic


def test_additive_models_are_recovered_as_rows_and_trees_grow():
    """Proposition 2: mean squared error of centred PreDecomp against the components, on fresh rows."""

    def additive(rng, n):
        X = rng.random((n, 4))
        return X, np.stack(
            [np.sin(2 * np.pi * X[:, 0]), 2 * X[:, 1] - 1, 6 * (X[:, 2] - 0.5) ** 2 - 0.5, 0 * X[:, 3]], 1
        )

    def error(n, rounds):
        rng = np.random.default_rng(2)
        X, h = additive(rng, n)
        y = h.sum(axis=1) + rng.normal(size=n)
        params = {"learning_rate": 0.1, "max_depth": 3, "num_leaves": 8, "num_threads": 1, "verbose": -1, "seed": 1}
        model = lgb.train(params | {"lambda_l2": 1.0, "deterministic": True}, lgb.Dataset(X, y - y.mean()), rounds)
        fresh, truth = additive(rng, 4000)
        values = ti.attribute(model, fresh).values
        return ((values - values.mean(axis=0) - truth) ** 2).mean(axis=0).sum()

    for errors in ([error(n, 100) for n in (500, 4000, 16_000)], [error(16_000, rounds) for rounds in (10, 30, 100)]):
        assert all(b < a / 1.8 for a, b in pairwise(errors)), errors


# -- what intervals promise -----------------------------------------------------------------------------
def sample(seed, n):
    """Three signals and nine columns of noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 12)).astype(np.float32)
    return X, 0.4 * X[:, 0] + 0.4 * X[:, 1] + 0.3 * X[:, 2] + rng.normal(size=n)


@pytest.mark.parametrize("score", ["signal", "tree_inner", "loss"])
def test_intervals_cover_the_score_of_very_many_rows(score):
    overfitted = xgb.XGBRegressor(n_estimators=40, learning_rate=0.1, max_depth=4, n_jobs=1).fit(*sample(0, 500))
    model, level = ti.read_model(overfitted), 0.9
    truth = ti.importance(model, *sample(1, 60_000), score=score, std_errors=False).scores
    inside = []
    for seed in range(60):
        low, high = ti.importance(model, *sample(100 + seed, 400), score=score).interval(level)
        inside.append((low <= truth) & (truth <= high))
    # Binomial error of 60 x 12 intervals, and small nodes, whose means are noisy, make centred scores slightly large.
    assert level - 0.05 <= np.mean(inside) <= level + 0.05
