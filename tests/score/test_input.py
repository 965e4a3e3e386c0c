"""Bad input to the scores: one clear error of ours, which names what is wrong; never a crash, never a number."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier

import treeinner as ti
from tests.models import Models

N = 60
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3)).astype(np.float32)
SIGNAL = X[:, 0] + rng.normal(size=N)
LABEL = (SIGNAL > 0).astype(int)
WORDS = np.where(LABEL > 0, "cat", "dog")


def booster(y=SIGNAL, rounds=3, **params):
    """A small model of XGBoost."""
    return xgb.train({"nthread": 1, "max_depth": 2, "eta": 0.3, **params}, xgb.DMatrix(X, y), rounds)


MODELS = Models(
    regression=lambda: booster(objective="reg:squarederror"),
    binary=lambda: booster(LABEL, objective="binary:logistic"),
    animals=lambda: RandomForestClassifier(3, random_state=0).fit(X, WORDS),
    custom=lambda: lgb.train(
        {"objective": lambda p, d: (p - d.get_label(), np.ones(N)), "num_threads": 1, "verbose": -1, "num_leaves": 4},
        lgb.Dataset(X, SIGNAL, params={"min_data_in_bin": 1}), 3,
    ),
)  # fmt: skip
SCORES = ["signal", "tree_inner", "loss", "permutation"]


def score_rows(score, model, X, y, **options):
    """Call the function that gives the score."""
    if score == "permutation":
        return ti.permutation_importance(model, X, y, random_state=0, n_repeats=1, **options)
    return ti.importance(model, X, y, score=score, **options)


def with_value(array, value, row=7):
    """The array with another value in one row."""
    changed = np.array(array, dtype=object if isinstance(value, str) or value is None else None)
    changed[row] = value
    return changed


# -- y ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("score", SCORES)
def test_targets_with_holes_or_of_another_shape(score):
    regression, binary = MODELS["regression"], MODELS["binary"]
    for model, y in ((regression, SIGNAL), (binary, LABEL.astype(float))):
        with pytest.raises(ti.DataError, match="missing"):
            score_rows(score, model, X, with_value(y, np.nan))
    for hole in (None, np.nan, pd.NA):
        with pytest.raises(ti.DataError, match="missing"):
            score_rows(score, MODELS["animals"], X, pd.Series(WORDS, dtype=object).mask(np.arange(N) == 7, hole))
    for y, word in ((SIGNAL[:-1], "59"), (np.stack([SIGNAL, SIGNAL], axis=1), "2 columns"), (None, "pass y")):
        with pytest.raises(ti.DataError, match=word):
            score_rows(score, regression, X, y)
    whole, column = (score_rows(score, regression, X, y).scores for y in (SIGNAL, SIGNAL[:, None]))
    np.testing.assert_array_equal(whole, column)
    for y in (SIGNAL[:3], ["a"] * N, np.full(N, np.nan), np.zeros((N, 1, 1)), {}, 3, object()):
        with pytest.raises(ti.TreeInnerError):
            score_rows(score, regression, X, y)
    for table in (X[:0], pd.DataFrame(X[:0], columns=["f0", "f1", "f2"])):
        with pytest.raises(ti.DataError, match="no rows"):
            score_rows(score, regression, table, SIGNAL[:0])


# -- arguments -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("options", "word"), [
    ({"score": "gain"}, "score='gain'"), ({"method": "shap"}, "method='shap'"), ({"method": "predecmp"}, "'predecomp'"),
    ({"score": "tree_iner"}, "'tree_inner'"), ({"score": "total_gain"}, r"ti\.total_gain"),
    ({"score": "permutation"}, r"ti\.permutation_importance"), ({"score": "abs"}, r"ti\.mean_abs"),
    ({"score": "forest_inner"}, r"ti\.forest_inner"), ({"method": lambda tree, rows: rows}, "method="),
    ({"n_jobs": 0}, "n_jobs=0"), ({"n_jobs": "2"}, "n_jobs="), ({"n_jobs": 1.5}, "n_jobs="),
    ({"n_repeats": 3}, "n_repeats"), ({"sample_wieght": np.ones(N)}, "sample_wieght"),
    ({"learning_rate": 0.1}, "learning_rate"), ({"confidence": 0.9}, "confidence"), ({"oob": True}, "oob=True"),
    ({"qid": np.zeros(N)}, "qid"), ({"feature_groups": [[0, 1]]}, "feature_groups"),
    ({"feature_groups": {"pair": ["f0", "f9"]}}, "'f9'"), ({"feature_groups": {"pair": [0, 7]}}, "7"),
    ({"feature_groups": {"a": [0, 1], "b": [1, 2]}}, "'b'"), ({"feature_groups": {"pair": []}}, "'pair'"),
    ({"feature_groups": {"pair": None}}, "'pair'"), ({"feature_groups": {"f2": [0, 1]}}, "f2"),
    ({"feature_groups": "prefix:_"}, "prefix"),
])  # fmt: skip
def test_arguments_without_a_meaning(options, word):
    with pytest.raises((ValueError, TypeError), match=word):
        ti.importance(MODELS["regression"], X, SIGNAL, **options)


def test_arguments_of_an_accumulator():
    for options in ({"score": "gain"}, {"method": "shap"}, {"score": "permutation"}):
        with pytest.raises(ValueError, match=next(iter(options.values()))):
            ti.ImportanceAccumulator(MODELS["regression"], **options).update(X, SIGNAL)
    with pytest.raises(TypeError, match="sample_wieght"):
        ti.ImportanceAccumulator(MODELS["regression"]).update(X, SIGNAL, sample_wieght=np.ones(N))


# -- what a model does not say ---------------------------------------------------------------------------------------
def test_a_loss_that_is_not_stored_is_asked_for():
    model = MODELS["custom"]
    for score in SCORES:
        with pytest.raises(ti.UnknownParameterError, match="objective"):
            score_rows(score, model, X, SIGNAL)
    functions = (lambda y, margin: margin - y, lambda y, margin: (margin - y, np.ones_like(margin)))
    named, *others = (
        ti.importance(ti.read_model(model, objective=objective), X, SIGNAL)
        for objective in ("squared_error", *functions)
    )
    for other in others:
        np.testing.assert_allclose(other.scores, named.scores, rtol=1e-7)  # units of the leaf sums
        assert "your loss per row" in repr(other)
    for bad in ("squared_eror", lambda y, margin: np.zeros(3), lambda y, margin: np.full(len(margin), np.nan),
                ti.Loss(name="q", gradient=None), lambda m, data: m - data.get_label(), lambda y: y):  # fmt: skip
        with pytest.raises(ti.TreeInnerError, match=r"did you mean|nan at|\(y, margin\) (failed|has)"):
            ti.importance(ti.read_model(model, objective=bad), X, SIGNAL)


def test_a_learning_rate_that_cannot_be_known_is_asked_for_by_predecomp_alone(tmp_path):
    """max_delta_step clips the leaves of every tree, so that no node tells the rate."""
    booster(SIGNAL * 100, max_delta_step=0.1, base_score=0.0).save_model(tmp_path / "model.json")
    model = ti.read_model(tmp_path / "model.json", objective="reg:squarederror")
    with pytest.raises(ti.TreeInnerError, match=r"learning_rate|PreDecomp"):
        ti.importance(model, X, SIGNAL * 100, score="tree_inner", method="predecomp")
    for method in ("centred", "saabas", "treeshap"):
        assert ti.importance(model, X, SIGNAL * 100, score="tree_inner", method=method).scores.any()


def test_a_category_that_training_did_not_see_is_refused_and_a_column_of_none_has_a_note():
    frame = pd.DataFrame({"number": X[:, 0], "word": pd.Categorical(np.array(list("aceg"))[np.arange(N) % 4])})
    other = frame.assign(word=pd.Categorical(["b"] * N))
    model = xgb.XGBRegressor(n_estimators=3, enable_categorical=True, n_jobs=1).fit(frame, SIGNAL)
    with pytest.raises(ti.DataError, match="'b'"):
        ti.importance(model, other, SIGNAL)
    light = lgb.LGBMRegressor(n_estimators=3, min_child_samples=5, n_jobs=1, verbose=-1).fit(frame, SIGNAL)
    with pytest.warns(ti.TreeInnerWarning, match="word"):  # all missing, as LightGBM itself has it
        imp = ti.importance(light, other, SIGNAL)
    assert "unknown_categories" in [note.code for note in imp.notes]
