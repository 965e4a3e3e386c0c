"""Files that only CatBoost can load: its crashes stay in a process of their own."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import treeinner as ti
from tests.test_golden import GOLDEN, answer, data, words
from treeinner.readers import catboost as reader
from treeinner.readers.catboost import trial

CTR = GOLDEN / "catboost-1.2.10" / "ctr.cbm"


@pytest.fixture
def asked(monkeypatch):
    """Commands of the processes that were started; nothing is known of any file yet."""
    commands = []

    def run(command, **options):
        commands.append(command)
        return started(command, **options)

    started = subprocess.run
    monkeypatch.setattr(trial.subprocess, "run", run)
    monkeypatch.setattr(trial, "_survivors", set())
    return commands


def in_place_of_catboost(monkeypatch, code):
    """Let the process do this instead of loading a file."""
    monkeypatch.setattr(trial, "LOAD", code)


CRASHES = {
    "segmentation fault": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "abort": "import os; os.abort()",
    "exit": "import os; os._exit(139)",
    "error of Python": "raise MemoryError('too much')",
}


@pytest.mark.parametrize("name", CRASHES)
def test_a_crash_is_an_error_that_names_the_file(name, asked, monkeypatch, tmp_path):
    (tmp_path / "model.cbm").write_bytes(b"CBM1")
    in_place_of_catboost(monkeypatch, CRASHES[name])
    for _ in range(2):  # a crash is not remembered as a survivor
        with pytest.raises(ti.ModelError, match=r"CatBoost crashed on .*model\.cbm, in a process of its own"):
            trial.require_survivor(tmp_path / "model.cbm", "cbm")
    assert len(asked) == 2


@pytest.mark.parametrize("code", ["import time; time.sleep(600)", "while True: pass"])
def test_a_process_that_does_not_return_is_stopped(code, asked, monkeypatch, tmp_path):
    (tmp_path / "model.cbm").write_bytes(b"CBM1")
    in_place_of_catboost(monkeypatch, code)
    monkeypatch.setattr(trial, "PATIENCE", 2)
    monkeypatch.setenv("TREEINNER_CATBOOST_SECONDS", "1")
    with pytest.raises(ti.ModelError, match=r"did not load .*model\.cbm within 1 seconds.*TREEINNER_CATBOOST_SECONDS"):
        trial.require_survivor(tmp_path / "model.cbm", "cbm")


def test_a_content_is_tried_once_whatever_its_name(asked, monkeypatch, tmp_path):
    in_place_of_catboost(monkeypatch, "pass")
    for name, content in (("one", b"CBM1 a"), ("two", b"CBM1 a"), ("three", b"CBM1 b")):
        (tmp_path / name).write_bytes(content)
        trial.require_survivor(tmp_path / name, "cbm")
    assert [Path(command[-3]).name for command in asked] == ["one", "three"]


def test_the_process_sees_the_packages_that_this_one_sees(asked, monkeypatch, tmp_path):
    (tmp_path / "model.cbm").write_bytes(b"CBM1")
    (tmp_path / "only_here.py").write_text("")
    in_place_of_catboost(monkeypatch, "import only_here")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    trial.require_survivor(tmp_path / "model.cbm", "cbm")


# -- with CatBoost -------------------------------------------------------------------------------------------
def test_a_good_file_is_read_and_a_damaged_one_is_refused_by_catboost(asked, tmp_path):
    pytest.importorskip("catboost")
    whole = CTR.read_bytes()
    X = words(data()["X"][:20])
    for _ in range(2):  # float64 sums of a few trees
        np.testing.assert_allclose(ti.read_model(CTR).predict(X), answer("catboost-1.2.10/ctr.cbm", "margin")[:20])
    assert len(asked) == 1
    cut = tmp_path / "cut.cbm"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ti.ModelError, match=r"CatBoost (cannot load|crashed on) .*cut\.cbm"):
        reader._load(cut)


def test_an_object_in_memory_and_files_without_encoded_categories_start_no_process(asked):
    for name in ("regression.cbm", "regression.json", "depthwise.cbm"):
        model = ti.read_model(GOLDEN / "catboost-1.2.10" / name)
        assert np.isfinite(model.predict(np.zeros((2, model.n_features)))).all()
    assert asked == []
