"""What newcomers pass: names as they are in X, columns that the model does not need, tables of all kinds."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import treeinner as ti

lgb, xgb, catboost = (pytest.importorskip(name) for name in ("lightgbm", "xgboost", "catboost"))
X, Y = load_breast_cancer(as_frame=True, return_X_y=True)
X = X[["worst area", "mean texture", "smoothness error"]]
HELD, TRUTH = X[1::2], Y[1::2]
MORE = HELD[X.columns[::-1]].assign(**{"a note": "text", "diagnosis": TRUTH})


def fitted(kind):
    made = {
        "lightgbm": lgb.LGBMClassifier(n_estimators=10, verbose=-1),
        "xgboost": xgb.XGBClassifier(n_estimators=10),
        "catboost": catboost.CatBoostClassifier(iterations=10, verbose=0, allow_writing_files=False),
        "pipeline": make_pipeline(StandardScaler(), xgb.XGBClassifier(n_estimators=10)),
    }[kind]
    return made.fit(X[::2], Y[::2])


def test_names_are_those_of_the_table():
    model = fitted("lightgbm")
    assert model.feature_name_[0] == "worst_area"
    found = ti.importance(model, HELD, TRUTH)
    assert found.feature_names == tuple(X)
    assert set(found.to_frame()["feature"]) == set(X)
    assert ti.attribute(model, MORE).feature_names == tuple(X)
    assert ti.importance(model, HELD, TRUTH, feature_groups={"size": ["worst area"]}).feature_names[0] == "size"
    assert ti.importance(ti.read_model(model, feature_names=list("abc")), HELD, TRUTH).feature_names == tuple("abc")
    assert ti.importance(model, HELD.to_numpy(), TRUTH).feature_names[0] == "worst_area"  # nothing else is known
    ti.plots.bar(found, total_gain=ti.total_gain(model))  # which has seen no table


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "catboost", "pipeline"])
def test_columns_that_the_model_does_not_need_are_left_alone(kind):
    model = fitted(kind)
    own = ti.importance(model, HELD, TRUTH)
    for table, target in ((MORE, TRUTH), (MORE, "diagnosis"), (pl.from_pandas(MORE), TRUTH.to_numpy())):
        found = ti.importance(model, table, target)
        assert found.feature_names == own.feature_names == tuple(X)
        np.testing.assert_array_equal(found.scores, own.scores)
    np.testing.assert_array_equal(ti.attribute(model, MORE, method="saabas").values,
                                  ti.attribute(model, HELD, method="saabas").values)  # fmt: skip


def test_columns_named_by_numbers_are_never_positions():
    numbered = HELD.set_axis([2, 0, 1], axis=1)
    model = xgb.XGBClassifier(n_estimators=5).fit(numbered, TRUTH)
    found = ti.importance(model, numbered, TRUTH, feature_groups={"texture": [0], "rest": [1, 2]})
    own = ti.importance(model, numbered, TRUTH, feature_groups={"texture": ["0"], "rest": ["1", "2"]})
    np.testing.assert_array_equal(found.scores, own.scores)
    assert found["texture"].score == ti.importance(model, numbered, TRUTH)["0"].score


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "catboost", "pipeline"])
def test_a_row_of_a_frame_is_one_row(kind):
    model, row = fitted(kind), HELD.iloc[5]
    mixed = MORE.iloc[5]  # of numbers and text, in another order
    for one in (row, mixed):
        np.testing.assert_array_equal(
            ti.attribute(model, one, method="saabas").values, ti.attribute(model, HELD[5:6], method="saabas").values
        )
        assert ti.read_model(model).predict(one) == ti.read_model(model).predict(HELD[5:6])


def test_columns_of_several_levels():
    levels = HELD.set_axis(
        pd.MultiIndex.from_tuples([("size", "area"), ("look", "texture"), ("look", "smooth")]), axis=1
    )
    model = xgb.XGBClassifier(n_estimators=5).fit(levels, TRUTH)
    assert ti.importance(model, levels, TRUTH).feature_names == ("size area", "look texture", "look smooth")


@pytest.mark.parametrize(
    ("table", "y", "match"),
    [
        (HELD, TRUTH[:9], "y has 9 rows, but X has 284"),
        (TRUTH, HELD, "X is a Series, expected a table"),
        (HELD.drop(columns="worst area"), TRUTH, "X lacks 'worst area'"),
        (HELD.astype(str), TRUTH, "holds '.*' .a str., but the model needs numbers"),
        (HELD.iloc[0].to_numpy(), TRUTH[:1], r"reshape a single row with X.reshape\(1, -1\)"),
        (HELD, TRUTH.map({0: "benign", 1: "not"}), "classes that are not in the model: 'benign', 'not'"),
        (HELD, TRUTH.where(TRUTH > 0), "y is missing"),
    ],
)
def test_what_does_not_fit_is_said_in_words(table, y, match):
    with pytest.raises(ti.DataError, match=match):
        ti.importance(fitted("xgboost"), table, y)


@pytest.mark.parametrize("rows", [slice(None, 1), slice(None, 2), TRUTH.to_numpy() == 1])
def test_few_rows_and_rows_of_one_class_are_scored_with_a_word(rows):
    with pytest.warns(ti.TreeInnerWarning, match="Few rows|same target"):
        found = ti.importance(fitted("xgboost"), HELD[rows], TRUTH[rows])
    assert np.isfinite(found.scores).all()
    assert set(found.verdicts) == {"unclear"} or len(HELD[rows]) > 2
