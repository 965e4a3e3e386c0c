"""CatBoost models in JSON; CatBoost is not needed to read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.readers.catboost.ctr import Split
from treeinner.readers.catboost.trees import Document, Features, other_trees, read_features, symmetric_trees

__all__ = ["read_json"]


def read_json(document: Any) -> Document:
    """What a document holds.

    Leaves of non-symmetric trees are numbered as in the trained object; CatBoost itself renumbers them when it loads
    JSON.
    """
    features = read_features(document["features_info"])
    numbers = _SplitNumbers(features)
    if "oblivious_trees" in document:
        stored = document["oblivious_trees"]
        own = [[numbers(split) for split in tree.get("splits") or []] for tree in stored]
        weights = [tree.get("leaf_weights") or [] for tree in stored]
        trees = symmetric_trees(own, numbers.splits, [tree["leaf_values"] for tree in stored], weights)
    else:
        leaves = [_leaves(root) for root in document["trees"]]
        rank = {id(leaf): number for own_leaves in leaves for number, leaf in enumerate(own_leaves)}

        def look(node: Any) -> tuple[int, Any, Any]:
            if "split" not in node:
                return -1, rank[id(node)], None
            return numbers(node["split"]), node["left"], node["right"]

        values = [np.array([leaf["value"] for leaf in own_leaves], np.float64).ravel() for own_leaves in leaves]
        weights = [[leaf.get("weight") for leaf in own_leaves] for own_leaves in leaves]
        trees = other_trees(document["trees"], look, numbers.splits, values, weights)
    scale, bias = document["scale_and_bias"]
    return Document(features, trees, float(scale), np.atleast_1d(bias), document.get("model_info") or {})


class _SplitNumbers:
    """Numbers distinct splits in the order in which they appear."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.splits: list[Split] = []
        self._number: dict[Split, int] = {}

    def __call__(self, data: Mapping[str, Any]) -> int:
        split = self._read(data)
        number = self._number.setdefault(split, len(self.splits))
        if number == len(self.splits):
            self.splits.append(split)
        return number

    def _read(self, data: Mapping[str, Any]) -> Split:
        """One question, as CatBoost writes it."""
        kind = data["split_type"]
        if kind == "FloatFeature":
            return self.features.split(0, data["float_feature_index"], float(np.float32(data["border"])))
        if kind == "OneHotFeature":
            return self.features.split(1, data["cat_feature_index"], data["value"])
        if kind != "OnlineCtr":
            raise UnsupportedModelError(f"CatBoost splits of type {kind} are not supported; train without them.")
        number, border = self.features.ctr_of[data["split_index"]]
        if border != data["border"]:
            raise ModelError(f"The model is malformed: CTR split {data['split_index']} does not have its border.")
        return self.features.split(2, number, border)


def _leaves(root: Any) -> list[Any]:
    """Leaves of a nested tree as training numbers them.

    Depth first, but a leaf beside an inner node comes at once: CatBoost stores it at their parent.
    """
    order: list[Any] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if "split" not in node:
            order.append(node)
            continue
        one, other = node["left"], node["right"]
        if ("split" in one) != ("split" in other):
            leaf, inner = (other, one) if "split" in one else (one, other)
            order.append(leaf)
            stack.append(inner)
        else:
            stack += [other, one]
    return order
