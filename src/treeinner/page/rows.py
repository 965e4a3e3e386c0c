"""The rows that the reader can look at one by one: a sample, its predictions and their largest parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.attribution import FloatArray, attribute
from treeinner.objectives import encode_target
from treeinner.page.numbers import decimals_for, rounded, short, shorts, value_text
from treeinner.scores.result import METHOD_TITLES
from treeinner.selection.folds import take_rows
from treeinner.tables.frames import as_frame, collected, row_labels_of, to_array

if TYPE_CHECKING:
    from treeinner.page.data import Subject

# About 7 characters a number, so the explorer stays below 2.6 MB whatever the model.
MOST_NUMBERS = 360_000
FEWEST_PARTS = 12  # a waterfall shows at least so many features
MOST_OUTPUTS = 4  # of one row: the likeliest classes, and the true one
CHUNK = 10_000_000  # attributions held at a time


def explore(subject: Subject, n_features: int, n_rows: int, random_state: int) -> dict[str, Any]:
    """Sampled rows with their predictions; of each the features that moved it most, with their values."""
    e, objective = subject.model.ensemble, subject.model.objective
    y = np.asarray(subject.y)
    n = len(y)
    shown_outputs = min(e.n_outputs, MOST_OUTPUTS)
    fewest = min(FEWEST_PARTS, n_features)
    wanted = min(n_rows, n, max(1, MOST_NUMBERS // (fewest * (2 + shown_outputs))))
    parts = min(n_features, max(fewest, MOST_NUMBERS // (wanted * (2 + shown_outputs))))
    number = np.sort(np.random.default_rng(random_state).choice(n, wanted, replace=False))
    actual = y[number]
    encoded = encode_target(e, subject.model.target(actual), objective=objective)
    code = encoded.astype(np.intp) if objective.target == "class" else None
    has_loss = objective.value is not None and objective.per_row  # else a row has no loss of its own

    step = max(1, CHUNK // (n_features * e.n_outputs))
    pieces = [
        _attributed(subject, number[i : i + step], None if code is None else code[i : i + step], parts)
        for i in range(0, wanted, step)
    ]
    found = {name: np.concatenate([p[name] for p in pieces]) for name in pieces[0] if name != "value"}
    margin, chosen = found["margin"], found["outputs"]
    link = objective.link(margin)
    decimals = decimals_for(found["contribution"])
    labels = row_labels_of(subject.X)
    values = [row for p in pieces for row in p["value"]]
    return {
        "method": METHOD_TITLES[row_method(subject)],
        "n": n,
        "number": number.tolist(),
        "label": None if labels is None or _is_range(labels) else [value_text(labels[i]) for i in number.tolist()],
        "actual": [_actual(y) for y in actual.tolist()],
        "loss": shorts(objective.losses(encoded, margin), 4) if has_loss else None,  # to find the worst predicted
        "outputs": None if e.n_outputs == 1 else chosen.tolist(),
        "margin": shorts(np.take_along_axis(margin, chosen, axis=1)),
        "prediction": None if link is margin else shorts(np.take_along_axis(link, chosen, axis=1)),
        "base": shorts(found["base"]),
        "decimals": decimals,
        "feature": found["feature"].tolist(),
        "contribution": rounded(found["contribution"], decimals),
        "rest": rounded(found["rest"], decimals),
        "value": values if len(values) == wanted else None,
    }


def row_method(subject: Subject) -> str:
    """How predictions are split: PreDecomp, or Saabas where it needs a parameter that nobody knows."""
    return "saabas" if subject.model.ensemble.needs else "predecomp"


def _attributed(
    subject: Subject, number: NDArray[np.intp], code: NDArray[np.intp] | None, parts: int
) -> dict[str, Any]:
    """Some rows: margin of every output, and the largest parts of the outputs that are shown."""
    given = subject.extra["base_margin"]
    base_margin = None if given is None else np.asarray(given)[number]
    options: dict[str, Any] = {"feature_groups": subject.feature_groups, "n_jobs": subject.n_jobs}
    a = attribute(
        subject.model, take(subject.X, number), method=row_method(subject), base_margin=base_margin, **options
    )
    values, base = a.by_output
    margin = base + values.sum(axis=1)
    chosen = _outputs_shown(margin, code)
    values = np.take_along_axis(values, chosen[:, None, :], axis=2)  # (rows, features, outputs shown)
    order = np.argsort(-np.abs(values).max(axis=2), axis=1, kind="stable")[:, :parts]
    largest = np.take_along_axis(values, order[:, :, None], axis=1)
    return {
        "margin": margin,
        "outputs": chosen,
        "base": np.take_along_axis(base, chosen, axis=1),
        "feature": order,
        "contribution": np.swapaxes(largest, 1, 2),  # (rows, outputs shown, parts)
        "rest": values.sum(axis=1) - largest.sum(axis=1),
        "value": _values(a.data, a.feature_names, order),
    }


def _outputs_shown(margin: FloatArray, code: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """All outputs if they are few; else those with the largest margins, and the row's own class: (rows, shown)."""
    n = margin.shape[1]
    if n <= MOST_OUTPUTS:
        return np.broadcast_to(np.arange(n), margin.shape)
    first = np.argsort(-margin, axis=1, kind="stable")[:, :MOST_OUTPUTS]
    if code is not None:
        absent = ~(first == code[:, None]).any(axis=1)
        first[absent, -1] = code[absent]
    return first


def _values(data: Any, names: tuple[str, ...], order: NDArray[np.intp]) -> list[list[Any]]:
    """Values of the features shown, in their order; nothing where a feature is not a column of the data."""
    table = to_array(data, names)  # of no dimension if there are no data, or they are a catboost.Pool
    if table.ndim != 2 or table.shape[1] != len(names):
        return []
    return [[value_text(table[i, k]) for k in picked] for i, picked in enumerate(order.tolist())]


def _actual(y: Any) -> Any:
    if isinstance(y, list | tuple):
        return ", ".join(str(short(v, 6)) if isinstance(v, float) else str(v) for v in y)
    return value_text(y)


def _is_range(labels: Any) -> bool:
    """Labels 0, 1, 2, ... say no more than the number of the row."""
    return bool(getattr(labels, "start", None) == 0 and getattr(labels, "step", None) == 1)


def take(X: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of a table, in the container it came in."""
    if type(X).__name__ == "Pool":
        return X.slice(rows.tolist())
    frame: Any = as_frame(X)
    return take_rows(X, rows) if frame is None else collected(frame)[rows.tolist()].to_native()
