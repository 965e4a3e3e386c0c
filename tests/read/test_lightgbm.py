"""The LightGBM reader against LightGBM's own predict, pred_leaf and gains, and against values from gradients."""

import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logit

from treeinner.errors import ModelError, UnknownParameterError, UnsupportedModelError
from treeinner.read.methods import node_values
from treeinner.read.model import read_model

from .tables import leaves, margins

lgb = pytest.importorskip("lightgbm")
pd = pytest.importorskip("pandas")

GOLDEN = Path(__file__).parents[1] / "golden"
N = 400
QUIET = {"verbosity": -1, "num_threads": 1, "seed": 3, "deterministic": True}
SMALL = {"num_leaves": 8, "min_data_in_leaf": 5, "min_data_per_group": 5, "cat_smooth": 1}

rng = np.random.default_rng(0)
X = rng.normal(size=(N, 5))
X[:, 1] = np.round(X[:, 1], 1)  # ties
X[:, 3], X[:, 4] = rng.integers(0, 3, N), rng.integers(0, 12, N)
HOLES = X.copy()
HOLES[rng.random(N) < 0.2, 0] = np.nan
HOLES[rng.random(N) < 0.3, 2] = 0.0
WEIGHT = rng.uniform(0.1, 3, N)
signal = X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * (X[:, 3] == 1) + np.cos(3 * X[:, 4]) + 0.3 * rng.normal(size=N)
Y = dict.fromkeys(("multiclass", "multiclassova"), np.digitize(signal, [-0.3, 1.0]).astype(float))
Y |= dict.fromkeys(("poisson", "gamma"), np.exp(signal / 2)) | {"binary": (signal > 0.4).astype(float)}


def strange():
    """Rows unlike the training rows: missing, zero, infinite; unseen, negative and fractional categories."""
    draw = np.random.default_rng(5)
    out = X[:60].copy()
    for column in range(5):
        odd = [np.nan, -1, -0.5, 1.7, 99, 40, 0] if column > 2 else [np.nan, 0, -0.0, np.inf, -np.inf, 1e-36, 1e300]
        hit = draw.random(60) < 0.4
        out[hit, column] = draw.choice(odd, hit.sum())
    return out


def train(task="regression", rows=X, rounds=6, y=None, data=None, **params):
    names = ("callbacks", "init_model", "keep_training_booster")
    options = {name: params.pop(name) for name in names if name in params}
    settings = {"objective": task, **({"num_class": 3} if "multi" in task else {}), **SMALL, **QUIET, **params}
    y = Y.get(task, signal + 3) if y is None else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lgb.train(settings, lgb.Dataset(rows, y, **(data or {})), rounds, **options)


def check(booster, rows=None, **told):
    """Margins and leaves equal LightGBM's own; the Model."""
    rows = strange() if rows is None else rows
    model, (first, stop) = read_model(booster, **told), told.get("iteration_range", (0, 0))
    asked = {"start_iteration": first, "num_iteration": stop - first} if stop else {}
    expected = booster.predict(rows, raw_score=True, **asked).reshape(len(rows), -1)
    if model.trees.averaged:  # LightGBM's own raw score of a forest is the sum
        expected = expected / (model.n_trees // model.n_outputs)
    # Leaves are moved by the start and summed in another order: 1e-12 of the largest margin is rounding.
    np.testing.assert_allclose(margins(model, rows), expected, rtol=0, atol=1e-12 * max(1, np.abs(expected).max()))
    same = booster.predict(rows, pred_leaf=True, **asked).reshape(len(rows), -1)
    np.testing.assert_array_equal(leaves(model, rows), same)
    return model


def codes(model):
    """Codes of the notes, those that are spoken with a "!"."""
    return [note.code + "!" * (not note.quiet) for note in model.notes]


def start_of(task, y, weight=None, sigmoid=1.0):
    """LightGBM's start by its formulas."""
    mean = np.array(
        [np.average(y == k, weights=weight) for k in range(3)] if "multi" in task else [np.average(y, weights=weight)]
    )
    if task == "regression":
        return mean
    return logit(mean) / sigmoid if task in ("binary", "multiclassova") else np.log(mean)


def gradient_sums(model, rows, y, weight=None):
    """Sums of the gradients over the rows of each node: (nodes,)."""
    trees, reached, margin = model.trees, leaves(model, rows), np.tile(model.trees.base, (len(rows), 1))
    total = np.zeros(trees.n_nodes)
    for tree in range(trees.n_trees):
        output, nodes = trees.output[tree], np.arange(trees.start[tree], trees.start[tree + 1])
        if output == 0:  # all trees of a round see the same gradients
            now = model.loss.gradients(y if "multiclass" in model.loss.name else y[:, None], margin, weight=weight)
        leaf = nodes[len(nodes) // 2 :][reached[:, tree]]  # leaves lie behind the splits, in LightGBM's order
        np.add.at(total, leaf, now[:, output])
        margin[:, output] += trees.value[leaf, 0]
    for node, left, right in trees.upwards:
        total[node] = total[left] + total[right]
    return total


SETTINGS = {
    "plain": {},
    "l2": {"lambda_l2": 3.0},
    "missing zero": {"rows": HOLES, "zero_as_missing": True},
    "missing none": {"rows": HOLES, "use_missing": False},
    "missing": {"rows": HOLES},
    "categorical": {"data": {"categorical_feature": [3, 4]}, "lambda_l2": 1.0},
    "one-hot": {"data": {"categorical_feature": [3, 4]}, "max_cat_to_onehot": 20},
    "weights": {"data": {"weight": WEIGHT}, "lambda_l2": 0.5},
    "bagging": {"bagging_freq": 1, "bagging_fraction": 0.5, "lambda_l2": 3.0},
    "goss": {"data_sample_strategy": "goss", "learning_rate": 0.5},
    "dart": {"boosting": "dart", "skip_drop": 0.0, "drop_rate": 0.5, "lambda_l2": 3.0, "rounds": 10},
    "forest": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "lambda_l2": 2.0},
    "l1": {"lambda_l1": 2.0},
    "path_smooth": {"path_smooth": 5.0},
    "max_delta_step": {"max_delta_step": 0.3},
    "monotone": {"monotone_constraints": [1, -1, 0, 0, 0]},
    "deep": {"num_leaves": 120, "min_data_in_leaf": 1, "rounds": 3},
    "no average": {"boost_from_average": False},
    "rate 1": {"learning_rate": 1.0},
    "quantized": {"use_quantized_grad": True},
    "constant": {"min_data_in_leaf": 1000},
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass", "multiclassova"])
def test_margins_and_leaves_are_lightgbms(task, setting):
    model = check(train(task, **SETTINGS[setting]))
    known = model.trees.known
    refused = setting in ("max_delta_step", "monotone")
    assert (known.value is None, bool(known.refusal)) == (refused, refused)
    assert np.all(known.rate > 0)
    sampled = setting in ("bagging", "forest", "quantized", "dart", "l1", "path_smooth", "rate 1") or refused
    assert codes(model) == ["start_assumed"] * sampled + ["dart!"] * (setting == "dart")


@pytest.mark.parametrize("setting", ["plain", "l2", "categorical", "one-hot", "weights", "missing", "bagging", "l1"])
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass", "multiclassova", "poisson", "gamma"])
def test_node_values_are_lightgbms_and_their_scores_its_gains(task, setting):
    options, y = SETTINGS[setting], Y.get(task, signal + 3)
    booster = train(task, **options, keep_training_booster=True)  # which still has 17 digits of inner values
    model, weight = read_model(booster), options.get("data", {}).get("weight")
    trees, table, by_digits = model.trees, booster.trees_to_dataframe(), setting in ("bagging", "l1")
    value, splits = node_values(model, "predecomp")[:, 0], table[table.node_index.str.contains("S")]
    at = trees.start[splits.tree_index.to_numpy()] + splits.node_index.str.extract(r"S(\d+)")[0].astype(int).to_numpy()
    base = np.where(trees.tree_of_node < trees.n_outputs, trees.base[trees.output[trees.tree_of_node]], 0.0)
    # Six digits of value and start; else float32 gradients that do not quite cancel at the start, and rounding.
    atol = (1e-5 if by_digits else 1e-8) * (1 + np.abs(base).max())
    np.testing.assert_allclose((value + base)[at], splits["value"], rtol=0, atol=atol)
    if by_digits:
        return
    np.testing.assert_allclose(trees.base, start_of(task, y, weight), rtol=3e-7, atol=3e-7)  # float32 labels
    total, gain = gradient_sums(model, options.get("rows", X), y, weight), booster.feature_importance("gain")
    at, step = np.flatnonzero(trees.column >= 0), value / trees.known.rate[trees.tree_of_node]
    score = sum((step[at] - step[child]) * total[child] for child in (trees.left[at], trees.right[at]))
    error = np.abs(np.bincount(trees.column[at], score, minlength=5) - gain).max() / gain.sum()
    assert error < 3e-7 or (setting == "categorical" and error > 1e-3)  # whose gains count cat_l2 for children alone


@pytest.mark.parametrize("params", [{"scale_pos_weight": 4.0}, {"is_unbalance": True}], ids=["scale", "unbalance"])
@pytest.mark.parametrize("more", [{}, {"lambda_l2": 2.0}, {"boost_from_average": False}, {"sigmoid": 2.0}], ids=str)
@pytest.mark.parametrize("task", ["binary", "multiclassova"])
def test_class_weights_show_in_the_first_tree(task, params, more):
    model = check(train(task, **params, **more))
    start = start_of(task, Y[task], sigmoid=more.get("sigmoid", 1.0)) * more.get("boost_from_average", True)
    np.testing.assert_allclose(model.trees.base, start, atol=1e-12)  # counts of rows: exact
    assert codes(model) == []
    if task == "binary":
        share = Y[task].mean()
        positive = params.get("scale_pos_weight", (1 - share) / share)
        gradient = model.loss.gradients(np.array([[1.0], [0.0]]), np.zeros((2, 1)))[:, 0]
        np.testing.assert_allclose(-gradient[0] / gradient[1], positive, rtol=1e-12)


def test_weights_of_unbalanced_classes_are_asked_for_where_they_do_not_show():
    rare = (signal > 1.5).astype(float)
    right = check(train("binary", y=1 - rare, is_unbalance=True))  # more positive rows: the negative ones weigh more
    gradient = right.loss.gradients(np.array([[1.0], [0.0]]), np.zeros((2, 1)))[:, 0]
    np.testing.assert_allclose(gradient, [-0.5, 0.5 * (1 - rare).sum() / rare.sum()])
    for more in ({"data": {"weight": WEIGHT}}, {"bagging_freq": 1, "bagging_fraction": 0.5}, {"lambda_l1": 1.0}):
        model = check(booster := train("binary", y=rare, is_unbalance=True, **more))
        assert (model.loss, "scale_pos_weight" in model.loss_needed) == (None, True)
        assert codes(model) == ["start_assumed!"]
        assert read_model(booster, objective="binary:scale_pos_weight=5.8").loss is not None


@pytest.mark.parametrize("task", ["regression_l1", "quantile", "mape", "huber", "fair", "cross_entropy_lambda"])
def test_starts_that_are_not_balanced_are_said_to_be_estimates(task):
    y = Y["binary"] if task == "cross_entropy_lambda" else np.exp(signal / 2) + 5
    model = check(train(task, y=y, alpha=0.7))
    true = {"regression_l1": np.median(y), "quantile": np.quantile(y, 0.7), "huber": y.mean(), "fair": y.mean()}
    spread = np.ptp(model.trees.value[: model.trees.start[1]])
    loud = task in ("huber", "fair", "cross_entropy_lambda")
    assert abs(model.trees.base[0] - true.get(task, model.trees.base[0])) < (0.15 if loud else 0.03) * spread
    assert codes(model) == ["start_assumed" + "!" * loud]
    if task in ("regression_l1", "quantile", "mape"):
        with pytest.raises(UnsupportedModelError, match="anew"):
            node_values(model, "predecomp")


def test_dart_starts_at_the_whole_average():
    booster = train(boosting="dart", skip_drop=0.0, drop_rate=0.6, lambda_l2=2.0, rounds=12)
    model, written = check(booster), [float(tree["shrinkage"]) for tree in booster.dump_model()["tree_info"]]
    assert written[0] < 1  # the first tree was dropped, and its average shrank with it
    np.testing.assert_allclose(model.trees.base, (signal + 3).mean(), rtol=1e-5)  # shrinkage has six digits
    np.testing.assert_allclose(model.trees.weight * np.r_[1, np.full(11, 0.1)], written, rtol=1e-12)
    # Every node of the first tree has what later rounds took off the average; steps are as without it.
    np.testing.assert_allclose(model.trees.known.value[0], model.trees.base * (written[0] - 1), rtol=1e-5)


def test_init_score_is_passed_as_base_margin():
    for init in (np.linspace(0, 2, N), np.full(N, (signal + 3).mean())):  # the second leaves gradients that cancel
        model = check(train(data={"init_score": init}))
        assert model.trees.base[0] == 0
        assert codes(model) == ["start_assumed" + "!" * int(init[0] == 0)]
    for scale in (1e30, 1e-30):  # LightGBM adds no average below 1e-15
        model = check(train(y=(signal + 3) * scale), rows=X)
        np.testing.assert_allclose(model.trees.base, (signal + 3).mean() * scale * (scale > 1), rtol=1e-6)
        assert model.trees.known.value is not None
        assert "start_assumed!" not in codes(model)


def test_rounds_are_those_of_lightgbms_predict():
    booster = train(keep_training_booster=True)
    booster.best_iteration = 4  # as early stopping sets it
    assert check(booster).n_rounds == 4
    check(booster, iteration_range=(0, 6))
    assert check(booster, iteration_range=(1, 3)).trees.base[0] == 0  # the average is in the first tree
    forest = train(**SETTINGS["forest"])
    np.testing.assert_allclose(check(forest, iteration_range=(2, 5)).trees.base, signal.mean() + 3, atol=0.1)
    with pytest.raises(ValueError, match="iteration_range"):
        read_model(booster, iteration_range=(3, 3))


def test_rates_are_as_written_or_unknown_and_other_parameters_recognised():
    rates = [0.5, 0.3, 0.2, 0.1]
    booster = train(rounds=4, callbacks=[lgb.reset_parameter(learning_rate=rates)])
    np.testing.assert_allclose(check(booster).trees.known.rate, [np.nan, *rates[1:]])  # the first says 1
    np.testing.assert_allclose(read_model(booster, learning_rate=rates).trees.known.rate, rates)
    model = check(train(rounds=2, init_model=train(rounds=2, lambda_l2=30.0, learning_rate=0.3)))
    np.testing.assert_allclose(model.trees.known.rate, [np.nan, 0.3, 0.1, 0.1])
    for found in (model, check(train(lambda_l2=1.0).refit(X, -signal, decay_rate=0.1))):
        assert "refitted model, or an earlier training call" in found.trees.known.refusal
        assert codes(found) == ["start_assumed!"]


def test_a_file_equals_its_object_and_needs_no_lightgbm(tmp_path):
    booster, path = train("multiclass", HOLES, data={"categorical_feature": [3, 4]}), tmp_path / "model.txt"
    booster.save_model(path)
    (tmp_path / "dos.txt").write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    models = [read_model(m) for m in (booster, path, tmp_path / "dos.txt", lgb.Booster(model_file=path))]
    models.append(pickle.loads(pickle.dumps(models[0])))
    assert len({model.digest for model in models}) == 1
    for model in models[1:]:
        np.testing.assert_array_equal(model.trees.known.value, models[0].trees.known.value)
    code = f"import sys; from treeinner.read.model import read_model; read_model({str(path)!r}); "
    subprocess.run([sys.executable, "-c", code + "sys.exit('lightgbm' in sys.modules)"], check=True)


def test_a_file_without_parameters_has_the_stored_values(tmp_path):
    whole, path = train(lambda_l2=5.0).model_to_string(), tmp_path / "bare.txt"
    path.write_text(whole[: whole.index("\nparameters:")])
    expected = read_model(train(lambda_l2=5.0)).trees.known.value
    np.testing.assert_allclose(read_model(path).trees.known.value, expected, atol=3e-5)  # six digits of a start near 3
    np.testing.assert_allclose(read_model(path, reg_lambda=5.0).trees.known.value, expected, atol=1e-5)
    assert "match" in read_model(path, reg_lambda=50.0).trees.known.refusal
    old = (GOLDEN / "lightgbm-3.3.5" / "regression.txt").read_text()
    path.write_text(old[: old.index("\nparameters:")])  # without the values of roots
    with pytest.raises(UnknownParameterError, match="lambda_l2"):
        node_values(read_model(path), "predecomp")
    assert "digits" in read_model(train(y=1e5 + signal, lambda_l1=1e-3)).trees.known.refusal


def test_labels_names_and_losses_of_estimators():
    frame = pd.DataFrame(X, columns=["a b", "c", "d", "e", "f"])
    labels = np.array(["low", "mid", "top"])[Y["multiclass"].astype(int)]
    fit = {"n_estimators": 3, "n_jobs": 1, "verbosity": -1}
    model = read_model(lgb.LGBMClassifier(**fit, class_weight={"top": 2.0}).fit(frame, labels))
    assert (model.output_names, model.classes) == (("low", "mid", "top"), ["low", "mid", "top"])
    assert (model.feature_names[0], model.schema.names[0]) == ("a_b", "a_b")
    assert (model.class_weight, model.loss.name) == ({"top": 2.0}, "multiclass")
    two = read_model(lgb.LGBMClassifier(**fit).fit(X, labels == "top"))
    assert (two.output_names, two.classes, two.feature_names) == (None, [False, True], None)
    own = lgb.LGBMRegressor(**fit, objective=squared).fit(X, signal)
    np.testing.assert_array_equal(read_model(own).loss.gradients(np.ones(2), np.zeros((2, 1))), -np.ones((2, 1)))
    assert pickle.loads(pickle.dumps(read_model(own))).loss.name == "squared"
    assert "objective" in check(own.booster_).loss_needed
    assert read_model(own.booster_, objective="l2").loss is not None
    assert check(train("lambdarank", y=Y["multiclass"], data={"group": [20] * 20})).loss.name == "lambdarank"


def squared(y, margin, weight):
    return margin - y, np.ones(len(y))


def test_pandas_categories_go_by_value():
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"number": draw.normal(size=N)})
    frame["color"] = pd.Categorical(draw.choice(list("rgbyzq"), N), categories=list("rgbyzq"))
    frame["size"] = pd.Categorical(draw.choice([10, 20, 30], N), categories=[20, 10, 30])
    y = frame["number"] + frame["color"].isin(["r", "y"]) + (frame["size"] == 10)
    for ordered in (False, True):  # which LightGBM takes as numbers
        frame["size"] = frame["size"].cat.set_categories([20, 10, 30], ordered=ordered)
        schema = read_model(train(rows=frame, y=y)).schema
        assert (schema.categorical, schema.unseen) == ((False, True, True), "missing")
        assert schema.levels == (None, tuple("rgbyzq"), (20, 10, 30))
    frame["count"] = np.arange(N) % 3  # could be the ordered column as well
    schema = read_model(train(rows=frame, y=y)).schema
    assert (schema.levels, "pandas" in schema.external) == (None, True)


def test_what_is_not_supported_is_refused_by_name():
    with pytest.raises(UnsupportedModelError, match="linear_tree"):
        read_model(train(linear_tree=True))
    folds = lgb.cv(QUIET, lgb.Dataset(X, signal), 2, nfold=2, stratified=False, return_cvbooster=True)
    with pytest.raises(UnsupportedModelError, match="boosters"):
        read_model(folds["cvbooster"])
    with pytest.raises(UnsupportedModelError, match="0 as missing"):
        read_model(train(init_model=train(rows=HOLES, zero_as_missing=True)))
    with pytest.raises(ModelError, match="no trees"):
        read_model(lgb.Booster(QUIET, lgb.Dataset(X, signal)))


def test_damaged_files_are_model_errors(tmp_path):
    text, path = train(rounds=2, data={"categorical_feature": [3, 4]}).model_to_string(), tmp_path / "model.txt"
    end = text.index("end of trees")
    for stop in (*range(10, end, 97), text.index("[num_leaves")):
        path.write_text(text[:stop])
        with pytest.raises(ModelError):
            read_model(path)
    path.write_text(text.replace("version=v4", "version=v9"))
    with pytest.raises(UnsupportedModelError, match="v9"):
        read_model(path)
