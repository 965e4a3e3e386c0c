"""Averages of a gradient over the straight way from `margin` to `margin + step`: what score="loss" multiplies.

Three ways, by what is known of the loss:

    rule           Gauss-Legendre for the core's losses, which are analytic: points by the length of the step
    mean_slope     any loss of one output (or of outputs that do not meet): difference quotient of its value
    halving        any loss of several outputs: Gauss-Lobatto on pieces, halved around kinks

Each row's result depends on that row and on `largest_step` alone, never on the rows beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import UnsupportedModelError

if TYPE_CHECKING:
    from treeinner.losses.loss import CoreKind, Float

Function = Callable[..., NDArray[np.float64]]  # of a margin

TOLERANCE = 1e-12  # relative error of a rule
MOST_POINTS, MOST_PARTS = 32, 64
# Longest steps that MOST_POINTS points can do.
REACH = {"logistic": 13.25, "softmax": 13.25, "poisson": 125.0}

EPS = float(np.finfo(np.float64).eps)
ROUNDING = 16.0 * EPS  # relative error that a value may have: a few exponentials and sums
FINEST = 2.0**-44  # pieces are not halved further: a jump inside one changes the average by less than 1e-13
PIECE_POINTS, PIECE_TOLERANCE = 6, 1e-14


def points(kind: CoreKind, largest_step: float, scale: float = 1.0) -> tuple[int, int]:
    """Return the number of Gauss-Legendre points, and of equal parts of the way, for a relative error of 1e-12.

    Parameters
    ----------
    kind
        "squared", "logistic", "poisson" or "softmax".
    largest_step
        Largest |step| in any output.
    scale
        Of the margin, for "logistic".
    """
    # Softmax sees differences of steps.
    length = abs(scale) * largest_step * (2.0 if kind == "softmax" else 1.0)
    if kind == "squared" or length < 1e-6:  # a straight line, to 1e-13: its middle
        return 1, 1
    if not length <= MOST_PARTS * REACH[kind]:
        raise UnsupportedModelError(
            f"one round of the model moves a margin by up to {largest_step:g}, too far for score='loss' with a {kind} "
            "loss; check the leaf values, or use score='tree_inner'."
        )
    parts = math.ceil(length / REACH[kind])
    n = _exponential_points(length / parts)
    return n if kind == "poisson" else max(n, _pole_points(length / parts)), parts


def _exponential_points(length: float) -> int:
    """Points for e^(length * u): Poisson, and the tails of the logistic function."""
    mean = math.sinh(length / 2.0) / (length / 2.0)
    for n in range(1, MOST_POINTS):
        at, weights = gauss(n)
        if abs(np.exp((at - 0.5) * length) @ weights / mean - 1.0) < TOLERANCE:
            return n
    return MOST_POINTS


def _pole_points(length: float) -> int:
    """Points for the logistic function and softmax.

    Their poles lie pi / length or more beside the way, in units of the way: a sum of exponentials is not 0 while their
    phases span less than pi. A pair of simple poles there leaves an error of 4 pi / length * rho^-(2n + 1) with
    log rho = asinh(2 pi / length). The least mean it is to be compared with is that of a class between two others,
    1 / (2 cosh): 4 / length * atan(tanh(length / 8)). Measured, the error is at most 1.2 times that: 4 for pi.
    """
    relative = 4.0 / math.atan(math.tanh(length / 8.0))
    return math.ceil((math.log(relative / TOLERANCE) / math.asinh(2.0 * math.pi / length) - 1.0) / 2.0)


@lru_cache(maxsize=256)
def gauss(n: int, parts: int = 1) -> tuple[Float, Float]:
    """Gauss-Legendre on [0, 1]: `n` points in each of `parts` equal parts, and their weights."""
    x, weight = np.polynomial.legendre.leggauss(n)
    at = ((np.arange(parts)[:, None] + (x + 1.0) / 2.0) / parts).ravel()
    weights = np.tile(weight / (2.0 * parts), parts)
    at.flags.writeable = weights.flags.writeable = False
    return at, weights


@lru_cache(maxsize=1)
def lobatto(n: int) -> tuple[Float, Float]:
    """Gauss-Lobatto on [0, 1], which has points at both ends: no kink is hidden between an end and the first point."""
    p = np.polynomial.Legendre.basis(n - 1)
    x = np.concatenate([[-1.0], p.deriv().roots(), [1.0]])
    return (x + 1.0) / 2.0, 1.0 / (n * (n - 1) * p(x) ** 2)


def rule(kind: CoreKind, largest_step: float, scale: float = 1.0) -> tuple[Float, Float]:
    """Points on [0, 1] and weights that average the gradient of one of the core's losses; see `points`."""
    return gauss(*points(kind, largest_step, scale))


def average(gradient: Function, m: Float, step: Float, at: Float, weights: Float) -> Float:
    """Average the gradient by a rule; a step of 0 gives the gradient itself."""
    first, *others = at
    base = gradient(m + first * step)
    return np.asarray(base + sum(w * (gradient(m + u * step) - base) for u, w in zip(others, weights[1:], strict=True)))


def mean_slope(value: Function, gradient: Function, m: Float, step: Float) -> Float:
    """Average the gradient of outputs that do not meet: (rows, outputs).

    The difference quotient of the value is right whatever kinks lie on the way, but loses digits as the step gets
    small. Three Gauss points err by 5e-7 step^6 times the sixth derivative of the gradient and lose no digits. So they
    are taken wherever the quotient's rounding error hides the difference.
    """
    after = m + step
    before, change = value(m), value(after)
    size = np.abs(before) + np.abs(change)
    change = change - before
    at, weights = gauss(3)
    low, middle, high = (gradient(m + u * step) for u in at)
    mean = middle + weights[0] * ((low - middle) + (high - middle))  # so that a step of 0 gives the gradient itself
    # Rounding of the values, and of the margins they are taken at.
    steepest = np.maximum(np.maximum(np.abs(low), np.abs(high)), np.abs(middle))
    size += steepest * (np.abs(m) + np.abs(after))
    hidden = np.abs(mean * step - change) - ROUNDING * size <= 0.0  # False if the loss is infinite
    return np.asarray(np.divide(change, step, out=mean, where=~hidden))


def halving(gradient: Function, m: Float, step: Float) -> Float:
    """Average the gradient of coupled outputs, kinks and all: (rows, outputs).

    `gradient(margin, rows)` is that of some of the rows. A piece of the way is halved until its points and those of its
    halves agree, so that only rows that cross a kink take more than three times PIECE_POINTS gradients.
    """
    m, step = np.ascontiguousarray(m), np.ascontiguousarray(step)  # sums over outputs: the same bits for any rows
    at, weights = lobatto(PIECE_POINTS)

    def along(row: NDArray[np.intp], start: Float, width: float) -> tuple[Float, Float]:
        """Return the gradients at the points of each piece, and their averages."""
        g = np.stack([gradient(m[row] + (start + u * width)[:, None] * step[row], row) for u in at])
        return g, g[0] + np.sum(weights[1:, None, None] * (g[1:] - g[0]), axis=0)

    row, start, width = np.arange(len(m)), np.zeros(len(m)), 1.0
    g, whole = along(row, start, width)
    # Rounded margins: what they change in a gradient is to its change along the way as eps |m| to the step.
    rounding = EPS * np.ptp(g, axis=0).max(axis=1) * np.abs(m).max(axis=1) / np.abs(step).max(axis=1)
    tolerance = PIECE_TOLERANCE * np.abs(g).max(axis=(0, 2)) + 4.0 * rounding
    total = np.zeros_like(m)
    while len(row):
        width /= 2.0
        g, halves = along(np.tile(row, 2), np.concatenate([start, start + width]), width)
        np.maximum.at(tolerance, np.tile(row, 2), PIECE_TOLERANCE * np.abs(g).max(axis=(0, 2)))
        pair = halves.reshape(2, *whole.shape)
        better = pair.mean(axis=0)
        # Not the converse: what is not finite is left as it is, and refused with the other gradients.
        coarse = (np.abs(better - whole).max(axis=1) * width > tolerance[row]) & (width > FINEST)
        np.add.at(total, row[~coarse], 2.0 * width * better[~coarse])
        row, start = np.tile(row[coarse], 2), np.concatenate([start[coarse], start[coarse] + width])
        whole = pair[:, coarse].reshape(len(row), m.shape[1])
    return total
