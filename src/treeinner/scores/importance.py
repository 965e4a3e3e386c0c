"""importance(): which features carry signal, on rows that the model has not seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from treeinner.compiled import Progress
from treeinner.errors import speak
from treeinner.groups import GroupSpec
from treeinner.options import ReadOptions
from treeinner.scores.accumulator import CONFIDENCE, ImportanceAccumulator, check_errors_wanted
from treeinner.scores.arguments import check_arguments, open_for
from treeinner.scores.conclude import overshoot_notes, with_note
from treeinner.scores.members import check_arguments_for_members, shares_of_members
from treeinner.scores.passes import importance_of_stream, needs_all_rows, take_passes
from treeinner.scores.result import Importance
from treeinner.scores.setting import TreeAttribution
from treeinner.scores.training_rows import training_rows_note
from treeinner.stream import Stream, in_memory, source_of
from treeinner.tables.frames import names_of
from treeinner.wrapped import Members, open_members

__all__ = ["importance"]

OUT_OF_BAG = (
    "Out-of-bag rows depend on each other through the trees that they share: p values are slightly too small "
    "(docs/calibration.md)."
)

FEW_ROWS = 20  # of equal weight that all rows count for: below it, noise has small p values far too often
MEMBERS_ASKED = 3  # whether training rows are among the rows: all were fitted on samples of the same ones


def importance(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    score: str = "tree_inner",
    method: str | TreeAttribution | None = None,
    sample_weight: Any = None,
    clusters: Any = None,
    base_margin: Any = None,
    qid: Any = None,
    feature_groups: GroupSpec | None = None,
    over: str | None = None,
    against: str | None = None,
    oob: bool = False,
    by_round: bool = False,
    std_errors: bool = True,
    confidence: float = CONFIDENCE,
    n_jobs: int | None = -1,
    progress: Progress | None = None,
    **reading: Any,
) -> Importance:
    """Global importance of every feature, with standard errors.

    Parameters
    ----------
    model : fitted model, path or Model
        As for `attribute`; also a wrapper of several models, whose members are added up with its weights (`members`).
    X, y : table and target
        Held-out rows: not used for training, early stopping or tuning. score="abs" takes no target. y, sample_weight,
        clusters, base_margin and qid may be names of columns of X. X may also be a source of rows that need not fit
        into memory: a path, a folder or a pattern of Parquet, Feather or CSV files, several paths, a pyarrow Dataset or
        RecordBatchReader, a polars LazyFrame, a DuckDB relation, whatever exports an Arrow stream, an iterator of
        (X, y) batches, a function that returns one, or an xgboost.DataIter (docs/scale.md).
    score : {"tree_inner", "loss", "forest_inner", "abs"}
        TreeInner ("is there signal?"): tree by tree, attribution times the negative gradient before the round. loss
        ("did it pay?"): times the negative gradient averaged over the round's step, so that scores and `base` add up to
        what the model took off the loss. ForestInner: sum of the attributions times sum of the residuals. abs: mean of
        `|attribution|`.
    method : {"centred", "predecomp", "saabas", "treeshap"} or callable
        The attribution; a function gets one tree (an Ensemble) and rows (as `Table.block` gives them) and returns
        (rows, features). centred, the default of tree_inner and loss, goes by the means of the leaf values over these
        rows in every node, and needs nothing that a model may not store. predecomp is the default of the others.
    sample_weight : array, optional
        Weight of each row.
    clusters : array, optional
        Label of each row; only clusters are independent (repeated measurements, time blocks).
    base_margin : array, optional
        Margin of each row before the first tree, as in training (LightGBM's init_score, CatBoost's baseline).
    qid : array, optional
        Query of each row, for ranking losses.
    feature_groups : mapping, "original" or "prefix:_", optional
        Name of a group -> its features; scored as one, with a standard error of its own. "original": the columns of X
        before the transformers of a pipeline; an interaction of two of them is a group "a*b" of its own. "prefix:_":
        columns of `pandas.get_dummies`, by what stands before the first "_" (or any other separator) if two or more
        columns share it; names that can be read in two ways are refused.
    over : {"trees", "forest"}
        For abs: mean over the rows of the sum over the trees of `|attribution|`, or of `|sum over the trees|`.
    against : {"residual", "label"}
        For forest_inner: what the attributions are multiplied by.
    oob : bool
        Random forests, X and y being the training rows: score every tree on its out-of-bag rows. Each of
        them counts rows / (out-of-bag rows of the tree) times; by predecomp the score is then MDI-oob (Li et al. 2019):
        the mean over the trees of the mean over their out-of-bag rows of attribution times y (for classes: times the
        indicator of each class, summed).
    by_round : bool
        Keep scores by round for treeshap and callables; the other methods keep them anyway.
    std_errors : bool
        False: scores only, from the gradient sums of the leaves; cheaper.
    confidence : float
        Coverage of the intervals.
    n_jobs : int
        Threads; -1 for all cores. The result does not depend on it.
    progress : callable, optional
        Called with (rows done, rows).
    **reading
        What the model does not store, as for `read_model`: objective, learning_rate, reg_lambda, reg_alpha,
        iteration_range, feature_names.

    Returns
    -------
    Importance
        Scores, standard errors and intervals per row (per unit of weight) and in units of the loss, learning rate
        included; `gains` has the paper's sums over rows.

    Warns
    -----
    TreeInnerWarning
        If something was assumed, or does not hold for these numbers; `Importance.notes` has the same lines.

    Notes
    -----
    Centred scores take two passes over the rows: the first gives the score, the second the share of every row in it,
    and with that standard errors and p values, by sign flips of the shares. The scores of the other methods are tested
    as they are, score over standard error: they may be above 0 for a feature without information on the target
    (docs/theory.md).
    """
    check_arguments(score, oob=oob)
    given = {"sample_weight": sample_weight, "clusters": clusters, "base_margin": base_margin, "qid": qid}
    source = source_of(X, {"y": y, **given})
    clustered = clusters is not None or (source is not None and "clusters" in source.gives)
    check_errors_wanted(std_errors, clustered=clustered, confidence=confidence)
    names = names_of(X) if source is None else source.names
    wrapper = open_members(model, ReadOptions.of(reading, caller=importance), names)
    if wrapper is not None:
        check_arguments_for_members(
            wrapper.kind,
            score,
            over=over,
            against=against,
            oob=oob,
            by_round=by_round,
            base_margin=base_margin,
            qid=qid,
        )
        itself = replace(wrapper.members[0].model, transformers=(model,))  # the wrapper stores which columns it takes
        X, given = in_memory(itself, X, source, y=y, **given)
        found = _of_members(
            wrapper, X, given["y"], score=score, method=method, sample_weight=given["sample_weight"],
            clusters=given["clusters"], feature_groups=feature_groups, confidence=confidence, n_jobs=n_jobs,
            progress=progress,
        )  # fmt: skip
        return replace(found, has_std_errors=std_errors)
    accumulator = ImportanceAccumulator(
        open_for(score, model, reading, caller=importance),
        score=score, method=method, feature_groups=feature_groups, over=over, against=against, by_round=by_round,
        std_errors=std_errors, clustered=clustered, confidence=confidence, n_jobs=n_jobs,
    )  # fmt: skip
    if source is not None and not oob and not needs_all_rows(accumulator):
        stream = Stream(accumulator._model, source, {"y": y, **given})
        return importance_of_stream(accumulator, stream, n_jobs=n_jobs, progress=progress)
    X, given = in_memory(accumulator._model, X, source, y=y, **given)
    y = given.pop("y")
    second, _ = take_passes(accumulator, X, y, oob=oob, progress=progress, **given)
    found = second.result()
    if second._first is None:
        return found
    if oob:
        return replace(found, notes=(*found.notes, OUT_OF_BAG))
    del given["clusters"]
    found = with_note(found, _uneven_weights(given["sample_weight"]))
    return with_note(found, training_rows_note(second._model, X, y, n_jobs=n_jobs, **given))


def _uneven_weights(sample_weight: Any) -> str | None:
    """What is to be said if few rows have most of the weight."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, np.float64)
    weight = weight / max(weight.max(), np.finfo(float).tiny)
    rows = float(weight.sum() ** 2 / max((weight * weight).sum(), np.finfo(float).tiny))
    if rows >= FEW_ROWS or len(weight) < FEW_ROWS:
        return None
    return (
        f"Few rows have most of the weight: these {len(weight):,} rows count for about {rows:.1f} of equal weight. "
        "Standard errors and p values are unreliable; clip large weights, or score more rows."
    )


def _of_members(wrapper: Members, X: Any, y: Any, **given: Any) -> Importance:
    """Importance of a wrapper of several models; what must be said is said once."""
    rows = shares_of_members(wrapper, X, y, **given)
    found = rows.importance
    more = [*overshoot_notes(found)]
    if given["method"] in (None, "centred"):
        some = {name: given[name] for name in ("sample_weight", "n_jobs")}
        asked = (training_rows_note(member.model, X, y, **some) for member in wrapper.members[:MEMBERS_ASKED])
        more += [note for note in asked if note is not None][:1]
    for note in (*rows.said, *more):
        speak(note)
    return replace(found, notes=(*found.notes, *more))
