"""`treeinner importance`: which features carry signal."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import typer

from treeinner.cli import data, options, output, screen
from treeinner.cli.errors import input_errors, remembered_warnings, show_notes
from treeinner.errors import counted
from treeinner.scores import Importance, importance, permutation_importance, total_gain
from treeinner.scores.display import sums
from treeinner.scores.result import Q_LIMIT, VERDICTS
from treeinner.scores.setting import SCORES
from treeinner.scores.training_rows import find_training_rows

ALL_SCORES = (*SCORES, "total_gain", "permutation")
HEAD = 16 * 2**20  # bytes of the first rows, which are checked before all of them are read

MEANING = {
    "tree_inner": "by the splits on the feature; below 0 they made predictions worse",
    "loss": "by the splits on the feature; with the base, the scores add up to the fall of the loss",
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
    method: options.ScoreMethod = None,
    feature_groups: options.FeatureGroups = None,
    top: options.Top = None,
    jobs: options.Jobs = -1,
) -> None:
    """Rank the features by what they do for predictions of new rows.

    DATA must be rows that played no part in training, early stopping or tuning: on training rows noise looks like
    signal.
    """
    to = output.destination(out.file, out.format, [model, *(data_paths or ())])
    groups = options.parse_groups(feature_groups)
    typed = options.given(columns, sample, reading)
    typed |= {name for name, value in (("DATA", data_paths), ("--method", method)) if value}
    _check_usage(score, columns, sample, typed)
    opened = data.open_model_file(model, reading)
    if not data_paths:
        with input_errors():
            scores = total_gain(opened, feature_groups=groups)
        show_notes(scores.notes, [])
        _deliver(scores, to, top, model.name)
        return
    stream = data.open_rows(data_paths, opened, columns)
    together = score == "permutation" or sample.rows is not None or (score == "abs" and bool(columns.target))
    rows = data.rows_of(
        data_paths, stream, sample, check_target=score != "abs", most_bytes=np.inf if together else HEAD
    )
    # All rows in memory, or the names of files and columns, whose rows are read piece by piece.
    X, y, extra = rows.X, rows.y, rows.extra
    if not together:
        X = [str(path) for path in data_paths]
        y, extra = (given := columns.arguments()).pop("y"), given
    with screen.progress("Scoring") as progress, input_errors(), remembered_warnings() as said:
        more: dict[str, Any] = {"feature_groups": groups, "n_jobs": jobs, "progress": progress, **extra}
        if score == "permutation":
            scores = permutation_importance(opened, X, y, random_state=sample.seed or 0, **more)
        else:
            scores = importance(opened, X, None if score == "abs" else y, score=score, method=method, **more)
    what = f"{model.name} on {counted(scores.n_rows, 'row')} of {rows.name}"
    if score != "abs":
        search = find_training_rows(opened, {"X": rows.X, "y": rows.y, **rows.extra}, n_jobs=jobs)
        if search.found is not None:
            what = f"{model.name} on {rows.name}: {search.found.rows}"
            if len(rows.numbers) < scores.n_rows:
                what = f"{model.name} on {counted(scores.n_rows, 'row')} of {rows.name}, training rows among them"
            if not any(search.found.note in line for line in said):
                screen.note(f"Warning: {rows.name}: {search.found.note}")
    show_notes(scores.notes, said)
    _say_losses(scores)
    _deliver(scores, to, top, what)


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


def _say_losses(scores: Importance) -> None:
    """What became of the loss itself, and how far first-order scores can be trusted."""
    losses = scores.losses
    if losses is None:
        return
    before, after = (f"{number:.4g}" for number in (losses.before, losses.after))
    screen.note(f"Loss per row: {before} before the first tree, {after} after the last.")
    if scores.score_name == "tree_inner" and math.isfinite(scores.overshoot):
        screen.note(
            f"Overshoot: {scores.overshoot:.2f}. The loss fell by {1 - scores.overshoot:.0%} of what its slope "
            "promised at the start of each round; above 0.30, first-order scores flatter."
        )


def _deliver(scores: Importance, to: output.Destination | None, top: int | None, what: str) -> None:
    columns = output.as_columns(scores.to_frame(), top)
    if to is not None:
        output.write(columns, to)
        return
    below = sums(scores)
    table = [
        screen.Column("feature", [*columns["feature"], *below], "text"),
        screen.Column("score", [*columns["score"], *below.values()]),
    ]

    def column(title: str, name: str, kind: str = "number", spare: int = 0) -> screen.Column:
        blank = "" if kind == "text" else np.nan
        return screen.Column(title, [*columns[name], *(blank for _ in below)], kind, spare)

    if scores.has_std_errors:
        table += [
            column("std error", "std_error", spare=2),
            column(f"{100 * scores.confidence:g}% from", "ci_low"),
            column("to", "ci_high"),
        ]
    if any(columns["verdict"]):
        table += [
            column("p value", "p_value", "probability", spare=3),
            column("q value", "q_value", "probability"),
            column("verdict", "verdict", "text", spare=1),
        ]
    caption = f"score: {scores.unit}, {MEANING[scores.score_name]}."
    screen.show_table(
        table,
        title=f"{scores.title} of {what}",
        caption=f"{caption} {GREY}" if any(columns["verdict"]) else caption,
        faint=[verdict == VERDICTS[1] for verdict in columns["verdict"]] + [False] * len(below),
        top=top,
        sums=len(below),
    )
