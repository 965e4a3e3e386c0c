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
from treeinner.cli.options import Columns, Reading, Sample
from treeinner.errors import DataError, MissingDependencyError, counted, did_you_mean
from treeinner.model import Model, read_model
from treeinner.objectives import encode_target
from treeinner.stream import Stream, source_of
from treeinner.tables.batches import Piece
from treeinner.tables.columns import is_missing, listing
from treeinner.tables.files import Wanted, looks_like_data
from treeinner.tables.named import INDEX, Roles, split_frame, text_columns
from treeinner.tables.sources import Source

Paths = Sequence[Path]
UNNAMED = "Note: a column without a name was ignored: row labels, which pandas writes unless index=False."


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of files, in memory."""

    name: str  # of the file, for headings
    numbers: NDArray[np.intp]  # which rows of the files these are, from 0
    X: Any  # pyarrow.Table; rows to train on: a pandas frame
    y: Any
    extra: dict[str, Any]  # sample_weight, clusters, qid, as far as given


def open_model_file(path: Path, reading: Reading) -> Model:
    """Read a model file, with what the user says about it."""
    options = reading.options()
    if looks_like_data(path):
        raise DataError(f"{path} is a data file; the model comes first: treeinner importance MODEL DATA.")
    with input_errors():
        return read_model(path, **options)


def name_of(paths: Paths) -> str:
    """What headings call the data."""
    return paths[0].name if len(paths) == 1 else f"{len(paths)} files"


def open_rows(paths: Paths, model: Model, special: Columns, keep: Sequence[str] = ()) -> Stream:
    """Files, folders and patterns as one stream of rows; what will not be read is told."""
    stream = Stream(model, _source(paths, special), special.arguments(), tuple(keep))
    known, names = stream.wanted.columns, stream.source.names
    assert known is not None
    assert names is not None
    ignored = [name for name in names if name not in known and name not in INDEX]
    if ignored:
        count = "a column" if len(ignored) == 1 else f"{len(ignored)} columns"
        screen.note(f"Note: ignored {count} that the model does not know: {listing(ignored)}.")
    e = model.ensemble
    if (e.feature_names if e.schema.external else e.schema.names) is None:
        if len(known) < len(names):
            screen.note(UNNAMED)
        screen.note("Note: the model stores no column names; the columns are taken in the order of the file.")
    return stream


def _source(paths: Paths, special: Columns) -> Source:
    source = source_of([str(path) for path in paths], special.arguments())
    assert source is not None
    Roles.of(special.arguments()).check(source.names or (), source.what)
    return source


def read_rows(
    paths: Paths,
    model: Model,
    special: Columns,
    sample: Sample | None = None,
    *,
    check_target: bool = False,
) -> Rows:
    """Read the model's columns and the special ones of all rows, or of a sample of them."""
    return rows_of(paths, open_rows(paths, model, special), sample, check_target=check_target)


def rows_of(
    paths: Paths, stream: Stream, sample: Sample | None, *, check_target: bool, most_bytes: float = np.inf
) -> Rows:
    """The same of a stream that was opened; of its first so many bytes alone, if that is asked for."""
    table, numbers = _table(paths, stream.source, stream.wanted, sample, most_bytes)
    _check_categories(table, stream)
    with input_errors():
        X, given = stream.split(Piece(table, "", {}))
    rows = Rows(name_of(paths), numbers, X, given.pop("y"), _extra(given, stream.roles))
    if check_target:
        try:
            encode_target(stream.model.ensemble, rows.y, objective=stream.model.objective)
        except DataError as error:  # under the name that the user gave it
            raise DataError(f"--target {' '.join(stream.roles.columns['y'])}: {error}") from error
    return rows


def read_training_rows(paths: Paths, special: Columns, sample: Sample, dropped: Sequence[str]) -> Rows:
    """Read all columns but the special and the dropped ones as a pandas frame; text becomes categories."""
    source, name = _source(paths, special), name_of(paths)
    names = source.names or ()
    for column in dropped:
        if column not in names:
            raise DataError(f"--drop {column}: {source.what} has no such column{did_you_mean(column, names)}")
    roles = Roles.of(special.arguments())
    used = {*dropped, *roles.names, *INDEX}
    features = [column for column in names if column not in used]
    if not features:
        raise DataError(f"{source.what} has no columns besides {listing(sorted(used - {*INDEX}))}.")
    if any(column in INDEX and column not in dropped for column in names):
        screen.note(UNNAMED)
    wanted = Wanted(tuple(dict.fromkeys([*features, *roles.names])), labels=frozenset(names))
    table, numbers = _table(paths, source, wanted, sample)
    X, given = split_frame(table, special.arguments(), lambda *_: features)
    y = np.asarray(given.pop("y"))
    empty = sum(is_missing(value) for value in y.reshape(-1).tolist())
    if empty:
        raise DataError(f"--target: {counted(empty, 'row')} of {name} have no value there; leave them out.")
    try:
        frame = _for_training(X, name).to_pandas()
    except ImportError:
        raise MissingDependencyError("treeinner select needs pandas; install it: pip install pandas") from None
    return Rows(name, numbers, frame, y, _extra(given, roles))


def _extra(given: dict[str, Any], roles: Roles) -> dict[str, Any]:
    """What comes with the rows besides their target; weights must be numbers."""
    weight = given["sample_weight"]
    if weight is not None and weight.dtype.kind == "O":
        name, wrong = roles.columns["sample_weight"][0], weight[0]
        raise DataError(f"--weight {name}: expected numbers that are 0 or positive, got {wrong!r}.")
    return {name: values for name, values in given.items() if values is not None}


def _for_training(table: Any, name: str) -> Any:
    """Columns in types that tree libraries take: numbers, truth values and categories."""
    import pyarrow

    types = pyarrow.types
    for j, column_name in enumerate(table.column_names):
        column, kind = table.column(j), table.column(j).type
        if types.is_null(kind) or types.is_decimal(kind):
            table = table.set_column(j, column_name, column.cast(pyarrow.float64()))
        elif types.is_string(kind) or types.is_large_string(kind):
            table = table.set_column(j, column_name, column.dictionary_encode())
        elif not any(
            fits(kind) for fits in (types.is_integer, types.is_floating, types.is_boolean, types.is_dictionary)
        ):
            raise DataError(
                f"Column {column_name!r} of {name} holds {kind}, which trees cannot split; write it as numbers or "
                f"text, or leave it out: --drop {column_name}."
            )
    return table.unify_dictionaries()


# -- rows ----------------------------------------------------------------------------------------------------
def _table(
    paths: Paths, source: Source, wanted: Wanted, sample: Sample | None, most_bytes: float = np.inf
) -> tuple[Any, NDArray[np.intp]]:
    """Rows as one pyarrow.Table, and their numbers."""
    import pyarrow

    chosen = _sampled(source, wanted, sample)
    parts, done, size = [], 0, 0
    for piece in source.read(wanted):
        batch = piece.X
        if chosen is not None:
            start, stop = np.searchsorted(chosen, (done, done + batch.num_rows))
            batch = batch.take(pyarrow.array(chosen[start:stop] - done))
        done += piece.X.num_rows
        parts.append(pyarrow.Table.from_batches([batch]))
        size += batch.nbytes
        if size > most_bytes:
            break
    if done == 0:
        raise DataError(f"{name_of(paths)} has no rows.")
    try:
        table = pyarrow.concat_tables(parts, promote_options="permissive")
    except pyarrow.ArrowException as error:
        why = str(error).splitlines()[0].rstrip(". ")
        raise DataError(f"The files have columns of different types ({why}); write all files alike.") from None
    return table, np.arange(done) if chosen is None else chosen


def _sampled(source: Source, wanted: Wanted, sample: Sample | None) -> NDArray[np.intp] | None:
    """Numbers of a random sample of the rows; None: all of them."""
    if sample is None or sample.rows is None:
        return None
    n_rows = source.n_rows
    if n_rows is None:
        one = replace(wanted, columns=(wanted.columns or source.names or ())[:1])
        n_rows = sum(piece.n_rows for piece in source.read(one))
    if sample.rows >= n_rows:
        return None
    return np.sort(np.random.default_rng(sample.seed or 0).choice(n_rows, sample.rows, replace=False))


def _check_categories(table: Any, stream: Stream) -> None:
    """Raise if no value of a column is a category that the model knows.

    One by one these would count as categories that it has not seen; all of them together are a mistake.
    """
    features = stream.model.columns_among(stream.source.names or (), stream.roles)
    for name, levels in text_columns(features, stream.model.ensemble.schema).items():
        found = [value for value in table[name].unify_dictionaries().unique().to_pylist() if value is not None]
        if found and not set(found) & set(levels):
            raise DataError(
                f"Column {name!r} of {stream.source.what} contains {listing(found, 3)}, none of which is a category "
                f"that the model knows ({listing(levels, 3)}); write the categories as they were in training."
            )
