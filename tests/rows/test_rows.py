"""Rows: what comes with X is checked, weights have the unit of the largest, columns may go by name."""

from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.rows.data import ALL, NUMBERS, TARGET, WEIGHT, N, Y, fitted, matrix, model
from treeinner import kernels
from treeinner.errors import DataError, UnknownParameterError, UnsupportedModelError
from treeinner.read import read_model
from treeinner.rows import needs_all_rows, read_rows, read_table
from treeinner.rows.frames import names_of

FRAME = NUMBERS.assign(price=Y, w=WEIGHT, day=np.arange(N) // 10, note="n")


def one(*given, **named):
    (rows,) = read_rows(model("xgboost"), *given, **named)
    return rows


def test_rows_in_memory():
    stream = read_rows(model("xgboost"), NUMBERS, Y)
    (rows,) = stream
    (again,) = stream
    assert stream.again
    assert again is rows
    assert (rows.n_rows, rows.weight, rows.weight_exponent, rows.frame_library) == (N, None, 0, "pandas")
    assert rows.names == tuple("abcd")
    np.testing.assert_array_equal(rows.y.reshape(-1), Y)
    np.testing.assert_array_equal(rows.start, np.broadcast_to(model("xgboost").trees.base, (N, 1)))
    np.testing.assert_array_equal(matrix(rows.table), NUMBERS.to_numpy())
    with pytest.raises(TypeError, match="weights"):
        one(NUMBERS, Y, weights=WEIGHT)


def test_names_of_the_columns_where_the_model_stores_none():
    plain = read_model(lightgbm.LGBMRegressor(n_estimators=2, verbosity=-1).fit(ALL[:N][list("abcd")].to_numpy(), Y))
    assert read_rows(plain, NUMBERS, Y).names == tuple("abcd")
    assert read_rows(plain, NUMBERS.to_numpy(), Y).names is None
    with pytest.raises(DataError, match="5 columns besides"):
        read_rows(plain, NUMBERS.assign(more=1.0, price=Y), "price")


# -- columns by name -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("frame", [lambda f: f, pl.from_pandas, pa.Table.from_pandas, lambda f: f[f.columns[::-1]]])
def test_columns_by_name(frame):
    stream = read_rows(model("xgboost"), frame(FRAME), "price", sample_weight="w", clusters="day")
    (named,) = stream
    plain = one(NUMBERS, Y, sample_weight=WEIGHT, clusters=FRAME["day"])
    assert stream.clustered
    assert names_of(stream.head) == tuple("abcd")
    np.testing.assert_array_equal(matrix(named.table), matrix(plain.table))
    for field in ("y", "weight", "clusters", "weight_exponent"):
        np.testing.assert_array_equal(getattr(named, field), getattr(plain, field))


def test_several_targets_by_name_and_labels_that_are_no_names():
    two = ALL[:N].assign(second=TARGET[:N] * 2)
    forest = read_model(RandomForestRegressor(3, max_depth=2).fit(two[["a", "c"]], two[["d", "second"]]))
    (rows,) = read_rows(forest, two[["a", "c", "d", "second"]], ["d", "second"])
    np.testing.assert_array_equal(rows.y, two[["d", "second"]].to_numpy())
    assert rows.target_names == ("d", "second")
    words = read_model(RandomForestClassifier(3, max_depth=2).fit(two[["a", "c"]], np.where(two["a"] > 0, "a", "c")))
    (rows,) = read_rows(words, two[["a", "c"]], np.where(two["a"] > 0, "a", "c").tolist())
    assert rows.n_rows == N


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"y": "prise"}, "'price'"),
        ({"y": "a"}, "feature"),
        ({"y": "price", "clusters": "nothing"}, "nothing"),
        ({"y": "price", "sample_weight": "note"}, "not numbers"),
    ],
)
def test_names_that_do_not_fit(given, word):
    with pytest.raises(DataError, match=word):
        one(FRAME, **given)
    with pytest.raises(DataError, match="no such column"):
        one(NUMBERS.to_numpy(), "price")


# -- target and labels ---------------------------------------------------------------------------------------
def test_a_target_in_another_order_is_refused_and_the_same_order_is_not():
    y = pd.Series(Y)
    for role in ("y", "sample_weight", "clusters"):
        given = {"y": y, role: pd.Series(np.arange(1.0, N + 1))[::-1]}
        with pytest.raises(DataError, match=f"{role}.loc"):
            one(NUMBERS, **given)
    np.testing.assert_array_equal(one(NUMBERS, y.to_numpy()[::-1]).y.reshape(-1), Y[::-1])
    np.testing.assert_array_equal(one(NUMBERS, pd.Series(Y, index=np.arange(N) + 7)).y.reshape(-1), Y)  # as it stands
    np.testing.assert_array_equal(
        one(NUMBERS.sample(frac=1, random_state=0), y.sample(frac=1, random_state=0)).n_rows, N
    )


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({}, "pass y"),
        ({"y": Y[:-1]}, "1199"),
        ({"y": np.where(np.arange(N) == 5, np.nan, Y)}, "missing"),
        ({"y": np.ma.masked_array(Y, True)}, "masked"),
        ({"y": Y, "qid": np.arange(N)}, "qid"),
        ({"y": Y, "clusters": np.arange(5)}, "clusters has 5"),
        ({"y": Y, "clusters": [None] * N}, "row 0"),
        ({"y": Y, "clusters": np.where(np.arange(N) == 3, np.nan, 1.0)}, "row 3"),
        ({"y": Y, "clusters": np.array(["NaT"] * N, "M8[ns]")}, "row 0"),
        ({"y": Y, "clusters": np.array([1, "1"] * (N // 2), object)}, "several types"),
        ({"y": Y, "base_margin": np.zeros((N, 2))}, "shape"),
        ({"y": Y, "base_margin": np.full(N, np.inf)}, "finite"),
        ({"y": Y, "base_margin": ["x"] * N}, "not numbers"),
    ],
)
def test_what_does_not_fit_the_rows_is_refused(given, word):
    with pytest.raises(DataError, match=word):
        one(NUMBERS, **given)
    with pytest.raises(DataError, match="no rows"):
        one(NUMBERS[:0], Y[:0])


@pytest.mark.parametrize(
    "labels",
    [
        lambda day: day.tolist(),
        lambda day: day.astype(float),
        lambda day: pd.array(day, "Int64"),
        pl.Series,
        lambda day: pa.chunked_array([pa.array(day)]),
        lambda day: day.astype(str),
        lambda day: day.astype(str).astype(object),
        lambda day: day.astype("M8[s]"),
        pd.Categorical,
    ],
)
def test_labels_in_any_container_tell_the_same_rows_apart(labels):
    day = np.arange(N) // 10
    found = one(NUMBERS, Y, clusters=labels(day)).clusters
    assert found.dtype == np.int64 or found.dtype.kind == "U"
    assert len(np.unique(found)) == N // 10
    assert (found[::10] == found[9::10]).all()


def test_a_forest_has_no_margin_before_its_first_tree():
    forest = read_model(RandomForestRegressor(3, random_state=0).fit(np.nan_to_num(NUMBERS), Y))
    with pytest.raises(DataError, match="forest"):
        read_rows(forest, np.nan_to_num(NUMBERS), Y, base_margin=np.zeros(N))


def test_base_margin_by_the_models_rule():
    margin = np.linspace(-1, 1, N)
    for library in ("xgboost", "lightgbm"):
        (rows,) = read_rows(model(library), NUMBERS, Y, base_margin=margin)
        expected = margin if library == "xgboost" else margin + model(library).trees.base
        np.testing.assert_array_equal(rows.start[:, 0], expected)
    booster, data = fitted("xgboost"), xgboost.DMatrix(NUMBERS, base_margin=margin)
    m = model("xgboost")
    (rows,) = read_rows(m, NUMBERS, Y, base_margin=margin[:, None])
    found = kernels.predict(m.trees.forest, rows.table) + rows.start
    np.testing.assert_allclose(found[:, 0], booster.get_booster().predict(data), atol=1e-6)


def test_a_loss_that_is_not_stored_is_asked_for():
    unknown = replace(model("xgboost"), find_loss=(None, "pass objective="))
    with pytest.raises(UnknownParameterError, match="objective"):
        read_rows(unknown, NUMBERS, Y)


def test_a_ranking_loss_needs_its_queries():
    ranker = xgboost.XGBRanker(n_estimators=3).fit(NUMBERS, np.arange(N) % 3, qid=np.arange(N) // 10)
    m = read_model(ranker)
    with pytest.raises(DataError, match="qid"):
        read_rows(m, NUMBERS, np.arange(N) % 3)
    (rows,) = read_rows(m, NUMBERS, np.arange(N) % 3, qid=np.arange(N) // 10)
    assert rows.query.tolist() == (np.arange(N) // 10).tolist()


# -- weights -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scale", [1e-300, 2.0**-3, 1.0, 7.0, 1e300])
def test_the_largest_weight_is_between_a_half_and_one(scale):
    rows = one(NUMBERS, Y, sample_weight=WEIGHT * scale)
    assert 0.5 < rows.weight.max() <= 1
    np.testing.assert_allclose(np.ldexp(rows.weight, rows.weight_exponent), WEIGHT * scale, rtol=1e-15)


def test_parts_of_the_rows_have_the_unit_of_all_rows():
    whole = one(NUMBERS, Y, sample_weight=WEIGHT)
    for part in (slice(0, 7), slice(7, N)):
        some = one(NUMBERS[part], Y[part], sample_weight=WEIGHT[part], largest_weight=WEIGHT.max())
        assert some.weight_exponent == whole.weight_exponent
        np.testing.assert_array_equal(some.weight, whole.weight[part])
    zero = one(NUMBERS[:3], Y[:3], sample_weight=np.zeros(3), largest_weight=2.0)
    assert not zero.weight.any()
    assert one(NUMBERS, Y, largest_weight=4.0).weight.tolist() == [1 / 4] * N
    with pytest.raises(DataError, match="largest_weight"):
        one(NUMBERS, Y, sample_weight=WEIGHT, largest_weight=0.5)


@pytest.mark.parametrize(
    ("weight", "word"),
    [
        (np.zeros(N), "zero in every row"),
        (np.append(np.ones(N - 1), -1), "negative"),
        (np.append(np.ones(N - 1), np.nan), "finite"),
        (np.append(np.ones(N - 1), np.inf), "finite"),
        (np.append(np.ones(N - 1), 1e-8), "2\\^-24"),
        (np.ones(N - 1), "1199"),
        (["x"] * N, "not numbers"),
    ],
)
def test_bad_weights(weight, word):
    with pytest.raises(DataError, match=word):
        one(NUMBERS, Y, sample_weight=weight)


def test_class_weights_are_those_of_training_in_any_part():
    y = np.where(TARGET > 0, "yes", "no")
    given = {"yes": 5.0, "no": 0.5}
    m = read_model(
        lightgbm.LGBMClassifier(n_estimators=3, class_weight=given, verbosity=-1).fit(ALL[:N][list("abcd")], y[:N])
    )
    (rows,) = read_rows(m, NUMBERS, y[N:], sample_weight=WEIGHT)
    expected = WEIGHT * np.where(y[N:] == "yes", 5.0, 0.5)
    np.testing.assert_allclose(np.ldexp(rows.weight, rows.weight_exponent), expected)
    no = np.flatnonzero(y[N:] == "no")
    (some,) = read_rows(m, NUMBERS.iloc[no], y[N:][no], sample_weight=WEIGHT[no], largest_weight=WEIGHT.max())
    assert some.weight_exponent == rows.weight_exponent
    assert needs_all_rows(m) == ""
    balanced = RandomForestClassifier(3, class_weight="balanced").fit(ALL[:N][["a", "c"]], y[:N])
    m = read_model(balanced)
    (rows,) = read_rows(m, NUMBERS[["a", "c"]], y[N:])
    sums = [rows.weight[y[N:] == label].sum() for label in ("yes", "no")]
    np.testing.assert_allclose(sums[0], sums[1])
    assert "class_weight" in needs_all_rows(m)


# -- out of bag, pipelines -----------------------------------------------------------------------------------
def test_out_of_bag_rows_count_for_the_trees_that_did_not_see_them():
    rows, y = ALL[:N][["a", "c", "d"]], TARGET[:N]
    forest = RandomForestRegressor(5, max_depth=3, random_state=0).fit(rows, y)
    (found,) = read_rows(read_model(forest), rows, y, oob=True)
    for tree, seen in enumerate(forest.estimators_samples_):
        assert not found.tree_weight[tree, seen].any()
        np.testing.assert_allclose(found.tree_weight[tree].sum(), N)
    with pytest.raises(UnsupportedModelError, match="bootstrap"):
        one(NUMBERS, Y, oob=True)


@pytest.mark.parametrize("frame", [lambda f: f, pl.from_pandas, pa.Table.from_pandas, lambda f: f.to_numpy()])
def test_pipelines_see_what_they_were_fitted_on(frame):
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), xgboost.XGBRegressor(n_estimators=5))
    pipeline.fit(ALL[:N][list("abcd")], TARGET[:N])
    m = read_model(pipeline)
    found = kernels.predict(m.trees.forest, read_table(m, frame(NUMBERS)))[:, 0] + m.trees.base
    np.testing.assert_allclose(found, pipeline.predict(NUMBERS), atol=1e-6)
    (rows,) = read_rows(m, FRAME, "price")
    np.testing.assert_array_equal(matrix(rows.table), matrix(read_table(m, NUMBERS)))
