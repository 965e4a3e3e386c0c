"""Columns that determine each other: given the others, each tells next to nothing, so they are tested as one.

Two numbers do if their rank correlation is high (of normal scores, without its sign). Several numbers may also do so
together, as a sum and its parts, though no two of them are alike. Categories are left alone: a user can name them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.cluster import hierarchy
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform

from treeinner.select.samplers import Column, Donors, normal_scores

__all__ = ["collinear_sets", "determined_sets", "rank_correlations"]

FEWEST_ROWS = 10  # that must have both values; with fewer, nothing is said about two columns
ROUNDING = 1e-9
MOST_DETERMINED = 40  # sets that are looked at two by two
NOT_EXPLAINED = 1e-3  # share of a variance that regressions leave by themselves


def collinear_sets(columns: Sequence[Column], *, threshold: float) -> list[list[int]]:
    """Column numbers of every set of two or more numbers that are alike, in the order of the table."""
    numbers = [j for j, values in enumerate(columns) if values.dtype.kind == "f"]
    if len(numbers) < 2:
        return []
    distance = 1 - rank_correlations([columns[j] for j in numbers])
    np.fill_diagonal(distance, 0.0)
    tree = hierarchy.linkage(squareform(distance, checks=False), "complete")
    cluster = hierarchy.fcluster(tree, 1 - threshold + ROUNDING, "distance")
    sets = [[numbers[k] for k in np.flatnonzero(cluster == label)] for label in dict.fromkeys(cluster.tolist())]
    return [one for one in sets if len(one) > 1]


def rank_correlations(numbers: Sequence[Column]) -> NDArray[np.float64]:
    """Absolute correlations of normal scores, over the rows that have both values: (columns, columns)."""
    scores = np.column_stack([normal_scores(values) for values in numbers])
    known = (~np.isnan(scores)).astype(np.float64)
    filled = np.nan_to_num(scores)
    filled -= known * (filled.sum(axis=0) / known.sum(axis=0).clip(1))
    squares = (filled**2).T @ known  # of column i over the rows that have j
    size = np.sqrt(squares * squares.T)
    usable = (known.T @ known >= FEWEST_ROWS) & (size > ROUNDING)
    return np.divide(np.abs(filled.T @ filled), size, out=np.zeros_like(size), where=usable).clip(0, 1)


def determined_sets(donors: Donors, sets: Sequence[list[int]], *, threshold: float) -> list[list[int]]:
    """Sets of collinear columns, those put together that determine each other; single numbers are put together too.

    Determined is a set each of whose members has at least this multiple correlation with the columns outside. Two such
    sets belong together if without the one at least twice as much is left open of the other.
    """
    told = []
    for some in [*sets, *([k] for k in sorted(donors.numbers.difference(*sets)))]:
        left = [donors.unexplained(j, some) for j in some if j in donors.numbers]
        told += [(some, left)] if len(left) == len(some) and max(left) <= 1 - threshold**2 else []
    if not 1 < len(told) <= MOST_DETERMINED:
        return list(sets)
    linked = np.zeros((len(told), len(told)), bool)
    for a, (one, left) in enumerate(told):
        for b, (other, _) in enumerate(told):
            now = np.array([donors.unexplained(j, [*one, *other]) for j in one])
            linked[a, b] = a != b and np.any(now > 2 * np.array(left) + NOT_EXPLAINED)
    label = connected_components(linked, directed=False)[1]
    joined = [sorted(k for a in np.flatnonzero(label == one) for k in told[a][0]) for one in np.unique(label)]
    there = {k for some in joined for k in some}
    return [some for some in [*(some for some in sets if there.isdisjoint(some)), *joined] if len(some) > 1]
