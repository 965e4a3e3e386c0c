"""Every call of the study to treeinner: a model is read and cut at rounds here, predicted with, scored and attributed.

Scores are vectors with one number per feature. Their scale does not matter to the study, which ranks features and
normalises vectors. Everything runs on one thread: `run.py` works in parallel processes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import treeinner as ti
from treeinner.kernels import instruction_set

__all__ = [
    "Model", "absolute", "account", "attributions", "centred", "cut", "forest_inner", "instruction_set", "permutation",
    "predict", "read", "tree_inner",
]  # fmt: skip

FloatArray = NDArray[np.float64]
Model = ti.Model

ONE_THREAD: dict[str, Any] = {"n_jobs": 1}
SCORES_ONLY: dict[str, Any] = {"score": "tree_inner", "std_errors": False}


def read(booster: Any, *, objective: str, eta: float, reg_lambda: float) -> Model:
    """Read a model of XGBoost; it is told what it was trained with, so that nothing has to be inferred."""
    told: dict[str, Any] = {"objective": objective, "learning_rate": eta, "reg_lambda": reg_lambda, "reg_alpha": 0.0}
    return _built(ti.read_model(booster, **told))


def cut(model: Model, start: int, stop: int) -> Model:
    """Keep the trees of rounds start <= round < stop."""
    return _built(ti.read_model(model, iteration_range=(start, stop)))


def predict(model: Model, X: Any) -> FloatArray:
    """Margin of each row: (rows,)."""
    return model.predict(X, **ONE_THREAD)


def tree_inner(model: Model, X: Any, y: Any, method: str = "predecomp", *, base_margin: Any = None) -> FloatArray:
    """The paper's TreeInner, a sum over the rows: (features,); the first tree starts from `base_margin`."""
    gains = _quiet(ti.importance, model, X, y, method=method, base_margin=base_margin, **SCORES_ONLY).gains
    assert gains is not None  # the learning rate was told
    return gains


def centred(model: Model, X: Any, y: Any) -> FloatArray:
    """TreeInner whose node values are means over these rows, so that no rate or penalty enters: (features,)."""
    return _quiet(ti.importance, model, X, y, method="centred", **SCORES_ONLY).scores


def account(model: Model, X: Any, y: Any) -> FloatArray:
    """What each feature took off the loss on these rows, by the loss breakdown: (features,)."""
    return _quiet(ti.importance, model, X, y, score="loss", method="centred", std_errors=False).scores


def forest_inner(
    model: Model,
    X: Any,
    y: Any,
    method: str = "predecomp",
    *,
    against: Literal["residual", "label"] = "residual",
) -> FloatArray:
    """ForestInner, the attributions of the whole model times the residual or the label: (features,)."""
    return _quiet(ti.forest_inner, model, X, y, method=method, against=against).scores


def absolute(model: Model, X: Any, method: str) -> FloatArray:
    """Abs, the sum of |attribution| over the trees, mean over the rows: (features,)."""
    return _quiet(ti.mean_abs, model, X, method=method, over="trees").scores


def permutation(model: Model, X: Any, y: Any, seed: int) -> FloatArray:
    """Rise of the training loss when a column is shuffled once: (features,)."""
    return ti.permutation_importance(model, X, y, n_repeats=1, random_state=seed, **ONE_THREAD).scores


def attributions(model: Model, X: Any, method: str, rounds: int) -> FloatArray:
    """Attributions of each row by the first rounds: (rows, features)."""
    return ti.attribute(cut(model, 0, rounds), X, method=method, **ONE_THREAD).values


def _quiet(work: Callable[..., ti.Importance], *rows: Any, **options: Any) -> ti.Importance:
    """Call a function of treeinner; its warnings (eta 1 overshoots on purpose) do not concern the study."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ti.TreeInnerWarning)
        return work(*rows, **ONE_THREAD, **options)


def _built(model: Model) -> Model:
    """Predict one row, so that the time of building what the kernels walk is not counted as that of a score."""
    predict(model, np.zeros((1, model.n_features), np.float32))
    return model
