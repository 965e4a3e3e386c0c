"""change(), segments() and over_time(): why a loss changed, and where and when a feature behaves otherwise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import counted
from treeinner.score.compare import Comparison
from treeinner.score.result import LEVEL, Importance
from treeinner.show.plots import style
from treeinner.show.plots.scores import CONFIDENCE, LOOKS, draw_scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float = NDArray[np.float64]
PANEL_INCHES = (3.6, 2.6)
LABEL_POINTS = 72.0  # of a segment
MOST_LABELS = 16  # of a panel
WIDE = 4.0  # a band this many times as wide as the median one is cut: it must not set the scale
# Difference of a segment -> colour, whether the tile is filled, and hatch.
TILES = {
    "higher": (style.BLUE, True, ""),
    "lower": (style.VERMILLION, True, "////"),
    "unclear": (style.GREY, False, ""),
}


def change(comparison: Comparison, *, max_display: int = 10, ax: Axes | None = None, show: bool = False) -> Axes:
    """From one loss to the other, step by step: a waterfall. Steps to the right are a higher loss.

    First what belongs to no feature: "harder" is the rise of the loss before the first tree, "base" what the roots of
    the trees did. Then the features by size, each with its interval and verdict, and the others together. With
    `split_shift`, the upper hatched half of a step is from rows that moved, the lower solid half from rows that
    changed.

    Parameters
    ----------
    comparison : Comparison
        What `ti.compare` returned.
    max_display : int
        How many features have a step of their own.
    ax : Axes, optional
        Where to draw.
    show : bool
        Whether to show the figure, as shap's plots do.
    """
    style.check_kind(comparison, "Comparison", "change")
    steps = comparison.change.score
    shown, rest = style.more(len(steps), max_display)
    first, others = comparison.order[:shown], comparison.order[shown:]
    single = {"harder (before any tree)": comparison.harder, "base (roots of the trees)": comparison.base}
    own = slice(3, 3 + shown)  # rows of the features
    names = [comparison.names[0], *single, *[comparison.feature_names[k] for k in first]]
    names += [counted(rest, "other")] * bool(rest) + [comparison.names[1]]
    size = np.array([0.0, *single.values(), *steps[first], *[steps[others].sum()] * bool(rest), 0.0])
    states = ["", "", "", *[comparison.verdicts[k] for k in first], *[""] * bool(rest), ""]
    ax, _ = style.rows_for(ax, names, np.arange(len(names)), len(names))

    ends = comparison.loss_before + np.cumsum(size)
    starts, y, ink = ends - size, np.arange(len(names)), style.text_color()
    right = np.maximum(starts, ends)
    colors = [LOOKS[state][0] if state else style.GREY for state in states]
    split = np.isin(y, y[own]) & (comparison.moved is not None)
    ax.barh(y[~split], size[~split], left=starts[~split], height=0.6, color=np.array(colors)[~split], zorder=2)
    if comparison.moved is not None:
        moved, at = comparison.moved.score[first], y[split]
        look: dict[str, Any] = {"height": 0.3, "color": np.array(colors)[split], "zorder": 2}
        hatched = look | {"hatch": "/////", "edgecolor": ax.get_facecolor(), "linewidth": 0.0}
        right[own] = np.maximum(right[own], starts[own] + moved)
        ax.barh(at - 0.15, moved, left=starts[split], **hatched)
        ax.barh(at + 0.15, size[split] - moved, left=starts[split] + moved, **look)
    ax.vlines(ends[:-1], y[:-1], y[1:], color=ink, linewidth=0.8, zorder=1)
    interval = [side[first] + starts[own] for side in comparison.interval(CONFIDENCE)]
    right[own] = np.maximum(right[own], draw_scores(ax, ends[own], y[own], states[own], interval, " of a step"))
    ax.scatter(ends[[0, -1]], y[[0, -1]], s=36, marker="D", color=ink, zorder=4)
    losses = comparison.loss_before, comparison.loss_after
    texts = [style.number(losses[0]), *map(style.signed, size[1:-1]), style.number(losses[1])]
    ax.use_sticky_edges = False
    style.write_numbers(ax, right, texts)
    handles: list[Any] = []
    if comparison.moved is not None:
        patch, paper = style.matplotlib().patches.Patch, ax.get_facecolor()
        handles += [patch(facecolor=style.GREY, hatch="/////", edgecolor=paper, label="from rows that moved")]
        handles += [patch(color=style.GREY, label="from rows that changed")]
    return style.finish_rows(ax, _changed(comparison), f"{comparison.loss_name} per row", handles=handles, show=show)


def _changed(comparison: Comparison) -> str:
    """The finding: "log loss 0.66 to 2.09: x2 +1.04, x1 +0.39"."""
    start, end = style.number(comparison.loss_before), style.number(comparison.loss_after)
    steps, clear = comparison.change.score, [k for k in comparison.order if comparison.verdicts[k] != "unclear"]
    found = [(float(steps[k]), style.cut(comparison.feature_names[k])) for k in clear[:3]]
    most = max((abs(step) for step, _ in found), default=0.0)
    whole = [(comparison.harder, "harder"), (comparison.base, "base")]
    found = [(step, name) for step, name in whole if abs(step) > most] + found
    parts = [f"{name} {style.signed(step)}" for step, name in found]
    parts += [f"{len(clear) - 3} more"] * (len(clear) > 3) + ["no feature changed clearly"] * (not clear)
    return f"{comparison.loss_name} {start} to {end}: {', '.join(parts)}"


def segments(
    importance: Importance, *, max_display: int = 15, max_segments: int = 12, ax: Axes | None = None, show: bool = False
) -> Axes:
    """Where a feature's score differs from that in all other rows: the larger the square, the larger the difference.

    Parameters
    ----------
    importance : Importance
        What `ti.importance(..., by=...)` returned.
    max_display : int
        How many features to show: those with the largest differences.
    max_segments : int
        How many segments to show: of more, those with the largest differences.
    ax : Axes, optional
        Where to draw.
    show : bool
        Whether to show the figure, as shap's plots do.
    """
    parts, labels = _parts(importance, "segments")
    size, clear = parts.difference.score, parts.difference.q_value <= LEVEL
    weight = np.abs(size) * np.where(clear, 1.0, 1e-6)  # what is clear goes first
    across, hidden = style.more(len(size), max_segments)
    columns = np.sort(np.argsort(-weight.max(axis=1), kind="stable")[:across])
    order = np.argsort(-weight[columns].max(axis=0), kind="stable")
    width = 1.5 + 0.36 * across
    ax, first = style.rows_for(ax, importance.feature_names, order, max_display, width=width, below=0.8)

    tiles, known = (table[np.ix_(columns, first)] for table in (size, clear))
    largest = np.abs(tiles).max(initial=0.0) or 1.0
    sides = 0.9 * np.sqrt(np.abs(tiles) / largest).clip(0.15)  # the area: the difference
    kinds = {"higher": known & (tiles > 0), "lower": known & (tiles < 0), "unclear": ~known & (tiles != 0)}
    for word, here in kinds.items():
        (x, y), side, (color, filled, hatch) = np.nonzero(here), sides[here], TILES[word]
        inside, edge = (color, ax.get_facecolor()) if filled else ("none", color)
        if here.any():
            look: dict[str, Any] = {"facecolor": inside, "edgecolor": edge, "hatch": hatch, "label": word}
            ax.bar(x, side, side, y - side / 2, **look)
    short = style.shorten([labels[s] for s in columns], LABEL_POINTS, style.font_points())
    rows = [f"{label} ({parts.rows[s]:,})" for label, s in zip(short, columns, strict=True)]
    ax.set_xticks(range(across), rows, rotation=90, parse_math=False)
    ax.tick_params(axis="x", length=0)
    more = f"; {hidden:,} more are not shown" if hidden else ""
    label = f"segment (rows){more}: {importance.title}, against all other rows"
    return style.finish_rows(ax, _differs(importance, parts, labels), label, show=show)


def _differs(importance: Importance, parts: Any, labels: Sequence[str]) -> str:
    """The finding: "bmi scores 0.31 less in south; age 0.2 more in west"."""
    size = np.where(parts.difference.q_value <= LEVEL, parts.difference.score, 0.0)
    largest = np.argsort(-np.abs(size), axis=None, kind="stable")[:2]
    found = []
    for s, k in zip(*np.unravel_index(largest, size.shape), strict=True):
        if size[s, k]:
            name, word = style.cut(importance.feature_names[k]), "more" if size[s, k] > 0 else "less"
            found.append(f"{name} scores {style.number(abs(size[s, k]))} {word} in {style.cut(labels[s])}")
    return "; ".join(found) or f"No feature clearly differs between the {len(labels)} segments"


def over_time(
    importance: Importance, features: style.Features | None = None, *, max_display: int = 6, ax: Any = None,
    show: bool = False,
) -> Any:  # fmt: skip
    """Score of a feature in every segment, in their order, with a band of 95 %; the dashed line is that of all rows.

    Where the segment clearly differs from all others, the mark is filled. A band that is far wider than the others is
    cut, and a triangle says that it goes on. Weeks are called by their first day.

    Parameters
    ----------
    importance : Importance
        What `ti.importance(..., by="a column of dates", freq="M")` returned, or any other with segments.
    features : str or sequence, optional
        Names or positions of features; by default those that differ most between the segments.
    max_display : int
        How many of these.
    ax : Axes or array of Axes, optional
        Where to draw, one for each feature.
    show : bool
        Whether to show the figure, as shap's plots do.

    Returns
    -------
    array of Axes
        One for each feature; one Axes if one was given.
    """
    parts, labels = _parts(importance, "over_time")
    spread = np.abs(parts.difference.score) / np.maximum(parts.difference.std_error, 1e-300)
    chosen = style.choose(features, importance.feature_names, spread.max(axis=0), max_display)
    axes = style.panels(ax, len(chosen), 1, 3, PANEL_INCHES).reshape(-1)
    labels = style.shorten(labels, LABEL_POINTS, style.font_points())
    scores, (low, high), titles = parts.statistics.score, parts.statistics.interval(CONFIDENCE), []
    most = WIDE * np.sort(high - scores, axis=0)[(len(scores) - 1) // 2]
    cut = high - scores > most
    low, high = np.maximum(low, scores - most), np.minimum(high, scores + most)
    for one, k in zip(axes, chosen, strict=True):
        score, x = scores[:, k], np.arange(len(labels), dtype=float)
        clear = parts.difference.q_value[:, k] <= LEVEL
        known = np.isfinite(high[:, k])  # a band needs two beside each other
        look: dict[str, Any] = {"color": style.BLUE, "alpha": 0.3}
        interval = f"{CONFIDENCE:.0%} interval"
        one.fill_between(x, low[:, k], high[:, k], where=known, linewidth=0, label=interval, **look)
        one.vlines(x[known], low[known, k], high[known, k], linewidth=3, label="_band", **look)
        one.plot(x, score, color=style.BLUE, linewidth=1.8, label="score")
        one.axhline(importance.scores[k], color=style.text_color(), linewidth=1.0, linestyle="--", label="all rows")
        states = np.where(clear, "differs clearly from all other rows", "no clear difference").tolist()
        draw_scores(one, x, score, states, [])
        for end, marker in ((low, "v"), (high, "^")) if cut[:, k].any() else ():
            one.scatter(x[cut[:, k]], end[cut[:, k], k], marker=marker, color=style.BLUE, label="interval goes on")
        style.zero_line(one, "y")
        every = -(-len(x) // MOST_LABELS)
        one.set_xticks(x[::every], labels[::every], rotation=90, parse_math=False)
        one.set_ylabel(importance.title)
        titles.append(_when(style.cut(importance.feature_names[k]), score, clear, labels))
    style.figure_legend(axes)
    style.finish(axes, titles, style.arrange_ticks, show=show)
    return axes if ax is None or np.size(ax) > 1 else ax


def _when(name: str, score: Float, clear: NDArray[np.bool_], labels: Sequence[str]) -> str:
    """The finding of one panel: "bmi: 0.4 to 0.1; clearly different in 2024-05"."""
    where = [label for label, here in zip(labels, clear, strict=True) if here]
    words = f"differs clearly in {style.listed(where, 2)}" if where else "no clear difference"
    return f"{name}: {style.number(score[0])} to {style.number(score[-1])}; {words}"


def _parts(importance: Importance, plot: str) -> tuple[Any, list[str]]:
    """The segments of an importance, and what they are called."""
    style.check_kind(importance, "Importance", plot)
    parts = getattr(importance, "by_segment", None)
    if parts is None:
        raise ValueError(f"plots.{plot} draws segments; use ti.importance(model, X, y, by=...).")
    # Weeks are called by their first day.
    return parts, [re.sub(r"(?<=\d{4}-\d\d-\d\d)/\d{4}-\d\d-\d\d", "", str(label)) for label in parts.labels]
