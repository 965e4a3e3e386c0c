"""The CatBoost reader against CatBoost's own margins, leaves and SHAP values."""

import sys

import catboost as cb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import treeinner as ti
from treeinner import kernels
from treeinner.errors import DataError, MissingDependencyError, TreeInnerWarning, UnsupportedModelError
from treeinner.read import catboost as reader
from treeinner.read.methods import node_values
from treeinner.read.model import Told
from treeinner.rows import read_rows

from .tables import leaves, margins, table

N = 240
POLICIES = ["SymmetricTree", "Depthwise", "Lossguide"]
FAST = {"iterations": 6, "depth": 4, "logging_level": "Silent", "allow_writing_files": False, "thread_count": 1}
CATEGORIES = ["few", "code", "many"]

rng = np.random.default_rng(0)
X = rng.normal(size=(N, 5))
X[:, 4] = 1.0  # CatBoost drops constant features, but they keep their place
HOLES = np.where(rng.random(X.shape) < 0.2, np.nan, X)
SIGNAL = X[:, 0] + X[:, 1] ** 2 - (X[:, 2] > 0)
WEIGHT = rng.uniform(0.5, 3.0, N)
few, code, many = rng.choice(list("xyz"), N), rng.integers(0, 9, N), rng.choice(list("klmnopqrst"), N)
MIXED = pd.DataFrame({"a": X[:, 0], "few": few, "b": X[:, 1], "code": code, "many": many})
MIXED_SIGNAL = X[:, 0] + 2 * (few == "x") + 0.3 * code + 2 * ((many < "n") & (few == "y"))
Y = {
    "RMSE": SIGNAL,
    "Logloss": (SIGNAL > 0.5).astype(int),
    "MultiClass": np.array(["low", "mid", "top"])[np.digitize(SIGNAL, [0, 1])],
    "MultiRMSE": np.column_stack([SIGNAL, SIGNAL**2]),
    "Quantile:alpha=0.9": SIGNAL,
}


def fit(rows, y, loss="RMSE", **params):
    kinds = {name: params.pop(name, None) for name in ("weight", "cat_features", "text_features", "embedding_features")}
    return cb.CatBoost(FAST | {"loss_function": loss} | params).fit(cb.Pool(rows, y, **kinds))


def mixed(loss="RMSE", **params):
    y = MIXED_SIGNAL if loss == "RMSE" else np.digitize(MIXED_SIGNAL, [1, 2, 3])
    return fit(MIXED, y, loss, cat_features=CATEGORIES, **{"one_hot_max_size": 3, "max_ctr_complexity": 3} | params)


def check(model, rows, **cut):
    """Margins and leaves equal the library's."""
    found = reader.read(model, Told(iteration_range=tuple(cut.values()) or None))
    seen = rows if found.route is None else found.route(rows)
    assert np.array_equal(leaves(found, seen), model.calc_leaf_indexes(rows, **cut))
    raw = np.asarray(cb.CatBoost.predict(model, rows, prediction_type="RawFormulaVal", **cut)).reshape(len(rows), -1)
    np.testing.assert_allclose(margins(found, seen), raw, rtol=1e-13, atol=1e-13)  # the same sums in another order
    return found


def attributions(found, rows, method):
    """By feature: (rows, features)."""
    forest, values, out = found.trees.forest, node_values(found, method), np.zeros((len(rows), found.n_features))
    paths = None if method == "treeshap" else forest.path_table(values)
    by_player = kernels.attribute(forest, table(rows), paths, n_jobs=1)[:, 0]
    for player, features in enumerate(found.trees.player_features):
        out[:, list(features)] += by_player[:, [player]] / len(features)
    return out


# -- numbers alone ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("loss", Y)
def test_numeric_models_predict_as_catboost(loss, policy):
    found = check(fit(X, Y[loss], loss, grow_policy=policy), X)
    assert (found.schema.n_columns, found.feature_names, found.loss.name) == (5, None, loss.split(":")[0])
    assert found.output_names == (("low", "mid", "top") if loss == "MultiClass" else None)
    assert found.classes == {"Logloss": [0, 1], "MultiClass": ["low", "mid", "top"]}.get(loss)
    holds = loss in ("RMSE", "MultiRMSE")
    assert (found.trees.known.value is None) == bool(found.trees.known.refusal) == (not holds)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("nan_mode", ["Min", "Max", "Forbidden"])
def test_missing_infinite_and_bordering_values_go_where_catboost_sends_them(nan_mode, policy):
    model = fit(X if nan_mode == "Forbidden" else HOLES, SIGNAL, nan_mode=nan_mode, grow_policy=policy)
    trees = reader.read(model, Told()).trees
    border = trees.threshold[trees.column == 0]
    rows = np.concatenate(
        [HOLES, np.array([[np.nan], [np.inf], [-np.inf]]) * np.ones(5), np.tile(X[:1], (2 * len(border), 1))]
    )
    rows[-2 * len(border) :, 0] = np.concatenate([border, np.nextafter(border, np.inf)])  # compared in float32
    check(model, rows)


def test_columns_named_by_numbers_go_by_name():
    """A frame's names are stored, also if they are 0, 1, ...; an array has none."""
    for names in (list("01234"), [0, 1, 2, 3, 4]):
        frame = pd.DataFrame(X, columns=names)
        assert reader.read(fit(frame, SIGNAL), Told()).schema.names == tuple("01234")
    assert reader.read(fit(X, SIGNAL), Told()).schema.names is None


def test_rounds_without_the_first_leave_the_bias_out_as_catboost_does():
    for model, rows in ((fit(X, SIGNAL + 100), X), (mixed(), MIXED)):
        for start, stop in ((0, 3), (2, 5)):
            check(model, rows, ntree_start=start, ntree_end=stop)


# -- categories, texts, embeddings --------------------------------------------------------------------------------
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("loss", ["RMSE", "MultiClass"])
@pytest.mark.parametrize("one_hot", [2, 20])
def test_categorical_models_predict_as_catboost(one_hot, loss, policy):
    model = mixed(loss, one_hot_max_size=one_hot, grow_policy=policy)
    found = check(model, MIXED.assign(many=MIXED.many.where(MIXED.a < 1, "unseen")))
    assert found.feature_names == tuple(MIXED)
    assert found.path_only == (policy != "SymmetricTree")
    assert np.all(found.trees.cover[found.trees.start[:-1]] == N)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["text", "embedding"])
def test_texts_and_embeddings_predict_as_catboost_and_get_their_credit(kind, policy):
    texts = [" ".join(row) for row in rng.choice(["red", "green", "blue", "sky"], (N, 3))]
    rows = pd.DataFrame({"noise": rng.normal(size=N), "own": texts if kind == "text" else list(X[:, 1:]), "a": X[:, 0]})
    y = X[:, 0] + (3 * rows.own.str.contains("red") if kind == "text" else 3 * X[:, 1])
    found = check(
        fit(rows, (y > y.mean()).astype(int), "Logloss", grow_policy=policy, **{f"{kind}_features": ["own"]}), rows
    )
    noise, own, _ = np.abs(attributions(found, found.route(rows), "saabas")).mean(axis=0)
    assert own > 5 * noise


def test_combinations_share_their_credit():
    model = mixed(one_hot_max_size=2, iterations=30)
    place = {"cat": [1, 3, 4], "float": [0, 2]}  # CatBoost numbers features of each kind on their own
    expected = set()
    for ctr in reader._document(model)["features_info"]["ctrs"]:
        kinds = [(kind, e.get(f"{kind}_feature_index")) for e in ctr["elements"] for kind in place]
        expected.add(tuple(sorted({place[kind][at] for kind, at in kinds if at is not None})))
    assert max(map(len, expected)) > 1
    assert expected <= set(reader.read(model, Told()).trees.player_features)


def test_any_container_gives_the_same_leaves():
    model = mixed()
    route = reader.read(model, Told()).route
    expected = model.calc_leaf_indexes(MIXED)
    containers = [
        MIXED.to_numpy(),
        MIXED.to_numpy().tolist(),
        MIXED[MIXED.columns[::-1]].assign(extra="?"),  # by name
        pl.from_pandas(MIXED),
        pl.from_pandas(MIXED).cast({"few": pl.Categorical}),
        cb.Pool(MIXED, cat_features=CATEGORIES),
        MIXED.astype({"few": "category"}),
    ]
    for container in containers:
        assert np.array_equal(route(container), expected)
    with pytest.warns(TreeInnerWarning, match="'code'.*category 3"):  # from a CSV file with a gap elsewhere, say
        assert np.array_equal(route(MIXED.astype({"code": float})), expected)
    with pytest.raises(DataError, match="lacks 'b'"):
        route(MIXED.drop(columns="b"))
    with pytest.raises(DataError, match="CatBoost cannot apply"):
        route(MIXED.to_numpy()[:, ::-1])


@pytest.mark.filterwarnings("error")
def test_pools_are_rows_and_integer_categories_of_a_file_stay_integers(tmp_path):
    model = ti.read_model(mixed())
    expected = model.route(MIXED)
    MIXED.assign(y=MIXED_SIGNAL).to_csv(tmp_path / "rows.csv", index=False)
    for rows in (
        read_rows(model, cb.Pool(MIXED, cat_features=CATEGORIES), MIXED_SIGNAL),
        read_rows(model, tmp_path / "rows.csv", "y"),
    ):
        assert np.array_equal(np.concatenate([part.table.values for part in rows]), expected)
    with pytest.raises(DataError, match=r"catboost\.Pool"):  # of numbers alone: read without CatBoost
        read_rows(ti.read_model(fit(X, SIGNAL)), cb.Pool(X), SIGNAL)


# -- attributions -------------------------------------------------------------------------------------------------
def test_treeshap_is_catboosts_where_that_adds_up():
    """It does not in deeper trees with empty leaves, and sees symmetric trees upside down."""
    model = fit(X, SIGNAL, grow_policy="Depthwise", depth=3)
    theirs = model.get_feature_importance(cb.Pool(X), type="ShapValues")[:, :-1]
    mine = attributions(reader.read(model, Told()), X, "treeshap")
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-13)  # order of sums


def test_both_ways_are_one_model():
    """Numbers read through the leaves: the same attributions, TreeSHAP too if trees are symmetric."""
    for policy in POLICIES:
        model = fit(X, SIGNAL, grow_policy=policy)
        one, other = reader.read(model, Told()), reader._by_leaves(model, Told())
        for method in ("saabas", "predecomp", "treeshap"):
            if method == "treeshap" and other.path_only:
                with pytest.raises(UnsupportedModelError, match="symmetric"):
                    node_values(other, method)
                continue
            mine = attributions(other, other.route(X), method)
            np.testing.assert_allclose(mine, attributions(one, X, method), rtol=0, atol=1e-14)  # order of sums


@pytest.mark.parametrize("weight", [None, WEIGHT, np.ceil(WEIGHT)])
@pytest.mark.parametrize("policy", POLICIES)
def test_nodes_are_steps_of_squared_error(policy, weight):
    """-rate * G / (H + penalty) of the training rows, the penalty l2_leaf_reg times the mean weight."""
    model, told, w = fit(X, SIGNAL, weight=weight, grow_policy=policy, l2_leaf_reg=5.0), Told(), np.ones(N)
    if weight is not None:  # its mean is not stored
        assert reader.read(model, told).trees.known.needs == ("reg_lambda",)
        told, w = Told(reg_lambda=5.0 * weight.mean()), weight
    trees = reader.read(model, told).trees
    margin, rate = np.full(N, trees.base[0]), trees.known.rate[0]
    at = kernels.apply(trees.forest, table(X), n_jobs=1)
    for tree in range(trees.n_trees):
        nodes = slice(trees.start[tree], trees.start[tree + 1])
        place = dict(zip(trees.leaf_id[nodes].tolist(), range(nodes.start, nodes.stop), strict=True))
        of_row = np.array([place[leaf] for leaf in at[:, tree]])
        sums = np.stack([np.bincount(of_row, a, nodes.stop) for a in (w * (margin - SIGNAL), w)])
        for node in range(nodes.stop - 1, nodes.start - 1, -1):
            if trees.column[node] >= 0:
                sums[:, node] = sums[:, trees.left[node]] + sums[:, trees.right[node]]
        step = -rate * sums[0] / (sums[1] + 5.0 * w.mean())
        np.testing.assert_allclose(trees.known.value[nodes, 0], step[nodes], rtol=0, atol=1e-6)  # float32 in CatBoost
        margin += trees.value[of_row, 0]


def test_what_predecomp_needs_is_asked_for_or_refused_by_name():
    for loss, params, reason in (
        ("RMSE", {"leaf_estimation_iterations": 5}, "5 estimation steps"),
        ("RMSE", {"model_shrink_rate": 0.1}, "model_shrink_rate"),
        ("RMSE", {"monotone_constraints": [1, 0, 0, 0, 0]}, "monotone"),
        ("Quantile:alpha=0.9", {}, "Exact"),
        ("Logloss", {"class_weights": [1, 3]}, "second derivatives"),
    ):
        assert reason in reader.read(fit(X, Y[loss], loss, **params), Told()).trees.known.refusal
    two = fit(X, SIGNAL, weight=WEIGHT, iterations=2)
    gradient = fit(X, Y["Logloss"], "Logloss", leaf_estimation_method="Gradient", leaf_estimation_iterations=1)
    for model in (two, gradient):
        assert reader.read(model, Told()).trees.known.needs == ("reg_lambda",)
        assert reader.read(model, Told(reg_lambda=3.0)).trees.known.value is not None
    total = cb.sum_models([fit(X, SIGNAL), fit(X, SIGNAL, depth=2)], weights=[0.3, 0.7])
    assert "sum of models" in check(total, X).trees.known.refusal


# -- the loss ----------------------------------------------------------------------------------------------------
class Squared:
    def calc_ders_range(self, approxes, targets, weights):
        return [(y - m, -1.0) for m, y in zip(approxes, targets)]  # noqa: B905 - numba compiles it


def test_losses():
    weighted = reader.read(fit(X, Y["Logloss"], "Logloss", class_weights=[1, 3]), Told()).loss
    np.testing.assert_allclose(weighted.gradients(np.array([0.0, 1.0]), np.zeros((2, 1)))[:, 0], [0.5, -1.5])
    bordered = reader.read(fit(X, SIGNAL, "Logloss", target_border=0.5), Told())
    assert bordered.target_border == 0.5
    own = cb.CatBoostRegressor(loss_function=Squared(), eval_metric="RMSE", **FAST)
    custom = reader.read(own.fit(X, SIGNAL), Told())
    assert custom.notes[0].code == "custom_loss"
    np.testing.assert_allclose(custom.loss.gradients(np.array([1.0]), np.array([[3.0]])), [[2.0]])
    ranker = cb.CatBoostRanker(loss_function="YetiRank", **FAST)
    ranker.fit(X, Y["Logloss"], group_id=np.repeat(np.arange(24), 10))
    assert "random" in reader.read(ranker, Told()).loss_needed


# -- files -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("policy", POLICIES)
def test_files_of_every_kind(tmp_path, monkeypatch, policy):
    for model, rows in ((fit(X, SIGNAL, grow_policy=policy), X), (mixed(grow_policy=policy), MIXED)):
        for name in ("m.json", "m.cbm"):
            model.save_model(str(tmp_path / name), format=name[2:])
            found = reader.read_file(tmp_path / name, Told())
            seen = rows if found.route is None else found.route(rows)
            np.testing.assert_allclose(margins(found, seen)[:, 0], model.predict(rows), rtol=1e-13, atol=1e-13)
            again = cb.CatBoost().load_model(str(tmp_path / name), format=name[2:])
            assert np.array_equal(leaves(found, seen), again.calc_leaf_indexes(rows))  # JSON: numbered anew
            check(again, rows)
    monkeypatch.setitem(sys.modules, "catboost", None)
    with pytest.raises(MissingDependencyError, match="pip install catboost"):
        reader.read_file(tmp_path / "m.json", Told())
