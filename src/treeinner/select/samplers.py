"""A column given the other ones: which row's value each row takes.

Redrawn columns are made of the table's own values. Row i takes the value of a donor row, so that categories, missing
values, strings and encoded columns need no conversion, and codes that a model bins once are permuted as they are.

Every column is described by a few numbers, its basis: a number by its normal score (the normal quantile of its rank),
the square of that and hinges, max(score - knot, 0), a missing value by an indicator, a level by an indicator. A column
is regressed on the bases of all other columns, by ridge with the penalty that predicts rows left out best. Then, for
each row,

1. levels and missing values: a pattern is drawn with its probability given the other columns;
2. among the rows of that pattern that are predicted alike one is drawn, and with it a residual;
3. numbers: the donor is the row whose value is nearest to prediction plus residual.

Where rows have groups, residuals are exchanged group by group, and what is constant in every group stays so.

What it does not see: dependence that no sum of functions of single columns tells, such as x3 = x1 x2; and bends that
are narrower than the distance of the knots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import spatial, special, stats

from treeinner.rows.columns import is_missing, numbers
from treeinner.rows.frames import as_frame, collected, dictionary
from treeinner.rows.table import is_sparse

__all__ = ["Column", "Donors", "normal_scores", "read_columns"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Column = FloatArray | IntArray

FEW_VALUES = 10  # a numeric column of at most so many distinct values is drawn as levels
MOST_LEVELS = 20  # rarer levels share one indicator
PENALTIES = np.array([0.003, 0.02, 0.1, 0.5])  # of ridge, in units of a standardised column
KNOTS = np.arange(-1.5, 1.6, 0.5)  # of the hinges of a normal score
FOLDS = 5
NEIGHBOURS = 15  # rows on either side that are predicted alike, at least; else a fortieth or twentieth of all


def read_columns(X: Any) -> list[Column]:
    """Columns of a checked table (select/folds.py): numbers (NaN is missing), or codes of levels (-1 is missing)."""
    if is_sparse(X):
        by_column = X.tocsc()
        return [by_column[:, [j]].toarray()[:, 0].astype(np.float64) for j in range(X.shape[1])]
    if as_frame(X) is not None:
        return [_read_series(series) for series in collected(X).iter_columns()]
    return [_read_array(X[:, j], f"Column {j}") for j in range(X.shape[1])]


def _read_series(series: nw.Series[Any]) -> Column:
    if isinstance(series.dtype, (nw.Categorical, nw.Enum, nw.String)):
        return np.asarray(dictionary(series)[0], dtype=np.int64)
    if isinstance(series.dtype, (nw.Datetime, nw.Date, nw.Duration)):
        known = ~series.is_null().to_numpy()
        return np.where(known, series.to_numpy().astype("int64"), np.nan)
    if series.dtype.is_numeric() or isinstance(series.dtype, nw.Boolean):
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    return _read_array(np.array(series.to_list(), dtype=object), f"Column {series.name!r}")


def _read_array(values: NDArray[Any], where: str) -> Column:
    if values.dtype.kind in "OUST":
        items = values.tolist()
        if any(isinstance(item, (str, bytes)) for item in items):
            place = {item: i for i, item in enumerate(dict.fromkeys(items)) if not is_missing(item)}
            return np.array([place.get(item, -1) for item in items], dtype=np.int64)
    return numbers(values, where).astype(np.float64)


# -- one column as a pattern and a number ----------------------------------------------------------------------
def _by_frequency(values: Column) -> IntArray:
    """Number of each row's value, 0 for the commonest one; the rare ones share a number. NaN is a value."""
    _, level, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.empty(len(count), np.int64)
    rank[np.argsort(-count, kind="stable")] = np.arange(len(count))
    return np.minimum(rank, MOST_LEVELS)[level]


def normal_scores(values: Column) -> FloatArray:
    """Normal quantiles of the ranks; NaN where the value is missing. Infinite values are the smallest or largest."""
    known = ~np.isnan(values)
    out = np.full(len(values), np.nan)
    out[known] = special.ndtri((stats.rankdata(values[known]) - 0.5) / known.sum())
    return out


def _basis(level: IntArray, score: FloatArray | None) -> list[FloatArray]:
    """What describes a column in the regressions of the others. The commonest level needs no indicator."""
    out = [(level == one).astype(np.float64) for one in range(1, int(level.max()) + 1)]
    if score is not None:
        filled = np.nan_to_num(score)
        known = ~np.isnan(score)
        out += [filled, np.where(known, filled**2 - 1, 0.0), *(known * np.maximum(filled - k, 0.0) for k in KNOTS)]
    return out


def _decomposed(products: FloatArray) -> tuple[FloatArray, FloatArray]:
    """V (m, components) and d > 0 of M'M = V diag(d) V'."""
    d, V = np.linalg.eigh(products)
    used = d > 1e-10 * d.max(initial=1.0)
    return V[:, used], d[used]


def _decomposed_rows(M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """As `_decomposed`, from fewer rows than columns: M M' is smaller than M'M, and has the same d > 0."""
    V, d = _decomposed(M @ M.T)
    return M.T @ (V / np.sqrt(d)), d


def _slopes(V: FloatArray, d: FloatArray, penalty: float, moments: FloatArray, without: NDArray[np.intp]) -> FloatArray:
    """Slopes of M in the ridge regression on all its columns but some: 0 at those.

    moments (m, q) is M' target. Dropping columns K changes P = (M'M + penalty)^-1 to P - P_K (P_KK)^-1 P_K'.
    """
    shrink = 1 / (d + penalty)
    slopes = V @ (shrink[:, None] * (V.T @ moments))
    P_K = -(V @ ((d * shrink)[:, None] * V[without].T))
    P_K[without, np.arange(len(without))] += 1  # times the penalty, which cancels
    return np.asarray(slopes - P_K @ np.linalg.solve(P_K[without], slopes[without]))


class Donors:
    """Donor rows for every column of a table. What all columns share is worked out once.

    That is the decomposition of every fold of the ridge regressions, on the bases of all columns.
    """

    def __init__(self, columns: Sequence[Column], groups: NDArray[Any] | None = None) -> None:
        self.n_rows = len(columns[0])
        self._group, self._first = None, np.empty(0, np.intp)  # of every row; the first row of every group
        if groups is not None:
            _, self._first, self._group = np.unique(groups, return_index=True, return_inverse=True)
        self._level: list[IntArray] = []  # of each column; a numeric one: whether it is missing
        self._score: dict[int, FloatArray] = {}  # normal scores of numeric columns
        basis: list[FloatArray] = []
        owner: list[int] = []
        for j, values in enumerate(columns):
            if values.dtype.kind == "f" and len(np.unique(values)) > FEW_VALUES:
                self._level.append(np.isnan(values).astype(np.int64))
                self._score[j] = normal_scores(values)
            else:
                self._level.append(_by_frequency(values))
            own = _basis(self._level[j], self._score.get(j))
            basis += own
            owner += [j] * len(own)
        self.numbers = set(self._score)  # columns that are drawn as numbers
        table = np.stack(basis, axis=1) if basis else np.empty((self.n_rows, 0))
        spread = table.std(axis=0)
        used = spread > 1e-9  # a constant says nothing
        self._M = M = (table[:, used] - table[:, used].mean(axis=0)) / spread[used]
        self._owner = np.array(owner, np.int64)[used]
        n, m = M.shape
        shuffled = np.random.default_rng(0).permutation(n)  # folds are no matter of chance: one table, one regression
        self._folds = [np.sort(part) for part in np.array_split(shuffled, min(FOLDS, n)) if n > 1]
        if m > n // 2:
            self._decomposed = [_decomposed_rows(np.delete(M, part, axis=0)) for part in self._folds]
        else:
            products = M.T @ M
            self._decomposed = [_decomposed(products - M[part].T @ M[part]) for part in self._folds]

    def draw(self, together: Sequence[int], n_draws: int, rng: np.random.Generator) -> IntArray:
        """Draw donors of columns, together given all other ones: (n_draws, columns, rows).

        Row i takes the value of row `out[draw, column, i]`.
        """
        scores = {j: np.nan_to_num(self._score[j]) for j in together if j in self._score}  # a missing one has a pattern
        predicted = {j: self._regressed(together, score[:, None])[:, 0] for j, score in scores.items()}
        row = self._rows(together, self._likeness(together, predicted), n_draws, rng)
        return np.stack([self._nearest(j, predicted[j], row) if j in predicted else row for j in together], axis=1)

    def unexplained(self, j: int, without: Sequence[int]) -> float:
        """Share of the variance of a number, as a normal score, that the columns but some leave; from 0 to 1."""
        score = np.nan_to_num(self._score[j])
        told = self._regressed(without, score[:, None], PENALTIES[:1])  # the best where they tell much
        return float(np.var(score - told[:, 0]) / np.var(score))

    def _regressed(self, columns: Sequence[int], target: FloatArray, penalties: FloatArray = PENALTIES) -> FloatArray:
        """Predictions of target (n, q) from the other columns, by folds: no row has a part in its own.

        A target that is constant in every group has such predictions, the means over the groups.
        """
        mean = target.mean(axis=0)
        centred = target - mean
        without = np.flatnonzero(np.isin(self._owner, columns))
        out = np.zeros((len(penalties), *target.shape))
        moments = self._M.T @ centred
        for part, (V, d) in zip(self._folds, self._decomposed, strict=True):
            rows, n = self._M[part], len(target) - len(part)
            of_fold = moments - rows.T @ centred[part]
            for one, penalty in enumerate(n * penalties):
                out[one, part] = rows @ _slopes(V, d, penalty, of_fold, without)
        errors = ((centred - out) ** 2).sum(axis=(1, 2))
        best = errors.argmin()
        useless = errors[best] >= (centred**2).sum()
        found = np.zeros_like(target) if useless else out[best]
        if self._group is not None and self._is_constant(target):
            sums = np.stack([np.bincount(self._group, column) for column in found.T], axis=1)
            found = (sums / np.bincount(self._group)[:, None])[self._group]
        return np.asarray(mean + found)

    def _is_constant(self, values: NDArray[Any]) -> bool:
        """Whether the rows of each group have the same values; False without groups."""
        return self._group is not None and np.array_equal(values, values[self._first][self._group])

    def _likeness(self, together: Sequence[int], predicted: dict[int, FloatArray]) -> FloatArray | None:
        """Number by which rows have residuals alike; None if any row's residual is as good as any other's.

        It is the prediction, or where the others do not tell the mean, what they tell about the size of the residual:
        of x given x squared, for one. A set shares the residuals of its rows, so its first numeric column decides.
        """
        for j, mean in predicted.items():
            if np.ptp(mean) > 0:
                return mean
            size = np.abs(self._score[j] - mean)
            size = self._regressed(together, np.where(np.isnan(size), np.nanmean(size), size)[:, None])[:, 0]
            return size if np.ptp(size) > 0 else None
        return None

    def _rows(
        self, together: Sequence[int], likeness: FloatArray | None, n_draws: int, rng: np.random.Generator
    ) -> IntArray:
        """For each row another one: its levels and missing values are plausible, its residual is: (n_draws, rows)."""
        n = self.n_rows
        levels = [self._level[j] for j in together if self._level[j].any()]
        if not levels and self._group is not None:
            return self._rows_by_group(self._group, likeness, rng.random((n_draws, len(self._first))))
        if not levels and likeness is None:
            return rng.permuted(np.broadcast_to(np.arange(n), (n_draws, n)), axis=1)
        pattern, drawn = np.zeros(n, np.int64), np.zeros((n_draws, n), np.int64)
        if levels:
            pattern = _by_frequency(np.unique(np.stack(levels), axis=1, return_inverse=True)[1].reshape(-1))
            indicators = np.eye(int(pattern.max()) + 1)[pattern]
            bounds = self._probabilities(together, indicators).cumsum(axis=1)[:, :-1]
            drawn = (rng.random((n_draws, n, 1)) > bounds).sum(axis=2)
            drawn = drawn[:, self._first[self._group]] if self._is_constant(pattern) else drawn
        chance = rng.random((n_draws, n))
        out = np.empty((n_draws, n), np.int64)
        for one in range(int(pattern.max()) + 1):
            members = np.flatnonzero(pattern == one)
            first, width = np.zeros(n, np.int64), len(members)
            if likeness is not None:
                members = members[np.argsort(likeness[members], kind="stable")]
                width = min(2 * max(NEIGHBOURS, len(members) // 20) + 1, len(members))
                place = np.searchsorted(likeness[members], likeness)
                first = np.clip(place - width // 2, 0, len(members) - width)
            wanted = drawn == one
            out[wanted] = members[(first + (chance * width).astype(np.int64))[wanted]]
        return out

    def _rows_by_group(self, group: IntArray, likeness: FloatArray | None, chance: FloatArray) -> IntArray:
        """For each row one of another group, the same one for all rows of a group: residuals depend there as they did.

        A group is drawn among those alike on average, by chance (draws, groups); rows take theirs from it in the order
        of their likeness.
        """
        alike = np.zeros(len(group)) if likeness is None else likeness
        order, size = np.lexsort((alike, group)), np.bincount(group)
        start, n = np.cumsum(size) - size, len(size)
        ranked = np.argsort(np.bincount(group, alike) / size, kind="stable")
        width = n if likeness is None else min(2 * max(NEIGHBOURS, n // 20) + 1, n)
        first = np.clip(np.argsort(ranked) - width // 2, 0, n - width)
        donor = ranked[first + (chance * width).astype(np.int64)]
        own = group[order]
        of, place = donor[:, own], np.arange(len(own)) - start[own]
        out = np.empty((len(chance), len(group)), np.int64)
        out[:, order] = order[start[of] + place * size[of] // size[own]]
        return out

    def _probabilities(self, together: Sequence[int], indicators: FloatArray) -> FloatArray:
        """Probability of each pattern given the other columns: its share among the rows that are predicted alike."""
        predicted = self._regressed(together, indicators)
        n = len(predicted)
        if not np.ptp(predicted, axis=0).any():
            return np.broadcast_to(indicators.mean(axis=0), indicators.shape)
        if indicators.shape[1] > 2:
            count = min(2 * max(NEIGHBOURS, n // 100) + 1, n)
            alike = spatial.cKDTree(predicted, balanced_tree=False).query(predicted, k=count)[1].reshape(n, -1)
            return np.asarray(indicators[alike].mean(axis=1))
        # Of two patterns one prediction tells the other: rows alike are neighbours in its order.
        reach = max(NEIGHBOURS, n // 40)
        begin, end = np.maximum(np.arange(n) - reach, 0), np.minimum(np.arange(n) + reach + 1, n)
        order = np.argsort(predicted[:, 1], kind="stable")
        sums = np.append(0.0, indicators[order, 1].cumsum())
        share = np.empty(n)
        share[order] = (sums[end] - sums[begin]) / (end - begin)
        return np.stack([1 - share, share], axis=1)

    def _nearest(self, j: int, predicted: FloatArray, row: IntArray) -> IntArray:
        """Donor in a numeric column: the nearest to prediction plus the residual of `row`; itself where it misses."""
        score = self._score[j]
        known = ~np.isnan(score)
        order = np.argsort(score, kind="stable")[: known.sum()]
        # A normal score is the quantile of a rank: the nearest rank needs no search.
        chance = special.ndtr(predicted + (np.nan_to_num(score) - predicted)[row])
        rank = np.minimum((chance * len(order)).astype(np.int64), len(order) - 1)
        return np.where(known[row], order[rank], row)
