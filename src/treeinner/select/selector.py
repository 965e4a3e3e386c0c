"""TreeInnerSelector: the features to keep, with the share of wrong ones among them under control."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state, get_tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from treeinner.errors import DataError, Note, UnsupportedModelError, warn
from treeinner.read.columns import grouped
from treeinner.rows.frames import as_frame, collected, make_frame
from treeinner.rows.rows import check_order
from treeinner.rows.table import refuse_by_name
from treeinner.score.infer import benjamini_hochberg
from treeinner.select.collinear import collinear_sets, determined_sets
from treeinner.select.conditional import Conditional, conditional_test
from treeinner.select.cross import ASKED, SEED, CrossFit, cross_fit
from treeinner.select.cuts import keep, one_sided, ranking
from treeinner.select.default import default_booster, default_library, is_class_target
from treeinner.select.folds import checked_data, checked_table
from treeinner.select.samplers import Donors, read_columns

__all__ = ["TreeInnerSelector"]


class TreeInnerSelector(MetaEstimatorMixin, SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Keep the features that carry signal on rows the trees have not seen; at most a share q of them wrongly.

    Every row is held out once per repeat. The scores are those of the held-out rows, put together over all folds.

    Parameters
    ----------
    estimator : estimator, optional
        A regressor or classifier of trees of XGBoost, LightGBM, CatBoost or scikit-learn, or a Pipeline with one at its
        end. None: 100 shallow trees on samples of rows and columns, of XGBoost, LightGBM or scikit-learn, whichever is
        installed; a classifier if y holds classes.
    q : float or None
        The false discovery rate: the expected share of features kept wrongly among those that are kept. None: no
        error control; `threshold` and `max_features` decide alone.
    test : {"marginal", "conditional"}
        marginal: does the column carry signal, is its score above 0? Columns that tell the same share the credit, and
        proxies are found. conditional: does it add to what the other columns tell? It is drawn anew given the others,
        and must score better than that; of columns that say the same, none may add anything.
    adds : bool
        Work out what each column that test="marginal" keeps adds to the others, by the conditional test. It decides
        nothing; `to_frame` has it in columns of their own.
    cv : int, splitter or iterable
        Folds. Integers are shuffled folds, by class for classifiers, by group where there are groups.
    repeats : int
        How often all rows are held out once, each time in other folds.
    n_draws : int
        How often the conditional test draws each column anew.
    collinear : float, mapping or None
        The conditional test takes columns as one that determine each other: those whose rank correlation, without its
        sign, is at least this, and those with at least this multiple correlation that need each other for it. Or the
        columns to take as one, {name: columns}. None: each by itself.
    max_features : int or callable, optional
        Keep at most so many of what passes, those with the best scores; a function gets X.
    threshold : float, optional
        The least score to keep.
    random_state : int, RandomState or None
        Seed of folds, fits and draws; the result does not depend on n_jobs. None: a fixed one.
    n_jobs : int
        Folds in parallel; -1 for all cores.
    progress : bool or callable, optional
        True: a bar once it takes two seconds; or a function, called with (models done, models) while they are fitted,
        and again while the conditional test is made.

    Attributes
    ----------
    importance_ : Importance
        Cross-fitted scores with their errors; its `folds` have their spread and the stability of the ranks.
    feature_importances_ : array, one entry per column of X
        Its scores; 0 for columns that no model could use.
    pvalues_, qvalues_ : array, one entry per column of X
        One-sided p value of the test (is there signal?), of the marginal one if q is None, and Benjamini-Hochberg q
        value.
    ranking_ : array, one entry per column of X
        1 for every feature that is kept, as in RFE; the others from 2 on, by p value and then by score.
    support_ : array, one entry per column of X
        Which features are kept.
    groups_ : tuple of tuples
        Names of columns that the conditional test took as one: one of these, we cannot say which. It keeps or drops
        them together, unless `threshold` or `max_features` cuts between them.
    conditional_ : Conditional or None
        What the conditional test found, scores of the redrawn columns included.
    threshold_, max_features_ : float, int or None
        The least score and the number of features in use; -inf and None without one.
    estimator_ : estimator
        What was cloned and fitted in every fold; not itself fitted.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : array of str
        Their names, if X is a data frame with names of text.

    Examples
    --------
    >>> import numpy as np, treeinner as ti
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 8))
    >>> y = X[:, 0] + X[:, 1] ** 2 + rng.normal(size=300)
    >>> ti.TreeInnerSelector(random_state=0).fit(X, y).get_support(indices=True)
    array([0, 1])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "q": [Interval(numbers.Real, 0, 1, closed="neither"), None],
        "test": [StrOptions({"conditional", "marginal"})],
        "adds": ["boolean"],
        "repeats": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_draws": [Interval(numbers.Integral, 5, None, closed="left")],
        "collinear": [Interval(numbers.Real, 0, 1, closed="right"), Mapping, None],
        "max_features": [Interval(numbers.Integral, 0, None, closed="left"), callable, None],
        "threshold": [numbers.Real, None],
        "progress": ["boolean", callable, None],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        q: float | None = 0.1,
        test: str = "marginal",
        adds: bool = False,
        cv: Any = 5,
        repeats: int = 3,
        n_draws: int = 20,
        collinear: Any = 0.95,
        max_features: Any = None,
        threshold: Any = None,
        random_state: Any = None,
        n_jobs: int | None = -1,
        progress: Any = None,
    ) -> None:
        self.estimator = estimator
        self.q = q
        self.test = test
        self.adds = adds
        self.cv = cv
        self.repeats = repeats
        self.n_draws = n_draws
        self.collinear = collinear
        self.max_features = max_features
        self.threshold = threshold
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(
        self, X: Any, y: Any, *, sample_weight: Any = None, groups: Any = None, **fit_params: Any
    ) -> TreeInnerSelector:
        """Find the features to keep.

        Parameters
        ----------
        X : table
            Rows; an array, a data frame of any library (missing values and categories included), a sparse matrix.
        y : array
            Target.
        sample_weight : array, optional
            Weight of each row, in the fits and in the scores.
        groups : array, optional
            Label of each row; rows of one group are in one fold, and only groups count as independent.
        **fit_params
            For the estimator's fit; what has one entry per row is cut by fold.

        Returns
        -------
        TreeInnerSelector
            Itself.

        Warns
        -----
        TreeInnerWarning
            If something was assumed about y, does not hold for the scores, or if nothing is kept; `importance_.notes`
            has it too.
        """
        self._validate_params()
        if self.q is None and self.threshold is None and self.max_features is None:
            raise ValueError("q=None keeps every feature unless threshold or max_features is given; pass one of them.")
        if "clusters" in fit_params:
            raise TypeError("clusters= is groups= here: rows of one are in one fold, and only these are independent.")
        X, y = self._read(X, y)
        self.max_features_ = int(self.max_features(X)) if callable(self.max_features) else self.max_features
        self.estimator_, classes = self.estimator, None
        if self.estimator is None:
            of_classes = is_class_target(y, int(self.cv) if isinstance(self.cv, numbers.Integral) else 2)
            self.estimator_ = default_booster(default_library(), classes=of_classes)
            if of_classes:  # XGBoost wants 0, 1, 2, ...
                classes, y = np.unique(y, return_inverse=True)
        seed = SEED if self.random_state is None else self.random_state
        seeds = check_random_state(seed).randint(2**31 - 1, size=2).tolist()
        data = checked_data(X, y, groups=groups, sample_weight=sample_weight, fit_params=fit_params)
        crossed = cross_fit(self.estimator_, data, ASKED, self.cv, self.repeats, seeds[0], self.n_jobs, self.progress)
        self._conclude(crossed, classes, seeds[1])
        return self

    def _read(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """X in the container it came in, y as an array, both checked; number and names of the columns are kept."""
        refuse_by_name(X)
        refuse_by_name(y, "y")
        check_order(X, y, "y")
        if isinstance(as_frame(X), nw.DataFrame | nw.LazyFrame):
            X, y = checked_table(X), validate_data(self, y=y if y is None else np.asarray(y))
            validate_data(self, X, y, skip_check_array=True)
            frame = collected(X)
            if all(isinstance(name, str) for name in frame.columns):  # scikit-learn 1.6 does not find those of polars 2
                self.feature_names_in_ = np.array(frame.columns, object)
        else:
            X, y = validate_data(self, X, y, accept_sparse="csr", ensure_min_samples=2, ensure_all_finite="allow-nan")
        return X, np.asarray(y.tolist() if y.dtype.kind == "O" else y)  # numbers as objects are numbers

    # -- what follows from the fits ------------------------------------------------------------------------------
    def _conclude(self, crossed: CrossFit, classes: Any, seed: int) -> None:
        found, n = crossed.importance, self.n_features_in_
        if classes is not None and found.outputs is not None:
            found = replace(found, output_names=tuple(map(str, classes.tolist())))
        mixed = found.feature_names[n:]  # those of the columns come first, in their order
        if mixed:
            raise UnsupportedModelError(
                f"A score must belong to one column of X, but the Pipeline makes {mixed[0]!r} from several; put the "
                "selector behind the step that mixes the columns."
            )
        self.importance_, self.conditional_ = found, None
        self.groups_: tuple[tuple[str, ...], ...] = ()
        self.feature_importances_ = scores = found.scores
        self.threshold_ = -np.inf if self.threshold is None else float(self.threshold)
        self.pvalues_ = one_sided(scores, found.std_errors, found.p_values)
        if self.q is not None and self.test == "conditional":
            self.conditional_ = self._tested(crossed, np.ones(n, bool), seed)
            self.pvalues_, self.qvalues_ = self.conditional_.p_values, self.conditional_.q_values
        else:
            self.qvalues_ = benjamini_hochberg(self.pvalues_)
        # Harm is no signal: with a p value above a half the score, or what it adds, is below 0.
        passes = np.ones(n, bool) if self.q is None else (self.qvalues_ <= self.q) & (self.pvalues_ < 0.5)
        self.support_ = keep(scores, passes, least=self.threshold_, most=self.max_features_)
        self.ranking_ = ranking(self.support_, scores, None if self.q is None else self.pvalues_)
        if not self.support_.any():
            note = Note("none_kept", self._reason(int(passes.sum())))
            self.importance_ = replace(found, notes=(*found.notes, note))
            warn(note)
        elif self.adds and self.conditional_ is None:
            self.conditional_ = self._tested(crossed, self.support_, seed)

    def _reason(self, n_passing: int) -> str:
        """Why nothing is kept, in numbers."""
        if self.max_features_ == 0:
            return "Nothing is kept: max_features is 0."
        if n_passing:
            return f"Nothing is kept: of {n_passing} that pass, none has a score of at least {self.threshold_:.4g}."
        conditional, explained = self.test == "conditional", self.importance_.explained
        what = "adds to what the others tell" if conditional else "has a score above noise"
        text = f"Nothing is kept: no column {what} at q = {self.q:g}; the least q value is {self.qvalues_.min():.2g}."
        worse = "are worse than the mean" if explained < 0 else f"explain {explained:.0%} of the loss"
        text += "" if np.isnan(explained) else f" On held-out rows the models {worse}."
        return text + " test='marginal' asks for signal alone." * conditional

    def _tested(self, crossed: CrossFit, only: NDArray[np.bool_], seed: int) -> Conditional:
        """The conditional test of some columns."""
        data, names = crossed.data, crossed.importance.feature_names
        columns, sets = read_columns(data.X), list[list[int]]()
        donors = Donors(columns, data.clusters)
        if isinstance(self.collinear, Mapping):
            set_of = grouped(self.collinear, names)[1]
            sets = [np.flatnonzero(set_of == one).tolist() for one in np.unique(set_of)]
        elif self.collinear is not None:
            alike = collinear_sets(columns, threshold=self.collinear)
            sets = determined_sets(donors, alike, threshold=self.collinear)
        tested = conditional_test(crossed, donors, sets, only, self.n_draws, seed, self.n_jobs, self.progress)
        self.groups_ = tuple(tuple(names[k] for k in one) for one in tested.sets if len(one) > 1)
        return tested

    def table(self) -> dict[str, NDArray[Any]]:
        """What `to_frame` shows, by columns, in the order of the features.

        Returns
        -------
        dict
            Name of a column -> array, one entry per column of X.
        """
        check_is_fitted(self)
        found, (low, high) = self.importance_, self.importance_.interval()
        p_values = one_sided(found.scores, found.std_errors, found.p_values)
        columns: dict[str, NDArray[Any]] = {
            "feature": np.array(getattr(self, "feature_names_in_", found.feature_names), np.str_),
            "score": self.feature_importances_,
            "std_error": found.std_errors,
            "ci_low": low,
            "ci_high": high,
            "p_value": p_values,
            "q_value": benjamini_hochberg(p_values),
        }
        if (tested := self.conditional_) is not None:
            columns |= {"adds": tested.adds, "adds_std_error": tested.std_errors}
            columns |= {"adds_p_value": tested.p_values, "adds_q_value": tested.q_values}
        return columns | {"kept": self.support_, "rank": self.ranking_}

    def to_frame(self) -> Any:
        """Data frame in the library of X, best score first.

        Score, standard error and interval are those of `importance_`, p and q value one-sided: is the score above 0?
        adds, where the conditional test was made, is TreeInner's score less its mean when the column is drawn anew,
        given the others, with a standard error, p and q value of its own; of columns that are tested as one, that of
        all of them.

        Returns
        -------
        data frame
            feature, score, std_error, ci_low, ci_high, p_value, q_value, (adds, adds_std_error, adds_p_value,
            adds_q_value,) kept, rank.
        """
        table = self.table()
        order = np.argsort(-table["score"], kind="stable")
        rows = {name: values[order] for name, values in table.items()}
        return make_frame(rows, library=self.importance_.frame_library)

    @property
    def rule(self) -> str:
        """What a feature must do to be kept, in words: "by the conditional test at q = 0.1"."""
        parts = [] if self.q is None else [f"by the {self.test} test at q = {self.q:g}"]
        parts += [] if self.threshold is None else [f"with a score of at least {self.threshold_:.4g}"]
        parts += [] if self.max_features is None else [f"at most {self.max_features_}"]
        return ", ".join(parts)

    # -- as scikit-learn has it ----------------------------------------------------------------------------------
    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_

    def transform(self, X: Any) -> Any:
        """Reduce X to the features that are kept; a data frame stays one, with its types.

        Parameters
        ----------
        X : table
            The columns that `fit` saw.

        Returns
        -------
        table
            The columns that are kept.

        Raises
        ------
        DataError
            If none is kept: nothing could be fitted to a table without columns.
        """
        check_is_fitted(self)
        if not self.support_.any():
            reason = next(note.text for note in self.importance_.notes if note.code == "none_kept")
            raise DataError(f"There is nothing for the next step to work with. {reason}")
        frame = as_frame(X)
        if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
            return super().transform(X)
        kept = self.get_support(indices=True)
        rows = collected(frame)
        native = rows.to_native()
        validate_data(self, native, reset=False, skip_check_array=True)
        return rows[:, kept.tolist()].to_native()

    def _repr_html_inner(self) -> str:
        from treeinner.show.table import of_selector  # here: what is shown stands above what is worked out

        diagram: str = super()._repr_html_inner()
        return diagram + (of_selector(self).html() if hasattr(self, "support_") else "")

    def _repr_mimebundle_(self, **asked: Any) -> dict[str, str]:
        shown: dict[str, str] = super()._repr_mimebundle_(**asked)
        return shown | ({"text/html": self._repr_html_inner()} if "text/html" in shown else {})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        estimator = default_booster(default_library(), classes=False) if self.estimator is None else self.estimator
        if hasattr(estimator, "fit") and not isinstance(estimator, type):
            of_estimator = get_tags(estimator).input_tags
            tags.input_tags.allow_nan, tags.input_tags.sparse = of_estimator.allow_nan, of_estimator.sparse
        return tags
