"""ImportanceAccumulator: scores of batches that add up exactly, in any partitioning and order."""

from __future__ import annotations

import copy
import hashlib
import io
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.compiled import Progress
from treeinner.ensemble import storage
from treeinner.errors import DataError, ModelError, UnsupportedModelError, speak
from treeinner.groups import GroupSpec, identity_of
from treeinner.inference import check_confidence
from treeinner.model import Model, out_of_bag_rows
from treeinner.scores.arguments import check_arguments, open_for
from treeinner.scores.batch import NO_WEIGHT, Batch, read_batch
from treeinner.scores.conclude import conclude, doubts, node_means, overshoot_notes
from treeinner.scores.result import Importance
from treeinner.scores.run import add_batch
from treeinner.scores.setting import TreeAttribution, make_setting
from treeinner.scores.state import State
from treeinner.tables.columns import listing

__all__ = ["ImportanceAccumulator"]

FloatArray = NDArray[np.float64]
Names = tuple[str, ...] | None
CONFIDENCE = 0.95  # coverage of an interval, unless the user asks for another
FORMAT = "treeinner.accumulator"
FORMAT_VERSION = 3

# What decides where a row goes and what it adds to the margin.
ROUTING = (
    "tree_start", "tree_output", "tree_round", "feature", "threshold", "left", "right", "missing_left",
    "category_set", "set_start", "set_codes", "value", "base_score",
)  # fmt: skip
RULES = ("right_if", "float32_input", "category_rule", "zero_as_missing", "base_margin_rule", "column_features")


class ImportanceAccumulator:
    """Scores of rows that come in batches; memory does not grow with the number of rows.

    Batches, threads, processes and files may cut the rows in any way: the sums are exact, so the result is the same
    to the last bit. `a + b`, or `a.merge(b)`, adds two accumulators of the same model and settings, `sum` any number of
    them; they can be pickled, and `to_bytes` and `from_bytes` move the sums without the model. A method or objective of
    your own must be a function that the pickler takes: pickle asks for one at the top level of a module, cloudpickle
    (as in Dask and Ray) takes any.

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
        check_arguments(score, clustered=clustered)
        if method not in (None, "centred"):  # which may have a second pass
            check_errors_wanted(std_errors, clustered=clustered, confidence=confidence)
        self._model: Model = open_for(score, model, reading, caller=ImportanceAccumulator)
        choices: dict[str, Any] = {
            "score": score, "method": method, "over": over, "against": against, "by_round": by_round,
            "std_errors": std_errors,
        }  # fmt: skip
        others = {"feature_groups": feature_groups, "clustered": clustered, "confidence": confidence, "n_jobs": n_jobs}
        self._arguments = choices | others
        self._setting = make_setting(self._model, **choices)
        self._feature_groups, self._clustered = feature_groups, clustered
        self._confidence, self._n_jobs = confidence, n_jobs
        self._names = self._model.names(None)
        if self._names is not None:  # else groups by name wait for the names
            self._resolve_groups()
        self._target_names: Names = None
        self._frame_library = ""
        self._state: State | None = None
        self._margins_given = True  # with every batch so far
        self._first: State | None = None  # sums of the first pass; set: this is the second one

    def __reduce__(self) -> Any:
        first = None if self._first is None else self._first_pass().to_bytes()
        return _unpickled, (self._model, self._arguments, first, self.to_bytes())

    def __deepcopy__(self, memo: Any = None) -> ImportanceAccumulator:
        out = self._twin()
        out._state = copy.deepcopy(self._state)
        return out

    __copy__ = __deepcopy__

    def _twin(self) -> ImportanceAccumulator:
        """Return an accumulator of the same model, settings and sums."""
        twin = object.__new__(ImportanceAccumulator)
        twin.__dict__.update(self.__dict__)
        return twin

    def _holding(self, state: State | None, names: Names, target_names: Names, library: str) -> ImportanceAccumulator:
        """Return an accumulator of the same model and settings with other sums; what it knows itself stays."""
        out = self._twin()
        out._state, out._target_names = state, target_names
        out._names, out._frame_library = _agreed("X", self._names, names), self._frame_library or library
        if out._names is not None or state is not None:
            out._resolve_groups()
        return out

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
        return self._with_first(self._require_rows())

    def _without_errors(self) -> ImportanceAccumulator:
        """Return the same accumulator for the scores alone."""
        out = self._twin()
        out._setting = replace(self._setting, std_errors=False)
        return out

    def _with_first(self, first: State) -> ImportanceAccumulator:
        out = self._twin()
        assert first.leaves is not None
        out._first, out._state = copy.deepcopy(first), None
        out._setting = replace(self._setting, std_errors=True, means=node_means(self._setting, first.leaves))
        return out

    def _first_pass(self) -> ImportanceAccumulator:
        """Return the accumulator of the first pass, from one of the second."""
        out = self._twin()
        out._first, out._state = None, self._first
        out._setting = replace(self._setting, std_errors=self._arguments["std_errors"], means=None)
        return out

    def _require_rows(self) -> State:
        if self._state is None or self._state.n_rows == 0:
            raise DataError("There are no rows to score; pass at least one row of X and y.")
        if self._state.n_units == 0:
            raise DataError(NO_WEIGHT)
        return self._state

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
        progress: Progress | None = None,
    ) -> ImportanceAccumulator:
        """Add a batch of rows and return self. A batch that is refused changes nothing."""
        objective = self._setting.objective
        if objective is not None and objective.scope in ("round", "data"):
            raise UnsupportedModelError(
                f"objective {objective.name!r}: the gradient of a row depends on all rows together, so it cannot be "
                "summed over batches; use importance(model, X, y) on all rows at once."
            )
        if objective is not None:
            self._model.check_batches()
        given = {"sample_weight": sample_weight, "clusters": clusters, "base_margin": base_margin, "qid": qid}
        self._add(X, y, progress=progress, **given)
        return self

    def _add(
        self, X: Any, y: Any, *, oob: bool = False, keep: bool = False, progress: Progress | None = None, **given: Any
    ) -> Batch | None:
        """Add a batch of rows and return it as it was read, shares included if they are kept; None if it has none."""
        if (given["clusters"] is not None) != self._clustered:
            raise DataError(
                "clusters were given for some batches only, or not announced; make the accumulator with "
                "clustered=True and give clusters with every batch."
            )
        if _is_empty(X):
            return None
        added = self._twin()  # what the batch teaches is kept only if it is not refused
        batch = read_batch(self._model, self._setting.objective, X, y, **given)
        added._learn_names(X, batch)
        added._margins_given = self._margins_given and given["base_margin"] is not None
        if self._setting.objective is not None and not self._setting.objective.per_row:
            batch.require_weight()
        if oob:
            batch = replace(batch, tree_share=_out_of_bag_share(self._model, batch))
        if keep:
            shape = (batch.n_rows, len(added._setting.groups.names), self._model.n_outputs)
            batch = replace(batch, shares=np.zeros(shape))
        self._sum(batch, added, progress)
        return batch

    def _sum(self, batch: Batch, added: ImportanceAccumulator, progress: Progress | None) -> None:
        """Add the rows of a batch; added: this accumulator with what the batch taught it."""
        part = added._empty()
        part.queries = set() if batch.qid is None else set(np.unique(batch.qid).tolist())
        add_batch(part, added._setting, batch, n_jobs=self._n_jobs, progress=progress)
        if self._state is None:
            added._state = part
        else:
            self._state += part
        self.__dict__.update(added.__dict__)

    def _learn_names(self, X: Any, batch: Batch) -> None:
        """Take names from the first data frames, if the model itself knows none: all others must have the same."""
        if self._model.feature_names is None:
            self._names = _agreed("X", self._names, self._model.names(X))
            self._resolve_groups()
        self._target_names = _agreed("y", self._target_names, batch.target_names)
        self._frame_library = getattr(batch.table, "frame_library", "") or self._frame_library

    def _resolve_groups(self) -> None:
        names = self._names or self._model.labels(None)
        self._setting = replace(self._setting, groups=self._model.groups(self._feature_groups, names))

    def _empty(self) -> State:
        return State.empty(self._setting, clustered=self._clustered and self._setting.needs_rows)

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
        targets = _agreed("y", self._target_names, other._target_names)
        state = copy.deepcopy(self._state or other._state)
        if state is not None and self._state is not None and other._state is not None:
            state += other._state
        out = self._holding(state, other._names, targets, other._frame_library)
        out._margins_given = self._margins_given and other._margins_given
        return out

    def fingerprint(self) -> str:
        """Identity of what enters the sums, as text: an object and its own file agree."""
        e, s = self._setting.ensemble, self._setting
        digest = hashlib.sha256()
        arrays = [*ROUTING, *({"predecomp": ["node_value", "cover"]}.get(str(s.method), ["cover"]))]
        for name in arrays:
            digest.update(np.ascontiguousarray(getattr(e, name)).tobytes())
        objective = self._model.options.objective
        loss = None if s.objective is None else (s.objective.name, objective if isinstance(objective, str) else "")
        groups = identity_of(self._feature_groups)
        functions = [_identity(given) for given in (s.method, objective) if callable(given)]
        choices = (
            s.score, s.method_name, functions, loss, s.over, s.against, s.std_errors, s.by_round, groups,
            self._clustered,
        )  # fmt: skip
        params = {k: v for k, v in e.objective_params.items() if k != "classes"}  # labels, which a file may not store
        model = [e.library, e.schema.n_columns, params, *(getattr(e, rule) for rule in RULES)]
        digest.update(repr((choices, model, s.scale_bits)).encode())
        if self._first is not None:
            for array in self._first.to_arrays()[0].values():
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def to_bytes(self) -> bytes:
        """Return the sums so far as bytes; the model itself is not inside."""
        state = self._state or self._empty()
        arrays, plain = state.to_arrays()
        plain |= {"fingerprint": self.fingerprint(), "frame_library": self._frame_library}
        plain |= {"names": self._names, "target_names": self._target_names, "margins_given": self._margins_given}
        buffer = io.BytesIO()
        storage.write_to(buffer, FORMAT, FORMAT_VERSION, arrays, plain)
        return buffer.getvalue()

    def from_bytes(self, data: bytes) -> ImportanceAccumulator:
        """Return an accumulator of this one's model and settings that holds the sums in `data`."""
        arrays, plain = storage.read_from(io.BytesIO(data), FORMAT, FORMAT_VERSION, "the bytes")
        if plain["fingerprint"] != self.fingerprint():
            raise ModelError(
                "The bytes belong to another model or other settings; make the accumulator from the same model with "
                "the same arguments."
            )
        state = State.from_arrays(arrays, plain) if plain["n_rows"] else None
        names, targets = (tuple(plain[name] or ()) or None for name in ("names", "target_names"))
        out = self._holding(state, names, _agreed("y", self._target_names, targets), plain["frame_library"])
        out._margins_given = bool(plain["margins_given"])
        return out

    # -- result --------------------------------------------------------------------------------------------------
    def result(self) -> Importance:
        """Scores of all rows so far."""
        found, said = self._conclude()
        said += overshoot_notes(found)
        for note in said:
            speak(note)
        return replace(found, notes=(*self._model.notes, *said))

    def _conclude(self, *, tested: bool = True) -> tuple[Importance, tuple[str, ...]]:
        """Scores of all rows so far, and what must be said about the model."""
        state = self._require_rows()
        statistics = conclude(
            self._model, self._setting, state, self._first, target_names=self._target_names,
            confidence=self._confidence, tested=tested,
        )  # fmt: skip
        found = replace(statistics, frame_library=self._frame_library)
        said = doubts(self._model, self._setting, base_margin=self._margins_given)
        return replace(found, notes=(*self._model.notes, *said)), said


def check_errors_wanted(std_errors: bool, *, clustered: bool, confidence: float) -> None:
    """Raise if something was said about standard errors that are not asked for."""
    for what, given in (("clusters only affect", clustered), ("confidence only affects", confidence != CONFIDENCE)):
        if given and not std_errors:
            raise ValueError(f"{what} standard errors; omit that with std_errors=False.")


def _agreed(what: str, known: Names, names: Names) -> Names:
    """Columns of X or y, which must be the same in every batch that names them: they are taken by position."""
    if known is not None and names is not None and known != names:
        raise DataError(
            f"{what} has the columns {listing(names)}, but {listing(known)} in other batches; pass the same columns in "
            "the same order in every batch."
        )
    return known or names


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


def _identity(function: Any) -> str:
    """What a user's function does, as far as it can be told from its code: two lambdas are two functions."""
    code = getattr(function, "__code__", None)
    if code is None:
        return getattr(function, "__qualname__", type(function).__qualname__)
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    return repr((code.co_code, code.co_names, [repr(c) for c in code.co_consts if not hasattr(c, "co_code")], held))


def _is_empty(X: Any) -> bool:
    shape = getattr(X, "shape", None)
    return shape is not None and len(shape) == 2 and shape[0] == 0
