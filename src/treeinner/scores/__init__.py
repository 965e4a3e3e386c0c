"""Global importance: the families of scores, their standard errors, and sums that add up over batches.

    importance  permutation  gain  compare     what users call
    accumulator result  display                rows in any batches; what comes back, and how it is shown
    travel  identity                           accumulators as bytes; what may be added to what
    arguments   setting batch                  the user's choices and the user's rows, checked once
    row_shares  members                        shares of single rows; those of several models together
    training_rows                              whether rows that were to be held out were
    partitions                                 rows on a cluster: what treeinner.dask and treeinner.spark share
    passes run  task                           map over rows,
    totals state  leaves  exact                then add: exact sums without an end, the same bits in any order
    conclude                                   what follows from the sums

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
