"""LightGBM model -> Ensemble, through the model text: objects and files take the same way.

What is particular about LightGBM:

* Everything is float64; `x <= threshold` goes left. A split's set of categories goes left: children swap.
* The margin is `predict(raw_score=True)`. For a random forest (boosting="rf") it is the mean of the trees, as
  `predict()` uses it, while LightGBM's own raw_score is their sum.
* The starting margin lies in the first iteration's leaves. Here it is `base_score`; so a slice of later
  rounds still contains it, unlike LightGBM's `start_iteration`.
* `init_score` is not part of a model: pass it as base_margin.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from treeinner.ensemble import Ensemble, NodeValues, check_rounds
from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.options import ReadOptions
from treeinner.readers._trees import BoolArray, FloatArray
from treeinner.readers.lightgbm.schema import read_schema
from treeinner.readers.lightgbm.start import Start, find_start
from treeinner.readers.lightgbm.text import ModelText, parse
from treeinner.readers.lightgbm.values import (
    Layout,
    Training,
    inner_values,
    lay_out,
    many_vs_many,
    read_training,
    sum_leaves,
)

__all__ = ["read", "read_path"]


CATEGORICAL, DEFAULT_LEFT = 1, 2  # bits of decision_type; the next two hold the kind of missing value
MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 1, 2

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

    By default the rounds that the object's own `predict` uses: up to the best iteration of early stopping if there was
    one.
    """
    booster, classes = _booster(model)
    rounds = options.iteration_range
    if rounds is None and getattr(booster, "best_iteration", -1) > 0:
        rounds = (0, min(int(booster.best_iteration), int(booster.current_iteration())))
    return _build(parse(booster.model_to_string(num_iteration=-1)), classes, options, rounds)


def read_path(path: Path, options: ReadOptions) -> Ensemble:
    """Read a file written by `Booster.save_model`; lightgbm need not be installed."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ModelError(
            f"{path} is not a LightGBM model: it is not text; pass a file of Booster.save_model."
        ) from None
    return _build(parse(text), None, options, options.iteration_range)


def _booster(model: Any) -> tuple[Any, list[Any] | None]:
    """Find the Booster inside a model, and the class labels if it knows them."""
    kinds = {base.__name__ for base in type(model).__mro__ if base.__module__.partition(".")[0] == "lightgbm"}
    if "CVBooster" in kinds:
        raise UnsupportedModelError(
            "A CVBooster holds one model per fold; pass one of its `boosters`, with the rows it did not see."
        )
    if "LGBMModel" in kinds:
        booster = getattr(model, "_Booster", None)
        if booster is None:
            raise ModelError(f"This {type(model).__name__} is not fitted; call fit first.")
        classes = getattr(model, "classes_", None) if "LGBMClassifier" in kinds else None
        return booster, None if classes is None else np.asarray(classes).tolist()
    if "Booster" in kinds:
        return model, None
    raise UnsupportedModelError(
        f"{type(model).__name__} is not a LightGBM model; pass a Booster, LGBMRegressor, LGBMClassifier or LGBMRanker."
    )


def _build(
    model: ModelText, classes: list[Any] | None, options: ReadOptions, rounds: tuple[int, int] | None
) -> Ensemble:
    if model.linear:
        raise UnsupportedModelError(
            "LightGBM linear_tree=True: a leaf holds a linear model, not one value; use linear_tree=False."
        )
    if model.n_trees == 0:
        raise ModelError("The LightGBM model has no trees; train it first.")
    per_round = _count(model, "num_tree_per_iteration", _count(model, "num_class", 1))
    if per_round < 1 or model.n_trees % per_round:
        raise ModelError(
            f"The LightGBM model is cut off: {model.n_trees} trees are not a multiple of {per_round} per round."
        )
    layout, trees = lay_out(model), np.arange(model.n_trees, dtype=np.int32)
    n_rounds = model.n_trees // per_round
    rates = options.rates(n_rounds)
    training = read_training(model, options, rates)
    categorical = (model.decision_type & CATEGORICAL) > 0
    if np.any(model.split_feature < 0):
        raise ModelError("The LightGBM model is malformed: a column number is negative.")
    schema = read_schema(model, set(np.unique(model.split_feature[categorical]).tolist()))
    start = find_start(model, training, per_round, schema.n_columns)
    forest = training.boosting == "rf"
    first, stop = rounds or (0, n_rounds)
    check_rounds(first, stop, n_rounds)
    base_score, tree_weight = start.intercept[:per_round], start.weight
    if forest:  # the mean over the trees of these rounds; each fits y itself, so that there is one round
        base_score = start.intercept[first * per_round : stop * per_round].reshape(-1, per_round).mean(axis=0)
        tree_weight = start.weight * (n_rounds / (stop - first))
    value = np.zeros(layout.n_nodes)
    value[layout.leaf] = model.leaf_value - start.intercept[layout.tree_of_leaf]
    factor = np.repeat(tree_weight, np.diff(layout.start)) if forest else 1.0

    def work_out() -> NodeValues:
        many = many_vs_many(model, training, schema.n_columns)
        sums = sum_leaves(model, layout, training, many)
        inner, notes = inner_values(model, layout, training, sums, start.intercept)
        node_value, gain = value.copy(), np.zeros(layout.n_nodes)
        node_value[layout.inner] = inner
        gain[layout.inner] = np.nan if model.split_gain is None else model.split_gain
        reasons = [*_setting_notes(training, bool(np.any(many))), *start.notes, *notes]
        scaled = (node_value * factor)[:, None]
        return NodeValues(scaled, gain=gain, exactness="; ".join(reasons) or "exact")

    ensemble = Ensemble(
        tree_start=layout.start,
        tree_output=trees % per_round,
        tree_round=np.zeros_like(trees) if forest else trees // per_round,
        tree_weight=tree_weight,
        tree_rate=start.rate if rates is None else rates[trees // per_round],
        **_splits(model, layout, categorical),
        value=(value * factor)[:, None],
        cover=_cover(model, layout),
        set_start=model.sets[0],
        set_codes=model.sets[1].astype(np.int32),
        base_score=base_score,
        schema=schema,
        library="lightgbm",
        cover_is="count",
        objective=training.objective,
        objective_params=_objective_params(model, training, start, classes if per_round == 1 else None),
        params=_params(training),
        category_rule="truncate",
        zero_as_missing=_zero_as_missing(model, categorical),
        base_margin_rule="add",
        averaged=forest,
        output_names=_output_names(per_round, classes),
        feature_names=schema.names,
        work_out=work_out,
    )
    return ensemble.slice_trees(first * per_round, stop * per_round)


def _count(model: ModelText, key: str, default: int) -> int:
    word = model.header.get(key, str(default))
    if not word.isdigit():
        raise ModelError(f"The LightGBM model is malformed: {key} is {word!r}, but a count was needed.")
    return int(word)


def _splits(model: ModelText, layout: Layout, categorical: BoolArray) -> dict[str, Any]:
    """Per-node arrays that say where a row goes."""
    n, at = layout.n_nodes, layout.inner
    feature, category_set, leaf_id = np.full((3, n), -1, np.int32)
    threshold, missing_left = np.full(n, np.nan), np.zeros(n, bool)
    feature[at] = model.split_feature
    threshold[at] = np.where(categorical, np.nan, model.threshold)
    leaf_id[layout.leaf] = layout.leaf - (layout.start[:-1] + model.n_leaves - 1)[layout.tree_of_leaf]
    kind = model.decision_type >> 2 & 3
    default_left = (model.decision_type & DEFAULT_LEFT) > 0
    # Where training saw no missing value, NaN is taken for 0. A missing category is in no set.
    zero_left = model.threshold >= 0
    missing_left[at] = np.where(categorical, True, np.where(kind == MISSING_NONE, zero_left, default_left))
    first_set = np.cumsum(model.n_sets) - model.n_sets
    tree, number = layout.tree_of_inner[categorical], model.threshold[categorical]
    if not np.all((number >= 0) & (number < model.n_sets[tree]) & (number == np.floor(number))):
        raise ModelError("The LightGBM model is malformed: a categorical split has no category set.")
    category_set[at[categorical]] = first_set[tree] + number.astype(np.int64)
    swap = category_set >= 0
    return {
        "feature": feature,
        "threshold": threshold,
        "left": np.where(swap, layout.right, layout.left).astype(np.int32),
        "right": np.where(swap, layout.left, layout.right).astype(np.int32),
        "missing_left": missing_left,
        "category_set": category_set,
        "leaf_id": leaf_id,
    }


def _zero_as_missing(model: ModelText, categorical: BoolArray) -> tuple[int, ...]:
    """Columns in which 0 means missing."""
    kind = (model.decision_type >> 2 & 3)[~categorical]
    column = model.split_feature[~categorical]
    if np.any(kind == 3):
        raise ModelError("The LightGBM model is malformed: a decision_type is none that LightGBM writes.")
    zero, other = np.unique(column[kind == MISSING_ZERO]), np.unique(column[kind != MISSING_ZERO])
    mixed = np.intersect1d(zero, other)
    if len(mixed):
        raise UnsupportedModelError(
            f"Columns {mixed.tolist()} of the LightGBM model take 0 for missing in some trees and not in "
            "others (continued training with another zero_as_missing); train with one setting."
        )
    return tuple(zero.tolist())


def _cover(model: ModelText, layout: Layout) -> FloatArray:
    """Number of training rows in each node; 0 where the text does not count them: (nodes,)."""
    if model.leaf_count is None:
        return np.zeros(layout.n_nodes)
    if model.internal_count is None:
        return layout.add_up(model.leaf_count)
    cover = np.zeros(layout.n_nodes)
    cover[layout.leaf], cover[layout.inner] = model.leaf_count, model.internal_count
    return cover


def _objective_params(model: ModelText, training: Training, start: Start, classes: list[Any] | None) -> dict[str, Any]:
    """Collect what the loss needs besides margin and target."""
    found: dict[str, Any] = {}
    for word in model.header.get("objective", "").split()[1:]:
        key, _, text = word.partition(":")
        found[key] = float(text) if text else True
    if "num_class" in found:
        found["num_class"] = int(found["num_class"])
    for key in LOSS_PARAMS.get(training.objective, ()):
        if key == "label_gain":
            gains = (model.params or {}).get(key, "")
            if gains:
                found[key] = [float(gain) for gain in gains.split(",")]
        elif key in (model.params or {}):
            number = model.number(key, np.nan)
            found[key] = bool(number) if key in ("is_unbalance", "lambdarank_norm") else number
    if start.label_weights is not None:
        found["label_weights"] = list(start.label_weights)
    if classes is not None:
        found["classes"] = classes
    return found


def _params(training: Training) -> dict[str, Any]:
    params = {
        "boosting": training.boosting,
        "learning_rate": training.rate,
        "max_delta_step": training.max_delta_step,
        "path_smooth": training.path_smooth,
        "cat_l2": training.cat_l2,
        "reg_lambda": training.reg_lambda,
        "reg_alpha": training.reg_alpha,
    }
    return (
        {key: value for key, value in params.items() if key != "learning_rate" or not np.isnan(training.rate)}
        if training.known
        else {}
    )


def _output_names(n_outputs: int, classes: list[Any] | None) -> tuple[str, ...] | None:
    if n_outputs == 1:
        return None
    if classes is None or len(classes) != n_outputs:
        return tuple(str(k) for k in range(n_outputs))  # native training wants the labels 0, 1, ...
    return tuple(str(label) for label in classes)


def _setting_notes(training: Training, many_vs_many: bool) -> list[str]:
    """Why LightGBM's own gain is not the inner product, setting by setting."""
    reasons = {
        "no parameters block, so that node values are the stored ones (6 digits)": not training.known,
        "a random forest's trees see bagged rows": training.boosting == "rf",
        "DART: the margin before each tree is not the sum of the trees before it": training.boosting == "dart",
        "rows were sampled (bagging or GOSS), and the gain is of the sampled rows": training.sampled,
        "gradients were quantized": training.quantized,
        "leaf values were renewed after the tree was grown": training.renewed,
        "lambda_l1: the gain has a term of its own": training.reg_alpha > 0,
        "max_delta_step clips node values": training.max_delta_step > 0,
        "path_smooth pulls node values to their parents": training.path_smooth > 0,
        "monotone constraints clip node values": training.monotone,
        "cat_l2: a many-vs-many split's gain counts more l2 for the children": many_vs_many and training.cat_l2 > 0,
        "feature_contri or cegb_* change the gain": training.gain_altered,
    }
    return [text for text, holds in reasons.items() if holds]
