"""What of a change comes from rows that moved, and what from rows that are there as before but behave otherwise.

The rows of the first set are weighted by the odds of a domain classifier, so that they look like those of the second.
From the first set to the weighted one rows have moved; from the weighted one to the second set they have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, MissingDependencyError, short
from treeinner.kernels.units import in_units
from treeinner.read import Model
from treeinner.read.columns import as_table
from treeinner.rows import Rows
from treeinner.score.conclude import conclude, statistics_of
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
MISSING = ("None", "nan", "NaN", "NaT", "<NA>")
MOST_LEVELS = 250  # of a column of labels; the rare ones beyond are one
SMALLEST = 2.0**-24  # of the largest weight: below it, 0


def domain_odds(
    tables: Sequence[Any], weights: Sequence[Float | None], odds: Any, names: tuple[str, str], columns: Sequence[str]
) -> Float:
    """Weights by which the rows of the first table look like those of the second, checked: (rows of the first,).

    weights: those of the rows themselves; odds: True, or the user's own.
    """
    n = [each.shape[0] for each in map(as_table, tables)]
    side = np.repeat([0, 1], n)
    own = [np.ones(size) if w is None else np.asarray(w, np.float64) for size, w in zip(n, weights, strict=True)]
    weight = np.concatenate(own)
    X, labelled = _coded(tables)
    if odds is True:
        plain = all(w is None for w in weights)
        found = _cross_fitted(X, labelled, side, None if plain else weight)[: n[0]]
    else:
        found = np.asarray(odds, np.float64)
        if found.shape != (n[0],) or not np.isfinite(found).all() or found.min() < 0:
            raise DataError(f"split_shift: expected True, or a weight for each of the {n[0]:,} rows of {names[0]}.")
    found = np.where(found < SMALLEST * found.max(), 0.0, found)
    total = found * own[0]
    effective = total.sum() ** 2 / max(np.square(total).sum(), 1e-300)
    if effective < FEWEST:
        apart = [_apart(X[:, j], labelled[j], side, weight) for j in range(X.shape[1])]
        best = ", ".join(f"{columns[j]} ({apart[j]:.2f})" for j in np.argsort(apart)[::-1][:3])
        raise DataError(
            f"split_shift: weighted to look like {names[1]}, the rows of {names[0]} count for {short(effective, 2)}, "
            f"under {FEWEST:.0f}. Most apart are {best}, 1 being fully; compare without split_shift."
        )
    return found


def _cross_fitted(X: Float, labelled: Sequence[bool], side: NDArray[Any], weight: Float | None) -> Float:
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
        model = HistGradientBoostingClassifier(
            **CLASSIFIER, categorical_features=labelled, early_stopping=False, random_state=0
        )
        model.fit(X[fitted], side[fitted], sample_weight=None if weight is None else weight[fitted])
        chance[held_out] = model.predict_proba(X[held_out])[:, 1]
    return np.asarray(chance / (1.0 - chance).clip(1e-12))


def _coded(tables: Sequence[Any]) -> tuple[Float, list[bool]]:
    """Columns of both tables as numbers, NaN where missing, (rows, columns); and which of them are codes of labels."""
    sides = [each.toarray() if hasattr(each, "toarray") else each for each in map(as_table, tables)]
    coded, labelled = [], []
    for j in range(sides[0].shape[1]):
        values = np.concatenate([np.asarray(each[:, j]) for each in sides])
        labelled.append(values.dtype.kind not in "biuf")
        if labelled[-1]:
            missing = np.array([str(value) in MISSING for value in values.tolist()])
            _, codes, times = np.unique(values.astype(str), return_inverse=True, return_counts=True)
            common = np.argsort(np.argsort(-times, kind="stable"), kind="stable").clip(max=MOST_LEVELS)
            values = np.where(missing, np.nan, common[codes])
        coded.append(values.astype(np.float64))
    return np.stack(coded, axis=1), labelled


def _apart(values: Float, labelled: bool, side: NDArray[Any], weight: Float) -> float:
    """How far two sides are apart in a column, from 0 to 1: total variation of labels, of tenths of numbers."""
    known = values[~np.isnan(values)]
    cuts = np.unique(known) if labelled else np.quantile(known, np.arange(1, 10) / 10) if len(known) else known
    part = np.where(np.isnan(values), len(cuts) + 1, np.searchsorted(cuts, values))
    shares = [np.bincount(part, weight * (side == k), len(cuts) + 2) for k in (0, 1)]
    return float(np.abs(shares[0] / shares[0].sum() - shares[1] / shares[1].sum()).sum() / 2)


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
    effective = both.sum() ** 2 / np.square(both).sum()
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
        return statistics_of(Sums.of_shares(influence * rows.n_rows, None, rows.clusters), 1)[0]

    moved = statistics(by_move / own.sum() - to_weighted)
    changed = statistics(to_weighted + (by_change - share) / own.sum())
    return {
        "moved": tested(before - middle, moved.std_error, moved.df),
        "changed": difference(replace(changed, score=middle), after),
        "effective_rows": float(effective),
    }
