"""What stands on importance(): averages of models, groups behind a pipeline."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor, StackingRegressor, VotingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import treeinner as ti
from tests.cases import same_bits
from tests.models import Models

N, K = 240, 8
NAMES = [f"x{k}" for k in range(K)]


def data(classes=0, seed=0):
    """Training rows and held-out rows, the first two columns of which are of use."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * N, K)).astype(np.float32)
    y = X[:, 0] + np.sin(X[:, 1]) + rng.normal(size=2 * N)
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    return (X[:N], y[:N]), (X[N:], y[N:])


def booster(**params):
    """A regressor of XGBoost."""
    return xgb.XGBRegressor(**{"n_estimators": 20, "max_depth": 4, "learning_rate": 0.1, "n_jobs": 1, **params})


def light():
    """A regressor of LightGBM."""
    return lgb.LGBMRegressor(n_estimators=8, num_leaves=6, verbose=-1, n_jobs=1)


def framed(X):
    """Rows as a frame with names."""
    return pd.DataFrame(X, columns=NAMES)


def colours(seed=0):
    """Rows with a number and a colour, which carries the signal."""
    rng = np.random.default_rng(seed)
    colour = rng.choice(["red", "green", "blue"], 300)
    frame = pd.DataFrame({"size": rng.normal(size=300), "colour": colour, "noise": rng.normal(size=300)})
    return frame, (colour == "red") + 0.5 * frame["size"].to_numpy() + 0.5 * rng.normal(size=300)


MODELS = Models(
    regressor=lambda: booster().fit(*data()[0]),
    classifier=lambda: xgb.XGBClassifier(n_estimators=10, max_depth=3, n_jobs=1).fit(*data(3)[0]),
    named=lambda: booster().fit(framed(data()[0][0]), data()[0][1]),
    voting=lambda: VotingRegressor(
        [("xgb", booster()), ("lgb", light()), ("hist", HistGradientBoostingRegressor(max_iter=8))], weights=[3, 2, 1]
    ).fit(framed(data()[0][0]), data()[0][1]),
    twice=lambda: VotingRegressor([("a", booster()), ("b", booster())], weights=[1, 3]).fit(*data()[0]),
    stacking=lambda: StackingRegressor([("a", light())], LinearRegression()).fit(*data()[0]),
    pipeline=lambda: make_pipeline(
        ColumnTransformer([("hot", OneHotEncoder(), ["colour"])], remainder="passthrough"), booster(max_depth=3)
    ).fit(*colours()),
)


# -- averages --------------------------------------------------------------------------------------------------------
def test_an_average_is_the_weighted_mean_of_its_members_with_an_error_of_its_own():
    X, y = framed(data()[1][0]), data()[1][1]
    found = ti.importance(MODELS["voting"], X, y)
    members = [ti.importance(member, X, y) for member in MODELS["voting"].estimators_]
    expected = sum(w / 6 * member.scores for w, member in zip((3, 2, 1), members, strict=True))
    np.testing.assert_allclose(found.scores, expected, rtol=1e-5, atol=1e-8)  # shares are of float32 tables
    # Members that agree have no smaller error together: less than the sum, more than if they were independent.
    errors = np.array([w / 6 * member.std_errors for w, member in zip((3, 2, 1), members, strict=True)])
    assert np.all(found.std_errors <= errors.sum(axis=0) * (1 + 1e-6))
    assert np.all(found.std_errors[:2] > np.sqrt((errors**2).sum(axis=0))[:2])
    assert found.feature_names == tuple(NAMES)
    assert found.verdicts[:2] == ("signal", "signal")
    assert "average" in [note.code for note in found.notes]
    with pytest.raises(ValueError, match="round"):
        found.by_round()


@pytest.mark.parametrize("more", [
    {}, {"score": "loss"}, {"score": "loss", "method": "treeshap"}, {"clusters": np.arange(N) // 4},
    {"sample_weight": np.arange(N) % 3 / 7}, {"feature_groups": {"pair": [0, 1]}},
], ids=str)  # fmt: skip
def test_the_same_model_twice_is_the_model(more):
    found, alone = (ti.importance(model, *data()[1], **more) for model in (MODELS["twice"], MODELS["regressor"]))
    assert found.sum_of_weights == pytest.approx(alone.sum_of_weights)
    # Sums of shares in other units; those of the core are in float32.
    np.testing.assert_allclose(found.scores, alone.scores, rtol=0, atol=1e-5 * np.abs(alone.scores).max())
    np.testing.assert_allclose(found.std_errors, alone.std_errors, rtol=1e-5)
    np.testing.assert_allclose(found.df, alone.df, rtol=1e-4)


def test_what_has_no_meaning_for_several_models_is_refused_by_name():
    X, y = data()[1]
    for more in ({"oob": True}, {"base_margin": np.zeros(N)}, {"qid": np.zeros(N)}):
        with pytest.raises(ValueError, match=next(iter(more))):
            ti.importance(MODELS["twice"], X, y, **more)
    with pytest.raises(ti.UnsupportedModelError, match="StackingRegressor"):
        ti.importance(MODELS["stacking"], X, y)
    with pytest.raises(ti.DataError, match="memory"):
        ti.importance(MODELS["twice"], [(X[:100], y[:100]), (X[100:], y[100:])])


# -- groups and pipelines --------------------------------------------------------------------------------------------
def test_behind_a_pipeline_columns_are_those_that_go_in():
    (X, y), model = colours(1), MODELS["pipeline"]
    raw = ti.importance(model, X, y)
    assert raw.feature_names == ("size", "colour", "noise")
    same_bits(ti.importance(model, X, y, feature_groups="original"), raw)
    assert raw["colour"].verdict == "signal"
    raw, encoded = (ti.importance(model, X, y, score="loss", feature_groups=each) for each in ("original", "encoded"))
    hot = [k for k, name in enumerate(encoded.feature_names) if "colour" in name]
    assert len(hot) == 3
    assert raw["colour"].score == pytest.approx(encoded.scores[hot].sum(), rel=1e-9)
    inner = model[-1]  # the same numbers on what the model itself sees
    scores = ti.importance(inner, model[:-1].transform(X), y, score="loss").scores
    np.testing.assert_array_equal(scores, encoded.scores)
    groups = {"both": ["size", "noise"]}
    raw, grouped = (ti.importance(model, X, y, score="loss", feature_groups=g) for g in (None, groups))
    assert grouped["both"].score == pytest.approx(raw["size"].score + raw["noise"].score, rel=1e-9)
    acc = ti.ImportanceAccumulator(model, score="loss").update(X[:150], y[:150]).update(X[150:], y[150:])
    np.testing.assert_array_equal(acc.result().scores, raw.scores)
    assert ti.importance(model, X.assign(y=y), "y").feature_names == raw.feature_names
