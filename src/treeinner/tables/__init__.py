"""X in any container -> a table: columns in the model's order, handed out in blocks that the kernels read.

    schema      what the model needs; what a table is
    arrays      numpy arrays and lists
    frames      data frames of any library that narwhals knows, and results as frames of that library
    sparse      scipy's sparse matrices
    columns     one column: numbers, missing values, category codes
    named       columns that are not features, by their names: target, weights, ...

    sources     rows that come in pieces: files, streams, iterators; files: Parquet, Feather and CSV
    batches     pieces put together to be worth a call

Belongs here: containers, dtypes, column names, missing values, categories. Does not: trees, losses, scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeinner.errors import DataError
from treeinner.tables.arrays import ColumnTable, DenseTable, as_array, read_array
from treeinner.tables.columns import unmasked
from treeinner.tables.frames import as_frame, read_frame, with_native_columns
from treeinner.tables.schema import Level, Schema, Table, block_rows_for
from treeinner.tables.sparse import SparseTable, checked_csr, is_sparse, read_sparse

__all__ = [
    "ColumnTable", "DenseTable", "Level", "Schema", "SparseTable", "Table", "as_read", "read_table", "refuse_by_name",
    "unmasked",
]  # fmt: skip

FROM_ARRAY = "pass the array or data frame that it was made from"
# Containers whose rows cannot be read here: (package, class) -> what to pass instead.
REFUSED = {
    ("xgboost", "DMatrix"): FROM_ARRAY,
    ("lightgbm", "Dataset"): FROM_ARRAY,
    ("catboost", "Pool"): FROM_ARRAY + " (only a CatBoost model with categorical features takes a Pool, because "
    "CatBoost itself must route its rows)",
}
# The same for every class of a package.
DISTRIBUTED = {
    "dask": "use treeinner.dask.importance(client, model, X, y) or treeinner.dask.attribute, or pass X.compute()",
    "pyspark": "use treeinner.spark.importance(model, X, label_col=...), or pass X.toPandas() or a sample of it",
}


def read_table(X: Any, schema: Schema) -> DenseTable | ColumnTable | SparseTable:
    """Check X against the schema; convert what the kernels cannot read, and nothing else."""
    if schema.external:
        raise DataError(
            "Rows cannot be routed from the table alone: this model has splits on encoded categories, which "
            "only the CatBoost model object itself can evaluate; use ti.attribute(model, X)."
        )
    refuse_by_name(X)
    table: DenseTable | ColumnTable | SparseTable
    if is_sparse(X):
        table = read_sparse(X, schema)
    elif (frame := as_frame(X)) is not None:
        table = read_frame(frame, schema)
    else:
        table = read_array(X, schema)
    if not (schema.allow_infinite and schema.allow_missing):
        _check_finite(table, schema)
    return table


def as_read(X: Any) -> Any:
    """X for other libraries, so that they see what `read_table` would: they ignore masks and trust indices.

    XGBoost ignores the byte order too, and takes one of several entries in the same place of a sparse matrix.
    """
    if isinstance(X, np.ma.MaskedArray) and X.ndim == 2:
        return as_read(as_array(X))
    if isinstance(X, np.ndarray):
        return X if X.dtype.isnative else X.astype(X.dtype.newbyteorder("="))
    if is_sparse(X):
        return checked_csr(X) if len(X.shape) == 2 else X
    return with_native_columns(X)


def refuse_by_name(X: Any) -> None:
    """Raise for containers whose rows cannot be read here, with what to pass instead."""
    for kind in type(X).__mro__:
        package, name = kind.__module__.split(".")[0].removesuffix("_expr"), kind.__name__  # dask_expr is dask
        if advice := REFUSED.get((package, name)):
            raise DataError(f"X is of type {package}.{name}; {advice}.")
        if advice := DISTRIBUTED.get(package):
            raise DataError(f"X is a {package} {name}, whose rows are not in memory; {advice}.")
    if isinstance(X, (str, bytes, dict)) and not is_sparse(X):  # a dok_matrix is a dict
        raise DataError(f"X is a {type(X).__name__}, expected a table; pass a 2-D array or a data frame.")


def _check_finite(table: DenseTable | ColumnTable | SparseTable, schema: Schema) -> None:
    """One pass in blocks; the first value that the library refuses is an error that names its column."""
    step = table.block_rows or block_rows_for(schema.n_columns, 8)
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
