"""Rows: rows in memory with their target and what else was given for them, checked against the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from treeinner import losses
from treeinner.errors import DataError, Note, UnknownParameterError, UnsupportedModelError, did_you_mean, own_name, warn
from treeinner.rows.columns import labels, listing, unmasked
from treeinner.rows.frames import as_frame, as_stored, collected, frame_library_of, lacking, names_of, values_of
from treeinner.rows.table import DenseTable, Table, as_array, checked_csr, is_sparse, make_table, refuse_by_name

if TYPE_CHECKING:
    from treeinner.read.model import Model

__all__ = ["ROLES", "Rows", "needs_all_rows", "one_batch", "read_table"]

Float = NDArray[np.float64]

ROLES = ("y", "sample_weight", "clusters", "base_margin", "qid", "by")  # what comes with X
SEVERAL = ("y", "base_margin")  # which may be several columns
INDEX = ("", "__index_level_0__")  # what pandas calls the row labels that it wrote along
WEIGHT_BITS = 24  # a weight below 2^-24 of the largest has no digits left in the sums
NO_WEIGHT = "sample_weight is zero in every row; at least one row must count."


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """Rows in memory, checked. n rows, K outputs, T trees."""

    table: Table
    y: NDArray[Any]  # as the loss takes it
    start: Float  # (n, K) margin before the first tree, base_margin settled
    weight: Float | None = None  # (n,) times class weights, in units of 2^weight_exponent; 0: the row is not there
    weight_exponent: int = 0  # of the largest weight of all rows, in every batch and partition: it is at most 1 here
    clusters: NDArray[Any] | None = None  # (n,) labels
    query: NDArray[Any] | None = None  # (n,) labels
    segment: NDArray[Any] | None = None  # (n,) labels of by=
    tree_weight: Float | None = None  # (T, n) what a row counts for in a tree: out-of-bag rows
    names: tuple[str, ...] | None = None  # columns of X, where the model stores none
    target_names: tuple[str, ...] | None = None  # columns of y, if several
    frame_library: str = ""  # "pandas", "polars", ...: the library in which results are returned

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.n_rows

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was noticed while the rows were read; the user was warned already."""
        return self.table.notes

    def take(self, rows: Any) -> Rows:
        """Return some of the rows, by their positions or a slice."""
        arrays = {name: getattr(self, name) for name in ("y", "start", "weight", "clusters", "query", "segment")}
        some = {name: array[rows] for name, array in arrays.items() if array is not None}
        tree_weight = None if self.tree_weight is None else self.tree_weight[:, rows]
        return replace(self, table=self.table.take(rows), tree_weight=tree_weight, **some)


def read_table(model: Model, X: Any) -> Table:
    """Rows of X as the model's trees read them, behind its transformers."""
    return _table(model, _transformed(model, X))


def one_batch(
    model: Model, X: Any, given: Mapping[str, Any], *, oob: bool = False, largest_weight: float | None = None
) -> Rows:
    """Rows in memory. given: ROLES -> values, or names of columns of X; largest_weight: of all rows, if there are more.

    What is wrong is said at the first place that notices it.
    """
    X, given = split(model, X, given)
    _check_order(X, given)
    loss, y = model.loss, given["y"]
    if loss is None:
        raise UnknownParameterError(model.loss_needed)
    if y is None:
        raise DataError("The score needs the target: pass y, one value per row of X.")
    if (given["qid"] is not None) != (loss.scope == "query"):
        needs = "ranks within queries; pass qid, the query of every row" if given["qid"] is None else "has no queries"
        raise DataError(f"The loss {loss.name!r} {needs}{'.' if given['qid'] is None else '; leave qid out.'}")
    seen = _transformed(model, X)
    table = _table(model, seen)
    n = table.n_rows
    target_names = names_of(y)
    for step in model.targets:
        y = step(y)
    encoded = losses.encode_target(
        y, loss, classes=model.classes, n_outputs=model.n_outputs, n_rows=n, border=model.target_border,
        averaged=model.trees.averaged,
    )  # fmt: skip
    weight, exponent = _weights(model, y, given["sample_weight"], n, largest_weight)
    names = names_of(X) if model.feature_names is None and not model.transformers else None
    label = {role: None if given[role] is None else labels(given[role], n, role) for role in ("clusters", "qid", "by")}
    return Rows(
        table=table,
        y=np.asarray(encoded),
        start=_start(model, given["base_margin"], n),
        weight=weight,
        weight_exponent=exponent,
        clusters=label["clusters"],
        query=label["qid"],
        segment=label["by"],
        tree_weight=_out_of_bag(model, seen, y, weight) if oob else None,
        names=names if names is not None and len(names) == model.n_features else None,
        target_names=target_names if target_names is not None and np.shape(y)[1:] == (len(target_names),) else None,
        frame_library=frame_library_of(X),
    )


def needs_all_rows(model: Model) -> str:
    """Why the rows of this model cannot come in batches that are added up; "" if they can."""
    scope = "row" if model.loss is None else model.loss.scope
    if model.loss is not None and scope not in ("row", "query"):
        return f"the gradient of {model.loss.name!r} depends on all rows together"
    if model.class_weight is not None and not isinstance(model.class_weight, Mapping):
        return f"class_weight={model.class_weight!r} weighs rows by the class counts of all rows"
    return ""


# -- X -------------------------------------------------------------------------------------------------------
def _transformed(model: Model, X: Any) -> Any:
    """X as the model itself sees it, behind the pipeline's transformers."""
    refuse_by_name(X)
    if model.transformers or model.route is not None:
        X = _for_others(X)
    for step in model.transformers:
        if hasattr(step, "transform"):
            X = step.transform(X)
        elif not hasattr(step, "fit_resample"):  # imblearn's samplers work in fit alone
            raise UnsupportedModelError(
                f"The pipeline step {type(step).__name__} cannot transform X; pass the final model and the X it was "
                "fitted on."
            )
    return X


def _for_others(X: Any) -> Any:
    """X for other libraries, so that they see what `make_table` would: they ignore masks and trust indices."""
    if is_sparse(X):
        return checked_csr(X)
    if isinstance(X, np.ma.MaskedArray):
        return as_array(X)
    frame = as_frame(X)
    if frame is None or isinstance(frame, nw.Series):
        return X
    # scikit-learn's transformers do not take Arrow tables.
    return collected(frame).to_pandas() if frame.implementation.is_pyarrow() else collected(frame).to_native()


def _table(model: Model, X: Any) -> Table:
    if model.route is None:
        table = make_table(X, model.schema)
        for note in table.notes:
            warn(note)
        return replace(table, notes=tuple(replace(note, quiet=True) for note in table.notes))
    if np.shape(X)[:1] == (0,):
        raise DataError("X has no rows; pass at least one.")
    return DenseTable(model.route(X))


# -- columns by name -----------------------------------------------------------------------------------------
def roles_among(given: Mapping[str, Any], names: Sequence[str] | None) -> dict[str, list[str]]:
    """Arguments that name columns -> these columns. names: those of X, if it has any.

    A text is always a name. A list of texts may be labels of rows; it is one of names if X has all these columns.
    """
    found = {}
    for role, value in given.items():
        if isinstance(value, str):
            found[role] = [value]
        elif role in SEVERAL and isinstance(value, list | tuple) and set(map(type, value)) == {str}:
            found |= {role: list(value)} if set(value) <= set(names or ()) else {}
    for role, columns in found.items():
        if names is None:
            raise DataError(
                f"{role}={columns[0]!r} names a column, but X has no column names; pass a data frame that has the "
                f"column, or the values of {role}."
            )
        for name in set(columns) - set(names):
            hint = did_you_mean(name, names, f"; it has {listing(names)}.")
            raise DataError(f"{role}={name!r}: X has no such column{hint}")
    return found


def split(model: Model, X: Any, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """X with the model's columns alone, and `given` with values in place of names; without names, all as it is."""
    given = dict(given)
    if not any(isinstance(value, str | list | tuple) for value in given.values()):
        return X, given
    names = names_of(X)
    roles = roles_among(given, names)
    if not roles or names is None:
        return X, given
    frame: Any = as_frame(X)
    rows = collected(frame)
    for role, columns in roles.items():
        places = [names.index(name) for name in columns]  # by position: pandas takes any object for a name
        given[role] = values_of(rows[:, places[0]]) if len(places) == 1 else rows[:, places].to_native()
    features = features_among(model, names, roles)
    return rows[:, [names.index(name) for name in features]].to_native(), given


def features_among(
    model: Model, names: Sequence[str], roles: Mapping[str, Sequence[str]], where: str = "X"
) -> list[str]:
    """Which of these columns the model reads, in its order, or by position if it stores no names."""
    stored: Sequence[str] = names
    if model.transformers:
        step = next((step for step in model.transformers if hasattr(step, "n_features_in_")), None)
        wanted, n_columns = getattr(step, "feature_names_in_", None), getattr(step, "n_features_in_", None)
    elif model.route is not None:  # the schema may speak of what the route makes of X
        wanted, n_columns = model.feature_names, model.n_features
    else:
        wanted, n_columns = model.schema.names, model.schema.n_columns
        stored = as_stored(names, model.schema)
    if wanted is None:
        return _by_position(names, {name for columns in roles.values() for name in columns}, n_columns, where)
    place = dict(zip(stored, names, strict=True))
    if missing := [str(name) for name in wanted if str(name) not in place]:
        raise lacking(missing, wanted, names, where)
    features = [place[str(name)] for name in wanted]
    for name in roles.get("y", ()):
        if name in features:
            raise DataError(f"y={name!r}: this column is a feature of the model; name the one that it predicts.")
    return features


def _by_position(names: Sequence[str], taken: set[str], n_columns: int | None, where: str) -> list[str]:
    features = [name for name in names if name not in taken]
    if n_columns is not None and len(features) > n_columns:
        features = [name for name in features if name not in INDEX]
    if n_columns is not None and len(features) != n_columns:
        raise DataError(
            f"{where} has {len(features)} columns besides {listing(sorted(taken))}, but the model was trained on "
            f"{n_columns} and does not store their names; pass the training columns in training order, and no others."
        )
    return features


# -- what comes with X ---------------------------------------------------------------------------------------
def _check_order(X: Any, given: Mapping[str, Any]) -> None:
    """Raise if pandas labels say that y or another argument has the rows of X in another order."""
    index: Any = getattr(X, "index", None)
    for role, values in given.items():
        other: Any = getattr(values, "index", None)
        if not (hasattr(index, "equals") and hasattr(other, "equals")) or index is other or index.equals(other):
            continue
        if len(index) == len(other) and set(index) == set(other):
            raise DataError(
                f"{role} has the row labels of X in another order; pass {role}.loc[X.index], or {role}.to_numpy() if "
                "its rows are in the order of X as they stand."
            )


def _start(model: Model, given: Any, n_rows: int) -> Float:
    """Margin before the first tree: (rows, outputs)."""
    base: Float = np.broadcast_to(model.trees.base, (n_rows, model.n_outputs))
    if given is None:
        return base
    name = own_name("base_margin", model.library)
    margin = _numbers(given, name)
    expected = (n_rows,) if model.n_outputs == 1 else base.shape
    if margin.shape not in (expected, base.shape):
        raise DataError(f"{name} has shape {margin.shape}, expected {expected}: one margin per row (and output).")
    margin = margin.reshape(base.shape)
    return margin if model.base_margin == "replace" else base + margin


def _numbers(given: Any, name: str) -> Float:
    """Finite numbers in float64."""
    try:
        values = np.asarray(unmasked(given, name), np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} holds values that are not numbers; pass one number per row.") from None
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise DataError(f"{name} holds {np.ravel(values[row])[0]:g} in row {row}; it must be finite in every row.")
    return values


def given_weights(given: Any, n_rows: int) -> Float:
    """The user's weights, checked: (rows,)."""
    weight = _numbers(given, "sample_weight").reshape(-1)
    if len(weight) != n_rows:
        raise DataError(f"sample_weight has {len(weight)} values, but X has {n_rows} rows; pass one weight per row.")
    if np.any(weight < 0):
        raise DataError(f"sample_weight is negative in row {int(np.argmax(weight < 0))}; weights must be 0 or more.")
    return weight


def _weights(model: Model, y: Any, given: Any, n_rows: int, largest: float | None) -> tuple[Float | None, int]:
    """The user's weights times those of the classes, and the exponent of their unit; None: every row counts alike."""
    spec = model.class_weight if model.classes is not None else None
    if given is None and spec is None and largest is None:
        return None, 0
    weight = np.ones(n_rows) if given is None else given_weights(given, n_rows)
    if largest is None and not weight.any():
        raise DataError(NO_WEIGHT)
    top = weight.max() if largest is None else largest
    if weight.max() > top:
        raise DataError(f"sample_weight holds {weight.max():g}, above the largest_weight={top:g} that was announced.")
    if spec is not None:
        weight = weight * losses.class_weights(spec, model.classes, y)
        # Not of these rows' classes alone: the unit must not depend on how the rows are cut into batches.
        by_class = losses.class_weights(spec, model.classes, model.classes) if isinstance(spec, Mapping) else None
        top = weight.max() if by_class is None else top * by_class.max()
    small = (weight > 0) & (weight < np.ldexp(top, -WEIGHT_BITS))
    if small.any() or not 0 < top < np.inf:
        row = int(np.argmax(small))
        raise DataError(
            f"The weight of row {row} is {weight[row]:g}, but the largest is {top:g}: a weight must be 0 or at least "
            f"2^-{WEIGHT_BITS} of the largest. Set it to 0, or clip the largest weights."
        )
    exponent = int(np.frexp(top)[1])
    return np.ldexp(weight, -exponent), exponent


def _out_of_bag(model: Model, X: Any, y: Any, weight: Float | None) -> Float:
    """What each training row counts for in each tree of a random forest: (trees, rows).

    0 if the tree saw it, else all rows / out-of-bag rows of the tree, so that the score is MDI-oob.
    """
    if model.out_of_bag is None:
        raise UnsupportedModelError(
            f"oob=True needs a scikit-learn forest trained with bootstrap=True, which this {model.library} model is "
            "not. Use held-out rows instead."
        )
    unseen: Float = model.out_of_bag(X, y).astype(np.float64)
    counted = np.ones(unseen.shape[1]) if weight is None else weight
    total = unseen @ counted
    unseen *= np.divide(counted.sum(), total, out=np.zeros_like(total), where=total > 0)[:, None]
    return unseen
