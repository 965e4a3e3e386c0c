"""`treeinner attribute`: where each prediction comes from."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from treeinner.attribution import METHODS, Attribution, attribute
from treeinner.attribution_file import columns_of, write_attributions
from treeinner.cli import data, options, output, screen
from treeinner.cli.errors import input_errors

SHOWN_ROWS = 5  # of a table to read
SHOWN_FEATURES = 5

TOP_HELP = f"Features to show for each row, largest first, default {SHOWN_FEATURES}; 0 for all. Files have all of them."

Shown = Annotated[int, options.about_output("--top", help=TOP_HELP, min=0)]
NOT_FEATURE_HELP = "Column that is not a feature, for models without names."
NotFeatures = Annotated[list[str] | None, options.about_rows("--target", "-y", help=NOT_FEATURE_HELP)]


KEEP_HELP = "Column to write along with the attributions, such as a key; repeat it for more. For Parquet files."
Keep = Annotated[list[str] | None, options.about_output("--keep", help=KEEP_HELP, metavar="COLUMN")]
Float32 = Annotated[bool, typer.Option("--float32", help="Write numbers of 4 bytes. For Parquet files.",
                                       rich_help_panel=options.ABOUT_OUTPUT, show_default=False)]  # fmt: skip


@options.command
def attribute_command(
    model: options.ModelPath,
    data_paths: options.DataPaths,
    sample: options.Sample,
    reading: options.Reading,
    out: options.Output,
    target: NotFeatures = None,
    method: options.SomeMethod = METHODS[0],
    feature_groups: options.FeatureGroups = None,
    top: Shown = SHOWN_FEATURES,
    keep: Keep = None,
    float32: Float32 = False,
    jobs: options.Jobs = -1,
) -> None:
    """Split the prediction of every row over its features.

    Without -o the first rows are shown; with it, a file gets a row for each row of DATA and a column for each feature.
    Base value and contributions add up to the raw prediction.
    """
    to = output.destination(out.file, out.format, [model, *data_paths])
    groups = options.parse_groups(feature_groups)
    columns = options.Columns(target=target)
    sample.check(columns)
    opened = data.open_model_file(model, reading)
    if to is not None and to.path is not None and to.format is output.Format.parquet and sample.rows is None:
        stream = data.open_rows(data_paths, opened, columns, keep or ())
        with screen.progress("Attributing") as progress, input_errors():
            how: dict[str, Any] = {"method": method, "feature_groups": groups, "n_jobs": jobs}
            dtype = "float32" if float32 else "float64"
            write_attributions(stream, to.path, row_numbers=True, dtype=dtype, progress=progress, **how)
        return
    if keep or float32:
        raise typer.BadParameter(
            "is for Parquet files without --rows: -o FILE.parquet.", param_hint="--keep, --float32"
        )
    rows = data.read_rows(data_paths, opened, columns, sample)
    with screen.progress("Attributing") as progress, input_errors():
        found = attribute(opened, rows.X, method=method, feature_groups=groups, n_jobs=jobs, progress=progress)
    if to is None:
        _show(found, rows, top, f"{model.name}, {rows.name}")
    else:
        output.write(columns_of(found, np.float64, {}, rows.numbers), to)


def _show(found: Attribution, rows: data.Rows, top: int, what: str) -> None:
    """Long: the largest contributions of the first few rows."""
    outputs = found.output_labels
    values, base = found.by_output
    X = rows.X if found.data is not None and rows.X.num_columns == values.shape[1] else None
    cells: list[tuple[Any, ...]] = []
    for i in range(min(SHOWN_ROWS, len(values))):
        for k, name in enumerate(outputs):
            head = (str(rows.numbers[i]), name)
            one = values[i, :, k]
            order = np.argsort(-np.abs(one), kind="stable")[: top or None]
            cells.append((*head, "(base value)", "", base[i, k]))
            cells += [(*head, found.feature_names[j], _short(X, i, j), one[j]) for j in order.tolist()]
            if len(order) < len(one):
                cells.append((*head, f"({len(one) - len(order)} other features)", "", one.sum() - one[order].sum()))
            cells.append((*head, "(prediction)", "", base[i, k] + one.sum()))
    row, out, feature, value, contribution = zip(*cells, strict=True)
    texts = {"row": row, "output": out, "feature": feature, "value": value}
    table = [
        screen.Column(name, cells, "text") for name, cells in texts.items() if name != "output" or len(outputs) > 1
    ]
    table.append(screen.Column("contribution", contribution))
    screen.show_table(
        table,
        title=f"{found.method} of {what}",
        caption=f"Contributions, in {found.unit}, add up to the raw prediction. Rows are counted from 0.",
        faint=[name.startswith("(") for name in feature],
        top=top,
    )
    if len(values) > SHOWN_ROWS:
        screen.note(f"Note: the first {SHOWN_ROWS} of {len(values):,} rows; -o attributions.csv writes all of them.")


def _short(X: Any, row: int, column: int) -> str:
    """Cell of the data; "" if features are not its columns (groups)."""
    value = None if X is None else X.column(column)[row].as_py()
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
