"""MODEL and DATA on the command line: the model, read once, and its rows with what comes along with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.cli import screen
from treeinner.cli.errors import input_errors
from treeinner.cli.files import DataFile, looks_like_data, open_data
from treeinner.cli.options import Columns, Reading, Sample
from treeinner.errors import DataError, MissingDependencyError, closest, counted, did_you_mean
from treeinner.model import Model, read_model
from treeinner.objectives import encode_target
from treeinner.tables.columns import is_missing, listing
from treeinner.tables.frames import as_stored

INDEX = ("", "__index_level_0__")  # what pandas calls the row labels that it wrote along


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a file."""

    path: Path
    numbers: NDArray[np.intp]  # which rows of the file these are, from 0
    X: Any  # pyarrow.Table; rows to train on: a pandas frame
    y: NDArray[Any] | None
    extra: dict[str, NDArray[Any]]  # sample_weight, clusters, qid, as far as given


def open_model_file(path: Path, reading: Reading) -> Model:
    """Read a model file, with what the user says about it."""
    options = reading.options()
    if looks_like_data(path):
        raise DataError(f"{path} is a data file; the model comes first: treeinner importance MODEL DATA.")
    with input_errors():
        return read_model(path, **options)


def read_rows(
    path: Path, model: Model, special: Columns, sample: Sample | None = None, *, check_target: bool = False
) -> Rows:
    """Read the model's columns and the special ones, of all rows or of a sample of them."""
    file = _open(path, special)
    features = _features(file, model, special)
    levels = _levels(model, features)
    text = [name for name, known in levels.items() if all(isinstance(level, str) for level in known)]
    words = [str(level) for known in levels.values() for level in known]
    rows = _rows(file, features, special, sample, as_text=text, not_missing=words)
    rows = replace(rows, X=_for_model(rows.X, levels, path))
    target = rows.y
    if check_target:
        try:
            encode_target(model.ensemble, target, objective=model.objective)
        except DataError as error:  # under the name that the user gave it
            raise DataError(f"--target {' '.join(special.target or ())}: {error}") from error
    return rows


def read_training_rows(path: Path, special: Columns, sample: Sample, dropped: Sequence[str]) -> Rows:
    """Read all columns but the special and the dropped ones as a pandas frame; text becomes categories."""
    file = _open(path, special)
    for name in dropped:
        if name not in file.names:
            raise DataError(f"--drop {name}: {path} has no such column{did_you_mean(name, file.names)}")
    used = {*dropped, *(name for _, name in special.named()), *INDEX}
    features = [name for name in file.names if name not in used]
    if not features:
        raise DataError(f"{path} has no columns besides {listing(sorted(used - {*INDEX}))}.")
    if any(name in INDEX and name not in dropped for name in file.names):
        screen.note("Note: a column without a name was ignored: row labels, which pandas writes unless index=False.")
    rows = _rows(file, features, special, sample)
    assert rows.y is not None
    empty = sum(is_missing(value) for value in rows.y.reshape(-1).tolist())
    if empty:
        raise DataError(f"--target: {counted(empty, 'row')} of {path} have no value there; leave them out.")
    try:
        return replace(rows, X=_for_training(rows.X, path).to_pandas())
    except ImportError:
        raise MissingDependencyError("treeinner select needs pandas; install it: pip install pandas") from None


def _for_training(table: Any, path: Path) -> Any:
    """Columns in types that tree libraries take: numbers, truth values and categories."""
    import pyarrow

    types = pyarrow.types
    for j, name in enumerate(table.column_names):
        column, kind = table.column(j), table.column(j).type
        if types.is_null(kind) or types.is_decimal(kind):
            table = table.set_column(j, name, column.cast(pyarrow.float64()))
        elif types.is_string(kind) or types.is_large_string(kind):
            table = table.set_column(j, name, column.dictionary_encode())
        elif not any(
            fits(kind) for fits in (types.is_integer, types.is_floating, types.is_boolean, types.is_dictionary)
        ):
            raise DataError(
                f"Column {name!r} of {path} holds {kind}, which trees cannot split; write it as numbers or text, or "
                f"leave it out: --drop {name}."
            )
    return table.unify_dictionaries()


def _open(path: Path, special: Columns) -> DataFile:
    """The file, which must have the special columns."""
    file = open_data(path)
    for option, name in special.named():
        if name not in file.names:
            hint = did_you_mean(name, file.names, f"; it has {listing(file.names)}.")
            raise DataError(f"{option} {name}: {path} has no such column{hint}")
    return file


def _rows(file: DataFile, features: Sequence[str], special: Columns, sample: Sample | None, **reading: Any) -> Rows:
    """Features and special columns of all rows, or of a sample of them."""
    wanted = list(dict.fromkeys([*features, *(name for _, name in special.named())]))
    table = file.read(wanted, **reading)
    if table.num_rows == 0:
        raise DataError(f"{file.path} has no rows.")
    numbers = np.arange(table.num_rows)
    if sample is not None and sample.rows is not None and sample.rows < table.num_rows:
        rng = np.random.default_rng(sample.seed or 0)
        numbers = np.sort(rng.choice(table.num_rows, sample.rows, replace=False))
        table = table.take(numbers)
    y = [_array(table[name]) for name in special.target or ()]
    named = {"sample_weight": special.weight, "clusters": special.clusters, "qid": special.qid}
    extra = {argument: _array(table[name]) for argument, name in named.items() if name is not None}
    if "sample_weight" in extra and extra["sample_weight"].dtype.kind == "O":
        wrong = extra["sample_weight"][0]
        raise DataError(f"--weight {special.weight}: expected numbers that are 0 or positive, got {wrong!r}.")
    target = None if not y else y[0] if len(y) == 1 else np.column_stack(y)
    return Rows(file.path, numbers, table.select(list(features)), target, extra)


# -- columns ------------------------------------------------------------------------------------------------
def _features(file: DataFile, model: Model, columns: Columns) -> list[str]:
    """Names in the file of the model's columns, by name, or by position if the model stores no names."""
    special = {name for _, name in columns.named()}
    e = model.ensemble
    # Behind CatBoost's encoded categories the schema speaks of leaves; rows still have the features.
    names = e.feature_names if e.schema.external else e.schema.names
    if names is None:
        return _by_position(file, e.n_features if e.schema.external else e.schema.n_columns, special)
    stored = dict(zip(as_stored(file.names, e.schema), file.names, strict=True))
    missing = [name for name in names if name not in stored]
    if missing:
        close = closest(missing[0], file.names, cutoff=0.8)
        hint = f" (is {close!r} meant to be {missing[0]!r}?)" if close else ""
        raise DataError(
            f"{file.path} lacks {len(missing)} of the {len(names)} columns that the model was trained on: "
            f"{listing(missing)}{hint}; prepare the file as for training, with the same column names."
        )
    features = [stored[name] for name in names]
    for name in columns.target or ():
        if name in features:
            raise DataError(f"--target {name}: this column is a feature of the model; name the one that it predicts.")
    ignored = [name for name in file.names if name not in {*features, *special, *INDEX}]
    if ignored:
        count = "a column" if len(ignored) == 1 else f"{len(ignored)} columns"
        screen.note(f"Note: ignored {count} that the model does not know: {listing(ignored)}.")
    return features


def _by_position(file: DataFile, n_columns: int, special: set[str]) -> list[str]:
    features = [name for name in file.names if name not in special]
    if len(features) > n_columns and any(name in INDEX for name in features):
        screen.note("Note: a column without a name was ignored: row labels, which pandas writes unless index=False.")
        features = [name for name in features if name not in INDEX]
    if len(features) != n_columns:
        besides = f" besides {listing(sorted(special))}" if special else ""
        advice = "write a file with the training columns in training order."
        if len(features) > n_columns and not special:
            advice = "name those that are not features: --target COLUMN."
        raise DataError(
            f"{file.path} has {len(features)} columns{besides}, but the model was trained on {n_columns} and does not "
            f"store their names; {advice}"
        )
    screen.note("Note: the model stores no column names; the columns are taken in the order of the file.")
    return features


# -- values -------------------------------------------------------------------------------------------------
def _levels(model: Model, features: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Categories that the model knows, by column of the file."""
    schema = model.ensemble.schema
    levels = () if schema.external else schema.levels or ()
    return {name: known for name, known in zip(features, levels, strict=False) if known is not None}


def _for_model(table: Any, levels: dict[str, Sequence[Any]], path: Path) -> Any:
    """Columns in types that `tables` reads."""
    import pyarrow

    for j, name in enumerate(table.column_names):
        column = table.column(j)
        if pyarrow.types.is_null(column.type):  # a CSV column without any value
            table = table.set_column(j, name, column.cast(pyarrow.float64()))
        elif name in levels:
            values = _decoded(column)
            found = values.unique().drop_null().to_pylist()
            # One by one these would count as categories the model has not seen; all of them together are a mistake.
            if found and not set(found) & set(levels[name]):
                raise DataError(
                    f"Column {name!r} of {path} contains {listing(found, 3)}, none of which is a category that the "
                    f"model knows ({listing(levels[name], 3)}); write the categories as they were in training."
                )
            table = table.set_column(j, name, values.dictionary_encode() if values is column else column)
    return table


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
