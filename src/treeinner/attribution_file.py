"""attribute_to_parquet(): the attributions of rows that need not fit into memory, in a file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.attribution import Attribution, attribute, check_choice
from treeinner.compiled import Progress
from treeinner.ensemble.storage import atomic
from treeinner.errors import DataError, MissingDependencyError, TreeInnerError
from treeinner.groups import GroupSpec
from treeinner.model import open_model
from treeinner.options import ReadOptions
from treeinner.stream import Stream, source_of
from treeinner.tables.batches import Piece
from treeinner.tables.files import check_output
from treeinner.tables.frames import as_frame, names_of
from treeinner.tables.sources import Source

__all__ = ["attribute_to_parquet", "column_names", "column_values", "columns_of", "write_attributions"]

DTYPES = ("float64", "float32")


def attribute_to_parquet(
    model: Any,
    X: Any,
    path: str | Path,
    *,
    method: str = "predecomp",
    base_margin: str | Sequence[str] | None = None,
    keep_cols: Sequence[str] = (),
    row_numbers: bool = False,
    dtype: str = "float64",
    feature_groups: GroupSpec | None = None,
    n_jobs: int | None = -1,
    progress: Progress | None = None,
    **reading: Any,
) -> int:
    """Write the attributions of every row to a Parquet file; memory does not grow with the number of rows.

    Parameters
    ----------
    model, method, feature_groups, n_jobs, progress, **reading
        As for `attribute`.
    X : table or source of rows
        As for `importance`: a path, a folder or a pattern of files, a pyarrow Dataset, a polars LazyFrame, ...
    path : str or Path
        File to write; it appears whole or not at all.
    base_margin : str or list of str, optional
        Columns with the margin of each row before the first tree.
    keep_cols : sequence of str
        Columns of X to write along, such as a key.
    row_numbers : bool
        Write the number of every row, from 0, as a column "row".
    dtype : {"float64", "float32"}
        Type of base values and attributions.

    Returns
    -------
    int
        Rows written. The columns are those of `keep_cols`, then `base_value`, then one for each feature; with several
        outputs they are called "output: base_value" and "output: feature".
    """
    opened = open_model(model, ReadOptions.of(reading, caller=attribute_to_parquet))
    keep = (keep_cols,) if isinstance(keep_cols, str) else tuple(keep_cols)
    given = {"base_margin": base_margin}
    check_output(path, X if isinstance(X, list | tuple) else [X])
    source = source_of(X, given) or Source("X", lambda _: [Piece(X, "X", {})], names_of(X))
    return write_attributions(
        Stream(opened, source, given, keep), path,
        row_numbers=row_numbers, dtype=dtype, progress=progress,
        method=method, feature_groups=feature_groups, n_jobs=n_jobs,
    )  # fmt: skip


def write_attributions(
    stream: Stream,
    path: str | Path,
    *,
    row_numbers: bool = False,
    dtype: str = "float64",
    progress: Progress | None = None,
    **how: Any,
) -> int:
    """Write the attributions of a stream's rows; how: arguments of `attribute`."""
    check_choice("dtype", dtype, DTYPES)
    try:
        import pyarrow
        from pyarrow.parquet import ParquetWriter
    except ImportError:
        raise MissingDependencyError("Parquet is written with pyarrow; install it: pip install pyarrow") from None
    done, writer = 0, None
    with atomic(path) as file, ExitStack() as closing:  # the writer before the file, also after an error
        for piece, found in attributed(stream, **how):
            numbers = np.arange(done, done + len(found)) if row_numbers else None
            table = pyarrow.table(columns_of(found, np.dtype(dtype), _kept(piece, stream.keep), numbers))
            writer = writer or closing.enter_context(ParquetWriter(file, table.schema))
            try:
                writer.write_table(table.cast(writer.schema))
            except (pyarrow.ArrowException, ValueError) as error:
                raise DataError(f"{piece.where()}: keep_cols have other types than before ({error}).") from error
            done += len(found)
            if progress is not None:
                progress(done, max(done, stream.source.n_rows or 0))
        if writer is None:
            raise DataError("There are no rows to attribute; pass at least one row of X.")
    return done


def attributed(stream: Stream, **how: Any) -> Iterator[tuple[Piece, Attribution]]:
    """Rows of a stream with their attributions, batch by batch."""

    def attribution(piece: Piece) -> Attribution:
        X, given = stream.split(piece)
        return attribute(stream.model, X, base_margin=given.get("base_margin"), **how)

    for piece in stream.batches():
        if not piece.n_rows:
            continue
        try:
            found = attribution(piece)
        except TreeInnerError as error:
            raise stream.named(piece, error, attribution) from error
        yield piece, found


def column_names(features: Sequence[str], outputs: Sequence[Any], keep: Sequence[str] = ()) -> list[str]:
    """Columns of attributions, in a file or a frame of a cluster: after those that are kept, base values, features.

    With several outputs all base values come first, and a column is called "output: feature".
    """
    prefixes = [f"{output}: " for output in outputs] if len(outputs) > 1 else [""]
    values = [f"{prefix}{name}" for prefix in prefixes for name in features]
    for name in keep:
        if name in values:
            raise DataError(f"keep_cols={name!r}: the attributions have a column of this name; rename the one to keep.")
    return [_free(f"{prefix}base_value", {*values, *keep}) for prefix in prefixes] + values


def column_values(found: Attribution, dtype: Any) -> NDArray[Any]:
    """Numbers of the columns that `column_names` names, without those that are kept: (columns, rows)."""
    values, base = found.by_output
    return np.concatenate([base.T, values.transpose(2, 1, 0).reshape(-1, len(found))]).astype(dtype, copy=False)


def columns_of(
    found: Attribution, dtype: Any, keep: Mapping[str, Any], row_numbers: NDArray[Any] | None = None
) -> dict[str, Any]:
    """Numbers of the rows, key columns, base values, and a column per feature (and output)."""
    names = column_names(found.feature_names, found.output_labels, tuple(keep))
    rows = {} if row_numbers is None else {_free("row", {*names, *keep}): row_numbers}
    return {**rows, **keep, **dict(zip(names, column_values(found, dtype), strict=True))}


def _kept(piece: Piece, keep: Sequence[str]) -> dict[str, Any]:
    frame: Any = as_frame(piece.X) if keep else None
    return {name: frame[name].to_arrow() for name in keep}


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name
