"""The exceptions and the warning a user may meet, and the words and numbers that messages and printed tables share.

Each derives from TreeInnerError and from the built-in exception that callers of scikit-learn would expect.
"""

import difflib
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "DataError", "MissingDependencyError", "ModelError", "Note", "TreeInnerError", "TreeInnerWarning",
    "UnknownParameterError", "UnsupportedModelError", "closest", "counted", "did_you_mean", "listing", "own_name",
    "readable", "short", "warn",
]  # fmt: skip


class TreeInnerError(Exception):
    """Base of every exception raised on purpose by treeinner."""


class ModelError(TreeInnerError, ValueError):
    """The model or its file is malformed: truncated, a child out of range, a leaf that is NaN."""


class UnsupportedModelError(TreeInnerError, TypeError):
    """The model is sound, but of a kind that treeinner does not read; the message says what to do instead."""


class UnknownParameterError(TreeInnerError, ValueError):
    """A training parameter is not stored in the model and could not be inferred; pass it by name."""


class DataError(TreeInnerError, ValueError):
    """The table, target or weights do not match the model."""


class MissingDependencyError(TreeInnerError, ImportError):
    """An optional library is needed for this call; the message says how to install it."""


class TreeInnerWarning(UserWarning):
    """Something was assumed, or does not hold, for the numbers that come back; the message says what to do about it."""


def readable(name: object) -> str:
    """Return a name as text that can be printed and written: a lone surrogate is shown as its escape."""
    return str(name).encode("utf-8", "backslashreplace").decode()


# What other libraries call an option, for messages to their users.
OWN_NAMES = {
    ("catboost", "base_margin"): "baseline",
    ("catboost", "reg_lambda"): "l2_leaf_reg times the mean weight of the training rows",
    ("lightgbm", "base_margin"): "init_score",
    ("lightgbm", "reg_lambda"): "lambda_l2",
    ("lightgbm", "reg_alpha"): "lambda_l1",
    ("sklearn", "reg_lambda"): "l2_regularization",
}


def own_name(option: str, library: str) -> str:
    """An option as a user of the library knows it: "reg_lambda (lambda_l2)"."""
    own = OWN_NAMES.get((library, option))
    return f"{option} ({own})" if own else option


def did_you_mean(name: object, known: Iterable[str], otherwise: str = ".") -> str:
    """End of a message about an unknown name: the known one spelt most like it, or else `otherwise`."""
    close = closest(str(name), known)
    return otherwise if close is None else f"; did you mean {close!r}?"


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that is spelt most like this one, whatever its capitals; None if none is near."""
    lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=cutoff)
    return lower[close[0]] if close else None


def counted(n: int, noun: str) -> str:
    """A number of things in words, such as "1 row" or "2,000 rows"."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def listing(items: Sequence[object], limit: int = 10) -> str:
    """The first few items, for a message."""
    shown = ", ".join(repr(item) for item in items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


def short(number: float, digits: int = 4) -> str:
    """A number with at least so many significant digits, and without an exponent up to a million."""
    return f"{number:.0f}" if 10**digits - 0.5 <= abs(number) < 1e6 else f"{number:.{digits}g}"


@dataclass(frozen=True)
class Note:
    """What was assumed, or does not hold. Code decides by `code` alone; `text` is for people."""

    code: str  # "training_rows", "few_rows", "loss_assumed", "start_assumed", "dart", "one_pass", ...
    text: str  # at most 140 characters; docs/warnings.md has the rest, by code
    quiet: bool = False  # on the result only, no warning

    def __str__(self) -> str:
        return self.text


def warn(*notes: Note) -> None:
    """Warn once, about the first note that is not quiet; the line that the warning names is the user's, not ours."""
    loud = [note for note in notes if not note.quiet]
    if not loud:
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "treeinner":
        frame, level = frame.f_back, level + 1
    codes = ", ".join(dict.fromkeys(note.code for note in loud))
    warnings.warn(f"{loud[0].text} [{codes}]", TreeInnerWarning, stacklevel=level)
