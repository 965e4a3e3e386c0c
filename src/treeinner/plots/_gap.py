"""gap(): training against held-out rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treeinner.plots import _style as style
from treeinner.plots._bar import verdict_colors
from treeinner.plots._data import check_kind
from treeinner.plots._labels import score_label
from treeinner.scores import Comparison
from treeinner.scores.result import VERDICTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def gap(comparison: Comparison, *, top: int = 20, ax: Axes | None = None) -> Axes:
    """Score on the training rows (ring) and on held-out rows (dot with its interval), best held-out on top.

    A feature that falls from its ring to zero was overfitted. The colour is the verdict on the held-out rows.

    Parameters
    ----------
    comparison : Comparison
        What `ti.compare` returned.
    top : int
        How many features to show: those with the largest score on either side.
    ax : Axes, optional
        Where to draw.
    """
    check_kind(comparison, Comparison, "gap")
    train, valid = comparison.train["tree_inner"], comparison.valid["tree_inner"]
    a, b = train.scores, valid.scores
    shown, rest = style.more(len(b), top)
    largest = np.argsort(-np.maximum(np.abs(a), np.abs(b)), kind="stable")[:shown]
    first = largest[np.argsort(-b[largest], kind="stable")]
    names = [comparison.feature_names[k] for k in first]
    made = ax is None
    ax = style.axes_for(ax, names, height=style.rows_height(shown + bool(rest)))

    y = np.arange(shown)
    colors = verdict_colors(valid)[first]
    ax.hlines(y, np.minimum(a, b)[first], np.maximum(a, b)[first], color=colors, linewidth=6, alpha=0.3, zorder=1)
    low, high = valid.ci_low, valid.ci_high
    known = np.isfinite(low[first]) & np.isfinite(high[first])
    ax.hlines(y[known], low[first[known]], high[first[known]], color=style.text_color(), linewidth=1.2, zorder=2)
    ax.scatter(a[first], y, s=42, facecolors=ax.get_facecolor(), edgecolors=style.VERMILLION, linewidths=1.6, zorder=3)
    ax.scatter(b[first], y, s=42, color=colors, zorder=4)
    style.zero_line(ax)
    style.label_rows(ax, names, made=made, rest=rest)
    ax.set_xlabel(score_label(valid))
    _legend(ax, set(colors), valid.confidence)
    return ax


def _legend(ax: Axes, colors: set[str], confidence: float) -> None:
    line = style.matplotlib().lines.Line2D
    ring = {"marker": "o", "linestyle": "", "markerfacecolor": ax.get_facecolor(), "markeredgewidth": 1.6}
    handles = [line([], [], label="training rows", markeredgecolor=style.VERMILLION, **ring)]
    dot = {"marker": "o", "linestyle": "-", "linewidth": 1.2}
    before = f"held-out rows, {confidence:.0%} interval: "
    for color, verdict in zip((style.BLUE, style.GREY, style.VERMILLION), VERDICTS, strict=True):
        if color in colors:
            handles.append(line([], [], color=color, label=before + verdict, **dot))
            before = "the same, "
    style.legend(ax, handles)
