"""Schema: what a table must look like for a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from treeinner.errors import DataError

Level = str | int | float | bool
Unseen = Literal["missing", "other", "error"]


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What a table must look like for a model, as its reader learned it."""

    n_columns: int
    names: tuple[str, ...] | None = None  # training names; None: the model stores none, columns go by position
    categorical: tuple[bool, ...] | None = None  # columns that hold categories; None: no column does
    # The code of a level is its position; None: numbers are codes.
    levels: tuple[tuple[Level, ...] | None, ...] | None = None
    levels_for_arrays: bool = False  # numpy columns hold levels too (scikit-learn), not codes (XGBoost, LightGBM)
    unseen: Unseen = "other"  # what a level outside `levels` is
    absent: Literal["missing", "zero"] = "zero"  # what an absent entry of a sparse matrix is
    missing: float = float("nan")  # a number that means missing besides NaN (XGBoost's `missing=`)
    allow_infinite: bool = True  # no: nor what is infinite in float32 (trees and forests of scikit-learn)
    allow_missing: bool = True
    external: str = ""  # not empty: why no table can be read for this model

    def check_shape(self, n_rows: int, n_columns: int) -> None:
        """Raise a DataError if a table of this shape does not fit the model."""
        if n_columns != self.n_columns:
            held = f"X has {n_columns} columns, but the model was trained on {self.n_columns}"
            raise DataError(f"{held}; pass the training columns in their order, or a data frame with their names.")
        if n_rows == 0:
            raise DataError("X has no rows; pass at least one.")

    def levels_of(self, j: int) -> tuple[Level, ...] | None:
        """Levels of column j; None if it is not categorical or its levels are not known."""
        return self.levels[j] if self.levels is not None and self.is_categorical(j) else None

    def is_categorical(self, j: int) -> bool:
        """Whether column j holds categories."""
        return self.categorical is not None and self.categorical[j]

    def column_label(self, j: int) -> str:
        """Column j as error messages call it."""
        return f"Column {j}" if self.names is None else f"Column {j} ({self.names[j]!r})"
