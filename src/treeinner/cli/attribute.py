"""`treeinner attribute`: where each prediction comes from."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from treeinner.attribution import Attribution, attribute
from treeinner.cli import data, models, options, output, screen
from treeinner.cli.errors import guarded, refusing
from treeinner.cli.options import Method

__all__ = ["attribute_command"]

SHOWN_ROWS = 5  # of a table to read
SHOWN_FEATURES = 5

Shown = Annotated[
    int,
    options.option(
        "--top",
        help="Features to show for each row, largest first, 5 by default; 0 for all. Files hold all.",
        panel=options.ABOUT_OUTPUT,
        min=0,
        metavar="N",
    ),
]
NotFeatures = Annotated[
    list[str] | None,
    options.option(
        "--target",
        "-y",
        help="Column that is no feature, for models that know no names.",
        panel=options.ABOUT_ROWS,
        metavar="COLUMN",
    ),
]


@guarded
def attribute_command(
    model: options.Model,
    data_file: options.Data,
    target: NotFeatures = None,
    rows: options.SampleRows = None,
    seed: options.Seed = 0,
    method: options.MethodOption = Method.predecomp,
    groups: options.Groups = None,
    learning_rate: options.LearningRate = None,
    reg_lambda: options.RegLambda = None,
    reg_alpha: options.RegAlpha = None,
    iteration_range: options.IterationRange = None,
    output_file: options.Output = None,
    format: options.FormatOption = None,
    top: Shown = SHOWN_FEATURES,
    jobs: options.Jobs = -1,
) -> None:
    """Split the prediction of every row over its features."""
    to = output.destination(output_file, format)
    grouped = options.parse_groups(groups)
    opened = models.read(
        model,
        learning_rate=learning_rate,
        reg_lambda=reg_lambda,
        reg_alpha=reg_alpha,
        iteration_range=options.parse_rounds(iteration_range),
    )
    given = data.read_rows(data_file, opened, data.Roles(tuple(target or ())), n_rows=rows, seed=seed)
    with screen.progress("Attributing") as progress, refusing(ValueError, TypeError):
        found = attribute(opened.model, given.X, method=str(method), groups=grouped, n_jobs=jobs, progress=progress)
    if to is None:
        _show(found, given, top, f"{opened.path.name}, {given.path.name}")
    else:
        output.write(_columns(found, given), to)


def _columns(found: Attribution, given: data.Rows) -> dict[str, Any]:
    """Wide: number of the row in the file, base value, and a column per feature (and output)."""
    values = output.as_columns(found.to_frame())
    taken = set(values)
    columns: dict[str, Any] = {_free("row", taken): given.numbers}
    if found.base_values.ndim == 1:
        columns[_free("base_value", taken)] = found.base_values
    else:
        for k, name in enumerate(_outputs(found)):
            columns[_free(f"{name}: base_value", taken)] = found.base_values[:, k]
    return {**columns, **values}


def _show(found: Attribution, given: data.Rows, top: int, what: str) -> None:
    """Long: the largest contributions of the first few rows."""
    outputs = _outputs(found)
    values = found.values if found.values.ndim == 3 else found.values[:, :, None]
    base = found.base_values.reshape(len(values), -1)
    seen = given.X if found.data is not None and given.X.num_columns == values.shape[1] else None
    cells: list[tuple[Any, ...]] = []
    for i in range(min(SHOWN_ROWS, len(values))):
        for k, name in enumerate(outputs):
            head = (str(given.numbers[i]), name)
            one = values[i, :, k]
            order = np.argsort(-np.abs(one), kind="stable")[: top or None]
            cells.append((*head, "(base value)", "", base[i, k]))
            for j in order.tolist():
                feature = found.feature_names[j]
                cells.append((*head, feature, _short(seen, i, j), one[j]))
            if len(order) < len(one):
                cells.append((*head, f"({len(one) - len(order)} other features)", "", one.sum() - one[order].sum()))
            cells.append((*head, "(prediction)", "", base[i, k] + one.sum()))
    row, out, feature, value, contribution = zip(*cells, strict=True)
    table = [screen.Column("row", row, "text")]
    table += [screen.Column("output", out, "text")] if values.shape[2] > 1 else []
    table += [
        screen.Column("feature", feature, "text"),
        screen.Column("value", value, "text"),
        screen.Column("contribution", contribution),
    ]
    screen.show_table(
        table,
        title=f"{found.method} of {what}",
        caption="Contributions add up to the raw prediction (for classifiers: log-odds). Rows are counted from 0.",
        faint=[name.startswith("(") for name in feature],
    )
    if len(values) > SHOWN_ROWS:
        screen.note(f"Note: the first {SHOWN_ROWS} of {len(values):,} rows; -o attributions.csv writes all of them.")


def _short(X: Any, row: int, column: int) -> str:
    """Cell of the data; "" if features are not its columns (groups)."""
    value = None if X is None else X.column(column)[row].as_py()
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _outputs(found: Attribution) -> tuple[str, ...]:
    n = found.values.shape[2] if found.values.ndim == 3 else 1
    return found.output_names or tuple(str(k) for k in range(n))


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
