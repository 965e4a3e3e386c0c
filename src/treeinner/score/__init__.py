"""Everything between rows and an Importance.

    importance      the call, on one screen
    spec            what is asked, checked once
    passes          once over the rows: leaf sums, shares of the rows
    sums            Sums: what is kept of the rows; they add up to the same bits in any partition
    infer           from sums to standard errors, p and q values
    conclude        from sums to an Importance, and what must be said about it
    result          Importance
    accumulator, partitions, average       what stands on the passes
    compare, change, shift      two sets of rows, or two models: why the loss differs; rows that moved or changed
    baselines, permutation      what others compute
    training_rows   whether rows were used for training

Belongs here: sums over rows. Does not: single predictions, how results look.
"""

from treeinner.score.accumulator import ImportanceAccumulator
from treeinner.score.baselines import forest_inner, mean_abs, total_gain
from treeinner.score.compare import Comparison, Rows, compare
from treeinner.score.importance import importance
from treeinner.score.permutation import permutation_importance
from treeinner.score.result import Importance

__all__ = [
    "Comparison", "Importance", "ImportanceAccumulator", "Rows", "compare", "forest_inner",
    "importance", "mean_abs", "permutation_importance", "total_gain",
]  # fmt: skip
