"""report_selection(): the features that are kept, and why, as one HTML file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from treeinner.ensemble.storage import atomic
from treeinner.errors import counted
from treeinner.page.build import check_path
from treeinner.page.data import common, losses_of
from treeinner.page.numbers import shorts
from treeinner.page.render import render
from treeinner.scores import Importance

__all__ = ["report_selection", "write_selection"]

TITLE = "Which features to keep"


def report_selection(selector: Any, *, path: str | os.PathLike[str], title: str | None = None) -> Path:
    """Write one self-contained HTML page about a fitted TreeInnerSelector.

    Parameters
    ----------
    selector : TreeInnerSelector
        Fitted.
    path : path
        The file to write, such as "page.html".
    title : str, optional
        Heading of the page.

    Returns
    -------
    pathlib.Path
        The file written.
    """
    found = selector.importance_
    folds = f"{selector.cv} folds" if isinstance(selector.cv, int) else type(selector.cv).__name__
    return write_selection(
        Path(path),
        found,
        selector.table(),
        title=title,
        rule=selector.rule,
        test=None if selector.q is None else selector.test,
        groups=selector.groups_,
        facts=[
            ["Estimator", f"{type(selector.estimator_).__name__}, {folds}, {counted(selector.repeats, 'repeat')}"],
            ["Agreement of the folds", f"{found.folds.rank_stability:.2f} (mean rank correlation of two folds)"],
        ],
        call=f"import treeinner as ti\n\nselector = ti.{selector!r}\nselector.fit(X, y)\n"
        f"ti.report_selection(selector, path={Path(path).name!r})\n",
        table_call="selector.to_frame()",
    )


def write_selection(
    path: Path,
    found: Importance,
    table: Mapping[str, Any],
    *,
    title: str | None,
    rule: str,
    test: str | None,
    groups: Sequence[Sequence[str]] = (),
    facts: Sequence[Sequence[str]] = (),
    call: str,
    table_call: str,
) -> Path:
    """Write the page: `table` by columns, in the order of the features, with p_value, q_value and kept among them."""
    check_path(path)
    names = ("score", "std_error", "ci_low", "ci_high")
    n = len(table["kept"])
    rows = [["Held-out rows", f"{found.n_rows:,}"], ["Features", f"{n:,}, {int(np.sum(table['kept'])):,} of them kept"]]
    data = {
        **common(found, found.notes),
        "title": title or TITLE,
        "call": call,
        "facts": [*facts, *rows, *losses_of(found)],
        "features": list(map(str, table["feature"])),
        "ranking": {name: shorts(table[name]) for name in names},
        "selection": {
            "kept": np.asarray(table["kept"]).tolist(),
            "p": shorts(table["p_value"], 4),
            "q": shorts(table["q_value"], 4),
            "beyond": shorts(table["beyond"]) if "beyond" in table else None,
            "rule": rule,
            "test": test,
            "groups": [list(group) for group in groups],
            "table": table_call,
        },
    }
    with atomic(path) as file:
        file.write(render(data).encode())
    return path
