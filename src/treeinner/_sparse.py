"""scipy's sparse matrices, densified a block of rows at a time and never as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner._columns import mark_missing
from treeinner.errors import DataError

__all__ = ["SparseTable", "block_rows_for", "is_sparse", "read_sparse"]

BLOCK_BYTES = 16 * 2**20
WORD_ROWS = 64  # the kernels route this many rows at once: smaller blocks would waste them


def is_sparse(X: Any) -> bool:
    """Is X a sparse matrix or array of scipy? Asked without importing scipy."""
    return any(kind.__module__.startswith("scipy.sparse") for kind in type(X).__mro__)


def block_rows_for(n_columns: int, itemsize: int) -> int:
    """Rows of a dense block of about 16 MB: a multiple of 64, at least 64."""
    rows = BLOCK_BYTES // max(1, n_columns * itemsize)
    return max(WORD_ROWS, rows // WORD_ROWS * WORD_ROWS)


@dataclass(frozen=True, eq=False)
class SparseTable:
    """A matrix in CSR or CSC form, without duplicates and with sorted indices."""

    n_rows: int
    n_columns: int
    by_row: bool  # CSR; else CSC
    start: NDArray[Any]  # (rows + 1,) or (columns + 1,)  where a row's or a column's entries begin
    index: NDArray[Any]  # column of each entry (CSR) or its row (CSC)
    data: NDArray[Any]
    fill: float  # what an absent entry is
    dtype: np.dtype[Any]  # of the blocks
    missing: float = float("nan")
    edges: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))  # CSC: see _row_edges
    edge_rows: int = 1
    row_labels: Any = None
    frame_library: str = ""

    @property
    def block_rows(self) -> int:
        """A block of this many rows takes about 16 MB."""
        return block_rows_for(self.n_columns, self.dtype.itemsize)

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop, dense; an absent entry is `fill`, a stored zero is zero."""
        start, stop, _ = slice(start, stop).indices(self.n_rows)
        shape = (max(0, stop - start), self.n_columns)
        out: NDArray[Any] = np.full(shape, self.fill, self.dtype, order="C" if self.by_row else "F")
        if len(out):
            rows, columns, entries = self._rows(start, stop) if self.by_row else self._columns(start, stop)
            out[rows, columns] = self.data[entries]
        return mark_missing(out, self.missing)

    def _rows(self, start: int, stop: int) -> tuple[NDArray[Any], NDArray[Any], slice]:
        entries = slice(int(self.start[start]), int(self.start[stop]))
        rows = np.repeat(np.arange(stop - start), np.diff(self.start[start : stop + 1]))
        return rows, self.index[entries], entries

    def _columns(self, start: int, stop: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
        first = self.edges[start // self.edge_rows]
        count = self.edges[-(-stop // self.edge_rows)] - first
        # entries first[c] .. first[c] + count[c] of every column c, one behind the other
        before = np.cumsum(count) - count
        entries = np.repeat(first - before, count) + np.arange(int(count.sum()))
        columns = np.repeat(np.arange(self.n_columns), count)
        rows = self.index[entries] - start
        inside = (rows >= 0) & (rows < stop - start)  # the edges may lie outside the block
        return rows[inside], columns[inside], entries[inside]


def _row_edges(start: NDArray[Any], index: NDArray[Any], n_rows: int, step: int) -> NDArray[np.int64]:
    """First entry of each column at or behind each `step`-th row: (n_rows / step + 1, columns)."""
    rows = np.append(np.arange(0, n_rows, step), n_rows)
    edges = np.empty((len(rows), len(start) - 1), np.int64)
    for column in range(len(start) - 1):
        lo, hi = int(start[column]), int(start[column + 1])
        edges[:, column] = lo + np.searchsorted(index[lo:hi], rows)
    return edges


def read_sparse(X: Any, *, absent: str, missing: float) -> SparseTable:
    """Table over the matrix's own arrays; other formats become CSR, duplicates are added up."""
    if X.format not in ("csr", "csc"):
        X = X.tocsr()
    if X.dtype.kind not in "fiub":
        raise DataError(f"X is a sparse matrix of {X.dtype}, but the model needs real numbers.")
    if not X.has_canonical_format:
        X = X.copy()  # the user's matrix stays as it is
        X.sum_duplicates()
    n_rows, n_columns = X.shape
    small = X.dtype.kind != "f" and X.dtype.itemsize <= 2
    dtype = np.dtype(np.float32 if small or X.dtype in (np.float16, np.float32) else np.float64)
    by_row = X.format == "csr"
    edges, step = np.zeros((0, 0), np.int64), 1
    if not by_row:
        # No more edges than entries: a very wide matrix has coarser ones, and blocks read past their rows.
        step = max(block_rows_for(n_columns, dtype.itemsize), n_rows * n_columns // max(1, X.nnz))
        edges = _row_edges(X.indptr, X.indices, n_rows, step)
    fill = float("nan") if absent == "missing" else 0.0
    return SparseTable(
        n_rows,
        n_columns,
        by_row,
        X.indptr,
        X.indices,
        X.data,
        fill,
        dtype,
        missing,
        edges=edges,
        edge_rows=step,
    )
