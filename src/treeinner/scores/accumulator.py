"""ImportanceAccumulator: scores of batches that add up exactly, in any partitioning and order."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.compiled import Progress
from treeinner.errors import DataError, ModelError, UnsupportedModelError, speak
from treeinner.groups import GroupSpec
from treeinner.inference import check_confidence
from treeinner.model import Model, out_of_bag_rows
from treeinner.scores.arguments import open_for
from treeinner.scores.batch import NO_WEIGHT, Batch, read_batch
from treeinner.scores.conclude import conclude, node_means, overshoot_notes
from treeinner.scores.identity import fingerprint_of
from treeinner.scores.result import Importance
from treeinner.scores.run import add_batch
from treeinner.scores.setting import Setting, TreeAttribution, make_setting
from treeinner.scores.state import State
from treeinner.scores.totals import Names, Totals, merge_bytes

__all__ = ["ImportanceAccumulator"]

FloatArray = NDArray[np.float64]
CONFIDENCE = 0.95  # coverage of an interval, unless the user asks for another


class ImportanceAccumulator:
    """Scores of rows that come in batches; memory does not grow with the number of rows.

    Batches, threads, processes and files may cut the rows in any way: the sums are exact, so the result is the same
    to the last bit. `a + b`, or `a.merge(b)`, adds two accumulators of the same model and settings, `sum` any number of
    them; they can be pickled, and `to_bytes` and `from_bytes` move the sums without the model. A method or objective of
    your own travels under its name: define it at the top level of a module, or set its attribute `fingerprint` to a
    text of your own, and let cloudpickle (as in Dask and Ray) carry it.

    Parameters are those of `importance`; `clustered=True` means that every batch comes with clusters. With clusters,
    memory grows with their number. Centred scores are exact after one pass over the rows, their standard errors
    conservative; `second_pass` takes the same rows again and gives them their own.
    """

    def __init__(
        self,
        model: Any,
        *,
        score: str = "tree_inner",
        method: str | TreeAttribution | None = None,
        feature_groups: GroupSpec | None = None,
        over: str | None = None,
        against: str | None = None,
        by_round: bool = False,
        std_errors: bool = True,
        clustered: bool = False,
        confidence: float = CONFIDENCE,
        n_jobs: int | None = -1,
        **reading: Any,
    ) -> None:
        check_confidence(confidence)
        if method not in (None, "centred"):  # which may have a second pass
            check_errors_wanted(std_errors, clustered=clustered, confidence=confidence)
        self._model: Model = open_for(score, model, reading, caller=ImportanceAccumulator)
        choices: dict[str, Any] = {
            "score": score, "method": method, "over": over, "against": against, "by_round": by_round,
            "std_errors": std_errors, "clustered": clustered,
        }  # fmt: skip
        self._arguments = choices | {"feature_groups": feature_groups, "confidence": confidence, "n_jobs": n_jobs}
        self._setting = make_setting(self._model, **choices)
        self._held = Totals(names=self._model.names(None))  # sums over the rows so far, and what the batches taught
        if self._held.names is not None:  # else groups by name wait for the names
            self._setting = self._with_groups(self._held.names)
        self._first: Totals | None = None  # sums of the first pass; set: this is the second one
        self._lock = threading.RLock()  # threads may share an accumulator; its copies share the lock, which harms none

    def __reduce__(self) -> Any:
        first = None if self._first is None else self._first_pass().to_bytes()
        return _unpickled, (self._model, self._arguments, first, self.to_bytes())

    def __deepcopy__(self, memo: Any = None) -> ImportanceAccumulator:
        with self._lock:
            return self._twin(copy.deepcopy(self._held))

    __copy__ = __deepcopy__

    def _twin(self, held: Totals, **changed: Any) -> ImportanceAccumulator:
        """Return an accumulator of the same model and settings with other sums."""
        twin = object.__new__(ImportanceAccumulator)
        twin.__dict__.update(self.__dict__, _held=held, **changed)
        return twin

    def _holding(self, held: Totals) -> ImportanceAccumulator:
        """Return the same for sums that may know other names than these."""
        known = held.names is not None or held.n_rows > 0
        return self._twin(held, _setting=self._with_groups(held.names) if known else self._setting)

    def _with_groups(self, names: Names) -> Setting:
        groups = self._model.groups(self._arguments["feature_groups"], names or self._model.labels(None))
        return replace(self._setting, groups=groups)

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return self._held.n_rows

    @property
    def n_batches(self) -> int:
        """Number of batches so far, but for those without rows."""
        return self._held.n_batches

    # -- two passes ----------------------------------------------------------------------------------------------
    def second_pass(self) -> ImportanceAccumulator:
        """Return an accumulator for the same rows again, which gives a centred score the errors of its own.

        The first pass knows the score, but the share of a row in it only by node values that are not those of these
        rows; its standard errors are conservative. In the second pass the means in the nodes are known. Rows may come
        in other batches and in another order; accumulators of the same first pass add up. `result()` checks that they
        were the same rows. For a first pass without standard errors, pass std_errors=False: it is cheaper.
        """
        if not self._setting.centred:
            raise ValueError(
                f"A second pass belongs to method='centred'; the scores by {self._setting.method_name!r} have their "
                "standard errors after one."
            )
        if self._first is not None:
            raise ValueError("This is the second pass; its result() has everything.")
        first = copy.deepcopy(self._require_rows())
        leaves = first.combined().leaves
        assert leaves is not None
        setting = replace(self._setting, std_errors=True, means=node_means(self._setting, leaves))
        return self._twin(first.without_rows(), _first=first, _setting=setting)

    def _without_errors(self) -> ImportanceAccumulator:
        """Return an accumulator for the scores alone, without rows."""
        return ImportanceAccumulator(self._model, **self._arguments | {"std_errors": False})

    def _first_pass(self) -> ImportanceAccumulator:
        """Return the accumulator of the first pass, from one of the second."""
        assert self._first is not None
        setting = replace(self._setting, std_errors=self._arguments["std_errors"], means=None)
        return self._twin(self._first, _first=None, _setting=setting)

    def _require_rows(self) -> Totals:
        if self.n_rows == 0:
            raise DataError("There are no rows to score; pass at least one row of X and y.")
        if self._held.n_units == 0:
            raise DataError(NO_WEIGHT)
        return self._held

    # -- rows ----------------------------------------------------------------------------------------------------
    def update(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        clusters: Any = None,
        base_margin: Any = None,
        qid: Any = None,
        batch_id: str | int | None = None,
        progress: Progress | None = None,
    ) -> ImportanceAccumulator:
        """Add a batch of rows and return self. A batch that is refused changes nothing.

        y, sample_weight, clusters, base_margin and qid may be names of columns of X; X may then have other columns too.
        batch_id, a text or an integer such as the name of a file, makes sure that a batch counts once: it is refused
        where a batch of the same id was added before, here or in an accumulator that was merged.
        """
        self._check_batches()
        given = {"sample_weight": sample_weight, "clusters": clusters, "base_margin": base_margin, "qid": qid}
        if isinstance(batch_id, bool) or not isinstance(batch_id, str | int | None):
            raise DataError(f"batch_id={batch_id!r}: expected a text or an integer.")
        with self._lock:
            self._add(X, y, progress=progress, batch_id=batch_id, **given)
        return self

    def _check_batches(self) -> None:
        """Raise if the gradient or the weight of a row depends on all others, so that batches do not add up."""
        objective = self._setting.objective
        if objective is None:
            return
        if objective.scope in ("round", "data"):
            raise UnsupportedModelError(
                f"objective {objective.name!r}: the gradient of a row depends on all rows together, so it cannot be "
                "summed over batches; use importance(model, X, y) on all rows at once."
            )
        self._model.check_batches()

    def _add(
        self,
        X: Any,
        y: Any,
        *,
        oob: bool = False,
        keep: bool = False,
        progress: Progress | None = None,
        batch_id: str | int | None = None,
        **given: Any,
    ) -> Batch | None:
        """Add a batch of rows and return it as it was read, shares included if they are kept; None if it has none."""
        if (given["clusters"] is not None) != self._setting.clustered:
            raise DataError(
                "clusters were given for some batches only, or not announced; make the accumulator with "
                "clustered=True and give clusters with every batch."
            )
        X, given = self._model.by_name(X, y=y, **given)
        y = given.pop("y")
        if _is_empty(X):
            return None
        batch = read_batch(self._model, self._setting.objective, X, y, **given)
        held, setting = self._taught(X, batch, margins_given=given["base_margin"] is not None)
        if setting.objective is not None and not setting.objective.per_row:
            batch.require_weight()
        if oob:
            batch = replace(batch, tree_share=_out_of_bag_share(self._model, batch))
        if keep:
            shape = (batch.n_rows, len(setting.groups.names), self._model.n_outputs)
            batch = replace(batch, shares=np.zeros(shape))
        self._sum(batch, held, setting, progress, batch_id)
        return batch

    def _taught(self, X: Any, batch: Batch, *, margins_given: bool) -> tuple[Totals, Setting]:
        """Return sums and setting with what a batch teaches, which is kept only if the batch is not refused.

        Names are those of the first data frame, if the model itself knows none: all others must have the same.
        """
        named = self._model.feature_names is None
        taught = Totals(
            names=self._model.names(X) if named else None,
            target_names=batch.target_names,
            margins_given=margins_given,
            frame_library=getattr(batch.table, "frame_library", ""),
        )
        held = self._held.learn(taught)
        new = named and (held.names != self._held.names or not held.by_scale)  # else keep what the setting worked out
        return held, self._with_groups(held.names) if new else self._setting

    def _sum(
        self,
        batch: Batch,
        held: Totals,
        setting: Setting,
        progress: Progress | None,
        batch_id: str | int | None = None,
    ) -> None:
        """Add the rows of a batch to the sums; held, setting: those of this accumulator, as the batch taught them."""
        ids = frozenset(() if batch_id is None else (batch_id,))
        queries = frozenset(() if batch.qid is None else np.unique(batch.qid).tolist())
        part, done = Totals(n_batches=1, batch_ids=ids, queries=queries), 0
        held.check(part)  # before the work
        for scale, some, rows in batch.by_scale(setting.objective):
            state = part.by_scale[scale] = State.empty(setting)
            heard = None if progress is None else _part_of(progress, done, batch.n_rows)
            add_batch(state, setting, some, n_jobs=self._arguments["n_jobs"], progress=heard)
            done += some.n_rows
            if batch.shares is not None and some.shares is not None and some is not batch:
                batch.shares[rows] = np.ldexp(some.shares, some.weight_exponent)
        self._held, self._setting = held.plus(part), setting

    # -- together ------------------------------------------------------------------------------------------------
    def __add__(self, other: object) -> ImportanceAccumulator:
        return self.merge(other) if isinstance(other, ImportanceAccumulator) else NotImplemented

    def __radd__(self, other: object) -> ImportanceAccumulator:
        """Let `sum`, which starts from 0, add up accumulators."""
        return copy.copy(self) if isinstance(other, int) and other == 0 else NotImplemented

    def merge(self, other: ImportanceAccumulator) -> ImportanceAccumulator:
        """Add up two accumulators of the same model and settings; neither is changed."""
        if not isinstance(other, ImportanceAccumulator):
            raise TypeError(f"expected an ImportanceAccumulator, got a {type(other).__name__}.")
        if self.fingerprint() != other.fingerprint():
            raise ModelError(
                "The two accumulators belong to different models or settings, and their sums mean different things; "
                "make both from the same model with the same arguments."
            )
        first, second = sorted((self, other), key=id)  # one order, so that two threads do not wait for each other
        with first._lock, second._lock:
            return self._holding(copy.deepcopy(self._held).plus(copy.deepcopy(other._held)))

    def fingerprint(self) -> str:
        """Identity of what enters the sums, as text: an object and its own file agree.

        A method or objective of your own is known by its name and code, or by its attribute `fingerprint`, a text. One
        without either, such as a lambda, is refused.
        """
        return fingerprint_of(self._model, self._setting, self._arguments["feature_groups"], self._first)

    def to_bytes(self) -> bytes:
        """Return the sums so far as bytes; the model itself is not inside."""
        with self._lock:
            return self._held.to_bytes(self.fingerprint())

    def from_bytes(self, data: bytes) -> ImportanceAccumulator:
        """Return an accumulator of this one's model and settings that holds the sums in `data`."""
        held, fingerprint = Totals.from_bytes(data)
        if fingerprint != self.fingerprint():
            raise ModelError(
                "The bytes belong to another model or other settings; make the accumulator from the same model with "
                "the same arguments."
            )
        out = self._holding(held.learn(replace(self._held, margins_given=True)))
        for state in held.by_scale.values():
            state.check_layout(State.empty(out._setting))
        return out

    @staticmethod
    def merge_bytes(parts: Iterable[bytes]) -> bytes:
        """Add up what `to_bytes` of several accumulators returned, without their model; the same bytes in any order.

        The result is what `to_bytes` of their sum would be.
        """
        return merge_bytes(parts)

    # -- result --------------------------------------------------------------------------------------------------
    def result(self) -> Importance:
        """Scores of all rows so far."""
        with self._lock:
            found, said = self._conclude()
        more = overshoot_notes(found)
        for note in (*said, *more):
            speak(note)
        return replace(found, notes=(*found.notes, *more))

    def _conclude(self, *, tested: bool = True) -> tuple[Importance, tuple[str, ...]]:
        """Scores of all rows so far, and what must be said about the model."""
        held, confidence = self._require_rows(), self._arguments["confidence"]
        return conclude(self._model, self._setting, held, self._first, confidence=confidence, tested=tested)


def check_errors_wanted(std_errors: bool, *, clustered: bool, confidence: float) -> None:
    """Raise if something was said about standard errors that are not asked for."""
    for what, given in (("clusters only affect", clustered), ("confidence only affects", confidence != CONFIDENCE)):
        if given and not std_errors:
            raise ValueError(f"{what} standard errors; omit that with std_errors=False.")


def _part_of(progress: Progress, done: int, n_rows: int) -> Progress:
    """Progress of some rows, after others that are done."""
    return lambda more, _: progress(done + more, n_rows)


def _unpickled(model: Model, arguments: dict[str, Any], first: bytes | None, state: bytes) -> ImportanceAccumulator:
    out = ImportanceAccumulator(model, **arguments)
    return (out if first is None else out.from_bytes(first).second_pass()).from_bytes(state)


def _out_of_bag_share(model: Model, batch: Batch) -> FloatArray:
    """What each training row counts for in each tree of a random forest: (trees, rows).

    0 if the tree saw it, else all rows / out-of-bag rows of the tree, so that the score is MDI-oob.
    """
    unseen: FloatArray = out_of_bag_rows(model, batch.n_rows).astype(np.float64)
    counted = np.ones(batch.n_rows) if batch.weight is None else batch.weight
    total = unseen @ counted
    unseen *= np.divide(counted.sum(), total, out=np.zeros_like(total), where=total > 0)[:, None]
    return unseen


def _is_empty(X: Any) -> bool:
    shape = getattr(X, "shape", None)
    return shape is not None and len(shape) == 2 and shape[0] == 0
