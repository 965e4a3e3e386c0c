"""Wrappers: what is inside, what X and y pass on their way to it, and averages against the mean of their members."""

import pickle

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn import ensemble as ske
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.feature_selection import RFE, SelectFromModel, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputRegressor, RegressorChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

import treeinner as ti
from treeinner.read.unwrap import members, package_of, unwrap

from ..models import Models

rng = np.random.default_rng(5)
X = pd.DataFrame(rng.normal(size=(240, 4)), columns=["age", "size", "noise", "more"])
SIGNAL = X["age"].to_numpy() + X["size"].to_numpy() * X["more"].to_numpy()
Y = SIGNAL + 0.3 * rng.normal(size=240)
BINARY = np.where(Y > 0, "yes", "no")
CLASSES = np.array(["low", "mid", "top"])[np.digitize(Y, [-0.7, 0.7])]
TRAIN, VALID = slice(0, 160), slice(160, 240)


def regressor(**options):
    return lgb.LGBMRegressor(n_estimators=8, num_leaves=5, min_child_samples=5, n_jobs=1, verbose=-1, **options)


def classifier(**options):
    return lgb.LGBMClassifier(n_estimators=8, num_leaves=5, min_child_samples=5, n_jobs=1, verbose=-1, **options)


def fitted(model, y):
    return lambda: model.fit(X[TRAIN], y[TRAIN])


class Subclass(xgb.XGBRegressor):
    pass


ONE = Models(
    plain=fitted(regressor(), Y),
    subclass=fitted(Subclass(n_estimators=5, n_jobs=1), Y),
    pipeline=fitted(make_pipeline("passthrough", StandardScaler(), None, regressor()), Y),
    search=fitted(GridSearchCV(regressor(), {"num_leaves": [3, 5]}, cv=2), Y),
    nested=fitted(make_pipeline(StandardScaler(), GridSearchCV(regressor(), {"num_leaves": [3]}, cv=2)), Y),
    target=fitted(TransformedTargetRegressor(regressor(), func=np.arcsinh, inverse_func=np.sinh), Y),
    frozen=lambda: FrozenEstimator(regressor().fit(X[TRAIN], Y[TRAIN])),
    select=fitted(SelectFromModel(regressor()), Y),
    fixed=fitted(FixedThresholdClassifier(classifier(), threshold=0.3, pos_label="yes"), BINARY),
    tuned=fitted(TunedThresholdClassifierCV(classifier(), cv=2, scoring="f1_macro"), BINARY),
    self_training=fitted(SelfTrainingClassifier(classifier()), np.where(BINARY == "yes", 1, 0)),
    calibrated=fitted(CalibratedClassifierCV(classifier(), cv=3, ensemble=False), BINARY),
    rfe=fitted(RFE(regressor(), n_features_to_select=2), Y),
)


@pytest.mark.parametrize("name", ONE)
def test_one_model_inside_is_read_with_what_x_and_y_pass(name):
    inside, model = unwrap(ONE[name]), ti.read_model(ONE[name])
    assert package_of(inside.model) in ("lightgbm", "xgboost")
    assert members(ONE[name]) is None
    assert pickle.loads(pickle.dumps(model)).digest == model.digest
    seen = X
    for step in inside.transformers:
        seen = step.transform(seen)
    margin = inside.model.predict(seen, **({"raw_score": True} if package_of(inside.model) == "lightgbm" else {}))
    np.testing.assert_allclose(model.predict(X), margin, rtol=0, atol=1e-6)  # XGBoost adds in float32


def test_the_target_is_on_the_scale_that_the_model_was_fitted_on():
    model = ti.read_model(ONE["target"])
    np.testing.assert_allclose(model.targets[0](Y), np.arcsinh(Y), rtol=1e-15)
    inner = ti.importance(ONE["target"].regressor_, X[VALID], np.arcsinh(Y[VALID]))
    np.testing.assert_array_equal(ti.importance(ONE["target"], X[VALID], Y[VALID]).scores, inner.scores)


def test_columns_that_a_wrapper_selects_are_found_by_name():
    imp = ti.importance(ONE["rfe"], X[VALID], Y[VALID])
    assert imp.feature_names == tuple(X.columns)
    assert set(np.flatnonzero(imp.scores)) <= set(np.flatnonzero(ONE["rfe"].support_))


def test_a_calibrator_is_mentioned():
    assert [note.code for note in ti.read_model(ONE["calibrated"]).notes] == ["calibration"]


# -- averages --------------------------------------------------------------------------------------------------------
SLOW = {"learning_rate": 0.05}
AVERAGES = Models(
    voting=fitted(ske.VotingRegressor([("a", regressor()), ("b", regressor(**SLOW))], weights=[2, 1]), Y),
    dropped=fitted(
        ske.VotingRegressor([("a", regressor()), ("x", "drop"), ("b", regressor(**SLOW))], weights=[2, 5, 1]), Y
    ),
    behind=fitted(
        make_pipeline(StandardScaler(), ske.VotingRegressor([("a", regressor()), ("b", regressor(**SLOW))])), Y
    ),
    soft=fitted(ske.VotingClassifier([("a", classifier()), ("b", classifier(**SLOW))], voting="soft"), BINARY),
    classes=fitted(ske.VotingClassifier([("a", classifier()), ("b", classifier(**SLOW))], voting="soft"), CLASSES),
    bagging=fitted(ske.BaggingRegressor(regressor(), n_estimators=3, max_features=3, random_state=0), Y),
    bagged_classes=fitted(ske.BaggingClassifier(classifier(), n_estimators=3, random_state=0), CLASSES),
    calibrated=fitted(CalibratedClassifierCV(classifier(), cv=3), BINARY),
    nested=fitted(
        ske.VotingRegressor([("a", regressor()), ("b", ske.BaggingRegressor(regressor(), 2, random_state=0))]), Y
    ),
)
TARGETS = {"soft": BINARY, "calibrated": BINARY, "classes": CLASSES, "bagged_classes": CLASSES}


@pytest.mark.parametrize("name", AVERAGES)
def test_the_score_of_an_average_is_the_mean_of_its_members(name):
    model, y = AVERAGES[name], TARGETS.get(name, Y)
    found = members(model)
    assert sum(member.weight for member in found) == pytest.approx(1)
    imp = ti.importance(model, X[VALID], y[VALID], score="tree_inner")
    assert imp.feature_names == tuple(X.columns)
    expected = np.zeros(4)
    for member in found:
        part, labels = X[VALID], y[VALID]
        columns = np.arange(4)
        for step in member.transformers:
            part, columns = step.transform(part), getattr(step, "positions", columns)
        for step in member.targets:
            labels = step(labels)
        expected[columns] += member.weight * ti.importance(member.model, part, labels, score="tree_inner").scores
    np.testing.assert_allclose(imp.scores, expected, rtol=0, atol=1e-7 * np.abs(expected).max())  # float32 in the core
    assert (imp.std_errors[expected != 0] > 0).all()
    if y is CLASSES:
        assert imp.output_names == ("low", "mid", "top")


def test_members_have_names_and_weights():
    assert [(m.name, m.weight) for m in members(AVERAGES["dropped"])] == [("a", 2 / 3), ("b", 1 / 3)]
    assert [m.name for m in members(AVERAGES["nested"])] == ["a", "b / estimators_[0]", "b / estimators_[1]"]
    assert [m.weight for m in members(AVERAGES["nested"])] == [0.5, 0.25, 0.25]


def test_only_importance_takes_an_average():
    with pytest.raises(ti.UnsupportedModelError, match="VotingRegressor averages 2 models"):
        ti.read_model(AVERAGES["voting"])
    with pytest.raises(ti.DataError, match="not in the model: 'other'"):
        ti.importance(AVERAGES["classes"], X[VALID], np.where(CLASSES == "low", "other", CLASSES)[VALID])
    mixed = ske.VotingRegressor([("a", regressor()), ("b", LinearRegression())]).fit(X, Y)
    with pytest.raises(ti.UnsupportedModelError, match="LinearRegression"):
        ti.importance(mixed, X, Y)


# -- refused by name ---------------------------------------------------------------------------------------------------
TWO = np.column_stack([Y, -Y])
REFUSED = {
    "StackingRegressor": (ske.StackingRegressor([("a", regressor())], LinearRegression(), cv=2), Y),
    "VotingClassifier": (ske.VotingClassifier([("a", classifier()), ("b", classifier())]), BINARY),
    "MultiOutputRegressor": (MultiOutputRegressor(regressor()), TWO),
    "RegressorChain": (RegressorChain(regressor()), TWO),
    "ClassifierChain": (ClassifierChain(classifier()), (TWO > 0).astype(int)),
    "OneVsRestClassifier": (OneVsRestClassifier(classifier()), CLASSES),
    "OneVsOneClassifier": (OneVsOneClassifier(classifier()), CLASSES),
    "OutputCodeClassifier": (OutputCodeClassifier(classifier(), code_size=3, random_state=1), CLASSES),
    "AdaBoostRegressor": (ske.AdaBoostRegressor(regressor(), n_estimators=2), Y),
    "IsolationForest": (ske.IsolationForest(n_estimators=2), Y),
    "RandomTreesEmbedding": (ske.RandomTreesEmbedding(n_estimators=2), Y),
    "SequentialFeatureSelector": (SequentialFeatureSelector(regressor(), n_features_to_select=1, cv=2), Y),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_wrappers_of_several_models_are_refused_with_a_recipe_that_runs(name, capsys):
    model, y = REFUSED[name]
    model.fit(X.to_numpy(), y)
    with pytest.raises(ti.UnsupportedModelError, match=name) as found:
        ti.importance(model, X.to_numpy(), y)
    recipe = str(found.value).partition(":\n")[2]
    if recipe:
        exec(
            "\n".join(line[4:] for line in recipe.splitlines()),
            {"ti": ti, "np": np, "model": model, "X": X.to_numpy(), "y": y},
        )
        assert capsys.readouterr().out


def test_wrappers_without_a_model_inside_are_refused():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60.0)
    search = GridSearchCV(ske.RandomForestRegressor(2), {"max_depth": [1, 2]}, cv=2, refit=False).fit(X, y)
    with pytest.raises(ti.ModelError, match="refit=False"):
        ti.read_model(search)
    with pytest.raises(ti.ModelError, match="not fitted"):
        ti.read_model(GridSearchCV(ske.RandomForestRegressor(2), {"max_depth": [1, 2]}))
    with pytest.raises(ti.UnsupportedModelError, match="last step of the Pipeline is 'passthrough'"):
        ti.read_model(make_pipeline(StandardScaler(), "passthrough").fit(X))
