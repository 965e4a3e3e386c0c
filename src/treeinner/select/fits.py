"""A clone of an estimator, fitted on the training rows of one fold, and on nothing else."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import type_of_target

from treeinner.errors import DataError, UnsupportedModelError, listing
from treeinner.read.unwrap import package_of
from treeinner.rows.frames import as_frame
from treeinner.select.folds import Data, Index

__all__ = ["check_fit", "fit", "with_categories"]

# Names that the libraries' fit has for what comes with the rows, where they are not ours.
FIT_NAMES: dict[str, dict[str, str]] = {
    "xgboost": {},
    "lightgbm": {"base_margin": "init_score", "qid": "group"},
    "catboost": {"base_margin": "baseline", "qid": "group_id"},
}
# Arguments without which the libraries take no categories, and a value; LightGBM needs none.
CATEGORIES = {
    "xgboost": ("enable_categorical", "True"),
    "catboost": ("cat_features", "[...]"),
    "sklearn": ("categorical_features", "'from_dtype'"),
}
STOPPING = ("early_stopping_rounds", "early_stopping_round", "early_stopping", "od_wait", "od_type")


def check_fit(estimator: Any, data: Data) -> None:
    """Raise if y is no target of the estimator, or if a fit would watch rows that may be held out in a fold.

    scikit-learn's own estimators stop early by rows of their training part, which is allowed.
    """
    if isinstance(estimator, type):
        raise TypeError(f"estimator is the class {estimator.__name__}; pass an instance: {estimator.__name__}().")
    fit_params = data.fit_params
    if is_classifier(estimator) and np.ndim(data.y) == 1:
        if type_of_target(data.y) == "continuous":
            raise DataError(f"y holds fractions, but {type(estimator).__name__} is a classifier; pass a regressor.")
        if len(classes := np.unique(np.asarray(data.y))) < 2:
            raise DataError(f"y is {classes[0].item()!r} in every row; there is nothing for a feature to tell.")
    if any(name.split("__")[-1] == "eval_set" for name in fit_params):
        raise ValueError("fit_params has an eval_set, whose rows may be held out in a fold; leave it out.")
    given = [each for name, some in fit_params.items() if name.split("__")[-1] == "callbacks" for each in some or ()]
    for part in (estimator, *_nested(estimator)):
        if package_of(part) not in FIT_NAMES or not hasattr(part, "get_params"):
            continue
        params = part.get_params()
        watching = [*given, *(params.get("callbacks") or ())]
        stops = any("earlystop" in type(each).__name__.replace("_", "").lower() for each in watching)
        if stops or any(params.get(name) not in (None, 0, False, -1) for name in STOPPING):
            raise UnsupportedModelError(
                f"{type(part).__name__} stops early, which needs rows beside those of a fold; switch early stopping "
                "off and set the number of rounds, such as the best_iteration of a run that stopped."
            )


def fit(estimator: Any, data: Data, rows: Index, seed: int) -> Any:
    """Return a clone of the estimator, fitted on the training rows of a fold."""
    try:
        model = clone(estimator)
    except RuntimeError:  # CatBoost copies the lists that it is given (cat_features), which clone takes for a fault
        model = copy.deepcopy(estimator)
    for part in (model, *_nested(model)):
        _seed(part, seed)
    train, last, prefix = data.take(rows), model, ""
    if isinstance(model, Pipeline):
        prefix, last = f"{model.steps[-1][0]}__", model.steps[-1][1]
    _check_classes(last, data, train)
    model.fit(train.X, train.y, **_fit_arguments(package_of(last), train, prefix))
    return model


def with_categories(estimator: Any, X: Any) -> Any:
    """X with its columns of text as categories, as boosters take them; pipelines get them as they are."""
    frame = as_frame(X)
    if not isinstance(frame, nw.DataFrame) or next(_nested(estimator), None) is not None:
        return X
    kinds = frame.schema.items()
    words = {name for name, kind in kinds if kind == nw.Object and str in map(type, frame[name].to_list())}
    text = [name for name, kind in kinds if kind == nw.String or name in words]
    labelled = [*text, *(name for name, kind in kinds if isinstance(kind, nw.Categorical | nw.Enum))]
    known = (nw.Boolean, nw.Object)
    if other := [name for name, kind in kinds if not (kind.is_numeric() or kind in known or name in labelled)]:
        raise DataError(f"Columns {listing(other)} hold neither numbers nor text; make them numbers, or drop them.")
    option, value = CATEGORIES.get(package_of(estimator), ("", ""))
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    if labelled and option and params.get(option) in (None, False):
        kind = type(estimator).__name__
        forest = package_of(estimator) == "sklearn" and not hasattr(estimator, option)
        cure = "encode them in a Pipeline before it" if forest else f"set {option}={value}"
        raise DataError(f"Columns {listing(labelled)} hold text or categories, which {kind} does not take; {cure}.")
    # XGBoost 3.2 misreads Arrow's categories in parts of a table, LightGBM 4.7 ends the process at those of polars.
    if labelled and (frame.implementation.is_pyarrow() or package_of(estimator) == "lightgbm"):
        frame = nw.from_native(frame.to_pandas(), eager_only=True)
    if frame.implementation.is_polars():  # XGBoost 3.4 takes no polars.Categorical
        held = [frame[name].cast(nw.String) for name in labelled]
        return frame.with_columns(*(each.cast(nw.Enum(each.drop_nulls().unique().sort())) for each in held)).to_native()
    return frame.with_columns(nw.col(text).cast(nw.Categorical)).to_native() if text else frame.to_native()


def _nested(estimator: Any) -> Iterator[Any]:
    """Estimators among the parameters of one, at any depth."""
    for value in estimator.get_params(deep=True).values() if hasattr(estimator, "get_params") else ():
        if hasattr(value, "get_params") and not isinstance(value, type):
            yield value


def _seed(estimator: Any, seed: int) -> None:
    """Give a fit random numbers of its own, where the user chose none."""
    params = estimator.get_params(deep=False)
    if params.get("random_state", 0) is None:
        estimator.set_params(random_state=seed)
    elif package_of(estimator) == "catboost" and not {"random_seed", "random_state"} & set(params):
        estimator.set_params(random_seed=seed)


def _check_classes(estimator: Any, data: Data, train: Data) -> None:
    """Raise if a fold is fitted without some class: its model would have other outputs."""
    classes = is_classifier(estimator) and np.ndim(data.y) == 1
    if classes and len(missing := np.setdiff1d(np.asarray(data.y), np.asarray(train.y))):
        raise DataError(
            f"The training rows of a fold have no row of class {missing[0].item()!r}; use folds by class "
            "(StratifiedKFold), fewer folds, or leave the class out."
        )


def _fit_arguments(library: str, data: Data, prefix: str) -> dict[str, Any]:
    """What goes to fit besides X and y; prefix: of the last step's arguments in a pipeline."""
    out = dict(data.fit_params)
    for name, value in data.given.items():
        if value is None:
            continue
        if name != "sample_weight" and library not in FIT_NAMES:
            raise ValueError(f"{name} has no meaning for an estimator of {library or 'an unknown library'}.")
        sizes = library == "lightgbm" and name == "qid"
        out[prefix + FIT_NAMES.get(library, {}).get(name, name)] = _query_sizes(value) if sizes else value
    return out


def _query_sizes(qid: NDArray[Any]) -> NDArray[np.intp]:
    """Sizes of queries, whose rows follow one another: what LightGBM takes in place of their labels."""
    starts = np.flatnonzero(np.r_[True, qid[1:] != qid[:-1]])
    if len(starts) != len(np.unique(qid)):
        raise DataError("LightGBM needs the rows of a query next to each other; sort X, y and qid by qid.")
    return np.asarray(np.diff(np.r_[starts, len(qid)]), np.intp)
