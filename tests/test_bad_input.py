"""Bad input gets one clear error that says what came, what was expected, what to do; never a crash, never a number."""

import pickle
from dataclasses import replace

import catboost as cb
import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import xgboost as xgb
from sklearn import ensemble as ske
from sklearn import linear_model, tree
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import treeinner as ti
from tests.forests import Recipe, make_ensemble, make_rows
from tests.models import Models

N = 80
rng = np.random.default_rng(2)
X = rng.normal(size=(N, 3)).astype(np.float32).astype(np.float64)
Y = X[:, 0] + np.abs(X[:, 1])
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
SMALL = {"n_estimators": 3, "max_depth": 2, "n_jobs": 1}
CAT = {"iterations": 3, "depth": 2, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
MODELS = Models(
    xgboost=lambda: xgb.XGBRegressor(**SMALL).fit(FRAME, Y),
    lightgbm=lambda: lgb.LGBMRegressor(**SMALL, verbosity=-1, min_child_samples=5).fit(FRAME, Y),
    catboost=lambda: cb.CatBoostRegressor(**CAT).fit(FRAME, Y),
    sklearn=lambda: ske.RandomForestRegressor(n_estimators=3, max_depth=2, random_state=0).fit(FRAME, Y),
)
each_library = pytest.mark.parametrize("library", MODELS)


# -- X -------------------------------------------------------------------------------------------------------
BAD_TABLES = {
    "few columns": (X[:, :2], "X has 2 columns, but the model was trained on 3; pass the training columns"),
    "many columns": (np.hstack([X, X]), "X has 6 columns, but the model was trained on 3"),
    "few sparse columns": (sp.csr_matrix(X[:, :2]), "X has 2 columns, but the model was trained on 3"),
    "missing name": (FRAME[["a", "c"]], "it lacks 'b'.*Select the training columns by name"),
    "extra name": (FRAME.assign(d=1.0), "it has 'd' besides"),
    "wrong names": (FRAME.rename(columns={"b": "B"}), "it lacks 'b' and has 'B' besides"),
    "wrong names in polars": (pl.DataFrame(X, schema=["a", "b", "z"]), "it lacks 'c' and has 'z' besides"),
    "repeated names": (pd.DataFrame(X, columns=["a", "b", "a"]), "duplicate column names: 'a'"),
    "words": (FRAME.assign(b="red"), "'b'.*"),
    "words in an array": (np.array([["1", "x", "2"]]), "Column 0.*"),
    "words in a list": ([[1.0, "x", 2.0]], "Column 1.*"),
    "dates": (FRAME.assign(c=pd.Timestamp("2020-01-01")), "'c'"),
    "complex": (X.astype(complex), "complex"),
    "no rows": (X[:0], "X has no rows"),
    "no rows in a frame": (FRAME[:0], "X has no rows"),
    "one dimension": (X[:, 0], r"X has shape \(80,\), expected a table of two dimensions; reshape"),
    "three dimensions": (X[None], r"X has shape \(1, 80, 3\)"),
    "a series": (FRAME["a"], "two dimensions"),
    "nothing": (None, "X is of type NoneType, expected a table"),
    "a path": ("X.csv", "There is no data file X.csv"),
    "a dict": ({"a": [1.0]}, "X is a dict, expected a table"),
    "ragged": ([[1.0, 2.0, 3.0], [1.0]], "does not make a table of numbers"),
    "a DMatrix": (xgb.DMatrix(X), r"X is of type xgboost\.DMatrix; pass the array or data frame"),
}


@each_library
@pytest.mark.parametrize("name", BAD_TABLES)
def test_tables_that_do_not_fit(library, name):
    table, message = BAD_TABLES[name]
    with pytest.raises(ti.DataError, match=message):
        ti.attribute(MODELS[library], table)


def test_a_pipelines_own_check_speaks_first():
    pipe = make_pipeline(StandardScaler(), xgb.XGBRegressor(**SMALL)).fit(FRAME, Y)
    with pytest.raises(ValueError, match="2 features"):
        ti.attribute(pipe, X[:, :2])


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinities_are_refused_where_the_library_refuses_them(bad):
    rows = X.copy()
    rows[7, 1] = bad
    with pytest.raises(ValueError, match="infinity"):
        MODELS["sklearn"].predict(rows)
    with pytest.raises(ti.DataError, match=r"Column 1 .*infinite value, which the model's own library refuses"):
        ti.attribute(MODELS["sklearn"], rows)
    a = ti.attribute(MODELS["xgboost"], rows)  # its predict takes them for huge numbers
    found = a.base_values + a.values.sum(axis=1)
    np.testing.assert_allclose(found, MODELS["xgboost"].predict(rows), rtol=0, atol=1e-6)  # float32 sums of size 1


# -- other arguments -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["shap", "PreDecomp", "", None, 3])
def test_unknown_methods(method):
    with pytest.raises(ValueError, match="is not recognised; choose one of 'predecomp', 'saabas', 'treeshap'"):
        ti.attribute(MODELS["xgboost"], X, method=method)


@pytest.mark.parametrize(("name", "given", "meant"), [
    ("method", "predecmp", "predecomp"), ("method", "SHAP", "treeshap"), ("score", "tree_iner", "tree_inner"),
])  # fmt: skip
def test_a_misspelt_choice_gets_a_hint(name, given, meant):
    with pytest.raises(ValueError, match=rf"{name}='{given}' is not recognised; .*; did you mean '{meant}'\?"):
        ti.importance(MODELS["xgboost"], X, Y, **{name: given})


@each_library
@pytest.mark.parametrize("rounds", [(0, 99), (2, 2), (-1, 2), (3, 1), (5, 9)])
def test_rounds_out_of_range(library, rounds):
    if rounds not in ((0, 99), (5, 9)):
        match = rf"iteration_range=\({rounds[0]}, {rounds[1]}\): expected two integers \(start, stop\) with 0 <= start"
    elif library == "sklearn":
        match = "iteration_range"  # a forest has one round, or none to cut
    else:
        match = rf"iteration_range=\({rounds[0]}, {rounds[1]}\) does not fit a model of 3 rounds; pass 0 <= start"
    with pytest.raises(ValueError, match=match):
        ti.attribute(MODELS[library], X, iteration_range=rounds)


@pytest.mark.parametrize("given", [np.zeros(N - 1), np.zeros((N, 2)), 0.5, []], ids=["short", "wide", "one", "empty"])
def test_base_margin_of_another_length(given):
    with pytest.raises(ti.DataError, match=r"base_margin has shape .*, expected \(80,\)"):
        ti.attribute(MODELS["xgboost"], X, base_margin=given)


@each_library
@pytest.mark.parametrize("call", [ti.attribute, ti.importance])
def test_base_margins_that_are_no_numbers(library, call):
    own = {"lightgbm": r" \(init_score\)", "catboost": r" \(baseline\)"}.get(library, "")
    rows = (X,) if call is ti.attribute else (X, Y)
    for value, shown in ((np.nan, "nan"), (-np.inf, "-inf")):
        given = np.where(np.arange(N) == 7, value, 0.0)
        with pytest.raises(ti.DataError, match=f"^base_margin{own} holds {shown} in row 7; margins must be finite"):
            call(MODELS[library], *rows, base_margin=given, method="saabas")
    with pytest.raises(ti.DataError, match=f"^base_margin{own} holds values that are not numbers; pass one number per"):
        call(MODELS[library], *rows, base_margin=["high"] * N, method="saabas")


def test_parameters_of_an_ensemble_are_settled():
    with pytest.raises(ValueError, match=r"learning_rate cannot be changed in a model that was read already"):
        ti.attribute(ti.read_model(MODELS["xgboost"]), X, learning_rate=0.1)
    with pytest.raises(ValueError, match="learning_rate"):
        ti.attribute(MODELS["xgboost"], X, learning_rate=-1.0)
    with pytest.raises(ValueError, match="n_jobs=0 has no meaning"):
        ti.attribute(MODELS["xgboost"], X, n_jobs=0)


# -- models --------------------------------------------------------------------------------------------------
UNFITTED = {
    "xgboost": xgb.XGBClassifier(),
    "lightgbm": lgb.LGBMRegressor(),
    "catboost": cb.CatBoostClassifier(),
    "forest": ske.RandomForestRegressor(),
    "hist": ske.HistGradientBoostingClassifier(),
    "boosting": ske.GradientBoostingRegressor(),
    "tree": tree.DecisionTreeClassifier(),
    "pipeline": make_pipeline(StandardScaler(), xgb.XGBRegressor()),
}


@pytest.mark.parametrize("model", UNFITTED.values(), ids=UNFITTED)
def test_unfitted_models(model):
    with pytest.raises(ti.ModelError, match="is not fitted yet; call fit first"):
        ti.attribute(model, X)


def linear_boosters():
    linear = xgb.train({"booster": "gblinear", "nthread": 1}, xgb.DMatrix(X, Y), 2)
    params = {"linear_tree": True, "verbosity": -1, "num_threads": 1}
    return linear, lgb.train(params, lgb.Dataset(X, Y), 2)


def test_models_without_one_value_per_leaf_are_refused_by_name():
    linear, leaves = linear_boosters()
    for model, name in [
        (linear, "gblinear"),
        (leaves, "linear_tree"),
        (ske.IsolationForest(n_estimators=2).fit(X), "IsolationForest"),
        (linear_model.LinearRegression().fit(X, Y), "LinearRegression"),
    ]:
        with pytest.raises(ti.UnsupportedModelError, match=name):
            ti.attribute(model, X)


@pytest.mark.parametrize("thing", [object(), None, 3, X, {}, ti.attribute], ids=lambda t: type(t).__name__)
def test_things_that_are_no_models(thing):
    with pytest.raises(ti.UnsupportedModelError, match=r"Cannot read a .*treeinner reads fitted models of XGBoost"):
        ti.attribute(thing, X)


# -- files ---------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for ending in ("ubj", "json"):
        MODELS["xgboost"].save_model(folder / f"xgboost.{ending}")
    MODELS["lightgbm"].booster_.save_model(folder / "lightgbm.txt")
    MODELS["catboost"].save_model(folder / "catboost.cbm")
    MODELS["catboost"].save_model(folder / "catboost.json", format="json")
    ti.read_model(MODELS["xgboost"]).save(folder / "treeinner.zip")
    return folder


FILES = ["xgboost.ubj", "xgboost.json", "lightgbm.txt", "catboost.cbm", "catboost.json", "treeinner.zip"]


@pytest.mark.parametrize("name", FILES)
def test_whole_files_give_what_the_model_gives(files, name):
    found = ti.attribute(files / name, X)
    live = ti.attribute(MODELS["xgboost" if "treeinner" in name else name.split(".")[0]], X)
    # XGBoost's rate is inferred from float32 weights: 6 digits; the others' files are exact
    np.testing.assert_allclose(found.values, live.values, rtol=0, atol=2e-6 if "xgboost" in name else 1e-12)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("part", [0.0, 0.02, 0.3, 0.6, 0.9, 0.99])
def test_truncated_files(files, name, part, tmp_path):
    whole = (files / name).read_bytes()
    cut = tmp_path / name
    cut.write_bytes(whole[: int(part * len(whole))])
    if name == "lightgbm.txt" and part == 0.99:
        cut.write_bytes(whole[: whole.index(b"end of trees") - 1])  # what follows are comments and parameters
    with pytest.raises(ti.ModelError, match=r"(?i)damaged|cut off|not a (complete|whole|model)|cannot load|empty"):
        ti.attribute(cut, X)


# Not catboost.cbm: it has no checksum, only CatBoost reads it, and CatBoost 1.2 may itself crash on wrong bytes in it.
@pytest.mark.parametrize("name", [name for name in FILES if name != "catboost.cbm"])
def test_corrupt_files_are_errors_of_ours_or_harmless(files, name, tmp_path):
    """Some bytes change a number and no rule; everything else must be a TreeInnerError, and nothing may crash."""
    whole = (files / name).read_bytes()
    noise = np.random.default_rng(1)
    failed = 0
    for _ in range(25):
        damaged = bytearray(whole)
        start = int(noise.integers(len(whole)))
        size = int(noise.integers(1, 60))
        damaged[start : start + size] = noise.bytes(size)
        (tmp_path / name).write_bytes(damaged)
        try:
            ti.attribute(tmp_path / name, X, method="saabas")
        except ti.TreeInnerError:
            failed += 1
    assert failed > 5


def test_paths_that_are_no_models(tmp_path):
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(MODELS["xgboost"]))
    with pytest.raises(ti.UnsupportedModelError, match=r"is a pickle .*load it yourself and pass the object"):
        ti.attribute(tmp_path / "model.pkl", X)
    with pytest.raises(FileNotFoundError, match=r"There is no model file .*missing"):
        ti.attribute(str(tmp_path / "missing.ubj"), X)
    with pytest.raises(ti.ModelError, match="is a directory"):
        ti.attribute(tmp_path, X)
    ti.attribute(MODELS["xgboost"], X).save(tmp_path / "attribution")
    with pytest.raises(ti.ModelError, match=r"treeinner\.attribution"):
        ti.attribute(tmp_path / "attribution", X)


# -- ensembles -----------------------------------------------------------------------------------------------
GOOD = make_ensemble(Recipe(n_trees=3, depth=3, grow=1.0, n_categorical=2, n_outputs=3), 5)
SPLIT = np.flatnonzero(GOOD.feature >= 0)
NUMERIC = SPLIT[GOOD.category_set[SPLIT] < 0]
LEAF = np.flatnonzero(GOOD.feature < 0)


def changed(name, index, value):
    array = getattr(GOOD, name).copy()
    array[index] = value
    return {name: array}


MALFORMED = {
    "child behind the end": (changed("left", SPLIT[0], GOOD.n_nodes), "out of range"),
    "child far out": (changed("right", SPLIT[-1], 2**31 - 1), "out of range"),
    "child in the next tree": (changed("left", SPLIT[0], GOOD.tree_start[1] + 1), "out of range"),
    "child of itself": (changed("left", SPLIT[1], SPLIT[1]), "cycle"),
    "cycle": (changed("right", SPLIT[1], SPLIT[0]), "cycle"),
    "reached twice": (changed("left", SPLIT[0], GOOD.right[SPLIT[0]]), "reached twice"),
    "split without a child": (changed("left", SPLIT[0], -1), "lacks a child"),
    "leaf with a child": (changed("left", LEAF[0], LEAF[-1]), "leaf has one"),
    "NaN leaf": (changed("value", LEAF[0], np.nan), "leaf value is not finite"),
    "infinite leaf": (changed("value", LEAF[0], np.inf), "leaf value is not finite"),
    "value at a split": (changed("value", SPLIT[0], 1.0), "inner node has a leaf value"),
    "other node value": (changed("node_value", LEAF[0], 9.0), "differs from value at a leaf"),
    "infinite node value": (changed("node_value", SPLIT[0], np.inf), "node value is infinite"),
    "NaN threshold": (changed("threshold", NUMERIC[0], np.nan), "threshold is NaN"),
    "unknown column": (changed("feature", SPLIT[0], 99), r"outside 0\.\.4"),
    "negative column": (changed("feature", SPLIT[0], -2), "."),
    "unknown set": (changed("category_set", SPLIT[0], 10**6), "category set is out of range"),
    "negative cover": (changed("cover", 1, -1.0), "cover is negative"),
    "negative code": (changed("set_codes", 0, -1), "category code is outside"),
    "unknown output": (changed("tree_output", 0, 3), r"outside 0\.\.2"),
    "jumping rounds": (changed("tree_round", -1, 7), "boosting rounds are not numbered consecutively from 0"),
    "no numbers of leaves": (changed("leaf_id", LEAF[0], -1), "leaf_id"),
    "infinite base score": (changed("base_score", 0, np.inf), "base score is not finite"),
    "short left": ({"left": GOOD.left[:-1]}, r"left does not have one entry per node"),
    "wide cover": ({"cover": np.ones((GOOD.n_nodes, 2))}, "cover does not have one entry per node"),
    "flat values": ({"value": GOOD.value[:, 0]}, "value does not have one row per node"),
    "wide values": ({"value": np.hstack([GOOD.value] * 2)}, "adds to an output outside"),
    "short rates": ({"tree_rate": GOOD.tree_rate[:-1]}, "one entry per tree"),
    "starts": ({"tree_start": GOOD.tree_start[:-1]}, "tree_start does not cut"),
    "empty tree": (changed("tree_start", 1, 0), "non-empty trees"),
    "sets": ({"set_start": GOOD.set_start[:-1]}, "."),
    "sets of two dimensions": ({"set_start": GOOD.set_start[:, None]}, "set_start does not have one dimension"),
    "codes of two dimensions": ({"set_codes": GOOD.set_codes[:, None]}, "set_codes does not have one dimension"),
    "no outputs": ({"base_score": []}, "no output"),
    "fractional children": ({"left": GOOD.left + 0.5}, "left contains values that are not integers"),
    "huge children": ({"left": np.full(GOOD.n_nodes, 2**40)}, "left contains values .* out of range for int32"),
    "output names": ({"output_names": ("a",)}, "one name per output"),
    "feature names": ({"feature_names": ("a",)}, "one name per column"),
    "shared columns": ({"column_features": ((0,), (9,))}, "column_features"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_ensembles_are_refused_before_any_kernel_sees_them(name):
    change, message = MALFORMED[name]
    with pytest.raises(ti.ModelError, match=message):
        replace(GOOD, **change)


def test_the_ensemble_that_is_damaged_here_is_good():
    rows = make_rows(GOOD, 70, 1)
    assert np.isfinite(ti.attribute(replace(GOOD), rows).values).all()


def test_arrays_of_an_ensemble_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        GOOD.left[0] = 5


# -- parameters that nobody can know -------------------------------------------------------------------------
@pytest.fixture(scope="module")
def clipped(tmp_path_factory):
    """A model whose weights max_delta_step clipped: nothing in the file tells its learning rate."""
    params = {"objective": "binary:logistic", "max_delta_step": 0.2, "eta": 0.17, "max_depth": 3, "nthread": 1}
    booster = xgb.train(params, xgb.DMatrix(X, (Y > 0.8).astype(float)), 5)
    path = tmp_path_factory.mktemp("clipped") / "model.ubj"
    booster.save_model(path)
    return booster, path


def test_a_learning_rate_that_cannot_be_known_is_asked_for_by_name(clipped):
    _, path = clipped
    with pytest.raises(
        ti.UnknownParameterError, match=r"learning_rate.*pass learning_rate=\.\.\., or use method='saabas'"
    ):
        ti.attribute(path, X)
    with pytest.raises(ti.UnknownParameterError, match="learning_rate"):
        ti.attribute(ti.read_model(path), X)
    loaded = xgb.Booster(model_file=path)  # its configuration says 0.3, which is not evidence
    with pytest.raises(ti.UnknownParameterError, match="learning_rate"):
        ti.attribute(loaded, X)
    with pytest.raises(ti.UnknownParameterError, match="learning_rate"):
        ti.attribute(path, None)  # it is asked for before X is looked at


def test_the_other_methods_need_no_learning_rate(clipped):
    booster, path = clipped
    for method, options in {"saabas": {"approx_contribs": True}, "treeshap": {}}.items():
        expected = booster.predict(xgb.DMatrix(X), pred_contribs=True, **options)
        # float32 of size 0.2
        np.testing.assert_allclose(ti.attribute(path, X, method=method).to_contribs(), expected, rtol=0, atol=5e-7)


def test_a_learning_rate_that_is_told_gives_what_the_live_model_gives(clipped):
    booster, path = clipped
    told, live = ti.attribute(path, X, learning_rate=0.17), ti.attribute(booster, X)
    # the live configuration holds the rate as float32
    np.testing.assert_allclose(told.values, live.values, rtol=0, atol=1e-7)
    margin = booster.predict(xgb.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(told.base_values + told.values.sum(axis=1), margin, rtol=0, atol=5e-7)  # float32
