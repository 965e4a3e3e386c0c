"""Importance: scores with their standard errors, best first."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError, TreeInnerError, UnknownParameterError, did_you_mean
from treeinner.inference import Inference
from treeinner.scores import display, saved
from treeinner.scores.parts import FoldSpread, Losses, ranks_of
from treeinner.tables.frames import make_frame

__all__ = ["Q_LIMIT", "VERDICTS", "FeatureScore", "Importance", "ranks_of"]

FloatArray = NDArray[np.float64]

Q_LIMIT = 0.05  # a q value below it is a verdict
VERDICTS = ("signal", "not told apart from noise", "harmful")
NO_OUTPUT_GAINS = "The scores of one output have no gains; use `gains` of the whole importance, over all outputs."

TITLES = {
    "tree_inner": "TreeInner",
    "loss": "Loss",
    "forest_inner": "ForestInner",
    "abs": "Mean",
    "total_gain": "Total gain",
    "permutation": "Permutation importance",
}
UNITS = {
    "tree_inner": "first-order reduction of the loss per row",
    "loss": "reduction of the loss per row",
    "forest_inner": "attribution times residual, per row",
    "abs": "margin",
    "total_gain": "gain, summed over the training rows",
    "permutation": "rise of the loss per row",
}
METHOD_TITLES = {
    "centred": "centred",
    "predecomp": "PreDecomp",
    "saabas": "Saabas",
    "treeshap": "TreeSHAP",
    "callable": "own attribution",
}


@dataclass(frozen=True)
class FeatureScore:
    """One row of the table: `imp["bmi"]`."""

    feature: str
    score: float
    std_error: float
    ci_low: float
    ci_high: float
    p_value: float
    q_value: float
    verdict: str
    rank: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Importance:
    """Score of every feature: per row (per unit of weight), and in units of the loss, learning rate included.

    A negative score says that on these rows the feature's splits made the predictions worse; it is never clipped.
    The statistics hold for this fitted model and for rows that played no part in its training, early stopping and
    tuning included. Score, standard error, interval, p and q value, verdict and rank are all of one quantity.
    """

    score_name: str  #: "tree_inner", "loss", "forest_inner", "abs", "total_gain" or "permutation"
    method: str  #: which attribution
    feature_names: tuple[str, ...]  #: features, or groups of them
    statistics: Inference  #: score, standard error, interval, z, p and q value as arrays, per row
    outputs: Inference | None = None  #: the same for each output, (features, outputs); None if there is one
    output_names: tuple[str, ...] | None = None  #: classes or targets
    n_rows: int  #: rows that were scored
    sum_of_weights: float  #: of the rows; their number without weights
    tested: bool  #: whether p values answer a question: is the score above 0 on new rows?
    has_std_errors: bool  #: False: `importance` was called with std_errors=False, or the score has none
    rounds: FloatArray | None = None  #: (rounds, features), per row; see `by_round`
    notes: tuple[str, ...] = ()  #: what was assumed, and what does not hold for these numbers
    frame_library: str = ""  #: what X was a frame of, and `to_frame` makes
    losses: Losses | None = None  #: the loss itself; None where it is not known
    folds: FoldSpread | None = None  #: of `cross_importance`: how the folds differ
    gain_source: FloatArray | Callable[[], FloatArray] | str | None = None  #: see `gains`

    # -- columns -------------------------------------------------------------------------------------------------
    @property
    def scores(self) -> FloatArray:
        """Score per row (per unit of weight): (features,)."""
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
    def z(self) -> FloatArray:
        """Score over its standard error."""
        return self._known(self.statistics.z)

    @property
    def p_values(self) -> FloatArray:
        """One-sided p value of H0: on new rows the feature does not help; NaN for scores that test nothing.

        Centred scores are tested by sign flips of the rows' shares: "on new rows, sending a row left rather than right
        at this feature's splits does not go with its gradient, in this model". Others by Student's t of score over
        standard error.
        """
        return self._tested(self.statistics.p_value)

    @property
    def q_values(self) -> FloatArray:
        """Benjamini-Hochberg q value over all features."""
        return self._tested(self.statistics.q_value)

    @property
    def verdicts(self) -> tuple[str, ...]:
        """One of `VERDICTS` for every feature, by the q values of either side; "" where nothing was tested."""
        if not (self.tested and self.has_std_errors):
            return ("",) * len(self.scores)
        signal, noise, harmful = VERDICTS
        sides = zip(self.statistics.q_value, self.statistics.harm_q_value, strict=True)
        return tuple(signal if q < Q_LIMIT else harmful if harm_q < Q_LIMIT else noise for q, harm_q in sides)

    @property
    def order(self) -> NDArray[np.intp]:
        """Features from best to worst."""
        return np.argsort(-self.scores, kind="stable")

    @property
    def ranks(self) -> NDArray[np.intp]:
        """Rank of every feature; 1 is the best."""
        return ranks_of(self.scores)

    @property
    def gains(self) -> FloatArray:
        """The paper's TreeInner: a sum over rows, every tree divided by its learning rate: (features,).

        On the training rows and with PreDecomp it is the total gain. It needs the learning rates, and asks for them
        where the model does not store them.
        """
        source = self.gain_source
        if source is None:
            raise ValueError(f"score={self.score_name!r} has no gains; they belong to 'tree_inner' and 'total_gain'.")
        if isinstance(source, str):
            raise UnknownParameterError(source)
        return source() if callable(source) else source

    @property
    def base(self) -> float:
        """What the root values of the trees did to the loss, per row: with the scores it adds up to the whole fall."""
        if self.losses is None or math.isnan(self.losses.base):
            raise ValueError(f"score={self.score_name!r} has no base; it belongs to score='loss'.")
        return self.losses.base

    @property
    def explained(self) -> float:
        """Share of the loss that the model took off: R-squared for squared errors, else of the deviance.

        Counted from the loss before the first tree, on these rows; NaN where the loss is not known or has no bound.
        """
        if self.losses is None or not self.losses.before > self.losses.least:
            return math.nan
        return (self.losses.before - self.losses.after) / (self.losses.before - self.losses.least)

    @property
    def shares(self) -> FloatArray:
        """Share of every feature in `explained`, for score="loss": (features,). With that of the base they add up."""
        if self.score_name != "loss":
            raise ValueError(f"score={self.score_name!r} has no shares: only those of score='loss' add up to a whole.")
        assert self.losses is not None
        return self.scores / (self.losses.before - self.losses.least)

    @property
    def overshoot(self) -> float:
        """1 - (fall of the loss) / (its first-order approximation), on these rows; NaN where the loss is not known.

        It is near 0 for small steps. Above 0.3 the first-order scores of TreeInner flatter: see score="loss".
        """
        if self.losses is None or self.losses.first_order == 0.0:
            return math.nan
        return 1.0 - (self.losses.before - self.losses.after) / self.losses.first_order

    @property
    def title(self) -> str:
        """What the scores are called: "TreeInner(PreDecomp)"."""
        name = TITLES[self.score_name]
        if self.score_name in ("total_gain", "permutation"):
            return name
        method = METHOD_TITLES.get(self.method, self.method)
        return f"{name} |{method}|" if self.score_name == "abs" else f"{name}({method})"

    @property
    def unit(self) -> str:
        """Unit of the scores in words."""
        return UNITS[self.score_name]

    @property
    def confidence(self) -> float:
        """Coverage of the intervals."""
        return self.statistics.confidence

    def _known(self, array: FloatArray) -> FloatArray:
        return array if self.has_std_errors else np.full(len(self.scores), np.nan)

    def _tested(self, array: FloatArray) -> FloatArray:
        return self._known(array) if self.tested else np.full(len(self.scores), np.nan)

    # -- parts ---------------------------------------------------------------------------------------------------
    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, feature: str | int) -> FeatureScore:
        """Return the numbers of one feature, by name or position."""
        k = self._position(feature)
        return FeatureScore(**{name: column[k].item() for name, column in self._columns().items()})

    def _position(self, feature: str | int) -> int:
        if isinstance(feature, str):
            if feature in self.feature_names:
                return self.feature_names.index(feature)
            best = f"; the best ones are {', '.join(self.top(5).feature_names)}."
            raise KeyError(f"{feature!r} is not a feature{did_you_mean(feature, self.feature_names, best)}")
        return _number(feature, len(self), "feature")

    def top(self, n: int = 10) -> Importance:
        """Return the n best features, best first, with their numbers as they are here."""
        k = self.order[: max(0, operator.index(n))]
        known = self.gain_source is not None and not isinstance(self.gain_source, str)
        return replace(
            self,
            feature_names=tuple(self.feature_names[i] for i in k),
            statistics=_taken(self.statistics, k),
            outputs=None if self.outputs is None else _taken(self.outputs, k),
            folds=None if self.folds is None else self.folds.taken(k),
            rounds=None if self.rounds is None else self.rounds[:, k],
            gain_source=(lambda: self.gains[k]) if known else self.gain_source,
        )

    def by_round(self) -> FloatArray:
        """Score of each boosting round, per row: (rounds, features). The rounds add up to the scores."""
        if self.folds is not None:
            raise ValueError("The models of the folds have rounds of their own; use by_round() of ti.importance.")
        if self.rounds is None:
            raise ValueError(
                f"Scores by round were not kept for score={self.score_name!r} with method={self.method!r}; they come "
                "with score='tree_inner' and 'loss': always with 'centred', 'predecomp' and 'saabas', else if "
                "by_round=True."
            )
        return self.rounds

    def for_output(self, output: int | str) -> Importance:
        """Scores of one class or target of a model with several."""
        if self.outputs is None:
            raise ValueError("The model has one output; its scores are the importance itself.")
        names = self.output_names or tuple(str(k) for k in range(self.outputs.score.shape[1]))
        if isinstance(output, str) and output not in names:
            raise ValueError(f"{output!r} is not an output; choose one of {', '.join(map(repr, names))}.")
        k = names.index(output) if isinstance(output, str) else _number(output, len(names), "output")
        return replace(
            self,
            statistics=_taken(self.outputs, (slice(None), k)),
            outputs=None,
            output_names=(names[k],),
            rounds=None,
            losses=None,
            folds=None,
            gain_source=None if self.gain_source is None else NO_OUTPUT_GAINS,
        )

    # -- tables and files ----------------------------------------------------------------------------------------
    def to_frame(self) -> Any:
        """Data frame in the library of X, best feature first."""
        order = self.order
        return make_frame({k: v[order] for k, v in self._columns().items()}, library=self.frame_library)

    def _columns(self) -> dict[str, NDArray[Any]]:
        """The table by columns, in the order of the features."""
        return {
            "feature": np.array(self.feature_names, np.str_),
            "score": self.scores,
            "std_error": self.std_errors,
            "ci_low": self.ci_low,
            "ci_high": self.ci_high,
            "p_value": self.p_values,
            "q_value": self.q_values,
            "verdict": np.array(self.verdicts, np.str_),
            "rank": self.ranks,
        }

    def save(self, path: str | Path) -> None:
        """Write to one file (docs/format.md); `ti.load` reads it."""
        saved.save(self, path, self._settled_gains())

    @classmethod
    def load(cls, path: str | Path) -> Importance:
        """Read what `save` wrote."""
        known = saved.load(cls, path)
        if known["score_name"] not in TITLES:
            raise ModelError(f"{path} is damaged: score_name is {known['score_name']!r}, which is no score.")
        return cls(**known)

    def _settled_gains(self) -> FloatArray | str | None:
        """Return the gains, or why there are none, as plain data."""
        try:
            return self.gain_source() if callable(self.gain_source) else self.gain_source
        except TreeInnerError as error:
            return str(error)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "gain_source": self._settled_gains()}

    # -- display -------------------------------------------------------------------------------------------------
    def __repr__(self) -> str:
        return display.as_text(self)

    def _repr_html_(self) -> str:
        """Table with bars and intervals, for notebooks."""
        return display.as_html(self, VERDICTS)


def _number(given: Any, n: int, what: str) -> int:
    """Number of one of n features or outputs; negative ones count from the end."""
    try:
        return range(n)[operator.index(given)]
    except IndexError:
        raise IndexError(f"There is no {what} {given}: {what}s are numbered 0 to {n - 1}.") from None
    except TypeError:
        raise TypeError(f"expected the name or the number of one {what}, got {given!r}.") from None


def _taken(part: Inference, index: Any) -> Inference:
    """Some features (or one output) of statistics."""
    return replace(part, **{name: v[index] for name, v in vars(part).items() if isinstance(v, np.ndarray)})
