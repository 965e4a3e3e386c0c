"""Rows once or twice through a model: the passes that a score needs."""

from __future__ import annotations

from typing import Any

from treeinner.compiled import Progress
from treeinner.scores.accumulator import ImportanceAccumulator
from treeinner.scores.batch import Batch

__all__ = ["take_passes"]


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
    """Take the rows through one pass, or through two where a score has standard errors of its own in the second.

    The batch that comes back has the shares of the rows if they are to be kept; None: there were no rows.
    """
    if not accumulator._setting.centred or not accumulator._setting.std_errors:
        return accumulator, accumulator._add(X, y, oob=oob, keep=keep, progress=progress, **given)
    first = accumulator._without_errors()
    batch = first._add(X, y, oob=oob, keep=keep, progress=_half(progress, 0), **given)
    if batch is None:
        return first, None
    second = first.second_pass()
    second._sum(batch, second, _half(progress, 1))
    return second, batch


def _half(progress: Progress | None, number: int) -> Progress | None:
    """Progress of one of two passes over the rows."""
    return progress and (lambda done, rows: progress((done + number * rows) // 2, rows))
