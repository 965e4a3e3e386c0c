"""Permutation importance, the model-agnostic baseline: how much the loss rises when a column is shuffled.

Only the trees that use the feature are walked again, and only its own column is binned again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import inference
from treeinner.errors import DataError, UnsupportedModelError
from treeinner.groups import Groups
from treeinner.kernels import aligned, map_rows, padded_rows, task_rows
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
    members: list[list[int]] = [[] for _ in (groups.names if groups is not None else range(e.n_features))]
    for feature in range(e.n_features):
        members[feature if groups is None else int(groups.of_feature[feature])].append(feature)
    columns = [_column(table, c) if c in _used(setting) else None for c in range(e.schema.n_columns)]

    def work(start: int, stop: int) -> FloatArray:
        return _rises(setting, table, inputs, columns, members, orders, start, stop)

    parts = map_rows(table.n_rows, task_rows(setting.forest, table), work, n_jobs=n_jobs, progress=progress)
    rises = np.concatenate(list(parts))
    if inputs.clusters is not None:
        here = slice(None) if inputs.weight is None else np.flatnonzero(inputs.weight)
        labels, of_row = np.unique(inputs.clusters[here], return_inverse=True)
        summed = np.zeros((len(labels), rises.shape[1]))
        np.add.at(summed, of_row.reshape(-1), rises[here])
        return inference.from_clusters(summed, level=confidence)
    n = len(rises) if inputs.weight is None else int(np.count_nonzero(inputs.weight))
    squares = rises * rises
    effective = inference.effective_units(squares)
    return inference.from_sums(rises.sum(axis=0), squares.sum(axis=0), n, effective=effective, level=confidence)


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


def _used(setting: Setting) -> set[int]:
    return {f for features in setting.forest.player_features for f in features}


def _column(table: Table, column: int) -> NDArray[Any]:
    """Return one column of all rows."""
    step = table.block_rows or table.n_rows
    parts = [table.block(start, min(start + step, table.n_rows)) for start in range(0, table.n_rows, step)]
    picked = [part[:, column] if isinstance(part, np.ndarray) else part[column] for part in parts]
    return np.ascontiguousarray(picked[0] if len(picked) == 1 else np.concatenate(picked))


def _rises(
    setting: Setting,
    table: Table,
    inputs: Inputs,
    columns: list[NDArray[Any] | None],
    members: list[list[int]],
    orders: list[NDArray[np.int64]],
    start: int,
    stop: int,
) -> FloatArray:
    """Rise of the loss of every row for every feature or group: (rows, features)."""
    e, forest, core = setting.ensemble, setting.forest, setting.forest.core
    n, n_rows = stop - start, padded_rows(stop - start)
    codes = forest.bin(table.block(start, stop))
    trees_of: dict[int, set[int]] = {}
    for tree in range(e.n_trees):
        for f in np.unique(e.feature[e.tree_start[tree] : e.tree_start[tree + 1]]).tolist():
            trees_of.setdefault(f, set()).add(tree)

    def margin_of(trees: list[int]) -> FloatArray:
        margin = aligned((e.n_outputs, n_rows))
        for first, count in _runs(trees):
            core.margins(codes, first, count, margin)
        return margin[:, :n].T

    def loss(margin: FloatArray) -> FloatArray:
        assert setting.objective is not None
        assert inputs.y is not None
        per_row = setting.objective.loss(inputs.y[start:stop], margin)
        return per_row if inputs.weight is None else per_row * inputs.weight[start:stop]

    whole = inputs.base[start:stop] + margin_of(list(range(e.n_trees)))
    before = loss(whole)
    out = np.zeros((n, len(members)))
    for position, features in enumerate(members):
        trees = sorted(set().union(*(trees_of.get(f, set()) for f in features)))
        if not trees:
            continue
        rest = whole - margin_of(trees)
        used = [f for f in features if f in trees_of]
        for order in orders:
            for f in used:
                column = columns[f]
                assert column is not None
                forest.rebin(codes, f, np.ascontiguousarray(column[order[start:stop]]))
            out[:, position] += (loss(rest + margin_of(trees)) - before) / len(orders)
        for f in used:
            column = columns[f]
            assert column is not None
            forest.rebin(codes, f, column[start:stop])
    return out


def _runs(trees: list[int]) -> list[tuple[int, int]]:
    """Consecutive trees together: (first, count)."""
    runs: list[tuple[int, int]] = []
    for tree in trees:
        if runs and sum(runs[-1]) == tree:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((tree, 1))
    return runs
