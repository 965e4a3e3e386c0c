"""`treeinner select`: what it writes is what the Python functions return, and every slip is one sentence that helps."""

import csv
import io
import json
import re

import numpy as np
import pandas as pd
import pytest
import xgboost
from typer.testing import CliRunner

import treeinner as ti
from treeinner.cli.app import make_app
from treeinner.selection.default import default_booster

FEW = ("--cv", "3", "--repeats", "1", "--q", "0.01")
NOT_FEATURES = ("--drop", "w", "--drop", "site", "--drop", "kind", "--drop", "id")
FEATURES = ["age", "body mass", "noise", "colour", "flag", "empty"]


def run(*arguments):
    return CliRunner().invoke(make_app(rich=False), ["select", *map(str, arguments)])


def succeed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def sentence(*arguments, code=1):
    result = run(*arguments)
    assert result.exit_code == code, (result.output, result.exception)
    assert result.stdout == ""
    said = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(said) == 1, result.stderr
    return said[0]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Rows of numbers, text, truth values and nothing, and a model of two of the columns, trained on other rows."""
    folder = tmp_path_factory.mktemp("select")
    rng = np.random.default_rng(0)
    n = 400
    X = pd.DataFrame({"age": rng.normal(size=n), "body mass": rng.normal(size=n), "noise": rng.normal(size=n)})
    X["colour"] = rng.choice(["red", "green", "blue"], n)
    X["flag"] = rng.random(n) < 0.5
    X["empty"] = np.nan
    X.loc[::9, "age"] = np.nan
    y = 3 * X["age"].fillna(0) + 2 * X["body mass"] + 4 * (X["colour"] == "red") + rng.normal(size=n)
    rest = {"price": y, "kind": np.where(y > 0.5, "dear", "cheap"), "w": rng.uniform(0.5, 2, n)}
    frame = X.assign(**rest, site=np.arange(n) % 40, id=[f"row {i}" for i in range(n)])
    frame[:250].to_csv(folder / "rows.csv", index=False)
    frame[:250].to_parquet(folder / "rows.parquet")
    frame[:250].assign(day=pd.Timestamp("2026-01-01")).to_parquet(folder / "days.parquet")
    names = ["age", "body mass", "noise"]
    model = xgboost.XGBRegressor(n_estimators=15, max_depth=2, n_jobs=1).fit(X[names][250:], y[250:])
    model.save_model(folder / "model.json")
    return folder, frame[:250], model


def selector(**settings):
    return ti.TreeInnerSelector(**{"cv": 3, "repeats": 1, "q": 0.01, "random_state": 0, **settings})


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_table_is_that_of_the_selector(home, ending):
    folder, frame, _ = home
    result = succeed(folder / f"rows.{ending}", "-y", "price", *NOT_FEATURES, *FEW, "-o", "-")
    X = frame[FEATURES].astype({"colour": pd.CategoricalDtype(frame["colour"].unique())})
    expected = selector().fit(X, frame["price"]).to_frame()
    found = read(result.stdout)
    assert [row["feature"] for row in found] == expected["feature"].tolist()
    for name in ("score", "std_error", "ci_low", "ci_high", "beyond", "p_value", "q_value"):
        # CSV has float64 in full; the order of the levels, by which XGBoost splits them, is that of the file
        np.testing.assert_array_equal([float(row[name]) for row in found], expected[name])
    assert {row["feature"] for row in found if row["kept"] == "True"} == {"age", "body mass", "colour"}


def test_the_table_to_read(home):
    folder, *_ = home
    result = succeed(folder / "rows.csv", "-y", "price", *NOT_FEATURES, *FEW)
    head, *lines = result.stdout.splitlines()
    assert head.split() == ["feature", "score", "95%_from", "to", "beyond", "p_value", "q_value", "kept"]
    assert [line.split()[-1] for line in lines] == ["yes"] * 3 + ["no"] * 3


def test_the_list_of_kept_columns(home, tmp_path):
    folder, *_ = home
    some = (folder / "rows.csv", "-y", "price", *NOT_FEATURES, *FEW, "--test", "marginal")
    succeed(*some, "--kept", tmp_path / "kept.txt", "--max-features", "2")
    assert (tmp_path / "kept.txt").read_text() == "age\nbody mass\n"
    succeed(*some, "--kept", tmp_path / "kept.json")
    assert json.loads((tmp_path / "kept.json").read_text()) == ["age", "body mass", "colour"]
    assert succeed(*some, "--kept", "-").stdout == "age\nbody mass\ncolour\n"


def page_data(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_page(home, tmp_path):
    folder, *_ = home
    path = tmp_path / "page.html"
    result = succeed(folder / "rows.csv", "-y", "price", *NOT_FEATURES, *FEW, "--page", path, "-o", "-")
    assert f"Wrote {path}" in result.stderr
    data = page_data(path)
    assert data["features"] == FEATURES
    assert data["selection"]["kept"] == [True, True, False, True, False, False]
    rows = {row["feature"]: row for row in read(result.stdout)}
    for name, values in (("score", data["ranking"]["score"]), ("q_value", data["selection"]["q"])):
        expected = [float(rows[feature][name]) for feature in FEATURES]
        np.testing.assert_allclose(values, expected, rtol=1e-3)  # four digits at least
    assert data["selection"]["rule"] == "by the conditional test at q = 0.01"
    assert "TreeInnerSelector(cv=3," in data["call"]


def test_classes_weights_and_clusters(home):
    folder, frame, _ = home
    drop = [word for name in ("price", "site", "w", "id") for word in ("--drop", name)]
    more = ("--weight", "w", "--clusters", "site", "--test", "marginal")
    found = read(succeed(folder / "rows.parquet", "-y", "kind", *drop, *FEW, *more, "-o", "-").stdout)
    X = frame[FEATURES].astype({"colour": pd.CategoricalDtype(frame["colour"].unique())})
    given = {"sample_weight": frame["w"], "groups": frame["site"]}
    expected = selector(test="marginal").fit(X, frame["kind"], **given).to_frame()
    np.testing.assert_array_equal([float(row["score"]) for row in found], expected["score"])
    np.testing.assert_array_equal([float(row["std_error"]) for row in found], expected["std_error"])


def test_what_the_target_holds_can_be_said(home, tmp_path):
    _, frame, _ = home
    stars = pd.qcut(frame["price"], 4, labels=False)
    table = frame[["age", "noise"]].assign(stars=stars)
    table.to_csv(tmp_path / "stars.csv", index=False)
    some = (tmp_path / "stars.csv", "-y", "stars", *FEW, "--test", "marginal", "-o", "-")
    scores = {task: [row["score"] for row in read(succeed(*some, *task).stdout)]
              for task in ((), ("--task", "classes"), ("--task", "numbers"))}  # fmt: skip
    assert scores[()] == scores["--task", "classes"] != scores["--task", "numbers"]
    expected = selector(estimator=default_booster(classes=False), test="marginal").fit(table[["age", "noise"]], stars)
    assert list(map(float, scores["--task", "numbers"])) == sorted(expected.feature_importances_, reverse=True)


def test_a_model_file_is_scored_and_not_fitted(home, tmp_path):
    folder, frame, model = home
    result = succeed(
        folder / "model.json", folder / "rows.csv", "-y", "price", "-o", "-", "--page", tmp_path / "p.html"
    )
    imp = ti.importance(model, frame[["age", "body mass", "noise"]], frame["price"])
    found = {row["feature"]: row for row in read(result.stdout)}
    for k, name in enumerate(imp.feature_names):
        assert float(found[name]["q_value"]) == imp.q_values[k]
        assert found[name]["kept"] == str(bool(imp.q_values[k] <= 0.1))
    assert page_data(tmp_path / "p.html")["selection"]["test"] == "marginal"


def test_nothing_is_kept(home, tmp_path):
    _, frame, _ = home
    frame[["noise", "flag"]].assign(y=np.random.default_rng(5).normal(size=len(frame))).to_csv(tmp_path / "a.csv")
    result = succeed(tmp_path / "a.csv", "-y", "y", *FEW, "--kept", tmp_path / "kept.txt")
    assert "No columns were kept by the conditional test at q = 0.01" in result.stderr
    assert "row labels" in result.stderr
    assert (tmp_path / "kept.txt").read_text() == ""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["rows.csv"], 2, "name the column of the data that has the true values"),
        (["rows.csv", "-y", "prize"], 1, "--target prize: .* has no such column; did you mean 'price'"),
        (["rows.csv", "-y", "price", "--drop", "idd"], 1, "--drop idd: .* has no such column; did you mean 'id'"),
        (["nowhere.csv", "-y", "price"], 1, "There is no data file"),
        (["model.json", "-y", "price"], 2, "is a model file, and the rows to score are missing"),
        (["model.json", "rows.csv", "-y", "price", "--cv", "3"], 2, "--cv: has no meaning with a model file"),
        (["model.json", "rows.csv", "-y", "price", "--drop", "id"], 2, "--drop: has no meaning with a model file"),
        (["rows.csv", "rows.csv", "-y", "price"], 1, "rows.csv was given twice; its rows would count twice"),
        (["rows.csv", "-y", "price", "--reg-lambda", "1"], 2, "--reg-lambda: has no meaning without a model file"),
        (["rows.csv", "-y", "price", "--qid", "site"], 2, "--qid: has no meaning without a model file"),
        (["rows.csv", "-y", "price", "--test", "margin"], 2, "'margin' is not recognised.*did you mean 'marginal'"),
        (["rows.csv", "-y", "price", "--q", "7"], 1, r"--q 7.0: expected a share of false discoveries in \(0, 1\)"),
        (["rows.csv", "-y", "price", "--cv", "900"], 1, "--cv 900: X has only 250 rows"),
        (["rows.csv", "-y", "price", "--page", "page.pdf"], 2, "the name of the page must end in .html"),
        (["rows.csv", "-y", "price", "--kept", "no/such/kept.txt"], 2, "the folder no/such does not exist"),
        (["days.parquet", "-y", "price"], 1, r"Column 'day' .* holds timestamp.*--drop day"),
        (["rows.csv", "-y", "empty"], 1, "--target: 250 rows of .* have no value there"),
        (["rows.csv", "-y", "price", "--weight", "kind"], 1, "--weight kind: expected numbers"),
    ],
)
def test_slips(home, monkeypatch, arguments, code, said):
    monkeypatch.chdir(home[0])
    assert re.search(said, sentence(*arguments, code=code))


def test_columns_to_test_as_one(home, tmp_path):
    _, frame, _ = home
    twin = frame.assign(twin=frame["body mass"] + 0.05 * frame["noise"])
    twin.to_csv(tmp_path / "twin.csv", index=False)
    drop = [*NOT_FEATURES, "--drop", "empty"]
    result = succeed(tmp_path / "twin.csv", "-y", "price", *drop, *FEW, "--together", "body mass, noise", "-o", "-")
    values = {row["feature"]: row["p_value"] for row in read(result.stdout)}
    assert values["body mass"] == values["noise"] != values["twin"]
    assert "tested as one, too alike to say which it is: body mass, noise" in result.stderr
    assert "twin" in result.stderr  # noise and body mass tell it
    assert "nearly told by the other columns" in result.stderr
    assert "say --together with their names; --test marginal looks at each" in result.stderr
    said = sentence(tmp_path / "twin.csv", "-y", "price", *drop, *FEW, "--together", "body mass,nose")
    assert "'nose', which is not a feature; did you mean 'noise'?" in said
