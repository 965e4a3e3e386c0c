"""report(): collect the numbers, put them into the page, write the file."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from treeinner.attribution import check_choice
from treeinner.ensemble.storage import atomic
from treeinner.errors import DataError, TreeInnerWarning, speak
from treeinner.groups import GroupSpec
from treeinner.model import open_model
from treeinner.options import ReadOptions
from treeinner.page.data import Subject, collect
from treeinner.page.render import call_text, render
from treeinner.scores import importance
from treeinner.scores.arguments import check_integer
from treeinner.scores.training_rows import find_training_rows
from treeinner.stream import in_memory

TITLES = {"tree_inner": "Which features carry signal", "loss": "Which features lowered the loss"}


def report(
    model: Any,
    X: Any,
    y: Any,
    *,
    X_train: Any = None,
    y_train: Any = None,
    path: str | os.PathLike[str],
    title: str | None = None,
    score: str = "tree_inner",
    method: str = "centred",
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
    score : {"tree_inner", "loss"}
        What the page ranks by: whether there is signal in a feature, or what its use did to the loss.
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
    feature_groups : mapping, "original" or "prefix:_", optional
        As for `importance`: name of a group -> its features, shown as one.
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
    TreeInnerWarning
        If training rows are among X and y, and for every other note on the scores; the page has them too.
    """
    path = Path(path)
    _check(path, score, explorer_rows, random_state, X_train, y_train)
    opened = open_model(model, ReadOptions.of(reading, caller=report))
    held_out = {"sample_weight": sample_weight, "clusters": clusters, "base_margin": base_margin, "qid": qid}
    training = {"sample_weight": sample_weight_train, "base_margin": base_margin_train, "qid": qid_train}
    X, held_out = in_memory(opened, X, y=y, **held_out)
    y = held_out.pop("y")
    if X_train is not None:
        X_train, training = in_memory(opened, X_train, y=y_train, **training)
        y_train = training.pop("y")
    shared: dict[str, Any] = {
        "score": score, "method": method, "feature_groups": feature_groups, "by_round": True, "n_jobs": n_jobs,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TreeInnerWarning)  # said once, below
        valid = importance(opened, X, y, **held_out, **shared)
        train = None if X_train is None else importance(opened, X_train, y_train, **training, **shared)
    of_model = None if X_train is None else (X_train, y_train)
    search = find_training_rows(opened, {"X": X, "y": y, **held_out}, of_model, n_jobs=n_jobs)
    for note in search.aloud(valid.notes):
        if note not in opened.notes:
            speak(note)
    subject = Subject(opened, X, y, held_out, feature_groups, search, n_jobs)
    data = collect(subject, valid, train, explorer_rows=explorer_rows, random_state=random_state)
    of_train = {f"{name}_train": array for name, array in {"X": X_train, "y": y_train, **training}.items()}
    plain = {"title": title, "score": score, "method": method, "feature_groups": feature_groups,
             "explorer_rows": explorer_rows, "random_state": random_state,
             **vars(opened.options), **reading}  # fmt: skip
    call = call_text(path, arrays=held_out | of_train, plain=plain)
    own_title = TITLES[score] if search.found is None else f"Scores on {search.found.rows}"
    page = render({"title": title or own_title, "call": call, **data})
    with atomic(path) as file:
        file.write(page.encode())
    return path


def _check(path: Path, score: str, explorer_rows: int, random_state: int, X_train: Any, y_train: Any) -> None:
    """Raise what is wrong before the work begins."""
    check_choice("score", score, tuple(TITLES))
    if (X_train is None) != (y_train is None):
        given, missing = ("X_train", "y_train") if y_train is None else ("y_train", "X_train")
        raise DataError(f"{given} was given without {missing}; pass both, or neither.")
    check_integer("explorer_rows", explorer_rows, 0, "a number of rows, 0 for none")
    check_integer("random_state", random_state, 0, "an integer, the seed of the draw")
    check_path(path)


def check_path(path: Path) -> None:
    """Raise if a page cannot be written there."""
    if path.is_dir():
        raise IsADirectoryError(f"path={str(path)!r} is a folder; pass the file to write, such as 'page.html'.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"The folder {str(path.parent)!r} of path does not exist; make it first.")
