"""Sums that do not depend on how the rows were cut or ordered (core/exact.h says how)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treeinner import kernels
from treeinner.errors import DataError

__all__ = ["ExactSums"]

LIMBS = 5
LOWEST_UNIT = 88  # the last limb counts units of 2^-88
FloatArray = NDArray[np.float64]


@dataclass(eq=False)
class ExactSums:
    """Column sums as fixed-point numbers; adding is exact, so any order gives the same bits."""

    limbs: NDArray[np.int64]  # (columns, 5)
    exponent: int  # a number x is held as x * 2^exponent

    @classmethod
    def zeros(cls, n_columns: int, exponent: int) -> ExactSums:
        """Sums of nothing."""
        return cls(np.zeros((n_columns, LIMBS), np.int64), exponent)

    def add(self, values: FloatArray, *, square: bool = False) -> None:
        """Add the columns of `values`, (rows, columns), or their squares (with half the exponent)."""
        exponent = self.exponent // 2 if square else self.exponent
        values = np.ascontiguousarray(values, np.float64)
        if not kernels.add_exact(values, 2.0**exponent, square, self.limbs):
            worst = np.abs(values).max()
            raise DataError(
                f"A row's share of a score is {worst:.3g}, out of all proportion to the model's own values; "
                "check y, sample_weight and base_margin for wrong units or outliers."
            )

    def __iadd__(self, other: ExactSums) -> ExactSums:
        assert self.exponent == other.exponent, "sums of different models"
        self.limbs += other.limbs
        return self

    def totals(self) -> FloatArray:
        """Return the sums, correctly rounded to float64: (columns,)."""
        out = np.empty(len(self.limbs))
        one = 1 << (LOWEST_UNIT + max(self.exponent, 0))
        up = 1 << max(-self.exponent, 0)
        for column, limbs in enumerate(self.limbs.tolist()):
            whole = 0
            for limb in limbs:
                whole = (whole << 32) + limb
            out[column] = whole * up / one  # Python divides whole numbers with correct rounding
        return out
