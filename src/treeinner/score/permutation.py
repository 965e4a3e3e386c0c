"""Permutation importance, the model-agnostic baseline: how much the loss rises when a column is shuffled.

Every value is binned once and every tree is walked once per repeat, for all features together
(core/kernels/permute.h): a row goes another way only where its path tests the shuffled feature. The changes of the
leaf values are added to the margin.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import UnsupportedModelError
from treeinner.kernels import Progress, Shuffle, heard, map_rows
from treeinner.losses import Loss
from treeinner.read import Model, read_model
from treeinner.read.columns import Credit, GroupSpec, credit
from treeinner.rows import Rows, read_rows
from treeinner.score.average import in_memory
from treeinner.score.baselines import importance_of_rows, weights_of
from treeinner.score.conclude import warned
from treeinner.score.result import Importance

__all__ = ["permutation_importance"]

Float = NDArray[np.float64]


def permutation_importance(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    n_repeats: int = 5,
    random_state: Any = None,
    sample_weight: Any = None,
    clusters: Any = None,
    base_margin: Any = None,
    feature_groups: GroupSpec | None = None,
    n_jobs: int | None = -1,
    progress: Progress | bool | None = None,
) -> Importance:
    """Rise of the loss per row when a feature is shuffled, mean over the repeats, with standard errors.

    The shuffles are those of scikit-learn's `permutation_importance` for the same random_state: one order of the rows
    per repeat, the same for every feature. A group of features is shuffled as one.

    Parameters
    ----------
    model, X, y, sample_weight, clusters, base_margin, feature_groups, n_jobs, progress
        As for `importance`.
    n_repeats : int
        Number of shuffles.
    random_state : int, RandomState or None
        Seed of the shuffles.
    """
    if not isinstance(n_repeats, (int, np.integer)) or n_repeats < 1:
        raise ValueError(f"n_repeats={n_repeats!r}: expected at least one shuffle, as an integer.")
    try:  # the legacy generator, as in scikit-learn: the same orders let results be compared number by number
        drawn = isinstance(random_state, np.random.RandomState)
        generator = random_state if drawn else np.random.RandomState(random_state)
    except (TypeError, ValueError):
        raise ValueError(f"random_state={random_state!r}: expected an integer in [0, 2**32) or RandomState.") from None
    model = read_model(model)
    stream = read_rows(model, X, y, sample_weight=sample_weight, clusters=clusters, base_margin=base_margin)
    rows, names = in_memory(stream), credit(model, stream.names, feature_groups, stream.head)
    loss = _row_loss(model)
    of_column, used = _groups(model, names)
    shuffle = Shuffle(model.trees.forest, of_column, len(used), rows.table, n_jobs=n_jobs)
    orders = _orders(rows.n_rows, n_repeats, generator)

    def work(start: int, stop: int) -> Float:
        return _rises(loss, rows, shuffle, orders, start, stop)

    parts = map_rows(rows.n_rows, shuffle.step, work, n_jobs=n_jobs, progress=heard(progress))
    rises = np.zeros((rows.n_rows, 1, len(names.names)))  # 0 where no tree uses the name
    rises[:, 0, used] = np.concatenate(list(parts), axis=1).T
    found = importance_of_rows(model, "permutation", loss.name, names.names, rises, weights_of(rows), rows.clusters)
    own: dict[str, Any] = {"loss_name": loss.words, "frame_library": rows.frame_library, "output_names": None}
    return warned(replace(found, notes=(*model.notes, *rows.table.notes), **own))


def _row_loss(model: Model) -> Loss:
    """The loss of single rows; refuses what cannot be shuffled."""
    assert model.loss is not None
    loss = model.loss.metric or model.loss
    if loss.value is None or loss.scope != "row":
        raise UnsupportedModelError(
            f"Permutation importance needs the loss of each row; {loss.name!r} has none. Use that of scikit-learn."
        )
    if model.route is not None:
        raise UnsupportedModelError(
            f"Permutation importance: {model.library} makes columns of several features at once. Use ti.importance."
        )
    return loss


def _groups(model: Model, names: Credit) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    """Group of columns that each column is shuffled with, -1 if no tree reads it; and which name each group is."""
    trees, inner = model.trees, model.trees.column >= 0
    of_player = np.zeros(len(trees.player_features), np.intp)
    of_player[names.player] = names.name
    of_column = np.full(trees.n_columns, -1, np.int32)
    used, group = np.unique(of_player[trees.player[inner]], return_inverse=True)
    of_column[trees.column[inner]] = group
    return of_column, used


def _orders(n_rows: int, n_repeats: int, generator: np.random.RandomState) -> list[NDArray[np.int64]]:
    """Shuffled row numbers, one per repeat, drawn as scikit-learn draws them."""
    seeded = np.random.RandomState(generator.randint(np.iinfo(np.int32).max + 1))
    step = np.arange(n_rows)
    orders = [np.arange(n_rows)]
    for _ in range(n_repeats):
        seeded.shuffle(step)
        orders.append(orders[-1][step])  # scikit-learn shuffles the column that it has shuffled before
    return orders[1:]


def _rises(loss: Loss, rows: Rows, shuffle: Shuffle, orders: list[NDArray[np.int64]], start: int, stop: int) -> Float:
    """Rise of the loss of every row for every group in use: (groups, rows)."""
    y, base, weight = rows.y[start:stop], rows.start[start:stop], weights_of(rows)
    weight = None if weight is None else weight[start:stop]
    rises = np.zeros((shuffle.n_groups, stop - start))
    for order in orders:
        margin, changes = shuffle.margins(start, order[start:stop])
        before_shuffle = base + margin.T
        before = loss.losses(y, before_shuffle, weight=weight)
        for group, change in enumerate(changes):
            rises[group] += (loss.losses(y, before_shuffle + change.T, weight=weight) - before) / len(orders)
    return rises
