"""Rows that need not fit into memory: files, Arrow streams, lazy frames, iterators of batches -> a Stream of Rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from treeinner.errors import DataError, MissingDependencyError, Note, TreeInnerError, listing
from treeinner.rows import rows as in_memory
from treeinner.rows.frames import as_frame, collected, values_of
from treeinner.rows.rows import ROLES, Rows, needs_all_rows, one_batch, split
from treeinner.rows.table import is_sparse, refuse_by_name

if TYPE_CHECKING:
    from treeinner.read.model import Model

__all__ = ["Stream", "load_table", "read_rows"]

ROWS = 65_536  # of a batch: enough for a call to be worth it, few enough to hold
ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather", ".csv": "csv"}
CSV_BLOCK = 1 << 24  # bytes read at a time; the first block decides on the types
Piece = tuple[str, dict[str, Any]]  # the file or batch, as messages call it; X, and what comes with it
# Columns to read, None: all; and those whose integers are labels and stay integers, with the categories that the model
# knows there (None: it does not say). Files do not know what the model takes for a category.
Wanted = tuple[list[str] | None, Mapping[str, Sequence[Any] | None]]
# Where rows come from, as messages call it; what reads them; names of columns, None: known when the rows come; whether
# they can be read again.
Source = tuple[str, Callable[[Wanted], Iterator[Piece]], list[str] | None, bool]


@dataclass(eq=False)
class Stream:
    """An iterable of Rows; rows in memory are one of them."""

    read: Callable[[], Iterable[Rows]]
    head: Any  # first rows of X as they came, without columns that are not features
    names: tuple[str, ...] | None  # columns of X, where the model stores none
    clustered: bool
    again: bool = True  # whether the rows can be read more than once
    notes: dict[Note, None] = field(default_factory=dict)  # what was noticed so far; the user was warned already

    def __iter__(self) -> Iterator[Rows]:
        for rows in self.read():
            self.notes |= dict.fromkeys(rows.table.notes)
            yield rows


def read_rows(
    model: Model, X: Any, y: Any = None, *, oob: bool = False, largest_weight: float | None = None, **given: Any
) -> Stream:
    """Rows of X with what comes with them, checked: one Rows in memory, or many one after the other.

    given: sample_weight, clusters, base_margin, qid, by. Like y, they may be names of columns of X. largest_weight: the
    largest sample_weight of all rows, if these are some of them; None: that of these rows. freq: what dates in by
    become.
    """
    if unknown := given.keys() - {*ROLES, "freq"}:
        raise TypeError(f"read_rows() got an unexpected keyword argument {min(unknown)!r}")
    given = {**dict.fromkeys(ROLES), "y": y, **given}
    # Queries must not be cut where a file ends; batches of an iterator may bring theirs along.
    all_at_once = oob or needs_all_rows(model) or given["qid"] is not None
    if not all_at_once and (source := source_of(X)) is not None:
        return _stream(model, source, given, largest_weight)
    X, given = load_table(model, X, given)
    rows = one_batch(model, X, given, oob=oob, largest_weight=largest_weight)
    return Stream(lambda: [rows], X, rows.names, rows.clusters is not None)


def load_table(model: Model, X: Any, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """X with the model's columns in memory, files read whole, and `given` with values in place of names of columns."""
    if (source := source_of(X)) is not None:
        what, read, _, _ = source
        with naming(what):
            pieces = [collected(batch["X"]) for _, batch in read(_wanted(model, source, given))]
            X = nw.concat(pieces).to_native()
    return split(model, X, given)


def _stream(model: Model, source: Source, given: dict[str, Any], largest: float | None) -> Stream:
    """The rows of a source as the model takes them."""
    what, read, _, again = source
    wanted = _wanted(model, source, given)
    start: Any = read(wanted)
    with naming(what):
        first = next((piece for piece in start if np.shape(piece[1]["X"])[0]), None)  # tells what comes with the rows
    if first is None:
        raise DataError(f"X is {what}, which has no rows; pass at least one.")
    rest = chain([first], start)
    if again:
        start.close()
    roles = first[1].keys()
    if largest is None and (given["sample_weight"] is not None or "sample_weight" in roles):
        largest = _largest_weight(source, wanted, given["sample_weight"])

    def batches() -> Iterator[Rows]:
        for label, batch in read(wanted) if again else rest:
            with naming(label):
                if batch.keys() != roles:
                    raise DataError(f"it comes with {listing(list(batch))}, but the first with {listing(list(roles))}.")
                if np.shape(batch["X"])[0]:
                    rows = one_batch(model, *split(model, batch["X"], given | batch), largest_weight=largest)
                    # Nobody wants a pyarrow table for a result because rows came from a file.
                    yield replace(rows, label=label, frame_library=rows.frame_library.replace("pyarrow", ""))

    head = split(model, first[1]["X"], given | first[1])[0]
    clustered = given["clusters"] is not None or "clusters" in roles
    return Stream(batches, head, in_memory.names_in(model, head), clustered, again)


def _wanted(model: Model, source: Source, given: Mapping[str, Any]) -> Wanted:
    """Columns of a source to read; all of an iterator's, whose columns are not known yet."""
    what, _, names, _ = source
    for role, value in given.items():
        if value is not None and not isinstance(value, str | list | tuple):
            raise DataError(f"X is {what}; pass {role} as the name of a column, or all rows in a data frame.")
    if names is None:
        return None, {}
    roles = in_memory.roles_among(given, names, what)
    features = in_memory.features_among(model, names, roles, what)
    schema = model.schema
    own = [] if model.transformers or schema.n_columns != len(features) else features
    labels = [*roles.get("clusters", ()), *roles.get("by", ())]
    categories = {name: schema.levels_of(j) for j, name in enumerate(own) if schema.is_categorical(j)}
    return list(dict.fromkeys(chain(features, *roles.values()))), dict.fromkeys(labels) | categories


def _largest_weight(source: Source, wanted: Wanted, name: str | None) -> float:
    """The largest of all weights, from one pass over them alone."""
    what, read, names, again = source
    if not again:
        raise DataError(f"X is {what} that can be read only once; weights need a function that returns it.")
    largest = 0.0
    for label, batch in read(wanted if name is None or names is None else ([name], {})):
        with naming(label):
            weight = batch["sample_weight"] if name is None else values_of(collected(batch["X"])[name])
            largest = max(largest, in_memory.given_weights(weight, len(weight)).max(initial=0.0))
    if not largest:
        raise DataError(in_memory.NO_WEIGHT)
    return largest


@contextmanager
def naming(label: str) -> Iterator[None]:
    """Put the file or batch that is at fault into an error."""
    try:
        yield
    except TreeInnerError as error:
        raise (error if label in str(error) else type(error)(f"{label}: {error}")) from error
    except (OSError, KeyError, TypeError, ValueError) as error:  # of Arrow, or a pipeline's transformer
        raise DataError(f"{label} cannot be read: {type(error).__name__}: {error}") from error


# -- sources -------------------------------------------------------------------------------------------------
def source_of(X: Any) -> Source | None:
    """The rows of X if they come one piece after the other; None: they are in memory."""
    if type(X) is np.ndarray or is_sparse(X) or hasattr(X, "num_row"):  # a catboost.Pool
        return None
    items = X if isinstance(X, list | tuple) else [X]
    if items and all(isinstance(path, str | os.PathLike) for path in items):
        return _files([Path(path) for path in items])
    refuse_by_name(X)
    frame = as_frame(X)
    if hasattr(lazy := nw.to_native(frame, pass_through=True), "collect_batches"):  # polars 1.34
        return _batches(lambda: lazy.collect_batches(chunk_size=ROWS, maintain_order=True), "a LazyFrame")
    if hasattr(X, "get_fragments"):
        return "a pyarrow Dataset", partial(_scan, X), X.schema.names, True
    if isinstance(frame, nw.DataFrame | nw.Series) or hasattr(X, "__array__"):
        return None
    if hasattr(X, "__arrow_c_stream__"):
        export = _pyarrow().RecordBatchReader.from_stream
        # What knows its length, such as a DuckDB relation, is run again.
        return _batches((lambda: export(X)) if hasattr(X, "__len__") else iter(export(X)), f"a {type(X).__name__}")
    if isinstance(X, list | tuple):
        first = X[0] if X else None
        first = first[0] if isinstance(first, tuple) and first else first  # (X, y)
        return _batches(X, "a list") if isinstance(first, dict) or len(getattr(first, "shape", ())) == 2 else None
    return _batches(X, "an iterator") if callable(X) or hasattr(X, "__iter__") else None


def _batches(X: Any, what: str) -> Source:
    """An iterable of batches, or a function that returns one; an iterator gives them once."""

    def read(_: Wanted) -> Iterator[Piece]:
        for number, item in enumerate(X() if callable(X) else X):
            yield f"batch {number}", _batch(item, f"batch {number}")

    return what, read, None, not hasattr(X, "__next__")


def _batch(item: Any, label: str) -> dict[str, Any]:
    """X and what comes with it, of (X, y), (X, y, sample_weight), a dict of such, or a frame."""
    if isinstance(item, tuple) and len(item) in (2, 3):
        item = dict(zip(("X", "y", "sample_weight"), item, strict=False))
    given = item if isinstance(item, dict) else {"X": item}
    if isinstance(item, tuple) or not {"X"} <= given.keys() <= {"X", *ROLES}:
        raise DataError(f"{label}: expected (X, y), (X, y, sample_weight), or a dict of X, {', '.join(ROLES)}.")
    # Copies, since callers write the next batch into the same memory. What Arrow and polars hold does not change.
    return {
        role: value.copy() if hasattr(value, "copy") else value for role, value in given.items() if value is not None
    }


# -- files ---------------------------------------------------------------------------------------------------
def _files(paths: Sequence[Path]) -> Source:
    """Parquet, Feather or CSV files, or a folder of them, as a pyarrow Dataset."""
    pa = _pyarrow()
    if missing := [path for path in paths if not path.exists()]:
        raise DataError(f"There is no data file {missing[0]}.")
    inside = [file for file in (sorted(paths[0].rglob("*")) if paths[0].is_dir() else paths) if _kind(file)]
    if len({_kind(file) for file in inside}) != 1 or len(set(paths)) < len(paths):
        raise DataError(f"{paths[0]}: expected Parquet, Feather or CSV files of one kind, none twice, or one folder.")
    source = [str(file) for file in paths] if len(paths) > 1 else str(paths[0])
    options = {"source": source, "partitioning": "hive" if paths[0].is_dir() else None}

    def opened(wanted: Wanted) -> Any:
        with naming(str(paths[0])):
            if _kind(inside[0]) != "csv":
                return pa.dataset.dataset(**options, format=_kind(inside[0]))
            # Types that later rows fit too: integers may have fractions there, and nulls values.
            format = _csv_format(str(inside[0]), wanted)
            schema = pa.dataset.dataset(**options, format=format).schema
            for j, column in enumerate(schema):
                if column.name not in wanted[1] and str(column.type) in ("int64", "null"):
                    schema = schema.set(j, column.with_type(pa.float64()))
            return pa.dataset.dataset(**options, format=format, schema=schema)

    return str(paths[0]), lambda wanted: _scan(opened(wanted), wanted), opened((None, {})).schema.names, True


def _kind(path: Path) -> str:
    return next((ENDINGS[suffix] for suffix in path.suffixes if suffix in ENDINGS), "")


def _csv_format(path: str, wanted: Wanted) -> Any:
    """How to read CSV: what stands between the columns, which are text, and which words are values."""
    pa = _pyarrow()
    with pa.input_stream(path, compression="detect") as stream:
        first = bytes(stream.read(1 << 16)).partition(b"\n")[0].decode(errors="replace")
    levels = {name: known for name, known in wanted[1].items() if known is not None}
    words = {str(level) for known in levels.values() for level in known}
    text = [name for name, known in levels.items() if all(isinstance(level, str) for level in known)]
    return pa.dataset.CsvFileFormat(
        parse_options=pa.csv.ParseOptions(delimiter=max(",;\t|", key=first.count), newlines_in_values=True),
        read_options=pa.csv.ReadOptions(block_size=CSV_BLOCK),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(text, pa.string()),
            null_values=[word for word in pa.csv.ConvertOptions().null_values if word not in words],
            strings_can_be_null=True,
        ),
    )


def _scan(dataset: Any, wanted: Wanted) -> Iterator[Piece]:
    """Rows of a Dataset, file by file and row group by row group: its own scanner reads far ahead."""
    columns = wanted[0] or dataset.schema.names
    options = {"columns": columns, "batch_size": ROWS, "batch_readahead": 1, "fragment_readahead": 1}
    for file in dataset.get_fragments():
        path = str(getattr(file, "path", "X"))
        with naming(path):
            options["schema"] = _schema_of(file, dataset, columns)
            for part in file.split_by_row_group() if hasattr(file, "split_by_row_group") else [file]:
                for batch in part.to_batches(**options):
                    for j, name in enumerate(columns):  # numbers would be taken for codes of the categories
                        if wanted[1].get(name) is not None and not hasattr(batch.column(j), "dictionary"):
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


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.dataset
    except ImportError:
        raise MissingDependencyError("Files are read with pyarrow; install it: pip install pyarrow") from None
    return pyarrow
