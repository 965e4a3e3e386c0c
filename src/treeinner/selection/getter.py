"""importance_getter(): held-out scores for SelectFromModel and RFE."""

from __future__ import annotations

import sys
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError
from treeinner.model import open_model
from treeinner.options import ReadOptions
from treeinner.scores.importance import importance
from treeinner.tables.frames import as_frame, collected
from treeinner.tables.schema import not_two_dimensional

__all__ = ["ImportanceGetter", "importance_getter"]

FloatArray = NDArray[np.float64]
BELOW = 1e-6  # scores of 0 and below come out below this share of the smallest positive one


def importance_getter(X: Any, y: Any, **settings: Any) -> ImportanceGetter:
    """Held-out scores as the `importance_getter` of SelectFromModel, RFE or RFECV.

    Parameters
    ----------
    X, y : table and target
        Rows that the selector's own `fit` does not get: all columns, in its order.
    **settings
        For `importance`: score, method, sample_weight, n_jobs and others.

    Returns
    -------
    callable
        getter(estimator) -> score of every column that the estimator was fitted on, none of them negative:
        SelectFromModel takes absolute values and RFE squares, after which a harmful feature would look useful. Scores
        of 0 and below are tiny positive numbers instead, in their order.

    Warns
    -----
    TreeInnerWarning
        If rows that the estimator was fitted on are among X, and whatever else `importance` says.

    Notes
    -----
    RFE fits on fewer and fewer columns, without names. Which ones they are is read from the running RFE; an estimator
    on fewer columns without names from anywhere else is refused.
    """
    return ImportanceGetter(X, y, settings)


class ImportanceGetter:
    """Scores of a fitted estimator on the rows given."""

    def __init__(self, X: Any, y: Any, settings: dict[str, Any]) -> None:
        frame = as_frame(X)
        self._X = collected(frame) if isinstance(frame, (nw.DataFrame, nw.LazyFrame)) else X
        if not isinstance(self._X, nw.DataFrame) and not hasattr(X, "tocsc"):
            self._X = np.asarray(X)
        if len(self._X.shape) != 2:
            raise not_two_dimensional(self._X.shape)
        self._y, self._settings = y, settings

    def __deepcopy__(self, memo: Any) -> ImportanceGetter:
        return self  # clone() copies parameters; this one never changes, and holds data

    def __repr__(self) -> str:
        return f"importance_getter(X of {self._X.shape[0]:,} rows and {self._X.shape[1]:,} columns, y)"

    def __call__(self, estimator: Any) -> FloatArray:
        """Scores of the columns that the estimator was fitted on, none of them negative."""
        columns = self._columns(estimator)
        X = self._X
        if columns is not None:
            X = X.tocsc()[:, columns] if hasattr(X, "tocsc") else X[:, columns.tolist()]
        if isinstance(X, nw.DataFrame):  # RFE fits on arrays, and a step of a pipeline may mind names that it never saw
            plain = not hasattr(estimator, "feature_names_in_") and all(t.is_numeric() for t in X.schema.values())
            X = X.to_numpy() if plain else X.to_native()
        return _positive(importance(estimator, X, self._y, **self._settings).scores)

    def _columns(self, estimator: Any) -> NDArray[np.intp] | None:
        """Positions of the estimator's columns; None: all of them."""
        n = self._X.shape[1]
        names = getattr(estimator, "feature_names_in_", None)
        if names is not None and isinstance(self._X, nw.DataFrame):
            at = {str(name): k for k, name in enumerate(self._X.columns)}
            missing = [str(name) for name in names if name not in at]
            if missing:
                raise DataError(
                    f"The estimator was fitted on {missing[0]!r}, which importance_getter's X does not have; pass "
                    "held-out rows with all columns."
                )
            return np.array([at[name] for name in names], np.intp)
        used = _n_columns(estimator)
        if used == n:
            return None
        columns = _columns_of_rfe(n)
        if columns is None or len(columns) != used:
            raise DataError(
                f"The estimator was fitted on {used} columns without names, but importance_getter's X has {n}, and it "
                "cannot be known which of them these are; fit on a data frame, or pass an X with these columns."
            )
        return columns


def _n_columns(estimator: Any) -> int:
    known = getattr(estimator, "n_features_in_", None)
    return int(known) if known is not None else open_model(estimator, ReadOptions()).n_features


def _columns_of_rfe(n: int) -> NDArray[np.intp] | None:
    """Columns of the step of RFE that is asking; None if it is not RFE, or fits on other columns than X has.

    RFE hands over an estimator fitted on an array of some columns, and says nowhere which. It knows; a getter that
    counted steps instead could be wrong without notice.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        local = frame.f_locals
        kinds = [kind.__name__ for kind in type(local.get("self")).__mro__]
        if "RFE" in kinds and isinstance(local.get("features"), np.ndarray):
            return local["features"] if np.size(local.get("support_", ())) == n else None
    return None


def _positive(scores: FloatArray) -> FloatArray:
    """The scores with those of 0 and below as tiny numbers, in the same order."""
    helps = scores > 0
    unit = BELOW * (scores[helps].min() if helps.any() else 1.0)
    lower = np.unique(scores[~helps], return_inverse=True)[1]
    out = scores.copy()
    out[~helps] = unit * (lower + 1) / (len(scores) + 1)
    return out
