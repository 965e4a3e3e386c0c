"""rounds(), curve() and ranks(): lines with names at their ends, over boosting rounds or from one score to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import counted
from treeinner.score.result import Importance, ranks_of
from treeinner.show.plots import style
from treeinner.show.plots.scores import score_label, scores_by_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float = NDArray[np.float64]
LINES = ("-", "--", ":", "-.")
HATCHES = ("", "///", "...", "xxx")  # where there are more features than colours
LOST = 0.1  # of its best score: then a feature is past its best
SIDES = "; areas below the dashed line: taken off the loss; above: added to it"
Area = tuple[str, "Float", str, str]  # name, what it took off the loss until each round, colour, hatch


def rounds(
    importance: Importance, features: style.Features | None = None, *, max_display: int = 8, ax: Axes | None = None,
    show: bool = False,
) -> Axes:  # fmt: skip
    """Cumulative score by boosting round (of signal: TreeInner's), a line per feature; a dot marks its best round.

    Parameters
    ----------
    importance : Importance
        One that keeps scores by round (`Importance.by_round`).
    features : str or sequence, optional
        Names or positions of features; by default those whose curve goes farthest from zero, helpful or harmful.
    max_display : int
        How many of these.
    ax : Axes, optional
        Where to draw.
    show : bool
        Whether to show the figure, as shap's plots do.
    """
    style.check_kind(importance, "Importance", "rounds")
    curves = _until(importance.by_round())
    chosen = choose(importance, features, max_display, curves)
    names = [importance.feature_names[k] for k in chosen]
    ax = _axes(ax, names)

    colors = [style.PALETTE[i % len(style.PALETTE)] for i in range(len(chosen))]
    for i, k in enumerate(chosen):
        look = {"color": colors[i], "linestyle": LINES[i // len(style.PALETTE) % len(LINES)], "linewidth": 1.8}
        _draw_line(ax, curves[:, k], int(curves[:, k].argmax()), label=names[i], **look)
    style.zero_line(ax, "y")
    ax.set_xlabel("boosting round (dot: the best of a feature)")
    # Of the signal score they are TreeInner's.
    shown = replace(importance, score="tree_inner") if importance.score == "signal" else importance
    ax.set_ylabel("cumulative " + style.wrapped(score_label(shown), 0.8 * style.axes_points(ax)[1], 10))
    name_ends(ax, names, curves[-1, chosen], colors)
    best, last = curves[:, chosen].max(axis=0), curves[-1, chosen]
    lost = [names[i] for i in np.flatnonzero((best > 0) & (last < (1 - LOST) * best))]
    what = f"lost {LOST:.0%} or more of"
    title = style.said(lost or ["No feature shown"], f"{what} its best score", f"{what} their best score")
    return _finish(ax, title, show=show)


def curve(
    importance: Importance, features: style.Features | None = None, *, max_display: int = 6, ax: Axes | None = None,
    show: bool = False,
) -> Axes:  # fmt: skip
    """Loss by boosting round, on the rows scored, and how much of its way each feature made.

    Below the dashed line, where the loss was before the first tree, hangs what features took off the loss so far;
    above it stands what others added. The thick line, the loss, is as far below the dashed line as the first are higher
    than the second.

    Parameters
    ----------
    importance : Importance
        What `ti.importance(..., score="loss")` returned.
    features : str or sequence, optional
        Names or positions of features; by default those whose share goes farthest from zero, helpful or harmful. The
        others are drawn together, those that help apart from those that harm.
    max_display : int
        How many features are drawn by themselves.
    ax, show
        As for `rounds`.
    """
    style.check_kind(importance, "Importance", "curve")
    start, taken, base = _breakdown(importance)
    areas = _areas(importance, choose(importance, features, max_display, taken), taken, base)
    names = [name for name, *_ in areas]
    ax = _axes(ax, [*names, "loss"])

    x = np.arange(len(base))
    ends = []
    below, above = np.full(len(x), start), np.full(len(x), start)
    for name, own, color, hatch in areas:
        lower, upper = below - np.maximum(own, 0.0), above - np.minimum(own, 0.0)
        look: dict[str, Any] = {"facecolor": color, "hatch": hatch, "edgecolor": ax.get_facecolor(), "linewidth": 0.4}
        ax.fill_between(x, below, lower, label=name, **look)
        ax.fill_between(x, above, upper, **look)
        ends.append(float((below + lower)[-1] / 2 if own[-1] >= 0 else (above + upper)[-1] / 2))
        below, above = lower, upper
    loss = start - taken.sum(axis=1) - base
    ax.axhline(start, color=style.text_color(), linewidth=1.0, linestyle="--")
    lowest = int(loss.argmin())
    _draw_line(ax, loss, lowest, color=style.text_color(), linewidth=2.2, label="loss")
    ax.set_xlabel(f"boosting round (dot: the lowest loss){SIDES}")
    ax.set_ylabel(f"{importance.loss_name} per row")
    colors = [*[color for *_, color, _ in areas], style.text_color()]
    names, heights = [*names, "loss"], np.array([*ends, loss[-1]])
    order = np.argsort(-heights, kind="stable")
    name_ends(ax, [names[i] for i in order], heights[order], [colors[i] for i in order])
    largest = np.argsort(-np.abs(taken[-1]), kind="stable")[:2]
    parts = [f"{style.cut(importance.feature_names[k])} {style.signed(-taken[-1, k])}" for k in largest]
    lowest_words = f"; lowest at round {lowest}" if 0 < lowest < len(loss) - 1 else ""
    fall = f"{importance.loss_name} {style.number(start)} to {style.number(loss[-1])}"
    return _finish(ax, f"{fall}: {', '.join(parts)}{lowest_words}", show=show)


def _axes(ax: Axes | None, names: Sequence[str]) -> Axes:
    """Axes for lines that end at these names."""
    return style.axes_for(ax, names, height=max(4.0, style.rows_height(len(names)) - 0.2), width=5.6)


def _until(steps: Float) -> Float:
    """Sums of the first 0, 1, ... rounds."""
    sums: Float = np.concatenate([np.zeros_like(steps[:1]), steps]).cumsum(axis=0)
    return sums


def _draw_line(ax: Axes, y: Float, best: int, **look: Any) -> None:
    """A line over the rounds, with a dot at the best."""
    ax.plot(y, marker="o", markersize=5, markevery=[best], clip_on=False, **look)
    ax.set_xlim(0, max(len(y) - 1, 1))
    ax.xaxis.set_major_locator(style.matplotlib().ticker.MaxNLocator(integer=True, nbins=5))


def _areas(importance: Importance, chosen: list[int], taken: Float, base: Float) -> list[Area]:
    """Features to be drawn, the others together, and the roots of the trees."""
    n = len(style.PALETTE)
    areas: list[Area] = [
        (importance.feature_names[k], taken[:, k], style.PALETTE[i % n], HATCHES[i // n % len(HATCHES)])
        for i, k in enumerate(chosen)
    ]
    others = np.delete(taken, chosen, axis=1)
    # The two sides apart: what harms must not hide behind what helps.
    for side, words, hatch in ((1.0, "helpful", ""), (-1.0, "harmful", "xxx")):
        part = side * np.maximum(side * others, 0.0)
        if part.any():
            count = int(np.count_nonzero(part[-1]))
            areas.append((f"{counted(count, 'other')}, {words}", part.sum(axis=1), style.GREY, hatch))
    return [*areas, ("base (roots of the trees)", base, style.GREY, "...")]


def _breakdown(importance: Importance) -> tuple[float, Float, Float]:
    """Loss before the first tree, and what features and roots took off it until each round: (rounds + 1, ...)."""
    if importance.score != "loss":
        raise ValueError(
            f"plots.curve draws score='loss', got score={importance.score!r}; use "
            "ti.importance(model, X, y, score='loss')."
        )
    by_round, losses = importance.by_round(), importance.losses
    assert losses is not None
    assert losses.base_rounds is not None
    taken, base = _until(by_round), _until(losses.base_rounds)
    left = losses.before - losses.after - taken[-1].sum() - base[-1]
    if abs(left) > 1e-6 * max(abs(losses.before), abs(losses.after)):
        raise ValueError("plots.curve needs every feature; pass the importance itself, not its top().")
    return losses.before, taken, base


def ranks(columns: Sequence[Importance], *, max_display: int = 15, ax: Axes | None = None, show: bool = False) -> Axes:
    """Ranks by several scores, such as total gain and signal, a line per feature: what sinks, and what rises.

    Parameters
    ----------
    columns : sequence of Importance
        Two or more, of the same features.
    max_display : int
        How many features to show: those with the best rank in any column. Worse ranks are drawn in one last row.
    ax, show
        As for `rounds`.
    """
    if not isinstance(columns, list | tuple) or len(columns) < 2:
        raise ValueError("plots.ranks compares two or more importances; pass a list of them.")
    for one in columns:
        style.check_kind(one, "Importance", "ranks")
    names = columns[-1].feature_names
    table = np.array([ranks_of(scores_by_name(one, names, one.title)) for one in columns])
    shown, rest = style.more(len(names), max_display)
    chosen = np.argsort(table.min(axis=0) + table[-1] / (len(names) + 1), kind="stable")[:shown]
    chosen = chosen[np.argsort(table[-1, chosen], kind="stable")]
    drawn = np.minimum(table, shown + 1.0)
    labels = [names[k] for k in chosen]
    ax = style.axes_for(ax, labels, height=style.rows_height(shown + bool(rest)), width=1.2 + 1.1 * len(columns))

    moved = (table[-1] - table[0])[chosen]
    far = max(1, min(np.abs(moved).max(initial=0), max(2, np.abs(moved).max(initial=0) // 3)))
    colors = np.where(moved >= far, style.VERMILLION, np.where(moved <= -far, style.BLUE, style.GREY)).tolist()
    looks = {style.VERMILLION: ("--", 2.2), style.BLUE: ("-", 2.2), style.GREY: ("-", 1.2)}
    for k, color in zip(chosen, colors, strict=True):
        dashes, width = looks[color]
        ax.plot(drawn[:, k], color=color, linestyle=dashes, linewidth=width, marker="o", markersize=5, label=names[k])
    ticks = [1, *range(5, shown + 1, 5)]
    ax.set_yticks([*ticks, *[shown + 1] * bool(rest)], [*map(str, ticks), *[f"> {shown}"] * bool(rest)])
    ax.set_ylim(shown + 0.5 + bool(rest), 0.5)
    ax.set_xlim(-0.1, len(columns) - 0.9)
    wide = style.axes_points(ax)[0] > 200
    slant: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if wide else {"rotation": 90}
    ax.set_xticks(range(len(columns)), [title_of(one) for one in columns], **slant)
    ax.set_xlabel("thick: rises; dashed: sinks; thin: moves little")
    ax.set_ylabel("rank")
    ax.spines["bottom"].set_visible(False)
    name_ends(ax, labels, drawn[-1, chosen], colors)
    parts = [
        f"{style.cut(labels[i])} {verb} from {table[0, chosen[i]]} to {table[-1, chosen[i]]}"
        for i, verb, far in ((moved.argmax(), "sinks", moved.max()), (moved.argmin(), "rises", -moved.min()))
        if far > 0
    ]
    title = f"From {title_of(columns[0])} to {title_of(columns[-1])}, {' and '.join(parts) or 'no rank changes'}"
    return _finish(ax, title, show=show)


def title_of(importance: Importance) -> str:
    """A score as people call it."""
    words = {"total_gain": "total gain", "permutation": "permutation", "signal": "signal"}
    shap = (importance.score, importance.method) == ("mean_abs", "treeshap")
    return "mean |SHAP|" if shap else words.get(importance.score, importance.title)


def choose(importance: Importance, features: style.Features | None, max_display: int, curves: Float) -> list[int]:
    """Positions of the features to show, best at the end first."""
    chosen = style.choose(features, importance.feature_names, np.abs(curves).max(axis=0), max_display)
    return sorted(chosen, key=lambda k: -curves[-1, k])


def name_ends(ax: Axes, names: Sequence[str], ends: Float, colors: Sequence[str]) -> None:
    """Names at the ends of their lines, from the first on top; `arrange_ends` moves them apart."""
    labels = style.short_names(ax, names)
    ax.set_ylim(ax.get_ylim())  # or the names would move the limits
    beside: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "textcoords": ax.get_yaxis_transform()}
    for label, end, color in zip(labels, ends, colors, strict=True):
        arrow = {"arrowstyle": "-", "color": color, "linewidth": 0.8, "shrinkB": 0.0, "relpos": (0.0, 0.5)}
        look: dict[str, Any] = {"arrowprops": arrow, "annotation_clip": False, "va": "center"}
        style.plain(ax.annotate(label, (1.0, end), (1.05, end), **beside, **look))


def arrange_ends(ax: Axes) -> None:
    """Move the names apart, with a font for the height there is."""
    style.arrange_ticks(ax)
    size = style.font_for(ax, len(ax.texts))
    first, last = ax.get_ylim()
    step = style.LINE * size / style.axes_points(ax)[1]
    wanted = np.array([(text.xy[1] - first) / (last - first) for text in ax.texts])  # type: ignore[attr-defined]
    for text, place in zip(ax.texts, _apart(wanted, step), strict=True):
        text.set_fontsize(size)
        text.set_y(first + place * (last - first))


def _apart(places: Float, step: float) -> Float:
    """Falling numbers, moved until neighbours differ by `step`, inside 0 to 1 if there is room."""
    steps = step * np.arange(len(places))
    flat = places + steps  # is to fall
    flat = (np.minimum.accumulate(flat) + np.maximum.accumulate(flat[::-1])[::-1]) / 2
    result: Float = np.clip(flat, steps.max(initial=0.0) + step / 2, 1 - step / 2) - steps
    return result


def _finish(ax: Axes, title: str, *, show: bool) -> Axes:
    """Write the title, and move the names apart."""
    return style.finish([ax], [title], arrange_ends, show=show)
