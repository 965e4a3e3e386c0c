"""attribute_to_parquet(): the attributions of rows that need not fit into memory, in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from treeinner.model import Model, open_model
from treeinner.options import ReadOptions
from treeinner.stream import Stream, source_of
from treeinner.tables.batches import Piece
from treeinner.tables.frames import as_frame, names_of
from treeinner.tables.sources import Source

__all__ = ["attribute_to_parquet", "columns_of", "write_attributions"]

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
    model: Model = stream.model

    def attribution(piece: Piece) -> Attribution:
        X, given = model.by_name(piece.X, **stream.arguments(piece))
        X = X if X is not piece.X else stream.features(X)
        return attribute(model, X, base_margin=given.get("base_margin"), **how)

    for piece in stream.batches():
        if not piece.n_rows:
            continue
        try:
            found = attribution(piece)
        except TreeInnerError as error:
            raise stream.named(piece, error, attribution) from error
        yield piece, found


def columns_of(
    found: Attribution, dtype: Any, keep: Mapping[str, Any], row_numbers: NDArray[Any] | None = None
) -> dict[str, Any]:
    """Numbers of the rows, key columns, base values, and a column per feature (and output)."""
    _, base = found.by_output
    several = found.values.ndim == 3
    own = {name: values.astype(dtype) for name, values in found._columns().items()}
    head: dict[str, Any] = {}
    for k, output in enumerate(found.output_labels):
        head[_free(f"{output}: base_value" if several else "base_value", {**own, **keep})] = base[:, k].astype(dtype)
    twice = [name for name in keep if name in own]
    if twice:
        raise DataError(f"keep_cols={twice[0]!r}: the attributions have a column of this name; rename it in X.")
    rows = {} if row_numbers is None else {_free("row", {**own, **head, **keep}): row_numbers}
    return {**rows, **keep, **head, **own}


def _kept(piece: Piece, keep: Sequence[str]) -> dict[str, Any]:
    frame: Any = as_frame(piece.X) if keep else None
    return {name: frame[name].to_arrow() for name in keep}


def _free(name: str, taken: dict[str, Any]) -> str:
    while name in taken:
        name += "_"
    return name
