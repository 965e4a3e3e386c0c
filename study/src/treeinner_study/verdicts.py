"""What a verdict is: a claim, put as comparisons, and one rule that judges them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from treeinner_study.comparisons import Comparison, averaged
from treeinner_study.names import Problem
from treeinner_study.records import Study

__all__ = [
    "FAILS", "HOLDS", "RULES", "UNDECIDED", "Claim", "Finding", "Found", "claim", "every", "generally", "listed",
]  # fmt: skip

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
RULES = (
    "A claim is put as one or more comparisons: numbers of the replications, mostly paired differences, whose mean is "
    "claimed to be above 0, or below. A comparison is clearly as claimed if the 95 % interval of its mean (Student's t "
    "over the replications; 2.02 standard errors with 40 of them, 2.09 with 20, 4.30 with 3) lies on the claimed side, "
    "and clearly not if it lies on the other side. Where a margin is named, differences within it count as none: the "
    "interval may reach beyond 0 by the margin.",
    "“Every”: the claim holds if every comparison is clearly as claimed. It does not hold if any is clearly not, by "
    "intervals widened for the number of comparisons (Bonferroni: 95 % for all of them together).",
    "“On the whole”: the comparisons are averaged in each replication. The claim holds if that mean is clearly as "
    "claimed, and does not hold if it is clearly not. Exceptions are counted beside it.",
    "Anything else is undecided. With one comparison both rules are the same. Problems are judged one by one.",
    "Comparisons and margins were chosen with the first 20 replications of seed 0 in view, not in advance; only the "
    "later replications of the standard setting are fresh.",
)
Kind = Literal["every", "generally"]
Origin = Literal["paper", "check", "ours"]


@dataclass(frozen=True)
class Finding:
    """A claim on one problem."""

    problem: Problem
    verdict: str
    number: str
    against: tuple[str, ...] = ()  # names of the comparisons that are clearly not as claimed


Found = tuple[str, str, tuple[str, ...]]


@dataclass(frozen=True)
class Claim:
    """What is claimed, how it is compared, and what was found."""

    name: str
    says: str
    rule: str
    findings: tuple[Finding, ...]
    origin: Origin = "paper"  # or a check of the reproduction, or what we add

    def where(self, verdict: str) -> list[Problem]:
        """Problems with a verdict."""
        return [f.problem for f in self.findings if f.verdict == verdict]

    @property
    def verdict(self) -> str:
        """The verdict if all problems share it; else "mixed"; "not run" without any."""
        verdicts = {f.verdict for f in self.findings}
        return verdicts.pop() if len(verdicts) == 1 else "mixed" if verdicts else "not run"

    @property
    def note(self) -> str:
        """What it is, if it is not a claim of the paper."""
        return {"paper": "", "check": "a check of the reproduction", "ours": "not a claim of the paper"}[self.origin]

    @property
    def summary(self) -> str:
        """One sentence: where it holds, where not, where it is undecided."""
        if not self.findings:
            return "This was not run."
        n = len(self.findings)
        if self.verdict != "mixed":
            all_of_them = "any of the" if self.verdict == FAILS else "all"
            where = f"on {all_of_them} {n} problems" if n > 1 else f"on {self.findings[0].problem}, the only one run"
            return f"{self.verdict.capitalize()} {where}."
        parts = [f"{v} on {listed(map(str, self.where(v)))}" for v in (HOLDS, FAILS, UNDECIDED) if self.where(v)]
        text = "; ".join(parts) + "."
        return text[0].upper() + text[1:]


def claim(
    name: str, *, says: str, compared: str, kind: Kind | None = None, origin: Origin = "paper"
) -> Callable[[Callable[[Study, Problem], Any]], Callable[[Study], Claim]]:
    """Turn a function that compares on one problem into one that judges a study.

    The function returns its comparisons, none where there are no data; without a `kind` it returns its own finding, or
    None, for what needs no statistics.
    """

    def decorate(find: Callable[[Study, Problem], Any]) -> Callable[[Study], Claim]:
        def check(study: Study) -> Claim:
            found = ((problem, _found(find(study, problem), kind)) for problem in study.problems)
            rule = f"{compared} {ENDING[kind]}".strip()
            return Claim(name, says, rule, tuple(Finding(p, *f) for p, f in found if f is not None), origin)

        return check

    return decorate


ENDING: dict[Kind | None, str] = {None: "", "every": "Judged: every comparison.", "generally": "Judged: on the whole."}


def _found(found: Any, kind: Kind | None) -> Found | None:
    if kind is None:
        return found  # type: ignore[no-any-return]
    comparisons = [c for c in found if c.mean.n]
    if not comparisons:
        return None
    return every(comparisons) if kind == "every" else generally(comparisons)


def every(comparisons: Sequence[Comparison]) -> Found:
    """Judge a claim on every comparison."""
    clear, against = _clear(comparisons)
    verdict = FAILS if against else HOLDS if clear == len(comparisons) else UNDECIDED
    return verdict, _number(comparisons, clear, against), tuple(c.name for c in against)


def generally(comparisons: Sequence[Comparison]) -> Found:
    """Judge a claim on what is so on the whole."""
    first = comparisons[0]
    whole = Comparison("mean", averaged([c.values for c in comparisons]), first.wanted, first.margin, first.digits)
    side = whole.side()
    verdict = HOLDS if side > 0 else FAILS if side < 0 else UNDECIDED
    clear, against = _clear(comparisons)
    number = _number(comparisons, clear, against)
    return verdict, f"{whole}; {number}" if len(comparisons) > 1 else number, tuple(c.name for c in against)


def _clear(comparisons: Sequence[Comparison]) -> tuple[int, list[Comparison]]:
    """How many comparisons are clearly as claimed, and which are clearly not."""
    unclear = [c for c in comparisons if c.side() <= 0]
    return len(comparisons) - len(unclear), [c for c in unclear if c.side(len(comparisons)) < 0]


def _number(comparisons: Sequence[Comparison], clear: int, against: Sequence[Comparison]) -> str:
    """Count in words, with the comparison that speaks most against the claim."""
    if len(comparisons) == 1:
        return str(comparisons[0])
    least = min(against or comparisons, key=lambda c: c.wanted * c.mean.mean)
    return f"{clear} of {len(comparisons)} clearly as claimed, {len(against)} clearly not; least so: {least}"


def listed(items: Iterable[Any]) -> str:
    """Write "a, b and c"."""
    words = [str(item) for item in items]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
