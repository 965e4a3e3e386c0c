"""The fuzzers themselves: a number is a mutant, and what is wrong is found, whatever it is."""

import os
import signal
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import treeinner as ti

pytest.importorskip("resource", reason="the fuzzers limit time and memory as Unix does")
if sys.platform != "linux":
    pytest.skip("the fuzzers ask Linux how much memory they have", allow_module_level=True)

from tests.fuzz import driver, formats, judge, limits, seeds

FORMAT = "model"


@pytest.fixture(autouse=True)
def one_seed(monkeypatch, tmp_path):
    """One saved model in place of all seeds, so that no library is needed."""
    ti.read_model(seeds.GOLDEN / "xgboost-3.2.0" / "regression.json").save(tmp_path / "seed.zip")
    X = np.random.default_rng(0).normal(size=(12, 7))
    found = (seeds.Seed("seed.zip", (tmp_path / "seed.zip").read_bytes(), X, X[:, 0]),)
    for module in (formats, driver):
        monkeypatch.setattr(module, "seeds", lambda format: found)
    return found[0]


def test_a_mutant_depends_on_its_number_and_seed_alone():
    first, again, other = ([formats.mutant(FORMAT, n, seed)[2] for n in range(40)] for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert len(set(first)) > 35  # a few damages have few ways


def judged(tmp_path, n=30):
    return list(driver.answers(FORMAT, range(n), 0, tmp_path))


def test_a_sound_reader_has_no_failure(tmp_path):
    found = judged(tmp_path)
    assert [one["number"] for one in found] == list(range(30))
    assert {one.get("end") for one in found} == {"right", "refused"}


def test_a_wrong_number_a_raw_error_and_a_nameless_error_are_failures(one_seed, monkeypatch, tmp_path):
    examine = judge.Judge(FORMAT, "", tmp_path / "mutant")
    assert examine(one_seed, one_seed.data).end == "right"
    with monkeypatch.context() as changed:
        changed.setattr(ti.Model, "predict", lambda self, X, **_: self.ensemble.predict(X) + 1e-6)
        with pytest.raises(judge.WrongError, match="saabas: off by 1e-06"):
            examine(one_seed, one_seed.data)
    with monkeypatch.context() as changed:
        scores = ti.Importance.scores
        changed.setattr(ti.Importance, "scores", property(lambda self: scores.__get__(self) * (1 + 1e-6)))
        model, rows = ti.load(tmp_path / "seed.zip"), (one_seed.X, one_seed.y)
        assert judge.scores_right(model, *rows, std_errors=True, defined=False)
        with pytest.raises(judge.WrongError, match="not the oracle's score"):
            judge.scores_right(model, *rows, std_errors=True, defined=True)
    for error, expected in ((KeyError("x"), KeyError), (ti.ModelError("no name"), judge.WrongError)):
        with monkeypatch.context() as changed:
            changed.setattr(ti, "load", lambda path, error=error: (_ for _ in ()).throw(error))
            with pytest.raises(expected):
                examine(one_seed, one_seed.data)


def spin():
    while True:
        time.process_time()


ENDS = {
    "the process died by SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "the process left with code 3": lambda: os._exit(3),
    "the process took too long": spin,
}


@pytest.mark.parametrize("expected", ENDS)
def test_a_process_that_ends_is_a_failure_of_its_mutant_and_the_others_go_on(expected, one_seed, monkeypatch, tmp_path):
    bad = formats.mutant(FORMAT, 2, 0)[2]

    class Ending(judge.Judge):
        def __call__(self, seed, data):
            return ENDS[expected]() if data == bad else super().__call__(seed, data)

    monkeypatch.setattr(judge, "Judge", Ending)
    monkeypatch.setattr(limits, "SECONDS", 0.5)
    state = driver.State(FORMAT, 0, "")
    for answer in judged(tmp_path, 5):
        state.take(answer)
    assert state.failures.keys() == {expected}
    assert state.failures[expected]["numbers"] == [2]
    assert (state.next, sum(state.ends.values())) == (5, 4)


def test_a_run_goes_on_where_it_stopped(monkeypatch, tmp_path):
    monkeypatch.setattr(driver, "digest", lambda format: "same")
    once = driver.State.load(FORMAT, 0, tmp_path, fresh=False)
    driver.run(once, 20, 600, tmp_path)
    parts = driver.State.load(FORMAT, 0, tmp_path, fresh=True)
    for stop in (7, 20):
        driver.run(parts, stop, 600, tmp_path)
        parts = driver.State.load(FORMAT, 0, tmp_path, fresh=False)
    assert replace(parts, seconds=0, slowest=(0, 0)) == replace(once, seconds=0, slowest=(0, 0))
    monkeypatch.setattr(driver, "digest", lambda format: "other")
    with pytest.raises(SystemExit, match="other seeds"):
        driver.State.load(FORMAT, 0, tmp_path, fresh=False)
