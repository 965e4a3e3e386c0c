"""Permutation importance, the model-agnostic baseline: how much the loss rises when a column is shuffled.

Every value is binned once and every tree is walked once per repeat, for all features together (core/permute.h): a row
goes another way only where its path tests the shuffled feature. The changes of the leaf values are added to the margin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import inference
from treeinner.compiled import Shuffle, map_rows
from treeinner.errors import DataError, UnsupportedModelError
from treeinner.groups import Groups
from treeinner.scores.inputs import Inputs
from treeinner.scores.setting import Setting
from treeinner.tables import Table

__all__ = ["permutation_scores"]

FloatArray = NDArray[np.float64]


def permutation_scores(
    setting: Setting,
    table: Table,
    inputs: Inputs,
    groups: Groups | None,
    *,
    n_repeats: int,
    random_state: Any,
    confidence: float,
    n_jobs: int | None,
    progress: Callable[[int, int], None] | None,
) -> inference.Inference:
    """Rise of the summed loss when a feature is shuffled, mean over the repeats, with its statistics.

    The shuffles are those of scikit-learn's `permutation_importance` for the same random_state: one order of the rows
    per repeat, the same for every feature. A group is shuffled as one.
    """
    e, objective = setting.ensemble, setting.objective
    assert objective is not None
    if objective.value is None:
        raise UnsupportedModelError(
            f"objective {objective.name!r} has a gradient only; permutation importance needs the loss itself. Pass the "
            "name of a built-in loss, or an Objective with `value`."
        )
    if not objective.per_row:
        raise UnsupportedModelError(
            f"objective {objective.name!r}: the loss of a row depends on other rows, so the rise of the loss has no "
            "share of each row. Use score='tree_inner', or scikit-learn's permutation_importance."
        )
    if n_repeats < 1:
        raise ValueError(f"n_repeats={n_repeats}, but at least one shuffle is needed.")
    if table.n_rows == 0:
        raise DataError("There are no rows to score; pass at least one row of X and y.")
    if e.schema.external:
        raise UnsupportedModelError(
            "Permutation importance of a CatBoost model with CTR splits: CatBoost computes those columns itself from "
            "several features at once. Use score='tree_inner', or scikit-learn's permutation_importance."
        )
    orders = _orders(table.n_rows, n_repeats, random_state)
    of_column = np.arange(e.n_features) if groups is None else groups.of_feature
    n_scores = e.n_features if groups is None else len(groups.names)
    used = np.unique(of_column[e.feature[e.feature >= 0]])  # the others change nothing
    number = np.full(n_scores, -1, np.int32)
    number[used] = np.arange(len(used))
    shuffle = Shuffle(setting.forest, number[of_column], len(used), table, n_jobs=n_jobs)

    def work(start: int, stop: int) -> FloatArray:
        rises = _rises(setting, inputs, shuffle, orders, start, stop)
        if inputs.clusters is not None:
            return rises
        squares = rises * rises
        return np.stack([rises.sum(axis=1), squares.sum(axis=1), (squares * squares).sum(axis=1)])

    parts = list(map_rows(table.n_rows, shuffle.step, work, n_jobs=n_jobs, progress=progress))
    if inputs.clusters is not None:
        rises = np.concatenate(parts, axis=1)
        here = slice(None) if inputs.weight is None else np.flatnonzero(inputs.weight)
        labels, of_row = np.unique(inputs.clusters[here], return_inverse=True)
        summed = np.zeros((len(labels), n_scores))
        for group, score in enumerate(used.tolist()):
            summed[:, score] = np.bincount(of_row.reshape(-1), rises[group, here], len(labels))
        return inference.from_clusters(summed, confidence=confidence)
    n = table.n_rows if inputs.weight is None else int(np.count_nonzero(inputs.weight))
    sums = np.zeros((3, n_scores))
    sums[:, used] = np.sum(parts, axis=0)
    total, squares, fourth = sums
    effective = np.full(n_scores, np.nan)
    np.divide(squares**2, fourth, out=effective, where=fourth > 0)
    return inference.from_sums(total, squares, n, effective=effective, confidence=confidence)


def _orders(n_rows: int, n_repeats: int, random_state: Any) -> list[NDArray[np.int64]]:
    """Shuffled row numbers, one per repeat, drawn as scikit-learn draws them."""
    # scikit-learn shuffles with the legacy generator; the same orders let results be compared number by number.
    state = random_state
    if not isinstance(state, np.random.RandomState):
        state = np.random.RandomState(random_state)
    seeded = np.random.RandomState(state.randint(np.iinfo(np.int32).max + 1))
    step = np.arange(n_rows)
    orders = [np.arange(n_rows)]
    for _ in range(n_repeats):
        seeded.shuffle(step)
        orders.append(orders[-1][step])  # scikit-learn shuffles the column that it has shuffled before
    return orders[1:]


def _rises(
    setting: Setting, inputs: Inputs, shuffle: Shuffle, orders: list[NDArray[np.int64]], start: int, stop: int
) -> FloatArray:
    """Rise of the loss of every row for every feature or group in use: (groups, rows)."""
    assert setting.objective is not None
    assert inputs.y is not None
    objective, y, base = setting.objective, inputs.y[start:stop], inputs.base[start:stop]
    weight = None if inputs.weight is None else inputs.weight[start:stop]

    def loss(margin: FloatArray) -> FloatArray:
        per_row = objective.losses(y, margin)
        return per_row if weight is None else per_row * weight

    rises = np.zeros((shuffle.n_groups, stop - start))
    for order in orders:
        margin, changes = shuffle.margins(start, order[start:stop])
        whole = base + margin.T
        before = loss(whole)
        for group, change in enumerate(changes):
            rises[group] += (loss(whole + change.T) - before) / len(orders)
    return rises
