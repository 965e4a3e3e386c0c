"""cross_importance(): every row is scored by a model that has not seen it.

The shares of rows (scores/row_shares.py) of all folds are put together, averaged over the repeats, and give one
Importance. Models of different folds share training rows; that their p values hold all the same is measured
(docs/selection-promise.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.compiled import Progress
from treeinner.errors import DataError, UnsupportedModelError, counted, speak
from treeinner.inference import check_confidence, from_clusters
from treeinner.model import Model, open_model
from treeinner.options import ReadOptions
from treeinner.scores.accumulator import CONFIDENCE
from treeinner.scores.arguments import check_integer
from treeinner.scores.conclude import overshoot_notes
from treeinner.scores.importance import importance
from treeinner.scores.members import check_arguments_for_members, shares_of_members
from treeinner.scores.parts import FoldSpread, Losses
from treeinner.scores.result import Importance
from treeinner.scores.row_shares import RowShares, importance_of_shares, row_shares
from treeinner.scores.training_rows import training_rows_note
from treeinner.selection.fits import fit
from treeinner.selection.folds import Rows, Split, checked_rows, fitted_models, held_out, sklearn_module, splits
from treeinner.tables.frames import names_of
from treeinner.wrapped import open_members

__all__ = ["CrossFit", "Fold", "cross_fit", "cross_importance", "in_parallel"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fold:
    """A fitted model and the rows that it was not fitted on."""

    model: Any  #: a Model; or a wrapper of several models, such as a VotingRegressor, as it was fitted
    rows: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class CrossFit:
    """The models of all folds, and what they found."""

    rows: Rows
    folds: tuple[Fold, ...]
    importance: Importance
    shares: FloatArray  #: (rows, features, outputs), averaged over the folds that held a row out; 0 if none did
    weight: FloatArray | None  #: (rows,); 0 for rows that no fold held out; None: every row counts as 1

    def std_errors_of(self, shares: FloatArray) -> FloatArray:
        """Standard errors per row of the sums of shares of the same rows, (rows, columns): (columns,)."""
        weight = np.ones(len(shares)) if self.weight is None else self.weight
        seen = weight > 0
        units = shares[seen]
        if self.rows.clusters is not None:
            _, of_row = np.unique(self.rows.clusters[seen], return_inverse=True)
            sums = np.zeros((int(of_row.max()) + 1, shares.shape[1]))
            np.add.at(sums, of_row, units)
            units = sums
        return np.asarray(from_clusters(units).std_error / weight.sum())


def cross_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    repeats: int = 1,
    groups: Any = None,
    sample_weight: Any = None,
    fit_params: Mapping[str, Any] | None = None,
    base_margin: Any = None,
    qid: Any = None,
    clusters: Any = None,
    score: str = "tree_inner",
    method: Any = None,
    feature_groups: Any = None,
    confidence: float = CONFIDENCE,
    random_state: int | None = None,
    n_jobs: int | None = 1,
    progress: Progress | None = None,
    **reading: Any,
) -> Importance:
    """Importance of every feature, every row held out once per repeat.

    Parameters
    ----------
    estimator : estimator, Pipeline, or fitted models
        It is cloned and fitted once per fold. Or models of a cross-validation that was run before, one per fold: a
        list, lgb.cv(..., return_cvbooster=True), catboost.cv(..., return_models=True), or what a callback of xgb.cv
        sees; cv must then be the folds that they were fitted with.
    X, y : table and target
        All rows.
    cv : int, splitter or iterable
        Number of shuffled folds (by class for classifiers, whole groups where there are groups), a scikit-learn
        splitter, or (train, test) pairs of row numbers. Rows that no fold holds out are not scored.
    repeats : int
        How often the rows are cut into folds anew; shares are averaged over the repeats. Estimators without a
        random_state of their own get a new one in every fit.
    groups : array, optional
        Group of each row, for the splitter. Rows of a group depend on each other, so they are the clusters too, if
        `clusters` is not given.
    sample_weight, base_margin, qid : array, optional
        For fitting and scoring; see `importance`. Queries are held out as a whole.
    fit_params : dict, optional
        Further arguments of fit; those with one entry per row are cut with the rows.
    clusters, score, method, feature_groups, confidence
        As for `importance`. feature_groups="original" gives scores of the columns of X where a Pipeline encodes them.
    random_state : int, optional
        Makes folds and fits reproducible, whatever n_jobs.
    n_jobs : int
        Fits at a time, by joblib; -1 for all cores.
    progress : callable, optional
        Called with (fits done, fits).
    **reading
        As for `importance`.

    Returns
    -------
    Importance
        `folds` has the scores of every fold, their spread, and the stability of the ranks.

    Notes
    -----
    Standard errors are those of other rows, scored by these models. An estimator that stops early watches a tenth of
    each fold's training rows, never the held-out ones.
    """
    rows = checked_rows(
        X, y, groups=groups, sample_weight=sample_weight, fit_params=fit_params, base_margin=base_margin, qid=qid,
        clusters=clusters,
    )  # fmt: skip
    return cross_fit(
        estimator, rows, cv=cv, repeats=repeats, score=score, method=method, feature_groups=feature_groups,
        confidence=confidence, random_state=random_state, n_jobs=n_jobs, progress=progress, **reading,
    ).importance  # fmt: skip


def cross_fit(
    estimator: Any,
    rows: Rows,
    *,
    cv: Any = 5,
    repeats: int = 1,
    confidence: float = CONFIDENCE,
    random_state: int | np.random.Generator | None = None,
    n_jobs: int | None = 1,
    progress: Progress | None = None,
    **settings: Any,
) -> CrossFit:
    """As `cross_importance`, with the models and the shares of the rows."""
    check_integer("repeats", repeats, 1, "a number of repeats, 1 or more")
    check_confidence(confidence)
    if settings.get("score", "tree_inner") not in ("tree_inner", "loss"):
        raise ValueError(f"score={settings['score']!r}: cross-fitting takes 'tree_inner' and 'loss'.")
    models = fitted_models(estimator)
    if models is None:
        folds = splits(estimator, rows, cv, repeats, np.random.default_rng(random_state))
        jobs = [(estimator, rows, split, settings) for split in folds]
        done = in_parallel(_fit_and_score, jobs, n_jobs, progress)
    else:
        if repeats != 1:
            raise ValueError(f"repeats={repeats}: models that were fitted before cannot be fitted again.")
        folds = held_out(cv, rows, len(models))
        jobs = [(model, rows, split, settings) for model, split in zip(models, folds, strict=True)]
        done = in_parallel(_score_fitted, jobs, n_jobs, progress)
    fitted = tuple(Fold(model, split.test) for split, (model, _) in zip(folds, done, strict=True))
    found = [shares for _, shares in done]
    _check_alike(found)
    shares, weight, counts = _averaged(len(rows), fitted, found)
    seen = np.flatnonzero(counts)
    result = importance_of_shares(
        shares[seen], None if weight is None else weight[seen], like=found[0].importance,
        clusters=None if rows.clusters is None else rows.clusters[seen], confidence=confidence,
        folds=FoldSpread(scores=np.array([part.importance.scores for part in found])),
        losses=_losses([part.importance for part in found]),
    )  # fmt: skip
    notes = _notes(found, counts)
    aloud = dict.fromkeys([*(note for part in found for note in part.said), *overshoot_notes(result)])
    for note in aloud:
        speak(note)
    result = replace(result, notes=tuple(dict.fromkeys([*notes, *aloud])))
    if weight is None and len(seen) < len(rows):
        weight = (counts > 0).astype(np.float64)
    return CrossFit(rows, fitted, result, shares, weight)


# -- one fold ------------------------------------------------------------------------------------------------
def _fit_and_score(estimator: Any, rows: Rows, split: Split, settings: Mapping[str, Any]) -> tuple[Any, RowShares]:
    return _score(fit(estimator, rows, split), rows, split, settings)


def _score_fitted(fitted: Any, rows: Rows, split: Split, settings: Mapping[str, Any]) -> tuple[Any, RowShares]:
    """Score rows by a model that was fitted before, and look whether they were among its training rows."""
    model, shares = _score(fitted, rows, split, settings)
    if isinstance(model, Model):
        part = rows.take(split.test)
        note = training_rows_note(model, part.X, part.y, n_jobs=1, **part.given)
        shares = shares if note is None else replace(shares, said=(*shares.said, note))
    return model, shares


def _score(fitted: Any, rows: Rows, split: Split, settings: Mapping[str, Any]) -> tuple[Any, RowShares]:
    names = ("score", "method", "feature_groups")
    choices = {name: settings[name] for name in names if name in settings}
    reading = {name: value for name, value in settings.items() if name not in names}
    part, options = rows.take(split.test), ReadOptions.of(reading, caller=importance)
    wrapper = open_members(fitted, options, names_of(part.X))
    if wrapper is not None:
        weight = {"sample_weight": part.given["sample_weight"]}
        others = {name: value for name, value in part.given.items() if name not in weight}
        check_arguments_for_members(wrapper.kind, choices.get("score", "tree_inner"), **others)
        return fitted, shares_of_members(wrapper, part.X, part.y, n_jobs=1, **weight, **choices)
    model = open_model(fitted, options)
    return model, row_shares(model, part.X, part.y, n_jobs=1, **part.given, **choices)


def in_parallel(function: Any, jobs: Sequence[Any], n_jobs: int | None, progress: Progress | None = None) -> list[Any]:
    """Results of all jobs, in their order."""
    joblib = sklearn_module("utils.parallel")
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
    out = []
    for result in parallel(joblib.delayed(function)(*job) for job in jobs):
        out.append(result)
        if progress is not None:
            progress(len(out), len(jobs))
    return out


# -- all folds -------------------------------------------------------------------------------------------------
def _check_alike(found: Sequence[RowShares]) -> None:
    """Raise unless the models of all folds have the same features and outputs."""
    first = found[0]
    for number, part in enumerate(found):
        if part.importance.feature_names != first.importance.feature_names:
            raise UnsupportedModelError(
                f"The model of fold {number} has other features than that of fold 0 (a level that is missing from a "
                "fold, perhaps); pass feature_groups='original' for scores of the columns of X."
            )
        if part.shares.shape[2] != first.shares.shape[2]:
            raise DataError(
                f"The model of fold {number} has {part.shares.shape[2]} outputs, that of fold 0 "
                f"{first.shares.shape[2]}; every fold must be fitted on rows of all classes."
            )


def _averaged(
    n: int, folds: Sequence[Fold], found: Sequence[RowShares]
) -> tuple[FloatArray, FloatArray | None, NDArray[np.intp]]:
    """Shares and weights of the rows, averaged over the folds that held them out, and how many did."""
    shares, counts = np.zeros((n, *found[0].shares.shape[1:])), np.zeros(n, np.intp)
    weight = None if all(part.weight is None for part in found) else np.zeros(n)
    for fold, part in zip(folds, found, strict=True):
        np.add.at(counts, fold.rows, 1)
        np.add.at(shares, fold.rows, part.shares)
        if weight is not None:
            np.add.at(weight, fold.rows, 1.0 if part.weight is None else part.weight)
    often = np.maximum(counts, 1)
    shares /= often[:, None, None]
    return shares, None if weight is None else weight / often, counts


def _losses(found: Sequence[Importance]) -> Losses | None:
    """Mean of the losses over the folds, by their rows."""
    if any(part.losses is None for part in found):
        return None
    weights = np.array([part.sum_of_weights for part in found])
    names = ("before", "after", "least", "first_order", "base")
    mean: dict[str, Any] = {
        name: float(np.average([getattr(part.losses, name) for part in found], weights=weights)) for name in names
    }
    return Losses(**mean)


def _notes(found: Sequence[RowShares], counts: NDArray[np.intp]) -> list[str]:
    """What a user should know about the models, once; and about rows that no model was kept from."""
    notes = list(dict.fromkeys(note for part in found for note in part.importance.notes))
    never = int((counts == 0).sum())
    if never:
        notes.append(f"{counted(never, 'row')} of {len(counts):,} were held out by no fold, and are not scored.")
    return notes
