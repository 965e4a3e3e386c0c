"""Features and trees of a CatBoost model, whatever format they come in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.readers._trees import FloatArray, IntArray, add_up
from treeinner.readers.catboost.ctr import Split

__all__ = ["Document", "Features", "Trees", "node_values", "other_trees", "read_features", "symmetric_trees"]

MAX_DEPTH = 16  # CatBoost's own limit of symmetric trees
MAX_NODES = 2**22  # of one tree; more is damage


# -- features ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Features:
    """What the features of a model are, and how CatBoost numbers them."""

    n_features: int
    names: tuple[str, ...] | None
    floats: Mapping[int, tuple[int, str]]  # CatBoost's number -> feature, where missing values go
    categories: Mapping[int, int]  # CatBoost's number -> feature
    ctrs: Sequence[tuple[int, ...]]  # features of each CTR
    ctr_of: Mapping[int, tuple[int, float]]  # split_index -> CTR, border

    def split(self, kind: int, number: int, level: float) -> Split:
        """A question of this kind, about the feature or CTR of this number."""
        if kind == 0:
            return Split(kind, number, level, (self.floats[number][0],))
        return Split(kind, number, level, (self.categories[number],) if kind == 1 else self.ctrs[number])

    def missing_left(self, split: Split) -> bool:
        """NaN > border is false, so missing goes left unless CatBoost says "AsTrue" (nan_mode="Max")."""
        return split.kind != 0 or self.floats[split.source][1] != "AsTrue"


def read_features(info: Mapping[str, Any]) -> Features:
    """Read `features_info`."""
    for kind in ("text", "embedding"):
        if info.get(f"{kind}_features"):
            raise UnsupportedModelError(
                f"CatBoost {kind} features: their splits are on features computed inside the library; "
                "turn them into numeric columns before training."
            )
    floats, categories = info.get("float_features") or [], info.get("categorical_features") or []
    names: dict[int, str] = {f["flat_feature_index"]: f.get("feature_id", "") for f in [*floats, *categories]}
    n_features = 1 + max(names, default=-1)
    if len(names) != n_features or min(names, default=0) < 0:
        raise ModelError("The model is malformed: its features do not count up from 0.")
    # Trained on an array: no names, or their positions.
    named = any(name not in ("", str(i)) for i, name in names.items())
    float_of = {f["feature_index"]: (f["flat_feature_index"], f["nan_value_treatment"]) for f in floats}
    category_of = {f["feature_index"]: f["flat_feature_index"] for f in categories}
    first = sum(len(f.get("borders") or []) for f in floats) + sum(len(f.get("values") or []) for f in categories)
    ctrs: list[tuple[int, ...]] = []
    ctr_of: dict[int, tuple[int, float]] = {}
    for number, data in enumerate(info.get("ctrs") or []):
        members = {
            float_of[e["float_feature_index"]][0] if "float_feature_index" in e else category_of[e["cat_feature_index"]]
            for e in data["elements"]
        }
        ctrs.append(tuple(sorted(members)))
        for border in data["borders"]:
            ctr_of[first + len(ctr_of)] = (number, border)
    ordered = tuple(names[i] or str(i) for i in range(n_features)) if named else None
    return Features(n_features, ordered, float_of, category_of, ctrs, ctr_of)


# -- trees ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Trees:
    """The nodes of all trees, and the distinct splits that they use."""

    start: NDArray[np.int64]  # (n_trees + 1,)
    split: IntArray  # (n_nodes,)  position in `splits`; -1 at a leaf
    left: IntArray
    right: IntArray
    leaf_id: IntArray
    value: FloatArray  # (n_nodes, width)
    weight: FloatArray  # (n_nodes,)  0 at inner nodes
    splits: list[Split]
    tree_splits: list[list[int]]  # symmetric trees: the split of each level; [] for other trees


@dataclass(frozen=True, eq=False)
class Document:
    """What a model holds, whatever its format."""

    features: Features
    trees: Trees
    scale: float  # margin = scale * (sum of the trees) + bias
    bias: FloatArray  # (1,) or (outputs,)
    info: Mapping[str, Any]  # how it was trained


class Shape(NamedTuple):
    """Nodes of one tree; children by their position in it."""

    split: IntArray  # (nodes,)  number of the split (of a symmetric tree: of the level); -1 at a leaf
    left: IntArray
    right: IntArray
    leaf_id: IntArray  # number of the leaf; -1 at a split


@cache
def _symmetric_shape(depth: int) -> Shape:
    """A symmetric tree, unfolded level by level.

    The node of level l that the answers b_0 .. b_(l-1) lead to is number sum of b_j << j in its level, so the
    last level is in the order of CatBoost's leaf indexes.
    """
    n_leaves = 1 << depth
    split, left, right, leaf_id = np.full((4, 2 * n_leaves - 1), -1, np.int32)
    for level in range(depth):
        nodes = slice((1 << level) - 1, (2 << level) - 1)
        split[nodes] = level
        left[nodes] = nodes.stop + np.arange(1 << level)
        right[nodes] = left[nodes] + (1 << level)
    leaf_id[n_leaves - 1 :] = np.arange(n_leaves)
    return Shape(split, left, right, leaf_id)


def symmetric_trees(
    tree_splits: list[list[int]], splits: list[Split], values: Sequence[Any], weights: Sequence[Any]
) -> Trees:
    """Symmetric trees as ordinary binary trees; values and weights of each tree's leaves in CatBoost's order."""
    shapes = []
    for own, leaf_values, leaf_weights in zip(tree_splits, values, weights, strict=True):
        if len(own) > MAX_DEPTH or len(leaf_weights) != 1 << len(own) or len(leaf_values) % len(leaf_weights):
            if not len(leaf_weights):
                raise UnsupportedModelError(
                    "This CatBoost model stores no leaf weights, so neither cover nor node values can be known; save "
                    "it again from the trained object."
                )
            raise ModelError(
                f"The model is malformed: a tree with {len(own)} splits has {len(leaf_values)} leaf values "
                f"and {len(leaf_weights)} weights."
            )
        shape = _symmetric_shape(len(own))
        # The entry behind the last level serves the leaves, whose split is -1.
        shapes.append(shape._replace(split=np.array([*own, -1], np.int32)[shape.split]))
    return _concatenate(shapes, splits, tree_splits, values, weights)


def other_trees(
    nodes: list[Any],
    look: Callable[[Any], tuple[int, Any, Any]],
    splits: list[Split],
    values: Sequence[Any],
    weights: Sequence[Any],
) -> Trees:
    """Depthwise and Lossguide trees in depth-first order.

    `look` takes a node and returns its split and children, or -1 and the number of the leaf.
    """
    return _concatenate([_walked(root, look) for root in nodes], splits, [], values, weights)


def _walked(root: Any, look: Callable[[Any], tuple[int, Any, Any]]) -> Shape:
    rows: list[list[int]] = []  # split, left, right, leaf_id of each node
    stack: list[tuple[Any, int, int]] = [(root, -1, 0)]  # a node, its parent, which child of it
    while stack:
        node, parent, side = stack.pop()
        here = len(rows)
        if here >= MAX_NODES:
            raise ModelError("The model is malformed: a tree has no end.")
        if parent >= 0:
            rows[parent][side] = here
        number, one, other = look(node)
        rows.append([number, -1, -1, one if number < 0 else -1])
        if number >= 0:
            stack += [(other, here, 2), (one, here, 1)]
    return Shape(*np.array(rows, dtype=np.int32).T)


def _concatenate(
    shapes: list[Shape],
    splits: list[Split],
    tree_splits: list[list[int]],
    values: Sequence[Any],
    weights: Sequence[Any],
) -> Trees:
    if not shapes:
        raise ModelError("The model has no trees; fit it for at least one iteration.")
    start = np.concatenate([[0], np.cumsum([len(shape.split) for shape in shapes])])
    split, left, right, leaf_id = (np.concatenate(arrays) for arrays in zip(*shapes, strict=True))
    shift = np.repeat(start[:-1], np.diff(start)).astype(np.int32)
    left, right = (np.where(child >= 0, child + shift, -1).astype(np.int32) for child in (left, right))
    n_leaves = [len(own) for own in weights]
    if len({len(own) // n if n else 0 for own, n in zip(values, n_leaves, strict=True)}) > 1:
        raise ModelError("The model is malformed: leaves differ in the number of their values.")
    at_leaves = np.concatenate([np.asarray(own, np.float64) for own in weights])
    if not (np.all(np.isfinite(at_leaves)) and np.all(at_leaves >= 0)):
        raise ModelError("The model is malformed: a leaf weight is negative or not finite.")
    leaf_values = np.concatenate([np.asarray(own, np.float64).ravel() for own in values]).reshape(len(at_leaves), -1)
    leaf = leaf_id >= 0
    first = np.repeat(np.cumsum([0, *n_leaves[:-1]]), np.diff(start))[leaf]
    value, weight = np.zeros((len(split), leaf_values.shape[1])), np.zeros(len(split))
    value[leaf], weight[leaf] = leaf_values[first + leaf_id[leaf]], at_leaves[first + leaf_id[leaf]]
    return Trees(start, split, left, right, leaf_id, value, weight, splits, tree_splits)


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
