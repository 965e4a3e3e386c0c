"""cross_importance(): every row is scored by a model that has not seen it.

The shares of the rows of all folds are put together, averaged over the repeats, and give one Importance. Models of
different folds share training rows; that their p values hold all the same is measured (docs/evidence/selection.md).
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from treeinner.errors import DataError, Note, counted
from treeinner.kernels import Progress, heard
from treeinner.read import read_model
from treeinner.read.columns import GroupSpec
from treeinner.read.unwrap import members
from treeinner.score.average import Scored, all_names, average_shares, importance_of_shares, shares_of
from treeinner.score.conclude import warned
from treeinner.score.result import FoldSpread, Importance, Losses
from treeinner.score.spec import METHODS, SCORES, check_choice
from treeinner.select.fits import check_fit, fit, with_categories
from treeinner.select.folds import Data, Index, checked_data, fitted_models, folds_of_models, splits

__all__ = ["ASKED", "CrossFit", "cross_fit", "cross_importance", "in_parallel", "scored_again"]

Float = NDArray[np.float64]
SEED = 0  # of random_state=None: the same call gives the same numbers
ASKED = {"score": "signal", "method": "centred", "feature_groups": None}


@dataclass(frozen=True, eq=False)
class CrossFit:
    """The models of all folds, and what they found."""

    data: Data
    folds: tuple[Scored, ...]  # each with the rows that were held out from its model
    held_out: tuple[Index, ...]  # their numbers
    importance: Importance
    shares: Float  # (rows held out, names, outputs), averaged over the folds that held a row out
    weight: Float  # (rows held out,), in units of a power of two near the largest
    clusters: NDArray[Any] | None  # (rows held out,)


def cross_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    repeats: int = 1,
    score: str = "signal",
    method: str = "centred",
    sample_weight: Any = None,
    clusters: Any = None,
    base_margin: Any = None,
    qid: Any = None,
    fit_params: Mapping[str, Any] | None = None,
    feature_groups: GroupSpec | None = None,
    n_jobs: int | None = -1,
    random_state: int | None = None,
    progress: Progress | bool | None = None,
) -> Importance:
    """Importance of every feature, every row held out once per repeat.

    Parameters
    ----------
    estimator : estimator, Pipeline, or fitted models
        It is cloned and fitted once per fold; what stops early by watching other rows is refused. Or a list of the
        models of a cross-validation that was run before, one per fold (the boosters of LightGBM's CVBooster, for one);
        cv must then be the folds that they were fitted with, which is checked where the leaves of their first trees
        tell.
    X, y : table and target
        All rows.
    cv : int, splitter or iterable
        Number of shuffled folds (by class for classifiers, whole clusters where there are any), a scikit-learn
        splitter, or (train, test) pairs of row numbers. Rows that no fold holds out are not scored.
    repeats : int
        How often the rows are cut into folds anew; shares are averaged over the repeats. Estimators without a
        random_state of their own get a new one in every fit.
    score, method, feature_groups
        As for `importance`.
    sample_weight, base_margin, qid : array, optional
        For fitting and scoring; see `importance`. Queries are held out as a whole.
    clusters : array, optional
        As for `importance`. They are held out as a whole: a splitter gets them as its groups.
    fit_params : dict, optional
        Further arguments of fit; those with one entry per row are cut with the rows.
    n_jobs : int
        Fits at a time, by joblib; -1 for all cores.
    random_state : int, optional
        Seed of folds and fits; the result does not depend on n_jobs. None: a fixed one.
    progress : bool or callable, optional
        True: a bar once it takes two seconds; or a function, called with (fits done, fits).

    Returns
    -------
    Importance
        `folds` has the scores of every fold, their spread, and the stability of the ranks. Standard errors are those
        of other rows, scored by these models.
    """
    data = checked_data(
        X, y, sample_weight=sample_weight, base_margin=base_margin, qid=qid, clusters=clusters, fit_params=fit_params
    )  # fmt: skip
    asked = {"score": score, "method": method, "feature_groups": feature_groups}
    seed = SEED if random_state is None else random_state
    return cross_fit(estimator, data, asked, cv, repeats, seed, n_jobs, progress).importance


def cross_fit(
    estimator: Any,
    data: Data,
    asked: Mapping[str, Any],
    cv: Any,
    repeats: int,
    seed: int,
    n_jobs: int | None,
    progress: Progress | bool | None = None,
) -> CrossFit:
    """As `cross_importance`, with the models and the shares of the rows."""
    check_choice("score", asked["score"], SCORES)
    check_choice("method", asked["method"], METHODS)
    if not isinstance(repeats, numbers.Integral) or repeats < 1:
        raise ValueError(f"repeats={repeats!r}: expected a number of repeats, 1 or more.")
    models = fitted_models(estimator)
    if models is None:
        check_fit(estimator, data)
        data = replace(data, X=with_categories(estimator, data.X))
        folds = splits(estimator, data, cv, int(repeats), seed)
        tests = tuple(test for _, test, _ in folds)
        found = in_parallel(_fit_and_score, [(estimator, data, asked, *fold) for fold in folds], n_jobs, progress)
    elif repeats != 1:
        raise ValueError(f"repeats={repeats}: models that were fitted before cannot be fitted again.")
    else:
        models = [model if members(model) else read_model(model) for model in models]
        tests = folds_of_models(models, cv, data)
        jobs = [(model, data, asked, test, True) for model, test in zip(models, tests, strict=True)]
        found = in_parallel(_score, jobs, n_jobs, progress)
    crossed = _put_together(data, found, tests)
    return replace(crossed, importance=warned(crossed.importance))


def scored_again(fit: CrossFit, asked: Mapping[str, Any], n_jobs: int | None) -> CrossFit:
    """The same models and rows with another score."""
    jobs = [(fold.model, fit.data, asked, test) for fold, test in zip(fit.folds, fit.held_out, strict=True)]
    return _put_together(fit.data, in_parallel(_score, jobs, n_jobs), fit.held_out)


# -- one fold ------------------------------------------------------------------------------------------------
def _fit_and_score(
    estimator: Any, data: Data, asked: Mapping[str, Any], train: Index, test: Index, seed: int
) -> Scored:
    return _score(fit(estimator, data, train, seed), data, asked, test)


def _score(fitted: Any, data: Data, asked: Mapping[str, Any], test: Index, checked: bool = False) -> Scored:
    """Score the rows that a model was not fitted on; checked: whether it is looked into that it was not."""
    part, several = data.take(test), members(fitted)
    options = {**asked, **part.given, "checked": checked, "head": data.X}
    if several is not None:
        found = average_shares(several, part.X, part.y, **options)
    else:
        found = shares_of(read_model(fitted), part.X, part.y, **options)
    return found._replace(importance=replace(found.importance, rates=None))


def in_parallel(function: Any, jobs: Sequence[Any], n_jobs: int | None, progress: Any = None) -> tuple[Any, ...]:
    """Results of all jobs, in their order."""
    out, told = [], heard(progress)
    for result in Parallel(n_jobs=n_jobs, return_as="generator")(delayed(function)(*job) for job in jobs):
        out.append(result)
        if told is not None:
            told(len(out), len(jobs))
    return tuple(out)


# -- all folds -------------------------------------------------------------------------------------------------
def _put_together(data: Data, folds: tuple[Scored, ...], tests: tuple[Index, ...]) -> CrossFit:
    """Average shares over the folds that held a row out, and conclude.

    A feature that the model of a fold does not know, such as a level that its rows lack, has no score there.
    """
    found = [fold.importance for fold in folds]
    place = {name: k for k, name in enumerate(all_names(found))}
    n, n_outputs = data.n_rows, folds[0].shares.shape[2]
    parts = np.zeros((n, len(place), 1 + len(folds[0].terms), n_outputs))  # shares, and the terms of holds
    weight, counts = np.zeros(n), np.zeros(n, np.intp)
    scores = np.zeros((len(folds), len(place)))
    for number, (fold, test) in enumerate(zip(folds, tests, strict=True)):
        if fold.shares.shape[2] != n_outputs:
            raise DataError(
                f"The model of fold {number} has {fold.shares.shape[2]} outputs, that of fold 0 {n_outputs}; every "
                "fold must be fitted on rows of all classes."
            )
        columns = np.array([place[name] for name in fold.importance.feature_names], np.intp)
        unit = fold.rows.weight_exponent
        np.add.at(parts, (test[:, None], columns), np.ldexp(np.stack([fold.shares, *fold.terms], axis=2), unit))
        np.add.at(weight, test, 1.0 if fold.rows.weight is None else np.ldexp(fold.rows.weight, unit))
        np.add.at(counts, test, 1)
        scores[number, columns] = fold.importance.scores
    seen = np.flatnonzero(counts)
    unit = int(np.frexp(weight.max())[1])  # weights are summed in units of the largest
    shares, *terms = np.moveaxis(np.ldexp(parts[seen], -unit) / counts[seen, None, None, None], 2, 0)
    weight = weight[seen] / counts[seen]
    clusters = None if data.clusters is None else data.clusters[seen]
    imp = importance_of_shares(
        found, shares, np.ldexp(weight, -unit), clusters, terms, losses=_losses(found),
        folds=FoldSpread(scores, tuple(place)), n_rows=len(seen), sum_of_weights=float(weight.sum()),
    )  # fmt: skip
    text = f"{counted(n - len(seen), 'row')} of {n:,} were held out by no fold, and are not scored."
    imp = replace(imp, notes=(*imp.notes, *([Note("not_held_out", text, quiet=True)] if len(seen) < n else [])))
    return CrossFit(data, folds, tests, imp, shares, np.ldexp(weight, -unit), clusters)


def _losses(found: Sequence[Importance]) -> Losses | None:
    """Mean of the losses over the folds, by their rows."""
    losses, weights = [part.losses for part in found], [part.sum_of_weights for part in found]
    if None in losses:
        return None
    names = ("before", "after", "least", "first_order", "base")
    table = [[getattr(part, name) for name in names] for part in losses]
    means: dict[str, Any] = dict(zip(names, np.average(table, axis=0, weights=weights).tolist(), strict=True))
    return Losses(**means)
