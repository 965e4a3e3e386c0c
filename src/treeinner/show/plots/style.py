"""What all plots share: matplotlib itself, colours, numbers, names that fit, and room for everything.

Text and lines take the colours of the user's rcParams; data take colours that survive colour blindness and
are readable on light and dark backgrounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import MissingDependencyError
from treeinner.score.result import position_of
from treeinner.show import html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

# After Okabe and Ito (2008), without yellow and black, and the light ones darkened: each has a contrast of at least 3.8
# to white and 4 to black. Text has the colour of the user's style, where it needs more.
BLUE, VERMILLION, GREY = html.BLUE, html.VERMILLION, html.GREY
PALETTE = (BLUE, VERMILLION, "#008060", "#B05090", "#9A6A00", "#2B8CA3")

BODY_INCHES = 4.6  # width of what is beside the labels
LABEL_INCHES = 5.2  # room for names in a figure of our own: 60 characters of 10 points
OTHERS_LABELS = 0.55  # room for names beside Axes that are not ours, over their width
SMALLEST_FONT = 4.0
LINE = 1.35  # height of a row over the size of its font
NARROW = 180.0  # points: titles are smaller
EDGE = 0.008  # of a figure: kept free around what a panel holds

OURS = "treeinner"  # id of what is drawn once for a figure
Arrange = Callable[["Axes"], None]
_PANELS: WeakKeyDictionary[Axes, tuple[str, str, Arrange]] = WeakKeyDictionary()  # title, label, what follows the size

# What each kind of result is in words, and what draws it.
KINDS = {
    "Importance": ("an Importance (from ti.importance)", "bar, rounds or curve of ti.plots"),
    "Comparison": ("a Comparison (from ti.compare)", "change or gap of ti.plots"),
    "Attribution": ("an Attribution (from ti.attribute)", "shap.plots with attribution.to_shap()"),
}


def matplotlib() -> Any:
    """Import matplotlib with its pyplot."""
    try:
        import matplotlib
        import matplotlib.pyplot
    except ImportError as error:
        raise MissingDependencyError(
            'Plots need matplotlib; install it with: pip install "treeinner[plots]"'
        ) from error
    return matplotlib


def text_color() -> Any:
    """Colour of text in the user's style."""
    return matplotlib().rcParams["text.color"]


# -- what is given ---------------------------------------------------------------------------------------------------
def check_kind(given: Any, kind: str, plot: str) -> None:
    """Raise a TypeError that says what the plot draws, and what draws what was given."""
    if kind not in (base.__name__ for base in type(given).__mro__):
        name = type(given).__name__
        got, plots = KINDS.get(name, (f"an object of type {name}", ""))
        advice = f"; to draw that, use {plots}" if plots else ""
        raise TypeError(f"ti.plots.{plot} expected {KINDS[kind][0]}, got {got}{advice}.")


def positions_of(features: str | Sequence[str | int], names: Sequence[str]) -> list[int]:
    """Positions of one feature or several."""
    if isinstance(features, int):
        raise TypeError(f"features={features}: pass names or positions in a list, or max_display={features}.")
    return [position_of(one, names, "feature") for one in ([features] if isinstance(features, str) else features)]


def more(n_features: int, max_display: int) -> tuple[int, int]:
    """How many features are shown, and how many are left."""
    if max_display < 1:
        raise ValueError(f"max_display={max_display} shows nothing; pass how many features to show, such as 20.")
    shown = min(n_features, int(max_display))
    return shown, n_features - shown


# -- words and numbers -----------------------------------------------------------------------------------------------
def number(value: float, digits: int = 3) -> str:
    """A number with so many digits: 1,230, 0.012, 1.2e6, 34e-6; exponents are multiples of three."""
    rounded = float(f"{value:.{digits}g}")
    exponent = math.floor(math.log10(abs(rounded))) if rounded else 0
    power = 0 if -4 <= exponent < 6 else 3 * (exponent // 3)
    text = f"{rounded / 10.0**power:,.{max(0, digits - 1 - exponent + power)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return typographic(text + (f"e{power}" if power else ""))


def signed(value: float) -> str:
    """A number with its sign."""
    return ("+" if value > 0 else "") + number(value)


def typographic(text: str) -> str:
    """Minus signs as on the axes of the user's style."""
    return text.replace("-", "\N{MINUS SIGN}") if matplotlib().rcParams["axes.unicode_minus"] else text


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names in a sentence: "bmi, s5 and 3 others"."""
    few = len(names) <= most + 1
    shown = [cut(name) for name in (names if few else names[:most])] + ([] if few else [f"{len(names) - most} others"])
    return " and ".join(([", ".join(shown[:-1])] if len(shown) > 1 else []) + shown[-1:])


def cut(name: str) -> str:
    """A name in a title: short, and on one line."""
    return shorten([name], 120, 10)[0]


# -- fonts and names -------------------------------------------------------------------------------------------------
def font_points(key: str = "ytick.labelsize") -> float:
    """Size in points of a font of the user's style."""
    mpl = matplotlib()
    return float(mpl.font_manager.FontProperties(size=mpl.rcParams[key]).get_size_in_points())


def needed_points(texts: Sequence[str], size: float) -> float:
    """Width in points of the widest text."""
    mpl = matplotlib()
    measure = mpl.textpath.TextToPath().get_text_width_height_descent
    font = mpl.font_manager.FontProperties(size=size)
    return max((float(measure(text, font, ismath=False)[0]) for text in texts), default=0.0)


def wrapped(text: str, points: float, size: float) -> str:
    """Text with line breaks between words where it would be wider; breaks that it has are kept."""
    lines: list[str] = []
    for line in text.split("\n"):
        lines.append("")
        for word in line.split():
            if lines[-1] and needed_points([f"{lines[-1]} {word}"], size) > points:
                lines.append("")
            lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def shorten(names: Sequence[str], points: float, size: float) -> list[str]:
    """Names shortened to a width; different names stay different.

    The middle of a name is left out; where that makes names equal, the beginning that they share is.
    """
    names = _clean(names)
    short = [_shorten(name, points, size) for name in names]
    if len(set(short)) < len(set(names)):
        long = [name for name, text in zip(names, short, strict=True) if name != text]
        first, last = min(long), max(long)  # what these two share, all share
        common = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
        tails = ["…" + name[common:] if name in long and common > 3 else name for name in names]
        short = [_shorten(name, points, size, keep=0.75) for name in tails]
    if len(set(short)) < len(set(names)):  # then only a number tells them apart
        short = [f"{text} #{i + 1}" if short.count(text) > 1 else text for i, text in enumerate(short)]
    return short


def _clean(names: Sequence[str]) -> list[str]:
    """Names on one line each; one of blanks alone is shown in quotes."""
    return [" ".join(name.split()) or repr(name) for name in names]


def _shorten(name: str, points: float, size: float, keep: float = 0.5) -> str:
    """Leave out the middle until the rest fits; `keep` is the share of the beginning in what is left."""
    if needed_points([name], size) <= points:
        return name
    left = len(name) - 1
    while left > 4:
        head = round(left * keep)
        text = name[:head] + "…" + name[len(name) - (left - head) :]
        wide = needed_points([text], size)
        if wide <= points:
            return text
        left -= max(1, int(left * (1 - points / wide)))
    return name[:2] + "…" + name[-2:]


def plain(text: Text) -> Text:
    """Text as it is: a name may hold dollars and underscores, which are not formulas."""
    text.set_parse_math(False)
    text.set_usetex(False)
    return text


# -- sizes -----------------------------------------------------------------------------------------------------------
def axes_for(
    ax: Axes | None, labels: Sequence[str] = (), *, height: float, width: float = BODY_INCHES
) -> tuple[Axes, bool]:
    """The user's Axes, or those of a new figure as wide as the labels need; whether they were made here."""
    if ax is not None:
        return ax, False
    names = min(needed_points(_clean(labels), font_points()) / 72, LABEL_INCHES)
    return matplotlib().pyplot.subplots(figsize=(width + names, height), layout="constrained")[1], True


def rows_height(rows: int) -> float:
    """Height in inches of a figure with this many labelled rows."""
    return 1.9 + max(rows, 3) * max(0.27, font_points() * LINE * 1.2 / 72)


def axes_points(ax: Axes) -> tuple[float, float]:
    """Width and height of the Axes in points."""
    box = ax.get_window_extent()
    dpi = ax.figure.dpi
    return box.width * 72 / dpi, box.height * 72 / dpi


def grid(panels: int, across: int, inches: tuple[float, float]) -> Any:
    """Axes of a new figure, so many panels, at most `across` beside each other: (panels,)."""
    shape = -(-panels // across), min(across, panels)
    size = inches[0] * shape[1], inches[1] * shape[0] + 0.6
    axes = matplotlib().pyplot.subplots(*shape, figsize=size, layout="constrained", squeeze=False)[1]
    for surplus in axes.flat[panels:]:
        surplus.remove()
    return axes.reshape(-1)[:panels]


def finish(ax: Axes, title: str, arrange: Arrange, *, show: bool) -> Axes:
    """Write the title, and give everything its room: `arrange(ax)` is called whenever the size of the Axes changed."""
    finish_all([ax], [title], arrange, show=show)
    return ax


def finish_all(axes: Sequence[Axes], titles: Sequence[str], arrange: Arrange, *, show: bool) -> None:
    """The same for several Axes of one figure."""
    for ax, title in zip(axes, titles, strict=True):
        pad = 28 if ax.child_axes else 6  # columns have titles of their own
        plain(ax.set_title(title, fontsize="medium", pad=pad))
        _PANELS[ax] = (title, ax.get_xlabel(), arrange)
    figure = axes[0].figure.canvas.figure  # that of subfigures too
    layout = figure.get_layout_engine()
    for _ in range(5 if layout is None else 2):  # lines of titles take height, fonts follow height
        if layout is not None:
            layout.execute(figure)
            axes = [one for one in _PANELS if one.figure.canvas.figure is figure]  # all of them get another size
        else:
            for ax in axes:
                _fit(ax)
        for ax in axes:
            _write_around(ax)
    if show:
        matplotlib().pyplot.show()


def _fit(ax: Axes) -> None:
    """Without a layout engine: shrink the Axes until all that belongs to them is in their part of the figure."""
    spec = ax.get_subplotspec()
    if spec is None:  # the user's own place
        return
    bottoms, tops, lefts, rights = spec.get_gridspec().get_grid_positions(ax.figure)  # type: ignore[arg-type]
    # What is between two panels belongs to each by half.
    x = [0.0, *(lefts[1:] + rights[:-1]) / 2, 1.0]
    y = [1.0, *(bottoms[:-1] + tops[1:]) / 2, 0.0]
    columns, rows = spec.colspan, spec.rowspan
    slot = (x[columns.start] + EDGE, y[rows.stop] + EDGE, x[columns.stop] - EDGE, y[rows.start] - EDGE)
    to_figure = ax.figure.transSubfigure.inverted()
    own, box = ax.bbox.transformed(to_figure), _box(ax).transformed(to_figure)
    x0, y0, x1, y1 = (slot[i] + own.extents[i] - box.extents[i] for i in range(4))
    ax.set_position((x0, y0, max(EDGE, x1 - x0), max(EDGE, y1 - y0)))


def _box(ax: Axes) -> Any:
    """The place of the Axes and of what stands around them, in pixels; title, label and legend count only upwards."""
    legend = ax.get_legend()
    if legend is None:
        return ax.get_tightbbox(for_layout_only=True)
    below = legend.get_window_extent().y0
    legend.set_in_layout(False)
    box = ax.get_tightbbox(for_layout_only=True)
    legend.set_in_layout(True)
    box.y0 = min(box.y0, below)  # type: ignore[union-attr]
    return box


def _write_around(ax: Axes) -> None:
    """Title, label and legend over the width of the Axes with all that stands beside them."""
    *texts, arrange = _PANELS[ax]
    box, own = _box(ax), ax.bbox
    points = 0.96 * box.width * 72 / ax.figure.dpi  # hinting makes letters a little wider
    centre = ((box.x0 + box.x1) / 2 - own.x0) / own.width
    label = ax.xaxis.label
    for artist, text, key in zip((ax.title, label), texts, ("font.size", "axes.labelsize"), strict=True):
        if artist.get_text().split() == text.split():  # else the user wrote another one
            size = font_points(key) * (0.85 if points < NARROW else 1.0)
            artist.set(text=wrapped(text, points, size), x=centre, fontsize=size)
    arrange(ax)
    legend = ax.get_legend()
    if legend is not None:
        below = (own.y0 - label.get_window_extent().y0) * 72 / ax.figure.dpi + 8
        shift = matplotlib().transforms.ScaledTranslation(0, -below / 72, ax.figure.dpi_scale_trans)
        legend.set_bbox_to_anchor((centre, 0.0), ax.transAxes + shift)


# -- rows ------------------------------------------------------------------------------------------------------------
def rows_for(
    ax: Axes | None, names: Sequence[str], order: NDArray[np.intp], max_display: int, *, width: float = BODY_INCHES,
    below: float = 0.0,
) -> tuple[Axes, bool, NDArray[np.intp]]:  # fmt: skip
    """Axes with a labelled row for each of the first features, whether they were made here, and these features."""
    shown, rest = more(len(order), max_display)
    first = order[:shown]
    labels = [names[k] for k in first]
    ax, made = axes_for(ax, labels, height=rows_height(shown + bool(rest)) + below, width=width)
    label_rows(ax, labels, made=made, rest=rest)
    return ax, made, first


def label_rows(ax: Axes, names: Sequence[str], *, made: bool, rest: int = 0) -> None:
    """Write names beside the rows 0, 1, ... from the top; with a rest, "... and 180 more" stands below them."""
    n = len(names) + bool(rest)
    size, room = font_points(), LABEL_INCHES * 72
    if not made:  # the user's Axes: use the room there is
        width, height = axes_points(ax)
        size, room = _row_font(height, n), OTHERS_LABELS * width
    labels = shorten(names, room, size)
    if rest:
        labels.append(f"... and {rest:,} more")
    ax.set_yticks(range(n), labels)
    ax.set_ylim(n - 0.35, -0.65)  # the first row is on top
    ax.tick_params(axis="y", length=0, labelsize=size)
    for label in ax.get_yticklabels():
        plain(label)
    if rest:
        ax.get_yticklabels()[-1].set(style="italic")
    ax.spines[["top", "right", "left"]].set_visible(False)


def _row_font(height: float, rows: int) -> float:
    """Size of a font for so many rows on a height in points."""
    return max(SMALLEST_FONT, min(font_points(), height / max(rows, 1) / LINE))


def write_numbers(ax: Axes, x: Sequence[float], texts: Sequence[str]) -> None:
    """Numbers right of the places x in the rows 0, 1, ...; `arrange_rows` makes room for them."""
    for row, (at, text) in enumerate(zip(x, texts, strict=True)):
        ax.annotate(text, (at, row), (6, 0), textcoords="offset points", va="center", fontsize="small", zorder=5)


def arrange_fonts(ax: Axes) -> None:
    """Font of the rows, and of what is written in them, for the height there is."""
    size = _row_font(axes_points(ax)[1], len(ax.get_yticks()))
    for text in [*ax.get_yticklabels(), *(text for one in (ax, *ax.child_axes) for text in one.texts)]:
        text.set_fontsize(min(size, text.get_fontsize()))


def arrange_ticks(ax: Axes) -> None:
    """As many ticks, or names at them, as there is room for."""
    width, size, labels = axes_points(ax)[0], font_points("xtick.labelsize"), ax.get_xticklabels()
    if isinstance(ax.xaxis.get_major_locator(), matplotlib().ticker.MaxNLocator):
        ax.locator_params(axis="x", nbins=int(min(6, max(2, width // 45))))
        ax.tick_params(axis="x", labelsize=max(SMALLEST_FONT, min(size, width / 11)))
    elif labels and labels[0].get_rotation() == 90:
        every = math.ceil(len(labels) * size * LINE / width)
        for i, label in enumerate(labels):
            label.set_visible(i % every == 0)


def arrange_rows(ax: Axes) -> None:
    """Fonts of the rows, ticks for the width, and limits that have the numbers inside."""
    arrange_fonts(ax)
    arrange_ticks(ax)
    ax.autoscale(axis="x")
    low, high = ax.get_xlim()
    width = axes_points(ax)[0]
    needed = [needed_points([text.get_text()], float(text.get_fontsize())) + 8 for text in ax.texts]
    room = max(needed, default=0.0) < width / 2
    for text, points in zip(ax.texts, needed, strict=True):
        text.set_visible(room)
        if room:
            high = max(high, low + (text.xy[0] - low) * width / (width - points))  # type: ignore[attr-defined]
    ax.set_xlim(low, high)


def side_panel(ax: Axes, place: float, width: float, title: str) -> Axes:
    """Axes for a column right of the rows, without ticks: where it begins and its width in inches."""
    moved = matplotlib().transforms
    right_of = ax.figure.dpi_scale_trans + moved.ScaledTranslation(1.0, 0.0, ax.transAxes)
    across = moved.blended_transform_factory(right_of, ax.transAxes)
    side = ax.inset_axes((place, 0.0, width, 1.0), transform=across, sharey=ax)
    side.set_axis_off()
    side.text(0.5, 1.0, title, transform=side.transAxes, ha="center", va="bottom", fontsize="small")
    return side


def figure_legend(axes: Any) -> None:
    """One legend below all panels, if the layout of the figure makes room for it."""
    figure, drawn = axes[0].figure, [ax.get_legend_handles_labels() for ax in axes]
    if figure.get_layout_engine() is not None:
        for old in [one for one in figure.legends if one.get_gid() == OURS]:
            old.remove()
        handles = {label: handle for one in drawn for handle, label in zip(*one, strict=True)}.values()
        columns = max(1, int(figure.bbox.width / figure.dpi / 3.4))
        look = {"loc": "outside lower center", "ncols": columns, "frameon": False, "fontsize": "small"}
        figure.legend(handles=handles, **look).set_gid(OURS)


def zero_line(ax: Axes, axis: str = "x") -> None:
    """Draw a thin line at 0, behind everything."""
    draw = ax.axvline if axis == "x" else ax.axhline
    draw(0.0, color=text_color(), linewidth=0.8, zorder=0.5)


def short_ticks(ax: Axes, axes: str = "x") -> None:
    """Short numbers at the ticks, and no factor of their own at the end of an axis."""
    for name in axes:
        axis = getattr(ax, f"{name}axis")
        axis.set_major_formatter(matplotlib().ticker.FuncFormatter(_tick))


def _tick(value: float, _: int | None) -> str:
    """Label of a tick."""
    return number(value, 5)


def legend(ax: Axes, handles: Sequence[Any], **options: Any) -> None:
    """Write a legend below the plot, in columns if there is room."""
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "frameon": False, "fontsize": "small"}
    below |= {"borderpad": 0.0, "borderaxespad": 0.0, "ncols": 1 + (axes_points(ax)[0] > 250)}
    written = ax.legend(handles=list(handles), **below | options)
    written.set_zorder(6)
    for text in (*written.get_texts(), written.get_title()):
        plain(text)
