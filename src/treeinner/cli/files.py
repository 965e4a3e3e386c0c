"""Data files -> Arrow tables: Parquet, Feather and CSV, told by their first bytes, else by their ending."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from csv import reader as header_reader
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treeinner.errors import DataError

__all__ = ["DataFile", "looks_like_data", "open_data"]

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
    names: tuple[str, ...]
    _read: Callable[[Sequence[str], Sequence[str], Sequence[str]], Any]

    def read(self, names: Sequence[str], *, as_text: Sequence[str] = (), not_missing: Sequence[str] = ()) -> Any:
        """Some columns as a pyarrow.Table.

        Parameters
        ----------
        names
            Columns to read.
        as_text
            Those of them that hold text whatever it looks like; matters for CSV alone, which has no types.
        not_missing
            Words that are values, though CSV files often mean "missing" by them ("NA").
        """
        return self._read(names, as_text, not_missing).select(list(names))


def open_data(path: Path) -> DataFile:
    """Find out what a file holds, and its columns."""
    if not path.exists():
        pattern = ""
        if set("*?[") & set(path.name):
            pattern = " Patterns of several files are not read; put Parquet files in one folder and name the folder."
        raise DataError(f"There is no data file {path}.{pattern}")
    kind = _kind(path)
    with _reading(path, kind):
        opened = {"Parquet": _parquet, "Feather": _feather, "CSV": _csv}[kind](path)
    repeated = [name for name, times in Counter(opened.names).items() if times > 1]
    if repeated:
        raise DataError(f"{path} has several columns of one name: {', '.join(map(repr, repeated[:10]))}; rename them.")
    return opened


def looks_like_data(path: Path) -> bool:
    """Whether a file is one of ours to read rows from, for those who mix up the arguments."""
    return path.is_file() and (_magic(path) is not None or _ending(path) == "CSV")


def _kind(path: Path) -> str:
    ending = _ending(path)
    if path.is_dir():
        return "Parquet"  # a folder of parts
    with path.open("rb") as file:
        head = file.read(4096)
    if not head:
        raise DataError(f"{path} is empty; write the data again.")
    magic = _magic(path)
    if magic is not None:
        return magic
    if ending in ("Parquet", "Feather"):
        raise DataError(
            f"{path} is not a {ending} file, though its name ends like one; write it again, or rename it by "
            "what it contains (.csv)."
        )
    if ending != "CSV" and b"\0" in head:
        raise DataError(f"{path} is not a data file that treeinner reads; write the rows as Parquet, Feather or CSV.")
    if ending != "CSV" and head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        raise DataError(
            f"{path} is JSON (a model file, or rows as JSON), but a data file was expected there; write the rows as "
            "Parquet, Feather or CSV."
        )
    return "CSV"


def _ending(path: Path) -> str:
    name = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return ENDINGS.get(name.suffix.lower(), "")


def _magic(path: Path) -> str | None:
    with path.open("rb") as file:
        head = file.read(8)
    return next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Name the file in what Arrow says about it."""
    import pyarrow

    try:
        yield
    except MemoryError:  # also an ArrowException, but the file is not at fault
        raise
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        why = str(error).splitlines()[0].rstrip(". ")
        advice = "save it as UTF-8" if "UTF8" in why or "utf-8" in why else "write it again"
        raise DataError(f"{path} cannot be read as {kind} ({why}); {advice}.") from error


def _parquet(path: Path) -> DataFile:
    import pyarrow.parquet

    # A folder may have parts of differing names; the dataset looks into all of them.
    names = pyarrow.parquet.ParquetDataset(path).schema.names

    def read(wanted: Sequence[str], as_text: Sequence[str], not_missing: Sequence[str]) -> Any:
        with _reading(path, "Parquet"):
            return pyarrow.parquet.read_table(path, columns=list(wanted))

    return DataFile(path, tuple(names), read)


def _feather(path: Path) -> DataFile:
    import pyarrow.feather

    # Mapped into memory: only the wanted columns are read.
    table = pyarrow.feather.read_table(path, memory_map=True)

    def read(wanted: Sequence[str], as_text: Sequence[str], not_missing: Sequence[str]) -> Any:
        return table

    return DataFile(path, tuple(table.column_names), read)


def _csv(path: Path) -> DataFile:
    import pyarrow
    from pyarrow import csv

    with pyarrow.input_stream(str(path), compression="detect") as stream:
        head = bytes(stream.read(1 << 16))
    first = head.split(b"\n", 1)[0].decode("utf-8-sig")
    parse = csv.ParseOptions(delimiter=max(DELIMITERS, key=first.count), newlines_in_values=True)
    names = tuple(next(header_reader([first.rstrip("\r")], delimiter=parse.delimiter)))
    if any(_is_fraction(name) for name in names):
        raise DataError(
            f"The first line of {path} holds numbers ({first.strip()[:40]}); put a line of column names first."
        )

    def read(wanted: Sequence[str], as_text: Sequence[str], not_missing: Sequence[str]) -> Any:
        # One block as far as possible: Arrow decides on the types by the first one and gives up on a later surprise.
        block = csv.ReadOptions(block_size=LARGEST_BLOCK)
        known = [word for word in csv.ConvertOptions().null_values if word not in not_missing]
        convert = csv.ConvertOptions(
            include_columns=list(wanted),
            column_types={name: pyarrow.string() for name in as_text},
            null_values=known,
            strings_can_be_null=True,
        )
        with _reading(path, "CSV"), pyarrow.input_stream(str(path), compression="detect") as stream:
            return csv.read_csv(stream, read_options=block, parse_options=parse, convert_options=convert)

    return DataFile(path, names, read)


def _is_fraction(name: str) -> bool:
    """Whether a column is called 5.1, which no column is; 0, 1, 2, ... are what pandas calls them."""
    try:
        float(name)
    except ValueError:
        return False
    return "." in name
