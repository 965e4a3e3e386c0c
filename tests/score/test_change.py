"""compare() by its definition: the identity, node values of the first set, errors; two models by paired errors."""

from itertools import pairwise, product

import catboost as cb
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import log_loss, mean_squared_error

import treeinner as ti
from tests import oracle
from tests.cases import GRADIENTS, METHODS, loss_named
from tests.forests import Recipe, make_model, make_rows
from tests.losses.cases import CASES, loss_of, make
from tests.models import Models
from tests.score.test_breakdown import small_steps

N, K = 400, 5


def draw(seed, n=N, torn=False):
    """Rows of five columns, the first two of use; torn: the first is permuted after the target was made."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, K)).astype(np.float32)
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.7 * rng.normal(size=n)
    if torn:
        X[:, 0] = rng.permutation(X[:, 0])
    return X, y


def classes(X, y):
    """The same rows with three classes."""
    return X, np.digitize(y, [-0.7, 0.7])


def adds_up(c):
    """Harder, base and the changes are the rise of the loss, to 1e-12 of it."""
    losses = [each for imp in (c.before, c.after) for each in (imp.losses.before, imp.losses.after)]
    total = c.harder + c.base + c.change.score.sum()
    assert c.loss_after - c.loss_before == pytest.approx(total, rel=0, abs=1e-12 * max(map(abs, losses)))


# -- the identity ----------------------------------------------------------------------------------------------------
FITTED = Models(
    xgboost=lambda: xgb.XGBRegressor(n_estimators=15, max_depth=3, n_jobs=1).fit(*draw(0)),
    lightgbm=lambda: lgb.LGBMClassifier(n_estimators=8, num_leaves=6, verbose=-1, n_jobs=1).fit(*classes(*draw(0))),
    catboost=lambda: cb.CatBoostRegressor(iterations=15, depth=3, verbose=0, thread_count=1).fit(*draw(0)),
    histogram=lambda: HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=6).fit(*classes(*draw(0))),
    forest=lambda: RandomForestRegressor(8, max_depth=4, random_state=0).fit(*draw(0)),
    votes=lambda: RandomForestClassifier(8, max_depth=4, random_state=0).fit(*classes(*draw(0))),
)
METRICS = {
    "proba": lambda m, X, y, w: log_loss(y, m.predict_proba(X), sample_weight=w),
    "squared": lambda m, X, y, w: mean_squared_error(y, m.predict(X), sample_weight=w) / 2,
    "votes": lambda m, X, y, w: mean_squared_error(np.eye(3)[y], m.predict_proba(X), sample_weight=w) * 3 / 2,
}


@pytest.mark.parametrize("name", FITTED)
@pytest.mark.parametrize(("weighted", "method"), [*product([False, True], METHODS)])
def test_the_losses_are_the_librarys_and_their_rise_is_harder_base_and_the_changes(name, weighted, method):
    model, several = FITTED[name], name in ("lightgbm", "histogram", "votes")
    sides = [draw(1), draw(2, N + 50, torn=True)]
    sides = [classes(*side) for side in sides] if several else sides
    weights = [np.random.default_rng(7).gamma(2.0, size=len(y)) if weighted else None for _, y in sides]
    rows = (ti.Rows(*side, sample_weight=w) for side, w in zip(sides, weights, strict=True))
    c = ti.compare(model, *rows, method=method)
    metric = METRICS["votes" if name == "votes" else "proba" if several else "squared"]
    own = [metric(model, *side, w) for side, w in zip(sides, weights, strict=True)]
    np.testing.assert_allclose([c.loss_before, c.loss_after], own, rtol=1e-6)  # float32 margins
    adds_up(c)
    assert c.feature_names[c.order[0]] in ("f0", "0", "Column_0")
    assert c.verdicts[c.order[0]] == "worse"


@pytest.mark.parametrize("case", [c for c in CASES if loss_of(*c[:3], n_outputs=c[4]).scope == "row"],
                         ids=lambda c: f"{c[0]}-{c[1]}-{c[4]}")  # fmt: skip
def test_every_loss_adds_up(case):
    library, name, params, kind, n_outputs, _ = case
    trees = small_steps(Recipe(n_trees=6, depth=3, n_outputs=n_outputs), 3)
    model = make_model(trees, loss_of(library, name, params, n_outputs=n_outputs))
    sides = [(make_rows(trees, n, seed), make(kind, n, seed)[1]) for n, seed in ((60, 4), (50, 5))]
    adds_up(ti.compare(model, *sides, n_jobs=1))


# -- by the definition -----------------------------------------------------------------------------------------------
def shares(trees, X, residual, value, gap):
    """Row i's share, (rows, features, outputs): (c_u - c_v) g + gap_u (l - c_u) - gap_v (l - c_v) along its path."""
    out = np.zeros((len(X), trees.n_features, trees.n_outputs))
    for tree, i, nodes in oracle.paths(trees, X):
        outputs, leaf = oracle.outputs_of(trees, tree), trees.value[nodes[-1]]
        for v, u in pairwise(nodes):
            features, part = oracle.credited(trees, v)
            term = (value[u] - value[v]) * residual[trees.round[tree], i, outputs]
            term = term + gap[u] * (leaf - value[u]) - gap[v] * (leaf - value[v])
            out[i, features, outputs] += part * term
    return out


@pytest.mark.parametrize(("objective", "n_outputs"), [("squared_error", 1), ("logistic", 1), ("softmax", 3)])
def test_scores_and_errors_are_those_of_the_definition(objective, n_outputs):
    trees = small_steps(Recipe(n_trees=5, depth=4, n_outputs=n_outputs), 1)
    n, rng = (37, 90), np.random.default_rng(0)  # few rows before: some nodes are reached by `after` alone
    X = [make_rows(trees, size, seed) for size, seed in zip(n, (2, 3), strict=True)]
    y = [rng.integers(0, max(n_outputs, 2), size) for size in n]
    y = y if objective == "softmax" else [each.astype(float) for each in y]
    residual = [oracle.mean_residuals(trees, a, GRADIENTS[objective](b)) for a, b in zip(X, y, strict=True)]
    (reached, value, mean), (other, _, mean_b) = (oracle.node_means(trees, *s) for s in zip(X, residual, strict=True))
    for parent in np.flatnonzero(trees.column >= 0):  # children lie behind their parents
        for child in (trees.left[parent], trees.right[parent]):
            if reached[child].max() == 0:
                value[child] = value[parent] if trees.column[child] >= 0 else trees.value[child]
    assert ((reached == 0) & (other > 0) & (trees.column >= 0)[:, None]).any()
    gap = np.where(reached > 0, mean - n[0] / n[1] * mean_b * other / np.where(reached > 0, reached, 1), 0.0)
    found = ti.compare(make_model(trees, loss_named(objective, n_outputs)), *zip(X, y, strict=True))
    plain = [shares(trees, a, r, value, 0 * gap).sum(axis=2) for a, r in zip(X, residual, strict=True)]
    for imp, own in zip((found.before, found.after), plain, strict=True):
        np.testing.assert_allclose(imp.scores, own.mean(axis=0), rtol=1e-7, atol=1e-9)  # leaf sums
    with_gap = shares(trees, X[0], residual[0], value, gap).sum(axis=2)
    np.testing.assert_allclose(with_gap.mean(axis=0), plain[0].mean(axis=0), atol=1e-12)  # it moves no score
    error = np.sqrt(with_gap.var(axis=0, ddof=1) / n[0] + plain[1].var(axis=0, ddof=1) / n[1])
    np.testing.assert_allclose(found.change.std_error, error, rtol=1e-5)  # shares in float32
    t = found.change.score / np.where(error > 0, error, 1)
    np.testing.assert_allclose(found.change.p_value, 2 * stats.t.sf(np.abs(t), found.change.df), rtol=1e-3)
    np.testing.assert_array_equal(found.after.node_values, found.before.node_values)


@pytest.mark.parametrize("name", ["xgboost", "histogram", "forest"])
@pytest.mark.parametrize("method", METHODS)
def test_the_sides_are_those_of_importance_and_but_for_centred_the_errors_too(name, method):
    model, labels = FITTED[name], np.random.default_rng(0).integers(0, 90, N)
    sides = [classes(*draw(k)) if name == "histogram" else draw(k) for k in (1, 2)]
    c = ti.compare(model, *(ti.Rows(*side, clusters=labels) for side in sides), method=method)
    stored = method != "centred"  # node values; else those of the first side hold for both
    asked = {"score": "loss", "method": method}, {}
    imps = [ti.importance(model, *side, clusters=labels, **each) for side in sides for each in asked]
    for found, imp in zip((c.before, c.signal_before, c.after, c.signal_after), imps, strict=True):
        if stored or found is not c.after:
            np.testing.assert_array_equal(found.scores, imp.scores)
            np.testing.assert_array_equal(found.std_errors, imp.std_errors)
    assert (c.before.node_values is None) == (c.after.node_values is None) == stored
    # Of two independent samples.
    assert np.allclose(c.change.std_error, np.hypot(c.before.std_errors, c.after.std_errors), rtol=1e-12) == stored


# -- errors of many draws --------------------------------------------------------------------------------------------
def test_without_a_change_few_features_are_called_and_with_one_the_error_is_right():
    model, p, change, error = ti.read_model(FITTED["xgboost"]), [], [], []
    for seed in range(100, 180):
        p.append(ti.compare(model, draw(seed), draw(seed + 1000), n_jobs=1).change.p_value)
        torn = ti.compare(model, draw(seed, 200), draw(seed + 2000, 800, torn=True), n_jobs=1).change
        change.append(torn.score[0])
        error.append(torn.std_error[0])
    # 400 p values at .05 have an error of .011; docs/evidence/change.md has many more.
    assert 0.01 <= np.mean(np.array(p) < 0.05) <= 0.09
    # The sd of 80 numbers is known to 8 %. Over 200 draws it is 1.04, and 1.16 without the part of the node values.
    assert 0.85 <= np.std(change, ddof=1) / np.sqrt(np.mean(np.square(error))) <= 1.15


def test_rows_that_moved_and_rows_that_changed_have_errors_that_are_right():
    model, moved, changed, errors = ti.read_model(FITTED["xgboost"]), [], [], []
    for seed in range(300, 380):
        (X, y), (A, b) = draw(seed), draw(seed + 1000, torn=True)
        A[:, 1] += 0.7
        odds = stats.norm.pdf(X[:, 1], 0.7) / stats.norm.pdf(X[:, 1])
        c = ti.compare(model, (X, y), (A, b), split_shift=odds, n_jobs=1)
        np.testing.assert_allclose(c.moved.score + c.changed.score, c.change.score, rtol=1e-9, atol=1e-12)
        moved.append(c.moved.score)
        changed.append(c.changed.score)
        errors.append([c.moved.std_error, c.changed.std_error])
    assert c.effective_rows == pytest.approx(odds.sum() ** 2 / (odds**2).sum())
    ratio = np.std([moved, changed], axis=1, ddof=1) / np.sqrt(np.mean(np.square(errors), axis=0))
    assert np.all((ratio[:, :2] > 0.8) & (ratio[:, :2] < 1.2))  # the sd of 80 numbers is known to 8 %
    # A torn column has changed and not moved; a little moves with it, for the model's trees join it with the other.
    assert np.mean(changed, axis=0)[0] > 0.3 > 10 * abs(np.mean(moved, axis=0)[0])


def test_a_weight_is_a_cluster_of_equal_rows():
    model, (X, y), (A, b) = FITTED["xgboost"], draw(1), draw(2, torn=True)
    times = np.random.default_rng(0).integers(1, 4, N)
    c = ti.compare(model, ti.Rows(X, y, sample_weight=times), ti.Rows(A, b, sample_weight=np.ones(N)))
    again = np.repeat(np.arange(N), times)
    found = ti.compare(model, ti.Rows(X[again], y[again], clusters=again), (A, b))
    np.testing.assert_allclose(found.change.score, c.change.score, atol=1e-9)  # leaf sums
    np.testing.assert_allclose(found.change.std_error, c.change.std_error, rtol=1e-5)


# -- two models ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
def test_two_models_by_paired_errors(method):
    X, y = draw(3)
    given = {"sample_weight": np.random.default_rng(0).choice([0.5, 1.0, 2.0], N)}
    first, second = FITTED["xgboost"], FITTED["forest"]
    c = ti.compare(first, second, ti.Rows(X, y, **given), method=method)
    adds_up(c)
    own = [mean_squared_error(y, m.predict(X), **given) / 2 for m in (first, second)]
    np.testing.assert_allclose([c.loss_before, c.loss_after], own, rtol=1e-6)
    for model, imp in ((first, c.before), (second, c.after)):
        own = ti.importance(model, X, y, score="loss", method=method, **given).scores
        np.testing.assert_array_equal(imp.scores, own)
    same = ti.compare(first, first, (X, y), method=method)
    assert not same.change.score.any()
    np.testing.assert_allclose(same.change.std_error, 0, atol=1e-9)


def test_paired_errors_are_those_of_a_bootstrap():
    first, second = (ti.read_model(FITTED[name]) for name in ("xgboost", "forest"))
    X, y = draw(3)
    c, rng, drawn = ti.compare(first, second, (X, y)), np.random.default_rng(0), []
    for _ in range(150):
        rows = ti.Rows(X, y, sample_weight=np.bincount(rng.integers(0, N, N), minlength=N))
        drawn.append(ti.compare(first, second, rows, n_jobs=1).change.score)
    # The sd of 150 numbers is known to 6 %; noise columns are not normal.
    np.testing.assert_allclose(c.change.std_error[:2], np.std(drawn, axis=0, ddof=1)[:2], rtol=0.1)


def test_features_that_one_model_uses_count_nothing_in_the_other():
    (A, b), (X, y) = draw(0), draw(3)
    A, X = (pd.DataFrame(each, columns=list("abcde")) for each in (A, X))
    first = xgb.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1).fit(A[["a", "b"]], b)
    second = lgb.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(A[["c", "a"]], b)
    c, one, other = ti.compare(first, second, (X.assign(y=y), "y")), *(
        ti.importance(model, X[list(names)], y, score="loss") for model, names in ((first, "ab"), (second, "ca"))
    )  # fmt: skip
    assert c.feature_names == ("a", "b", "c")
    np.testing.assert_array_equal(c.before.scores, [*one.scores, 0])
    np.testing.assert_array_equal(c.after.scores, [other["a"].score, 0, other["c"].score])
    assert c["b"].signal_after == 0
    assert np.isnan(c["b"].holds_after)
    np.testing.assert_allclose(c.change.score, c.before.scores - c.after.scores)


@pytest.mark.parametrize(("second", "why"), [
    (lambda *rows: xgb.XGBRegressor(n_estimators=2, objective="reg:absoluteerror").fit(*rows), "losses differ"),
    (lambda *rows: lgb.LGBMRegressor(n_estimators=2, objective="quantile", verbose=-1).fit(*rows), "losses differ"),
    (lambda *_: FITTED["lightgbm"], "1 and 3 outputs"),
])  # fmt: skip
def test_models_that_are_not_measured_alike_are_refused(second, why):
    X, y = classes(*draw(3))
    with pytest.raises(ti.UnsupportedModelError, match=why):
        ti.compare(FITTED["xgboost"], second(X, y), (X, y))
