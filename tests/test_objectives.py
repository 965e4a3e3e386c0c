"""Gradients against finite differences of each loss, and against what the four libraries do with them."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treeinner import objectives
from treeinner.errors import DataError, UnknownParameterError, UnsupportedModelError
from treeinner.objectives import encode_target, for_ensemble, get, register

REAL = st.floats(-4, 4)
UNIT = st.floats(0, 1)
COUNT = st.floats(0, 6)
ABOVE = st.floats(0.05, 6)
BIT = st.sampled_from([0.0, 1.0])

# (library, name, parameters, targets, distance of a margin from the nearest kink)
SMOOTH = None
ON_Y = lambda y, m: np.abs(m - y)  # noqa: E731
ELEMENTWISE = [
    ("xgboost", "reg:squarederror", {"scale_pos_weight": 3.0}, st.one_of(REAL, st.just(1.0)), SMOOTH),
    ("xgboost", "reg:squaredlogerror", {}, COUNT, lambda y, m: m + 0.9),
    ("xgboost", "reg:logistic", {}, UNIT, SMOOTH),
    ("xgboost", "binary:logistic", {"scale_pos_weight": "2.5"}, BIT, SMOOTH),
    ("xgboost", "binary:logitraw", {"reg_loss_param": {"scale_pos_weight": "2.5"}}, BIT, SMOOTH),
    ("xgboost", "binary:hinge", {}, BIT, lambda y, m: np.abs((2 * y - 1) * m - 1)),
    ("xgboost", "reg:pseudohubererror", {"huber_slope": 0.7}, REAL, SMOOTH),
    ("xgboost", "reg:absoluteerror", {"version": "3.3.0"}, REAL, ON_Y),
    ("xgboost", "reg:quantileerror", {"quantile_alpha": "[0.2]", "version": [3, 2, 0]}, REAL, ON_Y),
    ("xgboost", "reg:expectileerror", {"expectile_alpha": 0.8}, REAL, ON_Y),
    ("xgboost", "count:poisson", {}, COUNT, SMOOTH),
    ("xgboost", "reg:gamma", {"scale_pos_weight": 2.0}, ABOVE, SMOOTH),
    ("xgboost", "reg:tweedie", {"tweedie_variance_power": 1.4}, COUNT, SMOOTH),
    ("lightgbm", "regression", {}, REAL, SMOOTH),
    ("lightgbm", "regression", {"reg_sqrt": "true"}, REAL, SMOOTH),
    ("lightgbm", "regression_l1", {}, REAL, ON_Y),
    ("lightgbm", "huber", {"alpha": 0.9}, REAL, lambda y, m: np.abs(np.abs(m - y) - 0.9)),
    ("lightgbm", "fair", {"fair_c": 1.3}, REAL, ON_Y),
    ("lightgbm", "poisson", {}, COUNT, SMOOTH),
    ("lightgbm", "quantile", {"alpha": 0.9}, REAL, ON_Y),
    ("lightgbm", "mape", {}, REAL, ON_Y),
    ("lightgbm", "gamma", {}, ABOVE, SMOOTH),
    ("lightgbm", "tweedie", {"tweedie_variance_power": 1.7}, COUNT, SMOOTH),
    ("lightgbm", "binary", {"sigmoid": 0.6, "scale_pos_weight": 2.0}, BIT, SMOOTH),
    ("lightgbm", "binary", {"is_unbalance": True}, BIT, SMOOTH),
    ("lightgbm", "cross_entropy", {}, UNIT, SMOOTH),
    ("lightgbm", "cross_entropy_lambda", {}, UNIT, SMOOTH),
    ("catboost", "RMSE", {}, REAL, SMOOTH),
    ("catboost", "MAE", {}, REAL, ON_Y),
    ("catboost", "Quantile", {"alpha": 0.3}, REAL, ON_Y),
    ("catboost", "LogLinQuantile", {"alpha": 0.3}, ABOVE, lambda y, m: np.abs(np.exp(m) - y)),
    ("catboost", "Expectile", {"alpha": 0.3}, REAL, ON_Y),
    ("catboost", "Poisson", {}, COUNT, SMOOTH),
    ("catboost", "Tweedie", {"variance_power": 1.5}, COUNT, SMOOTH),
    ("catboost", "MAPE", {}, REAL, ON_Y),
    ("catboost", "Lq", {"q": 2.5}, REAL, ON_Y),
    ("catboost", "Huber", {"delta": 0.8}, REAL, lambda y, m: np.abs(np.abs(m - y) - 0.8)),
    ("catboost", "LogCosh", {}, REAL, SMOOTH),
    ("catboost", "Logloss", {"class_weights": [1.0, 4.0]}, BIT, SMOOTH),
    ("catboost", "CrossEntropy", {}, UNIT, SMOOTH),
    ("catboost", "Focal", {"focal_alpha": 0.3, "focal_gamma": 2.0}, BIT, SMOOTH),
    ("sklearn", "squared_error", {}, REAL, SMOOTH),
    ("sklearn", "absolute_error", {}, REAL, ON_Y),
    ("sklearn", "quantile", {"quantile": 0.25}, REAL, ON_Y),
    ("sklearn", "poisson", {}, COUNT, SMOOTH),
    ("sklearn", "gamma", {}, ABOVE, SMOOTH),
    ("sklearn", "log_loss", {}, BIT, SMOOTH),
    ("sklearn", "exponential", {}, BIT, SMOOTH),
    ("sklearn", "huber", {"alpha": 0.7}, REAL, SMOOTH),
    ("", "smooth_absolute_error", {}, REAL, SMOOTH),
    ("", "smooth_quantile", {"alpha": 0.3}, REAL, SMOOTH),
]
# Central differences with this step err by about step^2 * |third derivative| + 1e-16 * |loss| / step.
STEP = 1e-5


def differences(objective, y, margin, **extra):
    """Slope of each row's loss in each output."""
    margin = np.asarray(margin, float).reshape(len(y), -1)
    out = np.empty_like(margin)
    for k in range(margin.shape[1]):
        up, down = margin.copy(), margin.copy()
        up[:, k] += STEP
        down[:, k] -= STEP
        out[:, k] = objective.losses(y, up, **extra) - objective.losses(y, down, **extra)
    return out / (2 * STEP)


@pytest.mark.parametrize("case", ELEMENTWISE, ids=lambda c: f"{c[0]}-{c[1]}")
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_gradient_is_the_derivative_of_the_loss(case, data):
    library, name, params, targets, kink = case
    objective = get(name, library=library, **params)
    rows = data.draw(st.lists(st.tuples(targets, REAL), min_size=1, max_size=6))
    y, m = np.array(rows).T
    if kink is not None:
        far = kink(y, m) > 1e-3
        y, m = y[far], m[far]
    if not len(y):
        return
    objective.check_target(y)
    extra = {}
    if objective.scope == "round":  # the derivative holds the round's shared number fixed
        extra["state"] = objective.round_state(y, m)
        if name == "huber":
            extra["state"] = np.array([0.7])
            far = np.abs(np.abs(m - y) - 0.7) > 1e-3
            y, m = y[far], m[far]
        elif np.any(extra["state"] < 0.05):  # a corner of width s: finite differences see nothing there
            return
    gradient = objective.gradients(y, m, **extra)
    expected = differences(objective, y, m, **extra)
    assert gradient.shape == (len(y), 1)
    # step^2 * third derivative: up to 1e-10 * e^4 * 50 here; the smooth quantile bends within 0.04 s.
    tolerance = 1e-3 if name == "smooth_quantile" else 1e-6
    np.testing.assert_allclose(gradient, expected, rtol=tolerance, atol=tolerance)


# Hessians that are exact second derivatives (the others are conventions, checked against the library below).
EXACT_HESSIAN = [
    "reg:squarederror",
    "reg:logistic",
    "binary:logistic",
    "reg:pseudohubererror",
    "reg:gamma",
    "reg:tweedie",
    "fair",
    "binary",
    "Poisson",
    "LogCosh",
    "Expectile",
    "exponential",
    "log_loss",
    "Lq",
]


@pytest.mark.parametrize("case", [c for c in ELEMENTWISE if c[1] in EXACT_HESSIAN and "is_unbalance" not in c[2]])
def test_hessian_is_the_derivative_of_the_gradient(case):
    rng = np.random.default_rng(3)
    library, name, params, _, _ = case
    objective = get(name, library=library, **params)
    m = rng.normal(size=50)
    y = (rng.random(50) < 0.5).astype(float) + (0.0 if objective.domain.contains(np.array([0.0]))[0] else 0.5)
    expected = (objective.gradients(y, m + STEP) - objective.gradients(y, m - STEP)) / (2 * STEP)
    # As above: error step^2 * fourth derivative of the loss.
    np.testing.assert_allclose(objective.hessians(y, m), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("xgboost", "multi:softprob"),
        ("lightgbm", "multiclass"),
        ("catboost", "MultiClass"),
        ("sklearn", "log_loss"),
    ],
)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_softmax_gradient(library, name, data):
    objective = get(name, library=library, n_outputs=3)
    m = np.array(data.draw(st.lists(st.tuples(REAL, REAL, REAL), min_size=1, max_size=5)))
    y = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=len(m), max_size=len(m))))
    gradient = objective.gradients(y, m)
    np.testing.assert_allclose(gradient, differences(objective, y, m), atol=1e-7)  # third derivative below 1
    np.testing.assert_allclose(gradient.sum(axis=1), 0, atol=1e-15)  # a constant in all margins changes nothing
    np.testing.assert_allclose(objective.link(m).sum(axis=1), 1, rtol=1e-15)


@pytest.mark.parametrize(("library", "name"), [("lightgbm", "multiclassova"), ("catboost", "MultiClassOneVsAll")])
def test_one_vs_all_gradient(library, name):
    rng = np.random.default_rng(0)
    objective = get(name, library=library, n_outputs=4)
    y, m = rng.integers(0, 4, 60).astype(float), rng.normal(size=(60, 4))
    np.testing.assert_allclose(objective.gradients(y, m), differences(objective, y, m), atol=1e-7)


def test_several_outputs():
    rng = np.random.default_rng(0)
    y, m = rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
    np.testing.assert_array_equal(get("MultiRMSE", n_outputs=3).gradients(y, m), m - y)
    quantiles = get("reg:quantileerror", quantile_alpha=[0.1, 0.5, 0.9], version="3.1.0", n_outputs=3)
    np.testing.assert_allclose(quantiles.gradients(y[:, 0], m), differences(quantiles, y[:, 0], m), atol=1e-9)
    with pytest.raises(DataError, match="3 columns"):
        quantiles.gradients(y, m)
    with pytest.raises(DataError, match="1 column, expected 3"):
        get("MultiRMSE", n_outputs=3).gradients(y[:, 0], m)


def test_several_expectiles():
    rng = np.random.default_rng(6)
    alphas = [0.2, 0.5, 0.8]
    objective = get("reg:expectileerror", expectile_alpha=alphas, n_outputs=3)
    y, m = rng.normal(size=60), rng.normal(size=(60, 3))
    # As above; a kink of the second derivative at r = 0 costs at most the step.
    np.testing.assert_allclose(objective.gradients(y, m), differences(objective, y, m), atol=1e-5)
    assert np.all(np.diff(objective.link(m), axis=1) > 0)
    xgb = pytest.importorskip("xgboost", minversion="3.3")
    X, y = make("real")
    data = xgb.DMatrix(X, y, base_margin=np.tile([0.1, -0.3, 0.2], (300, 1)))
    settings = {"objective": "reg:expectileerror", "expectile_alpha": alphas, "max_depth": 3, "nthread": 1}

    def ours(margin, d):
        return objective.gradients(y, margin), objective.hessians(y, margin)

    built_in = xgb.train(settings, data, 3).predict(data, output_margin=True)
    custom = xgb.train(settings, data, 3, obj=ours).predict(data, output_margin=True)
    np.testing.assert_allclose(custom, built_in, rtol=2e-5, atol=2e-5)  # float32 gradients, as below


@pytest.mark.parametrize("distribution", ["normal", "logistic", "extreme"])
def test_aft_gradient(distribution):
    rng = np.random.default_rng(1)
    objective = get("survival:aft", aft_loss_distribution=distribution, aft_loss_distribution_scale="1.2")
    low = rng.gamma(2.0, 1.0, 200)
    high = low + rng.gamma(1.0, 1.0, 200)
    low[:40], high[40:80], high[80:120] = 0.0, np.inf, low[80:120]
    y, m = np.column_stack([low, high]), rng.normal(0.5, 0.5, 200)
    objective.check_target(y)
    gradient = objective.gradients(y, m)
    np.testing.assert_allclose(gradient, differences(objective, y, m), atol=1e-7)  # as above
    expected = (objective.gradients(y, m + STEP) - objective.gradients(y, m - STEP)) / (2 * STEP)
    np.testing.assert_allclose(objective.hessians(y, m), expected, atol=1e-6)
    # Far out the ratio of densities is 0 / 0: XGBoost takes limits and clips to +-15.
    for far in (-400.0, 400.0):
        g, h = objective.gradients(y, np.full(200, far)), objective.hessians(y, np.full(200, far))
        assert np.all(np.abs(g) <= 15)
        assert np.all((h >= 1e-16) & (h <= 15))


def test_cox_gradient_is_the_derivative_of_the_partial_likelihood():
    rng = np.random.default_rng(2)
    # No ties: nothing is left to convention.
    y = rng.permutation(np.arange(1.0, 31.0)) * rng.choice([-1.0, 1.0], 30)
    m = rng.normal(size=30)
    objective = get("survival:cox")
    assert objective.scope == "data"
    assert not objective.per_row

    def total(margin):
        return objective.losses(y, margin).sum()

    expected = [(total(m + STEP * e) - total(m - STEP * e)) / (2 * STEP) for e in np.eye(30)]
    np.testing.assert_allclose(objective.gradients(y, m)[:, 0], expected, atol=1e-7)


def test_weights_multiply_except_in_cross_entropy_lambda():
    rng = np.random.default_rng(4)
    y, m, w = rng.random(50), rng.normal(size=50), rng.random(50) + 0.1
    plain = get("cross_entropy", library="lightgbm")
    np.testing.assert_array_equal(plain.gradients(y, m, weight=w), plain.gradients(y, m) * w[:, None])

    # Definition: loss(y, p) with p = 1 - exp(-w log(1 + e^m)).
    def loss(m):
        p = 1 - np.exp(-w * np.log1p(np.exp(m)))
        return -y * np.log(p) - (1 - y) * np.log(1 - p)

    expected = (loss(m + STEP) - loss(m - STEP)) / (2 * STEP)
    weighted = get("cross_entropy_lambda", library="lightgbm")
    np.testing.assert_allclose(weighted.gradients(y, m, weight=w)[:, 0], expected, rtol=1e-6, atol=1e-8)
    ones = weighted.gradients(y, m, weight=np.ones(50))
    np.testing.assert_allclose(ones, weighted.gradients(y, m), rtol=1e-12)  # same formula written another way


def test_scale_pos_weight_hits_every_label_equal_to_one_whatever_the_loss():
    # The last is 1 in float32, in which XGBoost holds labels.
    y, m = np.array([0.5, 1.0, 2.0, 1.0 + 1e-9]), np.zeros(4)
    gradient = get("reg:squarederror", scale_pos_weight=3.0).gradients(y, m)[:, 0]
    np.testing.assert_allclose(gradient, [-0.5, -3.0, -2.0, -3.0], rtol=1e-8)


def test_round_state_is_weighted():
    y, m, w = np.zeros(3), np.array([1.0, 4.0, 9.0]), np.array([1.0, 2.0, 0.0])
    assert get("smooth_absolute_error").round_state(y, m, w) == pytest.approx(((1 + 2 * 2) / 3) ** 2, rel=1e-15)
    assert get("huber", library="sklearn", alpha=0.5).round_state(y, m, w) == 4.0
    with pytest.raises(TypeError, match="share no state"):
        get("squared_error").round_state(y, m)


# -- what the libraries do -------------------------------------------------------------------------------
def make(kind, n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    f = X[:, 0] + np.abs(X[:, 1])
    return X, {
        "real": f + rng.normal(size=n),
        "bit": (f + rng.normal(size=n) > 0.5).astype(float),
        "unit": 1 / (1 + np.exp(-f - rng.normal(size=n))),
        "count": rng.poisson(np.exp(f / 3)).astype(float),
        "above": np.exp(f / 3 + 0.3 * rng.normal(size=n)),
        "class": np.digitize(f + rng.normal(size=n), [0, 1.5]).astype(float),
        "rank": np.digitize(f + rng.normal(size=n), [0, 1, 2]).astype(float),
        "time": np.round(np.exp(f / 2) * 4 + 1) * rng.choice([-1.0, 1.0], n),  # ties included
    }[kind]


@pytest.mark.parametrize(
    ("name", "kind", "params"),
    [
        ("reg:squarederror", "count", {"scale_pos_weight": 3.0}),
        ("reg:squaredlogerror", "count", {}),
        ("reg:logistic", "unit", {}),
        ("binary:logistic", "bit", {"scale_pos_weight": 3.0}),
        ("binary:logitraw", "bit", {}),
        ("binary:hinge", "bit", {}),
        ("reg:pseudohubererror", "real", {"huber_slope": 0.7}),
        ("reg:absoluteerror", "real", {}),
        ("reg:quantileerror", "real", {"quantile_alpha": 0.3}),
        ("count:poisson", "count", {}),
        ("count:poisson", "count", {"max_delta_step": 0.3}),
        ("reg:gamma", "above", {"scale_pos_weight": 2.0}),
        ("reg:tweedie", "count", {"tweedie_variance_power": 1.3}),
        ("multi:softprob", "class", {"num_class": 3}),
        ("survival:cox", "time", {}),
    ],
)
def test_xgboost_trains_the_same_model_with_our_gradients(name, kind, params):
    xgb = pytest.importorskip("xgboost")
    X, y = make(kind)
    n_outputs = params.get("num_class", 1)
    objective = get(name, library="xgboost", n_outputs=n_outputs, version=xgb.__version__, **params)
    settings = {
        "objective": name,
        "base_score": 0.6,
        "max_depth": 3,
        "eta": 0.5,
        "nthread": 1,
        "lambda": 1.0,
        "seed": 0,
        **params,
    }
    data = xgb.DMatrix(X, y)

    def ours(margin, d):
        return objective.gradients(y, margin), objective.hessians(y, margin)

    built_in = xgb.train(settings, data, 3).predict(data, output_margin=True)
    custom = xgb.train(settings, data, 3, obj=ours).predict(data, output_margin=True)
    assert np.ptp(built_in) > 0.1
    # XGBoost computes gradients in float32; ours are rounded at the end. Three rounds add a few ulp.
    np.testing.assert_allclose(custom, built_in, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("rank:ndcg", {}),
        ("rank:ndcg", {"ndcg_exp_gain": False, "lambdarank_num_pair_per_sample": 4}),
        ("rank:ndcg", {"lambdarank_normalization": False, "lambdarank_score_normalization": False}),
        ("rank:pairwise", {}),
        ("rank:map", {"lambdarank_num_pair_per_sample": 6}),
    ],
)
def test_xgboost_ranks_the_same_with_our_gradients(name, params):
    xgb = pytest.importorskip("xgboost", minversion="3.0")
    X, y = make("bit" if name == "rank:map" else "rank")
    query = np.repeat(np.arange(20), 15)
    objective = get(name, version=xgb.__version__, **params)
    data = xgb.DMatrix(X, y, qid=query)
    settings = {"objective": name, "max_depth": 3, "eta": 0.5, "nthread": 1, "base_score": 0.5, **params}

    def ours(margin, d):
        return objective.gradients(y, margin, qid=query), objective.hessians(y, margin, qid=query)

    built_in = xgb.train(settings, data, 3).predict(data, output_margin=True)
    custom = xgb.train(settings, data, 3, obj=ours).predict(data, output_margin=True)
    assert np.ptp(built_in) > 0.1
    np.testing.assert_allclose(custom, built_in, rtol=2e-5, atol=2e-5)  # float32 gradients, as above


@pytest.mark.parametrize("distribution", ["normal", "logistic", "extreme"])
def test_xgboost_aft_trains_the_same_model_with_our_gradients(distribution):
    xgb = pytest.importorskip("xgboost")
    X, low = make("above")
    high = low * np.random.default_rng(0).choice([1.0, 1.5, np.inf], len(low))
    low = np.where(np.arange(len(low)) % 5 == 0, 0.0, low)
    data = xgb.DMatrix(X)
    data.set_float_info("label_lower_bound", low)
    data.set_float_info("label_upper_bound", high)
    params = {"aft_loss_distribution": distribution, "aft_loss_distribution_scale": 0.8}
    common = {"objective": "survival:aft", "base_score": 0.6, "max_depth": 3, "eta": 0.5, "nthread": 1}
    objective = get("survival:aft", **params)
    y = np.column_stack([low, high])

    def ours(margin, d):
        return objective.gradients(y, margin), objective.hessians(y, margin)

    built_in = xgb.train({**common, **params}, data, 3).predict(data, output_margin=True)
    custom = xgb.train({**common, **params}, data, 3, obj=ours).predict(data, output_margin=True)
    # float32 labels and gradients, as above.
    np.testing.assert_allclose(custom, built_in, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "kind", "params"),
    [
        ("regression", "real", {}),
        ("regression", "real", {"reg_sqrt": True}),
        ("regression_l1", "real", {}),
        ("huber", "real", {"alpha": 0.7}),
        ("fair", "real", {"fair_c": 1.5}),
        ("poisson", "count", {"poisson_max_delta_step": 0.5}),
        ("quantile", "real", {"alpha": 0.3}),
        ("mape", "real", {}),
        ("gamma", "above", {}),
        ("tweedie", "count", {"tweedie_variance_power": 1.3}),
        ("binary", "bit", {"sigmoid": 0.7, "scale_pos_weight": 2.0}),
        ("binary", "bit", {"is_unbalance": True}),
        ("multiclass", "class", {"num_class": 3}),
        ("multiclassova", "class", {"num_class": 3, "sigmoid": 0.7, "scale_pos_weight": 2.0}),
        ("cross_entropy", "unit", {}),
        ("cross_entropy_lambda", "unit", {}),
        ("lambdarank", "rank", {"lambdarank_truncation_level": 7}),
        ("lambdarank", "rank", {"lambdarank_norm": False, "sigmoid": 2.0}),
    ],
)
def test_lightgbm_trains_the_same_model_with_our_gradients(name, kind, params):
    lgb = pytest.importorskip("lightgbm")
    X, y = make(kind)
    qid = np.repeat(np.arange(20), 15)
    n_outputs = params.get("num_class", 1)
    objective = get(name, library="lightgbm", n_outputs=n_outputs, **params)
    extra = {"qid": qid} if objective.scope == "query" else {}
    common = {
        "boost_from_average": False,
        "num_leaves": 6,
        "learning_rate": 0.5,
        "lambda_l2": 1.0,
        "num_threads": 1,
        "verbose": -1,
        "min_data_in_leaf": 5,
        "deterministic": True,
        **params,
    }
    data = lgb.Dataset(X, y, group=np.full(20, 15), free_raw_data=False)

    def ours(margin, d):
        pair = objective.gradients(y, margin, **extra), objective.hessians(y, margin, **extra)
        return tuple(part[:, 0] if n_outputs == 1 else part for part in pair)

    # LightGBM moves the leaves of these losses after growing the tree; nodes above keep their gradient sums.
    renewed = name in ("regression_l1", "quantile", "mape")
    rounds = 1 if renewed else 3
    built_in = lgb.train({**common, "objective": name}, data, rounds, keep_training_booster=True)
    custom = lgb.train({**common, "objective": ours}, data, rounds, keep_training_booster=True)
    a, b = built_in.trees_to_dataframe(), custom.trees_to_dataframe()
    inner = a["split_feature"].notna().to_numpy()
    assert inner.sum() >= 3
    keep = inner if renewed else np.ones_like(inner)
    assert list(a["split_feature"][inner]) == list(b["split_feature"][inner])
    # Both hold gradients in float32; sums of 300 of them differ in the last digits only.
    np.testing.assert_allclose(b["value"][keep], a["value"][keep], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("name", "kind", "params"),
    [
        ("RMSE", "real", {}),
        ("MAE", "real", {}),
        ("Quantile", "real", {"alpha": 0.3}),
        ("LogLinQuantile", "above", {"alpha": 0.3}),
        ("Expectile", "real", {"alpha": 0.3}),
        ("Poisson", "count", {}),
        ("Tweedie", "count", {"variance_power": 1.5}),
        ("MAPE", "real", {}),
        ("Lq", "real", {"q": 2.5}),
        ("Huber", "real", {"delta": 0.8}),
        ("LogCosh", "real", {}),
        ("Logloss", "bit", {}),
        ("CrossEntropy", "unit", {}),
        ("Focal", "bit", {"focal_alpha": 0.3, "focal_gamma": 2.0}),
        ("MultiClass", "class", {}),
        ("MultiClassOneVsAll", "class", {}),
        ("QueryRMSE", "rank", {}),
    ],
)
def test_catboost_leaves_are_means_of_our_gradients(name, kind, params):
    cb = pytest.importorskip("catboost")
    X, y = make(kind)
    K = 3 if kind == "class" else 1
    qid = np.repeat(np.arange(20), 15)
    objective = get(name, library="catboost", n_outputs=K, **params)
    extra = {"qid": qid} if objective.scope == "query" else {}
    pool = cb.Pool(X, y, group_id=qid if extra else None)
    text = ";".join(f"{k}={v}" for k, v in params.items())
    rate, l2 = 0.3, 2.0
    model = cb.CatBoost(
        {
            "loss_function": f"{name}:{text}" if text else name,
            "iterations": 2,
            "depth": 2,
            "learning_rate": rate,
            "l2_leaf_reg": l2,
            "leaf_estimation_method": "Gradient",
            "leaf_estimation_iterations": 1,
            "thread_count": 1,
            "bootstrap_type": "No",
            "verbose": 0,
            "allow_writing_files": False,
            "random_strength": 0,
        }
    )
    model.fit(pool)
    margin = model.predict(X, prediction_type="RawFormulaVal", ntree_end=1).reshape(len(y), K)
    after = model.predict(X, prediction_type="RawFormulaVal", ntree_end=2).reshape(len(y), K)
    leaf = model.calc_leaf_indexes(cb.Pool(X, y))[:, 1]
    gradient = objective.gradients(y, margin, **extra)
    for number in np.unique(leaf):
        rows = leaf == number
        step = -rate * gradient[rows].sum(axis=0) / (rows.sum() + l2)
        # CatBoost holds targets in float32 and approximates exp to about 1e-8.
        np.testing.assert_allclose(after[rows] - margin[rows], np.tile(step, (rows.sum(), 1)), rtol=1e-5, atol=1e-6)


def test_scikit_learn_losses():
    loss = pytest.importorskip("sklearn._loss.loss")
    rng = np.random.default_rng(5)
    m = rng.normal(size=200)
    kinds = {
        "squared_error": (loss.HalfSquaredError(), {}, "real"),
        "absolute_error": (loss.AbsoluteError(), {}, "real"),
        "quantile": (loss.PinballLoss(quantile=0.3), {"quantile": 0.3}, "real"),
        "poisson": (loss.HalfPoissonLoss(), {}, "count"),
        "gamma": (loss.HalfGammaLoss(), {}, "above"),
        "log_loss": (loss.HalfBinomialLoss(), {}, "bit"),
        "exponential": (loss.ExponentialLoss(), {}, "bit"),
    }
    for name, (theirs, params, kind) in kinds.items():
        y = make(kind, 200)[1]
        tied = np.where(np.arange(200) % 3 == 0, y, m)  # ties count: the libraries do not agree on them
        ours = get(name, library="sklearn", **params).gradients(y, tied)[:, 0]
        expected = theirs.gradient(y_true=y, raw_prediction=tied)
        np.testing.assert_allclose(ours, expected, rtol=1e-13, atol=1e-15, err_msg=name)  # same formulas
    y, m = make("class", 200)[1], rng.normal(size=(200, 3))
    expected = loss.HalfMultinomialLoss(n_classes=3).gradient(y_true=y, raw_prediction=m)
    np.testing.assert_allclose(get("log_loss", library="sklearn", n_outputs=3).gradients(y, m), expected, atol=1e-15)


def test_scikit_learn_huber_has_one_delta_per_round():
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = make("real")
    model = ensemble.GradientBoostingRegressor(loss="huber", alpha=0.8, n_estimators=3, max_depth=2).fit(X, y)
    objective = get("huber", library="sklearn", alpha=0.8)
    assert objective.scope == "round"
    for i, margin in enumerate([model._raw_predict_init(X)[:, 0], *list(model.staged_predict(X))[:2]]):
        root = model.estimators_[i, 0].tree_.value[0, 0, 0]  # mean of the negative gradients
        assert root == pytest.approx(-objective.gradients(y, margin).mean(), rel=1e-9, abs=1e-12)


def boosters():
    """Yield fitted models with their rows and targets."""
    common = {"n_estimators": 2, "max_depth": 2, "learning_rate": 0.4, "reg_lambda": 1.5, "n_jobs": 1}
    for kind in ("real", "bit", "class", "count"):
        X, y = make(kind)
        words = np.array(["ant", "bee", "cow"])[y.astype(int)] if kind in ("bit", "class") else y
        name = {"count": "count:poisson", "real": "reg:squarederror"}.get(kind)
        xgb = pytest.importorskip("xgboost")
        if name:
            yield xgb.XGBRegressor(**common, objective=name).fit(X, y), X, y
        else:
            yield xgb.XGBClassifier(**common, scale_pos_weight=2.0 if kind == "bit" else None).fit(X, y), X, y
        lgb = pytest.importorskip("lightgbm")
        more = {**common, "verbose": -1, "num_leaves": 4}
        if name:
            objective = "poisson" if kind == "count" else "l2"
            yield lgb.LGBMRegressor(**more, objective=objective).fit(X, y), X, y
        else:
            yield lgb.LGBMClassifier(**more).fit(X, words), X, words


@pytest.mark.parametrize("number", range(8))
def test_root_of_the_second_round_is_a_newton_step_along_our_gradient(number):
    """From the fitted model to G and H: reader, labels, lookup, gradient and hessian together."""
    read_model = pytest.importorskip("treeinner").read_model
    fitted, X, y = list(boosters())[number]
    ensemble = read_model(fitted).ensemble
    objective = for_ensemble(ensemble)
    target = encode_target(ensemble, y, n_rows=len(X))
    margin = ensemble.slice_rounds(0, 1).predict(X)
    G = objective.gradients(target, margin).sum(axis=0)
    H = objective.hessians(target, margin).sum(axis=0)
    for tree in np.flatnonzero(ensemble.tree_round == 1):
        k, root = ensemble.tree_output[tree], ensemble.tree_start[tree]
        step = -0.4 * G[k] / (H[k] + 1.5)
        if ensemble.library == "xgboost" and ensemble.objective == "count:poisson":
            step = 0.4 * np.clip(step / 0.4, -0.7, 0.7)  # max_delta_step
        # float32 gradients in the library; the sum at a root nearly cancels, so compare on the scale of |G|.
        slack = 0.4 * np.abs(objective.gradients(target, margin)[:, k]).sum() / (H[k] + 1.5)
        assert ensemble.node_value[root, 0] == pytest.approx(step, abs=2e-6 * slack)


# -- looking up ------------------------------------------------------------------------------------------
def model(library="xgboost", objective="reg:squarederror", n_outputs=1, **fields):
    fields = {"objective_params": {}, "params": {}, "averaged": False, "output_names": None, "doubts": {}} | fields
    return SimpleNamespace(library=library, objective=objective, n_outputs=n_outputs, **fields)


def test_forest_fits_the_target_itself():
    y, m = np.array([0.0, 2.0, 1.0]), np.ones((3, 3))
    classifier = model("sklearn", "gini", 3, averaged=True, output_names=("a", "b", "c"))
    np.testing.assert_array_equal(for_ensemble(classifier).gradients(y, m), -np.eye(3)[[0, 2, 1]])
    regressor = model("sklearn", "squared_error", averaged=True)
    np.testing.assert_array_equal(for_ensemble(regressor).gradients(y, m[:, 0])[:, 0], -y)
    tree = pytest.importorskip("sklearn.tree")
    X, target = make("real")
    fitted = tree.DecisionTreeRegressor(max_depth=2).fit(X, target)
    root = -for_ensemble(regressor).gradients(target, np.zeros(300)).mean()
    assert fitted.tree_.value[0, 0, 0] == pytest.approx(root, rel=1e-12)


def test_forest_of_several_targets():
    classes = [["a", "b"], [1, 2, 3]]
    many = model("sklearn", "gini", 5, averaged=True, objective_params={"classes": classes})
    y = encode_target(many, np.array([["b", 3], ["a", 1]], object))
    np.testing.assert_array_equal(y, [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]])
    np.testing.assert_array_equal(for_ensemble(many).gradients(y, np.zeros((2, 5))), -y)
    with pytest.raises(DataError, match="2 targets"):
        encode_target(many, ["a", "b"])


def test_unbalanced_weights_from_the_model_beat_those_of_the_rows():
    params = {"is_unbalance": True, "label_weights": [1.0, 4.0]}
    known = for_ensemble(model("lightgbm", "binary", objective_params=params))
    assert known.per_row
    np.testing.assert_array_equal(known.gradients([0.0, 1.0, 1.0], np.zeros(3))[:, 0], [0.5, -2.0, -2.0])
    unknown = for_ensemble(model("lightgbm", "binary", objective_params={"is_unbalance": True}))
    np.testing.assert_array_equal(unknown.gradients([0.0, 1.0, 1.0], np.zeros(3))[:, 0], [1.0, -0.5, -0.5])


def test_target_border_of_catboost():
    border = model("catboost", "Logloss", objective_params={"target_border": 0.5})
    np.testing.assert_array_equal(encode_target(border, [0.2, 0.5, 7.0]), [0, 0, 1])


def test_auto_reads_parameters_and_version():
    tweedie = for_ensemble(model(objective="reg:tweedie", objective_params={"tweedie_variance_power": "1.2"}))
    assert tweedie.gradients([2.0], [0.5])[0, 0] == pytest.approx(-2 * np.exp(-0.1) + np.exp(0.4))
    assert for_ensemble(model(objective="reg:absoluteerror", params={"version": [3, 3, 0]})).per_row
    assert not for_ensemble(model(objective="reg:absoluteerror", params={"version": "3.4.1"})).per_row
    assert not for_ensemble(model(objective="reg:absoluteerror", params={"version": "3.10.0"})).per_row
    header = for_ensemble(model("lightgbm", "binary sigmoid:0.5"))
    assert header.gradients([0.0], [0.0])[0, 0] == 0.25
    catboost = for_ensemble(model("catboost", "Quantile:alpha=0.9"))
    assert catboost.gradients([1.0], [0.0])[0, 0] == -0.9
    named = for_ensemble(model("lightgbm", "huber", objective_params={"alpha": 0.3}), "huber")
    assert named.gradients([0.0], [5.0])[0, 0] == 0.3


def test_own_losses():
    ours = for_ensemble(model(objective=""), lambda y, margin: 2 * (margin - y))
    np.testing.assert_array_equal(ours.gradients([1.0, 2.0], [3.0, 5.0], weight=[1.0, 3.0]), [[4.0], [18.0]])
    register("test-pair", lambda y, margin: (margin - y, np.ones_like(margin)))
    np.testing.assert_array_equal(for_ensemble(model(), "test-pair").gradients([1.0], [3.0]), [[2.0]])
    with pytest.raises(DataError, match="shape"):
        for_ensemble(model(), lambda y, margin: np.zeros(7)).gradients([1.0], [3.0])
    with pytest.raises(DataError, match="gradient of row 0 is nan"):
        for_ensemble(model(), lambda y, margin: margin * np.nan).gradients([1.0], [3.0])


@pytest.mark.parametrize(
    ("ensemble", "spec", "error", "says"),
    [
        (
            model(objective="rank:ndcg", params={"version": "2.1.4"}),
            "auto",
            UnsupportedModelError,
            "before 3.0",
        ),
        (model("lightgbm", "rank_xendcg"), "auto", UnsupportedModelError, "random"),
        (model("catboost", "YetiRank"), "auto", UnsupportedModelError, "objective=callable"),
        (model("catboost", "PairLogit"), "auto", UnsupportedModelError, r'ti\.importance\(model, X, score="abs"\)'),
        (model(objective=""), "auto", UnknownParameterError, "custom objective"),
        (model(objective="reg:new"), "auto", UnsupportedModelError, "reg:new"),
        (model(objective="reg:absoluteerror"), "auto", UnknownParameterError, "smooth_absolute_error"),
        (model("lightgbm", "huber"), "auto", UnknownParameterError, "huber:alpha="),
        (model(), "no-such-loss", UnknownParameterError, "register"),
        (model(), 3.0, UnknownParameterError, "neither a name"),
    ],
)
def test_refusals_say_what_to_do(ensemble, spec, error, says):
    with pytest.raises(error, match=says):
        for_ensemble(ensemble, spec)


def test_losses_of_queries_need_queries():
    with pytest.raises(DataError, match="query"):
        get("lambdarank").gradients([0.0, 1.0], [0.0, 0.0])


def test_query_means_are_weighted_so_weights_are_refused():
    with pytest.raises(DataError, match="unweighted"):
        get("QueryRMSE").gradients([0.0, 1.0], [0.0, 0.0], weight=[1.0, 2.0], qid=[0, 0])


def test_rows_of_a_query_need_not_be_neighbours():
    y = make("rank", 60)[1]
    rng = np.random.default_rng(0)
    m, qid = rng.normal(size=60), np.repeat(np.arange(6), 10)
    order = rng.permutation(60)
    for name in ("lambdarank", "QueryRMSE"):
        whole = get(name).gradients(y, m, qid=qid)
        shuffled = get(name).gradients(y[order], m[order], qid=qid[order])
        np.testing.assert_allclose(shuffled, whole[order], atol=1e-12)  # another order of addition


# -- targets ---------------------------------------------------------------------------------------------
def test_labels_become_positions_in_the_models_classes():
    cats = model("sklearn", "log_loss", 3, objective_params={"classes": ["cat", "dog", "eel"]})
    np.testing.assert_array_equal(encode_target(cats, ["eel", "cat", "eel"]), [2, 0, 2])
    numbers = model("catboost", "MultiClass", 3, output_names=("10", "20", "30"))
    np.testing.assert_array_equal(encode_target(numbers, np.array([30, 10, 20])), [2, 0, 1])
    np.testing.assert_array_equal(encode_target(numbers, np.array([30.0, 10.0, 20.0])), [2, 0, 1])
    truth = model("sklearn", "log_loss", objective_params={"classes": [False, True]})
    np.testing.assert_array_equal(encode_target(truth, np.array([True, False])), [1, 0])
    text = model("catboost", "Logloss", objective_params={"classes": ["False", "True"]})
    np.testing.assert_array_equal(encode_target(text, np.array([True, False])), [1, 0])
    plain = model("xgboost", "binary:logistic")
    np.testing.assert_array_equal(encode_target(plain, [0, 1, 0.25]), [0, 1, 0.25])
    with pytest.raises(DataError, match=r"'fox'.*'cat', 'dog', 'eel'"):
        encode_target(cats, ["cat", "fox"])
    with pytest.raises(DataError, match=r"7.*class number from 0 to 2"):
        encode_target(model(objective="multi:softprob", n_outputs=3), [0, 7])


def test_containers():
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    cats = model("sklearn", "log_loss", objective_params={"classes": ["cat", "dog"]})
    words = ["dog", "cat", "dog"]
    for y in (
        pd.Series(words),
        pd.Series(words, dtype="category"),
        pl.Series(words),
        pl.Series(words, dtype=pl.Categorical),
        pd.DataFrame({"y": words}),
        pa.array(words),
        pa.chunked_array([words[:1], words[1:]]),
        np.array(words),
        np.array(words, object),
    ):
        np.testing.assert_array_equal(encode_target(cats, y), [1, 0, 1])
    for y in (
        pd.Series([1, 2, 3]),
        pl.Series([1, 2, 3]),
        pd.Series([1, 2, 3], dtype="Int64"),
        pl.DataFrame({"y": [1, 2, 3]}),
    ):
        encoded = encode_target(model(), y, n_rows=3)
        assert encoded.dtype == np.float64
        np.testing.assert_array_equal(encoded, [1, 2, 3])
    for y in (
        pd.Series([1, None, 3], dtype="Int64"),
        pl.Series([1, None, 3]),
        [1.0, np.nan, 3.0],
        pd.Series(["dog", None]),
    ):
        with pytest.raises(DataError, match="missing"):
            encode_target(cats if len(y) == 2 else model(), y)


@pytest.mark.parametrize(
    ("ensemble", "y", "says"),
    [
        (model(objective="count:poisson"), [1.0, -2.0], "-2 in row 1.*zero or above"),
        (model(objective="reg:gamma"), [1.0, 0.0], "0 in row 1.*above zero"),
        (model(objective="binary:logistic"), [0.0, 1.5], "1.5 in row 1.*between 0 and 1"),
        (model("lightgbm", "binary"), [0.0, 3.0], "0 or 1"),
        (model("sklearn", "log_loss", 3), [0.0, 3.0], "0 to 2"),
        (model(objective="reg:squaredlogerror"), [-1.0], "above -1"),
        (model(), [np.inf], "finite"),
        (model(), ["a", "b"], "'a', which is not a number"),
        (model(), [[1.0, 2.0]], "2 columns"),
        (model(n_outputs=2), [1.0], "1 column, expected 2"),
        (model(objective="survival:cox"), [1.0, 0.0], "not 0"),
        (
            model(objective="survival:aft", objective_params={"aft_loss_distribution": "normal"}),
            [[2.0, 1.0]],
            r"\[2, 1\]",
        ),
        (
            model(objective="survival:aft", objective_params={"aft_loss_distribution": "normal"}),
            [2.0],
            "column",
        ),
        (model(), np.zeros((1, 1, 1)), "dimensions"),
        (model(), None, "y is missing"),
        (model(), np.array(["2020-01-01"], "datetime64[D]"), "datetime64"),
    ],
)
def test_bad_targets_are_one_clear_error(ensemble, y, says):
    with pytest.raises(DataError, match=says):
        encode_target(ensemble, y)


def test_wrong_length():
    with pytest.raises(DataError, match="2 rows, but X has 3"):
        encode_target(model(), [1.0, 2.0], n_rows=3)


def test_every_name_can_be_built():
    given = {
        "alpha": 0.5,
        "delta": 0.5,
        "fair_c": 1.0,
        "c": 1.0,
        "slope": 1.0,
        "rho": 1.5,
        "q": 2.0,
        "version": "3.2.0",
        "tweedie_variance_power": 1.5,
        "variance_power": 1.5,
        "focal_alpha": 0.5,
        "focal_gamma": 2.0,
        "aft_loss_distribution": "normal",
    }
    for name in objectives.catalogue.known_names():
        objective = get(name, n_outputs=2 if name in ("softmax", "MultiClass") else 1, **given)
        assert objective.name == name


@pytest.mark.parametrize(
    ("library", "name", "params", "unit"),
    [
        ("xgboost", "reg:squarederror", {}, "units of the target"),
        ("lightgbm", "regression", {"reg_sqrt": "1"}, "square root of the target"),
        ("sklearn", "huber", {"alpha": 0.9}, "units of the target"),
        ("xgboost", "binary:logitraw", {}, "log-odds"),
        ("lightgbm", "binary", {"is_unbalance": True}, "log-odds"),
        ("lightgbm", "binary", {"sigmoid": 2.0}, "log-odds / 2"),
        ("catboost", "MultiClassOneVsAll", {}, "log-odds"),
        ("catboost", "MultiClass", {}, "unnormalised log-probability"),  # not log-odds: it has no zero of its own
        ("sklearn", "exponential", {}, "half of the log-odds"),
        ("xgboost", "count:poisson", {}, "log of the mean"),
        ("xgboost", "survival:cox", {}, "log hazard ratio"),
        ("lightgbm", "lambdarank", {}, "ranking score"),
        ("xgboost", "binary:hinge", {}, "margin"),
    ],
)
def test_every_loss_knows_the_unit_of_its_margin(library, name, params, unit):
    assert get(name, library=library, n_outputs=3 if name.startswith("Multi") else 1, **params).unit == unit


def test_units_of_forests_and_of_a_users_own_loss():
    assert for_ensemble(model(), lambda y, margin: margin - y).unit == "margin"
    forest = objectives.catalogue.forest
    assert [forest("gini", n, many_targets=n == 5).unit for n in (1, 3, 5)] == ["probability"] * 3
    assert forest("poisson", 1).unit == "units of the target"


def test_a_loss_of_ones_own_is_written_with_gradient_and_hessian():
    own = objectives.Objective(
        name="mine", value=lambda y, m: (m - y) ** 4, gradient=lambda y, m: 4 * (m - y) ** 3, hessian=None, unit="feet"
    )
    assert (own.unit, own.hessians([1.0], [3.0])) == ("feet", None)
    np.testing.assert_array_equal(own.gradients([1.0], [3.0], weight=[2.0]), [[64.0]])
    np.testing.assert_array_equal(own.losses([1.0], [3.0]), [16.0])
