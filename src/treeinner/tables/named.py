"""Columns of the rows that are not features, by their names: target, weights, margins, clusters and queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, closest, did_you_mean
from treeinner.tables.columns import listing
from treeinner.tables.frames import WIDE, as_frame, collected, names_of
from treeinner.tables.schema import Schema

__all__ = ["INDEX", "ROLES", "Roles", "feature_columns_among", "split_frame"]

ROLES = ("y", "sample_weight", "base_margin", "clusters", "qid")
SEVERAL = ("y", "base_margin")  # which may be several columns
INDEX = ("", "__index_level_0__")  # what pandas calls the row labels that it wrote along


@dataclass(frozen=True)
class Roles:
    """What some columns of a table are: role -> its columns."""

    columns: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, given: Mapping[str, Any], names: Sequence[str] | None = None) -> Roles:
        """Those of the arguments that name columns; names: the columns of X, where X is at hand.

        A text is always a name. A list of texts may be labels of rows; it is one of names if X has all these columns.
        """
        found = {}
        for role, value in given.items():
            if isinstance(value, str):
                found[role] = (value,)
            elif role in SEVERAL and _are_texts(value) and (names is None or set(value) <= set(names)):
                found[role] = tuple(value)
        return cls(found)

    def __bool__(self) -> bool:
        return bool(self.columns)

    def arguments(self) -> dict[str, Any]:
        """Inverse of `of`: role -> name of its column, or a list of names."""
        return {role: names[0] if len(names) == 1 else list(names) for role, names in self.columns.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that have a role, each once."""
        return tuple(dict.fromkeys(name for names in self.columns.values() for name in names))

    def check(self, names: Sequence[str], where: str = "X") -> None:
        """Raise unless all these columns are there."""
        for role, columns in self.columns.items():
            for name in columns:
                if name not in names:
                    hint = did_you_mean(name, names, f"; it has {listing(names)}.")
                    raise DataError(f"{role}={name!r}: {where} has no such column{hint}")


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(one, str) for one in value)


def split_frame(X: Any, given: Mapping[str, Any], features: Any) -> tuple[Any, dict[str, Any]]:
    """X without the columns that arguments name, and the arguments with these columns in place of the names.

    Without names everything is returned as it is. features(names, roles) says which columns the model reads: the
    others are left out.
    """
    frame = as_frame(X) if any(isinstance(value, str | list | tuple) for value in given.values()) else None
    names = names_of(X) if isinstance(frame, nw.DataFrame | nw.LazyFrame) else None
    roles = Roles.of(given, names or ())
    if not roles:
        return X, dict(given)
    if names is None:
        role, columns = next(iter(roles.columns.items()))
        raise DataError(
            f"{role}={columns[0]!r} names a column, but X is a {type(X).__name__} without column names; pass a data "
            f"frame that has the column, or the values of {role}."
        )
    assert isinstance(frame, nw.DataFrame | nw.LazyFrame)
    roles.check(names)
    rows = collected(frame)
    wanted = features(names, roles)
    taken = {role: _values(rows, [names.index(name) for name in columns]) for role, columns in roles.columns.items()}
    # By position: pandas takes any object for a name.
    return rows[:, [names.index(name) for name in wanted]].to_native(), {**given, **taken}


def _values(rows: nw.DataFrame[Any], places: Sequence[int]) -> Any:
    """Values of one column, or a frame of several, whose names are kept."""
    if len(places) > 1:
        return rows[:, list(places)].to_native()
    return values_of(rows[:, places[0]])


def values_named(X: Any, name: str) -> NDArray[Any]:
    """Values of a column of a frame."""
    frame: Any = as_frame(X)
    return values_of(frame[name])


def values_of(series: nw.Series[Any]) -> NDArray[Any]:
    """One value per row: numbers, or objects where the column holds labels or has missing ones."""
    if isinstance(series.dtype, nw.Categorical | nw.Enum):
        series = series.cast(nw.String) if not series.implementation.is_pandas() else series
        return np.array(series.to_list(), dtype=object)
    if isinstance(series.dtype, WIDE):
        series = series.cast(nw.Float64)
    if series.dtype.is_numeric():
        return series.to_numpy()
    if series.dtype == nw.Boolean and not series.null_count():
        return series.to_numpy().astype(np.bool_)
    return np.array(series.to_list(), dtype=object)


def feature_columns_among(
    names: Sequence[str],
    roles: Roles,
    wanted: Sequence[str] | None,
    n_columns: int | None,
    stored: Sequence[str],
    where: str = "X",
) -> list[str]:
    """Names of the columns that a model reads, in its order; by position if it stores none.

    Parameters
    ----------
    names
        Columns of the table.
    wanted, n_columns
        What the model was trained on, as far as it is known.
    stored
        `names` as the model's library keeps them.
    where
        What messages call the table.
    """
    if wanted is None:
        return _by_position(names, roles, n_columns, where)
    place = dict(zip(stored, names, strict=True))
    missing = [name for name in wanted if name not in place]
    if missing:
        close = closest(missing[0], names, cutoff=0.8)
        hint = f" (is {close!r} meant to be {missing[0]!r}?)" if close else ""
        raise DataError(
            f"{where} lacks {len(missing)} of the {len(wanted)} columns that the model was trained on: "
            f"{listing(missing)}{hint}; prepare it as for training, with the same column names."
        )
    features = [place[name] for name in wanted]
    for name in roles.columns.get("y", ()):
        if name in features:
            raise DataError(f"y={name!r}: this column is a feature of the model; name the one that it predicts.")
    return features


def _by_position(names: Sequence[str], roles: Roles, n_columns: int | None, where: str) -> list[str]:
    features = [name for name in names if name not in roles.names]
    if n_columns is not None and len(features) > n_columns:
        features = [name for name in features if name not in INDEX]
    if n_columns is not None and len(features) != n_columns:
        besides = f" besides {listing(roles.names)}" if roles else ""
        advice = "pass the training columns in training order, and no others."
        if len(features) > n_columns and not roles:
            advice = "name those that are not features."
        raise DataError(
            f"{where} has {len(features)} columns{besides}, but the model was trained on {n_columns} and does not "
            f"store their names; {advice}"
        )
    return features


def text_columns(features: Sequence[str], schema: Schema) -> dict[str, tuple[Any, ...]]:
    """Categories that the model knows, by column of the table."""
    levels = () if schema.external or len(features) != schema.n_columns else schema.levels or ()
    return {name: known for name, known in zip(features, levels, strict=False) if known is not None}
