"""CatBoost's own format, .cbm: "CBM1", a length, and a FlatBuffers table; CatBoost is not needed to read it.

A damaged file is one ModelError: no position is used before it is known to lie inside the bytes.
"""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError
from treeinner.readers._trees import FloatArray
from treeinner.readers.catboost.ctr import Split
from treeinner.readers.catboost.trees import Document, Features, Trees, other_trees, read_features, symmetric_trees

__all__ = ["read_cbm"]


NO_LEAF = 2**32 - 1

# Members are given by their position in the table, as in catboost/libs/model/flatbuffers.


class Table:
    """A FlatBuffers table; members are asked for by position and type."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._members = at - self._number("<i", at)
        self._end = self._number("<H", self._members)

    def _number(self, form: str, at: int) -> Any:
        if not 0 <= at <= len(self._data) - struct.calcsize(form):
            raise ModelError("The CatBoost model is damaged: a position lies outside the file.")
        return struct.unpack_from(form, self._data, at)[0]

    def _place(self, member: int) -> int:
        """Where a member stands; 0: it has its default."""
        entry = 4 + 2 * member
        offset = self._number("<H", self._members + entry) if entry + 2 <= self._end else 0
        return self._at + offset if offset else 0

    def _target(self, member: int) -> int:
        """Where the member's text, vector or table is; 0: there is none."""
        place = self._place(member)
        return place + self._number("<I", place) if place else 0

    def scalar(self, member: int, form: str, default: Any) -> Any:
        """A number of a struct format."""
        place = self._place(member)
        return self._number(form, place) if place else default

    def vector(self, member: int, dtype: Any) -> NDArray[Any]:
        """Numbers, or structs of them."""
        at, dtype = self._target(member), np.dtype(dtype)
        if not at:
            return np.empty(0, dtype)
        count = self._number("<I", at)
        if count * dtype.itemsize > len(self._data) - at - 4:
            raise ModelError("The CatBoost model is damaged: a list is longer than the file.")
        return np.frombuffer(self._data, dtype, count, at + 4)

    def text(self, member: int) -> str:
        """A text; "" if there is none."""
        return self.vector(member, "u1").tobytes().decode(errors="replace")

    def table(self, member: int) -> Table | None:
        """An inner table."""
        at = self._target(member)
        return Table(self._data, at) if at else None

    def tables(self, member: int) -> list[Table]:
        """A list of tables."""
        offsets = self.vector(member, "<u4").tolist()
        first = self._target(member) + 4
        return [Table(self._data, first + 4 * i + offset) for i, offset in enumerate(offsets)]


def read_cbm(data: bytes) -> Document:
    """What a file or the bytes of `CatBoost._serialize_model` hold."""
    size = int.from_bytes(data[4:8], "little")
    if data[:4] != b"CBM1" or not 4 <= size <= len(data) - 8:
        raise ModelError("This is not a complete CatBoost model; save it again with save_model('model.cbm').")
    core = Table(data[8 : 8 + size], int.from_bytes(data[8:12], "little"))
    trees = core.table(1)
    if trees is None:
        raise ModelError("The CatBoost model is damaged: it has no trees.")
    features, bias = read_features(_features_info(trees)), trees.vector(16, "<f8")
    bias = bias if len(bias) else np.array([trees.scalar(15, "<d", 0.0)])
    return Document(features, _trees(trees, features), trees.scalar(14, "<d", 1.0), bias, _model_info(core))


def _trees(trees: Table, features: Features) -> Trees:
    split, sizes = trees.vector(1, "<i4"), trees.vector(2, "<i4").tolist()
    steps, leaf_at = trees.vector(10, [("left", "<u2"), ("right", "<u2")]), trees.vector(11, "<u4")
    starts = np.cumsum([0, *sizes]).tolist()
    if starts[-1] != len(split) or min(sizes, default=0) < 0 or (len(steps) and len(steps) != len(split)):
        raise ModelError("The CatBoost model is damaged: the splits do not match the trees.")
    symmetric = not len(steps)
    if not symmetric and len(leaf_at) != len(split):
        raise ModelError("The CatBoost model is damaged: the leaves do not match the trees.")
    used = split if symmetric else split[(steps["left"] > 0) | (steps["right"] > 0)]
    numbers = np.unique(used)
    splits = _splits(trees, features, numbers)
    place = {number: i for i, number in enumerate(numbers.tolist())}
    # Leaves of other trees are those nodes for which the file says where their values begin.
    leaves = [] if symmetric else [a + np.flatnonzero(leaf_at[a:b] != NO_LEAF) for a, b in pairwise(starts)]
    n_leaves = [1 << min(size, 62) for size in sizes] if symmetric else map(len, leaves)
    values, weights = _leaf_numbers(trees, np.cumsum([0, *n_leaves]).tolist())
    if symmetric:
        own = [[place[number] for number in split[a:b].tolist()] for a, b in pairwise(starts)]
        return symmetric_trees(own, splits, values, weights)
    number = np.full(len(split), -1, np.int64)
    for nodes in leaves:
        number[nodes] = np.argsort(np.argsort(leaf_at[nodes]))
    leaf_id, asked, step = number.tolist(), split.tolist(), steps.tolist()

    def look(node: tuple[int, bool]) -> tuple[int, Any, Any]:
        """A step of (0, d) or (d, 0) stays at its node: that child is a leaf, numbered at the node."""
        at, stays = node
        if not 0 <= at < len(step):
            raise ModelError("The CatBoost model is damaged: a child lies outside its tree.")
        left, right = step[at]
        if stays or not (left or right):
            return -1, leaf_id[at], None
        return place[asked[at]], (at + left, left == 0), (at + right, right == 0)

    return other_trees([(start, False) for start in starts[:-1]], look, splits, values, weights)


def _leaf_numbers(trees: Table, ends: list[int]) -> tuple[list[FloatArray], list[FloatArray]]:
    """Values and weights of each tree's leaves."""
    value, weight, width = trees.vector(8, "<f8"), trees.vector(9, "<f8"), max(1, trees.scalar(0, "<i", 1))
    if len(weight) and not ends[-1] == len(weight) == len(value) / width:
        raise ModelError("The CatBoost model is damaged: the leaf values do not match the trees.")
    return [value[a * width : b * width] for a, b in pairwise(ends)], [weight[a:b] for a, b in pairwise(ends)]


def _splits(trees: Table, features: Features, numbers: NDArray[Any]) -> list[Split]:
    """The questions of these numbers: CatBoost counts through the borders of all features, one-hot values and CTRs."""
    sources = [(0, f.scalar(1, "<i", -1), f.vector(3, "<f4")) for f in trees.tables(5)]
    sources += [(1, f.scalar(0, "<i", -1), f.vector(1, "<i4")) for f in trees.tables(6)]
    sources += [(2, number, f.vector(1, "<f4")) for number, f in enumerate(trees.tables(7))]
    first = np.cumsum([0, *(len(levels) for _, _, levels in sources)])
    if len(numbers) and not (numbers[0] >= 0 and numbers[-1] < first[-1]):
        raise ModelError("The CatBoost model is damaged: a split has no border.")
    owners = (np.searchsorted(first, numbers, side="right") - 1).tolist()
    level = np.concatenate([np.empty(0), *(levels for _, _, levels in sources)])[numbers].tolist()
    return [features.split(sources[owner][0], sources[owner][1], one) for owner, one in zip(owners, level, strict=True)]


def _features_info(trees: Table) -> dict[str, Any]:
    """Features in the words of the JSON format."""
    treatment = ("AsIs", "AsFalse", "AsTrue")
    floats = [
        _feature(f, 1, 2, 4) | {"nan_value_treatment": treatment[f.scalar(5, "<B", 0) % 3]} for f in trees.tables(5)
    ]
    return {
        "float_features": floats,
        "categorical_features": [_feature(f, 0, 1, 2) for f in trees.tables(4)],
        "ctrs": [{"elements": _elements(f), "borders": ()} for f in trees.tables(7)],
        "text_features": trees.tables(12),
        "embedding_features": trees.tables(18),
    }


def _feature(table: Table, index: int, flat_index: int, name: int) -> dict[str, Any]:
    """A feature whose numbers and name are these members of its table."""
    numbers = {"feature_index": table.scalar(index, "<i", -1), "flat_feature_index": table.scalar(flat_index, "<i", -1)}
    return numbers | {"feature_id": table.text(name)}


def _elements(feature: Table) -> list[dict[str, int]]:
    """What a CTR is made of."""
    table: Table | None = feature
    for _ in range(3):  # the CTR, its base, the combination of features
        table = None if table is None else table.table(0)
    if table is None:
        raise ModelError("The CatBoost model is damaged: a CTR has no features.")
    floats = table.vector(1, [("index", "<i4"), ("border", "<f4")])["index"].tolist()
    categories = (
        table.vector(0, "<i4").tolist() + table.vector(2, [("index", "<i4"), ("value", "<i4")])["index"].tolist()
    )
    return [{"float_feature_index": n} for n in floats] + [{"cat_feature_index": n} for n in categories]


def _model_info(core: Table) -> dict[str, Any]:
    """What was written about the training, by name."""
    found: dict[str, Any] = {}
    for entry in core.tables(2):
        text = entry.text(1)
        try:
            found[entry.text(0)] = json.loads(text)
        except (ValueError, RecursionError):
            found[entry.text(0)] = text
    return found
