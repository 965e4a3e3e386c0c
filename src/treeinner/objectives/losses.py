"""The losses of numbers, under neutral names; `catalogue` gives them the libraries' names.

r = margin - y throughout. Every function returns an Objective without a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from treeinner.objectives.base import Domain, FloatArray, Objective, between, one_hot, sigmoid, through, x_log_x

ZERO_TO_ONE = between(0.0, 1.0, "between 0 and 1")
NOT_NEGATIVE = between(0.0, np.inf, "zero or above")
POSITIVE = between(0.0, np.inf, "above zero", open_low=True)
ZERO_OR_ONE = Domain(lambda y: (y == 0) | (y == 1), "0 or 1")
SIGNED_BINARY = Domain(lambda y: (y == 0) | (y == 1) | (y == -1), "0 or 1 (or -1 or 1)")

TARGET_UNITS = "units of the target"
LogLink = partial(Objective, "", link=np.exp, unit="log of the mean")

# Constants of XGBoost's smooth pinball loss (3.4 and later).
SMOOTHING, MIN_RATIO = 0.04, 3e-4


def ones(r: FloatArray, *state: FloatArray) -> FloatArray:
    """Hessian of the squared error, and what the libraries use where the true one is 0."""
    return np.ones_like(r)


def of_residual(value: Any, gradient: Any, hessian: Any = ones, **fields: Any) -> Objective:
    """Return a loss whose functions take r alone, or r and the state that a round shares."""
    value, gradient, hessian = through(lambda y, m: (m - y,), value, gradient, hessian)
    return Objective("", value, gradient, hessian, unit=TARGET_UNITS, least=np.zeros_like, **fields)


# -- around the residual -----------------------------------------------------------------------------------
def squared_error() -> Objective:
    """r^2 / 2."""
    return of_residual(lambda r: 0.5 * r**2, lambda r: r).in_core("squared")


def absolute_error(tie: float = 0.0) -> Objective:
    """|r|; `tie` is the gradient at r = 0."""
    return of_residual(np.abs, lambda r: np.where(r == 0, tie, np.sign(r)), steepest=1.0)


def quantile(alpha: float | Sequence[float], *, tie: str = "above", dead_zone: float = 0.0) -> Objective:
    """Pinball loss: alpha * (y - m) below, (1 - alpha) * (m - y) above.

    Several alphas make several outputs, all fitted to one target. At r = 0 the gradient is 1 - alpha (`tie`
    "above": XGBoost, LightGBM) or -alpha ("below": scikit-learn); where |r| < `dead_zone` it is 0 (CatBoost).
    """
    level = np.atleast_1d(np.asarray(alpha, np.float64))

    def gradient(r: FloatArray) -> FloatArray:
        above = r >= 0 if tie == "above" else r > 0
        return np.where(np.abs(r) < dead_zone, 0.0, np.where(above, 1.0 - level, -level))

    def value(r: FloatArray) -> FloatArray:
        return np.where(r >= 0, (1.0 - level) * r, level * -r)

    return of_residual(value, gradient, shared_target=len(level) > 1, steepest=1.0)


def expectile(alpha: float, scale: float = 1.0) -> Objective:
    """Squared error weighted by alpha where m < y and 1 - alpha elsewhere, times scale / 2."""

    def weight(r: FloatArray) -> FloatArray:
        return scale * np.where(r >= 0, 1.0 - alpha, alpha)

    return of_residual(lambda r: 0.5 * weight(r) * r**2, lambda r: weight(r) * r, weight)


def stacked_expectiles(alpha: Sequence[float]) -> Objective:
    """XGBoost's several expectiles: the first margin, then increments softplus(m_k), so that they never cross.

    The hessian is XGBoost's: the diagonal of the Gauss-Newton matrix.
    """
    level = np.asarray(alpha, np.float64)
    least = 1e-6  # XGBoost adds it to every increment

    def expectiles(m: FloatArray) -> FloatArray:
        steps = np.concatenate([m[:, :1], least + np.logaddexp(0.0, m[:, 1:])], axis=1)
        return np.cumsum(steps, axis=1)

    def parts(y: FloatArray, m: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        r = expectiles(m) - y
        inner = np.concatenate([np.ones_like(m[:, :1]), sigmoid(m[:, 1:])], axis=1)
        return r, np.where(r >= 0, 1.0 - level, level), inner

    def from_the_right(terms: FloatArray) -> FloatArray:
        return np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]

    value, gradient, hessian = through(
        parts,
        lambda r, weight, inner: 0.5 * weight * r * r,
        lambda r, weight, inner: inner * from_the_right(weight * r),
        lambda r, weight, inner: inner * inner * from_the_right(weight),
    )
    fields: dict[str, Any] = {"link": expectiles, "shared_target": True, "coupled": True}
    return Objective("", value, gradient, hessian, least=np.zeros_like, **fields)


def huber(delta: float) -> Objective:
    """Square inside delta, straight outside; the hessian is LightGBM's (1 everywhere)."""
    return of_residual(lambda r: huber_value(r, delta), lambda r: np.clip(r, -delta, delta), steepest=delta)


def huber_value(r: FloatArray, delta: FloatArray | float) -> FloatArray:
    """Huber loss of a residual."""
    inside = np.minimum(np.abs(r), delta)
    return 0.5 * inside**2 + delta * (np.abs(r) - inside)


def fair(c: float) -> Objective:
    """Fair loss: c^2 (|r| / c - log(1 + |r| / c))."""
    return of_residual(
        lambda r: c * c * (np.abs(r) / c - np.log1p(np.abs(r) / c)),
        lambda r: c * r / (np.abs(r) + c),
        lambda r: c * c / (np.abs(r) + c) ** 2,
        steepest=c,
    )


def pseudo_huber(slope: float) -> Objective:
    """XGBoost's smooth Huber loss: d^2 (sqrt(1 + r^2 / d^2) - 1)."""
    d2 = slope * slope
    return of_residual(
        lambda r: r**2 / (np.sqrt(1.0 + r**2 / d2) + 1.0),  # the same, without cancellation for small r
        lambda r: r / np.sqrt(1.0 + r**2 / d2),
        lambda r: d2 / ((d2 + r**2) * np.sqrt(1.0 + r**2 / d2)),
        steepest=slope,
    )


def squared_log_error() -> Objective:
    """(log1p m - log1p y)^2 / 2; margins below -1 are lifted to -1 + 1e-6, as XGBoost does."""

    def parts(y: FloatArray, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        lifted = np.maximum(m, -1.0 + 1e-6)
        return np.log1p(lifted) - np.log1p(y), lifted + 1.0

    value, gradient, hessian = through(
        parts,
        lambda r, one_plus: 0.5 * r**2,
        lambda r, one_plus: r / one_plus,
        lambda r, one_plus: np.maximum((1.0 - r) / one_plus**2, 1e-6),
    )
    domain = between(-1.0, np.inf, "above -1", open_low=True)
    return Objective("", value, gradient, hessian, domain=domain, unit=TARGET_UNITS, least=np.zeros_like)


def mape(tie: float = 0.0) -> Objective:
    """|r| / max(1, |y|); the hessian is 1."""
    base = absolute_error(tie)

    def relative(function: Any) -> Any:
        return lambda y, m: function(y, m) / np.maximum(1.0, np.abs(y))

    return replace(base, value=relative(base.value), gradient=relative(base.gradient))


def lq(q: float) -> Objective:
    """|r|^q."""
    return of_residual(
        lambda r: np.abs(r) ** q,
        lambda r: q * np.where(r >= 0, 1.0, -1.0) * np.abs(r) ** (q - 1.0),
        (lambda r: q * (q - 1.0) * np.abs(r) ** (q - 2.0)) if q >= 2 else None,
    )


def log_cosh() -> Objective:
    """Log of cosh r."""
    return of_residual(log_cosh_value, np.tanh, lambda r: 1.0 - np.tanh(r) ** 2, steepest=1.0)


def log_cosh_value(r: FloatArray) -> FloatArray:
    """Log of cosh r, written so that it neither overflows nor cancels."""
    size = np.abs(r)
    near = -0.5 * np.log1p(-(np.tanh(np.minimum(size, 1.0)) ** 2))
    return np.asarray(np.where(size < 1.0, near, size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0)))


def on_square_root(inner: Objective) -> Objective:
    """LightGBM's reg_sqrt: the loss is taken of sign(y) sqrt|y|, and the prediction is squared back."""
    back: dict[str, Any] = {"link": lambda m: np.sign(m) * m * m, "unit": "square root of the target"}
    return inner.of_target(lambda y: np.sign(y) * np.sqrt(np.abs(y)), **back)


# -- around the residual, with one number per round that every row's gradient shares; it takes a pass of its own ----
def residual_scale(y: FloatArray, m: FloatArray, weight: FloatArray | None) -> FloatArray:
    """Squared mean root of |r|, s = (mean_w sqrt|r|)^2, per output: (outputs,)."""
    return np.average(np.sqrt(np.abs(m - y)), axis=0, weights=weight) ** 2


def smooth_absolute_error() -> Objective:
    """XGBoost >= 3.4 reg:absoluteerror: pseudo-Huber whose width s follows the residuals of the round."""

    def hessian(r: FloatArray, s: FloatArray) -> FloatArray:
        norm = np.hypot(s, r)
        return np.divide(s, norm, out=np.ones_like(norm), where=norm > 0)

    functions = (lambda r, s: s * (np.hypot(s, r) - s), lambda r, s: r * hessian(r, s), hessian)
    return of_residual(*functions, scope="round", state=residual_scale)


def smooth_quantile(alpha: float | Sequence[float]) -> Objective:
    """XGBoost >= 3.4 reg:quantileerror: pinball loss with a rounded corner, times the round's scale s."""
    level = np.atleast_1d(np.asarray(alpha, np.float64))

    def steps(r: FloatArray, s: FloatArray) -> FloatArray:
        return np.divide(r, SMOOTHING * s, out=np.zeros_like(r), where=s > 0)

    def hessian(r: FloatArray, s: FloatArray) -> FloatArray:
        x = steps(r, s)
        ratio = np.divide(np.tanh(x), x, out=np.ones_like(x), where=x != 0)
        return np.where(s > 0, 0.5 / SMOOTHING * np.maximum(ratio, MIN_RATIO), 0.0)

    return of_residual(
        lambda r, s: 0.5 * s * (SMOOTHING * s * log_cosh_value(steps(r, s)) + (1.0 - 2.0 * level) * r),
        lambda r, s: 0.5 * s * (np.tanh(steps(r, s)) + 1.0 - 2.0 * level),
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

    return of_residual(huber_value, lambda r, s: np.clip(r, -s, s), scope="round", state=delta)


# -- log link ----------------------------------------------------------------------------------------------
def poisson(max_delta_step: float = 0.0) -> Objective:
    """e^m - y m; XGBoost's and LightGBM's hessian is e^(m + max_delta_step)."""
    return LogLink(
        lambda y, m: np.exp(m) - y * m,
        lambda y, m: np.exp(m) - y,
        lambda y, m: np.exp(m + max_delta_step),
        domain=NOT_NEGATIVE,
        least=lambda y: y - x_log_x(y),
    ).in_core("poisson")


def gamma(domain: Domain = POSITIVE) -> Objective:
    """Gamma deviance up to a constant: m + y e^-m."""
    return LogLink(
        lambda y, m: m + y * np.exp(-m),
        lambda y, m: 1.0 - y * np.exp(-m),
        lambda y, m: y * np.exp(-m),
        domain=domain,
        least=log_plus_one,
    )


def log_plus_one(y: FloatArray) -> FloatArray:
    """Least gamma loss; minus infinity where y = 0, which LightGBM allows."""
    with np.errstate(divide="ignore"):
        return 1.0 + np.log(y)


def tweedie(rho: float) -> Objective:
    """Tweedie deviance of variance power rho, 1 < rho < 2."""
    a, b = 1.0 - rho, 2.0 - rho
    return LogLink(
        lambda y, m: -y * np.exp(a * m) / a + np.exp(b * m) / b,
        lambda y, m: -y * np.exp(a * m) + np.exp(b * m),
        lambda y, m: -y * a * np.exp(a * m) + b * np.exp(b * m),
        domain=NOT_NEGATIVE,
        least=lambda y: y**b * (1.0 / b - 1.0 / a),
    )


def log_linear_quantile(alpha: float) -> Objective:
    """CatBoost's LogLinQuantile: pinball loss of y against e^m."""
    return LogLink(
        lambda y, m: np.where(np.exp(m) >= y, (1.0 - alpha) * (np.exp(m) - y), alpha * (y - np.exp(m))),
        lambda y, m: np.exp(m) * np.where(np.exp(m) >= y, 1.0 - alpha, -alpha),
        unit="log of the quantile",
        least=lambda y: (1.0 - alpha) * np.maximum(-y, 0.0),  # e^m cannot get below 0
    )


# -- averaged forests --------------------------------------------------------------------------------------
def forest(n_classes: int = 0) -> Objective:
    """Return what a tree of an averaged forest fits: y itself, whatever the other trees predict.

    Its gradient is -y (of each class's indicator if there are classes), so that TreeInner in the sample is
    the mean decrease of impurity (squared error, Gini).
    """
    plain = Objective("", lambda y, m: -y * m, lambda y, m: -y * np.ones_like(m), lambda y, m: np.ones_like(m))
    fields: dict[str, Any] = {"unit": TARGET_UNITS, "target": "class" if n_classes else "real", "of_single_trees": True}
    return plain.of_target(lambda y: one_hot(y, n_classes) if n_classes else y, **fields)


def forest_error(loss: Objective) -> Objective:
    """Loss of the mean of an averaged forest; where its trees fit y, half of (prediction - label)^2.

    The core does not know it: the step of a forest begins at its roots.
    """
    if not loss.of_single_trees:  # LightGBM's forests, or a loss that the user told
        return replace(loss, compiled=None)

    def residual(y: FloatArray, m: FloatArray) -> FloatArray:
        return m + loss.gradient(y, m)

    def value(y: FloatArray, m: FloatArray) -> FloatArray:
        return 0.5 * residual(y, m) ** 2

    error = replace(loss, value=value, gradient=residual, hessian=ones, least=lambda y: np.zeros(y.shape))
    return replace(error, compiled=None, of_single_trees=False)
