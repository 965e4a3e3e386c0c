"""Wrappers of scikit-learn and its kin: taken off down to one model, or to the members of an average.

Nothing is imported for it: a class is recognised by its name and package along the mro, so that users' subclasses work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError, Note, UnsupportedModelError
from treeinner.losses.labels import as_array, positions

__all__ = [
    "Columns", "Unwrapped", "carried_names", "codes", "members", "package_of", "require_fitted", "transformed_target",
    "unwrap",
]  # fmt: skip

LIBRARIES = ("xgboost", "lightgbm", "catboost", "sklearn", "treelite")
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
NO_TARGET = "it fits no target, so there is nothing to score; use a forest that predicts y"
# Wrappers of several models that are no average: class -> why, and the X and y of part k of model.estimators_.
REFUSED = {
    "IsolationForest": (NO_TARGET, ""),
    "RandomTreesEmbedding": (NO_TARGET, ""),
    "SequentialFeatureSelector": ("it holds no fitted model; fit one on its transform(X), and pass that", ""),
    "_BaseStacking": ("its last model sees the predictions of the others", "X, y"),
    "_MultiOutputEstimator": ("it holds one model per target", "X, np.asarray(y)[:, k]"),
    "_BaseChain": (
        "each of its models also sees the targets before its own",
        "np.hstack([X, y[:, model.order_[:k]]]), y[:, model.order_[k]]",
    ),
    "OneVsRestClassifier": ("it has one model per class", "X, model.label_binarizer_.transform(y).toarray()[:, k]"),
    "OneVsOneClassifier": ("it has one model per pair of classes; score each on the rows of its two classes", ""),
    "OutputCodeClassifier": ("it has one model per bit of a code", ""),
    "BaseWeightBoosting": ("its models were fitted to rows weighted by the models before", "X, y"),
}
OWN_MARGIN = Note(
    "own_margin", "Each member is scored on its own margin, not on the average of the probabilities.", quiet=True
)
CALIBRATION = Note("calibration", "The calibrators, monotone in the margin, are not scored.", quiet=True)


# -- what X and y pass ------------------------
@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of X that a model inside a wrapper sees, as a transformer."""

    positions: NDArray[np.intp]  # may repeat a column (bootstrap_features)
    n_features_in_: int
    names: tuple[str, ...] | None  # of all columns; None: the wrapper was fitted without names

    def transform(self, X: Any) -> Any:
        """X in these columns, as an array, which is what scikit-learn's wrappers hand on."""
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            X = (frame if self.names is None else frame.select(self.names)).to_numpy()
        elif not hasattr(X, "shape"):
            X = np.asarray(X)
        return X[:, self.positions]


def codes(classes: NDArray[Any], y: Any) -> NDArray[Any]:
    """Labels as their positions among the sorted classes of a wrapper: (rows,)."""
    return positions(as_array(y, None), classes.tolist()).astype(np.intp)


def transformed_target(transformer: Any, y: Any) -> NDArray[Any]:
    """The target on the scale that a TransformedTargetRegressor fits: (rows,) or (rows, targets)."""
    values = np.asarray(y)
    found = np.asarray(transformer.transform(values.reshape(len(values), -1)))
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found


# -- down to one model, or to an average --------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Unwrapped:
    """What is inside wrappers, and what X and y pass on their way to it."""

    model: Any
    transformers: tuple[Any, ...] = ()
    targets: tuple[Callable[[Any], Any], ...] = ()
    notes: tuple[Note, ...] = ()
    labels: tuple[Any, ...] = ()  # classes of a wrapper that encodes them
    members: tuple[Unwrapped, ...] = ()  # of the model itself, if it is an average of several
    name: str = ""  # of a member, as the average calls it
    weight: float = 1.0  # of a member; those of all members add up to 1

    def through(self, model: Any, *, labels: tuple[Any, ...] | None = None, **more: Any) -> Unwrapped:
        """The model inside this one, behind the transformers, targets and notes of its wrapper."""
        passed: dict[str, Any] = {name: (*getattr(self, name), *found) for name, found in more.items()}
        return replace(self, model=model, labels=self.labels if labels is None else labels, **passed)


def members(model: Any) -> tuple[Unwrapped, ...] | None:
    """Models of an average (Voting, Bagging, CalibratedClassifierCV), also of averages inside it; None: it is none."""
    return tuple(one for part in unwrap(model).members for one in members(part) or [unwrap(part)]) or None


def unwrap(model: Any) -> Unwrapped:
    """Take off pipelines, searches and the like, down to one model or to an average of several (`members`)."""
    found = model if isinstance(model, Unwrapped) else Unwrapped(model)
    while True:
        model = found.model
        names = [kind.__name__ for kind in type(model).__mro__ if kind.__module__.split(".")[0] in EXTENSIONS]
        refused = next((name for name in names if name in REFUSED), None)
        if refused is not None:
            raise _refusal(model, *REFUSED[refused])
        if "Pipeline" in names:
            *steps, (_, last) = model.steps
            if last is None or isinstance(last, str):
                raise UnsupportedModelError(f"The last step of the Pipeline is {last!r}; pass one that predicts.")
            kept = [step for _, step in steps if step is not None and not isinstance(step, str)]
            found = found.through(last, transformers=kept)
        elif any(name.endswith("SearchCV") for name in names):
            found = found.through(_fitted(model, "best_estimator_"))
        elif holder := next((name for name in names if name in HOLDERS), None):
            inside = _fitted(model, *HOLDERS[holder])
            scale = [partial(transformed_target, model.transformer_)] if holder == "TransformedTargetRegressor" else []
            found = found.through(inside, targets=scale)
        elif "RFE" in names:
            columns = _columns(model, np.flatnonzero(_fitted(model, "support_")))
            found = found.through(model.estimator_, transformers=[columns])
        elif average := next((AVERAGES[name] for name in names if name in AVERAGES), None):
            parts = tuple(_averaged(model, *average(found, model)))
            if len(parts) != 1:
                return replace(found, members=parts)
            found = replace(parts[0], name=found.name, weight=found.weight)
        else:
            return found


def _fitted(wrapper: Any, *attributes: str) -> Any:
    """What a fitted wrapper keeps under one of these names."""
    for attribute in attributes:
        if hasattr(wrapper, attribute):
            return getattr(wrapper, attribute)
    if getattr(wrapper, "refit", True) is False:
        raise ModelError(f"This {type(wrapper).__name__} has refit=False, so no fitted model; fit it with refit=True.")
    raise _not_fitted(wrapper)


def _refusal(model: Any, why: str, rows: str) -> UnsupportedModelError:
    loop = "    for k, part in enumerate(model.estimators_):"
    recipe = f" Score its models one by one:\n{loop}\n        print(ti.importance(part, {rows}))" if rows else ""
    return UnsupportedModelError(f"{type(model).__name__} is not one model of trees: {why}.{recipe}")


Members = tuple[list[str], NDArray[np.float64], list[Unwrapped]]  # names, weights and models


# -- averages -----------------------------------------------------------------------------------------------------
def _voting(found: Unwrapped, model: Any) -> Members:
    estimators = _fitted(model, "estimators_")
    in_use = [not (one is None or isinstance(one, str)) for _, one in model.estimators]  # the others are "drop"
    names = [name for (name, _), used in zip(model.estimators, in_use, strict=True) if used]
    weights = np.ones(len(in_use)) if model.weights is None else np.asarray(model.weights, np.float64)
    labels = model.le_.classes_ if hasattr(model, "le_") else None
    if labels is not None and model.voting != "soft":
        raise _refusal(model, "it counts votes", "X, model.le_.transform(y)")
    return names, weights[in_use], [found.through(one, **_encoded(labels)) for one in estimators]


def _bagging(found: Unwrapped, model: Any) -> Members:
    estimators, encoded = _fitted(model, "estimators_"), _encoded(getattr(model, "classes_", None))
    insides = [
        found.through(one, transformers=[_columns(model, columns)], **encoded)
        for one, columns in zip(estimators, model.estimators_features_, strict=True)
    ]
    return [f"estimators_[{i}]" for i in range(len(insides))], np.ones(len(insides)), insides


def _calibrated(found: Unwrapped, model: Any) -> Members:
    distinct = {id(part.estimator): part.estimator for part in _fitted(model, "calibrated_classifiers_")}
    insides = []
    for one in distinct.values():
        # Temperature scaling encodes labels that are strings before it fits.
        own = np.array_equal(getattr(one, "classes_", model.classes_), model.classes_)
        insides.append(found.through(one, **_encoded(None if own else model.classes_) | {"notes": [CALIBRATION]}))
    return [f"fold {i}" for i in range(len(insides))], np.ones(len(insides)), insides


AVERAGES = {"_BaseVoting": _voting, "BaseBagging": _bagging, "CalibratedClassifierCV": _calibrated}


def _encoded(labels: Any) -> dict[str, Any]:
    """What y passes in a wrapper that encodes its labels; None: it does not."""
    if labels is None:
        return {}
    return {"targets": [partial(codes, labels)], "labels": tuple(labels.tolist()), "notes": [OWN_MARGIN]}


def _averaged(
    model: Any, names: list[str], weights: NDArray[np.float64], insides: list[Unwrapped]
) -> Iterator[Unwrapped]:
    """Members by name and weight; who has no part in the prediction is left out."""
    if not weights.sum() > 0:
        raise UnsupportedModelError(f"{type(model).__name__}: no mean can be taken with weights {weights.tolist()}.")
    for name, share, inside in zip(names, (weights / weights.sum()).tolist(), insides, strict=True):
        if share:
            outer = f"{inside.name} / " if inside.name else ""
            yield replace(inside, name=outer + name, weight=inside.weight * share)


def _columns(model: Any, positions: Any) -> Columns:
    names = getattr(model, "feature_names_in_", None)
    known = None if names is None else tuple(map(str, names))
    return Columns(np.asarray(positions, np.intp), int(model.n_features_in_), known)


# -- the model inside, and the way of X to it ----------------------------------------------------------------------
def package_of(model: Any) -> str:
    """Library whose class the model is or derives from, "" if none; users' subclasses count."""
    for kind in type(model).__mro__:
        package = kind.__module__.split(".")[0]
        if package in LIBRARIES:
            base_only = kind.__module__.startswith(("sklearn.base", "sklearn.utils"))  # a user's own estimator
            return "" if base_only else package
    return ""


def require_fitted(model: Any) -> None:
    """Raise unless fit has been called, or that cannot be asked (of a Booster, say)."""
    for question in ("__sklearn_is_fitted__", "is_fitted"):
        # Of the class: a CVBooster has every name, and hands the call to its boosters.
        if callable(getattr(type(model), question, None)):
            if getattr(model, question)():
                return
            raise _not_fitted(model)
    estimator = hasattr(type(model), "get_params") and hasattr(type(model), "fit")
    # scikit-learn's own rule: fit leaves attributes that end in an underscore
    if estimator and not any(name.endswith("_") and not name.startswith("__") for name in vars(model)):
        raise _not_fitted(model)


def _not_fitted(model: Any) -> ModelError:
    return ModelError(f"This {type(model).__name__} is not fitted yet; call fit first.")


def carried_names(transformers: Sequence[Any]) -> tuple[str, ...] | None:
    """Feature names behind the transformers; None where one does not know them."""
    names: Any = None
    for step in transformers:
        if hasattr(step, "transform"):
            try:
                names = step.get_feature_names_out(names)
            except (AttributeError, TypeError, ValueError):  # a transformer that knows no names, or other ones
                return None
    return None if names is None else tuple(str(name) for name in names)
