"""The estimator of estimator=None: shallow trees on samples of rows and columns, which found signal best.

What was measured is in docs/guide/selecting.md; repeats of the folds help more than any of these settings.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import type_of_target

from treeinner.errors import DataError, Note, warn

__all__ = ["default_booster", "default_library", "is_class_target"]

# Each library's names of: 100 rounds of depth 2 at rate 0.1, half of the rows per tree, 0.3 of the columns per node, an
# l2 penalty of 1. One thread: folds run in parallel, and the same bits come out whatever n_jobs.
SETTINGS: dict[str, dict[str, Any]] = {
    "xgboost": {
        "n_estimators": 100, "max_depth": 2, "learning_rate": 0.1, "subsample": 0.5, "colsample_bynode": 0.3,
        "reg_lambda": 1.0, "tree_method": "hist", "enable_categorical": True, "n_jobs": 1,
    },
    "lightgbm": {
        "n_estimators": 100, "max_depth": 2, "num_leaves": 4, "learning_rate": 0.1, "subsample": 0.5,
        "subsample_freq": 1, "feature_fraction_bynode": 0.3, "reg_lambda": 1.0, "n_jobs": 1, "verbose": -1,
    },
    # HistGradientBoosting samples no rows.
    "sklearn": {
        "max_iter": 100, "max_depth": 2, "learning_rate": 0.1, "max_features": 0.3, "l2_regularization": 1.0,
        "early_stopping": False, "categorical_features": "from_dtype",
    },
}  # fmt: skip
NAMES = {"xgboost": "XGB", "lightgbm": "LGBM", "sklearn": "HistGradientBoosting"}
MOST_CLASSES = 20  # of a target of integers: more are taken as numbers
UNCLEAR = 50  # up to so many that is said


def default_library() -> str:
    """The first library of SETTINGS that is installed."""
    return next(library for library in SETTINGS if find_spec(library) is not None)


def default_booster(library: str, *, classes: bool) -> Any:
    """Make the booster of a library."""
    module = import_module("sklearn.ensemble" if library == "sklearn" else library)
    made = getattr(module, NAMES[library] + ("Classifier" if classes else "Regressor"))
    return made(**SETTINGS[library])


def is_class_target(y: NDArray[Any], folds: int) -> bool:
    """Whether y holds classes, for estimator=None; what is not clear from y is said.

    Text and truth values are classes, fractions are numbers. Integers are classes if they are few, and each has rows
    for all folds: counts, ratings and years are not.
    """
    kind = type_of_target(y, input_name="y")
    if kind == "continuous":
        return False
    if kind not in ("binary", "multiclass"):
        raise DataError(f"Unknown label type: y is {kind!r}; pass one number or one class per row.")
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        raise DataError(f"y is {classes[0].item()!r} in every row; there is nothing for a feature to tell.")
    if y.dtype.kind in "iuf" and len(classes) > 2 and (len(classes) > MOST_CLASSES or counts.min() < folds):
        if len(classes) <= UNCLEAR:
            text = f"y has {len(classes)} different integers, taken as numbers; for classes pass a classifier."
            warn(Note("target", text))
        return False
    return True
