"""check_legible(): nothing in a figure overlaps, nothing is cut off, and everything stands out from the paper."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb, to_rgba, to_rgba_array
from matplotlib.text import Text

TEXT, MARKS = 4.5, 3.0  # least contrast, of WCAG 2 for text and for graphics


@pytest.fixture(autouse=True)
def clean_style():
    """Every test begins with the style of matplotlib itself, with the font that it brings, and no figure."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.use("Agg")
        mpl.rcParams.update({"font.family": "DejaVu Sans", "text.hinting": "no_autohint"})
        yield
    plt.close("all")


def titled(ax):
    """The title on one line."""
    return ax.get_title().replace("\n", " ")


def luminance(color):
    """Relative luminance of WCAG 2."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return np.dot([0.2126, 0.7152, 0.0722], linear)


def contrast(color, paper):
    *rgb, alpha = to_rgba(color)
    seen = np.array(rgb) * alpha + (1 - alpha) * np.array(to_rgb(paper))
    low, high = sorted((luminance(seen), luminance(paper)))
    return (high + 0.05) / (low + 0.05)


def texts_of(ax):
    """Texts of an axes that are drawn: (text, box), without those of ticks outside the limits."""
    ticks = [*ax.xaxis.get_majorticklabels(), *ax.yaxis.get_majorticklabels()] if ax.axison else []
    inside = ax.bbox.padded(0.01)
    drawn = [t for t in ticks if inside.x0 <= at(t, ax)[0] <= inside.x1 and inside.y0 <= at(t, ax)[1] <= inside.y1]
    legend = [] if ax.get_legend() is None else ax.get_legend().get_texts()
    around = [ax.title, ax.xaxis.label, ax.yaxis.label] if ax.axison else []
    every = [t for t in (*around, *drawn, *ax.texts, *legend) if t.get_visible() and t.get_text().strip()]
    every = [(t, t.get_tightbbox() if not hasattr(t, "arrow_patch") else Text.get_window_extent(t)) for t in every]
    return every + [pair for side in ax.child_axes for pair in texts_of(side)]


def at(label, ax):
    """Where a tick is, in pixels: its own coordinate, and an end of the axes in the other one."""
    x, y = label.get_position()
    data = ax.transData.transform((x, y))
    return (data[0], ax.bbox.y0) if label in ax.xaxis.get_majorticklabels() else (ax.bbox.x0, data[1])


def check_legible(figure):
    """Raise unless all text is inside and apart from other text, bars and panels, and all stands out."""
    figure.canvas.draw()
    paper = figure.get_facecolor()
    found = [(ax, text, box) for ax in figure.axes for text, box in texts_of(ax)]
    assert found
    for _, text, box in found:
        what = text.get_text()
        assert contrast(text.get_color(), paper) >= TEXT, what
        assert text.get_alpha() is None, what
        assert not text.get_parse_math() or "$" not in what
        assert (box.min >= -1).all(), what
        assert (box.max <= figure.bbox.max + 1).all(), what
    boxes = np.array([shrunk(box) for *_, box in found])
    for ax in figure.axes:
        own = np.array([one is ax for one, *_ in found])
        inside = np.array([text in ax.texts for _, text, _ in found])
        for bar in (*ax.patches, *(p for side in ax.child_axes for p in side.patches)):
            refuse(found, own & overlapping(boxes, bar.get_window_extent().extents), "covers a bar")
        refuse(found, ~inside & overlapping(boxes, ax.bbox.extents), "covers a panel")
    slanted = np.array([text.get_rotation() % 90 != 0 for _, text, _ in found])
    for i, (_, text, _) in enumerate(found):
        later = (np.arange(len(found)) > i) & ~(slanted & slanted[i])
        refuse(found, later & overlapping(boxes, boxes[i]), f"and {text.get_text()!r} overlap")
    for ax in figure.axes:
        for part in (*ax.patches, *ax.collections, *ax.lines, *(p for s in ax.child_axes for p in s.patches)):
            label = str(part.get_label())
            if label == "_band" or ("interval" in label and isinstance(part, PolyCollection)):
                continue  # a band lies behind its line
            names = ("get_facecolor", "get_edgecolor", "get_color")
            colors = [color for name in names if hasattr(part, name) for color in to_rgba_array(getattr(part, name)())]
            assert max(contrast(color, paper) for color in np.unique(colors, axis=0)) >= MARKS, part


def shrunk(box):
    """Its ends without the space between lines, which boxes of text include."""
    return box.x0 + 0.5, box.y0 + 0.12 * box.height, box.x1 - 0.5, box.y1 - 0.12 * box.height


def overlapping(boxes, box):
    """Which of the boxes overlap a box."""
    x0, y0, x1, y1 = box
    return (boxes[:, 0] < x1) & (boxes[:, 2] > x0) & (boxes[:, 1] < y1) & (boxes[:, 3] > y0)


def refuse(found, here, what):
    """Raise if any text is here."""
    assert not here.any(), (found[here.argmax()][1].get_text(), what)
