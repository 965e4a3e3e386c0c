"""importance(): which features carry signal, on rows that the model has not seen."""

from __future__ import annotations

from typing import Any

from treeinner.errors import DataError
from treeinner.kernels import Progress, heard
from treeinner.read import read_model
from treeinner.read.columns import GroupSpec, credit
from treeinner.read.unwrap import members
from treeinner.rows import read_rows
from treeinner.score.average import average_importance
from treeinner.score.conclude import ONE_PASS, OUT_OF_BAG, scores_of, warned
from treeinner.score.result import Importance
from treeinner.score.spec import make_spec
from treeinner.score.training_rows import training_rows_note

__all__ = ["importance"]


def importance(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    score: str = "signal",
    method: str = "centred",
    sample_weight: Any = None,
    clusters: Any = None,
    base_margin: Any = None,
    qid: Any = None,
    feature_groups: GroupSpec | None = None,
    by: Any = None,
    freq: str | None = None,
    oob: bool = False,
    std_errors: bool = True,
    n_jobs: int | None = -1,
    progress: Progress | bool | None = None,
) -> Importance:
    """Global importance of every feature, with standard errors.

    Parameters
    ----------
    model : fitted model, path or Model
        A model of XGBoost, LightGBM, CatBoost or scikit-learn, a Pipeline or search around one, its file, or an average
        of boosted models (voting, bagging, calibration).
    X, y : table and target
        Held-out rows: not used for training, early stopping or tuning. y, sample_weight, clusters, base_margin and qid
        may be names of columns of X. X may also be a source of rows that need not fit into memory: a path, a folder or
        several paths of Parquet, Feather or CSV files, a pyarrow Dataset, whatever exports an Arrow stream, a polars
        LazyFrame, an iterable of (X, y) batches, or a function that returns one.
    score : {"signal", "tree_inner", "loss"}
        signal ("is there something to learn?"): the feature's contributions times what is left to explain without it,
        round by round; with `holds`, the part of the effect that is true on these rows. tree_inner, the paper's
        TreeInner: times the negative gradient before the round. loss ("did its use pay?"), the loss breakdown: times
        the negative gradient averaged over the round's step, so that scores and `base` add up to what the model took
        off the loss.
    method : {"centred", "predecomp", "saabas", "treeshap"}
        The attribution. centred goes by the means of the leaf values over these rows in every node, and needs nothing
        that a model may not store. The others are for tree_inner and loss.
    sample_weight : array, optional
        Weight of each row.
    clusters : array, optional
        Label of each row; only clusters are independent (repeated measurements, time blocks).
    base_margin : array, optional
        Margin of each row before the first tree, as in training (LightGBM's init_score, CatBoost's baseline).
    qid : array, optional
        Query of each row, for ranking losses.
    feature_groups : mapping, "original" or "encoded", optional
        Name of a group -> its features; scored as one, with a standard error of its own. Behind a Pipeline, "original",
        the default, is the columns that go in, and "encoded" those that the model sees.
    by : labels, name of a column or several, optional
        Segments of the rows: labels, a data frame of them, or names of columns of X, up to 1,000 different.
        Every segment is scored by the node values of all rows, so that by their weights segments add up to the whole:
        `segments`, `segment_test` and `by_segment` of the result. Missing labels are a segment of their own.
    freq : str, optional
        Of dates in `by`: the periods they become, in the words of pandas: "D", "W", "M", "Q", "Y", "YS-APR". Text is a
        date if it is written as "2024-03-31".
    oob : bool
        Random forests, X and y being the training rows: score every tree on its out-of-bag rows. By predecomp the score
        is then MDI-oob (Li et al. 2019).
    std_errors : bool
        False: scores only; of tree_inner and loss in one pass, from the gradient sums of the leaves.
    n_jobs : int
        Threads; -1 for all cores. The result does not depend on it.
    progress : bool or callable, optional
        True: a bar once it takes two seconds; or a function, called with (rows done, rows).

    Returns
    -------
    Importance
        Scores, standard errors and intervals per row (per unit of weight) and in units of the loss, learning rate
        included; `gains` has the paper's sums over rows.

    Warns
    -----
    TreeInnerWarning
        If something was assumed, or does not hold for these numbers; `Importance.notes` has the same lines.
    """
    given = {"sample_weight": sample_weight, "clusters": clusters, "base_margin": base_margin, "qid": qid}
    if freq is not None and by is None:
        raise ValueError(f"freq={freq!r} is of the dates in by; pass by= too.")
    if (several := members(model)) is not None:
        if by is not None:
            raise ValueError("by= is of one model, and this averages several: score each of model.estimators_.")
        asked: dict[str, Any] = {"score": score, "method": method, "feature_groups": feature_groups, "n_jobs": n_jobs}
        return average_importance(several, X, y, **asked, oob=oob, std_errors=std_errors, **given)
    if oob and score == "loss":
        raise ValueError("oob=True: every tree has rows of its own, so no loss is broken down; use score='tree_inner'.")
    model = read_model(model)
    rows = read_rows(model, X, y, oob=oob, by=by, freq=freq, **given)
    scored = credit(model, rows.names, feature_groups, rows.head)
    spec = make_spec(model, scored, score=score, method=method, clustered=rows.clustered, segmented=by is not None)
    if spec.segmented and not rows.again:
        raise DataError("by needs the rows twice; pass an X that can be read again, such as a function of the batches.")
    run: dict[str, Any] = {"margins_given": base_margin is not None, "n_jobs": n_jobs, "progress": heard(progress)}
    found = scores_of(model, spec, rows, std_errors=std_errors, **run)
    notes = (OUT_OF_BAG if oob else training_rows_note(model, rows), None if rows.again or not std_errors else ONE_PASS)
    return warned(found, *rows.notes, *notes)
