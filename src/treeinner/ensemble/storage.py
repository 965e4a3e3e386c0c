"""One file format for everything we save: a zip of .npy arrays and one JSON text. No pickle, ever (docs/format.md).

A file may come from a stranger. Nothing is unpacked before its declared sizes are known to fit the file, and nothing is
returned that is not of the type that the file says; what the numbers mean is checked by those who read them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError

if TYPE_CHECKING:
    import io

__all__ = ["atomic", "format_of", "read", "read_from", "write", "write_to"]

META = "meta.json"
LAYOUT = 2  # of the archive itself; 1, which had no checksum, is still read

# Arrays that are mostly zeros pack well, up to deflate's best of 1032 to 1. A file larger than FREE may unpack to so
# many times its size; the writer packs nothing that would not be read again.
FREE, RATIO = 2**28, 64

# What a truncated, overwritten or foreign file may raise while it is read. A flipped bit can call a member encrypted
# (RuntimeError) or packed in an unknown way (NotImplementedError, its child, as is RecursionError).
DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, ValueError, KeyError, TypeError, EOFError, OSError, RuntimeError,
    OverflowError,
)  # fmt: skip
MAGIC = b"\x93NUMPY\x01\x00"
HEADER = re.compile(
    rb"\{'descr': '([<>|]?[biufUMm]\d{1,9}(?:\[\w{1,9}\])?)', 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n"
)


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


# -- writing -------------------------------------------------------------------------------------------------
def write(
    path: str | Path, kind: str, version: int, arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any]
) -> None:
    """Write arrays and plain data to `path`."""
    with atomic(path) as file:
        write_to(file, kind, version, arrays, plain)


def write_to(
    file: IO[bytes], kind: str, version: int, arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any]
) -> None:
    """Write arrays and plain data to an empty open file. The same contents give the same bytes."""
    held = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    checksum = _checksum(kind, version, plain, held)
    meta = {"format": kind, "version": version, "layout": LAYOUT, "checksum": checksum, "data": dict(plain)}
    for packing in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        file.seek(0)
        file.truncate()
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in held.items():
                with archive.open(_entry(f"{name}.npy", packing), "w", force_zip64=array.nbytes > 2**30) as member:
                    np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            archive.writestr(_entry(META, packing), json.dumps(meta, indent=1))
        if sum(entry.file_size for entry in archive.infolist()) <= _allowed(file.tell()):
            return


def _entry(name: str, packing: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # dated 1980, so that the time of writing is not in the bytes
    entry.compress_type = packing
    return entry


def _checksum(kind: str, version: int, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Hash of all that a file holds."""
    digests = sorted((name, _digest(array)) for name, array in arrays.items())
    return hashlib.sha256(json.dumps([kind, version, plain, digests]).encode()).hexdigest()


def _digest(array: NDArray[Any]) -> str:
    """Hash of an array: its type, its shape and its bytes."""
    found = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    found.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return found.hexdigest()


def _allowed(size: int) -> int:
    """How many bytes a file of so many may unpack to."""
    return max(FREE, RATIO * size)


# -- reading -------------------------------------------------------------------------------------------------
def read(path: str | Path, kind: str, version: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write` wrote; any other or damaged file is a ModelError."""
    with Path(path).open("rb") as file:
        return read_from(file, kind, version, str(path))


def read_from(file: IO[bytes], kind: str, version: int, source: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write_to` wrote; `source` names it in errors."""
    with _damage_is_a_model_error(source), _opened(file) as archive:
        meta = _meta(archive)
        if meta["format"] != kind:
            raise ModelError(f"{source} holds {meta['format']}; expected {kind}.")
        for name, newest in (("version", version), ("layout", LAYOUT)):
            if meta[name] > newest:
                raise ModelError(
                    f"{source} was written by a newer treeinner (its {name} is {meta[name]}; this one reads up to "
                    f"{newest}); upgrade treeinner."
                )
        entries = [entry for entry in archive.infolist() if entry.filename != META]
        arrays = {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries}
        if meta["layout"] > 1 and meta["checksum"] != _checksum(kind, meta["version"], meta["data"], arrays):
            raise ValueError("its checksum is not that of its content")
        return {name: _native(array, name) for name, array in arrays.items()}, meta["data"]


def format_of(path: str | Path) -> str:
    """Kind of a saved file; "" if it is not one of ours."""
    with Path(path).open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                names = archive.namelist()
        except DAMAGE:
            names = []
        if META not in names:
            return ""
        with _damage_is_a_model_error(str(path)), _opened(file) as archive:
            return str(_meta(archive)["format"])


@contextmanager
def _damage_is_a_model_error(source: str) -> Iterator[None]:
    try:
        yield
    except ModelError:
        raise
    except MemoryError:
        raise ModelError(f"{source} does not fit into memory.") from None
    except DAMAGE as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise ModelError(f"{source} is damaged, or was not saved by treeinner: {reason}. Save it again.") from error


@contextmanager
def _opened(file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    """An archive that unpacks to no more than its size allows, and holds META and arrays alone."""
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        names = [entry.filename for entry in entries]
        if META not in names or len(set(names)) < len(names):
            raise ValueError(f"it has no {META}, or a name twice")
        for entry in entries:
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & 1:
                raise ValueError(f"{entry.filename} is packed in an unknown way, or encrypted")
            if entry.filename != META and not entry.filename.endswith(".npy"):
                raise ValueError(f"{entry.filename} is not an array")
        unpacked, allowed = sum(entry.file_size for entry in entries), _allowed(size)
        if unpacked > allowed:
            raise ValueError(f"it claims to unpack to {unpacked:,} bytes, but a file of its size may hold {allowed:,}")
        yield archive


def _meta(archive: zipfile.ZipFile) -> dict[str, Any]:
    """What META says."""
    meta = json.loads(archive.read(META))
    if not isinstance(meta, dict):
        raise ValueError(f"{META} is not an object")
    meta = {"layout": 1, "checksum": "", **meta}
    for name, kind in {"format": str, "version": int, "layout": int, "checksum": str, "data": dict}.items():
        if type(meta.get(name)) is not kind:
            raise ValueError(f"{name} in {META} is not of type {kind.__name__}")
    return meta


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    """An array whose header says what the entry's size says; numpy's own reader allocates first, and asks later."""
    with archive.open(entry) as opened:
        member = cast("io.BufferedIOBase", opened)
        start = member.read(len(MAGIC) + 2)
        text = member.read(int.from_bytes(start[-2:], "little"))
        header = HEADER.fullmatch(text)
        if not start.startswith(MAGIC) or header is None:
            raise ValueError(f"{entry.filename} is not an array of numbers or text")
        dtype, shape = np.dtype(header[1].decode()), tuple(int(n) for n in header[2].split(b",") if n.strip())
        size = entry.file_size - len(start) - len(text)
        if dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize != size:
            raise ValueError(f"{entry.filename} does not hold the {shape} numbers that it claims")
        found = np.empty(shape, dtype)
        # One more byte than there should be: at the end of a member its CRC is compared.
        if (size and member.readinto(found.reshape(-1).view(np.uint8).data) != size) or member.read(1):
            raise EOFError(f"{entry.filename} ends too early")
        return found


def _native(array: NDArray[Any], name: str) -> NDArray[Any]:
    """The array in this machine's byte order, if it holds nothing that its type cannot."""
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    kind, flat = array.dtype.kind, array.reshape(-1)
    if (kind == "b" and np.any(flat.view(np.uint8) > 1)) or (kind == "U" and np.any(flat.view(np.uint32) > 0x10FFFF)):
        raise ValueError(f"{name} holds what is not {'a truth value' if kind == 'b' else 'text'}")
    return array
