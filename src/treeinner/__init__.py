"""Feature importance for boosted trees and forests, measured on held-out data, with error bars."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from treeinner.errors import (
    DataError,
    MissingDependencyError,
    ModelError,
    Note,
    TreeInnerError,
    TreeInnerWarning,
    UnknownParameterError,
    UnsupportedModelError,
)
from treeinner.explain import Attribution, TreeExplainer, attribute
from treeinner.losses import Loss
from treeinner.read import Model, read_model
from treeinner.score import (
    Comparison,
    Importance,
    ImportanceAccumulator,
    Rows,
    compare,
    forest_inner,
    importance,
    mean_abs,
    permutation_importance,
    total_gain,
)

if _TYPE_CHECKING:
    from treeinner.select import TreeInnerSelector, cross_importance
    from treeinner.show import plots
    from treeinner.show.page import report

__all__ = [
    "Attribution",
    "Comparison",
    "DataError",
    "Importance",
    "ImportanceAccumulator",
    "Loss",
    "MissingDependencyError",
    "Model",
    "ModelError",
    "Note",
    "Rows",
    "TreeExplainer",
    "TreeInnerError",
    "TreeInnerSelector",
    "TreeInnerWarning",
    "UnknownParameterError",
    "UnsupportedModelError",
    "attribute",
    "compare",
    "cross_importance",
    "forest_inner",
    "importance",
    "mean_abs",
    "permutation_importance",
    "plots",
    "read_model",
    "report",
    "total_gain",
]

_LAZY = {"TreeInnerSelector": "select", "cross_importance": "select", "plots": "show", "report": "show.page"}


def __getattr__(name: str) -> _Any:
    """Load what not everybody needs at its first use: selection, plots, report, __version__."""
    if name == "__version__":
        from importlib import metadata

        return metadata.version("treeinner")
    if name not in _LAZY:
        raise AttributeError(f"module 'treeinner' has no attribute {name!r}")
    room = f"treeinner.{_LAZY[name]}"
    found = _import_module(f"{room}.plots") if name == "plots" else getattr(_import_module(room), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
