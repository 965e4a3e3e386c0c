"""The XGBoost reader against XGBoost's own predict, pred_leaf and total_gain, and against values from gradients."""

import json
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from treeinner.errors import ModelError, UnknownParameterError, UnsupportedModelError
from treeinner.read import ubjson
from treeinner.read.model import read_model

from .tables import leaves, margins

xgb = pytest.importorskip("xgboost")
pd = pytest.importorskip("pandas")

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = sorted(path for path in GOLDEN.glob("xgboost-*/*") if path.suffix in (".ubj", ".json"))
VERSION = tuple(int(part) for part in xgb.__version__.split(".")[:2])
N = 400
# XGBoost adds float32 leaves one by one: an error of a few 6e-8 x |margin| per tree.
MARGIN = {"rtol": 3e-6, "atol": 3e-6}

rng = np.random.default_rng(7)
X = rng.normal(size=(N, 5)).astype(np.float32).astype(np.float64)
X[:, 4] = rng.integers(0, 9, N)
HOLES = np.where(rng.random(X.shape) < 0.2, np.nan, X)
y = 2 * X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * (X[:, 4] % 3) + rng.normal(size=N)
Y = {
    "regression": y,
    "binary": (y > 0.3).astype(float),
    "multi": np.digitize(y, [-1.0, 1.5]).astype(float),
    "targets": np.c_[y, -(y**2), np.cos(y)],
    "count": np.clip(np.round(np.abs(y)), 1, 5),
}
TASKS = {
    "regression": {},
    "binary": {"objective": "binary:logistic"},
    "multi": {"objective": "multi:softprob", "num_class": 3},
    "targets": {},
}


def train(task="regression", rows=X, rounds=6, target=None, matrix=None, **params):
    options = {name: params.pop(name) for name in ("callbacks", "xgb_model", "obj") if name in params}
    D = xgb.DMatrix(rows, Y[task] if target is None else target, **(matrix or {}))
    params = {"nthread": 1, "max_depth": 4, "eta": 0.2, "seed": 1, **TASKS.get(task, {}), **params}
    return xgb.train(params, D, rounds, **options), D


def check(booster, D, rows, **told):
    """Margins and leaves equal XGBoost's own."""
    model = read_model(booster, **told)
    rounds = told.get("iteration_range", (0, 0))
    margin = booster.predict(D, output_margin=True, iteration_range=rounds, strict_shape=True)
    np.testing.assert_allclose(margins(model, rows), margin.reshape(N, -1), **MARGIN)
    part = booster if rounds == (0, 0) else booster[rounds[0] : rounds[1]]  # pred_leaf takes no start
    np.testing.assert_array_equal(leaves(model, rows), part.predict(D, pred_leaf=True).reshape(N, -1))
    return model


def saved(booster, folder):
    """The model as its file gives it."""
    booster.save_model(folder / "model.ubj")
    return read_model(folder / "model.ubj")


def codes(model):
    return [note.code for note in model.notes]


# -- trees -------------------------------------------------------------------------------------------------------------
VARIANTS = {
    "plain": {},
    "subsample": {"subsample": 0.6, "colsample_bytree": 0.6},
    "dart": {"booster": "dart", "rate_drop": 0.5},
    "parallel": {"num_parallel_tree": 3, "subsample": 0.5},
    "deep": {"max_depth": 0, "max_leaves": 60, "grow_policy": "lossguide", "min_child_weight": 0},
    "base_score": {"base_score": 0.3},
    "pruned": {"tree_method": "exact", "gamma": 3.0},
    "approx": {"tree_method": "approx", "reg_lambda": 0.0},
    "stumps": {"max_depth": 1, "reg_lambda": 30.0},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("task", TASKS)
def test_margins_leaves_and_the_learning_rate(task, variant):
    rows = HOLES if variant in ("plain", "dart", "deep") else X
    booster, D = train(task, rows, **VARIANTS[variant])
    model = check(booster, D, rows)
    assert (model.n_rounds, model.n_outputs) == (6, {"multi": 3, "targets": 3}.get(task, 1))
    np.testing.assert_allclose(model.trees.known.rate, 0.2, rtol=1e-6)
    assert ("dart" in codes(model)) == (variant == "dart")
    if variant != "pruned":  # which leaves deleted nodes behind
        trees, inner = model.trees, model.trees.column >= 0
        document = ubjson.parse(bytes(booster.save_raw("ubj")))["learner"]["gradient_booster"]
        stored = [tree["base_weights"] for tree in document.get("gbtree", document)["model"]["trees"]]
        expected = 0.2 * trees.weight[trees.tree_of_node] * np.concatenate(stored)
        np.testing.assert_allclose(trees.known.value[inner, 0], expected[inner], rtol=1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_categories_weights_and_missing(task):
    matrix = {"weight": X[:, 1] ** 2, "feature_types": ["q"] * 4 + ["c"], "enable_categorical": True}
    booster, D = train(task, HOLES, matrix=matrix, max_cat_to_onehot=2, tree_method="hist")
    model = check(booster, D, HOLES)
    assert model.schema.categorical == (False,) * 4 + (True,)
    odd = HOLES[:6].copy()
    odd[:, 4] = [-1.0, 77.0, 1.7, np.nan, 2.0**24 - 1, -0.5]  # unknown codes go left, fractions are cut off
    margin = booster.inplace_predict(odd, predict_type="margin", strict_shape=True).reshape(6, -1)
    np.testing.assert_allclose(margins(model, odd), margin, **MARGIN)


def test_vector_leaves():
    vector = {"multi_strategy": "multi_output_tree", "tree_method": "hist"}
    model = check(*train("targets", HOLES, **vector), HOLES)
    assert (model.trees.width, model.n_trees, len(np.unique(model.trees.known.rate))) == (3, 6, 1)
    # The hessian of a node is the sum over the outputs, of which softmax has different ones.
    model = check(*train("multi", **vector), X)
    assert model.trees.known.needs == ("learning_rate",)
    assert read_model(model, learning_rate=0.2).trees.known.value is not None


@pytest.mark.parametrize(
    "objective",
    ["reg:gamma", "reg:tweedie", "count:poisson", "survival:cox", "survival:aft", "reg:logistic", "binary:logitraw",
     "binary:hinge", "reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror", "rank:ndcg", "multi:softmax"],
)  # fmt: skip
def test_base_score_is_on_the_margin_scale(objective):
    two = objective in ("reg:logistic", "binary:logitraw", "binary:hinge")
    target = (Y["count"] > 2).astype(float) if two else Y["count"]
    matrix = {"label_lower_bound": target, "label_upper_bound": target + 1} if "aft" in objective else {}
    n_classes = 6 if objective == "multi:softmax" else 0
    model = check(*train(target=target, rounds=2, matrix=matrix, objective=objective, num_class=n_classes), X)
    assert (model.loss.name, model.base_margin) == (objective, "replace")


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:logistic", "count:poisson", "reg:gamma"])
@pytest.mark.parametrize("base_score", [1e-4, 0.7, 0.99, 0.9999])
def test_base_margins_are_the_floats_of_xgboost(objective, base_score):
    """At .9999 a logit in float32 is 6e-5 off the exact one; its predictions start there."""
    target = (y > 0) + (0.5 if objective == "reg:gamma" else 0.0)
    booster, D = train(target=target, rounds=1, objective=objective, base_score=base_score, eta=1e-30)
    theirs, ours = booster.predict(D, output_margin=True)[0], read_model(booster).trees.base[0]
    assert abs(ours - theirs) <= np.spacing(abs(theirs))  # XGBoost's own logarithm may be rounded to a neighbour


def test_updated_and_pruned_trees():
    booster, _ = train()
    update = {"process_type": "update", "eta": 0.2, "xgb_model": booster}
    pruned = check(*train(updater="prune", gamma=30.0, **update), X)
    assert pruned.trees.n_nodes < read_model(booster).trees.n_nodes
    refreshed = check(*train(updater="refresh", target=y + 1, **update), X)
    for model in (pruned, refreshed):
        np.testing.assert_allclose(model.trees.known.rate, 0.2, rtol=1e-6)
    # Weights of nodes from other rows than the leaves.
    model = read_model(train(updater="refresh", target=y + 1, refresh_leaf=0, **update)[0])
    assert model.trees.known.needs == ("learning_rate",)
    assert "refresh_leaf" in read_model(model, learning_rate=0.2).trees.known.refusal


# -- node values -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("lam", [0.0, 1.0, 7.5])
@pytest.mark.parametrize("task", ["regression", "binary"])
def test_node_values_are_newton_steps_and_give_total_gain(task, lam):
    booster, D = train(task, rounds=3, eta=0.25, reg_lambda=lam)
    trees, leaf = read_model(booster).trees, booster.predict(D, pred_leaf=True).astype(int)
    total = np.zeros((2, trees.n_nodes))
    for tree in range(3):
        margin = np.full(N, trees.base[0])
        if tree:
            margin = booster.predict(D, output_margin=True, iteration_range=(0, tree)).astype(float)
        own = slice(trees.start[tree], trees.start[tree + 1])
        p = 1 / (1 + np.exp(-margin))
        derivatives = (margin - y, np.ones(N)) if task == "regression" else (p - Y["binary"], p * (1 - p))
        for k, part in enumerate(derivatives):
            total[k, own] = np.bincount(leaf[:, tree], part, minlength=99)[trees.leaf_id[own]]
    for node, left, right in trees.upwards:
        total[:, node] = total[:, left] + total[:, right]
    (G, H), value, split = total, trees.known.value[:, 0], np.flatnonzero(trees.column >= 0)
    # float32 gradients: 6e-8 per row relative to sum |g| / (H + lam), not to a sum that may cancel
    np.testing.assert_allclose(value, -0.25 * G / (H + lam), rtol=2e-6, atol=2e-6)
    step = sum((value[side] - value[split]) * G[side] for side in (trees.left[split], trees.right[split]))
    gain, own = np.bincount(trees.column[split], -step / 0.25, 5), booster.get_score(importance_type="total_gain")
    np.testing.assert_allclose(gain, [own.get(f"f{k}", 0.0) for k in range(5)], rtol=1e-5, atol=1e-5 * gain.max())


@pytest.mark.parametrize(
    "params",
    [{"eta": 0.07, "reg_lambda": 3.7}, {"eta": 1.0, "reg_lambda": 1000.0}, {"eta": 0.1, "max_depth": 1, "rounds": 2},
     {"eta": 0.15, "tree_method": "exact"}, {"eta": 0.02, "subsample": 0.5}, {"eta": 0.3, "target": y + 1e6}],
)  # fmt: skip
def test_learning_rates_come_from_the_trees_of_a_file(params, tmp_path):
    booster, _ = train(**params)
    found = saved(booster, tmp_path).trees.known
    np.testing.assert_allclose(found.rate, params["eta"], rtol=1e-6)
    booster.set_param({"eta": 0.9})  # the configuration is not believed
    np.testing.assert_array_equal(read_model(booster).trees.known.value, found.value)


def test_schedules_and_continued_training():
    schedule = [0.3 * 0.8**i for i in range(6)]
    callback = xgb.callback.LearningRateScheduler(lambda i: schedule[i])
    # The first tree has the rate of the parameters; the schedule starts with the second.
    rate = read_model(train("binary", callbacks=[callback])[0]).trees.known.rate
    np.testing.assert_allclose(rate, [0.2, *schedule[:-1]], rtol=1e-6)
    first, _ = train("multi", rounds=4)
    both, _ = train("multi", rounds=3, eta=0.05, xgb_model=first)
    np.testing.assert_allclose(read_model(both).trees.known.rate, np.repeat([0.2, 0.05], [12, 9]), rtol=1e-6)
    other, _ = train("multi", rounds=3, eta=0.05, reg_lambda=8.0, xgb_model=first)  # two penalties
    assert read_model(other).trees.known.needs == ("learning_rate",)
    rates = [0.2] * 4 + [0.05] * 3
    np.testing.assert_allclose(read_model(other, learning_rate=rates).trees.known.rate, np.repeat(rates, 3))
    with pytest.raises(ValueError, match="7 boosting rounds"):
        read_model(other, learning_rate=[0.1, 0.2])


@pytest.mark.parametrize(
    ("name", "value"), [("reg_alpha", 0.05), ("max_delta_step", 0.3), ("monotone_constraints", (1, 0, -1, 0, 0))]
)
@pytest.mark.parametrize("task", TASKS)
def test_trees_that_confirm_no_rate_ask_for_it(task, name, value, tmp_path):
    booster, _ = train(task, **{name: value})
    live, file = read_model(booster).trees.known, saved(booster, tmp_path).trees.known
    for known in (live, file):
        assert (known.value, known.needs, known.refusal) == (None, ("learning_rate",), "")
    assert read_model(booster, learning_rate=0.2).trees.known.value is not None


@pytest.mark.skipif(VERSION >= (3, 4), reason="3.4 no longer replaces leaves")
@pytest.mark.parametrize("objective", ["reg:absoluteerror", "reg:quantileerror"])
def test_replaced_leaves_are_refused_whatever_is_told(objective):
    model = read_model(train(objective=objective, quantile_alpha=0.7)[0])
    for known in (model.trees.known, read_model(model, learning_rate=0.2).trees.known):
        assert "replaced" in known.refusal


def test_models_with_next_to_no_splits():
    for single in (train(gamma=1e9)[0], train(target=np.full(N, 3.0))[0]):
        model = read_model(single)
        np.testing.assert_array_equal(model.trees.known.value, model.trees.value)
        assert np.isnan(model.trees.known.rate).all()
    stump = read_model(train(max_depth=1, rounds=1)[0])  # two equations for two unknowns confirm nothing
    assert stump.trees.known.needs == ("learning_rate",)
    np.testing.assert_allclose(read_model(stump, reg_lambda=1.0).trees.known.rate, 0.2, rtol=1e-6)


# -- wrappers, rounds --------------------------------------------------------------------------------------------------
def test_wrapper_stops_at_its_best_round_and_booster_does_not():
    model = xgb.XGBRegressor(
        n_estimators=40, early_stopping_rounds=2, learning_rate=0.5, n_jobs=1, missing=-7.0, max_depth=3
    ).fit(X[:150], y[:150], eval_set=[(X[150:], y[150:])], verbose=False)
    found, whole = read_model(model), read_model(model.get_booster())
    assert found.n_rounds == model.best_iteration + 1 < whole.n_rounds == model.get_booster().num_boosted_rounds()
    assert found.schema.missing == -7.0
    np.testing.assert_allclose(margins(found, X)[:, 0], model.predict(X, output_margin=True), **MARGIN)
    assert codes(whole) == ["best_iteration"]
    assert read_model(model, iteration_range=(0, 2)).n_rounds == 2


def test_iteration_range_keeps_the_base_score_and_parallel_trees_share_a_round():
    booster, D = train("multi", num_parallel_tree=2, subsample=0.7)
    model = check(booster, D, X, iteration_range=(2, 5))
    assert (model.n_rounds, model.trees.output.tolist()) == (3, [0, 0, 1, 1, 2, 2] * 3)
    assert np.all(model.trees.weight == 0.5)
    with pytest.raises(ValueError, match="6 rounds"):
        read_model(booster, iteration_range=(0, 7))


def test_classifiers_and_forests():
    options = {"n_estimators": 7, "n_jobs": 1, "max_depth": 3}
    forest = xgb.XGBRFClassifier(**options).fit(X, Y["multi"].astype(int))
    model = read_model(forest)
    np.testing.assert_allclose(margins(model, X), forest.predict(X, output_margin=True), **MARGIN)
    assert (model.n_rounds, model.n_trees, model.output_names) == (1, 21, ("0", "1", "2"))
    np.testing.assert_allclose(model.trees.known.rate, 1.0, rtol=1e-6)  # a forest's trees share one step of 1
    assert read_model(xgb.XGBClassifier(**options).fit(X, Y["binary"].astype(int))).classes == [0, 1]


# -- the loss ----------------------------------------------------------------------------------------------------------
def logistic(p, D):
    q = 1 / (1 + np.exp(-p))
    return q - D.get_label(), q * (1 - q)


def squared(y, margin):
    return margin - y, np.ones_like(y)


def test_custom_objectives_are_recognised_or_doubted():
    model = read_model(train("regression", target=Y["binary"], obj=logistic)[0])
    assert (model.loss, "custom" in model.loss_needed) == (None, True)
    assert read_model(model, objective="binary:logistic").loss.name == "binary:logistic"
    booster, _ = train(base_score=0.3)
    assert codes(read_model(booster)) == ["loss_assumed"]
    assert codes(read_model(booster, objective="reg:squarederror")) == []
    assert codes(read_model(xgb.XGBRegressor(n_estimators=2, base_score=0.3).fit(X, y))) == []
    own = read_model(xgb.XGBRegressor(n_estimators=2, objective=squared).fit(X, y))
    assert (own.loss.name, codes(own)) == ("squared", ["own_objective"])
    np.testing.assert_allclose(own.loss.gradients(y, np.ones((N, 1)))[:, 0], 1 - y)
    assert all(len(note.text) <= 200 for note in own.notes + read_model(booster).notes)


@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (1e-3, 0), (1, 1e4), (1, -1e6)])
def test_training_with_base_margin_shows(scale, shift):
    """A fitted base score is a float32: its rounding moves the first root, and is not a base_margin."""
    target = y * scale + shift
    assert codes(read_model(train(target=target)[0])) == []
    started = {"base_margin": np.full(N, target.mean() + scale)}
    assert codes(read_model(train(target=target, matrix=started)[0])) == ["start_assumed"]


def test_quantiles_told_parameters_and_losses_without_a_gradient():
    many = check(*train(objective="reg:quantileerror", quantile_alpha=[0.1, 0.9]), X)
    assert many.output_names == ("quantile 0.1", "quantile 0.9")
    booster, _ = train(objective="reg:quantileerror", quantile_alpha=0.3)
    told = read_model(booster, objective="reg:quantileerror:alpha=0.9").loss
    np.testing.assert_allclose(np.unique((told.metric or told).gradients(y, np.zeros((N, 1)))), [-0.9, 0.1])
    with pytest.raises(UnknownParameterError):
        read_model(booster, objective="reg:quantileerror:beta=0.9")
    model = read_model(train(target=Y["count"], objective="rank:ndcg", lambdarank_unbiased=True)[0])
    assert (model.loss, "position biases" in model.loss_needed) == (None, True)


# -- data frames -------------------------------------------------------------------------------------------------------
def test_levels_of_data_frames():
    code, letters = X[:, 4].astype(int), list("zyxwvutsr")
    frame = pd.DataFrame({"a": X[:, 0], "text": pd.Categorical(np.array(letters)[code], categories=letters)})
    frame["number"] = pd.Categorical(code * 10, categories=np.arange(9) * 10)
    options = {"n_estimators": 4, "n_jobs": 1, "enable_categorical": True, "max_cat_to_onehot": 2}
    model = xgb.XGBRegressor(**options).fit(frame, y)
    found = read_model(model)
    assert found.feature_names == found.schema.names == ("a", "text", "number")
    assert found.schema.levels == (None, tuple(letters), tuple(range(0, 90, 10)))
    assert (found.schema.unseen, found.schema.absent) == ("error", "missing")
    coded = np.c_[X[:, 0], code, code]
    np.testing.assert_allclose(margins(found, coded)[:, 0], model.predict(frame, output_margin=True), **MARGIN)
    # 3.2 stores the bytes of "ä" as two levels, and "b" as the third
    names = np.array(["ä", "b", "c"])
    frame = pd.DataFrame({"a": X[:, 0], "text": pd.Categorical(names[code % 3], categories=names)})
    levels = read_model(xgb.XGBRegressor(**options).fit(frame, y)).schema.levels[1]
    assert levels == tuple(names) if VERSION >= (3, 4) else not set(levels) & set(names)


# -- files -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_learning_rates_of_all_versions(path):
    with np.load(path.parent / "answers.npz") as answers:
        rate = answers[f"{path.stem}.learning_rate"]
    model = read_model(path)
    found, version = model.trees.known, tuple(map(int, path.parent.name.split("-")[1].split(".")))
    since = {"alpha": (9,), "poisson": (9,), "absolute": (3, 4), "quantile": (3, 4), "vector": (3, 2)}
    assert (found.value is None) == (version < since.get(path.stem, (0,)))
    if found.value is not None:
        np.testing.assert_allclose(found.rate, rate, rtol=1e-6)
    (model.loss.metric or model.loss).check_breakdown()  # 3.4's smooth absolute error and quantiles have one too


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    booster, _ = train("multi", rounds=2, matrix={"feature_types": ["q"] * 4 + ["c"], "enable_categorical": True})
    folder = tmp_path_factory.mktemp("models")
    for name in ("model.ubj", "model.json"):
        booster.save_model(folder / name)
    return booster, folder


def test_files_equal_the_object_without_importing_xgboost(files):
    booster, folder = files
    live, paths = read_model(booster), (folder / "model.ubj", folder / "model.json")
    for model in (*map(read_model, paths), pickle.loads(pickle.dumps(live))):
        for name in ("threshold", "value", "left", "leaf_id", "set_codes", "base", "gain", "cover"):
            np.testing.assert_array_equal(getattr(model.trees, name), getattr(live.trees, name))
        np.testing.assert_array_equal(model.trees.known.value, live.trees.known.value)
        assert model.digest == live.digest
    script = (
        f"import sys, treeinner.read.model as m; m.read_model({str(paths[0])!r}); assert 'xgboost' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_newer_versions_are_read_with_a_note(files, tmp_path):
    document = json.loads((files[1] / "model.json").read_text())
    document["version"] = [9, 0, 0]
    (tmp_path / "model.json").write_text(json.dumps(document))
    assert codes(read_model(tmp_path / "model.json")) == ["newer_version"]


def damaged(content, path):
    """Whether damage is found; it may also be another number somewhere. Any other error is a failure."""
    path.write_bytes(content)
    try:
        return read_model(path).trees.known is None
    except (ModelError, UnsupportedModelError):
        return True


@pytest.mark.parametrize(
    "data",
    [b"{L", b"{" + b"i\x01aL" * 5, b"{i\x01a[$d#L\x7f" + b"\xff" * 7, b"{i\x01a[$Z#L\x00\x00\x00\xff\x00\x00\x00\x00}",
     b"{i\x01a" + b"[#U\x01" * 5000, b'{"learner": ' + b"[" * 5000,
     b"{i\x01a[#l\x7f\xff\xff\xff", b"{i\xff}", b"{i\x01\xff}", b"{}x"],
)  # fmt: skip
def test_lengths_beyond_the_file_are_refused_before_anything_is_allocated(data, tmp_path):
    tracemalloc.start()
    assert damaged(data, tmp_path / "model")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000  # the claims are of up to 2^63 items; 5,000 open brackets may cost a frame each


def test_what_is_no_model_is_refused_by_name(files, tmp_path):
    zeros = {"target": np.zeros(N), "rounds": 1}
    kinds = ({"booster": "gblinear"}, {"objective": "binary:logistic"} | zeros, {"objective": "count:poisson"} | zeros)
    for params in kinds:
        with pytest.raises(UnsupportedModelError, match=r"gblinear|base_score"):
            read_model(train(**params)[0])
    (tmp_path / "config").write_text(files[0].save_config())
    with pytest.raises(ModelError, match="configuration"):
        read_model(tmp_path / "config")
    with pytest.raises(UnsupportedModelError, match="not an XGBoost"):
        read_model(xgb.DMatrix(X))
