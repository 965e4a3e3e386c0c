"""read_model: objects and files of every library, what the user says about them, and what is refused."""

import gzip
import json
import pickle

import catboost
import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn import ensemble as ske

import treeinner as ti

from ..models import Models

rng = np.random.default_rng(3)
X = rng.normal(size=(200, 4))
Y = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=200)


CATBOOST = {"iterations": 6, "depth": 3, "learning_rate": 0.3, "verbose": 0, "allow_writing_files": False}
MODELS = Models(
    xgboost=lambda: xgb.XGBRegressor(n_estimators=6, max_depth=3, n_jobs=1).fit(X, Y),
    lightgbm=lambda: lgb.LGBMRegressor(n_estimators=6, num_leaves=7, n_jobs=1, verbose=-1).fit(X, Y),
    catboost=lambda: catboost.CatBoostRegressor(**CATBOOST).fit(X, Y),
    hist=lambda: ske.HistGradientBoostingRegressor(max_iter=6).fit(X, Y),
    forest=lambda: ske.RandomForestRegressor(6, max_depth=4, random_state=0).fit(X, Y),
)
FILES = {
    "model.ubj": ("xgboost", lambda model: model),
    "model.json": ("xgboost", lambda model: model),
    "model.txt": ("lightgbm", lambda model: model.booster_),
    "model.cbm": ("catboost", lambda model: model),
    "cat.json": ("catboost", lambda model: model),
}


def saved(name, folder):
    """A library's own file of its model."""
    library, object_of = FILES[name]
    options = {"format": "json"} if name == "cat.json" else {}
    object_of(MODELS[library]).save_model(str(folder / name), **options)
    return folder / name, MODELS[library]


@pytest.mark.parametrize("name", MODELS)
def test_a_pickled_model_is_the_same_without_the_library_s_object(name):
    model = ti.read_model(MODELS[name])
    # XGBoost and CatBoost add in float32 and in another order.
    np.testing.assert_allclose(model.predict(X), MODELS[name].predict(X), rtol=0, atol=1e-5)
    assert repr(model) in model._repr_html_()
    assert ti.read_model(model) is model
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert (again.digest, again.origin) == (model.digest, None)
    with pytest.raises(ValueError, match="read it again"):
        ti.read_model(again, feature_names=list("abcd"))


@pytest.mark.parametrize("name", FILES)
def test_an_object_and_its_own_file_agree(name, tmp_path):
    path, model = saved(name, tmp_path)
    path = path.rename(path.with_suffix(".model"))  # files are recognised by their content
    found, of_object = ti.read_model(path), ti.read_model(model)
    assert found.digest == of_object.digest
    assert (found.library, found.n_rounds) == (of_object.library, 6)
    np.testing.assert_array_equal(found.predict(X), of_object.predict(X))


def test_the_digest_tells_models_and_losses_apart():
    model = ti.read_model(MODELS["xgboost"])
    others = [
        ti.read_model(MODELS["xgboost"], iteration_range=(0, 5)),
        ti.read_model(MODELS["xgboost"], objective="reg:pseudohubererror"),
        ti.read_model(MODELS["hist"]),
    ]
    assert len({one.digest for one in (model, *others)}) == 4
    assert ti.read_model(MODELS["xgboost"], feature_names=list("abcd")).digest == model.digest


# -- what the user says ----------------------------------------------------------------------------------------------
def test_what_the_user_says_wins_and_can_be_said_of_a_model_again():
    model = ti.read_model(MODELS["lightgbm"], objective="huber:alpha=0.5", iteration_range=[0, 4])
    assert (model.loss.name, model.n_rounds) == ("huber", 4)
    again = ti.read_model(model, feature_names=np.array(list("abcd")), learning_rate=[0.1] * 6)  # one per round
    assert (again.loss.name, again.n_rounds, again.feature_names) == ("huber", 4, tuple("abcd"))
    np.testing.assert_array_equal(again.trees.known.rate, 0.1)
    assert ti.read_model(model, iteration_range=(1, 3)).n_rounds == 2
    assert ti.read_model(MODELS["lightgbm"], iteration_range=(0, 0)).n_rounds == 6  # as XGBoost's own predict


@pytest.mark.parametrize(
    ("error", "told", "word"),
    [
        (ValueError, {"learning_rate": -0.1}, "learning_rate"),
        (ValueError, {"learning_rate": [0.1, 0.0]}, "learning_rate"),
        (ValueError, {"learning_rate": [0.1, 0.2]}, "one for each of the 6"),
        (ValueError, {"reg_lambda": "1"}, "reg_lambda"),
        (ValueError, {"reg_alpha": np.nan}, "reg_alpha"),
        (ValueError, {"iteration_range": (3, 1)}, "iteration_range"),
        (ValueError, {"iteration_range": (0, 7)}, "6 rounds"),
        (ValueError, {"iteration_range": 3}, "iteration_range"),
        (ValueError, {"feature_names": "abcd"}, "feature_names"),
        (ValueError, {"feature_names": ["a", "a", "b", "c"]}, "'a' occurs more than once"),
        (ValueError, {"feature_names": ["a"]}, "4 features"),
        (ValueError, {"objective": "quantile:alpha=0.9:beta=2"}, "beta"),
        (ValueError, {"objective": 3}, "objective"),
        (TypeError, {"eta": 0.1}, "unexpected keyword argument 'eta'"),
    ],
)
def test_what_makes_no_sense_is_an_error(error, told, word):
    with pytest.raises(error, match=word):
        ti.read_model(MODELS["xgboost"], **told).trees.known  # noqa: B018  # rates are asked for at first use


# -- what is refused ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("model", [None, [1], {"booster": 1}, np.zeros(3), object()])
def test_what_is_no_model_is_refused_by_its_type(model):
    with pytest.raises(ti.UnsupportedModelError, match=type(model).__name__):
        ti.read_model(model)


@pytest.mark.parametrize(
    "model",
    [xgb.XGBRegressor(), lgb.LGBMRegressor(), catboost.CatBoostRegressor(), ske.RandomForestRegressor()],
    ids=lambda model: type(model).__name__,
)
def test_an_unfitted_model_is_refused(model):
    with pytest.raises(ti.ModelError, match=f"{type(model).__name__} is not fitted"):
        ti.read_model(model)


CONTENTS = {
    "pickle": (pickle.dumps([1]), ti.ModelError, "not a model file"),
    "gzip": (gzip.compress(b"tree\n"), ti.ModelError, "not a model file"),
    "old": (b"binf\0\0", ti.ModelError, "not a model file"),
    "dump": (json.dumps({"name": "tree", "tree_info": []}).encode(), ti.ModelError, "not a model file"),
    "list": (b"[]", ti.ModelError, "not a model file"),
    "other": (b'{"a": 1}', ti.ModelError, "not a model file"),
    "text": (b"Dear reader", ti.ModelError, "not a model file"),
    "empty": (b"", ti.ModelError, "empty"),
    "json": (b'{"learn', ti.ModelError, "not a model file"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_other_files_are_refused_by_their_content(name, tmp_path):
    content, error, word = CONTENTS[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=word) as found:
        ti.read_model(tmp_path / name)
    assert str(tmp_path / name) in str(found.value)


def test_paths_that_are_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        ti.read_model(tmp_path / "none.ubj")
    with pytest.raises(ti.ModelError, match="directory"):
        ti.read_model(tmp_path)
    with pytest.raises(ti.ModelError, match="multi-line"):
        ti.read_model("tree\nversion=v4")


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_one_error_that_names_it(name, tmp_path):
    path, _ = saved(name, tmp_path)
    content = path.read_bytes()
    for cut in (len(content) // 3, len(content) // 2, len(content) - 40):
        path.write_bytes(content[:cut])
        with pytest.raises(ti.ModelError, match=r"model\.|cat\."):
            ti.read_model(path)


def test_an_argument_that_does_not_fit_a_file_is_an_error_that_says_so(tmp_path):
    path, _ = saved("model.ubj", tmp_path)
    with pytest.raises(ValueError, match=r"iteration_range=\(0, 9\)"):
        ti.read_model(path, iteration_range=(0, 9))
