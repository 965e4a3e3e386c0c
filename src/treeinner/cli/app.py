"""The commands put together. Only `main` imports this module: it needs typer."""

from __future__ import annotations

import inspect
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
from treeinner.cli.select import select_command

TOP_HELP = """Which features of a tree model carry signal, measured on rows that it has not seen.

A model file and a data file are all it takes:

\b
  treeinner importance model.json valid.parquet --target price

The model file is what XGBoost, LightGBM or CatBoost saved; the data file is Parquet, CSV or Feather.
"""

EXAMPLES = {
    importance_command: """
  treeinner importance model.json valid.csv --target price
  treeinner importance model.txt valid.csv -y price --weight w -o scores.csv
  treeinner importance model.cbm new.csv -y price --feature-groups c=red,blue
  treeinner importance model.ubj valid.csv -y price -o - --format json | jq
  treeinner importance model.json valid.csv -y price --score loss
  treeinner importance model.json --score total_gain""",
    attribute_command: """
  treeinner attribute model.json rows.csv
  treeinner attribute model.json rows.parquet -o attributions.parquet
  treeinner attribute model.txt rows.csv --method treeshap -o - | head""",
    compare_command: """
  treeinner compare model.json --train train.csv --valid valid.csv -y price
  treeinner compare model.txt --train a.csv --valid b.csv -y price -o both.md""",
    report_command: """
  treeinner report model.json valid.parquet --target price -o page.html
  treeinner report model.txt new.csv -y price --train old.csv -o page.html""",
    select_command: """
  treeinner select data.csv --target price
  treeinner select data.parquet -y price --q 0.05 --kept columns.txt
  treeinner select data.csv -y price --clusters patient --page page.html
  treeinner select model.json valid.csv -y price""",
    demo_command: """
  treeinner demo
  treeinner demo -o somewhere""",
}


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
    for command, examples in EXAMPLES.items():
        help = f"{inspect.getdoc(command)}\n\nExamples:\n\n\b{examples}\n"
        app.command(command.__name__.removesuffix("_command"), help=help)(command)
    return app


def run() -> None:
    """Run the command line on sys.argv, and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # for names that the terminal cannot show
    rich = screen.is_terminal(sys.stdout) and screen.is_terminal(sys.stderr)
    try:
        make_app(rich=rich)(prog_name="treeinner")
    except SystemExit as end:
        _leave(end.code if isinstance(end.code, int) else int(end.code is not None))


def _leave(code: int) -> NoReturn:
    """End at once: Arrow's thread pools sometimes abort the process while they are torn down (apache/arrow#34314)."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader closed the pipe
            stream.flush()
    os._exit(code)
