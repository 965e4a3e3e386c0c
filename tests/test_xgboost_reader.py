"""The XGBoost reader against XGBoost's own predict and pred_leaf, and against values from gradients."""

import contextlib
import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from tests.oracle import apply, path, predict  # the slow oracle, not the kernels
from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.model import read_model
from treeinner.readers.xgboost import ubjson

from .reading import xgboost as reader

xgb = pytest.importorskip("xgboost")

VERSION = tuple(int(part) for part in xgb.__version__.split(".")[:2])
N, ROWS = 400, 40  # training rows; rows the slow oracle walks
# XGBoost adds float32 leaves one by one: an error of a few 6e-8 x |margin| per tree (models.md 1.4).
MARGIN = {"rtol": 3e-6, "atol": 3e-6}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, 5)).astype(np.float32).astype(np.float64)
    X[:, 4] = rng.integers(0, 9, N)
    y = 2 * X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * (X[:, 4] % 3) + rng.normal(size=N)
    return X, y


def labels(task, y):
    return {
        "regression": y,
        "binary": (y > 0.3).astype(float),
        "multi": np.digitize(y, [-1.0, 1.5]).astype(float),
        "targets": np.c_[y, -(y**2), np.cos(y)],
    }[task]


TASKS = {
    "regression": {},
    "binary": {"objective": "binary:logistic"},
    "multi": {"objective": "multi:softprob", "num_class": 3},
    "targets": {},
}


def train(X, y, params=None, rounds=6, **options):
    dmatrix = {name: options.pop(name) for name in ("weight", "feature_types") if name in options}
    if "feature_types" in dmatrix:
        dmatrix["enable_categorical"] = True
    D = xgb.DMatrix(X, y, **dmatrix)
    params = {"nthread": 1, "max_depth": 4, "eta": 0.2, "seed": 1, **(params or {})}
    return xgb.train(params, D, rounds, **options), D


def check_rows(model, D, X, **read):
    """Margins and leaves of some rows equal XGBoost's own."""
    e = reader.read(model, **read)
    some = X[:ROWS]
    part = D.slice(np.arange(ROWS)) if isinstance(D, xgb.DMatrix) else D
    rounds = read.get("iteration_range", (0, 0))
    margin = model.predict(part, output_margin=True, iteration_range=rounds, strict_shape=True)
    np.testing.assert_allclose(predict(e, some), margin.reshape(ROWS, -1), **MARGIN)
    sliced = model if rounds == (0, 0) else model[rounds[0] : rounds[1]]  # pred_leaf takes no start
    leaf = sliced.predict(part, pred_leaf=True).reshape(ROWS, -1)
    np.testing.assert_array_equal(apply(e, some), leaf)
    return e


def with_missing(X):
    X = X.copy()
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    return X


VARIANTS = {
    "plain": {},
    "subsample": {"subsample": 0.6, "colsample_bytree": 0.6},
    "dart": {"booster": "dart", "rate_drop": 0.5},
    "parallel": {"num_parallel_tree": 3, "subsample": 0.5},
    "monotone": {"monotone_constraints": (1, 0, -1, 0, 0)},
    "max_delta_step": {"max_delta_step": 0.3},
    "alpha": {"reg_alpha": 3.0},
    "deep": {"max_depth": 0, "max_leaves": 60, "grow_policy": "lossguide", "min_child_weight": 0},
    "base_score": {"base_score": 0.3},
    "exact": {"tree_method": "exact"},
    "approx": {"tree_method": "approx"},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("task", TASKS)
def test_margins_and_leaves_are_xgboosts(data, task, variant):
    X, y = data
    X = with_missing(X) if variant in ("plain", "dart", "deep") else X
    booster, D = train(X, labels(task, y), TASKS[task] | VARIANTS[variant])
    e = check_rows(booster, D, X)
    assert e.n_outputs == {"multi": 3, "targets": 3}.get(task, 1)
    assert e.n_rounds == 6


@pytest.mark.parametrize("task", TASKS)
def test_categories_weights_and_missing(data, task):
    X, y = data
    X = with_missing(X)
    weight = np.random.default_rng(2).random(N) + 0.1
    params = TASKS[task] | {"max_cat_to_onehot": 2, "tree_method": "hist"}
    booster, D = train(X, labels(task, y), params, weight=weight, feature_types=["q"] * 4 + ["c"])
    e = check_rows(booster, D, X)
    assert e.schema.categorical == (False,) * 4 + (True,)
    assert (e.category_set >= 0).any()
    odd = X[:6].copy()
    odd[:, 4] = [-1.0, 77.0, 1.7, np.nan, 2.0**24 - 1, -0.5]  # unknown codes go left, fractions are cut off
    margin = booster.inplace_predict(odd, predict_type="margin", strict_shape=True).reshape(6, -1)
    np.testing.assert_allclose(predict(e, odd), margin, **MARGIN)


@pytest.mark.skipif(VERSION < (2, 1), reason="vector leaves are new in 2.0")
@pytest.mark.parametrize("task", ["multi", "targets"])
def test_vector_leaves(data, task):
    X, y = data
    params = TASKS[task] | {"multi_strategy": "multi_output_tree", "tree_method": "hist"}
    booster, D = train(with_missing(X), labels(task, y), params)
    e = check_rows(booster, D, with_missing(X))
    assert (e.width, e.n_trees) == (3, 6)
    # the hessian of a split is summed over the outputs; equal shares hold for squared error only. eta = 0.2
    # is not a default, so the live configuration stands in for the other losses
    assert e.needs == ()
    np.testing.assert_allclose(e.tree_rate, 0.2, rtol=1e-6)
    loaded = xgb.Booster(model_file=booster.save_raw("ubj"))
    assert reader.read(loaded).needs == ((), ("learning_rate",))[task == "multi"]


@pytest.mark.parametrize(
    "objective",
    ["reg:gamma", "reg:tweedie", "count:poisson", "survival:cox", "reg:logistic", "binary:logitraw",
     "binary:hinge", "reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror", "rank:ndcg",
     "multi:softmax"],
)  # fmt: skip
def test_base_score_is_on_the_margin_scale(data, objective):
    X, y = data
    y = np.clip(np.round(np.abs(y)), 1, 5)
    if objective in ("reg:logistic", "binary:logitraw", "binary:hinge"):
        y = (y > 2).astype(float)
    params = {"objective": objective} | ({"num_class": 6} if objective == "multi:softmax" else {})
    booster, D = train(X, y, params, rounds=2)
    e = check_rows(booster, D, X)
    assert e.objective == objective
    assert isinstance(e.objective_params, dict)


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:logistic", "count:poisson", "reg:gamma", "reg:tweedie"])
@pytest.mark.parametrize("base_score", [1e-4, 0.2, 0.7, 0.9, 0.99, 0.9999])
def test_base_margins_are_the_floats_of_xgboost(data, objective, base_score):
    """At .9999 a logit in float32 is 6e-5 off the exact one; its predictions start there."""
    X, y = data
    params = {"objective": objective, "base_score": base_score, "min_child_weight": 1e9}
    booster, D = train(X, (y > np.median(y)) + (0.5 if objective == "reg:gamma" else 0.0), params, rounds=1)
    theirs, ours = booster.predict(D, output_margin=True)[0], read_model(booster).predict(X[:1])[0]
    assert abs(ours - theirs) <= np.spacing(abs(theirs))  # XGBoost's own logarithm may be rounded to a neighbour
    assert np.float32(ours) == ours


def test_quantiles_have_outputs_of_their_own(data):
    X, y = data
    booster, D = train(X, y, {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9]})
    e = check_rows(booster, D, X)
    assert e.objective_params["quantile_alpha"] == [0.1, 0.5, 0.9]
    assert e.output_names == ("quantile 0.1", "quantile 0.5", "quantile 0.9")


# -- rounds ----------------------------------------------------------------------------------------
def test_wrapper_stops_at_its_best_round_and_booster_does_not(data):
    X, y = data
    model = xgb.XGBRegressor(
        n_estimators=40, early_stopping_rounds=2, learning_rate=0.5, n_jobs=1, missing=-7.0, max_depth=3
    )
    model.fit(X[:150], y[:150], eval_set=[(X[150:], y[150:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    holed = np.where(with_missing(X[:ROWS]) == X[:ROWS], X[:ROWS], -7.0)
    e = reader.read(model)
    assert e.schema.missing == -7.0
    assert e.n_rounds == model.best_iteration + 1
    np.testing.assert_allclose(predict(e, holed)[:, 0], model.predict(holed, output_margin=True), **MARGIN)
    assert reader.read(model.get_booster()).n_rounds == model.get_booster().num_boosted_rounds()


def test_iteration_range_and_parallel_trees(data):
    X, y = data
    booster, D = train(X, labels("multi", y), TASKS["multi"] | {"num_parallel_tree": 2, "subsample": 0.7})
    e = check_rows(booster, D, X, iteration_range=(2, 5))
    assert (e.n_rounds, e.n_trees) == (3, 3 * 2 * 3)
    assert e.tree_output.tolist() == [0, 0, 1, 1, 2, 2] * 3
    np.testing.assert_allclose(e.tree_weight, 0.5)
    np.testing.assert_allclose(e.tree_rate, 0.2, rtol=1e-6)


def test_random_forest_wrapper_and_classifier(data):
    X, y = data
    forest = xgb.XGBRFClassifier(n_estimators=7, n_jobs=1, max_depth=3).fit(X, labels("multi", y).astype(int))
    e = reader.read(forest)
    margin = forest.predict(X[:ROWS], output_margin=True)
    np.testing.assert_allclose(predict(e, X[:ROWS]), margin, **MARGIN)
    assert (e.n_rounds, e.n_trees, e.output_names) == (1, 21, ("0", "1", "2"))
    assert "sampling" in e.exactness
    np.testing.assert_allclose(e.tree_rate, 1.0, rtol=1e-6)  # a forest's trees share one step of 1
    binary = xgb.XGBClassifier(n_estimators=2, n_jobs=1).fit(X, labels("binary", y).astype(int))
    assert reader.read(binary).objective_params["classes"] == [0, 1]

    class Mine(xgb.XGBRegressor):
        pass

    assert reader.read(Mine(n_estimators=2, n_jobs=1).fit(X, y)).n_trees == 2
    with pytest.raises(ModelError, match="not fitted"):
        read_model(Mine())


# -- node values -----------------------------------------------------------------------------------
def soft(G, alpha):
    return np.sign(G) * np.maximum(np.abs(G) - alpha, 0)


def assert_node_values_are_newton_steps(e, X, margins, gradient, *, eta, lam, alpha=0.0):
    """Every node's value is -eta soft(G, alpha) / (H + lam) over the training rows that pass it."""
    for tree in range(e.n_trees):
        g, h = gradient(margins[tree])
        G, H = np.zeros(e.n_nodes), np.zeros(e.n_nodes)
        for i, row in enumerate(X):
            nodes = path(e, tree, row)
            G[nodes] += g[i]
            H[nodes] += h[i]
        own = slice(e.tree_start[tree], e.tree_start[tree + 1])
        expected = -eta * soft(G[own], alpha) / (H[own] + lam)
        # float32 gradients: 6e-8 per row relative to sum |g| / (H + lam), not to a sum that may cancel
        np.testing.assert_allclose(e.node_value[own, 0], expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("penalty", [(1.0, 0.0), (0.0, 0.0), (7.5, 0.0), (2.0, 4.0)], ids=str)
@pytest.mark.parametrize("task", ["regression", "binary"])
@pytest.mark.parametrize("route", ["object", "file"])
def test_node_values_are_newton_steps(data, task, penalty, route, tmp_path):
    (X, y), (lam, alpha) = data, penalty
    y = labels(task, y)
    params = TASKS[task] | {"reg_lambda": lam, "reg_alpha": alpha, "eta": 0.25}
    booster, D = train(X, y, params, rounds=3)
    if route == "file":
        booster.save_model(tmp_path / "model.ubj")
        e = reader.read_path(tmp_path / "model.ubj")
    else:
        e = reader.read(booster)
    base = np.full((1, N), e.base_score[0])
    before = [booster.predict(D, output_margin=True, iteration_range=(0, k)) for k in (1, 2)]
    q = lambda m: 1 / (1 + np.exp(-m.astype(float)))  # noqa: E731
    gradient = {
        "regression": lambda m: (m - y, np.ones(N)),
        "binary": lambda m: (q(m) - y, q(m) * (1 - q(m))),
    }[task]
    sampling_unknown = task == "binary" and route == "file"
    assert (e.exactness == "exact") != sampling_unknown
    assert e.params["reg_lambda"] == pytest.approx(lam, abs=1e-3)
    assert e.params["reg_alpha"] == pytest.approx(alpha, abs=1e-3)
    assert_node_values_are_newton_steps(e, X, [*base, *before], gradient, eta=0.25, lam=lam, alpha=alpha)


def test_gains_add_up_to_xgboosts_total_gain(data):
    X, y = data
    booster, _ = train(X, labels("multi", y), TASKS["multi"])
    e = reader.read(booster)
    own = booster.get_score(importance_type="total_gain")
    inner = e.feature >= 0
    total = np.bincount(e.feature[inner], e.gain[inner], minlength=5)
    # the same float32 numbers, added in float32 there and in float64 here
    np.testing.assert_allclose(total, [own.get(f"f{k}", 0.0) for k in range(5)], rtol=1e-5)


def test_dart_weights_scale_every_node(data):
    X, y = data
    booster, _ = train(X, y, {"booster": "dart", "rate_drop": 0.5})
    e = reader.read(booster)
    assert "DART" in e.exactness
    assert len(np.unique(e.tree_weight)) > 1
    document = ubjson.parse(bytes(booster.save_raw("ubj")))["learner"]["gradient_booster"]
    trees = document["gbtree"]["model"]["trees"] if "gbtree" in document else document["model"]["trees"]
    for tree, stored in enumerate(trees):
        own = slice(e.tree_start[tree], e.tree_start[tree + 1])
        inner = e.feature[own] >= 0
        expected = 0.2 * e.tree_weight[tree] * stored["base_weights"][inner]
        np.testing.assert_allclose(e.node_value[own, 0][inner], expected, rtol=1e-6)


def cover_means(e):
    """Cover-weighted mean of the leaves below each node."""
    mean = e.value[:, 0].copy()
    for node in range(e.n_nodes - 1, -1, -1):
        if e.feature[node] >= 0:
            children = [e.left[node], e.right[node]]
            mean[node] = np.average(mean[children], weights=e.cover[children])
    return mean


@pytest.mark.skipif(VERSION >= (3, 4), reason="3.4 no longer replaces leaves")
@pytest.mark.parametrize("objective", ["reg:absoluteerror", "reg:quantileerror"])
def test_renewed_leaves_give_the_mean_of_the_leaves(data, objective):
    X, y = data
    booster, _ = train(X, y, {"objective": objective, "quantile_alpha": 0.7, "reg_lambda": 3.0})
    e = reader.read_document(ubjson.parse(bytes(booster.save_raw("ubj"))))
    np.testing.assert_allclose(e.node_value[:, 0], cover_means(e), rtol=1e-9, atol=1e-12)
    assert e.needs == ()
    assert "medians or quantiles" in e.exactness
    # the weights from before the renewal still tell the rate
    np.testing.assert_allclose(e.tree_rate, 0.2, rtol=1e-4)


def test_refresh_without_leaves_uses_the_leaves(data):
    X, y = data
    booster, D = train(X, y, {"reg_lambda": 2.0})
    other = xgb.DMatrix(X[:200], y[:200] + 1)
    refresh = {
        "process_type": "update",
        "updater": "refresh",
        "refresh_leaf": 0,
        "reg_lambda": 2.0,
        "nthread": 1,
    }
    new = xgb.train(refresh, other, 6, xgb_model=booster)
    e = check_rows(new, D, X)
    assert "refresh_leaf=0" in e.exactness
    inner = np.flatnonzero(e.feature >= 0)
    H, p = e.cover + 2.0, e.node_value[:, 0]
    left, right = e.left[inner], e.right[inner]
    np.testing.assert_allclose(p[inner], (H[left] * p[left] + H[right] * p[right]) / H[inner], rtol=1e-9, atol=1e-12)
    # refresh_leaf=1 keeps everything consistent
    again = xgb.train(refresh | {"refresh_leaf": 1, "eta": 0.1}, other, 6, xgb_model=booster)
    e = check_rows(again, D, X)
    np.testing.assert_allclose(e.tree_rate, 0.1, rtol=1e-6)


def test_pruned_trees_have_no_dead_nodes(data):
    X, y = data
    booster, D = train(X, y)
    prune = {
        "process_type": "update",
        "updater": "prune",
        "gamma": 30.0,
        "eta": 0.2,
        "nthread": 1,
        "max_depth": 4,
    }
    pruned = xgb.train(prune, D, 6, xgb_model=booster)
    whole, e = reader.read(booster), check_rows(pruned, D, X)
    assert e.n_nodes < whole.n_nodes
    np.testing.assert_allclose(e.tree_rate, 0.2, rtol=1e-6)
    assert not np.isnan(e.node_value).any()


# -- learning rate, lambda and alpha from the trees alone ------------------------------------------
def from_file(booster, **given):
    return reader.read_document(ubjson.parse(bytes(booster.save_raw("ubj"))), **given)


@pytest.mark.parametrize(
    "params",
    [
        {"eta": 0.07, "reg_lambda": 3.7},
        {"eta": 0.5, "reg_lambda": 0.0},
        {"eta": 1.0, "reg_lambda": 100.0},
        {"eta": 0.3, "reg_alpha": 5.0, "reg_lambda": 1.0},
        {"eta": 0.1, "max_depth": 1, "reg_lambda": 2.0},
        {"eta": 0.1, "max_depth": 1, "reg_lambda": 2.0, "reg_alpha": 3.0},
        {"eta": 0.1, "max_depth": 2, "reg_lambda": 0.5, "gamma": 2.0},
        {"eta": 0.15, "tree_method": "exact", "reg_lambda": 4.0},
        {"eta": 0.02, "subsample": 0.5, "colsample_bytree": 0.5, "reg_lambda": 1.5},
    ],
)
@pytest.mark.parametrize("task", ["regression", "binary"])
def test_rates_are_recovered_from_a_file(data, task, params):
    X, y = data
    e = from_file(train(X, labels(task, y), TASKS[task] | params)[0])
    np.testing.assert_allclose(e.tree_rate, params["eta"], rtol=1e-5)
    assert e.params["reg_lambda"] == pytest.approx(params["reg_lambda"], rel=1e-2, abs=1e-2)
    if "reg_alpha" in params and "reg_alpha" in e.params:
        assert e.params["reg_alpha"] == pytest.approx(params["reg_alpha"], rel=1e-3)
    assert e.needs == ()


@pytest.mark.parametrize(("eta", "lam"), [(0.3, 1.0), (0.1, 2.5), (0.05, 0.0)])
@pytest.mark.parametrize("task", ["regression", "binary"])
def test_a_single_stump_is_enough(data, task, eta, lam):
    X, y = data
    params = TASKS[task] | {"eta": eta, "reg_lambda": lam, "max_depth": 1, "base_score": 0.4}
    e = from_file(train(X, labels(task, y), params, rounds=1)[0])
    np.testing.assert_allclose(e.tree_rate, eta, rtol=1e-4)  # two equations for two unknowns: 4 to 5 digits
    assert e.params["reg_lambda"] == pytest.approx(lam, abs=1e-2)


def test_schedule_gives_each_tree_its_rate(data):
    X, y = data
    schedule = [0.3 * 0.8**i for i in range(6)]
    callback = xgb.callback.LearningRateScheduler(lambda i: schedule[i])
    for params in ({}, {"reg_alpha": 2.0}, {"max_depth": 1}):
        booster, _ = train(X, labels("binary", y), TASKS["binary"] | params, callbacks=[callback])
        # the first tree has the rate of the parameters; the schedule starts with the second (models.md 1.4)
        np.testing.assert_allclose(from_file(booster).tree_rate, [0.2, *schedule[:-1]], rtol=1e-5)


def test_continued_training_has_rates_in_blocks(data):
    X, y = data
    first, D = train(X, labels("binary", y), TASKS["binary"] | {"eta": 0.3, "reg_lambda": 1.0}, rounds=4)
    params = TASKS["binary"] | {"eta": 0.05, "reg_lambda": 8.0, "nthread": 1}
    both = xgb.train(params, D, 5, xgb_model=first)
    e = reader.read(both)  # the configuration only knows the last
    np.testing.assert_allclose(e.tree_rate, [0.3] * 4 + [0.05] * 5, rtol=1e-5)
    assert "reg_lambda" not in e.params
    check_rows(both, D, X)


def test_loaded_model_is_not_believed_its_default_configuration(data, tmp_path):
    X, y = data
    booster, D = train(X, y, {"eta": 0.11, "reg_lambda": 4.0})
    booster.save_model(tmp_path / "m.json")
    loaded = xgb.Booster(model_file=tmp_path / "m.json")
    assert '"learning_rate":"0.300000012"' in loaded.save_config().replace(" ", "")
    e = check_rows(loaded, D, X)
    np.testing.assert_allclose(e.tree_rate, 0.11, rtol=1e-6)
    assert e.params["reg_lambda"] == pytest.approx(4.0)


@pytest.mark.parametrize(
    "params", [{"max_delta_step": 0.3}, {"monotone_constraints": (1, 0, -1, 0, 0)}], ids=["step", "monotone"]
)
def test_clipped_weights_fail_the_certificate(data, params):
    X, y = data
    booster, _ = train(X, labels("binary", y), TASKS["binary"] | params | {"eta": 0.17})
    unknown = from_file(booster)
    assert unknown.needs == ("learning_rate",)
    assert unknown.exactness != "exact"
    assert np.isnan(unknown.tree_rate).any()
    hidden = np.isnan(unknown.node_value[:, 0])
    assert np.array_equal(np.unique(unknown.tree_of_node[hidden]), np.flatnonzero(np.isnan(unknown.tree_rate)))
    assert "reg_lambda" not in unknown.params
    # told by the user, or by a live configuration that single splits confirm
    told, live = from_file(booster, learning_rate=0.17), reader.read(booster)
    np.testing.assert_allclose(live.tree_rate, 0.17, rtol=1e-6)
    np.testing.assert_allclose(told.node_value, live.node_value, rtol=1e-6)
    assert told.needs == live.needs == ()
    # a configuration that the trees contradict is not used
    booster.set_param({"learning_rate": 0.4})
    assert reader.read(booster).needs == ("learning_rate",)


def test_users_numbers_win(data):
    X, y = data
    booster, _ = train(X, y)
    e = reader.read(booster, learning_rate=0.5, reg_lambda=9.0, reg_alpha=1.0)
    assert np.all(e.tree_rate == 0.5)
    assert (e.params["reg_lambda"], e.params["reg_alpha"]) == (9.0, 1.0)
    rates = [0.1, 0.2, 0.3, 0.1, 0.2, 0.3]
    assert reader.read(booster, learning_rate=rates).tree_rate.tolist() == rates
    for wrong in (0.0, -1.0, np.nan, [0.1, 0.2]):
        with pytest.raises(ValueError, match="learning_rate"):
            reader.read(booster, learning_rate=wrong)


@pytest.mark.parametrize(
    "params", [{"gamma": 1e9}, {"max_depth": 1, "min_child_weight": 150}, {"eta": 0.0001}], ids=str
)
def test_trees_without_much_in_them(data, params):
    X, y = data
    booster, D = train(X, y, params)
    check_rows(booster, D, X)
    constant, D = train(X, np.full(N, 3.0), params)
    e = check_rows(constant, D, X)
    assert not np.isnan(e.node_value).any()


def test_row_sampling_shows_in_a_file_where_hessians_are_constant(data):
    X, y = data
    assert "sampled" in from_file(train(X, y, {"subsample": 0.5})[0]).exactness
    assert from_file(train(X, y)[0]).exactness == "exact"


# -- data frames -----------------------------------------------------------------------------------
@pytest.mark.skipif(VERSION < (3, 1), reason="training categories are stored since 3.1")
def test_levels_of_data_frames(data):
    pd = pytest.importorskip("pandas")
    X, y = data
    code = X[:, 4].astype(int)
    frame = pd.DataFrame(
        {
            "a": X[:, 0],
            "text": pd.Categorical(np.array(list("zyxwvutsr"))[code], categories=list("zyxwvutsr")),
            "number": pd.Categorical(code * 10, categories=np.arange(9) * 10),
        }
    )
    model = xgb.XGBRegressor(n_estimators=4, n_jobs=1, enable_categorical=True, max_cat_to_onehot=2).fit(frame, y)
    e = reader.read(model)
    assert e.feature_names == e.schema.names == ("a", "text", "number")
    assert e.schema.levels == (None, tuple("zyxwvutsr"), tuple(range(0, 90, 10)))
    assert (e.schema.unseen, e.schema.absent) == ("error", "missing")
    coded = np.c_[X[:, 0], code, code][:ROWS]
    np.testing.assert_allclose(predict(e, coded)[:, 0], model.predict(frame[:ROWS], output_margin=True), **MARGIN)


@pytest.mark.skipif(VERSION < (3, 1), reason="training categories are stored since 3.1")
def test_levels_that_xgboost_cut_wrong_match_nothing(data):
    pd = pytest.importorskip("pandas")
    X, y = data
    names = np.array(["ä", "b", "c"])  # 3.2 stores the bytes of "ä" as two levels, and "b" as the third
    frame = pd.DataFrame({"a": X[:, 0], "text": pd.Categorical(names[X[:, 4].astype(int) % 3], categories=names)})
    model = xgb.XGBRegressor(n_estimators=2, n_jobs=1, enable_categorical=True).fit(frame, y)
    levels = reader.read(model).schema.levels[1]
    assert len(levels) == 3
    assert levels == tuple(names) if VERSION >= (3, 4) else not set(levels) & set(names)


# -- files -----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def saved(data, tmp_path_factory):
    X, y = data
    X = X.copy()
    booster, _ = train(X, labels("multi", y), TASKS["multi"], rounds=2, feature_types=["q"] * 4 + ["c"])
    folder = tmp_path_factory.mktemp("models")
    for name in ("model.ubj", "model.json"):
        booster.save_model(folder / name)
    return booster, folder


def test_files_equal_the_object_without_importing_xgboost(saved):
    booster, folder = saved
    (folder / "old").write_bytes((folder / "model.json").read_bytes())
    (folder / "new").write_bytes((folder / "model.ubj").read_bytes())
    live = reader.read(booster)
    for name in ("model.ubj", "model.json", "old", "new"):
        e = reader.read_path(folder / name)
        for field in (
            "threshold",
            "value",
            "node_value",
            "left",
            "leaf_id",
            "set_codes",
            "base_score",
            "gain",
        ):
            np.testing.assert_array_equal(getattr(e, field), getattr(live, field), err_msg=f"{name} {field}")
        assert e.params["version"][:2] == list(VERSION)
    script = (
        "import sys, treeinner; "
        f"treeinner.read_model({str(folder / 'model.ubj')!r}); assert 'xgboost' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path)})


@pytest.mark.parametrize("name", ["model.ubj", "model.json"])
def test_truncated_files_are_model_errors(saved, name, tmp_path):
    data = (saved[1] / name).read_bytes()
    for end in range(0, len(data) - 1, 37):
        (tmp_path / "cut").write_bytes(data[:end])
        with pytest.raises(ModelError):
            reader.read_path(tmp_path / "cut")


def test_damaged_files_are_errors_and_never_crashes(saved, tmp_path):
    data = bytearray((saved[1] / "model.ubj").read_bytes())
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(200):
        broken = data.copy()
        for at in rng.integers(0, len(data), 3):
            broken[at] = rng.integers(0, 256)
        (tmp_path / "broken").write_bytes(broken)
        try:
            reader.read_path(tmp_path / "broken")  # a changed leaf value is no error
        except (ModelError, UnsupportedModelError):
            refused += 1
    assert refused > 25


@pytest.mark.parametrize("junk", [None, -1, 2**40, 1e40, float("nan"), "x", [], {}, [None], [[1]], ["a"]], ids=str)
def test_damaged_documents_are_model_errors(saved, junk):
    text = (saved[1] / "model.json").read_text()

    def places(node):
        for key in node if isinstance(node, dict) else range(min(len(node), 2)):
            yield node, key
            if isinstance(node[key], (dict, list)):
                yield from places(node[key])

    for number in range(0, len(list(places(json.loads(text)))), 3):
        document = json.loads(text)
        node, key = list(places(document))[number]
        node[key] = junk
        with contextlib.suppress(ModelError, UnsupportedModelError):  # any other error is a failure
            reader.read_document(document)


@pytest.mark.parametrize(
    "data",
    [b"{", b"{L", b"{" + b"i\x01aL" * 5, b"{i\x01a[$d#L\x7f" + b"\xff" * 7,
     b"{i\x01a[$Z#L\x00\x00\x00\xff\x00\x00\x00\x00}",
     b"{i\x01a" + b"[" * 5000, b"{i\x01a[#l\x7f\xff\xff\xff", b"{i\xff}", b"{i\x01\xff}", b"{}x"],
)  # fmt: skip
def test_hostileubjson_is_refused_before_anything_is_made_of_a_claimed_length(data):
    tracemalloc.start()
    try:
        with pytest.raises(ModelError):
            ubjson.parse(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000  # the claims are of up to 2^63 items; 5,000 open brackets may cost a frame each


def test_what_is_no_model_is_refused_by_name(saved, data, tmp_path):
    booster, _ = saved
    X, y = data
    linear = xgb.train({"booster": "gblinear", "nthread": 1}, xgb.DMatrix(X, y), 2)
    cases = {
        "config": (booster.save_config().encode(), ModelError, "configuration"),
        "dump": (json.dumps(booster.get_dump()).encode(), UnsupportedModelError, "dump"),
        "linear": (bytes(linear.save_raw("json")), UnsupportedModelError, "gblinear"),
        "binary": (b"binf\x00\x00", UnsupportedModelError, "old binary"),
        "pickle": (b"\x80\x04\x95", UnsupportedModelError, "pickle"),
        "text": (b"hello", ModelError, "not a model file"),
        "empty": (b"", ModelError, "is empty"),
    }
    for name, (content, error, match) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(error, match=match):
            read_model(tmp_path / name)
    with pytest.raises(UnsupportedModelError, match="gblinear"):
        reader.read(linear)
    with pytest.raises(UnsupportedModelError, match="not an XGBoost"):
        reader.read(object())


def test_pickled_state_keeps_its_configuration(data):
    X, y = data
    booster, _ = train(X, labels("binary", y), TASKS["binary"] | {"max_delta_step": 0.3})
    e = reader.read_document(ubjson.parse(bytes(booster.__getstate__()["handle"])))
    np.testing.assert_array_equal(e.node_value, reader.read(booster).node_value)


@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (1e-5, 0), (1, 1e4), (1, -1e6)])
def test_targets_of_any_size_start_at_their_base_score(data, scale, shift):
    """A fitted base score is a float32: its rounding moves the first root, and is not a base_margin."""
    X, y = data
    D = xgb.DMatrix(X, label=y * scale + shift)
    assert "start" not in read_model(xgb.train({"nthread": 1}, D, 3)).ensemble.doubts
    D.set_base_margin(np.full(len(y), (y.mean() + 1) * scale + shift))
    assert "base_margin" in read_model(xgb.train({"nthread": 1}, D, 3)).ensemble.doubts["start"]
