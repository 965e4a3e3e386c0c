"""Slips of a newcomer's first hour with XGBoost's getting-started example: one sentence each, which says what to do.

Wrong target, missing columns, model files of the wrong kind, pickles, targets of text and libraries that are not
installed are in test_cli.py.
"""

import pandas as pd
import pytest
import xgboost
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split
from typer.testing import CliRunner

from treeinner.cli.app import make_app


def run(*arguments):
    return CliRunner().invoke(make_app(rich=False), [str(a) for a in arguments])


def sentence(*arguments):
    result = run(*arguments)
    assert result.exit_code == 1, (result.output, result.exception)
    said = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(said) == 1, result.stderr
    return said[0]


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """A model trained on numpy arrays, so that it knows no names; its held-out rows in files of several kinds."""
    folder = tmp_path_factory.mktemp("iris")
    data = load_iris()
    X_train, X_test, y_train, y_test = train_test_split(data["data"], data["target"], test_size=0.2, random_state=0)
    model = xgboost.XGBClassifier(n_estimators=2, max_depth=2, learning_rate=1, n_jobs=1).fit(X_train, y_train)
    model.save_model(folder / "model.json")
    rows = pd.DataFrame(X_test, columns=data["feature_names"]).assign(species=y_test)
    rows.to_parquet(folder / "rows.parquet")
    rows.to_csv(folder / "with_index.csv")
    rows.to_csv(folder / "rows.dat", index=False)
    rows.to_json(folder / "rows.json", orient="records")
    rows.assign(species=data["target_names"][y_test]).to_csv(folder / "words.csv", index=False)
    return folder


def test_rows_written_as_json(iris):
    said = sentence("importance", iris / "model.json", iris / "rows.json", "-y", "species")
    assert "rows.json is JSON" in said
    assert "write the rows as Parquet, Feather or CSV" in said


def test_the_model_file_given_twice(iris):
    said = sentence("importance", iris / "model.json", iris / "model.json", "-y", "species")
    assert "a data file was expected there" in said


def test_a_target_among_the_columns_of_a_model_without_names(iris):
    said = sentence("attribute", iris / "model.json", iris / "rows.parquet")
    assert "has 5 columns, but the model was trained on 4" in said
    assert said.endswith("name those that are not features: --target COLUMN.")
    assert run("attribute", iris / "model.json", iris / "rows.parquet", "-y", "species").exit_code == 0


def test_row_labels_in_a_csv(iris):
    good = run("importance", iris / "model.json", iris / "rows.parquet", "-y", "species")
    labelled = run("importance", iris / "model.json", iris / "with_index.csv", "-y", "species")
    assert "a column without a name was ignored" in labelled.stderr
    assert labelled.stdout == good.stdout


def test_an_ending_that_nobody_knows_is_read_as_text(iris):
    good = run("importance", iris / "model.json", iris / "rows.parquet", "-y", "species")
    assert run("importance", iris / "model.json", iris / "rows.dat", "-y", "species").stdout == good.stdout


def test_class_names_for_a_model_of_numbers(iris):
    said = sentence("importance", iris / "model.json", iris / "words.csv", "-y", "species")
    assert "--target species" in said
    assert "'setosa'" in said
    assert "it was trained on '0', '1', '2'" in said
