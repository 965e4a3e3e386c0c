"""Losses that the core computes itself, against the same loss by numpy, for every instruction set."""

from dataclasses import replace

import numpy as np
import pytest

import treeinner as ti
from tests.kernels.models import LEVELS
from treeinner.kernels.forest import use_instruction_set

lgb = pytest.importorskip("lightgbm")
xgb = pytest.importorskip("xgboost")


def by_numpy(model):
    """The same model, whose loss the core does not know."""
    assert model.loss.core is not None
    return replace(model, find_loss=(replace(model.loss, core=None), ""))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("std_errors", [False, True])
@pytest.mark.parametrize(
    ("labels", "params"),
    [((0, 1), {}), ((-1, 1), {"sigmoid": 0.7}), ((0, 1), {"sigmoid": 2.0, "lambda_l2": 3.0})],
)
@pytest.mark.filterwarnings("ignore")
def test_lightgbm_binary_runs_in_the_core(level, std_errors, labels, params):
    use_instruction_set(level)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = np.where(X[:, 0] + rng.normal(size=300) > 0, labels[1], labels[0])
    options = {"objective": "binary", "num_leaves": 7, "verbose": -1, "num_threads": 1, **params}
    model = ti.read_model(lgb.train(options, lgb.Dataset(X, (y > 0).astype(float)), 8))
    own, other = (
        ti.importance(which, X, y, score="tree_inner", std_errors=std_errors, sample_weight=np.full(300, 0.5))
        for which in (model, by_numpy(model))
    )
    # The core's exponential differs from numpy's by a unit or two in the last place, and leaf sums are integers in
    # units of 2^-32 of the largest leaf: a residual near half a unit may be rounded to the one or the other.
    np.testing.assert_allclose(own.scores, other.scores, rtol=0, atol=1e-9 * np.abs(other.scores).max())
    if std_errors:  # the core's shares of small trees are in float32
        np.testing.assert_allclose(own.std_errors, other.std_errors, rtol=1e-6)
    assert own.scores[0] > 0


@pytest.mark.parametrize(
    ("n_columns", "params"),
    [
        (6, {"max_depth": 6}),  # all trees in batches, of which 70 make three
        (6, {"max_depth": 8, "min_child_weight": 5}),  # some trees, which have at most 64 leaves
        (6, {"max_depth": 4, "objective": "multi:softprob", "num_class": 3}),
        (1200, {"max_depth": 5, "max_bin": 8}),  # none: more than 512 players; few bins: trained quickly
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_shares_in_batches_are_the_shares(n_columns, params):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(700, n_columns))  # runs of 256 rows, and a rest
    signal = X[:, 0] + X[:, 1] * X[:, 2] + X @ np.linspace(1.0, 0.1, n_columns) + rng.normal(size=700)
    y = np.digitize(signal, [-1, 1]) if "num_class" in params else signal
    options = {"nthread": 1, "eta": 0.2, "lambda": 0.5, "colsample_bynode": 0.5, "seed": 0, **params}
    model = ti.read_model(xgb.train(options, xgb.DMatrix(X, y), 70), learning_rate=0.2, reg_lambda=0.5)
    large = np.diff(model.trees.forest.first_leaf) > 64
    assert np.any(large) == ("min_child_weight" in params)
    assert not np.all(large)
    assert (model.trees.forest.n_players > 512) == (n_columns == 1200)
    for method in ("centred", "predecomp"):
        ask = {"score": "tree_inner", "method": method}
        other, found = ti.importance(by_numpy(model), X, y, **ask), []
        for level in LEVELS:
            use_instruction_set(level)
            found.append(ti.importance(model, X, y, **ask))
            np.testing.assert_allclose(found[-1].std_errors, other.std_errors, rtol=1e-6)  # float32, see decision 9
            np.testing.assert_allclose(found[-1].df, other.df, rtol=1e-5)
        for one in found[1:]:
            assert np.array_equal(found[0].std_errors, one.std_errors)
            assert np.array_equal(found[0].df, one.df)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "count:poisson", "multi:softprob"])
@pytest.mark.parametrize("ask", [{"score": "tree_inner", "method": "saabas"}, {"score": "loss"}], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_gradients_taken_in_the_core_are_the_losss(level, objective, ask):
    use_instruction_set(level)
    rng = np.random.default_rng(2)
    X = rng.normal(size=(600, 4))
    y = np.digitize(X[:, 0] + rng.normal(size=600), [-1, 1])
    y = y if objective == "multi:softprob" else np.minimum(y, 1)
    options = {"nthread": 1, "max_depth": 3, "objective": objective}
    options |= {"num_class": 3} if objective == "multi:softprob" else {}
    model = ti.read_model(xgb.train(options, xgb.DMatrix(X, y), 6))
    weight = rng.choice([0.0, 0.5, 2.0], 600)
    own, other = (ti.importance(which, X, y, sample_weight=weight, **ask) for which in (model, by_numpy(model)))
    np.testing.assert_allclose(own.scores, other.scores, rtol=0, atol=1e-9 * np.abs(other.scores).max())
    np.testing.assert_allclose(own.std_errors, other.std_errors, rtol=1e-6)
