"""Comparisons: what claims are put as, and how the usual ones are made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from treeinner_study.grid import Setting
from treeinner_study.names import Problem, Score
from treeinner_study.records import Mean, Study, signed

__all__ = ["TIE", "Comparison", "at", "averaged", "better", "noise", "swept"]

TIE = 0.05  # AUC within which two scores, or a score and guessing, are called equal


@dataclass(frozen=True, eq=False)
class Comparison:
    """Something measured in each replication, whose mean is claimed to be above 0 (`wanted` 1) or below (-1)."""

    name: str
    values: dict[int, float]
    wanted: int = 1
    margin: float = 0.0
    digits: int = 3

    @cached_property
    def mean(self) -> Mean:
        """Mean over the replications."""
        return Mean.of(self.values.values())

    def side(self, among: int = 1) -> int:
        """Return 1 if it is clearly as claimed, -1 if clearly not, by one of `among` simultaneous intervals; else 0."""
        middle, reach = self.wanted * self.mean.mean, self.mean.reach_among(among)
        if middle - reach > -self.margin:  # NaN compares as False: not clear
            return 1
        return -1 if middle + reach < 0 else 0

    def __str__(self) -> str:
        return f"{self.name} {signed(self.mean, self.digits)}".strip()


def averaged(parts: Sequence[dict[int, float]]) -> dict[int, float]:
    """Mean of several numbers in each replication that has them all."""
    common = [i for i in (parts[0] if parts else ()) if all(i in part for part in parts)]
    return {i: math.fsum(part[i] for part in parts) / len(parts) for i in common}


def swept(study: Study, name: str) -> tuple[Setting, ...]:
    """Settings of a sweep; none if it was not run."""
    settings = study.sweep(name)
    return settings if len(settings) > 1 else ()


def better(
    study: Study, problem: Problem, score: Score, than: Sequence[Score], settings: Sequence[Setting] = (),
    *, margin: float = 0.0, column: str = "auc",
) -> list[Comparison]:  # fmt: skip
    """`score` less each of the others, at the standard setting or at all settings of a sweep."""
    return [
        Comparison(_called(other, setting, study), found, margin=margin)
        for setting in settings or (study.standard,)
        for other in than
        if (found := study.differences(problem, score, other, column, setting=setting))
    ]


def _called(score: Score, setting: Setting, study: Study) -> str:
    """Name of a comparison: what `score` is held against, and where."""
    own = " (the paper's own)" if score.gfa == "ForestInner" else ""
    return f"against {score}{own}{at(setting, study)}"


def at(setting: Setting, study: Study) -> str:
    """Say in what a setting differs from the standard one."""
    changed = [f" at {k} {v:g}" for k, v in vars(setting).items() if v != getattr(study.standard, k)]
    return "".join(changed)


def noise(
    study: Study, problem: Problem, scores: Sequence[Score], settings: Sequence[Setting], wanted: int
) -> list[Comparison]:
    """Mean normalised score of noisy features."""
    return [
        Comparison(f"{s}{at(setting, study)}", study.values(problem, s, "score_noisy", setting), wanted, digits=4)
        for setting in settings
        for s in scores
    ]
