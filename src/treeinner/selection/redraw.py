"""Scores of the held-out rows of one model with some of its columns drawn anew, the model fixed.

Row i takes the values of a donor row in these columns, in all of them at once. Only the trees that split on them are
walked again, all draws in one call of the core; what the other trees add to the margins is known from the rows as they
are. The score is the centred one, with the node means of the redrawn rows, so that every draw is treated as the rows
themselves are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.compiled import BLOCK, Forest, aligned, padded_rows, task_rows
from treeinner.errors import UnsupportedModelError
from treeinner.model import Model
from treeinner.scores.accumulator import ImportanceAccumulator
from treeinner.scores.batch import Batch, read_batch
from treeinner.scores.leaves import check_size
from treeinner.scores.setting import GRADIENT_BITS, Setting, make_setting
from treeinner.scores.state import State
from treeinner.scores.task import CoreTarget, Task
from treeinner.selection.folds import Rows, column_of, put_column, take_rows

__all__ = ["Draws", "redrawn_scores"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
MOST_BYTES = 1 << 27  # of codes and margins that are held at a time


@dataclass(frozen=True, eq=False)
class Draws:
    """Columns of X drawn anew. Draw 0 are the rows as they are."""

    columns: IntArray  # of X, drawn together
    donors: NDArray[np.int32] | None = None  # (draws, columns, all rows): the row whose value each row takes
    values: NDArray[Any] | None = None  # or values for the one column: (draws, all rows)

    @property
    def n_draws(self) -> int:
        """Number of draws, with draw 0."""
        drawn = self.donors if self.values is None else self.values
        assert drawn is not None
        return 1 + len(drawn)

    def table(self, X: Any, held_out: IntArray, draw: int) -> Any:
        """Held-out rows of X with these columns drawn."""
        out = take_rows(X, held_out)
        if draw == 0:
            return out
        if self.values is not None:
            return put_column(out, int(self.columns[0]), self.values[draw - 1, held_out])
        assert self.donors is not None
        for column, donors in zip(self.columns.tolist(), self.donors[draw - 1], strict=True):
            out = put_column(out, column, take_rows(column_of(X, column), donors[held_out].astype(np.intp)))
        return out


def redrawn_scores(model: Model, rows: Rows, held_out: IntArray, draws: Sequence[Draws]) -> list[FloatArray]:
    """Sums over the held-out rows of the scores of the drawn columns, for every draw: (draws,) each.

    Parameters
    ----------
    model, rows, held_out
        A fitted model, all rows, and which of them it was not fitted on.
    draws
        What is drawn; each by itself.
    """
    setting = make_setting(model, score="tree_inner", method=None, std_errors=False)
    origins = model.origins(rows.X)
    if len(origins.mixed) and np.isin(model.ensemble.feature, origins.mixed).any():
        raise UnsupportedModelError(
            "A column of the model is made from several columns of X at once (an interaction), so none of them can be "
            "drawn anew alone; use test='marginal', or let the trees find the interactions."
        )
    own = [[origins.columns[k] for k in drawn.columns] for drawn in draws]
    e, objective = model.ensemble, setting.objective
    assert objective is not None
    if not objective.per_row or objective.core_loss() is None or e.column_features is not None or e.schema.external:
        return [_one_by_one(model, rows, held_out, drawn, columns) for drawn, columns in zip(draws, own, strict=True)]
    known = _HeldOut(setting, model, rows, held_out)
    return [known.scores(drawn, columns) for drawn, columns in zip(draws, own, strict=True)]


def _one_by_one(model: Model, rows: Rows, held_out: IntArray, drawn: Draws, own: Sequence[IntArray]) -> FloatArray:
    """Score every draw from the start, for losses and tables that only numpy or the library itself knows."""
    part, out, columns = rows.take(held_out), np.zeros(drawn.n_draws), np.concatenate(own)
    for draw in range(drawn.n_draws if len(columns) else 0):
        acc = ImportanceAccumulator(model, std_errors=False, n_jobs=1)
        acc._add(drawn.table(rows.X, held_out, draw), part.y, clusters=None, **part.given)
        found, _ = acc._conclude()
        out[draw] = found.scores[columns].sum() * found.sum_of_weights
    return out


def _codes(model: Model, forest: Forest, X: Any) -> NDArray[Any]:
    """Codes of rows: (rows, planes)."""
    table = model.table(X)
    out = np.empty((table.n_rows, forest.n_planes), forest.code_dtype)
    step = task_rows(forest, table)
    for start in range(0, table.n_rows if forest.n_planes else 0, step):  # no planes: trees of one leaf each
        stop = min(start + step, table.n_rows)
        blocks = forest.blocks(forest.bin(table.block(start, stop)))
        out[start:stop] = blocks.transpose(0, 2, 1).reshape(-1, forest.n_planes)[: stop - start]
    return out


class _Splits:
    """The splits of a model on some of its columns, and the trees that they are in."""

    def __init__(self, setting: Setting, columns: IntArray) -> None:
        e, forest = setting.ensemble, setting.forest
        wanted = np.zeros(e.schema.n_columns, np.bool_)
        wanted[columns] = True
        self.planes = np.flatnonzero(wanted[forest.plane_column])
        here = np.flatnonzero(wanted[e.feature[forest.split_nodes]])
        self.trees = np.unique(e.tree_of_node[forest.split_nodes[here]]).astype(np.int32)
        self.rounds, first = np.unique(e.tree_round[self.trees], return_index=True)
        self.first_tree = np.append(first, len(self.trees)).astype(np.int32)
        # Leaves of these trees, one after the other; and of every split the first, the first on its right, and the end.
        start, stop = forest.first_leaf[self.trees], forest.first_leaf[self.trees + 1]
        self.leaves = np.concatenate([np.arange(*ends) for ends in zip(start, stop, strict=True)] or [start])
        self.ranges = np.searchsorted(self.leaves, forest.leaf_ranges[here])

    def scores(self, setting: Setting, sums: NDArray[np.int64], weights: NDArray[np.int64]) -> FloatArray:
        """Sum over the splits of (c_l - c_r)(g_l - g_r) W_l W_r / W for every draw: (draws,).

        c and g are means over the rows on either side: of leaf values, and of minus the gradients. sums, weights:
        (draws, leaves, width), fixed-point sums in all leaves of the model.
        """
        leaf = setting.ensemble.value[setting.forest.leaf_nodes[self.leaves]]
        weight, residual = (array[:, self.leaves].astype(np.float64) for array in (weights, sums))
        total = np.zeros((3, len(sums), len(self.leaves) + 1, sums.shape[2]))
        np.cumsum([weight, residual, weight * leaf], axis=2, out=total[:, :, 1:])
        first, middle, stop = (total[:, :, self.ranges[:, i]] for i in range(3))
        (w_l, g_l, v_l), (w_r, g_r, v_r) = middle - first, stop - middle
        # A split that all rows pass on one side gives nothing.
        both = (w_l > 0) & (w_r > 0)
        w_l, w_r = np.where(both, w_l, 1.0), np.where(both, w_r, 1.0)
        parts = np.where(both, (v_l / w_l - v_r / w_r) * (g_l * w_r - g_r * w_l) / (w_l + w_r), 0.0)
        return np.asarray(parts.sum(axis=(1, 2)) * 2.0 ** (setting.scale_bits - GRADIENT_BITS))


class _HeldOut:
    """Held-out rows of a model, on their way through its trees as they are."""

    def __init__(self, setting: Setting, model: Model, rows: Rows, held_out: IntArray) -> None:
        part = rows.take(held_out)
        self.setting, self.model, self.rows, self.held_out = setting, model, rows, held_out
        self.batch = read_batch(model, setting.objective, part.X, part.y, **part.given).in_one_unit()
        self.codes = _codes(model, setting.forest, rows.X)  # of all rows, for any may be a donor
        self._piece: _Piece | None = None

    def scores(self, drawn: Draws, own: Sequence[IntArray]) -> FloatArray:
        """Sum of the scores of the drawn columns for every draw; own: the model's columns of each."""
        splits = _Splits(self.setting, np.concatenate(own))
        if len(splits.trees) == 0:
            return np.zeros(drawn.n_draws)
        shape = (drawn.n_draws, len(self.setting.forest.leaf_nodes), self.setting.ensemble.width)
        sums, weights = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        codes = self._drawn_codes(drawn, own, splits.planes)
        bound = 0.0
        for piece in self._pieces(drawn.n_draws):
            bound += piece.add(splits, codes[:, piece.start : piece.start + piece.n_rows], sums, weights)
        check_size(bound)
        return np.ldexp(splits.scores(self.setting, sums, weights), self.batch.weight_exponent)

    def _drawn_codes(self, drawn: Draws, own: Sequence[IntArray], planes: IntArray) -> NDArray[Any]:
        """Codes of the held-out rows in some planes, as drawn: (draws, rows, planes)."""
        forest, X, here = self.setting.forest, self.rows.X, self.held_out
        out = np.empty((drawn.n_draws, len(here), len(planes)), forest.code_dtype)
        out[0] = self.codes[here[:, None], planes]
        if drawn.donors is None:
            for draw in range(1, drawn.n_draws):
                out[draw] = _codes(self.model, forest, drawn.table(X, here, draw))[:, planes]
            return out
        of_plane = forest.plane_column[planes]
        for k, columns in enumerate(own):
            some = np.flatnonzero((of_plane[:, None] == columns).any(axis=1))
            out[1:, :, some] = self.codes[drawn.donors[:, k, here][:, :, None], planes[some]]
        return out

    def _pieces(self, n_draws: int) -> Iterator[_Piece]:
        """Rows that fit into memory together; as a rule all of them, and then they are kept."""
        e, forest, n = self.setting.ensemble, self.setting.forest, self.batch.n_rows
        per_row = n_draws * forest.n_planes * forest.code_dtype.itemsize
        per_row += 8 * (e.n_trees * e.width + e.n_rounds * e.n_outputs)
        step = max(BLOCK, MOST_BYTES // max(1, per_row) // BLOCK * BLOCK)
        if n > step:
            for start in range(0, n, step):
                yield _Piece(self.setting, self.batch, start, min(start + step, n), n_draws)
            return
        if self._piece is None or self._piece.n_draws != n_draws:
            self._piece = _Piece(self.setting, self.batch, 0, n, n_draws)
        yield self._piece


class _Piece:
    """Some of the held-out rows: their margins before every round, and room for all their draws."""

    def __init__(self, setting: Setting, batch: Batch, start: int, stop: int, n_draws: int) -> None:
        forest, objective = setting.forest, setting.objective
        assert objective is not None
        self.setting, self.start, self.n_rows, self.n_draws = setting, start, stop - start, n_draws
        self._task = Task(setting, batch, start, stop, State.empty(setting))
        target = self._task.core_target(objective)
        assert target is not None
        self._target: CoreTarget = target
        self._weight = self._task.fixed_point_weight()
        self._margin, self._value = self._margins()
        self._own = forest.blocks(self._task.codes)
        self._codes = forest.core.new_codes(n_draws * padded_rows(self.n_rows))
        self._blocks = forest.blocks(self._codes).reshape(n_draws, *self._own.shape)
        self._blocks[:] = self._own

    def _margins(self) -> tuple[FloatArray, FloatArray]:
        """Margins before every round, (rounds, outputs, padded rows), and leaf values, (trees, width, padded rows)."""
        e, forest, padded = self.setting.ensemble, self.setting.forest, padded_rows(self.n_rows)
        margin = aligned((e.n_rounds, e.n_outputs, padded))
        value = np.zeros((e.n_trees, e.width, padded))
        at = self._task.margin.copy()
        for tree in range(e.n_trees):
            if tree == 0 or e.tree_round[tree] != e.tree_round[tree - 1]:
                margin[e.tree_round[tree]] = at
            step = aligned((e.n_outputs, padded))
            forest.core.margins(self._task.codes, tree, 1, step)
            own = slice(e.tree_output[tree], e.tree_output[tree] + e.width)
            value[tree] = step[own]
            at += step
        return margin, value

    def _moved(self, splits: _Splits) -> FloatArray:
        """What trees without these splits add to the margins before each round: (rounds in use, outputs, rows)."""
        e = self.setting.ensemble
        moved = aligned((len(splits.rounds), *self._margin.shape[1:]))
        moved[:] = self._margin[splits.rounds]
        moved[1:] -= self._margin[splits.rounds[:-1]]
        for number, (first, stop) in enumerate(zip(splits.first_tree[:-1], splits.first_tree[1:], strict=True)):
            if number + 1 < len(moved):
                for tree in splits.trees[first:stop].tolist():
                    moved[number + 1, e.tree_output[tree] : e.tree_output[tree] + e.width] -= self._value[tree]
        return moved

    def add(self, splits: _Splits, codes: NDArray[Any], sums: NDArray[np.int64], weights: NDArray[np.int64]) -> float:
        """Add the gradients and weights of all draws to the leaves, (draws, leaves, width); at most so much to a leaf.

        codes: those of the splits' planes, (draws, rows, planes).
        """
        setting, target, n = self.setting, self._target, self.n_rows
        padded = np.zeros((self.n_draws, padded_rows(n), len(splits.planes)), codes.dtype)
        padded[:, :n] = codes
        by_block = padded.reshape(self.n_draws, -1, BLOCK, len(splits.planes))
        self._blocks[:, :, splits.planes] = by_block.transpose(0, 1, 3, 2)
        largest = np.zeros(padded_rows(n))
        setting.forest.core.redraw(
            self._codes, target.loss, target.scale, splits.first_tree, splits.trees, target.y, target.weight,
            self._moved(splits), 2.0 ** (GRADIENT_BITS - setting.scale_bits), sums, largest, self._weight, weights,
        )  # fmt: skip
        self._blocks[:, :, splits.planes] = self._own[:, splits.planes]
        return float(np.maximum(largest[:n], self._weight).sum())
