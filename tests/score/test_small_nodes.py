"""What chance adds to the scores of a forest's small nodes: row by row, and on noise."""

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor

import treeinner as ti

rng = np.random.default_rng(4)
X = rng.normal(size=(200, 5)).astype(np.float32)
Y = np.stack([X[:, 0] + np.abs(X[:, 1]) + 0.5 * rng.normal(size=200), X[:, 2] ** 2], axis=1)
CLASS = np.digitize(Y[:, 0], [0, 1])
TRAIN, TEST = slice(120, None), slice(120)
WEIGHT = rng.choice([0.0, 0.3, 1.0, 2.5], 120)


def scores_without_own_row(forest, X, target, weight, counts=None):
    """TreeInner's sums if a row does not count in the mean of its own child, split by split: (features, outputs).

    target: (rows, outputs); counts: (trees, rows) what a row counts for in a tree. Leaving every row out of its mean
    takes the covariance of leaf values and targets in the child, once.
    """
    out = np.zeros((X.shape[1], target.shape[1]))
    for t, estimator in enumerate(forest.estimators_):
        tree, path = estimator.tree_, estimator.decision_path(X).toarray().astype(bool)
        count = np.ones(len(X)) if counts is None else counts[t]
        w, one = weight * count, (weight @ weight) / weight.sum() * count.max()
        value = tree.value.reshape(tree.node_count, -1)[estimator.apply(X)]
        value = value / (len(forest.estimators_) * (value.sum(axis=1, keepdims=True) if tree.max_n_classes > 1 else 1))
        for v in np.flatnonzero(tree.children_left >= 0):
            children = [tree.children_left[v], tree.children_right[v]]
            rows = [path[:, u] & (w > 0) for u in children]
            size = [w[i].sum() for i in rows]
            if min(size) == 0:
                continue
            c, g = ([np.average(each[i], axis=0, weights=w[i]) for i in rows] for each in (value, target))
            gained = (c[0] - c[1]) * (g[0] - g[1]) * size[0] * size[1] / sum(size)
            for k, i in enumerate(rows):
                if tree.children_left[children[k]] < 0:
                    continue
                if size[k] <= 1.5 * one:  # one row has no covariance
                    gained = 0.0
                    break
                own = (w[i, None] * (value[i] - c[k]) * (target[i] - g[k])).sum(axis=0) / (size[k] - one)
                gained = gained - size[1 - k] / sum(size) * own * one
            out[tree.feature[v]] += gained
    return out


FORESTS = {
    "regression": (RandomForestRegressor, Y[:, 0], Y[:, :1]),
    "extra trees": (ExtraTreesRegressor, Y[:, 0], Y[:, :1]),
    "several targets": (RandomForestRegressor, Y, Y),
    "classes": (RandomForestClassifier, CLASS, np.eye(3)[CLASS]),
}


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weights"])
@pytest.mark.parametrize("name", FORESTS)
def test_no_row_counts_in_its_own_node_mean(name, weight):
    kind, y, target = FORESTS[name]
    forest = kind(7, random_state=0, max_leaf_nodes=30).fit(X[TRAIN], y[TRAIN])
    asked = {"X": X[TEST], "y": y[TEST], "sample_weight": weight}
    found = ti.importance(forest, **asked)
    w = np.ones(120) if weight is None else weight
    expected = scores_without_own_row(forest, X[TEST], target[TEST], w) / w.sum()
    np.testing.assert_allclose(found.scores, expected.sum(axis=1), rtol=1e-7, atol=1e-10)  # gradients in 32 bits
    if target.shape[1] > 1:
        np.testing.assert_allclose(found.outputs.score, expected, rtol=1e-7, atol=1e-10)
    paper = ti.importance(forest, **asked, score="tree_inner")
    assert np.abs(paper.scores - found.scores).max() > 1e-3 * np.abs(paper.scores).max()
    both = ti.importance(forest, **asked, feature_groups={"both": [0, 3]})
    np.testing.assert_allclose(both["both"].score, expected[[0, 3]].sum(), rtol=1e-7, atol=1e-10)


def test_out_of_bag_rows_are_counted_as_rows():
    y = Y[:, 0]
    forest = RandomForestRegressor(7, random_state=0).fit(X, y)
    model = ti.read_model(forest)
    unseen = model.out_of_bag(X, y).astype(float)
    counts = unseen * (200 / unseen.sum(axis=1, keepdims=True))
    expected = scores_without_own_row(forest, X, Y[:, :1], np.ones(200), counts)[:, 0] / 200
    np.testing.assert_allclose(ti.importance(forest, X, y, oob=True).scores, expected, rtol=1e-7, atol=1e-10)


def test_noise_in_small_nodes_looks_like_noise():
    """Extra trees of 256 leaves, 200 rows: TreeInner finds noise in a tenth of the cases, one-sided at .05."""
    below = {"tree_inner": [], "signal": []}
    for draw in range(40):
        rng = np.random.default_rng(draw)
        data = rng.normal(size=(1200, 16))
        y = data[:, :4] @ np.linspace(1, 0.5, 4) + 0.3 * rng.normal(size=1200)
        forest = ExtraTreesRegressor(16, max_leaf_nodes=256, max_features=0.33, random_state=draw)
        forest.fit(data[:1000], y[:1000])
        for score, found in below.items():
            imp = ti.importance(forest, data[1000:], y[1000:], score=score, n_jobs=1)
            found.extend(student.sf(imp.scores[4:] / imp.std_errors[4:], imp.df[4:]) < 0.05)
    assert np.mean(below["tree_inner"]) > 0.09
    assert np.mean(below["signal"]) < 0.06
