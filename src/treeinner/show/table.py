"""An Importance or a Comparison as a table: in a terminal, and in a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from treeinner.errors import Note, counted, short
from treeinner.score.result import LEVEL
from treeinner.show import html

if TYPE_CHECKING:
    from treeinner.score.compare import Comparison
    from treeinner.score.result import Importance

__all__ = ["SHOWN", "as_html", "as_text", "comparison_html", "comparison_text", "holds_texts", "sums", "text_table"]

SHOWN = 20  # features
DIGITS = 3  # of a score
UNCHECKED = "training_rows_unchecked"  # code of a note
UNCLEAR = 0.5  # standard error of holds from which it is left blank
VERDICT_COLOURS = {
    "signal": html.BLUE, "better": html.BLUE, "unclear": html.GREY,
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
    return "\n".join([imp.title, *lines, about(imp)])


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
    order, (lows, highs) = c.order[:SHOWN], c.interval(0.95)
    ends = np.concatenate([c.change.score[order], lows[order], highs[order], [0.0]])
    span = float(ends[np.isfinite(ends)].min()), float(ends[np.isfinite(ends)].max())
    rows: list[list[html.Cell]] = []
    for k in order.tolist():
        change, low, high = (float(each[k]) for each in (c.change.score, lows, highs))
        bar = html.bar(change, low, high, span=span, colour=VERDICT_COLOURS[c.verdicts[k]])
        pair = _numbers((c.before.scores[k], c.after.scores[k]))
        rows.append([c.feature_names[k], *pair, bar, *_numbers([change]), f"{c.change.q_value[k]:.2g}", _held(c)[k],
                     c.verdicts[k]])  # fmt: skip
    rows += [[name, *_numbers(pair), "", *_numbers([rise]), "", "", ""] for name, (*pair, rise) in _whole(c).items()]
    header = ["feature", *c.names, "", "change", "q value", "holds", "verdict"]
    more = [f"... and {len(c.feature_names) - SHOWN} more features"] if len(c.feature_names) > SHOWN else []
    return html.table(_headline(c), header, rows, "; ".join([*more, _about_change(c)]))


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
    order, verdicts = imp.order[:SHOWN], imp.verdicts
    holds = {"holds": holds_texts(imp)} if imp.holds is not None else {}
    lows, highs = imp.interval(0.95)
    ends = np.concatenate([imp.scores[order], lows[order], highs[order], [0.0]])
    ends = ends[np.isfinite(ends)]
    span = float(ends.min()), float(ends.max())
    rows: list[list[html.Cell]] = []
    for place, k in enumerate(order.tolist(), 1):
        score, low, high = float(imp.scores[k]), float(lows[k]), float(highs[k])
        colour = VERDICT_COLOURS.get(verdicts[k], html.BLUE)
        interval = f"{short(low, DIGITS)} to {short(high, DIGITS)}" if low <= high else ""
        q = imp.q_values[k]
        rows.append(
            [str(place), imp.feature_names[k], html.bar(score, low, high, span=span, colour=colour),
             short(score, DIGITS), interval, "" if np.isnan(q) else f"{q:.2g}", *(texts[k] for texts in holds.values()),
             verdicts[k]]
        )  # fmt: skip
    rows += [["", name, "", short(number, DIGITS), "", "", ""] for name, number in sums(imp).items()]
    header = ["", "feature", "", "score", "95% interval", "q value", *holds, "verdict"]
    more = [f"... and {len(imp) - SHOWN} more features"] if len(imp) > SHOWN else []
    return html.table(imp.title, header, rows, "; ".join([*more, about(imp)]))
