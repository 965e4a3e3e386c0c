"""Every cell of the exactness table says the truth, in both directions, and the printed page is that table."""

from importlib.metadata import version

import pytest

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
