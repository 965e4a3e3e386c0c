"""Rows of a batch -> a State: tasks over threads, each through the boosting rounds."""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.compiled import Progress, map_rows, task_rows
from treeinner.errors import UnsupportedModelError
from treeinner.scores.batch import Batch
from treeinner.scores.setting import Setting
from treeinner.scores.state import State
from treeinner.scores.task import Task

__all__ = ["add_batch"]

FloatArray = NDArray[np.float64]


def add_batch(
    state: State, setting: Setting, batch: Batch, *, n_jobs: int | None, progress: Progress | None = None
) -> None:
    """Add the scores of all rows of a batch to the state."""
    setting.prepare()
    step = task_rows(setting.forest, batch.table)
    objective = setting.objective

    if objective is None or objective.per_row:
        states = {get_ident(): state}  # of every thread; the caller works too

        def work(start: int, stop: int) -> None:
            if get_ident() not in states:
                states[get_ident()] = State.empty(setting)
            task = Task(setting, batch, start, stop, states[get_ident()])
            if objective is not None:
                _run_task(task)
            task.finish()
            task.state.note_added(task.largest_sum())

        for _ in map_rows(batch.n_rows, step, work, n_jobs=n_jobs, progress=progress):
            pass
        for own in states.values():
            if own is not state:
                state += own
        state.settle()
        return

    # The loss of a row looks at other rows: all of them go through the rounds together.
    tasks = [
        Task(setting, batch, start, min(start + step, batch.n_rows), state) for start in range(0, batch.n_rows, step)
    ]
    _run_tasks(tasks, batch)
    for task in tasks:
        task.finish()
    state.note_added(sum(task.largest_sum() for task in tasks))
    state.settle()


def _run_task(task: Task) -> None:
    """Take one task through all rounds; the loss looks at one row at a time."""
    setting, objective = task.setting, task.setting.objective
    assert objective is not None
    assert task.y is not None
    target = task.core_target(objective)
    if target is not None and task.boost(target):
        return
    y = task.y[task.repeated]
    weight = task.given_weight()
    for number in range(setting.ensemble.n_rounds):
        if target is None or not task.take_in_core(target):  # numpy knows which row has no finite gradient
            task.take(objective.gradients(y, task.padded_margins(), weight=weight)[: task.n_rows])
        if setting.score == "loss":
            step, largest = task.padded_step(number), setting.largest_steps[number]
            task.first_order += task.times_residual(step)
            mean = objective.mean_gradients(y, task.padded_margins(), step, weight=weight, largest_step=largest)
            task.take(mean[: task.n_rows])
        hessian = None
        if setting.penalty is not None:
            hessian = task.in_units(_hessian(setting, y, task.padded_margins(), weight, None)[: task.n_rows])
        task.score_round(number, hessian)


def _run_tasks(tasks: Sequence[Task], batch: Batch) -> None:
    """Take tasks through all rounds together: the loss of a row looks at other rows too."""
    setting, y, weight, qid = tasks[0].setting, batch.y, batch.given_weight(), batch.qid
    assert setting.objective is not None
    assert y is not None
    edges = np.cumsum([0] + [task.n_rows for task in tasks])
    for number in range(setting.ensemble.n_rounds):
        margin = np.concatenate([task.margins() for task in tasks])
        gradient = setting.objective.gradients(y, margin, weight=weight, qid=qid)
        hessian = _hessian(setting, y, margin, weight, qid) if setting.penalty is not None else None
        for task, start, stop in zip(tasks, edges[:-1], edges[1:], strict=True):
            task.take(gradient[start:stop])
            task.score_round(number, None if hessian is None else task.in_units(hessian[start:stop]))


def _hessian(
    setting: Setting, y: NDArray[Any], margin: FloatArray, weight: FloatArray | None, qid: NDArray[Any] | None
) -> FloatArray:
    """What a row adds to the cover of a root: its hessian, its weight, or 1 where the library counts rows."""
    e, objective = setting.ensemble, setting.objective
    assert objective is not None
    hessian: FloatArray | None = np.ones_like(margin)
    if e.cover_is == "hessian":
        hessian = objective.hessians(y, margin, qid=qid)
    if hessian is None:
        raise UnsupportedModelError(
            f"objective {objective.name!r} has no hessian, which the score of an l1-regularised model needs; "
            "pass reg_alpha=0 for the plain inner product."
        )
    return hessian if weight is None or e.cover_is == "count" else hessian * weight[:, None]
