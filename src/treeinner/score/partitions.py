"""Rows in the partitions of a cluster: what treeinner.dask and treeinner.spark have in common.

A partition is summed where it lies; sums are added in any tree; the driver checks that every partition is in them once,
with all its rows. Centred scores take two such rounds over the cluster, one per pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from treeinner.errors import DataError, ModelError, Note, TreeInnerError, UnsupportedModelError, counted
from treeinner.read import Model
from treeinner.read.columns import GroupSpec, credit
from treeinner.rows import needs_all_rows, read_rows
from treeinner.score.conclude import scores_of, warned
from treeinner.score.passes import total
from treeinner.score.result import Importance
from treeinner.score.spec import Spec, make_spec
from treeinner.score.sums import Sums
from treeinner.score.training_rows import training_rows_note

__all__ = ["PROBED_ROWS", "Job", "Part", "Partitions", "add_parts", "importance_of_partitions", "of_partition"]

TORN = " Bring each query into one partition: shuffle or repartition the frame by its column."
OTHER_ROWS = "rows are needed twice, and came out differently. Persist or cache the frame, or fix its random seeds."
PARTLY = Note("training_rows_unchecked", "training rows: looked for in each partition alone.", quiet=True)
PROBED_ROWS = 20_000  # that show what a pipeline makes of its columns


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """What every partition needs to know in one round, or pass over the rows; it travels by pickle."""

    work: Callable[..., Sums]  # leaf_pass or share_pass
    model: Model
    spec: Spec
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    reading: Mapping[str, Any] = field(default_factory=dict)  # options of `read_rows`
    first: bool = True  # whether training rows are looked for


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
            rows = read_rows(job.model, **batch, **job.reading)
            if found is None and job.first:
                notes.append(training_rows_note(job.model, rows))
            part = total(job.work, job.model, job.spec, rows, *job.args, **job.options)
            found = part if found is None else found + part
            notes += [replace(note, quiet=False) for note in rows.notes]  # the user saw no warning
    except TreeInnerError as error:
        raise type(error)(f"Partition {number}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:  # of a pipeline's transformer, for one
        raise DataError(f"Partition {number}: {type(error).__name__}: {error}") from error
    said = {note.code: replace(note, text=f"Partition {number}: {note.text}") for note in notes if note is not None}
    return Part(found, {number: 0 if found is None else found.rows}, said)


def add_parts(parts: Iterable[Part]) -> Part:
    """Add up the sums of several partitions; none is changed."""
    sums: Sums | None = None
    rows: dict[int, int] = {}
    notes: dict[str, Note] = {}
    for part in parts:
        if twice := rows.keys() & part.rows.keys():
            raise ModelError(f"Partition {min(twice)} was added twice; run it again.")
        rows |= part.rows
        notes = {**part.notes, **notes}
        try:
            sums = sums + part.sums if sums is not None and part.sums is not None else sums or part.sums
        except DataError as error:
            which = f"Partitions up to {max(rows)}: {error}"
            raise DataError(f"{which}{TORN if str(error).startswith('Query') else ''}") from None
    return Part(sums, rows, notes)


@dataclass(eq=False, kw_only=True)
class Partitions:
    """Rows in the partitions of a cluster, in the place of a Stream: every pass is a round over the cluster."""

    run: Callable[[Job], Part]  # sums of all partitions for a job
    head: Any  # first rows of X, where a pipeline asks for them
    names: Any  # of the columns
    given: Collection[str]  # what comes with X
    reading: Mapping[str, Any]  # options of `read_rows`
    n_partitions: int | None = None  # None: not known; they are numbered from 0
    again = True
    first: Part | None = None  # what the first round said

    @property
    def clustered(self) -> bool:
        """Whether rows come with clusters."""
        return "clusters" in self.given

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was noticed while the rows were read."""
        assert self.first is not None
        found = self.first.notes
        partly = sum(map(bool, self.first.rows.values())) > 1 and "training_rows" not in found
        return tuple((found | ({PARTLY.code: PARTLY} if partly else {})).values())

    def total(self, work: Callable[..., Sums], model: Model, spec: Spec, *args: Any, **options: Any) -> Sums:
        """Sum of `work` over all partitions; after the first round they must have the rows of the first."""
        if why := needs_all_rows(model):
            raise UnsupportedModelError(f"{why}, so partitions do not add up; use ti.importance on rows in memory.")
        asked: dict[str, Any] = {"args": args, "options": options | {"n_jobs": 1}, "reading": self.reading}
        part = self.run(Job(work=work, model=model, spec=spec, first=self.first is None, **asked))
        for number, before in ({} if self.first is None else self.first.rows).items():
            after = part.rows.get(number, 0)
            if before != after:
                raise DataError(f"Partition {number} had {counted(before, 'row')} and then {after:,}: {OTHER_ROWS}")
        n_partitions = self.n_partitions if self.first is None else len(self.first.rows)
        self.first = self.first or part
        return _complete(part, n_partitions)


def importance_of_partitions(
    model: Model, rows: Partitions, *, feature_groups: GroupSpec | None = None, std_errors: bool = True, **asked: Any
) -> Importance:
    """Importance of the rows of a cluster; asked: score and method."""
    asked |= {"clustered": rows.clustered, "segmented": "by" in rows.given}
    spec = make_spec(model, credit(model, rows.names, feature_groups, rows.head), **asked)
    options: dict[str, Any] = {"std_errors": std_errors, "margins_given": "base_margin" in rows.given}
    try:
        found = scores_of(model, spec, cast(Any, rows), **options)
    except DataError as error:  # of two rounds that do not go together
        raise DataError(f"{error}{f' In a cluster {OTHER_ROWS}' if 'second pass' in str(error) else ''}") from None
    return warned(found, *rows.notes)


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
