"""Rows of a Spark DataFrame: importance on the cluster that holds them, and attributions as a lazy DataFrame.

    from treeinner.spark import importance
    imp = importance(model, df, label_col="price")      # the same bits as ti.importance on df.toPandas()

    columns     which columns of the frame are what
    workers     what runs in Spark's Python workers, and what comes back

Classic and Connect sessions; the workers need treeinner and the library of the model. Sums and their checks are those
of scores/partitions.py, as for Dask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from treeinner.attribution import METHODS, check_choice, node_values
from treeinner.attribution_file import DTYPES, column_names
from treeinner.groups import GroupSpec
from treeinner.model import Model, open_model
from treeinner.options import ReadOptions
from treeinner.scores.partitions import make_plan, run_rounds
from treeinner.scores.result import Importance
from treeinner.spark.columns import Columns, Source, checked_frame, find_columns, source_of
from treeinner.spark.workers import Rounds, attributed, check_workers

__all__ = ["attribute", "importance"]


def importance(
    model: Any,
    df: Any,
    *,
    features_col: str | None = None,
    label_col: str | Sequence[str] | None = "label",
    weight_col: str | None = None,
    base_margin_col: str | Sequence[str] | None = None,
    clusters_col: str | None = None,
    qid_col: str | None = None,
    **settings: Any,
) -> Importance:
    """Global importance of every feature, with standard errors, from the rows of a Spark DataFrame.

    The result has the bits of `ti.importance` on all rows in memory, however they are partitioned. Centred scores with
    standard errors need the rows twice: cache df if it is slow to compute, or if it may come out differently.

    Parameters
    ----------
    model : fitted model, path or Model
        As for `ti.importance`, and models of xgboost.spark. A path is read here, not on the workers.
    df : pyspark DataFrame
        Held-out rows, of a classic or a Connect session.
    features_col : str, optional
        Column of vectors (pyspark.ml) or arrays that holds all features of a row, in the order of training. None: each
        feature is a column of its own, found by the name that the model stores; for a model of xgboost.spark, the
        columns that it was trained on. What a sparse vector leaves out is 0; it is a missing value for a model that was
        trained so (enable_sparse_data_optim, missing=0), which its booster alone does not tell.
    label_col : str or list of str
        Column of the target, or columns of several targets. score="abs" needs none.
    weight_col, base_margin_col, clusters_col : str, optional
        Columns of what `ti.importance` calls sample_weight, base_margin and clusters.
    qid_col : str, optional
        Column of the queries, for ranking losses. df is repartitioned by it, so that no query is divided.
    **settings
        As for `ti.importance`, `oob` and `progress` excepted; `n_jobs`, threads per task, is 1.

    Returns
    -------
    Importance
        As from `ti.importance`; training rows are looked for in one partition only.
    """
    df = checked_frame(df)
    source = source_of(model, df, features_col)
    if settings.get("score") == "abs" and label_col == "label":  # the default, which nobody asked for
        label_col = None
    given = {
        "label_col": label_col, "weight_col": weight_col, "base_margin_col": base_margin_col,
        "clusters_col": clusters_col, "qid_col": qid_col,
    }  # fmt: skip
    settings = _with_names(source, settings)
    plan = make_plan(source.model, caller=importance, clustered=clusters_col is not None, **settings)
    columns = find_columns(plan.start._model, df, source, given)
    check_workers(df)
    rounds = Rounds(columns.select(df), columns)
    found = run_rounds(plan, rounds.run, look=lambda _: rounds.note)
    return replace(found, frame_library="")  # what is installed here, not Arrow, which Spark sent the rows in


def attribute(
    model: Any,
    df: Any,
    *,
    features_col: str | None = None,
    keep_cols: str | Sequence[str] = (),
    method: str = "predecomp",
    base_margin_col: str | Sequence[str] | None = None,
    feature_groups: GroupSpec | None = None,
    dtype: str = "float64",
    n_jobs: int = 1,
    **reading: Any,
) -> Any:
    """Split the margin of every row over the features, lazily.

    Parameters
    ----------
    model, df, features_col, base_margin_col
        As for `importance`.
    keep_cols : str or sequence of str
        Columns of df to keep, such as keys: Spark promises no order of the rows.
    method, feature_groups, **reading
        As for `ti.attribute`.
    dtype : {"float64", "float32"}
        Of the attributions.
    n_jobs : int
        Threads per task.

    Returns
    -------
    pyspark DataFrame
        The columns kept, base_value, and one per feature, which with it add up to the margin. With several outputs they
        are called "output: base_value" and "output: feature". Rows that are refused make the action fail that asks for
        them; the error names their partition.
    """
    check_choice("method", method, METHODS)
    check_choice("dtype", dtype, DTYPES)
    df = checked_frame(df)
    source = source_of(model, df, features_col)
    opened = open_model(source.model, ReadOptions.of(_with_names(source, reading), caller=attribute))
    node_values(opened.ensemble, method)  # asks for what is unknown before there are rows
    keep = (keep_cols,) if isinstance(keep_cols, str) else tuple(keep_cols)
    columns = find_columns(opened, df, source, {"base_margin_col": base_margin_col}, keep)
    schema = _schema(opened, df, columns, feature_groups, dtype)
    check_workers(df)
    options = {"method": method, "feature_groups": feature_groups, "n_jobs": n_jobs}
    return attributed(columns.select(df), columns, opened, schema, dtype, **options)


def _with_names(source: Source, reading: dict[str, Any]) -> dict[str, Any]:
    """The user's options; features in a vector have the names that came with it, unless the user tells others."""
    return reading if source.vector_names is None else {"feature_names": source.vector_names} | reading


def _schema(model: Model, df: Any, columns: Columns, feature_groups: GroupSpec | None, dtype: str) -> Any:
    """Columns of the attributions."""
    from pyspark.sql.types import DoubleType, FloatType, StructField, StructType

    own = columns.features if not columns.vectors and not model.transformers else ()
    names = model.feature_names or (own if len(own) == model.n_features else model.labels(None))
    outputs = model.output_names or range(model.n_outputs)
    found = column_names(model.groups(feature_groups, names).names, outputs, columns.keep)
    kind = DoubleType() if dtype == "float64" else FloatType()
    return StructType([*(df.schema[name] for name in columns.keep), *(StructField(name, kind) for name in found)])
