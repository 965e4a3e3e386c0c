"""What all plots share: matplotlib itself, colours, sizes, and names that fit.

Text and lines take the colours of the user's rcParams; data take colours that survive colour blindness and
are readable on light and dark backgrounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from treeinner.errors import MissingDependencyError
from treeinner.show import html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

# Okabe and Ito (2008), without yellow, which is hard to see on white; black is left to text.
BLUE, VERMILLION, GREY = html.BLUE, html.VERMILLION, html.GREY
GREEN, ORANGE, PURPLE, SKY = "#009E73", "#E69F00", "#CC79A7", "#56B4E9"
SILVER = "#CFCFCF"
OKABE_ITO = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)

BODY_INCHES = 4.6  # width of what is beside the labels
LABEL_INCHES = 5.2  # room for names in a figure of our own: 60 characters of 10 points
OTHERS_LABELS = 0.55  # room for names beside Axes that are not ours, over their width
SMALLEST_FONT = 4.0
LINE = 1.35  # height of a row over the size of its font


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
    return 1.5 + max(rows, 3) * max(0.27, font_points() * LINE * 1.2 / 72)


def axes_points(ax: Axes) -> tuple[float, float]:
    """Width and height of the Axes in points."""
    box = ax.get_window_extent()
    dpi = ax.figure.dpi
    return box.width * 72 / dpi, box.height * 72 / dpi


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


def label_rows(ax: Axes, names: Sequence[str], *, made: bool, rest: int = 0) -> None:
    """Write names beside the rows 0, 1, ... from the top; with a rest, "... and 180 more" stands below them."""
    n = len(names) + bool(rest)
    size, room = font_points(), LABEL_INCHES * 72
    if not made:  # the user's Axes: use the room there is
        width, height = axes_points(ax)
        size, room = max(SMALLEST_FONT, min(size, height / n / LINE)), OTHERS_LABELS * width
    labels = shorten(names, room, size)
    if rest:
        labels.append(f"... and {rest:,} more")
    ax.set_yticks(range(n), labels)
    ax.set_ylim(n - 0.35, -0.65)  # the first row is on top
    ax.tick_params(axis="y", length=0, labelsize=size)
    for label in ax.get_yticklabels():
        plain(label)
    if rest:
        ax.get_yticklabels()[-1].set(style="italic", alpha=0.75)
    ax.spines[["top", "right", "left"]].set_visible(False)


def more(n_features: int, top: int) -> tuple[int, int]:
    """How many features are shown, and how many are left."""
    if top < 1:
        raise ValueError(f"top={top} shows nothing; pass how many features to show, such as top=20.")
    shown = min(n_features, int(top))
    return shown, n_features - shown


def plain(text: Text) -> Text:
    """Text as it is: a name may hold dollars and underscores, which are not formulas."""
    text.set_parse_math(False)
    text.set_usetex(False)
    return text


def zero_line(ax: Axes, axis: str = "x") -> None:
    """Draw a thin line at 0, behind everything."""
    draw = ax.axvline if axis == "x" else ax.axhline
    draw(0.0, color=text_color(), linewidth=0.8, alpha=0.6, zorder=0.5)


def typographic(number: str) -> str:
    """Minus signs as on the axes of the user's style."""
    return number.replace("-", "\N{MINUS SIGN}") if matplotlib().rcParams["axes.unicode_minus"] else number


def legend(ax: Axes, handles: Sequence[Any], **options: Any) -> None:
    """Write a legend below the plot, if the figure's layout makes room for it; else where it hides least."""
    figure: Any = ax.figure
    place: dict[str, Any] = {"loc": "best", "framealpha": 0.85}
    if figure.get_layout_engine() is not None:
        lines = 1 + ax.get_xlabel().count("\n")
        below = font_points("xtick.labelsize") + font_points("axes.labelsize") * (1.2 * lines - 0.2) + 18
        shift = matplotlib().transforms.ScaledTranslation(0, -below / 72, figure.dpi_scale_trans)
        place = {"loc": "upper right", "bbox_to_anchor": (1.0, 0.0), "bbox_transform": ax.transAxes + shift}
        place |= {"frameon": False, "borderpad": 0.0, "borderaxespad": 0.0, "ncols": 1 + (axes_points(ax)[0] > 250)}
    written = ax.legend(handles=list(handles), **{"fontsize": "small", **place, **options})
    written.set_zorder(6)
    for text in (*written.get_texts(), written.get_title()):
        plain(text)
