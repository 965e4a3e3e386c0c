"""load_table: all rows in memory, for what cannot go over them piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import narwhals as nw

from treeinner.rows.frames import collected
from treeinner.rows.rows import split
from treeinner.rows.stream import _wanted, naming, source_of

if TYPE_CHECKING:
    from treeinner.read.model import Model

__all__ = ["load_table"]


def load_table(model: Model, X: Any, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """X with the model's columns in memory, files read whole, and `given` with values in place of names of columns."""
    source = source_of(X)
    if source is not None:
        with naming(source.what):
            pieces = [collected(batch["X"]) for _, batch in source.read(_wanted(model, source, given))]
            X = nw.concat(pieces).to_native()
    return split(model, X, given)
