"""attribute(): one prediction split over its features, and Attribution, what comes back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import compiled, html
from treeinner.compiled import Progress
from treeinner.ensemble import Ensemble, storage
from treeinner.ensemble.plain import check_array, check_types, naming
from treeinner.errors import (
    MissingDependencyError,
    ModelError,
    TreeInnerError,
    UnknownParameterError,
    UnsupportedModelError,
    counted,
    did_you_mean,
    own_name,
    short,
)
from treeinner.groups import GroupSpec
from treeinner.model import Model, open_model
from treeinner.options import ReadOptions
from treeinner.stream import in_memory
from treeinner.tables.frames import frame_library_of, make_frame, row_labels_of, to_array
from treeinner.tables.schema import as_tuples

__all__ = ["METHODS", "Attribution", "attribute", "check_choice", "node_values", "root_values", "told_penalties"]

METHODS = ("predecomp", "saabas", "treeshap")
BASE_DEFINITIONS = {
    "predecomp": "base score plus the regularised value of every tree's root: the margin before the first split",
    "saabas": "mean margin over the training rows, weighted by the covers of the leaves",
    "treeshap": "mean margin over the training rows, weighted by the covers of the leaves",
}
FORMAT = "treeinner.attribution"
FORMAT_VERSION = 2
PLAIN = ("feature_names", "output_names", "method", "unit")  # fields of a saved file that are not arrays

SHOWN = 20  # features in a notebook's table
FloatArray = NDArray[np.float64]


def attribute(
    model: Any,
    X: Any,
    *,
    method: str = "predecomp",
    base_margin: Any = None,
    feature_groups: GroupSpec | None = None,
    n_jobs: int | None = -1,
    progress: Progress | None = None,
    **reading: Any,
) -> Attribution:
    """Split the raw prediction (margin) of every row over the features.

    Parameters
    ----------
    model : fitted model, path or Model
        A model of XGBoost, LightGBM, CatBoost or scikit-learn, a Pipeline or search around one, or its file.
    X : table
        numpy array, data frame, Arrow table or scipy sparse matrix with the model's columns; or a source of rows, as
        for `importance`, which are read into memory: `attribute_to_parquet` needs less.
    method : {"predecomp", "saabas", "treeshap"}
        By path with the regularised node values (the paper's p-hat), by path with the mean of the leaves below a node
        (p-tilde; XGBoost's `approx_contribs`), or path-dependent TreeSHAP.
    base_margin : array, optional
        Margin of each row before the first tree, as given in training (LightGBM's init_score, CatBoost's baseline).
    feature_groups : mapping, "original" or "prefix:_", optional
        As for `importance`: name of a group -> its features; their signed values are added up.
    n_jobs : int
        Threads; -1 for all cores. The result does not depend on it.
    progress : callable, optional
        Called with (rows done, rows).
    **reading
        What the model does not store, as for `read_model`: learning_rate, reg_lambda, reg_alpha, iteration_range,
        feature_names, objective.

    Returns
    -------
    Attribution
        With `base_values + values.sum(axis=1)` equal to the margin.
    """
    check_choice("method", method, METHODS)
    opened = open_model(model, ReadOptions.of(reading, caller=attribute))
    e = opened.ensemble
    paths, root = _prepared(e, method)  # asks for what is unknown before X is touched
    X, given = in_memory(opened, X, base_margin=base_margin)
    base_margin = given["base_margin"]
    transformed = opened.transform(X)
    table = opened.table(X, transformed)
    values = compiled.attribute(e.forest, table, e.n_features, paths, n_jobs=n_jobs, progress=progress)
    groups = opened.groups(feature_groups, opened.labels(X))
    values = groups.add_up(values, axis=1)
    original = isinstance(feature_groups, str) and feature_groups == "original"
    by_column = feature_groups is None or (original and not opened.transformers)
    raw = X if original and opened.origins().names == groups.names else None  # no interactions: groups are columns of X
    data = transformed if by_column else raw
    if by_column and opened.options.feature_names is not None and e.feature_names is not None:
        data = to_array(data, e.feature_names)  # under the new names its columns could not be found
    base = e.base_values(table.n_rows, base_margin) + root
    return Attribution(
        values=values[:, :, 0] if e.n_outputs == 1 else values,
        base_values=base[:, 0] if e.n_outputs == 1 else base,
        data=data,
        feature_names=groups.names,
        output_names=opened.output_names,
        method=method,
        unit=_unit(opened),
        row_labels=row_labels_of(X),
        frame_library=frame_library_of(X),
    )


def check_choice(name: str, given: object, choices: tuple[str, ...], more: str = ".") -> None:
    """Raise unless an argument is one of its choices; `more` ends the message."""
    if given not in choices:
        every = f"{', '.join(map(repr, choices))}{did_you_mean(given, choices, more)}"
        raise ValueError(f"{name}={given!r} is not recognised; choose one of {every}")


def _unit(model: Model) -> str:
    """Unit of the margin in words, where the loss is known."""
    try:
        return model.objective.unit
    except TreeInnerError:
        return "margin"


def _prepared(e: Ensemble, method: str) -> tuple[Any, FloatArray]:
    """The path attribution in its compiled form (None: TreeSHAP) and the root values; worked out once per model."""
    found: tuple[Any, FloatArray] | None = e.forest.cache.get(method)
    if found is None:
        node_value = node_values(e, method)
        paths = None if method == "treeshap" else e.forest.path_table(node_value)
        found = e.forest.cache[method] = paths, root_values(e, node_value)
    return found


def node_values(e: Ensemble, method: str) -> FloatArray:
    """Value of every node whose changes along a path are the attribution: (n_nodes, width)."""
    if method == "treeshap" and e.schema.external == "catboost-path":
        raise UnsupportedModelError(
            "treeshap on a non-symmetric CatBoost model with CTR splits: the library reports only the leaf a row "
            "reaches, and TreeSHAP needs the splits beside its path. Use method='predecomp' or 'saabas', or "
            "CatBoost's own get_feature_importance(type='ShapValues')."
        )
    if method != "predecomp":
        if np.isnan(e.cover).any():
            raise UnsupportedModelError(
                f"method={method!r} weights the children of a node by the training rows in them, which this "
                f"{e.library} model does not store (XGBoost before 3.2 with vector leaves). Use "
                "method='predecomp', or train with a newer version."
            )
        return e.mean_value
    if np.isnan(e.node_value).any():
        if "training data" in e.needs:
            raise UnsupportedModelError(
                f"PreDecomp of this {e.library} model would need its training data: what its inner nodes would have "
                "predicted as leaves is not stored and cannot be worked out from the rest. Use method='saabas' or "
                "'treeshap'."
            )
        wanted = " and ".join(own_name(option, e.library) for option in e.needs) or "the training parameters"
        raise UnknownParameterError(
            f"PreDecomp needs {wanted}, which this {e.library} model does not store and which could not be inferred "
            f"from its nodes{told_penalties(e)}; pass {', '.join(f'{n}=...' for n in e.needs) or 'them'}, or use "
            "method='saabas' or 'treeshap'."
        )
    return e.node_value


def told_penalties(e: Ensemble) -> str:
    """The penalties that learning rates were looked for with, which may be wrong: " with reg_lambda=0"."""
    told = [f"{name}={e.params[name]:g}" for name in ("reg_lambda", "reg_alpha") if e.params.get(name) is not None]
    return f" with {' and '.join(told)}" if told else ""


def root_values(e: Ensemble, node_value: FloatArray) -> FloatArray:
    """Sum of the root values of all trees, the constant that a path attribution leaves: (outputs,)."""
    out = np.zeros(e.n_outputs)
    for column in range(e.width):
        np.add.at(out, e.tree_output + column, node_value[e.tree_start[:-1], column])
    return out


@dataclass(frozen=True, eq=False)
class Attribution:
    """Attribution of every row on the margin scale, in `unit`.

    `base_values + values.sum(axis=1)` is the model's raw prediction.
    """

    values: FloatArray  #: (rows, features), or (rows, features, outputs)
    base_values: FloatArray  #: (rows,), or (rows, outputs)
    data: Any  #: X as it was given (behind a pipeline's transformers); None for grouped features
    feature_names: tuple[str, ...]  #: features, or groups of them
    output_names: tuple[str, ...] | None  #: classes or targets; None if there is one
    method: str  #: which attribution
    unit: str = "margin"  #: unit of the values in words, such as "log-odds"
    row_labels: Any = None  #: index of the pandas frame that X was
    frame_library: str = ""  #: "pandas", "polars", ...: what X was a frame of

    @property
    def base_definition(self) -> str:
        """What `base_values` are, in words."""
        return BASE_DEFINITIONS[self.method]

    @property
    def output_labels(self) -> tuple[str, ...]:
        """Name of every output; their numbers, "0" first, if they have none."""
        return self.output_names or tuple(map(str, range(self.by_output[1].shape[1])))

    @property
    def by_output(self) -> tuple[FloatArray, FloatArray]:
        """Values (rows, features, outputs) and base values (rows, outputs), also if there is one output."""
        several = self.values.ndim == 3
        return (self.values, self.base_values) if several else (self.values[:, :, None], self.base_values[:, None])

    def __repr__(self) -> str:
        rows, features = self.values.shape[:2]
        outputs = f" x {counted(self.values.shape[2], 'output')}" if self.values.ndim == 3 else ""
        shape = f"{counted(rows, 'row')} x {counted(features, 'feature')}{outputs}"
        return f"Attribution({self.method}: {shape}, in {self.unit})"

    def _repr_html_(self) -> str:
        """Of one row its largest parts, of several the mean sizes, as a table with bars."""
        values = self.by_output[0].sum(axis=2)
        one = len(values) == 1
        shown = values[0] if one else np.abs(values).mean(axis=0) if len(values) else np.zeros(values.shape[1])
        order = np.argsort(-np.abs(shown), kind="stable")[:SHOWN]
        span = (float(shown.min(initial=0.0)), float(shown.max(initial=0.0)))
        rows = []
        for k in order.tolist():
            bar = html.bar(float(shown[k]), span=span, colour=html.VERMILLION if shown[k] >= 0 else html.BLUE)
            rows.append([self.feature_names[k], bar, short(shown[k])])
        what = "value" if one else "mean |value|"
        return html.table(repr(self), ["feature", "", what], rows, f"base value: {self.base_definition}")

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        """`a[0]`, `a[:10]`, `a[mask]`: the Attribution of these rows; `a[:, "bmi"]`, `a[0, 3]`: values as numpy does.

        A feature may be given by its name, or several by a list of names.
        """
        if not isinstance(index, tuple):
            rows = slice(index, index + 1 or None) if isinstance(index, int | np.integer) else index
            if isinstance(index, int | np.integer) and not -len(self) <= index < len(self):
                raise IndexError(f"row {index} is out of range for {counted(len(self), 'row')}.")
            data = self._shown()
            return replace(
                self,
                values=self.values[rows],
                base_values=self.base_values[rows],
                data=None if data is None else data[rows],
                row_labels=None if self.row_labels is None else self.row_labels[rows],
            )
        rows, features, *rest = index
        if isinstance(features, str):
            features = self._column(features)
        elif isinstance(features, list) and all(isinstance(name, str) for name in features):
            features = [self._column(name) for name in features]
        return self.values[(rows, features, *rest)]

    def _column(self, name: str) -> int:
        if name not in self.feature_names:
            raise KeyError(f"{name!r} is not a feature{did_you_mean(name, self.feature_names, '; see feature_names.')}")
        return self.feature_names.index(name)

    def to_contribs(self) -> FloatArray:
        """XGBoost's layout: (rows, features + 1), or (rows, outputs, features + 1); the base value comes last."""
        values = self.values if self.values.ndim == 2 else np.swapaxes(self.values, 1, 2)
        return np.concatenate([values, self.base_values[..., None]], axis=-1)

    def to_frame(self) -> Any:
        """Data frame in the library of X (else pandas, polars or pyarrow, what is installed): a column per feature.

        With several outputs the columns are called "output: feature".
        """
        return make_frame(self._columns(), library=self.frame_library, row_labels=self.row_labels)

    def _columns(self) -> dict[str, FloatArray]:
        """Values by name, "output: feature" with several outputs: (rows,) each."""
        values, _ = self.by_output
        return {
            name if self.values.ndim == 2 else f"{output}: {name}": values[:, j, k]
            for k, output in enumerate(self.output_labels)
            for j, name in enumerate(self.feature_names)
        }

    def to_shap(self) -> Any:
        """Make a `shap.Explanation`, for shap's own plots."""
        try:
            import shap
        except ImportError as error:
            raise MissingDependencyError("to_shap() needs shap; install it with: pip install shap") from error
        return shap.Explanation(
            values=self.values,
            base_values=self.base_values,
            data=self._shown(),
            feature_names=list(self.feature_names),
            output_names=None if self.output_names is None else list(self.output_names),
        )

    def _shown(self) -> NDArray[Any] | None:
        """Return the data as an array in the order of the features; None if it does not show its numbers."""
        if self.data is None:
            return None
        array = to_array(self.data, self.feature_names)
        return array if array.ndim == 2 else None  # a catboost.Pool, for one

    def save(self, path: str | Path) -> None:
        """Write to one file (docs/format.md); the data are kept as numbers or text, not as the original object."""
        arrays: dict[str, NDArray[Any]] = {"values": self.values, "base_values": self.base_values}
        data = self._shown()
        if data is not None:
            arrays["data"] = data.astype(np.str_) if data.dtype == object else data
        storage.write(path, FORMAT, FORMAT_VERSION, arrays, {name: getattr(self, name) for name in PLAIN})

    @classmethod
    def load(cls, path: str | Path) -> Attribution:
        """Read what `save` wrote."""
        arrays, plain = storage.read(path, FORMAT, FORMAT_VERSION)
        stored = {"data": None, "unit": "margin", **arrays, **plain}
        with naming(path):
            check_types(cls, stored, ("values", "base_values", *PLAIN))
            _check_shapes(arrays, stored)
        return cls(**{name: as_tuples(stored[name]) for name in ("values", "base_values", "data", *PLAIN)})


def _check_shapes(arrays: dict[str, NDArray[Any]], stored: dict[str, Any]) -> None:
    """Raise ModelError unless the parts of a saved Attribution fit together."""
    shape, n_features, names = arrays["values"].shape, len(stored["feature_names"]), stored["output_names"]
    if len(shape) not in (2, 3) or shape[1] != n_features:
        raise ModelError(f"values has shape {shape}, expected (rows, {n_features}) or (rows, {n_features}, outputs).")
    if names is not None and len(names) != (shape[2] if len(shape) == 3 else 1):
        raise ModelError(f"{len(names)} output_names do not fit values of shape {shape}.")
    largest = np.finfo(np.float64).max
    for name, expected in (("values", shape), ("base_values", (shape[0], *shape[2:]))):
        check_array(arrays, name, expected, -largest, largest)
        if np.isnan(arrays[name]).any():
            raise ModelError(f"{name} holds NaN.")
    if "data" in arrays and arrays["data"].shape != shape[:2]:
        raise ModelError(f"data has shape {arrays['data'].shape}, expected {shape[:2]}.")
    if stored["method"] not in METHODS:
        raise ModelError(f"method is {stored['method']!r}, expected one of {', '.join(METHODS)}.")
