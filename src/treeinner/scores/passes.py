"""Rows once or twice through a model, in memory or batch by batch from a source: the passes that a score needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from treeinner.compiled import Progress
from treeinner.errors import DataError, TreeInnerError, UnsupportedModelError, counted
from treeinner.scores.accumulator import ImportanceAccumulator
from treeinner.scores.batch import Batch, check_given, read_batch
from treeinner.scores.conclude import with_note
from treeinner.scores.result import Importance
from treeinner.scores.training_rows import training_rows_note
from treeinner.stream import Stream
from treeinner.tables.batches import Piece

__all__ = ["importance_of_stream", "needs_all_rows", "take_passes"]

LOOKED_AT = 16 * 2**20  # bytes of the first rows that are looked at for training rows


def take_passes(
    accumulator: ImportanceAccumulator,
    X: Any,
    y: Any,
    *,
    oob: bool = False,
    keep: bool = False,
    progress: Progress | None = None,
    **given: Any,
) -> tuple[ImportanceAccumulator, Batch | None]:
    """Take rows in memory through one pass, or through two where a score has standard errors of its own in the second.

    The batch that comes back has the shares of the rows if they are to be kept; None: there were no rows.
    """
    if not accumulator._setting.wants_second_pass:
        return accumulator, accumulator._add(X, y, oob=oob, keep=keep, progress=progress, **given)
    first = accumulator._without_errors()
    batch = first._add(X, y, oob=oob, keep=keep, progress=_half(progress, 0), **given)
    if batch is None:
        return first, None
    second = first.second_pass()
    second._sum(batch, second._held, second._setting, _half(progress, 1))
    return second, batch


def needs_all_rows(accumulator: ImportanceAccumulator) -> bool:
    """Whether a score cannot be summed over batches."""
    try:
        accumulator._check_batches()
    except (DataError, UnsupportedModelError):
        return True
    return False


def importance_of_stream(
    accumulator: ImportanceAccumulator, stream: Stream, *, n_jobs: int | None, progress: Progress | None
) -> Importance:
    """Scores of all rows of a source, batch by batch; in two passes if the rows can be read twice."""
    setting, source = accumulator._setting, stream.source
    if source.names is not None:  # nothing else comes with the rows
        check_given(setting.objective, **{name: stream.given[name] for name in ("y", "base_margin", "qid")})
    if setting.wants_second_pass and source.again:
        first = accumulator._without_errors()
        head = _add_all(first, stream, source.n_rows, _half(progress, 0), look=True)
        done = first.second_pass()
        _add_all(done, stream, first.n_rows, _half(progress, 1), look=False)
    else:
        head, done = _add_all(accumulator, stream, source.n_rows, progress, look=setting.centred), accumulator
    found = replace(done.result(), frame_library=source.library)
    return with_note(found, _training_rows(stream, head, found.n_rows, n_jobs))


def _add_all(
    accumulator: ImportanceAccumulator, stream: Stream, n_rows: int | None, progress: Progress | None, *, look: bool
) -> list[Piece]:
    """Add the rows of a stream; returned are the first of them, where they are to be looked at."""
    head: list[Piece] = []
    done, room = 0, LOOKED_AT if look else 0

    def check(piece: Piece) -> None:
        X, given = accumulator._model.by_name(piece.X, **stream.arguments(piece))
        read_batch(accumulator._model, accumulator._setting.objective, X, given.pop("y"), **given)

    for piece in stream.batches():
        given = stream.arguments(piece)
        try:
            accumulator._add(piece.X, given.pop("y"), **given)
        except TreeInnerError as error:
            raise stream.named(piece, error, check) from error
        done += piece.n_rows
        if progress is not None:
            progress(done, max(n_rows or 0, done))
        if room > 0:
            head.append(piece)
            room -= _bytes_of(piece)
    return head


def _half(progress: Progress | None, number: int) -> Progress | None:
    """Progress of one of two passes over the rows."""
    return progress and (lambda done, rows: progress((done + number * rows) // 2, rows))


def _training_rows(stream: Stream, head: list[Piece], n_rows: int, n_jobs: int | None) -> str | None:
    """What is to be said if training rows are among the first rows."""
    if not head:
        return None
    source = replace(stream.source, read=lambda _: iter(head), again=True)
    try:
        X, given = replace(stream, source=source).collected()
    except DataError:  # batches of several kinds, which are not put together
        X, given = stream.model.by_name(head[0].X, **stream.arguments(head[0]))
    given.pop("clusters", None)
    looked_at = sum(piece.n_rows for piece in head)
    note = training_rows_note(stream.model, X, given.pop("y"), n_jobs=n_jobs, **given)
    if note is None or looked_at >= n_rows:
        return note
    return f"Of the first {counted(looked_at, 'row')}: {note}"


def _bytes_of(piece: Piece) -> int:
    size: Any = getattr(piece.X, "nbytes", None)
    if size is None and hasattr(piece.X, "estimated_size"):
        size = piece.X.estimated_size()
    return int(size) if isinstance(size, int) else LOOKED_AT // 8
