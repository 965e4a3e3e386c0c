"""Losses that the core computes itself, against the same loss by numpy, for every instruction set."""

from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest

import treeinner as ti
from treeinner import kernels, objectives

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
    kernels.instruction_set(level)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = np.where(X[:, 0] + rng.normal(size=300) > 0, labels[1], labels[0])
    options = {"objective": "binary", "num_leaves": 7, "verbose": -1, "num_threads": 1, **params}
    e = ti.read_model(lgb.train(options, lgb.Dataset(X, (y > 0).astype(float)), 8))
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


def test_a_loss_whose_class_weights_come_from_the_rows_is_left_to_numpy():
    loss = objectives.classes.lightgbm_binary(1.0, (1.0, 1.0), unbalanced=True)
    assert loss.core_loss() is None
