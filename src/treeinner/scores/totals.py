"""Sums over all rows so far, by the scale of their weights; what came in; and the same as bytes."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import sign_flips
from treeinner.errors import DataError
from treeinner.scores.batch import SCALE_BITS, label_kind
from treeinner.scores.exact import ExactSums, Limbs, Moments, shifted_sum, widest
from treeinner.scores.leaves import combined_leaves
from treeinner.scores.state import State

__all__ = ["Totals"]


@dataclass(eq=False)
class Totals:
    """Sums over the rows: one State for each scale of weights (scores/batch.py), of which there is usually one.

    The scale of a row is its own, whatever came before it. So sums of any batches in any order are the same bits.
    """

    by_scale: dict[int, State] = field(default_factory=dict)
    n_batches: int = 0
    batch_ids: frozenset[Any] = frozenset()  # of the batches that have one
    queries: frozenset[Any] = frozenset()  # labels, where a loss ranks rows: no batch may have part of one

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(state.n_rows for state in self.by_scale.values())

    @property
    def n_units(self) -> int:
        """Number of rows of positive weight."""
        return sum(state.n_units for state in self.by_scale.values())

    def check(self, other: Totals) -> None:
        """Raise if rows would count twice, or labels mean different things."""
        for what in ("clusters", "queries"):
            kinds = self._label_kinds(what) | other._label_kinds(what)
            if len(kinds) > 1:
                raise DataError(
                    f"{what.capitalize()} are labelled by {' in some batches and by '.join(sorted(kinds))} in others; "
                    "use one type."
                )
        for mine, others in zip([*self.by_scale.values()][:1], other.by_scale.values(), strict=False):
            mine.check_layout(others)
        twice = _first(self.batch_ids & other.batch_ids)
        if twice is not None:
            raise DataError(f"Batch {twice!r} was added already; add every batch once, or give each its own batch_id.")
        torn = _first(self.queries & other.queries)
        if torn is not None:
            raise DataError(f"Query {torn} is in two batches, but its rows rank each other; pass whole queries.")

    def _label_kinds(self, what: str) -> set[str]:
        held: list[Iterable[Any]] = [self.queries]
        if what == "clusters":
            held = [state.clusters or () for state in self.by_scale.values()]
        return {label_kind(label) for labels in held for label in list(labels)[:1]}  # those of one are of one kind

    def __iadd__(self, other: Totals) -> Totals:
        self.check(other)  # first: if it is refused, nothing is added
        for scale, state in other.by_scale.items():
            if scale in self.by_scale:
                self.by_scale[scale] += state
            else:
                self.by_scale[scale] = copy.deepcopy(state)
        self.n_batches += other.n_batches
        self.batch_ids |= other.batch_ids
        self.queries |= other.queries
        return self

    # -- what follows from the sums ------------------------------------------------------------------------------
    def combined(self) -> State:
        """One State of all rows, in units of the largest scale of weights; exact but for leaf sums beyond 61 bits."""
        states = {scale: state for scale, state in self.by_scale.items() if state.n_units}
        lowest, top = min(states), max(states)
        finer = SCALE_BITS * (top - lowest)
        bits = {scale: SCALE_BITS * (scale - lowest) for scale in states}
        out = replace(states[top], n_rows=self.n_rows, n_units=self.n_units, weight_exponent=SCALE_BITS * top)
        if out.leaves is not None:
            leaves = combined_leaves([(state.leaves, bits[k]) for k, state in states.items() if state.leaves])
            out.leaves = replace(leaves, exponent=leaves.exponent - finer)
        if len(states) == 1:
            return out
        for name in ("weight", "rounds", "losses"):
            if (held := getattr(out, name)) is not None:
                limbs = shifted_sum((getattr(state, name).limbs, bits[k]) for k, state in states.items())
                setattr(out, name, ExactSums(limbs, held.exponent, finer))
        if all(state.moved is not None for state in states.values()) and out.moved is not None:
            held = [(state.moved.limbs, 0) for state in states.values() if state.moved is not None]
            out.moved = ExactSums(shifted_sum(held), out.moved.exponent)
        out.shares = _combined_shares({bits[k]: state.shares for k, state in states.items()})
        if out.clusters is not None:
            parts: dict[Any, list[tuple[Limbs, int]]] = {}
            for k, state in states.items():
                for label, limbs in (state.clusters or {}).items():
                    parts.setdefault(label, []).append((limbs, bits[k]))
            out.clusters = {label: shifted_sum(some) for label, some in parts.items()}
        return out

    # -- bytes ---------------------------------------------------------------------------------------------------
    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays, by scale and name, and plain data that `from_arrays` takes."""
        arrays: dict[str, NDArray[Any]] = {}
        scales: dict[str, Any] = {}
        for scale, state in sorted(self.by_scale.items()):
            own, scales[str(scale)] = state.to_arrays()
            arrays |= {f"{scale}.{name}": array for name, array in own.items()}
        ids, queries = (sorted(labels, key=_order) for labels in (self.batch_ids, self.queries))
        return arrays, {"scales": scales, "n_batches": self.n_batches, "batch_ids": ids, "queries": queries}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any]) -> Totals:
        """Inverse of `to_arrays`."""
        own: dict[str, dict[str, NDArray[Any]]] = {scale: {} for scale in plain["scales"]}
        for name, array in arrays.items():
            scale, _, rest = name.partition(".")
            if array.dtype != np.int64:
                raise ValueError(f"{name} holds {array.dtype}, not 64-bit integers")
            own[scale][rest] = array
        states = {int(scale): State.from_arrays(own[scale], given) for scale, given in plain["scales"].items()}
        labels = (frozenset(plain[name]) for name in ("batch_ids", "queries"))
        return cls(states, int(plain["n_batches"]), *labels)


def _combined_shares(parts: dict[int, Moments]) -> Moments:
    """Moments of all scales, by their bits above the lowest, in units of the highest."""
    top = max(parts)
    sums = shifted_sum((part.limbs[0], bits) for bits, part in parts.items())
    squares = shifted_sum((part.limbs[1], 2 * bits) for bits, part in parts.items())
    counts: NDArray[Any] = np.zeros_like(parts[top].counts, np.float64)
    for bits, part in parts.items():
        # A lower scale is lower in the histogram too; what falls out of it is as good as 0 beside the others.
        down = 2 * (top - bits) << sign_flips.BITS
        counts[:, : max(counts.shape[1] - down, 0)] += part.all_counts()[:, down:]
    n_added = sum(part.n_added for part in parts.values())
    return Moments(widest([sums, squares]), counts, parts[top].exponent, n_added, finer=top)


def _order(label: Any) -> tuple[str, Any]:
    return type(label).__name__, label


def _first(labels: Iterable[Any]) -> Any:
    return min(labels, key=_order, default=None)
