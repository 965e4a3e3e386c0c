"""attribute() against the libraries: every method adds up to their raw margin, and treeshap and saabas are theirs.

library x task x setting. Training rows hold what the setting is about; the rows explained are 70, one block of 64 and a
ragged one, half of them unseen.
"""

import warnings
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import catboost as cb
import lightgbm as lgb
import numpy as np
import pytest
import shap
import xgboost as xgb
from sklearn import ensemble as ske
from sklearn import tree as skt

import treeinner as ti
from tests.test_golden import upside_down

N, N_TRAIN, ROWS = 260, 220, slice(185, 255)
rng = np.random.default_rng(11)
X = rng.normal(size=(N, 6)).astype(np.float32).astype(np.float64)
X[:, 1] = np.round(X[:, 1], 1)
SIGNAL = 2 * X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * (X[:, 3] > 0) + 0.3 * rng.normal(size=N)
Y = {
    "regression": SIGNAL + 4,
    "binary": (SIGNAL > 0.3).astype(int),
    "multi": np.digitize(SIGNAL, [-1.0, 1.5]),
    "targets": np.column_stack([SIGNAL, -(SIGNAL**2), np.cos(SIGNAL)]),
}
HOLES = np.where(rng.random(X.shape) < 0.15, np.nan, X)
LEVELS = X.copy()
LEVELS[:, 4], LEVELS[:, 5] = rng.integers(0, 3, N), rng.integers(0, 12, N)
WEIGHT = rng.uniform(0.2, 3.0, N)
DATA = {"missing": HOLES, "categorical": LEVELS}
METHODS = ("predecomp", "saabas", "treeshap")


@dataclass
class Case:
    """A fitted model and what its library says of the rows that are explained."""

    model: Any
    X: Any
    margin: np.ndarray  # raw prediction: (rows,) or (rows, outputs)
    rounding: float  # error that the library's own arithmetic may have made, as a share of the largest number
    contribs: np.ndarray | None = None  # its TreeSHAP in XGBoost's layout
    approx: np.ndarray | None = None  # its Saabas
    options: dict = field(default_factory=dict)  # what attribute() must be told


def targets(task):
    return Y[task][:N_TRAIN]


# -- XGBoost -------------------------------------------------------------------------------------------------
XGB_TASKS = {
    "regression": {},
    "binary": {"objective": "binary:logistic"},
    "multi": {"objective": "multi:softprob", "num_class": 3},
    "targets": {},
}
XGB_SETTINGS = {
    "plain": {},
    "missing": {},
    "categorical": {"max_cat_to_onehot": 4},
    "weights": {},
    "sampling": {"subsample": 0.6, "colsample_bynode": 0.6},
    "dart": {"booster": "dart", "rate_drop": 0.5},
    "rf": {"num_parallel_tree": 3, "subsample": 0.6, "eta": 1.0},
    "early stopping": {},
    "monotone": {"monotone_constraints": (1, 0, -1, 0, 0, 0)},
    "deep": {"max_depth": 0, "max_leaves": 80, "grow_policy": "lossguide", "min_child_weight": 0},
    "alpha": {"reg_alpha": 2.0},
    "vector leaves": {"multi_strategy": "multi_output_tree"},
}


def xgboost_case(task, setting):
    data, y = DATA.get(setting, X), targets(task)
    types = ["q"] * 4 + ["c"] * 2 if setting == "categorical" else None
    D = xgb.DMatrix(
        data[:N_TRAIN], y, weight=WEIGHT[:N_TRAIN] if setting == "weights" else None,
        feature_types=types, enable_categorical=True,
    )  # fmt: skip
    params = {"nthread": 1, "max_depth": 4, "eta": 0.3, "seed": 1} | XGB_TASKS[task] | XGB_SETTINGS[setting]
    rows = xgb.DMatrix(data[ROWS], feature_types=types, enable_categorical=True)
    if setting == "early stopping":
        # The wrapper predicts with its best round; the booster inside has more.
        kind = xgb.XGBRegressor if task in ("regression", "targets") else xgb.XGBClassifier
        model = kind(n_estimators=60, max_depth=5, learning_rate=0.9, n_jobs=1, early_stopping_rounds=2)
        model.fit(data[:N_TRAIN], y, eval_set=[(data[N_TRAIN:], Y[task][N_TRAIN:])], verbose=False)
        booster, rounds = model.get_booster(), (0, model.best_iteration + 1)
        assert rounds[1] < booster.num_boosted_rounds()
    else:
        model = booster = xgb.train(params, D, 8)
        rounds = (0, 8)

    def says(**what):
        return booster.predict(rows, iteration_range=rounds, **what)

    vector = not explained(("xgboost", task, setting))
    return Case(
        model, data[ROWS], says(output_margin=True),
        # Sums of float32, one tree after the other: half a unit in the last place each, and its contributions add
        # a few more operations per node of a path.
        rounding=booster.num_boosted_rounds() * 4 * 2.0**-24,
        contribs=None if vector else says(pred_contribs=True),
        approx=None if vector else says(pred_contribs=True, approx_contribs=True),
    )  # fmt: skip


# -- LightGBM ------------------------------------------------------------------------------------------------
LGB_TASKS = {
    "regression": {"objective": "regression"},
    "binary": {"objective": "binary"},
    "multi": {"objective": "multiclass", "num_class": 3},
}
LGB_SETTINGS = {
    "plain": {},
    "missing": {},
    "categorical": {"min_data_per_group": 5, "cat_smooth": 1},
    "weights": {"lambda_l2": 1.0},
    "sampling": {"bagging_freq": 1, "bagging_fraction": 0.5, "feature_fraction": 0.7},
    "dart": {"boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.0},
    "rf": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    "goss": {"data_sample_strategy": "goss", "learning_rate": 0.5},
    "early stopping": {"learning_rate": 0.7, "num_leaves": 30},
    "monotone": {"monotone_constraints": [1, 0, -1, 0, 0, 0]},
    "deep": {"num_leaves": 100, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0},
    "alpha": {"lambda_l1": 2.0},
}


def lightgbm_case(task, setting):
    data = DATA.get(setting, X)
    params = {"num_leaves": 9, "min_data_in_leaf": 5, "verbosity": -1, "num_threads": 1, "seed": 1}
    params |= LGB_TASKS[task] | LGB_SETTINGS[setting]
    D = lgb.Dataset(
        data[:N_TRAIN], targets(task), weight=WEIGHT[:N_TRAIN] if setting == "weights" else None,
        categorical_feature=[4, 5] if setting == "categorical" else [],
    )  # fmt: skip
    more = {}
    if setting == "early stopping":
        more = {"valid_sets": [lgb.Dataset(data[N_TRAIN:], Y[task][N_TRAIN:], reference=D)]}
        more["callbacks"] = [lgb.early_stopping(2, verbose=False)]
        more["keep_training_booster"] = True  # else it drops the rounds behind the best
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = lgb.train(params, D, 60 if more else 8, **more)
    if more:
        assert 0 < model.best_iteration < model.current_iteration()
    margin, contribs = model.predict(data[ROWS], raw_score=True), model.predict(data[ROWS], pred_contrib=True)
    if setting == "rf":  # it predicts the mean of the trees, but its raw scores and its contributions are their sum
        margin, contribs = margin / 8, contribs / 8
    if task == "multi":
        contribs = contribs.reshape(70, 3, 7)
    return Case(model, data[ROWS], margin, rounding=1e-12, contribs=contribs)  # float64 throughout


# -- scikit-learn --------------------------------------------------------------------------------------------
SK_KINDS = {
    "forest": (ske.RandomForestRegressor, ske.RandomForestClassifier, {"n_estimators": 6, "max_depth": 5}),
    "extra": (ske.ExtraTreesRegressor, ske.ExtraTreesClassifier, {"n_estimators": 6, "max_depth": 5}),
    "tree": (skt.DecisionTreeRegressor, skt.DecisionTreeClassifier, {"max_depth": 6}),
    "boosting": (ske.GradientBoostingRegressor, ske.GradientBoostingClassifier, {"n_estimators": 8}),
    "hist": (
        ske.HistGradientBoostingRegressor, ske.HistGradientBoostingClassifier, {"max_iter": 8, "min_samples_leaf": 5}
    ),
}  # fmt: skip
SK_SETTINGS = {
    "plain": ("forest", "extra", "tree", "boosting", "hist"),
    "missing": ("forest", "hist"),
    "categorical": ("hist",),
    "weights": ("forest", "boosting", "hist"),
    "sampling": ("boosting",),
    "early stopping": ("boosting", "hist"),
    "monotone": ("forest", "hist"),
    "deep": ("forest", "tree", "boosting", "hist"),
}
SK_PARAMS = {
    ("sampling", "boosting"): {"subsample": 0.5},
    ("early stopping", "boosting"): {"n_iter_no_change": 1, "n_estimators": 60, "learning_rate": 0.9},
    ("early stopping", "hist"): {"early_stopping": True, "n_iter_no_change": 1, "max_iter": 60, "learning_rate": 0.9},
    ("categorical", "hist"): {"categorical_features": [4, 5]},
    ("deep", "hist"): {"max_leaf_nodes": None, "min_samples_leaf": 1, "l2_regularization": 2.0},
}


def sklearn_case(task, setting, kind):
    data = DATA.get(setting, X)
    regressor, classifier, params = SK_KINDS[kind]
    params = {"random_state": 0} | params | SK_PARAMS.get((setting, kind), {})
    if setting == "monotone":
        params["monotonic_cst"] = [1, 0, -1, 0, 0, 0]
    if setting == "deep" and kind != "hist":
        params |= {"max_depth": None, "min_samples_leaf": 1}
    model = (regressor if task in ("regression", "targets") else classifier)(**params)
    model.fit(data[:N_TRAIN], targets(task), sample_weight=WEIGHT[:N_TRAIN] if setting == "weights" else None)
    margin = model.decision_function if hasattr(model, "decision_function") else model.predict
    if kind in ("forest", "extra", "tree") and hasattr(model, "predict_proba"):
        margin = model.predict_proba
    key = ("sklearn", task, setting, kind)
    contribs = shap_contribs(model, data[ROWS]) if explained(key) else None
    # float64 on both sides
    return Case(model, data[ROWS], margin(data[ROWS]), rounding=1e-12, contribs=contribs)


def shap_contribs(model, rows):
    """shap's own algorithm, in XGBoost's layout."""
    explainer = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent")
    explainer.model.model_type = "internal"  # else it would ask the library
    values = np.asarray(explainer.shap_values(rows, check_additivity=False))
    base = np.asarray(explainer.expected_value).reshape(-1)
    if values.ndim == 2:
        return np.column_stack([values, np.full(len(rows), base[-1])])
    bases = np.broadcast_to(base[None, :, None], (len(rows), len(base), 1))
    return np.concatenate([values.transpose(0, 2, 1), bases], axis=2)


# -- CatBoost ------------------------------------------------------------------------------------------------
CB_TASKS = {"regression": "RMSE", "binary": "Logloss", "multi": "MultiClass", "targets": "MultiRMSE"}
CB_SETTINGS = {
    "plain": {},
    "missing": {},
    "categorical": {"one_hot_max_size": 4},
    "weights": {},
    "sampling": {"bootstrap_type": "Bernoulli", "subsample": 0.5, "rsm": 0.7},
    "early stopping": {"iterations": 60, "learning_rate": 0.9, "od_wait": 2},
    "monotone": {"monotone_constraints": [1, 0, -1, 0, 0, 0]},
    "deep": {"depth": 8},
    "depthwise": {"grow_policy": "Depthwise"},
    "lossguide": {"grow_policy": "Lossguide", "max_leaves": 20},
}


def catboost_case(task, setting):
    data = DATA.get(setting, X)
    cat = None
    if setting == "categorical":
        data, cat = data.astype(object), [4, 5]
        data[:, cat] = data[:, cat].astype(int)
    params = {"iterations": 8, "depth": 3, "random_seed": 0, "thread_count": 1, "logging_level": "Silent"}
    params |= {"allow_writing_files": False, "loss_function": CB_TASKS[task]} | CB_SETTINGS[setting]
    weight = WEIGHT[:N_TRAIN] if setting == "weights" else None
    model = cb.CatBoost(params)
    model.fit(
        cb.Pool(data[:N_TRAIN], targets(task), weight=weight, cat_features=cat),
        eval_set=cb.Pool(data[N_TRAIN:], Y[task][N_TRAIN:]) if setting == "early stopping" else None,
    )
    if setting == "early stopping":
        assert model.tree_count_ < 60
    margin = np.asarray(model.predict(data[ROWS], prediction_type="RawFormulaVal"))
    contribs = None
    if explained(("catboost", task, setting)):
        contribs = model.get_feature_importance(cb.Pool(data[ROWS]), type="ShapValues")
    options = {"reg_lambda": 3.0 * weight.mean()} if weight is not None else {}
    return Case(model, data[ROWS], margin, rounding=1e-12, contribs=contribs, options=options)  # float64


# -- the grid ------------------------------------------------------------------------------------------------
GRID = (
    [("xgboost", t, s) for s in XGB_SETTINGS for t in XGB_TASKS if s != "vector leaves" or t in ("multi", "targets")]
    + [("lightgbm", t, s) for s in LGB_SETTINGS for t in LGB_TASKS]
    + [
        ("sklearn", t, s, kind)
        for s, kinds in SK_SETTINGS.items()
        for kind in kinds
        for t in Y
        if t != "targets" or kind in ("forest", "extra", "tree")
        if s != "monotone" or t in ("regression", "binary")  # scikit-learn refuses
    ]
    + [
        ("catboost", t, s)
        for s in CB_SETTINGS
        for t in CB_TASKS
        if t != "targets" or s not in ("monotone", "categorical", "depthwise", "lossguide")
        if t != "multi" or s != "monotone"  # CatBoost refuses
    ]
)
MAKE = {"xgboost": xgboost_case, "lightgbm": lightgbm_case, "sklearn": sklearn_case, "catboost": catboost_case}


def explained(key):
    """Does the library, or shap for scikit-learn, have path-dependent TreeSHAP values of the trees as grown?"""
    library, task, setting, *kind = key
    if library == "sklearn":
        # shap reads no categories of HistGradientBoosting, several classes of no boosted one, and no missing values.
        return setting not in ("categorical", "missing") and (task != "multi" or kind[0] not in ("boosting", "hist"))
    if library == "catboost":  # its TreeSHAP of symmetric trees is that of trees upside down
        return setting in ("depthwise", "lossguide")
    return setting != "vector leaves"  # XGBoost before 3.4 cannot explain those


@cache
def case_of(key):
    return MAKE[key[0]](*key[1:])


@cache
def attribution_of(key, method):
    case = case_of(key)
    return ti.attribute(case.model, case.X, method=method, n_jobs=1, **case.options)


def close(found, expected, share):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=share * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("key", GRID, ids="-".join)
def test_every_method_adds_up_to_the_librarys_raw_margin(key):
    case = case_of(key)
    for method in METHODS:
        a = attribution_of(key, method)
        close(a.base_values + a.values.sum(axis=1), case.margin, case.rounding)
        assert (a.output_names is None) == (case.margin.ndim == 1) or key[1] == "targets"


@pytest.mark.parametrize("key", [key for key in GRID if explained(key)], ids="-".join)
def test_treeshap_is_the_librarys_own_or_shaps(key):
    close(attribution_of(key, "treeshap").to_contribs(), case_of(key).contribs, case_of(key).rounding)


@pytest.mark.parametrize("key", [key for key in GRID if key[0] == "xgboost" and explained(key)], ids="-".join)
def test_saabas_is_xgboosts_approximation(key):
    close(attribution_of(key, "saabas").to_contribs(), case_of(key).approx, case_of(key).rounding)


@pytest.mark.parametrize(
    "key", [k for k in GRID if k[0] == "catboost" and k[2] in ("plain", "missing", "sampling")], ids="-".join
)
def test_treeshap_of_symmetric_trees_upside_down_is_catboosts(key):
    case = case_of(key)
    stored = case.model.get_feature_importance(cb.Pool(case.X), type="ShapValues")
    found = ti.attribute(upside_down(ti.read_model(case.model, **case.options).ensemble), case.X, method="treeshap")
    close(found.to_contribs(), stored, case.rounding)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("task", ["regression", "binary"])
def test_treeshap_is_shaps_own_algorithm_on_boosted_trees(library, task):
    key = (library, task, "plain")
    # shap holds XGBoost's covers and leaves as the float32 they are, and adds in float64; its expected value
    # of XGBoost models leaves out digits of the base score
    close(
        attribution_of(key, "treeshap").to_contribs()[:, :-1],
        shap_contribs(case_of(key).model, case_of(key).X)[:, :-1],
        1e-6,
    )
