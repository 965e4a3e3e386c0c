"""Plots: every function takes and returns matplotlib Axes, and makes a figure of fitting size if it gets none.

matplotlib is imported when the first plot is drawn.
"""

from treeinner.plots._attributions import beeswarm, dependence, waterfall
from treeinner.plots._scores import bar, gap, rounds

__all__ = ["bar", "beeswarm", "dependence", "gap", "rounds", "waterfall"]
