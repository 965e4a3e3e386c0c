"""beeswarm(): the attributions of all rows, feature by feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.attribution import Attribution
from treeinner.plots import _style as style
from treeinner.plots._data import Column, check_kind, column, one_output, spread_rows
from treeinner.plots._labels import attribution_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]
BINS = 100


def beeswarm(
    attribution: Attribution,
    *,
    output: int | str | None = None,
    top: int = 20,
    max_rows: int = 5000,
    ax: Axes | None = None,
) -> Axes:
    """Attribution of every row as a dot, coloured by the value of the feature; largest mean `|attribution|` on top.

    Dots that would overlap are piled up. Missing values are grey, and so are categories, which have no low and high.

    Parameters
    ----------
    attribution : Attribution
        What `ti.attribute` returned.
    output : int or str, optional
        Class or target, if the model has several.
    top : int
        How many features to show; the others are counted.
    max_rows : int
        Of more rows, this many are drawn, evenly spread; the order of the features is that of all rows.
    ax : Axes, optional
        Where to draw.
    """
    check_kind(attribution, Attribution, "beeswarm")
    values, _, output_name = one_output(attribution, output)
    order = np.argsort(-np.abs(values).mean(axis=0), kind="stable")
    shown, rest = style.more(len(order), top)
    names = [attribution.feature_names[k] for k in order[:shown]]
    rows = spread_rows(len(values), max_rows)
    made = ax is None
    ax = style.axes_for(ax, names, height=style.rows_height(shown + bool(rest)) * 1.15, width=style.BODY_INCHES + 0.8)

    size = 14.0 if len(rows) <= 1000 else 6.0
    columns = [column(attribution, int(k), rows) for k in order[:shown]]
    for y, (k, shades) in enumerate(zip(order[:shown], columns, strict=True)):
        x = values[rows, k]
        dots: dict[str, Any] = {"s": size, "linewidths": 0, "rasterized": len(rows) > 1000, "zorder": 2}
        if shades is None:
            ax.scatter(x, y + _piled(x), color=style.BLUE, **dots)
            continue
        known = np.isfinite(shades.numbers) & (shades.categories is None)
        piled = y + _piled(x)
        ax.scatter(x[~known], piled[~known], color=style.GREY, **dots)
        ax.scatter(
            x[known], piled[known], c=_low_to_high(shades.numbers[known]), cmap=style.colormap(), vmin=0, vmax=1, **dots
        )
    style.zero_line(ax)
    style.label_rows(ax, names, made=made, rest=rest)
    sample = "" if len(rows) == len(values) else f"; {len(rows):,} of {len(values):,} rows"
    ax.set_xlabel(attribution_label(attribution, output_name) + sample)
    _explain_colors(ax, columns)
    return ax


def _piled(x: FloatArray) -> FloatArray:
    """Heights that pile up the points of each bin around 0, within +-0.4; crowded bins are denser."""
    low, high = (x.min(), x.max()) if len(x) else (0.0, 0.0)
    bins = np.zeros(len(x), np.intp)
    if high > low:
        bins = np.minimum((BINS * (x - low) / (high - low)).astype(np.intp), BINS - 1)
    order = np.argsort(bins, kind="stable")
    starts = np.searchsorted(bins[order], np.arange(BINS))
    place = np.empty(len(x), np.intp)
    place[order] = np.arange(len(x)) - starts[bins[order]]
    side = np.where(place % 2, 1, -1) * ((place + 1) // 2)
    crowd = max(int(np.abs(side).max(initial=0)), 4)
    heights: FloatArray = 0.4 * side / crowd
    return heights


def _low_to_high(numbers: FloatArray) -> FloatArray:
    """From 0 to 1 between the 5th and the 95th percentile, so that an outlier does not take all the colour."""
    if not len(numbers):
        return numbers
    low, high = np.percentile(numbers, [5, 95])
    if low == high:
        low, high = numbers.min(), numbers.max()
    if low == high:
        return np.full(len(numbers), 0.5)
    shades: FloatArray = np.clip((numbers - low) / (high - low), 0, 1)
    return shades


def _explain_colors(ax: Axes, columns: list[Column | None]) -> None:
    mpl = style.matplotlib()
    known = [c for c in columns if c is not None]
    if any(c.categories is None for c in known):
        shades = mpl.cm.ScalarMappable(mpl.colors.Normalize(0, 1), style.colormap())
        figure: Any = ax.get_figure()
        bar = figure.colorbar(shades, ax=ax, ticks=[0, 1], aspect=40, pad=0.02, fraction=0.05)
        bar.set_ticklabels(["low", "high"])
        bar.ax.tick_params(length=0)
        bar.set_label("value of the feature")
        bar.outline.set_visible(False)
    missing = any(np.isnan(c.numbers).any() for c in known)
    categories = any(c.categories is not None for c in known)
    if missing or categories:
        words = " or ".join(["missing"] * missing + ["category"] * categories)
        style.legend(ax, [style.dot_handle(style.GREY, words, markersize=4)])
