"""Importance: scores with their standard errors, best first."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import Note, did_you_mean
from treeinner.rows.frames import make_frame
from treeinner.score.infer import ReadOnly, Statistics, check_level, t_quantile

__all__ = [
    "LEVEL", "BySegment", "FoldSpread", "Importance", "Losses", "plain", "position_of", "ranks_of",
]  # fmt: skip

Float = NDArray[np.float64]
LEVEL = 0.1  # a q value up to it is a verdict

WORDS = {  # what a score is called, and its unit
    "signal": ("Signal", "{loss} per row"),
    "tree_inner": ("TreeInner", "first-order reduction of {loss} per row"),
    "loss": ("Loss breakdown", "reduction of {loss} per row"),
    "forest_inner": ("ForestInner", "{loss} per row"),
    "mean_abs": ("Mean", "margin"),
    "total_gain": ("Total gain", "gain, summed over the training rows"),
    "permutation": ("Permutation importance", "rise of {loss} per row"),
}
METHOD_TITLES = {"centred": "centred", "predecomp": "PreDecomp", "saabas": "Saabas", "treeshap": "TreeSHAP"}


@dataclass(frozen=True, eq=False, kw_only=True)
class Losses(ReadOnly):
    """The held-out loss of the model, per row: where the boosting rounds began and where they ended."""

    before: float  #: at the margin before the first tree
    after: float  #: at the margin of the whole model
    least: float  #: of a perfect prediction, which shares of the deviance are counted from; NaN: not known
    first_order: float  #: sum over rounds of step times negative gradient
    base: float = math.nan  #: of score="loss": what the root values of the trees did
    base_rounds: Float | None = None  #: (rounds,) the same by round


@dataclass(frozen=True, eq=False)
class FoldSpread(ReadOnly):
    """Scores of the models of a cross-validation, each on the rows that it was not fitted on."""

    scores: Float  #: (folds, features), per row
    feature_names: tuple[str, ...] = ()  #: features, or groups of them

    @property
    def std(self) -> Float:
        """Standard deviation of the scores between folds: other models and other rows; (features,)."""
        return self.scores.std(axis=0, ddof=1) if len(self.scores) > 1 else np.full(self.scores.shape[1], np.nan)

    @property
    def ranks(self) -> NDArray[np.intp]:
        """Rank of every feature in every fold, 1 is the best: (folds, features)."""
        return ranks_of(self.scores)

    @property
    def rank_stability(self) -> float:
        """Mean rank correlation (Spearman) between two folds; NaN for one fold, or one feature.

        1: every fold orders the features alike. Features without a split tie at 0, so ranks are averaged over ties.
        """
        from scipy.stats import rankdata  # here, because its import takes longer than that of treeinner

        ranks = rankdata(self.scores, axis=1)
        ranks = ranks[np.ptp(ranks, axis=1) > 0]
        if len(ranks) < 2:
            return math.nan
        return float(np.corrcoef(ranks)[np.triu_indices(len(ranks), 1)].mean())

    def _repr_html_(self) -> str:
        from treeinner.show.table import of_folds

        return of_folds(self).html()


@dataclass(frozen=True, eq=False, kw_only=True)
class BySegment(ReadOnly):
    """Scores of every segment of the rows, by the node values of all rows: weighted, they add up to the whole."""

    labels: tuple[str, ...]  #: of the segments, in order
    rows: NDArray[np.intp]  #: of each segment, (segments,)
    weights: Float  #: sums of their weights, (segments,)
    statistics: Statistics  #: (segments, features), q values over all of them
    difference: Statistics  #: from the score of all other rows, likewise
    same: dict[str, Float]  #: are all segments the same? Cochran's Q, df, p and q value, (features,) each
    loss_before: Float | None = None  #: loss per row where boosting began, (segments,); None where it is not known
    loss_after: Float | None = None  #: at the margin of the whole model


@dataclass(frozen=True, eq=False, kw_only=True)
class Importance(ReadOnly):
    """Score of every feature: per row (per unit of weight), in units of the loss, learning rate included.

    A negative score says that on these rows the feature's splits made the predictions worse; it is never clipped. The
    statistics hold for this fitted model and for rows that played no part in its training, early stopping and tuning
    included. Score, standard error, interval, p and q value, verdict and rank are all of one quantity.
    """

    score: str  #: "signal", "tree_inner", "loss", "forest_inner", "mean_abs", "total_gain" or "permutation"
    method: str  #: which attribution
    feature_names: tuple[str, ...]  #: features, or groups of them
    statistics: Statistics  #: score, standard error, degrees of freedom, p and q value as arrays, (features,)
    outputs: Statistics | None = None  #: the same for each output, (features, outputs); None if there is one
    output_names: tuple[str, ...] | None = None  #: classes or targets
    has_errors: bool = True  #: whether standard errors and p values were worked out
    rounds: Float | None = None  #: (rounds, features), per row; see `by_round`
    #: (rounds,) learning rates that `gains` divides by, NaN where they are not known; or how to work them out
    rates: Float | Callable[[], Float] | None = field(default=None, repr=False)
    #: of centred scores: means of the leaf values over the scored rows, for `attribute(reference=imp)`: (nodes, width)
    node_values: Float | None = field(default=None, repr=False)
    model_digest: str = field(default="", repr=False)  #: of the model that was scored
    losses: Losses | None = None  #: the loss itself; None where it is not known
    by_segment: BySegment | None = None  #: of `by=`: the scores of every segment
    folds: FoldSpread | None = None  #: of `cross_importance`: how the folds differ
    n_rows: int  #: rows that were scored
    sum_of_weights: float  #: of the rows; their number without weights
    loss_name: str = "the loss"  #: in words: "half the squared error"
    frame_library: str = ""  #: what X was a frame of, and `to_frame` makes
    notes: tuple[Note, ...] = ()  #: what was assumed, and what does not hold for these numbers

    # -- columns -------------------------------------------------------------------------------------------------
    @property
    def scores(self) -> Float:
        """Score per row (per unit of weight): (features,)."""
        return self.statistics.score

    @property
    def std_errors(self) -> Float:
        """Standard error of the score: (features,); NaN if it was not asked for."""
        return self._known(self.statistics.std_error)

    @property
    def df(self) -> Float:
        """Degrees of freedom of Student's t: effective rows less one; (features,)."""
        return self._known(self.statistics.df)

    @property
    def p_values(self) -> Float:
        """Two-sided p value of H0: on new rows the score is 0; by Student's t, as the interval: (features,)."""
        return self._tested(self.statistics.p_value)

    @property
    def q_values(self) -> Float:
        """Benjamini-Hochberg q value over all features: (features,)."""
        return self._tested(self.statistics.q_value)

    def interval(self, level: float = 0.95) -> tuple[Float, Float]:
        """Lower and upper ends of the intervals that cover the true score in so many of 100 samples of rows."""
        low, high = self.statistics.interval(level)
        return self._known(low), self._known(high)

    @property
    def holds(self) -> Float | None:
        """Part of what the model learnt about a feature that is true on these rows: (features,); None of other scores.

        1: all of it; 0.4: overfitted, 40 % of it holds; 0: noise; below 0: harmful; above 1: the model is too timid. It
        is the factor by which the feature's contributions fit these rows best. NaN: the model does not use the feature.
        """
        return self.statistics.holds

    @property
    def holds_std_errors(self) -> Float | None:
        """Standard error of `holds`: (features,)."""
        return self.statistics.holds_std_error if self.has_errors else None

    def holds_interval(self, level: float = 0.95) -> tuple[Float, Float]:
        """Lower and upper ends of the intervals of `holds`, by Student's t as those of the scores."""
        if self.holds is None or self.holds_std_errors is None:
            raise ValueError("`holds` and its error come with score='signal' and std_errors=True.")
        check_level(level)
        half = t_quantile(0.5 + level / 2, np.maximum(self.df, 1.0)) * self.holds_std_errors
        return self.holds - half, self.holds + half

    @property
    def verdicts(self) -> tuple[str, ...]:
        """signal, unclear or harmful for every feature: q at most 0.1, and the sign; "" where nothing was tested."""
        if not self.tested:
            return ("",) * len(self.scores)
        found = np.where(self.scores > 0, "signal", "harmful")
        return tuple(np.where(self.statistics.q_value <= LEVEL, found, "unclear").tolist())

    @property
    def order(self) -> NDArray[np.intp]:
        """Features from best to worst."""
        return np.argsort(-self.scores, kind="stable")

    @property
    def ranks(self) -> NDArray[np.intp]:
        """Rank of every feature; 1 is the best."""
        return ranks_of(self.scores)

    @property
    def gains(self) -> Float | None:
        """The paper's TreeInner: a sum over rows, every tree divided by its learning rate: (features,).

        On the training rows and with PreDecomp it is the total gain. None: the learning rates are not known, in which
        case `read_model(model, learning_rate=...)` settles them, or it is another score.
        """
        rates = self.rates() if callable(self.rates) else self.rates
        if rates is None or np.isnan(rates).any():
            return None
        if self.rounds is not None:
            return np.asarray((self.rounds / rates[:, None]).sum(axis=0) * self.sum_of_weights)
        return self.scores * (self.sum_of_weights / rates[0]) if len(np.unique(rates)) == 1 else None

    @property
    def base(self) -> float:
        """What the root values of the trees did to the loss, per row: with the scores it adds up to the whole fall."""
        if self.losses is None or math.isnan(self.losses.base):
            raise ValueError(f"score={self.score!r} has no base; it belongs to score='loss'.")
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
    def shares(self) -> Float:
        """Share of every feature in `explained`, for score="loss": (features,). With that of the base they add up."""
        if self.score != "loss":
            raise ValueError(f"score={self.score!r} has no shares: only those of score='loss' add up to a whole.")
        assert self.losses is not None
        return self.scores / (self.losses.before - self.losses.least)

    @property
    def title(self) -> str:
        """What the scores are called: "TreeInner(PreDecomp)"."""
        name, method = WORDS[self.score][0], METHOD_TITLES.get(self.method, self.method)
        if self.score in ("signal", "total_gain", "permutation"):
            return name
        return f"{name} |{method}|" if self.score == "mean_abs" else f"{name}({method})"

    @property
    def unit(self) -> str:
        """Unit of the scores in words."""
        return WORDS[self.score][1].format(loss=self.loss_name)

    @property
    def tested(self) -> bool:
        """Whether p values answer a question: is the score 0 on new rows? A mean of absolute values never is."""
        return self.has_errors and self.score not in ("mean_abs", "total_gain")

    def _known(self, array: Float) -> Float:
        return array if self.has_errors else np.full(len(self.scores), np.nan)

    def _tested(self, array: Float) -> Float:
        return array if self.tested else np.full(len(self.scores), np.nan)

    # -- what numpy, pandas and scikit-learn expect ----------------------------------------------------------------
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Float:
        """The scores, in the order of the features."""
        return np.array(self.scores, dtype)

    def __contains__(self, feature: object) -> bool:
        return feature in self.feature_names

    def keys(self) -> tuple[str, ...]:
        """The features; with `values`, what pd.Series(imp) is made of."""
        return self.feature_names

    def values(self) -> Float:
        """The scores, in the order of the features."""
        return self.scores

    @property
    def importances_mean(self) -> Float:
        """The scores, as scikit-learn's permutation_importance calls them: (features,)."""
        return self.scores

    @property
    def importances_std(self) -> Float:
        """Standard errors of the scores, as scikit-learn's permutation_importance calls them: (features,)."""
        return self.std_errors

    # -- parts ---------------------------------------------------------------------------------------------------
    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, feature: str | int) -> SimpleNamespace:
        """Return the numbers of one feature, by name or position."""
        best = f"; the best ones are {', '.join(self.top(5).feature_names)}."
        k = position_of(feature, self.feature_names, "feature", best)
        return SimpleNamespace(**{name: column[k].item() for name, column in self.columns().items()})

    def top(self, n: int = 10) -> Importance:
        """Return the n best features, best first, with their numbers as they are here."""
        k = self.order[: max(0, operator.index(n))]
        names = tuple(self.feature_names[i] for i in k)
        return replace(
            self,
            feature_names=names,
            statistics=_taken(self.statistics, k),
            outputs=None if self.outputs is None else _taken(self.outputs, k),
            folds=None if self.folds is None else FoldSpread(self.folds.scores[:, k], names),
            by_segment=None if self.by_segment is None else _features_of(self.by_segment, k),
            rounds=None if self.rounds is None else self.rounds[:, k],
        )

    def by_round(self) -> Float:
        """Score of each boosting round, per row: (rounds, features); those of tree_inner and loss add up to the scores.

        Of score="signal" they are TreeInner's: what a feature's own earlier rounds take from it is not put back.
        """
        if self.folds is not None:
            raise ValueError("The models of the folds have rounds of their own; use by_round() of ti.importance.")
        if self.rounds is None:
            raise ValueError(
                "There are no scores by round here: ti.importance of one model has them, over all outputs, by every "
                "method but 'treeshap'."
            )
        return self.rounds

    def for_output(self, output: Any) -> Importance:
        """Scores of one class or target of a model with several, by its label; by position where labels are words."""
        if self.outputs is None:
            raise ValueError("The model has one output; its scores are the importance itself.")
        names = self.output_names or tuple(str(k) for k in range(self.outputs.score.shape[1]))
        k = position_of(output, names, "output", f"; choose one of {', '.join(map(repr, names))}.")
        return replace(
            self, statistics=_taken(self.outputs, (slice(None), k)), outputs=None, output_names=(names[k],),
            rounds=None, losses=None, folds=None, rates=None, by_segment=None,
        )  # fmt: skip

    # -- tables ---------------------------------------------------------------------------------------------------
    def columns(self) -> dict[str, NDArray[Any]]:
        """The table by columns, in the order of the features."""
        low, high = self.interval()
        nothing = np.full(len(self.scores), np.nan)
        return {
            "feature": np.array(self.feature_names, np.str_),
            "score": self.scores,
            "std_error": self.std_errors,
            "ci_low": low,
            "ci_high": high,
            "p_value": self.p_values,
            "q_value": self.q_values,
            "holds": nothing if self.holds is None else self.holds,
            "holds_std_error": nothing if self.holds_std_errors is None else self.holds_std_errors,
            "verdict": np.array(self.verdicts, np.str_),
            "rank": self.ranks,
        }

    def to_frame(self) -> Any:
        """Data frame in the library of X, best feature first."""
        order = self.order
        return make_frame({k: v[order] for k, v in self.columns().items()}, library=self.frame_library)

    @property
    def segments(self) -> Any:
        """Data frame of the scores of every segment and their differences from the other rows; None without `by=`."""
        by, order = self.by_segment, self.order
        if by is None:
            return None
        names, own, other = np.array(self.feature_names, np.str_), by.statistics, by.difference
        table = {
            "segment": np.repeat(np.array(by.labels, np.str_), len(names)),
            "feature": np.tile(names[order], len(by.labels)),
            "score": own.score,
            "std_error": own.std_error,
            "q_value": own.q_value,
            "holds": np.full(own.score.shape, np.nan) if own.holds is None else own.holds,
            "difference": other.score,
            "difference_std_error": other.std_error,
            "difference_q_value": other.q_value,
        }
        columns = {name: each if each.ndim == 1 else each[:, order].ravel() for name, each in table.items()}
        return make_frame(columns, library=self.frame_library)

    @property
    def segment_test(self) -> Any:
        """Data frame of the test that a feature has the same score in all segments; None without `by=`."""
        if self.by_segment is None:
            return None
        order = np.argsort(self.by_segment.same["p_value"], kind="stable")
        table = {"feature": np.array(self.feature_names, np.str_), **self.by_segment.same}
        return make_frame({name: each[order] for name, each in table.items()}, library=self.frame_library)

    def to_json(self) -> str:
        """The table and what it is of, as JSON."""
        table = {name: [plain(each) for each in column.tolist()] for name, column in self.columns().items()}
        about = {"score": self.score, "method": self.method, "unit": self.unit, "n_rows": self.n_rows}
        return json.dumps(about | {"notes": [note.text for note in self.notes], "features": table})

    def to_dict(self) -> dict[str, float]:
        """Name -> score, best feature first."""
        return {self.feature_names[k]: float(self.scores[k]) for k in self.order}

    def plot(self, **options: Any) -> Any:
        """Bars with intervals: `ti.plots.bar(imp)`."""
        from treeinner.show.plots import bar  # here: matplotlib is an extra

        return bar(self, **options)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, with the learning rates worked out."""
        rates = self.rates() if callable(self.rates) else self.rates
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"rates": rates}

    def __repr__(self) -> str:
        from treeinner.show.table import importance_text

        return importance_text(self)

    def _repr_html_(self) -> str:
        from treeinner.show.table import of_importance

        return of_importance(self).html()


def ranks_of(scores: Float) -> NDArray[np.intp]:
    """Rank of every score, along the last axis; 1 is the best."""
    return np.argsort(np.argsort(-scores, kind="stable")) + 1


def plain(value: Any) -> Any:
    """A value as JSON can hold it: no infinities, no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def position_of(given: Any, names: Sequence[str], what: str, otherwise: str = ".") -> int:
    """Position of one of these features or outputs by its name; by number only where no name is a number."""
    if str(given) in names:
        return names.index(str(given))
    if isinstance(given, str) or any(name.lstrip("-").isdigit() for name in names):
        raise KeyError(f"there is no {what} {given!r}{did_you_mean(given, names, otherwise)}")
    try:
        return range(len(names))[operator.index(given)]
    except IndexError:
        raise IndexError(f"There is no {what} {given}: {what}s are numbered 0 to {len(names) - 1}.") from None
    except TypeError:
        raise TypeError(f"expected the name or the number of one {what}, got {given!r}.") from None


def _features_of(by: BySegment, k: NDArray[np.intp]) -> BySegment:
    """Some features of every segment."""
    both: dict[str, Any] = {name: _taken(getattr(by, name), (slice(None), k)) for name in ("statistics", "difference")}
    return replace(by, **both, same={name: each[k] for name, each in by.same.items()})


def _taken(part: Statistics, index: Any) -> Statistics:
    """Some features (or one output) of statistics."""
    taken: dict[str, Any] = {name: None if array is None else array[index] for name, array in vars(part).items()}
    return Statistics(**taken)
