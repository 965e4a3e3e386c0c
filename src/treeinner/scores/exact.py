"""Sums that do not depend on how the rows were cut or ordered (core/kernels/exact.h says how)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treeinner import compiled
from treeinner.errors import DataError

__all__ = ["ExactSums", "FourthPowers", "add_powers"]

LIMBS = 5
LOWEST_UNIT = 88  # the last limb counts units of 2^-88
SMALL_EXPONENT, LARGE_EXPONENT = compiled.FOURTHS_EXPONENTS
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

    def add(self, values: FloatArray) -> None:
        """Add the columns of `values`, (rows, columns)."""
        add_powers(values, self)

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


@dataclass(eq=False)
class FourthPowers:
    """Column sums of fourth powers, as exact as `ExactSums`, for every number whose square an ExactSums can hold."""

    small: ExactSums  # of the smaller numbers (core/kernels/exact.h says which)
    large: ExactSums  # of the others
    exponent: int  # numbers are scaled by 2^exponent, so that a typical one is near 1

    @classmethod
    def zeros(cls, n_columns: int, exponent: int) -> FourthPowers:
        """Sums of nothing."""
        small, large = (ExactSums.zeros(n_columns, part) for part in (SMALL_EXPONENT, LARGE_EXPONENT))
        return cls(small, large, exponent)

    @classmethod
    def from_limbs(cls, limbs: NDArray[np.int64], exponent: int) -> FourthPowers:
        """Inverse of `limbs`."""
        small, large = limbs
        return cls(ExactSums(small, SMALL_EXPONENT), ExactSums(large, LARGE_EXPONENT), exponent)

    def limbs(self) -> NDArray[np.int64]:
        """Both parts: (2, columns, 5)."""
        return np.stack([self.small.limbs, self.large.limbs])

    def __iadd__(self, other: FourthPowers) -> FourthPowers:
        self.small += other.small
        self.large += other.large
        return self

    def effective_rows(self, squares: ExactSums) -> FloatArray:
        """(sum of squares)^2 / (sum of fourth powers): (columns,); NaN where the latter is 0."""
        fourth = self.small.totals() + self.large.totals()
        second = ExactSums(squares.limbs, 0).totals()  # as they are held, scaled
        out = np.full(len(fourth), np.nan)
        np.divide(second * second, fourth, out=out, where=fourth > 0)
        return out


def add_powers(
    values: FloatArray,
    sums: ExactSums,
    squares: ExactSums | None = None,
    fourths: FourthPowers | None = None,
    *,
    places: NDArray[np.intp] | None = None,
) -> None:
    """Add the columns of `values`, (rows, columns), their squares and their fourth powers, in one pass.

    places: the columns of the sums that they are added to, each at most once; None: all, in their order.
    """
    assert squares is None or squares.exponent == 2 * sums.exponent, "squares of other numbers"
    assert fourths is None or fourths.exponent == sums.exponent, "fourth powers of other numbers"
    values = np.ascontiguousarray(values, np.float64)
    held = [
        sums.limbs,
        None if squares is None else squares.limbs,
        *((None, None) if fourths is None else (fourths.small.limbs, fourths.large.limbs)),
    ]
    added = held
    if places is not None:
        added = [None if limbs is None else np.zeros((len(places), LIMBS), np.int64) for limbs in held]
    if not compiled.add_exact(values, 2.0**sums.exponent, *added):
        worst = np.abs(values).max()
        raise DataError(
            f"A row's share of a score is {worst:.3g}, far out of proportion to the model's own values; "
            "check y, sample_weight and base_margin for wrong units or outliers."
        )
    if places is not None:
        for limbs, more in zip(held, added, strict=True):
            if limbs is not None:
                limbs[places] += more
