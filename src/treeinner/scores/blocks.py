"""Row scores of one block of rows, on their way through the boosting rounds.

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
from treeinner.groups import Groups
from treeinner.objectives import Objective
from treeinner.scores.leaves import Leaves
from treeinner.scores.setting import GRADIENT_BITS, WEIGHT_BITS, Setting

__all__ = ["Block", "run_block", "run_rounds"]

FloatArray = NDArray[np.float64]
MAX_WHOLE = 2.0**62


@dataclass(frozen=True)
class CoreTarget:
    """A loss that the core knows, and the target and weights of a block of rows as it wants them (core/boost.h)."""

    loss: int
    scale: float
    y: FloatArray
    weight: FloatArray | None


class Block:
    """Consecutive rows, binned, with their margins and what they have scored so far."""

    def __init__(
        self,
        setting: Setting,
        rows: Any,
        n_rows: int,
        y: NDArray[Any] | None,
        weight: FloatArray | None,
        base: FloatArray,
        leaves: Leaves | None,
        tree_share: FloatArray | None = None,
    ) -> None:
        forest = setting.forest
        self.setting, self.rows, self.n_rows, self.y, self.weight = setting, rows, n_rows, y, weight
        self.tree_share = tree_share  # (trees, rows): what a row counts for in a tree; None: 1
        self.codes = forest.bin(rows)
        self.margin = aligned((forest.n_outputs, padded_rows(n_rows)))
        self.margin[:, :n_rows] = base.T
        self.push = aligned(self.margin.shape)  # minus the gradient of the round; 0 behind the last row
        self.pushed = np.zeros((n_rows, forest.n_outputs))  # over all rounds
        self.sums = Sums(forest, n_rows)
        self.own: FloatArray | None = None  # scores by a user's own attribution: (rows, features, outputs)
        self.by_round: list[FloatArray] = []
        self.leaves = leaves  # what the rows add to the leaves is added there, with what other rows did
        self.boosted = False  # whether the core took the rows through all rounds
        self.largest_push = np.zeros(padded_rows(n_rows))  # largest whole number that each row adds to a leaf

    def margins(self) -> FloatArray:
        """Return the margins so far: (rows, outputs)."""
        return self.margin[:, : self.n_rows].T

    def padded_margins(self) -> FloatArray:
        """Return the margins so far with the last row repeated up to whole blocks: (padded rows, outputs)."""
        self.margin[:, self.n_rows :] = self.margin[:, self.n_rows - 1 : self.n_rows]
        return self.margin.T

    def take(self, gradient: FloatArray) -> None:
        """Take the gradients of a round: (rows, outputs)."""
        np.negative(gradient.T, out=self.push[:, : self.n_rows])

    def score_round(self, first: int, n: int, hessian: FloatArray | None) -> None:
        """Let the trees of one round score the rows by the gradients taken, then move on."""
        s, core = self.setting, self.setting.forest.core
        if s.score == "forest_inner":
            self.pushed += self.push[:, : self.n_rows].T
        if s.score == "tree_inner":
            before = self.row_scores().copy() if s.rounds_by_rows else None
            if s.needs_rows:
                self._attribute(first, n)
            if hessian is not None:
                self._charge_penalty(first, n, hessian)
            if self.leaves is not None:
                self._add_leaf_sums(first, n, self.leaves)
            if before is not None:
                self.by_round.append(self.row_scores() - before)
        core.margins(self.codes, first, n, self.margin)

    def _attribute(self, first: int, n: int) -> None:
        """Add the attributions of trees first..first + n, times minus the gradient."""
        s = self.setting
        for start, count, push in self._pushes(first, n):
            if callable(s.method):
                for tree in range(start, start + count):
                    self._add_own(self._own_attribution(tree) * push[:, None, : self.n_rows].T)
            else:
                self._add(self.sums, start, count, push)

    def _pushes(self, first: int, n: int) -> Iterator[tuple[int, int, FloatArray]]:
        """Trees of a round that share their gradients: (first, number, minus the gradient)."""
        if self.tree_share is None:
            yield first, n, self.push
            return
        for tree in range(first, first + n):
            push = aligned(self.push.shape)
            push[:, : self.n_rows] = self.push[:, : self.n_rows] * self.tree_share[tree]
            yield tree, 1, push

    def _add(self, sums: Sums, first: int, n: int, push: FloatArray | None) -> None:
        if self.setting.paths is None:
            sums.add_shap(self.codes, first, n, self.setting.tree_scale, push)
        else:
            sums.add_path(self.codes, first, n, self.setting.paths, push)

    def _own_attribution(self, tree: int) -> FloatArray:
        """Attribution of one tree by the user's function: (rows, features, outputs), in the tree's own units."""
        s = self.setting
        assert callable(s.method)
        e = s.ensemble
        values = np.asarray(s.method(e.slice_trees(tree, tree + 1), self.rows), np.float64)
        shape = (self.n_rows, e.n_features, e.n_outputs)
        if values.ndim == 2:
            whole = np.zeros(shape)
            if values.shape == shape[:2]:
                whole[:, :, e.tree_output[tree]] = values
                values = whole
        if values.shape != shape:
            raise DataError(
                f"The attribution of a tree has shape {values.shape}, but {shape[:2]} (or {shape}) was needed: one "
                "value per row and feature (and output)."
            )
        return np.asarray(values * s.tree_scale[tree])

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
        for start, count, push in self._pushes(first, n):
            whole = np.rint(np.ldexp(push, GRADIENT_BITS - self.setting.scale_bits))
            np.maximum(self.largest_push, np.abs(whole).max(axis=0), out=self.largest_push)
            _check_size(float(self.largest_push.max()))
            self.setting.forest.core.leaf_sums(self.codes, start, count, whole.astype(np.int64), leaves.sums)

    def finish_leaves(self) -> None:
        """After the last round: add the weights of the rows to the leaves, and note how much the rows added at most."""
        if self.leaves is None:
            return
        if self.leaves.weights is not None and not self.boosted:
            forest = self.setting.forest
            whole = np.zeros(self.margin.shape, np.int64)
            whole[:, : self.n_rows] = self._whole_weight()
            forest.core.leaf_sums(self.codes, 0, forest.n_trees, whole, self.leaves.weights)
        self.leaves.raise_bound(_whole_sum(self.largest_push))

    def _whole_weight(self) -> NDArray[np.int64]:
        """Weights of the rows as whole numbers: (rows,)."""
        weight = np.ones(self.n_rows) if self.weight is None else self.weight
        whole = np.rint(weight * 2.0**WEIGHT_BITS)
        largest = self.largest_push[: self.n_rows]
        np.maximum(largest, whole, out=largest)
        _check_size(float(largest.max()))
        return whole.astype(np.int64)

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
        if s.score != "tree_inner" or not s.by_path or self.tree_share is not None or s.penalty is not None:
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
            self.largest_push,
            None if weights is None else self._whole_weight(),
            self.leaves.sums if weights is None else weights,
            s.paths if s.needs_rows else None,
            self.sums.by_row,
        )
        self.boosted = True
        _check_size(float(self.largest_push.max()))
        return True

    def take_in_core(self, target: CoreTarget) -> bool:
        """Take the gradients of a round inside the core; return whether they are finite."""
        core = self.setting.forest.core
        core.push(self.codes, target.loss, target.scale, target.y, target.weight, self.margin, self.push)
        return bool(np.isfinite(self.push.sum()))

    def scores_in_use(self) -> tuple[FloatArray, NDArray[np.intp] | None]:
        """Row scores of the features that the trees use, and which ones these are; None: of all, used or not."""
        forest = self.setting.forest
        if self.own is not None or forest.player_feature is None or forest.features_are_players:
            return self.row_scores(), None
        return self.sums.players().transpose(0, 2, 1), forest.player_feature

    def row_scores(self) -> FloatArray:
        """Share of every row in the score: (rows, features, outputs)."""
        if self.own is not None:
            return self.own
        return self.setting.forest.features(self.sums.players())

    def _add_own(self, scores: FloatArray) -> None:
        self.own = scores if self.own is None else self.own + scores

    # -- scores of the whole forest ------------------------------------------------------------------------------
    def forest_inner(self, label: FloatArray | None) -> FloatArray:
        """(sum of the attributions) times (sum of the residuals), or times the label."""
        self._attribute_all()
        return self.row_scores() * (self.pushed if label is None else label)[:, None, :]

    def absolute(self, groups: Groups | None) -> FloatArray:
        """Sum over the trees of |attribution|, or |sum over the trees|; a group's attribution is its members' sum."""
        s = self.setting
        if s.level == "forest":
            self._attribute_all()
            out = np.abs(_grouped(self.row_scores(), groups))
        elif groups is None and not callable(s.method) and s.forest.player_feature is not None:
            out = self._absolute_by_tree()
        else:
            nothing = np.zeros((self.n_rows, s.ensemble.n_features, s.forest.n_outputs))
            out = _grouped(nothing, groups)
            for tree in range(s.ensemble.n_trees):
                out += np.abs(_grouped(self._tree_attribution(tree), groups))
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
            return self._own_attribution(tree)
        self.sums = Sums(self.setting.forest, self.n_rows)
        self._add(self.sums, tree, 1, None)
        return self.row_scores()

    def _attribute_all(self) -> None:
        s = self.setting
        if callable(s.method):
            for tree in range(s.ensemble.n_trees):
                self._add_own(self._own_attribution(tree))
        else:
            self._add(self.sums, 0, s.ensemble.n_trees, None)


def _whole_sum(values: FloatArray) -> int:
    """Sum of whole numbers below 2^62, which may exceed 64 bits: by halves of 31 bits."""
    whole = values.astype(np.int64)
    return (int((whole >> 31).sum()) << 31) + int((whole & (2**31 - 1)).sum())


def _check_size(largest: float) -> None:
    if not largest < MAX_WHOLE:
        raise DataError(
            "A gradient is out of all proportion to the model's own values; check y, sample_weight and base_margin for "
            "wrong units or outliers."
        )


def _grouped(values: FloatArray, groups: Groups | None) -> FloatArray:
    return values if groups is None else groups.add_up(values, axis=1)


def run_block(block: Block) -> None:
    """Take one block through all rounds; the loss looks at one row at a time."""
    setting, objective = block.setting, block.setting.objective
    assert objective is not None
    assert block.y is not None
    target = block.core_target(objective)
    if target is not None and block.boost(target):
        return
    # numpy adds the outputs of a single row in another order than those of many rows. Whole blocks, the last row
    # repeated, make the gradient of a row the same bits wherever the row stands.
    repeated = np.minimum(np.arange(padded_rows(block.n_rows)), block.n_rows - 1)
    y = block.y[repeated]
    weight = None if block.weight is None else block.weight[repeated]
    for first, n in setting.rounds:
        if target is None or not block.take_in_core(target):  # numpy knows which row has no finite gradient
            block.take(objective.gradients(y, block.padded_margins(), weight=weight)[: block.n_rows])
        hessian = None
        if setting.penalty is not None:
            hessian = _hessian(setting, y, block.padded_margins(), weight, None)[: block.n_rows]
        block.score_round(first, n, hessian)


def run_rounds(blocks: Sequence[Block], group: NDArray[Any] | None = None) -> None:
    """Take blocks through all rounds together: the loss of a row looks at other rows too."""
    setting = blocks[0].setting
    objective = setting.objective
    assert objective is not None
    y = np.concatenate([np.asarray(b.y) for b in blocks])
    weights = [b.weight for b in blocks if b.weight is not None]
    weight = np.concatenate(weights) if weights else None
    edges = np.cumsum([0] + [b.n_rows for b in blocks])
    for first, n in setting.rounds:
        margin = np.concatenate([b.margins() for b in blocks])
        gradient = objective.gradients(y, margin, weight=weight, qid=group)
        hessian = _hessian(setting, y, margin, weight, group) if setting.penalty is not None else None
        for block, start, stop in zip(blocks, edges[:-1], edges[1:], strict=True):
            block.take(gradient[start:stop])
            block.score_round(first, n, None if hessian is None else hessian[start:stop])


def _hessian(
    setting: Setting, y: NDArray[Any], margin: FloatArray, weight: FloatArray | None, group: NDArray[Any] | None
) -> FloatArray:
    """What a row adds to the cover of a root: its hessian, its weight, or 1 where the library counts rows."""
    e, objective = setting.ensemble, setting.objective
    assert objective is not None
    hessian: FloatArray | None = np.ones_like(margin)
    if e.cover_is == "hessian":
        hessian = objective.hessians(y, margin, qid=group)
    if hessian is None:
        raise UnsupportedModelError(
            f"objective {objective.name!r} has no hessian, which the score of an l1-regularised model needs; "
            "pass reg_alpha=0 for the plain inner product."
        )
    return hessian if weight is None or e.cover_is == "count" else hessian * weight[:, None]
