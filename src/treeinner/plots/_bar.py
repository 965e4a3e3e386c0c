"""bar(): the ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.plots import _style as style
from treeinner.plots._units import score_label, score_name
from treeinner.scores import Importance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bar", "better_than_noise"]

FloatArray = NDArray[np.float64]


def bar(
    importance: Importance,
    *,
    total_gain: Any = None,
    top: int = 20,
    per_row: bool = True,
    fdr: float = 0.05,
    ax: Axes | None = None,
) -> Axes:
    """Scores with their intervals, best on top; features not better than noise in grey.

    Parameters
    ----------
    importance : Importance
        What `ti.importance` returned.
    total_gain : Importance or array, optional
        Total gain of the same features (`Comparison.total_gain`), shown faintly behind the scores. Both are on one
        scale of shares: a bar is as long as its share of the sum of all positive ones.
    top : int
        How many features to show; the others are counted.
    per_row : bool
        Score per row; else its sum over the rows.
    fdr : float
        Features with a q value above it are grey.
    ax : Axes, optional
        Where to draw.
    """
    order = importance.order
    shown, rest = style.more(len(order), top)
    first = order[:shown]
    names = [importance.feature_names[k] for k in first]
    per_row = per_row and importance.n_rows > 0
    scale = 1.0 / importance.sum_of_weights if per_row else 1.0
    made = ax is None
    ax = style.axes_for(ax, names, height=style.rows_height(shown + bool(rest)))

    better = better_than_noise(importance, fdr)
    scores, y = importance.scores * scale, np.arange(shown)
    handles: list[Any] = []
    gain = _gain_of(importance, total_gain)
    if gain is not None:
        handles.append(_draw_gain(ax, gain, scores, first))
    colors = np.where(better, style.BLUE, style.GREY)
    ax.barh(y, scores[first], height=0.5, color=colors[first], zorder=2)
    low, high = importance.ci_low * scale, importance.ci_high * scale
    known = np.isfinite(low[first]) & np.isfinite(high[first]) & (high[first] > low[first])
    if known.any():
        k = first[known]
        ax.hlines(y[known], low[k], high[k], color=style.text_color(), linewidth=1.3, zorder=3, label="interval")
    style.zero_line(ax)
    if rest:
        _sum_of_rest(ax, scores[order[shown:]].sum(), shown)
    style.label_rows(ax, names, made=made, rest=rest)
    ax.set_xlabel(score_label(importance, per_row=per_row))
    handles = _handles(importance, better[first], fdr, interval=bool(known.any()), gained=gain is not None) + handles
    if handles:
        style.legend(ax, handles)
    return ax


def better_than_noise(importance: Importance, fdr: float) -> NDArray[np.bool_]:
    """Features whose score is positive and, where that was tested, has a q value of at most `fdr`."""
    # An unknown q value (NaN) condemns nobody.
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
                f"total_gain does not know feature {lost[0]!r}; pass the gains of the same model and groups."
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
    """Gains as faint bars, so scaled that the same length is the same share; and the shares above the plot."""
    whole = scores[scores > 0].sum()
    shared = whole > 0
    if not shared:  # no share of nothing; then the gains fill the plot
        whole = np.abs(scores).max(initial=0.0) or 1.0
    sum_of_gains = gain[gain > 0].sum() or 1.0
    bars = ax.barh(
        np.arange(len(first)), gain[first] / sum_of_gains * whole, height=0.84, color=style.ORANGE, alpha=0.35, zorder=1
    )
    bars.set_label("total gain, on the same scale of shares" if shared else "total gain, on a scale of its own")
    if not shared:
        return bars
    shares = ax.secondary_xaxis("top", functions=(lambda x: x / whole * 100, lambda s: s * whole / 100))
    shares.set_xlabel("share of the whole (%)")
    return bars


def _sum_of_rest(ax: Axes, total: float, y: int) -> None:
    ax.annotate(
        style.typographic(f"together {total:.3g}"),
        (0.0, y),
        (4, 0),
        textcoords="offset points",
        va="center",
        fontsize="small",
        alpha=0.75,
    )


def _handles(
    importance: Importance, better: NDArray[np.bool_], fdr: float, *, interval: bool, gained: bool
) -> list[Any]:
    mpl = style.matplotlib()
    tested = bool(np.isfinite(importance.q_values).any())
    handles = []
    if better.any():
        words = f"better than noise (q ≤ {fdr:g})" if tested else score_name(importance)
        if tested or gained:
            handles.append(mpl.patches.Patch(color=style.BLUE, label=words))
    if not better.all():
        words = "not better than noise" if importance.tested else "not used"
        handles.append(mpl.patches.Patch(color=style.GREY, label=words))
    if interval:
        level = f"{importance.statistics.confidence:.0%} interval"
        handles.append(mpl.lines.Line2D([], [], color=style.text_color(), linewidth=1.3, label=level))
    return handles
