"""The one place with threads: ranges of rows over a pool; and what is told of their progress."""

from __future__ import annotations

import numbers
import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any, TypeVar

__all__ = ["Progress", "heard", "map_rows", "n_threads"]

Progress = Callable[[int, int], None]  # (rows done, rows in all)
PATIENCE = 2.0  # seconds until a bar is drawn
T = TypeVar("T")


def heard(progress: Progress | bool | None) -> Progress | None:
    """Who hears of progress: the user's function; for True tqdm's bar once the work takes two seconds, else a text."""
    if not isinstance(progress, bool):
        return progress
    if not progress:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return lambda done, of: print(f"\r{100 * done // of} %", end="\n" * (done >= of), file=sys.stderr, flush=True)
    bars: list[Any] = []

    def show(done: int, of: int) -> None:
        if not bars:
            bars.append(tqdm(total=of, delay=PATIENCE))
        bars[0].update(done - bars[0].n)
        if done >= of:
            bars.pop().close()

    return show


def n_threads(n_jobs: int | None) -> int:
    """Number of threads for scikit-learn's `n_jobs`: None is 1, -1 all cores, -2 all but one, ..."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs={n_jobs!r} has no meaning; pass a positive integer, or -1 for all cores.")
    if n_jobs > 0:
        return n_jobs
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores + 1 + n_jobs)


def map_rows(
    n_rows: int, step: int, work: Callable[[int, int], T], *, n_jobs: int | None = -1, progress: Progress | None = None
) -> Iterator[T]:
    """work(start, stop) for consecutive ranges of rows; the results come in order, exceptions surface."""
    ranges = [(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    threads = min(n_threads(n_jobs), len(ranges))
    with closing(_in_order(work, ranges, threads) if threads > 1 else (work(*r) for r in ranges)) as results:
        for (_, stop), result in zip(ranges, results, strict=True):
            if progress is not None:
                progress(stop, n_rows)
            yield result


def _in_order(work: Callable[[int, int], T], ranges: list[tuple[int, int]], threads: int) -> Generator[T]:
    """Results of all ranges; at most 2 * threads are at work or wait to be taken, so that their memory is bounded."""
    pending: deque[tuple[Future[T], tuple[int, int]]] = deque()
    left = iter(ranges)
    # The caller works too: it is awake on a processor, where a thread more would have to be woken and placed.
    with ThreadPoolExecutor(threads - 1) as pool:
        try:
            while True:
                while len(pending) < 2 * threads and (r := next(left, None)) is not None:
                    pending.append((pool.submit(work, *r), r))
                if not pending:
                    return
                while not pending[0][0].done():
                    mine = next((i for i, (future, _) in enumerate(pending) if future.cancel()), None)  # not begun yet
                    if mine is None:
                        break
                    r = pending[mine][1]
                    pending[mine] = (Future(), r)
                    pending[mine][0].set_result(work(*r))
                yield pending.popleft()[0].result()
        finally:
            for future, _ in pending:
                future.cancel()  # after an error, or if nobody asks for more
