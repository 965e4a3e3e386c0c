"""What is shown of a result, a line for every feature: in a terminal, and in a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import Note, counted, short
from treeinner.score.result import LEVEL
from treeinner.show import html

if TYPE_CHECKING:
    from treeinner.explain.attribute import Attribution
    from treeinner.read import Model
    from treeinner.score.compare import Comparison
    from treeinner.score.result import BySegment, FoldSpread, Importance

__all__ = [
    "SHOWN", "Table", "importance_text", "model_html", "of_attribution", "of_comparison", "of_folds", "of_importance",
    "of_selector", "text_table",
]  # fmt: skip

SHOWN = 20  # features
DIGITS = 3  # of a score
TWO_DIGITS = ("std error", "std of folds", "p value", "q value", "adds q value")
LEFT = ("feature", "segment", "verdict")  # columns of text in a terminal
UNCHECKED = "training_rows_unchecked"  # code of a note
UNCLEAR = 0.5  # standard error of holds from which it is left blank
COLOURS = {  # of bars; the others are blue
    "unclear": html.GREY, "dropped": html.GREY, "harmful": html.VERMILLION, "worse": html.VERMILLION,
}  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """A result as columns. Numbers are written with the digits that count; what is not known is left blank."""

    title: str
    columns: Mapping[str, Any]  # texts or numbers
    order: NDArray[np.intp]  # of the lines, best first
    below: Sequence[Mapping[str, Any]] = ()  # lines that belong to no feature: column -> cell
    about: Sequence[str] = ()  # parts of the last line
    bars: str = "score"  # the column that is drawn in a notebook
    interval: tuple[Any, Any] | None = None  # of the bars
    span: str = "95% interval"
    colours: Sequence[str] | None = None  # of the bars; None: those of the verdicts

    def text(self, shown: int | None = SHOWN) -> str:
        """Lines for a terminal; shown: how many, None for all."""
        cells, more = self._lines(self.order[:shown]), len(self.order) - len(self.order[:shown])
        lines = text_table({name: [line[name] for line in cells] for name in self.columns})
        if more:
            lines.insert(len(lines) - len(self.below), f"... and {more} more")
        return "\n".join([self.title, *lines, *(["; ".join(self.about)] if self.about else [])])

    def html(self) -> str:
        """The first lines for a notebook, with bars and intervals."""
        picked, scores = self.order[:SHOWN].tolist(), np.asarray(self.columns[self.bars])
        low, high = self.interval or np.full((2, len(scores)), math.nan)
        finite = [0.0, *(x for each in (scores, low, high) for x in each[picked].tolist() if math.isfinite(x))]
        lines: list[dict[str, Any]] = [*self._lines(picked)]
        for k, line in zip(picked, lines, strict=False):
            colour = self.colours[k] if self.colours else COLOURS.get(line.get("verdict", ""), html.BLUE)
            line[""] = html.bar(scores[k], low[k], high[k], span=(min(finite), max(finite)), colour=colour)
            line[self.span] = f"{short(low[k], DIGITS)} to {short(high[k], DIGITS)}"
        heads = dict.fromkeys(["feature", "", self.bars, *([self.span] if self.interval else []), *self.columns])
        rows = [[line.get(head, "") for head in heads] for line in lines]
        more = [f"... and {len(scores) - SHOWN} more features"] if len(scores) > SHOWN else []
        last = "; ".join([*more, *self.about])
        return html.table(self.title, list(heads), rows[: len(picked)], last, below=rows[len(picked) :])

    def _lines(self, picked: Iterable[int]) -> list[dict[str, str]]:
        """Texts of some lines, and of those below."""
        lines = [{name: column[k] for name, column in self.columns.items()} for k in picked]
        return [{name: _cell(name, line.get(name, "")) for name in self.columns} for line in [*lines, *self.below]]


def _cell(name: str, value: Any) -> str:
    """Text of a cell; a number has the digits that count, and is blank where it is not known."""
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else short(value, 2 if name in TWO_DIGITS else DIGITS)


def text_table(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Lines of a table under its headings; numbers are right-aligned."""
    n = max(map(len, columns.values()))
    lines = [""] * (n + 1)
    for name, cells in columns.items():
        texts = [name, *map(printable, cells)]
        width = max(map(len, texts))
        aligned = [text.ljust(width) if name in LEFT else text.rjust(width) for text in texts]
        lines = [f"{line}{text}  " for line, text in zip(lines, aligned, strict=True)]
    return [line.rstrip() for line in lines]


def printable(text: str) -> str:
    """Escape what would move the cursor: names come from files of others."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


# -- of every kind of result ---------------------------------------------------------------------------------------
def of_importance(imp: Importance) -> Table:
    """Scores, best first; of a loss breakdown also the base, and the fall of the loss to which all lines add up."""
    columns: dict[str, Any] = {"feature": imp.feature_names, "score": imp.scores}
    columns |= {"std error": imp.std_errors} if imp.has_errors else {}
    columns |= {"q value": imp.q_values} if imp.tested else {}
    columns |= {"holds": _holds(imp)} if imp.tested and imp.holds is not None else {}
    columns |= {"verdict": imp.verdicts} if imp.tested else {}
    below = []
    if imp.score == "loss" and imp.losses is not None:
        fall = imp.losses.before - imp.losses.after
        below = [{"feature": "(base)", "score": imp.base}, {"feature": "(loss before - after)", "score": fall}]
    about = [counted(imp.n_rows, "row")] if imp.n_rows else []
    about += [imp.unit, *([f"verdicts at q <= {LEVEL:g}"] if imp.tested else []), *_codes(imp.notes)]
    return Table(
        title=imp.title, columns=columns, order=imp.order, below=below, about=about,
        interval=imp.interval(0.95) if imp.has_errors else None,
    )  # fmt: skip


def importance_text(imp: Importance, shown: int | None = SHOWN) -> str:
    """The scores for a terminal, with the segments that differ."""
    segments = [] if imp.by_segment is None else ["", _segments_text(imp.by_segment, imp.feature_names)]
    return "\n".join([of_importance(imp).text(shown), *segments])


def _segments_text(by: BySegment, names: Sequence[str]) -> str:
    """Where a segment differs from all other rows, at the level of the verdicts: the surest first."""
    q = by.difference.q_value
    surest = np.argsort(q, axis=None, kind="stable")[: (q <= LEVEL).sum()]
    found = segment, feature = np.unravel_index(surest, q.shape)
    title = f"{counted(len(by.labels), 'segment')}, {counted(len(surest), 'difference')} from the other rows"
    title += f" at q <= {LEVEL:g}"
    columns: dict[str, Any] = {"segment": [by.labels[s] for s in segment], "feature": [names[k] for k in feature]}
    columns |= {"score": by.statistics.score[found], "difference": by.difference.score[found]}
    columns |= {"std error": by.difference.std_error[found], "q value": q[found]}
    return Table(title=f"{title}:", columns=columns, order=np.arange(len(surest))).text() if len(surest) else title


def of_comparison(c: Comparison) -> Table:
    """Both losses and what they differ by, largest change first; the lines below add up to the rise of the loss."""
    sides, numbers = (c.before, c.after), (*c.names, "change")
    columns: dict[str, Any] = {"feature": c.feature_names, c.names[0]: c.before.scores, c.names[1]: c.after.scores}
    columns |= {"change": c.change.score, "std error": c.change.std_error}
    columns |= {name: part.score for name, part in (("moved", c.moved), ("changed", c.changed)) if part is not None}
    columns |= {"q value": c.change.q_value, "holds": _both_hold(c), "verdict": c.verdicts}
    starts = [math.nan if imp.losses is None else imp.losses.before for imp in sides]
    whole = {
        "(base)": (c.before.base, c.after.base, c.base),
        "(loss before the trees)": (*starts, c.harder),
        "(loss)": (c.loss_before, c.loss_after, c.loss_after - c.loss_before),
    }
    losses = zip((c.loss_before, c.loss_after), c.names, strict=True)
    rows = [f"{name}: {counted(imp.n_rows, 'row')}" for name, imp in zip(c.names, sides, strict=True)]
    rows[0] += "" if c.effective_rows is None else f" ({c.effective_rows:,.0f} when weighted)"
    return Table(
        title=f"{c.loss_name}: {', '.join(f'{short(loss, DIGITS)} {name}' for loss, name in losses)}",
        columns=columns, order=c.order, bars="change", interval=c.interval(0.95),
        below=[{"feature": name, **dict(zip(numbers, line, strict=True))} for name, line in whole.items()],
        about=[", ".join(rows), c.after.unit, f"verdicts at q <= {LEVEL:g}", *_codes(c.notes)],
    )  # fmt: skip


def _holds(imp: Importance) -> list[str]:
    """Holds with its standard error, "0.82 ± 0.10", of every feature; "" where it is not known well."""
    columns = imp.columns()
    pairs = zip(columns["holds"], columns["holds_std_error"], strict=True)
    return [f"{holds:.2f} ± {error:.2f}" if error < UNCLEAR else "" for holds, error in pairs]


def _both_hold(c: Comparison) -> list[str]:
    """Holds on both sides, "0.98 -> 0.10", of every feature; "?" where it is not known well."""
    sides = zip(_holds(c.signal_before), _holds(c.signal_after), strict=True)
    return [" -> ".join(text.split()[0] if text else "?" for text in pair) if any(pair) else "" for pair in sides]


def _codes(notes: Iterable[Note]) -> list[str]:
    """Codes of the notes, as parts of the last line."""
    codes = dict.fromkeys(note.code for note in notes)
    others = ", ".join(code for code in codes if code not in (UNCHECKED, "few_shares"))  # which is common
    unchecked = ["training rows: not checked"] if UNCHECKED in codes else []
    return [*unchecked, f"notes: {others}"] if others else unchecked


def of_selector(selector: Any) -> Table:
    """What a fitted TreeInnerSelector keeps, and why."""
    table, found = selector.table(), selector.importance_
    names = ("feature", "score", "std_error", "p_value", "q_value", "adds", "adds_q_value")
    columns = {name.replace("_", " "): table[name] for name in names if name in table}
    kept = ["kept" if yes else "dropped" for yes in table["kept"]]
    return Table(
        title=f"{kept.count('kept')} of {counted(len(kept), 'feature')} kept {selector.rule}",
        columns={**columns, "verdict": kept}, order=np.argsort(-table["score"], kind="stable"),
        interval=(table["ci_low"], table["ci_high"]), about=[counted(found.n_rows, "row"), found.unit],
    )  # fmt: skip


def of_attribution(a: Attribution, data: Any) -> Table:
    """Of one row what moves its prediction, of several the mean sizes."""
    (values, base), names, about = a.by_output, a.feature_names, [f"base value: {a.base_definition}"]
    if len(a) != 1:
        sizes = np.abs(values).sum(axis=2).mean(axis=0) if len(a) else np.zeros(len(names))
        what = "mean |value|" + ", summed over outputs" * (values.shape[2] > 1)
        columns, order = {"feature": names, what: sizes}, np.argsort(-sizes, kind="stable")
        return Table(title=repr(a), columns=columns, order=order, bars=what, about=about)
    margins = base[0] + values[0].sum(axis=0)
    output = int(margins.argmax())  # of several, the one with the largest margin
    parts, ends = values[0, :, output], {"(base value)": base[0, output], f"({a.unit})": margins[output]}
    shown = {} if data is None else {"value": [short(v) if isinstance(v, float) else str(v) for v in data[0].tolist()]}
    return Table(
        title=repr(a) + (f", {a.output_labels[output]}" if len(margins) > 1 else ""),
        columns={"feature": names, a.unit: parts, **shown}, order=np.argsort(-np.abs(parts), kind="stable"),
        below=[{"feature": name, a.unit: short(number)} for name, number in ends.items()], about=about, bars=a.unit,
        colours=[html.VERMILLION if part >= 0 else html.BLUE for part in parts],
    )  # fmt: skip


def of_folds(folds: FoldSpread) -> Table:
    """Scores and ranks of the features over the folds."""
    means, ranks = folds.scores.mean(axis=0), folds.ranks
    names = folds.feature_names or tuple(map(str, range(len(means))))
    columns = {"feature": names, "mean score": means, "std of folds": folds.std}
    columns["ranks"] = [f"{min(own)} to {max(own)}" for own in ranks.T]
    return Table(
        title=counted(len(folds.scores), "fold"), columns=columns, order=np.argsort(-means, kind="stable"),
        bars="mean score", interval=(folds.scores.min(axis=0), folds.scores.max(axis=0)), span="least to most",
        about=[f"agreement of two folds: rank correlation {folds.rank_stability:.2f}"],
    )  # fmt: skip


def model_html(model: Model) -> str:
    """What a model is, for notebooks."""
    kind = "averaged trees" if model.trees.averaged else f"boosted trees in {counted(model.n_rounds, 'round')}"
    lines = [
        ("library", model.library),
        ("loss", model.loss_needed if model.loss is None else model.loss.words),
        ("trees", f"{model.n_trees:,} {kind}, {counted(model.trees.n_nodes, 'node')}"),
        ("features", f"{model.n_features:,}{_some(model.feature_names)}"),
        ("outputs", f"{model.n_outputs:,}{_some(model.output_names)}"),
    ]
    return html.table(repr(model), ("", ""), lines)


def _some(names: Sequence[str] | None) -> str:
    """The first of some names, after a colon."""
    return f": {', '.join([*names[:5], *['...'] * (len(names) > 5)])}" if names else ""
