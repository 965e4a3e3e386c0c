"""Losses whose gradient looks at other rows (queries, a number per round, all data) and forests on out-of-bag rows."""

from itertools import pairwise

import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor

import treeinner as ti
from tests import oracle
from tests.cases import check_errors, loss_named, same_bits
from tests.forests import Recipe, make_model, make_rows, make_trees
from tests.models import Models

N = 120


def data(n=N, classes=0, seed=0):
    """Rows with signal in four of six columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    noisy = X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * X[:, 2] * X[:, 3] + rng.normal(size=n)
    if classes == 0:
        return X, noisy
    return X, np.searchsorted(np.quantile(noisy, np.arange(1, classes) / classes), noisy).astype(int)


def censored(X):
    """Times, negative if censored."""
    rng = np.random.default_rng(0)
    time = rng.exponential(np.exp(-X[:, 0]))
    return np.where(rng.random(len(X)) < 0.7, time, -time)


def cox():
    X, _ = data()
    params = {"objective": "survival:cox", "nthread": 1, "max_depth": 2, "eta": 0.3, "base_score": 1.0}
    return xgb.train(params, xgb.DMatrix(X, censored(X)), 8)


def ranker():
    X, y = data(classes=3)
    params = {"objective": "rank:ndcg", "nthread": 1, "max_depth": 2, "lambdarank_pair_method": "topk"}
    return xgb.train(params, xgb.DMatrix(X, y, qid=np.repeat(np.arange(12), 10)), 5)


MODELS = Models(
    cox=cox,
    ranker=ranker,
    regressor=lambda: RandomForestRegressor(8, max_depth=4, random_state=0).fit(*data()),
    few=lambda: RandomForestRegressor(8, max_depth=4, random_state=0, max_samples=0.4).fit(*data()),
    two=lambda: RandomForestClassifier(8, max_depth=4, random_state=0).fit(*data(classes=2)),
    three=lambda: RandomForestClassifier(8, max_depth=4, random_state=0).fit(*data(classes=3)),
    whole=lambda: RandomForestRegressor(6, max_depth=4, bootstrap=False, max_features=2).fit(*data()),
    whole_classes=lambda: RandomForestClassifier(6, max_depth=4, bootstrap=False, max_features=2).fit(*data(classes=3)),
    extra=lambda: ExtraTreesRegressor(10, max_depth=5, random_state=0).fit(*data()),
)


# -- data and rounds -------------------------------------------------------------------------------------------------
def test_cox_takes_all_rows_at_once():
    model, (X, _) = MODELS["cox"], data()
    y, order = censored(X), np.random.default_rng(1).permutation(N)
    own = model.get_score(importance_type="total_gain")
    own = np.array([own.get(f"f{k}", 0.0) for k in range(6)])
    gains = ti.importance(model, X, y, score="tree_inner", method="predecomp").gains
    assert np.abs(gains / gains.sum() - own / own.sum()).max() < 2e-6  # XGBoost keeps its gradients in float32
    whole, shuffled = ti.importance(model, X, y), ti.importance(model, X[order], y[order])
    np.testing.assert_allclose(shuffled.scores, whole.scores, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(shuffled.std_errors, whole.std_errors, rtol=1e-6)
    same_bits(ti.importance(model, X, y, n_jobs=3), whole)
    for call in (lambda: ti.ImportanceAccumulator(model), lambda: ti.permutation_importance(model, X, y)):
        with pytest.raises(ti.UnsupportedModelError, match="row"):
            call()
    batches = [(X[:60], y[:60]), (X[60:], y[60:])]
    with pytest.raises(ti.TreeInnerError):  # a list of batches is not all rows at once
        ti.importance(model, batches)


@pytest.mark.parametrize("method", ["centred", "predecomp"])
def test_a_loss_with_a_number_per_round(method):
    """XGBoost >= 3.4's absolute error."""
    trees, weight = make_trees(Recipe(n_trees=4), 0), np.arange(100.0)
    X, y = make_rows(trees, 100, 1), np.random.default_rng(0).normal(size=100)
    model = make_model(trees, loss_named("smooth_absolute_error"))
    with pytest.raises(ti.UnsupportedModelError, match="all rows"):
        ti.ImportanceAccumulator(model)

    def gradient(margin):
        r = margin[:, 0] - y
        s = np.average(np.sqrt(np.abs(r)), weights=weight) ** 2
        return (r * s / np.hypot(s, r))[:, None]

    residual = oracle.residuals(trees, X, gradient, weight)
    shares = oracle.tree_inner(trees, oracle.tensor(trees, X, "predecomp"), residual)
    shares = oracle.centred_shares(trees, X, residual, weight) if method == "centred" else shares
    imp = ti.importance(model, X, y, score="tree_inner", sample_weight=weight, method=method)
    found, rows = imp.scores * weight.sum(), shares.sum(axis=(0, 3))
    np.testing.assert_allclose(found, rows.sum(axis=0), rtol=0, atol=1e-7 * np.abs(rows).sum())  # leaf sums
    check_errors(imp.std_errors * weight.sum(), rows[weight > 0])


# -- queries ---------------------------------------------------------------------------------------------------------
def test_queries_add_up_in_any_order_if_they_are_whole():
    model, (X, y), qid = MODELS["ranker"], data(classes=3), np.repeat(np.arange(12), 10)
    whole = ti.importance(model, X, y, qid=qid)
    # Ties are broken by the order of the rows, as in XGBoost: queries change places, their rows do not.
    mixed = np.random.default_rng(0).permutation(12)[:, None] * 10 + np.arange(10)
    shuffled = ti.importance(model, X[mixed.ravel()], y[mixed.ravel()], qid=qid[mixed.ravel()].astype(str))
    np.testing.assert_allclose(shuffled.scores, whole.scores, rtol=1e-10)
    np.testing.assert_allclose(shuffled.std_errors, whole.std_errors, rtol=1e-10)

    def stream(accumulator, cut):
        for rows in (slice(cut, N), slice(0, cut)):
            accumulator.update(X[rows], y[rows], qid=qid[rows])
        return accumulator

    found = stream(stream(ti.ImportanceAccumulator(model), 60).second_pass(), 30).result()
    # Sums over a query are taken in numpy's order, which may depend on the rows around it.
    np.testing.assert_allclose(found.scores, whole.scores, rtol=1e-10)
    np.testing.assert_allclose(found.std_errors, whole.std_errors, rtol=1e-10)
    with pytest.raises(ti.DataError, match="Query 5 "):
        stream(ti.ImportanceAccumulator(model), 55)
    for given in ({}, {"qid": qid[:-1]}):
        with pytest.raises(ti.DataError, match="qid"):
            ti.importance(model, X, y, **given)


# -- out-of-bag rows -------------------------------------------------------------------------------------------------
def mdi_oob(forest, X, target, weight):
    """Li et al. (2019): mean over trees of the weighted mean over its out-of-bag rows of f_mk(x_i) y_i."""
    total = np.zeros(X.shape[1])
    for tree, seen in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        t = tree.tree_
        value = t.value[:, 0, :] / (1 if target.shape[1] == 1 else t.value[:, 0, :].sum(axis=1, keepdims=True))
        out = np.setdiff1d(np.arange(len(X)), seen)
        paths = tree.decision_path(X[out])
        for row, i in enumerate(out):
            nodes = paths.indices[paths.indptr[row] : paths.indptr[row + 1]]
            for parent, child in pairwise(nodes):
                part = (value[child] - value[parent]) @ target[i]
                total[t.feature[parent]] += weight[i] * part / weight[out].sum()
    return total / len(forest.estimators_)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("name", "classes"), [("regressor", 0), ("few", 0), ("two", 2), ("three", 3)])
def test_out_of_bag_scores_are_mdi_oob(name, classes, weighted):
    X, y = data(classes=classes)
    weight = np.arange(N) % 3 + 0.0 if weighted else np.ones(N)
    expected = mdi_oob(MODELS[name], X, np.eye(classes)[y] if classes else y[:, None], weight)
    given = {"score": "tree_inner", "method": "predecomp", "oob": True} | (
        {"sample_weight": weight} if weighted else {}
    )
    imp = ti.importance(MODELS[name], X, y, **given)
    # From the leaves: gradients to 2^-32 of the largest value, times rows / out-of-bag rows.
    np.testing.assert_allclose(imp.scores, expected, rtol=0, atol=1e-8 * np.abs(expected).sum())
    np.testing.assert_array_equal(imp.by_round().sum(axis=0), imp.scores)
    alone = ti.importance(MODELS[name], X, y, std_errors=False, **given)
    np.testing.assert_array_equal(alone.scores, imp.scores)
    assert imp.losses is None  # every tree on rows of its own
    assert "out_of_bag" in [note.code for note in imp.notes]


def test_out_of_bag_scores_are_ufi():
    """Zhou and Hooker: the Gini gain with products of in-bag and out-of-bag class shares, mean over trees."""
    (X, y), forest = data(classes=2), MODELS["two"]
    expected = np.zeros(6)
    for tree, drawn in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        fresh = np.setdiff1d(np.arange(N), drawn)
        in_bag, out_of_bag = (tree.decision_path(X[rows]).toarray().T for rows in (drawn, fresh))
        count = out_of_bag.sum(axis=1)
        p, q = in_bag @ y[drawn] / in_bag.sum(axis=1), out_of_bag @ y[fresh] / np.maximum(count, 1)
        impurity = count * (1 - p * q - (1 - p) * (1 - q))
        split = np.flatnonzero(tree.tree_.children_left >= 0)
        left, right = tree.tree_.children_left[split], tree.tree_.children_right[split]
        np.add.at(
            expected, tree.tree_.feature[split], (impurity[split] - impurity[left] - impurity[right]) / len(fresh)
        )
    imp = ti.importance(forest, X, y, oob=True, score="tree_inner", method="saabas")
    np.testing.assert_allclose(imp.scores, expected / len(forest.estimators_), rtol=1e-8, atol=1e-10)


def test_out_of_bag_needs_the_training_rows_in_their_order():
    X, y = data()
    order = np.random.default_rng(1).permutation(N)
    for rows in ((X[order], y[order]), data(seed=9), (X[:-1], y[:-1])):
        with pytest.raises(ti.DataError, match="training"):
            ti.importance(MODELS["regressor"], *rows, oob=True)
    with pytest.raises(ValueError, match="tree_inner"):
        ti.importance(MODELS["regressor"], X, y, oob=True, score="loss")
    for model in (MODELS["whole"], MODELS["cox"]):
        with pytest.raises(ti.UnsupportedModelError, match="bootstrap="):
            ti.importance(model, X, np.abs(y), oob=True)


# -- gains -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "classes"), [("whole", 0), ("whole_classes", 3)])
def test_a_forest_without_bootstrap_gives_mdi_on_its_training_rows(name, classes):
    X, y = data(classes=classes)
    trees = MODELS[name].estimators_
    mdi = np.mean([tree.tree_.compute_feature_importances(normalize=False) for tree in trees], axis=0)
    # Node values are the means of the training rows, so that centring changes nothing.
    for method in ("centred", "predecomp"):
        imp = ti.importance(MODELS[name], X, y, score="tree_inner", method=method)
        np.testing.assert_allclose(imp.scores, mdi, rtol=0, atol=1e-10 * mdi.sum())


def test_gains_of_a_forest_are_sums_over_trees_as_total_gain_is():
    X, y = data()
    for name in ("extra", "whole"):
        model = ti.read_model(MODELS[name])
        in_sample = ti.importance(model, X, y, score="tree_inner", method="predecomp").gains
        np.testing.assert_allclose(in_sample, ti.total_gain(model).scores, rtol=1e-9)
