"""Sums that do not depend on how the rows were cut or ordered (core/kernels/exact.h says how), and that never end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import compiled, sign_flips
from treeinner.errors import DataError

__all__ = ["LIMBS", "ExactSums", "Limbs", "Moments", "have_room", "plus", "shifted_sum", "whole_numbers", "widest"]

LIMBS = 5  # that the core adds to; there are more where a sum outgrows them
LOWEST_UNIT = 88  # the last limb counts units of 2^-88
ROOM = 2**61  # a first limb below it takes MOST_ADDED rows, or another sum, without overflow
MOST_ADDED = 2**21  # rows at once: the core adds less than 2^40 per row to a first limb
COUNT_BITS = 48  # of a count that outgrew 64 bits, in `counts`; the rest is in `high`
MANY_ROWS = 2**53  # from which counts are kept in two parts: each row adds less than 2^8
FloatArray = NDArray[np.float64]
Limbs = NDArray[np.int64]
Places = NDArray[np.intp] | None


@dataclass(eq=False)
class ExactSums:
    """Column sums as fixed-point numbers; adding is exact, so any order gives the same bits."""

    limbs: Limbs  # (columns, 5 or more)
    exponent: int  # a number x is held as x * 2^exponent
    finer: int = 0  # the last limb counts units of 2^-(88 + finer)

    @classmethod
    def zeros(cls, n_columns: int, exponent: int) -> ExactSums:
        """Sums of nothing."""
        return cls(np.zeros((n_columns, LIMBS), np.int64), exponent)

    def add(self, values: FloatArray, *, places: Places = None) -> None:
        """Add the columns of `values`, (rows, columns)."""
        self.limbs = _add(values, self.exponent, self.limbs[None], places)[0]

    def __iadd__(self, other: ExactSums) -> ExactSums:
        assert (self.exponent, self.finer) == (other.exponent, other.finer), "sums of different models"
        self.limbs = plus(self.limbs, other.limbs)
        return self

    def totals(self) -> FloatArray:
        """Return the sums, correctly rounded to float64: (columns,)."""
        unit = LOWEST_UNIT + self.finer + self.exponent
        one, up = 1 << max(unit, 0), 1 << max(-unit, 0)
        # Python divides integers with correct rounding.
        return np.array([total * up / one for total in whole_numbers(self.limbs)], np.float64)


@dataclass(eq=False)
class Moments:
    """Column sums of numbers and of their squares, as exact as `ExactSums`, and how many numbers have each size."""

    limbs: Limbs  # (2, columns, 5 or more): numbers, squares
    counts: NDArray[Any]  # (columns, 2 x sizes)  of the scaled numbers: see sign_flips
    exponent: int  # numbers are scaled by 2^exponent, so that a typical one is near 1
    n_added: int = 0  # numbers per column
    high: NDArray[np.int64] | None = None  # what the counts have above COUNT_BITS, of MANY_ROWS rows and more
    finer: int = 0  # as in ExactSums, of the numbers; twice of their squares

    @classmethod
    def zeros(cls, n_columns: int, exponent: int, *, counted: bool) -> Moments:
        """Sums of nothing; counted: whether numbers are counted by their sizes."""
        width = sign_flips.WIDTH if counted else 0
        return cls(np.zeros((2, n_columns, LIMBS), np.int64), np.zeros((n_columns, width), np.int64), exponent)

    def add(self, values: FloatArray, *, places: Places = None) -> None:
        """Add the columns of `values`, (rows, columns)."""
        assert self.n_added + len(values) < MANY_ROWS, "rows are added to a new part first"
        counts = self.counts if self.counts.shape[1] else None
        self.limbs = _add(values, self.exponent, self.limbs, places, counts)
        self.n_added += len(values)

    def __iadd__(self, other: Moments) -> Moments:
        assert (self.exponent, self.finer) == (other.exponent, other.finer), "sums of different models"
        self.limbs = plus(self.limbs, other.limbs)
        self.n_added += other.n_added
        self.counts += other.counts
        if self.n_added >= MANY_ROWS and self.counts.size:
            over = self.counts >> COUNT_BITS
            self.counts -= over << COUNT_BITS
            for high in (self.high, other.high):
                over = over if high is None else over + high
            self.high = over
        return self

    def sums(self) -> FloatArray:
        """Sums of the numbers: (columns,)."""
        return ExactSums(self.limbs[0], self.exponent, self.finer).totals()

    def squares(self) -> FloatArray:
        """Sums of their squares: (columns,)."""
        return ExactSums(self.limbs[1], 2 * self.exponent, 2 * self.finer).totals()

    def effective_rows(self) -> FloatArray:
        """(sum of squares)^2 / (sum of fourth powers): (columns,); NaN where all numbers are 0."""
        return sign_flips.effective_units(self.all_counts(), self._scaled_squares())

    def flip_p_values(self, score: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both tails of the column sums under random signs, at `score`, (columns,) each; NaN where rows are too few."""
        return sign_flips.flip_p_values(self.all_counts(), self._scaled_squares(), np.ldexp(score, self.exponent))

    def all_counts(self) -> NDArray[Any]:
        """Return the counts, rounded to float64 where they outgrew 64 bits: (columns, 2 x sizes)."""
        return self.counts if self.high is None else self.high * 2.0**COUNT_BITS + self.counts

    def _scaled_squares(self) -> FloatArray:
        return ExactSums(self.limbs[1], 0, 2 * self.finer).totals()


# -- limbs -----------------------------------------------------------------------------------------------------
def plus(a: Limbs, b: Limbs) -> Limbs:
    """Sum of two numbers in limbs, in its only form: (..., 5 or more)."""
    width = max(a.shape[-1], b.shape[-1])
    return _settled(_widened(a, width) + _widened(b, width))


def shifted_sum(parts: Iterable[tuple[Limbs, int]]) -> Limbs:
    """Sum of numbers times 2^bits, bits >= 0, exactly; (limbs, bits) of each."""
    total = np.zeros(LIMBS, np.int64)
    for limbs, bits in parts:
        up, rest = divmod(bits, 32)
        wide = _widened(limbs, limbs.shape[-1] + 1).copy()
        _carry(wide)  # so that no limb has more than 32 bits
        total = plus(total, np.concatenate([wide << rest, np.zeros((*wide.shape[:-1], up), np.int64)], axis=-1))
    return total


def whole_numbers(limbs: Limbs) -> NDArray[np.object_]:
    """Numbers in limbs as Python's integers: (...)."""
    total = np.zeros(limbs.shape[:-1], object)
    for i in range(limbs.shape[-1]):
        total = total * (1 << 32) + limbs[..., i].astype(object)
    return total


def have_room(limbs: Limbs) -> bool:
    """Whether numbers can be added to others without overflow, as those that `plus` returns: (..., limbs)."""
    return bool(limbs.shape[-1] >= LIMBS and np.all((limbs > -ROOM) & (limbs < ROOM)))


def widest(numbers: Sequence[Limbs]) -> Limbs:
    """Numbers beside each other, with as many limbs as the widest of them: (numbers, ..., limbs)."""
    width = max((limbs.shape[-1] for limbs in numbers), default=LIMBS)
    return np.array([_widened(limbs, width) for limbs in numbers], np.int64)


def _widened(limbs: Limbs, width: int) -> Limbs:
    missing = width - limbs.shape[-1]
    return limbs if not missing else np.pad(limbs, [(0, 0)] * (limbs.ndim - 1) + [(missing, 0)])


def _carry(limbs: Limbs) -> None:
    """Hand on what a limb has beyond 32 bits, in place: (..., limbs)."""
    for i in range(limbs.shape[-1] - 1, 0, -1):
        over = (limbs[..., i] + 2**31) >> 32
        limbs[..., i] -= over << 32
        limbs[..., i - 1] += over


def _settled(limbs: Limbs) -> Limbs:
    """Return sums in their only form, so that they are the same bits in any order: as few limbs as have room for all.

    Limbs are changed in place.
    """
    _carry(limbs)
    if np.abs(limbs[..., 0]).max(initial=0) >= ROOM:
        limbs = _widened(limbs, limbs.shape[-1] + 1)
        _carry(limbs)
    while limbs.shape[-1] > LIMBS and np.abs(limbs[..., 0]).max(initial=0) < 2**30:
        first = (limbs[..., 0] << 32) + limbs[..., 1]
        if np.abs(first).max(initial=0) >= ROOM:
            break
        limbs = limbs[..., 1:].copy()
        limbs[..., 0] = first
    return limbs


def _add(
    values: FloatArray, exponent: int, held: Limbs, places: Places, counts: NDArray[np.int64] | None = None
) -> Limbs:
    """Add the columns of `values`, (rows, columns), and their squares if `held`, (1 or 2, columns, limbs), has room.

    places: the columns of `held` and `counts` that they are added to, each at most once; None: all, in their order.
    Returns `held`, which is changed in place unless it outgrows its limbs.
    """
    where = slice(None) if places is None else places
    values = np.ascontiguousarray(values, np.float64)
    counted = None if counts is None else counts[where]
    for first in range(0, max(len(values), 1), MOST_ADDED):
        some = values[first : first + MOST_ADDED]
        added = np.zeros((len(held), values.shape[1], LIMBS), np.int64)
        squares = added[1] if len(added) > 1 else None
        if not compiled.add_exact(some, 2.0**exponent, added[0], squares, counted):
            raise DataError(
                f"A row's share of a score is {np.abs(some).max():.3g}, far out of proportion to the model's own "
                "values; check y, sample_weight and base_margin for wrong units or outliers."
            )
        if held.shape[-1] == LIMBS:
            added += held[:, where]
            _carry(added)
            held[:, where] = added
            if np.abs(added[..., 0]).max(initial=0) >= ROOM:
                held = _settled(held)
        else:
            held[:, where] += _widened(added, held.shape[-1])
            held = _settled(held)
    if counts is not None and counted is not None and places is not None:
        counts[places] = counted
    return held
