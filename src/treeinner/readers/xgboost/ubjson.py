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
        last = self.data[ends[-1] : self.at]
        self.at, starts = first, []
        plan = [
            (text, len(text), field.size, field.begin, field.bytes) for text, field in zip(texts, fields, strict=True)
        ]
        for _ in range(count):
            starts.append(self.at)
            if not (self.follow(plan) and self.data.startswith(last, self.at)):
                return None
            self.at += len(last)
        return Records(self.data, starts, depth, fields)

    def follow(self, plan: list[tuple[bytes, int, int, list[int], list[int]]]) -> bool:
        """Pass one record, noting where its contents are; False: it is of another form, or does not fit the file."""
        data, at, length = self.data, self.at, SCALARS[ord("L")].unpack_from
        for text, width, item_size, begin, sizes in plan:
            if not data.startswith(text, at) or at + width + 9 > len(data):
                return False
            at += width
            if item_size:
                size = length(data, at)[0] * item_size
                at += 8
            else:
                form = SCALARS.get(data[at])
                if form is None:
                    return False
                size = form.size + 1
            if not 0 <= size <= len(data) - at:
                return False
            begin.append(at)
            sizes.append(size)
            at += size
        self.at = at
        return True

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
            fields.append(Field(name, kind, size, start, self.at, [], []))


class Field(NamedTuple):
    """Where the records of one form differ: a number, a text or a typed array."""

    name: str  # members of an inner object are called "object/member"
    kind: int  # mark of the text, the number, or the type of the array
    size: int  # of one item; 0: a number
    start: int  # in the first record: where its length stands, or its mark
    end: int
    begin: list[int]  # where the contents begin, record by record
    bytes: list[int]  # how many bytes they have


class Records(Sequence[dict[str, Any]]):
    """Objects of one form, held column by column; an item is read when it is asked for."""

    def __init__(self, data: bytes, starts: list[int], depth: int, fields: list[Field]) -> None:
        self._data, self._starts, self._depth = data, starts, depth
        self._fields = {field.name: field for field in fields}

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
        reader.at = self._starts[index] + 1
        return reader.members(self._depth + 1)

    def has(self, name: str) -> bool:
        """Whether every record has a typed array of this name; else none has."""
        return name in self._fields and self._fields[name].kind in DTYPES and self._fields[name].size > 0

    def lengths(self, name: str) -> NDArray[np.int64]:
        """Number of items of a text or typed array in each record: (records,)."""
        return np.array(self._fields[name].bytes) // self._fields[name].size

    def joined(self, name: str) -> NDArray[Any]:
        """Typed arrays of all records, one after the other, in the machine's own byte order."""
        dtype = DTYPES[self._fields[name].kind]
        return np.frombuffer(b"".join(self._parts(name)), dtype).astype(dtype.newbyteorder("="))

    def texts(self, name: str) -> set[str] | None:
        """Distinct texts of a member ("object/member" for one of an inner object); None if it is no text."""
        if name not in self._fields or self._fields[name].kind != STRING:
            return None
        return {text.decode(errors="replace") for text in set(self._parts(name))}

    def _parts(self, name: str) -> list[bytes]:
        field = self._fields[name]
        return [self._data[at : at + size] for at, size in zip(field.begin, field.bytes, strict=True)]
