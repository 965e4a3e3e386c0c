"""Shares of the rows of one task in the score, on their way through the boosting rounds.

The trees of a round were fitted to the gradients at the margin before it. So the rows carry their margin along: take
the gradients, let the trees of the round give their attributions, add their leaf values, go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treeinner.compiled import LOSSES, Sums, aligned, padded_rows
from treeinner.errors import DataError
from treeinner.objectives import Objective
from treeinner.objectives.base import one_hot
from treeinner.scores.batch import Batch
from treeinner.scores.leaves import Leaves, check_size, integer_sum
from treeinner.scores.setting import GRADIENT_BITS, WEIGHT_BITS, Setting
from treeinner.scores.state import State

__all__ = ["CoreTarget", "Task"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class CoreTarget:
    """A loss that the core knows, and the target and weights of the rows as it takes them (core/kernels/boost.h)."""

    loss: int
    scale: float
    y: FloatArray
    weight: FloatArray | None


class Task:
    """Consecutive rows of a batch, binned, with their margins and their shares so far."""

    def __init__(self, setting: Setting, batch: Batch, start: int, stop: int, state: State) -> None:
        forest, here, n = setting.forest, slice(start, stop), stop - start
        self.setting, self.rows, self.n_rows = setting, batch.table.block(start, stop), n
        self.state = state  # shared with other tasks: what the rows add is added there
        self.weight_exponent = batch.weight_exponent
        self.y = None if batch.y is None else batch.y[here]
        self.weight = None if batch.weight is None else batch.weight[here]
        self.clusters = None if batch.clusters is None else batch.clusters[here]
        self.tree_share = None if batch.tree_share is None else batch.tree_share[:, here]
        self.kept = None if batch.shares is None else batch.shares[here]
        self.codes = forest.bin(self.rows)
        self.start = batch.base[here] + setting.start
        self.margin = aligned((forest.n_outputs, padded_rows(n)))
        self.margin[:, :n] = self.start.T
        self.step = aligned(self.margin.shape) if setting.score == "loss" else None  # of the round, in the margin
        self.residual = aligned(self.margin.shape)  # minus the gradient of the round; 0 behind the last row
        self.residual_sum = np.zeros((n, forest.n_outputs))  # over all rounds
        self.sums = Sums(forest, n if setting.needs_rows else 0, setting.paths)
        # By a user's own attribution, instead of `sums`.
        shape = (n, setting.ensemble.n_features, forest.n_outputs)
        self.custom = np.zeros(shape) if callable(setting.method) else None
        self.fall = np.zeros(n)  # of the loss, over the rounds: step times residual
        self.first_order = np.zeros(n)  # the same with the residuals at the start of each step
        self.boosted = False  # whether the core took the rows through all rounds
        self.largest = np.zeros(padded_rows(n))  # largest fixed-point number that each row adds to a leaf

    def margins(self) -> FloatArray:
        """Return the margins so far: (rows, outputs)."""
        return self.margin[:, : self.n_rows].T

    @property
    def repeated(self) -> NDArray[np.intp]:
        """Numbers of the rows, the last one repeated up to full blocks.

        numpy adds the outputs of a single row in another order than those of many rows. Full blocks make the gradient
        of a row the same bits wherever the row stands.
        """
        return np.minimum(np.arange(padded_rows(self.n_rows)), self.n_rows - 1)

    def padded_margins(self) -> FloatArray:
        """Return the margins so far with the last row repeated up to full blocks: (padded rows, outputs)."""
        self.margin[:, self.n_rows :] = self.margin[:, self.n_rows - 1 : self.n_rows]
        return self.margin.T

    def given_weight(self) -> FloatArray | None:
        """Weights as they were given, with the last row repeated up to full blocks: (padded rows,)."""
        return None if self.weight is None else np.ldexp(self.weight[self.repeated], self.weight_exponent)

    def in_units(self, values: FloatArray) -> FloatArray:
        """What was worked out with the weights as given, in the units in which weights are summed."""
        return values if not self.weight_exponent else np.ldexp(values, -self.weight_exponent)

    def take(self, gradient: FloatArray) -> None:
        """Take the gradients of a round, with weights as given: (rows, outputs)."""
        np.negative(self.in_units(gradient).T, out=self.residual[:, : self.n_rows])

    def padded_step(self, number: int) -> FloatArray:
        """Take the step of a round in the margin, and return it as `padded_margins`: (padded rows, outputs)."""
        assert self.step is not None
        first, stop = self.setting.first_trees[number : number + 2].tolist()
        self.step[:] = -self.setting.start[:, None]
        self.setting.forest.core.margins(self.codes, first, stop - first, self.step)
        self.step[:, self.n_rows :] = self.step[:, self.n_rows - 1 : self.n_rows]
        return self.step.T

    def times_residual(self, step: FloatArray) -> FloatArray:
        """Fall of the loss in a step, (padded rows, outputs), by the gradients taken: (rows,)."""
        return np.asarray((step.T * self.residual).sum(axis=0)[: self.n_rows])

    def score_round(self, number: int, hessian: FloatArray | None) -> None:
        """Let the trees of one round score the rows by the gradients taken, then move on."""
        s = self.setting
        first, stop = s.first_trees[number : number + 2].tolist()
        n = stop - first
        if s.score == "forest_inner":
            self.residual_sum += self.residual[:, : self.n_rows].T
        if s.inner:
            before = self.row_scores().copy() if s.rounds_by_rows else None
            if s.needs_rows:
                for some in self._residuals(first, n):
                    self._attribute(*some)
            if hessian is not None:
                self._charge_penalty(first, n, hessian)
            if self.state.leaves is not None:
                self._add_leaf_sums(first, n, self.state.leaves)
        step = self.step
        if step is None:
            step = -self.margin
            s.forest.core.margins(self.codes, first, n, self.margin)
            step += self.margin
        else:
            self.margin += step
        if s.inner:
            fall = self.times_residual(step.T)
            self.fall += fall
            if before is not None:
                scores = s.groups.add_up(self.row_scores() - before, axis=1)
                self.state.add_round(number, scores, fall - scores.sum(axis=(1, 2)))

    def _attribute(
        self, first: int, n: int, residual: FloatArray | None = None, row_weight: FloatArray | None = None
    ) -> None:
        """Add the attributions of trees first..first + n, times minus the gradient if it is given; or shares."""
        if self.custom is not None:
            for tree in range(first, first + n):
                values = self._custom_attribution(tree)
                self.custom += values if residual is None else values * residual[:, None, : self.n_rows].T
        else:
            self.sums.add(self.codes, first, n, residual, row_weight)

    def _residuals(self, first: int, n: int) -> Iterator[tuple[int, int, FloatArray, FloatArray | None]]:
        """Trees of a round that share their gradients: (first, number, minus the gradient, weights of the rows).

        For shares the gradients are counted from their means.
        """
        s, shares = self.setting, self.tree_share
        for tree in range(first, first + (1 if shares is None else n)):
            residual, weight = self.residual, self.weight
            if shares is not None:
                residual = aligned(self.residual.shape)
                residual[:, : self.n_rows] = self.residual[:, : self.n_rows] * shares[tree]
                weight = shares[tree] if weight is None else weight * shares[tree]
            if s.means is not None:
                own = slice(s.ensemble.tree_output[tree], s.ensemble.tree_output[tree] + s.ensemble.width)
                mean = s.round_residual[s.ensemble.tree_round[tree]].copy()
                mean[own] = s.root_residual[tree]
                centred = aligned(residual.shape)
                centred[:, : self.n_rows] = residual[:, : self.n_rows] - mean[:, None] * (
                    1.0 if weight is None else weight
                )
                residual = centred
            yield tree, n if shares is None else 1, residual, weight

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
            self.sums.players()[:, output, players] -= (hessian[:, output] / cover)[:, None] * cost

    def _add_leaf_sums(self, first: int, n: int, leaves: Leaves) -> None:
        """Add the gradients to the leaves."""
        for start, count, residual, _ in self._residuals(first, n):
            with np.errstate(over="ignore"):  # infinite is refused below
                fixed = np.rint(np.ldexp(residual, GRADIENT_BITS - self.setting.scale_bits))
            np.maximum(self.largest, np.abs(fixed).max(axis=0), out=self.largest)
            check_size(float(self.largest.max()))
            self.setting.forest.core.leaf_sums(self.codes, start, count, fixed.astype(np.int64), leaves.sums)

    def _finish_leaves(self) -> None:
        """After the last round: add the weights of the rows to the leaves."""
        leaves, forest, shares = self.state.leaves, self.setting.forest, self.tree_share
        if leaves is None or leaves.weights is None or self.boosted:
            return
        fixed = np.zeros(self.margin.shape, np.int64)
        for tree in range(1 if shares is None else forest.n_trees):
            n, share = (forest.n_trees, 1.0) if shares is None else (1, shares[tree])
            fixed[:, : self.n_rows] = self.fixed_point_weight(share)
            forest.core.leaf_sums(self.codes, tree, n, fixed, leaves.weights)

    def largest_sum(self) -> int:
        """Sum of the largest numbers that the rows added to a leaf: no leaf got more."""
        return integer_sum(self.largest)

    def fixed_point_weight(self, share: FloatArray | float = 1.0) -> NDArray[np.int64]:
        """Weights of the rows, or of their shares in a tree, as fixed-point integers: (rows,)."""
        weight = (np.ones(self.n_rows) if self.weight is None else self.weight) * share
        fixed = np.rint(weight * 2.0**WEIGHT_BITS)
        largest = self.largest[: self.n_rows]
        np.maximum(largest, fixed, out=largest)
        check_size(float(largest.max()))
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
        s = self.setting
        leaves = self.state.leaves
        if not (s.by_path and s.inner) or s.penalty is not None or self.tree_share is not None:
            return False
        weights = None if leaves is None else leaves.weights
        s.forest.core.boost(
            self.codes,
            target.loss,
            target.scale,
            s.first_trees,
            target.y,
            target.weight,
            self.margin,
            2.0 ** (GRADIENT_BITS - s.scale_bits),
            None if leaves is None else leaves.sums,
            self.largest,
            None if weights is None else self.fixed_point_weight(),
            weights,
            s.paths,
            self.sums.players(),
            None if s.means is None else s.round_residual,
            None if s.means is None else self.weight,
            None if s.score != "loss" else (*s.step_rule, self.first_order[: self.n_rows if leaves is not None else 0]),
        )
        self.boosted = True
        check_size(float(self.largest.max()))
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
        """Shares in the features that the trees use, and which ones these are; None: in all features or groups."""
        forest, groups = self.setting.forest, self.setting.groups
        grouped = self.custom is not None or groups.of_feature is not None
        if grouped or forest.player_feature is None or forest.features_are_players:
            return groups.add_up(self.row_scores(), axis=1), None
        return self.sums.players().transpose(0, 2, 1), forest.player_feature

    def finish(self) -> None:
        """After the last round: add what the rows give to the sums."""
        s = self.setting
        scores, features = None, None
        if s.score == "forest_inner":
            scores = s.groups.add_up(self._forest_inner(), axis=1)
        elif s.score == "abs":
            scores = self._absolute()
        elif s.needs_rows:
            scores, features = self._scores_in_use()
        if scores is not None:
            self.state.add_rows(scores, features, self.weight, self.clusters)
            if self.kept is not None:
                self.kept[:, slice(None) if features is None else features] = scores
        if self.state.losses is not None:
            self._add_losses(None if scores is None else scores.sum(axis=(1, 2)))
        self.state.count_rows(self.n_rows, self.weight)
        if self.state.moved is not None:  # in units of the leaf values: the exponent is that of values times gradients
            self.state.moved.add(np.ldexp(self.margins() - self.start, s.scale_bits))
        self._finish_leaves()

    def _add_losses(self, scores: FloatArray | None) -> None:
        """Add the losses of the rows; scores: what their shares in all features add up to."""
        s, y = self.setting, self.y
        assert s.objective is not None
        assert y is not None
        known: dict[str, FloatArray] = {"first_order": self.fall if self.step is None else self.first_order}
        if not s.needs_leaves and scores is not None:
            known["base"] = self.fall - scores
        if s.knows_loss:
            rows, n = self.repeated, self.n_rows  # full blocks, for the same reason as gradients
            weight = self.given_weight()
            margins = {"before": self.start[rows], "after": self.padded_margins()}
            for name, margin in margins.items():
                known[name] = self.in_units(s.objective.losses(y[rows], margin, weight=weight)[:n])
            least = s.objective.least_losses(y[rows], weight=weight)
            if least is not None:
                least = self.in_units(least[:n])
                bounded = np.isfinite(least)
                counts = True if self.weight is None else self.weight > 0
                known |= {"least": np.where(bounded, least, 0.0), "unbounded": (~bounded & counts).astype(np.float64)}
        self.state.add_losses(**known)

    # -- scores of the whole forest ------------------------------------------------------------------------------
    def _forest_inner(self) -> FloatArray:
        """(sum of the attributions) times (sum of the residuals), or times the label."""
        self._attribute(0, self.setting.forest.n_trees)
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
            self._attribute(0, s.forest.n_trees)
            out = np.abs(s.groups.add_up(self.row_scores(), axis=1))
        elif s.groups.of_feature is None and self.custom is None and s.forest.player_feature is not None:
            out = self._absolute_by_tree()
        else:
            out = np.zeros((self.n_rows, len(s.groups.names), s.forest.n_outputs))
            for tree in range(s.forest.n_trees):
                out += np.abs(s.groups.add_up(self._tree_attribution(tree), axis=1))
        return out if self.weight is None else out * self.weight[:, None, None]

    def _absolute_by_tree(self) -> FloatArray:
        """Sum over the trees of `|attribution|`: (rows, features, outputs). A tree touches the players it splits on."""
        forest = self.setting.forest
        total = Sums(forest, self.n_rows, self.setting.paths)
        for tree in range(forest.n_trees):
            players = np.unique(forest.split_player[forest.first_split[tree] : forest.first_split[tree + 1]])
            if len(players):
                self._attribute(tree, 1)
                self.sums.move_absolute(players, total)
        return forest.features(total.players())

    def _tree_attribution(self, tree: int) -> FloatArray:
        """Attribution of one tree: (rows, features, outputs)."""
        if callable(self.setting.method):
            return self._custom_attribution(tree)
        self.sums = Sums(self.setting.forest, self.n_rows, self.setting.paths)
        self._attribute(tree, 1)
        return self.row_scores()
