"""The scikit-learn reader against the library's predictions and leaves, and node values from the data."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, softmax
from sklearn import ensemble as ske
from sklearn import tree as skt
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.linear_model import LinearRegression
from sklearn.utils.class_weight import compute_sample_weight

from tests import oracle
from treeinner.ensemble import Ensemble
from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.model import read_model
from treeinner.readers.sklearn import hist as hist_reader

from .reading import sklearn as reader

read = reader.read

N = 300
ROWS = 60  # the oracle walks in Python; this many rows reach nearly every leaf of the small trees here
rng = np.random.default_rng(7)
X = rng.normal(size=(N, 5))
SIGNAL = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * (X[:, 3] > 0)
WEIGHT = rng.uniform(0.2, 3.0, N)
Y = {
    "regression": SIGNAL + 0.5 * rng.normal(size=N),
    "binary": np.where(SIGNAL + rng.normal(size=N) > 0, "yes", "no"),
    "multi": np.digitize(SIGNAL + 0.5 * rng.normal(size=N), [-0.8, 0.8]) * 10,
    "count": rng.poisson(np.exp(0.4 * SIGNAL)).astype(float),
    "positive": rng.gamma(2.0, np.exp(0.3 * SIGNAL)) + 1e-3,
}
HOLES = np.where(rng.random(X.shape) < 0.1, np.nan, X)
# Levels as numbers that are no codes, in columns 1 and 3, some missing.
LEVELS = X.copy()
LEVELS[:, 1] = np.where(rng.random(N) < 0.1, np.nan, 7.0 * rng.integers(0, 9, N) - 7)
LEVELS[:, 3] = rng.integers(3, 7, N)


def encoded(model, data):
    """What the trees of a HistGradientBoosting see, in the user's column order; levels are codes."""
    inside = model._preprocess_X(data, reset=False)
    flags = model.is_categorical_
    if flags is None:
        return inside
    out = np.empty_like(inside)
    out[:, np.concatenate([np.flatnonzero(flags), np.flatnonzero(~flags)])] = inside
    return out


def hist_leaves(model, data):
    """Leaf of each row in each tree: the library's own walk, with node numbers in the place of values."""
    inside = model._preprocess_X(data, reset=False)
    bitsets = model._bin_mapper.make_known_categories_bitsets()
    out = []
    for predictor in (p for stage in model._predictors for p in stage):
        nodes = predictor.nodes.copy()
        nodes["value"] = np.arange(len(nodes))
        numbered = TreePredictor(nodes, predictor.binned_left_cat_bitsets, predictor.raw_left_cat_bitsets)
        out.append(numbered.predict(inside, *bitsets, 1).astype(int))
    return np.array(out).T


def node_sums(e, tree, leaf, numbers):
    """Sum of `numbers` over the rows in each node of a tree, given the leaf of each row."""
    start, stop = e.tree_start[tree], e.tree_start[tree + 1]
    total = np.bincount(leaf, numbers, stop - start)
    for node in range(stop - start - 1, -1, -1):
        if e.left[start + node] >= 0:
            total[node] += total[e.left[start + node] - start] + total[e.right[start + node] - start]
    return total


# -- HistGradientBoosting ------------------------------------------------------------------------------------
REG, CLS = ske.HistGradientBoostingRegressor, ske.HistGradientBoostingClassifier
HIST = {
    "plain": (REG, "regression", X, {}),
    "l2": (REG, "regression", X, {"l2_regularization": 5.0, "weighted": True}),
    "holes": (REG, "regression", HOLES, {}),
    "levels": (REG, "regression", LEVELS, {"categorical_features": [1, 3]}),
    "early": (
        REG,
        "regression",
        X,
        {"early_stopping": True, "max_iter": 30, "n_iter_no_change": 1, "tol": 0.1},
    ),
    "deep": (REG, "regression", HOLES, {"max_leaf_nodes": None, "min_samples_leaf": 1, "max_features": 0.5}),
    "stumps": (REG, "regression", X, {"max_depth": 1}),
    "monotone": (REG, "regression", X, {"monotonic_cst": [1, 0, 0, 1, -1], "weighted": True}),
    "interactions": (REG, "regression", X, {"interaction_cst": [{0, 1}, {2, 3}]}),
    "binary": (CLS, "binary", HOLES, {"l2_regularization": 1.0}),
    "binary levels": (CLS, "binary", LEVELS, {"categorical_features": [1, 3], "weighted": True}),
    "binary balanced": (CLS, "binary", X, {"class_weight": "balanced", "max_depth": 2}),
    "binary monotone": (CLS, "binary", X, {"monotonic_cst": [1, 0, 0, 1, -1]}),
    "binary all monotone": (CLS, "binary", X, {"monotonic_cst": [1] * 5, "min_samples_leaf": 20}),
    "multi": (CLS, "multi", X, {"weighted": True}),
    "multi levels": (CLS, "multi", LEVELS, {"categorical_features": [1, 3], "l2_regularization": 2.0}),
    "poisson": (REG, "count", X, {"loss": "poisson"}),
    "gamma": (REG, "positive", HOLES, {"loss": "gamma"}),
    "absolute": (REG, "regression", X, {"loss": "absolute_error"}),
    "absolute weighted": (REG, "regression", X, {"loss": "absolute_error", "weighted": True}),
    "quantile": (REG, "regression", X, {"loss": "quantile", "quantile": 0.8}),
}
RENEWED = ("absolute", "absolute weighted", "quantile")


def fit_hist(name):
    kind, target, data, options = HIST[name]
    options = {"max_iter": 8, "min_samples_leaf": 5, "random_state": 0, **options}
    weight = WEIGHT if options.pop("weighted", False) else None
    model = kind(**options).fit(data, Y[target], sample_weight=weight)
    if "class_weight" in options:
        weight = compute_sample_weight(options["class_weight"], Y[target])
    return model, data, weight


@pytest.mark.parametrize("name", HIST)
def test_hist_margins_and_leaves_are_the_librarys(name):
    model, data, _ = fit_hist(name)
    e = read(model)
    rows = data[:ROWS]
    seen = encoded(model, rows)
    assert np.array_equal(oracle.apply(e, seen), hist_leaves(model, rows))
    # Both add the same float64 numbers, in the same order up to the base score.
    np.testing.assert_allclose(oracle.predict(e, seen), model._raw_predict(rows), rtol=1e-13, atol=1e-13)
    assert e.n_rounds == model.n_iter_
    assert not e.needs
    assert (e.n_outputs, e.n_trees) == (
        model.n_trees_per_iteration_,
        model.n_iter_ * model.n_trees_per_iteration_,
    )


def hist_gradients(model, target, margin, weight):
    y = Y[target]
    y = np.searchsorted(model.classes_, y).astype(float) if hasattr(model, "classes_") else y
    raw = margin[:, 0] if margin.shape[1] == 1 else margin
    gradient, hessian = model._loss.gradient_hessian(y_true=y, raw_prediction=raw, sample_weight=weight)
    if model._loss.constant_hessian:  # the loss then hands out one number, without the weights
        hessian = np.ones(N) if weight is None else weight
    # The library holds both in float32 and adds them up in float64.
    return (np.float64(np.float32(a)).reshape(N, -1) for a in (gradient, hessian))


@pytest.mark.parametrize("name", [name for name in HIST if name not in (*RENEWED, "early")])
def test_hist_nodes_are_newton_steps_and_gains_are_inner_products(name):
    model, data, weight = fit_hist(name)
    e = read(model)
    leaves, l2, rate = hist_leaves(model, data), model.l2_regularization, model.learning_rate
    margin = np.tile(e.base_score, (N, 1))
    own, scores = np.zeros(5), np.zeros(5)
    for tree in range(e.n_trees):
        output, nodes = e.tree_output[tree], slice(e.tree_start[tree], e.tree_start[tree + 1])
        if output == 0:
            before = margin.copy()
            gradient, hessian = hist_gradients(model, HIST[name][1], before, weight)
        g, h = (node_sums(e, tree, leaves[:, tree], a[:, output]) for a in (gradient, hessian))
        # Equations solved in float64: measured below 1e-13; a split that gains next to nothing costs digits.
        if model.monotonic_cst is None:
            np.testing.assert_allclose(e.node_value[nodes, 0], -rate * g / (h + l2), rtol=0, atol=1e-9)
        elif e.feature[nodes.start] >= 0:  # clipped below the root, never at it
            root = -rate * g[0] / (h[0] + l2)
            np.testing.assert_allclose(e.node_value[nodes.start, 0], root, rtol=0, atol=1e-9)
        for node in range(nodes.start, nodes.stop):
            for child in (e.left[node], e.right[node]):
                if child >= 0:
                    step = e.node_value[child, 0] - e.node_value[node, 0]
                    scores[e.feature[node]] -= step * g[child - nodes.start] / rate
        own += np.bincount(np.maximum(e.feature[nodes], 0), e.gain[nodes], 5)
        margin[:, output] += e.value[nodes.start + leaves[:, tree], 0]
    assert e.exactness == "exact"
    # Proposition 3, the roots' gains repaired: sums of float64 on both sides.
    assert np.abs(scores - own).max() <= 1e-10 * own.max()


@pytest.mark.parametrize("name", ["l2", "binary monotone", "multi levels"])
def test_hist_two_ways_to_the_root_agree(name, monkeypatch):
    model, *_ = fit_hist(name)
    e = read(model)
    _ = e.node_value  # worked out now
    monkeypatch.setattr(hist_reader, "AGREEMENT", -1.0)  # nothing agrees: all equations of a tree at once
    again = read(model)
    # Two ways to solve well-posed equations in float64.
    np.testing.assert_allclose(again.node_value, e.node_value, rtol=0, atol=1e-10)
    np.testing.assert_allclose(again.gain, e.gain, rtol=1e-8)
    assert not np.array_equal(again.node_value, e.node_value)


def test_hist_learning_rate_and_l2_can_be_said():
    model, *_ = fit_hist("l2")
    e, rate = read(model), model.learning_rate
    model.learning_rate = 1.0
    model.l2_regularization = 0.0
    said = read(model, learning_rate=rate, reg_lambda=5.0)
    assert np.array_equal(said.node_value, e.node_value)
    assert said.params == e.params
    with pytest.raises(ValueError, match="reg_alpha=1"):
        read(model, reg_alpha=1.0)


@pytest.mark.parametrize("name", RENEWED)
def test_hist_renewed_leaves_average_upwards(name):
    model, *_ = fit_hist(name)
    e = read(model)
    mean = np.array([oracle.mean_value(e, node) for node in range(e.n_nodes)])
    np.testing.assert_allclose(e.node_value, mean, rtol=0, atol=1e-15)  # two ways to add a few numbers
    assert "renews" in e.exactness
    roots = e.tree_start[:-1][e.feature[e.tree_start[:-1]] >= 0]
    assert np.isnan(e.gain[roots]).all() == (name == "absolute weighted")


@pytest.mark.parametrize("max_leaf_nodes", [31, 3])  # with 3 leaves, one of the root's children is a leaf
def test_hist_renewed_root_gain_is_the_gradients(max_leaf_nodes):
    data = X
    model = REG(loss="absolute_error", max_iter=8, max_leaf_nodes=max_leaf_nodes).fit(X, Y["regression"])
    e, leaves = read(model), hist_leaves(model, data)
    margin = np.tile(e.base_score, (N, 1))
    for tree in range(e.n_trees):
        root = e.tree_start[tree]
        g = node_sums(e, tree, leaves[:, tree], np.where(margin[:, 0] > Y["regression"], 1.0, -1.0))
        score = g**2 / e.cover[root : e.tree_start[tree + 1]]
        left, right = e.left[root], e.right[root]
        truth = score[left - root] + score[right - root] - score[0]
        assert e.gain[root] == pytest.approx(truth, rel=1e-10)  # sums of signs, rounded once or twice
        margin[:, 0] += e.value[root + leaves[:, tree], 0]


def test_hist_stumps_with_varying_hessians_do_not_tell_their_root():
    model = CLS(max_iter=4, max_depth=1).fit(X, Y["binary"])
    e = read(model)
    inner = e.feature >= 0
    assert np.isnan(e.node_value[inner]).all()
    assert not np.isnan(e.node_value[~inner]).any()
    assert e.needs == ("training data",)
    assert e.exactness != "exact"
    np.testing.assert_allclose(oracle.predict(e, X[:ROWS])[:, 0], model.decision_function(X[:ROWS]), rtol=1e-13)


def test_hist_levels_come_from_the_estimator_in_the_users_order():
    model, *_ = fit_hist("levels")
    e = read(model)
    assert e.schema.categorical == (False, True, False, True, False)
    assert e.schema.levels[1] == tuple(7.0 * k - 7 for k in range(9))
    assert e.schema.levels[3] == (3.0, 4.0, 5.0, 6.0)
    assert e.schema.known_codes == (None, 9, None, 4, None)
    assert (e.schema.unseen, e.schema.levels_for_arrays) == ("missing", True)
    assert np.array_equal(e.category_set >= 0, np.isin(e.feature, (1, 3)))
    strange = LEVELS[:ROWS].copy()
    strange[:, 1] = 1000.0  # in no training row
    assert np.array_equal(oracle.apply(e, encoded(model, strange)), hist_leaves(model, strange))


def frames():
    letters = np.array(["pear", "fig", "apple", "kiwi"], dtype=object)[rng.integers(0, 4, N)]
    letters[rng.random(N) < 0.15] = None
    small = {"x": X[:, 0], "c": letters, "z": X[:, 2]}
    strings = [None if v is None else str(v) for v in letters]
    with_nan = pd.Series([np.nan if v is None else v for v in letters], dtype=object)
    return {
        "pandas category": (
            pd.DataFrame(small).astype({"c": "category"}),
            {"categorical_features": "from_dtype"},
        ),
        "pandas nan": (pd.DataFrame({**small, "c": with_nan}), {"categorical_features": ["c"]}),
        "pandas object": (
            pd.DataFrame({**small, "c": pd.Series(letters, dtype=object)}),
            {"categorical_features": [1]},
        ),
        "polars": (
            pl.DataFrame({**small, "c": pl.Series(strings).cast(pl.Categorical)}),
            {"categorical_features": "from_dtype"},
        ),
    }


FRAMES = frames()


@pytest.mark.parametrize("name", FRAMES)
def test_hist_frames_with_string_levels(name):
    frame, options = FRAMES[name]
    strings = [v if isinstance(v, str) else None for v in frame["c"]]
    y = X[:, 0] + np.array([{"fig": 2.0, None: 3.0}.get(v, 0.0) for v in strings])
    model = REG(max_iter=6, min_samples_leaf=5, **options).fit(frame, y)
    e = read(model)
    assert e.feature_names == e.schema.names == ("x", "c", "z")
    assert e.schema.levels == (None, ("apple", "fig", "kiwi", "pear"), None)
    codes = [np.nan if v is None else float(e.schema.levels[1].index(v)) for v in strings]
    table = np.column_stack([X[:, 0], codes, X[:, 2]])[:ROWS]  # by the schema alone, without the estimator
    assert np.isnan(table).any()
    assert np.array_equal(oracle.apply(e, table), hist_leaves(model, frame[:ROWS]))
    assert np.array_equal(e.apply(frame), hist_leaves(model, frame))  # the table's way, and the kernels'
    # scikit-learn takes None for a level and NaN for missing: where they part, unseen levels are refused.
    assert e.schema.unseen == ("error" if name in ("polars", "pandas object") else "missing")


def test_hist_none_and_nan_are_not_one_thing():
    column = np.array(["a", "b", None, np.nan] * 20, dtype=object)
    table = np.column_stack([np.arange(80.0).astype(object), column])
    model = REG(max_iter=2, categorical_features=[1]).fit(table, np.arange(80.0))
    with pytest.raises(UnsupportedModelError, match="both None and NaN"):
        read(model)


def test_hist_infinite_thresholds_and_values_stay():
    data = np.where(rng.random((N, 1)) < 0.3, np.nan, 1.0)  # only "missing or not" tells anything
    model = REG(max_iter=2).fit(data, np.isnan(data[:, 0]).astype(float))
    e = read(model)
    assert np.isinf(e.threshold[e.feature >= 0]).all()
    rows = np.array([[1.0], [np.nan], [np.inf], [-np.inf]])
    np.testing.assert_allclose(oracle.predict(e, rows)[:, 0], model.predict(rows), rtol=1e-13)


# -- GradientBoosting ----------------------------------------------------------------------------------------
GBR, GBC = ske.GradientBoostingRegressor, ske.GradientBoostingClassifier
BOOSTED = {
    "plain": (GBR, "regression", {}),
    "weights": (GBR, "regression", {"weighted": True, "max_features": 2}),
    "zero": (GBR, "regression", {"init": "zero"}),
    "subsample": (GBR, "regression", {"subsample": 0.5}),
    "early": (GBR, "regression", {"n_iter_no_change": 1, "tol": 0.5}),
    "absolute": (GBR, "regression", {"loss": "absolute_error"}),
    "huber": (GBR, "regression", {"loss": "huber", "alpha": 0.8}),
    "quantile": (GBR, "regression", {"loss": "quantile", "alpha": 0.7, "weighted": True}),
    "binary": (GBC, "binary", {}),
    "binary deep": (GBC, "binary", {"max_depth": None, "min_samples_leaf": 3}),
    "binary weights": (GBC, "binary", {"weighted": True, "max_depth": 2}),
    "exponential": (GBC, "binary", {"loss": "exponential", "max_depth": 2}),
    "multi": (GBC, "multi", {}),
    "multi leaves": (GBC, "multi", {"max_leaf_nodes": 5, "init": "zero"}),
}


def fit_boosted(name):
    kind, target, options = BOOSTED[name]
    options = {"n_estimators": 8, "random_state": 0, **options}
    weight = WEIGHT if options.pop("weighted", False) else None
    return kind(**options).fit(X, Y[target], sample_weight=weight), weight


@pytest.mark.parametrize("name", BOOSTED)
def test_boosted_margins_and_leaves_are_the_librarys(name):
    model, _ = fit_boosted(name)
    e = read(model)
    rows = X[:ROWS]
    assert np.array_equal(oracle.apply(e, rows), model.apply(rows).reshape(ROWS, -1))
    margin = model._raw_predict(rows.astype(np.float32))
    # The same products in another order.
    np.testing.assert_allclose(oracle.predict(e, rows), margin, rtol=1e-12, atol=1e-13)
    assert (e.n_rounds, e.n_outputs) == model.estimators_.shape
    assert (e.exactness == "exact") == (name in ("plain", "weights", "zero"))
    assert not e.needs


def residuals(model, target, margin, output):
    """Negative gradient and hessian of each row for one output."""
    if not hasattr(model, "classes_"):
        return Y[target] - margin[:, 0], np.ones(N)
    y = np.searchsorted(model.classes_, Y[target])
    if model.loss == "exponential":
        r = (2 * y - 1) * np.exp(-(2 * y - 1) * margin[:, 0])
        return r, np.abs(r)
    p = expit(margin[:, 0]) if margin.shape[1] == 1 else softmax(margin, axis=1)[:, output]
    return (y == (1 if margin.shape[1] == 1 else output)) - p, p * (1 - p)


@pytest.mark.parametrize("name", ["plain", "weights", "zero", *(n for n in BOOSTED if BOOSTED[n][0] is GBC)])
def test_boosted_nodes_are_what_they_would_be_as_leaves(name):
    model, weight = fit_boosted(name)
    weight = np.ones(N) if weight is None else weight
    e, leaves = read(model), model.apply(X).reshape(N, -1).astype(int)
    factor = (e.n_outputs - 1) / e.n_outputs if e.n_outputs > 1 else 1.0
    margin = np.tile(e.base_score, (N, 1))
    scores = np.zeros(5)
    for tree in range(e.n_trees):
        output, nodes = e.tree_output[tree], slice(e.tree_start[tree], e.tree_start[tree + 1])
        if output == 0:
            before = margin.copy()
        r, h = residuals(model, BOOSTED[name][1], before, output)
        total, hessian = (node_sums(e, tree, leaves[:, tree], weight * a) for a in (r, h))
        truth = model.learning_rate * factor * total / hessian
        # Recovered from variances: half of the digits of float64 may go where two leaves nearly agree.
        np.testing.assert_allclose(e.node_value[nodes, 0], truth, rtol=0, atol=1e-9)
        inner = np.flatnonzero(e.feature[nodes] >= 0)
        for child in (e.left[nodes][inner], e.right[nodes][inner]):
            step = e.node_value[child, 0] - e.node_value[nodes, 0][inner]
            np.add.at(scores, e.feature[nodes][inner], step * total[child - nodes.start] / model.learning_rate)
        margin[:, output] += e.value[nodes.start + leaves[:, tree], 0]
    if e.exactness == "exact":
        own = np.bincount(e.feature[e.feature >= 0], e.gain[e.feature >= 0], 5)
        np.testing.assert_allclose(scores, own, rtol=1e-10)  # sums of squares on one side, products on the other
        np.testing.assert_allclose(own / own.sum(), model.feature_importances_, rtol=1e-10)


@pytest.mark.parametrize("name", ["absolute", "huber", "quantile"])
def test_boosted_renewed_leaves_average_upwards(name):
    e = read(fit_boosted(name)[0])
    mean = np.array([oracle.mean_value(e, node) for node in range(e.n_nodes)])
    np.testing.assert_allclose(e.node_value, mean, rtol=0, atol=1e-14)  # two ways to add a few numbers


def test_boosted_sums_lost_in_rounding_are_not_divided_by():
    # Both classes alike in one cell: its gradients cancel, its value is 0, its hessian nowhere to be found.
    cells = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 10, axis=0)
    y = np.concatenate([np.tile([0, 1], 5), np.ones(10), np.zeros(10), np.tile([0, 1], 5)]).astype(int)
    e = read(GBC(n_estimators=3, max_depth=2).fit(cells, y))
    inner = e.feature >= 0
    first = e.tree_of_node == 0
    assert np.isfinite(e.node_value[first]).all()  # before the first tree all rows have one probability
    assert np.isnan(e.node_value[inner & ~first]).all()
    assert e.needs == ("training data",)


def test_boosted_init_of_another_estimator_is_refused():
    model = GBR(n_estimators=2, init=LinearRegression()).fit(X, Y["regression"])
    with pytest.raises(UnsupportedModelError, match="init=LinearRegression"):
        read(model)


# -- trees and forests ---------------------------------------------------------------------------------------
TWO = np.column_stack([Y["regression"], Y["count"]])
TWO_CLASSES = np.column_stack([Y["multi"], (Y["binary"] == "yes").astype(int)])
AVERAGED = {
    "tree": (skt.DecisionTreeRegressor(max_depth=5), HOLES, Y["regression"]),
    "tree classes": (skt.DecisionTreeClassifier(max_depth=6), HOLES, Y["binary"]),
    "tree leaves": (skt.DecisionTreeClassifier(max_leaf_nodes=9, class_weight="balanced"), X, Y["multi"]),
    "tree pruned": (skt.DecisionTreeRegressor(ccp_alpha=0.02), X, Y["regression"]),
    "tree targets": (skt.DecisionTreeRegressor(max_depth=4), X, TWO),
    "tree absolute": (skt.DecisionTreeRegressor(max_depth=3, criterion="absolute_error"), X, Y["regression"]),
    "tree monotone": (
        skt.DecisionTreeRegressor(max_depth=4, monotonic_cst=[1, 0, 0, 1, 0]),
        X,
        Y["regression"],
    ),
    "extra tree": (skt.ExtraTreeRegressor(max_depth=5), X, Y["regression"]),
    "forest": (ske.RandomForestRegressor(n_estimators=6), HOLES, Y["regression"]),
    "forest classes": (ske.RandomForestClassifier(n_estimators=6, max_features=2), X, Y["multi"]),
    "forest entropy": (ske.RandomForestClassifier(n_estimators=4, criterion="entropy"), X, Y["binary"]),
    "forest targets": (ske.RandomForestRegressor(n_estimators=4, max_depth=5), X, TWO),
    "forest target classes": (ske.RandomForestClassifier(n_estimators=4, max_depth=5), X, TWO_CLASSES),
    "extra": (ske.ExtraTreesRegressor(n_estimators=5, max_depth=6), X, Y["regression"]),
    "extra classes": (ske.ExtraTreesClassifier(n_estimators=5, max_depth=6), X, Y["multi"]),
}


def fit_averaged(name):
    model, data, y = AVERAGED[name]
    model.set_params(random_state=0)
    return model.fit(data, y, sample_weight=WEIGHT), data, y


@pytest.mark.parametrize("name", AVERAGED)
def test_averaged_margins_leaves_and_nodes_are_the_librarys(name):
    model, data, y = fit_averaged(name)
    e = read(model)
    rows = data[:ROWS]
    truth = model.predict_proba(rows) if hasattr(model, "classes_") else model.predict(rows)
    truth = np.concatenate(truth, axis=1) if isinstance(truth, list) else truth.reshape(ROWS, -1)
    np.testing.assert_allclose(oracle.predict(e, rows), truth, rtol=0, atol=1e-14 * np.abs(y_scale(y)))
    assert np.array_equal(oracle.apply(e, rows), model.apply(rows).reshape(ROWS, -1))
    trees = [t.tree_ for t in getattr(model, "estimators_", [model])]
    for i, tree in enumerate(trees):
        nodes = e.node_value[e.tree_start[i] : e.tree_start[i + 1]] * len(trees)
        sizes = np.atleast_1d(model.n_classes_) if hasattr(model, "classes_") else [1] * model.n_outputs_
        stored = np.concatenate([tree.value[:, j, :k] for j, k in enumerate(sizes)], axis=1)
        np.testing.assert_allclose(nodes, stored, rtol=1e-15, atol=0)  # divided and multiplied again
    assert e.averaged
    assert e.n_rounds == 1
    assert np.array_equal(e.tree_weight, np.full(len(trees), 1 / len(trees)))


def y_scale(y):
    """Size of the predictions: 1 for class fractions."""
    return 1.0 if y.dtype.kind in "iuU" else np.abs(y).max()


@pytest.mark.parametrize("name", ["tree", "tree pruned", "extra tree", "extra", "extra classes", "tree targets"])
def test_averaged_gain_is_an_inner_product_with_y(name):
    model, data, y = fit_averaged(name)
    e, leaves = read(model), model.apply(data).reshape(N, -1)
    one_hot = (y[:, None] == model.classes_).astype(float) if hasattr(model, "classes_") else y.reshape(N, -1)
    scores = np.zeros(5)
    for tree in range(e.n_trees):
        start, stop = e.tree_start[tree], e.tree_start[tree + 1]
        for j in range(e.n_outputs):
            total = node_sums(e, tree, leaves[:, tree], WEIGHT * one_hot[:, j])
            for node in range(start, stop):
                for child in (e.left[node], e.right[node]):
                    if child >= 0:
                        step = e.node_value[child, j] - e.node_value[node, j]
                        scores[e.feature[node]] += step * total[child - start]
    weighted = e.gain * e.tree_weight[e.tree_of_node]
    own = np.bincount(e.feature[e.feature >= 0], weighted[e.feature >= 0], 5)
    targets = model.n_outputs_
    # Variances by differences of squares on the one side: 1e-16 times the ratio of y^2 to what a split gains.
    np.testing.assert_allclose(scores, targets * own, rtol=1e-9)
    assert (e.exactness == "exact") == (targets == 1)


def test_averaged_names():
    names = {name: read(fit_averaged(name)[0]).output_names for name in AVERAGED}
    assert names["tree"] is None
    assert names["tree classes"] == ("no", "yes")
    assert names["forest classes"] == ("0", "10", "20")
    assert names["forest targets"] is None  # the columns of y name them
    assert names["forest target classes"] == ("0=0", "0=10", "0=20", "1=0", "1=1")
    e = read(fit_averaged("forest target classes")[0])
    assert e.objective_params["classes"] == [[0, 10, 20], [0, 1]]


def test_float32_rounding_decides_as_in_the_library():
    data = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = skt.DecisionTreeRegressor().fit(data, [0.0, 1.0, 2.0, 3.0])
    rows = (np.array([0.5, 1.5, 2.5])[:, None] + np.array([-1e-9, 0.0, 1e-9, 1e-6])).reshape(-1, 1)
    e = read(model)
    assert np.array_equal(oracle.predict(e, rows)[:, 0], model.predict(rows))
    assert not e.schema.allow_infinite


# -- what every kind shares ----------------------------------------------------------------------------------
ALL = [
    lambda: fit_hist("multi levels")[0],
    lambda: fit_boosted("multi")[0],
    lambda: fit_averaged("forest classes")[0],
]


@pytest.mark.parametrize("fitted", ALL)
def test_it_survives_a_file(fitted, tmp_path):
    e = read(fitted())
    e.save(tmp_path / "model.ti")
    again = Ensemble.load(tmp_path / "model.ti")
    assert np.array_equal(oracle.predict(again, X[:5]), oracle.predict(e, X[:5]))
    assert repr(again.schema) == repr(e.schema)
    assert again.objective_params == e.objective_params


def test_rounds_can_be_cut():
    model, _ = fit_boosted("multi")
    staged = list(model._staged_raw_predict(X[:ROWS].astype(np.float32)))
    e = read(model, iteration_range=(0, 3))
    np.testing.assert_allclose(oracle.predict(e, X[:ROWS]), staged[2], rtol=1e-12, atol=1e-13)
    hist, *_ = fit_hist("binary")
    staged = list(hist._staged_raw_predict(HOLES[:ROWS]))
    e = read(hist, iteration_range=(0, 2))
    np.testing.assert_allclose(oracle.predict(e, HOLES[:ROWS]), staged[1], rtol=1e-12, atol=1e-13)


def test_names_losses_and_classes():
    frame = pd.DataFrame(X, columns=list("abcde"))
    e = read(GBC(n_estimators=2).fit(frame, Y["binary"]))
    assert e.feature_names == e.schema.names == tuple("abcde")
    assert (e.objective, e.output_names, e.objective_params) == ("log_loss", None, {"classes": ["no", "yes"]})
    assert read(fit_hist("multi")[0]).output_names == ("0", "10", "20")
    e = read(fit_hist("quantile")[0])
    assert (e.objective, e.objective_params) == ("quantile", {"alpha": 0.8})
    e = read(fit_boosted("huber")[0])
    assert (e.objective, e.objective_params) == ("huber", {"alpha": 0.8})
    assert read(fit_averaged("forest entropy")[0]).objective == "entropy"


class MyBoosting(REG):
    pass


class MyForest(ske.RandomForestRegressor):
    pass


def test_subclasses_are_read():
    for kind in (MyBoosting, MyForest):
        model = kind(random_state=0).set_params(**({"max_iter": 3} if kind is MyBoosting else {"n_estimators": 3}))
        model.fit(X, Y["regression"])
        np.testing.assert_allclose(
            oracle.predict(read(model), X[:9])[:, 0], model.predict(X[:9]), rtol=1e-13, atol=1e-14
        )


@pytest.mark.parametrize("kind", [REG, GBC, ske.RandomForestRegressor, skt.DecisionTreeClassifier, MyForest])
def test_unfitted_models_are_refused(kind):
    with pytest.raises(ModelError, match=f"{kind.__name__} is not fitted yet; call fit first"):
        read_model(kind())


@pytest.mark.parametrize(
    ("model", "way_out"),
    [
        (ske.IsolationForest(), "fits no target"),
        (ske.RandomTreesEmbedding(), "fits no target"),
        (ske.AdaBoostClassifier(), "estimators_"),
        (ske.BaggingRegressor(), "ti.members"),
        (LinearRegression(), "not a supported tree model"),
    ],
)
def test_other_models_are_refused_by_name(model, way_out):
    with pytest.raises(UnsupportedModelError, match=way_out) as caught:
        read_model(model.fit(X[:50], np.arange(50) % 2))
    assert type(model).__name__ in str(caught.value)


def test_foreign_parameters_are_refused():
    with pytest.raises(ValueError, match="a forest has none"):
        read(fit_averaged("tree")[0], learning_rate=0.1)
    with pytest.raises(ValueError, match="no such penalty"):
        read(fit_boosted("plain")[0], reg_lambda=1.0)


def test_reading_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("multi levels", "stumps", "absolute", "binary monotone"):
            read(fit_hist(name)[0])
        for name in ("binary deep", "multi", "huber"):
            read(fit_boosted(name)[0])


@pytest.mark.parametrize("settings", [{}, {"max_leaf_nodes": 2}, {"l2_regularization": 3.0}])
def test_each_tree_of_hist_has_the_rate_it_was_grown_with(settings):
    """Leaves alone are shrunk: what set_params or a warm start makes of the estimator's rate changes no tree."""
    y = X[:, 0] + X[:, 1] * X[:, 2]
    model = ske.HistGradientBoostingRegressor(max_iter=5, early_stopping=False, warm_start=True, **settings).fit(X, y)
    before = read(model)
    model.set_params(learning_rate=0.7)
    np.testing.assert_allclose(read(model).node_value, before.node_value, rtol=1e-6, atol=1e-9)
    e = read(model.set_params(max_iter=6, learning_rate=0.5).fit(X, y))
    np.testing.assert_allclose(e.tree_rate, [0.1] * 5 + [0.5], rtol=1e-6)
    np.testing.assert_allclose(e.node_value[: len(before.value)], before.node_value, rtol=1e-6, atol=1e-9)
    assert e.exactness == before.exactness == "exact"


def test_a_rate_of_hist_that_nothing_shows_is_said_to_be_assumed():
    y = X[:, 0] + X[:, 1] * X[:, 2]
    classes = ske.HistGradientBoostingClassifier(max_iter=3, early_stopping=False, warm_start=True).fit(X, y > 0)
    changed = ske.HistGradientBoostingRegressor(max_iter=3, early_stopping=False).fit(X, y)
    for model in (classes, changed.set_params(l2_regularization=50.0)):
        assert "pass learning_rate" in read(model).exactness
        assert read(model).value_doubts
    assert read(classes, learning_rate=0.1).exactness == "exact"
