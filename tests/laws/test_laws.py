"""Laws: what must hold for any model, against the libraries themselves."""

import json

import numpy as np
import pytest

import treeinner as ti
from tests.laws.settings import CATBOOST, GOLDEN, MODELS, SETTINGS, STEPS, UNITS, N, Setting

pytestmark = pytest.mark.filterwarnings("ignore")
METHODS = ("centred", "predecomp", "saabas", "treeshap")


def close(found, expected, tolerance):
    """Raise unless the arrays agree, to a share of the largest expected number."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def same(found, expected):
    """Raise unless scores and standard errors have the same bits."""
    np.testing.assert_array_equal(found.scores, expected.scores)
    np.testing.assert_array_equal(found.std_errors, expected.std_errors)


# -- facts of the libraries ------------------------------------------------------------------------------------------
NUMERIC = [name for name in MODELS if "-" in name and Setting(name).stem not in ("frame", "onehot", "ctr")]
# One plain Newton step in every round.
STEPWISE = [name for name in NUMERIC if {"predecomp", "total_gain"} <= set(MODELS[name])
            and Setting(name).stem not in ("dart", "parallel", "vector", "poisson")]  # fmt: skip


@pytest.mark.parametrize("source", STEPWISE)
def test_predecomp_of_the_training_rows_is_total_gain(source):
    X, y = (part[:300] for part in Setting(source).rows())
    gain, model = Setting(source).fact("total_gain"), Setting(source).model()
    found = ti.importance(model, X, y, score="tree_inner", method="predecomp", std_errors=False)
    close(found.gains, gain, 2e-6)  # the libraries hold gradients in float32: 3e-7 was measured
    close(ti.total_gain(model).scores, gain, 1e-6)  # XGBoost adds them up in float32


def test_threads_change_no_bit_of_attributions():
    (X, _), model = SETTINGS["threads"].rows(), SETTINGS["threads"].model()
    for method in METHODS[1:]:
        whole = ti.attribute(model, X, method=method, n_jobs=1).values
        np.testing.assert_array_equal(ti.attribute(model, X, method=method, n_jobs=2).values, whole)
        np.testing.assert_array_equal(ti.attribute(model, X[7777:7778], method=method).values[0], whole[7777])


# -- weights, columns, sums ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("score", ["signal", "tree_inner", "loss"])
@pytest.mark.parametrize("source", ["xgboost-1.7.6/binary.ubj", "lightgbm-4.6.0/multiclass.txt", CATBOOST, "boost"])
def test_weight_two_is_a_row_twice_and_weight_zero_no_row(source, score):
    (X, y), model = Setting(source).rows(), Setting(source).model()
    times = np.arange(N) % 3.0  # 0, 1, 2

    def scored(rows, weight=None):
        return ti.importance(model, X[rows], y[rows], score=score, method="centred", sample_weight=weight)

    weighed = scored(slice(None), times)
    close(weighed.scores, scored(np.repeat(np.arange(N), times.astype(int))).scores, UNITS)
    same(weighed, scored(times > 0, times[times > 0]))
    close(scored(slice(None), times / 4).std_errors, weighed.std_errors, STEPS)  # the scale of weights says nothing


@pytest.mark.parametrize("method", METHODS)
def test_permuted_columns_permute_scores(method, tmp_path):
    order, source = np.array([3, 0, 6, 1, 5, 2, 4]), "xgboost-3.4.1/regression.json"
    learner = json.loads((GOLDEN / source).read_text())["learner"]
    for tree in learner["gradient_booster"]["model"]["trees"]:
        split = np.array(tree["left_children"]) >= 0
        column = np.array(tree["split_indices"])
        column[split] = np.argsort(order)[column[split]]
        tree["split_indices"] = column.tolist()
    learner["feature_names"] = [learner["feature_names"][k] for k in order]
    (tmp_path / "permuted.json").write_text(json.dumps({"learner": learner, "version": [3, 4, 1]}))
    X, y = Setting(source).rows()
    one = ti.importance(Setting(source).model(), X, y, score="tree_inner", method=method)
    permuted = ti.read_model(tmp_path / "permuted.json", learning_rate=0.3, reg_lambda=1.5)
    two = ti.importance(permuted, X[:, order], y, score="tree_inner", method=method)
    assert two.feature_names == tuple(one.feature_names[k] for k in order)
    close(two.scores, one.scores[order], 1e-13)  # sums in another order
    close(two.std_errors, one.std_errors[order], 1e-13)
