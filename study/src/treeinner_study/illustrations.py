"""Two propositions about infinitely many rows, measured on finitely many: Proposition 2, and that of section S7.

Both train XGBoost on data made here, from a fixed seed, and measure with `scores.py`. They do not depend on the
study's results and take a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from matplotlib.figure import Figure
from numpy.typing import NDArray

from treeinner_study import scores
from treeinner_study.figures import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, VERMILLION, drawing, save
from treeinner_study.records import Mean, plus_minus, signed

__all__ = ["Illustration", "illustrate", "measure_proposition_2", "measure_s7"]

FloatArray = NDArray[np.float64]
SEED = 20230420
ETA = 0.1

# Proposition 2
ROWS = (400, 4000, 40_000)
TREES = (5, 10, 20, 40, 80, 160, 320)
METHODS = {"predecomp": "PreDecomp", "saabas": "Saabas"}
COMPONENTS = ("h₁: sine of x₁", "h₂: cubic in x₂", "h₃: step at x₃ = 0.7", "h₄: nothing")
L2 = 10.0  # large, so that what tells PreDecomp from Saabas can be seen

# S7
S7_ROWS = (250, 1000, 4000, 16_000)
S7_REPLICATIONS = 6
S7_ROUNDS = 40
CARDINALITY = (2, 8, 32, 128, 512)  # of the noise features


@dataclass(frozen=True)
class Illustration:
    """A figure with what it shows and what was measured."""

    name: str
    title: str
    caption: str
    alt: str
    path: Path


def illustrate(folder: Path) -> list[Illustration]:
    """Measure and draw both."""
    return [_draw_proposition_2(folder / "proposition-2.svg"), _draw_s7(folder / "s7.svg")]


def _train(X: FloatArray, y: FloatArray, rounds: int, *, max_depth: int, reg_lambda: float) -> scores.Model:
    """Train on one thread, so that the same data give the same model; it is read once."""
    parameters = {
        "objective": "reg:squarederror", "base_score": 0.0, "tree_method": "hist", "nthread": 1, "seed": 0, "eta": ETA,
        "max_depth": max_depth, "reg_lambda": reg_lambda,
    }  # fmt: skip
    model = xgboost.train(parameters, xgboost.DMatrix(X, label=y, nthread=1), rounds)
    return scores.read(model, objective="reg:squarederror", eta=ETA, reg_lambda=reg_lambda)


# -- Proposition 2 -----------------------------------------------------------------------------------------
def components(X: FloatArray) -> FloatArray:
    """h_k(x_k), each with mean 0 over the uniform distribution: (rows, 4)."""
    cube = 3.5 * (2.0 * X[:, 1] - 1.0) ** 3
    step = 2.0 * ((X[:, 2] > 0.7) - 0.3)
    return np.column_stack([np.sin(2 * np.pi * X[:, 0]), cube, step, np.zeros(len(X))])


@dataclass(frozen=True, eq=False)
class Recovery:
    """Proposition 2, measured on fresh rows."""

    X: FloatArray  # (rows, 4), fresh
    values: dict[int, FloatArray]  # training rows -> PreDecomp after the best number of trees
    best: dict[int, int]  # training rows -> that number
    error: dict[tuple[str, int], list[float]]  # (method, training rows) -> sum over k of E (f_k - h_k)^2, for TREES


def measure_proposition_2(rows: tuple[int, ...] = ROWS, trees: tuple[int, ...] = TREES) -> Recovery:
    """Train on more and more rows of an additive model, and compare attributions with its components."""
    rng = np.random.default_rng(SEED)
    fresh = rng.uniform(size=(1000, 4))
    truth = components(fresh)
    values, best, error = {}, {}, {}
    for n in rows:
        X = rng.uniform(size=(n, 4))
        y = components(X).sum(axis=1) + rng.normal(size=n)
        model = _train(X, y, max(trees), max_depth=3, reg_lambda=L2)
        for method in METHODS:
            found = [scores.attributions(model, fresh, method, m) for m in trees]
            error[method, n] = [float(((f - truth) ** 2).mean(axis=0).sum()) for f in found]
            if method == "predecomp":
                least = int(np.argmin(error[method, n]))
                values[n], best[n] = found[least], trees[least]
    return Recovery(fresh, values, best, error)


def _draw_proposition_2(path: Path) -> Illustration:
    measured = measure_proposition_2()
    colors = dict(zip(ROWS, (ORANGE, GREEN, BLUE), strict=True))
    with drawing():
        figure = Figure(figsize=(9.6, 6.4), layout="constrained")
        grid = figure.add_gridspec(2, 4, height_ratios=(1, 1.25))
        some = slice(0, 120)  # points enough to see the shape
        for k, name in enumerate(COMPONENTS):
            ax = figure.add_subplot(grid[0, k])
            order = np.argsort(measured.X[:, k])
            ax.plot(
                measured.X[order, k][::5], components(measured.X)[order, k][::5], color=INK, linewidth=1.0, zorder=4
            )
            for n in (ROWS[0], ROWS[-1]):
                ax.plot(measured.X[some, k], measured.values[n][some, k], ".", color=colors[n], markersize=2.5)
            ax.set_title(name, fontsize=9)
            ax.set_ylim(-3.9, 3.9)
            ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
            if k:
                ax.tick_params(labelleft=False)
            else:
                ax.set_ylabel("attribution")
        ax = figure.add_subplot(grid[1, :])
        for n in ROWS:
            for method, style in (("predecomp", "-"), ("saabas", (0, (2.5, 1.5)))):
                label = f"{METHODS[method]}, {n} rows"
                marker = "o" if method == "predecomp" else None
                ax.plot(
                    TREES,
                    measured.error[method, n],
                    color=colors[n],
                    linestyle=style,
                    marker=marker,
                    markersize=4,
                    label=label,
                )
        ax.set(xscale="log", yscale="log", xlabel="trees (log scale)", ylabel="Σ E (fₖ - hₖ)²  (log scale)")
        ax.set_xticks(TREES, [str(m) for m in TREES])
        ax.minorticks_off()
        ax.legend(loc="upper right", ncols=3)
        save(figure, path)
    return Illustration(
        "proposition-2", "Proposition 2: an additive model and its attributions", *_told(measured), path
    )


def _told(measured: Recovery) -> tuple[str, str]:
    """Caption and alternative text of the figure of Proposition 2."""
    least = {n: min(measured.error["predecomp", n]) for n in ROWS}
    last = {n: measured.error["predecomp", n][-1] for n in ROWS}
    saabas = {n: min(measured.error["saabas", n]) for n in ROWS}
    caption = (
        "An additive model of four independent features (the fourth without effect), noise of variance 1, squared "
        f"error, depth 3, reg_lambda {L2:g}. Above: the components (lines) and PreDecomp of 120 fresh rows (dots) "
        f"from {ROWS[0]} (orange) and {ROWS[-1]} (blue) training rows, each after its best number of trees "
        f"({measured.best[ROWS[0]]} and {measured.best[ROWS[-1]]}). Below: squared error of the attributions on 1000 "
        "fresh rows, summed over the features. The smallest error of PreDecomp is "
        + ", ".join(f"{least[n]:.3g} with {n} rows (Saabas {saabas[n]:.3g})" for n in ROWS)
        + f". After {TREES[-1]} trees it is "
        + ", ".join(f"{last[n]:.3g}" for n in ROWS)
        + "."
    )
    if last[ROWS[0]] > least[ROWS[0]]:
        caption += " With few rows more trees in the end fit noise; the proposition is about infinitely many rows."
    alt = (
        f"The smallest error of PreDecomp goes from {least[ROWS[0]]:.3g} to {least[ROWS[-1]]:.3g} as the training "
        f"rows grow from {ROWS[0]} to {ROWS[-1]}."
    )
    return caption, alt


# -- S7 ----------------------------------------------------------------------------------------------------
DASHED, LABEL = (0, (2.5, 1.5)), partial(scores.forest_inner, against="label")
S7_SCORES: dict[str, tuple[str, Callable[..., FloatArray], str, Any]] = {  # name -> rows, score, colour, dashes
    "total gain, training rows": ("train", scores.tree_inner, VERMILLION, DASHED),
    "ForestInner, training rows": ("train", scores.forest_inner, ORANGE, DASHED),
    "… times the label": ("train", LABEL, PURPLE, DASHED),
    "TreeInner, held-out rows": ("valid", scores.tree_inner, VERMILLION, "-"),
    "ForestInner, held-out rows": ("valid", scores.forest_inner, ORANGE, "-"),
    "… times the label ": ("valid", LABEL, PURPLE, "-"),
}


def measure_s7(rows: tuple[int, ...] = S7_ROWS, replications: int = S7_REPLICATIONS) -> dict[str, list[Mean]]:
    """Sum of the noise features' scores over that of the relevant ones, for each score and number of rows."""
    out: dict[str, list[Mean]] = {name: [] for name in S7_SCORES}
    for n in rows:
        shares: dict[str, list[float]] = {name: [] for name in S7_SCORES}
        for replication in range(replications):
            rng = np.random.default_rng([SEED, n, replication])
            sides = {"train": _s7_data(rng, n), "valid": _s7_data(rng, 2000)}
            model = _train(*sides["train"], S7_ROUNDS, max_depth=4, reg_lambda=1.0)
            for name, (side, score, *_) in S7_SCORES.items():
                found = score(model, *sides[side])
                shares[name].append(float(found[3:].sum() / found[:3].sum()))
        for name, values in shares.items():
            out[name].append(Mean.of(values))
    return out


def _s7_data(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
    """Three relevant features, which depend on each other and interact, and five of noise."""
    relevant = rng.normal(size=(n, 3))
    relevant[:, 1] += 0.7 * relevant[:, 0]
    noise = np.column_stack([rng.integers(0, c, size=n) for c in CARDINALITY])
    signal = relevant[:, 0] + 0.5 * relevant[:, 1] * relevant[:, 2]
    return np.hstack([relevant, noise]).astype(np.float64), signal + rng.normal(scale=1.5, size=n)


def _draw_s7(path: Path) -> Illustration:
    measured = measure_s7()
    with drawing():
        figure = Figure(figsize=(9.6, 4.6), layout="constrained")
        ax = figure.subplots()
        ax.axhline(0.0, color=GREY, linewidth=1.0)
        for i, (name, (_, _, color, style)) in enumerate(S7_SCORES.items()):
            x = [n * 1.05 ** (i - 2.5) for n in S7_ROWS]
            y, se = [m.mean for m in measured[name]], [m.se for m in measured[name]]
            ax.errorbar(
                x, y, yerr=se, color=color, linestyle=style, marker="o", markersize=4, elinewidth=1.0, label=name
            )
        ax.set(xscale="log", xlabel="training rows (log scale)", ylabel="noise features over relevant ones")
        ax.set_yscale("symlog", linthresh=0.01)
        ax.set_yticks([-1, -0.1, -0.01, 0, 0.01, 0.1, 1], ["-1", "-0.1", "-0.01", "0", "0.01", "0.1", "1"])
        ax.set_xticks(S7_ROWS, [str(n) for n in S7_ROWS])
        ax.minorticks_off()
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        save(figure, path)
    ends = {name: f"{signed(m[0])} to {signed(m[-1], 4)}" for name, m in measured.items()}
    caption = (
        "Section S7: with infinitely many rows the ForestInner score of a noise feature goes to 0. Three relevant "
        "features, which depend on each other and interact, and five of noise with "
        f"{', '.join(map(str, CARDINALITY))} values; {S7_ROUNDS} rounds. Shown is the sum of the noise features' "
        f"scores over that of the relevant ones, mean of {S7_REPLICATIONS} replications, bars: one standard error; "
        f"linear between -0.01 and 0.01, logarithmic beyond. From {S7_ROWS[0]} to {S7_ROWS[-1]} training rows it goes "
        "from " + "; ".join(f"{ends[name]} ({_spoken(name)})" for name in S7_SCORES) + "."
    )
    if measured["ForestInner, training rows"][0].sign() > 0:
        caption += " On few training rows noise has its share; S7 is about the limit and not about a sample one has."
    first, last = (measured["ForestInner, training rows"][i] for i in (0, -1))
    alt = f"ForestInner's share of noise on the training rows goes from {plus_minus(first)} to {plus_minus(last, 4)}."
    return Illustration("s7", "S7: noise in ForestInner as the rows grow", caption, alt, path)


def _spoken(name: str) -> str:
    """Name of a score outside the legend, where the dots have nothing to repeat."""
    side = S7_SCORES[name][0]
    rows = "training rows" if side == "train" else "held-out rows"
    return f"ForestInner times the label, {rows}" if name.startswith("…") else name
