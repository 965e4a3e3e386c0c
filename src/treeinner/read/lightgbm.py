"""LightGBM's models -> Model, through the model text: objects and files take the same way.

What is particular about LightGBM:

* Everything is float64; `x <= threshold` goes left. A split's set of categories goes left, so that its children swap.
* The margin is `predict(raw_score=True)`; of a random forest (boosting="rf") it is the mean of the trees, as `predict`
  uses it, while LightGBM's own raw_score is their sum.
* The margin before the first tree is written nowhere. It is part of the leaves of the first iteration (in a forest of
  every tree), and of DART's first tree only as far as later rounds shrank it. `_start` finds it again.
* `init_score` is not part of a model: users pass it as base_margin, which adds to a start of 0.
* Leaves and their weights have 17 digits, inner values 6. So the l2 formula gives the inner values where it holds.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit

from treeinner.errors import Note, UnsupportedModelError
from treeinner.read.model import DART, Model, Told, loss_of
from treeinner.read.node_values import l2_node_values
from treeinner.read.trees import Bool, Float, Long, NodeValues, Trees, check_rounds, require, sets_of
from treeinner.rows.schema import Schema

__all__ = ["read", "read_file"]

CATEGORICAL, DEFAULT_LEFT = 1, 2  # bits of decision_type; the next two hold the kind of missing value
MISSING_NONE, MISSING_ZERO = 0, 1  # 2 is NaN
NO_AVERAGE = 1e-15  # LightGBM adds no average that is smaller
AGREEMENT = 3e-5  # of the l2 formula with inner values of six digits; a wrong formula misses by 1e-3 and more

RENEWED = {"regression_l1", "quantile", "mape"}
# Losses whose gradients add up to 0 at LightGBM's start, and those that have a start at all.
BALANCED = {"regression", "binary", "cross_entropy", "poisson", "gamma", "tweedie", "multiclass", "multiclassova"}
AVERAGING = BALANCED | RENEWED | {"huber", "fair", "cross_entropy_lambda"}

INIT_SCORE = "The first tree holds no average: if training had an init_score, pass it as base_margin."
MISMATCH = "stored inner values do not match the leaves: a refitted model, or an earlier training call"
AMBIGUOUS = "the model does not say whose its pandas categories are; train it with these columns in categorical_feature"


def read(model: Any, told: Told) -> Model:
    """Read a fitted Booster, LGBMRegressor, LGBMClassifier or LGBMRanker; lightgbm itself is not imported.

    By default the rounds that the object's own `predict` uses: up to the best iteration if early stopping found one.
    """
    kinds = {kind.__name__ for kind in type(model).__mro__ if kind.__module__.split(".")[0] == "lightgbm"}
    if not kinds & {"Booster", "LGBMModel"}:
        raise UnsupportedModelError(f"{type(model).__name__} is no LightGBM model; of a CVBooster pass its boosters.")
    booster = model if "Booster" in kinds else model.booster_
    if told.iteration_range is None and getattr(booster, "best_iteration", -1) > 0:
        told = replace(told, iteration_range=(0, min(int(booster.best_iteration), int(booster.current_iteration()))))
    if "LGBMModel" in kinds and told.objective is None:
        told = replace(told, objective=_custom_gradient(model.objective))
    found = _read_text(booster.model_to_string(num_iteration=-1), told)
    if "LGBMClassifier" not in kinds:
        return found
    classes = np.asarray(model.classes_).tolist()
    names = tuple(map(str, classes)) if len(classes) == found.n_outputs else found.output_names
    return replace(found, classes=classes, output_names=names, class_weight=model.class_weight)


def read_file(path: Path, told: Told) -> Model:
    """Read a file written by `Booster.save_model`; lightgbm need not be installed."""
    return _read_text(path.read_bytes().decode(), told)


def _custom_gradient(objective: Any) -> Callable[[Any, Any], Any] | None:
    """Gradient of the function that an estimator was given as its objective; None if it was not."""
    n_arguments = len(inspect.signature(objective).parameters) if callable(objective) else 0
    if n_arguments not in (2, 3):  # the fourth is the queries, which rows alone do not have
        return None
    gradient = partial(_gradient, objective, n_arguments)
    gradient.__dict__["__name__"] = getattr(objective, "__name__", "custom")
    return gradient


def _gradient(objective: Any, n_arguments: int, y: Any, margin: Any) -> Any:
    """First derivatives of an objective that is called as LightGBM calls it, in the shape of the margin."""
    found = objective(y, margin, *[np.ones(len(y))] * (n_arguments - 2))[0]
    return np.reshape(np.asarray(found).T, np.shape(margin.T)).T  # LightGBM 3 has the outputs one after the other


@np.errstate(all="ignore")
def _read_text(text: str, told: Told) -> Model:
    """Model of a model text; damage is an error of any type (see read_model)."""
    whole = _parse(text)
    n_outputs = int(whole.header["num_tree_per_iteration"])
    require(n_outputs >= 1 and len(whole.trees) % n_outputs == 0, "its last round is cut off")
    n_rounds = len(whole.trees) // n_outputs
    first, stop = told.iteration_range or (0, n_rounds)
    check_rounds(first, stop, n_rounds)
    rates = told.rates(n_rounds)
    part = replace(whole, trees=whole.trees[first * n_outputs : stop * n_outputs])
    training = _Training(part, told, n_outputs, first, None if rates is None else rates[first:stop])
    schema = _schema(part)
    first_trees = part if training.forest else replace(part, trees=part.trees[:n_outputs])
    base, averaged, shares, notes = _start(first_trees, training)
    trees = _trees(part, training, base, averaged, schema.n_columns)
    words = (word.partition(":")[::2] for word in part.header.get("objective", "").split()[1:])
    params: dict[str, Any] = {key: value or "true" for key, value in (*words, *part.params.items()) if value != ""}
    if training.unbalanced and not np.isnan(shares).any():
        params["label_weights"] = list(training.label_weights(shares[0]))  # of a binary loss
    asked: dict[str, Any] = {"name": training.objective, "params": params, "n_outputs": n_outputs}
    return Model(
        trees=trees,
        library="lightgbm",
        schema=schema,
        find_loss=loss_of(told.objective, library="lightgbm", **asked),
        feature_names=schema.names,
        output_names=tuple(map(str, range(n_outputs))) if n_outputs > 1 else None,  # labels of native training
        notes=(*notes, *[DART] * training.dart),
    )


# -- the text ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class _Text:
    """A model as it is written. Numbers are parsed when they are asked for: half of the fields are of use to few."""

    header: dict[str, str]
    params: dict[str, str]  # the parameter block; empty if the text has none
    pandas_categorical: list[list[Any]]
    trees: list[dict[str, str]]

    def number(self, key: str, default: float) -> float:
        """Parameter of the block as a number."""
        return float(self.params.get(key) or default)

    def of_trees(self, key: str, kind: type = np.float64) -> NDArray[Any]:
        """One number of each tree: (T,)."""
        return np.array([tree[key] for tree in self.trees], dtype=kind)

    def of_splits(self, key: str, kind: type = np.float64) -> NDArray[Any]:
        """One field of the splits of all trees in a row: (S,)."""
        return self._column(key, kind, -1, [tree.get(key, "").split() for tree in self.trees])

    def of_leaves(self, key: str, kind: type = np.float64) -> NDArray[Any]:
        """One field of the leaves of all trees in a row: (F,). A tree of one leaf may have nothing but its value."""
        rows = [tree[key].split() if tree["num_leaves"] != "1" else [tree.get(key) or "0"] for tree in self.trees]
        return self._column(key, kind, 0, rows)

    def _column(self, key: str, kind: type, more: int, rows: list[list[str]]) -> NDArray[Any]:
        lengths = self.of_trees("num_leaves", np.int64) + more
        require(lengths.tolist() == list(map(len, rows)), f"a tree does not have as many {key} as nodes")
        return np.array(list(chain.from_iterable(rows)), dtype=kind)


def _parse(text: str) -> _Text:
    """Cut a text into header, trees, parameters and categories."""
    text = text.replace("\r\n", "\n")
    require(text.startswith("tree\n"), f"it begins with {text[:20]!r} in the place of 'tree'")
    body, found, tail = text.rpartition("\nend of trees")
    require(bool(found), "it is cut off before 'end of trees'")
    head, *blocks = body.split("\nTree=")
    require(bool(blocks), "it has no trees; train it first")
    header, *trees = (dict(line.partition("=")[::2] for line in part.split("\n")) for part in (head, *blocks))
    require(len(header.get("tree_sizes", "").split()) in (0, len(trees)), "it declares more trees, or fewer")
    if (version := header.get("version")) not in ("v3", "v4"):
        raise UnsupportedModelError(f"LightGBM's text has the unknown version {version}; save it with LightGBM 3 or 4.")
    if any(tree.get("is_linear", "0") != "0" for tree in trees):
        raise UnsupportedModelError("linear_tree=True: leaves hold linear models, not values; train without it.")
    block, found, _ = tail.partition("\nparameters:\n")[2].partition("\nend of parameters")
    require(bool(found) or not block, "it is cut off inside its parameters")
    params = dict(line[1:-1].partition(": ")[::2] for line in block.split("\n") if line.startswith("["))
    levels = json.loads(tail.partition("\npandas_categorical:")[2].partition("\n")[0] or "null") or []
    return _Text(header, params, levels, trees)


# -- how it was trained --------------------------------------------------------------------------------------
class _Training:
    """What the text says about the training; what the user says wins."""

    def __init__(self, text: _Text, told: Told, n_outputs: int, first_round: int, rates: Float | None) -> None:
        number, params = text.number, text.params
        self.n_outputs, self.first_round = n_outputs, first_round
        self.rates = rates  # (rounds,) that the user says
        self.learning_rate = number("learning_rate", np.nan) if rates is None else float(rates[0])  # NaN: unknown
        self.forest, self.dart = "average_output" in text.header, params.get("boosting") == "dart"
        self.objective = text.header.get("objective", "").partition(" ")[0].replace("custom", "")
        self.known = bool(params) or told.reg_lambda is not None  # the penalties are
        self.l2 = number("lambda_l2", 0) if told.reg_lambda is None else told.reg_lambda
        l1 = number("lambda_l1", 0) if told.reg_alpha is None else told.reg_alpha
        monotone = text.header.get("monotone_constraints", "") + params.get("monotone_constraints", "")
        quantized = number("use_quantized_grad", 0) != 0
        fractions = ("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction")
        bagged = number("bagging_freq", 0) > 0 and any(number(key, 1) < 1 for key in fractions)
        renewed = self.objective in RENEWED or (quantized and number("quant_train_renew_leaf", 0) != 0)
        self.refusal = _first({  # why PreDecomp does not hold
            f"leaves are computed anew after the splits were chosen (objective={self.objective!r} or "
            "quant_train_renew_leaf), so that inner nodes and leaves are in different units": renewed,
            "max_delta_step clips the values of nodes": number("max_delta_step", 0) > 0,
            "monotone_constraints clip the values of nodes": bool(re.search("[1-9]", monotone)),
        })  # fmt: skip
        self.bent = _first({  # why the l2 formula does not hold, while inner values as stored do
            "the model has no parameter block": not self.known,
            "lambda_l1 shrinks the values of nodes": l1 > 0,
            "path_smooth pulls the values of nodes to their parents": number("path_smooth", 0) > 0,
        })  # fmt: skip
        self.inexact = "rows were sampled" * bagged or "gradients were rounded" * quantized  # in the first tree too
        self.averages = self.objective in AVERAGING and number("boost_from_average", 1) != 0
        self.sigmoid, self.pos_weight = number("sigmoid", 1), number("scale_pos_weight", 1)
        weighs = self.objective in ("binary", "multiclassova")
        self.unbalanced = weighs and number("is_unbalance", 0) != 0
        self.class_weights = self.unbalanced or (weighs and self.pos_weight != 1)  # LightGBM's average ignores them
        self.elsewhere = self.objective not in BALANCED | RENEWED  # the gradients do not cancel at the start
        self.unsure = bool(self.elsewhere or self.class_weights or self.inexact)  # the start is an estimate

    def label_weights(self, share: float) -> tuple[float, float]:
        """Weights of the negative and the positive class, if the positive one has this share of the rows."""
        return (max(1.0, share / (1 - share)), max(1.0, 1 / share - 1)) if self.unbalanced else (1.0, self.pos_weight)


def _first(reasons: dict[str, bool]) -> str:
    """First reason that applies, or ""."""
    return next((reason for reason, applies in reasons.items() if applies), "")


# -- what a table must look like -----------------------------------------------------------------------------
def _schema(text: _Text) -> Schema:
    """Names, categorical columns and pandas levels, from header and parameter block."""
    infos, names = text.header["feature_infos"].split(), tuple(text.header["feature_names"].split(" "))
    require(len(names) == len(infos), f"{len(infos)} features, but {len(names)} feature names")
    declared = re.findall(r"\b\d+\b", text.params.get("categorical_feature", ""))
    categorical = {j for j, info in enumerate(infos) if _n_bins(info)} | {int(j) for j in declared}
    levels = _levels(text.pandas_categorical, infos, categorical)
    # Ordered categories are split as numbers, but a table holds categories there.
    categorical |= {j for j, known in enumerate(levels or ()) if known is not None}
    return Schema(
        n_columns=len(infos),
        names=None if names == tuple(f"Column_{i}" for i in range(len(infos))) else names,  # LightGBM makes these up
        categorical=tuple(j in categorical for j in range(len(infos))) if categorical else None,
        levels=levels,
        unseen="missing",
        external=AMBIGUOUS if text.pandas_categorical and levels is None else "",
    )


def _n_bins(info: str) -> int:
    """Bins of a categorical column, the one for missing values included; 0 for a numeric column."""
    return 0 if info == "none" or info.startswith("[") else info.count(":") + 1


def _levels(lists: list[list[Any]], infos: list[str], categorical: set[int]) -> Any:
    """Levels of each column; None if there are none, or it does not show whose they are.

    The text lists the levels of every column of dtype category in column order, also of ordered ones, which
    LightGBM takes as numbers; it does not say which columns those were. So look for the one way they fit.
    """
    # Two ways to fit are as bad as more.
    found = list(islice(_fits(lists, infos, categorical, 0), 2)) or list(islice(_fits(lists, infos, set(), 0), 2))
    if not lists or len(found) != 1:
        return None
    of_column = dict(zip(found[0], lists, strict=True))
    return tuple(tuple(of_column[j]) if j in of_column else None for j in range(len(infos)))


def _fits(lists: list[list[Any]], infos: list[str], needed: set[int], first: int) -> Iterator[tuple[int, ...]]:
    """Ways to give the lists to columns in order so that every needed column has one."""
    if not lists:
        yield from [()] * all(j < first for j in needed)
        return
    for j in range(first, len(infos) - len(lists) + 1):
        if _can_hold(infos[j], len(lists[0])):
            yield from ((j, *rest) for rest in _fits(lists[1:], infos, needed, j + 1))
        if j in needed:
            return


def _can_hold(info: str, n_levels: int) -> bool:
    """Whether this column could hold the codes 0..n_levels-1."""
    seen = [float(word) for word in info.strip("[]").split(":")] if info != "none" else [0.0]
    whole = all(code.is_integer() for code in seen)
    return whole and max(seen) < n_levels and (min(seen) >= 0 or not info.startswith("["))


# -- nodes ---------------------------------------------------------------------------------------------------
class _Nodes:
    """Where the nodes lie: of each tree first the splits, then the leaves, each in LightGBM's order.

    `start` (T + 1,) has the first node of each tree, `inner` (S,) and `leaf` (F,) the positions of splits and leaves,
    `tree_of_split` (S,) and `tree_of_leaf` (F,) their trees, `left` and `right` (S,) the positions of the children as
    LightGBM has them. Trees.validate finds links that lead astray.
    """

    def __init__(self, text: _Text, training: _Training) -> None:
        self.leaf_value = text.of_leaves("leaf_value")  # checks num_leaves before anything of that size is made
        n_inner = text.of_trees("num_leaves", np.int64) - 1
        self.start = np.concatenate([[0], np.cumsum(2 * n_inner + 1)])
        self.tree = np.repeat(np.arange(len(n_inner)), np.diff(self.start))  # (V,)
        number = np.arange(self.start[-1]) - self.start[self.tree]
        is_inner = number < n_inner[self.tree]
        self.inner, self.leaf = np.flatnonzero(is_inner), np.flatnonzero(~is_inner)
        self.tree_of_split, self.tree_of_leaf = self.tree[self.inner], self.tree[self.leaf]
        self.leaf_id = number[self.leaf] - n_inner[self.tree_of_leaf]  # (F,)
        sides = [text.of_splits(side, np.int64) for side in ("left_child", "right_child")]
        behind, own = n_inner[self.tree_of_split], self.start[self.tree_of_split]
        self.left, self.right = (own + np.where(child >= 0, child, behind + ~child) for child in sides)
        self.column, self.decision = (text.of_splits(key, np.int64) for key in ("split_feature", "decision_type"))
        self.categorical = self.decision & CATEGORICAL > 0  # (S,)
        self.penalty = np.full(len(self.tree), float(training.l2))  # (V,) of a node's own value
        # Children of splits on columns with too many categories for one against the rest have cat_l2 besides.
        bins = np.array([_n_bins(info) for info in text.header["feature_infos"].split()])
        many = self.categorical & (bins[self.column] > text.number("max_cat_to_onehot", 4))
        for child in (self.left, self.right):
            self.penalty[child[many]] += text.number("cat_l2", 10)

    def spread(self, at_splits: Any, at_leaves: Any) -> NDArray[Any]:
        """One array of all nodes from those of the splits and of the leaves: (V,)."""
        out: NDArray[Any] = np.empty(len(self.tree), dtype=np.result_type(at_splits, at_leaves))
        out[self.inner], out[self.leaf] = at_splits, at_leaves
        return out


# -- the margin before the first tree ------------------------------------------------------------------------
def _start(text: _Text, training: _Training) -> tuple[Float, Bool, Float, list[Note]]:
    """Find the margin before the first tree in the trees of the first round; of a forest, in all trees.

    Returns that margin (K,), which outputs' first trees hold an average (K,), shares of the positive rows in training
    where classes have weights and the trees show them, else NaN (K,), and what was assumed.
    """
    n_outputs, shrinkage = training.n_outputs, text.of_trees("shrinkage")[: training.n_outputs]
    averaged, nodes = _averaged(training, shrinkage), _Nodes(text, training)
    if training.first_round > 0 and not training.forest:  # left behind, as LightGBM's own predict does
        return np.zeros(n_outputs), np.zeros_like(averaged), np.full(n_outputs, np.nan), []
    output, value = nodes.tree_of_leaf % n_outputs, nodes.leaf_value
    weight = text.of_leaves("leaf_weight") + nodes.penalty[nodes.leaf]
    total, mean = np.bincount(output, weight), np.bincount(output, value) / np.bincount(output)
    np.divide(np.bincount(output, weight * value), total, out=mean, where=total > 0)  # a lone leaf has no weight
    largest = np.zeros(n_outputs)
    np.maximum.at(largest, output, np.abs(value - mean[output]))
    shares = np.array([_share(text, nodes, training, output == k, bool(averaged[k])) for k in range(n_outputs)])
    found, notes = logit(shares) / training.sigmoid, list[Note]()
    if np.isnan(found).any():
        found, notes = _judged(text, nodes, training, mean, largest) if np.any(mean[averaged]) else (mean, [])
    if training.averages and not averaged.all():
        near = 0.05 if training.unsure or training.refusal else AGREEMENT
        none = averaged | (np.abs(mean) <= np.maximum(near * largest, NO_AVERAGE))
        notes = [*notes, Note("start_assumed", INIT_SCORE, quiet=bool(none.all()))]
    shrunk = shrinkage if training.dart else np.ones(n_outputs)  # together with the first tree
    base = np.divide(found, shrunk, out=np.zeros(n_outputs), where=averaged & (shrunk != 0))
    return base, averaged, shares, notes


def _averaged(training: _Training, shrinkage: Float) -> Bool:
    """Whether an average was added to the first tree of each output: LightGBM then writes its learning rate as 1."""
    rate = training.learning_rate
    if training.forest:
        return np.full(len(shrinkage), training.averages)
    one = (shrinkage != rate) | (rate == 1) if training.dart else shrinkage == 1  # DART's rounds multiply what it says
    return np.asarray(one & (training.averages or not (training.dart or rate == 1 or np.isnan(rate))))


def _judged(text: _Text, nodes: _Nodes, training: _Training, mean: Float, largest: Float) -> tuple[Float, list[Note]]:
    """Return the start of each output, and what was assumed about it.

    At the average of most losses the gradients add up to 0, and so do the leaves' steps by leaf_weight + lambda_l2.
    Where leaves are no plain steps, the stored value of the root is nearer: its own step is 0 there.
    """
    grown = np.diff(nodes.start)[: len(mean)] > 1
    at_root = np.searchsorted(nodes.tree_of_split, np.flatnonzero(grown))
    root = mean.copy()
    root[grown] = text.of_splits("internal_value")[at_root]
    exact = bool(np.all(text.of_splits("internal_weight")[at_root] == 0))  # up to LightGBM 4.3 it is the start alone
    agree = bool(np.all(np.abs(root - mean) <= AGREEMENT * (np.abs(mean) + largest)))
    bent = training.refusal or training.bent
    # DART, and a rate of 1, do not tell an average from an init_score; after refit leaves and inner values differ.
    doubtful = bent or training.unsure or not agree or training.dart or training.learning_rate == 1
    if bent or (doubtful and exact):
        mean = np.where(_half_unit(root) < 0.05 * largest, root, mean)
    said = "The margin before the first tree is not stored, but estimated from it."
    quiet = exact or not (training.elsewhere or training.class_weights or not (agree or bent or training.inexact))
    return mean, [Note("start_assumed", said, quiet)] if doubtful else []


def _half_unit(stored: Float) -> Float:
    """Largest rounding error of numbers written with six digits."""
    return np.asarray(0.5 * 10.0 ** (np.floor(np.log10(np.maximum(np.abs(stored), 1e-290))) - 5))


def _share(text: _Text, nodes: _Nodes, training: _Training, own: Bool, averaged: bool) -> float:
    """Share of the positive rows in training, from an output's `own` leaves of the first tree; NaN: it does not show.

    With weights A and B of the positive and the negative rows of a leaf, p the prediction before the first tree and s
    the sigmoid's scale, its second derivatives add up to H = s^2 p (1 - p) (A + B), and its gradients to
    G = s (p B - (1 - p) A). For the true share, both classes add up to the number of rows of every leaf.
    """
    if not training.class_weights or training.inexact or training.bent or training.refusal or training.dart:
        return np.nan
    count, hessian = text.of_leaves("leaf_count")[own], text.of_leaves("leaf_weight")[own]
    step = (hessian + nodes.penalty[nodes.leaf[own]]) / (training.learning_rate * training.sigmoid)

    def misfit(share: float) -> Float:
        p, start = (share, float(logit(share)) / training.sigmoid) if averaged else (0.5, 0.0)
        both = hessian / (training.sigmoid**2 * p * (1 - p))
        negative = (1 - p) * both - (nodes.leaf_value[own] - start) * step
        of_negative, of_positive = training.label_weights(share)
        return np.asarray(negative / of_negative + (both - negative) / of_positive - count)

    for low, high in pairwise(expit(np.linspace(-20, 20, 801)).tolist()):
        if misfit(low).sum() * misfit(high).sum() < 0:
            share = brentq(lambda share: misfit(share).sum(), low, high, xtol=1e-15)
            share = float(np.round(share * count.sum()) / count.sum())
            if 0 < share < 1 and np.all(np.abs(misfit(share)) <= 1e-3 * count.max()):
                return share
    return np.nan


# -- the trees -----------------------------------------------------------------------------------------------
def _trees(text: _Text, training: _Training, base: Float, averaged: Bool, n_columns: int) -> Trees:
    """Fill the fields of Trees, in their order."""
    nodes, number = _Nodes(text, training), np.arange(len(text.trees), dtype=np.int32)
    output = number % training.n_outputs
    holds = averaged[output] & ((number < training.n_outputs) | training.forest)  # (T,) an average
    rate, weight = _steps(text, training, holds)
    taken_off = np.where(holds, base[output], 0.0)
    constant = taken_off * (weight - 1) if training.dart else 0.0 * weight  # what later rounds took off the average
    column, threshold, missing = nodes.spread(nodes.column, -1), text.of_splits("threshold"), nodes.decision >> 2 & 3
    # Where training saw no missing value, NaN is taken for 0. A missing category is in no set.
    to_left = np.where(missing == MISSING_NONE, threshold >= 0, nodes.decision & DEFAULT_LEFT > 0) | nodes.categorical
    n_sets = text.of_trees("num_cat", np.int64)
    of_tree = (np.cumsum(n_sets) - n_sets)[nodes.tree_of_split]
    category_set = np.where(nodes.categorical, of_tree + np.where(nodes.categorical, threshold, 0), -1)
    value = (nodes.leaf_value - taken_off[nodes.tree_of_leaf]) * (weight[0] if training.forest else 1.0)
    trees: Trees = Trees(
        start=nodes.start,
        output=output,
        round=np.zeros_like(number) if training.forest else number // training.n_outputs,
        weight=weight,
        column=column,
        threshold=nodes.spread(np.where(nodes.categorical, np.nan, threshold), np.nan),
        left=nodes.spread(np.where(nodes.categorical, nodes.right, nodes.left), -1),
        right=nodes.spread(np.where(nodes.categorical, nodes.left, nodes.right), -1),
        missing_left=nodes.spread(to_left, False),
        category_set=nodes.spread(category_set, -1),
        **sets_of(_category_sets(text)),
        value=nodes.spread(0.0, value)[:, None],
        cover=nodes.spread(text.of_splits("internal_count"), text.of_leaves("leaf_count")),
        # Gains are float32, and infinite for targets of 1e30.
        gain=nodes.spread(np.nan_to_num(text.of_splits("split_gain"), nan=np.nan, posinf=np.nan), 0.0),
        leaf_id=nodes.spread(-1, nodes.leaf_id),
        base=base,
        n_columns=n_columns,
        category_rule="truncate",
        zero_as_missing=_zero_as_missing(nodes.column[~nodes.categorical], missing[~nodes.categorical]),
        averaged=training.forest,
        node_values=lambda: _node_values(trees, text, nodes, training, taken_off, constant, rate),
    )
    return trees


def _steps(text: _Text, training: _Training, holds: Bool) -> tuple[Float, Float]:
    """Learning rate of each tree, NaN where it is not known, and what else multiplies it: (T,), (T,)."""
    shrinkage, rate, n_trees = text.of_trees("shrinkage"), training.learning_rate, len(text.trees)
    told = None if training.rates is None else np.repeat(training.rates, training.n_outputs)
    if training.forest:
        return np.ones(n_trees) if told is None else told, np.full(n_trees, training.n_outputs / n_trees)
    if training.dart:
        found = np.full(n_trees, rate) if told is None else told
        return found, np.where(holds, shrinkage, shrinkage / found)
    # A tree that holds an average says 1, and so does a lone leaf, whatever its rate.
    said = ~holds & (text.of_trees("num_leaves") != 1)
    same = np.all(np.abs(shrinkage[said] - rate) <= 1e-5 * rate)  # no schedule, no earlier training call
    return np.where(said, shrinkage, rate if same else np.nan) if told is None else told, np.ones(n_trees)


def _category_sets(text: _Text) -> list[Long]:
    """The sets of all trees in a row; the text has them as bits."""
    n_sets, sets = text.of_trees("num_cat", np.int64), list[Long]()
    for i in np.flatnonzero(n_sets):
        bound, words = (np.array(text.trees[i][f"cat_{key}"].split(), np.int64) for key in ("boundaries", "threshold"))
        require(len(bound) == n_sets[i] + 1 and bound[-1] == len(words), f"the categories of tree {i} are cut off")
        bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
        sets += [np.flatnonzero(bits[32 * a : 32 * b]) for a, b in pairwise(bound.tolist())]
    return sets


def _zero_as_missing(column: Long, missing: Long) -> tuple[int, ...]:
    """Columns in which 0 means missing, of the numeric splits."""
    zero = np.unique(column[missing == MISSING_ZERO])
    mixed = np.intersect1d(zero, column[missing != MISSING_ZERO])
    if len(mixed):
        raise UnsupportedModelError(f"Columns {mixed.tolist()} treat 0 as missing in some trees only; train it anew.")
    return tuple(zero.tolist())


@np.errstate(all="ignore")
def _node_values(
    trees: Trees, text: _Text, nodes: _Nodes, training: _Training, taken_off: Float, constant: Float, rate: Float
) -> NodeValues:
    """Inner values by the l2 formula, checked against the six digits; these where the formula does not hold."""
    if training.refusal:
        return NodeValues(None, rate, refusal=training.refusal)
    written, hessian = text.of_splits("internal_value"), text.of_leaves("leaf_weight")
    # LightGBM before 4.4 does not store the values of roots.
    no_root = (nodes.inner == nodes.start[nodes.tree_of_split]) & (text.of_splits("internal_weight") == 0)
    tree, factor = nodes.tree_of_split, trees.weight if trees.averaged else np.ones(trees.n_trees)
    stored = nodes.spread((written - taken_off[tree]) * factor[tree], trees.value[nodes.leaf, 0])
    size, start = np.zeros(trees.n_trees), np.abs(taken_off * factor)
    np.maximum.at(size, nodes.tree, np.abs(trees.value[:, 0]))  # the largest leaf
    found = l2_node_values(trees, nodes.spread(0.0, hessian), nodes.penalty, constant[nodes.tree])[:, 0]
    missed = (np.abs(found - stored)[nodes.inner] > AGREEMENT * (size + start)[tree]) & ~no_root
    off = (np.bincount(tree, missed, trees.n_trees) > 0) | bool(training.bent)
    # The formula needs the start, which may be an estimate; the stored digits do not.
    if np.any(off & ~(training.unsure & (start > 0))) and not training.bent:
        return NodeValues(None, rate, refusal=MISMATCH)
    if np.any(no_root & off[tree]) or np.any(off & (start > 0) & (_half_unit(start) > 0.02 * size)):
        if not training.known:
            return NodeValues(None, rate, needs=("reg_lambda",))
        return NodeValues(None, rate, refusal=f"{training.bent or 'the start is unsure'}, and inner values lack digits")
    return NodeValues(np.where(off[nodes.tree], stored, found)[:, None], rate)
