"""UBJSON as XGBoost writes it, the binary form of its models: bytes -> dict, typed arrays as numpy.

Every length is checked against the bytes that are left before anything is allocated. What is wrong with the bytes is an
IndexError, KeyError, ValueError, RecursionError or struct.error, of which the caller makes one error.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["parse"]

# UBJSON numbers are big-endian.
SCALARS = {ord(mark): struct.Struct(">" + code) for mark, code in zip("iUIlLdD", "bBhiqfd", strict=True)}
INTEGERS = frozenset(b"iUIlL")
DTYPES = {mark: np.dtype(form.format) for mark, form in SCALARS.items()}  # of typed arrays
CONSTANTS = {ord("T"): True, ord("F"): False, ord("Z"): None}
OBJECT, OBJECT_END, ARRAY = b"{}["
STRING, TYPE, COUNT = b"S$#"


def parse(data: bytes) -> dict[str, Any]:
    """Read the object that `data` holds; typed arrays are views of `data`, in its byte order."""
    reader = _Reader(data)
    if data[:1] != b"{":
        raise ValueError("the first byte of UBJSON is not '{'")
    document: dict[str, Any] = reader.value(reader.mark())
    if reader.at != len(data):
        raise ValueError(f"there are {len(data) - reader.at} bytes after the end of the UBJSON object")
    return document


@dataclass
class _Reader:
    """A position in the bytes that moves on with every value read."""

    data: bytes
    at: int = 0

    def mark(self) -> int:
        """Take the next byte; it says what follows."""
        self.at += 1
        return self.data[self.at - 1]

    def scalar(self, mark: int) -> Any:
        """Read one number of the type that `mark` says."""
        form = SCALARS[mark]
        (number,) = form.unpack_from(self.data, self.at)
        self.at += form.size
        return number

    def length(self, mark: int, item_size: int = 1) -> int:
        """Read a count, of the type that `mark` says, of items that still fit into the file."""
        count = int(self.scalar(mark)) if mark in INTEGERS else -1
        if count < 0 or count * item_size > len(self.data) - self.at:
            raise ValueError(f"a length at byte {self.at} of {len(self.data)} does not fit the file")
        return count

    def text(self, mark: int) -> str:
        """Read a text whose length has the type that `mark` says."""
        end = self.length(mark) + self.at
        raw, self.at = self.data[self.at : end], end
        return raw.decode()

    def value(self, mark: int) -> Any:
        """Read what `mark` begins."""
        if mark in SCALARS:
            return self.scalar(mark)
        if mark in CONSTANTS:
            return CONSTANTS[mark]
        if mark == STRING:
            return self.text(self.mark())
        if mark == OBJECT:
            found: dict[str, Any] = {}
            while (mark := self.mark()) != OBJECT_END:
                name = self.text(mark)
                found[name] = self.value(self.mark())
            return found
        if mark != ARRAY:
            raise ValueError(f"byte {self.at} of {len(self.data)}, {bytes([mark])!r}, begins no value")
        first = self.mark()  # an array says how many items it has, and perhaps that they are numbers of one type
        dtype = DTYPES[self.mark()] if first == TYPE else None
        if (self.mark() if dtype else first) != COUNT:
            raise ValueError(f"an array at byte {self.at} has no length")
        if dtype is None:
            return [self.value(self.mark()) for _ in range(self.length(self.mark()))]
        count = self.length(self.mark(), dtype.itemsize)
        self.at += count * dtype.itemsize
        return np.frombuffer(self.data, dtype, count, self.at - count * dtype.itemsize)
