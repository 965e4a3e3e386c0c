"""`treeinner demo`: what it prints is true of the files it writes, and it says what is missing."""

import re
import shlex
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import treeinner as ti
from treeinner.cli import demo
from treeinner.cli.app import make_app


def treeinner(*arguments):
    return CliRunner().invoke(make_app(rich=False), [str(a) for a in arguments])


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the demo prints, and the folder it was told to make."""
    folder = tmp_path_factory.mktemp("home") / "new" / "my demo"
    result = treeinner("demo", "-o", folder)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout, folder


def test_every_file_it_speaks_of_is_there(shown):
    text, folder = shown
    for name in [*demo.PICTURES, "page.html"]:
        assert str(folder / name) in text
    for name in demo.PICTURES:
        assert (folder / name).read_bytes().startswith(b"\x89PNG"), name
    assert "noise_442" in (folder / "page.html").read_text(encoding="utf-8")


def test_the_ranking_is_that_of_the_saved_model_and_rows(shown):
    text, folder = shown
    valid = pd.read_parquet(folder / "valid.parquet")
    y = valid.pop(demo.TARGET)
    inner = ti.importance(folder / "model.json", valid, y)
    printed = re.findall(r"^ *(\w+) +rank (\d+) +rank (\d+) +(\S+)  \[", text, re.MULTILINE)
    assert [name for name, *_ in printed] == list(inner.to_frame()["feature"])
    # Three digits are printed.
    np.testing.assert_allclose([float(row[3]) for row in printed], np.sort(inner.scores)[::-1], rtol=5e-3)
    gain = ti.total_gain(folder / "model.json")
    by_name = dict(zip(gain.feature_names, gain.ranks, strict=True))
    assert [int(row[1]) for row in printed] == [by_name[name] for name, *_ in printed]


def test_noise_is_never_called_signal(shown):
    verdicts = re.findall(r"^ *(\w+) +rank .*\]   (.+)$", shown[0], re.MULTILINE)
    assert len(verdicts) == 10 + len(demo.CARDINALITIES)
    assert {v for name, v in verdicts if name.startswith("noise_")} == {"not told apart from noise"}
    assert {name for name, v in verdicts if v == "signal"} >= {"bmi", "s5"}


def test_the_command_it_recommends_works(shown):
    words = shlex.split(shown[0].strip().splitlines()[-1])
    result = treeinner(*words[words.index("importance") :])
    assert result.exit_code == 0, result.output
    assert result.stdout.split("\n")[1].startswith("bmi")


def test_libraries_that_are_missing_are_named_in_one_sentence(tmp_path, monkeypatch):
    absent = {"xgboost", "matplotlib"}
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name in absent else find_spec(name))
    result = treeinner("demo", "-o", tmp_path / "demo")
    assert result.exit_code == 1
    assert not (tmp_path / "demo").exists()
    assert result.stderr == (
        "Error: the demo needs xgboost and matplotlib, not installed here; install what it needs with: "
        "pip install 'treeinner[cli,xgboost,sklearn,plots]'.\n"
    )


def test_a_file_in_the_way_is_an_error(tmp_path):
    (tmp_path / "demo").write_text("mine")
    result = treeinner("demo", "-o", tmp_path / "demo")
    assert result.exit_code == 1
    assert "is a file; name a folder" in result.stderr
    assert (tmp_path / "demo").read_text() == "mine"
