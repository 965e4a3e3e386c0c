"""score="loss", the exact account of the held-out loss: section 7 of docs/theory.md, on real models."""

from itertools import pairwise

import numpy as np
import pytest
import xgboost as xgb
from sklearn.metrics import log_loss, mean_absolute_error, mean_squared_error

import treeinner as ti
from tests.test_theory import COLUMNS, draw, logistic
from tests.test_theory_centred import Nodes

# name -> XGBoost's objective and metric, the gradient by the margin, and the metric as scikit-learn has it,
# of y and the margin. XGBoost's squared error has the gradient of half the square.
LOSSES = {
    "squared error": ("reg:squarederror", "rmse", lambda y, F: F - y, lambda y, F: mean_squared_error(y, F) / 2),
    "logistic": ("binary:logistic", "logloss", lambda y, F: logistic(F) - y, lambda y, F: log_loss(y, logistic(F))),
    "absolute error": ("reg:absoluteerror", "mae", lambda y, F: np.sign(F - y), mean_absolute_error),
}


def fitted(loss, eta=0.3, rounds=8, **params):
    """A model, held-out rows, and XGBoost's own validation curve."""
    objective, metric, *_ = LOSSES[loss]
    (X, y, label), (fresh, fresh_y, fresh_label) = draw(21, 400), draw(22, 250)
    if loss == "logistic":
        y, fresh_y = label, fresh_label
    params = {"objective": objective, "eval_metric": metric, "eta": eta, "max_depth": 3, "nthread": 1, **params}
    curve = {}
    valid = xgb.DMatrix(fresh, fresh_y, nthread=1)
    booster = xgb.train(
        {"base_score": 0.5, **params}, xgb.DMatrix(X, y, nthread=1), rounds,
        evals=[(valid, "valid")], evals_result=curve, verbose_eval=False,
    )  # fmt: skip
    values = np.array(curve["valid"][metric])
    return booster, fresh, fresh_y, values**2 / 2 if metric == "rmse" else values


def margins(booster, X):
    """Margins before each round and after the last: (rounds + 1, rows)."""
    ensemble = ti.read_model(booster).ensemble
    start = np.full(len(X), ensemble.base_score[0])
    rounds = range(1, ensemble.n_rounds + 1)
    return np.array([start, *(ensemble.slice_rounds(0, r).predict(X, n_jobs=1) for r in rounds)])


def integrated(booster, X, y, gradient):
    """The account by its definition, the line integral as a fine midpoint sum: (features,) and the base."""
    ensemble, path = ti.read_model(booster).ensemble, margins(booster, X)
    scores, base = np.zeros(COLUMNS), 0.0
    at = (np.arange(4000) + 0.5) / 4000
    for m, (before, after) in enumerate(pairwise(path)):
        step = after - before
        mean_slope = np.mean([-gradient(y, before + s * step) for s in at], axis=0)
        nodes = Nodes(ensemble.slice_trees(m, m + 1), X, mean_slope, np.ones(len(X)))
        phi = nodes.attribution()
        scores += (phi * mean_slope[:, None]).mean(axis=0)
        base += ((step - phi.sum(axis=1)) * mean_slope).mean()
    return scores, base


@pytest.mark.parametrize("loss", LOSSES)
def test_scores_and_base_add_up_to_what_the_loss_fell_by(loss):
    booster, X, y, _ = fitted(loss)
    metric, path = LOSSES[loss][3], margins(booster, X)
    for method in ("centred", "predecomp", "treeshap"):
        imp = ti.importance(booster, X, y, score="loss", method=method, n_jobs=1)
        fall = metric(y, path[0]) - metric(y, path[-1])
        # the margins are the same float64 numbers; a loss of order 1 is summed over 250 rows
        assert imp.scores.sum() + imp.base == pytest.approx(fall, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_scores_are_the_line_integral_of_the_gradient(loss):
    booster, X, y, _ = fitted(loss)
    scores, base = integrated(booster, X, y, LOSSES[loss][2])
    imp = ti.importance(booster, X, y, score="loss", n_jobs=1)
    # 4000 midpoints: 1e-8 of a smooth integrand, 1e-4 of one that jumps (absolute error)
    tolerance = 1e-3 if loss == "absolute error" else 1e-6
    np.testing.assert_allclose([*imp.scores, imp.base], [*scores, base], atol=tolerance * np.abs(scores).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_by_round_the_account_is_the_validation_curve(loss):
    booster, X, y, curve = fitted(loss)
    imp = ti.importance(booster, X, y, score="loss", n_jobs=1)
    fall = imp.by_round().sum(axis=1) + imp.losses.base_rounds
    start = LOSSES[loss][3](y, margins(booster, X)[0])
    # XGBoost's margins and metrics are float32
    np.testing.assert_allclose(start - np.cumsum(fall), curve, rtol=2e-6)


def test_for_squared_error_it_is_tree_inner_less_half_the_steps():
    """gbar = g - step / 2; so the account is TreeInner less half the inner product with the whole step."""
    booster, X, y, _ = fitted("squared error", eta=1.0)
    ensemble, path = ti.read_model(booster).ensemble, margins(booster, X)
    half = np.zeros(COLUMNS)
    for m, step in enumerate(np.diff(path, axis=0)):
        nodes = Nodes(ensemble.slice_trees(m, m + 1), X, step, np.ones(len(X)))
        half += (nodes.attribution() * step[:, None]).mean(axis=0) / 2
    inner, account = (ti.importance(booster, X, y, score=score, n_jobs=1).scores for score in ("tree_inner", "loss"))
    np.testing.assert_allclose(account, inner - half, rtol=1e-8, atol=1e-9)
    assert (half >= 0).all()  # one tree per round: half the sum of (c_l - c_r)^2 W_l W_r / W_t


@pytest.mark.parametrize("loss", ["squared error", "logistic"])
def test_overshoot_is_what_first_order_leaves_out(loss):
    booster, X, y, _ = fitted(loss, eta=1.0)
    _, _, gradient, metric = LOSSES[loss]
    path = margins(booster, X)
    first_order = -sum((step * gradient(y, F)).mean() for F, step in zip(path, np.diff(path, axis=0), strict=False))
    fall = metric(y, path[0]) - metric(y, path[-1])
    for score in ("tree_inner", "loss"):
        imp = ti.importance(booster, X, y, score=score, n_jobs=1)
        assert imp.overshoot == pytest.approx(1 - fall / first_order, rel=1e-8)


@pytest.mark.parametrize("loss", ["squared error", "logistic"])
def test_overshoot_vanishes_with_the_step(loss):
    """Ten times smaller steps, ten times as many of them: the Riemann sum becomes the integral."""
    overshoot = []
    for eta, rounds in ((0.5, 4), (0.05, 40)):
        booster, X, y, _ = fitted(loss, eta=eta, rounds=rounds)
        overshoot.append(ti.importance(booster, X, y, n_jobs=1).overshoot)
    assert 0 < overshoot[1] < overshoot[0] / 5
