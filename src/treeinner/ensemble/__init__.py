"""The trees of a model as frozen arrays.

What they are: ensemble.py, node_values.py. When they are well formed: validation.py. The file format of everything that
we save: storage.py.
"""

from treeinner.ensemble import storage
from treeinner.ensemble.ensemble import ARRAYS, FORMAT, Ensemble, check_rounds
from treeinner.ensemble.node_values import NodeValues

__all__ = ["ARRAYS", "FORMAT", "Ensemble", "NodeValues", "check_rounds", "storage"]
