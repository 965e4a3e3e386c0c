"""What stands on importance(): two sets of rows side by side, averages of models, groups behind a pipeline."""

import warnings

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from scipy import stats
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


# -- compare ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{}, {"score": "loss"}, {"method": "treeshap"}, {"method": "saabas"}], ids=str)
@pytest.mark.parametrize("name", ["regressor", "classifier"])
def test_both_sides_are_importances_and_the_gap_is_welchs(name, options):
    train, valid = data(3 if name == "classifier" else 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the second side is held out: no warning
        found = ti.compare(MODELS[name], train, valid, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sides = [ti.importance(MODELS[name], *rows, **options) for rows in (train, valid)]
    for side, expected in zip((found.before, found.after), sides, strict=True):
        same_bits(side, expected)
    a, b = sides
    np.testing.assert_allclose(found.gap.score, a.scores - b.scores, rtol=1e-13)
    np.testing.assert_allclose(found.gap.std_error, np.hypot(a.std_errors, b.std_errors), rtol=1e-12)
    var, df = np.array([a.std_errors**2, b.std_errors**2]), np.array([a.df, b.df])
    welch = var.sum(axis=0) ** 2 / (var**2 / df).sum(axis=0)
    t = np.abs(found.gap.score / found.gap.std_error)
    np.testing.assert_allclose(found.gap.p_value, 2 * stats.t.sf(t, welch), rtol=1e-9)
    if not options:  # noise is of use in sample and not outside of it
        assert np.all(found.gap.score[2:] > 0)


def test_weights_clusters_and_groups_of_each_side():
    train, valid = data()
    weight, clusters = np.random.default_rng(0).gamma(2.0, size=N), np.arange(N) % 30
    sides = (
        {"X": train[0], "y": train[1], "sample_weight": weight},
        {"X": valid[0], "y": valid[1], "clusters": clusters},
    )
    groups = {"noise": list(range(4, 8))}
    found = ti.compare(MODELS["regressor"], *sides, feature_groups=groups, names=("2023", "2024"))
    for side, given in zip((found.before, found.after), sides, strict=True):
        same_bits(side, ti.importance(MODELS["regressor"], **given, feature_groups=groups))
    columns = found.columns()
    np.testing.assert_array_equal(columns["2023"] - columns["2024"], columns["gap"])
    assert "2023" in repr(found)
    assert found.feature_names[-1] == "noise"


def test_training_rows_on_the_second_side_are_noticed_and_bad_sides_refused():
    train, valid = data()
    with pytest.warns(ti.TreeInnerWarning, match="Training rows"):
        found = ti.compare(MODELS["regressor"], train, train)
    assert "training_rows" in [note.code for note in found.notes]
    for side in ([train[0]], train[0], {"X": train[0], "weight": 1}, {"y": train[1]}, None):
        with pytest.raises(TypeError, match="train"):
            ti.compare(MODELS["regressor"], side, valid)


@pytest.mark.parametrize("make", [framed, lambda X: pl.DataFrame(X, schema=NAMES)], ids=["pandas", "polars"])
def test_a_comparison_is_a_frame_of_the_library_of_x(make):
    (X, y), (A, b) = data()
    frame = ti.compare(MODELS["named"], (make(X), y), (make(A), b)).to_frame()
    assert type(frame) is type(make(X))
    assert list(frame.columns) == ["feature", "train", "valid", "gap", "std_error", "p_value", "q_value", "valid_rank"]
    assert list(frame["valid"]) == sorted(frame["valid"], reverse=True)
    assert list(frame["valid_rank"]) == list(range(1, K + 1))


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
    {}, {"score": "loss"}, {"method": "treeshap"}, {"clusters": np.arange(N) // 4},
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
    raw, encoded = ti.importance(model, X, y), ti.importance(model, X, y, feature_groups="encoded")
    assert raw.feature_names == ("size", "colour", "noise")
    same_bits(ti.importance(model, X, y, feature_groups="original"), raw)
    hot = [k for k, name in enumerate(encoded.feature_names) if "colour" in name]
    assert len(hot) == 3
    assert raw["colour"].score == pytest.approx(encoded.scores[hot].sum(), rel=1e-9)
    assert raw["colour"].verdict == "signal"
    inner = model[-1]  # the same numbers on what the model itself sees
    np.testing.assert_array_equal(ti.importance(inner, model[:-1].transform(X), y).scores, encoded.scores)
    grouped = ti.importance(model, X, y, feature_groups={"both": ["size", "noise"]})
    assert grouped["both"].score == pytest.approx(raw["size"].score + raw["noise"].score, rel=1e-9)
    acc = ti.ImportanceAccumulator(model).update(X[:150], y[:150]).update(X[150:], y[150:])
    np.testing.assert_array_equal(acc.result().scores, raw.scores)
    assert ti.importance(model, X.assign(y=y), "y").feature_names == raw.feature_names
