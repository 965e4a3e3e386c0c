"""treeinner.spark on a real Spark, classic and Connect: bits of one process, whatever dies; errors name partitions."""

import importlib
import os
import shutil
import socket
import stat
import sys

import numpy as np
import pytest
import xgboost as xgb
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import treeinner as ti
from treeinner.errors import DataError, MissingDependencyError

from .clusters import FEATURES, TRAINED, held_out, in_memory, model, rows, same, same_change

MODULE = "treeinner.spark"

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-spark` installs it")
pa = pytest.importorskip("pyarrow")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java 17 (Debian: apt-get install openjdk-17-jre-headless)", allow_module_level=True)
tis = importlib.import_module(MODULE)
pytestmark = [pytest.mark.timeout(120), pytest.mark.filterwarnings("ignore::treeinner.TreeInnerWarning")]

COLUMNS = {"weight_col": "weight", "base_margin_col": "margin", "clusters_col": "cluster"}
GIVEN = {"sample_weight": "weight", "base_margin": "margin", "clusters": "cluster"}


@pytest.fixture(scope="module")
def server():
    """A classic session that tries tasks up to four times, and the port of a Connect server beside it."""
    from pyspark.sql import SparkSession

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    options = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
        "spark.log.level": "FATAL",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        session = SparkSession.builder.master("local[2,4]").appName("treeinner").config(map=options).getOrCreate()
        yield session, port
        session.stop()


@pytest.fixture(scope="module")
def classic(server):
    return server[0]


@pytest.fixture(scope="module", params=["classic", "connect"])
def spark(request, server):
    if request.param == "classic":
        yield server[0]
        return
    pytest.importorskip("grpc_status", reason="a Connect client needs pyspark[connect]")
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(f"sc://127.0.0.1:{server[1]}").create()
    yield session
    session.client.close()


def in_partitions(spark, n, frame=None):
    """Rows by their grades: of five partitions some are empty."""
    df = spark.createDataFrame(held_out() if frame is None else frame)
    return df.coalesce(1) if n == 1 else df.repartition(n, "grade")


# -- the same bits -----------------------------------------------------------------------------------------------
def test_any_partitions_give_the_bits_of_one_process(spark):
    for n in (1, 5):
        found = tis.importance(model(), in_partitions(spark, n), **COLUMNS)
        same(found, in_memory(model(), **GIVEN))
        assert type(found.to_frame()).__module__.split(".")[0] == "pandas"
    df = in_partitions(spark, 5)
    classes, several = model(xgb.XGBClassifier, "class"), ["margin", "margin 1", "margin 2"]
    found = tis.importance(classes, df, label_col="class", base_margin_col=several, score="loss")
    same(found, in_memory(classes, "class", base_margin=several, score="loss"))
    one_round = {"score": "tree_inner", "method": "treeshap", "std_errors": False}
    same(tis.importance(model(), df, **one_round), in_memory(model(), **one_round))


def test_segments_and_two_data_frames_have_the_bits_of_one_process(spark):
    found = tis.importance(model(), in_partitions(spark, 5), by_col=["grade", "class"], weight_col="weight")
    same(found, in_memory(model(), by=["grade", "class"], sample_weight="weight"))
    before, after = held_out()[:900], held_out()[900:].reset_index(drop=True)
    frames = [in_partitions(spark, n, frame) for n, frame in ((3, before), (2, after))]
    same_change(tis.compare(model(), *frames, sample_weight="weight"), before, after, sample_weight="weight")


def test_names_with_dots_and_a_pipeline(spark):
    frame = held_out().rename(columns={"grade": "my.grade", "label": "the.label"})
    train = rows()[:TRAINED].rename(columns={"grade": "my.grade"})
    encoder = OneHotEncoder(sparse_output=False).set_output(transform="pandas")
    piped = make_pipeline(encoder, xgb.XGBRegressor(n_estimators=3, n_jobs=1))
    piped.fit(train[["class", "my.grade"]], train.label)
    found = tis.importance(piped, spark.createDataFrame(frame).repartition(2), label_col="the.label")
    same(found, in_memory(piped, "the.label", frame, ["class", "my.grade"]))
    assert found.feature_names == ("class", "my.grade")


def test_a_column_of_vectors_or_arrays(spark):
    frame = held_out()[["label"]].assign(features=held_out()[FEATURES].to_numpy().tolist())
    df = spark.createDataFrame(frame).repartition(2)
    found = tis.importance(model(names=False), df, features_col="features")
    assert np.array_equal(found.scores, in_memory(model()).scores)
    assert found.feature_names == ("f0", "f1", "f2", "f3", "f4")
    short = frame.assign(features=[row[: 5 - (i > 700)] for i, row in enumerate(frame.features)])
    with pytest.raises(DataError, match=r"^Partition \d: 'features' .* 4 to 5 values"):
        tis.importance(model(names=False), spark.createDataFrame(short).coalesce(1), features_col="features")


def test_vectors_of_pyspark_and_a_model_of_xgboost_spark(classic):
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.linalg import Vectors
    from xgboost.spark import SparkXGBRegressorModel

    df = VectorAssembler(inputCols=FEATURES, outputCol="inputs").transform(in_partitions(classic, 1)).drop(*FEATURES)
    fitted = SparkXGBRegressorModel(model(names=False))
    fitted._set(featuresCol="inputs")
    found = tis.importance(fitted, df, std_errors=False)
    assert np.array_equal(found.scores, in_memory(model()).scores)
    assert found.feature_names == tuple(FEATURES)  # the assembler left them with the column
    other = VectorAssembler(inputCols=FEATURES[::-1], outputCol="inputs").transform(in_partitions(classic, 1))
    with pytest.raises(DataError, match="assemble the columns as for training"):
        tis.importance(model(), other, features_col="inputs")
    X = rows()[FEATURES].to_numpy() * (rows()[FEATURES] > 0.2).to_numpy()  # what a sparse vector leaves out is missing
    sparse = xgb.XGBRegressor(n_estimators=5, max_depth=3, missing=0.0).fit(X[:TRAINED], rows().label[:TRAINED])
    pairs = [(float(y), Vectors.sparse(5, np.flatnonzero(x), x[x != 0])) for y, x in zip(rows().label, X, strict=True)]
    found = tis.importance(
        sparse, classic.createDataFrame(pairs[TRAINED:], ["label", "features"]), features_col="features"
    )
    assert np.array_equal(found.scores, ti.importance(sparse, X[TRAINED:], rows().label[TRAINED:]).scores)


def test_queries_are_brought_together_in_the_order_of_their_rows(spark):
    ranker = model(xgb.XGBRanker, "grade")
    df = spark.createDataFrame(held_out()).repartition(3).repartitionByRange(3, "key").sortWithinPartitions("key")
    found = tis.importance(ranker, df, label_col="grade", qid_col="query")
    same(found, in_memory(ranker, "grade", qid="query"))


# -- faults ------------------------------------------------------------------------------------------------------
@pytest.mark.skipif(not os.path.isdir("/proc"), reason="workers are found in /proc")
def test_killed_workers_and_tasks_that_fail_first(classic, tmp_path):
    """Every partition fails at its first attempt; in the second round all Python workers are killed, ours included."""
    marks = str(tmp_path)

    def fragile(batches):
        import os
        import signal

        from pyspark import TaskContext

        number, attempt = TaskContext.get().partitionId(), TaskContext.get().attemptNumber()
        for k, batch in enumerate(batches):
            yield batch
            if k == 1 and attempt == 0:
                done = len(os.listdir(marks))
                open(os.path.join(marks, f"{number}-{os.getpid()}-{done}"), "w").close()
                if done < 2:
                    raise RuntimeError("the first attempt")
                assert os.getppid() > 1  # the daemon of the workers, not the machine's first process
                siblings = []
                for name in filter(str.isdigit, os.listdir("/proc")):
                    with open(f"/proc/{name}/stat") as status:
                        if int(status.read().rpartition(")")[2].split()[1]) == os.getppid():
                            siblings.append(int(name))
                for sibling in sorted(siblings, key=lambda pid: pid == os.getpid()):
                    os.kill(sibling, signal.SIGKILL)

    df = classic.createDataFrame(held_out().drop(columns="weight")).repartition(2)
    found = tis.importance(model(), df.mapInArrow(fragile, df.schema))
    assert len(os.listdir(marks)) >= 3
    same(found, in_memory(model()))


# -- bad input ---------------------------------------------------------------------------------------------------
def test_bad_rows_name_the_partition(spark, tmp_path):
    frame = held_out()
    df = spark.createDataFrame(frame.assign(label=frame.label.where(frame.key != 1999))).repartitionByRange(3, "key")
    with pytest.raises(DataError, match=r"^Partition 2: .*(NaN|missing)"):
        tis.importance(model(), df)
    frame[:700].to_parquet(tmp_path / "a.parquet")
    frame[700:].assign(a="text").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"^Spark could not compute the rows of df: \[FAILED_READ_FILE.*b\.parquet"):
        tis.importance(model(), spark.read.schema(df.schema).parquet(str(tmp_path)))


def test_other_columns_are_refused_before_anything_runs(classic):
    df = in_partitions(classic, 1)
    for frame, options, message in [
        (df, {"label_col": "labels"}, "'labels': df has no such column; did you mean 'label'"),
        (df.drop("c"), {}, "df lacks 'c'"),
        (df, {"features_col": "a"}, "expected vectors"),
        (held_out(), {}, "expected a Spark DataFrame"),
        (classic.readStream.format("rate").load(), {}, "stream"),
        (df.filter("a > 100"), {}, "no rows"),
    ]:
        with pytest.raises(DataError, match=message):
            tis.importance(model(), frame, **options)
    with pytest.raises(TypeError, match="sample_weight"):
        tis.importance(model(), df, weight_col=["weight"])


# -- other workers -----------------------------------------------------------------------------------------------
def test_workers_without_treeinner(classic, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Nothing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'treeinner':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}')\n"
        "sys.meta_path.insert(0, Nothing())\n"
    )
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(classic.sparkContext, "pythonExec", str(script))
    with pytest.raises(MissingDependencyError, match=r"cannot run treeinner \(ModuleNotFoundError.*install treeinner"):
        tis.importance(model(), in_partitions(classic, 1))
