"""ImportanceAccumulator: scores of batches that add up exactly, in any partition and order."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from treeinner.errors import DataError, UnsupportedModelError
from treeinner.kernels import Progress
from treeinner.read import Model, read_model
from treeinner.read.columns import GroupSpec, credit
from treeinner.rows import read_rows
from treeinner.score.conclude import ONE_PASS, conclude, warned
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
        loss = scored_loss(self.model, score)
        if loss.scope in ("round", "data") or isinstance(self.model.class_weight, str):
            raise UnsupportedModelError(
                f"{loss.name}: the gradient or weight of a row depends on all rows together, so it cannot be summed "
                "over batches; use ti.importance(model, X, y) on all rows at once."
            )

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
        progress: Progress | None = None,
        **given: Any,
    ) -> ImportanceAccumulator:
        """Add a batch of rows and return self. A batch that is refused changes nothing.

        given: sample_weight, clusters, base_margin and qid, as for `importance`. batch_id, such as the name of a file,
        makes sure that a batch counts once, here or in an accumulator that is added.
        """
        if (given.get("clusters") is not None) != self._asked["clustered"]:
            raise DataError(
                "clusters were given for some batches only, or not announced; make the accumulator with clustered=True "
                "and give clusters with every batch."
            )
        rows = read_rows(self.model, X, y, largest_weight=self.largest_weight, **given)
        spec = self.spec
        if spec is None or (self.model.feature_names is None and rows.names is not None and self.n_rows == 0):
            spec = make_spec(self.model, credit(self.model, rows.names, self._feature_groups, rows.head), **self._asked)
        part = self._sum(spec, rows, progress)
        part.parts = frozenset() if batch_id is None else frozenset([batch_id])
        part.margins_given = given.get("base_margin") is not None
        self.sums = part if self.sums is None else self.sums + part
        self.spec = spec
        return self

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
        if self._asked["method"] != "centred" or self._first is not None:
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
        return out

    def __radd__(self, other: object) -> ImportanceAccumulator:
        """Let `sum`, which starts from 0, add up accumulators."""
        return self._copy() if isinstance(other, int) and other == 0 else NotImplemented

    def result(self) -> Importance:
        """Scores of all rows so far."""
        sums, spec = self._require_rows(), self.spec
        assert spec is not None
        if spec.method != "centred":
            centre = node_means(self.model, spec, None) if spec.by_path else None
            return warned(conclude(self.model, spec, sums, sums, centre))
        if self._first is not None:
            return warned(conclude(self.model, spec, self._first, sums, self.centre))
        found = conclude(self.model, spec, sums, None, node_means(self.model, spec, sums))
        return warned(
            found, replace(ONE_PASS, text="Standard errors need a second pass: see second_pass().", quiet=True)
        )
