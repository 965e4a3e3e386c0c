"""Warnings: none at any library's defaults on clean rows; each that exists is brief, and shown with what causes it."""

import json
import re
import warnings
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from catboost import CatBoostClassifier, CatBoostRegressor
from sklearn import datasets, ensemble

import treeinner as ti

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/warnings.md").read_text(encoding="utf-8")
LONGEST = 160  # characters of a warning, its codes included


# -- none that is not deserved ---------------------------------------------------------------------------------------
def of_sklearn(name):
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True, as_frame=True)
    return X.iloc[::2] if name == "digits" else X, y.iloc[::2] if name == "digits" else y


def petal_width():
    X, _ = of_sklearn("iris")
    return X, X.pop("petal width (cm)")


DATA = {name: lambda name=name: of_sklearn(name) for name in ("diabetes", "breast_cancer", "wine", "iris", "digits")}
DATA["petal width"] = petal_width
SMALL = {"thread_count": 1, "verbose": 0, "iterations": 100, "allow_writing_files": False}  # 1000 take a minute
FAMILIES = {  # of numbers, of classes
    "xgboost": (xgboost.XGBRegressor, xgboost.XGBClassifier, {"n_jobs": 1}),
    "lightgbm": (lightgbm.LGBMRegressor, lightgbm.LGBMClassifier, {"n_jobs": 1, "verbose": -1}),
    "catboost": (CatBoostRegressor, CatBoostClassifier, SMALL),
    "histograms": (ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier, {"max_iter": 20}),
    "boosting": (ensemble.GradientBoostingRegressor, ensemble.GradientBoostingClassifier, {}),
    "forest": (ensemble.RandomForestRegressor, ensemble.RandomForestClassifier, {}),
    "extra trees": (ensemble.ExtraTreesRegressor, ensemble.ExtraTreesClassifier, {}),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("data", DATA)
def test_no_warning_at_the_defaults_of_a_library_on_clean_rows(data, family):
    X, y = DATA[data]()
    train = np.random.default_rng(0).permutation(len(X)) < len(X) // 2
    numbers, classes, options = FAMILIES[family]
    model = (classes if y.dtype.kind == "i" and y.nunique() < 20 else numbers)(**options).fit(X[train], y[train])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ti.TreeInnerWarning)
        for score in ("signal", "tree_inner", "loss"):
            ti.importance(model, X[~train], y[~train], score=score, n_jobs=1)


# -- one warning a call, where it is deserved ------------------------------------------------------------------------
N = 400
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(N, 4)), columns=list("abcd"))
Y = X["a"] + 0.5 * X["b"] ** 2 + RNG.normal(size=N)
NEW = pd.DataFrame(RNG.normal(size=(N, 4)), columns=list("abcd"))
NEW_Y = NEW["a"] + 0.5 * NEW["b"] ** 2 + RNG.normal(size=N)


def boosted(**options):
    return xgboost.XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1, **options).fit(X, Y)


def booster(obj=None, margin=None, **params):
    data = xgboost.DMatrix(X, Y, base_margin=margin)
    return xgboost.train({"max_depth": 3, "nthread": 1, **params}, data, 10, obj=obj)


def of_a_newer_xgboost(folder):
    booster().save_model(folder / "m.json")
    document = json.loads((folder / "m.json").read_text())
    (folder / "m.json").write_text(json.dumps(document | {"version": [9, 0, 0]}))
    return ti.importance(folder / "m.json", NEW, NEW_Y)


def of_integers_as_text(_):
    kinds, more = (pd.DataFrame({"kind": pd.Categorical(values.astype(kind))}) for values, kind in (
        (RNG.integers(0, 3, N), int), (RNG.integers(0, 3, N), str)))  # fmt: skip
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(X.join(kinds), Y)
    return ti.importance(model, NEW.join(more), NEW_Y)


def of_categories_as_floats(_):
    kind = RNG.integers(0, 3, N)
    model = CatBoostRegressor(**SMALL | {"iterations": 5, "cat_features": ["kind"]}).fit(X.assign(kind=kind), Y)
    return ti.importance(model, NEW.assign(kind=kind.astype(float)), NEW_Y)


def far_out(_):
    model = xgboost.XGBClassifier(n_estimators=5, n_jobs=1, base_score=0.5).fit(X, Y > 0)
    return ti.importance(model, NEW, NEW_Y > 0, base_margin=np.where(NEW_Y > 0, 25.0, -25.0))


def selected(y, **options):
    return ti.TreeInnerSelector(boosted(), repeats=1, cv=2, n_jobs=1, **options).fit(X, y)


CASES = {
    "training_rows": lambda _: ti.importance(boosted(), X, Y),
    "few_rows": lambda _: ti.importance(boosted(), NEW[:12], NEW_Y[:12]),
    "one_target": lambda _: ti.importance(boosted(), NEW, np.ones(N)),
    "no_splits": lambda _: ti.importance(boosted(gamma=1e9), NEW, NEW_Y),
    "rounding": far_out,
    "one_pass": lambda _: ti.importance(boosted(), iter([(NEW, NEW_Y)]), score="tree_inner"),
    "dart": lambda _: ti.importance(boosted(booster="dart", rate_drop=0.5), NEW, NEW_Y),
    "start_assumed": lambda _: ti.importance(booster(margin=np.full(N, 5.0)), NEW, NEW_Y),
    "loss_assumed": lambda _: ti.importance(booster(base_score=0.3), NEW, NEW_Y),
    "newer_version": of_a_newer_xgboost,
    "unknown_categories": of_integers_as_text,
    "float_categories": of_categories_as_floats,
    "none_kept": lambda _: selected(RNG.normal(size=N)),
    "target": lambda _: ti.TreeInnerSelector(repeats=1, cv=2, n_jobs=1).fit(X, np.rint(Y).astype(int)),
}


@pytest.mark.parametrize("code", CASES)
def test_a_warning_is_said_once_in_a_line_with_its_code(code, tmp_path):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        CASES[code](tmp_path)
    texts = [str(w.message) for w in said if issubclass(w.category, ti.TreeInnerWarning)]
    assert len(texts) == 1
    assert code in re.search(r"\[(.*)\]$", texts[0])[1].split(", ")
    assert len(texts[0]) <= LONGEST
    assert said[0].filename == __file__


def test_the_page_has_every_code():
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/treeinner").rglob("*.py"))
    codes = set(re.findall(r'Note\(\s*"(\w+)"', source))
    assert codes == set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert set(CASES) <= codes
