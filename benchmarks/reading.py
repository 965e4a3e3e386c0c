"""How long a model takes to read: `python benchmarks/reading.py [--only lightgbm]`; `make bench` runs it too.

A file may take three times as long as the library itself takes to load it, an object as long as the library takes to
predict 20,000 rows, both on one thread. What PreDecomp and total gain need besides is worked out at their first use:
the last column. Time is that of the processor, so that other work on the machine does not count; the two calls of a
row take turns, and the best time of each counts.
"""

import argparse
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

os.environ["OMP_NUM_THREADS"] = "1"  # before a library is imported: threads that wait use the processor too

FILE_LIMIT, OBJECT_LIMIT = 3.0, 1.0
SECONDS, CALLS = 1.0, 50  # at most, per row of the table; five calls at least
ROWS, COLUMNS, TREES = 20_000, 20, 200


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    signal = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3]
    y = signal + rng.normal(size=ROWS)
    return X, {
        "regression": y,
        "binary": (y > 0).astype(int),
        "classes": np.digitize(y, [-1, 1]),
        "count": rng.poisson(np.exp(signal / 3)),
        "positive": np.exp(signal / 3) * rng.gamma(2, size=ROWS),
    }


def xgboost_cases(X, targets):
    import xgboost

    losses = {
        "reg:squarederror": "regression", "binary:logistic": "binary", "count:poisson": "count",
        "reg:gamma": "positive", "multi:softprob": "classes", "reg:absoluteerror": "regression",
    }  # fmt: skip
    for loss, target in losses.items():
        params = {"objective": loss, "max_depth": 6, "eta": 0.1, "nthread": 1}
        params |= {"num_class": 3} if target == "classes" else {}
        model = xgboost.train(params, xgboost.DMatrix(X, targets[target], nthread=1), TREES)
        load = {ext: lambda p: xgboost.Booster({"nthread": 1}, model_file=p) for ext in ("ubj", "json")}
        yield loss, model, lambda m=model: m.inplace_predict(X, predict_type="margin"), load


def lightgbm_cases(X, targets):
    import lightgbm

    losses = [("regression", "regression", 31), ("regression", "regression", 255), ("binary", "binary", 31),
              ("poisson", "count", 31), ("multiclass", "classes", 31), ("regression_l1", "regression", 31)]  # fmt: skip
    for loss, target, leaves in losses:
        params = {"objective": loss, "num_leaves": leaves, "num_threads": 1, "verbose": -1}
        params |= {"num_class": 3} if target == "classes" else {}
        model = lightgbm.train(params, lightgbm.Dataset(X, targets[target]), TREES)
        load = {"txt": lambda p: lightgbm.Booster(model_file=p)}
        yield f"{loss}, {leaves} leaves", model, lambda m=model: m.predict(X, raw_score=True, num_threads=1), load


def catboost_cases(X, targets):
    import catboost

    losses = [("RMSE", "regression", "SymmetricTree"), ("Logloss", "binary", "SymmetricTree"),
              ("MultiClass", "classes", "SymmetricTree"), ("RMSE", "regression", "Lossguide")]  # fmt: skip
    for loss, target, policy in losses:
        model = catboost.CatBoost(
            {"loss_function": loss, "iterations": TREES, "depth": 6, "thread_count": 1, "verbose": False,
             "allow_writing_files": False, "grow_policy": policy, "boost_from_average": loss == "RMSE"}
        ).fit(X, targets[target])  # fmt: skip
        load = {ext: lambda p, e=ext: catboost.CatBoost().load_model(p, format=e) for ext in ("cbm", "json")}
        yield f"{loss}, {policy}", model, lambda m=model: m.predict(X, thread_count=1), load


def sklearn_cases(X, targets):
    from sklearn import ensemble

    models = [
        (ensemble.RandomForestRegressor(100, n_jobs=1), "regression"),
        (ensemble.RandomForestClassifier(100, n_jobs=1), "classes"),
        (ensemble.GradientBoostingRegressor(n_estimators=TREES), "regression"),
        (ensemble.GradientBoostingClassifier(n_estimators=TREES), "binary"),
        (ensemble.HistGradientBoostingRegressor(max_iter=TREES), "regression"),
        (ensemble.HistGradientBoostingRegressor(max_iter=TREES, loss="poisson"), "count"),
        (ensemble.HistGradientBoostingClassifier(max_iter=TREES), "binary"),
    ]
    for model, target in models:
        model.fit(X[:5000], targets[target][:5000])
        yield type(model).__name__, model, lambda m=model: m.predict(X), {}


LIBRARIES = {
    "xgboost": xgboost_cases,
    "lightgbm": lightgbm_cases,
    "catboost": catboost_cases,
    "sklearn": sklearn_cases,
}


def milliseconds(*calls):
    """The best time of each call, taken in turns."""
    times = []
    start = time.process_time()
    while len(times) < 5 or (len(times) < CALLS and time.process_time() - start < SECONDS):
        times.append([seconds(call) for call in calls])
    return 1e3 * np.min(times, axis=0)


def seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start


def measure(library):
    """Rows of the table: case, what, ours, the library's, the limit, and what is worked out later."""
    import treeinner

    for name, model, predict, loads in LIBRARIES[library](*data()):
        ours, theirs = milliseconds(lambda m=model: treeinner.read_model(m), predict)
        (later,) = milliseconds(lambda m=model: treeinner.read_model(m).trees.known)
        yield name, "object", ours, theirs, OBJECT_LIMIT, max(later - ours, 0.0)
        with tempfile.TemporaryDirectory() as folder:
            for ext, load in loads.items():
                path = str(Path(folder) / f"model.{ext}")
                model.save_model(path, **({"format": ext} if library == "catboost" else {}))
                ours, theirs = milliseconds(lambda p=path: treeinner.read_model(p), lambda p=path, f=load: f(p))
                yield name, f".{ext}", ours, theirs, FILE_LIMIT, None


def main():
    """Print the table; the exit code says whether a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=LIBRARIES, action="append")
    chosen = parser.parse_args().only or list(LIBRARIES)
    warnings.simplefilter("ignore")
    missed = 0
    head = ("library", "model", "from", "read", "load or predict", "ratio", "limit", "later")
    print("{:9} {:38} {:7} {:>9} {:>16} {:>6} {:>6} {:>9}".format(*head))
    for library in chosen:
        for name, what, ours, theirs, limit, later in measure(library):
            missed += ours > limit * theirs
            mark = " missed" if ours > limit * theirs else ""
            at_first_use = "" if later is None else f"{later:6.1f} ms"
            print(
                f"{library:9} {name:38} {what:7} {ours:6.1f} ms {theirs:13.1f} ms {ours / theirs:6.2f} {limit:6.1f} "
                f"{at_first_use:>9}{mark}",
                flush=True,
            )
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
