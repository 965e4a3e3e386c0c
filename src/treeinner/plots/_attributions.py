"""beeswarm(), dependence() and waterfall(): attributions of all rows, of one feature, of one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treeinner.attribution import Attribution
from treeinner.errors import DataError
from treeinner.plots import _style as style
from treeinner.plots._data import (
    Column,
    FloatArray,
    attribution_label,
    column,
    one_output,
    position_of,
    spread_rows,
)
from treeinner.scores.result import METHOD_TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 100
MOST_COLORS = len(style.OKABE_ITO)
MOST_CATEGORIES = 30  # that get a name on the axis
LONGEST_VALUE = 24  # characters of a category that are shown
MANY_ROWS = 1000  # of more, dots are small and kept as pixels


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
    values, _, output_name = one_output(attribution, output, "beeswarm")
    order = np.argsort(-np.abs(values).mean(axis=0), kind="stable")
    shown, rest = style.more(len(order), top)
    names = [attribution.feature_names[k] for k in order[:shown]]
    rows = spread_rows(len(values), max_rows)
    height = style.rows_height(shown + bool(rest)) * 1.15
    ax, made = style.axes_for(ax, names, height=height, width=style.BODY_INCHES + 0.8)

    dots = _dots(len(rows), 14.0, 6.0) | {"zorder": 2}
    columns = [column(attribution, int(k), rows) for k in order[:shown]]
    for y, (k, shades) in enumerate(zip(order[:shown], columns, strict=True)):
        x = values[rows, k]
        piled = y + _piled(x)
        if shades is None:
            ax.scatter(x, piled, color=style.BLUE, **dots)
            continue
        known = np.isfinite(shades.numbers) & (shades.categories is None)
        ax.scatter(x[~known], piled[~known], color=style.GREY, **dots)
        shade = _low_to_high(shades.numbers[known])
        ax.scatter(x[known], piled[known], c=shade, cmap=style.colormap(), vmin=0, vmax=1, **dots)
    style.zero_line(ax)
    style.label_rows(ax, names, made=made, rest=rest)
    sample = "" if len(rows) == len(values) else f"; {len(rows):,} of {len(values):,} rows"
    ax.set_xlabel(attribution_label(attribution, output_name) + sample)
    _explain_colors(ax, columns)
    return ax


def _dots(n_rows: int, size: float, small: float) -> dict[str, Any]:
    many = n_rows > MANY_ROWS
    return {"s": small if many else size, "linewidths": 0, "rasterized": many}


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
    return np.asarray(0.4 * side / crowd)


def _low_to_high(numbers: FloatArray) -> FloatArray:
    """From 0 to 1 between the 5th and the 95th percentile, so that an outlier does not take all the colour."""
    if not len(numbers):
        return numbers
    low, high = np.percentile(numbers, [5, 95])
    if low == high:
        low, high = numbers.min(), numbers.max()
    if low == high:
        return np.full(len(numbers), 0.5)
    return np.asarray(np.clip((numbers - low) / (high - low), 0, 1))


def _explain_colors(ax: Axes, columns: list[Column | None]) -> None:
    mpl = style.matplotlib()
    known = [c for c in columns if c is not None]
    if any(c.categories is None for c in known):
        shades = mpl.cm.ScalarMappable(mpl.colors.Normalize(0, 1), style.colormap())
        bar = _colorbar(ax, shades, "value of the feature", ticks=[0, 1], aspect=40, fraction=0.05)
        bar.set_ticklabels(["low", "high"])
        bar.ax.tick_params(length=0)
    missing = any(np.isnan(c.numbers).any() for c in known)
    categories = any(c.categories is not None for c in known)
    if missing or categories:
        words = " or ".join(["missing"] * missing + ["category"] * categories)
        style.legend(ax, [style.dot_handle(style.GREY, words, markersize=4)])


def _colorbar(ax: Axes, shades: Any, label: str, **options: Any) -> Any:
    figure: Any = ax.get_figure()
    bar = figure.colorbar(shades, ax=ax, pad=0.02, **options)
    bar.outline.set_visible(False)
    style.plain(bar.ax.yaxis.label)
    bar.set_label(label)
    return bar


def dependence(
    attribution: Attribution,
    feature: str | int,
    color: str | int | None = None,
    *,
    output: int | str | None = None,
    max_rows: int = 5000,
    ax: Axes | None = None,
) -> Axes:
    """Attribution of one feature against its value, a dot per row; rows where it is missing stand apart, in grey.

    Parameters
    ----------
    attribution : Attribution
        What `ti.attribute` returned.
    feature : str or int
        The feature, by name or position.
    color : str or int, optional
        Another feature whose value colours the dots.
    output : int or str, optional
        Class or target, if the model has several.
    max_rows : int
        Of more rows, this many are drawn, evenly spread.
    ax : Axes, optional
        Where to draw.
    """
    values, _, output_name = one_output(attribution, output, "dependence")
    names = attribution.feature_names
    k = position_of(feature, names)
    rows = spread_rows(len(values), max_rows)
    x = column(attribution, k, rows)
    if x is None:
        raise DataError("This attribution holds no data, because its features are grouped; attribute without groups.")
    ax, made = style.axes_for(ax, height=3.8, width=5.6 + (0.9 if color is not None else 0.0))
    places = _places(ax, x, made=made)
    y = values[rows, k]
    dots = _dots(len(rows), 18.0, 7.0) | {"alpha": 0.85}
    if color is None:
        ax.scatter(places, y, c=np.where(np.isnan(x.numbers), style.GREY, style.BLUE), **dots)
    else:
        shades = column(attribution, c := position_of(color, names), rows)
        assert shades is not None
        _color_by(ax, places, y, shades, names[c], dots)
    style.zero_line(ax, "y")
    label = style.shorten([names[k]], style.axes_points(ax)[0], style.font_points("axes.labelsize"))[0]
    style.plain(ax.set_xlabel(label))
    style.plain(ax.set_ylabel(attribution_label(attribution, output_name)))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _places(ax: Axes, x: Column, *, made: bool) -> FloatArray:
    """Where the dots stand; missing values get a place of their own at the right."""
    missing = np.isnan(x.numbers)
    if x.categories is not None:
        _name_categories(ax, [*x.categories, *["missing"] * bool(missing.any())], made=made)
        return np.where(missing, float(len(x.categories)), x.numbers) + _jitter(len(missing))
    if not missing.any():
        return x.numbers
    known = x.numbers[~missing]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    span = (high - low) or 1.0
    apart = high + 0.14 * span
    ax.axvline(high + 0.07 * span, color=style.GREY, linewidth=0.8, linestyle=":")
    locate = style.matplotlib().ticker.MaxNLocator(6, steps=[1, 2, 5, 10])
    # No number where the word "missing" stands.
    near = apart - 0.14 * span * max(1.0, 300 / style.axes_points(ax)[0])
    ticks = [tick for tick in locate.tick_values(low, high) if low <= tick <= near]
    ax.set_xticks([*ticks, apart], [*(style.typographic(f"{tick:g}") for tick in ticks), "missing"])
    return np.where(missing, apart + 0.08 * span * _jitter(len(missing)), x.numbers)


def _jitter(n: int) -> FloatArray:
    """Within +-0.3, evenly spread and the same each time: multiples of the golden ratio."""
    golden = np.arange(n, dtype=np.float64) * 0.6180339887498949
    return 0.6 * (golden - np.floor(golden) - 0.5)


def _name_categories(ax: Axes, names: list[str], *, made: bool) -> None:
    n = len(names)
    ax.set_xlim(-0.6, n - 0.4)
    if n > MOST_CATEGORIES:
        ax.set_xticks([])
        ax.annotate(f"{n} categories", (0.99, 0.01), xycoords="axes fraction", ha="right", fontsize="small", alpha=0.75)
        return
    width, height = style.axes_points(ax)
    size = style.font_points("xtick.labelsize")
    upright = style.needed_points(names, size) * 1.15 > width / n
    if upright:
        size = max(style.SMALLEST_FONT, min(size, width / n / style.LINE))
    labels = style.shorten(names, min(0.5 * height, 110.0) if upright else width / n, size)
    if upright and made:
        ax.figure.set_figheight(ax.figure.get_figheight() + style.needed_points(labels, size) / 72)  # type: ignore[union-attr]
    ax.set_xticks(range(n), labels, rotation=90 if upright else 0, fontsize=size)
    for label in ax.get_xticklabels():
        style.plain(label)


def _color_by(ax: Axes, x: FloatArray, y: FloatArray, shades: Column, name: str, dots: dict[str, Any]) -> None:
    known = np.isfinite(shades.numbers)
    ax.scatter(x[~known], y[~known], color=style.GREY, **dots)
    label = style.shorten([name], style.axes_points(ax)[1], style.font_points("axes.labelsize"))[0]
    if shades.categories is None:
        numbers = shades.numbers[known]
        low, high = np.percentile(numbers, [5, 95]) if len(numbers) else (0.0, 1.0)
        painted = ax.scatter(x[known], y[known], c=numbers, cmap=style.colormap(), vmin=low, vmax=high, **dots)
        _colorbar(ax, painted, label, aspect=30, extend="both").solids.set_alpha(1)
        if not known.all():
            grey = [style.dot_handle(style.GREY, "colour: missing")]
            # Below are the names of categories; above is room.
            style.legend(ax, grey, loc="lower right", bbox_to_anchor=(1.0, 1.0), bbox_transform=ax.transAxes)
        return
    counts = np.bincount(shades.numbers[known].astype(np.intp), minlength=len(shades.categories))
    many = len(counts) > MOST_COLORS
    own = np.sort(np.argsort(-counts, kind="stable")[: MOST_COLORS - many])
    parts = [(shades.numbers == category, shades.categories[category]) for category in own]
    if many:
        parts.append((known & ~np.isin(shades.numbers, own), f"{len(counts) - len(own)} others"))
    handles = []
    for (here, text), color in zip(parts, style.OKABE_ITO, strict=False):
        ax.scatter(x[here], y[here], color=color, **dots)
        handles.append(style.dot_handle(color, style.shorten([text], 140, style.font_points())[0]))
    if not known.all():
        handles.append(style.dot_handle(style.GREY, "missing"))
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "bbox_transform": ax.transAxes}
    style.legend(ax, handles, title=label, frameon=False, ncols=1, **beside)


def waterfall(
    attribution: Attribution, row: int, output: int | str | None = None, *, top: int = 10, ax: Axes | None = None
) -> Axes:
    """From the base value to the margin of one row: the largest steps first, the rest as one step.

    Parameters
    ----------
    attribution : Attribution
        What `ti.attribute` returned.
    row : int
        Position of the row, counted from 0.
    output : int or str, optional
        Class or target, if the model has several.
    top : int
        How many features to show; the others are one step.
    ax : Axes, optional
        Where to draw.
    """
    matrix, base_values, output_name = one_output(attribution, output, "waterfall")
    of = f" of output {output_name}" if output_name else ""
    if not -len(matrix) <= row < len(matrix):
        raise ValueError(f"row {row} does not exist; there are {len(matrix)} rows, counted from 0.")
    steps, base = matrix[row], float(base_values[row])
    order = np.argsort(-np.abs(steps), kind="stable")
    shown, rest = style.more(len(order), top)
    if rest == 1:  # one other feature takes no more room than its sum
        shown, rest = shown + 1, 0
    heights = np.append(steps[order[:shown]], [steps[order[shown:]].sum()] if rest else [])
    names = ["base value", *(attribution.feature_names[k] for k in order[:shown])]
    names += [f"{rest:,} other features"] * bool(rest) + [f"prediction{of}"]
    values = ["", *(_value(attribution, int(k), row) for k in order[:shown]), *[""] * (bool(rest) + 1)]
    labels = [name + value for name, value in zip(names, values, strict=True)]
    ax, made = style.axes_for(ax, labels, height=style.rows_height(len(labels)))
    _draw(ax, base, heights, made=made)
    style.label_rows(ax, names, made=made, values=values)
    for label in (ax.get_yticklabels()[0], ax.get_yticklabels()[-1]):
        label.set_fontweight("bold")
    style.plain(ax.set_xlabel(f"{attribution.unit}{of}, by {METHOD_TITLES[attribution.method]}"))
    return ax


def _value(attribution: Attribution, k: int, row: int) -> str:
    """Text behind the name: the value of the feature in this row."""
    values = column(attribution, k, np.array([row]))
    if values is None:
        return ""
    number = values.numbers[0]
    if np.isnan(number):
        return " = missing"
    if values.categories is None:
        return " = " + style.typographic(f"{number:.4g}")
    text = values.categories[int(number)]
    return " = " + (text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…")


def _draw(ax: Axes, base: float, heights: FloatArray, *, made: bool) -> None:
    ends = base + np.cumsum(np.append(0.0, heights))
    y = np.arange(1, len(heights) + 1)
    colors = np.where(heights >= 0, style.VERMILLION, style.BLUE)
    ax.barh(y, heights, left=ends[:-1], height=0.62, color=colors, zorder=2)
    ink = style.text_color()
    # The level reached so far leads from each row into the next.
    ax.vlines(ends, np.arange(len(ends)), np.arange(1, len(ends) + 1), color=ink, linewidth=0.7, alpha=0.6, zorder=1)
    ax.plot([base, ends[-1]], [0, len(heights) + 1], "D", color=ink, markersize=5, zorder=3)
    digits = _digits(np.append(heights, [base, ends[-1]]))
    for i, height in enumerate(heights.tolist()):
        _write(ax, ends[i + 1], i + 1, f"{height:+.{digits}f}", right=height >= 0)
    _write(ax, base, 0, f"{base:.{digits}f}", right=True, weight="bold")
    _write(ax, ends[-1], len(heights) + 1, f"{ends[-1]:.{digits}f}", right=True, weight="bold")
    low, high = float(ends.min()), float(ends.max())
    # The numbers beside the bars need room in points; names take some of the width of Axes that are not ours.
    texts = [f"{step:+.{digits}f}" for step in [*heights, base, ends[-1]]]
    number = style.needed_points(texts, style.font_points()) + 8
    width = 0.9 * style.BODY_INCHES * 72 if made else 0.7 * style.axes_points(ax)[0]
    room = ((high - low) or abs(base) or 1.0) * number / max(width - 2 * number, 0.3 * width)
    ax.set_xlim(low - room, high + room)


def _digits(numbers: FloatArray) -> int:
    """Decimals that show the largest step to three digits."""
    largest = float(np.abs(numbers[:-2]).max(initial=0.0)) or float(np.abs(numbers).max())
    return int(np.clip(2 - np.floor(np.log10(largest)), 0, 8)) if largest > 0 else 1


def _write(ax: Axes, x: float, y: float, text: str, *, right: bool, weight: str = "normal") -> None:
    align: dict[str, Any] = {"textcoords": "offset points", "ha": "left" if right else "right", "va": "center"}
    shift = (5 if right else -5, 0)
    ax.annotate(style.typographic(text), (x, y), shift, fontsize="small", fontweight=weight, **align)
