"""treeinner.dask on a cluster of two processes: the bits of one process, whatever dies; errors name the partition."""

import importlib
import os
import signal
import subprocess
import sys
import threading
import time

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import VotingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from treeinner.errors import DataError, ModelError, TreeInnerWarning, UnsupportedModelError
from treeinner.read import read_model
from treeinner.read.columns import credit
from treeinner.score import partitions
from treeinner.score.passes import leaf_pass
from treeinner.score.spec import make_spec

from .clusters import FEATURES, TRAINED, held_out, in_memory, model, rows, same, same_change

MODULE = "treeinner.dask"

dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
tid = importlib.import_module(MODULE)
delayed = tid.delayed
pytestmark = [pytest.mark.timeout(120), pytest.mark.filterwarnings("ignore::treeinner.TreeInnerWarning")]

COLUMNS = {"sample_weight": "weight", "clusters": "cluster"}
CASES = {
    "usual": {},
    "weights and clusters": COLUMNS,
    "margins": {"base_margin": "margin"},
    "loss": {"score": "loss", "sample_weight": "weight"},
    "scores alone": {"std_errors": False},
    "one pass": {"score": "tree_inner", "std_errors": False},
    "one round": {"score": "tree_inner", "method": "treeshap"},
    "stored": {"method": "saabas", "score": "loss", "clusters": "cluster"},
    "segments": {"by": "grade", "sample_weight": "weight"},
}


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with (
        distributed.LocalCluster(processes=True, silence_logs=50, **options) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


def in_parts(parts):
    return dd.from_delayed([delayed(part) for part in parts], meta=held_out()[:0], verify_meta=False)


# -- the same bits -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("label", ["label", "class"])
def test_every_case_has_the_bits_of_one_process(client, case, label):
    fitted = model() if label == "label" else model(xgb.XGBClassifier, "class")
    several = {"base_margin": ["margin", "margin 1", "margin 2"]}
    settings = several if case == "margins" and label == "class" else CASES[case]
    found = tid.importance(client, fitted, dd.from_pandas(held_out(), npartitions=5), label, **settings)
    expected = in_memory(fitted, label, **settings)
    same(found, expected)
    assert {note.code for note in expected.notes} <= {note.code for note in found.notes}
    assert found.frame_library == expected.frame_library


def test_two_data_frames_are_compared_as_in_memory(client):
    before, after = held_out()[:900], held_out()[900:].reset_index(drop=True)
    sides = [dd.from_pandas(frame, npartitions=n) for frame, n in ((before, 3), (after, 2))]
    found = tid.compare(client, model(), *sides, "label", sample_weight="weight", names=("then", "now"))
    assert found.names == ("then", "now")
    same_change(found, before, after, sample_weight="weight")
    with pytest.raises(TypeError, match="importance has segments"):
        tid.compare(client, model(), *sides, "label", by="weight")
    with pytest.raises(DataError, match=r"^now: "):
        tid.compare(client, model(), sides[0], sides[1].assign(label=float("nan")), "label", names=("then", "now"))


@pytest.mark.parametrize("sizes", [[1500], [1, 1499], [0, 700, 0, 0, 800, 0], [100] * 15])
def test_every_partitioning_has_the_bits_of_one_process(client, sizes):
    order = np.split(np.random.default_rng(1).permutation(1500), np.cumsum(sizes)[:-1])
    frame = in_parts([held_out().iloc[some] for some in order])
    expected = in_memory(model(), **COLUMNS)
    same(tid.importance(client, model(), frame, "label", **COLUMNS), expected)
    beside = {name: frame[column] for name, column in COLUMNS.items()}
    same(tid.importance(None, model(), frame[FEATURES], frame["label"], **beside), expected)


@pytest.mark.parametrize("known", [True, False])
def test_arrays_of_known_and_unknown_chunks(client, known):
    frame = held_out()
    whole = dd.from_pandas(frame, npartitions=6)
    if known:
        X = da.from_array(frame[FEATURES].to_numpy(), chunks=(400, 2))
        beside = {name: da.from_array(frame[column].to_numpy(), chunks=77) for name, column in COLUMNS.items()}
        y = da.from_array(frame.label.to_numpy(), chunks=(1500,))
    else:
        X, y = whole[FEATURES].to_dask_array(), whole.label.to_dask_array()
        beside = {name: whole[column] for name, column in COLUMNS.items()}
    same(tid.importance(client, model(), X, y, **beside), in_memory(model(), **COLUMNS))
    array_beside_frame = tid.importance(client, model(), whole[FEATURES], whole.label.to_dask_array())
    same(array_beside_frame, in_memory(model()))


def test_two_frames_of_one_source_are_read_in_the_same_partitions(client, tmp_path):
    """Dask reads several files in one partition where few of their columns are needed: other ones for X than for y."""
    wide = held_out().assign(**{f"unused {i}": 1.0 * i for i in range(60)})
    dd.from_pandas(wide, npartitions=12).to_parquet(tmp_path / "rows")
    read = dd.read_parquet(tmp_path / "rows")
    assert read["label"].optimize().npartitions != read.optimize().npartitions  # the trap
    same(tid.importance(client, model(), read[FEATURES], read["label"]), in_memory(model()))
    same(tid.importance(client, model(), read, "label"), in_memory(model()))
    filtered = read[read["unused 3"] > 0]
    same(tid.importance(client, model(), filtered[FEATURES], filtered["label"]), in_memory(model()))
    assert list(tid._narrowed(read, [*FEATURES, "label"]).columns) == [*FEATURES, "label"]


def numbered(frame, path):
    """Count how often a partition is computed."""
    with open(path, "a") as stream:
        stream.write("x")
    return frame


def test_a_partition_is_computed_once_in_a_round_whatever_is_taken_from_it(client, tmp_path):
    whole = dd.from_pandas(held_out(), npartitions=3)
    frame = whole.map_partitions(numbered, str(tmp_path / "calls"), meta=whole._meta)
    found = tid.importance(client, model(), frame[FEATURES], frame["label"], clusters=frame["cluster"])
    same(found, in_memory(model(), clusters="cluster"))
    assert (tmp_path / "calls").read_text() == "x" * 6  # two rounds


@pytest.mark.filterwarnings("default::treeinner.TreeInnerWarning")
def test_warnings_of_the_workers_reach_the_user(client):
    train = rows()[:TRAINED]
    with pytest.warns(TreeInnerWarning, match="Partition 1: Training rows are among these rows") as said:
        found = tid.importance(client, model(), in_parts([held_out(), train]), "label")
    assert any(warning.filename == __file__ for warning in said)
    assert "training_rows" in [note.code for note in found.notes]
    city = train.key.astype(str).str[-1]
    own = lightgbm.LGBMRegressor(n_estimators=5, num_leaves=7, verbose=-1)
    own.fit(train.assign(city=city.astype("category"))[["a", "city"]], train.label)
    frame = held_out().assign(city=held_out().key.astype(str).str[-1].where(held_out().key < 1500, "x"))
    with pytest.warns(TreeInnerWarning, match="Partition 2: .*city"):
        tid.importance(client, own, dd.from_pandas(frame.astype({"city": "category"}), npartitions=3), "label")


# -- models ------------------------------------------------------------------------------------------------------
def test_models_of_xgboost_dask_and_lightgbm_dask(client):
    import xgboost.dask

    frame = dd.from_pandas(rows()[:TRAINED], npartitions=4)
    X, y = frame[FEATURES], frame["label"]
    output = xgboost.dask.train(client, {"max_depth": 3}, xgboost.dask.DaskDMatrix(client, X, y), num_boost_round=5)
    estimator = xgboost.dask.DaskXGBRegressor(n_estimators=5, max_depth=3)
    estimator.client = client
    estimator.fit(X, y)
    new = dd.from_pandas(held_out(), npartitions=3)
    light = lightgbm.DaskLGBMRegressor(client=client, n_estimators=5, num_leaves=7, verbose=-1).fit(X, y)
    for trained, local in (
        (output, output["booster"]),
        (estimator, estimator.get_booster()),
        (light, light.to_local()),
    ):
        same(tid.importance(client, trained, new, "label"), in_memory(local))


@pytest.mark.parametrize("groups", [None, "encoded"])
def test_a_pipeline_is_probed_on_the_first_partition_with_rows(client, groups):
    train = rows()[:TRAINED]
    encoder = OneHotEncoder(sparse_output=False).set_output(transform="pandas")
    piped = make_pipeline(encoder, StandardScaler(), xgb.XGBRegressor(n_estimators=3, n_jobs=1))
    piped.fit(train[["grade", "class"]], train.label)
    parts = (held_out()[:0], held_out()[:900], held_out()[:0], held_out()[900:])
    found = tid.importance(client, piped, in_parts(parts), "label", feature_groups=groups)
    same(found, in_memory(piped, features=["grade", "class"], feature_groups=groups))
    assert len(found.feature_names) == (7 if groups else 2)


def test_codes_of_categories_that_the_model_does_not_store_must_be_the_same_everywhere(client):
    codes = rows().key % 10
    matrix = xgb.DMatrix(
        np.column_stack([rows().a, codes])[:TRAINED], rows().label[:TRAINED], feature_types=["q", "c"],
        enable_categorical=True,
    )  # fmt: skip
    booster = xgb.train({"max_depth": 3, "nthread": 1}, matrix, 5)
    digits = pd.CategoricalDtype(list("0123456789"))
    frame = pd.DataFrame({"a": rows().a, "digit": codes.astype(str).astype(digits), "label": rows().label})[500:]
    known = dd.from_pandas(frame, npartitions=3)
    same(tid.importance(client, booster, known, "label"), in_memory(booster, frame=frame, features=["a", "digit"]))
    other = frame[1000:].assign(digit=frame.digit[1000:].cat.set_categories(list("9876543210")))
    parts = dd.from_delayed([delayed(frame[:1000]), delayed(other)], meta=frame[:0], verify_meta=False)
    with pytest.raises(DataError, match=r"Partition 1: It has the columns .*'9', '8'"):
        tid.importance(client, booster, parts, "label")
    with pytest.raises(DataError, match=r"Partition .: It has the columns .*UNKNOWN.*categories of training"):
        tid.importance(client, booster, known.assign(digit=known.digit.cat.as_unknown()), "label")


def test_ranking_needs_whole_queries(client):
    ranker = model(xgb.XGBRanker, "grade")
    parts = dd.from_pandas(held_out(), npartitions=7).repartition(divisions=[0, 100, 500, 1499])
    expected = in_memory(ranker, "grade", qid="query")
    same(tid.importance(client, ranker, parts, "grade", qid="query"), expected)
    torn = parts.repartition(divisions=[0, 105, 500, 1499])
    with pytest.raises(DataError, match=r"^Partition.* Query 60 .*Bring each query into one partition"):
        tid.importance(client, ranker, torn, "grade", qid="query")


# -- faults ------------------------------------------------------------------------------------------------------
def gated(frame, path):
    """Wait as long as the file is there."""
    end = time.monotonic() + 60
    while os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.02)
    return frame


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_every_worker_killed_in_turn_in_both_rounds_changes_no_bit(client, tmp_path, monkeypatch):
    gate, found = tmp_path / "gate", []
    whole = dd.from_pandas(held_out().drop(columns="weight"), npartitions=6)
    frame = whole.map_partitions(gated, str(gate), meta=whole._meta)
    passes = importlib.import_module("treeinner.score.conclude")
    node_means = passes.node_means
    monkeypatch.setattr(passes, "node_means", lambda *args: (gate.touch(), node_means(*args))[1])
    gate.touch()
    run = threading.Thread(target=lambda: found.append(tid.importance(client, model(), frame, "label")))
    run.start()
    killed = set()
    for _ in range(2):
        wait_until(gate.exists)
        client.wait_for_workers(2, timeout=60)
        for worker in client.run(os.getpid).items():  # with the model and a partition, and sums of others
            wait_until(lambda: any(map(any, client.processing().values())))
            os.kill(worker[1], getattr(signal, "SIGKILL", signal.SIGTERM))
            killed.add(worker[1])
        gate.unlink()
    run.join(90)
    assert len(killed) == 4
    same(found[0], in_memory(model()))


def shrinking(frame, path):
    """Give fewer rows each time that it is computed."""
    return numbered(frame, path).iloc[os.path.getsize(path) :]


def noisy(frame):
    return frame.assign(label=frame.label + np.random.default_rng().normal(size=len(frame)))


def test_a_frame_that_changes_between_the_rounds_is_refused(client, tmp_path):
    whole = dd.from_pandas(held_out(), npartitions=3)
    one = dd.concat([whole.partitions[:2], whole.partitions[2].map_partitions(shrinking, str(tmp_path / "calls"))])
    with pytest.raises(DataError, match=r"^Partition 2 had 49. rows and then 49.: .*Persist"):
        tid.importance(client, model(), one, "label")
    with pytest.raises(DataError, match=r"The second pass saw other rows.*Persist"):
        tid.importance(client, model(), whole.map_partitions(noisy), "label")


def answered(part):
    """Three partitions of which a cluster says this."""
    return partitions.Partitions(run=lambda _: part, head=None, names=None, given=(), reading={}, n_partitions=3)


def test_lost_and_doubled_partitions_are_noticed():
    opened = read_model(model())
    spec = make_spec(opened, credit(opened, None, None), score="tree_inner", method="centred")
    job = partitions.Job(work=leaf_pass, model=opened, spec=spec)
    X, y = held_out()[FEATURES], held_out().label
    parts = [partitions.of_partition(job, k, [{"X": X[k : k + 9], "y": y[k : k + 9]}]) for k in range(3)]
    two, three = partitions.add_parts([parts[0], parts[2]]), partitions.add_parts(parts)
    with pytest.raises(ModelError, match=r"Rows were lost on the way: .* partition 1 is not in the sums"):
        answered(two).total(leaf_pass, opened, spec)
    with pytest.raises(ModelError, match="27 rows, and the sums have 18 rows"):
        answered(partitions.Part(two.sums, three.rows, {})).total(leaf_pass, opened, spec)
    with pytest.raises(ModelError, match="Partition 1 was added twice"):
        partitions.add_parts([three, parts[1]])


def test_nothing_is_printed_at_exit_of_a_process_that_holds_its_workers():
    code = f"""
import importlib, dask.dataframe as dd, distributed
from tests.clusters import held_out, model
tid = importlib.import_module({MODULE!r})
client = distributed.Client(processes=False, dashboard_address=None, n_workers=1, threads_per_worker=2)
print(tid.importance(client, model(), dd.from_pandas(held_out(), npartitions=3), "label").n_rows)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.strip() == "1500"
    assert "nanobind" not in done.stderr


# -- bad input ---------------------------------------------------------------------------------------------------
BAD = {
    "another column": (lambda f: f.rename(columns={"c": "z"}), "Partition 2: It has the columns"),
    "another order": (lambda f: f[f.columns[::-1]], "Partition 2: It has the columns"),
    "empty with other columns": (lambda f: f[:0].drop(columns="b"), "Partition 2: It has the columns"),
    "another type": (lambda f: f.assign(b="text"), "Partition 2: Column 'b' holds 'text'"),
    "a negative weight": (lambda f: f.assign(weight=-1.0), "Partition 2: sample_weight is negative"),
    "no cluster": (lambda f: f.assign(cluster=np.nan), "Partition 2: clusters"),
    "clusters of another type": (lambda f: f.assign(cluster="x"), "Partitions .*Clusters are labelled"),
    "no frame": (lambda f: f.to_numpy(), "Partition 2: It has the columns"),
}


@pytest.mark.parametrize("what", BAD)
def test_an_error_names_the_partition(client, what):
    change, message = BAD[what]
    parts = [held_out()[k : k + 300] for k in range(0, 1500, 300)]
    parts[2] = change(parts[2])
    with pytest.raises(DataError, match=message) as caught:
        tid.importance(client, model(), in_parts(parts), "label", **COLUMNS)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_what_is_wrong_with_all_partitions_is_said_before_anything_runs(client):
    frame = dd.from_pandas(held_out(), npartitions=3)
    X, y = frame[FEATURES], frame["label"]
    refused = [
        ((frame, "labels"), "y='labels': X has no such column"),
        ((frame.drop(columns="b"), "label"), "X lacks 'b'"),
        ((X, held_out().label), "y is of .*Series"),
        ((held_out(), "label"), "X is of .*expected a dask"),
        ((X, y.repartition(npartitions=1)), "y has 1 partition, but X has 3"),
        ((X.to_dask_array(), "label"), "y='label': X has no such column; it is no data frame"),
        ((da.from_array(held_out()[FEATURES].to_numpy(), chunks=500), da.ones(1400)), "y has 1 partition, but X has 3"),
    ]
    for rows_, message in refused:
        with pytest.raises(DataError, match=message):
            tid.importance(client, model(), *rows_)
    with pytest.raises(TypeError, match=r"client is of .*XGBRegressor.*, expected a distributed"):
        tid.importance(model(), X, y, None)


def test_rows_that_stand_side_by_side_must_belong_together(client):
    frame = dd.from_pandas(held_out(), npartitions=3)
    turned = frame.map_partitions(lambda part: part[::-1], meta=frame._meta)
    with pytest.raises(DataError, match=r"Partition .: y has another index than X"):
        tid.importance(client, model(), frame[FEATURES], turned["label"])
    y = dd.from_delayed([delayed(held_out().label[:n]) for n in (500, 10, 500)], meta=held_out().label[:0])
    with pytest.raises(DataError, match=r"Partition 1: y has .*10.*500"):
        tid.importance(client, model(), frame[FEATURES].to_dask_array(), y.to_dask_array())


def test_what_cannot_be_added_up_is_refused_by_name(client):
    frame, train = dd.from_pandas(held_out(), npartitions=3), rows()[:TRAINED]
    cox = xgb.XGBRegressor(objective="survival:cox", n_estimators=3, n_jobs=1)
    with pytest.raises(UnsupportedModelError, match=r"survival:cox.*depends on all rows together"):
        tid.importance(client, cox.fit(train[FEATURES], train.label.abs() + 1), frame, "label")
    voting = VotingRegressor([(name, xgb.XGBRegressor(n_estimators=2, n_jobs=1)) for name in ("one", "two")])
    with pytest.raises(UnsupportedModelError, match="VotingRegressor"):
        tid.importance(client, voting.fit(train[FEATURES], train.label), frame, "label")
    with pytest.raises(DataError, match="There are no rows to score"):
        tid.importance(client, model(), dd.from_pandas(held_out()[:0], npartitions=1), "label")
