"""One column at a time: whatever it holds -> numbers that the kernels take, or category codes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError

Unseen = Literal["missing", "other", "error"]
FloatArray = NDArray[np.float64]

# What the kernels read in place, in the byte order of the machine.
_KERNEL_TYPES = "float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool"
KERNEL_DTYPES: tuple[np.dtype[Any], ...] = tuple(map(np.dtype, _KERNEL_TYPES.split()))
OTHER_CODE = -1.0  # a code in no category set
UNREADABLE = {
    "M": ("dates", "convert it to a number as it was done for training"),
    "m": ("time spans", "convert it to a number as it was done for training"),
    "c": ("complex numbers", "pass a 2-D array of numbers or a data frame"),
}
AS_IN_TRAINING = "prepare the column as it was prepared for training."
NUMBER_TYPES = (int, float, Decimal, Fraction, np.integer, np.floating, np.bool_)
MISSING_TYPES = ("NoneType", "NAType", "NaTType")  # by name: pandas is not imported here


def listing(items: Sequence[Any], limit: int = 10) -> str:
    """Show the first few items, for an error message."""
    shown = ", ".join(repr(item) for item in items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


def difference(names: Sequence[str], wanted: Sequence[str]) -> str:
    """How columns differ from those wanted: "lacks 'a' and has 'b' besides"; "" if at most their order does."""
    present, known = set(names), set(wanted)
    missing, extra = [name for name in wanted if name not in present], [name for name in names if name not in known]
    parts = [f"lacks {listing(missing)}"] if missing else []
    parts += [f"has {listing(extra)} besides"] if extra else []
    return " and ".join(parts)


def kernel_dtype(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Type in which the kernels read numbers of `dtype`; None if it holds no numbers."""
    if dtype.kind not in "fiub":
        return None
    native = dtype.newbyteorder("=")
    if native in KERNEL_DTYPES:
        return native
    return np.dtype(np.float32 if dtype.itemsize == 2 else np.float64)  # float16; longdouble


def numbers(values: NDArray[Any], where: str) -> NDArray[Any]:
    """Column in a dtype of the kernels: the same memory if possible, else converted once."""
    wanted = kernel_dtype(values.dtype)
    if wanted is not None:
        with np.errstate(over="ignore"):  # a longdouble beyond float64 is infinite, and checked as such
            return values.astype(wanted, copy=False)
    if values.dtype.kind in "OT":
        return _numbers_from_objects(values, where)
    if values.dtype.kind in "US":
        raise _not_numbers(values.tolist(), where)
    kind, advice = UNREADABLE.get(values.dtype.kind, ("values", "pass a 2-D array of numbers or a data frame"))
    raise DataError(f"{where} holds {kind} ({values.dtype}), but the model needs numbers; {advice}.")


def _numbers_from_objects(values: NDArray[Any], where: str) -> FloatArray:
    items = values.tolist()
    kinds = set(map(type, items))
    bad = tuple(kind for kind in kinds if kind.__name__ not in MISSING_TYPES and not issubclass(kind, NUMBER_TYPES))
    if bad:
        raise _not_numbers([item for item in items if type(item) in bad], where)
    if any(kind.__name__ in MISSING_TYPES for kind in kinds):
        items = [np.nan if type(item).__name__ in MISSING_TYPES else item for item in items]
    return np.asarray(items, dtype=np.float64)


def _reads_as_number(item: Any) -> bool:
    try:
        return isinstance(item, str) and not math.isnan(float(item))
    except ValueError:
        return False


def _not_numbers(items: Sequence[Any], where: str) -> DataError:
    # In a column of text, what could be a number is not what made it one.
    item = next((item for item in items if not _reads_as_number(item)), items[0])
    item = item.item() if isinstance(item, np.generic) else item
    kind = "the string " if isinstance(item, (str, bytes)) else f"a {type(item).__name__}, "
    shown = repr(item) if len(repr(item)) <= 60 else repr(item)[:60] + "..."
    return DataError(f"{where} holds {kind}{shown}, but the model needs numbers there; {AS_IN_TRAINING}")


def unmasked(values: Any, name: str) -> Any:
    """`values`, which must hold a value in every row; numpy itself drops the mask of a masked array in silence."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    hidden = np.argwhere(np.ma.getmaskarray(values))
    if len(hidden):
        raise DataError(f"{name} is masked in {len(hidden)} places, first in row {hidden[0][0]}; drop those rows.")
    return np.ma.getdata(values)


# -- missing values ------------------------------------------------------------------------------------------
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
def codes_by_dictionary(
    keys: NDArray[Any], entries: Sequence[Any], levels: Sequence[Any], unseen: Unseen, where: str
) -> FloatArray:
    """Code of each row whose value is entries[key]; key -1 is missing. One look-up per entry."""
    position = {level: float(i) for i, level in enumerate(levels)}
    table = np.array([*(position.get(entry, np.nan) for entry in entries), np.nan])  # the last is what key -1 finds
    unknown = np.array([*(entry not in position and not is_missing(entry) for entry in entries), False])
    if unknown.any():
        used = np.bincount(keys[keys >= 0], minlength=len(unknown)) > 0
        new = [entries[i] for i in np.flatnonzero(unknown & used).tolist()]
        if new and unseen == "error":
            raise DataError(
                f"{where} holds categories that the model has not seen in training: {listing(new)}; "
                f"it knows {listing(levels)}. Replace them, or set them to missing."
            )
        table[unknown] = OTHER_CODE if unseen == "other" else np.nan
    return np.asarray(table[keys])


def codes_by_number(values: NDArray[Any], levels: Sequence[Any], unseen: Unseen, where: str) -> FloatArray:
    """Code of each number among `levels`; NaN is missing."""
    entries, keys = np.unique(values.astype(np.float64, copy=False), return_inverse=True)
    return codes_by_dictionary(keys, entries.tolist(), levels, unseen, where)


def codes_by_object(values: NDArray[Any], levels: Sequence[Any], unseen: Unseen, where: str) -> FloatArray:
    """Code of each Python object among `levels`; None and NaN are missing."""
    items = values.tolist()
    entries = list(dict.fromkeys(items))
    key = {entry: -1 if is_missing(entry) else i for i, entry in enumerate(entries)}
    keys = np.fromiter(map(key.__getitem__, items), np.int64, len(items))
    return codes_by_dictionary(keys, entries, levels, unseen, where)


def is_missing(item: Any) -> bool:
    """Whether an object is None, NaN, NaT or pandas.NA."""
    try:
        return type(item).__name__ in MISSING_TYPES or bool(item != item)  # noqa: PLR0124  # NaN differs from itself
    except (TypeError, ValueError):  # neither true nor false
        return False
