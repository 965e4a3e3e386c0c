"""TreeInner(centred): the score is its definition, row shares are its influence function, two passes are one result."""

import functools
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor

import treeinner as ti
from treeinner import sign_flips
from treeinner.compiled.forest import INSTRUCTION_SETS, instruction_set, use_instruction_set
from treeinner.errors import DataError

from . import oracle
from .cases import Case
from .fitted import FLOAT32, FLOAT64, REAL, boosted, halves
from .forests import Recipe


@pytest.fixture(autouse=True)
def _same_instructions_after():
    before = instruction_set()
    yield
    use_instruction_set(before)


# -- random ensembles: every way through the kernels -----------------------------------------------------------------
# name -> (recipe, objective, options of Case, tolerance of standard errors)
KINDS = {
    "squared": (Recipe(n_trees=40, depth=4), "squared_error", {}, FLOAT32),
    "logistic": (Recipe(n_trees=5, depth=4), "logistic", {"weighted": False}, FLOAT32),
    "poisson": (Recipe(n_trees=3, depth=4), "poisson", {}, FLOAT32),
    "softmax, two trees a round": (
        Recipe(n_trees=12, depth=4, n_outputs=3),
        "softmax",
        {"trees_per_round": 2},
        FLOAT32,
    ),
    "categories": (Recipe(n_trees=6, depth=5, n_categorical=3), "logistic", {}, FLOAT32),
    "vector leaves": (Recipe(n_trees=5, n_outputs=3, vector=True), "softmax", {}, FLOAT64),
    "vector leaves below a top": (
        Recipe(n_trees=2, depth=10, grow=0.97, n_outputs=2, vector=True),
        "squared_error",
        {},
        FLOAT64,
    ),
    "more than 64 leaves": (Recipe(n_trees=4, depth=8, grow=0.97), "logistic", {}, FLOAT64),
    "more than 256 leaves": (Recipe(n_trees=4, depth=10, grow=0.97), "squared_error", {}, FLOAT64),
    "large and small trees": (Recipe(n_trees=20, depth=10, grow=0.85), "squared_error", {}, FLOAT32),
    "more than 512 places": (Recipe(n_trees=50, depth=5, n_columns=600, grow=1.0), "squared_error", {"n": 70}, FLOAT64),
    "forest in one round": (Recipe(n_trees=5, depth=4), "squared_error", {"trees_per_round": 5}, FLOAT32),
}
N = 150  # more than two blocks of 64 rows


@functools.cache
def random_case(kind):
    recipe, objective, options, near = KINDS[kind]
    case = Case(recipe, objective, seed=sorted(KINDS).index(kind), **{"n": N, **options})
    leaves = np.diff(case.e.forest.first_leaf)
    assert leaves.min() > {"more than 64 leaves": 64, "more than 256 leaves": 256}.get(kind, 0)
    assert kind != "more than 512 places" or case.e.forest.n_players * case.e.n_outputs > 512
    assert kind != "large and small trees" or (leaves.min() < 64 and leaves.max() > 256)
    return case, near


@functools.cache
def answers(kind):
    """Definition, product form and row shares of the score, by round."""
    case, _ = random_case(kind)
    r = case.tensor("centred")
    definition = oracle.tree_inner(case.e, r, case.residual).sum(axis=1)
    product = oracle.centred_product(case.e, case.X, case.residual, case.weight)
    return slack_of(case.e, r), definition, product, case.shares("centred")


def slack_of(e, r):
    """What rounded gradients may change in a score: leaf sums hold them to 2^-28 of the largest leaf, (features,)."""
    return 2.0**-28 * np.abs(e.value).max() * np.abs(r).sum(axis=(0, 1, 3)) + 1e-12 * np.abs(r).sum()


def check_errors(found, units, near):
    """Standard errors of the sum of independent units, (units, features, ...)."""
    expected = np.sqrt(len(units)) * units.std(axis=0, ddof=1)
    # Features that hardly count are small differences of larger numbers.
    np.testing.assert_allclose(found, expected, rtol=near, atol=near / 10 * expected.max())


@pytest.mark.parametrize("level", INSTRUCTION_SETS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_score_is_its_definition_and_its_shares_are_the_influence_function(kind, level):
    case, near = random_case(kind)
    use_instruction_set(level)
    imp = case.importance()
    total = imp.sum_of_weights
    slack, definition, product, shares = answers(kind)
    assert np.all(np.abs(imp.by_round() * total - definition.sum(axis=2)) <= slack)
    assert np.all(np.abs(imp.by_round() * total - product.sum(axis=2)) <= slack)
    assert np.all(np.abs(imp.scores * total - shares.sum(axis=(0, 1, 3))) <= slack)
    alive = slice(None) if case.weight is None else case.weight > 0
    rows = shares.sum(axis=0)[alive]
    check_errors(imp.std_errors * total, rows.sum(axis=2), near)
    if case.e.n_outputs > 1:
        check_errors(imp.outputs.std_error * total, rows, near)


def test_a_leaf_that_no_row_reaches_counts_for_nothing():
    """Its value may be anything."""
    case, _ = random_case("squared")
    reached = set(oracle.apply(case.e, case.X[case.weight > 0]).ravel())
    unreached = (case.e.feature < 0) & ~np.isin(case.e.leaf_id, list(reached))
    assert unreached.any()
    value, node_value = (np.where(unreached[:, None], 1.7, v) for v in (case.e.value, case.e.node_value))
    other = replace(case.e, value=value, node_value=node_value)
    options = {"objective": "squared_error", "sample_weight": case.weight}
    a, b = (ti.importance(e, case.X, case.y, **options) for e in (case.e, other))
    slack = slack_of(case.e, case.tensor("centred")) / a.sum_of_weights  # the unit of the sums follows the largest leaf
    assert np.all(np.abs(a.scores - b.scores) <= 2 * slack)
    np.testing.assert_allclose(a.std_errors, b.std_errors, rtol=FLOAT32)


# -- real models -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", REAL)
def test_real_models_are_scored_by_the_definition_too(name):
    fitted = REAL[name]
    e, residual = fitted.oracle()
    imp = fitted.importance()
    total, given = imp.sum_of_weights, (e, fitted.X, residual, fitted.weight, fitted.share)
    shares, product = oracle.centred_shares(*given), oracle.centred_product(*given)
    size = np.abs(shares).sum()
    # Leaf sums hold gradients and weights to 2^-32 of typical ones.
    np.testing.assert_allclose(imp.scores * total, product.sum(axis=(0, 2)), rtol=0, atol=1e-8 * size)
    np.testing.assert_allclose(imp.scores * total, shares.sum(axis=(0, 1, 3)), rtol=0, atol=1e-8 * size)
    np.testing.assert_allclose(imp.by_round() * total, product.sum(axis=2), rtol=0, atol=1e-8 * size)
    alive = np.full(len(fitted.y), True) if fitted.weight is None else fitted.weight > 0
    rows = shares.sum(axis=(0, 3))[alive]
    check_errors(imp.std_errors * total, rows, fitted.near)
    clusters = np.arange(len(fitted.y)) // 3
    units = np.array([rows[clusters[alive] == c].sum(axis=0) for c in np.unique(clusters[alive])])
    imp = fitted.importance(clusters=clusters)
    check_errors(imp.std_errors * total, units, fitted.near)
    units[np.abs(units) < 1e-12 * size] = 0.0  # a split that all rows pass on one side
    upper, _ = sign_flips.flip_p_values_of(units)
    few = np.isnan(upper)  # clusters: Student's t
    assert np.any(upper < 1)
    near = 20 * fitted.near  # z to `near`, p to z^2 times that
    np.testing.assert_allclose(imp.p_values[~few], upper[~few], rtol=near)
    np.testing.assert_allclose(imp.p_values[few], stats.t.sf(imp.z[few], imp.statistics.df[few]), rtol=1e-9)
    if name != "out_of_bag":
        definition = oracle.tree_inner(e, oracle.centred_tensor(e, fitted.X, fitted.weight), residual)
        np.testing.assert_allclose(imp.scores * total, definition.sum(axis=(0, 1, 3)), rtol=0, atol=1e-8 * size)


def test_without_penalties_it_is_predecomp_on_the_training_rows():
    """Squared error: hessians are 1, and node values are the means of the rows' leaves."""
    X, y, _, _ = halves(*load_diabetes(return_X_y=True))
    params = {"num_leaves": 8, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 5}
    for model in (boosted(X, y, reg_lambda=0.0), lgb.train(params, lgb.Dataset(X, y), 15)):
        centred, plain = (ti.importance(model, X, y, method=method) for method in ("centred", "predecomp"))
        # Both keep node values and gradients in float32.
        np.testing.assert_allclose(centred.scores, plain.scores, rtol=0, atol=2e-6 * plain.scores.max())
        np.testing.assert_allclose(centred.gains, plain.gains, rtol=0, atol=2e-6 * plain.gains.max())
    penalised = boosted(X, y, reg_lambda=10.0)
    centred, plain = (ti.importance(penalised, X, y, method=method) for method in ("centred", "predecomp"))
    assert np.abs(centred.scores - plain.scores).max() > 1e-3 * plain.scores.max()


def test_nothing_that_a_reader_has_to_infer_is_used():
    """Rates, penalties, stored node values, covers and gains may all be unknown."""
    fitted = REAL["squared"]
    e = ti.read_model(boosted(*halves(*load_diabetes(return_X_y=True))[:2], reg_alpha=3.0, max_delta_step=2.0)).ensemble
    leaf = e.feature < 0
    unknown = replace(
        e,
        tree_rate=np.full(e.n_trees, np.nan),
        node_value=np.where(leaf[:, None], e.value, np.nan),
        cover=np.full(e.n_nodes, np.nan),
        gain=np.full(e.n_nodes, np.nan),
        params={},
    )
    for options in ({}, {"score": "loss"}, {"std_errors": False}):
        a, b = (
            ti.importance(model, fitted.X, fitted.y, objective="squared_error", **options) for model in (e, unknown)
        )
        assert np.array_equal(a.scores, b.scores)
        assert np.array_equal(a.std_errors, b.std_errors, equal_nan=True)
        assert np.array_equal(a.p_values, b.p_values, equal_nan=True)
        assert np.array_equal(a.by_round(), b.by_round())


@pytest.mark.parametrize("told", [{"learning_rate": 0.01}, {"reg_lambda": 7.0}, {"reg_alpha": 2.0}])
def test_what_is_told_about_rates_and_penalties_changes_nothing(told, tmp_path):
    fitted = REAL["lightgbm"]
    fitted.model.save_model(tmp_path / "model.txt")
    a = fitted.importance()
    b = ti.importance(tmp_path / "model.txt", fitted.X, fitted.y, **told)
    assert np.array_equal(a.scores, b.scores)
    assert np.array_equal(a.std_errors, b.std_errors)


# -- p values --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["squared", "logistic", "poisson", "vector", "lightgbm"])
def test_p_values_are_those_of_sign_flips_of_the_shares(name):
    fitted = REAL[name]
    e, residual = fitted.oracle()
    shares = oracle.centred_shares(e, fitted.X, residual, fitted.weight).sum(axis=(0, 3))
    shares[np.abs(shares) < 1e-12 * np.abs(shares).max()] = 0.0  # a split that all rows pass on one side
    upper, lower = sign_flips.flip_p_values_of(shares)
    found = fitted.importance().statistics
    flipped = ~np.isnan(upper)
    assert flipped.sum() > 5
    # Sizes are counted in bins, with their means: over some 200 rows p is known to 2 %, far out in the tail to 5 %.
    near = np.where(upper > 1e-3, 0.02, 0.05)
    assert np.all(np.abs(found.p_value / upper - 1)[flipped] < near[flipped])
    np.testing.assert_allclose(found.q_value, stats.false_discovery_control(found.p_value), rtol=1e-14)
    harm = np.where(flipped, lower, stats.t.sf(-found.z, np.maximum(found.df, 1)))
    np.testing.assert_allclose(found.harm_q_value, stats.false_discovery_control(harm), rtol=0.02)


def test_few_rows_are_tested_by_students_t():
    case, _ = random_case("squared")
    few = np.flatnonzero(case.weight)[:19]
    imp = ti.importance(
        case.e, case.X[few], case.y[few], objective="squared_error", sample_weight=case.weight[few], n_jobs=1
    )
    assert imp.statistics.n_units == 19 < sign_flips.MIN_SHARES
    np.testing.assert_allclose(imp.p_values, stats.t.sf(imp.z, imp.statistics.df), rtol=1e-9)


# -- numbers of all sizes --------------------------------------------------------------------------------------------
def test_a_base_score_far_from_the_mean_costs_no_digits():
    """Gradients near 1e6 in the first rounds, of which 1 tells the rows apart; a shift that no split sees."""
    X, y, A, b = halves(*load_diabetes(return_X_y=True))
    y, b = ((v - y.mean()) / y.std() for v in (y, b))
    model = boosted(X, y, base_score=0.0, reg_lambda=0.0)
    near = ti.importance(model, A, b)
    far = ti.importance(model, A, b + 1e6)
    # Leaf sums hold gradients to 2^-28 of the largest leaf and float64 holds 1e6 to 1e-10, over 15 rounds.
    np.testing.assert_allclose(far.scores, near.scores, rtol=0, atol=1e-8 * near.scores.max())
    np.testing.assert_allclose(far.std_errors, near.std_errors, rtol=FLOAT32)
    np.testing.assert_allclose(far.p_values, near.p_values, rtol=1e-3)
    plain = ti.importance(model, A, b + 1e6, method="predecomp").scores
    assert np.abs(plain - near.scores).max() > near.scores.max()  # node values of other rows: off by the shift


@pytest.mark.parametrize("method", ["centred", "saabas"])
@pytest.mark.parametrize("score", ["tree_inner", "loss"])
@pytest.mark.parametrize("factor", [2.0**-30, 2.0**20, 2.0**40])
def test_gradients_that_do_not_grow_with_the_targets_keep_their_digits(method, score, factor):
    """Leaves are in units of the target, gradients of the absolute error are signs."""
    X, y, A, b = halves(*load_diabetes(return_X_y=True))
    options = {"loss": "absolute_error", "max_iter": 10, "max_leaf_nodes": 6, "early_stopping": False}
    small, large = (
        ti.importance(HistGradientBoostingRegressor(**options).fit(X, s * y), A, s * b, score=score, method=method)
        for s in (1.0, factor)
    )
    size = np.abs(small.scores).max()
    np.testing.assert_allclose(large.scores / factor, small.scores, rtol=0, atol=1e-7 * size)  # 2^-28 of a sign
    np.testing.assert_allclose(large.std_errors / factor, small.std_errors, rtol=FLOAT32)
    np.testing.assert_allclose(large.p_values, small.p_values, rtol=0.05)  # sizes may fall into other bins
    if score == "loss":
        assert large.base / factor == pytest.approx(small.base, rel=1e-6)


@pytest.mark.parametrize("factor", [1e-3, 1e3, 1e5])
def test_the_scale_of_the_weights_changes_nothing(factor):
    fitted = REAL["softmax"]
    a = fitted.importance()
    b = ti.importance(fitted.model, fitted.X, fitted.y, sample_weight=factor * fitted.weight)
    near = 1e-8 * max(1.0, 1 / factor)  # weights and gradients are multiples of 2^-32 of their units
    np.testing.assert_allclose(b.scores, a.scores, rtol=0, atol=near * np.abs(a.scores).max())
    np.testing.assert_allclose(b.std_errors, a.std_errors, rtol=FLOAT32)
    # Sizes fall into other bins: 90 rows, of which few carry the score.
    assert np.all(np.abs(b.p_values / a.p_values - 1) < np.where(a.p_values > 1e-6, 0.05, 0.1))


def test_weights_of_very_different_sizes():
    """One row weighs as much as a thousand others, and some nearly nothing."""
    case, _ = random_case("squared")
    weight = np.where(np.arange(N) % 3 == 0, 1e-7, 1.0)
    weight[5] = 1e3
    residual = oracle.residuals(case.e, case.X, case.gradient, weight)
    shares = oracle.centred_shares(case.e, case.X, residual, weight).sum(axis=(0, 3))
    imp = case.importance(sample_weight=weight)
    # A weight is a multiple of 2^-32: 1e-7 to a part in 400, in nodes where no other row is.
    np.testing.assert_allclose(imp.scores * weight.sum(), shares.sum(axis=0), rtol=0, atol=1e-7 * np.abs(shares).sum())
    check_errors(imp.std_errors * weight.sum(), shares, FLOAT32)


# -- corners ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("score", ["tree_inner", "loss"])
def test_one_row_has_a_score_of_zero_and_no_error(score):
    """Every node's mean is the row's own leaf value: nothing is told apart."""
    fitted = REAL["logistic"]
    imp = ti.importance(fitted.model, fitted.X[:1], fitted.y[:1], score=score)
    assert np.all(imp.scores == 0)
    assert np.all(np.isinf(imp.std_errors))
    assert np.all(imp.p_values == 1)
    assert set(imp.verdicts) == {"not told apart from noise"}


@pytest.mark.parametrize("score", ["tree_inner", "loss"])
def test_one_class_and_a_constant_target_are_scored_as_they_are(score):
    fitted = REAL["logistic"]
    one = fitted.y == 1
    for rows in (one, ~one):
        imp = ti.importance(fitted.model, fitted.X[rows], fitted.y[rows], score=score)
        assert np.all(np.isfinite(imp.scores))
        assert np.all((imp.p_values >= 0) & (imp.p_values <= 1))
        assert np.isfinite(imp.overshoot)
    fitted = REAL["squared"]
    imp = ti.importance(fitted.model, fitted.X, np.full(len(fitted.y), 150.0), score=score)
    assert np.all(np.isfinite(imp.scores))
    assert np.isfinite(imp.overshoot)


@pytest.mark.parametrize("score", ["tree_inner", "loss"])
def test_no_rows_and_no_weight_are_refused(score):
    fitted = REAL["squared"]
    with pytest.raises(DataError, match="no rows"):
        ti.importance(fitted.model, fitted.X[:0], fitted.y[:0], score=score)
    with pytest.raises(DataError, match="zero in every row"):
        ti.importance(fitted.model, fitted.X, fitted.y, sample_weight=np.zeros(len(fitted.y)), score=score)
    for call in (lambda a: a.result(), lambda a: a.second_pass()):
        with pytest.raises(DataError, match="no rows"):
            call(ti.ImportanceAccumulator(fitted.model, score=score))
        empty = ti.ImportanceAccumulator(fitted.model, score=score)
        empty.update(fitted.X, fitted.y, sample_weight=np.zeros(len(fitted.y)))
        with pytest.raises(DataError, match="zero in every row"):
            call(empty)


@pytest.mark.parametrize("score", ["tree_inner", "loss"])
def test_trees_of_one_leaf_score_nothing(score):
    """Steps of exactly 0, too."""
    X, y, A, b = halves(*load_diabetes(return_X_y=True))
    for params in ({"gamma": 1e12}, {"eta": 0.0}):
        imp = ti.importance(boosted(X, y, 3, **params), A, b, score=score)
        assert np.all(imp.scores == 0)
        assert np.all(imp.std_errors == 0)
        assert np.all(imp.p_values == 1)
        assert set(imp.verdicts) == {"not told apart from noise"}
