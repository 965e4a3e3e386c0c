"""XGBoost models, live or from a file, as an Ensemble. Files are parsed without importing xgboost.

Everything goes through one document: `save_raw("ubj")` of a live booster, a .ubj or a .json file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

from treeinner.ensemble import Ensemble, NodeValues
from treeinner.errors import UnsupportedModelError
from treeinner.options import ReadOptions
from treeinner.readers._open import class_names, parse_json
from treeinner.readers._trees import DART_ROUNDS, handed_over
from treeinner.readers.newer import explained
from treeinner.readers.xgboost import ubjson
from treeinner.readers.xgboost.document import Parts, best_iteration, member, read_parts, version_of
from treeinner.readers.xgboost.loss import Loss, find_loss, proved_loss
from treeinner.readers.xgboost.schema import read_schema
from treeinner.readers.xgboost.values import Given, find_node_values

__all__ = ["custom_gradient", "notes", "read", "read_document", "read_path"]

# fields of Trees that an Ensemble has too
SAME = (
    "feature", "threshold", "left", "right", "missing_left", "category_set", "gain", "leaf_id",
    "set_start", "set_codes",
)  # fmt: skip

DROPPED = "DART: the model does not store which trees each round dropped, so its gradients are unknown"


def read(model: Any, options: ReadOptions) -> Ensemble:
    """Read a Booster or a scikit-learn wrapper; by default the rounds that the object's own `predict` uses."""
    names = class_names(model, "xgboost")
    wrapped = "XGBModel" in names
    if not wrapped and "Booster" not in names:
        raise UnsupportedModelError(
            f"{type(model).__module__}.{type(model).__name__} is not an XGBoost Booster or scikit-learn wrapper; "
            "pass one of these, or for a Spark or Dask model its booster (`model.get_booster()`, `output['booster']`)."
        )
    booster = model.get_booster() if wrapped else model
    config = json.loads(booster.save_config())
    document = ubjson.parse(bytes(booster.save_raw(raw_format="ubj")))
    best = best_iteration(member(document, "learner", dict))
    if wrapped and options.iteration_range is None and best is not None:
        options = replace(options, iteration_range=(0, min(best + 1, int(booster.num_boosted_rounds()))))
    missing, labels = getattr(model, "missing", None), getattr(model, "classes_", None)
    classes = None if labels is None else list(np.asarray(labels).tolist())
    missing = math.nan if missing is None else float(missing)
    with explained("XGBoost", version_of(document)):
        parts = read_parts(document)
        given = Given(parts.objective, options, _tree_params(config))
        if wrapped and callable(model.objective):
            loss = Loss("")
        elif wrapped and _fitted_here(model, parts.version):
            loss = proved_loss(parts, given)
        else:
            loss = find_loss(parts, given)
        return _build(parts, given, loss, missing=missing, classes=classes)


def _fitted_here(model: Any, version: tuple[int, ...]) -> bool:
    """Whether the estimator's own `fit` grew its trees; one that loads them sets base_score to a text or a list."""
    return version >= (2, 0) and not isinstance(model.base_score, (str, list))


def read_document(document: Mapping[str, Any], options: ReadOptions) -> Ensemble:
    """Read a parsed .json or .ubj document."""
    config = None
    if "Model" in document and "Config" in document:  # what pickles hold
        config = _tree_params(member(document, "Config", dict))
        document = member(document, "Model", dict)
    with explained("XGBoost", version_of(document)):
        parts = read_parts(document)
        given = Given(parts.objective, options, config)
        return _build(parts, given, find_loss(parts, given))


def read_path(path: Path, options: ReadOptions) -> Ensemble:
    """Read a file written by `save_model`, whatever its suffix."""
    data = path.read_bytes()
    if data[:1] == b"{" and data[1:2] in (b"i", b"U", b"I", b"l", b"L"):  # a length, where JSON has a quote
        return read_document(ubjson.parse(data), options)
    return read_document(parse_json(data, path), options)


def custom_gradient(model: Any) -> Callable[[Any, Any], Any] | None:
    """Gradient of the function that an estimator was given as its objective; None if it was not."""
    function = getattr(model, "objective", None)
    if not callable(function):
        return None

    @wraps(function)
    def gradient(y: Any, margin: Any) -> Any:
        return np.reshape(function(y, margin)[0], np.shape(margin))

    return gradient


def notes(ensemble: Ensemble) -> tuple[str, ...]:
    """What a user should know: a Booster and a file use all rounds where the early-stopped estimator does not."""
    best = ensemble.params.get("best_iteration")
    if best is None or ensemble.n_rounds <= best + 1:
        return ()
    return (
        f"The model stores best_iteration={best}; all {ensemble.n_rounds} rounds are used, as Booster.predict does. "
        f"Pass iteration_range=(0, {best + 1}) for the early-stopped model, as the scikit-learn estimator predicts.",
    )


def _tree_params(config: Any) -> Mapping[str, Any] | None:
    """Find tree_train_param (train_param before 2.0) in a configuration, wherever its version keeps it."""
    if not isinstance(config, dict):
        return None
    for name in ("tree_train_param", "train_param"):
        found = config.get(name)
        if isinstance(found, dict) and "learning_rate" in found:
            return found
    inner = (part for value in config.values() for part in (value if isinstance(value, list) else [value]))
    return next((found for found in map(_tree_params, inner) if found is not None), None)


def _build(
    parts: Parts, given: Given, loss: Loss, *, missing: float = math.nan, classes: list[Any] | None = None
) -> Ensemble:
    trees = parts.trees
    given.options.rates(int(parts.tree_round.max(initial=-1)) + 1)  # a wrong number of them is an error now
    dart = None if np.all(parts.weight_drop == 1) else parts.weight_drop[trees.tree][:, None]

    def work_out() -> NodeValues:
        found = find_node_values(parts, given)
        if dart is None:
            return found
        exactness = DROPPED if found.exactness == "exact" else f"{found.exactness}; {DROPPED}"
        return replace(found, node_value=found.node_value * dart, exactness=exactness)

    schema = read_schema(parts, missing)
    binary = {"classes": classes} if classes is not None and len(parts.base_score) == 1 else {}
    arrays = handed_over(
        **{name: getattr(trees, name) for name in SAME},
        tree_start=trees.start,
        tree_output=parts.tree_output,
        tree_round=parts.tree_round,
        tree_weight=parts.weight_drop / parts.n_parallel,
        value=trees.value if dart is None else trees.value * dart,
        cover=trees.hessian,
        base_score=parts.base_score,
    )
    ensemble = Ensemble(
        **arrays,
        schema=schema,
        library="xgboost",
        objective=loss.objective,
        objective_params=parts.objective_params | binary,
        params=_params(parts, given),
        right_if="greater_equal",
        cover_is="hessian",
        float32_input=True,
        base_margin_rule="replace",
        output_names=_output_names(parts, classes),
        feature_names=schema.names,
        doubts=loss.doubts if dart is None else loss.doubts | {"rounds": DART_ROUNDS},
        work_out=work_out,
    )
    rounds = given.options.iteration_range
    return ensemble if rounds is None else ensemble.slice_rounds(*rounds)


def _params(parts: Parts, given: Given) -> dict[str, Any]:
    """Collect what the document and the configuration say of the training."""
    params: dict[str, Any] = {"version": list(parts.version), "num_parallel_tree": parts.n_parallel}
    best = best_iteration(parts.learner)
    if best is not None:
        params["best_iteration"] = best
    for name in ("max_delta_step", "subsample") if given.is_live else ():
        number = given.config_value(name)
        if number is not None and math.isfinite(number):
            params[name] = number
    return params


def _output_names(parts: Parts, classes: list[Any] | None) -> tuple[str, ...] | None:
    n_outputs, alphas = len(parts.base_score), parts.objective_params.get("quantile_alpha")
    if n_outputs == 1:
        return None
    if parts.objective.startswith("multi:"):  # XGBoost's labels are 0, 1, ...
        labels: Sequence[Any] = classes if classes is not None and len(classes) == n_outputs else range(n_outputs)
        return tuple(str(label) for label in labels)
    if isinstance(alphas, list) and len(alphas) == n_outputs:
        return tuple(f"quantile {alpha:g}" for alpha in alphas)
    return None
