"""scipy's sparse matrices, made dense a block of rows at a time and never as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError
from treeinner.tables.columns import mark_missing
from treeinner.tables.schema import Schema, block_rows_for, not_two_dimensional


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of scipy, found out without importing scipy."""
    return any(kind.__module__.startswith("scipy.sparse") for kind in type(X).__mro__)


@dataclass(frozen=True, eq=False)
class SparseTable:
    """A CSR matrix without duplicates."""

    matrix: Any
    fill: float  # what an absent entry is
    dtype: np.dtype[Any]  # of the blocks
    missing: float = float("nan")
    frame_library: str = ""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    @property
    def block_rows(self) -> int:
        """A block of this many rows takes about 16 MB."""
        return block_rows_for(self.matrix.shape[1], self.dtype.itemsize)

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop, dense; an absent entry is `fill`, a stored zero is zero."""
        X = self.matrix
        first = X.indptr[start : min(stop, self.n_rows) + 1]  # where each row begins, and the last one ends
        entries = slice(int(first[0]), int(first[-1]))
        out: NDArray[Any] = np.full((len(first) - 1, X.shape[1]), self.fill, self.dtype)
        out[np.repeat(np.arange(len(out)), np.diff(first)), X.indices[entries]] = X.data[entries]
        return mark_missing(out, self.missing)

    def take(self, rows: NDArray[np.intp]) -> SparseTable:
        """Table of some rows."""
        return replace(self, matrix=self.matrix[rows])


def read_sparse(X: Any, schema: Schema) -> SparseTable:
    """Table over a CSR matrix's own arrays; other formats are converted, duplicates are added up."""
    if len(X.shape) != 2:
        raise not_two_dimensional(X.shape)
    schema.check_shape(*X.shape)
    if schema.levels_for_arrays and schema.categorical is not None and any(schema.categorical):
        raise DataError(
            "X is a sparse matrix, but the model has categorical columns; pass a dense array or a data frame."
        )
    if X.dtype.kind not in "fiub":
        raise DataError(f"X is a sparse matrix of {X.dtype}, but the model needs real numbers.")
    matrix = checked_csr(X)
    small = X.dtype.kind != "f" and X.dtype.itemsize <= 2
    dtype = np.dtype(np.float32 if small or X.dtype == np.float32 else np.float64)
    fill = float("nan") if schema.absent == "missing" else 0.0
    return SparseTable(matrix, fill, dtype, schema.missing)


def checked_csr(X: Any) -> Any:
    """X in CSR, the same object if it is; duplicates are added up, and its numbers are in the machine's byte order."""
    matrix = X if X.format in ("csr", "csc", "bsr") else X.tocoo()
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
        for axis, index in enumerate((X.row, X.col)):
            _check_index(index, X.shape[axis], ("row", "column")[axis])
        return
    by_column = X.format == "csc"
    block = X.blocksize if X.format == "bsr" else (1, 1)
    counts = X.shape[0] // block[0], X.shape[1] // block[1]
    start, index = X.indptr, X.indices
    n_starts, n_stored = counts[by_column] + 1, min(len(index), len(X.data))
    if len(start) != n_starts or start[0] != 0 or np.any(start[1:] < start[:-1]) or start[-1] > n_stored:
        raise DataError(
            f"X is a damaged {X.format} matrix: indptr must hold {n_starts} numbers that begin with 0, "
            f"never fall, and end at most at the {n_stored} stored entries; build it again."
        )
    _check_index(index[: start[-1]], counts[not by_column], "row" if by_column else "column")


def _check_index(index: NDArray[Any], n: int, what: str) -> None:
    if len(index) and (index.min() < 0 or index.max() >= n):
        bad = index[(index < 0) | (index >= n)][0]
        raise DataError(f"X is a damaged sparse matrix: it has an entry in {what} {bad} of {n}; build it again.")
