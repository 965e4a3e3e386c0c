"""Global importance: the families of scores, their standard errors, and sums that add up over batches."""

from treeinner.scores.accumulator import ImportanceAccumulator
from treeinner.scores.compare import Comparison, compare
from treeinner.scores.importance import importance
from treeinner.scores.result import Importance

__all__ = ["Comparison", "Importance", "ImportanceAccumulator", "compare", "importance"]
