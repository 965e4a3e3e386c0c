"""Threads, processes and interrupts around one model: the bits of one thread, or an end within a second."""

import multiprocessing
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import catboost as cb
import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn import ensemble as ske

import treeinner as ti
from tests.forests import Recipe, make_ensemble, make_rows
from tests.test_threads import together

N = 150
THREADS = 6
rng = np.random.default_rng(4)
X = rng.normal(size=(N, 4))
Y = X[:, 0] + np.abs(X[:, 1])
FITS = {
    "xgboost": lambda: xgb.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1).fit(X, Y),
    "lightgbm": lambda: lgb.LGBMRegressor(n_estimators=8, max_depth=3, n_jobs=1, verbosity=-1).fit(X, Y),
    "catboost": lambda: cb.CatBoostRegressor(
        iterations=8, depth=3, verbose=0, thread_count=1, allow_writing_files=False
    ).fit(X, Y),
    "sklearn": lambda: ske.RandomForestRegressor(n_estimators=5, max_depth=4, random_state=0).fit(X, Y),
}
pytestmark = pytest.mark.filterwarnings("ignore::treeinner.TreeInnerWarning")  # that these are training rows
RECIPE = Recipe(n_trees=12, depth=5, n_columns=4, grow=0.95)


def everything(model):
    """Some of each kind of number that a model gives."""
    m = ti.read_model(model)
    imp = ti.importance(m, X, Y, n_jobs=2)
    shap = ti.attribute(m, X, method="treeshap", n_jobs=2)
    return [m.predict(X), m.apply(X), imp.scores, imp.std_errors, imp.p_values, shap.values]


# -- threads -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("library", FITS)
def test_many_threads_on_one_fresh_model_from_the_first_call_on(library):
    model = FITS[library]()
    alone = everything(FITS[library]())  # fits are reproducible
    for found in together(THREADS, lambda _: everything(model)):
        for one, other in zip(found, alone, strict=True):
            np.testing.assert_array_equal(one, other)


def test_an_accumulator_for_each_thread_adds_up_to_the_bits_of_one():
    parts = np.array_split(np.arange(N), THREADS)
    make = partial(ti.ImportanceAccumulator, make_ensemble(RECIPE, 1), objective="squared_error", n_jobs=1)
    alone = make().update(X, Y).result()
    found = sum(together(THREADS, lambda i: make().update(X[parts[i]], Y[parts[i]]))).result()
    np.testing.assert_array_equal(found.scores, alone.scores)
    np.testing.assert_array_equal(found.std_errors, alone.std_errors)


def test_one_accumulator_that_threads_share_loses_no_row():
    parts = np.array_split(np.arange(N), 10 * THREADS)
    make = partial(ti.ImportanceAccumulator, make_ensemble(RECIPE, 1), objective="squared_error", n_jobs=1)
    alone, shared = make().update(X, Y).result(), make()
    together(THREADS, lambda i: [shared.update(X[rows], Y[rows]) for rows in parts[i::THREADS]])
    assert (shared.n_rows, shared.n_batches) == (N, len(parts))
    np.testing.assert_array_equal(shared.result().scores, alone.scores)
    np.testing.assert_array_equal(shared.result().std_errors, alone.std_errors)


# -- processes -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # of a process that has threads
def test_processes_started_after_use(method):
    """Threads of a call end with it, so that a fork inherits no lock that nobody will open."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    e = make_ensemble(RECIPE, 1)
    score = partial(ti.importance, e, X, Y, objective="squared_error", n_jobs=2)
    here = score()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        there = pool.submit(score).result(timeout=600)  # a loaded machine may take long to start Python
    np.testing.assert_array_equal(there.scores, here.scores)
    np.testing.assert_array_equal(there.p_values, here.p_values)


# -- interrupts ----------------------------------------------------------------------------------------------
LONG = make_ensemble(Recipe(n_trees=200, depth=7, n_columns=4, grow=0.95), 2)
ROWS = make_rows(LONG, 200_000, 3)
TARGET = rng.normal(size=len(ROWS))


def cross():
    ti.cross_importance(ske.RandomForestRegressor(n_estimators=2, max_depth=2), X, Y, cv=2, repeats=100_000)


LONG_CALLS = {
    "importance": lambda n: ti.importance(LONG, ROWS, TARGET, objective="squared_error", method="treeshap", n_jobs=n),
    "attribute": lambda n: ti.attribute(LONG, ROWS, method="treeshap", n_jobs=n),
    "cross_importance": lambda n: cross(),
}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers on this system")
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("call", LONG_CALLS)
def test_an_interrupt_ends_a_long_call_within_a_second(call, n_jobs):
    """Of the processor, so that other work on the machine does not count."""
    if call == "cross_importance" and n_jobs == 2:
        pytest.skip("its fits run in joblib's processes")
    at = []

    def interrupt(*_):  # what Ctrl-C does
        at.append(time.process_time())
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            LONG_CALLS[call](n_jobs)
        assert time.process_time() - at[0] < 1.0 * n_jobs
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    few = ROWS[:100]
    fresh = make_ensemble(Recipe(n_trees=200, depth=7, n_columns=4, grow=0.95), 2)
    np.testing.assert_array_equal(LONG.predict(few), fresh.predict(few))  # nothing is left half done
