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

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError
from treeinner.kernels import BLOCK, aligned, leaf_ranges, padded_rows, task_rows
from treeinner.kernels.units import GRADIENT_BITS
from treeinner.read import Model
from treeinner.read.columns import as_table, gathered
from treeinner.rows import Rows, read_rows, read_table
from treeinner.score.conclude import conclude
from treeinner.score.passes import leaf_pass, node_means, open_task
from treeinner.score.spec import Spec, scored_loss
from treeinner.select.folds import Data, Index

__all__ = ["Draws", "redrawn_scores"]

Float = NDArray[np.float64]
Long = NDArray[np.int64]
MOST_BYTES = 1 << 27  # of codes and margins that are held at a time
MOST_IN_A_LEAF = 2.0**62  # sums are 64-bit integers


@dataclass(frozen=True, eq=False)
class Draws:
    """Columns of X drawn anew. Draw 0 are the rows as they are."""

    columns: Index  # of X, drawn together
    donors: NDArray[np.int32] | None = None  # (draws, columns, all rows): the row whose value each row takes
    values: NDArray[Any] | None = None  # or values for the one column: (draws, all rows)

    @property
    def n_draws(self) -> int:
        """Number of draws, with draw 0."""
        return 1 + max(len(drawn) for drawn in (self.donors, self.values) if drawn is not None)

    def table(self, X: Any, held_out: Index, draw: int) -> Any:
        """Held-out rows of X with these columns drawn."""
        index = np.repeat(held_out[:, None], X.shape[1], axis=1)
        if draw and self.donors is not None:
            index[:, self.columns] = self.donors[draw - 1][:, held_out].T
        out = gathered(as_table(X), index)
        if draw and self.values is not None:
            out = _put_column(out, int(self.columns[0]), self.values[draw - 1, held_out])
        return out


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
    known = _HeldOut(model, spec, data, held_out)
    return [known.scores(drawn) for drawn in draws]


def _one_by_one(model: Model, spec: Spec, data: Data, held_out: Index, drawn: Draws) -> Float:
    """Score every draw from the start, for losses and tables that only numpy or the library itself knows."""
    part, out = data.take(held_out), np.zeros(drawn.n_draws)
    for draw in range(drawn.n_draws):
        (rows,) = read_rows(model, drawn.table(data.X, held_out, draw), part.y, **part.given)
        leaf = leaf_pass(model, spec, rows, n_jobs=1)
        found = conclude(model, spec, leaf, None, node_means(model, spec, leaf))
        out[draw] = found.scores[drawn.columns].sum() * found.sum_of_weights
    return out


def _codes(model: Model, X: Any) -> NDArray[Any]:
    """Codes of rows: (rows, planes)."""
    table, forest = read_table(model, X), model.trees.forest
    out = np.empty((table.n_rows, forest.n_planes), forest.code_dtype)
    step = task_rows(forest, table)
    for start in range(0, table.n_rows if forest.n_planes else 0, step):  # no planes: trees of one leaf each
        stop = min(start + step, table.n_rows)
        blocks = forest.blocks(forest.bin(table.block(start, stop)))
        out[start:stop] = blocks.transpose(0, 2, 1).reshape(-1, forest.n_planes)[: stop - start]
    return out


def _put_column(X: Any, column: int, values: NDArray[Any]) -> Any:
    """Table with other values in a column."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        new = nw.new_series(frame.columns[column], values, backend=frame.implementation)
        return frame.with_columns(new).to_native()
    out = (X.tolil() if hasattr(X, "tolil") else X).astype(np.result_type(X.dtype, values))
    out[:, column] = values.reshape(out[:, [column]].shape) if hasattr(X, "tolil") else values
    return out.tocsr() if hasattr(X, "tolil") else out


def planes_of(model: Model, spec: Spec, names: Any) -> Index:
    """Planes of codes that the splits credited to some columns of X read."""
    trees, credit = model.trees, spec.credit
    own = np.isin(trees.player, credit.player[np.isin(credit.name, names)])
    return np.flatnonzero(np.isin(trees.forest.plane_column, trees.column[own]))


class _Splits:
    """The splits that are credited to some columns of X, and the trees that they are in."""

    def __init__(self, model: Model, spec: Spec, names: Index) -> None:
        trees, forest, credit = model.trees, model.trees.forest, spec.credit
        here = np.flatnonzero(np.isin(forest.split_player, credit.player[np.isin(credit.name, names)]))
        self.model, self.spec = model, spec
        self.planes = planes_of(model, spec, names)
        self.trees = np.unique(trees.tree_of_node[forest.split_nodes[here]]).astype(np.int32)
        self.rounds, first = np.unique(trees.round[self.trees], return_index=True)
        self.first_tree = np.append(first, len(self.trees)).astype(np.int32)
        # Leaves of these trees, one after the other; and of every split the first, the first on its right, and the end.
        start, stop = forest.first_leaf[self.trees], forest.first_leaf[self.trees + 1]
        self.leaves = np.concatenate([np.arange(*ends) for ends in zip(start, stop, strict=True)] or [start])
        self.ranges = np.searchsorted(self.leaves, leaf_ranges(trees)[here])

    def scores(self, sums: Long, weights: Long) -> Float:
        """Sum over the splits of (c_l - c_r)(g_l - g_r) W_l W_r / W for every draw: (draws,).

        c and g are means over the rows on either side: of leaf values, and of minus the gradients. sums, weights:
        (draws, leaves, width), fixed-point sums in all leaves of the model.
        """
        trees = self.model.trees
        leaf = trees.value[trees.forest.leaf_nodes[self.leaves]]
        weight, residual = (array[:, self.leaves].astype(np.float64) for array in (weights, sums))
        total = np.zeros((3, len(sums), len(self.leaves) + 1, sums.shape[2]))
        np.cumsum([weight, residual, weight * leaf], axis=2, out=total[:, :, 1:])
        first, middle, stop = (total[:, :, self.ranges[:, i]] for i in range(3))
        (w_l, g_l, v_l), (w_r, g_r, v_r) = middle - first, stop - middle
        # A split that all rows pass on one side gives nothing.
        both = (w_l > 0) & (w_r > 0)
        w_l, w_r = np.where(both, w_l, 1.0), np.where(both, w_r, 1.0)
        parts = np.where(both, (v_l / w_l - v_r / w_r) * (g_l * w_r - g_r * w_l) / (w_l + w_r), 0.0)
        return np.asarray(parts.sum(axis=(1, 2)) * 2.0 ** (self.spec.scale_bits - GRADIENT_BITS))


class _HeldOut:
    """Held-out rows of a model, on their way through its trees as they are."""

    def __init__(self, model: Model, spec: Spec, data: Data, held_out: Index) -> None:
        part = data.take(held_out)
        self.model, self.spec, self.data, self.held_out = model, spec, data, held_out
        (self.rows,) = read_rows(model, part.X, part.y, **part.given)
        self.codes = _codes(model, data.X)  # of all rows, for any may be a donor
        self._piece: _Piece | None = None

    def scores(self, drawn: Draws) -> Float:
        """Sum of the scores of the drawn columns for every draw."""
        splits, trees = _Splits(self.model, self.spec, drawn.columns), self.model.trees
        if len(splits.trees) == 0:
            return np.zeros(drawn.n_draws)
        shape = (drawn.n_draws, len(trees.forest.leaf_nodes), trees.width)
        sums, weights = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        codes = self._drawn_codes(drawn, splits.planes)
        bound = 0.0
        for piece in self._pieces(drawn.n_draws):
            bound += piece.add(splits, codes[:, piece.start : piece.start + piece.n_rows], sums, weights)
        if not bound < MOST_IN_A_LEAF:
            raise DataError(
                "A gradient is far out of proportion to the model's own values; check y, sample_weight and base_margin "
                "for wrong units or outliers."
            )
        return np.ldexp(splits.scores(sums, weights), self.rows.weight_exponent)

    def _drawn_codes(self, drawn: Draws, planes: Index) -> NDArray[Any]:
        """Codes of the held-out rows in some planes, as drawn: (draws, rows, planes)."""
        forest, X, here = self.model.trees.forest, self.data.X, self.held_out
        out = np.empty((drawn.n_draws, len(here), len(planes)), forest.code_dtype)
        out[0] = self.codes[here[:, None], planes]
        if drawn.donors is None:
            for draw in range(1, drawn.n_draws):
                out[draw] = _codes(self.model, drawn.table(X, here, draw))[:, planes]
            return out
        for k, column in enumerate(drawn.columns):
            own = np.isin(planes, planes_of(self.model, self.spec, column))
            out[1:, :, own] = self.codes[drawn.donors[:, k, here][:, :, None], planes[own]]
        return out

    def _pieces(self, n_draws: int) -> Iterator[_Piece]:
        """Rows that fit into memory together; as a rule all of them, and then they are kept."""
        trees, forest, n = self.model.trees, self.model.trees.forest, self.rows.n_rows
        per_row = n_draws * forest.n_planes * forest.code_dtype.itemsize
        per_row += 8 * (trees.n_trees * trees.width + trees.n_rounds * trees.n_outputs)
        step = max(BLOCK, MOST_BYTES // max(1, per_row) // BLOCK * BLOCK)
        for start in range(0, n, step):
            if self._piece is None or n > step:
                self._piece = _Piece(self.model, self.spec, self.rows, slice(start, min(start + step, n)), n_draws)
            yield self._piece


class _Piece:
    """Some of the held-out rows: their margins before every round, and room for all their draws."""

    def __init__(self, model: Model, spec: Spec, rows: Rows, here: slice, n_draws: int) -> None:
        self.trees, self.start, self.n_draws = model.trees, here.start, n_draws
        forest, self.scale = model.trees.forest, 2.0 ** (GRADIENT_BITS - spec.scale_bits)
        self._task = open_task(model, spec, rows, here.start, here.stop)
        self.n_rows = self._task.n
        self._weight = self._task.fixed_point_weight()
        self._margin, self._value = self._margins()
        self._own = forest.blocks(self._task.codes)
        self._codes = forest.core.new_codes(n_draws * padded_rows(self.n_rows))
        self._blocks = forest.blocks(self._codes).reshape(n_draws, *self._own.shape)
        self._blocks[:] = self._own

    def _margins(self) -> tuple[Float, Float]:
        """Margins before every round, (rounds, outputs, padded rows), and leaf values, (trees, width, padded rows)."""
        e, padded = self.trees, padded_rows(self.n_rows)
        margin = aligned((e.n_rounds, e.n_outputs, padded))
        value = np.zeros((e.n_trees, e.width, padded))
        at = self._task.margin.copy()
        for tree in range(e.n_trees):
            if tree == e.first_trees[e.round[tree]]:
                margin[e.round[tree]] = at
            step = aligned((e.n_outputs, padded))
            e.forest.core.margins(self._task.codes, tree, 1, step)
            value[tree] = step[e.output[tree] : e.output[tree] + e.width]
            at += step
        return margin, value

    def _moved(self, splits: _Splits) -> Float:
        """What trees without these splits add to the margins before each round: (rounds in use, outputs, rows)."""
        e = self.trees
        moved = aligned((len(splits.rounds), *self._margin.shape[1:]))
        moved[:] = self._margin[splits.rounds]
        moved[1:] -= self._margin[splits.rounds[:-1]]
        for number, (first, stop) in enumerate(zip(splits.first_tree[:-1], splits.first_tree[1:], strict=True)):
            if number + 1 < len(moved):
                for tree in splits.trees[first:stop].tolist():
                    moved[number + 1, e.output[tree] : e.output[tree] + e.width] -= self._value[tree]
        return moved

    def add(self, splits: _Splits, codes: NDArray[Any], sums: Long, weights: Long) -> float:
        """Add the gradients and weights of all draws to the leaves, (draws, leaves, width); at most so much to a leaf.

        codes: those of the splits' planes, (draws, rows, planes).
        """
        n, (loss, loss_scale, y, weight) = self.n_rows, self._task.core_target()
        padded = np.zeros((self.n_draws, padded_rows(n), len(splits.planes)), codes.dtype)
        padded[:, :n] = codes
        by_block = padded.reshape(self.n_draws, -1, BLOCK, len(splits.planes))
        self._blocks[:, :, splits.planes] = by_block.transpose(0, 1, 3, 2)
        largest = np.zeros(padded_rows(n))
        self.trees.forest.core.redraw(
            self._codes, loss, loss_scale, splits.first_tree, splits.trees, y, weight, self._moved(splits), self.scale,
            sums, largest, self._weight, weights,
        )  # fmt: skip
        self._blocks[:, :, splits.planes] = self._own[:, splits.planes]
        return float(np.maximum(largest[:n], self._weight).sum())
