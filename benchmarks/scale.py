"""Rows that do not fit into memory: the same bits from every source, peak memory, and time, all measured here.

python benchmarks/scale.py make --rows 5000000        # 20 Parquet files and a model, in build/scale
python benchmarks/scale.py bits                       # every source against all rows in memory
python benchmarks/scale.py memory                     # peak over 10 x the rows against 1 x
python benchmarks/scale.py speed                      # CPU time against xgboost's inplace_predict, one thread
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

FOLDER = Path(os.environ.get("SCALE_FOLDER", "build/scale"))
COLUMNS = 30
FILES = 20
SOURCES = ("files", "folder", "dataset", "lazy", "duckdb", "reader", "generator", "function", "feather")
ONCE = ("reader", "generator")  # read once: scores only, and no weights, whose largest must be known before
STREAMED = ("files", "dataset", "lazy", "duckdb")


def make(rows, times=1):
    """Files of `rows` rows; `times` more folders of ten times as many."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import xgboost as xgb

    names = [f"x{j}" for j in range(COLUMNS)]

    def some(n, seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, COLUMNS)).astype(np.float32)
        X[rng.random(X.shape) < 0.02] = np.nan
        Z = np.nan_to_num(X)
        y = Z[:, 0] + Z[:, 1] * Z[:, 2] + np.sin(3 * Z[:, 3]) + rng.normal(size=n)
        return X, y.astype(np.float32), rng.uniform(0.5, 2.0, n).astype(np.float32)

    X, y, _ = some(100_000, 0)
    FOLDER.mkdir(parents=True, exist_ok=True)
    model = xgb.XGBRegressor(n_estimators=400, max_depth=6, learning_rate=0.1, n_jobs=2).fit(X, y)
    model.get_booster().feature_names = names
    model.save_model(FOLDER / "model.json")
    for scale in (1, 10)[: 1 + (times > 1)]:
        (FOLDER / f"data{scale}").mkdir(exist_ok=True)
        for number in range(FILES):
            X, y, w = some(rows * scale // FILES, (scale, number))
            table = pa.table(dict(zip(names, X.T, strict=True)) | {"y": y, "w": w, "note": np.zeros(len(y), np.int8)})
            pq.write_table(table, FOLDER / f"data{scale}" / f"part-{number:02}.parquet", row_group_size=131_072)


def source(kind, folder):
    """Arguments of `importance` that read the folder in one way."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    named = {"y": "y", "sample_weight": "w"}
    files = sorted(str(path) for path in folder.glob("*.parquet"))

    def batches():
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(batch_size=50_000):
                frame = batch.to_pandas()
                yield frame.drop(columns=["y", "w", "note"]), frame["y"].to_numpy(), frame["w"].to_numpy()

    if kind == "files":
        return {"X": files, **named}
    if kind == "folder":
        return {"X": folder, **named}
    if kind == "dataset":
        import pyarrow.dataset

        return {"X": pyarrow.dataset.dataset(folder), **named}
    if kind == "lazy":
        import polars as pl

        return {"X": pl.scan_parquet(files), **named}
    if kind == "duckdb":
        import duckdb

        return {"X": duckdb.connect().sql(f"select * from read_parquet('{folder}/*.parquet')"), **named}
    if kind == "reader":
        schema = pq.ParquetFile(files[0]).schema_arrow
        parts = (b for file in files for b in pq.ParquetFile(file).iter_batches())
        return {"X": pa.RecordBatchReader.from_batches(schema, parts), "y": "y"}
    if kind == "generator":
        return {"X": (batch[:2] for batch in batches())}
    if kind == "function":
        return {"X": batches}
    import pyarrow.feather

    path = folder.parent / f"{folder.name}.feather"
    if not path.exists():
        pyarrow.feather.write_feather(pq.read_table(folder), path, chunksize=100_000)
    return {"X": path, **named}


def in_memory():
    """The model, and what all rows in memory give, with weights and without."""
    import pyarrow.parquet as pq

    import treeinner as ti

    model = ti.read_model(FOLDER / "model.json")
    rows = pq.read_table(FOLDER / "data1").drop_columns(["note"]).to_pandas()
    start = time.perf_counter()
    X, y = rows.drop(columns=["y", "w"]), rows["y"]
    whole = ti.importance(model, X, y, sample_weight=rows["w"])
    print(f"{'in memory':12} {whole.n_rows:,} rows, {time.perf_counter() - start:.1f} s", flush=True)
    return model, whole, ti.importance(model, X, y)


def compare(whole, kind, run, *, once=False):
    """Scores, errors, p values and rounds of one run, against all rows in memory."""
    start = time.perf_counter()
    found = run()
    names = ("scores", "rounds") if once else ("scores", "rounds", "std_errors", "df", "p_values", "q_values")
    other = [name for name in names if not np.array_equal(getattr(whole, name), getattr(found, name))]
    told = f"DIFFERENT: {other}" if other else "the same bits"
    passes = "one pass: scores and rounds" if once else "two passes: all of it"
    print(f"{kind:12} {found.n_rows:,} rows, {time.perf_counter() - start:.1f} s; {passes}: {told}", flush=True)


def bits():
    """Every source."""
    import treeinner as ti

    model, whole, unweighted = in_memory()
    for kind in SOURCES:
        run = lambda kind=kind: ti.importance(model, **source(kind, FOLDER / "data1"))  # noqa: E731
        compare(unweighted if kind in ONCE else whole, kind, run, once=kind in ONCE)


def engines():
    """Dask and Spark on this machine; everything on loopback."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster
    from pyspark.sql import SparkSession

    import treeinner.dask
    import treeinner.spark

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    model, whole, _ = in_memory()
    folder = FOLDER / "data1"
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        for size in ("64MiB", "8MiB"):
            rows = dd.read_parquet(folder, blocksize=size)
            run = lambda rows=rows: treeinner.dask.importance(client, model, rows, "y", sample_weight="w")  # noqa: E731
            compare(whole, f"dask, {rows.npartitions}", run)
    settings = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    session = SparkSession.builder.master("local[2]").config(map=settings | {"spark.driver.memory": "4g"}).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for n in (20, 7):
        rows = session.read.parquet(str(folder))
        rows = rows if n == 20 else rows.repartition(n)
        run = lambda rows=rows: treeinner.spark.importance(model, rows, label_col="y", weight_col="w")  # noqa: E731
        compare(whole, f"spark, {n}", run)
    session.stop()


def one(kind, scale):
    """Peak memory of one run in a process of its own, in MB."""
    import treeinner as ti

    model = ti.read_model(FOLDER / "model.json", iteration_range=(0, 50))  # memory is not of the trees
    ti.importance(model, np.zeros((2, COLUMNS)), np.zeros(2))  # what every run loads
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = ti.importance(model, **source(kind, FOLDER / f"data{scale}"), n_jobs=2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"before": before, "peak": peak, "rows": found.n_rows}))


def memory(kinds=STREAMED):
    """Peak memory over 1 x and 10 x the rows."""
    for kind in kinds:
        peaks = []
        for scale in (1, 10):
            done = subprocess.run([sys.executable, __file__, "one", kind, str(scale)], check=True, capture_output=True)
            peaks.append(json.loads(done.stdout.splitlines()[-1]))
        small, large = peaks
        print(
            f"{kind:10} {small['rows']:,} rows: {small['peak']:.0f} MB (before: {small['before']:.0f}); "
            f"{large['rows']:,} rows: {large['peak']:.0f} MB, {large['peak'] / small['peak']:.2f} x",
            flush=True,
        )


def speed(repeats=3):
    """CPU time of one thread: decoding, prediction by XGBoost, scores, scores with errors, and small batches."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import xgboost as xgb

    import treeinner as ti

    pa.set_cpu_count(1)
    files = source("files", FOLDER / "data1")["X"][:4]
    model = ti.read_model(FOLDER / "model.json")
    booster = xgb.Booster({"nthread": 1}, model_file=FOLDER / "model.json")
    columns = [f"x{j}" for j in range(COLUMNS)]

    def decode():
        return sum(len(b) for f in files for b in pq.ParquetFile(f).iter_batches(batch_size=65_536, columns=columns))

    def predict():
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(batch_size=65_536, columns=columns):
                booster.inplace_predict(np.column_stack([batch.column(j).to_numpy() for j in range(COLUMNS)]))

    def scores(std_errors):
        named = {"y": "y", "sample_weight": "w"}
        return lambda: ti.importance(model, files, **named, std_errors=std_errors, n_jobs=1)

    table = pq.read_table(files).combine_chunks()

    def small(rows):
        parts = [table.slice(i, rows).to_batches()[0] for i in range(0, min(200_000, len(table)), rows)]

        def run():
            reader = pa.RecordBatchReader.from_batches(table.schema, parts)
            ti.importance(model, reader, "y", std_errors=False, n_jobs=1)

        return run

    best = {}
    runs = {"decoding": decode, "prediction": predict, "scores": scores(False), "with errors": scores(True)}
    runs |= {f"batches of {rows}": small(rows) for rows in (65_536, 1000, 100)}
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.process_time()
            run()
            best[name] = min(best.get(name, np.inf), time.process_time() - start)
    n = decode()
    print(f"{n:,} rows, {model.n_trees} trees, {COLUMNS} columns, CPU time of one thread, best of {repeats}")
    for name, seconds in best.items():
        of = best["batches of 65536"] if name.startswith("batches") else best["prediction"]
        print(
            f"{name:18} {seconds:7.2f} s  {seconds / of:.2f} x {'' if of == best['prediction'] else 'those of 65,536'}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "bits", "engines", "memory", "speed", "one"])
    parser.add_argument("more", nargs="*")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--tenfold", action="store_true", help="make: ten times as many rows too")
    given = parser.parse_args()
    if given.what == "make":
        make(given.rows, 10 if given.tenfold else 1)
    elif given.what == "one":
        one(given.more[0], int(given.more[1]))
    else:
        {"bits": bits, "engines": engines, "memory": memory, "speed": speed}[given.what](
            *([given.more] if given.more else [])
        )
