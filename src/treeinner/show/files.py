"""Files that results are written to: they appear whole or not at all, and never in the place of an input."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

from treeinner.errors import DataError

__all__ = ["check_output", "write_file"]


def check_output(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise if a file cannot be written there, or is one of those that are read."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name the file to write.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"The folder {path.parent} does not exist; make it first.")
    for given in inputs:
        inside = given.rglob("*") if given.is_dir() else [given]
        if path.exists() and any(one.exists() and one.samefile(path) for one in inside):
            raise DataError(f"{path} is read here, and would be overwritten; write to another file.")


def write_file(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all, as readable as any new file."""
    if path.exists() and not path.is_file():  # a pipe or a device
        path.write_bytes(content)
        return
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)
