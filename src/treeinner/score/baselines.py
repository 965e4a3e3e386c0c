"""What others compute: mean |attribution|, ForestInner, total gain.

Plain functions over attributions in memory, for comparison with the scores of `importance`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import kernels
from treeinner.errors import UnsupportedModelError
from treeinner.losses.loss import one_hot
from treeinner.read import Model, read_model
from treeinner.read.columns import Credit, GroupSpec, credit
from treeinner.read.methods import attribute_players, check_method, node_values
from treeinner.rows import Rows, Table, read_rows, read_table
from treeinner.rows.frames import frame_library_of, names_of
from treeinner.rows.rows import given_weights, split
from treeinner.score.average import in_memory
from treeinner.score.conclude import statistics_of_shares, warned
from treeinner.score.importance import importance
from treeinner.score.infer import unknown
from treeinner.score.result import Importance
from treeinner.score.spec import METHODS, check_choice
from treeinner.score.training_rows import training_rows_note

__all__ = ["forest_inner", "importance_of_rows", "mean_abs", "total_gain", "weights_of"]

Float = NDArray[np.float64]


def mean_abs(
    model: Any,
    X: Any,
    *,
    method: str = "treeshap",
    over: str = "forest",
    sample_weight: Any = None,
    feature_groups: GroupSpec | None = None,
    n_jobs: int | None = -1,
) -> Importance:
    """Mean absolute attribution over the rows, as in the bar plot of shap (mean absolute SHAP value). It needs no y.

    Parameters
    ----------
    model, X, sample_weight, feature_groups, n_jobs
        As for `importance`.
    method : {"treeshap", "saabas", "predecomp"}
        The attribution.
    over : {"forest", "trees"}
        The size of the whole attribution, or the sum of its sizes in single trees.
    """
    check_method(method)
    check_choice("over", over, ("forest", "trees"))
    model = read_model(model)
    X, given = split(model, X, {"sample_weight": sample_weight})
    table, names = read_table(model, X), credit(model, names_of(X), feature_groups, X)
    if over == "forest":
        shares = np.abs(names.add_up(attribute_players(model, table, method, n_jobs=n_jobs), axis=2))
    else:
        shares = _absolute_by_tree(model, table, names, method, n_jobs)
    weight = None if sample_weight is None else given_weights(given["sample_weight"], table.n_rows)
    shares = shares if weight is None else shares * weight[:, None, None]
    found = importance_of_rows(model, "mean_abs", method, names.names, shares, weight)
    return replace(found, frame_library=frame_library_of(X))


def forest_inner(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    method: str | None = None,
    against: str | None = None,
    sample_weight: Any = None,
    clusters: Any = None,
    base_margin: Any = None,
    qid: Any = None,
    feature_groups: GroupSpec | None = None,
    n_jobs: int | None = -1,
) -> Importance:
    """ForestInner: attribution of the whole model times what there was to explain, mean over the rows.

    By default these are centred contributions and the negative gradients before the first tree (for squared error the
    label less its mean): the signal score of the model as if all its trees were one round, with errors and p values.
    Ask it at learning rates near 1, and for redundant columns, which share the credit of the signal score. Of a forest,
    whose trees are grown side by side, it is the signal score itself.

    Parameters
    ----------
    model, X, y, sample_weight, clusters, base_margin, qid, feature_groups, n_jobs
        As for `importance`.
    method : {"centred", "predecomp", "saabas", "treeshap"}
        The attribution. All but centred are the paper's.
    against : {"start", "residual", "label"}
        What it is multiplied by. centred: the negative gradients at the start. The paper's: the negative gradients
        before every round, added up, or y (of classes: 1 or 0).
    """
    method = method or ("centred" if against in (None, "start") else "predecomp")
    against = against or ("start" if method == "centred" else "residual")
    check_choice("method", method, METHODS)
    check_choice("against", against, ("start", "residual", "label"))
    if (method == "centred") != (against == "start"):
        raise ValueError(f"method={method!r} does not go with against={against!r}; leave one of them out.")
    model = read_model(model)
    given = {"sample_weight": sample_weight, "clusters": clusters, "base_margin": base_margin, "qid": qid}
    if method == "centred":
        trees = replace(model.trees, round=np.zeros(model.n_trees, np.int32))
        found = importance(replace(model, trees=trees), X, y, feature_groups=feature_groups, n_jobs=n_jobs, **given)
        return replace(found, score="forest_inner", rounds=None, losses=None, model_digest=model.digest)
    stream = read_rows(model, X, y, **given)
    names, rows = credit(model, stream.names, feature_groups, stream.head), in_memory(stream)
    factor = _label(model, rows) if against == "label" else sum(_residuals(model, rows))
    shares = names.add_up(attribute_players(model, rows.table, method, n_jobs=n_jobs), axis=2)
    shares = shares * np.asarray(factor)[:, :, None]
    found = importance_of_rows(model, "forest_inner", method, names.names, shares, weights_of(rows), rows.clusters)
    return warned(replace(found, frame_library=rows.frame_library), training_rows_note(model, stream))


def total_gain(model: Any, *, feature_groups: GroupSpec | None = None) -> Importance:
    """Total gain of every feature, as the model stores it: a sum over its splits and its training rows.

    It has no standard errors: gains of the training rows do not tell signal from noise.
    """
    model = read_model(model)
    trees, inner = model.trees, model.trees.column >= 0
    if np.isnan(trees.gain).any():
        raise UnsupportedModelError(
            "The model does not store the gains: they are ti.importance(model, X_train, y_train, score='tree_inner', "
            "method='predecomp').gains."
        )
    by_split = np.bincount(trees.player[inner], trees.gain[inner], minlength=len(trees.player_features))
    names = credit(model, None, feature_groups)
    return Importance(
        score="total_gain",
        method="stored",
        feature_names=names.names,
        statistics=unknown(names.add_up(np.asarray(by_split, np.float64), axis=0)),
        has_errors=False,
        n_rows=0,
        sum_of_weights=np.nan,
        notes=model.notes,
    )


# -- inside ----------------------------------------------------------------------------------------------------
def _absolute_by_tree(model: Model, table: Table, names: Credit, method: str, n_jobs: int | None) -> Float:
    """Sum over the trees of |attribution|: (rows, outputs, names)."""
    forest = model.trees.forest
    paths = None if method == "treeshap" else forest.path_table(node_values(model, method))

    def work(start: int, stop: int) -> Float:
        codes = forest.bin(table.block(start, stop))
        out = np.zeros((stop - start, model.n_outputs, len(names.names)))
        for tree in range(model.n_trees):
            sums = kernels.PlayerSums(forest, stop - start, paths)
            sums.add(codes, tree, 1)
            out += np.abs(names.add_up(sums.players(), axis=2))
        return out

    step = kernels.task_rows(forest, table)
    return np.concatenate(list(kernels.map_rows(table.n_rows, step, work, n_jobs=n_jobs)))


def _residuals(model: Model, rows: Rows) -> Iterator[Float]:
    """Negative gradients before each round, weights included: (rows, outputs)."""
    forest, table, loss = model.trees.forest, rows.table, model.loss
    assert loss is not None
    n, step, weight = rows.n_rows, kernels.task_rows(forest, table), weights_of(rows)
    tasks = [(slice(i, i + step), forest.bin(table.block(i, min(i + step, n)))) for i in range(0, n, step)]
    margin = rows.start.copy()
    for first, stop in pairwise(model.trees.first_trees.tolist()):
        yield -loss.gradients(rows.y, margin, weight=weight, query=rows.query)
        for here, codes in tasks:
            moved = kernels.aligned((model.n_outputs, kernels.padded_rows(codes.n_rows)))
            forest.core.margins(codes, first, stop - first, moved)
            margin[here] += moved[:, : codes.n_rows].T


def _label(model: Model, rows: Rows) -> Float:
    """Label of every row and output, times its weight: (rows, outputs)."""
    assert model.loss is not None
    weight = weights_of(rows)
    label = rows.y.reshape(rows.n_rows, -1).astype(np.float64)
    if model.loss.target == "class":
        label = one_hot(label[:, 0], model.n_outputs)
    return np.broadcast_to(label, (rows.n_rows, model.n_outputs)) * (1.0 if weight is None else weight[:, None])


def weights_of(rows: Rows) -> Float | None:
    """Weights as they were given."""
    return None if rows.weight is None else np.ldexp(rows.weight, rows.weight_exponent)


def importance_of_rows(
    model: Model,
    score: str,
    method: str,
    names: tuple[str, ...],
    shares: Float,
    weight: Float | None,
    clusters: NDArray[Any] | None = None,
) -> Importance:
    """Scores with standard errors from the share of every row, weights included: (rows, outputs, names)."""
    weight = np.ones(len(shares)) if weight is None else weight
    whole, outputs = statistics_of_shares(shares.swapaxes(1, 2), weight, clusters)
    return Importance(
        score=score,
        method=method,
        feature_names=names,
        statistics=whole,
        outputs=None if outputs is whole else outputs,
        output_names=model.output_names,
        n_rows=len(shares),
        sum_of_weights=float(weight.sum()),
        loss_name="the loss" if model.loss is None else model.loss.words,
        notes=model.notes,
    )
