"""What a saved file must hold: entries of the types that a class declares, arrays of a type, a shape and a range."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError, UnsupportedModelError

__all__ = ["check_array", "check_types", "naming"]


def check_types(cls: type, data: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise ModelError unless these entries of `data` fit the fields of their names."""
    for name in names:
        if name not in data:
            raise ModelError(f"not a complete saved {cls.__name__}: {name} is missing.")
        hint = _hints(cls)[name]
        if not _fits(data[name], hint):
            kind = getattr(hint, "__name__", "") if isinstance(hint, type) else str(hint).replace("typing.", "")
            raise ModelError(f"{name} is {reprlib.repr(data[name])}, expected {kind or hint}.")


def check_array(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...], low: float = -np.inf, high: float = np.inf
) -> None:
    """Raise ModelError unless an array is one of floats of this shape, and those that are not NaN lie in the range."""
    if name not in arrays:
        raise ModelError(f"not a complete file: {name} is missing.")
    array = arrays[name]
    if array.dtype != np.float64 or array.shape != shape:
        raise ModelError(f"{name} is {array.dtype.name} of shape {array.shape}, expected float64 of shape {shape}.")
    if np.any((array < low) | (array > high)):
        raise ModelError(f"{name} holds numbers outside {low:g} to {high:g}.")


@contextmanager
def naming(source: object) -> Iterator[None]:
    """Put the name of the file into an error about the model that does not have it."""
    try:
        yield
    except (ModelError, UnsupportedModelError) as error:
        if str(source) in str(error):
            raise
        raise type(error)(f"{source}: {error}") from error


_hints = cache(get_type_hints)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value that comes from JSON is one of this type, tuples being lists there."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hasattr(origin, "__value__"):  # numpy 2.5: NDArray is an alias by the statement `type`, not a class
        origin = get_origin(origin.__value__)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in arguments)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if origin is tuple:
        return isinstance(value, (list, tuple)) and all(_fits(item, arguments[0]) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(_fits(item, arguments[1]) for item in value.values())
    if hint is Any:
        return True
    if hint in (int, float):
        kind = (int, float) if hint is float else int
        return (
            isinstance(value, kind) and not isinstance(value, bool) and (isinstance(value, float) or abs(value) < 2**63)
        )
    return isinstance(value, NoneType if hint is None else origin or hint)
