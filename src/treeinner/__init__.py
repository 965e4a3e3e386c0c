"""Feature importance for boosted trees and forests, measured on held-out data, with error bars."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from treeinner import objectives
from treeinner.attribution import Attribution, attribute
from treeinner.compiled import instruction_set
from treeinner.ensemble import Ensemble
from treeinner.errors import (
    DataError,
    MissingDependencyError,
    ModelError,
    TreeInnerError,
    TreeInnerWarning,
    UnknownParameterError,
    UnsupportedModelError,
)
from treeinner.explainer import TreeExplainer
from treeinner.files import load
from treeinner.model import Model, read_model
from treeinner.options import ReadOptions
from treeinner.scores import (
    Comparison,
    FeatureScore,
    Importance,
    ImportanceAccumulator,
    compare,
    importance,
    permutation_importance,
    total_gain,
)
from treeinner.wrapped import Member, members

if _TYPE_CHECKING:
    from treeinner import plots
    from treeinner.page import report, report_selection
    from treeinner.selection import cross_importance, propose_groups
    from treeinner.selection.getter import importance_getter
    from treeinner.selection.selector import TreeInnerSelector

__all__ = [
    "Attribution",
    "Comparison",
    "DataError",
    "Ensemble",
    "FeatureScore",
    "Importance",
    "ImportanceAccumulator",
    "Member",
    "MissingDependencyError",
    "Model",
    "ModelError",
    "ReadOptions",
    "TreeExplainer",
    "TreeInnerError",
    "TreeInnerSelector",
    "TreeInnerWarning",
    "UnknownParameterError",
    "UnsupportedModelError",
    "attribute",
    "attribute_to_parquet",
    "compare",
    "cross_importance",
    "importance",
    "importance_getter",
    "instruction_set",
    "load",
    "members",
    "objectives",
    "permutation_importance",
    "plots",
    "propose_groups",
    "read_model",
    "report",
    "report_selection",
    "total_gain",
]


_LAZY = {
    "attribute_to_parquet": "attribution_file",
    "TreeInnerSelector": "selection.selector",
    "cross_importance": "selection",
    "importance_getter": "selection.getter",
    "propose_groups": "selection",
    "report": "page",
    "report_selection": "page",
}  # name -> module


def __getattr__(name: str) -> _Any:
    """Load what not everybody needs at its first use: plots, report, selection, __version__."""
    from importlib import import_module, metadata

    found: _Any
    if name == "plots":
        found = import_module("treeinner.plots")
    elif name in _LAZY:
        found = getattr(import_module(f"treeinner.{_LAZY[name]}"), name)
    elif name == "__version__":
        found = metadata.version("treeinner")
    else:
        raise AttributeError(f"module 'treeinner' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
