"""Plots: every function takes and returns matplotlib Axes, and makes a figure of fitting size if it gets none.

matplotlib is imported when the first plot is drawn.
"""

from treeinner.plots._bar import bar
from treeinner.plots._beeswarm import beeswarm
from treeinner.plots._dependence import dependence
from treeinner.plots._gap import gap
from treeinner.plots._rounds import rounds
from treeinner.plots._waterfall import waterfall

__all__ = ["bar", "beeswarm", "dependence", "gap", "rounds", "waterfall"]
