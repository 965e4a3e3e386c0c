"""One column at a time: whatever it holds -> numbers that the kernels take, or category codes; labels of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, Note
from treeinner.rows.schema import Level, Unseen

__all__ = ["Levels", "is_missing", "labels", "listing", "mark_missing", "numbers", "unmasked"]

Float = NDArray[np.float64]

# What the kernels read in place, in the byte order of the machine.
KERNEL_TYPES = "float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool"
KERNEL_DTYPES: tuple[np.dtype[Any], ...] = tuple(map(np.dtype, KERNEL_TYPES.split()))
OTHER_CODE = -1.0  # a code in no category set
UNREADABLE = {"M": "dates", "m": "time spans", "c": "complex numbers", "V": "records"}
AS_IN_TRAINING = "prepare the column as it was prepared for training."
NUMBER_TYPES = (int, float, Decimal, Fraction, np.integer, np.floating, np.bool_)
MISSING_TYPES = ("NoneType", "NAType", "NaTType")  # by name: pandas is not imported here


def listing(items: Sequence[Any], limit: int = 10) -> str:
    """Show the first few items, for an error message."""
    shown = ", ".join(repr(item) for item in items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


# -- numbers -------------------------------------------------------------------------------------------------
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
    if values.dtype.kind in "OTUS":
        return _numbers_from_objects(values.tolist(), where)
    kind = UNREADABLE.get(values.dtype.kind, "values")
    raise DataError(f"{where} holds {kind} ({values.dtype}), but the model needs numbers there; {AS_IN_TRAINING}")


def _numbers_from_objects(items: list[Any], where: str) -> Float:
    kinds = set(map(type, items))
    bad = tuple(kind for kind in kinds if kind.__name__ not in MISSING_TYPES and not issubclass(kind, NUMBER_TYPES))
    if bad:
        wrong = [item for item in items if type(item) in bad]
        # In a column of text, what could be a number is not what made it one.
        item = next((item for item in wrong if not _reads_as_number(item)), wrong[0])
        kind = "the string" if isinstance(item, str | bytes) else f"a {type(item).__name__},"
        shown = repr(item) if len(repr(item)) <= 60 else repr(item)[:60] + "..."
        raise DataError(f"{where} holds {kind} {shown}, but the model needs numbers there; {AS_IN_TRAINING}")
    if any(kind.__name__ in MISSING_TYPES for kind in kinds):
        items = [np.nan if type(item).__name__ in MISSING_TYPES else item for item in items]
    return np.asarray(items, dtype=np.float64)


def _reads_as_number(item: Any) -> bool:
    try:
        return isinstance(item, str) and not math.isnan(float(item))
    except ValueError:
        return False


# -- missing values ------------------------------------------------------------------------------------------
def is_missing(item: Any) -> bool:
    """Whether an object is None, NaN, NaT or pandas.NA."""
    try:
        return type(item).__name__ in MISSING_TYPES or bool(item != item)  # noqa: PLR0124  # NaN differs from itself
    except (TypeError, ValueError):  # neither true nor false
        return False


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


def unmasked(values: Any, name: str) -> Any:
    """`values`, which must hold a value in every row; numpy itself drops the mask of a masked array in silence."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    hidden = np.argwhere(np.ma.getmaskarray(values))
    if len(hidden):
        raise DataError(f"{name} is masked in {len(hidden)} places, first in row {hidden[0][0]}; drop those rows.")
    return np.ma.getdata(values)


# -- categories ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Levels:
    """Categories that the model knows in one column; the code of a level is its position."""

    levels: tuple[Level, ...]
    unseen: Unseen
    where: str  # the column, as messages call it
    notes: list[Note] = field(default_factory=list)  # what was noticed is added here

    def of_dictionary(self, keys: NDArray[Any], entries: Sequence[Any]) -> Float:
        """Code of each row whose value is entries[key]; key -1 is missing. One look-up per entry."""
        position = {level: float(i) for i, level in enumerate(self.levels)}
        codes = np.array([*(position.get(entry, np.nan) for entry in entries), np.nan])  # the last: what key -1 finds
        unknown = np.array([*(entry not in position and not is_missing(entry) for entry in entries), False])
        if unknown.any():
            used = np.bincount(keys[keys >= 0], minlength=len(unknown)) > 0
            new = [entries[i] for i in np.flatnonzero(unknown & used).tolist()]
            if new and self.unseen == "error":
                raise DataError(
                    f"{self.where} holds categories that the model has not seen in training: {listing(new)}; "
                    f"it knows {listing(self.levels)}. Replace them, or set them to missing."
                )
            if new and np.isnan(codes[used]).all():
                self.notes.append(self._nothing_known(new))
            codes[unknown] = OTHER_CODE if self.unseen == "other" else np.nan
        return np.asarray(codes[keys])

    def _nothing_known(self, new: list[Any]) -> Note:
        text = (
            f"{self.where}: no category is known to the model ({listing(new, 2)}; it knows {listing(self.levels, 2)})"
        )
        return Note("unknown_categories", f"{text[:130]}; all count as unseen. Give them the type of training.")

    def of_numbers(self, values: NDArray[Any]) -> Float:
        """Code of each number among the levels; NaN is missing."""
        entries, keys = np.unique(numbers(values, self.where).astype(np.float64), return_inverse=True)
        if all(isinstance(level, str) for level in self.levels) and not np.isnan(entries).all():
            raise self.not_numbers(values.dtype)
        return self.of_dictionary(keys, entries.tolist())

    def not_numbers(self, kind: Any) -> DataError:
        """Return the error for numbers in place of categories."""
        return DataError(
            f"{self.where} holds {kind} numbers, but the model was trained on categories there, such as "
            f"{listing(self.levels, 3)}; convert it to a category column of those."
        )

    def of_objects(self, values: NDArray[Any]) -> Float:
        """Code of each Python object among the levels; None and NaN are missing."""
        items = values.tolist()
        entries = list(dict.fromkeys(items))
        key = {entry: -1 if is_missing(entry) else i for i, entry in enumerate(entries)}
        keys = np.fromiter(map(key.__getitem__, items), np.int64, len(items))
        return self.of_dictionary(keys, entries)


# -- labels of rows ------------------------------------------------------------------------------------------
def labels(given: Any, n_rows: int, name: str) -> NDArray[Any]:
    """One label per row, checked: (rows,) of one type, numbers or text."""
    array = np.asarray(unmasked(given, name)).reshape(-1)
    if len(array) != n_rows:
        raise DataError(f"{name} has {len(array)} labels, but X has {n_rows} rows; pass one label per row.")
    if array.dtype.kind in "iubU":
        return array
    distinct = array if array.dtype.kind in "fmM" else np.array(list(dict.fromkeys(array.tolist())), object)
    if np.isnan(distinct).any() if distinct is array else any(map(is_missing, distinct.tolist())):
        row = next(i for i, label in enumerate(array.tolist()) if is_missing(label))
        raise DataError(f"{name} has no label in row {row}; give every row one.")
    if array.dtype.kind != "O":
        return array if array.dtype.kind == "f" else array.astype(np.str_)
    # Nullable integers come as objects in one batch and as numbers in another: they are the same labels.
    kinds = {_label_kind(label) for label in distinct.tolist()}
    if len(kinds) > 1:
        raise DataError(f"{name} holds {' and '.join(sorted(kinds))}; use labels of one type, for 1 is not '1'.")
    if kinds == {"numbers"}:
        integers = all(isinstance(label, Integral) for label in distinct.tolist())
        return array.astype(np.int64 if integers else np.float64)
    return array.astype(np.bool_ if kinds == {"truth values"} else np.str_)


def _label_kind(label: Any) -> str:
    """What kind of label it is; labels of different kinds are never equal."""
    if isinstance(label, bool | np.bool_):
        return "truth values"
    return "text" if isinstance(label, str | bytes) else "numbers" if isinstance(label, Real) else "other objects"
