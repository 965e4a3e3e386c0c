"""score="loss": what each feature did to the held-out loss; features and base add up to its fall."""

import math
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import log_loss, mean_squared_error

import treeinner as ti
from treeinner.errors import UnsupportedModelError

from . import oracle
from .cases import CASES, FLOAT32, INNER_METHODS, Case, N, units
from .forests import Recipe, make_ensemble, make_rows


def halves(data):
    """Every other row for training, the rest for the account."""
    X, y = data(return_X_y=True)
    X = X.astype(np.float32)
    return X[::2], y[::2], X[1::2], y[1::2]


def small(recipe, seed):
    """Steps of a fifth, as boosting takes them; some leaves are exactly 0."""
    e = make_ensemble(recipe, seed)
    value = np.where(np.arange(e.n_nodes)[:, None] % 5 > 0, 0.2 * e.value, 0.0)
    node_value = np.where(e.feature[:, None] < 0, value, 0.2 * e.node_value)
    return replace(e, value=value, node_value=node_value, base_score=0.1 * e.base_score)


# -- its definition on the full tensor -------------------------------------------------------------------------------
@pytest.fixture(scope="module", params=CASES)
def case(request):
    recipe, objective, options = CASES[request.param]
    return Case(recipe, objective, seed=sorted(CASES).index(request.param), **options)


def losses(case, margin):
    """Loss of every row: squared error / 2, or minus the log likelihood."""
    if case.objective == "softmax":
        return np.log(np.exp(margin).sum(axis=1)) - margin[np.arange(len(margin)), case.y]
    if case.objective == "logistic":
        return np.logaddexp(0, margin[:, 0]) - case.y * margin[:, 0]
    return ((margin - case.y.reshape(len(margin), -1)) ** 2).sum(axis=1) / 2


@pytest.mark.parametrize("method", INNER_METHODS)
def test_the_account_is_its_definition(case, method):
    """Attribution times the negative gradient averaged over the round's step, with standard errors of the shares."""
    mean = oracle.mean_residuals(case.e, case.X, case.gradient, case.weight)
    shares, r = case.shares(method, mean), case.tensor(method)
    imp = case.importance(score="loss", method=method, by_round=True)
    total, slack = imp.sum_of_weights, case.leaf_bound(r)
    assert np.all(np.abs(imp.by_round() * total - shares.sum(axis=(1, 3))) <= slack)
    rows = shares.sum(axis=0)
    if case.weight is not None:
        rows = rows[case.weight > 0]
    error = np.sqrt(len(rows)) * rows.sum(axis=2).std(axis=0, ddof=1)
    near = FLOAT32 if method != "treeshap" else 1e-9
    np.testing.assert_allclose(imp.std_errors * total, error, rtol=10 * near, atol=near * error.max())
    assert imp.statistics.n_units == units(case)
    # The base is the rest of every step.
    steps = oracle.steps(case.e, case.X)
    left = np.zeros_like(steps)
    np.add.at(left, case.e.tree_round, r.sum(axis=2))
    base = ((steps - left) * mean).sum(axis=(1, 2)) / total
    np.testing.assert_allclose(imp.losses.base_rounds, base, rtol=0, atol=slack.max() + 1e-9 * np.abs(base).sum())
    weight = np.ones(N) if case.weight is None else case.weight
    ends = np.tile(case.e.base_score, (N, 1)), oracle.predict(case.e, case.X)
    before, after = ((losses(case, margin) * weight).sum() / total for margin in ends)
    assert imp.losses.before == pytest.approx(before, rel=1e-12)
    assert imp.losses.after == pytest.approx(after, rel=1e-12)
    assert imp.scores.sum() + imp.base == pytest.approx(before - after, rel=1e-9)


@pytest.mark.parametrize("score", ["tree_inner", "loss"])
@pytest.mark.parametrize("method", INNER_METHODS)
def test_overshoot_is_what_the_slope_promised_and_the_loss_did_not_keep(case, score, method):
    steps = oracle.steps(case.e, case.X)
    weight = np.ones(N) if case.weight is None else case.weight
    before, after = (
        (losses(case, margin) * weight).sum()
        for margin in (np.tile(case.e.base_score, (N, 1)), oracle.predict(case.e, case.X))
    )
    first_order = (steps * case.residual).sum()
    imp = case.importance(score=score, method=method)
    slack = 2.0**-28 * np.abs(case.e.value).max() * np.abs(steps).sum()  # leaf sums hold gradients to 2^-28 of a leaf
    assert imp.losses.first_order * weight.sum() == pytest.approx(first_order, rel=1e-9, abs=slack)
    expected = 1 - (before - after) / first_order
    assert imp.overshoot == pytest.approx(expected, rel=1e-9, abs=2 * slack * (1 + abs(expected)) / abs(first_order))


def test_a_base_margin_weights_and_groups_are_part_of_the_account():
    X, y, A, b = halves(load_breast_cancer)
    model = xgb.train({"objective": "binary:logistic", "max_depth": 3, "nthread": 1}, xgb.DMatrix(X, y), 10)
    margin, weight = np.linspace(-2, 2, len(b)), np.random.default_rng(0).choice([0.0, 1.0, 3.0], len(b))
    given = {"base_margin": margin, "sample_weight": weight}
    alone = ti.importance(model, A, b, score="loss", **given)
    after = model.predict(xgb.DMatrix(A, base_margin=margin), output_margin=True).astype(float)
    expected = [np.average(np.logaddexp(0, f) - b * f, weights=weight) for f in (margin, after)]
    np.testing.assert_allclose([alone.losses.before, alone.losses.after], expected, rtol=1e-5)  # float32 margins
    assert alone.scores.sum() + alone.base == pytest.approx(alone.losses.before - alone.losses.after, rel=1e-9)
    grouped = ti.importance(model, A, b, score="loss", feature_groups={"all": range(30)}, **given)
    assert grouped.scores[0] == pytest.approx(alone.scores.sum(), rel=1e-9)
    assert grouped.base == pytest.approx(alone.base, rel=1e-9)


def test_a_users_attribution_is_accounted_too():
    X, y, A, b = halves(load_diabetes)
    model = xgb.train({"max_depth": 3, "nthread": 1}, xgb.DMatrix(X, y), 5)

    def half(tree, rows):
        """Half of Saabas: the other half is the base's."""
        return ti.attribute(tree, rows, method="saabas").values / 2

    own, whole = (ti.importance(model, A, b, score="loss", method=method) for method in (half, "saabas"))
    np.testing.assert_allclose(own.scores, whole.scores / 2, rtol=1e-7, atol=1e-7 * whole.scores.max())
    assert own.scores.sum() + own.base == pytest.approx(whole.losses.before - whole.losses.after, rel=1e-9)


# -- forests ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["centred", "predecomp", "treeshap"])
def test_a_forest_takes_one_step_from_the_values_of_its_roots(method):
    X, y, A, b = halves(load_diabetes)
    model = RandomForestRegressor(8, max_depth=4, random_state=0).fit(X, y)
    root = np.mean([tree.tree_.value[0, 0, 0] for tree in model.estimators_])
    imp = ti.importance(model, A, b, score="loss", method=method)
    before, after = mean_squared_error(b, np.full(len(b), root)) / 2, mean_squared_error(b, model.predict(A)) / 2
    assert imp.losses.before == pytest.approx(before, rel=1e-12)
    assert imp.losses.after == pytest.approx(after, rel=1e-12)
    assert imp.scores.sum() + imp.base == pytest.approx(before - after, rel=1e-9)
    # Squared error: the residual less half the step.
    residual = b - (root + model.predict(A)) / 2
    if method != "centred":
        values = ti.attribute(model, A, method=method).values
        np.testing.assert_allclose(imp.scores, (values * residual[:, None]).mean(axis=0), rtol=1e-7, atol=1e-7 * before)
        assert abs(imp.base) < 1e-9 * before  # the roots are where it began


@pytest.mark.parametrize("method", ["centred", "predecomp", "treeshap"])
@pytest.mark.parametrize("objective", ["regression", "binary"])
def test_a_forest_of_lightgbm_is_judged_by_its_own_loss(objective, method):
    X, y, A, b = halves(load_diabetes if objective == "regression" else load_breast_cancer)
    params = {"objective": objective, "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "verbose": -1}
    model = lgb.train(params | {"num_threads": 1, "num_leaves": 6}, lgb.Dataset(X, y), 8)
    found = model.predict(A)
    after = mean_squared_error(b, found) / 2 if objective == "regression" else log_loss(b, found)
    imp = ti.importance(model, A, b, score="loss", method=method)
    assert imp.losses.after == pytest.approx(after, rel=1e-12)
    assert imp.scores.sum() + imp.base == pytest.approx(imp.losses.before - after, rel=1e-9)


def test_a_forest_is_judged_by_the_loss_that_it_is_told():
    X, y, A, b = halves(load_diabetes)
    model = RandomForestRegressor(8, max_depth=4, random_state=0).fit(X, y)
    own, told = (ti.importance(model, A, b, score="loss", **more) for more in ({}, {"objective": "squared_error"}))
    np.testing.assert_allclose(told.scores, own.scores, rtol=1e-9)


def test_a_forest_of_classes_is_judged_by_the_brier_score():
    X, y, A, b = halves(load_wine)
    model = RandomForestClassifier(8, max_depth=3, random_state=0).fit(X, y)
    share = np.mean([tree.tree_.value[0, 0] for tree in model.estimators_], axis=0)
    imp = ti.importance(model, A, b, score="loss")
    truth = np.eye(3)[b]
    expected = [
        ((p - truth) ** 2).sum(axis=1).mean() / 2 for p in (np.tile(share, (len(b), 1)), model.predict_proba(A))
    ]
    np.testing.assert_allclose([imp.losses.before, imp.losses.after], expected, rtol=1e-12)
    assert imp.scores.sum() + imp.base == pytest.approx(expected[0] - expected[1], rel=1e-9)


# -- large steps, kinks, no steps ------------------------------------------------------------------------------------
def noisy(eta):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 8)).astype(np.float32)
    y = X[:, 0] + 2 * rng.normal(size=1200)
    model = xgb.train({"eta": eta, "max_depth": 4, "nthread": 1}, xgb.DMatrix(X[:600], y[:600]), 40)
    return model, X[600:], y[600:]


def test_steps_that_overshoot_are_told_and_the_account_sees_the_harm():
    model, X, y = noisy(1.0)
    with pytest.warns(ti.TreeInnerWarning, match=r"overshoot: .* use score='loss'"):
        first_order = ti.importance(model, X, y)
    assert first_order.overshoot > 0.3
    assert any("overshoot" in note for note in first_order.notes)
    account = ti.importance(model, X, y, score="loss")
    assert account.notes == ()
    assert account.overshoot == pytest.approx(first_order.overshoot, rel=1e-9)
    noise = slice(1, None)
    assert first_order.scores.sum() > 0 > account.losses.before - account.losses.after  # worse than its start
    assert np.all(account.scores[noise] < 0)
    assert set(account.verdicts[1:]) == {"harmful"}
    calm, X, y = noisy(0.05)
    quiet = ti.importance(calm, X, y)
    assert 0 < quiet.overshoot < 0.3
    assert quiet.notes == ()


def test_kinks_on_the_way_are_met_exactly():
    """Absolute error: the average of a sign over the step is a difference quotient."""
    e = small(Recipe(n_trees=5, depth=3), 7)
    X = make_rows(e, N, 8)
    start, step = e.base_score[0], oracle.steps(e, X)[:, :, 0]
    path = start + np.concatenate([np.zeros((1, N)), np.cumsum(step, axis=0)])
    y = path.mean(axis=0)  # between: most rows cross their target on the way
    crossed = (path[:-1] - y) * (path[1:] - y) < 0
    assert crossed.sum() > N // 3
    fall = np.abs(path[:-1] - y) - np.abs(path[1:] - y)
    slope = np.divide(fall, step, out=-np.sign(path[:-1] - y), where=step != 0)
    assert (step == 0).any()
    for method in ("centred", "treeshap"):
        tensor = oracle.centred_tensor(e, X) if method == "centred" else oracle.tensor(e, X, method)
        expected = oracle.tree_inner(e, tensor, slope[:, :, None]).sum(axis=(1, 3)) / N
        imp = ti.importance(e, X, y, objective="absolute_error", score="loss", method=method, by_round=True)
        leaf = np.abs(e.value).max()
        # Where no step was taken a sign stands at its kink; elsewhere leaf sums hold gradients to 2^-28 of a leaf.
        np.testing.assert_allclose(imp.by_round(), expected, rtol=0, atol=1e-9 * leaf)
        assert imp.scores.sum() + imp.base == pytest.approx(fall.sum() / N, rel=1e-9)


def test_a_perfect_start_has_nothing_to_gain():
    X, y, A, b = halves(load_diabetes)
    model = xgb.train({"max_depth": 3, "nthread": 1}, xgb.DMatrix(X, y), 5)
    imp = ti.importance(model, A, b, score="loss", base_margin=b)
    assert imp.losses.before == 0
    assert math.isnan(imp.explained)
    assert imp.scores.sum() + imp.base == pytest.approx(-imp.losses.after, rel=1e-9)


def test_steps_too_long_to_average_are_named():
    e = replace(small(Recipe(n_trees=2, depth=2, grow=1.0), 0))
    e = replace(e, value=1e5 * e.value, node_value=1e5 * e.node_value)
    X, y = make_rows(e, N, 1), np.arange(N) % 2
    with pytest.raises(UnsupportedModelError, match=r"moves a margin by up to .*, too far for score='loss'"):
        ti.importance(e, X, y, objective="logistic", score="loss")


# -- what cannot be accounted ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ("survival:cox", "'survival:cox' depends on all rows"),
        ("smooth_absolute_error", "'smooth_absolute_error' depends on all rows of the round"),
        ("rank:ndcg", "'rank:ndcg' depends on the rows of its query"),
        (lambda y, margin: margin - y, "has only a gradient; pass an Objective with `value`"),
    ],
)
def test_losses_without_a_value_per_row_are_refused_by_name(objective, message):
    e = small(Recipe(n_trees=2), 0)
    e = replace(e, library="xgboost", params={"version": "3.2.0"})
    for call in (
        lambda: ti.importance(e, make_rows(e, N, 1), np.arange(N) % 2, objective=objective, score="loss"),
        lambda: ti.ImportanceAccumulator(e, objective=objective, score="loss"),
    ):
        with pytest.raises(UnsupportedModelError, match=message):
            call()


def test_tree_inner_of_such_losses_has_no_overshoot():
    e = small(Recipe(n_trees=3), 0)
    X, y = make_rows(e, N, 1), np.random.default_rng(0).normal(size=N)
    imp = ti.importance(e, X, y, objective=lambda y, margin: margin - y)
    assert imp.losses is None
    assert math.isnan(imp.overshoot)
    assert math.isnan(imp.explained)
    with pytest.raises(ValueError, match="has no base; it belongs to score='loss'"):
        _ = imp.base


def test_out_of_bag_rows_have_no_account():
    X, y, _, _ = halves(load_diabetes)
    model = RandomForestRegressor(3, max_depth=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="oob=True only applies to score='tree_inner'"):
        ti.importance(model, X, y, score="loss", oob=True)
    assert ti.importance(model, X, y, oob=True).losses is None  # every tree on rows of its own


def test_gains_belong_to_tree_inner():
    model, X, y = noisy(0.3)
    with pytest.raises(ValueError, match="score='loss' has no gains"):
        _ = ti.importance(model, X, y, score="loss").gains
