"""From sums over rows to statistics: standard error, degrees of freedom, p value, q value.

A score is a sum over rows, score_k = sum_i s_ik, where s_ik is the share of row i, its weight already in it. So the
sums of the shares, of their squares and of their fourth powers give everything here.

What the numbers mean. The fitted model is held fixed and the rows are taken as independent draws from the population
that new rows will come from (with clusters: the clusters are the independent draws, and shares are summed within each
first). They must not have been used for fitting, early stopping or tuning. The standard error says nothing about how
the score would vary if the model were fitted again.

Weights. The score is a total of n draws of w s, so its variance is n / (n - 1) * sum_i (w_i s_i - mean)^2: the
design-based (linearised) variance, right for survey and importance weights whatever their scale. Weights that count
repeated rows are different: repeat the rows, or pass them as clusters. Rows of weight 0 are not counted.

One distribution for p value and interval: Student's t with (effective rows - 1) degrees of freedom, where the effective
rows are (sum s^2)^2 / sum s^4: all of them if the shares are of one size, few if few rows carry the score. p values are
two-sided, so p < 0.05 and a 95 % interval without 0 are the same event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "ReadOnly", "Statistics", "benjamini_hochberg", "check_level", "difference", "of_clusters", "of_sums",
    "same_everywhere", "t_quantile", "tested", "unknown",
]  # fmt: skip

Float = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)


class ReadOnly:
    """A dataclass whose arrays cannot be written to, unpickled ones neither."""

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the fields of a pickle."""
        self.__dict__.update(state)
        self.__post_init__()


@dataclass(frozen=True, eq=False)
class Statistics(ReadOnly):
    """Statistics of scores; every array has the shape of the scores, (features,) or (features, outputs).

    With fewer than two independent units nothing can be estimated: the standard error is infinite and p is 1. A feature
    whose share is 0 in every row, because the model never uses it, has standard error 0 and p 1.
    """

    score: Float
    std_error: Float
    df: Float  # degrees of freedom
    p_value: Float  # two-sided
    q_value: Float  # Benjamini-Hochberg over the features
    holds: Float | None = None  # of the signal score: which part of the effect holds on new rows; NaN: no effect
    holds_std_error: Float | None = None

    def interval(self, level: float = 0.95) -> tuple[Float, Float]:
        """Lower and upper ends of the intervals of the scores, by Student's t; infinite where the error is."""
        check_level(level)
        half = np.where(np.isfinite(self.std_error), 0.0, self.std_error)
        known = np.isfinite(self.std_error) & (self.std_error > 0)
        half[known] = t_quantile(0.5 + level / 2, self.df[known]) * self.std_error[known]
        return self.score - half, self.score + half


def of_sums(
    total: Float, squares: Float, fourths: Float, n: Any, *, score: Float | None = None, factor: Any = 1.0
) -> Statistics:
    """Statistics from sums over n independent rows of their shares, squares and fourth powers; n may be an array.

    score: where it is known better than by the sum of the shares; factor: what score and error are multiplied by.

    The difference `squares - total**2 / n` cancels when the mean of the shares is far larger than their spread.
    Rounding then costs about eps * squares; the variance is never taken below that, so it is never negative.
    """
    score = total if score is None else score
    if np.all(n < 2):
        return unknown(score * factor)
    spread = np.maximum(squares - total * total / n, 4.0 * EPS * squares)
    more = np.maximum(n, 2)
    std_error = np.where(n < 2, np.inf, np.sqrt(spread * (more / (more - 1))) * factor)
    return tested(score * factor, std_error, _degrees_of_freedom(squares, fourths, more))


def of_clusters(sums: Float, *, score: Float | None = None, factor: float = 1.0) -> Statistics:
    """Statistics when only clusters are independent; sums: shares summed within each, (clusters, ...)."""
    n, total = len(sums), sums.sum(axis=0)
    score = total if score is None else score
    if n < 2:
        return unknown(score * factor)
    # The mean is subtracted first, so nothing cancels; what is left of equal shares is the rounding of their mean.
    deviation = sums - total / n
    spread = np.maximum((deviation * deviation).sum(axis=0), 4.0 * EPS**2 * (sums * sums).sum(axis=0))
    largest = np.abs(sums).max(axis=0)  # in units of the largest, so that fourth powers do not underflow
    unit = np.divide(sums, largest, out=np.zeros_like(sums), where=largest > 0) ** 2
    df = _degrees_of_freedom(unit.sum(axis=0), (unit * unit).sum(axis=0), n)
    return tested(score * factor, np.sqrt(spread * (n / (n - 1))) * factor, df)


def holds_of_sums(sums: Float, n: Any) -> tuple[Float, Float]:
    """`holds` and its standard error, from sums over n rows: of s, l, s^2, l^2 and (s - l)^2; (5, ...).

    s / (s - l) by the delta method: the influence of a row is (s_i - holds (s_i - l_i)) / mean(s - l).
    """
    s, l, squares, l_squares, d_squares = sums  # noqa: E741
    product = 0.5 * (squares + d_squares - l_squares)  # of s and s - l
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(s - l > 0, s / (s - l), np.nan)
        spread = squares - 2.0 * slope * product + slope * slope * d_squares
        spread = np.maximum(spread, 4.0 * EPS * (squares + slope * slope * d_squares))
        return slope, np.sqrt(spread * np.where(n > 1, n / np.maximum(n - 1, 1), np.inf)) / (s - l)


def holds_of_clusters(s: Float, l: Float) -> tuple[Float, Float]:  # noqa: E741
    """The same from the sums of independent clusters, (clusters, ...) each."""
    each = (s, l, s * s, l * l, (s - l) ** 2)
    return holds_of_sums(np.array([part.sum(axis=0) for part in each]), len(s))


def tested(score: Float, std_error: Float, df: Float) -> Statistics:
    """Fill in what follows from score, standard error and degrees of freedom."""
    from scipy.special import stdtr  # here, because its import takes longer than that of treeinner

    known = std_error > 0  # else the feature is not used
    p = np.ones_like(score)
    p[known] = np.minimum(2.0 * stdtr(df[known], -np.abs(score[known] / std_error[known])), 1.0)
    return Statistics(score, std_error, df, p, benjamini_hochberg(p))


def difference(a: Statistics, b: Statistics, covariance: Float | float = 0.0) -> Statistics:
    """Difference of the scores, a minus b, of two samples (Welch); covariance: of the scores, if rows depend."""
    var_a, var_b = a.std_error**2, b.std_error**2
    both = var_a + var_b
    weight = np.divide(var_a, both, out=np.zeros_like(both), where=(both > 0) & np.isfinite(both))
    df = 1.0 / (weight**2 / np.maximum(a.df, 1.0) + (1.0 - weight) ** 2 / np.maximum(b.df, 1.0))
    return tested(a.score - b.score, np.sqrt(np.maximum(both - 2.0 * covariance, 4.0 * EPS**2 * both)), df)


def same_everywhere(found: Statistics) -> dict[str, Float]:
    """Cochran's Q of independent scores, (groups, features): are they all the same? By feature: q, df, p and q value.

    Q is the weighted sum of squared deviations from the weighted mean. Its p value is that of Welch's F test, which
    allows for errors that were estimated; with many rows it is that of chi-squared. Groups without error, where a score
    is 0 in every row, are one group that is known exactly; a group of one row does not count.
    """
    from scipy.special import fdtrc  # here, because its import takes longer than that of treeinner

    var = found.std_error**2
    known, exact = (var > 0) & np.isfinite(var), var == 0
    weight = np.divide(1.0, var, out=np.zeros_like(var), where=known)
    total, any_exact = np.maximum(weight.sum(axis=0), np.finfo(np.float64).tiny), exact.any(axis=0)
    at_exact = (found.score * exact).sum(axis=0) / np.maximum(exact.sum(axis=0), 1)
    mean = np.where(any_exact, at_exact, (weight * found.score).sum(axis=0) / total)
    cochran_q = (weight * (found.score - mean) ** 2).sum(axis=0)
    df = np.maximum(known.sum(axis=0) + any_exact - 1.0, 0.0)
    part = np.where(any_exact, 0.0, weight / total)
    rough = (known * (1.0 - part) ** 2 / np.maximum(found.df, 1.0)).sum(axis=0)
    p, some = np.ones_like(cochran_q), df > 0
    k, rough, q = df[some], rough[some], cochran_q[some]
    p[some] = fdtrc(k, k * (k + 2.0) / (3.0 * rough), q / k / (1.0 + 2.0 * (k - 1.0) / (k * (k + 2.0)) * rough))
    return {"cochran_q": cochran_q, "df": df, "p_value": p, "q_value": benjamini_hochberg(p)}


def unknown(score: Float) -> Statistics:
    """Statistics where the spread is unknown: of a single unit, or of a score alone."""
    one = np.ones_like(score)
    return Statistics(score, np.full_like(score, np.inf), np.zeros_like(score), one, one.copy())


def benjamini_hochberg(p_value: ArrayLike) -> Float:
    """Benjamini-Hochberg q values; each column of a 2-D array is a family of its own.

    The family is every feature, also those that the model never uses (p = 1, they can never be rejected): that is
    conservative, and makes the q values of two models on the same columns comparable.
    """
    p = np.asarray(p_value, np.float64)
    if p.size == 0:
        return p.copy()
    order = np.argsort(p, axis=0, kind="stable")
    rank = np.arange(1, len(p) + 1, dtype=np.float64).reshape((-1,) + (1,) * (p.ndim - 1))
    scaled = np.take_along_axis(p, order, axis=0) * (len(p) / rank)
    monotone = np.minimum.accumulate(scaled[::-1], axis=0)[::-1]
    q = np.empty_like(p)
    np.put_along_axis(q, order, np.minimum(monotone, 1.0), axis=0)
    return q


def check_level(level: float) -> None:
    """Raise unless it is a confidence level."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level!r} is not a confidence level; pass a number in (0, 1), such as 0.95.")


def t_quantile(p: float, df: ArrayLike) -> Float:
    """Return the t with P(T <= t) = p; the shape is that of df."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(df, p))


def _degrees_of_freedom(squares: Float, fourths: Float, n: Any) -> Float:
    """Effective rows less one, at least 1 and at most n - 1."""
    effective = np.divide(squares * squares, fourths, out=np.zeros(squares.shape) + n, where=fourths > 0)
    return np.asarray(np.clip(effective - 1.0, 1.0, n - 1.0))
