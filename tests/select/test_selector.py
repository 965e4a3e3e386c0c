"""TreeInnerSelector: scikit-learn's own rules, and laws of what is kept."""

import warnings

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn
import xgboost
from joblib import parallel_config
from scipy import stats
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

import treeinner as ti
from treeinner.select.cuts import keep
from treeinner.select.default import SETTINGS, default_booster

TESTS = ("conditional", "marginal")


def quick(estimator=None, **settings):
    """Few folds and draws, and a q at which strong signals pass and noise practically never does."""
    few = {"q": 0.01, "cv": 3, "repeats": 1, "n_draws": 10, "random_state": 0, "n_jobs": 1}
    return ti.TreeInnerSelector(estimator, **{**few, **settings})


def small(kind=xgboost.XGBRegressor, **settings):
    return kind(**{"n_estimators": 20, "max_depth": 2, "n_jobs": 1, **settings})


def rows(n=240, seed=0):
    """Two strong signals, c and a; four columns of noise."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 6)), columns=list("abcdef"))
    y = 3 * X["c"] + 2 * X["a"] + rng.normal(size=n)
    return X, y.to_numpy()


@pytest.fixture(scope="module")
def fitted():
    X, y = rows()
    return quick().fit(X, y), X, y


def of_noise(selector):
    """Checks of scikit-learn that hand on what is kept of columns of noise: nothing, and that is refused."""
    names = (
        "fit_score_takes_y", "n_features_in_after_fitting", "estimators_dtypes", "fit_idempotent",
        "sample_weight_equivalence_on_dense_data", "sample_weight_equivalence_on_sparse_data",
        *(["dtype_object"] if xgboost.__version__ >= "3.4" else []),
    )  # fmt: skip
    return {} if selector.q is None else {f"check_{name}": "keeps nothing of noise" for name in names}


@pytest.mark.filterwarnings("ignore::treeinner.TreeInnerWarning")
@parametrize_with_checks(
    [ti.TreeInnerSelector(cv=2, repeats=1, n_jobs=1, **more) for more in ({}, {"q": None, "max_features": 2})],
    expected_failed_checks=of_noise,
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


# -- what is kept --------------------------------------------------------------------------------------------
def test_signals_are_kept_and_noise_is_not(fitted):
    selector, X, _ = fitted
    assert selector.get_feature_names_out().tolist() == ["a", "c"]
    assert selector.get_support(indices=True).tolist() == [0, 2]
    assert selector.transform(X).columns.tolist() == ["a", "c"]
    assert selector.groups_ == ()
    assert selector.n_features_in_ == 6
    assert selector.feature_names_in_.tolist() == list("abcdef")


def test_the_numbers_are_those_of_the_parts(fitted):
    selector, X, y = fitted
    imp = selector.importance_
    assert imp.score == "signal"
    assert selector.conditional_ is None
    np.testing.assert_array_equal(selector.feature_importances_, imp.scores)
    one_sided = stats.t.sf(imp.scores / imp.std_errors, imp.df)  # is there signal? Harm is none
    np.testing.assert_allclose(selector.pvalues_, one_sided, rtol=1e-9)
    np.testing.assert_allclose(selector.qvalues_, stats.false_discovery_control(one_sided), rtol=1e-9)
    np.testing.assert_array_equal(selector.support_, selector.qvalues_ <= selector.q)
    other = quick(test="conditional").fit(X, y)
    # One seed, the same folds and fits: the scores do not depend on the test.
    np.testing.assert_array_equal(other.feature_importances_, selector.feature_importances_)
    np.testing.assert_array_equal(other.pvalues_, other.conditional_.p_values)
    np.testing.assert_array_equal(other.support_, other.qvalues_ <= other.q)


def test_harm_is_never_kept(fitted):
    """However large q is: of noise at a rate of 1 most scores are below 0."""
    _, X, _ = fitted
    y = np.random.default_rng(5).normal(size=len(X))
    selector = quick(small(learning_rate=1.0), q=0.999).fit(X, y)
    assert selector.qvalues_.max() < 0.999
    assert 0 < (selector.feature_importances_ < 0).sum() < 6
    np.testing.assert_array_equal(selector.support_, selector.feature_importances_ > 0)


def test_ranking_is_that_of_rfe(fitted):
    selector, *_ = fitted
    assert np.all((selector.ranking_ == 1) == selector.support_)
    dropped = np.flatnonzero(~selector.support_)
    by_rank = dropped[np.argsort(selector.ranking_[dropped])]
    assert selector.ranking_[by_rank].tolist() == list(range(2, 2 + len(dropped)))
    assert np.all(np.diff(selector.pvalues_[by_rank]) >= 0)


def test_the_table(fitted):
    selector, *_ = fitted
    frame = selector.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame["feature"].tolist()[:2] == ["c", "a"]
    assert set(frame.loc[frame["kept"], "feature"]) == {"a", "c"}
    assert frame["score"].is_monotonic_decreasing
    row = selector.importance_["c"]
    assert frame.loc[0, ["std_error", "ci_low", "ci_high"]].tolist() == [row.std_error, row.ci_low, row.ci_high]
    assert frame.loc[0, "p_value"] == pytest.approx(row.p_value / 2)
    assert "adds" not in frame


def test_what_is_kept_adds_something_in_columns_of_its_own(fitted):
    selector, X, y = fitted
    adding = quick(adds=True).fit(X, y)
    for name in ("support_", "pvalues_", "qvalues_", "ranking_"):  # it decides nothing
        np.testing.assert_array_equal(getattr(adding, name), getattr(selector, name))
    conditional = quick(test="conditional").fit(X, y)
    both, all_ = adding.table(), conditional.table()
    for name in ("score", "std_error", "p_value", "q_value"):
        np.testing.assert_array_equal(both[name], all_[name])
    assert np.isnan(both["adds"]).tolist() == (~adding.support_).tolist()
    kept = adding.support_
    np.testing.assert_allclose(both["adds_p_value"][kept], all_["adds_p_value"][kept], atol=1e-3)  # other draws
    # The columns that were not tested count: two tests of six columns.
    p = np.where(kept, both["adds_p_value"], 1.0)
    np.testing.assert_allclose(both["adds_q_value"][kept], stats.false_discovery_control(p)[kept], rtol=1e-12)


def test_progress_counts_models(fitted):
    _, X, y = fitted
    seen = []
    quick(small(), test="conditional", progress=lambda done, of: seen.append((done, of))).fit(X, y)
    assert seen == [(k, 3) for k in (1, 2, 3)] * 2


@pytest.mark.parametrize("test", TESTS)
def test_reproducible_whatever_n_jobs(test):
    X, y = rows(120)
    with parallel_config(backend="threading"):  # processes, which take long to start, are in test_cross.py
        one, two, other = (quick(small(subsample=0.5), test=test, n_jobs=n).fit(X, y) for n in (1, 2, None))
    for name in ("feature_importances_", "pvalues_", "qvalues_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    seeded = quick(small(subsample=0.5), test=test, random_state=1).fit(X, y)
    assert np.any(seeded.feature_importances_ != one.feature_importances_)
    unseeded = [quick(small(subsample=0.5), test=test, random_state=None).fit(X, y).pvalues_ for _ in range(2)]
    np.testing.assert_array_equal(*unseeded)


def test_a_copy_is_kept_with_its_twin_and_named():
    X, y = rows()
    X["again"] = -(X["c"] ** 3)  # the same order, turned around
    assert {"c", "again"} <= set(quick().fit(X, y).get_feature_names_out())
    selector = quick(test="conditional").fit(X, y)
    assert selector.groups_ == (("c", "again"),)
    assert {"c", "again"} <= set(selector.get_feature_names_out())
    alone = quick(test="conditional", collinear=None).fit(X, y)
    assert alone.groups_ == ()
    assert not {"c", "again"} & set(alone.get_feature_names_out())  # given the one, the other tells nothing


def test_constant_columns_are_not_kept():
    X, y = rows()
    X["constant"], X["missing"] = 1.0, np.nan
    selector = quick().fit(X, y)
    assert selector.get_feature_names_out().tolist() == ["a", "c"]
    assert selector.pvalues_[-2:].tolist() == [1.0, 1.0]
    assert selector.feature_importances_[-2:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("test", TESTS)
def test_models_without_a_split_keep_nothing(test):
    X, y = rows(60)
    selector = quick(small(lightgbm.LGBMRegressor, min_child_samples=1000, verbose=-1), test=test).fit(X, y)
    assert selector.pvalues_.tolist() == [1.0] * 6
    assert not selector.get_support().any()


@pytest.mark.parametrize("test", TESTS)
def test_nothing_kept_has_a_reason_in_numbers(test):
    X, _ = rows()
    y = np.random.default_rng(1).normal(size=len(X))
    with pytest.warns(ti.TreeInnerWarning, match="Nothing is kept") as said:
        selector = quick(test=test).fit(X, y)
    text = str(said[0].message)
    assert f"the least q value is {selector.qvalues_.min():.2g}" in text
    explained = selector.importance_.explained
    assert explained < 0.05  # noise cannot be predicted
    assert ("are worse than the mean" if explained < 0 else f"explain {explained:.0%} of the loss") in text
    assert ("test='marginal'" in text) == (test == "conditional")
    assert len(text) <= 200
    assert selector.importance_.notes[-1].code == "none_kept"
    assert selector.get_feature_names_out().tolist() == []
    assert sorted(selector.ranking_.tolist()) == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("settings", "reason"), [({"threshold": 1e9}, "of 2 that pass, none has a score of at least 1e"),
                             ({"q": None, "max_features": 0}, "max_features is 0")]
)  # fmt: skip
def test_nothing_kept_by_a_cut(settings, reason):
    with pytest.warns(ti.TreeInnerWarning, match=reason):
        assert not quick(small(), **settings).fit(*rows()).support_.any()


@pytest.mark.filterwarnings("ignore:Nothing is kept")
@pytest.mark.parametrize(
    "wrap", [lambda X: X, pl.from_pandas, pd.DataFrame.to_numpy], ids=["pandas", "polars", "numpy"]
)
@pytest.mark.parametrize("last", [small(lightgbm.LGBMRegressor, verbose=-1), small(), LinearRegression()])
def test_a_pipeline_with_nothing_kept_says_why(wrap, last):
    X, _ = rows()
    y = np.random.default_rng(1).normal(size=len(X))
    with pytest.raises(ti.DataError, match=r"next step to work with\. Nothing is kept: no column has"):
        make_pipeline(quick(small()), last).fit(wrap(X), y)


# -- cuts ----------------------------------------------------------------------------------------------------
class Scored(BaseEstimator):
    """A fitted estimator with these importances."""

    def __init__(self, feature_importances_):
        self.feature_importances_ = feature_importances_

    def fit(self, X, y=None):
        return self


@pytest.mark.parametrize("most", [None, 0, 2, 5, 100])
def test_threshold_and_max_features_are_those_of_select_from_model(most):
    scores = np.random.default_rng(0).random(9)
    theirs = SelectFromModel(Scored(scores), threshold=0.3, max_features=most, prefit=True).get_support()
    ours = keep(scores, np.ones(9, bool), least=0.3, most=most)
    np.testing.assert_array_equal(ours, theirs)


def test_the_cuts_are_on_top_of_the_error_control():
    scores, passes = np.array([4.0, 3.0, 2.0, 1.0]), np.array([False, True, True, True])
    kept = {most: keep(scores, passes, least=1.5, most=most).tolist() for most in (None, 1)}
    assert kept == {None: [False, True, True, False], 1: [False, True, False, False]}


def test_cuts_of_a_fitted_selector(fitted):
    _, X, y = fitted
    best = quick(max_features=lambda X: X.shape[1] // 6).fit(X, y)
    assert best.max_features_ == 1
    assert best.get_feature_names_out().tolist() == ["c"]
    untested = quick(q=None, threshold=0.01).fit(X, y)
    assert untested.threshold_ == 0.01
    assert 0 < untested.support_.sum() < X.shape[1]
    np.testing.assert_array_equal(untested.support_, untested.feature_importances_ >= untested.threshold_)
    assert untested.conditional_ is None


# -- containers ----------------------------------------------------------------------------------------------
def mixed():
    """Numbers with missing values, a category that is a signal and one that is not."""
    X, y = rows()
    rng = np.random.default_rng(3)
    X["town"] = pd.Categorical(rng.choice(["Ulm", "Bonn", "Kiel"], len(X)))
    X["shape"] = pd.Categorical(rng.choice(["round", "square"], len(X)))
    X.loc[::7, "a"] = np.nan
    X.loc[::11, "town"] = None
    return X, y + 4 * (X["town"] == "Ulm").to_numpy()


def arrow(X):
    """Without the categories: those of large strings with nulls are more than XGBoost 3.2 takes."""
    return pa.Table.from_pandas(X.drop(columns=["town", "shape"]))


@pytest.mark.parametrize("wrap", [lambda X: X, pl.from_pandas, arrow], ids=["pandas", "polars", "arrow"])
def test_frames_with_categories_and_missing_values_stay_frames(wrap):
    X, y = mixed()
    table = wrap(X)
    selector = quick().fit(table, y)
    kept = selector.transform(table)
    assert type(kept) is type(table)
    found = ["a", "c"] if wrap is arrow else ["a", "c", "town"]
    assert selector.get_feature_names_out().tolist() == found
    if isinstance(kept, pd.DataFrame):
        pd.testing.assert_frame_equal(kept, X[["a", "c", "town"]])


def test_arrays_and_sparse_matrices():
    X, y = rows()
    array = X.to_numpy()
    selector = quick().fit(array, y)
    assert selector.transform(array).tolist() == array[:, [0, 2]].tolist()
    assert selector.get_feature_names_out().tolist() == ["x0", "x2"]
    assert not hasattr(selector, "feature_names_in_")
    back = selector.inverse_transform(selector.transform(array))
    assert back[:, [0, 2]].tolist() == array[:, [0, 2]].tolist()
    assert not back[:, [1, 3, 4, 5]].any()
    sparse = sp.csr_array(array * (np.abs(array) > 0.2))
    kept = quick().fit_transform(sparse, y)
    assert sp.issparse(kept)
    assert (kept != sparse[:, [0, 2]]).nnz == 0


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize(
    "wrap", [lambda X: X, pl.from_pandas, pd.DataFrame.to_numpy], ids=["pandas", "polars", "numpy"]
)
def test_set_output(fitted, library, wrap):
    _, X, y = fitted
    table = wrap(X)
    selector = quick(small(), test="marginal").set_output(transform=library).fit(table, y)
    kept = selector.transform(table)
    assert type(kept).__module__.split(".")[0] == library
    assert list(kept.columns) == selector.get_feature_names_out().tolist()
    np.testing.assert_array_equal(kept.to_numpy(), X[["a", "c"]].to_numpy())


# -- targets -------------------------------------------------------------------------------------------------
def test_classes_by_any_name_are_the_same_classes(fitted):
    _, X, y = fitted
    codes = np.digitize(y, [-2, 2])
    numbers = quick(test="marginal").fit(X, codes)
    words = quick(test="marginal").fit(X, np.array(["few", "lot", "most"])[codes])
    np.testing.assert_array_equal(numbers.feature_importances_, words.feature_importances_)
    assert words.importance_.output_names == ("few", "lot", "most")
    assert words.get_feature_names_out().tolist() == ["a", "c"]
    assert isinstance(words.estimator_, xgboost.XGBClassifier)
    series = quick(test="marginal").fit(X, pd.Series(codes > 1))
    assert series.get_feature_names_out().tolist() == ["a", "c"]


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (lambda y: y, "Regressor"),
        (lambda y: y > 0, "Classifier"),
        (lambda y: np.digitize(y, [-2, 2]).astype(float), "Classifier"),
        (lambda y: np.where(y > 0, "x", "y"), "Classifier"),
        (lambda y: np.round(10 * y).astype(int), "Regressor"),
    ],
)
def test_what_is_a_class(fitted, target, kind):
    _, X, y = fitted
    with warnings.catch_warnings():
        warnings.simplefilter("error", ti.TreeInnerWarning)
        selector = quick(q=None, max_features=1).fit(X, target(y))
    assert type(selector.estimator_).__name__.endswith(kind)


def test_integers_that_may_be_classes_are_taken_as_numbers_with_a_warning(fitted):
    _, X, y = fitted
    with pytest.warns(ti.TreeInnerWarning, match="taken as numbers"):
        quick(q=None, max_features=1).fit(X, np.round(2 * y).astype(int))


# -- estimators ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("library", SETTINGS)
def test_the_default_is_the_same_in_every_library(library):
    """100 rounds of at most three splits, and the sums of leaf values of a first round at rate 0.1 and penalty 1."""
    X, y = rows()
    trees = ti.read_model(default_booster(library, classes=False).fit(X, y)).trees
    assert trees.n_rounds == trees.n_trees == 100
    splits = np.add.reduceat((trees.column >= 0).astype(int), trees.start[:-1])
    assert 1 <= splits.max() <= 3
    known = default_booster(library, classes=True).get_params()
    assert SETTINGS[library].keys() <= known.keys() | {"feature_fraction_bynode"}  # LightGBM's goes through **kwargs


def test_catboost_may_name_its_categories_when_it_is_made():
    """scikit-learn cannot clone such an estimator."""
    X, y = mixed()
    X = X.astype({"town": object, "shape": object}).fillna({"town": "none"})
    quiet = {"verbose": 0, "thread_count": 1, "allow_writing_files": False}
    estimator = catboost.CatBoostRegressor(iterations=20, depth=2, cat_features=["town", "shape"], **quiet)
    assert quick(estimator, test="marginal").fit(X, y).get_feature_names_out().tolist() == ["a", "c", "town"]


def test_scores_of_a_pipeline_come_back_to_the_columns_of_x():
    """The encoder puts its columns first; a column that it drops has no score."""
    X, y = mixed()
    X["dropped"] = np.arange(len(X)) % 5
    encoder = ColumnTransformer(
        [("onehot", OneHotEncoder(sparse_output=False), ["town", "shape"]), ("rest", "passthrough", list("fcbade"))]
    )
    selector = quick(make_pipeline(encoder, small())).fit(X, y)
    assert selector.get_feature_names_out().tolist() == ["a", "c", "town"]
    assert selector.importance_.feature_names == tuple(X.columns)
    assert selector.feature_importances_[-1] == 0.0
    assert selector.pvalues_[-1] == 1.0


@pytest.mark.parametrize("step", [PCA(2), PolynomialFeatures(interaction_only=True)])
def test_a_pipeline_that_mixes_columns_is_refused(step):
    X, y = rows(60)
    with pytest.raises(ti.UnsupportedModelError, match="put the selector behind the step that mixes"):
        quick(make_pipeline(step, small())).fit(X, y * X["a"] * X["b"])


def test_an_average_takes_the_marginal_test_alone(fitted):
    _, X, y = fitted
    vote = VotingRegressor([("a", small()), ("b", HistGradientBoostingRegressor(max_iter=20))])
    assert quick(vote, test="marginal").fit(X, y).get_feature_names_out().tolist() == ["a", "c"]
    for asked in ({"test": "conditional"}, {"adds": True}):
        with pytest.raises(ti.UnsupportedModelError, match="use test='marginal' without adds"):
            quick(vote, **asked).fit(X, y)


def test_in_a_pipeline_under_a_search(fitted):
    _, X, y = fitted
    pipeline = make_pipeline(quick(small(n_estimators=10)), LinearRegression())
    grid = {
        "treeinnerselector__q": [0.05, 0.1],
        "treeinnerselector__test": ["marginal", "conditional"],
        "treeinnerselector__estimator__max_depth": [1, 2],
    }
    search = GridSearchCV(pipeline, grid, cv=ShuffleSplit(1, random_state=0), error_score="raise").fit(X, y)
    assert search.score(X, y) > 0.9  # both signals were kept: they are 13 / 14 of the variance
    assert clone(pipeline)[0].get_params()["estimator__n_estimators"] == 10


# -- weights, groups, routing --------------------------------------------------------------------------------


def test_groups_stay_in_one_fold_and_count_as_one(fitted):
    _, X, y = fitted
    groups = np.repeat(np.arange(24), 10)
    selector = quick(small(), test="marginal").fit(X, y, groups=groups)
    assert selector.importance_.df.max() <= 23
    with pytest.raises(TypeError, match="groups="):
        quick(small()).fit(X, y, clusters=groups)


def test_metadata_routing(fitted):
    _, X, y = fitted
    weight = np.where(X["b"] > 0, 3.0, 0.5)
    direct = quick(small(), test="marginal").fit(X, y, sample_weight=weight)
    with sklearn.config_context(enable_metadata_routing=True):
        selector = quick(small(), test="marginal").set_fit_request(sample_weight=True)
        last = LinearRegression().set_fit_request(sample_weight=False)
        routed = make_pipeline(selector, last).fit(X, y, sample_weight=weight)[0]
        np.testing.assert_array_equal(routed.feature_importances_, direct.feature_importances_)


# -- bad input -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"q": 1.5}, ValueError, "'q' parameter"),
        ({"q": None}, ValueError, "pass one of them"),
        ({"test": "margin"}, ValueError, "'test' parameter.*marginal"),
        ({"repeats": 0}, ValueError, "'repeats' parameter"),
        ({"n_draws": 1}, ValueError, "'n_draws' parameter"),
        ({"threshold": "mean"}, ValueError, "'threshold' parameter"),
        ({"max_features": -1}, ValueError, "'max_features' parameter"),
        ({"cv": 2.5}, ValueError, "2.5"),
        ({"cv": 1}, ValueError, "n_splits=2"),
        ({"cv": 1000}, ti.DataError, "greater than the number of samples"),
        ({"adds": "yes"}, ValueError, "'adds' parameter"),
        ({"collinear": 2}, ValueError, "'collinear' parameter"),
        ({"collinear": {"pair": ["a", "z"]}, "test": "conditional"}, ValueError, "'z', which is not a feature"),
        ({"estimator": xgboost.XGBRegressor}, TypeError, "class"),
        ({"estimator": LinearRegression()}, ti.UnsupportedModelError, "LinearRegression"),
    ],
)
def test_bad_parameters(settings, error, message):
    X, y = rows(60)
    with pytest.raises(error, match=message):
        quick(**settings).fit(X, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, np.zeros(len(y), int)), "y is 0 in every row"),
        (lambda X, y: (X, np.where(np.arange(len(y)) < 1, "few", "many")), "no row of class"),
        (lambda X, y: (X[:2], y[:2]), "greater than the number of samples"),
        (lambda X, y: (X, y[:-1]), "y has 59 entries"),
        (lambda X, y: (X, None), "requires y to be passed"),
        (lambda X, y: (X, np.column_stack([y, y])), "y should be a 1d array"),
        (lambda X, y: (X["a"], y), "2D|2-dimensional"),
        (lambda X, y: (X.assign(s="x", d=pd.Timestamp("2026-01-01"), e=pd.Timedelta(1)), y), "'d', 'e' hold neither"),
        (lambda X, y: (X.assign(t=np.inf), y), "inf"),
        (lambda X, y: (X, pd.Series(y)[::-1]), "another order"),
    ],
)  # fmt: skip
def test_bad_rows(change, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(*change(*rows(60)))


def test_other_columns_and_an_unfitted_selector(fitted):
    selector, X, _ = fitted
    with pytest.raises(ValueError, match="feature names should match"):
        selector.transform(X.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="X has 5 features"):
        selector.transform(X.to_numpy()[:, :5])
    for use in (
        lambda s: s.transform(X),
        lambda s: s.get_support(),
        lambda s: s.to_frame(),
        lambda s: s.transform(X.values),
    ):
        with pytest.raises(NotFittedError):
            use(quick())


# -- real data ---------------------------------------------------------------------------------------------------
STRONG = {
    load_diabetes: {"bmi", "s5", "bp"},
    load_breast_cancer: {"worst perimeter", "worst area", "worst radius", "worst concave points", "worst texture"},
    load_wine: {"flavanoids", "color_intensity", "proline", "alcohol"},
}


@pytest.mark.parametrize("load", STRONG)
def test_columns_that_everyone_knows_are_kept(load):
    X, y = load(return_X_y=True, as_frame=True)
    found = ti.TreeInnerSelector(n_jobs=1).fit(X, y)
    assert set(found.get_feature_names_out()) >= STRONG[load]
    q = dict(zip(X, found.qvalues_, strict=True))
    assert max(q[name] for name in STRONG[load]) < 1e-4


# -- columns that determine each other -------------------------------------------------------------------------
def test_columns_that_determine_each_other_are_tested_as_one():
    """In scikit-learn's diabetes data s5 is the logarithm of 5 (s1 - s2 - s3): the Friedewald equation."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    settings = {"test": "conditional", "repeats": 1, "n_jobs": 1}
    together = ti.TreeInnerSelector(**settings).fit(X, y)
    assert together.groups_ == (("s1", "s2", "s3", "s4"),)
    alone = ti.TreeInnerSelector(collinear=None, **settings).fit(X, y)
    assert alone.groups_ == ()
    lipids = ["s1", "s2", "s3", "s4", "s5"]
    of_mine = ti.TreeInnerSelector(collinear={"lipids": lipids}, **settings).fit(X, y)
    assert of_mine.groups_ == (tuple(lipids),)
    assert set(lipids) <= set(of_mine.get_feature_names_out())
