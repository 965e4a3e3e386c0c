"""CatBoost's own format, .cbm: "CBM1", a length, and a FlatBuffers table; CatBoost is not needed to read it.

A damaged file is one ModelError: no position is used before it is known to lie inside the bytes.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble.validation import inner_by_depth
from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.readers._trees import LongArray, add_up
from treeinner.readers.catboost.trees import Document, Trees, join_trees, read_features, require, symmetric_trees

__all__ = ["read_cbm"]


NO_LEAF = 2**32 - 1
FORMAT = "FlabuffersModel_v1"

# Members are given by their position in the table, as in catboost/libs/model/flatbuffers.


class Table:
    """A FlatBuffers table; members are asked for by position and type."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._members = at - self._number("<i", at)
        self._end = self._number("<H", self._members)

    def _number(self, form: str, at: int) -> Any:
        require(0 <= at <= len(self._data) - struct.calcsize(form), "a position lies outside the file")
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
        require(count * dtype.itemsize <= len(self._data) - at - 4, "a list is longer than the file")
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
    if core.text(0) != FORMAT:
        raise UnsupportedModelError(
            f"The CatBoost model has the format {core.text(0)[:40]!r}, and this treeinner knows {FORMAT}: upgrade "
            "treeinner, or train and save the model with CatBoost 1.2."
        )
    trees = core.table(1)
    if trees is None:
        raise ModelError("The CatBoost model is damaged: it has no trees.")
    features, bias = read_features(_features_info(trees)), trees.vector(16, "<f8")
    bias = bias if len(bias) else np.array([trees.scalar(15, "<d", 0.0)])
    return Document(
        features, _trees(trees, len(features.splits.level) - 1), trees.scalar(14, "<d", 1.0), bias, _model_info(core)
    )


def _trees(trees: Table, n_splits: int) -> Trees:
    split, size = trees.vector(1, "<i4"), trees.vector(2, "<i4").astype(np.int64)
    steps, leaf_at = trees.vector(10, "(2,)<u2"), trees.vector(11, "<u4")  # a step: left, right
    require(size.sum() == len(split) and np.all(size >= 0), "the splits do not match the trees")
    first = trees.vector(3, "<i4")
    in_order = not len(first) or np.array_equal(first, np.cumsum(size) - size)
    require(in_order, "the trees do not follow each other")
    symmetric = not len(steps)
    require(symmetric or len(steps) == len(leaf_at) == len(split), "the leaves do not match the trees")
    asked = split if symmetric else split[steps.any(axis=1)]
    require(np.all((asked >= 0) & (asked < n_splits)), "a split has no border")
    value, weight, width = trees.vector(8, "<f8"), trees.vector(9, "<f8"), trees.scalar(0, "<i", 1)
    require(not len(weight) or len(value) == width * len(weight), "the leaf values do not match the outputs")
    if symmetric:
        return symmetric_trees(split, size.tolist(), value, weight)
    tree = np.repeat(np.arange(len(size)), size)
    # Leaves are those nodes for which the file says where their values begin, in that order.
    leaves = np.flatnonzero(leaf_at != NO_LEAF)
    leaves = leaves[np.lexsort((leaf_at[leaves], tree[leaves]))]
    in_order = np.array_equal(leaf_at[leaves], width * np.arange(len(leaves)))
    require(in_order, "the values of the leaves do not follow each other")
    n_leaves = np.bincount(tree[leaves], minlength=len(size))
    leaf_id = np.full(len(split), -1)
    leaf_id[leaves] = np.arange(len(leaves)) - (np.cumsum(n_leaves) - n_leaves)[tree[leaves]]
    start = np.concatenate([[0], np.cumsum(2 * n_leaves - 1)])
    nodes = _depth_first(split, steps.T, leaf_id, np.cumsum(size) - size, tree, start)
    return join_trees(start, nodes, n_leaves, value, weight, symmetric=False)


def _depth_first(
    split: NDArray[Any], steps: NDArray[Any], leaf_id: LongArray, roots: LongArray, tree: LongArray, start: LongArray
) -> list[NDArray[Any]]:
    """Split, left, right, leaf_id of the nodes of trees that begin at `start`."""
    n, inner = len(split), steps.any(axis=0)
    children = np.where(inner, np.arange(n) + steps, -1)
    # A step of (0, d) or (d, 0) stays at its node: that child is a leaf, numbered at the node. Here they come last.
    side, parent = np.nonzero((steps == 0) & inner)
    children[side, parent] = np.arange(n, n + len(parent))
    left, right = np.concatenate([children, np.full((2, len(parent)), -1)], axis=1)
    split = np.concatenate([np.where(inner, split, -1), np.full(len(parent), -1)])
    leaf_id = np.concatenate([np.where(inner, -1, leaf_id), leaf_id[parent]])
    tree = np.concatenate([tree, tree[parent]])
    at = np.flatnonzero(left >= 0)
    reached = np.concatenate([left[at], right[at]])
    inside = np.all(reached < len(split)) and np.array_equal(tree[reached], np.tile(tree[at], 2))
    once = inside and np.all(np.bincount(np.concatenate([roots, reached]), minlength=len(split)) == 1)
    require(once, "a child lies outside its tree, or has two parents")
    require(len(split) == start[-1], "the leaves do not match the trees")
    levels = inner_by_depth(left, right, roots)
    n_below = add_up(np.where(left < 0, 1, 0), left, right, levels)
    place = np.empty(len(split), np.int64)
    place[roots] = start[:-1]
    for nodes in levels:
        place[left[nodes]] = place[nodes] + 1
        place[right[nodes]] = place[nodes] + 2 * n_below[left[nodes]]
    order = np.argsort(place)
    left, right = (np.where(child >= 0, place[child], -1) for child in (left, right))
    return [array[order] for array in (split, left, right, leaf_id)]


def _features_info(trees: Table) -> dict[str, Any]:
    """Features in the words of the JSON format."""
    treatment = ("AsIs", "AsFalse", "AsTrue")
    values = {f.scalar(0, "<i", -1): f.vector(1, "<i4") for f in trees.tables(6)}  # of one-hot features
    floats = [
        _feature(f, 1, 2, 4)
        | {"nan_value_treatment": treatment[f.scalar(5, "<B", 0) % 3], "has_nans": f.scalar(0, "<B", 0) != 0}
        | {"borders": f.vector(3, "<f4")}
        for f in trees.tables(5)
    ]
    categories = [_feature(f, 0, 1, 2) for f in trees.tables(4)]
    return {
        "float_features": floats,
        "categorical_features": [f | {"values": values.get(f["feature_index"])} for f in categories],
        "ctrs": [{"elements": _elements(f), "borders": f.vector(1, "<f4")} for f in trees.tables(7)],
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
