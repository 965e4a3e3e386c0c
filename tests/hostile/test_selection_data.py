"""Hostile tables for functions that fit estimators, group columns or score wrappers: as the plain table, or our error.

An estimator's own fit sees X too, so what libraries read otherwise than we do (masks, byte order, duplicate entries)
must be settled before; else it would be fitted on one table and scored on another.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xgboost as xgb
from sklearn.compose import make_column_transformer
from sklearn.ensemble import VotingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import treeinner as ti
from tests.models import Models

N = 48
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
Y = X[:, 0] + 0.1 * rng.normal(size=N)
MASK = np.arange(N)[:, None] % 5 == np.arange(3)
CODED = np.column_stack([X[:, :2], np.arange(N) % 3])


def small():
    return xgb.XGBRegressor(n_estimators=2, max_depth=2, n_jobs=1)


def encoder():
    return make_column_transformer((OneHotEncoder(handle_unknown="ignore"), [2]), remainder="passthrough")


MODELS = Models(
    voting=lambda: VotingRegressor([("a", small()), ("b", small().set_params(max_depth=1))]).fit(X, Y),
    pipeline=lambda: make_pipeline(encoder(), small()).fit(CODED, Y),
)
CALLS = {
    "cross_importance": lambda A, y: ti.cross_importance(small(), A, y, cv=2, random_state=0).scores,
    "selector": lambda A, y: (
        ti.TreeInnerSelector(small(), cv=2, test="marginal", random_state=0).fit(A, y).feature_importances_
    ),
    "propose_groups": lambda A, y: ti.propose_groups(A),
    "wrapper": lambda A, y: ti.importance(MODELS["voting"], A, y).scores,
    "original columns": lambda A, y: ti.importance(MODELS["pipeline"], A, y, feature_groups="original").scores,
}
FITS = ("cross_importance", "selector")


def halves(values):
    """Sparse, every entry as two of half its size in the same place."""
    index = np.tile(np.repeat(np.arange(3, dtype=np.int32), 2), len(values))
    starts = 6 * np.arange(len(values) + 1, dtype=np.int32)
    return sp.csr_matrix((np.repeat(values.ravel() / 2, 2), index, starts), values.shape)


def locked(values):
    values = values.copy()
    values.setflags(write=False)
    return values


ALIKE = {
    "object": (lambda A: A.astype(object), lambda y: y.astype(object)),
    "read-only": (locked, locked),
    "big-endian": (lambda A: A.astype(">f8"), lambda y: y.astype(">f8")),
    "big-endian frame": (lambda A: pd.DataFrame(A.astype(">f8")), lambda y: y),
    "masked, nothing hidden": (np.ma.masked_array, np.ma.masked_array),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("case", ALIKE)
def test_same_bits_as_the_plain_table(case, call):
    table, target = ALIKE[case]
    plain = CODED if call == "original columns" else X
    if call == "propose_groups" and case == "big-endian frame":  # groups of named columns go by name
        assert CALLS[call](table(plain), None) == {}
        return
    expected = CALLS[call](plain if "frame" not in case else pd.DataFrame(plain), Y)
    np.testing.assert_array_equal(CALLS[call](table(plain), target(Y)), expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", [*FITS, "wrapper"])
def test_masked_entries_are_missing_in_fit_and_score(call):
    expected = CALLS[call](np.where(MASK, np.nan, X), Y)
    np.testing.assert_array_equal(CALLS[call](np.ma.masked_array(X, MASK), Y), expected)
    assert not np.array_equal(expected, CALLS[call](X, Y))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", FITS)
def test_duplicate_entries_are_added_up_before_a_fit(call):
    np.testing.assert_array_equal(CALLS[call](halves(X), Y), CALLS[call](sp.csr_matrix(X), Y))


def damaged(index):
    out = sp.csr_matrix(X)
    out.indices[4] = index
    return out


@pytest.mark.parametrize("call", ["cross_importance", "selector", "propose_groups", "wrapper"])
@pytest.mark.parametrize("index", [-7, 77])
def test_damaged_sparse_matrices_are_refused_before_anything_walks_on_them(call, index):
    with pytest.raises(ti.DataError, match=f"damaged sparse matrix: it has an entry in column {index} of 3"):
        CALLS[call](damaged(index), Y)


def test_damaged_sparse_matrices_before_a_pipeline():
    pipe = make_pipeline(StandardScaler(with_mean=False), small()).fit(sp.csr_matrix(X), Y)
    with pytest.raises(ti.DataError, match="damaged sparse matrix"):
        ti.importance(pipe, damaged(77), Y)


@pytest.mark.parametrize("call", CALLS)
def test_duplicate_names(call):
    with pytest.raises(ti.DataError, match="X has duplicate column names: 'a'"):
        CALLS[call](pd.DataFrame(CODED, columns=["a", "b", "a"]), Y)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(call, rows):
    if rows and call not in FITS:
        if call != "propose_groups":  # one row: nothing to compare, so nothing is credited
            assert not CALLS[call](CODED[:1], Y[:1]).any()
        return
    with pytest.raises(ValueError, match=r"no rows|only \d row|minimum of 2"):  # scikit-learn's own words of a selector
        CALLS[call](CODED[:rows], Y[:rows])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", FITS)
def test_nothing_to_learn(call):
    """A constant target, or constant columns: no split, so no score."""
    assert not CALLS[call](X, np.full(N, 3.0)).any()
    assert not CALLS[call](np.ones((N, 3)), Y).any()


BAD = {
    "zero columns": (X[:, :0], Y, "no columns"),
    "nothing": (None, Y, "X is None, expected a table"),
    "a dict": ({"a": [1.0]}, Y, "X is a dict"),
    "no target": (X, None, "pass y, one value per row"),
    "a masked target": (X, np.ma.masked_array(Y, np.arange(N) == 3), "y is masked in 1 places, first in row 3"),
    "a missing target": (X, np.where(np.arange(N) == 3, np.nan, Y), "y holds nan in row 3, expected finite numbers"),
    "an infinite target": (X, np.where(np.arange(N) == 3, np.inf, Y), "y holds inf in row 3"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_fitted_is_refused_before_the_fit(case):
    table, target, message = BAD[case]
    with pytest.raises(ti.DataError, match=message):
        CALLS["cross_importance"](table, target)
