"""Units of the sums: powers of two that depend on the model and its loss alone, never on the rows (docs/units.md).

Gradients and weights are summed in the leaves as integers, in units of 2^-40 and 2^-32 of a typical one. Shares of
rows are summed in limbs (core/kernels/exact.h), scaled so that a typical share is near 1. Integers add exactly, so the
same rows give the same bits in any batches, threads, files and partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from treeinner.read.trees import Trees

__all__ = [
    "FOURTH_BITS", "FOURTH_LIMBS", "GRADIENT_BITS", "LIMBS", "LOWEST_UNIT", "WEIGHT_BITS", "carry", "scale_bits",
    "totals",
]  # fmt: skip

GRADIENT_BITS = 40  # a typical gradient is held as a multiple of 2^-40 of the model's scale
WEIGHT_BITS = 32  # a weight, in units of the largest, as a multiple of 2^-32
MOST_BELOW = 8  # by which a unit may stay below that of the steepest gradient: a task of such rows has room
TYPICAL_RATE = 1 / 16  # of a learning rate: centred scores need none, and must not ask for it
NOTHING = 1e-200  # leaves below it have no score: products with gradients of their size are 0 in float64
OUTLIER_BITS = 16  # the largest leaf may be 2^16 times the median one before the unit of the gradients becomes finer,
MOST_FINER = 12  # by at most so many bits
LIMBS, FOURTH_LIMBS = 5, 10  # of an exact sum of numbers or their squares, and of fourth powers
LOWEST_UNIT = 88  # the last limb counts units of 2^-88
FOURTH_BITS = 96  # the core takes fourth powers of numbers times 2^24, so that those of small shares are not lost


def scale_bits(trees: Trees, steepest: float | None) -> tuple[int, int]:
    """Powers of two above the largest leaf value over a typical rate, and above a typical gradient.

    A gradient is taken for as large as the leaf values, few outliers aside, or as the steepest one where the loss has a
    bound: leaves of a model of large or small targets may be far from it.
    """
    forest = trees.forest
    if "leaf bits" not in forest.cache:
        factor = trees.weight * (1.0 if trees.averaged else TYPICAL_RATE)
        scale = np.divide(1.0, factor, out=np.zeros(trees.n_trees), where=factor != 0)
        sizes = np.abs(trees.value[forest.leaf_nodes] * scale[trees.tree_of_node[forest.leaf_nodes]][:, None])
        largest, finer = float(sizes.max(initial=0.0)), 0
        if largest > 0:
            above = np.frexp(largest)[1] - np.frexp(np.median(sizes[sizes > 0]))[1]
            finer = int(np.clip(above - OUTLIER_BITS, 0, MOST_FINER))
        if len(forest.leaf_nodes) == trees.n_trees:  # no splits: leaves may be rounding errors, below the gradients
            largest = max(largest, float(np.abs(trees.base).max()))
        forest.cache["leaf bits"] = int(np.frexp(largest)[1]) if largest > NOTHING else 0, finer
    value_bits, finer = forest.cache["leaf bits"]
    own, top = value_bits - finer, int(np.frexp(steepest or 0.0)[1])
    return value_bits, min(max(own, top - MOST_BELOW), top) if steepest else own


def in_units(weight: NDArray[np.float64] | None, largest: float) -> tuple[NDArray[np.float64] | None, int]:
    """Weights in units of the power of two above the largest of all rows, and its exponent; None: every row is 1."""
    part, exponent = np.frexp(largest)
    unit = int(exponent) - int(part == 0.5)  # weights of 1 have the bits of no weights
    return None if weight is None else np.ldexp(weight, -unit), unit


def carry(limbs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Hand on what a limb has beyond 32 bits, in place, so that numbers have one form: (..., limbs)."""
    for i in range(limbs.shape[-1] - 1, 0, -1):
        over = (limbs[..., i] + 2**31) >> 32
        limbs[..., i] -= over << 32
        limbs[..., i - 1] += over
    return limbs


def totals(limbs: NDArray[np.int64], unit: int) -> NDArray[Any]:
    """Numbers in limbs, times 2^-unit, correctly rounded to float64: (...)."""
    limbs = carry(limbs.copy())
    whole = limbs[..., 0].astype(object)
    for i in range(1, limbs.shape[-1]):
        whole = whole * 2**32 + limbs[..., i].astype(object)
    rounded = np.array([float(number) for number in whole.reshape(-1)], np.float64)  # correctly, by Python
    return np.asarray(np.ldexp(rounded, -unit).reshape(whole.shape))
