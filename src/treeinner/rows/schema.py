"""Schema: what a table must look like for a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from treeinner.errors import DataError

Level = str | int | float | bool
Unseen = Literal["missing", "other", "error"]


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What a table must look like for a model, as its reader learned it."""

    n_columns: int
    names: tuple[str, ...] | None = None  # training names; None: the model stores none, columns go by position
    blank_is_underscore: bool = False  # the library keeps "my col" as "my_col" (LightGBM)
    categorical: tuple[bool, ...] | None = None  # columns that hold categories; None: no column does
    # The code of a level is its position; None: numbers are codes.
    levels: tuple[tuple[Level, ...] | None, ...] | None = None
    levels_for_arrays: bool = False  # numpy columns hold levels too (scikit-learn), not codes (XGBoost, LightGBM)
    unseen: Unseen = "other"  # what a level outside `levels` is
    known_codes: tuple[int | None, ...] | None = None  # a code outside 0..known-1 is missing; None: it is "other"
    absent: Literal["missing", "zero"] = "zero"  # what an absent entry of a sparse matrix is
    missing: float = float("nan")  # a number that means missing besides NaN (XGBoost's `missing=`)
    allow_infinite: bool = True  # no: nor what is infinite in float32 (trees and forests of scikit-learn)
    allow_missing: bool = True
    external: str = ""  # not empty: only the model object can make this table; the text says what to call instead

    def check_shape(self, n_rows: int, n_columns: int) -> None:
        """Raise a DataError if a table of this shape does not fit the model."""
        if n_columns != self.n_columns:
            raise DataError(
                f"X has {n_columns} columns, but the model was trained on {self.n_columns}; "
                "pass the training columns in training order, or a data frame with their names."
            )
        if n_rows == 0:
            raise DataError("X has no rows; pass at least one.")

    def on_columns(self, positions: Sequence[int], n_columns: int, names: tuple[str, ...] | None) -> Schema:
        """Return the schema of a wider table, whose columns `positions` are these."""

        def spread(given: Sequence[Any] | None, other: Any) -> tuple[Any, ...] | None:
            if given is None:
                return None
            known = dict(zip(positions, given, strict=True))
            return tuple(known.get(j, other) for j in range(n_columns))

        return replace(
            self,
            n_columns=n_columns,
            names=names,
            blank_is_underscore=False,  # these names come from the table itself
            categorical=spread(self.categorical, False),
            levels=spread(self.levels, None),
            known_codes=spread(self.known_codes, None),
        )

    def levels_of(self, j: int) -> tuple[Level, ...] | None:
        """Levels of column j; None if it is not categorical or its levels are not known."""
        return self.levels[j] if self.is_categorical(j) and self.levels is not None else None

    def is_categorical(self, j: int) -> bool:
        """Whether column j holds categories."""
        return self.categorical is not None and self.categorical[j]

    def column_label(self, j: int) -> str:
        """Column j as error messages call it."""
        return f"Column {j}" if self.names is None else f"Column {j} ({self.names[j]!r})"
