"""What the page shows, as plain data: every number comes from the public functions, and is only rounded here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from platform import python_version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import Note, counted
from treeinner.explain.partial import partial_residuals
from treeinner.read import Model
from treeinner.read.columns import GroupSpec, credit
from treeinner.rows.frames import names_of
from treeinner.score.compare import Comparison
from treeinner.score.infer import difference
from treeinner.score.result import LEVEL, Importance
from treeinner.show.page.numbers import packed, short, value_text
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

    def by_split(self, numbers: Float) -> Float:
        """Sum over the splits on each feature of a number per node, by the names that the scores have: (features,)."""
        trees, inner = self.model.trees, self.model.trees.column >= 0
        by_player = np.bincount(trees.player[inner], numbers[inner], minlength=len(trees.player_features))
        names = credit(self.model, names_of(self.X), self.feature_groups, self.X)
        return names.add_up(np.asarray(by_player, np.float64), axis=0)


def collect(
    subject: Subject, valid: Importance, train: Importance | None, breakdown: Importance | None, *,
    explorer_rows: int, random_state: int,
) -> dict[str, Any]:  # fmt: skip
    """Everything on the page of a model but its call."""
    trees = subject.model.trees
    seen = next((note for note in valid.notes if note.code == "training_rows"), None)
    rows = f"{valid.n_rows:,} rows, training rows among them"
    title = "Which features lowered the loss" if valid.score == "loss" else "Which features carry signal"
    title = title if seen is None else "Scores with training rows among the rows"
    # A forest's loss, which may be another than that of its splits, comes with its breakdown alone.
    whole = valid if valid.losses is not None or breakdown is None else breakdown
    sides = {"Held-out": whole} | ({} if train is None else {"Training": train})
    gap = None if train is None else difference(train.statistics, valid.statistics)
    notes = [note for note in valid.notes if note.code not in SAID]
    return {
        **_common(valid, valid.columns(), notes, _facts(subject, valid), sides),
        "title": title,
        "training_rows": None if seen is None else {"note": seen.text, "rows": rows},
        "breakdown": _breakdown(breakdown),
        "used": np.ceil(subject.by_split(np.ones(trees.n_nodes))).astype(int),
        "outputs": _outputs(valid),
        "gain": None if np.isnan(trees.gain).any() else subject.by_split(trees.gain),
        "margin_unit": subject.model.loss and subject.model.loss.unit,
        "effects": _effects(subject, valid, min(explorer_rows, MOST_DOTS), random_state),
        "gap": gap and {"train": train and train.scores, "gap": gap.score, "std_error": gap.std_error},
        "rounds": _rounds(valid, train),
        "segments": _segments(valid),
        "explorer": explore(subject, valid, explorer_rows, random_state) if explorer_rows else None,
    }


def of_selector(selector: Any, name: str) -> dict[str, Any]:
    """Everything on the page of a fitted TreeInnerSelector; name: of the file."""
    table, found = selector.table(), selector.importance_
    folds = f"{selector.cv} folds" if isinstance(selector.cv, int) else type(selector.cv).__name__
    facts = {
        "Estimator": f"{type(selector.estimator_).__name__}, {folds}, {counted(selector.repeats, 'repeat')}",
        "Agreement of the folds": f"{found.folds.rank_stability:.2f} (mean rank correlation of two folds)",
        "Features": f"{len(table['kept']):,}, {table['kept'].sum():,} of them kept",
    }
    test = None if selector.q is None else selector.test
    code = f"selector = ti.{selector!r}\nselector.fit(X, y)\nti.report(selector, path={name!r})\n"
    return {
        **_common(found, table, found.notes, facts, {"Held-out": found}),
        "title": "Which features to keep",
        "call": f"import treeinner as ti\n\n{code}",
        "selection": {"rule": selector.rule, "test": test, "groups": selector.groups_},
    }


def of_comparison(c: Comparison, name: str) -> dict[str, Any]:
    """Everything on the page of a Comparison; name: of the file."""
    weighted = {} if c.effective_rows is None else {"Effective rows when weighted": f"{c.effective_rows:,.0f}"}
    sides = dict(zip(c.names, (c.before, c.after), strict=True))
    return {
        **_common(c.after, c.columns(), c.notes, {"Features": f"{len(c.feature_names):,}", **weighted}, sides),
        "title": "Why the loss changed",
        "score": "change",
        "score_title": "Change",
        "unit": f"rise of {c.loss_name} per row",
        "call": f"import treeinner as ti\n\ncomparison = ti.compare(...)\nti.report(comparison, path={name!r})\n",
        "comparison": {"names": c.names, "harder": short(c.harder), "base": short(c.base)},
    }


def _segments(i: Importance) -> dict[str, Any] | None:
    """Scores of the largest segments, and how far each is from the rest, for as many of the best features as fit."""
    if i.by_segment is None:
        return None
    by = i.by_segment
    shown = np.sort(np.argsort(-by.weights, kind="stable")[:MOST_SEGMENTS])
    best = i.order[: MOST_OUTPUT_SCORES // len(shown)]
    cut, other = np.ix_(shown, best), by.difference
    return {
        "names": [by.labels[s] for s in shown], "n": by.rows[shown], "all": len(by.labels), "features": best,
        "score": by.statistics.score[cut], "difference": other.score[cut], "std_error": other.std_error[cut],
        "q": other.q_value[cut], "same": by.same["q_value"][best],
    }  # fmt: skip


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
            "feature": i.feature_names.index(part.feature), "output": part.output, "span": np.array([x.min(), x.max()]),
            "holds": short(part.slope), "std_error": short(part.std_error), "n": len(dots),
            "dots": packed(np.stack([x, y])[:, dots]), "names": [value_text(name) for name in names],
            "rows": by_row, "values": by_value if part.values is not None else None,
        })  # fmt: skip
    return found


def _bins(means: Mapping[str, Float], several: bool) -> dict[str, Float]:
    """Means of bins; several: only of those with more than one row, which have an interval."""
    shown = np.isfinite(means["low"]) | (not several)
    return {name: column[shown] for name, column in means.items()}


def _breakdown(i: Importance | None) -> dict[str, Any] | None:
    """Where the loss began and ended, what the roots did, and the scores, which add up to the difference with it."""
    if i is None or i.losses is None:
        return None
    before, after = i.losses.before, i.losses.after
    numbers = {"before": before, "after": after, "base": i.base, "total": before - after}
    known = {name: short(number) for name, number in numbers.items()}
    return {"loss": i.loss_name, **known, "score": i.scores, "std_error": i.std_errors}


def _outputs(i: Importance) -> dict[str, Any] | None:
    """Scores of each class or target by itself."""
    if i.outputs is None:
        return None
    names = list(i.output_names or map(str, range(i.outputs.score.shape[1])))
    few = len(names) * len(i) <= MOST_OUTPUT_SCORES
    return {"names": names, "rankings": [_numbers(i.for_output(name).columns()) for name in names] if few else None}


def _rounds(valid: Importance, train: Importance | None) -> dict[str, Any] | None:
    """Cumulative scores by round, thinned for drawing; peak and fall come from every round."""
    if valid.rounds is None or len(valid.rounds) < 2:
        return None
    shown, n = np.sort(valid.order[:MOST_CURVES]), len(valid.rounds)
    at = np.unique(np.linspace(0, n, min(n, MOST_POINTS) + 1).round().astype(int))
    curve = _cumulative(valid)[:, shown]
    best = curve.max(axis=0)
    out = {"n": n, "at": at, "features": shown, "peak": curve.argmax(axis=0), "best": best, "fall": best - curve[-1]}
    out["valid"], out["valid_unit"] = packed(curve[at].T)
    if train is not None:
        out["train"], out["train_unit"] = packed(_cumulative(train)[at][:, shown].T)
    return out


def _cumulative(i: Importance) -> Float:
    """Score until each round: (rounds + 1, features)."""
    return np.cumsum(np.pad(i.by_round(), ((1, 0), (0, 0))), axis=0)


def _facts(subject: Subject, valid: Importance) -> dict[str, str]:
    """What the model and the data are, in words."""
    model, trees, clusters = subject.model, subject.model.trees, subject.given["clusters"]
    kind = "averaged trees" if trees.averaged else f"boosted trees in {counted(trees.n_rounds, 'round')}"
    weighted = subject.given["sample_weight"] is not None
    rows = f", weighted (sum of weights {valid.sum_of_weights:,.6g})" if weighted else ""
    if clusters is not None:
        rows += f", in {len(set(np.asarray(clusters).tolist())):,} independent clusters"
    columns = f" (from {model.n_features:,} columns of the model)" if len(valid) != model.n_features else ""
    facts = {
        "Model": f"{LIBRARIES.get(model.library, model.library)}, {trees.n_trees:,} {kind}",
        "Rows scored": f"{valid.n_rows:,}{rows}",
        "Features": f"{len(valid):,}{columns}",
    }
    facts |= {"Outputs": f"{model.n_outputs:,}"} if model.n_outputs > 1 else {}
    rates = list(dict.fromkeys(f"{rate:.4g}" for rate in np.unique(trees.known.rate) if np.isfinite(rate)))
    return facts | ({"Learning rate": " to ".join(rates[:1] + rates[1:][-1:])} if rates and not trees.averaged else {})


def _quality(label: str, i: Importance) -> dict[str, Any]:
    """The loss per row before the first tree and after the last, and the share of it that the model explains."""
    losses = i.losses
    known = {} if losses is None else {"before": losses.before, "after": losses.after, "explained": i.explained}
    return {"rows": label, "n": i.n_rows, **{name: short(number) for name, number in known.items()}}


def _common(
    found: Importance, table: Mapping[str, NDArray[Any]], notes: Iterable[Note], facts: Mapping[str, str],
    sides: Mapping[str, Importance],
) -> dict[str, Any]:  # fmt: skip
    """What every page has: when and by what it was written, a table of features, and what its scores are."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")  # it fixes the time, for builds that must come out the same
    now = datetime.now(UTC) if epoch is None else datetime.fromtimestamp(int(epoch), UTC)
    return {
        "written": now.strftime("%Y-%m-%d %H:%M UTC"),
        "versions": [["treeinner", version("treeinner")], ["Python", python_version()], ["numpy", np.__version__]],
        "level": LEVEL,
        "confidence": CONFIDENCE,
        "score": found.score,
        "score_title": found.title,
        "unit": found.unit,
        "loss": next(iter(sides.values())).loss_name,
        "notes": [note.text for note in notes],
        "facts": list(facts.items()),
        "quality": [_quality(label, side) for label, side in sides.items()],
        "features": table["feature"],
        "ranking": _numbers(table),
    }


def _numbers(table: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The table of a result without the names, in the order of the features; sorting is the page's job."""
    return {name: column for name, column in table.items() if name != "feature"}
