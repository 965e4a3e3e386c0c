"""The command line: the numbers and the words of the library, from files; nothing is overwritten."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

pytest.importorskip("typer")
from treeinner.explain.attribute import attribute
from treeinner.score.compare import compare
from treeinner.score.importance import importance
from treeinner.show.cli.app import run


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a model, its training rows and held-out rows, and what they were made from."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 4)), columns=list("abcd"))
    y = 2 * X["a"] + X["b"] + rng.normal(size=400)
    model = xgb.XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1).fit(X[:200], y[:200])
    model.save_model(folder / "model.json")
    rows = X.assign(y=y, w=rng.uniform(0.5, 2.0, 400), patient=np.arange(400) // 4)
    rows[:200].to_csv(folder / "train.csv", index=False)
    rows[200:].to_csv(folder / "valid.csv", index=False)
    rows[200:].to_parquet(folder / "valid.parquet")
    return folder, model, rows


@pytest.fixture
def cli(files, monkeypatch, capsys):
    """Run a command in that folder: (exit status, stdout, stderr)."""
    monkeypatch.chdir(files[0])

    def call(*words):
        code = run([str(word) for word in words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


ROWS = ("model.json", "valid.csv", "-y", "y")


def test_importance_has_the_numbers_of_the_library(files, cli):
    _, model, rows = files
    valid = rows[200:]
    imp = importance(model, valid[list("abcd")], valid["y"], sample_weight=valid["w"], clusters=valid["patient"])
    code, out, _ = cli("importance", *ROWS, "--weight", "w", "--clusters", "patient", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["unit"] == imp.unit
    np.testing.assert_array_equal(found["features"]["score"], imp.scores)
    for name, exact in (("q_value", imp.q_values), ("holds", imp.holds), ("holds_std_error", imp.holds_std_errors)):
        np.testing.assert_array_equal(found["features"][name], exact)
    code, out, _ = cli("importance", *ROWS, "--weight", "w", "--clusters", "patient")
    assert out == repr(imp).split("\nnote:")[0] + "\n"


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_tables_are_written_in_full(files, cli, tmp_path, ending):
    _, model, rows = files
    path = tmp_path / f"scores.{ending}"
    assert cli("importance", "model.json", "valid.parquet", "-y", "y", "--score", "loss", "-o", path)[:2] == (0, "")
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "json": lambda p: pd.DataFrame(json.loads(p.read_text()))}
    valid = rows[200:]
    imp = importance(model, valid[list("abcd")], valid["y"], score="loss")
    table = read[ending](path)
    assert table["feature"].tolist() == [imp.feature_names[k] for k in imp.order]
    np.testing.assert_array_equal(table["score"], imp.scores[imp.order])


def test_options_reach_the_library(files, cli):
    _, model, rows = files
    valid = rows[200:]
    groups = {"both": ["a", "c"]}
    imp = importance(model, valid[list("abcd")], valid["y"], score="tree_inner", method="saabas", feature_groups=groups)
    words = ("--score", "tree_inner", "--method", "saabas", "--group", "both=a, c")
    _, out, _ = cli("importance", *ROWS, *words, "--json", "-j", "1")
    assert json.loads(out)["features"]["feature"] == list(imp.feature_names)
    np.testing.assert_array_equal(json.loads(out)["features"]["score"], imp.scores)
    code, out, _ = cli("importance", *ROWS, "--read", "iteration_range=0:1", "--read", "learning_rate=0.3", "--top", 1)
    assert code == 0
    assert "... and 3 more" in out


def test_compare(files, cli, tmp_path):
    _, model, rows = files
    sides = [(part[list("abcd")], part["y"]) for part in (rows[200:300], rows[300:])]
    for part, name in ((rows[200:300], "may.csv"), (rows[300:], "june.csv")):
        part.to_csv(files[0] / name, index=False)
    exact = compare(model, *sides)
    words = ("compare", "model.json", "may.csv", "june.csv", "-y", "y")
    code, out, _ = cli(*words, "--json")
    assert code == 0
    assert json.loads(out) == exact.to_dict()
    assert cli(*words)[1] == f"{exact!r}\n"
    assert "... and 2 more" in cli(*words, "--top", 2)[1]
    assert cli(*words, "-o", tmp_path / "both.csv")[0] == 0
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "both.csv")["after"], exact.after.scores[exact.order])


def test_attribute(files, cli, tmp_path):
    _, model, rows = files
    exact = attribute(model, rows[200:][list("abcd")])
    path = tmp_path / "out.parquet"
    assert cli("attribute", "model.json", "valid.csv", "-o", path)[0] == 0
    table = pd.read_parquet(path)
    np.testing.assert_array_equal(table["(base value)"], exact.base_values)
    np.testing.assert_array_equal(table[list("abcd")], exact.values)
    _, out, _ = cli("attribute", "model.json", "valid.csv", "--json")
    np.testing.assert_array_equal(json.loads(out)["a"], exact.values[:, 0])
    code, out, err = cli("attribute", "model.json", "valid.csv", "--top", 2)
    assert code == 0
    assert out.splitlines()[1].split() == ["feature", *(f"row {i}".split()[j] for i in range(5) for j in (0, 1))]
    assert "(2 others)" in out
    total = exact.base_values[0] + exact.values[0].sum()
    assert abs(float(out.splitlines()[-1].split()[1]) - total) < 1e-3 * abs(total)  # four digits are shown
    assert "first 5 of 200 rows" in err


def test_attribute_of_several_outputs(files, cli, tmp_path):
    folder, _, rows = files
    labels = np.digitize(rows["y"], [-1, 1])
    xgb.XGBClassifier(n_estimators=3, n_jobs=1).fit(rows[list("abcd")], labels).save_model(folder / "classes.json")
    assert cli("attribute", "classes.json", "valid.csv", "-o", tmp_path / "out.csv")[0] == 0
    assert {"1: (base value)", "2: d"} <= set(pd.read_csv(tmp_path / "out.csv").columns)
    assert cli("attribute", "classes.json", "valid.csv")[1].count("(prediction)") == 3


def test_report(cli, tmp_path):
    page = tmp_path / "page.html"
    words = ("report", *ROWS, "--train", "train.csv", "--title", "Mine", "--explorer-rows", 5, "-o", page)
    code, out, err = cli(*words)
    assert (code, out) == (0, "")
    assert err.endswith("5 rows of data\n")
    assert "<title>Mine</title>" in page.read_text(encoding="utf-8")


def test_select_keeps_or_exits_with_1(files, cli, tmp_path):
    folder, _, rows = files
    words = ("select", "train.csv", "-y", "y", "--clusters", "patient", "--drop", "w", "--cv", 2, "--repeats", 1)
    code, out, err = cli(*words)
    assert (code, err) == (0, "")
    kept = json.loads(cli(*words, "--json")[1])["kept"]
    assert "a" in kept
    assert out.startswith(f"{len(kept)} of 4 features kept by the marginal test")
    assert cli(*words, "-o", tmp_path / "kept.csv")[0] == 0
    assert pd.read_csv(tmp_path / "kept.csv")["kept"].sum() == len(kept)
    noise = rows[list("abcd")].assign(y=np.random.default_rng(2).normal(size=len(rows)))
    noise.to_csv(folder / "noise.csv", index=False)
    code, out, err = cli("select", "noise.csv", "-y", "y", "--cv", 2, "--repeats", 1)
    assert code == 1
    assert "0 of 4 features kept" in out
    assert "Nothing is kept" in err


def test_select_reads_text_as_categories(tmp_path):
    from treeinner.show.cli.files import read_frame

    pd.DataFrame({"colour": ["red", "blue"], "x": [1.0, 2.0], "id": ["a", "b"]}).to_csv(tmp_path / "d.csv", index=False)
    frame = read_frame(tmp_path / "d.csv", ["id"])
    assert frame.dtypes.astype(str).to_dict() == {"colour": "category", "x": "float64"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("importance", "model.json", "valid.csv", "-y", "z"), "no such column"),
        (("importance", *ROWS, "--score", "gain"), "score='gain'"),
        (("importance", *ROWS, "--read", "learning_rat=1"), "did you mean 'learning_rate'"),
        (("importance", *ROWS, "--read", "learning_rate"), "NAME=VALUE"),
        (("importance", *ROWS, "--group", "both"), "NAME=a,b,c"),
        (("importance", *ROWS, "-o", "scores.txt"), "must end in"),
        (("importance", *ROWS, "-o", "nowhere/scores.csv"), "does not exist"),
        (("importance", *ROWS, "-o", "model.json"), "would be overwritten"),
        (("attribute", "model.json", "valid.csv", "-o", "valid.csv"), "would be overwritten"),
        (("attribute", "model.json", ".", "-o", "valid.csv"), "would be overwritten"),
        (("compare", "model.json", "train.csv", "valid.csv", "-y", "y", "-o", "train.csv"), "would be overwritten"),
        (("report", *ROWS, "-o", "valid.csv"), "must end in"),
        (("select", "valid.csv", "-y", "y", "-o", "valid.csv"), "would be overwritten"),
        (("select", "valid.csv", "-y", "z"), "no column 'z'"),
        (("select", "model.json", "-y", "y"), "must be in a file that ends in"),
        (("importance", "nothing.json", "valid.csv", "-y", "y"), "No such file"),
        (("importance", "valid.csv", "model.json", "-y", "y"), "not a model file"),
        (("importance", "model.json", "-y", "y"), "DATA"),
        (("demo",), "No such command"),
    ],
)
def test_mistakes_are_one_line_with_exit_status_2(files, cli, words, message):
    before = {path: path.read_bytes() for path in files[0].iterdir()}
    code, out, err = cli(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert {path: path.read_bytes() for path in files[0].iterdir()} == before


def test_warnings_and_notes_are_on_stderr(cli):
    code, out, err = cli("importance", "model.json", "train.csv", "-y", "y", "--json")
    assert code == 0
    assert err.startswith("Warning: Training rows are among these rows")
    notes = [line.partition(": ")[2].removesuffix(" [training_rows]") for line in err.splitlines()]
    assert json.loads(out)["notes"] == notes


def test_the_module_is_the_program(files):
    words = [sys.executable, "-m", "treeinner"]
    ran = subprocess.run([*words, "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("treeinner ")
    ran = subprocess.run(
        [*words, "importance", *ROWS, "--top", "1"], cwd=files[0], capture_output=True, text=True, check=True
    )
    assert "half the squared error per row; verdicts at q <= 0.1" in ran.stdout


def test_workers_end_with_the_program(files):
    """Else they hold the pipes that its caller reads to the end, and joblib speaks of leaks."""
    words = [sys.executable, "-m", "treeinner", "select", "train.csv", "-y", "y", "--cv", "2", "--repeats", "1"]
    ran = subprocess.run([*words, "-j", "2"], cwd=files[0], capture_output=True, text=True, timeout=100, check=True)
    assert ran.stderr == ""
