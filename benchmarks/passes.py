"""What importance() and its passes cost, in XGBoost predictions of the same rows: `python benchmarks/passes.py`.

W1 of workloads.py (W2: log loss), one thread, the model read before: the default call (signal, errors, holds), then
TreeInner and the loss breakdown, with and without errors, and what 50 segments add (at most 1.7 times as much, 1.2 for
signal); then a small call, from an estimator and a data frame, and what clusters add. CPU times, the jobs in turns, the
best of each: on a machine that does other work too, that is what can be compared. `--against PYTHON` times the
treeinner of another environment in the same turns.
"""

import argparse
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import numpy as np

from workloads import WORKLOADS, Workload, model_path, rows_of

IMPORTANCE = {
    "the default call": {"score": "signal"},
    "scores": {"std_errors": False},
    "both passes": {},
    "loss breakdown, scores": {"score": "loss", "std_errors": False},
    "loss breakdown, both passes": {"score": "loss"},
    "PreDecomp with errors": {"method": "predecomp"},
    "TreeSHAP with errors": {"method": "treeshap"},
}
ATTRIBUTE = ("predecomp", "treeshap")
FEW = 300  # rows of XGBoost's own contributions, and of ours beside them
SMALL = Workload(rows=300, columns=10, trees=8, depth=4, train_rows=1000)
CLUSTERED = replace(SMALL, rows=200_000)
N_CLUSTERS = 2000
N_SEGMENTS = 50


# -- the process that measures ------------------------------------------------------------------------------------
def jobs_of(name):
    """What is timed -> the call, with the treeinner of this process."""
    import pandas as pd
    import xgboost

    import treeinner as ti

    w = WORKLOADS[name]
    booster = xgboost.Booster(model_file=str(model_path(w)))
    booster.set_param({"nthread": 1})
    X, y = rows_of(w)
    model, base = ti.read_model(booster), {"score": "tree_inner", "n_jobs": 1}
    jobs = {"inplace_predict": lambda: booster.inplace_predict(X, predict_type="margin")}
    for what, options in IMPORTANCE.items():
        jobs[what] = lambda options=options: ti.importance(model, X, y, **(base | options))
    segments = np.arange(w.rows) % N_SEGMENTS
    for what in ("the default call", "loss breakdown, both passes"):
        options = base | IMPORTANCE[what] | {"by": segments}
        jobs[f"{what}, {N_SEGMENTS} segments"] = lambda options=options: ti.importance(model, X, y, **options)
    for method in ATTRIBUTE:
        jobs[f"attribute, {method}"] = lambda method=method: ti.attribute(model, X, method=method, n_jobs=1)

    first, data = X[:FEW], xgboost.DMatrix(X[:FEW])
    jobs[f"TreeSHAP by XGBoost, {FEW} rows"] = lambda: booster.predict(data, pred_contribs=True)
    jobs[f"TreeSHAP, {FEW} rows"] = lambda: ti.attribute(model, first, method="treeshap", n_jobs=1)

    few, target = rows_of(SMALL)
    frame = pd.DataFrame(few).add_prefix("x")
    train, train_target = rows_of(SMALL, train=True)
    estimator = xgboost.XGBRegressor(n_estimators=SMALL.trees, max_depth=SMALL.depth, n_jobs=1)
    estimator.fit(pd.DataFrame(train).add_prefix("x"), train_target)
    jobs["small call"] = lambda: ti.importance(estimator, frame, target, **base)
    many, many_target = rows_of(CLUSTERED)
    clusters = np.arange(CLUSTERED.rows) % N_CLUSTERS
    for what, labels in (("no clusters", None), (f"{N_CLUSTERS} clusters", clusters)):
        jobs[what] = lambda labels=labels: ti.importance(estimator, many, many_target, clusters=labels, **base)
    return jobs


def serve(name):
    """Time the jobs whose names come in, a line each; the first line that goes out has the names."""
    warnings.simplefilter("ignore")
    jobs = jobs_of(name)
    print("|".join(jobs), flush=True)
    for line in sys.stdin:
        job = jobs[line.rstrip("\n")]
        begun = time.process_time()
        job()
        print(time.process_time() - begun, flush=True)


# -- the process that asks ----------------------------------------------------------------------------------------
def main(name, turns, only, pythons):
    model_path(WORKLOADS[name])  # trained before
    command = [__file__, "--serve", name]
    workers = [subprocess.Popen([p, *command], stdin=-1, stdout=-1, text=True) for p in pythons]
    names = [worker.stdout.readline().rstrip("\n").split("|") for worker in workers][-1]
    names = [what for what in names if only in what or what == "inplace_predict"]
    best = [dict.fromkeys(names, np.inf) for _ in workers]
    often = [what for what in names for _ in range(10 if what == "small call" else 1)]
    for what in often * turns:
        for worker, seconds in zip(workers, best, strict=True):
            print(what, file=worker.stdin, flush=True)
            seconds[what] = min(seconds[what], float(worker.stdout.readline()))
    for worker in workers:
        worker.stdin.close()
        worker.wait()
    print(f"{name}, {WORKLOADS[name].rows:,} rows; " + " against ".join(pythons))
    for what in names:
        cells = (f"{1e3 * b[what]:9.1f} ms {b[what] / b['inplace_predict']:6.3f}" for b in best)
        print(f"{what:40s}" + "   ".join(cells), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="W1", choices=WORKLOADS)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--only", default="", help="jobs with this in their names, and XGBoost's predictions")
    parser.add_argument("--against", metavar="PYTHON", help="a Python whose treeinner is timed in the same turns")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
    else:
        main(given.workload, given.turns, given.only, [sys.executable, *([given.against] if given.against else [])])
