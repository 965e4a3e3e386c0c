"""What the scores of trees are to be held against: two classical tests that know nothing of trees.

The signal of the study is linear and additive, so simple tests are strong here; a reader should see how strong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["f_test", "linear_t"]

FloatArray = NDArray[np.float64]


def f_test(X: Any, y: Any) -> FloatArray:
    """F statistic of each feature alone: (features,).

    For 0/1 labels this is the analysis of variance of the feature between the two classes, for numbers the test of its
    regression: both are (n - 2) r^2 / (1 - r^2), r being the correlation.
    """
    X, y = np.asarray(X, np.float64), np.asarray(y, np.float64)
    X, y = X - X.mean(axis=0), y - y.mean()
    size = (X * X).sum(axis=0) * (y @ y)
    r2 = np.divide((y @ X) ** 2, size, out=np.zeros(X.shape[1]), where=size > 0)
    return np.asarray((len(y) - 2) * r2 / (1.0 - r2))


def linear_t(X: Any, y: Any) -> FloatArray:
    """Absolute t statistic of each feature in the linear regression on all of them, with an intercept: (features,)."""
    X, y = np.asarray(X, np.float64), np.asarray(y, np.float64)
    X, y = X - X.mean(axis=0), y - y.mean()
    inverse = np.linalg.pinv(X.T @ X)
    slope = inverse @ (X.T @ y)
    residual = y - X @ slope
    variance = (residual @ residual) / (len(y) - X.shape[1] - 1)
    error = np.sqrt(variance * np.diag(inverse))
    return np.asarray(np.abs(np.divide(slope, error, out=np.zeros_like(slope), where=error > 0)))
