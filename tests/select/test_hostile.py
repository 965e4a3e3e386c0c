"""Hostile tables for functions that fit estimators: as the plain table, or our error.

An estimator's own fit sees X too, so what libraries read otherwise than we do (byte order, duplicate entries) must be
settled before; else it would be fitted on one table and scored on another.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xgboost as xgb

import treeinner as ti

pytestmark = pytest.mark.filterwarnings("ignore::treeinner.TreeInnerWarning")
N = 48
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
Y = X[:, 0] + 0.1 * rng.normal(size=N)


def small():
    return xgb.XGBRegressor(n_estimators=2, max_depth=2, n_jobs=1)


CALLS = {
    "cross_importance": lambda A, y: ti.cross_importance(small(), A, y, cv=2, n_jobs=1).scores,
    "selector": lambda A, y: (
        ti.TreeInnerSelector(small(), cv=2, test="marginal", n_jobs=1).fit(A, y).feature_importances_
    ),
}
EACH = pytest.mark.parametrize("call", CALLS)


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
    "lists": (lambda A: A.tolist(), lambda y: y.tolist()),
    "series": (pd.DataFrame, pd.Series),
}


@EACH
@pytest.mark.parametrize("case", ALIKE)
def test_same_bits_as_the_plain_table(case, call):
    table, target = ALIKE[case]
    np.testing.assert_array_equal(CALLS[call](table(X), target(Y)), CALLS[call](X, Y))


@EACH
def test_duplicate_entries_are_added_up_before_a_fit(call):
    np.testing.assert_array_equal(CALLS[call](halves(X), Y), CALLS[call](sp.csr_matrix(X), Y))


@EACH
@pytest.mark.parametrize("index", [-7, 77])
def test_damaged_sparse_matrices_are_refused(call, index):
    damaged = sp.csr_matrix(X)
    damaged.indices[4] = index
    with pytest.raises(ti.DataError, match="damaged sparse matrix"):
        CALLS[call](damaged, Y)


@EACH
def test_few_rows(call):
    for rows in (0, 1):
        with pytest.raises(ValueError, match=r"no rows|samples|minimum of 2"):
            CALLS[call](X[:rows], Y[:rows])


@EACH
def test_nothing_to_learn(call):
    """A constant target, or constant columns: no split, so no score."""
    assert not CALLS[call](X, np.full(N, 3.0)).any()
    assert not CALLS[call](np.ones((N, 3)), Y).any()


BAD = {
    "zero columns": (X[:, :0], Y, "no columns|0 feature"),
    "duplicate names": (pd.DataFrame(X, columns=["a", "b", "a"]), Y, "duplicate column names"),
    "nothing": (None, Y, "X|2D"),
    "a dict": ({"a": [1.0]}, Y, "X|2D"),
    "one dimension": (Y, Y, "reshape|Reshape"),
    "a masked table": (np.ma.masked_array(X), Y, "MaskedArray"),
    "a masked target": (X, np.ma.masked_array(Y), "MaskedArray"),
    "a missing target": (X, np.where(np.arange(N) == 3, np.nan, Y), "nan|NaN"),
    "an infinite target": (X, np.where(np.arange(N) == 3, np.inf, Y), "inf"),
    "a short target": (X, Y[:5], "5"),
    "no target": (X, None, "y"),
}


@EACH
@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_fitted_is_refused_before_the_fit(case, call):
    table, target, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        CALLS[call](table, target)
