"""Run what is missing of a study: replications in parallel processes, each stored as soon as it is there."""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from treeinner_study import chip
from treeinner_study.grid import SWEEPS, Setting, settings_of, standard
from treeinner_study.measure import measure
from treeinner_study.names import PROBLEMS, Problem, StudyError
from treeinner_study.problems import Process
from treeinner_study.scores import instruction_set
from treeinner_study.store import Store

__all__ = ["Plan", "Progress", "Report", "run_study"]

# Python processes side by side, one thread each: the thread pools of libraries stay out of each other's way, and the
# numbers are the same however many processes there are. LAPACK's inverse has other bits with two threads.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
WEIGHT = {"ChIP": 5.0, "Simulated": 1.0}  # rough cost of a model, for the time left
QUICK_REPLICATIONS = 3
REPLICATIONS = 40  # at the standard setting, from which most is concluded
SWEEP_REPLICATIONS = 20  # at the others, as in the paper


@dataclass(frozen=True)
class Plan:
    """What is asked for."""

    out: Path
    process: Process = "as_run"
    replications: int | None = None  # of the standard setting; None: 40, or 3 if quick
    sweep_replications: int = SWEEP_REPLICATIONS  # of the others, which the first replications have
    seed: int = 0
    jobs: int = 1
    quick: bool = False  # the standard setting only
    rounds: int | None = None  # of the standard setting, for miniatures; None: the paper's 400
    sweeps: Sequence[str] = field(default_factory=lambda: tuple(SWEEPS))
    chip_dir: Path | None = None

    @property
    def n_replications(self) -> int:
        """Replications of the standard setting."""
        return self.replications or (QUICK_REPLICATIONS if self.quick else REPLICATIONS)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Settings to be run."""
        return settings_of(() if self.quick else self.sweeps, self.rounds)

    def settings_of(self, replication: int) -> tuple[Setting, ...]:
        """Settings to be run in one replication: all, or the standard one alone."""
        return self.settings if replication < self.sweep_replications else (standard(self.rounds),)


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    done: int  # replications of problems, those of earlier runs included
    total: int
    share: float  # of the work of this run
    seconds_left: float
    last: str  # what was finished last, "" at the start


@dataclass(frozen=True)
class Task:
    """One replication of one problem, for a worker."""

    problem: Problem
    replication: int
    plan: Plan
    chip_folder: Path | None

    @property
    def weight(self) -> float:
        """Rough cost."""
        return WEIGHT[self.problem.dataset] * len(self.plan.settings_of(self.replication))


Report = Callable[[Progress], None]


def run_study(plan: Plan, report: Report | None = None) -> Path:
    """Run what is missing, gather the parts, and return the folder of results."""
    problems, chip_folder, missing = _problems(plan)
    store = Store.open(plan.out / "results", _meta(plan, problems, missing))
    units = [(problem, i) for problem in problems for i in range(plan.n_replications)]
    todo = [Task(problem, i, plan, chip_folder) for problem, i in units if not store.has(problem, i)]
    todo.sort(key=lambda task: -task.weight)  # the longest first, so that no core is idle at the end
    watch = _Watch(store, len(units), todo, report)
    if todo:
        for task in _in_processes(store, todo, min(plan.jobs, len(todo))):
            watch.finished(task)
    store.gather(units)
    return store.folder


# -- work --------------------------------------------------------------------------------------------------------
def _work(store: Store, task: Task) -> None:
    """Run one replication and store it."""
    plan = task.plan
    unit = measure(
        task.problem,
        task.replication,
        plan.settings_of(task.replication),
        standard(plan.rounds),
        process=plan.process,
        seed=plan.seed,
        chip=chip.load_chip(task.chip_folder) if task.chip_folder is not None else None,
    )
    store.write(task.problem, task.replication, unit)


def _in_processes(store: Store, todo: Sequence[Task], jobs: int) -> Iterator[Task]:
    """Run the tasks in `jobs` fresh processes; never forked, since libraries with threads do not survive it.

    One job has a process of its own too: the threads of a library that is already loaded cannot be taken back.
    """
    context = multiprocessing.get_context("spawn")
    alive, ours = context.Pipe(duplex=False)
    with _environment(ONE_THREAD):
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(alive,))
        try:
            with _ctrl_c_later():
                futures = {pool.submit(_work, store, task): task for task in todo}
            for future in as_completed(futures):
                future.result()
                yield futures[future]
        except BrokenProcessPool:
            raise StudyError(
                "A worker process died (out of memory?); start the same command again: it goes on where it was, and "
                "--jobs 1 needs the least memory."
            ) from None
        finally:
            ours.close()  # workers that are still busy end at once: what they had is not stored, so nothing is lost
            pool.shutdown(wait=True, cancel_futures=True)
            alive.close()


def _start_worker(alive: Any) -> None:
    """Leave Ctrl-C to the parent, and end as soon as it is gone or wants no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        try:
            alive.recv()  # nothing is ever sent: it returns when the other end is closed
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Hold Ctrl-C back until the workers are started: they inherit it blocked, while they still import modules."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables for the processes that are started inside."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _Watch:
    """Keeps the wall time in meta.json, and says how far it is."""

    def __init__(self, store: Store, total: int, todo: Sequence[Task], report: Report | None) -> None:
        self.store, self.total, self.report = store, total, report
        self.done = total - len(todo)
        self.work, self.worked = sum(task.weight for task in todo), 0.0
        self.begun, self.before = time.monotonic(), float(store.meta["wall_seconds"])
        self._say("")

    def finished(self, task: Task) -> None:
        """Count one more replication."""
        self.done += 1
        self.worked += task.weight
        self.store.meta["wall_seconds"] = self.before + time.monotonic() - self.begun
        self.store.write_meta()
        self._say(f"{task.problem.dataset} {task.problem.task}, replication {task.replication + 1}")

    def _say(self, last: str) -> None:
        if self.report is None:
            return
        share = self.worked / self.work if self.work else 1.0
        left = (time.monotonic() - self.begun) * (1.0 - share) / share if share else float("nan")
        self.report(Progress(self.done, self.total, share, left, last))


# -- what is run, and on what -------------------------------------------------------------------------------------
def _problems(plan: Plan) -> tuple[list[Problem], Path | None, list[str]]:
    """Problems that can be run, the folder of the ChIP files, and sentences on what cannot be run."""
    try:
        return list(PROBLEMS), chip.find_chip(plan.chip_dir), []
    except StudyError as error:
        if plan.chip_dir is not None:
            raise  # the user named it: a slip, not a machine without network
        return [p for p in PROBLEMS if p.dataset != "ChIP"], None, [f"ChIP was not run: {error}"]


def _meta(plan: Plan, problems: Sequence[Problem], missing: Sequence[str]) -> dict[str, Any]:
    """Describe the study, as it goes into meta.json."""
    return {
        "seed": plan.seed,
        "process": plan.process,
        "replications": plan.n_replications,
        "sweep_replications": plan.sweep_replications,
        "rounds": plan.rounds,
        "quick": plan.quick,
        "versions": {
            **{name: version(name) for name in ("treeinner", "xgboost", "numpy")},
            "python": platform.python_version(),
        },
        "instruction_set": instruction_set(),
        "cpu": _cpu(),
        "threads_per_job": 1,
        "jobs": plan.jobs,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "wall_seconds": 0.0,
        "settings": [asdict(setting) for setting in plan.settings],
        "problems": [problem._asdict() for problem in problems],
        "missing": list(missing),
    }


def _cpu() -> str:
    """Name of the processor."""
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
