"""What all plots share: matplotlib itself, colours, numbers, names that fit, and room for everything.

Text and lines take the colours of the user's rcParams; data take colours that survive colour blindness and
are readable on light and dark backgrounds.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import MissingDependencyError, counted
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
LABEL_INCHES = 5.2  # most that names add to it: 60 characters of 10 points
LABELS = 0.65  # room for names beside Axes, over the width of these before there were names
SMALLEST_FONT = 4.0
LINE = 1.35  # height of a row over the size of its font
NARROW = 180.0  # points: titles are smaller

OURS = "treeinner"  # id of what is drawn once for a figure
Features = str | Sequence[str | int]
Arrange = Callable[["Axes"], None]
_PANELS: WeakKeyDictionary[Axes, Arrange] = WeakKeyDictionary()  # what follows the size of Axes that were drawn on

KINDS = "bar, rounds, curve draw ti.importance, segments, over_time with by=, change and gap ti.compare, shap to_shap()"


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
        raise TypeError(f"ti.plots.{plot} expected an object of type {kind}, got {type(given).__name__}: {KINDS}.")


def choose(features: Features | None, names: Sequence[str], size: Any, max_display: int) -> list[int]:
    """Positions of the features that are named, or of the largest."""
    if features is None:
        found: list[int] = np.argsort(-size, kind="stable")[: more(len(names), max_display)[0]].tolist()
        return found
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


def said(names: Sequence[str], one: str, several: str) -> str:
    """What features do, in a sentence: "bmi and s5 are harmful"."""
    return f"{listed(names)} {one if len(names) == 1 else several}"


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
    """Text with line breaks between words where it would be wider."""
    lines = [""]
    for word in text.split():
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

    def without_middle(left: int) -> str:
        head = round(left * keep)
        return name[:head] + "…" + name[len(name) - (left - head) :]

    if len(name) < 5 or needed_points([name], size) <= points:
        return name
    sizes = range(5, len(name))
    return without_middle(4 + bisect_right(sizes, points, key=lambda left: needed_points([without_middle(left)], size)))


def plain(text: Text) -> Text:
    """Text as it is: a name may hold dollars and underscores, which are not formulas."""
    text.set_parse_math(False)
    text.set_usetex(False)
    return text


# -- sizes -----------------------------------------------------------------------------------------------------------
def axes_for(ax: Axes | None, labels: Sequence[str] = (), *, height: float, width: float = BODY_INCHES) -> Axes:
    """The user's Axes, or those of a new figure as wide as the labels need."""
    if ax is not None:
        return ax
    names = min(needed_points(_clean(labels), font_points()) / 72, LABEL_INCHES)
    whole = {"left": 0.0, "right": 1.0}  # until there is a layout
    size = (width + names, height)
    made: Axes = matplotlib().pyplot.subplots(figsize=size, layout="constrained", gridspec_kw=whole)[1]
    return made


def rows_height(rows: int) -> float:
    """Height in inches of a figure with this many labelled rows."""
    return 1.9 + max(rows, 3) * max(0.27, font_points() * LINE * 1.2 / 72)


def axes_points(ax: Axes) -> tuple[float, float]:
    """Width and height of the Axes in points."""
    points = 72 / ax.figure.dpi
    return ax.bbox.width * points, ax.bbox.height * points


def font_for(ax: Axes, rows: int) -> float:
    """Size of a font for so many rows on the height of the Axes."""
    return max(SMALLEST_FONT, min(font_points(), axes_points(ax)[1] / max(rows, 1) / LINE))


def short_names(ax: Axes, names: Sequence[str]) -> list[str]:
    """Names as long as there is room for beside the Axes."""
    return shorten(names, LABELS * axes_points(ax)[0], font_for(ax, len(names)))


def panels(ax: Any, features: int, each: int, across: int, inches: tuple[float, float]) -> Any:
    """The user's Axes, or those of a new figure with at most `across` beside each other: (features, each)."""
    count = features * each
    if ax is not None:
        if np.size(ax) not in (features, count):
            many = " or ".join(map(str, sorted({features, count})))
            raise ValueError(f"ax= has {np.size(ax)} Axes; for {counted(features, 'feature')}, pass {many}.")
        return np.asarray(ax, object).reshape(features, -1)
    shape = -(-count // across), min(across, count)
    size = inches[0] * shape[1], inches[1] * shape[0] + 0.6
    axes = matplotlib().pyplot.subplots(*shape, figsize=size, layout="constrained", squeeze=False)[1]
    for surplus in axes.flat[count:]:
        surplus.remove()
    return axes.reshape(-1)[:count].reshape(features, each)


def finish(axes: Sequence[Axes], titles: Sequence[str], arrange: Arrange, *, show: bool) -> Axes:
    """Write the titles, and give everything its room: `arrange(ax)` is called whenever the size of Axes changed."""
    for ax, title in zip(axes, titles, strict=True):
        plain(ax.set_title(title, fontsize="medium", pad=28 if ax.child_axes else 6))  # columns have their own titles
        ax.spines[["top", "right"]].set_visible(False)
        _short_ticks(ax)
        _PANELS[ax] = arrange
    figure = axes[0].figure.canvas.figure  # that of subfigures too
    layout = figure.get_layout_engine() or matplotlib().layout_engine.ConstrainedLayoutEngine()
    for _ in range(5):  # lines of titles take height, fonts follow height
        layout.execute(figure)
        for ax in figure.axes:
            if ax in _PANELS:
                _write_around(ax)
                _PANELS[ax](ax)
    if show:
        matplotlib().pyplot.show()
    return axes[0]


def _write_around(ax: Axes) -> None:
    """Title, label and legend over the width of the Axes with all that stands beside them."""
    legend, own, label = ax.get_legend(), ax.bbox, ax.xaxis.label
    if legend is not None:
        legend.set_in_layout(False)
    box: Any = ax.get_tightbbox(for_layout_only=True)
    points = 0.96 * box.width * 72 / ax.figure.dpi  # hinting makes letters a little wider
    centre = ((box.x0 + box.x1) / 2 - own.x0) / own.width
    for artist, key in ((ax.title, "font.size"), (label, "axes.labelsize")):
        size = font_points(key) * (0.85 if points < NARROW else 1.0)
        artist.set(text=wrapped(artist.get_text(), points, size), x=centre, fontsize=size)
    if legend is not None:
        legend.set_in_layout(True)
        below = (own.y0 - label.get_window_extent().y0) * 72 / ax.figure.dpi + 8
        shift = matplotlib().transforms.ScaledTranslation(0, -below / 72, ax.figure.dpi_scale_trans)
        legend.set_bbox_to_anchor((centre, 0.0), ax.transAxes + shift)


# -- rows ------------------------------------------------------------------------------------------------------------
def rows_for(
    ax: Axes | None, names: Sequence[str], order: Any, max_display: int, *, width: float = BODY_INCHES,
    below: float = 0.0,
) -> tuple[Axes, NDArray[np.intp]]:  # fmt: skip
    """Axes with a labelled row for each of the first features, and these; "... and 180 more" stands below them."""
    shown, rest = more(len(order), max_display)
    first = order[:shown]
    labels, n = [names[k] for k in first], shown + bool(rest)
    ax = axes_for(ax, labels, height=rows_height(n) + below, width=width)
    ax.set_yticks(range(n), short_names(ax, labels) + [f"... and {rest:,} more"] * bool(rest))
    ax.set_ylim(n - 0.35, -0.65)  # the first row is on top
    ax.tick_params(axis="y", length=0)
    for i, label in enumerate(ax.get_yticklabels()):
        plain(label).set_fontstyle("normal" if i < shown else "italic")
    ax.spines["left"].set_visible(False)
    return ax, first


def write_numbers(ax: Axes, x: Any, texts: Sequence[str], rows: Any = None) -> None:
    """Numbers right of the places x in the rows, 0, 1, ... by default; `arrange_rows` makes room for them."""
    for row, at, text in zip(range(len(texts)) if rows is None else rows, x, texts, strict=True):
        ax.annotate(text, (at, row), (6, 0), textcoords="offset points", va="center", fontsize="small", zorder=5)


def finish_rows(ax: Axes, title: str, label: str, *, handles: Sequence[Any] = (), show: bool) -> Axes:
    """Label the scores, and write a legend of what is drawn and of `handles`, and the title."""
    ax.set_xlabel(label)
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "borderpad": 0.0, "borderaxespad": 0.0}
    _legend(ax, [ax], handles, ncols=1 + (axes_points(ax)[0] > 250), **below)
    return finish([ax], [title], arrange_rows, show=show)


def arrange_rows(ax: Axes) -> None:
    """Fonts of the rows for the height there is, ticks for the width, and limits that have the numbers inside."""
    size = font_for(ax, len(ax.get_yticks()))
    for text in [*ax.get_yticklabels(), *(text for one in (ax, *ax.child_axes) for text in one.texts)]:
        text.set_fontsize(min(size, text.get_fontsize()))
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


def arrange_ticks(ax: Axes) -> None:
    """As many ticks, or names at them, as there is room for."""
    width, size, labels = axes_points(ax)[0], font_points("xtick.labelsize"), ax.get_xticklabels()
    if isinstance(ax.xaxis.get_major_locator(), matplotlib().ticker.MaxNLocator):
        ax.locator_params(axis="x", nbins=int(min(6, max(2, width // 45))))
        ax.tick_params(axis="x", labelsize=max(SMALLEST_FONT, min(size, width / 11)))
    elif labels and labels[0].get_rotation() == 90:
        size = max(SMALLEST_FONT, min(size, width / len(labels) / LINE))
        every = math.ceil(len(labels) * size * LINE / width - 0.01)
        for i, label in enumerate(labels):
            label.set(visible=i % every == 0, fontsize=size)


def side_panel(ax: Axes, title: str) -> Axes:
    """Axes for a column right of the rows, and of the columns there are; narrow where the rows are."""
    moved, width = matplotlib().transforms, 0.5 * min(1.0, axes_points(ax)[0] / 300)
    right_of = ax.figure.dpi_scale_trans + moved.ScaledTranslation(1.0, 0.0, ax.transAxes)
    across = moved.blended_transform_factory(right_of, ax.transAxes)
    place = width * (0.3 + 2.2 * len(ax.child_axes))
    side = ax.inset_axes((place, 0.0, width, 1.0), transform=across, sharey=ax)
    side.set_axis_off()
    side.text(0.5, 1.0, title, transform=side.transAxes, ha="center", va="bottom", fontsize="small")
    return side


def figure_legend(axes: Sequence[Axes]) -> None:
    """One legend below all panels."""
    figure: Any = axes[0].figure
    for old in [one for one in figure.legends if one.get_gid() == OURS]:
        old.remove()
    columns = max(1, int(figure.bbox.width / figure.dpi / 3.4))
    _legend(figure, axes, loc="outside lower center", ncols=columns).set_gid(OURS)


def _legend(owner: Any, axes: Sequence[Axes], handles: Sequence[Any] = (), **look: Any) -> Any:
    """A legend of what is drawn in these Axes, each label once."""
    drawn = [ax.get_legend_handles_labels() for ax in axes]
    once = {label: handle for one in drawn for handle, label in zip(*one, strict=True)}.values()
    written = owner.legend(handles=[*once, *handles], frameon=False, fontsize="small", **look)
    written.set_zorder(6)
    for text in written.get_texts():
        plain(text)
    return written


def zero_line(ax: Axes, axis: str = "x") -> None:
    """Draw a thin line at 0, behind everything."""
    draw = ax.axvline if axis == "x" else ax.axhline
    draw(0.0, color=text_color(), linewidth=0.8, zorder=0.5)


def _short_ticks(ax: Axes) -> None:
    """Short numbers at ticks without names, and no factor of their own at the end of an axis."""
    ticker = matplotlib().ticker
    for axis in (ax.xaxis, ax.yaxis):
        if not isinstance(axis.get_major_locator(), ticker.FixedLocator):
            axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: number(value, 5)))
