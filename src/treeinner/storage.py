"""One file format for everything we save: a zip of .npy arrays and one JSON text. No pickle, ever (docs/format.md)."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError

__all__ = ["format_of", "read", "write"]

META = "meta.json"


def write(path: str | Path, kind: str, version: int, arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any]) -> None:
    """Write arrays and plain data to `path`; the file appears whole or not at all."""
    path = Path(path)
    meta = json.dumps({"format": kind, "version": version, "data": dict(plain)}, indent=1)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(META, meta)
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: str | Path, kind: str, version: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write` wrote; any other or damaged file is a ModelError."""
    found, found_version = format_of(path)
    if found != kind:
        raise ModelError(f"{path} holds {found or 'no treeinner data'}, but {kind} was needed.")
    if found_version > version:
        raise ModelError(f"{path} was written by a newer treeinner (format {found_version}, known {version}); upgrade.")
    try:
        with zipfile.ZipFile(path) as archive:
            plain = json.loads(archive.read(META))["data"]
            arrays = {}
            for name in archive.namelist():
                if name.endswith(".npy"):
                    with archive.open(name) as member:
                        arrays[name.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError) as error:
        raise ModelError(f"{path} is damaged: {error}. Save it again from the model.") from error
    return arrays, plain


def format_of(path: str | Path) -> tuple[str, int]:
    """Kind and version of a saved file; ("", 0) if it is not one of ours."""
    try:
        with zipfile.ZipFile(path) as archive:
            meta = json.loads(archive.read(META))
        return str(meta["format"]), int(meta["version"])
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, EOFError):
        return "", 0
