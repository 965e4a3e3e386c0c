"""The rows that the reader can look at one by one: a sample, its predictions and their largest parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.explain.attribute import attribute
from treeinner.losses import forest_error
from treeinner.rows.frames import as_frame, collected, to_array
from treeinner.rows.rows import ROLES, one_batch
from treeinner.score.result import METHOD_TITLES, Importance
from treeinner.show.page.numbers import value_text

if TYPE_CHECKING:
    from treeinner.show.page.data import Subject

Float = NDArray[np.float64]

# About 7 characters a number, so the explorer stays below 2.6 MB whatever the model.
MOST_NUMBERS = 360_000
FEWEST_PARTS = 12  # a waterfall shows at least so many features
MOST_OUTPUTS = 4  # of one row: the likeliest classes, and the true one
MOST_VALUES = 20_000_000  # attributions held in memory, of all classes


def explore(subject: Subject, valid: Importance, n_rows: int, random_state: int) -> dict[str, Any]:
    """Sampled rows with their predictions; of each the features that moved it most, with their values.

    Predictions are split as for the scores: the parts of all rows are what is scored.
    """
    model, loss, n_features = subject.model, subject.model.loss, len(valid)
    assert loss is not None  # or there would be no scores
    y, given = np.asarray(subject.given["y"]), subject.given["base_margin"]
    columns, fewest = 2 + min(model.n_outputs, MOST_OUTPUTS), min(FEWEST_PARTS, n_features)
    most = min(MOST_NUMBERS // (fewest * columns), MOST_VALUES // (n_features * model.n_outputs))
    n_rows = min(n_rows, len(y), max(most, 1))
    number = np.sort(np.random.default_rng(random_state).choice(len(y), n_rows, replace=False))
    X = take(subject.X, number)
    a = attribute(
        model, X, base_margin=None if given is None else np.asarray(given)[number], n_jobs=subject.n_jobs,
        feature_groups=subject.feature_groups, method=valid.method,
        reference=valid if valid.method == "centred" else None,
    )  # fmt: skip
    values, base = a.by_output
    margin = base + values.sum(axis=1)
    link, error = loss.link(margin), forest_error(loss) if model.trees.averaged else loss
    about = {"y": y[number], "qid": None if loss.scope != "query" else np.asarray(subject.given["qid"])[number]}
    encoded = one_batch(model, X, dict.fromkeys(ROLES) | about).y
    shown = _outputs_shown(margin, encoded.astype(np.intp) if loss.target == "class" else None)
    values = np.take_along_axis(values, shown[:, None, :], axis=2)  # (rows, features, outputs shown)
    order = np.argsort(-np.abs(values).max(axis=2), axis=1, kind="stable")
    order = order[:, : max(fewest, MOST_NUMBERS // (n_rows * columns))]
    largest = np.take_along_axis(values, order[:, :, None], axis=1)
    size = np.abs(largest).max(initial=0.0)
    labels = None if np.array_equal(a.row_labels, number) else a.row_labels  # those say no more than the numbers
    decimals = 0 if size == 0 else 4 - math.floor(math.log10(size))  # too small to be drawn beside the largest: 0
    return {
        "method": METHOD_TITLES[valid.method],
        "n": len(y),
        "number": number,
        "label": None if labels is None else [value_text(label) for label in labels],
        "actual": [_actual(y) for y in y[number].tolist()],
        "loss": error.losses(encoded, margin) if error.value is not None and error.scope == "row" else None,
        "outputs": None if model.n_outputs == 1 else shown,
        "margin": np.take_along_axis(margin, shown, axis=1),
        "prediction": None if link is margin else np.take_along_axis(link, shown, axis=1),
        "base": np.take_along_axis(base, shown, axis=1),
        "decimals": decimals,
        "feature": order,
        "contribution": np.swapaxes(largest, 1, 2).round(decimals),  # (rows, outputs shown, parts)
        "rest": (values.sum(axis=1) - largest.sum(axis=1)).round(decimals),
        "value": _values(a.data, a.feature_names, order),
    }


def _outputs_shown(margin: Float, code: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """All outputs if they are few; else those with the largest margins, and the row's own class: (rows, shown)."""
    n = margin.shape[1]
    if n <= MOST_OUTPUTS:
        return np.broadcast_to(np.arange(n), margin.shape)
    first = np.argsort(-margin, axis=1, kind="stable")[:, :MOST_OUTPUTS]
    if code is not None:
        absent = ~(first == code[:, None]).any(axis=1)
        first[absent, -1] = code[absent]
    return first


def _values(data: Any, names: tuple[str, ...], order: NDArray[np.intp]) -> list[list[Any]] | None:
    """Values of the features shown, in their order; None where a feature is not a column of the data."""
    table = to_array(data, names)  # of no dimension if there are no data
    if table.ndim != 2 or table.shape[1] != len(names):
        return None
    return [[value_text(table[i, k]) for k in picked] for i, picked in enumerate(order.tolist())]


def _actual(y: Any) -> Any:
    """The target of a row; several are listed."""
    return ", ".join(str(value_text(one)) for one in y) if isinstance(y, list | tuple) else value_text(y)


def take(X: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of a table, in the container it came in."""
    frame: Any = as_frame(X)
    if frame is not None:
        return collected(frame)[rows.tolist()].to_native()
    return X.tocsr()[rows] if hasattr(X, "tocsr") else np.asarray(X)[rows]
