"""Shares of the rows of one task in the score, on their way through the boosting rounds.

The trees of a round were fitted to the gradients at the margin before it. So the rows carry their margin along: take
the gradients, let the trees of the round give their attributions, add their leaf values, go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.compiled import LOSSES, Sums, aligned, padded_rows
from treeinner.errors import DataError, UnsupportedModelError
from treeinner.objectives import Objective
from treeinner.objectives.base import one_hot
from treeinner.scores.batch import Batch
from treeinner.scores.leaves import Leaves
from treeinner.scores.setting import GRADIENT_BITS, WEIGHT_BITS, Setting
from treeinner.scores.state import State

__all__ = ["Task", "run_task", "run_tasks"]

FloatArray = NDArray[np.float64]
MAX_FIXED_POINT = 2.0**62


@dataclass(frozen=True)
class CoreTarget:
    """A loss that the core knows, and the target and weights of the rows as it takes them (core/kernels/boost.h)."""

    loss: int
    scale: float
    y: FloatArray
    weight: FloatArray | None


class Task:
    """Consecutive rows of a batch, binned, with their margins and their shares so far."""

    def __init__(self, setting: Setting, batch: Batch, start: int, stop: int, leaves: Leaves | None) -> None:
        forest, here, n = setting.forest, slice(start, stop), stop - start
        self.setting, self.rows, self.n_rows = setting, batch.table.block(start, stop), n
        self.y = None if batch.y is None else batch.y[here]
        self.weight = None if batch.weight is None else batch.weight[here]
        self.clusters = None if batch.clusters is None else batch.clusters[here]
        self.tree_share = None if batch.tree_share is None else batch.tree_share[:, here]
        self.codes = forest.bin(self.rows)
        self.margin = aligned((forest.n_outputs, padded_rows(n)))
        self.margin[:, :n] = batch.base[here].T
        self.residual = aligned(self.margin.shape)  # minus the gradient of the round; 0 behind the last row
        self.residual_sum = np.zeros((n, forest.n_outputs))  # over all rounds
        self.sums = Sums(forest, n)
        self.custom: FloatArray | None = None  # shares by a user's own attribution: (rows, features, outputs)
        self.state = State.empty(setting, clustered=self.clusters is not None)
        self.leaves = leaves  # shared with other tasks: what the rows add to the leaves is added there
        self.boosted = False  # whether the core took the rows through all rounds
        self.largest = np.zeros(padded_rows(n))  # largest fixed-point number that each row adds to a leaf

    def margins(self) -> FloatArray:
        """Return the margins so far: (rows, outputs)."""
        return self.margin[:, : self.n_rows].T

    def padded_margins(self) -> FloatArray:
        """Return the margins so far with the last row repeated up to full blocks: (padded rows, outputs)."""
        self.margin[:, self.n_rows :] = self.margin[:, self.n_rows - 1 : self.n_rows]
        return self.margin.T

    def take(self, gradient: FloatArray) -> None:
        """Take the gradients of a round: (rows, outputs)."""
        np.negative(gradient.T, out=self.residual[:, : self.n_rows])

    def score_round(self, number: int, hessian: FloatArray | None) -> None:
        """Let the trees of one round score the rows by the gradients taken, then move on."""
        s = self.setting
        first, n = s.rounds[number]
        if s.score == "forest_inner":
            self.residual_sum += self.residual[:, : self.n_rows].T
        if s.score == "tree_inner":
            before = self.row_scores().copy() if s.rounds_by_rows else None
            if s.needs_rows:
                self._attribute(first, n)
            if hessian is not None:
                self._charge_penalty(first, n, hessian)
            if self.leaves is not None:
                self._add_leaf_sums(first, n, self.leaves)
            if before is not None:
                self.state.add_round(number, self.row_scores() - before, s.groups)
        s.forest.core.margins(self.codes, first, n, self.margin)

    def _attribute(self, first: int, n: int) -> None:
        """Add the attributions of trees first..first + n, times minus the gradient."""
        s = self.setting
        for start, count, residual in self._residuals(first, n):
            if callable(s.method):
                for tree in range(start, start + count):
                    self._add_custom(self._custom_attribution(tree) * residual[:, None, : self.n_rows].T)
            else:
                self._add(self.sums, start, count, residual)

    def _residuals(self, first: int, n: int) -> Iterator[tuple[int, int, FloatArray]]:
        """Trees of a round that share their gradients: (first, number, minus the gradient)."""
        if self.tree_share is None:
            yield first, n, self.residual
            return
        for tree in range(first, first + n):
            residual = aligned(self.residual.shape)
            residual[:, : self.n_rows] = self.residual[:, : self.n_rows] * self.tree_share[tree]
            yield tree, 1, residual

    def _add(self, sums: Sums, first: int, n: int, residual: FloatArray | None) -> None:
        if self.setting.paths is None:
            sums.add_shap(self.codes, first, n, residual)
        else:
            sums.add_path(self.codes, first, n, self.setting.paths, residual)

    def _custom_attribution(self, tree: int) -> FloatArray:
        """Attribution of one tree by the user's function: (rows, features, outputs)."""
        s = self.setting
        assert callable(s.method)
        e = s.ensemble
        values = np.asarray(s.method(e.slice_trees(tree, tree + 1), self.rows), np.float64)
        shape = (self.n_rows, e.n_features, e.n_outputs)
        if values.shape == shape[:2]:
            placed = np.zeros(shape)
            placed[:, :, e.tree_output[tree]] = values
            values = placed
        if values.shape != shape:
            raise DataError(
                f"The attribution of a tree has shape {values.shape}; expected {shape[:2]} (or {shape}): one value per "
                "row and feature (and output)."
            )
        return values

    def _charge_penalty(self, first: int, n: int, hessian: FloatArray) -> None:
        """Charge each row its share of the l1 penalty: its share of the hessian that the tree was grown on."""
        e, penalty = self.setting.ensemble, self.setting.penalty
        assert penalty is not None
        for tree in range(first, first + n):
            cover = e.cover[e.tree_start[tree]]
            players, cost = penalty[tree]
            if cover <= 0 or len(players) == 0:
                continue
            output = e.tree_output[tree]
            self.sums.by_row[:, output, players] -= (hessian[:, output] / cover)[:, None] * cost

    def _add_leaf_sums(self, first: int, n: int, leaves: Leaves) -> None:
        """Add the gradients to the leaves."""
        for start, count, residual in self._residuals(first, n):
            fixed = np.rint(np.ldexp(residual, GRADIENT_BITS - self.setting.scale_bits))
            np.maximum(self.largest, np.abs(fixed).max(axis=0), out=self.largest)
            _check_size(float(self.largest.max()))
            self.setting.forest.core.leaf_sums(self.codes, start, count, fixed.astype(np.int64), leaves.sums)

    def _finish_leaves(self) -> None:
        """After the last round: add the weights of the rows to the leaves, and note how much the rows added at most."""
        if self.leaves is None:
            return
        if self.leaves.weights is not None and not self.boosted:
            forest = self.setting.forest
            fixed = np.zeros(self.margin.shape, np.int64)
            fixed[:, : self.n_rows] = self._fixed_point_weight()
            forest.core.leaf_sums(self.codes, 0, forest.n_trees, fixed, self.leaves.weights)
        self.leaves.raise_bound(_integer_sum(self.largest))

    def _fixed_point_weight(self) -> NDArray[np.int64]:
        """Weights of the rows as fixed-point integers: (rows,)."""
        weight = np.ones(self.n_rows) if self.weight is None else self.weight
        fixed = np.rint(weight * 2.0**WEIGHT_BITS)
        largest = self.largest[: self.n_rows]
        np.maximum(largest, fixed, out=largest)
        _check_size(float(largest.max()))
        return fixed.astype(np.int64)

    # -- gradients in the core -----------------------------------------------------------------------------------
    def core_target(self, objective: Objective) -> CoreTarget | None:
        """What the core needs to take gradients itself; None where it does not know the loss."""
        loss = objective.core_loss()
        if loss is None:
            return None
        if objective.row_weight is not None and self.setting.forest.n_outputs > 1 and objective.target != "class":
            return None  # a weight per target, which the core does not know
        y = np.asarray(self.y, np.float64).reshape(self.n_rows, -1)
        target = y if loss.target is None else loss.target(y)
        return CoreTarget(
            LOSSES[loss.kind], loss.scale, np.ascontiguousarray(target.T), objective.total_weight(y, self.weight)
        )

    def boost(self, target: CoreTarget) -> bool:
        """Take the rows through all rounds inside the core, where it can score them; else return False."""
        s, forest = self.setting, self.setting.forest
        if not s.leaves_suffice or self.tree_share is not None:
            return False
        assert self.leaves is not None
        weights = self.leaves.weights
        forest.boost(
            self.codes,
            target.loss,
            target.scale,
            s.first_trees,
            target.y,
            target.weight,
            self.margin,
            2.0 ** (GRADIENT_BITS - s.scale_bits),
            self.leaves.sums,
            self.largest,
            None if weights is None else self._fixed_point_weight(),
            self.leaves.sums if weights is None else weights,
            s.paths if s.needs_rows else None,
            self.sums.by_row,
        )
        self.boosted = True
        _check_size(float(self.largest.max()))
        return True

    def take_in_core(self, target: CoreTarget) -> bool:
        """Take the gradients of a round inside the core; return whether they are finite."""
        core = self.setting.forest.core
        core.residuals(self.codes, target.loss, target.scale, target.y, target.weight, self.margin, self.residual)
        return bool(np.isfinite(self.residual.sum()))

    # -- shares --------------------------------------------------------------------------------------------------
    def row_scores(self) -> FloatArray:
        """Share of every row in the score: (rows, features, outputs)."""
        if self.custom is not None:
            return self.custom
        return self.setting.forest.features(self.sums.players())

    def _scores_in_use(self) -> tuple[FloatArray, NDArray[np.intp] | None]:
        """Shares in the features that the trees use, and which ones these are; None: in all, used or not."""
        forest = self.setting.forest
        if self.custom is not None or forest.player_feature is None or forest.features_are_players:
            return self.row_scores(), None
        return self.sums.players().transpose(0, 2, 1), forest.player_feature

    def _add_custom(self, scores: FloatArray) -> None:
        self.custom = scores if self.custom is None else self.custom + scores

    def finish(self) -> State:
        """Sum the shares of the rows; what reached the leaves is added apart."""
        s = self.setting
        scores, features, groups = None, None, s.groups
        if s.score == "forest_inner":
            scores = self._forest_inner()
        elif s.score == "abs":
            scores, groups = self._absolute(), None
        elif s.needs_rows and s.groups is None:
            scores, features = self._scores_in_use()
        elif s.needs_rows:
            scores = self.row_scores()
        if scores is not None:
            self.state.add_rows(scores, features, self.weight, groups, self.clusters)
        else:
            self.state.count_rows(self.n_rows, self.weight)
        self._finish_leaves()
        return self.state

    # -- scores of the whole forest ------------------------------------------------------------------------------
    def _forest_inner(self) -> FloatArray:
        """(sum of the attributions) times (sum of the residuals), or times the label."""
        self._attribute_all()
        factor = self._label() if self.setting.against == "label" else self.residual_sum
        return self.row_scores() * factor[:, None, :]

    def _label(self) -> FloatArray:
        """Label of every row and output, times its weight: (rows, outputs)."""
        objective, n_outputs = self.setting.objective, self.setting.ensemble.n_outputs
        assert objective is not None
        y = np.asarray(self.y)
        if objective.target == "class":
            label = one_hot(y.reshape(-1).astype(np.int64), n_outputs)
        else:
            label = np.broadcast_to(y.reshape(len(y), -1).astype(np.float64), (len(y), n_outputs))
        return label if self.weight is None else label * self.weight[:, None]

    def _absolute(self) -> FloatArray:
        """Sum over the trees of |attribution|, or |sum over the trees|; a group's attribution is its members' sum."""
        s = self.setting
        if s.over == "forest":
            self._attribute_all()
            out = np.abs(self._grouped(self.row_scores()))
        elif s.groups is None and not callable(s.method) and s.forest.player_feature is not None:
            out = self._absolute_by_tree()
        else:
            out = np.zeros((self.n_rows, s.n_scored, s.forest.n_outputs))
            for tree in range(s.ensemble.n_trees):
                out += np.abs(self._grouped(self._tree_attribution(tree)))
        return out if self.weight is None else out * self.weight[:, None, None]

    def _absolute_by_tree(self) -> FloatArray:
        """Sum over the trees of `|attribution|`: (rows, features, outputs). A tree touches the players it splits on."""
        s, forest = self.setting, self.setting.forest
        sums, total = Sums(forest, self.n_rows), Sums(forest, self.n_rows)
        for tree in range(s.ensemble.n_trees):
            players = np.unique(forest.split_player[forest.first_split[tree] : forest.first_split[tree + 1]])
            if len(players):
                self._add(sums, tree, 1, None)
                sums.move_absolute(players, total)
        return forest.features(total.players())

    def _tree_attribution(self, tree: int) -> FloatArray:
        """Attribution of one tree: (rows, features, outputs)."""
        if callable(self.setting.method):
            return self._custom_attribution(tree)
        self.sums = Sums(self.setting.forest, self.n_rows)
        self._add(self.sums, tree, 1, None)
        return self.row_scores()

    def _attribute_all(self) -> None:
        s = self.setting
        if callable(s.method):
            for tree in range(s.ensemble.n_trees):
                self._add_custom(self._custom_attribution(tree))
        else:
            self._add(self.sums, 0, s.ensemble.n_trees, None)

    def _grouped(self, values: FloatArray) -> FloatArray:
        groups = self.setting.groups
        return values if groups is None else groups.add_up(values, axis=1)


def _integer_sum(values: FloatArray) -> int:
    """Sum of integers below 2^62, which may exceed 64 bits: by halves of 31 bits."""
    integers = values.astype(np.int64)
    return (int((integers >> 31).sum()) << 31) + int((integers & (2**31 - 1)).sum())


def _check_size(largest: float) -> None:
    if not largest < MAX_FIXED_POINT:
        raise DataError(
            "A gradient is far out of proportion to the model's own values; check y, sample_weight and base_margin for "
            "wrong units or outliers."
        )


def run_task(task: Task) -> None:
    """Take one task through all rounds; the loss looks at one row at a time."""
    setting, objective = task.setting, task.setting.objective
    assert objective is not None
    assert task.y is not None
    target = task.core_target(objective)
    if target is not None and task.boost(target):
        return
    # numpy adds the outputs of a single row in another order than those of many rows. Full blocks, the last row
    # repeated, make the gradient of a row the same bits wherever the row stands.
    repeated = np.minimum(np.arange(padded_rows(task.n_rows)), task.n_rows - 1)
    y = task.y[repeated]
    weight = None if task.weight is None else task.weight[repeated]
    for number in range(len(setting.rounds)):
        if target is None or not task.take_in_core(target):  # numpy knows which row has no finite gradient
            task.take(objective.gradients(y, task.padded_margins(), weight=weight)[: task.n_rows])
        hessian = None
        if setting.penalty is not None:
            hessian = _hessian(setting, y, task.padded_margins(), weight, None)[: task.n_rows]
        task.score_round(number, hessian)


def run_tasks(tasks: Sequence[Task], qid: NDArray[Any] | None = None) -> None:
    """Take tasks through all rounds together: the loss of a row looks at other rows too."""
    setting = tasks[0].setting
    objective = setting.objective
    assert objective is not None
    y = np.concatenate([np.asarray(task.y) for task in tasks])
    weights = [task.weight for task in tasks if task.weight is not None]
    weight = np.concatenate(weights) if weights else None
    edges = np.cumsum([0] + [task.n_rows for task in tasks])
    for number in range(len(setting.rounds)):
        margin = np.concatenate([task.margins() for task in tasks])
        gradient = objective.gradients(y, margin, weight=weight, qid=qid)
        hessian = _hessian(setting, y, margin, weight, qid) if setting.penalty is not None else None
        for task, start, stop in zip(tasks, edges[:-1], edges[1:], strict=True):
            task.take(gradient[start:stop])
            task.score_round(number, None if hessian is None else hessian[start:stop])


def _hessian(
    setting: Setting, y: NDArray[Any], margin: FloatArray, weight: FloatArray | None, qid: NDArray[Any] | None
) -> FloatArray:
    """What a row adds to the cover of a root: its hessian, its weight, or 1 where the library counts rows."""
    e, objective = setting.ensemble, setting.objective
    assert objective is not None
    hessian: FloatArray | None = np.ones_like(margin)
    if e.cover_is == "hessian":
        hessian = objective.hessians(y, margin, qid=qid)
    if hessian is None:
        raise UnsupportedModelError(
            f"objective {objective.name!r} has no hessian, which the score of an l1-regularised model needs; "
            "pass reg_alpha=0 for the plain inner product."
        )
    return hessian if weight is None or e.cover_is == "count" else hessian * weight[:, None]
