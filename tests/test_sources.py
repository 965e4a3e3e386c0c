"""Rows of any source give the bits of rows in memory; what is wrong with a file or batch is said with its name."""

import importlib.util
import os
from functools import cache

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import xgboost as xgb

import treeinner as ti
from treeinner.tables.batches import Piece, gathered

N, FILES = 1200, 4
RNG = np.random.default_rng(3)
# Dyadic numbers: CSV gives them back to the bit.
X = pd.DataFrame(np.round(RNG.normal(size=(2 * N, 4)) * 64) / 64, columns=list("abcd"))
X.loc[::17, "b"] = np.nan
X["kind"] = pd.Categorical(RNG.choice(["NA", "u", "v"], 2 * N), categories=["NA", "u", "v"])
TARGET = np.round((X["a"] + (X["kind"] == "u") + RNG.normal(size=2 * N)) * 64) / 64
ROWS = X[N:].reset_index(drop=True)
Y = TARGET[N:].to_numpy()
WEIGHT = RNG.integers(1, 9, N) / 4
FRAME = ROWS.assign(price=Y, w=WEIGHT, note="n", day=np.repeat(np.arange(N // 10), 10))
NAMED = {"y": "price", "sample_weight": "w"}
FIELDS = ("scores", "std_errors", "ci_low", "ci_high", "p_values", "q_values", "rounds")


@cache
def model():
    return xgb.XGBRegressor(n_estimators=12, max_depth=3, enable_categorical=True).fit(X[:N], TARGET[:N])


@cache
def whole_importance():
    return ti.importance(model(), ROWS, Y, sample_weight=WEIGHT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("data")
    for number, rows in enumerate(np.split(np.arange(N), [100, 101, 900])):
        FRAME.iloc[rows].to_parquet(where / f"part-{number}.parquet", row_group_size=64)
    return where


def batches(size=37):
    for start in range(0, N, size):
        rows = slice(start, start + size)
        yield ROWS[rows], Y[rows], WEIGHT[rows]


class Rows(xgb.DataIter):
    def __init__(self, source=batches):
        super().__init__()
        self.source, self.left = source, iter(())

    def reset(self):
        self.left = self.source()

    def next(self, take):
        found = next(self.left, None)
        if found is not None:
            take(data=found[0], label=found[1], weight=found[2], feature_types=["q"])
        return found is not None


class Capsule:
    """An Arrow stream of a library that nobody here had in mind; `length`: its rows are in memory."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class Held(Capsule):
    def __len__(self):
        return len(self.table)


def table():
    return pa.Table.from_pandas(FRAME)


def written(folder, name, write):
    path = folder.parent / name
    write(path)
    return path


def duck(folder):
    duckdb = pytest.importorskip("duckdb")
    return duckdb.connect().sql(f"select * from read_parquet('{folder}/*.parquet')")


def hive(folder):
    """Folders whose names are columns; one of them is not of the model, the other is the day."""
    root = folder.parent / "hive"
    for day, rows in FRAME.groupby(FRAME["day"] % 3):
        (root / f"third={day}").mkdir(parents=True, exist_ok=True)
        rows.to_parquet(root / f"third={day}" / "rows.parquet")
    return root


def backwards(folder):
    """Files whose columns stand in another order."""
    where = folder.parent / "backwards"
    where.mkdir(exist_ok=True)
    for number, path in enumerate(sorted(folder.glob("*"))):
        rows = pd.read_parquet(path)
        rows[rows.columns[:: (-1) ** number]].to_parquet(where / path.name)
    return where


SOURCES = {
    "a file": lambda f: written(f, "all.parquet", FRAME.to_parquet),
    "a text": lambda f: str(written(f, "all.parquet", FRAME.to_parquet)),
    "a folder": lambda f: f,
    "a pattern": lambda f: f"{f}/part-?.parquet",
    "several paths": lambda f: sorted(f.glob("*.parquet"), reverse=True),
    "columns in another order": backwards,
    "folders that are columns": hive,
    "CSV": lambda f: written(f, "all.csv", lambda p: FRAME.to_csv(p, index=False)),
    "CSV, packed": lambda f: written(f, "all.csv.gz", lambda p: FRAME.to_csv(p, index=False)),
    "Feather": lambda f: written(f, "all.feather", lambda p: pa.feather.write_feather(table(), p, chunksize=99)),
    "a Dataset": pa.dataset.dataset,
    "a filtered Dataset": lambda f: pa.dataset.dataset(f).filter(pa.dataset.field("a") < 99),
    "a LazyFrame": lambda f: pl.scan_parquet(f"{f}/*.parquet"),
    "a DuckDB relation": duck,
    "an Arrow stream": lambda f: Held(table()),
    "a table in memory": lambda f: table(),
    "a frame in memory": lambda f: pl.from_pandas(FRAME),
}
IN_BATCHES = {
    "a function": lambda: batches,
    "a list": lambda: list(batches()),
    "a DataIter": Rows,
    "a list of frames": lambda: [FRAME[:500], FRAME[500:]],
}
ONCE = {
    "a RecordBatchReader": lambda: table().to_reader(max_chunksize=11),
    "an Arrow stream": lambda: Capsule(table()),
    "a generator of frames": lambda: (FRAME[i : i + 7] for i in range(0, N, 7)),
    "a generator of dicts": lambda: ({"X": x, "y": y, "sample_weight": w} for x, y, w in batches()),
    "a generator of triples": batches,
}


def check_same(found, whole=None, fields=FIELDS):
    whole = whole or whole_importance()
    assert found.n_rows == whole.n_rows
    for name in fields:
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name), err_msg=name)


@pytest.mark.parametrize("kind", SOURCES)
def test_the_same_bits_from_every_source(kind, folder):
    check_same(ti.importance(model(), SOURCES[kind](folder), **NAMED))


@pytest.mark.parametrize("kind", IN_BATCHES)
def test_the_same_bits_from_batches_that_come_twice(kind):
    given = NAMED if "frames" in kind else {}
    check_same(ti.importance(model(), IN_BATCHES[kind](), **given))


def reused(form=np.asarray):
    """Hands over the same memory for every batch, and overwrites it at the next one."""
    numbers, (y, w) = np.empty((50, 3)), np.empty((2, 50))
    for start in range(0, 1000, 50):
        rows = slice(start, start + 50)
        numbers[:], y[:], w[:] = NUMBERS[N:][rows], Y[rows], WEIGHT[rows]
        yield form(numbers), y, w


NUMBERS = X[["a", "b", "c"]].to_numpy()
SPARSE = lambda: lambda: reused(scipy.sparse.csr_array)  # noqa: E731


@pytest.mark.parametrize(
    "source",
    [
        lambda: reused,
        reused,
        lambda: Rows(reused),
        lambda: lambda: reused(lambda b: pd.DataFrame(b, columns=["a", "b", "c"], copy=False)),
        SPARSE,
    ],
    ids=["a function", "a generator", "a DataIter", "frames", "sparse"],
)
def test_batches_may_be_written_into_the_same_memory(source):
    plain = xgb.XGBRegressor(n_estimators=8, max_depth=3).fit(NUMBERS[:N], TARGET[:N])
    rows = NUMBERS[N : N + 1000] if source is not SPARSE else scipy.sparse.csr_array(NUMBERS[N : N + 1000])
    whole = ti.importance(plain, rows, Y[:1000], sample_weight=WEIGHT[:1000], std_errors=False)
    check_same(ti.importance(plain, source(), std_errors=False), whole, fields=("scores",))


@pytest.mark.parametrize("kind", ONCE)
def test_rows_that_come_once_have_the_score_and_a_note(kind):
    given = {} if "dicts" in kind or "triples" in kind else NAMED
    with pytest.warns(ti.TreeInnerWarning, match="a single pass over the rows, and conservative"):
        found = ti.importance(model(), ONCE[kind](), **given)
    check_same(found, fields=("scores", "rounds"))
    assert any("an X that can be read again" in note for note in found.notes)
    quiet = ti.importance(model(), ONCE[kind](), **given, std_errors=False)
    check_same(quiet, fields=("scores",))
    assert not quiet.notes


@pytest.mark.parametrize(
    "options",
    [
        {"score": "loss"},
        {"method": "treeshap"},
        {"method": "predecomp", "score": "forest_inner"},
        {"score": "abs", "y": None},
        {"clusters": "day"},
        {"feature_groups": {"ab": ["a", "b"]}},
        {"base_margin": "w", "sample_weight": None},
    ],
    ids=str,
)
def test_every_score_of_a_folder(folder, options):
    memory = {"sample_weight": WEIGHT, **options}
    for role in ("clusters", "base_margin"):
        if memory.get(role):
            memory[role] = FRAME[memory[role]].to_numpy()
    whole = ti.importance(model(), ROWS, **{"y": Y, **memory})
    found = ti.importance(model(), folder, **{**NAMED, **options})
    check_same(found, whole, fields=("scores", "std_errors", "p_values"))


def test_several_targets_and_names_of_pandas(tmp_path):
    y = np.column_stack([Y, -2 * Y])
    own = xgb.XGBRegressor(n_estimators=5, max_depth=2, multi_strategy="multi_output_tree").fit(ROWS[["a", "b"]], y)
    frame = ROWS[["b", "a"]].assign(up=y[:, 0], down=y[:, 1])
    frame.to_parquet(tmp_path / "x.parquet")
    whole = ti.importance(own, ROWS[["a", "b"]], pd.DataFrame(y, columns=["up", "down"]))
    for X in (tmp_path / "x.parquet", frame):
        found = ti.importance(own, X, ["up", "down"])
        check_same(found, whole, fields=("scores", "std_errors"))
        assert found.output_names == ("up", "down")


def test_class_labels_by_name(tmp_path):
    labels = np.array(["no", "yes"])[(Y > 0).astype(int)]
    own = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(ROWS[["a", "b"]], labels)
    whole = ti.importance(own, ROWS[["a", "b"]], labels)
    frame = ROWS[["a", "b"]].assign(label=labels)
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.assign(label=pd.Categorical(labels)).to_parquet(tmp_path / "x.parquet")
    for X in (tmp_path / "x.csv", tmp_path / "x.parquet", frame, pl.from_pandas(frame)):
        check_same(ti.importance(own, X, "label"), whole, fields=("scores", "p_values"))


def test_whole_queries_whatever_the_pieces(folder):
    relevance = (Y > 0).astype(int)
    own = xgb.XGBRanker(n_estimators=5, max_depth=2, objective="rank:pairwise", enable_categorical=True)
    own.fit(ROWS, relevance, qid=FRAME["day"])
    whole = ti.importance(own, ROWS, relevance, qid=FRAME["day"].to_numpy())
    frame = FRAME.assign(price=relevance)
    found = ti.importance(own, (frame[i : i + 7] for i in range(0, N, 7)), "price", qid="day", std_errors=False)
    check_same(found, whole, fields=("scores",))

    def pieces():
        for start in range(0, N, 7):
            rows = slice(start, start + 7)
            yield {"X": ROWS[rows], "y": relevance[rows], "qid": FRAME["day"][rows]}

    check_same(ti.importance(own, pieces), whole, fields=("scores", "std_errors", "p_values"))


def test_queries_are_cut_at_their_ends():
    def piece(*queries):
        return Piece(np.zeros((len(queries), 1)), "here", {"qid": np.array(queries)})

    pieces = [piece(1, 1, 2), piece(2, 2), piece(2, 3), piece(3, 4)]
    found = [part.given["qid"].tolist() for part in gathered(pieces, rows=2, qid=lambda part: part.given["qid"])]
    assert found == [[1, 1], [2, 2, 2, 2], [3, 3], [4]]


def test_losses_over_all_rows_and_wrappers_are_read_into_memory(folder):
    from sklearn.ensemble import VotingRegressor

    few = ROWS[["a", "b", "c"]].fillna(0.0)
    own = VotingRegressor(
        [
            ("one", xgb.XGBRegressor(n_estimators=3, max_depth=2)),
            ("two", lightgbm.LGBMRegressor(n_estimators=3, verbose=-1)),
        ]
    )
    own.fit(few, Y)
    whole = ti.importance(own, few, Y)
    path = folder.parent / "few.parquet"
    few.assign(price=Y, other=1.0).to_parquet(path)
    check_same(ti.importance(own, path, "price"), whole, fields=("scores", "std_errors"))
    survival = xgb.XGBRegressor(n_estimators=3, max_depth=2, objective="survival:cox").fit(few, np.abs(Y) + 1)
    few.assign(price=np.abs(Y) + 1).to_parquet(path)
    check_same(
        ti.importance(survival, path, "price"),
        ti.importance(survival, few, np.abs(Y) + 1),
        ("scores",) * 0 or FIELDS[:2],
    )


def test_columns_by_name_in_an_accumulator():
    whole = ti.ImportanceAccumulator(model()).update(ROWS, Y, sample_weight=WEIGHT)
    named = ti.ImportanceAccumulator(model()).update(FRAME[:500], **NAMED).update(pl.from_pandas(FRAME[500:]), **NAMED)
    np.testing.assert_array_equal(whole.result().scores, named.result().scores)
    with pytest.raises(ti.DataError, match="y='prize': X has no such column; did you mean 'price'"):
        ti.ImportanceAccumulator(model()).update(FRAME, "prize")
    with pytest.raises(ti.DataError, match="y='price' names a column, but X is a ndarray without column names"):
        ti.ImportanceAccumulator(model()).update(FRAME.to_numpy(), "price")


def test_a_column_may_be_called_num_rows():
    """As Arrow calls the number of rows, which a frame of pandas then has as an attribute."""
    frame = ROWS[["a", "b"]].set_axis(["num_rows", "shape"], axis=1)
    own = xgb.XGBRegressor(n_estimators=3, max_depth=2).fit(frame, Y)
    pieces = [(frame[i : i + 100], Y[i : i + 100]) for i in range(0, N, 100)]
    check_same(ti.importance(own, pieces), ti.importance(own, frame, Y), fields=("scores",))


def test_a_list_of_labels_is_no_list_of_columns():
    labels = ["no", "yes"] * 50
    own = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1).fit(ROWS[["a", "b"]][:100], labels)
    found = ti.importance(own, ROWS[["a", "b"]][:100], labels)
    np.testing.assert_array_equal(found.scores, ti.importance(own, ROWS[["a", "b"]][:100], np.array(labels)).scores)


# -- progress, training rows ---------------------------------------------------------------------------------
def test_progress_by_rows(folder):
    told = []
    ti.importance(model(), folder, **NAMED, progress=lambda done, rows: told.append((done, rows)))
    assert told[-1] == (N, N)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_training_rows_in_files_are_recognised(tmp_path):
    X[:N].assign(price=TARGET[:N]).to_parquet(tmp_path / "train.parquet")
    with pytest.warns(ti.TreeInnerWarning, match="raining rows"):
        found = ti.importance(model(), tmp_path / "train.parquet", "price")
    with pytest.warns(ti.TreeInnerWarning):
        assert found.notes == ti.importance(model(), X[:N], TARGET[:N]).notes


# -- what is wrong with it ------------------------------------------------------------------------------------
def parts(folder, name, **changes):
    """Copy the files, one of them changed."""
    where = folder.parent / name.replace(" ", "-")
    where.mkdir(exist_ok=True)
    for path in folder.glob("*.parquet"):
        rows = pd.read_parquet(path)
        if path.name == "part-2.parquet":
            for column, change in changes.items():
                rows = change(rows) if callable(change) else rows.assign(**{column: change})
        rows.to_parquet(where / path.name)
    return where


BAD = {
    "a column is lost": ({"x": lambda f: f.drop(columns="a")}, "part-2.parquet lacks 'a', unlike"),
    "an empty file lacks a column": ({"x": lambda f: f.drop(columns="a")[:0]}, "part-2.parquet lacks 'a', unlike"),
    "a column more": ({"new": 1.0}, "part-2.parquet has 'new' besides, unlike"),
    "text": ({"a": "red"}, "part-2.parquet: Column 'a' holds the string 'red'"),
    "dates": ({"a": pd.Timestamp("2020-01-01")}, "part-2.parquet: Column 'a' holds Datetime"),
    "no target": ({"price": np.nan}, r"part-2.parquet: y is missing \(NaN\) in 799 places"),
    "a negative weight": ({"w": -1.0}, "part-2.parquet: sample_weight holds -1 in row 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_the_file_at_fault_is_named(name, folder):
    changes, message = BAD[name]
    with pytest.raises(ti.DataError, match=message):
        ti.importance(model(), parts(folder, name, **changes), **NAMED)


def test_the_batch_at_fault_is_named():
    rows = list(batches())
    rows[5] = (rows[5][0].assign(a=np.inf).astype({"a": object}).assign(a="x"), *rows[5][1:])
    with pytest.raises(ti.DataError, match="batch 5: Column 'a' holds the string"):
        ti.importance(model(), rows)
    rows[5] = (ROWS[:4].assign(b=1), rows[5][1][:4] * np.nan, rows[5][2][:4])  # other types: not gathered
    with pytest.raises(ti.DataError, match="batch 5: y is missing"):
        ti.importance(model(), rows)
    rows[5] = (rows[4][0], Y[:3], WEIGHT[:3])
    with pytest.raises(ti.DataError, match="batch 5: y has 3 rows, but X has 37"):
        ti.importance(model(), rows)


def changing(folder, change):
    """Read the files as they are, then change one between the passes."""
    told = []

    def progress(done, rows):
        if done >= rows // 2 and not told:
            told.append(done)
            change()

    return lambda: ti.importance(model(), folder, **NAMED, progress=progress)


def test_a_file_that_vanishes_or_changes_between_the_passes(folder):
    for name, change, message in (
        ("vanishes", lambda path: path.unlink(), "part-3.parquet is no longer there"),
        ("grows", FRAME.to_parquet, "part-3.parquet has changed while it was read"),
    ):
        where = parts(folder, name)
        path = where / "part-3.parquet"
        with pytest.raises(ti.DataError, match=message):
            changing(where, lambda path=path, change=change: change(path))()


def test_other_values_under_the_same_size_and_time_are_noticed(folder):
    where = parts(folder, "same size and time")
    path = where / "part-3.parquet"
    rows, before = pd.read_parquet(path), path.stat()

    def change():
        # Two rows change places in one column: the same sum, other leaves.
        rows.loc[[rows["a"].idxmax(), rows["a"].idxmin()], "a"] = rows["a"].min(), rows["a"].max()
        rows.to_parquet(path)
        os.truncate(path, before.st_size) if path.stat().st_size > before.st_size else None
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(ti.DataError, match=r"saw other rows than the first|has changed|cannot be read"):
        changing(where, change)()


def test_another_leaf_in_the_second_pass_is_noticed_whatever_the_scores():
    first = ti.ImportanceAccumulator(model(), std_errors=False).update(ROWS, Y)
    swapped = ROWS.copy()
    swapped.loc[5, "a"] += 0.75
    leaves = ti.read_model(model()).apply(ROWS) != ti.read_model(model()).apply(swapped)
    assert leaves.any()
    with pytest.raises(ti.DataError, match=r"saw other rows than the first"):
        first.second_pass().update(swapped, Y).result()


def test_arguments_that_cannot_be(folder):
    for given, message in (
        ({"y": Y}, "y is a ndarray, but X is .*piece by piece; pass the name of the column that holds y"),
        ({"y": "prize"}, "y='prize': .* has no such column; did you mean 'price'"),
        ({"y": "a"}, "y='a': this column is a feature of the model"),
        ({}, "The score needs the target"),
        ({"y": "price", "qid": "day"}, "qid was given, but the loss"),
    ):
        with pytest.raises(ti.DataError, match=message):
            ti.importance(model(), folder, **given)
    with pytest.raises(ti.DataError, match="There is no data file"):
        ti.importance(model(), "nowhere.parquet", "price")
    with pytest.raises(ti.DataError, match=r"There are no data files .*nowhere-"):
        ti.importance(model(), "nowhere-*.parquet", "price")
    with pytest.raises(ti.DataError, match="There are no rows"):
        ti.importance(model(), iter(()), "price")
    with pytest.raises(ti.DataError, match=r"batch 0 is a tuple of 4; expected \(X, y\)"):
        ti.importance(model(), iter([(1, 2, 3, 4)]))
    with pytest.raises(ti.DataError, match=r"is a dict of 'X', 'target'; expected X, y, sample_weight"):
        ti.importance(model(), iter([{"X": ROWS, "target": Y}]))


def test_a_lazy_frame_with_an_array_is_collected(folder):
    lazy = pl.scan_parquet(f"{folder}/*.parquet").select(list(ROWS.columns))
    check_same(ti.importance(model(), lazy, Y, sample_weight=WEIGHT))


# -- attributions --------------------------------------------------------------------------------------------
def test_attributions_to_parquet(folder, tmp_path):
    whole = ti.attribute(model(), ROWS, base_margin=WEIGHT)
    out = tmp_path / "shares.parquet"
    n = ti.attribute_to_parquet(model(), folder, out, base_margin="w", keep_cols=["day", "note"], row_numbers=True)
    assert n == N
    found = pd.read_parquet(out)
    np.testing.assert_array_equal(found[list(ROWS.columns)].to_numpy(), whole.values)
    np.testing.assert_array_equal(found["base_value"], whole.base_values)
    np.testing.assert_array_equal(found["day"], FRAME["day"])
    assert found["row"].tolist() == list(range(N))
    ti.attribute_to_parquet(model(), ROWS, out, dtype="float32", method="treeshap")
    assert pq.read_schema(out).field("a").type == pa.float32()
    np.testing.assert_allclose(
        pd.read_parquet(out)["a"], ti.attribute(model(), ROWS, method="treeshap")[:, "a"], rtol=1e-6
    )


def test_attributions_of_a_path_in_memory(folder):
    np.testing.assert_array_equal(ti.attribute(model(), folder).values, ti.attribute(model(), ROWS).values)


def test_attributions_that_cannot_be(folder, tmp_path):
    out = tmp_path / "shares.parquet"
    with pytest.raises(ti.DataError, match=r"keep_cols='key': .* has no such column"):
        ti.attribute_to_parquet(model(), folder, out, keep_cols="key")
    with pytest.raises(ti.DataError, match="keep_cols='a': the attributions have a column of this name"):
        ti.attribute_to_parquet(model(), folder, out, keep_cols="a")
    with pytest.raises(ValueError, match="dtype='float16' is not recognised"):
        ti.attribute_to_parquet(model(), folder, out, dtype="float16")
    with pytest.raises(ti.DataError, match=r"part-2\.parquet: Column 'a' holds the string"):
        ti.attribute_to_parquet(model(), parts(folder, "text again", a="red"), out)
    assert not out.exists()
    assert not list(tmp_path.iterdir())


def test_pyarrow_alone_is_asked_for(monkeypatch):
    assert importlib.util.find_spec("pyarrow")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ti.MissingDependencyError, match="pip install pyarrow"):
        ti.importance(model(), "x.parquet", "price")


def test_a_pipeline_on_arrow_and_on_files(folder):
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    encode = make_column_transformer((OneHotEncoder(), ["kind"]), ("passthrough", ["a", "b"]))
    own = make_pipeline(encode, xgb.XGBRegressor(n_estimators=5, max_depth=2)).fit(X[:N], TARGET[:N])
    whole = ti.importance(own, ROWS, Y, feature_groups="original")
    arrow = pa.Table.from_pandas(ROWS)
    for found in (
        ti.importance(own, arrow, Y, feature_groups="original"),
        ti.importance(own, folder, "price", feature_groups="original"),
        ti.importance(own, FRAME, "price", feature_groups="original"),
    ):
        check_same(found, whole, fields=("scores", "std_errors", "p_values"))
        assert found.feature_names == whole.feature_names


def test_what_needs_all_rows_takes_names_and_files_too(folder, tmp_path):
    train = X[:N].assign(price=TARGET[:N], w=1.0)
    named = ti.permutation_importance(model(), FRAME, "price", sample_weight="w", random_state=0)
    files = ti.permutation_importance(model(), folder, "price", sample_weight="w", random_state=0)
    whole = ti.permutation_importance(model(), ROWS, Y, sample_weight=WEIGHT, random_state=0)
    for found in (named, files):
        check_same(found, whole, fields=("scores", "std_errors"))
    both = ti.compare(model(), train, "price", folder, "price", sample_weight_valid="w")
    check_same(both.valid["tree_inner"])
    page = ti.report(
        model(), folder, "price", sample_weight="w", X_train=train, y_train="price", path=tmp_path / "p.html"
    )
    assert page.stat().st_size > 10_000
