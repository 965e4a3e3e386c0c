"""Importance, what comes back: a table of one quantity, read-only, picklable, in the library of X."""

import copy
import dataclasses
import functools
import itertools
import json
import pickle

import catboost
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import treeinner as ti
from tests.cases import same_bits
from tests.models import Models

N, NAMES = 300, ("age", "income", "height", "noise")
STATISTICS = ["score", "std_error", "ci_low", "ci_high", "p_value", "q_value", "holds", "holds_std_error"]
COLUMNS = ["feature", *STATISTICS, "verdict", "rank"]


def rows(seed=0):
    """Two signals and two columns of noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4)).astype(np.float32)
    return X, (3 * X[:, 0] + X[:, 1] + rng.normal(size=N)).astype(np.float32)


def two_targets(seed=0):
    """The same rows with two targets."""
    X, y = rows(seed)
    return X, np.column_stack([y, -y])


def classes(seed=0):
    """The same rows with three classes."""
    X, y = rows(seed)
    return X, np.array(["low", "mid", "top"])[np.digitize(y, [-1, 1])]


SMALL = {"n_estimators": 20, "max_depth": 3, "n_jobs": 1}
CATBOOST = {"iterations": 3, "thread_count": 1, "verbose": False, "allow_writing_files": False}
MODELS = Models(
    named=lambda: xgb.XGBRegressor(**SMALL).fit(pd.DataFrame(rows()[0], columns=NAMES), rows()[1]),
    bare=lambda: xgb.XGBRegressor(**SMALL).fit(*rows()),
    opposite=lambda: xgb.XGBRegressor(**SMALL).fit(rows()[0], -rows()[1]),
    stump=lambda: xgb.XGBRegressor(n_estimators=1, max_depth=1).fit(*rows()),
    xgboost=lambda: xgb.XGBRegressor(**SMALL).fit(*two_targets()),
    catboost=lambda: catboost.CatBoostRegressor(loss_function="MultiRMSE", **CATBOOST).fit(*two_targets()),
    forest=lambda: RandomForestRegressor(3, max_depth=3, random_state=0).fit(*two_targets()),
    classes=lambda: RandomForestClassifier(3, max_depth=3, random_state=0).fit(*classes()),
    pairs=lambda: RandomForestClassifier(3, max_depth=3, random_state=0).fit(
        rows()[0], np.where(two_targets()[1] > 0, "high", "low")
    ),
)


@pytest.fixture(scope="module")
def held_out():
    return ti.importance(MODELS["named"], *rows(1))


# -- the table -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [lambda X: pd.DataFrame(X, columns=NAMES), lambda X: pl.DataFrame(X, schema=NAMES)])
def test_a_frame_in_is_a_frame_out_best_first(make, held_out):
    X, y = rows(1)
    imp = ti.importance(MODELS["named"], make(X), type(make(X)["age"])(y))
    same_bits(imp, held_out)
    frame = imp.to_frame()
    assert type(frame) is type(make(X))
    assert list(frame.columns) == COLUMNS
    assert list(frame["feature"]) == [NAMES[k] for k in imp.order]
    assert list(frame["score"]) == sorted(imp.scores.tolist(), reverse=True)
    assert list(frame["rank"]) == [1, 2, 3, 4]


def test_one_feature_is_a_row_of_the_table(held_out):
    frame = held_out.to_frame().set_index("feature")
    for k, name in enumerate(NAMES):
        assert held_out[name] == held_out[k]
        assert vars(held_out[name]) == {"feature": name, **frame.loc[name].to_dict()}
    assert held_out[-1].feature == "noise"
    for key, error, word in (("agee", KeyError, "'age'"), (4, IndexError, "0 to 3"), (slice(2), TypeError, "feature")):
        with pytest.raises(error, match=word):
            held_out[key]


def test_the_best_few_keep_their_numbers_and_verdicts(held_out):
    for n in range(6):
        top = held_out.top(n)
        assert top.feature_names == tuple(NAMES[k] for k in held_out.order[:n])
        assert top.verdicts == tuple(held_out.verdicts[k] for k in held_out.order[:n])
    assert top["age"] == held_out["age"]
    np.testing.assert_array_equal(top.by_round(), held_out.by_round()[:, held_out.order])
    for name in ("holds", "holds_std_errors"):
        np.testing.assert_array_equal(getattr(top, name), getattr(held_out, name)[held_out.order])
    inner = ti.importance(MODELS["named"], *rows(1), score="tree_inner")
    np.testing.assert_allclose(inner.top(4).gains, inner.gains[inner.order], rtol=1e-15)


def test_verdicts_are_words_for_q_and_the_sign(held_out):
    assert held_out["age"].verdict == held_out["income"].verdict == "signal"
    assert ti.importance(MODELS["opposite"], *rows(1))["f0"].verdict == "harmful"
    stump = ti.importance(MODELS["stump"], *rows(1))
    assert np.count_nonzero(stump.scores) == 1
    assert stump.verdicts.count("unclear") == 3
    for name, q in zip(NAMES, held_out.q_values, strict=True):
        assert (held_out[name].verdict != "unclear") == (q <= 0.1)


def test_json_is_the_table_without_infinities(held_out):
    read = json.loads(held_out.to_json())
    assert list(read["features"]) == COLUMNS
    assert read["features"]["feature"] == list(NAMES)
    assert read["features"]["score"] == held_out.scores.tolist()
    assert (read["score"], read["method"], read["n_rows"]) == ("signal", "centred", N)
    assert "half the squared error" in read["unit"]
    single = json.loads(ti.importance(MODELS["named"], *(part[:1] for part in rows(1))).to_json())
    assert single["features"]["std_error"] == [None] * 4


@pytest.mark.parametrize(("score", "method"), [
    ("signal", "centred"), *itertools.product(["tree_inner", "loss"], ["centred", "predecomp", "treeshap"])
])  # fmt: skip
@pytest.mark.parametrize("name", ["named", "classes"])
def test_pickles_are_the_same_to_the_last_bit(name, score, method):
    imp = ti.importance(MODELS[name], *(rows(1) if name == "named" else classes(1)), score=score, method=method)
    for again in (pickle.loads(pickle.dumps(imp)), copy.deepcopy(imp)):
        same_bits(again, imp)
        np.testing.assert_array_equal(again.gains, imp.gains)
        assert (again.title, again.unit, again.notes, repr(again)) == (imp.title, imp.unit, imp.notes, repr(imp))


def arrays_of(thing):
    """Arrays of a result and of its parts."""
    for each in dataclasses.fields(thing):
        value = getattr(thing, each.name)
        if isinstance(value, np.ndarray):
            yield each.name, value
        elif dataclasses.is_dataclass(value):
            yield from arrays_of(value)


@pytest.mark.parametrize("score", ["signal", "tree_inner", "loss"])
def test_results_are_read_only(score):
    imp = ti.importance(MODELS["classes"], *classes(1), score=score)
    parts = [imp, imp.top(2), imp.for_output(0), pickle.loads(pickle.dumps(imp))]
    parts.append(ti.compare(MODELS["named"], rows(0), rows(1)))
    for part in parts:
        for name, array in arrays_of(part):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
            assert array.size, name
    for name in ("scores", "std_errors", "df", "p_values", "q_values"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(imp, name)[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        imp.score = "loss"


def test_gains_follow_a_schedule_of_rates_and_are_none_where_these_are_not_known(tmp_path):
    X, y = rows()
    rates = [0.5, 0.3, 0.1, 0.3]
    booster = xgb.train(
        {"max_depth": 3, "nthread": 1}, xgb.DMatrix(X, y), 4, callbacks=[xgb.callback.LearningRateScheduler(rates)]
    )
    own = booster.get_score(importance_type="total_gain")
    own = np.array([own.get(f"f{k}", 0.0) for k in range(4)])
    used = [0.3, *rates[:-1]]  # the callback sets the rate of the round that follows
    told = ti.read_model(booster, learning_rate=used, reg_lambda=1.0)
    inner = functools.partial(ti.importance, score="tree_inner")
    gains = inner(told, X, y, method="predecomp").gains
    np.testing.assert_allclose(gains, own, rtol=0, atol=2e-6 * own.sum())  # float32 gains, leaves and margins
    assert inner(told, X, y, method="treeshap").gains is None  # which has no scores by round
    clipped = xgb.train({"max_depth": 2, "nthread": 1, "max_delta_step": 0.1}, xgb.DMatrix(X, 100 * y), 3)
    clipped.save_model(tmp_path / "model.json")
    imp = inner(tmp_path / "model.json", X, 100 * y, method="saabas")
    assert imp.gains is None
    assert pickle.loads(pickle.dumps(imp)).gains is None
    told = ti.read_model(tmp_path / "model.json", learning_rate=0.3)
    np.testing.assert_allclose(inner(told, X, 100 * y, method="saabas").gains, N * imp.scores / 0.3, rtol=1e-12)


# -- names -----------------------------------------------------------------------------------------------------------
def test_names_of_the_frame_serve_a_model_without_names():
    X, y = rows(1)
    assert ti.importance(MODELS["bare"], X, y).feature_names == ("f0", "f1", "f2", "f3")
    frame = pd.DataFrame(X, columns=NAMES)
    imp = ti.importance(MODELS["bare"], frame, y, feature_groups={"body": ["height", "age"]})
    assert imp.feature_names == ("body", "income", "noise")


@pytest.mark.parametrize("name", ["xgboost", "catboost", "forest", "pairs"])
def test_columns_of_y_name_the_outputs(name):
    X, Y = two_targets(1)
    names, by_number = ("sys", "dia"), None
    if name == "pairs":
        Y = np.where(Y > 0, "high", "low")
        names = ("sys=high", "sys=low", "dia=high", "dia=low")
        by_number = ("0=high", "0=low", "1=high", "1=low")
    frame = pd.DataFrame(Y, columns=["sys", "dia"])
    imp = ti.importance(MODELS[name], X, frame)
    assert imp.output_names == names
    assert ti.importance(MODELS[name], X, Y).output_names == by_number
    for k, output in enumerate(names):
        one = imp.for_output(output)
        np.testing.assert_array_equal(one.scores, imp.for_output(k).scores)
        assert one.output_names == (output,)
    np.testing.assert_allclose(sum(imp.for_output(k).scores for k in range(len(names))), imp.scores, rtol=1e-12)
    acc = ti.ImportanceAccumulator(MODELS[name], score="tree_inner").update(X, Y).update(X, frame)
    assert acc.result().output_names == names
    for other in (frame[["dia", "sys"]], frame.set_axis(["sys", "pulse"], axis=1)):
        with pytest.raises(ti.DataError, match="columns"):
            acc.update(X, other)
    assert acc.n_rows == 2 * N


def test_outputs_by_name_and_number():
    imp = ti.importance(MODELS["classes"], *classes(1))
    assert imp.output_names == ("low", "mid", "top")
    np.testing.assert_array_equal(imp.for_output("top").scores, imp.for_output(-1).scores)
    for output, error in (("none", KeyError), (3, IndexError), (1.5, TypeError)):
        with pytest.raises(error, match="output"):
            imp.for_output(output)
    with pytest.raises(ValueError, match="one output"):
        imp.for_output(0).for_output(0)
