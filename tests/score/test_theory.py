"""What docs/theory.md proves of the scores, measured on real models; and what p values and intervals promise."""

import json
from itertools import pairwise

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import treeinner as ti
from tests import oracle
from tests.cases import logistic, squared
from tests.models import Models

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


# -- total gain (Proposition 3) --------------------------------------------------------------------------------------
@pytest.mark.parametrize(("loss", "params"), [
    ("squared", {}), ("logistic", {"scale_pos_weight": 2.0}), ("softmax", {}), ("squared", {"reg_lambda": 20.0}),
    ("squared", {"num_parallel_tree": 3, "colsample_bynode": 0.6}),
])  # fmt: skip
def test_gains_by_predecomp_on_the_training_rows_are_total_gain(loss, params):
    (X, targets), booster = draw(0, 400), train(loss, **params)
    own = booster.get_score(importance_type="total_gain")
    own = np.array([own.get(f"f{k}", 0.0) for k in range(COLUMNS)])
    model = ti.read_model(booster)
    np.testing.assert_allclose(ti.total_gain(model).scores, own, rtol=2e-6)  # float32 sums
    gains = {m: ti.importance(model, X, targets[loss], method=m).gains for m in ("predecomp", "treeshap")}
    assert np.abs(gains["predecomp"] / gains["predecomp"].sum() - own / own.sum()).max() < 5e-7  # the paper's
    assert gains["predecomp"].sum() == pytest.approx(own.sum(), rel=2e-6)
    assert np.abs(gains["treeshap"] / gains["treeshap"].sum() - own / own.sum()).max() > 1e-3  # no other gives it


@pytest.mark.parametrize(("loss", "alpha"), [("squared", 5), ("squared", 50), ("logistic", 5)])
def test_with_l1_the_gain_of_a_split_is_its_inner_product_and_a_term_without_data(loss, alpha):
    """worth(t) = -(w G + alpha |w|), gain = worth(left) + worth(right) - worth(t), by what XGBoost stores."""
    X, targets = draw(3, 400)
    # min_child_weight 0: a node of little hessian would else have its weight set to 0
    booster = train(loss, 6, (X, targets), reg_alpha=alpha, min_child_weight=0)
    stored = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]["model"]["trees"]
    margin, n_splits = np.full(len(X), 0.5 if loss == "squared" else 0.0), 0
    leaves = booster.predict(xgb.DMatrix(X), pred_leaf=True).astype(int).reshape(len(X), -1)
    for tree, leaf in zip(stored, leaves.T, strict=True):
        left, right, w = (np.array(tree[name]) for name in ("left_children", "right_children", "base_weights"))
        w = np.where(left < 0, w / 0.3, w)  # leaves are stored with the rate
        total = np.bincount(leaf, GRADIENTS[loss](targets[loss])(margin[:, None])[:, 0], minlength=len(left))
        for node in reversed(range(len(left))):
            total[node] += total[left[node]] + total[right[node]] if left[node] >= 0 else 0.0
        worth, inner = -(w * total + alpha * np.abs(w)), np.flatnonzero(left >= 0)
        gain = worth[left[inner]] + worth[right[inner]] - worth[inner]
        # float32 sums and gains, and a split's gain is a difference of worths
        np.testing.assert_allclose(gain, np.array(tree["loss_changes"])[inner], atol=2e-6 * max(np.abs(worth).max(), 1))
        margin, n_splits = margin + np.array(tree["split_conditions"])[leaf], n_splits + len(inner)
    assert n_splits > (3 if alpha == 50 else 20)


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
    centred, plain = (ti.importance(model, X, targets[loss], method=m).scores for m in ("centred", "predecomp"))
    off = np.abs(centred - plain).max() / np.abs(plain).max()
    assert off < 1e-5 if same else off > 1e-4  # leaf values and the gradients of the training are float32


# -- the centred score -----------------------------------------------------------------------------------------------
def test_a_common_level_of_the_gradients_does_not_count():
    """Squared error: y + 5 adds 5 to every negative gradient."""
    model, (X, targets), change = read(train(reg_lambda=10.0), penalty=10.0), draw(12, 250), {}
    for method in ("centred", "predecomp"):
        a, b = (ti.importance(model, X, targets["squared"] + shift, method=method).scores for shift in (0.0, 5.0))
        change[method] = np.abs(b - a).max() / np.abs(a).max()
    assert change["centred"] < 1e-8  # units of the leaf sums
    assert change["predecomp"] > 0.01


@pytest.mark.parametrize("loss", GRADIENTS)
def test_centred_scores_add_up_to_covariances_of_trees_and_gradients(loss):
    model, (X, targets) = read(train(loss), loss), draw(12, 250)
    weight = np.random.default_rng(13).uniform(0.2, 3.0, 250)
    values = oracle.tree_values(model.trees, X)[:, :, 0]
    residual = oracle.residuals(model.trees, X, GRADIENTS[loss](targets[loss]))[:, :, 0]
    covariance = sum(np.cov(v, g, aweights=weight, ddof=0)[0, 1] for v, g in zip(values, residual, strict=True))
    imp = ti.importance(model, X, targets[loss], sample_weight=weight)
    assert imp.scores.sum() == pytest.approx(covariance, rel=1e-7)


def test_row_shares_are_the_derivative_by_the_weight_of_a_row():
    """d score / d w_i = (share of row i per weight - score) / W: the influence function, by its definition."""
    model, (X, targets) = read(train("logistic"), "logistic"), draw(12, 120)
    weight = np.random.default_rng(13).uniform(0.2, 3.0, 120)

    def product(weight):
        residual = oracle.residuals(model.trees, X, logistic(targets["logistic"]), weight)
        return oracle.centred_product(model.trees, X, residual, weight).sum(axis=(0, 2)) / weight.sum()

    residual = oracle.residuals(model.trees, X, logistic(targets["logistic"]), weight)
    shares = oracle.centred_shares(model.trees, X, residual, weight).sum(axis=(0, 3))
    np.testing.assert_allclose(shares.sum(axis=0) / weight.sum(), product(weight), atol=1e-12)
    for i in (0, 57, 119):
        step = 1e-4 * (np.arange(120) == i)
        slope = (product(weight + step) - product(weight - step)) / 2e-4
        # the second difference of a smooth function of order 1: step^2
        np.testing.assert_allclose(slope, (shares[i] / weight[i] - product(weight)) / weight.sum(), atol=1e-8)


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


# -- what p values and intervals promise -----------------------------------------------------------------------------
def sample(seed, n, errors="normal"):
    """Three signals and nine columns of noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 12)).astype(np.float32)
    noise = rng.normal(size=n) if errors == "normal" else rng.standard_t(3, size=n) / np.sqrt(3)
    return X, 0.4 * X[:, 0] + 0.4 * X[:, 1] + 0.3 * X[:, 2] + noise


def fitted(seed, errors="normal"):
    """A model of 500 rows that overfits."""
    return ti.read_model(
        xgb.XGBRegressor(n_estimators=40, learning_rate=0.1, max_depth=4, n_jobs=1).fit(*sample(seed, 500, errors))
    )


SAMPLED = Models(one=lambda: fitted(0))


@pytest.mark.parametrize("errors", ["normal", "t3"])
def test_p_values_of_noise_are_on_the_safe_side_and_gains_are_not(errors):
    small, found = [], []
    for seed in range(16):
        model = fitted(seed, errors)
        imp = ti.importance(model, *sample(1000 + seed, 400, errors))
        assert (ti.total_gain(model).scores[3:] > 0).all()  # in sample every column of noise is of use
        small.append((imp.p_values[3:] < 0.05).mean())
        found.append((imp.q_values[:3] < 0.1).mean())
    # Columns of one model depend on each other: three standard errors over the models.
    assert np.mean(small) <= 0.05 + 3 * max(np.std(small, ddof=1), 0.05) / 4
    assert np.mean(found) > 0.5


@pytest.mark.parametrize("score", ["tree_inner", "loss"])
def test_intervals_cover_the_score_of_very_many_rows(score):
    model, level = SAMPLED["one"], 0.9
    truth = ti.importance(model, *sample(1, 60_000), score=score, std_errors=False).scores
    inside = []
    for seed in range(60):
        low, high = ti.importance(model, *sample(100 + seed, 400), score=score).interval(level)
        inside.append((low <= truth) & (truth <= high))
    # Binomial error of 60 x 12 intervals, and small nodes, whose means are noisy, make centred scores slightly large.
    assert level - 0.05 <= np.mean(inside) <= level + 0.05
