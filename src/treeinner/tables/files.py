"""Data files -> batches of Arrow: Parquet, Feather and CSV, told by their first bytes, else by their ending."""

from __future__ import annotations

import csv
import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treeinner.errors import DataError, MissingDependencyError
from treeinner.tables.columns import listing

__all__ = ["ROWS", "DataFile", "Wanted", "check_output", "files_of", "looks_like_data", "naming_file", "open_data"]

ROWS = 65_536  # of a batch: enough for a call to be worth it, few enough to hold
MAGIC = {b"PAR1": "Parquet", b"ARROW1": "Feather", b"FEA1": "Feather"}
ENDINGS = {
    **dict.fromkeys((".parquet", ".pq"), "Parquet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "Feather"),
    **dict.fromkeys((".csv", ".tsv"), "CSV"),
}
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
DELIMITERS = (",", ";", "\t", "|")
CSV_BLOCK = 1 << 24  # bytes read at a time; the first block decides on the types


@dataclass(frozen=True)
class Wanted:
    """Columns to read, None for all. The rest is for CSV, which has no types."""

    columns: tuple[str, ...] | None = None
    text: frozenset[str] = frozenset()  # columns that hold text, whatever it looks like
    labels: frozenset[str] = frozenset()  # columns whose integers are labels, and stay integers
    categories: frozenset[str] = frozenset()  # columns that hold categories, whatever the type (in every file)
    words: frozenset[str] = frozenset()  # values here, though CSV files often mean "missing" by them ("NA")


@dataclass(frozen=True)
class DataFile:
    """A file whose columns are known and whose rows are not read yet."""

    path: Path
    kind: str
    names: tuple[str, ...]
    delimiter: str  # of CSV
    n_rows: int | None  # where the file says so
    stamp: tuple[int, int]  # size and time of change when it was opened

    def batches(self, wanted: Wanted) -> Iterator[Any]:
        """Rows as pyarrow.RecordBatches with the wanted columns, in their order."""
        columns = list(self.names if wanted.columns is None else wanted.columns)
        if _stamp(self.path) != self.stamp:
            raise DataError(f"{self.path} has changed while it was read; start again when nothing writes to it.")
        read = {"Parquet": self._parquet, "Feather": self._feather, "CSV": self._csv}[self.kind]
        with naming_file(self.path, self.kind):
            for batch in read(columns, wanted):
                yield _with_categories(batch.select(columns), wanted.categories)

    def _parquet(self, columns: list[str], _: Wanted) -> Iterator[Any]:
        from pyarrow.parquet import ParquetFile

        with ParquetFile(self.path, pre_buffer=False) as file:  # else Arrow holds what it has read of a large file
            yield from file.iter_batches(batch_size=ROWS, columns=columns)

    def _feather(self, columns: list[str], _: Wanted) -> Iterator[Any]:
        import pyarrow
        import pyarrow.feather

        if _head(self.path).startswith(b"FEA1"):  # version 1 has no batches
            yield from pyarrow.feather.read_table(self.path, columns=columns).to_batches(max_chunksize=ROWS)
            return
        options = pyarrow.ipc.IpcReadOptions(included_fields=sorted(self.names.index(name) for name in columns))
        with pyarrow.memory_map(str(self.path)) as memory, pyarrow.ipc.open_file(memory, options=options) as file:
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                for start in range(0, batch.num_rows, ROWS):
                    yield batch.slice(start, ROWS)

    def _csv(self, columns: list[str], wanted: Wanted) -> Iterator[Any]:
        import pyarrow

        types = pyarrow.types
        guessed = self._csv_reader(columns, wanted, {}).schema
        known = {}
        for name, kind in zip(guessed.names, guessed.types, strict=True):
            integer = types.is_integer(kind) and name not in wanted.labels  # later rows may have fractions
            known[name] = pyarrow.float64() if integer or types.is_null(kind) else kind
            if name in wanted.text:
                known[name] = pyarrow.string()
        yield from self._csv_reader(columns, wanted, known)

    def _csv_reader(self, columns: list[str], wanted: Wanted, kinds: dict[str, Any]) -> Any:
        import pyarrow
        from pyarrow import csv as arrow_csv

        return arrow_csv.open_csv(
            pyarrow.input_stream(str(self.path), compression="detect"),
            read_options=arrow_csv.ReadOptions(block_size=CSV_BLOCK),
            parse_options=arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=columns,
                column_types=kinds or {name: pyarrow.string() for name in wanted.text if name in columns},
                null_values=[word for word in arrow_csv.ConvertOptions().null_values if word not in wanted.words],
                strings_can_be_null=True,
            ),
        )


def _with_categories(batch: Any, names: frozenset[str]) -> Any:
    """Columns of categories as such: numbers would be taken for codes."""
    import pyarrow

    for j, name in enumerate(batch.schema.names):
        kind = batch.column(j).type
        if name in names and not pyarrow.types.is_dictionary(kind) and not pyarrow.types.is_null(kind):
            batch = batch.set_column(j, name, batch.column(j).dictionary_encode())
    return batch


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """Files that a path, a pattern or a folder (searched through) stands for, in the order of their names."""
    text = os.fspath(path)
    if os.path.isdir(text):
        inside = sorted(p for p in Path(text).rglob("*") if p.is_file() and _kind_by_ending(p))
        found = [p for p in inside if not any(part[0] in "._" for part in p.relative_to(text).parts)]
        if not found:
            raise DataError(f"The folder {text} has no Parquet, Feather or CSV files in it.")
        return found
    if not os.path.exists(text) and set("*?[") & set(text):
        found = sorted(Path(p) for p in glob.glob(text, recursive=True) if os.path.isfile(p))
        if not found:
            raise DataError(f"There are no data files {text}.")
        return found
    return [Path(text)]


def open_data(path: Path) -> DataFile:
    """Find out what a file is, and its columns."""
    _require_pyarrow()
    if not path.exists():
        raise DataError(f"There is no data file {path}.")
    kind, stamp = _kind(path), _stamp(path)
    delimiter, n_rows = ",", None
    with naming_file(path, kind):
        if kind == "Parquet":
            from pyarrow.parquet import ParquetFile

            with ParquetFile(path) as file:
                names, n_rows = file.schema_arrow.names, file.metadata.num_rows
        elif kind == "Feather":
            from pyarrow.feather import read_table

            names = read_table(path, memory_map=True).column_names
        else:
            names, delimiter = _csv_header(path)
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise DataError(f"{path} has duplicate column names: {listing(repeated)}; rename them.")
    return DataFile(path, kind, tuple(names), delimiter, n_rows, stamp)


def check_output(path: str | os.PathLike[str], inputs: Iterable[Any]) -> None:
    """Raise if a file that is to be written is one of those that are read."""
    sources = [source for source in inputs if isinstance(source, str | os.PathLike)] if os.path.exists(path) else []
    read = (file for source in sources for file in files_of(source) if file.exists())
    if any(os.path.samefile(file, path) for file in read):
        raise DataError(f"{path} is read here, and would be overwritten; write to another file.")


def _require_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingDependencyError("Files are read with pyarrow; install it: pip install pyarrow") from None


def _csv_header(path: Path) -> tuple[list[str], str]:
    """Columns, and what stands between them."""
    import pyarrow

    with pyarrow.input_stream(str(path), compression="detect") as stream:
        first = re.split(rb"[\r\n]", bytes(stream.read(1 << 16)), maxsplit=1)[0].decode("utf-8-sig")
    if not first.strip():
        raise DataError(f"{path} begins with an empty line; put a line of column names first.")
    delimiter = max(DELIMITERS, key=first.count)
    names = next(csv.reader([first], delimiter=delimiter))
    if any(_is_fraction(name) for name in names):
        raise DataError(
            f"The first line of {path} has numbers ({first.strip()[:40]}); put a line of column names first."
        )
    return names, delimiter


def looks_like_data(path: Path) -> bool:
    """Whether rows can be read from a file, for those who mix up the arguments."""
    return path.is_file() and (_magic(_head(path)) is not None or _kind_by_ending(path) == "CSV")


def _kind(path: Path) -> str:
    head, ending = _head(path), _kind_by_ending(path)
    if not head:
        raise DataError(f"{path} is empty; write the data again.")
    magic = _magic(head)
    if magic is not None or ending == "CSV":
        return magic or ending
    if ending:
        raise DataError(f"{path} is not a {ending} file, though its name ends like one; write it again, or rename it.")
    if b"\0" in head:
        raise DataError(f"{path} is not a data file that treeinner reads; write the rows as Parquet, Feather or CSV.")
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        raise DataError(
            f"{path} is JSON (a model file, or rows as JSON), but a data file was expected there; write the rows as "
            "Parquet, Feather or CSV."
        )
    return "CSV"


def _kind_by_ending(path: Path) -> str:
    name = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return ENDINGS.get(name.suffix.lower(), "")


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4096)


def _magic(head: bytes) -> str | None:
    return next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        raise DataError(f"{path} is no longer there; all files must stay until the result is.") from None
    return found.st_size, found.st_mtime_ns


@contextmanager
def naming_file(path: Any, kind: str) -> Iterator[None]:
    """Name the file in what Arrow says about it."""
    import pyarrow

    try:
        yield
    except MemoryError:  # Arrow's is also an ArrowException, but the file is not at fault
        raise
    except (pyarrow.ArrowException, UnicodeDecodeError, csv.Error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # which names the file itself
            raise
        why = str(error).splitlines()[0].rstrip(". ")
        advice = "save it as UTF-8" if "UTF8" in why or "utf-8" in why else "write it again"
        raise DataError(f"{path} cannot be read as {kind} ({why}); {advice}.") from error


def _is_fraction(name: str) -> bool:
    """Whether a column is called 5.1, which no column is; 0, 1, 2, ... are what pandas calls them."""
    try:
        float(name)
    except ValueError:
        return False
    return "." in name
