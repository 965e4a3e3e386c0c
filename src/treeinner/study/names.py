"""The study's problems and scores by the paper's names."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PROBLEMS", "Problem", "Score"]


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
