"""Which features pass: the error rate first, then a least score, then at most so many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["keep", "one_sided", "ranking"]

Float = NDArray[np.float64]


def one_sided(scores: Float, std_errors: Float, p_values: Float) -> Float:
    """One-sided p values of H0: on new rows the score is 0 or less; 1 for a column that no model uses."""
    return np.where(std_errors > 0, np.where(scores > 0, p_values / 2, 1 - p_values / 2), 1.0)


def keep(scores: Float, passes: NDArray[np.bool_], *, least: float, most: int | None) -> NDArray[np.bool_]:
    """Mask of the features to keep: of those that pass and score at least so much, the `most` with the best scores."""
    kept = passes & (scores >= least)
    if most is not None:
        worst_first = np.argsort(np.where(kept, scores, -np.inf), kind="stable")
        kept[worst_first[: max(0, len(scores) - most)]] = False
    return kept


def ranking(kept: NDArray[np.bool_], scores: Float, p_values: Float | None) -> NDArray[np.intp]:
    """1 for every feature that is kept, as in RFE; the others from 2 on, by p value and then by score."""
    order = np.lexsort((-scores, np.zeros(len(scores)) if p_values is None else p_values, ~kept))
    return np.asarray(np.maximum(np.argsort(order) + 2 - kept.sum(), 1))
