"""The recipe for Ray in the documentation: two passes over parts in its object store, the bits of one process.

Ray is in no group of pyproject.toml: it takes ten seconds to start. `pip install ray` runs this test.
"""

import secrets

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import treeinner as ti

from .test_accumulator import same_numbers

ray = pytest.importorskip("ray", reason="Ray is not installed; pip install ray runs its recipe")


@pytest.fixture(scope="module")
def _cluster(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        # The processes of this cluster know each other by a token, which Ray would write to the user's home.
        token = tmp_path_factory.mktemp("ray") / "token"
        token.write_text(secrets.token_hex(32))
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
        yield
        ray.shutdown()


# -- the recipe --------------------------------------------------------------------------------------------------
def sums(accumulator, number, part):
    return accumulator.update(part, "y", batch_id=number).to_bytes()


def one_pass(accumulator, parts):
    shared, task = ray.put(accumulator), ray.remote(sums)
    done = ray.get([task.remote(shared, number, part) for number, part in enumerate(parts)])
    return accumulator.from_bytes(ti.ImportanceAccumulator.merge_bytes(done))


def importance(model, parts):
    first = one_pass(ti.ImportanceAccumulator(model, std_errors=False, n_jobs=1), parts)
    return one_pass(first.second_pass(), parts).result()


# ----------------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("_cluster")
def test_the_recipe_has_the_bits_of_one_process():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(1500, 5)), columns=list("abcde"))
    rows["y"] = rows.a + rng.normal(size=1500)
    X, y = rows[list("abcde")], rows.y
    model = xgb.XGBRegressor(n_estimators=12, max_depth=3, n_jobs=1).fit(X[:500], y[:500])
    expected = ti.importance(model, X[500:], y[500:])
    parts = [ray.put(rows[a:b]) for a, b in ((500, 800), (800, 800), (800, 1350), (1350, 1500))]
    same_numbers(importance(model, parts), expected)
