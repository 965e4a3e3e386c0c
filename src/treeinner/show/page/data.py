"""What the page shows, as plain data: every number comes from the public functions, and is only rounded here."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import Note, counted
from treeinner.explain.partial import partial_residuals
from treeinner.read import Model
from treeinner.read.columns import Credit, GroupSpec, credit
from treeinner.rows.frames import names_of
from treeinner.score.compare import Comparison
from treeinner.score.result import LEVEL, Importance
from treeinner.show.page.numbers import packed, short, shorts, value_text
from treeinner.show.page.rows import explore

Float = NDArray[np.float64]
CONFIDENCE = 0.95  # of the intervals
EFFECTS = 6  # features whose effect is drawn
MOST_DOTS = 400  # rows in the drawing of an effect
MOST_POINTS = 60  # of a curve: it is drawn 200 pixels wide
MOST_CURVES = 500
MOST_OUTPUT_SCORES = 10_000  # features x outputs, or x segments, whose scores are shown
MOST_SEGMENTS = 50
SAID = ("training_rows", "no_splits")  # notes that the headline has
LIBRARIES = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "catboost": "CatBoost", "sklearn": "scikit-learn"}


@dataclass(frozen=True, eq=False)
class Subject:
    """What a page is about: the model, opened, the held-out rows, and how the features are grouped."""

    model: Model
    X: Any
    given: Mapping[str, Any]  # y, sample_weight, clusters, base_margin and qid of the rows; all but y may be None
    feature_groups: GroupSpec | None
    n_jobs: int | None

    @cached_property
    def credit(self) -> Credit:
        """Who gets the credit of a split, by the names that the scores have."""
        return credit(self.model, names_of(self.X), self.feature_groups, self.X)

    def by_split(self, numbers: Float) -> Float:
        """Sum over the splits on each feature of a number per node: (features,)."""
        trees, inner = self.model.trees, self.model.trees.column >= 0
        by_player = np.bincount(trees.player[inner], numbers[inner], minlength=len(trees.player_features))
        return self.credit.add_up(np.asarray(by_player, np.float64), axis=0)


def collect(
    subject: Subject, valid: Importance, train: Importance | None, breakdown: Importance | None, *,
    explorer_rows: int, random_state: int,
) -> dict[str, Any]:  # fmt: skip
    """Everything on the page of a model but its title and call."""
    trees = subject.model.trees
    seen = next((note for note in valid.notes if note.code == "training_rows"), None)
    rows = f"{valid.n_rows:,} rows, training rows among them"
    # A forest's loss, which may be another than that of its splits, comes with its breakdown alone.
    whole = valid if valid.losses is not None or breakdown is None else breakdown
    return {
        **_common(valid, [note for note in valid.notes if note.code not in SAID]),
        "facts": _facts(subject, valid),
        "loss": whole.loss_name,
        "quality": [_quality("Held-out", whole), *([] if train is None else [_quality("Training", train)])],
        "training_rows": None if seen is None else {"note": seen.text, "rows": rows},
        "breakdown": _breakdown(breakdown),
        "features": list(valid.feature_names),
        "ranking": _columns(valid.columns()),
        "used": np.ceil(subject.by_split(np.ones(trees.n_nodes))).astype(int).tolist(),
        "outputs": _outputs(valid),
        "gain": None if np.isnan(trees.gain).any() else shorts(subject.by_split(trees.gain)),
        "margin_unit": subject.model.loss and subject.model.loss.unit,
        "n_rows": valid.n_rows,
        "effects": _effects(subject, valid, min(explorer_rows, MOST_DOTS), random_state),
        "gap": None if train is None else _gap(train, valid),
        "rounds": _rounds(valid, train),
        "segments": _segments(valid),
        "explorer": explore(subject, valid, explorer_rows, random_state) if explorer_rows else None,
    }


def of_selector(selector: Any, name: str) -> dict[str, Any]:
    """Everything on the page of a fitted TreeInnerSelector but its title; name: of the file."""
    table, found = selector.table(), selector.importance_
    folds = f"{selector.cv} folds" if isinstance(selector.cv, int) else type(selector.cv).__name__
    n_kept = int(table["kept"].sum())
    return {
        **_common(found, found.notes),
        "call": f"import treeinner as ti\n\nselector = ti.{selector!r}\nselector.fit(X, y)\n"
        f"ti.report(selector, path={name!r})\n",
        "facts": [
            ["Estimator", f"{type(selector.estimator_).__name__}, {folds}, {counted(selector.repeats, 'repeat')}"],
            ["Agreement of the folds", f"{found.folds.rank_stability:.2f} (mean rank correlation of two folds)"],
            ["Features", f"{len(table['kept']):,}, {n_kept:,} of them kept"],
        ],
        "quality": [_quality("Held-out", found)],
        "features": list(map(str, table["feature"])),
        "ranking": _columns(table),
        "selection": {
            "n_kept": n_kept,
            "rule": selector.rule,
            "test": None if selector.q is None else selector.test,
            "groups": [list(group) for group in selector.groups_],
        },
    }


def of_comparison(c: Comparison, name: str) -> dict[str, Any]:
    """Everything on the page of a Comparison but its title; name: of the file."""
    weighted = [] if c.effective_rows is None else [["Effective rows when weighted", f"{c.effective_rows:,.0f}"]]
    return {
        **_common(c.after, c.notes),
        "score": "change",
        "score_title": "Change",
        "unit": f"rise of {c.loss_name} per row",
        "call": f"import treeinner as ti\n\ncomparison = ti.compare(...)\nti.report(comparison, path={name!r})\n",
        "facts": [["Features", f"{len(c.feature_names):,}"], *weighted],
        "features": list(c.feature_names),
        "quality": [_quality(side, imp) for side, imp in zip(c.names, (c.before, c.after), strict=True)],
        "ranking": _columns(c.columns()),
        "comparison": {
            "names": c.names, "harder": short(c.harder), "base": short(c.base),
            "losses": shorts([c.loss_before, c.loss_after]),
        },
    }  # fmt: skip


def _segments(i: Importance) -> dict[str, Any] | None:
    """Scores of the largest segments, and how far each is from the rest, for as many of the best features as fit."""
    if i.by_segment is None:
        return None
    by = i.by_segment
    shown = np.sort(np.argsort(-by.weights, kind="stable")[:MOST_SEGMENTS])
    best = i.order[: MOST_OUTPUT_SCORES // len(shown)]
    cut = np.ix_(shown, best)
    return {
        "names": [by.labels[s] for s in shown], "n": by.rows[shown].tolist(), "all": len(by.labels),
        "features": best.tolist(), "score": shorts(by.statistics.score[cut]),
        "difference": shorts(by.difference.score[cut]), "std_error": shorts(by.difference.std_error[cut], 3),
        "q": shorts(by.difference.q_value[cut], 3), "same": shorts(by.same["q_value"][best], 3),
    }  # fmt: skip


def _columns(table: Mapping[str, NDArray[Any]]) -> dict[str, list[Any]]:
    """The table of a result, in the order of the features; sorting is the page's job."""
    return {
        name: shorts(column) if column.dtype.kind == "f" else column.tolist()
        for name, column in table.items()
        if name != "feature"
    }


def _effects(subject: Subject, i: Importance, n_dots: int, seed: int) -> list[dict[str, Any]] | None:
    """Partial residuals of the features with the largest scores, above 0 or below: means of bins, and rows as dots.

    Without dots no row is in the file, so neither is a bin, or the name of a category, that stands for a single row.
    """
    if i.holds is None:
        return None
    best = [k for k in np.argsort(-np.abs(i.scores), kind="stable")[:EFFECTS].tolist() if i.scores[k] != 0]
    given = {**subject.given, "feature_groups": subject.feature_groups, "n_jobs": subject.n_jobs}
    found = []
    for part in partial_residuals(subject.model, subject.X, i, best, **given):
        x, y = part.contribution, part.residual
        dots = np.random.default_rng(seed).permutation(len(x))[:n_dots]
        names, means = part.means(x if part.values is None else part.values)
        by_row, by_value = (_bins(one, n_dots == 0) for one in (part.means(x)[1], means))
        names = [name if place in by_value["at"] else "" for place, name in enumerate(names)]
        found.append({
            "feature": i.feature_names.index(part.feature), "output": part.output, "span": shorts([x.min(), x.max()]),
            "holds": short(part.slope), "std_error": short(part.std_error), "n": len(dots),
            "dots": packed(np.stack([x, y])[:, dots]), "names": [value_text(name) for name in names],
            "rows": by_row, "values": by_value if part.values is not None else None,
        })  # fmt: skip
    return found


def _bins(means: Mapping[str, Float], several: bool) -> dict[str, list[Any]]:
    """Means of bins; several: only of those with more than one row, which have an interval."""
    shown = np.isfinite(means["low"]) | (not several)
    return {name: shorts(column[shown]) for name, column in means.items()}


def _breakdown(i: Importance | None) -> dict[str, Any] | None:
    """Where the loss began and ended, what the roots did, and the scores, which add up to the difference with it."""
    if i is None or i.losses is None:
        return None
    losses = i.losses
    return {
        "loss": i.loss_name, "before": short(losses.before), "after": short(losses.after), "base": short(i.base),
        "total": short(losses.before - losses.after), "score": shorts(i.scores), "std_error": shorts(i.std_errors),
    }  # fmt: skip


def _outputs(i: Importance) -> dict[str, Any] | None:
    """Scores of each class or target by itself."""
    if i.outputs is None:
        return None
    n = i.outputs.score.shape[1]
    names = list(i.output_names or (str(k) for k in range(n)))
    if n * len(i.scores) > MOST_OUTPUT_SCORES:
        return {"names": names, "rankings": None}
    return {"names": names, "rankings": [_columns(i.for_output(name).columns()) for name in names]}


def _gap(train: Importance, valid: Importance) -> dict[str, Any]:
    """Optimism: the score on the training rows minus held-out, two independent samples."""
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
    if train is not None:
        out["train"], out["train_unit"] = packed(np.ascontiguousarray(_cumulative(train)[at][:, shown].T))
    return out


def _cumulative(i: Importance) -> Float:
    """Score until each round: (rounds + 1, features)."""
    by_round = i.by_round()
    return np.concatenate([np.zeros((1, by_round.shape[1])), np.cumsum(by_round, axis=0)])


def _facts(subject: Subject, valid: Importance) -> list[list[str]]:
    """What the model and the data are: pairs of label and text."""
    model, trees = subject.model, subject.model.trees
    rows, clusters = f"{valid.n_rows:,}", subject.given["clusters"]
    if subject.given["sample_weight"] is not None:
        rows += f", weighted (sum of weights {valid.sum_of_weights:,.6g})"
    if clusters is not None:
        rows += f", in {len(set(np.asarray(clusters).tolist())):,} independent clusters"
    kind = "averaged trees" if trees.averaged else f"boosted trees in {counted(trees.n_rounds, 'round')}"
    facts = [
        ["Model", f"{LIBRARIES.get(model.library, model.library)}, {trees.n_trees:,} {kind}"],
        ["Rows scored", rows],
        ["Features", f"{len(valid.feature_names):,}"],
    ]
    if len(valid.feature_names) != model.n_features:
        facts[-1][1] += f" (from {model.n_features:,} columns of the model)"
    if model.n_outputs > 1:
        facts.append(["Outputs", f"{model.n_outputs:,}"])
    rates = np.unique(trees.known.rate[np.isfinite(trees.known.rate)])
    if len(rates) and not trees.averaged:
        span = f"{rates[0]:.4g}" if rates[0] == rates[-1] else f"{rates[0]:.4g} to {rates[-1]:.4g}"
        facts.append(["Learning rate", span])
    return facts


def _quality(label: str, i: Importance) -> dict[str, Any]:
    """The loss per row before the first tree and after the last, and the share of it that the model explains."""
    losses = i.losses
    known = {} if losses is None else {"before": losses.before, "after": losses.after, "explained": i.explained}
    return {"rows": label, "n": i.n_rows, **{name: short(number) for name, number in known.items()}}


def contents(data: dict[str, Any]) -> str:
    """What a page holds of the rows, in words."""
    explorer = data.get("explorer")
    return "no rows of data" if explorer is None else f"{counted(len(explorer['number']), 'row')} of data"


def _common(found: Importance, notes: Iterable[Note]) -> dict[str, Any]:
    """What every page has: when and by what it was written, and what its scores are."""
    own = [["treeinner", version("treeinner")], ["Python", platform.python_version()], ["numpy", np.__version__]]
    return {
        "written": _now().strftime("%Y-%m-%d %H:%M UTC"),
        "versions": own,
        "level": LEVEL,
        "confidence": CONFIDENCE,
        "score": found.score,
        "score_title": found.title,
        "unit": found.unit,
        "loss": found.loss_name,
        "notes": [note.text for note in notes],
    }


def _now() -> datetime:
    """The time of writing; SOURCE_DATE_EPOCH fixes it for builds that must come out the same."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    return datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
