"""Laws of tables: whatever holds the numbers, the blocks are the numbers; no copies without need."""

import sys

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from treeinner.errors import DataError
from treeinner.tables import ColumnTable, DenseTable, Schema, SparseTable, read_table
from treeinner.tables.columns import KERNEL_DTYPES
from treeinner.tables.frames import frame_library_of, names_of, row_labels_of, to_array

NAN = np.nan


def matrix(table, step=None):
    """All blocks of a table, one below the other, as float64."""
    blocks = []
    for start in range(0, table.n_rows, step or table.n_rows):
        block = table.block(start, min(start + (step or table.n_rows), table.n_rows))
        if isinstance(block, np.ndarray):
            assert block.dtype in KERNEL_DTYPES
            blocks.append(block.astype(np.float64))
        else:
            assert all(column.dtype in KERNEL_DTYPES and column.ndim == 1 for column in block)
            blocks.append(np.column_stack([column.astype(np.float64) for column in block]))
    return np.concatenate(blocks)


def read(X, **schema):
    schema.setdefault("n_columns", X.shape[1] if hasattr(X, "shape") else len(X[0]))
    return read_table(X, Schema(**schema))


# -- arrays --------------------------------------------------------------------------------------------------
DTYPES = [
    *("f2", "f4", "f8", "g", "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"),
    *(">f2", ">f4", ">f8", ">i2", ">i4", ">i8", ">u2", ">u4", ">u8"),
    "O",
]


@st.composite
def arrays(draw):
    """A small array of any dtype, order and stride, and the float64 matrix it stands for."""
    rows, columns = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    low = 0 if dtype.kind in "u?b" else -100
    high = 1 if dtype.kind == "b" else 100
    numbers = draw(st.lists(st.integers(low, high), min_size=rows * columns * 4, max_size=rows * columns * 4))
    big = np.array(numbers, dtype).reshape(2 * rows, 2 * columns)
    if draw(st.booleans()):
        big = np.asfortranarray(big)
    kind = draw(st.sampled_from(["every other", "backwards", "slice", "transposed", "repeated row", "repeated column"]))
    view = {
        "every other": lambda: big[::2, ::2],
        "backwards": lambda: big[::-1, ::-1][:rows, :columns],
        "slice": lambda: big[1 : rows + 1, :columns],
        "transposed": lambda: big.T,
        "repeated row": lambda: np.broadcast_to(big[:1], (rows, big.shape[1])),
        "repeated column": lambda: np.broadcast_to(big[:, :1], (len(big), columns)),
    }[kind]()
    return view, view.astype(np.float64)


@given(arrays(), st.integers(1, 5))
def test_blocks_of_an_array_are_its_numbers(case, step):
    X, expected = case
    table = read(X)
    assert table.n_rows == len(X)
    np.testing.assert_array_equal(matrix(table, step), expected)
    if X.dtype in KERNEL_DTYPES:
        assert np.shares_memory(table.block(0, len(X)), X)
        assert table.block(0, len(X)).strides == X.strides


@given(arrays(), st.sampled_from([0.0, 1.0, -7.0, 100.0]), st.integers(1, 5))
def test_a_number_that_means_missing(case, missing, step):
    X, expected = case
    expected = np.where(expected == missing, NAN, expected)
    before = X.copy()
    np.testing.assert_array_equal(matrix(read(X, missing=missing), step), expected)
    np.testing.assert_array_equal(X, before)


def test_missing_number_is_compared_in_float32_as_xgboost_does():
    # -999.99 is not a float32: neither column equals it in float64 after a round trip through float32.
    for X in (np.array([[-999.99, 1.0]]), np.array([[-999.99, 1.0]], np.float32)):
        np.testing.assert_array_equal(matrix(read(X, missing=-999.99)), [[NAN, 1.0]])


def test_missing_number_does_not_copy_blocks_without_it():
    X = np.arange(20.0).reshape(10, 2)
    table = read(X, missing=3.0)
    assert not np.shares_memory(table.block(0, 5), X)
    assert np.shares_memory(table.block(5, 10), X)


def test_lists_matrices_masks_and_memory_maps(tmp_path):
    expected = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(matrix(read([[1, 2], [3, 4]])), expected)
    np.testing.assert_array_equal(matrix(read([(1, 2.0), (3, 4.0)])), expected)
    np.testing.assert_array_equal(matrix(read(np.asmatrix(expected))), expected)
    masked = np.ma.MaskedArray(expected.astype(int), [[0, 1], [0, 0]])
    np.testing.assert_array_equal(matrix(read(masked)), [[1, NAN], [3, 4]])
    np.save(tmp_path / "x.npy", expected)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.shares_memory(read(mapped).block(0, 2), mapped)
    np.testing.assert_array_equal(matrix(read([[1, None], [True, np.float32(4)]])), [[1, NAN], [1, 4]])


def test_objects_with_numbers_are_converted():
    from decimal import Decimal

    X = np.array([[1, None], [pd.NA, Decimal("2.5")], [np.int8(3), NAN]], dtype=object)
    np.testing.assert_array_equal(matrix(read(X)), [[1, NAN], [NAN, 2.5], [3, NAN]])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), r"shape \(3,\).*reshape"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (pd.Series([1.0]), r"shape \(1,\).*reshape"),
        (pl.Series([1.0]), r"shape \(1,\).*reshape"),
        (np.zeros((0, 2)), "no rows"),
        (pd.DataFrame({"a": [], "b": []}, dtype=float), "no rows"),
        (sp.csr_matrix((0, 2)), "no rows"),
        (np.zeros((2, 3)), "X has 3 columns, but the model was trained on 2; pass the training columns"),
        (pd.DataFrame(np.zeros((2, 3))), "X has 3 columns, but the model was trained on 2"),
        (pl.LazyFrame({"a": [1.0]}), "X has 1 columns, but the model was trained on 2"),
        (sp.csc_matrix((2, 3)), "X has 3 columns, but the model was trained on 2"),
        ([[1.0, 2.0], [3.0]], "list that does not make a table"),
        ([[1.0, "red"]], r"Column 1 holds the string 'red', but the model needs numbers there; prepare"),
        (np.array([[1.0, "red"]]), r"Column 0 holds the string"),
        (np.array([["1.5", "2"]], dtype=object), r"Column 0 holds the string '1.5'"),
        (np.array([[1, np.datetime64("2020-01-01")]], dtype=object), "Column 1 holds a date"),
        (np.zeros((1, 2), "M8[s]"), r"Column 0 holds dates \(datetime64\[s\]\)"),
        (np.zeros((1, 2), "m8[s]"), "time spans"),
        (np.zeros((1, 2), complex), "complex numbers"),
        (np.zeros(2, [("a", float), ("b", float)]), "structured array"),
        ({"a": [1.0], "b": [2.0]}, "X is a dict"),
        ("x.csv", "X is a str"),
        (object(), "X is of type object, expected a table"),
        (sp.csr_matrix((2, 2), dtype=complex), "sparse matrix of complex128"),
    ],
)
def test_what_is_not_a_table_of_numbers_is_refused(X, message):
    with pytest.raises(DataError, match=message):
        read_table(X, Schema(n_columns=2))


@pytest.mark.skipif(sp.coo_array(np.ones(2)).ndim != 1, reason="this scipy has no sparse arrays of one dimension")
def test_sparse_array_of_one_dimension():
    with pytest.raises(DataError, match=r"shape \(2,\).*reshape"):
        read_table(sp.coo_array(np.ones(2)), Schema(n_columns=2))


def test_names_of_the_model_are_in_messages_about_arrays():
    with pytest.raises(DataError, match=r"Column 1 \('colour'\) holds the string 'red'"):
        read_table([[1.0, "red"]], Schema(n_columns=2, names=("size", "colour")))


def test_data_containers_of_the_libraries_are_refused_by_name():
    import catboost
    import lightgbm
    import xgboost

    X = np.zeros((3, 2))
    containers = {
        "xgboost.DMatrix": [xgboost.DMatrix(X), xgboost.QuantileDMatrix(X, nthread=1)],
        "lightgbm.Dataset": [lightgbm.Dataset(X)],
        "catboost.Pool": [catboost.Pool(X)],
    }
    for name, examples in containers.items():
        for example in examples:
            with pytest.raises(DataError, match=f"X is of type {name}; pass the array or data frame"):
                read_table(example, Schema(n_columns=2))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            "dask.dataframe.dask_expr._collection",
            "X is a dask DataFrame, whose rows are not in memory; use treeinner.dask.importance",
        ),
        ("dask.array.core", r"dask DataFrame.*treeinner\.dask\.attribute, or pass X\.compute"),
        (
            "pyspark.sql.connect.dataframe",
            r"X is a pyspark DataFrame.*use treeinner\.spark\.importance.*pass X\.toPandas\(\)",
        ),
    ],
)
def test_distributed_frames_are_refused_with_what_to_pass(module, message):
    kind = type("DataFrame", (), {"__module__": module})
    with pytest.raises(DataError, match=message):
        read_table(type("Mine", (kind,), {})(), Schema(n_columns=2))


def test_external_schema_says_what_to_call():
    with pytest.raises(DataError, match=r"CatBoost model object.*ti\.attribute\(model, X\)"):
        read_table(np.zeros((1, 2)), Schema(n_columns=2, external="catboost"))


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinities(bad):
    X = np.ones((300, 3))
    X[250, 1] = bad
    holders = [X, pd.DataFrame(X), pl.DataFrame(X), sp.csr_matrix(X), sp.csc_matrix(X), X.astype(np.float16)]
    for holder in holders:
        np.testing.assert_array_equal(matrix(read(holder)), X)
        with pytest.raises(DataError, match="Column 1 of X holds an infinite value"):
            read(holder, allow_infinite=False)
    X[250, 1] = NAN
    read(X, allow_infinite=False)


# -- data frames ---------------------------------------------------------------------------------------------
def frames():
    """The same numbers in every frame library and storage."""
    plain = {"f": [1.5, 2.5, NAN], "i": [1, 2, 3], "b": [True, False, True]}
    whole = pd.DataFrame(plain)
    yield "pandas", whole
    yield "pandas", whole.convert_dtypes()
    yield "pandas", whole.convert_dtypes(dtype_backend="pyarrow")
    yield "pandas", whole.astype(object)
    yield "pandas", whole.astype(float)
    yield "polars", pl.DataFrame(plain)
    yield "polars", pl.DataFrame(plain, nan_to_null=True)
    yield "polars", pl.LazyFrame(plain)
    yield "pyarrow", pa.table(plain)
    yield "pyarrow", pa.concat_tables([pa.table(plain).slice(0, 1), pa.table(plain).slice(1)])
    yield "pyarrow", pa.RecordBatch.from_pydict(plain)
    yield "polars", nw.from_native(pl.DataFrame(plain))


@pytest.mark.parametrize(("library", "frame"), list(frames()))
@pytest.mark.parametrize("names", [None, ("f", "i", "b"), ("b", "f", "i")])
def test_frames_of_every_library_hold_the_same_numbers(library, frame, names):
    expected = np.array([[1.5, 1, 1], [2.5, 2, 0], [NAN, 3, 1]])
    if names is not None:
        expected = expected[:, ["fib".index(name) for name in names]]
    table = read_table(frame, Schema(n_columns=3, names=names))
    np.testing.assert_array_equal(matrix(table, 2), expected)
    assert table.frame_library == frame_library_of(frame) == library
    assert names_of(frame) == ("f", "i", "b")


@pytest.mark.parametrize("dtype", ["Int8", "Int64", "UInt16", "Float32", "Float64", "boolean"])
@pytest.mark.parametrize("backend", ["", "[pyarrow]"])
def test_pandas_nullable_columns(dtype, backend):
    arrow = {"Int8": "int8", "Int64": "int64", "UInt16": "uint16", "Float32": "float", "Float64": "double"}
    name = arrow.get(dtype, "bool") + backend if backend else dtype
    frame = pd.DataFrame({"a": pd.array([1, None, 0], dtype=name), "b": pd.array([1, 1, 0], dtype=name)})
    np.testing.assert_array_equal(matrix(read(frame)), [[1, 1], [NAN, 1], [0, 0]])


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt64, pl.Int128, pl.Float32, pl.Boolean, pl.Decimal(10, 2), pl.Null])
def test_polars_nulls(dtype):
    values = [None] * 3 if dtype == pl.Null else [True, None, False] if dtype == pl.Boolean else [1, None, 0]
    frame = pl.DataFrame({"a": pl.Series(values).cast(dtype)})
    expected = [[NAN]] * 3 if dtype == pl.Null else [[1], [NAN], [0]]
    np.testing.assert_array_equal(matrix(read(frame)), expected)
    if dtype != pl.Int128:  # Arrow has no such type
        np.testing.assert_array_equal(matrix(read(frame.to_arrow())), expected)


def test_frames_are_not_copied():
    X = np.arange(12.0).reshape(4, 3)
    frame = pd.DataFrame(X, columns=list("abc"))
    table = read_table(frame, Schema(n_columns=3, names=("c", "a", "b")))
    assert isinstance(table, ColumnTable)
    assert all(np.shares_memory(column, frame.to_numpy()) for column in table.block(0, 4))
    series = pl.Series("a", X[:, 0])
    assert np.shares_memory(read(pl.DataFrame([series])).block(1, 3)[0], series.to_numpy())
    arrow = pa.table({"a": X[:, 0].copy()})
    assert np.shares_memory(read(arrow).block(1, 3)[0], arrow["a"].chunk(0).to_numpy())


def test_row_labels_come_from_pandas_alone():
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=["x", "y"])
    assert list(row_labels_of(frame)) == ["x", "y"]
    for other in (pl.DataFrame({"a": [1.0]}), np.zeros((1, 1)), sp.csr_matrix(np.ones((1, 1)))):
        assert row_labels_of(other) is None
    assert names_of(np.zeros((1, 1))) is None
    assert frame_library_of(np.zeros((1, 1))) == ""
    assert names_of(pd.Series([1.0])) is None


def test_names_that_do_not_fit():
    schema = Schema(n_columns=3, names=("a", "b", "1"))
    np.testing.assert_array_equal(matrix(read_table(pd.DataFrame({1: [3], "b": [2], "a": [1]}), schema)), [[1, 2, 3]])
    for make in (pd.DataFrame, pl.DataFrame, pa.table, pl.LazyFrame):
        with pytest.raises(DataError, match=r"lacks 'b', '1' and has 'c' besides.*by name; their order"):
            read_table(make({"a": [1], "c": [1]}), schema)
        with pytest.raises(DataError, match="it has 'd' besides"):
            read_table(make({"a": [1], "b": [1], "1": [2], "d": [2]}), schema)
    many = Schema(n_columns=30, names=tuple(f"n{i}" for i in range(30)))
    with pytest.raises(DataError, match="'n9' and 20 more"):
        read_table(pd.DataFrame({"x": [1.0]}), many)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(np.zeros((1, 3)), columns=["a", "b", "a"]),
        pd.DataFrame(np.zeros((1, 3)), columns=[1, "b", "1"]),
        pa.table([pa.array([1.0])] * 3, names=["a", "b", "a"]),
    ],
)
@pytest.mark.parametrize("names", [None, ("a", "b", "c")])
def test_duplicated_names(frame, names):
    with pytest.raises(DataError, match=r"duplicate column names: '[a1]'"):
        read_table(frame, Schema(n_columns=3, names=names))


def test_columns_that_hold_no_numbers_are_refused_by_name():
    dates = pd.date_range("2020", periods=2)
    for frame in (
        pd.DataFrame({"when": dates}),
        pl.DataFrame({"when": pl.Series(dates)}),
        pa.table({"when": dates}),
    ):
        with pytest.raises(DataError, match="Column 'when' holds Datetime"):
            read(frame, n_columns=1)
    with pytest.raises(DataError, match="Column 'when' holds a Period"):
        read(pd.DataFrame({"when": pd.period_range("2020", periods=2)}))
    with pytest.raises(DataError, match="Column 'l' holds List"):
        read(pl.DataFrame({"l": [[1.0], [2.0]]}))
    words = {"w": [None, "red"]}
    for frame in (
        pd.DataFrame(words),
        pl.DataFrame(words),
        pa.table(words),
        pd.DataFrame(words, dtype="category"),
    ):
        with pytest.raises(DataError, match=r"Column 'w' holds (the string 'red', but|categories, but the model was)"):
            read(frame, n_columns=1)
    with pytest.raises(DataError, match="Column 'w' holds the string 'red'"):
        read(pd.DataFrame({"w": [1, "red"]}, dtype=object))


def test_columns_of_nulls_are_missing_whatever_their_type():
    empty = [None, None]
    for schema in (Schema(n_columns=1), categorical(), categorical((1, 2))):
        for frame in (
            pd.DataFrame({"a": empty}),
            pd.DataFrame({"a": pd.Series(empty, dtype="string")}),
            pl.DataFrame({"a": empty}),
            pl.DataFrame({"a": empty}, schema={"a": pl.String}),
            pa.table({"a": empty}),
            pa.table({"a": pa.array(empty, pa.string())}),
        ):
            np.testing.assert_array_equal(matrix(read_table(frame, schema)), [[NAN], [NAN]])


def test_sparse_columns_of_pandas():
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 0.0, 2.0]), "b": pd.arrays.SparseArray([1, 0, 0])})
    np.testing.assert_array_equal(matrix(read(frame)), [[0, 1], [0, 0], [2, 0]])


def test_lazy_frames_of_other_libraries_are_refused(monkeypatch):
    lazy = pl.LazyFrame({"a": [1.0]})
    monkeypatch.setattr(nw.LazyFrame, "implementation", nw.Implementation.DUCKDB)
    with pytest.raises(DataError, match="lazy duckdb frame; collect it"):
        read_table(lazy, Schema(n_columns=1))


# -- categories ----------------------------------------------------------------------------------------------
LEVELS = ("red", "green", "blue")
WORDS = ["blue", None, "red", "green", "blue"]
CODES = [2.0, NAN, 0.0, 1.0, 2.0]


def word_columns(words, order):
    """The same words in every kind of column; `order` is the frame's own order of the categories."""
    yield pd.DataFrame({"c": pd.Categorical(words, categories=order)})
    yield pd.DataFrame({"c": pd.Series(words, dtype=object)})
    yield pd.DataFrame({"c": pd.Series(words, dtype="string")})
    yield pd.DataFrame({"c": pd.Series(words, dtype=pd.ArrowDtype(pa.string()))})
    yield pd.DataFrame({"c": pd.Series(words, dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())))})
    yield pl.DataFrame({"c": words})
    yield pl.DataFrame({"c": pl.Series(words, dtype=pl.Categorical)})
    yield pl.DataFrame({"c": pl.Series(words, dtype=pl.Enum(order))})
    yield pa.table({"c": words})
    yield pa.table({"c": pa.array(words).dictionary_encode()})
    halves = words[: len(words) // 2], words[len(words) // 2 :]  # each with a dictionary of its own
    yield pa.table({"c": pa.chunked_array([pa.array(half, pa.string()).dictionary_encode() for half in halves])})
    yield np.array(words, dtype=object)[:, None]


def categorical(levels=LEVELS, **more):
    return Schema(n_columns=1, categorical=(True,), levels=(levels,), **more)


@given(st.lists(st.sampled_from([*LEVELS, None]), min_size=2, max_size=12), st.permutations(LEVELS))
@settings(max_examples=25, deadline=None)  # every example goes through twelve columns of three libraries
def test_words_are_coded_by_value_in_whatever_order(words, order):
    words = [*words, "red"]  # a column of nulls alone has no words
    expected = [[NAN if word is None else LEVELS.index(word)] for word in words]
    for column in word_columns(words, order):
        np.testing.assert_array_equal(matrix(read_table(column, categorical()), 5), expected)


@pytest.mark.parametrize(("unseen", "code"), [("missing", NAN), ("other", -1.0)])
def test_unseen_words(unseen, code):
    words = [*WORDS, "mauve"]
    for column in word_columns(words, [*LEVELS, "mauve", "never used"]):
        table = read_table(column, categorical(unseen=unseen))
        np.testing.assert_array_equal(matrix(table)[:, 0], [*CODES, code])
        with pytest.raises(DataError, match="not seen in training: 'mauve'; it knows 'red', 'green', 'blue'"):
            read_table(column, categorical(unseen="error"))


def test_categories_that_no_row_uses_are_no_error():
    for column in word_columns(WORDS, [*LEVELS, "mauve"]):
        np.testing.assert_array_equal(matrix(read_table(column, categorical(unseen="error")))[:, 0], CODES)


def test_levels_of_numbers_and_booleans():
    frame = pd.DataFrame({"c": pd.Categorical([30, 10, None, 20])})
    np.testing.assert_array_equal(matrix(read_table(frame, categorical((20, 10, 30))))[:, 0], [2, 1, NAN, 0])
    np.testing.assert_array_equal(matrix(read_table(frame, categorical((20.0, 10.0))))[:, 0], [-1, 1, NAN, 0])
    truth = pd.DataFrame({"c": pd.Categorical([True, False, None])})
    np.testing.assert_array_equal(matrix(read_table(truth, categorical((False, True))))[:, 0], [1, 0, NAN])
    # words are not numbers, whatever they look like
    text = pd.DataFrame({"c": ["20", "10"]})
    np.testing.assert_array_equal(matrix(read_table(text, categorical((20, 10))))[:, 0], [-1, -1])


def test_numbers_in_arrays_are_codes_unless_the_schema_says_levels():
    X = np.array([[30.0], [NAN], [10.0], [99.0]])
    levels = (20, 10, 30)
    codes = read_table(X, categorical(levels))
    assert np.shares_memory(codes.block(0, 4), X)
    by_level = {"missing": NAN, "other": -1.0}
    for unseen, code in by_level.items():
        schema = categorical(levels, levels_for_arrays=True, unseen=unseen)
        for holder in (
            X,
            X.astype(object),
            pd.DataFrame(X),
            pl.DataFrame(X),
            pd.DataFrame(X).astype("Int64"),
        ):
            np.testing.assert_array_equal(matrix(read_table(holder, schema))[:, 0], [2, NAN, 1, code])
    with pytest.raises(DataError, match=r"not seen in training: 99.0; it knows 20, 10, 30"):
        read_table(X, categorical(levels, levels_for_arrays=True, unseen="error"))
    with pytest.raises(DataError, match="sparse matrix, but the model has categorical"):
        read_table(sp.csr_matrix(X), categorical(levels, levels_for_arrays=True))


def test_other_columns_stay_views_beside_categories():
    X = np.array([[30.0, 1.0], [10.0, 2.0]])
    schema = Schema(n_columns=2, categorical=(True, False), levels=((10, 30), None), levels_for_arrays=True)
    block = read_table(X, schema).block(0, 2)
    np.testing.assert_array_equal(np.column_stack(block), [[1, 1], [0, 2]])
    assert np.shares_memory(block[1], X)


def test_numbers_in_a_frame_where_the_model_knows_words_are_refused():
    # XGBoost 3.2 and LightGBM refuse this too: the numbers could be codes or levels.
    for frame in (pd.DataFrame({"c": [0, 1]}), pl.DataFrame({"c": [0.0, 1.0]})):
        with pytest.raises(DataError, match=r"Column 'c' holds .* numbers, but the model was trained on categories"):
            read_table(frame, categorical())


def test_own_codes_where_the_model_knows_no_levels():
    schema = Schema(n_columns=1, categorical=(True,))
    order = ["green", "blue", "red"]
    expected = [1, NAN, 2, 0, 1]
    dictionary = pa.DictionaryArray.from_arrays(pa.array([1, None, 2, 0, 1]), pa.array(order))
    for frame in (
        pd.DataFrame({"c": pd.Categorical(WORDS, categories=order)}),
        pl.DataFrame({"c": pl.Series(WORDS, dtype=pl.Enum(order))}),
        pa.table({"c": dictionary}),
    ):
        np.testing.assert_array_equal(matrix(read_table(frame, schema))[:, 0], expected)
    for frame in (pd.DataFrame({"c": WORDS}), pl.DataFrame({"c": pl.Series(WORDS, dtype=pl.Categorical)})):
        with pytest.raises(DataError, match="does not store its training categories; pass the codes"):
            read_table(frame, schema)
    np.testing.assert_array_equal(matrix(read_table(pd.DataFrame({"c": [3, 1]}), schema))[:, 0], [3, 1])


# -- sparse matrices -----------------------------------------------------------------------------------------
@st.composite
def sparse(draw):
    """A sparse matrix with stored zeros and duplicates, and the entries it was made from."""
    rows, columns, count = draw(st.integers(1, 9)), draw(st.integers(1, 5)), draw(st.integers(0, 30))
    row = draw(st.lists(st.integers(0, rows - 1), min_size=count, max_size=count))
    column = draw(st.lists(st.integers(0, columns - 1), min_size=count, max_size=count))
    data = draw(st.lists(st.integers(-2, 2), min_size=count, max_size=count))
    dtype = draw(st.sampled_from(["f4", "f8", "i4", "i8", "i1"]))
    coo = sp.coo_matrix((np.array(data, dtype), (row, column)), shape=(rows, columns))
    expected = np.full((rows, columns), NAN)
    for i, j, value in zip(row, column, data, strict=True):
        expected[i, j] = value + np.nan_to_num(expected[i, j])
    return coo, expected


def with_duplicates(coo, form):
    """CSR or CSC of the entries as they are: neither sorted nor added up."""
    by, other, n = (coo.row, coo.col, coo.shape[0]) if form is sp.csr_matrix else (coo.col, coo.row, coo.shape[1])
    order = np.argsort(by, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(by, minlength=n))])
    return form((coo.data[order], other[order], start), shape=coo.shape)


@given(sparse(), st.integers(1, 5), st.sampled_from(["missing", "zero"]))
@settings(deadline=None)
def test_blocks_of_a_sparse_matrix(case, step, absent):
    coo, expected = case
    if absent == "zero":
        expected = np.nan_to_num(expected)
    forms = [coo, coo.tocsr(), coo.tocsc(), coo.tolil(), coo.todok(), sp.csr_array(coo), sp.csc_array(coo)]
    forms += [with_duplicates(coo, sp.csr_matrix), with_duplicates(coo, sp.csc_matrix)]
    forms += [coo.todia(), coo.tobsr(blocksize=(1, 1))]
    for form in forms:
        table = read(form, absent=absent)
        if form.format in ("lil", "dok", "dia") and absent == "missing":  # these forget stored zeros by themselves
            continue
        assert isinstance(table, SparseTable)
        np.testing.assert_array_equal(matrix(table, step), expected)


def test_sparse_matrix_of_the_user_stays_as_it_is():
    coo = sp.coo_matrix((np.ones(4), ([0, 0, 1, 1], [1, 1, 2, 0])), shape=(2, 3))
    for form in (sp.csr_matrix, sp.csc_matrix):
        X = with_duplicates(coo, form)
        before = X.data.copy(), X.indices.copy(), X.indptr.copy()
        read(X)
        for then, now in zip(before, (X.data, X.indices, X.indptr), strict=True):
            np.testing.assert_array_equal(then, now)


def test_sparse_arrays_are_not_copied_and_blocks_are_small():
    X = sp.random(3000, 4000, density=0.001, format="csr", random_state=0)
    X.sum_duplicates()
    table = read(X)
    assert np.shares_memory(table.matrix.data, X.data)
    assert table.block_rows % 64 == 0
    assert table.block(0, table.block_rows).nbytes <= 16 * 2**20
    assert table.block(0, 1).dtype == np.float64
    assert read(X.astype(np.float32)).block(0, 1).dtype == np.float32
    np.testing.assert_array_equal(matrix(read(X.tocsc()), 1000), X.toarray())
    np.testing.assert_array_equal(matrix(table, 1000), X.toarray())


def damaged(form, **arrays):
    X = sp.csr_matrix(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 4.0]])).asformat(form)
    for name, array in arrays.items():
        setattr(X, name, np.array(array, getattr(X, name).dtype))
    return X


@pytest.mark.parametrize(
    ("X", "message"),
    [
        # scipy segfaults on the first, and takes -1 for the last column.
        (damaged("csr", indptr=[0, 10**6, 4]), "damaged csr matrix: indptr must hold 3 numbers.* at most at the 4"),
        (damaged("csr", indptr=[0, 3, 2]), "indptr"),
        (damaged("csr", indptr=[0, 2, 9]), "indptr"),
        (damaged("csr", indptr=[1, 2, 4]), "indptr"),
        (damaged("csr", indptr=[0, 4]), "indptr"),
        (damaged("csr", data=[1.0]), "indptr"),
        (damaged("csr", indices=[0, -1, 1, 2]), "entry in column -1 of 3; build it again"),
        (damaged("csr", indices=[0, 3, 1, 2]), "entry in column 3 of 3"),
        (damaged("csc", indptr=[0, 3, 1, 4]), "damaged csc matrix: indptr must hold 4 numbers"),
        (damaged("csc", indices=[0, 1, -7, 1]), "entry in row -7 of 2"),
        (damaged("bsr", indices=[0, 9, 1, 2]), "entry in column 9 of"),
        (damaged("bsr", indptr=[0, 5, 4]), "indptr"),
        (damaged("coo", row=[0, 2, 1, 1]), "entry in row 2 of 2"),
        (damaged("coo", col=[0, 2, -1, 1]), "entry in column -1 of 3"),
    ],
)
def test_damaged_sparse_matrices(X, message):
    with pytest.raises(DataError, match=message):
        read_table(X, Schema(n_columns=3))


def test_sparse_missing_number():
    X = sp.csr_matrix(np.array([[1.0, 0.0], [2.0, 3.0]]))
    np.testing.assert_array_equal(matrix(read(X, absent="missing", missing=2.0)), [[1, NAN], [NAN, 3]])


# -- the rest ------------------------------------------------------------------------------------------------
def test_importing_tables_loads_no_frame_library():
    import subprocess

    code = (
        "import sys, numpy as np, treeinner.tables as t; "
        "t.read_table(np.ones((2, 2)), t.Schema(n_columns=2)); "
        "print(sorted({'pandas', 'polars', 'pyarrow', 'scipy', 'xgboost', 'sklearn'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_dense_table_takes_an_array_alone():
    # other modules build it by hand
    assert DenseTable(np.ones((3, 2))).block_rows is None


@pytest.mark.parametrize("names", [["b c", "a", 0], [2, 0, 1]], ids=["names", "numbers"])
def test_columns_shown_of_a_frame_are_those_of_the_features(names):
    frame = pd.DataFrame([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], columns=names)
    stored = [str(name).replace(" ", "_") for name in names]  # LightGBM keeps "b c" as "b_c"
    assert to_array(frame[names[::-1]], stored).tolist() == frame.to_numpy().tolist()
    assert to_array(frame, ["x", "y", "z"]).tolist() == frame.to_numpy().tolist()  # no such names: by position
