"""Rows of a Spark DataFrame: importance on the cluster that holds them.

    from treeinner.spark import importance
    imp = importance(model, df, label_col="price")      # the same bits as ti.importance on df.toPandas()
    compare(model, before, after, label_col="price")    # two data frames: why the loss rose

Classic and Connect sessions, by `mapInArrow`; the workers need treeinner and the library of the model. What a task
returns is one row of bytes: Spark takes the rows of a task once, however often it tried, so nothing counts twice. A
mistake in the data is such a row too: raised, it would be tried again, and come back inside a Java stack trace.
Attributions need no function here:

    df.mapInPandas(lambda parts: (ti.attribute(model, part).to_frame() for part in parts), schema)
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module, metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, MissingDependencyError, TreeInnerError
from treeinner.read import Model, read_model
from treeinner.read.columns import GroupSpec
from treeinner.rows.columns import listing
from treeinner.rows.frames import collected, values_of
from treeinner.rows.rows import features_among, roles_among
from treeinner.score.compare import NAMES, Comparison, comparison_of
from treeinner.score.partitions import PROBED_ROWS, Job, Part, Partitions, add_parts, of_partition
from treeinner.score.partitions import importance_of_partitions as of_partitions
from treeinner.score.result import Importance

__all__ = ["compare", "importance"]

Batches = Iterable[Any]  # of pyarrow.RecordBatch
ANSWER = "partition long, answer binary"  # sums of some partitions, or an error; pickled
MERGERS = 32  # tasks at most that add up what the partitions answered; the driver adds up their answers
NUMBERS = ("double", "float", "int", "bigint", "smallint", "tinyint")


def importance(
    model: Any,
    df: Any,
    *,
    features_col: str | None = None,
    label_col: str | Sequence[str] = "label",
    weight_col: str | None = None,
    base_margin_col: str | Sequence[str] | None = None,
    clusters_col: str | None = None,
    qid_col: str | None = None,
    by_col: str | Sequence[str] | None = None,
    freq: str | None = None,
    score: str = "signal",
    method: str = "centred",
    feature_groups: GroupSpec | None = None,
    std_errors: bool = True,
) -> Importance:
    """Global importance of every feature, with standard errors, from the rows of a Spark DataFrame.

    The result has the bits of `ti.importance` on all rows in memory, however they are partitioned. Centred scores with
    standard errors need the rows twice: cache df if it is slow to compute, or if it may come out differently.

    Parameters
    ----------
    model : fitted model, path or Model
        As for `ti.importance`, and models of xgboost.spark. A path is read here, not on the workers.
    df : pyspark DataFrame
        Held-out rows, of a classic or a Connect session.
    features_col : str, optional
        Column of vectors (pyspark.ml) or arrays that holds all features of a row, in the order of training. None: each
        feature is a column of its own, found by the name that the model stores; for a model of xgboost.spark, the
        columns that it was trained on. What a sparse vector leaves out is 0; it is a missing value for a model that was
        trained so (enable_sparse_data_optim, missing=0), which its booster alone does not tell.
    label_col : str or list of str
        Column of the target, or columns of several targets.
    weight_col, base_margin_col, clusters_col : str, optional
        Columns of what `ti.importance` calls sample_weight, base_margin and clusters.
    qid_col : str, optional
        Column of the queries, for ranking losses. df is repartitioned by it, so that no query is divided.
    by_col : str or list of str, optional
        Columns of what `ti.importance` calls by.
    freq, score, method, feature_groups, std_errors
        As for `ti.importance`.

    Returns
    -------
    Importance
        As from `ti.importance`.
    """
    own, features = _source(model, features_col)
    opened = read_model(own)
    given = {"y": label_col, "sample_weight": weight_col, "clusters": clusters_col, "base_margin": base_margin_col}
    rows = _rows(opened, df, features, {**given, "qid": qid_col, "by": by_col}, freq)
    asked: dict[str, Any] = {"score": score, "method": method, "feature_groups": feature_groups}
    return replace(of_partitions(opened, rows, std_errors=std_errors, **asked), frame_library="")


def compare(
    model: Any,
    before: Any,
    after: Any,
    *,
    features_col: str | None = None,
    label_col: str | Sequence[str] = "label",
    names: tuple[str, str] = NAMES,
    method: str = "centred",
    feature_groups: GroupSpec | None = None,
    **given: str,
) -> Comparison:
    """Why the loss rose from one Spark DataFrame to another: `ti.compare` with the bits of the rows in memory.

    sample_weight, clusters, base_margin and qid in `given` are names of columns of both.
    """
    own, features = _source(model, features_col)
    opened = read_model(own)
    sides = [_rows(opened, df, features, {"y": label_col, **given}, None) for df in (before, after)]
    return comparison_of(opened, sides, names, method=method, feature_groups=feature_groups)


def _rows(model: Model, df: Any, features: Any, given: Mapping[str, Any], freq: str | None) -> Partitions:
    """The rows of a data frame and what comes with them, to be summed where they are."""
    if not hasattr(df, "mapInArrow") or not hasattr(df, "sparkSession") or df.isStreaming:
        raise DataError(f"df is of {type(df)}, expected a Spark DataFrame, no stream; rows in memory: ti.importance.")
    given = {role: name for role, name in given.items() if name is not None}
    roles = roles_among(given, df.columns, "df")
    if given.keys() != roles.keys():
        raise TypeError(f"{listing(sorted(given.keys() - roles.keys()))}: expected names of columns of df.")
    columns = _find_columns(model, df, features, roles)
    selected = columns.select(df)
    largest = None
    if "sample_weight" in given:
        weights = df.select(df[_quoted(given["sample_weight"])].cast("double").alias("weight"))
        largest = _asked(weights.agg({"weight": "max"}))[0][0]

    def run(job: Job) -> Part:
        """Sums over all partitions: each by a task, these by some tasks more, and the rest here."""
        answers = selected.mapInArrow(_shipped(partial(_sums, job, columns)), ANSWER)
        # Without a number Spark makes as many tasks of it as the bytes need.
        answers = answers.repartition("partition").coalesce(MERGERS)
        return _total(row["answer"] for row in _asked(answers.mapInArrow(_shipped(_merge), ANSWER)))

    return Partitions(
        run=run,
        head=columns.batch(selected.limit(PROBED_ROWS).toArrow())["X"] if model.transformers else None,
        names=columns.vector_names if columns.vector else tuple(columns.features),
        given=given,
        reading={"largest_weight": largest, "freq": freq},
    )


# -- columns ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, kw_only=True)
class _Columns:
    """Which columns of a frame are what."""

    features: list[str]  # one, if it holds vectors
    roles: dict[str, list[str]]  # arguments of `read_rows` -> columns
    vector: str = ""  # type of the column that holds all features: "vector" of pyspark.ml, or "array"
    vector_names: tuple[str, ...] | None = None  # of the features in it, if a VectorAssembler left them there

    @property
    def names(self) -> list[str]:
        """All these columns, each once, features first."""
        return list(dict.fromkeys([*self.features, *(name for some in self.roles.values() for name in some)]))

    def select(self, df: Any) -> Any:
        """The frame with these columns alone, numbered c0, c1, ...; queries brought together.

        By their own names `mapInArrow` would not find those with a dot.
        """
        columns = [df[_quoted(name)] for name in self.names]
        if self.vector == "vector":
            kind = "ml.connect" if ".connect." in type(df).__module__ else "ml"
            columns[0] = import_module(f"pyspark.{kind}.functions").vector_to_array(columns[0])
        numbered = df.select(*(column.alias(f"c{j}") for j, column in enumerate(columns)))
        if "qid" not in self.roles:
            return numbered
        # A loss of queries may break ties by the order of the rows, which is that of the frame.
        ordered = numbered.selectExpr("*", "monotonically_increasing_id() AS place")
        query = f"c{self.names.index(self.roles['qid'][0])}"
        return ordered.repartition(query).sortWithinPartitions(query, "place").drop("place")

    def batch(self, table: Any) -> dict[str, Any]:
        """X, y, ... of some rows, as arguments of `read_rows`."""
        table = table.rename_columns(self.names)
        rows: dict[str, Any] = {
            role: table.select(some) if len(some) > 1 or role == "by" else values_of(collected(table)[some[0]])
            for role, some in self.roles.items()
        }
        X = _matrix(table.column(0), self.features[0]) if self.vector else table.select(self.features)
        return {"X": X, **rows}


def _matrix(column: Any, name: str) -> NDArray[Any]:
    """A column of arrays as one array: (rows, features)."""
    lengths = np.asarray(column.combine_chunks().value_lengths())
    if column.null_count or (lengths != lengths[0]).any():
        held = f"{np.nanmin(lengths):.0f} to {np.nanmax(lengths):.0f} values, and {column.null_count} nulls"
        raise DataError(f"{name!r} holds {held}; give every row the features of training.")
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat.reshape(len(lengths), -1))


def _source(model: Any, features_col: str | None) -> tuple[Any, list[str] | str | None]:
    """The model as `read_model` takes it; the columns of its features, or the one that holds all, if that is known."""
    if ("xgboost.spark.core", "_SparkXGBModel") not in [(c.__module__, c.__name__) for c in type(model).__mro__]:
        return model, features_col
    # The estimator inside knows the best round and what stands for a missing value; the booster does not.
    own = getattr(model, "_xgb_sklearn_model", None) or model.get_booster()
    return own, features_col or model.getOrDefault("features_cols") or str(model.getOrDefault("featuresCol"))


def _find_columns(model: Model, df: Any, features: Any, roles: dict[str, list[str]]) -> _Columns:
    """Find the features in the frame; features: as far as they are known."""
    if not isinstance(features, str):
        return _Columns(features=features or features_among(model, df.columns, roles, "df"), roles=roles)
    roles_among({"features_col": features}, df.columns, "df")
    kind, told, stored = _kind(df, features), _names_in(df, features), model.feature_names
    if not kind:
        raise DataError(f"features_col={features!r}: expected vectors of pyspark.ml or arrays of numbers.")
    if stored is not None and told is not None and stored != told and set(stored) == set(told):
        order = f"{listing(told)}, but the model was trained on {listing(stored)}, in this order"
        raise DataError(f"{features!r} was assembled from {order}; assemble the columns as for training.")
    return _Columns(features=[features], roles=roles, vector=kind, vector_names=told)


def _kind(df: Any, name: str) -> str:
    """Whether a column holds vectors or arrays of numbers, by one of these words; else ""."""
    kind = df.schema[name].dataType
    numbers = type(kind).__name__ == "ArrayType" and kind.elementType.simpleString() in NUMBERS
    return "vector" if type(kind).__name__ == "VectorUDT" else "array" * numbers


def _names_in(df: Any, vector: str) -> tuple[str, ...] | None:
    """Names of the features in a vector, if a VectorAssembler left them with the column."""
    told = (df.schema[vector].metadata or {}).get("ml_attr", {})
    found = {one["idx"]: one.get("name") for some in told.get("attrs", {}).values() for one in some}
    names = [found.get(j) for j in range(told.get("num_attrs", 0))]
    return tuple(map(str, names)) if names and all(names) else None


def _quoted(name: str) -> str:
    """A name as Spark takes it whatever it contains."""
    return "`" + name.replace("`", "``") + "`"


# -- what comes back --------------------------------------------------------------------------------------------
def _asked(frame: Any) -> list[Any]:
    """Rows of a frame."""
    try:
        return list(frame.collect())
    except Exception as error:
        raise _explained(str(error)) from None


def _explained(text: str) -> TreeInnerError:
    """What Spark says in pages, in a sentence."""
    if "PYTHON_VERSION_MISMATCH" in text:
        found = " and ".join(re.findall(r"\b3\.\d+\b", text)[:2])
        return MissingDependencyError(f"Spark's workers and driver have Python {found}; set spark.pyspark.python.")
    # The end of Python's traceback, the condition of a Java exception, or else how it begins.
    raised = re.findall(r"^(?!org\.|java\.)[A-Za-z_][\w.]*: .+", text.partition("Traceback (most ")[2], re.MULTILINE)
    if raised and raised[-1].startswith(("ModuleNotFoundError", "ImportError")):
        return _missing(raised[-1])
    reason = [*raised[-1:], *re.findall(r"\[[A-Z][A-Z0-9_.]+\] .+", text), text.strip()][0]
    return DataError(f"Spark could not compute the rows of df: {reason[:500]}")


def _missing(problem: str) -> MissingDependencyError:
    """What to do about workers that lack a package."""
    cure = f"install treeinner {metadata.version('treeinner')} and the library of the model in their Python"
    return MissingDependencyError(f"The Spark workers cannot run treeinner ({problem}); {cure} (spark.pyspark.python).")


def _total(answers: Iterable[bytes]) -> Part:
    """Sums over all partitions that answered; an error, if one of them is one."""
    parts = []
    for answer in map(pickle.loads, answers):
        if isinstance(answer, TreeInnerError):
            raise answer
        if isinstance(answer, ImportError):
            raise _missing(str(answer))
        parts.append(answer)
    return add_parts(parts)


# -- on the workers ---------------------------------------------------------------------------------------------
def _shipped(work: Callable[[int, Batches], Part]) -> Callable[[Batches], Iterator[Any]]:
    """The work as a function that a worker can call whether or not it has treeinner.

    Defined in a function, it is pickled by value, not by the name of this module; the work itself is bytes.
    """
    from pyspark import cloudpickle

    data, version, module = cloudpickle.dumps(work), metadata.version("treeinner"), __name__

    def on_worker(batches: Any) -> Any:
        import pickle
        import sys
        from importlib import import_module, metadata

        import pyarrow
        from pyspark import TaskContext

        number = TaskContext.get().partitionId()
        try:
            if metadata.version("treeinner") != version:
                raise ImportError(f"they have treeinner {metadata.version('treeinner')}, the driver has {version}")
            answer = import_module(module).answer(data, number, batches)
        except ImportError as error:
            answer = pickle.dumps(ImportError(f"{type(error).__name__}: {error}, in {sys.executable}"))
        yield pyarrow.RecordBatch.from_pydict({"partition": [number], "answer": [answer]})

    return on_worker


# The work of a round, which no task changes: a worker opens the model once, not in every task.
_unpacked = lru_cache(maxsize=2)(pickle.loads)


def answer(data: bytes, number: int, batches: Batches) -> bytes:
    """Work done on the rows of one task: sums, or an error."""
    work = _unpacked(data)
    try:
        return pickle.dumps(work(number, batches))
    except TreeInnerError as error:
        return pickle.dumps(error)


def _sums(job: Job, columns: _Columns, number: int, batches: Batches) -> Part:
    """Sums over one partition; of queries, its rows must be together."""
    import pyarrow

    some = (batch for batch in batches if batch.num_rows)
    whole = [list(some)] if "qid" in columns.roles else ([batch] for batch in some)
    return of_partition(job, number, (columns.batch(pyarrow.Table.from_batches(rows)) for rows in whole if rows))


def _merge(_: int, batches: Batches) -> Part:
    """Sums over several partitions."""
    return _total(row["answer"] for batch in batches for row in batch.to_pylist())
