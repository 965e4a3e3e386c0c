"""Near-collinear columns: which ones tell so much the same that one stands for the other.

How much two columns have in common is the square root of a share of variance: of two numbers their rank correlation,
without its sign; where a column has levels, the share of the one that the other explains (Goodman and Kruskal's tau,
corrected for the number of levels; numbers in bins), the lesser of the two directions. So a town and its country are
not collinear: the country follows from the town, not the town from the country.

Several numbers may also determine each other together, as a sum and its parts do, though no two of them are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.cluster import hierarchy
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform

from treeinner.select.samplers import Column, Donors

__all__ = ["associations", "collinear_sets", "determined_sets"]

Float = NDArray[np.float64]
Codes = NDArray[np.int64]

FEWEST_ROWS = 10  # that must have both values; with fewer, nothing is said about two columns
MOST_BINS = 20  # of a number beside levels
ROUNDING = 1e-12
MOST_DETERMINED = 40  # sets that are looked at two by two
NOT_EXPLAINED = 1e-3  # share of a variance that regressions leave by themselves


def collinear_sets(columns: Sequence[Column], *, threshold: float) -> list[list[int]]:
    """Column numbers of every near-collinear set of two or more, in the order of the table."""
    if len(columns) < 2:
        return []
    distance = 1 - associations(columns)
    np.fill_diagonal(distance, 0.0)
    tree = hierarchy.linkage(squareform(distance, checks=False), "complete")
    cluster = hierarchy.fcluster(tree, 1 - threshold + ROUNDING, "distance")
    sets = [np.flatnonzero(cluster == label).tolist() for label in dict.fromkeys(cluster.tolist())]
    return [one for one in sets if len(one) > 1]


def determined_sets(donors: Donors, sets: Sequence[list[int]], *, threshold: float) -> list[list[int]]:
    """Sets of collinear columns, those put together that determine each other; single numbers are put together too.

    Determined is a set each of whose members has at least this multiple correlation with the columns outside. Two such
    sets belong together if without the one at least twice as much is left open of the other.
    """
    in_sets = {k for some in sets for k in some}
    units = [*sets, *([k] for k in sorted(donors.numbers - in_sets))]
    told = []
    for some in (some for some in units if donors.numbers.issuperset(some)):
        left = [donors.unexplained(j, some) for j in some]
        told += [(some, left)] if max(left) <= 1 - threshold**2 else []
    if not 1 < len(told) <= MOST_DETERMINED:
        return list(sets)
    linked = np.zeros((len(told), len(told)), bool)
    for a, (one, left) in enumerate(told):
        for b, (other, _) in enumerate(told):
            now = [donors.unexplained(j, [*one, *other]) for j in one]
            linked[a, b] = a != b and np.any(np.array(now) > 2 * np.array(left) + NOT_EXPLAINED)
    label = connected_components(linked, directed=False)[1]
    joined = [sorted(k for a in np.flatnonzero(label == one) for k in told[a][0]) for one in np.unique(label)]
    there = {k for some in joined for k in some}
    return [some for some in [*(some for some in sets if there.isdisjoint(some)), *joined] if len(some) > 1]


def associations(columns: Sequence[Column]) -> Float:
    """How much every two columns have in common, from 0 to 1: (columns, columns)."""
    n = len(columns)
    is_number = np.array([values.dtype.kind == "f" for values in columns])
    ranks = {j: _ranks(columns[j]) for j in np.flatnonzero(is_number).tolist()}
    out = np.eye(n)
    if ranks:
        out[np.ix_(is_number, is_number)] = _rank_correlations(np.column_stack(list(ranks.values())))
    if not is_number.all():
        levels = [_bins(ranks[j]) if is_number[j] else columns[j] for j in range(n)]
        for i in np.flatnonzero(~is_number).tolist():
            for j in (j for j in range(n) if is_number[j] or j < i):
                out[i, j] = out[j, i] = _in_common(levels[j], levels[i])
    return out


# -- numbers -------------------------------------------------------------------------------------------------
def _ranks(values: NDArray[Any]) -> Float:
    """Centred mean ranks of the values that are not missing, with unit variance; NaN for missing ones."""
    known = ~np.isnan(values)
    out = np.full(len(values), np.nan)
    if known.any():
        rank = stats.rankdata(values[known])
        spread = rank.std()
        out[known] = (rank - rank.mean()) / spread if spread > 0 else 0.0
    return out


def _rank_correlations(ranks: Float) -> Float:
    """Absolute correlations over the rows that have both values: (columns, columns).

    Ranks are those among all values of a column; they are not taken anew for every pair.
    """
    known = (~np.isnan(ranks)).astype(np.float64)
    filled = np.nan_to_num(ranks)
    n = known.T @ known
    total = filled.T @ known  # of column i over the rows that have j
    squares = (filled**2).T @ known
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = filled.T @ filled - total * total.T / n
        variance = squares - total**2 / n
        r = np.abs(covariance) / np.sqrt(np.maximum(variance, 0.0) * np.maximum(variance.T, 0.0))
    usable = (n >= FEWEST_ROWS) & (np.minimum(variance, variance.T) > ROUNDING * n)
    return np.where(usable, np.minimum(np.nan_to_num(r), 1.0), 0.0)


# -- levels --------------------------------------------------------------------------------------------------
def _bins(ranks: Float) -> Codes:
    """A number as levels: its values if they are few, else bins of about as many rows each; -1: missing."""
    known = ~np.isnan(ranks)
    distinct, level = np.unique(ranks[known], return_inverse=True)
    if len(distinct) > MOST_BINS:
        edges = np.quantile(ranks[known], np.arange(1, MOST_BINS) / MOST_BINS)
        level = np.searchsorted(np.unique(edges), ranks[known], side="right")
    out = np.full(len(ranks), -1, np.int64)
    out[known] = level
    return out


def _in_common(one: NDArray[Any], other: NDArray[Any]) -> float:
    """What two columns of levels have in common, the lesser of the two directions; -1: missing."""
    both = (one >= 0) & (other >= 0)
    if both.sum() < FEWEST_ROWS:
        return 0.0
    one, other = one[both], other[both]
    return float(np.sqrt(min(_explained(one, other), _explained(other, one))))


def _explained(target: NDArray[Any], by: NDArray[Any]) -> float:
    """Share of the variance of the levels' indicators that is between the levels of `by` (Goodman and Kruskal's tau).

    Less what so many levels explain by chance: 0 to 1.
    """
    (_, rows), (_, columns) = (np.unique(codes, return_inverse=True) for codes in (by, target))
    width = int(columns.max()) + 1
    cells, counts = np.unique(rows * width + columns, return_counts=True)
    n, of_row, of_column = len(rows), np.bincount(rows), np.bincount(columns)
    total = n - float((of_column.astype(np.float64) ** 2).sum()) / n
    between = float((counts.astype(np.float64) ** 2 / of_row[cells // width]).sum()) - (n - total)
    if len(of_row) >= n or total <= ROUNDING * n:
        return 0.0
    return float(np.clip(1 - (1 - between / total) * (n - 1) / (n - len(of_row)), 0.0, 1.0))
