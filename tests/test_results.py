"""What comes back, and what a caller may rely on: Importance as a table, files and pickles, a model opened once."""

import copy
import dataclasses
import pickle
import re
import tracemalloc
import warnings

import catboost
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import treeinner as ti
from treeinner import readers
from treeinner.scores.result import Q_LIMIT

N, NAMES = 300, ("age", "income", "height", "noise")


def rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    return X, (3 * X[:, 0] + X[:, 1] + rng.normal(size=n)).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    X, y = rows()
    return xgb.XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1).fit(pd.DataFrame(X, columns=NAMES), y)


@pytest.fixture(scope="module")
def held_out(model):
    return ti.importance(model, *rows(1))


# -- the table ---------------------------------------------------------------------------------------------------
def test_one_feature_by_name_or_number_is_a_row_of_the_table(held_out):
    frame = held_out.to_frame().set_index("feature")
    for k, name in enumerate(NAMES):
        row = held_out[name]
        assert row == held_out[k]
        assert dataclasses.asdict(row) == {"feature": name, **frame.loc[name].to_dict()}
    assert list(frame["rank"]) == [1, 2, 3, 4]
    with pytest.raises(KeyError, match="'agee' is not a feature; did you mean 'age'"):
        held_out["agee"]
    with pytest.raises(KeyError, match="'bmi' is not a feature; the best ones are age"):
        held_out["bmi"]
    with pytest.raises(IndexError, match="There is no feature 4: features are numbered 0 to 3"):
        held_out[4]
    with pytest.raises(TypeError, match="the name or the number of one feature, got slice"):
        held_out[:2]


def test_verdicts_go_by_the_q_values_of_either_side(held_out):
    assert held_out["age"].verdict == "signal"
    for name, q in zip(NAMES, held_out.q_values, strict=True):
        assert (held_out[name].verdict == "signal") == (q < Q_LIMIT)
    X, y = rows(1)
    harmful = ti.importance(ti.read_model(xgb_of(-y)), X, y)  # trained on the opposite
    assert harmful["f0"].verdict == "harmful"
    assert harmful["f0"].score < 0
    assert ti.importance(xgb_of(y), X, score="abs")["f0"].verdict == ""


def xgb_of(y, **params):
    X, _ = rows(1)
    return xgb.train({"max_depth": 3, "nthread": 1, **params}, xgb.DMatrix(X, y), 15)


def test_an_unused_feature_has_no_verdict_but_noise():
    X, y = rows()
    booster = xgb.train({"max_depth": 1, "nthread": 1}, xgb.DMatrix(X, y), 1)
    imp = ti.importance(booster, X, y)
    used = imp.scores != 0
    assert used.sum() == 1
    assert {v for v, u in zip(imp.verdicts, used, strict=True) if not u} == {"not told apart from noise"}


def test_the_best_few_are_an_importance_of_their_own(held_out):
    top = held_out.top(2)
    assert top.feature_names == tuple(held_out.feature_names[k] for k in held_out.order[:2])
    assert dataclasses.asdict(top["age"]) == dataclasses.asdict(held_out["age"])
    assert np.array_equal(top.by_round(), held_out.by_round()[:, held_out.order[:2]])
    assert np.array_equal(top.gains, held_out.gains[held_out.order[:2]])
    assert len(held_out.top(99)) == len(held_out) == 4


def test_a_verdict_is_one_of_all_features_in_a_part_too():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 30)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=N)
    booster = xgb.train({"max_depth": 3, "nthread": 1}, xgb.DMatrix(X[:150], -y[:150]), 5)  # harmful where it counts
    imp = ti.importance(booster, X[150:], y[150:])
    assert set(imp.verdicts) >= {"harmful", "not told apart from noise"}
    for n in range(31):
        assert imp.top(n).verdicts == tuple(imp.verdicts[k] for k in imp.order[:n])


@pytest.mark.parametrize("score", ["tree_inner", "loss"])
@pytest.mark.parametrize("method", ["centred", "predecomp", "treeshap"])
def test_an_importance_survives_a_file_and_a_pickle_bit_for_bit(model, score, method, tmp_path):
    imp = ti.importance(model, *rows(1), score=score, method=method)
    imp.save(tmp_path / "imp")
    for again in (ti.load(tmp_path / "imp"), ti.Importance.load(tmp_path / "imp"), pickle.loads(pickle.dumps(imp))):
        pd.testing.assert_frame_equal(again.to_frame(), imp.to_frame(), check_exact=True)
        if score == "tree_inner":
            assert np.array_equal(again.gains, imp.gains)
        assert (again.title, again.unit, again.notes, again.n_rows) == (imp.title, imp.unit, imp.notes, imp.n_rows)
        assert repr(again) == repr(imp)
        if method != "treeshap":
            assert np.array_equal(again.by_round(), imp.by_round())
        assert again.overshoot == imp.overshoot
        for name, value in vars(imp.losses).items():
            assert np.array_equal(getattr(again.losses, name), value, equal_nan=value is not None)
    multi = ti.importance(several_outputs(), *several_rows())
    multi.save(tmp_path / "multi")
    loaded = ti.load(tmp_path / "multi")
    assert loaded.output_names == multi.output_names
    assert np.array_equal(loaded.for_output(1).scores, multi.for_output(1).scores)


def test_total_gain_is_saved_and_loaded(tmp_path):
    X = np.random.default_rng(0).normal(size=(80, 3))
    gains = ti.total_gain(xgb.XGBRegressor(n_estimators=3).fit(X, X[:, 0]))  # of no rows
    gains.save(tmp_path / "gains")
    loaded = ti.load(tmp_path / "gains")
    assert np.array_equal(loaded.scores, gains.scores)
    assert np.isnan(loaded.sum_of_weights)


def test_other_scores_in_the_second_pass_have_two_causes():
    """Targets that changed, or a weight beside which float64 loses the others: both look the same."""
    X = np.random.default_rng(0).normal(size=(80, 3))
    model = xgb.XGBRegressor(n_estimators=3).fit(X, X[:, 0])
    second = ti.ImportanceAccumulator(model, std_errors=False).update(X, X[:, 0]).second_pass()
    with pytest.raises(ti.DataError, match="saw other rows than the first, or one weight is so large that the others"):
        second.update(X, -9 * X[:, 0]).result()


@pytest.mark.parametrize(("largest", "uneven"), [(1.0, False), (30.0, False), (1000.0, True), (1e300, True)])
def test_few_rows_with_most_of_the_weight_are_spoken_of(largest, uneven):
    """Noise has p < .05 in one of six tests where one weight is 1,000 and 199 are 1; with equal ones in one of 30."""
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(400, 3)), np.ones(200)
    weight[0] = largest
    model = xgb.XGBRegressor(n_estimators=10).fit(X[:200], X[:200, 0])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        notes = ti.importance(model, X[200:], X[200:, 0], sample_weight=weight).notes
    spoken = [str(one.message) for one in said if "most of the weight" in str(one.message)]
    assert bool(spoken) == uneven == any("count for about 1." in note for note in notes)


def test_a_file_that_cannot_be_written_is_named_as_the_user_named_it(held_out, tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "absent" / "imp", tmp_path / "file" / "imp", tmp_path):
        with pytest.raises(OSError, match=rf"^\[Errno \d+\] [\w ]+: '{re.escape(str(path))}'$"):
            held_out.save(path)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "file"]


def test_gains_that_cannot_be_known_say_so_after_a_file_too(tmp_path):
    """max_delta_step clips every leaf, so that no node tells the rate, and the file does not store it."""
    X, y = rows()
    booster = xgb.train({"max_depth": 2, "nthread": 1, "max_delta_step": 0.1}, xgb.DMatrix(X, 100 * y), 3)
    booster.save_model(tmp_path / "model.json")
    ti.importance(tmp_path / "model.json", X, 100 * y, method="saabas").save(tmp_path / "imp")
    with pytest.raises(ti.UnknownParameterError, match="pass learning_rate="):
        _ = ti.load(tmp_path / "imp").gains


def test_scores_without_gains_say_so(model):
    X, y = rows(1)
    for imp in (ti.permutation_importance(model, X, y), ti.importance(model, X, score="abs")):
        with pytest.raises(ValueError, match="has no gains"):
            _ = imp.gains


def no_attribution(tree, rows):
    return np.zeros((len(rows), tree.n_features))


def test_gains_with_a_schedule_of_rates():
    X, y = rows()
    rates = [0.5, 0.3, 0.1, 0.3]
    booster = xgb.train(
        {"max_depth": 3, "nthread": 1}, xgb.DMatrix(X, y), 4, callbacks=[xgb.callback.LearningRateScheduler(rates)]
    )
    own = booster.get_score(importance_type="total_gain")
    own = np.array([own.get(f"f{k}", 0.0) for k in range(4)])
    # Proposition 3; XGBoost keeps gains, leaves and margins in float32.
    gains = ti.importance(booster, X, y, method="predecomp").gains
    np.testing.assert_allclose(gains, own, rtol=0, atol=2e-6 * own.sum())
    by_rows = ti.importance(booster, X, y, method="treeshap", by_round=True)
    used = np.array([0.3, *rates[:-1]])  # the callback sets the rate of the round that follows
    per_round = by_rows.by_round() * N / used[:, None]
    np.testing.assert_allclose(by_rows.gains, per_round.sum(axis=0), rtol=1e-6)  # rates inferred from float32
    for method, name in (("treeshap", "'treeshap'"), (no_attribution, "'no_attribution'")):
        with pytest.raises(ti.TreeInnerError, match=f"gains by {name} then need the scores by round"):
            _ = ti.importance(booster, X, y, method=method).gains


# -- names of outputs --------------------------------------------------------------------------------------------
def several_rows():
    X, y = rows(1)
    return X, np.column_stack([y, -y])


def several_outputs():
    X, Y = several_rows()
    return xgb.XGBRegressor(n_estimators=5, max_depth=2, n_jobs=1).fit(X, Y)


def test_outputs_are_called_like_the_columns_of_y():
    model, (X, Y) = several_outputs(), several_rows()
    assert ti.importance(model, X, Y).output_names is None
    frame = pd.DataFrame(Y, columns=["price", "weight"])
    imp = ti.importance(model, X, frame)
    assert imp.output_names == ("price", "weight")
    assert np.array_equal(imp.for_output("weight").scores, imp.for_output(1).scores)
    acc = ti.ImportanceAccumulator(model).update(X, frame)
    assert ti.ImportanceAccumulator(model).from_bytes(acc.to_bytes()).result().output_names == ("price", "weight")
    with pytest.raises(ValueError, match="The scores of one output have no gains; use `gains` of the whole"):
        _ = imp.for_output(0).gains
    with pytest.raises(IndexError, match="There is no output 2: outputs are numbered 0 to 1"):
        imp.for_output(2)


@pytest.mark.parametrize("kind", ["xgboost", "catboost", "forest", "forest of classes"])
def test_columns_of_y_name_the_outputs_in_every_library(kind):
    X, Y = several_rows()
    names, by_number = ("sys", "dia"), None
    if kind == "xgboost":
        model = several_outputs()
    elif kind == "catboost":
        settings = {"iterations": 3, "thread_count": 1, "verbose": False, "allow_writing_files": False}
        model = catboost.CatBoostRegressor(loss_function="MultiRMSE", **settings).fit(X, Y)
    elif kind == "forest":
        model = RandomForestRegressor(3, max_depth=3, random_state=0).fit(X, Y)
    else:
        Y = np.where(Y > 0, "high", "low")
        model = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, Y)
        names = ("sys=high", "sys=low", "dia=high", "dia=low")
        by_number = ("0=high", "0=low", "1=high", "1=low")
    frame = pd.DataFrame(Y, columns=["sys", "dia"])
    assert ti.importance(model, X, frame).output_names == names
    assert ti.importance(model, X, Y).output_names == ti.attribute(model, X).output_names == by_number
    acc = ti.ImportanceAccumulator(model).update(X, frame)
    before = acc.to_bytes()
    for other in (frame[["dia", "sys"]], frame.set_axis(["sys", "pulse"], axis=1)):
        with pytest.raises(ti.DataError, match="'sys', 'dia' in other batches"):
            acc.update(X, other)
        with pytest.raises(ti.DataError, match="in other batches"):
            acc + ti.ImportanceAccumulator(model).update(X, other)
    assert acc.to_bytes() == before
    assert acc.update(X, Y).result().output_names == names


# -- scores by round ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("alpha", [0.0, 3.0])
@pytest.mark.parametrize("method", ["centred", "predecomp"])
def test_scores_by_round_come_with_l1_too(alpha, method):
    X, y = rows(1)
    booster = xgb_of(y, reg_alpha=alpha)
    imp = ti.importance(booster, X, y, method=method)
    assert imp.by_round().shape == (15, 4)
    assert np.array_equal(imp.by_round().sum(axis=0), imp.scores)
    assert np.array_equal(ti.importance(booster, X, y, method=method, std_errors=False).scores, imp.scores)
    assert ti.plots.rounds(imp) is not None


def test_scores_by_round_add_up_for_treeshap_too(model):
    X, y = rows(1)
    a, b = (ti.importance(model, X, y, method="treeshap", by_round=True, std_errors=s) for s in (True, False))
    assert np.array_equal(a.by_round().sum(axis=0), a.scores)
    assert np.array_equal(a.scores, b.scores)


def test_scores_by_round_hold_one_round_of_rows_at_a_time():
    """300 MB for 100 rounds x 2,048 rows x 64 features once; now one array of rows x features, twice."""
    X = np.random.default_rng(0).normal(size=(1024, 64)).astype(np.float32)
    y = X[:, 0]
    booster = xgb.train({"max_depth": 4, "nthread": 1, "eta": 0.1}, xgb.DMatrix(X, y), 60)
    model = ti.read_model(booster)
    ti.importance(model, X[:64], y[:64], method="treeshap", by_round=True, n_jobs=1)  # what the model keeps
    tracemalloc.start()
    ti.importance(model, X, y, method="treeshap", by_round=True, n_jobs=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    one = X.shape[0] * X.shape[1] * 8
    assert peak < 12 * one  # 60 rounds of rows x features would be 60


@pytest.mark.parametrize("score", ["tree_inner", "loss"])
@pytest.mark.parametrize("method", ["centred", "predecomp"])
def test_a_loss_outside_the_core_scores_the_same_with_and_without_errors(score, method):
    X, y = rows(1)
    model = xgb_of(y, objective="reg:pseudohubererror")
    a, b = (ti.importance(model, X, y, score=score, method=method, std_errors=errors) for errors in (True, False))
    assert np.array_equal(a.scores, b.scores)
    assert np.array_equal(a.by_round().sum(axis=0), a.scores)


# -- a model is opened once --------------------------------------------------------------------------------------
@pytest.fixture
def opened(monkeypatch):
    calls, read = [], readers.read_object

    def counted(*args):
        calls.append(args[0])
        return read(*args)

    monkeypatch.setattr(readers, "read_object", counted)
    return calls


def test_every_call_opens_a_model_once(model, opened, tmp_path):
    X, y = rows(1)
    A, b = rows(2)
    for call in (
        lambda m: ti.compare(m, A, b, X, y),
        lambda m: ti.importance(m, X, y),
        lambda m: ti.permutation_importance(m, X, y, n_repeats=1),
        ti.total_gain,
        lambda m: ti.attribute(m, X),
        lambda m: ti.TreeExplainer(m).attribute(X),
        lambda m: ti.report(m, X, y, X_train=A, y_train=b, path=tmp_path / "page.html"),
    ):
        opened.clear()
        call(model)
        assert len(opened) == 1
    read = ti.read_model(model)
    opened.clear()
    ti.compare(read, A, b, X, y)
    ti.report(read, X, y, path=tmp_path / "page.html")
    assert opened == []


# -- accumulators that travel ------------------------------------------------------------------------------------
def models_and_files(tmp_path):
    X, y = rows()
    booster = xgb.train({"max_depth": 3, "nthread": 1, "eta": 0.17}, xgb.DMatrix(X, y), 8)
    booster.save_model(tmp_path / "xgb.json")
    yield booster, tmp_path / "xgb.json"
    params = {"num_leaves": 6, "num_threads": 1, "verbose": -1, "learning_rate": 0.17}
    light = lgb.train(params, lgb.Dataset(X, y), 8)
    light.save_model(tmp_path / "lgb.txt")
    yield light, tmp_path / "lgb.txt"
    cat = catboost.CatBoostRegressor(iterations=8, depth=3, thread_count=1, verbose=False, allow_writing_files=False)
    cat.fit(X, y).save_model(str(tmp_path / "cat.cbm"))
    yield cat, tmp_path / "cat.cbm"


@pytest.mark.parametrize("method", ["predecomp", "saabas", "treeshap"])
def test_an_object_and_its_own_file_add_up(method, tmp_path):
    X, y = rows(1)
    for model, path in models_and_files(tmp_path):
        a = ti.ImportanceAccumulator(model, method=method).update(X[:100], y[:100])
        b = ti.ImportanceAccumulator(path, method=method).update(X[100:], y[100:])
        whole = ti.importance(model, X, y, method=method)
        assert np.array_equal(a.merge(b).result().scores, whole.scores)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_classifier_and_its_own_file_add_up(n_classes, tmp_path):
    X, y = rows(1)
    code = np.digitize(y, [0, 3][: n_classes - 1])
    label = np.array(["a", "b", "c"])[code]
    one = {"n_estimators": 4, "n_jobs": 1}
    boosted = xgb.XGBClassifier(**one).fit(X, code)
    boosted.save_model(tmp_path / "b.json")
    light = lgb.LGBMClassifier(**one, verbose=-1).fit(X, label)
    light.booster_.save_model(tmp_path / "l.txt")
    cat = catboost.CatBoostClassifier(iterations=4, thread_count=1, verbose=False, allow_writing_files=False)
    cat.fit(X, label).save_model(str(tmp_path / "c.cbm"))
    cat.save_model(str(tmp_path / "c.json"), format="json")
    for model, y_model, file, y_file in (
        (boosted, code, "b.json", code),
        (light, label, "l.txt", code),  # the file does not store the labels
        (cat, label, "c.cbm", label),
        (cat, label, "c.json", label),
    ):
        parts = ti.ImportanceAccumulator(model), ti.ImportanceAccumulator(tmp_path / file)
        both = parts[0].update(X[:100], y_model[:100]).merge(parts[1].update(X[100:], y_file[100:]))
        assert np.array_equal(both.result().scores, ti.importance(model, X, y_model).scores)


def test_accumulators_add_up_by_plus_and_by_sum(model):
    X, y = rows(1)
    parts = [ti.ImportanceAccumulator(model).update(X[k::3], y[k::3]) for k in range(3)]
    before = [part.to_bytes() for part in parts]
    whole = ti.ImportanceAccumulator(model)
    for k in (2, 0, 1):
        whole.update(X[k::3], y[k::3])
    whole = whole.to_bytes()
    assert sum(parts).to_bytes() == (parts[0] + parts[1] + parts[2]).to_bytes() == whole
    for copied in (sum(parts[:1]), copy.copy(parts[0]), copy.deepcopy(parts[0])):
        assert copied.update(X, y).result().n_rows == N + 100
    assert [part.to_bytes() for part in parts] == before
    for other in (1, None, [parts[0]]):
        assert parts[0].__add__(other) is parts[0].__radd__(other) is NotImplemented
    with pytest.raises(TypeError, match="unsupported operand"):
        parts[0] + 1


def test_the_order_of_groups_changes_no_fingerprint(model):
    one, two = {"a": ["age", "income"], "b": ["noise"]}, {"b": ["noise"], "a": ["age", "income"]}
    a, b = (ti.ImportanceAccumulator(model, feature_groups=g).fingerprint() for g in (one, two))
    assert a == b


def test_an_accumulator_travels_by_pickle(model):
    X, y = rows(1)
    whole = ti.ImportanceAccumulator(model).update(X, y)
    halves = [ti.ImportanceAccumulator(model).update(X[part], y[part]) for part in (slice(150), slice(150, N))]
    a, b = (pickle.loads(pickle.dumps(part)) for part in halves)
    assert np.array_equal(a.merge(b).result().std_errors, whole.result().std_errors)
    assert pickle.loads(pickle.dumps(ti.ImportanceAccumulator(model))).update(X, y).to_bytes() == whole.to_bytes()


def test_a_function_travels_under_a_name(model):
    """Sums by two functions without names could not be told apart."""
    X, y = rows(1)
    unnamed = {"method": lambda tree, rows: np.zeros((len(rows), 4)), "objective": lambda y, margin: margin - y}
    for name, function in unnamed.items():
        acc = ti.ImportanceAccumulator(model, **{name: function}).update(X, y)
        for travel in (pickle.dumps, ti.ImportanceAccumulator.to_bytes, lambda acc: acc + acc):
            with pytest.raises(ti.ModelError, match=f"give it a name: {name}.fingerprint = "):
                travel(acc)
        function.fingerprint = "mine"
        with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
            pickle.dumps([acc])
        assert copy.deepcopy(acc).to_bytes() == acc.to_bytes()
        cloudpickle = pytest.importorskip("cloudpickle")  # takes any function
        assert cloudpickle.loads(cloudpickle.dumps(acc)).to_bytes() == acc.to_bytes()
    acc = ti.ImportanceAccumulator(model, method=no_attribution)
    assert pickle.loads(pickle.dumps(acc)).to_bytes() == acc.to_bytes()


def test_a_refused_batch_leaves_no_names_behind():
    X, y = rows(1)
    acc = ti.ImportanceAccumulator(xgb_of(y))
    with pytest.raises(ti.DataError, match="rows"):
        acc.update(pd.DataFrame(X, columns=["wrong", "b", "c", "d"]), y[:-1])
    acc.update(pd.DataFrame(X, columns=NAMES), y)
    assert acc.result().feature_names == NAMES


def test_permutation_needs_no_covers():
    X, y = rows(1)
    e = ti.read_model(xgb_of(y)).ensemble
    bare = dataclasses.replace(e, cover=np.full(e.n_nodes, np.nan))
    a, b = (ti.permutation_importance(m, X, y, random_state=0) for m in (e, bare))
    assert np.array_equal(a.scores, b.scores)


# -- attributions ------------------------------------------------------------------------------------------------
def test_parts_of_an_attribution(model):
    X, _ = rows(1)
    frame = pd.DataFrame(X, columns=NAMES, index=np.arange(1000, 1000 + N))
    a = ti.attribute(model, frame)
    for index in (0, -1, slice(5, 9), [3, 1], np.arange(N) < 4):
        part = a[index]
        assert np.array_equal(part.values, np.atleast_2d(a.values[index]))
        assert np.array_equal(part.base_values, np.atleast_1d(a.base_values[index]))
        assert len(part.to_frame()) == len(part)
    assert a[7].to_frame().index.tolist() == [1007]
    assert np.array_equal(a[:, "income"], a.values[:, 1])
    assert np.array_equal(a[:3, ["noise", "age"]], a.values[:3][:, [3, 0]])
    assert a[0, "age"] == a.values[0, 0]
    with pytest.raises(KeyError, match="did you mean 'income'"):
        a[:, "incomes"]
    with pytest.raises(IndexError, match="300 rows"):
        a[N]
    assert a.unit == "units of the target"
    assert "root" in a.base_definition
    assert "cover" in ti.attribute(model, frame, method="saabas").base_definition
