"""UBJSON, the binary form in which XGBoost saves its models: bytes -> dict, typed arrays as numpy.

Every length is checked against the bytes that are left before anything is allocated, and nesting is bounded, so a
damaged file is one ModelError and never a crash, a hang or a huge allocation.
"""

from __future__ import annotations

import re
import struct
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError, counted

__all__ = ["parse"]

MAX_DEPTH = 64  # a model nests about ten deep

# UBJSON numbers are big-endian.
SCALARS = {ord(mark): struct.Struct(">" + code) for mark, code in zip("iUIlLdD", "bBhiqfd", strict=True)}
INTEGERS = frozenset(b"iUIlL")
DTYPES = {mark: np.dtype(form.format) for mark, form in SCALARS.items()}  # of typed arrays
CONSTANTS = {ord("T"): True, ord("F"): False, ord("Z"): None}
OBJECT, OBJECT_END, ARRAY, ARRAY_END = b"{}[]"
STRING, CHAR, HIGH_PRECISION, NO_OP, TYPE, COUNT = b"SCHN$#"
# A name, then a typed array or a text, with lengths of eight bytes, as XGBoost writes them: nearly all of a model.
MEMBER = re.compile(rb"L\0{7}(.)(\w+)(?:\[\$([iUIlLdD])#|S)L(.{8})", re.DOTALL)
SIZES = {bytes([mark]): form.size for mark, form in SCALARS.items()} | {None: 1}  # of an item; None: of a text


def parse(data: bytes) -> dict[str, Any]:
    """Read the object that `data` holds; ModelError if it is damaged or is not one object.

    Typed arrays are views of `data`, in its byte order.
    """
    reader = _Reader(data)
    if not data or data[0] != OBJECT:
        raise ModelError("Not a UBJSON object: the first byte is not '{'.")
    document = reader.value(reader.mark(), 0)
    assert isinstance(document, dict)
    if reader.at != len(data):
        raise ModelError(f"Damaged UBJSON: {counted(len(data) - reader.at, 'byte')} after the end of the object.")
    return document


class _Reader:
    """A position in the bytes that moves on with every value read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def fail(self, what: str) -> NoReturn:
        raise ModelError(f"Damaged UBJSON at byte {self.at} of {len(self.data)}: {what}.")

    def mark(self) -> int:
        """Take the next byte; it says what follows."""
        if self.at >= len(self.data):
            self.fail("the file ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def length(self, mark: int, item_size: int = 1) -> int:
        """Read a count, of the type that `mark` says, of items that still fit into the file."""
        if mark not in INTEGERS:
            self.fail("a length is not an integer")
        count = int(self.scalar(mark))
        if count < 0 or count * item_size > len(self.data) - self.at:
            self.fail(f"a length of {count} does not fit the file")
        return count

    def scalar(self, mark: int) -> int | float:
        form = SCALARS[mark]
        if self.at + form.size > len(self.data):
            self.fail("the file ends too early")
        (number,) = form.unpack_from(self.data, self.at)
        self.at += form.size
        return number  # type: ignore[no-any-return]

    def text(self, mark: int) -> str:
        """Read a text whose length has the type that `mark` says."""
        end = self.length(mark) + self.at
        raw, self.at = self.data[self.at : end], end
        try:
            return raw.decode()
        except UnicodeDecodeError:  # a damaged name must not hide behind an error of another type
            return self.fail("a text is not UTF-8")

    def value(self, mark: int, depth: int) -> Any:
        if mark in SCALARS:
            return self.scalar(mark)
        if mark in CONSTANTS:
            return CONSTANTS[mark]
        if mark in (STRING, HIGH_PRECISION):
            return self.text(self.mark())
        if depth > MAX_DEPTH:
            self.fail(f"values nest deeper than {MAX_DEPTH}")
        if mark == OBJECT:
            return self.members(depth)
        if mark == ARRAY:
            return self.items(depth)
        if mark == CHAR:
            return chr(self.mark())
        return self.fail(f"{bytes([mark])!r} begins no value")

    def members(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while True:
            self.usual_members(found)
            mark = self.mark()
            if mark == OBJECT_END:
                return found
            name = self.text(mark)
            found[name] = self.value(self.mark(), depth + 1)

    def usual_members(self, found: dict[str, Any]) -> None:
        """Read members of the form MEMBER, without a call per byte, up to one of another form or a damaged one."""
        data, at = self.data, self.at
        while (head := MEMBER.match(data, at)) is not None:
            name_size, name, kind, count = head.groups()
            start, n = head.end(), int.from_bytes(count, "big")
            end = start + n * SIZES[kind]
            if len(name) != name_size[0] or end > len(data):
                break
            if kind is not None:
                found[name.decode()] = np.frombuffer(data, DTYPES[kind[0]], n, start)
            elif (text := data[start:end]).isascii():
                found[name.decode()] = text.decode()
            else:
                break
            at = end
        self.at = at

    def items(self, depth: int) -> list[Any] | NDArray[Any]:
        first = self.mark()
        if first == TYPE:
            return self.typed()
        if first == COUNT:
            return [self.value(self.mark(), depth + 1) for _ in range(self.length(self.mark()))]
        found = []
        while first != ARRAY_END:
            if first != NO_OP:
                found.append(self.value(first, depth + 1))
            first = self.mark()
        return found

    def typed(self) -> NDArray[Any]:
        dtype = DTYPES.get(self.mark())
        if dtype is None:
            self.fail("an array has a type that is not a number")
        if self.mark() != COUNT:
            self.fail("a typed array has no length")
        count = self.length(self.mark(), dtype.itemsize)
        found = np.frombuffer(self.data, dtype, count, self.at)
        self.at += count * dtype.itemsize
        return found
