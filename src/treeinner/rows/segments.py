"""Segments: what `by=` says of the rows -> the segment of every row. Labels are text, so that batches agree on them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Number
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError
from treeinner.losses.labels import is_missing
from treeinner.rows.frames import as_frame, collected, names_of, values_of

__all__ = ["check_number_of_segments", "in_order", "segments_of"]

MOST_SEGMENTS = 1_000
MISSING = "(missing)"  # rows without a label are a segment of their own, so that segments add up to all rows
# A number at the beginning of a label: "12", "(0.5, 1.0]", "2024-03".
NUMBER = re.compile(r"[(\[]?(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")


def segments_of(given: Any, n_rows: int, freq: str | None = None) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Segment of every row, (rows,), and the labels of the segments, in order.

    given: labels of the rows, or a data frame of them; freq: of the periods that dates become.
    """
    columns: dict[str, Any] = {"by": given}
    if (names := names_of(given)) is not None:
        columns = dict(zip(names, collected(given).iter_columns(), strict=True))
    keys, labels, dated = np.zeros(n_rows, np.int64), np.array([""]), False
    for name, column in columns.items():
        own, entries = _encoded(column)
        if own.shape != (n_rows,):
            held = f"{name} has labels of shape {own.shape}, but X has {n_rows} rows"
            raise DataError(f"{held}; pass one label per row, or names of columns that X has.")
        periods = None if freq is None else _periods(entries, freq)
        dated |= periods is not None
        words = np.array(periods or [*map(_label, entries)])
        used, keys = np.unique(keys * len(words) + own, return_inverse=True)
        pairs = zip(labels[used // len(words)], words[used % len(words)], strict=True)
        labels, again = np.unique([" / ".join(filter(None, pair)) for pair in pairs], return_inverse=True)
        keys = again[keys]
        check_number_of_segments(labels)
    if freq is not None and not dated:
        held = f"{', '.join(columns)} holds {str(entries[0])!r}"
        raise DataError(f"freq={freq!r} needs dates, but {held}; convert it with pandas.to_datetime.")
    ordered = in_order(labels.tolist())
    return np.argsort([labels.tolist().index(label) for label in ordered])[keys], ordered


def in_order(labels: Sequence[str]) -> tuple[str, ...]:
    """Labels in order: those that begin with a number by that, others by the alphabet, missing ones last."""

    def place(label: str) -> tuple[bool, bool, float, str]:
        number = NUMBER.match(label)
        return label == MISSING, number is None, float(number[1]) if number else 0.0, label

    return tuple(sorted(labels, key=place))


def check_number_of_segments(labels: Any) -> None:
    """Raise for more segments than anybody can read."""
    if len(labels) > MOST_SEGMENTS:
        held = f"by has {len(labels):,} different labels, at most {MOST_SEGMENTS:,} are possible"
        raise DataError(f"{held}; cut numbers into intervals (pandas.qcut), or dates into periods (freq='M').")


def _encoded(column: Any) -> tuple[NDArray[Any], list[Any]]:
    """Key of every row and the entries that the keys stand for."""
    series = as_frame(column)
    if isinstance(series, nw.Series) and series.dtype in (nw.Datetime, nw.Date):
        local = series.dt.replace_time_zone(None) if getattr(series.dtype, "time_zone", None) else series
        values = local.to_numpy().astype("datetime64[us]")
    else:
        values = values_of(series) if isinstance(series, nw.Series) else np.asarray(column)
    if values.dtype.kind in "OUST" or values.ndim != 1:
        place: dict[Any, int] = {}
        numbers = [place.setdefault(item, len(place)) for item in values.reshape(-1).tolist()]
        return np.array(numbers, np.int64).reshape(values.shape), list(place)
    entries, keys = np.unique(values, return_inverse=True)
    return keys, list(entries)


def _label(entry: Any) -> str:
    """A label as text, the same whatever type it has in its batch."""
    if is_missing(entry):
        return MISSING
    if hasattr(entry, "isoformat") or isinstance(entry, np.datetime64):
        iso = str(entry) if isinstance(entry, np.datetime64) else entry.isoformat()
        return re.sub(r"\.0+$", "", iso).removesuffix("T00:00:00").replace("T", " ")
    whole = isinstance(entry, float | np.floating) and float(entry).is_integer()
    return str(int(entry) if whole else entry)


def _periods(entries: Sequence[Any], freq: str) -> list[str] | None:
    """Periods of dates, as text; None if these are no dates."""
    import pandas as pd  # here: an extra, and only periods need it

    known = [getattr(entry, "start_time", entry) for entry in entries if not is_missing(entry)]  # of a Period
    if any(isinstance(entry, Number) for entry in known):
        return None
    try:
        index = pd.to_datetime(np.array(known), format="ISO8601").tz_localize(None)
    except (TypeError, ValueError):
        return None
    try:
        # "ME" is a date, "M" a month; and pandas begins a period of several at every date.
        unit = "?" if freq[:1].isdigit() else re.sub(r"(?<=[MQY])[ES](?=-|$)", "", freq)
        codes, periods = index.to_period(unit).factorize()
    except (TypeError, ValueError, AttributeError):
        raise ValueError(f"freq={freq!r} is no period such as 'D', 'W', 'M', 'Q' or 'Y'.") from None
    words = iter(np.asarray(periods.astype(str))[codes].tolist())
    return [MISSING if is_missing(entry) else next(words) for entry in entries]
