"""score="loss" against the metrics of the libraries, and for every loss of the catalogue."""

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss, mean_pinball_loss, mean_squared_error, r2_score

import treeinner as ti
from treeinner import objectives

from . import oracle
from .cases import N
from .forests import Recipe, make_rows
from .test_account import halves, small
from .test_objectives import ABOVE, BIT, COUNT, ELEMENTWISE, UNIT


def curve(imp):
    """The loss before the first round and after every one, as the account has it."""
    return imp.losses.before - np.concatenate([[0.0], np.cumsum(imp.by_round().sum(axis=1) + imp.losses.base_rounds)])


def adds_up(imp, e):
    """Features and base are the fall of the loss, in one sum and round by round."""
    fall = imp.losses.before - imp.losses.after
    assert imp.scores.sum() + imp.base == pytest.approx(fall, rel=1e-9)
    # The base of each round, and so the curve, is from leaf sums, which hold gradients to 2^-28 of the largest leaf.
    leaf = np.abs(e.value * (e.feature < 0)[:, None]).max()
    near = 2.0**-28 * leaf * e.n_rounds * leaf if imp.method in ("centred", "predecomp", "saabas") else 0.0
    assert curve(imp)[-1] == pytest.approx(imp.losses.after, rel=1e-9, abs=near)
    assert imp.base == pytest.approx(imp.losses.base_rounds.sum(), rel=1e-9, abs=near)
    np.testing.assert_allclose(imp.by_round().sum(axis=0), imp.scores, rtol=1e-12, atol=1e-15)
    return fall


# -- the libraries' own metrics --------------------------------------------------------------------------------------
def counts(y):
    return np.rint(y / 30)


def above(y):
    return y / 100


# objective -> (data, target, parameters, metric, loss of the metric)
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
@pytest.mark.parametrize("method", ["centred", "saabas"])
def test_the_curve_is_xgboosts(name, method):
    data, target, params, metric, loss = XGBOOST[name]
    X, y, A, b = halves(data)
    y, b = (v if target is None else target(v) for v in (y, b))
    evals = {}
    model = xgb.train(
        {"objective": name, "eval_metric": metric, "nthread": 1, "max_depth": 3, "eta": 0.3, **params},
        xgb.DMatrix(X, y), 12, evals=[(xgb.DMatrix(A, b), "valid")], evals_result=evals, verbose_eval=False,
    )  # fmt: skip
    imp = ti.importance(
        model, A, b, score="loss", method="saabas" if method == "predecomp" and loss is None else method
    )
    adds_up(imp, ti.read_model(model).ensemble)
    own = np.array(evals["valid"][metric])
    # float32 margins and losses; a likelihood may have a constant that the account does not need.
    found = curve(imp)[1:] if loss is not None else np.diff(curve(imp)[1:])
    own = loss(own) if loss is not None else np.diff(own)
    np.testing.assert_allclose(found, own, rtol=0, atol=2e-6 * np.abs(evals["valid"][metric]).max())


LIGHTGBM = {
    "regression": (load_diabetes, above, {}, "l2", lambda m: m / 2),
    "binary": (load_breast_cancer, None, {}, "binary_logloss", lambda m: m),
    "multiclass": (load_wine, None, {"num_class": 3}, "multi_logloss", lambda m: m),
    "poisson": (load_diabetes, counts, {}, "poisson", lambda m: m),
    "regression_l1": (load_diabetes, above, {}, "l1", lambda m: m),
    "quantile": (load_diabetes, above, {"alpha": 0.3}, "quantile", lambda m: m),
    "huber": (load_diabetes, above, {"alpha": 0.4}, "huber", lambda m: m),
    "fair": (load_diabetes, above, {"fair_c": 0.7}, "fair", lambda m: m),
    "tweedie": (load_diabetes, counts, {"tweedie_variance_power": 1.3}, "tweedie", lambda m: m),
    "cross_entropy": (load_breast_cancer, None, {}, "cross_entropy", lambda m: m),
}


@pytest.mark.parametrize("name", LIGHTGBM)
def test_the_curve_is_lightgbms(name):
    data, target, params, metric, loss = LIGHTGBM[name]
    X, y, A, b = halves(data)
    y, b = (v if target is None else target(v) for v in (y, b))
    evals = {}
    fixed = {"num_leaves": 6, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 5, "learning_rate": 0.3}
    train = lgb.Dataset(X, y)
    model = lgb.train(
        {"objective": name, "metric": metric, **fixed, **params}, train, 12,
        valid_sets=[lgb.Dataset(A, b, reference=train)], callbacks=[lgb.record_evaluation(evals)],
    )  # fmt: skip
    imp = ti.importance(model, A, b, score="loss")
    adds_up(imp, ti.read_model(model).ensemble)
    own = loss(np.array(evals["valid_0"][metric]))
    np.testing.assert_allclose(curve(imp)[1:], own, rtol=0, atol=1e-6 * np.abs(own).max())  # float32 targets


SKLEARN = {
    "hist squared": (load_diabetes, HistGradientBoostingRegressor, {}, lambda y, f: mean_squared_error(y, f) / 2),
    "hist quantile": (
        load_diabetes,
        HistGradientBoostingRegressor,
        {"loss": "quantile", "quantile": 0.3},
        lambda y, f: mean_pinball_loss(y, f, alpha=0.3),
    ),
    "hist binary": (load_breast_cancer, HistGradientBoostingClassifier, {}, log_loss),
    "hist classes": (load_wine, HistGradientBoostingClassifier, {}, log_loss),
    "gradient boosting": (load_diabetes, GradientBoostingRegressor, {}, lambda y, f: mean_squared_error(y, f) / 2),
}


@pytest.mark.parametrize("name", SKLEARN)
def test_the_curve_is_that_of_scikit_learns_metrics(name):
    data, kind, params, metric = SKLEARN[name]
    X, y, A, b = halves(data)
    if kind is GradientBoostingRegressor:
        model = kind(n_estimators=8, max_depth=3, random_state=0).fit(X, y)
    else:
        model = kind(max_iter=8, max_leaf_nodes=6, min_samples_leaf=5, early_stopping=False, **params).fit(X, y)
    stages = model.staged_predict_proba(A) if "Classifier" in kind.__name__ else model.staged_predict(A)
    own = np.array([metric(b, stage) for stage in stages])
    imp = ti.importance(model, A, b, score="loss")
    adds_up(imp, ti.read_model(model).ensemble)
    assert imp.losses.after == pytest.approx(own[-1], rel=1e-12)  # float64 throughout
    np.testing.assert_allclose(curve(imp)[1:], own, rtol=1e-8)  # leaf sums, as above


def test_shares_of_the_account_are_shares_of_r_squared():
    X, y, A, b = halves(load_diabetes)
    model = xgb.train({"max_depth": 3, "nthread": 1, "base_score": float(b.mean())}, xgb.DMatrix(X, y), 12)
    imp = ti.importance(model, A, b, score="loss")
    own = r2_score(b, ti.read_model(model).ensemble.predict(A))
    assert imp.explained == pytest.approx(own, rel=1e-6)  # base_score in float32
    base = imp.base / (imp.losses.before - imp.losses.least)
    assert imp.shares.sum() + base == pytest.approx(imp.explained, rel=1e-9)
    with pytest.raises(ValueError, match="has no shares"):
        _ = ti.importance(model, A, b).shares


# -- every loss of the catalogue -------------------------------------------------------------------------------------
def targets(strategy, rng, n):
    """Targets as the strategy of the objectives' tests draws them."""
    draws = {
        UNIT: lambda: rng.random(n),
        COUNT: lambda: rng.uniform(0, 6, n),
        ABOVE: lambda: rng.uniform(0.05, 6, n),
        BIT: lambda: rng.integers(0, 2, n) * 1.0,
    }
    return draws.get(strategy, lambda: rng.normal(size=n))()


PER_ROW = [case for case in ELEMENTWISE if objectives.get(case[1], library=case[0], **case[2]).per_row]


@pytest.mark.parametrize("case", PER_ROW, ids=lambda c: f"{c[0]}-{c[1]}")
def test_every_loss_adds_up(case):
    library, name, params, strategy, _ = case
    objective = objectives.get(name, library=library, **params)
    rng = np.random.default_rng(0)
    e = small(Recipe(n_trees=6, depth=3), 3)
    X, y, weight = make_rows(e, N, 4), targets(strategy, rng, N), rng.choice([0.25, 0.5, 2.5], N)
    for method in ("centred", "treeshap"):
        options = {"objective": objective, "sample_weight": weight, "method": method, "by_round": True}
        imp = ti.importance(e, X, y, score="loss", n_jobs=1, **options)
        adds_up(imp, e)
        before, after = (
            objective.losses(y, margin, weight=weight).sum() / weight.sum()
            for margin in (np.tile(e.base_score, (N, 1)), oracle.predict(e, X))
        )
        assert imp.losses.before == pytest.approx(before, rel=1e-12)
        assert imp.losses.after == pytest.approx(after, rel=1e-12)


STEEP = [case for case in PER_ROW if objectives.get(case[1], library=case[0], **case[2]).steepest is not None]


@pytest.mark.parametrize("case", STEEP, ids=lambda c: f"{c[0]}-{c[1]}")
def test_no_gradient_is_steeper_than_the_steepest(case):
    """The unit of leaf sums follows it."""
    library, name, params, strategy, _ = case
    objective = objectives.get(name, library=library, **params)
    y = targets(strategy, np.random.default_rng(0), 1000)[:, None]
    margin = np.linspace(-50, 50, 1000)[:, None]
    largest = np.abs(objective.gradient(y, margin)).max()
    assert 0.2 * objective.steepest < largest <= objective.steepest


@pytest.mark.parametrize("name", ["softmax", "one_vs_all", "squared_error", "survival:aft"])
def test_every_loss_of_several_outputs_adds_up(name):
    rng = np.random.default_rng(1)
    recipe = Recipe(n_trees=9, depth=3, n_outputs=1 if name == "survival:aft" else 3)
    e = small(recipe, 5)
    X = make_rows(e, N, 6)
    y = rng.integers(0, 3, N) if name in ("softmax", "one_vs_all") else rng.normal(size=(N, 3))
    params = {}
    if name == "survival:aft":
        low = rng.exponential(size=N)
        y = np.column_stack([low, np.where(np.arange(N) % 3, low * 1.5, np.inf)])
        params = {"library": "xgboost", "aft_loss_distribution": "normal"}
    objective = objectives.get(name, n_outputs=e.n_outputs, **params)
    imp = ti.importance(e, X, y, score="loss", objective=objective)
    fall = adds_up(imp, e)
    margins = np.tile(e.base_score, (N, 1)), oracle.predict(e, X)
    before, after = (objective.losses(y, margin).mean() for margin in margins)
    assert fall == pytest.approx(before - after, rel=1e-9)
    if e.n_outputs > 1:
        np.testing.assert_allclose(imp.outputs.score.sum(axis=1), imp.scores, rtol=1e-12)
