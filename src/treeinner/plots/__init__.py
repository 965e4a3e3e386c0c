"""Plots: every function takes and returns matplotlib Axes, and makes a figure of suitable size if none are given.

`_style` and `_data` are shared. matplotlib is imported when the first plot is drawn.
Belongs here: how results look. Does not: computing anything that a result does not have.
"""

from treeinner.plots._attributions import beeswarm, dependence, waterfall
from treeinner.plots._curve import curve
from treeinner.plots._scores import bar, gap, rounds

__all__ = ["bar", "beeswarm", "curve", "dependence", "gap", "rounds", "waterfall"]
