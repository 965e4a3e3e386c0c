"""Which features pass: the error rate first, then a least score, then at most so many; what a user may ask for."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.attribution import check_choice
from treeinner.groups import resolve_groups
from treeinner.scores.arguments import check_integer
from treeinner.tables.columns import listing

__all__ = ["TESTS", "check_cuts", "check_parameters", "keep", "note_on_hidden", "ranking", "sets_of", "threshold_value"]

FloatArray = NDArray[np.float64]
TESTS = ("conditional", "marginal")
REFERENCES: dict[str, Callable[[FloatArray], Any]] = {"mean": np.mean, "median": np.median}


def check_parameters(selector: Any) -> None:
    """Raise what is wrong with the parameters of a TreeInnerSelector before any model is fitted."""
    check_choice("test", selector.test, TESTS)
    check_cuts(selector.q, selector.threshold, selector.max_features)
    check_integer("repeats", selector.repeats, 1, "a number of repeats, at least 1")
    check_integer("n_draws", selector.n_draws, 5, "a number of draws, at least 5")
    sampler, estimator = selector.sampler, selector.estimator
    if sampler is not None and not callable(sampler):
        raise TypeError(f"sampler: expected a function (X, column, n_draws, rng), got {sampler!r}.")
    if sampler is not None and selector.test == "marginal":
        raise ValueError("sampler has no meaning for test='marginal', which draws nothing; leave it out.")
    if estimator is not None and (isinstance(estimator, type) or not hasattr(estimator, "fit")):
        raise TypeError(
            f"estimator: expected a regressor or classifier of trees, such as XGBRegressor(), got {estimator!r}."
        )


def check_cuts(q: Any, threshold: Any, max_features: Any) -> None:
    """Raise what is wrong with the cuts before any model is fitted."""
    if q is not None and (isinstance(q, bool) or not isinstance(q, numbers.Real) or not 0.0 < float(q) < 1.0):
        raise ValueError(f"q={q!r}: expected a share of false discoveries in (0, 1), such as 0.1, or None.")
    if q is None and threshold is None and max_features is None:
        raise ValueError("q=None keeps every feature unless threshold or max_features is given; pass one of them.")
    threshold_value(threshold, np.zeros(1))
    if max_features is not None and not callable(max_features):
        check_integer("max_features", max_features, 0, "a number of features, a function of X, or None")


def threshold_value(threshold: Any, scores: FloatArray) -> float:
    """The least score, as SelectFromModel spells it: a number, "mean", "median" or "1.25*mean"; -inf for None."""
    if threshold is None:
        return -np.inf
    if isinstance(threshold, numbers.Real) and not isinstance(threshold, bool):
        return float(threshold)
    factor, _, reference = threshold.rpartition("*") if isinstance(threshold, str) else ("", "", "")
    try:
        return float(factor or 1.0) * float(REFERENCES[reference.strip()](scores))
    except (KeyError, ValueError):
        raise ValueError(
            f"threshold={threshold!r}: expected a score, 'mean', 'median', a multiple such as '1.25*mean', or None."
        ) from None


def sets_of(groups: Mapping[str, Any], names: Sequence[str]) -> list[list[int]]:
    """Numbers of the columns that a user wants tested as one."""
    of_column = resolve_groups(groups, names).of_feature
    assert of_column is not None
    sets = [np.flatnonzero(of_column == group).tolist() for group in range(int(of_column.max()) + 1)]
    return [some for some in sets if len(some) > 1]


def note_on_hidden(names: Sequence[str]) -> str | None:
    """What to say about columns that the test drops because the other columns tell them; None if there are none."""
    if not names:
        return None
    what = "is nearly told" if len(names) == 1 else "are nearly told"
    return (
        f"{listing(names)} {what} by the other columns. Beyond those a column tells next to nothing then, and the "
        "conditional test drops it, though several such columns may carry signal together. To test them as one, pass "
        "collinear={'a name': [columns]}, or a lower number; test='marginal' looks at each by itself."
    )


def keep(
    scores: FloatArray, q_values: FloatArray, *, q: float | None, least: float, most: int | None
) -> NDArray[np.bool_]:
    """Mask of the features to keep; of those that pass, the `most` with the best scores."""
    kept = scores >= least
    if q is not None:
        kept &= q_values <= q
    if most is not None:
        worst_first = np.argsort(np.where(kept, scores, -np.inf), kind="stable")
        kept[worst_first[: max(0, len(scores) - most)]] = False
    return kept


def ranking(kept: NDArray[np.bool_], scores: FloatArray, p_values: FloatArray | None) -> NDArray[np.intp]:
    """1 for every feature that is kept, as in RFE; the others from 2 on, by p value and then by score."""
    ranks = np.ones(len(kept), np.intp)
    out = np.flatnonzero(~kept)
    order = np.lexsort((-scores[out], np.zeros(len(out)) if p_values is None else p_values[out]))
    ranks[out[order]] = np.arange(2, len(out) + 2)
    return ranks
