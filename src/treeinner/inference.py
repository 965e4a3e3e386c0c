"""From sums over rows to statistics: standard error, interval, z, p value, q value.

A score is a sum over rows, score_k = sum_i s_ik, where s_ik is the share of row i (its weight already in
it). So one pass that keeps the sums of the shares, of their squares and of their fourth powers gives
everything here.

What the numbers mean. The fitted model is held fixed and the rows are taken as independent draws from the
population that new rows will come from (with clusters: the clusters are the independent draws, and the
shares are summed within each first). They must not have been used for fitting, early stopping or tuning.
`std_error` is the standard error of the sum under that sampling; it says nothing about how the score would
vary if the model were fitted again.

Weights. The score is sum_i w_i s_i, a total estimated from the n pairs (w_i, s_i), so its variance is that
of a sum of n draws of w s: n / (n - 1) * sum_i (w_i s_i - mean)^2. That is the design-based (linearised)
variance: right for survey and importance weights, whatever the scale of the weights. Weights that count
repeated rows are another thing: repeat the rows, or pass them as clusters. A row of weight 0 is a row that
is not there: `n` counts the others.

Reference distribution. Student's t with (effective units - 1) degrees of freedom, where the effective units
are (sum s^2)^2 / sum s^4: all of them if the shares are of one size, few if few rows carry the score. It is
the normal for many rows and stays honest for few clusters and for rare nodes. It serves the interval too.

What is tested. The p value is one-sided, for H0: on new rows the feature does not help. TreeInner by path
is tested centred: with every inner node's value replaced by the mean of its leaves over the rows at hand
(docs/theory.md, section 6), because a feature that knows nothing of the target then expects no score above
0, and without it may do so in a given model. `test_score` is that score, z = test_score / std_error; score,
std_error and the interval are those of the score itself. Other scores are tested as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treeinner.errors import DataError

__all__ = ["Inference", "benjamini_hochberg", "difference", "effective_units", "from_clusters", "from_sums"]

FloatArray = NDArray[np.float64]

# From here on Wallace's normal approximation errs by less than 3e-9 (relatively: 2e-5 down to 1e-12).
WALLACE_FROM = 2000
FAR = 1.5  # from here on the tail itself is integrated
LAST_Q = 6.2  # exp(-q^2) is 2e-17 there


@dataclass(frozen=True, eq=False)
class Inference:
    """Statistics of scores; every array has the shape of the scores, (features,) or (features, outputs).

    z, p_value and q_value belong to `test_score`: the score itself, or the centred one where it is centred, so
    that z is not score / std_error there. p_value is the upper tail at z of Student's t with `df`.

    No entry is NaN. With fewer than two independent units nothing can be said: the standard error is
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
    n_units: int  # independent rows or clusters
    level: float  # of the interval
    test_score: FloatArray  # score + what centring adds to it
    df: FloatArray  # degrees of freedom


def from_sums(
    total: ArrayLike,
    total_sq: ArrayLike,
    n: int,
    *,
    effective: ArrayLike | None = None,
    score: ArrayLike | None = None,
    centring: ArrayLike | None = None,
    level: float = 0.95,
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
    centring
        What centring adds to the score that is tested; 0 if not given.
    level
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
    if not 0.0 < level < 1.0:
        raise DataError(f"level={level} is not a coverage; pass a number between 0 and 1, such as 0.95.")
    score = total if score is None else np.asarray(score, np.float64)
    if n < 2:
        return _unknown(score, n, level)
    spread = total_sq - total * total / n
    spread = np.maximum(spread, 4.0 * np.finfo(np.float64).eps * total_sq)
    std_error = np.sqrt(spread * (n / (n - 1)))
    return _statistics(score, std_error, n, _degrees_of_freedom(effective, total, n), level, centring)


def from_clusters(
    sums: ArrayLike, *, score: ArrayLike | None = None, centring: ArrayLike | None = None, level: float = 0.95
) -> Inference:
    """Statistics when only clusters are independent.

    Parameters
    ----------
    sums
        Shares summed within each cluster: (clusters, features) or (clusters, features, outputs). The
        variance of the score is C / (C - 1) * sum_c (S_c - mean S)^2; here the mean is subtracted first, so
        nothing cancels. The effective units are those of the cluster sums.
    score
        The score, where it is known better than by the sum of the shares.
    centring
        What centring adds to the score that is tested; 0 if not given.
    level
        Coverage of the two-sided interval.
    """
    sums = np.asarray(sums, np.float64)
    if sums.ndim not in (2, 3):
        raise DataError(f"cluster sums have {sums.ndim} dimensions; pass (clusters, features[, outputs]).")
    n = len(sums)
    total = sums.sum(axis=0)
    score = total if score is None else np.asarray(score, np.float64)
    if n < 2:
        return _unknown(score, n, level)
    deviation = sums - total / n
    # A share that is the same in every cluster leaves only the rounding of its mean, which is not a spread.
    spread = (deviation * deviation).sum(axis=0)
    spread = np.maximum(spread, 4.0 * np.finfo(np.float64).eps ** 2 * (sums * sums).sum(axis=0))
    df = _degrees_of_freedom(effective_units(_squares(sums)), total, n)
    return _statistics(score, np.sqrt(spread * (n / (n - 1))), n, df, level, centring)


def effective_units(squares: FloatArray) -> FloatArray:
    """(sum s^2)^2 / sum s^4 of each column, from the squares s^2 of all units; NaN where all are 0.

    It is the number of units if all shares have one size, and m if m of them have and the others are 0.
    """
    fourth = (squares * squares).sum(axis=0)
    out = np.full(fourth.shape, np.nan)
    np.divide(squares.sum(axis=0) ** 2, fourth, out=out, where=fourth > 0)
    return out


def difference(a: Inference, b: Inference, *, level: float = 0.95) -> Inference:
    """Difference of the means per unit, a minus b, of two independent samples (Welch).

    With `a` from the training rows and `b` from held-out rows this is the optimism gap per row: of the scores
    themselves, not centred.
    """
    mean_a, error_a = _per_unit(a)
    mean_b, error_b = _per_unit(b)
    n = min(a.n_units, b.n_units)
    if n < 2:
        return _unknown(mean_a - mean_b, n, level)
    var_a, var_b = error_a**2, error_b**2
    std_error = np.sqrt(var_a + var_b)
    weight = np.divide(var_a, var_a + var_b, out=np.zeros_like(var_a), where=std_error > 0)
    df = 1.0 / (weight**2 / a.df + (1.0 - weight) ** 2 / b.df)
    return _statistics(mean_a - mean_b, std_error, n, df, level)


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
    score: FloatArray, std_error: FloatArray, n: int, df: FloatArray, level: float, centring: ArrayLike | None = None
) -> Inference:
    """Fill in what follows from score, standard error and degrees of freedom."""
    test_score = score if centring is None else score + np.asarray(centring, np.float64)
    known = std_error > 0  # else the feature is not used
    z = np.divide(test_score, std_error, out=np.zeros_like(score), where=known)
    p_value, half = np.ones_like(score), np.zeros_like(score)
    p_value[known] = t_tail(z[known], df[known])
    half[known] = t_quantile(0.5 + level / 2, df[known]) * std_error[known]
    q_value = benjamini_hochberg(p_value)
    return Inference(score, std_error, score - half, score + half, z, p_value, q_value, n, level, test_score, df)


def _degrees_of_freedom(effective: ArrayLike | None, total: FloatArray, n: int) -> FloatArray:
    """Effective units less one, at least 1 and at most n - 1."""
    df = np.full(total.shape, n - 1.0)
    if effective is not None:
        units = np.asarray(effective, np.float64)
        np.copyto(df, np.clip(units - 1.0, 1.0, n - 1.0), where=~np.isnan(units))
    return df


def _squares(sums: FloatArray) -> FloatArray:
    """Squares of the sums in units of the largest of each column, so that their own squares do not underflow."""
    largest = np.abs(sums).max(axis=0, keepdims=True)
    relative = np.zeros_like(sums)
    np.divide(sums, largest, out=relative, where=largest > 0)
    return relative * relative


def _unknown(score: FloatArray, n: int, level: float) -> Inference:
    """One unit has no spread: say nothing rather than something."""
    infinite, one = np.full_like(score, np.inf), np.ones_like(score)
    z, df = np.zeros_like(score), np.zeros_like(score)
    return Inference(score, infinite, -infinite, infinite, z, one, one.copy(), n, level, score, df)


def _per_unit(part: Inference) -> tuple[FloatArray, FloatArray]:
    n = max(part.n_units, 1)
    return part.score / n, part.std_error / n


# -- Student's t without scipy -----------------------------------------------------------------------------
def t_tail(t: ArrayLike, df: ArrayLike) -> FloatArray:
    """P(T > t) for Student's t with df degrees of freedom; relative precision is kept in the tail."""
    t, df = np.broadcast_arrays(np.asarray(t, np.float64), np.asarray(df, np.float64))
    size, tail = np.abs(t), np.empty(t.shape)
    many, far = df >= WALLACE_FROM, np.abs(t) >= FAR
    for chosen, formula in ((many, _wallace_tail), (~many & far, _far_tail), (~many & ~far, _near_tail)):
        if chosen.any():
            tail[chosen] = formula(size[chosen], df[chosen])
    return np.where(t >= 0, tail, 1.0 - tail)


def t_quantile(p: float, df: ArrayLike) -> FloatArray:
    """Return the t with P(T <= t) = p, for 0.5 < p < 1; the shape is that of df."""
    df = np.asarray(df, np.float64)
    peak, t = _peak(df), _hill_quantile(1.0 - p, df)
    for _ in range(100):
        step = (t_tail(t, df) - (1.0 - p)) / (peak * np.exp(-(df + 1.0) / 2.0 * np.log1p(t * t / df)))
        # Halley's step from Newton's; far off, where it may turn round, a part of Newton's.
        step = step / np.maximum(1.0 - step * (df + 1.0) * t / (2.0 * (df + t * t)), 0.5)
        t = np.maximum(t + step, t / 4.0)
        if np.all(np.abs(step) <= 1e-5 * t):  # cubic: the next step would be rounding
            break
    return t


def _wallace_tail(t: FloatArray, df: FloatArray) -> FloatArray:
    """Wallace (1959): this function of t is normal up to O(1 / df^2)."""
    normal = np.sqrt(df * np.log1p(t * t / df)) * ((8.0 * df + 1.0) / (8.0 * df + 3.0))
    return np.array([0.5 * math.erfc(z / math.sqrt(2.0)) for z in normal.tolist()])


def _near_tail(t: FloatArray, df: FloatArray) -> FloatArray:
    """One half less the integral of the density from 0 to t."""
    nodes, weights = _gauss()
    density = np.exp(-(df[:, None] + 1.0) / 2.0 * np.log1p((t[:, None] * nodes) ** 2 / df[:, None]))
    return np.asarray(0.5 - _peak(df) * t * (density @ weights))


def _far_tail(t: FloatArray, df: FloatArray) -> FloatArray:
    """Half the incomplete beta function I_x(df / 2, 1/2), x = df / (df + t^2).

    Its integral is put over q with (its own variable) = x exp(-2 q^2 / df): what is left is exp(-q^2) times a factor
    without a pole near the path as long as t is not near 0.
    """
    nodes, weights = _gauss()
    q = LAST_Q * nodes
    log_x = -np.log1p(t * t / df)
    root = np.sqrt(-np.expm1(log_x[:, None] - 2.0 * q**2 / df[:, None]))
    integral = (2.0 * q * np.exp(-(q**2)) / root) @ (LAST_Q * weights)
    return np.asarray(_peak(df) / np.sqrt(df) * np.exp(df / 2.0 * log_x) * integral)


def _peak(df: FloatArray) -> FloatArray:
    """Density at 0."""
    log_peak = [math.lgamma((v + 1.0) / 2.0) - math.lgamma(v / 2.0) for v in df.ravel().tolist()]
    return np.asarray(np.exp(np.reshape(log_peak, df.shape)) / np.sqrt(df * math.pi))


@cache
def _gauss() -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre rule on [0, 1]; 40 points leave 1e-15 of the integrals above (df >= 0.5)."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    return (nodes + 1.0) / 2.0, weights / 2.0


def _hill_quantile(tail: float, df: FloatArray) -> FloatArray:
    """Quantile of an upper tail by Hill's expansions (1970, algorithm 396): a start, good to four digits or more."""
    normal = NormalDist().inv_cdf(tail)
    n = np.maximum(df, 1.0)
    a = 1.0 / (n - 0.5)
    b = 48.0 / a**2
    c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36
    d = ((94.5 / (b + c) - 3.0) / b + 1.0) * np.sqrt(a * math.pi / 2.0) * n
    y = np.minimum((2.0 * tail * d) ** (2.0 / n), 1.0)
    far = ((1.0 / (((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0) + 0.5 / (n + 4.0)) * y - 1.0) * (
        (n + 1.0) / (n + 2.0)
    ) + 1.0 / y
    c = np.where(n < 5, c + 0.3 * (n - 4.5) * (normal + 0.6), c)
    c = (((0.05 * d * normal - 5.0) * normal - 7.0) * normal - 2.0) * normal + b + c
    z = normal**2
    near = (((((0.4 * z + 6.3) * z + 36.0) * z + 94.5) / c - z - 3.0) / b + 1.0) * normal
    squared = np.where(y > 0.05 + a, np.expm1(a * near**2), far)
    return np.asarray(np.sqrt(n * np.maximum(squared, 1e-6)))
