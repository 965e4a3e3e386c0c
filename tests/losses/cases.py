"""Losses of every library with targets that they are defined for."""

import numpy as np
import pytest

from treeinner.losses import find_loss

N = 300


def loss_of(library, name, params=None, n_outputs=1, told=None, version=(3, 2, 0), **more):
    """The loss of a model that stores this."""
    return find_loss(
        told=told, library=library, name=name, params=params or {}, n_outputs=n_outputs, version=version, **more
    )


def make(kind, n=N, seed=0):
    """Rows and a target of some kind that depends on them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    f = X[:, 0] + np.abs(X[:, 1])
    low = np.exp(f / 3 + 0.3 * rng.normal(size=n))
    high = low * rng.choice([1.0, 1.5, np.inf], n)
    return X, {
        "real": f + rng.normal(size=n),
        "bit": (f + rng.normal(size=n) > 0.5).astype(float),
        "unit": 1 / (1 + np.exp(-f - rng.normal(size=n))),
        "count": rng.poisson(np.exp(f / 3)).astype(float),
        "above": low,
        "class": np.digitize(f + rng.normal(size=n), [0, 1.5]).astype(float),
        "rank": np.digitize(f + rng.normal(size=n), [0, 1, 2]).astype(float),
        "time": np.round(np.exp(f / 2) * 4 + 1) * rng.choice([-1.0, 1.0], n),  # ties included
        "interval": np.column_stack([np.where(np.arange(n) % 5 == 0, 0.0, low), high]),
    }[kind]


# (library, name, parameters, target, outputs, what r = margin - y is at a kink of the loss or of its gradient)
NO_KINK, AT_0 = (), (0.0,)
CASES = [
    ("xgboost", "reg:squarederror", {"scale_pos_weight": 3.0}, "count", 1, NO_KINK),
    ("xgboost", "reg:squaredlogerror", {}, "count", 1, NO_KINK),
    ("xgboost", "reg:logistic", {}, "unit", 1, NO_KINK),
    ("xgboost", "binary:logistic", {"scale_pos_weight": 2.5}, "bit", 1, NO_KINK),
    ("xgboost", "binary:hinge", {}, "bit", 1, (0.0, -2.0, 2.0)),
    ("xgboost", "reg:pseudohubererror", {"huber_slope": 0.7}, "real", 1, NO_KINK),
    ("xgboost", "reg:absoluteerror", {}, "real", 1, AT_0),
    ("xgboost", "reg:quantileerror", {"quantile_alpha": 0.2}, "real", 1, AT_0),
    ("xgboost", "reg:quantileerror", {"quantile_alpha": [0.1, 0.5, 0.9]}, "real", 3, AT_0),
    ("xgboost", "reg:expectileerror", {"expectile_alpha": 0.8}, "real", 1, AT_0),
    ("xgboost", "reg:expectileerror", {"expectile_alpha": [0.2, 0.5, 0.8]}, "real", 3, NO_KINK),
    ("xgboost", "count:poisson", {"max_delta_step": 4.0}, "count", 1, NO_KINK),  # so large that no leaf is clipped
    ("xgboost", "reg:gamma", {"scale_pos_weight": 2.0}, "above", 1, NO_KINK),
    ("xgboost", "reg:tweedie", {"tweedie_variance_power": 1.4}, "count", 1, NO_KINK),
    ("xgboost", "multi:softprob", {}, "class", 3, NO_KINK),
    ("xgboost", "survival:aft", {"aft_loss_distribution": "normal"}, "interval", 1, NO_KINK),
    ("xgboost", "survival:aft", {"aft_loss_distribution": "logistic"}, "interval", 1, NO_KINK),
    ("xgboost", "survival:aft", {"aft_loss_distribution": "extreme"}, "interval", 1, NO_KINK),
    ("lightgbm", "regression", {"reg_sqrt": True}, "real", 1, NO_KINK),
    ("lightgbm", "regression_l1", {}, "real", 1, AT_0),
    ("lightgbm", "huber", {"alpha": 0.9}, "real", 1, (-0.9, 0.9)),
    ("lightgbm", "fair", {"fair_c": 1.3}, "real", 1, AT_0),
    ("lightgbm", "quantile", {"alpha": 0.9}, "real", 1, AT_0),
    ("lightgbm", "mape", {}, "real", 1, AT_0),
    ("lightgbm", "binary", {"sigmoid": 0.6, "scale_pos_weight": 2.0}, "bit", 1, NO_KINK),
    ("lightgbm", "multiclass", {}, "class", 3, NO_KINK),
    ("lightgbm", "multiclassova", {"sigmoid": 0.7, "scale_pos_weight": 2.0}, "class", 3, NO_KINK),
    ("lightgbm", "cross_entropy", {}, "unit", 1, NO_KINK),
    ("lightgbm", "cross_entropy_lambda", {}, "unit", 1, NO_KINK),
    ("catboost", "RMSE", {}, "real", 1, NO_KINK),
    ("catboost", "MAE", {}, "real", 1, AT_0),
    ("catboost", "Quantile", {"alpha": 0.3}, "real", 1, AT_0),
    ("catboost", "LogLinQuantile", {"alpha": 0.3}, "above", 1, NO_KINK),
    ("catboost", "Expectile", {"alpha": 0.3}, "real", 1, AT_0),
    ("catboost", "Tweedie", {"variance_power": 1.5}, "count", 1, NO_KINK),
    ("catboost", "MAPE", {}, "real", 1, AT_0),
    ("catboost", "Lq", {"q": 2.5}, "real", 1, AT_0),
    ("catboost", "Huber", {"delta": 0.8}, "real", 1, (-0.8, 0.8)),
    ("catboost", "LogCosh", {}, "real", 1, NO_KINK),
    ("catboost", "Logloss", {"class_weights": [1.0, 4.0]}, "bit", 1, NO_KINK),
    ("catboost", "MultiClass", {"class_weights": [1.0, 4.0, 0.5]}, "class", 3, NO_KINK),
    ("catboost", "Logloss", {}, "bit", 1, NO_KINK),
    ("catboost", "CrossEntropy", {}, "unit", 1, NO_KINK),
    ("catboost", "MultiClass", {}, "class", 3, NO_KINK),
    ("catboost", "MultiClassOneVsAll", {}, "class", 3, NO_KINK),
    ("catboost", "Focal", {"focal_alpha": 0.3, "focal_gamma": 2.0}, "bit", 1, NO_KINK),
    ("sklearn", "exponential", {}, "bit", 1, NO_KINK),
]
# Losses whose gradient needs more than its row; their derivatives are tested one by one.
TOGETHER = [
    ("xgboost", "survival:cox", {}, "time", 1, NO_KINK),
    ("xgboost", "rank:ndcg", {"ndcg_exp_gain": False, "lambdarank_num_pair_per_sample": 4}, "rank", 1, NO_KINK),
    ("xgboost", "rank:ndcg", {"lambdarank_normalization": False}, "rank", 1, NO_KINK),
    ("xgboost", "rank:ndcg", {"lambdarank_score_normalization": False}, "rank", 1, NO_KINK),
    ("xgboost", "rank:pairwise", {}, "rank", 1, NO_KINK),
    ("xgboost", "rank:map", {"lambdarank_num_pair_per_sample": 6}, "bit", 1, NO_KINK),
    ("lightgbm", "lambdarank", {"lambdarank_truncation_level": 7}, "rank", 1, NO_KINK),
    ("lightgbm", "lambdarank", {"lambdarank_norm": False, "sigmoid": 2.0}, "rank", 1, NO_KINK),
    ("catboost", "QueryRMSE", {}, "rank", 1, NO_KINK),
]
QUERY = np.repeat(np.arange(20), 15)


def each(cases):
    """Parametrize a test by cases."""
    return pytest.mark.parametrize("case", cases, ids=[f"{library}-{name}" for library, name, *_ in cases])


def each_of(library, *but):
    """Parametrize a test by the cases of a library, without these names."""
    return each([case for case in CASES + TOGETHER if case[0] == library and case[1] not in but])


def rows_of(case, seed=1):
    """Loss, target and margins of a case, no row near a kink."""
    library, name, params, kind, n_outputs, kinks = case
    loss, y = loss_of(library, name, params, n_outputs), make(kind)[1]
    m = np.random.default_rng(seed).normal(size=(N, n_outputs))
    m = 0.5 + 0.5 * m if kind == "interval" else m  # XGBoost clips the gradients of times far off
    far = np.ones(N, bool)
    for kink in kinks:
        r = m - (2 * y[:, None] - 1 if name == "binary:hinge" else y[:, None])
        far &= (np.abs(r - kink) > 1e-3).all(axis=1)
    if name == "reg:squaredlogerror":  # XGBoost lifts margins below -1
        far &= m[:, 0] > -0.9
    if name == "LogLinQuantile":
        far &= np.abs(np.exp(m[:, 0]) - y) > 1e-3
    return loss, y[far], m[far]
