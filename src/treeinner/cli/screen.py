"""What a person sees: tables, notes, progress. Rich on a terminal, plain aligned text in a pipe."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TextIO

from treeinner.compiled import Progress

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 30  # rows of a table, unless the user says how many
NAME_WIDTH = 20  # names are folded below this width only if there is no other way
GAP = 2  # cells between columns


@dataclass(frozen=True)
class Column:
    """A column of a table on the screen."""

    title: str
    cells: Any  # list or array of text or numbers
    kind: str = "number"  # "text", "number" (all of one unit, so with common decimals), "probability", "count"
    spare: int = 0  # not 0: may be left out where the terminal is narrow, the highest first


def is_terminal(stream: TextIO) -> bool:
    """Whether boxes and colours may be drawn there."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def note(text: str) -> None:
    """Say something beside the result, on stderr."""
    print(_printable(text), file=sys.stderr)


def error(text: str) -> None:
    """Say why there is no result, on stderr."""
    text = f"Error: {_printable(text)}"
    if is_terminal(sys.stderr):
        _console(sys.stderr).print(text, style="red", markup=False, highlight=False, soft_wrap=True)
    else:
        print(text, file=sys.stderr)


@contextmanager
def progress(what: str) -> Iterator[Progress | None]:
    """Bar on stderr while work goes on, to be called with (done, all); None if nobody watches."""
    if not is_terminal(sys.stderr):
        yield None
        return
    from rich import progress as rich

    parts = (rich.SpinnerColumn(), rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TimeRemainingColumn())
    with rich.Progress(*parts, console=_console(sys.stderr), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, rows: bar.update(task, completed=done, total=rows)


def show_table(
    columns: Sequence[Column],
    *,
    title: str,
    caption: str,
    faint: Sequence[bool],
    top: int | None,
    sums: int = 0,
) -> None:
    """Print a table on stdout; `faint` rows are grey. Title, caption and a cut of many rows: on a terminal alone.

    top: what the user typed, who has these rows already; the last `sums` rows are not cut off.
    """
    if not is_terminal(sys.stdout):
        _print_plain(columns)
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    console = _console(sys.stdout)
    fitting, widths = _fitting(columns, console.width)
    if not fitting:
        _print_plain(columns)
        return
    rows = len(fitting[0].cells) - sums
    shown = min(SHOWN, rows) if top is None else rows
    table = Table(
        box=box.SIMPLE_HEAD,
        title=Text(_printable(title), style="bold"),
        title_justify="left",
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column, width in zip(fitting, widths, strict=True):
        # A long name is folded, not cut: its end is often what tells it from others. A number is neither.
        table.add_column(column.title, justify=_side(column), overflow="fold", width=width)
    lines = [*zip(faint, *_formatted(fitting), strict=True)]
    for i, (grey, *cells) in enumerate(lines[:shown] + lines[rows:]):
        if i == shown:
            table.add_section()
        table.add_row(*map(Text, cells), style="bright_black" if grey else "")
    console.print(table)
    if shown < rows:
        console.print(f"... and {rows - shown:,} more; --top 0 shows all, -o writes them to a file.", highlight=False)
    console.print(caption, style="bright_black", markup=False, highlight=False)


def probability(p: float) -> str:
    """P or q value as people read it."""
    return "" if math.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(file=stream)  # it looks at NO_COLOR and at the width itself


def _fitting(columns: Sequence[Column], width: int) -> tuple[list[Column], list[int]]:
    """Columns for which there is room, and their widths; none if not even the necessary ones fit."""
    from rich.cells import cell_len

    needed = [
        max(cell_len(column.title), *map(cell_len, cells), 1)
        for column, cells in zip(columns, _formatted(columns), strict=True)
    ]
    order = sorted((i for i, c in enumerate(columns) if c.spare), key=lambda i: -columns[i].spare)
    shown = list(range(len(columns)))
    for dropped in [None, *order]:
        shown = [i for i in shown if i != dropped]
        names = [i for i in shown if columns[i].kind == "text" and needed[i] > NAME_WIDTH]
        room = width - sum(needed[i] + GAP for i in shown if i not in names) - GAP * len(names)
        if room >= NAME_WIDTH * len(names):
            share = room // max(1, len(names))
            return [columns[i] for i in shown], [min(needed[i], share) if i in names else needed[i] for i in shown]
    return [], []


def _print_plain(columns: Sequence[Column]) -> None:
    from rich.cells import cell_len

    formatted = _formatted(columns, exact=True)
    rendered = [[c.title.replace(" ", "_"), *cells] for c, cells in zip(columns, formatted, strict=True)]
    widths = [max(map(cell_len, cells)) for cells in rendered]
    for row in zip(*rendered, strict=True):
        padded = []
        for column, cell, width in zip(columns, row, widths, strict=True):
            blank = " " * (width - cell_len(cell))
            padded.append(cell + blank if _side(column) == "left" else blank + cell)
        print("  ".join(padded).rstrip())


def _side(column: Column) -> Literal["left", "right"]:
    return "left" if column.kind == "text" else "right"


def _formatted(columns: Sequence[Column], *, exact: bool = False) -> list[list[str]]:
    """Cells as text; numbers with six digits each if `exact`, else with common decimals, to be compared at a glance."""
    one_unit = _decimals([float(x) for c in columns if c.kind == "number" for x in c.cells])
    write = {
        "text": lambda x: _printable(str(x)),
        "count": lambda x: str(int(x)),
        "number": (lambda x: f"{x:.6g}") if exact else one_unit,
        "probability": (lambda x: f"{x:.6g}") if exact else probability,
    }
    return [[write[c.kind](x) for x in c.cells] for c in columns]


def _decimals(numbers: Sequence[float]) -> Callable[[float], str]:
    """Give the largest number five digits, and all others its decimals."""
    largest = max((abs(x) for x in numbers if math.isfinite(x)), default=0.0)
    exponent = math.floor(math.log10(largest)) if largest > 0 else 0
    if not -4 <= exponent <= 8:
        return lambda x: "" if math.isnan(x) else f"{x:.3e}"
    return lambda x: "" if math.isnan(x) else f"{x:,.{max(0, 4 - exponent)}f}"


def _printable(text: str) -> str:
    """Escape what would move the cursor: names come from files of others."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
