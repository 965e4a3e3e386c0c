"""The target as a model inside a wrapper saw it. Classes, not functions: a Model that holds one can be pickled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError
from treeinner.objectives.labels import as_array, positions

__all__ = ["Codes", "OneClass", "TargetColumn", "TransformedTarget"]


@dataclass(frozen=True)
class Codes:
    """Labels as their positions among the wrapper's classes."""

    classes: tuple[Any, ...]

    def __call__(self, y: Any) -> NDArray[Any]:
        """Code of each row: (rows,)."""
        labels = as_array(y, None)
        if labels.ndim != 1:
            raise DataError(f"y has {labels.shape[1]} columns; expected one label per row.")
        return positions(labels, self.classes)


@dataclass(frozen=True)
class OneClass:
    """1 where a row is of one class, else 0."""

    classes: tuple[Any, ...]
    code: int

    def __call__(self, y: Any) -> NDArray[Any]:
        """Whether each row is of the class: (rows,)."""
        return np.asarray(Codes(self.classes)(y) == self.code, np.float64)


@dataclass(frozen=True)
class TargetColumn:
    """One of several targets."""

    number: int
    of: int

    def __call__(self, y: Any) -> NDArray[Any]:
        """Column of the target: (rows,)."""
        values = as_array(y.toarray() if hasattr(y, "toarray") else y, None)
        values = values.reshape(len(values), -1)
        if values.shape[1] != self.of:
            raise DataError(
                f"y has {values.shape[1]} columns, but the model was trained on {self.of} targets; pass one column per "
                "target, in the order of training."
            )
        return values[:, self.number]


@dataclass(frozen=True, eq=False)
class TransformedTarget:
    """The target on the scale that a TransformedTargetRegressor fits."""

    transformer: Any

    def __call__(self, y: Any) -> NDArray[Any]:
        """Transformed target: (rows,) or (rows, targets)."""
        values = as_array(y, None)
        found = np.asarray(self.transformer.transform(values.reshape(len(values), -1)))
        return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
