"""Losses of class labels and probabilities, without names as those of `losses`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.objectives.base import Domain, FloatArray, Objective, entropy, integers_below, one_hot, sigmoid, through
from treeinner.objectives.losses import SIGNED_BINARY, ZERO_OR_ONE, ZERO_TO_ONE

FAR = float(np.log(1e13 - 1.0))
Binary = partial(Objective, "", target="binary", domain=ZERO_OR_ONE)


def logistic(scale: float = 1.0, domain: Domain = ZERO_OR_ONE) -> Objective:
    """Cross-entropy of y against sigmoid(scale * m)."""

    def value(y: FloatArray, m: FloatArray) -> FloatArray:
        x = scale * m  # log(1 + e^x) - y x as a sum of two numbers above 0: no digits lost where the loss is small
        return np.asarray(np.log1p(np.exp(-np.abs(x))) + np.abs(x) * np.where(x > 0.0, 1.0 - y, y))

    def hessian(y: FloatArray, m: FloatArray) -> FloatArray:
        q = sigmoid(scale * m)
        return scale * scale * q * (1.0 - q)

    return Binary(
        value,
        lambda y, m: scale * (sigmoid(scale * m) - y),
        hessian,
        link=lambda m: sigmoid(scale * m),
        domain=domain,
        least=entropy,
        steepest=scale,
        unit="log-odds" if scale == 1.0 else f"log-odds / {scale:g}",
    ).in_core("logistic", scale)


def lightgbm_binary(scale: float, weights: tuple[float, float], *, unbalanced: bool) -> Objective:
    """LightGBM's `binary`: a label above 0 is positive; classes weighted by scale_pos_weight or is_unbalance.

    `weights` are those of the negative and the positive class. With is_unbalance they come from the class
    counts of the training rows; where the model does not store them (`unbalanced`), they are taken from
    the rows given: exact on the training rows, and of scope "round" although y alone decides.
    """

    def zero_one(y: FloatArray) -> FloatArray:
        return (y > 0).astype(np.float64)

    plain = logistic(scale).of_target(zero_one, domain=SIGNED_BINARY)
    if not unbalanced:
        table = None if weights == (1.0, 1.0) else lambda y: np.where(y > 0, weights[1], weights[0])
        return replace(plain, row_weight=table).in_core("logistic", scale, zero_one)

    def counts(y: FloatArray, m: FloatArray, w: FloatArray | None) -> FloatArray:
        n_positive = float(np.count_nonzero(y > 0))
        n_negative = y.size - n_positive
        if not n_positive or not n_negative:
            return np.ones(2)
        return np.array([max(n_positive / n_negative, 1.0), max(n_negative / n_positive, 1.0)])

    def weighted(function: Any) -> Any:
        return lambda y, m, s: function(y, m) * np.where(y > 0, s[1], s[0])

    functions = {name: weighted(getattr(plain, name)) for name in ("value", "gradient", "hessian")}
    return replace(plain, **functions, scope="round", state=counts)


def softmax(n_classes: int, hessian_factor: float = 1.0) -> Objective:
    """Multinomial cross-entropy; the libraries multiply the hessian's diagonal by different factors."""

    def probability(m: FloatArray) -> FloatArray:
        e = np.exp(m - m.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    def value(y: NDArray[Any], m: FloatArray) -> FloatArray:
        rows = np.arange(len(m))
        ahead = m - m[rows, y][:, None]  # of the row's own class
        first = ahead.argmax(axis=1)
        top = ahead[rows, first]
        others = np.exp(ahead - top[:, None])
        others[rows, first] = 0.0  # not 1 in a sum: no digits lost where the loss is small
        return np.asarray(top + np.log1p(others.sum(axis=1)))

    def hessian(y: NDArray[Any], m: FloatArray) -> FloatArray:
        p = probability(m)
        return hessian_factor * p * (1.0 - p)

    return Objective(
        "",
        value,
        lambda y, m: probability(m) - one_hot(y, m.shape[1]),
        hessian,
        link=probability,
        domain=integers_below(n_classes),
        target="class",
        coupled=True,
        least=lambda y: np.zeros(len(y)),
        steepest=1.0,
        unit="unnormalised log-probability",  # not log-odds: only differences between classes mean something
    ).in_core("softmax")


def one_vs_all(n_classes: int, scale: float = 1.0, positive: float = 1.0) -> Objective:
    """Return a logistic loss per class; `positive` weighs a row in its own class's column."""

    def weight(y: NDArray[Any]) -> FloatArray:
        return np.where(one_hot(y, n_classes) > 0, positive, 1.0)

    fields = {"target": "class", "domain": integers_below(n_classes), "row_weight": None if positive == 1.0 else weight}
    return logistic(scale).of_target(lambda y: one_hot(y, n_classes), **fields)


def cross_entropy_lambda() -> Objective:
    """LightGBM's cross_entropy_lambda: p = 1 - exp(-w log(1 + e^m)), so a weight does not simply multiply."""

    def value(y: FloatArray, m: FloatArray, w: FloatArray) -> FloatArray:
        hazard = w * np.logaddexp(0.0, m)
        log_p = np.where(hazard > 0.7, np.log1p(-np.exp(-hazard)), np.log(-np.expm1(-hazard)))
        return np.asarray((1.0 - y) * hazard - y * log_p)

    def gradient(y: FloatArray, m: FloatArray, w: FloatArray) -> FloatArray:
        hazard = w * np.logaddexp(0.0, m)
        return np.asarray((np.exp(-hazard) - (1.0 - y)) / np.expm1(-hazard) * w * sigmoid(m))  # (1 - y / p) w sigmoid

    plain = logistic(domain=ZERO_TO_ONE)
    return replace(plain, link=lambda m: np.logaddexp(0.0, m), weighted_value=value, weighted_gradient=gradient)


def hinge() -> Objective:
    """max(0, 1 - y m) with labels 0, 1 read as -1, 1."""
    beyond = float(np.finfo(np.float32).tiny)  # XGBoost's hessian of rows beyond the margin: no leaf divides by 0
    signed = Binary(
        lambda y, m: np.maximum(0.0, 1.0 - y * m),
        lambda y, m: np.where(y * m < 1.0, -y, 0.0),
        lambda y, m: np.where(y * m < 1.0, 1.0, beyond),
        link=lambda m: (m > 0).astype(np.float64),
        least=np.zeros_like,
        steepest=1.0,
    )
    return signed.of_target(lambda y: 2.0 * y - 1.0)


def exponential() -> Objective:
    """AdaBoost's loss, e^-m for class 1 and e^m for class 0 (scikit-learn's GradientBoostingClassifier)."""

    def value(y: FloatArray, m: FloatArray) -> FloatArray:
        return y * np.exp(-m) + (1.0 - y) * np.exp(m)

    return Binary(
        value,
        lambda y, m: -y * np.exp(-m) + (1.0 - y) * np.exp(m),
        value,
        link=lambda m: sigmoid(2.0 * m),
        unit="half of the log-odds",
        least=np.zeros_like,
    )


def focal(alpha: float, gamma: float) -> Objective:
    """CatBoost's Focal loss: -a_t (1 - p_t)^gamma log p_t, p clamped to 1e-13 from 0 and 1 (|m| <= FAR)."""

    def parts(y: FloatArray, m: FloatArray) -> tuple[FloatArray, ...]:
        sign = 2.0 * y - 1.0
        x = np.clip(sign * m, -FAR, FAR)
        return sign * np.where(y == 1, alpha, 1.0 - alpha), sigmoid(x), sigmoid(-x), np.log1p(np.exp(-x))

    value, gradient = through(
        parts,
        lambda a, p, q, minus_log_p: np.abs(a) * q**gamma * minus_log_p,
        lambda a, p, q, minus_log_p: -a * q**gamma * (gamma * p * minus_log_p + q),
    )
    return Binary(value, gradient, link=sigmoid, unit="log-odds", least=np.zeros_like)
