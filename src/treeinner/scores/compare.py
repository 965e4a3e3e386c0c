"""compare(): every score on the training rows and on held-out rows, side by side, and the optimism gap."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import inference, tables
from treeinner.errors import TreeInnerError
from treeinner.scores.importance import importance
from treeinner.scores.result import Importance

__all__ = ["Comparison", "are_training_rows", "compare"]

FloatArray = NDArray[np.float64]

# name -> what importance() is asked for
COMPARED: dict[str, dict[str, Any]] = {
    "tree_inner": {"score": "tree_inner"},
    "tree_inner_treeshap": {"score": "tree_inner", "method": "treeshap"},
    "forest_inner": {"score": "forest_inner"},
    "abs_treeshap": {"score": "abs", "method": "treeshap", "level": "forest"},
    "permutation": {"score": "permutation", "n_repeats": 1, "random_state": 0},
}

# Relative to the largest gain: rounding of XGBoost's float32 gains is far below, other rows are far above.
SAME_ROWS = 1e-4


PERMUTATION_TAKES = (
    "objective", "groups", "iteration_range", "n_jobs", "confidence", "sample_weight", "clusters", "base_margin",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of the two sides, and the optimism gap: TreeInner(PreDecomp) per row, training minus held-out."""

    train: dict[str, Importance]  #: name of a score -> Importance on the training rows
    valid: dict[str, Importance]  #: the same on held-out rows
    left_out: dict[str, str]  #: score -> why this model does not have it
    total_gain: FloatArray | None  #: as the model stores it: (features,)
    gap: inference.Inference  #: per row
    feature_names: tuple[str, ...]  #: features, or groups of them
    frame_library: str  #: what X was a frame of, and `to_frame` makes

    def to_frame(self) -> Any:
        """Data frame, best held-out feature first: per-row scores and ranks of both sides, the gap and its error."""
        order = self.valid["tree_inner"].order
        columns: dict[str, Any] = {"feature": np.array(self.feature_names, object)}
        if self.total_gain is not None:
            columns["total_gain"] = self.total_gain
            columns["total_gain_rank"] = _ranks(self.total_gain)
        for name in self.valid:
            for side, scores in (("train", self.train[name]), ("valid", self.valid[name])):
                columns[f"{name}_{side}"] = scores.per_row
                columns[f"{name}_{side}_rank"] = scores.ranks
        columns["valid_std_error"] = self.valid["tree_inner"].std_errors / self.valid["tree_inner"].sum_of_weights
        columns["valid_q_value"] = self.valid["tree_inner"].q_values
        columns["gap"], columns["gap_std_error"] = self.gap.score, self.gap.std_error
        return tables.make_frame({k: list(v[order]) for k, v in columns.items()}, library=self.frame_library)

    def __repr__(self) -> str:
        valid = self.valid["tree_inner"]
        width = max([7, *(len(name) for name in self.feature_names)])
        head = f"{'feature':<{width}} {'train / row':>12} {'valid / row':>12} {'gap':>12} {'std error':>11}"
        lines = ["TreeInner(PreDecomp), training against held-out rows", head]
        for k in valid.order[:20]:
            numbers = (self.train["tree_inner"].per_row[k], valid.per_row[k], self.gap.score[k])
            text = " ".join(f"{number:12.4g}" for number in numbers)
            lines.append(f"{self.feature_names[k]:<{width}} {text} {self.gap.std_error[k]:11.2g}")
        return "\n".join(lines)


def compare(
    model: Any,
    X_train: Any,
    y_train: Any,
    X_valid: Any,
    y_valid: Any,
    *,
    sample_weight_train: Any = None,
    sample_weight_valid: Any = None,
    clusters_train: Any = None,
    clusters_valid: Any = None,
    base_margin_train: Any = None,
    base_margin_valid: Any = None,
    group_train: Any = None,
    group_valid: Any = None,
    **options: Any,
) -> Comparison:
    """Every score on training and held-out rows.

    Parameters
    ----------
    model : fitted model, path or Ensemble
        As for `importance`.
    X_train, y_train, X_valid, y_valid
        The rows the model was fitted to, and rows that it has not seen.
    sample_weight_train, clusters_train, base_margin_train, group_train, and the same with _valid : array, optional
        What comes with the rows of each side, as for `importance`.
    **options
        Passed on to `importance`: objective, learning_rate, groups, iteration_range, n_jobs, ...

    Warns
    -----
    UserWarning
        If the held-out rows are the training rows: on them TreeInner equals the total gain that the model stores,
        or the two sides are equal to the last bit.
    """
    sides = (
        (X_train, y_train, _given(sample_weight_train, clusters_train, base_margin_train, group_train)),
        (X_valid, y_valid, _given(sample_weight_valid, clusters_valid, base_margin_valid, group_valid)),
    )
    train: dict[str, Importance] = {}
    valid: dict[str, Importance] = {}
    left_out: dict[str, str] = {}
    for name, asked in COMPARED.items():
        try:
            scores = [importance(model, X, y, **_fitting(asked, {**options, **extra})) for X, y, extra in sides]
        except TreeInnerError as error:
            if name == "tree_inner":
                raise
            left_out[name] = str(error)
            continue
        train[name], valid[name] = scores
    a, b = train["tree_inner"], valid["tree_inner"]
    kept = {k: v for k, v in options.items() if k in ("groups", "iteration_range")}
    try:
        gain: FloatArray | None = importance(model, score="total_gain", **kept).scores
    except TreeInnerError:
        gain = None
    why = _why_same_rows(a, b, gain)
    if why:
        warnings.warn(
            f"The held-out rows are the rows this model was trained on: {why}. Pass rows that the model has not seen.",
            UserWarning,
            stacklevel=2,
        )
    gap = inference.difference(_per_weight(a), _per_weight(b), confidence=b.statistics.confidence)
    return Comparison(train, valid, left_out, gain, gap, b.feature_names, b.frame_library)


def _given(sample_weight: Any, clusters: Any, base_margin: Any, group: Any) -> dict[str, Any]:
    extra = {"sample_weight": sample_weight, "clusters": clusters, "base_margin": base_margin, "group": group}
    return {name: array for name, array in extra.items() if array is not None}


def _why_same_rows(train: Importance, valid: Importance, gain: FloatArray | None) -> str:
    """Say what gives the training rows away; "" if nothing does."""
    # Sums are exact, so the same rows in any order give the same bits, and other rows do not.
    if train.n_rows == valid.n_rows and np.array_equal(train.scores, valid.scores) and np.any(valid.scores != 0):
        return "TreeInner is the same on both sides to the last bit"
    off = distance_to_gain(valid, gain)
    return f"TreeInner on them equals the total gain that the model stores (to {off:.0e})" if off < SAME_ROWS else ""


def distance_to_gain(scores: Importance, gain: FloatArray | None) -> float:
    """How far TreeInner is from the stored total gain, relative to the largest; infinite if none is stored."""
    if gain is None or not gain.max(initial=0.0) > 0:
        return float("inf")
    return float(np.abs(scores.scores - gain).max() / gain.max())


def are_training_rows(scores: Importance, gain: FloatArray | None) -> bool:
    """Whether the rows are those the model was trained on: on them alone TreeInner is the stored total gain."""
    return distance_to_gain(scores, gain) < SAME_ROWS


def _per_weight(side: Importance) -> inference.Inference:
    """Scale the statistics so that a mean per unit is a mean per unit of weight, as `Importance.per_row` is."""
    s = side.statistics
    factor = s.n_units / side.sum_of_weights
    return replace(s, score=s.score * factor, std_error=s.std_error * factor)


def _fitting(asked: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Join the options; permutation takes fewer."""
    if asked["score"] == "permutation":
        options = {k: v for k, v in options.items() if k in PERMUTATION_TAKES}
    return {**options, **asked}


def _ranks(scores: FloatArray) -> NDArray[np.intp]:
    ranks = np.empty(len(scores), np.intp)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks
