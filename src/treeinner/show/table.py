"""An Importance or a Comparison as a table: in a terminal, and in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from treeinner.errors import counted, short
from treeinner.score.result import LEVEL
from treeinner.show import html

if TYPE_CHECKING:
    from treeinner.score.compare import Comparison
    from treeinner.score.result import Importance

__all__ = ["SHOWN", "as_html", "as_text", "comparison_text", "holds_texts", "sums", "text_table"]

SHOWN = 20  # features
DIGITS = 3  # of a score
UNCHECKED = "training_rows_unchecked"  # code of a note
UNCLEAR = 0.5  # standard error of holds from which it is left blank
VERDICT_COLOURS = {"signal": html.BLUE, "unclear": html.GREY, "harmful": html.VERMILLION}


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
    """Table of both sides and the gap for a terminal, best feature of the second side first."""
    first, second = comparison.names
    order = comparison.after.order[:shown]
    columns = {
        "feature": [comparison.feature_names[k] for k in order],
        first: _numbers(comparison.before.scores[order]),
        second: _numbers(comparison.after.scores[order]),
        "gap": _numbers(comparison.gap.score[order]),
        "std error": _numbers(comparison.gap.std_error[order], 2),
        "q value": [f"{q:.2g}" for q in comparison.gap.q_value[order]],
    }
    lines = text_table(columns, left=("feature",))
    if len(order) < len(comparison.feature_names):
        lines.append(f"... and {len(comparison.feature_names) - len(order)} more")
    rows = f"{first}: {counted(comparison.before.n_rows, 'row')}, {second}: {counted(comparison.after.n_rows, 'row')}"
    last = f"{rows}; score: {comparison.after.unit}; gap: {first} - {second}, with its standard error and q value"
    return "\n".join(
        [f"{comparison.after.title}: {first} against {second}", *lines, last, *(f"note: {n}" for n in comparison.notes)]
    )


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
    codes = dict.fromkeys(note.code for note in imp.notes)
    if UNCHECKED in codes:
        parts.append("training rows: not checked")
    others = [code for code in codes if code != UNCHECKED]
    return "; ".join([*parts, *([f"notes: {', '.join(others)}"] if others else [])])


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
