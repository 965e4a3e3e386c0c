"""Sums that do not depend on how the rows were cut or ordered (core/kernels/exact.h says how)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treeinner import compiled
from treeinner.errors import DataError
from treeinner.inference import effective_units

__all__ = ["ExactSums", "Moments"]

LIMBS = 5
LOWEST_UNIT = 88  # the last limb counts units of 2^-88
FloatArray = NDArray[np.float64]
Places = NDArray[np.intp] | None


@dataclass(eq=False)
class ExactSums:
    """Column sums as fixed-point numbers; adding is exact, so any order gives the same bits."""

    limbs: NDArray[np.int64]  # (columns, 5)
    exponent: int  # a number x is held as x * 2^exponent

    @classmethod
    def zeros(cls, n_columns: int, exponent: int) -> ExactSums:
        """Sums of nothing."""
        return cls(np.zeros((n_columns, LIMBS), np.int64), exponent)

    def add(self, values: FloatArray, *, places: Places = None) -> None:
        """Add the columns of `values`, (rows, columns)."""
        _add(values, self.exponent, self.limbs[None], places)

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
            total = 0
            for limb in limbs:
                total = (total << 32) + limb
            out[column] = total * up / one  # Python divides integers with correct rounding
        return out


@dataclass(eq=False)
class Moments:
    """Column sums of numbers, of their squares and of their fourth powers, as exact as `ExactSums`.

    Fourth powers fit for every number whose square does: those of the smaller and of the larger numbers
    (kernels/exact.h says which) are held apart.
    """

    limbs: NDArray[np.int64]  # (4, columns, 5): numbers, squares, small and large fourth powers
    exponent: int  # numbers are scaled by 2^exponent, so that a typical one is near 1

    @classmethod
    def zeros(cls, n_columns: int, exponent: int) -> Moments:
        """Sums of nothing."""
        return cls(np.zeros((4, n_columns, LIMBS), np.int64), exponent)

    def add(self, values: FloatArray, *, places: Places = None, fourths: bool = True) -> None:
        """Add the columns of `values`, (rows, columns), their squares and, if asked, their fourth powers."""
        _add(values, self.exponent, self.limbs if fourths else self.limbs[:2], places)

    def __iadd__(self, other: Moments) -> Moments:
        assert self.exponent == other.exponent, "sums of different models"
        self.limbs += other.limbs
        return self

    def sums(self) -> FloatArray:
        """Sums of the numbers: (columns,)."""
        return ExactSums(self.limbs[0], self.exponent).totals()

    def squares(self) -> FloatArray:
        """Sums of their squares: (columns,)."""
        return ExactSums(self.limbs[1], 2 * self.exponent).totals()

    def effective_rows(self) -> FloatArray:
        """(sum of squares)^2 / (sum of fourth powers): (columns,); NaN where the latter is 0."""
        exponents = (0, *compiled.FOURTHS_EXPONENTS)  # of the numbers as they are held, scaled
        parts = zip(self.limbs[1:], exponents, strict=True)
        squares, small, large = (ExactSums(limbs, exponent).totals() for limbs, exponent in parts)
        return effective_units(squares, small + large)


def _add(values: FloatArray, exponent: int, held: NDArray[np.int64], places: Places) -> None:
    """Add the columns of `values`, (rows, columns), and their powers as far as `held`, (1, 2 or 4, columns, 5), goes.

    places: the columns of `held` that they are added to, each at most once; None: all, in their order.
    """
    added = held if places is None else np.zeros((len(held), len(places), LIMBS), np.int64)
    powers = [*added, *[None] * (4 - len(added))]
    if not compiled.add_exact(np.ascontiguousarray(values, np.float64), 2.0**exponent, *powers):
        worst = np.abs(values).max()
        raise DataError(
            f"A row's share of a score is {worst:.3g}, far out of proportion to the model's own values; "
            "check y, sample_weight and base_margin for wrong units or outliers."
        )
    if places is not None:
        held[:, places] += added
