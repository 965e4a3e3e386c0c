"""Gradients against finite differences of each loss, and against what the four libraries do with them."""

import numpy as np
import pytest

from tests.losses.cases import CASES, QUERY, each, each_of, loss_of, make, rows_of
from treeinner.errors import DataError

# Central differences with this step err by about step^2 * |third derivative| + 1e-16 * |loss| / step.
STEP = 1e-5


def differences(function, m):
    """Central differences of a function of the margin in each output, along a new last axis."""
    steps = STEP * np.eye(m.shape[1])
    return np.stack([(function(m + e) - function(m - e)) / (2 * STEP) for e in steps], axis=-1)


@each(CASES)
def test_gradient_is_the_derivative_of_the_loss(case):
    loss, y, m = rows_of(case)
    loss.check_target(y, m.shape[1])
    expected = differences(lambda at: loss.losses(y, at), m)
    # A kink of the second derivative, as of several expectiles, costs at most the step.
    np.testing.assert_allclose(loss.gradients(y, m), expected, rtol=1e-6, atol=2e-5 if loss.coupled else 1e-7)


@each(CASES)
def test_curvature_is_the_derivative_of_the_gradient(case):
    loss, y, m = rows_of(case)
    target = loss._arrays(y)[0]
    found = differences(lambda at: loss.gradient(target, at), m)
    if loss.curvature is None:  # whoever needs it takes differences
        return
    if loss.curvature == 0:  # a loss with kinks: straight or, of a log link, taken as straight, between them
        assert loss.name == "LogLinQuantile" or np.abs(found).max() < 1e-9
        return
    expected = loss.curvature(target, m)
    if expected.ndim == 2:  # outputs do not meet
        expected = expected[:, :, None] * np.eye(m.shape[1])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("library", "name", "params", "version"),
    [
        ("sklearn", "huber", {"alpha": 0.7}, ()),
        ("xgboost", "reg:absoluteerror", {}, (3, 4, 0)),
        ("xgboost", "reg:quantileerror", {"quantile_alpha": 0.3}, (3, 4, 0)),
    ],
)
def test_curvature_holds_the_number_that_a_round_shares(library, name, params, version):
    loss, (_, y) = loss_of(library, name, params, version=version), make("real")
    m, y = np.random.default_rng(0).normal(size=(300, 1)), y[:, None]
    state = loss.state(y, m, None)
    far = (np.abs(np.abs(m - y) - state) > 1e-3)[:, 0] if name == "huber" else slice(None)
    found = differences(lambda at: loss.gradient(y, at, state), m)[far, :, 0]
    np.testing.assert_allclose(found, loss.curvature(y, m, state)[far], rtol=1e-5, atol=1e-5)  # bends within 0.04 s


def test_cox_gradient_is_the_derivative_of_the_partial_likelihood():
    rng = np.random.default_rng(2)
    y = rng.permutation(np.arange(1.0, 31.0)) * rng.choice([-1.0, 1.0], 30)  # no ties: nothing is left to convention
    m, cox = rng.normal(size=30), loss_of("xgboost", "survival:cox")
    rows = STEP * np.eye(30)
    expected = [(cox.losses(y, m + e).sum() - cox.losses(y, m - e).sum()) / (2 * STEP) for e in rows]
    np.testing.assert_allclose(cox.gradients(y, m)[:, 0], expected, atol=1e-7)
    expected = [(cox.gradients(y, m + e) - cox.gradients(y, m - e))[i, 0] / (2 * STEP) for i, e in enumerate(rows)]
    np.testing.assert_allclose(cox.curvature(y[:, None], m[:, None])[:, 0], expected, atol=1e-7)


@pytest.mark.parametrize("distribution", ["normal", "logistic", "extreme"])
def test_aft_gradient_far_out(distribution):
    y = make("interval")[1]
    for margin in (-400.0, 400.0):  # the ratio of densities is 0 / 0: XGBoost takes limits and clips to +-15
        loss = loss_of("xgboost", "survival:aft", {"aft_loss_distribution": distribution})
        g = loss.gradients(y, np.full(300, margin))
        assert np.abs(g).max() <= 15
        assert (g != 0).any()


def test_weights_multiply_except_in_cross_entropy_lambda():
    rng = np.random.default_rng(4)
    y, m, w = rng.random(50), rng.normal(size=50), rng.random(50) + 0.1
    plain, hazard = loss_of("lightgbm", "cross_entropy"), loss_of("lightgbm", "cross_entropy_lambda")
    np.testing.assert_array_equal(plain.gradients(y, m, weight=w), plain.gradients(y, m) * w[:, None])
    p = 1 - np.exp(-np.log1p(np.exp(m)))  # its definition, without weights
    np.testing.assert_allclose(hazard.losses(y, m), -y * np.log(p) - (1 - y) * np.log(1 - p), rtol=1e-12)
    with pytest.raises(DataError, match="only unweighted rows"):
        hazard.gradients(y, m, weight=w)


# -- what the libraries do -------------------------------------------------------------------------------
def query_of(loss):
    """Queries for the losses that need them."""
    return QUERY if loss.scope == "query" else None


# Leaves of these are renewed after the tree was grown, as medians and quantiles.
@each_of("xgboost", "reg:absoluteerror", "reg:quantileerror", "reg:expectileerror")
def test_leaves_of_xgboost_hold_sums_of_our_gradients(case):
    xgb = pytest.importorskip("xgboost", minversion="3.0")
    _, name, params, kind, n_outputs, _ = case
    (X, y), loss = make(kind), loss_of("xgboost", name, params, n_outputs)
    query, classes = query_of(loss), {"num_class": n_outputs} if n_outputs > 1 else {}
    data = xgb.DMatrix(X, y if y.ndim == 1 else None, qid=query)
    if y.ndim == 2:
        data.set_float_info("label_lower_bound", y[:, 0])
        data.set_float_info("label_upper_bound", y[:, 1])
    settings = {"max_depth": 3, "eta": 0.5, "lambda": 1.0, "nthread": 1, "base_score": 0.6}
    booster = xgb.train({"objective": name, **settings, **params, **classes}, data, 2)
    gradient = loss.gradients(y, booster.predict(data, output_margin=True, iteration_range=(0, 1)), query=query)
    leaf = booster.predict(data, pred_leaf=True).reshape(300, -1)
    nodes = booster.trees_to_dataframe().set_index(["Tree", "Node"])
    for k in range(n_outputs):  # trees of the second round; a leaf is -eta G / (H + lambda)
        for node in np.unique(leaf[:, n_outputs + k]):
            value, cover = nodes.loc[n_outputs + k, node][["Gain", "Cover"]]
            expected, size = -value / 0.5 * (cover + 1.0), np.abs(gradient[:, k]).sum()
            # XGBoost sums gradients in float32, of which there are 300.
            assert gradient[leaf[:, n_outputs + k] == node, k].sum() == pytest.approx(expected, abs=2e-5 * size)


@each_of("lightgbm", "regression_l1", "quantile", "mape")
def test_leaves_of_lightgbm_hold_sums_of_our_gradients(case):
    lgb = pytest.importorskip("lightgbm")
    _, name, params, kind, n_outputs, _ = case
    (X, y), loss = make(kind), loss_of("lightgbm", name, params, n_outputs)
    settings = {"objective": name, "boost_from_average": False, "num_leaves": 6, "learning_rate": 0.5, "lambda_l2": 1.0}
    settings |= {"num_threads": 1, "verbose": -1, "min_data_in_leaf": 5, "num_class": n_outputs, **params}
    booster = lgb.train(settings, lgb.Dataset(X, y, group=np.full(20, 15)), 2)
    gradient = loss.gradients(y, booster.predict(X, raw_score=True, num_iteration=1), query=query_of(loss))
    leaf = booster.predict(X, pred_leaf=True).reshape(300, -1)
    nodes = booster.trees_to_dataframe().set_index("node_index")
    for k in range(n_outputs):
        tree, size = n_outputs + k, np.abs(gradient[:, k]).sum()
        for number in np.unique(leaf[:, tree]):
            value, weight = nodes.loc[f"{tree}-L{number}"][["value", "weight"]]
            expected = pytest.approx(-value / 0.5 * (weight + 1.0), rel=1e-4, abs=1e-5 * size)
            # Gradients are held in float32, and weights are stored with six digits.
            assert gradient[leaf[:, tree] == number, k].sum() == expected


@each_of("catboost")
def test_leaves_of_catboost_are_means_of_our_gradients(case):
    cb = pytest.importorskip("catboost")
    _, name, params, kind, n_outputs, _ = case
    if "class_weights" in params:  # which enter the penalty too
        return
    (X, y), loss = make(kind), loss_of("catboost", name, params, n_outputs)
    text, rate, l2 = ";".join(f"{k}={v}" for k, v in params.items()), 0.3, 2.0
    settings = {"leaf_estimation_method": "Gradient", "leaf_estimation_iterations": 1, "bootstrap_type": "No"}
    settings |= {"iterations": 2, "depth": 2, "learning_rate": rate, "l2_leaf_reg": l2, "random_strength": 0}
    settings |= {"thread_count": 1, "verbose": 0, "allow_writing_files": False}
    model = cb.CatBoost({"loss_function": f"{name}:{text}" if text else name, **settings})
    model.fit(cb.Pool(X, y, group_id=query_of(loss)))
    margin, after = (
        model.predict(X, prediction_type="RawFormulaVal", ntree_end=end).reshape(len(y), n_outputs) for end in (1, 2)
    )
    leaf = model.calc_leaf_indexes(cb.Pool(X, y))[:, 1]
    gradient = loss.gradients(y, margin, query=query_of(loss))
    for number in np.unique(leaf):
        rows = leaf == number
        step = -rate * gradient[rows].sum(axis=0) / (rows.sum() + l2)
        # CatBoost holds targets in float32 and approximates exp to about 1e-8.
        np.testing.assert_allclose(after[rows] - margin[rows], np.tile(step, (rows.sum(), 1)), rtol=1e-5, atol=1e-6)


def test_losses_of_scikit_learn():
    theirs = pytest.importorskip("sklearn._loss.loss")
    kinds = {
        "squared_error": (theirs.HalfSquaredError(), {}, "real"),
        "absolute_error": (theirs.AbsoluteError(), {}, "real"),
        "quantile": (theirs.PinballLoss(quantile=0.3), {"quantile": 0.3}, "real"),
        "poisson": (theirs.HalfPoissonLoss(), {}, "count"),
        "log_loss": (theirs.HalfBinomialLoss(), {}, "bit"),
        "exponential": (theirs.ExponentialLoss(), {}, "bit"),
    }
    m = np.random.default_rng(5).normal(size=300)
    for name, (their, params, kind) in kinds.items():
        y = make(kind)[1]
        tied = np.where(np.arange(300) % 3 == 0, y, m)  # ties count: the libraries do not agree on them
        ours = loss_of("sklearn", name, params)
        expected = their.gradient(y_true=y, raw_prediction=tied)
        np.testing.assert_allclose(ours.gradients(y, tied)[:, 0], expected, rtol=1e-13, atol=1e-15, err_msg=name)
        if name not in ("absolute_error", "quantile"):  # which have a made-up hessian
            _, expected = their.gradient_hessian(y_true=y, raw_prediction=m)
            np.testing.assert_allclose(ours.curvature(y[:, None], m[:, None])[:, 0], expected, rtol=1e-12, err_msg=name)


def test_huber_of_scikit_learn_has_one_delta_per_round():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = make("real")
    model = ensemble.GradientBoostingRegressor(loss="huber", alpha=0.8, n_estimators=3, max_depth=2).fit(X, y)
    huber = loss_of("sklearn", "huber", {"alpha": 0.8})
    for i, margin in enumerate([model._raw_predict_init(X)[:, 0], *list(model.staged_predict(X))[:2]]):
        root = model.estimators_[i, 0].tree_.value[0, 0, 0]  # mean of the negative gradients
        assert root == pytest.approx(-huber.gradients(y, margin).mean(), rel=1e-9, abs=1e-12)
