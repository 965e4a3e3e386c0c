"""Targets as the model saw them: class labels become codes, everything else becomes float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError
from treeinner.objectives.base import FloatArray, Objective, one_hot
from treeinner.tables.columns import is_missing, listing, unmasked

if TYPE_CHECKING:
    from treeinner.ensemble import Ensemble


def encode_target(
    ensemble: Ensemble, y: Any, *, objective: Objective | None = None, n_rows: int | None = None
) -> FloatArray:
    """Return y as the model's loss needs it.

    Parameters
    ----------
    ensemble
        The model. Its classes, if it knows them, are in `objective_params["classes"]` (or are its output
        names).
    y
        Anything `numpy.asarray` takes: lists, arrays, pandas and polars series, one-column frames; two
        columns for survival intervals; one column per output for several targets.
    objective
        The loss, if it is not the model's own.
    n_rows
        Rows of X, to be compared with.

    Returns
    -------
    (rows,) float64, or (rows, columns) for several targets. Class labels are positions in the model's
    classes.
    """
    if objective is None:
        from treeinner.objectives import for_ensemble

        objective = for_ensemble(ensemble)
    values = as_array(y, n_rows)
    classes = known_classes(ensemble, objective)
    border = ensemble.objective_params.get("target_border")
    if is_nested(ensemble.objective_params.get("classes")) and ensemble.averaged:
        encoded = _indicators(values, ensemble.objective_params["classes"])
    elif classes is not None and values.ndim == 1:
        encoded = positions(values, classes)
    elif border is not None and objective.target == "binary":  # CatBoost: above the border is class 1
        encoded = (_numbers(values, objective.name) > border).astype(np.float64)
    else:
        encoded = _numbers(values, objective.name)
    objective.check_columns(encoded, ensemble.n_outputs)
    if objective.target != "any":
        objective.check_target(encoded)
    return encoded


def known_classes(ensemble: Ensemble, objective: Objective) -> Sequence[Any] | None:
    """Return the class labels in the model's order; None where y is a number or they are not known."""
    classes = ensemble.objective_params.get("classes")
    if objective.target in ("class", "binary", "any") and classes is not None and len(classes) > 1:
        return None if is_nested(classes) else list(classes)
    return ensemble.output_names if objective.target == "class" else None


def as_array(y: Any, n_rows: int | None) -> NDArray[Any]:
    """Return y as numbers or labels, (rows,) or (rows, columns); `n_rows`: rows of X, to be compared with."""
    if y is None:
        raise DataError("y is missing; this score needs the target of every row.")
    values = np.asarray(unmasked(y, "y"))
    if values.dtype.kind not in "biufOUST":
        raise DataError(f"y has the type {values.dtype}; pass numbers or class labels.")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2):
        raise DataError(f"y has {values.ndim} dimensions; pass one value per row, or one column per target.")
    if n_rows is not None and len(values) != n_rows:
        raise DataError(f"y has {len(values)} rows, but X has {n_rows}; pass one target per row.")
    return values


def _numbers(values: NDArray[Any], name: str) -> FloatArray:
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        bad = next(v for v in values.ravel().tolist() if not _is_number(v))
        raise DataError(
            f"{name}: y holds {bad!r}, which is not a number, and the model stores no class labels; pass the "
            "numbers it was trained on."
        ) from None
    missing = np.isnan(numbers)
    if np.any(missing):
        raise DataError(
            f"y is missing (NaN) in {np.count_nonzero(missing)} places, first in row "
            f"{np.argwhere(missing)[0][0]}; drop those rows of X and y."
        )
    return numbers


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def positions(values: NDArray[Any], classes: Sequence[Any]) -> FloatArray:
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
    missing = [v for v in unique if is_missing(v)]
    if missing:
        raise DataError(f"y is missing in some rows (found {missing[0]!r}); drop those rows of X and y.")
    where = {key: k for k, c in reversed(list(enumerate(classes))) for key in keys_of(c)}
    found = [next((where[key] for key in keys_of(v) if key in where), -1) for v in unique]
    unknown = [v for v, k in zip(unique, found, strict=True) if k < 0]
    if unknown:
        raise DataError(
            f"y holds classes that are not in the model: {listing(unknown)}; it was trained on "
            f"{listing(list(classes))}; pass the labels of training."
        )
    return np.asarray(found, np.float64)[codes.reshape(len(values))] if len(values) else np.zeros(0)


def is_nested(classes: Any) -> bool:
    """Whether there is a list of classes per target (scikit-learn's forests of several targets)."""
    return isinstance(classes, Sequence) and any(isinstance(part, (list, tuple)) for part in classes)


def _indicators(values: NDArray[Any], classes: Sequence[Sequence[Any]]) -> FloatArray:
    """Return the indicators of each target's classes side by side: (rows, sum of the numbers of classes)."""
    if values.ndim != 2 or values.shape[1] != len(classes):
        raise DataError(f"y has shape {values.shape}, expected one column for each of {len(classes)} targets.")
    blocks = [one_hot(positions(values[:, t], labels), len(labels)) for t, labels in enumerate(classes)]
    return np.concatenate(blocks, axis=1)


def keys_of(label: Any) -> list[Any]:
    """Return what two spellings of one class share: 1, 1.0, True and the text "1" are the same class."""
    keys: list[Any] = [str(label)]
    if isinstance(label, bool) or _is_number(label):
        keys.append(float(label))
    return keys
