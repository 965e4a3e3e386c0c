"""The scikit-learn reader against the library's own margins, leaves and gains."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import ensemble as ske
from sklearn import tree as skt
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.linear_model import LinearRegression

from treeinner.errors import DataError, UnsupportedModelError
from treeinner.read.model import Told
from treeinner.read.sklearn import read

from .tables import leaves, margins

N = 300
rng = np.random.default_rng(7)
X = rng.normal(size=(N, 5))
SIGNAL = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * (X[:, 3] > 0)
WEIGHT = rng.uniform(0.2, 3.0, N)
Y = {
    "regression": SIGNAL + 0.5 * rng.normal(size=N),
    "binary": np.where(SIGNAL + rng.normal(size=N) > 0, "yes", "no"),
    "multi": np.digitize(SIGNAL + 0.5 * rng.normal(size=N), [-0.8, 0.8]) * 10,
    "count": rng.poisson(np.exp(0.4 * SIGNAL)).astype(float),
}
HOLES = np.where(rng.random(X.shape) < 0.1, np.nan, X)
# Levels as numbers that are no codes, in columns 1 and 3, some missing.
LEVELS = X.copy()
LEVELS[:, 1] = np.where(rng.random(N) < 0.1, np.nan, 7.0 * rng.integers(0, 9, N) - 7)
LEVELS[:, 3] = rng.integers(3, 7, N)


# -- HistGradientBoosting ------------------------------------------------------------------------------------
REG, CLS = ske.HistGradientBoostingRegressor, ske.HistGradientBoostingClassifier
HIST = {
    "weights": (REG(l2_regularization=5.0, monotonic_cst=[1, 0, 0, 1, -1]), "regression", X),
    "levels": (REG(categorical_features=[1, 3]), "regression", LEVELS),
    "deep": (REG(max_leaf_nodes=None, max_features=0.5), "regression", HOLES),
    "binary": (CLS(l2_regularization=1.0, categorical_features=[1, 3]), "binary", LEVELS),
    "multi": (CLS(class_weight={0: 1.0, 1: 3.0, 2: 0.5}), "multi", X),
    "poisson": (REG(loss="poisson"), "count", X),
    "absolute": (REG(loss="absolute_error"), "regression", X),
    "quantile": (REG(loss="quantile", quantile=0.8), "regression", X),
}


def fit_hist(name):
    (model, target, data), weight = HIST[name], WEIGHT if name == "weights" else None
    return model.set_params(max_iter=8, min_samples_leaf=5, random_state=0).fit(data, Y[target], weight), data


def encoded(model, data):
    """What the trees of a HistGradientBoosting see, in the user's column order; levels are codes."""
    inside, flags = model._preprocess_X(data, reset=False), model.is_categorical_
    return inside if flags is None else inside[:, np.argsort(np.argsort(~flags, kind="stable"))]


def hist_leaves(model, data):
    """Leaf of each row in each tree: the library's own walk, with node numbers in the place of values."""
    inside = model._preprocess_X(data, reset=False)
    bitsets = model._bin_mapper.make_known_categories_bitsets()
    out = []
    for own in (p for stage in model._predictors for p in stage):
        nodes = own.nodes.copy()
        nodes["value"] = np.arange(len(nodes))
        numbered = TreePredictor(nodes, own.binned_left_cat_bitsets, own.raw_left_cat_bitsets)
        out.append(numbered.predict(inside, *bitsets, 1).astype(int))
    return np.array(out).T


@pytest.mark.parametrize("name", HIST)
def test_hist_margins_and_leaves_are_the_librarys(name):
    model, data = fit_hist(name)
    found, seen = read(model, Told()), encoded(model, data)
    assert np.array_equal(leaves(found, seen), hist_leaves(model, data))
    # Both add the same float64 numbers, in the same order up to the base score.
    np.testing.assert_allclose(margins(found, seen), model._raw_predict(data), rtol=1e-13, atol=1e-13)
    assert (found.n_rounds, found.n_outputs) == (model.n_iter_, model.n_trees_per_iteration_)
    known = found.trees.known
    assert (known.value is None) == bool(known.refusal) == (name in ("absolute", "quantile"))
    assert np.all(known.rate == 0.1)


@pytest.mark.parametrize("name", [name for name in HIST if name not in ("absolute", "quantile")])
def test_hist_nodes_as_stored_give_the_stored_gain(name):
    """Proposition 3 on the training rows, with roots of value 0: the inner product of each feature is its gain."""
    model, data = fit_hist(name)
    trees = read(model, Told()).trees
    at, margin = hist_leaves(model, data), np.tile(trees.base, (N, 1))
    y = Y[HIST[name][1]]
    y = np.searchsorted(model.classes_, y).astype(float) if hasattr(model, "classes_") else y
    weight = WEIGHT if name == "weights" else np.array([1.0, 3.0, 0.5])[y.astype(int)] if name == "multi" else None
    scores, gains = np.zeros(5), np.zeros(5)
    for tree in range(trees.n_trees):
        output, nodes = trees.output[tree], slice(trees.start[tree], trees.start[tree + 1])
        if output == 0:
            raw = margin[:, 0] if margin.shape[1] == 1 else margin
            gradient = model._loss.gradient_hessian(y_true=y, raw_prediction=raw, sample_weight=weight)[0]
            gradient = np.float32(gradient).reshape(N, -1).astype(float)  # the library holds it in float32
        total = np.bincount(at[:, tree], gradient[:, output], nodes.stop - nodes.start)
        for node in range(nodes.stop - 1, nodes.start - 1, -1):
            for child in (trees.left[node], trees.right[node]):
                if child >= 0:
                    total[node - nodes.start] += total[child - nodes.start]
                    step = trees.known.value[child, 0] - trees.known.value[node, 0]
                    scores[trees.column[node]] -= step * total[child - nodes.start] / model.learning_rate
        gains += np.bincount(np.maximum(trees.column[nodes], 0), trees.gain[nodes], 5)
        margin[:, output] += trees.value[nodes.start + at[:, tree], 0]
    assert np.abs(scores - gains).max() <= 1e-7 * gains.max()  # sums of float32 in the library


@pytest.mark.parametrize("settings", [{}, {"l2_regularization": 3.0}])
def test_rates_of_hist_that_changed_are_asked_for(settings):
    """Leaves alone are shrunk: what set_params or a warm start makes of the estimator's rate changes no tree."""
    model = REG(max_iter=5, early_stopping=False, warm_start=True, **settings).fit(X, Y["regression"])
    before = read(model, Told()).trees.known
    model.set_params(max_iter=6, learning_rate=0.5).fit(X, Y["regression"])
    assert read(model, Told()).trees.known.needs == ("learning_rate",)
    after = read(model, Told(learning_rate=(0.1,) * 5 + (0.5,))).trees.known
    np.testing.assert_allclose(after.value[: len(before.value)], before.value, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="learning_rate has 2 numbers"):
        read(model, Told(learning_rate=(0.1, 0.2)))


def test_a_rate_of_hist_that_nothing_shows_is_asked_for():
    classes = CLS(max_iter=3, warm_start=True).fit(X, Y["binary"])
    changed = REG(max_iter=3).fit(X, Y["regression"]).set_params(l2_regularization=50.0)
    for model in (classes, changed):
        known = read(model, Told()).trees.known
        assert (known.value, known.needs) == (None, ("learning_rate",))
        assert read(model, Told(learning_rate=0.1)).trees.known.value is not None


@pytest.mark.parametrize("kind", ["pandas category", "pandas object", "polars"])
def test_hist_frames_with_text_levels(kind):
    letters = np.array(["pear", "fig", "apple", None], dtype=object)[rng.integers(0, 4, N)]
    frame = pd.DataFrame({"x": X[:, 0], "c": pd.Series(letters, dtype=object), "z": X[:, 2]})
    if kind == "pandas category":
        frame = frame.astype({"c": "category"})
    elif kind == "polars":
        frame = pl.DataFrame({"x": X[:, 0], "c": list(letters), "z": X[:, 2]}).cast({"c": pl.Categorical})
    y = X[:, 0] + np.array([{"fig": 2.0, None: 3.0}.get(v, 0.0) for v in letters])
    model = REG(max_iter=6, min_samples_leaf=5, categorical_features=["c"]).fit(frame, y)
    found = read(model, Told())
    assert found.feature_names == found.schema.names == ("x", "c", "z")
    assert found.schema.levels == (None, ("apple", "fig", "pear"), None)
    codes = [np.nan if v is None else float(found.schema.levels[1].index(v)) for v in letters]
    assert np.array_equal(leaves(found, np.column_stack([X[:, 0], codes, X[:, 2]])), hist_leaves(model, frame))
    # scikit-learn takes None for a level and NaN for missing: where they part, unseen levels are refused.
    assert found.schema.unseen == ("missing" if kind == "pandas category" else "error")


def test_hist_refuses_both_none_and_nan():
    column = np.array([["a"], ["b"], [None], [np.nan]] * 20, dtype=object)
    model = REG(max_iter=2, categorical_features=[0]).fit(column, np.arange(80.0))
    with pytest.raises(UnsupportedModelError, match="both None"):
        read(model, Told())


def test_hist_unseen_levels_and_infinite_thresholds():
    model, _ = fit_hist("levels")
    strange = np.where(np.arange(5) == 1, 1000.0, LEVELS)  # in no training row
    assert np.array_equal(leaves(read(model, Told()), encoded(model, strange)), hist_leaves(model, strange))
    data = np.where(rng.random((N, 1)) < 0.3, np.nan, 1.0)  # only "missing or not" tells anything
    model = REG(max_iter=2).fit(data, np.isnan(data[:, 0]).astype(float))
    rows = np.array([[1.0], [np.nan], [np.inf], [-np.inf]])
    found = read(model, Told())
    np.testing.assert_allclose(margins(found, rows)[:, 0], model.predict(rows), rtol=1e-13)


# -- GradientBoosting, trees and forests ------------------------------------------------------------------------
GBR, GBC = ske.GradientBoostingRegressor, ske.GradientBoostingClassifier
BOOSTED = {
    "plain": (GBR(init="zero", subsample=0.5), "regression"),
    "huber": (GBR(loss="huber", alpha=0.8), "regression"),
    "binary": (GBC(max_depth=2), "binary"),
    "multi": (GBC(max_leaf_nodes=5), "multi"),
}


@pytest.mark.parametrize("name", BOOSTED)
def test_boosted_margins_and_leaves_are_the_librarys(name):
    model, target = BOOSTED[name]
    model.set_params(n_estimators=8, random_state=0).fit(X, Y[target], sample_weight=WEIGHT)
    found = read(model, Told())
    assert np.array_equal(leaves(found, X), model.apply(X).reshape(N, -1))
    staged = list(model._staged_raw_predict(X.astype(np.float32)))
    np.testing.assert_allclose(margins(found, X), staged[-1], rtol=1e-12, atol=1e-13)  # the same sums, other order
    cut = read(model, Told(iteration_range=(0, 3)))
    np.testing.assert_allclose(margins(cut, X), staged[2], rtol=1e-12, atol=1e-13)
    known = found.trees.known
    assert (known.value is None) == bool(known.refusal) == (name != "plain")


TWO = np.column_stack([Y["regression"], Y["count"]])
TWO_CLASSES = np.column_stack([Y["multi"], (Y["binary"] == "yes").astype(int)])
AVERAGED = {
    "tree": (skt.DecisionTreeRegressor(max_depth=5), HOLES, Y["regression"], None),
    "tree classes": (skt.DecisionTreeClassifier(max_depth=6), HOLES, Y["binary"], ("no", "yes")),
    "extra tree": (skt.ExtraTreeRegressor(criterion="absolute_error"), X, Y["regression"], None),
    "targets": (ske.RandomForestRegressor(n_estimators=4), X, TWO, None),
    "classes": (ske.ExtraTreesClassifier(n_estimators=6, criterion="entropy"), X, Y["multi"], ("0", "10", "20")),
    "target classes": (ske.RandomForestClassifier(4), X, TWO_CLASSES, ("0=0", "0=10", "0=20", "1=0", "1=1")),
}


@pytest.mark.parametrize("name", AVERAGED)
def test_averaged_margins_leaves_and_nodes_are_the_librarys(name):
    model, data, y, names = AVERAGED[name]
    model.set_params(random_state=0).fit(data, y, sample_weight=WEIGHT)
    found = read(model, Told())
    truth = model.predict_proba(data) if hasattr(model, "classes_") else model.predict(data)
    truth = np.concatenate(truth, axis=1) if isinstance(truth, list) else truth.reshape(N, -1)
    np.testing.assert_allclose(margins(found, data), truth, rtol=0, atol=1e-14 * np.abs(truth).max())
    assert np.array_equal(leaves(found, data), model.apply(data).reshape(N, -1))
    trees = [t.tree_ for t in getattr(model, "estimators_", [model])]
    sizes = np.atleast_1d(model.n_classes_) if hasattr(model, "classes_") else [1] * model.n_outputs_
    stored = np.concatenate([tree.value for tree in trees])
    stored = np.concatenate([stored[:, j, :k] for j, k in enumerate(sizes)], axis=1)
    np.testing.assert_allclose(found.trees.known.value * len(trees), stored, rtol=1e-15)  # divided and multiplied again
    # A tree's own importances are its normalised gains.
    stop = found.trees.start[1]
    gain = np.bincount(np.maximum(found.trees.column[:stop], 0), found.trees.gain[:stop], 5)
    np.testing.assert_allclose(gain / gain.sum(), trees[0].compute_feature_importances(), rtol=1e-9, atol=1e-12)
    assert (found.trees.averaged, found.n_rounds, found.output_names) == (True, 1, names)
    assert (found.classes == [[0, 10, 20], [0, 1]]) == (name == "target classes")


# -- what every kind shares --------------------------------------------------------------------------------------
def test_class_weights_are_by_label_and_foreign_parameters_are_refused():
    assert read(fit_hist("multi")[0], Told()).class_weight == {0: 1.0, 10: 3.0, 20: 0.5}  # hist looks codes up
    forest = ske.RandomForestClassifier(n_estimators=2, class_weight={"no": 1.0, "yes": 2.0}).fit(X, Y["binary"])
    assert read(forest, Told()).class_weight == {"no": 1.0, "yes": 2.0}
    with pytest.raises(ValueError, match="learning_rate was given"):
        read(forest, Told(learning_rate=0.1))
    with pytest.raises(ValueError, match="reg_lambda was given"):
        read(GBR(n_estimators=2).fit(X, Y["regression"]), Told(reg_lambda=1.0))
    for model in (LinearRegression(), GBR(n_estimators=2, init=LinearRegression())):
        with pytest.raises(UnsupportedModelError, match="LinearRegression"):
            read(model.fit(X, Y["regression"]), Told())


class Balanced(ske.RandomForestClassifier):
    """As imblearn's forest: every tree is grown on rows that a sampler drew, some of them twice."""

    def fit(self, X, y):
        super().fit(X, y)
        del self._n_samples
        draws = [np.random.default_rng(seed).integers(0, len(X), 120) for seed in range(self.n_estimators)]
        self.samplers_ = [SimpleNamespace(sample_indices_=draw) for draw in draws]
        self.estimators_ = [skt.DecisionTreeClassifier(max_depth=4).fit(X[draw], y[draw]) for draw in draws]
        return self


@pytest.mark.parametrize("kind", [ske.RandomForestClassifier, Balanced])
@pytest.mark.parametrize("seed", range(5))
def test_out_of_bag_rows_are_those_that_a_tree_did_not_see_in_training_order(kind, seed):
    model = kind(n_estimators=8, max_depth=4, random_state=seed).fit(X, TWO_CLASSES[:, 1])
    found = read(model, Told())
    unseen = found.out_of_bag(X, None)
    drawn = [s.sample_indices_ for s in model.samplers_] if kind is Balanced else model.estimators_samples_
    assert all(set(np.flatnonzero(~row)) == set(rows) for row, rows in zip(unseen, drawn, strict=True))
    order = np.random.default_rng(seed).permutation(N)
    with pytest.raises(UnsupportedModelError, match="bootstrap=False"):
        read(ske.ExtraTreesClassifier(n_estimators=2).fit(X, TWO[:, 1]), Told()).out_of_bag(X, None)
    for rows in (X[order], X[::-1], X[:-20], np.random.default_rng(seed).normal(size=X.shape)):
        with pytest.raises(DataError, match="training order"):
            found.out_of_bag(rows, None)
