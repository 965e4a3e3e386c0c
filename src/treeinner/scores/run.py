"""Rows of a batch -> a State, in tasks over threads."""

from __future__ import annotations

from treeinner.compiled import Progress, map_rows, task_rows
from treeinner.scores.batch import Batch
from treeinner.scores.leaves import LeavesOfTasks
from treeinner.scores.setting import Setting
from treeinner.scores.state import State
from treeinner.scores.task import Task, run_task, run_tasks

__all__ = ["add_batch"]


def add_batch(
    state: State, setting: Setting, batch: Batch, *, n_jobs: int | None, progress: Progress | None = None
) -> None:
    """Add the scores of all rows of a batch to the state."""
    setting.prepare()
    step = task_rows(setting.forest, batch.table)
    objective = setting.objective

    if objective is None or objective.per_row:
        leaves_of_tasks = LeavesOfTasks(state.leaves)

        def work(start: int, stop: int) -> State:
            with leaves_of_tasks.borrow() as leaves:
                task = Task(setting, batch, start, stop, leaves)
                if objective is not None:
                    run_task(task)
                return task.finish()

        for part in map_rows(batch.n_rows, step, work, n_jobs=n_jobs, progress=progress):
            state += part
        leaves_of_tasks.add_up()
        return

    # The loss of a row looks at other rows: all of them go through the rounds together.
    tasks = [
        Task(setting, batch, start, min(start + step, batch.n_rows), state.leaves)
        for start in range(0, batch.n_rows, step)
    ]
    run_tasks(tasks, batch.qid)
    for task in tasks:
        state += task.finish()
