"""Wrappers of several models: who is inside, which columns and which target each member sees, and with what weight.

A wrapper averages its members by weights, or holds one for each output. What a member is worth to a wrapper that does
neither (a stack under a model of trees) has no number: it says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble import Ensemble
from treeinner.errors import ModelError
from treeinner.readers.targets import Codes, OneClass, TargetColumn
from treeinner.tables.frames import as_frame, to_array

__all__ = ["NOT_FITTED", "Part", "Support", "Wrapper", "held", "members_of"]

NOT_FITTED = "is not fitted yet; call fit first"
FITTED = "model.estimators_"


@dataclass(frozen=True, eq=False)
class Support:
    """The columns of X that a model inside a wrapper sees. It stands among the transformers of a pipeline."""

    positions: NDArray[np.intp]  # may repeat a column (bootstrap_features)
    n_columns: int
    names: tuple[str, ...] | None  # of all columns; None: the wrapper was fitted without names

    @property
    def n_features_in_(self) -> int:
        """Number of columns that come in, as transformers of scikit-learn store it."""
        return self.n_columns

    @property
    def feature_names_in_(self) -> tuple[str, ...]:
        """Their names; missing where they are not known, as there."""
        if self.names is None:
            raise AttributeError("feature_names_in_")
        return self.names

    def transform(self, X: Any) -> Any:
        """X in these columns, as an array, which is what scikit-learn's wrappers hand on."""
        if as_frame(X) is None:
            return X[:, self.positions] if hasattr(X, "shape") else np.asarray(X)[:, self.positions]
        return (np.asarray(X) if self.names is None else to_array(X, self.names))[:, self.positions]

    def widen(self, ensemble: Ensemble) -> Ensemble:
        """Trees on these columns as trees on all columns."""
        return ensemble.on_columns(self.positions, self.n_columns, self.names)

    def get_feature_names_out(self, names: Sequence[str] | None = None) -> list[str]:
        """Names of these columns, from those of all columns."""
        known = self.names or names or [f"f{j}" for j in range(self.n_columns)]
        return [known[j] for j in self.positions]


@dataclass(frozen=True, eq=False)
class Part:
    """One model of a wrapper: a wrapper itself perhaps, a pipeline or a model of trees."""

    name: str
    model: Any
    weight: float = 1.0
    support: Support | None = None  # None: all columns
    target: Callable[[Any], NDArray[Any]] | None = None  # of y; None: y itself


@dataclass(frozen=True, eq=False)
class Wrapper:
    """What a wrapper holds, and how it puts its members together."""

    parts: tuple[Part, ...]
    what: str  # what it does, after "it", where one model was asked for
    where: str = FITTED  # it keeps its members
    note: str = ""  # what its importance does not say
    by_output: bool = False  # every member is an output of its own; else they are averaged
    outputs: tuple[str, ...] | None = None  # names of these outputs, where the wrapper knows them
    refusal: str = ""  # why its members have no weights to be added up with
    kind: str = ""  # name of its class, which `members_of` puts in


def members_of(model: Any, names: Sequence[str]) -> Wrapper | None:
    """Members of a wrapper, one or more; None: it is none. `names` are those of its class and the bases."""
    found = next((WRAPPERS[name] for name in names if name in WRAPPERS), None)
    return None if found is None else replace(found(model), kind=type(model).__name__)


def held(wrapper: Any, *attributes: str) -> Any:
    """What a fitted wrapper keeps under one of these names."""
    for attribute in attributes:
        if hasattr(wrapper, attribute):
            return getattr(wrapper, attribute)
    if getattr(wrapper, "refit", True) is False:
        raise ModelError(
            f"This {type(wrapper).__name__} has refit=False and so holds no fitted model; "
            "fit it with refit=True, or fit the best estimator and pass that."
        )
    raise ModelError(f"This {type(wrapper).__name__} {NOT_FITTED}.")


# -- wrappers that average -----------------------------------------------------------------------------------
def _voting(model: Any) -> Wrapper:
    estimators = held(model, "estimators_")
    weights = model.weights
    if weights is not None:
        weights = [w for w, (_, estimator) in zip(weights, model.estimators, strict=True) if not _dropped(estimator)]
    note, target = "", None
    if hasattr(model, "le_"):
        target = Codes(tuple(model.classes_.tolist()))
        votes = "it averages their probabilities" if model.voting == "soft" else "it counts their votes"
        note = f"Every member is scored on its own margin, not on what the {type(model).__name__} makes of it: {votes}."
    return Wrapper(
        what="averages or counts the votes of several models",
        note=note,
        **_weighted(_names(model), estimators, weights, target),
    )


def _bagging(model: Any) -> Wrapper:
    estimators = held(model, "estimators_")
    classes = getattr(model, "classes_", None)
    target = None if classes is None else Codes(tuple(classes.tolist()))
    n_classes = 0 if classes is None else len(classes)
    names = [f"estimators_[{i}]" for i in range(len(estimators))]
    supports = [_support(model, columns) for columns in model.estimators_features_]
    partial = [name for name, e in zip(names, estimators, strict=True) if len(getattr(e, "classes_", ())) < n_classes]
    refusal = "" if not partial else f"some were fitted on rows without some of the classes, {partial[0]} for one"
    return Wrapper(
        what="averages models fitted on samples of rows and columns",
        where=f"{FITTED} and model.estimators_features_",
        note="" if target is None else "Every member is scored on its own margin, not on the averaged probability.",
        **_weighted(names, estimators, None, target, supports, refusal),
    )


def _calibrated(model: Any) -> Wrapper:
    distinct = {id(part.estimator): part.estimator for part in held(model, "calibrated_classifiers_")}
    classes, first = tuple(model.classes_.tolist()), next(iter(distinct.values()))
    own = list(getattr(first, "classes_", classes))
    # Temperature scaling encodes labels that are strings before it fits.
    target = Codes(classes) if own == list(range(len(classes))) != list(classes) else None
    return Wrapper(
        **_weighted([f"fold {i}" for i in range(len(distinct))], list(distinct.values()), None, target),
        what="averages several models behind calibrators",
        where="part.estimator for part in model.calibrated_classifiers_",
        note="The calibrators, each monotone in the margin of its member, are not scored.",
    )


def _stacking(model: Any) -> Wrapper:
    estimators, final = held(model, "estimators_"), held(model, "final_estimator_")
    last = type(final).__name__
    coefficients: Any = getattr(final, "coef_", None)
    refusal = ""
    if getattr(model, "passthrough", False):
        refusal = f"its last model, {last}, sees the columns of X too (passthrough=True), not through members alone"
    elif coefficients is None:
        refusal = (
            f"its last model, {last}, has no coefficients that weigh the predictions of the others. If it is of trees, "
            "ti.importance(model.final_estimator_, model.transform(X), y) says what they are worth to it"
        )
    elif np.size(coefficients) != len(estimators):
        refusal = f"its last model, {last}, has no coefficient for each member, but for each class of each member"
    elif len(set(model.stack_method_)) > 1:
        refusal = f"its last model, {last}, sees predictions of different kinds ({', '.join(model.stack_method_)})"
    encoded = hasattr(model, "classes_") and model.cv != "prefit" and not isinstance(model.classes_, list)
    return Wrapper(
        what="has a last model that sees the predictions of the others",
        note=f"These are the trees inside: the weights are the coefficients of the last model, {last}, which is not "
        "scored itself.",
        **_weighted(
            _names(model), estimators, None if refusal else np.ravel(coefficients),
            Codes(tuple(model.classes_.tolist())) if encoded else None, refusal=refusal,
        ),
    )  # fmt: skip


def _rfe(model: Any) -> Wrapper:
    estimator, mask = held(model, "estimator_"), held(model, "support_")
    return Wrapper(
        parts=(Part("estimator_", estimator, support=_support(model, np.flatnonzero(mask))),),
        what="selects columns for its model",
        where="model.estimator_",
    )


# -- wrappers with a member per output -----------------------------------------------------------------------
def _multi_output(model: Any) -> Wrapper:
    estimators = held(model, "estimators_")
    n = len(estimators)
    return Wrapper(
        parts=tuple(Part(f"target {t}", e, target=TargetColumn(t, n)) for t, e in enumerate(estimators)),
        what="holds one model per target",
        by_output=True,
    )


def _one_vs_rest(model: Any) -> Wrapper:
    estimators = held(model, "estimators_")
    classes, n = tuple(model.classes_.tolist()), len(estimators)
    labels = [str(label) for label in classes]
    if model.multilabel_:
        targets: list[Any] = [TargetColumn(k, n) for k in range(n)]
    else:  # of two classes there is one model, for the second
        targets = [OneClass(classes, k + (n == 1)) for k in range(n)]
    parts = zip(labels[len(labels) - n :], estimators, targets, strict=True)
    return Wrapper(
        parts=tuple(Part(f"class {label}", estimator, target=target) for label, estimator, target in parts),
        what="holds one model per class",
        by_output=n > 1,
        outputs=tuple(labels) if n > 1 else None,
    )


WRAPPERS: dict[str, Callable[[Any], Wrapper]] = {
    "CalibratedClassifierCV": _calibrated,
    "OneVsRestClassifier": _one_vs_rest,
    "_MultiOutputEstimator": _multi_output,
    "_BaseVoting": _voting,
    "_BaseStacking": _stacking,
    "BaseBagging": _bagging,
    "RFE": _rfe,
}


# -- parts ---------------------------------------------------------------------------------------------------
def _dropped(estimator: Any) -> bool:
    return estimator is None or isinstance(estimator, str)


def _names(model: Any) -> list[str]:
    return [name for name, estimator in model.estimators if not _dropped(estimator)]


def _support(model: Any, columns: Any) -> Support:
    names = getattr(model, "feature_names_in_", None)
    known = None if names is None else tuple(map(str, names))
    return Support(np.asarray(columns, np.intp), int(model.n_features_in_), known)


def _weighted(
    names: Sequence[str],
    estimators: Sequence[Any],
    weights: Any,
    target: Callable[[Any], NDArray[Any]] | None,
    supports: Sequence[Support] | None = None,
    refusal: str = "",
) -> dict[str, Any]:
    """Parts with weights that add up to 1, or why there are none; who has no part in the prediction is left out."""
    n = len(estimators)
    given = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    total = float(given.sum())
    if not refusal and not total > 0:
        refusal = f"the weights of its members are {given.tolist()}, and no mean can be taken with them"
    shares = np.full(n, np.nan) if refusal else given / total
    rows = zip(names, estimators, shares.tolist(), [None] * n if supports is None else supports, strict=True)
    parts = tuple(Part(name, e, weight, support, target) for name, e, weight, support in rows if weight != 0)
    return {"parts": parts, "refusal": refusal}
