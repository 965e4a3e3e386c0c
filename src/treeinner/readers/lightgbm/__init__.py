"""LightGBM model -> Ensemble, through the model text: objects and files take the same way.

What is particular about LightGBM:

* Everything is float64; `x <= threshold` goes left. A split's set of categories goes left: children swap.
* The margin is `predict(raw_score=True)`. For a random forest (boosting="rf") it is the mean of the trees, as
  `predict()` uses it, while LightGBM's own raw_score is their sum.
* The starting margin lies in the first iteration's leaves. Here it is `base_score`; so a slice of later rounds still
  contains it, unlike LightGBM's `start_iteration`. `init_score` is not part of a model: pass it as base_margin.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

from treeinner.ensemble import Ensemble, NodeValues, check_rounds
from treeinner.ensemble.validation import MAX_VALUE
from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.options import ReadOptions
from treeinner.readers._numbers import parse_number
from treeinner.readers._open import class_names
from treeinner.readers._trees import DART_ROUNDS, handed_over
from treeinner.readers.lightgbm.schema import read_schema
from treeinner.readers.lightgbm.start import NO_AVERAGE, Start, find_start
from treeinner.readers.lightgbm.text import DEFAULT_LEFT, ModelText, parse, require, version_of
from treeinner.readers.lightgbm.values import Training, Trees, inner_values
from treeinner.readers.newer import explained, is_newer

__all__ = ["class_weight", "custom_gradient", "read", "read_path"]

MISSING_NONE, MISSING_ZERO = 0, 1  # kinds of missing value; 2 is NaN

# Losses whose gains tests/exactness.py compares with sums over the rows.
CHECKED = {
    "regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie", "binary",
    "multiclass", "multiclassova", "cross_entropy", "cross_entropy_lambda", "lambdarank",
}  # fmt: skip
# What each loss needs, by the names of the parameters block.
LOSS_PARAMS = {
    "binary": ("sigmoid", "scale_pos_weight", "is_unbalance"),
    "multiclassova": ("sigmoid", "scale_pos_weight", "is_unbalance"),
    "huber": ("alpha",),
    "quantile": ("alpha",),
    "fair": ("fair_c",),
    "poisson": ("poisson_max_delta_step",),
    "tweedie": ("tweedie_variance_power",),
    "lambdarank": ("sigmoid", "lambdarank_truncation_level", "lambdarank_norm", "label_gain"),
}


def read(model: Any, options: ReadOptions) -> Ensemble:
    """Read a fitted Booster, LGBMRegressor, LGBMClassifier or LGBMRanker; lightgbm itself is not imported.

    By default the rounds that the object's own `predict` uses: up to the best iteration if early stopping found one.
    """
    booster, classes = _booster(model)
    if options.iteration_range is None and getattr(booster, "best_iteration", -1) > 0:
        best = min(int(booster.best_iteration), int(booster.current_iteration()))
        options = replace(options, iteration_range=(0, best))
    return _read_text(booster.model_to_string(num_iteration=-1), classes, options)


def read_path(path: Path, options: ReadOptions) -> Ensemble:
    """Read a file written by `Booster.save_model`; lightgbm need not be installed."""
    try:
        text = path.read_bytes().decode()  # `parse` sees to the ends of lines
    except UnicodeDecodeError:
        raise ModelError(f"{path} is not a text file; pass a file written by Booster.save_model.") from None
    return _read_text(text, None, options)


def _read_text(text: str, classes: list[Any] | None, options: ReadOptions) -> Ensemble:
    version = version_of(text)
    with explained("LightGBM", version):
        ensemble = _build(parse(text), classes, options)
        if is_newer("LightGBM", version):
            _ = ensemble.node_value  # what is worked out late must make sense too
    return ensemble


def class_weight(model: Any) -> Any:
    """class_weight of an LGBMClassifier; None if it has none. A Booster and a file do not know it."""
    return model.class_weight if "LGBMClassifier" in class_names(model, "lightgbm") else None


def custom_gradient(model: Any) -> Callable[[Any, Any], Any] | None:
    """Gradient of the function that an estimator was given as its objective; None if it was not."""
    function = getattr(model, "objective", None) if "LGBMModel" in class_names(model, "lightgbm") else None
    n_arguments = len(inspect.signature(function).parameters) if callable(function) else 0
    if function is None or n_arguments not in (2, 3):  # the fourth is the queries, which rows alone do not have
        return None

    @wraps(function)
    def gradient(y: Any, margin: Any) -> Any:
        weight = (np.ones(len(y)),) if n_arguments == 3 else ()
        # LightGBM 3 has the outputs one after the other.
        return np.reshape(np.asarray(function(y, margin, *weight)[0]).T, np.shape(margin.T)).T

    return gradient


def _booster(model: Any) -> tuple[Any, list[Any] | None]:
    """Find the Booster inside a model, and the class labels if it knows them."""
    kinds = class_names(model, "lightgbm")
    if "CVBooster" in kinds:
        raise UnsupportedModelError(
            "A CVBooster holds one model per fold; pass one of its `boosters`, with the rows it did not see."
        )
    if "Booster" in kinds:
        return model, None
    if "LGBMModel" not in kinds:
        raise UnsupportedModelError(
            f"{type(model).__name__} is not a LightGBM model; "
            "pass a Booster, LGBMRegressor, LGBMClassifier or LGBMRanker."
        )
    return model.booster_, np.asarray(model.classes_).tolist() if "LGBMClassifier" in kinds else None


def _build(model: ModelText, classes: list[Any] | None, options: ReadOptions) -> Ensemble:
    if any(tree.get("is_linear", "0") != "0" for tree in model.trees):
        raise UnsupportedModelError(
            "LightGBM linear_tree=True: a leaf holds a linear model, not one value; use linear_tree=False."
        )
    if model.n_trees == 0:
        raise ModelError("The LightGBM model has no trees; train it first.")
    n_outputs = model.count("num_class", "1")
    per_round = model.count("num_tree_per_iteration", str(n_outputs))
    require(per_round == n_outputs, f"{per_round} trees per round, but {n_outputs} outputs")
    if per_round < 1 or model.n_trees % per_round:
        raise ModelError(f"The LightGBM model is cut off: {model.n_trees} trees, but {per_round} per round.")
    sane = np.abs(model.leaf_value) <= MAX_VALUE  # NaN is not
    require(np.all(sane), "a leaf value is not finite, or absurdly large")
    n_rounds = model.n_trees // per_round
    rates = options.rates(n_rounds)
    training = Training(model, options, rates)
    schema = read_schema(model, set(np.unique(model.split_feature[model.categorical]).tolist()))
    inside = (model.split_feature >= 0) & (model.split_feature < schema.n_columns)
    require(np.all(inside), f"a split tests a column outside 0..{schema.n_columns - 1}")
    trees, start = Trees(model, training), find_start(model, training, per_round)
    forest = training.boosting == "rf"
    first, stop = options.iteration_range or (0, n_rounds)
    check_rounds(first, stop, n_rounds)
    base_score, tree_weight = start.intercept[:per_round], start.weight
    if forest:  # the mean over the trees of these rounds; each fits y itself, so that there is one round
        base_score = start.intercept[first * per_round : stop * per_round].reshape(-1, per_round).mean(axis=0)
        tree_weight = start.weight * (n_rounds / (stop - first))
    value, cover = np.zeros((2, trees.n_nodes))
    cover[trees.leaf], cover[trees.inner] = model.leaf_count, model.internal_count
    value[trees.leaf] = model.leaf_value - start.intercept[trees.tree_of_leaf]
    factor = tree_weight[trees.tree] if forest else 1.0

    def work_out() -> NodeValues:
        inner, other = inner_values(trees, start.intercept)
        node_value, gain = value.copy(), np.zeros(trees.n_nodes)
        node_value[trees.inner], gain[trees.inner] = inner, model.split_gain
        doubts = (*_value_doubts(training), *other)
        reasons = [*_gain_reasons(trees), *start.notes, *doubts]
        return NodeValues(
            (node_value * factor)[:, None],
            gain=gain,
            exactness="; ".join(reasons) or "exact",
            value_doubts=doubts,
        )

    number = np.arange(model.n_trees, dtype=np.int32)
    # Native training wants the labels 0, 1, ...
    labels = classes if classes is not None and len(classes) == per_round else range(per_round)
    arrays = handed_over(
        tree_start=trees.start,
        tree_output=number % per_round,
        tree_round=np.zeros_like(number) if forest else number // per_round,
        tree_weight=tree_weight,
        tree_rate=start.rate if rates is None else rates[number // per_round],
        **_splits(trees),
        value=(value * factor)[:, None],
        cover=cover,
        set_start=model.sets[0],
        set_codes=model.sets[1].astype(np.int32),
        base_score=base_score,
    )
    ensemble = Ensemble(
        **arrays,
        schema=schema,
        library="lightgbm",
        cover_is="count",
        objective=training.objective,
        objective_params=_objective_params(model, training, start, classes if per_round == 1 else None),
        params=_params(training),
        category_rule="truncate",
        zero_as_missing=_zero_as_missing(model),
        averaged=forest,
        output_names=tuple(map(str, labels)) if per_round > 1 else None,
        feature_names=schema.names,
        doubts=_doubts(training, start),
        work_out=work_out,
    )
    return ensemble.slice_trees(first * per_round, stop * per_round)


def _splits(trees: Trees) -> dict[str, Any]:
    """Per-node arrays that say where a row goes."""
    model, at, categorical = trees.model, trees.inner, trees.model.categorical
    feature, category_set, leaf_id = np.full((3, trees.n_nodes), -1, np.int32)
    threshold, missing_left = np.full(trees.n_nodes, np.nan), np.zeros(trees.n_nodes, bool)
    feature[at] = model.split_feature
    threshold[at] = np.where(categorical, np.nan, model.threshold)
    leaf_id[trees.leaf] = trees.number[trees.leaf] - (model.n_leaves - 1)[trees.tree_of_leaf]
    # Where training saw no missing value, NaN is taken for 0. A missing category is in no set.
    default_left = np.where(model.missing == MISSING_NONE, model.threshold >= 0, model.decision_type & DEFAULT_LEFT > 0)
    missing_left[at] = categorical | default_left
    tree, number = trees.tree_of_inner[categorical], model.threshold[categorical]
    has_set = (number >= 0) & (number < model.n_sets[tree]) & (number == np.floor(number))
    require(np.all(has_set), "a categorical split has no category set")
    category_set[at[categorical]] = (np.cumsum(model.n_sets) - model.n_sets)[tree] + number.astype(np.int64)
    swap = category_set >= 0
    return {
        "feature": feature,
        "threshold": threshold,
        "left": np.where(swap, trees.right, trees.left).astype(np.int32),
        "right": np.where(swap, trees.left, trees.right).astype(np.int32),
        "missing_left": missing_left,
        "category_set": category_set,
        "leaf_id": leaf_id,
    }


def _zero_as_missing(model: ModelText) -> tuple[int, ...]:
    """Columns in which 0 means missing."""
    kind, column = model.missing[~model.categorical], model.split_feature[~model.categorical]
    known = np.all(kind != 3) and np.all((model.decision_type >= 0) & (model.decision_type <= 15))
    require(known, "unknown decision_type")
    zero = np.unique(column[kind == MISSING_ZERO])
    mixed = np.intersect1d(zero, column[kind != MISSING_ZERO])
    if len(mixed):
        raise UnsupportedModelError(
            f"Columns {mixed.tolist()} of the LightGBM model treat 0 as missing in some trees and not in "
            "others (continued training with another zero_as_missing); train with one setting."
        )
    return tuple(zero.tolist())


def _objective_params(model: ModelText, training: Training, start: Start, classes: list[Any] | None) -> dict[str, Any]:
    """Collect what the loss needs besides margin and target."""
    found: dict[str, Any] = {}
    for word in model.header.get("objective", "").split()[1:]:
        key, _, text = word.partition(":")
        try:
            found[key] = parse_number(text, int if key == "num_class" else float) if text else True
        except ValueError:
            raise ModelError(f"The LightGBM model is malformed: its objective says {word!r}.") from None
    given = model.params or {}
    for key in LOSS_PARAMS.get(training.objective, ()):
        if key == "label_gain":
            if gains := model.numbers(key):
                found[key] = gains
        elif key in given:
            number = model.number(key, np.nan)
            found[key] = bool(number) if key in ("is_unbalance", "lambdarank_norm") else number
    if start.label_weights is not None:
        found["label_weights"] = list(start.label_weights)
    if classes is not None:
        found["classes"] = classes
    return found


def _params(training: Training) -> dict[str, Any]:
    names = ["boosting", "learning_rate", "max_delta_step", "path_smooth", "cat_l2", "reg_lambda", "reg_alpha"]
    if np.isnan(training.learning_rate):
        names.remove("learning_rate")
    return {name: getattr(training, name) for name in names} if training.known else {}


def _doubts(training: Training, start: Start) -> dict[str, str]:
    """What was assumed about the margin before the first tree and before the others."""
    found = {"start": f"{NO_AVERAGE[0].upper()}{NO_AVERAGE[1:]}."} if NO_AVERAGE in start.notes else {}
    return found | ({"rounds": DART_ROUNDS} if training.boosting == "dart" else {})


def _gain_reasons(trees: Trees) -> list[str]:
    """Why LightGBM's own gain is not the inner product, setting by setting."""
    training = trees.training
    loss = training.objective or "a custom objective"
    reasons = {
        f"the gains of {loss} have not been compared with sums over the rows": training.objective not in CHECKED,
        "no parameters block, so that node values are the stored ones (6 digits)": not training.known,
        "a random forest's trees see bagged rows": training.boosting == "rf",
        "DART: the margin before each tree is not the sum of the trees before it": training.boosting == "dart",
        "rows were sampled (bagging or GOSS), and the gain is of the sampled rows": training.sampled,
        "gradients were quantized": training.quantized,
        "lambda_l1: the gain has an extra term": training.reg_alpha > 0,
        "cat_l2: a many-vs-many split's gain counts more l2 for the children": np.any(trees.extra > 0),
        "feature_contri or cegb_* change the gain": training.gain_altered,
    }
    return [text for text, holds in reasons.items() if holds]


def _value_doubts(training: Training) -> list[str]:
    """Why nodes would not have predicted their values as leaves, setting by setting."""
    reasons = {
        "leaf values were renewed after the tree was grown": training.renewed,
        "max_delta_step clips node values": training.max_delta_step > 0,
        "path_smooth pulls node values to their parents": training.path_smooth > 0,
        "monotone constraints clip node values": training.monotone,
    }
    return [text for text, holds in reasons.items() if holds]
