"""report(): collect the numbers, put them into the page, write the file."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from treeinner.ensemble.storage import atomic
from treeinner.errors import DataError
from treeinner.groups import GroupSpec
from treeinner.model import open_model
from treeinner.options import ReadOptions
from treeinner.page.data import Subject, collect
from treeinner.page.render import call_text, render
from treeinner.scores import importance
from treeinner.scores.setting import check_integer

SAME_ROWS = (
    "X and y are the rows the model was trained on: on them TreeInner equals the total gain that the model stores, and "
    "says nothing about new rows. Pass rows that the model has not seen."
)


def report(
    model: Any,
    X: Any,
    y: Any,
    *,
    X_train: Any = None,
    y_train: Any = None,
    path: str | os.PathLike[str],
    title: str | None = None,
    sample_weight: Any = None,
    sample_weight_train: Any = None,
    clusters: Any = None,
    base_margin: Any = None,
    base_margin_train: Any = None,
    qid: Any = None,
    qid_train: Any = None,
    feature_groups: GroupSpec | None = None,
    explorer_rows: int = 2000,
    random_state: int = 0,
    n_jobs: int | None = -1,
    **reading: Any,
) -> Path:
    """Write one self-contained HTML page about a model: ranking, optimism, curves by round, single rows.

    Parameters
    ----------
    model : fitted model, path or Model
        As for `importance`.
    X, y : table and target
        Held-out rows: not used for training, early stopping or tuning.
    X_train, y_train : table and target, optional
        The rows the model was fitted to; the page then sets both sides against each other.
    path : path
        The file to write, such as "page.html".
    title : str, optional
        Heading of the page.
    sample_weight, sample_weight_train : array, optional
        Weight of each row, held-out and training.
    clusters : array, optional
        Label of each held-out row; only clusters are independent.
    base_margin, base_margin_train : array, optional
        Margin of each row before the first tree, as in training.
    qid, qid_train : array, optional
        Query of each row, for ranking losses.
    feature_groups : mapping, optional
        Name of a group -> its features, shown as one.
    explorer_rows : int
        How many held-out rows, drawn at random, the reader can look at one by one; their values are in the file. 0 for
        none.
    random_state : int
        Seed of that draw.
    n_jobs, **reading
        As for `importance`.

    Returns
    -------
    pathlib.Path
        The file written.

    Warns
    -----
    UserWarning
        If X and y are the training rows; the page says so too.
    """
    path = Path(path)
    _check(path, explorer_rows, random_state, X_train, y_train)
    opened = open_model(model, ReadOptions.of(reading, caller=report))
    held_out = {"sample_weight": sample_weight, "clusters": clusters, "base_margin": base_margin, "qid": qid}
    training = {"sample_weight": sample_weight_train, "base_margin": base_margin_train, "qid": qid_train}
    shared: dict[str, Any] = {"feature_groups": feature_groups, "by_round": True, "n_jobs": n_jobs}
    valid = importance(opened, X, y, **held_out, **shared)
    train = None if X_train is None else importance(opened, X_train, y_train, **training, **shared)
    subject = Subject(opened, X, y, held_out, feature_groups, n_jobs)
    data = collect(subject, valid, train, explorer_rows=explorer_rows, random_state=random_state)
    if data["same_rows"]:
        warnings.warn(SAME_ROWS, UserWarning, stacklevel=2)
    of_train = {f"{name}_train": array for name, array in {"X": X_train, "y": y_train, **training}.items()}
    plain = {"title": title, "feature_groups": feature_groups, "explorer_rows": explorer_rows,
             "random_state": random_state, **vars(opened.options), **reading}  # fmt: skip
    call = call_text(path, arrays=held_out | of_train, plain=plain)
    page = render({"title": title or "Which features carry signal", "call": call, **data})
    with atomic(path) as file:
        file.write(page.encode())
    return path


def _check(path: Path, explorer_rows: int, random_state: int, X_train: Any, y_train: Any) -> None:
    """Raise what is wrong before the work begins."""
    if (X_train is None) != (y_train is None):
        given, missing = ("X_train", "y_train") if y_train is None else ("y_train", "X_train")
        raise DataError(f"{given} was given without {missing}; pass both, or neither.")
    check_integer("explorer_rows", explorer_rows, 0, "a number of rows, 0 for none")
    check_integer("random_state", random_state, 0, "an integer, the seed of the draw")
    if path.is_dir():
        raise IsADirectoryError(f"path={str(path)!r} is a folder; pass the file to write, such as 'page.html'.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"The folder {str(path.parent)!r} of path does not exist; make it first.")
