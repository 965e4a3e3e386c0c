"""Rows: rows in memory with their target and what else was given for them, checked against the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner import errors, losses
from treeinner.errors import DataError, UnsupportedModelError, did_you_mean, listing, own_name
from treeinner.kernels.units import in_units
from treeinner.rows.columns import labels
from treeinner.rows.frames import collected, frame_library_of, names_of, places_of, values_of
from treeinner.rows.segments import segments_of
from treeinner.rows.table import DenseTable, Table, make_table, refuse_by_name

if TYPE_CHECKING:
    from treeinner.read.model import Model

__all__ = ["ROLES", "Rows", "columns_of", "needs_all_rows", "one_batch", "read_table", "start_margin", "transform"]

Float = NDArray[np.float64]

ROLES = ("y", "sample_weight", "clusters", "base_margin", "qid", "by")  # what comes with X
SEVERAL = ("y", "base_margin", "by")  # which may be several columns
WEIGHT_BITS = 24  # a weight below 2^-24 of the largest has no digits left in the sums
NO_WEIGHT = "sample_weight is zero in every row; at least one row must count."


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """Rows in memory, checked. n rows, K outputs, T trees."""

    table: Table
    n_rows: int
    y: NDArray[Any]  # as the loss takes it
    start: Float  # (n, K) margin before the first tree, base_margin settled
    weight: Float | None = None  # (n,) times class weights, in units of 2^weight_exponent; 0: the row is not there
    weight_exponent: int = 0  # of the largest weight of all rows, in every batch and partition; it is at most 1 here
    clusters: NDArray[Any] | None = None  # (n,) labels
    query: NDArray[Any] | None = None  # (n,) labels
    segment: tuple[NDArray[np.int16], tuple[str, ...]] | None = None  # (n,) numbers of the segments, and their labels
    tree_weight: Float | None = None  # (T, n) what a row counts for in a tree: out-of-bag rows
    names: tuple[str, ...] | None = None  # of the model's features, as X spells them
    target_names: tuple[str, ...] | None = None  # columns of y, if several
    frame_library: str = ""  # "pandas", "polars", ...: the library in which results are returned
    label: str = ""  # the file or batch that they come from, if any, as messages call it


def one_batch(
    model: Model, X: Any, given: Mapping[str, Any], *, oob: bool = False, largest_weight: float | None = None
) -> Rows:
    """Rows in memory. given: ROLES -> values (see `split`), freq; largest_weight: of all rows, if there are more."""
    for role, value in given.items():
        refuse_by_name(value, role)
        check_order(X, value, role)
    loss, y, qid = model.loss, given["y"], given["qid"]
    if loss is None:
        raise errors.UnknownParameterError(model.loss_needed)
    if y is None:
        raise DataError("The score needs the target: pass y, one value per row of X.")
    if (qid is not None) != (loss.scope == "query"):
        raise DataError(f"The loss, {loss.name}, {'needs' if qid is None else 'takes no'} qid, the query of every row.")
    seen, table = _read(model, X)
    n, target_names = table.n_rows, names_of(y)
    for step in model.targets:
        y = step(y)
    about = {"classes": model.classes, "n_outputs": model.n_outputs, "border": model.target_border}
    encoded = losses.encode_target(y, loss, n_rows=n, **about)
    weight, exponent = _weights(model, y, given["sample_weight"], n, largest_weight)
    return Rows(
        table=table,
        n_rows=n,
        y=np.asarray(encoded),
        start=start_margin(model, given["base_margin"], n),
        weight=weight,
        weight_exponent=exponent,
        clusters=labels(given["clusters"], n, "clusters"),
        query=labels(qid, n, "qid"),
        segment=None if given["by"] is None else segments_of(given["by"], n, given.get("freq")),
        tree_weight=_out_of_bag(model, seen, y, weight) if oob else None,
        names=names_in(model, X),
        target_names=target_names if np.shape(y)[1:] == (len(target_names or ()),) else None,
        frame_library=frame_library_of(X),
    )


def names_in(model: Model, X: Any) -> tuple[str, ...] | None:
    """Names of the model's features as X spells them; None behind transformers, and where X has none."""
    names, stored = None if model.transformers else names_of(X), model.schema.names
    if names is not None and stored is not None:
        return tuple(names[j] for j in places_of(names, stored))
    return names if len(names or ()) == model.n_features else None


def needs_all_rows(model: Model) -> str:
    """Why the rows of this model cannot come in batches that are added up; "" if they can."""
    if model.loss is not None and model.loss.scope not in ("row", "query"):
        return f"the gradient of {model.loss.name!r} depends on all rows together"
    if model.class_weight is not None and not isinstance(model.class_weight, Mapping):
        return f"class_weight={model.class_weight!r} depends on the class counts of all rows"
    return ""


# -- X -------------------------------------------------------------------------------------------------------
def read_table(model: Model, X: Any) -> Table:
    """Rows of X as the model's trees read them, behind its transformers."""
    return _read(model, split(model, X, {})[0])[1]


def _read(model: Model, X: Any) -> tuple[Any, Table]:
    """X as the model itself sees it, behind the pipeline's transformers; and as its trees read it."""
    if model.route is None:  # CatBoost itself takes more, such as its Pool
        refuse_by_name(X)
    if model.transformers or model.route:
        if names_of(X) is not None:  # others take no Arrow tables and lazy frames
            rows = collected(X)
            X = rows.to_pandas() if rows.implementation.is_pyarrow() else rows.to_native()
        X = transform(model.transformers, X)
    if model.route is not None:
        if np.shape(X)[:1] == (0,):
            raise DataError("X has no rows; pass at least one.")
        return X, DenseTable(model.route(X))
    table = make_table(X, model.schema)
    for note in table.notes:
        errors.warn(note)
    return X, replace(table, notes=tuple(replace(note, quiet=True) for note in table.notes))


def transform(transformers: Sequence[Any], X: Any) -> Any:
    """X behind the steps of a pipeline."""
    for step in transformers:
        X = step.transform(X) if hasattr(step, "transform") else X  # imblearn's samplers work in fit alone
    return X


# -- columns by name -----------------------------------------------------------------------------------------
def split(model: Model, X: Any, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """X with the model's columns alone, and `given` with values in place of names; without names, all as it is.

    A row of a pandas frame, which is a Series of names and values, is a frame of one row.
    """
    given = dict(given)
    if type(X).__name__ == "Series" and getattr(getattr(X, "index", None), "inferred_type", "") == "string":
        X = X.to_frame().T.infer_objects()
    names = names_of(X) or ()
    roles = roles_among(given, names)
    if not roles and len(names) <= len(columns_of(model)[0] or names):
        return X, given
    rows = collected(X)
    features = features_among(model, names, roles)
    for role, columns in roles.items():
        places = [names.index(name) for name in columns]  # by position: pandas takes any object for a name
        one = len(places) == 1 and role != "by"
        given[role] = values_of(rows[:, places[0]]) if one else rows[:, places].to_native()
    return rows[:, [names.index(name) for name in features]].to_native(), given


def roles_among(given: Mapping[str, Any], names: Sequence[str], where: str = "X") -> dict[str, list[str]]:
    """Arguments that name columns -> these columns.

    A text is always a name. A list of texts may be labels of rows; it holds names if they are different columns of X.
    """
    found = {}
    for role, value in given.items():
        if role == "freq":  # a word of pandas
            continue
        if isinstance(value, str) and value not in names:
            hint = did_you_mean(value, names, f"; it has {listing(names)}." if names else "; it is no data frame.")
            raise DataError(f"{role}={value!r}: {where} has no such column{hint}")
        several = role in SEVERAL and isinstance(value, list | tuple) and set(map(type, value)) == {str}
        if isinstance(value, str) or (several and set(value) <= set(names) and len(set(value)) == len(value)):
            found[role] = [value] if isinstance(value, str) else list(value)
    return found


def features_among(
    model: Model, names: Sequence[str], roles: Mapping[str, Sequence[str]], where: str = "X"
) -> list[str]:
    """Which of these columns the model reads, in its order, or by position if it stores no names."""
    wanted, n_columns = columns_of(model)
    taken = {name for columns in roles.values() for name in columns}
    features = [name for name in names if name not in taken]
    if n_columns == len({*features, *roles.get("by", ())}):  # a feature may tell segments apart too
        features = [name for name in names if name in features or name in roles.get("by", ())]
    if wanted is not None:
        features = [names[j] for j in places_of(names, wanted, where)]
    elif n_columns not in (None, len(features)):
        raise DataError(f"{where} has {len(features)} columns besides {listing(sorted(taken))}, expected {n_columns}.")
    if wrong := [name for name in roles.get("y", ()) if name in features]:
        raise DataError(f"y={wrong[0]!r}: this column is a feature of the model; name the one that it predicts.")
    return features


def columns_of(model: Model) -> tuple[tuple[str, ...] | None, int | None]:
    """Names and number of the columns of X that the model, or its pipeline's first step, reads, if it stores them."""
    if not model.transformers:
        return model.schema.names, model.n_features if model.route is not None else model.schema.n_columns
    step = next((step for step in model.transformers if hasattr(step, "n_features_in_")), None)
    names = getattr(step, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names)), getattr(step, "n_features_in_", None)


# -- what comes with X ---------------------------------------------------------------------------------------
def check_order(X: Any, values: Any, role: str) -> None:
    """Raise if pandas labels say that y or another argument has the rows of X in another order."""
    index: Any = getattr(X, "index", None)
    other: Any = getattr(values, "index", None)
    of_pandas = hasattr(index, "equals") and hasattr(other, "equals")
    if of_pandas and len(index) == len(other) and not index.equals(other) and set(index) == set(other):
        raise DataError(f"{role} has the labels of X in another order; pass {role}.loc[X.index] or {role}.to_numpy().")


def finite(given: Any, name: str) -> Float:
    """Numbers in float64, all finite."""
    try:
        values = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} holds values that are not numbers; pass one number per row.") from None
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise DataError(f"{name} holds {values[row]} in row {row}; it must be finite in every row.")
    return values


def start_margin(model: Model, given: Any, n_rows: int) -> Float:
    """Margin before the first tree: (rows, outputs). given: the user's base_margin."""
    base: Float = np.broadcast_to(model.trees.base, (n_rows, model.n_outputs))
    if given is None:
        return base
    name = own_name("base_margin", model.library)
    if model.trees.averaged:
        raise DataError(f"{name} has no meaning for a forest, whose trees fit the target itself; leave it out.")
    margin = finite(given, name)
    if margin.shape != base.shape and (model.n_outputs > 1 or margin.shape != (n_rows,)):
        raise DataError(f"{name} has shape {margin.shape}, expected {base.shape}: one margin per row and output.")
    margin = margin.reshape(base.shape)
    return margin if model.base_margin == "replace" else base + margin


def given_weights(given: Any, n_rows: int) -> Float:
    """The user's weights, checked: (rows,)."""
    weight = finite(given, "sample_weight").reshape(-1)
    if len(weight) != n_rows:
        raise DataError(f"sample_weight has {len(weight)} values, but X has {n_rows} rows; pass one weight per row.")
    if np.any(weight < 0):
        raise DataError(f"sample_weight is negative in row {int(np.argmax(weight < 0))}; weights must be 0 or more.")
    return weight


def _weights(model: Model, y: Any, given: Any, n_rows: int, largest: float | None) -> tuple[Float | None, int]:
    """The user's weights times those of the classes, and the exponent of their unit; None: every row counts alike."""
    spec = model.class_weight if model.classes is not None else None
    if given is None and spec is None and largest is None:
        return in_units(None, 1.0)
    weight = np.ones(n_rows) if given is None else given_weights(given, n_rows)
    top = weight.max() if largest is None else largest
    if weight.max() > top:
        raise DataError(f"sample_weight holds {weight.max():g}, above largest_weight={top:g}.")
    if spec is not None:
        weight = weight * losses.class_weights(spec, model.classes, y)
        # Not of these rows' classes alone: the unit must not depend on how the rows are cut into batches.
        classes = model.classes if isinstance(spec, Mapping) else None
        top = weight.max() if classes is None else top * losses.class_weights(spec, classes, classes).max()
    if not top or (largest is None and not weight.any()):
        raise DataError(NO_WEIGHT)
    small = (weight > 0) & (weight < np.ldexp(top, -WEIGHT_BITS))
    if small.any():
        held = f"The weight of row {int(np.argmax(small))} is {weight[small][0]:g}, the largest {top:g}"
        raise DataError(f"{held}: it is below 2^-{WEIGHT_BITS} of that; set it to 0, or clip the largest weights.")
    return in_units(weight, top)


def _out_of_bag(model: Model, X: Any, y: Any, weight: Float | None) -> Float:
    """What each training row counts for in each tree of a random forest: (trees, rows).

    0 if the tree saw it, else all rows / out-of-bag rows of the tree, so that the score is MDI-oob.
    """
    if model.out_of_bag is None:
        raise UnsupportedModelError("oob=True needs a scikit-learn forest with bootstrap=True; use held-out rows.")
    unseen: Float = model.out_of_bag(X, y).astype(np.float64)
    counted = np.ones(unseen.shape[1]) if weight is None else weight
    total = unseen @ counted
    unseen *= np.divide(counted.sum(), total, out=np.zeros_like(total), where=total > 0)[:, None]
    return unseen
