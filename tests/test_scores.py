"""Global scores against their definitions on the trees x rows x features tensor, the libraries' gains, and shap."""

import threading
import time
from itertools import pairwise

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import shap
import xgboost as xgb
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import treeinner as ti
from treeinner import sign_flips
from treeinner.errors import DataError, UnsupportedModelError
from treeinner.scores.setting import Setting

from . import oracle
from .cases import CASES, FLOAT32, INNER_METHODS, METHODS, Case, N, check, units
from .forests import Recipe, make_ensemble, make_rows


@pytest.fixture(scope="module", params=CASES)
def case(request):
    recipe, objective, options = CASES[request.param]
    return Case(recipe, objective, seed=sorted(CASES).index(request.param), **options)


@pytest.mark.parametrize("method", INNER_METHODS)
def test_tree_inner_is_its_definition(case, method):
    r, shares = case.tensor(method), case.shares(method)
    imp = case.importance(method=method, by_round=True)
    slack = case.leaf_bound(r)
    check(imp, shares.sum(axis=0), units(case), slack=slack if method != "treeshap" else None)
    assert imp.n_rows == N
    assert imp.sum_of_weights == pytest.approx(N if case.weight is None else case.weight.sum(), rel=1e-15)
    by_round = shares.sum(axis=(1, 3))
    assert imp.by_round().shape == by_round.shape
    assert np.all(np.abs(imp.by_round() * imp.sum_of_weights - by_round) <= slack)
    if method == "treeshap":
        np.testing.assert_allclose(imp.by_round().sum(axis=0), imp.scores, rtol=0, atol=1e-12 * np.abs(shares).sum())
    else:
        assert np.array_equal(imp.by_round().sum(axis=0), imp.scores)
    unit = oracle.paper_units(case.e).max()
    assert np.all(np.abs(imp.gains - oracle.gains(case.e, r, case.residual)) <= slack * unit)


def test_a_users_attribution_gets_one_tree_and_rows(case):
    def own(tree, rows):
        assert tree.n_trees == 1
        values = oracle.path_attribution(tree, tree.node_value, np.asarray(rows))
        # A scalar tree may be answered by (rows, features).
        return values if tree.width > 1 else values[:, :, tree.tree_output[0]]

    for score, over in (("tree_inner", None), ("forest_inner", None), ("abs", "trees"), ("abs", "forest")):
        options = {"score": score, "over": over}
        a, b = case.importance(method=own, **options), case.importance(method="predecomp", **options)
        assert a.method == "callable"
        size = np.abs(b.scores).sum() + 1.0
        slack = 1e-11 * size
        if score == "tree_inner":  # predecomp's scores are from the leaves
            slack = case.leaf_bound(oracle.tensor(case.e, case.X, "predecomp")) / a.sum_of_weights
        assert np.all(np.abs(a.scores - b.scores) <= slack)
        np.testing.assert_allclose(a.std_errors, b.std_errors, rtol=FLOAT32, atol=1e-9 * size)


def test_a_users_attribution_of_another_shape_is_an_error():
    case = Case(*CASES["one output"][:2], seed=0)
    with pytest.raises(DataError, match=r"shape \(37, 3\)"):
        case.importance(method=lambda tree, rows: np.zeros((len(rows), 3)))


@pytest.mark.parametrize("method", METHODS)
def test_forest_inner_is_its_definition(case, method):
    r = oracle.tensor(case.e, case.X, method)
    check(
        case.importance(score="forest_inner", method=method),
        oracle.forest_inner(case.e, r, case.residual.sum(axis=0)),
        units(case),
    )
    label = np.eye(case.e.n_outputs)[case.y] if case.objective == "softmax" else case.y.reshape(N, -1)
    weighted = label * (1.0 if case.weight is None else case.weight[:, None])
    check(
        case.importance(score="forest_inner", method=method, against="label"),
        oracle.forest_inner(case.e, r, weighted),
        units(case),
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("over", ["trees", "forest"])
def test_abs_is_its_definition(case, method, over):
    r = oracle.tensor(case.e, case.X, method)
    shares = np.abs(r).sum(axis=0) if over == "trees" else np.abs(r.sum(axis=0))
    weight = np.ones(N) if case.weight is None else case.weight
    imp = ti.importance(case.e, case.X, score="abs", method=method, over=over, sample_weight=case.weight)
    check(imp, shares * weight[:, None, None], units(case))
    assert np.all(np.isnan(imp.p_values))  # a size is never below 0, so there is nothing to test


@pytest.mark.parametrize("method", INNER_METHODS)
def test_a_group_is_scored_as_one_feature(case, method):
    """The members' signed attributions are added up in every row, whatever the score does with them afterwards."""
    r, shares = case.tensor(method), case.shares(method)
    last = case.e.n_features - 1
    groups = {"ends": [0, last]}
    together, shares = (np.concatenate([a[:, :, [0]] + a[:, :, [last]], a[:, :, 1:last]], axis=2) for a in (r, shares))
    weight = np.ones(N) if case.weight is None else case.weight
    options = {"method": method, "feature_groups": groups}
    imp = case.importance(by_round=True, **options)
    assert imp.feature_names == ("ends", *(f"f{i}" for i in range(1, last)))
    slack = case.leaf_bound(together) + case.leaf_bound(r).max()
    check(imp, shares.sum(axis=0), units(case), slack=slack if method != "treeshap" else None)
    assert np.all(np.abs(imp.by_round() * imp.sum_of_weights - shares.sum(axis=(1, 3))) <= slack)
    if method == "centred":  # the other scores attribute single predictions
        return
    check(
        case.importance(score="forest_inner", **options),
        oracle.forest_inner(case.e, together, case.residual.sum(axis=0)),
        units(case),
    )
    for over, size in (("trees", np.abs(together).sum(axis=0)), ("forest", np.abs(together.sum(axis=0)))):
        check(case.importance(score="abs", over=over, **options), size * weight[:, None, None], units(case))


@pytest.mark.parametrize("method", INNER_METHODS)
def test_without_standard_errors_the_scores_are_the_same(case, method):
    with_errors, without = case.importance(method=method), case.importance(method=method, std_errors=False)
    assert np.array_equal(with_errors.scores, without.scores)
    if case.e.n_outputs > 1:
        assert np.array_equal(with_errors.outputs.score, without.outputs.score)
    for unknown in (without.std_errors, without.z, without.p_values, without.q_values, without.ci_low, without.ci_high):
        assert np.all(np.isnan(unknown))
    assert without.sum_of_weights == with_errors.sum_of_weights


def test_a_base_margin_moves_the_gradients():
    case = Case(*CASES["one output"][:2], seed=3)
    margin = np.random.default_rng(4).normal(size=N)
    residual = oracle.residuals(case.e, case.X, case.gradient, case.weight, base=case.e.base_score + margin[:, None])
    for method in INNER_METHODS:
        imp, shares = case.importance(base_margin=margin, method=method), case.shares(method, residual)
        slack = None if method == "treeshap" else case.leaf_bound(case.tensor(method))
        check(imp, shares.sum(axis=0), units(case), slack=slack)


def test_iteration_range_scores_these_rounds_at_the_margin_of_a_model_that_starts_with_them():
    case = Case(*CASES["one output"][:2], seed=3)
    part = case.e.slice_rounds(1, 3)
    whole, alone = (
        case.importance(iteration_range=(1, 3)),
        ti.importance(part, case.X, case.y, objective="squared_error", sample_weight=case.weight),
    )
    assert np.array_equal(whole.scores, alone.scores)


# -- statistics ------------------------------------------------------------------------------------------------------
def effective_df(shares):
    """Effective units less one, at least 1 and less than their number."""
    return np.clip((shares**2).sum(axis=0) ** 2 / (shares**4).sum(axis=0) - 1, 1, len(shares) - 1)


# Sizes are counted in bins with their means: the effective number of units is known to a few per cent, and the p value
# of few rows that carry the score too.
UNITS, FLIPS = 0.03, 0.03


@pytest.mark.parametrize("options", [{"score": "forest_inner"}, {"method": "treeshap"}, {"method": "predecomp"}])
def test_statistics_are_a_one_sample_t_test_of_the_row_shares_with_effective_rows(options):
    case = Case(*CASES["one output"][:2], seed=11, weighted=False)
    imp = case.importance(confidence=0.8, **options)
    if "method" in options:
        shares = case.shares(options["method"]).sum(axis=(0, 3))
    else:
        shares = oracle.forest_inner(case.e, case.tensor("predecomp"), case.residual.sum(axis=0))[:, :, 0]
    statistic, df = stats.ttest_1samp(shares, 0).statistic, imp.statistics.df
    np.testing.assert_allclose(df + 1, effective_df(shares) + 1, rtol=UNITS)
    half = stats.t.ppf(0.9, df) * shares.std(axis=0, ddof=1) / np.sqrt(N)
    # Cancellation of the sums of squares costs a few digits of 16; by path in float32.
    near = FLOAT32 if options.get("method") == "predecomp" else 1e-8
    np.testing.assert_allclose(imp.z, statistic, rtol=near)
    np.testing.assert_allclose(imp.z, imp.scores / imp.std_errors, rtol=1e-14)
    np.testing.assert_allclose(imp.p_values, stats.t.sf(imp.z, df), rtol=1e-8)
    np.testing.assert_allclose(imp.ci_low, shares.mean(axis=0) - half, rtol=near)
    np.testing.assert_allclose(imp.ci_high, shares.mean(axis=0) + half, rtol=near)
    np.testing.assert_allclose(imp.q_values, stats.false_discovery_control(imp.p_values), rtol=1e-14)
    np.testing.assert_allclose(imp.scores, shares.mean(axis=0), rtol=near)
    assert list(imp.order) == sorted(range(4), key=lambda k: -imp.scores[k])
    assert [list(imp.order).index(k) + 1 for k in range(4)] == imp.ranks.tolist()


@pytest.mark.parametrize("method", INNER_METHODS)
@pytest.mark.parametrize("clustered", [False, True])
def test_score_error_interval_and_p_value_are_of_one_quantity(case, method, clustered):
    clusters = np.random.default_rng(0).integers(0, 9, N) if clustered else None
    imp = case.importance(method=method, clusters=clusters)
    alive = np.full(N, True) if case.weight is None else case.weight > 0
    labels = np.arange(N) if clusters is None else clusters
    rows = case.shares(method).sum(axis=0)
    units = np.array([rows[alive & (labels == c)].sum(axis=0) for c in np.unique(labels[alive])])
    parts = [(imp.statistics, units.sum(axis=2))]
    if case.e.n_outputs > 1:
        parts += [(imp.for_output(k).statistics, units[:, :, k]) for k in range(3)]
    slack = case.leaf_bound(case.tensor(method))
    for per_row, shares in parts:
        found = per_row.scaled(imp.sum_of_weights)
        assert np.all(np.abs(found.score - shares.sum(axis=0)) <= slack)
        used = np.abs(shares).sum(axis=0) > 0
        np.testing.assert_allclose(found.z[used], found.score[used] / found.std_error[used], rtol=1e-12)
        df = effective_df(shares[:, used])
        np.testing.assert_allclose(found.df[used] + 1, df + 1, rtol=10 * FLOAT32 if clustered else UNITS)
        half = stats.t.ppf(0.975, found.df[used]) * found.std_error[used]
        np.testing.assert_allclose(found.ci_high[used], found.score[used] + half, rtol=1e-9)
        np.testing.assert_allclose(found.ci_low[used], found.score[used] - half, rtol=1e-9)
        flipped = np.zeros_like(used)
        if method == "centred":
            upper, _ = sign_flips.flip_p_values_of(shares)
            flipped = used & ~np.isnan(upper)
            np.testing.assert_allclose(found.p_value[flipped], upper[flipped], rtol=FLIPS)
        by_t = used & ~flipped
        np.testing.assert_allclose(found.p_value[by_t], stats.t.sf(found.z[by_t], found.df[by_t]), rtol=1e-9)
        assert np.all(found.p_value[~used] == 1)


def test_a_cluster_per_row_is_no_clusters():
    case = Case(*CASES["three classes"][:2], seed=12)
    plain, single = case.importance(), case.importance(clusters=np.arange(N))
    np.testing.assert_allclose(single.scores, plain.scores, rtol=1e-13)
    np.testing.assert_allclose(single.std_errors, plain.std_errors, rtol=1e-9)
    np.testing.assert_allclose(single.outputs.std_error, plain.outputs.std_error, rtol=1e-9)
    np.testing.assert_allclose(single.p_values, plain.p_values, rtol=FLIPS)
    assert single.statistics.n_units == plain.statistics.n_units == np.count_nonzero(case.weight)


def test_copies_of_rows_in_clusters_know_no_more_than_the_rows():
    case = Case(*CASES["one output"][:2], seed=13, weighted=False)
    plain = case.importance()
    which = np.tile(np.arange(N), 3)
    copies = ti.importance(
        case.e, case.X[which], case.y[which], objective="squared_error", clusters=[f"patient {i}" for i in which]
    )
    np.testing.assert_allclose(copies.scores, plain.scores, rtol=1e-13)
    np.testing.assert_allclose(copies.std_errors, plain.std_errors, rtol=1e-9)
    np.testing.assert_allclose(copies.p_values, plain.p_values, rtol=FLIPS)


@pytest.mark.parametrize("method", INNER_METHODS)
def test_clusters_equal_brute_force(method):
    case = Case(*CASES["one output"][:2], seed=14)
    clusters = np.random.default_rng(0).integers(0, 6, N)
    shares, alive = case.shares(method).sum(axis=(0, 3)), case.weight > 0
    sums = np.array([shares[alive & (clusters == c)].sum(axis=0) for c in np.unique(clusters[alive])])
    error = np.sqrt(len(sums)) * sums.std(axis=0, ddof=1)
    imp = case.importance(clusters=clusters, method=method)
    np.testing.assert_allclose(imp.std_errors * case.weight.sum(), error, rtol=FLOAT32)
    assert imp.statistics.n_units == len(sums)


def test_a_row_of_weight_zero_is_a_row_that_is_not_there():
    case = Case(*CASES["one output"][:2], seed=15)
    alive = case.weight > 0
    clusters = np.where(alive, np.arange(N) % 5, 99)  # a cluster of such rows only
    for options in ({}, {"clusters": clusters}):
        kept = {k: v[alive] for k, v in options.items()}
        a = case.importance(**options)
        b = ti.importance(
            case.e, case.X[alive], case.y[alive], objective="squared_error", sample_weight=case.weight[alive], **kept
        )
        assert np.array_equal(a.scores, b.scores)
        assert np.array_equal(a.std_errors, b.std_errors)
        assert np.array_equal(a.p_values, b.p_values)


def test_one_row_has_no_standard_error():
    case = Case(*CASES["one output"][:2], seed=16, weighted=False)
    imp = ti.importance(case.e, case.X[:1], case.y[:1], objective="squared_error")
    assert np.all(np.isinf(imp.std_errors))
    assert np.all(imp.p_values == 1)


def test_the_scale_of_the_weights_changes_no_test():
    case = Case(*CASES["one output"][:2], seed=17)
    a, b = case.importance(), case.importance(sample_weight=case.weight * 8)
    np.testing.assert_allclose(b.z, a.z, rtol=1e-7)  # leaf sums hold a gradient to 2^-32 of the largest leaf
    np.testing.assert_allclose(
        b.statistics.df, a.statistics.df, rtol=1e-8
    )  # fourth powers are held to 28 bits at least
    np.testing.assert_allclose(b.scores, a.scores, rtol=1e-7)


# -- real models -----------------------------------------------------------------------------------------------------
def data(n=400, n_columns=6, seed=0, classes=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_columns)).astype(np.float32)
    signal = X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * X[:, 2] * X[:, 3]
    noisy = signal + rng.normal(size=n)
    if classes == 0:
        return X, noisy.astype(np.float32)
    return X, np.searchsorted(np.quantile(noisy, np.arange(1, classes) / classes), noisy).astype(int)


def xgb_model(X, y, rounds=15, **params):
    defaults = {"nthread": 1, "max_depth": 3, "eta": 0.3, "objective": "reg:squarederror", "base_score": 0.5}
    return xgb.train({**defaults, **params}, xgb.DMatrix(X, y), rounds)


def xgb_gain(booster, n_columns):
    gains = booster.get_score(importance_type="total_gain")
    return np.array([gains.get(f"f{k}", 0.0) for k in range(n_columns)])


def same_gain(a, b):
    """Largest difference of the normalised gains."""
    return np.abs(a / a.sum() - b / b.sum()).max()


LOSSES = {
    "squared": (0, {}),
    "logistic": (2, {"objective": "binary:logistic", "scale_pos_weight": 2.0}),
    "softmax": (3, {"objective": "multi:softprob", "num_class": 3}),
    "parallel trees": (0, {"num_parallel_tree": 3, "colsample_bynode": 0.6, "seed": 1}),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_total_gain_of_xgboost_stored_and_on_the_training_rows(loss):
    classes, params = LOSSES[loss]
    X, y = data(classes=classes)
    model = xgb_model(X, y, **params)
    own = xgb_gain(model, X.shape[1])
    stored = ti.total_gain(model)
    # get_score adds float32 gains, printed with the digits of a float32.
    np.testing.assert_allclose(stored.scores, own, rtol=2e-6)
    assert np.all(np.isnan(stored.std_errors))
    # Proposition 3. XGBoost keeps gains, leaves and margins in float32: the paper's 5e-7 of the normalised gain.
    on_rows = ti.importance(model, X, y, method="predecomp").gains
    assert same_gain(on_rows, own) < 5e-7
    assert on_rows.sum() == pytest.approx(own.sum(), rel=2e-6)
    # Total gain is about node values; no other attribution gives it.
    assert same_gain(ti.importance(model, X, y, method="treeshap").gains, own) > 1e-3


@pytest.mark.parametrize("reg_alpha", [5.0, 20.0])
@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_total_gain_with_an_l1_penalty(reg_alpha, loss):
    """Beyond the paper: the gain of a node is -(w G + reg_alpha |w|), so the penalty's share must be charged."""
    classes, params = LOSSES[loss]
    X, y = data(classes=classes)
    model = xgb_model(X, y, reg_alpha=reg_alpha, **params)
    if loss != "squared" and ti.read_model(model).ensemble.cover_is != "hessian":
        pytest.skip("the reader does not say yet that XGBoost's cover is the sum of hessians")
    own = xgb_gain(model, X.shape[1])
    imp = ti.importance(model, X, y, method="predecomp")
    assert same_gain(imp.gains, own) < 1e-6  # float32 margins, as above; l1 cancels part of the inner product
    np.testing.assert_allclose(imp.by_round().sum(axis=0), imp.scores, rtol=0, atol=1e-12 * np.abs(imp.scores).sum())
    plain = ti.importance(model, X, y, method="saabas")
    assert same_gain(plain.gains, own) > 1e-3  # without it the inner product is something else


def test_total_gain_of_lightgbm_stored_and_on_the_training_rows():
    X, y = data()
    params = {"num_leaves": 8, "num_threads": 1, "verbose": -1, "learning_rate": 0.2, "lambda_l2": 1.0}
    model = lgb.train(params, lgb.Dataset(X, y), 15)
    own = model.feature_importance("gain")
    # feature_importance adds the float32 gains of the splits.
    np.testing.assert_allclose(ti.total_gain(model).scores, own, rtol=1e-6)
    assert same_gain(ti.importance(model, X, y, method="predecomp").gains, own) < 5e-7


def test_total_gain_of_hist_gradient_boosting_on_the_training_rows():
    X, y = data()
    model = HistGradientBoostingRegressor(max_iter=10, max_leaf_nodes=7, early_stopping=False).fit(X, y)
    stored = ti.total_gain(model).scores
    on_rows = ti.importance(model, X, y, method="predecomp").gains
    assert same_gain(on_rows, stored) < 5e-7
    assert on_rows.sum() == pytest.approx(stored.sum(), rel=1e-5)


def test_total_gain_of_groups_is_the_sum_of_their_members():
    X, y = data()
    model = xgb_model(X, y)
    single, grouped = (ti.total_gain(model, feature_groups=g).scores for g in (None, {"pair": ["f4", "f1"]}))
    np.testing.assert_allclose(grouped, [single[0], single[1] + single[4], *single[[2, 3, 5]]], rtol=1e-14)


def test_noise_sinks_out_of_sample_and_shines_in_sample():
    X, y = data(n=600, n_columns=20, seed=5)
    model = xgb_model(X[:300], y[:300], rounds=60, max_depth=5)
    gain = ti.total_gain(model).scores
    held_out = ti.importance(model, X[300:], y[300:])
    noise = np.arange(20) > 3
    assert np.all(gain[noise] > 0)
    # Sixteen noise columns: a mean z of Monte Carlo error 1/4, never significantly useful together.
    assert held_out.z[noise].mean() < 0.75
    assert held_out.p_values[[0, 1]].max() < 1e-5
    assert held_out.q_values[noise].min() > 0.05


@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_abs_of_the_forest_is_shaps_mean_absolute_value(loss):
    classes, params = LOSSES[loss]
    X, y = data(n=80, classes=classes)
    model = xgb_model(X, y, rounds=5, **params)
    values = np.asarray(shap.TreeExplainer(model).shap_values(X))
    values = values.reshape(len(X), X.shape[1], -1)
    imp = ti.importance(model, X, score="abs", method="treeshap", over="forest")
    # shap adds float32 leaves in its own order and precision.
    np.testing.assert_allclose(imp.scores, np.abs(values).mean(axis=0).sum(axis=1), rtol=1e-4, atol=1e-6)


def test_saabas_is_xgboosts_approximate_contributions():
    X, y = data(n=60)
    model = xgb_model(X, y, rounds=5)
    contribs = model.predict(xgb.DMatrix(X), pred_contribs=True, approx_contribs=True)[:, :-1]
    imp = ti.importance(model, X, score="abs", method="saabas", over="forest")
    np.testing.assert_allclose(imp.scores, np.abs(contribs).mean(axis=0), rtol=1e-4, atol=1e-5)  # float32 contributions


# -- Remark 1 --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_without_l2_the_attributions_of_a_tree_sum_to_zero_over_the_training_rows(loss):
    """Remark 1, for every feature k on its own: sum_i H_i f_mk(x_i) = 0 in sample; H is 1 for squared error."""
    classes = 2 if loss == "logistic" else 0
    params = {"objective": "binary:logistic"} if classes else {}
    X, y = data(classes=classes)
    for reg_lambda, holds in ((0.0, True), (10.0, False)):
        model = xgb_model(X, y, rounds=4, reg_lambda=reg_lambda, **params)
        e = ti.read_model(model).ensemble
        worst = 0.0
        for m in range(e.n_trees):
            before = (
                ti.read_model(model).ensemble.slice_rounds(0, m).predict(X) if m else np.full(len(X), e.base_score[0])
            )
            p = 1 / (1 + np.exp(-before))
            hessian = p * (1 - p) if classes else np.ones(len(X))
            f = ti.attribute(e.slice_rounds(m, m + 1), X).values
            worst = max(worst, np.abs((hessian[:, None] * f).sum(axis=0)).max() / np.abs(hessian[:, None] * f).sum())
        # float32 leaves and hessians of 400 rows; with l2 the sums are a sizeable part of the whole.
        assert (worst < 2e-6) if holds else (worst > 1e-3)


def test_without_l2_the_score_is_a_covariance():
    """So a constant added to every gradient's opponent changes nothing: TreeInner per row = cov(f_mk, -G) in sample."""
    X, y = data()
    model = xgb_model(X, y, rounds=1, reg_lambda=0.0)
    f = ti.attribute(model, X).values
    residual = y - 0.5
    covariance = ((f - f.mean(axis=0)) * (residual - residual.mean())[:, None]).mean(axis=0)
    for method in ("centred", "predecomp"):
        imp = ti.importance(model, X, y, method=method)
        np.testing.assert_allclose(imp.scores, covariance, rtol=0, atol=1e-5 * imp.scores.max())  # float32 leaves


# -- forests ---------------------------------------------------------------------------------------------------------
def mdi_oob(forest, X, target):
    """Li et al. (2019): mean over trees of (1 / |oob_m|) sum over its out-of-bag rows of f_mk(x_i) y_i."""
    total = np.zeros(X.shape[1])
    for tree, seen in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        t = tree.tree_
        value = (
            t.value[:, 0, :] if target.shape[1] == 1 else t.value[:, 0, :] / t.value[:, 0, :].sum(axis=1, keepdims=True)
        )
        out = np.setdiff1d(np.arange(len(X)), seen)
        paths = tree.decision_path(X[out])
        for row, i in enumerate(out):
            nodes = paths.indices[paths.indptr[row] : paths.indptr[row + 1]]
            for parent, child in pairwise(nodes):
                total[t.feature[parent]] += (value[child] - value[parent]) @ target[i] / len(out)
    return total / len(forest.estimators_)


@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("share", [None, 0.4])
def test_out_of_bag_scores_are_mdi_oob(classes, share):
    X, y = data(n=120, classes=classes)
    kind = RandomForestClassifier if classes else RandomForestRegressor
    forest = kind(8, max_depth=4, random_state=0, max_samples=share).fit(X, y)
    expected = mdi_oob(forest, X, np.eye(classes)[y] if classes else y[:, None].astype(float))
    imp = ti.importance(forest, X, y, method="predecomp", oob=True)
    size = np.abs(expected).sum()
    # From the leaves: gradients to 2^-32 of the largest value, times rows / out-of-bag rows.
    np.testing.assert_allclose(imp.scores, expected, rtol=0, atol=1e-8 * size)
    alone = ti.importance(forest, X, y, method="predecomp", oob=True, std_errors=False)
    assert np.array_equal(alone.scores, imp.scores)
    assert np.array_equal(imp.by_round().sum(axis=0), imp.scores)
    own = ti.importance(
        forest,
        X,
        y,
        oob=True,
        method=lambda tree, rows: oracle.path_attribution(tree, tree.node_value, np.asarray(rows)),
    )
    np.testing.assert_allclose(own.scores, expected, rtol=0, atol=1e-12 * size)


def test_in_sample_a_forest_without_bootstrap_gives_mdi():
    for kind, classes in ((RandomForestRegressor, 0), (RandomForestClassifier, 3)):
        X, y = data(n=150, classes=classes)
        forest = kind(6, max_depth=4, bootstrap=False, max_features=2, random_state=0).fit(X, y)
        mdi = np.mean([t.tree_.compute_feature_importances(normalize=False) for t in forest.estimators_], axis=0)
        # The gain of squared error and Gini is the inner product exactly; scikit-learn keeps both in float64.
        # Node values are the means of the training rows, so that centring changes nothing.
        for method in ("centred", "predecomp"):
            scores = ti.importance(forest, X, y, method=method).scores
            np.testing.assert_allclose(scores, mdi, rtol=0, atol=1e-10 * mdi.sum())


def test_out_of_bag_scores_with_weights_are_weighted_means():
    X, y = data(n=90)
    forest = RandomForestRegressor(5, max_depth=3, random_state=0).fit(X, y)
    # Rows of weight 0 and 1 are rows left out and rows.
    weight = (np.arange(90) % 3 > 0).astype(float)
    imp = ti.importance(forest, X, y, method="predecomp", oob=True, sample_weight=weight)
    e, total = ti.read_model(forest).ensemble, np.zeros(X.shape[1])
    r = oracle.tensor(e, X.astype(float), "predecomp")[:, :, :, 0] * e.n_trees
    for m, seen in enumerate(forest.estimators_samples_):
        w = weight.copy()
        w[seen] = 0
        total += (w[:, None] * r[m] * y[:, None]).sum(axis=0) / w.sum() / e.n_trees
    # From the leaves: gradients to 2^-32 of the largest value, times rows / out-of-bag rows.
    np.testing.assert_allclose(imp.scores, total, rtol=0, atol=1e-8 * np.abs(total).sum())


def test_out_of_bag_is_refused_where_it_has_no_meaning():
    X, y = data(n=60)
    forest = RandomForestRegressor(3, max_depth=2, random_state=0).fit(X, y)
    for score in ("forest_inner", "abs"):
        with pytest.raises(ValueError, match="oob=True"):
            ti.importance(forest, X, y, score=score, oob=True)
    with pytest.raises(UnsupportedModelError, match="bootstrap=False"):
        ti.importance(RandomForestRegressor(3, bootstrap=False).fit(X, y), X, y, oob=True)
    with pytest.raises(UnsupportedModelError, match="oob=True"):
        ti.importance(xgb_model(X, y, rounds=2), X, y, oob=True)


# -- what comes back -------------------------------------------------------------------------------------------------
COLUMNS = ["feature", "score", "std_error", "ci_low", "ci_high", "p_value", "q_value", "verdict", "rank"]
NAMES = ["age", "income", "height", "weight", "noise 1", "noise 2"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_in_give_frames_out(library):
    X, y = data(n=100)
    frame = pd.DataFrame(X, columns=NAMES) if library == "pandas" else pl.DataFrame(X, schema=NAMES)
    target = pd.Series(y) if library == "pandas" else pl.Series(y)
    model = xgb.XGBRegressor(n_estimators=5, n_jobs=1).fit(pd.DataFrame(X, columns=NAMES), y)
    for imp in (
        ti.importance(model, frame, target),
        ti.permutation_importance(model, frame, target, random_state=0),
        ti.importance(model, frame, score="abs"),
    ):
        assert imp.feature_names == tuple(NAMES)
        out = imp.to_frame()
        assert isinstance(out, pd.DataFrame if library == "pandas" else pl.DataFrame)
        assert list(out.columns) == COLUMNS
        assert list(out["feature"]) == [NAMES[k] for k in imp.order]
        assert list(out["score"]) == sorted(imp.scores.tolist(), reverse=True)
    bare = ti.importance(model, X, y)  # an array of the model's columns
    assert np.array_equal(bare.scores, ti.importance(model, frame, target).scores)


def test_names_of_the_frame_serve_a_model_without_names():
    X, y = data(n=60)
    model = xgb_model(X, y, rounds=3)
    assert ti.importance(model, X, y).feature_names == tuple(f"f{i}" for i in range(6))
    imp = ti.importance(ti.read_model(model), pd.DataFrame(X, columns=NAMES), y, feature_groups={"noise": NAMES[4:]})
    assert imp.feature_names == (*NAMES[:4], "noise")


def test_repr_names_the_best_features():
    X, y = data(n=100)
    imp = ti.importance(xgb_model(X, y), X, y)
    lines = repr(imp).splitlines()
    assert lines[0] == "TreeInner(centred) on 100 rows: first-order reduction of the loss per row"
    notes = [f"note: {note}" for note in imp.notes]  # these are the training rows
    assert len(notes) == 2
    assert [line.split()[0] for line in lines[2:-2]] == [imp.feature_names[k] for k in imp.order]
    assert lines[-2:] == notes
    wide = ti.importance(
        make_ensemble(Recipe(n_columns=30), 0), np.zeros((2, 30)), [0.0, 1.0], objective="squared_error"
    )
    assert repr(wide).endswith("... and 10 more")


def test_outputs_by_name_and_number():
    X, y = data(n=150, classes=3)
    model = xgb.XGBClassifier(n_estimators=4, n_jobs=1).fit(X, y)
    imp = ti.importance(model, X, y)
    assert imp.output_names == ("0", "1", "2")
    assert np.array_equal(imp.for_output("2").scores, imp.for_output(2).scores)
    assert np.array_equal(imp.for_output(-1).scores, imp.for_output(2).scores)
    total = sum(imp.for_output(k).scores for k in range(3))
    np.testing.assert_allclose(imp.scores, total, rtol=1e-13)
    with pytest.raises(ValueError, match="'3' is not an output"):
        imp.for_output("3")
    with pytest.raises(ValueError, match="one output"):
        imp.for_output(0).for_output(0)


def test_by_round_must_be_asked_for_where_it_costs():
    case = Case(*CASES["one output"][:2], seed=0)
    for options in ({"method": "treeshap"}, {"score": "abs"}, {"score": "forest_inner"}):
        with pytest.raises(ValueError, match="by round were not kept"):
            case.importance(**options).by_round()


def test_threads_share_one_compiled_form(monkeypatch):
    """Each thread made its own once: the time and memory of the slowest part, as often as there are threads."""
    made, paths = [], Setting.paths.func

    def slowly(setting):
        made.append(threading.current_thread())
        time.sleep(0.2)  # long enough for the other threads to come and ask
        return paths(setting)

    monkeypatch.setattr(Setting.paths, "func", slowly)
    e = make_ensemble(Recipe(n_trees=3), 0)
    X = make_rows(e, 3 * ti.compiled.TASK_ROWS, 1)
    for method, passes in (("predecomp", 1), ("centred", 2)):
        made.clear()
        ti.importance(e, X, np.zeros(len(X)), objective="squared_error", method=method, n_jobs=3)
        assert made == passes * [threading.main_thread()]


def test_threads_change_no_bit_and_progress_is_told():
    e = make_ensemble(Recipe(n_trees=6, n_outputs=2), 1)
    e.forest.task_rows = 64  # many tasks, so that threads have something to mix up
    X = make_rows(e, 500, 2)
    target = {"y": np.random.default_rng(0).integers(0, 2, 500), "objective": "softmax"}
    for score, options, passes in (
        (ti.importance, target, 2),
        (ti.importance, {**target, "score": "loss"}, 2),
        (ti.importance, {**target, "method": "predecomp"}, 1),
        (ti.importance, {**target, "method": "treeshap"}, 1),
        (ti.importance, {"score": "abs"}, 1),
        (ti.permutation_importance, {**target, "random_state": 1}, 1),
    ):
        done = []  # (rows done, rows) of all runs
        runs = [score(e, X, n_jobs=n, progress=lambda *a, d=done: d.append(a), **options) for n in (1, 2, 7, None, -1)]
        for run in runs[1:]:
            assert np.array_equal(run.scores, runs[0].scores)
            assert np.array_equal(run.std_errors, runs[0].std_errors)
            assert np.array_equal(run.p_values, runs[0].p_values, equal_nan=True)
        assert done[-1] == (500, 500)
        assert len(done) == 5 * 8 * passes
