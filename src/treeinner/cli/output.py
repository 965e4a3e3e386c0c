"""Results as files: CSV, Parquet, JSON or Markdown, by the ending of -o."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

import narwhals as nw
import numpy as np
import typer

from treeinner.ensemble.storage import atomic
from treeinner.errors import DataError
from treeinner.tables.files import check_output

CHUNK = 10_000  # rows turned into Python objects at a time

Columns = Mapping[str, Any]  # name -> array or list, all of one length


class Format(StrEnum):
    """Formats of results."""

    csv = "csv"
    parquet = "parquet"
    json = "json"
    markdown = "markdown"


ENDINGS = {".csv": Format.csv, ".parquet": Format.parquet, ".pq": Format.parquet, ".json": Format.json}
ENDINGS |= dict.fromkeys((".md", ".markdown"), Format.markdown)


@dataclass(frozen=True)
class Destination:
    """Where a result goes."""

    path: Path | None  # None: stdout
    format: Format


def destination(output: str | None, format: Format | None, inputs: Iterable[Path]) -> Destination | None:
    """Check -o and --format before any work is done; None: a table on the screen."""
    if output is None:
        return None if format is None else Destination(None, format)
    if output == "-":
        return Destination(None, format or Format.csv)
    path = Path(output)
    found = format or ENDINGS.get(path.suffix.lower())
    if found is None:
        raise typer.BadParameter(
            f"{output} has no recognised extension; use {', '.join(ENDINGS)}, or add --format.",
            param_hint="-o",
        )
    check_path(path, inputs)
    return Destination(path, found)


def check_path(path: Path, inputs: Iterable[Path], option: str = "-o") -> None:
    """Refuse a path that cannot be written to, or that is read, before any work is done."""
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder; name a file in it.", param_hint=option)
    if not path.parent.is_dir():
        raise typer.BadParameter(f"the folder {path.parent} does not exist; make it first.", param_hint=option)
    try:
        check_output(path, inputs)
    except DataError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def check_page(path: Path, inputs: Iterable[Path], option: str) -> None:
    """Refuse a page that cannot be written to, or that no browser would open."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(f"{path}: the name of the page must end in .html.", param_hint=option)
    check_path(path, inputs, option)


def as_columns(frame: Any, top: int | None = None) -> dict[str, Any]:
    """Columns of a data frame of any library; its first rows, or all for None and 0."""
    table = nw.from_native(frame, eager_only=True)
    return {name: table[name].to_numpy()[: top or None] for name in table.columns}


def write(columns: Columns, to: Destination) -> None:
    """Write a table; a file appears whole or not at all."""
    if to.path is None:
        _write_stdout(columns, to.format)
    else:
        special = to.path.exists() and not to.path.is_file()  # a pipe or a device
        with to.path.open("wb") if special else atomic(to.path) as file:
            _write_bytes(columns, to.format, file)


def _write_stdout(columns: Columns, format: Format) -> None:
    if format is not Format.parquet:
        WRITERS[format](columns, sys.stdout)
    elif sys.stdout.isatty():
        raise typer.BadParameter("Parquet is binary; write it to a file.", param_hint="-o")
    else:
        _parquet(columns, sys.stdout.buffer)
    sys.stdout.flush()


def _write_bytes(columns: Columns, format: Format, file: IO[bytes]) -> None:
    if format is Format.parquet:
        _parquet(columns, file)
        return
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    WRITERS[format](columns, text)
    text.flush()
    text.detach()


def _parquet(columns: Columns, file: IO[bytes]) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({name: pyarrow.array(values) for name, values in columns.items()}), file)


def _csv(columns: Columns, file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    for row in _rows(columns):
        writer.writerow(["" if _is_nan(cell) else cell for cell in row])  # floats in full: reading gives the same bits


def _json(columns: Columns, file: IO[str]) -> None:
    separator = "[\n"
    for row in _rows(columns):
        record = {name: None if _is_nan(cell) else cell for name, cell in zip(columns, row, strict=True)}
        file.write(separator + json.dumps(record, ensure_ascii=False))
        separator = ",\n"
    file.write("\n]\n" if separator == ",\n" else "[]\n")


def _markdown(columns: Columns, file: IO[str]) -> None:
    text = {name: isinstance(next(iter(values), None), str) for name, values in columns.items()}
    for line in (map(_escaped, columns), ("---" if text[name] else "--:" for name in columns)):
        file.write(f"| {' | '.join(line)} |\n")
    for row in _rows(columns):
        file.write(f"| {' | '.join(map(_markdown_cell, row))} |\n")


def _markdown_cell(cell: Any) -> str:
    if isinstance(cell, float):
        return "" if math.isnan(cell) else f"{cell:.6g}"
    return _escaped(str(cell))


def _escaped(text: str) -> str:
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").split())


def _rows(columns: Columns) -> Iterator[tuple[Any, ...]]:
    arrays = [np.asarray(values) for values in columns.values()]
    for start in range(0, len(arrays[0]), CHUNK):
        yield from zip(*(array[start : start + CHUNK].tolist() for array in arrays), strict=True)


def _is_nan(cell: Any) -> bool:
    return isinstance(cell, float) and math.isnan(cell)


WRITERS: dict[Format, Callable[[Columns, IO[str]], None]] = {
    Format.csv: _csv,
    Format.json: _json,
    Format.markdown: _markdown,
}
