"""Results as a study stores them, made up."""

import json
import math

import numpy as np
import pandas as pd

from treeinner_study import table
from treeinner_study.grid import STANDARD, SWEEPS, settings_of, standard
from treeinner_study.names import ADDED, BEST, GAIN, PROBLEMS, SCORES, Score

SETTING = ["eta", "max_depth", "min_child_weight", "num_boost_round", "reg_lambda"]
KEY = ["dataset", "task", "gfa", "domain", "ifa"]
REFERENCES = [
    ("F-test", "Train", ""), ("Linear |t|", "Train+Valid", ""), ("Placebo TreeInner", "Valid", "PreDecomp"),
    ("Placebo TreeInner", "Valid", "Centred"), ("Minus total gain", "Train", ""),
]  # fmt: skip


def make_frame(replications=6, problems=PROBLEMS, sweeps=tuple(SWEEPS), rounds=None, seed=0, swept=None):
    """Rows as a study stores them, around the paper's own means; the first `swept` replications have all settings."""
    rng = np.random.default_rng(seed)
    paper = {
        (r["dist"], r["task"], r["gfa"], r["domain"], r["ifa"].replace("Permutation", "")): r
        for r in table.paper_rows()
    }
    rows = []
    for problem in problems:
        for replication in range(replications):
            whole = swept is None or replication < swept
            for setting in settings_of(sweeps if whole else (), rounds):
                risk = float(paper[(*problem, *SCORES[0])]["risk_mean"]) * (1 + 0.01 * rng.normal())
                scores = [*SCORES, *ADDED, *(map(Score._make, REFERENCES) if setting == standard(rounds) else ())]
                for score in scores:
                    known = paper.get((*problem, *score), {"auc_mean": 0.5, "auc_std": 0.1})
                    auc = float(np.clip(float(known["auc_mean"]) + 0.3 * float(known["auc_std"]) * rng.normal(), 0, 1))
                    below = score.domain == "Valid" and score.gfa == "TreeInner"
                    rows.append({
                        "dataset": problem.dataset, "task": problem.task, "process": "as_run",
                        "replication": replication, **{n: getattr(setting, n) for n in SETTING}, **score._asdict(),
                        "auc": auc, "risk": risk,
                        "auc_first10": 0.9 * auc if problem.dataset == "Simulated" else math.nan,
                        "score_noisy": (-0.03 if below else 0.08) + 0.01 * rng.normal(),
                        "score_signal": 0.3 + 0.01 * rng.normal(),
                        "error": 10 ** rng.normal(-7.8, 0.2) if score == GAIN else math.nan,
                        "score_seconds": 0.1, "train_seconds": 2.0, "read_seconds": 0.1, "alone_seconds": 1.0,
                    })  # fmt: skip
    return pd.DataFrame(rows)


def make_meta(**changes):
    meta = {
        "seed": 7, "process": "as_run", "replications": 6, "sweep_replications": 20,
        "rounds": None, "quick": False, "instruction_set": "avx2",
        "versions": {"treeinner": "0.1", "xgboost": "3.2", "numpy": "2", "python": "3.11"}, "cpu": "<b>A & B</b>",
        "threads_per_job": 1, "jobs": 2, "started": "2026-01-01T00:00:00+00:00", "wall_seconds": 90.0,
        "cpu_seconds": 100.0, "training_seconds": 60.0, "settings": [], "problems": [], "missing": [],
    }  # fmt: skip
    return meta | changes


def store(folder, frame, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(folder / "results.parquet")
    (folder / "meta.json").write_text(json.dumps(make_meta(**changes)))
    return folder


def at_standard(frame):
    usual = np.logical_and.reduce([frame[name] == getattr(STANDARD, name) for name in SETTING])
    return frame[usual]


def changed(frame, column, value, **where):
    """A copy in which a score has other numbers: value(numbers of TreeInner-Valid-PreDecomp), and noise."""
    out = frame.copy()
    chosen = np.logical_and.reduce([out[k] == v for k, v in where.items()])
    best = out[np.logical_and.reduce([out[k] == v for k, v in zip(KEY[2:], BEST, strict=True)])]
    case = ["dataset", "task", "replication", *SETTING]
    base = best.set_index(case)[column]
    index = pd.MultiIndex.from_frame(out.loc[chosen, case])
    noise = 0.01 * np.random.default_rng(3).normal(size=chosen.sum())
    out.loc[chosen, column] = value(base.loc[index].to_numpy()) + noise
    return out
