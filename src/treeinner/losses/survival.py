"""Survival losses of XGBoost: accelerated failure time (per row) and Cox (all rows at once)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from treeinner.errors import UnsupportedModelError
from treeinner.losses.loss import Domain, Float, Loss, sigmoid

# XGBoost clips gradients of the AFT loss to this range; EPS guards its denominators.
MAX_GRADIENT, EPS = 15.0, 1e-12
INTERVAL: Domain = (
    lambda y: np.isfinite(y[:, 0]) & (y[:, 0] >= 0) & (y[:, 1] >= y[:, 0]) & (y[:, 1] > 0),
    "0 <= lower <= upper, lower finite and upper above 0 (inf: right-censored)",
)
NONZERO: Domain = (lambda y: np.isfinite(y) & (y != 0), "a time, negative if censored, and not 0")


def _special() -> Any:
    """Functions of scipy, whose import takes longer than that of treeinner."""
    from scipy import special

    return special


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


# Of the noise: density, distribution function, 1 less that (precise where it is small) and derivative of the density,
# vectorised; then, from sigma, the gradient of an uncensored row where the ratio of densities is 0 / 0: for z > 0 and
# z <= 0.
DISTRIBUTIONS: dict[str, tuple[Callable[..., Any], ...]] = {
    "normal": (
        _normal_pdf,
        lambda z: 0.5 * (1.0 + _special().erf(z / math.sqrt(2.0))),  # as XGBoost works it out
        lambda z: 0.5 * _special().erfc(z / math.sqrt(2.0)),
        lambda z: -z * _normal_pdf(z),
        lambda sigma: (-MAX_GRADIENT, MAX_GRADIENT),
    ),
    "logistic": (
        _logistic_pdf,
        lambda z: 0.5 * (1.0 + np.tanh(z / 2.0)),
        lambda z: sigmoid(-z),
        lambda z: -_logistic_pdf(z) * np.tanh(z / 2.0),
        lambda sigma: (-1.0 / sigma, 1.0 / sigma),
    ),
    "extreme": (
        _extreme_pdf,
        lambda z: -np.expm1(-np.exp(np.minimum(z, 700.0))),
        lambda z: np.exp(-np.exp(np.minimum(z, 700.0))),
        lambda z: (1.0 - np.exp(np.minimum(z, 300.0))) * _extreme_pdf(z),  # beyond 300 the density is 0
        lambda sigma: (-MAX_GRADIENT, 1.0 / sigma),
    ),
}


def aft(distribution: str, sigma: float) -> Loss:
    """Accelerated failure time: -log likelihood of log T = m + sigma * noise; y = [lower, upper] of T."""
    if distribution not in DISTRIBUTIONS:
        raise UnsupportedModelError(f"aft_loss_distribution={distribution!r}; known: {', '.join(DISTRIBUTIONS)}.")
    pdf, cdf, above, pdf_d1, limits = DISTRIBUTIONS[distribution]

    def standardised(y: Float, m: Float) -> tuple[Float, Float]:
        """Both ends of each row's interval; infinite where it is censored: densities there are 0."""
        with np.errstate(divide="ignore"):
            return (np.log(y[:, :1]) - m) / sigma, (np.log(y[:, 1:]) - m) / sigma

    def value(y: Float, m: Float) -> Float:
        low, high = standardised(y, m)
        right = (low > 0) | (high == np.inf)  # counted from the nearer end
        mass = np.where(right, above(low) - above(high), cdf(high) - cdf(low))
        exact = y[:, :1] == y[:, 1:]
        density = pdf(low) / (sigma * np.where(exact, y[:, :1], 1.0))
        return np.asarray(-np.log(np.maximum(np.where(exact, density, mass), EPS)))

    # Differences of the plain distribution function, as in XGBoost: where they round to 0, its limits come in.
    def gradient(y: Float, m: Float) -> Float:
        low, high = standardised(y, m)
        exact = y[:, :1] == y[:, 1:]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            below = sigma * np.where(exact, pdf(low), cdf(high) - cdf(low))
            ratio = np.where(exact, pdf_d1(low), pdf(high) - pdf(low)) / below
        # At an infinite margin; a censored row feels nothing once it lies on the allowed side.
        positive, negative = limits(sigma)
        too_low = (low > 0) | ((high > 0) & (high < np.inf) & ~exact)
        limit = np.where(too_low, np.where(low == -np.inf, 0.0, positive), np.where(high == np.inf, 0.0, negative))
        return np.clip(np.where((below < EPS) & ~np.isfinite(ratio), limit, ratio), -MAX_GRADIENT, MAX_GRADIENT)

    fields: dict[str, Any] = {"value": value, "gradient": gradient, "target": "interval", "domain": INTERVAL}
    words = f"negative log-likelihood of the survival time ({distribution}, scale {sigma:g})"
    return Loss(name="aft", words=words, link=np.exp, unit="log of the survival time", **fields)


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
