"""X in any container -> columns in the model's order, ready to be binned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from treeinner import _frames
from treeinner._columns import (
    KERNEL_DTYPES,
    codes_by_number,
    codes_by_object,
    kernel_dtype,
    mark_missing,
    numbers,
)
from treeinner._frames import frame_library_of, row_labels_of
from treeinner._sparse import SparseTable, block_rows_for, is_sparse, read_sparse
from treeinner.errors import DataError

__all__ = [
    "KERNEL_DTYPES",
    "ColumnTable",
    "DenseTable",
    "Level",
    "Schema",
    "SparseTable",
    "Table",
    "frame_library_of",
    "names_of",
    "read_table",
    "row_labels_of",
]

Level = str | int | float | bool

# Containers that hide their data: (package, class) -> what to pass instead.
REFUSED = {
    ("xgboost", "DMatrix"): "pass the array or data frame that it was made from",
    ("lightgbm", "Dataset"): "pass the array or data frame that it was made from",
    ("catboost", "Pool"): (
        "pass the array or data frame that it was made from "
        "(a Pool is taken only for a CatBoost model with categorical features, which CatBoost itself must route)"
    ),
}


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What a table must look like for a model, as its reader learned it."""

    n_columns: int
    names: tuple[str, ...] | None = None  # training names; None: the model knows none, columns go by position
    blank_is_underscore: bool = False  # the library keeps "my col" as "my_col" (LightGBM)
    categorical: tuple[bool, ...] | None = None  # columns that hold categories; None: no column does
    levels: tuple[tuple[Level, ...] | None, ...] | None = (
        None  # code of a level = its position; None: numbers are codes
    )
    levels_for_arrays: bool = False  # numpy columns hold levels too (scikit-learn), not codes (XGBoost, LightGBM)
    unseen: Literal["missing", "other", "error"] = "other"  # what a level outside `levels` is
    known_codes: tuple[int | None, ...] | None = None  # a code outside 0..known-1 is missing; None: it is "other"
    absent: Literal["missing", "zero"] = "zero"  # what an absent entry of a sparse matrix is
    missing: float = float("nan")  # a number that means missing besides NaN (XGBoost's `missing=`)
    allow_infinite: bool = True
    external: str = ""  # not empty: only the model object can make this table; the text says what to call instead

    def to_json(self) -> dict[str, Any]:
        """Plain data for `storage`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Schema:
        """Inverse of `to_json`."""

        def tuples(item: Any) -> Any:
            return tuple(tuples(i) for i in item) if isinstance(item, list) else item

        return cls(**{name: tuples(item) for name, item in data.items()})


class Table(Protocol):
    """Rows that can be handed out in blocks."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def block_rows(self) -> int | None:
        """A block should have at most this many rows; None: any number."""
        ...

    def block(self, start: int, stop: int) -> NDArray[Any] | Sequence[NDArray[Any]]:
        """Rows start..stop as a 2-D array or as 1-D columns: any stride, any dtype of KERNEL_DTYPES."""
        ...


@dataclass(frozen=True, eq=False)
class DenseTable:
    """A 2-D array, handed out as views; only what the kernels cannot read is converted, block by block."""

    values: NDArray[Any]
    block_rows: int | None = None
    missing: float = float("nan")  # a number that means missing besides NaN
    row_labels: Any = None  # index of the pandas frame that X was
    frame_library: str = ""  # "pandas", "polars", ...: what results are given back in

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """View of some rows, or their conversion."""
        part = self.values[start:stop]
        wanted = kernel_dtype(part.dtype)
        assert wanted is not None, part.dtype
        if part.dtype != wanted:
            with np.errstate(over="ignore"):  # a longdouble beyond float64 is infinite
                part = part.astype(wanted)
        return mark_missing(part, self.missing)


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """1-D columns of one length, handed out as views."""

    columns: Sequence[NDArray[Any]]
    block_rows: int | None = None
    missing: float = float("nan")
    row_labels: Any = None
    frame_library: str = ""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0])

    def block(self, start: int, stop: int) -> list[NDArray[Any]]:
        """Rows start..stop of each column, as views."""
        return [mark_missing(column[start:stop], self.missing) for column in self.columns]


def names_of(X: Any) -> tuple[str, ...] | None:
    """Column names of a data frame; None if X has none."""
    frame = _frames.as_frame(X)
    return None if frame is None or isinstance(frame, nw.Series) else _frames.column_names(frame)


def read_table(X: Any, schema: Schema) -> DenseTable | ColumnTable | SparseTable:
    """Check X against the schema; convert what the kernels cannot read, and nothing else."""
    if schema.external:
        raise DataError(
            "Rows cannot be routed from the table alone: this model has splits on encoded categories, which "
            "only the CatBoost model object itself can evaluate; use ti.attribute(model, X)."
        )
    _refuse_by_name(X)
    table: DenseTable | ColumnTable | SparseTable
    frame = None if isinstance(X, np.ndarray) or is_sparse(X) else _frames.as_frame(X)
    if frame is not None:
        table = _from_frame(frame, schema)
    elif is_sparse(X):
        table = _from_sparse(X, schema)
    else:
        table = _from_array(_as_array(X), schema)
    if not schema.allow_infinite:
        _check_finite(table, schema)
    return table


def _refuse_by_name(X: Any) -> None:
    """Containers that hide their data, and what to pass instead."""
    for kind in type(X).__mro__:
        advice = REFUSED.get((kind.__module__.split(".")[0], kind.__name__))
        if advice:
            raise DataError(f"X is a {kind.__module__.split('.')[0]}.{kind.__name__}; {advice}.")
    if isinstance(X, (str, bytes, dict)) and not is_sparse(X):  # a dok_matrix is a dict
        raise DataError(f"X is a {type(X).__name__}, but a table was needed; pass a 2-D array or a data frame.")


def _check_shape(n_rows: int, n_columns: int, schema: Schema) -> None:
    if n_columns != schema.n_columns:
        raise DataError(
            f"X has {n_columns} columns, but the model was trained on {schema.n_columns}; "
            "pass the training columns in training order, or a data frame with their names."
        )
    if n_rows == 0:
        raise DataError("X has no rows; at least one was needed.")


def _one_dimensional(shape: object) -> DataError:
    return DataError(
        f"X has shape {shape}, but a table of two dimensions was needed; reshape a single row with "
        "X.reshape(1, -1) and a single column with X.reshape(-1, 1), or pass a data frame."
    )


def _from_frame(frame: Any, schema: Schema) -> ColumnTable:
    if isinstance(frame, nw.Series):
        raise _one_dimensional(frame.shape)
    names = _frames.column_names(frame)
    _frames.check_names(_frames.as_stored(names, schema), schema)
    _check_shape(1, len(names), schema)
    rows = _frames.collect(frame, schema)
    _check_shape(rows.shape[0], len(names), schema)
    return ColumnTable(
        _frames.frame_columns(rows, schema),
        missing=schema.missing,
        row_labels=nw.maybe_get_index(rows),
        frame_library=str(rows.implementation.value),
    )


def _from_sparse(X: Any, schema: Schema) -> SparseTable:
    if len(X.shape) != 2:
        raise _one_dimensional(X.shape)
    _check_shape(X.shape[0], X.shape[1], schema)
    if schema.levels_for_arrays and schema.categorical is not None and any(schema.categorical):
        raise DataError(
            "X is a sparse matrix, but the model has categorical columns; pass a dense array or a data frame."
        )
    return read_sparse(X, absent=schema.absent, missing=schema.missing)


def _as_array(X: Any) -> NDArray[Any]:
    try:
        if isinstance(X, np.ma.MaskedArray):
            return np.ma.filled(X.astype(np.float64), np.nan)
        values = np.asarray(X)
        if values.dtype.kind in "US" and not isinstance(X, np.ndarray):
            values = np.array(X, dtype=object)  # a list of lists: one string must not turn every number into one
    except (TypeError, ValueError) as error:
        raise DataError(
            f"X is a {type(X).__name__} that does not make a table of numbers ({error}); "
            "pass a 2-D array, a data frame or a scipy sparse matrix."
        ) from error
    if values.dtype.names is not None:
        raise DataError("X is a structured array; pass a 2-D array of numbers or a data frame instead.")
    if values.ndim == 0 and values.dtype.kind == "O":
        raise DataError(
            f"X is a {type(X).__name__}, but a table was needed; "
            "pass a 2-D array, a data frame or a scipy sparse matrix."
        )
    if values.ndim != 2:
        raise _one_dimensional(values.shape)
    return values


def _from_array(values: NDArray[Any], schema: Schema) -> DenseTable | ColumnTable:
    n_rows, n_columns = values.shape
    _check_shape(n_rows, n_columns, schema)
    by_level = [
        schema.levels[j]
        if schema.categorical is not None
        and schema.categorical[j]
        and schema.levels is not None
        and (schema.levels_for_arrays or values.dtype.kind in "OUST")
        else None
        for j in range(n_columns)
    ]
    wanted = kernel_dtype(values.dtype)
    if wanted is None or any(levels is not None for levels in by_level):
        return ColumnTable(
            [_array_column(values[:, j], levels, schema, _where(j, schema)) for j, levels in enumerate(by_level)],
            missing=schema.missing,
        )
    lazy = wanted != values.dtype or not np.isnan(schema.missing)
    rows = block_rows_for(n_columns, wanted.itemsize) if lazy else None
    return DenseTable(values, block_rows=rows, missing=schema.missing)


def _array_column(column: NDArray[Any], levels: tuple[Level, ...] | None, schema: Schema, where: str) -> NDArray[Any]:
    if levels is None:
        return numbers(column, where)
    if column.dtype.kind in "OUST" and any(isinstance(item, str) for item in column.tolist()):
        return codes_by_object(column, levels, schema.unseen, where)
    codes = numbers(column, where)
    return codes_by_number(codes, levels, schema.unseen, where) if schema.levels_for_arrays else codes


def _where(j: int, schema: Schema) -> str:
    return f"Column {j}" if schema.names is None else f"Column {j} ({schema.names[j]!r})"


def _check_finite(table: DenseTable | ColumnTable | SparseTable, schema: Schema) -> None:
    """One pass in blocks; the first infinite value is an error that names its column."""
    step = table.block_rows or block_rows_for(schema.n_columns, 8)
    for start in range(0, table.n_rows, step):
        block = table.block(start, start + step)
        infinite = (
            np.isinf(block).any(axis=0)
            if isinstance(block, np.ndarray)
            else np.array([np.isinf(c).any() for c in block])
        )
        if infinite.any():
            raise DataError(
                f"{_where(int(np.argmax(infinite)), schema)} of X holds an infinite value, which the model's "
                "own library refuses; replace it by a large number or by NaN."
            )
