"""Near-collinear columns: what two columns have in common, and the groups that are proposed from it."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import xgboost as xgb
from scipy import stats

import treeinner as ti
from treeinner.selection.collinear import associations, collinear_sets, propose_groups
from treeinner.selection.samplers import Columns

N = 400
rng = np.random.default_rng(11)
A, B, C = rng.normal(size=(3, N))
TOWN = rng.integers(0, 12, N)
FRAME = pd.DataFrame(
    {
        "a": A,
        "b": B,
        "a_cubed": A**3,  # the same ranks
        "a_again": -A + 0.1 * rng.normal(size=N),
        "town": np.array([*"abcdefghijkl"])[TOWN],
        "code": TOWN.astype(float),  # the town by a number
        "country": np.array([*"xyz"])[TOWN // 4],
        "sex": rng.choice(["m", "f"], N),
        "b_or_nothing": np.where(rng.random(N) < 0.3, np.nan, B + 0.05 * C),
        "constant": 1.0,
    }
)
ALIKE = {"a + a_cubed + a_again": ["a", "a_cubed", "a_again"], "b + b_or_nothing": ["b", "b_or_nothing"],
         "town + code": ["town", "code"]}  # fmt: skip


def test_alike_columns_are_proposed_and_no_others():
    assert propose_groups(FRAME) == ALIKE


@pytest.mark.parametrize(
    "make", [pl.from_pandas, pa.Table.from_pandas, lambda frame: frame.astype({"town": "category"})]
)
def test_every_frame_gives_the_same_groups(make):
    assert propose_groups(make(FRAME)) == ALIKE


def test_arrays_and_sparse_matrices_are_grouped_by_column_numbers():
    X = FRAME[["a", "b", "a_cubed", "constant"]].to_numpy()
    assert propose_groups(X) == {"f0 + f2": [0, 2]}
    assert propose_groups(sp.csr_matrix(X)) == {"f0 + f2": [0, 2]}
    assert propose_groups(X[:, :2]) == {}
    assert propose_groups(X[:, :1]) == {}


def test_of_numbers_it_is_the_rank_correlation():
    X = rng.normal(size=(N, 5)) @ rng.normal(size=(5, 5))
    X[:, 3] = X[:, 3].round()  # ties
    expected = np.abs(stats.spearmanr(X).statistic)
    np.testing.assert_allclose(associations(Columns.of(X)), expected, rtol=0, atol=1e-12)  # sums of 400 numbers


def test_with_missing_values_it_is_the_correlation_of_the_ranks_over_the_rows_that_have_both():
    X = rng.normal(size=(N, 2)) @ rng.normal(size=(2, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    ranks = pd.DataFrame(X).rank()
    np.testing.assert_allclose(associations(Columns.of(X)), ranks.corr().abs(), rtol=0, atol=1e-12)


def test_of_two_levels_it_is_the_phi_coefficient():
    """Two columns of two levels: their correlation as 0 and 1, but for the correction of one level, 1 / N."""
    one = rng.random(N) < 0.4
    other = np.where(rng.random(N) < 0.1, ~one, one)
    words = pd.DataFrame({"one": np.where(one, "y", "n"), "other": np.where(other, "y", "n")})
    phi = abs(np.corrcoef(one, other)[0, 1])
    corrected = np.sqrt(1 - (1 - phi**2) * (N - 1) / (N - 2))
    found = associations(Columns.of(words))
    np.testing.assert_allclose(found[0, 1], corrected, rtol=1e-12)
    # A number with the same two values is the same column.
    mixed = associations(Columns.of(words.assign(other=other.astype(float))))
    np.testing.assert_allclose(mixed[0, 1], corrected, rtol=1e-12)
    plain = associations(Columns.of(np.column_stack([one, other]).astype(float)))
    np.testing.assert_allclose(plain[0, 1], phi, rtol=1e-12)


def test_what_follows_in_one_direction_only_is_not_collinear():
    """Country from town, town not from country: R squared of the twelve indicators given three countries is 2 / 11."""
    found = associations(Columns.of(FRAME[["town", "country"]]))
    assert found[0, 1] == found[1, 0] < 0.55
    # The same for a number that every town has and three others share.
    population = pd.DataFrame({"town": FRAME["town"], "population": (TOWN // 4).astype(float)})
    assert associations(Columns.of(population))[0, 1] < 0.55


def test_unrelated_columns_have_little_in_common_however_many_levels_they_have():
    """The corrected share of variance has mean 0; uncorrected, 100 levels explain a quarter of 400 rows by chance."""
    levels = pd.DataFrame({"many": rng.integers(0, 100, N).astype(str), "few": FRAME["sex"], "number": C})
    found = associations(Columns.of(levels))
    assert found[~np.eye(3, dtype=bool)].max() < 0.35  # the root of 0.12: three standard deviations of that share
    every = pd.DataFrame({"id": np.arange(N).astype(str), "number": C})
    assert associations(Columns.of(every))[0, 1] == 0


def test_every_two_members_are_alike_so_a_chain_is_cut():
    angle = np.arange(6) * 0.35  # neighbours correlate cos(.35) = .94, the ends cos(1.75) = -.18
    X = np.column_stack([np.cos(t) * A + np.sin(t) * B for t in angle])
    sets = collinear_sets(Columns.of(X), threshold=0.9)
    found = associations(Columns.of(X))
    assert sum(map(len, sets)) >= 4
    assert all(found[i, j] >= 0.9 for one in sets for i in one for j in one)
    assert max(map(len, sets)) == 2


def test_exact_copies_are_found_at_threshold_1():
    X = np.column_stack([A, B, A, -A])
    assert collinear_sets(Columns.of(X), threshold=1.0) == [[0, 2, 3]]


def test_many_members_have_a_short_name():
    X = pd.DataFrame({f"x{j}": A + 0.01 * j * B for j in range(6)})
    assert propose_groups(X) == {"x0 + x1 + 4 more": [f"x{j}" for j in range(6)]}


def test_infinite_values_and_columns_without_values():
    X = FRAME[["a", "a_cubed"]].assign(empty=np.nan, words=pd.Series([None] * N, dtype="str"))
    X.loc[0, "a_cubed"] = np.inf * np.sign(X.loc[0, "a"])
    assert propose_groups(X) == {"a + a_cubed": ["a", "a_cubed"]}


def test_the_result_is_a_feature_groups():
    X, y = FRAME[["a", "b", "a_cubed", "a_again"]], A + B
    groups = ti.propose_groups(X)
    model = xgb.XGBRegressor(n_estimators=10, max_depth=3, colsample_bynode=0.5, n_jobs=1).fit(X[:200], y[:200])
    found = ti.importance(model, X[200:], y[200:], feature_groups=groups)
    assert found.feature_names == ("a + a_cubed + a_again", "b")
    array = xgb.XGBRegressor(n_estimators=2, n_jobs=1).fit(X.to_numpy(), y)
    numbered = ti.attribute(array, X.to_numpy(), feature_groups=ti.propose_groups(X.to_numpy()))
    assert numbered.feature_names == ("f0 + f2 + f3", "f1")


@pytest.mark.parametrize("threshold", [0, -0.5, 1.5, "high", True, np.nan, None])
def test_wrong_thresholds_are_refused(threshold):
    with pytest.raises(ValueError, match="expected a number above 0 and up to 1"):
        propose_groups(FRAME, threshold=threshold)


@pytest.mark.parametrize(
    ("X", "says"), [(A, "two dimensions"), (np.empty((0, 3)), "no rows"), (FRAME["a"], "two dimensions")]
)
def test_wrong_tables_are_refused(X, says):
    with pytest.raises(ti.DataError, match=says):
        propose_groups(X)
