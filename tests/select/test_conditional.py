"""The conditional test: redrawn columns against scores from the start, and what it finds and does not find."""

import catboost
import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import scipy.stats
import xgboost as xgb
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import treeinner as ti
from treeinner.kernels.forest import INSTRUCTION_SETS, instruction_set, use_instruction_set
from treeinner.select import redraw
from treeinner.select.cross import cross_fit
from treeinner.select.folds import checked_data
from treeinner.select.redraw import Draws, redrawn_scores

pytestmark = pytest.mark.filterwarnings("ignore::treeinner.TreeInnerWarning")
RNG = np.random.default_rng(17)
N, P = 300, 6
X = RNG.normal(size=(N, P))
X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]  # a proxy
Y = X[:, 0] + X[:, 2] * X[:, 3] + 0.7 * RNG.normal(size=N)
CLASSES = np.digitize(Y, [-1, 1])
HELD = np.arange(200, N)
WEIGHT = RNG.uniform(0.5, 2.0, N)
SHALLOW = {"n_estimators": 30, "max_depth": 2, "learning_rate": 0.1, "n_jobs": 1}
ASKED = {"score": "tree_inner", "method": "centred", "feature_groups": None}
FOLD = [(np.arange(200), HELD)]
COLUMNS = list("abcdef")


def selector(estimator, **settings):
    few = {"test": "conditional", "cv": 3, "repeats": 1, "random_state": 0, "n_jobs": 1, "collinear": None}
    return ti.TreeInnerSelector(estimator, **{**few, **settings})


def tree_inner(model, X, y, **given):
    """The score that the conditional test is made of."""
    return ti.importance(model, X, y, score="tree_inner", std_errors=False, **given)


# -- scores of redrawn columns -----------------------------------------------------------------------------------
MODELS = {
    "squared": (xgb.XGBRegressor(**SHALLOW), Y),
    "logistic": (xgb.XGBClassifier(**SHALLOW), (CLASSES > 0).astype(int)),
    "softmax": (xgb.XGBClassifier(**SHALLOW), CLASSES),
    "poisson": (xgb.XGBRegressor(objective="count:poisson", **SHALLOW), RNG.poisson(np.exp(0.4 * X[:, 0]))),
    "deep": (lgb.LGBMRegressor(n_estimators=10, num_leaves=63, min_child_samples=2, verbose=-1, n_jobs=1), Y),
    "hist": (HistGradientBoostingRegressor(max_iter=15, random_state=0), Y),
    "forest": (RandomForestRegressor(5, random_state=0), Y),
    "gamma": (xgb.XGBRegressor(objective="reg:gamma", **SHALLOW), np.exp(Y)),
    "parallel trees": (xgb.XGBRegressor(num_parallel_tree=3, subsample=0.5, random_state=0, **SHALLOW), Y),
}


@pytest.mark.parametrize("name", MODELS)
def test_redrawn_scores_are_those_of_the_redrawn_rows(name):
    """By ti.importance of the model of the fold: single columns, and two that are drawn together."""
    estimator, y = MODELS[name]
    data = checked_data(X, y, sample_weight=WEIGHT)
    (fold,) = cross_fit(estimator, data, ASKED, FOLD, 1, 0, 1).folds
    sets = [*np.arange(P)[:, None], np.array([0, 2])]
    draws = [Draws(columns, RNG.integers(0, N, (4, len(columns), N)).astype(np.int32)) for columns in sets]
    found = redrawn_scores(fold.model, fold.spec, data, HELD, draws)
    scale = max(abs(scores[0]) for scores in found)
    for scores, drawn in zip(found, draws, strict=True):
        for score, donors in zip(scores, [np.tile(np.arange(N), (len(drawn.columns), 1)), *drawn.donors], strict=True):
            table = X.copy()
            table[:, drawn.columns] = X[donors.T, drawn.columns]
            own = tree_inner(fold.model, table[HELD], y[HELD], sample_weight=WEIGHT[HELD]).scores[drawn.columns].sum()
            # Sums in the leaves are integers, in units of 2^-32 of a typical gradient.
            assert score == pytest.approx(own * WEIGHT[HELD].sum(), rel=0, abs=1e-9 * scale)


def test_categories_that_only_the_library_can_route():
    frame = pd.DataFrame(X, columns=COLUMNS).assign(level=np.where(X[:, 4] > 0, "u", "v"))
    settings = {"iterations": 10, "depth": 2, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    data = checked_data(frame, Y + X[:, 4])
    estimator = catboost.CatBoostRegressor(cat_features=["level"], **settings)
    (fold,) = cross_fit(estimator, data, ASKED, FOLD, 1, 0, 1).folds
    donors = RNG.integers(0, N, (2, 1, N)).astype(np.int32)
    (found,) = redrawn_scores(fold.model, fold.spec, data, HELD, [Draws(np.array([P]), donors=donors)])
    drawn = frame.iloc[HELD].assign(level=frame["level"].to_numpy()[donors[0, 0, HELD]])
    own = tree_inner(fold.model, drawn, data.y[HELD])
    assert found[1] / len(HELD) == pytest.approx(own["level"].score, rel=1e-9)


@pytest.mark.parametrize("make", [pd.DataFrame, lambda a: pl.DataFrame(a, schema=COLUMNS), scipy.sparse.csr_array])
def test_every_container_gives_the_same_redrawn_scores(make):
    estimator = selector(xgb.XGBRegressor(missing=0.0, **SHALLOW), n_draws=5)
    found, plain = (estimator.fit(table, Y).conditional_.redrawn for table in (make(X), X))
    np.testing.assert_array_equal(found, plain)


def test_every_instruction_set_and_piece_of_rows_gives_the_same_bits(monkeypatch):
    estimator = selector(xgb.XGBClassifier(**SHALLOW), n_draws=5)
    usual = estimator.fit(X, CLASSES).conditional_.redrawn
    before = instruction_set()
    try:
        for name in INSTRUCTION_SETS:
            use_instruction_set(name)
            np.testing.assert_array_equal(estimator.fit(X, CLASSES).conditional_.redrawn, usual)
    finally:
        use_instruction_set(before)
    monkeypatch.setattr(redraw, "MOST_BYTES", 1)  # a block of rows at a time
    np.testing.assert_array_equal(estimator.fit(X, CLASSES).conditional_.redrawn, usual)


# -- the test itself -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("groups", [None, np.arange(N) // 4])
def test_the_formula(groups):
    fitted = selector(xgb.XGBRegressor(**SHALLOW), repeats=2, n_draws=12).fit(X, Y, groups=groups)
    seed = int(np.random.RandomState(0).randint(2**31 - 1, size=2)[0])  # of the folds
    settings = {"cv": 3, "repeats": 2, "score": "tree_inner", "random_state": seed, "n_jobs": 1}
    imp = ti.cross_importance(xgb.XGBRegressor(**SHALLOW), X, Y, clusters=groups, **settings)
    found = fitted.conditional_
    np.testing.assert_allclose(found.scores, imp.scores, rtol=1e-5, atol=1e-7)  # shares in float32
    np.testing.assert_allclose(found.adds, found.scores - found.redrawn.mean(axis=0), rtol=1e-12)
    both = np.stack([found.redrawn.std(axis=0, ddof=1), imp.std_errors])
    sd = np.sqrt((both**2).mean(axis=0)) if groups is None else both.max(axis=0)
    np.testing.assert_allclose(found.std_errors, sd * np.sqrt(1 + 1 / 12), rtol=1e-12)
    np.testing.assert_allclose(found.p_values, scipy.stats.t.sf(found.adds / found.std_errors, 11), rtol=1e-10)
    np.testing.assert_allclose(found.q_values, scipy.stats.false_discovery_control(found.p_values), rtol=1e-12)


def test_it_tells_a_signal_from_its_proxy():
    settings = {"cv": 5, "repeats": 2}
    estimator = xgb.XGBRegressor(colsample_bynode=0.3, **SHALLOW)
    conditional = selector(estimator, **settings).fit(X, Y)
    marginal = selector(estimator, test="marginal", **settings).fit(X, Y)
    assert marginal.qvalues_[1] < 0.01  # alone, the proxy has signal
    assert conditional.qvalues_[1] > 0.2  # beyond the true one it has none
    assert conditional.qvalues_[0] < 0.01


@pytest.mark.parametrize(("estimator", "y"), [(xgb.XGBRegressor, Y), (xgb.XGBClassifier, CLASSES)])
def test_members_of_a_set_share_their_numbers(estimator, y):
    twin = pd.DataFrame(np.column_stack([X, X[:, 0] + 1e-3 * RNG.normal(size=N)]), columns=[*COLUMNS, "twin"])
    estimator = estimator(colsample_bynode=0.5, **SHALLOW)
    alone = selector(estimator, cv=5).fit(twin, y)
    assert min(alone.qvalues_[0], alone.qvalues_[P]) > 0.1  # given its twin neither tells more
    both = {"both": ["a", "twin"]}
    together = selector(estimator, cv=5, collinear=both).fit(twin, y)
    found = together.conditional_
    assert together.groups_ == (("a", "twin"),)
    assert found.q_values[0] == found.q_values[P] < 0.01
    seed = int(np.random.RandomState(0).randint(2**31 - 1, size=2)[0])  # of the folds
    settings = {"cv": 5, "score": "tree_inner", "feature_groups": both, "random_state": seed, "n_jobs": 1}
    imp = ti.cross_importance(estimator, twin, y, **settings)["both"]
    assert found.scores[0] == pytest.approx(imp.score, rel=1e-5)
    sd = np.sqrt((imp.std_error**2 + found.redrawn[:, 0].var(ddof=1)) / 2)
    assert found.std_errors[0] == pytest.approx(sd * np.sqrt(1 + 1 / 20), rel=1e-5)


def test_a_pipeline_in_the_columns_of_x():
    colour = RNG.choice(["red", "green", "blue"], N)
    frame = pd.DataFrame(X, columns=COLUMNS).assign(colour=colour)
    encode = make_column_transformer((OneHotEncoder(), ["colour"]), remainder=StandardScaler())
    pipe = make_pipeline(encode, xgb.XGBRegressor(**SHALLOW))
    fitted = selector(pipe, cv=5, n_draws=20).fit(frame, Y + 2.0 * (colour == "red"))
    assert set(np.flatnonzero(fitted.qvalues_ < 0.05)) >= {0, 6}
    assert fitted.qvalues_[1] > 0.1


def test_rows_held_out_more_than_once():
    fitted = selector(xgb.XGBRegressor(**SHALLOW), cv=ShuffleSplit(8, test_size=0.5, random_state=0)).fit(X, Y)
    found = fitted.conditional_
    assert 0 < found.adds[0] < found.scores[0]
    assert found.q_values[0] < 0.05


def test_sums_that_could_wrap_are_refused():
    """No single row is too large, all of them together are."""
    data = checked_data(X, Y)
    (fold,) = cross_fit(MODELS["squared"][0], data, ASKED, FOLD, 1, 0, 1).folds
    draws = [Draws(np.array([0]), donors=RNG.integers(0, N, (5, 1, N)).astype(np.int32))]
    redrawn_scores(fold.model, fold.spec, checked_data(X, Y + 1e6), HELD, draws)
    with pytest.raises(ti.DataError, match="out of proportion"):
        redrawn_scores(fold.model, fold.spec, checked_data(X, Y + 2.0e8), HELD, draws)
