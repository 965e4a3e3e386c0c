"""Plots: every function takes and returns matplotlib Axes, and makes a figure of suitable size if none are given.

    scores      bar, gap, stability: a row for each feature
    lines       rounds, curve, ranks: lines with names at their ends
    change      change, segments, over_time: why a loss changed, where and when a feature behaves otherwise
    partial     what a feature contributes, against what is left to explain without it
    style       colours, numbers, names that fit, and room for everything

matplotlib is imported when the first plot is drawn. Attributions are drawn by shap: `attribution.to_shap()`.
Belongs here: how results look. Does not: computing anything that a result does not have.
"""

from treeinner.show.plots.change import change, over_time, segments
from treeinner.show.plots.lines import curve, ranks, rounds
from treeinner.show.plots.partial import partial
from treeinner.show.plots.scores import bar, gap, stability

__all__ = ["bar", "change", "curve", "gap", "over_time", "partial", "ranks", "rounds", "segments", "stability"]
