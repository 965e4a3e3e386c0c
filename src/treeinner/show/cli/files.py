"""What commands read and write: models, tables, groups of features."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from treeinner.errors import DataError, did_you_mean
from treeinner.read import Model, read_model
from treeinner.rows.frames import make_frame
from treeinner.score.result import plain
from treeinner.show.files import check_output, write_file

__all__ = ["PAGES", "check_files", "json_text", "open_model", "parse_groups", "read_frame", "say", "write_table"]

FORMATS, PAGES = (".csv", ".parquet", ".json"), (".html", ".htm")
READERS = {".csv": "read_csv", ".tsv": "read_table", ".parquet": "read_parquet", ".feather": "read_feather"}
NUMBERS = ("learning_rate", "reg_lambda", "reg_alpha")
TOLD = (*NUMBERS, "objective", "iteration_range")  # what can be told about a model


def say(text: str) -> None:
    """Print one line on stderr."""
    print(" ".join(text.split()), file=sys.stderr)


def check_files(output: Path | None, inputs: Sequence[Path], endings: Sequence[str] = FORMATS) -> None:
    """Raise before the work begins if the result cannot be written."""
    if output is not None:
        if output.suffix.lower() not in endings:
            raise ValueError(f"-o {output}: the name of the file must end in {' or '.join(endings)}.")
        check_output(output, inputs)


def open_model(path: Path, told: Sequence[str] | None) -> Model:
    """Read a model file. told: NAME=VALUE, as `read_model` takes them."""
    options: dict[str, Any] = {}
    for text in told or ():
        name, equals, value = text.partition("=")
        if not equals or name not in TOLD:
            hint = did_you_mean(name, TOLD, ", such as learning_rate=0.1.")
            raise ValueError(f"--read {text}: expected NAME=VALUE{hint}")
        if name == "iteration_range":
            options[name] = tuple(int(part or 0) for part in value.split(":"))
        else:
            options[name] = float(value) if name in NUMBERS else value
    return read_model(path, **options)


def parse_groups(texts: Sequence[str] | None) -> dict[str, list[str]] | None:
    """Groups of features, each NAME=a,b,c; None if there are none."""
    groups: dict[str, list[str]] = {}
    for text in texts or ():
        name, equals, members = text.partition("=")
        if not (equals and name and members) or name in groups:
            raise ValueError(f"--group {text}: expected NAME=a,b,c, every name once.")
        groups[name] = [member.strip() for member in members.split(",")]
    return groups or None


def read_frame(path: Path, dropped: Sequence[str], special: Sequence[str] = ()) -> Any:
    """A data file as a pandas frame to train on, without the dropped columns; text becomes categories."""
    import pandas as pd
    import pyarrow

    if path.suffix.lower() not in READERS:
        raise DataError(f"{path}: the rows to select on must be in a file that ends in {', '.join(READERS)}.")
    try:
        frame: Any = getattr(pd, READERS[path.suffix.lower()])(path)
    except (ValueError, pyarrow.ArrowException) as error:
        raise DataError(f"{path} cannot be read ({error}); write it again.") from error
    frame.columns = frame.columns.map(str)
    for name in (*dropped, *special):
        if name not in frame:
            raise DataError(f"{path} has no column {name!r}{did_you_mean(name, frame.columns)}")
    frame = frame.drop(columns=list(dropped))
    return frame.astype(dict.fromkeys(frame.select_dtypes(["object", "string"]).columns, "category"))


def json_text(content: Any) -> str:
    """Content with columns as JSON; what is not finite is null."""
    return json.dumps(content, ensure_ascii=False, default=lambda column: [plain(cell) for cell in column.tolist()])


def write_table(columns: Mapping[str, Any], output: Path) -> None:
    """Write a table; the ending of the file says how."""
    if output.suffix.lower() == ".json":
        return write_file(output, f"{json_text(columns)}\n".encode())
    import pyarrow.csv
    import pyarrow.parquet

    table, content = make_frame(columns, library="pyarrow"), io.BytesIO()
    write = pyarrow.csv.write_csv if output.suffix.lower() == ".csv" else pyarrow.parquet.write_table
    write(table, content)
    return write_file(output, content.getvalue())
