"""What the page shows, as plain data: every number comes from the public functions, and is only rounded here."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from treeinner.attribution import FloatArray
from treeinner.errors import TreeInnerError, counted
from treeinner.groups import Groups, GroupSpec
from treeinner.model import Model
from treeinner.page.numbers import packed, short, shorts
from treeinner.page.rows import explore
from treeinner.scores import Importance, total_gain
from treeinner.scores.result import Q_LIMIT, VERDICTS
from treeinner.scores.training_rows import Search

MOST_POINTS = 60  # of a curve: it is drawn 200 pixels wide
MOST_CURVES = 500
MOST_OUTPUT_SCORES = 10_000  # features x outputs whose scores are shown per output
LIBRARIES = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "catboost": "CatBoost", "sklearn": "scikit-learn"}


@dataclass(frozen=True, eq=False)
class Subject:
    """What a page is about: the model, opened, the held-out rows, and how the features are grouped."""

    model: Model
    X: Any
    y: Any
    extra: Mapping[str, Any]  # sample_weight, clusters, base_margin and qid of the rows, each may be None
    feature_groups: GroupSpec | None
    search: Search  # for training rows among the held-out rows
    n_jobs: int | None

    @cached_property
    def groups(self) -> Groups:
        """The user's groups, resolved by the names that the scores have."""
        return self.model.groups(self.feature_groups, self.model.labels(self.X))

    def stored_gain(self) -> FloatArray | None:
        """Total gain as the model stores it: (features,), or None."""
        try:
            gain = total_gain(self.model).scores
        except TreeInnerError:
            return None
        return self.groups.add_up(gain, axis=0)


def collect(
    subject: Subject, valid: Importance, train: Importance | None, *, explorer_rows: int, random_state: int
) -> dict[str, Any]:
    """Everything on the page but its title."""
    gain = subject.stored_gain()
    found = subject.search.found
    notes = [note for note in subject.search.notes(valid.notes) if found is None or note != found.note]
    return {
        **common(valid, notes, _version_of(subject)),
        "facts": _facts(subject, valid, train),
        "training_rows": None if found is None else {"note": found.note, "rows": found.rows},
        "account": _account(valid),
        "features": list(valid.feature_names),
        "ranking": _ranking(valid),
        "used": _used(subject),
        "outputs": _outputs(valid),
        "gain": None if gain is None else shorts(gain),
        "gap": None if train is None else _gap(train, valid),
        "rounds": _rounds(valid, train),
        "explorer": explore(subject, len(valid), explorer_rows, random_state) if explorer_rows else None,
    }


def _ranking(i: Importance) -> dict[str, Any]:
    """Scores in the order of the features; sorting is the page's job. A verdict is its place in VERDICTS."""
    columns = {"score": i.scores, "std_error": i.std_errors, "ci_low": i.ci_low, "ci_high": i.ci_high}
    return {
        **{name: shorts(values) for name, values in columns.items()},
        "q": shorts(i.q_values, 4),
        "verdict": [VERDICTS.index(verdict) for verdict in i.verdicts],
    }


def _account(i: Importance) -> dict[str, Any] | None:
    """Where the loss began and ended, and what the roots did: with the scores they add up to the difference."""
    if i.score_name != "loss" or i.losses is None:
        return None
    losses = i.losses
    return {"before": short(losses.before), "after": short(losses.after), "base": short(i.base),
            "total": short(losses.before - losses.after)}  # fmt: skip


def _outputs(i: Importance) -> dict[str, Any] | None:
    """Scores of each class or target by itself."""
    if i.outputs is None:
        return None
    n = i.outputs.score.shape[1]
    names = list(i.output_names or (str(k) for k in range(n)))
    if n * len(i.scores) > MOST_OUTPUT_SCORES:
        return {"names": names, "rankings": None}
    return {"names": names, "rankings": [_ranking(i.for_output(k)) for k in range(n)]}


def _used(subject: Subject) -> list[int]:
    """Number of splits on each feature."""
    e = subject.model.ensemble
    by_column = np.bincount(e.feature[e.feature >= 0], minlength=e.schema.n_columns)
    splits = np.zeros(e.n_features)
    for column, count in enumerate(by_column.tolist()):
        for feature in (column,) if e.column_features is None else e.column_features[column]:
            splits[feature] += count
    return [int(n) for n in subject.groups.add_up(splits, axis=0).tolist()]


def _gap(train: Importance, valid: Importance) -> dict[str, Any]:
    """Optimism: the score on the training rows minus held-out; the two samples are independent."""
    return {
        "train": shorts(train.scores),
        "gap": shorts(train.scores - valid.scores),
        "std_error": shorts(np.hypot(train.std_errors, valid.std_errors)),
    }


def _rounds(valid: Importance, train: Importance | None) -> dict[str, Any] | None:
    """Cumulative scores by round, thinned for drawing; peak and fall come from every round."""
    if valid.rounds is None or len(valid.rounds) < 2:
        return None
    curve = _cumulative(valid)
    n = len(curve) - 1
    at = np.unique(np.linspace(0, n, min(n, MOST_POINTS) + 1).round().astype(int))
    shown = np.sort(valid.order[:MOST_CURVES])
    best = curve.max(axis=0)
    out: dict[str, Any] = {
        "n": n,
        "at": at.tolist(),
        "features": shown.tolist(),
        "peak": curve.argmax(axis=0)[shown].tolist(),
        "best": shorts(best[shown]),
        "fall": shorts((best - curve[-1])[shown]),
    }
    out["valid"], out["valid_unit"] = packed(np.ascontiguousarray(curve[at][:, shown].T))
    if train is not None and train.rounds is not None:
        out["train"], out["train_unit"] = packed(np.ascontiguousarray(_cumulative(train)[at][:, shown].T))
    return out


def _cumulative(i: Importance) -> FloatArray:
    by_round = i.by_round()
    return np.concatenate([np.zeros((1, by_round.shape[1])), np.cumsum(by_round, axis=0)])


def _facts(subject: Subject, valid: Importance, train: Importance | None) -> list[list[str]]:
    """What the model and the data are: pairs of label and text."""
    e = subject.model.ensemble
    library = LIBRARIES.get(e.library, e.library)
    kind = "averaged trees" if e.averaged else "boosted trees"
    found = subject.search.found
    rows = f"{valid.n_rows:,}" if found is None else found.rows
    if subject.extra["sample_weight"] is not None:
        rows += f", weighted (sum of weights {valid.sum_of_weights:,.6g})"
    if subject.extra["clusters"] is not None:
        rows += f", in {valid.statistics.n_units:,} independent clusters"
    trees = f"{e.n_trees:,} {kind}" + ("" if e.averaged else f" in {counted(e.n_rounds, 'round')}")
    facts = [
        ["Model", f"{library}, {trees}"],
        ["Loss", subject.model.objective.name],
        ["Held-out rows" if found is None else "Rows scored", rows],
        ["Training rows", "not given" if train is None else f"{train.n_rows:,}"],
        ["Features", f"{len(valid.feature_names):,}"],
    ]
    if subject.feature_groups is not None:
        facts[-1][1] += f" (from {e.n_features:,} columns, some of them grouped)"
    if e.n_outputs > 1:
        facts.append(["Outputs", f"{e.n_outputs:,}"])
    if settings := _settings(subject):
        facts.append(["Settings", settings])
    facts += losses_of(valid)
    if e.exactness != "exact":
        facts.append(["Total gain", e.exactness])
    return facts


def losses_of(i: Importance) -> list[list[str]]:
    """The loss before and after, and how far first-order scores can be trusted; nothing where it is not known."""
    if i.losses is None:
        return []
    before, after = (f"{number:.4g}" for number in (i.losses.before, i.losses.after))
    facts = [["Loss per row", f"{before} before the first tree, {after} after the last"]]
    if math.isfinite(i.overshoot):
        share = f"the loss fell by {1 - i.overshoot:.0%} of what its slope promised at the start of each round"
        facts.append(["Overshoot", f"{i.overshoot:.2f}: {share}"])
    return facts


def _settings(subject: Subject) -> str:
    e = subject.model.ensemble
    rates = np.unique(e.tree_rate[np.isfinite(e.tree_rate)])
    parts = []
    if len(rates) and not e.averaged:
        span = f"{rates[0]:.4g}" if rates[0] == rates[-1] else f"{rates[0]:.4g} to {rates[-1]:.4g}"
        parts.append(f"learning rate = {span}")
    for name, words in (("reg_lambda", "l2"), ("reg_alpha", "l1")):
        number = e.params.get(name)
        if isinstance(number, int | float) and np.isfinite(number):
            parts.append(f"{words} = {short(float(number), 4)}")
    return ", ".join(parts)


def common(found: Importance, notes: Sequence[str], of_model: Sequence[list[str]] = ()) -> dict[str, Any]:
    """What every page has: when and by what it was written, and what its scores are."""
    own = [["treeinner", version("treeinner")], ["Python", platform.python_version()], ["numpy", np.__version__]]
    return {
        "written": _now().strftime("%Y-%m-%d %H:%M UTC"),
        "versions": [*own, *of_model],
        "q_limit": Q_LIMIT,
        "confidence": found.confidence,
        "score": found.score_name,
        "score_title": found.title,
        "unit": found.unit,
        "notes": list(notes),
    }


def _version_of(subject: Subject) -> list[list[str]]:
    """The library's version that the model stores."""
    e = subject.model.ensemble
    stored = e.params.get("version")
    stored = ".".join(map(str, stored)) if isinstance(stored, list | tuple) else stored
    known = stored if isinstance(stored, str) else ""
    return [[f"{LIBRARIES.get(e.library, e.library)} (model)", known]] if known else []


def _now() -> datetime:
    """The time of writing; SOURCE_DATE_EPOCH fixes it for builds that must come out the same."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    return datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
