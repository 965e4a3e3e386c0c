"""report(): collect the numbers, put them into the page, write the file."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from treeinner.errors import DataError
from treeinner.groups import GroupSpec
from treeinner.page.data import collect
from treeinner.page.render import call_text, render, write
from treeinner.page.subject import Side, Subject

__all__ = ["report"]

SAME_ROWS = (
    "The rows of this report are the rows the model was trained on: on them TreeInner equals the total gain that the "
    "model stores, and says nothing about new rows. Pass rows that the model has not seen as X and y."
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
    group: Any = None,
    group_train: Any = None,
    groups: GroupSpec | None = None,
    rows: int = 2000,
    seed: int = 0,
    objective: Any = "auto",
    learning_rate: float | None = None,
    reg_lambda: float | None = None,
    reg_alpha: float | None = None,
    iteration_range: tuple[int, int] | None = None,
    n_jobs: int | None = -1,
) -> Path:
    """Write one self-contained HTML page about a model: ranking, optimism, curves by round, single rows.

    Parameters
    ----------
    model : fitted model, path or Ensemble
        As for `importance`.
    X, y : table and target
        Held-out rows: not used for training, early stopping or tuning.
    X_train, y_train : table and target, optional
        The rows the model was fitted to; the page then sets both sides against each other.
    path : path
        The file to write, such as "page.html"; it appears whole or not at all.
    title : str, optional
        Heading of the page.
    sample_weight, sample_weight_train : array, optional
        Weight of each row, held-out and training.
    clusters : array, optional
        Label of each held-out row; only clusters are independent.
    base_margin, base_margin_train : array, optional
        Margin of each row before the first tree, as in training.
    group, group_train : array, optional
        Query of each row, for ranking losses.
    groups : mapping, optional
        Name of a group -> its features, shown as one.
    rows : int
        How many held-out rows, drawn at random, the reader can look at one by one; their values are in the file. 0 for
        none.
    seed : int
        Of that draw.
    objective, learning_rate, reg_lambda, reg_alpha, iteration_range, n_jobs
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
    _check(path, rows, X_train, y_train)
    call = call_text(
        path,
        arrays={
            "X_train": X_train, "y_train": y_train, "sample_weight": sample_weight,
            "sample_weight_train": sample_weight_train, "clusters": clusters, "base_margin": base_margin,
            "base_margin_train": base_margin_train, "group": group, "group_train": group_train,
        },
        plain={
            "title": title, "groups": groups, "rows": rows, "seed": seed, "objective": objective,
            "learning_rate": learning_rate, "reg_lambda": reg_lambda, "reg_alpha": reg_alpha,
            "iteration_range": iteration_range,
        },
    )  # fmt: skip
    subject = Subject(
        model,
        {
            "learning_rate": learning_rate,
            "reg_lambda": reg_lambda,
            "reg_alpha": reg_alpha,
            "iteration_range": iteration_range,
        },
        objective=objective,
        groups=groups,
        n_jobs=n_jobs,
    )
    held_out = Side(X, y, sample_weight, clusters, base_margin, group)
    training = (
        None if X_train is None else Side(X_train, y_train, sample_weight_train, None, base_margin_train, group_train)
    )
    data = collect(subject, held_out, training, rows=rows, seed=seed)
    if data["same_rows"]:
        warnings.warn(SAME_ROWS, UserWarning, stacklevel=2)
    write(path, render({"title": title or "Which features carry signal", "call": call, **data}))
    return path


def _check(path: Path, rows: int, X_train: Any, y_train: Any) -> None:
    """Ask for what is wrong before the work begins."""
    if (X_train is None) != (y_train is None):
        given, missing = ("X_train", "y_train") if y_train is None else ("y_train", "X_train")
        raise DataError(f"{given} was given without {missing}; pass both, or neither.")
    if rows < 0:
        raise ValueError(f"rows={rows}; pass how many rows the page may show one by one, 0 for none.")
    if path.is_dir():
        raise IsADirectoryError(f"path={str(path)!r} is a folder; pass the file to write, such as 'page.html'.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"The folder {str(path.parent)!r} of path does not exist; make it first.")
