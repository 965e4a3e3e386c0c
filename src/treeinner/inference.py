"""From sums over rows to statistics: standard error, interval, z, p value, q value.

A score is a sum over rows, score_k = sum_i s_ik, where s_ik is the share of row i (its weight already in
it). So one pass that keeps the sums of the shares, of their squares, and how many have each size gives
everything here.

What the numbers mean. The fitted model is held fixed and the rows are taken as independent draws from the
population that new rows will come from (with clusters: the clusters are the independent draws, and the
shares are summed within each first). They must not have been used for fitting, early stopping or tuning.
`std_error` is the standard error of the sum under that sampling; it says nothing about how the score would
vary if the model were fitted again.

Weights. The score is sum_i w_i s_i, a total estimated from the n pairs (w_i, s_i), so its variance is that
of a sum of n draws of w s: n / (n - 1) * sum_i (w_i s_i - mean)^2. That is the design-based (linearised)
variance: right for survey and importance weights, whatever the scale of the weights. Weights that count
repeated rows are different: repeat the rows, or pass them as clusters. Rows of weight 0 are not counted in `n`.

Reference distribution. Student's t with (effective units - 1) degrees of freedom, where the effective units
are (sum s^2)^2 / sum s^4: all of them if the shares are of one size, few if few rows carry the score. It
approaches the normal for many rows and stays valid for few clusters and rare nodes. The interval uses it too.

What is tested. The p value is one-sided, for H0: on new rows the feature does not help. For centred scores it
is the tail under sign flips of the shares (`sign_flips`), which has more power where few rows carry a score;
where there are too few shares to flip, and for other scores, it is the upper tail of Student's t.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treeinner.errors import DataError

__all__ = [
    "Inference", "benjamini_hochberg", "check_confidence", "difference", "effective_units", "from_clusters",
    "from_sums", "without_errors",
]  # fmt: skip

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Inference:
    """Statistics of scores; every array has the shape of the scores, (features,) or (features, outputs).

    z is score / std_error; p_value is the upper tail of Student's t with `df` at z, or that of sign flips.

    No entry is NaN. With fewer than two independent units nothing can be estimated: the standard error is
    infinite, z is 0 and p is 1. A feature whose share is zero in every row (the model never uses it) has
    standard error 0, z 0 and p 1.
    """

    score: FloatArray
    std_error: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    z: FloatArray
    p_value: FloatArray
    q_value: FloatArray
    harm_q_value: FloatArray  # q value of the other side: the feature harms
    n_units: int  # independent rows or clusters
    confidence: float  # coverage of the interval
    df: FloatArray  # degrees of freedom

    def scaled(self, factor: float) -> Inference:
        """Return the statistics of the score times a positive factor."""
        names = ("score", "std_error", "ci_low", "ci_high")
        return replace(self, **{name: getattr(self, name) * factor for name in names})


def check_confidence(confidence: float) -> None:
    """Raise if it is not one; callers do so before the work is done."""
    if not isinstance(confidence, numbers.Real) or not 0.0 < confidence < 1.0:
        raise DataError(f"confidence={confidence!r} is not a valid confidence level; pass one in (0, 1), such as 0.95.")


def from_sums(
    total: ArrayLike,
    total_sq: ArrayLike,
    n: int,
    *,
    effective: ArrayLike | None = None,
    score: ArrayLike | None = None,
    upper: FloatArray | None = None,
    lower: FloatArray | None = None,
    confidence: float = 0.95,
) -> Inference:
    """Statistics from column sums over independent units.

    Parameters
    ----------
    total, total_sq
        Sum over the units of their shares, and of the squares of their shares: (features,) or (features,
        outputs).
    n
        Number of independent units: rows of positive weight, or clusters.
    effective
        Effective number of units, see `effective_units`; n where it is not given or NaN.
    score
        The score, where it is known better than by the sum of the shares, which is `total`.
    upper, lower
        p values of either side that are known already (`sign_flips`); Student's t where there are none, or NaN.
    confidence
        Coverage of the two-sided interval.

    Notes
    -----
    The difference `total_sq - total**2 / n` cancels when the mean of the shares is far larger than their
    spread. Rounding then costs about eps * total_sq; the variance is never taken below that, so it is never
    negative, and a spread too small to be seen makes z large but not infinite. It can only matter where
    (mean / spread)^2 approaches 1e15.
    """
    total, total_sq = np.asarray(total, np.float64), np.asarray(total_sq, np.float64)
    if total.shape != total_sq.shape:
        raise DataError(f"sums have shape {total.shape} but sums of squares {total_sq.shape}; they must be the same.")
    check_confidence(confidence)
    score = total if score is None else np.asarray(score, np.float64)
    if n < 2:
        return without_errors(score, n, confidence)
    spread = total_sq - total * total / n
    spread = np.maximum(spread, 4.0 * np.finfo(np.float64).eps * total_sq)
    std_error = np.sqrt(spread * (n / (n - 1)))
    return _statistics(score, std_error, n, _degrees_of_freedom(effective, total, n), confidence, upper, lower)


def from_clusters(
    sums: ArrayLike,
    *,
    score: ArrayLike | None = None,
    upper: FloatArray | None = None,
    lower: FloatArray | None = None,
    confidence: float = 0.95,
) -> Inference:
    """Statistics when only clusters are independent.

    Parameters
    ----------
    sums
        Shares summed within each cluster: (clusters, features) or (clusters, features, outputs). The
        variance of the score is C / (C - 1) * sum_c (S_c - mean S)^2; here the mean is subtracted first, so
        nothing cancels. The effective units are those of the cluster sums.
    score, upper, lower, confidence
        As for `from_sums`.
    """
    sums = np.asarray(sums, np.float64)
    if sums.ndim not in (2, 3):
        raise DataError(f"cluster sums have {sums.ndim} dimensions; pass (clusters, features[, outputs]).")
    n = len(sums)
    total = sums.sum(axis=0)
    score = total if score is None else np.asarray(score, np.float64)
    if n < 2:
        return without_errors(score, n, confidence)
    deviation = sums - total / n
    # A share that is the same in every cluster leaves only the rounding of its mean, which is not a spread.
    spread = (deviation * deviation).sum(axis=0)
    spread = np.maximum(spread, 4.0 * np.finfo(np.float64).eps ** 2 * (sums * sums).sum(axis=0))
    # In units of the largest of each column, so that fourth powers do not underflow.
    largest = np.abs(sums).max(axis=0)
    squares = np.divide(sums, largest, out=np.zeros_like(sums), where=largest > 0) ** 2
    df = _degrees_of_freedom(effective_units(squares.sum(axis=0), (squares * squares).sum(axis=0)), total, n)
    return _statistics(score, np.sqrt(spread * (n / (n - 1))), n, df, confidence, upper, lower)


def effective_units(squares: FloatArray, fourths: FloatArray) -> FloatArray:
    """(sum s^2)^2 / sum s^4 from the two sums of each column; NaN where all shares are 0.

    It is the number of units if all shares have one size, and m if m of them have and the others are 0.
    """
    units = np.full(fourths.shape, np.nan)
    np.divide(squares * squares, fourths, out=units, where=fourths > 0)
    return units


def difference(a: Inference, b: Inference, *, confidence: float = 0.95) -> Inference:
    """Difference of the scores, a minus b, of two independent samples (Welch).

    With scores per row, `a` of the training rows and `b` of held-out rows, this is the optimism gap: of the scores
    themselves, not centred.
    """
    n = min(a.n_units, b.n_units)
    if n < 2:
        return without_errors(a.score - b.score, n, confidence)
    var_a, var_b = a.std_error**2, b.std_error**2
    std_error = np.sqrt(var_a + var_b)
    weight = np.divide(var_a, var_a + var_b, out=np.zeros_like(var_a), where=std_error > 0)
    df = 1.0 / (weight**2 / a.df + (1.0 - weight) ** 2 / b.df)
    return _statistics(a.score - b.score, std_error, n, df, confidence)


def benjamini_hochberg(p_value: ArrayLike) -> FloatArray:
    """Benjamini-Hochberg q values; each column of a 2-D array is a family of its own.

    The family is every feature, also those that the model never uses (p = 1, they can never be rejected).
    Leaving them out would be allowed, because they are known before the rows are seen; keeping them is
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


def _statistics(
    score: FloatArray,
    std_error: FloatArray,
    n: int,
    df: FloatArray,
    confidence: float,
    upper: FloatArray | None = None,
    lower: FloatArray | None = None,
) -> Inference:
    """Fill in what follows from score, standard error and degrees of freedom."""
    known = std_error > 0  # else the feature is not used
    z = np.divide(score, std_error, out=np.zeros_like(score), where=known)
    p_value, harm, half = np.ones_like(score), np.ones_like(score), np.zeros_like(score)
    for p, tail, sign in ((p_value, upper, 1.0), (harm, lower, -1.0)):
        p[known] = t_tail(sign * z[known], df[known])
        if tail is not None:
            np.copyto(p, tail, where=known & ~np.isnan(tail))
    half[known] = t_quantile(0.5 + confidence / 2, df[known]) * std_error[known]
    low, high, q, harm_q = score - half, score + half, benjamini_hochberg(p_value), benjamini_hochberg(harm)
    return Inference(score, std_error, low, high, z, p_value, q, harm_q, n, confidence, df)


def _degrees_of_freedom(effective: ArrayLike | None, total: FloatArray, n: int) -> FloatArray:
    """Effective units less one, at least 1 and at most n - 1."""
    df = np.full(total.shape, n - 1.0)
    if effective is not None:
        units = np.asarray(effective, np.float64)
        np.copyto(df, np.clip(units - 1.0, 1.0, n - 1.0), where=~np.isnan(units))
    return df


def without_errors(score: FloatArray, n: int = 1, confidence: float = 0.95) -> Inference:
    """Statistics where the spread is unknown: of a single unit, or of a score alone."""
    infinite, one = np.full_like(score, np.inf), np.ones_like(score)
    z, df = np.zeros_like(score), np.zeros_like(score)
    return Inference(score, infinite, -infinite, infinite, z, one, one, one, n, confidence, df)


def t_tail(t: ArrayLike, df: ArrayLike) -> FloatArray:
    """P(T > t) for Student's t with df degrees of freedom; relative precision is kept in the tail."""
    from scipy.special import stdtr  # here, because its import takes longer than that of treeinner

    return np.asarray(stdtr(df, np.negative(t)))


def t_quantile(p: float, df: ArrayLike) -> FloatArray:
    """Return the t with P(T <= t) = p; the shape is that of df."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(df, p))
