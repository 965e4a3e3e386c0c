"""Damaged bytes of an accumulator: our own error, or sums that can be used."""

import numpy as np
import pytest
import xgboost as xgb

import treeinner as ti
from tests.hostile.mutants import mutants

N_MUTANTS = 150
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
Y = X[:, 0]


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.filterwarnings("ignore")  # of one pass, and of what a mutant holds
def test_mutants_are_refused_by_us_or_used(clustered):
    model = ti.read_model(xgb.XGBRegressor(n_estimators=5, max_depth=2, n_jobs=1).fit(X, Y))
    make = lambda: ti.ImportanceAccumulator(model, clustered=clustered, n_jobs=1)  # noqa: E731
    whole = make().update(X, Y, clusters=np.arange(120) // 5 if clustered else None, batch_id="a")
    assert np.array_equal(make().from_bytes(whole.to_bytes()).result().scores, whole.result().scores)
    refused = 0
    for name, data in mutants(whole.to_bytes(), N_MUTANTS, seed=1):
        try:
            make().from_bytes(data).result()
        except ti.TreeInnerError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error
    assert refused > N_MUTANTS / 2
