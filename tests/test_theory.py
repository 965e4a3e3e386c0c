"""The propositions of docs/theory.md, measured. Seeds are fixed and every model is trained on one thread."""

from itertools import pairwise

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier

import treeinner as ti

COLUMNS = 5


def draw(seed, n):
    """Features with an interaction, a regression target and a binary one."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, COLUMNS))
    signal = X[:, 0] + X[:, 1] * X[:, 2]
    return X, signal + rng.normal(size=n), (signal + rng.logistic(size=n) > 0).astype(float)


def train(X, y, rounds=8, weight=None, **params):
    params = {"eta": 0.3, "max_depth": 3, "nthread": 1, "base_score": 0.5, **params}
    return ti.read_model(xgb.train(params, xgb.DMatrix(X, y, weight=weight, nthread=1), rounds)).ensemble


def trees_and_margins(model, X):
    """Each tree alone, and the margin of every row before it."""
    margin = np.full(len(X), model.base_score[0])
    for m in range(model.n_trees):
        tree = model.slice_trees(m, m + 1)
        yield tree, margin
        margin = margin + (tree.predict(X, n_jobs=1) - tree.base_score[0])


def path_values(tree, X):
    """PreDecomp of one tree: (rows, features)."""
    return ti.attribute(tree, X, n_jobs=1).values


def logistic(margin):
    return 1 / (1 + np.exp(-margin))


# -- Section S6: what an inner node is worth -----------------------------------------------------------------
def test_s6_example_the_root_of_predecomp_does_not_depend_on_the_split():
    """Specimens A, B, C of the paper's table: p-hat(root) is 0 for either split, p-tilde(root) is 1/18 or -1/18."""
    X, y = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([0.0, 1.0, -1.0])
    for column, sign in ((0, 1), (1, -1)):
        only = X.copy()
        only[:, 1 - column] = 0.0  # leaves one of the two equally good splits
        params = {"eta": 1.0, "max_depth": 1, "reg_lambda": 1.0, "min_child_weight": 0, "base_score": 0.0}
        tree = train(only, y, rounds=1, **params)
        root, left, right = 0, tree.left[0], tree.right[0]
        # 6e-8: leaf values are float32
        assert tree.node_value[[left, right], 0] == pytest.approx([sign / 3, -sign / 2], abs=6e-8)
        assert tree.node_value[root, 0] == pytest.approx(0.0, abs=6e-8)
        assert tree.mean_value[root, 0] == pytest.approx(sign / 18, abs=6e-8)


@pytest.mark.parametrize("lam", [0.0, 10.0])
def test_s6_the_two_node_values_agree_without_l2_only(lam):
    X, y, _ = draw(0, 300)
    model = train(X, y, reg_lambda=lam)
    difference = np.abs(model.node_value - model.mean_value).max()
    assert difference < 1e-6 if lam == 0 else difference > 1e-2  # float32 leaf values of order 1


# -- Proposition 1: local accuracy ---------------------------------------------------------------------------
def test_attributions_of_a_tree_add_up_to_its_value_less_its_root():
    X, y, _ = draw(1, 300)
    model = train(X, y, reg_lambda=3.0)
    for tree, margin in trees_and_margins(model, X):
        G = margin - y
        root = -0.3 * G.sum() / (len(y) + 3.0)
        # XGBoost sums float32 gradients: 1e-6 of values of order 1
        assert tree.node_value[0, 0] == pytest.approx(root, abs=1e-6)
        np.testing.assert_allclose(
            path_values(tree, X).sum(axis=1) + tree.node_value[0, 0], tree.predict(X) - tree.base_score[0], atol=1e-12
        )


# -- Proposition 2: additive models are recovered ------------------------------------------------------------
def additive(rng, n):
    """Independent features; h_k has mean 0 under the uniform distribution."""
    X = rng.random((n, 4))
    h = [np.sin(2 * np.pi * X[:, 0]), 2 * X[:, 1] - 1, 6 * (X[:, 2] - 0.5) ** 2 - 0.5, np.zeros(n)]
    return X, np.stack(h, axis=1)


def error_of_components(n, rounds):
    """Mean squared error of centred PreDecomp against h_k on fresh rows: (features,)."""
    rng = np.random.default_rng(2)
    X, h = additive(rng, n)
    y = h.sum(axis=1) + rng.normal(size=n)
    params = {"learning_rate": 0.1, "max_depth": 3, "num_leaves": 8, "num_threads": 1, "verbose": -1, "seed": 1}
    model = lgb.train(params | {"lambda_l2": 1.0, "deterministic": True}, lgb.Dataset(X, y - y.mean()), rounds)
    fresh, truth = additive(rng, 4000)
    values = ti.attribute(model, fresh, n_jobs=1).values
    return ((values - values.mean(axis=0) - truth) ** 2).mean(axis=0)


def test_proposition_2_the_error_falls_as_rows_and_trees_grow():
    by_rows = [error_of_components(n, 100).sum() for n in (500, 4000, 32_000)]
    by_trees = [error_of_components(32_000, rounds).sum() for rounds in (10, 30, 100)]
    for errors in (by_rows, by_trees):
        assert all(b < a / 2 for a, b in pairwise(errors)), errors
    # the three components have variances 1/2, 1/3 and 1/5: 1.05 % of their sum is left
    assert by_rows[-1] < 0.02 * (1 / 2 + 1 / 3 + 1 / 5)


# -- Proposition 3 with l1: the gain of a split, and what the score charges a row ----------------------------
def l1_model(loss, alpha, n=400):
    X, y, label = draw(3, n)
    objective, y = ("reg:squarederror", y) if loss == "squared error" else ("binary:logistic", label)
    # min_child_weight 0: a node of little hessian would else have its weight set to 0
    model = train(X, y, rounds=6, objective=objective, reg_alpha=alpha, min_child_weight=0)
    return model, X, y


def derivatives(loss, y, margin):
    """Return gradients and hessians of all rows."""
    if loss == "squared error":
        return margin - y, np.ones_like(margin)
    p = logistic(margin)
    return p - y, p * (1 - p)


@pytest.mark.parametrize(("loss", "alpha"), [("squared error", 5), ("squared error", 50), ("logistic", 5)])
def test_l1_gain_of_a_split_is_its_inner_product_and_a_term_without_data(loss, alpha):
    """worth(t) = -(w G + alpha |w|), gain = worth(left) + worth(right) - worth(t), for every split of every tree."""
    model, X, y = l1_model(loss, alpha)
    n_splits = 0
    for tree, margin in trees_and_margins(model, X):
        G, _ = derivatives(loss, y, margin)
        at_leaf = np.bincount(tree.apply(X, n_jobs=1)[:, 0], G, minlength=tree.leaf_id.max() + 1)
        node_sum = np.where(tree.leaf_id >= 0, at_leaf[tree.leaf_id], 0.0)
        for node, left, right in tree.upwards:
            node_sum[node] = node_sum[left] + node_sum[right]
        w = tree.node_value[:, 0] / 0.3
        worth = -(w * node_sum + alpha * np.abs(w))
        inner = np.flatnonzero(tree.feature >= 0)
        gain = worth[tree.left[inner]] + worth[tree.right[inner]] - worth[inner]
        # 2e-6 of the largest worth: float32 sums and gains, and a split's gain is a difference of worths
        np.testing.assert_allclose(gain, tree.gain[inner], atol=2e-6 * max(np.abs(worth).max(), 1.0))
        n_splits += len(inner)
    assert n_splits > (3 if alpha == 50 else 20)


@pytest.mark.parametrize(("loss", "alpha"), [("squared error", 5), ("squared error", 50), ("logistic", 5)])
def test_l1_score_charges_every_row_its_share_by_hessian(loss, alpha):
    """On any rows: inner product minus, per tree, (sum of H / H of the root) times alpha (|w_l| + |w_r| - |w|)."""
    model, _, _ = l1_model(loss, alpha)
    X, y, label = draw(4, 150)
    y = y if loss == "squared error" else label
    expected = np.zeros(COLUMNS)
    for tree, margin in trees_and_margins(model, X):
        G, H = derivatives(loss, y, margin)
        expected += -(path_values(tree, X) / 0.3 * G[:, None]).sum(axis=0)
        size, inner = np.abs(tree.node_value[:, 0]) / 0.3, np.flatnonzero(tree.feature >= 0)
        cost = alpha * (size[tree.left[inner]] + size[tree.right[inner]] - size[inner])
        np.subtract.at(expected, tree.feature[inner], cost * H.sum() / tree.cover[0])
    imp = ti.importance(model, X, y, method="predecomp", n_jobs=1)
    # sums of a few thousand terms in double precision, held to 2^-32 of the largest leaf
    np.testing.assert_allclose(imp.gains, expected, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(imp.scores, expected * 0.3 / len(X), rtol=1e-9, atol=1e-9)


# -- Remark 1 ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("loss", ["squared error", "logistic"])
def test_remark_1_without_l2_attributions_sum_to_zero_in_sample(loss):
    """Sum over the training rows of H f_{m,k} is 0 for every tree and feature; with l2 it is not."""
    X, y, label = draw(5, 400)
    objective, y = ("reg:squarederror", y) if loss == "squared error" else ("binary:logistic", label)
    sums = {}
    for lam in (0.0, 10.0):
        model = train(X, y, objective=objective, reg_lambda=lam, min_child_weight=5)
        sums[lam] = [
            (derivatives(loss, y, margin)[1][:, None] * path_values(tree, X)).sum(axis=0)
            for tree, margin in trees_and_margins(model, X)
        ]
    assert np.abs(sums[0.0]).max() < 1e-4  # 400 terms of order 0.5, each with a float32 leaf value
    assert np.abs(sums[10.0]).max() > 0.1


# -- ForestInner and Section S7 ------------------------------------------------------------------------------
def test_the_two_lines_of_forest_inner_are_not_equal():
    X, y, _ = draw(6, 400)
    model = train(X, y)
    first = ti.importance(model, X, y, score="forest_inner", method="predecomp", n_jobs=1).scores
    second = ti.importance(model, X, y, score="forest_inner", against="label", method="predecomp", n_jobs=1).scores
    assert np.abs(first / first.sum() - second / second.sum()).max() > 0.01
    # by hand: (sum of attributions) times (sum over the trees of the residuals), or times the label
    values = sum(path_values(tree, X) for tree, _ in trees_and_margins(model, X))
    residuals = sum(y - margin for _, margin in trees_and_margins(model, X))
    np.testing.assert_allclose(first, (values * residuals[:, None]).mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(second, (values * y[:, None]).mean(axis=0), rtol=1e-9)


def noise_shares(n, replications=8):
    """Score of all noise features relative to that of all signal features, by replication: name -> (replications,)."""
    ways = {
        "total gain": ("train", {}),
        "forest_inner, training rows": ("train", {"score": "forest_inner"}),
        "label, training rows": ("train", {"score": "forest_inner", "against": "label"}),
        "forest_inner, held-out rows": ("valid", {"score": "forest_inner"}),
        "label, held-out rows": ("valid", {"score": "forest_inner", "against": "label"}),
    }
    shares = {way: [] for way in ways}
    for replication in range(replications):
        rng = np.random.default_rng([7, n, replication])
        X = rng.random((n + 4000, 8))
        X[:, 4:] = np.floor(X[:, 4:] * [4, 16, 64, 256])  # noise of growing cardinality; column 3 is noise, too
        y = np.sin(4 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] - 1 + rng.normal(size=len(X))
        params = {"learning_rate": 0.1, "max_depth": 4, "num_leaves": 12, "num_threads": 1, "verbose": -1, "seed": 1}
        model = ti.read_model(
            lgb.train(params | {"max_bin": 63, "lambda_l2": 1.0}, lgb.Dataset(X[:n], y[:n]), 40)
        ).ensemble
        rows = {"train": (X[:n], y[:n]), "valid": (X[n:], y[n:])}
        for way, (side, how) in ways.items():
            scores = ti.importance(model, *rows[side], method="predecomp", std_errors=False, n_jobs=1, **how).scores
            shares[way].append(scores[3:].sum() / scores[:3].sum())
    return {way: np.array(values) for way, values in shares.items()}


def test_s7_noise_features_in_forest_inner():
    """What is measured: (sum over the noise features) / (sum over the signal features), mean of 8 replications.

    Training rows: positive for all of total gain and both forms of forest_inner, and falling as the training sample
    grows: unbiased in the limit, biased for every finite sample. Held-out rows, times the label: compatible with 0.
    Held-out rows, times the residuals: negative in small samples, where the residuals hold what the feature itself
    spoiled.
    """
    sizes = (300, 3000, 12_000)
    shares = {n: noise_shares(n) for n in sizes}
    mean = {n: {way: values.mean() for way, values in shares[n].items()} for n in sizes}
    error = {n: {way: v.std(ddof=1) / np.sqrt(len(v)) for way, v in shares[n].items()} for n in sizes}
    for way in ("total gain", "forest_inner, training rows", "label, training rows"):
        for n, more in pairwise(sizes):
            assert mean[n][way] > 10 * error[n][way]  # clearly biased
            assert mean[more][way] < mean[n][way] / 2
    way = "label, held-out rows"
    for n in sizes[1:]:
        # 4 standard errors: two comparisons, t with 7 degrees of freedom
        assert abs(mean[n][way]) < 4 * error[n][way]
        assert abs(mean[n][way]) < 0.1 * mean[n]["total gain"]
    way = "forest_inner, held-out rows"
    assert mean[3000][way] < -4 * error[3000][way]
    assert mean[3000][way] < mean[12_000][way] < 0.01


# -- Related work: out-of-bag scores of forests -----------------------------------------------------------------------
def unbiased_feature_importance(forest, X, y):
    """UFI of Zhou and Hooker: the Gini gain with products of in-bag and out-of-bag class shares, mean over trees."""
    out = np.zeros(X.shape[1])
    for tree, drawn in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        fresh = np.setdiff1d(np.arange(len(X)), drawn)
        in_bag, out_of_bag = (tree.decision_path(X[rows].astype(np.float32)).toarray().T for rows in (drawn, fresh))
        count = out_of_bag.sum(axis=1)
        p, q = in_bag @ y[drawn] / in_bag.sum(axis=1), out_of_bag @ y[fresh] / np.maximum(count, 1)
        impurity = 1 - p * q - (1 - p) * (1 - q)
        t = tree.tree_
        split = np.flatnonzero(t.children_left >= 0)
        left, right = t.children_left[split], t.children_right[split]
        gain = count[split] * impurity[split] - count[left] * impurity[left] - count[right] * impurity[right]
        np.add.at(out, t.feature[split], gain / len(fresh))
    return out / len(forest.estimators_)


def test_oob_score_is_ufi_and_mdi_oob():
    X, _, label = draw(8, 300)
    forest = RandomForestClassifier(20, max_depth=4, random_state=0, n_jobs=1).fit(X, label)
    imp = ti.importance(forest, X, label, oob=True, method="saabas", n_jobs=1)
    np.testing.assert_allclose(imp.scores, unbiased_feature_importance(forest, X, label), rtol=1e-8, atol=1e-10)
