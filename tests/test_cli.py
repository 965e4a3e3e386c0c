"""The command line: what it writes is what the Python functions return, and every slip is one sentence that helps."""

import csv
import io
import json
import os
import pickle
import pty
import re
import select
import signal
import subprocess
import sys
import time

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import xgboost
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split
from typer.testing import CliRunner

import treeinner as ti
from treeinner.attribution import METHODS
from treeinner.cli import screen
from treeinner.cli.app import make_app
from treeinner.scores.result import TITLES, VERDICTS

COMMAND = [sys.executable, "-m", "treeinner.cli"]
LEVELS = ["blue", "green", "NA", "7"]  # the last two look like a missing value and like a number in a CSV file


def treeinner(*arguments):
    """Run a command inside this process."""
    return CliRunner().invoke(make_app(rich=False), [str(a) for a in arguments])


def succeed(*arguments):
    result = treeinner(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def sentence(*arguments, code=1):
    """The one sentence on stderr of a command that fails."""
    result = treeinner(*arguments)
    assert result.exit_code == code, (result.output, result.exception)
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    assert lines[0].endswith((".", "?"))
    return lines[0]


def process(*arguments, **more):
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, **more)


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """XGBoost's own getting-started example, trained on numpy arrays, so that the model knows no names."""
    folder = tmp_path_factory.mktemp("iris")
    data = load_iris()
    X_train, X_test, y_train, y_test = train_test_split(data["data"], data["target"], test_size=0.2, random_state=0)
    bst = xgboost.XGBClassifier(n_estimators=2, max_depth=2, learning_rate=1, objective="binary:logistic", n_jobs=1)
    bst.fit(X_train, y_train)
    bst.save_model(folder / "model.json")
    bst.save_model(folder / "model.ubj")
    pd.DataFrame(X_test, columns=data["feature_names"]).assign(species=y_test).to_parquet(folder / "test.parquet")
    return folder, bst, X_test, y_test


def frame(n, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=["age", "body_mass", "height", "noise"])
    X["day"] = rng.integers(0, 20, n)
    y = 2 * X["age"] - X["body_mass"] * X["height"] + rng.normal(size=n)
    X.loc[::7, "height"] = np.nan
    return X, y


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Models of three libraries on the same rows, and data files of every kind."""
    folder = tmp_path_factory.mktemp("home")
    X, y = frame(400, 0)
    X_valid, y_valid = frame(300, 1)
    small = {"n_estimators": 8, "max_depth": 3, "learning_rate": 0.3}
    xgb = xgboost.XGBRegressor(**small, n_jobs=1).fit(X, y)
    xgb.save_model(folder / "xgb.json")
    xgb.save_model(folder / "xgb.ubj")
    lightgbm.LGBMRegressor(**small, n_jobs=1, verbose=-1).fit(X, y).booster_.save_model(folder / "lgb.txt")
    cat = catboost.CatBoostRegressor(
        iterations=8, depth=3, learning_rate=0.3, verbose=0, thread_count=1, allow_writing_files=False
    ).fit(X, y)
    cat.save_model(str(folder / "cat.cbm"))
    cat.save_model(str(folder / "cat.json"), format="json")
    ti.read_model(xgb).save(folder / "saved.ti")
    rng = np.random.default_rng(2)
    valid = X_valid.assign(price=y_valid, w=rng.uniform(0.5, 2, 300), note="text")
    valid.to_parquet(folder / "valid.parquet")
    valid.to_csv(folder / "valid.csv")  # with the row labels as a column without a name
    valid.to_csv(folder / "valid.csv.gz", index=False)
    valid.to_csv(folder / "semicolon.csv", index=False, sep=";")
    valid.to_csv(folder / "plain_text", index=False)
    valid.to_feather(folder / "valid.feather")
    X.assign(price=y, w=1.5).to_parquet(folder / "train.parquet")
    return folder


@pytest.fixture
def rows(home):
    return pd.read_parquet(home / "valid.parquet")


FEATURES = ["age", "body_mass", "height", "noise", "day"]


TEXT = ("feature", "verdict")


def records(text):
    return list(csv.DictReader(io.StringIO(text)))


def from_csv(text):
    """Columns with every bit of their numbers: pandas' own parser is off by one now and then."""
    table = records(text)
    return {name: [r[name] if name in TEXT else float(r[name]) for r in table] for name in table[0]}


def numbers(cells):
    return np.array([float(cell) if cell else np.nan for cell in cells])


# -- the numbers are those of the Python functions -------------------------------------------------------------
@pytest.mark.parametrize("model", ["model.json", "model.ubj"])
def test_getting_started_example(iris, model):
    folder, bst, X, y = iris
    result = succeed("importance", folder / model, folder / "test.parquet", "--target", "species", "-o", "-")
    written = records(result.stdout)
    expected = ti.importance(bst, X, y)
    assert numbers(r["score"] for r in written).tolist() == expected.scores[expected.order].tolist()
    # The model knows no names, so those of the file are shown.
    names = load_iris()["feature_names"]
    assert [r["feature"] for r in written] == [names[k] for k in expected.order]
    assert "order of the file" in result.stderr


@pytest.mark.parametrize("model", ["xgb.json", "xgb.ubj", "lgb.txt", "cat.cbm", "cat.json", "saved.ti"])
def test_importance_of_every_kind_of_model(home, rows, tmp_path, model):
    out = tmp_path / "scores.parquet"
    succeed("importance", home / model, home / "valid.parquet", "-y", "price", "--weight", "w", "-o", out)
    path = home / model
    expected = ti.importance(path, rows[FEATURES], rows["price"], sample_weight=rows["w"]).to_frame()
    pd.testing.assert_frame_equal(pd.read_parquet(out), expected, check_exact=True, check_dtype=False)


@pytest.mark.parametrize(
    "data", ["valid.parquet", "valid.csv", "valid.csv.gz", "semicolon.csv", "plain_text", "valid.feather"]
)
def test_every_kind_of_data_gives_the_same_bits(home, rows, data):
    expected = ti.importance(home / "xgb.json", rows[FEATURES], rows["price"])
    written = records(succeed("importance", home / "xgb.json", home / data, "-y", "price", "-o", "-").stdout)
    assert [r["feature"] for r in written] == [expected.feature_names[k] for k in expected.order]
    assert numbers(r["std_error"] for r in written).tolist() == expected.std_errors[expected.order].tolist()


def test_a_csv_file_may_have_any_ends_of_lines(home, tmp_path):
    text = (home / "valid.csv").read_bytes().replace(b"\r\n", b"\n")
    found = []
    for end in (b"\n", b"\r\n", b"\r"):
        (tmp_path / "x.csv").write_bytes(text.replace(b"\n", end))
        found.append(ti.importance(home / "xgb.json", tmp_path / "x.csv", "price").scores)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_folder_of_parquet_parts(home, rows, tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    for i, part in enumerate(np.array_split(np.arange(len(rows)), 3)):
        rows.iloc[part].to_parquet(parts / f"{i}.parquet")
    whole = succeed("importance", home / "xgb.json", home / "valid.parquet", "-y", "price", "-o", "-").stdout
    assert succeed("importance", home / "xgb.json", parts, "-y", "price", "-o", "-").stdout == whole


def test_formats_hold_the_same_table(home, tmp_path):
    for name in ("a.csv", "a.json", "a.md", "a.parquet"):
        succeed("importance", home / "lgb.txt", home / "valid.parquet", "-y", "price", "-o", tmp_path / name)
    table = pd.read_parquet(tmp_path / "a.parquet")
    written = pd.DataFrame(from_csv((tmp_path / "a.csv").read_text()))
    pd.testing.assert_frame_equal(written, table, check_dtype=False)  # ranks come back as floats
    assert pd.DataFrame(json.loads((tmp_path / "a.json").read_text())).to_dict() == table.to_dict()
    lines = (tmp_path / "a.md").read_text().splitlines()
    assert lines[0] == f"| {' | '.join(table.columns)} |"
    cells = [line.strip("| ").split(" | ") for line in lines[2:]]
    assert [c[0] for c in cells] == table["feature"].tolist()
    np.testing.assert_allclose([float(c[1]) for c in cells], table["score"], rtol=1e-5)  # six digits are written
    assert {p.name for p in tmp_path.iterdir()} == {"a.csv", "a.json", "a.md", "a.parquet"}  # and no half-written one


def test_scores_without_a_test_are_null_in_json_and_empty_in_csv(home):
    ask = ("importance", home / "xgb.json", home / "valid.parquet", "--score", "abs", "--format")
    assert all(r["p_value"] is None for r in json.loads(succeed(*ask, "json").stdout))
    assert all(r["p_value"] == "" and r["score"] for r in records(succeed(*ask, "csv").stdout))


def test_options_reach_importance(home, rows):
    groups = {"body": ["body_mass", "height"]}
    expected = ti.importance(
        home / "xgb.json", rows[FEATURES], rows["price"], method="saabas", score="forest_inner", clusters=rows["day"],
        feature_groups=groups, objective="reg:pseudohubererror", learning_rate=0.25, reg_lambda=2.0,
        iteration_range=(1, 6),
    )  # fmt: skip
    result = succeed(
        "importance", home / "xgb.json", home / "valid.csv", "-y", "price", "--method", "saabas",
        "--score", "forest_inner", "--clusters", "day", "--feature-groups", "body=body_mass,height",
        "--learning-rate", 0.25, "--reg-lambda", 2,
        "--iteration-range", "1:6", "--objective", "reg:pseudohubererror", "--jobs", 1, "-o", "-",
    )  # fmt: skip
    written = records(result.stdout)
    assert [r["feature"] for r in written] == [expected.feature_names[k] for k in expected.order]
    assert numbers(r["score"] for r in written).tolist() == expected.scores[expected.order].tolist()
    assert numbers(r["q_value"] for r in written).tolist() == expected.q_values[expected.order].tolist()


def test_groups_of_a_file_are_those_of_the_line(home, tmp_path):
    file = tmp_path / "groups.json"
    file.write_text('{"body": ["body_mass", 2], "rest": ["noise", "day"]}')
    ask = ("importance", home / "xgb.json", home / "valid.parquet", "-y", "price", "-o", "-", "--feature-groups")
    by_line = succeed(*ask, "body=body_mass, height", "--feature-groups", "rest=noise,day").stdout
    assert succeed(*ask, file).stdout == by_line
    assert {r["feature"] for r in records(by_line)} == {"age", "body", "rest"}


def test_permutation_follows_the_seed(home, rows):
    ask = ("importance", home / "xgb.json", home / "valid.parquet", "-y", "price", "--score", "permutation", "-o", "-")
    expected = ti.permutation_importance(home / "xgb.json", rows[FEATURES], rows["price"], random_state=3)
    written = records(succeed(*ask, "--seed", 3).stdout)
    assert numbers(r["score"] for r in written).tolist() == expected.scores[expected.order].tolist()
    assert succeed(*ask, "--seed", 4).stdout != succeed(*ask, "--seed", 3).stdout


def test_stored_gain_needs_no_data(home):
    written = records(succeed("importance", home / "xgb.json", "--score", "total_gain", "-o", "-").stdout)
    booster = xgboost.Booster(model_file=home / "xgb.json")
    gains = dict.fromkeys(FEATURES, 0.0) | booster.get_score(importance_type="total_gain")
    # XGBoost adds float32 gains up in float32.
    assert {r["feature"]: float(r["score"]) for r in written} == pytest.approx(gains, rel=1e-5)


def test_top_keeps_the_best(home):
    ask = ("importance", home / "xgb.json", home / "valid.parquet", "-y", "price", "-o", "-")
    everything = succeed(*ask).stdout.splitlines()
    assert succeed(*ask, "--top", 2).stdout.splitlines() == everything[:3]
    assert succeed(*ask, "--top", 0).stdout.splitlines() == everything


@pytest.mark.parametrize("method", METHODS)
def test_attribute(home, rows, tmp_path, method):
    out = tmp_path / "a.parquet"
    succeed("attribute", home / "xgb.json", home / "valid.csv", "--method", method, "-o", out)
    written = pd.read_parquet(out)
    expected = ti.attribute(home / "xgb.json", rows[FEATURES], method=method)
    assert written["row"].tolist() == list(range(len(rows)))
    np.testing.assert_array_equal(written[list(expected.feature_names)], expected.values)
    np.testing.assert_array_equal(written["base_value"], expected.base_values)


def test_a_sample_is_a_part_of_the_whole_and_follows_the_seed(home):
    ask = ("attribute", home / "xgb.json", home / "valid.parquet", "-o", "-")
    everything = {r["row"]: r for r in records(succeed(*ask).stdout)}
    sample = records(succeed(*ask, "--rows", 20, "--seed", 5).stdout)
    assert len(sample) == len({r["row"] for r in sample}) == 20
    assert all(r == everything[r["row"]] for r in sample)
    assert records(succeed(*ask, "--rows", 20, "--seed", 6).stdout) != sample
    assert len(records(succeed(*ask, "--rows", 10_000).stdout)) == 300


def test_attributions_of_several_classes(iris):
    folder, bst, X, _ = iris
    ask = ("attribute", folder / "model.json", folder / "test.parquet", "-y", "species", "-o", "-")
    written = pd.DataFrame(from_csv(succeed(*ask).stdout))
    margin = bst.predict(X, output_margin=True)
    for k in range(3):
        parts = written[[name for name in written if name.startswith(f"{k}: ")]]
        assert parts.shape[1] == 5
        np.testing.assert_allclose(parts.sum(axis=1), margin[:, k], atol=1e-5)  # float32 margins of size 1


def test_features_may_be_called_like_our_columns(tmp_path):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["row", "base_value"])
    xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(X, X["row"]).save_model(tmp_path / "m.json")
    X.to_csv(tmp_path / "x.csv", index=False)
    written = records(succeed("attribute", tmp_path / "m.json", tmp_path / "x.csv", "-o", "-").stdout)
    assert list(written[0]) == ["row_", "base_value_", "row", "base_value"]


def test_compare(home, rows):
    train = pd.read_parquet(home / "train.parquet")
    expected = ti.compare(home / "lgb.txt", train[FEATURES], train["price"], rows[FEATURES], rows["price"]).to_frame()
    result = succeed(
        "compare", home / "lgb.txt", "--train", home / "train.parquet", "--valid", home / "valid.parquet",
        "--target", "price", "-o", "-",
    )  # fmt: skip
    written = pd.DataFrame(from_csv(result.stdout))
    pd.testing.assert_frame_equal(written, expected, check_dtype=False, check_exact=True)


def test_report_hands_everything_on(home, rows, tmp_path, monkeypatch):
    seen = {}

    def report(model, X, y, **more):
        seen.update(more, model=model, X=X, y=y)
        return more["path"]

    monkeypatch.setitem(sys.modules, "treeinner.page", type("page", (), {"report": staticmethod(report)}))
    page = tmp_path / "page.html"
    result = succeed(
        "report", home / "xgb.json", home / "valid.csv", "-y", "price", "--train", home / "train.parquet", "-o", page,
        "--weight", "w", "--explorer-rows", 50, "--seed", 9, "--title", "Prices", "--reg-lambda", 1,
        "--feature-groups", "b=noise,day",
    )  # fmt: skip
    assert str(page) in result.stderr
    assert (seen["path"], seen["explorer_rows"], seen["random_state"], seen["title"]) == (page, 50, 9, "Prices")
    assert seen["X"].column_names == FEATURES
    assert seen["X_train"].num_rows == len(seen["y_train"]) == 400
    np.testing.assert_array_equal(seen["sample_weight"], rows["w"])
    assert seen["feature_groups"] == {"b": ["noise", "day"]}
    assert seen["model"].options == ti.ReadOptions(reg_lambda=1.0)
    assert set(seen["sample_weight_train"]) == {1.5}


def test_words_of_the_options_are_those_of_the_library(home):
    ask = ("importance", home / "xgb.json", home / "valid.csv", "-y", "price")
    assert ", ".join(METHODS) in sentence(*ask, "--method", "shap", code=2)
    said = sentence(*ask, "--score", "gain", code=2)
    assert all(score in said for score in TITLES)


@pytest.mark.parametrize("command", ["importance", "importance total_gain", "attribute", "compare", "report"])
def test_a_model_is_opened_once(home, tmp_path, monkeypatch, command):
    opened = []
    read_path = ti.model.readers.read_path
    monkeypatch.setattr(ti.model.readers, "read_path", lambda *a: opened.append(a) or read_path(*a))
    valid, train = home / "valid.csv", home / "train.parquet"
    succeed(*{
        "importance": ("importance", home / "xgb.json", valid, "-y", "price"),
        "importance total_gain": ("importance", home / "xgb.json", "--score", "total_gain"),
        "attribute": ("attribute", home / "xgb.json", valid),
        "compare": ("compare", home / "xgb.json", "--train", train, "--valid", valid, "-y", "price"),
        "report": ("report", home / "xgb.json", valid, "--train", train, "-y", "price", "-o", tmp_path / "p.html"),
    }[command])  # fmt: skip
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("score", "options"),
    [
        ("abs", ["--qid day", "--objective reg:logistic"]),
        ("permutation", ["--qid day", "--method saabas", "--learning-rate 0.1", "--reg-lambda 1", "--reg-alpha 0"]),
        ("total_gain", ["valid.csv", "--target price", "--method saabas", "--rows 5", "--seed 1", "--objective x"]),
        ("tree_inner", ["--seed 1"]),
    ],
)
def test_an_option_without_meaning_for_the_score_is_refused(home, score, options):
    for option in options:
        name, *value = option.split()
        ask = ["importance", home / "xgb.json", "--score", score]
        if score != "total_gain":
            ask += [home / "valid.csv", "--target", "price"]
        said = sentence(*ask, *([name, *value] if value else [home / name]), code=2)
        assert "has no meaning" in said
        assert name if value else "DATA" in said


# -- columns and categories ----------------------------------------------------------------------------------
def test_columns_may_come_in_any_order_and_others_are_left_out_with_a_note(home, rows, tmp_path):
    shuffled = rows[["price", "noise", "note", "height", "w", "day", "body_mass", "age"]]
    shuffled.to_feather(tmp_path / "x.feather")
    ask = ("-y", "price", "-o", "-")
    result = succeed("importance", home / "xgb.json", tmp_path / "x.feather", *ask)
    assert result.stdout == succeed("importance", home / "xgb.json", home / "valid.parquet", *ask).stdout
    assert "Note: ignored 2 columns that the model does not know: 'note', 'w'." in result.stderr


def test_lightgbm_names_with_blanks(rows, tmp_path):
    X = rows[["age", "noise"]].rename(columns={"age": "the age"})
    lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1).fit(X, rows["price"]).booster_.save_model(
        tmp_path / "m.txt"
    )
    X.assign(y=rows["price"]).to_csv(tmp_path / "x.csv", index=False)
    written = records(succeed("importance", tmp_path / "m.txt", tmp_path / "x.csv", "-y", "y", "-o", "-").stdout)
    assert {r["feature"] for r in written} == {"the_age", "noise"}


@pytest.fixture(scope="module", params=["xgboost", "lightgbm"])
def categories(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("categories")
    rng = np.random.default_rng(0)
    colour = pd.Categorical(rng.choice(LEVELS, 500), LEVELS)
    X = pd.DataFrame({"x": rng.normal(size=500), "colour": colour})
    y = X["x"] + np.array([3.0, -2.0, 1.0, 0.0])[colour.codes]
    if request.param == "xgboost":
        model = xgboost.XGBRegressor(n_estimators=5, max_depth=3, enable_categorical=True, n_jobs=1).fit(X, y)
        model.save_model(folder / "model.json")
    else:
        model = lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1).fit(X, y)
        model.booster_.save_model(folder / "model.txt")
    return next(folder.iterdir()), model, X, y


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
@pytest.mark.parametrize("typed", [False, True])
def test_categories_by_their_labels(categories, tmp_path, ending, typed):
    path, model, X, y = categories
    table = X.assign(y=y) if typed else X.assign(y=y, colour=X["colour"].astype(str))
    file = tmp_path / f"x.{ending}"
    {"csv": lambda: table.to_csv(file, index=False), "parquet": lambda: table.to_parquet(file)}.get(
        ending, lambda: table.to_feather(file)
    )()
    expected = ti.importance(model, X, y)
    written = records(succeed("importance", path, file, "-y", "y", "-o", "-").stdout)
    assert numbers(r["score"] for r in written).tolist() == expected.scores[expected.order].tolist()


def test_labels_that_the_model_has_never_seen_are_refused_together(categories, tmp_path):
    path, _, X, y = categories
    X.assign(y=y, colour=X["colour"].cat.codes).to_csv(tmp_path / "codes.csv", index=False)
    said = sentence("importance", path, tmp_path / "codes.csv", "-y", "y")
    assert "'colour'" in said
    assert "'blue'" in said


def test_catboost_with_encoded_categories(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=200), "town": rng.choice([f"town {i}" for i in range(30)], 200)})
    y = X["x"] + X["town"].str[-1].astype(int)
    model = catboost.CatBoostRegressor(iterations=5, depth=3, verbose=0, thread_count=1, allow_writing_files=False)
    model.fit(X, y, cat_features=["town"]).save_model(str(tmp_path / "m.cbm"))
    X.assign(y=y).to_parquet(tmp_path / "x.parquet")
    written = records(succeed("attribute", tmp_path / "m.cbm", tmp_path / "x.parquet", "-o", "-").stdout)
    total = [float(r["base_value"]) + float(r["x"]) + float(r["town"]) for r in written]
    np.testing.assert_allclose(total, model.predict(X), rtol=1e-9)  # sums of doubles


def test_a_late_fraction_does_not_break_a_csv(home, tmp_path):
    """Arrow would take a column of a million integral numbers for integers and stop at the first fraction behind it."""
    lines = ["age,body_mass,height,noise,day,price"] + ["1,1,1,1,1,1"] * 200_000 + ["0.5,1,1,1,1,0.5"]
    (tmp_path / "long.csv").write_text("\n".join(lines))
    result = succeed("attribute", home / "xgb.json", tmp_path / "long.csv", "-o", "-", "--rows", 5)
    assert len(records(result.stdout)) == 5


# -- the first hour of a newcomer ----------------------------------------------------------------------------
def test_wrong_target(home):
    ask = ("importance", home / "xgb.json", home / "valid.csv", "--target")
    assert "did you mean 'price'?" in sentence(*ask, "prize")
    assert "did you mean 'price'?" in sentence(*ask, "PRICE")
    assert "'body_mass'" in sentence(*ask, "zzz")  # nothing near: the columns are listed
    assert "is a feature of the model" in sentence(*ask, "age")
    assert "name the column" in sentence("importance", home / "xgb.json", home / "valid.csv", code=2)
    assert "--weight" in sentence(*ask, "price", "--weight", "W8")


def test_data_without_the_columns_of_the_model(home, rows, tmp_path):
    rows.drop(columns=["noise"]).rename(columns={"age": "Age"}).to_csv(tmp_path / "x.csv", index=False)
    said = sentence("importance", home / "xgb.json", tmp_path / "x.csv", "-y", "price")
    assert "lacks 2 of the 5 columns" in said
    assert "'Age'" in said


def test_wrong_number_of_columns_for_a_model_without_names(iris, home):
    folder = iris[0]
    said = sentence("importance", folder / "model.json", home / "valid.parquet", "-y", "price")
    assert "trained on 4" in said
    assert "does not store their names" in said


def test_model_files_of_the_wrong_kind(home, tmp_path):
    pickled = tmp_path / "model.pkl"
    pickled.write_bytes(pickle.dumps(RandomForestRegressor(n_estimators=1).fit([[0.0], [1.0]], [0.0, 1.0])))
    said = sentence("importance", pickled, home / "valid.csv", "-y", "price")
    assert "pickle" in said
    assert "treeinner.read_model(model).save('model.ti')" in said
    assert "pass the object" not in said
    assert "the model comes first" in sentence("importance", home / "valid.csv", home / "xgb.json", "-y", "price")
    (tmp_path / "words.txt").write_text("hello")
    assert "save_model" in sentence("importance", tmp_path / "words.txt", home / "valid.csv", "-y", "price")
    assert "not a data file" in sentence("importance", home / "xgb.json", home / "xgb.ubj", "-y", "price")


def test_the_way_out_of_a_pickle_works(home, rows, tmp_path):
    forest = RandomForestRegressor(n_estimators=3, max_depth=3, random_state=0).fit(
        rows[["age", "noise"]], rows["price"]
    )
    ti.read_model(forest).save(tmp_path / "model.ti")
    expected = ti.importance(forest, rows[["age", "noise"]], rows["price"])
    written = records(succeed("importance", tmp_path / "model.ti", home / "valid.csv", "-y", "price", "-o", "-").stdout)
    assert numbers(r["score"] for r in written).tolist() == expected.scores[expected.order].tolist()


def test_no_library_need_be_installed(home, monkeypatch):
    for library in ("xgboost", "lightgbm", "catboost", "pandas", "sklearn"):
        monkeypatch.setitem(sys.modules, library, None)
    for model in ("xgb.json", "lgb.txt", "cat.json", "cat.cbm"):
        succeed("importance", home / model, home / "valid.csv", "-y", "price")


def test_a_target_of_strings(home):
    said = sentence("importance", home / "xgb.json", home / "valid.csv", "-y", "note")
    assert "--target note" in said
    assert "'text', which is not a number" in said


def test_a_target_with_gaps(home):
    said = sentence("importance", home / "lgb.txt", home / "valid.csv", "-y", "price", "--weight", "note")
    assert "--weight note" in said
    rows = pd.read_parquet(home / "valid.parquet").assign(price=lambda f: f["price"].where(f.index != 7))
    rows.to_csv(home / "gap.csv")
    assert "first in row 7" in sentence("importance", home / "lgb.txt", home / "gap.csv", "-y", "price")


def test_files_that_are_not_there_or_not_whole(home, tmp_path):
    assert "no model file" in sentence("importance", "nope.json", home / "valid.csv", "-y", "price")
    assert "no data file nope.csv" in sentence("importance", home / "xgb.json", "nope.csv", "-y", "price")
    ask = ("importance", home / "xgb.json")
    for name in ("valid.parquet", "valid.feather"):
        whole = (home / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
        assert "cannot be read" in sentence(*ask, tmp_path / name, "-y", "price")
    (tmp_path / "words.parquet").write_text("age,price\n1,2\n")
    assert "is not a Parquet file" in sentence(*ask, tmp_path / "words.parquet", "-y", "price")
    (tmp_path / "latin.csv").write_bytes("age,größe\n1,2\n".encode("latin-1"))
    assert "save it as UTF-8" in sentence(*ask, tmp_path / "latin.csv", "-y", "price")
    (tmp_path / "ragged.csv").write_text("age,body_mass,height,noise,day,price\n1,2,3,4,5,6\n1,2,3\n")
    assert "cannot be read as CSV" in sentence(*ask, tmp_path / "ragged.csv", "-y", "price")
    (tmp_path / "not.csv.gz").write_text("age,price\n1,2\n")
    assert "not.csv.gz cannot be read as CSV" in sentence(*ask, tmp_path / "not.csv.gz", "-y", "price")
    (tmp_path / "blank.csv").write_text("\n\n")
    assert "column names first" in sentence(*ask, tmp_path / "blank.csv", "-y", "price")
    (tmp_path / "headless.csv").write_text("5.1,3.5\n4.9,3.0\n")
    assert "column names first" in sentence(*ask, tmp_path / "headless.csv", "-y", "price")
    half = (home / "xgb.json").read_bytes()
    (tmp_path / "half.json").write_bytes(half[: len(half) // 2])
    sentence("importance", tmp_path / "half.json", home / "valid.csv", "-y", "price")


def test_several_files_must_have_the_same_columns_and_come_once(home):
    ask = ("importance", home / "xgb.json")
    said = sentence(*ask, home / "valid.parquet", home / "train.parquet", "-y", "price")
    assert "train.parquet lacks 'note', unlike" in said
    assert "was given twice" in sentence(*ask, home / "valid.parquet", home / "valid.parquet", "-y", "price")
    assert "There are no data files" in sentence(*ask, home / "none-*.parquet", "-y", "price")


@pytest.mark.parametrize("kind", [MemoryError, pa.lib.ArrowMemoryError])
def test_out_of_memory(home, monkeypatch, kind):
    def full(*_, **__):
        raise kind("malloc of size 123 failed")

    monkeypatch.setattr(pa.parquet.ParquetFile, "iter_batches", full)
    said = sentence("importance", home / "xgb.json", home / "valid.parquet", "-y", "price")
    assert said.startswith("Error: out of memory. importance and attribute -o FILE.parquet read files piece by piece;")


def test_empty_data(home, rows, tmp_path):
    (tmp_path / "zero.csv").write_text("")
    assert "is empty" in sentence("importance", home / "xgb.json", tmp_path / "zero.csv", "-y", "price")
    for name, write in (("x.csv", "to_csv"), ("x.parquet", "to_parquet"), ("x.feather", "to_feather")):
        getattr(rows.iloc[:0].reset_index(drop=True), write)(tmp_path / name)
        assert "has no rows" in sentence("importance", home / "xgb.json", tmp_path / name, "-y", "price")


def test_two_columns_of_one_name(home, tmp_path):
    pa.parquet.write_table(pa.table([[1.0], [2.0]], names=["age", "age"]), tmp_path / "x.parquet")
    assert "duplicate column names: 'age'" in sentence("attribute", home / "xgb.json", tmp_path / "x.parquet")


def test_text_in_a_column_of_numbers(home, rows, tmp_path):
    rows.astype({"age": object}).assign(age="?").to_csv(tmp_path / "x.csv", index=False)
    assert "'age' holds the string '?'" in sentence("attribute", home / "xgb.json", tmp_path / "x.csv")
    mixed = rows.astype({"age": object})
    mixed.iloc[7, mixed.columns.get_loc("age")] = "oops"  # which makes strings of the numbers before it
    mixed.to_csv(tmp_path / "x.csv", index=False)
    assert "'age' holds the string 'oops'" in sentence("attribute", home / "xgb.json", tmp_path / "x.csv")


def test_what_is_read_is_not_overwritten(home, tmp_path):
    for name in ("xgb.json", "valid.csv"):
        (tmp_path / name).write_bytes((home / name).read_bytes())
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    model, data = tmp_path / "xgb.json", tmp_path / "valid.csv"
    for out in (model, data):
        assert "would be overwritten" in sentence("importance", model, data, "-y", "price", "-o", out, code=2)
        assert "would be overwritten" in sentence(
            "attribute", model, tmp_path / "v*.csv", "-y", "price", "-o", out, code=2
        )
        both = ("--train", data, "--valid", home / "valid.csv")
        assert "would be overwritten" in sentence("compare", model, *both, "-y", "price", "-o", out, code=2)
    assert "would be overwritten" in sentence("select", data, "-y", "price", "--kept", data, code=2)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(ti.DataError, match=r"valid\.csv is read here, and would be overwritten"):
        ti.attribute_to_parquet(model, data, data)


def test_an_unknown_learning_rate_is_asked_for_by_its_option(home, rows, tmp_path):
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=1, max_delta_step=0.1, learning_rate=0.3, n_jobs=1)
    model.fit(rows[FEATURES], rows["price"]).save_model(tmp_path / "m.json")
    ask = ("importance", tmp_path / "m.json", home / "valid.csv", "-y", "price")
    succeed(*ask)  # the centred score needs no rate
    said = sentence(*ask, "--method", "predecomp")
    assert "--learning-rate VALUE" in said
    assert "learning_rate=" not in said
    succeed(*ask, "--method", "predecomp", "--learning-rate", "0.3")


def test_training_rows_are_noticed(home, rows, tmp_path):
    ask = (home / "xgb.json", home / "train.parquet", "-y", "price")
    for score in ("tree_inner", "loss", "permutation"):
        result = succeed("importance", *ask, "--score", score)
        assert len(re.findall(r"^Warning: .*the rows that the model was trained on", result.stderr, re.M)) == 1
    assert "trained on" not in succeed("importance", home / "xgb.json", home / "valid.csv", "-y", "price").stderr
    same = succeed(
        "compare", home / "xgb.json", "--train", home / "valid.csv", "--valid", home / "valid.csv", "-y", "price"
    )
    assert len(re.findall(r"^Warning: These are the rows that the model was trained on", same.stderr, re.M)) == 1
    assert re.match(r"feature +train +scored", same.stdout)
    assert "held-out" not in same.stdout
    report = succeed("report", *ask, "-o", tmp_path / "page.html")
    assert "Warning: These are the rows that the model was trained on" in report.stderr


def test_training_rows_among_others_are_counted(home, tmp_path):
    train, valid = (pd.read_parquet(home / f"{name}.parquet") for name in ("train", "valid"))
    pd.concat([valid, train[:40]]).to_csv(tmp_path / "mixed.csv", index=False)
    ask = (home / "xgb.json", "--train", home / "train.parquet", "--valid", tmp_path / "mixed.csv", "-y", "price")
    said = succeed("compare", *ask).stderr
    assert f"Warning: 40 of these {len(valid) + 40} rows are training rows" in said
    said = succeed(
        "report", home / "xgb.json", tmp_path / "mixed.csv", "--train", home / "train.parquet", "-y", "price",
        "-o", tmp_path / "page.html",
    ).stderr  # fmt: skip
    assert f"Warning: 40 of these {len(valid) + 40} rows are training rows" in said
    assert f"{len(valid) + 40} rows, 40 of them training rows" in (tmp_path / "page.html").read_text()


def test_the_account_of_the_loss(home, tmp_path):
    ask = (home / "xgb.json", home / "valid.csv", "-y", "price", "--score", "loss")
    result = succeed("importance", *ask, "--method", "saabas")
    lines = [line.split() for line in result.stdout.splitlines()[1:]]
    assert lines[-2][0] == "(base)"
    assert lines[-1][:4] == ["(loss", "before", "-", "after)"]
    total = float(lines[-1][4])
    # Six digits of each.
    np.testing.assert_allclose(sum(float(line[1]) for line in lines[:-1]), total, rtol=1e-5)
    before, after = map(
        float, re.search(r"^Loss per row: (\S+) before the first tree, (\S+) after", result.stderr, re.M).groups()
    )
    np.testing.assert_allclose(before - after, total, rtol=1e-2)  # four digits are shown
    rows = pd.read_csv(home / "valid.csv")
    exact = ti.importance(home / "xgb.json", rows[FEATURES], rows["price"], score="loss", method="saabas")
    np.testing.assert_allclose(total, exact.losses.before - exact.losses.after, rtol=1e-5)
    assert "Overshoot" not in result.stderr
    # A file has the features alone, as to_frame() does.
    succeed("importance", *ask, "-o", tmp_path / "scores.csv")
    assert list(pd.read_csv(tmp_path / "scores.csv")["feature"]) == list(
        ti.importance(home / "xgb.json", rows[FEATURES], rows["price"], score="loss").to_frame()["feature"]
    )
    succeed("report", *ask, "-o", tmp_path / "page.html")
    assert "Which features lowered the loss" in (tmp_path / "page.html").read_text()


def test_overshoot_is_said_and_notes_are_said_once(home, rows, tmp_path):
    ask = ("importance", home / "xgb.json", home / "valid.csv", "-y", "price")
    assert re.search(r"^Overshoot: 0\.\d\d\. The loss fell by \d+% of what its slope", succeed(*ask).stderr, re.M)
    wild = xgboost.XGBRegressor(n_estimators=20, learning_rate=1.6, n_jobs=1)
    wild.fit(rows[FEATURES][:150], rows["price"][:150]).save_model(tmp_path / "wild.json")
    said = succeed("importance", tmp_path / "wild.json", *ask[2:]).stderr
    assert said.count("steps of this model overshoot") == 1
    assert "Warning: The steps of this model overshoot" in said
    assert "use --score loss" in said


def test_wrong_usage(home, tmp_path):
    ask = ("importance", home / "xgb.json", home / "valid.csv", "-y", "price")
    assert ".parquet" in sentence(*ask, "-o", tmp_path / "x.xlsx", code=2)
    assert "does not exist" in sentence(*ask, "-o", tmp_path / "no" / "x.csv", code=2)
    assert "is a folder" in sentence(*ask, "-o", tmp_path, "--format", "csv", code=2)
    assert "0:50" in sentence(*ask, "--iteration-range", "5", code=2)
    assert "NAME=a,b,c" in sentence(*ask, "--feature-groups", "body", code=2)
    assert "no file" in sentence(*ask, "--feature-groups", tmp_path / "g.json", code=2)
    assert "has no pipeline" in sentence(*ask, "--feature-groups", "original", code=2)
    assert "beside it" in sentence(*ask, "--feature-groups", "a=b", "--feature-groups", "prefix:_", code=2)
    assert "no two columns" in sentence(*ask, "--feature-groups", "prefix:=")
    assert "split queries" in sentence(*ask, "--qid", "day", "--rows", 5, code=2)
    assert ".html" in sentence("report", *ask[1:], "-o", tmp_path / "page.pdf", code=2)
    assert "not a feature" in sentence(*ask, "--feature-groups", "body=shoe")
    assert "8 rounds" in sentence(*ask, "--iteration-range", "5:50")
    assert "objective" in sentence(*ask, "--objective", "nope")
    assert "did you mean 'saabas'?" in sentence(*ask, "--method", "sabas", code=2)
    assert "did you mean 'tree_inner'?" in sentence(*ask, "--score", "tree_iner", code=2)
    assert "did you mean 'reg:squarederror'?" in sentence(*ask, "--objective", "reg:squarederor")
    assert "did you mean 'height'?" in sentence(*ask, "--feature-groups", "body=heigth")
    assert treeinner("importances").exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_library_in_the_words_of_the_command_line(home):
    ask = ("importance", home / "xgb.json", home / "valid.csv", "-y", "price")
    assert sentence(*ask, "--reg-lambda", "-1").startswith("Error: --reg-lambda -1.0: expected a number")
    assert sentence(*ask, "--learning-rate", "-1e-300").startswith("Error: --learning-rate -1e-300: expected a pos")
    assert "--iteration-range 0:99 does not fit" in sentence(*ask, "--iteration-range", "0:99")
    assert sentence(*ask, "--qid", "day").startswith("Error: --qid was given, but the loss")
    assert "is not recognised; choose one of: " in (unknown := sentence(*ask, "--objective", "nope"))
    assert "function" not in unknown
    refused = sentence(*ask, "--objective", "QuerySoftMax")
    assert "; use " in refused
    assert "callable" not in refused


# -- screen ---------------------------------------------------------------------------------------------------
def test_plain_text_has_a_line_per_feature_and_whole_names(home):
    lines = succeed("importance", home / "xgb.json", home / "valid.csv", "-y", "price").stdout.splitlines()
    assert lines[0].split() == ["feature", "score", "std_error", "95%_from", "to", "p_value", "q_value", "verdict"]
    assert len(lines) == 6
    assert len({re.match(r"(\S+ +){6}\S+", line).end() for line in lines}) == 1  # aligned up to the q values
    assert {line[lines[0].index("verdict") :] for line in lines[1:]} <= set(VERDICTS)


def test_attribute_on_the_screen_adds_up(home):
    lines = succeed("attribute", home / "xgb.json", home / "valid.csv", "--top", 2).stdout.splitlines()[1:]
    first = [line for line in lines if line.startswith("0 ")]
    assert len(first) == 1 + 2 + 1 + 1  # base value, two features, the others, prediction
    values = [float(line.split()[-1]) for line in first]
    assert sum(values[:-1]) == pytest.approx(values[-1], abs=1e-4)  # six digits are shown


def test_control_characters_in_names_do_not_reach_the_terminal(tmp_path):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["\x1b[31mred", "[bold]x"])
    # XGBoost refuses brackets in names; a model without names takes those of the file.
    xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(X.to_numpy(), X["[bold]x"]).save_model(tmp_path / "m.json")
    X.to_parquet(tmp_path / "x.parquet")
    shown = on_terminal(
        80, "importance", tmp_path / "m.json", tmp_path / "x.parquet", "--score", "abs", env={"NO_COLOR": "1"}
    )
    assert not COLOUR.search(shown)
    assert r"\x1b[31mred" in shown
    assert "[bold]x" in shown


def on_terminal(width, *arguments, env=()):
    """What a terminal of that width receives on stdout and stderr."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(width), "LINES": "50", **dict(env)}
    child = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdout=follower, stderr=follower, stdin=subprocess.DEVNULL, env=environment
    )
    os.close(follower)
    received = b""
    while select.select([leader], [], [], 30)[0]:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the child closed its end
            break
        if not part:
            break
        received += part
    os.close(leader)
    assert child.wait(30) == 0, received.decode()
    return received.decode()


COLOUR = re.compile(r"\x1b\[(\d+;)*(3[0-7]|9[0-7])m")


def test_terminal(home, tmp_path):
    long = "a_long_name_" * 8
    rows = pd.read_parquet(home / "valid.parquet")
    X = rows[["age", "height"]].rename(columns={"height": long})
    xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(X, rows["price"]).save_model(tmp_path / "m.json")
    data = tmp_path / "x.parquet"
    X.assign(price=rows["price"], w=1).to_parquet(data)
    ask = ("compare", tmp_path / "m.json", "--train", data, "--valid", data, "-y", "price")
    for width in (80, 140):
        received = on_terminal(width, *ask)
        assert COLOUR.search(received)
        shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", received)
        table = shown[shown.index("TreeInner(centred) of") :]
        assert all(len(line) <= width for line in table.splitlines())
        # The name is folded, never cut.
        assert long in "".join(line.split("  ")[0].strip() for line in table.splitlines())
        assert ("std error" in table) == (width == 140)
    dumb = on_terminal(80, *ask, env={"TERM": "dumb"})
    assert "\x1b" not in dumb
    assert re.search(r"^feature +train +scored", dumb, re.M)


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ([1234.5678, -0.004, float("nan")], ["1,234.6", "-0.0", ""]),
        ([0.012345678, 0.5], ["0.01235", "0.50000"]),
        ([1e12, 1.0], ["1.000e+12", "1.000e+00"]),
        ([0.0, 0.0], ["0.0000", "0.0000"]),
    ],
)
def test_numbers_of_one_unit_have_common_decimals(numbers, shown):
    assert screen._formatted([screen.Column("x", numbers)]) == [shown]


# -- as a process ---------------------------------------------------------------------------------------------
def test_exit_codes_and_streams(home):
    good = process("importance", home / "xgb.json", home / "valid.csv", "-y", "price")
    assert (good.returncode, good.stdout.count("\n")) == (0, 6)
    assert "\x1b" not in good.stdout + good.stderr  # no colours and no progress in a pipe
    bad = process("importance", home / "xgb.json", home / "valid.csv", "-y", "prize")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert re.fullmatch(r"Error: [^\n]*\n", bad.stderr)
    usage = process("importance")
    assert (usage.returncode, usage.stdout) == (2, "")
    assert "Usage: treeinner importance" in usage.stderr
    assert "Traceback" not in usage.stderr


def test_version_and_help():
    assert succeed("--version").stdout == f"treeinner {ti.__version__}\n"
    assert "treeinner importance model.json" in succeed("--help").stdout
    for command in ("importance", "attribute", "compare", "report"):
        text = succeed(command, "--help").stdout
        assert f"  treeinner {command} model." in text
        assert all(len(line) <= 80 for line in text.splitlines())


def test_parquet_into_a_pipe(home):
    ask = [
        *COMMAND,
        "importance",
        home / "xgb.json",
        home / "valid.csv",
        "-y",
        "price",
        "-o",
        "-",
        "--format",
        "parquet",
    ]
    out = subprocess.run(ask, capture_output=True, check=True).stdout
    assert pa.parquet.read_table(pa.BufferReader(out)).num_rows == 5


def test_a_reader_who_has_had_enough(home):
    """As `| head -1`: many rows are written to a pipe that is closed behind the first line."""
    ask = [*COMMAND, "attribute", home / "xgb.json", home / "big.csv", "-o", "-"]
    pd.concat([pd.read_parquet(home / "valid.parquet")] * 40).to_csv(home / "big.csv", index=False)
    with subprocess.Popen(ask, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline().startswith("row,base_value,age")
        child.stdout.close()
        noise = child.stderr.read()
        assert child.wait(30) == 0
    assert "Traceback" not in noise
    assert "Broken" not in noise


SLOW = """
import signal, sys, time
from treeinner.cli import main, output
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background would ignore it
real = output._rows
def slow(columns):
    for row in real(columns):
        print("working", file=sys.stderr, flush=True)
        time.sleep(30)
        yield row
output._rows = slow
main()
"""


def test_control_c_leaves_nothing_behind(home, tmp_path):
    out = tmp_path / "out.csv"
    ask = [sys.executable, "-c", SLOW, "attribute", home / "xgb.json", home / "valid.parquet", "-o", out]
    with subprocess.Popen(ask, stderr=subprocess.PIPE, text=True) as child:
        while "working" not in child.stderr.readline():
            pass
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        said = child.stderr.read()
        assert child.wait(10) == 130
    assert said == "Stopped.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("library", ["typer", "pyarrow"])
def test_without_the_extra(library):
    code = f"import sys; sys.modules[{library!r}] = None; from treeinner.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert re.fullmatch(rf"Error: [^\n]*{library}[^\n]*pip install 'treeinner\[cli\]'\n", result.stderr)


def test_importing_treeinner_loads_nothing_of_the_command_line():
    code = "import sys, treeinner, treeinner.cli; print(*{'typer', 'rich', 'pyarrow'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
