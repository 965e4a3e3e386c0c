"""class_weight, from which estimators make weights of the training rows: the same weights for other rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.objectives.base import FloatArray
from treeinner.objectives.labels import as_array, is_nested, keys_of, positions

__all__ = ["class_weights"]


def class_weights(spec: Any, classes: Sequence[Any], y: Any) -> FloatArray:
    """Weight of each row by its class: (rows,).

    Parameters
    ----------
    spec
        {label: weight}, where labels left out weigh 1; "balanced" or "balanced_subsample": each class of these rows
        weighs as much as any other, and a row 1 on average. Of several targets, whose weights are multiplied, one of
        these words or a list with an entry per target.
    classes
        The model's labels, in its order; a list of them per target if there are several.
    y
        Labels: (rows,) or (rows, targets).
    """
    labels = as_array(y, None)
    if not is_nested(classes):
        return _of_one_target(spec, classes, labels)
    specs = [spec] * len(classes) if isinstance(spec, str) else spec
    weights = [_of_one_target(*target) for target in zip(specs, classes, labels.T, strict=True)]
    return np.asarray(np.prod(weights, axis=0), np.float64)


def _of_one_target(spec: Any, classes: Sequence[Any], labels: NDArray[Any]) -> FloatArray:
    codes = positions(labels, classes).astype(np.intp)
    if isinstance(spec, Mapping):
        given = {key: float(weight) for label, weight in spec.items() for key in keys_of(label)}
        of_class = [next((given[key] for key in keys_of(label) if key in given), 1.0) for label in classes]
        return np.asarray(of_class, np.float64)[codes]
    counts = np.bincount(codes, minlength=len(classes))
    return len(codes) / (np.count_nonzero(counts) * counts[codes].astype(np.float64))
