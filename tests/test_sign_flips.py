"""p values by sign flips: against exact flips, at the ends of the range, and from histograms that add up."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from treeinner import sign_flips
from treeinner.sign_flips import MIN_SHARES, WIDTH, effective_units, flip_p_values, flip_p_values_of

from .oracle import bin_of, offset_of

FAMILIES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "lognormal": lambda rng, n: rng.lognormal(0, 1.5, n),
    "t2": lambda rng, n: rng.standard_t(2, n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "sparse": lambda rng, n: np.where(rng.permutation(50 * n) < n, rng.normal(size=50 * n), 0),
    # as a rare binary column has: six rows carry nearly all of the score
    "six": lambda rng, n: np.where(np.arange(n) < 6, 3 + rng.normal(size=n), 0.02 * rng.normal(size=n)),
}


def histogram(*columns):
    """Counts and sums of offsets of the shares of each column: (columns, WIDTH)."""
    counts = np.zeros((len(columns), WIDTH), np.int64)
    for k, x in enumerate(columns):
        index = bin_of(x)
        np.add.at(counts[k, ::2], index[index >= 0], 1)
        np.add.at(counts[k, 1::2], index[index >= 0], offset_of(x)[index >= 0])
    return counts


def p_values(x, score):
    """Upper and lower p values of several scores, from one histogram of the shares x."""
    counts = np.repeat(histogram(x), len(score), axis=0)
    return flip_p_values(counts, np.full(len(score), x @ x), score)


def enumerated(x, score):
    """P(S > score) + P(S = score) / 2 by all 2^n flips: the sums of two halves, put together in order."""

    def sums(part):
        total = np.zeros(1)
        for size in part:
            total = np.concatenate([total - size, total + size])
        return total

    one, other = sums(x[::2]), np.sort(sums(x[1::2]))
    missing, rounding = score - one, 1e-12 * np.abs(x).sum()
    below = np.searchsorted(other, missing - rounding), np.searchsorted(other, missing + rounding)
    return 1 - (below[0].mean() + below[1].mean()) / 2 / len(other)


def inverted(x, score):
    """P(S >= score) by Fourier inversion of the tilted distribution of S.

    With M(t) = prod cosh(t x_i), P(S >= s) is the integral of M(t + i v) exp(-(t + i v) s) / (t + i v) over v, divided
    by 2 pi, for any t > 0. The trapezoidal rule is exact but for what S / sd has beyond 24, as long as M decays.
    """
    sd = np.sqrt(x @ x)
    t = score / sd**2
    for _ in range(60):
        t += (score - x @ np.tanh(t * x)) / (x**2 @ np.cosh(t * x) ** -2.0)
    step, total = 2 * np.pi / (24 * sd), 0.0
    for first in range(0, 100_000, 128):
        v = step * np.arange(first, first + 128)
        angle = np.outer(v, x)
        ratio = np.prod(np.cos(angle) + 1j * np.tanh(t * x) * np.sin(angle), axis=1)  # M(t + i v) / M(t)
        term = (ratio * np.exp(-1j * v * score) / (t + 1j * v)).real
        total += term.sum() - (term[0] / 2 if first == 0 else 0)
        if np.abs(ratio).max() < 1e-6:
            return np.exp(np.log(np.cosh(t * x)).sum() - t * score) * total * step / np.pi
    raise AssertionError("the characteristic function does not decay")


def test_a_bin_holds_the_sizes_between_its_edges():
    x = np.random.default_rng(0).normal(size=5000) * np.exp2(np.arange(5000) % 100 - 58)
    index, offset, size = bin_of(x), offset_of(x), np.abs(x)
    low, high = sign_flips.EDGES[index], sign_flips.EDGES[index + 1]
    counted = (size >= 2.0**-56) & (size < 2.0**40)
    assert ((index >= 0) == counted).all()
    assert ((low <= size) & (size < high))[counted].all()
    assert (offset == (size - low) * 2**sign_flips.OFFSET_BITS // (high - low))[counted].all()
    assert (bin_of(sign_flips.EDGES[:-1]) == np.arange(sign_flips.N_BINS)).all()
    assert (bin_of([0.0, -0.0, np.nextafter(2.0**-56, 0), -(2.0**40), np.inf, np.nan]) == -1).all()


@pytest.mark.parametrize("n", [30, 100, 1000])
@pytest.mark.parametrize("family", FAMILIES)
def test_as_exact_flips(family, n):
    x = FAMILIES[family](np.random.default_rng(n), n)
    x = np.abs(x[x != 0])
    score = np.arange(1, 6) * np.sqrt(x @ x)
    score = score[score < 0.99 * x.sum()]
    exact = np.array([(enumerated if n == 30 else inverted)(x, s) for s in score])
    seen = exact > 1e-6
    assert seen.sum() >= 2
    upper, lower = p_values(x, score)
    np.testing.assert_allclose(upper[seen], exact[seen], rtol=0.07 if n == 30 else 0.03)  # as the module says
    assert (lower == 1 - upper).all()


@pytest.mark.parametrize("n", [MIN_SHARES, 100, 5000])
def test_shares_of_one_size_give_the_mid_p_value(n):
    heads = np.arange(n // 2, n)
    above, at = binom.sf(heads, n, 0.5), binom.pmf(heads, n, 0.5)
    upper, _ = p_values(np.full(n, 0.7), 0.7 * (2 * heads - n))
    seen = above > 1e-6
    assert (above <= upper)[seen].all()
    assert (upper <= above + at)[seen].all()
    # The steps of S, twice a share, are no longer small beside its standard deviation over z.
    np.testing.assert_allclose(upper[seen], (above + at / 2)[seen], rtol=10 / n)


def test_the_largest_score_has_one_flip():
    for n in (MIN_SHARES, 60, 300):
        x = np.random.default_rng(n).standard_t(2, n)
        most = np.abs(x).sum()
        assert p_values(x, np.array([1.001 * most, 1e9 * most]))[0] == pytest.approx(2.0**-n, rel=1e-12)
        # The histogram knows the sum of the sizes to one in a thousand: a few small shares might have been flipped.
        assert 0.95 * n <= -np.log2(p_values(x, np.array([most]))[0][0]) <= n
        upper, lower = flip_p_values_of(np.stack([np.abs(x), -np.abs(x)], axis=1))
        assert upper[0] == pytest.approx(2.0**-n, rel=1e-9)
        assert lower[1] == upper[0]
        assert lower[0] == upper[1] == 1 - upper[0]
    assert flip_p_values_of(np.ones((5000, 1)))[0][0] > 0  # 2^-5000 is not a double


def test_many_rows_give_the_normal_tail():
    z = np.array([0.0, 1e-9, 1e-3, 1.0, 5.0, 37.0])
    n = 10**12
    counts = n * histogram(*np.full((6, 1), 1.3))
    upper, lower = flip_p_values(counts, np.full(6, n * 1.3**2), z * 1.3 * np.sqrt(n))
    np.testing.assert_allclose(upper, ndtr(-z), rtol=1e-6)  # the first correction is z^4 / 12 n; the last is 6e-300
    np.testing.assert_allclose(lower, ndtr(z), rtol=1e-9)
    assert upper[0] == lower[0] == 0.5


@pytest.mark.parametrize(
    ("sizes", "numbers"),
    [
        ([1], [25]),
        ([1, 100], [19, 1]),
        ([1, 100], [100, 5]),
        ([0.016, 0.78], [24, 40]),
        ([1.6e-5, 0.00126, 0.00246], [23, 2, 26]),
        ([1, 1e3, 1e6], [20, 20, 20]),
        ([2.0**-50, 10, 1e5, 1e9], [100, 5, 4, 3]),
        (np.exp2(np.arange(30)), np.ones(30, int)),
    ],
)
def test_a_higher_score_never_has_a_higher_p_value(sizes, numbers):
    x = np.repeat(np.asarray(sizes, float), numbers)
    most = x.sum()
    score = np.concatenate([np.linspace(0, 1.1 * most, 400), np.geomspace(1e-9, most, 300), np.cumsum(x[::-1])])
    near = np.geomspace(1e-3 * x.min(), most, 300)  # below the largest S, and above the least with the largest share
    upper, lower = p_values(x, np.sort(np.concatenate([-score, score, most - near, 2 * x.max() - most + near])))
    # equal scores but for rounding may differ in the last digits
    assert (np.diff(upper) <= 1e-9 * upper[1:]).all()
    assert (np.diff(lower) >= -1e-9 * lower[1:]).all()


def test_columns_with_few_shares_or_none():
    x = np.random.default_rng(0).normal(size=(MIN_SHARES, 3))
    x[0, 1], x[:, 2] = 0, 0
    for upper, lower in (
        flip_p_values_of(x),
        flip_p_values(histogram(*x.T), (x**2).sum(axis=0), x.sum(axis=0)),
    ):
        assert upper[0] == pytest.approx(1 - lower[0])
        assert np.isnan([upper[1], lower[1]]).all()
        assert upper[2] == lower[2] == 1


def test_a_sum_of_squares_that_lost_small_shares_is_what_the_bins_hold_at_least():
    counts = histogram(*np.ones((2, 100)))  # 1 is the lower end of its bin
    upper, lower = flip_p_values(counts, [0.0, 100.0], [20.0, 20.0])
    assert upper[0] == upper[1]
    assert lower[0] == lower[1]


def test_what_lies_outside_the_bins_counts_as_normal():
    n, outside = 30, 300.0
    score = np.arange(1, 5) * np.sqrt(n + outside)
    upper, _ = flip_p_values(histogram(*np.ones((4, n))), np.full(4, n + outside), score)
    heads = np.arange(n + 1)
    exact = binom.pmf(heads, n, 0.5) @ ndtr((2 * heads[:, None] - n - score) / np.sqrt(outside))
    # The bin of 1 goes to 1.25, so that up to 0.56 n of what is outside is taken to be inside it; were it all, the last
    # p value would be half as large.
    np.testing.assert_allclose(upper, exact, rtol=0.03)


def test_histograms_agree_with_the_values_at_any_scale():
    x = np.random.default_rng(5).standard_t(2, size=(200, 40)) + np.linspace(0, 1, 40)
    upper, lower = flip_p_values_of(x)
    for scale in (2.0**-20, 1.0, 2.0**20):
        binned = flip_p_values(histogram(*scale * x.T), ((scale * x) ** 2).sum(axis=0), (scale * x).sum(axis=0))
        np.testing.assert_allclose(binned[0][upper > 1e-6], upper[upper > 1e-6], rtol=0.03)
        np.testing.assert_allclose(binned[1], lower, rtol=0.03)
    np.testing.assert_allclose(flip_p_values_of(-1e-200 * x), (lower, upper), rtol=1e-9)


def test_effective_units():
    rng = np.random.default_rng(6)
    x = np.stack([np.full(500, 0.7), rng.normal(size=500), rng.standard_t(2, 500), rng.standard_cauchy(500)], axis=1)
    squares = (x**2).sum(axis=0)
    units = effective_units(histogram(*x.T), squares)
    np.testing.assert_allclose(units, squares**2 / (x**4).sum(axis=0), rtol=0.02)
    assert units[0] == pytest.approx(500, rel=1e-12)
    # The worst case: the fourth powers are those of shares at the two ends of one bin, and the squares those of others.
    x = np.repeat([0.03, 1.0, np.nextafter(1.25, 0)], [10**6, 58, 42])
    assert 1.06 < effective_units(histogram(x), [x @ x])[0] * (x**4).sum() / (x @ x) ** 2 < 1.08
    assert np.isnan(effective_units(np.zeros((1, WIDTH), int), [0.0])).all()
