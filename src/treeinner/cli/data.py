"""DATA on the command line -> X, y and what comes with the rows, fitted to the model."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.cli import screen
from treeinner.cli.files import DataFile, open_data
from treeinner.cli.models import ModelFile
from treeinner.cli.options import Columns, Sample
from treeinner.errors import DataError
from treeinner.objectives import encode_target
from treeinner.tables.columns import listing
from treeinner.tables.frames import as_stored

__all__ = ["Rows", "check_target", "read_rows"]

INDEX = ("", "__index_level_0__")  # what pandas calls the row labels that it wrote along


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a file."""

    path: Path
    numbers: NDArray[np.intp]  # which rows of the file these are, from 0
    X: Any  # pyarrow.Table
    y: NDArray[Any] | None
    weight: NDArray[Any] | None
    clusters: NDArray[Any] | None
    qid: NDArray[Any] | None


def read_rows(path: Path, model: ModelFile, special: Columns, sample: Sample | None = None) -> Rows:
    """Read the model's columns and the special ones, of all rows or of a sample of them."""
    file = open_data(path)
    for option, name in special.named():
        if name not in file.names:
            raise _no_such_column(file, option, name)
    features = _features(file, model, special)
    levels = _levels(model, features)
    text = [name for name, known in levels.items() if all(isinstance(level, str) for level in known)]
    words = [str(level) for known in levels.values() for level in known]
    wanted = list(dict.fromkeys([*features, *(name for _, name in special.named())]))
    table = file.read(wanted, as_text=text, not_missing=words)
    if table.num_rows == 0:
        raise DataError(f"{path} has no rows.")
    numbers = np.arange(table.num_rows)
    if sample is not None and sample.rows is not None and sample.rows < table.num_rows:
        rng = np.random.default_rng(sample.seed or 0)
        numbers = np.sort(rng.choice(table.num_rows, sample.rows, replace=False))
        table = table.take(numbers)
    y = [_array(table[name]) for name in special.target or ()]
    return Rows(
        path=path,
        numbers=numbers,
        X=_for_model(table.select(features), levels, path),
        y=None if not y else y[0] if len(y) == 1 else np.column_stack(y),
        weight=None if special.weight is None else _weights(table[special.weight], special.weight),
        clusters=None if special.clusters is None else _array(table[special.clusters]),
        qid=None if special.qid is None else _array(table[special.qid]),
    )


def check_target(rows: Rows, model: ModelFile, columns: Columns) -> None:
    """Raise what is wrong with the target under the name that the user gave it."""
    try:
        encode_target(model.model.ensemble, rows.y, objective=model.model.objective)
    except DataError as error:
        raise DataError(f"--target {' '.join(columns.target or ())}: {error}") from error


# -- columns ------------------------------------------------------------------------------------------------
def _no_such_column(file: DataFile, option: str, name: str) -> DataError:
    lower = {known.lower(): known for known in file.names}
    near = difflib.get_close_matches(name.lower(), list(lower), n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(repr(lower[n]) for n in near)}?" if near else f"it has {listing(file.names)}."
    return DataError(f"{option} {name}: {file.path} has no such column; {hint}")


def _features(file: DataFile, model: ModelFile, columns: Columns) -> list[str]:
    """Names in the file of the model's columns."""
    special = {name for _, name in columns.named()}
    if model.names is None:
        return _by_position(file, model, special)
    stored = dict(zip(as_stored(file.names, model.model.ensemble.schema), file.names, strict=True))
    missing = [name for name in model.names if name not in stored]
    if missing:
        raise _lacking(file, model.names, missing)
    for name in columns.target or ():
        if name in {stored[known] for known in model.names}:
            raise DataError(
                f"--target {name}: this column is a feature of the model, so it cannot be the target; name "
                "the column that the model predicts."
            )
    features = [stored[name] for name in model.names]
    known = {*features, *special}
    _note_dropped([name for name in file.names if name not in known and name not in INDEX])
    return features


def _lacking(file: DataFile, names: Sequence[str], missing: Sequence[str]) -> DataError:
    lower = {known.lower(): known for known in file.names}
    near = difflib.get_close_matches(missing[0].lower(), list(lower), n=1, cutoff=0.8)
    hint = f" (is {lower[near[0]]!r} meant to be {missing[0]!r}?)" if near else ""
    return DataError(
        f"{file.path} lacks {len(missing)} of the {len(names)} columns that the model was trained on: "
        f"{listing(missing)}{hint}; prepare the file as for training, with the same column names."
    )


def _by_position(file: DataFile, model: ModelFile, special: set[str]) -> list[str]:
    features = [name for name in file.names if name not in special]
    if len(features) > model.n_columns:
        if any(name in INDEX for name in features):
            screen.note(
                "Note: a column without a name was ignored: the row labels that pandas writes (none with index=False)."
            )
        features = [name for name in features if name not in INDEX]
    if len(features) != model.n_columns:
        besides = f" besides {listing(sorted(special))}" if special else ""
        raise DataError(
            f"{file.path} has {len(features)} columns{besides}, but the model was trained on {model.n_columns} and "
            f"does not store their names; {_way_out(len(features) > model.n_columns, bool(special))}"
        )
    screen.note("Note: the model stores no column names; the columns are taken in the order of the file.")
    return features


def _way_out(too_many: bool, roles_given: bool) -> str:
    """Advice on a file with the wrong number of columns, for a model that knows no names."""
    if too_many and not roles_given:
        return "name those that are not features: --target COLUMN."
    return "write a file with the training columns in training order."


def _note_dropped(names: Sequence[str]) -> None:
    if names:
        count = "a column" if len(names) == 1 else f"{len(names)} columns"
        screen.note(f"Note: {count} ignored, not known to the model: {listing(names)}.")


# -- values -------------------------------------------------------------------------------------------------
def _levels(model: ModelFile, features: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Categories that the model knows, by column of the file."""
    schema = model.model.ensemble.schema
    if schema.external or schema.levels is None:
        return {}
    return {name: known for name, known in zip(features, schema.levels, strict=True) if known is not None}


def _for_model(table: Any, levels: dict[str, Sequence[Any]], path: Path) -> Any:
    """Columns in types that `tables` reads."""
    import pyarrow

    for j, name in enumerate(table.column_names):
        column = table.column(j)
        if pyarrow.types.is_null(column.type):  # a CSV column without any value
            table = table.set_column(j, name, column.cast(pyarrow.float64()))
        elif name in levels:
            table = table.set_column(j, name, _as_categories(column, levels[name], f"Column {name!r} of {path}"))
    return table


def _as_categories(column: Any, levels: Sequence[Any], where: str) -> Any:
    import pyarrow

    values = _decoded(column)
    found = values.unique().drop_null().to_pylist()
    # One by one these would count as categories the model has not seen; all of them together are a mistake.
    if found and not set(found) & set(levels):
        raise DataError(
            f"{where} contains {listing(found, 3)}, none of which is a category that the model knows "
            f"({listing(levels, 3)}); write the categories as they were in training."
        )
    if pyarrow.types.is_dictionary(column.type):
        return column
    return values.dictionary_encode()


def _decoded(column: Any) -> Any:
    import pyarrow

    return column.cast(column.type.value_type) if pyarrow.types.is_dictionary(column.type) else column


def _array(column: Any) -> NDArray[Any]:
    """One value per row; text as objects, missing numbers as NaN."""
    import pyarrow

    values = _decoded(column)
    if pyarrow.types.is_decimal(values.type):
        values = values.cast(pyarrow.float64())
    if pyarrow.types.is_integer(values.type) or pyarrow.types.is_floating(values.type):
        return np.asarray(values.to_numpy())
    return np.array(values.to_pylist(), dtype=object)


def _weights(column: Any, name: str) -> NDArray[Any]:
    weights = _array(column)
    if weights.dtype.kind == "O":
        raise DataError(f"--weight {name}: expected numbers that are 0 or positive, got {weights[0]!r}.")
    return weights
