"""From exceptions to one sentence and an exit code."""

from __future__ import annotations

import functools
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec

import typer

from treeinner.cli import screen
from treeinner.errors import DataError, TreeInnerError

P = ParamSpec("P")

OUT_OF_MEMORY = (
    "out of memory. importance and attribute -o FILE.parquet read files piece by piece; everything else, and --rows, "
    "holds the rows in memory: use fewer of them, or fewer threads (--jobs 1)."
)
STOPPED = 130  # 128 + SIGINT, as a shell reports it

# Errors of the library speak Python; here the same options have dashes. Whole calls stay Python.
NAMES = "learning_rate|reg_lambda|reg_alpha|iteration_range|feature_groups|qid|method|score|objective"
NAMES += "|cv|repeats|max_features|test|q|y|sample_weight|clusters|keep_cols"
OPTION = re.compile(rf"ti\.\w+\([^)]*\)|\b({NAMES})=(\.\.\.|'[^']*'|\(\d+, \d+\)|-?\w(?:[\w.+-]*\w)?)")
COLUMNS = {"sample_weight": "--weight", "clusters": "--clusters", "qid": "--qid"}
OPTIONS = {**COLUMNS, "y": "--target", "keep_cols": "--keep"}  # that are not called like the argument
COLUMN = re.compile(rf"(?:^|(?<=: ))({'|'.join(COLUMNS)})(?= (?:was|is|has|holds|only) )")
PYTHON_ONLY = {
    "pass collinear={'a name': [columns]}, or a lower number": "say --together with their names",
    "pass a classifier as estimator": "pass --task classes",
    "such as 0.1, or None": "such as 0.1",
    "name those that are not features.": "name those that are not features: --target COLUMN.",
    "pass the training columns in training order, and no others": "write the training columns in training order",
    "load it yourself and pass the object": "save it in Python with treeinner.read_model(model).save('model.ti')",
    "pass objective=callable(y, margin) -> gradient, or use": "use",
    "pass objective=callable(y, margin) -> gradient, or": "pass",
    'ti.importance(model, X, score="abs")': "--score abs",
    "pass a function (y, margin) -> gradient, objectives.register it, or use one of:": "choose one of:",
}


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Give a command its exit codes: 1 for our errors, 130 for Ctrl-C, 0 if the reader of a pipe closed it."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with _warnings_as_notes():
                command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            _forget_stdout()
        except KeyboardInterrupt:
            screen.note("Stopped.")
            raise typer.Exit(STOPPED) from None
        except MemoryError:
            screen.error(OUT_OF_MEMORY)
            raise typer.Exit(1) from None
        except (TreeInnerError, OSError) as error:
            screen.error(_sentence(error))
            raise typer.Exit(1) from error

    return run


@contextmanager
def input_errors() -> Iterator[None]:
    """Turn the ValueError or TypeError by which a call refuses what the user typed into an error of ours."""
    try:
        yield
    except TreeInnerError:
        raise
    except (ValueError, TypeError) as error:
        raise DataError(str(error)) from error


@contextmanager
def remembered_warnings() -> Iterator[list[str]]:
    """What was warned of: a result has it among its notes too, and it is to be shown once."""
    said: list[str] = []
    shown = warnings.showwarning

    def show(message: Warning | str, *args: Any, **kwargs: Any) -> None:
        said.append(str(message))
        shown(message, *args, **kwargs)

    warnings.showwarning = show
    try:
        yield said
    finally:
        warnings.showwarning = shown


def show_notes(notes: Iterable[str], said: Sequence[str]) -> None:
    """Show the notes of a result that were not warned of."""
    for note in notes:
        if note not in said:
            screen.note(f"Note: {as_options(note)}")


def _sentence(error: Exception) -> str:
    """Say it in the words of the command line, on one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    text = _here(" ".join(str(error).split()))
    text = as_options(COLUMN.sub(lambda match: COLUMNS[match[1]], text))
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _here(text: str) -> str:
    """A sentence of the library with advice for the command line."""
    for python, here in PYTHON_ONLY.items():
        text = text.replace(python, here)
    return text


def as_options(text: str) -> str:
    """A sentence of the library with its arguments as options."""
    return OPTION.sub(_as_option, text)


def _as_option(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    value = "VALUE" if match[2] == "..." else match[2].strip("'()").replace(", ", ":")
    option = OPTIONS.get(match[1], f"--{match[1].replace('_', '-')}")
    return f"{option} {value}"


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Show a warning without the line of code it came from."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        screen.note(f"Warning: {as_options(_here(' '.join(str(message).split())))}")

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield


def _forget_stdout() -> None:
    """Send what is still buffered nowhere: it must not raise again when Python ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
