"""cross_importance: every row is scored by a model that has not seen it."""

from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, VotingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, ShuffleSplit, TimeSeriesSplit
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler, TargetEncoder

import treeinner as ti
from treeinner.scores.row_shares import row_shares
from treeinner.selection import conditional_test, cross_fit
from treeinner.selection.folds import checked_rows

RNG = np.random.default_rng(11)
N = 240
X = RNG.normal(size=(N, 5))
Y = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * RNG.normal(size=N)
CLASSES = np.where(Y > 0, "yes", "no")
WEIGHT = RNG.uniform(0.5, 2.0, N)


def booster(**settings):
    return xgb.XGBRegressor(**{"n_estimators": 15, "max_depth": 2, "n_jobs": 1, **settings})


class SpyXGB(xgb.XGBRegressor):
    """An XGBRegressor that writes down the first column of every row that its fit saw."""

    log: ClassVar[list] = []  # of all clones

    def fit(self, X, y, **given):
        watched = [np.asarray(rows)[:, 0] for rows, _ in given.get("eval_set") or ()]
        SpyXGB.log.append((np.asarray(X)[:, 0], *watched))
        return super().fit(X, y, **given)


class SpyStep(TransformerMixin, BaseEstimator):
    """A step of a pipeline that writes down what it was fitted on."""

    log: ClassVar[list] = []  # of all clones

    def fit(self, X, y=None):
        SpyStep.log.append(np.asarray(X)[:, 0])
        return self

    def transform(self, X):
        return np.asarray(X, np.float64)


# -- laws ----------------------------------------------------------------------------------------------------
def test_the_shares_are_those_of_the_folds():
    folds = list(KFold(4).split(X))
    found = cross_fit(booster(random_state=0), checked_rows(X, Y), cv=folds)
    by_hand = np.zeros((N, 5))
    for train, test in folds:
        model = booster(random_state=0).fit(X[train], Y[train])
        by_hand[test] = row_shares(model, X[test], Y[test]).shares[:, :, 0]
    np.testing.assert_array_equal(found.shares[:, :, 0], by_hand)
    np.testing.assert_allclose(found.importance.scores, by_hand.mean(axis=0), rtol=1e-12)
    std_error = by_hand.std(axis=0, ddof=1) / np.sqrt(N)  # of a mean of N independent shares
    np.testing.assert_allclose(found.importance.std_errors, std_error, rtol=1e-9)


def test_repeats_are_averaged_row_by_row():
    rows = checked_rows(X, Y)
    once = [cross_fit(booster(random_state=0), rows, cv=KFold(3, shuffle=True, random_state=s)) for s in (1, 2)]
    pairs = [pair for s in (1, 2) for pair in KFold(3, shuffle=True, random_state=s).split(X)]
    both = cross_fit(booster(random_state=0), rows, cv=pairs)
    np.testing.assert_allclose(both.shares, (once[0].shares + once[1].shares) / 2, atol=1e-15)


def test_the_sum_is_the_mean_of_the_folds():
    imp = ti.cross_importance(booster(), X, Y, cv=4, random_state=0)
    np.testing.assert_allclose(imp.scores, imp.folds.scores.mean(axis=0), rtol=1e-5)  # folds of one size; float32


def test_the_account_adds_up():
    imp = ti.cross_importance(booster(), X, Y, cv=4, score="loss", random_state=0)
    fall = imp.losses.before - imp.losses.after
    assert imp.scores.sum() + imp.base == pytest.approx(fall, rel=1e-5)  # shares are added in float32


def test_spread_and_stability():
    imp = ti.cross_importance(booster(), X, Y, cv=4, random_state=0)
    assert imp.folds.scores.shape == imp.folds.ranks.shape == (4, 5)
    np.testing.assert_allclose(imp.folds.std, imp.folds.scores.std(axis=0, ddof=1))
    pairs = [(a, b) for a in range(4) for b in range(a)]
    spearman = [
        pd.Series(imp.folds.scores[a]).corr(pd.Series(imp.folds.scores[b]), method="spearman") for a, b in pairs
    ]
    assert imp.folds.rank_stability == pytest.approx(np.mean(spearman))
    assert imp.top(2).folds.scores.shape == (4, 2)


def test_it_is_saved_and_loaded(tmp_path):
    imp = ti.cross_importance(booster(), X, Y, cv=3, random_state=0)
    imp.save(tmp_path / "cross.treeinner")
    again = ti.load(tmp_path / "cross.treeinner")
    np.testing.assert_array_equal(again.folds.scores, imp.folds.scores)
    np.testing.assert_array_equal(again.scores, imp.scores)


def test_reproducible_whatever_n_jobs():
    sampled = booster(subsample=0.5)
    one, two = (ti.cross_importance(sampled, X, Y, cv=3, repeats=2, random_state=5, n_jobs=j) for j in (1, 2))
    np.testing.assert_array_equal(one.scores, two.scores)
    np.testing.assert_array_equal(one.p_values, two.p_values)
    other = ti.cross_importance(sampled, X, Y, cv=3, repeats=2, random_state=6)
    assert not np.array_equal(one.scores, other.scores)


@pytest.mark.parametrize("make", [pd.DataFrame, lambda a: pl.DataFrame(a, schema=[f"c{i}" for i in range(5)])])
def test_frames_give_the_numbers_of_arrays(make):
    imp = ti.cross_importance(booster(), make(X), Y, cv=3, random_state=0)
    assert np.array_equal(imp.scores, ti.cross_importance(booster(), X, Y, cv=3, random_state=0).scores)


# -- no held-out row reaches a fit -----------------------------------------------------------------------------
def numbered():
    return np.column_stack([np.arange(N), X])


@pytest.mark.parametrize("stop", [None, 3])
def test_held_out_rows_never_reach_a_fit(stop):
    SpyXGB.log.clear()
    folds = list(KFold(4, shuffle=True, random_state=0).split(X))
    ti.cross_importance(SpyXGB(n_estimators=5, max_depth=2, early_stopping_rounds=stop), numbered(), Y, cv=folds)
    assert len(SpyXGB.log) == 4
    for (train, test), parts in zip(folds, SpyXGB.log, strict=True):
        assert len(parts) == (1 if stop is None else 2)
        seen = np.concatenate(parts)
        assert not set(seen) & set(test)
        assert sorted(seen) == sorted(train)  # and every training row is used, once
        if stop is not None:
            assert len(parts[1]) == pytest.approx(len(train) / 10, abs=1)


@pytest.mark.parametrize("stop", [None, 3])
def test_steps_of_a_pipeline_never_see_them_either(stop):
    SpyStep.log.clear()
    SpyXGB.log.clear()
    folds = list(KFold(3).split(X))
    pipe = make_pipeline(SpyStep(), SpyXGB(n_estimators=5, early_stopping_rounds=stop))
    ti.cross_importance(pipe, numbered(), Y, cv=folds)
    for (_, test), step, fit in zip(folds, SpyStep.log, SpyXGB.log, strict=True):
        assert not set(np.concatenate([step, *fit])) & set(test)
        assert set(step) == set(fit[0])  # what early stopping watches is not what the steps are fitted on


def test_a_target_encoder_of_noise_stays_noise():
    level = RNG.integers(0, 80, N)  # three rows a level: fitted on all rows it would carry their targets
    frame = pd.DataFrame({"x": X[:, 0], "level": level})
    noise = RNG.normal(size=N)
    pipe = make_pipeline(TargetEncoder(cv=3, random_state=0), booster())
    imp = ti.cross_importance(pipe, frame, noise, cv=4, repeats=2, random_state=0)
    assert imp.p_values.min() > 0.01
    leaky = TargetEncoder(smooth=0.01).fit(frame, noise).transform(frame)
    assert ti.cross_importance(booster(), leaky, noise, cv=4, random_state=0).p_values.min() < 1e-4


def test_an_eval_set_is_refused():
    with pytest.raises(ValueError, match="eval_set, whose rows may be held out"):
        ti.cross_importance(booster(), X, Y, fit_params={"eval_set": [(X, Y)]})


def test_early_stopping_out_of_reach_is_refused():
    search = GridSearchCV(booster(early_stopping_rounds=3), {"max_depth": [1, 2]}, cv=2)
    with pytest.raises(ti.UnsupportedModelError, match="stops early"):
        ti.cross_importance(search, X, Y)


def test_early_stopping_watches_the_latest_rows_in_time():
    SpyXGB.log.clear()
    ti.cross_importance(SpyXGB(n_estimators=5, early_stopping_rounds=2), numbered(), Y, cv=TimeSeriesSplit(3))
    for fit, watched in SpyXGB.log:
        assert fit.max() < watched.min()


# -- splitters and rows -----------------------------------------------------------------------------------------
def test_whole_groups_are_held_out_and_are_the_clusters():
    groups = np.arange(N) // 6
    found = cross_fit(booster(random_state=0), checked_rows(X, Y, groups=groups), cv=4, random_state=0)
    for fold in found.folds:
        outside = np.setdiff1d(np.arange(N), fold.rows)
        assert not set(groups[fold.rows]) & set(groups[outside])
    sums = np.add.reduceat(found.shares[:, :, 0], np.arange(0, N, 6))
    c = len(sums)
    std_error = np.sqrt(c / (c - 1) * ((sums - sums.mean(axis=0)) ** 2).sum(axis=0)) / N
    np.testing.assert_allclose(found.importance.std_errors, std_error, rtol=1e-6)
    assert found.importance.statistics.n_units == c


def test_rows_that_no_fold_holds_out_are_left_out_and_said():
    imp = ti.cross_importance(booster(), X, Y, cv=TimeSeriesSplit(3))
    assert imp.n_rows == 180
    assert any("60 rows of 240 were held out by no fold" in note for note in imp.notes)


def test_rows_held_out_twice_count_once():
    split = ShuffleSplit(6, test_size=0.5, random_state=0)
    found = cross_fit(booster(random_state=0), checked_rows(X, Y), cv=split)
    often = np.zeros(N)
    for _, test in split.split(X):
        often[test] += 1
    assert found.importance.n_rows == (often > 0).sum()


def test_sample_weights_are_used_in_fit_and_score():
    found = cross_fit(booster(random_state=0), checked_rows(X, Y, sample_weight=WEIGHT), cv=KFold(3))
    train, test = next(iter(KFold(3).split(X)))
    model = booster(random_state=0).fit(X[train], Y[train], sample_weight=WEIGHT[train])
    by_hand = row_shares(model, X[test], Y[test], sample_weight=WEIGHT[test])
    np.testing.assert_array_equal(found.shares[test], by_hand.shares)
    assert found.importance.sum_of_weights == pytest.approx(WEIGHT.sum())


def test_fit_params_are_cut_with_the_rows():
    rows = checked_rows(X, Y, fit_params={"sample_weight": WEIGHT})
    a = cross_fit(booster(random_state=0), rows, cv=KFold(3))
    model = a.folds[0].model.source
    train = next(iter(KFold(3).split(X)))[0]
    again = booster(random_state=0).fit(X[train], Y[train], sample_weight=WEIGHT[train])
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


def test_fit_params_of_a_pipeline_that_stops_early():
    pipe = Pipeline([("scale", StandardScaler()), ("boost", booster(random_state=0, early_stopping_rounds=3))])
    given = {"cv": KFold(3), "random_state": 0}
    found = [ti.cross_importance(pipe, X, Y, fit_params=p, **given) for p in ({}, {"boost__verbose": False})]
    np.testing.assert_array_equal(found[0].scores, found[1].scores)


def test_base_margin_reaches_fit_and_score():
    margin = 3.0 * X[:, 0]
    offset = Y + margin
    imp = ti.cross_importance(booster(base_score=0.0), X, offset, cv=KFold(3), base_margin=margin)
    plain = ti.cross_importance(booster(base_score=0.0), X, offset, cv=KFold(3))
    assert imp.losses.before < 0.5 * plain.losses.before


def test_queries_are_held_out_as_a_whole():
    qid = np.arange(N) // 8
    relevance = np.clip(np.rint(Y + 1), 0, 3).astype(int)
    ranker = xgb.XGBRanker(n_estimators=10, max_depth=2, objective="rank:ndcg", n_jobs=1)
    found = cross_fit(ranker, checked_rows(X, relevance, qid=qid), cv=3, random_state=0)
    for fold in found.folds:
        assert not set(qid[fold.rows]) & set(qid[np.setdiff1d(np.arange(N), fold.rows)])
    assert found.importance.order[0] == 0


# -- estimators ------------------------------------------------------------------------------------------------
def estimators():
    import catboost
    import lightgbm

    return {
        "xgboost": xgb.XGBClassifier(n_estimators=10, max_depth=2, early_stopping_rounds=3),
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=10, verbose=-1, early_stopping_round=3),
        "catboost": catboost.CatBoostClassifier(iterations=10, depth=2, verbose=0, early_stopping_rounds=3),
        "hist": HistGradientBoostingClassifier(max_iter=10, early_stopping=True),
        "pipeline": Pipeline([("scale", StandardScaler()), ("boost", HistGradientBoostingClassifier(max_iter=10))]),
        "search": GridSearchCV(HistGradientBoostingClassifier(max_iter=10), {"max_depth": [1, 2]}, cv=2),
    }


@pytest.mark.parametrize("name", list(estimators()))
def test_estimators_of_all_libraries(name):
    y = CLASSES if name != "xgboost" else (CLASSES == "yes").astype(int)
    weights = {"sample_weight": WEIGHT} if name in ("xgboost", "lightgbm", "catboost") else {}
    imp = ti.cross_importance(estimators()[name], X, y, cv=3, random_state=0, **weights)
    assert imp.order[0] == 0
    assert imp.verdicts[0] == "signal"
    assert imp.n_rows == N


def test_a_wrapper_of_several_models():
    vote = VotingRegressor([("a", booster(random_state=0)), ("b", HistGradientBoostingRegressor(max_iter=10))])
    found = cross_fit(vote, checked_rows(X, Y), cv=KFold(3))
    train, test = next(iter(KFold(3).split(X)))
    own = ti.importance(clone(vote).fit(X[train], Y[train]), X[test], Y[test])
    np.testing.assert_allclose(found.importance.folds.scores[0], own.scores, rtol=1e-12)
    with pytest.raises(ti.UnsupportedModelError, match="VotingRegressor holds several models"):
        conditional_test(found)


def test_models_of_lightgbm_cv():
    import lightgbm

    folds = list(KFold(3).split(X))
    params = {"verbose": -1, "num_leaves": 4}
    done = lightgbm.cv(params, lightgbm.Dataset(X, Y), 10, folds=folds, return_cvbooster=True)
    imp = ti.cross_importance(done, X, Y, cv=folds)
    again = ti.cross_importance(done["cvbooster"], X, Y, cv=KFold(3))
    for number, (_, test) in enumerate(folds):
        own = ti.importance(done["cvbooster"].boosters[number], X[test], Y[test])
        np.testing.assert_array_equal(imp.folds.scores[number], own.scores)
    np.testing.assert_array_equal(imp.scores, again.scores)


def test_models_of_catboost_cv():
    import catboost

    params = {"loss_function": "RMSE", "iterations": 8, "depth": 2, "logging_level": "Silent"}
    folds = list(KFold(3).split(X))
    done = catboost.cv(catboost.Pool(X, Y), params, folds=folds, return_models=True)
    assert ti.cross_importance(done, X, Y, cv=folds).order[0] == 0


def test_models_of_xgboost_cv():
    class Keep(xgb.callback.TrainingCallback):
        def after_training(self, model):
            self.model = model
            return model

    keep, folds = Keep(), list(KFold(3).split(X))
    xgb.cv({"max_depth": 2}, xgb.DMatrix(X, Y), 10, folds=folds, callbacks=[keep])
    imp = ti.cross_importance(keep.model, X, Y, cv=folds)
    np.testing.assert_array_equal(
        imp.scores, ti.cross_importance([f.bst for f in keep.model.cvfolds], X, Y, cv=[t for _, t in folds]).scores
    )


def test_folds_that_were_trained_on_are_noticed():
    folds = list(KFold(3).split(X))
    models = [booster().fit(X[train], Y[train]) for train, _ in folds]
    with pytest.warns(ti.TreeInnerWarning, match="rows that the model was trained on"):
        ti.cross_importance(models, X, Y, cv=[train for train, _ in folds])


# -- bad input -------------------------------------------------------------------------------------------------
def test_fewer_rows_than_folds():
    with pytest.raises(ti.DataError, match="X has only 4 rows"):
        ti.cross_importance(booster(), X[:4], Y[:4], cv=5)


def test_a_class_that_a_fold_lacks():
    y = (np.arange(N) < 3).astype(int)
    model = xgb.XGBClassifier(n_estimators=3)
    with pytest.raises(ti.DataError, match="Class 1 has 3 rows, fewer than the 5 folds"):
        ti.cross_importance(model, X, y)
    with pytest.raises(ti.DataError, match="no row of class 1"):
        ti.cross_importance(model, X, y, cv=KFold(3))


def test_an_estimator_that_is_not_of_trees():
    with pytest.raises(ti.UnsupportedModelError, match="LinearRegression"):
        ti.cross_importance(LinearRegression(), X, Y)


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"cv": 1}, ValueError, "at least 2 folds"),
        ({"cv": "five"}, TypeError, "pairs"),
        ({"cv": None}, TypeError, "expected a number of folds"),
        ({"cv": [(np.arange(N), np.arange(10))]}, ti.DataError, "fits on rows that it holds out"),
        ({"cv": [(np.arange(9), np.array([N]))]}, ti.DataError, "names row 240"),
        ({"cv": [(np.arange(9), np.array([], int))]}, ti.DataError, "no test rows"),
        ({"cv": GroupKFold(3)}, ti.DataError, "GroupKFold cannot split"),
        ({"repeats": 0}, ValueError, "1 or more"),
        ({"score": "abs"}, ValueError, "cross-fitting takes"),
        ({"sample_weight": WEIGHT[:5]}, ti.DataError, "sample_weight has 5 values"),
        ({"clusters": WEIGHT[:5]}, ti.DataError, "clusters has 5 labels"),
        ({"confidence": 2}, ti.DataError, "confidence"),
        ({"learning_rat": 1}, TypeError, "learning_rat"),
    ],
)
def test_bad_arguments(settings, error, match):
    with pytest.raises(error, match=match):
        ti.cross_importance(booster(), X, Y, **settings)


def test_models_need_their_folds():
    models = [booster().fit(X, Y)] * 2
    with pytest.raises(TypeError, match="need the rows that each was not fitted on"):
        ti.cross_importance(models, X, Y)
    with pytest.raises(ValueError, match="2 models but 3 folds"):
        ti.cross_importance(models, X, Y, cv=KFold(3))
    with pytest.raises(ValueError, match="cannot be fitted again"):
        ti.cross_importance(models, X, Y, cv=KFold(2), repeats=2)
    with pytest.raises(ValueError, match="list of models is empty"):
        ti.cross_importance([], X, Y)


def test_the_estimator_itself_is_not_touched():
    model = HistGradientBoostingRegressor(max_iter=5)
    before = clone(model).get_params()
    ti.cross_importance(model, X, Y, cv=2)
    assert model.get_params() == before
    assert not hasattr(model, "n_features_in_")
