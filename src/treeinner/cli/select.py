"""`treeinner select`: which columns to keep."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from treeinner.cli import data, options, output, screen
from treeinner.cli.errors import input_errors, remembered_warnings, show_notes
from treeinner.ensemble.storage import atomic
from treeinner.errors import TreeInnerError, counted
from treeinner.readers._open import kind_of_file
from treeinner.scores import Importance, importance
from treeinner.selection.cuts import TESTS, check_cuts, keep
from treeinner.tables.files import looks_like_data

TASKS = ("classes", "numbers")
PATHS_HELP = (
    "A data file, on which models are fitted; or a model file, and a data file with rows that the model has not seen."
)
Q_HELP = "Share of the kept columns that may be kept wrongly, on average; default 0.1."
TEST_HELP = (
    "conditional: does the column tell more than the others do? marginal: does it tell anything, proxies included? "
    "Default conditional."
)
TASK_HELP = f"What the target holds: {' or '.join(TASKS)}; default: text and few integers are classes."
TOGETHER_HELP = (
    "Columns to test as one, such as s1,s2,s3, in place of those with a rank correlation of 0.95. Repeat it for others."
)
KEPT_HELP = "File for the list of kept columns: .json, else one per line; - is stdout, in place of the table."
JOBS_HELP = "Fits at a time, or threads with a model file; default: all cores, and one for small files."
MANY_CELLS = 1_000_000  # from which on processes of their own are worth their start, of several seconds
MODEL_ALONE = (
    "With a model file nothing is fitted, so that this is the marginal test of this model: a proxy passes too."
)
MEANINGS = {
    "conditional": "beyond: the score less its mean when the column is drawn anew, given the others; p and q value: "
    "whether that is above 0.",
    "marginal": "p and q value: whether the score is above 0 on new rows; a proxy of a signal passes too.",
}

Paths = Annotated[list[Path], typer.Argument(metavar="[MODEL] DATA", help=PATHS_HELP, show_default=False)]
Dropped = Annotated[
    list[str] | None, options.about_rows("--drop", help="Column to leave out, such as an id. Repeat it.")
]
Kept = Annotated[str | None, options.about_output("--kept", help=KEPT_HELP, metavar="FILE")]
Page = Annotated[Path | None, options.about_output("--page", help="Page to write: page.html.", metavar="FILE")]
Jobs = Annotated[int | None, options.about_output("--jobs", "-j", help=JOBS_HELP)]
Q = Annotated[float, options.about_model("--q", help=Q_HELP)]
Most = Annotated[int | None, options.about_model("--max-features", help="Keep at most N columns.", metavar="N", min=0)]


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """How models are fitted and tested, where there is no model file."""

    test: Annotated[
        str | None, options.about_model("--test", help=TEST_HELP, metavar="NAME", callback=options.one_of(TESTS))
    ] = None
    task: Annotated[
        str | None, options.about_model("--task", help=TASK_HELP, metavar="NAME", callback=options.one_of(TASKS))
    ] = None
    cv: Annotated[int | None, options.about_model("--cv", help="Folds; default 5.", metavar="N", min=2)] = None
    repeats: Annotated[
        int | None,
        options.about_model("--repeats", help="Times that all rows are held out; default 3.", metavar="N", min=1),
    ] = None
    together: Annotated[list[str] | None, options.about_model("--together", help=TOGETHER_HELP, metavar="COLUMNS")] = (
        None
    )

    def settings(self) -> dict[str, Any]:
        """What was typed, as the selector takes it."""
        typed = {name: getattr(self, name) for name in ("test", "cv", "repeats")}
        if self.together:
            typed["collinear"] = {text: [name.strip() for name in text.split(",")] for text in self.together}
        return {name: value for name, value in typed.items() if value is not None}


@dataclass(frozen=True, eq=False)
class Selection:
    """What is shown, wherever it comes from."""

    found: Importance
    table: Mapping[str, Any]  # by columns, in the order of the features
    rule: str
    what: str  # was scored
    meaning: str  # of p and q
    page: Any  # path -> writes the page


@options.command
def select_command(
    paths: Paths,
    columns: options.Columns,
    sample: options.Sample,
    fitting: Fitting,
    reading: options.Reading,
    out: options.Output,
    dropped: Dropped = None,
    q: Q = 0.1,
    max_features: Most = None,
    kept: Kept = None,
    page: Page = None,
    top: options.Top = None,
    jobs: Jobs = None,
) -> None:
    """Choose the columns to keep, with the share of wrong ones under control.

    Of a data file: shallow trees are fitted on folds of its rows, and every row is scored by models that have not seen
    it. With a model file: its own columns, on rows that it has not seen.
    """
    to = output.destination(out.file, out.format, paths)
    if page is not None:
        output.check_page(page, paths, "--page")
    if kept not in (None, "-"):
        output.check_path(Path(kept), paths, "--kept")
    columns.require_target()
    with input_errors():
        check_cuts(q, None, max_features)
    models, files = _model_and_data(paths)
    if models:
        _refuse(options.given(fitting) | ({"--drop"} if dropped else set()), "with a model file")
        sample.check(columns)
        selection = _of_model(models[0], files, columns, sample, reading, q, max_features, jobs)
    else:
        _refuse_model_alone(files[0])
        _refuse(options.given(reading) | ({"--qid"} if columns.qid else set()), "without a model file")
        cuts = {"q": q, "max_features": max_features}
        selection = _of_data(files, columns, sample, fitting, dropped or (), cuts, jobs)
    if page is not None:
        screen.note(f"Wrote {selection.page(page)}; open it in a browser.")
    names = selection.table["feature"][selection.table["kept"]].tolist()
    if not names:
        screen.note(f"No columns were kept {selection.rule}: the data are too noisy, or too few, or hold no signal.")
    if kept is not None:
        _write_names(names, kept)
    if kept != "-" or to is not None:
        _deliver(selection, to, top)


def _refuse(typed: set[str], where: str) -> None:
    for name in sorted(typed):
        raise typer.BadParameter(f"has no meaning {where}; leave it out.", param_hint=name)


def _model_and_data(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The model, if the first path is one, and the data."""
    model = len(paths) > 1 and paths[0].is_file() and not looks_like_data(paths[0])
    return list(paths[:1] if model else []), list(paths[1:] if model else paths)


def _refuse_model_alone(path: Path) -> None:
    if path.is_file() and not looks_like_data(path):
        with suppress(TreeInnerError):
            kind_of_file(path)
            raise typer.BadParameter(
                f"{path} is a model file, and the rows to score are missing: treeinner select MODEL DATA.",
                param_hint="DATA",
            )


def _of_data(
    paths: Sequence[Path],
    columns: options.Columns,
    sample: options.Sample,
    fitting: Fitting,
    dropped: Sequence[str],
    cuts: Mapping[str, Any],
    jobs: int | None,
) -> Selection:
    """Fit models on folds of the rows."""
    rows = data.read_training_rows(paths, columns, sample, dropped)
    from treeinner.page import report_selection
    from treeinner.selection.default import default_booster
    from treeinner.selection.selector import TreeInnerSelector

    y, booster = np.asarray(rows.y), None
    if fitting.task is not None:
        booster = default_booster(classes=fitting.task == "classes")
        y = np.unique(y, return_inverse=True)[1] if fitting.task == "classes" else y
    if jobs is None:
        jobs = -1 if rows.X.size >= MANY_CELLS else 1
    selector = TreeInnerSelector(booster, random_state=sample.seed or 0, n_jobs=jobs, **fitting.settings(), **cuts)
    given = {"sample_weight": rows.extra.get("sample_weight"), "groups": rows.extra.get("clusters")}
    with screen.progress("Fitting and testing"), input_errors(), remembered_warnings() as said:
        selector.fit(rows.X, y, **given)
    show_notes(selector.importance_.notes, said)
    for group in selector.groups_:
        screen.note(f"Note: tested as one, too alike to say which it is: {', '.join(group)}.")
    times = "" if selector.repeats == 1 else f", each held out {selector.repeats} times"
    return Selection(
        selector.importance_,
        selector.table(),
        selector.rule,
        f"{counted(len(y), 'row')} of {rows.name}{times}",
        MEANINGS[selector.test],
        lambda page: report_selection(selector, path=page),
    )


def _of_model(
    model: Path,
    paths: Sequence[Path],
    columns: options.Columns,
    sample: options.Sample,
    reading: options.Reading,
    q: float,
    most: int | None,
    jobs: int | None,
) -> Selection:
    """Take the scores of one model on held-out rows."""
    opened = data.open_model_file(model, reading)
    rows = data.read_rows(paths, opened, columns, sample, check_target=True)
    with screen.progress("Scoring") as progress, input_errors(), remembered_warnings() as said:
        more: dict[str, Any] = {"n_jobs": -1 if jobs is None else jobs, "progress": progress, **rows.extra}
        found = importance(opened, rows.X, rows.y, **more)
    show_notes(found.notes, said)
    kept = keep(found.scores, found.q_values, q=q, least=-np.inf, most=most)
    table = {
        "feature": np.array(found.feature_names), "score": found.scores, "std_error": found.std_errors,
        "ci_low": found.ci_low, "ci_high": found.ci_high, "p_value": found.p_values, "q_value": found.q_values,
        "kept": kept, "rank": found.ranks,
    }  # fmt: skip
    rule = f"by the marginal test at q = {q:g}" + ("" if most is None else f", at most {most}")
    from treeinner.page.selection import write_selection

    call = "import treeinner as ti\n\nimp = ti.importance(model, X, y)\n"
    call += f"kept = [name for name, q in zip(imp.feature_names, imp.q_values) if q <= {q:g}]\n"
    shown: dict[str, Any] = {"rule": rule, "test": "marginal", "call": call, "table_call": "imp.to_frame()"}
    return Selection(
        found, table, rule, f"{model.name} on {counted(found.n_rows, 'row')} of {rows.name}", MODEL_ALONE,
        lambda page: write_selection(page, found, table, title=None, facts=[["Model", model.name]], **shown),
    )  # fmt: skip


# -- what comes out ------------------------------------------------------------------------------------------
def _write_names(names: Sequence[str], to: str) -> None:
    text = json.dumps(names, ensure_ascii=False, indent=1) if to.lower().endswith(".json") else "\n".join(names)
    text += "\n" if text else ""
    if to == "-":
        sys.stdout.write(text)
        return
    with atomic(Path(to)) as file:
        file.write(text.encode())


def _deliver(selection: Selection, to: output.Destination | None, top: int | None) -> None:
    table, found = selection.table, selection.found
    order = np.argsort(-table["score"], kind="stable")[: top or None]
    columns = {name: values[order] for name, values in table.items()}
    if to is not None:
        output.write(columns, to)
        return
    beyond = [screen.Column("beyond", columns["beyond"], spare=1)] if "beyond" in columns else []
    kept = columns["kept"].tolist()
    n_kept, n = int(table["kept"].sum()), len(table["kept"])
    screen.show_table(
        [
            screen.Column("feature", columns["feature"], "text"),
            screen.Column("score", columns["score"]),
            screen.Column(f"{100 * found.confidence:g}% from", columns["ci_low"], spare=2),
            screen.Column("to", columns["ci_high"], spare=2),
            *beyond,
            screen.Column("p value", columns["p_value"], "probability", 3),
            screen.Column("q value", columns["q_value"], "probability"),
            screen.Column("kept", ["yes" if yes else "no" for yes in kept], "text"),
        ],
        title=f"{n_kept} of {counted(n, 'column')} kept {selection.rule}; {found.title} of {selection.what}",
        caption=f"score: {found.unit}. {selection.meaning} Grey: not kept.",
        faint=[not yes for yes in kept],
        top=top,
    )
