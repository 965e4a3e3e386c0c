"""The paper's figures: five sweeps, five measures, 2 x 2 panels; one standard error as bars.

Colour is the score, marker the attribution, dashes the rows it was computed on. Every sweep is evenly spaced on its own
scale (linear or logarithmic), so the settings stand at 0, 1, 2, ... and the axis says which scale it is. Series are set
side by side by a small step, so that their bars can be told apart.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from treeinner_study.grid import SWEEPS, Setting
from treeinner_study.names import BEST, GAIN, PROBLEMS, SCORES, Problem
from treeinner_study.records import Mean, Study

__all__ = ["MEASURES", "alt_text", "caption", "drawing", "figure_names", "save", "sweep_figure"]

# measure: column, title, caption
MEASURES = {
    "error": (
        "error",
        "largest difference of normalised total gains",
        "Largest absolute difference between the normalised total gain by Proposition 3 and XGBoost's own, "
        "logarithmic. Boxes: quartiles over the replications; whiskers to the farthest value within 1.5 box lengths; "
        "dots beyond.",
    ),
    "auc": (
        "auc",
        "AUC",
        "AUC of noisy feature identification. Higher is better; a dotted line at 0.5, where in sight, is guessing.",
    ),
    "score-noisy": (
        "score_noisy",
        "mean normalised score of noisy features",
        "Mean score of the noisy features; each score vector has unit length. Lower is better.",
    ),
    "score-signal": (
        "score_signal",
        "mean normalised score of relevant features",
        # The paper's caption says "lower is better" here, too, which cannot be meant.
        "Mean score of the relevant features; each score vector has unit length. Higher is better.",
    ),
    "risk": (
        "risk",
        "risk on the validation rows",
        "Risk on the validation rows: 1 - AUC (classification), mean squared error (regression). Lower is better.",
    ),
}  # fmt: skip
# Okabe and Ito (2008): colours that survive colour blindness.
BLUE, VERMILLION, GREEN, ORANGE, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#999999"
COLORS = {"TreeInner": VERMILLION, "ForestInner": ORANGE, "Abs": BLUE, "Permutation": GREEN}
MARKERS = {"PreDecomp": "o", "TreeSHAP": "X", "": "*"}
DASHES: dict[str, Any] = {"Train": (0, (2.5, 1.5)), "Valid": "-"}
LOG = ("eta", "min_child_weight", "reg_lambda")
SMALLEST = 1e-18  # a difference of exactly 0 has no logarithm; it is drawn here
INK = "#333333"
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

PARAMETERS: dict[Any, Any] = {
    "svg.hashsalt": "treeinner",  # ids of clip paths: the same in every run
    "svg.fonttype": "none",  # text stays text: a third of the size; other sans-serif fonts are narrower, so it fits
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "lines.linewidth": 1.3,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Matplotlib with its default style and ours, whatever the user's is; theirs comes back."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(PARAMETERS)
        yield


def save(figure: Figure, path: Path) -> Path:
    """Write a figure as SVG; the same figure gives the same bytes."""
    with drawing():
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    path.write_text(compact(text.getvalue()), encoding="utf-8", newline="\n")
    return path


def compact(svg: str) -> str:
    """Shorten matplotlib's SVG to half: hundredths of a point, no indents, markers and their styles said once."""

    def rounded(tag: re.Match[str]) -> str:  # numbers of tags, and not of the text between them
        return re.sub(r"\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), tag[0])

    svg = re.sub(r"<[^>]+>", rounded, svg)
    svg = re.sub(r"'DejaVu Sans', [^;\"]*", "'DejaVu Sans', Verdana, sans-serif", svg)
    svg = re.sub(r"\s*\n\s*", "\n", svg)
    svg = re.sub(r'(?<=[\d. z])\n(?=[LMQCz"])', " ", svg)
    marker = re.compile(r'<defs>\n<path id="(\w+)" (d="[^"]*" style="[^"]*"/>)\n</defs>\n')
    first: dict[str, str] = {}
    same = {name: first.setdefault(shape, name) for name, shape in marker.findall(svg)}
    svg = marker.sub(lambda m: m[0] if same[m[1]] == m[1] else "", svg)
    svg = re.sub(r'(?<=xlink:href="#)\w+', lambda m: same.get(m[0], m[0]), svg)

    def once(group: re.Match[str]) -> str:
        styles = set(re.findall(r'<use [^>]*( style="[^"]*")/>', group[2]))
        if len(styles) != 1:
            return group[0]
        style = styles.pop()
        return f"<g{group[1]}{style}>{group[2].replace(style, '')}</g>"

    return re.sub(r'<g( clip-path="[^"]*")>((?:\s*<use [^>]*/>)+\s*)</g>', once, svg)


def figure_names(study: Study) -> list[tuple[str, str]]:
    """(sweep, measure) of every figure that the results allow."""
    return [(sweep, measure) for sweep in study.swept for measure in MEASURES]


def caption(sweep: str, measure: str, replications: int) -> str:
    """What a figure shows; the replications are those that every setting of the sweep has."""
    shown = MEASURES[measure][2]
    bars = "" if measure == "error" else f" Mean over {replications} replications; bars: one standard error."
    zero = " The value 0 stands one step left of the smallest." if sweep == "reg_lambda" else ""
    return shown + bars + zero


def alt_text(study: Study, sweep: str, measure: str) -> str:
    """What a figure says to somebody who cannot see it: the ends of the sweep for the proposed score."""
    study = study.swept_part
    column, title, _ = MEASURES[measure]
    first, last = study.sweep(sweep)[0], study.sweep(sweep)[-1]
    score = GAIN if measure == "error" else BEST
    parts = []
    for problem in study.problems:
        a, b = (study.mean(problem, score, column, setting) for setting in (first, last))
        if a.n and b.n:
            parts.append(f"{problem} from {a.mean:.3g} to {b.mean:.3g}")
    ends = f"{sweep} from {getattr(first, sweep):g} to {getattr(last, sweep):g}"
    subject = "" if measure == "risk" else f" of {score}"
    return f"{title}{subject}, {ends}: " + "; ".join(parts) + "."


def sweep_figure(study: Study, sweep: str, measure: str) -> Figure:
    """One figure: a sweep and a measure, a panel for each problem."""
    study = study.swept_part
    with drawing():
        figure = Figure(figsize=(9.6, 6.4))
        axes = figure.subplots(2, 2, sharex=True, sharey=measure == "error")
        draw: Callable[..., None] = {"error": _boxes, "risk": _risk}.get(measure, _lines)
        settings = study.sweep(sweep)
        for ax, problem in zip(axes.ravel(), PROBLEMS, strict=True):
            ax.set_title(str(problem), loc="left")
            if problem in study.problems:
                draw(ax, study, problem, settings, MEASURES[measure][0])
            else:
                ax.text(0.5, 0.5, "not run", transform=ax.transAxes, ha="center", va="center", color=GREY)
                ax.tick_params(axis="y", length=0, labelleft=False)
            ax.set_xticks(range(len(settings)), [_tick(sweep, s) for s in settings])
            ax.set_xlim(-0.5, len(settings) - 0.5)
            ax.tick_params(labelbottom=True, length=3)
        scale = " (log scale, 0 set apart)" if sweep == "reg_lambda" else " (log scale)" if sweep in LOG else ""
        # Fixed margins: a layout engine would draw everything twice to find the same.
        right = 0.79 if draw is _lines else 0.985
        figure.subplots_adjust(left=0.09, right=right, bottom=0.11, top=0.955, wspace=0.2, hspace=0.27)
        figure.supxlabel(sweep + scale, fontsize=10, x=(0.09 + right) / 2, y=0.015)
        figure.supylabel(MEASURES[measure][1], fontsize=10, x=0.008)
        if draw is _boxes:
            _decades(axes[0, 0])
        if draw is _lines:
            _legend(figure)
        return figure


def _tick(sweep: str, setting: Setting) -> str:
    value = getattr(setting, sweep)
    if sweep == "eta":
        return "10" + str(round(math.log10(value))).translate(SUPERSCRIPT)
    return f"{value:g}"


def _lines(ax: Axes, study: Study, problem: Problem, settings: tuple[Setting, ...], column: str) -> None:
    """Draw one line per score, with its standard errors."""
    # The proposed score comes last and lies on top.
    order = sorted(SCORES, key=lambda s: (s.gfa == "TreeInner", s.domain == "Valid", s.ifa == "PreDecomp"))
    step = 0.5 / len(order)
    for i, score in enumerate(order):
        means = [study.mean(problem, score, column, setting) for setting in settings]
        if not any(m.n for m in means):
            continue
        at = [x + (i - (len(order) - 1) / 2) * step for x in range(len(settings))]
        color, size = COLORS[score.gfa], 7.5 if score.gfa == "Permutation" else 5.0
        ax.plot(
            at, [m.mean for m in means], label=str(score), color=color, linestyle=DASHES[score.domain],
            marker=MARKERS[score.ifa], markersize=size, markeredgecolor="white", markeredgewidth=0.5, zorder=3,
        )  # fmt: skip
        _bars(ax, at, means, color)
    level, style = (0.5, ":") if column == "auc" else (0.0, "-")
    seen = ax.get_ylim()
    ax.axhline(level, color=GREY, linestyle=style, linewidth=1.0, zorder=1)
    if column == "auc":
        ax.set_ylim(seen)  # guessing is drawn where it is in sight, and does not press the lines together


def _bars(ax: Axes, at: Sequence[float], means: Sequence[Mean], color: str) -> None:
    """Draw one standard error up and down, all of a series as one path; none where there is one replication only."""
    x, y = [], []
    for place, m in zip(at, means, strict=True):
        if not math.isnan(m.se):
            x += [place, place, math.nan]
            y += [m.mean - m.se, m.mean + m.se, math.nan]
    ax.plot(x, y, color=color, linewidth=0.9, label="_bars", zorder=2.5)


def _risk(ax: Axes, study: Study, problem: Problem, settings: tuple[Setting, ...], column: str) -> None:
    """Draw the risk, which does not depend on the score."""
    means = [study.risk(problem, setting) for setting in settings]
    at = range(len(settings))
    ax.plot(at, [m.mean for m in means], label=column, color=INK, marker="o", markersize=5.0)
    _bars(ax, at, means, INK)
    ax.margins(y=0.12)


def _boxes(ax: Axes, study: Study, problem: Problem, settings: tuple[Setting, ...], column: str) -> None:
    """Draw the distribution over replications of the error of Proposition 3."""
    groups = [[row[column] for row in study.get(problem, GAIN, s).values()] for s in settings]
    groups = [[max(v, SMALLEST) for v in group if not math.isnan(v)] for group in groups]
    ax.set_yscale("log")
    ax.boxplot(
        groups, positions=range(len(settings)), widths=0.5, patch_artist=True, manage_ticks=False,
        boxprops={"facecolor": "#cfe3f1", "edgecolor": BLUE}, medianprops={"color": VERMILLION, "linewidth": 1.6},
        whiskerprops={"color": BLUE}, capprops={"color": BLUE},
        flierprops={"marker": ".", "markersize": 5, "markerfacecolor": BLUE, "markeredgecolor": "none"},
    )  # fmt: skip


def _decades(ax: Axes) -> None:
    """Limits at whole powers of ten, which alone are labelled."""
    low, high = ax.get_ylim()
    ax.set_ylim(10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high)))
    ax.yaxis.set_minor_formatter("")


def _legend(figure: Figure) -> None:
    """Explain colour, marker and dashes, to the right of the panels."""
    line = Line2D
    blank = Patch(alpha=0.0, linewidth=0)
    named = {"PreDecomp": "PreDecomp", "TreeSHAP": "TreeSHAP", "": "none (Permutation)"}
    rows = {"Train": "training rows", "Valid": "validation rows"}
    handles = [blank, *(line([], [], color=COLORS[g], linewidth=4) for g in COLORS)]
    handles += [
        blank,
        blank,
        *(line([], [], color=INK, marker=MARKERS[i], linestyle="", markersize=6) for i in MARKERS),
    ]
    handles += [blank, blank, *(line([], [], color=INK, linestyle=DASHES[d]) for d in DASHES)]
    labels = ["Score", *COLORS, "", "Attribution", *named.values(), "", "Computed on", *rows.values()]
    legend = figure.legend(handles, labels, loc="center left", bbox_to_anchor=(0.8, 0.5), handlelength=2.4)
    for text in legend.get_texts():
        if text.get_text() in {"Score", "Attribution", "Computed on"}:
            text.set_fontweight("bold")


assert set(LOG) <= set(SWEEPS)
