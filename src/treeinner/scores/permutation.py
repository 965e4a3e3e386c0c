"""Permutation importance, the model-agnostic baseline: how much the loss rises when a column is shuffled.

Every value is binned once and every tree is walked once per repeat, for all features together
(core/kernels/permute.h): a row goes another way only where its path tests the shuffled feature. The changes of the
leaf values are added to the margin.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import inference
from treeinner.compiled import Progress, Shuffle, map_rows
from treeinner.errors import UnsupportedModelError, speak
from treeinner.groups import GroupSpec
from treeinner.model import Model
from treeinner.objectives import Objective
from treeinner.scores.arguments import check_integer, open_for
from treeinner.scores.batch import Batch, read_batch
from treeinner.scores.result import Importance
from treeinner.stream import in_memory

__all__ = ["permutation_importance"]

FloatArray = NDArray[np.float64]


def permutation_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    n_repeats: int = 5,
    random_state: Any = None,
    sample_weight: Any = None,
    clusters: Any = None,
    base_margin: Any = None,
    feature_groups: GroupSpec | None = None,
    confidence: float = 0.95,
    n_jobs: int | None = -1,
    progress: Progress | None = None,
    **reading: Any,
) -> Importance:
    """Rise of the loss per row when a feature is shuffled, mean over the repeats, with standard errors.

    The shuffles are those of scikit-learn's `permutation_importance` for the same random_state: one order of the rows
    per repeat, the same for every feature. A group of features is shuffled as one.

    Parameters
    ----------
    model, X, y, sample_weight, clusters, base_margin, feature_groups, confidence, n_jobs, progress, **reading
        As for `importance`.
    n_repeats : int
        Number of shuffles.
    random_state : int, RandomState or None
        Seed of the shuffles.
    """
    inference.check_confidence(confidence)
    check_integer("n_repeats", n_repeats, 1, "at least one shuffle, as an integer")
    generator = _generator(random_state)
    opened = open_for("permutation", model, reading, caller=permutation_importance)
    objective = opened.objective
    _refuse(opened, objective)
    X, given = in_memory(opened, X, y=y, sample_weight=sample_weight, clusters=clusters, base_margin=base_margin)
    batch = read_batch(opened, objective, X, given.pop("y"), **given)
    batch.require_weight()
    groups = opened.groups(feature_groups, opened.labels(X))
    of_column = np.arange(opened.n_features) if groups.of_feature is None else groups.of_feature
    e = opened.ensemble
    used = np.unique(of_column[e.feature[e.feature >= 0]])  # the others change nothing
    number = np.full(len(groups.names), -1, np.int32)
    number[used] = np.arange(len(used))
    shuffle = Shuffle(e.forest, number[of_column], len(used), batch.table, n_jobs=n_jobs)
    orders = _orders(batch.n_rows, n_repeats, generator)

    def work(start: int, stop: int) -> FloatArray:
        rises = _rises(objective, batch, shuffle, orders, start, stop)
        if batch.clusters is not None:
            return rises
        squares = rises * rises
        return np.stack([rises.sum(axis=1), squares.sum(axis=1), (squares * squares).sum(axis=1)])

    doubts = opened.doubts("permutation", "", base_margin=base_margin is not None)
    for doubt in doubts:
        speak(doubt)
    parts = list(map_rows(batch.n_rows, shuffle.step, work, n_jobs=n_jobs, progress=progress))
    summed = _statistics(batch, parts, used, len(groups.names), confidence)
    return Importance(
        score_name="permutation",
        method=objective.name,
        feature_names=groups.names,
        statistics=summed.scaled(1.0 / batch.sum_of_weights),
        n_rows=batch.n_rows,
        sum_of_weights=batch.sum_of_weights,
        tested=True,
        has_std_errors=True,
        notes=(*opened.notes, *doubts),
        frame_library=getattr(batch.table, "frame_library", ""),
    )


def _refuse(model: Model, objective: Objective) -> None:
    if objective.value is None:
        raise UnsupportedModelError(
            f"objective {objective.name!r} has a gradient only; permutation importance needs the loss itself. Pass the "
            "name of a built-in loss, or an Objective with `value`."
        )
    if not objective.per_row:
        raise UnsupportedModelError(
            f"objective {objective.name!r}: the loss of a row depends on other rows, so the rise of the loss has no "
            "share of each row. Use ti.importance, or scikit-learn's permutation_importance with a metric of your own."
        )
    if model.ensemble.schema.external:
        raise UnsupportedModelError(
            "Permutation importance of a CatBoost model with CTR splits: CatBoost computes those columns itself from "
            "several features at once. Use ti.importance, or scikit-learn's permutation_importance."
        )


def _statistics(
    batch: Batch, parts: list[FloatArray], used: NDArray[np.intp], n_scores: int, confidence: float
) -> inference.Inference:
    """Statistics of the summed rises, (features or groups,); those not in use are 0."""
    if batch.clusters is not None:
        rises = np.concatenate(parts, axis=1)
        here = slice(None) if batch.weight is None else np.flatnonzero(batch.weight)
        labels, of_row = np.unique(batch.clusters[here], return_inverse=True)
        summed = np.zeros((len(labels), n_scores))
        for group, score in enumerate(used.tolist()):
            summed[:, score] = np.bincount(of_row.reshape(-1), rises[group, here], len(labels))
        return inference.from_clusters(summed, confidence=confidence)
    n = batch.n_rows if batch.weight is None else int(np.count_nonzero(batch.weight))
    sums = np.zeros((3, n_scores))
    sums[:, used] = np.sum(parts, axis=0)
    total, squares, fourth = sums
    effective = inference.effective_units(squares, fourth)
    return inference.from_sums(total, squares, n, effective=effective, confidence=confidence)


def _generator(random_state: Any) -> np.random.RandomState:
    """The legacy generator, as in scikit-learn: the same orders let results be compared number by number."""
    if isinstance(random_state, np.random.RandomState):
        return random_state
    try:
        return np.random.RandomState(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state={random_state!r}: expected an integer from 0 to 2**32 - 1, a numpy.random.RandomState or "
            "None, as in scikit-learn."
        ) from None


def _orders(n_rows: int, n_repeats: int, generator: np.random.RandomState) -> list[NDArray[np.int64]]:
    """Shuffled row numbers, one per repeat, drawn as scikit-learn draws them."""
    seeded = np.random.RandomState(generator.randint(np.iinfo(np.int32).max + 1))
    step = np.arange(n_rows)
    orders = [np.arange(n_rows)]
    for _ in range(n_repeats):
        seeded.shuffle(step)
        orders.append(orders[-1][step])  # scikit-learn shuffles the column that it has shuffled before
    return orders[1:]


def _rises(
    objective: Objective, batch: Batch, shuffle: Shuffle, orders: list[NDArray[np.int64]], start: int, stop: int
) -> FloatArray:
    """Rise of the loss of every row for every feature or group in use: (groups, rows)."""
    assert batch.y is not None
    y, base = batch.y[start:stop], batch.base[start:stop]
    weight = None if batch.weight is None else batch.weight[start:stop]

    def loss(margin: FloatArray) -> FloatArray:
        return objective.losses(y, margin, weight=weight)

    rises = np.zeros((shuffle.n_groups, stop - start))
    for order in orders:
        margin, changes = shuffle.margins(start, order[start:stop])
        before_shuffle = base + margin.T
        before = loss(before_shuffle)
        for group, change in enumerate(changes):
            rises[group] += (loss(before_shuffle + change.T) - before) / len(orders)
    return rises
