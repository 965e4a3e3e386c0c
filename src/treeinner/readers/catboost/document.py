"""CatBoost models in JSON; CatBoost is not needed to read them."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import UnsupportedModelError
from treeinner.readers._trees import FloatArray
from treeinner.readers.catboost.ctr import Splits
from treeinner.readers.catboost.trees import Document, Trees, join_trees, read_features, require, symmetric_trees
from treeinner.readers.newer import check_fields

__all__ = ["read_json", "version_of"]

FIELDS = {"oblivious_trees", "trees", "features_info", "model_info", "scale_and_bias", "ctr_data"}
KINDS = ("FloatFeature", "OneHotFeature", "OnlineCtr")


def version_of(data: bytes) -> tuple[int, ...]:
    """Version of the CatBoost that wrote a file of either format; () where it does not say, as before 1.2.3."""
    found = re.search(rb"Branch: tags/v(\d{1,9})\.(\d{1,9})", data)
    return tuple(map(int, found.groups())) if found else ()


def read_json(document: Any, version: tuple[int, ...] = ()) -> Document:
    """What a document holds.

    Leaves of non-symmetric trees are numbered as in the trained object; CatBoost itself renumbers them when it loads
    JSON.
    """
    check_fields("CatBoost", version, "The CatBoost model", document, FIELDS)
    features = read_features(document["features_info"])
    symmetric = "oblivious_trees" in document
    read = _symmetric if symmetric else _other
    trees = read(document["oblivious_trees" if symmetric else "trees"], features.splits)
    scale, bias = document["scale_and_bias"]
    # CatBoost takes another one for 0.
    require(isinstance(bias, list), f"its bias is {bias!r}; expected a list of numbers")
    return Document(features, trees, float(_floats([scale])[0]), _floats(bias), document.get("model_info") or {})


def _symmetric(trees: list[Any], splits: Splits) -> Trees:
    own = [tree.get("splits") or [] for tree in trees]
    values, weights = [tree["leaf_values"] for tree in trees], [tree.get("leaf_weights") or [] for tree in trees]
    width = len(values[0]) // max(1, len(weights[0])) if trees else 1
    for split, value, weight in zip(own, values, weights, strict=True):
        require(
            not weight or (len(weight) == 1 << len(split) and len(value) == width * len(weight)),
            f"a tree with {len(split)} splits has {len(value)} leaf values and {len(weight)} weights",
        )
    number = _numbers(list(chain.from_iterable(own)), splits)
    return symmetric_trees(number, [*map(len, own)], *(_floats([*chain(*a)]) for a in (values, weights)))


def _other(trees: list[Any], splits: Splits) -> Trees:
    """Trees of nested nodes, in depth-first order.

    Training numbers their leaves in that order too, but a leaf beside an inner node comes at once: CatBoost stores it
    at their parent.
    """
    links: list[list[int]] = []  # left, right, leaf_id of each node
    asked: list[Any] = []  # splits
    at: list[int] = []  # and their nodes
    leaves: list[Any] = []
    start, n_leaves = [0], []
    for root in trees:
        first_leaf = len(leaves)
        stack: list[tuple[Any, int, int, int]] = [(root, -1, 0, -1)]  # a node, its parent, which child, its leaf_id
        while stack:
            node, parent, side, leaf_id = stack.pop()
            here = len(links)
            if parent >= 0:
                links[parent][side] = here
            if "split" in node:
                children = [(node["left"], here, 0, -1), (node["right"], here, 1, -1)]
                inner = ["split" in child[0] for child in children]
                if inner[0] != inner[1]:
                    beside = inner.index(False)
                    children[beside] = (*children[beside][:3], len(leaves) - first_leaf)
                    leaves.append(children[beside][0])
                stack += children[::-1]
                asked.append(node["split"])
                at.append(here)
            elif leaf_id < 0:
                leaf_id = len(leaves) - first_leaf
                leaves.append(node)
            links.append([-1, -1, leaf_id])
        start.append(len(links))
        n_leaves.append(len(leaves) - first_leaf)
    split = np.full(len(links), -1)
    split[at] = _numbers(asked, splits)
    held = [leaf["value"] if isinstance(leaf["value"], list) else [leaf["value"]] for leaf in leaves]
    require(len({*map(len, held)}) <= 1, "its leaves differ in the number of values")
    value, weight = _floats([*chain(*held)]), _floats([leaf.get("weight") for leaf in leaves])
    nodes = (split, *np.array(links).reshape(-1, 3).T)
    return join_trees(np.array(start), nodes, np.array(n_leaves), value, weight, symmetric=False)


def _floats(numbers: list[Any]) -> FloatArray:
    """Numbers as CatBoost reads them; it takes text, truth values and integers of 64 bits for 0 in silence."""
    found = np.array(numbers, np.float64)
    large = np.flatnonzero(np.abs(found) >= 2**53)
    plain = {*map(type, numbers)} <= {int, float} and not any(type(numbers[i]) is int for i in large)
    require(plain, "a leaf value, a weight, the scale or the bias is not a plain number")
    return found


def _numbers(stored: list[Any], splits: Splits) -> NDArray[np.int64]:
    """CatBoost's numbers of splits, which must be of the kind and border that the features have for them."""
    kinds = [split["split_type"] for split in stored]
    unknown = set(kinds).difference(KINDS)
    if unknown:
        raise UnsupportedModelError(f"CatBoost splits of type {min(unknown)} are not supported; train without them.")
    numbers = [split["split_index"] for split in stored]
    require({*map(type, numbers)} <= {int}, "the number of a split is not an integer")
    number = np.array(numbers, np.int64)
    inside = np.all((number >= 0) & (number < len(splits.level) - 1))
    kind = splits.look_up(lambda source: source.kind, -1, number if inside else np.full_like(number, -1))
    level = np.array([split["value"] if "value" in split else split["border"] for split in stored], np.float64)
    level = np.where(kind == 1, level, level.astype(np.float32))
    same = np.array_equal(kind, [*map(KINDS.index, kinds)]) and np.array_equal(level, splits.level[number])
    require(same, "a split does not have the border of its feature")
    return number
