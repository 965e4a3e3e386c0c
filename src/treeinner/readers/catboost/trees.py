"""Features and trees of a CatBoost model in JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.readers._trees import add_up
from treeinner.readers.catboost.ctr import Split

__all__ = [
    "Features",
    "Trees",
    "node_values",
    "other_trees",
    "read_features",
    "refuse_features",
    "symmetric_trees",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]
LeafOrder = Callable[[int], "list[int] | None"]  # tree -> CatBoost's numbers of its leaves from left to right


def refuse_features(kind: str) -> UnsupportedModelError:
    """Make the error for features that CatBoost computes inside."""
    return UnsupportedModelError(
        f"CatBoost {kind} features: their splits are on features computed inside the library; "
        "turn them into numeric columns before training."
    )


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

    def split(self, data: Mapping[str, Any]) -> Split:
        """One question, as CatBoost writes it."""
        kind = data["split_type"]
        if kind == "FloatFeature":
            number = data["float_feature_index"]
            return Split(0, number, float(np.float32(data["border"])), (self.floats[number][0],))
        if kind == "OneHotFeature":
            number = data["cat_feature_index"]
            return Split(1, number, data["value"], (self.categories[number],))
        if kind == "OnlineCtr":
            number, border = self.ctr_of[data["split_index"]]
            if border != data["border"]:
                raise ModelError(f"The model is malformed: CTR split {data['split_index']} does not have its border.")
            return Split(2, number, border, self.ctrs[number])
        if kind == "EstimatedFeature":
            raise refuse_features("text or embedding")
        raise UnsupportedModelError(f"CatBoost splits of type {kind} are not read; train without such features.")

    def missing_left(self, split: Split) -> bool:
        """NaN > border is false, so missing goes left unless CatBoost says "AsTrue" (nan_mode="Max")."""
        return split.kind != 0 or self.floats[split.source][1] != "AsTrue"


def read_features(info: Mapping[str, Any]) -> Features:
    """Read `features_info`."""
    for kind in ("text", "embedding"):
        if info.get(f"{kind}_features"):
            raise refuse_features(kind)
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
class _Tree(NamedTuple):
    """Nodes of one tree; children by their position in it."""

    split: IntArray  # (nodes,)  number of the split; -1 at a leaf
    left: IntArray
    right: IntArray
    leaf_id: IntArray
    value: FloatArray  # (nodes, width)
    weight: FloatArray  # (nodes,)  0 at inner nodes


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
    tree_splits: list[list[int]]  # symmetric trees: the split of each level


class _SplitNumbers:
    """Numbers distinct splits in the order in which they appear."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.number: dict[Split, int] = {}

    def __call__(self, data: Mapping[str, Any]) -> int:
        return self.number.setdefault(self.features.split(data), len(self.number))


def symmetric_trees(documents: Sequence[Any], features: Features) -> Trees:
    """Symmetric trees as ordinary binary trees."""
    number = _SplitNumbers(features)
    trees, tree_splits = [], []
    for document in documents:
        splits = [number(split) for split in document.get("splits") or []]
        trees.append(_symmetric_tree(splits, document["leaf_values"], document.get("leaf_weights") or []))
        tree_splits.append(splits)
    return _concatenate(trees, list(number.number), tree_splits)


def _symmetric_tree(splits: Sequence[int], leaf_values: Sequence[Any], leaf_weights: Sequence[Any]) -> _Tree:
    """Unfold one symmetric tree level by level.

    The node of level l that the answers b_0 .. b_(l-1) lead to is number sum of b_j << j in its level, so the
    last level is in the order of CatBoost's leaf indexes.
    """
    _require_weights(leaf_weights)
    n_leaves = 1 << len(splits)
    if len(leaf_weights) != n_leaves or len(leaf_values) % n_leaves or not len(leaf_values):
        raise ModelError(
            f"The model is malformed: a tree with {len(splits)} splits has {len(leaf_values)} leaf values "
            f"and {len(leaf_weights)} weights."
        )
    values = np.asarray(leaf_values, dtype=np.float64).reshape(n_leaves, -1)
    n_inner, n_nodes = n_leaves - 1, 2 * n_leaves - 1
    split, left, right, leaf_id = np.full((4, n_nodes), -1, np.int32)
    for level, this in enumerate(splits):
        nodes = slice((1 << level) - 1, (2 << level) - 1)
        split[nodes] = this
        left[nodes] = nodes.stop + np.arange(1 << level)
        right[nodes] = left[nodes] + (1 << level)
    leaf_id[n_inner:] = np.arange(n_leaves)
    value, weight = np.zeros((n_nodes, values.shape[1])), np.zeros(n_nodes)
    value[n_inner:], weight[n_inner:] = values, leaf_weights
    return _Tree(split, left, right, leaf_id, value, weight)


def other_trees(documents: Sequence[Any], features: Features, leaf_order: LeafOrder) -> Trees:
    """Depthwise and Lossguide trees, which JSON nests."""
    number = _SplitNumbers(features)
    trees = [_other_tree(document, number, leaf_order(tree)) for tree, document in enumerate(documents)]
    return _concatenate(trees, list(number.number), [])


def _other_tree(document: Any, number: _SplitNumbers, order: Sequence[int] | None) -> _Tree:
    """Flatten one nested tree in depth-first order; `order` numbers its leaves from left to right."""
    split: list[int] = []
    left: list[int] = []
    right: list[int] = []
    leaves: dict[int, Any] = {}
    stack: list[tuple[Any, list[int], int]] = [(document, left, -1)]
    while stack:
        node, children_of, parent = stack.pop()
        here = len(split)
        if parent >= 0:
            children_of[parent] = here
        left.append(-1)
        right.append(-1)
        if "split" in node:
            split.append(number(node["split"]))
            stack += [(node["right"], right, here), (node["left"], left, here)]
        else:
            split.append(-1)
            leaves[here] = node
    at = list(leaves)
    weights = [leaf.get("weight") for leaf in leaves.values()]
    _require_weights(weights)
    values = np.array([np.atleast_1d(leaf["value"]) for leaf in leaves.values()], dtype=np.float64)
    value, weight = np.zeros((len(split), values.shape[1])), np.zeros(len(split))
    value[at], weight[at] = values, weights
    leaf_id = np.full(len(split), -1, np.int32)
    if order is None:
        leaf_id[_training_order(left, right)] = np.arange(len(at))
    else:
        leaf_id[at] = order
    links = np.array([split, left, right], dtype=np.int32)
    return _Tree(links[0], links[1], links[2], leaf_id, value, weight)


def _training_order(left: Sequence[int], right: Sequence[int]) -> list[int]:
    """Leaves of a non-symmetric tree as training numbers them.

    Depth first, but a leaf beside an inner node comes at once: CatBoost stores it at their parent.
    """
    order: list[int] = []
    stack = [0]
    while stack:
        node = stack.pop()
        if left[node] < 0:
            order.append(node)
            continue
        one, other = left[node], right[node]
        if (left[one] < 0) != (left[other] < 0):
            leaf, inner = (one, other) if left[one] < 0 else (other, one)
            order.append(leaf)
            stack.append(inner)
        else:
            stack += [other, one]
    return order


def _require_weights(weights: Sequence[Any]) -> None:
    if not len(weights) or any(weight is None for weight in weights):
        raise UnsupportedModelError(
            "This CatBoost model stores no leaf weights, so neither cover nor node values can be known; save "
            "it again from the trained object."
        )


def _concatenate(trees: list[_Tree], splits: list[Split], tree_splits: list[list[int]]) -> Trees:
    if not trees:
        raise ModelError("The model has no trees; fit it for at least one iteration.")
    if len({tree.value.shape[1] for tree in trees}) > 1:
        raise ModelError("The model is malformed: leaves differ in the number of their values.")
    start = np.concatenate([[0], np.cumsum([len(tree.split) for tree in trees])])
    split, left, right, leaf_id, value, weight = (np.concatenate(arrays) for arrays in zip(*trees, strict=True))
    shift = np.repeat(start[:-1], np.diff(start))
    left, right = (np.where(child >= 0, child + shift, -1).astype(np.int32) for child in (left, right))
    if not (np.all(np.isfinite(weight)) and np.all(weight >= 0)):
        raise ModelError("The model is malformed: a leaf weight is negative or not finite.")
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
