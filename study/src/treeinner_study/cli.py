"""`treeinner-study`: run what is missing of the study, and write its tables and figures."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from treeinner_study import run, show
from treeinner_study.cost import cost_of, spoken_cost
from treeinner_study.grid import SWEEPS
from treeinner_study.names import StudyError
from treeinner_study.run import Plan, Progress, Report
from treeinner_study.store import read_meta

__all__ = ["app", "main"]

STOPPED = 130  # 128 + SIGINT, as a shell reports it

HELP = """Repeat the paper's simulation study: every table and figure.

Trains 1,640 models and scores them; about an hour on two cores. Stopped and started again, it goes on where it was.

Examples:

\b
  treeinner-study --out study-results --quick
  treeinner-study --out study-results --jobs 2
  treeinner-study --out study-results --only-show
"""
CHIP_HELP = (
    "Folder with X_train.csv and X_test.csv of the ChIP data; by default $TREEINNER_CHIP, else they are fetched."
)
PROCESS_HELP = "How labels are drawn: as_run, as for the paper's table (the default), or as_written, as in its text."
REPLICATIONS_HELP = f"Replications of the standard setting; {run.REPLICATIONS} by default, 3 if quick."
SWEEP_REPLICATIONS_HELP = f"Replications of the other settings; {run.SWEEP_REPLICATIONS} by default."
SWEEPS_HELP = "Sweeps to run, such as eta,max_depth; by default all five."

app = typer.Typer(
    add_completion=False,  # it would write into the user's shell configuration
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Process(StrEnum):
    """How labels are drawn, as `problems.py` names it."""

    as_run = "as_run"
    as_written = "as_written"


def _option(*names: str, help: str = "", **more: Any) -> Any:
    return typer.Option(*names, help=help, show_default=False, **more)


@app.command(help=HELP)
def study(
    out: Annotated[
        Path, _option("--out", "-o", help="Folder for results, tables, figures and index.html.", metavar="FOLDER")
    ],
    chip_dir: Annotated[Path | None, _option("--chip-dir", help=CHIP_HELP, metavar="FOLDER")] = None,
    process: Annotated[Process, _option("--process", help=PROCESS_HELP, metavar="NAME")] = Process.as_run,
    replications: Annotated[
        int | None,
        _option("--replications", help=REPLICATIONS_HELP, min=1, metavar="N"),
    ] = None,
    sweep_replications: Annotated[
        int, _option("--sweep-replications", help=SWEEP_REPLICATIONS_HELP, min=1, metavar="N")
    ] = run.SWEEP_REPLICATIONS,
    seed: Annotated[int, _option("--seed", help="Seed of the data.", min=0, metavar="N")] = 0,
    jobs: Annotated[
        int | None, _option("--jobs", "-j", help="Processes; all cores by default.", min=1, metavar="N")
    ] = None,
    quick: Annotated[bool, _option("--quick", help="The standard setting and 3 replications only.")] = False,
    sweeps: Annotated[str | None, _option("--sweeps", help=SWEEPS_HELP, metavar="NAME,NAME")] = None,
    only_show: Annotated[
        bool, _option("--only-show", help="Write tables and figures again from what is stored.")
    ] = False,
    rounds: Annotated[int | None, typer.Option("--rounds", hidden=True, min=1)] = None,  # miniatures, for tests
) -> None:
    """Run the study, or what is missing of it, and write its tables and figures."""
    names = tuple(SWEEPS) if sweeps is None else tuple(name.strip() for name in sweeps.split(","))
    unknown = [name for name in names if name not in SWEEPS]
    if unknown:
        raise typer.BadParameter(
            f"there is no sweep {unknown[0]!r}; choose among {', '.join(SWEEPS)}.", param_hint="--sweeps"
        )
    plan = Plan(
        out=out, process=process.value, replications=replications, sweep_replications=sweep_replications,
        seed=seed, jobs=jobs or _cores(), quick=quick, rounds=rounds, sweeps=names, chip_dir=chip_dir,
    )  # fmt: skip
    try:
        if not only_show:
            _run(plan)
        _note("Drawing tables and figures.")
        show.write_outputs(out / "results", out)
        print(f"Wrote {out / 'index.html'}; open it in a browser.")
    except KeyboardInterrupt:
        _note("Stopped.")
        raise typer.Exit(STOPPED) from None
    except (StudyError, OSError) as error:
        _note(f"Error: {error}")
        raise typer.Exit(1) from error


def _run(plan: Plan) -> None:
    """Run what is missing, and say what it cost."""
    last: list[Progress] = []  # the latest report, for the sentence after Ctrl-C
    try:
        with _reporting(last) as report:
            results = run.run_study(plan, report)
    except KeyboardInterrupt:
        if last:
            _note(f"{last[0].done} of {last[0].total} replications are stored; the same command goes on from there.")
        raise
    meta = read_meta(results)
    assert meta is not None
    for sentence in meta["missing"]:
        _note(f"Warning: {sentence}")
    print("\n".join(spoken_cost(cost_of(results, meta))))


@contextmanager
def _reporting(last: list[Progress]) -> Iterator[Report]:
    """Report on a bar on a terminal, line by line in a pipe."""
    console = Console(stderr=True)
    parts = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Bar(*parts, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Replications", total=1.0)

        def report(p: Progress) -> None:
            last[:] = [p]
            bar.update(task, completed=p.share)
            if bar.disable:
                if p.last:
                    _note(f"{p.done} of {p.total}: {p.last}; {_duration(p.seconds_left)} left.")
                elif p.done:
                    _note(f"{p.done} of {p.total} replications are stored already.")

        yield report


def _note(text: str) -> None:
    """Say something beside the result."""
    print(text, file=sys.stderr)


def _duration(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"


def _cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def main() -> NoReturn:
    """Run the command, and end at once: Arrow's threads sometimes abort a process that ends (apache/arrow#34314)."""
    try:
        app(prog_name="treeinner-study")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads any more
            stream.flush()
    os._exit(code)
