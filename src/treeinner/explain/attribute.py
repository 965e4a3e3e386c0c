"""attribute(): one prediction split over its features, and Attribution, what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import MissingDependencyError, Note, counted, did_you_mean
from treeinner.kernels import Progress, heard
from treeinner.read import Model, read_model
from treeinner.read.columns import Credit, GroupSpec, credit
from treeinner.read.methods import attribute_players, check_method, node_values, reference_values
from treeinner.rows import read_table
from treeinner.rows.frames import frame_library_of, make_frame, names_of, row_labels_of, to_array
from treeinner.rows.rows import split, start_margin, transform

__all__ = ["Attribution", "attribute"]

BASE_DEFINITIONS = {
    "predecomp": "base score plus the regularised value of every tree's root: the margin before the first split",
    "saabas": "mean margin over the training rows, weighted by the covers of the leaves",
    "treeshap": "mean margin over the training rows, weighted by the covers of the leaves",
    "centred": "base score plus the mean of every tree over the rows of the reference",
}
Float = NDArray[np.float64]


def attribute(
    model: Any,
    X: Any,
    *,
    method: str = "predecomp",
    reference: Any = None,
    base_margin: Any = None,
    feature_groups: GroupSpec | None = None,
    n_jobs: int | None = -1,
    progress: Progress | bool | None = None,
) -> Attribution:
    """Split the raw prediction (margin) of every row over the features.

    Parameters
    ----------
    model : fitted model, path or Model
        A model of XGBoost, LightGBM, CatBoost or scikit-learn, a Pipeline or search around one, or its file.
    X : table
        numpy array, data frame, Arrow table or scipy sparse matrix with the model's columns.
    method : {"predecomp", "saabas", "treeshap", "centred"}
        By path with the regularised node values (the paper's p-hat), by path with the mean of the leaves below a node
        (p-tilde; XGBoost's `approx_contribs`), path-dependent TreeSHAP, or by path with the means of the leaf values
        over the rows of a score: what `importance` scores by default, for single rows.
    reference : Importance
        For centred: a result of `importance` (method="centred") for this model, whose rows give the node values. X may
        be other rows.
    base_margin : array, optional
        Margin of each row before the first tree, as given in training (LightGBM's init_score, CatBoost's baseline).
    feature_groups : mapping, "original" or "encoded", optional
        As for `importance`: name of a group -> its features; their signed values are added up.
    n_jobs : int
        Threads; -1 for all cores. The result does not depend on it.
    progress : bool or callable, optional
        True: a bar once it takes two seconds; or a function, called with (rows done, rows).

    Returns
    -------
    Attribution
        With `base_values + values.sum(axis=1)` equal to the margin.
    """
    if method != "centred":
        check_method(method)
        if reference is not None:
            raise ValueError(f"reference= goes with method='centred', not with {method!r}; leave it out.")
    model = read_model(model)
    centre = reference_values(model, reference) if method == "centred" else None
    # Asks for what is unknown before X is touched.
    root = model.trees.root_sum(node_values(model, method) if centre is None else centre)
    X, given = split(model, X, {"base_margin": base_margin})
    table = read_table(model, X)
    names = credit(model, names_of(X), feature_groups, X)
    players = attribute_players(model, table, method, centre=centre, n_jobs=n_jobs, progress=heard(progress))
    values = names.add_up(players, axis=2).swapaxes(1, 2)
    base = start_margin(model, given["base_margin"], table.n_rows) + root
    single = model.n_outputs == 1
    return Attribution(
        values=np.ascontiguousarray(values[:, :, 0] if single else values),
        base_values=np.ascontiguousarray(base[:, 0] if single else base),
        data=_data(model, X, names, feature_groups),
        feature_names=names.names,
        output_names=model.output_names,
        method=method,
        unit="margin" if model.loss is None else model.loss.unit,
        row_labels=row_labels_of(X),
        frame_library=frame_library_of(X),
        notes=(*model.notes, *table.notes),
    )


def _data(model: Model, X: Any, names: Credit, feature_groups: GroupSpec | None) -> Any:
    """The table whose columns the names are; None where they are groups, or several columns of a pipeline together."""
    if isinstance(feature_groups, Mapping):
        return None
    if not model.transformers or feature_groups == "encoded":
        return transform(model.transformers, X)
    raw = names_of(X)
    return X if raw is None or set(names.names) <= set(raw) else None


@dataclass(frozen=True, eq=False, kw_only=True)
class Attribution:
    """Attribution of every row on the margin scale, in `unit`.

    `base_values + values.sum(axis=1)` is the model's raw prediction.
    """

    values: Float  #: (rows, features), or (rows, features, outputs)
    base_values: Float  #: (rows,), or (rows, outputs)
    data: Any  #: X as it was given (behind a pipeline's transformers); None for grouped features
    feature_names: tuple[str, ...]  #: features, or groups of them
    output_names: tuple[str, ...] | None  #: classes or targets; None if there is one
    method: str  #: which attribution
    unit: str = "margin"  #: unit of the values in words, such as "log-odds"
    row_labels: Any = None  #: index of the pandas frame that X was
    frame_library: str = ""  #: "pandas", "polars", ...: what X was a frame of
    notes: tuple[Note, ...] = ()  #: what was assumed about the model

    def __post_init__(self) -> None:
        self.values.flags.writeable = self.base_values.flags.writeable = False

    @property
    def base_definition(self) -> str:
        """What `base_values` are, in words."""
        return BASE_DEFINITIONS[self.method]

    @property
    def output_labels(self) -> tuple[str, ...]:
        """Name of every output; their numbers, "0" first, if they have none."""
        return self.output_names or tuple(map(str, range(self.by_output[1].shape[1])))

    @property
    def by_output(self) -> tuple[Float, Float]:
        """Values (rows, features, outputs) and base values (rows, outputs), also if there is one output."""
        several = self.values.ndim == 3
        return (self.values, self.base_values) if several else (self.values[:, :, None], self.base_values[:, None])

    def __repr__(self) -> str:
        parts = [counted(*part) for part in zip(self.values.shape, ("row", "feature", "output"), strict=False)]
        return f"Attribution({self.method}: {' x '.join(parts)}, in {self.unit})"

    def _repr_html_(self) -> str:
        from treeinner.show.table import of_attribution  # here: what is shown stands above what is worked out

        return of_attribution(self, self._shown()).html()

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        """`a[0]`, `a[:10]`, `a[mask]`: the Attribution of these rows; `a[:, "bmi"]`, `a[0, 3]`: values as numpy does.

        A feature may be given by its name, or several by a list of names.
        """
        if not isinstance(index, tuple):
            rows, data = np.atleast_1d(np.arange(len(self))[index]), self._shown()
            return replace(
                self,
                values=self.values[rows],
                base_values=self.base_values[rows],
                data=None if data is None else data[rows],
                row_labels=None if self.row_labels is None else self.row_labels[rows],
            )
        rows, features, *rest = index
        features = [*map(self._place, features)] if isinstance(features, list) else self._place(features)
        return self.values[(rows, features, *rest)]

    def _place(self, name: Any) -> Any:
        """Position of a feature; what is no name is as numpy takes it."""
        if not isinstance(name, str):
            return name
        if name not in self.feature_names:
            raise KeyError(f"{name!r} is not a feature{did_you_mean(name, self.feature_names, '; see feature_names.')}")
        return self.feature_names.index(name)

    def to_frame(self) -> Any:
        """Data frame in the library of X (else pandas, polars or pyarrow, what is installed): a column per feature.

        With several outputs the columns are called "output: feature".
        """
        values, _ = self.by_output
        columns = {
            name if self.values.ndim == 2 else f"{output}: {name}": values[:, j, k]
            for k, output in enumerate(self.output_labels)
            for j, name in enumerate(self.feature_names)
        }
        return make_frame(columns, library=self.frame_library, row_labels=self.row_labels)

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
        return array if array.shape == self.values.shape[:2] else None  # a catboost.Pool, for one
