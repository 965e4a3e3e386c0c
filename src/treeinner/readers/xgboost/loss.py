"""Which loss an XGBoost model was trained with, and from which margin it started, as far as it shows.

A model trained with a custom objective has the name of another loss: the one in its parameters, by default
reg:squarederror or multi:softmax. The base score gives it away: since 2.0 XGBoost fits it to the target for its own
losses, and leaves it at 0.5 for a custom one. So a base score

    that was fitted      proves the loss that the model names;
    that was left alone  is a custom objective's, unless fitting gives 0.5 too: then the first root is 0;
    that the user set    proves nothing, and neither does one from before 2.0: the name is believed, and that is said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from treeinner.readers.xgboost.document import Parts
from treeinner.readers.xgboost.values import CONSTANT_HESSIAN, Given

__all__ = ["Loss", "find_loss", "proved_loss"]

FILED_UNDER = (*CONSTANT_HESSIAN, "multi:softmax")  # names of custom objectives whose user names no loss
NOT_FITTED = ("binary:hinge", "survival:aft")  # their base score is left alone anyway
# Losses whose gradients add up to 0 at the fitted base score, and since which version.
BALANCED = dict.fromkeys(CONSTANT_HESSIAN, (2, 0))
BALANCED |= dict.fromkeys(("binary:logistic", "reg:logistic", "count:poisson", "reg:gamma", "reg:tweedie"), (3, 0))
# Weight of a root times the square root of its hessian, which is about 1 or less if only row sampling made it.
FAR = 6.0
# Error of a fitted base score: a float32 worked out from 0.5 on. Measured: up to 0.1 of this for targets of any size.
BASE_ERROR = 4 * 2.0**-23


@dataclass(frozen=True)
class Loss:
    """A loss by its name, "" for a custom objective, and what was assumed about "loss" and "start"."""

    objective: str
    doubts: dict[str, str] = field(default_factory=dict)


def proved_loss(parts: Parts, given: Given) -> Loss:
    """Return the loss that the model names, which is known to be its own."""
    since, weighted = BALANCED.get(parts.objective), parts.objective_params.get("scale_pos_weight", 1.0) != 1.0
    if since is None or parts.version < since or weighted or _base_score(parts) != "fitted":
        return Loss(parts.objective)
    if _starts_away(parts, given) != "yes":
        return Loss(parts.objective)
    text = "The first tree does not start at base_score: the model was trained with base_margin. Pass it per row."
    return Loss(parts.objective, {"start": text})


def find_loss(parts: Parts, given: Given) -> Loss:
    """Tell the loss of a Booster or a file."""
    name, base_score = parts.objective, _base_score(parts)
    if _hessians_vary(parts, given, fitted=base_score == "fitted"):
        return Loss("", {"loss": f"it says {name}, but the hessians of its roots are those of a custom objective."})
    if base_score == "fitted":
        return proved_loss(parts, given)
    away = _starts_away(parts, given) if base_score == "left alone" else "no"
    if away == "yes":
        return Loss(
            "",
            {
                "loss": f"it says {name}, but its base_score was not fitted to the target, as XGBoost (since 2.0) does "
                "unless the objective is a custom one."
            },
        )
    if away == "no" and name not in FILED_UNDER:
        return Loss(name)
    why = {
        "left alone": "a base_score of 0.5 does",
        "set": "a base_score set by hand does",
        "old": f"a model of XGBoost {'.'.join(map(str, parts.version))} does",
    }[base_score]
    text = (
        f"The loss is taken to be {name}, as the model says; but a model trained with a custom objective says so too, "
        f"and {why} not tell them apart. Pass objective={name!r} to confirm it, or the custom objective as a function "
        "(y, margin) -> gradient."
    )
    return Loss(name, {"loss": text})


def _base_score(parts: Parts) -> Literal["fitted", "left alone", "set", "old"]:
    """Where the base score comes from; "old": this version does not show it."""
    since = (3, 1) if parts.objective.startswith("multi:") else (2, 0)
    if parts.version < since or parts.objective in NOT_FITTED:
        return "old"
    if str(parts.learner["learner_model_param"].get("boost_from_average")) != "1":
        return "set"
    return "left alone" if np.all(parts.stored_base == 0.5) else "fitted"


def _starts_away(parts: Parts, given: Given) -> Literal["yes", "maybe", "no"]:
    """Whether the gradients of the first round do not add up to 0."""
    trees, first = parts.trees, parts.tree_round == 0
    roots = trees.start[:-1][first]
    weight = np.abs(trees.weight[roots])  # (trees, outputs)
    largest = np.abs(trees.weight[first[trees.tree]]).max(initial=0.0)
    if not np.any(weight > 1e-4 * largest + BASE_ERROR * max(0.5, np.abs(parts.base_score).max())):
        return "no"
    hessian = trees.hessian[trees.start[:-1]]
    same = len(hessian) > 1 and np.ptp(hessian) <= 1e-5 * np.max(hessian)
    if given.all_rows or (same and parts.objective in CONSTANT_HESSIAN):
        return "yes"
    if parts.objective in CONSTANT_HESSIAN and not np.all(parts.stored_base == 0.5):
        return "maybe"  # row sampling, on a target of any size
    return "yes" if np.any(weight * np.sqrt(np.abs(hessian[first]))[:, None] > FAR) else "maybe"


def _hessians_vary(parts: Parts, given: Given, *, fitted: bool) -> bool:
    """Whether a model that says squared error has roots whose hessians change as no row sampling changes them.

    The hessian of every row is 1. (Continued training on other rows changes the roots once.)
    """
    roots = parts.trees.hessian[parts.trees.start[:-1]]
    if parts.objective not in CONSTANT_HESSIAN or len(roots) < 2:
        return False
    changes = np.abs(np.diff(roots)) > 1e-5 * np.max(roots)
    # Sampled rows are whole ones, unless they have weights; a fitted base score says that they have.
    fraction = np.abs(roots - np.round(roots)) > 2e-7 * roots + 1e-4
    evidence = given.all_rows or (not fitted and not given.is_live and fraction.any())
    return bool(np.mean(changes) > 0.5 and evidence)
