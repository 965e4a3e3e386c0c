"""The commands. Only `main` imports this module: it needs typer."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from treeinner.errors import TreeInnerError, counted, short
from treeinner.explain.attribute import Attribution
from treeinner.explain.attribute import attribute as attribute_rows
from treeinner.kernels import Progress
from treeinner.rows import load_table
from treeinner.score.compare import compare as compare_rows
from treeinner.score.importance import importance as score_rows
from treeinner.show.cli.files import (
    check_files,
    open_model,
    parse_groups,
    read_frame,
    say,
    say_notes,
    write_json,
    write_table,
)
from treeinner.show.page import report as write_report
from treeinner.show.table import SHOWN, as_text, comparison_text, text_table

__all__ = ["run"]

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

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file: .json, .ubj, .txt or .cbm.")]
DataFiles = Annotated[list[Path], typer.Argument(metavar="DATA", help="Rows that the model has not seen.")]
Target = Annotated[list[str], typer.Option("--target", "-y", help="Column with the true values; repeat for several.")]
Weight = Annotated[str | None, typer.Option("--weight", help="Column with the weight of each row.")]
Clusters = Annotated[str | None, typer.Option("--clusters", help="Column with labels; only clusters are independent.")]
Qid = Annotated[str | None, typer.Option("--qid", help="Column with the query of each row, for ranking losses.")]
Margin = Annotated[str | None, typer.Option("--base-margin", help="Column with the margin before the first tree.")]
Score = Annotated[
    str, typer.Option("--score", help="signal: is there any, does it hold? tree_inner; loss: did it pay?")
]
Method = Annotated[str, typer.Option("--method", help="centred, predecomp, saabas or treeshap.")]
Groups = Annotated[list[str] | None, typer.Option("--group", help="Features scored as one: NAME=a,b,c; repeat it.")]
Told = Annotated[list[str] | None, typer.Option("--read", metavar="NAME=VALUE", help=READ_HELP)]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="File for the table: .csv, .parquet or .json.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, with the notes in it.")]
Top = Annotated[int, typer.Option("--top", min=0, help="Features to print; 0 for all.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Threads; -1 for all cores.")]

app = typer.Typer(
    add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False, help=HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status; an error is one line on stderr, in the words of the library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # for programmers
        warnings.showwarning = lambda message, *_, **__: say(f"Warning: {message}")
        try:
            app(list(arguments), prog_name="treeinner")
        except SystemExit as end:  # typer ends so, also after a command that is not spelt right
            return end.code if isinstance(end.code, int) else ERROR
        except BrokenPipeError:  # `| head`
            return 0
        except MemoryError:
            say("Error: out of memory; use fewer rows, or fewer threads (--jobs 1).")
        except OSError as error:
            say(f"Error: {error.filename}: {error.strerror}." if error.filename else f"Error: {error}")
        except (TreeInnerError, ValueError, TypeError) as error:
            say(f"Error: {error}")
    return ERROR


def _version(asked: bool) -> None:
    """Print the version and end."""
    if asked:
        print(f"treeinner {version('treeinner')}")
        raise typer.Exit


@app.callback()
def _top(
    asked: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of `treeinner` itself."""


@app.command()
def importance(
    model: ModelFile,
    data: DataFiles,
    target: Target,
    weight: Weight = None,
    clusters: Clusters = None,
    qid: Qid = None,
    base_margin: Margin = None,
    score: Score = "signal",
    method: Method = "centred",
    group: Groups = None,
    read: Told = None,
    top: Top = SHOWN,
    as_json: Json = False,
    output: Output = None,
    jobs: Jobs = -1,
) -> None:
    """Rank the features by what they do for predictions of new rows.

    DATA must be rows that played no part in training, early stopping or tuning.
    """
    check_files(output, [model, *data])
    found = score_rows(
        open_model(model, read), list(map(str, data)), **_roles(target, weight, clusters, qid, base_margin),
        score=score, method=method, feature_groups=parse_groups(group), n_jobs=jobs,
    )  # fmt: skip
    say_notes(found.notes)
    if output is not None:
        write_table(_best_first(found.columns(), found.order), output)
    elif as_json:
        print(found.to_json())
    else:
        print(as_text(replace(found, notes=()), top or None))


@app.command()
def compare(
    model: ModelFile,
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="Rows from when the model was good, held out.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Rows from now.")],
    target: Target,
    split_shift: Annotated[
        bool, typer.Option("--split-shift", help="Tell rows that moved from rows that changed.")
    ] = False,
    weight: Weight = None,
    clusters: Clusters = None,
    base_margin: Margin = None,
    group: Groups = None,
    read: Told = None,
    top: Top = SHOWN,
    as_json: Json = False,
    output: Output = None,
    jobs: Jobs = -1,
) -> None:
    """Why did the loss rise? What each feature no longer pays in AFTER, so that all adds up.

    change is positive where a feature pays less than in BEFORE; worse and better are verdicts at q <= 0.1.
    """
    check_files(output, [model, before, after])
    roles = _roles(target, weight, clusters, None, base_margin)
    found = compare_rows(
        open_model(model, read), {"X": str(before), **roles}, {"X": str(after), **roles},
        split_shift=split_shift, feature_groups=parse_groups(group), n_jobs=jobs,
    )  # fmt: skip
    say_notes(found.notes)
    if output is not None:
        write_table(_best_first(found.columns(), found.order), output)
    elif as_json:
        write_json(found.to_dict())
    else:
        print(comparison_text(replace(found, notes=()), top or None))


@app.command()
def attribute(
    model: ModelFile,
    data: DataFiles,
    target: Annotated[list[str] | None, typer.Option("--target", "-y", help="Columns that are not features.")] = None,
    base_margin: Margin = None,
    method: Annotated[str, typer.Option("--method", help="predecomp, saabas or treeshap.")] = "predecomp",
    group: Groups = None,
    read: Told = None,
    top: Top = SHOWN,
    as_json: Json = False,
    output: Output = None,
    jobs: Jobs = -1,
) -> None:
    """Split the prediction of every row over its features.

    Prints the first rows; -o writes all of them, a column for each feature.
    """
    check_files(output, [model, *data])
    opened = open_model(model, read)
    X, given = load_table(opened, list(map(str, data)), {"y": target or None, "base_margin": base_margin})
    groups, margin = parse_groups(group), given["base_margin"]
    found = attribute_rows(opened, X, method=method, base_margin=margin, feature_groups=groups, n_jobs=jobs)
    say_notes(found.notes)
    if output is not None:
        write_table(_attribution_columns(found), output)
    elif as_json:
        write_json({name: list(values) for name, values in _attribution_columns(found).items()})
    else:
        _print_rows(found[:SHOWN_ROWS], len(found), top or None)


@app.command()
def select(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Rows to fit on, folds of them held out.")],
    target: Annotated[str, typer.Option("--target", "-y", help="Column to predict.")],
    weight: Weight = None,
    clusters: Clusters = None,
    drop: Annotated[list[str] | None, typer.Option("--drop", help="Column to leave out; repeat it.")] = None,
    q: Annotated[float, typer.Option("--q", help="Share of the kept columns that may be wrong, on average.")] = 0.1,
    test: Annotated[str, typer.Option("--test", help="marginal: signal? conditional: beyond the others?")] = "marginal",
    adds: Annotated[bool, typer.Option("--adds", help="Show what the kept columns add to the others.")] = False,
    cv: Annotated[int, typer.Option("--cv", min=2, help="Folds.")] = 5,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Times that all rows are held out.")] = 3,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of folds, fits and draws.")] = 0,
    page: Annotated[Path | None, typer.Option("--page", help="Page to write: page.html.")] = None,
    top: Top = SHOWN,
    as_json: Json = False,
    output: Output = None,
    jobs: Jobs = 1,
) -> None:
    """Find the columns to keep: those that carry signal on rows held out. Exit status 1: none is kept."""
    check_files(output, [data])
    check_files(page, [data], (".html", ".htm"))
    frame = read_frame(data, drop or ())
    special = [name for name in (target, weight, clusters) if name is not None]
    for name in special:
        if name not in frame:
            raise ValueError(f"{data} has no column {name!r}.")
    selector = _fitted_selector(
        frame.drop(columns=special), frame[target], frame[weight] if weight else None,
        frame[clusters] if clusters else None, q=q, test=test, adds=adds, cv=cv, repeats=repeats, random_state=seed,
        n_jobs=jobs, progress=_progress(),
    )  # fmt: skip
    say_notes(selector.importance_.notes)
    if page is not None:
        with redirect_stdout(sys.stderr):  # the line about the file; stdout is the table's
            write_report(selector, path=page)
    table = selector.table()
    columns = _best_first(table, np.argsort(-table["score"], kind="stable"))
    n_kept = int(np.sum(table["kept"]))
    if output is not None:
        write_table(columns, output)
    elif as_json:
        kept = columns["feature"][columns["kept"]].tolist()
        write_json({"kept": kept, "rule": selector.rule, "features": {k: list(v) for k, v in columns.items()}})
    else:
        hidden = ("feature", "ci_low", "ci_high", "kept", "rank")
        names = [name for name in columns if name not in hidden]
        shown: dict[str, Any] = {"feature": columns["feature"][: top or None]}
        for name in names:  # a column that was not tested is left blank
            shown[name] = ["" if np.isnan(x) else short(x, 3) for x in columns[name][: top or None]]
        shown["kept"] = ["yes" if yes else "no" for yes in columns["kept"][: top or None]]
        print("\n".join(text_table(shown, left=("feature", "kept"))))
        print(f"{n_kept} of {counted(len(table['kept']), 'column')} kept {selector.rule}")
    raise typer.Exit(0 if n_kept else 1)


@app.command()
def report(
    model: ModelFile,
    data: DataFiles,
    target: Target,
    page: Annotated[Path, typer.Option("--output", "-o", help="Page to write: page.html.")],
    train: Annotated[Path | None, typer.Option("--train", help="Rows that the model was trained on.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
    weight: Weight = None,
    clusters: Clusters = None,
    qid: Qid = None,
    base_margin: Margin = None,
    score: Score = "signal",
    method: Method = "centred",
    group: Groups = None,
    read: Told = None,
    rows: Annotated[int, typer.Option("--explorer-rows", min=0, help="Rows of data to put into the page.")] = 0,
    jobs: Jobs = -1,
) -> None:
    """Write one HTML page to share: ranking, curves by round, single rows; one file, nothing from the network."""
    check_files(page, [model, *data, *([train] if train else [])], (".html", ".htm"))
    roles = _roles(target, weight, clusters, qid, base_margin)
    of_train: dict[str, Any] = {}
    if train is not None:
        of_train = {f"{name}_train": value for name, value in roles.items() if name != "clusters"}
        of_train["X_train"] = str(train)
    with redirect_stdout(sys.stderr):
        write_report(
            open_model(model, read), list(map(str, data)), **roles, **of_train, path=page, title=title, score=score,
            method=method, feature_groups=parse_groups(group), explorer_rows=rows, n_jobs=jobs,
        )  # fmt: skip


# -- inside ----------------------------------------------------------------------------------------------------
def _roles(target: Sequence[str], weight: Any, clusters: Any, qid: Any, base_margin: Any) -> dict[str, Any]:
    """Columns that are not features, as `importance` takes their names."""
    y = target[0] if len(target) == 1 else list(target)
    return {"y": y, "sample_weight": weight, "clusters": clusters, "qid": qid, "base_margin": base_margin}


def _best_first(columns: Mapping[str, Any], order: Any) -> dict[str, Any]:
    """Columns of a table in another order of the rows."""
    return {name: values[order] for name, values in columns.items()}


def _fitted_selector(X: Any, y: Any, weight: Any, groups: Any, **settings: Any) -> Any:
    """A selector fitted on these rows; scikit-learn is imported here."""
    from treeinner.select.selector import TreeInnerSelector

    return TreeInnerSelector(**settings).fit(X, y, sample_weight=weight, groups=groups)


def _progress() -> Progress:
    """A line on the terminal about models that are done, once that takes more than two seconds."""
    began = time.monotonic()

    def show(done: int, of: int) -> None:
        if sys.stderr.isatty() and time.monotonic() - began > 2:
            print(f"\r{done} of {counted(of, 'model')}", end="\n" if done == of else "", file=sys.stderr, flush=True)

    return show


def _attribution_columns(found: Attribution) -> dict[str, Any]:
    """Base value and a column per feature, for each output."""
    values, base = found.by_output
    several, columns = values.shape[2] > 1, {}
    for k, output in enumerate(found.output_labels):
        prefix = f"{output}: " if several else ""
        columns[f"{prefix}(base value)"] = base[:, k]
        columns |= {f"{prefix}{name}": values[:, j, k] for j, name in enumerate(found.feature_names)}
    return columns


def _print_rows(found: Attribution, n_rows: int, top: int | None) -> None:
    """Print rows as columns, the features that move them most first."""
    values, base = found.by_output
    for k, output in enumerate(found.output_labels):
        one = values[:, :, k]
        order = np.argsort(-np.abs(one).mean(axis=0), kind="stable")
        rest = one[:, order[top:]].sum(axis=1) if top is not None and top < len(order) else None
        lines = {"(base value)": base[:, k]} | {found.feature_names[j]: one[:, j] for j in order[:top]}
        lines |= {} if rest is None else {f"({len(order) - (top or 0)} others)": rest}
        lines["(prediction)"] = base[:, k] + one.sum(axis=1)
        columns: dict[str, Any] = {"feature": list(lines)}
        columns |= {f"row {i}": [short(numbers[i], 4) for numbers in lines.values()] for i in range(len(found))}
        print(f"{found.method}{f' of {output}' if values.shape[2] > 1 else ''}, in {found.unit}")
        print("\n".join(text_table(columns, left=("feature",))))
    if len(found) < n_rows:
        say(f"Note: the first {len(found)} of {n_rows:,} rows; -o attributions.csv writes all of them.")
