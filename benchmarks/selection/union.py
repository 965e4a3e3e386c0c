"""Better than the paper: cross-fitting on all rows against its single split. Writes docs/selection-union.md.

The paper fits on one half of the rows and scores the other. Here every row of both halves is held out once per repeat
(ti.cross_importance, five folds), and the AUC of relevant against noisy features is compared, replication by
replication, on the paper's four problems at its standard setting.

Run `TREEINNER_CHIP=folder python benchmarks/selection/union.py` (about 40 minutes of one core; study/ must be on the
path). Results go to build/selection/union, a file for each replication, so that a run that was interrupted continues
where it stopped.
"""

import argparse
import json
import platform
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow.parquet
import xgboost
from pages import filled, mean, table

import treeinner as ti
from treeinner_study.chip import find_chip, load_chip
from treeinner_study.grid import STANDARD
from treeinner_study.measure import BASE_SCORE, area_under_curve
from treeinner_study.names import BEST, CENTRED, PROBLEMS
from treeinner_study.problems import Seeds, make_data

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "selection" / "union"
STUDY = ROOT / "docs" / "study" / "results" / "results.parquet"
PAGE = ROOT / "docs" / "selection-union.md"
NUMBERS = ROOT / "docs" / "selection-union.json"
PACKAGES = ("treeinner", "xgboost", "scikit-learn", "numpy")
REPLICATIONS, FOLDS, REPEATS = 40, 5, 3


# -- running -------------------------------------------------------------------------------------------------
def estimator(problem):
    """XGBoost at the paper's standard setting, but for tree_method, which was exact and takes three times as long."""
    kind = xgboost.XGBClassifier if problem.task == "classification" else xgboost.XGBRegressor
    return kind(
        n_estimators=STANDARD.num_boost_round, learning_rate=STANDARD.eta, max_depth=STANDARD.max_depth,
        min_child_weight=STANDARD.min_child_weight, reg_lambda=STANDARD.reg_lambda,
        base_score=BASE_SCORE[problem.task], tree_method="hist", n_jobs=1,
    )  # fmt: skip


def replication(problem, number, chip):
    """AUC of every way to score one draw of a problem, and its seconds."""
    data = make_data(problem, "as_run", Seeds(0, problem, number).generator("data"), chip)
    aucs, seconds = {}, {}
    began = time.process_time()
    model = ti.read_model(estimator(problem).fit(data.X_train, data.y_train))
    for method in ("centred", "predecomp"):
        asked = {"score": "tree_inner", "method": method, "n_jobs": 1}
        found = ti.importance(model, data.X_valid, data.y_valid, **asked)
        aucs[f"single, {method}"] = area_under_curve(data.relevant, found.scores)
    seconds["single"] = time.process_time() - began
    X, y = np.concatenate([data.X_train, data.X_valid]), np.concatenate([data.y_train, data.y_valid])
    began = time.process_time()
    asked = {"cv": FOLDS, "repeats": REPEATS, "random_state": number, "n_jobs": 1}
    by_fold = ti.cross_importance(estimator(problem), X, y, **asked).folds.scores
    seconds["cross"] = time.process_time() - began
    for repeats in range(1, REPEATS + 1):  # the folds of the first repeat are those of repeats=1
        scores = by_fold[: repeats * FOLDS].mean(axis=0)
        aucs[f"cross, {repeats}"] = area_under_curve(data.relevant, scores)
    return {"problem": str(problem), "replication": number, "auc": aucs, "seconds": seconds}


def results():
    """{(problem, replication): record} of what was done so far."""
    return {(r["problem"], r["replication"]): r for r in (json.loads(f.read_text()) for f in FOLDER.glob("*.json"))}


def run(n_replications, part, parts):
    chip = load_chip(find_chip())
    FOLDER.mkdir(parents=True, exist_ok=True)
    units = [(problem, number) for number in range(n_replications) for problem in PROBLEMS]
    for problem, number in units[part::parts]:
        file = FOLDER / f"{problem.name}-{number}.json"
        if not file.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                record = replication(problem, number, chip)
            file.with_suffix(".part").write_text(json.dumps(record))
            file.with_suffix(".part").replace(file)  # there as a whole, or not at all


# -- the page ------------------------------------------------------------------------------------------------
def of_study():
    """The single split of the study, by exact trees on the same draws: {problem: {score: AUC by replication}}."""
    rows = pyarrow.parquet.read_table(STUDY).to_pylist()
    out = {str(problem): {"exact, centred": {}, "exact, predecomp": {}} for problem in PROBLEMS}
    at = ("eta", "max_depth", "min_child_weight", "num_boost_round", "reg_lambda")
    for row in rows:
        score = (row["gfa"], row["domain"], row["ifa"])
        if score in (BEST, CENTRED) and all(row[name] == getattr(STANDARD, name) for name in at):
            name = "exact, centred" if score == CENTRED else "exact, predecomp"
            out[f"{row['dataset']} {row['task']}"][name][row["replication"]] = row["auc"]
    return out


def numbers(records):
    """{problem: {way: AUC of every replication}}."""
    study = of_study()
    out = {}
    for problem in map(str, PROBLEMS):
        mine = {number: record["auc"] for (name, number), record in sorted(records.items()) if name == problem}
        ways = next(iter(mine.values()))
        out[problem] = {way: [round(auc[way], 6) for auc in mine.values()] for way in ways}
        out[problem] |= {way: [round(aucs[number], 6) for number in mine] for way, aucs in study[problem].items()}
    return out


def difference(found, one, other):
    m, error = mean(np.subtract(found[one], found[other]))
    return f"{m:+.3f} ± {error:.3f}" if abs(m) <= 2 * error else f"**{m:+.3f}** ± {error:.3f}"


WAYS = {
    "single, centred": "single split", "cross, 1": "cross-fitted once", "cross, 3": "three times",
    "single, predecomp": "single, PreDecomp", "exact, centred": "single, exact trees",
    "exact, predecomp": "the paper's: exact trees, PreDecomp",
}  # fmt: skip
PAIRS = {
    "once - single": ("cross, 1", "single, centred"),
    "three times - single": ("cross, 3", "single, centred"),
    "three times - once": ("cross, 3", "cross, 1"),
    "three times - single, exact trees": ("cross, 3", "exact, centred"),
    "three times - the paper's": ("cross, 3", "exact, predecomp"),
}


def page_tables(found):
    """The tables of the page, by their marks."""
    aucs = [[problem, *("{:.3f} ± {:.3f}".format(*mean(by[way])) for way in WAYS)] for problem, by in found.items()]
    paired = [[problem, *(difference(by, *pair) for pair in PAIRS.values())] for problem, by in found.items()]
    return {"aucs": table(["AUC", *WAYS.values()], aucs), "differences": table(["difference", *PAIRS], paired)}


def made_by(records):
    minutes = sum(sum(record["seconds"].values()) for record in records.values()) / 60
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    n = len(records) // len(PROBLEMS)
    return f"{n} replications, {minutes:.0f} minutes of one core; {packages}, Python {platform.python_version()}."


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    parser.add_argument("--part", type=int, default=0, help="do each --parts-th replication from this one on")
    parser.add_argument("--parts", type=int, default=1, help="number of processes that share the work")
    parser.add_argument("--write-only", action="store_true", help="write the page from the results there are")
    args = parser.parse_args()
    if not args.write_only:
        run(args.replications, args.part, args.parts)
    if args.parts == 1:
        records = results()
        found = numbers(records)
        NUMBERS.write_text(json.dumps(found, indent=1) + "\n")
        PAGE.write_text(filled(PAGE.read_text(), {"made": made_by(records), **page_tables(found)}))


if __name__ == "__main__":
    main()
