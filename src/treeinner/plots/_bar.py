"""bar(): the ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.plots import _style as style
from treeinner.plots._data import check_kind
from treeinner.plots._labels import score_label
from treeinner.scores import Importance
from treeinner.scores.result import Q_LIMIT, VERDICTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]


def bar(importance: Importance, *, total_gain: Any = None, top: int = 20, ax: Axes | None = None) -> Axes:
    """Scores with their intervals, best on top; features not told apart from noise in grey, harmful ones in red.

    Parameters
    ----------
    importance : Importance
        What `ti.importance` returned.
    total_gain : Importance or array, optional
        Total gain of the same features (`Comparison.total_gain`), shown as pale bars with an axis of its own above
        the plot: gains are sums over the training rows, in another unit than the scores. The two zeros are at one
        place, and the largest gain is as long as the largest score, so compare the order, not the lengths.
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
    made = ax is None
    ax = style.axes_for(ax, names, height=style.rows_height(shown + bool(rest)))

    scores, low, high = importance.scores, importance.ci_low, importance.ci_high
    y = np.arange(shown)
    gain = _gain_of(importance, total_gain)
    gained = [] if gain is None else [_draw_gain(ax, gain, scores, first)]
    colors = verdict_colors(importance)[first]
    ax.barh(y, scores[first], height=0.5, color=colors, zorder=2)
    known = np.isfinite(low[first]) & np.isfinite(high[first]) & (high[first] > low[first])
    if known.any():
        k = first[known]
        ax.hlines(y[known], low[k], high[k], color=style.text_color(), linewidth=1.3, zorder=3, label="interval")
    style.zero_line(ax)
    if rest:
        total = style.typographic(f"together {scores[order[shown:]].sum():.3g}")
        beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": "small", "alpha": 0.75}
        ax.annotate(total, (0.0, shown), (4, 0), **beside)
    style.label_rows(ax, names, made=made, rest=rest)
    ax.set_xlabel(score_label(importance))
    handles = _handles(importance, set(colors), interval=bool(known.any()), gained=bool(gained)) + gained
    if handles:
        style.legend(ax, handles)
    return ax


def verdict_colors(importance: Importance) -> NDArray[np.str_]:
    """Colour of every feature by its verdict; where nothing was tested, blue for a positive score."""
    of_verdict = dict(zip(VERDICTS, (style.BLUE, style.GREY, style.VERMILLION), strict=True))
    untested = np.where(importance.scores > 0, style.BLUE, style.GREY).tolist()
    colors = [of_verdict.get(verdict, other) for verdict, other in zip(importance.verdicts, untested, strict=True)]
    return np.array(colors, np.str_)


def _gain_of(importance: Importance, total_gain: Any) -> FloatArray | None:
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


def _draw_gain(ax: Axes, gain: FloatArray, scores: FloatArray, first: NDArray[np.intp]) -> Any:
    """Pale bars of the gains, and their axis above the plot."""
    unit = (np.abs(scores).max(initial=0.0) or 1.0) / (np.abs(gain).max(initial=0.0) or 1.0)
    pale: dict[str, Any] = {"height": 0.84, "color": style.ORANGE, "alpha": 0.35, "zorder": 1}
    bars = ax.barh(np.arange(len(first)), gain[first] * unit, label="total gain (axis above)", **pale)
    above = ax.secondary_xaxis("top", functions=(lambda x: np.divide(x, unit), lambda g: np.multiply(g, unit)))
    above.set_xlabel("total gain of the training rows")
    return bars


def _handles(importance: Importance, colors: set[str], *, interval: bool, gained: bool) -> list[Any]:
    mpl = style.matplotlib()
    signal, noise, harmful = VERDICTS
    words = {style.BLUE: f"{signal} (q < {Q_LIMIT:g})", style.GREY: noise, style.VERMILLION: harmful}
    if not any(importance.verdicts):
        words = {style.BLUE: importance.title} if gained else {}
        words[style.GREY] = "0 or below" if importance.tested else "not used"
    handles = [mpl.patches.Patch(color=color, label=label) for color, label in words.items() if color in colors]
    if interval:
        label = f"{importance.confidence:.0%} interval"
        handles.append(mpl.lines.Line2D([], [], color=style.text_color(), linewidth=1.3, label=label))
    return handles
