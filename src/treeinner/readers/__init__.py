"""Opening a model: which library it is of, what is wrapped around it, or what kind of file it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble import Ensemble
from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.readers._files import kind_of_file
from treeinner.readers._unwrap import NOT_FITTED, carried_names, is_fitted, package_of, transform, unwrap
from treeinner.tables import (
    ColumnTable,
    DenseTable,
    SparseTable,
    Table,
    frame_library_of,
    names_of,
    read_table,
    row_labels_of,
)

__all__ = ["Opened", "open_model", "out_of_bag_rows", "read_model"]

SUPPORTED = (
    "treeinner reads fitted models of XGBoost, LightGBM, CatBoost and scikit-learn's tree ensembles, also "
    "inside a Pipeline or a search; model files of the first three (.json, .ubj, .txt, .cbm); saved Ensembles"
)


class Options(TypedDict):
    """What the user says about a model that it may not say itself; None: as the model says."""

    learning_rate: float | None
    reg_lambda: float | None
    reg_alpha: float | None
    iteration_range: tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class Opened:
    """A model that was read, and the way that X takes to it."""

    ensemble: Ensemble
    model: Any = None  # the object of its library without wrappers, or the path of its file; None: an Ensemble
    transformers: tuple[Any, ...] = ()  # steps of a pipeline before it
    feature_names: tuple[str, ...] | None = None  # what attributions are reported for, as far as the model tells

    def seen(self, X: Any) -> Any:
        """X as the model itself sees it, behind the pipeline's transformers."""
        return transform(self.transformers, X) if self.transformers else X

    def table(self, X: Any, seen: Any = None) -> Table:
        """Rows of X as the model sees them; `seen` if X went through the transformers already."""
        seen = self.seen(X) if seen is None else seen
        table = self._own_table(seen)
        if seen is X or not isinstance(table, (DenseTable, ColumnTable, SparseTable)):
            return table
        return replace(table, row_labels=row_labels_of(X), frame_library=frame_library_of(X))

    def names(self, X: Any) -> tuple[str, ...] | None:
        """Feature names for a report on X: the model's, else the data frame's; None if neither has any."""
        if self.feature_names is not None or self.transformers:
            return self.feature_names
        names = names_of(X)
        return names if names is not None and len(names) == self.ensemble.n_features else None

    def _own_table(self, X: Any) -> Table:
        if self.model is not None and self.ensemble.library == "catboost":
            # CatBoost's CTR features exist only inside its own model object.
            make_table = cast(Callable[..., Table | None], _reader("catboost").make_table)
            table = make_table(self.model, X, self.ensemble)
            if table is not None:
                return table
        return read_table(X, self.ensemble.schema)


def open_model(
    model: Any,
    *,
    learning_rate: float | None = None,
    reg_lambda: float | None = None,
    reg_alpha: float | None = None,
    iteration_range: tuple[int, int] | None = None,
) -> Opened:
    """Read a fitted model, a model file or a saved Ensemble, and keep what is needed to read its X.

    Parameters
    ----------
    model
        A fitted model of XGBoost, LightGBM, CatBoost or scikit-learn, also inside a Pipeline, a search or a
        TransformedTargetRegressor; the path of a model file; or an Ensemble.
    learning_rate, reg_lambda, reg_alpha
        Training parameters, where the model does not tell or tells wrong.
    iteration_range
        Rounds (start, stop) to keep; None: those that the model's own predict uses.
    """
    options = Options(
        learning_rate=learning_rate,
        reg_lambda=reg_lambda,
        reg_alpha=reg_alpha,
        iteration_range=iteration_range,
    )
    if isinstance(model, Ensemble):
        ensemble = _given(model, options)
        return Opened(ensemble, feature_names=ensemble.feature_names)
    if isinstance(model, (str, os.PathLike)):
        ensemble = _read_path(model, options)
        return Opened(ensemble, Path(model), feature_names=ensemble.feature_names)
    inside = unwrap(model)
    ensemble = _read_object(inside.model, options)
    names = ensemble.feature_names
    if names is None and inside.transformers:
        carried = carried_names(inside.transformers)
        names = carried if carried is not None and len(carried) == ensemble.n_features else None
    return Opened(ensemble, inside.model, inside.transformers, names)


def read_model(
    model: Any,
    *,
    learning_rate: float | None = None,
    reg_lambda: float | None = None,
    reg_alpha: float | None = None,
    iteration_range: tuple[int, int] | None = None,
) -> Ensemble:
    """Trees of a fitted model or of a model file, as an `Ensemble`; parameters as for `attribute`.

    Of a pipeline it is the model at the end: its X is what the pipeline's transformers return.
    """
    return open_model(
        model,
        learning_rate=learning_rate,
        reg_lambda=reg_lambda,
        reg_alpha=reg_alpha,
        iteration_range=iteration_range,
    ).ensemble


def out_of_bag_rows(opened: Opened, n_rows: int) -> NDArray[np.bool_]:
    """Which training rows each tree of a random forest did not see: (trees, rows)."""
    if opened.ensemble.library != "sklearn" or not opened.ensemble.averaged:
        raise UnsupportedModelError(
            "oob=True needs a scikit-learn forest trained with bootstrap=True; this is another "
            f"{opened.ensemble.library} model. Use held-out rows instead."
        )
    return cast("NDArray[np.bool_]", _reader("sklearn").out_of_bag(opened.model, n_rows))


def _reader(library: str) -> Any:
    """Import the module that reads models of one library, and no other one."""
    return import_module(f"{__name__}.{library}")


def _given(ensemble: Ensemble, options: Options) -> Ensemble:
    said = [name for name, option in options.items() if option is not None and name != "iteration_range"]
    if said:
        raise ValueError(
            f"{', '.join(said)} cannot be changed in an Ensemble that was read already; "
            f"read the model again: ti.read_model(model, {said[0]}=...)."
        )
    rounds = options["iteration_range"]
    return ensemble if rounds is None else ensemble.slice_rounds(*rounds)


def _read_object(model: Any, options: Options) -> Ensemble:
    library = package_of(model)
    if not library:
        kind = type(model)
        raise UnsupportedModelError(f"Cannot read a {kind.__module__}.{kind.__qualname__}: {SUPPORTED}.")
    if not is_fitted(model):
        raise ModelError(f"This {type(model).__name__} {NOT_FITTED}.")
    return cast(Ensemble, _reader(library).read(model, **options))


def _read_path(path: str | os.PathLike[str], options: Options) -> Ensemble:
    kind = kind_of_file(path)
    if kind == "treeinner":
        return _given(Ensemble.load(os.fspath(path)), options)
    return cast(Ensemble, _reader(kind).read_path(Path(path), **options))
