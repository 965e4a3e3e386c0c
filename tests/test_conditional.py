"""The conditional test: redrawn columns against scores from the start, and what it finds and does not find."""

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
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

import treeinner as ti
from treeinner.compiled.forest import INSTRUCTION_SETS, use_instruction_set
from treeinner.selection import conditional_test, cross_fit, redraw
from treeinner.selection.folds import Rows, checked_rows, put_column, take_rows
from treeinner.selection.redraw import Draws, redrawn_scores

RNG = np.random.default_rng(17)
N, P = 300, 6
X = RNG.normal(size=(N, P))
X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]  # a proxy
Y = X[:, 0] + X[:, 2] * X[:, 3] + 0.7 * RNG.normal(size=N)
CLASSES = np.digitize(Y, [-1, 1])
COUNTS = RNG.poisson(np.exp(0.4 * X[:, 0]))
HELD = np.arange(200, N)
WEIGHT = RNG.uniform(0.5, 2.0, N)
SHALLOW = {"n_estimators": 30, "max_depth": 2, "learning_rate": 0.1, "n_jobs": 1}


def by_hand(model, X, y, held, columns, donors, **given):
    """Score of columns with donors' values in them, by the public function."""
    drawn = X[held].copy()
    for column, donor in zip(columns, donors, strict=True):
        drawn[:, column] = X[donor[held], column]
    imp = ti.importance(model, drawn, y[held], std_errors=False, **given)
    return imp.scores[columns].sum() * imp.sum_of_weights


def models():
    fit = slice(0, 200)
    return {
        "squared": (xgb.XGBRegressor(**SHALLOW).fit(X[fit], Y[fit]), Y),
        "logistic": (xgb.XGBClassifier(**SHALLOW).fit(X[fit], CLASSES[fit] > 0), (CLASSES > 0).astype(int)),
        "softmax": (xgb.XGBClassifier(**SHALLOW).fit(X[fit], CLASSES[fit]), CLASSES),
        "poisson": (xgb.XGBRegressor(objective="count:poisson", **SHALLOW).fit(X[fit], COUNTS[fit]), COUNTS),
        "deep": (
            lgb.LGBMRegressor(n_estimators=10, num_leaves=63, min_child_samples=2, verbose=-1).fit(X[fit], Y[fit]),
            Y,
        ),
        "hist": (HistGradientBoostingRegressor(max_iter=15).fit(X[fit], Y[fit]), Y),
        "forest": (RandomForestRegressor(5, random_state=0).fit(X[fit], Y[fit]), Y),
        "gamma": (xgb.XGBRegressor(objective="reg:gamma", **SHALLOW).fit(X[fit], np.exp(Y[fit])), np.exp(Y)),
        "parallel trees": (xgb.XGBRegressor(num_parallel_tree=3, subsample=0.5, **SHALLOW).fit(X[fit], Y[fit]), Y),
    }


MODELS = models()


@pytest.mark.parametrize("name", list(MODELS))
def test_redrawn_scores_are_those_of_the_redrawn_rows(name):
    model, y = MODELS[name]
    donors = RNG.integers(0, N, (6, 1, N)).astype(np.int32)
    pair = RNG.integers(0, N, (6, 2, N)).astype(np.int32)
    draws = [*(Draws(np.array([k]), donors=donors) for k in range(P)), Draws(np.array([0, 3]), donors=pair)]
    found = redrawn_scores(ti.read_model(model), Rows(X=X, y=y), HELD, draws)
    scale = max(np.abs(part).max() for part in found)
    for drawn, redrawn in zip(draws, found, strict=True):
        columns = drawn.columns
        itself = np.broadcast_to(np.arange(N), (len(columns), N))
        expected = [by_hand(model, X, y, HELD, columns, some) for some in (itself, *drawn.donors)]
        np.testing.assert_allclose(redrawn, expected, atol=1e-12 * scale)  # both from the same exact leaf sums


def test_weights_and_margins():
    model, margin = MODELS["squared"][0], 0.3 * X[:, 4]
    donors = RNG.integers(0, N, (5, 1, N)).astype(np.int32)
    rows = Rows(X=X, y=Y, sample_weight=WEIGHT, base_margin=margin)
    found = redrawn_scores(ti.read_model(model), rows, HELD, [Draws(np.array([0]), donors=donors)])[0]
    given = {"sample_weight": WEIGHT[HELD], "base_margin": margin[HELD]}
    np.testing.assert_allclose(found[1], by_hand(model, X, Y, HELD, [0], donors[0], **given), rtol=1e-12)


@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_every_instruction_set_gives_the_same_bits(name):
    donors = np.random.default_rng(0).integers(0, N, (5, 1, N)).astype(np.int32)
    draws = [Draws(np.array([k]), donors=donors) for k in range(P)]
    rows, model = Rows(X=X, y=CLASSES), ti.read_model(MODELS["softmax"][0])
    usual = redrawn_scores(model, rows, HELD, draws)
    before = ti.instruction_set()
    try:
        use_instruction_set(name)
        np.testing.assert_array_equal(redrawn_scores(model, rows, HELD, draws), usual)
    finally:
        use_instruction_set(before)


def test_pieces_of_rows_give_the_same_bits(monkeypatch):
    donors = RNG.integers(0, N, (6, 1, N)).astype(np.int32)
    draws = [Draws(np.array([k]), donors=donors) for k in range(P)]
    model, rows = ti.read_model(MODELS["squared"][0]), Rows(X=X, y=Y)
    whole = redrawn_scores(model, rows, np.arange(N), draws)
    monkeypatch.setattr(redraw, "MOST_BYTES", 1)  # a block of rows at a time
    np.testing.assert_array_equal(redrawn_scores(model, rows, np.arange(N), draws), whole)


def test_sums_that_could_wrap_are_refused():
    """No single row is too large, all of them together are."""
    donors = RNG.integers(0, N, (5, 1, N)).astype(np.int32)
    model, draws = ti.read_model(MODELS["squared"][0]), [Draws(np.array([0]), donors=donors)]
    redrawn_scores(model, Rows(X=X, y=Y + 1e6), HELD, draws)
    with pytest.raises(ti.DataError, match="out of proportion"):
        redrawn_scores(model, Rows(X=X, y=Y + 2.0e8), HELD, draws)


def test_values_of_a_sampler_are_put_in_place():
    model, values = MODELS["squared"][0], RNG.normal(size=(5, N))
    found = redrawn_scores(ti.read_model(model), Rows(X=X, y=Y), HELD, [Draws(np.array([2]), values=values)])[0]
    drawn = X[HELD].copy()
    drawn[:, 2] = values[1, HELD]
    imp = ti.importance(model, drawn, Y[HELD], std_errors=False)
    assert found[2] == pytest.approx(imp.scores[2] * imp.sum_of_weights, rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        lambda a: pl.DataFrame(a, schema=[f"c{i}" for i in range(P)]),
        lambda a: pl.DataFrame(a, schema=[f"c{i}" for i in range(P)]).to_arrow(),
        scipy.sparse.csr_matrix,
        scipy.sparse.csr_array,
    ],
)
def test_a_column_is_put_into_any_table(make):
    table, values = make(X), np.arange(10.0)
    changed = put_column(take_rows(table, np.arange(10)), 3, values)
    assert type(changed) is type(table)
    dense = changed.toarray() if hasattr(changed, "toarray") else np.asarray(changed)
    expected = X[:10].copy()
    expected[:, 3] = values
    np.testing.assert_array_equal(dense, expected)


# -- the test itself -------------------------------------------------------------------------------------------
def test_the_formula():
    fit = cross_fit(xgb.XGBRegressor(**SHALLOW), checked_rows(X, Y), cv=3, repeats=2, random_state=0)
    found = conditional_test(fit, n_draws=12, random_state=1)
    np.testing.assert_allclose(found.scores, fit.importance.scores, rtol=1e-5, atol=1e-7)  # shares in float32
    sd = np.maximum(found.redrawn.std(axis=0, ddof=1), fit.importance.std_errors)
    np.testing.assert_allclose(found.std_errors, sd, rtol=1e-12)
    t = (found.scores - found.redrawn.mean(axis=0)) / (sd * np.sqrt(1 + 1 / 12))
    np.testing.assert_allclose(found.p_values, scipy.stats.t.sf(t, 11), rtol=1e-10)
    np.testing.assert_allclose(found.q_values, scipy.stats.false_discovery_control(found.p_values), rtol=1e-12)


def test_it_tells_a_signal_from_its_proxy():
    fit = cross_fit(xgb.XGBRegressor(colsample_bynode=0.3, **SHALLOW), checked_rows(X, Y), repeats=2, random_state=0)
    found = conditional_test(fit, random_state=0)
    assert fit.importance.q_values[1] < 0.01  # alone, the proxy has signal
    assert found.q_values[1] > 0.2  # beyond the true one it has none
    assert found.q_values[0] < 0.01


def test_members_of_a_set_share_their_numbers():
    twin = np.column_stack([X, X[:, 0] + 1e-3 * RNG.normal(size=N)])
    fit = cross_fit(xgb.XGBRegressor(colsample_bynode=0.5, **SHALLOW), checked_rows(twin, Y), random_state=0)
    alone = conditional_test(fit, random_state=0)
    assert min(alone.q_values[0], alone.q_values[P]) > 0.1  # given its twin neither tells more
    found = conditional_test(fit, sets=[(0, P)], random_state=0)
    assert (0, P) in found.sets
    assert found.q_values[0] == found.q_values[P] < 0.01
    assert found.scores[0] == pytest.approx(fit.importance.scores[[0, P]].sum(), rel=1e-5)


def test_standard_errors_of_shares_are_those_of_the_importance():
    for given in ({}, {"sample_weight": WEIGHT}, {"groups": np.arange(N) // 4}):
        fit = cross_fit(xgb.XGBRegressor(**SHALLOW), checked_rows(X, Y, **given), cv=3, random_state=0)
        own = fit.std_errors_of(fit.shares[:, :, 0])
        np.testing.assert_allclose(own, fit.importance.std_errors, rtol=1e-9)


def test_likeness_of_what_the_other_columns_tell():
    """A column that the others determine is redrawn nearly as it is; one that is independent of them is not."""
    told = X[:, 4] - 2 * X[:, 5]
    colour = np.where(X[:, 4] > 0, "red", "blue")
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(told=told, colour=pd.Categorical(colour), one=1.0)
    fit = cross_fit(xgb.XGBRegressor(enable_categorical=True, **SHALLOW), checked_rows(frame, Y), cv=2, random_state=0)
    found = conditional_test(fit, random_state=0)
    likeness = dict(zip(frame, found.likeness, strict=True))
    assert likeness["told"] > 0.9  # an exact function of two others
    assert abs(likeness["c"]) < 0.2  # independent of all others: the correlation of a permutation, sd 0.06
    assert likeness["colour"] > 0.7  # a function of one other, by levels
    assert likeness["one"] == 0.0
    assert set(found.hidden(0.1)) <= set(np.flatnonzero(found.likeness >= 0.9))


def test_columns_that_no_tree_uses():
    wide = np.column_stack([X, np.ones(N)])
    fit = cross_fit(xgb.XGBRegressor(**SHALLOW), checked_rows(wide, Y), cv=3, random_state=0)
    found = conditional_test(fit, random_state=0)
    assert (found.scores[P], found.std_errors[P], found.p_values[P]) == (0.0, 0.0, 1.0)


def test_reproducible_whatever_n_jobs():
    fit = cross_fit(xgb.XGBRegressor(**SHALLOW), checked_rows(X, Y), cv=3, random_state=0)
    one, two = (conditional_test(fit, random_state=4, n_jobs=j) for j in (1, 2))
    np.testing.assert_array_equal(one.redrawn, two.redrawn)
    assert not np.array_equal(one.redrawn, conditional_test(fit, random_state=5).redrawn)


def test_a_pipeline_in_the_columns_of_X():
    colour = RNG.choice(["red", "green", "blue"], N)
    y = Y + 2.0 * (colour == "red")
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(colour=colour)
    encode = make_column_transformer((OneHotEncoder(), ["colour"]), remainder=StandardScaler())
    pipe, rows = make_pipeline(encode, xgb.XGBRegressor(**SHALLOW)), checked_rows(frame, y)
    fit = cross_fit(pipe, rows, feature_groups="original", random_state=0)
    found = conditional_test(fit, random_state=0)
    assert set(np.flatnonzero(found.q_values < 0.05)) >= {0, 6}
    assert found.q_values[1] > 0.1


def test_interactions_made_before_the_model_are_refused():
    pipe = make_pipeline(PolynomialFeatures(2, include_bias=False), xgb.XGBRegressor(**SHALLOW))
    fit = cross_fit(pipe, checked_rows(X, Y), cv=2, random_state=0)
    with pytest.raises(ti.DataError, match="X has 6 columns, but the cross-validation scored 27 features"):
        conditional_test(fit)


def test_rows_held_out_more_than_once():
    fit = cross_fit(xgb.XGBRegressor(**SHALLOW), checked_rows(X, Y), cv=ShuffleSplit(8, test_size=0.5, random_state=0))
    found = conditional_test(fit, random_state=0)
    assert found.scores[0] == pytest.approx(fit.importance.scores[0], rel=0.1)  # rows count in proportion
    assert found.q_values[0] < 0.05


def test_a_sampler_of_ones_own():
    fit = cross_fit(xgb.XGBRegressor(**SHALLOW), checked_rows(X, Y), cv=KFold(3))

    def permuted(table, column, n_draws, rng):
        return rng.permuted(np.broadcast_to(table[:, column], (n_draws, N)), axis=1)

    found = conditional_test(fit, sampler=permuted, random_state=0)
    assert found.q_values[0] < 0.01
    with pytest.raises(ValueError, match=r"shape \(2,\) for column 0; expected \(20, 300\)"):
        conditional_test(fit, sampler=lambda *_: np.zeros(2))
    with pytest.raises(ValueError, match="draws single columns"):
        conditional_test(fit, sampler=permuted, sets=[(0, 1)])


def test_bad_arguments():
    fit = cross_fit(xgb.XGBRegressor(**SHALLOW), checked_rows(X, Y), cv=KFold(2))
    with pytest.raises(ValueError, match="5 or more"):
        conditional_test(fit, n_draws=1)
    with pytest.raises(ValueError, match="each in one set"):
        conditional_test(fit, sets=[(0, 1), (1, 2)])
    with pytest.raises(ValueError, match="from 0 to 5"):
        conditional_test(fit, sets=[(0, 9)])
