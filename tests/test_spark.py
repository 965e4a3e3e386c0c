"""treeinner.spark on a real Spark, classic and Connect: bits of one process, whatever dies; errors name partitions."""

import functools
import os
import shutil
import socket
import stat
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import treeinner as ti
import treeinner.spark as tis
from treeinner.errors import DataError, MissingDependencyError
from treeinner.spark.workers import _explained

from .test_accumulator import same_numbers

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-spark` installs it")
pa = pytest.importorskip("pyarrow")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java 17 (Debian: apt-get install openjdk-17-jre-headless)", allow_module_level=True)

FEATURES = list("abcde")
N = 2000
COLUMNS = {"weight_col": "weight", "base_margin_col": "margin", "clusters_col": "cluster"}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def connect_installed():
    try:
        import google.rpc
        import grpc
        import grpc_status

        return bool(grpc and grpc_status and google.rpc)
    except ImportError:
        return False


@pytest.fixture(scope="module")
def server():
    """A classic session that tries tasks up to four times, and the port of a Connect server beside it."""
    from pyspark.sql import SparkSession

    before, port = os.environ.get("PYSPARK_PYTHON"), free_port()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,4]").appName("treeinner")
    options = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
        "spark.log.level": "FATAL",
    }
    if connect_installed():
        options |= {
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
        }
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session, port
    session.stop()
    os.environ.pop("PYSPARK_PYTHON") if before is None else os.environ.update(PYSPARK_PYTHON=before)


@pytest.fixture(scope="module")
def classic(server):
    return server[0]


@pytest.fixture(scope="module", params=["classic", "connect"])
def spark(request, server):
    if request.param == "classic":
        yield server[0]
        return
    if not connect_installed():
        pytest.skip("a Connect client needs grpcio, grpcio-status and googleapis-common-protos: pyspark[connect]")
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(f"sc://127.0.0.1:{server[1]}").create()
    yield session
    session.client.close()


@functools.cache
def rows():
    """Features, target and what else may come with the rows; margins have ties."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 5)), columns=FEATURES)
    frame["label"] = frame.a + 0.3 * frame.b * frame.c + rng.normal(size=N)
    frame["weight"] = rng.choice([0.0, 0.3, 1.0, 7.0], N)
    frame["margin"] = rng.normal(size=N)
    frame["cluster"] = rng.integers(0, 200, N)
    frame["query"] = rng.permutation(np.arange(N) // 10)
    frame["grade"] = rng.integers(0, 4, N)
    frame["key"] = np.arange(N)
    return frame


@functools.cache
def model(names=True):
    """Fitted on the first 500 rows; scores are of the others."""
    fitted, X = xgb.XGBRegressor(n_estimators=12, max_depth=3, n_jobs=1), rows()[FEATURES][:500]
    return fitted.fit(X if names else X.to_numpy(), rows().label[:500])


def held_out():
    return rows()[500:].reset_index(drop=True)


@functools.cache
def expected(**settings):
    v = held_out()
    names = {"weight_col": "sample_weight", "base_margin_col": "base_margin", "clusters_col": "clusters"}
    return ti.importance(model(), v[FEATURES], v.label, **{names.get(k, k): v.get(c, c) for k, c in settings.items()})


def in_partitions(spark, n):
    """Rows by their grades: of five partitions some are empty."""
    df = spark.createDataFrame(held_out())
    return df.coalesce(1) if n == 1 else df.repartition(n, "grade")


# -- the same bits -----------------------------------------------------------------------------------------------
def test_any_partitions_give_the_bits_of_one_process(spark):
    for n in (1, 5):
        df = in_partitions(spark, n)
        found = tis.importance(model(), df, **COLUMNS)
        same_numbers(found, expected(**COLUMNS))
        assert np.array_equal(found.by_round(), expected(**COLUMNS).by_round())
        assert found.notes == expected(**COLUMNS).notes
        assert type(found.to_frame()).__module__.split(".")[0] == "pandas"
    again = tis.importance(model(), df, score="abs")  # another action on the same frame, which needs one round
    same_numbers(again, ti.importance(model(), held_out()[FEATURES], score="abs"))


def test_training_rows_are_recognised(classic):
    with pytest.warns(ti.TreeInnerWarning, match="training rows|trained on"):
        tis.importance(model(), classic.createDataFrame(rows()[:500]).coalesce(1))


def test_a_column_of_vectors_or_arrays(spark):
    v = held_out()
    wide = v[["label"]].assign(features=[row.tolist() for row in v[FEATURES].to_numpy()])
    df = spark.createDataFrame(wide).repartition(2)
    found = tis.importance(model(names=False), df, features_col="features", std_errors=False)
    assert np.array_equal(found.scores, expected().scores)
    assert found.feature_names == ("f0", "f1", "f2", "f3", "f4")
    with pytest.raises(DataError, match="pass features_col='features'"):
        tis.importance(model(), df)
    short = spark.createDataFrame(wide.assign(features=[row[: 5 - (i > 700)] for i, row in enumerate(wide.features)]))
    with pytest.raises(DataError, match=r"^Partition \d: 'features' holds 5 values in one row and 4 in another"):
        tis.importance(model(names=False), short.coalesce(1), features_col="features")


def test_vectors_of_pyspark_and_a_model_of_xgboost_spark(classic):
    from pyspark.ml.feature import VectorAssembler
    from xgboost.spark import SparkXGBRegressorModel

    df = VectorAssembler(inputCols=FEATURES, outputCol="inputs").transform(in_partitions(classic, 1)).drop(*FEATURES)
    fitted = SparkXGBRegressorModel(model(names=False))
    fitted._set(featuresCol="inputs")
    found = tis.importance(fitted, df, std_errors=False)
    assert np.array_equal(found.scores, expected().scores)
    assert found.feature_names == tuple(FEATURES)  # the assembler left them with the column
    other = VectorAssembler(inputCols=FEATURES[::-1], outputCol="inputs").transform(in_partitions(classic, 1))
    with pytest.raises(DataError, match="assemble the columns as for training"):
        tis.importance(model(), other, features_col="inputs")


def test_absent_values_of_sparse_vectors_are_missing_where_zero_stands_for_missing(classic):
    from pyspark.ml.linalg import Vectors

    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 4)) * (rng.random((600, 4)) < 0.4)
    y = X[:, 0] - 2 * (X[:, 1] == 0) + rng.normal(size=600)
    fitted = xgb.XGBRegressor(n_estimators=5, max_depth=3, missing=0.0).fit(X[:300], y[:300])
    pairs = [(float(t), Vectors.sparse(4, np.flatnonzero(x), x[x != 0])) for t, x in zip(y[300:], X[300:], strict=True)]
    df = classic.createDataFrame(pairs, ["label", "features"])
    found = tis.importance(fitted, df, features_col="features", std_errors=False)
    assert np.array_equal(found.scores, ti.importance(fitted, X[300:], y[300:]).scores)


def test_queries_are_brought_together_in_the_order_of_their_rows(spark):
    v = held_out()
    train = rows()[:500].sort_values("query", kind="stable")
    ranker = xgb.XGBRanker(n_estimators=4, max_depth=2, n_jobs=1)
    ranker.fit(train[FEATURES], train.grade, qid=train["query"])
    reference = ti.importance(ranker, v[FEATURES], v.grade, qid=v["query"])
    df = spark.createDataFrame(v).repartition(3)
    ordered = df.repartitionByRange(3, "key").sortWithinPartitions("key")
    found = tis.importance(ranker, ordered, label_col="grade", qid_col="query")
    same_numbers(found, reference)


# -- faults ------------------------------------------------------------------------------------------------------
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
                siblings = []
                for name in filter(str.isdigit, os.listdir("/proc")):
                    with open(f"/proc/{name}/stat") as status:
                        if int(status.read().rpartition(")")[2].split()[1]) == os.getppid():
                            siblings.append(int(name))
                for sibling in sorted(siblings, key=lambda pid: pid == os.getpid()):
                    os.kill(sibling, signal.SIGKILL)

    if not os.path.isdir("/proc"):
        pytest.skip("workers are found in /proc, which this system does not have")
    df = classic.createDataFrame(held_out()).repartition(2)
    found = tis.importance(model(), df.mapInArrow(fragile, df.schema), **COLUMNS)
    assert len(os.listdir(marks)) >= 3
    same_numbers(found, expected(**COLUMNS))


def test_rows_that_come_out_differently_are_refused(classic):
    def other(batches):
        import os

        import pyarrow as pa

        for batch in batches:
            noise = os.urandom(1)[0] + 0.5
            place = batch.schema.get_field_index("label")
            yield batch.set_column(place, "label", pa.array([noise * k for k in range(batch.num_rows)]))

    def fewer(batches):
        import os

        for batch in batches:
            yield batch.slice(int.from_bytes(os.urandom(4), "big") % 90)

    df = in_partitions(classic, 1)
    for step in (other, fewer):
        with pytest.raises(DataError, match="cache the frame"):
            tis.importance(model(), df.mapInArrow(step, df.schema))


# -- bad input ---------------------------------------------------------------------------------------------------
def test_bad_labels_name_the_partition(spark, tmp_path):
    v = held_out()
    df = spark.createDataFrame(v.assign(label=v.label.where(v.index != 1400))).repartitionByRange(3, "key")
    with pytest.raises(DataError, match=r"^Partition 2: .*(NaN|missing)"):
        tis.importance(model(), df)
    with pytest.raises(DataError, match="label_col='labels': df has no such column; did you mean 'label'"):
        tis.importance(model(), df, label_col="labels")
    v[:700].to_parquet(tmp_path / "a.parquet")
    v[700:].drop(columns="label").to_parquet(tmp_path / "b.parquet")
    files = spark.read.schema(df.schema).parquet(str(tmp_path))
    with pytest.raises(DataError, match=r"^Partition \d: .*(NaN|missing)"):
        tis.importance(model(), files)
    v[700:].assign(a="text").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"^Spark could not compute the rows of df: \[FAILED_READ_FILE.*b\.parquet"):
        tis.importance(model(), files)


def test_other_columns_are_refused_before_anything_runs(classic):
    df = in_partitions(classic, 1)
    with pytest.raises(DataError, match=r"lacks 1 of the 5 columns that the model was trained on: 'c'"):
        tis.importance(model(), df.drop("c"))
    with pytest.raises(DataError, match="expected vectors"):
        tis.importance(model(), df, features_col="a")
    with pytest.raises(DataError, match="expected a Spark DataFrame"):
        tis.importance(model(), held_out())
    with pytest.raises(DataError, match="no end"):
        tis.importance(model(), classic.readStream.format("rate").load())
    with pytest.raises(TypeError, match="weight_col"):
        tis.importance(model(), df, weight_col=["weight"])
    with pytest.raises(TypeError, match="unexpected argument 'sample_weight'"):
        tis.importance(model(), df, sample_weight="weight")
    with pytest.raises(DataError, match="no rows"):
        tis.importance(model(), df.filter("a > 100"))


# -- other workers -----------------------------------------------------------------------------------------------
@pytest.fixture
def worker_python(classic, tmp_path, monkeypatch):
    """Let the workers use another Python."""

    def use(path):
        monkeypatch.setattr(classic.sparkContext, "pythonExec", str(path))

    return use


def test_workers_without_treeinner(classic, worker_python, tmp_path):
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
    worker_python(script)
    with pytest.raises(MissingDependencyError, match=r"cannot run treeinner \(ModuleNotFoundError.*install treeinner"):
        tis.importance(model(), in_partitions(classic, 1))


def test_workers_of_another_python(classic, worker_python):
    asked = f"import sys; sys.exit(sys.version_info[:2] == {sys.version_info[:2]})"
    for name in ("python3.10", "python3.11", "python3.12", "python3.13", "python3.14"):
        path = shutil.which(name)
        if path and subprocess.run([path, "-c", asked], check=False, capture_output=True).returncode == 0:
            break
    else:
        pytest.skip("there is no other Python on this machine")
    worker_python(path)
    with pytest.raises(MissingDependencyError, match=r"The Spark workers have Python.*same minor version"):
        tis.importance(model(), in_partitions(classic, 1))


def test_what_spark_says_of_versions_is_one_sentence():
    text = (
        "An exception was thrown from the Python worker.\npyspark.errors.exceptions.base.PySparkRuntimeError: "
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, PySpark "
        "cannot run with different minor versions."
    )
    assert "have Python 3.12, and the driver 3.11;" in str(_explained(text))


# -- attributions ------------------------------------------------------------------------------------------------
def test_attributions_are_those_of_one_process(spark):
    v = held_out()
    reference = ti.attribute(model(), v[FEATURES], base_margin=v.margin)
    df = in_partitions(spark, 5).withColumnRenamed("key", "my.key")
    found = tis.attribute(model(), df, keep_cols="my.key", base_margin_col="margin")
    assert found.columns == ["my.key", "base_value", *FEATURES]
    table = found.toPandas().sort_values("my.key")
    assert np.array_equal(table[FEATURES].to_numpy(), reference.values)
    assert np.array_equal(table.base_value.to_numpy(), reference.base_values)
    with pytest.raises(DataError, match="keep_cols='a': the attributions have a column of this name"):
        tis.attribute(model(), df, keep_cols=["a"])


def test_attributions_of_classes_and_groups(classic):
    v = held_out()
    three = xgb.XGBClassifier(n_estimators=3, max_depth=2).fit(v[FEATURES], v.grade.clip(0, 2))
    groups = {"ab": ["a", "b"]}
    reference = ti.attribute(three, v[FEATURES], method="saabas", feature_groups=groups)
    df = in_partitions(classic, 1)
    found = tis.attribute(three, df, method="saabas", feature_groups=groups, keep_cols=["key"], dtype="float32")
    assert found.columns[1:] == [*(f"{k}: base_value" for k in range(3)), *reference.to_frame().columns]
    table = found.toPandas().sort_values("key")
    assert np.array_equal(table.iloc[:, 4:].to_numpy(), reference.to_frame().to_numpy().astype(np.float32))


@pytest.mark.parametrize("classes", [False, True])
def test_parquet_dask_and_spark_have_the_same_columns(classic, tmp_path, classes):
    dd, tid = pytest.importorskip("dask.dataframe"), pytest.importorskip("treeinner.dask")
    v = held_out().rename(columns={"b": "base_value"})  # a feature has the name that base values have
    features = ["a", "base_value", *FEATURES[2:]]
    kind, y = (xgb.XGBClassifier, v.grade.clip(0, 2)) if classes else (xgb.XGBRegressor, v.label)
    fitted = kind(n_estimators=3, max_depth=2).fit(v[features], y)
    rows = v[["key", *features]]
    ti.attribute_to_parquet(fitted, rows, tmp_path / "a.parquet", keep_cols=["key"])
    written = pd.read_parquet(tmp_path / "a.parquet")
    assert written.columns[0] == "key"
    assert written.shape[1] == (1 + 3 * 6 if classes else 1 + 6)
    assert all("base_value" in name for name in written.columns[1 : 4 if classes else 2])
    in_dask = tid.attribute(None, fitted, dd.from_pandas(rows, npartitions=2), keep_cols="key")
    assert in_dask.compute(scheduler="sync").equals(written)
    in_spark = tis.attribute(fitted, classic.createDataFrame(rows), keep_cols="key").toPandas()
    assert in_spark.sort_values("key", ignore_index=True).equals(written)
