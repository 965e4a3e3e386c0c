"""The parts of an XGBoost document (.json, .ubj, `save_raw`), checked; versions 1.7 to 3.4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.readers._numbers import is_plain, parse_number
from treeinner.readers._trees import FloatArray, LongArray
from treeinner.readers.newer import check_fields
from treeinner.readers.xgboost.trees import Trees, array, read_trees, require

__all__ = ["Parts", "best_iteration", "member", "read_parts", "version_of"]

LOGIT = ("binary:logistic", "reg:logistic")
LOG = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")
MAX_FEATURES = 2**27  # a damaged number must not become a huge allocation
MAX_OUTPUTS = 2**20
NEAR = 0.999e-6  # 3.2 takes a base score that is nearer to 0 or 1 for 1e-6 or 1 - 1e-6; early ones did not

# Fields of 1.7 to 3.4.
FIELDS = {
    "gradient_booster": {"name", "model", "gbtree", "weight_drop"},
    "learner_model_param": {"base_score", "boost_from_average", "num_class", "num_feature", "num_target"},
    "model": {"cats", "gbtree_model_param", "iteration_indptr", "tree_info", "trees", "weight_drop"},
    "gbtree_model_param": {"num_parallel_tree", "num_trees", "size_leaf_vector"},
    "a tree": {
        "base_weights", "categories", "categories_nodes", "categories_segments", "categories_sizes", "default_left",
        "id", "leaf_weights", "left_children", "loss_changes", "parents", "right_children", "split_conditions",
        "split_indices", "split_type", "sum_hessian", "tree_param",
    },
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Parts:
    """What a document says about its model as a whole, and its trees."""

    trees: Trees
    tree_output: LongArray  # (n_trees,)
    tree_round: LongArray  # (n_trees,)
    weight_drop: FloatArray  # (n_trees,)  DART weights; 1 without DART
    n_parallel: int
    n_features: int
    base_score: FloatArray  # (n_outputs,)  on the margin scale
    stored_base: FloatArray  # (1,) or (n_outputs,)  the same as a prediction
    objective: str
    objective_params: dict[str, Any]
    version: tuple[int, ...]  # of the XGBoost that wrote the document
    learner: Mapping[str, Any]
    model: Mapping[str, Any]


def read_parts(document: Mapping[str, Any]) -> Parts:
    """Find the parts where the document's version keeps them."""
    learner, version = member(document, "learner", dict), version_of(document)
    model, drop = _booster_model(learner, version)
    sizes = member(learner, "learner_model_param", dict)
    _check_fields(version, learner, model)
    objective = str(member(member(learner, "objective", dict), "name", str))
    n_outputs = max(1, _integer(sizes, "num_class", 0), _integer(sizes, "num_target", 1))
    n_features = _integer(sizes, "num_feature")
    sane = 0 <= n_features <= MAX_FEATURES and n_outputs <= MAX_OUTPUTS
    require(sane, f"{n_features} features, {n_outputs} outputs")
    trees = read_trees(member(model, "trees", list), n_features)
    n_parallel = max(1, _integer(member(model, "gbtree_model_param", dict), "num_parallel_tree", 1))
    output = array(member(model, "tree_info", (list, np.ndarray)), np.int64, "tree_info")
    weight_drop = np.ones(trees.n_trees)
    if drop is not None:  # float32 numbers; JSON writes them with as few digits as tell them apart
        weight_drop = array(drop, np.float32, "weight_drop").astype(np.float64)
    fits = len(output) == len(weight_drop) == trees.n_trees and n_parallel <= max(1, trees.n_trees)
    require(fits and np.all(np.isfinite(weight_drop)), "tree_info or weight_drop does not fit its trees")
    stored_base = _stored_base(sizes, n_outputs)
    trees_per_round = n_parallel * (n_outputs if trees.value.shape[1] == 1 else 1)
    return Parts(
        trees=trees,
        tree_output=output,
        tree_round=_rounds(model, trees.n_trees, trees_per_round),
        weight_drop=weight_drop,
        n_parallel=n_parallel,
        n_features=n_features,
        base_score=_base_margin(stored_base, objective, n_outputs),
        stored_base=stored_base,
        objective=objective,
        objective_params=_objective_params(learner["objective"]),
        version=version,
        learner=learner,
        model=model,
    )


def version_of(document: Mapping[str, Any]) -> tuple[int, ...]:
    """Version of the XGBoost that wrote the document."""
    return tuple(int(number) for number in array(document.get("version", [0]), np.int64, "version"))


def _check_fields(version: tuple[int, ...], learner: Mapping[str, Any], model: Mapping[str, Any]) -> None:
    """Raise if a newer XGBoost has put what is not known to where predictions come from."""
    trees: list[Any] = member(model, "trees", list)
    found: dict[str, Any] = {
        "gradient_booster": learner["gradient_booster"],
        "learner_model_param": learner["learner_model_param"],
        "model": model,
        "gbtree_model_param": member(model, "gbtree_model_param", dict),
        "a tree": set().union(*(tree for tree in trees if isinstance(tree, dict))),
    }
    for owner, names in found.items():
        check_fields("XGBoost", version, f"The XGBoost model's {owner}", names, FIELDS[owner])


def best_iteration(learner: Mapping[str, Any]) -> int | None:
    """Round at which early stopping found the best score."""
    attributes: Any = learner.get("attributes")
    stored = isinstance(attributes, dict) and "best_iteration" in attributes
    return _integer(attributes, "best_iteration") if stored else None


def member(parent: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    """Look up a member of an object, and check its type."""
    found = parent.get(name)
    if not isinstance(found, kind):
        state = "damaged" if name in parent else "missing"
        raise ModelError(f"This is not a complete XGBoost model: {name} is {state}.")
    return found


def _integer(parent: Mapping[str, Any], name: str, default: int | None = None) -> int:
    try:
        found = parent[name] if default is None else parent.get(name, default)
        return parse_number(found, int) if isinstance(found, str) else int(found)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ModelError(f"This is not a complete XGBoost model: {name} is missing or not an integer.") from None


def _booster_model(learner: Mapping[str, Any], version: tuple[int, ...]) -> tuple[dict[str, Any], Any]:
    """Find the `model` object, and the DART weights or None.

    Up to 3.2 a DART has the object of another booster inside; 3.3 has the weights beside `model`, 3.4 in it.
    """
    booster = member(learner, "gradient_booster", dict)
    kind = booster.get("name")
    if kind == "gblinear":
        raise UnsupportedModelError(
            "XGBoost booster='gblinear' is a linear model without trees; its coefficients are its attributions."
        )
    if "generic_param" in learner or "learner_train_param" in learner:
        raise ModelError("This is an XGBoost configuration (save_config), not a model; pass what save_model wrote.")
    if kind not in ("gbtree", "dart"):
        raise ModelError(f"XGBoost booster={kind!r}; gbtree and dart can be read.")
    model = member(booster if kind == "gbtree" else member(booster, "gbtree", dict), "model", dict)
    if kind == "dart":
        return model, member(booster, "weight_drop", (list, np.ndarray))
    drop = model.get("weight_drop", booster.get("weight_drop"))
    require(drop is None or version >= (3, 3), "a gbtree of XGBoost before 3.3 has weight_drop, which it ignores")
    return model, drop


def _rounds(model: Mapping[str, Any], n_trees: int, trees_per_round: int) -> LongArray:
    """Boosting round of each tree."""
    if "iteration_indptr" not in model:  # before 2.0
        return np.arange(n_trees) // trees_per_round
    ends = array(model["iteration_indptr"], np.int64, "iteration_indptr")
    counts = np.diff(ends)
    cuts = len(ends) > 0 and ends[0] == 0 and ends[-1] == n_trees and np.all(counts >= 0)
    require(cuts, "iteration_indptr does not divide the trees into rounds")
    return np.repeat(np.arange(np.count_nonzero(counts)), counts[counts > 0])


def _numbers(text: Any) -> Any:
    """XGBoost writes every parameter as text: "0.5", "[1E-1,5E-1]", "reg:gamma"."""
    if not isinstance(text, str):
        return text
    try:
        found = [float(part) for part in text.strip("[]").split(",")] if text.startswith("[") else float(text)
    except ValueError:
        require(text.isascii(), f"a parameter is {text[:20]!r}")
        return text
    require(is_plain(text), f"only Python reads {text[:20]!r} as a number")
    return found


def _stored_base(sizes: Mapping[str, Any], n_outputs: int) -> FloatArray:
    """Base score as it is stored: (1,) or (n_outputs,)."""
    stored = _numbers(member(sizes, "base_score", str))
    score = array(stored if isinstance(stored, list) else [stored], np.float64, "base_score")
    require(len(score) in (1, n_outputs), f"{len(score)} base scores for {n_outputs} outputs")
    # From there on XGBoost's integers wrap.
    require(np.all(np.abs(score) < 2**63), "base_score is not finite, or absurdly large")
    return score


def _base_margin(score: FloatArray, objective: str, n_outputs: int) -> FloatArray:
    """Put the base score on the margin scale: (n_outputs,)."""
    # The score is stored as a prediction; attributions live on the margin. XGBoost computes it in float32, which near 1
    # is far from the exact logit: the logarithm here is rounded once, so that its bits are those of every machine.
    with np.errstate(all="ignore"):
        if objective in LOGIT:
            if np.any((score < NEAR) | (score > 1 - NEAR)):
                raise UnsupportedModelError(
                    f"{objective} with a base_score of {score.min():g}, as of training labels that are all the same: "
                    "XGBoost's versions predict different margins from what is so near to 0 or 1. Train on both "
                    "classes, or with another base_score."
                )
            odds = np.float32(1) / score.astype(np.float32) - np.float32(1)
            score = (0.0 - np.log(odds.astype(np.float64))).astype(np.float32).astype(np.float64)
        elif objective in LOG:
            if np.any(score == 0):
                raise UnsupportedModelError(
                    f"{objective} with a base_score of 0, as of training targets that are all 0: its margin is minus "
                    "infinity. Train on other targets, or with another base_score."
                )
            score = np.log(score.astype(np.float32).astype(np.float64)).astype(np.float32).astype(np.float64)
        elif objective == "reg:expectileerror" and len(score) > 1:
            # Several expectiles: the first margin, then softplus increments, so that they never cross.
            score = np.concatenate([score[:1], np.log(np.expm1(np.diff(score)))])
    return np.broadcast_to(score, (n_outputs,)).copy()


def _objective_params(objective: Mapping[str, Any]) -> dict[str, Any]:
    """Collect the numbers of the loss, in whichever *_param object its version keeps them."""
    found: dict[str, Any] = {}
    for group in objective.values():
        if isinstance(group, dict):
            require(all(isinstance(text, str) for text in group.values()), "a parameter of the loss is not text")
            found.update({str(name): _numbers(text) for name, text in group.items()})
    if "num_class" in found:
        found["num_class"] = _integer(found, "num_class")
    return found
