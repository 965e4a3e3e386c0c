"""Folds of a cross-validation: which rows are held out from which model."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, MissingDependencyError, counted
from treeinner.scores.batch import NO_WEIGHT, checked_weights
from treeinner.tables import as_read, refuse_by_name
from treeinner.tables.arrays import PASS_A_TABLE
from treeinner.tables.batches import n_rows_of
from treeinner.tables.columns import unmasked
from treeinner.tables.frames import as_frame, names_of

__all__ = [
    "Rows", "Split", "checked_rows", "column_of", "fitted_models", "held_out", "put_column", "sklearn_module", "splits",
    "take_rows",
]  # fmt: skip

IntArray = NDArray[np.intp]
BESIDE_X = ("y", "sample_weight", "base_margin", "qid", "groups", "clusters")


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """Everything that has one entry per row."""

    X: Any
    y: Any
    sample_weight: Any = None
    base_margin: Any = None
    qid: Any = None
    groups: Any = None  # rows of one are held out together
    clusters: Any = None  # only these are independent
    fit_params: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return n_rows_of(self.X)

    @property
    def given(self) -> dict[str, Any]:
        """What a score takes besides X and y."""
        return {"sample_weight": self.sample_weight, "base_margin": self.base_margin, "qid": self.qid}

    def take(self, rows: IntArray) -> Rows:
        """Return some of the rows."""
        n = len(self)
        taken = {name: take_rows(getattr(self, name), rows) for name in ("X", *BESIDE_X)}
        fit_params = {name: take_rows(v, rows) if _per_row(v, n) else v for name, v in self.fit_params.items()}
        return Rows(**taken, fit_params=fit_params)


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to fit on and rows held out, of one fold."""

    train: IntArray
    test: IntArray
    seed: int
    in_time: bool = False  # whether later rows must not be seen


def checked_rows(X: Any, y: Any, *, fit_params: Mapping[str, Any] | None = None, **given: Any) -> Rows:
    """Rows with an entry for each in everything that was given; queries are groups, and groups are clusters."""
    rows = Rows(X=_checked_table(X), y=_checked_target(y), fit_params=dict(fit_params or {}), **given)
    n = len(rows)
    if rows.sample_weight is not None:
        rows = replace(rows, sample_weight=checked_weights(rows.sample_weight, n))
        if not rows.sample_weight.any():
            raise DataError(NO_WEIGHT)
    for name in BESIDE_X:
        value = getattr(rows, name)
        if value is not None and n_rows_of(value) != n:
            what = "labels" if name in ("qid", "groups", "clusters") else "entries"
            raise DataError(f"{name} has {n_rows_of(value)} {what}, but X has {counted(n, 'row')}; pass one per row.")
    groups = rows.qid if rows.groups is None else rows.groups
    clusters = groups if rows.clusters is None else rows.clusters
    return replace(rows, groups=groups, clusters=None if clusters is None else np.asarray(clusters))


def _checked_table(X: Any) -> Any:
    """X as every library reads it alike; what is no table is refused before an estimator meets it."""
    if X is None:
        raise DataError(f"X is None, expected a table; {PASS_A_TABLE}")
    refuse_by_name(X)
    names_of(X)  # refuses duplicates
    collect = getattr(as_frame(X), "collect", None)  # of a lazy frame
    X = as_read(X) if collect is None else collect().to_native()
    if getattr(X, "shape", ())[1:] == (0,):
        raise DataError("X has no columns; pass at least one.")
    return X


def _checked_target(y: Any) -> Any:
    """Y as every library reads it alike; a value that no estimator can be fitted to is refused."""
    if y is None:
        raise DataError("Fitting needs the target: pass y, one value per row of X.")
    y = as_read(unmasked(y, "y"))
    values = np.asarray(y)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = np.argwhere(~np.isfinite(values))[0][0]
        raise DataError(f"y holds {values[row]} in row {row}, expected finite numbers; drop such rows of X and y.")
    return y


def take_rows(values: Any, rows: IntArray) -> Any:
    """Some rows of a table, a column or a list; None stays None."""
    if values is None:
        return None
    frame = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, (nw.DataFrame, nw.Series)):
        return frame[rows.tolist()].to_native()
    if isinstance(values, (list, tuple)):
        values = np.asarray(values)
    return (values.tocsr() if hasattr(values, "tocsr") else values)[rows]


def column_of(X: Any, column: int) -> Any:
    """One column of a table, as a series or an array."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame[frame.columns[column]].to_native()
    return X[:, [column]].toarray()[:, 0] if hasattr(X, "toarray") else np.asarray(X)[:, column]


def put_column(X: Any, column: int, values: Any) -> Any:
    """Table with another column in the place of one: values as `column_of` gives them, or an array."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        name = frame.columns[column]
        if isinstance(values, np.ndarray):
            series = nw.new_series(name, values, backend=frame.implementation)
        else:
            series = nw.from_native(values, series_only=True).alias(name)
        return frame.with_columns(series).to_native()
    if hasattr(X, "tocsc"):
        from scipy.sparse import hstack

        parts = (X.tocsc()[:, :column], np.asarray(values, np.float64).reshape(-1, 1), X.tocsc()[:, column + 1 :])
        return hstack([part for part in parts if part.shape[1]]).tocsr()
    out = np.array(X)
    if out.dtype.kind in "iub" and np.asarray(values).dtype.kind == "f":
        out = out.astype(np.float64)
    out[:, column] = values
    return out


def _per_row(value: Any, n: int) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes, Mapping)) and n_rows_of(value) == n


# -- splits --------------------------------------------------------------------------------------------------------
def splits(estimator: Any, rows: Rows, cv: Any, repeats: int, rng: np.random.Generator) -> list[Split]:
    """Folds of every repeat; integers are shuffled folds: by class for classifiers, by group where there are groups."""
    out = []
    for _ in range(repeats):
        seeds = rng.integers(0, 2**31 - 1, size=2)
        splitter = _splitter(estimator, rows, cv, int(seeds[0]))
        in_time = type(splitter).__name__ == "TimeSeriesSplit"
        parts = list(_split(splitter, rows))
        fold_seeds = np.random.default_rng(seeds[1]).integers(0, 2**31 - 1, size=len(parts))
        for (train, test), seed in zip(parts, fold_seeds.tolist(), strict=True):
            out.append(Split(train, test, seed, in_time))
    for number, split in enumerate(out):
        _check_split(split, number, len(rows))
    return out


def _splitter(estimator: Any, rows: Rows, cv: Any, seed: int) -> Any:
    selection, base = sklearn_module("model_selection"), sklearn_module("base")
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        if cv < 2:
            raise ValueError(f"cv={cv}: expected at least 2 folds.")
        if cv > len(rows):
            raise DataError(f"cv={cv}: X has only {counted(len(rows), 'row')}; pass fewer folds.")
        if rows.groups is not None:
            return selection.GroupKFold(int(cv), shuffle=True, random_state=seed)
        if base.is_classifier(estimator) and np.ndim(rows.y) == 1:
            classes, counts = np.unique(np.asarray(rows.y), return_counts=True)
            if counts.min() >= cv:
                return selection.StratifiedKFold(int(cv), shuffle=True, random_state=seed)
            raise DataError(
                f"Class {classes[counts.argmin()].item()!r} has {counted(int(counts.min()), 'row')}, fewer than the "
                f"{cv} folds, so that some folds would not have it; pass fewer folds, or leave the class out."
            )
        return selection.KFold(int(cv), shuffle=True, random_state=seed)
    if hasattr(cv, "split") and not isinstance(cv, str):
        if getattr(cv, "shuffle", True) and getattr(cv, "random_state", 0) is None:
            cv = copy.copy(cv)
            cv.random_state = seed
        return cv
    if np.iterable(cv) and not isinstance(cv, str):
        return list(cv)
    raise TypeError(f"cv={cv!r}: expected a number of folds, a scikit-learn splitter, or (train, test) pairs of rows.")


def _split(splitter: Any, rows: Rows) -> Iterator[tuple[IntArray, IntArray]]:
    if isinstance(splitter, list):
        pairs: Any = splitter
    else:
        try:
            pairs = list(splitter.split(np.zeros((len(rows), 1)), np.asarray(rows.y), rows.groups))
        except ValueError as error:
            raise DataError(f"{type(splitter).__name__} cannot split these rows: {error}") from error
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError("cv: expected (train, test) pairs of row numbers, one pair per fold.")
        yield _row_numbers(pair[0]), _row_numbers(pair[1])


def _row_numbers(given: Any) -> IntArray:
    rows = np.asarray(given)
    if rows.dtype == bool:
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise TypeError("cv: expected rows by their numbers, or by a mask of True and False.")
    return rows.astype(np.intp)


def _check_split(split: Split, number: int, n: int) -> None:
    _check_rows(split.train, "train", number, n)
    _check_rows(split.test, "test", number, n)
    if np.isin(split.test, split.train).any():
        raise DataError(f"Fold {number} fits on rows that it holds out; train and test rows must differ.")


def _check_rows(rows: IntArray, name: str, number: int, n: int) -> None:
    if len(rows) == 0:
        raise DataError(f"Fold {number} has no {name} rows; pass fewer folds or more rows.")
    outside = rows[(rows < 0) | (rows >= n)]
    if len(outside):
        raise DataError(f"Fold {number} names row {outside[0]}, but rows are numbered 0 to {n - 1}.")


def sklearn_module(module: str) -> Any:
    """Import a module of scikit-learn, or say what needs it."""
    try:
        return import_module(f"sklearn.{module}")
    except ImportError as error:
        raise MissingDependencyError(
            "Cross-fitting needs scikit-learn; install it: pip install 'treeinner[sklearn]'."
        ) from error


# -- models that were fitted before ----------------------------------------------------------------------------
def fitted_models(given: Any) -> list[Any] | None:
    """Models of a cross-validation that was run before; None: an estimator that is still to be fitted.

    Takes what lgb.cv(return_cvbooster=True) and catboost.cv(return_models=True) return, the boosters of xgb.cv as a
    callback sees them, and any list.
    """
    if isinstance(given, dict) and "cvbooster" in given:
        given = given["cvbooster"]
    if hasattr(type(given), "boosters") or "boosters" in getattr(given, "__dict__", {}):
        given = given.boosters
    elif hasattr(given, "cvfolds"):  # what a callback of xgb.cv is called with
        given = [fold.bst for fold in given.cvfolds]
    elif isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], list):  # of catboost.cv
        given = given[1]
    if not isinstance(given, (list, tuple)):
        return None
    if not given:
        raise ValueError("The list of models is empty; pass one fitted model per fold.")
    return list(given)


def held_out(cv: Any, rows: Rows, n_models: int) -> list[Split]:
    """Return the rows held out from every one of some fitted models: by a splitter, or as given."""
    if hasattr(cv, "split") and not isinstance(cv, str):
        pairs = list(_split(cv, rows))
    elif np.iterable(cv) and not isinstance(cv, str):
        given = list(cv)
        tests = [item[1] if isinstance(item, tuple) and len(item) == 2 else item for item in given]
        pairs = [(np.empty(0, np.intp), _row_numbers(test)) for test in tests]
    else:
        raise TypeError(
            f"cv={cv!r}: fitted models need the rows that each was not fitted on; pass cv=the folds that they were "
            "fitted with: a splitter, (train, test) pairs, or a list of held-out rows."
        )
    if len(pairs) != n_models:
        raise ValueError(f"There are {n_models} models but {len(pairs)} folds; pass one fold per model.")
    out = [Split(train, test, 0) for train, test in pairs]
    for number, split in enumerate(out):
        _check_rows(split.test, "held-out", number, len(rows))
    return out
