"""Near-collinear columns: what two columns have in common, and which are therefore tested as one."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor

import treeinner as ti
from treeinner.select.collinear import collinear_sets, determined_sets, rank_correlations
from treeinner.select.samplers import Donors, read_columns

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
ALIKE = [["a", "a_cubed", "a_again"], ["b", "b_or_nothing"]]  # of numbers; a town by its name and by its code is not


def in_common(X):
    return rank_correlations(read_columns(X))


@pytest.mark.parametrize(
    "make",
    [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas, lambda frame: frame.astype({"town": "category"})],
    ids=["pandas", "polars", "arrow", "categories"],
)
def test_alike_columns_are_found_and_no_others_in_every_frame(make):
    sets = collinear_sets(read_columns(make(FRAME)), threshold=0.9)
    assert [[FRAME.columns[j] for j in one] for one in sets] == ALIKE


def determined(X):
    columns = read_columns(X)
    return determined_sets(Donors(columns), collinear_sets(columns, threshold=0.95), threshold=0.95)


def test_a_sum_and_its_parts_determine_each_other():
    """No two of them are alike; other columns, also correlated ones, stay alone."""
    X = np.random.default_rng(0).normal(size=(N, 9))
    X[:, 2] = X[:, 0] + X[:, 1] + 0.05 * X[:, 2]
    X[:, 4] = X[:, 3] + 0.01 * X[:, 4]
    X[:, 6] = 0.8 * X[:, 5] + 0.6 * X[:, 6]
    X[:, 8] = X[:, 7] ** 2  # told by the other, which it does not tell
    assert determined(X) == [[3, 4], [0, 1, 2]]
    assert determined(X[:, 3:]) == [[0, 1]]


def test_a_chain_of_neighbours_is_no_set():
    """AR(1) with .97: each is told by both neighbours, and either one alone tells half of that."""
    X = np.random.default_rng(0).normal(size=(1000, 12))
    for k in range(1, 12):
        X[:, k] = 0.97 * X[:, k - 1] + np.sqrt(1 - 0.97**2) * X[:, k]
    assert max(map(len, determined(X))) <= 3


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_the_selector_names_them(make):
    X = make(FRAME[["a", "b", "a_cubed", "constant"]].to_numpy())
    selector = ti.TreeInnerSelector(
        HistGradientBoostingRegressor(max_iter=5) if make is np.asarray else None,
        test="conditional", cv=2, repeats=1, n_draws=5, random_state=0, n_jobs=1,
    )  # fmt: skip
    assert selector.fit(X, A + B).groups_ == (("f0", "f2"),)


def test_it_is_the_correlation_of_normal_scores_over_the_rows_that_have_both():
    X = rng.normal(size=(N, 3)) @ rng.normal(size=(3, 4))
    X[:, 3] = X[:, 3].round()  # ties
    X[rng.random(X.shape) < 0.1] = np.nan
    ranks = pd.DataFrame(X).rank()
    scores = ranks.apply(lambda rank: stats.norm.ppf((rank - 0.5) / rank.count()))
    # Centred by the means of all values of a column: these of a tenth fewer rows differ by their own error.
    np.testing.assert_allclose(in_common(X), scores.corr().abs(), rtol=0, atol=0.01)
    whole = np.nan_to_num(X)
    expected = pd.DataFrame(whole).rank().apply(lambda rank: stats.norm.ppf((rank - 0.5) / N)).corr().abs()
    np.testing.assert_allclose(in_common(whole), expected, rtol=0, atol=1e-12)  # sums of 400 numbers


def test_of_zeros_and_ones_it_is_the_phi_coefficient():
    one = rng.random(N) < 0.4
    other = np.where(rng.random(N) < 0.1, ~one, one)
    phi = abs(np.corrcoef(one, other)[0, 1])
    np.testing.assert_allclose(in_common(np.column_stack([one, other]).astype(float))[0, 1], phi, rtol=1e-12)


def test_every_two_members_are_alike_so_a_chain_is_cut():
    angle = np.arange(6) * 0.35  # neighbours correlate cos(.35) = .94, the ends cos(1.75) = -.18
    X = np.column_stack([np.cos(t) * A + np.sin(t) * B for t in angle])
    sets, found = collinear_sets(read_columns(X), threshold=0.9), in_common(X)
    assert sum(map(len, sets)) >= 4
    assert all(found[i, j] >= 0.9 for one in sets for i in one for j in one)
    assert max(map(len, sets)) == 2
    assert collinear_sets(read_columns(np.column_stack([A, B, A, -A])), threshold=1.0) == [[0, 2, 3]]


def test_infinite_values_and_columns_without_values():
    X = FRAME[["a", "a_cubed"]].assign(empty=np.nan, words=pd.Series([None] * N, dtype="str"))
    X.loc[0, "a_cubed"] = np.inf * np.sign(X.loc[0, "a"])
    assert collinear_sets(read_columns(X), threshold=0.9) == [[0, 1]]
    assert collinear_sets(read_columns(X[["a"]]), threshold=0.9) == []
