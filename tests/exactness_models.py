"""Small models of every library and setting, with their training rows and the library's own total gain."""

from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np

import treeinner as ti

N, COLUMNS, ROUNDS = 500, 6, 12
TASKS = ("regression", "binary", "multi-class")


@dataclass
class Fitted:
    """A model, its training rows, and the library's own total gain."""

    model: Any
    X: Any
    y: Any
    own: np.ndarray | None  # None: the library has no gain of its own; the definition is evaluated on the rows
    weight: Any = None
    how: dict[str, Any] = field(default_factory=dict)  # more arguments for importance()
    objective: str = "auto"
    qid: Any = None


# -- data ----------------------------------------------------------------------------------------------------
@cache
def rows(task: str, *, missing: bool = False, categorical: bool = False):
    """Features with an interaction, a target with noise, and weights."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, COLUMNS))
    X[:, 4] = rng.integers(0, 12, N)
    effect = rng.normal(size=12)[X[:, 4].astype(int)]
    signal = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * np.sin(3 * X[:, 3]) + (effect if categorical else 0.0)
    if task == "regression":
        y = signal + 0.5 * rng.normal(size=N)
    elif task == "binary":
        y = (signal + rng.logistic(size=N) > 0).astype(int)
    elif task == "counts":
        y = rng.poisson(np.exp(0.5 * signal)).astype(float)
    elif task == "two targets":
        y = np.stack([signal, signal**2], axis=1) + 0.5 * rng.normal(size=(N, 2))
    else:
        y = np.digitize(signal + 0.5 * rng.normal(size=N), [-0.7, 0.7])
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    weight = rng.exponential(size=N) + 0.1
    return X, y, weight


# -- XGBoost -------------------------------------------------------------------------------------------------
XGB_OBJECTIVE = {
    "regression": {"objective": "reg:squarederror"},
    "binary": {"objective": "binary:logistic"},
    "multi-class": {"objective": "multi:softprob", "num_class": 3},
    "counts": {"objective": "count:poisson"},
    "two targets": {"objective": "reg:squarederror"},
}


def xgboost(task, *, data=None, weights=False, rounds=ROUNDS, train=None, own=None, **params):
    def fit():
        import xgboost as xgb

        X, y, weight = rows(task, **(data or {}))
        types = ["q"] * COLUMNS
        if data and data.get("categorical"):
            types[4] = "c"
        matrix = xgb.DMatrix(X, y, weight=weight if weights else None, feature_types=types, nthread=1)
        settings = {"eta": 0.3, "max_depth": 4, "nthread": 1, "seed": 1, **XGB_OBJECTIVE[task], **params}
        extra = train(xgb, matrix) if train else {}
        model = xgb.train(settings, matrix, rounds, **extra)
        return Fitted(model, X, y, (own or xgb_gain)(model), weight if weights else None)

    return fit


def xgb_gain(booster):
    stored = booster.get_score(importance_type="total_gain")
    return np.array([stored.get(f"f{k}", 0.0) for k in range(COLUMNS)])


def xgb_gain_of_splits(booster):
    """Sum in double precision of the gains that the splits store: get_score adds them up in float32."""
    return stored_gain(ti.read_model(booster).ensemble)


def xgboost_stopped():
    """Stop early in the wrapper, whose predict then uses the best rounds: the gains of those rounds."""
    import xgboost as xgb

    X, y, _ = rows("regression")
    model = xgb.XGBRegressor(
        n_estimators=60, learning_rate=0.5, max_depth=4, n_jobs=1, early_stopping_rounds=3, random_state=1
    )
    model.fit(X, y, eval_set=[(X[:100], np.random.default_rng(0).permutation(y[:100]))], verbose=False)
    return Fitted(model, X, y, xgb_gain(model.get_booster()[: model.best_iteration + 1]))


def schedule(xgb, _):
    return {"callbacks": [xgb.callback.LearningRateScheduler(lambda r: 0.3 * 0.9**r)]}


def xgboost_version():
    return tuple(int(part) for part in version("xgboost").split(".")[:2])


def from_file(fit):
    """Save the model and load it: parameters of the training are not in the file."""

    def loaded():
        import xgboost as xgb

        fitted = fit()
        return replace(fitted, model=xgb.Booster(model_file=fitted.model.save_raw("ubj")))

    return loaded


def custom_objective():
    """Logistic loss by hand; whoever trains so must pass objective= to importance()."""
    import xgboost as xgb

    def logistic(margin, matrix):
        p = 1 / (1 + np.exp(-margin))
        return p - matrix.get_label(), p * (1 - p)

    X, y, _ = rows("binary")
    params = {"eta": 0.3, "max_depth": 4, "nthread": 1, "base_score": 0.5}
    model = xgb.train(params, xgb.DMatrix(X, y, nthread=1), ROUNDS, obj=logistic)
    return Fitted(model, X, y, xgb_gain(model), objective="binary:logistic")


def xgboost_positive(objective):
    """Give a loss that wants positive targets what it wants."""

    def fit():
        import xgboost as xgb

        X, y, _ = rows("counts")
        matrix = xgb.DMatrix(X, y + 1, nthread=1)
        model = xgb.train({"objective": objective, "max_depth": 4, "nthread": 1}, matrix, ROUNDS)
        return Fitted(model, X, y + 1, xgb_gain(model))

    return fit


def xgboost_survival(objective):
    """Times of which every third is censored."""

    def fit():
        import xgboost as xgb

        X, y, _ = rows("regression")
        time, censored = np.exp(0.3 * y), np.arange(N) % 3 == 0
        matrix = xgb.DMatrix(X, nthread=1)
        if objective == "survival:aft":
            y = np.stack([time, np.where(censored, np.inf, time)], axis=1)
            matrix.set_float_info("label_lower_bound", y[:, 0])
            matrix.set_float_info("label_upper_bound", y[:, 1])
        else:
            y = np.where(censored, -time, time)
            matrix.set_label(y)
        model = xgb.train({"objective": objective, "max_depth": 4, "nthread": 1}, matrix, ROUNDS)
        return Fitted(model, X, y, xgb_gain(model))

    return fit


def saturating(y, margin):
    """Gradient of 400 log cosh(residual / 20), with a hessian of 1 that is not its own."""
    return 20 * np.tanh((margin - y) / 20), np.ones_like(y)


def xgboost_custom():
    """A function as the wrapper's objective, which the model itself files as squared error."""
    import xgboost as xgb

    X, y, _ = rows("regression")
    model = xgb.XGBRegressor(n_estimators=ROUNDS, max_depth=4, n_jobs=1, objective=saturating).fit(X, y)
    return Fitted(model, X, y, xgb_gain(model.get_booster()))


QID = np.repeat(np.arange(N // 20), 20)


def xgboost_ranking(objective):
    def fit():
        import xgboost as xgb

        X, y, _ = rows("binary" if objective == "rank:map" else "multi-class")
        params = {"objective": objective, "max_depth": 4, "nthread": 1, "lambdarank_pair_method": "topk"}
        model = xgb.train(params, xgb.DMatrix(X, y, qid=QID, nthread=1), ROUNDS)
        return Fitted(model, X, y, xgb_gain(model), qid=QID)

    return fit


# -- LightGBM ------------------------------------------------------------------------------------------------
LGB_OBJECTIVE = {
    "regression": {"objective": "regression"},
    "binary": {"objective": "binary"},
    "multi-class": {"objective": "multiclass", "num_class": 3},
    "counts": {"objective": "poisson"},
}


def lightgbm(task, *, data=None, weights=False, rounds=ROUNDS, train=None, positive=False, queries=False, **params):
    def fit():
        import lightgbm as lgb

        X, y, weight = rows(task, **(data or {}))
        y = np.exp(0.3 * y) if positive else y
        qid = QID if queries else None
        categorical = [4] if data and data.get("categorical") else []
        settings = {"learning_rate": 0.2, "num_leaves": 12, "min_data_in_leaf": 10, "lambda_l2": 1.0}
        settings |= {"num_threads": 1, "verbose": -1, "seed": 1, "deterministic": True, "force_col_wise": True}
        matrix = lgb.Dataset(
            X, y, weight=weight if weights else None, categorical_feature=categorical,
            group=np.bincount(QID) if queries else None,
        )  # fmt: skip
        settings |= LGB_OBJECTIVE[task] | params
        model = lgb.train(settings, matrix, rounds, **(train(lgb, matrix) if train else {}))
        own = model.feature_importance("gain")
        return Fitted(model, X, y, own, weight if weights else None, qid=qid)

    return fit


def lightgbm_estimator(task, **params):
    def fit():
        import lightgbm as lgb

        X, y, _ = rows(task)
        cls = lgb.LGBMRegressor if task == "regression" else lgb.LGBMClassifier
        model = cls(n_estimators=ROUNDS, num_leaves=12, reg_lambda=1.0, n_jobs=1, verbose=-1, **params).fit(X, y)
        return Fitted(model, X, y, model.booster_.feature_importance("gain"))

    return fit


def lgb_schedule(lgb, _):
    return {"callbacks": [lgb.reset_parameter(learning_rate=lambda r: 0.2 * 0.9**r)]}


def lgb_stopped(lgb, matrix):
    X, y, _ = rows("regression")
    shuffled = np.random.default_rng(0).permutation(y[:100])
    watch = lgb.Dataset(X[:100], shuffled, reference=matrix)
    return {"valid_sets": [watch], "callbacks": [lgb.early_stopping(3, verbose=False)]}


# -- scikit-learn --------------------------------------------------------------------------------------------
def hist(task, *, data=None, weights=False, positive=False, **params):
    def fit():
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        X, y, weight = rows(task, **(data or {}))
        y = np.exp(0.3 * y) if positive else y
        cls = HistGradientBoostingRegressor if task in ("regression", "counts") else HistGradientBoostingClassifier
        categorical = [4] if data and data.get("categorical") else None
        model = cls(
            max_iter=ROUNDS, random_state=1, categorical_features=categorical,
            **{"early_stopping": False, "max_leaf_nodes": 12, **params},
        )  # fmt: skip
        model.fit(X, y, sample_weight=weight if weights else None)
        return Fitted(model, X, y, stored_gain(ti.read_model(model).ensemble), weight if weights else None)

    return fit


def stored_gain(ensemble):
    """Gains that the splits store (the root's of HistGradientBoosting put right by the reader), in double precision."""
    inner = ensemble.feature >= 0
    return np.bincount(ensemble.feature[inner], ensemble.gain[inner], minlength=ensemble.n_features)


def boosted(task, **params):
    def fit():
        from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

        X, y, _ = rows(task)
        cls = GradientBoostingRegressor if task == "regression" else GradientBoostingClassifier
        model = cls(n_estimators=ROUNDS, max_depth=3, random_state=1, **params).fit(X, y)
        trees = [tree.tree_ for tree in model.estimators_.ravel()]
        return Fitted(model, X, y, impurity_gain(trees))

    return fit


def forest(task, *, kind="RandomForest", **params):
    def fit():
        import sklearn.ensemble

        X, y, _ = rows(task)
        end = "Regressor" if task in ("regression", "two targets") else "Classifier"
        cls = getattr(sklearn.ensemble, kind + end)
        model = cls(n_estimators=ROUNDS, max_depth=5, random_state=1, **params).fit(X, y)
        return Fitted(model, X, y, impurity_gain([tree.tree_ for tree in model.estimators_]))

    return fit


def single_tree(task):
    """One tree of a bootstrap forest, on the rows it saw: MDI on the in-bag rows."""

    def fit():
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        X, y, _ = rows(task)
        cls = RandomForestRegressor if task == "regression" else RandomForestClassifier
        model = cls(n_estimators=3, max_depth=5, random_state=1).fit(X, y)
        tree, drawn = model.estimators_[0], model.estimators_samples_[0]
        return Fitted(tree, X[drawn], y[drawn].astype(float), impurity_gain([tree.tree_]))

    return fit


def impurity_gain(trees):
    """Unnormalised decrease of impurity, as feature_importances_ adds it up, in rows rather than shares."""
    gain = np.zeros(COLUMNS)
    for tree in trees:
        inner = np.flatnonzero(tree.children_left >= 0)
        mass = tree.weighted_n_node_samples * tree.impurity
        np.add.at(
            gain, tree.feature[inner], mass[inner] - mass[tree.children_left[inner]] - mass[tree.children_right[inner]]
        )
    return gain


# -- CatBoost ------------------------------------------------------------------------------------------------
def catboost(task, *, data=None, weights=None, one_hot=255, positive=False, how=None, **params):
    def fit():
        import catboost

        X, y, weight = rows(task, **(data or {}))
        y = np.exp(0.3 * y) if positive else y
        weight = {"real": weight, "whole": np.ceil(weight), None: None}[weights]
        cats = []
        if data and data.get("categorical"):
            import pandas as pd

            X = pd.DataFrame(X).astype({4: int}).astype({4: str})
            X.columns = [f"f{k}" for k in range(COLUMNS)]
            cats = ["f4"]
        loss = {"regression": "RMSE", "binary": "Logloss", "multi-class": "MultiClass", "two targets": "MultiRMSE"}
        model = catboost.CatBoost({
            "iterations": ROUNDS, "depth": 4, "learning_rate": 0.2, "loss_function": loss.get(task), "random_seed": 1,
            "thread_count": 1, "verbose": False, "allow_writing_files": False, "one_hot_max_size": one_hot, **params,
        })  # fmt: skip
        model.fit(X, y, cat_features=cats, sample_weight=weight)
        return Fitted(model, X, y, None, weight, how or {})

    return fit
