"""One column at a time: whatever it holds -> numbers that the kernels take, or category codes; labels of rows."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, Note, listing
from treeinner.losses.labels import is_missing
from treeinner.rows.schema import Level, Schema, Unseen

__all__ = ["is_missing", "labels", "level_codes", "level_codes_of_numbers", "listing", "mark_missing", "numbers"]

Float = NDArray[np.float64]

OTHER_CODE = -1.0  # a code in no category set
AS_IN_TRAINING = "prepare the column as it was prepared for training."


# -- numbers -------------------------------------------------------------------------------------------------
def numbers(values: NDArray[Any], where: str) -> NDArray[Any]:
    """Numbers in a type that the kernels read: the same memory if possible, else converted once."""
    if values.dtype.kind in "fiub":
        size = values.dtype.itemsize
        wanted = values.dtype.newbyteorder("=") if size <= 8 else np.dtype(np.float64)
        with np.errstate(over="ignore"):  # a longdouble beyond float64 is infinite, and checked as such
            return values.astype(np.float32 if wanted == np.float16 else wanted, copy=False)
    items = values.tolist()
    try:
        if values.dtype.kind not in "OTUS" or any(isinstance(item, str | bytes) for item in items):
            raise TypeError  # numpy would read "1.5" as a number, and a date as one of days
        return np.array([np.nan if is_missing(item) else item for item in items], np.float64)
    except (TypeError, ValueError):
        bad = next((item for item in items if not isinstance(item, Real) and not is_missing(item)), items[0])
        shown = f"{repr(bad)[:60]} (a {type(bad).__name__})"
        raise DataError(f"{where} holds {shown}, but the model needs numbers there; {AS_IN_TRAINING}") from None


def mark_missing(values: NDArray[Any], missing: float) -> NDArray[Any]:
    """NaN where a value equals `missing`; the same array if none does."""
    if np.isnan(missing) or not values.size:
        return values
    with np.errstate(over="ignore"):
        # XGBoost, the one library with such a number, holds data and number in float32 when it compares them.
        hit = values.astype(np.float32, copy=False) == np.float32(missing)
    if not hit.any():
        return values
    marked = values.astype(np.float32 if np.can_cast(values.dtype, np.float32) else np.float64)
    marked[hit] = np.nan
    return marked


# -- categories ----------------------------------------------------------------------------------------------
def level_codes(
    keys: NDArray[Any], entries: Sequence[Any], levels: Sequence[Level], unseen: Unseen, where: str, notes: list[Note]
) -> Float:
    """Code of each row whose value is entries[key]: its position among the levels that the model knows.

    Key -1 is missing. There is one look-up per entry. where: the column, as messages call it; what is noticed is added
    to `notes`.
    """
    position = {level: float(i) for i, level in enumerate(levels)}
    codes = np.array([*(position.get(entry, np.nan) for entry in entries), np.nan])  # the last: what key -1 finds
    unknown = np.array([*(entry not in position and not is_missing(entry) for entry in entries), False])
    if unknown.any():
        used = np.bincount(keys[keys >= 0], minlength=len(unknown)) > 0
        new = [entries[i] for i in np.flatnonzero(unknown & used).tolist()]
        if new and unseen == "error":
            held = f"{where} holds categories not seen in training: {listing(new)}; the model knows {listing(levels)}"
            raise DataError(f"{held}. Replace them, or set them to missing.")
        if new and np.isnan(codes[used]).all():
            text = f"{where} holds {listing(new, 1)}, but the model knows {listing(levels, 1)}"
            notes.append(Note("unknown_categories", f"{text[:90]}: none is known. Convert them as in training."))
        codes[unknown] = OTHER_CODE if unseen == "other" else np.nan
    return np.asarray(codes[keys])


def level_codes_of_numbers(
    values: NDArray[Any], levels: Sequence[Level], schema: Schema, where: str, notes: list[Note]
) -> Float:
    """Code of each number among the levels; NaN is missing."""
    entries, keys = np.unique(numbers(values, where).astype(np.float64), return_inverse=True)
    are_codes = not schema.levels_for_arrays or all(isinstance(level, str) for level in levels)
    if are_codes and not np.isnan(entries).all():
        raise DataError(f"{where} holds {values.dtype} numbers, expected categories: {listing(levels, 3)}; convert it.")
    return level_codes(keys, entries.tolist(), levels, schema.unseen, where, notes)


# -- labels of rows ------------------------------------------------------------------------------------------
def labels(given: Any, n_rows: int, name: str) -> NDArray[Any] | None:
    """One label per row, checked: (rows,) of one type, numbers or text; None if none are given."""
    if given is None:
        return None
    array = np.asarray(given).reshape(-1)
    if len(array) != n_rows:
        raise DataError(f"{name} has {len(array)} labels, but X has {n_rows} rows; pass one label per row.")
    # The same labels come as integers, floats or objects, depending on what else is in their batch.
    with np.errstate(invalid="ignore"):
        if array.dtype.kind in "iub" or (array.dtype.kind == "f" and np.array_equal(array, array.astype(np.int64))):
            return array.astype(np.int64)
    if array.dtype.kind == "U":
        return array
    items = [str(one) for one in array] if array.dtype.kind in "mM" else array.tolist()  # "NaT"
    distinct = list(dict.fromkeys(items))
    if gaps := [one for one in distinct if one == "NaT" or is_missing(one)]:
        raise DataError(f"{name} has no label in row {items.index(gaps[0])}; give every row one.")
    kinds = ((Integral, np.int64), (Real, np.float64), (object, np.str_))
    dtype = next(dtype for kind, dtype in kinds if all(isinstance(one, kind) for one in distinct))
    if dtype is np.str_ and len(set(map(type, distinct))) > 1:
        raise DataError(f"{name} holds labels of several types; use one, for 1 is not '1'.")
    return np.array(items, dtype)
