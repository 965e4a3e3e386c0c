"""The state of a run: sums over rows that add up exactly, whatever the batches, threads or order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import inference, sign_flips
from treeinner.errors import ModelError
from treeinner.inference import Inference, without_errors
from treeinner.scores.exact import ExactSums, Limbs, Moments, have_room, plus, whole_numbers, widest
from treeinner.scores.leaves import Leaves
from treeinner.scores.setting import Setting

__all__ = ["LOSSES", "State"]

FloatArray = NDArray[np.float64]
LIMBED = ("rounds", "losses")
PLAIN = ("n_features", "n_outputs", "n_rows", "n_units")
MAX_EXPONENT = 1100  # beyond those of float64
# Sums over the rows: their losses before the first round, after the last, and if predicted perfectly; how many have no
# such bound; the fall of the loss by the gradients at the start of each step; and what of the fall no feature gets. The
# last two are known from the leaves where gradients are summed there.
LOSSES = ("before", "after", "least", "unbounded", "first_order", "base")


@dataclass(eq=False)
class State:
    """Sums over the rows: of their shares in the score, and of what reaches the leaves.

    Columns of the shares are (feature, output) pairs, then the total of each feature.
    """

    n_features: int
    n_outputs: int
    shares: Moments
    n_rows: int = 0
    n_units: int = 0  # rows of positive weight
    weight: ExactSums = field(default_factory=lambda: ExactSums.zeros(1, 0))
    losses: ExactSums | None = None  # of the rows: see LOSSES
    leaves: Leaves | None = None
    rounds: ExactSums | None = None  # (round, feature or base) pairs, for methods without leaf sums
    clusters: dict[Any, Limbs] | None = None
    moved: ExactSums | None = None  # of what the trees add to the margins, (outputs,): tells rows from other rows
    weight_exponent: int = 0  # weights, and what is proportional to them, count units of 2^weight_exponent

    @classmethod
    def empty(cls, setting: Setting) -> State:
        """State of no rows."""
        e, n = setting.ensemble, len(setting.groups.names)
        clustered = setting.clustered and setting.needs_rows
        columns = n * (e.n_outputs + (e.n_outputs > 1))
        return cls(
            n_features=n,
            n_outputs=e.n_outputs,
            shares=Moments.zeros(columns, setting.exponent, counted=setting.needs_rows and not clustered),
            losses=ExactSums.zeros(len(LOSSES), setting.exponent) if setting.inner and setting.means is None else None,
            leaves=Leaves.empty(setting),
            rounds=ExactSums.zeros((n + 1) * e.n_rounds, setting.exponent) if setting.rounds_by_rows else None,
            clusters={} if clustered else None,
            moved=ExactSums.zeros(e.n_outputs, setting.exponent) if setting.centred else None,
        )

    def add_rows(
        self,
        scores: FloatArray,
        features: NDArray[np.intp] | None,
        weight: FloatArray | None,
        clusters: NDArray[Any] | None,
    ) -> None:
        """Add the shares of some rows, (rows, features, outputs), in some features; None: in all."""
        columns = self._columns(scores)
        places = None if features is None else self._places(features)
        self.shares.add(columns, places=places)
        if clusters is not None and self.clusters is not None:
            # A row of weight 0 is a row that is not there; neither is a cluster of such rows.
            here = np.arange(len(scores)) if weight is None else np.flatnonzero(weight)
            order = here[np.argsort(clusters[here], kind="stable")]
            labels, starts = np.unique(clusters[order], return_index=True)
            parts = np.split(order, starts[1:]) if len(labels) else []
            for label, rows in zip(labels.tolist(), parts, strict=True):
                part = ExactSums.zeros(self.shares.limbs.shape[1], self.shares.exponent)
                part.add(columns[rows], places=places)
                self._add_to_cluster(label, part.limbs)

    def add_round(self, number: int, scores: FloatArray, base: FloatArray) -> None:
        """Add the shares of some rows in one round, (rows, features, outputs), and what no feature gets, (rows,)."""
        assert self.rounds is not None
        places = np.arange(self.n_features + 1) + number * (self.n_features + 1)
        self.rounds.add(np.column_stack([scores.sum(axis=2), base]), places=places)

    def add_losses(self, **known: FloatArray) -> None:
        """Add the losses of some rows, (rows,) each, by their names in LOSSES."""
        assert self.losses is not None
        places = np.array([LOSSES.index(name) for name in known], np.intp)
        self.losses.add(np.column_stack(list(known.values())), places=places)

    def count_rows(self, n_rows: int, weight: FloatArray | None) -> None:
        """Count rows and add up their weights."""
        self.n_rows += n_rows
        self.n_units += n_rows if weight is None else int(np.count_nonzero(weight))
        self.weight.add(np.ones((n_rows, 1)) if weight is None else weight[:, None])

    def note_added(self, largest_sum: int) -> None:
        """After the rows of a task: what they added to a leaf at most."""
        if self.leaves is not None:
            self.leaves.raise_bound(largest_sum)

    def settle(self) -> None:
        """After the last task: the only form of the sums."""
        if self.leaves is not None:
            self.leaves.settle()

    def _columns(self, scores: FloatArray) -> FloatArray:
        if self.n_outputs == 1:
            return scores[:, :, 0]
        flat = scores.reshape(len(scores), -1)
        return np.concatenate([flat, scores.sum(axis=2)], axis=1)

    def _places(self, features: NDArray[np.intp]) -> NDArray[np.intp]:
        """Columns of some features, in the order of `_columns`."""
        if self.n_outputs == 1:
            return features
        pairs = features[:, None] * self.n_outputs + np.arange(self.n_outputs)
        return np.concatenate([pairs.reshape(-1), self.n_features * self.n_outputs + features])

    def __iadd__(self, other: State) -> State:
        self.shares += other.shares
        self.weight += other.weight
        self.n_rows += other.n_rows
        self.n_units += other.n_units
        for name in ("leaves", *LIMBED):
            if getattr(self, name) is not None:
                getattr(self, name).__iadd__(getattr(other, name))
        for label, limbs in (other.clusters or {}).items():
            self._add_to_cluster(label, limbs)
        if self.moved is not None and other.moved is not None:
            self.moved += other.moved
        else:
            self.moved = None
        return self

    def _add_to_cluster(self, label: Any, limbs: Limbs) -> None:
        assert self.clusters is not None
        self.clusters[label] = plus(self.clusters[label], limbs) if label in self.clusters else limbs

    # -- what follows from the sums ------------------------------------------------------------------------------
    def infer(self, score: FloatArray | None, confidence: float, *, flips: bool) -> tuple[Inference, Inference | None]:
        """Statistics of the totals, and of every output where there are several.

        score: from the leaves, (features, outputs), where it is to be had. The shares of the rows, which the core may
        add in float32, then give the standard errors alone. flips: whether p values are by sign flips.
        """
        if flips and self.n_units <= 2 and score is not None:  # the shares of two rows are equal, whatever they are
            return without_errors(score.sum(axis=1)), without_errors(score) if self.n_outputs > 1 else None
        columns = None if score is None else self._columns(score[None])[0]
        if self.clusters is not None:
            held = self.shares.exponent, self.shares.finer
            sums = (ExactSums(self.clusters[label], *held) for label in self._labels())
            of_clusters = np.array([part.totals() for part in sums])
            tails = sign_flips.flip_p_values_of(of_clusters) if flips else ()
            known = {"sums": of_clusters}
        else:
            total, squares = self.shares.sums(), self.shares.squares()
            tails = self.shares.flip_p_values(total if columns is None else columns) if flips else ()
            known = {"total": total, "total_sq": squares, "effective": self.shares.effective_rows()}
        known |= dict(zip(("upper", "lower"), tails, strict=False)) | ({} if columns is None else {"score": columns})

        def statistics(total: bool) -> Inference:
            given: dict[str, Any] = {name: self._shaped(array, total=total) for name, array in known.items()}
            if self.clusters is not None:
                return inference.from_clusters(given.pop("sums"), confidence=confidence, **given)
            return inference.from_sums(n=self.n_units, confidence=confidence, **given)

        return statistics(True), statistics(False) if self.n_outputs > 1 else None

    def _labels(self) -> list[Any]:
        """Labels of the clusters, in an order of their own."""
        return sorted(self.clusters or (), key=lambda label: (type(label).__name__, label))

    def _shaped(self, columns: FloatArray, *, total: bool) -> FloatArray:
        """Columns of the totals, (..., features), or of the outputs, (..., features, outputs)."""
        cut = self.n_features * self.n_outputs if self.n_outputs > 1 else 0
        if total:
            return columns[..., cut:]
        return columns[..., :cut].reshape(*columns.shape[:-1], self.n_features, self.n_outputs)

    def check_layout(self, other: State) -> None:
        """Raise unless the sums of both are of the same columns and leaves, so that they can be added."""
        if self._layout() != other._layout():
            raise ModelError(
                "The sums are of other columns, leaves or rounds than those of this model and these settings; the "
                "bytes are damaged, or groups were resolved with other names."
            )

    def _layout(self) -> tuple[Any, ...]:
        arrays = (self.shares.limbs, self.weight.limbs, *(getattr(self, n) and getattr(self, n).limbs for n in LIMBED))
        shapes = [None if array is None else array.shape[:-1] for array in arrays]
        leaves = None
        if self.leaves is not None:
            weights = self.leaves.weights
            leaves = self.leaves.sums.shape, None if weights is None else weights.shape
        counts = self.shares.counts.shape, self.shares.exponent, self.clusters is None
        return self.n_features, self.n_outputs, shapes, leaves, counts

    # -- bytes ---------------------------------------------------------------------------------------------------
    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and plain data that `from_arrays` takes."""
        shares, leaves = self.shares, self.leaves
        arrays = {"sums": shares.limbs[0], "squares": shares.limbs[1], "weight": self.weight.limbs}
        seen = shares.counts if shares.high is None else shares.counts | shares.high
        arrays["sizes"] = np.flatnonzero(seen)
        arrays["counts"] = shares.counts.reshape(-1)[arrays["sizes"]]
        if shares.high is not None:
            arrays["high_counts"] = shares.high.reshape(-1)[arrays["sizes"]]
        plain: dict[str, Any] = {name: getattr(self, name) for name in PLAIN}
        plain |= {"exponent": shares.exponent, "n_sizes": shares.counts.shape[1]}
        if leaves is not None:
            plain["leaf_bound"] = leaves.bound
            given = {"leaf_sums": leaves.sums, "leaf_weights": leaves.weights}
            if leaves.carried is not None:
                given = dict(zip(given, leaves.carried, strict=False))
            arrays |= {name: array for name, array in given.items() if array is not None}
        for name in (*LIMBED, "moved"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name).limbs
        if self.clusters is not None:
            labels = plain["clusters"] = self._labels()
            shape = (len(labels), *shares.limbs.shape[1:])
            held = widest([self.clusters[label] for label in labels])
            arrays["clusters"] = held if len(labels) else np.zeros(shape, np.int64)
        return arrays, plain

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], plain: dict[str, Any]) -> State:
        """Inverse of `to_arrays`."""
        for name in (*PLAIN, "exponent", "n_sizes"):
            if type(plain[name]) is not int:
                raise TypeError(f"{name} is {plain[name]!r}")
        _check_sums(arrays, plain)
        exponent, n = plain["exponent"], plain["n_rows"]
        limbs = widest([arrays["sums"], arrays["squares"]])
        counts = np.zeros((2, limbs.shape[1], plain["n_sizes"]), np.int64)
        for part, name in zip(counts, ("counts", "high_counts"), strict=True):
            if name in arrays:
                part.reshape(-1)[arrays["sizes"]] = arrays[name]
        labels, clusters = plain.get("clusters"), None
        if labels is not None:  # each in its own form, whatever the others needed
            clusters = {
                label: plus(part, np.zeros_like(part)) for label, part in zip(labels, arrays["clusters"], strict=True)
            }
        return cls(
            **{name: plain[name] for name in PLAIN},
            shares=Moments(limbs, counts[0], exponent, n, counts[1] if "high_counts" in arrays else None),
            weight=ExactSums(arrays["weight"], 0),
            leaves=Leaves.from_arrays(arrays, plain.get("leaf_bound", 0)),
            rounds=ExactSums(arrays["rounds"], exponent) if "rounds" in arrays else None,
            losses=ExactSums(arrays["losses"], exponent) if "losses" in arrays else None,
            moved=ExactSums(arrays["moved"], exponent) if "moved" in arrays else None,
            clusters=clusters,
        )


def _check_sums(arrays: dict[str, NDArray[Any]], plain: dict[str, Any]) -> None:
    """Raise ValueError where the sums of a file cannot be sums over rows."""
    for name in ("sums", "squares", "weight", "clusters", "moved", *LIMBED):
        if name in arrays and not (arrays[name].ndim == (3 if name == "clusters" else 2) and have_room(arrays[name])):
            raise ValueError(f"{name} does not hold numbers in limbs")
    if not (0 <= plain["n_units"] <= plain["n_rows"] and plain["n_sizes"] in (0, sign_flips.WIDTH)):
        raise ValueError("n_units or n_sizes is out of range")
    if abs(plain["exponent"]) > MAX_EXPONENT:
        raise ValueError(f"exponent is {plain['exponent']}")
    weighted = np.all(whole_numbers(arrays["weight"]) > 0) or plain["n_units"] == 0
    counted = [arrays[name] for name in ("counts", "high_counts") if name in arrays]
    counted += [own for own in [arrays.get("leaf_weights")] if own is not None and own.ndim == 2]  # else in limbs
    if not weighted or np.any(whole_numbers(arrays["squares"]) < 0) or any(np.any(own < 0) for own in counted):
        raise ValueError("a weight, a count or a sum of squares is negative")
