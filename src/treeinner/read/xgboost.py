"""XGBoost models of versions 1.7 to 3.4, live or from a file, as a Model. Files are parsed without importing xgboost.

Everything goes through one document: `save_raw("ubj")` of a live booster, a .ubj or a .json file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import Note, UnsupportedModelError
from treeinner.read import ubjson
from treeinner.read.model import DART, Model, Told, loss_of
from treeinner.read.trees import Bool, Float, Int, Links, Long, NodeValues, Trees, in_order, require, sets_of
from treeinner.rows.schema import Level, Schema

__all__ = ["read", "read_file"]

NEWEST = (3, 4)
MAX_OUTPUTS = 2**20  # a damaged number must not become a huge allocation

LOGIT = ("binary:logistic", "reg:logistic")
LOG = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")
NEAR = 0.999e-6  # 3.2 takes a base score that is nearer to 0 or 1 for 1e-6 or 1 - 1e-6; early ones did not
SQUARED = ("reg:squarederror", "reg:linear")

# Learning rates that the trees confirm leave up to 3e-7 of their equations, others 2e-4 and more (288 models).
CONFIRMED = 1e-5
SEARCHED = 2000  # splits that the search looks at; all must confirm what it finds
RENEWED = ("reg:absoluteerror", "reg:quantileerror")  # up to 3.3, except with tree_method="exact"

CUSTOM_NAMES = (*SQUARED, "multi:softmax")  # what a model says whose custom objective has no name
NOT_FITTED = ("binary:hinge", "survival:aft")  # their base score is left alone
# Losses whose gradients add up to 0 at the fitted base score, and since which version.
BALANCED = dict.fromkeys(SQUARED, (2, 0))
BALANCED |= dict.fromkeys((*LOGIT, "count:poisson", "reg:gamma", "reg:tweedie"), (3, 0))
# Weight of a root times the square root of its hessian, which is about 1 or less if only row sampling made it.
FAR = 6.0
# Error of a fitted base score: a float32 worked out from 0.5 on. Measured: up to 0.1 of this for targets of any size.
BASE_ERROR = 4 * 2.0**-23


# Values of the nodes as stored, before DART's weights: (V, w) of the leaves, learning rate included, 0 at splits; and
# (V, w) base_weights, which at splits are without the learning rate.
Stored = tuple[Float, Float]


def read(model: Any, told: Told) -> Model:
    """Read a Booster or a scikit-learn wrapper; by default the rounds that the object's own `predict` uses."""
    names = [kind.__name__ for kind in type(model).__mro__ if kind.__module__.split(".")[0] == "xgboost"]
    wrapped = "XGBModel" in names
    if not wrapped and "Booster" not in names:
        raise UnsupportedModelError(f"{type(model).__name__} is not an XGBoost model; Dask and Spark hold a booster.")
    booster = model.get_booster() if wrapped else model
    document = ubjson.parse(bytes(booster.save_raw(raw_format="ubj")))
    return _read(document, told, estimator=model if wrapped else None)


def read_file(path: Path, told: Told) -> Model:
    """Read a file written by `save_model`, whatever its suffix; damage is an error of any type (see read_model)."""
    data = path.read_bytes()
    # In UBJSON a length follows the brace, in JSON a quote or a space.
    return _read(ubjson.parse(data) if re.match(rb"\{[iUIlL]", data) else json.loads(data), told)


@np.errstate(all="ignore")
def _read(document: Any, told: Told, *, estimator: Any = None) -> Model:
    """Read a document, and what a live estimator knows besides."""
    own, missing = getattr(estimator, "objective", None), getattr(estimator, "missing", None)
    if callable(own) and told.objective is None:
        told = replace(told, objective=own)
    saved = _Saved(document)
    trees, weight = _read_trees(saved, told)
    if told.learning_rate is not None:
        told.rates(trees.n_rounds)  # a wrong number of them is an error now
    schema = _schema(saved, trees, math.nan if missing is None else float(missing))
    # An estimator that was fitted names its loss; one that loaded its trees has a base_score of text or a list.
    fitted = estimator is not None and not isinstance(estimator.base_score, (str, list))
    needed, notes = _doubts(saved, trees, weight, named=fitted or told.objective is not None)
    asked = {"name": saved.objective, "params": saved.params, "n_outputs": saved.n_outputs, "version": saved.version}
    found: Any = (None, needed) if needed else loss_of(told.objective, library="xgboost", **asked)
    if callable(own) and told.objective is own:
        text = f"The loss is the estimator's own objective, {found[0].name}, called for blocks of rows."
        notes.append(Note("own_objective", text, quiet=True))
    rounds = told.iteration_range
    if rounds is None and 0 < saved.stop < trees.n_rounds:
        if estimator is not None:
            rounds = (0, saved.stop)
        else:
            text = f"All {trees.n_rounds} rounds are used, as Booster.predict does; for those up to the best one pass "
            notes.append(Note("best_iteration", f"{text}iteration_range=(0, {saved.stop}).", quiet=True))
    labels, alphas, names = getattr(estimator, "classes_", None), saved.params.get("quantile_alpha"), None
    if saved.n_outputs > 1 and saved.objective.startswith("multi:"):  # XGBoost's labels are 0, 1, ...
        names = tuple(map(str, range(saved.n_outputs)))
    elif isinstance(alphas, list) and len(alphas) == saved.n_outputs > 1:
        names = tuple(f"quantile {alpha:g}" for alpha in alphas)
    return Model(
        trees=trees if rounds is None else trees.rounds(*rounds),
        library="xgboost",
        schema=schema,
        find_loss=found,
        feature_names=schema.names,
        output_names=names,
        classes=None if labels is None else np.asarray(labels).tolist(),
        base_margin="replace",
        notes=tuple(notes),
    )


# -- the document ------------------------------------------------------------------------------------------------------
class _Saved:
    """Parts of a document, found where its version keeps them."""

    def __init__(self, document: dict[str, Any]) -> None:
        document = document.get("Model", document)  # a pickle's state has the configuration beside it
        learner = document["learner"]
        self.learner, self.version = learner, tuple(map(int, document.get("version", ())))
        booster, sizes, loss = learner["gradient_booster"], learner["learner_model_param"], learner["objective"]
        kind = booster["name"]
        if kind == "gblinear":
            raise UnsupportedModelError("XGBoost's booster='gblinear' has no trees; read its coefficients.")
        require("learner_train_param" not in learner, "it is a configuration (save_config), not what save_model writes")
        require(kind in ("gbtree", "dart"), f"booster={kind!r}; gbtree and dart can be read")
        # Trees, and what they share. Up to 3.2 a DART has another booster inside; 3.3 has the weights of its trees
        # beside `model`, 3.4 in it.
        self.model = booster["gbtree"]["model"] if kind == "dart" else booster["model"]
        self.drop = booster["weight_drop"] if kind == "dart" else {**booster, **self.model}.get("weight_drop")
        newer = self.version >= (3, 3)
        require(kind == "dart" or self.drop is None or newer, "a gbtree before 3.3 has weight_drop, and ignores it")
        self.n_parallel = max(1, int(self.model["gbtree_model_param"].get("num_parallel_tree", 1)))
        self.n_features = int(sizes["num_feature"])
        self.n_outputs = n = max(1, int(sizes.get("num_class", 0)), int(sizes.get("num_target", 1)))
        self.base = np.atleast_1d(np.asarray(_number(sizes["base_score"]), np.float64))  # a prediction, as stored
        require(n <= MAX_OUTPUTS and len(self.base) in (1, n), f"{len(self.base)} base scores, {n} outputs")
        self.objective = str(loss["name"])
        groups = [group for group in loss.values() if isinstance(group, dict)]  # its parameters, by whatever name
        self.params = {name: _number(text) for group in groups for name, text in group.items()}
        # Round behind the one at which early stopping found the best score; 0: it did not stop early.
        self.stop = 1 + int(learner.get("attributes", {}).get("best_iteration", -1))


def _number(text: str) -> Any:
    """Parameter that XGBoost wrote as text: "0.5", "[1E-1,5E-1]", "reg:gamma"."""
    try:
        return [float(part) for part in text.strip("[]").split(",")] if text.startswith("[") else float(text)
    except ValueError:
        return text


# -- trees -------------------------------------------------------------------------------------------------------------
def _read_trees(saved: _Saved, told: Told) -> tuple[Trees, Float]:
    """Concatenate the trees, live nodes only (pruning leaves others), and the stored weights of the nodes."""
    given = saved.model["trees"]
    sizes = np.array([len(tree["left_children"]) for tree in given], np.int64)
    tree, first = np.repeat(np.arange(len(given)), sizes), np.cumsum(sizes) - sizes
    local = [_joined(given, f"{side}_children", np.int64, sizes) for side in ("left", "right")]
    leaf = local[0] == -1
    left, right = (np.where(leaf, -1, side + first[tree]) for side in local)
    node, left, right = in_order(left, right, first)
    stored = value, weight = _stored_values(given, sizes, local[1], leaf, node)
    category_set, sets = _category_sets(given, first, len(leaf))
    tree, leaf, leaf_id = tree[node], leaf[node], (np.arange(len(leaf)) - first[tree])[node]

    def field(name: str, dtype: type = np.float64, fill: float | None = None) -> NDArray[Any]:
        return _joined(given, name, dtype, sizes, fill)[node]

    categorical = ~leaf & (field("split_type", np.int64, fill=0) == 1)
    drop = np.ones(len(given)) if saved.drop is None else np.asarray(saved.drop, np.float32).astype(np.float64)
    per_round = saved.n_parallel * (saved.n_outputs if value.shape[1] == 1 else 1)
    rounds: Links = np.arange(len(given)) // per_round
    if "iteration_indptr" in saved.model:  # since 2.0
        counts = np.diff(np.asarray(saved.model["iteration_indptr"], np.int64))
        rounds = np.repeat(np.arange(np.count_nonzero(counts)), counts[counts != 0])
    trees = Trees(
        start=np.concatenate([[0], np.cumsum(np.bincount(tree, minlength=len(given)))]),
        output=np.asarray(saved.model["tree_info"]),
        round=rounds,
        weight=drop / saved.n_parallel,
        column=np.where(leaf, -1, field("split_indices", np.int64)),
        threshold=np.where(leaf | categorical, np.nan, field("split_conditions", np.float32)),
        left=left,
        right=right,
        missing_left=field("default_left", np.int64) != 0,
        category_set=np.where(categorical, category_set[node], -1),
        **sets_of(sets),
        value=value * drop[tree, None],
        cover=field("sum_hessian", np.float32, fill=np.nan),  # left out for vector leaves before 3.2
        gain=np.where(leaf, 0.0, field("loss_changes", np.float32, fill=np.nan)),
        leaf_id=np.where(leaf, leaf_id, -1),
        base=_base_margin(saved),
        n_columns=saved.n_features,
        right_if="greater_equal",
        float32_input=True,
        node_values=lambda: _node_values(trees, stored, drop, saved, told),
    )
    return trees, weight


def _joined(
    trees: list[Any], name: str, dtype: type, sizes: Long | None = None, fill: float | None = None
) -> NDArray[Any]:
    """Concatenate one field of all trees; sizes: how many entries each must have; fill: where a tree lacks it."""
    if fill is not None and sizes is not None and any(name not in tree for tree in trees):
        return np.full(int(sizes.sum()), fill)
    parts = [tree[name] for tree in trees]
    require(sizes is None or list(map(len, parts)) == sizes.tolist(), f"{name} of a tree has a wrong length")
    # A fraction in the place of a whole number is an error.
    found: NDArray[Any] = np.concatenate([np.zeros(0, dtype), *parts], dtype=dtype, casting="same_kind")
    return found


def _stored_values(trees: list[Any], sizes: Long, right: Links, leaf: Bool, node: Links) -> Stored:
    """Leaf values, and the weights of all nodes; right: as stored, in the tree's own numbers."""
    widths = {max(1, int(tree["tree_param"]["size_leaf_vector"])) for tree in trees} or {1}
    if len(widths) > 1:
        raise UnsupportedModelError("Scalar and vector leaves in one XGBoost model: read slices, booster[start:stop].")
    width, vectors = widths.pop(), any("leaf_weights" in tree for tree in trees)
    given = _joined(trees, "base_weights", np.float32)
    if width > 1 and vectors and len(given) != len(leaf) * width:
        raise UnsupportedModelError("Vector leaves of a split gradient lack inner values; train one tree per output.")
    weight = given.astype(np.float64).reshape(len(leaf), width)
    value = weight
    if width == 1:
        value = _joined(trees, "split_conditions", np.float32, sizes).astype(np.float64)[:, None]
    elif vectors:  # since 3.2; a leaf's row of leaf_weights stands where its right child would
        rows = np.array([len(tree["leaf_weights"]) for tree in trees]) // width
        row = np.where(leaf, right + np.repeat(np.cumsum(rows) - rows, sizes), 0)
        value = _joined(trees, "leaf_weights", np.float32).astype(np.float64).reshape(-1, width)[row]
    return np.where(leaf[node, None], value[node], 0.0), weight[node]


def _category_sets(trees: list[Any], first: Long, n_nodes: int) -> tuple[Long, list[Long]]:
    """Set of each node (-1: none), and the sets."""
    category_set, sets = np.full(n_nodes, -1), list[Long]()
    for start, tree in zip(first, trees, strict=True):
        nodes = np.asarray(tree.get("categories_nodes", ()), np.int64)
        if len(nodes):  # of few trees; the rest takes time
            codes = np.asarray(tree["categories"], np.int64)
            category_set[start + nodes] = len(sets) + np.arange(len(nodes))
            segments = zip(tree["categories_segments"], tree["categories_sizes"], strict=True)
            sets += [np.unique(codes[a : a + n]) for a, n in segments]
    return category_set, sets


def _base_margin(saved: _Saved) -> Float:
    """Base score on the margin scale: (n_outputs,)."""
    # The score is stored as a prediction; attributions live on the margin. XGBoost computes it in float32, which near 1
    # is far from the exact logit: the logarithm here is rounded once, so that its bits are those of every machine.
    score, name = saved.base, saved.objective
    if (name in LOGIT and np.any((score < NEAR) | (score > 1 - NEAR))) or (name in LOG and np.any(score == 0)):
        raise UnsupportedModelError(
            f"{name} with a base_score of {score.min():g}, as of training targets that are all the same: its margin is "
            "infinite, or XGBoost's versions do not agree on it. Train on other targets, or with another base_score."
        )
    if name in LOGIT:
        odds = np.float32(1) / score.astype(np.float32) - np.float32(1)
        score = (0.0 - np.log(odds.astype(np.float64))).astype(np.float32)
    elif name in LOG:
        score = np.log(score.astype(np.float32).astype(np.float64)).astype(np.float32)
    elif name == "reg:expectileerror" and len(score) > 1:
        # Several expectiles: the first margin, then softplus increments, so that they never cross.
        score = np.concatenate([score[:1], np.log(np.expm1(np.diff(score)))])
    return np.broadcast_to(score.astype(np.float64), (saved.n_outputs,))


# -- node values -------------------------------------------------------------------------------------------------------
def _node_values(trees: Trees, stored: Stored, drop: Float, saved: _Saved, told: Told) -> NodeValues:
    """Weights of the splits times the learning rate: told, or confirmed by the trees."""
    leaf, unknown = trees.column < 0, np.full(trees.n_trees, np.nan)
    given = told.rates(trees.n_rounds)
    if np.all(leaf):
        return NodeValues(trees.value, unknown if given is None else given[trees.round])
    if given is None:
        rate = _confirmed_rates(trees, stored, told.reg_lambda)  # over the number of parallel trees
        if rate is None:
            renewed = saved.objective in RENEWED and _has_replaced(stored, leaf, 1.0)
            text = f"{saved.objective} replaced the leaves by medians or quantiles after the splits were chosen"
            return NodeValues(None, unknown, needs=("learning_rate",), refusal=text if renewed else "")
    else:
        rate = given[trees.round] / saved.n_parallel
        if _has_replaced(stored, leaf, rate[trees.tree_of_node, None]):
            text = "its leaves were replaced after the splits (by refresh_leaf=0, say), or have another learning rate"
            return NodeValues(None, given[trees.round], refusal=text)
    inner = (rate * drop)[trees.tree_of_node, None] * stored[1]
    return NodeValues(np.where(leaf[:, None], trees.value, inner), rate * saved.n_parallel)


def _has_replaced(stored: Stored, leaf: Bool, rate: Float | float) -> bool:
    """Whether the value of a leaf is neither its weight (hist, approx) nor that times the rate (exact, pruned)."""
    value, weight = stored
    apart = [np.abs(value - factor * weight) > 1e-4 * np.abs(value) for factor in (1.0, rate)]
    return bool(np.any(apart[0] & apart[1] & leaf[:, None]))


def _confirmed_rates(trees: Trees, stored: Stored, reg_lambda: float | None) -> Float | None:
    """Learning rate in the leaves of each tree, one for all or one per round, if the trees confirm it: (T,).

    At a split with two leaf children, with v the values and H the hessians of these, and w, H of the split itself:

        sum of (H_c + lam) v_c   = rate (H + lam) w               gradients add up
        sum of (H_c + lam) v_c^2 = rate^2 (gain + (H + lam) w^2)

    For each lam the second gives the rate; lam is where both hold best. Every tree with a split has such a one.
    """
    split = np.flatnonzero(trees.column >= 0)
    split = split[(trees.column[trees.left[split]] < 0) & (trees.column[trees.right[split]] < 0)]
    child = np.stack([trees.left[split], trees.right[split]])
    value, weight = stored
    known = np.isfinite(trees.gain[split]) & np.any(value[child] != 0, axis=(0, 2))
    split, child = split[known], child[:, known]
    width = trees.width  # vector leaves store the sum of the hessians of their outputs
    v, w, gain = value[child], weight[split], trees.gain[split]
    child_hessian, hessian = trees.cover[child][:, :, None] / width, trees.cover[split][:, None] / width
    some = slice(None, None, len(split) // SEARCHED + 1)
    for group in (np.zeros(trees.n_trees, np.int32), trees.round):
        of_split = group[trees.tree_of_node[split]]
        n_groups = int(group.max()) + 1

        def fit(lam: float, n: slice, of_split: Int = of_split, n_groups: int = n_groups) -> tuple[Float, Float]:
            """Relative errors of the equations of some splits, and the rate of each group."""
            force, own, of = (child_hessian[:, n] + lam) * v[:, n], (hessian[n] + lam) * w[n], of_split[n]
            square = np.log((force * v[:, n]).sum(axis=(0, 2)) / (gain[n] + (own * w[n]).sum(axis=1)))
            mean = np.bincount(of, square, n_groups) / np.bincount(of, minlength=n_groups)
            rate = np.exp(mean / 2)
            balance = (force.sum(axis=0) - rate[of, None] * own) / np.abs(force).sum(axis=(0, 2))[:, None]
            return np.column_stack([square - mean[of], balance]), rate

        unknowns = len(np.unique(of_split)) + (reg_lambda is None)
        if 2 * len(split) <= unknowns:
            continue
        with np.errstate(all="ignore"):
            lam = _lowest(lambda lam: fit(lam, some)[0]) if reg_lambda is None else reg_lambda
            errors, rates = fit(lam, slice(None))
        if _size(errors) < CONFIRMED and np.all(np.isfinite(rates[group[trees.tree_of_node[trees.column >= 0]]])):
            return rates[group]
    return None


def _size(errors: Float) -> float:
    """Root of the mean over the splits of the sum of squares."""
    size = float(np.sqrt(np.mean((errors**2).sum(axis=1))))
    return size if math.isfinite(size) else math.inf


def _lowest(errors: Callable[[float], Float]) -> float:
    """Argument from 0 to 1e6 with the smallest errors: the best of a grid, then Gauss-Newton steps."""
    grid: list[float] = [0.0, *np.logspace(-3, 6, 37).tolist()]
    lam = min(grid, key=lambda lam: _size(errors(lam)))
    for _ in range(6):
        here, h = errors(lam), 1e-4 * lam + 1e-7
        slope = (errors(lam + h) - here) / h
        lam = max(lam - float((here * slope).sum() / (slope**2).sum()), 0.0)
    return lam


# -- the loss ----------------------------------------------------------------------------------------------------------
def _doubts(saved: _Saved, trees: Trees, weight: Float, *, named: bool) -> tuple[str, list[Note]]:
    """Say why the loss is not known ("": it is), and note what is assumed; named: the loss is known to have this name.

    A model trained with a custom objective has the name of another loss. The base score gives it away: since 2.0
    XGBoost fits it to the target for its own losses, and leaves it at 0.5 for a custom one. One that the user set
    proves nothing, and neither does one from before 2.0.
    """
    notes, name = list[Note](), saved.objective
    if saved.version[:2] > NEWEST:
        written = ".".join(map(str, saved.version))
        text = f"XGBoost {written} is newer than this treeinner knows: compare its margins, or upgrade treeinner."
        notes.append(Note("newer_version", text))
    notes += [DART] * (saved.drop is not None)
    since, params = (3, 1) if name.startswith("multi:") else (2, 0), saved.learner["learner_model_param"]
    shows = saved.version >= since and name not in NOT_FITTED and str(params.get("boost_from_average")) == "1"
    fitted, left_alone = shows and np.any(saved.base != 0.5), shows and np.all(saved.base == 0.5)
    # The gradients of the first round add up to 0 at a fitted base score, but for rounding and row sampling.
    first, squared = trees.round == 0, name in SQUARED
    at_root, hessian = np.abs(weight[trees.start[:-1]]), trees.cover[trees.start[:-1]]
    largest = np.abs(weight[first[trees.tree_of_node]]).max(initial=0.0)
    away = off = np.any(at_root[first] > 1e-4 * largest + BASE_ERROR * max(0.5, np.abs(trees.base).max()))
    if not (squared and len(hessian) > 1 and np.ptp(hessian) <= 1e-5 * np.max(hessian)):  # then no row was sampled
        # A target of any size may be off by sampling, if the base score was fitted to it.
        far = np.any((at_root * np.sqrt(np.abs(hessian))[:, None])[first] > FAR)
        away = off & far & ~(squared & np.any(saved.base != 0.5))
    if fitted:
        balanced = saved.version >= BALANCED.get(name, (math.inf,))
        if balanced and away and saved.params.get("scale_pos_weight", 1.0) == 1.0:
            text = "The first tree does not start at base_score: the model was trained with base_margin; pass it."
            notes.append(Note("start_assumed", text))
    elif left_alone and away and not named:
        return (
            f"The model says {name}, but its base_score was not fitted, as with a custom objective. Pass "
            "read_model(model, objective=...): a function (y, margin) -> gradient, or the name of a loss."
        ), notes
    elif (name in CUSTOM_NAMES or (left_alone and off)) and not named:
        text = f"A custom objective leaves the name {name} too; say which it is: read_model(model, objective=...)."
        notes.append(Note("loss_assumed", text))
    return "", notes


# -- what a table must look like ---------------------------------------------------------------------------------------
def _schema(saved: _Saved, trees: Trees, missing: float) -> Schema:
    """Collect names, types and levels of the columns; missing: the number that stands for no value."""
    names, types = (tuple(map(str, saved.learner.get(f"feature_{kind}") or ())) for kind in ("names", "types"))
    fits = all(len(texts) in (0, saved.n_features) for texts in (names, types))
    require(fits, f"its feature_names or feature_types are not {saved.n_features}")
    split_by_set = set(trees.column[trees.category_set >= 0].tolist())
    categorical = split_by_set | {j for j, kind in enumerate(types) if kind == "c"}
    levels = tuple(_levels_of(column, saved.version) for column in saved.model.get("cats", {}).get("enc", ()))
    require(len(levels) in (0, saved.n_features), "cats does not describe every feature")
    return Schema(
        n_columns=saved.n_features,
        names=names or None,
        categorical=tuple(j in categorical for j in range(saved.n_features)) if categorical else None,
        levels=levels if any(levels) else None,
        # XGBoost >= 3.3 refuses a level that training did not see; 3.1 and 3.2 take a neighbour's by mistake
        unseen="error" if any(levels) else "other",
        absent="missing",
        missing=missing,
    )


def _levels_of(encoding: Mapping[str, Any], version: tuple[int, ...]) -> tuple[Level, ...] | None:
    """Training categories of a data frame's column (3.1 and later), in the order of their codes; None: it has none."""
    values = np.asarray(encoding["values"])
    if "offsets" not in encoding:
        return tuple(values.tolist()) or None
    raw = (values.astype(np.int64) % 256).astype(np.uint8).tobytes()
    parts = [raw[a:b] for a, b in pairwise(np.asarray(encoding["offsets"], np.int64).tolist())]
    levels = [part.decode(errors="backslashreplace") for part in parts]
    if not raw.isascii() and version < (3, 4):
        # 3.1 and 3.2 count letters where they cut bytes, so that every level behind one with a letter outside
        # ASCII is shifted, perhaps onto another one's name; these names match nothing, and so are refused
        levels = [f"{level} (category {code}, cut wrong by XGBoost)" for code, level in enumerate(levels)]
    return tuple(levels) or None
