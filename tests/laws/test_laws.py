"""Laws: what must hold for any model, against an oracle on trees of its own and against the libraries themselves."""

import json
from functools import cache

import numpy as np
import pytest

import treeinner as ti
from tests.laws import oracle, settings
from tests.laws.settings import CATBOOST, FIRST, GOLDEN, LIGHTGBM, MODELS, SETTINGS, STEPS, UNITS, N, Setting

pytestmark = pytest.mark.filterwarnings("ignore")
METHODS = ("centred", "predecomp", "saabas", "treeshap")


def close(found, expected, tolerance):
    """Raise unless the arrays agree, to a share of the largest expected number."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def same(found, expected):
    """Raise unless scores and standard errors have the same bits."""
    np.testing.assert_array_equal(found.scores, expected.scores)
    np.testing.assert_array_equal(found.std_errors, expected.std_errors)


def margins(source):
    """What the library itself predicts for the last 40 rows: (rows, outputs)."""
    setting = Setting(source)
    found = settings.fitted(source).predict(setting.rows()[0][300:]) if source == "boost" else setting.fact("margin")
    return found.astype(float).reshape(40, -1)


# -- the oracle ------------------------------------------------------------------------------------------------------
XGBOOST = [f"xgboost-3.2.0/{name}.ubj" for name in ("regression", "binary", "multiclass")]
LIGHTGBM_BINARY = "lightgbm-4.7.0/binary.txt"
ORACLES = [*XGBOOST, LIGHTGBM, LIGHTGBM_BINARY, CATBOOST, "boost"]


@cache
def forest_of(source):
    """The model as trees of the oracle."""
    if source == "boost":
        return oracle.from_boosting(settings.fitted(source))
    setting, path = Setting(source), GOLDEN / source
    rate, penalty = (float(setting.fact(name)) for name in ("learning_rate", "reg_lambda"))
    loss = {"binary": "logistic", "multiclass": "softmax"}.get(setting.stem, "squared")
    if source == CATBOOST:
        return oracle.from_catboost(path, rate, penalty)
    pytest.importorskip(source.split("-")[0])
    if source in XGBOOST:
        return oracle.from_xgboost(path, loss, rate, penalty)
    mean = setting.rows()[1][:300].astype(np.float32).astype(float).mean()  # LightGBM holds labels in float32
    return oracle.from_lightgbm(path, loss, rate, penalty, mean if loss == "squared" else np.log(mean / (1 - mean)))


@pytest.mark.parametrize("source", ORACLES)
def test_the_oracle_predicts_what_the_library_predicts(source):
    found = oracle.margins(forest_of(source), Setting(source).rows()[0][300:])[-1]
    close(found, margins(source), 2.0**-22 if source in XGBOOST else 1e-13)  # XGBoost adds up its trees in float32


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("score", ["tree_inner", "loss"])
@pytest.mark.parametrize("source", ORACLES)
def test_scores_and_errors_are_those_of_the_oracle(source, score, method):
    forest, setting = forest_of(source), Setting(source)
    rows = slice(295, 315) if method == "treeshap" else slice(200, N)  # all coalitions are slow
    (X, y), weight, clusters = (part[rows] for part in setting.rows()), settings.WEIGHT[rows], settings.CLUSTERS[rows]
    given = {"score": score, "method": method, "sample_weight": weight}
    found = ti.importance(setting.model(), X, y, **given)
    products = oracle.products(forest, X, y, score, method, weight)
    expected = products.sum(axis=1) / weight.sum()
    # LightGBM's start is found again from its first leaves, which were worked out from float32 gradients; XGBoost takes
    # the logit of base_score in float32.
    tolerance = 1e-6 if source in (XGBOOST[1], LIGHTGBM, LIGHTGBM_BINARY) else UNITS
    close(found.scores, expected.sum(axis=(0, 2)), tolerance)
    if method != "treeshap":
        close(found.by_round(), expected.sum(axis=2), tolerance)
    if method != "treeshap" and score == "tree_inner":
        close(found.gains, found.scores * weight.sum() / forest.rate, 1e-7)  # the rate of CatBoost is a float32
    shares = products.sum(axis=0)
    if method == "centred":
        shares = oracle.centred_shares(forest, X, y, score, weight)
    close(found.std_errors, oracle.std_errors(shares.sum(axis=2), weight, np.arange(len(y))), STEPS)
    clustered = ti.importance(setting.model(), X, y, clusters=clusters, **given)
    close(clustered.std_errors, oracle.std_errors(shares.sum(axis=2), weight, clusters), STEPS)
    if len(forest.base) > 1:
        outputs = [found.for_output(output) for output in found.output_names]
        close(np.array([output.scores for output in outputs]).T, expected.sum(axis=0), tolerance)
        errors = np.array([output.std_errors for output in outputs]).T
        close(errors, oracle.std_errors(shares, weight, np.arange(len(y))), STEPS)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("source", ORACLES)
def test_the_breakdown_adds_up_to_the_fall_of_the_loss(source, method):
    forest, setting = forest_of(source), Setting(source)
    X, y = (part[300:] for part in setting.rows())
    before = forest.loss(y, np.tile(forest.base, (len(y), 1))).mean()
    fall = before - forest.loss(y, margins(source)).mean()
    found = ti.importance(setting.model(), X, y, score="loss", method=method)
    tolerance = 1e-6 if source.startswith(("xgboost", "lightgbm")) else UNITS  # float32 in margins or labels
    assert found.scores.sum() + found.base == pytest.approx(fall, abs=tolerance * before)
    assert found.explained == pytest.approx(fall / before, abs=tolerance)
    close(found.shares, found.scores / before, tolerance)


# -- facts of the libraries ------------------------------------------------------------------------------------------
NUMERIC = [name for name in MODELS if "-" in name and Setting(name).stem not in ("frame", "onehot", "ctr")]
SPLIT = [(name, method) for name in NUMERIC for method in METHODS[1:] if f"attribute {method}" in MODELS[name]]


@pytest.mark.parametrize(("source", "method"), SPLIT)
def test_attributions_add_up_to_the_margin(source, method):
    margin = Setting(source).fact("margin")
    found = ti.attribute(Setting(source).model(), settings.data()["X"], method=method)
    total = found.values.sum(axis=1) + found.base_values.reshape(margin.shape)
    close(total, margin, 1e-6 if source.startswith("xgboost") else 1e-13)  # XGBoost adds up in float32


# CatBoost walks symmetric trees from the last split to the first: another game.
KINDS = (("treeshap", "contribs"), ("saabas", "approx_contribs"))
EXPLAINED = [(name, *kind) for name in NUMERIC for kind in KINDS if Setting(name).fact(kind[1]) is not None
             and (not name.startswith("catboost") or "depthwise" in name)]  # fmt: skip


@pytest.mark.parametrize(("source", "method", "kind"), EXPLAINED)
def test_treeshap_and_saabas_are_the_librarys(source, method, kind):
    stored = Setting(source).fact(kind) / (8 if "/rf." in source else 1)  # LightGBM explains the sum of the 8 trees
    found = ti.attribute(Setting(source).model(), settings.data()["X"], method=method)
    values = np.moveaxis(np.atleast_3d(found.values), 2, 1)
    together = np.concatenate([values, found.base_values.reshape(40, -1, 1)], axis=2)
    close(together.reshape(stored.shape), stored, 1e-6 if source.startswith("xgboost") else 1e-12)  # float32


# One plain Newton step in every round.
STEPWISE = [name for name in NUMERIC if {"predecomp", "total_gain"} <= set(MODELS[name])
            and Setting(name).stem not in ("dart", "parallel", "vector", "poisson")]  # fmt: skip


@pytest.mark.parametrize("source", STEPWISE)
def test_predecomp_of_the_training_rows_is_total_gain(source):
    X, y = (part[:300] for part in Setting(source).rows())
    gain, model = Setting(source).fact("total_gain"), Setting(source).model()
    found = ti.importance(model, X, y, score="tree_inner", method="predecomp", std_errors=False)
    close(found.gains, gain, 2e-6)  # the libraries hold gradients in float32: 3e-7 was measured
    close(ti.total_gain(model).scores, gain, 1e-6)  # XGBoost adds them up in float32


def test_permutation_is_scikit_learns():
    from sklearn.inspection import permutation_importance

    X, y = (part[300:] for part in Setting("boost").rows())
    given = {"n_repeats": 3, "random_state": 7}
    theirs = permutation_importance(settings.fitted("boost"), X, y, scoring="neg_mean_squared_error", **given)
    ours = ti.permutation_importance(settings.fitted("boost"), X, y, **given)
    close(2 * ours.scores, theirs.importances_mean, 1e-12)  # the loss is half the squared error


# -- partitions and threads ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "ask"), [(name, ask) for name, setting in SETTINGS.items() for ask in setting.asks
                                           if ask.startswith(("batches", "files"))])  # fmt: skip
def test_batches_and_files_change_no_bit(name, ask):
    found, expected = settings.answer(SETTINGS[name], ask), settings.answer(SETTINGS[name], ask.partition(" ")[2])
    assert found.keys() == expected.keys()
    for quantity, array in expected.items():
        np.testing.assert_array_equal(found[quantity], array, err_msg=quantity)


@pytest.mark.parametrize("source", [FIRST, "catboost-1.2.10/multiclass.json", "boost"])
def test_accumulators_add_up_in_any_order(source):
    (X, y), model = Setting(source).rows(), ti.read_model(Setting(source).model())
    given = {"score": "tree_inner", "method": "saabas"}
    parts = (slice(0, 100), slice(100, 101), slice(101, N))
    one, two, three = (ti.ImportanceAccumulator(model, **given).update(X[part], y[part]) for part in parts)
    whole = ti.importance(model, X, y, **given)
    same((one + two + three).result(), whole)
    same((three + (one + two)).result(), whole)


@pytest.mark.parametrize("score", ["tree_inner", "loss"])
@pytest.mark.parametrize("method", METHODS)
def test_threads_change_no_bit(method, score):
    for setting in (SETTINGS["threads"], Setting("lightgbm-4.6.0/multiclass.txt", tiles=30)):
        X, y = setting.rows()
        one, two = (ti.importance(setting.model(), X, y, score=score, method=method, n_jobs=n) for n in (1, 2))
        same(two, one)


def test_threads_change_no_bit_of_attributions():
    (X, _), model = SETTINGS["threads"].rows(), SETTINGS["threads"].model()
    for method in METHODS[1:]:
        whole = ti.attribute(model, X, method=method, n_jobs=1).values
        np.testing.assert_array_equal(ti.attribute(model, X, method=method, n_jobs=2).values, whole)
        np.testing.assert_array_equal(ti.attribute(model, X[7777:7778], method=method).values[0], whole[7777])


# -- weights, columns, sums ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("score", ["tree_inner", "loss"])
@pytest.mark.parametrize("source", ["xgboost-1.7.6/binary.ubj", "lightgbm-4.6.0/multiclass.txt", CATBOOST, "boost"])
def test_weight_two_is_a_row_twice_and_weight_zero_no_row(source, score):
    (X, y), model = Setting(source).rows(), Setting(source).model()
    times = np.arange(N) % 3.0  # 0, 1, 2

    def scored(rows, weight=None):
        return ti.importance(model, X[rows], y[rows], score=score, method="centred", sample_weight=weight)

    weighed = scored(slice(None), times)
    close(weighed.scores, scored(np.repeat(np.arange(N), times.astype(int))).scores, UNITS)
    same(weighed, scored(times > 0, times[times > 0]))
    close(scored(slice(None), times / 4).std_errors, weighed.std_errors, STEPS)  # the scale of weights says nothing


@pytest.mark.parametrize("method", METHODS)
def test_permuted_columns_permute_scores(method, tmp_path):
    order, source = np.array([3, 0, 6, 1, 5, 2, 4]), "xgboost-3.4.1/regression.json"
    learner = json.loads((GOLDEN / source).read_text())["learner"]
    for tree in learner["gradient_booster"]["model"]["trees"]:
        split = np.array(tree["left_children"]) >= 0
        column = np.array(tree["split_indices"])
        column[split] = np.argsort(order)[column[split]]
        tree["split_indices"] = column.tolist()
    learner["feature_names"] = [learner["feature_names"][k] for k in order]
    (tmp_path / "permuted.json").write_text(json.dumps({"learner": learner, "version": [3, 4, 1]}))
    X, y = Setting(source).rows()
    one = ti.importance(Setting(source).model(), X, y, score="tree_inner", method=method)
    permuted = ti.read_model(tmp_path / "permuted.json", learning_rate=0.3, reg_lambda=1.5)
    two = ti.importance(permuted, X[:, order], y, score="tree_inner", method=method)
    assert two.feature_names == tuple(one.feature_names[k] for k in order)
    close(two.scores, one.scores[order], 1e-13)  # sums in another order
    close(two.std_errors, one.std_errors[order], 1e-13)


def test_a_frame_goes_by_its_names():
    pd = pytest.importorskip("pandas")
    (X, y), model = Setting(FIRST).rows(), Setting(FIRST).model()
    names = settings.data()["names"].tolist()
    one = ti.importance(model, X, y, score="tree_inner")
    two = ti.importance(model, pd.DataFrame(X, columns=names)[names[::-1]], y, score="tree_inner")
    assert two.feature_names == one.feature_names == tuple(names)
    same(two, one)


@pytest.mark.parametrize("source", ["xgboost-3.2.0/multiclass.ubj", LIGHTGBM, "xgboost-3.4.1/frame.ubj"])
def test_rounds_outputs_and_groups_add_up_to_the_scores(source):
    (X, y), model = Setting(source).rows(), Setting(source).model()
    found = ti.importance(model, X, y, score="tree_inner")
    close(ti.importance(model, X, y, score="tree_inner", std_errors=False).scores, found.scores, 1e-13)
    close(found.by_round().sum(axis=0), found.scores, 1e-13)
    if found.outputs is not None:
        close(sum(found.for_output(name).scores for name in found.output_names), found.scores, 1e-13)
    grouped = ti.importance(model, X, y, score="tree_inner", feature_groups=settings.GROUPS)
    scores = dict(zip(found.feature_names, found.scores, strict=True))
    members = [settings.GROUPS.get(name, [name]) for name in grouped.feature_names]
    close(grouped.scores, np.array([sum(scores[name] for name in group) for group in members]), 1e-13)
