"""benchmarks/selection/union.py: a run that is resumed, the scores of one repeat, and a page that shows its numbers."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import treeinner as ti

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def union():
    pytest.importorskip("treeinner_study")
    sys.path.insert(0, str(ROOT / "benchmarks" / "selection"))
    try:
        import union
    finally:
        sys.path.pop(0)
    return union


@pytest.fixture
def small(union, monkeypatch, tmp_path):
    """Two problems without files, of few rounds and folds."""
    monkeypatch.setattr(union, "PROBLEMS", [p for p in union.PROBLEMS if p.dataset == "Simulated"])
    monkeypatch.setattr(union, "STANDARD", replace(union.STANDARD, num_boost_round=3))
    monkeypatch.setattr(union, "FOLDS", 2)
    monkeypatch.setattr(union, "FOLDER", tmp_path / "parts")
    monkeypatch.setattr(union, "find_chip", lambda: None)
    monkeypatch.setattr(union, "load_chip", lambda folder: None)
    return union


def test_a_run_that_was_interrupted_continues(small, monkeypatch):
    small.run(1, 0, 2)  # the first of two processes
    assert set(small.results()) == {("Simulated classification", 0)}
    asked, replication = [], small.replication
    monkeypatch.setattr(small, "replication", lambda *unit: asked.append(unit) or replication(*unit))
    small.run(1, 0, 1)
    assert [str(problem) for problem, _, _ in asked] == ["Simulated regression"]
    assert len(small.results()) == 2


def test_scores_of_the_first_repeat_are_those_of_a_single_one(small):
    problem = small.PROBLEMS[1]
    found = small.replication(problem, 0, None)["auc"]
    data = small.make_data(problem, "as_run", small.Seeds(0, problem, 0).generator("data"), None)
    X, y = np.concatenate([data.X_train, data.X_valid]), np.concatenate([data.y_train, data.y_valid])
    once, thrice = (
        ti.cross_importance(small.estimator(problem), X, y, cv=2, repeats=r, random_state=0, n_jobs=1) for r in (1, 3)
    )
    assert found["cross, 1"] == small.area_under_curve(data.relevant, once.scores)
    assert found["cross, 3"] == small.area_under_curve(data.relevant, thrice.scores)


def test_the_page_shows_the_numbers_of_its_file(union):
    found = json.loads(union.NUMBERS.read_text())
    assert set(found) == set(map(str, union.PROBLEMS))
    assert {len(aucs) for by in found.values() for aucs in by.values()} == {union.REPLICATIONS}
    page = union.PAGE.read_text()
    for text in union.page_tables(found).values():
        assert text in page


def test_numbers_of_the_study_are_of_the_same_draws(union):
    """The study's trees are exact, ours are histograms; on the 51 values of Simulated they hardly differ."""
    found = json.loads(union.NUMBERS.read_text())
    for task in ("classification", "regression"):
        by = found[f"Simulated {task}"]
        assert np.corrcoef(by["single, centred"], by["exact, centred"])[0, 1] > 0.9
        assert abs(np.corrcoef(by["single, centred"], by["exact, centred"][::-1])[0, 1]) < 0.6
