"""What runs in Spark's Python workers, and what comes back from them.

Steps go through `mapInArrow`, which classic and Connect sessions have. What a task returns is one row of bytes: Spark
takes the rows of a task once, however often it tried, so nothing counts twice. A mistake in the data is such a row too:
raised, it would be tried again, and come back inside a Java stack trace.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import metadata
from typing import Any

from treeinner.attribution import attribute as attribute_rows
from treeinner.attribution_file import column_values
from treeinner.errors import DataError, MissingDependencyError, TreeInnerError
from treeinner.model import Model
from treeinner.scores.accumulator import ImportanceAccumulator
from treeinner.scores.partitions import Part, add_partition, merge_parts, naming, training_rows_in
from treeinner.spark.columns import Columns

__all__ = ["Rounds", "attributed", "check_workers", "unpacked"]

ANSWER = "partition long, kind string, answer binary"  # kind: "part", "note", "error" or "problem"
MERGERS = 32  # tasks at most that add up what the partitions answered; the driver adds up their answers
CURE = (
    "install treeinner {version} and the library of the model in the Python that the workers use "
    "(spark.pyspark.python), or ship an environment with them (spark.archives)."
)

Batches = Iterable[Any]  # of pyarrow.RecordBatch


# -- on the driver -----------------------------------------------------------------------------------------------
def check_workers(df: Any) -> None:
    """Raise if the worker that is asked cannot run treeinner; cheap beside the rows."""
    one_row = df.sparkSession.range(0, 1, 1, 1)
    _collect(one_row.mapInArrow(_shipped(_nothing), ANSWER))


@dataclass(eq=False)
class Rounds:
    """Rounds over all partitions of a frame."""

    selected: Any
    columns: Columns
    first: int | None = None  # the first partition with rows, once that is known
    note: str | None = None  # on training rows among its first rows

    def run(self, accumulator: ImportanceAccumulator) -> Part:
        """Sums over all partitions: each by a task, these by some tasks more, and the rest here."""
        answers = self.selected.mapInArrow(_shipped(partial(_add, accumulator, self.columns, self.first)), ANSWER)
        # Without a number Spark makes as many tasks of it as the bytes need.
        answers = answers.repartition("partition").coalesce(MERGERS)
        parts, self.note = _collect(answers.mapInArrow(_shipped(_merge), ANSWER))
        # A frame may have no partitions.
        part = merge_parts(parts) if parts else Part(accumulator.to_bytes(), {})
        self.first = min((number for number, n_rows in part.rows.items() if n_rows), default=None)
        return part


def attributed(selected: Any, columns: Columns, model: Model, schema: Any, dtype: str, **options: Any) -> Any:
    """Attributions of all rows, lazily."""
    return selected.mapInArrow(partial(_attribute, model, columns, dtype, options, schema.names), schema)


def _collect(frame: Any) -> tuple[list[Part], str | None]:
    """What the tasks answered: sums, and a note on training rows."""
    try:
        rows = frame.collect()
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("pyspark", "py4j"):
            raise
        raise _explained(str(error)) from None
    found: dict[str, list[bytes]] = {kind: [] for kind in ("problem", "error", "note", "part")}
    for row in sorted(rows, key=lambda row: int(row["partition"])):
        found[row["kind"]].append(bytes(row["answer"]))
    for problem in found["problem"]:
        raise _missing(problem.decode())
    for refusal in found["error"]:
        raise pickle.loads(refusal)
    return [pickle.loads(part) for part in found["part"]], next(map(bytes.decode, found["note"]), None)


def _explained(text: str) -> TreeInnerError:
    """What Spark says in pages, in a sentence."""
    versions = re.search(r"different version:? \D*([\d.]*\d)\D+([\d.]*\d)", text)
    if "PYTHON_VERSION_MISMATCH" in text or versions is not None:
        found = f" {versions[1]}, and the driver {versions[2]}" if versions else " of another version than the driver"
        return MissingDependencyError(
            f"The Spark workers have Python{found}; Spark needs the same minor version on both. Set "
            "spark.pyspark.python (PYSPARK_PYTHON) to the same Python as the driver's."
        )
    # The end of Python's traceback, the condition of a Java exception, or else how it begins.
    _, python, traceback = text.partition("Traceback (most recent call last)")
    raised = re.findall(r"^(?!org\.|java\.)[A-Za-z_][\w.]*: .+", traceback, re.MULTILINE) if python else []
    if raised and raised[-1].startswith(("ModuleNotFoundError", "ImportError")):
        return _missing(raised[-1])
    conditions = re.findall(r"\[[A-Z][A-Z0-9_.]+\] .+", text)
    reason = [*raised[-1:], *conditions, *text.strip().splitlines(), "it gave no reason"][0]
    return DataError(f"Spark could not compute the rows of df: {reason[:500]}")


def _missing(problem: str) -> MissingDependencyError:
    cure = CURE.format(version=metadata.version("treeinner"))
    return MissingDependencyError(f"The Spark workers cannot run treeinner ({problem}); {cure}")


# -- shipped -----------------------------------------------------------------------------------------------------
def _shipped(work: Callable[[Batches], Iterator[Any]]) -> Callable[[Batches], Iterator[Any]]:
    """The work as a function that a worker can call whether or not it has treeinner.

    Defined in a function, it is pickled by value, not by the name of this module; the work itself is bytes.
    """
    from pyspark import cloudpickle

    data, version = cloudpickle.dumps(work), metadata.version("treeinner")

    def on_worker(batches: Any) -> Any:
        import sys
        from importlib import metadata

        import pyarrow
        from pyspark import TaskContext

        try:
            if metadata.version("treeinner") != version:
                raise ImportError(f"they have treeinner {metadata.version('treeinner')}, the driver has {version}")
            from treeinner.spark.workers import unpacked

            work = unpacked(data)
        except ImportError as error:
            number = TaskContext.get().partitionId()
            problem = f"{type(error).__name__}: {error}, in {sys.executable}".encode()
            row = {"partition": [number], "kind": ["problem"], "answer": [problem]}
            yield pyarrow.RecordBatch.from_pydict(row)
        else:
            yield from work(batches)

    return on_worker


# -- on the workers ----------------------------------------------------------------------------------------------
@lru_cache(maxsize=2)
def unpacked(data: bytes) -> Any:
    """The work of a round, which no task changes: a worker opens the model once, not in every task."""
    return pickle.loads(data)


def _number() -> int:
    from pyspark import TaskContext

    return int(TaskContext.get().partitionId())


def _answer(number: int, kind: str, answer: Any) -> Any:
    import pyarrow

    data = answer if isinstance(answer, bytes) else pickle.dumps(answer)
    return pyarrow.RecordBatch.from_pydict({"partition": [number], "kind": [kind], "answer": [data]})


def _nothing(batches: Batches) -> Iterator[Any]:
    """Answer nothing: what counts is that the worker could be asked."""
    for _ in batches:  # a worker that did not read its rows would not be used again
        pass
    yield from ()


def _add(accumulator: ImportanceAccumulator, columns: Columns, look: int | None, batches: Batches) -> Iterator[Any]:
    """Sums over one partition, or what is wrong with it; and what is to be said of its first rows."""
    number = _number()
    first: list[dict[str, Any]] = []

    def arguments() -> Iterator[dict[str, Any]]:
        for table in columns.tables(batches):
            batch = columns.arguments(table)
            if number == look and not first:
                first.append(batch)
            yield batch

    try:
        yield _answer(number, "part", add_partition(accumulator, number, arguments()))
        note = training_rows_in(accumulator._model, first[0]) if first else None
        if note is not None:
            yield _answer(number, "note", note.encode())
    except TreeInnerError as error:
        yield _answer(number, "error", error)


def _merge(batches: Batches) -> Iterator[Any]:
    """One answer for those of several partitions, their sum; what is not a sum is handed on."""
    rows = sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: int(row["partition"]))
    for row in rows:
        if row["kind"] != "part":
            yield _answer(row["partition"], row["kind"], row["answer"])
    parts = [pickle.loads(row["answer"]) for row in rows if row["kind"] == "part"]
    try:
        if parts:
            yield _answer(rows[0]["partition"], "part", merge_parts(parts))
    except TreeInnerError as error:
        yield _answer(rows[0]["partition"], "error", error)


def _attribute(
    model: Model, columns: Columns, dtype: str, options: dict[str, Any], names: Sequence[str], batches: Batches
) -> Iterator[Any]:
    import pyarrow

    with naming(f"Partition {_number()}"):
        for table in columns.tables(batches):
            found = attribute_rows(model, **columns.arguments(table), **options)
            arrays = [*(table.column(name) for name in columns.keep), *map(pyarrow.array, column_values(found, dtype))]
            yield from pyarrow.table(arrays, names=list(names)).to_batches()
