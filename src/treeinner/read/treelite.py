"""Models of treelite 4 -> Model, by its own accessors; cuML's forests and converted ones come through it.

What is particular about treelite:

* A node says how it compares, and which side its list of categories goes to: children swap until every split sends
  "greater" and its set to the right. Where a model compares in two ways, x <= t becomes x < the next number after t.
* It keeps what predictions need. Of the loss it has a task and a postprocessor, which tell log loss; a regressor must
  be told its loss. Weights of classes, numbers of parallel trees and learning rates are not stored.
* LightGBM's average stays in its first trees. It is found there again, by counts of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeinner.errors import Note, UnsupportedModelError
from treeinner.read.model import Model, Told, loss_of
from treeinner.read.node_values import l2_node_values
from treeinner.read.trees import Float, Int, NodeValues, Trees, in_order, require, sets_of
from treeinner.rows.schema import Schema

__all__ = ["read"]

CLASSIFIERS, ISOLATION_FOREST = (0, 2), 4  # of task_type; 1 is regression, 3 ranking
NUMERIC, CATEGORICAL = 1, 2  # of node_type
EQUAL, LESS, GREATER, GREATER_OR_EQUAL = 1, 2, 4, 5  # of cmp; 3 is less or equal
ASSUMED = Note("loss_assumed", "treelite stores no class weights and no parallel trees; none are assumed.", quiet=True)
AVERAGE = Note("start_assumed", "The first trees hold LightGBM's average; it was taken off by counts.", quiet=True)


def read(model: Any, told: Told) -> Model:
    """Read a treelite.Model."""
    if not hasattr(model, "get_header_accessor"):
        raise UnsupportedModelError(f"A treelite {type(model).__name__} cannot be read; pass a Model of treelite 4.")
    header = model.get_header_accessor().get_field
    averaged, task, post = bool(header("average_tree_output")[0]), int(header("task_type")[0]), header("postprocessor")
    n_classes, n_targets, identity = int(header("num_class").max()), int(header("num_target")[0]), "identity" in post
    refused = {
        "is an isolation forest, which fits no target": task == ISOLATION_FOREST,
        "is a classifier of several targets; pass the model that it was made from": n_classes > 1 and n_targets > 1,
        "averages margins, as LightGBM's random forest; pass its own model": averaged and not identity,
    }
    if reason := next((reason for reason, holds in refused.items() if holds), ""):
        raise UnsupportedModelError(f"This treelite model {reason}.")
    trees, notes = _read_trees(model, header, averaged, max(n_classes, n_targets), told)
    trees = trees if told.iteration_range is None else trees.rounds(*told.iteration_range)
    tells = averaged or (task in CLASSIFIERS and not identity)
    asked = {"name": post if tells else "", "params": {"sigmoid": float(header("sigmoid_alpha")[0])}}
    categories: Any = np.isin(np.arange(trees.n_columns), trees.column[trees.category_set >= 0])
    categories = tuple(categories.tolist()) if categories.any() else None
    return Model(
        trees=trees,
        library="treelite",
        schema=Schema(n_columns=trees.n_columns, categorical=categories, absent="missing"),
        find_loss=loss_of(told.objective, library="treelite", n_outputs=trees.n_outputs, **asked),
        output_names=tuple(map(str, range(n_classes))) if n_classes > 1 else None,
        notes=(*notes, *[ASSUMED] * (told.objective is None and not averaged)),
    )


class _Nodes:
    """The nodes of all trees, children behind their parents, and their fields."""

    def __init__(self, model: Any, n_trees: int) -> None:
        require(n_trees > 0, "it has no trees")
        self.of_tree = [model.get_tree_accessor(i).get_field for i in range(n_trees)]
        self.sizes = np.array([int(get("num_nodes")[0]) for get in self.of_tree])
        self.node: Any = slice(None)  # as stored, until their order is known
        self.tree, self.first = np.repeat(np.arange(n_trees), self.sizes), np.cumsum(self.sizes) - self.sizes
        left, right = (np.where((c := self.field(n)) < 0, -1, c + self.first[self.tree]) for n in ("cleft", "cright"))
        self.node, self.left, self.right = in_order(left, right, self.first)
        require(len(self.node) == len(self.tree), "a node is reached by no other")
        self.local, self.leaf = self.node - self.first[self.tree], self.left < 0

    def field(self, name: str) -> Any:
        """One field of all nodes."""
        return np.concatenate([get(name) for get in self.of_tree])[self.node]

    def known(self, name: str) -> Float:
        """Numbers that a node may have; NaN where it has none."""
        if not all(len(get(name)) for get in self.of_tree):
            return np.full(len(self.tree), np.nan)
        return np.where(self.field(f"{name}_present"), self.field(name), np.nan)


def _splits(nodes: _Nodes) -> dict[str, Any]:
    """Fields of Trees about the splits."""
    kind, compare, threshold = nodes.field("node_type"), nodes.field("cmp"), nodes.field("threshold")
    numeric, categorical = kind == NUMERIC, kind == CATEGORICAL
    if np.any(compare[numeric] == EQUAL):
        raise UnsupportedModelError("A split of this treelite model asks x == t; only <, <=, > and >= can be read.")
    strict = np.isin(compare, (LESS, GREATER_OR_EQUAL))  # t itself goes right, once > and >= have swapped children
    if mixed := np.any(strict & numeric):
        threshold = np.where(strict, threshold, np.nextafter(threshold, threshold.dtype.type(np.inf)))
    swap = (numeric & (compare >= GREATER)) | (categorical & (nodes.field("category_list_right_child") == 0))
    column = np.where(nodes.leaf, -1, nodes.field("split_index"))
    sets = []
    for node in np.flatnonzero(categorical):
        get, own = nodes.of_tree[nodes.tree[node]], nodes.local[node]
        sets.append(np.unique(get("category_list")[get("category_list_begin")[own] : get("category_list_end")[own]]))
    return {
        "column": column,
        "threshold": np.where(numeric, threshold, np.nan),
        "left": np.where(swap, nodes.right, nodes.left),
        "right": np.where(swap, nodes.left, nodes.right),
        "missing_left": (nodes.field("default_left") != 0) ^ swap,
        "category_set": np.where(categorical, np.cumsum(categorical) - 1, -1),
        **sets_of(sets),
        "right_if": "greater_equal" if mixed else "greater",
        "float32_input": threshold.dtype == np.float32,
        "gain": np.where(nodes.leaf, 0.0, nodes.known("gain")),
        "leaf_id": np.where(nodes.leaf, nodes.local, -1),
    }


def _read_trees(model: Any, header: Any, averaged: bool, n_outputs: int, told: Told) -> tuple[Trees, list[Note]]:
    """Trees, and what was assumed."""
    nodes = _Nodes(model, int(header("num_tree")[0]))
    value, notes = _leaf_values(nodes, int(np.prod(header("leaf_vector_shape")))), list[Note]()
    number = np.arange(len(nodes.sizes), dtype=np.int32)
    per_round = n_outputs // value.shape[1]
    output: Int = np.maximum(header("class_id"), header("target_id")) if per_round > 1 else np.zeros_like(number)
    if not averaged and not np.array_equal(output, number % per_round):
        text = "the trees of its outputs do not take turns (parallel trees, for one); pass the model it was made from."
        raise UnsupportedModelError(f"The rounds of this treelite model are not known: {text}")
    hessian, base = nodes.known("sum_hess"), np.asarray(header("base_scores"), np.float64)
    has_hessians = not np.isnan(hessian).any()
    cover = hessian if has_hessians else nodes.known("data_count")
    if not (averaged or base.any() or has_hessians or value.shape[1] > 1 or np.isnan(cover).any()):
        base = _average(value[:, 0], cover, nodes, n_outputs)
        value = value - np.where(nodes.leaf & (nodes.tree < n_outputs), base[output[nodes.tree]], 0.0)[:, None]
        notes = [AVERAGE] * bool(base.any())
    rounds = np.zeros_like(number) if averaged else number // per_round
    rates = told.rates(int(rounds[-1]) + 1)
    rate = np.full(len(number), 1.0 if averaged else np.nan) if rates is None else rates[rounds]
    weight = 1 / np.bincount(output)[output] if averaged else np.ones(len(number))
    trees: Trees = Trees(
        **_splits(nodes),
        start=np.append(nodes.first, len(nodes.tree)),
        output=output,
        round=rounds,
        weight=weight,
        value=value * weight[nodes.tree, None],
        cover=cover,
        base=base,
        n_columns=int(header("num_feature")[0]),
        averaged=averaged,
        node_values=lambda: _node_values(trees, rate, has_hessians, told.reg_lambda),
    )
    return trees, notes


def _leaf_values(nodes: _Nodes, width: int) -> Float:
    """Leaf values, 0 at splits: (V, w)."""
    if width == 1:
        return np.where(nodes.leaf, nodes.field("leaf_value"), 0.0)[:, None].astype(np.float64)
    vectors = [get("leaf_vector") for get in nodes.of_tree]
    begin = nodes.field("leaf_vector_begin").astype(np.int64) + np.cumsum([0, *map(len, vectors)])[nodes.tree]
    at = np.where(nodes.leaf, begin, 0)[:, None] + np.arange(width)
    return np.where(nodes.leaf[:, None], np.concatenate(vectors).astype(np.float64)[at], 0.0)


def _average(value: Float, count: Float, nodes: _Nodes, n_outputs: int) -> Float:
    """Mean of the leaves of the first round, by rows: LightGBM's average; 0 where the next round has one too."""
    tree, leaf = nodes.tree[nodes.leaf], nodes.leaf
    mean: Float = np.bincount(tree, (count * value)[leaf]) / np.maximum(np.bincount(tree, count[leaf]), 1)
    first, second = np.abs(mean[:n_outputs]).max(), np.abs(mean[n_outputs : 2 * n_outputs]).max(initial=0.0)
    return np.where(second <= first / 2, mean[:n_outputs], 0.0)


def _node_values(trees: Trees, rate: Float, has_hessians: bool, reg_lambda: float | None) -> NodeValues:
    """Inner values: of a forest the means of the leaves, else by the l2 formula."""
    if np.isnan(trees.cover).any() or not (trees.averaged or (has_hessians and trees.width == 1)):
        return NodeValues(None, rate, refusal="treelite does not have the second derivatives of its nodes")
    if trees.averaged:
        return NodeValues(trees.mean_value, rate)
    if reg_lambda is None:
        return NodeValues(None, rate, needs=("reg_lambda",))
    return NodeValues(l2_node_values(trees, trees.cover, reg_lambda), rate)
