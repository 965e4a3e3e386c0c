"""Losses: name in each library, gradient in the margin, link, and the targets they are defined for.

    loss = find_loss(told=None, library="xgboost", name="binary:logistic", params={}, n_outputs=1)
    y = encode_target(y, loss, classes=("no", "yes"), n_outputs=1)     # labels as the model encodes them
    G = loss.gradients(y, margin)                                      # (rows, outputs), d loss / d margin

`loss.scope` says what the gradient of a row needs: the "row" itself; the other rows of its "query"; a number that the
rows of a "round" share; or all the "data".

Weights that are part of the loss (scale_pos_weight, CatBoost's class_weights) are in the gradient. `class_weight` of
LightGBM's and scikit-learn's estimators is not: it makes weights of rows (`class_weights`).

Belongs here: what a loss is, and under which name each library has it. Does not: what is summed over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from treeinner import errors
from treeinner.errors import UnknownParameterError, UnsupportedModelError, did_you_mean
from treeinner.losses import catalogue
from treeinner.losses.catalogue import Params
from treeinner.losses.labels import class_weights, encode_target
from treeinner.losses.loss import Float, Loss
from treeinner.losses.regression import forest_error

__all__ = ["Loss", "class_weights", "encode_target", "find_loss", "find_stored_loss", "forest_error"]

Gradient = Callable[[Any, Any], Any]


def find_loss(
    *, told: Any, library: str, name: str, params: Mapping[str, Any], n_outputs: int, version: tuple[int, ...] = ()
) -> Loss:
    """Return the loss of a model.

    Parameters
    ----------
    told
        None: the loss that the model stores; or a Loss, a name with parameters ("quantile:alpha=0.9"), or a function
        (y, margin) -> gradient. Told parameters win over stored ones of the same loss.
    library, name, params, version
        What the model stores: "xgboost", "reg:tweedie", {"tweedie_variance_power": 1.5}, (3, 2, 0). "sklearn forest":
        the criteria of scikit-learn's trees and forests.
    n_outputs
        Number of margins per row.
    """
    if isinstance(told, Loss):
        return told
    stored = Params(name, params, {}, n_outputs, version)
    if isinstance(told, str):
        found: Loss | None = _told_loss(told, stored, library)
    elif told is not None:
        found = _from_callable(told)
    elif name:
        found = catalogue.find(stored, (catalogue.LIBRARIES[library],))
    else:
        held = f"This {library} model does not store its loss; pass read_model(model, objective=...)"
        raise UnknownParameterError(f"{held}: a name, or a function (y, margin) -> gradient.")
    if found is None:
        needs = "it covers losses whose gradients need no random draws, training pairs or order of the rows"
        raise UnsupportedModelError(f"treeinner does not cover {library} {name!r}: {needs}; {catalogue.DO_INSTEAD}")
    asked = {"told": told, "library": library, "name": name, "params": dict(params), "n_outputs": n_outputs}
    found.__dict__["recipe"] = partial(find_loss, **asked, version=version), ()
    return found


def find_stored_loss(**asked: Any) -> tuple[Loss | None, str]:
    """Return `find_loss(told=None, **asked)` and "", or None and why the loss is not known and what to pass."""
    try:
        return find_loss(told=None, **asked), ""
    except (UnknownParameterError, UnsupportedModelError) as error:
        return None, str(error)
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        raise errors.ModelError(f"The parameters of the loss are damaged ({error}); save the model again.") from error


def _told_loss(told: str, model: Params, library: str) -> Loss:
    """Return the loss that a user named; of what the model stores only parameters of the same loss are kept."""
    name, given = catalogue.split_name(told)
    own = catalogue.LIBRARIES[library]  # in which "l1" and "regression_l1" are one loss
    same = model.name in ("", name) or (name in own and own[name] is own.get(model.name))
    params = Params(name, model.stored if same else {}, given, model.n_outputs, model.version)
    found = catalogue.find(params, (own, *catalogue.TABLES))
    if found is not None:
        return found
    known = sorted({name for table in catalogue.TABLES for name in table})
    more = f"; pass a function (y, margin) -> gradient, a Loss, or use one of: {', '.join(known)}."
    raise UnknownParameterError(f"objective={told!r} is not recognised{did_you_mean(name, known, more)}")


def _from_callable(function: Gradient) -> Loss:
    """Wrap a user's function (y, margin) -> gradient.

    It gets the encoded y and the margin, (rows,) if the model has one output, else (rows, outputs), and
    returns the gradient in the same shape, or (gradient, hessian) as custom objectives of XGBoost and
    LightGBM do. The gradient of a row must depend on that row alone; weights are multiplied in afterwards.
    """
    if not callable(function):
        raise UnknownParameterError(f"objective={function!r} is neither a name, a Loss, nor a function of (y, margin).")
    name = getattr(function, "__name__", "custom")

    def gradient(y: Any, m: Float) -> Float:
        result = function(y, m[:, 0] if m.shape[1] == 1 else m)
        g = np.asarray(result[0] if isinstance(result, tuple) else result, np.float64)
        return g[:, None] if m.shape[1] == 1 and g.ndim == 1 else g

    return Loss(name=name, words="your loss", gradient=gradient, target="any")
