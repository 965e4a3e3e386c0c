"""What a verdict is: a claim, its rule, and for every problem a number with its standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from treeinner_study.names import BEST, Problem, Score
from treeinner_study.records import Mean, Study

__all__ = [
    "FAILS",
    "HOLDS",
    "RULE",
    "TIE",
    "UNDECIDED",
    "Claim",
    "Finding",
    "against",
    "by_sign",
    "claim",
    "listed",
]

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
RULE = (
    "A mean or a paired difference over replications is clearly above or below a value if its 95 % interval "
    "(Student's t; 2.09 standard errors with 20 replications) leaves the value out; if not, it is undecided. "
    "Intervals are not adjusted for how many of them there are."
)
TIE = 0.05  # AUC within which two scores, or a score and guessing, are called equal
Find = Callable[[Study, Problem], tuple[str, str] | None]


@dataclass(frozen=True)
class Finding:
    """A claim on one problem."""

    problem: Problem
    verdict: str
    number: str


@dataclass(frozen=True)
class Claim:
    """What is claimed, when it holds, and what was found."""

    name: str
    says: str
    rule: str
    findings: tuple[Finding, ...]
    ours: bool = False  # not in the paper: what an honest reproduction adds

    def where(self, verdict: str) -> list[Problem]:
        """Problems with a verdict."""
        return [f.problem for f in self.findings if f.verdict == verdict]

    @property
    def verdict(self) -> str:
        """The verdict if all problems share it; else "mixed"; "not run" without any."""
        verdicts = {f.verdict for f in self.findings}
        return verdicts.pop() if len(verdicts) == 1 else "mixed" if verdicts else "not run"

    @property
    def summary(self) -> str:
        """One sentence: where it holds, where not, where it is undecided."""
        if not self.findings:
            return "This was not run."
        n = len(self.findings)
        if self.verdict != "mixed":
            every = "any of the" if self.verdict == FAILS else "all"
            where = f"on {every} {n} problems" if n > 1 else f"on {self.findings[0].problem}, the only one run"
            return f"{self.verdict.capitalize()} {where}."
        parts = [f"{v} on {listed(map(str, self.where(v)))}" for v in (HOLDS, FAILS, UNDECIDED) if self.where(v)]
        text = "; ".join(parts) + "."
        return text[0].upper() + text[1:]


def listed(items: Iterable[Any]) -> str:
    """Write "a, b and c"."""
    words = [str(item) for item in items]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def claim(name: str, *, says: str, rule: str, ours: bool = False) -> Callable[[Find], Callable[[Study], Claim]]:
    """Turn a function that judges one problem into one that judges a study.

    The function returns a verdict and a number in words, or None where it has no data.
    """

    def decorate(find: Find) -> Callable[[Study], Claim]:
        def check(study: Study) -> Claim:
            found = ((problem, find(study, problem)) for problem in study.problems)
            return Claim(name, says, rule, tuple(Finding(p, *f) for p, f in found if f is not None), ours)

        return check

    return decorate


def by_sign(sign: int, wanted: int = 1) -> str:
    """Verdict on a claim that a difference has a sign."""
    return HOLDS if sign == wanted else FAILS if sign == -wanted else UNDECIDED


def against(study: Study, problem: Problem, rivals: Sequence[Score], **where: Any) -> dict[Score, Mean]:
    """Paired differences in AUC to the proposed score, of the rivals that were run."""
    differences = {s: study.difference(problem, s, BEST, **where) for s in rivals}
    return {s: d for s, d in differences.items() if d.n}
