"""partial(): what a feature contributes to the model, against what is left to explain without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treeinner.errors import DataError, listing
from treeinner.explain.partial import CONFIDENCE, PartialResiduals, partial_residuals
from treeinner.read import read_model
from treeinner.score.importance import importance as score_rows
from treeinner.score.result import Importance
from treeinner.show.plots import style
from treeinner.show.plots.scores import Float
from treeinner.show.table import UNCLEAR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_DOTS = 2000  # rows; more are drawn as hexagons
PANEL_INCHES = (3.4, 3.0)
MEANS = f"mean of similar rows, {100 * CONFIDENCE:.0f} % interval"
PLAIN: dict[str, Any] = {"parse_math": False, "fontsize": "medium"}  # names may hold dollars


def partial(
    model: Any,
    X: Any,
    y: Any = None,
    features: str | Sequence[str | int] | None = None,
    *,
    output: Any = None,
    importance: Importance | None = None,
    max_display: int = 6,
    ax: Any = None,
    show: bool = False,
    **given: Any,
) -> Any:
    """Where the model's effect of a feature is true on new rows, and where it is not: two pictures of each feature.

    Left, every dot is a row (above 2,000 rows, hexagons): across, what the feature contributes to its prediction; up,
    what is left to explain without the feature. On the dashed diagonal the model is right; the line that fits the rows
    has the slope `holds`. Right, over the feature's own values: the mean contribution as a line, and the mean of what
    is left to explain as points. Points have 95 % intervals; missing values are a diamond.

    Contributions are centred attributions (`ti.attribute(model, X, method="centred", reference=imp)`), on the scale of
    the margin. What is left is the contribution plus g / h, where g is minus the gradient of the loss at the model's
    margin, and h its mean curvature on the way that the feature's contribution goes (rows count by their weight times
    the square of the contribution). For squared error h is 1: it is the target less what all other features say. With
    this h, the slope of the line through 0 by (weighted) least squares is exactly `importance.holds`, for any loss.

    Parameters
    ----------
    model, X, y
        As for `importance`: rows that the model has not seen.
    features : str or sequence, optional
        Names or positions of features; by default those with the best scores.
    output : optional
        Label of a class or target; by default, for each feature, the one in which its score is largest.
    importance : Importance, optional
        What `ti.importance` returned for the same rows; it is worked out if not given.
    max_display : int
        How many of these.
    ax : Axes or array of Axes, optional
        Where to draw: two Axes for each feature, or one for its left picture alone.
    show : bool
        Whether to show the figure, as shap's plots do.
    **given
        sample_weight, clusters, base_margin, qid, feature_groups, n_jobs: as for `importance`.

    Returns
    -------
    array of Axes
        (features, 2): left and right picture; one Axes if one was given.
    """
    model = read_model(model)
    imp = score_rows(model, X, y, **given) if importance is None else importance
    style.check_kind(imp, "Importance", "partial")
    chosen = style.choose(features, imp.feature_names, imp.scores, max_display)
    chosen = [k for k in chosen if features is not None or imp.scores[k] > 0]
    parts = list(partial_residuals(model, X, imp, chosen, output=output, y=y, **given))
    unused = {imp.feature_names[k] for k in chosen} - {part.feature for part in parts}
    if not parts or (unused and features is not None):
        which = listing(sorted(unused)) or "any feature"
        raise DataError(f"There is no effect of {which} to draw: the same contribution, or none, in all of these rows.")
    axes = style.panels(ax, len(parts), 2, 2 if len(parts) < 3 else 4, PANEL_INCHES)
    width, size = style.axes_points(axes[0, 0])[0], style.font_points("axes.labelsize")
    names = style.shorten([part.feature for part in parts], width, size)
    titles: list[str] = []
    for name, part, pair in zip(names, parts, axes, strict=True):
        _draw_rows(pair[0], part, "margin" if model.loss is None else model.loss.unit)
        for right in pair[1:]:
            _draw_values(right, part)
            right.set_xlabel(name, **PLAIN)
        titles += [f"{name}: {finding(part)}", ""][: len(pair)]
    style.figure_legend(axes.ravel())
    style.finish(axes.ravel(), titles, style.arrange_ticks, show=show)
    return axes if axes.size > 1 else ax


def finding(part: PartialResiduals) -> str:
    """What the pictures of a feature show: "82 ± 10 % of the effect holds", or "holds 2.12 ± 0.39"."""
    where = f" for {part.output}" if part.output else ""
    if not part.std_error < UNCLEAR:
        return f"how much of the effect{where} holds is not clear"
    if not 0 <= part.slope <= 1:
        return style.typographic(f"holds {part.slope:.2f} ± {part.std_error:.2f}{where}")
    return f"{100 * part.slope:.0f} ± {100 * part.std_error:.0f} % of the effect{where} holds"


def _draw_rows(ax: Axes, part: PartialResiduals, unit: str) -> None:
    """Rows, the means of bins of them, the line that fits them best, and the diagonal."""
    x, y, ink = part.contribution, part.residual, style.text_color()
    means, ends = part.means(x)[1], np.array([x.min(), x.max()])
    # Rows spread far more than means: the picture goes by the means, and says how many rows are outside.
    low, high = _limits(means, np.concatenate([ends, part.slope * ends]), 0.5)
    inside = (y >= low) & (y <= high)
    if len(x) > MOST_DOTS:
        colors = style.matplotlib().colors
        shades = colors.LinearSegmentedColormap.from_list("", [colors.to_rgba(ink, alpha) for alpha in (0.08, 0.5)])
        hexagons: dict[str, Any] = {"reduce_C_function": np.sum, "gridsize": 28, "cmap": shades, "linewidths": 0}
        ax.hexbin(x[inside], y[inside], part.weight[inside], zorder=1, **hexagons)
    else:
        ax.scatter(x, y, s=min(6.0, 3000 / len(x)), color=ink, alpha=0.45, linewidths=0, zorder=1, label="a row")
    ax.plot(ends, part.slope * ends, color=ink, linewidth=2, label="line that fits the rows best: its slope is holds")
    ax.plot(ends, ends, "--", color=style.BLUE, linewidth=2, label="the model is right")
    _draw_means(ax, means["at"], means)
    outside = f"; {100 * (1 - inside.mean()):.2g} % of the rows lie outside" if not inside.all() else ""
    ax.set(ylim=(low, high), xlabel=f"contribution ({unit}){outside}", ylabel="left to explain without it")


def _draw_values(ax: Axes, part: PartialResiduals) -> None:
    """Mean contribution as a line and mean of what is left as points, over the values of the feature."""
    if part.values is None:
        ax.axis("off")  # a group of features has no values
        return
    names, means = part.means(part.values)
    at, gap = means["at"].copy(), np.isnan(means["at"])
    known = np.append(at[~gap], at[~gap][:1] if len(at) > 1 else 0.0)
    at[gap] = known.max() + max(0.1 * np.ptp(known), 1.0 if names else 0.0)  # beside the others
    single = gap | bool(names)
    look: dict[str, Any] = {"color": style.BLUE, "linewidth": 2, "markersize": 16, "markeredgewidth": 2.4, "zorder": 2}
    ax.plot(at[~single], means["contribution"][~single], label="mean contribution", **look)
    ax.plot(at[single], means["contribution"][single], "_", **look)
    for here, marker, label in ((~gap, "o", MEANS), (gap, "D", "missing values")):
        if here.any():
            _draw_means(ax, at[here], {name: column[here] for name, column in means.items()}, marker, label)
    style.zero_line(ax, "y")
    ax.set_ylim(_limits(means, means["contribution"], 0.1))
    if names:
        short = style.shorten(names, 0.4 * style.axes_points(ax)[0], style.font_points())
        ax.set_xticks(range(len(names)), short, rotation=35, ha="right", rotation_mode="anchor", **PLAIN)


def _draw_means(ax: Axes, x: Float, means: dict[str, Float], marker: str = "o", label: str = MEANS) -> None:
    """Mean residuals with their intervals."""
    look: dict[str, Any] = {"markeredgecolor": ax.get_facecolor(), "markersize": 6, "linewidth": 1.4, "zorder": 3}
    half = means["high"] - means["residual"]
    ax.errorbar(x, means["residual"], half, fmt=marker, color=style.text_color(), label=label, **look)


def _limits(means: dict[str, Float], others: Float, room: float) -> tuple[float, float]:
    """Ends of an axis with means and other marks, some room around them, and intervals of the usual length."""
    marks, half = np.concatenate([means["residual"], others]), means["high"] - means["residual"]
    pad = room * np.ptp(marks) + float(np.nanmedian(half) if np.isfinite(half).any() else 0.0)
    return float(marks.min() - pad), float(marks.max() + pad)
