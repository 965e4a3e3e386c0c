"""Targets: labels in any container become what the loss takes; weights of classes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.utils.class_weight import compute_sample_weight

from tests.losses.cases import loss_of
from treeinner.errors import DataError
from treeinner.losses import class_weights, encode_target

REGRESSION = loss_of("xgboost", "reg:squarederror")
BINARY, CLASSES = loss_of("sklearn", "log_loss"), loss_of("sklearn", "log_loss", n_outputs=3)
LABELS = np.random.default_rng(0).choice(["a", "b", "c"], 50, p=[0.6, 0.3, 0.1])
AFT = {"aft_loss_distribution": "normal"}


def encoded(y, loss=REGRESSION, *, classes=None, n_outputs=1, **more):
    return encode_target(y, loss, classes=classes, n_outputs=n_outputs, **more)


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        (["eel", "cat", "eel"], ["cat", "dog", "eel"], [2, 0, 2]),
        (np.array([30, 10, 20]), ("10", "20", "30"), [2, 0, 1]),
        (np.array([True, False]), [False, True, 2], [1, 0]),
    ],
)
def test_labels_become_positions_in_the_models_classes(labels, classes, expected):
    np.testing.assert_array_equal(encoded(labels, CLASSES, classes=classes, n_outputs=3), expected)


def test_numbers_stay_numbers_where_the_model_has_no_classes():
    np.testing.assert_array_equal(encoded([0, 1, 0.25], loss_of("xgboost", "binary:logistic")), [0, 1, 0.25])
    for y in (pd.Series([1, 2, 3], dtype="Int64"), pl.DataFrame({"y": [1, 2, 3]})):
        np.testing.assert_array_equal(encoded(y, n_rows=3), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(encoded([0.2, 0.5, 7.0], loss_of("catboost", "Logloss"), border=0.5), [0, 0, 1])


@pytest.mark.parametrize(
    ("y", "loss", "says"),
    [
        (pd.Series([1, None, 3], dtype="Int64"), REGRESSION, "missing"),
        (pd.Series(["dog", None]), BINARY, "missing"),
        (np.ma.masked_array([1.0, 2.0], [False, True]), REGRESSION, "masked"),
        (["cat", "fox"], BINARY, r"'fox'.*'cat', 'dog'"),
        ([1.0, -2.0], loss_of("xgboost", "count:poisson"), "-2 in row 1.*zero or above"),
        ([np.inf], REGRESSION, "finite"),
        (["a", "b"], REGRESSION, "not numeric .*'a'"),
        ([[1.0, 2.0]], REGRESSION, "2 columns"),
        ([[2.0, 1.0]], loss_of("xgboost", "survival:aft", AFT), "2, 1 in row 0"),
        (np.zeros((1, 1, 1)), REGRESSION, "dimensions"),
        (np.array(["2020-01-01"], "datetime64[D]"), REGRESSION, "datetime64"),
    ],
)
def test_bad_targets_are_one_clear_error(y, loss, says):
    with pytest.raises(DataError, match=says):
        encoded(y, loss, classes=["cat", "dog"] if loss.target == "binary" else None)


def test_targets_that_do_not_fit_the_model():
    with pytest.raises(DataError, match=r"7.*class number from 0 to 2"):
        encoded([0, 7], CLASSES, n_outputs=3)
    with pytest.raises(DataError, match="2 rows, but X has 3"):
        encoded([1.0, 2.0], n_rows=3)


def test_forest_of_several_targets_fits_indicators():
    classes, loss = [["a", "b"], [1, 2, 3]], loss_of("sklearn forest", "gini", {"many_targets": True}, n_outputs=5)
    y = np.array([["b", 3], ["a", 1]], object)
    found = encoded(y, loss, classes=classes, n_outputs=5)
    np.testing.assert_array_equal(found, [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]])
    np.testing.assert_array_equal(loss.gradients(found, np.zeros((2, 5))), -found)


SEVERAL = np.array([[0, "a"], [1, "b"], [1, "c"], [1, "a"]], object)


@pytest.mark.parametrize(
    ("spec", "classes", "y"),
    [
        ("balanced", ["a", "b", "c"], LABELS),
        ({"a": 2.0, "c": 0.5}, ["a", "b", "c"], LABELS),
        ("balanced", [[0, 1], ["a", "b", "c"]], SEVERAL),
        ([{0: 2.0, 1: 1.0}, {"a": 0.5, "b": 3.0, "c": 1.0}], [[0, 1], ["a", "b", "c"]], SEVERAL),
    ],
)
def test_class_weights_are_those_of_scikit_learn(spec, classes, y):
    np.testing.assert_allclose(class_weights(spec, classes, y), compute_sample_weight(spec, y), rtol=1e-14)  # rounding
