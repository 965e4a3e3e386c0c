"""Standard errors, intervals, p and q values: against scipy, brute force and the definition."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from treeinner.errors import DataError
from treeinner.inference import (
    benjamini_hochberg,
    difference,
    effective_units,
    from_clusters,
    from_sums,
    t_quantile,
    t_tail,
)

# Nothing so small that its square underflows.
VALUES = st.floats(-100, 100).map(lambda v: v if abs(v) > 1e-100 else 0.0)
SHARES = hnp.arrays(np.float64, st.tuples(st.integers(2, 12), st.integers(1, 4)), elements=VALUES)


def sums(s):
    return s.sum(axis=0), (s * s).sum(axis=0), len(s)


@settings(max_examples=100, deadline=None)
@given(SHARES)
def test_standard_error_is_that_of_a_sum_of_independent_rows(s):
    result = from_sums(*sums(s))
    expected = np.sqrt(len(s)) * s.std(axis=0, ddof=1)
    # The sums cancel to about eps * sum of squares; its root is what the standard error may be off by.
    slack = 1e-7 * np.sqrt((s * s).sum(axis=0))
    assert np.all(np.abs(result.std_error - expected) <= slack + 1e-9 * expected)
    for part in (result.ci_low, result.ci_high, result.z, result.p_value, result.q_value):
        assert part.shape == result.score.shape
        assert not np.any(np.isnan(part))


def test_one_sample_t_test():
    rng = np.random.default_rng(0)
    s = rng.normal(0.3, 1.0, (25, 6))
    result = from_sums(*sums(s), confidence=0.9)
    test = stats.ttest_1samp(s, 0, alternative="greater")
    interval = stats.ttest_1samp(s, 0).confidence_interval(0.9)
    # Cancellation in the sums costs a few eps; the incomplete beta function is good to 1e-12.
    np.testing.assert_allclose(result.z, test.statistic, rtol=1e-11)
    np.testing.assert_allclose(result.p_value, test.pvalue, rtol=1e-10)
    np.testing.assert_allclose(result.ci_low / 25, interval.low, rtol=1e-10)
    np.testing.assert_allclose(result.ci_high / 25, interval.high, rtol=1e-10)


@settings(max_examples=100, deadline=None)
@given(SHARES)
def test_degrees_of_freedom_are_those_of_the_effective_units(s):
    squares = (s / np.maximum(np.abs(s).max(axis=0), 1e-300)) ** 2
    rows = from_sums(*sums(s), effective=effective_units(squares.sum(axis=0), (squares**2).sum(axis=0)))
    clusters = from_clusters(s)
    plain = from_sums(*sums(s))
    for column, share in enumerate(s.T):
        unit = np.abs(share).max()
        kish = np.sum((share / unit) ** 2) ** 2 / np.sum((share / unit) ** 4) if unit > 0 else len(s)
        expected = min(max(kish - 1, 1), len(s) - 1)
        assert rows.df[column] == pytest.approx(expected, rel=1e-12)
        assert clusters.df[column] == pytest.approx(expected, rel=1e-12)
    used = rows.std_error > 0
    np.testing.assert_allclose(rows.p_value[used], stats.t.sf(rows.z[used], rows.df[used]), rtol=1e-10)
    half = stats.t.ppf(0.975, rows.df) * rows.std_error
    np.testing.assert_allclose(rows.ci_high - rows.ci_low, 2 * half, rtol=1e-6, atol=1e-10)  # a difference cancels
    # Fewer degrees of freedom, heavier tails.
    assert np.all(np.abs(rows.p_value - 0.5) <= np.abs(plain.p_value - 0.5) + 1e-12)


def test_few_rows_that_carry_a_score_are_few_rows():
    """Three rows of equal score in a thousand, all positive: that comes up with chance 1/8."""
    s = np.zeros((1000, 1))
    s[:3] = 1.0
    assert effective_units((s**2).sum(axis=0), (s**4).sum(axis=0))[0] == pytest.approx(3)
    assert from_sums(*sums(s)).p_value[0] < 0.05
    assert from_sums(*sums(s), effective=effective_units((s**2).sum(axis=0), (s**4).sum(axis=0))).p_value[0] > 0.1
    unknown = from_sums(*sums(s), effective=[np.nan])
    assert unknown.df[0] == 999


def test_p_values_that_are_known_take_the_place_of_students():
    s = np.random.default_rng(6).normal(0.3, 1.0, (50, 4))
    upper, lower = np.array([0.5, np.nan, 1e-30, 1.0]), np.array([0.5, 0.2, 1.0, np.nan])
    s[:, 3] = 0.0  # never used: p = 1 whatever is known
    for make in (lambda **how: from_sums(*sums(s), **how), lambda **how: from_clusters(s, **how)):
        plain, known = make(), make(upper=upper, lower=lower)
        for same in ("score", "std_error", "ci_low", "ci_high", "z", "df"):
            assert np.array_equal(getattr(plain, same), getattr(known, same))
        assert known.p_value.tolist() == [0.5, plain.p_value[1], 1e-30, 1.0]
        np.testing.assert_allclose(known.q_value, stats.false_discovery_control(known.p_value), rtol=1e-14)
        harm = np.array([0.5, 0.2, 1.0, 1.0])
        np.testing.assert_allclose(known.harm_q_value, stats.false_discovery_control(harm), rtol=1e-14)


def test_a_score_known_better_than_by_its_shares_keeps_their_error():
    s = np.random.default_rng(7).normal(0.3, 1.0, (50, 3))
    score = s.sum(axis=0) * (1 + 1e-6)
    for make in (lambda **how: from_sums(*sums(s), **how), lambda **how: from_clusters(s, **how)):
        plain, better = make(), make(score=score)
        assert np.array_equal(better.score, score)
        assert np.array_equal(better.std_error, plain.std_error)
        np.testing.assert_allclose(better.z, score / plain.std_error, rtol=1e-15)
        np.testing.assert_allclose((better.ci_low + better.ci_high) / 2, score, rtol=1e-14)


def exact_tail(t, df):
    """P(T > t) for an even number of degrees of freedom: Abramowitz and Stegun 26.7.4 with 400 digits."""
    with localcontext(prec=400):
        t, df = Decimal(t), int(df)
        sine, cosine_sq = t / (df + t * t).sqrt(), df / (df + t * t)
        term = total = Decimal(1)
        for k in range(2, df, 2):
            term *= cosine_sq * (k - 1) / k
            total += term
        return float((1 - sine * total) / 2)


@pytest.mark.parametrize("df", [2, 10, 150, 2000])
def test_the_tail_of_students_t_keeps_its_relative_precision(df):
    t = np.array([-8.0, -0.5, 0.0, 0.5, 2.0, 8.0, 30.0, 100.0])
    expected = np.array([exact_tail(x, df) for x in t])
    # The logarithm of a far tail is large (at df = 2000, t = 30 it is -370): its rounding is what is left.
    slack = 1e-14 * (1 + np.abs(np.log(np.maximum(expected, 1e-300)))) * (1 + df / 100)
    assert np.all(np.abs(t_tail(t, df) - expected) <= slack * expected)
    assert t_tail(100.0, 1) == pytest.approx(np.arctan(0.01) / np.pi, rel=1e-14)


@pytest.mark.parametrize("df", [1, 3.5, 10, 150, 1e4])
def test_quantiles_of_students_t_are_where_the_tail_is(df):
    for p in (0.6, 0.9, 0.975, 0.9999):
        # scipy before 1.14 searches its quantiles to 5e-9
        assert t_tail(t_quantile(p, df), df) == pytest.approx(1 - p, rel=1e-7)


@settings(max_examples=200, deadline=None)
@given(hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 1)))
def test_benjamini_hochberg_against_scipy(p):
    np.testing.assert_allclose(benjamini_hochberg(p), stats.false_discovery_control(p), rtol=1e-14)


def test_benjamini_hochberg_takes_each_output_as_a_family():
    p = np.random.default_rng(0).random((9, 3))
    expected = np.column_stack([stats.false_discovery_control(column) for column in p.T])
    np.testing.assert_allclose(benjamini_hochberg(p), expected, rtol=1e-14)
    assert benjamini_hochberg(np.zeros(0)).shape == (0,)


@settings(max_examples=50, deadline=None)
@given(SHARES, st.integers(1, 4))
def test_clusters_of_copies_say_what_the_rows_said(s, copies):
    alone = from_sums(*sums(s))
    repeated = np.repeat(s, copies, axis=0)
    cluster = np.repeat(np.arange(len(s)), copies)
    grouped = np.zeros_like(s)
    np.add.at(grouped, cluster, repeated)
    result = from_clusters(grouped)
    assert result.n_units == len(s)
    slack = copies * 1e-7 * np.sqrt((s * s).sum(axis=0))  # cancellation in from_sums, as above
    assert np.all(np.abs(result.std_error - copies * alone.std_error) <= slack)
    exact = np.sqrt(len(s) * grouped.var(axis=0, ddof=1))
    assert np.all(np.abs(result.std_error - exact) <= 1e-12 * np.abs(grouped).max(initial=1.0))


def test_dependent_rows_need_clusters():
    """Rows in equal blocks: taken singly, the error is too small by the root of the block's size."""
    rng = np.random.default_rng(1)
    s = rng.normal(size=(400, 1))
    rows = from_sums(*sums(np.repeat(s, 9, axis=0)))
    blocks = from_clusters(9 * s)
    assert blocks.std_error / rows.std_error == pytest.approx(3, rel=2e-3)  # (n - 1) / n of 400 against 3600


def test_weights_are_part_of_the_shares():
    """Standard error of a weighted total against its spread over samples drawn anew."""
    rng = np.random.default_rng(2)
    s, w = (
        rng.normal(0.2, 1.0, (200, 2000)),
        rng.gamma(0.5, 2.0, (200, 2000)),
    )  # each column is a sample of 200
    result = from_sums(*sums(s * w))
    spread = result.score.std()
    mean_error = np.sqrt(np.mean(result.std_error**2))
    # 2000 draws know a standard deviation to 1 / sqrt(4000) = 1.6 %; heavy tails double that.
    assert mean_error == pytest.approx(spread, rel=0.07)


def test_p_values_of_useless_features_are_uniform():
    rng = np.random.default_rng(3)
    s = rng.standard_t(5, size=(30, 20000))  # thirty rows, twenty thousand useless features
    p = from_sums(*sums(s)).p_value
    # Monte Carlo error of a share of 20000: 0.0035 at 0.5; heavy tails make the t slightly conservative.
    for level in (0.05, 0.2, 0.5, 0.9):
        assert np.mean(p <= level) == pytest.approx(level, abs=0.012)


def test_corners():
    used = np.array([[1.0, 0.0, -1.0, 2.0], [1.0, 0.0, -1.0, 3.0]])
    result = from_sums(*sums(used))
    assert result.std_error[1] == 0
    assert result.z[1] == 0
    assert list(result.p_value[1:3]) == [1.0, pytest.approx(1.0)]  # never used; harmful in every row
    assert result.p_value[0] < 1e-6  # helps in every row by the same amount
    assert np.all(np.isfinite(result.z))
    for n in (0, 1):  # nothing can be said
        result = from_sums(np.full(3, 2.0 * n), np.full(3, 4.0 * n), n)
        assert np.all(np.isinf(result.std_error))
        assert np.all(result.p_value == 1)
        assert np.all(result.ci_low == -np.inf)
    assert np.all(from_clusters(np.ones((1, 2))).p_value == 1)
    assert from_sums(np.zeros((5, 3)), np.zeros((5, 3)), 10).q_value.shape == (5, 3)


def test_variance_is_never_negative():
    s = np.full((1000, 1), 1e8) + np.random.default_rng(4).normal(size=(1000, 1)) * 1e-6
    result = from_sums(*sums(s))  # the spread drowns in the rounding of the squares
    assert result.std_error[0] > 0
    assert np.isfinite(result.z[0])


def test_gap_is_welchs_test():
    rng = np.random.default_rng(5)
    a, b = rng.normal(1, 1, (40, 3)), rng.normal(0, 3, (15, 3))
    gap = difference(from_sums(*sums(a)).scaled(1 / 40), from_sums(*sums(b)).scaled(1 / 15))
    test = stats.ttest_ind(a, b, equal_var=False, alternative="greater")
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    np.testing.assert_allclose(gap.z, test.statistic, rtol=1e-11)  # cancellation and beta function, as above
    np.testing.assert_allclose(gap.p_value, test.pvalue, rtol=1e-10)
    np.testing.assert_allclose(gap.ci_low, interval.low, rtol=1e-9)
    np.testing.assert_allclose(gap.ci_high, interval.high, rtol=1e-9)
    unused = from_sums(np.zeros(2), np.zeros(2), 20)
    assert np.all(difference(unused, unused).p_value == 1)
    single = from_sums(np.ones(2), np.ones(2), 1)
    assert np.all(difference(single, unused).p_value == 1)


def test_bad_input():
    with pytest.raises(DataError, match="shape"):
        from_sums(np.zeros(2), np.zeros(3), 5)
    with pytest.raises(DataError, match="confidence=95 is not a valid confidence level"):
        from_sums(np.zeros(2), np.zeros(2), 5, confidence=95)
    with pytest.raises(DataError, match="dimensions"):
        from_clusters(np.zeros(3))
