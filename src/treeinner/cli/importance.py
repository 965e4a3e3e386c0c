"""`treeinner importance`: which features carry signal."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import typer

from treeinner.attribution import METHODS
from treeinner.cli import data, options, output, screen
from treeinner.cli.errors import input_errors
from treeinner.errors import TreeInnerError, counted
from treeinner.groups import GroupSpec
from treeinner.model import Model
from treeinner.scores import Importance, importance, permutation_importance, total_gain
from treeinner.scores.compare import are_training_rows
from treeinner.scores.result import Q_LIMIT, VERDICTS
from treeinner.scores.setting import SCORES

ALL_SCORES = (*SCORES, "total_gain", "permutation")
SHOWN = 30  # rows of a table on a terminal

MEANING = {
    "tree_inner": "to first order, by the splits on the feature; below 0 they made predictions worse",
    "forest_inner": "summed over the trees first",
    "abs": "mean size of the attributions; it does not tell signal from noise",
    "total_gain": "as the model stores it; it does not tell signal from noise",
    "permutation": "when the column is shuffled",
}
GREY = f"Grey: {VERDICTS[1]} (q value of {Q_LIMIT} or more)."
TRAINING = ("--learning-rate", "--reg-lambda", "--reg-alpha")
WITHOUT_MEANING = {
    "abs": {"--qid", "--objective"},
    "permutation": {"--qid", "--method", *TRAINING},
    "total_gain": {
        "DATA", "--target", "--weight", "--clusters", "--qid", "--rows", "--seed", "--method", "--objective", *TRAINING,
    },
}  # fmt: skip

SCORE_HELP = f"What to score by: {', '.join(ALL_SCORES)}; default {ALL_SCORES[0]}."
CHECK_SCORE = options.one_of(ALL_SCORES)
Score = Annotated[str, options.about_model("--score", help=SCORE_HELP, metavar="NAME", callback=CHECK_SCORE)]


@options.command
def importance_command(
    model: options.ModelPath,
    columns: options.Columns,
    sample: options.Sample,
    reading: options.Reading,
    out: options.Output,
    data_paths: options.MaybeDataPaths = None,
    score: Score = ALL_SCORES[0],
    method: options.Method = None,
    feature_groups: options.FeatureGroups = None,
    top: options.Top = None,
    jobs: options.Jobs = -1,
) -> None:
    """Rank the features by what they do for predictions of new rows.

    DATA must be rows that played no part in training, early stopping or tuning: on training rows noise looks like
    signal.
    """
    to = output.destination(out.file, out.format)
    groups = options.parse_groups(feature_groups)
    typed = options.given(columns, sample, reading)
    typed |= {name for name, value in (("DATA", data_paths), ("--method", method)) if value}
    _check_usage(score, columns, sample, typed)
    opened = data.open_model_file(model, reading)
    if not data_paths:
        with input_errors():
            scores = total_gain(opened, feature_groups=groups)
        _deliver(scores, to, top, model.name)
        return
    rows = data.read_rows(options.single(data_paths), opened, columns, sample, check_target=score != "abs")
    with screen.progress("Scoring") as progress, input_errors():
        more: dict[str, Any] = {"feature_groups": groups, "n_jobs": jobs, "progress": progress, **rows.extra}
        if score == "permutation":
            scores = permutation_importance(opened, rows.X, rows.y, random_state=sample.seed or 0, **more)
        else:
            y = None if score == "abs" else rows.y
            scores = importance(opened, rows.X, y, score=score, method=method or METHODS[0], **more)
    if score == "tree_inner" and method in (None, "predecomp"):
        _warn_of_training_rows(opened, scores, groups, rows.path.name)
    _deliver(scores, to, top, f"{model.name} on {counted(scores.n_rows, 'row')} of {rows.path.name}")


def _check_usage(score: str, columns: options.Columns, sample: options.Sample, typed: set[str]) -> None:
    for name in sorted(WITHOUT_MEANING.get(score, set()) & typed):
        raise typer.BadParameter(f"has no meaning for --score {score}; leave it out.", param_hint=name)
    if score == "total_gain":
        return
    if "DATA" not in typed:
        raise typer.BadParameter("the rows to score are missing: treeinner importance MODEL DATA.", param_hint="DATA")
    if score != "abs":
        columns.require_target()
    sample.check(columns, shuffles=score == "permutation")


def _warn_of_training_rows(model: Model, scores: Importance, groups: GroupSpec | None, name: str) -> None:
    """Tell a user who scores the training rows: on them TreeInner is the total gain that the model stores."""
    with suppress(TreeInnerError, ValueError):  # a model without stored gains, or groups by the names of the file
        if are_training_rows(scores, total_gain(model, feature_groups=groups).scores):
            screen.note(
                f"Warning: {name} has the rows that the model was trained on (TreeInner on them equals the total gain "
                "that the model stores); score rows that it has not seen, or noise will look like signal."
            )


def _deliver(scores: Importance, to: output.Destination | None, top: int | None, what: str) -> None:
    for note in scores.notes:
        screen.note(f"Note: {note}")
    columns = output.as_columns(scores.to_frame(), top)
    if to is not None:
        output.write(columns, to)
        return
    verdicts = columns["verdict"]
    table = [screen.Column("feature", columns["feature"], "text"), screen.Column("score", columns["score"])]
    if scores.has_std_errors:
        table += [
            screen.Column("std error", columns["std_error"], spare=2),
            screen.Column(f"{100 * scores.confidence:g}% from", columns["ci_low"]),
            screen.Column("to", columns["ci_high"]),
        ]
    if any(verdicts):
        table += [
            screen.Column("p value", columns["p_value"], "probability", spare=3),
            screen.Column("q value", columns["q_value"], "probability"),
            screen.Column("verdict", verdicts, "text", spare=1),
        ]
    caption = f"score: {scores.unit}, {MEANING[scores.score_name]}."
    screen.show_table(
        table,
        title=f"{scores.title} of {what}",
        caption=f"{caption} {GREY}" if any(verdicts) else caption,
        faint=[verdict == VERDICTS[1] for verdict in verdicts],
        top=SHOWN if top is None else None,
    )
