"""What runs in Spark's Python workers, and what comes back from them.

Steps go through `mapInArrow`, which classic and Connect sessions have. What a task returns is one row of bytes: Spark
takes the rows of a task once, however often it tried, so nothing counts twice. A mistake in the data is such a row too:
raised, it would be tried again, and come back inside a Java stack trace.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np

from treeinner.attribution import attribute as attribute_rows
from treeinner.errors import DataError, MissingDependencyError, TreeInnerError
from treeinner.model import Model
from treeinner.scores.accumulator import ImportanceAccumulator
from treeinner.scores.partitions import Part, add_partition, merge_parts, naming
from treeinner.spark.columns import Columns

__all__ = ["attributed", "check_workers", "sums_of"]

ANSWER = "partition long, kind string, answer binary"  # kind: "part", "error" or "problem"
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
    _answers(one_row.mapInArrow(_shipped(_nothing), ANSWER))


def sums_of(selected: Any, columns: Columns, accumulator: ImportanceAccumulator) -> Part:
    """Sums over all partitions: each by a task, these by some tasks more, and the rest here."""
    answers = selected.mapInArrow(_shipped(partial(_add, accumulator, columns)), ANSWER)
    # Without a number Spark makes as many tasks of it as the bytes need.
    answers = answers.repartition("partition").coalesce(MERGERS)
    return merge_parts(_answers(answers.mapInArrow(_shipped(_merge), ANSWER)))


def attributed(selected: Any, columns: Columns, model: Model, schema: Any, dtype: str, **options: Any) -> Any:
    """Attributions of all rows, lazily."""
    return selected.mapInArrow(partial(_attribute, model, columns, dtype, options, schema.names), schema)


def _answers(frame: Any) -> list[Part]:
    try:
        rows = frame.collect()
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("pyspark", "py4j"):
            raise
        raise _explained(str(error)) from None
    for row in sorted(rows, key=lambda row: (row["kind"] != "problem", row["partition"])):
        if row["kind"] == "problem":
            raise _missing(bytes(row["answer"]).decode())
        if row["kind"] == "error":
            raise pickle.loads(bytes(row["answer"]))
    return [pickle.loads(bytes(row["answer"])) for row in rows]


def _explained(text: str) -> TreeInnerError:
    """What Spark says in pages, in a sentence."""
    versions = re.search(r"different version:?\s*\(?'?([\d.]+)\D+?([\d.]*\d)", text)
    if "PYTHON_VERSION_MISMATCH" in text or versions is not None:
        found = f" {versions[1]}, and the driver {versions[2]}" if versions else " of another version than the driver"
        return MissingDependencyError(
            f"The Spark workers have Python{found}; Spark needs the same minor version on both. Set "
            "spark.pyspark.python (PYSPARK_PYTHON) to the same Python as the driver's."
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt): ", line)]
    raised = [line for line in raised if not line.startswith(("org.", "java.", "Caused"))]
    if raised and raised[-1].startswith(("ModuleNotFoundError", "ImportError")):
        return _missing(raised[-1])
    reason = (raised or lines or ["it gave no reason"])[-1 if raised else 0]
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
        import pickle
        import sys
        from importlib import metadata

        import pyarrow
        from pyspark import TaskContext

        try:
            if metadata.version("treeinner") != version:
                raise ImportError(f"they have treeinner {metadata.version('treeinner')}, the driver has {version}")
            work = pickle.loads(data)
        except ImportError as error:
            number = TaskContext.get().partitionId()
            problem = f"{type(error).__name__}: {error}, in {sys.executable}".encode()
            row = {"partition": [number], "kind": ["problem"], "answer": [problem]}
            yield pyarrow.RecordBatch.from_pydict(row)
        else:
            yield from work(batches)

    return on_worker


# -- on the workers ----------------------------------------------------------------------------------------------
def _number() -> int:
    from pyspark import TaskContext

    return int(TaskContext.get().partitionId())


def _answer(number: int, kind: str, answer: Any) -> Any:
    import pyarrow

    data = answer if isinstance(answer, bytes) else pickle.dumps(answer)
    return pyarrow.RecordBatch.from_pydict({"partition": [number], "kind": [kind], "answer": [data]})


def _nothing(batches: Batches) -> Iterator[Any]:
    """Answer nothing: what counts is that the worker could be asked."""
    yield from ()


def _add(accumulator: ImportanceAccumulator, columns: Columns, batches: Batches) -> Iterator[Any]:
    number = _number()
    try:
        part = add_partition(accumulator, number, map(columns.arguments, columns.tables(batches)))
        yield _answer(number, "part", part)
    except TreeInnerError as error:
        yield _answer(number, "error", error)


def _merge(batches: Batches) -> Iterator[Any]:
    """One answer for those of several partitions: their sum, or the first one that is no sum."""
    rows = sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["partition"])
    for row in rows:
        if row["kind"] != "part":
            yield _answer(row["partition"], row["kind"], row["answer"])
            return
    try:
        if rows:
            yield _answer(rows[0]["partition"], "part", merge_parts(pickle.loads(row["answer"]) for row in rows))
    except TreeInnerError as error:
        yield _answer(rows[0]["partition"], "error", error)


def _attribute(
    model: Model, columns: Columns, dtype: str, options: dict[str, Any], names: Sequence[str], batches: Batches
) -> Iterator[Any]:
    import pyarrow

    with naming(f"Partition {_number()}"):
        for table in columns.tables(batches):
            found = attribute_rows(model, **columns.arguments(table), **options)
            values, base = found.by_output
            numbers = np.concatenate([values.swapaxes(1, 2).reshape(len(values), -1), base], axis=1).astype(dtype)
            arrays = [table.column(name) for name in columns.keep]
            arrays += [pyarrow.array(np.ascontiguousarray(column)) for column in numbers.T]
            yield from pyarrow.table(arrays, names=list(names)).to_batches()
