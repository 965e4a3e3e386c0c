"""Numbers in the text of model files: what the libraries read, which is less than Python does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["is_plain", "parse_number"]

Number = TypeVar("Number")


def is_plain(text: str) -> bool:
    """Whether C++ reads the digits of a text as Python does: 1_0 and Arabic digits are numbers to Python alone."""
    return text.isascii() and "_" not in text


def parse_number(word: str, kind: Callable[[str], Number]) -> Number:
    """A word as a number; ValueError where it is none to the library that wrote the file."""
    if not is_plain(word):
        raise ValueError(f"only Python reads {word[:20]!r}")
    return kind(word)
