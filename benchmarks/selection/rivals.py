"""Feature selection against what users would pick instead, on the same data: writes docs/selection-rivals.md.

Run `make selection-rivals`. Results go to build/selection/rivals.jsonl, a line for each (design, method, replication),
so that a run that was interrupted continues where it stopped; lines of other data than the designs give now are not
used. `--minutes 30` stops after the job that is running then, `--methods`, `--designs` and `--replications` take a
part, `--write-only` writes the page from what there is. One core is used.
"""

import argparse
import contextlib
import functools
import io
import os
import signal
import time
import traceback
import warnings
import zlib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import records
from measures import auc, false_share, power, refit_loss
from methods import METHODS

import designs

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "build" / "selection" / "rivals.jsonl"
NAMES = (*designs.PAPER, "Friedman", "weak linear", "XOR", "correlated blocks", "pure noise")
ROWS, TEST_ROWS, COLUMNS = 1000, 4000, 50
LIMIT = 300  # processor seconds of one run
REFERENCE = "reference"  # losses with all features and with the relevant ones, beside the methods
PACKAGES = {"sklearn": "scikit-learn", "shap_select": "shap-select"}  # where the package is not called as the module


@functools.lru_cache(maxsize=len(NAMES))
def sample(name, seed):
    """One draw of a design, cut in two: the design, (X, y) to select on, (X, y) to test on."""
    p = designs.COLUMNS.get(name, COLUMNS)
    n = min(ROWS + TEST_ROWS, designs.MAX_ROWS.get(name, ROWS + TEST_ROWS))
    drawn = designs.DESIGNS[name](n, p, seed)
    X = np.ascontiguousarray(drawn.X, dtype=np.float64)
    y = drawn.y.astype(int) if drawn.task == "binary" else drawn.y
    return drawn, (X[:ROWS], y[:ROWS]), (X[ROWS:], y[ROWS:])


@functools.cache
def fingerprint(name, seed):
    """Of the data of a draw: results of other data are not used."""
    _, train, test = sample(name, seed)
    return functools.reduce(lambda crc, a: zlib.crc32(np.ascontiguousarray(a), crc), (*train, *test), 0)


def reference(name, seed):
    drawn, train, test = sample(name, seed)
    everything = np.ones(train[0].shape[1], bool)
    return {
        "loss of all": refit_loss(train, test, everything, drawn.task),
        "loss of relevant": refit_loss(train, test, drawn.relevant_conditional, drawn.task),
    }


def measured(name, method, seed):
    """What one method does on one draw: processor seconds, AUC, and for a choice FDR, power and the loss."""
    drawn, train, test = sample(name, seed)
    METHODS[method].load()
    start = time.process_time()
    choice = METHODS[method].choose(train[0].copy(), train[1].copy(), drawn.task, seed)
    out = {"seconds": time.process_time() - start, "version": package_version(method)}
    truths = {"marginal": drawn.relevant_marginal, "conditional": drawn.relevant_conditional}
    out |= {f"auc {kind}": auc(choice.score, truth) for kind, truth in truths.items()}
    if choice.kept is not None:
        kept = np.asarray(choice.kept, bool)
        out |= {f"fdr {kind}": false_share(kept, truth) for kind, truth in truths.items()}
        out |= {f"power {kind}": power(kept, truth) for kind, truth in truths.items()}
        out |= {"kept": np.flatnonzero(kept).tolist(), "loss": refit_loss(train, test, kept, drawn.task)}
    return out


def package_version(method):
    module = METHODS[method].modules[0].split(".")[0]
    return version(PACKAGES.get(module, module))


@contextlib.contextmanager
def time_limit(seconds):
    """Raise TimeoutError in the block after so many processor seconds, as soon as Python code runs."""

    def stop(*_):
        raise TimeoutError(f"stopped after {seconds} processor seconds")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def quietly(call, *args):
    """Result of a call, or its error as a record; what it prints and warns of is dropped."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with time_limit(LIMIT):
                return call(*args)
        except Exception as error:  # a package that fails on a design is a finding
            return {"error": f"{type(error).__name__}: {error}"[:500], "where": traceback.format_exc()[-1500:]}


# -- running -------------------------------------------------------------------------------------------------
def jobs(names, methods, replications=None):
    """(design, method, replication), such that a run cut short has a bit of everything."""
    out = []
    for name in names:
        for method in (REFERENCE, *methods):
            n = METHODS[method].replications if method in METHODS else 20
            out += [((r + 1) / n, r, name, method) for r in range(min(n, replications or n))]
    order = {name: i for i, name in enumerate(names)}
    return [(name, method, r) for _, r, name, method in sorted(out, key=lambda job: (job[0], job[1], order[job[2]]))]


def load(path=RESULTS):
    """{(design, method, replication): record}, of the data that the designs give now; failures included."""
    names = available(designs.DESIGNS)
    found = records.load(path).items()
    return {key: record for key, record in found if key[0] in names and record["data"] == fingerprint(key[0], key[2])}


def recorded(name, method, r):
    """What goes into the line of a job."""
    call = (reference, name, r) if method == REFERENCE else (measured, name, method, r)
    return {"data": fingerprint(name, r), **quietly(*call)}


def run(wanted, path=RESULTS, minutes=np.inf):
    done = {key for key, record in load(path).items() if "error" not in record}
    records.add(path, wanted, done, recorded, minutes)


def one_core():
    """Hold the process to one core, so that seconds compare; packages differ in how many they take."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def available(names):
    """Those of the designs that can be drawn here: ChIP needs its files."""
    chip = any(n.startswith("ChIP") for n in names) and designs.chip_folder() is not None
    return [n for n in names if chip or not n.startswith("ChIP")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--designs", nargs="+", default=NAMES, choices=designs.DESIGNS)
    parser.add_argument("--methods", nargs="+", default=tuple(METHODS), choices=METHODS)
    parser.add_argument("--replications", type=int, help="at most so many of each")
    parser.add_argument("--minutes", type=float, default=np.inf)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--write-only", action="store_true", help="write the page from the results there are")
    parser.add_argument("--run-only", action="store_true", help="leave the page alone")
    args = parser.parse_args()
    if not args.write_only:
        one_core()
        methods = [m for m in args.methods if METHODS[m].installed()]
        run(jobs(available(args.designs), methods, args.replications), args.results, args.minutes)
    if not args.run_only:
        import rivals_page

        rivals_page.write(load(args.results))


if __name__ == "__main__":
    main()
