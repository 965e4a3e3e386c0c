"""Opening models: what is wrapped around them, what kind of file they are in, and what is refused by name."""

import gzip
import json
import pickle
import subprocess
import sys
import zlib
from pathlib import Path

import catboost
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from sklearn import ensemble as sk
from sklearn import linear_model, multiclass, multioutput, tree
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler

from treeinner import ImportanceAccumulator, attribute, readers, total_gain
from treeinner.errors import DataError, ModelError, UnsupportedModelError
from treeinner.model import Model, open_model, read_model
from treeinner.options import ReadOptions
from treeinner.readers._open import kind_of_file, package_of, unwrap

from . import oracle

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] * 2 + np.abs(X[:, 1]) + 5
LABEL = (np.median(Y) < Y).astype(int)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"], index=[f"r{i}" for i in range(60)])


def forest(**more):
    """A model whose margin is its prediction."""
    return sk.RandomForestRegressor(n_estimators=3, max_depth=3, random_state=0, **more)


def margins(opened, data):
    """Prediction by the slow oracle on the table that the opened model makes of X."""
    table = opened.table(data)
    block = table.block(0, table.n_rows)
    block = block if isinstance(block, np.ndarray) else np.column_stack(block)
    return oracle.predict(opened.ensemble, block.astype(np.float64))[:, 0]


# -- wrappers ------------------------------------------------------------------------------------------------
WRAPPED = {
    "bare": forest(),
    "pipeline": make_pipeline(StandardScaler(), forest()),
    "passthrough": Pipeline([("a", "passthrough"), ("b", None), ("c", StandardScaler()), ("m", forest())]),
    "pipeline in pipeline": make_pipeline(StandardScaler(), make_pipeline(PolynomialFeatures(2), forest())),
    "transformers in a pipeline": make_pipeline(make_pipeline(StandardScaler(), PolynomialFeatures(2)), forest()),
    "grid": GridSearchCV(forest(), {"max_depth": [2, 3]}, cv=2),
    "random": RandomizedSearchCV(forest(), {"max_depth": [2, 3]}, n_iter=1, cv=2, random_state=0),
    "halving": HalvingGridSearchCV(forest(), {"max_depth": [2, 3]}, cv=2, random_state=0),
    "grid of pipeline": GridSearchCV(make_pipeline(StandardScaler(), forest()), {}, cv=2),
    "pipeline of grid": make_pipeline(StandardScaler(), GridSearchCV(forest(), {}, cv=2)),
    "everything": GridSearchCV(
        make_pipeline(StandardScaler(), TransformedTargetRegressor(make_pipeline(PolynomialFeatures(2), forest()))),
        {},
        cv=2,
    ),
    "columns": make_pipeline(ColumnTransformer([("s", StandardScaler(), [2, 0])]), forest()),
}


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("data", [X, FRAME], ids=["array", "frame"])
def test_the_margin_of_a_wrapped_model_is_its_prediction(name, data):
    model = WRAPPED[name].fit(data, Y)
    # float64 sums of three leaf values, in another order
    np.testing.assert_allclose(margins(open_model(model), data), model.predict(data), rtol=1e-12)
    assert isinstance(read_model(model), Model)


def test_transformed_target_is_on_the_transformed_scale():
    model = TransformedTargetRegressor(forest(), func=np.log, inverse_func=np.exp).fit(X, Y)
    np.testing.assert_allclose(np.exp(margins(open_model(model), X)), model.predict(X), rtol=1e-12)


def test_frozen_and_threshold_wrappers():
    fitted = sk.HistGradientBoostingClassifier(max_iter=2).fit(X, LABEL)
    assert unwrap(FrozenEstimator(fitted))[0] is fitted
    tuned = TunedThresholdClassifierCV(FrozenEstimator(fitted), cv="prefit", refit=False).fit(X, LABEL)
    fixed = FixedThresholdClassifier(FrozenEstimator(fitted), threshold=0.3).fit(X, LABEL)
    for wrapper in (tuned, fixed):
        assert isinstance(unwrap(wrapper)[0], sk.HistGradientBoostingClassifier)
    assert unwrap(make_pipeline(StandardScaler(), FrozenEstimator(fitted)))[0] is fitted


def test_samplers_of_imblearn_are_passed_by():
    class Sampler(BaseEstimator):
        def fit_resample(self, X, y):
            return X, y

    fitted = make_pipeline(StandardScaler(), forest()).fit(X, Y)
    scaler, model = fitted[0], fitted[1]
    opened = Model(open_model(model).ensemble, model, (Sampler(), scaler))
    np.testing.assert_allclose(margins(opened, X), fitted.predict(X), rtol=1e-12)
    with pytest.raises(UnsupportedModelError, match="step LinearRegression cannot transform X"):
        Model(opened.ensemble, model, (linear_model.LinearRegression(),)).table(X)


def test_subclasses_of_users_are_recognised():
    class Mine(sk.RandomForestRegressor):
        pass

    class MyPipeline(Pipeline):
        pass

    model = MyPipeline([("s", StandardScaler()), ("m", Mine(n_estimators=2, max_depth=2))]).fit(X, Y)
    np.testing.assert_allclose(margins(open_model(model), X), model.predict(X), rtol=1e-12)
    for library, base in {
        "xgboost": xgboost.XGBRegressor,
        "lightgbm": lightgbm.LGBMRegressor,
        "catboost": catboost.CatBoostRegressor,
        "sklearn": tree.DecisionTreeRegressor,
    }.items():
        assert package_of(type("Theirs", (base,), {})()) == library
    assert package_of(xgboost.Booster()) == "xgboost"
    assert package_of(BaseEstimator()) == ""


# -- names and labels ----------------------------------------------------------------------------------------
def test_names_come_through_the_transformers():
    model = make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False), forest()).fit(FRAME, Y)
    opened = open_model(model)
    assert opened.feature_names == tuple(model[:-1].get_feature_names_out())
    assert opened.feature_names[:4] == ("a", "b", "c", "a^2")
    assert opened.names(FRAME) == opened.feature_names

    mixed = FRAME.assign(d=np.where(X[:, 0] > 0, "u", "v"))
    encode = ColumnTransformer([("one", OneHotEncoder(), ["d"]), ("rest", "passthrough", ["a"])])
    assert open_model(make_pipeline(encode, forest()).fit(mixed, Y)).feature_names == (
        *("one__d_u", "one__d_v"),
        "rest__a",
    )


def test_names_are_unknown_behind_a_transformer_that_does_not_tell():
    model = make_pipeline(FunctionTransformer(np.asarray), forest()).fit(FRAME, Y)
    assert open_model(model).feature_names is None
    assert open_model(model).names(FRAME) is None  # the columns behind it need not be the frame's


def test_names_of_the_frame_serve_a_model_without_names():
    opened = open_model(forest().fit(X, Y))
    assert opened.feature_names is None
    assert opened.names(X) is None
    assert opened.names(FRAME) == ("a", "b", "c")
    named = open_model(forest().fit(FRAME, Y))
    assert named.feature_names == named.names(X) == ("a", "b", "c")


def test_the_frame_library_is_that_of_the_users_frame():
    model = make_pipeline(StandardScaler(), forest()).fit(FRAME, Y)
    table = open_model(model).table(FRAME)
    assert table.frame_library == "pandas"
    table = open_model(model).table(pl.DataFrame(X, schema=["a", "b", "c"]))
    assert table.frame_library == "polars"


# -- refused by name -----------------------------------------------------------------------------------------
DEEP = tree.DecisionTreeClassifier(max_depth=2)
TARGETS = np.column_stack([Y, -Y])
COMBINERS = [
    (multiclass.OneVsOneClassifier(DEEP), LABEL, "pair of classes"),
    (multiclass.OutputCodeClassifier(DEEP), LABEL, "code bit"),
    (multioutput.RegressorChain(forest()), TARGETS, "earlier targets"),
    (multioutput.ClassifierChain(DEEP), np.column_stack([LABEL, LABEL]), "earlier targets"),
    (sk.AdaBoostRegressor(n_estimators=2), Y, "votes with several"),
    (SequentialFeatureSelector(forest(), cv=2), Y, "no fitted model"),
]
# Which have an importance (test_wrappers.py), but are not one model.
SEVERAL = [
    (CalibratedClassifierCV(DEEP, cv=2), LABEL, "behind calibrators"),
    (multiclass.OneVsRestClassifier(DEEP), LABEL + (Y > 7), "one model per class"),
    (multioutput.MultiOutputRegressor(forest()), TARGETS, "one model per target"),
    (multioutput.MultiOutputClassifier(DEEP), np.column_stack([LABEL, LABEL]), "one model per target"),
    (sk.VotingRegressor([("f", forest()), ("g", forest())]), Y, "votes"),
    (sk.VotingClassifier([("f", DEEP), ("g", DEEP)]), LABEL, "votes"),
    (sk.StackingRegressor([("f", forest()), ("g", forest())], cv=2), Y, "last model"),
    (sk.BaggingRegressor(tree.DecisionTreeRegressor(), 2), Y, "samples of rows and columns"),
]


@pytest.mark.parametrize(("model", "y", "message"), COMBINERS, ids=[type(m).__name__ for m, _, _ in COMBINERS])
def test_combinations_of_models_are_refused_with_what_to_do(model, y, message):
    name = type(model).__name__
    for wrapped in (model, make_pipeline(StandardScaler(), model)):
        with pytest.raises(UnsupportedModelError, match=f"{name} is not one ensemble of trees: .*{message}"):
            open_model(wrapped.fit(X, y))


@pytest.mark.parametrize(("model", "y", "message"), SEVERAL, ids=[type(m).__name__ for m, _, _ in SEVERAL])
def test_a_wrapper_of_several_is_not_one_model_and_says_how_to_score_it(model, y, message):
    name = type(model).__name__
    for wrapped in (model, make_pipeline(StandardScaler(), model)):
        wrapped.fit(X, y)
        for call in (open_model, ImportanceAccumulator, total_gain, lambda m: attribute(m, X)):
            with pytest.raises(UnsupportedModelError, match=f"{name} is not one ensemble of trees: it .*{message}"):
                call(wrapped)
        with pytest.raises(UnsupportedModelError, match=r"importance\(model, X, y\) adds up .* ti\.members\(model\)"):
            open_model(wrapped)


@pytest.mark.parametrize(
    "model",
    [
        forest(),
        make_pipeline(StandardScaler(), forest()),
        GridSearchCV(forest(), {}),
        TransformedTargetRegressor(forest()),
        tree.DecisionTreeRegressor(),
        sk.HistGradientBoostingClassifier(),
        sk.GradientBoostingClassifier(),
        xgboost.XGBRegressor(),
        lightgbm.LGBMClassifier(),
        catboost.CatBoostRegressor(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_unfitted_models(model):
    with pytest.raises(ModelError, match="is not fitted yet; call fit first"):
        open_model(model)


def test_search_without_refit():
    with pytest.raises(ModelError, match="refit=False and so holds no fitted model"):
        open_model(GridSearchCV(forest(), {}, cv=2, refit=False).fit(X, Y))


@pytest.mark.parametrize("last", ["passthrough", None])
def test_pipeline_that_does_not_predict(last):
    with pytest.raises(UnsupportedModelError, match=r"last step of the Pipeline is .*, not a model"):
        open_model(Pipeline([("s", StandardScaler()), ("m", last)]).fit(X, Y))


def test_anything_else_is_refused_with_a_list_of_what_is_read():
    class Own(RegressorMixin, BaseEstimator):
        pass

    for thing, name in [
        (Own(), "Own"),
        (object(), "builtins.object"),
        (X, "numpy.ndarray"),
        (None, "NoneType"),
    ]:
        with pytest.raises(
            UnsupportedModelError, match=f"Cannot read a .*{name}: treeinner reads fitted models of XGB"
        ):
            open_model(thing)


# -- dispatch ------------------------------------------------------------------------------------------------
class FakeReader:
    """Records how it is called, and returns what it was made with."""

    def __init__(self, ensemble, table=None):
        self.ensemble, self.made, self.calls = ensemble, table, []

    def read(self, model, options):
        self.calls.append((model, options))
        return self.ensemble

    read_path = read

    def make_table(self, model, X, ensemble):
        self.calls.append((model, X))
        return self.made


@pytest.fixture(scope="module")
def plain():
    return read_model(forest().fit(X, Y)).ensemble


def test_options_reach_the_reader(monkeypatch, plain, tmp_path):
    fake = FakeReader(plain)
    asked = []
    monkeypatch.setattr(readers, "reader", lambda library: asked.append(library) or fake)
    booster = xgboost.Booster()
    options = {"learning_rate": 0.5, "reg_lambda": 2.0, "reg_alpha": 0.0, "iteration_range": (0, 1)}
    assert read_model(booster, **options).ensemble is plain
    assert fake.calls.pop() == (booster, ReadOptions(**options))
    path = tmp_path / "model.anything"
    path.write_text("tree\nversion=v4\n")
    read_model(str(path), **options)
    assert fake.calls.pop() == (path, ReadOptions(**options))
    assert asked == ["xgboost", "lightgbm"]


def test_catboost_makes_the_table_if_it_wants_to(monkeypatch, plain):
    from dataclasses import replace

    from treeinner.tables import DenseTable

    fake = FakeReader(replace(plain, library="catboost"), DenseTable(np.ones((1, 3))))
    monkeypatch.setattr(readers, "reader", lambda library: fake)
    model = catboost.CatBoost()
    monkeypatch.setattr(model, "is_fitted", lambda: True)
    monkeypatch.setattr(readers, "require_fitted", lambda model: None)
    opened = open_model(model)
    assert opened.table(X) is fake.made
    assert fake.calls[-1][0] is model
    fake.made = None
    assert np.shares_memory(opened.table(X).block(0, 2), X)


def test_ensembles_are_taken_as_they_are(tmp_path):
    # a boosted model: it has rounds to cut
    ensemble = read_model(sk.GradientBoostingRegressor(n_estimators=4, max_depth=2).fit(X, Y)).ensemble
    assert read_model(ensemble).ensemble is ensemble
    assert read_model(ensemble, iteration_range=(1, 3)).n_rounds == 2
    assert np.shares_memory(open_model(ensemble).table(X).block(0, 5), X)
    ensemble.save(tmp_path / "saved.bin")
    for path in (tmp_path / "saved.bin", str(tmp_path / "saved.bin")):
        loaded = read_model(path, iteration_range=(0, 2)).ensemble
        assert loaded.n_rounds == 2
        np.testing.assert_array_equal(loaded.value, ensemble.slice_rounds(0, 2).value)
    with pytest.raises(
        ValueError, match=r"learning_rate cannot be changed.*ti.read_model\(model, learning_rate=\.\.\.\)"
    ):
        read_model(ensemble, learning_rate=0.1)


def test_no_library_is_imported_without_need():
    code = (
        "import sys, treeinner.readers as r; "
        "print(sorted({'xgboost', 'lightgbm', 'catboost', 'sklearn', 'pandas'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


# -- facts from outside: every container against the library's own prediction --------------------------------
MIXED = pd.DataFrame(
    {
        "x": np.where(RNG.random(200) < 0.2, np.nan, RNG.normal(size=200)),
        "word": pd.Categorical(RNG.choice(["p", "q", "r", "s"], 200)),
        "whole": RNG.integers(0, 9, 200),
        "level": pd.Categorical(RNG.choice([30, 10, 20], 200)),
    }
)
MIXED.loc[::9, "word"] = None
MIXED_Y = np.nan_to_num(MIXED["x"]) + MIXED["word"].cat.codes * (MIXED["whole"] % 3) + MIXED["level"].astype(float)
TURNED = MIXED.assign(  # the same table, other columns first and other categories first
    word=MIXED["word"].cat.reorder_categories(["s", "q", "p", "r"]),
    level=MIXED["level"].cat.reorder_categories([20, 30, 10]),
)[["level", "whole", "word", "x"]]
CATEGORICAL = {
    "xgboost": xgboost.XGBRegressor(n_estimators=5, max_depth=4, enable_categorical=True, n_jobs=1),
    "lightgbm": lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1, min_child_samples=5),
    "sklearn": sk.HistGradientBoostingRegressor(max_iter=5, categorical_features="from_dtype"),
}


@pytest.mark.parametrize("library", CATEGORICAL)
def test_categories_in_another_order_are_the_same_categories(library):
    model = CATEGORICAL[library].fit(MIXED, MIXED_Y)
    ensemble = read_model(model).ensemble
    # XGBoost adds leaves up in float32: margins of size 40 are good to 1e-5
    tolerance = 1e-6 if library == "xgboost" else 1e-12
    for frame in (MIXED, TURNED):
        # XGBoost before 3.1 keeps no categories and takes the frame's own codes: so do we then
        expected = model.predict(frame[MIXED.columns])
        np.testing.assert_allclose(ensemble.predict(frame), expected, rtol=tolerance)
    if ensemble.schema.levels is not None:
        words = TURNED.assign(word=TURNED["word"].astype(object))
        np.testing.assert_allclose(ensemble.predict(words), model.predict(MIXED), rtol=tolerance)


@pytest.mark.parametrize(
    "model",
    [
        xgboost.XGBRegressor(n_estimators=5, n_jobs=1),
        lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1, min_child_samples=5),
        catboost.CatBoostRegressor(iterations=5, verbose=False, thread_count=1, allow_writing_files=False),
        forest(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_sparse_matrices_mean_what_they_mean_to_the_library(model):
    import scipy.sparse as sp

    Z = sp.random(150, 6, density=0.4, format="csr", random_state=0)
    Z.data[::5] = 0.0  # stored zeros: values to XGBoost, which takes absent entries for missing
    model.fit(Z, Z.toarray().sum(axis=1))
    for form in ("csr", "csc", "coo"):
        predicted = read_model(model).predict(Z.asformat(form))
        np.testing.assert_allclose(predicted, model.predict(Z), rtol=1e-5, atol=1e-6)  # XGBoost: float32


def test_missing_number_of_xgboost():
    holes = np.where(RNG.random(X.shape) < 0.3, -999.99, X)
    model = xgboost.XGBRegressor(n_estimators=5, n_jobs=1, missing=-999.99).fit(holes, Y)
    for data in (holes, holes.astype(np.float32), pd.DataFrame(holes), pl.DataFrame(holes)):
        np.testing.assert_allclose(read_model(model).predict(data), model.predict(holes), rtol=1e-6)  # float32


def test_catboost_routes_encoded_categories_itself(tmp_path):
    data = MIXED[["x", "whole"]].assign(word=MIXED["word"].astype(object).fillna("none"))
    model = catboost.CatBoostRegressor(
        iterations=5, verbose=False, thread_count=1, allow_writing_files=False, cat_features=["word"]
    ).fit(data, MIXED_Y)
    model.save_model(str(tmp_path / "model.cbm"))
    for source in (model, tmp_path / "model.cbm"):
        opened = open_model(source)
        for rows in (data, catboost.Pool(data, cat_features=["word"])):
            table = opened.table(rows)
            block = np.asarray(table.block(0, table.n_rows), np.float64)
            np.testing.assert_allclose(oracle.predict(opened.ensemble, block)[:, 0], model.predict(data), rtol=1e-12)
        with pytest.raises(DataError, match="only the CatBoost model object itself"):
            opened.ensemble.predict(data)


# -- files ---------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Each library's own files, under endings that say nothing."""
    folder = tmp_path_factory.mktemp("models")
    booster = xgboost.train({"nthread": 1, "max_depth": 2}, xgboost.DMatrix(X, Y, nthread=1), 2)
    for form in ("json", "ubj"):
        (folder / f"xgboost_{form}").write_bytes(booster.save_raw(form))
    config = {"num_leaves": 3, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 5}
    light = lightgbm.train(config, lightgbm.Dataset(X, Y), 2)
    light.save_model(folder / "lightgbm_text")
    cat = catboost.CatBoostRegressor(iterations=2, depth=2, verbose=False, thread_count=1, allow_writing_files=False)
    cat.fit(X, Y)
    for form in ("json", "cbm"):
        cat.save_model(str(folder / f"catboost_{form}"), format=form)
    (folder / "pretty").write_text(json.dumps(json.loads(booster.save_raw("json")), indent=2))
    turned = dict(reversed(json.loads((folder / "catboost_json").read_text()).items()))
    (folder / "catboost_turned").write_text(json.dumps({"made_by": "hand"} | turned))
    booster.dump_model(folder / "xgboost_dump", dump_format="json")
    (folder / "lightgbm_dump").write_text(json.dumps(light.dump_model()))
    return folder, {
        "xgboost": booster.predict(xgboost.DMatrix(X)),
        "lightgbm": light.predict(X),
        "catboost": cat.predict(X),
    }


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("xgboost_json", "xgboost"),
        ("xgboost_ubj", "xgboost"),
        ("pretty", "xgboost"),
        ("lightgbm_text", "lightgbm"),
        ("catboost_json", "catboost"),
        ("catboost_turned", "catboost"),
        ("catboost_cbm", "catboost"),
    ],
)
def test_files_are_known_by_their_content(files, name, library):
    folder, predictions = files
    assert kind_of_file(folder / name) == kind_of_file(str(folder / name)) == library
    if name in ("catboost_turned", "catboost_json"):  # CatBoost's own loader goes by the ending
        return
    opened = open_model(folder / name)
    # XGBoost predicts in float32: sums of two leaves of size 10 are good to 1e-6
    np.testing.assert_allclose(margins(opened, X), predictions[library], rtol=1e-6)


def test_files_that_are_no_models(files, tmp_path):
    folder, _ = files
    content = {
        "pickle": (
            pickle.dumps([1]),
            UnsupportedModelError,
            "pickle .*load it yourself and pass the object, or save",
        ),
        "old pickle": (pickle.dumps([1], 2), UnsupportedModelError, "pickle"),
        "joblib": (zlib.compress(pickle.dumps([1])), UnsupportedModelError, "pickle"),
        "gzip": (gzip.compress(b"tree\n"), UnsupportedModelError, "compressed .gzip.; decompress"),
        "empty": (b"", ModelError, "is empty"),
        "text": (b"hello", ModelError, "not a model file that treeinner can read; save the model with its library"),
        "zip": (b"PK\x03\x04 broken", ModelError, "not a model file"),
        "half": (b'{"other": [1, 2', ModelError, "not a complete JSON"),
        "deep": (b"[" * 100_000, ModelError, "not a complete JSON"),
        "cut": (b'{"learner": {', ModelError, "not a complete JSON"),
        "strange": (b'{"a": 1}', ModelError, "not an XGBoost or CatBoost model"),
        "old": (b"binf\x00\x00", UnsupportedModelError, "old binary format"),
        "xgboost": (
            (folder / "xgboost_dump").read_bytes(),
            UnsupportedModelError,
            "XGBoost's dump_model, which lacks",
        ),
        "lightgbm": (
            (folder / "lightgbm_dump").read_bytes(),
            UnsupportedModelError,
            "LightGBM's dump_model; save",
        ),
    }
    for name, (data, error, message) in content.items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(error, match=message):
            read_model(path)


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no model file .*nothing"):
        read_model(tmp_path / "nothing")
    with pytest.raises(ModelError, match="is a directory"):
        read_model(tmp_path)
    with pytest.raises(ModelError, match="multi-line string"):
        read_model("tree\nversion=v4\n")


def test_saved_data_of_another_kind_is_refused(tmp_path):
    from treeinner.ensemble import storage

    storage.write(tmp_path / "other", "treeinner.attribution", 1, {}, {})
    with pytest.raises(ModelError, match=r"holds treeinner\.attribution; expected treeinner\.ensemble"):
        read_model(Path(tmp_path / "other"))


def test_wrong_columns_reach_the_user_through_a_pipeline():
    opened = open_model(make_pipeline(PolynomialFeatures(1, include_bias=False), forest()).fit(X, Y))
    with pytest.raises(ValueError, match="3 features"):  # the pipeline's own check speaks first
        opened.table(X[:, :2])
    with pytest.raises(DataError, match="X has 2 columns, but the model was trained on 3"):
        open_model(forest().fit(X, Y)).table(X[:, :2])


def test_outputs_that_hold_models_say_what_to_pass():
    folds = lightgbm.cv(
        {"objective": "regression", "verbose": -1, "num_threads": 1}, lightgbm.Dataset(X, Y), 2, nfold=2,
        stratified=False, return_cvbooster=True,
    )  # fmt: skip
    with pytest.raises(UnsupportedModelError, match="one model per fold; pass one of its `boosters`"):
        read_model(folds["cvbooster"])
    with pytest.raises(UnsupportedModelError, match=r"xgboost\.dask\.train; pass the model in it, output\['booster'\]"):
        read_model({"booster": xgboost.Booster(), "history": {}})


def test_rounds_behind_the_best_are_noted(tmp_path):
    model = xgboost.XGBRegressor(n_estimators=40, learning_rate=1.0, early_stopping_rounds=5, n_jobs=1)
    model.fit(X[:40], Y[:40], eval_set=[(X[40:], Y[40:])], verbose=False)
    model.save_model(tmp_path / "model.ubj")
    best, every = model.best_iteration, model.get_booster().num_boosted_rounds()
    assert read_model(model).n_rounds == best + 1 < every
    assert read_model(model).notes == ()
    for source in (tmp_path / "model.ubj", model.get_booster()):
        read = read_model(source)
        assert read.n_rounds == every  # as Booster.predict
        (note,) = read.notes
        assert f"best_iteration={best}; all {every} rounds are used" in note
        cut = read_model(source, iteration_range=(0, best + 1))
        assert cut.notes == read_model(read, iteration_range=(0, 1)).notes == ()
        assert read_model(source, iteration_range=(0, every)).notes == ()  # as the user says
        np.testing.assert_allclose(cut.predict(X), model.predict(X), rtol=1e-5)  # float32


@pytest.mark.parametrize("levels", [["a", "b", "c"], [10, 20, 30]])
def test_categories_that_xgboost_has_not_seen_are_refused(levels):
    # XGBoost >= 3.3 refuses them; 3.1 and 3.2 refuse those behind the last one, and give the others a neighbour's code.
    frame = pd.DataFrame({"x": RNG.normal(size=60), "c": pd.Categorical(np.array(levels)[RNG.integers(0, 3, 60)])})
    model = xgboost.XGBRegressor(n_estimators=3, enable_categorical=True, n_jobs=1).fit(frame, Y)
    read = read_model(model)
    if read.ensemble.schema.levels is None:
        pytest.skip("XGBoost before 3.1 keeps no categories")
    new = [*levels[:2], "aa" if levels[0] == "a" else 15]
    with pytest.raises(DataError, match="has not seen in training"):
        read.predict(pd.DataFrame({"x": np.zeros(3), "c": pd.Categorical(new, categories=new)}))
    wider = pd.DataFrame({"x": np.zeros(3), "c": pd.Categorical(levels, categories=[*levels, levels[2] * 2])})
    np.testing.assert_allclose(read.predict(wider), model.predict(wider.assign(c=pd.Categorical(levels))), rtol=1e-5)


def test_codes_that_xgboost_has_not_seen_go_where_it_sends_them():
    codes = np.column_stack([RNG.normal(size=60), RNG.integers(0, 4, 60)])
    model = xgboost.XGBRegressor(n_estimators=3, enable_categorical=True, feature_types=["q", "c"], n_jobs=1)
    model.fit(codes, Y)
    rows = np.array([[0.0, 2.0], [0.0, 4.0], [0.0, 100.0], [0.0, np.nan]])
    np.testing.assert_allclose(read_model(model).predict(rows), model.predict(rows), rtol=1e-5)
