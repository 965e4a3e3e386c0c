"""docs/evidence/versions.md is what run.py makes of the stored results."""

import json
import tomllib

import pytest

from . import run

CELLS = tomllib.loads((run.HERE / "cells.toml").read_text(encoding="utf-8"))["cell"]


def test_the_page_is_that_of_the_results():
    assert run.PAGE.read_text(encoding="utf-8") == run.page(CELLS, json.loads(run.RESULTS.read_text(encoding="utf-8")))


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell["name"])
def test_a_cell_has_every_library_and_was_measured(cell):
    assert set(cell["libraries"]) == set(run.LIBRARIES)
    assert set(cell["tables"]) == set(run.TABLES)
    result = json.loads(run.RESULTS.read_text(encoding="utf-8"))[cell["name"]]
    assert result["python"].startswith(cell["python"])
    for name, pinned in (cell["libraries"] | cell["tables"]).items():
        measured = result["versions"].get(name, "")
        # The wheel of XGBoost 1.7.0.post0 calls itself 1.7.0.
        assert pinned.removesuffix(".post0") in ("*", measured), f"{name} {measured} was measured, {pinned} is pinned"
