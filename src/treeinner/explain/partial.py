"""Partial residuals: what a feature contributes to each prediction, and what is left to explain without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import kernels
from treeinner.errors import DataError
from treeinner.losses import forest_error
from treeinner.read import Model
from treeinner.read.columns import GroupSpec, credit
from treeinner.rows import load_table
from treeinner.rows.frames import collected, names_of, values_of
from treeinner.rows.rows import ROLES, one_batch, transform

__all__ = ["PartialResiduals", "partial_residuals"]

Float = NDArray[np.float64]
MOST_BINS = 12
ROWS_OF_A_BIN = 20  # where there are rows enough for three bins
CONFIDENCE = 0.95  # of the intervals of the bins
GAPS = ("None", "nan", "NaT", "<NA>")  # missing values among labels


@dataclass(frozen=True, eq=False, kw_only=True)
class PartialResiduals:
    """Contribution and partial residual of every row, for one feature and one output, on the margin's scale.

    The contribution is the feature's centred attribution, Phi. The partial residual is Phi + g(F) / h: g is minus the
    gradient of the loss, F the final margin, and h the secant curvature (g(F - Phi) - g(F)) / Phi, averaged with the
    weights w Phi^2. For squared error h is 1, and this is the target less what all other features say. So the line
    through 0 that fits residuals to contributions by least squares has the slope sum w s / sum w (s - l) with
    s = Phi g(F - Phi) and l = Phi g(F), which is `holds`.
    """

    feature: str
    output: str  # "" if there is one
    std_error: float  # of holds; NaN: not known
    contribution: Float  # (rows,)
    residual: Float  # (rows,)
    weight: Float  # (rows,) above 0
    cluster: NDArray[np.intp]  # (rows,) number of each row's cluster
    values: NDArray[Any] | None  # (rows,) of the feature: floats, or text with "" for a gap; None: a group has none

    @property
    def slope(self) -> float:
        """Slope of the line through 0 by weighted least squares: `holds`."""
        weighted = self.weight * self.contribution
        return float(weighted @ self.residual / (weighted @ self.contribution))

    def means(self, values: NDArray[Any]) -> tuple[list[str], dict[str, Float]]:
        """Weighted means over bins of rows with like values, the mean residual with a 95 % interval: (bins,) each.

        The first column, `at`, is the mean of the values, or the place of a category, whose names come first; it is NaN
        in the last bin if values are missing.
        """
        from scipy.special import stdtrit  # here, because its import takes longer than that of treeinner

        names, at = ([], values) if values.dtype.kind == "f" else _places(values, self.weight)
        bins = _bins(at)
        total = np.bincount(bins, self.weight)
        columns = {"at": at, "contribution": self.contribution, "residual": self.residual}
        means = {name: np.bincount(bins, self.weight * column) / total for name, column in columns.items()}
        n_clusters = self.cluster.max() + 1
        unit, of_row = np.unique(bins * n_clusters + self.cluster, return_inverse=True)  # clusters are units
        unit = unit // n_clusters  # the bin of each
        off = np.bincount(of_row.ravel(), self.weight * (self.residual - means["residual"][bins]))
        n = np.bincount(unit).astype(np.float64)
        n[n < 2] = np.nan  # one unit has no spread
        half = stdtrit(n - 1, 0.5 + CONFIDENCE / 2) * np.sqrt(np.bincount(unit, off * off) * n / (n - 1)) / total
        return names, {**means, "low": means["residual"] - half, "high": means["residual"] + half}


def _bins(values: Float) -> NDArray[np.intp]:
    """Number of the bin of each value: bins of about equally many rows, or of one value where few differ; gaps last."""
    levels, level, counts = np.unique(values, return_inverse=True, return_counts=True)
    bins = np.arange(len(levels))
    if len(levels) > MOST_BINS + 1:
        n = np.count_nonzero(~np.isnan(values))
        before = np.cumsum(counts) - counts
        bins = np.where(np.isnan(levels), n, before // max(n / MOST_BINS, min(ROWS_OF_A_BIN, n / 3)))
    return np.unique(bins[level], return_inverse=True)[1].ravel()


def _places(labels: NDArray[np.str_], weight: Float) -> tuple[list[str], Float]:
    """Names of the categories, the most frequent first and the last ones as one, and the place of every row's."""
    names, level = np.unique(labels, return_inverse=True)
    order = np.argsort(-np.bincount(level, weight) * (names != ""), kind="stable")
    place = np.minimum(np.argsort(order), MOST_BINS - 1)[level].astype(np.float64)
    place[labels == ""] = np.nan
    shown = [name for name in names[order].tolist() if name]
    if len(shown) > MOST_BINS:
        shown[MOST_BINS - 1 :] = [f"({len(shown) - MOST_BINS + 1} others)"]
    return shown, place


def partial_residuals(
    model: Model, X: Any, importance: Any, features: Sequence[int], *, output: Any = None,
    feature_groups: GroupSpec | None = None, n_jobs: int | None = -1, **given: Any,
) -> Iterator[PartialResiduals]:  # fmt: skip
    """Partial residuals of some features, each in one output; those that the model does not use are left out.

    importance: by score="signal", of the same rows; it has the node values of the contributions. features: positions in
    it. output: a label; None: where the score is largest. given: y, and what else `importance` takes for the rows.
    """
    X, given = load_table(model, X, dict.fromkeys(ROLES) | given)
    rows, names = one_batch(model, X, given), credit(model, names_of(X), feature_groups, X)
    of = (importance.score, importance.model_digest, importance.feature_names, importance.n_rows)
    if of != ("signal", model.digest, names.names, rows.n_rows):
        raise DataError("importance= must be ti.importance(model, X, y) of the same model, rows and features.")
    forest, loss = model.trees.forest, model.loss
    assert loss is not None  # or there would be no importance
    loss = forest_error(loss) if model.trees.averaged else loss
    paths = forest.path_table(importance.node_values)

    def contributions(codes: Any) -> Float:
        sums = kernels.PlayerSums(forest, codes.n_rows, paths)
        sums.add(codes, 0, forest.n_trees)
        return names.add_up(sums.players(), axis=2)[:, :, features]

    phi = kernels.by_task(forest, rows.table, contributions, n_jobs=n_jobs)
    margin = rows.start + kernels.predict(forest, rows.table, n_jobs=n_jobs)
    weight = np.ones(rows.n_rows) if rows.weight is None else np.ldexp(rows.weight, rows.weight_exponent)
    about: dict[str, Any] = {"weight": None if rows.weight is None else weight, "query": rows.query}
    residual = -loss.gradients(rows.y, margin, **about)
    here = weight > 0
    clusters = np.arange(rows.n_rows) if rows.clusters is None else rows.clusters
    cluster = np.unique(clusters[here], return_inverse=True)[1]
    for i, k in enumerate(features):
        a, label = _output(importance, k, output)
        own, values = phi[here, a, i], _values(model, X, names.names[k], k, feature_groups)
        without = -loss.gradients(rows.y, margin - phi[:, :, i], **about)
        curvature = own @ (without - residual)[here, a] / (weight[here] @ own**2 or np.nan)
        if not curvature > 0:
            continue
        errors = (importance.for_output(label) if label else importance).columns()["holds_std_error"]
        yield PartialResiduals(
            feature=names.names[k], output=label, std_error=float(errors[k]), contribution=own, weight=weight[here],
            residual=own + residual[here, a] / (weight[here] * curvature),
            cluster=cluster, values=None if values is None else values[here],
        )  # fmt: skip


def _output(importance: Any, k: int, output: Any) -> tuple[int, str]:
    """Number and label of the output that is asked for, or of the one where the feature's score is largest."""
    if importance.outputs is None:
        return 0, ""
    scores = importance.outputs.score[k]
    labels = importance.output_names or tuple(map(str, range(len(scores))))
    label = labels[scores.argmax()] if output is None else importance.for_output(output).output_names[0]
    return labels.index(label), label


def _values(model: Model, X: Any, name: str, k: int, feature_groups: GroupSpec | None) -> NDArray[Any] | None:
    """A feature's values: floats, or text with "" for a gap; None for what is not a column of X, such as a group."""
    table = transform(model.transformers, X) if feature_groups == "encoded" else X
    names = names_of(table)
    if names is not None:
        place = {column.replace(" ", "_"): j for j, column in enumerate(names)}.get(name.replace(" ", "_"))
        column = None if place is None else values_of(collected(table)[:, place])
    elif isinstance(feature_groups, Mapping) or model.route is not None or k >= np.shape(table)[1]:
        column = None
    else:
        column = (table[:, [k]].toarray() if hasattr(table, "toarray") else np.asarray(table)[:, [k]])[:, 0]
    if column is None or column.dtype.kind in "biuf":
        return column if column is None else column.astype(np.float64)
    return np.array(["" if not isinstance(v, str) and str(v) in GAPS else str(v) for v in column.tolist()])
