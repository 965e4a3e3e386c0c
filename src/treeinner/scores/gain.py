"""total_gain(): what the model itself stores about its training rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import UnsupportedModelError
from treeinner.groups import GroupSpec
from treeinner.inference import without_errors
from treeinner.model import Model
from treeinner.scores.arguments import open_for
from treeinner.scores.result import Importance

__all__ = ["stored_gains", "total_gain"]

FloatArray = NDArray[np.float64]


def total_gain(model: Any, *, feature_groups: GroupSpec | None = None, **reading: Any) -> Importance:
    """Total gain of every feature, as the model stores it: a sum over its splits and its training rows.

    Parameters
    ----------
    model : fitted model, path or Model
        As for `attribute`.
    feature_groups : mapping, "original" or "prefix:_", optional
        As for `importance`: name of a group -> its features; their gains are added up.
    **reading
        iteration_range and feature_names, as for `read_model`.

    Returns
    -------
    Importance
        Without standard errors: gains of the training rows do not tell signal from noise. `gains` are the scores.
    """
    opened = open_for("total_gain", model, reading, caller=total_gain)
    groups = opened.groups(feature_groups)
    totals = groups.add_up(stored_gains(opened), axis=0)
    return Importance(
        score_name="total_gain",
        method="stored",
        feature_names=groups.names,
        statistics=without_errors(totals),
        n_rows=0,
        sum_of_weights=float("nan"),
        tested=False,
        has_std_errors=False,
        notes=opened.notes,
        gain_source=totals,
    )


def stored_gains(model: Model) -> FloatArray:
    """Sum of the gains that the model stores, as the library itself reports them: (features,)."""
    e = model.ensemble
    if np.isnan(e.gain).any():
        raise UnsupportedModelError(
            f"This {e.library} model does not store the gains of its splits; on the training rows they are "
            "ti.importance(model, X_train, y_train, method='predecomp').gains."
        )
    inner = e.feature >= 0
    by_column = np.bincount(e.feature[inner], e.gain[inner], minlength=e.schema.n_columns)
    if e.column_features is None:
        return np.asarray(by_column, np.float64)
    totals = np.zeros(e.n_features)
    for gain, features in zip(by_column.tolist(), e.column_features, strict=True):
        for feature in features:
            totals[feature] += gain / len(features)
    return totals
