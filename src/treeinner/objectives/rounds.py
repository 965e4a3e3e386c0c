"""Losses with one number per round that every row's gradient shares; it takes a pass of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeinner.objectives.base import FloatArray, Objective
from treeinner.objectives.losses import Residual, huber_value, ones

# Constants of XGBoost's smooth pinball loss (3.4 and later).
SMOOTHING, MIN_RATIO = 0.04, 3e-4


def residual_scale(y: FloatArray, m: FloatArray, weight: FloatArray | None) -> FloatArray:
    """Squared mean root of |r|, s = (mean_w sqrt|r|)^2, per output: (outputs,)."""
    return np.average(np.sqrt(np.abs(m - y)), axis=0, weights=weight) ** 2


def smooth_absolute_error() -> Objective:
    """XGBoost >= 3.4 reg:absoluteerror: pseudo-Huber whose width s follows the residuals of the round."""

    def hessian(y: FloatArray, m: FloatArray, s: FloatArray) -> FloatArray:
        norm = np.hypot(s, m - y)
        return np.divide(s, norm, out=np.ones_like(norm), where=norm > 0)

    return Residual(
        "smooth_absolute_error",
        lambda y, m, s: s * (np.hypot(s, m - y) - s),
        lambda y, m, s: (m - y) * hessian(y, m, s),
        hessian,
        scope="round",
        state=residual_scale,
    )


def smooth_quantile(alpha: float | Sequence[float]) -> Objective:
    """XGBoost >= 3.4 reg:quantileerror: pinball loss with a rounded corner, times the round's scale s."""
    level = np.atleast_1d(np.asarray(alpha, np.float64))

    def steps(y: FloatArray, m: FloatArray, s: FloatArray) -> FloatArray:
        return np.divide(m - y, SMOOTHING * s, out=np.zeros_like(m), where=s > 0)

    def value(y: FloatArray, m: FloatArray, s: FloatArray) -> FloatArray:
        x = np.abs(steps(y, m, s))
        log_cosh = x + np.log1p(np.exp(-2.0 * x)) - np.log(2.0)
        return np.asarray(0.5 * s * (SMOOTHING * s * log_cosh + (1.0 - 2.0 * level) * (m - y)))

    def gradient(y: FloatArray, m: FloatArray, s: FloatArray) -> FloatArray:
        return 0.5 * s * (np.tanh(steps(y, m, s)) + 1.0 - 2.0 * level)

    def hessian(y: FloatArray, m: FloatArray, s: FloatArray) -> FloatArray:
        x = steps(y, m, s)
        ratio = np.divide(np.tanh(x), x, out=np.ones_like(x), where=x != 0)
        return np.where(s > 0, 0.5 / SMOOTHING * np.maximum(ratio, MIN_RATIO), 0.0)

    return Residual(
        "smooth_quantile",
        value,
        gradient,
        hessian,
        link=lambda m: np.sort(m, axis=-1) if m.ndim == 2 else m,
        shared_target=len(level) > 1,
        scope="round",
        state=residual_scale,
    )


def quantile_huber(alpha: float) -> Objective:
    """Huber loss of scikit-learn's GradientBoosting: delta is the alpha quantile of |r| in each round."""

    def delta(y: FloatArray, m: FloatArray, weight: FloatArray | None) -> FloatArray:
        size = np.abs(m - y)[:, 0]
        order = np.argsort(size)
        below = np.cumsum(np.ones_like(size) if weight is None else weight[order])
        at = min(int(np.searchsorted(below, alpha * below[-1])), len(size) - 1)
        return size[order[at : at + 1]]

    return Residual(
        "quantile_huber",
        lambda y, m, s: huber_value(m - y, s),
        lambda y, m, s: np.clip(m - y, -s, s),
        ones,
        scope="round",
        state=delta,
    )
