"""Data files -> Arrow tables: Parquet, Feather and CSV, told by their first bytes, else by their ending."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from csv import reader as header_reader
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treeinner.errors import DataError

MAGIC = {b"PAR1": "Parquet", b"ARROW1": "Feather", b"FEA1": "Feather"}
ENDINGS = {
    **dict.fromkeys((".parquet", ".pq"), "Parquet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "Feather"),
    **dict.fromkeys((".csv", ".tsv"), "CSV"),
}
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
DELIMITERS = (",", ";", "\t", "|")
LARGEST_BLOCK = 1 << 30  # bytes; Arrow holds the size of a block in 32 bits


@dataclass(frozen=True)
class DataFile:
    """A file whose columns are known and whose rows are not read yet."""

    path: Path
    kind: str
    names: tuple[str, ...]
    delimiter: str = ","  # of CSV

    def read(self, names: Sequence[str], *, as_text: Sequence[str] = (), not_missing: Sequence[str] = ()) -> Any:
        """Some columns as a pyarrow.Table.

        CSV has no types: `as_text` are columns that hold text whatever it looks like, `not_missing` words that are
        values here, though CSV files often mean "missing" by them ("NA").
        """
        import pyarrow.feather
        import pyarrow.parquet

        columns = list(names)
        with _reading(self.path, self.kind):
            if self.kind == "Parquet":
                return pyarrow.parquet.read_table(self.path, columns=columns).select(columns)
            if self.kind == "Feather":
                return pyarrow.feather.read_table(self.path, columns=columns, memory_map=True).select(columns)
            return self._read_csv(columns, as_text, not_missing)

    def _read_csv(self, columns: list[str], as_text: Sequence[str], not_missing: Sequence[str]) -> Any:
        import pyarrow
        from pyarrow import csv

        convert = csv.ConvertOptions(
            include_columns=columns,
            column_types={name: pyarrow.string() for name in as_text},
            null_values=[word for word in csv.ConvertOptions().null_values if word not in not_missing],
            strings_can_be_null=True,
        )
        with pyarrow.input_stream(str(self.path), compression="detect") as stream:
            return csv.read_csv(
                stream,
                # One block as far as possible: Arrow decides on the types by the first one.
                read_options=csv.ReadOptions(block_size=LARGEST_BLOCK),
                parse_options=csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                convert_options=convert,
            )


def open_data(path: Path) -> DataFile:
    """Find out what a file is, and its columns."""
    import pyarrow.feather
    import pyarrow.parquet

    if not path.exists():
        pattern = ""
        if set("*?[") & set(path.name):
            pattern = " Patterns are not supported; put Parquet files in one folder and name the folder."
        raise DataError(f"There is no data file {path}.{pattern}")
    kind = _kind(path)
    with _reading(path, kind):
        if kind == "Parquet":  # a folder may have parts of differing names; the dataset looks into all of them
            opened = DataFile(path, kind, tuple(pyarrow.parquet.ParquetDataset(path).schema.names))
        elif kind == "Feather":
            opened = DataFile(path, kind, tuple(pyarrow.feather.read_table(path, memory_map=True).column_names))
        else:
            opened = _open_csv(path)
    repeated = [name for name, times in Counter(opened.names).items() if times > 1]
    if repeated:
        raise DataError(f"{path} has duplicate column names: {', '.join(map(repr, repeated[:10]))}; rename them.")
    return opened


def _open_csv(path: Path) -> DataFile:
    import pyarrow

    with pyarrow.input_stream(str(path), compression="detect") as stream:
        first = bytes(stream.read(1 << 16)).split(b"\n", 1)[0].decode("utf-8-sig")
    delimiter = max(DELIMITERS, key=first.count)
    names = tuple(next(header_reader([first.rstrip("\r")], delimiter=delimiter)))
    if any(_is_fraction(name) for name in names):
        raise DataError(
            f"The first line of {path} has numbers ({first.strip()[:40]}); put a line of column names first."
        )
    return DataFile(path, "CSV", names, delimiter)


def looks_like_data(path: Path) -> bool:
    """Whether rows can be read from a file, for those who mix up the arguments."""
    return path.is_file() and (_magic(_head(path)) is not None or _ending(path) == "CSV")


def _kind(path: Path) -> str:
    if path.is_dir():
        return "Parquet"  # a folder of parts
    head, ending = _head(path), _ending(path)
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


def _ending(path: Path) -> str:
    name = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return ENDINGS.get(name.suffix.lower(), "")


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4096)


def _magic(head: bytes) -> str | None:
    return next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Name the file in what Arrow says about it."""
    import pyarrow

    try:
        yield
    except MemoryError:  # Arrow's is also an ArrowException, but the file is not at fault
        raise
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
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
