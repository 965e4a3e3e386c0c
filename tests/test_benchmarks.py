"""benchmarks/: a bounded part of the calibration with fixed seeds, the measures of selection by hand, resumed runs."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import treeinner as ti

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks"


def loaded(folder, *names):
    """Modules of a folder of benchmarks; two folders have a designs.py, so none of them is left behind."""
    before = {name: sys.modules.pop(name, None) for name in ("designs", *names)}
    sys.path.insert(0, str(folder))
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        sys.path.remove(str(folder))
        for name, old in before.items():
            sys.modules.pop(name, None)
            if old is not None:
                sys.modules[name] = old


@pytest.fixture(scope="module")
def calibration():
    return loaded(FOLDER, "calibration")[0]


@pytest.fixture(scope="module")
def promise():
    return loaded(FOLDER / "selection", "promise")[0]


@pytest.fixture(scope="module")
def union():
    return loaded(FOLDER / "selection", "union")[0]


@pytest.fixture
def rivals(monkeypatch):
    """The harness on draws that take no time."""
    module, module.page = loaded(FOLDER / "selection", "rivals", "rivals_page")
    for name, value in {"ROWS": 120, "TEST_ROWS": 60, "COLUMNS": 20}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module.designs, "chip_folder", lambda: None)  # nothing is fetched
    return module


# -- calibration: limits are three standard errors (over replications) wide, since a dozen replications are few
def rates(calibration, chosen, *args):
    """Rates of both scores over twelve replications, by score and test."""
    records = [calibration.designs.significance(chosen, r, *args) for r in range(12)]
    scores = records[0]["p"]
    return {s: {t: calibration.rates(chosen, records, s, t) for t in calibration.TESTS} for s in scores}


def is_safe(found):
    limits = {"size": 0.025, "fdr": 0.1}  # two-sided p values below .05 whose score is positive
    return all(found["t"][what][0] <= limit + 3 * found["t"][what][1] for what, limit in limits.items())


@pytest.mark.parametrize("name", ["weak linear signal", "t3 errors", "Friedman's function", "LightGBM"])
def test_p_values_of_noise_are_on_the_safe_side(calibration, name):
    chosen = next(d for d in calibration.DESIGNS if d.name == name)
    found = rates(calibration, chosen)
    assert is_safe(found["tree_inner"])
    assert is_safe(found["loss"])
    assert found["tree_inner"]["t"]["power"][0] >= 0.1  # and not so safe as to be useless


def test_large_steps_flatter_tree_inner_but_not_the_loss_breakdown(calibration):
    found = rates(calibration, calibration.TARGETS["strong signal"], 1.0, 1500, 3)
    assert not is_safe(found["tree_inner"])
    assert is_safe(found["loss"])


def test_intervals_cover(calibration):
    chosen = next(d for d in calibration.DESIGNS if d.name == "logistic")
    records = [calibration.designs.coverage(chosen, r) for r in range(3)]
    for mask in calibration.kinds(chosen, len(records[0]["used"])):
        for n in (300, 1000, 5000):
            inside, reached = (np.array([r[str(n)][x] for r in records]) * mask for x in ("inside", "reached"))
            rate, error = calibration.share(inside.sum(axis=1), reached.sum(axis=1))
            # three models: the binomial error of as many independent intervals is the steadier one
            error = max(error, np.sqrt(0.05 * 0.95 / reached.sum()))
            assert 0.93 - 3 * error <= rate <= 0.975 + 3 * error


def test_an_interrupted_calibration_continues(calibration, tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "PASSES", 3)
    path = tmp_path / "results.jsonl"
    calibration.run(path, {"misuse": 3})
    whole, text = calibration.load(path), path.read_text()
    path.write_text(text[:-1000])  # in the middle of the last line
    assert len(calibration.load(path)) == 2
    calibration.run(path, {"misuse": 3})
    again = calibration.load(path)
    assert all(again[key]["clusters="] == whole[key]["clusters="] for key in whole)


def test_the_page_of_the_calibration_has_every_design(calibration):
    text = calibration.PAGE.read_text()
    assert f"`{calibration.COMMAND}` made this page" in text
    for d in (*calibration.DESIGNS, calibration.OUT_OF_BAG):
        assert f"| {d.name} |" in text


# -- selection: what counts as a find
def test_finds_are_counted_one_by_one(promise):
    relevant = np.array([True, False, True, False, False])
    # false finds, finds, relevant features found, relevant features; at .05, .1, .2
    assert promise.outcome([0.01, 0.04, 0.15, 0.9, np.nan], relevant) == [[1, 2, 1, 2], [1, 2, 1, 2], [1, 3, 2, 2]]


def test_columns_tested_as_one_are_one_find(promise):
    relevant = np.array([True, False, False, False, True])
    assert promise.outcome([0.01, 0.01, 0.02, 0.02, 0.9], relevant, ((0, 1), (2, 3)))[0] == [1, 2, 1, 2]


def test_rates_are_means_over_replications_and_not_of_pooled_finds(promise):
    records = [{"seconds": 1.0, "conditional": [f] * 3, "marginal": [f] * 3} for f in ([1, 1, 0, 2], [0, 3, 2, 2])]
    found = promise.summary(records)["conditional"]
    assert found["fdr"][0] == [0.5, 0.5]  # (1 + 0) / 2; sd .7071 / sqrt(2)
    assert found["power"][0] == [0.5, 0.5]


def test_a_replication_of_the_promise_asks_both_tests(promise):
    found = promise.replication("Friedman", 300, 20, 1000)
    assert found["marginal"][1][2] >= 3  # of the five relevant columns, at q .1
    assert found["conditional"][1][3] == 5


@pytest.mark.parametrize("name", ["correlated blocks", "near-collinear"])
def test_proxies_say_nothing_that_the_relevant_columns_do_not(promise, name):
    """Linear designs: alone a proxy is correlated with the target, beside the relevant columns its t is noise."""
    data = promise.DESIGNS[name](4000, 20, 0)
    true, proxies = data.relevant_conditional, data.relevant_marginal & ~data.relevant_conditional
    alone = np.corrcoef(data.X[:, proxies], data.y, rowvar=False)[-1, :-1]
    assert abs(alone).min() > 5 / np.sqrt(4000)
    left = data.y - data.X[:, true] @ np.linalg.lstsq(data.X[:, true], data.y, rcond=None)[0]
    beside = np.corrcoef(data.X[:, ~true], left, rowvar=False)[-1, :-1]
    assert abs(beside).max() < 4 / np.sqrt(4000)  # four standard errors of a correlation


def test_measures_by_hand(rivals):
    # relevant: 3 and 1; others: 2, 1, 0. Pairs won: 3 > 2, 1, 0 and 1 > 0; 1 = 1 counts half: 4.5 of 6.
    assert rivals.auc([3, 1, 2, 1, 0], [True, True, False, False, False]) == pytest.approx(0.75)
    assert np.isnan(rivals.auc([1.0, 2.0], [False, False]))
    relevant, kept = [True, True, True, False, False], [True, False, True, True, False]
    assert rivals.false_share(kept, relevant) == pytest.approx(1 / 3)
    assert rivals.power(kept, relevant) == pytest.approx(2 / 3)
    assert rivals.false_share([False] * 5, relevant) == 0.0
    X, y = np.zeros((4, 2)), np.array([0.0, 1.0, 1.0, 2.0])
    assert rivals.refit_loss((X, y), (X, y), [False, False], "regression") == 0.5  # that of the mean


def test_a_run_of_rivals_is_resumed_and_its_page_has_every_number(rivals, tmp_path):
    path, methods = tmp_path / "results.jsonl", ["F test", "lasso CV", "total gain"]
    wanted = rivals.jobs(["Friedman", "correlated blocks"], methods, replications=2)
    rivals.run(wanted[:5], path)
    first = path.read_text()
    with path.open("a") as file:
        file.write('{"key": ["Friedman", "F te')  # a line that was cut off
    rivals.run(wanted, path)
    assert path.read_text().startswith(first)  # nothing was run again
    records = rivals.load(path)
    assert set(records) == set(wanted)
    assert not [r for r in records.values() if "error" in r]
    blocks = rivals.page.blocks(records)
    expected = np.mean([records["Friedman", "lasso CV", r]["fdr conditional"] for r in range(2)])
    row = next(line for line in blocks["fdr conditional"].splitlines() if line.startswith("| lasso CV"))
    assert row.split("|")[2].strip() == f"({expected:.2f})"  # two replications are few
    rivals.page.filled(rivals.page.PAGE.read_text(), blocks)  # the page has a place for each block


# -- cross-fitting against a single split
def test_scores_of_the_first_repeat_are_those_of_a_single_one(union, monkeypatch):
    monkeypatch.setattr(union, "STANDARD", replace(union.STANDARD, num_boost_round=3))
    monkeypatch.setattr(union, "FOLDS", 2)
    problem = union.PROBLEMS[3]
    found = union.replication(problem, 0, None)["auc"]
    data = union.make_data(problem, "as_run", union.Seeds(0, problem, 0).generator("data"), None)
    X, y = np.concatenate([data.X_train, data.X_valid]), np.concatenate([data.y_train, data.y_valid])
    for repeats in (1, 3):
        asked = {"cv": 2, "repeats": repeats, "random_state": 0, "n_jobs": 1}
        scores = ti.cross_importance(union.estimator(problem), X, y, **asked).scores
        assert found[f"cross, {repeats}"] == union.area_under_curve(data.relevant, scores)


def test_the_page_of_the_union_shows_the_numbers_of_its_file(union):
    found = json.loads(union.NUMBERS.read_text())
    assert {len(aucs) for by in found.values() for aucs in by.values()} == {union.REPLICATIONS}
    for text in union.page_tables(found).values():
        assert text in union.PAGE.read_text()
