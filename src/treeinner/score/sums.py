"""Sums: what is kept of the rows, as integers that add up to the same bits in any partition and order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, ModelError
from treeinner.kernels import add_exact
from treeinner.kernels.units import FOURTH_BITS, FOURTH_LIMBS, LIMBS, LOWEST_UNIT, carry, totals
from treeinner.rows.segments import check_number_of_segments

__all__ = ["LOSSES", "Sums", "exact_sums"]

Float = NDArray[np.float64]
Limbs = NDArray[np.int64]
Group = NDArray[np.integer[Any]] | None
MOST_AT_ONCE = 2**21  # rows that the core adds before limbs are carried: each adds less than 2^40 to a limb
MOST_ADDED = 2.0**62  # what a task may add to a leaf
ROOM = 2**61  # integers below it take another task
# Sums over the rows: their losses before the first round, after the last, and if predicted perfectly; how many have no
# such bound; the fall of the loss by the gradients at the start of each step; and what of the fall no feature gets.
LOSSES = ("before", "after", "least", "unbounded", "first_order", "base")
# Of the signal score, by column of the shares: sums of what was put back and of the terms of `holds`, s without the
# feature's effect and l with it, and squares of s, l and s - l.
SIGNAL = ("put_back", "s", "l", "s^2", "l^2", "(s - l)^2")


class NoRoomError(DataError):
    """A task adds too much to a leaf; one of fewer rows adds less."""


@dataclass(eq=False, kw_only=True)
class Sums:
    """Sums over rows: what reached the leaves (pass 1), shares of the rows (pass 2). `a + b` adds; pickle moves them.

    Columns of the shares are (feature, output) pairs, then the total of each feature where there are several outputs.
    """

    key: str  # digest of model, spec and node values: only equal keys add
    exponent: int  # shares and losses are held times 2^exponent
    weight_exponent: int = 0  # weights count units of 2^weight_exponent
    rows: int = 0
    units: int = 0  # rows of positive weight
    weight: Limbs = field(default_factory=lambda: np.zeros((2, 1, LIMBS), np.int64))  # of weights, and their squares
    leaf: Limbs | None = None  # (2, leaves, width, 2) of minus the gradients, and of the weights
    shares: Limbs | None = None  # (2, columns, LIMBS) of the shares and their squares
    fourths: Limbs | None = None  # (columns, FOURTH_LIMBS) of their fourth powers
    signal: Limbs | None = None  # (6, columns, LIMBS) by SIGNAL
    losses: Limbs | None = None  # (6, LIMBS) by LOSSES
    moved: Limbs | None = None  # (outputs, LIMBS) of what the trees add to the margins: tells rows from other rows
    labels: NDArray[Any] | None = None  # (clusters,) ascending
    clusters: Limbs | None = None  # (clusters, columns, LIMBS) of the shares; of the signal score also of s and of l
    segments: dict[str, Sums] | None = None  # of the shares with node values taken as fixed, by label
    queries: frozenset[Hashable] = frozenset()  # a query in two parts is refused
    parts: frozenset[Hashable] = frozenset()  # ids of batches; the same one twice is refused
    names: tuple[str, ...] | None = None  # columns of X, where the model stores none
    target_names: tuple[str, ...] | None = None  # columns of y
    targets: tuple[float, float] = (np.inf, -np.inf)  # the lowest and the highest; NaN: they are no numbers
    frame_library: str = ""
    margins_given: bool = False
    tree_counts: Float | None = None  # out of bag: what a row of weight 1 counts for in each tree, (trees,)
    integers: Limbs | None = None  # (2, leaves, width) leaf sums that are not carried into limbs yet
    bound: int = 0  # of their size
    uncarried: int = 0  # rows and sums that were added since limbs were carried

    def added(self, most: float) -> None:
        """Note that no leaf got more than this, of fixed-point gradients and of weights; make room for more."""
        if not most < MOST_ADDED:
            raise NoRoomError(
                "Gradients are far out of proportion to the model; check y, sample_weight and base_margin."
            )
        self.bound += int(most)
        if self.bound >= ROOM:
            self.settle()

    def settle(self) -> None:
        """Carry the integers into limbs, and what limbs have beyond 32 bits."""
        if self.integers is not None and self.leaf is not None:
            high = self.integers >> 32
            self.leaf[..., 0] += high
            self.leaf[..., 1] += self.integers - (high << 32)
            self.integers[:] = 0
        for name in (*LIMBED, "clusters"):
            if (limbs := getattr(self, name)) is not None:
                carry(limbs)
        for each in (self.segments or {}).values():
            if each.uncarried:
                each.settle()
        self.bound = self.uncarried = 0

    def __add__(self, other: Sums) -> Sums:
        """Return both together; neither is changed, but for the form of its numbers."""
        self._check(other)
        if self.bound + other.bound >= ROOM:
            self.settle()
            other.settle()
        out = replace(self, rows=self.rows + other.rows, units=self.units + other.units)
        for name in (*LIMBED, "integers"):
            mine, others = getattr(self, name), getattr(other, name)
            setattr(out, name, None if mine is None or others is None else mine + others)
        out.bound, out.uncarried = self.bound + other.bound, self.uncarried + other.uncarried + 1
        out.labels, out.clusters = _merged(self, other)
        if self.segments is not None and other.segments is not None:
            out.segments = {**self.segments, **other.segments}
            for label in self.segments.keys() & other.segments.keys():
                out.segments[label] = self.segments[label] + other.segments[label]
            check_number_of_segments(out.segments)
        out.queries, out.parts = self.queries | other.queries, self.parts | other.parts
        for name in ("names", "target_names", "frame_library"):
            setattr(out, name, getattr(self, name) or getattr(other, name))
        out.targets = min(self.targets[0], other.targets[0]), max(self.targets[1], other.targets[1])
        out.margins_given = self.margins_given and other.margins_given
        if out.uncarried >= MOST_AT_ONCE:
            out.settle()
        return out

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, with the numbers in their one form."""
        self.settle()
        return self.__dict__

    def _check(self, other: Sums) -> None:
        """Raise if the sums are of different things, or rows would count twice."""
        if (self.key, self.exponent) != (other.key, other.exponent):
            raise ModelError("The sums belong to different models, settings or first passes; make both from the same.")
        if self.weight_exponent != other.weight_exponent:
            raise DataError("Weights of the two parts are in different units; pass largest_weight=, that of all rows.")
        for what, name in {"X": "names", "y": "target_names"}.items():
            mine, others = getattr(self, name), getattr(other, name)
            if mine != others and None not in (mine, others):
                raise DataError(f"{what} has the columns {others}, but {mine} in other batches.")
        twice, torn = self.parts & other.parts, self.queries & other.queries
        if twice:
            raise DataError(f"Batch {min(map(str, twice))} was added already; add every batch once.")
        if torn:
            raise DataError(f"Query {min(map(str, torn))} is in two batches; its rows rank each other: pass it whole.")

    # -- what they add up to -------------------------------------------------------------------------------------
    def sum_of_weights(self) -> float:
        """Sum of the weights, in units of 2^weight_exponent."""
        return float(totals(self.weight[0], LOWEST_UNIT)[0])

    def effective_rows(self) -> float:
        """Rows of equal weight that these rows count for: (sum of weights)^2 / (sum of their squares)."""
        total, squares = totals(self.weight, LOWEST_UNIT)[:, 0].tolist()
        return float(total * total / squares) if squares > 0 else 0.0

    def leaf_sums(self) -> tuple[Limbs, Limbs, int]:
        """Sums of minus the gradients and of the weights in the leaves, as 64-bit integers times 2^bits."""
        assert self.leaf is not None
        self.settle()
        bits = max(0, int(np.abs(self.leaf[..., 0]).max(initial=0)).bit_length() - 29)
        whole = (self.leaf[..., 0] << (32 - bits)) + ((self.leaf[..., 1] + ((1 << bits) >> 1)) >> bits)
        return np.ascontiguousarray(whole[0]), np.ascontiguousarray(whole[1]), bits

    def share_sums(self) -> Float:
        """Sums of the shares, their squares and fourth powers: (3, columns)."""
        assert self.shares is not None
        assert self.fourths is not None
        sums, squares = (totals(self.shares[i], LOWEST_UNIT + (i + 1) * self.exponent) for i in (0, 1))
        return np.array([sums, squares, totals(self.fourths, LOWEST_UNIT + FOURTH_BITS + 4 * self.exponent)])

    def signal_sums(self) -> Float:
        """Sums by SIGNAL: (6, columns)."""
        assert self.signal is not None
        sums = totals(self.signal[:3], LOWEST_UNIT + self.exponent)
        return np.concatenate([sums, totals(self.signal[3:], LOWEST_UNIT + 2 * self.exponent)])

    def loss_sums(self) -> dict[str, float]:
        """Sums of the losses by their names in LOSSES."""
        assert self.losses is not None
        return dict(zip(LOSSES, totals(self.losses, LOWEST_UNIT + self.exponent).tolist(), strict=True))

    def cluster_sums(self) -> Float:
        """Sums of the shares of each cluster: (clusters, columns)."""
        assert self.clusters is not None
        return totals(self.clusters, LOWEST_UNIT + self.exponent)

    def add_signal(self, terms: Sequence[Float], group: Group = None, order: Group = None) -> None:
        """Add what was put back and the terms s and l of some rows, (rows, columns) each."""
        put_back, without, whole = terms
        if self.signal is None:
            assert self.shares is not None
            self.signal = np.zeros((len(SIGNAL), *self.shares.shape[1:]), np.int64)
        exact_sums(put_back, self.exponent, self.signal[0], group=group, order=order)
        exact_sums(without, self.exponent, self.signal[1], self.signal[3], group=group, order=order)
        exact_sums(whole, self.exponent, self.signal[2], self.signal[4], group=group, order=order)
        exact_sums(without - whole, self.exponent, None, self.signal[5], group=group, order=order)

    @classmethod
    def of_shares(
        cls, shares: Float, weight: Float | None, clusters: NDArray[Any] | None = None, terms: Sequence[Float] = ()
    ) -> Sums:
        """Sums of shares in memory, (rows, columns): folds, members of an average, differences of two models.

        terms: s and l of the signal score, each as the shares.
        """
        largest = max(float(np.abs(each).max(initial=0.0)) for each in (shares, *terms))
        if not np.isfinite(largest):
            raise DataError("The share of some row in a score is not finite; check y, sample_weight and base_margin.")
        exponent = -int(np.frexp(largest)[1]) if largest > 0 else 0
        out = cls(key="shares", exponent=exponent)
        out.shares = np.zeros((2, shares.shape[1], LIMBS), np.int64)
        out.fourths = np.zeros((shares.shape[1], FOURTH_LIMBS), np.int64)
        out.rows, out.units = len(shares), len(shares) if weight is None else int(np.count_nonzero(weight))
        exact_sums(np.ones((len(shares), 1)) if weight is None else weight[:, None], 0, *out.weight)
        here = np.arange(len(shares)) if weight is None else np.flatnonzero(weight)
        exact_sums(shares, exponent, *out.shares, out.fourths)
        if terms:
            out.add_signal([np.zeros_like(shares), *terms])
        if clusters is not None:
            shares = np.concatenate([shares, *terms], axis=1)
            out.labels, group = np.unique(clusters[here], return_inverse=True)
            out.clusters = np.zeros((len(out.labels), shares.shape[1], LIMBS), np.int64)
            exact_sums(shares[here], exponent, out.clusters, group=group)
        out.settle()
        return out


LIMBED = ("weight", "leaf", "shares", "fourths", "signal", "losses", "moved")


def exact_sums(values: Float, exponent: int, *limbs: Limbs | None, group: Group = None, order: Group = None) -> None:
    """Add the columns of `values`, (rows, columns), to limbs of their sums, squares and fourth powers.

    group: of every row, (rows,), to whose limbs it is added, (groups, columns, limbs); it is quicker if the rows of a
    group follow each other. order: which rows are added, in this order; group is then of these. Limbs are carried here
    only where they could overflow; `Sums.settle` brings them into their one form.
    """
    values = np.ascontiguousarray(values, np.float64)
    n = len(values if order is None else order)
    for first in range(0, n, MOST_AT_ONCE):
        here = slice(first, first + MOST_AT_ONCE)
        sums, squares, fourths = (*limbs, None, None)[:3]
        own = None if group is None else np.ascontiguousarray(group[here], np.int64)
        part, of = (values[here], None) if order is None else (values, np.ascontiguousarray(order[here], np.int64))
        if not add_exact(part, 2.0**exponent, sums, squares, fourths=fourths, cluster=own, order=of):
            raise DataError(
                f"A row's share of a score is {np.abs(part).max():.3g}, far out of proportion to the model's "
                "own values; check y, sample_weight and base_margin for wrong units or outliers."
            )
        for each in limbs if n > MOST_AT_ONCE else ():
            if each is not None:
                carry(each)


def _merged(a: Sums, b: Sums) -> tuple[NDArray[Any] | None, Limbs | None]:
    """Labels of both, ascending, and the sums of their clusters."""
    if a.labels is None or b.labels is None or a.clusters is None or b.clusters is None:
        return a.labels, a.clusters
    if a.labels.dtype.kind != b.labels.dtype.kind:
        raise DataError("Clusters are labelled by numbers in some batches and by text in others; use one type.")
    labels = np.union1d(a.labels, b.labels)
    out = np.zeros((len(labels), *a.clusters.shape[1:]), np.int64)
    for own, sums in ((a.labels, a.clusters), (b.labels, b.clusters)):
        out[np.searchsorted(labels, own)] += sums
    return labels, out
