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
from treeinner.errors import DataError
from treeinner.objectives import encode_target, for_ensemble
from treeinner.tables.columns import listing
from treeinner.tables.frames import as_stored

__all__ = ["Roles", "Rows", "check_target", "read_rows"]

INDEX = ("", "__index_level_0__")  # what pandas calls the row labels that it wrote along


@dataclass(frozen=True)
class Roles:
    """Columns that are no features."""

    target: tuple[str, ...] = ()
    weight: str | None = None
    clusters: str | None = None
    query: str | None = None

    def named(self) -> list[tuple[str, str]]:
        """(option, column) pairs."""
        single = (("--weight", self.weight), ("--clusters", self.clusters), ("--query", self.query))
        return [("--target", name) for name in self.target] + [(o, name) for o, name in single if name is not None]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a file."""

    path: Path
    numbers: NDArray[np.intp]  # which rows of the file these are, from 0
    X: Any  # pyarrow.Table
    y: NDArray[Any] | None
    weight: NDArray[Any] | None
    clusters: NDArray[Any] | None
    query: NDArray[Any] | None


def read_rows(path: Path, model: ModelFile, roles: Roles, *, n_rows: int | None = None, seed: int = 0) -> Rows:
    """Read the model's columns and those of the roles, of all rows or of a sample of them."""
    file = open_data(path)
    for option, name in roles.named():
        if name not in file.names:
            raise _no_such_column(file, option, name)
    features = _features(file, model, roles)
    levels = _levels(model, features)
    text = [name for name, known in levels.items() if all(isinstance(level, str) for level in known)]
    words = [str(level) for known in levels.values() for level in known]
    wanted = list(dict.fromkeys([*features, *(name for _, name in roles.named())]))
    table = file.read(wanted, as_text=text, not_missing=words)
    if table.num_rows == 0:
        raise DataError(f"{path} has no rows; at least one was needed.")
    numbers = np.arange(table.num_rows)
    if n_rows is not None and n_rows < table.num_rows:
        numbers = np.sort(np.random.default_rng(seed).choice(table.num_rows, n_rows, replace=False))
        table = table.take(numbers)
    y = [_array(table[name]) for name in roles.target]
    return Rows(
        path=path,
        numbers=numbers,
        X=_for_model(table.select(features), levels, path),
        y=None if not y else y[0] if len(y) == 1 else np.column_stack(y),
        weight=None if roles.weight is None else _weights(table[roles.weight], roles.weight),
        clusters=None if roles.clusters is None else _array(table[roles.clusters]),
        query=None if roles.query is None else _array(table[roles.query]),
    )


def check_target(rows: Rows, model: ModelFile, roles: Roles, objective: str) -> None:
    """Raise what is wrong with the target under the name that the user gave it."""
    loss = for_ensemble(model.ensemble, objective)
    try:
        encode_target(model.ensemble, rows.y, objective=loss)
    except DataError as error:
        raise DataError(f"--target {' '.join(roles.target)}: {error}") from error


# -- columns ------------------------------------------------------------------------------------------------
def _no_such_column(file: DataFile, option: str, name: str) -> DataError:
    lower = {known.lower(): known for known in file.names}
    near = difflib.get_close_matches(name.lower(), list(lower), n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(repr(lower[n]) for n in near)}?" if near else f"it has {listing(file.names)}."
    return DataError(f"{option} {name}: {file.path} has no such column; {hint}")


def _features(file: DataFile, model: ModelFile, roles: Roles) -> list[str]:
    """Names in the file of the model's columns."""
    special = {name for _, name in roles.named()}
    if model.names is None:
        return _by_position(file, model, special)
    stored = dict(zip(as_stored(file.names, model.ensemble.schema), file.names, strict=True))
    missing = [name for name in model.names if name not in stored]
    if missing:
        raise _lacking(file, model.names, missing)
    for name in roles.target:
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
                "Note: a column without a name left out, the row labels that pandas writes (index=False: none)."
            )
        features = [name for name in features if name not in INDEX]
    if len(features) != model.n_columns:
        besides = f" besides {listing(sorted(special))}" if special else ""
        raise DataError(
            f"{file.path} has {len(features)} columns{besides}, but the model was trained on {model.n_columns} and "
            f"does not know their names; {_way_out(len(features) > model.n_columns, bool(special))}"
        )
    screen.note("Note: the model knows no column names; the columns are taken in the order of the file.")
    return features


def _way_out(too_many: bool, roles_given: bool) -> str:
    """Advice on a file with the wrong number of columns, for a model that knows no names."""
    if too_many and not roles_given:
        return "name those that are no features: --target COLUMN."
    return "write a file with the training columns in training order."


def _note_dropped(names: Sequence[str]) -> None:
    if names:
        count = "a column" if len(names) == 1 else f"{len(names)} columns"
        screen.note(f"Note: {count} left out, not known to the model: {listing(names)}.")


# -- values -------------------------------------------------------------------------------------------------
def _levels(model: ModelFile, features: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Categories that the model knows, by column of the file."""
    schema = model.ensemble.schema
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
            f"{where} holds {listing(found, 3)}, none of which is a category that the model knows "
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
        raise DataError(
            f"--weight {name}: the column holds {weights[0]!r}, but a weight is a number that is not negative."
        )
    return weights
