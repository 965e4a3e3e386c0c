"""Targets as the model saw them: class labels become codes, everything else becomes float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, listing
from treeinner.losses.loss import Float, Loss, one_hot

__all__ = ["as_array", "class_weights", "encode_target", "is_missing", "is_nested", "positions"]

MISSING_TYPES = ("NoneType", "NAType", "NaTType")  # by name: pandas is not imported here


def encode_target(
    y: Any, loss: Loss, *, classes: Any, n_outputs: int, n_rows: int | None = None, border: float | None = None
) -> Float:
    """Return y as the loss needs it.

    Parameters
    ----------
    y
        Anything `numpy.asarray` takes: lists, arrays, pandas and polars series, one-column frames; two
        columns for survival intervals; one column per output for several targets.
    classes
        Labels in the model's order; a list of them per target if there are several, of which a forest fits an
        indicator of each class; None: y is numbers.
    n_outputs
        Number of margins per row.
    n_rows
        Rows of X, to be compared with.
    border
        CatBoost: y above it is class 1.

    Returns
    -------
    (rows,) float64, or (rows, columns) for several targets. Class labels are positions in the model's
    classes.
    """
    values = as_array(y, n_rows)
    labelled = loss.target in ("class", "binary", "any") and classes is not None and len(classes) > 1
    if is_nested(classes):  # indicators of each target's classes, side by side
        if values.ndim != 2 or values.shape[1] != len(classes):
            raise DataError(f"y has shape {values.shape}, expected one column for each of {len(classes)} targets.")
        of_target = zip(values.T, classes, strict=True)
        encoded = np.concatenate([one_hot(positions(y, labels), len(labels)) for y, labels in of_target], axis=1)
    elif labelled and values.ndim == 1:
        encoded = positions(values, classes)
    elif border is not None and loss.target == "binary":  # CatBoost: above the border is class 1
        encoded = (_numbers(values, loss.name) > border).astype(np.float64)
    else:
        encoded = _numbers(values, loss.name)
    loss.check_target(encoded, n_outputs)
    return encoded


def class_weights(spec: Any, classes: Sequence[Any], y: Any) -> Float:
    """Weight of each row by its class, as `class_weight` of an estimator made weights of the training rows: (rows,).

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
    if is_nested(classes):
        specs = [spec] * len(classes) if isinstance(spec, str) else spec
        weights = [class_weights(*target) for target in zip(specs, classes, labels.T, strict=True)]
        return np.asarray(np.prod(weights, axis=0), np.float64)
    codes = positions(labels, classes).astype(np.intp)
    if isinstance(spec, Mapping):
        given = {key: float(weight) for label, weight in spec.items() for key in keys_of(label)}
        of_class = [next((given[key] for key in keys_of(label) if key in given), 1.0) for label in classes]
        return np.asarray(of_class, np.float64)[codes]
    counts = np.bincount(codes, minlength=len(classes))
    return len(codes) / (np.count_nonzero(counts) * counts[codes].astype(np.float64))


def as_array(y: Any, n_rows: int | None) -> NDArray[Any]:
    """Return y as numbers or labels, (rows,) or (rows, columns); `n_rows`: rows of X, to be compared with."""
    if isinstance(y, np.ma.MaskedArray) and np.ma.getmaskarray(y).any():  # numpy itself would drop the mask in silence
        row = np.argwhere(np.ma.getmaskarray(y))[0][0]
        raise DataError(f"y is masked, first in row {row}; drop those rows of X and y.")
    values = np.asarray(y)
    if values.dtype.kind not in "biufOUST":
        raise DataError(f"y has the type {values.dtype}; pass numbers or class labels.")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2):
        raise DataError(f"y has {values.ndim} dimensions; pass one value per row, or one column per target.")
    if n_rows is not None and len(values) != n_rows:
        raise DataError(f"y has {len(values)} rows, but X has {n_rows}; pass one target per row.")
    return values


def _numbers(values: NDArray[Any], name: str) -> Float:
    """Return y as float64, none missing."""
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}: y is not numeric ({error}); pass the numbers of training.") from None
    if np.any(missing := np.isnan(numbers)):
        row, n = np.argwhere(missing)[0][0], np.count_nonzero(missing)
        raise DataError(f"y is missing (NaN) in {n} places, first in row {row}; drop those rows of X and y.")
    return numbers


def is_missing(item: Any) -> bool:
    """Whether an object is None, NaN, NaT or pandas.NA."""
    try:
        return type(item).__name__ in MISSING_TYPES or bool(item != item)  # noqa: PLR0124  # NaN differs from itself
    except (TypeError, ValueError):  # neither true nor false
        return False


def positions(values: NDArray[Any], classes: Sequence[Any]) -> Float:
    """Position of each label among the classes."""
    if values.dtype.kind in "biuf":
        labels, codes = np.unique(values, return_inverse=True)
        unique = labels.tolist()
    else:
        table: dict[Any, int] = {}
        try:
            codes = np.array([table.setdefault(v, len(table)) for v in values.tolist()], np.intp)
        except TypeError as error:
            raise DataError(f"y holds what is not a class label ({error}); pass strings or numbers.") from None
        unique = list(table)
    if missing := [v for v in unique if is_missing(v)]:
        raise DataError(f"y is missing in some rows (found {missing[0]!r}); drop those rows of X and y.")
    where = {key: k for k, c in reversed(list(enumerate(classes))) for key in keys_of(c)}
    found = [next((where[key] for key in keys_of(v) if key in where), -1) for v in unique]
    if unknown := [v for v, k in zip(unique, found, strict=True) if k < 0]:
        raise DataError(f"y holds classes that are not in the model: {listing(unknown)}; it has {listing(classes)}.")
    return np.asarray(found, np.float64)[codes.reshape(len(values))] if len(values) else np.zeros(0)


def is_nested(classes: Any) -> bool:
    """Whether there is a list of classes per target (scikit-learn's forests of several targets)."""
    return isinstance(classes, Sequence) and any(isinstance(part, (list, tuple)) for part in classes)


def keys_of(label: Any) -> list[Any]:
    """Return what two spellings of one class share: 1, 1.0, True and the text "1" are the same class."""
    try:
        return [str(label), float(label)]
    except (TypeError, ValueError):
        return [str(label)]
