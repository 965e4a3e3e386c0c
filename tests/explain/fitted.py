"""Small models of every library on the same rows."""

import catboost as cb
import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn import ensemble

from tests.models import Models

rng = np.random.default_rng(5)
X = pd.DataFrame(rng.normal(size=(150, 4)).astype(np.float32), columns=["alpha", "beta", "gamma", "delta"])
Y = (2 * X["alpha"] + X["beta"] * X["gamma"] + 0.3 * rng.normal(size=150)).to_numpy()
CLASS = np.array(["low", "mid", "top"])[np.digitize(Y, [-1, 1])]
CODE = np.digitize(Y, [-1, 1])
SMALL = {"n_estimators": 6, "max_depth": 3, "n_jobs": 1}
QUIET = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
MODELS = Models(
    xgboost=lambda: xgb.XGBRegressor(**SMALL).fit(X, Y),
    xgboost_classes=lambda: xgb.XGBClassifier(**SMALL).fit(X, CODE),
    lightgbm=lambda: lgb.LGBMClassifier(**SMALL, verbose=-1, min_child_samples=5).fit(X, Y > 0),
    catboost=lambda: cb.CatBoostRegressor(iterations=6, depth=3, grow_policy="Depthwise", **QUIET).fit(X, Y),
    forest=lambda: ensemble.RandomForestClassifier(4, max_depth=4, random_state=0).fit(X, CLASS),
    boosting=lambda: ensemble.GradientBoostingRegressor(n_estimators=6, random_state=0).fit(X, Y),
)
TARGET = {"xgboost": Y, "xgboost_classes": CODE, "lightgbm": Y > 0, "catboost": Y, "forest": CLASS, "boosting": Y}


def margin_of(name):
    """The library's own raw prediction."""
    model = MODELS[name]
    if name.startswith("xgboost"):
        return model.predict(X, output_margin=True)
    if name == "forest":
        return model.predict_proba(X)
    return model.predict(X, raw_score=True) if name == "lightgbm" else model.predict(X)
