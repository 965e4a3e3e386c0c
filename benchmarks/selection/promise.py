"""Does selection keep its promise? Realised false discovery rate and power on data whose relevant features are known.

Run `make selection-promise`, or `python benchmarks/selection/promise.py`. Results go to build/selection, a line for
each replication, so that a run that was interrupted continues where it stopped; `--minutes 60` stops after an hour.
Then it adds the results up (docs/selection/promise.json) and writes the tables of docs/selection-promise.md.

A replication is fitted once, and both tests are asked at all three rates. Replications count from 1000: the method was
chosen on lower ones.
"""

import argparse
import subprocess
import time
import warnings
from pathlib import Path

import numpy as np
import promise_page
import records

from designs import COLUMNS, DESIGNS, MAX_ROWS, PAPER, chip_folder
from treeinner.score.infer import benjamini_hochberg
from treeinner.select.cuts import one_sided

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "build" / "selection" / "promise.jsonl"
RATES = (0.05, 0.1, 0.2)
FIRST_SEED = 1000
ENOUGH, MANY = 40, 100  # replications of every cell, and of the cheap ones
CHEAP = 1000  # rows at most
# Every design with few rows first.
SIZES = ((300, 20), (1000, 50), (300, 50), (1000, 20), (300, 200), (1000, 200), (5000, 20), (5000, 50), (5000, 200))


def cells():
    """(design, rows, columns), in the order in which they are measured; the paper's problems have their own columns."""
    out = {}
    names = [name for name in DESIGNS if not name.startswith("ChIP") or chip_folder() is not None]
    for n, p in SIZES:
        for name in names:
            out[name, min(n, MAX_ROWS.get(name, n)), COLUMNS.get(name, p)] = None
    return list(out)


def jobs():
    """(design, rows, columns, seed): all cells ENOUGH times, then the cheap ones MANY times."""
    first = [(*cell, FIRST_SEED + r) for cell in cells() for r in range(ENOUGH)]
    return first + [(*cell, FIRST_SEED + r) for cell in cells() if cell[1] <= CHEAP for r in range(ENOUGH, MANY)]


# -- one replication -------------------------------------------------------------------------------------------
def replication(name, n, p, seed):
    """What both tests select at each rate, and the seconds of the selector."""
    import treeinner as ti

    data = DESIGNS[name](n, p, seed)
    # The number of classes tells a classification, as it does for every scikit-learn estimator.
    y = data.y.astype(int) if data.task == "binary" else data.y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ti.TreeInnerWarning)
        warnings.simplefilter("ignore", UserWarning)  # nothing was selected
        began = time.perf_counter()
        found = ti.TreeInnerSelector(test="conditional", random_state=seed).fit(data.X, y)
        seconds = time.perf_counter() - began
    alone = found.importance_  # test="marginal" makes these p values and q values of it
    q_alone = benjamini_hochberg(one_sided(alone.scores, alone.std_errors, alone.p_values))
    return {
        "conditional": outcome(found.qvalues_, data.relevant_conditional, found.conditional_.sets),
        "marginal": outcome(q_alone, data.relevant_marginal),
        "seconds": round(seconds, 3),
    }


def outcome(q_values, relevant, groups=()):
    """[false finds, finds, relevant features found, relevant features] at each rate.

    Columns that were tested as one are one find, a true one if one of them is relevant.
    """
    q = np.nan_to_num(np.asarray(q_values, float).reshape(len(relevant)), nan=1.0)
    tested_as_one = {k for group in groups for k in group}
    units = [*map(list, groups), *([k] for k in range(len(q)) if k not in tested_as_one)]
    out = []
    for rate in RATES:
        finds = [unit for unit in units if q[unit].min() <= rate]
        false = sum(not relevant[unit].any() for unit in finds)
        found = {k for unit in finds for k in unit if relevant[k]}
        out.append([int(false), len(finds), len(found), int(relevant.sum())])
    return out


# -- all replications of a cell ----------------------------------------------------------------------------------
def summary(records):
    """Of one cell: mean and standard error of the false discovery proportion and of power, by test and rate."""
    out = {"replications": len(records), "seconds": round(float(np.mean([r["seconds"] for r in records])), 3)}
    for test in ("conditional", "marginal"):
        false, finds, found, relevant = np.array([r[test] for r in records], float).transpose(2, 0, 1)
        proportion = false / np.maximum(finds, 1)
        out[test] = {
            "fdr": mean_and_error(proportion),
            "power": mean_and_error(found / relevant) if relevant.all() else None,
            "nothing": (finds == 0).mean(axis=0).round(4).tolist(),
        }
    return out


def mean_and_error(values):
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return [[round(float(m), 5), round(float(e), 5)] for m, e in zip(values.mean(axis=0), error, strict=True)]


def added_up(results):
    of = {}
    for (*cell, _), record in results.items():
        of.setdefault(tuple(cell), []).append(record)
    known = [cell for cell in cells() if len(of.get(cell, ())) >= ENOUGH]
    return [{"design": c[0], "rows": c[1], "columns": c[2], **summary(of[c])} for c in known]


def measured_commit():
    """What was measured; a dirty tree says so."""
    return subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop after so many minutes; a later run goes on")
    parser.add_argument(
        "--results", type=Path, nargs="+", default=[RESULTS], help="files of replications; the run adds to the first"
    )
    parser.add_argument("--write-only", action="store_true", help="write the page from the replications there are")
    parser.add_argument("--commit", default=None, help="what was measured, if not the commit of this folder")
    args = parser.parse_args()
    if not args.write_only:
        records.add(args.results[0], jobs(), records.load(args.results[0]), replication, args.minutes)
    results = {key: record for path in args.results for key, record in records.load(path).items()}
    found = {"commit": args.commit or measured_commit(), "rates": RATES, "cells": added_up(results)}
    promise_page.write(found, sorted(PAPER))


if __name__ == "__main__":
    main()
