"""bar(): the ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.plots import _style as style
from treeinner.plots._data import check_kind
from treeinner.plots._labels import score_label
from treeinner.scores.result import Q_LIMIT, Importance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]


def bar(
    importance: Importance, *, total_gain: Any = None, top: int = 20, fdr: float = Q_LIMIT, ax: Axes | None = None
) -> Axes:
    """Scores per row with their intervals, best on top; features not told apart from noise in grey.

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
    fdr : float
        Features with a q value above it are grey.
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

    better = better_than_noise(importance, fdr)
    scores, low, high = importance.scores, importance.ci_low, importance.ci_high
    y = np.arange(shown)
    gain = _gain_of(importance, total_gain)
    gained = [] if gain is None else [_draw_gain(ax, gain, scores, first)]
    colors = np.where(better, style.BLUE, style.GREY)
    ax.barh(y, scores[first], height=0.5, color=colors[first], zorder=2)
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
    handles = _handles(importance, better[first], fdr, interval=bool(known.any()), gained=bool(gained)) + gained
    if handles:
        style.legend(ax, handles)
    return ax


def better_than_noise(importance: Importance, fdr: float) -> NDArray[np.bool_]:
    """Features whose score is positive and, where that was tested, has a q value of at most `fdr`."""
    # NaN, an unknown q value, is not above `fdr`.
    better: NDArray[np.bool_] = (importance.scores > 0) & ~(importance.q_values > fdr)
    return better


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


def _handles(
    importance: Importance, better: NDArray[np.bool_], fdr: float, *, interval: bool, gained: bool
) -> list[Any]:
    mpl = style.matplotlib()
    tested = bool(np.isfinite(importance.q_values).any())
    handles = []
    if better.any() and (tested or gained):
        words = f"better than noise (q ≤ {fdr:g})" if tested else importance.title
        handles.append(mpl.patches.Patch(color=style.BLUE, label=words))
    if not better.all():
        words = "not told apart from noise" if importance.tested else "not used"
        handles.append(mpl.patches.Patch(color=style.GREY, label=words))
    if interval:
        words = f"{importance.confidence:.0%} interval"
        handles.append(mpl.lines.Line2D([], [], color=style.text_color(), linewidth=1.3, label=words))
    return handles
