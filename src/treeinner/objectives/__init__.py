"""Losses: name in each library, gradient in the margin, link, and the targets they are defined for.

    objective = for_ensemble(ensemble)              # the loss the model was trained with
    y = encode_target(ensemble, y)                  # labels as the model encodes them
    G = objective.gradients(y, margin)              # (rows, outputs), d loss / d margin

`objective.scope` says what the gradient of a row needs: the "row" itself; a number shared by the "round",
which `round_state` computes from all rows first; the other rows of its "query"; or all the "data".

Weights that are part of the loss (scale_pos_weight, is_unbalance, CatBoost's class_weights) are in the
gradient. `class_weight` of LightGBM's and scikit-learn's estimators is not: it makes weights of rows
(`weights.class_weights`).

Belongs here: what a loss is, and under which name each library has it. Does not: what is summed over rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treeinner.errors import DataError, ModelError, TreeInnerError, UnknownParameterError, did_you_mean
from treeinner.objectives import catalogue
from treeinner.objectives.base import Domain, FloatArray, Objective
from treeinner.objectives.catalogue import Params
from treeinner.objectives.labels import encode_target, is_nested

if TYPE_CHECKING:
    from treeinner.ensemble import Ensemble

__all__ = ["Domain", "Objective", "encode_target", "for_ensemble", "from_callable", "get", "register"]

Gradient = Callable[[Any, Any], Any]

_registered: dict[str, Objective] = {}


def register(name: str, objective: Objective | Gradient) -> None:
    """Make a loss of your own known by name, for `objective=name`.

    Parameters
    ----------
    name
        Any name; it wins over a built-in loss of the same name when asked for.
    objective
        An Objective, or a function (y, margin) -> gradient.
    """
    if not isinstance(objective, Objective):
        objective = from_callable(objective, name)
    _registered[name] = replace(objective, name=name)


def get(spec: str, *, library: str = "", n_outputs: int = 1, **params: Any) -> Objective:
    """Return a loss by name: get("quantile", alpha=0.9), or get("quantile:alpha=0.9").

    Parameters
    ----------
    spec
        A registered name, a library's name ("reg:tweedie", "Logloss"), or a neutral one ("squared_error").
    library
        "xgboost", "lightgbm", "catboost" or "sklearn", where several use the name.
    n_outputs
        Number of margins per row.
    **params
        Parameters of the loss, under the library's names; `version` for losses that changed.
    """
    if spec in _registered:
        return _registered[spec]
    name, given = catalogue.split_name(spec)
    version = _version(params.pop("version", None))
    found = catalogue.find(Params(name, {**given, **params}, n_outputs, version), library)
    if found is None and name in catalogue.REFUSED:
        raise catalogue.refusal(library, name)
    if found is None:
        known = [*_registered, *catalogue.known_names()]
        more = f"; pass a function (y, margin) -> gradient, objectives.register it, or use one of: {', '.join(known)}."
        raise UnknownParameterError(f"objective={spec!r} is not recognised{did_you_mean(name, known, more)}")
    return found


def for_ensemble(ensemble: Ensemble, spec: str | Objective | Gradient = "auto") -> Objective:
    """Return the loss of a model.

    Parameters
    ----------
    ensemble
        The model: library, objective, objective_params and version decide.
    spec
        "auto": the loss that the model stores; or the name of a loss, an Objective, or a
        function (y, margin) -> gradient, for models trained with a loss of your own.
    """
    if isinstance(spec, Objective):
        return spec
    if not isinstance(spec, str):
        return from_callable(spec)
    own_name, own_params = catalogue.split_name(ensemble.objective) if ensemble.objective else ("", {})
    own: dict[str, Any] = {**ensemble.objective_params, **own_params}
    if spec != "auto":
        # A bare name of the model's own loss, or of one whose name the model does not prove, keeps its parameters.
        given = own if catalogue.split_name(spec)[0] == own_name or not own_name else {}
        merged = {**given, "version": ensemble.params.get("version")}
        return get(spec, library=ensemble.library, n_outputs=ensemble.n_outputs, **merged)
    if not own_name:
        why = ensemble.doubts.get("loss", "it was trained with a custom objective.")
        raise UnknownParameterError(
            f"This {ensemble.library} model does not store its loss: {why} Pass objective=callable(y, margin) -> "
            "gradient, or the name of a built-in loss."
        )
    if ensemble.averaged and ensemble.library == "sklearn":
        objective = catalogue.forest(own_name, ensemble.n_outputs, many_targets=is_nested(own.get("classes")))
    else:
        version = _version(ensemble.params.get("version"))
        params = Params(own_name, own, ensemble.n_outputs, version)
        try:
            objective = catalogue.find(params, ensemble.library, elsewhere=False)
        except TreeInnerError:
            raise
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            raise ModelError(f"The model is malformed: the parameters of its loss {own_name} ({error}).") from error
    if objective is None:
        raise catalogue.refusal(ensemble.library, own_name)
    return objective


def from_callable(function: Gradient, name: str = "") -> Objective:
    """Wrap a user's function (y, margin) -> gradient.

    It gets the encoded y and the margin, (rows,) if the model has one output, else (rows, outputs), and
    returns the gradient in the same shape, or (gradient, hessian) as custom objectives of XGBoost and
    LightGBM do. The gradient of a row must depend on that row alone; weights are multiplied in afterwards.
    """
    if not callable(function):
        raise UnknownParameterError(
            f"objective={function!r} is neither a name, an Objective, nor a function (y, margin) -> gradient."
        )
    name = name or getattr(function, "__name__", "custom")

    def gradient(y: Any, m: FloatArray) -> FloatArray:
        result = function(y, m[:, 0] if m.shape[1] == 1 else m)
        g = np.asarray(result[0] if isinstance(result, tuple) else result, np.float64)
        if g.shape != m.shape and (m.shape[1] > 1 or g.shape != m.shape[:1]):
            raise DataError(f"objective {name!r} returned a gradient of shape {g.shape}, expected {m.shape}.")
        return g.reshape(m.shape)

    return Objective(name, None, gradient, target="any")


def _version(value: Any) -> tuple[int, ...]:
    """Read "3.2.0", [3, 2, 0] or None."""
    return () if value is None or isinstance(value, Mapping) else tuple(map(int, re.findall(r"\d+", str(value))))
