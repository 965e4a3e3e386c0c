"""Features and trees of a CatBoost model, whatever format they come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble import validation
from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.readers._trees import FloatArray, IntArray, LongArray, add_up
from treeinner.readers.catboost.ctr import Source, Splits

__all__ = [
    "Document", "Features", "Trees", "join_trees", "node_values", "read_features", "require", "symmetric_trees",
]  # fmt: skip

require = partial(validation.require, owner="The CatBoost model is damaged")

MAX_DEPTH = 16  # CatBoost's own limit of symmetric trees


# -- features ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Features:
    """What the features of a model are, and the splits on them."""

    n_features: int
    names: tuple[str, ...] | None
    categorical: bool  # some are
    splits: Splits


def read_features(info: Mapping[str, Any]) -> Features:
    """Read `features_info`."""
    for kind in ("text", "embedding"):
        if info.get(f"{kind}_features"):
            raise UnsupportedModelError(
                f"CatBoost {kind} features: their splits are on features computed inside the library; "
                "turn them into numeric columns before training."
            )
    floats, categories = info.get("float_features") or [], info.get("categorical_features") or []
    places = [f[name] for f in [*floats, *categories] for name in ("feature_index", "flat_feature_index")]
    require({*map(type, places)} <= {int}, "the number of a feature is not an integer")
    names: dict[int, str] = {f["flat_feature_index"]: f.get("feature_id", "") for f in [*floats, *categories]}
    n_features = 1 + max(names, default=-1)
    require(len(names) == n_features and min(names, default=0) >= 0, "its features are not numbered from 0")
    # Trained on an array: no names, or their positions.
    named = any(name not in ("", str(i)) for i, name in names.items())
    ordered = tuple(names[i] or str(i) for i in range(n_features)) if named else None
    float_of, category_of = ({f["feature_index"]: f["flat_feature_index"] for f in own} for own in (floats, categories))
    sources, levels = [], []
    for f in floats:
        # NaN > border is false, so missing goes left unless CatBoost says "AsTrue" (nan_mode="Max") and saw some.
        missing_left = f["nan_value_treatment"] != "AsTrue" or f.get("has_nans") is not True
        sources.append(Source(0, f["feature_index"], (f["flat_feature_index"],), missing_left))
        levels.append(f.get("borders"))
    for f in categories:
        sources.append(Source(1, f["feature_index"], (f["flat_feature_index"],)))
        levels.append(f.get("values"))
    for number, f in enumerate(info.get("ctrs") or []):
        members = {
            float_of[e["float_feature_index"]] if "float_feature_index" in e else category_of[e["cat_feature_index"]]
            for e in f["elements"]
        }
        sources.append(Source(2, number, tuple(sorted(members))))
        levels.append(f["borders"])
    plain = all(not isinstance(own, list) or {*map(type, own)} <= {int, float} for own in levels)
    require(plain, "a border of a feature is not a plain number")
    held = [
        np.asarray(() if own is None else own, np.float64 if source.kind == 1 else np.float32)
        for source, own in zip(sources, levels, strict=True)
    ]
    # CatBoost counts the borders that a value exceeds, so that a split means what its border says in this order alone.
    borders = [own for source, own in zip(sources, held, strict=True) if source.kind != 1]
    ascend = all(np.all(np.isfinite(own)) and np.all(np.diff(own) > 0) for own in borders)
    require(ascend, "the borders of a feature are not finite, or do not ascend")
    source = np.repeat(np.array([*range(len(sources)), -1], np.int32), [*map(len, held), 1])
    return Features(n_features, ordered, bool(categories), Splits(sources, source, np.concatenate([*held, [np.nan]])))


# -- trees ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Trees:
    """The nodes of all trees, children behind their parents."""

    start: LongArray  # (n_trees + 1,)
    split: IntArray  # (n_nodes,)  CatBoost's number; -1 at a leaf
    left: IntArray
    right: IntArray
    leaf_id: IntArray
    value: FloatArray  # (n_nodes, width)
    weight: FloatArray  # (n_nodes,)  0 at inner nodes
    symmetric: bool  # level by level; other trees are in depth-first order


@dataclass(frozen=True, eq=False)
class Document:
    """What a model holds, whatever its format."""

    features: Features
    trees: Trees
    scale: float  # margin = scale * (sum of the trees) + bias
    bias: FloatArray  # (1,) or (outputs,)
    info: Mapping[str, Any]  # how it was trained


@cache
def _symmetric_shape(depth: int) -> IntArray:
    """Level (-1 at a leaf), children by their position and leaf number of each node of a symmetric tree: (4, nodes).

    The node of level l that the answers b_0 .. b_(l-1) lead to is number sum of b_j << j in its level, so the
    last level is in the order of CatBoost's leaf indexes.
    """
    n_leaves = 1 << depth
    shape = np.full((4, 2 * n_leaves - 1), -1, np.int32)
    split, left, right, leaf_id = shape
    for level in range(depth):
        nodes = slice((1 << level) - 1, (2 << level) - 1)
        split[nodes] = level
        left[nodes] = nodes.stop + np.arange(1 << level)
        right[nodes] = left[nodes] + (1 << level)
    leaf_id[n_leaves - 1 :] = np.arange(n_leaves)
    return shape


def symmetric_trees(split: NDArray[Any], depths: Sequence[int], value: NDArray[Any], weight: NDArray[Any]) -> Trees:
    """Symmetric trees as ordinary binary trees, from the splits of all their levels; leaves in CatBoost's order."""
    deepest = max(depths, default=0)
    require(deepest <= MAX_DEPTH, f"a symmetric tree has {deepest} levels")
    depth = np.array(depths, np.int32)
    start = np.concatenate([[0], np.cumsum((2 << depth) - 1)])
    level, left, right, leaf_id = np.concatenate([np.empty((4, 0), np.int32), *map(_symmetric_shape, depths)], axis=1)
    first_split, first_node = (
        np.repeat(first.astype(np.int32), np.diff(start)) for first in (np.cumsum(depth) - depth, start[:-1])
    )
    leaf = level < 0
    asked = np.append(split, np.int32(-1))[np.where(leaf, np.int32(-1), first_split + level)]
    left, right = (np.where(leaf, np.int32(-1), child + first_node) for child in (left, right))
    return join_trees(start, (asked, left, right, leaf_id), 1 << depth, value, weight, symmetric=True)


def join_trees(
    start: LongArray,
    nodes: Sequence[NDArray[Any]],
    n_leaves: LongArray,
    value: NDArray[Any],
    weight: NDArray[Any],
    *,
    symmetric: bool,
) -> Trees:
    """Put values and weights of all leaves, tree by tree in CatBoost's order, to split, left, right, leaf_id of nodes.

    Children are positions in these arrays.
    """
    if len(start) == 1:
        raise ModelError("The model has no trees; fit it for at least one iteration.")
    if not len(weight):
        raise UnsupportedModelError(
            "This CatBoost model stores no leaf weights, so neither cover nor node values can be recovered; "
            "save it again from the trained object."
        )
    fits = n_leaves.sum() == len(weight) and len(value) % len(weight) == 0
    require(fits, "the leaf values do not match the trees")
    require(np.all(np.isfinite(weight)) and np.all(weight >= 0), "a leaf weight is negative or not finite")
    split, left, right, leaf_id = (array.astype(np.int32, copy=False) for array in nodes)
    leaf = np.flatnonzero(leaf_id >= 0)
    require(len(leaf) == len(weight), "the leaves do not match the trees")
    at = np.repeat(np.cumsum(n_leaves) - n_leaves, n_leaves) + leaf_id[leaf]
    of_node, weight_of_node = np.zeros((len(split), len(value) // len(weight))), np.zeros(len(split))
    of_node[leaf], weight_of_node[leaf] = value.reshape(len(weight), -1)[at], weight[at]
    return Trees(start, split, left, right, leaf_id, of_node, weight_of_node, symmetric)


# -- node values ---------------------------------------------------------------------------------------------
def node_values(
    trees: Trees, value: FloatArray, cover: FloatArray, levels: list[NDArray[Any]], lam: float | None
) -> FloatArray:
    """Value that each node would have had as a leaf: (n_nodes, width); NaN at inner nodes if lam is not known.

    A leaf is -rate * G / (H + lam), so value * (H + lam) adds up like G; of H, CatBoost stores the weights.
    """
    inner = (trees.split >= 0)[:, None]
    if lam is None:
        return np.where(inner, np.nan, value)
    gradient = add_up(value * (trees.weight + lam)[:, None], trees.left, trees.right, levels)
    # Without rows and without l2 there is no gradient either: such a node would have predicted 0.
    whole = (cover + lam)[:, None]
    predicted = np.divide(gradient, whole, out=np.zeros_like(gradient), where=whole > 0)
    return np.where(inner, predicted, value)
