"""Hostile tables: each case with what it means, and where a library's own predict reads something else from it.

A case is a table and the plain one that it stands for. Ours must give what the library predicts for the plain table;
and where the library accepts the case itself, it must agree, unless READ_OTHERWISE says why it does not. Other cases
are refused by name. docs/guide/bad-input.md shows this table to users.
"""

import mmap
from dataclasses import replace
from pathlib import Path

import catboost as cb
import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import xgboost as xgb
from sklearn import ensemble as ske

import treeinner as ti
from tests.models import Models

N = 60
rng = np.random.default_rng(2)
Z = rng.normal(size=(N, 3)).astype(np.float32).astype(np.float64)
Z[:5] = 0.0
Y = Z[:, 0] + np.abs(Z[:, 1])
GAPS = np.where(rng.random((N, 3)) < 0.1, np.nan, Z)
SMALL = {"n_estimators": 4, "max_depth": 3, "n_jobs": 1}
CAT = {"iterations": 4, "depth": 3, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
MAKERS = {
    "xgboost": lambda X: xgb.XGBRegressor(**SMALL).fit(X, Y),
    "lightgbm": lambda X: lgb.LGBMRegressor(**SMALL, verbosity=-1, min_child_samples=5).fit(X, Y),
    "catboost": lambda X: cb.CatBoostRegressor(**CAT).fit(X, Y),
    "hist": lambda X: ske.HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=5).fit(X, Y),
    "forest": lambda X: ske.RandomForestRegressor(n_estimators=3, max_depth=3, random_state=0).fit(X, Y),
}
BIG24 = 2**24 + np.arange(N)[:, None] * np.ones((1, 3), np.int64)
BIG53 = 2**53 + np.arange(N)[:, None] * np.ones((1, 3), np.int64)
TINY = np.arange(N)[:, None] * np.full((1, 3), 5e-324)
MODELS = Models(
    **{name: lambda make=make: make(GAPS) for name, make in MAKERS.items()},
    **{f"{name} {size}": lambda make=make, X=X: make(X)
       for name, make in MAKERS.items() for size, X in (("24", BIG24), ("53", BIG53), ("tiny", TINY))},
)  # fmt: skip
NEAR = 1e-5  # predictions of size 1, of which XGBoost and LightGBM add some terms in float32


def put(value):
    """The table with a value in one row of every column."""
    out = GAPS.copy()
    out[[7, 9, 11], [0, 1, 2]] = value
    return out


def read_only():
    out = GAPS.copy()
    out.setflags(write=False)
    return out


MASK = np.arange(N)[:, None] % 3 == np.arange(3)
FULL = Z[5:]  # no zeros, which a sparse matrix may store or leave out
M = len(FULL)
STARTS = np.arange(M + 1, dtype=np.int32)
HALVES = sp.csr_matrix((np.repeat(FULL[:, 0] / 2, 2), np.zeros(2 * M, np.int32), 2 * STARTS), (M, 3))
FIRST = sp.csr_matrix((FULL[:, 0], np.zeros(M, np.int32), STARTS), (M, 3))
UNSORTED = sp.csr_matrix((FULL[:, ::-1].ravel(), np.tile([2, 1, 0], M).astype(np.int32), 3 * STARTS), (M, 3))
OTHER_ORDER = sp.csr_matrix((FULL[:, 0].astype(">f8"), FIRST.indices, STARTS), (M, 3))
UNALIGNED = np.frombuffer(b"x" + GAPS.tobytes(), np.uint8)[1:].view(np.float64).reshape(N, 3)

# Case -> the table, and the plain one that it means.
MEANS = {
    "NaN": (put(np.nan), put(np.nan)),
    "only NaN": (np.full((4, 3), np.nan), np.full((4, 3), np.nan)),
    "-0.0": (put(-0.0), put(0.0)),
    "denormals": (put(5e-324), put(5e-324)),
    "object": (GAPS.astype(object), GAPS),
    "object with None": (np.where(np.isnan(GAPS), None, GAPS), GAPS),
    "masked": (np.ma.masked_array(Z, MASK), np.where(MASK, np.nan, Z)),
    "masked integers": (np.ma.masked_array(np.arange(3 * N).reshape(N, 3), MASK),
                        np.where(MASK, np.nan, np.arange(3.0 * N).reshape(N, 3))),
    "masked, nothing hidden": (np.ma.masked_array(GAPS), GAPS),
    "read-only": (read_only(), GAPS),
    "negative strides": (GAPS[::-1, ::-1], np.ascontiguousarray(GAPS[::-1, ::-1])),
    "Fortran order": (np.asfortranarray(GAPS), GAPS),
    "unaligned": (UNALIGNED, GAPS),
    "big-endian": (GAPS.astype(">f8"), GAPS),
    "big-endian frame": (pd.DataFrame(GAPS.astype(">f8")), GAPS),
    "float16": (GAPS.astype(np.float16), GAPS.astype(np.float16).astype(np.float64)),
    "long double": (GAPS.astype(np.longdouble), GAPS),
    "one row": (GAPS[6:7], GAPS[6:7]),
    "sparse": (sp.csc_matrix(FULL), sp.csr_matrix(FULL)),
    "sparse, unsorted": (UNSORTED, sp.csr_matrix(FULL)),
    "sparse, duplicates": (HALVES, FIRST),
    "sparse, big-endian": (OTHER_ORDER, FIRST),
}  # fmt: skip
MASKS = "libraries read what is under the mask"
ORDER = "XGBoost reads the bytes as if they were in the machine's order"
LAST = "takes one of several entries in the same place, where scipy adds them up"
READ_OTHERWISE = {
    **{(case, library): MASKS for case in ("masked", "masked integers") for library in MAKERS},
    **{(case, "xgboost"): ORDER for case in ("big-endian", "big-endian frame", "sparse, big-endian")},
    **{("sparse, duplicates", library): LAST for library in ("xgboost", "lightgbm")},
}


def predicted(library, model, plain):
    """What the library predicts for a plain table."""
    if library == "xgboost" and sp.issparse(plain):  # absent entries are missing
        plain = np.where(plain.toarray() == 0, np.nan, plain.toarray())
    return model.predict(plain.toarray() if sp.issparse(plain) else plain)


def check(library, model, table, plain, case):
    expected = predicted(library, model, plain)
    m = ti.read_model(model)
    np.testing.assert_allclose(m.predict(table), expected, rtol=0, atol=NEAR)
    a = ti.attribute(m, table, method="saabas")
    np.testing.assert_allclose(a.base_values + a.values.sum(axis=1), expected, rtol=0, atol=NEAR)
    try:
        own = model.predict(table)
    except Exception:  # whatever the library says to it
        return
    agrees = np.allclose(own, expected, rtol=0, atol=NEAR)
    assert agrees != ((case, library) in READ_OTHERWISE)


@pytest.mark.filterwarnings("ignore")  # of the libraries
@pytest.mark.parametrize("library", MAKERS)
@pytest.mark.parametrize("case", MEANS)
def test_what_a_table_means(case, library):
    check(library, MODELS[library], *MEANS[case], case)


@pytest.mark.parametrize("library", MAKERS)
@pytest.mark.parametrize(("size", "table"), [
    ("24", BIG24), ("24", BIG24.astype(np.uint64)), ("53", BIG53), ("53", pd.DataFrame(BIG53)), ("tiny", TINY),
], ids=["2^24", "2^24 unsigned", "2^53", "2^53 frame", "denormal"])  # fmt: skip
def test_numbers_that_round(library, size, table):
    """Thresholds between neighbours that float32 or float64 cannot tell apart: routed as the library routes."""
    if library == "catboost" and size != "24":
        pytest.skip("CatBoost, in float32, sees a constant and does not fit")
    model = MODELS[f"{library} {size}"]
    np.testing.assert_allclose(ti.read_model(model).predict(table), model.predict(table), rtol=0, atol=NEAR)


def damaged(position, index):
    out = sp.csr_matrix(Z)
    out.indices[position] = index
    return out


SURROGATE = pd.Index(["a\ud800", "b", "c"], dtype=object)  # pandas itself refuses it in its string type
REFUSED = {
    "strings that look like numbers": (Z.astype(str), "Column 0 holds the string '0.0', but the model needs numbers"),
    "the same in a frame": (pd.DataFrame(Z.astype(str)), "Column '0' holds the string '0.0'"),
    "complex": (Z.astype(complex), "complex numbers"),
    "masked complex": (np.ma.masked_array(Z.astype(complex), MASK), "complex"),
    "dates": (np.zeros((4, 3), "M8[s]"), "dates"),
    "zero rows": (Z[:0], "X has no rows"),
    "zero columns": (Z[:, :0], "X has 0 columns, but the model was trained on 3"),
    "duplicate names": (pd.DataFrame(Z, columns=["a", "b", "a"]), "duplicate column names: 'a'"),
    "names that are printed alike": (pd.DataFrame(Z, columns=pd.Index(["a\ud800", "a\\ud800", "c"], dtype=object)),
                                     "duplicate column names"),
    "sparse, negative index": (damaged(4, -7), "damaged sparse matrix: it has an entry in column -7 of 3"),
    "sparse, index out of range": (damaged(4, 77), "damaged sparse matrix: it has an entry in column 77 of 3"),
}  # fmt: skip


@pytest.mark.parametrize("library", MAKERS)
@pytest.mark.parametrize("case", REFUSED)
def test_tables_refused_by_name(case, library):
    table, message = REFUSED[case]
    with pytest.raises(ti.DataError, match=message):
        ti.read_model(MODELS[library]).predict(table)
    if case != "zero rows":  # which is a batch without effect, and refused as such
        with pytest.raises(ti.DataError, match=message):
            ti.importance(MODELS[library], table, Y[: table.shape[0]])


# -- what scikit-learn's trees refuse ------------------------------------------------------------------------
@pytest.mark.parametrize(("value", "message"), [(np.inf, "infinite value"), (-1e39, "beyond the range of float32")])
def test_values_that_trees_refuse(value, message):
    with pytest.raises(ValueError, match="infinity or a value too large"):
        MODELS["forest"].predict(put(value))
    with pytest.raises(ti.DataError, match=f"Column 0 of X holds .*{message}"):
        ti.read_model(MODELS["forest"]).predict(put(value))
    for library in ("xgboost", "lightgbm", "hist"):
        model = MODELS[library]
        np.testing.assert_allclose(ti.read_model(model).predict(put(value)), model.predict(put(value)), atol=NEAR)


def test_missing_values_where_the_estimator_takes_none():
    model = ske.GradientBoostingRegressor(n_estimators=2, max_depth=2).fit(Z, Y)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(GAPS)
    for table in (GAPS, np.ma.masked_array(Z, MASK)):
        with pytest.raises(ti.DataError, match="holds a missing value, which the model's own library refuses; impute"):
            ti.importance(model, table, Y)


# -- names ---------------------------------------------------------------------------------------------------
def test_lone_surrogates_can_be_printed_and_written(tmp_path):
    frame = pd.DataFrame(Z, columns=SURROGATE)
    model = MAKERS["forest"](frame)  # the other libraries refuse to fit
    imp = ti.importance(model, frame, Y, feature_groups={"\ud801": ["b", "c"]})
    assert imp.feature_names == ("a\\ud800", "\\ud801")
    (tmp_path / "imp.txt").write_text(str(imp), encoding="utf-8")
    assert list(imp.to_frame()["feature"]) == ["a\\ud800", "\\ud801"]
    np.testing.assert_allclose(ti.read_model(model).predict(frame), model.predict(frame), rtol=0, atol=NEAR)
    assert ti.read_model(model, feature_names=["\ud800", "b", "c"]).feature_names[0] == "\\ud800"


@pytest.mark.parametrize(("library", "names"), [
    ("xgboost", pd.MultiIndex.from_tuples([("a", "x"), ("b", "y"), ("b", "z")])),
    ("catboost", pd.Index(["", "b", "c"])),
])  # fmt: skip
def test_names_as_the_library_spells_them(library, names):
    frame = pd.DataFrame(Z, columns=names)
    model = MAKERS[library](frame)
    np.testing.assert_allclose(ti.read_model(model).predict(frame), model.predict(frame), rtol=0, atol=NEAR)


# -- categories ----------------------------------------------------------------------------------------------
LEVELS = np.array(list("abcdef"))[np.arange(N) % 6]


def levels(values, known=None):
    return pd.DataFrame({"c": pd.Categorical(values, categories=known), "x": Z[: len(values), 1]})


def test_unseen_categories():
    table, target = levels(LEVELS), Y + (np.arange(N) % 6)
    unseen = levels(["a", "z", "c", "f"])
    hist = ske.HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=5, categorical_features="from_dtype")
    light = lgb.LGBMRegressor(**SMALL, verbosity=-1, min_child_samples=5, min_data_per_group=5)
    for model in (hist.fit(table, target), light.fit(table, target)):  # as missing values, in both
        np.testing.assert_allclose(ti.read_model(model).predict(unseen), model.predict(unseen), rtol=0, atol=NEAR)
    cat = cb.CatBoostRegressor(**CAT, cat_features=["c"]).fit(table, target)
    a = ti.attribute(cat, unseen, method="saabas")
    np.testing.assert_allclose(a.base_values + a.values.sum(axis=1), cat.predict(unseen), rtol=0, atol=NEAR)
    model = xgb.XGBRegressor(**SMALL, enable_categorical=True).fit(table, target)
    with pytest.raises(ti.DataError, match=r"categories that the model has not seen in training: 'z'; it knows 'a'"):
        ti.read_model(model).predict(unseen)


def test_categories_of_polars_for_catboost():
    """CatBoost 1.2 itself fails on them, or crashes, so it is asked about the same levels in pandas."""
    model = cb.CatBoostRegressor(**CAT, cat_features=["c"]).fit(levels(LEVELS), Y)
    table = pl.DataFrame({"c": pl.Series(LEVELS[:12], dtype=pl.Categorical), "x": Z[:12, 1]})
    a = ti.attribute(model, table, method="saabas")
    expected = model.predict(levels(LEVELS[:12]))
    np.testing.assert_allclose(a.base_values + a.values.sum(axis=1), expected, rtol=0, atol=NEAR)


# -- y and weights -------------------------------------------------------------------------------------------
def test_masks_of_what_comes_with_the_rows():
    """numpy drops a mask in silence, and what lies beneath it would be scored."""
    hidden = np.ma.masked_array(np.ones(N), np.arange(N) == 5)
    for given in ("sample_weight", "base_margin", "clusters"):
        with pytest.raises(ti.DataError, match=f"^{given} is masked in 1 places, first in row 5; drop those rows"):
            ti.importance(MODELS["xgboost"], GAPS, Y, **{given: hidden})
    with pytest.raises(ti.DataError, match=r"^y is masked in 1 places, first in row 5"):
        ti.importance(MODELS["xgboost"], GAPS, np.ma.masked_array(Y, np.arange(N) == 5))


# -- 2^31 elements -------------------------------------------------------------------------------------------
def test_more_elements_than_an_int32_counts(tmp_path):
    """A file of 2 GB that is nearly all hole: 2^31 + 2^18 bytes, of which some pages are read."""
    wide = 2**17
    e = ti.read_model(MODELS["xgboost"]).ensemble
    column = np.array([5, 77, wide - 3])
    schema = replace(e.schema, n_columns=wide, names=None)
    far = replace(e, feature=np.where(e.feature >= 0, column[e.feature], -1), schema=schema, feature_names=None)
    try:
        with (tmp_path / "rows").open("w+b") as file:
            file.truncate((2**14 + 2) * wide)
            memory = mmap.mmap(file.fileno(), 0)
    except OSError as error:
        pytest.skip(f"no file of 2 GB here: {error}")
    if hasattr(memory, "madvise"):
        memory.madvise(mmap.MADV_RANDOM)  # else every page that is read brings its neighbours
    table = np.frombuffer(memory, np.uint8).reshape(-1, wide)
    rows = [0, 1, 2**14 - 1, 2**14, 2**14 + 1]
    few = np.array([[0, 1, 2], [2, 0, 1], [3, 0, 0], [1, 1, 1], [2, 2, 0]], np.uint8)
    table[np.ix_(rows, column)] = few
    np.testing.assert_array_equal(far.predict(table, n_jobs=1)[rows], e.predict(few))


# -- the page that shows this table --------------------------------------------------------------------------
@pytest.mark.parametrize("case", [*MEANS, *REFUSED])
def test_the_guide_names_every_case(case):
    guide = Path(__file__).parents[2] / "docs/guide/bad-input.md"
    assert case in guide.read_text(encoding="utf-8")
