"""The LightGBM reader against LightGBM itself: margins, leaves, node values from training gradients."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

from tests import oracle
from treeinner import read_model
from treeinner.ensemble import Ensemble
from treeinner.errors import ModelError, UnsupportedModelError

from .reading import lightgbm as reader

lgb = pytest.importorskip("lightgbm")
pd = pytest.importorskip("pandas")

read, read_path = reader.read, reader.read_path

QUIET = {"verbosity": -1, "num_threads": 1, "seed": 3, "deterministic": True}
N, ROUNDS = 400, 6


def rows(kind="plain", n=N, seed=0):
    """Features: three numbers, a category of few levels, one of many."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 1] = np.round(X[:, 1], 1)  # ties
    X[:, 3], X[:, 4] = rng.integers(0, 3, n), rng.integers(0, 12, n)
    if kind in ("missing", "zero"):
        X[rng.random(n) < 0.2, 0] = np.nan
        X[rng.random(n) < 0.3, 2] = 0.0
    return X


def targets(X, task, seed=1):
    rng = np.random.default_rng(seed)
    signal = np.nan_to_num(X[:, 0]) + np.sin(2 * X[:, 1]) + 0.5 * (X[:, 3] == 1) + np.cos(3 * X[:, 4])
    signal = signal + 0.3 * rng.normal(size=len(X))
    if task == "regression":
        return signal + 3
    if task == "positive":
        return np.exp(signal / 2)
    if task == "binary":
        return (signal > 0.4).astype(float)
    return np.digitize(signal, [-0.3, 1.0]).astype(float)


def strange_rows(X, seed=5):
    """Rows unlike the training data: missing, zero, infinite; unseen, negative, fractional categories."""
    rng = np.random.default_rng(seed)
    out = X[:60].copy()
    odd = np.array([np.nan, 0.0, -0.0, np.inf, -np.inf, 1e-36, -1e-36, 1e300])
    for column in range(3):
        hit = rng.random(len(out)) < 0.4
        out[hit, column] = rng.choice(odd, hit.sum())
    for column in (3, 4):
        hit = rng.random(len(out)) < 0.4
        out[hit, column] = rng.choice([np.nan, -1, -0.5, 1.7, 99, 40, 0], hit.sum())
    return out


def train(task, params, kind="plain", categorical=(), *, weight=None, rounds=ROUNDS, **options):
    X = rows(kind)
    y = targets(X, "positive" if task in ("poisson", "gamma", "tweedie", "mape") else task)
    objective = {"multiclass": {"objective": "multiclass", "num_class": 3}}
    objective["multiclassova"] = {"objective": "multiclassova", "num_class": 3}
    settings = {"num_leaves": 8, "min_data_in_leaf": 5, "min_data_per_group": 5, "cat_smooth": 1, **QUIET}
    settings |= objective.get(task, {"objective": task}) | params
    data = lgb.Dataset(X, y, weight=weight, categorical_feature=list(categorical), init_score=options.pop("init", None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lgb.train(settings, data, rounds, **options), X, y


def assert_same_prediction(ensemble, booster, X, raw=True):
    # Leaves are moved by the intercept and summed in another order: 1e-12 of the largest margin is rounding.
    expected = np.atleast_2d(booster.predict(X, raw_score=raw).T).T
    ours = oracle.predict(ensemble, X)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-12 * max(1, np.abs(expected).max()))
    leaves = booster.predict(X, pred_leaf=True).reshape(len(X), -1)
    np.testing.assert_array_equal(oracle.apply(ensemble, X), leaves)


SETTINGS = {
    "plain": {},
    "l2": {"params": {"lambda_l2": 3.0}},
    "missing nan": {"kind": "missing"},
    "missing zero": {"kind": "zero", "params": {"zero_as_missing": True}},
    "missing none": {"kind": "missing", "params": {"use_missing": False}},
    "categorical": {"categorical": (3, 4)},
    "categorical wide": {"categorical": (3, 4), "params": {"max_cat_to_onehot": 20}},
    "weights": {"weight": np.random.default_rng(2).uniform(0.1, 3, N)},
    "bagging": {"params": {"bagging_freq": 1, "bagging_fraction": 0.5}},
    "goss": {"params": {"data_sample_strategy": "goss", "learning_rate": 0.5}},
    "dart": {"params": {"boosting": "dart", "skip_drop": 0.0, "drop_rate": 0.5}, "rounds": 10},
    "l1": {"params": {"lambda_l1": 2.0}},
    "max_delta_step": {"params": {"max_delta_step": 0.3}},
    "path_smooth": {"params": {"path_smooth": 5.0}},
    "monotone": {"params": {"monotone_constraints": [1, -1, 0, 0, 0]}},
    "extra_trees": {"params": {"extra_trees": True}},
    "deep": {"params": {"num_leaves": 120, "min_data_in_leaf": 1}, "rounds": 3},
    "no average": {"params": {"boost_from_average": False}},
    "rate 1": {"params": {"learning_rate": 1.0}},
    "quantized": {"params": {"use_quantized_grad": True}},
    "quantized renewed": {"params": {"use_quantized_grad": True, "quant_train_renew_leaf": True}},
    "stumps": {"params": {"num_leaves": 2}},
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass", "multiclassova"])
def test_margins_and_leaves_are_lightgbms(task, setting):
    options = {"params": {}, **SETTINGS[setting]}
    booster, X, _ = train(task, **options)
    ensemble = read(booster)
    assert_same_prediction(ensemble, booster, strange_rows(X))
    assert np.all(np.isfinite(ensemble.node_value))
    assert ensemble.tree_rate.min() > 0
    if setting in ("plain", "l2", "missing nan", "no average", "extra_trees", "weights", "deep", "stumps"):
        assert ensemble.exactness == "exact"
    elif setting not in ("missing zero", "missing none", "categorical wide", "rate 1"):
        assert ensemble.exactness != "exact"


def margin_gradients(task, margin, y, params, weight):
    """Gradient and hessian of every row and output, as LightGBM defines them: (rows, outputs) each."""
    if task == "regression":
        g, h = margin - y[:, None], np.ones_like(margin)
    elif task in ("binary", "multiclassova"):
        s = params.get("sigmoid", 1.0)
        positive = (y[:, None] == np.arange(margin.shape[1])) if task != "binary" else (y[:, None] == 1)
        p = 1 / (1 + np.exp(-s * margin))
        own = np.where(positive, params.get("scale_pos_weight", 1.0), 1.0)
        if params.get("is_unbalance"):
            share = positive.mean(axis=0)
            own = np.where(
                share > 0.5, np.where(positive, 1, share / (1 - share)), np.where(positive, 1 / share - 1, 1)
            )
        g, h = own * s * (p - positive), own * s * s * p * (1 - p)
    elif task == "multiclass":
        e = np.exp(margin - margin.max(axis=1, keepdims=True))
        p, k = e / e.sum(axis=1, keepdims=True), margin.shape[1]
        g, h = p - (y[:, None] == np.arange(k)), k / (k - 1) * p * (1 - p)
    elif task == "poisson":
        g, h = np.exp(margin) - y[:, None], np.exp(margin + 0.7)
    elif task == "gamma":
        g, h = 1 - y[:, None] * np.exp(-margin), y[:, None] * np.exp(-margin)
    elif task == "tweedie":
        a, b = y[:, None] * np.exp(-0.5 * margin), np.exp(0.5 * margin)
        g, h = b - a, 0.5 * a + 0.5 * b
    elif task == "huber":
        g, h = np.clip(margin - y[:, None], -0.9, 0.9), np.ones_like(margin)
    elif task == "fair":
        r = margin - y[:, None]
        g, h = r / (np.abs(r) + 1), 1 / (np.abs(r) + 1) ** 2
    return g * weight[:, None], h * weight[:, None]


def start_by_formula(task, y, weight, n_outputs):
    """LightGBM's BoostFromScore."""
    mean = np.average(y, weights=weight)
    if task in ("regression", "huber", "fair"):
        return np.array([mean])
    if task in ("poisson", "gamma", "tweedie"):
        return np.array([np.log(mean)])
    if task == "binary":
        return np.array([np.log(mean / (1 - mean))])
    share = np.array([np.average(y == k, weights=weight) for k in range(n_outputs)])
    return np.log(share) if task == "multiclass" else np.log(share / (1 - share))


def node_sums(ensemble, data, task, params, weight):
    """Gradient and hessian sums of every node from the training rows: (nodes,) each."""
    X, y = data
    margin = np.tile(ensemble.base_score, (len(X), 1))
    G, H = np.zeros(ensemble.n_nodes), np.zeros(ensemble.n_nodes)
    for first in range(0, ensemble.n_trees, ensemble.n_outputs):
        g, h = margin_gradients(task, margin, y, params, weight)
        for tree in range(first, first + ensemble.n_outputs):
            k = ensemble.tree_output[tree]
            for i, row in enumerate(X):
                nodes = oracle.path(ensemble, tree, row)
                G[nodes] += g[i, k]
                H[nodes] += h[i, k]
                margin[i, k] += ensemble.value[nodes[-1], 0]
    return G, H


def node_values_from_data(ensemble, data, task, params, weight=None, *, extra=0.0):
    """-rate * G / (H + lam) of every node, from the training rows. `extra`: cat_l2 of each node."""
    weight = np.ones(len(data[1])) if weight is None else weight
    G, H = node_sums(ensemble, data, task, params, weight)
    rate = ensemble.tree_rate[ensemble.tree_of_node]
    return -rate * G / (H + params.get("lambda_l2", 0.0) + extra)


def inner_scores(ensemble, G):
    """TreeInner(PreDecomp) of each column, from the gradient sums of the nodes."""
    parent = np.flatnonzero(ensemble.feature >= 0)
    p, rate = ensemble.node_value[:, 0], ensemble.tree_rate[ensemble.tree_of_node[parent]]
    score = sum(-(p[child] - p[parent]) * G[child] / rate for child in (ensemble.left[parent], ensemble.right[parent]))
    return np.bincount(ensemble.feature[parent], score, minlength=ensemble.schema.n_columns)


VALUE_SETTINGS = {
    "plain": {},
    "l2": {"params": {"lambda_l2": 3.0}},
    "weights and l2": {"params": {"lambda_l2": 0.5}, "weight": np.random.default_rng(2).uniform(0.1, 3, N)},
    "categorical": {"params": {"lambda_l2": 1.0}, "categorical": (3, 4)},
    "one-hot": {"params": {"lambda_l2": 1.0, "max_cat_to_onehot": 20}, "categorical": (3, 4)},
    "rate 1": {"params": {"learning_rate": 1.0, "lambda_l2": 1.0}},
    "sampled columns": {"params": {"feature_fraction": 0.5, "extra_trees": True}},
    "min gain": {"params": {"min_gain_to_split": 0.5, "lambda_l2": 2.0}},
}


def cat_l2_of_nodes(ensemble, many, cat_l2=10.0):
    extra = np.zeros(ensemble.n_nodes)
    for parent in np.flatnonzero(np.isin(ensemble.feature, many)):
        extra[[ensemble.left[parent], ensemble.right[parent]]] = cat_l2
    return extra


@pytest.mark.parametrize("setting", VALUE_SETTINGS)
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass", "multiclassova", "poisson", "gamma", "tweedie"])
def test_node_values_are_newton_steps(task, setting):
    options = {"params": {}, **VALUE_SETTINGS[setting]}
    booster, X, y = train(task, rounds=3, **options)
    weight = options.get("weight", np.ones(N))
    ensemble = read(booster)
    start = start_by_formula(task, y.astype(np.float32).astype(float), weight.astype(np.float32), ensemble.n_outputs)
    # LightGBM holds gradients in float32: sums of 400 of them agree to about 1e-6 of the steps' size.
    np.testing.assert_allclose(ensemble.base_score, start, atol=2e-7 * max(1, np.abs(start).max()))
    extra = cat_l2_of_nodes(ensemble, [4] if setting == "categorical" else [])
    expected = node_values_from_data(ensemble, (X, y), task, options["params"], weight, extra=extra)
    np.testing.assert_allclose(ensemble.node_value[:, 0], expected, atol=3e-6 * np.abs(expected).max())


GAIN_SETTINGS = {
    "l2": {"params": {"lambda_l2": 3.0}},
    "missing": {"kind": "missing"},
    "weights": {"weight": np.random.default_rng(2).uniform(0.1, 3, N)},
    "one-hot": {"params": {"max_cat_to_onehot": 20}, "categorical": (3, 4)},
    "no cat_l2": {"params": {"cat_l2": 0.0, "lambda_l2": 1.0}, "categorical": (3, 4)},
    "positive weight": {"params": {"scale_pos_weight": 3.0}},
    "no average": {"params": {"boost_from_average": False}},
    "rate 1": {"params": {"learning_rate": 1.0, "lambda_l2": 1.0}},
    "cat_l2": {"categorical": (3, 4)},
    "bagging": {"params": {"bagging_freq": 1, "bagging_fraction": 0.5}},
    "l1": {"params": {"lambda_l1": 5.0}},
    "max_delta_step": {"params": {"max_delta_step": 0.3}},
    "path_smooth": {"params": {"path_smooth": 5.0}},
    "quantized": {"params": {"use_quantized_grad": True}},
    "goss": {"params": {"data_sample_strategy": "goss", "learning_rate": 0.5}},
    "dart": {"params": {"boosting": "dart", "skip_drop": 0.0, "drop_rate": 0.5}},
    "contri": {"params": {"feature_contri": [0.5, 1, 1, 1, 1]}},
}


@pytest.mark.parametrize("setting", GAIN_SETTINGS)
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_exactness_says_whether_scores_are_the_total_gain(task, setting):
    options = {"params": {}, **GAIN_SETTINGS[setting]}
    booster, X, y = train(task, rounds=4, **options)
    ensemble = read(booster)
    weight = options.get("weight", np.ones(N))
    if task != "binary":
        options["params"].pop("scale_pos_weight", None)  # means nothing there
    G, _ = node_sums(ensemble, (X, y), task, options["params"], weight)
    gain = booster.feature_importance("gain")
    error = np.abs(inner_scores(ensemble, G) - gain).max() / gain.sum()
    # Written gains have six digits and float32 gradients seven; what breaks the law breaks it badly.
    assert (error < 3e-6) == (ensemble.exactness == "exact"), error
    assert error < 3e-6 or error > 1e-3


@pytest.mark.parametrize(
    "params", [{"scale_pos_weight": 4.0}, {"is_unbalance": True}, {"sigmoid": 2.0, "scale_pos_weight": 0.2}]
)
@pytest.mark.parametrize("lam", [0.0, 2.0])
@pytest.mark.parametrize("task", ["binary", "multiclassova"])
def test_class_weights_do_not_spoil_the_intercept(task, params, lam):
    params = params | {"lambda_l2": lam}
    booster, X, y = train(task, params, rounds=3)
    ensemble = read(booster)
    start = start_by_formula(task, y, np.ones(N), ensemble.n_outputs) / params.get("sigmoid", 1.0)
    np.testing.assert_allclose(ensemble.base_score, start, atol=1e-6)  # float32 gradients
    expected = node_values_from_data(ensemble, (X, y), task, params)
    np.testing.assert_allclose(ensemble.node_value[:, 0], expected, atol=3e-6 * np.abs(expected).max())
    assert ensemble.exactness == "exact"
    assert ("label_weights" in ensemble.objective_params) == ("is_unbalance" in params)


@pytest.mark.parametrize("task", ["regression_l1", "quantile", "mape", "huber", "fair", "cross_entropy_lambda"])
def test_start_is_estimated_where_no_law_gives_it(task):
    X = rows()
    y = targets(X, "positive") + 5 if task != "cross_entropy_lambda" else targets(X, "binary")
    settings = {"objective": task, "num_leaves": 8, "min_data_in_leaf": 5, "alpha": 0.7} | QUIET
    booster = lgb.train(settings, lgb.Dataset(X, y), ROUNDS)
    ensemble = read(booster)
    assert_same_prediction(ensemble, booster, strange_rows(X))
    mean = y.mean()
    start = {"regression_l1": np.median(y), "quantile": np.quantile(y, 0.7), "huber": mean, "fair": mean}
    start |= {"cross_entropy_lambda": np.log(np.expm1(mean))}
    start = start.get(task, ensemble.base_score[0])
    # No exact law: a step of the root of some percent of the leaves' spread stays in doubt.
    spread = np.ptp(ensemble.value[: ensemble.tree_start[1]])
    assert abs(ensemble.base_score[0] - start) < 0.15 * spread
    assert "estimated" in ensemble.exactness


def test_renewed_leaves_get_their_hessian_weighted_mean():
    booster, _, _ = train("regression_l1", {}, weight=np.random.default_rng(0).uniform(1, 2, N), rounds=2)
    ensemble = read(booster)
    for tree, info in enumerate(booster.dump_model()["tree_info"]):
        values, weights = [], []
        pending = [info["tree_structure"]]
        while pending:
            node = pending.pop()
            if "leaf_value" in node:
                values.append(node["leaf_value"])
                weights.append(node["leaf_weight"])
            else:
                pending += [node["left_child"], node["right_child"]]
        base = ensemble.base_score[0] if tree == 0 else 0.0
        root = ensemble.node_value[ensemble.tree_start[tree], 0]
        assert root == pytest.approx(np.average(values, weights=weights) - base, abs=1e-12)  # rounding


@pytest.mark.parametrize(
    "params",
    [
        {"lambda_l1": 2.0},
        {"max_delta_step": 0.3},
        {"path_smooth": 5.0},
        {"monotone_constraints": [1, -1, 0, 0, 0]},
    ],
)
def test_bent_values_are_the_stored_ones(params):
    X = rows()
    settings = {"objective": "regression", "num_leaves": 8, "min_data_in_leaf": 5, "lambda_l2": 1.0} | QUIET | params
    booster = lgb.train(settings, lgb.Dataset(X, targets(X, "regression")), 4, keep_training_booster=True)
    ensemble = read(booster)
    for tree, info in enumerate(booster.dump_model()["tree_info"]):  # 17 digits while the training booster lives
        base = ensemble.base_score[0] if tree == 0 else 0.0
        pending = [info["tree_structure"]]
        while pending:
            node = pending.pop()
            if "leaf_value" in node:
                continue
            ours = ensemble.node_value[ensemble.tree_start[tree] + node["split_index"], 0]
            # Six digits of value plus intercept.
            assert ours + base == pytest.approx(node["internal_value"], abs=1e-5 * (abs(base) + 0.1))
            pending += [node["left_child"], node["right_child"]]


def test_a_huge_intercept_does_not_drown_bent_values():
    X = rows()
    y = 1e5 + targets(X, "regression")
    settings = {"objective": "regression", "num_leaves": 8, "lambda_l1": 1e-3} | QUIET
    ensemble = read(lgb.train(settings, lgb.Dataset(X, y), 2))
    first = slice(0, ensemble.tree_start[1])
    # Every inner value lies between the leaves below it, which six digits of 1e5 could not tell.
    assert np.ptp(ensemble.node_value[first]) <= np.ptp(ensemble.value[first][ensemble.feature[first] < 0])
    assert abs(ensemble.node_value[0, 0]) < 1e-3


@pytest.mark.parametrize("lam", [0.0, 2.0])
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_forest_is_the_mean_of_its_trees(task, lam):
    params = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "lambda_l2": lam}
    booster, X, y = train(task, params, rounds=10)
    ensemble = read(booster)
    Z = strange_rows(X)
    raw = np.atleast_2d(booster.predict(Z, raw_score=True).T).T
    np.testing.assert_allclose(oracle.predict(ensemble, Z), raw / 10, atol=1e-12)  # raw_score sums the trees
    if task == "regression":
        np.testing.assert_allclose(oracle.predict(ensemble, Z)[:, 0], booster.predict(Z), atol=1e-12)
    np.testing.assert_array_equal(oracle.apply(ensemble, Z), booster.predict(Z, pred_leaf=True))
    assert ensemble.averaged
    assert ensemble.n_rounds == 1
    np.testing.assert_allclose(ensemble.tree_weight, 0.1)
    start = start_by_formula(task, y, np.ones(N), ensemble.n_outputs)
    np.testing.assert_allclose(ensemble.base_score, start, atol=0.05)  # bagged: not balanced
    part = read(booster, iteration_range=(2, 5))
    raw = np.atleast_2d(booster.predict(Z, raw_score=True, start_iteration=2, num_iteration=3).T).T
    np.testing.assert_allclose(oracle.predict(part, Z), raw / 3, atol=1e-12)


def test_dart_weights_and_intercept():
    booster, X, y = train("regression", {"boosting": "dart", "skip_drop": 0.0, "drop_rate": 0.6}, rounds=12)
    ensemble = read(booster)
    written = np.array([float(t["shrinkage"]) for t in booster.dump_model()["tree_info"]])
    assert written[0] < 1  # the first tree was dropped, and its intercept shrank with it
    np.testing.assert_allclose(ensemble.base_score, y.mean() * written[0], rtol=1e-5)  # shrinkage has six digits
    np.testing.assert_allclose((ensemble.tree_rate * ensemble.tree_weight)[1:], written[1:], rtol=1e-12)
    np.testing.assert_allclose(ensemble.tree_rate, 0.1)
    assert_same_prediction(ensemble, booster, strange_rows(X))
    booster, X, y = train("regression", {"boosting": "dart", "skip_drop": 0.0, "boost_from_average": False}, rounds=12)
    assert read(booster).base_score[0] == 0


def test_rate_schedule():
    rates = [0.5, 0.3, 0.2, 0.1]
    booster, X, y = train(
        "regression", {"lambda_l2": 1.0}, rounds=4, callbacks=[lgb.reset_parameter(learning_rate=rates)]
    )
    ensemble = read(booster)
    # The first rate is written nowhere: it comes from gains of six digits.
    np.testing.assert_allclose(ensemble.tree_rate, rates, rtol=1e-5)
    expected = node_values_from_data(ensemble, (X, y), "regression", {"lambda_l2": 1.0})
    np.testing.assert_allclose(ensemble.node_value[:, 0], expected, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(read(booster, learning_rate=0.7).tree_rate, 0.7)


def test_init_score_is_not_part_of_the_model():
    init = np.linspace(0, 2, N)
    booster, X, _ = train("regression", {}, init=init)
    ensemble = read(booster)
    assert ensemble.base_score[0] == 0
    assert "init_score" in ensemble.exactness
    assert_same_prediction(ensemble, booster, strange_rows(X))


def test_a_rate_of_one_hides_an_init_score():
    plain, _, y = train("regression", {"learning_rate": 1.0})
    assert "init_score" in read(plain).exactness
    assert read(plain).base_score[0] == pytest.approx(y.mean(), rel=1e-6)  # float32 labels
    hidden, _, _ = train("regression", {"learning_rate": 1.0}, init=np.ones(N))
    assert "init_score" in read(hidden).exactness
    seen, _, _ = train("regression", {"learning_rate": 1.0, "lambda_l2": 1.0}, init=np.ones(N))
    assert abs(read(seen).base_score[0]) < 1e-3  # six digits tell it to about 1e-5
    assert "estimated" in read(seen).exactness


@pytest.mark.parametrize("share", [0.5, 0.2, 0.01])
@pytest.mark.parametrize("params", [{"is_unbalance": True}, {"scale_pos_weight": 50.0}, {"scale_pos_weight": 0.02}])
def test_extreme_class_weights_are_right_or_said_to_be_estimated(share, params):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    z = X[:, 0] + rng.normal(size=2000)
    y = (z > np.quantile(z, 1 - share)).astype(float)
    start = np.log(y.mean() / (1 - y.mean()))
    for lam in (0.0, 1.0):
        for rate in (0.1, 0.5, 1.0):
            settings = (
                {"objective": "binary", "num_leaves": 8, "lambda_l2": lam, "learning_rate": rate} | params | QUIET
            )
            ensemble = read(lgb.train(settings, lgb.Dataset(X, y), 2))
            assert "trained with init_score" not in ensemble.exactness
            if ensemble.exactness == "exact":
                assert ensemble.base_score[0] == pytest.approx(start, abs=1e-5)  # float32 gradients, a flat equation
            assert abs(ensemble.base_score[0] - start) < 1e-3


@pytest.mark.parametrize("lam", [0.0, 2.0])
def test_row_weights_leave_class_weights_unproved_but_right(lam):
    weight = np.random.default_rng(2).uniform(0.1, 3, N)
    booster, _, y = train("binary", {"scale_pos_weight": 4.0, "lambda_l2": lam}, weight=weight)
    ensemble = read(booster)
    start = start_by_formula("binary", y, weight, 1)
    np.testing.assert_allclose(ensemble.base_score, start, atol=1e-5)  # float32 gradients, six digits
    assert "estimated" in ensemble.exactness


def test_early_stopping_and_slices(tmp_path):
    X = rows()
    y = targets(X, "regression")
    settings = {"objective": "regression", "learning_rate": 0.5} | QUIET
    train_set = lgb.Dataset(X[:200], y[:200])
    valid = lgb.Dataset(X[200:], y[200:], reference=train_set)
    booster = lgb.train(
        settings,
        train_set,
        60,
        [valid],
        callbacks=[lgb.early_stopping(3, verbose=False)],
        keep_training_booster=True,
    )
    assert booster.current_iteration() > booster.best_iteration > 2
    ensemble = read(booster)
    assert ensemble.n_rounds == booster.best_iteration
    Z = strange_rows(X)
    assert_same_prediction(ensemble, booster, Z)
    every = read(booster, iteration_range=(0, booster.current_iteration()))
    expected = booster.predict(Z, raw_score=True, num_iteration=booster.current_iteration())
    np.testing.assert_allclose(oracle.predict(every, Z)[:, 0], expected, atol=1e-12)
    # A slice keeps the base score; LightGBM's start_iteration leaves it behind in the first tree.
    later = read(booster, iteration_range=(1, 3))
    expected = booster.predict(Z, raw_score=True, start_iteration=1, num_iteration=2) + ensemble.base_score
    np.testing.assert_allclose(oracle.predict(later, Z)[:, 0], expected, atol=1e-12)
    booster.save_model(tmp_path / "later.txt", start_iteration=1, num_iteration=2)
    np.testing.assert_allclose(
        oracle.predict(read_path(tmp_path / "later.txt"), Z)[:, 0], expected - ensemble.base_score, atol=1e-12
    )


def test_continued_training_with_another_l2():
    booster, X, y = train("regression", {"lambda_l2": 30.0, "learning_rate": 0.3}, rounds=2)
    settings = {
        "objective": "regression",
        "num_leaves": 8,
        "min_data_in_leaf": 5,
        "learning_rate": 0.1,
    } | QUIET
    both = lgb.train(settings, lgb.Dataset(X, y), 2, init_model=booster)
    ensemble = read(both)
    assert_same_prediction(ensemble, both, strange_rows(X))
    np.testing.assert_allclose(ensemble.tree_rate, [0.3, 0.3, 0.1, 0.1], rtol=0.2)
    alone = read(booster)
    second = slice(alone.tree_start[1], alone.tree_start[2])
    np.testing.assert_allclose(ensemble.node_value[second], alone.node_value[second], atol=1e-5)  # six digits
    assert "earlier training call" in ensemble.exactness


def test_refitted_leaves_do_not_use_stale_inner_values():
    booster, X, y = train("regression", {"lambda_l2": 1.0})
    refitted = booster.refit(X, -y, decay_rate=0.1)
    ensemble = read(refitted)
    assert_same_prediction(ensemble, refitted, strange_rows(X))
    assert "refit" in ensemble.exactness
    for tree in range(1, ensemble.n_trees):
        at = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
        leaf = ensemble.feature[at] < 0
        assert ensemble.node_value[at].max() <= ensemble.value[at][leaf].max() + 1e-12


def test_constant_trees():
    X = rows()
    y = targets(X, "regression")
    booster = lgb.train({"min_data_in_leaf": 1000} | QUIET, lgb.Dataset(X, y), 3)
    ensemble = read(booster)
    assert_same_prediction(ensemble, booster, X[:5])
    assert ensemble.base_score[0] == pytest.approx(y.mean(), rel=1e-6)  # float32 labels
    labels = np.where(targets(X, "multiclass") == 2, 1, 0)  # the third class never occurs
    settings = {"objective": "multiclassova", "num_class": 3, "num_leaves": 4} | QUIET
    booster = lgb.train(settings, lgb.Dataset(X, labels), 3)
    assert_same_prediction(read(booster), booster, X[:20])


def test_custom_objective():
    def squared(margin, data):
        return margin - data.get_label(), np.ones(len(margin))

    X = rows()
    booster = lgb.train({"objective": squared, "num_leaves": 8} | QUIET, lgb.Dataset(X, targets(X, "regression")), 4)
    ensemble = read(booster)
    assert ensemble.objective == ""
    assert ensemble.base_score[0] == 0
    assert_same_prediction(ensemble, booster, strange_rows(X))


def test_ranker():
    X = rows()
    relevance = targets(X, "multiclass").astype(int)
    model = lgb.LGBMRanker(n_estimators=4, num_leaves=6, n_jobs=1, verbosity=-1).fit(X, relevance, group=[20] * 20)
    ensemble = read(model)
    assert ensemble.objective == "lambdarank"
    assert_same_prediction(ensemble, model.booster_, strange_rows(X))


def frame(order, seed=0, extra=()):
    rng = np.random.default_rng(seed)
    colors = list("rgbyzq")
    return pd.DataFrame(
        {
            "number": rng.normal(size=N),
            "color": pd.Categorical(
                rng.choice(colors + list(extra), N), categories=[colors[i] for i in order] + list(extra)
            ),
            "size": pd.Categorical(rng.choice([10, 20, 30], N), categories=[20, 10, 30]),
        }
    )


def test_pandas_categories_go_by_value():
    data = frame(range(6))
    y = data["number"] + data["color"].isin(["r", "y"]) + (data["size"] == 10)
    model = lgb.LGBMRegressor(
        n_estimators=6, min_child_samples=5, min_data_per_group=5, cat_smooth=1, n_jobs=1, verbosity=-1
    )
    model.fit(data, y)
    ensemble = read(model)
    schema = ensemble.schema
    assert schema.names == ("number", "color", "size") == ensemble.feature_names
    assert schema.categorical == (False, True, True)
    assert schema.levels == (None, ("r", "g", "b", "y", "z", "q"), (20, 10, 30))
    assert schema.unseen == "missing"
    other = frame([5, 3, 1, 0, 2, 4], seed=9, extra=["new"])
    codes = other.copy()
    for name, levels in (("color", schema.levels[1]), ("size", schema.levels[2])):
        codes[name] = [levels.index(v) if v in levels else np.nan for v in other[name]]
    expected = model.predict(other, raw_score=True)
    np.testing.assert_allclose(oracle.predict(ensemble, codes.to_numpy(float))[:, 0], expected, atol=1e-12)


def test_ordered_pandas_categories_are_numbers_with_levels():
    data = frame(range(6))
    data["size"] = data["size"].cat.as_ordered()
    y = data["number"] + data["color"].isin(["r", "y"]) + (data["size"].astype(int) == 10)
    booster = lgb.train({"min_data_in_leaf": 5} | QUIET, lgb.Dataset(data, y), 4)
    schema = read(booster).schema
    assert schema.categorical == (False, True, True)  # what the table holds; its splits are numeric
    assert schema.levels == (None, ("r", "g", "b", "y", "z", "q"), (20, 10, 30))
    data["count"] = np.arange(N) % 3  # could be the ordered column as well
    schema = read(lgb.train({"min_data_in_leaf": 5} | QUIET, lgb.Dataset(data, y), 4)).schema
    assert schema.levels is None
    assert "pandas" in schema.external


def test_names_and_labels():
    X = rows()
    labels = np.array(["low", "mid", "top"])[targets(X, "multiclass").astype(int)]
    model = lgb.LGBMClassifier(n_estimators=3, n_jobs=1, verbosity=-1).fit(X, labels)
    ensemble = read(model)
    assert ensemble.output_names == ("low", "mid", "top")
    assert ensemble.feature_names is None
    assert ensemble.schema.names is None
    model = lgb.LGBMClassifier(n_estimators=3, n_jobs=1, verbosity=-1).fit(X, labels == "top")
    ensemble = read(model)
    assert ensemble.output_names is None
    assert ensemble.objective_params["classes"] == [False, True]
    assert read(model.booster_).objective_params["sigmoid"] == 1.0


def test_loss_parameters():
    booster, _, _ = train("quantile", {"alpha": 0.3})
    assert read(booster).objective_params["alpha"] == 0.3
    booster, _, _ = train("tweedie", {"tweedie_variance_power": 1.2})
    assert read(booster).objective_params["tweedie_variance_power"] == 1.2
    booster, X, _ = train("regression", {"reg_sqrt": True})
    ensemble = read(booster)
    assert (ensemble.objective, dict(ensemble.objective_params)) == ("regression", {"sqrt": True})
    assert_same_prediction(ensemble, booster, strange_rows(X))


def test_cover_and_gain_are_lightgbms():
    booster, _, _ = train("regression", {"lambda_l2": 1.0}, categorical=(3, 4))
    ensemble = read(booster)
    table = booster.trees_to_dataframe()
    for kind, column in (("S", "split_gain"), ("L", None)):
        part = table[table.node_index.str.contains(kind)]
        number = part.node_index.str.extract(rf"{kind}(\d+)")[0].astype(int).to_numpy()
        n_leaves = (np.diff(ensemble.tree_start) + 1) // 2
        tree = part.tree_index.to_numpy()
        at = ensemble.tree_start[tree] + number + (n_leaves[tree] - 1) * (kind == "L")
        np.testing.assert_array_equal(ensemble.cover[at], part["count"])
        if column:
            np.testing.assert_allclose(ensemble.gain[at], part[column], rtol=1e-5)  # six digits
    total = np.bincount(ensemble.feature[ensemble.feature >= 0], ensemble.gain[ensemble.feature >= 0], minlength=5)
    np.testing.assert_allclose(total, booster.feature_importance("gain"), rtol=1e-5)


def same(a, b):
    arrays = (
        "value",
        "node_value",
        "threshold",
        "left",
        "right",
        "tree_rate",
        "base_score",
        "set_codes",
        "cover",
    )
    for name in arrays:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert repr(a.schema) == repr(b.schema)  # by text, as a NaN in it is not equal to itself
    assert (a.objective, a.params, a.exactness) == (b.objective, b.params, b.exactness)


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_file_equals_object(task, tmp_path):
    booster, _, _ = train(task, {"lambda_l2": 1.0}, "missing", (3, 4))
    booster.save_model(tmp_path / "model.txt")
    same(read_path(tmp_path / "model.txt"), read(booster))
    same(read(lgb.Booster(model_file=tmp_path / "model.txt")), read(booster))
    (tmp_path / "dos.txt").write_bytes((tmp_path / "model.txt").read_bytes().replace(b"\n", b"\r\n"))
    same(read_path(tmp_path / "dos.txt"), read(booster))
    read(booster).save(tmp_path / "ours")
    same(Ensemble.load(tmp_path / "ours"), read(booster))


def test_file_without_parameters_uses_stored_values(tmp_path):
    booster, X, _ = train("regression", {"lambda_l2": 5.0})
    text = booster.model_to_string()
    (tmp_path / "bare.txt").write_text(text[: text.index("\nparameters:")])
    bare, whole = read_path(tmp_path / "bare.txt"), read(booster)
    assert "no parameters block" in bare.exactness
    np.testing.assert_allclose(bare.node_value, whole.node_value, atol=2e-5)  # six digits of a start near 3
    assert_same_prediction(bare, booster, strange_rows(X))
    given = read_path(tmp_path / "bare.txt", reg_lambda=5.0)
    np.testing.assert_allclose(given.node_value, whole.node_value, atol=1e-12)


def test_files_need_no_lightgbm(tmp_path):
    booster, _, _ = train("regression", {})
    booster.save_model(tmp_path / "model.txt")
    code = (
        "import sys, treeinner; "
        f"print(treeinner.read_model({str(tmp_path / 'model.txt')!r}).n_trees, 'lightgbm' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == [str(ROUNDS), "False"]


def test_cut_off_or_altered_files_are_errors(tmp_path):
    booster, X, _ = train("regression", {}, categorical=(3, 4), rounds=2)
    text = booster.model_to_string()
    path = tmp_path / "model.txt"
    end = text.index("end of trees")
    for stop in [0, 3, *range(10, end, 23)]:
        path.write_text(text[:stop])
        with pytest.raises(ModelError):
            read_path(path)
    path.write_text(text[: text.index("[num_leaves")])
    with pytest.raises(ModelError, match="parameters"):
        read_path(path)
    rng = np.random.default_rng(0)
    for _ in range(300):  # any damage is a clear error or a model, never a crash
        at = rng.integers(0, end)
        path.write_text(text[:at] + rng.choice(list("0123456789-=. \nxe")) + text[at + 1 :])
        try:
            oracle.apply(read_path(path), X[:2])
        except (ModelError, UnsupportedModelError):
            continue
    path.write_bytes(b"\xff\xfe binary")
    with pytest.raises(ModelError, match="is not a text file"):
        read_path(path)


def test_what_is_not_supported_is_said():
    X = rows()
    y = targets(X, "regression")
    booster = lgb.train({"linear_tree": True} | QUIET, lgb.Dataset(X, y), 2)
    with pytest.raises(UnsupportedModelError, match="linear_tree"):
        read(booster)
    with pytest.raises(ModelError, match="not fitted"):
        read_model(lgb.LGBMRegressor())
    with pytest.raises(ModelError, match="no trees"):
        read(lgb.Booster(QUIET, lgb.Dataset(X, y)))
    folds = lgb.cv(
        {"objective": "regression"} | QUIET,
        lgb.Dataset(X, y),
        2,
        nfold=2,
        stratified=False,
        return_cvbooster=True,
    )
    with pytest.raises(UnsupportedModelError, match="boosters"):
        read(folds["cvbooster"])
    with pytest.raises(UnsupportedModelError, match="not a LightGBM model"):
        read(object())


def test_subclass_is_recognised():
    class Mine(lgb.LGBMRegressor):
        pass

    X = rows()
    model = Mine(n_estimators=2, n_jobs=1, verbosity=-1).fit(X, targets(X, "regression"))
    assert_same_prediction(read(model), model.booster_, X[:5])


def test_mixed_meanings_of_zero_are_refused():
    booster, X, y = train("regression", {"zero_as_missing": True}, "zero")
    other = lgb.train({"objective": "regression"} | QUIET, lgb.Dataset(X, y), 2, init_model=booster)
    with pytest.raises(UnsupportedModelError, match="treat 0 as missing"):
        read(other)


def calls_of(work):
    """Number of calls of functions, of Python and C, that some work makes."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_reading_a_text_takes_work_in_proportion_to_its_trees():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 10))
    booster = lgb.train({"objective": "regression", "num_leaves": 31} | QUIET, lgb.Dataset(X, X[:, 0] ** 2), 20)
    text = booster.model_to_string()
    head, body = text.split("\nTree=0\n", 1)
    trees, tail = body.split("\nend of trees", 1)
    trees = [t.split("\n", 1)[-1] if i else t for i, t in enumerate(trees.split("\nTree="))]
    lines = [line for line in head.split("\n") if not line.startswith("tree_sizes")]
    from treeinner.readers.lightgbm.text import parse

    def text_of(n_trees):
        many = "".join(f"\nTree={i}\n{trees[i % 20]}" for i in range(n_trees))
        return "\n".join(lines) + "\n" + many + "\nend of trees" + tail

    few, many = text_of(20), text_of(200)
    assert parse(many).n_trees == 200
    assert calls_of(lambda: parse(many)) <= 10 * calls_of(lambda: parse(few))
