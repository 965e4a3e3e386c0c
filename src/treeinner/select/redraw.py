"""Scores of the held-out rows of one model with some of its columns drawn anew, the model fixed.

Row i takes the values of a donor row in these columns, in all of them at once. Only the trees that split on them are
walked again, all draws in one call of the core; what the other trees add to the margins is known from the rows as they
are. The score is the centred one, with the node means of the redrawn rows, so that every draw is treated as the rows
themselves are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError
from treeinner.kernels import BLOCK, aligned, leaf_ranges, padded_rows
from treeinner.kernels.rows import codes_by_row
from treeinner.kernels.units import WEIGHT_BITS
from treeinner.read import Model
from treeinner.read.columns import as_table, gathered
from treeinner.rows import read_rows, read_table
from treeinner.score.conclude import conclude
from treeinner.score.passes import fixed_point, leaf_pass, node_means, open_task
from treeinner.score.spec import Spec, scored_loss
from treeinner.select.folds import Data, Index

__all__ = ["Draws", "redrawn_scores"]

Float = NDArray[np.float64]
Long = NDArray[np.int64]
MOST_BYTES = 1 << 27  # of codes and margins that are held at a time
MOST_IN_A_LEAF = 2.0**62  # sums of all rows are 64-bit integers, so gradients have units as coarse as weights


@dataclass(frozen=True, eq=False)
class Draws:
    """Columns of X drawn anew; draw 0 are the rows as they are."""

    columns: Index  # of X, drawn together
    donors: NDArray[np.int32]  # (draws, columns, all rows): the row whose value each row takes

    @property
    def n_draws(self) -> int:
        """Number of draws, with draw 0."""
        return 1 + len(self.donors)


def redrawn_scores(model: Model, spec: Spec, data: Data, held_out: Index, draws: Sequence[Draws]) -> list[Float]:
    """Sums over the held-out rows of the scores of the drawn columns, for every draw: (draws,) each.

    Parameters
    ----------
    model, spec
        A fitted model, and whom its splits are credited to: the first names are the columns of X.
    data, held_out
        All rows, and which of them the model was not fitted on.
    draws
        What is drawn; each by itself.
    """
    loss = scored_loss(model, spec.score)
    if loss.scope != "row" or loss.core is None or model.route is not None:
        return [_one_by_one(model, spec, data, held_out, drawn) for drawn in draws]
    known = _HeldOut(model, spec, data, held_out, draws[0].n_draws)
    return [known.scores(drawn) for drawn in draws]


def _one_by_one(model: Model, spec: Spec, data: Data, held_out: Index, drawn: Draws) -> Float:
    """Score every draw from the start, for losses and tables that only numpy or the library itself knows."""
    part, out = data.take(held_out), np.zeros(drawn.n_draws)
    for draw in range(drawn.n_draws):
        index = np.repeat(held_out[:, None], data.X.shape[1], axis=1)
        if draw:
            index[:, drawn.columns] = drawn.donors[draw - 1][:, held_out].T
        (rows,) = read_rows(model, gathered(as_table(data.X), index), part.y, **part.given)
        leaf = leaf_pass(model, spec, rows, n_jobs=1)
        found = conclude(model, spec, leaf, None, node_means(model, spec, leaf))
        out[draw] = found.scores[drawn.columns].sum() * found.sum_of_weights
    return out


def planes_of(model: Model, spec: Spec, names: Any) -> Index:
    """Planes of codes that the splits credited to some columns of X read."""
    trees, credit = model.trees, spec.credit
    own = np.isin(trees.player, credit.player[np.isin(credit.name, names)])
    return np.flatnonzero(np.isin(trees.forest.plane_column, trees.column[own]))


def _split_scores(model: Model, splits: Index, trees: NDArray[np.int32], sums: Long, weights: Long) -> Float:
    """Sum over some splits of (c_l - c_r)(g_l - g_r) W_l W_r / W for every draw, in fixed point: (draws,).

    c and g are means over the rows on either side: of leaf values, and of minus the gradients. trees: those that the
    splits are in. sums, weights: (draws, leaves, width), fixed-point sums in all leaves of the model.
    """
    forest = model.trees.forest
    start, stop = forest.first_leaf[trees], forest.first_leaf[trees + 1]
    leaves = np.concatenate([np.arange(*ends) for ends in zip(start, stop, strict=True)])
    # Of every split the first leaf, the first on its right, and the end.
    ranges = np.searchsorted(leaves, leaf_ranges(model.trees)[splits])
    value = model.trees.value[forest.leaf_nodes[leaves]]
    weight, residual = (array[:, leaves].astype(np.float64) for array in (weights, sums))
    total = np.zeros((3, len(sums), len(leaves) + 1, sums.shape[2]))
    np.cumsum([weight, residual, weight * value], axis=2, out=total[:, :, 1:])
    first, middle, end = (total[:, :, ranges[:, i]] for i in range(3))
    (w_l, g_l, v_l), (w_r, g_r, v_r) = middle - first, end - middle
    # A split that all rows pass on one side gives nothing.
    both = (w_l > 0) & (w_r > 0)
    w_l, w_r = np.where(both, w_l, 1.0), np.where(both, w_r, 1.0)
    parts = np.where(both, (v_l / w_l - v_r / w_r) * (g_l * w_r - g_r * w_l) / (w_l + w_r), 0.0)
    return np.asarray(parts.sum(axis=(1, 2)))


class _HeldOut:
    """Held-out rows of a model, on their way through its trees as they are; as a rule all fit into memory together."""

    def __init__(self, model: Model, spec: Spec, data: Data, held_out: Index, n_draws: int) -> None:
        part, trees, forest = data.take(held_out), model.trees, model.trees.forest
        self.model, self.spec, self.held_out, self.n_draws = model, spec, held_out, n_draws
        (self.rows,) = read_rows(model, part.X, part.y, **part.given)
        self.codes = codes_by_row(forest, read_table(model, data.X), n_jobs=1)  # of all rows, for any may be a donor
        per_row = n_draws * forest.n_planes * forest.code_dtype.itemsize
        per_row += 8 * (trees.n_trees * trees.width + trees.n_rounds * trees.n_outputs)
        self._step = max(BLOCK, MOST_BYTES // max(1, per_row) // BLOCK * BLOCK)
        self._start = -1

    def scores(self, drawn: Draws) -> Float:
        """Sum of the scores of the drawn columns for every draw."""
        trees, forest, credit = self.model.trees, self.model.trees.forest, self.spec.credit
        splits = np.flatnonzero(np.isin(forest.split_player, credit.player[np.isin(credit.name, drawn.columns)]))
        if len(splits) == 0:
            return np.zeros(self.n_draws)
        walked = np.unique(trees.tree_of_node[forest.split_nodes[splits]]).astype(np.int32)
        shape = (self.n_draws, len(forest.leaf_nodes), trees.width)
        sums, weights = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        planes = planes_of(self.model, self.spec, drawn.columns)
        codes = self._drawn_codes(drawn, planes)
        bound = 0.0
        for start in range(0, len(self.held_out), self._step):
            self._open(start)
            bound += self._add(walked, planes, codes[:, start : start + self._step], sums, weights)
        if not bound < MOST_IN_A_LEAF:
            raise DataError(
                "A gradient is far out of proportion to the model's own values; check y, sample_weight and base_margin "
                "for wrong units or outliers."
            )
        unit = self.spec.scale_bits - WEIGHT_BITS + self.rows.weight_exponent
        return np.ldexp(_split_scores(self.model, splits, walked, sums, weights), unit)

    def _drawn_codes(self, drawn: Draws, planes: Index) -> NDArray[Any]:
        """Codes of the held-out rows in some planes, as drawn: (draws, rows, planes)."""
        here = self.held_out
        out = np.empty((self.n_draws, len(here), len(planes)), self.codes.dtype)
        out[0] = self.codes[here[:, None], planes]
        for k, column in enumerate(drawn.columns):
            own = np.isin(planes, planes_of(self.model, self.spec, column))
            out[1:, :, own] = self.codes[drawn.donors[:, k, here][:, :, None], planes[own]]
        return out

    def _open(self, start: int) -> None:
        """Walk the rows from `start` on through all trees, as many as fit into memory, and make room for their draws.

        Margins before every round: (rounds, outputs, padded rows); leaf values: (trees, width, padded rows).
        """
        if start == self._start:
            return
        e, stop = self.model.trees, min(start + self._step, len(self.held_out))
        self._start, self._task = start, open_task(self.model, self.spec, self.rows, start, stop)
        padded = padded_rows(stop - start)
        self._margin = aligned((e.n_rounds, e.n_outputs, padded))
        self._value = np.zeros((e.n_trees, e.width, padded))
        at = self._task.margin.copy()
        for tree in range(e.n_trees):
            if tree == e.first_trees[e.round[tree]]:
                self._margin[e.round[tree]] = at
            step = aligned((e.n_outputs, padded))
            e.forest.core.margins(self._task.codes, tree, 1, step)
            self._value[tree] = step[e.output[tree] : e.output[tree] + e.width]
            at += step
        self._own = e.forest.blocks(self._task.codes)
        self._codes = e.forest.core.new_codes(self.n_draws * padded)
        self._blocks = e.forest.blocks(self._codes).reshape(self.n_draws, *self._own.shape)
        self._blocks[:] = self._own

    def _add(self, trees: NDArray[np.int32], planes: Index, codes: NDArray[Any], sums: Long, weights: Long) -> float:
        """Add gradients and weights of all draws of the open rows to the leaves; return the most that one leaf got.

        trees: those to walk. codes: of the planes that are drawn, (draws, rows, planes). sums, weights: (draws, leaves,
        width).
        """
        n, (loss, loss_scale, y, weight) = codes.shape[1], self._task.core_target()
        padded = np.zeros((self.n_draws, padded_rows(n), len(planes)), codes.dtype)
        padded[:, :n] = codes
        self._blocks[:, :, planes] = padded.reshape(self.n_draws, -1, BLOCK, len(planes)).transpose(0, 1, 3, 2)
        largest, fixed_weight = np.zeros(padded_rows(n)), fixed_point(self._task.weight, n)
        first_tree, moved = self._moved(trees)
        self.model.trees.forest.core.redraw(
            self._codes, loss, loss_scale, first_tree, trees, y, weight, moved,
            2.0 ** (WEIGHT_BITS - self.spec.scale_bits), sums, largest, fixed_weight, weights,
        )  # fmt: skip
        self._blocks[:, :, planes] = self._own[:, planes]
        return float(np.maximum(largest[:n], fixed_weight).sum())

    def _moved(self, trees: NDArray[np.int32]) -> tuple[NDArray[np.int32], Float]:
        """First of some trees in every round that has any, and what the other trees add to the margins before it.

        (rounds with such trees + 1,) and (rounds with such trees, outputs, padded rows).
        """
        e = self.model.trees
        rounds, number = np.unique(e.round[trees], return_inverse=True)
        moved = aligned((len(rounds), *self._margin.shape[1:]))
        moved[:] = self._margin[rounds]
        moved[1:] -= self._margin[rounds[:-1]]
        for tree, before in zip(trees.tolist(), number.tolist(), strict=True):
            if before + 1 < len(rounds):
                moved[before + 1, e.output[tree] : e.output[tree] + e.width] -= self._value[tree]
        return np.searchsorted(number, np.arange(len(rounds) + 1)).astype(np.int32), moved
