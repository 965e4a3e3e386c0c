"""An Importance or a Comparison as a table: in a terminal, and in a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treeinner.errors import Note, counted, short
from treeinner.score.result import LEVEL
from treeinner.show import html

if TYPE_CHECKING:
    from treeinner.explain.attribute import Attribution
    from treeinner.read import Model
    from treeinner.score.compare import Comparison
    from treeinner.score.result import FoldSpread, Importance

__all__ = [
    "SHOWN", "as_html", "as_text", "attribution_html", "comparison_html", "comparison_text", "folds_html",
    "holds_texts", "model_html", "selector_html", "sums", "text_table",
]  # fmt: skip

SHOWN = 20  # features
DIGITS = 3  # of a score
UNCHECKED = "training_rows_unchecked"  # code of a note
UNCLEAR = 0.5  # standard error of holds from which it is left blank
VERDICT_COLOURS = {
    "signal": html.BLUE, "better": html.BLUE, "kept": html.BLUE, "unclear": html.GREY, "dropped": html.GREY,
    "harmful": html.VERMILLION, "worse": html.VERMILLION,
}  # fmt: skip


def as_text(imp: Importance, shown: int | None = SHOWN) -> str:
    """Table for a terminal; shown: how many features, None for all."""
    order = imp.order[:shown]
    columns: dict[str, Sequence[str]] = {
        "feature": [*(imp.feature_names[k] for k in order), *sums(imp)],
        "score": [*_numbers(imp.scores[order]), *_numbers(sums(imp).values())],
    }
    if imp.has_errors:
        columns["std error"] = _numbers(imp.std_errors[order], 2)
    if imp.tested:
        columns["q value"] = [f"{q:.2g}" for q in imp.q_values[order]]
        if imp.holds is not None:
            columns["holds"] = [holds_texts(imp)[k] for k in order]
        columns["verdict"] = [imp.verdicts[k] for k in order]
    lines = text_table(columns, left=("feature", "verdict"))
    if len(order) < len(imp):
        lines.insert(1 + len(order), f"... and {len(imp) - len(order)} more")
    return "\n".join([imp.title, *lines, about(imp), *_segment_lines(imp)])


def _segment_lines(imp: Importance) -> list[str]:
    """Where a segment differs from all other rows, at the level of the verdicts: the surest first."""
    by = imp.by_segment
    if by is None:
        return []
    q = by.difference.q_value
    found = np.stack(np.unravel_index(np.argsort(q, axis=None, kind="stable"), q.shape), axis=1)[: (q <= LEVEL).sum()]
    differences = counted(len(found), "difference")
    said = f"{counted(len(by.labels), 'segment')}, {differences} from the other rows at q <= {LEVEL:g}"
    if not len(found):
        return ["", said]
    first = [tuple(cell) for cell in found[:SHOWN].tolist()]
    numbers = {"score": by.statistics.score, "difference": by.difference.score, "std error": by.difference.std_error}
    columns: dict[str, Sequence[str]] = {
        "segment": [by.labels[s] for s, _ in first],
        "feature": [imp.feature_names[k] for _, k in first],
        **{name: _numbers([values[cell] for cell in first]) for name, values in numbers.items()},
        "q value": [f"{q[cell]:.2g}" for cell in first],
    }
    more = [f"... and {len(found) - len(first)} more"] if len(found) > len(first) else []
    return ["", f"{said}:", *text_table(columns, left=("segment", "feature")), *more]


def comparison_text(comparison: Comparison, shown: int | None = SHOWN) -> str:
    """Table of both losses and what they differ by for a terminal, largest change first."""
    c, order = comparison, comparison.order[:shown]
    below = _whole(c)
    columns: dict[str, Sequence[str]] = {"feature": [*(c.feature_names[k] for k in order), *below]}
    sides = zip((*c.names, "change"), (c.before.scores, c.after.scores, c.change.score), strict=True)
    for place, (name, scores) in enumerate(sides):
        columns[name] = _numbers([*scores[order], *(numbers[place] for numbers in below.values())])
    columns["std error"] = _numbers(c.change.std_error[order], 2)
    for name, part in (("moved", c.moved), ("changed", c.changed)):
        columns |= {} if part is None else {name: _numbers(part.score[order])}
    columns["q value"] = [f"{q:.2g}" for q in c.change.q_value[order]]
    columns["holds"] = [_held(c)[k] for k in order]
    columns["verdict"] = [c.verdicts[k] for k in order]
    lines = text_table(columns, left=("feature", "verdict"))
    if len(order) < len(c.feature_names):
        lines.insert(1 + len(order), f"... and {len(c.feature_names) - len(order)} more")
    return "\n".join([_headline(c), *lines, _about_change(c)])


def _headline(c: Comparison) -> str:
    """The two losses: "half the squared error: 0.58 before, 1.6 after"."""
    values = zip(_numbers((c.loss_before, c.loss_after)), c.names, strict=True)
    return f"{c.loss_name}: {', '.join(f'{value} {name}' for value, name in values)}"


def _whole(c: Comparison) -> dict[str, tuple[float, float, float]]:
    """Lines below the features, as (before, after, rise): with the changes they add up to the rise of the loss."""
    starts = [math.nan if imp.losses is None else imp.losses.before for imp in (c.before, c.after)]
    return {
        "(base)": (c.before.base, c.after.base, c.base),
        "(loss before the trees)": (starts[0], starts[1], c.harder),
        "(loss)": (c.loss_before, c.loss_after, c.loss_after - c.loss_before),
    }


def _held(c: Comparison) -> list[str]:
    """Holds on both sides, "0.98 -> 0.10", of every feature; "?" where it is not known well."""
    sides = [
        [text.split()[0] if text else "?" for text in holds_texts(imp)] for imp in (c.signal_before, c.signal_after)
    ]
    return ["" if a == b == "?" else f"{a} -> {b}" for a, b in zip(*sides, strict=True)]


def _about_change(c: Comparison) -> str:
    """One line about a comparison: rows, unit, level of the verdicts, and the codes of the notes."""
    rows = [f"{name}: {counted(imp.n_rows, 'row')}" for name, imp in zip(c.names, (c.before, c.after), strict=True)]
    if c.effective_rows is not None:
        rows[0] += f" ({c.effective_rows:,.0f} when weighted)"
    return "; ".join([", ".join(rows), c.after.unit, f"verdicts at q <= {LEVEL:g}", *_codes(c.notes)])


def comparison_html(c: Comparison) -> str:
    """Table with bars and intervals of the change, for notebooks."""
    sides = {name: _numbers(imp.scores) for name, imp in zip(c.names, (c.before, c.after), strict=True)}
    columns = {"q value": _tests(c.change.q_value), **sides, "holds": _held(c), "verdict": c.verdicts}
    below = {}
    for name, (*pair, rise) in _whole(c).items():
        below[name] = {**dict(zip(c.names, _numbers(pair), strict=True)), "change": short(rise, DIGITS)}
    return _bars(
        _headline(c), c.feature_names, c.order, c.change.score, c.interval(0.95), columns, "change",
        below=below, footer=_about_change(c),
    )  # fmt: skip


def text_table(columns: Mapping[str, Sequence[str]], left: Sequence[str] = ()) -> list[str]:
    """Lines of a table; short columns end in blanks. left: columns that hold text, the others are right-aligned."""
    n = max(map(len, columns.values()))
    lines = [""] * (n + 1)
    for name, cells in columns.items():
        texts = [name, *map(printable, cells), *[""] * (n - len(cells))]
        width = max(map(len, texts))
        lines = [
            line + (f"{text:<{width}}" if name in left else f"{text:>{width}}") + "  "
            for line, text in zip(lines, texts, strict=True)
        ]
    return [line.rstrip() for line in lines]


def printable(text: str) -> str:
    """Escape what would move the cursor: names come from files of others."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _numbers(values: Iterable[float], digits: int = DIGITS) -> list[str]:
    """Numbers with so many significant digits."""
    return [short(number, digits) for number in values]


def holds_texts(imp: Importance) -> list[str]:
    """Holds with its standard error, "0.82 ± 0.10", of every feature; "" where it is not known well, or not at all."""
    columns = imp.columns()
    pairs = zip(columns["holds"], columns["holds_std_error"], strict=True)
    return [f"{holds:.2f} ± {error:.2f}" if error < UNCLEAR else "" for holds, error in pairs]


def sums(imp: Importance) -> dict[str, float]:
    """Lines below the features of score="loss": base, and the fall of the loss, to which all lines add up."""
    if imp.score != "loss" or imp.losses is None:
        return {}
    return {"(base)": imp.base, "(loss before - after)": imp.losses.before - imp.losses.after}


def about(imp: Importance) -> str:
    """One line about the scores: rows, unit with the loss, level of the verdicts, and the codes of the notes."""
    parts = [counted(imp.n_rows, "row")] if imp.n_rows else []
    parts += [imp.unit, *([f"verdicts at q <= {LEVEL:g}"] if imp.tested else [])]
    return "; ".join([*parts, *_codes(imp.notes)])


def _codes(notes: Iterable[Note]) -> list[str]:
    """Codes of the notes, as parts of the last line."""
    codes = dict.fromkeys(note.code for note in notes)
    others = [code for code in codes if code != UNCHECKED]
    unchecked = ["training rows: not checked"] if UNCHECKED in codes else []
    return [*unchecked, *([f"notes: {', '.join(others)}"] if others else [])]


def as_html(imp: Importance) -> str:
    """Table with bars and intervals, for notebooks."""
    columns: dict[str, Sequence[str]] = {"std error": _numbers(imp.std_errors, 2)} if imp.has_errors else {}
    columns |= {"q value": _tests(imp.q_values)} if imp.tested else {}
    columns |= {"holds": holds_texts(imp)} if imp.holds is not None and imp.has_errors else {}
    columns |= {"verdict": imp.verdicts} if imp.tested else {}
    below = {name: {"score": short(number, DIGITS)} for name, number in sums(imp).items()}
    interval = imp.interval(0.95) if imp.has_errors else None
    return _bars(imp.title, imp.feature_names, imp.order, imp.scores, interval, columns, below=below, footer=about(imp))


def selector_html(selector: Any) -> str:
    """Table of a fitted TreeInnerSelector, for notebooks: what is kept, and why."""
    table, found = selector.table(), selector.importance_
    kept = ["kept" if yes else "dropped" for yes in table["kept"]]
    columns = {"p value": _tests(table["p_value"]), "q value": _tests(table["q_value"])}
    columns |= {"adds": _numbers(table["adds"]), "q of adds": _tests(table["adds_q_value"])} if "adds" in table else {}
    title = f"{kept.count('kept')} of {counted(len(kept), 'feature')} kept {selector.rule}"
    order, interval = np.argsort(-table["score"], kind="stable"), (table["ci_low"], table["ci_high"])
    return _bars(
        title, table["feature"].tolist(), order, table["score"], interval, {**columns, "verdict": kept},
        footer=f"{counted(found.n_rows, 'row')}; {found.unit}",
    )  # fmt: skip


def attribution_html(a: Attribution, data: Any) -> str:
    """Table with bars, for notebooks: of one row what moves its prediction, of several the mean sizes."""
    (values, base), names, footer = a.by_output, a.feature_names, f"base value: {a.base_definition}"
    if len(a) != 1:
        sizes = np.abs(values).sum(axis=2).mean(axis=0) if len(a) else np.zeros(len(names))
        order = np.argsort(-sizes, kind="stable")
        what = "mean |value|" + ", summed over outputs" * (values.shape[2] > 1)
        return _bars(repr(a), names, order, sizes, None, {}, what, footer=footer)
    margins = base[0] + values[0].sum(axis=0)
    output = int(margins.argmax())  # of several, the one with the largest margin
    parts, title = values[0, :, output], repr(a) + (f", {a.output_labels[output]}" if len(margins) > 1 else "")
    shown = {} if data is None else {"value": [short(v) if isinstance(v, float) else str(v) for v in data[0].tolist()]}
    below = {"(base value)": {a.unit: short(base[0, output])}, f"({a.unit})": {a.unit: short(margins[output])}}
    colours = [html.VERMILLION if part >= 0 else html.BLUE for part in parts]
    order = np.argsort(-np.abs(parts), kind="stable")
    return _bars(title, names, order, parts, None, shown, a.unit, below=below, footer=footer, colours=colours)


def model_html(model: Model, title: str = "", **more: object) -> str:
    """What a model is, for notebooks; more: lines of one's own."""
    kind = "averaged trees" if model.trees.averaged else f"boosted trees in {counted(model.n_rounds, 'round')}"
    counts = {"features": (model.n_features, model.feature_names), "outputs": (model.n_outputs, model.output_names)}
    lines = {
        "library": model.library,
        "loss": model.loss_needed if model.loss is None else model.loss.words,
        "trees": f"{model.n_trees:,} {kind}, {counted(model.trees.n_nodes, 'node')}",
        **{what: f"{n:,}" + _some(names) for what, (n, names) in counts.items()},
    }
    return html.facts(title or repr(model), lines | more)


def _some(names: Sequence[str] | None) -> str:
    """The first of some names, after a colon."""
    return f": {', '.join([*names[:5], *['...'] * (len(names) > 5)])}" if names else ""


def folds_html(folds: FoldSpread) -> str:
    """Scores and ranks of the features over the folds, for notebooks."""
    means, ranks = folds.scores.mean(axis=0), folds.ranks
    names = folds.feature_names or tuple(map(str, range(len(means))))
    columns = {
        "std of folds": _numbers(folds.std, 2),
        "ranks": [f"{low} to {high}" for low, high in zip(ranks.min(axis=0), ranks.max(axis=0), strict=True)],
    }
    ends, order = (folds.scores.min(axis=0), folds.scores.max(axis=0)), np.argsort(-means, kind="stable")
    return _bars(
        counted(len(folds.scores), "fold"), names, order, means, ends, columns, "mean score",
        footer=f"agreement of two folds: rank correlation {folds.rank_stability:.2f}", span="least to most",
    )  # fmt: skip


def _tests(values: Iterable[float]) -> list[str]:
    """Texts of p or q values; "" where nothing was tested."""
    return ["" if math.isnan(value) else f"{value:.2g}" for value in values]


def _bars(
    title: str, names: Sequence[str], order: Any, scores: Any, interval: tuple[Any, Any] | None,
    columns: Mapping[str, Sequence[str]], what: str = "score", *, below: Mapping[str, Mapping[str, str]] | None = None,
    footer: str, span: str = "95% interval", colours: Sequence[str] | None = None,
) -> str:  # fmt: skip
    """Ranked HTML table: the first features of an order, bars with intervals, the scores, and columns of their own.

    below: lines that belong to no feature, as texts by column. colours: of the bars; by default those of the verdicts.
    """
    colours = colours or [VERDICT_COLOURS.get(each, html.BLUE) for each in columns.get("verdict", [""] * len(names))]
    shown, nothing = order[:SHOWN].tolist(), np.full(len(names), math.nan)
    lows, highs = interval or (nothing, nothing)
    ends = np.concatenate([[0.0], *(np.asarray(each)[shown] for each in (scores, lows, highs))])
    axis = float(ends[np.isfinite(ends)].min()), float(ends[np.isfinite(ends)].max())
    each = zip(np.asarray(scores).tolist(), lows.tolist(), highs.tolist(), colours, strict=True)
    cells: dict[str, Sequence[html.Cell]] = {
        "feature": names,
        "": [html.bar(score, low, high, span=axis, colour=colour) for score, low, high, colour in each],
        what: _numbers(scores),
    }
    if interval is not None:
        pairs = zip(_numbers(lows), _numbers(highs), strict=True)
        cells[span] = [f"{low} to {high}" for low, high in pairs]
    cells |= columns
    rows = [[column[k] for column in cells.values()] for k in shown]
    last = [[{"feature": name, **line}.get(column, "") for column in cells] for name, line in (below or {}).items()]
    more = [f"... and {len(names) - SHOWN} more features"] if len(names) > SHOWN else []
    return html.table(title, list(cells), rows, "; ".join([*more, footer]), below=last)
