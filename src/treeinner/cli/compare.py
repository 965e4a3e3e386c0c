"""`treeinner compare`: training rows against held-out rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from treeinner.cli import data, models, options, output, screen
from treeinner.cli.errors import guarded, refusing
from treeinner.cli.importance import NOISE, SHOWN
from treeinner.scores import Comparison, compare

__all__ = ["compare_command"]

CAPTION = (
    "TreeInner per row: what the feature's splits took off the loss. gap: training minus held-out, the part that was "
    "overfitting. Ranks: 1 is the most important feature by that score. Grey: not better than noise on held-out rows "
    f"(q value of {NOISE} or more)."
)


Train = Annotated[
    Path,
    options.option("--train", help="Rows that the model was trained on.", panel=options.ABOUT_ROWS, metavar="DATA"),
]
Valid = Annotated[
    Path, options.option("--valid", help="Rows that it has not seen.", panel=options.ABOUT_ROWS, metavar="DATA")
]
Target = Annotated[
    list[str], options.option("--target", "-y", help=options.TARGET_HELP, panel=options.ABOUT_ROWS, metavar="COLUMN")
]


@guarded
def compare_command(
    model: options.Model,
    train: Train,
    valid: Valid,
    target: Target,
    weight: options.Weight = None,
    clusters: options.Clusters = None,
    query: options.Query = None,
    rows: options.SampleRows = None,
    seed: options.Seed = 0,
    groups: options.Groups = None,
    objective: options.Objective = "auto",
    learning_rate: options.LearningRate = None,
    reg_lambda: options.RegLambda = None,
    reg_alpha: options.RegAlpha = None,
    iteration_range: options.IterationRange = None,
    output_file: options.Output = None,
    format: options.FormatOption = None,
    top: options.Top = None,
    jobs: options.Jobs = -1,
) -> None:
    """Put every score on training and held-out rows side by side."""
    to = output.destination(output_file, format)
    grouped = options.parse_groups(groups)
    rounds = options.parse_rounds(iteration_range)
    roles = data.Roles(tuple(target), weight, clusters, query)
    if rows is not None and query is not None:
        raise typer.BadParameter("a sample of rows would tear queries apart; leave it out.", param_hint="--rows")
    opened = models.read(
        model, learning_rate=learning_rate, reg_lambda=reg_lambda, reg_alpha=reg_alpha, iteration_range=rounds
    )
    sides = [data.read_rows(path, opened, roles, n_rows=rows, seed=seed) for path in (train, valid)]
    for side in sides:
        data.check_target(side, opened, roles, objective)
    a, b = sides
    with screen.progress("Comparing"), refusing(ValueError, TypeError):
        found = compare(
            opened.model, a.X, a.y, b.X, b.y,
            sample_weight_train=a.weight, sample_weight_valid=b.weight,
            clusters_train=a.clusters, clusters_valid=b.clusters,
            group_train=a.query, group_valid=b.query,
            groups=grouped, objective=objective, n_jobs=jobs,
        )  # fmt: skip
    for name, why in found.left_out.items():
        screen.note(f"Note: {name} left out: {why}")
    _deliver(found, to, top, f"{opened.path.name}: {a.path.name} against {b.path.name}")


def _deliver(found: Comparison, to: output.Destination | None, top: int | None, what: str) -> None:
    keep = slice(None) if not top else slice(top)
    columns = {name: cells[keep] for name, cells in output.as_columns(found.to_frame()).items()}
    if to is not None:
        output.write(columns, to)
        return
    table = [
        screen.Column("feature", columns["feature"], "text"),
        screen.Column("train", columns["tree_inner_train"], spare=1),
        screen.Column("held-out", columns["tree_inner_valid"]),
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
        title=f"TreeInner per row of {what}",
        caption=CAPTION,
        faint=[bool(q >= NOISE) for q in columns["valid_q_value"]],
        top=SHOWN if top is None and sys.stdout.isatty() else None,
    )
