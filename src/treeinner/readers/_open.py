"""What comes in: an object in wrappers, or a file, recognised by its content. No library is imported for it."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

from treeinner.ensemble import storage
from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.readers.members import NOT_FITTED, Part, Wrapper, held, members_of
from treeinner.readers.targets import TransformedTarget

__all__ = [
    "Unwrapped", "carried_names", "class_names", "kind_of_file", "package_of", "parse_json", "peel", "require_fitted",
    "transform", "unwrap",
]  # fmt: skip

Kind = Literal["xgboost", "lightgbm", "catboost", "treeinner"]

SAVE_AS = (
    "save the model with its library: XGBoost model.save_model('model.ubj'), "
    "LightGBM model.save_model('model.txt'), CatBoost model.save_model('model.cbm')"
)
# First bytes of what joblib and friends write around a pickle.
COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ": "xz", b"\x5d\x00\x00": "lzma", b"\x04\x22M\x18": "lz4"}
# In UBJSON a length follows the brace; in JSON a quote or a space.
BEGINNINGS: dict[Kind, bytes] = {"catboost": rb"CBM1", "lightgbm": rb"tree\r?\n", "xgboost": rb"\{[iUIlL$#]"}
CATBOOST_KEYS = {"oblivious_trees", "features_info", "model_info", "scale_and_bias", "ctr_data"}


def kind_of_file(path: str | os.PathLike[str]) -> Kind:
    """Library that wrote the model file, or "treeinner" for a saved Ensemble."""
    text = os.fspath(path)
    if "\n" in text:
        raise ModelError("The model is given as a multi-line string; write it to a file and pass its path.")
    file = Path(text)
    if file.is_dir():
        raise ModelError(f"{file} is a directory; pass the path of one model file.")
    if not file.exists():
        raise FileNotFoundError(f"There is no model file {file}.")
    with file.open("rb") as stream:
        head = stream.read(4096)
    if not head:
        raise ModelError(f"{file} is empty; save the model again.")
    _refuse_pickles(file, head)
    if head.startswith(b"PK") and storage.format_of(file):
        return "treeinner"
    for kind, pattern in BEGINNINGS.items():
        if re.match(pattern, head):
            return kind
    if re.match(rb"(\xef\xbb\xbf)?\s*[{\[]", head):
        return _kind_of_json(file, head)
    if head.startswith((b"binf", b"bs64")):
        raise UnsupportedModelError(
            f"{file} is in XGBoost's old binary format; load it with the XGBoost that wrote it and save it as .ubj."
        )
    raise ModelError(f"{file} is not a model file that treeinner can read; {SAVE_AS}.")


def _refuse_pickles(file: Path, head: bytes) -> None:
    if re.match(rb"\x80[\x02-\x05]|\x78[\x01\x5e\x9c\xda]", head):  # a pickle's protocol, or zlib around one
        raise UnsupportedModelError(
            f"{file} is a pickle (or joblib) file, and loading one can run arbitrary code; "
            f"load it yourself and pass the object, or {SAVE_AS}."
        )
    for magic, name in COMPRESSED.items():
        if head.startswith(magic):
            raise UnsupportedModelError(
                f"{file} is compressed ({name}); decompress it, or if it is a joblib file, "
                "load it yourself and pass the object."
            )


def _kind_of_json(file: Path, head: bytes) -> Kind:
    """Look at the first key, which is enough as a rule; only if it is not, parse the whole file."""
    first = re.match(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(\w+)"', head)
    keys = {first[1].decode()} if first else set()
    content: Any = None
    if not keys & ({"learner"} | CATBOOST_KEYS):
        content = parse_json(file.read_bytes(), file)
        keys = set(content) if isinstance(content, dict) else set()
    if "learner" in keys:
        return "xgboost"
    if keys & CATBOOST_KEYS:
        return "catboost"
    if "tree_info" in keys:
        raise UnsupportedModelError(f"{file} is LightGBM's dump_model; save it with model.save_model('model.txt').")
    if isinstance(content, list):
        raise UnsupportedModelError(
            f"{file} is a JSON list, perhaps XGBoost's dump_model, which lacks the values of inner nodes; "
            "save the model with model.save_model('model.ubj')."
        )
    raise ModelError(f"{file} is a JSON file, but not an XGBoost or CatBoost model; {SAVE_AS}.")


def parse_json(data: bytes, path: Path, *, constants: bool = True) -> Any:
    """Content of a JSON file; constants: whether it may hold NaN, Infinity, what is as large, and halves of letters."""
    try:
        if constants:
            return json.loads(data)
        # A function for every number takes time, and only numbers of many digits need it.
        checked = _finite if re.search(rb"[eE]\+?\d{3}|\d{300}", data) else None
        found = json.loads(data, parse_constant=_finite, parse_float=checked)
        if re.search(rb"\\u[dD][89a-fA-F]", data):  # half a letter is an error now
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not a complete JSON file: {error}. Save the model again.") from error


def _finite(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(f"it holds {text[:20]}")
    return float(text)


# -- wrappers ------------------------------------------------------------------------------------------------
LIBRARIES = ("xgboost", "lightgbm", "catboost", "sklearn")
EXTENSIONS = ("sklearn", "imblearn", "skopt", "dask_ml", "optuna_integration")  # scikit-learn, and what extends it

# Wrappers with one model inside that predicts by itself: class -> attributes that may hold it.
HOLDERS = {
    "TransformedTargetRegressor": ("regressor_",),  # attributions are on the scale of the transformed target
    "FrozenEstimator": ("estimator",),
    "FixedThresholdClassifier": ("estimator_",),  # a threshold on the prediction leaves the margin alone
    "TunedThresholdClassifierCV": ("estimator_",),
    "SelfTrainingClassifier": ("estimator_", "base_estimator_"),
    "SelectFromModel": ("estimator_",),  # the model that selects sees all columns
}

# Wrappers that have no importance: class -> why, and what to do instead.
EACH_FITTED = "Score its parts one by one: ti.importance(part, X, y) for each part in model.estimators_"
NO_TARGET = "it fits no target, so there is nothing to score. Use a forest that predicts y"
COMBINERS = {
    "IsolationForest": NO_TARGET,
    "RandomTreesEmbedding": NO_TARGET,
    "OneVsOneClassifier": f"it holds one model per pair of classes, each for the rows of two. {EACH_FITTED}",
    "OutputCodeClassifier": f"it holds one model per code bit. {EACH_FITTED}",
    "_BaseChain": (
        "each of its models also sees the earlier targets. Score them one by one, "
        "on the columns that each was fitted on"
    ),
    "BaseWeightBoosting": f"it votes with several models, each for rows weighted by the ones before. {EACH_FITTED}",
    "SequentialFeatureSelector": "it holds no fitted model. Fit one on its transform(X), and pass that",
}


def package_of(model: Any) -> str:
    """Library whose class the model is or derives from, "" if none; users' subclasses count."""
    for kind in type(model).__mro__:
        package = kind.__module__.split(".")[0]
        if package in LIBRARIES:
            base_only = kind.__module__.startswith(("sklearn.base", "sklearn.utils"))  # a user's own estimator
            return "" if base_only else package
    return ""


def class_names(model: Any, *packages: str) -> list[str]:
    """Names of the model's class and its bases, as far as these packages define them."""
    return [kind.__name__ for kind in type(model).__mro__ if kind.__module__.split(".")[0] in packages]


class Unwrapped(NamedTuple):
    """What is inside wrappers, and what X and y pass on their way to it."""

    model: Any
    transformers: tuple[Any, ...] = ()
    targets: tuple[Any, ...] = ()  # functions of y
    notes: tuple[str, ...] = ()  # what the wrappers do that no score speaks of
    wrapper: Wrapper | None = None  # the model itself, if it holds several

    def behind(self, outer: Unwrapped) -> Unwrapped:
        """What is inside, for X and y that come to an outer wrapper first."""
        return Unwrapped(
            self.model,
            outer.transformers + self.transformers,
            outer.targets + self.targets,
            outer.notes + self.notes,
            self.wrapper,
        )


def unwrap(model: Any) -> Unwrapped:
    """Take off pipelines, searches and the like, to the one model inside."""
    found = peel(model)
    if found.wrapper is not None:
        raise UnsupportedModelError(
            f"{found.wrapper.kind} is not one ensemble of trees: it {found.wrapper.what}. ti.importance(model, X, y) "
            "adds up their scores; for anything else pass them one by one: member.model of each in ti.members(model)."
        )
    return found


def peel(model: Any) -> Unwrapped:
    """Take off pipelines, searches and the like, down to one model or to a wrapper of several."""
    transformers: list[Any] = []
    targets: list[Any] = []
    notes: list[str] = []
    while True:
        names = class_names(model, *EXTENSIONS)
        if "Pipeline" in names:
            *steps, (_, last) = model.steps
            transformers += [step for _, step in steps if step is not None and not isinstance(step, str)]
            if last is None or isinstance(last, str):
                raise UnsupportedModelError(
                    f"The last step of the {type(model).__name__} is {last!r}, not a model; "
                    "pass a pipeline that predicts."
                )
            model = last
        elif any(name.endswith("SearchCV") for name in names):
            model = held(model, "best_estimator_")
        elif holder := next((name for name in names if name in HOLDERS), None):
            inside = held(model, *HOLDERS[holder])
            if holder == "TransformedTargetRegressor":
                targets.append(TransformedTarget(model.transformer_))
            model = inside
        elif isinstance(model, Part):
            transformers += [model.support] if model.support is not None else []
            targets += [model.target] if model.target is not None else []
            model = model.model
        else:
            for name in names:
                if name in COMBINERS:
                    raise UnsupportedModelError(
                        f"{type(model).__name__} is not one ensemble of trees: {COMBINERS[name]}."
                    )
            wrapper = members_of(model, names)
            if wrapper is None or len(wrapper.parts) > 1 or wrapper.refusal:
                return Unwrapped(model, tuple(transformers), tuple(targets), tuple(notes), wrapper)
            notes += [wrapper.note] if wrapper.note else []
            model = wrapper.parts[0]


def require_fitted(model: Any) -> None:
    """Raise unless fit has been called, or that cannot be asked (of a Booster, say)."""
    if not _is_fitted(model):
        raise ModelError(f"This {type(model).__name__} {NOT_FITTED}.")


def _is_fitted(model: Any) -> bool:
    for question in ("__sklearn_is_fitted__", "is_fitted"):
        # Of the class: a CVBooster has every name, and hands the call to its boosters.
        if callable(getattr(type(model), question, None)):
            return bool(getattr(model, question)())
    if not hasattr(type(model), "get_params") or not hasattr(type(model), "fit"):
        return True
    # scikit-learn's own rule: fit leaves attributes that end in an underscore
    return any(name.endswith("_") and not name.startswith("__") for name in vars(model))


def transform(transformers: tuple[Any, ...], X: Any) -> Any:
    """X as the model behind the transformers sees it."""
    for step in transformers:
        if hasattr(step, "transform"):
            X = step.transform(X)
        elif not hasattr(step, "fit_resample"):  # imblearn's samplers work in fit alone
            raise UnsupportedModelError(
                f"The pipeline step {type(step).__name__} cannot transform X; pass the final model and the X it was "
                "fitted on."
            )
    return X


def carried_names(transformers: tuple[Any, ...], names: Any = None) -> tuple[str, ...] | None:
    """Feature names behind the transformers, from those before them; None where one does not know them."""
    for step in transformers:
        if hasattr(step, "fit_resample") and not hasattr(step, "transform"):
            continue
        try:
            names = step.get_feature_names_out(names)
        except (AttributeError, TypeError, ValueError):  # a transformer that knows no names, or knows other ones
            return None
    return None if names is None else tuple(str(name) for name in names)


def columns_in(transformers: tuple[Any, ...]) -> tuple[tuple[str, ...] | None, int | None]:
    """Names and number of the columns that a pipeline's first step was fitted on, as far as it stores them."""
    for step in transformers:
        names, number = getattr(step, "feature_names_in_", None), getattr(step, "n_features_in_", None)
        if names is not None or number is not None:
            return None if names is None else tuple(map(str, names)), number
    return None, None
