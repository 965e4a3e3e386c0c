"""The selectors and rankings that rivals.py compares: each is a function of (X, y, task, seed) -> Choice.

Each runs as its own documentation recommends, with its defaults; what it leaves to the user is in `Method.how`. Where
a method takes any estimator, it gets the booster that TreeInnerSelector uses by default, so that methods differ and
models do not; rankings are also taken from XGBoost with its defaults.
"""

import contextlib
import importlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from treeinner.select.default import SETTINGS

Q = 0.1  # the nominal false discovery rate, for the methods that have one
BOOSTER = {name: value for name, value in SETTINGS["xgboost"].items() if name != "n_jobs"}


@dataclass(frozen=True, eq=False)
class Choice:
    score: np.ndarray  # (p,) what the method ranks features by; higher is more relevant
    kept: np.ndarray | None = None  # (p,) bool; None: the method has no rule for choosing


@dataclass(frozen=True, eq=False)
class Method:
    choose: Callable[..., Choice]
    how: str
    modules: tuple[str, ...]  # imported before the clock starts; the first one names the package
    replications: int = 20

    def installed(self):
        return all(find_spec(module.split(".")[0]) for module in self.modules)

    def load(self):
        for module in self.modules:
            importlib.import_module(module)


def xgboost(task, seed, options=BOOSTER):
    import xgboost as xgb

    return (xgb.XGBClassifier if task == "binary" else xgb.XGBRegressor)(**options, n_jobs=1, random_state=seed)


# -- rankings ------------------------------------------------------------------------------------------------
def total_gain(X, y, task, seed, options=BOOSTER):
    gains = xgboost(task, seed, options).fit(X, y).get_booster().get_score(importance_type="total_gain")
    return Choice(np.array([gains.get(f"f{k}", 0.0) for k in range(X.shape[1])]))


def mean_shap(X, y, task, seed, options=BOOSTER):
    import shap

    values = shap.TreeExplainer(xgboost(task, seed, options).fit(X, y)).shap_values(X)
    return Choice(np.abs(values).mean(axis=0))


def permutation(X, y, task, seed):
    from sklearn.inspection import permutation_importance
    from sklearn.model_selection import KFold, StratifiedKFold

    splitter = (StratifiedKFold if task == "binary" else KFold)(5, shuffle=True, random_state=seed)
    drops = []
    for train, test in splitter.split(X, y):
        model = xgboost(task, seed).fit(X[train], y[train])
        drops.append(permutation_importance(model, X[test], y[test], random_state=seed).importances)
    drops = np.concatenate(drops, axis=1)
    mean = drops.mean(axis=1)
    return Choice(mean, mean - 2 * drops.std(axis=1) > 0)


# -- scikit-learn --------------------------------------------------------------------------------------------
def f_test(X, y, task, seed):
    from sklearn.feature_selection import SelectFdr, f_classif, f_regression

    test = SelectFdr(f_classif if task == "binary" else f_regression, alpha=Q).fit(X, y)
    return Choice(test.scores_, test.get_support())


def select_from_model(X, y, task, seed):
    from sklearn.feature_selection import SelectFromModel

    fitted = SelectFromModel(xgboost(task, seed)).fit(X, y)
    return Choice(fitted.estimator_.feature_importances_, fitted.get_support())


def rfecv(X, y, task, seed):
    from sklearn.feature_selection import RFECV

    fitted = RFECV(xgboost(task, seed)).fit(X, y)
    return Choice(-fitted.ranking_, fitted.get_support())


def lasso(X, y, task, seed):
    from sklearn.linear_model import LassoCV, LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if task == "binary":
        model = LogisticRegressionCV(l1_ratios=(1.0,), solver="liblinear", scoring="neg_log_loss", random_state=seed)
    else:
        model = LassoCV(random_state=seed)
    size = np.abs(make_pipeline(StandardScaler(), model).fit(X, y)[-1].coef_).ravel()
    return Choice(size, size > 0)


# -- other packages ------------------------------------------------------------------------------------------
def boruta(X, y, task, seed):
    from boruta import BorutaPy
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if task == "binary":
        forest = RandomForestClassifier(max_depth=5, class_weight="balanced", n_jobs=1)
    else:
        forest = RandomForestRegressor(max_depth=5, n_jobs=1)
    fitted = BorutaPy(forest, n_estimators="auto", random_state=seed).fit(X, y)
    return Choice(-fitted.ranking_, fitted.support_)


def leshy(X, y, task, seed):
    import lightgbm as lgb
    import pandas as pd
    from arfs.feature_selection.allrelevant import Leshy

    model = (lgb.LGBMClassifier if task == "binary" else lgb.LGBMRegressor)(verbose=-1, n_jobs=1)
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    fitted = Leshy(model, n_estimators=20, random_state=seed).fit(frame, pd.Series(y))
    return Choice(-np.asarray(fitted.ranking_), np.asarray(fitted.support_))


def powershap(X, y, task, seed):
    from powershap import PowerShap

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # CatBoost writes where it stands
        fitted = PowerShap(show_progress=False).fit(X, y)
    impact = fitted._processed_shaps_df["impact"].drop("random_uniform_feature")
    score = np.zeros(X.shape[1])
    score[impact.index.astype(int)] = impact
    return Choice(score, fitted.get_support())


def shap_select(X, y, task, seed):
    import pandas as pd
    from shap_select import shap_select
    from sklearn.model_selection import train_test_split

    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    X_train, X_valid, y_train, y_valid = train_test_split(frame, pd.Series(y), random_state=seed)
    model = xgboost(task, seed, {}).fit(X_train, y_train)
    if task == "regression":
        y_valid = y_valid - y_train.mean()  # its linear regression has no intercept
    table = shap_select(model, X_valid, y_valid, task=task)
    table = table.set_index("feature name").loc[frame.columns]
    return Choice(table["t-value"].fillna(-np.inf).to_numpy(), table["selected"].to_numpy() == 1)


def knockoffs(X, y, task, seed):
    from knockpy import KnockoffFilter

    np.random.seed(seed)  # noqa: NPY002  knockpy has no other way
    knockoff = KnockoffFilter(ksampler="gaussian", fstat="lasso")
    kept = knockoff.forward(X=X, y=y.astype(float), fdr=Q)
    return Choice(knockoff.W, np.asarray(kept) > 0)


# -- ours ----------------------------------------------------------------------------------------------------
def tree_inner(X, y, task, seed, test):
    from treeinner import TreeInnerSelector

    fitted = TreeInnerSelector(test=test, q=Q, random_state=seed).fit(X, y)
    score = fitted.feature_importances_ if test == "marginal" else -fitted.pvalues_
    return Choice(score, fitted.get_support())


def with_options(choose, **options):
    def run(X, y, task, seed):
        return choose(X, y, task, seed, **options)

    return run


SKLEARN = "sklearn.feature_selection"
OURS = ("TreeInner, marginal", "TreeInner, conditional")
METHODS = {
    OURS[0]: Method(
        with_options(tree_inner, test="marginal"), f'`TreeInnerSelector(test="marginal")`, q {Q}', ("treeinner",)
    ),
    OURS[1]: Method(with_options(tree_inner, test="conditional"), f"`TreeInnerSelector()`, q {Q}", ("treeinner",)),
    "total gain": Method(total_gain, "our booster, all rows; no rule for choosing", ("xgboost",)),
    "total gain, XGBoost's defaults": Method(
        with_options(total_gain, options={}), "the same, XGBoost's defaults", ("xgboost",)
    ),
    "mean |SHAP|": Method(
        mean_shap, "`TreeExplainer`, our booster, all rows; no rule for choosing", ("shap", "xgboost")
    ),
    "mean |SHAP|, XGBoost's defaults": Method(
        with_options(mean_shap, options={}), "the same, XGBoost's defaults", ("shap", "xgboost")
    ),
    "permutation, CV": Method(
        permutation,
        "`permutation_importance` on five held-out folds, our booster; kept where mean > 2 sd, as in scikit-learn",
        ("sklearn.inspection", "xgboost"),
    ),
    "SelectFromModel": Method(select_from_model, 'our booster, threshold "mean" (its default)', (SKLEARN, "xgboost")),
    "RFECV": Method(rfecv, "our booster, steps of one feature, five folds (its defaults)", (SKLEARN, "xgboost"), 10),
    "lasso CV": Method(
        lasso,
        "`LassoCV`, or `LogisticRegressionCV` with an l1 penalty by log loss; standardised columns",
        ("sklearn.linear_model",),
    ),
    "F test": Method(f_test, f"`SelectFdr`, alpha {Q}", (SKLEARN,)),
    "knockoffs": Method(knockoffs, f'`KnockoffFilter(ksampler="gaussian", fstat="lasso")`, fdr {Q}', ("knockpy",)),
    "Boruta": Method(
        boruta, 'forest of depth 5, `n_estimators="auto"`, as in its example', ("boruta", "sklearn.ensemble"), 10
    ),
    "Leshy": Method(
        leshy,
        "LightGBM, `n_estimators=20`, SHAP, as in its notebooks; otherwise defaults",
        ("arfs.feature_selection.allrelevant", "lightgbm", "pandas"),
        10,
    ),
    "powershap": Method(powershap, "its default CatBoost model and automatic mode", ("powershap", "catboost"), 10),
    "shap-select": Method(
        shap_select,
        "XGBoost's defaults on three quarters of the rows, the rest for its regression",
        ("shap_select", "xgboost", "pandas"),
    ),
}
