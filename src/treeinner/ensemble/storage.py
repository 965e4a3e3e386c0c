"""One file format for everything we save: a zip of .npy arrays and one JSON text. No pickle, ever (docs/format.md)."""

from __future__ import annotations

import json
import secrets
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError

__all__ = ["atomic", "format_of", "read", "read_from", "write", "write_to"]

META = "meta.json"

# What a truncated, overwritten or foreign file may raise while it is read.
# A flipped bit can call a member encrypted (RuntimeError) or packed in an unknown way (NotImplementedError, its child).
DAMAGE = (zipfile.BadZipFile, zlib.error, ValueError, KeyError, TypeError, EOFError, OSError, RuntimeError)


@contextmanager
def atomic(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a new file for writing that appears at `path` whole or not at all, as readable as any new file."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and str(error.filename) == str(temporary):  # a name that the user does not know
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def write(
    path: str | Path, kind: str, version: int, arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any]
) -> None:
    """Write arrays and plain data to `path`."""
    with atomic(path) as file:
        write_to(file, kind, version, arrays, plain)


def write_to(
    file: IO[bytes], kind: str, version: int, arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any]
) -> None:
    """Write arrays and plain data to an open file. The same contents give the same bytes."""
    meta = json.dumps({"format": kind, "version": version, "data": dict(plain)}, indent=1)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_entry(META), meta)
        for name, array in arrays.items():
            with archive.open(_entry(f"{name}.npy"), "w") as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # dated 1980, so that the time of writing is not in the bytes
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def read(path: str | Path, kind: str, version: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write` wrote; any other or damaged file is a ModelError."""
    with Path(path).open("rb") as file:
        return read_from(file, kind, version, str(path))


def read_from(file: IO[bytes], kind: str, version: int, source: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write_to` wrote; `source` names it in errors."""
    found, found_version = _format(file)
    if found != kind:
        raise ModelError(f"{source} holds {found or 'no treeinner data'}; expected {kind}.")
    if found_version > version:
        raise ModelError(
            f"{source} was written by a newer treeinner (format {found_version}; this version reads up to {version}); "
            "upgrade treeinner."
        )
    try:
        with zipfile.ZipFile(file) as archive:
            plain = json.loads(archive.read(META))["data"]
            arrays = {}
            for name in archive.namelist():
                if name.endswith(".npy"):
                    with archive.open(name) as member:
                        arrays[name.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
    except DAMAGE as error:
        raise ModelError(f"{source} is damaged: {error}. Save it again from the model.") from error
    return arrays, plain


def format_of(path: str | Path) -> tuple[str, int]:
    """Kind and version of a saved file; ("", 0) if it is not one of ours."""
    with Path(path).open("rb") as file:
        return _format(file)


def _format(file: IO[bytes]) -> tuple[str, int]:
    try:
        with zipfile.ZipFile(file) as archive:
            meta = json.loads(archive.read(META))
        return str(meta["format"]), int(meta["version"])
    except DAMAGE:
        return "", 0
