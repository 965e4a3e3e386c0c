"""An Importance as a table: in a terminal, and in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treeinner import html
from treeinner.errors import counted, short

if TYPE_CHECKING:
    from treeinner.scores.result import Importance

SHOWN = 20  # features


def as_text(imp: Importance) -> str:
    """Table for a terminal."""
    width = max([7, *(len(imp.feature_names[k]) for k in imp.order[:SHOWN]), *map(len, sums(imp))])
    errors, tests, verdicts = imp.has_std_errors, imp.has_std_errors and imp.tested, imp.verdicts
    head = f"{'feature':<{width}} {'score':>11}"
    lines = [_heading(imp), head + f" {'std error':>11}" * errors + f" {'q value':>9}  verdict" * tests]
    for k in imp.order[:SHOWN]:
        line = f"{imp.feature_names[k]:<{width}} {short(imp.scores[k]):>11}"
        line += f" {short(imp.std_errors[k], 2):>11}" * errors
        lines.append(line + f" {imp.q_values[k]:9.2g}  {verdicts[k]}" * tests)
    if len(imp) > SHOWN:
        lines.append(f"... and {len(imp) - SHOWN} more")
    lines += [f"{name:<{width}} {short(number):>11}" for name, number in sums(imp).items()]
    return "\n".join([*lines, *(f"note: {note}" for note in imp.notes)])


def sums(imp: Importance) -> dict[str, float]:
    """Lines below the features of score="loss": base, and the fall of the loss, to which all lines add up."""
    if imp.score_name != "loss" or imp.losses is None or (imp.output_names and imp.outputs is None):
        return {}
    return {"(base)": imp.base, "(loss before - after)": imp.losses.before - imp.losses.after}


def _heading(imp: Importance) -> str:
    """What the table is of, on which rows, in which unit."""
    rows = f" on {counted(imp.n_rows, 'row')}" if imp.n_rows else ""
    return f"{imp.title}{rows}: {imp.unit}"


def as_html(imp: Importance, verdict_names: tuple[str, ...]) -> str:
    """Table with bars and intervals, for notebooks."""
    order, verdicts = imp.order[:SHOWN], imp.verdicts
    colours = dict(zip(verdict_names, (html.BLUE, html.GREY, html.VERMILLION), strict=True))
    ends = np.concatenate([imp.scores[order], imp.ci_low[order], imp.ci_high[order], [0.0]])
    ends = ends[np.isfinite(ends)]
    span = float(ends.min()), float(ends.max())
    rows = []
    for place, k in enumerate(order.tolist(), 1):
        score, low, high = float(imp.scores[k]), float(imp.ci_low[k]), float(imp.ci_high[k])
        colour = colours.get(verdicts[k], html.BLUE)
        interval = f"{short(low)} to {short(high)}" if low <= high else ""
        q = imp.q_values[k]
        rows.append(
            [str(place), imp.feature_names[k], html.bar(score, low, high, span=span, colour=colour),
             short(score), interval, "" if np.isnan(q) else f"{q:.2g}", verdicts[k]]
        )  # fmt: skip
    rows += [["", name, "", short(number), "", "", ""] for name, number in sums(imp).items()]
    header = ["", "feature", "", "score", f"{imp.confidence:.0%} interval", "q value", "verdict"]
    more = [f"... and {len(imp) - SHOWN} more features"] if len(imp) > SHOWN else []
    return html.table(_heading(imp), header, rows, "; ".join([*more, *imp.notes]))
