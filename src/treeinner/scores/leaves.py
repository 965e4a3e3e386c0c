"""What reaches the leaves: sums over rows, as fixed-point integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError
from treeinner.scores.setting import Setting

__all__ = ["Leaves"]

MAX_TOTAL = 2**63 - 1
IntegerArray = NDArray[np.int64]


@dataclass(eq=False)
class Leaves:
    """Sums over the rows in each leaf, (leaves, width); fixed-point integers, which add exactly in any order."""

    sums: IntegerArray  # of minus the gradients
    weights: IntegerArray | None  # of the weights, for centred scores
    bound: int = 0  # largest possible |sum| of either, so that no sum can overflow unseen

    @classmethod
    def empty(cls, setting: Setting) -> Leaves | None:
        """Return the leaves that no row has reached; None if the score does not need them."""
        if not setting.needs_leaves:
            return None
        shape = (len(setting.forest.leaf_nodes), setting.ensemble.width)
        return cls(np.zeros(shape, np.int64), np.zeros(shape, np.int64) if setting.centred else None)

    def raise_bound(self, by: int) -> None:
        """Note that rows were added whose largest numbers add up to `by`."""
        if self.bound + by > MAX_TOTAL:
            raise DataError(
                "The gradients of so many rows may overflow; check y for wrong units, or divide sample_weight by its "
                "mean."
            )
        self.bound += by

    def __iadd__(self, other: Leaves) -> Leaves:
        self.raise_bound(other.bound)
        self.sums += other.sums
        if other.weights is not None:
            assert self.weights is not None
            self.weights += other.weights
        return self
