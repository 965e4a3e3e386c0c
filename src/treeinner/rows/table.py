"""X in memory -> a table: columns in the model's order, handed out in blocks that the kernels read.

Arrays, lists and whatever else numpy takes, sparse matrices of scipy, and the columns of data frames (frames.py),
without a copy wherever the kernels can read the numbers in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, Note
from treeinner.rows.columns import Levels, kernel_dtype, mark_missing, numbers
from treeinner.rows.frames import as_frame, read_columns
from treeinner.rows.schema import Schema

__all__ = ["DenseTable", "SparseTable", "Table", "as_array", "checked_csr", "is_sparse", "joined", "make_table"]

Block = NDArray[Any] | Sequence[NDArray[Any]]

BLOCK_BYTES = 16 * 2**20
BLOCK_MULTIPLE = 64  # rows that the kernels route at once; smaller blocks would waste them
PASS_A_TABLE = "pass a 2-D array, a data frame or a scipy sparse matrix."
FROM_ARRAY = "pass the array or data frame that it was made from"
# Containers whose rows cannot be read here: (package, class or "" for all) -> what to pass instead.
REFUSED = {
    ("xgboost", "DMatrix"): FROM_ARRAY,
    ("lightgbm", "Dataset"): FROM_ARRAY,
    ("catboost", "Pool"): FROM_ARRAY,
    ("dask", ""): "use treeinner.dask.importance(client, model, X, y), or pass X.compute()",
    ("pyspark", ""): "use treeinner.spark.importance(model, X, label_col=...), or pass X.toPandas() or a sample of it",
}


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

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was noticed while the table was read."""
        ...

    def block(self, start: int, stop: int) -> Block:
        """Rows start..stop as a 2-D array or as 1-D columns: any stride, any dtype of KERNEL_DTYPES."""
        ...

    def take(self, rows: Any) -> Table:
        """Table of some rows, by their positions or a slice."""
        ...


@dataclass(frozen=True, eq=False)
class DenseTable:
    """A 2-D array, or 1-D columns of one length, handed out as views."""

    values: Block
    notes: tuple[Note, ...] = ()
    block_rows: int | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values if isinstance(self.values, np.ndarray) else self.values[0])

    def block(self, start: int, stop: int) -> Block:
        """Rows start..stop, as views."""
        return self.take(slice(start, stop)).values

    def take(self, rows: Any) -> DenseTable:
        """Table of some rows."""
        if isinstance(self.values, np.ndarray):
            return replace(self, values=self.values[rows])
        return replace(self, values=[column[rows] for column in self.values])


@dataclass(frozen=True, eq=False)
class SparseTable:
    """A CSR matrix without duplicates, made dense a block of rows at a time and never as a whole."""

    matrix: Any
    fill: float  # what an absent entry is
    dtype: np.dtype[Any]  # of the blocks
    missing: float = float("nan")  # a number that means missing besides NaN
    notes: tuple[Note, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    @property
    def block_rows(self) -> int:
        """A block of this many rows takes about 16 MB."""
        rows = BLOCK_BYTES // max(1, int(self.matrix.shape[1]) * self.dtype.itemsize)
        return max(BLOCK_MULTIPLE, rows // BLOCK_MULTIPLE * BLOCK_MULTIPLE)

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop, dense; an absent entry is `fill`, a stored zero is zero."""
        X = self.matrix
        first = X.indptr[start : min(stop, self.n_rows) + 1]  # where each row begins, and the last one ends
        entries = slice(int(first[0]), int(first[-1]))
        out: NDArray[Any] = np.full((len(first) - 1, X.shape[1]), self.fill, self.dtype)
        out[np.repeat(np.arange(len(out)), np.diff(first)), X.indices[entries]] = X.data[entries]
        return mark_missing(out, self.missing)

    def take(self, rows: Any) -> SparseTable:
        """Table of some rows."""
        return replace(self, matrix=self.matrix[rows])


def make_table(X: Any, schema: Schema) -> DenseTable | SparseTable:
    """Check X against the schema; convert what the kernels cannot read, and nothing else."""
    refuse_by_name(X)
    table: DenseTable | SparseTable
    if is_sparse(X):
        table = _read_sparse(X, schema)
    elif (frame := as_frame(X)) is not None:
        notes: list[Note] = []
        columns = [mark_missing(column, schema.missing) for column in read_columns(frame, schema, notes)]
        table = DenseTable(columns, tuple(notes))
    else:
        table = _read_array(X, schema)
    if not (schema.allow_infinite and schema.allow_missing):
        _check_finite(table, schema)
    return table


def refuse_by_name(X: Any) -> None:
    """Raise for containers whose rows cannot be read here, with what to pass instead."""
    for kind in type(X).__mro__:
        package, name = kind.__module__.split(".")[0].removesuffix("_expr"), kind.__name__  # dask_expr is dask
        if advice := REFUSED.get((package, name), REFUSED.get((package, ""))):
            raise DataError(f"X is of type {package}.{name}, whose rows cannot be read here; {advice}.")
    if isinstance(X, (str, bytes, dict)) and not is_sparse(X):  # a dok_matrix is a dict
        raise DataError(f"X is a {type(X).__name__}, expected a table; {PASS_A_TABLE}")


def joined(tables: Sequence[Table]) -> DenseTable | None:
    """Dense tables of one layout as one; None if there are others among them."""
    if not all(isinstance(table, DenseTable) for table in tables):
        return None
    values: Any = [table.values for table in tables]  # type: ignore[attr-defined]
    notes = tuple(dict.fromkeys(note for table in tables for note in table.notes))
    if all(isinstance(some, np.ndarray) for some in values):
        return DenseTable(np.concatenate(values), notes)
    if any(isinstance(some, np.ndarray) for some in values):
        return None
    return DenseTable([np.concatenate(columns) for columns in zip(*values, strict=True)], notes)


def _check_finite(table: Table, schema: Schema) -> None:
    """One pass in blocks; the first value that the library refuses is an error that names its column."""
    step = table.block_rows or 65_536
    for start in range(0, table.n_rows, step):
        block = table.block(start, start + step)
        for j, column in enumerate(block.T if isinstance(block, np.ndarray) else block):
            with np.errstate(over="ignore", invalid="ignore"):
                values = column.astype(np.float32, copy=False)  # as these trees take them
            if not schema.allow_infinite and np.isinf(values).any():
                what = "an infinite value" if np.isinf(column).any() else "a value beyond the range of float32"
                advice = "replace it by a large number" + (" or by NaN." if schema.allow_missing else ".")
            elif not schema.allow_missing and np.isnan(values).any():
                what, advice = "a missing value", "impute it as it was done for training."
            else:
                continue
            raise DataError(
                f"{schema.column_label(j)} of X holds {what}, which the model's own library refuses; {advice}"
            )


# -- arrays --------------------------------------------------------------------------------------------------
def _read_array(X: Any, schema: Schema) -> DenseTable:
    """Table over the array's own memory where the kernels can read it."""
    values = as_array(X)
    schema.check_shape(*values.shape)
    labelled = schema.levels_for_arrays or values.dtype.kind in "OUST"
    levels = [schema.levels_of(j) if labelled else None for j in range(values.shape[1])]
    if kernel_dtype(values.dtype) is not None and not any(levels):
        return DenseTable(mark_missing(numbers(values, "X"), schema.missing))
    columns, notes = [], list[Note]()
    for j, known in enumerate(levels):
        where = schema.column_label(j)
        column = values[:, j]
        if known is None:
            column = numbers(column, where)
        else:
            column = _codes(column, Levels(known, schema.unseen, where, notes), by_level=schema.levels_for_arrays)
        columns.append(mark_missing(column, schema.missing))
    return DenseTable(columns, tuple(notes))


def _codes(column: NDArray[Any], levels: Levels, *, by_level: bool) -> NDArray[Any]:
    """Codes of a column of an array; by_level: numbers are levels, not codes."""
    if column.dtype.kind in "OUST" and any(isinstance(item, str) for item in column.tolist()):
        return levels.of_objects(column)
    return levels.of_numbers(column) if by_level else numbers(column, levels.where)


def as_array(X: Any) -> NDArray[Any]:
    """Return X as a 2-D array of whatever it holds; masked entries are NaN, or None among objects."""
    try:
        if isinstance(X, np.ma.MaskedArray):
            numeric = X.dtype.kind in "fiub"
            X = np.ma.filled(X.astype(np.float64 if numeric else object), np.nan if numeric else None)
        values = np.asarray(X)
        if values.dtype.kind in "US" and not isinstance(X, np.ndarray):
            values = np.array(X, dtype=object)  # a list of lists: one string must not turn every number into one
    except (TypeError, ValueError) as error:
        kind = type(X).__name__
        raise DataError(f"X is a {kind} that does not make a table of numbers ({error}); {PASS_A_TABLE}") from error
    if values.dtype.names is not None or (values.ndim == 0 and values.dtype.kind == "O"):
        raise DataError(f"X is a {type(X).__name__} of {values.dtype}, expected a table; {PASS_A_TABLE}")
    if values.ndim != 2:
        raise DataError(
            f"X has shape {values.shape}, expected a table of two dimensions; reshape a single row with "
            "X.reshape(1, -1) and a single column with X.reshape(-1, 1), or pass a data frame."
        )
    return values


# -- sparse --------------------------------------------------------------------------------------------------
def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of scipy, found out without importing scipy."""
    return any(kind.__module__.startswith("scipy.sparse") for kind in type(X).__mro__)


def _read_sparse(X: Any, schema: Schema) -> SparseTable:
    """Table over a CSR matrix's own arrays; other formats are converted, duplicates are added up."""
    matrix = checked_csr(X)
    schema.check_shape(*X.shape)
    if schema.levels_for_arrays and schema.categorical is not None and any(schema.categorical):
        raise DataError(
            "X is a sparse matrix, but the model has categorical columns; pass a dense array or a data frame."
        )
    small = X.dtype.kind != "f" and X.dtype.itemsize <= 2
    dtype = np.dtype(np.float32 if small or X.dtype == np.float32 else np.float64)
    fill = float("nan") if schema.absent == "missing" else 0.0
    return SparseTable(matrix, fill, dtype, schema.missing)


def checked_csr(X: Any) -> Any:
    """X in CSR, the same object if it is; duplicates are added up, and its numbers are in the machine's byte order."""
    if len(X.shape) != 2 or X.dtype.kind not in "fiub":
        raise DataError(f"X is a sparse array of {X.dtype} and shape {X.shape}, expected a matrix of real numbers.")
    matrix = X if X.format in ("csr", "csc") else X.tocoo()
    _check_structure(matrix)
    if not matrix.dtype.isnative:
        matrix = matrix.astype(matrix.dtype.newbyteorder("="))
    matrix = matrix.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # the user's matrix stays as it is
        matrix.sum_duplicates()
    return matrix


def _check_structure(X: Any) -> None:
    """Raise before scipy follows the indices: it trusts them, and reads and writes outside of its arrays.

    Its own `check_format` is not enough: it trims the user's matrix in place, and accepts an indptr of [0, 100, 0].
    """
    if X.format == "coo":
        bounds = [(X.row, X.shape[0]), (X.col, X.shape[1])]
    else:
        by_column = X.format == "csc"
        start, n_stored = X.indptr, min(len(X.indices), len(X.data))
        sound = len(start) == X.shape[by_column] + 1 and start[0] == 0 and not np.any(start[1:] < start[:-1])
        if not sound or start[-1] > n_stored:
            raise DataError(f"X is a damaged {X.format} matrix: its indptr does not fit; build it again.")
        bounds = [(X.indices[: start[-1]], X.shape[not by_column])]
    for index, n in bounds:
        if len(index) and (index.min() < 0 or index.max() >= n):
            raise DataError(f"X is a damaged {X.format} matrix: an entry lies outside of its shape; build it again.")
