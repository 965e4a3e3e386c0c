"""cross_importance: every row is scored by a model that has not seen it."""

import warnings
from typing import ClassVar

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder

import treeinner as ti

pytestmark = pytest.mark.filterwarnings("ignore:Few rows carry")
RNG = np.random.default_rng(11)
N = 240
X = RNG.normal(size=(N, 5))
Y = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * RNG.normal(size=N)
CLASSES = np.where(Y > 0, "yes", "no")
WEIGHT = RNG.uniform(0.5, 2.0, N)
GROUPS = np.arange(N) // 6


def booster(**settings):
    return xgb.XGBRegressor(**{"n_estimators": 15, "max_depth": 2, "n_jobs": 1, **settings})


def cross(estimator, X=X, y=Y, **settings):
    """One process: starting more takes longer than these fits."""
    return ti.cross_importance(estimator, X, y, **{"n_jobs": 1, **settings})


def numbered():
    """The rows with their number in the first column."""
    return np.column_stack([np.arange(N), X])


class SpyXGB(xgb.XGBRegressor):
    """An XGBRegressor that writes down the first column of every row that its fit saw."""

    log: ClassVar[list] = []  # of all clones

    def fit(self, X, y, **given):
        SpyXGB.log.append(np.asarray(X)[:, 0])
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
def one_tree(train, test, weight=None):
    """A single tree, and the shares of held-out rows: attribution times residual, weight included."""
    given = {} if weight is None else {"sample_weight": weight[train]}
    model = booster(n_estimators=1, max_depth=4, base_score=0.25, random_state=0).fit(X[train], Y[train], **given)
    residual = (Y[test] - 0.25) * (1.0 if weight is None else weight[test])
    return ti.attribute(model, X[test], method="treeshap").values * residual[:, None]


def stump(**settings):
    return booster(n_estimators=1, max_depth=4, base_score=0.25, random_state=0, **settings)


@pytest.mark.parametrize("weight", [None, WEIGHT, WEIGHT * 1e12])
@pytest.mark.parametrize("groups", [None, GROUPS])
def test_scores_and_errors_are_those_of_the_rows(weight, groups):
    """Rows held out by several folds count once, with the mean of their shares; of groups the sums are independent."""
    split = (ShuffleSplit if groups is None else GroupShuffleSplit)(6, test_size=0.4, random_state=0)
    pairs = list(split.split(X, groups=groups))
    asked = {"score": "tree_inner", "method": "treeshap"}
    found = cross(stump(), cv=pairs, **asked, sample_weight=weight, clusters=groups)
    shares, counts = np.zeros((N, 5)), np.zeros(N)
    for train, test in pairs:
        shares[test] += one_tree(train, test, weight)
        counts[test] += 1
    seen = counts > 0
    shares = shares[seen] / counts[seen, None]
    total = seen.sum() if weight is None else weight[seen].sum()
    np.testing.assert_allclose(found.scores, shares.sum(axis=0) / total, rtol=1e-5, atol=1e-7)  # steps are float32
    units = shares if groups is None else pd.DataFrame(shares).groupby(groups[seen]).sum().to_numpy()
    expected = np.sqrt(len(units)) * units.std(axis=0, ddof=1) / total
    np.testing.assert_allclose(found.std_errors, expected, rtol=1e-5)
    assert found.sum_of_weights == pytest.approx(total)
    assert found.n_rows == seen.sum()


def test_scores_of_a_fold_are_those_of_its_model():
    folds = list(KFold(4).split(X))
    imp = cross(booster(random_state=0), cv=folds)
    for number, (train, test) in enumerate(folds):
        model = booster(random_state=0).fit(X[train], Y[train])
        np.testing.assert_array_equal(imp.folds.scores[number], ti.importance(model, X[test], Y[test]).scores)
    np.testing.assert_allclose(imp.scores, imp.folds.scores.mean(axis=0), rtol=1e-5)  # folds of one size; float32
    assert imp.score == "signal"


def test_what_holds_is_the_slope_over_all_folds():
    """Squared error: the regression through 0 of what is left without the feature on what it contributes."""
    folds = list(KFold(4).split(X))
    imp = cross(booster(random_state=0), cv=folds)
    products, squares = np.zeros(5), np.zeros(5)
    for train, test in folds:
        model = booster(random_state=0).fit(X[train], Y[train])
        own = ti.importance(model, X[test], Y[test])
        effect = ti.attribute(model, X[test], method="centred", reference=own).values
        left = (Y[test] - model.predict(X[test]))[:, None] + effect
        products, squares = products + (effect * left).sum(axis=0), squares + (effect**2).sum(axis=0)
    np.testing.assert_allclose(imp.holds, products / squares, rtol=1e-4)  # predict is float32


def test_repeats_are_averaged():
    seeds = (1, 2)
    once = [cross(booster(random_state=0), cv=KFold(3, shuffle=True, random_state=s)) for s in seeds]
    pairs = [pair for s in seeds for pair in KFold(3, shuffle=True, random_state=s).split(X)]
    both = cross(booster(random_state=0), cv=pairs)
    np.testing.assert_allclose(both.scores, (once[0].scores + once[1].scores) / 2, atol=1e-15)
    assert cross(booster(), repeats=2, cv=3).folds.scores.shape == (6, 5)


def test_the_loss_breakdown_adds_up():
    imp = cross(booster(), cv=4, score="loss")
    fall = imp.losses.before - imp.losses.after
    assert imp.scores.sum() + imp.base == pytest.approx(fall, rel=1e-5)  # shares are added in float32
    parts = [0.5 * (Y[test] - booster(base_score=0).fit(X[train], Y[train]).predict(X[test])) ** 2
             for train, test in KFold(4).split(X)]  # fmt: skip
    after = cross(booster(base_score=0), cv=KFold(4), score="loss").losses.after
    assert after == pytest.approx(np.concatenate(parts).mean(), rel=1e-5)


def test_spread_and_stability():
    imp = cross(booster(), cv=4)
    assert imp.folds.scores.shape == imp.folds.ranks.shape == (4, 5)
    np.testing.assert_allclose(imp.folds.std, imp.folds.scores.std(axis=0, ddof=1))
    ranks = pd.DataFrame(imp.folds.scores.T)
    pairs = [ranks[a].corr(ranks[b], method="spearman") for a in range(4) for b in range(a)]
    assert imp.folds.rank_stability == pytest.approx(np.mean(pairs))
    assert imp.top(2).folds.scores.shape == (4, 2)
    with pytest.raises(ValueError, match="folds"):
        imp.by_round()


def test_the_same_call_gives_the_same_numbers_whatever_n_jobs():
    sampled = booster(subsample=0.5)
    one, two, again = (cross(sampled, cv=3, repeats=2, n_jobs=j) for j in (1, 2, 1))
    for other in (two, again):
        np.testing.assert_array_equal(one.scores, other.scores)
        np.testing.assert_array_equal(one.p_values, other.p_values)
    assert not np.array_equal(one.scores, cross(sampled, cv=3, repeats=2, random_state=6).scores)
    unseeded = [cross(sampled, cv=ShuffleSplit(2)).scores for _ in range(2)]
    np.testing.assert_array_equal(*unseeded)


# -- no held-out row reaches a fit -----------------------------------------------------------------------------
def test_held_out_rows_never_reach_a_fit():
    SpyXGB.log.clear()
    SpyStep.log.clear()
    folds = list(KFold(4, shuffle=True, random_state=0).split(X))
    cross(make_pipeline(SpyStep(), SpyXGB(n_estimators=3)), numbered(), cv=folds)
    for (train, _), fit, step in zip(folds, SpyXGB.log, SpyStep.log, strict=True):
        assert sorted(fit) == sorted(step) == sorted(train)


def test_a_target_encoder_of_noise_stays_noise():
    level = RNG.integers(0, 80, N)  # three rows a level: fitted on all rows it would carry their targets
    frame = pd.DataFrame({"x": X[:, 0], "level": level})
    noise = RNG.normal(size=N)
    pipe = make_pipeline(TargetEncoder(cv=3), booster())
    assert cross(pipe, frame, noise, cv=4, repeats=2).p_values.min() > 0.01
    leaky = TargetEncoder(smooth=0.01).fit(frame, noise).transform(frame)
    assert cross(booster(), leaky, noise, cv=4).p_values.min() < 1e-4


STOPPING = {
    "xgboost": booster(early_stopping_rounds=3),
    "xgboost callback": booster(callbacks=[xgb.callback.EarlyStopping(3)]),
    "lightgbm": lightgbm.LGBMRegressor(early_stopping_round=3),
    "catboost": catboost.CatBoostRegressor(early_stopping_rounds=3),
    "in a pipeline": make_pipeline(StandardScaler(), booster(early_stopping_rounds=3)),
    "in a search": GridSearchCV(booster(early_stopping_rounds=3), {"max_depth": [1, 2]}),
}


@pytest.mark.parametrize("name", STOPPING)
def test_what_stops_early_is_refused_before_any_fit(name):
    with pytest.raises(ti.UnsupportedModelError, match="stops early"):
        cross(STOPPING[name])


def test_rows_to_watch_are_refused():
    with pytest.raises(ValueError, match="eval_set"):
        cross(booster(), fit_params={"eval_set": [(X, Y)]})
    with pytest.raises(ti.UnsupportedModelError, match="stops early"):
        cross(lightgbm.LGBMRegressor(), fit_params={"callbacks": [lightgbm.early_stopping(3)]})


# -- splitters and rows -----------------------------------------------------------------------------------------
def test_whole_clusters_are_held_out():
    SpyXGB.log.clear()
    imp = cross(SpyXGB(n_estimators=3), numbered(), cv=4, clusters=GROUPS)
    assert len(SpyXGB.log) == 4
    for seen in SpyXGB.log:
        inside = np.isin(np.arange(N), seen)
        assert not set(GROUPS[inside]) & set(GROUPS[~inside])
    assert imp.df.max() <= len(set(GROUPS)) - 1


@pytest.mark.parametrize("cv", [KFold(4, shuffle=True, random_state=0), list(ShuffleSplit(2, random_state=0).split(X))])
def test_folds_that_tear_a_cluster_are_refused(cv):
    with pytest.raises(ti.DataError, match=r"some rows of clusters \d+ and fits on others of it; .*GroupKFold"):
        cross(booster(), cv=cv, clusters=GROUPS)


def test_a_patients_code_is_no_signal():
    """With the rows of a patient in one fold only, what is known of other patients tells nothing."""
    rng = np.random.default_rng(2)
    patient = rng.permutation(N // 6)[GROUPS]
    y = rng.normal(size=N // 6)[GROUPS] + 0.3 * rng.normal(size=N)
    table = np.column_stack([patient, X])
    whole = cross(booster(n_estimators=100, max_depth=6), table, y, clusters=patient)
    torn = cross(booster(n_estimators=100, max_depth=6), table, y)
    assert torn.p_values[0] < 1e-6
    assert whole.p_values[0] > 0.01


def test_queries_are_held_out_as_a_whole():
    qid = np.arange(N) // 8
    relevance = np.clip(np.rint(Y + 1), 0, 3).astype(int)
    for ranker in (
        xgb.XGBRanker(n_estimators=10, max_depth=2, objective="rank:ndcg", n_jobs=1),
        lightgbm.LGBMRanker(n_estimators=10, verbose=-1, n_jobs=1),
    ):
        imp = cross(ranker, y=relevance, cv=3, qid=qid)
        assert imp.order[0] == 0
    shuffled = RNG.permutation(qid)
    with pytest.raises(ti.DataError, match="next to each other"):
        cross(ranker, y=relevance, cv=3, qid=shuffled)


def test_rows_that_no_fold_holds_out_are_left_out_and_noted():
    imp = cross(booster(), cv=TimeSeriesSplit(3))
    assert imp.n_rows == 180
    assert "not_held_out" in {note.code for note in imp.notes}


def test_fit_params_are_cut_with_the_rows():
    given = cross(booster(random_state=0), cv=KFold(3), fit_params={"sample_weight": WEIGHT, "verbose": False})
    train, test = next(iter(KFold(3).split(X)))
    model = booster(random_state=0).fit(X[train], Y[train], sample_weight=WEIGHT[train])
    np.testing.assert_array_equal(given.folds.scores[0], ti.importance(model, X[test], Y[test]).scores)


@pytest.mark.parametrize(
    "estimator",
    [
        booster(base_score=0.0),
        lightgbm.LGBMRegressor(n_estimators=15, verbose=-1, n_jobs=1),
        catboost.CatBoostRegressor(iterations=15, verbose=0, thread_count=1, allow_writing_files=False),
        Pipeline([("scale", StandardScaler()), ("boost", booster(base_score=0.0))]),
    ],
    ids=["xgboost", "lightgbm", "catboost", "pipeline"],
)
def test_base_margin_reaches_fit_and_score(estimator):
    margin = 3.0 * X[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ti.TreeInnerWarning)  # nothing was assumed about the start
        imp = cross(estimator, y=Y + margin, cv=3, base_margin=margin)
    assert imp.losses.before < 0.5 * np.var(Y + margin) / 2
    assert imp.scores.argmax() == 0  # what is left of it: Y itself


# -- estimators ------------------------------------------------------------------------------------------------
ESTIMATORS = {
    "xgboost": xgb.XGBClassifier(n_estimators=10, max_depth=2, n_jobs=1),
    "lightgbm": lightgbm.LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1),
    "catboost": catboost.CatBoostClassifier(iterations=10, depth=2, verbose=0, allow_writing_files=False),
    "hist": HistGradientBoostingClassifier(max_iter=10, early_stopping=True),
    "pipeline": Pipeline([("scale", StandardScaler()), ("boost", HistGradientBoostingClassifier(max_iter=10))]),
    "search": GridSearchCV(HistGradientBoostingClassifier(max_iter=10), {"max_depth": [1, 2]}, cv=2),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_of_all_libraries(name):
    y = CLASSES if name != "xgboost" else (CLASSES == "yes").astype(int)
    weights = {"sample_weight": WEIGHT} if name in ("xgboost", "lightgbm", "catboost", "hist") else {}
    imp = cross(ESTIMATORS[name], y=y, cv=3, **weights)
    assert imp.order[0] == 0
    assert imp.verdicts[0] == "signal"
    assert imp.n_rows == N


def test_an_average_of_models():
    vote = VotingRegressor([("a", booster(random_state=0)), ("b", HistGradientBoostingRegressor(max_iter=10))])
    imp = cross(vote, cv=KFold(3))
    train, test = next(iter(KFold(3).split(X)))
    own = ti.importance(clone(vote).fit(X[train], Y[train]), X[test], Y[test])
    np.testing.assert_allclose(imp.folds.scores[0], own.scores, rtol=1e-12)


def test_a_pipeline_is_scored_by_its_own_columns_also_where_a_fold_lacks_a_level():
    frame = pd.DataFrame({"town": RNG.choice(["Ulm", "Bonn"], N), "x": X[:, 0]})
    frame.loc[:1, "town"] = "Kiel"  # held out together, so that one fold never saw it
    y = Y + 3 * (frame["town"] == "Ulm")
    pipe = make_pipeline(Pipeline([("encode", OneHotEncoder(sparse_output=False, handle_unknown="ignore"))]), booster())
    imp = cross(pipe, frame.assign(x=frame["x"].round()), y, cv=KFold(4))
    assert imp.feature_names == ("town", "x")
    assert imp.verdicts == ("signal", "signal")
    own, encoded = (
        cross(pipe, frame.assign(x=frame["x"].round()), y, cv=KFold(4), score="tree_inner", feature_groups=groups)
        for groups in (None, "encoded")
    )
    assert encoded.scores.sum() == pytest.approx(own.scores.sum(), rel=1e-6)
    assert len(encoded.feature_names) > 2


# -- models that were fitted before ----------------------------------------------------------------------------
def test_models_of_lightgbm_cv():
    folds = list(KFold(3).split(X))
    params = {"verbose": -1, "num_leaves": 4, "num_threads": 1}
    done = lightgbm.cv(params, lightgbm.Dataset(X, Y), 10, folds=folds, return_cvbooster=True)
    boosters = done["cvbooster"].boosters
    imp = cross(boosters, cv=folds)
    for number, (_, test) in enumerate(folds):
        own = ti.importance(boosters[number], X[test], Y[test])
        np.testing.assert_array_equal(imp.folds.scores[number], own.scores)
    np.testing.assert_array_equal(imp.scores, cross(boosters, cv=KFold(3)).scores)


def test_models_of_catboost_cv():
    params = {
        "loss_function": "RMSE",
        "iterations": 8,
        "depth": 2,
        "logging_level": "Silent",
        "allow_writing_files": False,
    }
    folds = list(KFold(3).split(X))
    _, models = catboost.cv(catboost.Pool(X, Y), params, folds=folds, return_models=True)
    assert cross(models, cv=folds).order[0] == 0


def test_models_of_xgboost_cv():
    class Keep(xgb.callback.TrainingCallback):
        def after_training(self, model):
            self.model = model
            return model

    keep, folds = Keep(), list(KFold(3).split(X))
    xgb.cv({"max_depth": 2, "nthread": 1}, xgb.DMatrix(X, Y), 10, folds=folds, callbacks=[keep])
    boosters = [fold.bst for fold in keep.model.cvfolds]
    assert cross(boosters, cv=folds).order[0] == 0


def fitted(estimator, y, folds):
    return [clone(estimator).fit(X[train], y[train]) for train, _ in folds]


FITTED = {
    "xgboost": (booster(), Y),
    "xgboost classes": (xgb.XGBClassifier(n_estimators=5, n_jobs=1), np.digitize(Y, [-1, 1])),
    "xgboost poisson": (booster(objective="count:poisson"), np.exp(Y).round()),
    "lightgbm": (lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1), Y),
    "catboost": (catboost.CatBoostRegressor(iterations=5, depth=3, verbose=0, allow_writing_files=False), Y),
    "hist": (HistGradientBoostingClassifier(max_iter=5), CLASSES),
    "trees": (GradientBoostingRegressor(n_estimators=5), Y),
    "forest": (RandomForestRegressor(5, random_state=0), Y),
    "extra trees": (ExtraTreesClassifier(5, random_state=0), CLASSES),
    "pipeline": (make_pipeline(StandardScaler(), booster()), Y),
}


@pytest.mark.parametrize("name", FITTED)
def test_models_with_folds_that_are_not_theirs_are_refused(name):
    estimator, y = FITTED[name]
    folds, others = (list(KFold(3, shuffle=True, random_state=s).split(X)) for s in (0, 1))
    models = fitted(estimator, y, folds)
    same = KFold(3, shuffle=True, random_state=0)
    np.testing.assert_array_equal(cross(models, y=y, cv=same).scores, cross(models, y=y, cv=folds).scores)
    for cv in (others, [folds[1], folds[2], folds[0]]):
        with pytest.raises(ti.DataError, match="not fitted on the training rows of its fold"):
            cross(models, y=y, cv=cv)


SAMPLED = {
    "xgboost": booster(subsample=0.7, random_state=0),
    "gamma": booster(objective="reg:gamma"),  # its second derivatives differ from row to row
    "lightgbm": lightgbm.LGBMRegressor(n_estimators=5, subsample=0.5, subsample_freq=1, verbose=-1, n_jobs=1),
    "stopped": HistGradientBoostingRegressor(max_iter=5, early_stopping=True),
}


@pytest.mark.filterwarnings("ignore::treeinner.TreeInnerWarning")
@pytest.mark.parametrize("name", SAMPLED)
def test_models_of_samples_of_the_rows_are_not_judged(name):
    folds = list(KFold(3).split(X))
    assert cross(fitted(SAMPLED[name], np.exp(Y), folds), y=np.exp(Y), cv=folds).n_rows == N


def test_folds_that_were_trained_on_are_noticed():
    """Also where nothing can be counted, for the models are of samples of the rows."""
    folds = list(KFold(3).split(X))
    models = fitted(booster(subsample=0.8, random_state=0), Y, folds)
    with pytest.warns(ti.TreeInnerWarning, match="Training rows"):
        cross(models, cv=[pair[::-1] for pair in folds])


def test_models_need_their_folds():
    models = [booster().fit(X, Y)] * 2
    moving = KFold(2, shuffle=True, random_state=np.random.RandomState(0))
    for cv in (5, KFold(2, shuffle=True), ShuffleSplit(2), RepeatedKFold(n_splits=2, n_repeats=1), moving):
        with pytest.raises(ValueError, match="rows that each was not fitted on"):
            cross(models, cv=cv)
    with pytest.raises(ValueError, match="2 models but 3 folds"):
        cross(models, cv=KFold(3))
    with pytest.raises(ValueError, match="cannot be fitted again"):
        cross(models, cv=KFold(2), repeats=2)
    with pytest.raises(ValueError, match="empty"):
        cross([])


# -- bad input -------------------------------------------------------------------------------------------------
def test_a_class_that_a_fold_lacks():
    y = (np.arange(N) < 3).astype(int)
    with pytest.raises(ti.DataError, match="no row of class 1"):
        cross(xgb.XGBClassifier(n_estimators=3), y=y, cv=KFold(3))


def test_margins_that_the_estimator_cannot_take():
    with pytest.raises(ValueError, match="base_margin has no meaning"):
        cross(HistGradientBoostingRegressor(), base_margin=WEIGHT)


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"cv": 1}, ValueError, "n_splits=2"),
        ({"cv": N + 1}, ti.DataError, "greater than the number of samples"),
        ({"cv": "five"}, ValueError, "cv"),
        ({"cv": [(np.arange(N), np.arange(10))]}, ti.DataError, "fits on rows that it holds out"),
        ({"cv": [(np.arange(9), np.array([N]))]}, ti.DataError, "names row 240"),
        ({"cv": [(np.arange(9), np.array([], int))]}, ValueError, "Fold 0"),
        ({"cv": [(np.arange(9),)]}, ti.DataError, "train and test"),
        ({"cv": GroupKFold(3)}, ti.DataError, "groups"),
        ({"repeats": 0}, ValueError, "1 or more"),
        ({"score": "abs"}, ValueError, "mean_abs|score"),
        ({"method": "shap"}, ValueError, "treeshap"),
        ({"sample_weight": WEIGHT[:5]}, ti.DataError, "sample_weight has 5"),
        ({"sample_weight": 0 * WEIGHT}, ti.DataError, "zero in every row"),
        ({"clusters": WEIGHT[:5]}, ti.DataError, "clusters has 5 labels"),
        ({"base_margin": WEIGHT[:5]}, ti.DataError, "base_margin has 5"),
        ({"learning_rate": 1}, TypeError, "learning_rate"),
    ],
)
def test_bad_arguments(settings, error, match):
    with pytest.raises(error, match=match):
        cross(booster(), **settings)


def test_rows_of_folds_by_masks():
    folds = list(KFold(3).split(X))
    masks = [tuple(np.isin(np.arange(N), rows) for rows in pair) for pair in folds]
    np.testing.assert_array_equal(cross(booster(), cv=masks).scores, cross(booster(), cv=folds).scores)


def test_models_of_other_numbers_of_classes_are_refused():
    (first, second), y = list(KFold(2).split(X)), np.arange(N) % 3
    two = xgb.XGBClassifier(n_estimators=3).fit(X[first[0]], y[first[0]] % 2)
    three = xgb.XGBClassifier(n_estimators=3).fit(X[second[0]], y[second[0]])
    with pytest.raises(ti.DataError, match="fold 1 has 3 outputs, that of fold 0 1"):
        cross([two, three], y=y % 2, cv=[first, second])


def test_one_fold_has_no_stability():
    assert np.isnan(cross(booster(), cv=[(np.arange(100), np.arange(100, N))]).folds.rank_stability)
