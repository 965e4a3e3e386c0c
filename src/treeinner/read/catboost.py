"""CatBoost's models -> Model, in one of two ways.

* Numbers alone: through the library's JSON, which has all splits and values. A split compares float32(x) with a border.
* Categories, texts or embeddings: only CatBoost knows where a row goes, and `calc_leaf_indexes` tells. A column of the
  table is a tree, its value the number of the row's leaf, and a split sends a set of leaves right. In a symmetric tree
  bit j of that number answers question j, wherever the row is. In other trees only the answers on the row's own path
  are known (`path_only`), which is enough for everything but TreeSHAP.

CatBoost stores neither inner values nor second derivatives, but the weight of the training rows in each leaf. So
PreDecomp holds where a leaf is one step -rate * G / (weight + penalty): squared error, and the method "Gradient".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, MissingDependencyError, Note, UnsupportedModelError, readable, warn
from treeinner.read.model import Model, Told, loss_of
from treeinner.read.node_values import l2_node_values
from treeinner.read.trees import Float, NodeValues, Trees, players_of, require, sets_of
from treeinner.rows.frames import names_of, places_of
from treeinner.rows.schema import Schema

__all__ = ["read", "read_file"]

Shape = NDArray[np.int64]  # (4, nodes) of a tree: its question, left, right, number of the leaf; -1 where there is none
# Column that it reads, border, where missing values go, features that share its credit, leaves that go right.
Question = tuple[int, float, bool, tuple[int, ...], Any]

MAX_DEPTH = 16  # of symmetric trees, CatBoost's own limit: a damaged number must not become a huge allocation
OTHER_KINDS = ("categorical", "text", "embedding")  # of features, which only CatBoost can read
BLOCK_ROWS = 65_536  # rows that CatBoost routes at once
AGREEMENT = 1e-7  # of the trees with the penalty, relative to their steps; measured 3e-11, and 0.04 where it is another


def read(model: Any, told: Told) -> Model:
    """Read a fitted CatBoost, CatBoostRegressor, CatBoostClassifier or CatBoostRanker.

    `reg_lambda` is the l2 term as it enters a leaf: l2_leaf_reg times the mean weight of the training rows.
    """
    if "CatBoost" not in {kind.__name__ for kind in type(model).__mro__ if kind.__module__.startswith("catboost")}:
        raise UnsupportedModelError(f"A {type(model).__name__} is not a CatBoost model; pass a fitted CatBoost object.")
    return _by_leaves(model, told) if any(_kinds(model)) else _by_borders(_document(model), told, model)


def read_file(path: Path, told: Told) -> Model:
    """Read a file written by `save_model`, format="cbm" or "json"; JSON of numbers alone needs no CatBoost."""
    data = path.read_bytes()
    document = None if data.startswith(b"CBM1") else json.loads(data)
    if document is not None and not any(document["features_info"].get(f"{kind}_features") for kind in OTHER_KINDS):
        return _by_borders(document, told)
    try:
        import catboost
    except ImportError as error:
        raise MissingDependencyError(
            f"Reading {path} needs CatBoost: pip install catboost. Only JSON of models of numbers is read without it."
        ) from error
    return read(catboost.CatBoost().load_model(str(path), format="cbm" if document is None else "json"), told)


# -- what both ways share ----------------------------------------------------------------------------------------
def _finished(trees: Trees, settings: Mapping[str, Any], schema: Schema, told: Told, model: Any, **route: Any) -> Model:
    """Put a Model together; model: the library's object, if there is one."""
    if told.reg_alpha:
        raise ValueError("reg_alpha was given, but CatBoost has no l1 term, only l2_leaf_reg; leave it out.")
    if told.iteration_range is not None:
        trees = trees.rounds(*told.iteration_range)
        if told.iteration_range[0] > 0:  # CatBoost's predict leaves the bias out then
            trees = replace(trees, base=np.zeros(trees.n_outputs))
    params = {name: text for name, text in settings["loss_params"].items() if not name.startswith("__")}
    if any(weight != 1 for weight in settings.get("class_weights") or []):
        params["class_weights"] = settings["class_weights"]
    objective, notes = told.objective, []
    own = None if model is None else model.get_params().get("loss_function")
    if objective is None and (hasattr(own, "calc_ders_range") or hasattr(own, "calc_ders_multi")):
        objective, name = partial(_gradient, own), type(own).__name__
        objective.__dict__["__name__"] = name
        text = f"The loss is the estimator's own object {name}; the gradient of a row must not depend on other rows."
        notes.append(Note("custom_loss", text, quiet=True))
    asked: Any = {"library": "catboost", "name": settings["loss"], "params": params, "n_outputs": trees.n_outputs}
    classes = settings["classes"]
    several = settings["loss"].startswith("MultiClass") and len(classes) == trees.n_outputs
    return Model(
        trees=trees,
        library="catboost",
        schema=schema,
        find_loss=loss_of(objective, **asked),
        feature_names=schema.names,
        output_names=tuple(map(str, classes)) if several else None,
        classes=classes or None,
        target_border=settings.get("target_border"),
        notes=tuple(notes),
        **route,
    )


def _gradient(loss: Any, y: Any, margin: Any) -> Any:
    """Gradient of an object that an estimator was given as its loss; its derivatives are of what is maximised."""
    if hasattr(loss, "calc_ders_multi"):
        return -np.array([loss.calc_ders_multi(m, target, 1.0)[0] for m, target in zip(margin, y, strict=True)])
    return -np.array([first for first, _ in loss.calc_ders_range(margin, y, None)])


def _settings(info: Mapping[str, Any]) -> dict[str, Any]:
    """How a model was trained, as far as it says so; a sum of models does not."""
    held = map(info.get, ("params", "class_params", "loss_function"))
    params, labels, loss = (json.loads(text) if isinstance(text, str) else text or {} for text in held)
    sections = ("boosting_options", "tree_learner_options", "data_processing_options")
    loss = params.get("loss_function") or loss
    name = str(loss.get("type", ""))
    found = {key: item for section in sections for key, item in (params.get(section) or {}).items()}
    return found | {
        "l2": float(found.get("l2_leaf_reg", np.nan)),
        "loss": "" if name.startswith("PythonUserDefined") else name,
        "loss_params": loss.get("params") or {},
        "unit_hessian": name in ("RMSE", "MultiRMSE"),  # a Newton step divides by the sum of weights
        "classes": list(labels.get("class_names") or []),
        "task_type": params.get("task_type", "CPU"),
    }


def _trees(shapes: Any, questions: Any, leaves: Any, settings: Any, told: Told, counts: tuple[int, int]) -> Trees:
    """All trees, from their shapes and questions.

    leaves: values and weights of all leaves, in the order of their numbers (no weights: they are not stored), and scale
    and bias: margin = scale * (sum of the trees) + bias. counts: of columns and features.
    """
    require(len(shapes) > 0, "it has no trees")
    n_trees, sizes = len(shapes), [shape.shape[1] for shape in shapes]
    start, tree = np.cumsum([0, *sizes]), np.repeat(np.arange(n_trees), sizes)
    question, left, right, leaf_id = np.concatenate(shapes, axis=1)
    leaf = question < 0
    left, right = (np.where(leaf, -1, child + start[tree]) for child in (left, right))
    question = np.where(leaf, -1, question + np.cumsum([0, *(shape[0].max() + 1 for shape in shapes)])[tree])
    # Question -1, the last one, is that of the leaves.
    column, threshold, missing_left, features, sets = zip(*questions, (-1, np.nan, True, (), ()), strict=True)
    player, player_features = players_of(question, features)

    n_leaves = np.bincount(tree[leaf], minlength=n_trees)
    at = (np.cumsum(n_leaves) - n_leaves)[tree[leaf]] + leaf_id[leaf]
    value, weight, (scale, bias) = leaves
    stored = np.asarray(value, np.float64).reshape(len(at), -1)
    values, cover = np.zeros((len(leaf), stored.shape[1])), np.full(len(leaf), np.nan)
    values[leaf] = scale * stored[at]
    if len(weight):
        require(len(weight) == len(at), "the weights do not match the leaves")
        cover[leaf] = np.asarray(weight)[at]
    for node in np.flatnonzero(~leaf)[::-1]:  # children lie behind their parents
        cover[node] = cover[left[node]] + cover[right[node]]
    stored_rate, told_rate = np.float32(settings.get("learning_rate", np.nan)), told.rates(n_trees)
    rate = np.full(n_trees, stored_rate, np.float64) if told_rate is None else told_rate
    trees: Trees = Trees(
        start=start,
        output=np.zeros(n_trees, np.int32),
        round=np.arange(n_trees, dtype=np.int32),
        weight=np.full(n_trees, float(scale)),
        column=np.array(column)[question],
        player=player,
        player_features=player_features,
        threshold=np.array(threshold, np.float32).astype(np.float64)[question],
        left=left,
        right=right,
        missing_left=np.array(missing_left)[question],
        category_set=np.where(np.array([len(one) > 0 for one in sets])[question], question, -1),
        **sets_of(sets),
        value=values,
        cover=cover,
        gain=np.where(leaf, 0.0, np.nan),  # CatBoost stores none
        leaf_id=leaf_id,
        base=np.broadcast_to(np.asarray(bias, np.float64), values.shape[1:]),
        n_columns=counts[0],
        n_features=counts[1],
        float32_input=True,
        node_values=lambda: _node_values(trees, settings, told, rate),
    )
    return trees


@cache
def _symmetric(depth: int) -> Shape:
    """Shape of a symmetric tree: question j is asked at all nodes of level j, and its answer is bit j of the leaf."""
    require(depth <= MAX_DEPTH, f"a symmetric tree has {depth} levels")

    def build(level: int, number: int) -> Any:
        if level == depth:
            return {"leaf": number}
        return {"split": level, "left": build(level + 1, number), "right": build(level + 1, number | 1 << level)}

    shape, levels = _nested(build(0, 0))
    shape[0, shape[0] >= 0] = levels
    return shape


def _nested(root: Any) -> tuple[Shape, list[Any]]:
    """Shape of a tree of nested nodes, in depth-first order, and its questions: one for every split."""
    shape: list[list[int]] = []
    splits: list[Any] = []

    def walk(node: Any) -> int:
        here = len(shape)
        shape.append([-1, -1, -1, node.get("leaf", -1)])
        if "split" in node:
            shape[here][0] = len(splits)
            splits.append(node["split"])
            shape[here][1:3] = walk(node["left"]), walk(node["right"])
        return here

    walk(root)
    return np.array(shape).T, splits


def _leaves(node: Any) -> list[Any]:
    """Leaves below a node, from left to right."""
    return [*_leaves(node["left"]), *_leaves(node["right"])] if "split" in node else [node]


# -- numbers alone: borders ----------------------------------------------------------------------------------------
def _document(model: Any) -> Any:
    """A model as JSON."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        return json.loads(path.read_bytes())


def _by_borders(document: Any, told: Told, model: Any = None) -> Model:
    """Read a JSON document; `model`: the object that wrote it, by whose own numbers its leaves then go."""
    floats = sorted(document["features_info"]["float_features"], key=lambda f: f["flat_feature_index"])
    n = len(floats)
    require([f["flat_feature_index"] for f in floats] == [*range(n)], "its features are not numbered from 0")
    place = {f["feature_index"]: i for i, f in enumerate(floats)}
    # NaN > border is false, so missing goes left unless CatBoost says "AsTrue" (nan_mode="Max") and saw some.
    to_left = [f["nan_value_treatment"] != "AsTrue" or f.get("has_nans") is not True for f in floats]
    shapes, splits, value, weight = _stored(document, model)
    questions = [(i := place[split["float_feature_index"]], split["border"], to_left[i], (i,), ()) for split in splits]
    ids = [f.get("feature_id", "") for f in floats]  # "" throughout: trained on an array
    names = tuple(readable(name or i) for i, name in enumerate(ids)) if any(ids) else None
    settings = _settings(document.get("model_info") or {})
    trees = _trees(shapes, questions, (value, weight, document["scale_and_bias"]), settings, told, (n, n))
    return _finished(trees, settings, Schema(n_columns=n, names=names), told, model)


def _stored(document: Any, model: Any) -> tuple[list[Shape], list[Any], Float, Float]:
    """Shapes of the trees of a document, and all their questions, leaf values and leaf weights."""
    shapes: list[Shape] = []
    splits: list[Any] = []
    leaves: list[Any] = []
    for tree in document.get("oblivious_trees") or []:
        shapes.append(_symmetric(len(tree.get("splits") or [])))
        splits += tree.get("splits") or []
        leaves.append({"value": tree["leaf_values"], "weight": tree.get("leaf_weights") or []})
    for number, root in enumerate(document.get("trees") or []):
        own = _leaves(root)  # JSON that CatBoost loads is numbered from left to right, a trained object is not
        numbers = range(len(own)) if model is None else [leaf["leaf"] for leaf in _leaves(_root(model, number))]
        for leaf, leaf_id in zip(own, numbers, strict=True):
            leaf["leaf"] = leaf_id
        shape, questions = _nested(root)
        shapes.append(shape)
        splits += questions
        leaves += sorted(own, key=lambda leaf: leaf["leaf"])
    value, weight = (
        np.concatenate([[], *(np.ravel(leaf.get(key, [])) for leaf in leaves)]) for key in ("value", "weight")
    )
    return shapes, splits, value, weight


# -- categories, texts, embeddings: leaves --------------------------------------------------------------------------
def _kinds(model: Any) -> tuple[list[int], list[int], list[int]]:
    """Positions of the features that are categories, texts and embeddings."""
    return model._get_cat_feature_indices(), model._get_text_feature_indices(), model._get_embedding_feature_indices()


def _by_leaves(model: Any, told: Told) -> Model:
    """Read a model whose rows only CatBoost can route."""
    shapes: list[Shape] = []
    questions: list[Question] = []
    n_leaves, symmetric = model.get_tree_leaf_counts(), True
    for tree, credited in enumerate(_credited(model)):
        if symmetric := 1 << len(credited) == n_leaves[tree]:
            shapes.append(_symmetric(len(credited)))
            right = (np.flatnonzero(np.arange(n_leaves[tree]) >> level & 1) for level in range(len(credited)))
            asked = [*zip(credited, right, strict=True)]
        else:
            shape, asked = _nested(_root(model, tree, credited))
            shapes.append(shape)
        questions += [(tree, np.nan, True, features, right) for features, right in asked]
    cat, *others = _kinds(model)
    try:
        weight = model.get_leaf_weights()
    except AssertionError:  # CatBoost 1.2 counts them wrongly if there are several outputs
        weight = [] if any(others) else _stored(_document(model), model)[3]
    names = tuple(map(readable, model.feature_names_))
    numbered = names == tuple(map(str, range(len(names))))  # an array, or such names: CatBoost itself knows which
    categorical = tuple(i in cat for i in range(len(names)))
    schema = Schema(n_columns=len(names), names=None if numbered else names, categorical=categorical)
    settings = _settings(dict(model.get_metadata()))
    leaves = model.get_leaf_values(), weight, model.get_scale_and_bias()
    trees = _trees(shapes, questions, leaves, settings, told, (len(shapes), len(names)))
    route = partial(_route, model, schema, cat, np.min_scalar_type(int(max(n_leaves))))
    return _finished(trees, settings, schema, told, model, route=route, path_only=not symmetric)


def _root(model: Any, tree: int, credited: Any = None) -> Any:
    """A tree that is not symmetric as nested nodes; a question is the features credited and the leaves on the right."""
    steps, numbers = model._get_tree_step_nodes(tree), model._get_tree_node_to_leaf(tree)
    # With several outputs, older versions tell where a leaf's values begin instead of its number: the same order.
    rank = {number: i for i, number in enumerate(sorted(set(numbers)))}

    def build(node: int, stays: bool) -> Any:
        left, right = steps[node]
        if stays or not (left or right):  # a step of 0 beside another one: that child is a leaf, its number held here
            return {"leaf": rank[numbers[node]]}
        found = {"left": build(node + left, left == 0), "right": build(node + right, right == 0)}
        return found | {"split": (credited and credited[node], [leaf["leaf"] for leaf in _leaves(found["right"])])}

    return build(0, stays=False)


def _credited(model: Any) -> Iterator[list[tuple[int, ...]]]:
    """Features that share the credit of each split, tree by tree, as CatBoost prints them."""
    import catboost

    cat, text, embedding = _kinds(model)
    names = [f"<{i}>" for i in range(len(model.feature_names_))]  # no name of a user's, which may have any letters
    row = ["" if i in (*cat, *text) else [0.0] if i in embedding else 0.0 for i in range(len(names))]
    kinds = {"cat_features": cat, "text_features": text, "embedding_features": embedding}
    pool = catboost.Pool([row], feature_names=names, **{kind: places or None for kind, places in kinds.items()})
    named = model.copy()
    named.set_feature_names(names)

    def features(split: str) -> tuple[int, ...]:
        derived = re.match(r"\s*src_feature_id=(\d+) ", split)  # number among the texts, or among the embeddings
        if derived is None:
            return tuple(sorted({int(place) for place in re.findall(r"<(\d+)>", split)}))
        if text and embedding:
            raise UnsupportedModelError("CatBoost does not tell texts from embeddings in splits; train with one kind.")
        return ((text or embedding)[int(derived[1])],)

    for tree in range(model.tree_count_):
        yield [features(split) for split in named._get_tree_splits(tree, pool)]


def _route(model: Any, schema: Schema, cat: list[int], dtype: Any, X: Any) -> NDArray[Any]:
    """Number of the leaf of each row in each tree, as CatBoost finds it: (rows, trees)."""
    blocks = [X]
    if not hasattr(X, "num_row"):  # no catboost.Pool
        frame = _frame(X, schema, cat)
        blocks = [frame.iloc[start : start + BLOCK_ROWS] for start in range(0, len(frame), BLOCK_ROWS)]
    try:
        return np.concatenate([model.calc_leaf_indexes(block).astype(dtype) for block in blocks])
    except Exception as error:  # its own, or what it meets in a frame that it does not know
        raise DataError(f"CatBoost cannot apply the model to X: {error}; pass X as its predict() takes it.") from error


def _frame(X: Any, schema: Schema, cat: list[int]) -> Any:
    """X as a frame of pandas, which CatBoost requires, with the model's columns in their order."""
    import pandas as pd

    named = hasattr(X, "columns") and schema.names is not None
    if type(X).__module__.startswith("polars"):  # CatBoost 1.2.10 fails with its categories
        X = pd.DataFrame({c.name: c.to_numpy() if c.dtype.is_numeric() else c.to_list() for c in X.iter_columns()})
    elif not hasattr(X, "iloc"):
        X = pd.DataFrame(X.toarray() if hasattr(X, "toarray") else X)
    if named:
        X = X.iloc[:, places_of(names_of(X) or (), schema.names or ())]
    schema.check_shape(*X.shape)
    X = X if schema.names is None else X.set_axis(schema.names, axis=1)  # CatBoost compares them, and an array has none
    floats = [i for i in cat if X.dtypes.iloc[i] in (np.float32, np.float64) and np.all(X.iloc[:, i] % 1 == 0)]
    if not floats:
        return X
    where = schema.column_label(floats[0])
    warn(Note("float_categories", f"{where} holds categories, but came as floats: 3.0 is read as the category 3."))
    return X.astype({X.columns[i]: np.int64 for i in floats})


# -- PreDecomp -----------------------------------------------------------------------------------------------------
def _refusal(settings: Mapping[str, Any]) -> str:
    """Why a leaf is not -rate * G / (weight + penalty); "" if it is."""
    method, steps = (settings.get(f"leaf_estimation_{name}") for name in ("method", "iterations"))
    reasons = {
        "it does not store how it was trained (a sum of models, for example)": method is None,
        f"its leaves are computed by the method {method}, not by a gradient step": method not in ("Newton", "Gradient"),
        f"its leaves are sums of {steps} estimation steps (leaf_estimation_iterations)": steps != 1,
        "CatBoost does not store second derivatives": method == "Newton" and not settings["unit_hessian"],
        "monotone constraints changed the leaves": settings.get("monotone_constraints"),
        "model_shrink_rate scaled down earlier trees": settings.get("model_shrink_rate"),
        "Langevin boosting added noise": settings.get("langevin") or settings.get("posterior_sampling"),
        "the leaf formula has not been checked on a GPU, where it was trained": settings["task_type"] != "CPU",
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _node_values(trees: Trees, settings: Mapping[str, Any], told: Told, rate: Float) -> NodeValues:
    """Inner values by the l2 formula, where leaf weights are the second derivatives and the penalty is known."""
    refusal = _refusal(settings) or ("it does not store leaf weights" if np.isnan(trees.cover).any() else "")
    if refusal:
        return NodeValues(None, rate, refusal=refusal)
    penalty, l2 = told.reg_lambda, settings["l2"]
    if penalty is None and (l2 <= 1e-12 or (settings["unit_hessian"] and _unweighted(trees, l2, rate))):
        penalty = l2 if l2 > 1e-12 else 0.0  # CatBoost stores 1e-20 for 0
    if penalty is None:
        return NodeValues(None, rate, needs=("reg_lambda",))
    return NodeValues(l2_node_values(trees, trees.cover, penalty), rate)


def _unweighted(trees: Trees, l2: float, rate: Float) -> bool:
    """Whether rows of the same weight 1 trained these trees, so that l2_leaf_reg itself is the penalty of their leaves.

    Leaves have whole weights then, and the trees agree with l2: a leaf v = -rate * G / (W + l2) tells the sum of the
    gradients of all rows before each tree. For squared error a step of v in a leaf changes it by W v.
    """
    value = trees.value / trees.weight[trees.tree_of_node, None] / rate[trees.tree_of_node, None]
    plain, weighted = (np.add.reduceat(terms, trees.start[:-1]) for terms in (value, value * trees.cover[:, None]))
    gradient = weighted + l2 * plain
    missed = np.abs(np.diff(gradient, axis=0) + (rate[:, None] * weighted)[:-1]).max(initial=0.0)
    agree = missed <= AGREEMENT * np.abs(weighted).max()
    return bool(agree and np.array_equal(trees.cover, np.round(trees.cover)))
