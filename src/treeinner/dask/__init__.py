"""Rows in Dask's partitions: importance on the cluster that holds them, and attributions as a lazy Dask frame.

    from treeinner.dask import importance
    imp = importance(client, model, X, y)      # the same bits as ti.importance(model, X.compute(), y.compute())

The model goes into the graph, a partition is added up by one thread where it lies, and sums travel as bytes. A worker
that dies takes nothing along: Dask computes its tasks again, the model included.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeinner.attribution import METHODS, check_choice, node_values
from treeinner.attribution import attribute as attribute_rows
from treeinner.attribution_file import column_names, column_values
from treeinner.errors import MissingDependencyError, TreeInnerError
from treeinner.groups import GroupSpec
from treeinner.model import Model, open_model
from treeinner.options import ReadOptions
from treeinner.scores import Importance, ImportanceAccumulator
from treeinner.scores.arguments import check_integer
from treeinner.scores.partitions import (
    Part,
    add_partition,
    make_plan,
    merge_parts,
    naming,
    run_rounds,
    training_rows_in,
)

try:
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd
    from dask.delayed import Delayed, delayed
    from distributed import Client, get_client

    from treeinner.dask.rows import Layout, partitions, take
except ImportError as error:
    raise MissingDependencyError(
        "treeinner.dask needs Dask; install it with: pip install 'dask[dataframe]' distributed"
    ) from error

__all__ = ["attribute", "importance"]


def importance(
    client: Client | None,
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    base_margin: Any = None,
    clusters: Any = None,
    qid: Any = None,
    split_every: int = 8,
    **settings: Any,
) -> Importance:
    """Global importance of every feature, with standard errors, from rows on a Dask cluster.

    The result has the bits of `ti.importance` on all rows in memory, however they are partitioned. Centred scores with
    standard errors need the rows twice: persist X if it is slow to compute and fits into the cluster's memory.

    Parameters
    ----------
    client : distributed.Client or None
        None: the current one.
    model : fitted model, path or Model
        As for `ti.importance`, and models of xgboost.dask, what its `train` returns included, and of lightgbm.dask.
    X : dask DataFrame or Array
        Held-out rows. The rows of a query must be in one partition.
    y, sample_weight, base_margin, clusters, qid : str, dask Series, DataFrame or Array, optional
        Names of columns of X, which may then have other columns too, or collections with the partitions of X.
    split_every : int
        Sums of so many partitions are added up by one task.
    **settings
        As for `ti.importance`, `oob` and `progress` excepted; `n_jobs`, threads per task, is 1.

    Returns
    -------
    Importance
        As from `ti.importance`; training rows are looked for in one partition only.
    """
    client = _checked_client(client)
    check_integer("split_every", split_every, 2, "an integer, 2 or more")
    given = {"y": y, "sample_weight": sample_weight, "base_margin": base_margin, "clusters": clusters, "qid": qid}
    plan = make_plan(_local(model), caller=importance, clustered=clusters is not None, **settings)
    layout, blocks = partitions(plan.start._model, X, given)

    def run(accumulator: ImportanceAccumulator) -> Part:
        # Part of the graph, not scattered: what is scattered dies with its workers.
        job = delayed(_Job(accumulator, layout), traverse=False)
        parts = [delayed(_sums)(job, number, *own) for number, own in enumerate(blocks)]
        while len(parts) > 1:
            groups = [parts[i : i + split_every] for i in range(0, len(parts), split_every)]
            parts = [delayed(merge_parts)(group) for group in groups]
        total: Part = _computed(client, parts[0])
        return total

    def look(number: int) -> str | None:
        job = delayed(_Job(plan.start, layout), traverse=False)
        note: str | None = _computed(client, delayed(_note)(job, *blocks[number]))
        return note

    return run_rounds(plan, run, len(blocks), look)


def attribute(
    client: Client | None,
    model: Any,
    X: Any,
    *,
    method: str = "predecomp",
    base_margin: Any = None,
    keep_cols: str | Sequence[str] = (),
    feature_groups: GroupSpec | None = None,
    dtype: Any = np.float64,
    **reading: Any,
) -> Any:
    """Split the margin of every row over the features, lazily.

    Parameters
    ----------
    client : distributed.Client or None
        As for `importance`; nothing is computed here, so None needs no current client.
    model, X, base_margin
        As for `importance`.
    method, feature_groups, **reading
        As for `ti.attribute`.
    keep_cols : str or sequence of str
        Columns of X to keep, such as keys; X may then have other columns too.
    dtype : {"float64", "float32"} or numpy dtype
        Of the attributions.

    Returns
    -------
    dask DataFrame
        With the partitions and the index of X: the columns kept, base_value, and one per feature, which with it add up
        to the margin. With several outputs they are called "output: base_value" and "output: feature".
    """
    if client is not None:
        _checked_client(client)
    check_choice("method", method, METHODS)
    if np.dtype(dtype) not in (np.float64, np.float32):
        raise ValueError(f"dtype={dtype!r}: expected float64 or float32.")
    opened = open_model(_local(model), ReadOptions.of(reading, caller=attribute))
    node_values(opened.ensemble, method)  # asks for what is unknown before X is touched
    kept = (keep_cols,) if isinstance(keep_cols, str) else tuple(keep_cols)
    layout, blocks = partitions(opened, X, {"base_margin": base_margin}, {"keep_cols": kept} if kept else {})
    meta = _meta(opened, X, layout, feature_groups, np.dtype(dtype))
    options = {"method": method, "feature_groups": feature_groups, "n_jobs": 1}
    job = delayed(_Attribution(opened, layout, options, meta), traverse=False)
    first_rows = np.cumsum([0, *X.chunks[0]]) if isinstance(X, da.Array) else np.zeros(len(blocks))
    first_rows = np.nan_to_num(first_rows).astype(int).tolist()  # 0 where Dask does not know the sizes of chunks
    parts = [delayed(_attributed)(job, number, first_rows[number], *own) for number, own in enumerate(blocks)]
    divisions = getattr(X, "divisions", None)
    return dd.from_delayed(parts, meta=meta, divisions=divisions, verify_meta=False, prefix="treeinner-attribute")


# -- on the driver -------------------------------------------------------------------------------------------
def _checked_client(client: Any) -> Client:
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ValueError(
                "client=None means the current client, and there is none; make one, client = distributed.Client(), "
                "and pass it."
            ) from None
    if not isinstance(client, Client):
        raise TypeError(
            f"client is a {type(client).__name__}, expected a distributed.Client or None; the client comes first: "
            "importance(client, model, X, y)."
        )
    if client.asynchronous:
        raise ValueError("client is asynchronous, and the result is waited for; pass a synchronous distributed.Client.")
    return client


def _local(model: Any) -> Any:
    """The model without what ties it to a cluster."""
    if isinstance(model, dict) and "booster" in model:  # of xgboost.dask.train
        return model["booster"]
    of_lightgbm = any(kind.__module__ == "lightgbm.dask" for kind in type(model).__mro__)
    return model.to_local() if of_lightgbm else model


def _computed(client: Client, task: Delayed) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")  # the model, once
        future = client.compute(task)
    try:
        return future.result()
    except TreeInnerError as error:  # without the frames of the worker
        raise type(error)(str(error)) from None
    finally:
        future.release()


def _meta(model: Model, X: Any, layout: Layout, feature_groups: GroupSpec | None, dtype: Any) -> Any:
    """Attributions of no rows."""
    rows = pd.DataFrame(index=pd.RangeIndex(0)) if layout.columns is None else X._meta
    names = model.labels(None if layout.columns is None else layout.features(model, rows))
    kept = layout.roles.columns.get("keep_cols", ())
    outputs = model.output_names or range(model.n_outputs)
    columns = column_names(model.groups(feature_groups, names).names, outputs, kept)
    return pd.concat([take(rows, kept), pd.DataFrame(0.0, rows.index, columns, dtype)], axis=1)


# -- in tasks ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class _Job:
    """What all tasks of a round share."""

    accumulator: ImportanceAccumulator
    layout: Layout


@dataclass(frozen=True, eq=False)
class _Attribution:
    """What all tasks of an attribution share."""

    model: Model
    layout: Layout
    options: Mapping[str, Any]
    meta: Any


def _sums(job: _Job, number: int, *blocks: Any) -> Part:
    """Sums over one partition."""
    return add_partition(job.accumulator, number, (job.layout.batch(blocks) for _ in range(1)))


def _note(job: _Job, *blocks: Any) -> str | None:
    """What is to be said about training rows in one partition."""
    return training_rows_in(job.accumulator._model, job.layout.batch(blocks))


def _attributed(job: _Attribution, number: int, first_row: int, *blocks: Any) -> Any:
    """Attributions of one partition; first_row: its number, where X is an array."""
    with naming(f"Partition {number}"):
        batch, roles = job.layout.batch(blocks), job.layout.roles
        rows, margin = batch["X"], batch.get("base_margin")
        if not np.shape(rows)[0]:
            return job.meta
        index = rows.index if job.layout.columns is not None else pd.RangeIndex(first_row, first_row + rows.shape[0])
        if "base_margin" in roles.columns:
            margin = take(rows, roles.columns["base_margin"])
        found = attribute_rows(job.model, job.layout.features(job.model, rows), base_margin=margin, **job.options)
        kept = roles.columns.get("keep_cols", ())
        out = pd.DataFrame(column_values(found, job.meta.dtypes.iloc[-1]).T, index, job.meta.columns[len(kept) :])
        return pd.concat([take(rows, kept), out], axis=1) if kept else out
