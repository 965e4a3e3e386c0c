"""Columns of text, targets that do not fit: said before a model is fitted, all columns at once."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import treeinner as ti

lgb, xgb, catboost = (pytest.importorskip(name) for name in ("lightgbm", "xgboost", "catboost"))
rng = np.random.default_rng(3)
N = 600
X = pd.DataFrame({"number": rng.normal(size=N), "city": rng.choice(list("abcd"), N), "noise": rng.normal(size=N)})
X["size"] = rng.choice(["small", "large"], N)
Y = X["number"] + 2.0 * (X["city"] == "a") - (X["size"] == "large") + rng.normal(size=N)
NUMBERS = X[["number", "noise"]]
FEW = {"n_estimators": 10, "n_jobs": 1}


@pytest.mark.parametrize(
    "estimator",
    [
        xgb.XGBRegressor(**FEW, enable_categorical=True),
        lgb.LGBMRegressor(**FEW, verbose=-1),
        HistGradientBoostingRegressor(max_iter=10),
    ],
)
def test_text_is_taken_for_categories(estimator):
    found = ti.cross_importance(estimator, X, Y, cv=3, n_jobs=1)
    assert found.feature_names == tuple(X)
    as_categories = X.astype({"city": "category", "size": "category"})
    np.testing.assert_array_equal(found.scores, ti.cross_importance(estimator, as_categories, Y, cv=3, n_jobs=1).scores)
    of_polars = ti.cross_importance(estimator, pl.from_pandas(X), Y.to_numpy(), cv=3, n_jobs=1)
    np.testing.assert_array_equal(found.scores, of_polars.scores)
    assert found["city"].score > found["noise"].score


@pytest.mark.parametrize(
    "made", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas, lambda X: X.astype({"city": object})]
)
def test_the_selector_takes_text_of_any_frame(made):
    selector = ti.TreeInnerSelector(repeats=1, n_jobs=1).fit(made(X), Y.to_numpy())
    assert selector.get_support()[[0, 1, 3]].all()
    assert type(selector.transform(made(X))) is type(made(X))


@pytest.mark.parametrize(
    ("estimator", "cure"),
    [
        (xgb.XGBRegressor(enable_categorical=False), "XGBRegressor does not take; set enable_categorical=True"),
        (catboost.CatBoostRegressor(), "set cat_features="),
        (HistGradientBoostingRegressor(categorical_features=None), "set categorical_features='from_dtype'"),
        (RandomForestRegressor(), "RandomForestRegressor does not take; encode them in a Pipeline"),
    ],
)
def test_estimators_that_take_no_text_are_named_with_the_cure(estimator, cure):
    with pytest.raises(ti.DataError, match=f"'city', 'size' hold text or categories, which .*{cure}"):
        ti.cross_importance(estimator, X, Y, n_jobs=1)


def test_a_pipeline_gets_its_text_as_it_is_and_is_scored_by_the_columns_that_go_in():
    encoder = make_column_transformer((OneHotEncoder(), ["city", "size"]), remainder="passthrough")
    pipeline = make_pipeline(encoder, xgb.XGBRegressor(**FEW))
    assert ti.cross_importance(pipeline, X, Y, cv=3, n_jobs=1).feature_names == tuple(X)
    inside = ti.cross_importance(pipeline, X, Y, cv=3, n_jobs=1, feature_groups="encoded").feature_names
    assert "onehotencoder__city_a" in inside
    catboosts = catboost.CatBoostRegressor(
        iterations=5, verbose=0, thread_count=1, allow_writing_files=False, cat_features=["city", "size"]
    )
    assert ti.cross_importance(catboosts, X, Y, cv=3, n_jobs=1).feature_names == tuple(X)


@pytest.mark.parametrize(
    ("estimator", "y", "match"),
    [
        (xgb.XGBClassifier(), Y, "y holds fractions, but XGBClassifier is a classifier; pass a regressor"),
        (xgb.XGBClassifier(), np.zeros(N), "y is 0.0 in every row"),
        (lgb.LGBMClassifier(), ["yes"] * N, "y is 'yes' in every row"),
        (xgb.XGBRegressor(), Y[::-1], "another order"),
    ],
)
def test_targets_that_do_not_fit(estimator, y, match):
    with pytest.raises(ti.DataError, match=match):
        ti.cross_importance(estimator, NUMBERS, y, n_jobs=1)


@pytest.mark.parametrize("cv", [3, KFold(3, shuffle=True)])
def test_without_a_seed_every_call_gives_the_same_numbers(cv):
    forest = RandomForestRegressor(5)  # neither has one of its own
    first, again = (ti.cross_importance(forest, NUMBERS, Y, cv=cv, n_jobs=1) for _ in range(2))
    np.testing.assert_array_equal(first.scores, again.scores)
    np.testing.assert_array_equal(first.std_errors, again.std_errors)
