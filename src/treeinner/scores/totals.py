"""Sums over all rows so far, by the scale of their weights; what came with the rows; and the same as bytes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import sign_flips
from treeinner.ensemble import storage
from treeinner.errors import DataError, ModelError
from treeinner.scores.batch import SCALE_BITS, label_kind
from treeinner.scores.exact import ExactSums, Limbs, Moments, shifted_sum, widest
from treeinner.scores.leaves import combined_leaves
from treeinner.scores.state import State
from treeinner.tables.columns import listing

__all__ = ["Names", "Totals", "merge_bytes"]

Names = tuple[str, ...] | None
FORMAT = "treeinner.accumulator"
FORMAT_VERSION = 4
# What a file may raise that is well formed, but not ours.
DAMAGE = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)


@dataclass(eq=False)
class Totals:
    """Sums over the rows: one State for each scale of weights (scores/batch.py), of which there is usually one.

    The scale of a row is its own, whatever came before it. So sums of any batches in any order are the same bits.
    """

    by_scale: dict[int, State] = field(default_factory=dict)
    n_batches: int = 0
    batch_ids: frozenset[Any] = frozenset()  # of the batches that have one
    queries: frozenset[Any] = frozenset()  # labels, where a loss ranks rows: no batch may have part of one
    names: Names = None  # columns of X
    target_names: Names = None  # columns of y
    margins_given: bool = True  # with every batch
    frame_library: str = ""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(state.n_rows for state in self.by_scale.values())

    @property
    def n_units(self) -> int:
        """Number of rows of positive weight."""
        return sum(state.n_units for state in self.by_scale.values())

    def without_rows(self) -> Totals:
        """What the batches taught, without their sums."""
        return replace(self, by_scale={}, n_batches=0, batch_ids=frozenset(), queries=frozenset())

    def learn(self, other: Totals) -> Totals:
        """Return these sums with what the batches of others taught too; raises if the columns are not the same."""
        return replace(
            self,
            names=_agreed("X", self.names, other.names),
            target_names=_agreed("y", self.target_names, other.target_names),
            margins_given=self.margins_given and other.margins_given,
            frame_library=self.frame_library or other.frame_library,
        )

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

    def plus(self, other: Totals) -> Totals:
        """Return both together. Their sums become part of the result: pass a copy of what is needed further."""
        out = self.learn(other)
        self.check(other)  # first: if it is refused, nothing is added
        for scale, state in other.by_scale.items():
            if scale in out.by_scale:
                out.by_scale[scale] += state
            else:
                out.by_scale[scale] = state
        out.n_batches += other.n_batches
        out.batch_ids |= other.batch_ids
        out.queries |= other.queries
        return out

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
        """Arrays of the sums, by scale and name, and the plain data that belong to them."""
        arrays: dict[str, NDArray[Any]] = {}
        scales: dict[str, Any] = {}
        for scale, state in sorted(self.by_scale.items()):
            own, scales[str(scale)] = state.to_arrays()
            arrays |= {f"{scale}.{name}": array for name, array in own.items()}
        ids, queries = (sorted(labels, key=_order) for labels in (self.batch_ids, self.queries))
        return arrays, {"scales": scales, "n_batches": self.n_batches, "batch_ids": ids, "queries": queries}

    def to_bytes(self, fingerprint: str) -> bytes:
        """Return a file (docs/format.md); fingerprint: of the model and settings."""
        arrays, plain = self.to_arrays()
        plain["fingerprint"] = fingerprint
        plain |= {name: getattr(self, name) for name in ("frame_library", "names", "target_names", "margins_given")}
        buffer = io.BytesIO()
        storage.write_to(buffer, FORMAT, FORMAT_VERSION, arrays, plain)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> tuple[Totals, str]:
        """Inverse of `to_bytes`."""
        arrays, plain = storage.read_from(io.BytesIO(data), FORMAT, FORMAT_VERSION, "the bytes")
        if "scales" not in plain:
            raise ModelError(
                "The bytes were written by an earlier treeinner, whose sums have another form; add the rows up again."
            )
        try:
            names, targets = (tuple(map(str, plain[name] or ())) or None for name in ("names", "target_names"))
            held = cls(
                _states(arrays, plain["scales"]),
                n_batches=int(plain["n_batches"]),
                batch_ids=frozenset(plain["batch_ids"]),
                queries=frozenset(plain["queries"]),
                names=names,
                target_names=targets,
                margins_given=bool(plain["margins_given"]),
                frame_library=str(plain["frame_library"]),
            )
            return held, str(plain["fingerprint"])
        except DAMAGE as error:
            raise ModelError(f"The bytes are damaged: {error!r}. Save the accumulator again.") from error


def merge_bytes(parts: Iterable[bytes]) -> bytes:
    """Add up what accumulators of one model and the same settings wrote."""
    total: Totals | None = None
    expected = ""
    for number, part in enumerate(parts):
        held, fingerprint = Totals.from_bytes(part)
        if total is not None and fingerprint != expected:
            raise ModelError(
                f"Part {number} belongs to another model or other settings than the parts before it; make all "
                "accumulators from the same model with the same arguments."
            )
        try:
            total, expected = held if total is None else total.plus(held), fingerprint
        except DataError as error:
            raise DataError(f"Part {number}: {error}") from None
    if total is None:
        raise DataError("There is nothing to merge; pass the bytes of at least one accumulator.")
    return total.to_bytes(expected)


def _states(arrays: Mapping[str, NDArray[Any]], scales: Mapping[str, Any]) -> dict[int, State]:
    """The sums of a file, by scale."""
    own: dict[str, dict[str, NDArray[Any]]] = {scale: {} for scale in scales}
    for name, array in arrays.items():
        scale, _, rest = name.partition(".")
        if array.dtype != np.int64:
            raise ValueError(f"{name} holds {array.dtype}, not 64-bit integers")
        own[scale][rest] = array
    return {int(scale): State.from_arrays(own[scale], given) for scale, given in scales.items()}


def _agreed(what: str, known: Names, names: Names) -> Names:
    """Columns of X or y, which must be the same in every batch that names them: they are taken by position."""
    if known is not None and names is not None and known != names:
        raise DataError(
            f"{what} has the columns {listing(names)}, but {listing(known)} in other batches; pass the same columns in "
            "the same order in every batch."
        )
    return known or names


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
