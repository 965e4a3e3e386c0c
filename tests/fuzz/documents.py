"""Damage to documents of JSON and UBJSON: to what they hold, then to how it is written."""

import copy
import json
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.hostile.mutants import NUMBERS, THINGS, Rng, bytes_overwritten, chosen, cut_off
from treeinner.readers.xgboost import ubjson

# What parsers disagree about.
TOKENS = [
    "1e999", "-1e999", "NaN", "Infinity", "-Infinity", "nan", "inf", "0x1", "1_0", "01", "+1", "1.", ".5", "1e", "-",
    "-0",
    "1e-400", "3.4028236e38", "16777217", "2147483648", "-2147483649", "4294967295", "9223372036854775808",
    "123456789012345678901234567890", "1.5", "1e0", "true", "null", '"1"', "[]", "{}", "9" * 5000, "[" * 5000, "\u0661",
]  # fmt: skip


class Typed(list):
    """Items of a typed array of UBJSON, and their type."""

    dtype = np.dtype("f4")

    @classmethod
    def of(cls, array: np.ndarray) -> "Typed":
        made = cls(array.tolist())
        made.dtype = array.dtype.newbyteorder("=")
        return made


# -- places --------------------------------------------------------------------------------------------------
def place(document: Any, rng: Rng, wanted: Callable[[Any], bool] = lambda item: True) -> tuple[Any, Any]:
    """A container and a key in it, found by a walk from the top, so that the few outer ones are as likely as items."""
    found = None
    for _ in range(40):
        here = document
        while isinstance(here, (dict, list)) and len(here):
            key = chosen(rng, list(here)) if isinstance(here, dict) else int(rng.integers(len(here)))
            found = here, key
            if wanted(here[key]) and rng.random() < 0.3:
                return found
            here = here[key]
        if found is not None and wanted(found[0][found[1]]):
            return found
    if found is None:
        raise ValueError("an empty document")
    return found


def is_number(item: Any) -> bool:
    if isinstance(item, str):
        return re.fullmatch(r"\[?[-+0-9.eE,]+\]?", item) is not None
    return isinstance(item, (int, float)) and not isinstance(item, bool)


def is_list(item: Any) -> bool:
    return isinstance(item, list)


# -- what a document holds -----------------------------------------------------------------------------------
def thing_put(document: Any, rng: Rng) -> Any:
    here, key = place(document, rng)
    here[key] = chosen(rng, THINGS)
    return document


def number_changed(document: Any, rng: Rng) -> Any:
    here, key = place(document, rng, is_number)
    old = here[key]
    near = [int(rng.integers(-2, 12)), float(rng.normal()), 0.1, 1e30, 1e-30]
    if is_number(old) and not isinstance(old, str):
        near += [old + 1, old - 1, -old, old * 1000]
    new = chosen(rng, near if rng.random() < 0.6 else NUMBERS)
    here[key] = (
        chosen(rng, [f"{new}", f"[{new}]", f"[{new},{new}]", f" {new}", f"{new}x"]) if isinstance(old, str) else new
    )
    return document


def links_changed(document: Any, rng: Rng) -> Any:
    """An item of a list becomes another one of the same list, or the length of it."""
    here, key = place(document, rng, lambda item: is_list(item) and len(item) > 0)
    items = here[key]
    if is_list(items):
        items[int(rng.integers(len(items)))] = chosen(rng, [*items, len(items), len(items) - 1, -1])
    return document


def resized(items: list[Any], how: int) -> list[Any]:
    return [items[:-1], items[:0], items + items, items + items[-1:], items[::-1], items[1:], items[1:] + items[:1]][
        how
    ]


def list_resized(document: Any, rng: Rng) -> Any:
    here, key = place(document, rng, is_list)
    if is_list(here[key]):
        here[key][:] = resized(list(here[key]), int(rng.integers(7)))
    return document


def lists_resized_alike(document: Any, rng: Rng) -> Any:
    """All lists of one object that are as long as one of them."""
    here, key = place(document, rng, is_list)
    if isinstance(here, dict) and is_list(here[key]):
        size, how = len(here[key]), int(rng.integers(7))
        for items in here.values():
            if is_list(items) and len(items) == size:
                items[:] = resized(list(items), how)
    return document


def entry_lost_or_added(document: Any, rng: Rng) -> Any:
    here, key = place(document, rng)
    if rng.random() < 0.5:
        del here[key]
    elif isinstance(here, list):
        here.insert(key, here[key] if rng.random() < 0.5 else chosen(rng, THINGS))
    else:
        here[chosen(rng, [f"{key}x", "", "learner", "trees", "weight_drop", "leaf_weights"])] = here[key]
    return document


def entries_swapped(document: Any, rng: Rng) -> Any:
    """Two entries of the same type change places, or one is put in both."""
    one, at = place(document, rng)
    kind = type(one[at])
    other, there = place(document, rng, lambda item: type(item) is kind)
    both = copy.deepcopy((one[at], other[there]))  # so that no entry ends within itself
    if rng.random() < 0.5:
        one[at] = both[1]
    other[there] = both[0]
    return document


DAMAGES = [
    thing_put, number_changed, number_changed, number_changed, links_changed, links_changed, list_resized,
    lists_resized_alike,
    entry_lost_or_added, entries_swapped,
]  # fmt: skip


# -- JSON ----------------------------------------------------------------------------------------------------
def json_with(damage: Callable[[Any, Rng], Any]) -> Callable[[bytes, Rng], bytes]:
    def of_bytes(data: bytes, rng: Rng) -> bytes:
        return json.dumps(damage(json.loads(data), rng)).encode()

    of_bytes.__name__ = damage.__name__
    return of_bytes


def token_changed(data: bytes, rng: Rng) -> bytes:
    """A number of the text becomes what parsers may disagree about."""
    found = list(re.finditer(rb"-?\d[-+.\deE]*", data))
    if not found:
        return cut_off(data, rng)
    at = chosen(rng, found)
    return data[: at.start()] + chosen(rng, TOKENS).encode() + data[at.end() :]


def text_damaged(data: bytes, rng: Rng) -> bytes:
    """White space, marks of encodings, what follows the end, one key twice."""
    ways = [b"\xef\xbb\xbf" + data, b" \n" + data, data + b"x", data + b"\0", data + data, data.replace(b":", b" : "),
            data.replace(b",", b",\n"), data.replace(b"0", b"\\u0030"), data.decode().encode("utf-16"),
            b"[" + data + b"]",
            data.replace(b"{", b'{"learner":{},"trees":[],', 1), data.replace(b'"', b"'", 2),
            b"[" * 100_000]  # fmt: skip
    return chosen(rng, ways)


# -- UBJSON --------------------------------------------------------------------------------------------------
def plain(item: Any) -> Any:
    """A document of `ubjson.parse` whose arrays are lists that know their type."""
    if isinstance(item, dict):
        return {name: plain(value) for name, value in item.items()}
    if isinstance(item, np.ndarray):
        return Typed.of(item)
    return [plain(value) for value in item] if isinstance(item, list) else item


MARKS = {"f4": b"d", "f8": b"D", "i1": b"i", "u1": b"U", "i2": b"I", "i4": b"l", "i8": b"L"}


def ubj_parts(item: Any) -> list[tuple[str, bytes]]:
    """Bytes of an item as XGBoost writes it, each part with what it is: a mark, a length or data."""
    if isinstance(item, dict):
        inner = [part for name, value in item.items() for part in (*_text(name), *ubj_parts(value))]
        return [("mark", b"{"), *inner, ("mark", b"}")]
    if isinstance(item, Typed):
        try:
            held = np.array(item, item.dtype) if item else np.empty(0, item.dtype)
        except (TypeError, ValueError, OverflowError):
            return ubj_parts(list(item))
        if held.ndim == 1:
            mark = MARKS[item.dtype.str[1:]]
            swapped = held.astype(item.dtype.newbyteorder(">")).tobytes()
            return [("mark", b"[$"), ("mark", mark), ("mark", b"#"), *_length(len(item)), ("data", swapped)]
    if isinstance(item, list):
        return [("mark", b"[#"), *_length(len(item)), *(part for one in item for part in ubj_parts(one))]
    if isinstance(item, str):
        return [("mark", b"S"), *_text(item)]
    if item is None or isinstance(item, bool):
        return [("mark", {None: b"Z", True: b"T", False: b"F"}[item])]
    if isinstance(item, int):
        for mark, form in (("i", ">b"), ("U", ">B"), ("I", ">h"), ("l", ">i"), ("L", ">q")):
            try:
                return [("mark", mark.encode()), ("data", struct.pack(form, item))]
            except struct.error:
                continue
    return [("mark", b"D"), ("data", struct.pack(">d", float(item)))]


def _length(n: int) -> list[tuple[str, bytes]]:
    return [("mark", b"L"), ("length", struct.pack(">q", n))]


def _text(text: str) -> list[tuple[str, bytes]]:
    raw = text.encode(errors="surrogatepass")
    return [*_length(len(raw)), ("data", raw)]


def ubj_with(damage: Callable[[Any, Rng], Any]) -> Callable[[bytes, Rng], bytes]:
    def of_bytes(data: bytes, rng: Rng) -> bytes:
        return b"".join(part for _, part in ubj_parts(damage(plain(ubjson.parse(data)), rng)))

    of_bytes.__name__ = damage.__name__
    return of_bytes


def part_damaged(data: bytes, rng: Rng) -> bytes:
    """A mark or a length is another one."""
    parts = ubj_parts(plain(ubjson.parse(data)))
    wanted = chosen(rng, ["mark", "length"])
    at = chosen(rng, [i for i, (kind, _) in enumerate(parts) if kind == wanted])
    if wanted == "mark":
        new = chosen(rng, [bytes([mark]) for mark in b"{}[]iUIlLdDSCHNTFZ$#"] + [b"", b"[" * 200, b"N" * 9])
    else:
        old = struct.unpack(">q", parts[at][1])[0]
        new = struct.pack(">q", chosen(rng, [old + 1, old - 1, 0, -1, 2**31, 2**62, -(2**63), old * 256]))
    return b"".join(new if i == at else part for i, (_, part) in enumerate(parts))


def type_changed(data: bytes, rng: Rng) -> bytes:
    """A typed array is written with another type, or without one."""
    document = plain(ubjson.parse(data))
    here, key = place(document, rng, lambda item: isinstance(item, Typed))
    if isinstance(here[key], Typed):
        other = chosen(rng, [*MARKS, "list"])
        items = list(here[key]) if other == "list" else Typed(here[key])
        if isinstance(items, Typed):
            items.dtype = np.dtype(other)
        here[key] = items
    return b"".join(part for _, part in ubj_parts(document))


JSON_DAMAGES = [*map(json_with, DAMAGES), token_changed, token_changed, text_damaged, cut_off, bytes_overwritten]
UBJ_DAMAGES = [*map(ubj_with, DAMAGES), part_damaged, part_damaged, type_changed, cut_off, bytes_overwritten]
