"""p values of scores by sign flips of the row shares.

Under H0 a row's share is as likely to be x as -x, so that given the sizes |x_i| the score is one draw of
S = sum_i |x_i| e_i with fair signs e_i. Its tail is Lugannani and Rice's saddlepoint approximation: with
K(t) = sum_i log cosh(t |x_i|), K'(t) = score, w^2 = 2 (t score - K(t)) and u^2 = t^2 K''(t),

    P(S >= score) = 1 - Phi(w) + phi(w) (1 / u - 1 / w).

No random numbers, any number of rows, and the tail keeps its relative precision. The approximation is smooth: of shares on
a lattice (all of one size) it gives the mid-p value, P(S > score) + P(S = score) / 2.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["BITS", "MIN_SHARES", "N_BINS", "SIZES", "bin_of", "effective_units", "flip_p_values", "flip_p_values_of"]

FloatArray = NDArray[np.float64]

BITS = 3
LOWEST, HIGHEST = -56, 40  # shares in [2^LOWEST, 2^HIGHEST) are counted
N_BINS = (HIGHEST - LOWEST) << BITS
MIN_SHARES = 20

EDGES = np.ldexp(1 + np.arange(N_BINS + 1) % 2**BITS / 2**BITS, LOWEST + (np.arange(N_BINS + 1) >> BITS))
LOW, HIGH = EDGES[:-1], EDGES[1:]
SQUARES = (LOW * LOW + LOW * HIGH + HIGH * HIGH) / 3  # mean square of a uniform density in the bin
FOURTHS = (LOW**4 + LOW**3 * HIGH + LOW**2 * HIGH**2 + LOW * HIGH**3 + HIGH**4) / 5
SIZES = np.sqrt(SQUARES)


def bin_of(values: ArrayLike) -> NDArray[np.int64]:
    """Bin of each |value|: its exponent and the first BITS bits of its mantissa; -1 outside the bins."""
    bits = np.abs(np.asarray(values, np.float64)).view(np.int64)
    index = (bits >> (52 - BITS)) - ((1023 + LOWEST) << BITS)
    return np.where((index >= 0) & (index < N_BINS), index, -1)


def flip_p_values(counts: ArrayLike, squares: ArrayLike, score: ArrayLike) -> tuple[FloatArray, FloatArray]:
    counts, squares, score = np.asarray(counts), np.asarray(squares, np.float64), np.asarray(score, np.float64)
    shares = counts.sum(axis=1)
    upper = np.where(shares > 0, np.nan, 1.0)
    lower = upper.copy()
    bins = np.flatnonzero(counts.any(axis=0))
    for k in _chunks(np.flatnonzero(shares >= MIN_SHARES), len(bins)):
        n = counts[np.ix_(k, bins)].astype(np.float64)
        total = np.maximum(squares[k], n @ LOW[bins] ** 2)
        inside = np.minimum(total, n @ HIGH[bins] ** 2)
        size = np.sqrt(inside / total / (n @ SQUARES[bins]))[:, None] * SIZES[bins]
        upper[k], lower[k] = _both_tails(n, size, 1 - inside / total, score[k] / np.sqrt(total))
    return upper, lower


def flip_p_values_of(values: ArrayLike) -> tuple[FloatArray, FloatArray]:
    values = np.asarray(values, np.float64)
    shares = np.count_nonzero(values, axis=0)
    upper = np.where(shares > 0, np.nan, 1.0)
    lower = upper.copy()
    for k in _chunks(np.flatnonzero(shares >= MIN_SHARES), len(values)):
        x = values[:, k].T
        x = x / np.abs(x).max(axis=1, keepdims=True)
        x /= np.sqrt((x * x).sum(axis=1, keepdims=True))
        size = np.sort(np.abs(x), axis=1)
        upper[k], lower[k] = _both_tails((size > 0) * 1.0, size, np.zeros(len(k)), x.sum(axis=1))
    return upper, lower


def effective_units(counts: ArrayLike, squares: ArrayLike) -> FloatArray:
    n = np.asarray(counts)
    fourths = n @ FOURTHS
    units = np.full(fourths.shape, np.nan)
    np.divide((n @ SQUARES) ** 2, fourths, out=units, where=fourths > 0)
    return units


def _chunks(columns, width) -> Iterator:
    for block in np.array_split(columns, 1 + len(columns) * width // 2**17):
        if len(block):
            yield block


def _both_tails(n, size, rest, z):
    tail = _tail(n, size, rest, np.abs(z))
    return np.where(z >= 0, tail, 1 - tail), np.where(z > 0, 1 - tail, tail)


GAP = 0.3
GAPS = True


def _tail(n, size, rest, z):
    from scipy.special import erfcx

    t = _saddlepoint(n, size, rest, z)
    a = t[:, None] * size
    tanh = np.tanh(a)
    square = np.minimum(a, 0.02) ** 2
    legendre = np.where(a < 0.02, square / 2 - square**2 / 4 + square**3 / 9, np.log1p(tanh) - a * (1 - tanh))
    w = np.sqrt(2 * (n * legendre).sum(axis=1) + rest * t * t)
    with np.errstate(divide="ignore", invalid="ignore"):
        u = t * np.sqrt((n * size * size * (1 - tanh * tanh)).sum(axis=1) + rest)
        excess = np.where(t < 1e-3, t * (n * size**4).sum(axis=1) / 4, 1 / u - 1 / w)
    tail = np.exp(-w * w / 2) * np.minimum(0.5, erfcx(w / np.sqrt(2)) / 2 + excess / np.sqrt(2 * np.pi))
    if GAPS:
        _gaps(n, size, rest, z, tail)
    floor = np.exp2(-n.sum(axis=1))
    return np.maximum(tail, np.maximum(floor, np.finfo(np.float64).tiny))


def _gaps(n, size, rest, z, tail):
    nx = n * size
    below = np.cumsum(nx * size, axis=1)[:, :-1] + rest[:, None]
    gap = (below < (GAP * size[:, 1:]) ** 2) & (n[:, 1:] > 0) & (below > 0)
    k = np.flatnonzero(gap.any(axis=1))
    if not len(k):
        return
    top = gap[k, ::-1].argmax(axis=1)
    chance = np.exp2(-n[:, ::-1].cumsum(axis=1)[k, top])
    reach = nx[:, ::-1].cumsum(axis=1)[k, top]
    tail[k] = np.maximum(tail[k], chance)
    near = z[k] > reach - size[:, ::-1][k, top]
    if near.any():
        k, top = k[near], top[near]
        sd = np.sqrt(below[:, ::-1][k, top])[:, None]
        small = np.where(np.arange(n.shape[1])[::-1] > top[:, None], n[k], 0)
        others = _both_tails(small, size[k] / sd, rest[k] / sd[:, 0] ** 2, (z[k] - reach[near]) / sd[:, 0])[0]
        tail[k] = chance[near] * others


ITER = []


def _saddlepoint(n, size, rest, z):
    t = z.copy()
    nx = n * size
    nxx = nx * size
    for i in range(100):
        tanh = np.tanh(t[:, None] * size)
        slope = (nxx * (1 - tanh * tanh)).sum(axis=1) + rest
        missing = z - (nx * tanh).sum(axis=1) - rest * t
        step = np.divide(missing, slope, out=np.zeros_like(t), where=slope > 0)
        t += step
        if (step <= 1e-12 * t).all():
            break
    ITER.append(i)
    return t
