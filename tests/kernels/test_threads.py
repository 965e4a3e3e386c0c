"""Ranges of rows over a pool of threads; several user threads on one model, of which nothing is changed once built."""

import threading
import time
from functools import partial

import numpy as np
import pytest

import treeinner as ti
from tests.forests import Recipe, make_model, make_rows, make_trees
from treeinner.kernels import threads
from treeinner.losses import find_loss

REPETITIONS = 40


# -- the pool ---------------------------------------------------------------------------------------------------
def test_n_jobs():
    assert threads.n_threads(None) == 1
    assert threads.n_threads(3) == 3
    assert threads.n_threads(-1) >= 1
    with pytest.raises(ValueError, match="n_jobs=0"):
        threads.n_threads(0)


def test_an_exception_in_a_thread_surfaces():
    def work(start, stop):
        raise RuntimeError(f"rows from {start}")

    with pytest.raises(RuntimeError, match="rows from 0"):
        list(threads.map_rows(100, 10, work, n_jobs=2))


def test_results_that_nobody_takes_are_not_piled_up():
    started = []
    results = threads.map_rows(1000, 10, lambda start, stop: started.append(start) or start, n_jobs=2)
    for taken, result in enumerate(results):
        assert result == 10 * taken
        time.sleep(0.002)  # the threads are faster than whoever takes their results
        assert len(started) <= taken + 1 + 4  # twice the threads at work or waiting
    assert sorted(started) == list(range(0, 1000, 10))


def test_every_range_of_rows_is_worked_on_once_by_the_caller_or_a_thread():
    done = []

    def work(start, stop):
        time.sleep(0.001 * (start % 3))
        done.append((start, threading.current_thread()))
        return start

    for n_jobs in (2, 4):
        done.clear()
        assert list(threads.map_rows(97, 1, work, n_jobs=n_jobs)) == list(range(97))
        assert sorted(start for start, _ in done) == list(range(97))
        workers = {thread for _, thread in done}
        assert threading.main_thread() in workers
        assert len(workers) <= n_jobs


# -- threads of the user ----------------------------------------------------------------------------------------
def together(n, work):
    """Results of work() in n threads that start at the same moment."""
    start, results, errors = threading.Barrier(n), [], []

    def run():
        start.wait()
        try:
            results.append(work())
        except Exception as error:
            errors.append(error)

    running = [threading.Thread(target=run) for _ in range(n)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not errors, errors
    return results


@pytest.mark.parametrize("method", ["treeshap", "predecomp"])
def test_the_first_call_of_several_threads_on_a_fresh_model_gives_the_values_of_one(method):
    def fresh():
        return make_model(make_trees(Recipe(n_trees=20, depth=6, n_columns=5, grow=0.95), 1))

    X = make_rows(fresh().trees, 300, 2)
    alone = ti.attribute(fresh(), X, method=method, n_jobs=1).values
    for _ in range(REPETITIONS):
        attribute = partial(ti.attribute, fresh(), X, method=method, n_jobs=1)
        for found in together(2, attribute):
            assert np.array_equal(found.values, alone)


def test_threads_share_one_table_of_treeshap():
    forest = make_trees(Recipe(n_trees=5, depth=5), 3).forest
    tables = together(4, forest.shap_table)
    assert all(table is tables[0] for table in tables)


@pytest.mark.parametrize("score", ["signal", "tree_inner", "loss"])
def test_threads_that_score_a_fresh_model_get_the_numbers_of_one(score):
    loss = find_loss(told="softmax", library="xgboost", name="", params={}, n_outputs=2)

    def fresh():
        return make_model(make_trees(Recipe(n_trees=20, depth=5, n_columns=5, n_outputs=2), 1), loss)

    X, y = make_rows(fresh().trees, 300, 2), np.arange(300) % 2
    alone = ti.importance(fresh(), X, y, score=score, n_jobs=1)
    for _ in range(5):
        importance = partial(ti.importance, fresh(), X, y, score=score, n_jobs=1)
        for found in together(3, importance):
            for name in ("scores", "std_errors", "p_values"):
                assert np.array_equal(getattr(found, name), getattr(alone, name))
