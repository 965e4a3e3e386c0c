"""attribute() and Attribution as a user meets them: shapes, names, containers, groups, wrappers, files, threads."""

import os
import subprocess
import sys
import zipfile
from dataclasses import fields, replace

import catboost as cb
import lightgbm as lgb
import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import shap
import xgboost as xgb
from sklearn import ensemble as ske
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import treeinner as ti
from tests.forests import Recipe, make_ensemble, make_rows
from tests.models import Models
from treeinner import compiled

mpl.use("Agg")

N = 100
rng = np.random.default_rng(5)
X = rng.normal(size=(N, 4)).astype(np.float32).astype(np.float64)
Y = 2 * X[:, 0] + X[:, 1] * X[:, 2]
CLASS = np.array(["low", "mid", "top"])[np.digitize(Y, [-1, 1])]
NAMES = ["alpha", "beta", "gamma", "delta"]
FRAME = pd.DataFrame(X, columns=NAMES, index=[f"row {i}" for i in range(N)])
FAST = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1}
QUIET = {"verbosity": -1, "min_child_samples": 5}
MODELS = Models(
    xgb=lambda: xgb.XGBRegressor(**FAST).fit(X, Y),
    xgb_named=lambda: xgb.XGBRegressor(**FAST).fit(FRAME, Y),
    xgb_classes=lambda: xgb.XGBClassifier(**FAST).fit(FRAME, np.digitize(Y, [-1, 1])),
    lgb=lambda: lgb.LGBMRegressor(**FAST, **QUIET).fit(X, Y),
    lgb_words=lambda: lgb.LGBMRegressor(**FAST, **QUIET).fit(TEXT_FRAME, Y),
    forest_classes=lambda: ske.RandomForestClassifier(n_estimators=3, max_depth=3, random_state=0).fit(FRAME, CLASS),
)
METHODS = ("predecomp", "saabas", "treeshap")


def margin_of(a):
    return a.base_values + a.values.sum(axis=1)


def same_bits(one, other):
    assert np.array_equal(one.values.view(np.int64), other.values.view(np.int64))
    assert np.array_equal(one.base_values, other.base_values)


# -- shapes, names -------------------------------------------------------------------------------------------
def test_shapes_and_repr():
    a = ti.attribute(MODELS["xgb"], X)
    assert (a.values.shape, a.base_values.shape, len(a), a.method) == ((N, 4), (N,), N, "predecomp")
    assert repr(a) == "Attribution(predecomp: 100 rows x 4 features, in units of the target)"
    assert a.output_names is None
    assert a.data is X
    a = ti.attribute(MODELS["xgb_classes"], FRAME, method="treeshap")
    assert (a.values.shape, a.base_values.shape, len(a)) == ((N, 4, 3), (N, 3), N)
    assert repr(a) == f"Attribution(treeshap: 100 rows x 4 features x 3 outputs, in {a.unit})"
    assert len(ti.attribute(MODELS["xgb"], X[:1])) == 1


def test_names_are_the_models_else_the_frames_else_numbered():
    assert ti.attribute(MODELS["xgb_named"], X).feature_names == tuple(NAMES)
    assert ti.attribute(MODELS["xgb"], FRAME).feature_names == tuple(NAMES)
    assert ti.attribute(MODELS["xgb"], X).feature_names == ("f0", "f1", "f2", "f3")
    assert ti.attribute(MODELS["forest_classes"], X).output_names == ("low", "mid", "top")
    assert ti.attribute(MODELS["xgb_classes"], X).output_names == ("0", "1", "2")


@pytest.mark.parametrize("name", ["xgb_named", "lgb"])
def test_contribs_have_xgboosts_layout(name):
    a = ti.attribute(MODELS[name], X)
    contribs = a.to_contribs()
    assert contribs.shape == (N, 5)
    np.testing.assert_array_equal(contribs[:, :4], a.values)
    np.testing.assert_array_equal(contribs[:, 4], a.base_values)


def test_contribs_of_several_outputs_have_xgboosts_layout():
    contribs = ti.attribute(MODELS["xgb_classes"], X, method="treeshap").to_contribs()
    expected = MODELS["xgb_classes"].get_booster().predict(xgb.DMatrix(FRAME), pred_contribs=True)
    assert contribs.shape == expected.shape == (N, 3, 5)
    np.testing.assert_allclose(contribs, expected, rtol=0, atol=1e-6)  # XGBoost's are float32, of size 1


def test_columns_of_a_frame_go_by_name():
    shuffled = FRAME[["gamma", "alpha", "delta", "beta"]]
    same_bits(ti.attribute(MODELS["xgb_named"], shuffled), ti.attribute(MODELS["xgb_named"], FRAME))
    np.testing.assert_array_equal(ti.attribute(MODELS["xgb_named"], shuffled).to_shap().data, X)


# -- rounds and margins --------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
def test_iteration_range(method):
    booster = MODELS["xgb"].get_booster()
    found = margin_of(ti.attribute(MODELS["xgb"], X, method=method, iteration_range=(1, 4)))
    expected = booster.predict(xgb.DMatrix(X), iteration_range=(1, 4), output_margin=True)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)  # float32 sums of size 1
    parts = [ti.attribute(MODELS["xgb"], X, method=method, iteration_range=part) for part in [(0, 2), (2, 5)]]
    whole = ti.attribute(MODELS["xgb"], X, method=method)
    # float64, added in another order
    np.testing.assert_allclose(sum(p.values for p in parts), whole.values, rtol=0, atol=1e-14)


def test_base_margin_replaces_the_base_score_of_xgboost():
    start = rng.normal(size=N)
    D = xgb.DMatrix(X, base_margin=start)
    found = ti.attribute(MODELS["xgb"], X, base_margin=start)
    np.testing.assert_allclose(margin_of(found), MODELS["xgb"].get_booster().predict(D), rtol=0, atol=2e-6)  # float32
    np.testing.assert_array_equal(found.values, ti.attribute(MODELS["xgb"], X).values)
    many = rng.normal(size=(N, 3))
    D = xgb.DMatrix(FRAME, base_margin=many)
    expected = MODELS["xgb_classes"].get_booster().predict(D, output_margin=True)
    np.testing.assert_allclose(
        margin_of(ti.attribute(MODELS["xgb_classes"], X, base_margin=many)), expected, rtol=0, atol=2e-6
    )


def test_base_margin_is_added_to_lightgbms_prediction():
    start = rng.normal(size=N)
    found = ti.attribute(MODELS["lgb"], X, base_margin=start)
    # LightGBM leaves adding it to the user; float64 in another order
    np.testing.assert_allclose(margin_of(found), MODELS["lgb"].predict(X, raw_score=True) + start, rtol=0, atol=1e-13)


# -- groups --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["xgb_named", "xgb_classes"])
def test_groups_are_signed_sums(name):
    model = MODELS[name]
    plain = ti.attribute(model, FRAME)
    grouped = ti.attribute(model, FRAME, feature_groups={"outer": ["alpha", "delta"], "one": [2]})
    assert grouped.feature_names == ("outer", "beta", "one")
    assert grouped.data is None
    np.testing.assert_array_equal(grouped.values[:, 0], plain.values[:, 0] + plain.values[:, 3])
    np.testing.assert_array_equal(grouped.values[:, 1:], plain.values[:, 1:3])
    np.testing.assert_array_equal(grouped.base_values, plain.base_values)
    frame = grouped.to_frame()
    assert list(frame.index) == list(FRAME.index)
    assert grouped.to_shap().data is None


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ({"g": ["alpha", "omega"]}, ValueError, r"'g' names 'omega', which is not a feature; features: 'alpha'"),
        ({"g": ["alpah"]}, ValueError, r"'g' names 'alpah', which is not a feature; did you mean 'alpha'\?"),
        ({"g": [0, 4]}, ValueError, r"'g' names feature 4, but features are numbered 0\.\.3"),
        ({"g": [-1]}, ValueError, r"names feature -1"),
        ({"g": [1.5]}, TypeError, r"'g' contains 1\.5; expected a feature's name or position"),
        ({"g": ["alpha"], "h": [0]}, ValueError, r"'alpha' is in groups 'g' and 'h'"),
        ({"beta": ["alpha"]}, ValueError, r"\['beta'\] have the name of a feature outside the group"),
        ([["alpha", "beta"]], TypeError, "feature_groups: expected a mapping, got a list"),
    ],
)
def test_groups_that_make_no_sense(groups, error, message):
    with pytest.raises(error, match=message):
        ti.attribute(MODELS["xgb_named"], FRAME, feature_groups=groups)


# -- frames --------------------------------------------------------------------------------------------------
def test_pandas_in_pandas_out_with_its_index():
    frame = ti.attribute(MODELS["xgb_named"], FRAME).to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.index) == list(FRAME.index)
    assert list(frame.columns) == NAMES
    np.testing.assert_array_equal(frame.to_numpy(), ti.attribute(MODELS["xgb_named"], X).values)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: pl.DataFrame(X, schema=NAMES), pl.DataFrame),
        (lambda: pl.LazyFrame(X, schema=NAMES), pl.DataFrame),
        (lambda: pa.table(dict(zip(NAMES, X.T, strict=True))), pa.Table),
        (lambda: pa.record_batch(dict(zip(NAMES, X.T, strict=True))), pa.Table),
        (lambda: X, pd.DataFrame),
        (lambda: sp.csr_array(X), pd.DataFrame),
        (X.tolist, pd.DataFrame),
    ],
    ids=["polars", "polars lazy", "pyarrow", "pyarrow batch", "numpy", "scipy", "list"],
)
def test_frames_come_back_in_the_library_they_came_in(make, kind):
    a = ti.attribute(MODELS["xgb_named"], make())
    same_bits(a, ti.attribute(MODELS["xgb_named"], X))
    frame = a.to_frame()
    assert isinstance(frame, kind)
    columns = frame.column_names if kind is pa.Table else list(frame.columns)
    assert columns == NAMES
    np.testing.assert_array_equal(np.asarray(frame["beta"]), a.values[:, 1])
    np.testing.assert_array_equal(a.to_shap().data, X)


def test_frames_of_several_outputs_name_output_and_feature():
    frame = ti.attribute(MODELS["forest_classes"], FRAME).to_frame()
    assert list(frame.columns)[:5] == ["low: alpha", "low: beta", "low: gamma", "low: delta", "mid: alpha"]
    values = ti.attribute(MODELS["forest_classes"], X).values
    np.testing.assert_array_equal(frame["top: beta"], values[:, 1, 2])


# -- shap ----------------------------------------------------------------------------------------------------
def test_to_shap_is_a_real_explanation_and_its_plots_run():
    import matplotlib.pyplot as plt

    explanation = ti.attribute(MODELS["xgb_named"], FRAME).to_shap()
    assert isinstance(explanation, shap.Explanation)
    assert explanation.shape == (N, 4)
    assert list(explanation.feature_names) == NAMES
    np.testing.assert_array_equal(explanation.data, X)
    for draw in (
        lambda: shap.plots.bar(explanation, show=False),
        lambda: shap.plots.beeswarm(explanation, show=False),
        lambda: shap.plots.waterfall(explanation[0], show=False),
        lambda: shap.plots.scatter(explanation[:, "beta"], color=explanation[:, "alpha"], show=False),
    ):
        draw()
        assert plt.gcf().axes
        plt.close("all")


def test_to_shap_of_several_outputs_can_be_cut():
    import matplotlib.pyplot as plt

    a = ti.attribute(MODELS["forest_classes"], FRAME, method="treeshap")
    explanation = a.to_shap()
    for k, name in enumerate(["low", "mid", "top"]):
        assert explanation[..., k].shape == (N, 4)
        np.testing.assert_array_equal(explanation[..., k].values, a.values[..., k])
        np.testing.assert_array_equal(explanation[..., k].base_values, a.base_values[:, k])
        np.testing.assert_array_equal(explanation[:, :, name].values, a.values[..., k])
    shap.plots.beeswarm(explanation[..., 1], show=False)
    shap.plots.waterfall(explanation[3, :, 1], show=False)
    plt.close("all")


def test_to_shap_without_shap_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ti.MissingDependencyError, match="pip install shap"):
        ti.attribute(MODELS["xgb"], X).to_shap()


def test_a_pool_of_catboost_is_taken_and_shows_no_data(tmp_path):
    model = cb.CatBoostRegressor(iterations=3, depth=2, verbose=0, thread_count=1, allow_writing_files=False)
    model.fit(TEXT_FRAME, Y, cat_features=["word"])
    a = ti.attribute(model, cb.Pool(TEXT_FRAME, cat_features=["word"]))
    same_bits(a, ti.attribute(model, TEXT_FRAME))
    assert a.to_shap().data is None
    a.save(tmp_path / "a")
    assert ti.load(tmp_path / "a").data is None


# -- files ---------------------------------------------------------------------------------------------------
TEXT_FRAME = pd.DataFrame({"word": pd.Categorical(rng.choice(["red", "green", "blue"], N)), "x": X[:, 0], "y": X[:, 1]})


@pytest.mark.parametrize(
    ("name", "table"),
    [("xgb", X), ("xgb_named", FRAME), ("forest_classes", FRAME), ("lgb_words", TEXT_FRAME)],
    ids=["array", "frame", "several outputs", "text"],
)
def test_an_attribution_survives_a_file_bit_for_bit(name, table, tmp_path):
    a = ti.attribute(MODELS[name], table)
    a.save(tmp_path / "saved")
    for loaded in (ti.load(tmp_path / "saved"), ti.Attribution.load(str(tmp_path / "saved"))):
        assert isinstance(loaded, ti.Attribution)
        same_bits(loaded, a)
        assert loaded.feature_names == a.feature_names
        assert loaded.output_names == a.output_names
        assert loaded.method == a.method
        shown = a.to_shap().data
        assert np.array_equal(loaded.data, shown.astype(str) if shown.dtype == object else shown)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "saved").read_bytes()


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(n_outputs=3, vector=True, n_categorical=2, known=True)])
def test_an_ensemble_survives_a_file_bit_for_bit(recipe, tmp_path):
    e = make_ensemble(recipe, 3)
    e.save(tmp_path / "saved")
    loaded = ti.load(tmp_path / "saved").ensemble
    assert isinstance(loaded, ti.Ensemble)
    for name in (field.name for field in fields(e)):
        one, other = getattr(e, name), getattr(loaded, name)
        if isinstance(one, np.ndarray):
            assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes()), name
        elif name == "schema":
            assert repr(one) == repr(other)  # `missing` is NaN, which does not equal itself
        else:
            assert one == other, name
    rows = make_rows(e, 70, 1)
    same_bits(ti.attribute(tmp_path / "saved", rows), ti.attribute(e, rows))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "saved").read_bytes()


@pytest.mark.parametrize("thing", ["attribution", "ensemble"])
def test_damaged_files_are_model_errors(thing, tmp_path):
    saved, path = tmp_path / "saved", tmp_path / "damaged"
    (
        ti.attribute(MODELS["xgb"], X[:3])
        if thing == "attribution"
        else ti.read_model(MODELS["xgb"], iteration_range=(0, 1))
    ).save(saved)
    whole = saved.read_bytes()
    for stop in range(0, len(whole), 97):
        path.write_bytes(whole[:stop])
        with pytest.raises(ti.ModelError):
            ti.load(path)
    survived = 0
    for position in range(0, len(whole), 13):
        flipped = bytearray(whole)
        flipped[position] ^= 0x41
        path.write_bytes(flipped)
        try:
            loaded = ti.load(path)
        except ti.ModelError:
            continue
        survived += 1  # a byte that nothing depends on: dates, versions of zip
        assert repr(loaded) == repr(ti.load(saved))
    assert survived < len(whole) / 13 / 2
    locked = bytearray(whole)
    locked[whole.rindex(b"PK\x01\x02") + 8] |= 1  # the zip calls its last member encrypted
    path.write_bytes(locked)
    with pytest.raises(ti.ModelError, match=r"damaged.*encrypted"):
        ti.load(path)


def test_foreign_files_are_model_errors(tmp_path):
    (tmp_path / "text").write_text("hello")
    MODELS["xgb"].save_model(tmp_path / "model.ubj")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("meta.json", "{}")
    for name in ("text", "model.ubj", "zip"):
        hint = "" if name == "zip" else r"; to read a model file use treeinner\.read"
        with pytest.raises(ti.ModelError, match=f"{name}.* was not saved by treeinner{hint}"):
            ti.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        ti.load(tmp_path / "nothing")
    ti.read_model(MODELS["xgb"]).save(tmp_path / "ensemble")
    with pytest.raises(ti.ModelError, match=r"holds treeinner\.ensemble; expected treeinner\.attribution"):
        ti.Attribution.load(tmp_path / "ensemble")


def test_files_of_the_future_and_incomplete_ones(tmp_path):
    from treeinner.ensemble import storage

    for kind in ("treeinner.ensemble", "treeinner.attribution"):
        storage.write(tmp_path / "new", kind, 99, {}, {})
        with pytest.raises(ti.ModelError, match="written by a newer treeinner"):
            ti.load(tmp_path / "new")
        storage.write(tmp_path / "part", kind, 1, {}, {})
        with pytest.raises(ti.ModelError, match="not a complete saved"):
            ti.load(tmp_path / "part")


# -- wrappers ------------------------------------------------------------------------------------------------
def test_a_pipeline_is_explained_on_what_its_model_sees():
    pipe = make_pipeline(StandardScaler(), xgb.XGBRegressor(**FAST)).fit(FRAME, Y)
    a = ti.attribute(pipe, FRAME)
    np.testing.assert_allclose(margin_of(a), pipe.predict(FRAME), rtol=0, atol=2e-6)  # XGBoost's float32 sums
    assert a.feature_names == tuple(NAMES)
    np.testing.assert_array_equal(a.data, pipe[0].transform(FRAME))
    same_bits(a, ti.attribute(pipe[-1], pipe[0].transform(FRAME)))
    assert list(a.to_frame().index) == list(FRAME.index)
    assert isinstance(ti.attribute(pipe, pl.DataFrame(X, schema=NAMES)).to_frame(), pl.DataFrame)


def test_one_hot_columns_of_a_pipeline_can_be_grouped_again():
    mixed = FRAME.assign(colour=rng.choice(["red", "green", "blue"], N))
    columns = ColumnTransformer([("one", OneHotEncoder(), ["colour"]), ("rest", "passthrough", ["alpha", "beta"])])
    target = Y + 2 * (mixed["colour"] == "red").to_numpy()
    pipe = make_pipeline(columns, xgb.XGBRegressor(**FAST)).fit(mixed, target)
    a = ti.attribute(pipe, mixed)
    one_hot = ("one__colour_blue", "one__colour_green", "one__colour_red")
    assert a.feature_names == (*one_hot, "rest__alpha", "rest__beta")
    grouped = ti.attribute(pipe, mixed, feature_groups={"colour": one_hot})
    assert grouped.feature_names == ("colour", "rest__alpha", "rest__beta")
    np.testing.assert_allclose(grouped.values[:, 0], a.values[:, :3].sum(axis=1), rtol=0, atol=1e-15)  # three float64
    assert np.abs(grouped.values[:, 0]).max() > 0.1
    np.testing.assert_allclose(margin_of(grouped), pipe.predict(mixed), rtol=0, atol=2e-6)


def test_searches_and_transformed_targets():
    search = GridSearchCV(xgb.XGBRegressor(**FAST), {"max_depth": [1, 2]}, cv=2).fit(FRAME, Y)
    same_bits(ti.attribute(search, FRAME), ti.attribute(search.best_estimator_, FRAME))
    log = TransformedTargetRegressor(ske.GradientBoostingRegressor(n_estimators=4), func=np.log, inverse_func=np.exp)
    log.fit(X, np.exp(Y))
    a = ti.attribute(log, X)
    np.testing.assert_allclose(np.exp(margin_of(a)), log.predict(X), rtol=1e-12)  # float64 sums


# -- sparse --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.csc_array, sp.coo_array])
@pytest.mark.parametrize("method", METHODS)
def test_absent_entries_are_missing_for_xgboost_and_zero_for_the_others(make, method):
    zeros = np.where(rng.random(X.shape) < 0.6, 0.0, X)
    models = {
        "xgboost": xgb.XGBRegressor(**FAST).fit(np.where(zeros == 0, np.nan, zeros), Y),
        "lightgbm": lgb.LGBMRegressor(**FAST, **QUIET).fit(zeros, Y),
        "forest": ske.RandomForestRegressor(n_estimators=3, max_depth=3, random_state=0).fit(zeros, Y),
    }
    for library, model in models.items():
        dense = np.where(zeros == 0, np.nan, zeros) if library == "xgboost" else zeros
        same_bits(ti.attribute(model, make(zeros), method=method), ti.attribute(model, dense, method=method))
    # the libraries' own reading of sparse rows; float32 for XGBoost
    found = margin_of(ti.attribute(models["xgboost"], make(zeros), method=method))
    np.testing.assert_allclose(found, models["xgboost"].predict(sp.csr_matrix(zeros)), rtol=0, atol=2e-6)
    found = margin_of(ti.attribute(models["lightgbm"], make(zeros), method=method))
    np.testing.assert_allclose(found, models["lightgbm"].predict(sp.csr_matrix(zeros)), rtol=0, atol=1e-13)


# -- threads, progress, instruction sets ---------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_threads_changes_no_bit_and_progress_reaches_the_end(method):
    e = make_ensemble(Recipe(n_trees=3, depth=3), 1)
    n = 2 * compiled.TASK_ROWS + 77  # three tasks
    rows = np.random.default_rng(0).normal(size=(n, 5))
    calls = []
    one = ti.attribute(e, rows, method=method, n_jobs=1, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(compiled.TASK_ROWS, n), (2 * compiled.TASK_ROWS, n), (n, n)]
    for n_jobs in (2, 5, -1, None):
        calls.clear()
        other = ti.attribute(
            e, rows, method=method, n_jobs=n_jobs, progress=lambda done, total: calls.append((done, total))
        )
        same_bits(one, other)
        assert calls[-1] == (n, n)
        assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_an_exception_in_progress_stops_the_work():
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ti.attribute(MODELS["xgb"], X, progress=stop)


ISA_PROGRAM = """
import sys
import numpy as np
import treeinner as ti
from tests.forests import Recipe, make_ensemble, make_rows
e = make_ensemble(Recipe(n_outputs=2), 4)
rows = make_rows(e, 130, 2)
for method in ("predecomp", "saabas", "treeshap"):
    sys.stdout.write(ti.attribute(e, rows, method=method).values.tobytes().hex())
print()
print(ti.instruction_set())
"""


def run_with_level(level):
    return subprocess.run(
        [sys.executable, "-c", ISA_PROGRAM],
        env=os.environ | {compiled.forest.ENVIRONMENT_VARIABLE: level},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_environment_variable_forces_each_level_and_none_changes_a_bit():
    from treeinner.compiled.forest import INSTRUCTION_SETS

    seen = {}
    for level in INSTRUCTION_SETS:
        done = run_with_level(level)
        assert done.returncode == 0, done.stderr
        bits, used = done.stdout.split()
        assert used == level
        seen[level] = bits
    assert "baseline" in seen
    assert len(set(seen.values())) == 1


def test_a_wrong_level_in_the_environment_is_a_clear_error():
    done = run_with_level("mmx")
    assert done.returncode == 1
    assert "ValueError: This machine cannot run the instruction set 'mmx'; it has baseline" in done.stderr


# -- odds ----------------------------------------------------------------------------------------------------
def test_a_model_of_lone_leaves_attributes_nothing():
    model = xgb.train({"gamma": 1e9, "nthread": 1}, xgb.DMatrix(X, Y), 3)
    for method in METHODS:
        a = ti.attribute(model, X, method=method)
        assert not a.values.any()
        np.testing.assert_allclose(a.base_values, model.predict(xgb.DMatrix(X)), rtol=0, atol=1e-6)  # float32


def test_attributions_do_not_depend_on_the_layout_of_an_array():
    whole = ti.attribute(MODELS["xgb"], X)
    wide = np.empty((2 * N, 8))
    wide[::2, ::2] = X
    for table in (np.asfortranarray(X), wide[::2, ::2], X[::-1].copy()[::-1], X.astype(np.float32)):
        same_bits(ti.attribute(MODELS["xgb"], table), whole)


def test_an_attribution_is_what_replace_makes_of_it():
    a = ti.attribute(MODELS["xgb"], X)
    assert replace(a, method="other").values is a.values
