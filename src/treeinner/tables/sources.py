"""Sources of rows that need not fit into memory: files, Arrow streams, queries, iterators of batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import narwhals as nw

from treeinner.errors import DataError
from treeinner.tables.batches import Piece, as_values
from treeinner.tables.columns import difference, listing
from treeinner.tables.files import ROWS, DataFile, Wanted, files_of, naming_file, open_data
from treeinner.tables.frames import as_frame
from treeinner.tables.named import ROLES

__all__ = ["Source", "as_source"]


@dataclass(frozen=True, eq=False)
class Source:
    """Where rows come from, one piece after the other."""

    what: str  # as messages call it
    read: Callable[[Wanted], Iterable[Piece]]
    names: tuple[str, ...] | None = None  # columns; None: known when the rows come
    again: bool = True  # whether it can be read more than once
    n_rows: int | None = None  # where that is known before
    library: str = ""  # in which results are returned; "": what is installed
    in_memory: bool = False  # whether it can be taken for a table too (a lazy frame)
    gives: frozenset[str] = frozenset()  # roles that come as values with every piece


def as_source(X: Any) -> Source | None:
    """The rows of X if they come one piece after the other; None: they are in memory."""
    if type(X).__module__.split(".")[0] == "narwhals":
        X = X.to_native()
    if isinstance(X, str | os.PathLike):
        return _files([X])
    if isinstance(X, list | tuple) and X and all(isinstance(path, str | os.PathLike) for path in X):
        return _files(X)
    kinds = {(kind.__module__.split(".")[0].lstrip("_"), kind.__name__) for kind in type(X).__mro__}
    for kind, source in KNOWN.items():
        if kind in kinds:
            return source(X)
    if _is_batches(X):
        return _of_batches(X)
    if hasattr(X, "__arrow_c_stream__") and not isinstance(as_frame(X), nw.DataFrame | nw.Series):
        return _arrow(X)
    return None


# -- files ---------------------------------------------------------------------------------------------------
def _files(paths: Sequence[str | os.PathLike[str]]) -> Source:
    found = [file for path in paths for file in files_of(path)]
    if len(paths) == 1 and os.path.isdir(paths[0]) and any("=" in part for file in found for part in file.parts[:-1]):
        return _hive(os.fspath(paths[0]))
    if len(set(found)) < len(found):
        twice = next(file for file in found if found.count(file) > 1)
        raise DataError(f"{twice} was given twice; its rows would count twice.")
    files = [open_data(file) for file in found]
    _check_same_columns(files)
    counts = [file.n_rows for file in files]

    def read(wanted: Wanted) -> Iterator[Piece]:
        for file in files:
            start = 0
            for batch in file.batches(wanted):
                yield Piece(batch, f"{file.path}{f', rows from {start:,} on' if start else ''}", {})
                start += batch.num_rows

    n_rows = sum(n for n in counts if n is not None)
    what = str(files[0].path) if len(files) == 1 else f"{files[0].path}, the first of {len(files)} files,"
    return Source(what, read, files[0].names, n_rows=None if None in counts else n_rows)


def _check_same_columns(files: Sequence[DataFile]) -> None:
    """Raise if a file has other columns than the first one; their order does not matter."""
    for file in files[1:]:
        if differs := difference(file.names, files[0].names):
            raise DataError(f"{file.path} {differs}, unlike {files[0].path}; write all files alike.")


def _hive(folder: str) -> Source:
    """A folder of Parquet files whose names of folders are columns: year=2024/part-0.parquet."""
    import pyarrow.dataset

    return _dataset(pyarrow.dataset.dataset(folder, partitioning="hive", format="parquet"))


# -- Arrow ---------------------------------------------------------------------------------------------------
def _dataset(dataset: Any) -> Source:
    """A pyarrow Dataset, file by file and row group by row group: its own scanner reads far ahead."""
    names = tuple(dataset.schema.names)

    def fragments() -> Iterator[Any]:
        try:
            found = list(dataset.get_fragments())
        except (NotImplementedError, ValueError):  # filtered, for one
            yield dataset
            return
        for fragment in found:
            yield from fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else [fragment]

    def read(wanted: Wanted) -> Iterator[Piece]:
        columns = list(names if wanted.columns is None else wanted.columns)
        for fragment in fragments():
            path, schema = getattr(fragment, "path", "X"), getattr(fragment, "physical_schema", None)
            some = {} if fragment is dataset else {"schema": dataset.schema}
            with naming_file(path, "Parquet"):
                _check_fragment(fragment, schema, columns, path)
                for batch in fragment.to_batches(
                    columns=columns, batch_size=ROWS, batch_readahead=1, fragment_readahead=1, **some
                ):
                    yield Piece(batch, str(path), {})

    return Source("the pyarrow Dataset", read, names)


def _check_fragment(fragment: Any, schema: Any, columns: Sequence[str], path: str) -> None:
    """Raise if a file lacks a column, which Arrow would fill with nulls."""
    if schema is None:
        return
    import pyarrow.dataset

    of_folders = pyarrow.dataset.get_partition_keys(fragment.partition_expression)
    missing = [name for name in columns if name not in schema.names and name not in of_folders]
    if missing:
        raise DataError(f"{path} lacks the columns {listing(missing)}, which other files have.")


def _arrow(X: Any) -> Source:
    """Anything that exports an Arrow stream; what knows its length has its rows in memory and gives them again."""
    import pyarrow

    first = X if isinstance(X, pyarrow.RecordBatchReader) else pyarrow.RecordBatchReader.from_stream(X)
    again = hasattr(X, "num_rows") or hasattr(X, "__len__")

    def read(wanted: Wanted) -> Iterator[Piece]:
        return _selected(pyarrow.RecordBatchReader.from_stream(X) if again else first, wanted)

    return Source(f"the {type(X).__name__}", read, tuple(first.schema.names), again=again)


def _selected(reader: Iterable[Any], wanted: Wanted) -> Iterator[Piece]:
    for number, batch in enumerate(reader):
        rows = batch if wanted.columns is None else batch.select(list(wanted.columns))
        yield Piece(rows, f"batch {number}", {})


def _duckdb(relation: Any) -> Source:
    """A DuckDB relation, which is run once for each pass."""
    names = tuple(relation.columns)

    def read(wanted: Wanted) -> Iterator[Piece]:
        columns = names if wanted.columns is None else wanted.columns
        quoted = ['"' + name.replace('"', '""') + '"' for name in columns]
        chosen = relation.project(", ".join(quoted))
        export = chosen.to_arrow_reader if hasattr(chosen, "to_arrow_reader") else chosen.fetch_record_batch
        return _selected(export(ROWS), Wanted(tuple(columns)))

    return Source("the DuckDB relation", read, names)


def _polars(frame: Any) -> Source:
    """A polars LazyFrame, which is run once for each pass."""
    names = tuple(frame.collect_schema().names())

    def read(wanted: Wanted) -> Iterator[Piece]:
        chosen = frame if wanted.columns is None else frame.select(list(wanted.columns))
        if hasattr(chosen, "collect_batches"):  # polars 1.34
            parts = chosen.collect_batches(chunk_size=ROWS, maintain_order=True)
        else:
            parts = chosen.collect(engine="streaming").iter_slices(ROWS)
        for number, part in enumerate(parts):
            yield Piece(part, f"batch {number}", {})

    return Source("the LazyFrame", read, names, library="polars", in_memory=True)


# -- iterators -----------------------------------------------------------------------------------------------
def _is_batches(X: Any) -> bool:
    """Whether X is an iterator of batches, a function that returns one, or a list of (X, y) pairs or frames."""
    if isinstance(X, list | tuple):
        return bool(X) and (isinstance(X[0], dict) or _is_pair(X[0]) or isinstance(as_frame(X[0]), nw.DataFrame))
    return hasattr(X, "__next__") or (callable(X) and not hasattr(X, "__array__") and not isinstance(X, type))


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) in (2, 3) and len(getattr(item[0], "shape", ())) == 2


def _of_batches(X: Any) -> Source:
    again = not hasattr(X, "__next__")
    items = X if again else iter(X)
    first = next(iter(items() if callable(items) else items), None)  # tells what comes with the rows

    def read(_: Wanted) -> Iterator[Piece]:
        some = items() if again and callable(items) else items if again or first is None else chain([first], items)
        for number, item in enumerate(some):
            yield _piece(item, f"batch {number}")

    gives = frozenset() if first is None else frozenset(_piece(first, "batch 0").given)
    return Source("the iterator", read, again=again, gives=gives)


def _piece(item: Any, label: str) -> Piece:
    """A batch of an iterator: (X, y), (X, y, sample_weight), a dict of update's arguments, or a frame."""
    if isinstance(item, tuple):
        if len(item) not in (2, 3):
            raise DataError(f"{label} is a tuple of {len(item)}; expected (X, y) or (X, y, sample_weight).")
        item = dict(zip(("X", "y", "sample_weight"), item, strict=False))
    if not isinstance(item, dict):
        return Piece(_own(item), label, {})
    unknown = item.keys() - {"X", *ROLES}
    if unknown or "X" not in item:
        raise DataError(f"{label} is a dict of {listing(sorted(map(str, item)))}; expected X, {', '.join(ROLES)}.")
    return Piece(_own(item["X"]), label, {role: _own(as_values(item[role])) for role in ROLES if role in item})


def _own(value: Any) -> Any:
    """A copy, since callers write the next batch into the same memory; what Arrow and polars hold does not change."""
    return value.copy() if hasattr(value, "copy") else value


def _data_iter(iterator: Any) -> Source:
    """An xgboost.DataIter, which hands its batches to a function."""

    def read(_: Wanted) -> Iterator[Piece]:
        iterator.reset()
        found: list[Piece] = []

        def take(data: Any = None, **given: Any) -> None:
            found.append(_piece_of_data_iter(data, given, f"batch {len(found)}"))

        while iterator.next(take):
            yield found[-1]
            found[-1] = Piece(None, "", {})  # not held

    return Source("the DataIter", read)


def _piece_of_data_iter(data: Any, given: Mapping[str, Any], label: str) -> Piece:
    roles = {"label": "y", "weight": "sample_weight", "base_margin": "base_margin", "qid": "qid"}
    known = {*roles, "feature_names", "feature_types", "feature_weights"}
    unknown = [name for name, value in given.items() if value is not None and name not in known]
    if unknown:
        raise DataError(f"{label} of the DataIter has {listing(unknown)}, which scores do not take.")
    kept = {role: _own(as_values(given[name])) for name, role in roles.items() if given.get(name) is not None}
    return Piece(_own(data), label, kept)


KNOWN: dict[tuple[str, str], Callable[[Any], Source]] = {
    ("pyarrow", "Dataset"): _dataset,
    ("pyarrow", "RecordBatchReader"): _arrow,
    ("duckdb", "DuckDBPyRelation"): _duckdb,
    ("polars", "LazyFrame"): _polars,
    ("xgboost", "DataIter"): _data_iter,
}
