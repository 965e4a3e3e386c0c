"""A bounded part of benchmarks/calibration.py, which made docs/calibration.md: the same promises, fixed seeds.

Limits are three standard errors (over replications) wide, where the page has two: a dozen replications are few.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import treeinner as ti

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def calibration():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import calibration
    finally:
        sys.path.pop(0)
    return calibration


def design(calibration, name):
    return next(d for d in calibration.DESIGNS if d.name == name)


def rates(calibration, chosen, replications, *args, score="tree_inner"):
    records = [calibration.designs.significance(chosen, r, *args) for r in range(replications)]
    found = {test: calibration.rates(chosen, records, score, test) for test in calibration.TESTS}
    return records, found


def assert_safe(found):
    for what, limit in (("size", 0.05), ("fdr", 0.1)):
        value, error = found["flips"][what]
        assert value <= limit + 3 * error


@pytest.mark.parametrize("name", ["weak linear signal", "t3 errors", "rare binary columns"])
def test_p_values_of_noise_are_on_the_safe_side(calibration, name):
    _, found = rates(calibration, design(calibration, name), 12)
    assert_safe(found)
    assert found["flips"]["size"][0] > 0  # and not so safe as to be useless
    assert found["flips"]["power"][0] >= found["z"]["power"][0] - 0.03


@pytest.mark.parametrize("name", ["Friedman's function", "LightGBM"])
def test_p_values_of_noise_are_on_the_safe_side_where_the_signal_is_strong(calibration, name):
    _, found = rates(calibration, design(calibration, name), 12)
    assert_safe(found)
    assert found["flips"]["power"][0] > 0.5


def test_intervals_cover(calibration):
    chosen = design(calibration, "logistic")
    records = [calibration.designs.coverage(chosen, r) for r in range(3)]
    for mask in calibration.kinds(chosen, len(records[0]["used"])):
        for n in (300, 1000, 5000):
            inside, reached = (np.array([r[str(n)][x] for r in records]) * mask for x in ("inside", "reached"))
            rate, error = calibration.share(inside.sum(axis=1), reached.sum(axis=1))
            # three models: the binomial error of as many independent intervals is the steadier one
            error = max(error, np.sqrt(0.05 * 0.95 / reached.sum()))
            assert 0.93 - 3 * error <= rate <= 0.975 + 3 * error


def test_large_steps_flatter_tree_inner_but_not_the_account(calibration):
    chosen = calibration.TARGETS["strong signal"]
    records, found = rates(calibration, chosen, 12, 1.0, 1500, 3)
    value, error = found["flips"]["size"]
    assert value > 0.05 + 3 * error
    assert min(r["overshoot"] for r in records) > 0.3  # so that all of these models come with the warning
    assert_safe({test: calibration.rates(chosen, records, "loss", test) for test in calibration.TESTS})


def test_repeated_rows_need_clusters(calibration):
    designs, chosen = calibration.designs, design(calibration, "LightGBM")
    below = {"once": [], "clusters=": [], "clusters left out": []}
    for r in range(12):
        data = chosen.draw(chosen.rng(2, r), 1400)
        model = ti.read_model(designs.fit(chosen, data.rows(0, 1000)))
        once, label = data.rows(1000, 1400), np.repeat(np.arange(400), 5)
        repeated = designs.Sample(once.X[label], once.y[label])
        noise = designs.split_on(model) & (np.arange(30) >= 5)
        for case, rows in zip(below, (once, replace(repeated, clusters=label), repeated), strict=True):
            below[case].append([(designs.score(model, rows).p_values[noise] < 0.05).sum(), noise.sum()])
    shares = {case: calibration.share(*np.transpose(counts)) for case, counts in below.items()}
    assert below["clusters="] == below["once"]
    value, error = shares["clusters="]
    assert value <= 0.05 + 3 * error
    value, error = shares["clusters left out"]
    assert value > 0.05 + 3 * error


def test_the_page_says_which_command_made_it(calibration):
    text = calibration.PAGE.read_text()
    assert f"`{calibration.COMMAND}` made this page" in text
    assert (ROOT / calibration.COMMAND.split()[1]).exists()
    for d in (*calibration.DESIGNS, calibration.OUT_OF_BAG):
        assert f"| {d.name} |" in text


def test_an_interrupted_run_continues(calibration, tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "PASSES", 3)
    path = tmp_path / "results.jsonl"
    calibration.run(path, {"misuse": 3})
    whole, text = calibration.load(path), path.read_text()
    path.write_text(text[:-1000])  # in the middle of the last line
    assert len(calibration.load(path)) == 2
    calibration.run(path, {"misuse": 3})
    again = calibration.load(path)
    assert again.keys() == whole.keys()
    assert all(again[key]["clusters="] == whole[key]["clusters="] for key in whole)
