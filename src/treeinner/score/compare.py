"""compare(): scores of one model on two sets of rows, side by side, and their difference."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import Note, TreeInnerWarning, warn
from treeinner.read import read_model
from treeinner.read.columns import GroupSpec
from treeinner.rows.frames import make_frame
from treeinner.score.importance import importance
from treeinner.score.infer import Statistics, tested, unknown
from treeinner.score.result import Importance

__all__ = ["Comparison", "compare"]

Float = NDArray[np.float64]
SIDE = ("X", "y", "sample_weight", "clusters", "base_margin", "qid")


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison:
    """Scores of a model on two sets of rows, and the gap: the first minus the second, per row.

    With training rows first and held-out rows second it is the optimism of the scores, feature by feature.
    """

    before: Importance
    after: Importance
    gap: Statistics  #: (features,)
    names: tuple[str, str]  #: of the two sides
    notes: tuple[Note, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Features, or groups of them."""
        return self.after.feature_names

    def columns(self) -> dict[str, NDArray[Any]]:
        """The table by columns, in the order of the features."""
        first, second = self.names
        return {
            "feature": np.array(self.feature_names, np.str_),
            first: self.before.scores,
            second: self.after.scores,
            "gap": self.gap.score,
            "std_error": self.gap.std_error,
            "p_value": self.gap.p_value,
            "q_value": self.gap.q_value,
            f"{second}_rank": self.after.ranks,
        }

    def to_frame(self) -> Any:
        """Data frame in the library of X, best feature of the second side first."""
        order = self.after.order
        return make_frame({k: v[order] for k, v in self.columns().items()}, library=self.after.frame_library)

    def __repr__(self) -> str:
        from treeinner.show.table import comparison_text

        return comparison_text(self)


def compare(
    model: Any,
    before: Any,
    after: Any,
    *,
    names: tuple[str, str] = ("train", "valid"),
    score: str = "tree_inner",
    method: str = "centred",
    feature_groups: GroupSpec | None = None,
    n_jobs: int | None = -1,
) -> Comparison:
    """Scores on two sets of rows, and their difference.

    Parameters
    ----------
    model : fitted model, path or Model
        As for `importance`.
    before, after : (X, y) or mapping
        The two sets: a pair, or a mapping with X, y and what comes with them (sample_weight, clusters, base_margin,
        qid). With the training rows first, the gap is the optimism of every feature's score.
    names : pair of str
        What the two sets are called.
    score, method, feature_groups, n_jobs
        As for `importance`.

    Warns
    -----
    TreeInnerWarning
        For what does not hold for the second set, training rows among them included.
    """
    opened = read_model(model)
    found = []
    for rows, name in zip((before, after), names, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TreeInnerWarning)  # given once, below
            asked: dict[str, Any] = {"score": score, "method": method, "feature_groups": feature_groups}
            found.append(importance(opened, **_side(rows, name), **asked, n_jobs=n_jobs))
    first, second = found
    for note in second.notes:
        warn(note)
    return Comparison(
        before=first, after=second, gap=difference(first.statistics, second.statistics), names=names, notes=second.notes
    )


def difference(a: Statistics, b: Statistics) -> Statistics:
    """Difference of the scores, a minus b, of two independent samples (Welch)."""
    score, var_a, var_b = a.score - b.score, a.std_error**2, b.std_error**2
    if not (np.isfinite(var_a).all() and np.isfinite(var_b).all()):
        return unknown(score)
    std_error = np.sqrt(var_a + var_b)
    weight = np.divide(var_a, var_a + var_b, out=np.zeros_like(var_a), where=std_error > 0)
    df = 1.0 / (weight**2 / np.maximum(a.df, 1.0) + (1.0 - weight) ** 2 / np.maximum(b.df, 1.0))
    return tested(score, std_error, df)


def _side(rows: Any, name: str) -> dict[str, Any]:
    """What `importance` takes of one set of rows."""
    if isinstance(rows, Mapping):
        unknown_names = [str(key) for key in rows if key not in SIDE]
        if unknown_names or "X" not in rows:
            raise TypeError(
                f"{name}: expected a mapping with X, y and perhaps {', '.join(SIDE[2:])}; got {list(rows)}."
            )
        return dict(rows)
    if not isinstance(rows, tuple | list) or len(rows) != 2:
        raise TypeError(f"{name}: expected a pair (X, y) or a mapping with X and y, got {type(rows).__name__}.")
    return {"X": rows[0], "y": rows[1]}
