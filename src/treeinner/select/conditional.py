"""The conditional test: what a feature tells about the target beyond the other columns.

Holdout randomisation. The models of a cross-validation stay as they are; a column of X is drawn anew, given all other
columns, and the held-out rows are scored again. If the column tells nothing more about the target, its score is one of
the redrawn ones. It must stand out: t = (S - mean S*) / (sd sqrt(1 + 1 / B)) with B - 1 degrees of freedom, S being the
sum over all held-out rows and S* that of a draw. sd is the larger of two: of the redrawn scores, and the standard error
of S from the shares of its rows; the first alone is too small, and smaller ones than the second were tried
(docs/selection-promise.md).

What it rests on is the law of a column given the others: our sampler's (select/samplers.py), or the user's own.
Columns that are nearly functions of each other cannot be told apart so: they are drawn and tested together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr
from scipy.stats import rankdata

from treeinner.errors import UnsupportedModelError
from treeinner.score.infer import benjamini_hochberg
from treeinner.select.cross import CrossFit, in_parallel
from treeinner.select.folds import Data, Index
from treeinner.select.redraw import Draws, redrawn_scores
from treeinner.select.samplers import Column, Donors, Sampler, read_columns

__all__ = ["Conditional", "conditional_test"]

Float = NDArray[np.float64]
MOST_BYTES = 1 << 28  # of donors that are held at a time
MOST_COMPARED = 5  # draws that are compared with the column itself
DETERMINED = 0.9  # likeness from which on a column is determined by the others


@dataclass(frozen=True, eq=False)
class Conditional:
    """What the test found, for every column of X, in the order of the columns."""

    scores: Float  #: (columns,), per row; of a set: the sum over its members
    redrawn: Float  #: (draws, columns): the same with the column drawn anew
    std_errors: Float  #: (columns,): the sd of the test, per row
    p_values: Float  #: (columns,), one-sided
    q_values: Float  #: (columns,): Benjamini-Hochberg over the sets
    sets: tuple[tuple[int, ...], ...]  #: columns that were drawn and tested together; most are alone
    likeness: Float  #: (columns,): of redrawn values with the column's own. Near 1: the others determine it

    def hidden(self, q: float) -> NDArray[np.intp]:
        """Columns that the test drops and the others determine: whatever they tell, the others tell it too."""
        return np.flatnonzero((self.likeness >= DETERMINED) & (self.q_values > q))


def conditional_test(
    fit: CrossFit, sets: Sequence[Sequence[int]], n_draws: int, sampler: Sampler | None, seed: int, n_jobs: int | None
) -> Conditional:
    """Test every column of X given the others, by the models of a cross-validation.

    Parameters
    ----------
    fit
        What `cross_fit` returned. Its features must be the columns of X.
    sets
        Columns to be drawn and tested together, by their positions; all others stand alone.
    n_draws
        How often each column is drawn anew.
    sampler
        Function (X, column, n_draws, rng) -> (n_draws, rows): values of a column drawn from its law given the others.
        None: ours.
    seed, n_jobs
        As for `cross_fit`.
    """
    table = read_columns(fit.data.X)
    n_columns = len(table)
    assert len(fit.importance) == n_columns
    together = _all_sets(sets, n_columns)
    rng = np.random.default_rng(seed)
    if any(fold.model is None for fold in fit.folds):
        raise UnsupportedModelError(
            "The conditional test needs one model, not an average of several; use test='marginal'."
        )
    held_out = np.concatenate(fit.held_out)
    often = len(held_out) / len(np.unique(held_out))  # how often a row was held out, on average
    by = Donors(table) if sampler is None else sampler
    sums, likeness = np.zeros((len(together), 1 + n_draws)), np.zeros(n_columns)
    step = max(1, MOST_BYTES // (n_draws * fit.data.n_rows * 4))
    for first in range(0, len(together), step):
        draws = [_drawn(by, fit.data, columns, n_draws, rng) for columns in together[first : first + step]]
        for drawn in draws:
            likeness[drawn.columns] = _likeness(table, drawn)
        jobs = [(one.model, one.spec, fit.data, test, draws) for one, test in zip(fit.folds, fit.held_out, strict=True)]
        for found in in_parallel(redrawn_scores, jobs, n_jobs):
            sums[first : first + len(draws)] += found
    return _concluded(fit, together, sums / often, likeness)


def _all_sets(given: Sequence[Sequence[int]], n_columns: int) -> list[Index]:
    """Sets of columns; every column is in one."""
    sets = [np.asarray(some, np.intp) for some in given]
    alone = np.setdiff1d(np.arange(n_columns), np.concatenate([np.empty(0, np.intp), *sets]))
    return sorted([*sets, *(np.array([k]) for k in alone)], key=lambda some: int(some.min()))


def _drawn(by: Donors | Sampler, data: Data, columns: Index, n_draws: int, rng: np.random.Generator) -> Draws:
    """Draw a set of columns anew, or a single one by a function of the user's."""
    if isinstance(by, Donors):
        return Draws(columns, donors=by.draw(columns.tolist(), n_draws, rng).astype(np.int32))
    values = np.asarray(by(data.X, int(columns[0]), n_draws, rng))
    shape = (n_draws, data.n_rows)
    if values.shape != shape:
        raise ValueError(
            f"sampler returned an array of shape {values.shape} for column {columns[0]}; expected {shape}: the "
            "values of the column in every row, for every draw."
        )
    return Draws(columns, values=values)


def _likeness(table: Sequence[Column], drawn: Draws) -> Float:
    """How alike drawn columns and their own values are: rank correlation of numbers, agreement of levels beyond chance.

    0 for a constant, and for values of a user's own.
    """
    out = np.zeros(len(drawn.columns))
    for k, column in enumerate(drawn.columns.tolist() if drawn.donors is not None else ()):
        assert drawn.donors is not None
        own = table[column]
        redrawn = own[drawn.donors[:MOST_COMPARED, k]]
        if own.dtype.kind == "f":
            ranks, drawn_ranks = rankdata(np.nan_to_num(own)), rankdata(np.nan_to_num(redrawn), axis=1)
            spread = ranks.std() * drawn_ranks.std(axis=1)
            products = ((drawn_ranks - drawn_ranks.mean(axis=1, keepdims=True)) * (ranks - ranks.mean())).mean(axis=1)
            out[k] = np.divide(products, spread, out=np.zeros(len(redrawn)), where=spread > 0).mean()
        else:
            _, counts = np.unique(own, return_counts=True)
            chance = ((counts / len(own)) ** 2).sum()
            out[k] = 0.0 if chance == 1 else ((redrawn == own).mean() - chance) / (1 - chance)
    return out


def _concluded(fit: CrossFit, sets: Sequence[Index], sums: Float, likeness: Float) -> Conditional:
    """Compare the sums of the sets, (sets, 1 + draws), the first of them of the rows as they are."""
    total = fit.importance.sum_of_weights
    score, redrawn = sums[:, 0] / total, sums[:, 1:] / total
    n_draws = redrawn.shape[1]
    sd = np.maximum(redrawn.std(axis=1, ddof=1), _share_errors(fit, sets))
    t = np.divide(score - redrawn.mean(axis=1), sd * np.sqrt(1 + 1 / n_draws), out=np.zeros_like(sd), where=sd > 0)
    p = np.where(sd > 0, stdtr(n_draws - 1.0, -t), 1.0)
    place = np.repeat(np.arange(len(sets)), [len(some) for some in sets])[np.argsort(np.concatenate(sets))]
    return Conditional(
        scores=score[place],
        redrawn=redrawn[place].T,
        std_errors=sd[place],
        p_values=p[place],
        q_values=benjamini_hochberg(p)[place],
        sets=tuple(tuple(columns.tolist()) for columns in sets),
        likeness=likeness,
    )


def _share_errors(fit: CrossFit, sets: Sequence[Index]) -> Float:
    """Standard error of the score of every set, per row, from the shares of the rows; of sets their shares' sum."""
    shares = [fit.shares[:, columns].sum(axis=(1, 2)) for columns in sets]
    return fit.statistics(np.column_stack(shares)).std_error
