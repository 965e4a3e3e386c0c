"""What the passes of importance() cost, in XGBoost predictions of the same rows: `python benchmarks/passes.py`.

W1 of workloads.py, one thread, the model opened before. CPU times of one process, the jobs in turns, the best of each:
on a machine that does other work too, that is what can be compared. `make bench` has the peers.
"""

import sys
import time
import warnings

import numpy as np
import xgboost

import treeinner as ti
from workloads import WORKLOADS, model_path, rows_of

OURS = {
    "scores": {"std_errors": False},
    "both passes": {},
    "account, scores": {"score": "loss", "std_errors": False},
    "account, both passes": {"score": "loss"},
    "PreDecomp with errors": {"method": "predecomp"},
}


def main(name="W1", turns=8):
    warnings.simplefilter("ignore")
    w = WORKLOADS[name]
    booster = xgboost.Booster(model_file=str(model_path(w)))
    booster.set_param({"nthread": 1})
    X, y = rows_of(w)
    model = ti.read_model(booster)
    jobs = {"inplace_predict": lambda: booster.inplace_predict(X, predict_type="margin")}
    for what, options in OURS.items():
        jobs[what] = lambda options=options: ti.importance(model, X, y, n_jobs=1, **options)
    best = dict.fromkeys(jobs, np.inf)
    for _ in range(int(turns)):
        for what, job in jobs.items():
            begun = time.process_time()
            job()
            best[what] = min(best[what], time.process_time() - begun)
    print(f"{name}, {len(X):,} rows, {ti.instruction_set()}, XGBoost {xgboost.__version__}")
    for what, seconds in best.items():
        print(f"{what:22s} {1e3 * seconds:7.0f} ms  {seconds / best['inplace_predict']:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
