"""Damage to CatBoost's .cbm, a FlatBuffers table: to every number that our reader looks at, by its type."""

import json
import struct
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.fuzz.documents import DAMAGES as OF_DOCUMENTS
from tests.hostile.mutants import NUMBERS, Rng, byte_changed, bytes_overwritten, chosen, cut_off
from treeinner.errors import ModelError
from treeinner.readers.catboost import cbm

HEAD = 8  # "CBM1" and the length


@contextmanager
def watched(seen: list[tuple[str, int, Any, int]]):
    """Note every number and every vector that is looked at: (what, position in the table, type, count)."""
    number, vector = cbm.Table._number, cbm.Table.vector

    def noting_number(self, form, at):
        seen.append(("number", at, form, 1))
        return number(self, form, at)

    def noting_vector(self, member, dtype):
        found, at = vector(self, member, dtype), self._target(member)
        if at:
            seen.append(("vector", at + 4, np.dtype(dtype), len(found)))
        return found

    with patch.object(cbm.Table, "_number", noting_number), patch.object(cbm.Table, "vector", noting_vector):
        yield


@lru_cache(256)
def places(data: bytes) -> list[tuple[str, int, Any, int]]:
    seen: list[tuple[str, int, Any, int]] = []
    with watched(seen), suppress(ModelError):  # of what is damaged already: as far as it is read
        cbm.read_cbm(data)
    return sorted(set(seen), key=str)


def overwritten(data: bytes, at: int, new: bytes) -> bytes:
    return data[: HEAD + at] + new + data[HEAD + at + len(new) :]


def packed(form: str, number: Any) -> bytes:
    """A number of a struct format, cut to what the format holds."""
    kind = np.dtype(form)
    with np.errstate(all="ignore"):
        if kind.kind == "f":
            return np.array(float(number), kind).tobytes()
        number = int(number) if np.isfinite(float(number)) else 0
        return (number % (1 << 8 * kind.itemsize)).to_bytes(kind.itemsize, "little")


def number_changed(data: bytes, rng: Rng) -> bytes:
    """A position, an offset, a length or a scalar."""
    _, at, form, _ = chosen(rng, [place for place in places(data) if place[0] == "number"])
    old = struct.unpack_from(form, data, HEAD + at)[0]
    new = chosen(rng, [old + 1, old - 1, old + 4, old - 4, 0, old * 2, -old, *NUMBERS])
    return overwritten(data, at, packed(form, new))


def item_changed(data: bytes, rng: Rng) -> bytes:
    """An item of a vector, or a part of it."""
    _, at, dtype, count = chosen(rng, [place for place in places(data) if place[0] == "vector" and place[3]])
    base, inner = (dtype.base, dtype.itemsize // dtype.base.itemsize) if dtype.names is None else (np.dtype("<i4"), 2)
    n = count * inner
    where = at + int(rng.integers(n)) * base.itemsize
    near = [int(rng.integers(-2, 12)), float(rng.normal()), 1e30, *np.frombuffer(data, base, n, HEAD + at).tolist()]
    return overwritten(data, where, packed(base.str, chosen(rng, near if rng.random() < 0.6 else NUMBERS)))


def vector_moved(data: bytes, rng: Rng) -> bytes:
    """A vector of another length, at the end of the file; what pointed to it points there."""
    everything = places(data)
    _, at, dtype, count = chosen(rng, [place for place in everything if place[0] == "vector" and place[3]])
    holders = [
        p for what, p, form, _ in everything if what == "number" and form == "<I" and p + pointer(data, p) == at - 4
    ]
    if not holders:
        return item_changed(data, rng)
    old = data[HEAD + at : HEAD + at + count * dtype.itemsize]
    size = dtype.itemsize
    new = chosen(rng, [old[:-size], old + old, old[:0], old + old[-size:], old[size:], damaged_text(old, rng)])
    data += bytes(-len(data) % 8)
    start = len(data) - HEAD
    data += struct.pack("<I", len(new) // size) + new
    data = overwritten(data, holders[0], struct.pack("<I", start - holders[0]))
    return data[:4] + struct.pack("<I", len(data) - HEAD) + data[HEAD:]


def pointer(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, HEAD + at)[0])


def damaged_text(old: bytes, rng: Rng) -> bytes:
    """The same JSON with damage, where it is JSON."""
    try:
        document = json.loads(old)
        return json.dumps(chosen(rng, OF_DOCUMENTS)(document, rng)).encode()
    except (ValueError, RecursionError, TypeError, KeyError):
        return old[::-1]


def settings_changed(data: bytes, rng: Rng) -> bytes:
    """A text of the model's information."""
    texts = [
        place
        for place in places(data)
        if place[0] == "vector" and place[2] == np.dtype("u1") and data[HEAD + place[1] : HEAD + place[1] + 1] in b"{["
    ]
    if not texts:
        return byte_changed(data, rng)
    _, at, _, count = chosen(rng, texts)
    new = damaged_text(data[HEAD + at : HEAD + at + count], rng)
    if len(new) <= count:
        return overwritten(data, at, new.ljust(count))
    moved = [
        p for what, p, form, _ in places(data) if what == "number" and form == "<I" and p + pointer(data, p) == at - 4
    ]
    if not moved:
        return byte_changed(data, rng)
    data += bytes(-len(data) % 8)
    start = len(data) - HEAD
    data = overwritten(data + struct.pack("<I", len(new)) + new, moved[0], struct.pack("<I", start - moved[0]))
    return data[:4] + struct.pack("<I", len(data) - HEAD) + data[HEAD:]


DAMAGES = [
    number_changed, number_changed, item_changed, item_changed, item_changed, vector_moved, vector_moved,
    settings_changed,
    byte_changed, cut_off, bytes_overwritten,
]  # fmt: skip
