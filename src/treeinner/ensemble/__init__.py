"""The trees of a model as frozen arrays.

    ensemble    what they are, and the conventions that every reader settles
    node_values what is worked out from the trees at its first use: node values, rates, certificates
    validation  when they are well formed
    storage     the file format of everything that treeinner saves

Belongs here: what holds for trees of any library. Does not: how a library stores them
(readers/), and what is done with them.
"""

from treeinner.ensemble import storage
from treeinner.ensemble.ensemble import ARRAYS, FORMAT, Ensemble, check_rounds
from treeinner.ensemble.node_values import NodeValues

__all__ = ["ARRAYS", "FORMAT", "Ensemble", "NodeValues", "check_rounds", "storage"]
