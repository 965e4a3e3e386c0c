"""What a plot takes out of an Attribution: one output, one feature, one column of the user's data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from treeinner.attribution import Attribution
from treeinner.scores.result import METHOD_TITLES
from treeinner.tables.columns import is_missing
from treeinner.tables.frames import places_of

FloatArray = NDArray[np.float64]

# What each kind of result is in words, and which plots draw it.
KINDS = {
    "Importance": ("an Importance (from ti.importance)", "bar, rounds or curve"),
    "Comparison": ("a Comparison (from ti.compare)", "gap"),
    "Attribution": ("an Attribution (from ti.attribute)", "beeswarm, waterfall or dependence"),
}


def check_kind(given: Any, kind: type, plot: str) -> None:
    """Raise a TypeError that says what the plot draws, and which plot draws what was given."""
    if not isinstance(given, kind):
        name = type(given).__name__
        got, plots = KINDS.get(name, (f"an object of type {name}", ""))
        advice = f"; to draw that, use {plots} of ti.plots" if plots else ""
        raise TypeError(f"ti.plots.{plot} expected {KINDS[kind.__name__][0]}, got {got}{advice}.")


@dataclass(frozen=True, eq=False)
class Column:
    """Values of a feature: numbers, or positions in a list of categories; NaN where missing."""

    numbers: FloatArray
    categories: tuple[str, ...] | None = None


def one_output(attribution: Attribution, output: int | str | None, plot: str) -> tuple[FloatArray, FloatArray, str]:
    """Values (rows, features) and base values (rows,) of one output, and its name ("" if there is one only)."""
    check_kind(attribution, Attribution, plot)
    if attribution.values.ndim == 2:
        if output not in (None, 0):
            raise ValueError(f"output={output!r}: the model has one output; leave it out.")
        return attribution.values, attribution.base_values, ""
    names = attribution.output_labels
    if output is None or (isinstance(output, str) and output not in names):
        came = "The model has several outputs" if output is None else f"{output!r} is not an output"
        raise ValueError(f"{came}; pass output= with one of {', '.join(map(repr, names))}, or its position.")
    k = names.index(output) if isinstance(output, str) else _in_range(output, len(names), "output")
    return attribution.values[:, :, k], attribution.base_values[:, k], names[k]


def attribution_label(attribution: Attribution, output_name: str) -> str:
    """Label of an axis of attributions, with the unit."""
    what = f"output {output_name}: " if output_name else ""
    return f"{what}{METHOD_TITLES[attribution.method]} attribution ({attribution.unit})"


def position_of(feature: str | int, names: Sequence[str]) -> int:
    """Position of a feature given by name or position."""
    if isinstance(feature, str):
        if feature not in names:
            raise ValueError(f"{feature!r} is not a feature; there are {', '.join(map(repr, names[:5]))}, ...")
        return list(names).index(feature)
    return _in_range(feature, len(names), "feature")


def _in_range(position: int, n: int, what: str) -> int:
    if not -n <= position < n:
        raise ValueError(f"{what} {position} does not exist; there are {n}, counted from 0.")
    return range(n)[position]


def spread_rows(n_rows: int, max_rows: int) -> NDArray[np.intp]:
    """At most `max_rows` rows, evenly spread over all, so that a plot is the same each time."""
    if n_rows <= max_rows:
        return np.arange(n_rows)
    return np.linspace(0, n_rows - 1, max_rows).astype(np.intp)


def column(attribution: Attribution, k: int, rows: NDArray[np.intp]) -> Column | None:
    """Values of a feature in these rows; None if the attribution holds no data (grouped features)."""
    data = attribution.data
    if data is None:
        return None
    if hasattr(data, "tocsc"):  # scipy sparse
        return Column(np.asarray(data.tocsc()[:, [k]].toarray(), np.float64).ravel()[rows])
    frame = nw.from_native(data, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        values = np.asarray(data)
        return _from_values(values[:, k][rows]) if values.ndim == 2 else None
    series = frame[:, places_of(frame.columns, attribution.feature_names)[k]]
    values = np.asarray(series.to_numpy())[rows]
    labelled = isinstance(series.dtype, (nw.Categorical, nw.Enum, nw.String))
    return _from_labels(values) if labelled else _from_values(values)


def _from_values(values: NDArray[Any]) -> Column:
    if values.dtype.kind == "U":  # a loaded Attribution holds mixed data as text
        values = np.where(values == "None", "nan", values)
    elif values.dtype.kind not in "biuf" and any(isinstance(v, str) for v in values):
        return _from_labels(values)  # "1" in a column of labels is a label
    try:
        return Column(values.astype(np.float64))
    except (TypeError, ValueError):
        return _from_labels(values)


def _from_labels(values: NDArray[Any]) -> Column:
    labels = [None if is_missing(v) or str(v) in {"<NA>", "NaT", "nan"} else str(v) for v in values]
    categories = sorted({label for label in labels if label is not None}, key=_by_number)
    position: dict[str | None, float] = {label: float(i) for i, label in enumerate(categories)}
    return Column(np.array([position.get(label, np.nan) for label in labels]), tuple(categories))


def _by_number(label: str) -> tuple[float, str]:
    try:
        return float(label), label
    except ValueError:
        return np.inf, label
