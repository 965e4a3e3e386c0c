"""Sums that do not depend on how the rows were cut or ordered (core/kernels/exact.h says how)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treeinner import compiled, sign_flips
from treeinner.errors import DataError

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
        carry(self.limbs)
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
    """Column sums of numbers and of their squares, as exact as `ExactSums`, and how many numbers have each size."""

    limbs: NDArray[np.int64]  # (2, columns, 5): numbers, squares
    counts: NDArray[np.int64]  # (columns, 2 x sizes)  of the scaled numbers: see sign_flips
    exponent: int  # numbers are scaled by 2^exponent, so that a typical one is near 1

    @classmethod
    def zeros(cls, n_columns: int, exponent: int, *, counted: bool) -> Moments:
        """Sums of nothing; counted: whether numbers are counted by their sizes."""
        width = sign_flips.WIDTH if counted else 0
        return cls(np.zeros((2, n_columns, LIMBS), np.int64), np.zeros((n_columns, width), np.int64), exponent)

    def add(self, values: FloatArray, *, places: Places = None) -> None:
        """Add the columns of `values`, (rows, columns)."""
        counts = self.counts if self.counts.shape[1] else None
        _add(values, self.exponent, self.limbs, places, counts)

    def __iadd__(self, other: Moments) -> Moments:
        assert self.exponent == other.exponent, "sums of different models"
        self.limbs += other.limbs
        self.counts += other.counts
        carry(self.limbs)
        return self

    def sums(self) -> FloatArray:
        """Sums of the numbers: (columns,)."""
        return ExactSums(self.limbs[0], self.exponent).totals()

    def squares(self) -> FloatArray:
        """Sums of their squares: (columns,)."""
        return ExactSums(self.limbs[1], 2 * self.exponent).totals()

    def effective_rows(self) -> FloatArray:
        """(sum of squares)^2 / (sum of fourth powers): (columns,); NaN where all numbers are 0."""
        return sign_flips.effective_units(self.counts, self._scaled_squares())

    def flip_p_values(self, score: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both tails of the column sums under random signs, at `score`, (columns,) each; NaN where rows are too few."""
        return sign_flips.flip_p_values(self.counts, self._scaled_squares(), np.ldexp(score, self.exponent))

    def _scaled_squares(self) -> FloatArray:
        return ExactSums(self.limbs[1], 0).totals()


def carry(limbs: NDArray[np.int64]) -> None:
    """Hand on what a limb has beyond 32 bits, in place, so that no number of rows overflows one: (..., 5).

    A sum has one such form, so that sums are the same bits in any order.
    """
    for i in range(LIMBS - 1, 0, -1):
        over = (limbs[..., i] + 2**31) >> 32
        limbs[..., i] -= over << 32
        limbs[..., i - 1] += over
    if np.abs(limbs[..., 0]).max(initial=0) >= 2**62:
        raise DataError("The sums of so many rows do not fit; check y and sample_weight for wrong units or outliers.")


def _add(
    values: FloatArray, exponent: int, held: NDArray[np.int64], places: Places, counts: NDArray[np.int64] | None = None
) -> None:
    """Add the columns of `values`, (rows, columns), and their squares if `held`, (1 or 2, columns, 5), has room.

    places: the columns of `held` and `counts` that they are added to, each at most once; None: all, in their order.
    """
    added, counted = held, counts
    if places is not None:
        added = np.zeros((len(held), len(places), LIMBS), np.int64)
        counted = None if counts is None else counts[places]
    squares = added[1] if len(added) > 1 else None
    if not compiled.add_exact(np.ascontiguousarray(values, np.float64), 2.0**exponent, added[0], squares, counted):
        worst = np.abs(values).max()
        raise DataError(
            f"A row's share of a score is {worst:.3g}, far out of proportion to the model's own values; "
            "check y, sample_weight and base_margin for wrong units or outliers."
        )
    carry(added)
    if places is not None:
        held[:, places] += added
        carry(held)
        if counts is not None and counted is not None:
            counts[places] = counted
