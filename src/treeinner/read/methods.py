"""The attributions: node values, or the error that says what is missing for them; values of rows by player."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treeinner import kernels
from treeinner.errors import UnknownParameterError, UnsupportedModelError, did_you_mean, own_name
from treeinner.read.model import Float, Model

if TYPE_CHECKING:
    from treeinner.rows import Table

__all__ = ["METHODS", "attribute_players", "check_method", "node_values", "reference_values"]

METHODS = ("predecomp", "saabas", "treeshap")  # of single rows; scores have "centred" too

OTHERWISE = "use method='centred' (scores), 'saabas' or 'treeshap'"


def node_values(model: Model, method: str) -> Float:
    """Value of every node whose changes along a path are the attribution: (n_nodes, width).

    For "treeshap" those of "saabas", whose roots it shares.
    """
    trees = model.trees
    if method == "predecomp":
        known = trees.known
        if known.value is not None:
            return known.value
        if known.refusal:
            raise UnsupportedModelError(f"PreDecomp does not hold for this model: {known.refusal}; {OTHERWISE}.")
        wanted = " and ".join(own_name(option, model.library) for option in known.needs)
        told = ", ".join(f"{option}=..." for option in known.needs)
        raise UnknownParameterError(
            f"PreDecomp needs {wanted}, which the model does not store; pass read_model(model, {told}), or {OTHERWISE}."
        )
    if np.isnan(trees.cover).any():
        raise UnsupportedModelError(
            f"method={method!r} needs the training rows in each node, which this {model.library} model does not "
            "store; use method='predecomp', or 'centred' for scores."
        )
    if method == "treeshap" and model.path_only:
        raise UnsupportedModelError(
            "method='treeshap' needs the splits beside a row's path. Of categories, texts and embeddings CatBoost has "
            "them for symmetric trees alone (grow_policy). Use method='saabas', or 'centred' for scores."
        )
    return trees.mean_value


def reference_values(model: Model, reference: Any) -> Float:
    """Means of the leaf values in every node over the rows of a reference, an Importance: (n_nodes, width)."""
    value: Float | None = getattr(reference, "node_values", None)
    if value is None:
        what = "it is missing" if reference is None else f"this {type(reference).__name__} has no node values"
        raise ValueError(
            f"method='centred' needs reference=ti.importance(model, X_valid, y_valid) for its node values, but {what}."
        )
    if reference.model_digest != model.digest:
        raise ValueError(
            f"reference= was made from another model, or other rounds of it; pass ti.importance of this one, {model!r}."
        )
    return value


def attribute_players(
    model: Model,
    table: Table,
    method: str,
    *,
    centre: Float | None = None,
    n_jobs: int | None = -1,
    progress: kernels.Progress | None = None,
) -> Float:
    """Attribution of every row: (rows, outputs, players). centre: node values of "centred", which no model stores."""
    forest = model.trees.forest
    if centre is not None:
        return kernels.attribute(forest, table, forest.path_table(centre), n_jobs=n_jobs, progress=progress)
    value = node_values(model, method)
    if method not in forest.cache:  # single rows must not wait for it
        forest.cache[method] = None if method == "treeshap" else forest.path_table(value)
    return kernels.attribute(forest, table, forest.cache[method], n_jobs=n_jobs, progress=progress)


def check_method(method: object) -> None:
    """Raise unless the model alone gives such an attribution of single rows."""
    if method == "centred":
        raise ValueError(
            "method='centred' goes by the rows that a score was made of: use ti.attribute(model, X, method='centred', "
            "reference=imp) with imp = ti.importance(model, X_valid, y_valid)."
        )
    if method not in METHODS:
        more = f"; choose one of {', '.join(map(repr, METHODS))}."
        raise ValueError(f"method={method!r} is not recognised{did_you_mean(method, METHODS, more)}")
