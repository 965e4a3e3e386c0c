"""`treeinner importance`: which features carry signal."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from treeinner.cli import data, models, options, output, screen
from treeinner.cli.errors import guarded, refusing
from treeinner.cli.options import Method, Score
from treeinner.errors import TreeInnerError
from treeinner.model import Model
from treeinner.scores import Importance, importance
from treeinner.scores.compare import are_training_rows

__all__ = ["importance_command"]

NOISE = 0.05  # q values above it are shown in grey
SHOWN = 30  # rows of a table on a terminal

TITLES = {
    "tree_inner": "TreeInner",
    "forest_inner": "ForestInner",
    "abs": "Sum of |attribution|",
    "total_gain": "Total gain",
    "permutation": "Permutation",
}
MEANING = {
    "tree_inner": (
        "score: what the feature's splits took off the loss of these rows, in sum; below 0 they made it worse. "
        "Grey: not better than noise (q value of {noise} or more)."
    ),
    "forest_inner": "score: attribution times residual, summed over the rows; grey: q value of {noise} or more.",
    "abs": "score: size of the attributions, summed over the rows; it does not tell signal from noise.",
    "total_gain": "score: what the splits took off the training loss; it does not tell signal from noise.",
    "permutation": "score: rise of the loss, in sum, when the column is shuffled; grey: q value of {noise} or more.",
}

SCORE_HELP = f"What to score by: {', '.join(Score)}; by default tree_inner."
ScoreOption = Annotated[
    Score,
    typer.Option("--score", help=SCORE_HELP, rich_help_panel=options.ABOUT_MODEL, metavar="NAME", show_default=False),
]


@guarded
def importance_command(
    model: options.Model,
    data_file: options.MaybeData = None,
    target: options.Target = None,
    weight: options.Weight = None,
    clusters: options.Clusters = None,
    query: options.Query = None,
    rows: options.SampleRows = None,
    seed: options.Seed = 0,
    score: ScoreOption = Score.tree_inner,
    method: options.MethodOption = Method.predecomp,
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
    """Rank the features by what they do for predictions of new rows."""
    to = output.destination(output_file, format)
    grouped = options.parse_groups(groups)
    rounds = options.parse_rounds(iteration_range)
    roles = data.Roles(tuple(target or ()), weight, clusters, query)
    _check_usage(score, data_given=data_file is not None, roles=roles, rows=rows)
    opened = models.read(
        model, learning_rate=learning_rate, reg_lambda=reg_lambda, reg_alpha=reg_alpha, iteration_range=rounds
    )
    if data_file is None:
        with refusing(ValueError, TypeError):
            scores = importance(opened.model, score="total_gain", groups=grouped)
        _deliver(scores, to, top, f"{opened.path.name}, as stored")
        return
    given = data.read_rows(data_file, opened, roles, n_rows=rows, seed=seed)
    if score is not Score.abs:
        data.check_target(given, opened, roles, objective)
    with screen.progress("Scoring") as progress, refusing(ValueError, TypeError):
        scores = importance(
            opened.model,
            given.X,
            given.y if score is not Score.abs else None,
            score=str(score),
            method=str(method),
            objective=objective,
            sample_weight=given.weight,
            clusters=given.clusters,
            group=given.query,
            groups=grouped,
            random_state=seed,
            n_jobs=jobs,
            progress=progress,
        )
    if score is Score.tree_inner and method is Method.predecomp:
        _note_training_rows(opened.model, scores, grouped, given.path.name)
    _deliver(scores, to, top, f"{opened.path.name} on {scores.n_rows:,} rows of {given.path.name}")


def _check_usage(score: Score, *, data_given: bool, roles: data.Roles, rows: int | None) -> None:
    if not data_given and score is not Score.total_gain:
        raise typer.BadParameter("the rows to score are missing: treeinner importance MODEL DATA.", param_hint="DATA")
    if not data_given and roles.named():
        raise typer.BadParameter(f"{roles.named()[0][0]} names a column of DATA, which is missing.", param_hint="DATA")
    if data_given and not roles.target and score is not Score.abs:
        raise typer.BadParameter("name the column of DATA that holds the true values.", param_hint="--target")
    if rows is not None and roles.query is not None:
        raise typer.BadParameter("a sample of rows would tear queries apart; leave it out.", param_hint="--rows")


def _note_training_rows(model: Model, scores: Importance, groups: Any, name: str) -> None:
    """Tell the user whose rows are the training rows: on them TreeInner is the total gain that the model stores."""
    try:
        gain = importance(model, score="total_gain", groups=groups).scores
    except TreeInnerError:
        return  # a model without stored gains
    if are_training_rows(scores, gain):
        screen.note(
            f"Warning: {name} holds the rows that the model was trained on (TreeInner on them equals the total gain "
            "that the model stores); score rows that it has not seen, or noise will look like signal."
        )


def _deliver(scores: Importance, to: output.Destination | None, top: int | None, what: str) -> None:
    keep = slice(None) if not top else slice(top)
    if to is not None:
        output.write({name: cells[keep] for name, cells in output.as_columns(scores.to_frame()).items()}, to)
        return
    order = scores.order[keep]
    table = [
        screen.Column("feature", [scores.feature_names[k] for k in order], "text"),
        screen.Column("score", scores.scores[order]),
    ]
    if scores.has_std_errors:
        percent = f"{100 * scores.statistics.confidence:g}%"
        table += [
            screen.Column("std error", scores.std_errors[order], spare=1),
            screen.Column(f"{percent} from", scores.ci_low[order]),
            screen.Column("to", scores.ci_high[order]),
        ]
    if scores.tested and scores.has_std_errors:
        table += [
            screen.Column("p value", scores.p_values[order], "probability", spare=2),
            screen.Column("q value", scores.q_values[order], "probability"),
        ]
    tested = scores.tested and scores.has_std_errors
    name = TITLES[scores.score]
    if scores.score not in ("permutation", "total_gain"):
        name += f" ({scores.method})"
    screen.show_table(
        table,
        title=f"{name} of {what}",
        caption=MEANING[scores.score].format(noise=NOISE),
        faint=[bool(q >= NOISE) for q in scores.q_values[order]] if tested else None,
        top=SHOWN if top is None and sys.stdout.isatty() else None,
    )
