"""scikit-learn's models -> Model: HistGradientBoosting*, GradientBoosting*, forests and single trees.

What is stored (measured on 1.3 to 1.9), and what PreDecomp makes of it:

* Trees and forests: every node has its value, the mean of y or the fractions of the classes. They are taken as stored.
* HistGradientBoosting: leaves with the learning rate, inner nodes without; a root always has 0, and its gain lacks the
  root's own term. Both are taken as stored: so TreeInner reproduces the stored gain to 3e-9.
* GradientBoosting: inner nodes have the mean of the negative gradient. Leaves have it too for squared error; for other
  losses they are renewed, in other units, and PreDecomp is refused.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, UnsupportedModelError, readable
from treeinner.losses import find_loss
from treeinner.read.model import Model, Told
from treeinner.read.trees import Bool, Float, NodeValues, Trees, sets_of
from treeinner.rows.schema import Level, Schema

__all__ = ["read"]

Found = tuple[Trees, Schema, str, dict[str, Any]]  # ..., name of the loss and its parameters

RENEWED = "loss={!r} of scikit-learn computes the leaves anew, in other units than the inner nodes"
AGREEMENT = 1e-4  # of the equations for a learning rate; measured 1e-7, a wrong assumption misses by percents
CHECKED_TREES = 10  # whose leaves are counted to recognise the training rows; a single one may be a stump


def read(model: Any, told: Told) -> Model:
    """Read a fitted HistGradientBoosting*, GradientBoosting*, RandomForest*, ExtraTrees*, DecisionTree* or ExtraTree*.

    A told `learning_rate` wins over the estimator's, which warm starts and set_params may have changed.
    """
    kinds = {kind.__name__ for kind in type(model).__mro__ if kind.__module__.split(".")[0] == "sklearn"}
    if "BaseHistGradientBoosting" in kinds:
        reader, foreign = _hist, ["reg_alpha"]
    elif "BaseGradientBoosting" in kinds:
        reader, foreign = _boosted, ["reg_alpha", "reg_lambda"]
    elif kinds & {"BaseForest", "BaseDecisionTree"}:
        reader, foreign = _averaged, ["reg_alpha", "reg_lambda", "learning_rate"]
    else:
        raise UnsupportedModelError(f"scikit-learn {type(model).__name__}: not a supported tree model.")
    for name in foreign:  # what is told must change something
        if getattr(told, name):
            raise ValueError(f"{name} was given, but scikit-learn's {type(model).__name__} has none; leave it out.")
    trees, schema, name, params = reader(model, told)
    trees = trees if told.iteration_range is None else trees.rounds(*told.iteration_range)
    classes = getattr(model, "classes_", None)  # an array, a list of arrays for several targets; None: a regressor
    nested = isinstance(classes, list)
    if classes is not None:
        classes = [labels.tolist() for labels in classes] if nested else classes.tolist()
    names = None if classes is None or trees.n_outputs == 1 else tuple(map(str, classes))
    if nested:
        names = tuple(f"{target}={label}" for target, labels in enumerate(classes or ()) for label in labels)
    weights = getattr(model, "class_weight", None)
    if isinstance(weights, dict) and hasattr(model, "_predictors"):  # HistGradientBoosting looks codes up, not labels
        weights = {model.classes_[code]: weight for code, weight in weights.items()}
    library = "sklearn forest" if trees.averaged and told.objective is None else "sklearn"
    params["many_targets"] = nested
    loss = find_loss(told=told.objective, library=library, name=name, params=params, n_outputs=trees.n_outputs)
    return Model(
        trees=trees,
        library="sklearn",
        schema=schema,
        find_loss=(loss, ""),
        feature_names=schema.names,
        output_names=names,
        classes=classes,
        class_weight=weights,
        out_of_bag=partial(_out_of_bag, model) if hasattr(model, "estimators_") and trees.averaged else None,
    )


# -- what all kinds share ------------------------------------------------------------------------------------
def _joined(trees: list[NDArray[Any]], per_round: int, n_columns: int) -> tuple[NDArray[Any], Bool, dict[str, Any]]:
    """Nodes of some trees, concatenated: as they are stored, which are leaves, and the fields that all kinds share."""
    stored, number = np.concatenate(trees), np.arange(len(trees))
    start = np.cumsum([0, *map(len, trees)])
    offset = np.repeat(start[:-1], np.diff(start))
    hist = "is_leaf" in (stored.dtype.names or ())
    left, right = (stored[side if hist else f"{side}_child"] for side in ("left", "right"))
    leaf = stored["is_leaf"].astype(bool) if hist else left < 0
    fields = {
        "start": start,
        "output": number % per_round,
        "round": number // per_round,
        "weight": np.ones(len(trees)),
        "left": np.where(leaf, -1, left + offset),
        "right": np.where(leaf, -1, right + offset),
        "missing_left": ~leaf & stored["missing_go_to_left"].astype(bool),
        "category_set": np.full(len(leaf), -1),
        **sets_of([]),
        "leaf_id": np.where(leaf, np.arange(len(leaf)) - offset, -1),
        "n_columns": n_columns,
    }
    return stored, leaf, fields


def _names_of(model: Any) -> tuple[str, ...] | None:
    """Training names of the columns, if the model was fitted on a data frame."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(readable, names))


# -- HistGradientBoosting --------------------------------------------------------------------------------------
def _hist(model: Any, told: Told) -> Found:
    """Read a fitted HistGradientBoostingRegressor or HistGradientBoostingClassifier."""
    per_round = len(model._predictors[0])
    predictors = [predictor for stage in model._predictors for predictor in stage]
    order, codes, none_code, schema = _hist_columns(model)
    stored, leaf, fields = _joined([predictor.nodes for predictor in predictors], per_round, schema.n_columns)
    fields["column"] = np.where(leaf, -1, order[np.where(leaf, 0, stored["feature_idx"]).astype(np.int64)])
    swap = ~leaf & stored["is_categorical"].astype(bool)
    # Where None was a level (null in polars), missing values are that level and go where it goes. If that is not where
    # scikit-learn sends unseen levels, those cannot count as missing any more and are refused.
    unseen_left = fields["missing_left"] ^ swap
    missing_left, sets = unseen_left.copy(), list[Any]()
    of_node = np.repeat(np.arange(len(predictors)), np.diff(fields["start"]))
    for node in np.flatnonzero(swap):
        column = int(fields["column"][node])
        bits = predictors[of_node[node]].raw_left_cat_bitsets[stored["bitset_idx"][node]]
        raw = np.flatnonzero(np.unpackbits(np.asarray(bits, "<u4").view(np.uint8), bitorder="little"))
        sets.append(np.flatnonzero(np.isin(codes[column], raw)))  # a level's code: its position
        if column in none_code:
            missing_left[node] = none_code[column] not in sets[-1]
    if not np.array_equal(missing_left, unseen_left):
        schema = replace(schema, unseen="error")
    known_codes: Any = schema.levels and tuple(None if known is None else len(known) for known in schema.levels)
    fields |= {
        "threshold": np.where(leaf | swap, np.nan, stored["num_threshold"]),
        # The stored sets of categories go left, ours right: children swap.
        "left": np.where(swap, fields["right"], fields["left"]),
        "right": np.where(swap, fields["left"], fields["right"]),
        "missing_left": missing_left,
        "category_set": np.where(swap, np.cumsum(swap) - 1, -1),
        **sets_of(sets),
        "known_codes": known_codes,
        "value": np.where(leaf, stored["value"], 0.0)[:, None],
        "cover": stored["count"],
        # Leaves that could have been split have the gain of the split that was not made.
        "gain": np.where(leaf, 0.0, stored["gain"]),
        "base": np.asarray(model._baseline_prediction, np.float64).reshape(-1),
    }
    trees: Trees = Trees(**fields, node_values=lambda: _hist_values(trees, model, told, stored["value"]))
    told.rates(trees.n_rounds)  # a wrong number of them is an error now
    return trees, schema, str(model.loss), {"alpha": model.quantile} if model.loss == "quantile" else {}


def _hist_columns(model: Any) -> tuple[NDArray[Any], dict[int, NDArray[Any]], dict[int, int], Schema]:
    """The user's columns: their order in the trees, codes of the categorical ones, code of None as a level; schema."""
    n, flags = int(model.n_features_in_), model.is_categorical_
    categorical = np.zeros(n, bool) if flags is None else np.asarray(flags, dtype=bool)
    preprocessor = getattr(model, "_preprocessor", None)
    # The preprocessor hands the trees the categorical columns first.
    order = np.arange(n) if preprocessor is None else np.argsort(~categorical, kind="stable")
    bins = model._bin_mapper.bin_thresholds_  # of a categorical column: the codes seen in training
    codes = {int(c): np.asarray(bins[i]) for i, c in enumerate(order) if categorical[c]}
    none_code: dict[int, int] = {}
    levels: dict[int, tuple[Level, ...]] = {column: tuple(known.tolist()) for column, known in codes.items()}
    if preprocessor is not None:  # before 1.4 the numbers in X were the codes
        for column, given in zip(codes, preprocessor.named_transformers_["encoder"].categories_, strict=True):
            levels[column] = _levels(column, list(given))
            if any(level is None for level in given):
                none_code[column] = len(levels[column])
    some = bool(categorical.any())
    schema = Schema(
        n_columns=n,
        names=_names_of(model),
        categorical=tuple(categorical.tolist()) if some else None,
        levels=tuple(map(levels.get, range(n))) if some else None,
        levels_for_arrays=True,
        unseen="missing",
    )
    return order, codes, none_code, schema


def _levels(column: int, given: list[Any]) -> tuple[Level, ...]:
    """Levels in the order of their codes, without None and NaN, which the encoder puts last."""
    known = [level for level in given if level is not None and level == level]  # noqa: PLR0124
    plain = tuple(level.item() if isinstance(level, np.generic) else level for level in known)
    if len(given) - len(plain) > 1:
        raise UnsupportedModelError(
            f"Column {column} was trained with both None, a level, and NaN, a missing value; train with one of them."
        )
    return plain


def _hist_rates(trees: Trees, model: Any, told: Told, stored: Float) -> Float:
    """Learning rate of each tree, NaN where it is neither stored nor confirmed: (trees,). stored: values of the nodes.

    The estimator has the rate of its last fit, or what set_params made of it. Where hessians are row counts n, a tree
    shows whether that is its own: (n + l2) w adds up over the children of a node, and a leaf stores rate * w for w.
    """
    rates, own, n_trees, leaf = told.rates(trees.n_rounds), float(model.learning_rate), trees.n_trees, trees.column < 0
    if rates is not None:
        return rates[trees.round]
    rate = np.full(n_trees, np.nan if model.warm_start else own)
    if model.monotonic_cst is not None or not (model._loss.constant_hessian and model._loss.differentiable):
        return rate
    is_root = np.isin(np.arange(trees.n_nodes), trees.start)  # whose values are not stored
    inner = np.flatnonzero(~leaf & ~is_root)
    child, tree = np.stack([trees.left[inner], trees.right[inner]]), trees.tree_of_node[inner]
    term = (trees.cover + (model.l2_regularization if told.reg_lambda is None else told.reg_lambda)) * stored
    at_leaves = np.where(leaf[child], term[child], 0.0)
    shrunk, rest = at_leaves.sum(axis=0), term[inner] - np.where(leaf[child], 0.0, term[child]).sum(axis=0)
    missed = np.bincount(tree, (own * rest - shrunk) ** 2, n_trees)  # own * rest = shrunk
    sizes = np.bincount(tree, np.abs(at_leaves).sum(axis=0) ** 2, n_trees)
    return np.where(sizes > 0, np.where(missed <= AGREEMENT**2 * sizes, own, np.nan), rate)


def _hist_values(trees: Trees, model: Any, told: Told, stored: Float) -> NodeValues:
    """Inner values times the rate, which the leaves have already."""
    rate = _hist_rates(trees, model, told, stored)
    if not model._loss.differentiable:
        return NodeValues(None, rate, refusal=RENEWED.format(model.loss))
    is_final = (trees.column < 0) | (stored == 0)  # roots are 0 whatever the rate
    value = np.where(is_final, stored, rate[trees.tree_of_node] * stored)
    if np.isnan(value).any():
        return NodeValues(None, rate, needs=("learning_rate",))
    return NodeValues(value[:, None], rate)


# -- GradientBoosting ------------------------------------------------------------------------------------------
def _boosted(model: Any, told: Told) -> Found:
    """Read a fitted GradientBoostingRegressor or GradientBoostingClassifier."""
    n_rounds, per_round = model.estimators_.shape
    trees = [tree.tree_ for tree in model.estimators_.ravel()]
    schema, leaf, fields = _tree_fields(model, trees, per_round)
    own = float(model.learning_rate)  # predict() multiplies by it, whatever the trees were trained with
    rates = told.rates(n_rounds)
    rate = np.full(len(trees), own) if rates is None else np.repeat(rates, per_round)
    value = own * np.concatenate([tree.value for tree in trees])[:, 0, :1]
    loss, known = str(model.loss), NodeValues(value, rate)
    if loss != "squared_error":
        known = NodeValues(None, rate, refusal=RENEWED.format(loss))
    at_leaves = np.where(leaf[:, None], value, 0.0)
    found = Trees(**fields, value=at_leaves, base=_initial_margin(model), node_values=known)
    return found, schema, loss, {"alpha": float(model.alpha)} if loss in ("huber", "quantile") else {}


def _initial_margin(model: Any) -> Float:
    """Margin before the first tree: (outputs,)."""
    kind = type(model.init_).__name__
    drawn = kind == "DummyClassifier" and model.init_.strategy == "stratified"
    if drawn or kind not in ("str", "DummyRegressor", "DummyClassifier"):
        raise UnsupportedModelError(
            f"GradientBoosting with init={kind}: its first margin is not of these trees; fit with init=None or 'zero'."
        )
    margin = model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32))
    return np.asarray(margin, np.float64).reshape(-1)


def _tree_fields(model: Any, trees: list[Any], per_round: int) -> tuple[Schema, Bool, dict[str, Any]]:
    """What X must look like, and of `tree_` objects which nodes are leaves, and the fields but their values."""
    nodes = [tree.__getstate__()["nodes"] for tree in trees]
    stored, leaf, fields = _joined(nodes, per_round, int(model.n_features_in_))
    weight = stored["weighted_n_node_samples"].astype(np.float64)
    risk = weight * stored["impurity"]
    tags = getattr(model, "__sklearn_tags__", None)  # scikit-learn 1.6 and later
    schema = Schema(
        n_columns=int(model.n_features_in_),
        names=_names_of(model),
        allow_infinite=False,
        allow_missing=True if tags is None else bool(tags().input_tags.allow_nan),
    )
    fields |= {
        "column": np.where(leaf, -1, stored["feature"]),
        "threshold": np.where(leaf, np.nan, stored["threshold"]),
        "cover": weight,
        "gain": np.where(leaf, 0.0, risk - risk[fields["left"]] - risk[fields["right"]]),
        "float32_input": True,
    }
    return schema, leaf, fields


# -- single trees and forests ----------------------------------------------------------------------------------
def _averaged(model: Any, told: Told) -> Found:
    """Read a tree or a forest; a classifier has one output per class (of each target): its fraction.

    Nothing can be told about it.
    """
    trees = [tree.tree_ for tree in getattr(model, "estimators_", [model])]
    n_trees = len(trees)
    schema, leaf, fields = _tree_fields(model, trees, n_trees)
    classifier = hasattr(model, "classes_")
    width = np.atleast_1d(model.n_classes_ if classifier else np.ones(model.n_outputs_, int))  # of each target
    stored = np.concatenate([tree.value for tree in trees])  # (nodes, targets, most classes)
    if classifier and not np.allclose(stored.sum(axis=2), 1.0):  # counts until 1.3.1, fractions since
        stored = stored / stored.sum(axis=2, keepdims=True)
    value = np.concatenate([stored[:, target, :k] for target, k in enumerate(width)], axis=1) / n_trees
    fields |= {"output": np.zeros(n_trees), "weight": np.full(n_trees, 1 / n_trees), "averaged": True}
    at_leaves, known = np.where(leaf[:, None], value, 0.0), NodeValues(value, np.ones(n_trees))
    found = Trees(**fields, value=at_leaves, base=np.zeros(value.shape[1]), node_values=known)
    return found, schema, str(model.criterion), {}


def _out_of_bag(model: Any, X: Any, y: Any) -> Bool:
    """Which rows each tree of a forest did not see: (trees, rows). X: the training rows, in training order."""
    samplers = getattr(model, "samplers_", None)  # of imblearn, which draws from each class before the tree is grown
    if samplers is None and not model.bootstrap:
        raise UnsupportedModelError(
            f"oob=True: {type(model).__name__} with bootstrap=False: every tree saw every row; use held-out rows."
        )
    drawn = model.estimators_samples_ if samplers is None else [sampler.sample_indices_ for sampler in samplers]
    if hasattr(X, "columns") and hasattr(model, "feature_names_in_"):
        X = X[list(model.feature_names_in_)]
    X = X.tocsr().astype(np.float32) if hasattr(X, "tocsr") else np.asarray(X, np.float32)
    n_rows = X.shape[0]
    unseen = np.ones((len(drawn), n_rows), bool)
    for number, (rows, tree) in enumerate(zip(drawn, model.estimators_, strict=True)):
        inside = rows.max(initial=0) < n_rows == getattr(model, "_n_samples", n_rows)
        # scikit-learn makes a weight of 2 of a row that was drawn twice; imblearn makes two rows of it.
        once = np.unique(rows) if samplers is None else rows
        if not inside or (number < CHECKED_TREES and not _are_in_leaves(tree.tree_, X[once])):
            raise DataError(
                "oob=True: these are not the training rows in training order; pass those, or leave oob out for others."
            )
        unseen[number, rows] = False
    return unseen


def _are_in_leaves(tree: Any, X: NDArray[np.float32]) -> bool:
    """Whether these rows reach each leaf as often as the tree's own rows; rows of weight 0 were not counted there."""
    reached = np.bincount(tree.apply(X), minlength=tree.node_count)
    return bool(np.all((reached >= tree.n_node_samples) | (tree.children_left >= 0)))
