"""Scores and standard errors are their definitions on the tensor of trees x rows x features, in every kernel."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor

import treeinner as ti
from tests import oracle
from tests.cases import CASES, METHODS, Case, N, check_errors, loss_named, make_case
from tests.fitted import FLOAT32, FLOAT64, REAL, boosted, halves
from tests.forests import Recipe, make_model
from treeinner import _core
from treeinner.read.trees import NodeValues


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return make_case(request.param)


def losses_of(case, margin):
    """Loss of every row."""
    if case.objective == "softmax":
        return np.log(np.exp(margin).sum(axis=1)) - margin[np.arange(len(margin)), case.y]
    if case.objective == "logistic":
        return np.logaddexp(0, margin[:, 0]) - case.y * margin[:, 0]
    if case.objective == "poisson":
        return np.exp(margin[:, 0]) - case.y * margin[:, 0]
    return ((margin - case.y.reshape(len(margin), -1)) ** 2).sum(axis=1) / 2


@pytest.mark.parametrize("score", ["tree_inner", "loss"])
@pytest.mark.parametrize("method", METHODS)
def test_scores_errors_rounds_and_outputs(case, method, score):
    residual = case.residual
    if score == "loss":
        residual = oracle.mean_residuals(case.trees, case.X, case.gradient, case.weight)
    r, shares = case.tensor(method), case.shares(method, residual)
    imp, slack = case.importance(method=method, score=score), case.slack(r)
    total, rows = imp.sum_of_weights, shares.sum(axis=0)[case.alive]
    assert imp.n_rows == N
    assert total == pytest.approx(N if case.weight is None else case.weight.sum(), rel=1e-15)
    assert np.all(np.abs(imp.scores * total - shares.sum(axis=(0, 1, 3))) <= slack)
    near = 10 * FLOAT32 if score == "loss" else FLOAT32
    check_errors(imp.std_errors * total, rows.sum(axis=2), near)
    if method == "treeshap":
        with pytest.raises(ValueError, match="round"):
            imp.by_round()
    else:
        assert np.all(np.abs(imp.by_round() * total - shares.sum(axis=(1, 3))) <= slack)
        np.testing.assert_array_equal(imp.by_round().sum(axis=0), imp.scores)
    if case.trees.n_outputs > 1:
        check_errors(imp.outputs.std_error * total, rows, near)
        for k in range(case.trees.n_outputs):
            assert np.all(np.abs(imp.for_output(k).scores * total - shares[..., k].sum(axis=(0, 1))) <= slack)
    else:
        assert imp.outputs is None
    if score == "tree_inner":
        unit = 1 / (0.3 * case.trees.weight[0])
        assert np.all(np.abs(imp.gains - oracle.gains(case.trees, r, case.residual)) <= slack * unit)
    else:
        assert imp.gains is None


@pytest.mark.parametrize("method", METHODS)
def test_the_breakdown_is_the_fall_of_the_loss_and_its_base_the_rest_of_every_step(case, method):
    residual = oracle.mean_residuals(case.trees, case.X, case.gradient, case.weight)
    imp, r = case.importance(score="loss", method=method), case.tensor(method)
    steps, weight = oracle.steps(case.trees, case.X), np.ones(N) if case.weight is None else case.weight
    left = np.zeros_like(steps)
    np.add.at(left, case.trees.round, r.sum(axis=2))
    base = ((steps - left) * residual).sum(axis=(1, 2)) / imp.sum_of_weights
    slack = case.slack(r).max() + 1e-9 * np.abs(base).sum()
    assert imp.base == pytest.approx(base.sum(), rel=0, abs=slack)  # from the steps, not as what is left of the fall
    if method != "treeshap":
        np.testing.assert_allclose(imp.losses.base_rounds, base, rtol=0, atol=slack)
    ends = np.tile(case.trees.base, (N, 1)), oracle.predict(case.trees, case.X)
    before, after = ((losses_of(case, margin) * weight).sum() / imp.sum_of_weights for margin in ends)
    shift = imp.losses.before - before  # a deviance has a constant that no round changes
    assert imp.losses.after - after == pytest.approx(shift, rel=0, abs=1e-11 * max(abs(before), abs(after), 1))
    near = case.slack(r).sum() / imp.sum_of_weights  # scores and base are both from leaf sums
    assert imp.scores.sum() + imp.base == pytest.approx(before - after, rel=1e-9, abs=near)
    first_order = (steps * case.residual).sum() / imp.sum_of_weights
    for found in (imp, case.importance(method=method)):
        assert found.losses.first_order == pytest.approx(first_order, rel=1e-7, abs=slack)


@pytest.mark.parametrize("method", METHODS)
def test_without_errors_the_scores_have_the_same_bits(case, method):
    whole, alone = case.importance(method=method), case.importance(method=method, std_errors=False)
    np.testing.assert_array_equal(whole.scores, alone.scores)
    if whole.outputs is not None:
        np.testing.assert_array_equal(whole.outputs.score, alone.outputs.score)
    for unknown in (alone.std_errors, alone.p_values, alone.q_values, alone.df, *alone.interval()):
        assert np.isnan(unknown).all()
    assert set(alone.verdicts) == {""}


@pytest.mark.parametrize("method", METHODS)
def test_a_group_is_scored_as_one_feature_with_an_error_of_its_own(case, method):
    last = case.trees.n_features - 1
    shares, r = case.shares(method).sum(axis=0), case.tensor(method)
    shares = np.concatenate([shares[:, [0]] + shares[:, [last]], shares[:, 1:last]], axis=1)
    imp = case.importance(method=method, feature_groups={"ends": [0, last]})
    assert imp.feature_names == ("ends", *(f"f{i}" for i in range(1, last)))
    slack = 2 * case.slack(r).max()
    assert np.all(np.abs(imp.scores * imp.sum_of_weights - shares.sum(axis=(0, 2))) <= slack)
    check_errors(imp.std_errors * imp.sum_of_weights, shares[case.alive].sum(axis=2))
    single = case.importance(method=method, feature_groups={f"only {i}": [i] for i in range(last + 1)})
    np.testing.assert_array_equal(single.scores, case.importance(method=method).scores)
    np.testing.assert_array_equal(single.std_errors, case.importance(method=method).std_errors)


# -- every way through the kernels -----------------------------------------------------------------------------------
# name -> (recipe, objective, options of Case, tolerance of standard errors)
KINDS = {
    "many small trees": (Recipe(n_trees=40, depth=4), "squared_error", {}, FLOAT32),
    "categories": (Recipe(n_trees=6, depth=5, n_categorical=3), "logistic", {}, FLOAT32),
    "vector leaves": (Recipe(n_trees=2, depth=10, grow=0.97, n_outputs=2, vector=True), "squared_error", {}, FLOAT64),
    "more than 64 leaves": (Recipe(n_trees=4, depth=8, grow=0.97), "logistic", {}, FLOAT64),
    "more than 256 leaves": (Recipe(n_trees=4, depth=10, grow=0.97), "squared_error", {}, FLOAT64),
    "large and small trees": (Recipe(n_trees=20, depth=10, grow=0.85), "squared_error", {}, FLOAT32),
    "more than 512 places": (Recipe(n_trees=50, depth=5, n_columns=600, grow=1.0), "squared_error", {"n": 70}, FLOAT64),
}


@functools.cache
def kernel_case(kind):
    """A case, and its answer: by round, and the shares of the rows."""
    recipe, objective, options, _ = KINDS[kind]
    case = Case(recipe, objective, seed=sorted(KINDS).index(kind), **{"n": 150, **options})
    return case, oracle.centred_product(case.trees, case.X, case.residual, case.weight), case.shares("centred")


@pytest.fixture(params=_core.instruction_sets())
def _instructions(request):
    before = _core.instruction_set()
    _core.use_instruction_set(request.param)
    yield
    _core.use_instruction_set(before)


@pytest.mark.usefixtures("_instructions")
@pytest.mark.parametrize("kind", KINDS)
def test_trees_of_every_shape_at_every_instruction_set(kind):
    case, product, shares = kernel_case(kind)
    model = make_model(replace(case.trees), case.model.loss)
    imp = ti.importance(model, case.X, case.y, score="tree_inner", sample_weight=case.weight)
    total, slack = imp.sum_of_weights, 2.0**-28 * np.abs(case.trees.value).max() * case.trees.n_trees * len(case.X)
    assert np.all(np.abs(imp.by_round() * total - product.sum(axis=2)) <= slack)
    assert np.all(np.abs(imp.scores * total - shares.sum(axis=(0, 1, 3))) <= slack)
    check_errors(imp.std_errors * total, shares.sum(axis=(0, 3))[case.alive], KINDS[kind][3])


# -- real models -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", REAL)
def test_real_models_of_every_library_are_scored_by_the_definition(name):
    fitted = REAL[name]
    trees, residual = fitted.oracle()
    imp = fitted.importance()
    total, given = imp.sum_of_weights, (trees, fitted.X, residual, fitted.weight, fitted.share)
    shares, product = oracle.centred_shares(*given), oracle.centred_product(*given)
    size = np.abs(shares).sum()
    np.testing.assert_allclose(imp.by_round() * total, product.sum(axis=2), rtol=0, atol=1e-8 * size)  # leaf sums
    np.testing.assert_allclose(imp.scores * total, shares.sum(axis=(0, 1, 3)), rtol=0, atol=1e-8 * size)
    alive = np.full(len(fitted.y), True) if fitted.weight is None else fitted.weight > 0
    rows = shares.sum(axis=(0, 3))[alive]
    check_errors(imp.std_errors * total, rows, fitted.near)
    clusters = np.arange(len(fitted.y)) // 3
    units = np.array([rows[clusters[alive] == c].sum(axis=0) for c in np.unique(clusters[alive])])
    check_errors(fitted.importance(clusters=clusters).std_errors * total, units, fitted.near)


def test_nothing_that_a_model_may_not_store_is_used_by_default():
    """Rates, node values, covers, gains."""
    model = ti.read_model(boosted(*halves(*load_diabetes(return_X_y=True))[:2], reg_alpha=3.0, max_delta_step=2.0))
    trees, fitted = model.trees, REAL["squared"]
    unknown = np.full(trees.n_nodes, np.nan)
    bare = replace(trees, cover=unknown, gain=unknown, node_values=NodeValues(None, np.full(trees.n_trees, np.nan)))
    for options in ({}, {"score": "tree_inner", "std_errors": False}, {"score": "loss"}):
        a, b = (
            ti.importance(make_model(t, loss_named("squared_error")), fitted.X, fitted.y, **options)
            for t in (trees, bare)
        )
        np.testing.assert_array_equal(a.scores, b.scores)
        np.testing.assert_array_equal(a.std_errors, b.std_errors)
        assert b.gains is None
    for method, needed in (("saabas", "training rows"), ("treeshap", "training rows"), ("predecomp", "PreDecomp")):
        with pytest.raises(ti.TreeInnerError, match=needed):
            ti.importance(
                make_model(bare, loss_named("squared_error")), fitted.X, fitted.y, score="tree_inner", method=method
            )


def test_a_leaf_that_no_row_reaches_counts_for_nothing():
    case = make_case("one output")
    reached = set(oracle.apply(case.trees, case.X[case.alive]).ravel())
    unreached = (case.trees.column < 0) & ~np.isin(case.trees.leaf_id, list(reached))
    assert unreached.any()
    value = np.where(unreached[:, None], 1.7, case.trees.value)
    other = replace(case.trees, value=value, node_values=NodeValues(None, np.ones(case.trees.n_trees)))
    a = case.importance(score="signal")
    b = ti.importance(make_model(other, case.model.loss), case.X, case.y, sample_weight=case.weight)
    np.testing.assert_allclose(a.scores, b.scores, rtol=0, atol=1e-7 * np.abs(a.scores).max())  # units of the leaf sums
    np.testing.assert_allclose(a.std_errors, b.std_errors, rtol=FLOAT32)


# -- numbers of all sizes --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("score", ["signal", "tree_inner"])
def test_a_base_score_far_from_the_mean_costs_no_digits(score):
    """Gradients near 1e6 in the first rounds, of which 1 tells the rows apart; a shift that no split sees."""
    X, y, A, b = halves(*load_diabetes(return_X_y=True))
    y, b = ((v - y.mean()) / y.std() for v in (y, b))
    model = boosted(X, y, base_score=0.0, reg_lambda=0.0)
    near, far = (ti.importance(model, A, b + shift, score=score) for shift in (0.0, 1e6))
    # Leaf sums hold gradients to 2^-28 of the largest leaf and float64 holds 1e6 to 1e-10, over 15 rounds.
    np.testing.assert_allclose(far.scores, near.scores, rtol=0, atol=1e-8 * near.scores.max())
    np.testing.assert_allclose(far.std_errors, near.std_errors, rtol=FLOAT32)
    plain = ti.importance(model, A, b + 1e6, score="tree_inner", method="predecomp").scores
    assert np.abs(plain - near.scores).max() > near.scores.max()  # node values of other rows: off by the shift


@pytest.mark.parametrize("score", ["signal", "tree_inner", "loss"])
@pytest.mark.parametrize("factor", [2.0**-30, 2.0**40])
def test_gradients_that_do_not_grow_with_the_targets_keep_their_digits(score, factor):
    """Leaves are in units of the target, gradients of the absolute error are signs."""
    X, y, A, b = halves(*load_diabetes(return_X_y=True))
    options = {"loss": "absolute_error", "max_iter": 10, "max_leaf_nodes": 6, "early_stopping": False}
    small, large = (
        ti.importance(HistGradientBoostingRegressor(**options).fit(X, s * y), A, s * b, score=score)
        for s in (1.0, factor)
    )
    size = np.abs(small.scores).max()
    np.testing.assert_allclose(large.scores / factor, small.scores, rtol=0, atol=1e-7 * size)  # 2^-28 of a sign
    np.testing.assert_allclose(large.std_errors / factor, small.std_errors, rtol=FLOAT32)
    np.testing.assert_allclose(large.df, small.df, rtol=1e-5)
