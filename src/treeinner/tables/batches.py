"""Rows that come in pieces -> batches worth a call: small pieces are gathered, and whole queries stay together."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from treeinner.tables.files import ROWS
from treeinner.tables.frames import as_frame
from treeinner.tables.named import values_of

__all__ = ["Piece", "as_values", "gathered", "n_rows_of"]


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows as a source hands them over, and what came along with them as values."""

    X: Any
    label: str  # the file or the number of the piece, as messages call it
    given: Mapping[str, Any]  # y, sample_weight, ... where they came as values and not as columns of X
    parts: tuple[Piece, ...] = ()  # what it was gathered from, if from several

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return n_rows_of(self.X)

    def where(self) -> str:
        """What to call these rows in a message."""
        labels = list(dict.fromkeys(part.label for part in self.parts)) or [self.label]
        return labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]}"


def gathered(pieces: Iterable[Piece], *, rows: int = ROWS, qid: Any = None) -> Iterator[Piece]:
    """Pieces of at least so many rows, as far as neighbours can be put together.

    qid(piece): the queries of its rows, which then are not cut: the rows of the last one wait for the next piece.
    """
    held: list[Piece] = []
    n_held = 0
    for piece in pieces:
        if held and _kind(piece) != _kind(held[0]):
            yield _joined(held)
            held, n_held = [], 0
        held.append(piece)
        n_held += piece.n_rows
        if n_held >= rows or _kind(piece) is None:
            joined = _joined(held)
            whole, last = (joined, None) if qid is None else _cut(joined, qid(joined))
            if whole is not None:
                yield whole
            held = [] if last is None else [last]
            n_held = 0 if last is None else last.n_rows
    if held:
        yield _joined(held)


def n_rows_of(X: Any) -> int:
    """Number of rows of a table of any kind."""
    shape = getattr(X, "shape", None)
    return int(shape[0] if shape else len(X))


def _cut(piece: Piece, queries: Any) -> tuple[Piece | None, Piece | None]:
    """Rows of whole queries, and those of the last query, of which there may be more."""
    other = np.flatnonzero(np.asarray(queries) != np.asarray(queries)[-1]) if piece.n_rows else np.zeros(0)
    if not len(other):
        return None, piece
    first = int(other[-1]) + 1
    return _sliced(piece, slice(0, first)), _sliced(piece, slice(first, piece.n_rows))


def _sliced(piece: Piece, rows: slice) -> Piece:
    def some(value: Any) -> Any:
        if hasattr(value, "slice") and not isinstance(value, np.ndarray):  # Arrow, polars
            return value.slice(rows.start, rows.stop - rows.start)
        return value.iloc[rows] if hasattr(value, "iloc") else value[rows]

    given = {name: None if value is None else some(value) for name, value in piece.given.items()}
    return replace(piece, X=some(piece.X), given=given)


# -- together ------------------------------------------------------------------------------------------------
def _joined(pieces: Sequence[Piece]) -> Piece:
    """Pieces of one kind as one."""
    if len(pieces) == 1:
        return pieces[0]
    given = {role: _concatenated([piece.given[role] for piece in pieces]) for role in pieces[0].given}
    X = _concatenated([piece.X for piece in pieces])
    return Piece(X, pieces[0].label, given, tuple(part for piece in pieces for part in piece.parts or (piece,)))


def _concatenated(values: list[Any]) -> Any:
    first = values[0]
    if first is None:
        return None
    if isinstance(first, np.ndarray):
        return np.concatenate(values)
    if type(first).__name__ == "RecordBatch":
        return sys.modules["pyarrow"].Table.from_batches(values)
    return nw.concat([nw.from_native(value) for value in values]).to_native()


def _kind(piece: Piece) -> Any:
    """What pieces have in common that can be put together without a change to any value; None: they cannot."""
    kinds = {name: _kind_of(value) for name, value in {"": piece.X, **piece.given}.items()}
    return None if any(kind is None for kind in kinds.values()) else kinds


def _kind_of(value: Any) -> Any:
    if value is None:
        return "nothing"
    if type(value) is np.ndarray:
        return value.dtype, value.shape[1:]
    if type(value).__name__ == "RecordBatch" and hasattr(value, "schema"):
        return value.schema.remove_metadata()
    frame = as_frame(value) if not isinstance(value, list | tuple) else None
    if not isinstance(frame, nw.DataFrame):
        return None
    native = frame.to_native()
    types = native.dtypes if hasattr(native, "dtypes") else native.schema  # with the categories of each column
    return str(frame.implementation), list(frame.columns), list(getattr(types, "types", types))


def as_values(value: Any) -> Any:
    """A target or weights that came with a piece, in a form that can be put together."""
    if isinstance(value, list | tuple):
        return np.asarray(value)
    series = None if value is None or isinstance(value, np.ndarray) else as_frame(value)
    return values_of(series) if isinstance(series, nw.Series) else value
