"""A clone of an estimator, fitted on the training rows of one fold.

What a fit sees are rows of its own fold's training part, nothing else: a library that stops early watches some of
these, never the held-out ones.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, UnsupportedModelError
from treeinner.readers import package_of, reader, transform
from treeinner.selection.folds import Rows, Split, sklearn_module

__all__ = ["fit"]

IntArray = NDArray[np.intp]
WATCHED = 0.1  # share of a fold's training rows that early stopping watches

# Names that the libraries' fit has for what comes with the rows, where they are not ours, and with the watched rows.
FIT_NAMES: dict[str, dict[str, str]] = {
    "xgboost": {},
    "lightgbm": {"base_margin": "init_score", "qid": "group"},
    "catboost": {"base_margin": "baseline", "qid": "group_id"},
}
WATCHED_NAMES = {
    "xgboost": {"sample_weight": "sample_weight_eval_set", "base_margin": "base_margin_eval_set", "qid": "eval_qid"},
    "lightgbm": {"sample_weight": "eval_sample_weight", "base_margin": "eval_init_score", "qid": "eval_group"},
}
STOPPING = (
    "early_stopping_rounds", "early_stopping_round", "early_stopping", "n_iter_no_change", "od_wait", "od_type",
)  # fmt: skip


def fit(estimator: Any, rows: Rows, split: Split) -> Any:
    """Return a clone of the estimator, fitted on the training rows of a fold."""
    pipeline = sklearn_module("pipeline")
    if "eval_set" in rows.fit_params or any(name.endswith("__eval_set") for name in rows.fit_params):
        raise ValueError(
            "fit_params has an eval_set, whose rows may be held out in a fold; leave it out: for early stopping every "
            f"fold watches {WATCHED:.0%} of its own training rows."
        )
    model = _cloned(estimator)
    _seed(model, split.seed)
    last = model.steps[-1][1] if isinstance(model, pipeline.Pipeline) else model
    stops = _stops_early(last, rows.fit_params)
    library = package_of(last)
    train = rows.take(split.train)
    _check_classes(last, rows, train)
    prefix = "" if last is model else f"{model.steps[-1][0]}__"
    if not stops:
        if any(_stops_early(part, {}) for part in _nested(last)):
            raise UnsupportedModelError(
                f"An estimator inside {type(last).__name__} stops early, and the rows that it may watch cannot be "
                "passed to it; switch early stopping off, or pass the estimator itself."
            )
        model.fit(train.X, train.y, **_fit_arguments(library, train, prefix))
        return model
    inside, watched = _watched(train, split)
    if last is not model:
        before = model[:-1]
        own = {name.removeprefix(prefix): v for name, v in inside.fit_params.items() if name.startswith(prefix)}
        others = {name: value for name, value in inside.fit_params.items() if not name.startswith(prefix)}
        X = before.fit_transform(inside.X, inside.y, **others) if len(before) else inside.X
        watched_X = transform(tuple(step for _, step in before.steps if hasattr(step, "fit")), watched.X)
        inside, watched = replace(inside, X=X, fit_params=own), replace(watched, X=watched_X)
        model = pipeline.Pipeline([*before.steps, model.steps[-1]])
    last.fit(inside.X, inside.y, **(_watching(last, library, watched) | _fit_arguments(library, inside, "")))
    return model


def _cloned(estimator: Any) -> Any:
    try:
        return sklearn_module("base").clone(estimator)
    except RuntimeError:  # CatBoost copies the lists that it is given (cat_features), which clone takes for a fault
        return copy.deepcopy(estimator)


def _fit_arguments(library: str, rows: Rows, prefix: str) -> dict[str, Any]:
    """What goes to fit besides X and y; prefix: of the last step's arguments in a pipeline."""
    out = dict(rows.fit_params)
    for name, value in _given(library, rows).items():
        if name != "sample_weight" and library not in FIT_NAMES:
            raise ValueError(f"{name} has no meaning for an estimator of {library or 'an unknown library'}.")
        out[prefix + FIT_NAMES.get(library, {}).get(name, name)] = value
    return out


def _given(library: str, rows: Rows) -> dict[str, Any]:
    """What came with the rows, by our names; in place of the queries LightGBM takes their sizes."""
    given = {name: value for name, value in rows.given.items() if value is not None}
    if library == "lightgbm" and "qid" in given:
        given["qid"] = _query_sizes(given["qid"])
    return given


def _query_sizes(qid: Any) -> IntArray:
    """Sizes of queries, whose rows follow one another."""
    labels = np.asarray(qid)
    starts = np.flatnonzero(np.r_[True, labels[1:] != labels[:-1]])
    if len(starts) != len(np.unique(labels)):
        raise DataError("LightGBM needs the rows of a query next to each other; sort X, y and qid by qid.")
    return np.asarray(np.diff(np.r_[starts, len(labels)]), np.intp)


def _watching(estimator: Any, library: str, rows: Rows) -> dict[str, Any]:
    """Arguments that give early stopping its rows."""
    if library == "catboost":
        pool = reader("catboost").pool(estimator, rows.X, rows.y, rows.sample_weight, rows.base_margin, rows.qid)
        return {"eval_set": pool}
    out: dict[str, Any] = {"eval_set": [(rows.X, rows.y)]} | ({"verbose": False} if library == "xgboost" else {})
    return out | {WATCHED_NAMES[library][name]: [value] for name, value in _given(library, rows).items()}


def _watched(train: Rows, split: Split) -> tuple[Rows, Rows]:
    """Cut the rows that early stopping watches off a fold's training rows: whole groups, or the latest ones."""
    n = len(train)
    if n < 2:
        raise DataError("A fold has too few training rows for early stopping; pass fewer folds or more rows.")
    rng = np.random.default_rng(split.seed)
    if split.in_time:
        watched = np.arange(n) >= n - max(1, round(WATCHED * n))
    elif train.groups is not None:
        labels, of_row = np.unique(np.asarray(train.groups), return_inverse=True)
        chosen = rng.permutation(len(labels))[: max(1, round(WATCHED * len(labels)))]
        watched = np.isin(of_row, chosen)
    else:
        watched = np.zeros(n, bool)
        for rows in _strata(train.y, n):
            watched[rng.permutation(rows)[: max(1, round(WATCHED * len(rows)))]] = len(rows) > 1
    if watched.all() or not watched.any():
        raise DataError("A fold has too few training rows or groups for early stopping; pass fewer folds.")
    return train.take(np.flatnonzero(~watched)), train.take(np.flatnonzero(watched))


def _strata(y: Any, n: int) -> Sequence[IntArray]:
    """Rows by class, where the target has classes with several rows each; else all rows."""
    labels = np.asarray(y)
    if labels.ndim == 1:
        classes, of_row, counts = np.unique(labels, return_inverse=True, return_counts=True)
        if len(classes) <= max(2, n // 20) and counts.min() >= 2:
            return [np.flatnonzero(of_row == k) for k in range(len(classes))]
    return [np.arange(n)]


def _check_classes(estimator: Any, rows: Rows, train: Rows) -> None:
    """Raise if a fold is fitted without some class: its model would have other outputs."""
    if not sklearn_module("base").is_classifier(estimator) or np.ndim(rows.y) != 1:
        return
    missing = np.setdiff1d(np.asarray(rows.y), np.asarray(train.y))
    if len(missing):
        raise DataError(
            f"The training rows of a fold have no row of class {missing[0].item()!r}; use folds by class "
            "(StratifiedKFold), fewer folds, or leave the class out."
        )


def _stops_early(estimator: Any, fit_params: Mapping[str, Any]) -> bool:
    """Whether an estimator's fit wants rows to watch; scikit-learn's own takes them from the training rows."""
    if package_of(estimator) not in ("xgboost", "lightgbm", "catboost"):
        return False
    params = estimator.get_params()
    given = [value for name, value in fit_params.items() if name.split("__")[-1] == "callbacks"]
    callbacks = [callback for some in (params.get("callbacks"), *given) for callback in some or ()]
    if any("earlystop" in type(callback).__name__.replace("_", "").lower() for callback in callbacks):
        return True
    return any(params.get(name) not in (None, 0, False, -1) for name in STOPPING)


def _nested(estimator: Any) -> Iterator[Any]:
    """Estimators among the parameters of one, at any depth."""
    if hasattr(estimator, "get_params"):
        for value in estimator.get_params(deep=True).values():
            if hasattr(value, "get_params") and not isinstance(value, type):
                yield value


def _seed(estimator: Any, seed: int) -> None:
    """Give every fit random numbers of its own, where the user chose none."""
    for part in (estimator, *_nested(estimator)):
        params = part.get_params(deep=False)
        library = package_of(part)
        if library == "catboost" and not {"random_seed", "random_state"} & set(params):
            part.set_params(random_seed=seed)
        elif params.get("random_state", 0) is None:
            part.set_params(random_state=seed)
