"""Standard errors, intervals, p and q values of scores: against scipy and brute force; weights, clusters, few rows."""

import time

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from sklearn.utils.class_weight import compute_sample_weight

import treeinner as ti
from tests import oracle
from tests.cases import CASES, FLOAT32, METHODS, N, check_errors, logistic, make_case
from tests.fitted import REAL, boosted, halves
from tests.forests import Recipe, make_model, make_rows, make_trees
from treeinner.score.infer import benjamini_hochberg, of_clusters, of_sums

VALUES = st.floats(-100, 100).map(lambda v: v if abs(v) > 1e-20 else 0.0)  # no fourth power underflows
SHARES = hnp.arrays(np.float64, st.tuples(st.integers(2, 12), st.integers(1, 4)), elements=VALUES)
SCORES = ["signal", "tree_inner", "loss"]
ASKED = [("signal", "centred"), *((score, method) for score in SCORES[1:] for method in METHODS)]


def statistics(shares):
    """Statistics of rows by their sums."""
    return of_sums(*(np.sum(shares**power, axis=0) for power in (1, 2, 4)), len(shares))


def effective_df(shares):
    """Effective units less one, at least 1 and less than their number."""
    squares = shares**2
    effective = squares.sum(axis=0) ** 2 / np.where(squares.any(axis=0), (squares**2).sum(axis=0), 1)
    return np.where(squares.any(axis=0), np.clip(effective - 1, 1, len(shares) - 1), len(shares) - 1)


# -- from shares to statistics ---------------------------------------------------------------------------------------
@settings(max_examples=100, deadline=None)
@given(SHARES)
def test_rows_and_clusters_have_the_error_of_a_sum_and_students_t_of_the_effective_rows(s):
    for found in (statistics(s), of_clusters(s)):
        np.testing.assert_allclose(found.df, effective_df(s), rtol=1e-9)
        # Sums of squares cancel to about eps times their size; its root is what the error may be off by.
        slack = 1e-7 * np.sqrt((s * s).sum(axis=0))
        expected = np.sqrt(len(s)) * s.std(axis=0, ddof=1)
        assert np.all(np.abs(found.std_error - expected) <= slack + 1e-9 * expected)
        used = found.std_error > 0
        t = np.abs(found.score[used] / found.std_error[used])
        np.testing.assert_allclose(found.p_value[used], 2 * stats.t.sf(t, found.df[used]), rtol=1e-9)
        assert np.all(found.p_value[~used] == 1)
        np.testing.assert_allclose(found.q_value, stats.false_discovery_control(found.p_value), rtol=1e-14)


def test_corners():
    alike = statistics(np.array([[1.0, 0.0, -1.0], [1.0, 0.0, -1.0]]))
    assert alike.std_error[1] == 0
    assert alike.p_value[1] == 1
    assert alike.p_value[[0, 2]].max() < 1e-6  # by the same amount in every row, useful or harmful
    for single in (statistics(np.ones((1, 3))), of_clusters(np.ones((1, 3)))):
        assert np.isinf(single.std_error).all()
        assert np.all(single.p_value == 1)
    drowned = statistics(np.full((1000, 1), 1e8) + np.random.default_rng(4).normal(size=(1000, 1)) * 1e-6)
    assert drowned.std_error[0] > 0
    families = np.random.default_rng(0).random((9, 3))
    expected = np.column_stack([stats.false_discovery_control(column) for column in families.T])
    np.testing.assert_allclose(benjamini_hochberg(families), expected, rtol=1e-14)


# -- of scores -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CASES)
def test_error_degrees_of_freedom_and_p_are_those_of_the_oracles_shares(name, method, clustered):
    case = make_case(name)
    labels = np.random.default_rng(0).integers(0, 9, N) if clustered else np.arange(N)
    imp = case.importance(method=method, clusters=labels if clustered else None)
    rows = case.shares(method).sum(axis=0)
    units = np.array([rows[case.alive & (labels == c)].sum(axis=0) for c in np.unique(labels[case.alive])])
    parts = [(imp, units.sum(axis=2))]
    if case.trees.n_outputs > 1:
        parts += [(imp.for_output(k), units[:, :, k]) for k in range(3)]
    for found, shares in parts:
        check_errors(found.std_errors * imp.sum_of_weights, shares)
        used = np.abs(shares).sum(axis=0) > 1e-12 * np.abs(shares).sum()
        np.testing.assert_allclose(found.df[used], effective_df(shares)[used], rtol=1e-4)  # fourth powers of float32
        t = np.abs(found.scores[used] / found.std_errors[used])
        np.testing.assert_allclose(found.p_values[used], 2 * stats.t.sf(t, found.df[used]), rtol=1e-9)


@pytest.mark.parametrize(("score", "method"), ASKED)
def test_an_interval_leaves_0_out_where_p_is_below_one_less_its_level(score, method):
    trees = make_trees(Recipe(n_trees=60, depth=3, n_columns=80), 0)
    case, X = make_case("one output"), make_rows(trees, 120, 1)
    y, weight = np.random.default_rng(2).normal(size=120), np.random.default_rng(3).gamma(0.5, size=120) + 1e-3
    events = 0
    for more in ({}, {"sample_weight": weight}, {"clusters": np.arange(120) // 4}):
        imp = ti.importance(make_model(trees, case.model.loss), X, y, score=score, method=method, **more)
        for level in (0.5, 0.8, 0.95):
            low, high = imp.interval(level)
            np.testing.assert_allclose((low + high) / 2, imp.scores, rtol=0, atol=1e-12 * np.abs(imp.scores).max())
            outside, used = (low > 0) | (high < 0), imp.std_errors > 0
            np.testing.assert_array_equal(outside[used], (imp.p_values < 1 - level)[used])
            events += np.count_nonzero(outside)
        found = np.where(imp.scores > 0, "signal", "harmful")
        assert imp.verdicts == tuple(np.where(imp.q_values <= 0.1, found, "unclear"))
    assert events > 20
    for level in (0, 1, 95, -0.1, np.nan):
        with pytest.raises(ValueError, match="level"):
            imp.interval(level)


# -- clusters --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("score", ["signal", "tree_inner"])
@pytest.mark.parametrize("name", ["one output", "three classes"])
def test_clusters_of_single_rows_and_of_copies_say_what_the_rows_say(name, score):
    case = make_case(name)
    plain, which = case.importance(score=score), np.tile(np.arange(N), 3)
    single = case.importance(score=score, clusters=np.arange(N))
    given = {"sample_weight": None if case.weight is None else case.weight[which], "score": score}
    patients = [f"patient {i}" for i in which]
    copies = ti.importance(case.model, case.X[which], case.y[which], clusters=patients, **given)
    for found in (single, copies):
        np.testing.assert_allclose(found.scores, plain.scores, rtol=1e-12)
        np.testing.assert_allclose(found.std_errors, plain.std_errors, rtol=1e-9)
        np.testing.assert_allclose(found.p_values, plain.p_values, rtol=1e-6)
    torn = ti.importance(case.model, case.X[which], case.y[which], **given)
    assert np.all(torn.std_errors <= plain.std_errors)


def test_clusters_of_many_rows_take_next_to_no_time():
    """Label by label in Python it took 3 s."""
    trees = make_trees(Recipe(n_trees=20, depth=4, n_columns=8), 0)
    model, X = make_model(trees, make_case("one output").model.loss), np.random.default_rng(0).normal(size=(200_000, 8))
    labels = np.random.default_rng(1).integers(0, 2000, len(X))

    def seconds(**given):
        start = time.process_time()
        ti.importance(model, X, X[:, 0], n_jobs=1, **given)
        return time.process_time() - start

    seconds()
    without, with_them = (min(seconds(**more) for _ in range(3)) for more in ({}, {"clusters": labels}))
    assert with_them - without < 0.15 + 0.5 * without


# -- weights ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("score", "method"), ASKED)
def test_a_row_of_weight_0_is_not_there(score, method):
    case = make_case("one output")
    alive, options = case.alive, {"method": method, "score": score}
    clusters = np.where(alive, np.arange(N) % 5, 99)  # a cluster of such rows only
    for more in ({}, {"clusters": clusters}):
        kept = {name: value[alive] for name, value in more.items()}
        a = case.importance(**options, **more)
        b = ti.importance(case.model, case.X[alive], case.y[alive], sample_weight=case.weight[alive], **options, **kept)
        for name in ("scores", "std_errors", "df", "p_values"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@pytest.mark.parametrize("factor", [1e-30, 1 / 3, 1e5, 2.0**60])
@pytest.mark.parametrize("name", ["one output", "three classes"])
def test_the_unit_of_the_weights_changes_nothing(name, factor):
    case = make_case(name)
    for method in METHODS:
        a, b = (case.importance(method=method, sample_weight=f * case.weight) for f in (1.0, factor))
        assert b.sum_of_weights == pytest.approx(factor * a.sum_of_weights, rel=1e-12)
        np.testing.assert_allclose(
            b.scores, a.scores, rtol=0, atol=2e-7 * np.abs(a.scores).max()
        )  # units of the leaf sums
        np.testing.assert_allclose(b.std_errors, a.std_errors, rtol=10 * FLOAT32)
        if factor == 2.0**60:  # a power of two: the same bits
            np.testing.assert_array_equal(b.scores, a.scores)
            np.testing.assert_array_equal(b.p_values, a.p_values)


def test_weights_far_apart_are_right_down_to_a_limit_and_then_refused():
    case, weight = make_case("one output"), np.ones(N)
    weight[::3] = 2.0**-24
    residual = oracle.residuals(case.trees, case.X, case.gradient, weight)
    shares = oracle.centred_shares(case.trees, case.X, residual, weight).sum(axis=(0, 3))
    found = case.importance(sample_weight=weight).scores * weight.sum()
    np.testing.assert_allclose(found, shares.sum(axis=0), rtol=0, atol=1e-7 * np.abs(shares).sum())
    weight[3] = np.nextafter(2.0**-24, 0)
    with pytest.raises(ti.DataError, match=r"row 3.*2\^-24"):
        case.importance(sample_weight=weight)


@pytest.mark.parametrize(("largest", "clusters", "few"), [
    (1.0, None, 200), (3.0, 20, 20), (100.0, None, 8.8), (1e5, None, 1), (1.0, 19, 19), (1.0, 2, 2), (1.0, 1, 1),
])  # fmt: skip
def test_few_rows_by_weight_and_few_clusters_have_a_note_and_no_sure_verdict(largest, clusters, few):
    Z, noise = np.random.default_rng(0).normal(size=(400, 5)), np.random.default_rng(1).normal(size=400)
    X, y, A, b = halves(Z, 9 * Z[:, 0] + noise)
    weight, labels = np.append(largest, np.ones(len(b) - 1)), clusters and np.arange(len(b)) % clusters
    imp = ti.importance(boosted(X, y), A, b, sample_weight=weight, clusters=labels)
    assert ("few_rows" in [note.code for note in imp.notes]) == (few < 20)
    assert imp.df.max() <= max(few - 1, 1) + 0.05
    assert (imp["f0"].verdict == "signal") == (few > 2)


# -- rows that say little --------------------------------------------------------------------------------------------
def codes(imp):
    """What is said about a result."""
    return {note.code for note in imp.notes if not note.quiet}


@pytest.mark.parametrize("score", SCORES)
def test_one_row_and_few_rows_are_scored_with_a_word(score):
    fitted = REAL["logistic"]
    with pytest.warns(ti.TreeInnerWarning, match="Few rows"):
        imp = ti.importance(fitted.model, fitted.X[:1], fitted.y[:1], score=score)
    assert codes(imp) == {"few_rows"}
    assert np.all(imp.scores == 0)  # every node's mean is the row's own leaf value: nothing is told apart
    assert np.isinf(imp.std_errors).all()
    assert np.all(imp.p_values == 1)
    assert set(imp.verdicts) == {"unclear"}
    with pytest.warns(ti.TreeInnerWarning, match="Few rows"):
        assert "few_rows" in codes(ti.importance(fitted.model, fitted.X[:9], fitted.y[:9], score=score))
    with pytest.warns(ti.TreeInnerWarning, match="Few rows"):  # of two rows both have the same share
        assert set(ti.importance(fitted.model, fitted.X[:2], fitted.y[:2], score=score).verdicts) == {"unclear"}


def test_few_rows_that_agree_are_a_verdict_from_seven_on():
    """Student's t of the effective rows: n equal shares have t = sqrt(n) with n - 1 degrees of freedom."""
    X, p = np.random.default_rng(0).normal(size=(800, 3)), []
    for every in (80, 40):
        X[:, 1] = np.arange(800) % every == 0
        y = X[:, 0] + 300 * X[:, 1] + np.random.default_rng(1).normal(size=800)
        imp = ti.importance(boosted(X[:400], y[:400], min_child_weight=0), X[400:], y[400:])
        n = 400 // every
        p.append(imp["f1"].p_value)
        assert any(note.text.startswith("f1:") for note in imp.notes) == (imp["f1"].verdict == "signal")
        assert imp.df[1] == pytest.approx(n - 1, abs=0.5)
        assert p[-1] == pytest.approx(2 * stats.t.sf(np.sqrt(n), n - 1), rel=0.2)
    assert p[0] > 0.05 > p[1]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", ["logistic", "squared", "softmax"])
def test_one_class_and_a_constant_target_are_scored_with_a_word(name, score):
    fitted = REAL[name]
    y = np.full(len(fitted.y), fitted.y[0])
    with pytest.warns(ti.TreeInnerWarning, match="same target"):
        imp = ti.importance(fitted.model, fitted.X, y, score=score)
    assert "one_target" in codes(imp)
    assert np.isfinite(imp.scores).all()
    assert "one_target" not in codes(ti.importance(fitted.model, fitted.X, fitted.y, score=score))


@pytest.mark.parametrize("score", SCORES)
def test_trees_of_one_leaf_score_nothing(score):
    X, y, A, b = halves(np.random.default_rng(0).normal(size=(200, 4)), np.random.default_rng(1).normal(size=200))
    for params in ({"gamma": 1e12}, {"eta": 0.0}):
        imp = ti.importance(boosted(X, y, 3, **params), A, b, score=score)
        assert np.all(imp.scores == 0)
        assert np.all(imp.std_errors == 0)
        assert np.all(imp.p_values == 1)
        assert "rounding" not in codes(imp)


@pytest.mark.parametrize("size", [2.0, 5.0, 10.0, 15.0, 20.0, 30.0])
def test_margins_far_out_on_the_logit_are_scored_right_or_with_a_note(size):
    fitted = REAL["logistic"]
    trees, y = ti.read_model(fitted.model).trees, fitted.y.astype(float)
    margin = np.where(y > 0, size, -size)
    inside = np.where(y > 0, 2.0, 1.0)  # scale_pos_weight
    residual = oracle.residuals(trees, fitted.X, logistic(y), inside, base=margin[:, None])
    expected = oracle.centred_product(trees, fitted.X, residual).sum(axis=(0, 2)) / len(y)
    imp = ti.importance(fitted.model, fitted.X, y, score="tree_inner", base_margin=margin)
    off = np.abs(imp.scores - expected).max() / np.abs(expected).max()
    assert off < 1e-3 or "rounding" in codes(imp)
    assert ("rounding" in codes(imp)) == (size > 20)


@pytest.mark.parametrize("spec", [{"no": 1.0, "yes": 8.0}, {"yes": 0.2}, "balanced"], ids=str)
def test_class_weights_of_the_estimator_weigh_the_scored_rows(spec):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = np.where(X[:, 0] + rng.normal(size=400) > 0.7, "yes", "no")
    plain, weighted = (lgb.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1, class_weight=w) for w in (None, spec))
    own = ti.importance(weighted.fit(X[:200], y[:200]), X[200:], y[200:])
    weight = compute_sample_weight(spec, y[200:])
    plain.fit(X[:200], y[:200], sample_weight=compute_sample_weight(spec, y[:200]))  # the same trees
    same = ti.importance(plain, X[200:], y[200:], sample_weight=weight)
    np.testing.assert_allclose(own.scores, same.scores, rtol=1e-9)
    assert own.sum_of_weights == pytest.approx(weight.sum())
    assert ("class_weight" in [note.code for note in own.notes]) == (spec == "balanced")
