"""What reaches the leaves: sums over rows, as fixed-point integers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError
from treeinner.scores.exact import LIMBS, Limbs, plus, shifted_sum, whole_numbers
from treeinner.scores.setting import Setting

__all__ = ["Leaves", "check_size", "combined_leaves", "integer_sum"]

ROOM_BITS = 61  # sums below 2^61 take another task, which adds less than 2^62, without overflow
MOST_AT_ONCE = 2**62
MAX_FIXED_POINT = 2.0**62
FloatArray = NDArray[np.float64]
IntegerArray = NDArray[np.int64]


@dataclass(eq=False)
class Leaves:
    """Sums over the rows in each leaf, (leaves, width); fixed-point integers, which add exactly in any order.

    The core adds to 64-bit integers. From a bound of 2^61 on all sums are held in limbs of 32 bits instead, as many as
    they need, and the integers are what came since.
    """

    sums: IntegerArray  # of minus the gradients
    weights: IntegerArray | None  # of the weights, for centred scores
    bound: int = 0  # largest possible |sum| of either
    carried: Limbs | None = None  # (1 or 2, leaves, width, limbs)  sums and weights that outgrew the integers
    exponent: int = 0  # sums count units of 2^exponent of their usual one
    since: int = 0  # bound of the integers alone

    @classmethod
    def empty(cls, setting: Setting) -> Leaves | None:
        """Return the leaves that no row has reached; None if the score does not need them."""
        if not setting.needs_leaves:
            return None
        shape = (len(setting.forest.leaf_nodes), setting.ensemble.width)
        return cls(np.zeros(shape, np.int64), np.zeros(shape, np.int64) if setting.centred else None)

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], bound: int) -> Leaves | None:
        """Return the leaves of a file: integers, or limbs; None if it has none."""
        if "leaf_sums" not in arrays:
            return None
        found = [arrays[name] for name in ("leaf_sums", "leaf_weights") if name in arrays]
        carried = None
        if found[0].ndim == 3:
            carried, found = np.stack(found), [np.zeros(array.shape[:2], np.int64) for array in found]
        return cls(
            found[0], found[1] if len(found) > 1 else None, bound, carried, since=0 if carried is not None else bound
        )

    def raise_bound(self, by: int) -> None:
        """Note that rows were added whose largest numbers add up to `by`; called before more rows are added."""
        if by >= MOST_AT_ONCE:
            raise DataError(
                "Gradients are far out of proportion to the model's own values; check y, sample_weight and base_margin "
                "for wrong units or outliers."
            )
        self.bound += by
        self.since += by
        if self.since >> ROOM_BITS:
            self.settle()

    def settle(self) -> None:
        """Bring the sums into their only form: integers below the bound of 2^61, limbs from there on."""
        if self.bound >> ROOM_BITS and (self.since or self.carried is None):
            own = np.zeros((*self._integers().shape, LIMBS), np.int64)
            own[..., -1] = self._integers()
            self.carried = plus(own, np.zeros_like(own) if self.carried is None else self.carried)
            self.sums = np.zeros_like(self.sums)
            self.weights = None if self.weights is None else np.zeros_like(self.weights)
            self.since = 0

    def _integers(self) -> IntegerArray:
        return np.stack([self.sums] if self.weights is None else [self.sums, self.weights])

    def __iadd__(self, other: Leaves) -> Leaves:
        self.settle()  # both below 2^61, or in limbs
        other.settle()
        self.sums += other.sums
        if other.weights is not None:
            assert self.weights is not None
            self.weights += other.weights
        if other.carried is not None:
            self.carried = other.carried if self.carried is None else plus(self.carried, other.carried)
        self.bound += other.bound
        self.since += other.since
        self.settle()
        return self

    def all_limbs(self) -> Limbs:
        """Sums and weights in limbs, whatever their form: (1 or 2, leaves, width, limbs)."""
        out = replace(self, bound=max(self.bound, 1 << ROOM_BITS))
        out.settle()
        assert out.carried is not None
        return out.carried


def combined_leaves(parts: list[tuple[Leaves, int]]) -> Leaves:
    """Sum of leaves times 2^bits each, as integers that the core can add up; what does not fit them is rounded.

    The result depends on the sums alone, so that it is the same for all batches and orders.
    """
    if len(parts) == 1 and parts[0][0].carried is None:
        return parts[0][0]
    bound = sum(leaves.bound << bits for leaves, bits in parts)
    total = whole_numbers(shifted_sum((leaves.all_limbs(), bits) for leaves, bits in parts))
    excess = max(0, bound.bit_length() - ROOM_BITS)
    rounded = (total if not excess else (total + (1 << (excess - 1))) >> excess).astype(np.int64)
    weights = rounded[1] if len(rounded) > 1 else None
    return Leaves(rounded[0], weights, min(bound, 1 << ROOM_BITS), exponent=excess)


def integer_sum(values: FloatArray) -> int:
    """Sum of integers below 2^62, which may exceed 64 bits: by halves of 31 bits."""
    integers = values.astype(np.int64)
    return (int((integers >> 31).sum()) << 31) + int((integers & (2**31 - 1)).sum())


def check_size(largest: float) -> None:
    """Raise if the largest fixed-point number of a row is too large to be summed."""
    if not largest < MAX_FIXED_POINT:
        raise DataError(
            "A gradient is far out of proportion to the model's own values; check y, sample_weight and base_margin for "
            "wrong units or outliers."
        )
