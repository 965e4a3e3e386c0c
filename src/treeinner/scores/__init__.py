"""Global importance: the families of scores, their standard errors, and sums that add up over batches."""

from treeinner.scores.accumulator import ImportanceAccumulator
from treeinner.scores.compare import Comparison, compare
from treeinner.scores.gain import total_gain
from treeinner.scores.importance import importance
from treeinner.scores.permutation import permutation_importance
from treeinner.scores.result import FeatureScore, Importance

__all__ = [
    "Comparison",
    "FeatureScore",
    "Importance",
    "ImportanceAccumulator",
    "compare",
    "importance",
    "permutation_importance",
    "total_gain",
]
