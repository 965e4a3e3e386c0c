"""The CatBoost reader against CatBoost's own margins and leaves, and against node values from gradients."""

import json
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tests import oracle
from treeinner import compiled
from treeinner.errors import DataError, MissingDependencyError, ModelError, UnsupportedModelError
from treeinner.model import read_model
from treeinner.options import ReadOptions

from .reading import catboost as reader

cb = pytest.importorskip("catboost")
pd = pytest.importorskip("pandas")

N = 240
FAST = {
    "iterations": 6,
    "depth": 3,
    "logging_level": "Silent",
    "allow_writing_files": False,
    "thread_count": 1,
}
POLICIES = ["SymmetricTree", "Depthwise", "Lossguide"]


def numbers(seed=0, missing=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 5))
    X[:, 4] = 1.0  # CatBoost drops constant features, but they keep their place
    signal = X[:, 0] + X[:, 1] ** 2 - (X[:, 2] > 0)
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    return X, signal


def mixed(seed=0):
    """A frame with numbers, few categories (one-hot) and many (target statistics, combined with others)."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=N),
            "few": rng.choice(["x", "y", "z"], N),
            "b": rng.normal(size=N),
            "code": rng.integers(0, 9, N),
            "many": rng.choice(list("klmnopqrst"), N),
        }
    )
    signal = X.a + 2 * (X.few == "x") + 0.3 * X.code + 2 * ((X.many < "n") & (X.few == "y")) + X.b * (X.code > 4)
    return X, signal.to_numpy()


def target(task, signal):
    return {
        "RMSE": signal,
        "Logloss": (signal > 0.5).astype(int),
        "MultiClass": np.array(["low", "mid", "top"])[(signal > 0).astype(int) + (signal > 1)],
        "MultiRMSE": np.column_stack([signal, signal**2]),
        "RMSEWithUncertainty": signal,
        "MultiLogloss": np.column_stack([signal > 0, signal > 1]).astype(int),
        "MultiClassOneVsAll": (signal > 0).astype(int) + (signal > 1),
        "Quantile:alpha=0.9": signal,
    }[task]


def fit(X, y, loss="RMSE", weight=None, cat=None, **params):
    model = cb.CatBoost(FAST | {"loss_function": loss} | params)
    return model.fit(cb.Pool(X, y, weight=weight, cat_features=cat))


def margins(model, X):
    raw = np.asarray(cb.CatBoost.predict(model, X, prediction_type="RawFormulaVal", thread_count=1))
    return raw.reshape(len(X), -1)


def codes(table, start=0, stop=None):
    block = table.block(start, table.n_rows if stop is None else stop)
    return np.asarray(block if isinstance(block, np.ndarray) else np.column_stack(block), dtype=np.float64)


def check(model, X, ensemble=None, rows=25):
    """Margins and leaves of the first rows equal the library's."""
    ensemble = reader.read(model) if ensemble is None else ensemble
    X = X[:rows]
    table = reader.make_table(model, X, ensemble)
    columns = np.asarray(X, dtype=np.float64) if table is None else codes(table)
    assert np.array_equal(oracle.apply(ensemble, columns), model.calc_leaf_indexes(X, thread_count=1))
    # The same float64 numbers, added in another order.
    np.testing.assert_allclose(oracle.predict(ensemble, columns), margins(model, X), rtol=1e-12, atol=1e-12)
    return ensemble


def same(one, other):
    """Two ensembles agree in every field."""
    for name, field in one.__getstate__().items():
        if isinstance(field, np.ndarray):
            assert np.array_equal(field, getattr(other, name), equal_nan=field.dtype.kind == "f"), name
        elif name != "schema":
            assert field == getattr(other, name), name
    assert repr(one.schema) == repr(other.schema)  # `missing` is NaN, which does not equal itself


# -- predictions --------------------------------------------------------------------------------------------
NUMERIC_CASES = [
    *((task, policy) for task in ("RMSE", "Logloss", "MultiClass", "MultiClassOneVsAll") for policy in POLICIES),
    *((task, "SymmetricTree") for task in ("MultiRMSE", "RMSEWithUncertainty", "MultiLogloss")),
    ("Quantile:alpha=0.9", "Lossguide"),
]


@pytest.mark.parametrize(("task", "policy"), NUMERIC_CASES)
def test_numeric_models_predict_as_catboost(task, policy):
    X, signal = numbers()
    model = fit(X, target(task, signal), task, grow_policy=policy)
    ensemble = check(model, X)
    assert ensemble.schema.n_columns == 5
    assert ensemble.feature_names is None
    assert ensemble.objective == task.split(":")[0]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("nan_mode", ["Min", "Max", "Forbidden"])
def test_missing_values_go_where_catboost_sends_them(nan_mode, policy):
    X, signal = numbers(missing=nan_mode != "Forbidden")
    model = fit(X, signal, nan_mode=nan_mode, grow_policy=policy)
    probe = numbers(seed=1, missing=True)[0]
    probe[:3] = [[np.nan] * 5, [np.inf] * 5, [-np.inf] * 5]
    check(model, probe, rows=40)


def test_borders_are_compared_in_float32():
    X, signal = numbers()
    model = fit(X, signal)
    ensemble = reader.read(model)
    border = ensemble.threshold[ensemble.feature == 0]
    probe = np.tile(X[:1], (3 * len(border), 1))
    probe[:, 0] = np.concatenate(
        [border, np.nextafter(border, np.inf), np.nextafter(np.float32(border), np.float32(np.inf))]
    )
    check(model, probe, ensemble, rows=len(probe))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("task", ["RMSE", "Logloss", "MultiClass"])
@pytest.mark.parametrize("one_hot", [2, 3, 20])
def test_categorical_models_predict_as_catboost(one_hot, task, policy):
    X, signal = mixed()
    params = {"one_hot_max_size": one_hot, "grow_policy": policy, "max_ctr_complexity": 3, "depth": 4}
    model = fit(X, target(task, signal), task, cat=["few", "code", "many"], **params)
    probe = mixed(seed=1)[0].assign(many=lambda frame: frame.many.where(frame.a < 1, "unseen"))
    ensemble = check(model, probe)
    assert ensemble.schema.external == ("catboost" if policy == "SymmetricTree" else "catboost-path")
    assert ensemble.feature_names == ("a", "few", "b", "code", "many")
    assert len(ensemble.column_features) == ensemble.schema.n_columns


def test_combined_target_statistics_share_their_credit():
    X, signal = mixed()
    model = fit(X, signal, cat=["few", "code", "many"], one_hot_max_size=2, max_ctr_complexity=3, iterations=30)
    ensemble = check(model, X)
    place = {"cat": [1, 3, 4], "float": [0, 2]}  # CatBoost numbers features of each kind on their own
    expected = [
        tuple(
            sorted(
                {
                    place[kind][element[f"{kind}_feature_index"]]
                    for element in data["elements"]
                    for kind in place
                    if f"{kind}_feature_index" in element
                }
            )
        )
        for data in json_of(model)["features_info"]["ctrs"]
    ]
    assert max(map(len, expected)) > 1
    assert list(ensemble.column_features[-len(expected) :]) == expected


def json_of(model):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        return json.loads(path.read_text())


@pytest.mark.parametrize("boosting_type", ["Plain", "Ordered"])
@pytest.mark.parametrize(
    "bootstrap",
    [
        {"bootstrap_type": "Bayesian"},
        {"bootstrap_type": "Bernoulli", "subsample": 0.5},
        {"bootstrap_type": "MVS"},
        {"bootstrap_type": "No"},
    ],
)
def test_sampling_and_boosting_types(boosting_type, bootstrap):
    X, signal = numbers()
    check(fit(X, signal, boosting_type=boosting_type, **bootstrap), X)


def test_deep_tree():
    X, signal = numbers()
    ensemble = check(fit(X, signal, depth=12, iterations=2), X, rows=10)
    assert ensemble.n_nodes == 2 * (2**13 - 1)


def test_early_stopping_and_iteration_range():
    X, signal = numbers()
    noise = np.random.default_rng(0).normal(size=N)
    model = cb.CatBoostRegressor(**FAST | {"iterations": 60, "early_stopping_rounds": 3})
    model.fit(X[:120], noise[:120], eval_set=(X[120:], noise[120:]))
    ensemble = check(model, X)
    assert ensemble.n_rounds == model.tree_count_ < 60
    model = fit(X, signal)
    part = reader.read(model, iteration_range=(1, 4))
    assert np.array_equal(oracle.apply(part, X[:9]), model.calc_leaf_indexes(X[:9], ntree_start=1, ntree_end=4))
    with pytest.raises(ValueError, match="iteration_range"):
        reader.read(model, iteration_range=(0, 7))


@pytest.mark.parametrize("policy", POLICIES)
def test_table_of_a_part_of_the_rounds(policy):
    X, signal = mixed()
    model = fit(X, signal, cat=["few", "code", "many"], grow_policy=policy)
    part = reader.read(model, iteration_range=(2, 5))
    leaves = oracle.apply(part, codes(reader.make_table(model, X[:20], part)))
    assert np.array_equal(leaves, model.calc_leaf_indexes(X[:20], ntree_start=2, ntree_end=5))


def test_scale_bias_and_sums_of_models():
    X, signal = numbers()
    model = fit(X, signal)
    model.set_scale_and_bias(2.5, -1.0)
    ensemble = check(model, X)
    assert ensemble.base_score.tolist() == [-1.0]
    assert set(ensemble.tree_weight) == {2.5}
    total = cb.sum_models([fit(X, signal), fit(X, signal, depth=2)], weights=[0.3, 0.7])
    ensemble = check(total, X)
    assert ensemble.needs == ("reg_lambda",)
    assert np.all(np.isnan(ensemble.tree_rate))
    assert "sum of models" in ensemble.exactness


# -- node values --------------------------------------------------------------------------------------------
def node_value_errors(ensemble, X, gradient, hessian, lam):
    """Largest distance of node values from -rate * G / (H + lam) of the training rows before each tree."""
    columns = np.asarray(X, dtype=np.float64)
    margin = np.tile(ensemble.base_score, (len(X), 1))
    worst = 0.0
    for tree in range(ensemble.n_trees):
        g, h = gradient(margin), hessian(margin)
        paths = [oracle.path(ensemble, tree, row) for row in columns]
        for node in range(ensemble.tree_start[tree], ensemble.tree_start[tree + 1]):
            inside = [node in path for path in paths]
            expected = -ensemble.tree_rate[tree] * g[inside].sum(0) / (h[inside].sum(0) + lam)
            worst = max(worst, float(np.abs(expected - ensemble.node_value[node]).max()))
        margin += np.array([ensemble.value[path[-1]] for path in paths])
    return worst


@pytest.mark.parametrize(
    ("policy", "sampling"),
    [
        *((policy, {}) for policy in POLICIES),
        *((policy, {"bootstrap_type": "Bernoulli", "subsample": 0.5}) for policy in POLICIES),
        ("SymmetricTree", {"boosting_type": "Ordered"}),  # CatBoost has it for symmetric trees only
    ],
)
def test_node_values_are_newton_steps_for_squared_error(policy, sampling):
    X, signal = numbers(missing=True)
    ensemble = reader.read(fit(X, signal, grow_policy=policy, l2_leaf_reg=5.0, **sampling))
    assert ensemble.exactness == "exact"
    assert ensemble.params["reg_lambda"] == 5.0
    error = node_value_errors(ensemble, X, lambda m: m - signal[:, None], np.ones_like, 5.0)
    assert error < 1e-6  # CatBoost holds targets, gradients and the bias in float32 in places


def test_node_values_of_vector_leaves():
    X, signal = numbers()
    y = target("MultiRMSE", signal)
    ensemble = reader.read(fit(X, y, "MultiRMSE"))
    assert ensemble.exactness == "exact"
    assert node_value_errors(ensemble, X, lambda m: m - y, np.ones_like, 3.0) < 1e-6  # float32 targets


@pytest.mark.parametrize("task", ["Logloss", "MultiClass"])
def test_node_values_with_the_gradient_method(task):
    X, signal = numbers()
    y = target(task, signal)
    model = fit(X, y, task, leaf_estimation_method="Gradient", leaf_estimation_iterations=1)
    ensemble = reader.read(model)
    assert ensemble.exactness == "exact"

    def gradient(m):
        if task == "Logloss":
            return 1 / (1 + np.exp(-m)) - y[:, None]
        p = np.exp(m) / np.exp(m).sum(1, keepdims=True)
        return p - (y[:, None] == np.array(ensemble.output_names))

    assert node_value_errors(ensemble, X, gradient, np.ones_like, 3.0) < 1e-6  # fast exp in CatBoost


def test_node_values_of_logistic_newton_leaves_say_that_they_are_approximate():
    X, signal = numbers()
    y = target("Logloss", signal)
    ensemble = reader.read(fit(X, y, "Logloss", leaf_estimation_iterations=1))
    assert "hessians" in ensemble.exactness
    leaves = ensemble.feature < 0
    inner = ensemble.node_value.copy()
    probability = lambda m: 1 / (1 + np.exp(-m))  # noqa: E731
    # Leaves are exact; for the inner ones only bounds hold: they lie between their leaves.
    object.__setattr__(ensemble, "node_value", np.where(leaves[:, None], ensemble.value, np.nan))
    columns, margin = X, np.zeros((N, 1))
    for tree in range(ensemble.n_trees):
        p = probability(margin)
        ends = np.array([oracle.path(ensemble, tree, row)[-1] for row in columns])
        for leaf in np.unique(ends):
            rows = ends == leaf
            step = -ensemble.tree_rate[tree] * (p[:, 0] - y)[rows].sum() / ((p * (1 - p))[rows].sum() + 3.0)
            assert abs(step - ensemble.value[leaf, 0]) < 1e-6  # fast exp in CatBoost
        margin += ensemble.value[ends]
        nodes = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
        values = ensemble.value[nodes][leaves[nodes]]
        assert values.min() <= inner[nodes].min() <= inner[nodes].max() <= values.max()


def test_two_trees_do_not_tell_the_mean_weight():
    """One equation for one unknown proves nothing."""
    X, signal = numbers()
    weight = np.random.default_rng(0).uniform(0.5, 3.0, N)
    ensemble = check(fit(X, signal, weight=weight, iterations=2), X)
    inner = ensemble.feature >= 0
    assert ensemble.needs == ("reg_lambda",)
    assert np.all(np.isnan(ensemble.node_value[inner]))
    assert not np.any(np.isnan(ensemble.node_value[~inner]))
    whole = check(fit(X, signal, weight=np.round(weight), iterations=2), X)
    assert whole.needs == ()
    assert "taken to be unweighted" in whole.exactness
    assert reader.read(fit(X, signal, weight=weight, iterations=2), reg_lambda=3.0).exactness == "exact"


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_trees_of_squared_error_tell_the_mean_weight(policy, whole):
    X, signal = numbers()
    weight = np.random.default_rng(0).uniform(0.5, 3.0, N)
    weight = np.ceil(weight) if whole else weight
    model = fit(X, signal, weight=weight, grow_policy=policy)
    lam = 3.0 * np.float32(weight).mean(dtype=float)
    ensemble = check(model, X)
    assert (ensemble.needs, ensemble.exactness) == ((), "exact")
    assert ensemble.params["reg_lambda"] == pytest.approx(lam, rel=1e-6)  # float32 weights
    error = node_value_errors(
        ensemble,
        X,
        lambda m: weight[:, None] * (m - signal[:, None]),
        lambda m: np.tile(weight[:, None], (1, 1)),
        lam,
    )
    assert error < 1e-6  # float32 weights and targets
    np.testing.assert_allclose(ensemble.cover[ensemble.tree_start[:-1]], weight.sum(), rtol=1e-6)  # float32 weights


def test_class_weights_need_reg_lambda_unless_there_is_no_l2():
    X, signal = numbers()
    y = target("Logloss", signal)
    ensemble = reader.read(fit(X, y, "Logloss", class_weights=[1, 3]))
    assert ensemble.needs == ("reg_lambda",)
    assert ensemble.objective_params["class_weights"] == [1.0, 3.0]
    assert reader.read(fit(X, y, "Logloss", class_weights=[1, 3], l2_leaf_reg=0)).needs == ()


def test_cover_adds_up():
    X, signal = numbers()
    for policy in POLICIES:
        ensemble = reader.read(fit(X, signal, grow_policy=policy))
        inner = ensemble.feature >= 0
        below = ensemble.cover[ensemble.left[inner]] + ensemble.cover[ensemble.right[inner]]
        assert np.array_equal(ensemble.cover[inner], below)
        assert set(ensemble.cover[ensemble.tree_start[:-1]]) == {N}


@pytest.mark.parametrize(
    ("loss", "params", "reason"),
    [
        ("Quantile:alpha=0.9", {}, "Exact"),
        ("RMSE", {"leaf_estimation_iterations": 5}, "5 estimation steps"),
        ("RMSE", {"model_shrink_rate": 0.1}, "model_shrink_rate"),
        ("RMSE", {"langevin": True}, "Langevin"),
        ("RMSE", {"monotone_constraints": [1, 0, 0, 0, 0]}, "monotone"),
        ("MultiClass", {}, "hessians"),
    ],
)
def test_what_is_not_exact_is_said(loss, params, reason):
    X, signal = numbers()
    assert reason in reader.read(fit(X, target(loss, signal), loss, **params)).exactness


def test_target_statistics_are_not_exact():
    X, signal = mixed()
    names = ["few", "code", "many"]
    assert "ordered" in reader.read(fit(X, signal, cat=names)).exactness
    assert reader.read(fit(X, signal, cat=names, one_hot_max_size=20)).exactness == "exact"


# -- what is reported about the model -----------------------------------------------------------------------
def test_names_objective_and_classes():
    X, signal = mixed()
    X = X[["a", "b"]]
    ensemble = check(fit(X, target("MultiClass", signal), "MultiClass", learning_rate=0.25), X)
    assert ensemble.feature_names == ensemble.schema.names == ("a", "b")
    assert ensemble.output_names == ("low", "mid", "top")
    assert set(ensemble.tree_rate) == {0.25}
    assert set(reader.read(fit(X, signal), learning_rate=0.5).tree_rate) == {0.5}
    assert reader.read(fit(X, signal, "Quantile:alpha=0.9")).objective_params == {"alpha": 0.9}
    assert reader.read(fit(X, signal, "MultiQuantile:alpha=0.1,0.9")).objective_params == {"alpha": [0.1, 0.9]}
    binary = reader.read(cb.CatBoostClassifier(**FAST).fit(X, (signal > 0).astype(int)))
    assert (binary.output_names, binary.objective_params) == (None, {"classes": [0, 1]})


def test_custom_objective_has_no_name():
    class Squared:
        def calc_ders_range(self, approxes, targets, weights):
            return [(y - m, -1.0) for m, y in zip(approxes, targets)]  # noqa: B905 - numba compiles it

    X, signal = numbers()
    model = cb.CatBoostRegressor(loss_function=Squared(), eval_metric="RMSE", **FAST).fit(X, signal)
    assert check(model, X).objective == ""


def test_ranker_and_users_subclass():
    class Mine(cb.CatBoostRegressor):
        pass

    X, signal = numbers()
    check(Mine(**FAST).fit(X, signal), X)
    groups = np.repeat(np.arange(N // 10), 10)
    for loss in ("QueryRMSE", "YetiRank", "PairLogit"):
        model = cb.CatBoostRanker(loss_function=loss, **FAST).fit(X, (signal > 0.5).astype(int), group_id=groups)
        assert f"leaves of {loss} have not been compared" in check(model, X).exactness


# -- files --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_object_json_and_cbm_are_one(tmp_path, policy, categorical):
    X, signal = mixed() if categorical else numbers()
    model = fit(X, signal, cat=["few", "code", "many"] if categorical else None, grow_policy=policy, depth=4)
    ensemble = reader.read(model)
    for name in ("json", "cbm"):
        path = tmp_path / f"model.{name}"
        model.save_model(str(path), format=name)
        same(ensemble, reader.read_path(path))
        table, expected = reader.make_table(path, X, ensemble), reader.make_table(model, X, ensemble)
        assert (table is None) == (not categorical)
        if categorical:
            assert np.array_equal(codes(table), codes(expected))
    # CatBoost numbers the leaves anew when it loads JSON; the reader follows the object it is given.
    check(cb.CatBoost().load_model(str(tmp_path / "model.json"), format="json"), X)


@pytest.mark.parametrize("policy", POLICIES)
def test_files_need_no_catboost(tmp_path, monkeypatch, policy):
    X, signal = mixed()
    model = fit(X, signal, cat=["few", "code", "many"], grow_policy=policy)
    for name in ("json", "cbm"):
        model.save_model(str(tmp_path / f"m.{name}"), format=name)
    ensemble = reader.read(model)
    monkeypatch.setitem(sys.modules, "catboost", None)
    for name in ("json", "cbm"):
        same(ensemble, reader.read_path(tmp_path / f"m.{name}"))
        # Rows with encoded categories are another matter: only CatBoost can encode them.
        with pytest.raises(MissingDependencyError, match="pip install catboost"):
            reader.make_table(tmp_path / f"m.{name}", X, ensemble)


@pytest.mark.parametrize("policy", POLICIES)
def test_damaged_files_are_model_errors_or_other_numbers(policy):
    X, signal = mixed()
    data = fit(X, signal, cat=["few", "code", "many"], grow_policy=policy, iterations=2)._serialize_model()
    rng = np.random.default_rng(0)
    for end in rng.integers(0, len(data), 100).tolist():
        with suppress(ModelError):  # what is behind the trees is the tables of CTRs
            reader._read(lambda end=end: reader.read_cbm(data[:end]), ReadOptions())
    for at in [*range(0, 400), *rng.integers(0, len(data), 1500).tolist()]:
        damaged = data[:at] + bytes([int(rng.integers(0, 256))]) + data[at + 1 :]
        with suppress(ModelError, UnsupportedModelError):
            reader._read(lambda damaged=damaged: reader.read_cbm(damaged), ReadOptions())


def test_rates_are_those_of_the_training_in_every_format(tmp_path):
    X, signal = numbers()
    model = fit(X, signal, learning_rate=0.3)
    for name in ("json", "cbm"):
        model.save_model(str(tmp_path / f"m.{name}"), format=name)
        assert set(reader.read_path(tmp_path / f"m.{name}").tree_rate) == {float(np.float32(0.3))}


def damage(change):
    X, signal = mixed()
    document = json_of(fit(X, signal, cat=["few", "code", "many"], iterations=2))
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("oblivious_trees"),
        lambda d: d.pop("scale_and_bias"),
        lambda d: d.pop("features_info"),
        lambda d: d["oblivious_trees"].clear(),
        lambda d: d["oblivious_trees"][0]["leaf_values"].pop(),
        lambda d: d["oblivious_trees"][0]["leaf_weights"].pop(),
        lambda d: d["oblivious_trees"][0]["leaf_weights"].__setitem__(0, -1),
        lambda d: d["oblivious_trees"][0]["leaf_values"].__setitem__(0, float("nan")),
        lambda d: d["oblivious_trees"][0]["leaf_values"].__setitem__(0, "x"),
        lambda d: d["oblivious_trees"][1].__setitem__("leaf_values", d["oblivious_trees"][1]["leaf_values"] * 2),
        lambda d: d["oblivious_trees"][0]["splits"][0].update(split_index=10**6, split_type="OnlineCtr"),
        lambda d: d["oblivious_trees"][0]["splits"][0].update(
            split_type="FloatFeature", float_feature_index=-1, border=0.0
        ),
        lambda d: d["features_info"]["float_features"].pop(),
        lambda d: d["features_info"]["float_features"][0].update(flat_feature_index=10**9),
        lambda d: d.update(oblivious_trees=7),
        lambda d: d.update(scale_and_bias=[1]),
    ],
)
def test_damaged_documents_are_model_errors(tmp_path, change):
    path = tmp_path / "model.json"
    path.write_text(damage(change))
    with pytest.raises(ModelError):
        reader.read_path(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '{"a": 1}', "[" * 100_000, "\xff"])
def test_what_is_not_a_document_is_a_model_error(tmp_path, text):
    path = tmp_path / "model.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ModelError):
        reader.read_path(path)


def test_broken_cbm_is_a_model_error(tmp_path):
    X, signal = numbers()
    fit(X, signal).save_model(str(tmp_path / "m.cbm"))
    (tmp_path / "m.cbm").write_bytes((tmp_path / "m.cbm").read_bytes()[:200])
    with pytest.raises(ModelError):
        reader.read_path(tmp_path / "m.cbm")


# -- refusals -----------------------------------------------------------------------------------------------
def test_what_is_refused_is_named(tmp_path):
    X, signal = numbers()
    text = pd.DataFrame({"a": X[:, 0], "t": np.random.default_rng(0).choice(["foo bar", "bar baz", "qux"], N)})
    model = cb.CatBoostClassifier(**FAST).fit(text, signal > 0, text_features=["t"])
    with pytest.raises(UnsupportedModelError, match="text features"):
        reader.read(model)
    vectors = pd.DataFrame({"a": X[:, 0], "t": list(X[:, 1:4])})
    model = cb.CatBoostClassifier(**FAST).fit(vectors, signal > 0, embedding_features=["t"])
    with pytest.raises(UnsupportedModelError, match="embedding features"):
        reader.read(model)
    (tmp_path / "m.json").write_text(damage(lambda d: [t.pop("leaf_weights") for t in d["oblivious_trees"]]))
    with pytest.raises(UnsupportedModelError, match="leaf weights"):
        reader.read_path(tmp_path / "m.json")
    for thing in (object(), cb.Pool(X)):
        with pytest.raises(UnsupportedModelError, match="not a CatBoost model"):
            reader.read(thing)
    with pytest.raises(ModelError, match="not fitted"):
        read_model(cb.CatBoostRegressor())
    with pytest.raises(ValueError, match="reg_alpha"):
        reader.read(fit(X, signal), reg_alpha=1.0)


# -- tables -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("policy", POLICIES)
def test_tables_come_in_blocks_from_any_container(policy):
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    X, signal = mixed()
    names = ["few", "code", "many"]
    model = fit(X, signal, cat=names, grow_policy=policy)
    ensemble = reader.read(model)
    whole = codes(reader.make_table(model, X, ensemble))
    containers = [
        X.to_numpy(),
        X.to_numpy().tolist(),
        X[X.columns[::-1]].assign(extra="?"),  # by name
        polars.from_pandas(X),
        pyarrow.Table.from_pandas(X),
        cb.Pool(X, cat_features=names),
        X.astype({"few": "category"}),
    ]
    for container in containers:
        table = reader.make_table(model, container, ensemble)
        assert table.n_rows == N
        parts = [codes(table, start, min(start + 100, N)) for start in range(0, N, 100)]
        assert np.array_equal(np.concatenate(parts), whole)
    assert codes(table, 5, 5).shape == (0, ensemble.schema.n_columns)
    with pytest.raises(DataError, match="lacks the columns"):
        reader.make_table(model, X.drop(columns="b"), ensemble)
    with pytest.raises(DataError, match="CatBoost cannot apply"):
        reader.make_table(model, X.to_numpy()[:, ::-1], ensemble).block(0, 3)
    with pytest.raises(DataError, match="pass a data frame"):
        reader.make_table(model, object(), ensemble)


def reversed_splits(document):
    """The same function with the last split of each tree at its root."""
    for tree in document["oblivious_trees"]:
        depth = len(tree["splits"])
        order = [int(f"{leaf:0{depth}b}"[::-1], 2) for leaf in range(1 << depth)]
        tree["splits"] = tree["splits"][::-1]
        for name in ("leaf_values", "leaf_weights"):
            tree[name] = [tree[name][leaf] for leaf in order]
    return document


def test_shapley_values_of_one_hot_models_are_catboosts(tmp_path):
    """Columns are features here, so Shapley values over columns are those over features.

    CatBoost's SHAP puts the last split at the root: path-dependent Shapley values depend on the order.
    """
    X, signal = mixed()
    names = ["few", "code", "many"]
    model = fit(X, signal, cat=names, one_hot_max_size=20, iterations=4, depth=2)
    (tmp_path / "m.json").write_text(json.dumps(reversed_splits(json_of(model))))
    ensemble = reader.read_path(tmp_path / "m.json")
    assert np.all(ensemble.cover > 0)
    table = codes(reader.make_table(model, X[:6], reader.read(model)))
    np.testing.assert_allclose(oracle.predict(ensemble, table), margins(model, X[:6]), rtol=1e-12)  # order of sums
    values = oracle.shapley(ensemble, table)[:, :, 0]
    by_feature = np.zeros((6, 5))
    for column, (feature,) in enumerate(ensemble.column_features):
        by_feature[:, feature] += values[:, column]
    theirs = model.get_feature_importance(cb.Pool(X[:6], cat_features=names), type="ShapValues")
    np.testing.assert_allclose(by_feature, theirs[:, :5], atol=1e-9)  # order of sums


@pytest.mark.parametrize("policy", POLICIES)
def test_compiled_routing_of_leaf_tables(policy):
    X, signal = mixed()
    model = fit(X, signal, cat=["few", "code", "many"], grow_policy=policy, one_hot_max_size=3, iterations=20)
    ensemble = reader.read(model)
    leaves = compiled.apply(ensemble.forest, reader.make_table(model, X, ensemble), n_jobs=2)
    assert np.array_equal(leaves, model.calc_leaf_indexes(X))
