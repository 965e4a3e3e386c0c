"""scikit-learn models -> Ensemble: what kind it is, and who reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble import Ensemble
from treeinner.errors import DataError, UnsupportedModelError
from treeinner.options import ReadOptions
from treeinner.readers._open import class_names
from treeinner.readers.sklearn.hist import is_custom_loss, read_hist
from treeinner.readers.sklearn.trees import read_boosted, read_forest

__all__ = ["class_weight", "custom_gradient", "out_of_bag", "read"]

HIST = {"HistGradientBoostingRegressor", "HistGradientBoostingClassifier"}
BOOSTED = {"GradientBoostingRegressor", "GradientBoostingClassifier"}
FOREST = {"RandomForestRegressor", "RandomForestClassifier", "ExtraTreesRegressor", "ExtraTreesClassifier"}
TREE = {"DecisionTreeRegressor", "DecisionTreeClassifier"}  # ExtraTree* derive from these


def read(model: Any, options: ReadOptions) -> Ensemble:
    """Read a fitted HistGradientBoosting*, GradientBoosting*, RandomForest*, ExtraTrees*, DecisionTree* or ExtraTree*.

    `learning_rate` and `reg_lambda` override what the model holds, e.g. if `model.learning_rate` was changed after fit.
    """
    kinds = set(class_names(model, "sklearn"))
    _refuse_foreign(kinds, options)
    if kinds & HIST:
        ensemble = read_hist(model, options)
    elif kinds & BOOSTED:
        ensemble = read_boosted(model, options)
    elif kinds & (FOREST | TREE):
        ensemble = read_forest(model, [tree.tree_ for tree in getattr(model, "estimators_", [model])])
    else:
        raise UnsupportedModelError(f"scikit-learn {type(model).__name__}: not a supported tree model.")
    return ensemble if options.iteration_range is None else ensemble.slice_rounds(*options.iteration_range)


def _refuse_foreign(kinds: set[str], options: ReadOptions) -> None:
    """Raise on a parameter that the kind of model does not have: it would change nothing in silence."""
    for name in ("reg_alpha",) if kinds & HIST else ("reg_lambda", "reg_alpha"):
        if given := getattr(options, name):
            raise ValueError(
                f"{name}={given} was given, but this scikit-learn model has no such penalty; leave it out."
            )
    if kinds & (FOREST | TREE) and options.learning_rate not in (None, 1.0):
        raise ValueError(f"learning_rate={options.learning_rate} was given, but a forest has none; leave it out.")


def class_weight(model: Any) -> Any:
    """class_weight of a classifier, by label; None if it has none."""
    given = getattr(model, "class_weight", None)
    if isinstance(given, dict) and HIST & set(class_names(model, "sklearn")):  # which looks codes up, not labels
        return {model.classes_[code]: weight for code, weight in given.items()}
    return given


def custom_gradient(model: Any) -> Callable[[Any, Any], Any] | None:
    """Gradient of a loss object of the user's own that HistGradientBoosting was given; None if it was not."""
    loss: Any = getattr(model, "loss", None)
    if not is_custom_loss(loss):
        return None

    def gradient(y: Any, margin: Any) -> Any:
        if loss.constant_hessian:
            return loss.gradient(y_true=y, raw_prediction=margin)
        return loss.gradient_hessian(y_true=y, raw_prediction=margin)[0]

    gradient.__name__ = type(loss).__name__
    return gradient


def out_of_bag(model: Any, n_rows: int) -> NDArray[np.bool_]:
    """Which training rows each tree of a bootstrapped forest did not see: (trees, rows)."""
    if not getattr(model, "bootstrap", False):
        raise UnsupportedModelError(
            f"oob=True: this {type(model).__name__} was trained with bootstrap=False, so every tree saw every row; "
            "use held-out rows instead."
        )
    out = np.ones((len(model.estimators_), n_rows), bool)
    for tree, seen in enumerate(model.estimators_samples_):
        if len(seen) and seen.max() >= n_rows:
            raise DataError(
                f"oob=True: the forest was trained on more rows ({int(seen.max()) + 1} or more) than X has ({n_rows}); "
                "pass the training rows in training order."
            )
        out[tree, seen] = False
    return out
