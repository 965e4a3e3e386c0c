"""Feature attribution for tree ensembles that tells the truth out of sample."""

from importlib.metadata import version as _version

from treeinner import objectives
from treeinner.attribution import Attribution, attribute
from treeinner.ensemble import Ensemble
from treeinner.errors import (
    DataError,
    MissingDependencyError,
    ModelError,
    TreeInnerError,
    UnknownParameterError,
    UnsupportedModelError,
)
from treeinner.files import load
from treeinner.kernels import instruction_set
from treeinner.readers import read_model
from treeinner.scores import Comparison, Importance, ImportanceAccumulator, compare, importance

__all__ = [
    "Attribution",
    "Comparison",
    "DataError",
    "Ensemble",
    "Importance",
    "ImportanceAccumulator",
    "MissingDependencyError",
    "ModelError",
    "TreeInnerError",
    "UnknownParameterError",
    "UnsupportedModelError",
    "attribute",
    "compare",
    "importance",
    "instruction_set",
    "load",
    "objectives",
    "read_model",
]

__version__ = _version("treeinner")
