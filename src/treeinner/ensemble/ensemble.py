"""Ensemble: the trees of one fitted model as frozen arrays, validated once.

Conventions that every reader settles, so that nobody behind it has to know which library a model came from:

* All trees lie in one set of arrays; `left` and `right` are positions in those arrays, -1 at a leaf.
* A numeric split sends a value right if it is greater than the threshold (`right_if="greater"`), or greater or
  equal (`"greater_equal"`); with `float32_input` the value is first rounded to float32.
* A categorical split sends the categories in its set RIGHT and every other one left. (A library that stores the
  set going left has its children swapped by its reader.)
* A missing value follows `missing_left`.
* Column j of a tree's values adds to output `tree_output + j`: scalar trees have one column, vector leaves have one
  per output and `tree_output` 0.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import InitVar, asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from treeinner import compiled
from treeinner.ensemble import storage
from treeinner.ensemble.node_values import LATE, UNSET, WORKED_OUT, NodeValues, Params, WorkOut
from treeinner.ensemble.plain import check_types, naming
from treeinner.ensemble.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    LongArray,
    frozen,
    inner_by_depth,
    validate,
    validate_node_values,
)
from treeinner.errors import DataError, ModelError, counted, own_name
from treeinner.tables import Schema, Table, read_table
from treeinner.tables.columns import unmasked
from treeinner.tables.schema import as_tuples

__all__ = ["ARRAYS", "FORMAT", "Ensemble", "check_rounds"]

FORMAT = "treeinner.ensemble"
FORMAT_VERSION = 2
RARE = 2.0**-10  # share of the cover below which it is worked out by itself, not as 1 less that of the sibling
ADDED: dict[str, Any] = {"doubts": {}, "value_doubts": ()}  # fields that version 1 did not have

DTYPES = {"IntArray": np.int32, "LongArray": np.int64, "FloatArray": np.float64, "BoolArray": np.bool_}
PER_TREE = ("tree_output", "tree_round", "tree_weight", "tree_rate")
PER_NODE = (
    "feature", "threshold", "left", "right", "missing_left", "category_set", "value", "node_value", "cover", "gain",
    "leaf_id",
)  # fmt: skip
# Of late fields, where nothing is left for later.
DEFAULTS: dict[str, Any] = {"needs": (), "exactness": "exact", "value_doubts": ()}


def _unset() -> Any:
    """Default of a field that may be worked out later; a factory, for a plain default would hide `__getattr__`."""
    return UNSET


def check_rounds(start: int, stop: int, n_rounds: int) -> None:
    """Raise unless a model of so many rounds has rounds start <= r < stop."""
    if not 0 <= start < stop <= n_rounds:
        raise ValueError(
            f"iteration_range=({start}, {stop}) does not fit a model of {n_rounds} rounds; "
            f"pass 0 <= start < stop <= {n_rounds}."
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Ensemble:
    """Trees of one model, concatenated.

    `value` holds the leaf values as they enter the margin: learning rate and tree weight included. `node_value` holds,
    for every node, what it would have predicted had it been a leaf, in the same units: PreDecomp's p-hat. Where that is
    not known it is NaN at the inner nodes of the tree, and `needs` names the parameters that would settle it.

    `node_value`, `tree_rate`, `gain`, `needs`, `exactness`, `value_doubts` and the parameters learning_rate, reg_lambda
    and reg_alpha may be left to `work_out`, which is called when the first of them is asked for.
    """

    # per tree
    tree_start: LongArray  #: (n_trees + 1,)  first node of each tree, then n_nodes; a tree's root is its first node
    tree_output: IntArray  #: (n_trees,)  first output the tree adds to
    tree_round: IntArray  #: (n_trees,)  boosting round; trees of one round were fitted to the same gradients
    tree_weight: FloatArray  #: (n_trees,)  factor already in `value` that is not the learning rate (DART, 1 / n_trees)
    #: (n_trees,)  learning rate already in `value`; NaN where it is not known
    tree_rate: FloatArray = field(default_factory=_unset)

    # per node
    feature: IntArray  #: (n_nodes,)  column a split tests; -1 at a leaf
    threshold: FloatArray  #: (n_nodes,)  NaN at a leaf and at a categorical split
    left: IntArray  #: (n_nodes,)  position of the child in these arrays; -1 at a leaf
    right: IntArray  #: (n_nodes,)  likewise
    missing_left: BoolArray  #: (n_nodes,)  where a missing value goes
    category_set: IntArray  #: (n_nodes,)  which set of categories goes right; -1: a numeric split or a leaf
    value: FloatArray  #: (n_nodes, width)  leaf values on the margin scale; 0 at inner nodes
    node_value: FloatArray = field(default_factory=_unset)  #: (n_nodes, width)  p-hat; equals `value` at leaves
    cover: FloatArray  #: (n_nodes,)  weight of the training rows as the library's own SHAP counts it
    #: (n_nodes,)  gain of the split as the library reports it; 0 at leaves, NaN where not stored
    gain: FloatArray = field(default_factory=_unset)
    leaf_id: IntArray  #: (n_nodes,)  number of the leaf in the library's own pred_leaf / apply; -1 at inner nodes

    # category sets: set s holds the codes set_codes[set_start[s]:set_start[s + 1]]
    set_start: LongArray  #: (n_sets + 1,)
    set_codes: IntArray  #: category codes of all sets, one after the other

    # per model
    base_score: FloatArray  #: (n_outputs,)  on the margin scale
    schema: Schema  #: what a table must look like
    library: str  #: "xgboost", "lightgbm", "catboost", "sklearn"
    objective: str  #: the library's own name of the loss; "" if unknown (custom)
    objective_params: Mapping[str, Any] = field(default_factory=dict)  #: JSON-able: sigmoid, quantile alpha, ...
    params: Mapping[str, Any] = field(default_factory=dict)  #: JSON-able: reg_lambda, reg_alpha, ... where known
    right_if: Literal["greater", "greater_equal"] = "greater"  #: which side of its threshold a split sends right
    float32_input: bool = False  #: values are rounded to float32 before they are compared
    category_rule: Literal["floor", "truncate"] = "floor"  #: how a number becomes a category code
    zero_as_missing: tuple[int, ...] = ()  #: columns in which `|x| <= 1e-35` means missing
    base_margin_rule: Literal["replace", "add"] = "add"  #: what a user's base_margin does to base_score
    cover_is: Literal["weight", "hessian", "count"] = "weight"  #: what `cover` sums over the training rows
    averaged: bool = False  #: a forest: one round, every tree fits y itself
    output_names: tuple[str, ...] | None = None  #: classes or targets
    feature_names: tuple[str, ...] | None = None  #: what attributions are reported for
    column_features: tuple[tuple[int, ...], ...] | None = None  #: who shares a column's credit; None: its feature
    #: parameters the user must give before node values are known
    needs: tuple[str, ...] = field(default_factory=_unset)
    #: "exact", or why in-sample TreeInner(PreDecomp) is not the library's total gain
    exactness: str = field(default_factory=_unset)
    #: why `node_value` is not what the nodes would have predicted as leaves, where it is not
    value_doubts: tuple[str, ...] = field(default_factory=_unset)
    #: what was assumed of the "loss", of the "start" (the margin before the first tree) or of the "rounds" -> in words
    doubts: Mapping[str, str] = field(default_factory=dict)

    work_out: InitVar[WorkOut | None] = None

    def __post_init__(self, work_out: WorkOut | None) -> None:
        unset = [name for name in LATE if self.__dict__[name] is UNSET]
        if work_out is not None:
            stored = self.params.stored if isinstance(self.params, Params) else self.params
            self.__dict__.update(params=Params(stored, self._resolved), _work_out=work_out, _lock=threading.RLock())
        for name in unset:
            del self.__dict__[name]
        if work_out is None:
            self.__dict__.update({name: default for name, default in DEFAULTS.items() if name in unset})
        for name, dtype in ARRAYS.items():
            if name in self.__dict__ or work_out is None:
                self.__dict__[name] = frozen(getattr(self, name), dtype, name)
        validate(self)
        if work_out is None:
            validate_node_values(self, self.node_value, self.tree_rate, self.gain)

    if not TYPE_CHECKING:  # for a type checker the late fields are fields like any other

        def __getattr__(self, name: str) -> Any:
            if name in LATE and "_work_out" in self.__dict__:
                self._resolved()
                return self.__dict__[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _resolved(self) -> NodeValues:
        """Work out what was left for later; once, whatever the number of threads that ask."""
        with self.__dict__["_lock"]:
            found: NodeValues | None = self.__dict__.get("_node_values")
            if found is None:
                found = self.__dict__["_work_out"]()
                late = {name: getattr(found, name) for name in LATE if name not in self.__dict__}
                for name in ARRAYS.keys() & late.keys():
                    late[name] = frozen(late[name], ARRAYS[name], name)
                every = {**self.__dict__, **late}
                validate_node_values(self, every["node_value"], every["tree_rate"], every["gain"])
                # What the reader held on to for this may go.
                self.__dict__.update(late, _node_values=found, _work_out=None)
            return found

    # -- sizes ---------------------------------------------------------------------------------------------------
    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_output)

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees together."""
        return len(self.feature)

    @property
    def n_outputs(self) -> int:
        """Number of margins per row: 1, or the number of classes or targets."""
        return len(self.base_score)

    @property
    def n_rounds(self) -> int:
        """Number of boosting rounds."""
        return int(self.tree_round[-1]) + 1 if self.n_trees else 0

    @property
    def width(self) -> int:
        """Number of values in a leaf."""
        return int(self.value.shape[1])

    @property
    def n_features(self) -> int:
        """Number of features that attributions are reported for."""
        return len(self.feature_names) if self.feature_names is not None else self.schema.n_columns

    @cached_property
    def tree_of_node(self) -> IntArray:
        """The tree each node belongs to: (n_nodes,)."""
        return np.repeat(np.arange(self.n_trees, dtype=np.int32), np.diff(self.tree_start))

    @cached_property
    def upwards(self) -> list[tuple[NDArray[np.intp], IntArray, IntArray]]:
        """Splits of one depth after another, the deepest first: (nodes, left children, right children)."""
        levels = inner_by_depth(self.left.astype(np.intp), self.right.astype(np.intp), self.tree_start[:-1])
        return [(nodes, self.left[nodes], self.right[nodes]) for nodes in reversed(levels)]

    @cached_property
    def mean_value(self) -> FloatArray:
        """Cover-weighted mean of the leaves below each node, the paper's p-tilde: (n_nodes, width)."""
        mean = self.value.copy()
        for node, left, right in self.upwards:
            total = self.cover[left] + self.cover[right]
            with np.errstate(invalid="ignore"):
                share = np.where(total > 0, self.cover[left] / total, 0.5)[:, None]  # no rows at all: halves
                # Near 1, 1 - share has few digits, and a rare leaf of huge value needs them all.
                rest = np.where(share > 1 - RARE, (self.cover[right] / total)[:, None], 1 - share)
            mean[node] = share * mean[left] + rest * mean[right]
        return mean

    @cached_property
    def forest(self) -> compiled.Forest:
        """The compiled form, built on first use."""
        return compiled.Forest(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: what is computed from them, the compiled form too, is built again on first use."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"params": dict(self.params)}

    def __repr__(self) -> str:
        return (
            f"Ensemble({self.library}, {self.objective or 'custom objective'}: {counted(self.n_trees, 'tree')}, "
            f"{counted(self.n_nodes, 'node')}, {counted(self.n_features, 'feature')}, "
            f"{counted(self.n_outputs, 'output')})"
        )

    # -- what it does to rows ------------------------------------------------------------------------------------
    def predict(self, X: Any, *, base_margin: Any = None, n_jobs: int | None = -1) -> FloatArray:
        """Raw margin of each row: (rows,), or (rows, outputs) if there are several."""
        return self.predict_table(read_table(X, self.schema), base_margin=base_margin, n_jobs=n_jobs)

    def predict_table(self, table: Table, *, base_margin: Any = None, n_jobs: int | None = -1) -> FloatArray:
        """`predict` of rows that were read already."""
        margin = compiled.predict(self.forest, table, n_jobs=n_jobs)
        margin += self.base_values(table.n_rows, base_margin)
        return margin[:, 0] if self.n_outputs == 1 else margin

    def apply(self, X: Any, *, n_jobs: int | None = -1) -> IntArray:
        """Leaf that each row reaches in each tree, numbered as the library numbers them: (rows, trees)."""
        return self.apply_table(read_table(X, self.schema), n_jobs=n_jobs)

    def apply_table(self, table: Table, *, n_jobs: int | None = -1) -> IntArray:
        """`apply` to rows that were read already."""
        return compiled.apply(self.forest, table, n_jobs=n_jobs)

    def base_values(self, n_rows: int, base_margin: Any = None) -> FloatArray:
        """Margin before the first tree: (rows, outputs)."""
        base = np.broadcast_to(self.base_score, (n_rows, self.n_outputs))
        if base_margin is None:
            return base
        name = own_name("base_margin", self.library)
        base_margin = unmasked(base_margin, name)
        try:
            given = np.asarray(base_margin, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"{name} holds values that are not numbers; pass one number per row.") from None
        expected = (n_rows,) if self.n_outputs == 1 else (n_rows, self.n_outputs)
        if given.shape not in (expected, base.shape):
            raise DataError(f"{name} has shape {given.shape}, expected {expected}: one margin per row (and output).")
        given = given.reshape(base.shape)
        if not np.all(np.isfinite(given)):
            row, output = np.argwhere(~np.isfinite(given))[0].tolist()
            raise DataError(f"{name} holds {given[row, output]:g} in row {row}; margins must be finite.")
        return given if self.base_margin_rule == "replace" else base + given

    # -- parts and files -----------------------------------------------------------------------------------------
    def slice_rounds(self, start: int, stop: int) -> Ensemble:
        """Keep the trees of rounds start <= r < stop; the base score stays, as in XGBoost's `iteration_range`."""
        check_rounds(start, stop, self.n_rounds)
        first, last = np.searchsorted(self.tree_round, [start, stop])
        return self.slice_trees(int(first), int(last))

    def slice_trees(self, first: int, last: int) -> Ensemble:
        """Keep trees first <= t < last; rounds are counted from the first one kept."""
        if (first, last) == (0, self.n_trees):
            return self
        trees, lo, hi = slice(first, last), int(self.tree_start[first]), int(self.tree_start[last])
        nodes = slice(lo, hi)
        given = {f.name: self.__dict__[f.name] for f in fields(self) if f.name in self.__dict__}
        given |= {name: array[trees] for name, array in given.items() if name in PER_TREE}
        given |= {name: array[nodes] for name, array in given.items() if name in PER_NODE}
        given["tree_start"] = self.tree_start[first : last + 1] - lo
        given["tree_round"] = given["tree_round"] - self.tree_round[first]
        for side in ("left", "right"):
            given[side] = np.where(given[side] >= 0, given[side] - lo, -1)
        if "node_value" not in given:
            return Ensemble(**given, work_out=lambda: self._resolved().part(trees, nodes))
        if not np.isnan(given["node_value"]).any():
            given["needs"] = ()  # what only the trees cut off needed is needed no more
        return Ensemble(**given)

    def on_columns(self, positions: NDArray[np.intp], n_columns: int, names: tuple[str, ...] | None) -> Ensemble:
        """Return the same trees on a wider table, whose columns `positions` are the model's; it may have one twice.

        Columns that are not among them get no credit. `names` are those of all columns; None: there are none.
        """
        if self.schema.external or self.column_features is not None:
            raise ValueError("The model's columns are not those of the table.")
        given = {f.name: self.__dict__[f.name] for f in fields(self) if f.name in self.__dict__}
        given["feature"] = np.where(self.feature >= 0, positions[self.feature], -1)
        given["schema"] = self.schema.on_columns(positions.tolist(), n_columns, names)
        given["zero_as_missing"] = tuple(sorted({int(positions[j]) for j in self.zero_as_missing}))
        given["feature_names"] = names
        return Ensemble(**given, work_out=None if "node_value" in given else self._resolved)

    def save(self, path: str | Path) -> None:
        """Write the ensemble to one file (docs/format.md); no pickle inside."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ARRAYS}
        plain |= {"schema": asdict(self.schema), "params": dict(self.params)}
        storage.write(path, FORMAT, FORMAT_VERSION, {name: getattr(self, name) for name in ARRAYS}, plain)

    @classmethod
    def load(cls, path: str | Path) -> Ensemble:
        """Read an ensemble written by `save`."""
        arrays, plain = storage.read(path, FORMAT, FORMAT_VERSION)
        plain = ADDED | plain
        mismatch = (arrays.keys() ^ ARRAYS.keys()) | (plain.keys() ^ {f.name for f in fields(cls)} - ARRAYS.keys())
        if mismatch:
            raise ModelError(f"{path} is not a complete saved Ensemble: fields {sorted(mismatch)} do not match.")
        with naming(path):
            schema = plain.pop("schema")
            _check_plain(plain, schema)
            for name, dtype in ARRAYS.items():
                if arrays[name].dtype != dtype:
                    raise ModelError(f"{name} is an array of {arrays[name].dtype.name}, expected {dtype.__name__}.")
            every: dict[str, Any] = {name: as_tuples(item) for name, item in {**arrays, **plain}.items()}
            return cls(**every, schema=Schema.from_json(schema))


def _check_plain(plain: Mapping[str, Any], schema: Any) -> None:
    """Raise ModelError unless the fields of a saved Ensemble that are not arrays have their types."""
    check_types(Ensemble, plain, plain)
    if not isinstance(schema, dict) or not {"n_columns"} <= schema.keys() <= {f.name for f in fields(Schema)}:
        raise ModelError("schema does not have the fields of a Schema.")
    check_types(Schema, schema, schema)
    if not all(isinstance(plain["params"].get(name), int | float | None) for name in WORKED_OUT):
        raise ModelError(f"{', '.join(WORKED_OUT)} in params are not numbers.")
    if not isinstance(plain["objective_params"].get("classes"), list | None):
        raise ModelError("classes in objective_params is not a list.")


# The array fields and the type each is held in; every other field is plain data that JSON can hold.
ARRAYS: dict[str, type] = {f.name: DTYPES[f.type] for f in fields(Ensemble) if f.type in DTYPES}
