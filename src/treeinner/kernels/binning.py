"""Thresholds and category sets of a model -> planes of small integers (core/kernels/bin.h says what a plane is).

Everything here is settled once per model: which plane a split reads, from which code on it goes right, and how the
values of a column become codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import UnsupportedModelError

if TYPE_CHECKING:
    from treeinner.read.trees import Trees

__all__ = ["Plan", "plan"]

IntArray = NDArray[np.int32]
LongArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Categories = dict[int, IntArray]  # column -> its categories that are named in some set, ascending

MISSING, OTHER, FIRST_CATEGORY = 0, 1, 2  # codes of a categorical plane
LARGEST = {1: 255, 2: 65535}  # code, by bytes
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

    categories = _used_categories(e, categorical)
    code_bytes = _code_bytes(e, numeric, rank, categories)
    capacity = LARGEST[code_bytes] - 2
    # A plane serves the splits of one column, one run of thresholds and one direction for missing values.
    run = rank // capacity
    keys = np.stack([e.column[numeric], run, e.missing_left[numeric]], axis=1).astype(np.int64).reshape(-1, 3)
    category_keys = np.array([(c, 0, 1) for c in categories], dtype=np.int64).reshape(-1, 3)
    planes, plane_of = np.unique(np.concatenate([keys, category_keys]), axis=0, return_inverse=True)
    plane_of = plane_of.reshape(-1)  # numpy 2.0 shaped it otherwise

    node_plane, node_cut = np.zeros(e.n_nodes, np.int32), np.zeros(e.n_nodes, np.int32)
    node_plane[numeric] = plane_of[: len(numeric)]
    node_cut[numeric] = rank - run * capacity + 2
    plane_of_column = dict(zip(categories, plane_of[len(numeric) :].tolist(), strict=True))
    node_plane[categorical] = [plane_of_column[c] for c in e.column[categorical].tolist()]
    node_set, sets = _bit_sets(e, categorical, categories, code_bytes)

    columns = np.zeros((e.n_columns, 6), np.int64)
    columns[:, 0] = np.searchsorted(planes[:, 0], np.arange(e.n_columns))
    columns[:, 1] = np.bincount(planes[:, 0], minlength=e.n_columns)
    columns[list(categories), 2] = 1
    columns[list(e.zero_as_missing), 3] = 1
    padded, columns[:, 4], columns[:, 5] = _padded(threshold, start)
    first = planes[:, 1] * capacity
    n = np.clip(per_column[planes[:, 0]] - first, 0, capacity)
    missing = np.where(planes[:, 2] == 1, MISSING, LARGEST[code_bytes])
    codes_of_category, other_code = _category_tables(e, categories, columns)
    return Plan(
        code_bytes=code_bytes,
        node_plane=node_plane,
        node_cut=node_cut,
        node_set=node_set,
        sets=sets,
        columns=columns,
        planes=np.stack([planes[:, 0], first, n, missing], axis=1).astype(np.int32),
        thresholds=padded,
        thresholds32=_as_float32(padded, up=e.right_if == "greater_equal"),
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


def _used_categories(e: Trees, categorical: LongArray) -> Categories:
    """Categories named in some set, per categorical column; all others behave alike."""
    used = {}
    columns = e.column[categorical]
    for column in np.unique(columns).tolist():
        sets = np.unique(e.category_set[categorical[columns == column]])
        codes = [e.set_codes[e.set_start[s] : e.set_start[s + 1]] for s in sets]
        used[column] = np.unique(np.concatenate(codes))
        if len(used[column]) > LARGEST[2] - FIRST_CATEGORY:
            raise UnsupportedModelError(
                f"Column {column} has {len(used[column])} categories in the model's splits; at most "
                f"{LARGEST[2] - FIRST_CATEGORY} are supported. Merge rare categories and train again."
            )
    return used


def _code_bytes(e: Trees, numeric: LongArray, rank: LongArray, categories: Categories) -> int:
    """One byte per code if that does not take more than twice as many planes; more planes than that cost more."""
    if any(len(codes) > LARGEST[1] - FIRST_CATEGORY for codes in categories.values()):
        return 2

    def n_planes(code_bytes: int) -> int:
        runs = rank // (LARGEST[code_bytes] - 2)
        return len(np.unique((runs * e.n_columns + e.column[numeric]) * 2 + e.missing_left[numeric]))

    return 1 if n_planes(1) <= 2 * n_planes(2) else 2


def _bit_sets(
    e: Trees, categorical: LongArray, categories: Categories, code_bytes: int
) -> tuple[IntArray, NDArray[np.uint64]]:
    """A bit per code for every categorical split: set if the code goes right."""
    words = {
        c: SET_WORDS_8 if code_bytes == 1 else (len(codes) + FIRST_CATEGORY + 63) // 64
        for c, codes in categories.items()
    }
    columns = e.column[categorical]
    start = np.concatenate([[0], np.cumsum([words[c] for c in columns.tolist()], dtype=np.int64)])
    node_set = np.full(e.n_nodes, -1, np.int32)
    node_set[categorical] = start[:-1]
    bits = np.zeros(int(start[-1]) * 64, np.uint8)
    for column, codes in categories.items():
        here = np.flatnonzero(columns == column)
        sets = e.category_set[categorical[here]]
        sizes_here = e.set_start[sets + 1] - e.set_start[sets]
        offsets = np.arange(sizes_here.sum()) - np.repeat(np.cumsum(sizes_here) - sizes_here, sizes_here)
        members = e.set_codes[np.repeat(e.set_start[sets], sizes_here) + offsets]
        position = np.searchsorted(codes, members) + FIRST_CATEGORY
        bits[np.repeat(start[here] * 64, sizes_here) + position] = 1
    bits[start[:-1] * 64 + MISSING] = ~e.missing_left[categorical]
    return node_set, np.packbits(bits, bitorder="little").view(np.uint64)


def _padded(threshold: FloatArray, start: LongArray) -> tuple[FloatArray, LongArray, LongArray]:
    """Thresholds of each column padded with NaN to 2^k - 1, so that the search has no branches."""
    n = np.diff(start)
    size = np.array([(1 << int(k).bit_length()) - 1 for k in n], np.int64)
    first = np.concatenate([[0], np.cumsum(size)[:-1]]).astype(np.int64)
    padded = np.full(int(size.sum()), np.nan)
    padded[np.repeat(first - start[:-1], n) + np.arange(len(threshold))] = threshold
    return padded, first, size


def _as_float32(threshold: FloatArray, *, up: bool) -> NDArray[np.float32]:
    """Thresholds that compare with every float32 as the exact ones do: x > t as x > (t rounded down), >= up."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rounded = threshold.astype(np.float32)
        wrong = rounded < threshold if up else rounded > threshold
        return np.where(wrong, np.nextafter(rounded, np.float32(np.inf if up else -np.inf)), rounded)


def _category_tables(e: Trees, categories: Categories, columns: LongArray) -> tuple[NDArray[np.uint16], IntArray]:
    """Code of every category of every column, one after the other; writes first and n into `columns`."""
    tables = [np.zeros(0, np.uint16)]
    other_code = np.full(e.n_columns, OTHER, np.int32)
    first = 0
    for column, codes in categories.items():
        known = None if e.known_codes is None else e.known_codes[column]
        table = np.full(max(known or 0, codes.max(initial=-1) + 1), OTHER, np.uint16)
        table[codes] = np.arange(len(codes)) + FIRST_CATEGORY
        if known is not None:
            table, other_code[column] = table[:known], MISSING
        columns[column, 4:] = first, len(table)
        first += len(table)
        tables.append(table)
    return np.concatenate(tables), other_code
