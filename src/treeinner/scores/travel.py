"""What an accumulator holds, as bytes (docs/format.md): read, written and added up without its model."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterable
from dataclasses import dataclass, replace

from treeinner.ensemble import storage
from treeinner.errors import DataError, ModelError
from treeinner.scores.totals import Totals
from treeinner.tables.columns import listing

__all__ = ["Holdings", "Names", "merge_bytes"]

Names = tuple[str, ...] | None
FORMAT = "treeinner.accumulator"
FORMAT_VERSION = 4
# What a file may raise that is well formed, but not ours.
DAMAGE = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)


@dataclass(frozen=True, eq=False, kw_only=True)
class Holdings:
    """Sums over the rows so far, and what the batches taught."""

    totals: Totals | None = None
    names: Names = None  # columns of X
    target_names: Names = None  # columns of y
    margins_given: bool = True  # with every batch
    frame_library: str = ""

    def learn(self, other: Holdings) -> Holdings:
        """Return these sums with what the rows of others taught too; raises if the columns are not the same."""
        return replace(
            self,
            names=_agreed("X", self.names, other.names),
            target_names=_agreed("y", self.target_names, other.target_names),
            margins_given=self.margins_given and other.margins_given,
            frame_library=self.frame_library or other.frame_library,
        )

    def plus(self, other: Holdings) -> Holdings:
        """Return both together; neither is changed."""
        learnt = self.learn(other)
        totals = copy.deepcopy(self.totals or other.totals)
        if totals is not None and self.totals is not None and other.totals is not None:
            totals += other.totals
        return replace(learnt, totals=totals)

    def to_bytes(self, fingerprint: str) -> bytes:
        """Return a file; fingerprint: of the model and settings."""
        arrays, plain = (self.totals or Totals()).to_arrays()
        plain |= {"fingerprint": fingerprint, "frame_library": self.frame_library}
        plain |= {"names": self.names, "target_names": self.target_names, "margins_given": self.margins_given}
        buffer = io.BytesIO()
        storage.write_to(buffer, FORMAT, FORMAT_VERSION, arrays, plain)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> tuple[Holdings, str]:
        """Inverse of `to_bytes`."""
        arrays, plain = storage.read_from(io.BytesIO(data), FORMAT, FORMAT_VERSION, "the bytes")
        if "scales" not in plain:
            raise ModelError(
                "The bytes were written by an earlier treeinner, whose sums have another form; add the rows up again."
            )
        try:
            totals = Totals.from_arrays(arrays, plain)
            names, targets = (tuple(map(str, plain[name] or ())) or None for name in ("names", "target_names"))
            held = cls(
                totals=totals if totals.by_scale else None,
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
    total: Holdings | None = None
    expected = ""
    for number, part in enumerate(parts):
        held, fingerprint = Holdings.from_bytes(part)
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


def _agreed(what: str, known: Names, names: Names) -> Names:
    """Columns of X or y, which must be the same in every batch that names them: they are taken by position."""
    if known is not None and names is not None and known != names:
        raise DataError(
            f"{what} has the columns {listing(names)}, but {listing(known)} in other batches; pass the same columns in "
            "the same order in every batch."
        )
    return known or names
