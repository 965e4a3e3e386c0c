"""Donor rows: redrawn columns look like the column, go with the other columns as it does, and with nothing else."""

import numpy as np
import pytest
from scipy import sparse, stats

from treeinner.select.samplers import (
    FEW_VALUES,
    PENALTIES,
    Donors,
    _decomposed,
    _decomposed_rows,
    _slopes,
    read_columns,
)

N, DRAWS = 600, 60


def rng(seed=0):
    return np.random.default_rng(seed)


def correlated(n=N, rho=0.8, seed=0, p=4):
    """Normal columns, each pair correlated rho."""
    random = rng(seed)
    return np.sqrt(rho) * random.normal(size=(n, 1)) + np.sqrt(1 - rho) * random.normal(size=(n, p))


def redrawn(X, column, draws=DRAWS, seed=1):
    return X[Donors(read_columns(X)).draw([column], draws, rng(seed))[:, 0], column]


# -- the law of a redrawn column -------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [lambda z: z, np.exp, lambda z: stats.t(2).ppf(stats.norm.cdf(z))])
def test_the_marginal_distribution_is_kept(shape):
    X = shape(correlated())
    for draw in redrawn(X, 0, draws=10):
        # 1.63 sqrt(2 / n) is the 1 % point of two independent samples; a permutation of residuals is nearer than that.
        assert stats.ks_2samp(draw, X[:, 0]).statistic < 1.63 * np.sqrt(2 / N)


@pytest.mark.parametrize("shape", [lambda z: z, np.exp])
def test_correlation_with_the_other_columns_is_kept(shape):
    Z = correlated()
    draws = redrawn(shape(Z), 0)
    for other in (1, 2, 3):
        kept = np.mean([stats.spearmanr(draw, Z[:, other]).statistic for draw in draws])
        # Three standard errors of a rank correlation of N rows.
        assert kept == pytest.approx(stats.spearmanr(Z[:, 0], Z[:, other]).statistic, abs=3 / np.sqrt(N))


def test_gaussian_columns_are_exchangeable_with_their_redrawn_ones():
    """Whatever the pair is asked, (x, others) and (x*, others) answer alike: here the residual's product with another
    variable that knows the others only, over many tables."""
    ranks = []
    for seed in range(60):
        X = correlated(n=200, seed=seed)
        y = X[:, 1] + rng(1000 + seed).normal(size=200)
        residual = y - X[:, 1:] @ np.linalg.lstsq(X[:, 1:], y, rcond=None)[0]
        draws = redrawn(X, 0, draws=19, seed=seed)
        ranks.append((draws @ residual < X[:, 0] @ residual).sum())
    # Uniform on 0..19 if exchangeable; p > .001 for a fixed seed.
    assert stats.kstest((np.array(ranks) + 0.5) / 20, "uniform").pvalue > 0.001


def test_what_the_other_columns_do_not_tell_is_forgotten():
    X = rng().normal(size=(N, 4))
    y = X[:, 0] + 0.1 * rng(5).normal(size=N)
    draws = redrawn(X, 0)
    assert abs(np.mean([np.corrcoef(draw, y)[0, 1] for draw in draws])) < 3 / np.sqrt(N)


def test_a_square_of_another_column_is_seen():
    """Uncorrelated with it, but told by it: the regressions know the squares of the normal scores."""
    X = rng().normal(size=(N, 3))
    X[:, 1] = X[:, 0] ** 2 + 0.3 * X[:, 1]
    kept = np.mean([np.corrcoef(draw, X[:, 0] ** 2)[0, 1] for draw in redrawn(X, 1)])
    assert kept > 0.8 * np.corrcoef(X[:, 1], X[:, 0] ** 2)[0, 1]


@pytest.mark.parametrize("shape", [lambda x: np.sin(1.5 * x), lambda x: np.cos(2 * x), lambda x: np.maximum(x, 0.5)])
def test_bends_of_another_column_are_seen(shape):
    """The regressions know hinges of the normal scores: what is left of the column is its noise, not the bend."""
    X = rng().normal(size=(N, 3))
    X[:, 1] = shape(X[:, 0]) + 0.2 * X[:, 1]
    kept = np.mean([np.corrcoef(draw, shape(X[:, 0]))[0, 1] for draw in redrawn(X, 1)])
    assert kept > 0.9 * np.corrcoef(X[:, 1], shape(X[:, 0]))[0, 1]


def test_a_square_is_seen_backwards():
    """It tells nothing about the mean of the column, but how far from it the value is."""
    X = rng().normal(size=(N, 3))
    X[:, 1] = X[:, 0] ** 2 + 0.1 * X[:, 1]
    draws = redrawn(X, 0)
    assert np.mean([np.corrcoef(draw**2, X[:, 1])[0, 1] for draw in draws]) > 0.6
    assert abs(np.mean([np.corrcoef(draw, X[:, 0])[0, 1] for draw in draws])) < 3 / np.sqrt(N)  # the sign is not told


def test_a_product_of_columns_is_not_seen():
    """The documented limit: no sum of functions of single columns tells it."""
    X = rng().normal(size=(N, 3))
    X[:, 2] = X[:, 0] * X[:, 1]
    kept = np.mean([np.corrcoef(draw, X[:, 0] * X[:, 1])[0, 1] for draw in redrawn(X, 2)])
    assert abs(kept) < 0.2


# -- rows with groups --------------------------------------------------------------------------------------------
GROUP = np.repeat(np.arange(N // 6), 6)[rng(3).permutation(N)]


def of_groups(X, column, draws=DRAWS):
    return X[Donors(read_columns(X), GROUP).draw([column], draws, rng(1))[:, 0], column]


def within(values):
    """Share of the variance that is between the groups."""
    means = np.bincount(GROUP, values)[GROUP] / 6
    return means.var() / values.var()


def test_what_is_constant_in_a_group_stays_so():
    X = correlated()
    X[:, 0] = (X[:, 0] + 2 * np.bincount(GROUP, X[:, 1])[GROUP])[np.unique(GROUP, return_index=True)[1]][GROUP]
    levels = np.column_stack([X[:, 0] > 1, X[:, 1:]]).astype(float)
    for table in (X, levels):
        draws = of_groups(table, 0)
        assert max(np.ptp(draws[:, g == GROUP], axis=1).max() for g in range(N // 6)) == 0
        means = np.bincount(GROUP, table[:, 1])[GROUP]  # which tell it
        kept = np.mean([np.corrcoef(draw, means)[0, 1] for draw in draws])
        assert kept == pytest.approx(np.corrcoef(table[:, 0], means)[0, 1], abs=3 / np.sqrt(N // 6))
        assert (draws != table[:, 0]).mean() > 0.1


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_residuals_depend_within_groups_as_they_did(share):
    X = correlated(rho=0.3)
    X[:, 0] += np.sqrt(share / (1 - share)) * rng(4).normal(size=N // 6)[GROUP]
    draws = of_groups(X, 0)
    assert np.mean([within(draw) for draw in draws]) == pytest.approx(within(X[:, 0]), abs=0.08)
    by_rows = redrawn(X, 0)
    assert (np.mean([within(draw) for draw in by_rows]) < within(X[:, 0]) - 0.2) == (share > 0)


# -- levels and missing values ---------------------------------------------------------------------------------
def levels_table(seed=0):
    """A category that follows a number, as codes in an order that says nothing."""
    z = correlated(seed=seed)
    codes = np.array([2, 0, 3, 1])[np.digitize(z[:, 0], [-0.8, 0, 0.8])]
    return np.column_stack([codes.astype(float), z[:, 1:]])


def test_levels_keep_their_shares_and_their_dependence():
    X = levels_table()
    draws = redrawn(X, 0)
    for level in range(4):
        inside = X[:, 0] == level
        assert (draws == level).mean() == pytest.approx(inside.mean(), abs=3 * np.sqrt(0.25 / N))
        means = [X[draw == level, 1].mean() for draw in draws]
        # Three standard errors of a mean of the rows of a level, as N rows tell it.
        assert np.mean(means) == pytest.approx(X[inside, 1].mean(), abs=3 / np.sqrt(inside.sum()))


def test_independent_levels_are_drawn_by_their_shares():
    X = rng().integers(0, 3, size=(N, 5)).astype(float)
    draws = redrawn(X, 2)
    agree = (draws == X[:, 2]).mean()
    assert agree == pytest.approx((np.bincount(X[:, 2].astype(int)) ** 2).sum() / N**2, abs=0.05)  # as chance has it


def test_missing_values_are_drawn_too():
    z = correlated(seed=2)
    X = z.copy()
    X[z[:, 1] > 0.7, 0] = np.nan  # told by column 1
    draws = redrawn(X, 0)
    hidden = np.isnan(draws)
    assert hidden.mean() == pytest.approx(np.isnan(X[:, 0]).mean(), abs=3 * np.sqrt(0.25 / N))
    assert hidden[:, z[:, 1] > 1].mean() > 0.8
    assert hidden[:, z[:, 1] < 0].mean() < 0.1


def test_columns_drawn_together_stay_together():
    X = correlated(rho=0.999, seed=4)
    X[:, 3] = rng(9).normal(size=N)
    together = Donors(read_columns(X)).draw((0, 1), DRAWS, rng())
    assert together.shape == (DRAWS, 2, N)
    first, second = X[together[:, 0], 0], X[together[:, 1], 1]
    assert np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(first, second, strict=True)]) > 0.99
    assert np.mean([np.corrcoef(a, X[:, 0])[0, 1] for a in first]) < 1  # and not where they were


def test_levels_drawn_together_have_patterns_that_occur():
    X = levels_table()
    X = np.column_stack([X, 3 - X[:, 0]])  # the complement: only four pairs exist
    donors = Donors(read_columns(X)).draw([0, 4], 20, rng())
    assert (X[donors[:, 0], 0] + X[donors[:, 1], 4] == 3).all()


# -- tables that must not break it -----------------------------------------------------------------------------
def hard_tables():
    z = correlated(n=60, p=5)
    constant, missing = z.copy(), z.copy()
    constant[:, 2] = 7.0
    missing[:, 3] = np.nan
    infinite = z.copy()
    infinite[:5, 0], infinite[5:9, 0] = np.inf, -np.inf
    twice = np.column_stack([z, z[:, 0], z[:, 0]])
    return {
        "constant": constant, "all missing": missing, "infinite": infinite, "duplicates": twice,
        "more columns than rows": rng().normal(size=(30, 90)), "two rows": z[:2], "one row": z[:1],
        "one column": z[:, :1], "all constant": np.ones((20, 3)), "levels only": (z > 0).astype(float),
    }  # fmt: skip


@pytest.mark.parametrize("name", hard_tables())
def test_every_column_of_a_hard_table_gets_donors(name):
    X = hard_tables()[name]
    many = [Donors(read_columns(X)), Donors(read_columns(X), np.arange(len(X)) // 2)]
    for j, donors in ((j, donors) for j in range(min(X.shape[1], 8)) for donors in many):
        drawn = donors.draw([j], 3, rng())[:, 0]
        assert drawn.shape == (3, len(X))
        assert drawn.dtype.kind == "i"
        assert ((drawn >= 0) & (drawn < len(X))).all()


def test_with_more_columns_than_rows_redrawn_values_still_move():
    X = rng().normal(size=(80, 200))
    draws = redrawn(X, 0, draws=20)
    assert abs(np.mean([np.corrcoef(draw, X[:, 0])[0, 1] for draw in draws])) < 0.5  # an overfitted one would stay


def test_draws_depend_on_the_generator_alone():
    X = levels_table()
    donors = Donors(read_columns(X))
    for j in (0, 1):
        first, again = (donors.draw([j], 4, rng(7)) for _ in range(2))
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(first, Donors(read_columns(X.copy())).draw([j], 4, rng(7)))
        assert (donors.draw([j], 4, rng(8)) != first).any()


@pytest.mark.parametrize("shape", [(50, 6), (20, 30)])
def test_slopes_without_some_columns_are_those_of_ridge_without_them(shape):
    M, target = rng().normal(size=shape), rng(1).normal(size=(shape[0], 2))
    without = np.array([1, 4])
    rest = np.delete(np.arange(shape[1]), without)
    V, d = _decomposed_rows(M) if shape[0] < shape[1] else _decomposed(M.T @ M)
    for penalty in shape[0] * PENALTIES:
        slopes = _slopes(V, d, penalty, M.T @ target, without)
        A = M[:, rest].T @ M[:, rest] + penalty * np.eye(len(rest))
        np.testing.assert_allclose(slopes[rest], np.linalg.solve(A, M[:, rest].T @ target), atol=1e-9)  # rounding
        np.testing.assert_allclose(slopes[without], 0, atol=1e-9)


# -- containers ------------------------------------------------------------------------------------------------
def test_every_container_gives_the_same_columns():
    pd, pl, pa = pytest.importorskip("pandas"), pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    number = np.array([0.5, np.nan, 2.0, -1.0])
    word = ["b", None, "a", "b"]
    frame = pd.DataFrame({"number": number, "word": pd.Categorical(word), "flag": [True, False, True, True]})
    expected = [number, [1, -1, 0, 1], [1.0, 0.0, 1.0, 1.0]]
    tables = {
        "pandas": frame,
        "polars": pl.DataFrame({"number": number, "word": word, "flag": [True, False, True, True]}, nan_to_null=True),
        "pyarrow": pa.Table.from_pandas(frame),
        "objects": np.array([number.tolist(), word, [True, False, True, True]], dtype=object).T,
    }
    for X in tables.values():
        read = read_columns(X)
        np.testing.assert_array_equal(read[0], expected[0])
        np.testing.assert_array_equal(read[2], expected[2])
        codes = np.asarray(read[1])
        assert codes[1] == -1  # missing
        assert codes[0] == codes[3] != codes[2]  # which number a level has is the container's business
        assert codes[2] >= 0


def test_a_sparse_matrix_is_its_dense_one():
    X = sparse.random(30, 4, density=0.3, random_state=0)
    for read, column in zip(read_columns(X), X.toarray().T, strict=True):
        np.testing.assert_array_equal(read, column)


def test_dates_are_numbers_and_missing_dates_missing():
    pd = pytest.importorskip("pandas")
    days = pd.to_datetime(["2020-01-03", None, "2020-01-01"])
    (read,) = read_columns(pd.DataFrame({"day": days}))
    assert np.isnan(read[1])
    assert read[0] > read[2]


def test_many_levels_are_pooled():
    words = np.array([f"w{i}" for i in range(100)], dtype=object)
    X = np.column_stack([words, rng().normal(size=100).astype(object)])
    drawn = Donors(read_columns(X)).draw([0], 5, rng())[:, 0]
    assert len(np.unique(drawn)) > 50  # the rare levels are drawn as one, its rows evenly


def test_few_distinct_numbers_are_levels():
    """So that a count of 0, 1, 2 is drawn by its probabilities, and not as a rounded normal."""
    X = np.column_stack([rng().integers(0, FEW_VALUES, size=N), rng(1).normal(size=N)]).astype(float)
    draws = redrawn(X, 0)
    shares = np.bincount(X[:, 0].astype(int)) / N
    found = np.bincount(draws.astype(int).ravel(), minlength=FEW_VALUES) / draws.size
    np.testing.assert_allclose(found, shares, atol=4 * np.sqrt(0.1 / (N * DRAWS)) + 0.01)
