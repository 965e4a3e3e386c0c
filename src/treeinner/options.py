"""ReadOptions: what a user says about a model, checked once and in the same words for every library."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import counted, did_you_mean, readable
from treeinner.objectives import Objective

__all__ = ["ReadOptions"]

# Arguments as the libraries or version 0.1 call them -> their names here.
FOREIGN_NAMES = {
    "init_score": "base_margin", "baseline": "base_margin", "weight": "sample_weight",
    "eta": "learning_rate", "loss_function": "objective",
    "lambda_l2": "reg_lambda", "l2_leaf_reg": "reg_lambda", "l2_regularization": "reg_lambda", "lambda_l1": "reg_alpha",
    "group": "qid", "group_id": "qid", "group_train": "qid_train", "group_valid": "qid_valid",
    "groups": "feature_groups", "level": "over", "target": "against", "rows": "explorer_rows", "seed": "random_state",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What the user says about a model, where the model does not store it; None: as the model stores it.

    Parameters
    ----------
    objective : "auto", name, Objective or callable
        The loss; a function (y, margin) -> gradient for models trained with a loss of your own.
    learning_rate : float or one per boosting round
        The learning rate of the training.
    reg_lambda, reg_alpha : float
        l2 and l1 penalty of the leaves (XGBoost's names; LightGBM: lambda_l2, lambda_l1; CatBoost: l2_leaf_reg).
    iteration_range : (start, stop)
        Boosting rounds to use; by default those that the model's own `predict` uses, as with XGBoost's (0, 0).
    feature_names : sequence of str
        Names to report instead of the model's.
    """

    objective: Any = "auto"
    learning_rate: float | Sequence[float] | None = None
    reg_lambda: float | None = None
    reg_alpha: float | None = None
    iteration_range: tuple[int, int] | None = None
    feature_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.objective, (str, Objective)) and not callable(self.objective):
            raise ValueError(
                f"objective={self.objective!r}: expected 'auto', the name of a loss, an Objective, or a function "
                "(y, margin) -> gradient."
            )
        for name, checked in CHECKS.items():
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, checked(name, value))

    @classmethod
    def of(cls, reading: Mapping[str, Any], *, caller: Callable[..., Any]) -> ReadOptions:
        """Make the options from the `**reading` of a public function; a misspelt name is a TypeError with a hint."""
        known = [f.name for f in fields(cls)]
        for name in reading:
            if name not in known:
                kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
                taken = known + [p.name for p in inspect.signature(caller).parameters.values() if p.kind not in kinds]
                hint = did_you_mean(name, taken)
                if name in FOREIGN_NAMES:
                    here = FOREIGN_NAMES[name]
                    hint = f"; {name!r} is called {here!r} here." if here in taken else "."
                raise TypeError(f"{caller.__name__}() got an unexpected argument {name!r}{hint}")
        return cls(**reading)

    def rates(self, n_rounds: int) -> NDArray[np.float64] | None:
        """The learning rate of each round: (n_rounds,); None if the user gave none."""
        if self.learning_rate is None:
            return None
        given = np.asarray(self.learning_rate, np.float64)
        if given.shape not in ((), (n_rounds,)):
            raise ValueError(
                f"learning_rate has {counted(given.size, 'number')}; expected one, or one for each of the "
                f"{n_rounds} boosting rounds of the model."
            )
        return np.broadcast_to(given, (n_rounds,))


def _number(value: Any) -> float | None:
    """A finite real number as a float; None if it is not one. A bool or a string is not a number."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        return None
    return float(value) if math.isfinite(value) else None


def _learning_rate(name: str, value: Any) -> float | tuple[float, ...]:
    many = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1)
    found = [_number(v) for v in (value if many else [value])]
    rates = tuple(rate for rate in found if rate is not None and rate > 0)
    if not rates or len(rates) != len(found):
        raise ValueError(f"{name}={value!r}: expected a positive number, or one per boosting round.")
    return rates if many else rates[0]


def _penalty(name: str, value: Any) -> float:
    penalty = _number(value)
    if penalty is None or penalty < 0:
        raise ValueError(f"{name}={value!r}: expected a number that is 0 or positive.")
    return penalty


def _iteration_range(name: str, value: Any) -> tuple[int, int] | None:
    pair = tuple(value) if isinstance(value, (list, tuple, np.ndarray)) else ()
    integers = [int(v) for v in pair if isinstance(v, numbers.Integral) and not isinstance(v, bool)]
    if len(pair) == 2 and integers == [0, 0]:
        return None
    if len(pair) != 2 or len(integers) != 2 or not 0 <= integers[0] < integers[1]:
        raise ValueError(f"{name}={value!r}: expected two integers (start, stop) with 0 <= start < stop.")
    return integers[0], integers[1]


def _feature_names(name: str, value: Any) -> tuple[str, ...]:
    sized = not isinstance(value, (str, bytes)) and hasattr(value, "__iter__") and hasattr(value, "__len__")
    names = tuple(value) if sized else ()
    if not names or not all(isinstance(one, str) for one in names):
        raise ValueError(f"{name}={value!r}: expected a list of strings, one per feature.")
    if len(set(names)) != len(names):
        twice = next(one for one in names if names.count(one) > 1)
        raise ValueError(f"{name}: {twice!r} occurs more than once; the names must differ.")
    return tuple(map(readable, names))


# Option -> the function of its name and value that returns it as it is kept; None is not asked.
CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "learning_rate": _learning_rate,
    "reg_lambda": _penalty,
    "reg_alpha": _penalty,
    "iteration_range": _iteration_range,
    "feature_names": _feature_names,
}
