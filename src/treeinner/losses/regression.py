"""The losses of numbers, under neutral names; `catalogue` gives them the libraries' names.

r = margin - y throughout. Every function returns a Loss without a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from treeinner.losses.loss import Domain, Float, Loss, one_hot, sigmoid, through, x_log_x

ZERO_TO_ONE: Domain = (lambda y: (y >= 0) & (y <= 1), "between 0 and 1")
NOT_NEGATIVE: Domain = (lambda y: np.isfinite(y) & (y >= 0), "zero or above")
POSITIVE: Domain = (lambda y: np.isfinite(y) & (y > 0), "above zero")
ABOVE_MINUS_ONE: Domain = (lambda y: np.isfinite(y) & (y > -1), "above -1")
ZERO_OR_ONE: Domain = (lambda y: (y == 0) | (y == 1), "0 or 1")
SIGNED_BINARY: Domain = (lambda y: (y == 0) | (y == 1) | (y == -1), "0 or 1 (or -1 or 1)")

TARGET_UNITS = "units of the target"
LogLink = partial(Loss, name="", link=np.exp, unit="log of the mean")

SMOOTHING = 0.04  # of XGBoost's smooth pinball loss (3.4 and later)


def of_residual(words: str, value: Any, gradient: Any, curvature: Any, **fields: Any) -> Loss:
    """Return a loss whose functions take r alone, or r and the state that a round shares."""
    value, gradient, curvature = through(lambda y, m: (m - y,), value, gradient, curvature)
    functions = {"value": value, "gradient": gradient, "curvature": curvature, "least": np.zeros_like}
    return Loss(name="", words=words, unit=TARGET_UNITS, **{**functions, **fields})


# -- around the residual -----------------------------------------------------------------------------------
def squared_error() -> Loss:
    """r^2 / 2."""
    functions = (lambda r: 0.5 * r**2, lambda r: r, np.ones_like)
    return of_residual("half the squared error", *functions, core=("squared", 1.0, None))


def absolute_error(tie: float = 0.0) -> Loss:
    """|r|; `tie` is the gradient at r = 0."""
    return of_residual("absolute error", np.abs, lambda r: np.where(r == 0, tie, np.sign(r)), 0, steepest=1.0)


def quantile(alpha: float | Sequence[float], *, tie: str = "above", dead_zone: float = 0.0) -> Loss:
    """Pinball loss: alpha * (y - m) below, (1 - alpha) * (m - y) above.

    Several alphas make several outputs, all fitted to one target. At r = 0 the gradient is 1 - alpha (`tie`
    "above": XGBoost, LightGBM) or -alpha ("below": scikit-learn); where |r| < `dead_zone` it is 0 (CatBoost).
    """
    level = np.atleast_1d(np.asarray(alpha, np.float64))

    def gradient(r: Float) -> Float:
        above = r >= 0 if tie == "above" else r > 0
        return np.where(np.abs(r) < dead_zone, 0.0, np.where(above, 1.0 - level, -level))

    def value(r: Float) -> Float:
        return np.where(r >= 0, (1.0 - level) * r, level * -r)

    words = f"pinball loss at {', '.join(f'{one:g}' for one in level)}"
    return of_residual(words, value, gradient, 0, shared_target=len(level) > 1, steepest=1.0)


def expectile(alpha: float, scale: float = 1.0) -> Loss:
    """Squared error weighted by alpha where m < y and 1 - alpha elsewhere, times scale / 2."""

    def weight(r: Float) -> Float:
        return scale * np.where(r >= 0, 1.0 - alpha, alpha)

    words = f"{'half the ' if scale == 1.0 else ''}squared error, weighted by the expectile {alpha:g}"
    return of_residual(words, lambda r: 0.5 * weight(r) * r**2, lambda r: weight(r) * r, weight)


def expectiles(alpha: Sequence[float]) -> Loss:
    """XGBoost's expectile, or several: the first margin, then increments softplus(m_k), so that they never cross."""
    if len(alpha) == 1:
        return expectile(alpha[0])
    level = np.asarray(alpha, np.float64)
    least = 1e-6  # XGBoost adds it to every increment

    def stacked(m: Float) -> Float:
        steps = np.concatenate([m[:, :1], least + np.logaddexp(0.0, m[:, 1:])], axis=1)
        return np.cumsum(steps, axis=1)

    def parts(y: Float, m: Float) -> tuple[Float, Float, Float]:
        r = stacked(m) - y
        inner = np.concatenate([np.ones_like(m[:, :1]), sigmoid(m[:, 1:])], axis=1)
        return r, np.where(r >= 0, 1.0 - level, level), inner

    def from_the_right(terms: Float) -> Float:
        return np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]

    value, gradient = through(
        parts,
        lambda r, weight, inner: 0.5 * weight * r * r,
        lambda r, weight, inner: inner * from_the_right(weight * r),
    )
    words = "half the squared error, weighted by the expectiles"
    fields: dict[str, Any] = {"link": stacked, "shared_target": True, "coupled": True, "least": np.zeros_like}
    return Loss(name="", words=words, value=value, gradient=gradient, **fields)


def huber(delta: float) -> Loss:
    """Square inside delta, straight outside."""
    return of_residual(
        f"Huber loss (delta {delta:g})",
        lambda r: huber_value(r, delta),
        lambda r: np.clip(r, -delta, delta),
        lambda r: (np.abs(r) <= delta).astype(np.float64),
        steepest=delta,
    )


def huber_value(r: Float, delta: Float | float) -> Float:
    """Huber loss of a residual."""
    inside = np.minimum(np.abs(r), delta)
    return 0.5 * inside**2 + delta * (np.abs(r) - inside)


def fair(c: float) -> Loss:
    """Fair loss: c^2 (|r| / c - log(1 + |r| / c))."""
    return of_residual(
        f"Fair loss (c {c:g})",
        lambda r: c * c * (np.abs(r) / c - np.log1p(np.abs(r) / c)),
        lambda r: c * r / (np.abs(r) + c),
        lambda r: c * c / (np.abs(r) + c) ** 2,
        steepest=c,
    )


def pseudo_huber(slope: float) -> Loss:
    """XGBoost's smooth Huber loss: d^2 (sqrt(1 + r^2 / d^2) - 1)."""
    d2 = slope * slope
    return of_residual(
        f"pseudo-Huber loss (slope {slope:g})",
        lambda r: r**2 / (np.sqrt(1.0 + r**2 / d2) + 1.0),  # the same, without cancellation for small r
        lambda r: r / np.sqrt(1.0 + r**2 / d2),
        lambda r: d2 / ((d2 + r**2) * np.sqrt(1.0 + r**2 / d2)),
        steepest=slope,
    )


def squared_log_error() -> Loss:
    """(log1p m - log1p y)^2 / 2; margins below -1 are lifted to -1 + 1e-6, as XGBoost does."""

    def parts(y: Float, m: Float) -> tuple[Float, Float]:
        lifted = np.maximum(m, -1.0 + 1e-6)
        return np.log1p(lifted) - np.log1p(y), lifted + 1.0

    value, gradient, curvature = through(
        parts,
        lambda r, one_plus: 0.5 * r**2,
        lambda r, one_plus: r / one_plus,
        lambda r, one_plus: np.where(one_plus > 2e-6, (1.0 - r) / one_plus**2, 0.0),  # a lifted margin moves nothing
    )
    fields = {"value": value, "gradient": gradient, "curvature": curvature, "least": np.zeros_like}
    words = "half the squared error of log(1 + y)"
    return Loss(name="", words=words, unit=TARGET_UNITS, domain=ABOVE_MINUS_ONE, **fields)


def mape(tie: float = 0.0) -> Loss:
    """|r| / max(1, |y|)."""
    base = absolute_error(tie)

    def relative(function: Any) -> Any:
        return lambda y, m: function(y, m) / np.maximum(1.0, np.abs(y))

    words = "absolute error / max(1, |y|)"
    return replace(base, words=words, value=relative(base.value), gradient=relative(base.gradient))


def lq(q: float) -> Loss:
    """|r|^q."""
    return of_residual(
        f"absolute error to the power {q:g}",
        lambda r: np.abs(r) ** q,
        lambda r: q * np.where(r >= 0, 1.0, -1.0) * np.abs(r) ** (q - 1.0),
        (lambda r: q * (q - 1.0) * np.abs(r) ** (q - 2.0)) if q >= 2 else 0,
    )


def log_cosh() -> Loss:
    """Log of cosh r."""
    return of_residual("log-cosh of the error", log_cosh_value, np.tanh, lambda r: 1.0 - np.tanh(r) ** 2, steepest=1.0)


def log_cosh_value(r: Float) -> Float:
    """Log of cosh r, written so that it neither overflows nor cancels."""
    size = np.abs(r)
    near = -0.5 * np.log1p(-(np.tanh(np.minimum(size, 1.0)) ** 2))
    return np.asarray(np.where(size < 1.0, near, size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0)))


def on_square_root(inner: Loss) -> Loss:
    """LightGBM's reg_sqrt: the loss is taken of sign(y) sqrt|y|, and the prediction is squared back."""
    back: dict[str, Any] = {"link": lambda m: np.sign(m) * m * m, "unit": "square root of the target"}
    words = f"{inner.words} of sqrt(y)"
    return inner.of_target(lambda y: np.sign(y) * np.sqrt(np.abs(y)), words=words, **back)


# -- around the residual, with one number per round that every row's gradient shares; it takes a pass of its own ----
def residual_scale(y: Float, m: Float, weight: Float | None) -> Float:
    """Squared mean root of |r|, s = (mean_w sqrt|r|)^2, per output: (outputs,)."""
    return np.average(np.sqrt(np.abs(m - y)), axis=0, weights=weight) ** 2


def smoothed(metric: Loss, gradient: Any, curvature: Any, **fields: Any) -> Loss:
    """XGBoost >= 3.4: the rounds descend a smooth form of a loss, whose width and height follow the residuals.

    Its value would be in another unit in every round. What the model is judged by, and what a breakdown follows, is
    the loss itself.
    """
    metric = replace(metric, name=metric.words)
    fields = {"scope": "round", "state": residual_scale, "metric": metric, "least": None, **fields}
    return of_residual(f"XGBoost's smooth form of the {metric.words}", None, gradient, curvature, **fields)


def smooth_absolute_error() -> Loss:
    """XGBoost >= 3.4 reg:absoluteerror: the gradient is that of a pseudo-Huber loss."""

    def shrunk(r: Float, s: Float) -> Float:
        norm = np.hypot(s, r)
        return np.divide(s, norm, out=np.ones_like(norm), where=norm > 0)

    return smoothed(absolute_error(), lambda r, s: r * shrunk(r, s), lambda r, s: shrunk(r, s) ** 3)


def smooth_quantile(alpha: float | Sequence[float]) -> Loss:
    """XGBoost >= 3.4 reg:quantileerror: pinball loss with a rounded corner, times the round's scale s."""
    level = np.atleast_1d(np.asarray(alpha, np.float64))

    def bend(r: Float, s: Float) -> Float:
        return np.tanh(np.divide(r, SMOOTHING * s, out=np.zeros_like(r), where=s > 0))

    return smoothed(
        quantile(alpha),
        lambda r, s: 0.5 * s * (bend(r, s) + 1.0 - 2.0 * level),
        lambda r, s: 0.5 / SMOOTHING * (1.0 - bend(r, s) ** 2),
        link=lambda m: np.sort(m, axis=-1) if m.ndim == 2 else m,
        shared_target=len(level) > 1,
    )


def quantile_huber(alpha: float) -> Loss:
    """Huber loss of scikit-learn's GradientBoosting: delta is the alpha quantile of |r| in each round."""

    def delta(y: Float, m: Float, weight: Float | None) -> Float:
        size = np.abs(m - y)[:, 0]
        order = np.argsort(size)
        below = np.cumsum(np.ones_like(size) if weight is None else weight[order])
        at = min(int(np.searchsorted(below, alpha * below[-1])), len(size) - 1)
        return size[order[at : at + 1]]

    functions = (huber_value, lambda r, s: np.clip(r, -s, s), lambda r, s: (np.abs(r) <= s).astype(np.float64))
    return of_residual("Huber loss", *functions, scope="round", state=delta)


# -- log link ----------------------------------------------------------------------------------------------
def poisson() -> Loss:
    """e^m - y m."""
    return LogLink(
        words="Poisson deviance / 2",
        value=lambda y, m: np.exp(m) - y * m,
        gradient=lambda y, m: np.exp(m) - y,
        curvature=lambda y, m: np.exp(m),
        domain=NOT_NEGATIVE,
        least=lambda y: y - x_log_x(y),
        core=("poisson", 1.0, None),
    )


def gamma(domain: Domain = POSITIVE) -> Loss:
    """Gamma deviance up to a constant: m + y e^-m."""
    return LogLink(
        words="Gamma deviance / 2",
        value=lambda y, m: m + y * np.exp(-m),
        gradient=lambda y, m: 1.0 - y * np.exp(-m),
        curvature=lambda y, m: y * np.exp(-m),
        domain=domain,
        least=lambda y: 1.0 + np.log(y),
    )


def tweedie(rho: float) -> Loss:
    """Tweedie deviance of variance power rho, 1 < rho < 2."""
    a, b = 1.0 - rho, 2.0 - rho
    return LogLink(
        words=f"Tweedie deviance (power {rho:g}) / 2",
        value=lambda y, m: -y * np.exp(a * m) / a + np.exp(b * m) / b,
        gradient=lambda y, m: -y * np.exp(a * m) + np.exp(b * m),
        curvature=lambda y, m: -y * a * np.exp(a * m) + b * np.exp(b * m),
        domain=NOT_NEGATIVE,
        least=lambda y: y**b * (1.0 / b - 1.0 / a),
    )


def log_linear_quantile(alpha: float) -> Loss:
    """CatBoost's LogLinQuantile: pinball loss of y against e^m."""
    return LogLink(
        words=f"pinball loss at {alpha:g}",
        value=lambda y, m: np.where(np.exp(m) >= y, (1.0 - alpha) * (np.exp(m) - y), alpha * (y - np.exp(m))),
        gradient=lambda y, m: np.exp(m) * np.where(np.exp(m) >= y, 1.0 - alpha, -alpha),
        curvature=0,
        unit="log of the quantile",
        least=lambda y: (1.0 - alpha) * np.maximum(-y, 0.0),  # e^m cannot get below 0
    )


# -- averaged forests --------------------------------------------------------------------------------------
def forest(n_classes: int = 0) -> Loss:
    """Return what a tree of an averaged forest fits: y itself, whatever the other trees predict.

    Its gradient is -y (of each class's indicator if there are classes), so that TreeInner in the sample is
    the mean decrease of impurity (squared error, Gini).
    """
    plain = Loss(
        name="",
        words="Gini impurity" if n_classes else "squared error",
        value=lambda y, m: -y * m,
        gradient=lambda y, m: -y * np.ones_like(m),
        curvature=0,
        target="class" if n_classes else "real",
        unit=TARGET_UNITS,
        of_single_trees=True,
    )
    return plain.of_target(lambda y: one_hot(y, n_classes) if n_classes else y)


def forest_error(loss: Loss) -> Loss:
    """Loss of the mean of an averaged forest; where its trees fit y, half of (prediction - label)^2.

    The core does not know it: the step of a forest begins at its roots.
    """
    if not loss.of_single_trees:  # LightGBM's forests, or a loss that the user told
        return replace(loss, core=None)

    def residual(y: Float, m: Float) -> Float:
        return m + loss.gradient(y, m)

    return replace(
        loss,
        words="half the squared error",
        value=lambda y, m: 0.5 * residual(y, m) ** 2,
        gradient=residual,
        curvature=lambda y, m: np.ones_like(m),
        least=lambda y: np.zeros(y.shape),
        of_single_trees=False,
    )
