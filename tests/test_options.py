"""ReadOptions: every option with every kind of wrong value is one error, in the same words for every library."""

import re
from functools import cache

import catboost
import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import ensemble as sk

import treeinner as ti
from treeinner.options import ReadOptions

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = X[:, 0] + X[:, 1] ** 2

LIBRARIES = ("xgboost", "lightgbm", "catboost", "sklearn")
NAN, INF = float("nan"), float("inf")
RATE = "expected a positive number, or one per boosting round"
PENALTY = "expected a number that is 0 or positive"
ROUNDS = "expected two integers (start, stop) with 0 <= start < stop"
NAMES = "expected a list of strings, one per feature"
LOSS = "expected 'auto', the name of a loss, an Objective, or a function (y, margin) -> gradient"
BAD = {
    "learning_rate": (RATE, [0, -1, NAN, INF, "0.1", True, [], [0.1, -0.1], [0.1, "x"], {0.1}, np.zeros((2, 2))]),
    "reg_lambda": (PENALTY, [-1, NAN, INF, [1.0], "1", False]),
    "reg_alpha": (PENALTY, [-1, NAN, INF, [1.0], "1", np.array([1.0])]),
    "iteration_range": (ROUNDS, [0, -1, NAN, INF, [0], (0,), "0:3", (0, 1, 2), (2, 2), (-1, 2), (0, 1.5), (False, 1)]),
    "feature_names": (NAMES, [0, -1, NAN, INF, "abc", [], [1, 2, 3]]),
    "objective": (LOSS, [0, -1, NAN, INF, ["reg:squarederror"], None]),
}  # fmt: skip


@cache
def model(library):
    fitted = {
        "xgboost": lambda: xgboost.XGBRegressor(n_estimators=3, max_depth=2, n_jobs=1),
        "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=3, num_leaves=4, n_jobs=1, verbose=-1),
        "catboost": lambda: catboost.CatBoostRegressor(
            iterations=3, depth=2, thread_count=1, verbose=False, allow_writing_files=False
        ),
        "sklearn": lambda: sk.GradientBoostingRegressor(n_estimators=3, max_depth=2),
    }
    return fitted[library]().fit(X, Y)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, (_, values) in BAD.items() for value in values])
def test_a_wrong_value_is_the_same_error_for_every_library(library, name, value):
    with pytest.raises(ValueError, match=re.escape(BAD[name][0])) as error:
        ti.read_model(model(library), **{name: value})
    assert str(error.value).startswith(f"{name}={value!r}: expected")


@pytest.mark.parametrize("library", LIBRARIES)
def test_values_that_do_not_fit_the_model(library):
    fitted = model(library)
    with pytest.raises(
        ValueError, match="learning_rate has 2 numbers; expected one, or one for each of the 3 boosting"
    ):
        ti.read_model(fitted, learning_rate=[0.1, 0.2])
    with pytest.raises(ValueError, match=r"iteration_range=\(0, 9\) does not fit a model of 3 rounds"):
        ti.read_model(fitted, iteration_range=(0, 9))
    with pytest.raises(ValueError, match="feature_names has 2 names; expected 3, one per feature"):
        ti.read_model(fitted, feature_names=["a", "b"])
    with pytest.raises(ValueError, match="feature_names: 'a' occurs more than once"):
        ti.read_model(fitted, feature_names=["a", "b", "a"])
    for name, meant in (("squared_eror", "squared_error"), ("reg:squarederor", "reg:squarederror")):
        with pytest.raises(ti.UnknownParameterError, match=f"'{name}' is not recognised; did you mean '{meant}'"):
            ti.read_model(fitted, objective=name)
    with pytest.raises(ti.UnknownParameterError, match=r"objectives.register it, or use one of: .*, squared_error"):
        ti.read_model(fitted, objective="zzz")
    with pytest.raises(ValueError, match=r"learning_rate has 1 number; expected one, or one for each of the 3"):
        ti.read_model(fitted, learning_rate=[0.1]).ensemble.node_value  # noqa: B018


@pytest.mark.parametrize("library", LIBRARIES)
def test_values_that_are_taken(library):
    fitted = model(library)
    m = ti.read_model(fitted, feature_names=np.array(["a", "b", "c"]), iteration_range=np.array([0, 2]))
    assert (m.feature_names, m.n_rounds) == (("a", "b", "c"), 2)
    assert ti.read_model(fitted, iteration_range=(0, 0)).n_rounds == 3  # XGBoost's "all"
    told = ti.read_model(fitted, learning_rate=np.float32(0.5), reg_lambda=0, reg_alpha=np.int64(0))
    assert told.options == ReadOptions(learning_rate=0.5, reg_lambda=0.0, reg_alpha=0.0)


def test_a_misspelt_name_gets_a_hint():
    with pytest.raises(
        TypeError, match=r"read_model\(\) got an unexpected argument 'learning_rte'; did you mean 'learning_rate'\?"
    ):
        ti.read_model(model("xgboost"), learning_rte=0.1)
    with pytest.raises(TypeError, match=r"read_model\(\) got an unexpected argument 'zzz'\.$"):
        ti.read_model(model("xgboost"), zzz=0.1)


@pytest.mark.parametrize(
    ("function", "name", "here"),
    [
        (ti.importance, "init_score", "base_margin"), (ti.attribute, "baseline", "base_margin"),
        (ti.read_model, "l2_leaf_reg", "reg_lambda"), (ti.read_model, "l2_regularization", "reg_lambda"),
        (ti.read_model, "lambda_l1", "reg_alpha"), (ti.TreeExplainer, "eta", "learning_rate"),
        (ti.importance, "group", "qid"), (ti.importance, "group_id", "qid"), (ti.compare, "group_train", "qid_train"),
        (ti.attribute, "groups", "feature_groups"), (ti.importance, "level", "over"),
        (ti.importance, "target", "against"), (ti.report, "rows", "explorer_rows"),
        (ti.permutation_importance, "seed", "random_state"),
    ],
)  # fmt: skip
def test_a_name_of_another_library_or_version_is_translated(function, name, here):
    with pytest.raises(TypeError, match=f"unexpected argument '{name}'; '{name}' is called '{here}' here"):
        ReadOptions.of({name: 1}, caller=function)


def test_only_names_that_the_function_takes_are_suggested():
    for name in ("init_score", "group", "seed"):
        with pytest.raises(TypeError, match=rf"read_model\(\) got an unexpected argument '{name}'\.$"):
            ti.read_model(model("xgboost"), **{name: 1})


def test_a_model_that_was_read_is_taken_again():
    m = ti.read_model(model("xgboost"))
    assert ti.read_model(m) is m
    view = ti.read_model(m, iteration_range=(1, 3), feature_names=["a", "b", "c"], objective="reg:pseudohubererror")
    assert (view.n_rounds, view.feature_names) == (2, ("a", "b", "c"))
    assert view.objective.name != m.objective.name
    assert view.source is m.source
    for name in ("learning_rate", "reg_lambda", "reg_alpha"):
        with pytest.raises(ValueError, match=rf"{name} cannot be changed.*ti.read_model\(model, {name}=\.\.\.\)"):
            ti.read_model(m, **{name: 0.5})


def test_a_model_shows_itself(tmp_path):
    m = ti.read_model(model("xgboost"), feature_names=["<b>", "b", "c"])
    assert repr(m).startswith("Model(xgboost, reg:squarederror: 3 trees")
    assert "<th>rounds</th><td>3</td>" in m._repr_html_()
    np.testing.assert_allclose(m.predict(X), model("xgboost").predict(X), rtol=1e-5)  # float32
    np.testing.assert_array_equal(m.apply(X), model("xgboost").apply(X))
    m.save(tmp_path / "model.ti")
    assert ti.read_model(tmp_path / "model.ti").feature_names == ("<b>", "b", "c")
