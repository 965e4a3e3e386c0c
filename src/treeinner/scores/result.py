"""Importance: scores with their standard errors, best first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import tables
from treeinner.inference import Inference

__all__ = ["Importance"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Importance:
    """Score of every feature: a sum over the rows, so that on the training rows TreeInner is the total gain.

    A negative score says that on these rows the feature's splits made the predictions worse; it is never clipped.
    The statistics hold for this fitted model and for rows that played no part in its training, early stopping and
    tuning included. z, p and q values of TreeInner by path belong to the centred score, `test_scores`; score, standard
    error and interval to the score itself (docs/theory.md, section 6).
    """

    score: str  #: which score, as `importance` was asked
    method: str  #: which attribution
    feature_names: tuple[str, ...]  #: features, or groups of them
    statistics: Inference  #: score, standard error, interval, z, p and q value as arrays
    outputs: Inference | None  #: per output, (features, outputs); None if there is one
    output_names: tuple[str, ...] | None  #: classes or targets
    n_rows: int  #: rows that were scored
    sum_of_weights: float  #: of the rows; their number without weights
    tested: bool  #: whether z and p values answer a question: is the score above 0 on new rows?
    has_std_errors: bool  #: False: `importance` was called with std_errors=False, or the score has none
    rounds: FloatArray | None = None  #: (rounds, features)
    frame_library: str = ""  #: what X was a frame of, and `to_frame` makes

    @property
    def scores(self) -> FloatArray:
        """Sum over the rows: (features,)."""
        return self.statistics.score

    @property
    def std_errors(self) -> FloatArray:
        """Standard error of the score: (features,); NaN if it was not asked for."""
        return self._known(self.statistics.std_error)

    @property
    def ci_low(self) -> FloatArray:
        """Lower end of the interval."""
        return self._known(self.statistics.ci_low)

    @property
    def ci_high(self) -> FloatArray:
        """Upper end of the interval."""
        return self._known(self.statistics.ci_high)

    @property
    def test_scores(self) -> FloatArray:
        """What z and the p value are of: TreeInner by path centred, other scores as they are (`Inference`)."""
        return self._known(self.statistics.test_score)

    @property
    def z(self) -> FloatArray:
        """Tested score over the standard error; for TreeInner by path that is not score / std_error."""
        return self._known(self.statistics.z)

    @property
    def p_values(self) -> FloatArray:
        """One-sided p value of H0: on new rows the feature does not help; NaN for scores that test nothing.

        For TreeInner by path, "help" is the centred score above 0: the steps of the feature's splits and the negative
        gradients of the rows in the node go together. A feature unrelated to the target passes only by chance.
        """
        return self._known(self.statistics.p_value) if self.tested else np.full(len(self.scores), np.nan)

    @property
    def q_values(self) -> FloatArray:
        """Benjamini-Hochberg q value over all features."""
        return self._known(self.statistics.q_value) if self.tested else np.full(len(self.scores), np.nan)

    @property
    def per_row(self) -> FloatArray:
        """Score per row (per unit of weight): gain per row for TreeInner, mean `|attribution|` for abs."""
        return self.scores / self.sum_of_weights

    @property
    def order(self) -> NDArray[np.intp]:
        """Features from best to worst."""
        return np.argsort(-self.scores, kind="stable")

    @property
    def ranks(self) -> NDArray[np.intp]:
        """Rank of every feature; 1 is the best."""
        ranks = np.empty(len(self.scores), np.intp)
        ranks[self.order] = np.arange(1, len(self.scores) + 1)
        return ranks

    def _known(self, array: FloatArray) -> FloatArray:
        return array if self.has_std_errors else np.full(len(self.scores), np.nan)

    def by_round(self) -> FloatArray:
        """Score of each boosting round: (rounds, features). Its cumulative sum shows where a feature starts to hurt."""
        if self.rounds is None:
            raise ValueError(
                f"The scores by round were not kept for score={self.score!r} with method={self.method!r}; "
                "they come with score='tree_inner' by path, and with importance(..., by_round=True) for other methods."
            )
        return self.rounds

    def for_output(self, output: int | str) -> Importance:
        """Scores of one class or target of a model with several."""
        if self.outputs is None:
            raise ValueError("The model has one output; its scores are the importance itself.")
        names = self.output_names or tuple(str(k) for k in range(self.outputs.score.shape[1]))
        if isinstance(output, str) and output not in names:
            raise ValueError(f"{output!r} is not an output; choose one of {', '.join(map(repr, names))}.")
        k = names.index(output) if isinstance(output, str) else range(len(names))[output]
        o = self.outputs
        one = replace(
            o,
            **{
                name: getattr(o, name)[:, k]
                for name in ("score", "std_error", "ci_low", "ci_high", "z", "p_value", "q_value", "test_score", "df")
            },
        )
        return replace(self, statistics=one, outputs=None, output_names=(names[k],), rounds=None)

    def to_frame(self) -> Any:
        """Data frame in the library of X, best feature first."""
        order = self.order
        columns = {
            "score": self.scores,
            "std_error": self.std_errors,
            "ci_low": self.ci_low,
            "ci_high": self.ci_high,
            "z": self.z,
            "p_value": self.p_values,
            "q_value": self.q_values,
        }
        named = {"feature": [self.feature_names[k] for k in order]}
        return tables.make_frame({**named, **{k: v[order] for k, v in columns.items()}}, library=self.frame_library)

    def __repr__(self) -> str:
        title = f"{self.score}({self.method}) on {self.n_rows} rows"
        width = max([7, *(len(name) for name in self.feature_names)])
        lines = [title, f"{'feature':<{width}} {'score':>12} {'std error':>12} {'p value':>9} {'q value':>9}"]
        for k in self.order[:20]:
            sizes = f"{self.scores[k]:12.5g} {self.std_errors[k]:12.3g}"
            lines.append(f"{self.feature_names[k]:<{width}} {sizes} {self.p_values[k]:9.3g} {self.q_values[k]:9.3g}")
        if len(self.scores) > 20:
            lines.append(f"... and {len(self.scores) - 20} more")
        return "\n".join(lines)
