"""treeinner.dask on a cluster of two processes: the bits of one process, whatever dies; errors name the partition."""

import functools
import os
import pickle
import signal
import threading
import time
import warnings

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import VotingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import treeinner as ti
from treeinner.errors import DataError, UnsupportedModelError

from .test_accumulator import same_numbers

dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
tid = pytest.importorskip("treeinner.dask")

FEATURES = list("abcde")
N = 2000


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with (
        distributed.LocalCluster(processes=True, silence_logs=50, **options) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


@functools.cache
def rows():
    """Features, target and what else may come with the rows."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 5)), columns=FEATURES)
    frame["y"] = frame.a + 0.3 * frame.b * frame.c + rng.normal(size=N)
    frame["weight"] = rng.choice([0.0, 0.3, 1.0, 7.0], N)
    frame[["margin", "margin 1", "margin 2"]] = rng.normal(size=(N, 3))
    frame["cluster"] = rng.integers(0, 200, N)
    frame["query"] = np.arange(N) // 10
    frame["key"] = [f"row {i}" for i in range(N)]
    return frame


def labels(objective):
    return rows().y if objective == "reg:squarederror" else (rows().y > 0.5).astype(int) + (rows().y > 1)


@functools.cache
def model(objective="reg:squarederror"):
    """Fitted on the first 500 rows; scores are of the others."""
    kind = xgb.XGBRegressor if objective == "reg:squarederror" else xgb.XGBClassifier
    fitted = kind(objective=objective, n_estimators=12, max_depth=3, n_jobs=1)
    return fitted.fit(rows()[FEATURES][:500], labels(objective)[:500])


def held_out(objective="reg:squarederror"):
    return rows().assign(y=labels(objective))[500:]


COLUMNS = {"sample_weight": "weight", "clusters": "cluster"}
CASES = {
    "usual": {},
    "weights and clusters": COLUMNS,
    "margins": {"base_margin": "margin"},
    "loss": {"score": "loss", "sample_weight": "weight"},
    "scores alone": {"std_errors": False},
    "one round": {"method": "treeshap", "by_round": True},
    "forest_inner": {"score": "forest_inner"},
}


def settings_of(case, objective="reg:squarederror"):
    several = case == "margins" and objective != "reg:squarederror"
    return {"base_margin": ["margin", "margin 1", "margin 2"]} if several else CASES[case]


@functools.cache
def in_memory(case, objective="reg:squarederror"):
    frame = held_out(objective)
    given = {
        name: frame[value] if isinstance(value, list) else frame.get(value, value)
        for name, value in settings_of(case, objective).items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ti.TreeInnerWarning)
        return ti.importance(model(objective), frame[FEATURES], frame.y, **given)


def same(found, expected):
    same_numbers(found, expected)
    assert found.notes == expected.notes
    assert found.feature_names == expected.feature_names
    assert found.frame_library in (expected.frame_library, "")


def slowly(frame, seconds=0.05):
    time.sleep(seconds)
    return frame


# -- the same bits -----------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore::treeinner.TreeInnerWarning")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob"])
def test_every_case_has_the_bits_of_one_process(client, case, objective):
    frame = dd.from_pandas(held_out(objective), npartitions=5)
    same(
        tid.importance(client, model(objective), frame, "y", **settings_of(case, objective)), in_memory(case, objective)
    )


@pytest.mark.parametrize("sizes", [[1500], [1, 1499], [0, 700, 0, 0, 800, 0], [125] * 12])
def test_every_partitioning_has_the_bits_of_one_process(client, sizes):
    cuts = np.cumsum(sizes)[:-1]
    parts = [held_out().iloc[some] for some in np.split(np.random.default_rng(1).permutation(1500), cuts)]
    frame = dd.from_delayed([tid.delayed(part) for part in parts], meta=parts[0][:0])
    expected = in_memory("weights and clusters")
    same(tid.importance(client, model(), frame, "y", **COLUMNS, split_every=2), expected)
    beside = {name: frame[column] for name, column in COLUMNS.items()}
    same(tid.importance(None, model(), frame[FEATURES], frame["y"], **beside), expected)


@pytest.mark.parametrize("known", [True, False])
def test_arrays_of_known_and_unknown_chunks(client, known):
    frame = held_out()
    whole = dd.from_pandas(frame, npartitions=6)
    if known:
        X = da.from_array(frame[FEATURES].to_numpy(), chunks=(400, 2))
        beside = {name: da.from_array(frame[column].to_numpy(), chunks=77) for name, column in COLUMNS.items()}
        y = da.from_array(frame.y.to_numpy(), chunks=(1500,))
    else:
        X, y = whole[FEATURES].to_dask_array(), whole.y.to_dask_array()
        beside = {name: whole[column] for name, column in COLUMNS.items()}
    expected = in_memory("weights and clusters")
    same(tid.importance(client, model(), X, y, **beside), expected)
    array_beside_frame = tid.importance(client, model(), whole[FEATURES], whole.y.to_dask_array())
    same(array_beside_frame, in_memory("usual"))


def test_two_frames_of_one_source_are_read_in_the_same_partitions(client, tmp_path):
    """Dask reads several files in one partition where few of their columns are needed: other ones for X than for y."""
    frame = held_out()
    wide = frame.assign(**{f"unused {i}": 1.0 * i for i in range(60)})
    dd.from_pandas(wide, npartitions=12).to_parquet(tmp_path / "rows")
    read = dd.read_parquet(tmp_path / "rows")
    assert read["y"].optimize().npartitions != read.optimize().npartitions  # the trap
    same(tid.importance(client, model(), read[FEATURES], read["y"]), in_memory("usual"))
    same(tid.importance(client, model(), read, "y"), in_memory("usual"))
    filtered = read[read["unused 3"] > 0]
    same(tid.importance(client, model(), filtered[FEATURES], filtered["y"]), in_memory("usual"))


def test_a_frame_is_read_without_the_columns_that_nobody_needs(tmp_path):
    from treeinner.dask.rows import _narrowed

    dd.from_pandas(held_out(), npartitions=2).to_parquet(tmp_path / "rows")
    read = dd.read_parquet(tmp_path / "rows")
    assert list(_narrowed(read, [*FEATURES, "y"]).columns) == [*FEATURES, "y"]
    made = read.map_partitions(slowly)
    assert list(_narrowed(made, [*FEATURES, "y"]).columns) == list(made.columns)


def test_training_rows_are_noticed_on_the_cluster_too(client):
    train = rows()[:500]
    with pytest.warns(ti.TreeInnerWarning, match="These are the rows that the model was trained on"):
        expected = ti.importance(model(), train[FEATURES], train.y)
    with pytest.warns(ti.TreeInnerWarning, match="These are the rows that the model was trained on") as said:
        same(tid.importance(client, model(), dd.from_pandas(train, npartitions=1), "y"), expected)
    assert any(warning.filename == __file__ for warning in said)
    mixed = dd.from_pandas(rows(), npartitions=4)
    with pytest.warns(ti.TreeInnerWarning, match="Of the 500 rows of partition 0: These are the rows that the model"):
        found = tid.importance(client, model(), mixed, "y")
    assert found.notes[-1].startswith("Of the 500 rows of partition 0: ")


# -- models ------------------------------------------------------------------------------------------------------
def test_models_of_xgboost_dask(client):
    import xgboost.dask

    frame = dd.from_pandas(rows()[:500], npartitions=4)
    X, y = frame[FEATURES], frame["y"]
    output = xgboost.dask.train(client, {"max_depth": 3}, xgboost.dask.DaskDMatrix(client, X, y), num_boost_round=5)
    estimator = xgboost.dask.DaskXGBRegressor(n_estimators=5, max_depth=3)
    estimator.client = client
    estimator.fit(X, y)
    rest, new = held_out(), dd.from_pandas(held_out(), npartitions=3)
    for trained, local in ((output, output["booster"]), (estimator, estimator.get_booster())):
        same(tid.importance(client, trained, new, "y"), ti.importance(local, rest[FEATURES], rest.y))


def test_models_of_lightgbm_dask(client):
    X, y = dd.from_pandas(rows()[FEATURES][:500], npartitions=2), dd.from_pandas(rows().y[:500], npartitions=2)
    estimator = lightgbm.DaskLGBMRegressor(client=client, n_estimators=5, num_leaves=7, verbose=-1)
    estimator.fit(X, y)
    rest = held_out()
    found = tid.importance(client, estimator, dd.from_pandas(rest, npartitions=3), "y")
    same(found, ti.importance(estimator.to_local(), rest[FEATURES], rest.y))


def test_a_catboost_model_that_must_route_its_own_rows_and_a_pipeline(client):
    train = rows()[:500].assign(city=rows().key.str[-1])
    own = catboost.CatBoostRegressor(iterations=5, depth=3, verbose=0, one_hot_max_size=1, thread_count=1)
    own.fit(train[[*FEATURES, "city"]], train.y, cat_features=["city"])
    rest = held_out().assign(city=held_out().key.str[-1])
    opened = ti.read_model(own)
    assert opened.ensemble.schema.external
    assert pickle.loads(pickle.dumps(opened)).ensemble.schema.external
    expected = ti.importance(own, rest[[*FEATURES, "city"]], rest.y)
    same(tid.importance(client, own, dd.from_pandas(rest, npartitions=3), "y"), expected)

    piped = make_pipeline(StandardScaler().set_output(transform="pandas"), xgb.XGBRegressor(n_estimators=3, n_jobs=1))
    piped.fit(train[FEATURES], train.y)
    empty = held_out()[:0]
    parts = [tid.delayed(part) for part in (empty, held_out()[:900], empty, held_out()[900:])]
    expected = ti.importance(piped, rest[FEATURES], rest.y)
    same(tid.importance(client, piped, dd.from_delayed(parts, meta=empty), "y"), expected)


def test_codes_of_categories_that_the_model_does_not_store_must_be_the_same_everywhere(client):
    codes = rows().key.str[-1].astype(int)
    X = np.column_stack([rows().a, codes])
    matrix = xgb.DMatrix(X[:500], rows().y[:500], feature_types=["q", "c"], enable_categorical=True)
    booster = xgb.train({"max_depth": 3, "nthread": 1}, matrix, 5)
    digits = pd.CategoricalDtype(list("0123456789"))
    frame = pd.DataFrame({"a": rows().a, "digit": codes.astype(str).astype(digits), "y": rows().y})[500:]
    expected = ti.importance(booster, frame[["a", "digit"]], frame.y)
    known = dd.from_pandas(frame, npartitions=3)
    same(tid.importance(client, booster, known, "y"), expected)
    fewer = frame[1000:].assign(digit=frame.digit[1000:].cat.set_categories(list("9876543210")))
    parts = [tid.delayed(frame[:1000]), tid.delayed(fewer)]
    with pytest.raises(DataError, match="Partition 1: Column 'digit' has the categories '9', '8'"):
        tid.importance(client, booster, dd.from_delayed(parts, meta=frame[:0], verify_meta=False), "y")
    with pytest.raises(DataError, match="Column 'digit' holds categories that Dask does not know"):
        tid.importance(client, booster, known.assign(digit=known.digit.cat.as_unknown()), "y")


def test_ranking_needs_whole_queries(client):
    frame = rows().assign(grade=rows().y.clip(0, 3).astype(int))
    ranker = xgb.XGBRanker(objective="rank:ndcg", n_estimators=5, max_depth=3, n_jobs=1)
    ranker.fit(frame[FEATURES][:500], frame.grade[:500], qid=frame["query"][:500])
    rest = frame[500:]
    parts = dd.from_pandas(rest, npartitions=7).repartition(divisions=[500, 600, 1000, 1999])
    expected = ti.importance(ranker, rest[FEATURES], rest.grade, qid=rest["query"])
    same(tid.importance(client, ranker, parts, "grade", qid="query"), expected)
    torn = parts.repartition(divisions=[500, 605, 1000, 1999])
    with pytest.raises(
        DataError, match=r"^Partition 0 and Partition 1: Query 60 .*Bring each query into one partition"
    ):
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
    whole = dd.from_pandas(held_out(), npartitions=6)
    frame = whole.map_partitions(gated, str(gate), meta=whole._meta)
    second_pass = ti.ImportanceAccumulator.second_pass
    monkeypatch.setattr(ti.ImportanceAccumulator, "second_pass", lambda acc: (gate.touch(), second_pass(acc))[1])
    gate.touch()
    run = threading.Thread(target=lambda: found.append(tid.importance(client, model(), frame, "y", **COLUMNS)))
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
    same(found[0], in_memory("weights and clusters"))


def test_a_driver_that_fails_and_tries_again_and_two_actions_on_one_frame(client, monkeypatch):
    frame = dd.from_pandas(held_out(), npartitions=6).persist()
    second_pass = ti.ImportanceAccumulator.second_pass
    monkeypatch.setattr(ti.ImportanceAccumulator, "second_pass", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tid.importance(client, model(), frame, "y")
    monkeypatch.setattr(ti.ImportanceAccumulator, "second_pass", second_pass)
    same(tid.importance(client, model(), frame, "y"), in_memory("usual"))
    found = {}

    def act(case):
        found[case] = tid.importance(client, model(), frame, "y", **CASES[case])

    actions = [threading.Thread(target=act, args=[case]) for case in ("usual", "weights and clusters")]
    for action in actions:
        action.start()
    for action in actions:
        action.join(60)
    for case, importance in found.items():
        same(importance, in_memory(case))
    assert len(found) == 2


def shrinking(frame, path):
    """Give fewer rows each time that it is computed."""
    with open(path, "a") as stream:
        stream.write("x")
    return frame.iloc[os.path.getsize(path) :]


def noisy(frame):
    return frame.assign(y=frame.y + np.random.default_rng().normal(size=len(frame)))


def test_a_frame_that_changes_between_the_rounds_is_refused(client, tmp_path):
    whole = dd.from_pandas(held_out(), npartitions=3)
    one = dd.concat([whole.partitions[:2], whole.partitions[2].map_partitions(shrinking, str(tmp_path / "calls"))])
    with pytest.raises(DataError, match=r"^Partition 2 had 49. rows and then 49. rows: .*Persist"):
        tid.importance(client, model(), one, "y")
    with pytest.raises(DataError, match=r"The second pass saw other rows.*Persist"):
        tid.importance(client, model(), whole.map_partitions(noisy), "y")


def test_lost_and_doubled_partitions_are_noticed():
    from treeinner.scores.partitions import Part, add_partition, make_plan, merge_parts, run_rounds

    plan = make_plan(model(), caller=ti.importance)
    parts = [add_partition(plan.start, k, [{"X": held_out()[k : k + 9], "y": "y"}]) for k in range(3)]
    with pytest.raises(ti.errors.ModelError, match=r"Rows were lost on the way: .* partition 1 is not in the sums"):
        run_rounds(plan, lambda _: merge_parts([parts[0], parts[2]]), 3)
    with pytest.raises(ti.errors.ModelError, match="27 rows, and the sums have 18 rows"):
        run_rounds(plan, lambda _: Part(merge_parts(parts[:2]).sums, merge_parts(parts).rows), 3)
    with pytest.raises(DataError, match="Partition 1 and Partition 1: Batch 1 was added already"):
        merge_parts([*parts, parts[1]])


# -- bad input ---------------------------------------------------------------------------------------------------
def other(frame, **changed):
    return frame.assign(**changed)


BAD = {
    "another column": (lambda f: f.rename(columns={"c": "z"}), "Partition 2: It has the columns"),
    "a column too few": (lambda f: f.drop(columns="c"), "Partition 2: It has the columns"),
    "another order": (lambda f: f[f.columns[::-1]], "Partition 2: It has the columns .* in another order"),
    "empty with other columns": (lambda f: f[:0].drop(columns="b"), "Partition 2: It has the columns"),
    "another type": (lambda f: f.assign(b="text"), "Partition 2: Column 'b' holds the string 'text'"),
    "no label column": (lambda f: f.drop(columns="y"), "Partition 2: It has the columns"),
    "a missing label": (lambda f: f.assign(y=f.y.where(f.a > 0)), "Partition 2: y is missing"),
    "a negative weight": (lambda f: f.assign(weight=-1.0), "Partition 2: sample_weight holds -1 in row 0"),
    "no cluster": (lambda f: f.assign(cluster=np.nan), "Partition 2: clusters has no label in row 0"),
    "clusters of another type": (lambda f: f.assign(cluster="x"), "Partition.* and Partition.*: Clusters are labelled"),
    "no frame": (lambda f: f.to_numpy(), "Partition 2: It has the columns"),
}


@pytest.mark.parametrize("what", BAD)
def test_an_error_names_the_partition(client, what):
    change, message = BAD[what]
    parts = [held_out()[k : k + 300] for k in range(0, 1500, 300)]
    parts[2] = change(parts[2])
    frame = dd.from_delayed([tid.delayed(part) for part in parts], meta=parts[0][:0], verify_meta=False)
    with pytest.raises(DataError, match=message) as caught:
        tid.importance(client, model(), frame, "y", **COLUMNS)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_what_is_wrong_with_all_partitions_is_said_before_anything_runs(client):
    frame = dd.from_pandas(held_out(), npartitions=3)
    X, y = frame[FEATURES], frame["y"]
    refused = [
        (lambda: tid.importance(client, model(), frame, "label"), "y='label': X has no such column"),
        (lambda: tid.importance(client, model(), frame.drop(columns="b"), "y"), "X lacks 1 of the 5 columns"),
        (lambda: tid.importance(client, model(), X, held_out().y), "y is a Series, but X is spread over a cluster"),
        (lambda: tid.importance(client, model(), held_out(), "y"), "X is a pandas DataFrame, expected a dask"),
        (lambda: tid.importance(client, model(), X, y.repartition(npartitions=1)), "y has 1 partition, but X has 3"),
        (lambda: tid.importance(client, model(), X, y.repartition(divisions=[500, 700, 900, 1999])), "y has other div"),
        (lambda: tid.importance(client, model(), X.to_dask_array(), "y"), "X is a dask Array without column names"),
        (lambda: tid.importance(client, model(), frame, "y", oob=True), "oob=True needs the training rows"),
    ]  # fmt: skip
    for call, message in refused:
        with pytest.raises(DataError, match=message):
            call()
    known = da.from_array(held_out()[FEATURES].to_numpy(), chunks=500)
    with pytest.raises(DataError, match="y has 1,400 rows, but X has 1,500"):
        tid.importance(client, model(), known, da.ones(1400))
    with pytest.raises(TypeError, match=r"importance\(\) got an unexpected argument 'learning_rates'; did you mean"):
        tid.importance(client, model(), frame, "y", learning_rates=0.1)
    with pytest.raises(ValueError, match="split_every=1: expected an integer, 2 or more"):
        tid.importance(client, model(), frame, "y", split_every=1)
    with pytest.raises(TypeError, match="client is a XGBRegressor, expected a distributed"):
        tid.importance(model(), X, y, None)


def test_rows_that_stand_side_by_side_must_belong_together(client):
    frame = dd.from_pandas(held_out(), npartitions=3)
    turned = frame.map_partitions(lambda part: part[::-1], meta=frame._meta).clear_divisions()
    with pytest.raises(DataError, match=r"Partition .: y has another index than X"):
        tid.importance(client, model(), frame[FEATURES].clear_divisions(), turned["y"])
    X = frame[FEATURES].to_dask_array()
    y = dd.from_delayed([tid.delayed(held_out().y[:n]) for n in (500, 10, 500)], meta=held_out().y[:0])
    with pytest.raises(DataError, match="Partition 1: y has 10 rows, but X has 500"):
        tid.importance(client, model(), X, y.to_dask_array())


def test_what_cannot_be_added_up_is_refused_by_name(client):
    frame = dd.from_pandas(held_out(), npartitions=3)
    train = rows()[:500]
    cox = xgb.XGBRegressor(objective="survival:cox", n_estimators=3, n_jobs=1).fit(train[FEATURES], train.y.abs() + 1)
    with pytest.raises(UnsupportedModelError, match=r"survival:cox.*depends on all rows together"):
        tid.importance(client, cox, frame, "y")
    voting = VotingRegressor([(name, xgb.XGBRegressor(n_estimators=2, n_jobs=1)) for name in ("one", "two")])
    with pytest.raises(UnsupportedModelError, match=r"VotingRegressor is not one ensemble of trees.*ti\.members"):
        tid.importance(client, voting.fit(train[FEATURES], train.y), frame, "y")
    empty = dd.from_pandas(held_out()[:0], npartitions=1)
    with pytest.raises(DataError, match="There are no rows to score"):
        tid.importance(client, model(), empty, "y")


def test_without_a_client_it_says_what_to_make(monkeypatch):
    def none():
        raise ValueError("No global client found and no address provided")

    monkeypatch.setattr(tid, "get_client", none)
    with pytest.raises(ValueError, match="client=None means the current client, and there is none; make one"):
        tid.importance(None, model(), dd.from_pandas(held_out(), npartitions=2), "y")


# -- attributions ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob"])
def test_attributions_are_lazy_and_have_the_bits_of_one_process(client, tmp_path, objective):
    frame = held_out().assign(margin=0.0) if objective != "reg:squarederror" else held_out()
    parts = [tid.delayed(part) for part in (frame[:700], frame[:0], frame[700:])]
    table = dd.from_delayed(parts, meta=frame[:0], verify_meta=False)
    given = {"base_margin": "margin"} if objective == "reg:squarederror" else {}
    lazy = tid.attribute(client, model(objective), table, keep_cols=["key", "query"], **given)
    assert isinstance(lazy, dd.DataFrame)
    found = lazy.compute()
    margins = frame.margin.to_numpy() if given else None
    expected = ti.attribute(model(objective), frame[FEATURES], base_margin=margins)
    features = expected.to_frame()
    assert list(found.columns) == list(lazy.columns)
    ti.attribute_to_parquet(model(objective), frame, tmp_path / "a.parquet", keep_cols=["key", "query"], **given)
    assert found.equals(pd.read_parquet(tmp_path / "a.parquet").set_index(found.index))
    assert found[features.columns].equals(features)
    base = [name for name in found.columns if name.endswith("base_value")]
    assert np.array_equal(found[base].to_numpy(), expected.by_output[1])
    assert found[["key", "query"]].equals(frame[["key", "query"]])
    assert found.dtypes.tolist() == lazy.dtypes.tolist()


def test_attributions_of_an_array_in_float32(client):
    X = held_out()[FEATURES].to_numpy()
    found = tid.attribute(
        None, model(), da.from_array(X, chunks=(400, 3)), method="treeshap", dtype="float32"
    ).compute()
    expected = ti.attribute(model(), X, method="treeshap")
    assert np.array_equal(found[FEATURES].to_numpy(), expected.values.astype(np.float32))
    assert found.index.tolist() == list(range(1500))
    blocks = [da.from_delayed(tid.delayed(block), (10, 5), float) for block in (X[:10], X[:10, :3])]
    lazy = tid.attribute(client, model(), da.concatenate(blocks))
    with pytest.raises(DataError, match=r"Partition 1: .*column"):
        lazy.compute()
    with pytest.raises(DataError, match="keep_cols='a': the attributions have a column of this name"):
        tid.attribute(client, model(), dd.from_pandas(held_out(), npartitions=2), keep_cols="a")
