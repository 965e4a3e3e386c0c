"""A batch: rows that a user hands over, with what comes along with them, checked against the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError
from treeinner.model import Model
from treeinner.objectives import Objective, encode_target
from treeinner.tables import Table
from treeinner.tables.columns import is_missing, unmasked
from treeinner.tables.frames import names_of

__all__ = ["NO_WEIGHT", "SCALE_BITS", "Batch", "check_given", "label_kind", "read_batch", "read_labels"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
# Scale k has weights from 2^(16 k - 8) to 2^(16 k + 8), which are counted in units of 2^(16 k): the smallest are 2^24
# units of a leaf sum, the largest leave room for a task of 4096 rows (decision 15).
SCALE_BITS, BELOW_ONE = 16, 8
NO_WEIGHT = "sample_weight is zero in every row; at least one row must count."


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """Rows, their target and what else was given with them."""

    table: Table
    y: NDArray[Any] | None
    weight: FloatArray | None  # (rows,)  in units of 2^weight_exponent
    clusters: NDArray[Any] | None
    qid: NDArray[Any] | None
    base: FloatArray  # (rows, outputs)  margin before the first tree
    target_names: tuple[str, ...] | None = None  # columns of y, where it is a data frame of several
    tree_share: FloatArray | None = None  # (trees, rows)  what a row counts for in a tree; None: 1
    shares: FloatArray | None = None  # (rows, features or groups, outputs)  where the rows' shares are kept, if wanted
    weight_exponent: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.n_rows

    @property
    def sum_of_weights(self) -> float:
        """Sum of the weights; the number of rows without weights."""
        return float(self.n_rows if self.weight is None else self.weight.sum())

    def given_weight(self) -> FloatArray | None:
        """Weights as they were given: (rows,)."""
        return self.weight if self.weight is None else np.ldexp(self.weight, self.weight_exponent)

    def by_scale(self, objective: Objective | None) -> Iterator[tuple[int, Batch, Any]]:
        """Rows by the scale of their weights: (scale, batch in its units, which rows these are).

        A stream does not know its mean weight. So the scale of a row is its own; where rows look at each other, that of
        the largest weight among them.
        """
        if self.weight is None:
            yield 0, self, slice(None)
            return
        scale = scales_of(self.weight)
        if objective is not None and not objective.per_row:
            if objective.scope == "query" and self.qid is not None:
                _, query = np.unique(self.qid, return_inverse=True)
                largest = np.zeros(query.max(initial=-1) + 1)
                np.maximum.at(largest, query, self.weight)
                scale = scales_of(largest)[query]
            else:
                scale = np.broadcast_to(scales_of(self.weight.max(keepdims=True)), scale.shape)
        found = np.unique(scale).tolist()
        for k in found:
            rows = slice(None) if len(found) == 1 else np.flatnonzero(scale == k)
            yield k, (self if len(found) == 1 else self._take(rows))._in_units(SCALE_BITS * k), rows

    def in_one_unit(self) -> Batch:
        """Return the batch with its weights in units of the scale of the largest, where all its rows go together."""
        if self.weight is None:
            return self
        return self._in_units(SCALE_BITS * int(scales_of(self.weight.max(initial=0.0, keepdims=True))[0]))

    def _in_units(self, exponent: int) -> Batch:
        if self.weight is None or not exponent:
            return self
        return replace(self, weight=np.ldexp(self.weight, -exponent), weight_exponent=exponent)

    def _take(self, rows: Any) -> Batch:
        """Return some of the rows."""
        kept = {
            name: array[rows]
            for name in ("y", "weight", "clusters", "qid", "base", "shares")
            if (array := getattr(self, name)) is not None
        }
        share = None if self.tree_share is None else self.tree_share[:, rows]
        return replace(self, table=self.table.take(rows), tree_share=share, **kept)

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
    check_given(objective, y=y, base_margin=base_margin, qid=qid)
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


def check_given(objective: Objective | None, *, y: Any, base_margin: Any, qid: Any) -> None:
    """Raise if a score lacks what it needs, or gets what has no meaning for it."""
    if objective is None:
        for name, given in (("y", y), ("base_margin", base_margin), ("qid", qid)):
            if given is not None:
                raise DataError(f"score='abs' uses only the attributions; omit {name}.")
    elif y is None:
        raise DataError("The score needs the target: pass y, one value per row of X.")
    elif qid is not None and objective.scope != "query":
        raise DataError(f"qid was given, but the loss {objective.name!r} does not rank within queries; leave it out.")


def _row_weights(model: Model, objective: Objective | None, y: Any, given: Any, n_rows: int) -> FloatArray | None:
    """The user's weights times those that training gave to the classes; None: every row counts alike."""
    weight = None if given is None else checked_weights(given, n_rows)
    own = None if objective is None else model.row_weights(y)
    return weight if own is None else own if weight is None else own * weight


def scales_of(weight: FloatArray) -> IntArray:
    """Scale of each weight; 0 of a weight of 0."""
    exponent = np.frexp(weight)[1].astype(np.int64) - 1
    return np.where(weight > 0, (exponent + BELOW_ONE) // SCALE_BITS, 0)


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
    if array.dtype.kind in "mMS":
        return array.astype(np.str_)
    if array.dtype != object:
        return array
    # Nullable integers come as objects in one batch and as numbers in another: they are the same labels.
    kinds = {label_kind(label) for label in array.tolist()}
    if len(kinds) > 1:
        raise DataError(f"{name} holds {' and '.join(sorted(kinds))}; use labels of one type, for 1 is not '1'.")
    if kinds == {"numbers"}:
        integers = all(isinstance(label, Integral) for label in array.tolist())
        return array.astype(np.int64 if integers else np.float64)
    return array.astype(np.bool_ if kinds == {"truth values"} else np.str_)


def label_kind(label: Any) -> str:
    """What kind of label it is; labels of different kinds are never equal."""
    if isinstance(label, bool | np.bool_):
        return "truth values"
    return "text" if isinstance(label, str | bytes) else "numbers" if isinstance(label, Real) else "other objects"
