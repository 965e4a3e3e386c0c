"""Wrappers of several models: the members, added up with the wrapper's own weights; or a refusal with the reason."""

import copy
import pickle
import warnings

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from sklearn import ensemble as sk
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.feature_selection import RFE, RFECV, SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

import treeinner as ti
from treeinner.scores.row_shares import importance_of_shares, row_shares

RNG = np.random.default_rng(7)
N = 240  # rows of either half
ALL = RNG.normal(size=(2 * N, 4))
SUM = ALL[:, 0] + 0.7 * ALL[:, 1] ** 2 + 0.4 * RNG.normal(size=2 * N)
X, X_VALID = ALL[:N], ALL[N:]
Y, Y_VALID = SUM[:N], SUM[N:]
NAMES = ["my col", "b", "c", "d"]  # LightGBM keeps the first as my_col
FRAME, FRAME_VALID = (pd.DataFrame(x, columns=NAMES) for x in (X, X_VALID))
TWO, TWO_VALID = (np.where(y > 0.6, "yes", "no") for y in (Y, Y_VALID))
THREE, THREE_VALID = (np.array(["low", "mid", "top"])[np.digitize(y, [0.1, 1.2])] for y in (Y, Y_VALID))
PAIR, PAIR_VALID = (np.column_stack([y, x[:, 2] - y]) for x, y in ((X, Y), (X_VALID, Y_VALID)))
WEIGHT = RNG.uniform(0.5, 2.0, size=N)
CLUSTERS = np.arange(N) // 4
# Sums of the same float64 shares in another order.
SAME = {"rtol": 1e-9, "atol": 1e-14}


def boosters():
    """A regressor of every library."""
    return {
        "xgb": xgboost.XGBRegressor(n_estimators=8, max_depth=3, learning_rate=0.2, n_jobs=1),
        "lgb": lightgbm.LGBMRegressor(n_estimators=8, num_leaves=6, learning_rate=0.2, verbose=-1, n_jobs=1),
        "cat": catboost.CatBoostRegressor(
            iterations=8, depth=3, learning_rate=0.2, verbose=0, allow_writing_files=False, thread_count=1
        ),
        "hist": sk.HistGradientBoostingRegressor(max_iter=8, max_leaf_nodes=6, learning_rate=0.2),
    }


def classifiers():
    """A classifier of every library."""
    return {
        "xgb": xgboost.XGBClassifier(n_estimators=6, max_depth=3, learning_rate=0.2, n_jobs=1),
        "lgb": lightgbm.LGBMClassifier(n_estimators=6, num_leaves=6, learning_rate=0.2, verbose=-1, n_jobs=1),
        "cat": catboost.CatBoostClassifier(
            iterations=6, depth=3, learning_rate=0.2, verbose=0, allow_writing_files=False, thread_count=1
        ),
        "hist": sk.HistGradientBoostingClassifier(max_iter=6, max_leaf_nodes=6, learning_rate=0.2),
    }


def xgb(**more):
    return xgboost.XGBRegressor(**{"n_estimators": 8, "max_depth": 3, "learning_rate": 0.2, "n_jobs": 1, **more})


def lgb(**more):
    return lightgbm.LGBMClassifier(n_estimators=6, num_leaves=6, learning_rate=0.2, verbose=-1, n_jobs=1, **more)


def check_same(a, b):
    """Two importances are one: scores, errors, tests, outputs."""
    assert a.feature_names == b.feature_names
    for name in ("scores", "std_errors", "ci_low", "p_values", "q_values"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), err_msg=name, **SAME)
    assert (a.outputs is None) == (b.outputs is None)
    if a.outputs is not None:
        np.testing.assert_allclose(a.outputs.score, b.outputs.score, **SAME)
        np.testing.assert_allclose(a.outputs.std_error, b.outputs.std_error, **SAME)
    assert (a.n_rows, a.sum_of_weights) == (b.n_rows, pytest.approx(b.sum_of_weights))


def by_hand(parts, weights, **more):
    """Importance of the weighted sum of the members' row shares, which the standard errors are of."""
    shares = sum(w * part.shares for w, part in zip(weights, parts, strict=True))
    return importance_of_shares(shares, parts[0].weight, like=parts[0].importance, **more)


# -- averages ------------------------------------------------------------------------------------------------
def test_voting_is_the_weighted_sum_of_its_members_in_all_four_libraries():
    weights = [4, 3, 2, 1]
    model = sk.VotingRegressor(list(boosters().items()), weights=weights).fit(FRAME, Y)
    found = ti.importance(model, FRAME_VALID, Y_VALID)
    parts = [row_shares(member, FRAME_VALID, Y_VALID) for member in model.estimators_]
    by_members = sum(w / 10 * part.importance.scores for w, part in zip(weights, parts, strict=True))
    np.testing.assert_allclose(found.scores, by_members, **SAME)
    expected = by_hand(parts, np.array(weights) / 10)
    # the scores of members come from sums by leaf, shares from float32 tables of the core
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(found.std_errors, expected.std_errors, rtol=1e-6)
    assert found.feature_names == tuple(NAMES)  # "my col" is LightGBM's "my_col"
    assert "with the weights xgb 0.4, lgb 0.3, cat 0.2, hist 0.1" in found.notes[0]
    assert found.to_frame()["feature"][0] in ("my col", "b")
    assert list(found.verdicts[:2]) == ["signal"] * 2


@pytest.mark.parametrize("name", boosters())
def test_one_member_or_the_same_one_twice_is_the_member(name):
    booster = boosters()[name]
    alone = sk.VotingRegressor([("a", booster)]).fit(FRAME, Y)
    twice = sk.VotingRegressor([("a", booster), ("b", copy.deepcopy(booster))], weights=[1, 3]).fit(FRAME, Y)
    member = ti.importance(alone.estimators_[0], FRAME_VALID, Y_VALID)
    for given in ({}, {"sample_weight": WEIGHT}, {"clusters": CLUSTERS}, {"confidence": 0.8}):
        member = ti.importance(alone.estimators_[0], FRAME_VALID, Y_VALID, **given)
        for model in (alone, twice):
            found = ti.importance(model, FRAME_VALID, Y_VALID, **given)
            assert found.scores[0] > 0
            np.testing.assert_allclose(found.scores, member.scores, **SAME)
            np.testing.assert_allclose(found.std_errors, member.std_errors, rtol=1e-6)  # float32 in the core
            # steps of the histogram of sizes follow the largest share
            np.testing.assert_allclose(found.p_values, member.p_values, rtol=0.03)
            np.testing.assert_allclose(found.ci_low, member.ci_low, rtol=1e-4, atol=1e-6)


def test_the_standard_error_is_that_of_new_rows():
    """Members share their rows: the error of their mean is not that of independent scores. Bootstrap of the rows."""
    model = sk.VotingRegressor([("xgb", xgb()), ("deep", xgb(max_depth=5))]).fit(X, Y)
    found = ti.importance(model, X_VALID, Y_VALID)
    members = [ti.read_model(member) for member in model.estimators_]
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(120):
        times = rng.multinomial(N, np.full(N, 1 / N)).astype(float)
        again = [ti.importance(m, X_VALID, Y_VALID, sample_weight=times, std_errors=False, n_jobs=1) for m in members]
        drawn.append((again[0].scores + again[1].scores) / 2)
    spread = np.std(drawn, axis=0)
    # 120 draws know a standard deviation to 6.5 %: three times that
    np.testing.assert_allclose(found.std_errors[:2], spread[:2], rtol=0.2)
    independent = np.sqrt(sum(ti.importance(m, X_VALID, Y_VALID).std_errors ** 2 for m in members)) / 2
    assert (found.std_errors[:2] > 1.25 * independent[:2]).all()


def test_bagging_with_all_columns_is_the_mean_of_its_members():
    model = sk.BaggingRegressor(xgb(), 4, max_samples=0.7, random_state=0).fit(X, Y)
    found = ti.importance(model, X_VALID, Y_VALID)
    parts = [row_shares(member, X_VALID, Y_VALID) for member in model.estimators_]
    np.testing.assert_allclose(found.scores, np.mean([p.importance.scores for p in parts], axis=0), **SAME)
    np.testing.assert_allclose(found.std_errors, by_hand(parts, [0.25] * 4).std_errors, rtol=1e-6)


@pytest.mark.parametrize("bootstrap_features", [False, True])
@pytest.mark.parametrize("data", ["array", "frame", "polars", "reordered"])
def test_bagging_with_some_columns_gives_their_scores_to_the_columns_of_X(data, bootstrap_features):
    model = sk.BaggingRegressor(xgb(), 5, max_features=0.5, bootstrap_features=bootstrap_features, random_state=3)
    model.fit(X if data == "array" else FRAME, Y)
    expected = np.zeros(4)
    for member, columns in zip(model.estimators_, model.estimators_features_, strict=True):
        np.add.at(expected, columns, ti.importance(member, X_VALID[:, columns], Y_VALID).scores / 5)
    rows = {
        "array": X_VALID,
        "frame": FRAME_VALID,
        "polars": pl.DataFrame(X_VALID, schema=NAMES),
        "reordered": FRAME_VALID[NAMES[::-1]],
    }[data]
    found = ti.importance(model, rows, Y_VALID)
    assert found.feature_names == (tuple(f"f{j}" for j in range(4)) if data == "array" else tuple(NAMES))
    np.testing.assert_allclose(found.scores, expected, **SAME)
    margin = np.mean([member.model.predict(rows) for member in ti.members(model)], axis=0)
    np.testing.assert_allclose(margin, model.predict(X_VALID if data == "array" else FRAME_VALID), atol=1e-6)  # float32


@pytest.mark.parametrize("voting", ["soft", "hard"])
@pytest.mark.parametrize(("y", "y_valid"), [(TWO, TWO_VALID), (THREE, THREE_VALID)], ids=["two", "three"])
def test_voting_of_classifiers_takes_the_labels_of_the_wrapper(voting, y, y_valid):
    model = sk.VotingClassifier(list(classifiers().items()), voting=voting, weights=[1, 2, 3, 4]).fit(X, y)
    found = ti.importance(model, X_VALID, y_valid)
    codes = np.searchsorted(model.classes_, y_valid)
    parts = [ti.importance(member, X_VALID, codes) for member in model.estimators_]
    mean = sum(w / 10 * part.scores for w, part in zip([1, 2, 3, 4], parts, strict=True))
    np.testing.assert_allclose(found.scores, mean, **SAME)
    assert found.output_names == (None if len(model.classes_) == 2 else ("low", "mid", "top"))
    assert any("on its own margin" in note for note in found.notes)
    assert any(("votes" if voting == "hard" else "probabilities") in note for note in found.notes)


@pytest.mark.parametrize("as_labels", [list, pd.Series, pl.Series, lambda y: pd.Series(y).astype("category")])
def test_labels_that_are_numbers_in_any_container(as_labels):
    y, y_valid = (np.array([1, 5, 9])[np.digitize(s, [0.1, 1.2])] for s in (Y, Y_VALID))
    model = sk.VotingClassifier([("a", lgb()), ("b", classifiers()["hist"])]).fit(X, y)
    found = ti.importance(model, X_VALID, as_labels(y_valid))
    parts = [ti.importance(member, X_VALID, np.searchsorted([1, 5, 9], y_valid)) for member in model.estimators_]
    np.testing.assert_allclose(found.outputs.score, (parts[0].outputs.score + parts[1].outputs.score) / 2, **SAME)
    assert found.output_names == ("1", "5", "9")
    with pytest.raises(ti.DataError, match="classes that are not in the model: 2; it was trained on 1, 5, 9"):
        ti.importance(model, X_VALID, as_labels(np.where(y_valid == 5, 2, y_valid)))


def test_bagging_of_classifiers():
    model = sk.BaggingClassifier(lgb(), 3, max_features=0.75, random_state=0).fit(FRAME, THREE)
    found = ti.importance(model, FRAME_VALID, THREE_VALID)
    codes = np.searchsorted(model.classes_, THREE_VALID)
    expected = np.zeros((4, 3))
    for member, columns in zip(model.estimators_, model.estimators_features_, strict=True):
        expected[columns] += ti.importance(member, X_VALID[:, columns], codes).outputs.score / 3
    np.testing.assert_allclose(found.outputs.score, expected, **SAME)
    np.testing.assert_allclose(found.for_output("mid").scores, expected[:, 1], **SAME)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
def test_calibration_is_the_mean_of_the_folds_models_and_a_prefit_one_the_model(method):
    fitted = lgb().fit(X, THREE)
    prefit = CalibratedClassifierCV(FrozenEstimator(fitted), method=method).fit(X_VALID, THREE_VALID)
    alone = ti.importance(fitted, X_VALID, THREE_VALID)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the rows that calibrated it are not those that fitted it
        # temperature scaling fits calibrators on codes; a frozen model keeps its labels
        check_same(ti.importance(prefit, X_VALID, THREE_VALID), alone)
    assert any("calibrators" in note for note in ti.importance(prefit, X_VALID, THREE_VALID).notes)
    one = CalibratedClassifierCV(lgb(), method=method, ensemble=False, cv=3).fit(X, THREE)
    check_same(ti.importance(one, X_VALID, THREE_VALID), alone)  # refitted on all rows
    model = CalibratedClassifierCV(lgb(), method=method, cv=3).fit(X, THREE)
    found = ti.importance(model, X_VALID, THREE_VALID)
    y = np.searchsorted(model.classes_, THREE_VALID) if method == "temperature" else THREE_VALID
    parts = [ti.importance(part.estimator, X_VALID, y) for part in model.calibrated_classifiers_]
    np.testing.assert_allclose(found.scores, np.mean([part.scores for part in parts], axis=0), **SAME)
    assert found.output_names == ("low", "mid", "top")


def test_a_frozen_model_behind_several_calibrators_is_one_model():
    fitted = lgb().fit(X, TWO)
    model = CalibratedClassifierCV(FrozenEstimator(fitted), ensemble=True, cv=3).fit(X_VALID, TWO_VALID)
    assert ti.read_model(model).source is ti.read_model(fitted).source
    check_same(ti.importance(model, X_VALID, TWO_VALID), ti.importance(fitted, X_VALID, TWO_VALID))


def test_stacking_weighs_members_by_the_coefficients_of_a_linear_model():
    members = [("a", xgb()), ("b", xgb(max_depth=1)), ("c", "drop")]
    model = sk.StackingRegressor(members, Ridge(alpha=100), cv=3).fit(X, Y)
    coefficients = model.final_estimator_.coef_
    assert (coefficients > 0).all()
    found = ti.importance(model, X_VALID, Y_VALID)
    parts = [ti.importance(member, X_VALID, Y_VALID).scores for member in model.estimators_]
    np.testing.assert_allclose(found.scores, coefficients @ parts / coefficients.sum(), **SAME)
    assert any("trees inside" in note and "Ridge" in note for note in found.notes)

    classes = sk.StackingClassifier([("l", lgb()), ("h", classifiers()["hist"])], cv=3).fit(X, TWO)
    weights = classes.final_estimator_.coef_[0] / classes.final_estimator_.coef_.sum()
    codes = np.searchsorted(classes.classes_, TWO_VALID)
    parts = [ti.importance(member, X_VALID, codes).scores for member in classes.estimators_]
    np.testing.assert_allclose(ti.importance(classes, X_VALID, TWO_VALID).scores, weights @ parts, **SAME)


def test_members_fitted_before_a_stack_keep_their_labels():
    members = [("l", lgb().fit(X, TWO)), ("h", classifiers()["hist"].fit(X, TWO))]
    model = sk.StackingClassifier(members, LogisticRegression(), cv="prefit").fit(X_VALID, TWO_VALID)
    weights = model.final_estimator_.coef_[0] / model.final_estimator_.coef_.sum()
    parts = [ti.importance(member, X_VALID, TWO_VALID).scores for _, member in members]
    np.testing.assert_allclose(ti.importance(model, X_VALID, TWO_VALID).scores, weights @ parts, **SAME)


def test_a_member_that_is_subtracted_is_spoken_of():
    model = sk.VotingRegressor([("a", xgb()), ("b", xgb(max_depth=1))], weights=[3, -1]).fit(X, Y)
    with pytest.warns(ti.TreeInnerWarning, match=r"predictions of 'b' \(-0.5\) are subtracted"):
        found = ti.importance(model, X_VALID, Y_VALID)
    a, b = (ti.importance(member, X_VALID, Y_VALID).scores for member in model.estimators_)
    np.testing.assert_allclose(found.scores, 1.5 * a - 0.5 * b, **SAME)


def test_members_of_weight_0_have_no_part_even_if_they_are_not_trees():
    model = sk.VotingRegressor([("a", xgb()), ("line", LinearRegression())], weights=[1, 0]).fit(X, Y)
    check_same(ti.importance(model, X_VALID, Y_VALID), ti.importance(model.estimators_[0], X_VALID, Y_VALID))


# -- one member per output -----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", boosters())
def test_each_output_of_multi_output_is_the_member_on_its_target(name):
    model = MultiOutputRegressor(boosters()[name]).fit(FRAME, PAIR)
    targets = pd.DataFrame(PAIR_VALID, columns=["sum", "rest"])
    found = ti.importance(model, FRAME_VALID, targets, sample_weight=WEIGHT)
    assert found.output_names == ("sum", "rest")
    parts = [
        ti.importance(member, FRAME_VALID, PAIR_VALID[:, t], sample_weight=WEIGHT)
        for t, member in enumerate(model.estimators_)
    ]
    np.testing.assert_allclose(found.scores, parts[0].scores + parts[1].scores, **SAME)
    for t, part in enumerate(parts):
        of_target = found.for_output(t)
        np.testing.assert_allclose(of_target.scores, part.scores, **SAME)
        np.testing.assert_allclose(of_target.std_errors, part.std_errors, rtol=1e-6)
    assert found.for_output("rest").top(1).feature_names != ("d",)


def test_multi_output_of_classes_has_an_output_per_target():
    model = MultiOutputClassifier(lgb()).fit(X, np.column_stack([TWO, THREE]))
    found = ti.importance(model, X_VALID, np.column_stack([TWO_VALID, THREE_VALID]))
    for t, y in enumerate((TWO_VALID, THREE_VALID)):
        part = ti.importance(model.estimators_[t], X_VALID, y)
        np.testing.assert_allclose(found.for_output(t).scores, part.scores, **SAME)
        np.testing.assert_allclose(found.for_output(t).std_errors, part.std_errors, rtol=1e-6)
    with pytest.raises(ti.DataError, match="y has 1 columns, but the model was trained on 2 targets"):
        ti.importance(model, X_VALID, TWO_VALID)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_one_vs_rest_has_an_output_per_class_against_its_own_target(class_weight):
    model = OneVsRestClassifier(lgb(class_weight=class_weight)).fit(X, THREE)
    found = ti.importance(model, X_VALID, THREE_VALID)
    assert found.output_names == ("low", "mid", "top")
    for label, member in zip(model.classes_, model.estimators_, strict=True):
        part = ti.importance(member, X_VALID, (label == THREE_VALID).astype(int))
        np.testing.assert_allclose(found.for_output(label).scores, part.scores, **SAME)
        np.testing.assert_allclose(found.for_output(label).std_errors, part.std_errors, rtol=1e-6)
    np.testing.assert_allclose(found.scores, found.outputs.score.sum(axis=1), **SAME)


def test_one_vs_rest_inside_multi_output():
    model = MultiOutputClassifier(OneVsRestClassifier(lgb(class_weight="balanced"))).fit(
        X, np.column_stack([TWO, THREE])
    )
    found = ti.importance(model, X_VALID, np.column_stack([TWO_VALID, THREE_VALID]))
    for t, y in enumerate((TWO_VALID, THREE_VALID)):
        part = ti.importance(model.estimators_[t], X_VALID, y)
        np.testing.assert_allclose(found.for_output(t).scores, part.scores, **SAME)
        np.testing.assert_allclose(found.for_output(t).std_errors, part.std_errors, rtol=1e-6)


def test_one_vs_rest_of_two_classes_and_of_several_labels():
    two = OneVsRestClassifier(lgb()).fit(X, TWO)
    check_same(
        ti.importance(two, X_VALID, TWO_VALID),
        ti.importance(two.estimators_[0], X_VALID, (TWO_VALID == "yes").astype(int)),
    )
    labels, valid = (np.column_stack([y > 0, x[:, 2] > 0]).astype(int) for x, y in ((X, Y), (X_VALID, Y_VALID)))
    several = OneVsRestClassifier(lgb()).fit(X, labels)
    found = ti.importance(several, X_VALID, valid)
    for t in range(2):
        part = ti.importance(several.estimators_[t], X_VALID, valid[:, t])
        np.testing.assert_allclose(found.for_output(t).scores, part.scores, **SAME)


# -- wrappers of one model -----------------------------------------------------------------------------------
@pytest.mark.parametrize("data", ["array", "frame"])
@pytest.mark.parametrize("selector", [RFE(xgb(), n_features_to_select=2), RFECV(xgb(), cv=2)], ids=["RFE", "RFECV"])
def test_columns_that_were_eliminated_have_score_0(selector, data):
    rows, valid = (X, X_VALID) if data == "array" else (FRAME, FRAME_VALID)
    selector.fit(rows, Y)
    found = ti.importance(selector, valid, Y_VALID)
    kept = ti.importance(selector.estimator_, X_VALID[:, selector.support_], Y_VALID)
    assert found.feature_names == (tuple(f"f{j}" for j in range(4)) if data == "array" else tuple(NAMES))
    np.testing.assert_array_equal(found.scores[selector.support_], kept.scores)
    np.testing.assert_array_equal(found.std_errors[selector.support_], kept.std_errors)
    out = ~selector.support_
    assert (found.scores[out] == 0).all()
    assert (found.std_errors[out] == 0).all()
    assert (found.p_values[out] == 1).all()
    # and everything else that takes one model
    explained = ti.attribute(selector, valid)
    margin = explained.base_values + explained.values.sum(axis=1)
    np.testing.assert_allclose(margin, selector.predict(valid), rtol=1e-5, atol=1e-5)  # XGBoost's float32
    np.testing.assert_allclose(
        ti.total_gain(selector).scores[selector.support_], ti.total_gain(selector.estimator_).scores
    )
    accumulator = ti.ImportanceAccumulator(ti.read_model(selector), std_errors=False)
    halves = [slice(0, 100), slice(100, N)]
    for half in halves:
        accumulator.update(valid[half], Y_VALID[half])
    np.testing.assert_array_equal(accumulator.result().scores, found.scores)
    saved = pickle.loads(pickle.dumps(ti.read_model(selector)))
    np.testing.assert_array_equal(ti.importance(saved, valid, Y_VALID).scores, found.scores)


def test_eliminated_columns_of_a_frame_in_another_order():
    selector = RFE(xgb(), n_features_to_select=2).fit(FRAME, Y)
    found = ti.importance(selector, FRAME_VALID, Y_VALID)
    for other in (FRAME_VALID[NAMES[::-1]], pl.DataFrame(X_VALID[:, ::-1], schema=NAMES[::-1])):
        np.testing.assert_array_equal(ti.importance(selector, other, Y_VALID).scores, found.scores)
    with pytest.raises(ti.DataError, match=r"not in X|lacks|missing"):
        ti.importance(selector, FRAME_VALID.rename(columns={"b": "e"}), Y_VALID)


def test_a_pipeline_behind_the_elimination_has_the_columns_that_reach_it():
    poly = make_pipeline(PolynomialFeatures(2, include_bias=False), xgb())
    of_columns = {"importance_getter": lambda p: p[-1].feature_importances_[: p[0].n_features_in_]}
    selector = RFE(poly, n_features_to_select=2, **of_columns).fit(FRAME, Y)
    found = ti.importance(selector, FRAME_VALID, Y_VALID)
    inside = ti.importance(selector.estimator_, X_VALID[:, selector.support_], Y_VALID)
    np.testing.assert_array_equal(found.scores, inside.scores)
    a, b = np.array(NAMES)[selector.support_]
    assert found.feature_names == (a, b, f"{a}^2", f"{a} {b}", f"{b}^2")


def test_self_training_and_the_model_that_selects():
    y = np.where(RNG.random(N) < 0.3, -1, (TWO == "yes").astype(int))  # -1: no label
    model = SelfTrainingClassifier(lgb()).fit(X, y)
    valid = (TWO_VALID == "yes").astype(int)
    check_same(ti.importance(model, X_VALID, valid), ti.importance(model.estimator_, X_VALID, valid))
    with pytest.raises(ti.DataError, match="-1"):
        ti.importance(model, X_VALID, np.where(np.arange(N) < 5, -1, valid))
    selector = SelectFromModel(xgb()).fit(X, Y)
    check_same(ti.importance(selector, X_VALID, Y_VALID), ti.importance(selector.estimator_, X_VALID, Y_VALID))


@pytest.mark.parametrize("transform", [{"func": np.exp, "inverse_func": np.log}, {"transformer": StandardScaler()}])
def test_a_transformed_target_is_transformed_for_the_score_too(transform):
    model = TransformedTargetRegressor(xgb(), **transform).fit(X, Y)
    scaled = model.transformer_.transform(Y_VALID[:, None])[:, 0]
    expected = ti.importance(model.regressor_, X_VALID, scaled)
    check_same(ti.importance(model, X_VALID, Y_VALID), expected)
    accumulator = ti.ImportanceAccumulator(model, std_errors=False)
    np.testing.assert_array_equal(accumulator.update(X_VALID, Y_VALID).result().scores, expected.scores)
    around = TransformedTargetRegressor(sk.VotingRegressor([("a", xgb()), ("b", xgb())]), **transform).fit(X, Y)
    np.testing.assert_allclose(ti.importance(around, X_VALID, Y_VALID).scores, expected.scores, **SAME)


# -- wrappers, pipelines and searches around each other ------------------------------------------------------
def test_a_pipeline_and_a_search_around_a_wrapper():
    voting = sk.VotingRegressor([("a", xgb()), ("b", boosters()["hist"])])
    piped = make_pipeline(StandardScaler(), voting).fit(FRAME, Y)
    scaled = piped[0].transform(FRAME_VALID)
    expected = ti.importance(piped[-1], scaled, Y_VALID)
    found = ti.importance(piped, FRAME_VALID, Y_VALID)
    np.testing.assert_array_equal(found.scores, expected.scores)
    np.testing.assert_array_equal(found.std_errors, expected.std_errors)
    assert found.feature_names == tuple(NAMES)
    search = GridSearchCV(make_pipeline(StandardScaler(), voting), {"votingregressor__weights": [[1, 2]]}, cv=2)
    search.fit(FRAME, Y)
    scaler, best = search.best_estimator_
    parts = [ti.importance(member, scaler.transform(FRAME_VALID), Y_VALID) for member in best.estimators_]
    found = ti.importance(search, FRAME_VALID, Y_VALID)
    np.testing.assert_allclose(found.scores, (parts[0].scores + 2 * parts[1].scores) / 3, **SAME)


def test_wrappers_inside_wrappers_multiply_their_weights():
    bag = sk.BaggingRegressor(xgb(), 2, max_features=0.5, random_state=1)
    model = sk.VotingRegressor([("bag", bag), ("hist", boosters()["hist"])], weights=[3, 1]).fit(FRAME, Y)
    found = ti.members(model)
    assert [m.name for m in found] == ["bag / estimators_[0]", "bag / estimators_[1]", "hist"]
    assert [m.weight for m in found] == [0.375, 0.375, 0.25]
    inner, alone = (ti.importance(m, FRAME_VALID, Y_VALID) for m in model.estimators_)
    np.testing.assert_allclose(
        ti.importance(model, FRAME_VALID, Y_VALID).scores, 0.75 * inner.scores + 0.25 * alone.scores, **SAME
    )
    margin = sum(m.weight * m.model.predict(FRAME_VALID) for m in found)
    np.testing.assert_allclose(margin, model.predict(FRAME_VALID), rtol=1e-5, atol=1e-6)  # XGBoost's float32

    calibrated = CalibratedClassifierCV(OneVsRestClassifier(lgb()), cv=2).fit(X, THREE)
    found = ti.importance(calibrated, X_VALID, THREE_VALID)
    parts = [ti.importance(part.estimator, X_VALID, THREE_VALID) for part in calibrated.calibrated_classifiers_]
    assert found.output_names == ("low", "mid", "top")
    np.testing.assert_allclose(found.outputs.score, (parts[0].outputs.score + parts[1].outputs.score) / 2, **SAME)


def test_features_of_members_with_pipelines_are_matched_by_name():
    poly = make_pipeline(PolynomialFeatures(2, include_bias=False), xgb())
    model = sk.VotingRegressor([("poly", poly), ("plain", xgb())]).fit(FRAME, Y)
    a, b = (ti.importance(member, FRAME_VALID, Y_VALID) for member in model.estimators_)
    found = ti.importance(model, FRAME_VALID, Y_VALID)
    assert found.feature_names == a.feature_names
    assert b.feature_names == a.feature_names[:4]
    np.testing.assert_allclose(found.scores, 0.5 * a.scores + 0.5 * np.pad(b.scores, (0, len(a) - 4)), **SAME)
    scaled = sk.BaggingRegressor(make_pipeline(StandardScaler(), xgb()), 3, max_features=0.5, random_state=0)
    found = ti.importance(scaled.fit(FRAME, Y), FRAME_VALID, Y_VALID)
    expected = dict.fromkeys(NAMES, 0.0)
    for member, columns in zip(scaled.estimators_, scaled.estimators_features_, strict=True):
        for j, score in zip(columns, ti.importance(member, X_VALID[:, columns], Y_VALID).scores, strict=True):
            expected[NAMES[j]] += score / 3
    assert {f: pytest.approx(expected[f], rel=1e-9, abs=1e-14) for f in found.feature_names} == dict(
        zip(found.feature_names, found.scores, strict=True)
    )


def test_scores_in_the_raw_columns_of_all_members():
    rows, valid = (f.assign(kind=np.where(f["b"] > 0, "u", "v")) for f in (FRAME, FRAME_VALID))
    encode = ColumnTransformer([("hot", OneHotEncoder(), ["kind"]), ("rest", "passthrough", ["my col", "c"])])
    inside = sk.VotingRegressor([("a", make_pipeline(encode, xgb())), ("b", make_pipeline(encode, xgb(max_depth=1)))])
    around = make_pipeline(encode, sk.VotingRegressor([("a", xgb()), ("b", xgb(max_depth=1))]))
    parts = [
        ti.importance(make_pipeline(encode, m).fit(rows, Y), valid, Y_VALID, feature_groups="original")
        for m in (xgb(), xgb(max_depth=1))
    ]
    for model in (inside.fit(rows, Y), around.fit(rows, Y)):
        found = ti.importance(model, valid, Y_VALID, feature_groups="original")
        assert found.feature_names == (*NAMES, "kind")
        np.testing.assert_allclose(found.scores, (parts[0].scores + parts[1].scores) / 2, **SAME)


def test_groups_of_features():
    model = sk.VotingRegressor([("a", xgb()), ("b", boosters()["hist"])]).fit(FRAME, Y)
    groups = {"both": ["my col", "b"]}
    found = ti.importance(model, FRAME_VALID, Y_VALID, feature_groups=groups)
    parts = [row_shares(m, FRAME_VALID, Y_VALID, feature_groups=groups) for m in model.estimators_]
    assert found.feature_names == ("both", "c", "d")
    np.testing.assert_allclose(found.std_errors, by_hand(parts, [0.5, 0.5]).std_errors, rtol=1e-6)


# -- what else comes back ------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["centred", "predecomp", "treeshap"])
@pytest.mark.parametrize("score", ["tree_inner", "loss"])
def test_other_scores_and_methods(score, method):
    model = sk.VotingRegressor([("a", xgb()), ("b", boosters()["hist"])], weights=[1, 3]).fit(X, Y)
    found = ti.importance(model, X_VALID, Y_VALID, score=score, method=method)
    a, b = (ti.importance(m, X_VALID, Y_VALID, score=score, method=method) for m in model.estimators_)
    np.testing.assert_allclose(found.scores, 0.25 * a.scores + 0.75 * b.scores, **SAME)
    assert found.losses.after == pytest.approx(0.25 * a.losses.after + 0.75 * b.losses.after)
    if score == "loss":  # the account of the mean loss of the members
        assert found.scores.sum() + found.base == pytest.approx(found.losses.before - found.losses.after)


def test_the_result_is_an_importance_like_any_other(tmp_path):
    model = sk.VotingRegressor([("a", xgb()), ("b", boosters()["hist"])]).fit(FRAME, Y)
    done = []
    found = ti.importance(model, FRAME_VALID, Y_VALID, progress=lambda rows, all_rows: done.append((rows, all_rows)))
    assert done == [(N // 2, N), (N, N)]
    found.save(tmp_path / "voting.ti")
    np.testing.assert_array_equal(ti.load(tmp_path / "voting.ti").scores, found.scores)
    assert isinstance(found.to_frame(), pd.DataFrame)
    with pytest.raises(ti.TreeInnerError, match="has no gains"):
        _ = found.gains
    without = ti.importance(model, FRAME_VALID, Y_VALID, std_errors=False)
    np.testing.assert_array_equal(without.scores, found.scores)
    assert np.isnan(without.std_errors).all()
    threads = ti.importance(model, FRAME_VALID, Y_VALID, n_jobs=1)
    np.testing.assert_array_equal(threads.std_errors, found.std_errors)
    named = ti.importance(model, FRAME_VALID, Y_VALID, feature_names=["p", "q", "r", "s"])
    assert named.feature_names == ("p", "q", "r", "s")


def test_training_rows_are_spoken_of():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 4))
    y = rows[:, 0] + rows[:, 1] + rng.normal(size=600)
    model = sk.BaggingRegressor(xgb(n_estimators=40), 3, random_state=0).fit(rows, y)
    with pytest.warns(ti.TreeInnerWarning, match="[Tt]raining rows|trained on"):
        ti.importance(model, rows, y)


def test_a_doubt_about_several_members_is_spoken_of_once():
    model = sk.BaggingRegressor(xgb(learning_rate=1.5, n_estimators=20), 4, random_state=0).fit(X, Y)
    with pytest.warns(ti.TreeInnerWarning) as caught:
        found = ti.importance(model, X_VALID, Y_VALID)
    assert sum("overshoot" in str(warning.message) for warning in caught) == 1
    assert sum("overshoot" in note for note in found.notes) == 1


def test_forests_among_boosters_are_spoken_of():
    model = sk.VotingRegressor([("a", xgb()), ("f", sk.RandomForestRegressor(10, random_state=0))]).fit(X, Y)
    with pytest.warns(ti.TreeInnerWarning, match="Forests and boosted models"):
        ti.importance(model, X_VALID, Y_VALID)
    found = ti.importance(model, X_VALID, Y_VALID, score="loss")
    assert not any("Forests" in note for note in found.notes)


# -- refused, with the reason --------------------------------------------------------------------------------
REFUSED = {
    "not trees": (
        sk.VotingRegressor([("a", xgb()), ("line", LinearRegression())]), Y,
        "member 'line' of this VotingRegressor .* LinearRegression: not a supported tree model",
    ),
    "not trees, deep inside": (
        sk.VotingRegressor([("a", xgb()), ("bag", sk.BaggingRegressor(LinearRegression(), 2))]), Y,
        "member 'bag' of this VotingRegressor .* LinearRegression: not a supported tree model",
    ),
    "other losses": (
        sk.VotingRegressor([("a", xgb()), ("b", xgb(objective="reg:absoluteerror"))]), Y,
        "different losses, 'a' by reg:squarederror, but 'b' by reg:absoluteerror: .* different units",
    ),
    "quantiles": (
        sk.VotingRegressor([
            (str(q), sk.GradientBoostingRegressor(n_estimators=3, loss="quantile", alpha=q)) for q in (0.1, 0.9)
        ]), Y,
        "different losses",
    ),
    "a forest beside a booster of classes": (
        sk.VotingClassifier([("a", lgb()), ("f", sk.RandomForestClassifier(3))]), TWO,
        "different losses, 'a' by binary",
    ),
    "class weights": (
        sk.VotingClassifier([("a", lgb()), ("b", lgb(class_weight={0: 1, 1: 5}))]), TWO,
        "weigh the classes differently",
    ),
    "a stack under trees": (
        sk.StackingRegressor([("a", xgb()), ("b", xgb())], xgb(), cv=2), Y,
        r"its last model, XGBRegressor, has no coefficients .*importance\(model.final_estimator_, model.transform\(X\)",
    ),
    "a stack of one under trees": (
        sk.StackingRegressor([("a", xgb())], xgb(), cv=2), Y, "cannot be added up: its last model, XGBRegressor",
    ),
    "a stack that sees X": (
        sk.StackingRegressor([("a", xgb()), ("b", xgb())], cv=2, passthrough=True), Y, "passthrough=True",
    ),
    "a stack of classes": (
        sk.StackingClassifier([("a", lgb()), ("b", lgb())], cv=2), THREE, "but for each class of each member",
    ),
    "weights without a mean": (
        sk.VotingRegressor([("a", xgb()), ("b", xgb())], weights=[1, -1]), Y,
        r"weights of its members are \[1.0, -1.0\]",
    ),
    "a bag without a class": (
        sk.BaggingClassifier(make_pipeline(StandardScaler(), lgb()), 3, max_samples=3, random_state=0), THREE,
        r"rows without some of the classes, estimators_\[\d\] for one",
    ),
    "own components": (
        sk.BaggingRegressor(make_pipeline(PCA(2), xgb()), 2), Y, "has a PCA of its own, .* not the same meaning",
    ),
    "no names": (
        sk.VotingRegressor([("a", make_pipeline(FunctionTransformer(np.cbrt), xgb())), ("b", xgb())]), Y,
        "pipeline of member 'a' does not tell the names of its columns",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_meaning_is_refused_with_the_reason(case):
    model, y, message = REFUSED[case]
    model.fit(X, y)
    with pytest.raises(ti.UnsupportedModelError, match=message) as caught:
        ti.importance(model, X_VALID, {id(Y): Y_VALID, id(TWO): TWO_VALID, id(THREE): THREE_VALID}[id(y)])
    assert "one by one" in str(caught.value) or "Put that step before" in str(caught.value)
    if case.startswith(("a stack", "other losses")):  # the cure
        for member in ti.members(model):
            assert ti.importance(member.model, X_VALID, Y_VALID if y is Y else THREE_VALID).scores.shape == (4,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"score": "abs", "y": None}, "score='abs' of a VotingRegressor"),
        ({"score": "forest_inner"}, "score='forest_inner' of a VotingRegressor"),
        ({"base_margin": np.zeros(N)}, "base_margin has no meaning"),
        ({"by_round": True}, "by_round has no meaning"),
        ({"oob": True}, "oob has no meaning"),
        ({"scores": 1}, r"importance\(\) got an unexpected argument 'scores'"),
        ({"clusters": CLUSTERS[:-1]}, "clusters has 239 labels"),
        ({"confidence": 2}, "confidence=2"),
        ({"y": Y_VALID[:-1]}, "Member 'a' of this VotingRegressor: y has 239 rows"),
    ],
)
def test_arguments_that_do_not_fit(given, message):
    model = sk.VotingRegressor([("a", xgb()), ("b", xgb())]).fit(X, Y)
    given = {"y": Y_VALID, **given}
    with pytest.raises((ValueError, TypeError), match=message):
        ti.importance(model, X_VALID, given.pop("y"), **given)


@pytest.mark.parametrize(
    "model",
    [
        sk.VotingRegressor([("a", xgb())]),
        sk.BaggingRegressor(xgb()),
        sk.StackingRegressor([("a", xgb())]),
        CalibratedClassifierCV(lgb()),
        MultiOutputRegressor(xgb()),
        OneVsRestClassifier(lgb()),
        RFE(xgb()),
        SelfTrainingClassifier(lgb()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_unfitted_wrappers(model):
    with pytest.raises(ti.ModelError, match=f"This {type(model).__name__} is not fitted yet"):
        ti.importance(model, X, Y)


def test_members_is_for_wrappers():
    with pytest.raises(ti.UnsupportedModelError, match="XGBRegressor is not a wrapper of several models"):
        ti.members(xgb().fit(X, Y))
