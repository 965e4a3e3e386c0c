"""The losses whose gradient needs its own row alone, under neutral names.

r = margin - y throughout. Every function returns an Objective; `catalogue` gives them the libraries' names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.objectives.base import Compiled, Domain, FloatArray, Objective, between, one_hot, sigmoid

ZERO_TO_ONE = between(0.0, 1.0, "between 0 and 1")
NOT_NEGATIVE = between(0.0, np.inf, "zero or above")
POSITIVE = between(0.0, np.inf, "above zero", open_low=True)
ZERO_OR_ONE = Domain(lambda y: (y == 0) | (y == 1), "0 or 1")
SIGNED_BINARY = Domain(lambda y: (y == 0) | (y == 1) | (y == -1), "0 or 1 (or -1 or 1)")

TARGET_UNITS = "units of the target"
Residual = partial(Objective, unit=TARGET_UNITS)
LogLink = partial(Objective, link=np.exp, unit="log of the mean")


def ones(y: FloatArray, m: FloatArray, *state: FloatArray) -> FloatArray:
    """Hessian of the squared error, and what the libraries use where the true one is 0."""
    return np.ones_like(m)


def positive_class_weight(scale: float) -> Callable[[NDArray[Any]], FloatArray] | None:
    """XGBoost's scale_pos_weight: weight of every row whose label is 1 in float32, whatever the loss."""
    if scale == 1.0:
        return None
    return lambda y: np.where(np.float32(y) == np.float32(1.0), scale, 1.0)


# -- around the residual -----------------------------------------------------------------------------------
def squared_error() -> Objective:
    """r^2 / 2."""

    def gradient(y: FloatArray, m: FloatArray) -> FloatArray:
        return m - y

    compiled = Compiled("squared", gradient)
    return Residual("squared_error", lambda y, m: 0.5 * (m - y) ** 2, gradient, ones, compiled=compiled)


def absolute_error(tie: float = 0.0) -> Objective:
    """|r|; `tie` is the gradient at r = 0."""

    def gradient(y: FloatArray, m: FloatArray) -> FloatArray:
        return np.where(m == y, tie, np.sign(m - y))

    return Residual("absolute_error", lambda y, m: np.abs(m - y), gradient, ones)


def quantile(alpha: float | Sequence[float], *, tie: str = "above", dead_zone: float = 0.0) -> Objective:
    """Pinball loss: alpha * (y - m) below, (1 - alpha) * (m - y) above.

    Several alphas make several outputs, all fitted to one target. At r = 0 the gradient is 1 - alpha (`tie`
    "above": XGBoost, LightGBM) or -alpha ("below": scikit-learn); where |r| < `dead_zone` it is 0
    (CatBoost).
    """
    level = np.atleast_1d(np.asarray(alpha, np.float64))

    def value(y: FloatArray, m: FloatArray) -> FloatArray:
        return np.where(m >= y, (1.0 - level) * (m - y), level * (y - m))

    def gradient(y: FloatArray, m: FloatArray) -> FloatArray:
        above = m >= y if tie == "above" else m > y
        return np.where(np.abs(m - y) < dead_zone, 0.0, np.where(above, 1.0 - level, -level))

    return Residual("quantile", value, gradient, ones, shared_target=len(level) > 1)


def expectile(alpha: float, scale: float = 1.0) -> Objective:
    """Squared error weighted by alpha where m < y and 1 - alpha elsewhere, times scale / 2."""

    def weight(y: FloatArray, m: FloatArray) -> FloatArray:
        return scale * np.where(m >= y, 1.0 - alpha, alpha)

    return Residual(
        "expectile", lambda y, m: 0.5 * weight(y, m) * (m - y) ** 2, lambda y, m: weight(y, m) * (m - y), weight
    )


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

    def value(y: FloatArray, m: FloatArray) -> FloatArray:
        r, weight, _ = parts(y, m)
        return 0.5 * weight * r * r

    def gradient(y: FloatArray, m: FloatArray) -> FloatArray:
        r, weight, inner = parts(y, m)
        return inner * from_the_right(weight * r)

    def hessian(y: FloatArray, m: FloatArray) -> FloatArray:
        _, weight, inner = parts(y, m)
        return inner * inner * from_the_right(weight)

    return Objective("expectiles", value, gradient, hessian, link=expectiles, shared_target=True)


def huber(delta: float) -> Objective:
    """Square inside delta, straight outside; the hessian is LightGBM's (1 everywhere)."""
    return Residual("huber", lambda y, m: huber_value(m - y, delta), lambda y, m: np.clip(m - y, -delta, delta), ones)


def huber_value(r: FloatArray, delta: FloatArray | float) -> FloatArray:
    """Huber loss of a residual."""
    inside = np.minimum(np.abs(r), delta)
    return 0.5 * inside**2 + delta * (np.abs(r) - inside)


def fair(c: float) -> Objective:
    """Fair loss: c^2 (|r| / c - log(1 + |r| / c))."""

    def value(y: FloatArray, m: FloatArray) -> FloatArray:
        x = np.abs(m - y) / c
        return c * c * (x - np.log1p(x))

    return Residual(
        "fair",
        value,
        lambda y, m: c * (m - y) / (np.abs(m - y) + c),
        lambda y, m: c * c / (np.abs(m - y) + c) ** 2,
    )


def pseudo_huber(slope: float) -> Objective:
    """XGBoost's smooth Huber loss: d^2 (sqrt(1 + r^2 / d^2) - 1)."""
    d2 = slope * slope

    def root(y: FloatArray, m: FloatArray) -> FloatArray:
        return np.sqrt(1.0 + (m - y) ** 2 / d2)

    return Residual(
        "pseudo_huber",
        lambda y, m: d2 * (root(y, m) - 1.0),
        lambda y, m: (m - y) / root(y, m),
        lambda y, m: d2 / ((d2 + (m - y) ** 2) * root(y, m)),
    )


def squared_log_error() -> Objective:
    """(log1p m - log1p y)^2 / 2; margins below -1 are lifted to -1 + 1e-6, as XGBoost does."""

    def parts(y: FloatArray, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        lifted = np.maximum(m, -1.0 + 1e-6)
        return np.log1p(lifted) - np.log1p(y), lifted + 1.0

    def gradient(y: FloatArray, m: FloatArray) -> FloatArray:
        r, one_plus = parts(y, m)
        return r / one_plus

    def hessian(y: FloatArray, m: FloatArray) -> FloatArray:
        r, one_plus = parts(y, m)
        return np.maximum((1.0 - r) / one_plus**2, 1e-6)

    domain = between(-1.0, np.inf, "above -1", open_low=True)
    return Residual("squared_log_error", lambda y, m: 0.5 * parts(y, m)[0] ** 2, gradient, hessian, domain=domain)


def mape(tie: float = 0.0) -> Objective:
    """|r| / max(1, |y|)."""
    base = absolute_error(tie)

    def size(y: FloatArray) -> FloatArray:
        return np.maximum(1.0, np.abs(y))

    return Residual("mape", lambda y, m: np.abs(m - y) / size(y), lambda y, m: base.gradient(y, m) / size(y), ones)


def lq(q: float) -> Objective:
    """|r|^q."""
    return Residual(
        "lq",
        lambda y, m: np.abs(m - y) ** q,
        lambda y, m: q * np.where(m >= y, 1.0, -1.0) * np.abs(m - y) ** (q - 1.0),
        (lambda y, m: q * (q - 1.0) * np.abs(m - y) ** (q - 2.0)) if q >= 2 else None,
    )


def log_cosh() -> Objective:
    """Log of cosh r, written so that it does not overflow."""

    def value(y: FloatArray, m: FloatArray) -> FloatArray:
        r = np.abs(m - y)
        return np.asarray(r + np.log1p(np.exp(-2.0 * r)) - np.log(2.0))

    return Residual("log_cosh", value, lambda y, m: np.tanh(m - y), lambda y, m: 1.0 - np.tanh(m - y) ** 2)


def on_square_root(inner: Objective) -> Objective:
    """LightGBM's reg_sqrt: the loss is taken of sign(y) sqrt|y|, and the prediction is squared back."""

    def root(y: FloatArray) -> FloatArray:
        return np.sign(y) * np.sqrt(np.abs(y))

    return inner.of_target(root, link=lambda m: np.sign(m) * m * m, unit="square root of the target")


# -- log link ----------------------------------------------------------------------------------------------
def poisson(max_delta_step: float = 0.0) -> Objective:
    """e^m - y m; XGBoost's and LightGBM's hessian is e^(m + max_delta_step)."""

    def gradient(y: FloatArray, m: FloatArray) -> FloatArray:
        return np.exp(m) - y

    return LogLink(
        "poisson",
        lambda y, m: np.exp(m) - y * m,
        gradient,
        lambda y, m: np.exp(m + max_delta_step),
        domain=NOT_NEGATIVE,
        compiled=Compiled("poisson", gradient),
    )


def gamma(domain: Domain = POSITIVE) -> Objective:
    """Gamma deviance up to a constant: m + y e^-m."""
    return LogLink(
        "gamma",
        lambda y, m: m + y * np.exp(-m),
        lambda y, m: 1.0 - y * np.exp(-m),
        lambda y, m: y * np.exp(-m),
        domain=domain,
    )


def tweedie(rho: float) -> Objective:
    """Tweedie deviance of variance power rho, 1 < rho < 2."""
    a, b = 1.0 - rho, 2.0 - rho
    return LogLink(
        "tweedie",
        lambda y, m: -y * np.exp(a * m) / a + np.exp(b * m) / b,
        lambda y, m: -y * np.exp(a * m) + np.exp(b * m),
        lambda y, m: -y * a * np.exp(a * m) + b * np.exp(b * m),
        domain=NOT_NEGATIVE,
    )


def log_linear_quantile(alpha: float) -> Objective:
    """CatBoost's LogLinQuantile: pinball loss of y against e^m."""
    return Objective(
        "log_linear_quantile",
        lambda y, m: np.where(np.exp(m) >= y, (1.0 - alpha) * (np.exp(m) - y), alpha * (y - np.exp(m))),
        lambda y, m: np.exp(m) * np.where(np.exp(m) >= y, 1.0 - alpha, -alpha),
        link=np.exp,
        unit="log of the quantile",
    )


# -- averaged forests --------------------------------------------------------------------------------------
def forest(n_classes: int = 0) -> Objective:
    """Return what a tree of an averaged forest fits: y itself, whatever the other trees predict.

    Its gradient is -y (of each class's indicator if there are classes), so that TreeInner in the sample is
    the mean decrease of impurity (squared error, Gini).
    """

    def hot(y: NDArray[Any]) -> FloatArray:
        return one_hot(y, n_classes) if n_classes else y

    return Residual(
        "forest",
        lambda y, m: -hot(y) * m,
        lambda y, m: -hot(y) * np.ones_like(m),
        ones,
        target="class" if n_classes else "real",
    )
