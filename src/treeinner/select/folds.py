"""Folds of a cross-validation: which rows are held out from which model."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.utils.validation import _check_method_params

from treeinner.errors import DataError, UnsupportedModelError
from treeinner.read import Model
from treeinner.rows import read_rows
from treeinner.rows.columns import labels
from treeinner.rows.frames import as_frame, collected, names_of
from treeinner.rows.rows import NO_WEIGHT, check_order, finite, given_weights
from treeinner.rows.table import as_array, canonical_csr, is_sparse, refuse_by_name

__all__ = ["Data", "checked_data", "checked_table", "fitted_models", "folds_of_models", "splits", "take_rows"]

Index = NDArray[np.intp]
SAMPLED = 0.02  # share of the training rows that the first tree may have more or less, if it was not fitted on a sample
OTHER_FOLDS = (
    "A model was not fitted on the training rows of its fold: they reach the leaves of its first tree in other "
    "numbers than it stores. Pass cv=the folds of the fits, as (train, test) pairs, and X in the same order."
)
BESIDE_X = ("y", "sample_weight", "base_margin", "qid", "clusters")


@dataclass(frozen=True, eq=False, kw_only=True)
class Data:
    """Everything that has one entry per row, as it goes to fits and scores."""

    X: Any
    y: Any
    sample_weight: Any = None
    base_margin: Any = None
    qid: Any = None
    clusters: Any = None  # rows of one are held out together, and only these are independent
    fit_params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def given(self) -> dict[str, Any]:
        """What a score takes besides X and y."""
        return {"sample_weight": self.sample_weight, "base_margin": self.base_margin, "qid": self.qid}

    def take(self, rows: Index) -> Data:
        """Return some of the rows."""
        taken = {name: take_rows(getattr(self, name), rows) for name in ("X", *BESIDE_X)}
        return Data(**taken, fit_params=_check_method_params(self.X, self.fit_params, rows))


def checked_data(X: Any, y: Any, *, fit_params: Mapping[str, Any] | None = None, **given: Any) -> Data:
    """Check that everything has an entry for every row.

    given: sample_weight, base_margin, qid, and clusters, which scikit-learn calls groups; queries are clusters if there
    are no others.
    """
    given = {name: value for name, value in given.items() if value is not None}
    for name, value in {"y": y, **given}.items():
        check_order(X, value, name)
    X, given["y"] = checked_table(X), _checked_target(y)
    n = int(X.shape[0])
    for name, value in given.items():
        if name in ("qid", "clusters", "groups"):
            given[name] = labels(value, n, name)
        elif name == "sample_weight":
            given[name] = given_weights(value, n)
        elif len(np.atleast_1d(value)) != n:
            raise DataError(f"{name} has {len(np.atleast_1d(value))} entries, but X has {n} rows; pass one per row.")
    if not np.any(given.get("sample_weight", 1)):
        raise DataError(NO_WEIGHT)
    return Data(X=X, fit_params=fit_params or {}, **{"clusters": given.pop("groups", given.get("qid")), **given})


def checked_table(X: Any) -> Any:
    """X as every library reads it alike; what is no table is refused before an estimator meets it.

    Libraries trust the indices of sparse matrices; XGBoost ignores the byte order, and takes one of several entries in
    the same place.
    """
    refuse_by_name(X)
    names_of(X)  # refuses duplicates
    if is_sparse(X) and len(X.shape) == 2:
        X = canonical_csr(X)
    elif isinstance(frame := as_frame(X), nw.DataFrame | nw.LazyFrame):
        X = collected(frame).to_native()
    else:
        X = as_array(X)
        X = X if X.dtype.isnative else X.astype(X.dtype.newbyteorder("="))
    if X.shape[1] == 0:
        raise DataError("X has no columns; pass at least one.")
    return X


def _checked_target(y: Any) -> Any:
    """Y as every library reads it alike; a value that no estimator can be fitted to is refused."""
    if y is None:
        raise DataError("Fitting needs the target: pass y, one value per row of X.")
    refuse_by_name(y, "y")
    values = np.asarray(y)
    if values.dtype.kind == "f":
        finite(values, "y")
    return y if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def take_rows(values: Any, rows: Index) -> Any:
    """Some rows of a table, a column or a list; None stays None."""
    if values is None:
        return None
    frame = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.DataFrame | nw.Series):
        return frame[rows.tolist()].to_native()
    return (values if hasattr(values, "shape") else np.asarray(values))[rows]


# -- splits --------------------------------------------------------------------------------------------------------
def splits(estimator: Any, data: Data, cv: Any, repeats: int, random_state: Any) -> list[tuple[Index, Index, int]]:
    """Folds of every repeat: rows to fit on, rows held out, and a seed for the fit."""
    rng = np.random.default_rng(random_state)
    out = []
    for _ in range(repeats):
        of_folds, of_fits = rng.integers(0, 2**31 - 1, size=2).tolist()
        pairs = _pairs(_splitter(estimator, data, cv, of_folds), data)
        seeds = np.random.default_rng(of_fits).integers(0, 2**31 - 1, size=len(pairs)).tolist()
        out += [(train, test, seed) for (train, test), seed in zip(pairs, seeds, strict=True)]
    return out


def _splitter(estimator: Any, data: Data, cv: Any, seed: int) -> Any:
    """What `check_cv` makes of cv, with shuffled folds, whole clusters where there are any, and a seed."""
    if isinstance(cv, numbers.Integral):
        kind = type(check_cv(cv, data.y, classifier=is_classifier(estimator)))
        return (kind if data.clusters is None else GroupKFold)(int(cv), shuffle=True, random_state=seed)
    found = check_cv(cv)
    if _is_unseeded(found) and found.random_state is None:
        found = copy.copy(found)
        found.random_state = seed
    return found


def _is_unseeded(splitter: Any) -> bool:
    """Whether a splitter gives other folds every time: it shuffles without a seed, or by a generator that moves on."""
    seed = getattr(splitter, "random_state", 0)
    return bool(getattr(splitter, "shuffle", True)) and not isinstance(seed, numbers.Integral)


def _pairs(splitter: Any, data: Data) -> list[tuple[Index, Index]]:
    """Rows to fit on and rows held out; a row that is on both sides is refused, and so is a cluster."""
    try:
        found = [(a, b) for a, b in splitter.split(np.zeros((data.n_rows, 1)), np.asarray(data.y), data.clusters)]
    except ValueError as error:
        raise DataError(f"cv: these rows cannot be split into folds of train and test rows: {error}") from error
    out = []
    for number, pair in enumerate(found):
        train, test = (_row_numbers(rows, number, data.n_rows) for rows in pair)
        if np.isin(test, train).any():
            raise DataError(f"Fold {number} fits on rows that it holds out; train and test rows must differ.")
        for name, of_rows in (("qid", data.qid), ("clusters", data.clusters)):
            torn = [] if of_rows is None else of_rows[test][np.isin(of_rows[test], of_rows[train])]
            if len(torn):
                raise DataError(
                    f"Fold {number} holds out some rows of {name} {torn[0].item()!r} and fits on others of it; pass "
                    "cv=a number of folds, or a splitter by groups, such as GroupKFold."
                )
        out.append((train, test))
    return out


def _row_numbers(given: Any, fold: int, n: int) -> Index:
    """Rows by their numbers, or by a mask."""
    rows = np.asarray(given)
    if rows.dtype == bool:
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or not len(rows) or rows.dtype.kind not in "iu":
        raise ValueError(f"Fold {fold}: expected rows by their numbers or by a mask, at least one to fit and to score.")
    outside = rows[(rows < 0) | (rows >= n)]
    if len(outside):
        raise DataError(f"Fold {fold} names row {outside[0]}, but rows are numbered 0 to {n - 1}.")
    return rows.astype(np.intp)


# -- models that were fitted before ----------------------------------------------------------------------------
def fitted_models(given: Any) -> list[Any] | None:
    """Models of a cross-validation that was run before; None: an estimator that is still to be fitted."""
    if not isinstance(given, list | tuple):
        return None
    if not given:
        raise ValueError("The list of models is empty; pass one fitted model per fold.")
    return list(given)


def folds_of_models(models: Sequence[Any], cv: Any, data: Data) -> tuple[Index, ...]:
    """Rows held out from each of some fitted models: by a splitter, or as given.

    models: what `read_model` returned, or averages.
    """
    if isinstance(cv, str | numbers.Number | None) or _is_unseeded(cv):
        raise ValueError(
            f"cv={cv!r}: fitted models need the rows that each was not fitted on; pass cv=the folds that they were "
            "fitted with: a splitter without random folds or with an integer as random_state, or (train, test) pairs."
        )
    folds = _pairs(check_cv(cv), data)
    if len(folds) != len(models):
        raise ValueError(f"There are {len(models)} models but {len(folds)} folds; pass one fold per model.")
    for model, (train, _) in zip(models, folds, strict=True):
        if isinstance(model, Model):
            _check_training_rows(model, data, train)
    return tuple(test for _, test in folds)


def _check_training_rows(model: Model, data: Data, train: Index) -> None:
    """Raise if the leaves of the first tree tell that the model was fitted on other rows.

    They tell nothing if it was grown on a sample of the rows, but for forests whose samples can be drawn again, or if
    rows count by weights or second derivatives that differ: then the counts of the leaves are no whole numbers, or do
    not add up to the rows.
    """
    trees = model.trees
    if model.out_of_bag is not None:
        given = model, take_rows(data.X, train), take_rows(data.y, train)
        read_rows(*given)  # whatever else may be wrong with them
        try:
            read_rows(*given, oob=True)
            return
        except UnsupportedModelError:  # no samples: every tree saw every row
            pass
        except DataError:
            raise DataError(OTHER_FOLDS) from None
    if data.sample_weight is not None or model.route is not None or np.isnan(trees.cover).any():
        return
    leaves = np.flatnonzero(trees.leaf_id[: trees.start[1]] >= 0)
    stored, n = trees.cover[leaves], len(train)
    if model.library == "xgboost":  # sums of second derivatives, the same for all rows before the first round
        stored = stored * (n / stored.sum())
    counts = np.rint(stored)
    if abs(counts.sum() / n - 1) > SAMPLED or np.abs(stored - counts).max() > min(3e-7 * n, 0.05):  # float32
        return
    reached = np.bincount(model.apply(take_rows(data.X, train), n_jobs=1)[:, 0], minlength=trees.leaf_id.max() + 1)
    if np.any(reached[trees.leaf_id[leaves]] != counts):
        raise DataError(OTHER_FOLDS)
