"""The commands put together. Only `main` imports this module: it needs typer."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from treeinner.cli import screen
from treeinner.cli.attribute import attribute_command
from treeinner.cli.compare import compare_command
from treeinner.cli.demo import demo_command
from treeinner.cli.importance import importance_command
from treeinner.cli.report import report_command

__all__ = ["make_app", "run"]

TOP_HELP = """Which features of a tree model carry signal, measured on rows that it has not seen.

A model file and a data file are all it takes:

\b
  treeinner importance model.json valid.parquet --target price

The model file is what XGBoost, LightGBM or CatBoost saved; the data file is Parquet, CSV or Feather.
"""

IMPORTANCE_HELP = """Rank the features by what they do for predictions of new rows.

DATA must be rows that played no part in training, early stopping or tuning: on training rows noise looks like signal.

Examples:

\b
  treeinner importance model.json valid.csv --target price
  treeinner importance model.txt valid.csv -y price --weight w -o scores.csv
  treeinner importance model.cbm new.csv -y price --feature-groups c=red,blue
  treeinner importance model.ubj valid.csv -y price -o - --format json | jq
  treeinner importance model.json --score total_gain
"""

ATTRIBUTE_HELP = """Split the prediction of every row over its features.

Without -o the first rows are shown; with it, a file gets a row for each row of DATA and a column for each feature.
Base value and contributions add up to the raw prediction.

Examples:

\b
  treeinner attribute model.json rows.csv
  treeinner attribute model.json rows.parquet -o attributions.parquet
  treeinner attribute model.txt rows.csv --method treeshap -o - | head
"""

COMPARE_HELP = """Put every score on training and held-out rows side by side.

What a feature gains on training rows and not on held-out rows is overfitting: the gap.

Examples:

\b
  treeinner compare model.json --train train.csv --valid valid.csv -y price
  treeinner compare model.txt --train a.csv --valid b.csv -y price -o both.md
"""

REPORT_HELP = """Write one HTML page to share.

It has the ranking, training against held-out rows, curves by round and a row explorer, in one file without network.

Examples:

\b
  treeinner report model.json valid.parquet --target price -o page.html
  treeinner report model.txt new.csv -y price --train old.csv -o page.html
"""

DEMO_HELP = """Show the whole job in seconds, on bundled data.

A model of diabetes progression, with columns of random numbers added: which scores rank them high, and which do not.
Writes plots, a page, a model and data files to try the other commands on. Needs xgboost, scikit-learn and matplotlib.

Examples:

\b
  treeinner demo
  treeinner demo -o somewhere
"""


def _version(asked: bool) -> None:
    if asked:
        print(f"treeinner {version('treeinner')}")
        raise typer.Exit


def _top(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def make_app(*, rich: bool) -> typer.Typer:
    """Build the command line; without `rich`, its help is plain text."""
    app = typer.Typer(
        add_completion=False,  # it would write into the user's shell configuration
        no_args_is_help=True,
        rich_markup_mode="rich" if rich else None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=TOP_HELP)(_top)
    app.command("importance", help=IMPORTANCE_HELP)(importance_command)
    app.command("attribute", help=ATTRIBUTE_HELP)(attribute_command)
    app.command("compare", help=COMPARE_HELP)(compare_command)
    app.command("report", help=REPORT_HELP)(report_command)
    app.command("demo", help=DEMO_HELP)(demo_command)
    return app


def run() -> None:
    """Run the command line on sys.argv, and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no reason to stop
    rich = screen.is_terminal(sys.stdout) and screen.is_terminal(sys.stderr)
    try:
        make_app(rich=rich)(prog_name="treeinner")
    except SystemExit as end:
        _leave(end.code if isinstance(end.code, int) else int(end.code is not None))


def _leave(code: int) -> NoReturn:
    """End at once: Arrow's thread pools sometimes abort the process while they are torn down (apache/arrow#34314)."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads any more
            stream.flush()
    os._exit(code)
