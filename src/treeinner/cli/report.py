"""`treeinner report`: one HTML page to share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from treeinner.cli import data, models, options, output, screen
from treeinner.cli.compare import Target
from treeinner.cli.errors import guarded, refusing

__all__ = ["report_command"]

Page = Annotated[
    Path,
    options.option(
        "--output", "-o", help="Page to write, such as page.html.", panel=options.ABOUT_OUTPUT, metavar="FILE"
    ),
]
Train = Annotated[
    Path | None,
    options.option(
        "--train",
        help="Rows that the model was trained on, to show what was overfitting.",
        panel=options.ABOUT_ROWS,
        metavar="DATA",
    ),
]
Title = Annotated[str | None, options.option("--title", help="Title of the page.", panel=options.ABOUT_OUTPUT)]
ExplorerRows = Annotated[
    int,
    options.option(
        "--rows",
        help="Rows to look at one by one in the page, a random sample; 2000 by default. Scores are of all rows.",
        panel=options.ABOUT_ROWS,
        min=1,
        metavar="N",
    ),
]


@guarded
def report_command(
    model: options.Model,
    data_file: options.Data,
    target: Target,
    page: Page,
    train: Train = None,
    title: Title = None,
    weight: options.Weight = None,
    clusters: options.Clusters = None,
    query: options.Query = None,
    rows: ExplorerRows = 2000,
    seed: options.Seed = 0,
    groups: options.Groups = None,
    objective: options.Objective = "auto",
    learning_rate: options.LearningRate = None,
    reg_lambda: options.RegLambda = None,
    reg_alpha: options.RegAlpha = None,
    iteration_range: options.IterationRange = None,
    jobs: options.Jobs = -1,
) -> None:
    """Write one HTML page with the ranking, the curves and a row explorer."""
    if page.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(f"{page} is no page; its name must end in .html.", param_hint="-o")
    output.check_folder(page)
    grouped = options.parse_groups(groups)
    roles = data.Roles(tuple(target), weight, clusters, query)
    opened = models.read(
        model,
        learning_rate=learning_rate,
        reg_lambda=reg_lambda,
        reg_alpha=reg_alpha,
        iteration_range=options.parse_rounds(iteration_range),
    )
    given = data.read_rows(data_file, opened, roles)
    data.check_target(given, opened, roles, objective)
    more: dict[str, Any] = {"groups": grouped, "clusters": given.clusters, "group": given.query}
    if train is not None:
        seen = data.read_rows(train, opened, roles)
        data.check_target(seen, opened, roles, objective)
        more |= {"X_train": seen.X, "y_train": seen.y, "sample_weight_train": seen.weight, "group_train": seen.query}
    from treeinner.page import report

    with screen.progress("Writing the page"), refusing(ValueError, TypeError):
        written = report(
            opened.path, given.X, given.y,
            path=page, title=title, sample_weight=given.weight, rows=rows, seed=seed,
            objective=objective, n_jobs=jobs, **opened.said, **{k: v for k, v in more.items() if v is not None},
        )  # fmt: skip
    screen.note(f"Wrote {written}; open it in a browser.")
