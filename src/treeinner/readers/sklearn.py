"""scikit-learn models -> Ensemble: what kind it is, and who reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble import Ensemble
from treeinner.errors import DataError, ModelError, UnsupportedModelError
from treeinner.readers._sklearn_hist import read_hist
from treeinner.readers._sklearn_trees import read_boosted, read_forest

__all__ = ["out_of_bag", "read"]

HIST = {"HistGradientBoostingRegressor", "HistGradientBoostingClassifier"}
BOOSTED = {"GradientBoostingRegressor", "GradientBoostingClassifier"}
FOREST = {"RandomForestRegressor", "RandomForestClassifier", "ExtraTreesRegressor", "ExtraTreesClassifier"}
TREE = {"DecisionTreeRegressor", "DecisionTreeClassifier"}  # ExtraTree* derive from these

EACH = "read each tree of model.estimators_ by itself"
REFUSED = {
    "IsolationForest": "it fits no target, so there is nothing to score; use a forest that predicts y",
    "RandomTreesEmbedding": "it fits no target, so there is nothing to score; use a forest that predicts y",
    "AdaBoostClassifier": f"its prediction is a weighted vote, not a sum of leaf values; {EACH}",
    "AdaBoostRegressor": f"its prediction is a weighted median, not a sum of leaf values; {EACH}",
    "BaggingClassifier": f"each tree may see its own columns; use RandomForestClassifier, or {EACH}",
    "BaggingRegressor": f"each tree may see its own columns; use RandomForestRegressor, or {EACH}",
    "StackingClassifier": "another model sits on top of its members; read the members in model.estimators_",
    "StackingRegressor": "another model sits on top of its members; read the members in model.estimators_",
    "VotingClassifier": "it mixes models; read the members in model.estimators_",
    "VotingRegressor": "it mixes models; read the members in model.estimators_",
    "Pipeline": "pass its last step, model[-1], with the transformed table, model[:-1].transform(X)",
    "BaseSearchCV": "pass model.best_estimator_",
    "TransformedTargetRegressor": "pass model.regressor_ with the transformed y",
    "CalibratedClassifierCV": "pass the classifiers inside model.calibrated_classifiers_",
    "MultiOutputRegressor": "pass each of model.estimators_ with its own target",
    "MultiOutputClassifier": "pass each of model.estimators_ with its own target",
    "OneVsRestClassifier": "pass each of model.estimators_ with its own class as the target",
    "OneVsOneClassifier": "pass each of model.estimators_ with its own classes as the target",
}


def read(
    model: Any,
    *,
    learning_rate: float | None = None,
    reg_lambda: float | None = None,
    reg_alpha: float | None = None,
    iteration_range: tuple[int, int] | None = None,
) -> Ensemble:
    """Read a fitted scikit-learn tree, forest or boosted model.

    Parameters
    ----------
    model
        HistGradientBoosting*, GradientBoosting*, RandomForest*, ExtraTrees*, DecisionTree*, ExtraTree*.
    learning_rate, reg_lambda
        Override what the model says, e.g. after a change of `model.learning_rate` behind the fit.
    reg_alpha
        Must be None or 0: scikit-learn has no l1.
    iteration_range
        Boosting rounds (start, stop) to keep; None keeps all, as `predict` does.

    Returns
    -------
    Ensemble
    """
    kinds = {c.__name__ for c in type(model).__mro__ if c.__module__.split(".")[0] == "sklearn"}
    _refuse_foreign(kinds, learning_rate, reg_lambda, reg_alpha)
    if kinds & HIST:
        _require_fitted(model, "_predictors")
        ensemble = read_hist(model, learning_rate, reg_lambda)
    elif kinds & BOOSTED:
        _require_fitted(model, "estimators_")
        ensemble = read_boosted(model, learning_rate)
    elif kinds & FOREST:
        _require_fitted(model, "estimators_")
        ensemble = read_forest(model, [tree.tree_ for tree in model.estimators_])
    elif kinds & TREE:
        _require_fitted(model, "tree_")
        ensemble = read_forest(model, [model.tree_])
    else:
        why = next(
            (REFUSED[kind] for kind in REFUSED if kind in kinds),
            "it is not made of trees that treeinner reads",
        )
        raise UnsupportedModelError(f"scikit-learn {type(model).__name__}: {why}.")
    return ensemble if iteration_range is None else ensemble.slice_rounds(*iteration_range)


def _require_fitted(model: Any, attribute: str) -> None:
    held = getattr(model, attribute, None)
    if held is None or (isinstance(held, list) and not held):
        raise ModelError(f"{type(model).__name__} is not fitted yet; call fit first.")


def _refuse_foreign(
    kinds: set[str], learning_rate: float | None, reg_lambda: float | None, reg_alpha: float | None
) -> None:
    """Raise on a parameter that the kind of model does not have: it would change nothing in silence."""
    given = {"reg_alpha": reg_alpha}
    if not kinds & HIST:
        given["reg_lambda"] = reg_lambda
    for name, number in given.items():
        if number:
            raise ValueError(
                f"{name}={number} was given, but this scikit-learn model has no such penalty; leave it out."
            )
    if kinds & (FOREST | TREE) and learning_rate not in (None, 1, 1.0):
        raise ValueError(f"learning_rate={learning_rate} was given, but a forest has none; leave it out.")


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
