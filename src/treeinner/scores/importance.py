"""importance(): which features carry signal, on rows that the model has not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treeinner import objectives
from treeinner.ensemble import Ensemble
from treeinner.errors import DataError, UnsupportedModelError
from treeinner.groups import Groups, GroupSpec, resolve_groups
from treeinner.inference import from_sums
from treeinner.model import Model, open_model
from treeinner.options import ReadOptions
from treeinner.scores.accumulator import ImportanceAccumulator
from treeinner.scores.inputs import check_confidence, read_inputs
from treeinner.scores.permutation import permutation_scores
from treeinner.scores.result import Importance
from treeinner.scores.setting import SCORES, TreeAttribution, make_setting

__all__ = ["importance"]


def importance(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    score: str = "tree_inner",
    method: str | TreeAttribution = "predecomp",
    objective: Any = "auto",
    learning_rate: float | None = None,
    reg_lambda: float | None = None,
    reg_alpha: float | None = None,
    sample_weight: Any = None,
    clusters: Any = None,
    base_margin: Any = None,
    group: Any = None,
    groups: GroupSpec | None = None,
    iteration_range: tuple[int, int] | None = None,
    target: str = "residual",
    level: str = "tree",
    oob: bool = False,
    n_repeats: int = 5,
    random_state: Any = None,
    std_errors: bool = True,
    by_round: bool = False,
    confidence: float = 0.95,
    n_jobs: int | None = -1,
    progress: Callable[[int, int], None] | None = None,
) -> Importance:
    """Global importance of every feature, with standard errors.

    Parameters
    ----------
    model : fitted model, path or Ensemble
        As for `attribute`.
    X, y : table and target
        Held-out rows: not used for training, early stopping or tuning. `score="total_gain"` without X and y takes the
        gains that the model stores.
    score : {"tree_inner", "forest_inner", "abs", "total_gain", "permutation"}
        TreeInner: tree by tree, attribution times negative gradient. ForestInner: sum of the attributions times sum of
        the residuals (`target="label"`: times the label). abs: sum of `|attribution|`, per tree or of the whole forest
        (`level`). total_gain: stored, or on the given rows by Proposition 3. permutation: rise of the loss when a
        column is shuffled.
    method : {"predecomp", "saabas", "treeshap"} or callable
        The attribution; a function gets one tree (an Ensemble) and rows (as `Table.block` gives them) and returns
        (rows, features).
    objective : "auto", name, Objective or callable
        The loss; a function (y, margin) -> gradient for models trained with a loss of your own.
    learning_rate, reg_lambda, reg_alpha : float, optional
        Training parameters, for models that do not say them.
    sample_weight : array, optional
        Weight of each row.
    clusters : array, optional
        Label of each row; only clusters are independent (repeated measurements, time blocks).
    base_margin : array, optional
        Margin of each row before the first tree, as in training.
    group : array, optional
        Query of each row, for ranking losses.
    groups : mapping, optional
        Name of a group -> its features; scored as one, with a standard error of its own.
    iteration_range : (start, stop), optional
        Boosting rounds to score.
    target, level : str
        Variants of forest_inner and abs, see `score`.
    oob : bool
        Random forests, X and y being the training rows: score every tree on its out-of-bag rows. Each of
        them counts rows / (out-of-bag rows of the tree) times, so that `per_row` is MDI-oob (Li et al. 2019): the
        mean over the trees of the mean over their out-of-bag rows of attribution times y (for classes: times the
        indicator of each class, summed). Tested as it is, not centred.
    n_repeats, random_state
        Of permutation.
    std_errors : bool
        False: scores only, from the gradient sums of the leaves; cheaper.
    by_round : bool
        Keep scores by round for methods other than predecomp and saabas, which keep them anyway.
    confidence : float
        Coverage of the intervals.
    n_jobs : int
        Threads; -1 for all cores. The result does not depend on it.
    progress : callable, optional
        Called with (rows done, rows).

    Notes
    -----
    z, p and q values of tree_inner by predecomp or saabas are those of the centred score, in which every inner node's
    value is the mean of its leaves over these rows: a feature that knows nothing of the target passes only by chance.
    Score, standard error and interval are not centred, so z is not score / std_error (`Importance.test_scores`;
    docs/theory.md, section 6).
    """
    if score not in SCORES:
        raise ValueError(f"score={score!r} is not known; choose one of {', '.join(map(repr, SCORES))}.")
    check_confidence(confidence)
    if oob and (X is None or score == "permutation"):
        raise ValueError("oob=True goes with score='tree_inner' and the training rows as X and y.")
    if X is None:
        if score != "total_gain" or y is not None:
            raise DataError(f"score={score!r} is computed on rows; pass X and y (held-out rows).")
        opened = open_model(model, ReadOptions(iteration_range=iteration_range))
        return _stored_gain(opened, groups)
    if score == "permutation":
        opened = open_model(model, ReadOptions(iteration_range=iteration_range))
        return _permutation(
            opened, X, y, objective, sample_weight, clusters, base_margin, groups,
            n_repeats, random_state, confidence, n_jobs, progress,
        )  # fmt: skip
    accumulator = ImportanceAccumulator(
        model,
        score=score,
        method=method,
        objective=objective,
        learning_rate=learning_rate,
        reg_lambda=reg_lambda,
        reg_alpha=reg_alpha,
        groups=groups,
        iteration_range=iteration_range,
        target=target,
        level=level,
        std_errors=std_errors,
        by_round=by_round,
        clustered=clusters is not None,
        confidence=confidence,
        n_jobs=n_jobs,
    )
    accumulator._update(X, y, sample_weight, clusters, base_margin, group, progress, oob)
    return accumulator.result()


def _names(opened: Model, X: Any, spec: GroupSpec | None) -> tuple[tuple[str, ...], Groups | None]:
    names = opened.names(X) or tuple(f"f{i}" for i in range(opened.ensemble.n_features))
    groups = resolve_groups(spec, names)
    return (names if groups is None else groups.names), groups


def _stored_gain(opened: Model, spec: GroupSpec | None) -> Importance:
    """Sum of the gains that the model stores, as the library itself reports them."""
    e: Ensemble = opened.ensemble
    if np.isnan(e.gain).any():
        raise UnsupportedModelError(
            f"This {e.library} model does not store the gains of its splits; pass X and y of the training rows: "
            "importance(model, X_train, y_train, score='total_gain') computes them."
        )
    names, groups = _names(opened, None, spec)
    totals = np.zeros(e.n_features)
    inner = e.feature >= 0
    by_column = np.bincount(e.feature[inner], e.gain[inner], minlength=e.schema.n_columns)
    for column, gain in enumerate(by_column.tolist()):
        features = (column,) if e.column_features is None else e.column_features[column]
        for feature in features:
            totals[feature] += gain / len(features)
    if groups is not None:
        totals = groups.add_up(totals, axis=0)
    return Importance(
        score="total_gain",
        method="stored",
        feature_names=tuple(names),
        statistics=from_sums(totals, np.zeros_like(totals), 1),
        outputs=None,
        output_names=None,
        n_rows=0,
        sum_of_weights=float("nan"),
        tested=False,
        has_std_errors=False,
    )


def _permutation(
    opened: Model,
    X: Any,
    y: Any,
    objective: Any,
    sample_weight: Any,
    clusters: Any,
    base_margin: Any,
    spec: GroupSpec | None,
    n_repeats: int,
    random_state: Any,
    confidence: float,
    n_jobs: int | None,
    progress: Callable[[int, int], None] | None,
) -> Importance:
    e = opened.ensemble
    loss = objectives.for_ensemble(e, objective)
    setting = make_setting(
        e, loss, score="abs", method="saabas", target="residual", level="tree", std_errors=True, by_round=False
    )
    table = opened.table(X)
    names, groups = _names(opened, X, spec)
    inputs = read_inputs(setting, table.n_rows, y, sample_weight, clusters, base_margin, None)
    inputs.require_weight()
    statistics = permutation_scores(
        setting, table, inputs, groups,
        n_repeats=n_repeats, random_state=random_state, confidence=confidence, n_jobs=n_jobs, progress=progress,
    )  # fmt: skip
    return Importance(
        score="permutation",
        method=loss.name,
        feature_names=tuple(names),
        statistics=statistics,
        outputs=None,
        output_names=None,
        n_rows=table.n_rows,
        sum_of_weights=float(table.n_rows if inputs.weight is None else inputs.weight.sum()),
        tested=True,
        has_std_errors=True,
        frame_library=getattr(table, "frame_library", ""),
    )
