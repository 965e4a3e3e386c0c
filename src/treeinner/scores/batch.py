"""A batch: rows that a user hands over, with what comes along with them, checked against the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError
from treeinner.model import Model
from treeinner.objectives import Objective, encode_target
from treeinner.tables import Table
from treeinner.tables.columns import is_missing, unmasked
from treeinner.tables.frames import names_of

__all__ = ["NO_WEIGHT", "Batch", "read_batch", "read_labels"]

FloatArray = NDArray[np.float64]
NO_WEIGHT = "sample_weight is zero in every row; at least one row must count."


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """Rows, their target and what else was given with them."""

    table: Table
    y: NDArray[Any] | None
    weight: FloatArray | None
    clusters: NDArray[Any] | None
    qid: NDArray[Any] | None
    base: FloatArray  # (rows, outputs)  margin before the first tree
    target_names: tuple[str, ...] | None = None  # columns of y, where it is a data frame of several
    tree_share: FloatArray | None = None  # (trees, rows)  what a row counts for in a tree; None: 1
    shares: FloatArray | None = None  # (rows, features or groups, outputs)  where the rows' shares are kept, if wanted

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.n_rows

    @property
    def sum_of_weights(self) -> float:
        """Sum of the weights; the number of rows without weights."""
        return float(self.n_rows if self.weight is None else self.weight.sum())

    def require_weight(self) -> None:
        """Raise if no row counts. Of one batch among others none needs to."""
        if self.weight is not None and not np.any(self.weight > 0):
            raise DataError(NO_WEIGHT)


def read_batch(
    model: Model,
    objective: Objective | None,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    clusters: Any = None,
    base_margin: Any = None,
    qid: Any = None,
) -> Batch:
    """Check and convert what the user gave; without an objective there is no target."""
    table = model.table(X)
    n = table.n_rows
    if objective is None:
        for name, given in (("y", y), ("base_margin", base_margin), ("qid", qid)):
            if given is not None:
                raise DataError(f"score='abs' uses only the attributions; omit {name}.")
    elif y is None:
        raise DataError("The score needs the target: pass y, one value per row of X.")
    elif qid is not None and objective.scope != "query":
        raise DataError(f"qid was given, but the loss {objective.name!r} does not rank within queries; leave it out.")
    names = names_of(y)
    if model.targets and y is not None:
        y = model.target(y)
        names = names if names is not None and np.shape(y)[1:] == (len(names),) else None
    return Batch(
        table=table,
        y=None if objective is None else np.asarray(encode_target(model.ensemble, y, objective=objective, n_rows=n)),
        weight=_row_weights(model, objective, y, sample_weight, n),
        clusters=None if clusters is None else read_labels(clusters, n, "clusters"),
        qid=None if qid is None else read_labels(qid, n, "qid"),
        base=np.asarray(model.ensemble.base_values(n, base_margin)),
        target_names=names if names is not None and len(names) > 1 else None,
    )


def _row_weights(model: Model, objective: Objective | None, y: Any, given: Any, n_rows: int) -> FloatArray | None:
    """The user's weights times those that training gave to the classes; None: every row counts alike."""
    weight = None if given is None else checked_weights(given, n_rows)
    own = None if objective is None else model.row_weights(y)
    return weight if own is None else own if weight is None else own * weight


def checked_weights(weight: Any, n_rows: int) -> FloatArray:
    """Weights as an array, one per row; what is wrong with them is said."""
    weight = unmasked(weight, "sample_weight")
    try:
        w = np.asarray(weight, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise DataError("sample_weight holds values that are not numbers; pass one number per row.") from None
    if len(w) != n_rows:
        raise DataError(f"sample_weight has {len(w)} values, but X has {n_rows} rows; pass one weight per row.")
    if not np.all(np.isfinite(w)) or np.any(w < 0):
        bad = int(np.flatnonzero(~(np.isfinite(w) & (w >= 0)))[0])
        raise DataError(f"sample_weight holds {w[bad]:g} in row {bad}; weights must be finite and not negative.")
    return w


def read_labels(labels: Any, n_rows: int, name: str) -> NDArray[Any]:
    """One label per row, checked: (rows,)."""
    array = np.asarray(unmasked(labels, name)).reshape(-1)
    if len(array) != n_rows:
        raise DataError(f"{name} has {len(array)} labels, but X has {n_rows} rows; pass one label per row.")
    missing = [i for i, label in enumerate(array.tolist()) if is_missing(label)]
    if missing:
        raise DataError(f"{name} has no label in row {missing[0]} ({len(missing)} such rows); give every row one.")
    if array.dtype.kind in "mM":
        return array.astype(np.str_)
    if array.dtype != object:
        return array
    # Nullable integers come as objects in one batch and as numbers in another: they are the same labels.
    integers = all(isinstance(label, int) for label in array.tolist())
    return array.astype(np.int64 if integers else np.str_)
