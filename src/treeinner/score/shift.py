"""What of a change comes from rows that moved, and what from rows that are there as before but behave otherwise.

The rows of the first set are weighted by the odds of a domain classifier, so that they look like those of the second.
From the first set to the weighted one rows have moved; from the weighted one to the second set they have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, MissingDependencyError, short
from treeinner.kernels.units import in_units
from treeinner.losses.labels import is_missing
from treeinner.read import Model
from treeinner.read.columns import as_table
from treeinner.rows import Rows
from treeinner.rows.frames import names_of, values_of
from treeinner.score.conclude import conclude, statistics_of_shares
from treeinner.score.infer import Statistics, difference, tested
from treeinner.score.passes import Centre, leaf_pass, node_gap, share_pass
from treeinner.score.spec import Spec
from treeinner.score.sums import Sums

__all__ = ["domain_odds", "moved_and_changed"]

Float = NDArray[np.float64]
FEWEST = 50.0  # effective rows
FOLDS = 5
# Weak on purpose: odds of an overfitted classifier are huge for a few rows, which then stand for all.
CLASSIFIER: dict[str, Any] = {"max_iter": 100, "learning_rate": 0.05, "max_leaf_nodes": 4, "min_samples_leaf": 50}
SMALLEST = 2.0**-24  # of the largest weight: below it, 0


def domain_odds(sides: Sequence[Any], odds: Any, names: tuple[str, str]) -> tuple[Float, float]:
    """Weights by which the rows of the first side look like those of the second, and the rows that they count for.

    odds: True, or the user's own.
    """
    tables, weights = zip(*((rows.X, rows.sample_weight) for rows in sides), strict=True)
    X = _stacked(tables)
    n = as_table(tables[0]).shape[0]
    side = (np.arange(len(X)) >= n).astype(int)
    weight = np.concatenate([np.ones(k) if w is None else w for k, w in zip((n, len(X) - n), weights, strict=True)])
    if odds is True:
        found = _cross_fitted(X, side, None if weights[0] is None else weight)[:n]
    else:
        found = np.asarray(odds)
        known = found.shape == (n,) and found.dtype.kind in "biuf"
        if not (known and (found >= 0).all() and 0 < found.sum() < np.inf):
            raise DataError(f"split_shift: expected True, or a weight for each of the {n:,} rows of {names[0]}.")
    found = np.where(found < SMALLEST * found.max(), 0.0, found)
    both = found * weight[:n]
    effective = float(both.sum() ** 2 / np.square(both).sum())
    if not effective >= FEWEST:
        from scipy.stats import ks_2samp  # here, because its import takes longer than that of treeinner

        numbers = np.nan_to_num(X.T, nan=-np.inf)
        apart = [ks_2samp(column[:n], column[n:], method="asymp").statistic for column in numbers]
        columns = names_of(tables[0]) or [f"column {j}" for j in range(len(apart))]
        best = ", ".join(f"{columns[j]} ({apart[j]:.2f})" for j in np.argsort(apart)[::-1][:3])
        raise DataError(
            f"split_shift: weighted to look like {names[1]}, the rows of {names[0]} count for {short(effective, 2)}, "
            f"under {FEWEST:.0f}. Most apart are {best}, 1 being fully; compare without split_shift."
        )
    return found, effective


def _stacked(tables: Sequence[Any]) -> Float:
    """Rows of both tables as numbers: (rows, columns); a label has the same number in both."""
    both = [as_table(each) for each in tables]
    stacked = []
    for columns in zip(*([each[:, j] for j in range(each.shape[1])] for each in both), strict=True):
        dense = (column.toarray().ravel() if hasattr(column, "toarray") else column for column in columns)
        values = np.concatenate([values_of(each) if isinstance(each, nw.Series) else each for each in dense])
        try:
            stacked.append(values.astype(np.float64))
        except (TypeError, ValueError):
            words = ["" if is_missing(value) else str(value) for value in values.tolist()]
            stacked.append(np.unique(words, return_inverse=True)[1].astype(np.float64))
    return np.column_stack(stacked).clip(-1e99, 1e99)  # finite, or missing


def _cross_fitted(X: Float, side: NDArray[np.int_], weight: Float | None) -> Float:
    """Odds that a row is of the second side, by classifiers that have not seen it: (rows,)."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.model_selection import StratifiedKFold
    except ImportError as error:
        raise MissingDependencyError(
            "split_shift=True needs scikit-learn (pip install scikit-learn); or pass weights of your own."
        ) from error
    chance = np.empty(len(X))
    for fitted, held_out in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, side):
        model = HistGradientBoostingClassifier(**CLASSIFIER, early_stopping=False, random_state=0)
        model.fit(X[fitted], side[fitted], sample_weight=None if weight is None else weight[fitted])
        chance[held_out] = model.predict_proba(X[held_out])[:, 1]
    return np.asarray(chance / (1.0 - chance).clip(1e-12))


def moved_and_changed(
    run: Callable[..., Sums],
    model: Model,
    spec: Spec,
    rows: Rows,
    odds: Float,
    leaves: tuple[Sums, Sums],
    fixed: Centre,
    before: Float,
    after: Statistics,
) -> dict[str, Any]:
    """Fields of the Comparison; leaves: sums of both sides; before: scores of the rows; after: of the second side.

    The weights are taken as given. Errors are of influences of the rows: on the mean and the weighted mean of their
    shares, and on the node values, which move the difference of two sides by its `node_gap`.
    """
    own = np.ones(rows.n_rows) if rows.weight is None else rows.weight
    both = own * odds
    weight, exponent = in_units(np.where(both < SMALLEST * both.max(), 0.0, both), both.max())
    weighted = run(leaf_pass, model, spec, [replace(rows, weight=weight, weight_exponent=exponent)])
    middle = conclude(model, spec, weighted, None, fixed).scores
    gap = node_gap(model, spec, leaves[0], weighted)
    kept = np.zeros((3, 1, rows.n_rows, len(middle), model.n_outputs))
    for keep, residual in zip(kept, (None, gap, node_gap(model, spec, *leaves) - gap), strict=True):
        run(share_pass, model, spec, [rows], Centre(fixed.value, residual), keep=keep)
    share, by_move, by_change = kept[:, 0].sum(axis=3)
    to_weighted = (odds[:, None] * (share - own[:, None] * middle)) / both.sum()

    def statistics(influence: Float) -> Statistics:
        return statistics_of_shares(influence[:, :, None] * rows.n_rows, None, rows.clusters)[0]

    moved = statistics(by_move / own.sum() - to_weighted)
    changed = statistics(to_weighted + (by_change - share) / own.sum())
    return {
        "moved": tested(before - middle, moved.std_error, moved.df),
        "changed": difference(replace(changed, score=middle), after),
    }
