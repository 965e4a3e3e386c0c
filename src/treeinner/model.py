"""Model: a fitted model that was read, and the way that X takes to it. Everything else takes one and opens it once."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from treeinner import objectives, readers
from treeinner.ensemble import Ensemble
from treeinner.errors import DataError, TreeInnerError, UnsupportedModelError, counted
from treeinner.groups import OWN_SEPARATOR, Groups, GroupSpec, members_of, resolve_groups
from treeinner.objectives import Objective
from treeinner.objectives.weights import class_weights
from treeinner.options import ReadOptions
from treeinner.readers import Unwrapped
from treeinner.tables import ColumnTable, DenseTable, SparseTable, Table, as_read, read_table
from treeinner.tables.frames import as_stored, for_transformers, frame_library_of, names_of, places_of
from treeinner.tables.named import Roles, feature_columns_among, split_frame

__all__ = ["Model", "open_model", "open_unwrapped", "out_of_bag_rows", "read_model"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A model, opened: its trees, and what is needed to read its X. Made by `read_model`."""

    ensemble: Ensemble  #: the trees
    source: Any = None  #: the object of its library without wrappers, or the path of its file; None: an Ensemble
    transformers: tuple[Any, ...] = ()  #: steps of a pipeline before it
    feature_names: tuple[str, ...] | None = None  #: what attributions are reported for, as far as known
    options: ReadOptions = field(default_factory=ReadOptions)  #: what the user told when it was read
    targets: tuple[Any, ...] = ()  #: functions that y passes: the target as a model inside wrappers saw it
    remarks: tuple[str, ...] = ()  #: what the wrappers around it do that no score speaks of

    @property
    def library(self) -> str:
        """Library the model was trained with: "xgboost", "lightgbm", "catboost" or "sklearn"."""
        return self.ensemble.library

    @property
    def n_features(self) -> int:
        """Number of features that attributions are reported for."""
        return self.ensemble.n_features

    @property
    def n_outputs(self) -> int:
        """Number of margins per row."""
        return self.ensemble.n_outputs

    @property
    def n_rounds(self) -> int:
        """Number of boosting rounds."""
        return self.ensemble.n_rounds

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.ensemble.n_trees

    @property
    def output_names(self) -> tuple[str, ...] | None:
        """Classes or targets; None if there is one output, or the model does not store them."""
        codes = next((step for step in self.targets if isinstance(step, readers.Codes)), None)
        if codes is not None and len(codes.classes) == self.n_outputs:  # a wrapper's labels, which it encoded
            return tuple(map(str, codes.classes))
        return self.ensemble.output_names

    @property
    def exactness(self) -> str:
        """Say "exact", or why in-sample TreeInner(PreDecomp) is not the library's total gain."""
        reasons = [self.ensemble.exactness, *self._assumed("loss", "start")]
        return "; ".join(reason for reason in reasons if reason != "exact") or "exact"

    @cached_property
    def objective(self) -> Objective:
        """The loss: what the user told, what the model stores, or the gradient that its estimator was trained with."""
        told = self.options.objective
        own = readers.custom_gradient(self.source) if told == "auto" else None
        return objectives.for_ensemble(self.ensemble, told if own is None else own)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about how the model was read, line by line."""
        lines = readers.notes(self.ensemble) if self.options.iteration_range is None else ()  # about the rounds in use
        return (*lines, *readers.notes_on_training(self.source, told=self.options.objective != "auto"), *self.remarks)

    def doubts(self, score: str, method: Any, *, base_margin: bool = False) -> tuple[str, ...]:
        """What was assumed, or does not hold, for a score by a method, and what to do about it; () if nothing.

        base_margin: whether the user gives the margins before the first tree.
        """
        topics = [] if score in ("abs", "total_gain") else ["loss"] if base_margin else ["loss", "start"]
        lines = self._assumed(*topics, *(["rounds"] if score in ("tree_inner", "forest_inner") else []))
        if isinstance(method, str) and method == "predecomp" and self.ensemble.value_doubts:
            reasons = "; ".join(self.ensemble.value_doubts)
            lines.append(f"PreDecomp does not hold for this model: {reasons}. Use method='centred', which does.")
        return tuple(lines)

    def _assumed(self, *topics: str) -> list[str]:
        told = self.options.objective != "auto"
        return [
            text for topic, text in self.ensemble.doubts.items() if topic in topics and not (told and topic == "loss")
        ]

    def row_weights(self, y: Any) -> FloatArray | None:
        """Weights that training gave to rows of these labels (class_weight): (rows,); None: it gave none.

        Balanced weights come from the class counts of these rows, which must therefore be all rows: the libraries do
        not store those of the training rows.
        """
        spec = readers.class_weight(self.source)
        classes: Any = self.ensemble.objective_params.get("classes") or self.ensemble.output_names
        return None if spec is None or classes is None else class_weights(spec, classes, y)

    def check_batches(self) -> None:
        """Raise if the weights of rows depend on the other rows, so that they cannot come in batches."""
        spec = readers.class_weight(self.source)
        if isinstance(spec, str):
            raise DataError(
                f"class_weight={spec!r} weighs rows by the class counts of all rows, which a batch does not know; set "
                "the estimator's class_weight to the weights themselves, {label: weight}, or use ti.importance."
            )

    def transform(self, X: Any) -> Any:
        """X as the model itself sees it, behind the pipeline's transformers."""
        return readers.transform(self.transformers, for_transformers(as_read(X))) if self.transformers else X

    def target(self, y: Any) -> Any:
        """Y as the model itself saw it: behind a TransformedTargetRegressor on another scale, say."""
        for step in self.targets:
            y = step(y)
        return y

    def table(self, X: Any, transformed: Any = None) -> Table:
        """Rows of X as the model sees them; `transformed` if X went through the transformers already."""
        transformed = self.transform(X) if transformed is None else transformed
        table = readers.make_table(self.source, transformed, self.ensemble)
        if table is None:
            table = read_table(transformed, self.ensemble.schema)
        if transformed is X or not isinstance(table, (DenseTable, ColumnTable, SparseTable)):
            return table
        return replace(table, frame_library=frame_library_of(X))

    def columns_among(self, names: Sequence[str], roles: Roles, where: str = "X") -> list[str]:
        """Which of these columns the model reads, in its order; roles: those that are something else."""
        e = self.ensemble
        if self.transformers:
            wanted, n_columns = readers.columns_in(self.transformers)
            return feature_columns_among(names, roles, wanted, n_columns, names, where)
        # Behind CatBoost's encoded categories the schema speaks of leaves; rows still have the features.
        known = (e.feature_names, e.n_features) if e.schema.external else (e.schema.names, e.schema.n_columns)
        return feature_columns_among(names, roles, *known, as_stored(names, e.schema), where)

    def by_name(self, X: Any, **given: Any) -> tuple[Any, dict[str, Any]]:
        """X and what comes with it; where arguments name columns of X, X without them and their values."""
        return split_frame(X, given, self.columns_among)

    def names(self, X: Any) -> tuple[str, ...] | None:
        """Feature names for a report on X: the model's, else the data frame's; None if neither has any."""
        if self.feature_names is not None or self.transformers:
            return self.feature_names
        names = names_of(X)
        return names if names is not None and len(names) == self.n_features else None

    def labels(self, X: Any) -> tuple[str, ...]:
        """`names`, or f0, f1, ... where there are none."""
        return self.names(X) or tuple(f"f{i}" for i in range(self.n_features))

    def groups(self, feature_groups: GroupSpec | None, names: Sequence[str] | None = None) -> Groups:
        """The user's `feature_groups`, resolved; names: those of the columns, if the model itself has none."""
        names = self.labels(None) if names is None else names
        if isinstance(feature_groups, str) and feature_groups == "original" and self.transformers:
            return Groups(*readers.origins(self.transformers, names).owners())
        if isinstance(feature_groups, Mapping) and self.transformers:
            raw = self._groups_of_raw_columns(feature_groups, names)
            if raw is not None:
                return raw
        found = resolve_groups(feature_groups, names)
        if isinstance(feature_groups, str) and found.of_feature is not None:
            self._check_dummies(found, names)
        return found

    def _groups_of_raw_columns(
        self, feature_groups: Mapping[str, Sequence[str | int]], names: Sequence[str]
    ) -> Groups | None:
        """Groups whose members are columns before the transformers, and not all of them the model's; else None."""
        members = {member for given in feature_groups.values() for member in members_of(given)}
        if members <= set(names):
            return None
        try:
            raw, owner = readers.origins(self.transformers, names).owners()
        except TreeInnerError:
            return None
        if not members <= set(raw):
            return None
        found = resolve_groups(feature_groups, raw)
        assert found.of_feature is not None
        return Groups(found.names, found.of_feature[owner])

    def origins(self, X: Any = None) -> readers.Origins:
        """Which raw columns, those of X, each column of the model is made from.

        `origins(X).columns[k]` are the model's columns that are made from column k of X alone. Without a pipeline each
        column is its own. Without X the raw columns stand in the order of training.
        """
        found = readers.origins(self.transformers, self.labels(X))
        names = names_of(X)
        if names is None:
            return found
        trained_on = found.names if self.transformers else self.ensemble.feature_names or found.names
        place = places_of(names, trained_on)
        if len(place) < len(trained_on):
            raise DataError(
                f"X has {counted(len(names), 'column')}, expected the {len(trained_on)} that the model was trained on."
            )
        return found.reordered(names, place)

    def _check_dummies(self, groups: Groups, names: Sequence[str]) -> None:
        """Raise if a column that was grouped by its prefix is split in more ways than 0, 1 and missing can be."""
        e, of_column = self.ensemble, groups.of_feature
        assert of_column is not None
        size = np.bincount(of_column)
        inner = e.feature >= 0
        if e.column_features is not None:  # CatBoost's encoded categories: columns are not features
            return
        splits = np.unique(np.column_stack([e.feature[inner], e.threshold[inner]]), axis=0)
        ways = np.bincount(splits[:, 0].astype(np.intp), minlength=len(of_column))
        wrong = np.flatnonzero((ways > 2) & (size[of_column] > 1))
        if len(wrong):
            column, prefix = names[wrong[0]], groups.names[of_column[wrong[0]]]
            raise DataError(
                f"feature_groups: the prefix {prefix!r} takes in {column!r}, which is no dummy: the model splits "
                f"it at {ways[wrong[0]]} different values. {OWN_SEPARATOR}"
            )

    def predict(self, X: Any, *, base_margin: Any = None, n_jobs: int | None = -1) -> FloatArray:
        """Raw margin of each row: (rows,), or (rows, outputs) if there are several."""
        return self.ensemble.predict_table(self.table(X), base_margin=base_margin, n_jobs=n_jobs)

    def apply(self, X: Any, *, n_jobs: int | None = -1) -> NDArray[np.int32]:
        """Leaf that each row reaches in each tree, numbered as the library numbers them: (rows, trees)."""
        return self.ensemble.apply_table(self.table(X), n_jobs=n_jobs)

    def save(self, path: str | Path) -> None:
        """Write the trees to one file (docs/format.md); what a pipeline or wrapper does to X and y is not in it."""
        ensemble = self.ensemble
        if self.feature_names is not None and self.feature_names != ensemble.feature_names:
            ensemble = replace(ensemble, feature_names=self.feature_names)
        ensemble.save(path)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: the loss, which may hold functions, is looked up again."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __repr__(self) -> str:
        return repr(self.ensemble).replace("Ensemble(", "Model(", 1)

    def _repr_html_(self) -> str:
        rows = {
            "library": self.library,
            "objective": self.ensemble.objective or "not stored",
            "trees": f"{self.n_trees:,}",
            "rounds": f"{self.n_rounds:,}",
            "features": f"{self.n_features:,}",
            "outputs": f"{self.n_outputs:,}",
            "exactness": self.exactness,
        }
        body = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in rows.items())
        return f"<table><caption>treeinner.Model</caption><tbody>{body}</tbody></table>"


def read_model(model: Any, **reading: Any) -> Model:
    """Open a model once, for any number of calls.

    Parameters
    ----------
    model : fitted model, path, Ensemble or Model
        A model of XGBoost, LightGBM, CatBoost or scikit-learn, a Pipeline or search around one, or its file.
    **reading
        objective, learning_rate, reg_lambda, reg_alpha, iteration_range, feature_names: what the model does not store,
        or what you want otherwise; see `ReadOptions`.

    Returns
    -------
    Model
        Every function of treeinner takes it in place of the model.
    """
    return open_model(model, ReadOptions.of(reading, caller=read_model))


def open_model(model: Any, options: ReadOptions | None = None) -> Model:
    """Read a fitted model, a model file or a saved Ensemble; a Model is taken as it is."""
    options = options or ReadOptions()
    if isinstance(model, Model):
        return _view(model, options)
    if isinstance(model, Ensemble):
        return _view(Model(model, feature_names=model.feature_names), options)
    if not isinstance(model, (str, os.PathLike)):
        return open_unwrapped(readers.unwrap(model), options)
    ensemble = readers.read_path(model, options)
    if ensemble is None:  # a saved Ensemble
        ensemble = Ensemble.load(os.fspath(model))
        return _view(Model(ensemble, Path(model), feature_names=ensemble.feature_names), options)
    return _named(Model(ensemble, Path(model), (), ensemble.feature_names, options))


def open_unwrapped(inside: Unwrapped, options: ReadOptions, names: tuple[str, ...] | None = None) -> Model:
    """Read a model out of its wrappers; `names` are those of X, where they are known."""
    ensemble, transformers = readers.read_object(inside.model, options), inside.transformers
    settled = ensemble.schema.external or ensemble.column_features is not None  # what a feature is, by the library
    while transformers and isinstance(transformers[-1], readers.Support) and not settled:
        ensemble = transformers[-1].widen(ensemble)
        transformers = transformers[:-1]
    own = ensemble.feature_names
    if own is None and (transformers or names):
        carried = readers.carried_names(transformers, names)
        own = carried if carried is not None and len(carried) == ensemble.n_features else None
    return _named(Model(ensemble, inside.model, transformers, own, options, inside.targets, inside.notes))


def _view(model: Model, options: ReadOptions) -> Model:
    """A model that was read already, with other rounds, names or loss."""
    settled = [name for name in ("learning_rate", "reg_lambda", "reg_alpha") if getattr(options, name) is not None]
    if settled:
        raise ValueError(
            f"{', '.join(settled)} cannot be changed in a model that was read already; "
            f"read it again: ti.read_model(model, {settled[0]}=...)."
        )
    if options == ReadOptions():
        return model
    rounds = options.iteration_range
    told = {name: getattr(options, name) for name in ("objective", "feature_names", "iteration_range")}
    changed = {name: given for name, given in told.items() if given not in ("auto", None)}
    ensemble = model.ensemble if rounds is None else model.ensemble.slice_rounds(*rounds)
    return _named(replace(model, ensemble=ensemble, options=replace(model.options, **changed)))


def _named(model: Model) -> Model:
    """Put the user's names in place of the model's, and look up the user's loss, so that a wrong one fails here."""
    given = model.options.feature_names
    if given is not None:
        if len(given) != model.n_features:
            raise ValueError(
                f"feature_names has {counted(len(given), 'name')}; expected {model.n_features}, one per feature of the "
                "model."
            )
        model = replace(model, feature_names=tuple(given))
    if model.options.objective != "auto":
        _ = model.objective
    return model


def out_of_bag_rows(model: Model, n_rows: int) -> NDArray[np.bool_]:
    """Which training rows each tree of a random forest did not see: (trees, rows)."""
    if model.library != "sklearn" or not model.ensemble.averaged:
        raise UnsupportedModelError(
            f"oob=True needs a scikit-learn forest trained with bootstrap=True, which this {model.library} model is "
            "not. Use held-out rows instead."
        )
    return cast("NDArray[np.bool_]", readers.reader("sklearn").out_of_bag(model.source, n_rows))
