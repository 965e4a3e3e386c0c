"""Every cell of the exactness table says the truth, in both directions, and the printed page is that table."""

from importlib.metadata import version

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import GradientBoostingRegressor

import treeinner as ti
from tests import exactness
from tests.exactness import BOUND, CELLS, EXACT, HAPPENS, HAPPENS_BOUND, NOT_EXACT, Cell, measure

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def params(expect):
    mark = lambda cell: pytest.mark.xfail(reason=cell.lie) if cell.lie else ()  # noqa: E731
    return [pytest.param(cell, id=cell.name, marks=mark(cell)) for cell in CELLS if cell.expect == expect]


@pytest.mark.parametrize("cell", params(EXACT))
def test_what_is_called_exact_is_exact(cell: Cell):
    m = measure(cell)
    assert m.says == "exact"
    assert m.holds(BOUND), f"error {m.error:.1e}, ratio {m.ratio:.8f}"


@pytest.mark.parametrize("cell", params(NOT_EXACT))
def test_what_is_called_not_exact_differs_and_says_why(cell: Cell):
    m = measure(cell)
    assert m.differs, f"error {m.error:.1e}, ratio {m.ratio:.8f}"
    assert m.says != "exact"
    assert cell.reason in m.says


@pytest.mark.parametrize("cell", params(HAPPENS))
def test_what_happens_to_hold_holds_and_is_not_promised(cell: Cell):
    m = measure(cell)
    assert m.says != "exact"
    assert cell.reason in m.says
    assert m.holds(HAPPENS_BOUND), f"error {m.error:.1e}, ratio {m.ratio:.8f}"


def test_the_committed_page_has_these_cells():
    page = exactness.PAGE.read_text()
    if f"xgboost {version('xgboost')}" not in page:
        pytest.skip("the page was measured with another XGBoost, which renews other leaves")
    cells = [line.split(" | ")[:4] for line in page.splitlines() if line.startswith("| ") and "verdict" not in line]
    expected = [[f"| {c.library}", c.setting, c.task, exactness.verdict(c)] for c in CELLS]
    assert cells == expected, "docs/exactness.md is stale: python -m tests.exactness > docs/exactness.md"
    assert exactness.HEAD in page


def test_names_are_unique():
    assert len({cell.name for cell in CELLS}) == len(CELLS)


def sliced(data):
    booster = xgb.train({"max_depth": 4}, data, 10)[0:9:3]
    return booster, sum(booster.get_score(importance_type="total_gain").values())


def continued_by_another_loss(data):
    first = xgb.train({"max_depth": 4}, data, 10)
    booster = xgb.train({"objective": "reg:pseudohubererror", "eta": 0.05}, data, 10, xgb_model=first)
    return booster, sum(booster.get_score(importance_type="total_gain").values())


def shuffled(data):
    booster = lgb.train({"verbose": -1}, lgb.Dataset(data.get_data().toarray(), data.get_label()), 10)
    booster.shuffle_models()
    return booster, booster.feature_importance("gain").sum()


def warm_start(data):
    model = GradientBoostingRegressor(n_estimators=5, warm_start=True)
    model.fit(data.get_data().toarray(), data.get_label())
    model.set_params(n_estimators=10, learning_rate=0.5).fit(data.get_data().toarray(), data.get_label())
    return model, ti.total_gain(model).scores.sum()


@pytest.mark.parametrize(
    ("make", "ratio"), [(sliced, 1.14), (continued_by_another_loss, 0.57), (shuffled, 0.91), (warm_start, 0.52)]
)
@pytest.mark.filterwarnings("ignore")
def test_what_exactness_does_not_see(make, ratio):
    """docs/exactness.md says so: if one of these fails, exactness has learnt to see it, or the page is out of date."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=600) * 0.5
    model, total = make(xgb.DMatrix(X, y))
    assert ti.read_model(model).exactness == "exact"
    assert abs(ti.importance(model, X, y, method="predecomp").gains.sum() / total - ratio) < 0.01
