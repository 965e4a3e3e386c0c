"""bar(), gap() and rounds(): scores of the features, held-out, against training, and by boosting round."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import did_you_mean
from treeinner.score.compare import Comparison
from treeinner.score.result import LEVEL, Importance
from treeinner.show.plots import style
from treeinner.show.table import VERDICT_COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float = NDArray[np.float64]
# What each kind of result is in words, and what draws it.
KINDS = {
    "Importance": ("an Importance (from ti.importance)", "bar, rounds or curve of ti.plots"),
    "Comparison": ("a Comparison (from ti.compare)", "gap of ti.plots"),
    "Attribution": ("an Attribution (from ti.attribute)", "shap.plots with attribution.to_shap()"),
}
KEPT_WORDS = {style.BLUE: "kept", style.GREY: "not kept"}
LINES = ("-", "--", ":", "-.")
CONFIDENCE = 0.95  # of the intervals


def bar(
    importance: Importance, *, total_gain: Any = None, kept: Any = None, top: int = 20, ax: Axes | None = None
) -> Axes:
    """Scores with their intervals, best on top; those that are unclear in grey, harmful ones in red.

    Parameters
    ----------
    importance : Importance
        What `ti.importance` returned.
    total_gain : Importance or array, optional
        Total gain of the same features (`ti.total_gain(model)`), shown as pale bars with an axis of its own above
        the plot: gains are sums over the training rows, in another unit than the scores. The two zeros are at one
        place, and the largest gain is as long as the largest score, so compare the order, not the lengths.
    kept : array of bool, optional
        Which features a selection keeps (`TreeInnerSelector.support_`): these in blue, the others in grey, whatever
        their verdict.
    top : int
        How many features to show; the others are counted.
    ax : Axes, optional
        Where to draw.
    """
    check_kind(importance, Importance, "bar")
    order = importance.order
    shown, rest = style.more(len(order), top)
    first = order[:shown]
    names = [importance.feature_names[k] for k in first]
    ax, made = style.axes_for(ax, names, height=style.rows_height(shown + bool(rest)))

    scores = importance.scores
    gain = _gain_of(importance, total_gain)
    gained = [] if gain is None else [_draw_gain(ax, gain, scores, first)]
    colors = (verdict_colors(importance) if kept is None else _kept_colors(importance, kept))[first]
    ax.barh(np.arange(shown), scores[first], height=0.5, color=colors, zorder=2)
    interval = _draw_intervals(ax, importance, first, zorder=3)
    style.zero_line(ax)
    if rest:
        total = style.typographic(f"together {scores[order[shown:]].sum():.3g}")
        beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": "small", "alpha": 0.75}
        ax.annotate(total, (0.0, shown), (4, 0), **beside)
    style.label_rows(ax, names, made=made, rest=rest)
    ax.set_xlabel(score_label(importance))
    words = _words(importance, gained=bool(gained)) if kept is None else KEPT_WORDS
    handles = _handles(words, set(colors), interval=interval) + gained
    if handles:
        style.legend(ax, handles)
    return ax


def verdict_colors(importance: Importance) -> NDArray[np.str_]:
    """Colour of every feature by its verdict; where nothing was tested, blue for a positive score."""
    untested = np.where(importance.scores > 0, style.BLUE, style.GREY).tolist()
    colors = [VERDICT_COLOURS.get(verdict, other) for verdict, other in zip(importance.verdicts, untested, strict=True)]
    return np.array(colors, np.str_)


def _kept_colors(importance: Importance, kept: Any) -> NDArray[np.str_]:
    """Colour of every feature by whether it is kept."""
    mask = np.asarray(kept)
    if mask.dtype != bool or mask.shape != importance.scores.shape:
        raise ValueError(
            f"kept: expected True or False for each of the {len(importance.scores)} features, got an array of "
            f"{mask.dtype} of shape {mask.shape}; pass selector.support_."
        )
    return np.where(mask, style.BLUE, style.GREY)


def _draw_intervals(ax: Axes, importance: Importance, first: NDArray[np.intp], *, zorder: int) -> bool:
    """Lines over the rows whose interval is known; whether there are any."""
    low, high = (ends[first] for ends in importance.interval(CONFIDENCE))
    y = np.flatnonzero(np.isfinite(low) & np.isfinite(high) & (high > low))
    if len(y):
        ax.hlines(y, low[y], high[y], color=style.text_color(), linewidth=1.3, zorder=zorder, label="interval")
    return len(y) > 0


def _gain_of(importance: Importance, total_gain: Any) -> Float | None:
    """Total gain of the same features in their order; None: not asked for."""
    if total_gain is None:
        return None
    if isinstance(total_gain, Importance):
        position = {name: i for i, name in enumerate(total_gain.feature_names)}
        lost = [name for name in importance.feature_names if name not in position]
        if lost:
            raise ValueError(
                f"total_gain has no feature {lost[0]!r}; pass the gains of the same model and feature groups."
            )
        return total_gain.scores[[position[name] for name in importance.feature_names]]
    gain = np.asarray(total_gain, np.float64)
    if gain.shape != importance.scores.shape:
        raise ValueError(
            f"total_gain has shape {gain.shape}, but there are {len(importance.scores)} features; pass an Importance, "
            "or one number per feature in the order of importance.feature_names."
        )
    return gain


def _draw_gain(ax: Axes, gain: Float, scores: Float, first: NDArray[np.intp]) -> Any:
    """Pale bars of the gains, and their axis above the plot."""
    unit = (np.abs(scores).max(initial=0.0) or 1.0) / (np.abs(gain).max(initial=0.0) or 1.0)
    pale: dict[str, Any] = {"height": 0.84, "color": style.ORANGE, "alpha": 0.35, "zorder": 1}
    bars = ax.barh(np.arange(len(first)), gain[first] * unit, label="total gain (axis above)", **pale)
    above = ax.secondary_xaxis("top", functions=(lambda x: np.divide(x, unit), lambda g: np.multiply(g, unit)))
    above.set_xlabel("total gain of the training rows")
    return bars


def _words(importance: Importance, *, gained: bool) -> dict[str, str]:
    """What each colour says."""
    words = {color: verdict for verdict, color in VERDICT_COLOURS.items()}
    words[style.BLUE] += f" (q <= {LEVEL:g})"
    if not importance.tested:
        words = {style.BLUE: importance.title} if gained else {}
        words[style.GREY] = "0 or below"
    return words


def _handles(words: dict[str, str], colors: set[str], *, interval: bool) -> list[Any]:
    """Legend of the colours that occur, and of the intervals."""
    mpl = style.matplotlib()
    handles = [mpl.patches.Patch(color=color, label=label) for color, label in words.items() if color in colors]
    if interval:
        label = f"{CONFIDENCE:.0%} interval"
        handles.append(mpl.lines.Line2D([], [], color=style.text_color(), linewidth=1.3, label=label))
    return handles


def gap(comparison: Comparison, *, top: int = 20, ax: Axes | None = None) -> Axes:
    """Score on the first rows (ring) and on the second (dot with its interval), best of the second on top.

    With training rows first, a feature that falls from its ring to zero was overfitted. The colour is the verdict on
    the second rows.

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
    after = comparison.after
    a, b = comparison.before.scores, after.scores
    shown, rest = style.more(len(b), top)
    largest = np.argsort(-np.maximum(np.abs(a), np.abs(b)), kind="stable")[:shown]
    first = largest[np.argsort(-b[largest], kind="stable")]
    names = [comparison.feature_names[k] for k in first]
    ax, made = style.axes_for(ax, names, height=style.rows_height(shown + bool(rest)))

    y = np.arange(shown)
    colors = verdict_colors(after)[first]
    ax.hlines(y, np.minimum(a, b)[first], np.maximum(a, b)[first], color=colors, linewidth=6, alpha=0.3, zorder=1)
    _draw_intervals(ax, after, first, zorder=2)
    ax.scatter(a[first], y, s=42, facecolors=ax.get_facecolor(), edgecolors=style.VERMILLION, linewidths=1.6, zorder=3)
    ax.scatter(b[first], y, s=42, color=colors, zorder=4)
    style.zero_line(ax)
    style.label_rows(ax, names, made=made, rest=rest)
    ax.set_xlabel(score_label(after))
    _legend(ax, set(colors), comparison.names)
    return ax


def _legend(ax: Axes, colors: set[str], names: tuple[str, str]) -> None:
    """Ring of the first side, dots of the second by verdict."""
    line = style.matplotlib().lines.Line2D
    ring = {"marker": "o", "linestyle": "", "markerfacecolor": ax.get_facecolor(), "markeredgewidth": 1.6}
    handles = [line([], [], label=names[0], markeredgecolor=style.VERMILLION, **ring)]
    dot = {"marker": "o", "linestyle": "-", "linewidth": 1.2}
    before = f"{names[1]}, {CONFIDENCE:.0%} interval: "
    for verdict, color in VERDICT_COLOURS.items():
        if color in colors:
            handles.append(line([], [], color=color, label=before + verdict, **dot))
            before = "the same, "
    style.legend(ax, handles)


def rounds(importance: Importance, features: int | Sequence[str | int] = 8, *, ax: Axes | None = None) -> Axes:
    """Cumulative score by boosting round (of signal: TreeInner's), a line per feature; a dot marks its best round.

    Parameters
    ----------
    importance : Importance
        One that keeps scores by round (`Importance.by_round`).
    features : int or sequence
        Names or positions of features, or how many: those whose curve goes farthest from zero, helpful or harmful.
    ax : Axes, optional
        Where to draw.
    """
    check_kind(importance, Importance, "rounds")
    by_round = importance.by_round()
    curves = np.concatenate([np.zeros((1, by_round.shape[1])), np.cumsum(by_round, axis=0)])
    chosen = choose(importance, features, curves)
    names = [importance.feature_names[k] for k in chosen]
    ax, made = style.axes_for(ax, names, height=max(3.8, 0.8 + style.rows_height(len(chosen)) - 1), width=5.6)

    x = np.arange(len(curves))
    colors = [style.OKABE_ITO[i % len(style.OKABE_ITO)] for i in range(len(chosen))]
    dotted = False
    for i, k in enumerate(chosen):
        dashes = LINES[i // len(style.OKABE_ITO) % len(LINES)]
        ax.plot(x, curves[:, k], color=colors[i], linestyle=dashes, linewidth=1.8, label=names[i])
        best = int(curves[:, k].argmax())
        if 0 < best < len(x) - 1:
            ax.plot([best], [curves[best, k]], "o", color=colors[i], markersize=5)
            dotted = True
    style.zero_line(ax, "y")
    ax.set_xlim(0, len(x) - 1)
    ax.xaxis.set_major_locator(style.matplotlib().ticker.MaxNLocator(integer=True))
    ax.set_xlabel("boosting round" + " (dot: the best of a feature)" * dotted)
    # Of the signal score they are TreeInner's.
    shown = replace(importance, score="tree_inner") if importance.score == "signal" else importance
    ax.set_ylabel("cumulative " + score_label(shown, 44))
    ax.spines[["top", "right"]].set_visible(False)
    name_ends(ax, names, curves[-1, chosen], colors, made=made)
    return ax


def choose(importance: Importance, features: int | Sequence[str | int], curves: Float) -> list[int]:
    """Positions of the features to show, best at the end first."""
    names = importance.feature_names
    if isinstance(features, int):
        shown, _ = style.more(len(names), features)
        chosen = np.argsort(-np.abs(curves).max(axis=0), kind="stable")[:shown].tolist()
    else:
        asked = [features] if isinstance(features, str) else list(features)
        chosen = [position_of(feature, names) for feature in asked]
    return sorted(chosen, key=lambda k: -curves[-1, k])


def name_ends(ax: Axes, names: Sequence[str], ends: Float, colors: Sequence[str], *, made: bool) -> None:
    """Names at the ends of their lines, moved apart where they would overlap; `ends` is falling."""
    width, height = style.axes_points(ax)
    size = style.font_points()
    if not made:
        size = max(style.SMALLEST_FONT, min(size, height / len(names) / style.LINE))
    labels = style.shorten(names, style.LABEL_INCHES * 72 if made else style.OTHERS_LABELS * width, size)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high)  # or the names would move the limits
    step = style.LINE * size / height * (high - low)
    places = _apart(ends, step, low + step / 2, high - step / 2)
    beside: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "clip_on": False}
    for label, end, place, color in zip(labels, ends, places, colors, strict=True):
        ax.plot([1.0, 1.03], [end, place], color=color, linewidth=0.8, **beside)
        style.plain(ax.text(1.04, place, label, color=color, fontsize=size, va="center", **beside))


def _apart(places: Float, step: float, low: float, high: float) -> Float:
    """Falling numbers, moved as little as makes neighbours differ by `step`, inside the limits if there is room."""
    # Pool adjacent violators: blocks of touching labels, each centred on the mean of what it wants.
    blocks: list[tuple[float, int]] = []
    for i, place in enumerate(places.tolist()):
        mean, count = place + i * step, 1
        while blocks and blocks[-1][0] < mean:
            other, others = blocks.pop()
            mean, count = (mean * count + other * others) / (count + others), count + others
        blocks.append((mean, count))
    stacked = np.concatenate([np.full(count, mean) for mean, count in blocks])
    index = np.arange(len(places))
    result: Float = np.minimum(np.maximum(stacked, low + index[-1] * step), high) - index * step
    return result


def check_kind(given: Any, kind: type, plot: str) -> None:
    """Raise a TypeError that says what the plot draws, and what draws what was given."""
    if not isinstance(given, kind):
        name = type(given).__name__
        got, plots = KINDS.get(name, (f"an object of type {name}", ""))
        advice = f"; to draw that, use {plots}" if plots else ""
        raise TypeError(f"ti.plots.{plot} expected {KINDS[kind.__name__][0]}, got {got}{advice}.")


def position_of(feature: str | int, names: Sequence[str]) -> int:
    """Position of a feature given by name or position."""
    if isinstance(feature, str):
        if feature not in names:
            some = f"; there are {', '.join(map(repr, names[:5]))}, ..."
            raise ValueError(f"{feature!r} is not a feature{did_you_mean(feature, names, some)}")
        return list(names).index(feature)
    if not -len(names) <= feature < len(names):
        raise ValueError(f"feature {feature} does not exist; there are {len(names)}, counted from 0.")
    return range(len(names))[feature]


def score_label(importance: Importance, width: int = 56) -> str:
    """Label of an axis of scores: what they are called, and their unit on lines of at most so many characters."""
    title = importance.title
    if importance.output_names is not None and importance.outputs is None:
        title = f"output {importance.output_names[0]}, {title}"
    return f"{title}\n{textwrap.fill(importance.unit, width)}"
