"""Rows in the partitions of a cluster: what treeinner.dask and treeinner.spark have in common.

A partition is summed where it lies; sums are added in any tree; the driver checks that every partition is in them once,
with all its rows. Centred scores take two such rounds over the cluster, one per pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from treeinner.errors import DataError, ModelError, Note, TreeInnerError, UnsupportedModelError, counted
from treeinner.read import Model
from treeinner.rows import Stream, needs_all_rows, read_rows
from treeinner.score.conclude import conclude, warned
from treeinner.score.passes import Centre, leaf_pass, node_means, share_pass, total
from treeinner.score.result import Importance
from treeinner.score.spec import Spec
from treeinner.score.sums import Sums
from treeinner.score.training_rows import training_rows_note

__all__ = ["PROBED_ROWS", "Job", "Part", "add_parts", "importance_of_partitions", "of_partition"]

TORN = " Bring each query into one partition: shuffle or repartition the frame by its column."
OTHER_ROWS = "rows are needed twice, and came out differently. Persist or cache the frame, or fix its random seeds."
PARTLY = Note("training_rows_unchecked", "training rows: looked for in each partition alone.", quiet=True)
PROBED_ROWS = 20_000  # that show what a pipeline makes of its columns


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
    notes: dict[str, Note]  # by code, each from the first partition that has it


def of_partition(job: Job, number: int, batches: Iterable[Mapping[str, Any]]) -> Part:
    """Sums over one partition; its number, from 0, is in every error. batches: arguments of `read_rows`."""
    found: Sums | None = None
    notes: list[Note | None] = []
    try:
        for batch in batches:
            if not batch["X"].shape[0]:
                continue
            rows = read_rows(job.model, **batch, largest_weight=job.largest_weight)
            if found is None and not job.second:
                notes.append(training_rows_note(job.model, rows))
            part = _sums(job, rows)
            found = part if found is None else found + part
            notes += [replace(note, quiet=False) for some in rows for note in some.notes]  # the user saw no warning
    except TreeInnerError as error:
        raise type(error)(f"Partition {number}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:  # of a pipeline's transformer, for one
        raise DataError(f"Partition {number}: {type(error).__name__}: {error}") from error
    said = {note.code: replace(note, text=f"Partition {number}: {note.text}") for note in notes if note is not None}
    return Part(found, {number: 0 if found is None else found.rows}, said)


def _sums(job: Job, rows: Stream) -> Sums:
    """Sums of the round over some rows."""
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
    model, spec, centre = job.model, job.spec, None
    if why := needs_all_rows(model):
        raise UnsupportedModelError(f"{why}, so partitions do not add up; use ti.importance on rows in memory.")
    if spec.method in ("predecomp", "saabas"):
        centre = node_means(model, spec, None)
    first = run(replace(job, centre=centre))
    leaf = _complete(first, n_partitions)
    twice = std_errors or spec.score == "signal"
    share = leaf if twice else None
    if spec.method == "centred":
        centre = node_means(model, spec, leaf)
        share = _second_round(replace(job, centre=centre, second=True), run, first) if twice else None
    try:
        found = conclude(model, spec, leaf, share, centre)
    except DataError as error:  # of the two rounds, which do not go together
        raise DataError(f"{error} In a cluster {OTHER_ROWS}") from None
    found = found if std_errors else replace(found, has_errors=False)
    partly = sum(map(bool, first.rows.values())) > 1 and "training_rows" not in first.notes
    return warned(found, *(first.notes | ({PARTLY.code: PARTLY} if partly else {})).values())


def _second_round(job: Job, run: Callable[[Job], Part], first: Part) -> Sums:
    """Sums of the second round, in which every partition must have the rows of the first."""
    second = run(job)
    for number, before in first.rows.items():
        after = second.rows.get(number, 0)
        if before != after:
            raise DataError(f"Partition {number} had {counted(before, 'row')} and then {after:,}: {OTHER_ROWS}")
    return _complete(second, len(first.rows))


def _complete(part: Part, n_partitions: int | None) -> Sums:
    """The sums, in which every partition must be once, with all its rows."""
    if part.sums is None:
        raise DataError("There are no rows to score; pass at least one row of X and y.")
    n_partitions = max(part.rows, default=-1) + 1 if n_partitions is None else n_partitions
    lost, n_rows = set(range(n_partitions)) - part.rows.keys(), sum(part.rows.values())
    if lost or part.sums.rows != n_rows:
        which = f"partition {min(lost)} is not in the sums" if lost else f"the sums have {part.sums.rows:,} rows"
        raise ModelError(f"Rows were lost on the way: the partitions have {n_rows:,} rows, and {which}; run it again.")
    return part.sums
