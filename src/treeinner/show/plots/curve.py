"""curve(): the held-out loss round by round, cut up by feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treeinner.errors import counted
from treeinner.score.result import Importance
from treeinner.show.plots import style
from treeinner.show.plots.scores import Float, check_kind, choose, name_ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIDES = "\nareas below the dashed line: taken off the loss; above: added to it"
Area = tuple[str, "Float", str, str]  # name, what it took off the loss until each round, colour, hatch
HATCHES = ("", "///", "...", "xxx")  # where there are more features than colours


def curve(importance: Importance, features: int | Sequence[str | int] = 6, *, ax: Axes | None = None) -> Axes:
    """Loss by boosting round, on the rows scored, and how much of its way each feature made.

    Below the dashed line, where the loss was before the first tree, hangs what features took off the loss so far;
    above it stands what others added. The black line, the loss, is as far below the dashed line as the first are higher
    than the second.

    Parameters
    ----------
    importance : Importance
        What `ti.importance(..., score="loss")` returned.
    features : int or sequence
        Names or positions of features, or how many: those whose share goes farthest from zero, helpful or harmful. The
        others are drawn together, those that help apart from those that harm.
    ax : Axes, optional
        Where to draw.
    """
    check_kind(importance, Importance, "curve")
    start, taken, base = _breakdown(importance)
    areas = _areas(importance, choose(importance, features, taken), taken, base)
    names = [name for name, *_ in areas]
    ax, made = style.axes_for(ax, names, height=max(4.2, 0.8 + style.rows_height(len(names) + 1) - 1), width=5.6)

    x = np.arange(len(base))
    ends = []
    below, above = np.full(len(x), start), np.full(len(x), start)
    for name, own, color, hatch in areas:
        lower, upper = below - np.maximum(own, 0.0), above - np.minimum(own, 0.0)
        look: dict[str, Any] = {"facecolor": color, "hatch": hatch, "edgecolor": ax.get_facecolor()}
        ax.fill_between(x, below, lower, linewidth=0.4, label=name, **look)
        ax.fill_between(x, above, upper, linewidth=0.4, **look)
        ends.append(float((below + lower)[-1] / 2 if own[-1] >= 0 else (above + upper)[-1] / 2))
        below, above = lower, upper
    loss = start - taken.sum(axis=1) - base
    ax.axhline(start, color=style.text_color(), linewidth=1.0, linestyle="--")
    ax.plot(x, loss, color=style.text_color(), linewidth=2.2, label="loss")
    lowest = int(loss.argmin())
    dotted = 0 < lowest < len(x) - 1
    if dotted:
        ax.plot([lowest], [loss[lowest]], "o", color=style.text_color(), markersize=6)
    ax.set_xlim(0, len(x) - 1)
    ax.xaxis.set_major_locator(style.matplotlib().ticker.MaxNLocator(integer=True))
    ax.set_xlabel("boosting round" + " (dot: the lowest loss)" * dotted + SIDES)
    ax.set_ylabel(f"{importance.loss_name} per row")
    ax.spines[["top", "right"]].set_visible(False)
    names.append(f"loss: {start:.4g} to {loss[-1]:.4g}")
    ends.append(float(loss[-1]))
    colors = [color if color != style.SILVER else style.GREY for *_, color, _ in areas] + [style.text_color()]
    order = np.argsort(-np.array(ends), kind="stable")
    name_ends(ax, [names[i] for i in order], np.array(ends)[order], [colors[i] for i in order], made=made)
    return ax


def _areas(importance: Importance, chosen: list[int], taken: Float, base: Float) -> list[Area]:
    """Features to be drawn, the others together, and the roots of the trees."""
    n = len(style.OKABE_ITO)
    areas: list[Area] = [
        (importance.feature_names[k], taken[:, k], style.OKABE_ITO[i % n], HATCHES[i // n % len(HATCHES)])
        for i, k in enumerate(chosen)
    ]
    others = np.delete(taken, chosen, axis=1)
    # The two sides apart: what harms must not hide behind what helps.
    for side, words, hatch in ((1.0, "helpful", ""), (-1.0, "harmful", "xxx")):
        part = side * np.maximum(side * others, 0.0)
        if part.any():
            count = int(np.count_nonzero(part[-1]))
            areas.append((f"{counted(count, 'other')}, {words}", part.sum(axis=1), style.GREY, hatch))
    return [*areas, ("base (roots of the trees)", base, style.SILVER, "")]


def _breakdown(importance: Importance) -> tuple[float, Float, Float]:
    """Loss before the first tree, and what features and roots took off it until each round: (rounds + 1, ...)."""
    if importance.score != "loss":
        raise ValueError(
            f"plots.curve draws score='loss', got score={importance.score!r}; use "
            "ti.importance(model, X, y, score='loss')."
        )
    by_round, losses = importance.by_round(), importance.losses
    assert losses is not None
    assert losses.base_rounds is not None
    taken = np.concatenate([np.zeros((1, by_round.shape[1])), np.cumsum(by_round, axis=0)])
    base = np.concatenate([[0.0], np.cumsum(losses.base_rounds)])
    left = losses.before - losses.after - taken[-1].sum() - base[-1]
    if abs(left) > 1e-6 * max(abs(losses.before), abs(losses.after)):
        raise ValueError("plots.curve needs every feature; pass the importance itself, not its top().")
    return losses.before, taken, base
