"""Plots: every function takes and returns matplotlib Axes, and makes a figure of suitable size if none are given.

    scores      bar, gap, rounds
    curve       the loss by round, cut up by feature
    partial     what a feature contributes, against what is left to explain without it
    style       colours, sizes, names that fit

matplotlib is imported when the first plot is drawn. Attributions are drawn by shap: `attribution.to_shap()`.
Belongs here: how results look. Does not: computing anything that a result does not have.
"""

from treeinner.show.plots.curve import curve
from treeinner.show.plots.partial import partial
from treeinner.show.plots.scores import bar, gap, rounds

__all__ = ["bar", "curve", "gap", "partial", "rounds"]
