"""Survival losses of XGBoost: accelerated failure time (per row) and Cox (all rows at once)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import UnsupportedModelError
from treeinner.losses.loss import Domain, Float, Loss, sigmoid

# XGBoost clips gradients of the AFT loss to this range; EPS guards its denominators.
MAX_GRADIENT, EPS = 15.0, 1e-12
NONZERO = Domain(lambda y: np.isfinite(y) & (y != 0), "a time, negative if censored, and not 0")


class Distribution(NamedTuple):
    """Density of the noise, its derivative and its distribution function, vectorised."""

    pdf: Callable[[Float], Float]
    cdf: Callable[[Float], Float]
    above: Callable[[Float], Float]  # 1 less that, precise where it is small
    pdf_d1: Callable[[Float], Float]
    # Gradient of an uncensored row where the ratio of densities is 0 / 0: for z > 0 and z <= 0, from sigma.
    limits: Callable[[float], tuple[float, float]]


def _normal_cdf(z: Float) -> Float:
    """Normal distribution function as XGBoost works it out."""
    from scipy.special import erf  # here, because its import takes longer than that of treeinner

    return np.asarray(0.5 * (1.0 + erf(z / math.sqrt(2.0))))


def _normal_above(z: Float) -> Float:
    """1 less the normal distribution function."""
    from scipy.special import erfc

    return np.asarray(0.5 * erfc(z / math.sqrt(2.0)))


def _normal_pdf(z: Float) -> Float:
    """Normal density."""
    return np.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)


def _logistic_pdf(z: Float) -> Float:
    """Logistic density."""
    w = np.exp(-np.abs(z))  # symmetric, so that it never overflows
    return w / (1.0 + w) ** 2


def _extreme_pdf(z: Float) -> Float:
    """Density of the extreme value distribution."""
    w = np.exp(np.minimum(z, 700.0))
    return w * np.exp(-w)


def _extreme_cdf(z: Float) -> Float:
    """Extreme value distribution function."""
    return -np.expm1(-np.exp(np.minimum(z, 700.0)))


DISTRIBUTIONS = {
    "normal": Distribution(
        _normal_pdf,
        _normal_cdf,
        _normal_above,
        lambda z: -z * _normal_pdf(z),
        lambda sigma: (-MAX_GRADIENT, MAX_GRADIENT),
    ),
    "logistic": Distribution(
        _logistic_pdf,
        lambda z: 0.5 * (1.0 + np.tanh(z / 2.0)),
        lambda z: sigmoid(-z),
        lambda z: -_logistic_pdf(z) * np.tanh(z / 2.0),
        lambda sigma: (-1.0 / sigma, 1.0 / sigma),
    ),
    "extreme": Distribution(
        _extreme_pdf,
        _extreme_cdf,
        lambda z: np.exp(-np.exp(np.minimum(z, 700.0))),
        lambda z: (1.0 - np.exp(np.minimum(z, 300.0))) * _extreme_pdf(z),  # beyond 300 the density is 0
        lambda sigma: (-MAX_GRADIENT, 1.0 / sigma),
    ),
}


class _Ends(NamedTuple):
    """Standardised ends of each row's interval; an end that is not there has z = 0 and is masked by has_*."""

    exact: NDArray[np.bool_]
    has_low: NDArray[np.bool_]
    has_high: NDArray[np.bool_]
    z_low: Float
    z_high: Float

    def difference(self, f: Callable[[Float], Float], at_infinity: float = 0.0) -> Float:
        """Return f of the upper end minus f of the lower end."""
        return np.where(self.has_high, f(self.z_high), at_infinity) - np.where(self.has_low, f(self.z_low), 0.0)

    def mass(self, d: Distribution) -> Float:
        """Probability of the interval, counted from the nearer end."""
        right = self.has_low & ((self.z_low > 0) | ~self.has_high)
        return np.where(right, -self.difference(d.above), self.difference(d.cdf, 1.0))


def _ends(y: Float, m: Float, sigma: float) -> _Ends:
    """Standardised ends of each row's interval."""
    low, high = y[:, :1], y[:, 1:]
    has_low, has_high = low > 0, np.isfinite(high)
    z_low = np.where(has_low, np.log(np.where(has_low, low, 1.0)) - m, 0.0) / sigma
    z_high = np.where(has_high, np.log(np.where(has_high, high, 1.0)) - m, 0.0) / sigma
    return _Ends(low == high, has_low, has_high, z_low, z_high)


def aft(distribution: str, sigma: float) -> Loss:
    """Accelerated failure time: -log likelihood of log T = m + sigma * noise; y = [lower, upper] of T."""
    if distribution not in DISTRIBUTIONS:
        raise UnsupportedModelError(
            f"survival:aft with aft_loss_distribution={distribution!r}; known: {', '.join(DISTRIBUTIONS)}."
        )
    d = DISTRIBUTIONS[distribution]

    def value(y: Float, m: Float) -> Float:
        e = _ends(y, m, sigma)
        density = d.pdf(e.z_low) / (sigma * np.where(e.exact, y[:, :1], 1.0))
        return -np.log(np.maximum(np.where(e.exact, density, e.mass(d)), EPS))

    # Differences of the plain distribution function, as in XGBoost: where they round to 0, its limits come in.
    def gradient(y: Float, m: Float) -> Float:
        e = _ends(y, m, sigma)
        above = np.where(e.exact, d.pdf_d1(e.z_low), e.difference(d.pdf))
        below = sigma * np.where(e.exact, d.pdf(e.z_low), e.difference(d.cdf, 1.0))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = above / below
        unknown = (below < EPS) & ~np.isfinite(ratio)
        return np.clip(np.where(unknown, _limit(e, *d.limits(sigma)), ratio), -MAX_GRADIENT, MAX_GRADIENT)

    functions: dict[str, Any] = {"value": value, "gradient": gradient, "link": np.exp}
    words = f"negative log-likelihood of the survival time ({distribution}, scale {sigma:g})"
    return Loss(name="aft", words=words, target="interval", unit="log of the survival time", **functions)


def _limit(e: _Ends, positive: float, negative: float) -> Float:
    """Gradient at an infinite margin; a censored row feels nothing once it lies on the allowed side."""
    right, left = e.has_low & ~e.has_high, ~e.has_low & e.has_high
    is_positive = np.where(e.exact, e.z_low > 0, (e.z_high > 0) | (e.z_low > 0))
    return np.where(is_positive, np.where(left, 0.0, positive), np.where(right, 0.0, negative))


def cox() -> Loss:
    """Cox's partial likelihood; |y| is the time, y < 0 means censored, ties as XGBoost handles them.

    XGBoost keeps one risk set per distinct time (Breslow) but adds the events of a tie one after the other
    in the order of the rows, so a tied row feels only the tied events before it. Followed here: the score
    is about the model as it was trained.
    """

    def by_row(combine: Callable[..., Float]) -> Callable[..., Float]:
        """Function of (y, margin) from one of hazard, risk set and event of the rows in the order of time."""

        def function(y: Float, m: Float, state: Any = None) -> Float:
            time = np.abs(y[:, 0])
            order = np.argsort(time, kind="stable")
            hazard = np.exp(m[order, 0])
            at_least = np.cumsum(hazard[::-1])[::-1]  # sum over this row and every later one
            first = np.searchsorted(time[order], time[order], side="left")
            out = np.empty((len(order), 1))
            out[order, 0] = combine(hazard, at_least[first], (y[order, 0] > 0).astype(np.float64))
            return out

        return function

    return Loss(
        name="cox",
        words="negative partial log-likelihood",
        value=by_row(lambda h, risk, event: event * (np.log(risk) - np.log(h))),
        gradient=by_row(lambda h, risk, event: h * np.cumsum(event / risk) - event),
        curvature=by_row(lambda h, risk, event: h * np.cumsum(event / risk) - h**2 * np.cumsum(event / risk**2)),
        link=np.exp,
        domain=NONZERO,
        scope="data",
        unit="log hazard ratio",
    )
