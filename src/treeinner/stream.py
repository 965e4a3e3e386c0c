"""Rows on their way from a source to a model: the columns that it reads, in batches that are worth a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from treeinner.errors import DataError, TreeInnerError
from treeinner.model import Model
from treeinner.tables.batches import Piece, gathered
from treeinner.tables.files import ROWS, Wanted
from treeinner.tables.frames import as_frame, names_of
from treeinner.tables.named import Roles, text_columns, values_named
from treeinner.tables.sources import Source, as_source

__all__ = ["Stream", "in_memory", "source_of"]

EVERYTHING = 2**62  # rows of a batch that is to have all of them


def source_of(X: Any, given: Mapping[str, Any]) -> Source | None:
    """The source that X is, whose rows come in pieces; None: X is a table in memory.

    What comes with the rows of a source must be named, not given as arrays, for there is no telling in which order its
    rows come.
    """
    source = as_source(X)
    if source is None:
        return None
    roles = Roles.of(given, source.names)
    values = [role for role, value in given.items() if value is not None and role not in roles.columns]
    if not values:
        return source
    if source.in_memory:
        return None
    raise DataError(
        f"{values[0]} is a {type(given[values[0]]).__name__}, but X is {source.what}, whose rows are read piece by "
        f"piece; pass the name of the column that holds {values[0]}."
    )


def in_memory(model: Model, X: Any, source: Source | None = None, **given: Any) -> tuple[Any, dict[str, Any]]:
    """X as a table, and what comes with it as values, for what needs all rows at once; source: of X, if it is known."""
    source = source or source_of(X, given)
    return model.by_name(X, **given) if source is None else Stream(model, source, given).collected()


@dataclass(frozen=True, eq=False)
class Stream:
    """The rows of a source as a model takes them."""

    model: Model
    source: Source
    given: Mapping[str, Any]  # y, sample_weight, ...: names of columns, or None
    keep: tuple[str, ...] = ()  # columns that are handed on besides

    @cached_property
    def roles(self) -> Roles:
        """What the columns are that are not features."""
        return Roles.of(self.given, self.source.names)

    @cached_property
    def wanted(self) -> Wanted:
        """Columns to read. They are not known yet where an iterator brings the rows."""
        names = self.source.names
        if names is None:
            return Wanted()
        self.roles.check(names, self.source.what)
        Roles({"keep_cols": self.keep}).check(names, self.source.what)
        features = self.model.columns_among(names, self.roles, self.source.what)
        levels = text_columns(features, self.model.ensemble.schema)
        labels = [self.roles.columns.get(role, ()) for role in ("clusters", "qid")]
        return Wanted(
            tuple(dict.fromkeys([*features, *self.roles.names, *self.keep])),
            text=frozenset(name for name, known in levels.items() if all(isinstance(one, str) for one in known)),
            labels=frozenset([name for columns in labels for name in columns] + [*self.keep]),
            categories=frozenset(levels),
            words=frozenset(str(level) for known in levels.values() for level in known),
        )

    def batches(self, rows: int = ROWS) -> Iterator[Piece]:
        """All rows, gathered; `arguments` tells what comes with them."""
        by_query = "qid" in self.roles.columns or "qid" in self.source.gives
        return gathered(self.source.read(self.wanted), rows=rows, qid=self._queries if by_query else None)

    def _queries(self, piece: Piece) -> Any:
        return piece.given["qid"] if "qid" in piece.given else values_named(piece.X, self.roles.columns["qid"][0])

    def arguments(self, piece: Piece) -> dict[str, Any]:
        """What came with these rows, as values or as the names of their columns."""
        return {**self.given, **piece.given}

    def named(self, piece: Piece, error: TreeInnerError, check: Callable[[Piece], Any]) -> TreeInnerError:
        """An error about some rows with the file or batch that is at fault; check(piece) raises for bad rows."""
        for part in piece.parts:
            try:
                check(part)
            except DataError as reason:
                return type(error)(_with_name(part.label, reason))
        return type(error)(_with_name(piece.where(), error))

    def collected(self) -> tuple[Any, dict[str, Any]]:
        """All rows in memory: X, and what comes with them as values."""
        pieces = list(self.batches(EVERYTHING))
        if len(pieces) > 1:
            raise DataError(
                f"{pieces[1].where()} has other types of columns than {pieces[0].where()}, so that the rows cannot be "
                "put together; write all parts alike."
            )
        if not pieces:
            raise DataError("There are no rows; pass at least one.")
        return self.split(pieces[0])

    def split(self, piece: Piece) -> tuple[Any, dict[str, Any]]:
        """X with the columns that the model reads alone, and what comes with it as values."""
        X, given = self.model.by_name(piece.X, **self.arguments(piece))
        names = names_of(X) if X is piece.X else None
        if names is None:
            return X, given
        frame: Any = as_frame(X)
        features = self.model.columns_among(names, self.roles)
        return frame[:, [names.index(name) for name in features]].to_native(), given


def _with_name(label: str, error: Exception) -> str:
    text = str(error)
    return text if label in text else f"{label}: {text}"
