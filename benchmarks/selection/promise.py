"""Does selection keep its promise? Realised false discovery rate and power on data whose relevant features are known.

Run `make selection-promise`, or `python benchmarks/selection/promise.py`. Results go to build/selection, a line for
each replication, so that a run that was interrupted continues where it stopped; `--minutes 60` stops after an hour.
Then it writes the tables of docs/evidence/selection.md.

A replication is fitted once, and both tests are asked at all three rates. Replications count from 1000: methods were
chosen on lower ones.
"""

import argparse
import platform
import subprocess
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import records
from pages import filled, table

from designs import DESIGNS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "build" / "selection" / "promise.jsonl"
PAGE = ROOT / "docs" / "evidence" / "selection.md"
PACKAGES = ("xgboost", "scikit-learn", "numpy")
RATES = (0.05, 0.1, 0.2)
TESTS = ("marginal", "conditional")
FIRST_SEED = 1000
MANY, ENOUGH = 60, 10  # replications at most, and those that a cell must have to be shown
SMALL, LARGE = (500, 20), (2000, 50)
LARGE_TOO = ("weak linear", "AR(1) chains", "curved children", "bent children", "correlated blocks", "pure noise")
EVERY = 3  # replications of a small cell for one of a large cell
PURE_NOISE = "pure noise"


def cells():
    """(design, rows, columns), in the order of the page."""
    return [(name, *SMALL) for name in DESIGNS] + [(name, *LARGE) for name in LARGE_TOO]


def jobs():
    """(design, rows, columns, seed): every cell in turn, so that a run may stop at any time."""
    return [
        (*cell, FIRST_SEED + r) for r in range(MANY) for cell in cells() if cell[1:] == SMALL or r % EVERY == 0
    ]  # fmt: skip


# -- one replication -------------------------------------------------------------------------------------------
def replication(name, n, p, seed):
    """What both tests select at each rate, and the seconds of the selector."""
    import treeinner as ti

    data = DESIGNS[name](n, p, seed)
    # The number of classes tells a classification, as it does for every scikit-learn estimator.
    y = data.y if data.task == "regression" else data.y.astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ti.TreeInnerWarning)
        began = time.perf_counter()
        found = ti.TreeInnerSelector(test="conditional", random_state=seed, n_jobs=1).fit(data.X, y, groups=data.groups)
        seconds = time.perf_counter() - began
    columns = found.table()  # test="marginal" keeps by the q values of the scores
    return {
        "conditional": outcome(columns["adds_q_value"], data.relevant_conditional, found.conditional_.sets),
        "marginal": outcome(columns["q_value"], data.relevant_marginal),
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
    for test in TESTS:
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


# -- the page ----------------------------------------------------------------------------------------------------
def page(text, results, commit):
    """Text of the page with new tables between the marks."""
    of = {}
    for (*cell, _), record in results.items():
        of.setdefault(tuple(cell), []).append(record)
    found = {cell: summary(of[cell]) for cell in cells() if len(of.get(cell, ())) >= ENOUGH}
    blocks = {"made": made(found, commit), **{test: of_test(found, test) for test in TESTS}, "misses": misses(found)}
    return filled(text, blocks)


def made(found, commit):
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    replications = sum(c["replications"] for c in found.values())
    minutes = sum(c["replications"] * c["seconds"] for c in found.values()) / 60
    return (
        f"`make selection-promise` made the tables: {replications:,} replications in {len(found)} cells, {minutes:.0f} "
        f"minutes of one thread, on a machine that was busy with other work; treeinner at commit {commit}, {packages}, "
        f"Python {platform.python_version()}."
    )


def broken(value, rate):
    """Whether a realised rate (mean, standard error) is above the nominal one by more than two standard errors."""
    return value[0] > rate + 2 * value[1]


def of_test(found, test):
    lines = []
    for (name, n, p), c in found.items():
        shown = ["{:.3f} ± {:.3f}".format(*value) for value in c[test]["fdr"]]
        shown = [f"**{s}**" * broken(v, r) or s for s, v, r in zip(shown, c[test]["fdr"], RATES, strict=True)]
        power = c[test]["power"]
        strength = "" if power is None else " / ".join(f"{mean:.2f}" for mean, _ in power)
        lines.append([name, f"{n} x {p}", str(c["replications"]), *shown, strength])
    power = "power at " + " / ".join(f"{rate:g}" for rate in RATES)
    return table(["design", "rows x columns", "replications", *(f"FDR at {rate:g}" for rate in RATES), power], lines)


def misses(found):
    """Rates that are above their promise, one line each."""
    lines = []
    for (name, n, p), c in found.items():
        for test in TESTS:
            for value, rate in zip(c[test]["fdr"], RATES, strict=True):
                if broken(value, rate):
                    lines.append(f"- `{test}`, {name}, {n} x {p}: {value[0]:.3f} ± {value[1]:.3f} at {rate:g}")
    asked = len(found) * len(TESTS) * len(RATES)
    head = f"{len(lines)} of {asked} rates in {len(found)} cells are above their promise" + (":" if lines else ".")
    return "\n".join([head, "", *sorted(lines)]) if lines else head


def measured_commit():
    """What was measured; a dirty tree says so."""
    return subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop after so many minutes; a later run goes on")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of replications; the run adds to it")
    parser.add_argument("--write-only", action="store_true", help="write the page from the replications there are")
    parser.add_argument("--commit", default=None, help="what was measured, if not the commit of this folder")
    args = parser.parse_args()
    if not args.write_only:
        records.add(args.results, jobs(), records.load(args.results), replication, args.minutes)
    PAGE.write_text(page(PAGE.read_text(), records.load(args.results), args.commit or measured_commit()))


if __name__ == "__main__":
    main()
