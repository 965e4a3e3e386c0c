"""The conditional test: what a feature tells about the target beyond the other columns.

Holdout randomisation. The models of a cross-validation stay as they are; a column of X is drawn anew, given all other
columns, and the held-out rows are scored again. If the column tells nothing more about the target, its score is one of
the redrawn ones. It must stand out: t = (S - mean S*) / (sd sqrt(1 + 1 / B)) with B - 1 degrees of freedom, S being the
sum over all held-out rows and S* that of a draw. sd is the root mean square of two, or the larger one where rows have
groups: of the redrawn scores, and the standard error of S from the shares of its rows; the first alone is too small
(docs/evidence/selection.md). The scores are TreeInner's: their law without information comes from the draws.

What it rests on is the law of a column given the others (select/samplers.py).
Columns that are nearly functions of each other cannot be told apart so: they are drawn and tested together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from treeinner.errors import UnsupportedModelError
from treeinner.kernels import Progress
from treeinner.score.conclude import statistics_of
from treeinner.score.infer import benjamini_hochberg
from treeinner.score.sums import Sums
from treeinner.select.cross import ASKED, CrossFit, in_parallel, scored_again
from treeinner.select.folds import Index
from treeinner.select.redraw import Draws, redrawn_scores
from treeinner.select.samplers import Donors

__all__ = ["Conditional", "conditional_test"]

Float = NDArray[np.float64]
MOST_BYTES = 1 << 28  # of donors that are held at a time


@dataclass(frozen=True, eq=False)
class Conditional:
    """What the test found, for every column of X, in the order of the columns; NaN: not tested."""

    scores: Float  #: (columns,), per row; of a set: the sum over its members
    redrawn: Float  #: (draws, columns): the same with the column drawn anew
    adds: Float  #: (columns,): the score less the mean of the redrawn ones, which is what is tested
    std_errors: Float  #: (columns,): of adds
    p_values: Float  #: (columns,), one-sided
    q_values: Float  #: (columns,): Benjamini-Hochberg over all sets; those that were not tested count as p = 1
    sets: tuple[tuple[int, ...], ...]  #: columns that were drawn and tested together; most are alone


def conditional_test(
    fit: CrossFit,
    donors: Donors,
    sets: Sequence[Sequence[int]],
    only: NDArray[np.bool_],
    n_draws: int,
    seed: int,
    n_jobs: int | None,
    progress: Progress | bool | None = None,
) -> Conditional:
    """Test columns of X given the others, by the models of a cross-validation.

    Parameters
    ----------
    fit
        What `cross_fit` returned. Its features must be the columns of X.
    donors
        What draws a column given the others.
    sets
        Columns to be drawn and tested together, by their positions; all others stand alone.
    only
        Mask of the columns to test; a set is tested if one of its columns is.
    n_draws
        How often each column is drawn anew.
    seed, n_jobs
        As for `cross_fit`.
    progress
        Called with (models done, models), for as many columns at a time as memory holds.
    """
    if any(fold.model is None for fold in fit.folds):
        raise UnsupportedModelError(
            "The conditional test needs one model, not an average of several; use test='marginal' without adds."
        )
    fit = scored_again(fit, {**ASKED, "score": "tree_inner"}, n_jobs)
    alone = np.setdiff1d(np.arange(len(only)), np.concatenate([np.empty(0, np.intp), *sets]))
    together = sorted(map(np.asarray, [*sets, *alone[:, None]]), key=np.min)
    tested = [columns for columns in together if only[columns].any()]
    rng = np.random.default_rng(seed)
    held_out = np.concatenate(fit.held_out)
    often = len(held_out) / len(np.unique(held_out))  # how often a row was held out, on average
    sums = np.zeros((len(tested), 1 + n_draws))
    step = max(1, MOST_BYTES // (n_draws * fit.data.n_rows * 4))
    for first in range(0, len(tested), step):
        some = tested[first : first + step]
        draws = [Draws(each, donors.draw(each.tolist(), n_draws, rng).astype(np.int32)) for each in some]
        jobs = [(one.model, one.spec, fit.data, test, draws) for one, test in zip(fit.folds, fit.held_out, strict=True)]
        for found in in_parallel(redrawn_scores, jobs, n_jobs, progress):
            sums[first : first + len(draws)] += found
    return _concluded(fit, together, tested, sums / often)


def _concluded(fit: CrossFit, together: Sequence[Index], tested: Sequence[Index], sums: Float) -> Conditional:
    """Compare the sums of the tested sets, (sets, 1 + draws), the first of them of the rows as they are."""
    total = fit.importance.sum_of_weights
    score, redrawn = sums[:, 0] / total, sums[:, 1:] / total
    n_draws = redrawn.shape[1]
    shares = np.column_stack([fit.shares[:, columns].sum(axis=(1, 2)) for columns in tested])
    of_rows = statistics_of(Sums.of_shares(shares, fit.weight, fit.clusters), 1)[0]
    both = np.stack([redrawn.std(axis=1, ddof=1), of_rows.std_error])
    sd = np.sqrt(np.mean(both**2, axis=0)) if fit.clusters is None else both.max(axis=0)
    adds, error = score - redrawn.mean(axis=1), sd * np.sqrt(1 + 1 / n_draws)
    p = np.where(sd > 0, stdtr(n_draws - 1.0, -np.divide(adds, error, out=np.zeros_like(sd), where=sd > 0)), 1.0)
    q = benjamini_hochberg(np.append(p, np.ones(len(together) - len(tested))))[: len(p)]
    columns = np.concatenate([np.empty(0, np.intp), *tested])
    place = np.repeat(np.arange(len(tested)), [len(some) for some in tested])

    def of_columns(values: Float) -> Float:
        """Numbers of the tested sets, column by column."""
        out = np.full((fit.data.X.shape[1], *values.shape[1:]), np.nan)
        out[columns] = values[place]
        return out

    return Conditional(
        scores=of_columns(score),
        redrawn=of_columns(redrawn).T,
        adds=of_columns(adds),
        std_errors=of_columns(error),
        p_values=of_columns(p),
        q_values=of_columns(q),
        sets=tuple(tuple(columns.tolist()) for columns in together),
    )
