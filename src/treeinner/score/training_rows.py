"""Whether the rows to be scored are those that the model was trained on: its thresholds tell.

Every library here puts thresholds at values of the training rows, or halfway between two of them. Other rows match such
thresholds by chance, and how often, the rows say themselves: thresholds made in the same way from one half of the rows
are compared with the other half. Where values repeat or fill a grid, these match too, and nothing can be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import Note
from treeinner.read import Model
from treeinner.read.trees import Trees
from treeinner.rows import Rows, SparseTable

__all__ = ["training_rows_note"]

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

UNCHECKED = Note(
    "training_rows_unchecked",
    "training rows: not checked, since the model's thresholds do not tell whether it was trained on these rows.",
    quiet=True,
)
TOP_THRESHOLDS = 100  # of a column, of the largest nodes: neighbours among their rows are near each other in all rows
MOST_ROWS = 2**17  # that are looked at: the first ones, as of a stream
FEW_COLUMNS, MOST_COLUMNS = 3, 12  # that are looked at: few are enough for other rows, as a rule
FEW_THRESHOLDS = 5  # of a column; fewer say nothing
SOME = 0.04  # share of a column's thresholds; fewer matches are none
TELLING = 0.6  # share of its thresholds that other rows may match by chance
BOOTSTRAP = 0.63  # share of the rows that a tree of a forest sees
FEW_NEAR, MANY_NEAR = 2, 8  # values on each side of a threshold whose midpoints count
DENSER = np.array([2.0, 4.0])  # matches by chance, with all rows for half of them: values, pairs of values
AROUND = 2  # values on each side of a threshold from which others are made
GAPS_ALIKE = 0.8  # mean ratio of neighbouring gaps from which values are ranks or normal scores; random gaps have 0.39
MIDPOINT_BITS = 28  # midpoints of float32 numbers have some more than their 24 bits; random thresholds have 53
CHANCE = 1e-6  # of so many matches with other rows
DOUBT = 0.05  # chance of so many matches in a column with other rows, and of so few by the rate of all columns


def training_rows_note(model: Model, rows: Iterable[Rows]) -> Note | None:
    """Say that training rows are among the rows, or that it cannot be told; None: they are not, as far as can be seen.

    Of a stream, the first batch is looked at.
    """
    trees = model.trees
    if not hasattr(rows, "__iter__"):  # of a cluster, looked at where they are
        return None
    if model.route is not None or not getattr(rows, "again", True):
        return UNCHECKED
    thresholds = _top_thresholds(trees)
    table, which = next(iter(rows)).table, list(thresholds)
    if isinstance(table, SparseTable):  # only some columns are made dense
        table, which = replace(table, matrix=table.matrix[:, which]), list(range(len(which)))
    block = table.block(0, min(table.n_rows, MOST_ROWS))
    telling: list[Float] = []
    for j, made in zip(which, thresholds.values(), strict=True):
        column = block[:, j] if isinstance(block, np.ndarray) else block[j]
        matches = _matches(trees, *made, column, model.library)
        telling += [matches] if matches is not None and _chance(matches).min() < TELLING else []
        if len(telling) == FEW_COLUMNS and _judged(telling) is None:
            return None
    return _judged(telling)


def _top_thresholds(trees: Trees) -> dict[int, tuple[Float, Float]]:
    """Distinct thresholds by column, of the largest nodes with numeric splits, and shares of the rows in these nodes.

    Columns with the most of them come first.
    """
    splits = np.flatnonzero((trees.column >= 0) & np.isfinite(trees.threshold))
    root = trees.start[trees.tree_of_node[splits]]
    share = np.nan_to_num(trees.cover[splits] / trees.cover[root], nan=1.0)
    order = np.argsort(-share, kind="stable")
    splits, share = splits[order], share[order]
    columns, times = np.unique(trees.column[splits], return_counts=True)
    found = {}
    for j in columns[np.argsort(-times, kind="stable")][:MOST_COLUMNS].tolist():
        here = np.flatnonzero(trees.column[splits] == j)[:TOP_THRESHOLDS]
        distinct, first = np.unique(trees.threshold[splits[here]], return_index=True)
        # Thresholds drawn at random, as those of ExtraTrees, are not made from rows.
        scaled = np.ldexp(np.frexp(distinct)[0], MIDPOINT_BITS)
        made = (scaled == np.rint(scaled)) | (not trees.float32_input)  # no more bits than midpoints of float32 numbers
        if np.count_nonzero(made) >= FEW_THRESHOLDS:
            found[j] = distinct[made], share[here[first]][made]
    return found


def _matches(trees: Trees, thresholds: Float, share: Float, column: NDArray[Any], library: str) -> Float | None:
    """Compare thresholds with their neighbours among the values; None: these are too few, or ranks.

    share: of the rows in the node of each threshold. Returned are, for thresholds that are values and for those halfway
    between two, (5, 2): how many match; of how many; how many training rows would match, were they all here, since deep
    nodes see few of the rows; of thresholds made from half of the rows, how many match the other half; of how many.
    """
    with np.errstate(over="ignore"):  # beyond float32: infinite to the library too
        column = column.astype(np.float32 if trees.float32_input else np.float64).astype(np.float64)
    # Trees of scikit-learn put thresholds halfway between neighbours among the rows of a node, in float64.
    by_node = library == "sklearn" and trees.float32_input
    near, rounding = MANY_NEAR if by_node else FEW_NEAR, 2.0**-23 if trees.float32_input and not by_node else 2.0**-50
    values = np.unique(column[np.isfinite(column)])
    if len(values) < 4 * near:
        return None
    of = np.full(2, len(thresholds))
    found = _matched(values, thresholds, near, rounding).sum(axis=1)
    made, of_made = found, of
    if found.max() > SOME * len(thresholds):  # else other rows match as few, whatever these are
        half, other = (np.unique(part[np.isfinite(part)]) for part in (column[::2], column[1::2]))
        gaps = np.diff(values)
        alike = (np.minimum(gaps[1:], gaps[:-1]) / np.maximum(gaps[1:], gaps[:-1])).mean()
        if min(len(half), len(other)) < 2 * near or alike > GAPS_ALIKE:  # new rows have the same ranks, each once
            return None
        below = np.searchsorted(other, thresholds)[:, None] + np.arange(-AROUND, AROUND)
        low, high = (other[np.unique(below.clip(0, len(other) - 2)) + side] for side in (0, 1))
        of_made = np.full(2, len(low))
        made = np.array([_matched(half, low, near, rounding)[0], _matched(half, (low + high) / 2, near, rounding)[1]])
        made = made.sum(axis=1)
    seen = BOOTSTRAP * share if trees.averaged else share if library in ("sklearn", "xgboost") else np.ones_like(share)
    expected = np.square(1 - (1 - seen) ** near).sum()  # both neighbours are among the nearest of all rows
    return np.array([found, of, [of[0], expected], made, of_made], np.float64)


def _chance(matches: Float) -> Float:
    """Share of the thresholds that other rows match: (..., 2) from (5, ..., 2)."""
    return np.asarray(np.minimum(1.0, DENSER * (matches[3] + 0.5) / (matches[4] + 1)))


def _matched(values: Float, points: Float, near: int, rounding: float) -> Bool:
    """Which points are values, and which are midpoints of values nearby: (2, points)."""
    above = np.clip(np.searchsorted(values, points), near, len(values) - near)
    around = values[above[:, None] + np.arange(-near, near)] - points[:, None]
    middle = np.abs(around[:, :near, None] + around[:, None, near:]) / 2
    close = np.abs(points) * rounding
    return np.array([np.abs(around).min(axis=1) <= close, middle.reshape(len(points), -1).min(axis=1) <= close])


def _judged(telling: Sequence[Float]) -> Note | None:
    """What the columns say together.

    One column is not enough: it may hold what a person or a place had before and has again in new rows. For the same
    reason a column without matches, where others have them, says that these are other rows.
    """
    from scipy.special import bdtr, bdtrc

    if len(telling) < 2:
        return UNCHECKED
    every = np.moveaxis(np.array(telling), 1, 0)  # (5, columns, 2)
    tells = _chance(every) < TELLING
    total = np.where(tells, every, 0.0).sum(axis=1)
    (found, _, near, _, _), chance, several = total, _chance(total), tells.sum(axis=0) > 1
    rate, of, n = np.minimum(1.0, found / np.maximum(near, 1.0)), every[1].astype(int), total[1].astype(int)
    by_chance = bdtrc(every[0] - 1, of, chance) > DOUBT
    contrary = by_chance & (bdtr(every[0], of, rate * every[2] / every[1]) < DOUBT)
    known = several & ~(contrary & tells).any(axis=0) & (bdtrc(found - 1, n, chance) < CHANCE)
    if known.any():
        kind = int(known.argmax())
        what = ("their values", "halfway between their values")[kind]
        text = f"Training rows are among these rows ({found[kind]:.0f} of {n[kind]} thresholds are {what}): noise looks"
        return Note("training_rows", f"{text} like signal. Score held-out rows.")
    # Half of what the training rows would match must be enough to know them.
    sure = several & (bdtrc(near // 2 - 1, n, chance) < CHANCE)
    return None if sure.all() else UNCHECKED
