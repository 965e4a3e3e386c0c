"""y, weights, clusters and the like: checked against the rows of X, one clear error each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError
from treeinner.objectives import encode_target
from treeinner.scores.setting import Setting

__all__ = ["NO_WEIGHT", "Inputs", "check_confidence", "read_inputs"]

FloatArray = NDArray[np.float64]
NO_WEIGHT = "sample_weight is zero in every row; at least one row must count."


@dataclass(frozen=True, eq=False)
class Inputs:
    """What comes with the rows of X."""

    y: NDArray[Any] | None
    weight: FloatArray | None
    clusters: NDArray[Any] | None
    group: NDArray[Any] | None
    base: FloatArray  # (rows, outputs)

    def require_weight(self) -> None:
        """Raise if no row counts. Of a batch among others none needs to."""
        if self.weight is not None and not np.any(self.weight > 0):
            raise DataError(NO_WEIGHT)


def check_confidence(confidence: float) -> None:
    """Raise before the work is done, not after."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence={confidence} is not a coverage; pass a number between 0 and 1, such as 0.95.")


def read_inputs(
    setting: Setting,
    n_rows: int,
    y: Any,
    sample_weight: Any,
    clusters: Any,
    base_margin: Any,
    group: Any,
) -> Inputs:
    """Check and convert what the user gave with X."""
    e = setting.ensemble
    encoded = None
    if setting.objective is not None:
        if y is None:
            raise DataError(f"score={setting.score!r} needs the target: pass y, one value per row of X.")
        encoded = np.asarray(encode_target(e, y, objective=setting.objective, n_rows=n_rows))
    return Inputs(
        y=encoded,
        weight=None if sample_weight is None else _weights(sample_weight, n_rows),
        clusters=None if clusters is None else _labels(clusters, n_rows, "clusters"),
        group=None if group is None else _labels(group, n_rows, "group"),
        base=np.asarray(e.base_values(n_rows, base_margin)),
    )


def _weights(weight: Any, n_rows: int) -> FloatArray:
    try:
        w = np.asarray(weight, np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise DataError(f"sample_weight is not an array of numbers ({error}); pass one weight per row.") from error
    if len(w) != n_rows:
        raise DataError(f"sample_weight has {len(w)} values, but X has {n_rows} rows; pass one weight per row.")
    if not np.all(np.isfinite(w)) or np.any(w < 0):
        bad = int(np.flatnonzero(~(np.isfinite(w) & (w >= 0)))[0])
        raise DataError(f"sample_weight holds {w[bad]:g} in row {bad}; weights must be finite and not negative.")
    return w


def _labels(labels: Any, n_rows: int, name: str) -> NDArray[Any]:
    array = np.asarray(labels).reshape(-1)
    if len(array) != n_rows:
        raise DataError(f"{name} has {len(array)} labels, but X has {n_rows} rows; pass one label per row.")
    missing = [i for i, label in enumerate(array.tolist()) if _is_missing(label)]
    if missing:
        raise DataError(f"{name} has no label in row {missing[0]} ({len(missing)} such rows); give every row one.")
    if array.dtype.kind in "mM":
        return array.astype(np.str_)
    if array.dtype != object:
        return array
    # Nullable whole numbers come as objects in one batch and as numbers in another: they are the same labels.
    whole = all(isinstance(label, int) for label in array.tolist())
    return array.astype(np.int64 if whole else np.str_)


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)  # noqa: PLR0124  # NaN and NaT differ from themselves
    except TypeError:  # pandas.NA refuses to be true or false
        return True
