"""waterfall(): one prediction, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.attribution import Attribution
from treeinner.plots import _style as style
from treeinner.plots._data import check_kind, column, method_name, one_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]
LONGEST_VALUE = 24  # characters of a category that are shown


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
    check_kind(attribution, Attribution, "waterfall")
    matrix, base_values, output_name = one_output(attribution, output)
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
    style.plain(ax.set_xlabel(f"{attribution.unit}{of}, by {method_name(attribution.method)}"))
    return ax


def _value(attribution: Attribution, k: int, row: int) -> str:
    """Text behind the name: the value of the feature in this row."""
    values = column(attribution, k, np.array([row]))
    if values is None:
        return ""
    text = values.text(0)
    if values.categories is None:
        return " = " + style.typographic(text)
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
