"""benchmarks/selection: what counts as a false find, and designs that are what they say."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks" / "selection"


@pytest.fixture(scope="module")
def promise():
    """The module, without leaving its neighbour `designs` behind: benchmarks/ has another one of that name."""
    before = {name: sys.modules.pop(name, None) for name in ("designs", "promise_page")}
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("selection_promise", FOLDER / "promise.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
        for name, old in before.items():
            sys.modules.pop(name, None)
            if old is not None:
                sys.modules[name] = old
    return module


def simulated(promise):
    return [name for name in promise.DESIGNS if not name.startswith("ChIP")]


def test_finds_are_counted_one_by_one(promise):
    q = [0.01, 0.04, 0.15, 0.9, np.nan]
    relevant = np.array([True, False, True, False, False])
    # false finds, finds, relevant features found, relevant features; at .05, .1, .2
    assert promise.outcome(q, relevant) == [[1, 2, 1, 2], [1, 2, 1, 2], [1, 3, 2, 2]]


def test_columns_tested_as_one_are_one_find(promise):
    q = [0.01, 0.01, 0.02, 0.02, 0.9]
    relevant = np.array([True, False, False, False, True])
    assert promise.outcome(q, relevant, ((0, 1), (2, 3)))[0] == [1, 2, 1, 2]


def test_rates_are_means_over_replications_and_not_of_pooled_finds(promise):
    records = [{"seconds": 1.0} for _ in range(2)]
    for record, finds in zip(records, ([1, 1, 0, 2], [0, 3, 2, 2]), strict=True):
        record["conditional"] = record["marginal"] = [finds] * 3
    found = promise.summary(records)["conditional"]
    assert found["fdr"][0] == [0.5, 0.5]  # (1 + 0) / 2; sd .7071 / sqrt(2)
    assert found["power"][0] == [0.5, 0.5]
    assert found["nothing"] == [0, 0, 0]


def test_a_cell_with_few_replications_is_not_shown(promise):
    record = {"seconds": 1.0, "conditional": [[0, 1, 1, 2]] * 3, "marginal": [[0, 1, 1, 2]] * 3}
    results = {("XOR", 300, 20, seed): record for seed in range(promise.ENOUGH - 1)}
    assert promise.added_up(results) == []
    results["XOR", 300, 20, promise.ENOUGH] = record
    assert [cell["replications"] for cell in promise.added_up(results)] == [promise.ENOUGH]


def test_a_run_goes_on_after_a_line_that_was_cut_off(promise, tmp_path):
    path = tmp_path / "lines"
    path.write_text('{"key": ["XOR", 300, 20, 1000], "seconds": 1.5}\n{"key": ["XOR", 300')
    assert promise.records.load(path) == {("XOR", 300, 20, 1000): {"seconds": 1.5}}


def test_designs_have_their_shape_and_depend_on_the_seed_alone(promise):
    for name in simulated(promise):
        p = promise.COLUMNS.get(name, 20)
        first, again, other = (promise.DESIGNS[name](60, p, seed) for seed in (1, 1, 2))
        assert first.X.shape == (60, p)
        assert len(first.y) == 60
        assert (first.relevant_conditional <= first.relevant_marginal).all()
        np.testing.assert_array_equal(first.y, again.y)
        assert (first.y != other.y).any()


@pytest.mark.parametrize("name", ["correlated blocks", "near-collinear"])
def test_proxies_say_nothing_that_the_relevant_columns_do_not(promise, name):
    """Linear designs: alone a proxy is correlated with the target, beside the relevant columns its t is noise."""
    data = promise.DESIGNS[name](4000, 20, 0)
    proxies = data.relevant_marginal & ~data.relevant_conditional
    alone = np.corrcoef(data.X[:, proxies], data.y, rowvar=False)[-1, :-1]
    assert abs(alone).min() > 5 / np.sqrt(4000)
    left = (
        data.y
        - data.X[:, data.relevant_conditional]
        @ np.linalg.lstsq(data.X[:, data.relevant_conditional], data.y, rcond=None)[0]
    )
    beside = np.corrcoef(data.X[:, ~data.relevant_conditional], left, rowvar=False)[-1, :-1]
    assert abs(beside).max() < 4 / np.sqrt(4000)  # four standard errors of a correlation
