"""Losses that the core computes itself, against the same loss by numpy, for every instruction set."""

from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import treeinner as ti
from treeinner import objectives
from treeinner.compiled.forest import use_instruction_set

from .test_kernels import LEVELS, restore_level  # noqa: F401


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("std_errors", [False, True])
@pytest.mark.parametrize(
    ("labels", "params"),
    [
        ((0, 1), {}),
        ((-1, 1), {"sigmoid": 0.7}),
        ((0, 1), {"scale_pos_weight": 3.0, "sigmoid": 2.0}),
    ],
)
def test_lightgbm_binary_runs_in_the_core(level, std_errors, labels, params):
    use_instruction_set(level)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = np.where(X[:, 0] + rng.normal(size=300) > 0, labels[1], labels[0])
    options = {"objective": "binary", "num_leaves": 7, "verbose": -1, "num_threads": 1, **params}
    e = ti.read_model(lgb.train(options, lgb.Dataset(X, (y > 0).astype(float)), 8)).ensemble
    loss = objectives.for_ensemble(e, "auto")
    assert loss.core_loss() is not None
    by_numpy = replace(loss, compiled=None)
    own, other = (
        ti.importance(e, X, y, objective=which, std_errors=std_errors, sample_weight=np.full(300, 0.5))
        for which in (loss, by_numpy)
    )
    # The core's exponential differs from numpy's by a unit or two in the last place.
    size = np.abs(other.scores).max()
    np.testing.assert_allclose(own.by_round(), other.by_round(), rtol=0, atol=1e-12 * size)
    # numpy's scores are sums of row scores; the core's are from leaf sums, 2^-32 of the largest leaf.
    np.testing.assert_allclose(own.scores, other.scores, rtol=0, atol=1e-8 * size)
    if std_errors:  # the core's row scores are in float32
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
def test_row_scores_in_batches_are_the_row_scores(n_columns, params):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(700, n_columns))  # runs of 256 rows, and a rest
    signal = X[:, 0] + X[:, 1] * X[:, 2] + X @ np.linspace(1.0, 0.1, n_columns) + rng.normal(size=700)
    y = np.digitize(signal, [-1, 1]) if "num_class" in params else signal
    options = {"nthread": 1, "eta": 0.2, "lambda": 0.5, "colsample_bynode": 0.5, "seed": 0, **params}
    e = ti.read_model(xgb.train(options, xgb.DMatrix(X, y), 70), learning_rate=0.2, reg_lambda=0.5).ensemble
    large = np.diff(e.forest.first_leaf) > 64
    assert np.any(large) == ("min_child_weight" in params)
    assert not np.all(large)
    assert (e.forest.n_players > 512) == (n_columns == 1200)
    loss = objectives.for_ensemble(e, "auto")
    by_numpy = ti.importance(e, X, y, objective=replace(loss, compiled=None))
    found = []
    for level in LEVELS:
        use_instruction_set(level)
        found.append(ti.importance(e, X, y, objective=loss))
        np.testing.assert_allclose(found[-1].std_errors, by_numpy.std_errors, rtol=1e-6)  # float32, see decision 9
        np.testing.assert_allclose(found[-1].statistics.df, by_numpy.statistics.df, rtol=1e-5)
    for other in found[1:]:
        assert np.array_equal(found[0].std_errors, other.std_errors)
        assert np.array_equal(found[0].statistics.df, other.statistics.df)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic", "count:poisson", "multi:softprob"])
def test_gradients_taken_in_the_core_are_the_losss(level, objective):
    use_instruction_set(level)
    rng = np.random.default_rng(2)
    X = rng.normal(size=(600, 4))
    y = np.digitize(X[:, 0] + rng.normal(size=600), [-1, 1])
    y = y if objective == "multi:softprob" else np.minimum(y, 1)
    options = {"nthread": 1, "max_depth": 3, "objective": objective, "num_class": 3}
    if objective != "multi:softprob":
        del options["num_class"]
    e = ti.read_model(xgb.train(options, xgb.DMatrix(X, y), 6)).ensemble
    loss = objectives.for_ensemble(e, "auto")
    assert loss.core_loss() is not None
    weight = rng.choice([0.0, 0.5, 2.0], 600)
    for score in ("tree_inner", "forest_inner"):
        own, other = (
            ti.importance(e, X, y, objective=which, score=score, method="treeshap", sample_weight=weight)
            for which in (loss, replace(loss, compiled=None))
        )
        # Both are sums of row scores in float64; the exponentials differ by a unit or two in the last place.
        np.testing.assert_allclose(own.scores, other.scores, rtol=0, atol=1e-12 * np.abs(other.scores).max())
        np.testing.assert_allclose(own.std_errors, other.std_errors, rtol=1e-10)


def test_a_loss_whose_class_weights_come_from_the_rows_is_left_to_numpy():
    loss = objectives.classes.lightgbm_binary(1.0, (1.0, 1.0), unbalanced=True)
    assert loss.core_loss() is None
