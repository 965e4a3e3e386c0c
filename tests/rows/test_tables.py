"""Whatever holds the rows, the model sees the numbers that its own library sees; what cannot be read is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tests.rows.data import NUMBERS, X, fitted, matrix, model, with_categories
from treeinner import kernels
from treeinner.errors import DataError, TreeInnerWarning
from treeinner.rows import Schema, SparseTable, read_table
from treeinner.rows.frames import as_frame, frame_library_of, make_frame, names_of, row_labels_of, to_array
from treeinner.rows.table import make_table

LIBRARIES = ("xgboost", "lightgbm", "catboost", "sklearn")
CONTAINERS = {
    "array": NUMBERS.to_numpy,
    "float32": lambda: NUMBERS.to_numpy(np.float32),
    "Fortran order": lambda: np.asfortranarray(NUMBERS.to_numpy()),
    "other byte order": lambda: NUMBERS.to_numpy().astype(">f8"),
    "longdouble": lambda: NUMBERS.to_numpy(np.longdouble),
    "lists": lambda: NUMBERS.to_numpy().tolist(),
    "objects": lambda: NUMBERS.astype(object).where(NUMBERS.notna(), None).to_numpy(),
    "pandas": lambda: NUMBERS,
    "pandas, another order": lambda: NUMBERS[list("dcba")],
    "pandas, nullable": NUMBERS.convert_dtypes,
    "pandas, Arrow": lambda: NUMBERS.convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda: pl.from_pandas(NUMBERS),
    "polars, lazy": lambda: pl.from_pandas(NUMBERS).lazy(),
    "pyarrow": lambda: pa.Table.from_pandas(NUMBERS),
    "RecordBatch": lambda: pa.RecordBatch.from_pandas(NUMBERS),
    "narwhals": lambda: as_frame(pl.from_pandas(NUMBERS)),
}


def read(rows, **schema):
    schema.setdefault("n_columns", rows.shape[1] if hasattr(rows, "shape") else len(rows[0]))
    return make_table(rows, Schema(**schema))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("container", CONTAINERS)
def test_the_librarys_own_predictions_from_every_container(library, container):
    m = model(library)
    found = kernels.predict(m.trees.forest, read_table(m, CONTAINERS[container]()))[:, 0] + m.trees.base
    np.testing.assert_allclose(found, fitted(library).predict(NUMBERS), atol=1e-6)  # XGBoost adds up in float32


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "sklearn"])
@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows,
        lambda rows: rows.assign(kind=rows["kind"].cat.reorder_categories(["v", "NA", "u"])),
        lambda rows: rows.assign(kind=rows["kind"].cat.add_categories(["never"])),
        lambda rows: rows.assign(kind=rows["kind"].astype(str).where(rows["a"] > 0, None)),
        pl.from_pandas,
        lambda rows: pl.from_pandas(rows).with_columns(pl.col("kind").cast(pl.String)),
        lambda rows: pl.from_pandas(rows).with_columns(pl.col("kind").cast(pl.Enum(["x", "v", "u", "NA"]))),
        pa.Table.from_pandas,
        lambda rows: pa.concat_tables([pa.Table.from_pandas(rows[:9]), pa.Table.from_pandas(rows[9:])]),
    ],
)
def test_categories_go_by_value_whatever_their_order_and_type(library, change):
    m, rows = model(library, categories=True), X.copy()
    changed = change(rows)
    if "kind" in rows and isinstance(changed, pd.DataFrame) and changed["kind"].isna().any():
        rows["kind"] = rows["kind"].where(rows["a"] > 0)
    found = kernels.predict(m.trees.forest, read_table(m, changed))[:, 0] + m.trees.base
    np.testing.assert_allclose(found, with_categories(library).predict(rows), atol=1e-6)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "sklearn"])
def test_unseen_categories_are_as_in_the_library_and_some_known_ones_give_no_warning(library, recwarn):
    m, rows = model(library, categories=True), X.copy()
    rows["kind"] = rows["kind"].astype(str).replace({"v": "new"}).astype("category")
    if library == "xgboost":  # which refuses them
        with pytest.raises(DataError, match="not seen"):
            read_table(m, rows)
        return
    found = kernels.predict(m.trees.forest, read_table(m, rows))[:, 0] + m.trees.base
    np.testing.assert_allclose(found, with_categories(library).predict(rows), atol=1e-6)
    assert not [w for w in recwarn if issubclass(w.category, TreeInnerWarning)]


def test_a_column_without_a_known_category_is_warned_about():
    rows = X.assign(kind=pd.Categorical(np.arange(len(X)) % 3))
    with pytest.warns(TreeInnerWarning, match="kind"):
        table = read_table(model("lightgbm", categories=True), rows)
    assert [(note.code, note.quiet) for note in table.notes] == [("unknown_categories", True)]
    assert len(table.notes[0].text) <= 200


@pytest.mark.parametrize("library", ["lightgbm", "sklearn"])
def test_numbers_in_place_of_words_are_refused(library):
    with pytest.raises(DataError, match="categories"):
        read_table(model(library, categories=True), X.assign(kind=X["kind"].cat.codes))


def test_levels_of_numbers_in_arrays_and_frames():
    schema = {"n_columns": 2, "categorical": (True, False), "levels": ((30, 10, 20), None), "levels_for_arrays": True}
    rows = np.array([[10.0, 1], [30, 2], [np.nan, 3], [20, 4]])
    for container in (rows, rows.tolist(), pd.DataFrame(rows), pl.DataFrame(rows)):
        np.testing.assert_array_equal(matrix(read(container, **schema))[:, 0], [1, 0, np.nan, 2])
    with pytest.raises(DataError, match="not seen"):
        read(np.array([[11.0, 1]]), **schema, unseen="error")
    assert matrix(read(np.array([[11.0, 1], [10, 1]]), **schema, unseen="missing"))[:, 0].tolist()[1] == 1


def test_codes_of_the_frame_where_the_model_stores_no_categories():
    schema = {"n_columns": 1, "categorical": (True,)}
    frame = pd.DataFrame({"k": pd.Categorical(["v", None, "u"], categories=["u", "v"])})
    np.testing.assert_array_equal(matrix(read(frame, **schema))[:, 0], [1, np.nan, 0])
    np.testing.assert_array_equal(matrix(read(pd.DataFrame({"k": [2, 0]}), **schema))[:, 0], [2, 0])
    for words in (frame.astype("string"), pl.from_pandas(frame)):
        with pytest.raises(DataError, match="'k'"):
            read(words, **schema)


# -- numbers -------------------------------------------------------------------------------------------------
@given(
    st.sampled_from(["f2", "f4", "f8", "g", "?", "i1", "i2", "i4", "i8", "u1", "u8", ">f4", ">i2", "O"]), st.booleans()
)
def test_arrays_of_every_type_without_a_copy_where_possible(dtype, backwards):
    rows = np.arange(24).reshape(6, 4).astype(np.dtype(dtype))
    rows = rows[::-2, ::-1] if backwards else rows
    table = read(rows)
    np.testing.assert_array_equal(matrix(table), rows.astype(float))
    if rows.dtype.isnative and dtype not in ("f2", "g", "O"):
        assert np.shares_memory(table.block(0, 3), rows)


def test_frames_are_not_copied():
    frame = pd.DataFrame(np.ones((5, 3)), columns=list("abc"))
    assert np.shares_memory(read(frame).block(0, 5)[0], frame["a"].to_numpy())


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dok", "lil"])
@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_sparse_matrices(kind, absent):
    dense = np.array([[0.0, 2, 0], [0, 0, 0], [5, 0, 7]] * 50)
    rows = sp.csr_matrix(dense).asformat(kind)
    table = read(rows, absent=absent)
    expected = dense if absent == "zero" else np.where(dense == 0, np.nan, dense)
    np.testing.assert_array_equal(matrix(table), expected)


def test_sparse_entries_in_one_place_add_up_and_stored_zeros_are_zeros():
    rows = sp.coo_matrix(([1, 2, 0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2)).tocsr(copy=False)
    twice = sp.csr_matrix((np.array([1, 2], np.int8), np.array([0, 0]), np.array([0, 2, 2])), shape=(2, 2))
    np.testing.assert_array_equal(matrix(read(rows, absent="missing")), [[3, np.nan], [np.nan, 0]])
    assert matrix(read(twice)).tolist() == [[3, 0], [0, 0]]
    assert twice.nnz == 2  # the user's matrix stays as it is


def test_sparse_blocks_are_small_and_xgboosts_own_predictions():
    wide = SparseTable(sp.csr_matrix((1, 10**6)), 0.0)
    assert wide.block_rows == 64
    rows = sp.csr_matrix(NUMBERS.fillna(0.0).to_numpy())
    m = model("xgboost")
    found = kernels.predict(m.trees.forest, read_table(m, rows))[:, 0] + m.trees.base
    np.testing.assert_allclose(found, fitted("xgboost").predict(rows), atol=1e-6)


@pytest.mark.parametrize("missing", [0.0, -999.0, 0.1])
def test_a_number_that_means_missing(missing):
    rows = np.array([[0.0, 1], [-999, 0.1], [3, 4]])
    expected = np.where(rows == missing, np.nan, rows)
    for container in (rows, pd.DataFrame(rows), sp.csr_matrix(rows)):
        absent = "missing" if missing == 0 else "zero"
        np.testing.assert_array_equal(matrix(read(container, missing=missing, absent=absent)), expected)
    assert matrix(read(np.array([[1, 2]], np.int64), missing=2.0)).tolist()[0][0] == 1


def test_columns_of_nulls_are_missing_whatever_their_type():
    table = pa.table({"a": pa.nulls(2), "b": pa.nulls(2, pa.string()), "c": pa.array([None, True])})
    np.testing.assert_array_equal(matrix(read(table)), [[np.nan] * 3, [np.nan, np.nan, 1]])


# -- refused -------------------------------------------------------------------------------------------------
REFUSED = {
    "one dimension": (np.zeros(4), "reshape"),
    "three dimensions": (np.zeros((2, 2, 4)), "two dimensions"),
    "ragged": ([[1, 2], [3]], "table"),
    "no rows": (np.zeros((0, 4)), "no rows"),
    "columns": (np.zeros((3, 5)), "5 columns"),
    "words": ([["a", 1, 2, 3]], "'a'"),
    "words that look like numbers": (np.array([["1", "2", "3", "4"]]), "'1'"),
    "dates": (np.zeros((2, 4), "M8[D]"), "date"),
    "complex": (np.zeros((2, 4), complex), "complex"),
    "a series": (pd.Series([1.0, 2]), "table"),
    "masked": (np.ma.masked_array(np.zeros((2, 4)), True), "filled"),
    "a column of dates": (pd.DataFrame(np.zeros((2, 3))).assign(d=pd.Timestamp(0)), "'d'"),
    "a column of words": (pd.DataFrame(np.zeros((2, 3))).assign(d="x"), "'d'"),
    "a column of categories": (pd.DataFrame(np.zeros((2, 3))).assign(d=pd.Categorical(["x", "y"])), "'d'"),
    "a column of lists": (pl.DataFrame({"a": [1], "b": [1], "c": [1], "d": [[1]]}), "'d'"),
    "duplicates": (pd.DataFrame(np.zeros((2, 4)), columns=list("aabb")), "duplicate"),
    "a damaged matrix": (sp.csr_matrix(np.ones((2, 4))), "damaged"),
    "a sparse matrix of complex numbers": (sp.csr_matrix(np.ones((2, 4), complex)), "real"),
}
REFUSED["a damaged matrix"][0].indices[0] = 99


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_of_numbers_is_refused(name):
    rows, word = REFUSED[name]
    with pytest.raises(DataError, match=word):
        make_table(rows, Schema(n_columns=4))


def test_names_that_do_not_fit():
    names = {"n_columns": 2, "names": ("width", "height")}
    with pytest.raises(DataError, match="'heigth' meant"):
        read(pd.DataFrame({"width": [1.0], "heigth": [1.0]}), **names)
    more = pd.DataFrame({"height": [1.0], "more": [3.0], "width": [2.0]})  # by name, whatever else there is
    assert matrix(read(more, **names)).tolist() == [[2, 1]]
    blank = pd.DataFrame({"my col": [1.0], "b": [2.0]})
    assert matrix(read(blank, n_columns=2, names=("b", "my_col"))).tolist() == [[2, 1]]


@pytest.mark.parametrize("bad", [np.inf, 1e300, np.nan])
def test_values_that_the_library_refuses_are_refused_with_their_column(bad):
    rows = NUMBERS.fillna(0.0)
    rows.loc[3, "c"] = bad
    if not np.isnan(bad):
        with pytest.raises(ValueError, match="infinity"):
            fitted("forest").predict(rows)
        with pytest.raises(DataError, match="'c'"):
            read_table(model("forest"), rows)
        return
    read_table(model("forest"), rows)  # forests take missing values since scikit-learn 1.4
    with pytest.raises(DataError, match="missing"):
        read(rows, allow_missing=False)


def test_containers_of_the_libraries_are_refused_by_name():
    import catboost
    import lightgbm
    import xgboost

    rows = NUMBERS.to_numpy()
    for container in (xgboost.DMatrix(rows), lightgbm.Dataset(rows), catboost.Pool(rows)):
        with pytest.raises(DataError, match=type(container).__name__):
            read_table(model("xgboost"), container)
    dask = pytest.importorskip("dask.dataframe")
    with pytest.raises(DataError, match="compute"):
        read_table(model("xgboost"), dask.from_pandas(NUMBERS, npartitions=2))


# -- for others ----------------------------------------------------------------------------------------------
def test_frames_for_results():
    columns = {"a": np.arange(3.0), "b": ["x", "y", "z"]}
    for library, kind in {
        "pandas": pd.DataFrame,
        "polars": pl.DataFrame,
        "pyarrow": pa.Table,
        "": pd.DataFrame,
    }.items():
        frame = make_frame(columns, library=library, row_labels=[5, 6, 7])
        assert isinstance(frame, kind)
        assert frame_library_of(frame) == library or not library
        assert names_of(frame) == ("a", "b")
    assert list(row_labels_of(make_frame(columns, row_labels=[5, 6, 7]))) == [5, 6, 7]
    assert names_of(np.zeros((2, 2))) is None
    assert frame_library_of(np.zeros((2, 2))) == ""
    np.testing.assert_array_equal(to_array(pd.DataFrame({"b c": [1], "a": [2]}), ["a", "b_c"]), [[2, 1]])
    np.testing.assert_array_equal(to_array(sp.eye(2), ["a", "b"]), np.eye(2))
