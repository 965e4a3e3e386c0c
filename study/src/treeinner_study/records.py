"""Stored results as one index, and the means, paired differences and standard errors that all shown is made of."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from treeinner_study.grid import SWEEPS, Setting, standard, sweeps
from treeinner_study.names import BEST, PROBLEMS, REFERENCES, SCORES, Problem, Score, StudyError

__all__ = ["Mean", "Study", "plus_minus", "read_study", "signed"]


SETTING = ("eta", "max_depth", "min_child_weight", "num_boost_round", "reg_lambda")
NUMBERS = ("auc", "auc_first10", "score_noisy", "score_signal", "risk", "error")
NAMES = ("dataset", "task", "gfa", "domain", "ifa")


@dataclass(frozen=True)
class Mean:
    """Mean over replications; std is the sample standard deviation, NaN for fewer than two."""

    mean: float
    std: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Mean:
        """Summarise numbers; NaN among them were not measured and do not count."""
        x = np.array([v for v in values if not math.isnan(v)])
        if not len(x):
            return cls(math.nan, math.nan, 0)
        return cls(float(x.mean()), float(x.std(ddof=1)) if len(x) > 1 else math.nan, len(x))

    @property
    def se(self) -> float:
        """Standard error of the mean."""
        return self.std / math.sqrt(self.n) if self.n > 1 else math.nan

    @property
    def reach(self) -> float:
        """Half the width of the 95 % interval (Student's t)."""
        return self.reach_among(1)

    def reach_among(self, intervals: int) -> float:
        """Half the width if this is one of some intervals that are to hold together in 95 % of cases (Bonferroni)."""
        return _t(self.n - 1, intervals) * self.se if self.n > 1 else math.nan

    def sign(self, than: float = 0.0) -> int:
        """Return 1 or -1 if the mean is clearly above or below `than`: its 95 % interval leaves it out; else 0."""
        away = self.mean - than
        return int(math.copysign(1, away)) if abs(away) > self.reach else 0  # NaN compares as False: not clear


@cache
def _t(df: int, intervals: int) -> float:
    """Quantile of Student's t for 95 % intervals; thousands of them share a few degrees of freedom."""
    return float(stats.t.isf(0.025 / intervals, df))


def plus_minus(m: Mean, digits: int = 3) -> str:
    """Write "0.767 ± 0.024": mean and standard error."""
    if not m.n:
        return "not run"
    return f"{m.mean:.{digits}f}" + ("" if math.isnan(m.se) else f" ± {m.se:.{digits}f}")


def signed(m: Mean, digits: int = 3) -> str:
    """Write "+0.022 ± 0.011": a difference and its standard error."""
    return ("+" if m.n and m.mean >= 0 else "") + plus_minus(m, digits)


@dataclass(frozen=True, eq=False)
class Study:
    """Everything a study stored: rows[problem, score, setting][replication][column]."""

    rows: dict[tuple[Problem, Score, Setting], dict[int, dict[str, float]]]
    meta: dict[str, Any]

    @property
    def rounds(self) -> int | None:
        """Rounds of the standard setting if not the paper's 400 (miniatures)."""
        rounds = self.meta.get("rounds")
        return None if rounds is None else int(rounds)

    @property
    def standard(self) -> Setting:
        """The standard setting of this study."""
        return standard(self.rounds)

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """Problems with rows at the standard setting, in the paper's order."""
        return tuple(p for p in PROBLEMS if any(self.get(p, s) for s in SCORES))

    @cached_property
    def replications(self) -> int:
        """Replications of the standard setting, of the problem that has most."""
        return max((len(self.get(p, s)) for p in self.problems for s in SCORES), default=0)

    @cached_property
    def swept_part(self) -> Study:
        """The same study with those replications only that were run at all settings.

        Along a sweep every setting then has the same replications, and nothing but the setting differs.
        """
        everywhere: dict[Problem, set[int]] = {}
        for (problem, score, _), numbers in self.rows.items():
            if score in SCORES:
                everywhere[problem] = everywhere.get(problem, set(numbers)) & set(numbers)
        kept = {
            key: {i: row for i, row in numbers.items() if i in everywhere.get(key[0], ())}
            for key, numbers in self.rows.items()
        }
        return Study(kept, self.meta)

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """Settings that were run for any problem."""
        return tuple(sorted({setting for _, _, setting in self.rows}))

    def sweep(self, name: str) -> tuple[Setting, ...]:
        """Settings of a sweep that were run, in the paper's order."""
        return tuple(s for s in sweeps(self.rounds)[name] if s in self.settings)

    @property
    def swept(self) -> tuple[str, ...]:
        """Sweeps of which at least two settings were run."""
        return tuple(name for name in SWEEPS if len(self.sweep(name)) > 1)

    def get(self, problem: Problem, score: Score, setting: Setting | None = None) -> dict[int, dict[str, float]]:
        """Replication -> its numbers; empty if it was not run."""
        return self.rows.get((problem, score, setting or self.standard), {})

    def values(
        self, problem: Problem, score: Score, column: str = "auc", setting: Setting | None = None
    ) -> dict[int, float]:
        """Replication -> its number in a column; what was not measured is left out."""
        found = {i: row[column] for i, row in self.get(problem, score, setting).items()}
        return {i: value for i, value in found.items() if not math.isnan(value)}

    def differences(
        self, problem: Problem, score: Score, to: Score, column: str = "auc",
        *, setting: Setting | None = None, to_setting: Setting | None = None,
    ) -> dict[int, float]:  # fmt: skip
        """Replication -> the paired difference score - to."""
        a = self.values(problem, score, column, setting)
        b = self.values(problem, to, column, to_setting or setting)
        return {i: a[i] - b[i] for i in a if i in b}

    def mean(self, problem: Problem, score: Score, column: str = "auc", setting: Setting | None = None) -> Mean:
        """Mean of a column over the replications."""
        return Mean.of(self.values(problem, score, column, setting).values())

    def difference(self, problem: Problem, score: Score, to: Score, column: str = "auc", **where: Any) -> Mean:
        """Mean over the replications of the paired difference score - to."""
        return Mean.of(self.differences(problem, score, to, column, **where).values())

    def risk(self, problem: Problem, setting: Setting | None = None) -> Mean:
        """Risk of the model, which all scores of a replication share; taken from the first score that was run."""
        score = next((s for s in SCORES if self.get(problem, s, setting)), BEST)
        return self.mean(problem, score, "risk", setting)

    def references(self, problem: Problem) -> tuple[Score, ...]:
        """Reference scores of a problem, in the order of REFERENCES."""
        found = {s for p, s, _ in self.rows if p == problem and s.gfa in REFERENCES}
        return tuple(sorted(found, key=lambda s: (REFERENCES.index(s.gfa), s)))


def read_study(results: Path) -> Study:
    """Read meta.json and results.parquet of a study."""
    for name in ("meta.json", "results.parquet"):
        if not (results / name).is_file():
            raise StudyError(f"{results} has no {name}; run `treeinner-study` first, which writes it.")
    meta = json.loads((results / "meta.json").read_text(encoding="utf-8"))
    frame = pd.read_parquet(results / "results.parquet")
    missing = [name for name in (*NAMES, "replication", *SETTING, *NUMBERS) if name not in frame]
    if missing:
        raise StudyError(f"results.parquet has no column {missing[0]!r}; it was not written by `treeinner-study`.")
    return Study(_index(frame), meta)


def _index(frame: pd.DataFrame) -> dict[tuple[Problem, Score, Setting], dict[int, dict[str, float]]]:
    """Rows by what they are about, replications in ascending order, so that no sum depends on the order of the file."""
    rows: dict[tuple[Problem, Score, Setting], dict[int, dict[str, float]]] = {}
    for row in frame.sort_values("replication", kind="stable").to_dict("records"):
        problem = Problem(row["dataset"], row["task"])
        score = Score(row["gfa"], row["domain"], row["ifa"])
        setting = Setting(**{name: row[name] for name in SETTING})
        replication = int(row["replication"])
        numbers = rows.setdefault((problem, score, setting), {})
        if replication in numbers:
            raise StudyError(
                f"results.parquet contains replication {replication} of {problem}, {score}, {setting} twice; delete "
                "it and run `treeinner-study` again, which writes it anew."
            )
        numbers[replication] = {name: float(row[name]) for name in NUMBERS}
    return rows
