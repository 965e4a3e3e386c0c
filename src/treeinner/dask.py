"""Rows in Dask's partitions: importance on the cluster that holds them.

    from treeinner.dask import importance
    imp = importance(client, model, X, y)      # the same bits as ti.importance(model, X.compute(), y.compute())
    compare(client, model, before, after, "y")     # two data frames: why the loss rose

The model goes into the graph, a partition is summed by one thread where it lies, and sums travel by pickle. A worker
that dies takes nothing along: Dask computes its tasks again, the model included. Attributions need no function here:

    ddf.map_partitions(lambda part: ti.attribute(model, part).to_frame())
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeinner.errors import DataError, MissingDependencyError, TreeInnerError, counted
from treeinner.read import Model, read_model
from treeinner.read.columns import GroupSpec
from treeinner.rows.columns import listing
from treeinner.rows.rows import ROLES, features_among, roles_among
from treeinner.score.compare import NAMES, Comparison, comparison_of
from treeinner.score.partitions import PROBED_ROWS, Job, Part, Partitions, add_parts, of_partition
from treeinner.score.partitions import importance_of_partitions as of_partitions
from treeinner.score.result import Importance

try:
    import dask.array as da
    import dask.dataframe as dd
    from dask.delayed import Delayed, delayed
    from distributed import Client, get_client
except ImportError as error:
    raise MissingDependencyError(
        "treeinner.dask needs Dask; install it with: pip install 'dask[dataframe]' distributed"
    ) from error

__all__ = ["compare", "importance"]

TOGETHER = 8  # partitions whose sums one task adds up


def importance(
    client: Client | None,
    model: Any,
    X: Any,
    y: Any = None,
    *,
    score: str = "signal",
    method: str = "centred",
    feature_groups: GroupSpec | None = None,
    freq: str | None = None,
    std_errors: bool = True,
    **given: Any,
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
    y : str, dask Series, DataFrame or Array, optional
        Name of a column of X, which may then have other columns too, or a collection with the partitions of X.
    score, method, feature_groups, freq, std_errors
        As for `ti.importance`.
    **given
        sample_weight, clusters, base_margin, qid and by, as y.

    Returns
    -------
    Importance
        As from `ti.importance`.
    """
    client, opened = _checked(client), read_model(_local(model))
    rows = _rows(client, opened, X, {"y": y, **given}, freq)
    return of_partitions(opened, rows, score=score, method=method, feature_groups=feature_groups, std_errors=std_errors)


def compare(
    client: Client | None,
    model: Any,
    before: Any,
    after: Any,
    y: str,
    *,
    names: tuple[str, str] = NAMES,
    method: str = "centred",
    feature_groups: GroupSpec | None = None,
    **given: str,
) -> Comparison:
    """Why the loss rose from one dask DataFrame to another: `ti.compare` with the bits of the rows in memory.

    y, and sample_weight, clusters, base_margin and qid in `given`, are names of columns of both.
    """
    client, opened = _checked(client), read_model(_local(model))
    sides = [_rows(client, opened, X, {"y": y, **given}, None) for X in (before, after)]
    return comparison_of(opened, sides, names, method=method, feature_groups=feature_groups)


# -- on the driver ----------------------------------------------------------------------------------------------
def _checked(client: Client | None) -> Client:
    """The client, or the current one."""
    client = get_client() if client is None else client
    if not isinstance(client, Client) or client.asynchronous:
        raise TypeError(f"client is of {type(client)}, expected a distributed.Client (not asynchronous) or None.")
    return client


def _rows(client: Client, model: Model, X: Any, given: Mapping[str, Any], freq: str | None) -> Partitions:
    """The rows of a collection and what comes with them, to be summed where they are."""
    if unknown := given.keys() - set(ROLES):
        raise TypeError(f"{min(unknown)!r} is no argument; with X may come {', '.join(ROLES)}.")
    given = {name: value for name, value in given.items() if value is not None}
    layout, blocks = _partitions(model, X, given)
    head = None
    if model.transformers:
        heads = (_computed(client, delayed(layout.head)(*own)) for own in blocks)
        head = next((some for some in heads if len(some)), None)
    largest = None
    if (weights := given.get("sample_weight")) is not None:
        name = weights if isinstance(weights, str) else None
        weights = weights if name is None else _narrowed(X, [name])
        parts = [delayed(_largest_weight)(some, name) for some in _row_blocks(weights)]
        largest = _computed(client, delayed(max)(parts))

    def run(job: Job) -> Part:
        # Part of the graph, not scattered: what is scattered dies with its workers.
        shared = delayed(job, traverse=False)
        parts = [delayed(_sums)(shared, layout, number, *own) for number, own in enumerate(blocks)]
        while len(parts) > 1:
            parts = [delayed(add_parts)(parts[i : i + TOGETHER]) for i in range(0, len(parts), TOGETHER)]
        total: Part = _computed(client, parts[0])
        return total

    return Partitions(
        run=run, head=head, names=layout.features, given=given, n_partitions=len(blocks),
        reading={"largest_weight": largest, "freq": freq},
    )  # fmt: skip


def _local(model: Any) -> Any:
    """The model without what ties it to a cluster."""
    if isinstance(model, dict) and "booster" in model:  # of xgboost.dask.train
        return model["booster"]
    of_lightgbm = any(kind.__module__ == "lightgbm.dask" for kind in type(model).__mro__)
    return model.to_local() if of_lightgbm else model


def _computed(client: Client, task: Delayed) -> Any:
    """What a task returns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")  # the model, once
        future = client.compute(task)
    try:
        return future.result()
    except TreeInnerError as error:  # without the frames of the worker
        raise type(error)(str(error)) from None
    finally:
        future.release()


def _partitions(model: Model, X: Any, given: Mapping[str, Any]) -> tuple[_Layout, list[tuple[Delayed, ...]]]:
    """X and what comes with it: the layout, and the blocks of each partition."""
    if not isinstance(X, dd.DataFrame | da.Array):
        raise DataError(f"X is of {type(X)}, expected a dask DataFrame or Array; use ti.importance for rows in memory.")
    names = tuple(map(str, X.columns)) if isinstance(X, dd.DataFrame) else None
    named = roles_among(given, names or ())
    features = None if names is None else tuple(features_among(model, names, named))
    if named and features is not None:
        needed = {*features, *(name for some in named.values() for name in some)}
        X = _narrowed(X, [column for column in X.columns if str(column) in needed])
    blocks = {"X": _row_blocks(X)}
    for role in given.keys() - named.keys():
        value = given[role]
        if not isinstance(value, dd.Series | dd.DataFrame | da.Array):
            raise DataError(f"{role} is of {type(value)}; pass the name of a column of X, or a dask Series or Array.")
        if isinstance(X, da.Array) and isinstance(value, da.Array) and value.shape[0] == X.shape[0]:  # not NaN
            value = value.rechunk({0: X.chunks[0]})
        blocks[role] = _row_blocks(value)
        if len(blocks[role]) != len(blocks["X"]):
            counts = f"{counted(len(blocks[role]), 'partition')}, but X has {len(blocks['X']):,}"
            raise DataError(f"{role} has {counts}; pass it as a column of X, by name, or with the partitions of X.")
    schema, own_codes = model.schema, tuple[str, ...]()
    if features is not None and not model.transformers and model.route is None:
        kinds = enumerate(features)
        own_codes = tuple(name for j, name in kinds if schema.is_categorical(j) and schema.levels_of(j) is None)
    roles = {role: given[role] for role in named}
    layout = _Layout(tuple(blocks), roles, features, own_codes, getattr(X, "dtypes", {}))
    return layout, list(zip(*blocks.values(), strict=True))


def _narrowed(X: Any, columns: list[Any]) -> Any:
    """X without other columns, if they need not be read; else X, so that a partition comes as it is and is checked."""

    def projections(frame: Any) -> int:
        return sum(type(step).__name__ == "Projection" for step in frame.expr.walk())

    fewer = X[columns].simplify()
    return fewer if projections(fewer) <= projections(X.simplify()) else X


def _row_blocks(rows: Any) -> list[Delayed]:
    """Partitions of a frame, blocks of rows of an array; the user's own, which `optimize` might put together.

    Frames and arrays made from one another have steps in common, with the same keys: they are computed once.
    """
    if isinstance(rows, da.Array):
        rows = rows.rechunk(dict.fromkeys(range(1, rows.ndim), -1))
        return list(rows.to_delayed(optimize_graph=False).ravel())
    return list(rows.simplify().to_delayed(optimize_graph=False))


# -- in tasks ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class _Layout:
    """What the tasks need to know about the blocks of a partition."""

    arguments: tuple[str, ...]  # of each block
    roles: Mapping[str, Any]  # arguments that name columns of X
    features: tuple[str, ...] | None  # columns of X that the model reads; None: it is an array
    own_codes: tuple[str, ...]  # those whose codes the model takes, since it does not store the categories of training
    dtypes: Any  # of the columns, as Dask says

    def batch(self, blocks: Sequence[Any]) -> dict[str, Any]:
        """X and what comes with it in one partition, checked against what Dask says of it."""
        out = dict(zip(self.arguments, blocks, strict=True))
        found, expected = map(self._described, (getattr(out["X"], "dtypes", {}), self.dtypes))
        if found != expected and self.features is not None:
            raise DataError(
                f"It has the columns {listing(found)}, and not {listing(expected)}, as Dask says of all partitions; "
                "give every partition the same columns in the same order, and the categories of training."
            )
        for role, block in out.items():
            if hasattr(block, "index") and self.features is not None and not block.index.equals(out["X"].index):
                raise DataError(f"{role} has another index than X; pass it as a column of X, by name.")
        return out | dict(self.roles)

    def _described(self, dtypes: Any) -> list[str]:
        """Columns by name, with their categories where these must be the same everywhere."""
        return [
            f"{name} {list(getattr(kind, 'categories', ()))}" if name in self.own_codes else str(name)
            for name, kind in dtypes.items()
        ]

    def head(self, *blocks: Any) -> Any:
        """First rows of a partition, the columns that the model reads."""
        X = self.batch(blocks)["X"][:PROBED_ROWS]
        places = [list(map(str, self.dtypes.keys())).index(name) for name in self.features or ()]
        return X if self.features is None else X.iloc[:, places]


def _largest_weight(block: Any, name: str | None) -> float:
    """Largest weight of a partition; 0 if it has no rows. What is wrong with weights is said when rows are read."""
    try:
        return float(np.fmax.reduce(np.asarray(block if name is None else block[name], np.float64), initial=0.0))
    except (IndexError, KeyError, TypeError, ValueError):
        return 0.0


def _sums(job: Job, layout: _Layout, number: int, *blocks: Any) -> Part:
    """Sums over one partition."""
    return of_partition(job, number, map(layout.batch, [blocks]))
