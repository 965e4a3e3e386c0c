"""X in memory -> a table: columns in the model's order, handed out in blocks that the kernels read.

Arrays, lists and whatever else numpy takes, sparse matrices of scipy, and the columns of data frames (frames.py),
without a copy wherever the kernels can read the numbers in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, Note
from treeinner.rows.columns import level_codes_of_numbers, mark_missing, numbers
from treeinner.rows.frames import as_frame, read_columns
from treeinner.rows.schema import Schema

__all__ = ["DenseTable", "SparseTable", "Table", "as_array", "is_sparse", "make_table", "refuse_by_name"]

Block = NDArray[Any] | Sequence[NDArray[Any]]

BLOCK_ENTRIES = 2**21  # of a sparse matrix that are made dense at a time: 16 MB
PASS_A_TABLE = "pass a 2-D array, a data frame or a scipy sparse matrix."
FROM_ARRAY = "pass the array or data frame that it was made from"
# Containers whose rows cannot be read here: (package, class, or "" for all) -> what to pass instead.
REFUSED = {
    ("xgboost", "DMatrix"): FROM_ARRAY,
    ("lightgbm", "Dataset"): FROM_ARRAY,
    ("catboost", "Pool"): FROM_ARRAY,
    ("xgboost", "DataIter"): "pass a function that returns an iterator of its (X, y) batches",
    ("numpy", "MaskedArray"): "pass X.filled(np.nan), or drop the rows that are masked",  # others ignore the mask
    ("dask", ""): "use treeinner.dask.importance(client, model, X, y), or pass X.compute()",
    ("pyspark", ""): "use treeinner.spark.importance(model, X, label_col=...), or pass X.toPandas() or a sample of it",
}


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
        if isinstance(self.values, np.ndarray):
            return self.values[start:stop]
        return [column[start:stop] for column in self.values]


@dataclass(frozen=True, eq=False)
class SparseTable:
    """A CSR matrix without duplicates, made dense a block of rows at a time and never as a whole."""

    matrix: Any
    fill: float  # what an absent entry is
    missing: float = float("nan")  # a number that means missing besides NaN
    notes: tuple[Note, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    @property
    def block_rows(self) -> int:
        """A multiple of the 64 rows that the kernels route at once."""
        return max(64, BLOCK_ENTRIES // int(self.matrix.shape[1]) // 64 * 64)

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop, dense; an absent entry is `fill`, a stored zero is zero."""
        X = self.matrix
        first = X.indptr[start : min(stop, self.n_rows) + 1]  # where each row begins, and the last one ends
        entries = slice(int(first[0]), int(first[-1]))
        out: NDArray[Any] = np.full((len(first) - 1, X.shape[1]), self.fill, np.result_type(X.dtype, np.float32))
        out[np.repeat(np.arange(len(out)), np.diff(first)), X.indices[entries]] = X.data[entries]
        return mark_missing(numbers(out, "X"), self.missing)


# What the kernels read. block(start, stop): rows as a 2-D array or as 1-D columns of numbers, of any stride; a block
# should have at most block_rows rows (None: any number). notes: what was noticed while it was read.
Table = DenseTable | SparseTable


def make_table(X: Any, schema: Schema) -> Table:
    """Check X against the schema; convert what the kernels cannot read, and nothing else."""
    refuse_by_name(X)
    if schema.external:
        raise DataError(f"X cannot be read: {schema.external}.")
    table: Table
    notes: list[Note] = []
    if is_sparse(X):
        table = _read_sparse(X, schema)
    elif (frame := as_frame(X)) is not None:
        table = DenseTable([mark_missing(column, schema.missing) for column in read_columns(frame, schema, notes)])
    else:
        table = _read_array(X, schema, notes)
    if not (schema.allow_infinite and schema.allow_missing):
        _check_finite(table, schema)
    return replace(table, notes=tuple(notes))


def refuse_by_name(X: Any, name: str = "X") -> None:
    """Raise for containers whose rows cannot be read here, with what to pass instead."""
    for kind in type(X).__mro__:
        package, own = kind.__module__.split(".")[0].removesuffix("_expr"), kind.__name__  # dask_expr is dask
        if advice := REFUSED.get((package, own), REFUSED.get((package, ""))):
            raise DataError(f"{name} is of type {package}.{own}, whose rows cannot be read here; {advice}.")


def _check_finite(table: Table, schema: Schema) -> None:
    """One pass in blocks; a value that the library refuses is an error that names its column."""
    step = table.block_rows or 4096
    for start in range(0, table.n_rows, step):
        block = table.block(start, start + step)
        for j, column in enumerate(block.T if isinstance(block, np.ndarray) else block):
            with np.errstate(over="ignore"):
                values = column.astype(np.float32, copy=False)  # as these trees take them
            infinite = not schema.allow_infinite and np.isinf(values).any()
            if infinite or (not schema.allow_missing and np.isnan(values).any()):
                bad = "an infinite value, or one beyond float32" if infinite else "a missing value"
                raise DataError(f"{schema.column_label(j)} of X holds {bad}, which the model's own library refuses.")


# -- arrays --------------------------------------------------------------------------------------------------
def _read_array(X: Any, schema: Schema, notes: list[Note]) -> DenseTable:
    """Table over the array's own memory where the kernels can read it."""
    values = as_array(X)
    schema.check_shape(*values.shape)
    levels = [schema.levels_of(j) if schema.levels_for_arrays else None for j in range(values.shape[1])]
    if values.dtype.kind in "fiub" and not any(levels):
        return DenseTable(mark_missing(numbers(values, "X"), schema.missing))
    columns = []
    for j, known in enumerate(levels):
        where = schema.column_label(j)
        column = numbers(values[:, j], where)
        if known is not None:
            column = level_codes_of_numbers(column, known, schema, where, notes)
        columns.append(mark_missing(column, schema.missing))
    return DenseTable(columns)


def as_array(X: Any) -> NDArray[Any]:
    """Return X as a 2-D array of whatever it holds."""
    try:
        # Of a list of lists, one string must not turn every number into one.
        values = X if isinstance(X, np.ndarray) else np.asarray(X, None if hasattr(X, "dtype") else object)
    except (TypeError, ValueError) as error:
        raise DataError(f"X is a {type(X).__name__} that makes no table ({error}); {PASS_A_TABLE}") from error
    if values.ndim != 2:
        held = f"X is a {type(X).__name__} of shape {values.shape}, expected a table of two dimensions"
        raise DataError(f"{held}; reshape a single row with X.reshape(1, -1), a single column with X.reshape(-1, 1).")
    return values


# -- sparse --------------------------------------------------------------------------------------------------
def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of scipy, found out without importing scipy."""
    return any(kind.__module__.startswith("scipy.sparse") for kind in type(X).__mro__)


def _read_sparse(X: Any, schema: Schema) -> SparseTable:
    """Table over a CSR matrix's own arrays; other formats are converted, duplicates are added up."""
    if len(X.shape) != 2 or X.dtype.kind not in "fiub":
        raise DataError(f"X is a sparse array of {X.dtype} and shape {X.shape}, expected a matrix of real numbers.")
    schema.check_shape(*X.shape)
    if schema.levels_for_arrays and schema.categorical is not None and any(schema.categorical):
        raise DataError("X is sparse, but the model has categorical columns; pass a dense array or a data frame.")
    return SparseTable(canonical_csr(X), float("nan") if schema.absent == "missing" else 0.0, schema.missing)


def canonical_csr(X: Any) -> Any:
    """X in CSR, the same object if it is; its indices are checked, and duplicates are added up."""
    try:
        matrix = X.tocsr()
        matrix.check_format(full_check=True)  # scipy trusts the indices, and reads outside of its arrays
    except ValueError as error:
        raise DataError(f"X is a damaged sparse matrix ({error}); build it again.") from error
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # the user's matrix stays as it is
        matrix.sum_duplicates()
    return matrix
