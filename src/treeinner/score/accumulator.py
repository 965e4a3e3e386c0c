"""ImportanceAccumulator: scores of batches that add up exactly, in any partition and order."""

from __future__ import annotations

from collections.abc import Hashable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from treeinner.errors import DataError, ModelError, UnsupportedModelError
from treeinner.kernels import Progress, heard
from treeinner.read import Model, read_model
from treeinner.read.columns import GroupSpec, credit
from treeinner.read.methods import reference_values
from treeinner.rows import read_rows
from treeinner.score.compare import Comparison
from treeinner.score.conclude import ONE_PASS, conclude, warned
from treeinner.score.infer import difference
from treeinner.score.passes import Centre, leaf_pass, node_means, share_pass, total
from treeinner.score.result import Importance
from treeinner.score.spec import Spec, make_spec, scored_loss
from treeinner.score.sums import Sums

__all__ = ["ImportanceAccumulator"]


class ImportanceAccumulator:
    """Scores of rows that come in batches; memory does not grow with the number of rows.

    Batches, threads, processes and files may cut the rows in any way: the sums are exact, so the result is the same to
    the last bit. `a + b` adds two accumulators of the same model and settings, `sum` any number; they can be pickled.
    Centred scores are exact after one pass; `second_pass` takes the same rows again and gives standard errors.

    With `reference`, an importance of rows of then, node values are the reference's: one pass gives scores with errors,
    and beside the signal score the loss breakdown is summed, so that `compare` of two accumulators, such as those of
    two months, says why the loss rose, without their rows.

    Parameters are those of `importance`; `clustered=True` means that every batch comes with clusters, and
    `largest_weight` is the largest sample_weight of all rows, in whose units weights are summed: it is needed where
    batches differ in theirs.
    """

    def __init__(
        self,
        model: Any,
        *,
        score: str = "signal",
        method: str = "centred",
        feature_groups: GroupSpec | None = None,
        reference: Importance | None = None,
        clustered: bool = False,
        largest_weight: float | None = None,
        n_jobs: int | None = -1,
    ) -> None:
        self.model: Model = read_model(model)
        self.largest_weight, self.n_jobs = largest_weight, n_jobs
        self._feature_groups, self._given = feature_groups, frozenset[str]()
        self._asked: dict[str, Any] = {"method": method, "clustered": clustered}
        self._scores = [score]  # with a reference also the loss breakdown of the same rows
        self._specs: list[Spec] = []  # of each score; made of the first batch, which may know the names of the columns
        self._sums: list[Sums] = []
        self._first: Sums | None = None  # sums of the first pass; set: this is the second one
        self.centre: Centre | None = None
        if reference is not None:
            self._fix(reference, score)
        loss = scored_loss(self.model, score)
        if loss.scope in ("round", "data") or isinstance(self.model.class_weight, str):
            raise UnsupportedModelError(
                f"{loss.name}: the gradient or weight of a row depends on all rows together; use ti.importance on all."
            )

    def _fix(self, reference: Importance, score: str) -> None:
        """Take the node values of a reference."""
        if self._asked["method"] != "centred" or (self.model.trees.averaged and score != "loss"):
            raise ValueError("reference= needs method='centred'; forests need score='loss' and cannot be compared.")
        value = reference_values(self.model, reference)[self.model.trees.forest.numbered]
        self.centre = Centre(value, np.zeros_like(value))
        if score == "signal" and (self.model.loss is None or self.model.loss.value is not None):
            self._scores.append("loss")

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return self._sums[0].rows if self._sums else 0

    def update(
        self,
        X: Any,
        y: Any = None,
        *,
        batch_id: Hashable | None = None,
        progress: Progress | bool | None = None,
        **given: Any,
    ) -> ImportanceAccumulator:
        """Add a batch of rows and return self. A batch that is refused changes nothing.

        given: sample_weight, clusters, base_margin and qid, as for `importance`. batch_id, such as the name of a file,
        makes sure that a batch counts once, here or in an accumulator that is added.
        """
        if {"by", "freq"} & given.keys():
            raise DataError("An accumulator has no segments; make one of each segment, and compare them.")
        if (given.get("clusters") is not None) != self._asked["clustered"]:
            raise DataError("clusters come with every batch if the accumulator has clustered=True, and else with none.")
        rows = read_rows(self.model, X, y, largest_weight=self.largest_weight, **given)
        batches = rows if rows.again or len(self._scores) == 1 else list(rows)
        specs, parts = self._specs, []
        if not specs or (self.model.feature_names is None and rows.names is not None and self.n_rows == 0):
            groups = credit(self.model, rows.names, self._feature_groups, rows.head)
            specs = [make_spec(self.model, groups, score=score, **self._asked) for score in self._scores]
        for spec in specs:
            parts.append(part := self._sum(spec, batches, heard(progress)))
            part.parts = frozenset() if batch_id is None else frozenset([batch_id])
            part.margins_given = given.get("base_margin") is not None
        self._specs, self._sums = specs, self._added(parts)
        self._given = self._given | {name for name in ("sample_weight", "base_margin") if given.get(name) is not None}
        return self

    def _added(self, parts: list[Sums]) -> list[Sums]:
        """The sums of these rows and others."""
        if not self._sums or not parts:
            return self._sums or parts
        return [mine + others for mine, others in zip(self._sums, parts, strict=True)]

    def _sum(self, spec: Spec, rows: Any, progress: Progress | None) -> Sums:
        """Sums of one batch in this pass."""
        run: dict[str, Any] = {"n_jobs": self.n_jobs, "progress": progress}
        if spec.method == "centred" and self.centre is None:
            return total(leaf_pass, self.model, spec, rows, **run)
        stored = spec.method in ("predecomp", "saabas")
        centre = node_means(self.model, spec, None) if stored else self.centre
        return total(share_pass, self.model, spec, rows, centre, leaves=self._first is None, **run)

    def second_pass(self) -> ImportanceAccumulator:
        """Return an accumulator for the same rows again, which gives a centred score its standard errors.

        Rows may come in other batches and in another order; accumulators of the same first pass add up. `result()`
        checks that they were the same rows.
        """
        if self._asked["method"] != "centred" or self.centre is not None:
            raise ValueError("A second pass belongs to method='centred', after the first; call result().")
        out = copy(self)
        out._first, out._sums = self._require_rows(), []
        out.centre = node_means(self.model, self._specs[0], out._first)
        return out

    def _require_rows(self) -> Sums:
        if not self._sums:
            raise DataError("There are no rows to score; pass at least one row of X and y.")
        return self._sums[0]

    def __add__(self, other: object) -> ImportanceAccumulator:
        if not isinstance(other, ImportanceAccumulator):
            return NotImplemented
        if self is other:
            raise DataError("An accumulator cannot be added to itself: its rows would count twice.")
        out = copy(self if self._sums else other)
        out._sums, out._given = self._added(other._sums), self._given | other._given
        return out

    def __radd__(self, other: object) -> ImportanceAccumulator:
        """Let `sum`, which starts from 0, add up accumulators."""
        return copy(self) if isinstance(other, int) and other == 0 else NotImplemented

    def result(self) -> Importance:
        """Scores of all rows so far."""
        return warned(self._concluded())

    def _concluded(self, which: int = 0) -> Importance:
        self._require_rows()
        sums, spec = self._sums[which], self._specs[which]
        if spec.method != "centred":
            centre = node_means(self.model, spec, None) if spec.by_path else None
            return conclude(self.model, spec, sums, sums, centre)
        if self.centre is not None:
            return conclude(self.model, spec, self._first or sums, sums, self.centre)
        note = replace(ONE_PASS, text="Standard errors need a second pass: see second_pass().", quiet=True)
        found = conclude(self.model, spec, sums, None, node_means(self.model, spec, sums))
        return replace(found, notes=(*found.notes, note))

    def compare(self, after: ImportanceAccumulator, *, names: tuple[str, str] = ("before", "after")) -> Comparison:
        """Why the loss rose from these rows to those of another accumulator with the same reference.

        Errors take the node values as fixed, which those of a reference of other rows are.
        """
        if not isinstance(after, ImportanceAccumulator):
            raise TypeError(f"expected an ImportanceAccumulator, got {type(after).__name__}; ti.compare takes rows.")
        both = (self, after)
        if len({one._require_rows().key for one in both}) > 1 or min(len(one._scores) for one in both) < 2:
            raise ModelError("Both accumulators need the same model (no forest), settings and reference=, by 'signal'.")
        if lone := self._given ^ after._given:
            raise DataError(f"{min(lone)} was given for one of the two accumulators only; give it to both, or to none.")
        (signal, before), (signal_now, now) = ([one._concluded(which) for which in (0, 1)] for one in both)
        notes = tuple(dict.fromkeys(note for imp in (before, now, signal, signal_now) for note in imp.notes))
        change = difference(before.statistics, now.statistics)
        return Comparison(
            names=names, before=before, after=now, signal_before=signal, signal_after=signal_now, change=change,
            notes=notes,
        )  # fmt: skip
