"""The one place with threads: ranges of rows over a pool."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["Progress", "map_rows", "n_threads"]

Progress = Callable[[int, int], None]  # (rows done, rows in all)
T = TypeVar("T")


def n_threads(n_jobs: int | None) -> int:
    """Number of threads for scikit-learn's `n_jobs`: None is 1, -1 all cores, -2 all but one, ..."""
    if n_jobs is None:
        return 1
    if n_jobs == 0:
        raise ValueError("n_jobs=0 has no meaning; pass a positive number, or -1 for all cores.")
    if n_jobs > 0:
        return n_jobs
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores + 1 + n_jobs)


def map_rows(
    n_rows: int,
    step: int,
    work: Callable[[int, int], T],
    *,
    n_jobs: int | None = -1,
    progress: Progress | None = None,
) -> Iterator[T]:
    """work(start, stop) for consecutive ranges of rows; the results come in order, exceptions surface."""
    ranges = [(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    threads = min(n_threads(n_jobs), len(ranges))
    if threads <= 1:
        results: Iterator[T] = (work(*r) for r in ranges)
        yield from _reporting(results, ranges, n_rows, progress)
        return
    # The caller works too: it is awake on a processor, where a thread more would have to be woken and placed.
    with ThreadPoolExecutor(threads - 1) as pool:
        yield from _reporting(_in_order(pool, work, ranges, 2 * threads), ranges, n_rows, progress)


def _in_order(
    pool: ThreadPoolExecutor, work: Callable[[int, int], T], ranges: list[tuple[int, int]], most: int
) -> Iterator[T]:
    """Results of all ranges; at most so many are at work or wait to be taken, so that their memory is bounded."""
    pending: deque[_Task[T]] = deque()
    left = iter(ranges)
    try:
        while True:
            while len(pending) < most and (r := next(left, None)) is not None:
                pending.append(_Task(pool.submit(work, *r), r))
            if not pending:
                return
            while not pending[0].done():
                own = next((task for task in pending if not task.result and task.future.cancel()), None)
                if own is None:
                    break
                own.result = [work(*own.rows)]
            yield pending.popleft().take()
    finally:
        for task in pending:
            task.future.cancel()  # after an error, or if nobody asks for more


@dataclass
class _Task(Generic[T]):
    """A range of rows that a thread of the pool works on, or that the caller has taken back from it."""

    future: Future[T]
    rows: tuple[int, int]
    result: list[T] = field(default_factory=list)  # of the caller: at most one

    def done(self) -> bool:
        return bool(self.result) or (self.future.done() and not self.future.cancelled())

    def take(self) -> T:
        return self.result[0] if self.result else self.future.result()


def _reporting(
    results: Iterator[T], ranges: list[tuple[int, int]], n_rows: int, progress: Progress | None
) -> Iterator[T]:
    for (_, stop), result in zip(ranges, results, strict=True):
        if progress is not None:
            progress(stop, n_rows)
        yield result
