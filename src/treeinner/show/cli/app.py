"""The commands. Only `main` imports this module: it needs typer."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from importlib.metadata import version
from inspect import Parameter, Signature
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, cast

import numpy as np
import typer

from treeinner.errors import Note, TreeInnerError, short
from treeinner.explain.attribute import Attribution
from treeinner.explain.attribute import attribute as attribute_rows
from treeinner.rows import load_table
from treeinner.rows.frames import collected
from treeinner.score.compare import compare as compare_rows
from treeinner.score.importance import importance as score_rows
from treeinner.show.cli import files
from treeinner.show.page import report as write_report
from treeinner.show.table import SHOWN, importance_text, of_comparison, of_selector, text_table

__all__ = ["run"]

NEEDED = Parameter.empty  # for a default
ERROR = 2  # exit status; 1: select keeps nothing
SHOWN_ROWS = 5
HELP = """Which features of a tree model carry signal, measured on rows that it has not seen.

\b
  treeinner importance model.json valid.parquet --target price

The model file is what XGBoost, LightGBM or CatBoost saved; data files are Parquet, CSV or Feather.
"""
READ_HELP = (
    "What the model does not store, as for read_model: learning_rate=0.1, reg_lambda=1, reg_alpha=0, "
    "objective=reg:squarederror, iteration_range=0:50. Repeat it for more."
)


def argument(kind: Any, name: str, text: str) -> tuple[Any, Any]:
    """What a command takes in its place."""
    return Annotated[kind, typer.Argument(metavar=name, help=text)], NEEDED


def option(kind: Any, text: str, value: Any = None, *names: str, **more: Any) -> tuple[Any, Any]:
    """What a command takes by name, and its default."""
    return Annotated[kind, typer.Option(*names, help=text, **more)], value


TEXT, TEXTS, FILE = str | None, list[str] | None, Path | None
SHARED = {  # options of several commands
    "model": argument(Path, "MODEL", "Model file: .json, .ubj, .txt or .cbm."),
    "data": argument(list[Path], "DATA", "Rows that the model has not seen."),
    "target": option(list[str], "Column with the true values; repeat for several.", NEEDED, "-y", "--target"),
    "weight": option(TEXT, "Column with the weight of each row."),
    "clusters": option(TEXT, "Column with labels; only clusters are independent."),
    "qid": option(TEXT, "Column with the query of each row, for ranking losses."),
    "base_margin": option(TEXT, "Column with the margin before the first tree."),
    "score": option(str, "signal: is there any, does it hold? tree_inner; loss: did it pay?", "signal"),
    "method": option(str, "centred, predecomp, saabas or treeshap.", "centred"),
    "by": option(TEXTS, "Column with the segment of each row; repeat it for more."),
    "freq": option(TEXT, "Cut the dates of --by into periods: D, W, M, Q or Y."),
    "group": option(TEXTS, "Features scored as one: NAME=a,b,c; repeat it."),
    "read": option(TEXTS, READ_HELP, metavar="NAME=VALUE"),
    "top": option(int, "Features to print; 0 for all.", SHOWN, min=0),
    "json": option(bool, "Print JSON, with the notes in it.", False, "--json"),
    "output": option(FILE, "File for the table: .csv, .parquet or .json.", None, "-o", "--output"),
    "jobs": option(int, "Threads; -1 for all cores.", -1, "-j", "--jobs"),
}
GIVEN = ("target", "weight", "clusters", "qid", "base_margin", "by", "freq")  # what comes with the rows
ARGUMENTS = {"target": "y", "weight": "sample_weight"}  # what the library calls them
TABLE = ("group", "read", "top", "json", "output", "jobs")

app = typer.Typer(
    add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False, help=HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status; an error is one line on stderr, in the words of the library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # for programmers
        warnings.showwarning = lambda message, *_, **__: files.say(f"Warning: {message}")
        try:
            app(list(arguments), prog_name="treeinner")
        except SystemExit as end:  # typer ends so, also after a command that is not spelt right
            return end.code if isinstance(end.code, int) else ERROR
        except BrokenPipeError:  # `| head`
            return 0
        except MemoryError:
            files.say("Error: out of memory; use fewer rows, or fewer threads (--jobs 1).")
        except OSError as error:
            files.say(f"Error: {error.filename}: {error.strerror}." if error.filename else f"Error: {error}")
        except (TreeInnerError, ValueError, TypeError) as error:
            files.say(f"Error: {error}")
    return ERROR


def _version(asked: bool) -> None:
    """Print the version and end."""
    if asked:
        print(f"treeinner {version('treeinner')}")
        raise typer.Exit


VERSION = Annotated[bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)]


@app.callback()
def _top(asked: VERSION = False) -> None:
    """Options of `treeinner` itself."""


def command(*shared: str, **own: tuple[Any, Any]) -> Callable[[Callable[[SimpleNamespace], None]], None]:
    """Make a command of a function of its options: those that it shares with others, by name, and its own."""
    options = {name: SHARED[name] for name in shared} | own
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=value)
        for name, (kind, value) in options.items()
    ]

    def made(function: Callable[[SimpleNamespace], None]) -> None:
        def run(**given: Any) -> None:
            function(SimpleNamespace(**given))

        cast(Any, run).__signature__ = Signature(parameters)
        app.command(function.__name__, help=function.__doc__)(run)

    return made


@command("model", "data", *GIVEN, "score", "method", *TABLE)
def importance(o: SimpleNamespace) -> None:
    """Rank the features by what they do for predictions of new rows.

    DATA must be rows that played no part in training, early stopping or tuning. With --by, the table that -o writes is
    that of the segments.
    """
    files.check_files(o.output, [o.model, *o.data])
    found = score_rows(
        files.open_model(o.model, o.read), list(map(str, o.data)), **_given(o), score=o.score, method=o.method,
        feature_groups=files.parse_groups(o.group), n_jobs=o.jobs,
    )  # fmt: skip
    columns, content = _best_first(found.columns(), found.order), json.loads(found.to_json())
    for name in ("segment_test", "segments") if o.by else ():
        columns = content[name] = {one.name: one.to_numpy() for one in collected(getattr(found, name)).iter_columns()}
    _put(o, found.notes, columns, content, partial(importance_text, found))


@command(
    "model", "target", "weight", "clusters", "base_margin", "method", *TABLE,
    before=argument(Path, "BEFORE", "Rows from when the model was good, held out."),
    after=argument(Path, "AFTER", "Rows from now."),
    split_shift=option(bool, "Tell rows that moved from those that changed.", False, "--split-shift"),
)  # fmt: skip
def compare(o: SimpleNamespace) -> None:
    """Why did the loss rise? What each feature no longer pays in AFTER, so that all adds up.

    change is positive where a feature pays less than in BEFORE; worse and better are verdicts at q <= 0.1.
    """
    files.check_files(o.output, [o.model, o.before, o.after])
    found = compare_rows(
        files.open_model(o.model, o.read), *({"X": str(side), **_given(o)} for side in (o.before, o.after)),
        method=o.method, split_shift=o.split_shift, feature_groups=files.parse_groups(o.group), n_jobs=o.jobs,
    )  # fmt: skip
    _put(o, found.notes, _best_first(found.columns(), found.order), found.to_dict(), of_comparison(found).text)


@command(
    "model", "data", "base_margin", *TABLE,
    target=option(TEXTS, "Columns that are not features.", None, "-y", "--target"),
    method=option(str, "predecomp, saabas or treeshap.", "predecomp"),
)  # fmt: skip
def attribute(o: SimpleNamespace) -> None:
    """Split the prediction of every row over its features.

    Prints the first rows; -o writes all of them, a column for each feature.
    """
    files.check_files(o.output, [o.model, *o.data])
    opened = files.open_model(o.model, o.read)
    X, given = load_table(opened, list(map(str, o.data)), {"y": o.target or None, "base_margin": o.base_margin})
    asked: dict[str, Any] = {"method": o.method, "feature_groups": files.parse_groups(o.group), "n_jobs": o.jobs}
    found = attribute_rows(opened, X, base_margin=given["base_margin"], **asked)
    columns = _attribution_columns(found)
    _put(o, found.notes, columns, columns, partial(_rows_text, found[:SHOWN_ROWS]))
    if not (o.output or o.json) and len(found) > SHOWN_ROWS:
        files.say(f"Note: the first {SHOWN_ROWS} of {len(found):,} rows; -o attributions.csv writes all of them.")


@command(
    data=argument(Path, "DATA", "Rows to fit on, folds of them held out."),
    target=option(str, "Column to predict.", NEEDED, "-y", "--target"),
    drop=option(TEXTS, "Column to leave out; repeat it."),
    q=option(float, "Share of the kept columns that may be wrong, on average.", 0.1),
    test=option(str, "marginal: signal? conditional: beyond the others?", "marginal"),
    adds=option(bool, "Show what the kept columns add to the others.", False, "--adds"),
    cv=option(int, "Folds.", 5, min=2),
    repeats=option(int, "Times that all rows are held out.", 3, min=1),
    seed=option(int, "Seed of folds, fits and draws.", 0, min=0),
    page=option(FILE, "Page to write: page.html."),
    **{name: SHARED[name] for name in ("weight", "clusters", "top", "json", "output", "jobs")},
)
def select(o: SimpleNamespace) -> None:
    """Find the columns to keep: those that carry signal on rows held out. Exit status 1: none is kept."""
    from treeinner.select.selector import TreeInnerSelector  # here, because it imports scikit-learn

    files.check_files(o.output, [o.data])
    files.check_files(o.page, [o.data], files.PAGES)
    special = [name for name in (o.target, o.weight, o.clusters) if name is not None]
    frame = files.read_frame(o.data, o.drop or (), special)
    weight, groups = (None if name is None else frame[name] for name in (o.weight, o.clusters))
    selector = TreeInnerSelector(
        q=o.q, test=o.test, adds=o.adds, cv=o.cv, repeats=o.repeats, random_state=o.seed, n_jobs=o.jobs,
        progress=sys.stderr.isatty(),
    ).fit(frame.drop(columns=special), frame[o.target], sample_weight=weight, groups=groups)  # fmt: skip
    if o.page is not None:
        with redirect_stdout(sys.stderr):  # the line about the file; stdout is the table's
            write_report(selector, path=o.page)
    table = selector.table()
    columns = _best_first(table, np.argsort(-table["score"], kind="stable"))
    kept = columns["feature"][columns["kept"]].tolist()
    content = {"kept": kept, "rule": selector.rule, "features": columns}
    _put(o, selector.importance_.notes, columns, content, of_selector(selector).text)
    raise typer.Exit(0 if kept else 1)


@command(
    "model", "data", *GIVEN, "score", "method", "group", "read", "jobs",
    output=option(Path, "Page to write: page.html.", NEEDED, "-o", "--output"),
    train=option(FILE, "Rows that the model was trained on."),
    title=option(TEXT, "Title of the page."),
    explorer_rows=option(int, "Rows of data to put into the page.", 0, min=0),
)  # fmt: skip
def report(o: SimpleNamespace) -> None:
    """Write one HTML page to share: ranking, curves by round, single rows; one file, nothing from the network."""
    files.check_files(o.output, [o.model, *o.data, *([o.train] if o.train else [])], files.PAGES)
    given, of_train = _given(o), dict[str, Any]()
    if o.train is not None:
        of_train = {f"{name}_train": given[name] for name in ("y", "sample_weight", "base_margin", "qid")}
        of_train["X_train"] = o.train
    with redirect_stdout(sys.stderr):
        write_report(
            files.open_model(o.model, o.read), list(map(str, o.data)), **given, **of_train, path=o.output,
            title=o.title, score=o.score, method=o.method, feature_groups=files.parse_groups(o.group),
            explorer_rows=o.explorer_rows, n_jobs=o.jobs,
        )  # fmt: skip


# -- inside ----------------------------------------------------------------------------------------------------
def _given(o: SimpleNamespace) -> dict[str, Any]:
    """What comes with the rows, as `importance` takes it: names of columns, of one alone in no list."""
    given = {ARGUMENTS.get(name, name): getattr(o, name) for name in GIVEN if hasattr(o, name)}
    return {name: one[0] if isinstance(one, list) and len(one) == 1 else one for name, one in given.items()}


def _put(
    o: SimpleNamespace, notes: Iterable[Note], columns: Mapping[str, Any], content: Mapping[str, Any],
    as_text: Callable[[int | None], str],
) -> None:  # fmt: skip
    """Say the notes of a result, and write its table to a file, or print it; content: what --json prints."""
    for note in notes:
        if note.quiet:  # it was no warning
            files.say(f"Note: {note.text}")
    if o.output is not None:
        files.write_table(columns, o.output)
    else:
        print(files.json_text(content) if o.json else as_text(o.top or None))


def _best_first(columns: Mapping[str, Any], order: Any) -> dict[str, Any]:
    """Columns of a table in another order of the rows."""
    return {name: values[order] for name, values in columns.items()}


def _attribution_columns(found: Attribution) -> dict[str, Any]:
    """Base value and a column per feature, for each output."""
    values, base = found.by_output
    columns = np.concatenate([base[:, None], values], axis=1)
    several, names = values.shape[2] > 1, ("(base value)", *found.feature_names)
    return {
        f"{output}: {name}" if several else name: columns[:, j, k]
        for k, output in enumerate(found.output_labels)
        for j, name in enumerate(names)
    }


def _rows_text(found: Attribution, top: int | None) -> str:
    """Rows as columns, the features that move them most first."""
    (values, base), texts = found.by_output, []
    for k, output in enumerate(found.output_labels):
        one = values[:, :, k]
        order = np.argsort(-np.abs(one).mean(axis=0), kind="stable")
        rest = order[len(order) if top is None else top :]
        lines = {"(base value)": base[:, k]} | {found.feature_names[j]: one[:, j] for j in order[:top]}
        lines |= {f"({len(rest)} others)": one[:, rest].sum(axis=1)} if len(rest) else {}
        lines["(prediction)"] = base[:, k] + one.sum(axis=1)
        columns = {f"row {i}": [short(numbers[i], 4) for numbers in lines.values()] for i in range(len(found))}
        texts.append(f"{found.method}{f' of {output}' if values.shape[2] > 1 else ''}, in {found.unit}")
        texts += text_table({"feature": list(lines), **columns})
    return "\n".join(texts)
