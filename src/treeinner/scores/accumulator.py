"""ImportanceAccumulator: scores of batches that add up exactly, in any partitioning and order."""

from __future__ import annotations

import copy
import hashlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import objectives, storage
from treeinner.ensemble import ARRAYS
from treeinner.errors import DataError, ModelError, UnsupportedModelError
from treeinner.groups import GroupSpec, resolve_groups
from treeinner.inference import from_sums
from treeinner.model import Model, open_model, out_of_bag_rows
from treeinner.options import ReadOptions
from treeinner.scores.inputs import NO_WEIGHT, check_confidence, read_inputs
from treeinner.scores.leaves import Leaves
from treeinner.scores.result import Importance
from treeinner.scores.run import Rows, add_rows
from treeinner.scores.setting import Setting, TreeAttribution, make_setting
from treeinner.scores.state import State

__all__ = ["ImportanceAccumulator"]

FORMAT = "treeinner.importance"
FORMAT_VERSION = 1


class ImportanceAccumulator:
    """Scores of rows that come in batches; memory does not grow with the number of rows.

    Batches, threads, processes and files may cut the rows in any way: the sums are exact, so the result is the same
    to the last bit. `merge` adds two accumulators of the same model and settings; `to_bytes` and `from_bytes` send
    them about.

    Parameters are those of `importance`. With `clusters`, memory grows with the number of clusters.
    """

    def __init__(
        self,
        model: Any,
        *,
        score: str = "tree_inner",
        method: str | TreeAttribution = "predecomp",
        objective: Any = "auto",
        learning_rate: float | None = None,
        reg_lambda: float | None = None,
        reg_alpha: float | None = None,
        groups: GroupSpec | None = None,
        iteration_range: tuple[int, int] | None = None,
        target: str = "residual",
        level: str = "tree",
        std_errors: bool = True,
        by_round: bool = False,
        clustered: bool = False,
        confidence: float = 0.95,
        n_jobs: int | None = -1,
    ) -> None:
        check_confidence(confidence)
        if score == "permutation":
            raise UnsupportedModelError(
                "Permutation importance shuffles a column over all rows, so it cannot be added up over batches; "
                "use importance(model, X, y, score='permutation')."
            )
        self._opened: Model = open_model(
            model,
            ReadOptions(
                learning_rate=learning_rate, reg_lambda=reg_lambda, reg_alpha=reg_alpha, iteration_range=iteration_range
            ),
        )
        ensemble = self._opened.ensemble
        needs_y = score != "abs"
        self._setting: Setting = make_setting(
            ensemble,
            objectives.for_ensemble(ensemble, objective) if needs_y else None,
            score=score,
            method=method,
            target=target,
            level=level,
            std_errors=std_errors,
            by_round=by_round,
        )
        self._asked_objective = objective if isinstance(objective, str) else ""  # the loss's parameters are in it
        self._score, self._group_spec, self._confidence, self._n_jobs = score, groups, confidence, n_jobs
        names = self._opened.names(None)
        self._names: tuple[str, ...] = names or tuple(f"f{i}" for i in range(ensemble.n_features))
        self._named = names is not None
        self._groups = resolve_groups(groups, self._names) if self._named or groups is None else None
        self._frame_library = ""
        self._clustered = clustered
        self._state: State | None = None

    # -- rows ----------------------------------------------------------------------------------------------------
    def update(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        clusters: Any = None,
        base_margin: Any = None,
        group: Any = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> ImportanceAccumulator:
        """Add a batch of rows and return self."""
        objective = self._setting.objective
        if objective is not None and objective.scope in ("round", "data"):
            raise UnsupportedModelError(
                f"objective {objective.name!r}: the gradient of a row depends on all rows together, so it cannot be "
                "summed over batches; use importance(model, X, y) on all rows at once."
            )
        self._update(X, y, sample_weight, clusters, base_margin, group, progress)
        return self

    def _update(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        clusters: Any,
        base_margin: Any,
        group: Any,
        progress: Callable[[int, int], None] | None,
        oob: bool = False,
    ) -> None:
        if (clusters is not None) != self._clustered:
            raise DataError(
                "clusters were given for some batches only, or not announced; make the accumulator with "
                "clustered=True and give clusters with every batch."
            )
        if _is_empty(X):
            return
        table = self._opened.table(X)
        self._learn_names(X)
        self._frame_library = getattr(table, "frame_library", "") or self._frame_library
        inputs = read_inputs(self._setting, table.n_rows, y, sample_weight, clusters, base_margin, group)
        if self._setting.objective is not None and not self._setting.objective.per_row:
            inputs.require_weight()
        share = self._out_of_bag_share(table.n_rows, inputs.weight) if oob else None
        part, rows = self._empty(oob=oob), Rows(table, inputs, share)
        add_rows(part, self._setting, rows, self._groups, n_jobs=self._n_jobs, progress=progress)
        if self._state is None:
            self._state = part
        else:
            self._state += part

    def _out_of_bag_share(self, n_rows: int, weight: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """What each training row counts for in each tree of a random forest: (trees, rows).

        0 if the tree saw it, else all rows / out-of-bag rows of the tree, so that score / rows is MDI-oob.
        """
        if self._setting.score != "tree_inner":
            raise ValueError(f"oob=True goes with score='tree_inner', but score={self._score!r} was asked for.")
        unseen: NDArray[np.float64] = out_of_bag_rows(self._opened, n_rows).astype(np.float64)
        counted = np.ones(n_rows) if weight is None else weight
        total = unseen @ counted
        unseen *= np.divide(counted.sum(), total, out=np.zeros_like(total), where=total > 0)[:, None]
        return unseen

    def _learn_names(self, X: Any) -> None:
        """Use the names of the first data frame, if the model itself knows none."""
        if not self._named:
            names = self._opened.names(X)
            if names is not None:
                self._names, self._named = names, True
            self._groups = resolve_groups(self._group_spec, self._names)

    def _empty(self, *, oob: bool = False) -> State:
        # Out of bag, every tree has rows of its own, and its node values stay as they are.
        leaves = Leaves.empty(self._setting, centred=self._setting.centred and not oob)
        return State.empty(self._setting, self._groups, clustered=self._clustered, leaves=leaves)

    # -- together ------------------------------------------------------------------------------------------------
    def merge(self, other: ImportanceAccumulator) -> ImportanceAccumulator:
        """Add up two accumulators of the same model and settings; neither is changed."""
        if not isinstance(other, ImportanceAccumulator):
            raise TypeError(f"An ImportanceAccumulator was needed, but a {type(other).__name__} came.")
        if self.fingerprint() != other.fingerprint():
            raise ModelError(
                "The two accumulators belong to different models or settings, and their sums mean different things; "
                "make both from the same model with the same arguments."
            )
        merged = copy.copy(self)
        merged._state = self._copied_state()
        if other._state is not None:
            merged._state = other._copied_state() if merged._state is None else merged._state.__iadd__(other._state)
        if other._named and not self._named:
            merged._names, merged._named = other._names, True
        if self._groups is None or merged._names is other._names:
            merged._groups = other._groups
        merged._frame_library = self._frame_library or other._frame_library
        return merged

    def _copied_state(self) -> State | None:
        return None if self._state is None else copy.deepcopy(self._state)

    def fingerprint(self) -> str:
        """Identity of model and settings, as text."""
        e, s = self._setting.ensemble, self._setting
        digest = hashlib.sha256()
        for name in ARRAYS:
            digest.update(getattr(e, name).tobytes())
        method = s.method if isinstance(s.method, str) else getattr(s.method, "__qualname__", "callable")
        objective = "" if s.objective is None else (s.objective.name, self._asked_objective)
        words = (self._score, method, objective, s.target, s.level, s.std_errors, s.by_round, self._group_spec)
        model = (e.library, e.schema.n_columns, dict(e.params), dict(e.objective_params), e.right_if, e.column_features)
        digest.update(repr((words, model, self._clustered)).encode())
        return digest.hexdigest()

    def to_bytes(self) -> bytes:
        """Return the sums so far as bytes; the model itself is not inside."""
        state = self._state or self._empty()
        arrays, plain = state.to_arrays()
        plain["fingerprint"] = self.fingerprint()
        plain["names"] = list(self._names) if self._named else None
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
        out = copy.copy(self)
        out._state = State.from_arrays(arrays, plain) if plain["n_rows"] else None
        if plain["names"] is not None and not self._named:
            out._names, out._named = tuple(plain["names"]), True
        if out._state is not None:
            out._groups = resolve_groups(self._group_spec, out._names)
        return out

    # -- result --------------------------------------------------------------------------------------------------
    def result(self) -> Importance:
        """Scores of all rows so far."""
        state, setting = self._state, self._setting
        if state is None or state.n_rows == 0:
            raise DataError("There are no rows to score; pass at least one row of X and y.")
        if state.n_units == 0:
            raise DataError(NO_WEIGHT)
        _check_resolution(setting, state)
        rounds = score = None
        if setting.needs_leaves and setting.penalty is None:
            by_round = state.from_leaves(setting, self._groups, setting.numbered_value)
            rounds, score = by_round.sum(axis=2), by_round.sum(axis=0)
        elif state.rounds is not None:
            rounds = state.rounds.totals().reshape(setting.ensemble.n_rounds, state.n_features)
        if setting.needs_rows:
            whole, outputs = state.infer(setting, self._groups, score, self._confidence)
        else:
            assert score is not None
            whole = _without_errors(score.sum(axis=1))
            outputs = _without_errors(score) if state.n_outputs > 1 else None
        names = self._names if self._groups is None else self._groups.names
        return Importance(
            score=self._score,
            method=setting.method if isinstance(setting.method, str) else "callable",
            feature_names=tuple(names),
            statistics=whole,
            outputs=outputs,
            output_names=setting.ensemble.output_names,
            n_rows=state.n_rows,
            sum_of_weights=float(state.weight.totals()[0]),
            tested=setting.score != "abs",
            has_std_errors=setting.std_errors,
            rounds=rounds,
            frame_library=self._frame_library,
        )


def _check_resolution(setting: Setting, state: State) -> None:
    """Raise if weights are so small that the units of the sums, which follow the model's values, are too coarse."""
    mean = float(state.weight.totals()[0]) / state.n_units
    # Row scores are held to 2^-88, leaf sums to 2^-32, where the roundings of many rows average out.
    too_small = mean * state.n_units**0.5 < 1e-4 if setting.needs_leaves else mean < 1e-8
    if too_small:
        raise DataError(
            f"sample_weight is {mean:.2g} on average, too small to be summed exactly; divide it by its mean, which "
            "changes no test and no score per row."
        )


def _without_errors(scores: Any) -> Any:
    return from_sums(scores, np.zeros_like(scores), 1)


def _is_empty(X: Any) -> bool:
    shape = getattr(X, "shape", None)
    return shape is not None and len(shape) == 2 and shape[0] == 0
