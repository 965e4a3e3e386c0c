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

from treeinner.errors import DataError, Note, UnsupportedModelError, readable
from treeinner.losses import find_loss
from treeinner.read.model import Model, Told
from treeinner.read.trees import Bool, Float, Long, NodeValues, Trees, players_of
from treeinner.rows.schema import Level, Schema

__all__ = ["read"]

Found = tuple[Trees, Schema, str, dict[str, Any]]  # ..., name of the loss and its parameters

RENEWED = "loss={!r} of scikit-learn computes the leaves anew, in other units than the inner nodes"
CUSTOM_LOSS = "The loss is the estimator's own object {}; the gradient of a row must not depend on other rows."
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
    objective, stored, notes = told.objective, getattr(model, "loss", ""), []
    if objective is None and not isinstance(stored, str):
        objective = partial(_gradient, stored)
        objective.__dict__["__name__"] = type(stored).__name__
        notes.append(Note("custom_loss", CUSTOM_LOSS.format(type(stored).__name__), quiet=True))
    loss = find_loss(
        told=objective,
        library="sklearn",
        name=name,
        params=params,
        n_outputs=trees.n_outputs,
        averaged=trees.averaged,
        many_targets=nested,
    )
    return Model(
        trees=trees,
        library="sklearn",
        schema=schema,
        find_loss=(loss, ""),
        feature_names=schema.names,
        output_names=_output_names(classes, nested, trees.n_outputs),
        classes=classes,
        class_weight=_class_weight(model),
        out_of_bag=partial(_out_of_bag, model) if hasattr(model, "estimators_") and trees.averaged else None,
        notes=tuple(notes),
    )


def _output_names(classes: Any, nested: bool, n_outputs: int) -> tuple[str, ...] | None:
    """Names of the outputs: classes, of several targets as "0=label"; None: one output, or targets without names."""
    if nested:
        return tuple(f"{target}={label}" for target, labels in enumerate(classes) for label in labels)
    return None if classes is None or n_outputs == 1 else tuple(map(str, classes))


def _class_weight(model: Any) -> Any:
    """class_weight of a classifier, by label; None if it has none."""
    given = getattr(model, "class_weight", None)
    if isinstance(given, dict) and hasattr(model, "_predictors"):  # HistGradientBoosting looks codes up, not labels
        return {model.classes_[code]: weight for code, weight in given.items()}
    return given


def _gradient(loss: Any, y: Any, margin: Any) -> Any:
    """Gradient of a loss object that HistGradientBoosting was given in the place of a name."""
    rows = {"y_true": np.ascontiguousarray(y, np.float64).ravel(), "raw_prediction": np.ascontiguousarray(margin)}
    if loss.constant_hessian:  # each as in training; a class of the user's own may have only one of them
        return loss.gradient(**rows)
    return loss.gradient_hessian(**rows)[0]


# -- what all kinds share ------------------------------------------------------------------------------------
class _Nodes:
    """The nodes of some trees, concatenated: `stored` as they are, children as positions in these arrays."""

    def __init__(self, trees: list[NDArray[Any]]) -> None:
        self.stored = np.concatenate(trees)
        sizes = np.array([len(nodes) for nodes in trees])
        self.n_trees = len(trees)
        self.start: Long = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.tree = np.repeat(np.arange(self.n_trees), sizes)
        self.offset = self.start[self.tree]
        hist = "is_leaf" in (self.stored.dtype.names or ())
        left, right = (self.stored[side if hist else f"{side}_child"] for side in ("left", "right"))
        self.leaf: Bool = self.stored["is_leaf"].astype(bool) if hist else left < 0
        self.left = np.where(self.leaf, -1, left + self.offset)
        self.right = np.where(self.leaf, -1, right + self.offset)
        self.missing_left = ~self.leaf & self.stored["missing_go_to_left"].astype(bool)

    def trees(self, schema: Schema, per_round: int, column: NDArray[Any], value: Float, **other: Any) -> Trees:
        """Put together what all kinds have in common; `value` (nodes, width) counts at leaves only."""
        number, (player, player_features) = np.arange(self.n_trees), players_of(column)
        fields = {
            "start": self.start,
            "output": number % per_round,
            "round": number // per_round,
            "weight": np.ones(self.n_trees),
            "column": column,
            "player": player,
            "left": self.left,
            "right": self.right,
            "missing_left": self.missing_left,
            "category_set": np.full(len(self.leaf), -1),
            "set_start": np.zeros(1, np.int64),
            "set_codes": np.zeros(0, np.int32),
            "value": np.where(self.leaf[:, None], value, 0.0),
            "leaf_id": np.where(self.leaf, np.arange(len(self.leaf)) - self.offset, -1),
            "player_features": player_features,
            "n_features": schema.n_columns,
            "n_columns": schema.n_columns,
            "known_codes": schema.known_codes,
        }
        return Trees(**(fields | other))


def _names_of(model: Any) -> tuple[str, ...] | None:
    """Training names of the columns, if the model was fitted on a data frame."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(readable, names))


# -- HistGradientBoosting --------------------------------------------------------------------------------------
def _hist(model: Any, told: Told) -> Found:
    """Read a fitted HistGradientBoostingRegressor or HistGradientBoostingClassifier."""
    per_round = len(model._predictors[0])
    predictors = [predictor for stage in model._predictors for predictor in stage]
    nodes, columns = _Nodes([predictor.nodes for predictor in predictors]), _HistColumns(model)
    inside = np.where(nodes.leaf, 0, nodes.stored["feature_idx"]).astype(np.int64)
    column = np.where(nodes.leaf, -1, columns.order[inside])
    splits, schema = _hist_splits(predictors, nodes, column, columns)
    l2 = model.l2_regularization if told.reg_lambda is None else told.reg_lambda
    rates = told.rates(len(model._predictors))
    rate = _hist_rates(model, nodes, l2) if rates is None else np.repeat(rates, per_round)
    trees = nodes.trees(
        schema,
        per_round,
        column,
        nodes.stored["value"][:, None],
        **splits,
        cover=nodes.stored["count"],
        # Leaves that could have been split have the gain of the split that was not made.
        gain=np.where(nodes.leaf, 0.0, nodes.stored["gain"]),
        base=np.asarray(model._baseline_prediction, np.float64).reshape(-1),
        node_values=partial(_hist_values, model, nodes, rate),
    )
    return trees, schema, str(model.loss), {"alpha": model.quantile} if model.loss == "quantile" else {}


class _HistColumns:
    """The user's columns: the order that the trees see them in, and the levels of the categorical ones."""

    def __init__(self, model: Any) -> None:
        n, flags = int(model.n_features_in_), model.is_categorical_
        categorical = np.zeros(n, bool) if flags is None else np.asarray(flags, dtype=bool)
        preprocessor = getattr(model, "_preprocessor", None)
        # The preprocessor hands the trees the categorical columns first.
        self.order = np.arange(n) if preprocessor is None else np.argsort(~categorical, kind="stable")
        bins = model._bin_mapper.bin_thresholds_  # of a categorical column: the codes seen in training
        self.codes = {int(c): np.asarray(bins[i]) for i, c in enumerate(self.order) if categorical[c]}
        self.none_code: dict[int, int] = {}  # columns in which None was a level of its own
        levels: dict[int, tuple[Level, ...]] = {column: tuple(codes.tolist()) for column, codes in self.codes.items()}
        if preprocessor is not None:  # before 1.4 the numbers in X were the codes
            encoder = preprocessor.named_transformers_["encoder"]
            for column, given in zip(self.codes, encoder.categories_, strict=True):
                levels[column] = self._levels(column, list(given))
        some = bool(categorical.any())
        self.schema = Schema(
            n_columns=n,
            names=_names_of(model),
            categorical=tuple(categorical.tolist()) if some else None,
            levels=tuple(map(levels.get, range(n))) if some else None,
            levels_for_arrays=True,
            unseen="missing",
            known_codes=tuple(len(levels[j]) if j in levels else None for j in range(n)) if some else None,
        )

    def _levels(self, column: int, given: list[Any]) -> tuple[Level, ...]:
        """Levels in the order of their codes, without None and NaN, which the encoder puts last."""
        known = [level for level in given if level is not None and level == level]  # noqa: PLR0124
        plain = tuple(level.item() if isinstance(level, np.generic) else level for level in known)
        if len(given) - len(plain) > 1:
            raise UnsupportedModelError(
                f"Column {column} was trained with both None, a level to scikit-learn, and NaN, a missing value; "
                "tables do not tell them apart. Train with one of them."
            )
        if not all(isinstance(level, str | int | float | bool) for level in plain):
            raise UnsupportedModelError(
                f"Column {column} has categories that are neither text nor numbers nor booleans ({plain[0]!r}); train "
                "with such labels, e.g. X[column].astype(str)."
            )
        if any(level is None for level in given):
            self.none_code[column] = len(plain)
        return plain


def _hist_splits(
    predictors: list[Any], nodes: _Nodes, column: NDArray[Any], columns: _HistColumns
) -> tuple[dict[str, Any], Schema]:
    """Where rows go, and the schema that fits it. The stored sets of categories go left, ours right: children swap.

    Where None was a level (null in polars), missing values are that level and go where it goes. If that is not where
    scikit-learn sends unseen levels, those cannot count as missing any more and are refused.
    """
    swap = ~nodes.leaf & nodes.stored["is_categorical"].astype(bool)
    unseen_left = nodes.missing_left ^ swap
    missing_left = unseen_left.copy()
    codes: list[NDArray[Any]] = []
    for node in np.flatnonzero(swap):
        of_column = int(column[node])
        bits = predictors[nodes.tree[node]].raw_left_cat_bitsets[nodes.stored["bitset_idx"][node]]
        raw = np.flatnonzero(np.unpackbits(np.asarray(bits, "<u4").view(np.uint8), bitorder="little"))
        codes.append(np.flatnonzero(np.isin(columns.codes[of_column], raw)))  # a level's code: its position
        if of_column in columns.none_code:
            missing_left[node] = columns.none_code[of_column] not in codes[-1]
    same = np.array_equal(missing_left, unseen_left)
    splits = {
        "threshold": np.where(nodes.leaf | swap, np.nan, nodes.stored["num_threshold"]),
        "left": np.where(swap, nodes.right, nodes.left),
        "right": np.where(swap, nodes.left, nodes.right),
        "missing_left": missing_left,
        "category_set": np.where(swap, np.cumsum(swap) - 1, -1),
        "set_start": np.concatenate([[0], np.cumsum([len(c) for c in codes])]).astype(np.int64),
        "set_codes": np.concatenate([*codes, np.zeros(0, np.int64)]),
    }
    return splits, columns.schema if same else replace(columns.schema, unseen="error")


def _hist_rates(model: Any, nodes: _Nodes, l2: float) -> Float:
    """Learning rate of each tree, NaN where it is neither stored nor confirmed: (trees,).

    The estimator has the rate of its last fit, or what set_params made of it. Where hessians are row counts n, a tree
    tells its own rate: (n + l2) w adds up over the children of a node, and a leaf stores rate * w instead of w.
    """
    own = float(model.learning_rate)
    rate = np.full(nodes.n_trees, np.nan if model.warm_start else own)
    if model.monotonic_cst is not None or not (model._loss.constant_hessian and model._loss.differentiable):
        return rate
    inner = np.flatnonzero(~nodes.leaf & (np.arange(len(nodes.leaf)) > nodes.offset))  # a root's value is not stored
    child = np.stack([nodes.left[inner], nodes.right[inner]])
    term = (nodes.stored["count"] + l2) * nodes.stored["value"]
    at_leaves = np.where(nodes.leaf[child], term[child], 0.0)
    shrunk, rest = at_leaves.sum(axis=0), term[inner] - np.where(nodes.leaf[child], 0.0, term[child]).sum(axis=0)
    squares, products, sizes = (
        np.bincount(nodes.tree[inner], numbers, nodes.n_trees)
        for numbers in (shrunk**2, shrunk * rest, np.abs(at_leaves).sum(axis=0) ** 2)
    )
    fitted = np.divide(squares, products, out=np.zeros(nodes.n_trees), where=products > 0)  # rate * rest = shrunk
    fitted = np.where(np.abs(fitted / own - 1) <= AGREEMENT, own, fitted)
    missed = np.bincount(nodes.tree[inner], (fitted[nodes.tree[inner]] * rest - shrunk) ** 2, nodes.n_trees)
    holds = (fitted > 0) & (missed <= AGREEMENT**2 * sizes)
    return np.where(sizes > 0, np.where(holds, fitted, np.nan), rate)


def _hist_values(model: Any, nodes: _Nodes, rate: Float) -> NodeValues:
    """Inner values times the rate, which the leaves have already."""
    if not model._loss.differentiable:
        return NodeValues(None, rate, refusal=RENEWED.format(model.loss))
    stored = nodes.stored["value"]
    value = np.where(nodes.leaf | (stored == 0), stored, rate[nodes.tree] * stored)  # roots are 0 whatever the rate
    if np.isnan(value).any():
        return NodeValues(None, rate, needs=("learning_rate",))
    return NodeValues(value[:, None], rate)


# -- GradientBoosting ------------------------------------------------------------------------------------------
def _boosted(model: Any, told: Told) -> Found:
    """Read a fitted GradientBoostingRegressor or GradientBoostingClassifier."""
    n_rounds, per_round = model.estimators_.shape
    trees = [tree.tree_ for tree in model.estimators_.ravel()]
    nodes, schema, splits = _tree_nodes(model, trees)
    own = float(model.learning_rate)  # predict() multiplies by it, whatever the trees were trained with
    rates = told.rates(n_rounds)
    rate = np.full(nodes.n_trees, own) if rates is None else np.repeat(rates, per_round)
    value = own * np.concatenate([tree.value for tree in trees])[:, 0, :1]
    loss, known = str(model.loss), NodeValues(value, rate)
    if loss != "squared_error":
        known = NodeValues(None, rate, refusal=RENEWED.format(loss))
    found = nodes.trees(schema, per_round, value=value, **splits, base=_initial_margin(model), node_values=known)
    return found, schema, loss, {"alpha": float(model.alpha)} if loss in ("huber", "quantile") else {}


def _initial_margin(model: Any) -> Float:
    """Margin before the first tree: (outputs,)."""
    kind = type(model.init_).__name__
    drawn = kind == "DummyClassifier" and model.init_.strategy == "stratified"
    if drawn or kind not in ("str", "DummyRegressor", "DummyClassifier"):
        raise UnsupportedModelError(
            f"GradientBoosting with init={kind}: its first margin differs from row to row and is not made of these "
            "trees. Fit with init=None or init='zero'; to build on another regressor, fit on y - other.predict(X)."
        )
    margin = model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32))
    return np.asarray(margin, np.float64).reshape(-1)


def _tree_nodes(model: Any, trees: list[Any]) -> tuple[_Nodes, Schema, dict[str, Any]]:
    """Nodes of `tree_` objects, what X must look like, and the fields of their splits."""
    nodes = _Nodes([tree.__getstate__()["nodes"] for tree in trees])
    weight = nodes.stored["weighted_n_node_samples"].astype(np.float64)
    risk = weight * nodes.stored["impurity"]
    tags = getattr(model, "__sklearn_tags__", None)  # scikit-learn 1.6 and later
    schema = Schema(
        n_columns=int(model.n_features_in_),
        names=_names_of(model),
        allow_infinite=False,
        allow_missing=True if tags is None else bool(tags().input_tags.allow_nan),
    )
    splits = {
        "column": np.where(nodes.leaf, -1, nodes.stored["feature"]),
        "threshold": np.where(nodes.leaf, np.nan, nodes.stored["threshold"]),
        "cover": weight,
        "gain": np.where(nodes.leaf, 0.0, risk - risk[nodes.left] - risk[nodes.right]),
        "float32_input": True,
    }
    return nodes, schema, splits


# -- single trees and forests ----------------------------------------------------------------------------------
def _averaged(model: Any, told: Told) -> Found:
    """Read a tree or a forest; a classifier has one output per class (of each target): its fraction.

    Nothing can be told about it.
    """
    trees = [tree.tree_ for tree in getattr(model, "estimators_", [model])]
    nodes, schema, splits = _tree_nodes(model, trees)
    classifier = hasattr(model, "classes_")
    width = np.atleast_1d(model.n_classes_ if classifier else np.ones(model.n_outputs_, int))  # of each target
    stored = np.concatenate([tree.value for tree in trees])  # (nodes, targets, most classes)
    if classifier and not np.allclose(stored.sum(axis=2), 1.0):  # counts until 1.3.1, fractions since
        stored = stored / stored.sum(axis=2, keepdims=True)
    value = np.concatenate([stored[:, target, :k] for target, k in enumerate(width)], axis=1) / nodes.n_trees
    found = nodes.trees(
        schema,
        nodes.n_trees,
        value=value,
        **splits,
        output=np.zeros(nodes.n_trees),
        weight=np.full(nodes.n_trees, 1 / nodes.n_trees),
        base=np.zeros(value.shape[1]),
        averaged=True,
        node_values=NodeValues(value, np.ones(nodes.n_trees)),
    )
    return found, schema, str(model.criterion), {}


def _out_of_bag(model: Any, X: Any, y: Any) -> Bool:
    """Which rows each tree of a forest did not see: (trees, rows). X: the training rows, in training order."""
    samplers = getattr(model, "samplers_", None)  # of imblearn, which draws from each class before the tree is grown
    if samplers is None and not model.bootstrap:
        raise UnsupportedModelError(
            f"oob=True: this {type(model).__name__} was trained with bootstrap=False, so every tree saw every row; "
            "use held-out rows instead."
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
                "oob=True: these are not the rows that the forest was trained on, or they are in another order; pass "
                "the training rows in training order, or leave oob out for held-out rows."
            )
        unseen[number, rows] = False
    return unseen


def _are_in_leaves(tree: Any, X: NDArray[np.float32]) -> bool:
    """Whether these rows reach each leaf as often as the tree's own rows; rows of weight 0 were not counted there."""
    reached = np.bincount(tree.apply(X), minlength=tree.node_count)
    return bool(np.all((reached >= tree.n_node_samples) | (tree.children_left >= 0)))
