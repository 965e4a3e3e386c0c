"""A stream has the Rows of rows in memory, whatever it comes from; what is wrong with a file or batch names it."""

import gc

import lightgbm
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pytest
import xgboost
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from tests.rows.data import ALL, NUMBERS, TARGET, WEIGHT, N, X, Y, matrix, model
from treeinner.errors import DataError
from treeinner.read import read_model
from treeinner.rows import load_table, read_rows
from treeinner.rows.frames import names_of

FRAME = X.assign(price=Y, w=WEIGHT, note="n", day=np.repeat(np.arange(N // 10), 10))
NAMED = {"y": "price", "sample_weight": "w", "clusters": "day"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("data")
    for number, rows in enumerate(np.split(np.arange(N), [100, 101, 900])):
        FRAME.iloc[rows].to_parquet(where / f"part-{number}.parquet", row_group_size=64)
    return where


def batches(size=37):
    for start in range(0, N, size):
        rows = slice(start, start + size)
        yield X[rows], Y[rows], WEIGHT[rows]


def reused(size=100):
    """The same memory for every batch."""
    rows, y = np.zeros((size, 4)), np.zeros(size)
    for start in range(0, N, size):
        rows[:], y[:] = NUMBERS[start : start + size], Y[start : start + size]
        yield rows, y


class Capsule:
    """An Arrow stream of a library that nobody here had in mind."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class Sized(Capsule):
    def __len__(self):
        return len(self.table)


class Loader:
    def __iter__(self):
        return batches()


def table():
    return pa.Table.from_pandas(FRAME)


def written(folder, name, write):
    path = folder.parent / name
    write(path)
    return path


def hive(folder):
    """Folders whose names are columns."""
    root = folder.parent / "hive"
    for day, rows in FRAME.groupby(FRAME["day"] % 3):
        (root / f"third={day}").mkdir(parents=True, exist_ok=True)
        rows.to_parquet(root / f"third={day}" / "rows.parquet")
    return root


def other_types(folder):
    """Files whose columns stand in another order, one of them with integers for floats."""
    where = folder.parent / "backwards"
    where.mkdir(exist_ok=True)
    for number, path in enumerate(sorted(folder.glob("*"))):
        rows = pd.read_parquet(path)
        rows = rows.assign(day=rows["day"].astype(float)) if number else rows
        rows[rows.columns[:: (-1) ** number]].to_parquet(where / path.name)
    return where


def duck(folder):
    return pytest.importorskip("duckdb").connect().sql(f"select * from read_parquet('{folder}/*.parquet')")


SOURCES = {
    "a file": lambda f: written(f, "all.parquet", FRAME.to_parquet),
    "a text": lambda f: str(written(f, "all.parquet", FRAME.to_parquet)),
    "a folder": lambda f: f,
    "several paths": lambda f: sorted(f.glob("*.parquet")),
    "columns in another order": other_types,
    "folders that are columns": hive,
    "CSV": lambda f: written(f, "all.csv", lambda p: FRAME.to_csv(p, index=False)),
    "CSV, packed": lambda f: written(f, "all.csv.gz", lambda p: FRAME.to_csv(p, index=False)),
    "CSV, semicolons": lambda f: written(f, "semi.csv", lambda p: FRAME.to_csv(p, index=False, sep=";")),
    "Feather": lambda f: written(f, "all.feather", lambda p: pa.feather.write_feather(table(), p, chunksize=99)),
    "a Dataset": pa.dataset.dataset,
    "a LazyFrame": lambda f: pl.scan_parquet(f"{f}/*.parquet"),
    "a LazyFrame of narwhals": lambda f: nw.from_native(pl.scan_parquet(f"{f}/*.parquet")),
    "a DuckDB relation": duck,
    "an Arrow stream": lambda f: Sized(table()),
    "a list of frames": lambda f: [FRAME[:500], FRAME[500:500], FRAME[500:]],
    "a function": lambda f: lambda: (FRAME[i : i + 7] for i in range(0, N, 7)),
}
PAIRS = {"a function": lambda: batches, "a list": lambda: list(batches()), "an iterable": Loader}
ONCE = {
    "a RecordBatchReader": lambda: table().to_reader(max_chunksize=11),
    "an Arrow stream": lambda: Capsule(table()),
    "a generator": lambda: (FRAME[i : i + 7] for i in range(0, N, 7)),
}


def check_same(stream, **given):
    """The stream has the rows in memory, in any order, to the bit."""
    parts = list(stream)
    (whole,) = read_rows(model("xgboost", categories=True), FRAME, **given)
    found = np.concatenate([matrix(rows.table) for rows in parts])
    expected = matrix(whole.table)
    order, of = np.lexsort(np.nan_to_num(found, nan=99).T), np.lexsort(np.nan_to_num(expected, nan=99).T)
    np.testing.assert_array_equal(found[order], expected[of])
    for name in ("y", "start", "weight", "clusters"):
        if getattr(whole, name) is None:
            assert all(getattr(rows, name) is None for rows in parts)
        else:
            got = np.concatenate([getattr(rows, name) for rows in parts])
            np.testing.assert_array_equal(got[order], getattr(whole, name)[of])
    assert {rows.weight_exponent for rows in parts} == {whole.weight_exponent}
    return parts


@pytest.mark.parametrize("kind", SOURCES)
def test_the_same_rows_from_every_source(kind, folder):
    stream = read_rows(model("xgboost", categories=True), SOURCES[kind](folder), **NAMED)
    assert stream.again
    assert stream.clustered
    parts = check_same(stream, **NAMED)
    check_same(stream, **NAMED)
    of_frames = {
        "a LazyFrame": "polars",
        "a LazyFrame of narwhals": "polars",
        "a list of frames": "pandas",
        "a function": "pandas",
    }
    assert {rows.frame_library for rows in parts} == {of_frames.get(kind, "")}


@pytest.mark.parametrize("kind", PAIRS)
def test_the_same_rows_from_batches_with_their_values(kind):
    stream = read_rows(model("xgboost", categories=True), PAIRS[kind]())
    assert stream.again
    check_same(stream, y="price", sample_weight="w")
    check_same(stream, y="price", sample_weight="w")


@pytest.mark.parametrize("kind", ONCE)
def test_rows_that_come_once(kind):
    stream = read_rows(model("xgboost", categories=True), ONCE[kind](), "price")
    assert not stream.again
    check_same(stream, y="price")
    assert list(stream) == []
    with pytest.raises(DataError, match="only once"):
        read_rows(model("xgboost", categories=True), ONCE[kind](), "price", sample_weight="w")


@pytest.mark.parametrize("make", [lambda: reused, reused])
def test_batches_may_be_written_into_the_same_memory(make):
    parts = list(read_rows(model("xgboost"), make()))
    np.testing.assert_array_equal(np.concatenate([matrix(rows.table) for rows in parts]), NUMBERS.to_numpy())
    np.testing.assert_array_equal(np.concatenate([rows.y for rows in parts]).reshape(-1), Y)


def test_dicts_bring_everything_along():
    items = [{"X": X[s], "y": Y[s], "clusters": FRAME["day"].to_numpy()[s]} for s in (slice(0, 9), slice(9, N))]
    stream = read_rows(model("xgboost", categories=True), items)
    assert stream.clustered
    check_same(stream, y="price", clusters="day")


def test_a_pipeline_on_files(folder):
    pipeline = make_pipeline(SimpleImputer(), xgboost.XGBRegressor(n_estimators=3)).fit(
        ALL[:N][list("abcd")], TARGET[:N]
    )
    m = read_model(pipeline)
    found = np.concatenate([matrix(rows.table) for rows in read_rows(m, folder, "price")])
    np.testing.assert_array_equal(found, pipeline[:-1].transform(NUMBERS))


def test_queries_are_not_cut_where_files_end(tmp_path):
    grade, day = np.arange(N) % 3, FRAME["day"].to_numpy()
    ranker = read_model(xgboost.XGBRanker(n_estimators=3).fit(NUMBERS, grade, qid=day))
    for number, rows in enumerate(np.split(np.arange(N), [15, 501])):
        NUMBERS.assign(grade=grade, day=day).iloc[rows].to_parquet(tmp_path / f"{number}.parquet", row_group_size=64)
    (rows,) = read_rows(ranker, tmp_path, "grade", qid="day")
    np.testing.assert_array_equal(rows.query, day)
    np.testing.assert_array_equal(matrix(rows.table), NUMBERS.to_numpy())
    whole = [{"X": NUMBERS[s], "y": grade[s], "qid": day[s]} for s in (slice(0, 20), slice(20, N))]
    assert [part.n_rows for part in read_rows(ranker, whole)] == [20, N - 20]


def test_integers_with_fractions_later_and_words_that_look_like_numbers(tmp_path):
    """CSV has no types: the model says what is a number and what is a category."""
    codes = pd.Categorical(np.array(["01", "1", "NA"])[np.arange(N) % 3])
    rows = pd.DataFrame({"a": ALL["a"][:N].to_numpy(), "code": codes})
    m = read_model(lightgbm.LGBMRegressor(n_estimators=3, min_child_samples=5, verbosity=-1).fit(rows, TARGET[:N]))
    rows = rows.assign(a=np.where(np.arange(N) < N - 1, 1.0, 0.5), price=np.append(np.ones(N - 1), 0.25))
    text = rows.assign(a=[f"{a:g}" for a in rows["a"]], price=[f"{y:g}" for y in rows["price"]])
    text.to_csv(tmp_path / "rows.csv", index=False)
    found = list(read_rows(m, tmp_path / "rows.csv", "price"))
    (whole,) = read_rows(m, rows, "price")
    np.testing.assert_array_equal(np.concatenate([matrix(part.table) for part in found]), matrix(whole.table))


def test_categories_that_are_integers_in_files(tmp_path):
    rows = pd.DataFrame(
        {"a": ALL["a"][:N].to_numpy(), "code": pd.Categorical(np.array([30, 10, 20])[np.arange(N) % 3])}
    )
    m = read_model(lightgbm.LGBMRegressor(n_estimators=3, min_child_samples=5, verbosity=-1).fit(rows, TARGET[:N]))
    (whole,) = read_rows(m, rows.assign(price=Y), "price")
    plain = rows.assign(price=Y, code=rows["code"].astype(int))
    plain.to_csv(tmp_path / "rows.csv", index=False)
    plain.to_parquet(tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.parquet"):
        parts = list(read_rows(m, tmp_path / name, "price"))
        np.testing.assert_array_equal(np.concatenate([matrix(part.table) for part in parts]), matrix(whole.table))


# -- what is wrong -------------------------------------------------------------------------------------------
def broken(folder, change):
    where = folder.parent / f"broken-{change.__name__}"
    where.mkdir()
    for path in sorted(folder.glob("*")):
        rows = pd.read_parquet(path)
        rows = change(rows) if path.name == "part-2.parquet" else rows
        rows.to_parquet(where / path.name)
    return where


def no_column(rows):
    return rows.drop(columns="c")


def no_target(rows):
    return rows.assign(price=np.nan)


def words(rows):
    return rows.assign(c="word")


def negative(rows):
    return rows.assign(w=-1.0)


def new_category(rows):
    return rows.assign(kind="new")


@pytest.mark.parametrize("change", [no_column, no_target, words, negative, new_category])
def test_the_file_at_fault_is_named(change, folder):
    with pytest.raises(DataError, match=r"part-2\.parquet"):
        list(read_rows(model("xgboost", categories=True), broken(folder, change), "price", sample_weight="w"))


def test_the_batch_at_fault_is_named():
    def bad():
        yield X[:9], Y[:9]
        yield X[9:19], Y[9:18]

    with pytest.raises(DataError, match="batch 1"):
        list(read_rows(model("xgboost", categories=True), bad))
    mixed = [(X[:9], Y[:9]), (X[9:], Y[9:], WEIGHT[9:])]
    with pytest.raises(DataError, match="batch 1"):
        list(read_rows(model("xgboost", categories=True), mixed))
    with pytest.raises(DataError, match="expected"):
        read_rows(model("xgboost", categories=True), lambda: iter([(X, Y, WEIGHT, Y)]))


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda p: p / "nothing.parquet", "no data file"),
        (lambda p: p, "expected Parquet"),
        (lambda p: written(p, "rows.txt", lambda f: f.write_text("{}")), "expected Parquet"),
        (lambda p: written(p, "bad.parquet", lambda f: f.write_bytes(b"not parquet")), "bad.parquet"),
        (lambda p: written(p, "empty.csv", lambda f: f.write_text("")), "empty.csv"),
        (lambda p: written(p, "twice.csv", lambda f: f.write_text("a,a\n1,2\n")), "twice.csv"),
        (
            lambda p: written(p, "latin.csv", lambda f: f.write_bytes(b"a,b,c,d,kind,price\n1,2,3,4,\xff,6\n")),
            "latin.csv",
        ),
        (lambda p: [written(p, "one.csv", lambda f: f.write_text("a\n1\n"))] * 2, "none twice"),
        (
            lambda p: [written(p, name, lambda f: f.write_text("a\n1\n")) for name in ("a.csv", "b.parquet")],
            "of one kind",
        ),
        (lambda p: written(p, "header.csv", lambda f: FRAME[:0].to_csv(f, index=False)), "no rows"),
        (lambda p: iter([]), "no rows"),
    ],
)
def test_files_that_cannot_be_read(make, word, tmp_path):
    (tmp_path / "inside").mkdir()
    with pytest.raises(DataError, match=word):
        list(read_rows(model("xgboost", categories=True), make(tmp_path / "inside"), "price"))


def test_what_needs_all_rows_is_read_into_memory(folder):
    labels = np.where(TARGET > 0, "yes", "no")
    m = read_model(RandomForestClassifier(3, class_weight="balanced").fit(ALL[:N][["a", "c"]], labels[:N]))
    frame = FRAME.assign(label=labels[N:])
    (rows,) = read_rows(m, [frame[:9], frame[9:]], "label")
    (whole,) = read_rows(m, frame, "label")
    np.testing.assert_array_equal(rows.weight, whole.weight)
    (rows,) = read_rows(m, pa.Table.from_pandas(frame).to_reader(max_chunksize=100), "label")
    np.testing.assert_array_equal(rows.weight, whole.weight)
    X, given = load_table(model("xgboost", categories=True), folder, {"y": "price"})
    np.testing.assert_array_equal(given["y"], Y)
    assert list(names_of(X)) == [*"abcd", "kind"]


def test_arguments_that_cannot_be(folder):
    m = model("xgboost", categories=True)
    with pytest.raises(DataError, match="name of a column"):
        read_rows(m, folder, Y)
    with pytest.raises(DataError, match="zero in every row"):
        read_rows(m, [FRAME.assign(w=0.0)], "price", sample_weight="w")
    with pytest.raises(DataError, match="'price'"):
        read_rows(m, folder, "prize")
    with pytest.raises(DataError, match="filtered"):
        read_rows(m, pa.dataset.dataset(folder).filter(pa.dataset.field("a") < 99), "price")


def test_rows_are_not_held(folder):
    """A stream holds one batch at a time."""
    stream = read_rows(model("xgboost", categories=True), folder, "price")
    most = 0
    for rows in stream:
        del rows
        gc.collect()
        most = max(most, pa.total_allocated_bytes())
    assert most < 10 * FRAME.memory_usage().sum()
