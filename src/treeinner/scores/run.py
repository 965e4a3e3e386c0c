"""Rows of a table -> a State, in tasks over threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.compiled import map_rows, task_rows
from treeinner.groups import Groups
from treeinner.objectives.base import one_hot
from treeinner.scores.blocks import Block, run_block, run_rounds
from treeinner.scores.inputs import Inputs
from treeinner.scores.leaves import Leaves, LeavesOfTasks
from treeinner.scores.setting import Setting
from treeinner.scores.state import State
from treeinner.tables import Table

__all__ = ["Rows", "add_rows"]


@dataclass(frozen=True, eq=False)
class Rows:
    """A table with what comes along with it."""

    table: Table
    inputs: Inputs
    tree_share: NDArray[np.float64] | None = None  # (trees, rows), for out-of-bag scores


def add_rows(
    state: State,
    setting: Setting,
    rows: Rows,
    groups: Groups | None,
    *,
    n_jobs: int | None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Add the scores of all rows of a table to the state."""
    setting.prepare()
    step = task_rows(setting.forest, rows.table)
    objective = setting.objective

    if objective is None or objective.per_row:
        tasks = LeavesOfTasks(state.leaves)

        def work(start: int, stop: int) -> State:
            with tasks.borrow() as leaves:
                block = _block(setting, rows, start, stop, leaves)
                if objective is not None:
                    run_block(block)
                return _reduced(setting, block, rows.inputs, groups, start, stop)

        for part in map_rows(rows.table.n_rows, step, work, n_jobs=n_jobs, progress=progress):
            state += part
        tasks.add_up()
        return

    # The loss of a row looks at other rows: all of them go through the rounds together.
    ranges = [(start, min(start + step, rows.table.n_rows)) for start in range(0, rows.table.n_rows, step)]
    blocks = [_block(setting, rows, start, stop, state.leaves) for start, stop in ranges]
    run_rounds(blocks, rows.inputs.group)
    for block, (start, stop) in zip(blocks, ranges, strict=True):
        state += _reduced(setting, block, rows.inputs, groups, start, stop)


def _block(setting: Setting, rows: Rows, start: int, stop: int, leaves: Leaves | None) -> Block:
    i = rows.inputs
    return Block(
        setting,
        rows.table.block(start, stop),
        stop - start,
        None if i.y is None else i.y[start:stop],
        None if i.weight is None else i.weight[start:stop],
        i.base[start:stop],
        leaves,
        None if rows.tree_share is None else rows.tree_share[:, start:stop],
    )


def _reduced(setting: Setting, block: Block, inputs: Inputs, groups: Groups | None, start: int, stop: int) -> State:
    """Sum the scores of a block; what reached the leaves is added apart."""
    clusters = None if inputs.clusters is None else inputs.clusters[start:stop]
    part = State.empty(setting, groups, clustered=clusters is not None, leaves=None)
    scores, features = None, None
    if setting.score == "forest_inner":
        scores = block.forest_inner(_label(setting, block) if setting.target == "label" else None)
    elif setting.score == "abs":
        scores = block.absolute(groups)
    elif setting.needs_rows and groups is None:
        scores, features = block.scores_in_use()
    elif setting.needs_rows:
        scores = block.row_scores()
    if scores is not None:
        part.add_rows(scores, features, block.weight, None if setting.score == "abs" else groups, clusters)
    else:
        part.count_rows(stop - start, block.weight)
    part.in_float32 = block.boosted and setting.needs_rows
    block.finish_leaves()
    part.add_rounds(block.by_round, groups)
    return part


def _label(setting: Setting, block: Block) -> Any:
    """Label of every row and output, times its weight: (rows, outputs)."""
    objective, n_outputs = setting.objective, setting.ensemble.n_outputs
    assert objective is not None
    y = np.asarray(block.y)
    if objective.target == "class":
        label = one_hot(y.reshape(-1).astype(np.int64), n_outputs)
    else:
        label = np.broadcast_to(y.reshape(len(y), -1).astype(np.float64), (len(y), n_outputs))
    return label if block.weight is None else label * block.weight[:, None]
