"""Rows, models and comparisons that the tests of Dask and Spark have in common."""

import functools
import warnings

import numpy as np
import pandas as pd
import xgboost as xgb

import treeinner as ti

FEATURES = list("abcde")
N = 2000
TRAINED = 500  # on the first rows; scores are of the others


@functools.cache
def rows():
    """Features, target and what else may come with the rows."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 5)), columns=FEATURES)
    frame["label"] = frame.a + 0.3 * frame.b * frame.c + rng.normal(size=N)
    frame["class"] = (frame.label > 0.5).astype(int) + (frame.label > 1)
    frame["weight"] = rng.choice([0.0, 0.3, 1.0, 7.0], N)
    frame[["margin", "margin 1", "margin 2"]] = rng.normal(size=(N, 3))
    frame["cluster"] = rng.integers(0, 200, N)
    frame["query"] = np.arange(N) // 10
    frame["grade"] = rng.integers(0, 4, N)
    frame["key"] = np.arange(N)
    return frame


def held_out():
    return rows()[TRAINED:].reset_index(drop=True)


@functools.cache
def model(kind=xgb.XGBRegressor, label="label", names=True):
    train = rows()[:TRAINED]
    X = train[FEATURES] if names else train[FEATURES].to_numpy()
    given = {"qid": train["query"]} if kind is xgb.XGBRanker else {}
    return kind(n_estimators=12, max_depth=3, n_jobs=1).fit(X, train[label], **given)


def in_memory(fitted, label="label", frame=None, features=FEATURES, **settings):
    """What one process says; settings that name columns are taken from the frame."""
    frame = held_out() if frame is None else frame
    known = {"sample_weight", "clusters", "base_margin", "qid", "by"}
    given = {name: frame[value] if name in known else value for name, value in settings.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ti.TreeInnerWarning)
        return ti.importance(fitted, frame[features], frame[label], n_jobs=1, **given)


def same_change(found, before, after, **given):
    """The bits of `ti.compare` of two frames in memory."""
    sides = [ti.Rows(f[FEATURES], f.label, **{role: f[name] for role, name in given.items()}) for f in (before, after)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ti.TreeInnerWarning)
        expected = ti.compare(model(), *sides, n_jobs=1)
    for name in ("before", "after", "signal_before", "signal_after"):
        same(getattr(found, name), getattr(expected, name))
    for field, value in vars(expected.change).items():
        assert np.array_equal(getattr(found.change, field), value), field


def same(found, expected):
    """The same bits of every number."""
    assert found.feature_names == expected.feature_names
    assert (found.n_rows, found.sum_of_weights) == (expected.n_rows, expected.sum_of_weights)
    for name in ("statistics", "outputs", "losses"):
        numbers, others = getattr(found, name), getattr(expected, name)
        assert (numbers is None) == (others is None)
        for field, value in ({} if others is None else vars(others)).items():
            assert np.array_equal(getattr(numbers, field), value, equal_nan=value is not None), (name, field)
    if expected.by_segment is not None:
        one, other = found.by_segment, expected.by_segment
        assert one.labels == other.labels
        for name in ("statistics", "difference"):
            for field, value in vars(getattr(other, name)).items():
                assert np.array_equal(getattr(getattr(one, name), field), value, equal_nan=value is not None), field
        assert np.array_equal(one.loss_after, other.loss_after)
    for name in ("rounds", "gains"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
