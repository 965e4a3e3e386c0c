"""Columns of a Spark DataFrame: which of them are features, target, weights, ..., and their rows as Arrow tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, counted
from treeinner.model import Model
from treeinner.tables.batches import Piece, gathered
from treeinner.tables.columns import listing
from treeinner.tables.files import ROWS
from treeinner.tables.frames import as_frame
from treeinner.tables.named import Roles, split_frame, values_named

__all__ = ["Columns", "Source", "checked_frame", "find_columns", "source_of"]

CHUNK_CELLS = 2**24  # numbers in memory at a time, where rows are wide
NUMBERS = ("double", "float", "int", "bigint", "smallint", "tinyint")
# Argument here -> argument of ImportanceAccumulator.update; those that may name several columns.
ARGUMENTS = {
    "label_col": "y", "weight_col": "sample_weight", "base_margin_col": "base_margin", "clusters_col": "clusters",
    "qid_col": "qid",
}  # fmt: skip
SEVERAL = ("label_col", "base_margin_col")


@dataclass(frozen=True)
class Source:
    """A model as `read_model` takes it, and where its features are in the frame, as far as that is known."""

    model: Any
    features: tuple[str, ...] | None = None  # columns of their own
    vector: str | None = None  # one column of vectors or arrays
    vector_names: tuple[str, ...] | None = None  # of the features in it


@dataclass(frozen=True)
class Columns:
    """Which columns of a frame are what."""

    features: tuple[str, ...]  # one, if it holds vectors
    roles: Roles
    keep: tuple[str, ...] = ()
    vectors: bool = False  # whether the feature column holds vectors or arrays
    as_array: bool = False  # whether those are vectors of pyspark.ml, which Arrow does not know
    width: int = 1  # numbers per row

    @property
    def names(self) -> list[str]:
        """All these columns, each once, features first."""
        return list(dict.fromkeys([*self.features, *self.roles.names, *self.keep]))

    @property
    def query(self) -> str | None:
        """Column of the queries, if there are any."""
        return next(iter(self.roles.columns.get("qid", ())), None)

    def select(self, df: Any) -> Any:
        """The frame with these columns alone, numbered c0, c1, ...; queries brought together.

        By their own names `mapInArrow` would not find those with a dot.
        """
        functions, vector_to_array = _functions(df)
        columns = [functions.col(_quoted(name)) for name in self.names]
        if self.as_array:
            columns[0] = vector_to_array(columns[0])
        numbered = [column.alias(f"c{j}") for j, column in enumerate(columns)]
        if self.query is None:
            return df.select(*numbered)
        # A loss of queries may break ties by the order of the rows, which is that of the frame.
        ordered = df.select(*numbered, functions.monotonically_increasing_id().alias("order"))
        query = f"c{self.names.index(self.query)}"
        return ordered.repartition(query).sortWithinPartitions(query, "order").drop("order")

    def tables(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Arrow tables of many rows, and of whole queries, from Spark's record batches."""
        query = self.query
        pieces = (Piece(batch.rename_columns(self.names), "", {}) for batch in batches if batch.num_rows)
        rows = max(1, min(ROWS, CHUNK_CELLS // self.width))  # Spark sends 10,000, and a call costs milliseconds
        queries = None if query is None else lambda piece: values_named(piece.X, query)
        for piece in gathered(pieces, rows=rows, qid=queries):
            yield piece.X

    def arguments(self, table: Any) -> dict[str, Any]:
        """X, y, ... of some rows."""
        X, given = split_frame(table, self.roles.arguments(), lambda *_: list(self.features))
        frame: Any = as_frame(X)
        X = frame.select(*self.features).to_native()
        return {"X": _matrix(X.column(0), self.features[0]) if self.vectors else X, **given}


def _matrix(column: Any, name: str) -> NDArray[Any]:
    """A column of arrays as one array: (rows, features)."""
    if column.null_count:
        raise DataError(f"{name!r} is null in {counted(column.null_count, 'row')}; give every row its features.")
    lengths = np.asarray(column.combine_chunks().value_lengths())
    if np.any(lengths != lengths[0]):
        other = int(np.flatnonzero(lengths != lengths[0])[0])
        raise DataError(
            f"{name!r} holds {counted(int(lengths[0]), 'value')} in one row and {lengths[other]} in another; "
            "give every row the features of training."
        )
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat.reshape(len(lengths), -1))


# -- what the user named -----------------------------------------------------------------------------------------
def checked_frame(df: Any) -> Any:
    """Raise unless it is a Spark DataFrame with an end."""
    if not hasattr(df, "mapInArrow") or not hasattr(df, "sparkSession"):
        hint = "pass df.to_spark()" if hasattr(df, "to_spark") else "for rows in memory use ti.importance"
        raise DataError(f"df is a {type(df).__module__}.{type(df).__name__}, expected a Spark DataFrame; {hint}.")
    if df.isStreaming:
        raise DataError("df is a stream, which has no end; write it to a table and pass that.")
    return df


def source_of(model: Any, df: Any, features_col: str | None) -> Source:
    """Where the features are: in the column that the user names, else where a model of xgboost.spark had them."""
    own, features, vector = model, None, features_col
    if _is_of_xgboost_spark(model):
        # The estimator inside knows the best round and what stands for a missing value; the booster does not.
        own = getattr(model, "_xgb_sklearn_model", None) or model.get_booster()
        several = tuple(model.getOrDefault("features_cols") or ())
        if features_col is None and several and set(several) <= set(df.columns):
            features = several
        elif features_col is None:
            vector = str(model.getOrDefault("featuresCol"))
    if vector is None:
        return Source(own, features)
    Roles({"features_col": (vector,)}).check(df.columns, "df")
    if not (_holds_vectors(df, vector) or _holds_arrays(df, vector)):
        raise DataError(
            f"features_col={vector!r} holds {df.schema[vector].dataType.simpleString()}, expected vectors of "
            "pyspark.ml or arrays of numbers; leave features_col out if every feature is a column of its own."
        )
    return Source(own, (vector,), vector, _names_in(df, vector))


def _is_of_xgboost_spark(model: Any) -> bool:
    return any(
        (kind.__module__, kind.__name__) == ("xgboost.spark.core", "_SparkXGBModel") for kind in type(model).__mro__
    )


def _holds_vectors(df: Any, name: str) -> bool:
    return type(df.schema[name].dataType).__name__ == "VectorUDT"


def _holds_arrays(df: Any, name: str) -> bool:
    kind = df.schema[name].dataType
    return type(kind).__name__ == "ArrayType" and kind.elementType.simpleString() in NUMBERS


def _names_in(df: Any, vector: str) -> tuple[str, ...] | None:
    """Names of the features in a vector, if a VectorAssembler left them with the column."""
    told = (df.schema[vector].metadata or {}).get("ml_attr", {})
    found = {one["idx"]: str(one["name"]) for some in told.get("attrs", {}).values() for one in some if "name" in one}
    names = tuple(found[j] for j in sorted(found))
    complete = sorted(found) == [*range(int(told.get("num_attrs", -1)))] and len(set(names)) == len(names)
    return names if names and complete else None


def find_columns(
    model: Model, df: Any, source: Source, given: Mapping[str, Any], keep: tuple[str, ...] = ()
) -> Columns:
    """Find the columns in the frame; given: arguments of the user that name some."""
    named = {name: _listed(name, value) for name, value in given.items() if value is not None}
    Roles(named | {"keep_cols": keep}).check(df.columns, "df")
    roles = {ARGUMENTS[name]: some for name, some in named.items()}
    features = source.features
    if features is None:
        try:
            features = tuple(model.columns_among(df.columns, Roles(roles | {"keep_cols": keep})))
        except DataError as error:
            held = [name for name in df.columns if _holds_vectors(df, name) or _holds_arrays(df, name)]
            hint = f" If the column {held[0]!r} holds all features, pass features_col={held[0]!r}." if held else ""
            raise DataError(f"{error}{hint}") from None
    stored, told = model.ensemble.feature_names, source.vector_names
    if stored is not None and told is not None and stored != told and sorted(stored) == sorted(told):
        raise DataError(
            f"{source.vector!r} was assembled from {listing(told)}, but the model was trained on {listing(stored)}, in "
            "this order; assemble the columns as for training."
        )
    vectors = source.vector is not None
    as_array = vectors and _holds_vectors(df, features[0])
    width = (model.n_features if vectors else len(features)) + len(keep)
    return Columns(features, Roles(roles), keep, vectors, as_array, width)


def _listed(name: str, value: Any) -> tuple[str, ...]:
    several = name in SEVERAL and isinstance(value, list | tuple)
    listed = tuple(value) if several else (value,)
    if not listed or not all(isinstance(one, str) for one in listed):
        raise TypeError(f"{name}={value!r}: expected the name of a column{' or a list of names' * (name in SEVERAL)}.")
    return listed


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _functions(df: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Functions of columns for the session of a frame: one process may have sessions of both kinds."""
    if ".connect." in type(df).__module__:
        from pyspark.ml.connect.functions import vector_to_array
        from pyspark.sql.connect import functions
    else:
        from pyspark.ml.functions import vector_to_array
        from pyspark.sql import functions
    return functions, vector_to_array
