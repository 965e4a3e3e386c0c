"""score="loss": features and base add up to the fall of the loss, which is the libraries' own validation curve."""

import math
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.metrics import log_loss, mean_pinball_loss, mean_squared_error, r2_score

import treeinner as ti
from tests import oracle
from tests.cases import N, loss_named
from tests.forests import Recipe, make_model, make_rows, make_trees
from tests.losses.cases import CASES, loss_of, make
from treeinner.losses import encode_target
from treeinner.read.trees import NodeValues


def halves(data):
    """Every other row for training, the rest for the score."""
    X, y = data(return_X_y=True)
    X = X.astype(np.float32)
    return X[::2], y[::2], X[1::2], y[1::2]


def small_steps(recipe, seed):
    """Trees whose steps are a fifth, as boosting takes them; some leaves are exactly 0."""
    trees = make_trees(recipe, seed)
    value = np.where(np.arange(trees.n_nodes)[:, None] % 5 > 0, 0.2 * trees.value, 0.0)
    known = NodeValues(np.where(trees.column[:, None] < 0, value, 0.2 * trees.known.value), trees.known.rate)
    return replace(trees, value=value, node_values=known, base=0.1 * trees.base)


def curve(imp):
    """The loss before the first round and after every one, as the breakdown has it."""
    return imp.losses.before - np.concatenate([[0.0], np.cumsum(imp.by_round().sum(axis=1) + imp.losses.base_rounds)])


def adds_up(imp):
    """Features and base are the fall of the loss, in one sum and round by round."""
    fall = imp.losses.before - imp.losses.after
    near = 2e-12 * max(abs(imp.losses.before), abs(imp.losses.after))  # no side is a remainder
    assert imp.scores.sum() + imp.base == pytest.approx(fall, rel=0, abs=near)
    assert curve(imp)[-1] == pytest.approx(imp.losses.after, rel=0, abs=near)
    assert imp.base == pytest.approx(imp.losses.base_rounds.sum(), rel=0, abs=near)
    return fall


# -- the libraries' own metrics --------------------------------------------------------------------------------------
def counts(y):
    """Small integers."""
    return np.rint(y / 30)


def above(y):
    """Numbers near 1."""
    return y / 100


# objective -> (data, target, parameters, metric, loss of the metric; None: up to a constant)
XGBOOST = {
    "reg:squarederror": (load_diabetes, above, {}, "rmse", lambda m: m**2 / 2),
    "binary:logistic": (load_breast_cancer, None, {}, "logloss", lambda m: m),
    "multi:softprob": (load_wine, None, {"num_class": 3}, "mlogloss", lambda m: m),
    "count:poisson": (load_diabetes, counts, {}, "poisson-nloglik", None),
    "reg:gamma": (load_diabetes, above, {}, "gamma-nloglik", None),
    "reg:tweedie": (load_diabetes, counts, {"tweedie_variance_power": 1.5}, "tweedie-nloglik@1.5", None),
    "reg:pseudohubererror": (load_diabetes, above, {}, "mphe", lambda m: m),
    "reg:absoluteerror": (load_diabetes, above, {}, "mae", lambda m: m),
    "reg:quantileerror": (load_diabetes, above, {"quantile_alpha": 0.3}, "quantile", lambda m: m),
}


@pytest.mark.parametrize("name", XGBOOST)
def test_the_curve_is_xgboosts(name):
    data, target, params, metric, loss = XGBOOST[name]
    X, y, A, b = halves(data)
    y, b = (v if target is None else target(v) for v in (y, b))
    evals = {}
    model = xgb.train(
        {"objective": name, "eval_metric": metric, "nthread": 1, "max_depth": 3, "eta": 0.3, **params},
        xgb.DMatrix(X, y), 12, evals=[(xgb.DMatrix(A, b), "valid")], evals_result=evals, verbose_eval=False,
    )  # fmt: skip
    for method in ("centred", "saabas"):
        imp = ti.importance(model, A, b, score="loss", method=method)
        adds_up(imp)
        own = np.array(evals["valid"][metric])
        found = curve(imp)[1:] if loss is not None else np.diff(curve(imp)[1:])
        own, size = loss(own) if loss is not None else np.diff(own), np.abs(own).max()
        np.testing.assert_allclose(found, own, rtol=0, atol=2e-6 * size)  # margins and losses in float32


LIGHTGBM = {
    "regression": (load_diabetes, above, {}, "l2", 0.5),
    "binary": (load_breast_cancer, None, {}, "binary_logloss", 1.0),
    "multiclass": (load_wine, None, {"num_class": 3}, "multi_logloss", 1.0),
    "regression_l1": (load_diabetes, above, {}, "l1", 1.0),
    "quantile": (load_diabetes, above, {"alpha": 0.3}, "quantile", 1.0),
    "huber": (load_diabetes, above, {"alpha": 0.4}, "huber", 1.0),
    "fair": (load_diabetes, above, {"fair_c": 0.7}, "fair", 1.0),
    "cross_entropy": (load_breast_cancer, None, {}, "cross_entropy", 1.0),
}


@pytest.mark.parametrize("name", LIGHTGBM)
def test_the_curve_is_lightgbms(name):
    data, target, params, metric, factor = LIGHTGBM[name]
    X, y, A, b = halves(data)
    y, b = (v if target is None else target(v) for v in (y, b))
    evals, train = {}, lgb.Dataset(X, y)
    fixed = {"num_leaves": 6, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 5, "learning_rate": 0.3}
    model = lgb.train(
        {"objective": name, "metric": metric, **fixed, **params}, train, 12,
        valid_sets=[lgb.Dataset(A, b, reference=train)], callbacks=[lgb.record_evaluation(evals)],
    )  # fmt: skip
    imp = ti.importance(model, A, b, score="loss")
    adds_up(imp)
    own = factor * np.array(evals["valid_0"][metric])
    np.testing.assert_allclose(curve(imp)[1:], own, rtol=0, atol=1e-6 * np.abs(own).max())  # float32 targets


SKLEARN = {
    "squared": (load_diabetes, HistGradientBoostingRegressor, {}, lambda y, f: mean_squared_error(y, f) / 2),
    "quantile": (
        load_diabetes, HistGradientBoostingRegressor, {"loss": "quantile", "quantile": 0.3},
        lambda y, f: mean_pinball_loss(y, f, alpha=0.3),
    ),
    "classes": (load_wine, HistGradientBoostingClassifier, {}, log_loss),
    "boosting": (load_diabetes, GradientBoostingRegressor, {}, lambda y, f: mean_squared_error(y, f) / 2),
}  # fmt: skip


@pytest.mark.parametrize("name", SKLEARN)
def test_the_curve_is_that_of_scikit_learns_metrics(name):
    data, kind, params, metric = SKLEARN[name]
    X, y, A, b = halves(data)
    if kind is GradientBoostingRegressor:
        model = kind(n_estimators=8, max_depth=3, random_state=0).fit(X, y)
    else:
        model = kind(max_iter=8, max_leaf_nodes=6, min_samples_leaf=5, early_stopping=False, **params).fit(X, y)
    stages = model.staged_predict_proba(A) if name == "classes" else model.staged_predict(A)
    own = np.array([metric(b, stage) for stage in stages])
    imp = ti.importance(model, A, b, score="loss")
    adds_up(imp)
    assert imp.losses.after == pytest.approx(own[-1], rel=1e-12)  # float64 throughout
    np.testing.assert_allclose(curve(imp)[1:], own, rtol=1e-8)  # leaf sums


def test_shares_are_shares_of_r_squared():
    X, y, A, b = halves(load_diabetes)
    model = ti.read_model(
        xgb.train({"max_depth": 3, "nthread": 1, "base_score": float(b.mean())}, xgb.DMatrix(X, y), 12),
        objective="reg:squarederror",
    )
    imp = ti.importance(model, A, b, score="loss")
    assert imp.explained == pytest.approx(r2_score(b, model.predict(A)), rel=1e-6)  # base_score in float32
    base = imp.base / (imp.losses.before - imp.losses.least)
    assert imp.shares.sum() + base == pytest.approx(imp.explained, rel=1e-9)
    inner = ti.importance(model, A, b, score="tree_inner")
    assert inner.explained == imp.explained
    for missing in ("shares", "base"):
        with pytest.raises(ValueError, match=missing):
            getattr(inner, missing)


# -- every loss of the catalogue -------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", [c for c in CASES if loss_of(*c[:3], n_outputs=c[4]).scope == "row"],
                         ids=lambda c: f"{c[0]}-{c[1]}-{c[4]}")  # fmt: skip
def test_every_loss_adds_up(case):
    library, name, params, kind, n_outputs, _ = case
    loss, y = loss_of(library, name, params, n_outputs=n_outputs), make(kind, 60)[1]
    trees = small_steps(Recipe(n_trees=6, depth=3, n_outputs=n_outputs), 3)
    X, weight = make_rows(trees, 60, 4), np.random.default_rng(0).choice([0.25, 0.5, 2.0], 60)
    given = {"sample_weight": weight} if loss.multiplies_weights else {}
    weight = weight if given else np.ones(60)
    imp = ti.importance(make_model(trees, loss), X, y, score="loss", n_jobs=1, **given)
    fall = adds_up(imp)
    shap = ti.importance(make_model(trees, loss), X, y, score="loss", method="treeshap", n_jobs=1, **given)
    assert shap.scores.sum() + shap.base == pytest.approx(fall, rel=1e-9)
    encoded = np.asarray(encode_target(y, loss, classes=None, n_outputs=n_outputs, n_rows=60))
    for found, margin in (
        (imp.losses.before, np.tile(trees.base, (60, 1))),
        (imp.losses.after, oracle.predict(trees, X)),
    ):
        own = loss.losses(encoded, margin, weight=weight if given else None).sum() / weight.sum()
        assert found == pytest.approx(own, rel=1e-11)


def test_kinks_on_the_way_are_met_exactly():
    """Absolute error: the average of a sign over the step is a difference quotient."""
    trees = small_steps(Recipe(n_trees=5, depth=3), 7)
    X = make_rows(trees, N, 8)
    step = oracle.steps(trees, X)[:, :, 0]
    path = trees.base[0] + np.concatenate([np.zeros((1, N)), np.cumsum(step, axis=0)])
    y = path.mean(axis=0)  # between: most rows cross their target on the way
    assert ((path[:-1] - y) * (path[1:] - y) < 0).sum() > N // 3
    fall = np.abs(path[:-1] - y) - np.abs(path[1:] - y)
    slope = np.divide(fall, step, out=-np.sign(path[:-1] - y), where=step != 0)
    expected = oracle.tree_inner(trees, oracle.tensor(trees, X, "centred"), slope[:, :, None]).sum(axis=(1, 3)) / N
    imp = ti.importance(make_model(trees, loss_named("absolute_error")), X, y, score="loss")
    # Where no step was taken a sign stands at its kink; elsewhere leaf sums hold gradients to 2^-28 of a leaf.
    np.testing.assert_allclose(imp.by_round(), expected, rtol=0, atol=1e-9 * np.abs(trees.value).max())
    assert imp.scores.sum() + imp.base == pytest.approx(fall.sum() / N, rel=1e-9)


# -- forests ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["centred", "predecomp", "treeshap"])
def test_a_forest_takes_one_step_from_the_values_of_its_roots(method):
    X, y, A, b = halves(load_diabetes)
    model = RandomForestRegressor(8, max_depth=4, random_state=0).fit(X, y)
    root = np.mean([tree.tree_.value[0, 0, 0] for tree in model.estimators_])
    imp = ti.importance(model, A, b, score="loss", method=method)
    before, after = mean_squared_error(b, np.full(len(b), root)) / 2, mean_squared_error(b, model.predict(A)) / 2
    np.testing.assert_allclose([imp.losses.before, imp.losses.after], [before, after], rtol=1e-12)
    assert imp.scores.sum() + imp.base == pytest.approx(before - after, rel=1e-9)
    if method != "centred":  # squared error: the residual less half the step
        values, residual = ti.attribute(model, A, method=method).values, b - (root + model.predict(A)) / 2
        np.testing.assert_allclose(imp.scores, (values * residual[:, None]).mean(axis=0), rtol=1e-7, atol=1e-7 * before)
        assert abs(imp.base) < 1e-9 * before  # the roots are where it began


def test_a_forest_of_classes_is_judged_by_the_brier_score():
    X, y, A, b = halves(load_wine)
    model = RandomForestClassifier(8, max_depth=3, random_state=0).fit(X, y)
    share = np.mean([tree.tree_.value[0, 0] for tree in model.estimators_], axis=0)
    imp, truth = ti.importance(model, A, b, score="loss"), np.eye(3)[b]
    ends = np.tile(share, (len(b), 1)), model.predict_proba(A)
    expected = [((p - truth) ** 2).sum(axis=1).mean() / 2 for p in ends]
    np.testing.assert_allclose([imp.losses.before, imp.losses.after], expected, rtol=1e-12)
    assert imp.scores.sum() + imp.base == pytest.approx(expected[0] - expected[1], rel=1e-9)


# -- what has no breakdown -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("objective", ["survival:cox", "rank:ndcg", lambda y, m: m - y])
def test_losses_without_a_value_per_row(objective):
    trees = small_steps(Recipe(n_trees=2), 0)
    model, X = make_model(trees, loss_of("xgboost", "", told=objective)), make_rows(trees, N, 1)
    given = {"qid": np.arange(N) // 5} if objective == "rank:ndcg" else {}
    y = np.where(np.arange(N) % 3, 1.0 + np.arange(N), -1.0) if objective == "survival:cox" else np.arange(N) % 2
    for call in (
        lambda: ti.importance(model, X, y, score="loss", **given),
        lambda: ti.ImportanceAccumulator(model, score="loss"),
    ):
        with pytest.raises(ti.UnsupportedModelError, match="score='tree_inner'"):
            call()
    inner = ti.importance(model, X, y, **given)
    assert inner.losses is None
    assert math.isnan(inner.explained)


def test_a_loss_with_a_number_per_round_is_judged_by_the_error_of_its_rows():
    """XGBoost 3.4 descends a smooth form of the absolute error."""
    trees = small_steps(Recipe(n_trees=4), 0)
    X, y = make_rows(trees, N, 1), np.random.default_rng(0).normal(size=N)
    smooth, plain = (
        ti.importance(make_model(trees, loss_named(name)), X, y, score="loss")
        for name in ("smooth_absolute_error", "absolute_error")
    )
    np.testing.assert_allclose(smooth.scores, plain.scores, rtol=1e-12)


def test_steps_too_long_to_average_are_named():
    trees = make_trees(Recipe(n_trees=2, depth=2, grow=1.0), 0)
    trees = replace(trees, value=1e5 * trees.value, node_values=NodeValues(None, trees.known.rate))
    with pytest.raises(ti.UnsupportedModelError, match="too far"):
        ti.importance(make_model(trees, loss_named("logistic")), make_rows(trees, N, 1), np.arange(N) % 2, score="loss")
