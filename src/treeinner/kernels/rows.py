"""What is done to rows with compiled trees.

A row's results depend on that row alone, rows are cut into tasks whose size depends on the model alone, and tasks are
put together in their order: so the number of threads changes no bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner import _core
from treeinner.kernels.forest import BLOCK, Forest, aligned, padded_rows
from treeinner.kernels.threads import Progress, map_rows

if TYPE_CHECKING:
    from treeinner.rows.table import Table

Float = NDArray[np.float64]
# Memory that a thread uses again for every task, by name: the system clears what it gives anew, page by page.
Room = dict[str, Float]
# (values, scale, limbs of sums and squares to be added to, or None) -> whether all fitted (core/kernels/exact.h)
add_exact = _core.add_exact


def zeros(room: Room, name: str, shape: tuple[int, ...]) -> Float:
    """Zeros, aligned as the vector loads need, which may change once the room is asked for the same name again."""
    size = math.prod(shape)
    if name not in room or room[name].size < size:
        room[name] = aligned((size,))
    out = room[name][:size].reshape(shape)
    out[:] = 0.0
    return out


class PlayerSums:
    """Attributions, or shares in a centred score, that add up tree by tree.

    paths: a `Forest.path_table` or `Forest.share_table`; None: TreeSHAP. room, name: where they are held.
    """

    def __init__(self, forest: Forest, n_rows: int, paths: Any, room: Room | None = None, name: str = "") -> None:
        self.forest, self.n_rows, self.paths = forest, n_rows, paths
        players = (forest.n_outputs, forest.n_players)
        # The core adds by path row by row, and TreeSHAP in slices of 16 rows.
        n_slices = padded_rows(n_rows) // _core.SLICE_ROWS
        shape = (n_slices, *players, _core.SLICE_ROWS) if paths is None else (n_rows, *players)
        self._held = zeros({} if room is None else room, name, shape)

    def add(self, codes: Any, first: int, n: int, weight: Float | None = None, row_weight: Float | None = None) -> None:
        """Add the attributions by trees first..first + n, times a weight per row and output.

        For shares that is the residual less its mean, and row_weight the weight of every row.
        """
        if self.paths is None:
            self.forest.core.shap(codes, first, n, self.forest.shap_table(), weight, self._held)
        else:
            self.forest.core.path(codes, first, n, self.paths, weight, self._held, row_weight)

    def players(self) -> Float:
        """Return the sums of the players: (rows, outputs, players); by path they are held so, and may be changed."""
        if self.paths is not None:
            return self._held
        shape = (padded_rows(self.n_rows), self.forest.n_outputs, self.forest.n_players)
        return self._held.transpose(0, 3, 1, 2).reshape(shape)[: self.n_rows]


class Shuffle:
    """A table whose columns are shuffled, group by group, and what that does to the margins.

    Parameters
    ----------
    group_of_column
        Columns of one group are shuffled together; -1 for columns that no tree uses.
    """

    def __init__(
        self, forest: Forest, group_of_column: NDArray[np.int32], n_groups: int, table: Table, *, n_jobs: int | None
    ) -> None:
        self.forest, self.n_groups = forest, n_groups
        self.step = task_rows(forest, table)
        self._core = _core.Shuffle(forest.core, group_of_column, n_groups)
        self._codes = codes_by_row(forest, table, n_jobs=n_jobs)

    def _rows(self, order: NDArray[np.int64]) -> Any:
        """Codes of rows order[0], order[1], ..."""
        codes = self.forest.core.new_codes(len(order))
        by_row = np.zeros((padded_rows(len(order)), self.forest.n_planes), self.forest.code_dtype)
        by_row[: len(order)] = self._codes[order]
        by_block = self.forest.blocks(codes)
        by_block[:] = by_row.reshape(len(by_block), BLOCK, self.forest.n_planes).transpose(0, 2, 1)
        return codes

    def margins(self, start: int, order: NDArray[np.int64]) -> tuple[Float, Float]:
        """Leaf sums of the task that begins at `start`, and their changes if its rows are those of `order`.

        (outputs, rows) as the rows are, and (groups, outputs, rows) with each group shuffled.
        """
        n_rows = len(order)
        change = aligned((padded_rows(n_rows) // BLOCK, self.n_groups + 1, self.forest.n_outputs, BLOCK))
        self._core.changes(self._rows(np.arange(start, start + n_rows)), self._rows(order), change)
        by_group = change.transpose(1, 2, 0, 3).reshape(self.n_groups + 1, self.forest.n_outputs, -1)
        return by_group[-1, :, :n_rows], by_group[:-1, :, :n_rows]


def task_rows(forest: Forest, table: Table) -> int:
    """Rows of one task: the model's, or fewer where the table asks for it."""
    return forest.task_rows if table.block_rows is None else max(1, min(forest.task_rows, table.block_rows))


def by_task(forest: Forest, table: Table, work: Callable[[_core.Codes], NDArray[Any]], **run: Any) -> NDArray[Any]:
    """What work(codes) finds for the rows of every task: (rows, ...). run: as for `map_rows`."""
    done, out = 0, np.empty(0)
    for part in map_rows(table.n_rows, task_rows(forest, table), lambda *r: work(forest.bin(table.block(*r))), **run):
        if not done:
            out = np.empty((table.n_rows, *part.shape[1:]), part.dtype)
        out[done : done + len(part)] = part
        done += len(part)
    return out


def codes_by_row(forest: Forest, table: Table, *, n_jobs: int | None = -1) -> NDArray[Any]:
    """Codes of every row: (rows, planes)."""

    def work(codes: _core.Codes) -> NDArray[Any]:
        padded = forest.blocks(codes).transpose(0, 2, 1).reshape(padded_rows(codes.n_rows), forest.n_planes)
        return padded[: codes.n_rows]

    return by_task(forest, table, work, n_jobs=n_jobs)


def predict(forest: Forest, table: Table, *, n_jobs: int | None = -1) -> Float:
    """Sum of the leaf values of every row, without the base score: (rows, outputs)."""

    def work(codes: _core.Codes) -> Float:
        margin = aligned((forest.n_outputs, padded_rows(codes.n_rows)))
        forest.core.margins(codes, 0, forest.n_trees, margin)
        return margin[:, : codes.n_rows].T

    return by_task(forest, table, work, n_jobs=n_jobs)


def apply(forest: Forest, table: Table, *, n_jobs: int | None = -1) -> NDArray[np.int32]:
    """Leaf of every row in every tree: (rows, trees)."""

    def work(codes: _core.Codes) -> NDArray[np.int32]:
        leaf = np.empty((codes.n_rows, forest.n_trees), np.int32)
        forest.core.leaves(codes, leaf)
        return forest.leaf_id[leaf]

    return by_task(forest, table, work, n_jobs=n_jobs)


def attribute(
    forest: Forest, table: Table, paths: Any, *, n_jobs: int | None = -1, progress: Progress | None = None
) -> Float:
    """Attribution of every row, by path with a `Forest.path_table`, else by TreeSHAP: (rows, outputs, players)."""

    def work(codes: _core.Codes) -> Float:
        sums = PlayerSums(forest, codes.n_rows, paths)
        sums.add(codes, 0, forest.n_trees)
        return sums.players()

    return by_task(forest, table, work, n_jobs=n_jobs, progress=progress)
