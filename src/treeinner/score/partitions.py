"""Rows in the partitions of a cluster: what treeinner.dask and treeinner.spark have in common.

A partition is summed where it lies; sums are added in any tree; the driver checks that every partition is in them once,
with all its rows. Centred scores take two such rounds over the cluster, one per pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from treeinner.errors import DataError, ModelError, Note, TreeInnerError, UnsupportedModelError, counted
from treeinner.read import Model
from treeinner.rows import Stream, needs_all_rows, read_rows
from treeinner.score.conclude import conclude, warned
from treeinner.score.passes import Centre, leaf_pass, node_means, share_pass, total
from treeinner.score.result import Importance
from treeinner.score.spec import Spec
from treeinner.score.sums import Sums
from treeinner.score.training_rows import UNCHECKED, training_rows_note

__all__ = ["Job", "Part", "add_parts", "importance_of_partitions", "of_partition"]

TORN = " Bring each query into one partition: shuffle or repartition the frame by its column."
OTHER_ROWS = (
    "the rows are needed twice, and were computed anew in between. Persist or cache the frame, or fix the seeds of its "
    "random steps."
)
PROBED_ROWS = 20_000  # that show what a pipeline makes of its columns
CHECKED = Note("training_rows_checked", "", quiet=True)  # a partition without training rows, as far as can be seen


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """What every partition needs to know in one round; it travels by pickle."""

    model: Model
    spec: Spec
    largest_weight: float | None = None
    centre: Centre | None = None
    second: bool = False  # whether this is the second pass of a centred score


@dataclass(frozen=True, eq=False)
class Part:
    """Sums over some partitions; None where none of them has rows."""

    sums: Sums | None
    rows: Mapping[int, int]  # partition -> its number of rows
    notes: Mapping[str, Note] = field(default_factory=dict)  # by code, each from the first partition that has it


def of_partition(job: Job, number: int, batches: Iterable[Mapping[str, Any]]) -> Part:
    """Sums over one partition; its number, from 0, is in every error. batches: arguments of `read_rows`."""
    found: Sums | None = None
    notes: dict[str, Note] = {}
    try:
        for batch in batches:
            rows = read_rows(job.model, **batch, largest_weight=job.largest_weight)
            if not job.second:
                notes = _notes(job.model, rows, number, first=found is None) | notes
            part = _sums(job, rows)
            found = part if found is None else found + part
    except TreeInnerError as error:
        raise type(error)(f"Partition {number}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:  # of a pipeline's transformer, for one
        raise DataError(f"Partition {number}: {type(error).__name__}: {error}") from error
    return Part(found, {number: 0 if found is None else found.rows}, notes)


def _notes(model: Model, stream: Stream, number: int, *, first: bool) -> dict[str, Note]:
    """What was noticed of the rows: warnings of a worker do not reach the user. Training rows: of the first batch."""
    found = [replace(note, quiet=False) for rows in stream for note in rows.notes]
    found += [training_rows_note(model, stream) or CHECKED] if first else []
    return {note.code: note if note.quiet else replace(note, text=f"Partition {number}: {note.text}") for note in found}


def _sums(job: Job, rows: Stream) -> Sums:
    if job.spec.method == "centred" and not job.second:
        return total(leaf_pass, job.model, job.spec, rows, n_jobs=1)
    return total(share_pass, job.model, job.spec, rows, job.centre, leaves=not job.second, n_jobs=1)


def add_parts(parts: Iterable[Part]) -> Part:
    """Add up the sums of several partitions; none is changed."""
    sums: Sums | None = None
    rows: dict[int, int] = {}
    notes: dict[str, Note] = {}
    for part in parts:
        twice = rows.keys() & part.rows.keys()
        if twice:
            raise ModelError(f"Partition {min(twice)} was added twice; run it again.")
        rows |= part.rows
        notes = {**part.notes, **notes}
        try:
            sums = sums + part.sums if sums is not None and part.sums is not None else sums or part.sums
        except DataError as error:
            which = f"Partitions up to {max(rows)}: {error}"
            raise DataError(f"{which}{TORN if str(error).startswith('Query') else ''}") from None
    return Part(sums, rows, notes)


def importance_of_partitions(
    job: Job, run: Callable[[Job], Part], n_partitions: int | None = None, *, std_errors: bool = True
) -> Importance:
    """Take the rows through one round over the cluster or two, and return the result.

    run: sums of all partitions for a job. n_partitions: None if it is not known; they are numbered from 0.
    """
    why = needs_all_rows(job.model)
    if why:
        raise UnsupportedModelError(f"{why}, so partitions do not add up; use ti.importance on rows in memory.")
    spec, model = job.spec, job.model
    if spec.method != "centred":
        centre = node_means(model, spec, None) if spec.by_path else None
        part = run(replace(job, centre=centre))
        sums = _complete(part, n_partitions)
        return warned(conclude(model, spec, sums, sums if std_errors else None, centre), *_said(part))
    first = run(job)
    leaf = _complete(first, n_partitions)
    centre = node_means(model, spec, leaf)
    if not std_errors:
        return warned(conclude(model, spec, leaf, None, centre), *_said(first))
    second = run(replace(job, centre=centre, second=True))
    for number in sorted({*first.rows, *second.rows}):
        before, after = first.rows.get(number, 0), second.rows.get(number, 0)
        if before != after:
            raise DataError(f"Partition {number} had {counted(before, 'row')} and then {after:,}: {OTHER_ROWS}")
    try:
        found = conclude(model, spec, leaf, _complete(second, n_partitions), centre)
    except DataError as error:
        raise DataError(
            f"{error} In a cluster {OTHER_ROWS}" if "saw other rows" in str(error) else str(error)
        ) from None
    return warned(found, *_said(first))


def _said(part: Part) -> list[Note]:
    """What is to be said of the rows; that training rows were not looked for, only if no partition could tell."""
    told = CHECKED.code in part.notes
    return [note for note in part.notes.values() if note.text and not (told and note.code == UNCHECKED.code)]


def _complete(part: Part, n_partitions: int | None) -> Sums:
    """The sums, in which every partition must be once, with all its rows."""
    if part.sums is None:
        raise DataError("There are no rows to score; pass at least one row of X and y.")
    n_partitions = max(part.rows, default=-1) + 1 if n_partitions is None else n_partitions
    lost, n_rows = set(range(n_partitions)) - part.rows.keys(), sum(part.rows.values())
    if lost or part.sums.rows != n_rows:
        which = f"partition {min(lost)} is not in the sums" if lost else f"the sums have {part.sums.rows:,} rows"
        raise ModelError(
            f"Rows were lost on the way: the partitions have {n_rows:,} rows, and {which}. Run it again, and if it "
            "happens again, report it with the versions of Dask or Spark."
        )
    return part.sums
