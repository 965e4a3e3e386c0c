"""Threads, processes and interrupts around one model: the bits of one thread, or an end within a second."""

import multiprocessing
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import treeinner as ti
from tests.cases import loss_named, same_bits
from tests.forests import Recipe, make_model, make_rows, make_trees

THREADS = 6
X = np.random.default_rng(4).normal(size=(150, 4))
Y = X[:, 0] + np.abs(X[:, 1])


def fresh_model(n_trees=12, depth=5):
    """A model whose kernels nobody has asked for yet; it can be pickled."""
    trees = make_trees(Recipe(n_trees=n_trees, depth=depth, n_columns=4, grow=0.95), 1)
    return make_model(trees, loss_named("squared_error"))


def together(work):
    """Results of threads that begin at the same moment."""
    start = threading.Barrier(THREADS)

    def after(number):
        start.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(after, range(THREADS)))


def test_an_accumulator_for_each_thread_adds_up_to_the_bits_of_one():
    model, parts = fresh_model(), np.array_split(np.arange(150), THREADS)
    make = partial(ti.ImportanceAccumulator, model, score="tree_inner", method="saabas", n_jobs=1)
    found = sum(together(lambda i: make().update(X[parts[i]], Y[parts[i]]))).result()
    same_bits(found, make().update(X, Y).result())


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # of a process that has threads
def test_processes_started_after_use(start):
    """Threads of a call end with it, so that a fork inherits no lock that nobody will open."""
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {start} on this system")
    score = partial(ti.importance, fresh_model(), X, Y, n_jobs=2)
    here = score()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(start)) as pool:
        same_bits(pool.submit(score).result(timeout=200), here)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers on this system")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_ends_a_long_call_within_a_second(n_jobs):
    """Of the processor, so that other work on the machine does not count."""
    model, at = fresh_model(200, 7), []
    rows = np.tile(make_rows(model.trees, 1000, 3), (200, 1))

    def interrupt(*_):  # what Ctrl-C does
        at.append(time.process_time())
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            ti.importance(model, rows, np.zeros(len(rows)), score="tree_inner", method="treeshap", n_jobs=n_jobs)
        assert time.process_time() - at[0] < 1.0 * n_jobs
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    few = rows[:100]  # nothing is left half done
    np.testing.assert_array_equal(model.predict(few), fresh_model(200, 7).predict(few))
