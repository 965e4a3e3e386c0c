"""From a fitted model, or its file, to an Ensemble. What is special about a library is known in its folder alone.

    _open       what was given: wrappers are removed, files are recognised by their content
    origins     which raw column each column behind a pipeline's transformers is made from
    members     wrappers of several models: which columns and target each member sees, and with what weight
    targets     the target as a model inside a wrapper saw it
    _trees      walks over arrays of trees that several readers need
    newer       models of a newer library than the readers know
    xgboost/ lightgbm/ catboost/ sklearn/     one library each: `read`, and its parser, rules and node values

Belongs here: everything that depends on which library trained the model. Does not: losses, scores, and anything that
works on an Ensemble.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from treeinner.ensemble import Ensemble
from treeinner.ensemble.plain import naming
from treeinner.errors import UnsupportedModelError
from treeinner.options import ReadOptions
from treeinner.readers._open import (
    Unwrapped,
    carried_names,
    columns_in,
    kind_of_file,
    package_of,
    peel,
    require_fitted,
    transform,
    unwrap,
)
from treeinner.readers.members import Support
from treeinner.readers.origins import Origins, origins
from treeinner.readers.targets import Codes
from treeinner.tables import Table

__all__ = [
    "Codes", "Origins", "Support", "Unwrapped", "carried_names", "class_weight", "columns_in", "custom_gradient",
    "make_table", "notes", "notes_on_training", "origins", "package_of", "peel", "read_object", "read_path", "reader",
    "transform", "unwrap",
]  # fmt: skip

SUPPORTED = (
    "treeinner reads fitted models of XGBoost, LightGBM, CatBoost and scikit-learn's tree ensembles, also "
    "inside a Pipeline or a search; model files of the first three (.json, .ubj, .txt, .cbm); saved Ensembles"
)


def reader(library: str) -> Any:
    """Import the module that reads models of one library, and no other one."""
    return import_module(f"{__name__}.{library}")


def read_object(model: Any, options: ReadOptions) -> Ensemble:
    """Trees of a fitted model, without wrappers."""
    library = package_of(model)
    if not library:
        if isinstance(model, dict) and "booster" in model:
            raise UnsupportedModelError(
                "This is the output of xgboost.dask.train; pass the model in it, output['booster']."
            )
        kind = type(model)
        raise UnsupportedModelError(f"Cannot read a model of type {kind.__module__}.{kind.__qualname__}: {SUPPORTED}.")
    require_fitted(model)
    return cast(Ensemble, reader(library).read(model, options))


def read_path(path: str | os.PathLike[str], options: ReadOptions) -> Ensemble | None:
    """Trees of a model file of one of the libraries; None: a saved Ensemble."""
    kind = kind_of_file(path)
    with naming(path):
        return None if kind == "treeinner" else cast(Ensemble, reader(kind).read_path(Path(path), options))


def make_table(source: Any, X: Any, ensemble: Ensemble) -> Table | None:
    """Rows that only the library's own object can prepare (CatBoost's CTR features); None: read them as a table."""
    if source is None or ensemble.library != "catboost":
        return None
    return cast("Table | None", reader("catboost").make_table(source, X, ensemble))


def notes(ensemble: Ensemble) -> tuple[str, ...]:
    """What a user should know about how a model was read, line by line."""
    return cast("tuple[str, ...]", reader("xgboost").notes(ensemble)) if ensemble.library == "xgboost" else ()


# -- what only the fitted object knows -----------------------------------------------------------------------
def custom_gradient(source: Any) -> Callable[[Any, Any], Any] | None:
    """Gradient (y, margin) -> (rows[, outputs]) of the function that an estimator was trained with as its loss.

    None: it was trained with a loss of its library, or there is no estimator.
    """
    library = package_of(source)
    return cast("Callable[[Any, Any], Any] | None", reader(library).custom_gradient(source)) if library else None


def class_weight(source: Any) -> Any:
    """class_weight of an estimator that makes weights of its training rows from it; None: it does not."""
    library = package_of(source)
    return reader(library).class_weight(source) if library in ("lightgbm", "sklearn") else None


def notes_on_training(source: Any, *, told: bool) -> tuple[str, ...]:
    """What a user should know about what was taken from an estimator, line by line; told: the loss was not."""
    lines, gradient, weight = [], None if told else custom_gradient(source), class_weight(source)
    if gradient is not None:
        lines.append(
            f"The loss is the estimator's own objective function ({gradient.__name__}); its gradient is computed for "
            "blocks of rows, so that of a row must not depend on other rows."
        )
    if isinstance(weight, str):
        lines.append(
            f"Rows with a target are weighted by class_weight={weight!r}, as in training, with the class counts of the "
            "rows given, for the model does not store those of the training rows."
        )
    elif weight is not None:
        lines.append(f"Rows with a target are weighted by class_weight={weight}, as in training.")
    return tuple(lines)
