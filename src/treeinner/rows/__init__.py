"""X, y and what comes with them -> Rows, or a stream of Rows.

    schema      what a model's table must look like
    columns     one column: numbers, missing values, category codes; labels of rows
    frames      data frames of any library that narwhals knows, and results as frames of that library
    table       tables: arrays, frames and sparse matrices, in blocks that the kernels read
    rows        Rows: a table with target, weights, margins, clusters and queries, checked against the model
    stream      rows that need not fit into memory: files, Arrow streams, lazy frames, iterators of batches

Belongs here: containers, dtypes, column names, missing values, categories. Does not: trees, losses, scores.
"""

from __future__ import annotations

from treeinner.rows.rows import Rows, needs_all_rows, read_table
from treeinner.rows.schema import Level, Schema
from treeinner.rows.stream import Stream, load_table, read_rows
from treeinner.rows.table import DenseTable, SparseTable, Table

__all__ = [
    "DenseTable", "Level", "Rows", "Schema", "SparseTable", "Stream", "Table", "load_table", "needs_all_rows",
    "read_rows", "read_table",
]  # fmt: skip
