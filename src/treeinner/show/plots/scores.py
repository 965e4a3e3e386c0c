"""bar(), gap() and stability(): a row for each feature: its score, on two sides, and its rank in every fold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.score.compare import Comparison
from treeinner.score.result import LEVEL, Importance, ranks_of
from treeinner.show.plots import style
from treeinner.show.table import UNCLEAR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float = NDArray[np.float64]
CONFIDENCE = 0.95  # of the intervals
COLUMN_INCHES = 1.0  # room for a column beside the bars
NARROW = 200.0  # points: gauges have no numbers
# What is said of a feature -> colour, marker, and whether the marker is filled: nobody needs the colours alone.
LOOKS: dict[str, tuple[str, str, bool]] = {
    "signal": (style.BLUE, "o", True),
    "better": (style.BLUE, "o", True),
    "unclear": (style.GREY, "o", False),
    "harmful": (style.VERMILLION, "X", True),
    "worse": (style.VERMILLION, "X", True),
    "differs clearly from all other rows": (style.BLUE, "o", True),
    "no clear difference": (style.GREY, "o", False),
    "above 0": (style.BLUE, "", True),
    "0 or below": (style.GREY, "", True),
}
# What features do that have signal, by score: one, several.
VERBS = {"loss": ("lowers the loss", "lower the loss"), "permutation": ("matters", "matter")}


def bar(
    importance: Importance, *, total_gain: Importance | None = None, max_display: int = 20, ax: Axes | None = None,
    show: bool = False,
) -> Axes:  # fmt: skip
    """Scores with their intervals, best on top: what is clear is a filled mark, what is unclear a hollow grey one.

    Beside the bars, `holds` as a gauge: full if all of the effect is true on new rows.

    Parameters
    ----------
    importance : Importance
        What `ti.importance` returned.
    total_gain : Importance, optional
        Total gain of the same features (`ti.total_gain(model)`): its ranks stand in a column of their own, from the
        best on the right to the worst on the left.
    max_display : int
        How many features to show; the others are counted.
    ax : Axes, optional
        Where to draw.
    show : bool
        Whether to show the figure, as shap's plots do.
    """
    style.check_kind(importance, "Importance", "bar")
    names, order = importance.feature_names, importance.order
    scores, states = importance.scores, _states(importance)
    gauges = importance.tested and importance.holds is not None
    beside = COLUMN_INCHES * (gauges + (total_gain is not None))
    ax, first = style.rows_for(ax, names, order, max_display, width=style.BODY_INCHES + beside)

    y, shown, rest = np.arange(len(first)), [states[k] for k in first], order[len(first) :]
    ax.barh(y, scores[first], height=0.5, color=[LOOKS[state][0] for state in shown], zorder=2)
    ends = draw_scores(ax, scores[first], y, shown, [side[first] for side in importance.interval(CONFIDENCE)])
    style.zero_line(ax)
    texts = [style.number(scores[k]) for k in first]
    texts += [f"together {style.number(scores[rest].sum())}"] * (len(rest) > 0)
    style.write_numbers(ax, [*np.maximum(ends, 0.0), 0.0][: len(texts)], texts)
    if gauges:
        _draw_holds(ax, importance, first, [LOOKS[state][0] for state in shown])
    if total_gain is not None:
        style.check_kind(total_gain, "Importance", "bar(..., total_gain=...)")
        ranks = ranks_of(scores_by_name(total_gain, names, "total_gain"))
        _draw_ranks(ax, ranks[first], len(ranks))
    return style.finish_rows(ax, finding(importance), score_label(importance), show=show)


def finding(importance: Importance) -> str:
    """What the bars show, in a sentence: "bmi and s5 carry signal; random is harmful; 7 are unclear"."""
    states, names = np.array(_states(importance)), np.array(importance.feature_names)[importance.order]
    states, used = states[importance.order], importance.scores[importance.order] != 0
    label = "" if importance.output_names is None or importance.outputs is not None else importance.output_names[0]
    start = f"output {style.cut(label)}: " if label else ""
    if not used.any():
        return start + ("All scores are 0" if len(names) else "No features are used")
    if not importance.tested:
        return start + f"Largest {importance.title}: {style.listed(names[used][:3].tolist())}"
    good, bad, open_ = (names[used & (states == state)].tolist() for state in ("signal", "harmful", "unclear"))
    one, several = VERBS.get(importance.score, ("carries signal", "carry signal"))
    parts = [style.said(good, one, several) if good else f"No feature clearly {one}"]
    parts += [style.said(bad, "is harmful", "are harmful")] * bool(bad)
    if open_ and (good or bad):
        who = style.listed(open_) if len(open_) < 3 else str(len(open_))
        parts.append(f"{who} {'is' if len(open_) == 1 else 'are'} unclear")
    return start + "; ".join(parts)


def _states(importance: Importance) -> list[str]:
    """What is said of every feature: its verdict, else whether its score is above 0."""
    signs = np.where(importance.scores > 0, "above 0", "0 or below").tolist()
    return [verdict or sign for verdict, sign in zip(importance.verdicts, signs, strict=True)]


def draw_scores(ax: Axes, x: Float, y: Any, states: Sequence[str], interval: Sequence[Float], words: str = "") -> Float:
    """A mark for each row, by what is said of it, over its interval if that is known; how far right each row goes."""
    for state in (one for one in LOOKS if one in states and LOOKS[one][1]):
        color, marker, filled = LOOKS[state]
        here = np.array([one == state for one in states])
        look: dict[str, Any] = {"facecolors": color, "edgecolors": ax.get_facecolor(), "linewidths": 0.8}
        if not filled:
            look = {"facecolors": ax.get_facecolor(), "edgecolors": color, "linewidths": 1.6}
        label = state + f" (q <= {LEVEL:g})" * (state in ("signal", "better", "worse"))
        size = min(42.0, 1500.0 / len(states))
        ax.scatter(x[here], y[here], s=size, marker=marker, zorder=4, label=label, **look)
    if not len(interval):
        return x
    low, high = interval
    known = np.isfinite(low) & np.isfinite(high) & (high > low)
    if known.any():
        line: dict[str, Any] = {"color": style.text_color(), "linewidth": 1.3, "zorder": 3}
        ax.hlines(y[known], low[known], high[known], label=f"{CONFIDENCE:.0%} interval{words}", **line)
    return np.where(known, np.maximum(x, high), x)


def scores_by_name(importance: Importance, names: Sequence[str], what: str) -> Float:
    """Scores of these features, in this order."""
    position = {name.replace(" ", "_"): i for i, name in enumerate(importance.feature_names)}  # as LightGBM has them
    lost = [name for name in names if name.replace(" ", "_") not in position]
    if lost:
        raise ValueError(f"{what} has no feature {lost[0]!r}; pass that of the same model and feature groups.")
    return importance.scores[[position[name.replace(" ", "_")] for name in names]]


def _draw_holds(ax: Axes, importance: Importance, first: NDArray[np.intp], colors: Sequence[str]) -> None:
    """Gauges of `holds`: the frame is the whole effect, the filled part what holds, the line one standard error."""
    holds, error = (np.asarray(importance.columns()[name])[first] for name in ("holds", "holds_std_error"))
    clear = error < UNCLEAR
    side, y, ink = style.side_panel(ax, "holds"), np.flatnonzero(clear), style.text_color()
    look: dict[str, Any] = {"height": 0.42, "linewidth": 0.8, "clip_on": False}
    side.barh(y, np.clip(holds[clear], 0.0, 1.0), color=np.array(colors)[clear], **look)
    side.barh(y, np.ones(len(y)), facecolor="none", edgecolor=ink, **look)
    low, high = (np.clip(holds[clear] + way * error[clear], 0.0, 1.0) for way in (-1, 1))
    side.hlines(y, low, high, color=ink, linewidth=1.0)
    side.set_xlim(0.0, 1.0)
    if style.axes_points(ax)[0] > NARROW:
        style.write_numbers(side, np.ones(len(y)), [style.typographic(f"{one:.2f}") for one in holds[clear]], y)


def _draw_ranks(ax: Axes, ranks: NDArray[np.intp], n: int) -> None:
    """Ranks as dots, the best on the right, with their numbers."""
    side, x, y = style.side_panel(ax, "gain\nrank"), -np.log(ranks), np.arange(len(ranks))
    side.set_xlim(-np.log(n + 1.0), 0.1)
    side.scatter(x, y, s=16, color=style.PALETTE[4], clip_on=False)
    style.write_numbers(side, x, [f"{rank:,}" for rank in ranks], y)


def gap(comparison: Comparison, *, max_display: int = 20, ax: Axes | None = None, show: bool = False) -> Axes:
    """Score on the first rows (ring) and on the second (mark with its interval), best of the second on top.

    With training rows first, a feature that falls from its ring to zero was overfitted. The mark is the verdict on the
    second rows.

    Parameters
    ----------
    comparison : Comparison
        What `ti.compare` returned.
    max_display : int
        How many features to show: those with the largest score on either side.
    ax, show
        As for `bar`.
    """
    style.check_kind(comparison, "Comparison", "gap")
    after = comparison.after
    a, b = comparison.before.scores, after.scores
    shown = style.more(len(b), max_display)[0]
    order = np.argsort(-np.maximum(np.abs(a), np.abs(b)), kind="stable")
    order[:shown] = order[:shown][np.argsort(-b[order[:shown]], kind="stable")]
    ax, first = style.rows_for(ax, comparison.feature_names, order, max_display)

    y, states = np.arange(shown), [_states(after)[k] for k in first]
    before, later = comparison.names
    ring: dict[str, Any] = {"facecolors": ax.get_facecolor(), "edgecolors": style.text_color(), "linewidths": 1.6}
    ax.scatter(a[first], y, s=42, zorder=3, label=before, **ring)
    ax.hlines(y, a[first], b[first], color=[LOOKS[state][0] for state in states], linewidth=3, zorder=1)
    draw_scores(ax, b[first], y, states, [side[first] for side in after.interval(CONFIDENCE)], f", {later}")
    style.zero_line(ax)
    worst = int((a - b).argmax()) if len(a) else 0
    title = f"No feature falls from {before} to {later}"
    if len(a) and a[worst] > b[worst]:
        name = style.cut(comparison.feature_names[worst])
        title = f"From {before} to {later}, {name} falls most: {style.number(a[worst])} to {style.number(b[worst])}"
    return style.finish_rows(ax, title, score_label(after), show=show)


def stability(importance: Importance, *, max_display: int = 20, ax: Axes | None = None, show: bool = False) -> Axes:
    """Rank of every feature in every fold of a cross-validation (small dots), and over all rows (mark).

    Parameters
    ----------
    importance : Importance
        What `ti.cross_importance` returned.
    max_display : int
        How many features to show, best first.
    ax, show
        As for `bar`.
    """
    style.check_kind(importance, "Importance", "stability")
    if importance.folds is None:
        raise ValueError("plots.stability draws the ranks in folds; use ti.cross_importance(estimator, X, y).")
    ranks = importance.folds.ranks
    ax, first = style.rows_for(ax, importance.feature_names, importance.order, max_display)

    low, high = ranks[:, first].min(axis=0), ranks[:, first].max(axis=0)
    y, states = np.arange(len(first)), [_states(importance)[k] for k in first]
    ax.hlines(y, low, high, color=style.GREY, linewidth=1.3, zorder=1)
    dots: dict[str, Any] = {"s": 14, "color": style.text_color(), "zorder": 3, "label": "a fold"}
    ax.scatter(ranks[:, first].ravel(), np.tile(y, len(ranks)), **dots)
    draw_scores(ax, importance.ranks[first].astype(np.float64), y - 0.3, states, [])
    texts = [f"{a}" if a == b else f"{a} to {b}" for a, b in zip(low, high, strict=True)]
    style.write_numbers(ax, high, texts)
    ax.xaxis.set_major_locator(style.matplotlib().ticker.MaxNLocator(integer=True))
    label = f"rank of {len(importance)} by {importance.title}"
    return style.finish_rows(ax, _stable(importance, ranks), label, show=show)


def _stable(importance: Importance, ranks: NDArray[np.intp]) -> str:
    """What the ranks show: which features are among the first in every fold, and how alike the folds are."""
    assert importance.folds is not None
    few = min(5, (ranks.shape[1] + 1) // 2)
    always = [importance.feature_names[k] for k in importance.order if ranks[:, k].max() <= few]
    who = style.said(always, "is", "are") if always else "No feature is"
    alike = importance.folds.rank_stability
    tail = "" if np.isnan(alike) else f"; rank correlation of folds {style.typographic(f'{alike:.2f}')}"
    return f"{who} among the first {few} in all {len(ranks)} folds{tail}"


def score_label(importance: Importance) -> str:
    """Label of an axis of scores: what they are called, and their unit."""
    title = importance.title
    if importance.output_names is not None and importance.outputs is None:
        title = f"output {importance.output_names[0]}, {title}"
    return f"{title}: {importance.unit}"
