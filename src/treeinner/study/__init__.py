"""The paper's simulation study, whole: four problems, five sweeps, 20 replications, every table and figure.

`run_study` runs what is missing and stores it; `show.write_outputs` draws tables, figures and the page from what is
stored. Both are behind the command `treeinner study`. Nothing is used but treeinner's public functions.
"""

from treeinner.study.grid import STANDARD, SWEEPS, Setting
from treeinner.study.names import PROBLEMS, Problem
from treeinner.study.problems import make_data
from treeinner.study.run import Plan, run_study

__all__ = ["PROBLEMS", "STANDARD", "SWEEPS", "Plan", "Problem", "Setting", "make_data", "run_study"]
