"""Arguments of the scores: what each may be, and which have a meaning for which score."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from treeinner.attribution import check_choice
from treeinner.model import Model, open_model
from treeinner.options import ReadOptions

__all__ = ["check_arguments", "check_integer", "open_for"]

# Arguments that have a meaning for some scores only, and the choices of those that are not flags.
ONLY_FOR = {"over": ("abs",), "against": ("forest_inner",), "by_round": ("tree_inner", "loss"), "oob": ("tree_inner",)}
CHOICES = {"over": ("trees", "forest"), "against": ("residual", "label")}
# What may be said about a model, but has no effect on a score.
POINTLESS = {
    "abs": ("objective",),
    "permutation": ("learning_rate", "reg_lambda", "reg_alpha"),
    "total_gain": ("objective", "learning_rate", "reg_lambda", "reg_alpha"),
}


def check_arguments(score: str, **given: Any) -> None:
    """Raise unless each argument is one of its choices, or True or False, and has a meaning for the score."""
    for name, value in given.items():
        if name not in CHOICES and not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{name}={value!r}: expected True or False.")
        if name in CHOICES and value is not None:
            check_choice(name, value, CHOICES[name])
        if value and score not in (owners := ONLY_FOR.get(name, (score,))):
            scores = " and ".join(map(repr, owners))
            raise ValueError(f"{name}={value!r} only applies to score={scores}, not to score={score!r}.")


def check_integer(name: str, given: Any, least: int, what: str) -> None:
    """Raise if an argument is not an integer, or too small."""
    if isinstance(given, bool) or not isinstance(given, numbers.Integral) or given < least:
        raise ValueError(f"{name}={given!r}: expected {what}.")


def open_for(score: str, model: Any, reading: Mapping[str, Any], *, caller: Callable[..., Any]) -> Model:
    """Open a model for a score, on which everything that the user says about the model has an effect."""
    options = ReadOptions.of(reading, caller=caller)
    for name in POINTLESS.get(str(score), ()):
        if getattr(options, name) not in (None, "auto"):
            raise ValueError(f"{name} has no effect on {score!r} scores; leave it out.")
    return open_model(model, options)
