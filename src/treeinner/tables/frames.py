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

from treeinner.errors import DataError, MissingDependencyError, readable
from treeinner.tables.arrays import ColumnTable
from treeinner.tables.columns import (
    AS_IN_TRAINING,
    codes_by_dictionary,
    codes_by_number,
    codes_by_object,
    difference,
    listing,
    numbers,
)
from treeinner.tables.schema import Schema, not_two_dimensional

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]
NO_FEATURE = (nw.Datetime, nw.Date, nw.Time, nw.Duration, nw.List, nw.Array, nw.Struct, nw.Binary)
WIDE = (nw.Decimal, nw.Int128, nw.UInt128)  # numbers that numpy has no type for


def as_frame(X: Any) -> Frame | nw.Series[Any] | None:
    """X as narwhals sees it; None if it is neither a frame nor a series."""
    if type(X) is np.ndarray:  # narwhals takes longer to find out than a small prediction does
        return None
    if any(kind.__module__.split(".")[0] == "narwhals" for kind in type(X).__mro__):
        X = X.to_native()
    if any((kind.__module__, kind.__name__) == ("pyarrow.lib", "RecordBatch") for kind in type(X).__mro__):
        # numpy would take it for an array without names; narwhals does not know it
        X = sys.modules["pyarrow"].Table.from_batches([X])
    try:
        seen = nw.from_native(X, pass_through=True, allow_series=True)
    except DuplicateError as error:
        raise _duplicates(X) from error
    return seen if isinstance(seen, (nw.DataFrame, nw.LazyFrame, nw.Series)) else None


def read_frame(frame: Frame | nw.Series[Any], schema: Schema) -> ColumnTable:
    """Table of the frame's columns in the model's order; the frame's own memory where possible."""
    if isinstance(frame, nw.Series):
        raise not_two_dimensional(frame.shape)
    _column_names(frame)  # each one once
    names = as_stored(_raw_names(frame), schema)
    _check_names(names, schema)
    schema.check_shape(1, len(names))
    library = str(frame.implementation.value)
    if isinstance(frame, nw.LazyFrame) and library != "polars":
        raise DataError(f"X is a lazy {library} frame; collect it into memory, or pass it in parts.")
    rows = collected(frame)
    schema.check_shape(rows.shape[0], len(names))
    given = dict(zip(names, rows.iter_columns(), strict=True))
    order = names if schema.names is None else schema.names
    columns = [_column(given[name], j, f"Column {name!r}", schema) for j, name in enumerate(order)]
    return ColumnTable(columns, missing=schema.missing, frame_library=library)


def collected(frame: Frame) -> nw.DataFrame[Any]:
    """Rows of a frame that may be lazy."""
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def names_of(X: Any) -> tuple[str, ...] | None:
    """Column names of a data frame; None if X has none."""
    frame = as_frame(X)
    return None if frame is None or isinstance(frame, nw.Series) else _column_names(frame)


def _column_names(frame: Frame) -> tuple[str, ...]:
    """Names of the frame as strings, each one once."""
    names = [readable(name) for name in _raw_names(frame)]
    if len(set(names)) < len(names):
        raise _duplicates(names)
    return tuple(names)


def _raw_names(frame: Frame) -> Sequence[Any]:
    """Names as the frame has them: pandas takes any object for one."""
    try:
        return frame.columns if isinstance(frame, nw.DataFrame) else frame.collect_schema().names()
    except DuplicateError as error:
        raise _duplicates(frame.to_native()) from error


def _duplicates(X: Any) -> DataError:
    names = X if isinstance(X, list) else getattr(X, "column_names", getattr(X, "columns", []))
    repeated = [name for name, times in Counter(str(name) for name in names).items() if times > 1]
    return DataError(f"X has duplicate column names: {listing(repeated)}; rename or drop all but one of each.")


def frame_library_of(X: Any) -> str:
    """Name of the frame library that X comes from, such as "pandas"; "" if X is not a frame."""
    frame = as_frame(X)
    return "" if frame is None else str(frame.implementation.value)


def row_labels_of(X: Any) -> Any:
    """Index of a pandas frame; None for everything else."""
    frame = as_frame(X)
    return nw.maybe_get_index(frame) if isinstance(frame, nw.DataFrame) else None


def as_stored(names: Sequence[Any], schema: Schema) -> tuple[str, ...]:
    """Names as the model's library keeps them."""
    if schema.blank_is_underscore:
        return tuple("_".join(readable(name).split(" ")) for name in names)
    known = frozenset(schema.names or ())
    return tuple(_as_known(name, j, known) for j, name in enumerate(names))


def _as_known(name: Any, j: int, known: frozenset[str]) -> str:
    """Name of column j; XGBoost joins the levels of a pandas MultiIndex, CatBoost numbers columns without a name."""
    own = readable(name)
    other = " ".join(map(readable, name)) if isinstance(name, tuple) else own or str(j)
    return other if own not in known and other in known else own


def _check_names(names: Sequence[str], schema: Schema) -> None:
    """Names that do not fit the model's are an error that lists them."""
    if schema.names is None:
        return
    if differs := difference(names, schema.names):
        raise DataError(
            f"The columns of X are not the {len(schema.names)} that the model was trained on: it {differs}. Select the "
            "training columns by name; their order does not matter."
        )


def _column(series: nw.Series[Any], j: int, where: str, schema: Schema) -> NDArray[Any]:
    if isinstance(series.dtype, NO_FEATURE):
        raise DataError(f"{where} holds {series.dtype}, but the model needs numbers or categories; {AS_IN_TRAINING}")
    if schema.categorical is not None and schema.categorical[j]:
        return _codes(series, j, where, schema)
    if isinstance(series.dtype, (nw.Categorical, nw.Enum)):
        raise DataError(f"{where} holds categories, but the model was trained on numbers there; {AS_IN_TRAINING}")
    if isinstance(series.dtype, nw.Unknown) and series.null_count() == len(series):  # Arrow's null type
        return np.full(len(series), np.nan)
    if isinstance(series.dtype, nw.String):
        words = series.drop_nulls().to_list()
        # A column of nulls is missing values: parts of a file are often typed as strings.
        return numbers(np.array(words, dtype=object), where) if words else np.full(len(series), np.nan)
    return numbers(_to_numpy(series), where)


def _to_numpy(series: nw.Series[Any]) -> NDArray[Any]:
    """Nulls of integers and booleans become NaN in float64."""
    if isinstance(series.dtype, WIDE) or (isinstance(series.dtype, nw.Boolean) and series.null_count() > 0):
        series = series.cast(nw.Float64)
    return series.to_numpy()


def for_transformers(X: Any) -> Any:
    """X; an Arrow table as a frame of pandas, or else polars, which scikit-learn's transformers take."""
    frame = as_frame(X)
    if not isinstance(frame, nw.DataFrame) or not frame.implementation.is_pyarrow():
        return X
    for convert in (frame.to_pandas, frame.to_polars):
        try:
            return convert()
        except ImportError:
            continue
    raise MissingDependencyError("A pipeline on an Arrow table needs pandas or polars; install one: pip install pandas")


def with_native_columns(X: Any) -> Any:
    """X; of a pandas frame, columns of the other byte order are converted."""
    frame = as_frame(X)
    if not isinstance(frame, nw.DataFrame) or not frame.implementation.is_pandas():
        return X
    native = frame.to_native()
    other = {name: kind for name, kind in native.dtypes.items() if isinstance(kind, np.dtype) and not kind.isnative}
    return native.astype({name: kind.newbyteorder("=") for name, kind in other.items()}) if other else X


def polars_as_pandas(X: Any) -> Any:
    """X; a polars frame as one of pandas: CatBoost knows polars since 1.2.9, and 1.2.10 fails with its categories."""
    frame = as_frame(X)
    if not isinstance(frame, nw.DataFrame) or not frame.implementation.is_polars():
        return X
    words = (nw.Categorical, nw.Enum, nw.String)
    columns = {
        series.name: series.to_list() if isinstance(series.dtype, words) else _to_numpy(series)
        for series in frame.iter_columns()
    }
    return make_frame(columns, library="pandas")


# -- categories ----------------------------------------------------------------------------------------------
def _codes(series: nw.Series[Any], j: int, where: str, schema: Schema) -> NDArray[Any]:
    if series.null_count() == len(series):  # whatever type they have
        return np.full(len(series), np.nan)
    levels = schema.levels_of(j)
    labelled = isinstance(series.dtype, (nw.Categorical, nw.Enum, nw.String))
    if levels is None:
        return _own_codes(series, where) if labelled else numbers(_to_numpy(series), where)
    if labelled:
        keys, entries = dictionary(series)
        return codes_by_dictionary(keys, entries, levels, schema.unseen, where)
    values = _to_numpy(series)
    if values.dtype.kind == "O":
        return codes_by_object(values, levels, schema.unseen, where)
    if schema.levels_for_arrays:
        return codes_by_number(numbers(values, where), levels, schema.unseen, where)
    raise DataError(
        f"{where} holds {series.dtype} numbers, but the model was trained on categories there, such as "
        f"{listing(levels, 3)}; convert it to a category column of those (or pass a numpy array of codes)."
    )


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
    has_codes = library.is_pyarrow() or (hasattr(native, "cat") and not library.is_polars())
    if isinstance(series.dtype, nw.String) or not has_codes:
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
    if isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        frame = collected(frame)
        data = frame[:, places_of(frame.columns, feature_names)].to_numpy()
    return np.asarray(data)


def places_of(columns: Sequence[str], feature_names: Sequence[str]) -> list[int]:
    """Positions of the features among the columns: by name if all are there, else as the columns stand."""
    # LightGBM keeps "my column" as "my_column".
    place = {str(name).replace(" ", "_"): j for j, name in enumerate(columns)}
    place |= {str(name): j for j, name in enumerate(columns)}
    return [place[name] for name in feature_names] if set(feature_names) <= place.keys() else [*range(len(columns))]
