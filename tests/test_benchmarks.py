"""benchmarks/: a bounded part of the calibration with fixed seeds, the measures of selection by hand, resumed runs."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

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


@pytest.fixture
def rivals(monkeypatch):
    """The harness on draws that take little time, and its page."""
    designs, module, module.page = loaded(FOLDER, "rivals_designs", "rivals", "rivals_page")
    module.drawn = designs
    monkeypatch.setattr(designs, "ROWS", 200)
    monkeypatch.setattr(designs, "chip_rows", lambda: None)  # nothing is fetched
    return module


# -- calibration: limits are three standard errors (over draws) wide, since a dozen draws are few
def cell_of(calibration, study, target, model):
    """One cell of a study of calibration.py."""
    return next(c for c in calibration.STUDIES[study] if (c.target.name, c.model) == (target, model))


def rates_of(calibration, cell, score="signal", draws=8):
    """Rates of a cell at 2000 rows."""
    records = [calibration.designs.measured(cell, draw, covered=False) for draw in range(draws)]
    p, used = [r[score]["2000"] for r in records], [r["used"] for r in records]
    return calibration.rates(p, used, cell.target.noise)


@pytest.mark.parametrize(
    ("study", "target", "model"), [("rates", "Gaussian", "eta 0.3, depth 3"), ("libraries", "binary, 50 %", "LightGBM")]
)
def test_p_values_of_noise_are_on_the_safe_side(calibration, study, target, model):
    found = rates_of(calibration, cell_of(calibration, study, target, model))
    for what, limit in calibration.LIMITS.items():
        rate, error = found[what]
        assert rate <= limit + 3 * error
    assert found["power"][0] >= 0.5  # and not so safe as to be useless


def test_large_steps_flatter_tree_inner_more_than_signal(calibration):
    cell = cell_of(calibration, "rates", "Gaussian", "eta 1, depth 3")
    inner, signal = (rates_of(calibration, cell, score)["one"][0] for score in ("tree_inner", "signal"))
    assert inner > 0.1 > signal


def test_intervals_cover(calibration):
    cell = replace(cell_of(calibration, "rates", "binary, 50 %", "eta 0.3, depth 3"), samples=8)
    records = [calibration.designs.measured(cell, draw, covered=True) for draw in range(4)]
    for name in ("score", "holds shown"):
        counts = np.array([r["covered"]["500"][name] for r in records]) * [[r["used"]] for r in records]
        hits, tries = counts.sum(axis=(0, 2))
        # few models: the binomial error of as many independent intervals is the steadier one
        assert abs(hits / tries - 0.95) <= 0.03 + 3 * np.sqrt(0.05 * 0.95 / tries)


def test_an_interrupted_calibration_continues(calibration, tmp_path):
    path, wanted = tmp_path / "results.jsonl", dict(list(calibration.jobs({"rates": (20, 20)}).items())[:3])
    calibration.run(path, wanted)
    whole, text = calibration.load(path), path.read_text()
    path.write_text(text[:-1000])  # in the middle of the last line
    assert len(calibration.load(path)) == 2
    calibration.run(path, wanted)
    again = calibration.load(path)
    assert all(again[key]["covered"] == whole[key]["covered"] for key in whole)


def test_the_page_of_the_calibration_has_every_cell(calibration):
    text = calibration.PAGE.read_text()
    assert f"`{calibration.COMMAND}` made this page" in text
    for study, cells in calibration.STUDIES.items():
        block = text.split(f"<!-- tests: {study} -->")[1].split(f"<!-- end tests: {study} -->")[0]
        for cell in cells:
            assert f"| {cell.target.name} | {cell.model} |" in block


def test_rates_of_the_calibration_by_hand(calibration):
    """Two draws; columns 0 to 5 matter, 6 to 8 are noise, the last of which the second model does not use."""
    p = np.array(
        [[1e-6, 1e-6, 0.9, 0.9, 0.9, 0.9, 0.04, 0.08, -0.01], [1e-6, 0.9, 0.9, 0.9, 0.9, -0.9, 1e-6, -0.2, 1.0]]
    )
    used = np.ones_like(p)
    used[1, 8] = 0
    found = {what: rate for what, (rate, _) in calibration.rates(p, used, (6, 7, 8)).items()}
    assert found["two"] == 3 / 5  # .04, -.01, 1e-6 of three and two
    assert found["one"] == 3 / 5  # .04, .08, 1e-6
    assert found["fdr"] == pytest.approx((1 / 3 + 1 / 2) / 2)  # .04 is fourth of nine: q .09
    assert found["power"] == pytest.approx((2 / 6 + 1 / 6) / 2)


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


# -- rivals of the signal score
def test_measures_by_hand(rivals):
    true, noise = np.array([3, 1]), np.array([2, 1, 0])
    assert rivals.auc(true, noise) == pytest.approx(0.75)  # of six pairs, four won and a tie
    assert rivals.top(true, noise) == 0.5  # 3 and 2 are at the top
    assert rivals.top(np.ones(2), np.ones(2)) == 0.5
    assert rivals.tested(np.array([1.0, 1, -1, 1]), np.array([0.04, 0.2, 0.01, 0.05])).kept.tolist() == [1, 0, 0, 1]


def test_signal_finds_what_tree_inner_does_not(rivals, monkeypatch):
    """Weak signals, a binary target, XGBoost's defaults: six draws of the study."""
    monkeypatch.setattr(rivals.drawn, "ROWS", 1000)
    names = ("signal", "TreeInner(centred)")
    power = [[rivals.measure("binary, weak", "defaults", draw, name)["power"] for name in names] for draw in range(6)]
    gap, error = rivals.page.mean(np.subtract(*np.transpose(power)))
    assert gap > 3 * error


def test_a_run_of_rivals_is_resumed_and_its_page_has_every_number(rivals, tmp_path):
    path = tmp_path / "results.jsonl"
    wanted = [("Poisson", "defaults", draw, name) for draw in range(3) for name in ("signal", "total gain")]
    assert set(wanted) <= set(rivals.jobs())
    rivals.run(path, wanted[:3])
    first = path.read_text()
    path.write_text(first + '{"key": ["Poisson", "def')  # a line that was cut off
    rivals.run(path, wanted)
    assert path.read_text().startswith(first)  # nothing was run again
    results = rivals.load(path)
    assert set(results) == set(wanted)
    blocks = rivals.page.blocks(results)
    expected = np.mean([results["Poisson", "defaults", draw, "signal"]["auc"] for draw in range(3)])
    assert f"| Poisson | defaults | {expected:.3f} |" in blocks["auc"]
    rivals.page.filled(rivals.page.PAGE.read_text(), blocks)  # the page has a place for each block


def test_the_page_of_rivals_has_every_design(rivals):
    text = rivals.page.PAGE.read_text()
    assert f"`{rivals.page.COMMAND}` made the tables" in text
    for name in (*rivals.page.OWN, *rivals.page.PAPER):
        assert f"| {name} | regularised |" in text


# -- which feature made the loss rise
def test_a_torn_column_comes_first_and_a_run_of_the_promise_of_change_is_resumed(monkeypatch, tmp_path):
    (change,) = loaded(FOLDER, "change")
    monkeypatch.setattr(change, "LARGE", 1000)
    path, page = tmp_path / "results.jsonl", tmp_path / "change.md"
    wanted = [(2000, "regression", "LightGBM", 0, kind, draw) for kind in ("torn", "nothing") for draw in range(3)]
    assert set(wanted) <= set(change.jobs())
    change.run(path, wanted[:3])
    first = path.read_text()
    path.write_text(first + '{"key": [2000, "regression')  # a line that was cut off
    change.run(path, wanted)
    assert path.read_text().startswith(first)  # nothing was run again
    results = change.load(path)
    assert set(results) == set(wanted)
    torn = change.of(results, kind="torn")
    assert all(r["first"][name] == r["called"][name]["truth"] == r["hit"] == 0 for r in torn for name in change.BY)
    assert all(0 in r["called"][name]["worse"] for r in torn for name in change.BY)
    assert all(r["first"]["KS"] > 0 for r in torn)  # its distribution is as before
    page.write_text(change.PAGE.read_text())
    change.write(results, page)
    assert "| torn | regression | 1.00 | 1.00 |" in page.read_text()


def test_the_false_discovery_rate_is_a_mean_over_runs_and_its_error_is_of_models():
    (change,) = loaded(FOLDER, "change")
    # Two runs of each of two models.
    runs = [{"worse": w, "innocent": i} for w, i in (([], []), ([0, 1], [0]), ([2], []), ([2], []))]
    results = {(2000, "", "", k // 2, "torn", k % 2): {"called": {"compare": run}} for k, run in enumerate(runs)}
    assert change.false_discoveries(results, "compare") == (0.125, 0.125)


def test_the_page_of_change_has_every_kind():
    (change,) = loaded(FOLDER, "change")
    text = change.PAGE.read_text()
    assert "`make change-promise` made the tables" in text
    assert all(f"| {kind} | {task} |" in text for kind in change.KINDS for task in change.TASKS)
