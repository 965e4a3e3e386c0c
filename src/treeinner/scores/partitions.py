"""Rows in the partitions of a cluster: what treeinner.dask and treeinner.spark have in common.

A partition is added up where it lies, into bytes; bytes are added up in any tree; the driver checks that every
partition is in them once, with all its rows. Centred scores with standard errors take two such rounds (passes.py).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from treeinner.errors import DataError, ModelError, TreeInnerError, counted
from treeinner.model import Model
from treeinner.scores.accumulator import CONFIDENCE, ImportanceAccumulator, check_errors_wanted
from treeinner.scores.arguments import open_for
from treeinner.scores.conclude import with_note
from treeinner.scores.result import Importance
from treeinner.scores.totals import merge_bytes
from treeinner.scores.training_rows import training_rows_note
from treeinner.tables.frames import names_of
from treeinner.tables.named import Roles

__all__ = ["Part", "Plan", "add_partition", "make_plan", "merge_parts", "naming", "run_rounds", "training_rows_in"]

# Settings of a score; all others are about the model.
SCORING = (
    "score", "method", "feature_groups", "over", "against", "by_round", "std_errors", "confidence", "n_jobs",
)  # fmt: skip
TORN = (
    " Bring each query into one partition: X.shuffle(on=its column) of a Dask frame, df.repartition(its column) of a "
    "Spark one."
)
OTHER_ROWS = (
    "the rows are needed twice, and were computed anew in between. Persist or cache the frame, or fix the seeds of its "
    "random steps."
)


@dataclass(frozen=True, eq=False)
class Plan:
    """What a partition starts from, and whether the rows are needed twice."""

    start: ImportanceAccumulator  # without rows
    two_rounds: bool


@dataclass(frozen=True, eq=False)
class Part:
    """Sums over some partitions."""

    sums: bytes
    rows: Mapping[int, int]  # partition -> its number of rows

    @property
    def label(self) -> str:
        """The partitions in words."""
        first, last = min(self.rows), max(self.rows)
        return f"Partition {first}" if first == last else f"Partitions {first} to {last}"


def make_plan(model: Any, *, caller: Callable[..., Any], clustered: bool = False, **settings: Any) -> Plan:
    """Open the model and check the settings; what cannot be added up over partitions is refused here.

    settings: those of `importance`, but for `progress`, as they were given to the public function `caller`. A partition
    has one thread unless `n_jobs` says otherwise.
    """
    if settings.pop("oob", False):
        raise DataError(
            "oob=True needs the training rows in the order of training, which partitions do not keep; use "
            "ti.importance(model, X, y, oob=True) on rows in memory, or held-out rows here."
        )
    scoring = {"n_jobs": 1} | {name: settings.pop(name) for name in SCORING if name in settings}
    wanted, confidence = bool(scoring.get("std_errors", True)), scoring.get("confidence", CONFIDENCE)
    check_errors_wanted(wanted, clustered=clustered, confidence=confidence)
    opened = open_for(scoring.get("score", "tree_inner"), model, settings, caller=caller)
    start = ImportanceAccumulator(opened, clustered=clustered, **scoring)
    two_rounds = start._setting.wants_second_pass
    if two_rounds:  # the first one is for the scores alone, which is cheaper
        start = start._without_errors()
    # No rows, but all that is refused whatever the rows are: losses over all rows together, balanced class weights.
    start.update(np.empty((0, opened.n_features)), clusters=[] if clustered else None)
    start.fingerprint()  # a function without a name of its own is refused
    return Plan(start, two_rounds)


def add_partition(accumulator: ImportanceAccumulator, number: int, batches: Iterable[Mapping[str, Any]]) -> Part:
    """Sums over one partition; its number, from 0, is in every error.

    accumulator: of the round, without rows; it is not changed. batches: rows of the partition, one batch or several, as
    arguments of `ImportanceAccumulator.update`.
    """
    sums, n_rows = copy.copy(accumulator), 0
    with naming(f"Partition {number}"):
        for batch in batches:
            n_batch = int(np.shape(batch["X"])[0])
            if n_batch == 0:
                _check_columns(sums._model, **batch)
            # One id for the partition: if it counted twice, its first rows would.
            sums.update(**batch, batch_id=number if n_rows == 0 and n_batch else None)
            n_rows += n_batch
    return Part(sums.to_bytes(), {number: n_rows})


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Errors inside get the name of what they are about, such as a partition."""
    try:
        yield
    except TreeInnerError as error:
        raise type(error)(f"{what}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:  # of a pipeline's transformer, for one
        raise DataError(f"{what}: {type(error).__name__}: {error}") from error


def _check_columns(model: Model, X: Any, **given: Any) -> None:
    """Raise if a partition without rows has other columns than the model: they are a mistake all the same."""
    names, schema = names_of(X), model.ensemble.schema
    if names is not None:
        model.columns_among(names, Roles.of(given, names))
    elif not model.transformers and not schema.external and np.shape(X)[1] != schema.n_columns:
        raise DataError(
            f"X has {counted(np.shape(X)[1], 'column')}, but the model was trained on {schema.n_columns}; pass the "
            "training columns in training order."
        )


def merge_parts(parts: Iterable[Part]) -> Part:
    """Add up the sums of several partitions; none is changed."""
    parts = list(parts)
    try:
        sums = merge_bytes(part.sums for part in parts)
    except DataError as error:
        raise _blamed(parts, error) from None
    rows: dict[int, int] = {}
    for part in parts:
        rows |= part.rows
    return Part(sums, rows)


def _blamed(parts: list[Part], error: DataError) -> DataError:
    """The error of two parts that do not go together, which are named."""
    for one, other in combinations(parts, 2):
        try:
            merge_bytes([one.sums, other.sums])
        except DataError as found:
            text = str(found).removeprefix("Part 1: ")
            return DataError(f"{one.label} and {other.label}: {text}{TORN if text.startswith('Query') else ''}")
    return error


def run_rounds(
    plan: Plan,
    run: Callable[[ImportanceAccumulator], Part],
    n_partitions: int | None = None,
    look: Callable[[int], str | None] | None = None,
) -> Importance:
    """Take the rows through one round or two, and return the result.

    run: adds up all partitions, each from the accumulator that it is given. n_partitions: None if it is not known; they
    are numbered from 0. look: says of a partition, by its number, whether training rows are in it (`training_rows_in`).
    """
    part = run(plan.start)
    done = _complete(plan.start, part, n_partitions)
    if not plan.two_rounds:
        return done.result()
    second = done.second_pass()
    again = run(second)
    for number in sorted({*part.rows, *again.rows}):
        before, after = part.rows.get(number, 0), again.rows.get(number, 0)
        if before != after:
            raise DataError(
                f"Partition {number} had {counted(before, 'row')} and then {counted(after, 'row')}: {OTHER_ROWS}"
            )
    done = _complete(second, again, n_partitions)
    try:
        found = done.result()
    except DataError as error:
        if "saw other rows" not in str(error):
            raise
        raise DataError(f"{error} In a cluster {OTHER_ROWS}") from None
    return found if look is None else with_note(found, _look(look, again.rows))


def _look(look: Callable[[int], str | None], rows: Mapping[int, int]) -> str | None:
    """What is to be said about training rows in the first partition that has rows: one is enough for a warning."""
    number = min(number for number, n_rows in rows.items() if n_rows)
    note = look(number)
    if note is None or rows[number] == sum(rows.values()):
        return note
    return f"Of the {counted(rows[number], 'row')} of partition {number}: {note}"


def training_rows_in(model: Model, batch: Mapping[str, Any]) -> str | None:
    """Say that training rows are among these rows, as far as the model tells; batch: arguments of `update`."""
    given = {name: value for name, value in batch.items() if name not in ("X", "clusters")}
    X, given = model.by_name(batch["X"], **given)
    return training_rows_note(model, X, given.pop("y"), n_jobs=1, **given)


def _complete(accumulator: ImportanceAccumulator, part: Part, n_partitions: int | None) -> ImportanceAccumulator:
    """The accumulator with these sums, in which every partition must be once, with all its rows."""
    done = accumulator.from_bytes(part.sums)
    if n_partitions is None:
        n_partitions = max(part.rows, default=-1) + 1
    lost = set(range(n_partitions)) - part.rows.keys()
    n_rows = sum(part.rows.values())
    if lost or done.n_rows != n_rows:
        which = f"partition {min(lost)} is not in the sums" if lost else f"the sums have {done.n_rows:,} rows"
        raise ModelError(
            f"Rows were lost on the way: the partitions have {n_rows:,} rows, and {which}. Run it again, and if it "
            "happens again, report it with the versions of Dask or Spark."
        )
    return done
