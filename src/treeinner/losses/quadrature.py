"""Averages of a gradient over the straight way from `margin` to `margin + step`: what score="loss" multiplies.

Two ways, by what is known of the loss:

    rule           Gauss-Legendre for the core's losses, which are analytic: points by the length of the step
    mean_slope     any other loss: Gauss points, moved so that the change of the value comes out

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
COUPLED_POINTS = (6, 16)  # points and parts: an analytic loss to 1e-13, around a kink to 1e-6


def rule(kind: CoreKind, largest_step: float, scale: float = 1.0) -> tuple[Float, Float]:
    """Points on [0, 1] and weights that average the gradient of one of the core's losses, to a relative 1e-12.

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
        return gauss(1)
    if not length <= MOST_PARTS * REACH[kind]:
        held = f"one round moves a margin by up to {largest_step:g}, too far for score='loss' with a {kind} loss"
        raise UnsupportedModelError(f"{held}; check the leaf values, or use score='signal' or 'tree_inner'.")
    parts = math.ceil(length / REACH[kind])
    n = _exponential_points(length / parts)
    return gauss(n if kind == "poisson" else max(n, _pole_points(length / parts)), parts)


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


def average(gradient: Function, m: Float, step: Float, at: Float, weights: Float) -> Float:
    """Average the gradient by a rule; a step of 0 gives the gradient itself."""
    first, *others = at
    base = gradient(m + first * step)
    return np.asarray(base + sum(w * (gradient(m + u * step) - base) for u, w in zip(others, weights[1:], strict=True)))


def mean_slope(value: Function, gradient: Function, m: Float, step: Float, *, coupled: bool) -> Float:
    """Average the gradient of any loss: (rows, outputs).

    `value` is that of every output, or if they are coupled of every row, (rows, 1). Its change is right whatever kinks
    lie on the way, but loses digits as the step gets small; Gauss points lose none, but err around kinks. So where the
    two differ by more than rounding, the average is moved along the step until step times average is the change: of a
    single output that makes it the difference quotient.
    """
    m, step = np.ascontiguousarray(m), np.ascontiguousarray(step)  # sums over outputs: the same bits for any rows

    def total(terms: Float) -> Float:
        return np.asarray(terms.sum(axis=1, keepdims=True)) if coupled else terms

    after = m + step
    before, change = value(m), value(after)
    size = np.abs(before) + np.abs(change)
    change = change - before
    at, weights = gauss(*(COUPLED_POINTS if coupled else (3, 1)))
    slopes = [gradient(m + u * step) for u in at]
    middle = slopes[len(at) // 2]
    mean = middle + sum(w * (slope - middle) for w, slope in zip(weights, slopes, strict=True))  # a step of 0: exact
    # Rounding of the values, and of the margins they are taken at.
    size += total(np.abs(slopes).max(axis=0) * (np.abs(m) + np.abs(after)))
    missing = change - total(mean * step)
    hidden = np.abs(missing) - ROUNDING * size <= 0.0  # False if the loss is infinite
    if coupled:
        return np.asarray(mean + np.where(hidden, 0.0, missing / total(step * step)) * step)
    return np.asarray(np.divide(change, step, out=mean, where=~hidden))
