"""Dask's collections -> blocks of rows, partition by partition, as the user knows the partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
from dask.dataframe.utils import UNKNOWN_CATEGORIES
from dask.delayed import Delayed

from treeinner.errors import DataError, counted
from treeinner.model import Model
from treeinner.tables.columns import listing
from treeinner.tables.named import Roles

__all__ = ["Layout", "names_of_frame", "partitions", "take"]


def names_of_frame(frame: Any) -> tuple[str, ...]:
    """Columns of a frame, as text."""
    return tuple(map(str, getattr(frame, "columns", ())))


def take(frame: Any, names: Sequence[str]) -> Any:
    """Columns of a pandas frame by their names as text, which its own may not be."""
    known = names_of_frame(frame)
    return frame.iloc[:, [known.index(name) for name in names]]


@dataclass(frozen=True, eq=False)
class Layout:
    """What the tasks need to know about the blocks of a partition."""

    arguments: tuple[Any, ...]  # of each block; a block that is a tuple has several
    roles: Roles  # columns of X that are something else than features
    columns: tuple[str, ...] | None = None  # of X; None: it is an array
    categories: Mapping[str, list[Any]] = field(default_factory=dict)  # where their order must be the same everywhere

    def batch(self, blocks: Sequence[Any]) -> dict[str, Any]:
        """X and what comes with it in one partition, checked against what Dask says of it."""
        out: dict[str, Any] = {}
        for argument, block in zip(self.arguments, blocks, strict=True):
            out |= dict(zip(argument, block, strict=True)) if isinstance(argument, tuple) else {argument: block}
        X = out["X"]
        if self.columns is not None:
            self._check_frame(X)
        for name, block in out.items():
            if np.shape(block)[0] != np.shape(X)[0]:
                raise DataError(
                    f"{name} has {counted(np.shape(block)[0], 'row')}, but X has {np.shape(X)[0]:,}; give {name} the "
                    "partitions of X, or pass it as a column of X, by name."
                )
            if hasattr(block, "index") and hasattr(X, "index") and not block.index.equals(X.index):
                raise DataError(
                    f"{name} has another index than X; pass it as a column of X, by name, or as a dask Array "
                    f"({name}.to_dask_array()) if its rows stand in the order of X."
                )
        return out | self.roles.arguments()

    def features(self, model: Model, X: Any) -> Any:
        """Columns of a partition, or of Dask's description of it, that the model reads."""
        return take(X, model.columns_among(names_of_frame(X), self.roles)) if self.roles else X

    def _check_frame(self, X: Any) -> None:
        found = names_of_frame(X)
        if found != self.columns:
            assert self.columns is not None
            how = "in another order" if sorted(found) == sorted(self.columns) else f"and not {listing(self.columns)}"
            raise DataError(
                f"It has the columns {listing(found)}, {how}, as Dask says of all partitions; give every partition the "
                "same columns in the same order."
            )
        for name, expected in self.categories.items():
            column = X.iloc[:, found.index(name)]
            own = column.cat.categories.tolist() if hasattr(column, "cat") else None
            if own != expected:
                what = f"the categories {listing(own)}" if own else f"the type {column.dtype}"
                raise DataError(
                    f"Column {name!r} has {what}, but the categories {listing(expected)} in other partitions, and the "
                    f"model takes their codes; use X[{name!r}].cat.set_categories(...) with those of training."
                )


Rows = tuple[Layout, list[list[Delayed]]]


def partitions(
    model: Model, X: Any, given: Mapping[str, Any], more: Mapping[str, tuple[str, ...]] | None = None
) -> Rows:
    """X and what comes with it: the layout, and the blocks of each partition; more: other columns by name."""
    if not isinstance(X, dd.DataFrame | da.Array):
        raise DataError(
            f"X is a {type(X).__module__.split('.')[0]} {type(X).__name__}, expected a dask DataFrame or Array; for "
            "rows in memory use ti.importance or ti.attribute."
        )
    names = names_of_frame(X) if isinstance(X, dd.DataFrame) else None
    roles = Roles({**Roles.of(given, names).columns, **(more or {})})
    others = {name: value for name, value in given.items() if value is not None and name not in roles.columns}
    for name, value in others.items():
        if not isinstance(value, dd.Series | dd.DataFrame | da.Array):
            raise DataError(
                f"{name} is a {type(value).__name__}, but X is spread over a cluster; pass the name of a column of X, "
                "or a dask Series or Array with the partitions of X."
            )
    if isinstance(X, da.Array):
        return _array_blocks(X, others, roles)
    return _frame_blocks(model, X, others, roles)


def _together(*frames: Any) -> tuple[Any, ...]:
    return frames


def _frame_blocks(model: Model, X: Any, others: Mapping[str, Any], roles: Roles) -> Rows:
    names = names_of_frame(X)
    roles.check(names)
    if roles:
        needed = {*model.columns_among(names, roles), *roles.names}
        X = _narrowed(X, [column for column in X.columns if str(column) in needed])
        names = names_of_frame(X)
    frames = {name: value for name, value in others.items() if not isinstance(value, da.Array)}
    for name, value in frames.items():
        _check_same_partitions(name, value.npartitions, X.npartitions)
        if value.known_divisions and X.known_divisions and value.divisions != X.divisions:
            raise DataError(
                f"{name} has other divisions than X; pass it as a column of X, by name, or repartition it: "
                f"{name}.repartition(divisions=X.divisions)."
            )
    # One frame: of two, Dask may read the partitions differently.
    one = dd.map_partitions(_together, X, *frames.values(), meta=X._meta, enforce_metadata=False) if frames else X
    blocks = [[block] for block in _delayed_partitions(one)]
    arguments: list[Any] = [("X", *frames) if frames else "X"]
    for name, value in others.items():
        if name not in frames:
            _check_same_partitions(name, value.numblocks[0], X.npartitions)
            arguments.append(name)
            for own, block in zip(blocks, _row_blocks(value), strict=True):
                own.append(block)
    return Layout(tuple(arguments), roles, names, _categories(model, X, roles)), blocks


def _array_blocks(X: Any, others: Mapping[str, Any], roles: Roles) -> Rows:
    if X.ndim != 2:
        raise DataError(f"X has {counted(X.ndim, 'dimension')}, expected 2: rows and columns.")
    for role, columns in roles.columns.items():
        raise DataError(
            f"{role}={columns[0]!r} names a column, but X is a dask Array without column names; pass a dask DataFrame, "
            f"or {role} as a dask Array."
        )
    arrays = {"X": X}
    for name, value in others.items():
        array = value if isinstance(value, da.Array) else value.to_dask_array()
        n, n_X = array.shape[0], X.shape[0]
        if not np.isnan(n) and not np.isnan(n_X):
            if n != n_X:
                raise DataError(f"{name} has {n:,} rows, but X has {n_X:,}; pass one value per row.")
            array = array.rechunk({0: X.chunks[0]})
        _check_same_partitions(name, array.numblocks[0], X.numblocks[0])
        arrays[name] = array
    blocks = zip(*map(_row_blocks, arrays.values()), strict=True)
    return Layout(tuple(arrays), roles), [list(block) for block in blocks]


def _check_same_partitions(name: str, n: int, n_X: int) -> None:
    if n != n_X:
        raise DataError(
            f"{name} has {counted(n, 'partition')}, but X has {n_X:,}; pass it as a column of X, by name, or with the "
            "partitions of X."
        )


def _narrowed(X: Any, columns: list[Any]) -> Any:
    """X without other columns, if they need not be read; else X, so that a partition comes as it is and is checked."""

    def projections(frame: Any) -> int:
        return sum(type(step).__name__ == "Projection" for step in frame.expr.walk())

    fewer = X[columns].simplify()
    return fewer if projections(fewer) <= projections(X.simplify()) else X


def _delayed_partitions(frame: Any) -> list[Delayed]:
    """Partitions of a frame, those that the user knows: Dask may read several at once, and number them anew."""
    with dask.config.set({"optimization.tune.active": False}):
        found: list[Delayed] = frame.optimize().to_delayed(optimize_graph=False)
    return found if len(found) == frame.npartitions else frame.to_delayed(optimize_graph=False)


def _row_blocks(array: Any) -> list[Delayed]:
    """Blocks of rows, with all columns."""
    if array.ndim > 1 and array.numblocks[1] > 1:
        array = array.rechunk({1: -1})
    blocks: list[Delayed] = array.to_delayed().ravel().tolist()
    return blocks


def _categories(model: Model, X: Any, roles: Roles) -> dict[str, list[Any]]:
    """Categories of columns whose codes the model takes as they stand, because it does not store those of training."""
    schema, names, out = model.ensemble.schema, names_of_frame(X), {}
    if model.transformers or schema.external or schema.categorical is None:
        return {}
    for j, name in enumerate(model.columns_among(names, roles)):
        column = X._meta.iloc[:, names.index(name)]
        if not schema.categorical[j] or schema.levels_of(j) is not None or not hasattr(column, "cat"):
            continue
        out[name] = column.cat.categories.tolist()
        if UNKNOWN_CATEGORIES in out[name]:
            raise DataError(
                f"Column {name!r} holds categories that Dask does not know, so they may differ between partitions, and "
                f"the model does not store those of training; use X[{name!r}].cat.set_categories(...) with them."
            )
    return out
