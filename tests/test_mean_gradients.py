"""Gradients averaged over a step, against the loss's own differences; the least loss; the rules of quadrature."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import rel_entr

from treeinner.errors import DataError, UnsupportedModelError
from treeinner.objectives import Objective, get, quadrature

from .test_objectives import ELEMENTWISE

ROWS = 300
SIZES = (0.0, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 5.0)
EPS = np.finfo(float).eps

# (library, name, parameters, outputs, whether the gradient has no jumps or kinks)
CASES = [(c[0], c[1], c[2], 1, c[4] is None) for c in ELEMENTWISE]
CASES += [
    ("xgboost", "multi:softprob", {}, 3, True),
    ("lightgbm", "multiclass", {}, 9, True),
    ("catboost", "MultiClass", {"class_weights": [1.0, 2.0, 5.0]}, 3, True),
    ("sklearn", "log_loss", {}, 3, True),
    ("lightgbm", "multiclassova", {"sigmoid": 0.7, "scale_pos_weight": 2.0}, 3, True),
    ("catboost", "MultiClassOneVsAll", {"class_weights": [1.0, 2.0, 5.0]}, 3, True),
    ("catboost", "MultiRMSE", {}, 3, True),
    ("catboost", "MultiLogloss", {}, 3, True),
    ("catboost", "MultiQuantile", {"alpha": [0.1, 0.5, 0.9]}, 3, False),
    ("xgboost", "reg:expectileerror", {"expectile_alpha": [0.2, 0.5, 0.8]}, 3, False),
    ("xgboost", "survival:aft", {"aft_loss_distribution": "normal"}, 1, False),
    ("xgboost", "survival:aft", {"aft_loss_distribution": "logistic"}, 1, False),
    ("xgboost", "survival:aft", {"aft_loss_distribution": "extreme"}, 1, False),
    ("", "lq", {"q": 1.0}, 1, False),
    ("", "lq", {"q": 1.5}, 1, False),
]
CASES = [c for c in CASES if get(c[1], library=c[0], n_outputs=c[3], **c[2]).scope == "row"]
each_loss = pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}")


def draw(case, seed=0):
    """Return the loss, targets of its domain, margins on both sides of every kink and clip, and weights."""
    library, name, params, outputs, _ = case
    objective = get(name, library=library, n_outputs=outputs, **params)
    rng = np.random.default_rng(seed)
    shape = (ROWS,) if outputs == 1 or objective.shared_target else (ROWS, outputs)
    if objective.target == "class":
        y = rng.integers(0, outputs, ROWS).astype(float)
    elif objective.target == "interval":
        low = rng.gamma(2.0, 1.0, ROWS)
        high = low + rng.gamma(1.0, 1.0, ROWS)
        low[:60], high[60:120], high[120:180] = 0.0, np.inf, low[120:180]
        y = np.column_stack([low, high])
    else:
        pools = (2.0 * rng.normal(size=shape), rng.gamma(1.0, 2.0, shape), rng.random(shape), rng.integers(0, 2, shape))
        pools[2].flat[: ROWS // 4] = pools[3].flat[: ROWS // 4]  # hard labels too
        y = next(p for p in pools if np.all(objective.domain.contains(p.astype(float)))).astype(float)
    return objective, y, 2.0 * rng.normal(size=(ROWS, outputs)), rng.choice([0.5, 1.0, 3.0], ROWS), rng


@each_loss
def test_step_times_mean_gradient_is_the_change_of_the_loss(case):
    objective, y, m, weight, rng = draw(case)
    for size in SIZES:
        step = size * rng.uniform(-1, 1, m.shape)
        mean = objective.mean_gradients(y, m, step, weight=weight, largest_step=size)
        before, after = (objective.losses(y, at, weight=weight) for at in (m, m + step))
        g = [np.abs(objective.gradients(y, at, weight=weight)) for at in (m, m + step)]
        # What rounding leaves of a difference: 16 eps of the losses, and of the margins times the gradient.
        scale = np.abs(before) + np.abs(after) + ((np.abs(m) + size) * np.maximum(*g)).sum(axis=1)
        # Several expectiles: pieces of the way around kinks, each to 1e-14 of the gradient.
        tolerance = 1e-12 if objective.coupled else 40 * EPS
        error = (step * mean).sum(axis=1) - (after - before)
        assert np.all(np.abs(error) <= tolerance * scale)
        if size >= 1e-6:  # below, the clipped gradients of squared log error (1e7) drown in 1e-12 of the loss
            assert abs(error.sum()) <= 1e-12 * np.abs(before).sum()


@pytest.mark.parametrize("case", [c for c in CASES if c[-1]], ids=lambda c: f"{c[0]}-{c[1]}")
def test_each_component_is_the_average_of_its_own_partial_derivative(case):
    objective, y, m, weight, rng = draw(case, seed=1)
    for size in SIZES:
        step = size * rng.uniform(-1, 1, m.shape)
        mean = objective.mean_gradients(y, m, step, weight=weight, largest_step=size)
        points = zip(*quadrature.gauss(32, 4), strict=True)
        expected = sum(w * objective.gradients(y, m + u * step, weight=weight) for u, w in points)
        largest = np.maximum(np.abs(expected), np.abs(objective.gradients(y, m, weight=weight)))
        # Largest error at the border between quotient and quadrature, 5e-12; gradients near 0 are differences.
        np.testing.assert_array_less(np.abs(mean - expected), 3e-11 * largest + 1e-13 * largest.mean())


@each_loss
def test_a_step_of_0_gives_the_gradient(case):
    objective, y, m, weight, rng = draw(case)
    step = rng.uniform(-1, 1, m.shape)
    step[::2] = 0.0
    mean = objective.mean_gradients(y, m, step, weight=weight, largest_step=1.0)
    np.testing.assert_array_equal(mean[::2], objective.gradients(y, m, weight=weight)[::2])


def test_weights_multiply():
    for name, outputs in (("absolute_error", 1), ("gamma", 1), ("softmax", 3)):
        objective, y, m, weight, rng = draw(("", name, {}, outputs, True))
        step = rng.uniform(-1, 1, m.shape)
        plain = objective.mean_gradients(y, m, step, largest_step=1.0)
        weighted = objective.mean_gradients(y, m, step, weight=weight, largest_step=1.0)
        np.testing.assert_array_equal(weighted, plain * weight[:, None])
        np.testing.assert_array_equal(objective.losses(y, m, weight=weight), objective.losses(y, m) * weight)


# -- kinks -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [1e-9, 1e-5, 1e-2, 1.0, 30.0])
def test_absolute_and_pinball_losses_across_their_kink(size):
    rng = np.random.default_rng(0)
    y = rng.normal(size=50)
    m = y - size * rng.random(50)
    step = 2.0 * size * rng.random(50)
    r = [(Fraction(a) - Fraction(b), Fraction(c)) for a, b, c in zip(m, y, step, strict=True)]
    absolute = [float((abs(a + s) - abs(a)) / s) for a, s in r]
    pinball = [float((max(4 * (a + s), -(a + s)) - max(4 * a, -a)) / s / 5) for a, s in r]
    relative = [a / max(1.0, abs(b)) for a, b in zip(absolute, y, strict=True)]
    for name, params, expected in (
        ("absolute_error", {}, absolute),
        ("quantile", {"alpha": 0.2}, pinball),
        ("mape", {}, relative),
    ):
        mean = get(name, **params).mean_gradients(y, m, step, largest_step=2.0 * size)[:, 0]
        # Rounding of m + step, about 1, and of the two losses.
        np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-14 + 50 * EPS * (1.0 + size) / step.min())
    assert np.ptp(np.sign(absolute)) > 0


def test_where_a_gradient_is_clipped_the_account_follows_the_loss():
    lifted = get("reg:squaredlogerror")  # below -1 the margin is lifted: the loss is flat, the gradient is not
    assert lifted.gradients([2.0], [-3.0])[0, 0] < -1e6
    assert lifted.mean_gradients([2.0], [-3.0], [1.0], largest_step=1.0)[0, 0] == 0.0
    aft = get("survival:aft", aft_loss_distribution="normal")  # likelihoods below 1e-12 count as 1e-12
    assert aft.gradients([[1.0, 1.0]], [20.0])[0, 0] == 15.0
    assert aft.mean_gradients([[1.0, 1.0]], [20.0], [1.0], largest_step=1.0)[0, 0] == 0.0
    dead_zone = get("Quantile:alpha=0.5;delta=0.1", library="catboost")  # |r| < delta: the gradient is 0
    assert dead_zone.gradients([0.0], [0.01])[0, 0] == 0.0
    assert dead_zone.mean_gradients([0.0], [0.01], [0.05], largest_step=1.0)[0, 0] == pytest.approx(0.5, rel=1e-14)


def test_several_expectiles_one_output_at_a_time():
    # Along one output alone its component is the difference quotient, kinks or not.
    objective, y, m, _, rng = draw(("xgboost", "reg:expectileerror", {"expectile_alpha": [0.2, 0.5, 0.8]}, 3, False))
    for k in range(3):
        step = np.zeros_like(m)
        step[:, k] = rng.uniform(0.5, 3.0, ROWS)
        mean = objective.mean_gradients(y, m, step, largest_step=3.0)
        expected = (objective.losses(y, m + step) - objective.losses(y, m)) / step[:, k]
        largest = np.abs([objective.gradients(y, m), objective.gradients(y, m + step)]).max(axis=(0, 2))
        error = np.abs(mean[:, k] - expected) / largest
        # A piece and its halves may agree by accident: the worst of 60,000 ways was 9e-12, one in a thousand 2e-13.
        assert np.max(error) < 1e-10
        assert np.quantile(error, 0.98) < 1e-12


def crossing(y, m):
    return np.abs(m[:, 0] - m[:, 1])


def test_coupled_losses_of_ones_own_may_jump():
    own = Objective(
        "crossing", crossing, lambda y, m: np.sign(m[:, :1] - m[:, 1:]) * [1.0, -1.0], coupled=True, target="any"
    )
    rng = np.random.default_rng(0)
    m, step = rng.normal(size=(60, 2)), rng.normal(size=(60, 2))
    apart, change = m[:, 0] - m[:, 1], step[:, 0] - step[:, 1]
    expected = (np.abs(apart + change) - np.abs(apart)) / change
    mean = own.mean_gradients(np.zeros(60), m, step, largest_step=4.0)
    np.testing.assert_allclose(mean, expected[:, None] * [1.0, -1.0], rtol=0, atol=1e-12)
    assert np.count_nonzero(np.abs(expected) < 0.99) > 10
    # Its outputs share one loss, so that none of them has a difference quotient of its own.
    forgotten = Objective("crossing", crossing, own.gradient, target="any")
    with pytest.raises(DataError, match="coupled=True"):
        forgotten.mean_gradients(np.zeros(60), m, step, largest_step=4.0)


@pytest.mark.parametrize("name", ["softmax", "reg:expectileerror", "absolute_error"])
def test_rows_do_not_change_each_other(name):
    outputs = 1 if name == "absolute_error" else 9
    levels = np.linspace(0.1, 0.9, 9).tolist()
    objective, y, m, weight, rng = draw(("", name, {"expectile_alpha": levels}, outputs, True))
    step = rng.normal(size=m.shape)

    def means(rows):
        return objective.mean_gradients(y[rows], m[rows], step[rows], weight=weight[rows], largest_step=5.0)

    order = rng.permutation(ROWS)
    np.testing.assert_array_equal(means(order), means(np.arange(ROWS))[order])
    np.testing.assert_array_equal(means(order[:17]), means(np.arange(ROWS))[order[:17]])


# -- refusals --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["survival:cox", "lambdarank", "smooth_absolute_error", "QueryRMSE"])
def test_losses_of_more_than_one_row_are_refused(name):
    with pytest.raises(UnsupportedModelError, match=r"loss of each row.*score='tree_inner'"):
        get(name).mean_gradients([1.0, 2.0], [0.0, 0.0], [1.0, 1.0], largest_step=1.0)


def test_losses_without_a_value_are_refused():
    own = Objective("mine", None, lambda y, m: m - y)
    with pytest.raises(UnsupportedModelError, match="'mine' has only a gradient; pass an Objective with `value`"):
        own.mean_gradients([1.0], [0.0], [1.0], largest_step=1.0)
    half = Objective("half", lambda y, m: m - y, lambda y, m: m - y, weighted_gradient=lambda y, m, w: w * (m - y))
    half.check_account()
    with pytest.raises(UnsupportedModelError, match="'half' has only a gradient"):
        half.mean_gradients([1.0], [0.0], [1.0], weight=[2.0], largest_step=1.0)


def test_infinite_losses_are_one_clear_error():
    with pytest.raises(DataError, match="gradient of row 1 is inf at margin 700"):
        get("poisson").mean_gradients([1.0, 1.0], [0.0, 700.0], [50.0, 50.0], largest_step=50.0)


# -- the least loss --------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", [c for c in CASES if c[3] == 1], ids=lambda c: f"{c[0]}-{c[1]}")
def test_no_margin_does_better_than_the_least_loss(case):
    objective, y, _, weight, _ = draw(case)
    rows, grid = 40, np.linspace(-20.0, 20.0, 4001)
    least = objective.least_losses(y[:rows], weight=weight[:rows])
    if objective.target == "interval":  # the likelihood of an exact time has no bound
        assert least is None
        return
    repeated, margin = np.repeat(np.arange(rows), len(grid)), np.tile(grid, rows)
    losses = objective.losses(y[repeated], margin, weight=weight[repeated]).reshape(rows, -1)
    above = losses.min(axis=1) - least
    assert np.all(above >= -1e-13 * (1.0 + np.abs(least)))
    # The grid's best point is up to .005 from the best margin, where a loss has a slope of up to 10 times weight 3.
    assert np.all(above < 0.15)
    assert np.median(above) < 0.01


@pytest.mark.parametrize("name", ["softmax", "one_vs_all", "MultiRMSE", "MultiQuantile", "reg:expectileerror"])
def test_several_outputs_can_be_perfect(name):
    levels = [0.2, 0.5, 0.8]
    objective, y, m, _, _ = draw(("", name, {"alpha": levels, "expectile_alpha": levels}, 3, True))
    perfect = {"class": 80.0 * (y.reshape(ROWS, -1) == np.arange(3)) - 40.0, "real": m * 0.0 + y.reshape(ROWS, -1)}
    if name == "reg:expectileerror":  # softplus(-40) and XGBoost's 1e-6 between them
        perfect["real"][:, 1:] = -40.0
    np.testing.assert_array_equal(objective.least_losses(y), 0.0)
    np.testing.assert_allclose(objective.losses(y, perfect[objective.target]), 0.0, atol=1e-11)


def test_losses_above_the_least_are_half_the_deviance():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    y, m, w = rng.gamma(1.0, 2.0, 200), rng.normal(size=200), rng.random(200)
    for name, params, deviance in (
        ("poisson", {}, metrics.mean_poisson_deviance),
        ("gamma", {}, metrics.mean_gamma_deviance),
        ("tweedie", {"rho": 1.3}, lambda *a, **k: metrics.mean_tweedie_deviance(*a, power=1.3, **k)),
    ):
        objective = get(name, **params)
        above = objective.losses(y, m, weight=w) - objective.least_losses(y, weight=w)
        expected = deviance(y, np.exp(m), sample_weight=w)
        assert 2.0 * above.sum() / w.sum() == pytest.approx(expected, rel=1e-12)
    assert get("gamma", library="lightgbm").least_losses([0.0, 1.0]).tolist() == [-np.inf, 1.0]


def test_soft_labels_have_the_entropy_for_least():
    rng = np.random.default_rng(0)
    y, m = rng.random(200), rng.normal(size=200)
    p = 1.0 / (1.0 + np.exp(-2.0 * m))
    objective = get("binary:logistic")
    above = objective.losses(y, 2.0 * m) - objective.least_losses(y)
    np.testing.assert_allclose(above, rel_entr(y, p) + rel_entr(1.0 - y, 1.0 - p), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(objective.least_losses([0.0, 1.0]), 0.0)


def test_losses_are_the_metrics_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    y, m, w = rng.normal(size=200), 30.0 * rng.normal(size=200), rng.random(200)
    label, three = (y > 0).astype(float), rng.integers(0, 3, 200)
    scores = rng.normal(size=(200, 3))

    def mean(name, target, margin, **params):
        outputs = 1 if margin.ndim == 1 else 3
        return get(name, n_outputs=outputs, **params).losses(target, margin, weight=w).sum() / w.sum()

    for ours, theirs in (
        (mean("absolute_error", y, m), metrics.mean_absolute_error(y, m, sample_weight=w)),
        (mean("quantile", y, m, alpha=0.3), metrics.mean_pinball_loss(y, m, alpha=0.3, sample_weight=w)),
        (2.0 * mean("squared_error", y, m), metrics.mean_squared_error(y, m, sample_weight=w)),
        (mean("hinge", label, m), metrics.hinge_loss(label, m, sample_weight=w)),
        (mean("logistic", label, m / 30), metrics.log_loss(label, 1.0 / (1.0 + np.exp(-m / 30)), sample_weight=w)),
        (
            mean("softmax", three, scores),
            metrics.log_loss(three, get("softmax", n_outputs=3).link(scores), sample_weight=w),
        ),
    ):
        assert ours == pytest.approx(theirs, rel=1e-12)
    # A sure and right prediction costs e^-margin, to the last digit.
    np.testing.assert_allclose(get("logistic").losses([1.0], [50.0]), np.exp(-50.0), rtol=1e-15)
    np.testing.assert_allclose(get("softmax", n_outputs=2).losses([1], [[-25.0, 25.0]]), np.exp(-50.0), rtol=1e-15)


def test_weights_inside_a_loss_are_lightgbms():
    lgb = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(300, 2)), rng.random(300), rng.random(300) + 0.2
    name, found = "cross_entropy_lambda", {}
    data = lgb.Dataset(X, y, weight=w)
    options = {"objective": name, "metric": name, "verbose": -1, "num_threads": 1}
    model = lgb.train(options, data, 3, valid_sets=[data], callbacks=[lgb.record_evaluation(found)])
    objective = get(name, library="lightgbm")
    for i, metric in enumerate(found["training"][name]):
        margin = model.predict(X, raw_score=True, num_iteration=i + 1)
        assert objective.losses(y, margin, weight=w).mean() == pytest.approx(
            metric, rel=1e-6
        )  # float32 labels, weights
    np.testing.assert_array_equal(objective.least_losses(y, weight=w), objective.least_losses(y))


# -- quadrature ------------------------------------------------------------------------------------------
def logistic_error(n, length):
    """Largest relative error of n points for the mean of the logistic function over any way of this length."""
    at, weights = quadrature.gauss(n)
    start = np.linspace(-length - 15.0, 15.0, 1501)[:, None]
    mean = np.log1p(np.expm1(length) / (1.0 + np.exp(-start[:, 0]))) / length
    return np.max(np.abs((1.0 / (1.0 + np.exp(-start - length * at))) @ weights / mean - 1.0))


def exponential_error(n, length):
    at, weights = quadrature.gauss(n)
    return abs(np.exp(length * at) @ weights / (np.expm1(length) / length) - 1.0)


@pytest.mark.parametrize(("kind", "error"), [("logistic", logistic_error), ("poisson", exponential_error)])
def test_points_are_enough_and_not_more(kind, error):
    lengths = np.geomspace(1e-4, quadrature.REACH[kind], 120)
    found = [quadrature.points(kind, length) for length in lengths]
    assert found[-1] == (quadrature.MOST_POINTS, 1)
    for length, (n, parts) in zip(lengths, found, strict=True):
        assert parts == 1
        assert error(n, length) < 1e-12
        if n > 2:  # logistic: counted for softmax too, whose classes between two others need up to one more
            assert error(n - (1 if kind == "poisson" else 2), length) > 1e-12


def test_points_are_enough_for_softmax():
    # Worst cases by search: two classes apart, with others between them or behind them.
    rng = np.random.default_rng(0)
    fine, fine_weights = quadrature.gauss(32, 8)
    for largest in (0.03, 0.2, 1.0, 3.0, 6.5):
        m = rng.normal(size=(300, 4)) * rng.choice([0.3, 1.0, 2.0 * largest], (300, 1)) - [0.0, 0.0, 8.0, 4.0]
        step = largest * np.where(rng.random((300, 4)) < 0.6, rng.choice([-1.0, 1.0], (300, 4)), 0.0)
        objective = get("softmax", n_outputs=4)

        def probability(at, weights, m=m, step=step, objective=objective):
            return sum(w * objective.link(m + u * step) for u, w in zip(at, weights, strict=True))

        expected = probability(fine, fine_weights)
        error = np.abs(probability(*quadrature.rule("softmax", largest)) / expected - 1.0)
        assert np.max(error) < 1e-12
        assert np.max(np.abs(probability(*quadrature.gauss(1)) / expected - 1.0)) > 1e-6


def test_long_steps_are_taken_in_parts():
    for kind, step, scale in (("logistic", 100.0, 1.0), ("logistic", 10.0, 10.0), ("poisson", 300.0, 1.0)):
        n, parts = quadrature.points(kind, step, scale)
        assert n <= quadrature.MOST_POINTS
        assert parts > 1
        at, weights = quadrature.rule(kind, step, scale)
        assert len(at) == n * parts
        assert weights.sum() == pytest.approx(1.0, rel=1e-14)
        length = step * scale
        if kind == "poisson":
            mean, expected = np.exp(length * (at - 1.0)) @ weights, -np.expm1(-length) / length
        else:
            mean, expected = 1.0 / (1.0 + np.exp(3.0 - length * at)) @ weights, np.logaddexp(0, length - 3.0) / length
            expected -= np.logaddexp(0, -3.0) / length
        assert mean == pytest.approx(expected, rel=1e-12)
    assert quadrature.points("squared", 1e30) == (1, 1)
    assert quadrature.points("softmax", 0.0) == (1, 1)
    with pytest.raises(UnsupportedModelError, match=r"up to 1e\+30.*leaf values"):
        quadrature.rule("softmax", 1e30)
