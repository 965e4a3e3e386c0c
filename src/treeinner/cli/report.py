"""`treeinner report`: one HTML page to share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from treeinner.cli import data, options, output, screen
from treeinner.cli.errors import input_errors
from treeinner.scores.setting import SCORE_METHODS

SCORES = ("tree_inner", "loss")
SCORE_HELP = f"What to rank by: {', '.join(SCORES)}; default {SCORES[0]}."
TRAIN_HELP = "Rows that the model was trained on, to show what was overfitting."
EXPLORER_HELP = "Rows to look at one by one in the page, a random sample; default 2000. Scores use all rows."

Page = Annotated[Path, options.about_output("--output", "-o", help="Page to write: page.html.", metavar="FILE")]
Train = Annotated[Path | None, options.about_rows("--train", help=TRAIN_HELP, metavar="DATA")]
Title = Annotated[str | None, options.about_output("--title", help="Title of the page.", metavar="TEXT")]
CHECK_SCORE = options.one_of(SCORES)
Score = Annotated[str, options.about_model("--score", help=SCORE_HELP, metavar="NAME", callback=CHECK_SCORE)]
ExplorerRows = Annotated[int, options.about_rows("--explorer-rows", help=EXPLORER_HELP, min=0, metavar="N")]


@options.command
def report_command(
    model: options.ModelPath,
    data_paths: options.DataPaths,
    page: Page,
    columns: options.Columns,
    reading: options.Reading,
    train: Train = None,
    title: Title = None,
    score: Score = "tree_inner",
    method: options.ScoreMethod = None,
    explorer_rows: ExplorerRows = 2000,
    seed: options.Seed = None,
    feature_groups: options.FeatureGroups = None,
    jobs: options.Jobs = -1,
) -> None:
    """Write one HTML page to share.

    It has the ranking, training against held-out rows, curves by round and a row explorer, in one file without network.
    """
    output.check_page(page, [model, *data_paths, *([] if train is None else [train])], "-o")
    groups = options.parse_groups(feature_groups)
    columns.require_target()
    opened = data.open_model_file(model, reading)
    rows = data.read_rows(data_paths, opened, columns, check_target=True)
    extra: dict[str, Any] = dict(rows.extra)
    if train is not None:
        other = data.read_rows([train], opened, columns, check_target=True)
        extra |= {"X_train": other.X, "y_train": other.y}
        extra |= {f"{name}_train": value for name, value in other.extra.items() if name != "clusters"}
    from treeinner.page import report

    with screen.progress("Writing the page"), input_errors():
        written = report(
            opened, rows.X, rows.y,
            path=page, title=title, score=score, method=method or SCORE_METHODS[0],
            explorer_rows=explorer_rows, random_state=seed or 0, feature_groups=groups, n_jobs=jobs, **extra,
        )  # fmt: skip
    screen.note(f"Wrote {written}; open it in a browser.")
