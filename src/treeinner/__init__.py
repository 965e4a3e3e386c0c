"""Feature attribution for tree ensembles that tells the truth out of sample."""

from importlib.metadata import version as _version

from treeinner import objectives, plots
from treeinner.attribution import Attribution, attribute
from treeinner.compiled import instruction_set
from treeinner.ensemble import Ensemble
from treeinner.errors import (
    DataError,
    MissingDependencyError,
    ModelError,
    TreeInnerError,
    UnknownParameterError,
    UnsupportedModelError,
)
from treeinner.explainer import TreeExplainer
from treeinner.files import load
from treeinner.model import Model, read_model
from treeinner.page import report
from treeinner.scores import Comparison, Importance, ImportanceAccumulator, compare, importance

__all__ = [
    "Attribution",
    "Comparison",
    "DataError",
    "Ensemble",
    "Importance",
    "ImportanceAccumulator",
    "MissingDependencyError",
    "Model",
    "ModelError",
    "TreeExplainer",
    "TreeInnerError",
    "UnknownParameterError",
    "UnsupportedModelError",
    "attribute",
    "compare",
    "importance",
    "instruction_set",
    "load",
    "objectives",
    "plots",
    "read_model",
    "report",
]

__version__ = _version("treeinner")
