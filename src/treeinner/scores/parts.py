"""Parts of an Importance: the loss itself, and how the folds of a cross-validation differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FoldSpread", "Losses", "ranks_of"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Losses:
    """The held-out loss of the model, per row: where the boosting rounds began and where they ended.

    first_order is the sum over rounds of step times negative gradient: what the loss would have fallen by if it were
    straight. base and base_rounds belong to score="loss": what the root values of the trees did.
    """

    before: float  #: at the margin before the first tree
    after: float  #: at the margin of the whole model
    least: float  #: of a perfect prediction, which shares of the deviance are counted from; NaN: not known
    first_order: float
    base: float = math.nan
    base_rounds: FloatArray | None = None  #: (rounds,)


@dataclass(frozen=True, eq=False, kw_only=True)
class FoldSpread:
    """Scores of the models of a cross-validation, each on the rows that it was not fitted on."""

    scores: FloatArray  #: (folds, features), per row

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the scores between folds: other models and other rows; (features,)."""
        return self.scores.std(axis=0, ddof=1) if len(self.scores) > 1 else np.full(self.scores.shape[1], np.nan)

    @property
    def ranks(self) -> NDArray[np.intp]:
        """Rank of every feature in every fold, 1 is the best: (folds, features)."""
        return np.array([ranks_of(scores) for scores in self.scores], np.intp).reshape(self.scores.shape)

    @property
    def rank_stability(self) -> float:
        """Mean rank correlation (Spearman) between two folds; NaN for one fold, or one feature.

        1: every fold orders the features alike. Features without a split tie at 0, so ranks are averaged over ties.
        """
        from scipy.stats import rankdata  # here, because its import takes longer than that of treeinner

        ranks = rankdata(self.scores, axis=1)
        ranks = ranks[np.ptp(ranks, axis=1) > 0]
        n = len(ranks)
        if n < 2:
            return math.nan
        correlation = np.corrcoef(ranks)
        return float((correlation.sum() - n) / (n * (n - 1)))

    def taken(self, index: Any) -> FoldSpread:
        """Return the same for some of the features."""
        return FoldSpread(scores=self.scores[:, index])


def ranks_of(scores: FloatArray) -> NDArray[np.intp]:
    """Rank of every score; 1 is the best."""
    ranks = np.empty(len(scores), np.intp)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks
