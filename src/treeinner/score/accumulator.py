"""ImportanceAccumulator: scores of batches that add up exactly, in any partition and order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from treeinner.errors import DataError, ModelError, UnsupportedModelError
from treeinner.kernels import Progress, heard
from treeinner.read import Model, read_model
from treeinner.read.columns import GroupSpec, credit
from treeinner.read.methods import reference_values
from treeinner.rows import Rows, Stream, read_rows
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
        self._asked: dict[str, Any] = {"score": score, "method": method, "clustered": clustered}
        self._feature_groups = feature_groups
        self.spec: Spec | None = None  # made of the first batch, which may know the names of the columns
        self.sums: Sums | None = None
        self._first: Sums | None = None  # sums of the first pass; set: this is the second one
        self.centre: Centre | None = None
        self._pays: ImportanceAccumulator | None = None  # the loss breakdown of the same rows
        if reference is not None:
            self._fix(reference)
        loss = scored_loss(self.model, score)
        if loss.scope in ("round", "data") or isinstance(self.model.class_weight, str):
            raise UnsupportedModelError(
                f"{loss.name}: the gradient or weight of a row depends on all rows together, so it cannot be summed "
                "over batches; use ti.importance(model, X, y) on all rows at once."
            )

    def _fix(self, reference: Importance) -> None:
        """Take the node values of a reference."""
        score, method = self._asked["score"], self._asked["method"]
        if method != "centred" or (self.model.trees.averaged and score != "loss"):
            raise ValueError("reference= goes with method='centred', and for a forest with score='loss'.")
        value = reference_values(self.model, reference)[self.model.trees.forest.numbered]
        self.centre = Centre(value, np.zeros_like(value))
        if score == "signal" and (self.model.loss is None or self.model.loss.value is not None):
            self._pays = self._copy()
            self._pays._asked = {**self._asked, "score": "loss"}

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return 0 if self.sums is None else self.sums.rows

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
            raise DataError(
                "clusters were given for some batches only, or not announced; make the accumulator with clustered=True "
                "and give clusters with every batch."
            )
        rows = read_rows(self.model, X, y, largest_weight=self.largest_weight, **given)
        both = [self] if self._pays is None else [self, self._pays]
        batches = rows if rows.again or len(both) == 1 else list(rows)
        known = batch_id, given.get("base_margin") is not None, heard(progress)
        for one, (spec, sums) in [(one, one._with(rows, batches, *known)) for one in both]:
            one.spec, one.sums = spec, sums
        return self

    def _with(
        self, rows: Stream, batches: Iterable[Rows], batch_id: Hashable, margins_given: bool, progress: Progress | None
    ) -> tuple[Spec, Sums]:
        """What is asked, and the sums with those of some more rows."""
        spec = self.spec
        if spec is None or (self.model.feature_names is None and rows.names is not None and self.n_rows == 0):
            spec = make_spec(self.model, credit(self.model, rows.names, self._feature_groups, rows.head), **self._asked)
        part = self._sum(spec, batches, progress)
        part.parts = frozenset() if batch_id is None else frozenset([batch_id])
        part.margins_given = margins_given
        return spec, part if self.sums is None else self.sums + part

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
            raise ValueError(
                "A second pass belongs to method='centred', after the first; result() has everything else."
            )
        out = self._copy()
        out._first, out.sums = self._require_rows(), None
        assert self.spec is not None
        out.centre = node_means(self.model, self.spec, out._first)
        return out

    def _copy(self) -> ImportanceAccumulator:
        out = object.__new__(ImportanceAccumulator)
        out.__dict__.update(self.__dict__)
        out._pays = None if self._pays is None else self._pays._copy()
        return out

    def _require_rows(self) -> Sums:
        if self.sums is None:
            raise DataError("There are no rows to score; pass at least one row of X and y.")
        return self.sums

    def __add__(self, other: object) -> ImportanceAccumulator:
        if not isinstance(other, ImportanceAccumulator):
            return NotImplemented
        if self is other:
            raise DataError("An accumulator cannot be added to itself: its rows would count twice.")
        if self.sums is None or other.sums is None:
            return (other if self.sums is None else self)._copy()
        out = self._copy()
        out.sums = self.sums + other.sums
        if self._pays is not None and other._pays is not None:
            out._pays = self._pays + other._pays
        return out

    def __radd__(self, other: object) -> ImportanceAccumulator:
        """Let `sum`, which starts from 0, add up accumulators."""
        return self._copy() if isinstance(other, int) and other == 0 else NotImplemented

    def result(self) -> Importance:
        """Scores of all rows so far."""
        return warned(self._concluded())

    def _concluded(self) -> Importance:
        sums, spec = self._require_rows(), self.spec
        assert spec is not None
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
        pays, both = (self._pays, after._pays), (self, after)
        if None in pays or len({one._require_rows().key for one in both}) > 1:
            raise ModelError("Accumulators are compared if both have the same model, settings and signal reference=.")
        before, now = (one._concluded() for one in pays if one is not None)
        signal, signal_now = (one._concluded() for one in both)
        notes = tuple(dict.fromkeys(note for imp in (before, now, signal, signal_now) for note in imp.notes))
        change = difference(before.statistics, now.statistics)
        return Comparison(
            names=names, before=before, after=now, signal_before=signal, signal_after=signal_now, change=change,
            notes=notes,
        )  # fmt: skip
