"""The harness of benchmarks/selection/rivals.py: its measures by hand-computed examples, and a run that is resumed."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks" / "selection"
QUICK = ["F test", "lasso CV", "total gain"]


@pytest.fixture(scope="module")
def rivals():
    """The module; benchmarks/ has a designs.py of its own, which another test may have imported."""
    shadowed = sys.modules.pop("designs", None)
    sys.path.insert(0, str(FOLDER))
    try:
        import rivals
        import rivals_page  # noqa: F401
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("designs")
        if shadowed is not None:
            sys.modules["designs"] = shadowed
    return rivals


@pytest.fixture
def small(rivals, monkeypatch):
    """The harness on draws that take no time."""
    for name, value in {"ROWS": 120, "TEST_ROWS": 60, "COLUMNS": 20}.items():
        monkeypatch.setattr(rivals, name, value)
    monkeypatch.setattr(rivals.designs, "chip_folder", lambda: None)  # nothing is fetched
    cached = (rivals.sample, rivals.fingerprint)
    for function in cached:
        function.cache_clear()
    yield rivals
    for function in cached:
        function.cache_clear()


def test_auc_by_hand(rivals):
    # relevant: 3 and 1; others: 2, 1, 0. Pairs won: 3 > 2, 1, 0 and 1 > 0; 1 = 1 counts half: 4.5 of 6.
    assert rivals.auc([3, 1, 2, 1, 0], [True, True, False, False, False]) == pytest.approx(0.75)
    assert rivals.auc([1.0, 1.0], [True, False]) == 0.5
    assert np.isnan(rivals.auc([1.0, 2.0], [False, False]))
    assert rivals.auc([-np.inf, 0.0], [False, True]) == 1.0  # shap-select has features without a t value


def test_false_share_and_power_by_hand(rivals):
    relevant = [True, True, True, False, False]
    kept = [True, False, True, True, False]
    assert rivals.false_share(kept, relevant) == pytest.approx(1 / 3)
    assert rivals.power(kept, relevant) == pytest.approx(2 / 3)
    assert rivals.false_share([False] * 5, relevant) == 0.0
    assert rivals.false_share([True], [False]) == 1.0
    assert np.isnan(rivals.power([True], [False]))


def test_loss_of_nothing_kept_is_that_of_the_mean(rivals):
    X, y = np.zeros((4, 2)), np.array([0.0, 1.0, 1.0, 2.0])
    assert rivals.refit_loss((X, y), (X, y), [False, False], "regression") == 0.5
    half = np.array([0, 1, 0, 1])
    assert rivals.refit_loss((X, half), (X, half), [False, False], "binary") == pytest.approx(np.log(2))


def test_loss_of_the_relevant_column_is_below_that_of_a_noise_column(rivals):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=400)
    train, test = (X[:200], y[:200]), (X[200:], y[200:])
    relevant, noise = (rivals.refit_loss(train, test, kept, "regression") for kept in ([1, 0], [0, 1]))
    assert relevant < 0.25 * noise  # signal is 99 % of the variance of y


def test_a_run_is_resumed_and_its_page_has_every_number(small, tmp_path):
    import rivals_page

    path = tmp_path / "results.jsonl"
    wanted = small.jobs(["Friedman", "correlated blocks"], QUICK, replications=2)
    small.run(wanted[:5], path)
    first = path.read_text()
    with path.open("a") as file:
        file.write('{"key": ["Friedman", "F te')  # a line that was cut off
    small.run(wanted, path)
    assert path.read_text().startswith(first)  # nothing was run again

    records = small.load(path)
    assert set(records) == set(wanted)
    assert len(wanted) == 2 * (len(QUICK) + 1) * 2  # designs, methods and the reference, replications
    assert not [r for r in records.values() if "error" in r]
    blocks = rivals_page.blocks(records)
    expected = np.mean([records["Friedman", "lasso CV", r]["fdr conditional"] for r in range(2)])
    row = next(line for line in blocks["fdr conditional"].splitlines() if line.startswith("| lasso CV"))
    assert row.split("|")[2].strip() == f"({expected:.2f})"  # two replications are few
    assert "total gain" not in blocks["fdr conditional"]  # it has no rule for choosing
    rivals_page.filled(rivals_page.PAGE.read_text(), blocks)  # the page has a place for each block


def test_proxies_are_false_finds_of_the_conditional_truth_only(small):
    drawn, *_ = small.sample("correlated blocks", 0)
    found = small.measured("correlated blocks", "F test", 0)
    kept = np.isin(np.arange(20), found["kept"])
    assert found["fdr marginal"] == np.mean(~drawn.relevant_marginal[kept])
    assert found["fdr conditional"] == np.mean(~drawn.relevant_conditional[kept])
    assert found["fdr conditional"] > found["fdr marginal"]  # correlation .8 with a strong signal: proxies are found


def test_results_of_other_data_are_not_used(small, tmp_path):
    path = tmp_path / "results.jsonl"
    small.run([("Friedman", "F test", 0)], path)
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"data": record["data"] + 1}))
    assert small.load(path) == {}


def test_a_method_that_fails_is_recorded_and_tried_again(small, tmp_path, monkeypatch):
    path = tmp_path / "results.jsonl"
    works = small.METHODS["F test"]

    def fails(X, y, task, seed):
        raise RuntimeError("no luck")

    broken = type(works)(fails, works.how, works.modules)
    monkeypatch.setitem(small.METHODS, "F test", broken)
    small.run([("Friedman", "F test", 0)], path)
    assert small.load(path)["Friedman", "F test", 0]["error"] == "RuntimeError: no luck"
    monkeypatch.setitem(small.METHODS, "F test", works)
    small.run([("Friedman", "F test", 0)], path)
    assert "seconds" in small.load(path)["Friedman", "F test", 0]
