"""Arrays, lists and whatever else numpy takes -> tables, without a copy where the kernels can read the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError
from treeinner.tables.columns import codes_by_number, codes_by_object, kernel_dtype, mark_missing, numbers
from treeinner.tables.schema import Level, Schema, block_rows_for, not_two_dimensional

PASS_A_TABLE = "pass a 2-D array, a data frame or a scipy sparse matrix."


@dataclass(frozen=True, eq=False)
class DenseTable:
    """A 2-D array, handed out as views; only what the kernels cannot read is converted, block by block."""

    values: NDArray[Any]
    block_rows: int | None = None
    missing: float = float("nan")  # a number that means missing besides NaN
    frame_library: str = ""  # "pandas", "polars", ...: the library in which results are returned

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """View of some rows, or their conversion."""
        return mark_missing(numbers(self.values[start:stop], "X"), self.missing)

    def take(self, rows: NDArray[np.intp]) -> DenseTable:
        """Table of some rows."""
        return replace(self, values=self.values[rows])


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """1-D columns of one length, handed out as views."""

    columns: Sequence[NDArray[Any]]
    block_rows: int | None = None
    missing: float = float("nan")
    frame_library: str = ""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0])

    def block(self, start: int, stop: int) -> list[NDArray[Any]]:
        """Rows start..stop of each column, as views."""
        return [mark_missing(column[start:stop], self.missing) for column in self.columns]

    def take(self, rows: NDArray[np.intp]) -> ColumnTable:
        """Table of some rows."""
        return replace(self, columns=[column[rows] for column in self.columns])


def read_array(X: Any, schema: Schema) -> DenseTable | ColumnTable:
    """Table over the array's own memory where the kernels can read it."""
    values = as_array(X)
    n_columns = values.shape[1]
    schema.check_shape(*values.shape)
    labelled = schema.levels_for_arrays or values.dtype.kind in "OUST"
    levels = [schema.levels_of(j) if labelled else None for j in range(n_columns)]
    wanted = kernel_dtype(values.dtype)
    if wanted is None or any(found is not None for found in levels):
        columns = [_column(values[:, j], found, schema, schema.column_label(j)) for j, found in enumerate(levels)]
        return ColumnTable(columns, missing=schema.missing)
    converted = wanted != values.dtype or not np.isnan(schema.missing)
    rows = block_rows_for(n_columns, wanted.itemsize) if converted else None
    return DenseTable(values, block_rows=rows, missing=schema.missing)


def as_array(X: Any) -> NDArray[Any]:
    """Return X as a 2-D array of whatever it holds; masked entries are NaN."""
    try:
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.float64), np.nan) if X.dtype.kind in "fiub" else _unmasked_objects(X)
        values = np.asarray(X)
        if values.dtype.kind in "US" and not isinstance(X, np.ndarray):
            values = np.array(X, dtype=object)  # a list of lists: one string must not turn every number into one
    except (TypeError, ValueError) as error:
        kind = type(X).__name__
        raise DataError(f"X is a {kind} that does not make a table of numbers ({error}); {PASS_A_TABLE}") from error
    if values.dtype.names is not None:
        raise DataError("X is a structured array; pass a 2-D array of numbers or a data frame instead.")
    if values.ndim == 0 and values.dtype.kind == "O":
        raise DataError(f"X is of type {type(X).__name__}, expected a table; {PASS_A_TABLE}")
    if values.ndim != 2:
        raise not_two_dimensional(values.shape)
    return values


def _unmasked_objects(X: Any) -> NDArray[Any]:
    """Masked entries of other dtypes are None; complex numbers and dates are refused later, by name."""
    values = np.ma.getdata(X)
    if np.ma.getmaskarray(X).any():
        values = values.astype(object)
        values[np.ma.getmaskarray(X)] = None
    return values


def _column(column: NDArray[Any], levels: tuple[Level, ...] | None, schema: Schema, where: str) -> NDArray[Any]:
    if levels is None:
        return numbers(column, where)
    if column.dtype.kind in "OUST" and any(isinstance(item, str) for item in column.tolist()):
        return codes_by_object(column, levels, schema.unseen, where)
    codes = numbers(column, where)
    return codes_by_number(codes, levels, schema.unseen, where) if schema.levels_for_arrays else codes
