"""Losses of class labels and probabilities, without names as those of `regression`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.losses.loss import Domain, Float, Loss, integers_below, one_hot, sigmoid, through, x_log_x
from treeinner.losses.regression import SIGNED_BINARY, ZERO_OR_ONE, ZERO_TO_ONE

FAR = float(np.log(1e13 - 1.0))
Codes = NDArray[np.int64]
Binary = partial(Loss, name="", target="binary", domain=ZERO_OR_ONE)


def logistic(scale: float = 1.0, domain: Domain = ZERO_OR_ONE) -> Loss:
    """Cross-entropy of y against sigmoid(scale * m)."""

    def value(y: Float, m: Float) -> Float:
        x = scale * m  # log(1 + e^x) - y x as a sum of two numbers above 0: no digits lost where the loss is small
        return np.asarray(np.log1p(np.exp(-np.abs(x))) + np.abs(x) * np.where(x > 0.0, 1.0 - y, y))

    def curvature(y: Float, m: Float) -> Float:
        return scale * scale * sigmoid(scale * m) * sigmoid(-scale * m)

    return Binary(
        words="log loss",
        value=value,
        gradient=lambda y, m: scale * (sigmoid(scale * m) - y),
        curvature=curvature,
        link=lambda m: sigmoid(scale * m),
        domain=domain,
        least=lambda y: -x_log_x(y) - x_log_x(1.0 - y),
        steepest=scale,
        unit="log-odds" if scale == 1.0 else f"log-odds / {scale:g}",
        core=("logistic", scale, None),
    )


def lightgbm_binary(scale: float, weights: tuple[float, float]) -> Loss:
    """LightGBM's `binary`: a label above 0 is positive; `weights` are those of the negative and the positive class."""

    def zero_one(y: Float) -> Float:
        return (y > 0).astype(np.float64)

    plain = logistic(scale).of_target(zero_one, domain=SIGNED_BINARY, core=("logistic", scale, zero_one))
    return class_weighted(plain, weights, lambda y: np.where(y > 0, weights[1], weights[0]))


def class_weighted(loss: Loss, weights: Sequence[float], of_row: Callable[[Any], Float]) -> Loss:
    """Return the loss with a weight of its own for each row, by its label; weights of 1 change nothing."""
    if all(weight == 1.0 for weight in weights):
        return loss
    shown = ", ".join(f"{weight:g}" for weight in weights)
    return replace(loss, row_weight=of_row, words=f"{loss.words}, classes weighted {shown}")


def softmax(n_classes: int) -> Loss:
    """Multinomial cross-entropy."""

    def probability(m: Float) -> Float:
        e = np.exp(m - m.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    def value(y: Codes, m: Float) -> Float:
        rows = np.arange(len(m))
        ahead = m - m[rows, y][:, None]  # of the row's own class
        first = ahead.argmax(axis=1)
        top = ahead[rows, first]
        others = np.exp(ahead - top[:, None])
        others[rows, first] = 0.0  # not 1 in a sum: no digits lost where the loss is small
        return np.asarray(top + np.log1p(others.sum(axis=1)))

    def curvature(y: Codes, m: Float) -> Float:
        p = probability(m)
        return p[:, :, None] * (np.eye(m.shape[1]) - p[:, None, :])

    return Loss(
        name="",
        words="log loss",
        value=value,
        gradient=lambda y, m: probability(m) - one_hot(y, m.shape[1]),
        curvature=curvature,
        link=probability,
        domain=integers_below(n_classes),
        target="class",
        coupled=True,
        least=lambda y: np.zeros(len(y)),
        steepest=1.0,
        unit="unnormalised log-probability",  # not log-odds: only differences between classes mean something
        core=("softmax", 1.0, None),
    )


def one_vs_all(n_classes: int, scale: float = 1.0, positive: float = 1.0) -> Loss:
    """Return a logistic loss per class; `positive` weighs a row in its own class's column."""

    def weight(y: Codes) -> Float:
        return np.where(one_hot(y, n_classes) > 0, positive, 1.0)

    fields = {"target": "class", "domain": integers_below(n_classes), "words": "log loss, summed over the classes"}
    loss = logistic(scale).of_target(lambda y: one_hot(y, n_classes), **fields)
    return class_weighted(loss, [1.0, positive], weight)


def cross_entropy_lambda() -> Loss:
    """LightGBM's cross_entropy_lambda: p = 1 - exp(-w log(1 + e^m)), so a weight does not simply multiply."""
    plain = logistic(domain=ZERO_TO_ONE)
    return replace(plain, link=lambda m: np.logaddexp(0.0, m), multiplies_weights=False)


def hinge() -> Loss:
    """max(0, 1 - y m) with labels 0, 1 read as -1, 1."""
    signed = Binary(
        words="hinge loss",
        value=lambda y, m: np.maximum(0.0, 1.0 - y * m),
        gradient=lambda y, m: np.where(y * m < 1.0, -y, 0.0),
        curvature=0,
        link=lambda m: (m > 0).astype(np.float64),
        least=np.zeros_like,
        steepest=1.0,
    )
    return signed.of_target(lambda y: 2.0 * y - 1.0)


def exponential() -> Loss:
    """AdaBoost's loss, e^-m for class 1 and e^m for class 0 (scikit-learn's GradientBoostingClassifier)."""

    def value(y: Float, m: Float) -> Float:
        return y * np.exp(-m) + (1.0 - y) * np.exp(m)

    return Binary(
        words="exponential loss",
        value=value,
        gradient=lambda y, m: -y * np.exp(-m) + (1.0 - y) * np.exp(m),
        curvature=value,
        link=lambda m: sigmoid(2.0 * m),
        unit="half of the log-odds",
        least=np.zeros_like,
    )


def focal(alpha: float, gamma: float) -> Loss:
    """CatBoost's Focal loss: -a_t (1 - p_t)^gamma log p_t, p clamped to 1e-13 from 0 and 1 (|m| <= FAR)."""

    def parts(y: Float, m: Float) -> tuple[Float, ...]:
        sign = 2.0 * y - 1.0
        x = np.clip(sign * m, -FAR, FAR)
        return sign * np.where(y == 1, alpha, 1.0 - alpha), sigmoid(x), sigmoid(-x), np.log1p(np.exp(-x))

    value, gradient = through(
        parts,
        lambda a, p, q, minus_log_p: np.abs(a) * q**gamma * minus_log_p,
        lambda a, p, q, minus_log_p: -a * q**gamma * (gamma * p * minus_log_p + q),
    )
    fields = {"value": value, "gradient": gradient, "link": sigmoid, "least": np.zeros_like}
    return Binary(words=f"focal loss ({alpha:g}, {gamma:g})", unit="log-odds", **fields)
