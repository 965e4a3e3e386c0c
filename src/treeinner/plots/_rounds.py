"""rounds(): where in the training a feature earns its score, and where it starts to hurt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.plots import _style as style
from treeinner.plots._data import check_kind, position_of
from treeinner.plots._labels import score_label
from treeinner.scores import Importance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]
LINES = ("-", "--", ":", "-.")


def rounds(importance: Importance, features: int | Sequence[str | int] = 8, *, ax: Axes | None = None) -> Axes:
    """Cumulative score by boosting round, a line per feature; a dot marks its best round.

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
    chosen = _choose(importance, features, curves)
    names = [importance.feature_names[k] for k in chosen]
    made = ax is None
    ax = style.axes_for(ax, names, height=max(3.8, 0.8 + style.rows_height(len(chosen)) - 1), width=5.6)

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
    ax.set_ylabel("cumulative " + score_label(importance).replace(": ", "\n"))
    ax.spines[["top", "right"]].set_visible(False)
    _name_ends(ax, names, curves[-1, chosen], colors, made=made)
    return ax


def _choose(importance: Importance, features: int | Sequence[str | int], curves: FloatArray) -> list[int]:
    """Positions of the features to show, best at the end first."""
    names = importance.feature_names
    if isinstance(features, int):
        shown, _ = style.more(len(names), features)
        chosen = np.argsort(-np.abs(curves).max(axis=0), kind="stable")[:shown].tolist()
    else:
        asked = [features] if isinstance(features, str) else list(features)
        chosen = [position_of(feature, names) for feature in asked]
    return sorted(chosen, key=lambda k: -curves[-1, k])


def _name_ends(ax: Axes, names: Sequence[str], ends: FloatArray, colors: Sequence[str], *, made: bool) -> None:
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


def _apart(places: FloatArray, step: float, low: float, high: float) -> FloatArray:
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
    result: FloatArray = np.minimum(np.maximum(stacked, low + index[-1] * step), high) - index * step
    return result
