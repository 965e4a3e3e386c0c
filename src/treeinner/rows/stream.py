"""Rows that need not fit into memory: files, Arrow streams, lazy frames, iterators of batches -> a Stream of Rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from treeinner.errors import DataError, MissingDependencyError, TreeInnerError
from treeinner.rows.columns import listing
from treeinner.rows.frames import as_frame, collected, values_of
from treeinner.rows.rows import (
    LABELS,
    NO_WEIGHT,
    ROLES,
    Rows,
    features_among,
    given_weights,
    named,
    needs_all_rows,
    one_batch,
    roles_among,
    split,
)
from treeinner.rows.table import is_sparse, refuse_by_name

if TYPE_CHECKING:
    from treeinner.read.model import Model

__all__ = ["Stream", "load_table", "read_rows"]

ROWS = 65_536  # of a batch: enough for a call to be worth it, few enough to hold
ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather", ".ipc": "feather"}
ENDINGS |= {".csv": "csv", ".tsv": "csv"}
DELIMITERS = (",", ";", "\t", "|")
CSV_BLOCK = 1 << 24  # bytes read at a time; the first block decides on the types


@dataclass(eq=False)
class Stream:
    """An iterable of Rows; rows in memory are one of them."""

    read: Callable[[], Iterable[Rows]]
    head: Any  # first rows of X as they came, without columns that are not features
    names: tuple[str, ...] | None = None  # columns of X, where the model stores none
    clustered: bool = False
    again: bool = True  # whether the rows can be read more than once

    def __iter__(self) -> Iterator[Rows]:
        return iter(self.read())


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Columns of a source to read; the rest is for files, which do not know what the model takes for a category."""

    columns: list[str] | None = None  # None: all
    levels: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # columns of categories -> those that are known
    integers: Sequence[str] = ()  # columns whose integers are labels, and stay integers


Piece = tuple[str, dict[str, Any]]  # the file or batch, as messages call it; X, and what comes with it


@dataclass(frozen=True)
class Source:
    """Where rows come from, one piece after the other."""

    what: str  # as messages call it
    read: Callable[[Wanted], Iterable[Piece]]
    names: list[str] | None = None  # columns; None: known when the rows come
    again: bool = True
    library: str = ""  # in which results are returned; "": what is installed


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
) -> Stream:
    """Rows of X with what comes with them, checked: one Rows in memory, or many one after the other.

    y, sample_weight, clusters, base_margin, qid and by may be names of columns of X. largest_weight: the largest
    sample_weight of all rows, if these are some of them; None: that of these rows.
    """
    given = dict(zip(ROLES, (y, sample_weight, clusters, base_margin, qid, by), strict=True))
    source = source_of(X)
    if source is None:
        X, given = split(model, X, given)
        rows = one_batch(model, X, given, oob=oob, largest_weight=largest_weight)
        return Stream(lambda: [rows], X, rows.names, rows.clusters is not None)
    arrays = [role for role, value in given.items() if value is not None and not isinstance(value, str | list | tuple)]
    reason = f"{arrays[0]} is no name of a column" if arrays else "oob=True" if oob else needs_all_rows(model)
    if reason:
        raise DataError(
            f"X is {source.what}, whose rows are read piece by piece, but {reason}; read all rows into a data frame."
        )
    return _stream(model, source, given, largest_weight)


def load_table(model: Model, X: Any, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """X with the model's columns in memory, files read whole, and `given` with values in place of names of columns."""
    source = source_of(X)
    if source is not None:
        with naming(source.what):
            pieces = [collected(batch["X"]) for _, batch in source.read(_wanted(model, source, given))]
            X = nw.concat(pieces).to_native()
    return split(model, X, given)


def _stream(model: Model, source: Source, given: Mapping[str, Any], largest: float | None) -> Stream:
    """The rows of a source as the model takes them."""
    wanted = _wanted(model, source, given)
    start = iter(source.read(wanted))
    first = next(((label, batch) for label, batch in start if _n_rows(batch["X"])), None)  # tells what comes with X
    if first is None:
        raise DataError(f"X is {source.what}, which has no rows; pass at least one.")
    roles = first[1].keys()
    if largest is None and (given["sample_weight"] is not None or "sample_weight" in roles):
        largest = _largest_weight(source, wanted, given["sample_weight"])
    rest = chain([first], start)

    def read(label: str, batch: Mapping[str, Any]) -> Rows:
        with naming(label):
            if batch.keys() != roles:
                raise DataError(f"it comes with {listing(list(batch))}, but the first with {listing(list(roles))}.")
            X, values = split(model, batch["X"], {**given, **batch})
            rows = one_batch(model, X, {role: values[role] for role in ROLES}, largest_weight=largest)
            return replace(rows, label=label, frame_library=source.library)

    def batches() -> Iterator[Rows]:
        pieces = source.read(wanted) if source.again else rest
        whole = pieces if not isinstance(given["qid"], str) else _whole_queries(pieces, given["qid"])
        return (read(label, batch) for label, batch in whole if _n_rows(batch["X"]))

    head = split(model, first[1]["X"], {**given, **first[1]})[0]
    clustered = given["clusters"] is not None or "clusters" in roles
    return Stream(batches, head, read(*first).names, clustered, source.again)


def _wanted(model: Model, source: Source, given: Mapping[str, Any]) -> Wanted:
    """Columns of a source to read; all of an iterator's, whose columns are not known yet."""
    if source.names is None:
        return Wanted()
    roles = roles_among(given, source.names, source.what)
    features = features_among(model, source.names, roles, source.what)
    own = not model.transformers and len(model.schema.categorical or ()) == len(features)
    levels = {
        name: model.schema.levels_of(j) for j, name in enumerate(features) if own and model.schema.is_categorical(j)
    }
    return Wanted(
        columns=list(dict.fromkeys(chain(features, *roles.values()))),
        levels={name: known for name, known in levels.items() if known is not None},
        integers=[*levels, *chain(*(roles.get(role, ()) for role in LABELS))],
    )


def _largest_weight(source: Source, wanted: Wanted, name: str | None) -> float:
    """The largest of all weights, from one pass over them alone."""
    if not source.again:
        raise DataError(
            f"X is {source.what} that can be read only once, but the largest weight must be known first; pass a "
            "function that returns the iterator, or files."
        )
    largest = 0.0
    for label, batch in source.read(wanted if name is None or source.names is None else Wanted(columns=[name])):
        with naming(label):
            weight = batch["sample_weight"] if name is None else values_of(collected(batch["X"])[name])
            largest = max(largest, given_weights(weight, _n_rows(batch["X"])).max(initial=0.0))
    if not largest:
        raise DataError(NO_WEIGHT)
    return largest


def _whole_queries(pieces: Iterable[Piece], qid: str) -> Iterator[Piece]:
    """Pieces that end where a query ends: the rows of the last one wait for the next piece."""
    held: list[nw.DataFrame[Any]] = []
    label = ""
    for label, batch in pieces:
        rows = nw.concat([*held, collected(batch["X"])])
        query = values_of(rows[qid])
        others = np.flatnonzero(query[:-1] != query[-1:])
        end = int(others[-1]) + 1 if len(others) else 0
        yield label, {"X": rows[:end]}
        held = [rows[end:]]
    yield from ((label, {"X": rows}) for rows in held)


def _n_rows(X: Any) -> int:
    shape = getattr(X, "shape", None)
    return int(shape[0] if shape else len(X))


@contextmanager
def naming(label: str) -> Iterator[None]:
    """Put the file or batch that is at fault into an error."""
    try:
        yield
    except TreeInnerError as error:
        raise named(label, error) from error
    except (OSError, KeyError, TypeError, ValueError) as error:  # of Arrow, or a pipeline's transformer
        raise DataError(f"{label} cannot be read: {type(error).__name__}: {error}") from error


# -- sources -------------------------------------------------------------------------------------------------
def source_of(X: Any) -> Source | None:
    """The rows of X if they come one piece after the other; None: they are in memory."""
    if type(X) is np.ndarray or is_sparse(X):
        return None
    paths = X if isinstance(X, list | tuple) else [X]
    if paths and all(isinstance(path, str | os.PathLike) for path in paths):
        return _files([Path(path) for path in paths])
    refuse_by_name(X)
    frame = as_frame(X)
    if isinstance(frame, nw.LazyFrame) and frame.implementation.is_polars():
        return _lazy(frame.to_native())
    if isinstance(frame, nw.DataFrame | nw.Series) or hasattr(X, "__array__"):
        return None
    if any((kind.__module__, kind.__name__) == ("pyarrow._dataset", "Dataset") for kind in type(X).__mro__):
        return Source("a pyarrow Dataset", lambda wanted: _scan(X, wanted), X.schema.names)
    if hasattr(X, "__arrow_c_stream__"):
        export = _pyarrow().RecordBatchReader.from_stream
        # What knows its length, such as a DuckDB relation, is run again.
        return _batches((lambda: export(X)) if hasattr(X, "__len__") else iter(export(X)), f"a {type(X).__name__}")
    if not callable(X) and not (hasattr(X, "__iter__") and not (isinstance(X, list | tuple) and _is_table(X))):
        return None
    return _batches(X, "an iterator")


def _is_table(rows: Sequence[Any]) -> bool:
    """Whether a list holds rows, not batches of rows."""
    first = rows[0] if rows else None
    X = first[0] if isinstance(first, tuple) and first else first
    return not (isinstance(X, dict) or len(getattr(X, "shape", ())) == 2)


def _batches(X: Any, what: str) -> Source:
    """An iterable of batches, or a function that returns one; an iterator gives them once."""

    def read(_: Wanted) -> Iterator[Piece]:
        for number, item in enumerate(X() if callable(X) else X):
            yield f"batch {number}", _batch(item, f"batch {number}")

    return Source(what, read, again=not hasattr(X, "__next__"))


def _batch(item: Any, label: str) -> dict[str, Any]:
    """X and what comes with it, of (X, y), (X, y, sample_weight), a dict of such, or a frame."""
    if isinstance(item, tuple) and len(item) in (2, 3):
        item = dict(zip(("X", "y", "sample_weight"), item, strict=False))
    given = item if isinstance(item, dict) else {"X": item}
    if isinstance(item, tuple) or not {"X"} <= given.keys() <= {"X", *ROLES}:
        raise DataError(
            f"{label} is a {type(item).__name__} of {len(item)}; expected (X, y), (X, y, sample_weight), or a dict of "
            f"X, {', '.join(ROLES)}."
        )
    # Copies, since callers write the next batch into the same memory. What Arrow and polars hold does not change.
    return {
        role: value.copy() if hasattr(value, "copy") else value for role, value in given.items() if value is not None
    }


def _lazy(frame: Any) -> Source:
    """A polars LazyFrame, which is run once for each pass."""

    def read(wanted: Wanted) -> Iterator[Piece]:
        chosen = frame.select(wanted.columns or frame.collect_schema().names())
        some = {"chunk_size": ROWS, "maintain_order": True}
        parts = chosen.collect_batches(**some) if hasattr(chosen, "collect_batches") else [chosen.collect()]
        for number, part in enumerate(parts):  # polars 1.34 has batches
            yield f"batch {number}", {"X": part}

    return Source("a LazyFrame", read, frame.collect_schema().names(), library="polars")


# -- files ---------------------------------------------------------------------------------------------------
def _files(paths: Sequence[Path]) -> Source:
    """Parquet, Feather or CSV files, or a folder of them, as a pyarrow Dataset."""
    inside = sorted(paths[0].rglob("*")) if paths[0].is_dir() else list(paths)
    kinds = [ENDINGS[suffix] for file in inside for suffix in file.suffixes if suffix in ENDINGS]
    if missing := [path for path in paths if not path.exists()]:
        raise DataError(f"There is no data file {missing[0]}.")
    if not kinds or len(set(paths)) < len(paths):
        raise DataError(f"{paths[0]}: expected Parquet, Feather or CSV files, each one once, or one folder of them.")
    source = str(paths[0]) if len(paths) == 1 else [str(path) for path in paths]
    first = str(next(file for file in inside if file.suffix))
    pa = _pyarrow()

    def opened(wanted: Wanted) -> Any:
        with naming(str(paths[0])):
            format = _csv_format(first, wanted) if kinds[0] == "csv" else kinds[0]
            found = pa.dataset.dataset(source, format=format, partitioning="hive" if paths[0].is_dir() else None)
            return found.replace_schema(_csv_types(found.schema, wanted)) if kinds[0] == "csv" else found

    names = opened(Wanted()).schema.names
    if repeated := {name for name in names if names.count(name) > 1}:
        raise DataError(f"{paths[0]} has duplicate column names: {listing(sorted(repeated))}; rename them.")
    return Source(str(paths[0]), lambda wanted: _scan(opened(wanted), wanted), names)


def _scan(dataset: Any, wanted: Wanted) -> Iterator[Piece]:
    """Rows of a Dataset, file by file and row group by row group: its own scanner reads far ahead."""
    columns = wanted.columns or dataset.schema.names
    options = {"columns": columns, "batch_size": ROWS, "batch_readahead": 1, "fragment_readahead": 1}
    try:
        files = list(dataset.get_fragments())
    except (NotImplementedError, ValueError):  # filtered, for one
        files = [dataset]
    for file in files:
        path = str(getattr(file, "path", "X"))
        with naming(path):
            schema = dataset.schema if file is dataset else _schema_of(file, dataset, columns)
            for part in file.split_by_row_group() if hasattr(file, "split_by_row_group") else [file]:
                for batch in part.to_batches(**options, **({} if file is dataset else {"schema": schema})):
                    for j, name in enumerate(columns):  # numbers would be taken for codes of the categories
                        if name in wanted.levels and not hasattr(batch.column(j), "dictionary"):
                            batch = batch.set_column(j, name, batch.column(j).dictionary_encode())  # noqa: PLW2901
                    yield path, {"X": batch}


def _schema_of(file: Any, dataset: Any, columns: Sequence[str]) -> Any:
    """Types of a file's columns, its own where it has any; a column that it lacks Arrow would fill with nulls."""
    pa = _pyarrow()
    own, of_folders = file.physical_schema, pa.dataset.get_partition_keys(file.partition_expression)
    if missing := [name for name in columns if name not in own.names and name not in of_folders]:
        raise DataError(f"it lacks the columns {listing(missing)}, which other files have.")
    if isinstance(getattr(file, "format", None), pa.dataset.CsvFileFormat):
        return dataset.schema
    return pa.schema([(dataset.schema if name in of_folders else own).field(name) for name in columns])


def _csv_format(path: str, wanted: Wanted) -> Any:
    """How to read CSV: what stands between the columns, which are text, and which words are values."""
    pa = _pyarrow()
    with pa.input_stream(path, compression="detect") as stream:
        first = bytes(stream.read(1 << 16)).partition(b"\n")[0].decode(errors="replace")
    words = {str(level) for known in wanted.levels.values() for level in known}
    text = [name for name, known in wanted.levels.items() if all(isinstance(level, str) for level in known)]
    return pa.dataset.CsvFileFormat(
        parse_options=pa.csv.ParseOptions(delimiter=max(DELIMITERS, key=first.count), newlines_in_values=True),
        read_options=pa.csv.ReadOptions(block_size=CSV_BLOCK),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(text, pa.string()),
            null_values=[word for word in pa.csv.ConvertOptions().null_values if word not in words],
            strings_can_be_null=True,
        ),
    )


def _csv_types(schema: Any, wanted: Wanted) -> Any:
    """Types that later rows fit too: integers may have fractions there, and nulls values."""
    pa = _pyarrow()
    wide = [f.name not in wanted.integers and (pa.types.is_integer(f.type) or pa.types.is_null(f.type)) for f in schema]
    return pa.schema([f.with_type(pa.float64()) if w else f for f, w in zip(schema, wide, strict=True)])


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.dataset
    except ImportError:
        raise MissingDependencyError("Files are read with pyarrow; install it: pip install pyarrow") from None
    return pyarrow
