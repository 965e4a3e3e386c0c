"""Data frames of any library that narwhals knows -> columns in the model's order; results -> data frames."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from treeinner.errors import DataError, MissingDependencyError, Note, closest, listing, readable
from treeinner.rows.columns import AS_IN_TRAINING, level_codes, level_codes_of_numbers, numbers
from treeinner.rows.schema import Schema

__all__ = [
    "as_frame", "frame_library_of", "make_frame", "names_of", "places_of", "read_columns", "row_labels_of", "to_array",
    "values_of",
]  # fmt: skip

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]
NO_FEATURE = (nw.Datetime, nw.Date, nw.Time, nw.Duration, nw.List, nw.Array, nw.Struct, nw.Binary)
WIDE = (nw.Decimal, nw.Int128, nw.UInt128)  # numbers that numpy has no type for
DUPLICATES = "X has duplicate column names: {}; rename or drop all but one of each."


def as_frame(X: Any) -> Frame | nw.Series[Any] | None:
    """X as narwhals sees it; None if it is neither a frame nor a series."""
    if type(X) is np.ndarray or isinstance(X, nw.DataFrame):  # narwhals takes longer to find out
        return X if isinstance(X, nw.DataFrame) else None
    if type(X).__name__ == "RecordBatch":  # which narwhals does not know, and numpy takes for an array without names
        X = sys.modules["pyarrow"].Table.from_batches([X])
    try:
        seen = nw.from_native(X, pass_through=True, allow_series=True)
    except DuplicateError as error:
        raise DataError(DUPLICATES.format(_repeated(list(map(str, X.columns))))) from error
    return seen if isinstance(seen, nw.DataFrame | nw.LazyFrame | nw.Series) else None


def collected(X: Any) -> nw.DataFrame[Any]:
    """Rows of a frame that may be lazy."""
    frame = as_frame(X)
    if isinstance(frame, nw.LazyFrame) and frame.implementation.is_polars():
        return frame.collect()
    if not isinstance(frame, nw.DataFrame):
        raise DataError(f"X is a {type(X).__name__}, expected a table; pass a data frame whose rows are in memory.")
    return frame


def frame_library_of(X: Any) -> str:
    """Name of the frame library that X comes from, such as "pandas"; "" if X is not a frame."""
    frame = as_frame(X)
    return "" if frame is None else str(frame.implementation.value)


def row_labels_of(X: Any) -> Any:
    """Index of a pandas frame; None for everything else."""
    frame = as_frame(X)
    return nw.maybe_get_index(frame) if isinstance(frame, nw.DataFrame) else None


def names_of(X: Any) -> tuple[str, ...] | None:
    """Column names of a data frame as text, each one once; None if X has none."""
    frame = as_frame(X)
    if frame is None or isinstance(frame, nw.Series):
        return None
    # As text: pandas takes any object for a name, and tuples in several levels, which XGBoost joins.
    raw = frame.columns if isinstance(frame, nw.DataFrame) else frame.collect_schema().names()
    names = tuple(" ".join(map(readable, name)) if isinstance(name, tuple) else readable(name) for name in raw)
    if len(set(names)) < len(names):
        raise DataError(DUPLICATES.format(_repeated(names)))
    return names


def _repeated(names: Sequence[str]) -> str:
    return listing(sorted({name for name in names if names.count(name) > 1}))


def places_of(names: Sequence[str], wanted: Sequence[str], where: str = "X") -> list[int]:
    """Positions of the columns that the model was trained on."""
    # LightGBM keeps "my column" as "my_column".
    place = {name.replace(" ", "_"): j for j, name in enumerate(names)} | {name: j for j, name in enumerate(names)}
    if missing := [name for name in wanted if name not in place]:
        close = closest(missing[0], names, cutoff=0.8)
        hint = f" (is {close!r} meant to be {missing[0]!r}?)" if close else ""
        raise DataError(f"{where} lacks {listing(missing)}{hint}, which the model was trained on; prepare it likewise.")
    return [place[name] for name in wanted]


# -- columns -------------------------------------------------------------------------------------------------
def read_columns(frame: Frame | nw.Series[Any], schema: Schema, notes: list[Note]) -> list[NDArray[Any]]:
    """Columns of the frame in the model's order; its own memory where possible. What is noticed goes to `notes`."""
    rows = collected(frame)
    names = names_of(rows) or ()
    places = range(len(names)) if schema.names is None else places_of(names, schema.names)
    schema.check_shape(rows.shape[0], len(places))
    columns = list(rows.iter_columns())
    return [_column(columns[place], j, schema, notes) for j, place in enumerate(places)]


def _column(series: nw.Series[Any], j: int, schema: Schema, notes: list[Note]) -> NDArray[Any]:
    where, kind = f"Column {series.name!r}", series.dtype
    labelled, of_numbers = isinstance(kind, nw.Categorical | nw.Enum), kind.is_numeric() or kind == nw.Boolean
    known = schema.levels_of(j)
    # Codes as pandas has them are all there is when the model does not store its training categories.
    own_codes = labelled and known is None and schema.is_categorical(j) and series.implementation.is_pandas()
    if isinstance(kind, NO_FEATURE) or (labelled and known is None and not own_codes):
        raise DataError(f"{where} holds {kind}, but the model was trained on something else there; {AS_IN_TRAINING}")
    # Of Arrow's null type, for one; and parts of a file without a value are often typed as strings.
    if not of_numbers and series.null_count() == len(series):
        return np.full(len(series), np.nan)
    if own_codes:
        keys, _ = dictionary(series)
        return np.where(keys < 0, np.nan, keys)
    if known is None:
        return numbers(values_of(series), where)
    if of_numbers:
        return level_codes_of_numbers(values_of(series), known, schema, where, notes)
    return level_codes(*dictionary(series), known, schema.unseen, where, notes)


def values_of(series: nw.Series[Any]) -> NDArray[Any]:
    """One value per row: numbers, with NaN for nulls, or objects where the column holds labels."""
    kind = series.dtype
    if isinstance(kind, WIDE) or (kind == nw.Boolean and series.null_count()):
        series = series.cast(nw.Float64)
    if kind.is_numeric() or kind == nw.Boolean:
        return series.to_numpy()
    return np.array(series.to_list(), dtype=object)


def dictionary(series: nw.Series[Any]) -> tuple[NDArray[Any], list[Any]]:
    """Row i holds entries[keys[i]]; -1 is null. Found by hashing in the frame's own library."""
    native = series.to_native()
    if series.implementation.is_polars():
        native = series.cast(nw.String).to_native()
        entries = native.drop_nulls().unique().to_list()
        return native.replace_strict(entries, range(len(entries)), default=-1).fill_null(-1).to_numpy(), entries
    if series.implementation.is_pyarrow():
        chunks = native.dictionary_encode().unify_dictionaries().chunks
        keys = [chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) for chunk in chunks]
        return np.concatenate(keys), chunks[0].dictionary.to_pylist()
    if hasattr(native, "cat"):
        return native.cat.codes.to_numpy().astype(np.int64, copy=False), native.cat.categories.tolist()
    keys, entries = native.factorize()
    return np.asarray(keys), entries.tolist()


# -- results -------------------------------------------------------------------------------------------------
def make_frame(columns: Mapping[str, Any], *, library: str = "", row_labels: Any = None) -> Any:
    """Data frame of `columns` in `library`, else in one that is installed; with pandas, indexed by `row_labels`."""
    candidates: tuple[Any, ...] = (library, "pandas", "polars", "pyarrow")
    for name in candidates:
        try:
            frame = nw.from_dict(dict(columns), backend=name).to_native()
        except (ImportError, ValueError):  # not installed; no library of frames in memory
            continue
        if row_labels is not None and hasattr(frame, "index"):
            frame.index = row_labels
        return frame
    raise MissingDependencyError("A data frame needs pandas, polars or pyarrow; install one: pip install pandas")


def to_array(data: Any, feature_names: Sequence[str]) -> NDArray[Any]:
    """Return the user's table as a 2-D array in the order of the features."""
    if hasattr(data, "toarray"):  # scipy sparse: only shown rows are asked for here
        return np.asarray(data.toarray())
    names = names_of(data)
    if names is not None:  # as the columns stand if they are others than the features
        rows = collected(data).to_numpy()
        known = {name.replace(" ", "_") for name in names} | set(names)
        return rows[:, places_of(names, feature_names)] if set(feature_names) <= known else rows
    return np.asarray(data)
