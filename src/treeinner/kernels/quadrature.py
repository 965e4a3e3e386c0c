"""The Gauss-Legendre rules that TreeSHAP integrates with."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

__all__ = ["quadrature"]

FloatArray = NDArray[np.float64]

NUMPY_POINTS = 10  # numpy's weights are good to 12 x 2^-53 up to here; with 20 points to 600 x, with 100 to 19,000 x
DIGITS = 40  # of a decimal; what is rounded to float64 is then the exact point and weight
NEWTON_STEPS = 5  # from three digits, which each step doubles


def quadrature(n: int) -> tuple[FloatArray, FloatArray]:
    """Points and weights of the Gauss-Legendre rule on [0, 1]."""
    if n <= NUMPY_POINTS:
        points, weights = np.polynomial.legendre.leggauss(n)
        return (points + 1) / 2, weights / 2
    u, w = np.empty(n), np.empty(n)
    with localcontext(Context(prec=DIGITS)):
        for i in range((n + 1) // 2):  # the rule is symmetric
            x, weight = _node(n, i)
            u[i], u[n - 1 - i] = float((1 - x) / 2), float((1 + x) / 2)
            w[i] = w[n - 1 - i] = float(weight)
    return u, w


def _node(n: int, i: int) -> tuple[Decimal, Decimal]:
    """The i-th largest zero of the Legendre polynomial of degree n, and its weight on [0, 1]."""
    x, slope = Decimal(math.cos(math.pi * (i + 0.75) / (n + 0.5))), Decimal(0)
    for _ in range(NEWTON_STEPS):
        before, value = Decimal(1), x
        for k in range(2, n + 1):
            before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
        slope = n * (x * value - before) / (x * x - 1)
        x -= value / slope
    return x, 1 / ((1 - x * x) * slope * slope)
