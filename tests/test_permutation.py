"""Permutation importance: scikit-learn's numbers for the same random_state, and brute force where it has none."""

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from scipy import sparse, stats
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.inspection import permutation_importance
from sklearn.metrics import log_loss, mean_squared_error

import treeinner as ti
from treeinner.compiled import task_rows
from treeinner.errors import DataError, UnsupportedModelError
from treeinner.tables import read_table

from .forests import Recipe, make_ensemble, make_rows

N = 150


def table(seed=0):
    """Numbers with holes, one column that nothing depends on, and a column of categories."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(N, 4)), columns=["a", "b", "c", "noise"])
    X.loc[rng.random(N) < 0.2, "b"] = np.nan
    X["colour"] = pd.Categorical(rng.choice(["red", "green", "blue"], N))
    X.loc[rng.random(N) < 0.1, "colour"] = np.nan
    signal = X["a"] + X["b"].fillna(1.5) * X["c"] + 2.0 * (X["colour"] == "red")
    return X, (signal + rng.normal(size=N)).to_numpy()


def fitted(classes):
    X, y = table()
    options = {"max_iter": 12, "max_leaf_nodes": 6, "early_stopping": False, "min_samples_leaf": 5}
    options["categorical_features"] = "from_dtype"
    if classes == 0:
        return HistGradientBoostingRegressor(**options).fit(X, y), X, y
    y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    return HistGradientBoostingClassifier(**options).fit(X, y), X, y


def scoring(classes):
    """Minus the mean of the loss that the model was trained on."""
    if classes == 0:
        return lambda m, X, y, sample_weight=None: -mean_squared_error(y, m.predict(X), sample_weight=sample_weight) / 2
    return lambda m, X, y, sample_weight=None: -log_loss(y, m.predict_proba(X), sample_weight=sample_weight)


@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_scikit_learns_numbers(classes, weighted):
    model, X, y = fitted(classes)
    weight = np.random.default_rng(1).choice([0.0, 1.0, 2.5], N) if weighted else None
    own = permutation_importance(
        model, X, y, scoring=scoring(classes), n_repeats=4, random_state=7, sample_weight=weight
    )
    imp = ti.permutation_importance(model, X, y, n_repeats=4, random_state=7, sample_weight=weight)
    # Means of float64 losses near 1, taken in another order.
    np.testing.assert_allclose(imp.scores, own.importances_mean, rtol=0, atol=1e-10)
    assert np.any(own.importances_mean > 0.05)


def test_scikit_learns_number_of_scorers_by_name():
    model, X, y = fitted(2)
    own = permutation_importance(model, X, y, scoring="neg_log_loss", n_repeats=2, random_state=3)
    imp = ti.permutation_importance(model, X, y, n_repeats=2, random_state=np.random.RandomState(3))
    np.testing.assert_allclose(imp.scores, own.importances_mean, rtol=0, atol=1e-10)


def test_the_same_seed_gives_the_same_bits_and_another_one_others():
    model, X, y = fitted(0)
    a, b, c = (ti.permutation_importance(model, X, y, random_state=seed).scores for seed in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def orders(n_repeats, seed):
    """As scikit-learn shuffles: the rows of the column shuffled before, by an order shuffled before."""
    seeded = np.random.RandomState(np.random.RandomState(seed).randint(np.iinfo(np.int32).max + 1))
    step, order = np.arange(N), np.arange(N)
    for _ in range(n_repeats):
        seeded.shuffle(step)
        order = order[step]
        yield order


def brute_force(model, X, y, columns, n_repeats, seed):
    """Rise of every row's squared error / 2, mean over the repeats: (rows,)."""
    before = (model.predict(X) - y) ** 2 / 2
    rise = np.zeros(N)
    for order in orders(n_repeats, seed):
        shuffled = X.copy()
        for column in columns:
            shuffled[column] = X[column].array[order]
        rise += ((model.predict(shuffled) - y) ** 2 / 2 - before) / n_repeats
    return rise


def test_a_group_is_shuffled_as_one():
    model, X, y = fitted(0)
    imp = ti.permutation_importance(model, X, y, feature_groups={"pair": ["b", "colour"]}, n_repeats=3, random_state=0)
    assert imp.feature_names == ("a", "pair", "c", "noise")
    members = [["a"], ["b", "colour"], ["c"], ["noise"]]
    rises = np.stack([brute_force(model, X, y, columns, 3, 0) for columns in members], axis=1)
    np.testing.assert_allclose(imp.scores, rises.mean(axis=0), rtol=0, atol=1e-10)
    singles = ti.permutation_importance(model, X, y, n_repeats=3, random_state=0).scores
    assert abs(imp.scores[1] - singles[1] - singles[4]) * N > 1e-3  # not the sum of its members


def test_statistics_are_those_of_the_rows_rises():
    model, X, y = fitted(0)
    columns = list(X.columns)
    rises = np.stack([brute_force(model, X, y, [c], 2, 5) for c in columns], axis=1)
    imp = ti.permutation_importance(model, X, y, n_repeats=2, random_state=5, confidence=0.9)
    test = stats.ttest_1samp(rises, 0, alternative="greater")
    # Sums of squares of the rises cancel a little.
    np.testing.assert_allclose(imp.z, test.statistic, rtol=1e-6)
    df = np.maximum((rises**2).sum(axis=0) ** 2 / (rises**4).sum(axis=0) - 1, 1)  # effective rows
    np.testing.assert_allclose(imp.p_values, stats.t.sf(test.statistic, df), rtol=1e-5)
    np.testing.assert_allclose(imp.std_errors * N, np.sqrt(N) * rises.std(axis=0, ddof=1), rtol=1e-6)
    clusters, weight = np.arange(N) % 11, (np.arange(N) % 11 > 0).astype(float)
    sums = np.array([rises[clusters == c].sum(axis=0) for c in range(1, 11)])
    imp = ti.permutation_importance(model, X, y, n_repeats=2, random_state=5, clusters=clusters, sample_weight=weight)
    assert imp.statistics.n_units == 10  # the cluster without weight is not there
    np.testing.assert_allclose(imp.std_errors * weight.sum(), np.sqrt(10) * sums.std(axis=0, ddof=1), rtol=1e-6)


def test_a_feature_that_no_tree_uses_scores_exactly_zero():
    e = make_ensemble(Recipe(n_trees=3, depth=2, n_columns=30), 0)
    X = make_rows(e, 80, 1)
    imp = ti.permutation_importance(e, X, np.zeros(80), objective="squared_error", random_state=0)
    unused = np.setdiff1d(np.arange(30), e.feature)
    assert np.all(imp.scores[unused] == 0)
    assert np.all(imp.p_values[unused] == 1)
    assert np.any(imp.scores != 0)


def test_tables_of_other_kinds_give_the_same_bits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)) * (rng.random((200, 5)) < 0.5)
    y = X @ [1, 2, 0, 0, 1]
    model = RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, y)
    e = ti.read_model(model).ensemble
    options = {"random_state": 0, "objective": "squared_error"}
    dense = ti.permutation_importance(e, X, y, **options)
    for other in (sparse.csr_matrix(X), np.asfortranarray(X), pd.DataFrame(X)):
        assert np.array_equal(ti.permutation_importance(e, other, y, **options).scores, dense.scores)


def test_rows_in_several_tasks():
    """A column is shuffled over all rows, not within a task."""
    e = make_ensemble(Recipe(n_trees=4), 0)
    X = make_rows(e, 300, 1)
    y = np.random.default_rng(0).normal(size=300)
    options = {"objective": "squared_error", "random_state": 0}
    whole = ti.permutation_importance(e, X, y, **options)
    e.forest.task_rows = 64
    assert task_rows(e.forest, read_table(X, e.schema)) == 64
    cut = ti.permutation_importance(e, X, y, **options)
    # Only the order of float64 sums may differ.
    np.testing.assert_allclose(cut.scores, whole.scores, rtol=0, atol=1e-12 * np.abs(whole.scores).sum())


def test_base_margin_is_kept():
    X, y = table()
    X = X[["a", "b", "c"]]
    offset = np.linspace(-2, 2, N)
    model = xgb.XGBRegressor(n_estimators=5, n_jobs=1, base_score=0.0).fit(X, y, base_margin=offset)
    imp = ti.permutation_importance(model, X, y, n_repeats=1, random_state=0, base_margin=offset)
    before = (model.predict(X, base_margin=offset) - y) ** 2 / 2
    (order,) = orders(1, 0)
    for k, column in enumerate(X.columns):
        shuffled = X.copy()
        shuffled[column] = X[column].array[order]
        rise = (model.predict(shuffled, base_margin=offset) - y) ** 2 / 2 - before
        assert imp.scores[k] == pytest.approx(rise.mean(), abs=1e-6)  # float32 predictions


def test_what_permutation_cannot_do_is_refused():
    model, X, y = fitted(0)
    for n_repeats in (0, -1):
        with pytest.raises(ValueError, match="at least one shuffle"):
            ti.permutation_importance(model, X, y, n_repeats=n_repeats)
    with pytest.raises(UnsupportedModelError, match="a gradient only"):
        ti.permutation_importance(model, X, y, objective=lambda y, m: m - y)
    with pytest.raises(DataError, match="zero in every row"):
        ti.permutation_importance(model, X, y, sample_weight=np.zeros(N))
    with pytest.raises(DataError, match="no rows"):
        ti.permutation_importance(model, X[:0], y[:0])
    for objective in ("smooth_absolute_error", "survival:cox"):
        with pytest.raises(UnsupportedModelError, match="depends on other rows"):
            ti.permutation_importance(model, X, np.abs(y), objective=objective)
