"""Global importance: the families of scores, their standard errors, and sums that add up over batches.

    importance  permutation  gain  compare     what users call
    accumulator result  parts  display  saved  rows in any batches; what comes back, how it is shown and saved
    arguments   setting batch                  the user's choices and the user's rows, checked once
    passes run  task                           map over rows, once or twice, from memory or from files,
    totals state  leaves  exact                then add: exact sums without an end, the same bits in any order
    identity                                   what may be added to what
    conclude                                   what follows from the sums
    row_shares  members                        shares of single rows; those of several models together
    training_rows                              whether rows that were to be held out were
    partitions                                 rows on a cluster: what treeinner.dask and treeinner.spark share

Belongs here: everything between rows and an Importance. Does not: single predictions (attribution.py), what a sum says
about new rows (inference.py), drawing.
"""

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
