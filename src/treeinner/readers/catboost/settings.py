"""How a CatBoost model was trained: the loss, the penalty of its leaves, and why they are not what PreDecomp needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeinner.readers._trees import FloatArray
from treeinner.readers.catboost.penalty import lam_of_squares, rows_are_counted
from treeinner.readers.catboost.trees import Document, require

__all__ = ["Settings"]

UNIT_HESSIAN = {"RMSE", "MultiRMSE"}  # losses whose Newton step divides by the sum of weights
# Losses whose leaves tests/exactness.py compares with the formula.
CHECKED = UNIT_HESSIAN | {
    "CrossEntropy", "Expectile", "Focal", "Huber", "LogCosh", "Logloss", "Lq", "MAE", "MAPE", "MultiClass",
    "MultiClassOneVsAll", "Poisson", "Quantile", "Tweedie",
}  # fmt: skip
# Losses of counts and classes: prediction at the margin before the first tree.
START: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("Logloss", "MultiClassOneVsAll"), lambda margin: 1 / (1 + np.exp(-margin))),
    "MultiClass": lambda margin: np.exp(margin) / np.exp(margin).sum(),
    "Poisson": np.exp,
}
NO_L2 = 1e-12  # CatBoost stores 1e-20 for l2_leaf_reg=0; no mean weight makes that matter
LARGEST = 1e30  # a float32 holds it, and its inverse
SAME = 1e-6  # what lam of unweighted rows may differ from l2_leaf_reg by


@dataclass(frozen=True)
class Settings:
    """Training parameters that the file keeps; empty for sums of models."""

    loss: Mapping[str, Any]
    boosting: Mapping[str, Any]
    leaves: Mapping[str, Any]  # tree_learner_options
    data: Mapping[str, Any]
    classes: list[Any]
    labels: list[float]  # position among the classes of each output of a model of several classes
    task: str

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> Settings:
        """Find the parameters in a model's description of itself."""
        params = info.get("params") or {}
        loss = params.get("loss_function") or info.get("loss_function") or {}
        found = cls(
            loss=loss if isinstance(loss, dict) else {"type": str(loss)},
            boosting=params.get("boosting_options") or {},
            leaves=params.get("tree_learner_options") or {},
            data=params.get("data_processing_options") or {},
            classes=list((info.get("class_params") or {}).get("class_names") or []),
            labels=[float(label) for label in (info.get("class_params") or {}).get("class_to_label") or []],
            task=str(params.get("task_type", "CPU")),
        )
        rate, l2 = found.boosting.get("learning_rate", 1.0), found.leaves.get("l2_leaf_reg", 1.0)
        for name, number, least in (("learning_rate", rate, 1 / LARGEST), ("l2_leaf_reg", l2, 0.0)):
            sane = isinstance(number, (int, float)) and least <= number <= LARGEST
            require(sane, f"its {name} is {number!r}; expected a positive number")
        return found

    @property
    def learning_rate(self) -> float:
        """The float32 that training uses; .cbm has all its digits, JSON ten."""
        return float(np.float32(self.boosting.get("learning_rate", np.nan)))

    @property
    def objective(self) -> str:
        """The loss by name; "" if it is a custom one."""
        name = str(self.loss.get("type", ""))
        return "" if name.startswith("PythonUserDefined") else name

    def output_names(self, n_outputs: int) -> tuple[str, ...] | None:
        """Return the classes, if each has an output."""
        # CatBoost puts output i at the place labels[i] among the classes; training numbers them in ascending order.
        places = [-1, *self.labels, len(self.classes) or n_outputs + max(self.labels, default=0)]
        if n_outputs > 1 and self.labels:
            ascend = len(self.labels) == n_outputs and min(np.diff(places)) >= 1
            require(ascend, f"its classes are those of the labels {self.labels}")
        named = self.objective.startswith("MultiClass") and len(self.classes) == n_outputs
        return tuple(map(str, self.classes)) if named else None

    @property
    def class_weights(self) -> list[float]:
        """Weights of the classes, chosen or worked out in training; [] if there are none."""
        return [float(weight) for weight in self.data.get("class_weights") or []]

    def objective_params(self) -> dict[str, Any]:
        """Collect what the loss needs besides margin and target."""
        stored = (self.loss.get("params") or {}).items()
        found = {name: _number(text) for name, text in stored if not name.startswith("__")}
        if self.classes:
            found["classes"] = self.classes
        if any(weight != 1 for weight in self.class_weights):
            found["class_weights"] = self.class_weights
        if self.data.get("target_border") is not None:
            found["target_border"] = float(self.data["target_border"])
        return found

    @property
    def step(self) -> str:
        """How a leaf is estimated if that is one step: "Newton" or "Gradient"; else ""."""
        method, steps = (self.leaves.get(f"leaf_estimation_{name}") for name in ("method", "iterations"))
        return str(method) if method in ("Newton", "Gradient") and steps == 1 else ""

    def reg_lambda(self, document: Document, rates: FloatArray) -> tuple[float | None, str]:
        """Return the l2 term of a leaf, l2_leaf_reg times the mean weight of rows, and what was assumed about it.

        None: it is not known.
        """
        l2, trees = self.leaves.get("l2_leaf_reg"), document.trees
        if l2 is None or l2 <= NO_L2:
            return l2 if l2 is None else float(l2), ""
        if self.step and self.objective in UNIT_HESSIAN:
            lam = lam_of_squares(trees, rates)
            if lam is not None:
                return float(l2) if abs(lam / l2 - 1) <= SAME else lam, ""
        if any(w != 1 for w in self.class_weights) or not np.array_equal(trees.weight, np.round(trees.weight)):
            return None, ""
        if self.step == "Gradient" and self.objective in START:
            start = START[self.objective](np.broadcast_to(document.bias, trees.value.shape[1:]))
            if rows_are_counted(trees, float(rates[0]), float(l2), start):
                return float(l2), ""
        return float(l2), (
            "the training rows are taken to be unweighted, as leaf weights are whole numbers; if they had weights, "
            "pass reg_lambda=l2_leaf_reg times their mean"
        )

    def params(self) -> dict[str, Any]:
        """Collect what else is of interest."""
        names = ("l2_leaf_reg", "leaf_estimation_method", "leaf_estimation_iterations", "grow_policy")
        return {name: self.leaves[name] for name in names if name in self.leaves}

    def reasons(self, has_ctr: bool) -> list[str]:
        """Why the node values are not -rate * G / (H + lam) on the training rows; none if they are."""
        if not self.leaves:
            return ["the file does not say how the model was trained (a sum of models, for example)"]
        method, steps = (self.leaves.get(f"leaf_estimation_{name}") for name in ("method", "iterations"))
        reasons = []
        if has_ctr:
            reasons.append("training routes rows by ordered target statistics, prediction by the final ones")
        if method not in ("Newton", "Gradient"):
            reasons.append(f"leaves are estimated by the method {method}, not by a gradient step")
        elif steps != 1:
            reasons.append(f"a leaf is the sum of {steps} estimation steps (leaf_estimation_iterations)")
        if method == "Newton" and self.objective not in UNIT_HESSIAN:
            reasons.append("CatBoost stores no hessians, so inner nodes are computed with leaf weights in their place")
        if self.objective not in CHECKED:
            loss = self.objective or "a custom objective"
            reasons.append(f"leaves of {loss} have not been compared with the formula")
        if self.boosting.get("model_shrink_rate"):
            reasons.append("model_shrink_rate scaled down earlier trees after they were fitted")
        if self.boosting.get("langevin") or self.boosting.get("posterior_sampling"):
            reasons.append("Langevin boosting adds noise to the gradients")
        if self.leaves.get("monotone_constraints"):
            reasons.append("monotone constraints change leaves after their estimation")
        if self.task != "CPU":
            reasons.append("the model was trained on a GPU, where the leaf formula has not been checked")
        return reasons


def _number(text: Any) -> Any:
    """Turn a stored loss parameter into a number, or a list of numbers, if it is one."""
    try:
        numbers = [float(part) for part in str(text).split(",")]
    except ValueError:
        return text
    return numbers[0] if len(numbers) == 1 else numbers
