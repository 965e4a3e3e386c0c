"""`treeinner study`: the paper's simulation study, whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treeinner.cli import options, screen
from treeinner.cli.errors import guarded
from treeinner.errors import MissingDependencyError

if TYPE_CHECKING:
    from treeinner.study.run import Plan, Progress, Report

__all__ = ["study_command"]

NEEDED = ("xgboost", "pooch", "pyarrow", "matplotlib")


class Process(StrEnum):
    """How labels are drawn, as `treeinner.study.problems` names it."""

    as_run = "as_run"
    as_written = "as_written"


ABOUT_STUDY = "About the study"
OUT_HELP = "Folder for results, tables, figures and index.html."
CHIP_HELP = (
    "Folder with X_train.csv and X_test.csv of the ChIP data; by default $TREEINNER_CHIP, else they are fetched."
)
PROCESS_HELP = "How labels are drawn: as_run, as for the paper's table (the default), or as_written, as in its text."
SWEEPS_HELP = "Sweeps to run, such as eta,max_depth; by default all five."

Out = Annotated[Path, options.option("--out", "-o", help=OUT_HELP, panel=options.ABOUT_OUTPUT, metavar="FOLDER")]
ChipDir = Annotated[Path | None, options.option("--chip-dir", help=CHIP_HELP, panel=ABOUT_STUDY, metavar="FOLDER")]
ProcessOption = Annotated[Process, options.option("--process", help=PROCESS_HELP, panel=ABOUT_STUDY, metavar="NAME")]
Replications = Annotated[
    int | None,
    options.option(
        "--replications", help="Replications; 20 by default, 3 if quick.", panel=ABOUT_STUDY, min=1, metavar="N"
    ),
]
Seed = Annotated[int, options.option("--seed", help="Seed of the data.", panel=ABOUT_STUDY, min=0, metavar="N")]
Jobs = Annotated[
    int | None,
    options.option("--jobs", "-j", help="Processes; all cores by default.", panel=ABOUT_STUDY, min=1, metavar="N"),
]
Quick = Annotated[
    bool, options.option("--quick", help="The standard setting and 3 replications only.", panel=ABOUT_STUDY)
]
Sweeps = Annotated[str | None, options.option("--sweeps", help=SWEEPS_HELP, panel=ABOUT_STUDY, metavar="NAME,NAME")]
OnlyShow = Annotated[
    bool,
    options.option("--only-show", help="Write tables and figures again from what is stored.", panel=ABOUT_STUDY),
]
Rounds = Annotated[int | None, typer.Option("--rounds", hidden=True, min=1)]  # miniatures, for tests


@guarded
def study_command(
    out: Out,
    chip_dir: ChipDir = None,
    process: ProcessOption = Process.as_run,
    replications: Replications = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    quick: Quick = False,
    sweeps: Sweeps = None,
    only_show: OnlyShow = False,
    rounds: Rounds = None,
) -> None:
    """Run the paper's study, or what is missing of it, and write its tables and figures."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f"The study needs {' and '.join(missing)}, not installed here; install it with: pip install "
            "'treeinner[study]'"
        )
    if not only_show:
        from treeinner.study.grid import SWEEPS
        from treeinner.study.run import Plan

        names = tuple(SWEEPS) if sweeps is None else tuple(name.strip() for name in sweeps.split(","))
        unknown = [name for name in names if name not in SWEEPS]
        if unknown:
            raise typer.BadParameter(
                f"there is no sweep {unknown[0]!r}; choose among {', '.join(SWEEPS)}.", param_hint="--sweeps"
            )
        _run(
            Plan(
                out=out,
                process=process.value,
                replications=replications,
                seed=seed,
                jobs=jobs or _cores(),
                quick=quick,
                rounds=rounds,
                sweeps=names,
                chip_dir=chip_dir,
            )
        )
    _show(out)


def _run(plan: Plan) -> None:
    """Run what is missing, and say what it cost."""
    from treeinner.study.cost import cost_of, spoken_cost
    from treeinner.study.run import run_study
    from treeinner.study.store import read_meta

    watched = _Watched()
    try:
        with _reporting(watched) as report:
            results = run_study(plan, report)
    except KeyboardInterrupt:
        screen.note(f"{watched.done} of {watched.total} replications are stored; the same command goes on from there.")
        raise
    meta = read_meta(results)
    assert meta is not None
    for sentence in meta["missing"]:
        screen.note(f"Warning: {sentence}")
    print("\n".join(spoken_cost(cost_of(results, meta))))


def _show(out: Path) -> None:
    from treeinner.study.show import write_outputs

    screen.note("Drawing tables and figures.")
    write_outputs(out / "results", out)
    print(f"Wrote {out / 'index.html'}; open it in a browser.")


class _Watched:
    """How far the run is, for the sentence after Ctrl-C."""

    done = total = 0


@contextmanager
def _reporting(watched: _Watched) -> Iterator[Report]:
    """Report on a bar on a terminal, line by line in a pipe."""
    with screen.progress("Replications") as bar:

        def report(p: Progress) -> None:
            watched.done, watched.total = p.done, p.total
            if bar is not None:
                bar(round(1000 * p.share), 1000)
            elif p.last:
                screen.note(f"{p.done} of {p.total}: {p.last}; {_spoken(p.seconds_left)} left.")
            elif p.done:
                screen.note(f"{p.done} of {p.total} replications are stored already.")

        yield report


def _spoken(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"


def _cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
