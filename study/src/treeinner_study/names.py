"""The study's problems and scores by the paper's names."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ACCOUNT", "ADDED", "BEST", "CENTRED", "GAIN", "PROBLEMS", "REFERENCES", "SCORES", "Problem", "Score", "StudyError",
]  # fmt: skip


class StudyError(Exception):
    """The study cannot be run or shown; the message says why and what to do."""


class Problem(NamedTuple):
    """A data set and what is predicted."""

    dataset: str  # "ChIP" or "Simulated"
    task: str  # "classification" or "regression"

    @property
    def name(self) -> str:
        """Name in file names."""
        return f"{self.dataset.lower()}-{self.task}"

    def __str__(self) -> str:
        return f"{self.dataset} {self.task}"


class Score(NamedTuple):
    """A global score: family, rows, attribution."""

    gfa: str
    domain: str
    ifa: str

    def __str__(self) -> str:
        return "-".join(part for part in self if part)


# The place in this tuple is part of the seed: append only.
PROBLEMS = (
    Problem("ChIP", "classification"),
    Problem("ChIP", "regression"),
    Problem("Simulated", "classification"),
    Problem("Simulated", "regression"),
)
# The paper's 14, in the order of its table.
SCORES = tuple(
    Score(gfa, domain, ifa)
    for gfa in ("Abs", "ForestInner", "Permutation", "TreeInner")
    for domain in ("Train", "Valid")
    for ifa in (("",) if gfa == "Permutation" else ("PreDecomp", "TreeSHAP"))
)
BEST = Score("TreeInner", "Valid", "PreDecomp")  # what the paper proposes; all differences are to it
GAIN = Score("TreeInner", "Train", "PreDecomp")  # total gain, by Proposition 3
CENTRED = Score("TreeInner", "Valid", "Centred")
ACCOUNT = Score("Account", "Valid", "Centred")  # what each feature did to the loss
# Scores that the paper does not have, in rows of their own.
ADDED = (
    Score("TreeInner", "Train", "Centred"),
    CENTRED,
    Score("TreeInner", "Train", "Saabas"),
    Score("TreeInner", "Valid", "Saabas"),
    ACCOUNT,
    Score("ForestInner(label)", "Train", "PreDecomp"),
    Score("ForestInner(label)", "Valid", "PreDecomp"),
)
REFERENCES = ("F-test", "Linear |t|", "Placebo TreeInner", "Minus total gain")
