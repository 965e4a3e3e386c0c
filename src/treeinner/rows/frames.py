"""Data frames of any library that narwhals knows -> columns in the model's order; results -> data frames."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from treeinner.errors import DataError, MissingDependencyError, Note, closest, readable
from treeinner.rows.columns import AS_IN_TRAINING, Levels, listing, numbers
from treeinner.rows.schema import Schema

__all__ = [
    "as_frame", "frame_library_of", "make_frame", "names_of", "places_of", "read_columns", "row_labels_of", "to_array",
    "values_of",
]  # fmt: skip

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]
NO_FEATURE = (nw.Datetime, nw.Date, nw.Time, nw.Duration, nw.List, nw.Array, nw.Struct, nw.Binary)
WIDE = (nw.Decimal, nw.Int128, nw.UInt128)  # numbers that numpy has no type for
LABELLED = (nw.Categorical, nw.Enum, nw.String)


def as_frame(X: Any) -> Frame | nw.Series[Any] | None:
    """X as narwhals sees it; None if it is neither a frame nor a series."""
    if type(X) is np.ndarray or isinstance(X, nw.DataFrame):  # narwhals takes longer to find out
        return X if isinstance(X, nw.DataFrame) else None
    if any(kind.__module__.split(".")[0] == "narwhals" for kind in type(X).__mro__):
        X = X.to_native()
    if any((kind.__module__, kind.__name__) == ("pyarrow.lib", "RecordBatch") for kind in type(X).__mro__):
        # numpy would take it for an array without names; narwhals does not know it
        X = sys.modules["pyarrow"].Table.from_batches([X])
    try:
        seen = nw.from_native(X, pass_through=True, allow_series=True)
    except DuplicateError as error:
        raise _duplicates(getattr(X, "column_names", getattr(X, "columns", []))) from error
    return seen if isinstance(seen, nw.DataFrame | nw.LazyFrame | nw.Series) else None


def collected(frame: Frame) -> nw.DataFrame[Any]:
    """Rows of a frame that may be lazy."""
    if not isinstance(frame, nw.LazyFrame):
        return frame
    if not frame.implementation.is_polars():
        raise DataError(f"X is a lazy {frame.implementation.value} frame; collect it into memory first.")
    return frame.collect()


def frame_library_of(X: Any) -> str:
    """Name of the frame library that X comes from, such as "pandas"; "" if X is not a frame."""
    frame = as_frame(X)
    return "" if frame is None else str(frame.implementation.value)


def row_labels_of(X: Any) -> Any:
    """Index of a pandas frame; None for everything else."""
    frame = as_frame(X)
    return nw.maybe_get_index(frame) if isinstance(frame, nw.DataFrame) else None


# -- names ---------------------------------------------------------------------------------------------------
def names_of(X: Any) -> tuple[str, ...] | None:
    """Column names of a data frame as text, each one once; None if X has none."""
    frame = as_frame(X)
    if frame is None or isinstance(frame, nw.Series):
        return None
    names = tuple(map(readable, _raw_names(frame)))
    if len(set(names)) < len(names):
        raise _duplicates(names)
    return names


def _raw_names(frame: Frame) -> Sequence[Any]:
    """Names as the frame has them: pandas takes any object for one."""
    return frame.columns if isinstance(frame, nw.DataFrame) else frame.collect_schema().names()


def _duplicates(names: Sequence[Any]) -> DataError:
    repeated = [name for name, times in Counter(str(name) for name in names).items() if times > 1]
    return DataError(f"X has duplicate column names: {listing(repeated)}; rename or drop all but one of each.")


def as_stored(names: Sequence[Any], schema: Schema) -> tuple[str, ...]:
    """Names as the model's library keeps them."""
    if schema.blank_is_underscore:
        return tuple(readable(name).replace(" ", "_") for name in names)
    known = frozenset(schema.names or ())
    return tuple(_as_known(name, j, known) for j, name in enumerate(names))


def _as_known(name: Any, j: int, known: frozenset[str]) -> str:
    """Name of column j; XGBoost joins the levels of a pandas MultiIndex, CatBoost numbers columns without a name."""
    own = readable(name)
    if own in known:
        return own
    other = " ".join(map(readable, name)) if isinstance(name, tuple) else own or str(j)
    return other if other in known else own


def lacking(missing: Sequence[str], wanted: Sequence[str], names: Sequence[str], where: str) -> DataError:
    """Return the error for columns that the model was trained on and that are not there."""
    close = closest(missing[0], names, cutoff=0.8)
    hint = f" (is {close!r} meant to be {missing[0]!r}?)" if close else ""
    return DataError(
        f"{where} lacks {len(missing)} of the {len(wanted)} columns that the model was trained on: "
        f"{listing(missing)}{hint}; prepare it as for training, with the same column names."
    )


# -- columns -------------------------------------------------------------------------------------------------
def read_columns(frame: Frame | nw.Series[Any], schema: Schema, notes: list[Note]) -> list[NDArray[Any]]:
    """Columns of the frame in the model's order; its own memory where possible. What is noticed goes to `notes`."""
    if isinstance(frame, nw.Series):
        raise DataError(f"X is a series of {len(frame)} values, expected a table; pass a data frame (X.to_frame()).")
    names_of(frame)  # each one once
    names = as_stored(_raw_names(frame), schema)
    if schema.names is not None:
        if missing := [name for name in schema.names if name not in set(names)]:
            raise lacking(missing, schema.names, names, "X")
        if extra := [name for name in names if name not in set(schema.names)]:
            raise DataError(
                f"X has columns that the model was not trained on: {listing(extra)}; select the training columns by "
                "name, in any order."
            )
    schema.check_shape(1, len(names))
    rows = collected(frame)
    schema.check_shape(rows.shape[0], len(names))
    given = dict(zip(names, rows.iter_columns(), strict=True))
    return [_column(given[name], j, schema, notes) for j, name in enumerate(schema.names or names)]


def _column(series: nw.Series[Any], j: int, schema: Schema, notes: list[Note]) -> NDArray[Any]:
    where, kind = f"Column {series.name!r}", series.dtype
    if isinstance(kind, NO_FEATURE):
        raise DataError(f"{where} holds {kind}, but the model needs numbers or categories; {AS_IN_TRAINING}")
    if schema.is_categorical(j):
        return _codes(series, j, where, schema, notes)
    if isinstance(kind, nw.Categorical | nw.Enum):
        raise DataError(f"{where} holds categories, but the model was trained on numbers there; {AS_IN_TRAINING}")
    if isinstance(kind, nw.String | nw.Unknown) and series.null_count() == len(series):
        # Arrow's null type; and parts of a file without a value are often typed as strings.
        return np.full(len(series), np.nan)
    if isinstance(kind, nw.String):
        return numbers(np.array(series.drop_nulls().to_list(), dtype=object), where)  # raises
    return numbers(to_numpy(series), where)


def to_numpy(series: nw.Series[Any]) -> NDArray[Any]:
    """Nulls of integers and booleans become NaN in float64."""
    if isinstance(series.dtype, WIDE) or (isinstance(series.dtype, nw.Boolean) and series.null_count() > 0):
        series = series.cast(nw.Float64)
    return series.to_numpy()


def values_of(series: nw.Series[Any]) -> NDArray[Any]:
    """One value per row: numbers, or objects where the column holds labels or has missing ones."""
    if isinstance(series.dtype, WIDE) or series.dtype.is_numeric():
        return to_numpy(series)
    if series.dtype == nw.Boolean and not series.null_count():
        return series.to_numpy().astype(np.bool_)
    if isinstance(series.dtype, nw.Categorical | nw.Enum) and not series.implementation.is_pandas():
        series = series.cast(nw.String)
    return np.array(series.to_list(), dtype=object)


# -- categories ----------------------------------------------------------------------------------------------
def _codes(series: nw.Series[Any], j: int, where: str, schema: Schema, notes: list[Note]) -> NDArray[Any]:
    if series.null_count() == len(series):  # whatever type they have
        return np.full(len(series), np.nan)
    known = schema.levels_of(j)
    labelled = isinstance(series.dtype, LABELLED)
    if known is None:
        return _own_codes(series, where) if labelled else numbers(to_numpy(series), where)
    levels = Levels(known, schema.unseen, where, notes)
    if labelled:
        return levels.of_dictionary(*dictionary(series))
    values = to_numpy(series)
    if values.dtype.kind == "O":
        return levels.of_objects(values)
    if not schema.levels_for_arrays:
        raise levels.not_numbers(series.dtype)
    return levels.of_numbers(values)


def dictionary(series: nw.Series[Any]) -> tuple[NDArray[Any], list[Any]]:
    """Row i holds entries[keys[i]]; -1 is null. Found by hashing in the frame's own library."""
    native = series.to_native()
    if series.implementation.is_polars():
        if isinstance(series.dtype, nw.String):
            native = series.cast(nw.Enum(series.drop_nulls().unique().to_list())).to_native()
        distinct = native.drop_nulls().unique()
        numbers_, labels = distinct.to_physical().to_numpy(), distinct.to_list()
        order = np.argsort(numbers_)
        keys = np.searchsorted(numbers_[order], native.to_physical().fill_null(0).to_numpy())
        return np.where(native.is_null().to_numpy(), -1, keys), [labels[i] for i in order]
    if series.implementation.is_pyarrow():
        if isinstance(series.dtype, nw.String):
            native = native.dictionary_encode()
        chunks = native.unify_dictionaries().chunks
        keys = [chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) for chunk in chunks]
        return np.concatenate(keys), chunks[0].dictionary.to_pylist()
    if hasattr(native, "cat"):
        return native.cat.codes.to_numpy().astype(np.int64, copy=False), native.cat.categories.tolist()
    keys, entries = native.factorize()
    return np.asarray(keys), entries.tolist()


def _own_codes(series: nw.Series[Any], where: str) -> NDArray[np.float64]:
    """Codes as the frame has them: all there is when the model does not store the training categories."""
    native, library = series.to_native(), series.implementation
    if isinstance(series.dtype, nw.Enum) and library.is_polars():
        return np.asarray(native.to_physical().to_numpy(), dtype=np.float64)  # null is NaN
    if isinstance(series.dtype, nw.String) or library.is_polars():
        raise DataError(
            f"{where} holds {series.dtype} labels, but the model does not store its training categories; "
            "pass the codes that it was trained on."
        )
    keys, _ = dictionary(series)
    return np.where(keys < 0, np.nan, keys)


# -- results -------------------------------------------------------------------------------------------------
def make_frame(columns: Mapping[str, Any], *, library: str = "", row_labels: Any = None) -> Any:
    """Data frame of `columns` in `library`, else in one that is installed; with pandas, indexed by `row_labels`."""
    candidates: tuple[Any, ...] = (library, "pandas", "polars", "pyarrow")
    for name in candidates:
        try:
            importlib.import_module(name)
        except (ImportError, ValueError):  # not installed; an empty name
            continue
        frame = nw.from_dict(dict(columns), backend=name).to_native()
        if row_labels is not None and hasattr(frame, "index"):
            frame.index = row_labels
        return frame
    raise MissingDependencyError("A data frame needs pandas, polars or pyarrow; install one: pip install pandas")


def to_array(data: Any, feature_names: Sequence[str]) -> NDArray[Any]:
    """Return the user's table as a 2-D array in the order of the features."""
    if hasattr(data, "toarray"):  # scipy sparse: only shown rows are asked for here
        return np.asarray(data.toarray())
    frame = as_frame(data)
    if isinstance(frame, nw.DataFrame | nw.LazyFrame):
        frame = collected(frame)
        data = frame[:, places_of(frame.columns, feature_names)].to_numpy()
    return np.asarray(data)


def places_of(columns: Sequence[str], feature_names: Sequence[str]) -> list[int]:
    """Positions of the features among the columns: by name if all are there, else as the columns stand."""
    # LightGBM keeps "my column" as "my_column".
    place = {str(name).replace(" ", "_"): j for j, name in enumerate(columns)}
    place |= {str(name): j for j, name in enumerate(columns)}
    return [place[name] for name in feature_names] if set(feature_names) <= place.keys() else [*range(len(columns))]
