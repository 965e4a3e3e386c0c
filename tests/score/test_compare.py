"""compare() as users meet it: what may be passed, what is refused, what comes back."""

import json
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb

import treeinner as ti
from tests.cases import same_bits
from tests.models import Models
from tests.score.test_change import draw

NAMES = list("abcde")


def framed(seed, **more):
    """Rows as a frame, with the target in a column."""
    X, y = draw(seed, **more)
    return pd.DataFrame(X, columns=NAMES).assign(price=y)


def fit(*rows, **params):
    """A regressor of XGBoost."""
    return xgb.XGBRegressor(**{"n_estimators": 10, "max_depth": 3, "n_jobs": 1, **params}).fit(*rows)


MODELS = Models(
    plain=lambda: fit(*draw(0)),
    named=lambda: fit(framed(0)[NAMES], framed(0)["price"]),
    deep=lambda: fit(*draw(0), max_depth=9),
)


def same(a, b):
    """Two comparisons have the same numbers."""
    same_bits(a.before, b.before)
    same_bits(a.after, b.after)
    np.testing.assert_array_equal(a.change.std_error, b.change.std_error)


# -- what may be passed ------------------------------------------------------------------------------------------------
def test_rows_come_in_any_form(tmp_path):
    model, frames = MODELS["named"], (framed(1), framed(2))
    exact = ti.compare(model, *((frame[NAMES], frame["price"]) for frame in frames))
    paths = [tmp_path / "before.parquet", tmp_path / "after.csv"]
    frames[0].to_parquet(paths[0])
    frames[1].to_csv(paths[1], index=False)
    same(ti.compare(model, (str(paths[0]), "price"), {"X": paths[1], "y": "price"}), exact)
    same(ti.compare(model, *(ti.Rows(frame, "price") for frame in frames), n_jobs=1), exact)
    batches = [(frames[0][NAMES][i : i + 90], frames[0]["price"][i : i + 90]) for i in range(0, 400, 90)]
    same(ti.compare(model, ti.Rows(batches), [frames[1], "price"]), exact)
    assert set(exact.to_frame().columns) == set(exact.columns())
    assert isinstance(ti.compare(model, *((pl.DataFrame(frame), "price") for frame in frames)).to_frame(), pl.DataFrame)


@pytest.mark.parametrize("method", ["centred", "treeshap"])
def test_groups_and_progress(method):
    heard = []
    asked = {"feature_groups": {"noise": [2, 3, 4]}, "method": method}
    c = ti.compare(MODELS["plain"], draw(1), draw(2), **asked, progress=lambda done, of: heard.append((done, of)))
    assert (c.feature_names, c.to_dict()["method"]) == (("f0", "f1", "noise"), method)
    same_bits(c.before, ti.importance(MODELS["plain"], *draw(1), score="loss", **asked))
    assert heard == sorted(heard)
    assert heard[-1][0] == heard[-1][1]


# -- what comes back ---------------------------------------------------------------------------------------------------
def test_a_comparison_says_what_changed_and_how_much():
    c = ti.compare(MODELS["named"], (framed(1), "price"), (framed(2, torn=True), "price"))
    low, high = c.interval(0.9)
    assert low[0] < c.change.score[0] < high[0]
    assert c["a"].verdict == c.verdicts[0] == "worse"
    assert c[1].feature == "b"
    assert c["a"].holds_before > 0.8
    assert abs(c["a"].holds_after) < 0.2
    frame = c.to_frame()
    assert frame["feature"][0] == "a"
    assert list(frame["change"].abs()) == sorted(frame["change"].abs(), reverse=True)
    stored = json.loads(json.dumps(c.to_dict()))
    assert stored["rows"] == [400, 400]
    total = stored["harder"] + stored["base"] + sum(stored["features"]["change"])
    assert stored["loss_after"] - stored["loss_before"] == pytest.approx(total, rel=1e-9)
    for shown in (repr(c), c._repr_html_()):
        assert "half the squared error" in shown
        assert "worse" in shown
    with pytest.raises(KeyError, match="did you mean"):
        c["A"]
    better = replace(c, change=replace(c.change, score=-c.change.score))
    assert better.verdicts[0] == "better"


def test_of_training_rows_the_change_is_the_optimism():
    training, held_out = draw(0), draw(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c = ti.compare(MODELS["deep"], training, held_out, names=("train", "valid"))
    assert np.all(c.change.score > 0)  # noise pays in sample and not outside of it
    assert next(note.text for note in c.notes if note.code == "training_rows").startswith("train: training rows")
    for sides, name in (((training, held_out), "before"), ((held_out, training), "after")):
        with pytest.warns(ti.TreeInnerWarning, match=f"{name}: [Tt]raining rows"):
            ti.compare(MODELS["deep"], *sides)


def test_few_rows_are_noted_by_the_name_of_their_side():
    with pytest.warns(ti.TreeInnerWarning, match="after: .*12"):
        ti.compare(MODELS["plain"], draw(1), draw(2, n=12))


# -- moved or changed --------------------------------------------------------------------------------------------------
def coloured(seed, share=0.5, shift=0.0):
    """Rows with a number that has gaps, and a colour; only how often there is which of them differs."""
    rng = np.random.default_rng(seed)
    colour = pd.Categorical(np.where(rng.random(600) < share, "red", "blue"), categories=["blue", "red"])
    X = pd.DataFrame({"size": rng.normal(shift, 1, 600), "colour": colour, "other": rng.normal(size=600)})
    y = np.where(X["size"] > 0.5, 2.0 * (colour == "red"), X["size"]) + rng.normal(size=600) * 0.5
    X.loc[rng.random(600) < 0.1, "size"] = np.nan
    return X, y


def test_rows_that_moved_are_told_from_rows_that_changed(tmp_path):
    model = fit(*coloured(0), enable_categorical=True, n_estimators=30)
    sides = coloured(1), coloured(2, share=0.8, shift=0.5)
    c = ti.compare(model, *sides, split_shift=True)
    assert 300 < c.effective_rows < 600
    assert np.all(np.abs(c.changed.score) < 3 * c.changed.std_error)  # nothing changed
    assert np.abs(c.moved.score[0]) > 2 * c.moved.std_error[0]
    X, y = sides[1]
    y = np.where(X["colour"] == "red", -y, y)  # now something did
    assert ti.compare(model, sides[0], (X, y), split_shift=True).changed.q_value[1] < 0.01
    assert {"moved", "changed_std_error"} <= set(c.to_frame().columns)
    of_polars = ti.compare(model, sides[0], (pl.from_pandas(sides[1][0]), sides[1][1]), split_shift=True)
    assert of_polars.effective_rows == c.effective_rows
    same(of_polars, c)
    assert "when weighted" in repr(c)


def test_sets_that_are_too_far_apart_are_refused_with_the_columns(monkeypatch):
    model, before = MODELS["named"], (framed(1), "price")
    far = framed(2)
    far["c"] += 5
    with pytest.raises(ti.DataError, match=r"under 50. Most apart are c \(0.9"):
        ti.compare(model, before, (far, "price"), split_shift=True)
    for wrong in (np.ones(3), -np.ones(400), np.full(400, np.nan), np.zeros(400), "weight"):
        with pytest.raises(ti.DataError, match="a weight for each of the 400 rows of before"):
            ti.compare(model, before, (framed(2), "price"), split_shift=wrong)
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(ti.MissingDependencyError, match="scikit-learn"):
        ti.compare(model, before, (framed(2), "price"), split_shift=True)


# -- what is refused ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("sides", "error", "words"), [
    ((draw(1)[0], draw(2)), TypeError, "before: expected ti.Rows.*got ndarray"),
    ((draw(1), {"X": draw(2)[0], "weight": 1}), TypeError, "after: expected ti.Rows.*'weight'"),
    ((draw(1), None), TypeError, "after: expected ti.Rows"),
    ((draw(1), draw(1)), ti.DataError, "before and after are the same rows"),
    ((ti.Rows(*draw(1), sample_weight=np.ones(400)), draw(2)), ti.DataError, "sample_weight.*before and not for after"),
    ((draw(1), ti.Rows(*draw(2), base_margin=np.ones(400))), ti.DataError, "base_margin was given for after"),
    ((draw(1), (draw(2)[0][:, :4], draw(2)[1])), ti.DataError, "after: X has 4 columns"),
    (((framed(1)[NAMES], draw(1)[1]), (framed(2)[NAMES[::-1]], draw(2)[1])), ti.DataError, "before: .*'a'.*'e'.*after"),
    ((draw(1), (iter([draw(2)]), None)), ti.DataError, "after: X can be read only once"),
], ids=range(9))  # fmt: skip
def test_what_cannot_be_compared_is_refused_by_name(sides, error, words):
    with pytest.raises(error, match=words):
        ti.compare(MODELS["plain"], *sides)


@pytest.mark.parametrize(("seed", "asked", "words"), [
    (2, {"method": "saabas", "split_shift": True}, "node values of method='centred'.*'saabas'"),
    (2, {"method": "shap"}, "did you mean 'treeshap'"), (1, {"method": "treeshap"}, "are the same rows"),
    (2, {"names": ("May", "May")}, "two different names"), (2, {"names": "ab"}, "two different names"),
], ids=range(5))  # fmt: skip
def test_what_a_method_cannot_do_is_refused_by_name(seed, asked, words):
    with pytest.raises(ValueError, match=words):
        ti.compare(MODELS["plain"], draw(1), draw(seed), **asked)
