"""compare(): every score on the training rows and on held-out rows, side by side, and the optimism gap."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import inference
from treeinner.errors import TreeInnerError, TreeInnerWarning, short, speak
from treeinner.groups import GroupSpec
from treeinner.model import open_model
from treeinner.options import ReadOptions
from treeinner.scores.gain import total_gain
from treeinner.scores.importance import importance
from treeinner.scores.permutation import permutation_importance
from treeinner.scores.result import Importance, ranks_of
from treeinner.scores.training_rows import TrainingRows, find_training_rows
from treeinner.stream import in_memory
from treeinner.tables.frames import make_frame

__all__ = ["Comparison", "compare"]

FloatArray = NDArray[np.float64]

NOT_TAKEN = {"abs_treeshap": ("y", "base_margin", "qid"), "permutation": ("qid",)}  # of the arguments of a side


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of the two sides, and the optimism gap: TreeInner per row, training minus held-out."""

    train: dict[str, Importance]  #: name of a score -> Importance on the training rows
    valid: dict[str, Importance]  #: the same on held-out rows
    skipped: dict[str, str]  #: score -> why this model does not have it
    total_gain: FloatArray | None  #: as the model stores it: (features,)
    gap: inference.Inference  #: per row
    feature_names: tuple[str, ...]  #: features, or groups of them
    frame_library: str  #: what X was a frame of, and `to_frame` makes
    notes: tuple[str, ...] = ()  #: what was assumed, and what does not hold for these numbers
    training_rows: TrainingRows | None = None  #: training rows that were found among the held-out rows

    def to_frame(self) -> Any:
        """Data frame, best held-out feature first: scores and ranks of both sides, the gap and its error."""
        order = self.valid["tree_inner"].order
        columns: dict[str, Any] = {"feature": np.array(self.feature_names, object)}
        if self.total_gain is not None:
            columns["total_gain"] = self.total_gain
            columns["total_gain_rank"] = ranks_of(self.total_gain)
        for name in self.valid:
            for side, scores in (("train", self.train[name]), ("valid", self.valid[name])):
                columns[f"{name}_{side}"] = scores.scores
                columns[f"{name}_{side}_rank"] = scores.ranks
        columns["valid_std_error"] = self.valid["tree_inner"].std_errors
        columns["valid_q_value"] = self.valid["tree_inner"].q_values
        columns["gap"], columns["gap_std_error"] = self.gap.score, self.gap.std_error
        return make_frame({k: list(v[order]) for k, v in columns.items()}, library=self.frame_library)

    def __repr__(self) -> str:
        train, valid = self.train["tree_inner"], self.valid["tree_inner"]
        width = max([7, *(len(name) for name in self.feature_names)])
        rows = "held-out rows" if self.training_rows is None else self.training_rows.rows
        lines = [
            f"{valid.title}, training rows against {rows}: {valid.unit}",
            f"{'feature':<{width}} {'train':>12} {'valid':>12} {'gap':>12} {'std error':>11}",
        ]
        for k in valid.order[:20]:
            text = " ".join(f"{short(number):>12}" for number in (train.scores[k], valid.scores[k], self.gap.score[k]))
            lines.append(f"{self.feature_names[k]:<{width}} {text} {short(self.gap.std_error[k], 2):>11}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def compare(
    model: Any,
    X_train: Any,
    y_train: Any,
    X_valid: Any,
    y_valid: Any,
    *,
    method: str = "centred",
    sample_weight_train: Any = None,
    sample_weight_valid: Any = None,
    clusters_train: Any = None,
    clusters_valid: Any = None,
    base_margin_train: Any = None,
    base_margin_valid: Any = None,
    qid_train: Any = None,
    qid_valid: Any = None,
    feature_groups: GroupSpec | None = None,
    confidence: float = 0.95,
    n_jobs: int | None = -1,
    **reading: Any,
) -> Comparison:
    """Every score on training and held-out rows.

    Parameters
    ----------
    model : fitted model, path or Model
        As for `importance`.
    X_train, y_train, X_valid, y_valid
        The rows the model was fitted to, and rows that it has not seen.
    method : {"centred", "predecomp", "saabas", "treeshap"}
        The attribution of the scores called tree_inner, loss and forest_inner; the last one is never centred, and has
        PreDecomp in its place.
    sample_weight_train, clusters_train, base_margin_train, qid_train, and the same with _valid : array, optional
        What comes with the rows of each side, as for `importance`.
    feature_groups, confidence, n_jobs, **reading
        As for `importance`.

    Warns
    -----
    TreeInnerWarning
        If training rows are among the held-out rows, in any order and container (`Comparison.training_rows`), and for
        every other note on the scores called tree_inner.
    """
    opened = open_model(model, ReadOptions.of(reading, caller=compare))
    shared: dict[str, Any] = {"feature_groups": feature_groups, "confidence": confidence, "n_jobs": n_jobs}
    sides: tuple[dict[str, Any], dict[str, Any]] = (
        {"X": X_train, "y": y_train, "sample_weight": sample_weight_train, "clusters": clusters_train,
         "base_margin": base_margin_train, "qid": qid_train},
        {"X": X_valid, "y": y_valid, "sample_weight": sample_weight_valid, "clusters": clusters_valid,
         "base_margin": base_margin_valid, "qid": qid_valid},
    )  # fmt: skip
    for side in sides:
        X = side.pop("X")
        table, values = in_memory(opened, X, **side)
        side.update(values, X=table)
    scorers: dict[str, Callable[..., Importance]] = {
        "tree_inner": partial(importance, method=method),
        "loss": partial(importance, score="loss", method=method),
        "tree_inner_treeshap": partial(importance, method="treeshap"),
        "forest_inner": partial(importance, score="forest_inner", method=None if method == "centred" else method),
        "abs_treeshap": partial(importance, score="abs", method="treeshap", over="forest"),
        "permutation": partial(permutation_importance, n_repeats=1, random_state=0),
    }
    train: dict[str, Importance] = {}
    valid: dict[str, Importance] = {}
    skipped: dict[str, str] = {}
    for name, score in scorers.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TreeInnerWarning)  # said once, below
                train[name], valid[name] = (
                    score(opened, **{k: v for k, v in side.items() if k not in NOT_TAKEN.get(name, ())}, **shared)
                    for side in sides
                )
        except TreeInnerError as error:
            if name == "tree_inner":
                raise
            skipped[name] = str(error)
            train.pop(name, None)
    a, b = train["tree_inner"], valid["tree_inner"]
    try:
        gain: FloatArray | None = total_gain(opened, feature_groups=feature_groups).scores
    except TreeInnerError:
        gain = None
    search = find_training_rows(opened, sides[1], (sides[0]["X"], sides[0]["y"]), n_jobs=n_jobs)
    for note in search.aloud(b.notes):
        if note not in opened.notes:
            speak(note)
    gap = inference.difference(a.statistics, b.statistics, confidence=confidence)
    return Comparison(
        train, valid, skipped, gain, gap, b.feature_names, b.frame_library, search.notes(b.notes), search.found
    )
