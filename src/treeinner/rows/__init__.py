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

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from treeinner.rows.rows import Rows, needs_all_rows, one_batch, read_table
from treeinner.rows.schema import Level, Schema
from treeinner.rows.table import DenseTable, SparseTable, Table

if TYPE_CHECKING:
    from treeinner.read.model import Model

__all__ = [
    "DenseTable", "Level", "Rows", "Schema", "SparseTable", "Table", "needs_all_rows", "read_rows", "read_table",
]  # fmt: skip


def read_rows(
    model: Model,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    clusters: Any = None,
    base_margin: Any = None,
    qid: Any = None,
    by: Any = None,
    oob: bool = False,
    largest_weight: float | None = None,
) -> Sequence[Rows]:
    """Rows of X with what comes with them, checked: a list of one Rows, or a Stream of them."""
    given = {
        "y": y, "sample_weight": sample_weight, "clusters": clusters, "base_margin": base_margin, "qid": qid, "by": by,
    }  # fmt: skip
    return [one_batch(model, X, given, oob=oob, largest_weight=largest_weight)]
