"""`treeinner compare`: training rows against held-out rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from treeinner.cli import data, options, output, screen
from treeinner.cli.errors import input_errors, remembered_warnings, show_notes
from treeinner.cli.importance import GREY
from treeinner.scores import Comparison, compare
from treeinner.scores.result import VERDICTS
from treeinner.scores.setting import SCORE_METHODS

CAPTION = (
    "train, {rows}: {unit}. gap: training minus {rows}, the part that was overfitting. Ranks: 1 is the most "
    f"important feature by that score. {GREY}"
)

Train = Annotated[Path, options.about_rows("--train", help="Rows that the model was trained on.", metavar="DATA")]
Valid = Annotated[Path, options.about_rows("--valid", help="Rows that it has not seen.", metavar="DATA")]


@options.command
def compare_command(
    model: options.ModelPath,
    train: Train,
    valid: Valid,
    columns: options.Columns,
    sample: options.Sample,
    reading: options.Reading,
    out: options.Output,
    method: options.ScoreMethod = None,
    feature_groups: options.FeatureGroups = None,
    top: options.Top = None,
    jobs: options.Jobs = -1,
) -> None:
    """Put every score on training and held-out rows side by side.

    What a feature gains on training rows and not on held-out rows is overfitting: the gap.
    """
    to = output.destination(out.file, out.format, [model, train, valid])
    groups = options.parse_groups(feature_groups)
    columns.require_target()
    sample.check(columns)
    opened = data.open_model_file(model, reading)
    a, b = (data.read_rows([path], opened, columns, sample, check_target=True) for path in (train, valid))
    with screen.progress("Comparing"), input_errors(), remembered_warnings() as said:
        extra: dict[str, Any] = {f"{name}_train": array for name, array in a.extra.items()}
        extra |= {f"{name}_valid": array for name, array in b.extra.items()}
        how: dict[str, Any] = {"method": method or SCORE_METHODS[0], "feature_groups": groups, "n_jobs": jobs}
        found = compare(opened, a.X, a.y, b.X, b.y, **how, **extra)
    show_notes(found.notes, said)
    for name, why in found.skipped.items():
        screen.note(f"Note: {name} skipped: {why}")
    rows = "" if found.training_rows is None else f" ({found.training_rows.rows})"
    _deliver(found, to, top, f"{model.name}: {a.name} against {b.name}{rows}")


def _deliver(found: Comparison, to: output.Destination | None, top: int | None, what: str) -> None:
    columns = output.as_columns(found.to_frame(), top)
    if to is not None:
        output.write(columns, to)
        return
    valid = found.valid["tree_inner"]
    rows = "held-out" if found.training_rows is None else "scored"
    verdicts = [valid[name].verdict for name in columns["feature"].tolist()]
    table = [
        screen.Column("feature", columns["feature"], "text"),
        screen.Column("train", columns["tree_inner_train"], spare=1),
        screen.Column(rows, columns["tree_inner_valid"]),
        screen.Column("std error", columns["valid_std_error"], spare=2),
        screen.Column("gap", columns["gap"]),
        screen.Column("q value", columns["valid_q_value"], "probability"),
        screen.Column("rank", columns["tree_inner_valid_rank"], "count"),
    ]
    for title, name in (("by gain", "total_gain_rank"), ("by |SHAP|", "abs_treeshap_valid_rank")):
        if name in columns:
            table.append(screen.Column(title, columns[name], "count"))
    screen.show_table(
        table,
        title=f"{valid.title} of {what}",
        caption=CAPTION.format(unit=valid.unit, rows=rows),
        faint=[verdict == VERDICTS[1] for verdict in verdicts],
        top=top,
    )
