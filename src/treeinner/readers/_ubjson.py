"""UBJSON, the binary form in which XGBoost saves its models: bytes -> dict, typed arrays as numpy.

Written for files that may be damaged: every length is checked against the bytes that are left before anything
is allocated, and nesting is bounded, so a broken file is one ModelError and never a crash, a hang or a huge
allocation.

A model of a thousand trees is a thousand objects of one form. They are read as `Records`: the form is learned from the
first, and what the others must repeat of it is compared, not parsed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError

__all__ = ["Records", "parse"]

MAX_DEPTH = 64  # a model nests about ten deep

# UBJSON numbers are big-endian.
SCALARS = {
    ord(mark): struct.Struct(">" + code)
    for mark, code in {"i": "b", "U": "B", "I": "h", "l": "i", "L": "q", "d": "f", "D": "d"}.items()
}
WHOLE = frozenset(b"iUIlL")
# The types that typed arrays may hold; in the machine's own byte order, as kernels and sorting like them.
DTYPES = {
    ord(mark): np.dtype(code)
    for mark, code in {
        "i": ">i1",
        "U": ">u1",
        "I": ">i2",
        "l": ">i4",
        "L": ">i8",
        "d": ">f4",
        "D": ">f8",
    }.items()
}
CONSTANTS = {ord("T"): True, ord("F"): False, ord("Z"): None}
OBJECT, OBJECT_END, ARRAY, ARRAY_END = b"{}[]"
STRING, CHAR, HIGH_PRECISION, NO_OP, TYPE, COUNT = b"SCHN$#"
AS_RECORDS = frozenset(["trees"])  # names of the arrays that are read as Records
MIN_RECORDS = 4
MAX_AHEAD = 1024  # numbers that are looked at together, hoping that their marks are the same


def parse(data: bytes) -> dict[str, Any]:
    """Read the object that `data` holds; ModelError if it is damaged or is not one object.

    Arrays of objects of one form, if their name is in AS_RECORDS, come as `Records`.
    """
    reader = _Reader(data)
    if not data or data[0] != OBJECT:
        raise ModelError("Not a UBJSON object: the first byte is not '{'.")
    document = reader.value(reader.mark(), 0)
    assert isinstance(document, dict)
    if reader.at != len(data):
        raise ModelError(f"Damaged UBJSON: {len(data) - reader.at} bytes are left behind the object.")
    return document


class _Reader:
    """A position in the bytes that moves on with every value read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

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
        if mark not in WHOLE:
            self.fail("a length is not a whole number")
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
        if mark == STRING:
            return self.text(self.mark())
        if depth > MAX_DEPTH:
            self.fail(f"values nest deeper than {MAX_DEPTH}")
        if mark == OBJECT:
            return self.members(depth)
        if mark == ARRAY:
            return self.items(depth)
        if mark == CHAR:
            return chr(self.mark())
        if mark == HIGH_PRECISION:
            return self.text(self.mark())
        return self.fail(f"{bytes([mark])!r} begins no value")

    def members(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while True:
            mark = self.mark()
            if mark == OBJECT_END:
                return found
            name = self.text(mark)
            mark = self.mark()
            records = self.records(depth + 1) if mark == ARRAY and name in AS_RECORDS else None
            found[name] = self.value(mark, depth + 1) if records is None else records

    def items(self, depth: int) -> list[Any] | NDArray[Any]:
        first = self.mark()
        if first == TYPE:
            return self.typed()
        if first == COUNT:
            count = self.length(self.mark())
            numbers = self.numbers(count)
            return [self.value(self.mark(), depth + 1) for _ in range(count)] if numbers is None else numbers
        found = []
        while first != ARRAY_END:
            if first != NO_OP:
                found.append(self.value(first, depth + 1))
            first = self.mark()
        return found

    def numbers(self, count: int) -> list[Any] | None:
        """Read so many numbers, each with its own mark; None, and nothing read, if not all are numbers."""
        data, at, found = self.data, self.at, list[Any]()
        while len(found) < count:
            mark = data[at] if at < len(data) else None
            if mark not in DTYPES:
                return None
            marked = np.dtype([("mark", "u1"), ("number", DTYPES[mark])])
            ahead = min(count - len(found), MAX_AHEAD, (len(data) - at) // marked.itemsize)
            if not ahead:
                return None
            run = np.frombuffer(data, marked, ahead, at)
            other = np.flatnonzero(run["mark"] != mark)
            run = run[: other[0]] if len(other) else run
            found += run["number"].tolist()
            at += len(run) * marked.itemsize
        self.at = at
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
        return found.astype(dtype.newbyteorder("="))

    # -- records ---------------------------------------------------------------------------------------------
    def records(self, depth: int) -> Records | None:
        """Read an array of objects of one form; None, and nothing read, if it is another kind of array."""
        before = self.at
        found = self._records(depth) if self.data[before : before + 1] == b"#" else None
        if found is None:
            self.at = before
        return found

    def _records(self, depth: int) -> Records | None:
        self.at += 1
        count = self.length(self.mark())
        first = self.at
        if count < MIN_RECORDS or self.mark() != OBJECT:
            return None
        fields: list[Field] = []
        if not self.form(fields, "", depth + 1):
            return None
        ends = [first, *(field.end for field in fields)]
        texts = [self.data[end : field.start] for end, field in zip(ends, fields, strict=False)]
        texts.append(self.data[ends[-1] : self.at])
        if count * sum(map(len, texts)) > len(self.data) - first:
            return None
        found = _find_fields(self.data, first, texts, [field.size for field in fields], count)
        if found is None:
            return None
        begin, size = found
        behind = begin[-1] + size[-1] + len(texts[-1])
        self.at = int(behind[-1])
        return Records(self.data, np.concatenate([[first], behind[:-1]]), depth, fields, begin, size)

    def form(self, fields: list[Field], inside: str, depth: int) -> bool:
        """Find the fields of an object; False: it holds what Records cannot, or one name twice."""
        while True:
            mark = self.mark()
            if mark == OBJECT_END:
                return bool(fields)
            name, start, mark = inside + self.text(mark), self.at, self.mark()
            if mark == OBJECT:
                if depth >= MAX_DEPTH or not self.form(fields, f"{name}/", depth + 1):
                    return False
                continue
            kind, size = mark, 0
            ahead = self.data[self.at : self.at + 4]
            if mark == ARRAY and ahead[:1] == b"$" and ahead[2:] == b"#L" and ahead[1] in DTYPES:
                kind, size, start = ahead[1], DTYPES[ahead[1]].itemsize, self.at + 4
            elif mark == STRING and ahead[:1] == b"L":
                size, start = 1, self.at + 1
            elif mark not in SCALARS:
                return False
            if any(field.name == name for field in fields):
                return False
            self.value(mark, depth)
            fields.append(Field(name, kind, size, start, self.at))


def _find_fields(
    data: bytes, at: int, texts: list[bytes], sizes: list[int], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Begin and bytes of every field of `count` records: (fields, records). None: one of them has another form.

    A record is texts[0], a field, texts[1], a field, ..., and a last text.
    """
    begin, size = list[int](), list[int]()
    length, end = SCALARS[ord("L")].unpack_from, len(data)
    steps = [(text, len(text), item) for text, item in zip(texts, sizes, strict=False)]
    for _ in range(count):
        for text, text_size, item in steps:
            if not data.startswith(text, at):
                return None
            at += text_size
            if at + (8 if item else 1) > end:
                return None
            if item:
                n_bytes = length(data, at)[0] * item
                at += 8
            else:
                if data[at] not in SCALARS:
                    return None
                n_bytes = SCALARS[data[at]].size
                at += 1
            if not 0 <= n_bytes <= end - at:
                return None
            begin.append(at)
            size.append(n_bytes)
            at += n_bytes
        if not data.startswith(texts[-1], at):
            return None
        at += len(texts[-1])
    shape = count, len(steps)
    return np.array(begin).reshape(shape).T.copy(), np.array(size).reshape(shape).T.copy()


class Field(NamedTuple):
    """Where the records of one form differ: a number, a text or a typed array."""

    name: str  # members of an inner object are called "object/member"
    kind: int  # mark of the text, the number, or the type of the array
    size: int  # of one item; 0: a number
    start: int  # in the first record: where its length stands, or its mark
    end: int


class Records(Sequence[dict[str, Any]]):
    """Objects of one form, held column by column; an item is read when it is asked for."""

    def __init__(
        self,
        data: bytes,
        starts: NDArray[np.int64],
        depth: int,
        fields: list[Field],
        begin: NDArray[np.int64],
        size: NDArray[np.int64],
    ) -> None:
        self._data, self._starts, self._depth = data, starts, depth
        self._fields = {field.name: field for field in fields}
        # By name: where the contents begin, and how many bytes they have.
        self._parts = {field.name: part for field, *part in zip(fields, begin, size, strict=True)}

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        reader = _Reader(self._data)
        reader.at = int(self._starts[index]) + 1
        return reader.members(self._depth + 1)

    def has(self, name: str) -> bool:
        """Whether every record has a typed array of this name; else none has."""
        return name in self._fields and self._fields[name].kind in DTYPES and self._fields[name].size > 0

    def lengths(self, name: str) -> NDArray[np.int64]:
        """Number of items of a text or typed array in each record: (records,)."""
        _, size = self._parts[name]
        return np.asarray(size // self._fields[name].size)

    def joined(self, name: str) -> NDArray[Any]:
        """Typed arrays of all records, one after the other, in the machine's own byte order."""
        dtype = DTYPES[self._fields[name].kind]
        parts = zip(*(part.tolist() for part in self._parts[name]), strict=True)
        joined = b"".join([self._data[begin : begin + size] for begin, size in parts])
        return np.frombuffer(joined, dtype).astype(dtype.newbyteorder("="))

    def texts(self, name: str) -> set[str] | None:
        """Distinct texts of a member ("object/member" for one of an inner object); None if it is no text."""
        if name not in self._fields or self._fields[name].kind != STRING:
            return None
        parts = zip(*(part.tolist() for part in self._parts[name]), strict=True)
        found = {self._data[begin : begin + size] for begin, size in parts}
        return {text.decode(errors="replace") for text in found}
