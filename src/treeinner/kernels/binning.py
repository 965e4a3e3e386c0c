"""Thresholds and category sets of a model -> planes of small integers (core/kernels/bin.h says what a plane is).

Everything here is settled once per model: which plane a split reads, from which code on it goes right, and how the
values of a column become codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import UnsupportedModelError

if TYPE_CHECKING:
    from treeinner.read.trees import Trees

__all__ = ["Plan", "plan"]

IntArray = NDArray[np.int32]
LongArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Categories = dict[int, LongArray]  # column -> its categories that are named in some set, ascending

MISSING, OTHER, FIRST_CATEGORY = 0, 1, 2  # codes of a categorical plane
LARGEST = {1: 255, 2: 65535}  # code, by bytes
MOST_CODES = 2**24  # of a column: read/trees.py checks it
SET_WORDS_8 = 4  # 256 bits: the vector kernel reads them whole


@dataclass(frozen=True, eq=False)
class Plan:
    """What the compiled core needs to bin rows, and what each split then compares."""

    code_bytes: int
    node_plane: IntArray  # (n_nodes,)  0 at leaves
    node_cut: IntArray  # (n_nodes,)  numeric splits
    node_set: IntArray  # (n_nodes,)  first word in `sets`; -1 unless categorical
    sets: NDArray[np.uint64]
    columns: LongArray  # (n_columns, 6): first plane, planes, categorical, zero is missing, first, n
    planes: IntArray  # (n_planes, 4): column, first threshold, thresholds, missing code
    thresholds: FloatArray
    thresholds32: NDArray[np.float32]
    codes_of_category: NDArray[np.uint16]
    other_code: IntArray  # (n_columns,)


def plan(e: Trees) -> Plan:
    """Lay out the planes of the trees."""
    numeric = np.flatnonzero((e.column >= 0) & (e.category_set < 0))
    categorical = np.flatnonzero(e.category_set >= 0)
    column, threshold, position = _distinct_thresholds(e.column[numeric], e.threshold[numeric])
    per_column = np.bincount(column, minlength=e.n_columns)
    start = np.concatenate([[0], np.cumsum(per_column)])
    rank = position - start[e.column[numeric]]  # of a split's threshold within its column

    categories, members = _named_categories(e, categorical) if len(categorical) else ({}, None)
    # A plane serves the splits of one column, one run of thresholds and one direction for missing values: its key.
    runs = np.int64(len(threshold) + 1)
    keys = {
        size: (e.column[numeric] * runs + rank // (largest - 2)) * 2 + e.missing_left[numeric]
        for size, largest in LARGEST.items()
    }
    # One byte per code if that does not take more than twice as many planes; more planes than that cost more.
    few = all(len(codes) <= LARGEST[1] - FIRST_CATEGORY for codes in categories.values())
    code_bytes = 1 if few and len(np.unique(keys[1])) <= 2 * len(np.unique(keys[2])) else 2
    capacity = LARGEST[code_bytes] - 2
    of_categories = np.array(list(categories), np.int64) * runs * 2 + 1  # one plane each
    planes, plane_of = np.unique(np.concatenate([keys[code_bytes], of_categories]), return_inverse=True)
    plane_column, plane_run, to_left = planes // (2 * runs), planes // 2 % runs, planes % 2

    node_plane, node_cut = np.zeros(e.n_nodes, np.int32), np.zeros(e.n_nodes, np.int32)
    node_plane[numeric] = plane_of[: len(numeric)]
    node_cut[numeric] = rank % capacity + 2
    columns = np.zeros((e.n_columns, 6), np.int64)
    columns[:, 0] = np.searchsorted(plane_column, np.arange(e.n_columns))
    columns[:, 1] = np.bincount(plane_column, minlength=e.n_columns)
    columns[list(categories), 2] = 1
    columns[list(e.zero_as_missing), 3] = 1
    padded, padded32, columns[:, 4], columns[:, 5] = _padded(threshold, start, up=e.right_if == "greater_equal")
    node_set, sets = np.full(e.n_nodes, -1, np.int32), np.zeros(0, np.uint64)
    codes_of_category, other_code = np.zeros(0, np.uint16), np.full(e.n_columns, OTHER, np.int32)
    if categories:
        node_plane[categorical] = columns[e.column[categorical], 0]
        node_set[categorical], sets = _bit_sets(e, categorical, categories, members, code_bytes)
        codes_of_category = _category_codes(e, categories, columns, other_code)
    first = plane_run * capacity
    n = np.clip(per_column[plane_column] - first, 0, capacity)
    missing = np.where(to_left == 1, MISSING, LARGEST[code_bytes])
    return Plan(
        code_bytes=code_bytes,
        node_plane=node_plane,
        node_cut=node_cut,
        node_set=node_set,
        sets=sets,
        columns=columns,
        planes=np.stack([plane_column, first, n, missing], axis=1).astype(np.int32),
        thresholds=padded,
        thresholds32=padded32,
        codes_of_category=codes_of_category,
        other_code=other_code,
    )


def _distinct_thresholds(column: IntArray, threshold: FloatArray) -> tuple[IntArray, FloatArray, LongArray]:
    """Distinct (column, threshold) pairs, sorted, and the position of each split's own pair."""
    order = np.lexsort((threshold, column))
    c, t = column[order], threshold[order]
    new = np.ones(len(order), bool)
    new[1:] = (c[1:] != c[:-1]) | (t[1:] != t[:-1])
    position = np.empty(len(order), np.int64)
    position[order] = np.cumsum(new) - 1
    return c[new], t[new], position


def _named_categories(e: Trees, categorical: LongArray) -> tuple[Categories, tuple[LongArray, LongArray]]:
    """Categories named in some set, by column; and for every member of every split's set: the split, and its code.

    All other categories of a column behave alike.
    """
    sets, column = e.category_set[categorical], e.column[categorical].astype(np.int64)
    size = e.set_start[sets + 1] - e.set_start[sets]
    split = np.repeat(np.arange(len(sets)), size)
    place = np.arange(len(split)) + np.repeat(e.set_start[sets] - np.cumsum(size) + size, size)
    key = column[split] * MOST_CODES + e.set_codes[place]
    keys, columns = np.unique(key), np.unique(column)
    first = np.searchsorted(keys, columns * MOST_CODES)
    named = dict(zip(columns.tolist(), np.split(keys % MOST_CODES, first[1:]), strict=True))
    for each, codes in named.items():
        if len(codes) > LARGEST[2] - FIRST_CATEGORY:
            held = f"Column {each} has {len(codes)} categories in splits, at most {LARGEST[2] - FIRST_CATEGORY} work"
            raise UnsupportedModelError(f"{held}; merge rare ones and train again.")
    code = np.searchsorted(keys, key) - first[np.searchsorted(columns, column[split])] + FIRST_CATEGORY
    return named, (split, code)


def _bit_sets(
    e: Trees, categorical: LongArray, categories: Categories, members: Any, code_bytes: int
) -> tuple[LongArray, NDArray[np.uint64]]:
    """A bit per code for every categorical split, set if the code goes right, and where the words of each begin."""
    words = {c: SET_WORDS_8 if code_bytes == 1 else (len(codes) + 65) // 64 for c, codes in categories.items()}
    size = np.array([words[c] for c in e.column[categorical].tolist()])
    first = np.cumsum(size) - size
    split, code = members
    bits = np.zeros(int(size.sum()) * 64, np.uint8)
    bits[first[split] * 64 + code] = 1
    bits[first * 64 + MISSING] = ~e.missing_left[categorical]
    return first, np.packbits(bits, bitorder="little").view(np.uint64)


def _padded(
    threshold: FloatArray, start: LongArray, *, up: bool
) -> tuple[FloatArray, NDArray[np.float32], LongArray, LongArray]:
    """Thresholds of each column padded with NaN to 2^k - 1, so that the search has no branches; firsts and sizes.

    The float32 ones compare with every float32 as the exact ones do: x > t as x > (t rounded down), >= up.
    """
    n = np.diff(start)
    size = np.array([(1 << int(k).bit_length()) - 1 for k in n], np.int64)
    first = np.concatenate([[0], np.cumsum(size)[:-1]]).astype(np.int64)
    padded = np.full(int(size.sum()), np.nan)
    padded[np.repeat(first - start[:-1], n) + np.arange(len(threshold))] = threshold
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rounded = padded.astype(np.float32)
        wrong = rounded < padded if up else rounded > padded
        next_one = np.nextafter(rounded, np.float32(np.inf if up else -np.inf))
        return padded, np.where(wrong, next_one, rounded), first, size


def _category_codes(e: Trees, categories: Categories, columns: LongArray, other_code: IntArray) -> NDArray[np.uint16]:
    """Code of every category of every column, one after the other; writes first and n into `columns`."""
    tables, first = [], 0
    for column, codes in categories.items():
        known = None if e.known_codes is None else e.known_codes[column]
        table = np.full(max(known or 0, codes.max(initial=-1) + 1), OTHER, np.uint16)
        table[codes] = np.arange(len(codes)) + FIRST_CATEGORY
        if known is not None:
            table, other_code[column] = table[:known], MISSING
        columns[column, 4:] = first, len(table)
        first += len(table)
        tables.append(table)
    return np.concatenate(tables)
