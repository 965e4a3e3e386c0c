"""Feature attribution for tree ensembles that tells the truth out of sample."""

from importlib.metadata import version as _version

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

__all__ = [
    "Attribution",
    "DataError",
    "Ensemble",
    "MissingDependencyError",
    "ModelError",
    "TreeInnerError",
    "UnknownParameterError",
    "UnsupportedModelError",
    "attribute",
    "instruction_set",
    "load",
    "read_model",
]

__version__ = _version("treeinner")
