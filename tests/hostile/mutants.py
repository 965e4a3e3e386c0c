"""Mutants of saved files by what they are made of: bytes, zip members, npy headers and numbers, JSON.

`mutants(data, n, seed)` is deterministic, and no mutant depends on the others: a longer run continues a shorter one.
A kind of damage is one function in DAMAGES; a fuzzer of another format brings functions of its own.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from treeinner.ensemble import storage

Rng = np.random.Generator
NUMBERS = [
    0, -1, 1, 2, 255, 2**31 - 1, -(2**31), 2**31, 2**53, 2**63 - 1, 10**30, 0.5, -0.0, 1e-320, 1e38, 1e150, 1e308,
    -1e308, float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
THINGS = [None, True, False, "", "x", "1", "nan", "\ud800", [], {}, [None], [[]], {"": []}, [0] * 300, *NUMBERS]
DTYPES = ["<f8", ">f8", "<f4", "<i8", "<i4", "|b1", "<U3", "|O", "|V8", "<c16", "<M8[s]", "<f8, <i4", "<U0", "f", "("]


@dataclass
class Saved:
    """A saved file, taken apart; `packed` puts it together with a checksum that is right."""

    arrays: dict[str, np.ndarray]
    meta: dict[str, Any]
    headers: dict[str, bytes] = field(default_factory=dict)  # in place of what numpy would write

    @classmethod
    def of(cls, data: bytes) -> "Saved":
        arrays, meta = _contents(data)
        return cls(dict(arrays), json.loads(meta))

    def packed(self) -> bytes:
        arrays = {name.removesuffix(".npy"): array for name, array in self.arrays.items()}
        if isinstance(self.meta, dict):
            known = (self.meta.get(name) for name in ("format", "version", "data"))
            self.meta["checksum"] = storage._checksum(*known, arrays)
        members = {name: self.member(name) for name in self.arrays}
        return zipped(members | {storage.META: json.dumps(self.meta).encode()})

    def member(self, name: str) -> bytes:
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, self.arrays[name], allow_pickle=False)
        whole = buffer.getvalue()
        if name not in self.headers:
            return whole
        text = self.headers[name]
        return whole[:8] + len(text).to_bytes(2, "little") + text + whole[10 + int.from_bytes(whole[8:10], "little") :]


@lru_cache(64)
def _contents(data: bytes) -> tuple[dict[str, np.ndarray], bytes]:
    """Arrays and META of a good file, of which many mutants are made."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if name != storage.META]
        arrays = {name: np.load(io.BytesIO(archive.read(name))) for name in names}
        if any(max(array.shape, default=0) > 2**31 for array in arrays.values()):
            raise ValueError("a shape that numpy would take for ever to write, though it has no items")
        return arrays, archive.read(storage.META)


def zipped(members: dict[str, bytes]) -> bytes:
    """A zip of these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def chosen(rng: Rng, items: Any) -> Any:
    """One of them, as it is."""
    return items[int(rng.integers(len(items)))]


# -- bytes ---------------------------------------------------------------------------------------------------
def byte_changed(data: bytes, rng: Rng) -> bytes:
    at = int(rng.integers(len(data)))
    return data[:at] + rng.bytes(1) + data[at + 1 :]


def cut_off(data: bytes, rng: Rng) -> bytes:
    return data[: int(rng.integers(len(data)))]


def bytes_overwritten(data: bytes, rng: Rng) -> bytes:
    at, n = int(rng.integers(len(data))), int(rng.integers(2, 60))
    return (data[:at] + rng.bytes(n) + data[at + n :])[: len(data)]


# -- zip -----------------------------------------------------------------------------------------------------
def directory_changed(data: bytes, rng: Rng) -> bytes:
    """A field of an entry in the central directory: version, flags, packing, CRC, sizes, lengths, offset."""
    starts = [at for at in range(len(data) - 4) if data[at : at + 4] == b"PK\x01\x02"]
    at = chosen(rng, starts) + chosen(rng, [4, 6, 8, 10, 16, 20, 24, 28, 30, 32, 42])
    return data[:at] + chosen(rng, [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x01\0", rng.bytes(2)]) + data[at + 4 :]


def member_lost_or_renamed(data: bytes, rng: Rng) -> bytes:
    saved = Saved.of(data)
    array = saved.arrays.pop(name := chosen(rng, list(saved.arrays)))
    if rng.random() < 0.7:
        saved.arrays[chosen(rng, ["x.npy", ".npy", "../x.npy", "meta.npy", *saved.arrays, name.upper()])] = array
    return saved.packed()


# -- arrays --------------------------------------------------------------------------------------------------
def header_changed(data: bytes, rng: Rng) -> bytes:
    """Another type or shape in the header, above the same bytes."""
    saved = Saved.of(data)
    array = saved.arrays[name := chosen(rng, list(saved.arrays))]
    shape = chosen(
        rng, [array.shape, (), (0,), (-1,), (2**62,), (2**40, 2**40), (0, 2**62), array.shape[::-1], (1,) * 99]
    )
    head = {"descr": chosen(rng, DTYPES), "fortran_order": bool(rng.integers(2)), "shape": shape}
    text = chosen(rng, [repr(head), repr(head)[:-2], "(" * 9000, "{'descr': '<f8'}", ""]) if rng.random() < 0.3 else (
        f"{{'descr': '{head['descr']}', 'fortran_order': False, 'shape': {shape}, }}"
    )  # fmt: skip
    saved.headers[name] = text.encode() + b"\n"
    return saved.packed()


def array_of_another_type(data: bytes, rng: Rng) -> bytes:
    saved = Saved.of(data)
    array = saved.arrays[name := chosen(rng, list(saved.arrays))]
    with np.errstate(all="ignore"):
        saved.arrays[name] = array.astype(chosen(rng, ["f4", "f8", ">f8", "i8", "i4", "u1", "U9", "?", "c8", "M8[s]"]))
    return saved.packed()


def array_of_another_shape(data: bytes, rng: Rng) -> bytes:
    saved = Saved.of(data)
    array = saved.arrays[name := chosen(rng, list(saved.arrays))]
    shaped = [array[:-1], array[:0], np.concatenate([array, array]), array[None], array[..., None], array.reshape(-1)]
    saved.arrays[name] = chosen(rng, [*shaped, np.zeros((), array.dtype)])
    return saved.packed()


def numbers_changed(data: bytes, rng: Rng) -> bytes:
    saved = Saved.of(data)
    array = saved.arrays[name := chosen(rng, list(saved.arrays))].copy()
    flat = array.reshape(-1)
    if array.dtype.kind == "U" and array.size:
        flat.view(np.uint32)[int(rng.integers(flat.view(np.uint32).size))] = chosen(rng, [0xFFFFFFFF, 0x110000, 0xD800])
    elif array.dtype.kind == "b" and array.size:
        flat.view(np.uint8)[int(rng.integers(array.size))] = int(rng.integers(256))
    elif array.size:
        at = rng.integers(array.size, size=chosen(rng, [1, 1, 3]))
        with np.errstate(all="ignore"):
            flat[at] = np.array(chosen(rng, [float(n) for n in NUMBERS])).astype(array.dtype)
    saved.arrays[name] = array
    return saved.packed()


# -- JSON ----------------------------------------------------------------------------------------------------
def places_in(item: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON document."""
    found, stack = [], [item]
    while stack:
        here = stack.pop()
        keys = list(here) if isinstance(here, dict) else list(range(len(here))) if isinstance(here, list) else []
        found += [(here, key) for key in keys]
        stack += [here[key] for key in keys]
    return found


def entry_changed(data: bytes, rng: Rng) -> bytes:
    saved = Saved.of(data)
    # The outer entries are few and matter more than the many items of lists.
    outer = [(saved.meta["data"], key) for key in saved.meta["data"]] + [(saved.meta, key) for key in saved.meta]
    here, key = chosen(rng, outer if rng.random() < 0.5 else places_in(saved.meta))
    here[key] = chosen(rng, THINGS)
    return saved.packed()


def entry_lost_or_added(data: bytes, rng: Rng) -> bytes:
    saved = Saved.of(data)
    here, key = chosen(rng, places_in(saved.meta))
    if rng.random() < 0.5:
        del here[key]
    elif isinstance(here, list):
        here.insert(key, chosen(rng, THINGS))
    else:
        here[f"{key}.x"] = here[key]
    return saved.packed()


def json_damaged(data: bytes, rng: Rng) -> bytes:
    saved = Saved.of(data)
    text = json.dumps(saved.meta).encode()
    broken = [
        b"[" * 100_000,
        b"{}",
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"9" * 5000,
        cut_off(text, rng),
        byte_changed(text, rng),
    ]
    members = {name: saved.member(name) for name in saved.arrays}
    return zipped(members | {storage.META: chosen(rng, broken)})


DAMAGES: list[Callable[[bytes, Rng], bytes]] = [
    byte_changed, cut_off, bytes_overwritten, directory_changed, member_lost_or_renamed, header_changed,
    array_of_another_type, array_of_another_shape, numbers_changed, numbers_changed, entry_changed, entry_changed,
    entry_lost_or_added, json_damaged,
]  # fmt: skip


def mutants(data: bytes, n: int, seed: int, first: int = 0) -> Iterator[tuple[str, bytes]]:
    """n mutants from number `first` on, each with the name of its damage."""
    for number in range(first, first + n):
        damage = DAMAGES[number % len(DAMAGES)]
        yield f"{damage.__name__} {number}", damage(data, np.random.default_rng([seed, number]))
