"""Several user threads on one model: everything that is built at a first call is built whole, and never changed."""

import threading

import numpy as np
import pytest

import treeinner as ti

from .forests import Recipe, make_ensemble, make_rows

REPETITIONS = 40


def together(n, work):
    """Results of work(i) in n threads that start at the same moment."""
    start, results, errors = threading.Barrier(n), [None] * n, []

    def run(i):
        start.wait()
        try:
            results[i] = work(i)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    return results


@pytest.mark.parametrize("method", ["treeshap", "predecomp"])
def test_the_first_call_of_several_threads_on_a_fresh_model_gives_the_values_of_one(method):
    recipe = Recipe(n_trees=20, depth=6, n_columns=5, grow=0.95)
    X = make_rows(make_ensemble(recipe, 1), 300, 2)
    alone = ti.attribute(make_ensemble(recipe, 1), X, method=method, n_jobs=1).values
    for _ in range(REPETITIONS):
        fresh = make_ensemble(recipe, 1)
        _ = fresh.forest
        for values in together(2, lambda _, e=fresh: ti.attribute(e, X, method=method, n_jobs=1).values):
            assert np.array_equal(values, alone)


def test_threads_share_one_table_of_treeshap():
    e = make_ensemble(Recipe(n_trees=5, depth=5), 3)
    tables = together(4, lambda _: e.forest.shap_table())
    assert all(table is tables[0] for table in tables)


@pytest.mark.parametrize("score", ["tree_inner", "loss"])
def test_threads_that_score_a_fresh_model_get_the_numbers_of_one(score):
    recipe = Recipe(n_trees=20, depth=5, n_columns=5, n_outputs=2)
    X, y = make_rows(make_ensemble(recipe, 1), 300, 2), np.arange(300) % 2
    options = {"objective": "softmax", "score": score, "n_jobs": 1}
    alone = ti.importance(make_ensemble(recipe, 1), X, y, **options)
    for _ in range(5):
        fresh = make_ensemble(recipe, 1)
        for found in together(3, lambda _, e=fresh: ti.importance(e, X, y, **options)):
            assert np.array_equal(found.scores, alone.scores)
            assert np.array_equal(found.std_errors, alone.std_errors)
            assert np.array_equal(found.p_values, alone.p_values)
