"""Scores of a source of rows, batch by batch: memory does not grow with the number of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from treeinner.compiled import Progress
from treeinner.errors import DataError, TreeInnerError, counted, speak
from treeinner.scores.accumulator import ImportanceAccumulator
from treeinner.scores.batch import check_given, read_batch
from treeinner.scores.result import Importance
from treeinner.scores.training_rows import training_rows_note
from treeinner.stream import Stream
from treeinner.tables.batches import Piece

__all__ = ["importance_of_stream", "needs_all_rows"]

LOOKED_AT = 16 * 2**20  # bytes of the first rows that are looked at for training rows


def needs_all_rows(accumulator: ImportanceAccumulator) -> bool:
    """Whether a score cannot be summed over batches: the gradient or the weight of a row depends on all others."""
    objective = accumulator._setting.objective
    if objective is None:
        return False
    try:
        accumulator._model.check_batches()
    except DataError:
        return True
    return objective.scope in ("round", "data")


def importance_of_stream(
    accumulator: ImportanceAccumulator, stream: Stream, *, n_jobs: int | None, progress: Progress | None
) -> Importance:
    """Scores of all rows, in two passes if the rows can be read twice and the score has errors of its own then."""
    setting, again = accumulator._setting, stream.source.again
    if stream.source.names is not None:  # nothing else comes with the rows
        check_given(setting.objective, **{name: stream.given[name] for name in ("y", "base_margin", "qid")})
    two = setting.centred and setting.std_errors and again
    first = accumulator._without_errors() if two else accumulator
    head = _add_all(first, stream, _Meter(progress, stream.source.n_rows, 0.5 if two else 1.0), look=setting.centred)
    done = first
    if two:
        done = first.second_pass()
        _add_all(done, stream, _Meter(progress, first.n_rows, 0.5, first.n_rows), look=False)
    found = replace(done.result(), frame_library=stream.source.library)
    note = _training_rows(stream, head, found.n_rows, n_jobs) if setting.centred else None
    if note is None:
        return found
    speak(note)
    return replace(found, notes=(*found.notes, note))


def _add_all(accumulator: ImportanceAccumulator, stream: Stream, meter: _Meter, *, look: bool) -> list[Piece]:
    """Add the rows of a stream; returned are the first of them, where they are to be looked at."""
    head: list[Piece] = []
    room = LOOKED_AT

    def check(piece: Piece) -> None:
        X, given = accumulator._model.by_name(piece.X, **stream.arguments(piece))
        read_batch(accumulator._model, accumulator._setting.objective, X, given.pop("y"), **given)

    for piece in stream.batches():
        given = stream.arguments(piece)
        try:
            accumulator._add(piece.X, given.pop("y"), **given)
        except TreeInnerError as error:
            raise stream.named(piece, error, check) from error
        meter.add(piece.n_rows)
        if look and room > 0:
            head.append(piece)
            room -= _bytes_of(piece)
    return head


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


class _Meter:
    """Rows done, as progress is told of them; share: of the work, that this pass is."""

    def __init__(self, progress: Progress | None, n_rows: int | None, share: float, before: int = 0) -> None:
        self.progress, self.n_rows, self.share, self.before, self.done = progress, n_rows, share, before, 0

    def add(self, rows: int) -> None:
        """Tell that so many more rows are done."""
        self.done += rows
        if self.progress is not None:
            total = max(self.n_rows or 0, self.done)
            self.progress(int((self.before + self.done) * self.share), total)
