"""Segments: what `by=` says of the rows -> the segment of every row. Labels are text, so that batches agree on them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Number
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, listing
from treeinner.losses.labels import is_missing
from treeinner.rows.frames import as_frame, collected, names_of, values_of

__all__ = ["check_number_of_segments", "in_order", "segments_of"]

MOST_SEGMENTS = 1_000
MISSING = "(missing)"  # rows without a label are a segment of their own, so that segments add up to all rows
# A number at the beginning of a label: "12", "(0.5, 1.0]", "2024-03".
NUMBER = re.compile(r"[(\[]?(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


def segments_of(given: Any, n_rows: int, freq: str | None = None) -> tuple[NDArray[np.int16], tuple[str, ...]]:
    """Segment of every row, (rows,), and the labels of the segments, in order.

    given: labels of the rows, or a data frame of them; freq: of the periods that dates become.
    """
    names = names_of(given)
    columns = {"by": given} if names is None else dict(zip(names, collected(given).iter_columns(), strict=True))
    keys, labels = np.zeros(n_rows, np.int64), np.array([""])
    encoded = {name: _encoded(column, name, n_rows) for name, column in columns.items()}
    periods = {name: _periods(entries, freq) if freq else None for name, (_, entries) in encoded.items()}
    if freq is not None and not any(periods.values()):
        held = ", ".join(f"{name} holds {listing([*map(_label, known)], 2)}" for name, (_, known) in encoded.items())
        raise DataError(f"freq={freq!r} needs dates, but {held}; convert dates with pandas.to_datetime.")
    for name, (own, entries) in encoded.items():
        words = np.array(periods[name] or [*map(_label, entries)])
        used, keys = np.unique(keys * len(words) + own, return_inverse=True)
        pairs = zip(labels[used // len(words)], words[used % len(words)], strict=True)
        labels, again = np.unique([" / ".join(pair) for pair in pairs], return_inverse=True)
        keys = again[keys]
        check_number_of_segments(labels)
    found = [label.removeprefix(" / ") for label in labels.tolist()]
    ordered = in_order(found)
    return np.argsort([found.index(label) for label in ordered]).astype(np.int16)[keys], ordered  # sorted quickly


def in_order(labels: Sequence[str]) -> tuple[str, ...]:
    """Labels in order, column by column: by the number they begin with, else by the alphabet, missing ones last."""

    def place(label: str) -> tuple[bool, bool, float, str]:
        number = NUMBER.match(label)
        return label == MISSING, number is None, float(number[1]) if number else 0.0, label

    return tuple(sorted(labels, key=lambda label: [place(part) for part in label.split(" / ")]))


def check_number_of_segments(labels: Any) -> None:
    """Raise for more segments than anybody can read."""
    if len(labels) > MOST_SEGMENTS:
        held = f"by has {len(labels):,} different labels, at most {MOST_SEGMENTS:,} are possible"
        raise DataError(f"{held}; cut numbers into intervals (pandas.qcut), or dates into longer periods (freq='M').")


def _encoded(column: Any, name: str, n_rows: int) -> tuple[NDArray[Any], list[Any]]:
    """Key of every row and the entries that the keys stand for."""
    series = as_frame(column)
    if isinstance(series, nw.Series) and series.dtype in (nw.Datetime, nw.Date):
        local = series.dt.replace_time_zone(None) if getattr(series.dtype, "time_zone", None) else series
        values = local.to_numpy().astype("datetime64[us]")
    else:
        values = values_of(series) if isinstance(series, nw.Series) else np.asarray(column)
    if values.shape != (n_rows,):
        held = listing(values.reshape(-1).tolist(), 3) if values.shape else f"a {type(column).__name__}"
        raise DataError(f"{name} holds {held}; pass one label for each of the {n_rows} rows, or columns that X has.")
    if values.dtype.kind in "OUST":
        place: dict[Any, int] = {}
        numbers = [place.setdefault(item, len(place)) for item in values.tolist()]
        return np.array(numbers, np.int64), list(place)
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
    # "1010" may as well be a shop.
    if any(isinstance(each, Number) or (isinstance(each, str) and not re.match(r"\d{4}[-/]", each)) for each in known):
        return None
    try:
        index = pd.to_datetime(np.array(known), format="ISO8601").tz_localize(None)
    except (TypeError, ValueError):
        return None
    try:
        # "ME" is a date, "M" a month; pandas begins a period of several at every date, and moves weekends out of "B".
        last = re.sub(r"(?<=^[QY])S-(.+)", lambda first: f"-{MONTHS[MONTHS.index(first[1]) - 1]}", freq)
        unit = "?" if re.match(r"\d|B", freq) else re.sub(r"(?<=[MQY])[ES](?=-|$)", "", last)
        of = index.to_period(unit)
        codes, periods = (of if last == freq else of.asfreq("M", how="S")).factorize()  # by their first month
    except (TypeError, ValueError, AttributeError):
        raise ValueError(f"freq={freq!r} is no period such as 'D', 'W', 'M', 'Q' or 'Y'.") from None
    words = iter(np.asarray(periods.astype(str))[codes].tolist())
    return [MISSING if is_missing(entry) else next(words) for entry in entries]
