"""report(): collect the numbers, put them into the page, write the file."""

from __future__ import annotations

import operator
import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from treeinner.errors import DataError, TreeInnerError, TreeInnerWarning, counted
from treeinner.kernels import Progress
from treeinner.read import read_model
from treeinner.read.columns import GroupSpec
from treeinner.read.model import Model
from treeinner.rows import load_table
from treeinner.rows.rows import ROLES
from treeinner.score.compare import Comparison
from treeinner.score.importance import importance
from treeinner.score.result import Importance
from treeinner.show.files import check_output, write_file
from treeinner.show.page.data import Subject, collect, of_comparison, of_selector
from treeinner.show.page.render import call_text, render

__all__ = ["report"]


def report(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    path: str | os.PathLike[str],
    X_train: Any = None,
    y_train: Any = None,
    title: str | None = None,
    score: str = "signal",
    method: str = "centred",
    sample_weight: Any = None,
    sample_weight_train: Any = None,
    clusters: Any = None,
    base_margin: Any = None,
    base_margin_train: Any = None,
    qid: Any = None,
    qid_train: Any = None,
    feature_groups: GroupSpec | None = None,
    by: Any = None,
    freq: str | None = None,
    explorer_rows: int = 0,
    random_state: int = 0,
    n_jobs: int | None = -1,
    progress: Progress | bool | None = None,
) -> Path:
    """Write one self-contained HTML page about a model, a comparison or a fitted selector.

    Of a model: ranking, quality, loss breakdown, whether effects hold, training against held-out rows, curves by round.
    Of a comparison: why the loss changed. Of a selector: which features are kept, and why. Both need no rows. One line
    is printed: what the file holds.

    Parameters
    ----------
    model : fitted model, path, Model, Comparison, or fitted TreeInnerSelector
        As for `importance`; or the result of `compare`; or a selector.
    X, y : table and target
        Held-out rows: not used for training, early stopping or tuning. They are held in memory.
    path : path
        The file to write, such as "page.html".
    X_train, y_train : table and target, optional
        The rows the model was fitted to; the page then sets both sides against each other.
    title : str, optional
        Heading of the page.
    score : {"signal", "tree_inner", "loss"}
        What the page ranks by: whether there is signal in a feature, with the part of its effect that holds; the same
        by the paper's score; or what its use did to the loss.
    method : {"centred", "predecomp", "saabas", "treeshap"}
        The attribution.
    sample_weight, sample_weight_train : array, optional
        Weight of each row, held-out and training.
    clusters : array, optional
        Label of each held-out row; only clusters are independent.
    base_margin, base_margin_train : array, optional
        Margin of each row before the first tree, as in training.
    qid, qid_train : array, optional
        Query of each row, for ranking losses.
    feature_groups : mapping, "original" or "encoded", optional
        As for `importance`: name of a group -> its features, shown as one.
    by, freq : optional
        As for `importance`: segments of the held-out rows, which the page sets against each other.
    explorer_rows : int
        How many held-out rows, drawn at random, the reader can look at one by one; their values are then in the file.
        With 0 no row of the data is.
    random_state : int
        Seed of that draw.
    n_jobs : int
        Threads; -1 for all cores.
    progress : bool or callable, optional
        As for `importance`, for each of the scores that the page has.

    Returns
    -------
    pathlib.Path
        The file written.

    Warns
    -----
    TreeInnerWarning
        For every note on the scores, training rows among X and y included; the page has them too.
    """
    given, path = dict(locals()), Path(path)
    check_output(path)
    compared = isinstance(model, Comparison)
    if compared or any(kind.__name__ == "TreeInnerSelector" for kind in type(model).__mro__):
        what = "comparison" if compared else "selector"
        if any(given[name] is not None for name in ("X", "y", "by", "freq")):
            raise TypeError(f"The page of a {what} has no segments and needs no rows: ti.report({what}, path=...).")
        return _written(path, title, of_comparison(model, path.name) if compared else of_selector(model, path.name))
    if X is None or (X_train is None) != (y_train is None):
        raise DataError("Pass X and y; X_train and y_train both or neither.")
    for name, value in (("explorer_rows", explorer_rows), ("random_state", random_state)):
        if not hasattr(value, "__index__") or operator.index(value) < 0:
            raise ValueError(f"{name}={value!r}: expected a whole number, 0 or above.")
    opened = read_model(model)
    asked: dict[str, Any] = {name: given[name] for name in ("score", "method", "feature_groups", "n_jobs", "progress")}
    X, held_out = load_table(opened, X, {name: given[name] for name in ROLES})
    segments = {"by": held_out.pop("by"), "freq": freq}
    valid, train = importance(opened, X, **held_out, **asked, **segments), None
    if X_train is not None:
        of_train = {name: given[f"{name}_train"] for name in ("y", "sample_weight", "base_margin", "qid")}
        X_train, of_train = load_table(opened, X_train, of_train)
        train = _quiet(opened, X_train, **of_train, **asked)
    subject = Subject(opened, X, held_out, feature_groups, n_jobs)
    breakdown = valid if score == "loss" else None
    if breakdown is None:
        with suppress(TreeInnerError):  # the model's loss may have none
            breakdown = _quiet(opened, X, **{**held_out, **asked, "score": "loss"})
    data = collect(subject, valid, train, breakdown, explorer_rows=explorer_rows, random_state=random_state)
    return _written(path, title, {**data, "call": call_text(path, given, report.__kwdefaults__ or {})})


def _written(path: Path, title: str | None, data: dict[str, Any]) -> Path:
    """Write the page of these data, and print what the file holds."""
    page = render(data | ({"title": title} if title else {})).encode()
    write_file(path, page)
    size = f"{len(page) / 1e6:.1f} MB" if len(page) > 1e6 else f"{len(page) / 1e3:.0f} kB"
    explorer = data.get("explorer")
    print(f"{path}: {size}, {counted(len(explorer['number']), 'row') if explorer else 'no rows'} of data")
    return path


def _quiet(model: Model, X: Any, **given: Any) -> Importance:
    """Scores beside those of the ranking, whose notes are said already."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TreeInnerWarning)
        return importance(model, X, **given)
