"""report(): the numbers in the page are the API's, every name is text, and the file stands alone."""

import base64
import hashlib
import json
import re
import stat
from importlib.resources import files

import catboost
import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.show.results import NASTY, Parts
from treeinner.errors import DataError, TreeInnerWarning
from treeinner.explain.attribute import attribute
from treeinner.explain.partial import partial_residuals
from treeinner.read import read_model
from treeinner.score.baselines import total_gain
from treeinner.score.compare import compare
from treeinner.score.importance import importance
from treeinner.select.selector import TreeInnerSelector
from treeinner.show.page import render as rendering
from treeinner.show.page import report
from treeinner.show.page.numbers import value_text

SIX_DIGITS = 5.1e-6  # relative: the page rounds to six significant digits


def parts_of(path):
    return Parts(path.read_text(encoding="utf-8"))


def data_of(path):
    block = next(text for tag, attrs, text in parts_of(path).texts if attrs.get("id") == "data")
    return json.loads(block)


def make_rows(n=300, p=6, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)).astype(dtype)
    return X, X[:, 0] * 2 + np.sin(3 * X[:, 1]) + 0.5 * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    """A model, its held-out rows as a frame with labels, and its training rows."""
    X, y = make_rows(500)
    frame = pd.DataFrame(X, columns=list("abcdef"), index=[f"id{i}" for i in range(len(X))])
    model = xgb.XGBRegressor(n_estimators=40, max_depth=3, learning_rate=0.2, n_jobs=1).fit(frame[:250], y[:250])
    return model, frame[250:], y[250:], frame[:250], y[:250]


@pytest.fixture(scope="module")
def page(fitted, tmp_path_factory):
    model, X, y, X_train, y_train = fitted
    path = tmp_path_factory.mktemp("page") / "page.html"
    assert report(model, X, y, X_train=X_train, y_train=y_train, path=path, explorer_rows=100, random_state=3) == path
    return path


def close(shown, exact, relative=SIX_DIGITS):
    np.testing.assert_allclose(np.array(shown, float), exact, rtol=relative, atol=0)


# -- the numbers ---------------------------------------------------------------------------------------------------
def test_ranking_is_importance(fitted, page):
    model, X, y, *_ = fitted
    imp, data = importance(model, X, y), data_of(page)
    assert data["features"] == list(imp.feature_names)
    for name, exact in imp.columns().items():
        if exact.dtype.kind == "f":
            close(data["ranking"][name], exact)
    close(data["gain"], total_gain(model).scores)
    assert data["ranking"]["verdict"] == list(imp.verdicts)
    assert data["unit"] == imp.unit
    assert data["level"] == 0.1
    assert (data["score"], data["score_title"]) == ("signal", imp.title)
    assert data["training_rows"] is None
    assert data["notes"] == []
    for side, found in zip(data["quality"], (imp, importance(model, *fitted[3:])), strict=True):
        losses = found.losses
        close([side["before"], side["after"], side["explained"]], [losses.before, losses.after, found.explained])
        assert side["n"] == found.n_rows
    assert data["loss"] == "half the squared error"
    assert dict(data["facts"])["Learning rate"] == "0.2"


def test_effects_are_the_partial_residuals(fitted, page, tmp_path):
    model, X, y, *_ = fitted
    imp, data = importance(model, X, y), data_of(page)
    best = np.argsort(-np.abs(imp.scores)).tolist()
    assert [effect["feature"] for effect in data["effects"]] == best
    for effect, part in zip(data["effects"], partial_residuals(read_model(model), X, imp, best, y=y), strict=True):
        close(effect["holds"], imp.holds[effect["feature"]])
        for shown, values in ((effect["rows"], part.contribution), (effect["values"], part.values)):
            for name, exact in part.means(values)[1].items():
                close(shown[name], exact)
        text, unit = effect["dots"]
        dots = np.frombuffer(base64.b64decode(text), "<i2").reshape(2, -1) * np.array(unit, float)[:, None]
        assert effect["n"] == dots.shape[1] == 100  # of explorer_rows
        # Every dot is a row: half a unit from rounding.
        for values, drawn, one in zip((part.contribution, part.residual), dots, unit, strict=True):
            assert np.abs(drawn[:, None] - values).min(axis=1).max() <= 0.51 * one
    closed = data_of(report(model, X, y, path=tmp_path / "p.html", explorer_rows=0))["effects"]
    assert all(effect["n"] == 0 and effect["dots"][0] == "" for effect in closed)
    assert data_of(report(model, X, y, path=tmp_path / "p.html", score="tree_inner"))["effects"] is None


def test_the_breakdown_of_the_loss_adds_up(fitted, tmp_path):
    model, X, y, X_train, y_train = fitted
    asked = {"score": "loss", "method": "saabas"}
    given = {"X_train": X_train, "y_train": y_train, "explorer_rows": 2000, **asked}
    path = report(model, X, y, path=tmp_path / "p.html", **given)
    data, imp = data_of(path), importance(model, X, y, **asked)
    explorer = data["explorer"]  # its rows are explained by the attribution of the scores
    close(np.array(explorer["base"])[:, 0], attribute(model, X, method="saabas").base_values[explorer["number"]])
    close(data["ranking"]["score"], imp.scores)
    close(data["gap"]["train"], importance(model, X_train, y_train, **asked).scores)
    beside = data_of(report(model, X, y, path=path))["breakdown"]  # of the same rows, beside the ranking by signal
    close(beside["score"], importance(model, X, y, score="loss").scores)
    breakdown = data["breakdown"]
    before, after = (((y - m) ** 2).mean() / 2 for m in (read_model(model).trees.base, model.predict(X)))
    close([breakdown["before"], breakdown["after"]], [before, after], 1e-5)  # the model itself predicts in float32
    # Fourteen numbers, each rounded to six digits.
    assert abs(sum(data["ranking"]["score"]) + breakdown["base"] - breakdown["total"]) < 14 * SIX_DIGITS * before
    assert "score='loss',\n    method='saabas'," in data["call"]
    assert data["title"] == "Which features lowered the loss"
    with pytest.raises(ValueError, match=r"score='gain'.*'tree_inner'.*'loss'"):
        report(model, X, y, score="gain", path=path)


def test_curves_by_round(fitted, page):
    model, X, y, X_train, y_train = fitted
    rounds = data_of(page)["rounds"]
    for side, (A, b) in {"valid": (X, y), "train": (X_train, y_train)}.items():
        curve = np.vstack([np.zeros(6), importance(model, A, b).by_round().cumsum(axis=0)])
        whole = np.frombuffer(base64.b64decode(rounds[side]), "<i2").reshape(6, -1)
        unit = np.array(rounds[f"{side}_unit"], float)[:, None]
        # Half a unit from rounding to whole units, a little more from the seven digits of the unit itself.
        assert np.all(np.abs(whole * unit - curve[rounds["at"]].T) <= 0.51 * unit)
        if side == "valid":
            assert rounds["peak"] == curve.argmax(axis=0).tolist()
            close(rounds["best"], curve.max(axis=0))
            np.testing.assert_allclose(rounds["fall"], curve.max(axis=0) - curve[-1], rtol=SIX_DIGITS, atol=1e-12)
    assert rounds["at"][0] == 0
    assert rounds["at"][-1] == rounds["n"] == 40


def test_explorer_is_attribute(fitted, page):
    model, X, y, *_ = fitted
    a = attribute(model, X, method="centred", reference=importance(model, X, y))
    x = data_of(page)["explorer"]
    rows = np.array(x["number"])
    assert len(rows) == 100
    assert x["n"] == 250
    assert np.all(np.diff(rows) > 0)
    assert x["label"] == [X.index[i] for i in rows]
    close(x["actual"], y[rows])
    close(np.array(x["margin"])[:, 0], model.predict(X)[rows], 1e-5)  # the model itself predicts in float32
    half = 0.5001 * 10.0 ** -x["decimals"]
    for i, row in enumerate(rows):
        order = x["feature"][i]
        assert sorted(order) == list(range(6))  # few features: all are kept
        np.testing.assert_allclose(x["contribution"][i][0], a.values[row, order], rtol=0, atol=half)
        close(x["value"][i], X.iloc[row, order])
        total = x["base"][i][0] + sum(x["contribution"][i][0]) + x["rest"][i][0]
        assert abs(total - x["margin"][i][0]) < 10 * half  # seven rounded numbers, and two of six digits
    assert x["prediction"] is None  # squared error: the margin is the prediction
    close(x["loss"], 0.5 * (y[rows] - np.array(x["margin"])[:, 0]) ** 2, 2e-2)  # small ones differ by the margin's


def test_the_call_on_the_page_writes_the_same_page(fitted, tmp_path, monkeypatch):
    model, X, y, X_train, y_train = fitted
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.chdir(tmp_path)
    path = report(
        model, X, y, X_train=X_train, y_train=y_train, path=tmp_path / "one.html", title="It's \"one\"",
        explorer_rows=20, random_state=np.int64(5), feature_groups={"g": ["a", "b"]}, sample_weight=np.ones(len(y)),
    )  # fmt: skip
    first, data = path.read_bytes(), data_of(path)
    assert "2023-11-14" in data["written"]
    assert str(tmp_path) not in data["call"]
    path.unlink()
    names = {"model": model, "X": X, "y": y, "X_train": X_train, "y_train": y_train, "sample_weight": np.ones(len(y))}
    exec(data["call"], names)
    assert path.read_bytes() == first


# -- one file that stands alone, names that are only text ----------------------------------------------------------
def test_names_cannot_leave_their_text(tmp_path):
    X, y = make_rows(200, len(NASTY))
    classes = np.array(["<i>no", "</script>", "ok & 'fine'"])[np.digitize(y, [-1, 1])]
    model = lgb.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1).fit(X[:100], classes[:100])
    groups = {name: [k] for k, name in enumerate(NASTY)}  # LightGBM itself refuses such names
    path = report(
        model, X[100:], classes[100:], feature_groups=groups, path=tmp_path / "p.html", title=NASTY[0] + NASTY[6]
    )
    data, parts = data_of(path), parts_of(path)
    assert data["features"] == [name.encode("utf-8", "backslashreplace").decode() for name in NASTY]  # as text
    assert data["outputs"]["names"] == sorted(set(classes.tolist()))
    count = {tag: sum(t == tag for t, _ in parts.elements) for tag in ("script", "b", "i", "img", "title", "h1")}
    assert count == {"script": 2, "b": 0, "i": 0, "img": 0, "title": 1, "h1": 1}
    title = next(text for tag, _, text in parts.texts if tag == "title")
    assert title.startswith(NASTY[0])
    block = path.read_text(encoding="utf-8").split('id="data">')[1].split("</script>")[0]
    assert not set("<>&") & set(block)
    assert block.isascii()


def test_policy_names_the_only_script_and_style(page):
    parts = parts_of(page)
    policy = next(a["content"] for tag, a in parts.elements if a.get("http-equiv") == "Content-Security-Policy")
    for tag, attrs, text in parts.texts:
        if tag == "style" or (tag == "script" and "type" not in attrs):
            assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy, tag
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_nothing_points_outside(page):
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\s\"'<]*", text)) == {"http://www.w3.org/2000/svg"}  # a name, never loaded
    for _, attrs in parts_of(page).elements:
        assert "src" not in attrs
        assert not any(name.startswith("on") for name in attrs)
        assert attrs.get("href", "#").startswith(("#", "data:,"))
    assert "@import" not in text
    assert "url(" not in text
    script = files("treeinner.show.page").joinpath("page.js").read_text(encoding="utf-8")
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "XMLHttpRequest"):
        assert word not in script, word
    assert len(script.splitlines()) < 785


def test_every_id_the_script_asks_for_is_in_the_template():
    script = files("treeinner.show.page").joinpath("page.js").read_text(encoding="utf-8")
    template = files("treeinner.show.page").joinpath("template.html").read_text(encoding="utf-8")
    asked = set(re.findall(r'\$\("([\w-]+)"\)', script))
    ids = re.findall(r'id="([\w-]+)"', template)
    assert asked <= set(ids)
    assert len(ids) == len(set(ids))
    targets = re.findall(r'(?:href="#|aria-labelledby=")([\w-]+)"', template)
    assert set(targets) <= set(ids)


@pytest.mark.filterwarnings("ignore::treeinner.errors.TreeInnerWarning")  # only the size counts
def test_size_bound(tmp_path):
    """300 features and 50,000 rows, with training rows and 2,000 rows to look at: under 3 MB."""
    rng = np.random.default_rng(0)
    X = rng.random(size=(50_000, 300), dtype=np.float32)
    y = X[:, :20].sum(axis=1) + rng.normal(size=len(X)) > 10
    model = xgb.XGBClassifier(n_estimators=60, max_depth=3, max_bin=16, n_jobs=1).fit(X[:1000], y[:1000])
    path = report(model, X, y, X_train=X[:1000], y_train=y[:1000], path=tmp_path / "big.html", explorer_rows=2000)
    assert path.stat().st_size < 3_000_000
    x = data_of(path)["explorer"]
    assert len(x["number"]) == 2000
    assert len(x["feature"][0]) == 60


@pytest.mark.filterwarnings("ignore::treeinner.errors.TreeInnerWarning")  # only the size counts
def test_size_bound_with_many_classes(tmp_path):
    X, _ = make_rows(8000, 30, dtype=np.float32)
    y = np.random.default_rng(1).integers(0, 12, len(X))
    model = lgb.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1).fit(X[:1000], y[:1000])
    path = report(model, X, y, path=tmp_path / "big.html", explorer_rows=8000)
    assert path.stat().st_size < 5_000_000
    x = data_of(path)["explorer"]
    margin = read_model(model).predict(X[x["number"]])
    for i, (shown, row) in enumerate(zip(x["outputs"], x["number"], strict=True)):
        assert len(set(shown)) == 4  # the likeliest classes, and the row's own
        assert {int(margin[i].argmax()), int(y[row])} <= set(shown)


# -- pieces that may be missing ------------------------------------------------------------------------------------
def test_rows_are_in_the_file_only_if_asked_for(fitted, tmp_path, capsys):
    model, X, y, *_ = fitted
    X = X.assign(f=pd.Categorical(["only here", *["often"] * (len(X) - 1)]))
    model = lgb.LGBMRegressor(n_estimators=40, min_child_samples=1, n_jobs=1, verbose=-1)
    model.fit(X[1:].assign(f=X["f"]), y[1:])
    path = report(model, X, y + 9 * (X["f"] == "only here"), path=tmp_path / "p.html")
    data = data_of(path)
    assert capsys.readouterr().out == f"{path}: {path.stat().st_size / 1000:.0f} kB, no rows of data\n"
    assert data["gap"] is None
    assert data["explorer"] is None
    assert "train" not in data["rounds"]
    assert "only here" not in path.read_text(encoding="utf-8")  # no bin and no category of one row either
    assert all(None not in effect["rows"]["low"] for effect in data["effects"])
    report(model, X, y, path=path, explorer_rows=3)
    assert capsys.readouterr().out.endswith("kB, 3 rows of data\n")


def test_a_loss_without_a_breakdown(tmp_path):
    X, y = make_rows()
    model = xgb.XGBRegressor(n_estimators=5, objective=lambda y, m: (m - y, np.ones_like(y)), n_jobs=1)
    opened = read_model(model.fit(X[:150], y[:150]), objective=lambda y, m: m - y)
    data = data_of(report(opened, X[150:], y[150:], path=tmp_path / "p.html"))
    assert data["breakdown"] is None
    assert data["quality"] == [{"rows": "Held-out", "n": 150}]


def test_model_without_gains(tmp_path):
    X, y = make_rows()
    model = catboost.CatBoostRegressor(iterations=10, depth=3, thread_count=1, verbose=False, allow_writing_files=False)
    data = data_of(report(model.fit(X[:150], y[:150]), X[150:], y[150:], path=tmp_path / "p.html", explorer_rows=2000))
    assert data["gain"] is None
    assert len(data["explorer"]["value"]) == 150


def test_forest_has_no_rounds_and_its_quality_is_that_of_the_breakdown(tmp_path):
    X, y = make_rows()
    model = RandomForestClassifier(n_estimators=10, max_depth=4, random_state=0).fit(X[:150], y[:150] > 0)
    data = data_of(report(model, X[150:], y[150:] > 0, path=tmp_path / "p.html", explorer_rows=150))
    assert data["rounds"] is None
    assert data["facts"][0] == ["Model", "scikit-learn, 10 averaged trees"]
    after = ((np.stack([y[150:] <= 0, y[150:] > 0], axis=1) - model.predict_proba(X[150:])) ** 2).sum(axis=1).mean() / 2
    close([data["quality"][0]["after"], np.mean(data["explorer"]["loss"])], after)
    assert data["loss"] == data["breakdown"]["loss"] == "half the squared error"  # the splits went by the Gini impurity


def test_classes(tmp_path):
    X, y = make_rows(400)
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [-1, 1])]
    model = lgb.LGBMClassifier(n_estimators=15, n_jobs=1, verbose=-1).fit(X[:200], labels[:200])
    data = data_of(report(model, X[200:], labels[200:], path=tmp_path / "p.html", explorer_rows=200))
    imp, x = importance(model, X[200:], labels[200:]), data["explorer"]
    close(data["ranking"]["score"], imp.scores)
    for name, ranking in zip(data["outputs"]["names"], data["outputs"]["rankings"], strict=True):
        close(ranking["score"], imp.for_output(name).scores)
    close(x["prediction"], model.predict_proba(X[200:])[x["number"]])
    assert x["actual"] == labels[200:][x["number"]].tolist()


def test_weights_and_clusters(fitted, tmp_path):
    model, X, y, X_train, y_train = fitted
    rng = np.random.default_rng(0)
    weight, clusters = rng.uniform(0.5, 2, len(y)), np.arange(len(y)) // 5
    path = report(
        model, X, y, X_train=X_train, y_train=y_train, sample_weight=weight, clusters=clusters, path=tmp_path / "p.html"
    )
    data, imp = data_of(path), importance(model, X, y, sample_weight=weight, clusters=clusters)
    close(data["ranking"]["score"], imp.scores)
    close(data["ranking"]["std_error"], imp.std_errors)
    train = importance(model, X_train, y_train)
    close(data["gap"]["gap"], train.scores - imp.scores)  # of two independent samples
    close(data["gap"]["std_error"], np.hypot(train.std_errors, imp.std_errors))
    assert "50 independent clusters" in dict(data["facts"])["Rows scored"]


def test_groups(fitted, tmp_path):
    model, X, y, *_ = fitted
    groups = {"pair": ["a", "c"]}
    data = data_of(report(model, X, y, feature_groups=groups, path=tmp_path / "p.html", explorer_rows=10))
    imp = importance(model, X, y, feature_groups=groups)
    assert data["features"] == list(imp.feature_names) == ["pair", "b", "d", "e", "f"]
    close(data["ranking"]["score"], imp.scores)
    gain = total_gain(model).scores
    close(data["gain"], [gain[0] + gain[2], *gain[[1, 3, 4, 5]]])
    assert data["explorer"]["value"] is None


@pytest.mark.parametrize("wrap", [lambda X: pl.DataFrame(X).to_arrow(), scipy.sparse.csr_matrix, np.ndarray.tolist])
def test_containers(wrap, tmp_path):
    X, y = make_rows()
    model = xgb.XGBRegressor(n_estimators=10, n_jobs=1).fit(X[:150], y[:150])
    path = report(model, wrap(X[150:]), y[150:].tolist(), path=tmp_path / "p.html", explorer_rows=30)
    x = data_of(path)["explorer"]
    assert x["label"] is None
    values = np.take_along_axis(X[150:][x["number"]], np.array(x["feature"]), axis=1)
    close(x["value"], values)


def test_pipeline_shows_the_columns_that_go_in(tmp_path):
    X, y = make_rows()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = make_pipeline(StandardScaler(), lgb.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1)).fit(
        frame[:150], y[:150]
    )
    data = data_of(report(model, frame[150:], y[150:], path=tmp_path / "p.html", explorer_rows=10))
    assert data["features"] == list("abcdef")
    seen = frame[150:].to_numpy()[data["explorer"]["number"]]
    close(data["explorer"]["value"], np.take_along_axis(seen, np.array(data["explorer"]["feature"]), axis=1))


def test_training_rows_are_not_called_held_out(fitted, tmp_path):
    model, _, _, X_train, y_train = fitted
    with pytest.warns(TreeInnerWarning, match="Training rows are among these rows") as said:
        data = data_of(report(model, X_train, y_train, path=tmp_path / "p.html"))
    assert data["title"] == "Scores with training rows among the rows"
    ours = [str(warning.message) for warning in said if warning.category is TreeInnerWarning]
    assert ours == [f"{data['training_rows']['note']} [training_rows]"]
    assert data["training_rows"]["note"] not in data["notes"]  # not there a second time


def test_files_are_read(fitted, tmp_path):
    model, X, y, *_ = fitted
    X.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    data = data_of(report(model, tmp_path / "rows.csv", "y", path=tmp_path / "p.html", explorer_rows=10))
    close(data["ranking"]["score"], importance(model, X, y).scores)
    assert len(data["explorer"]["value"]) == 10


def test_a_selector(fitted, tmp_path):
    _, X, y, *_ = fitted
    booster = lgb.LGBMRegressor(n_estimators=10, n_jobs=1, verbose=-1)
    selector = TreeInnerSelector(booster, adds=True, cv=2, repeats=1, n_draws=5, random_state=0, n_jobs=1).fit(X, y)
    data, table = data_of(report(selector, path=tmp_path / "p.html")), selector.table()
    assert data["title"] == "Which features to keep"
    assert data["features"] == list("abcdef")
    assert data["ranking"]["kept"] == table["kept"].tolist()
    for name in ("score", "p_value", "adds"):
        close(data["ranking"][name], table[name])
    assert data["selection"]["rule"] == selector.rule
    folds = selector.importance_.folds.rank_stability
    assert dict(data["facts"])["Agreement of the folds"].startswith(f"{folds:.2f}")
    assert "n_draws=5, n_jobs=1" in " ".join(data["call"].split())
    with pytest.raises(TypeError, match="needs no rows"):
        report(selector, np.zeros((2, 5)), path=tmp_path / "p.html")


def test_a_comparison(fitted, tmp_path):
    model, X, y, X_train, y_train = fitted
    found = compare(model, (X_train, y_train), (X, y), names=("train", "valid"))
    path = report(found, path=tmp_path / "p.html")
    data, c = data_of(path), data_of(path)["comparison"]
    assert data["title"] == "Why the loss changed"
    assert data["features"] == list(found.feature_names)
    close(data["ranking"]["change"], found.change.score)
    close(data["ranking"]["ci_high"], found.interval(0.95)[1])
    assert data["ranking"]["verdict"] == list(found.verdicts)
    rise = c["harder"] + c["base"] + sum(data["ranking"]["change"])
    before, after = (side["after"] for side in data["quality"])
    close([before, after], [found.loss_before, found.loss_after])
    assert rise == pytest.approx(after - before, abs=9 * SIX_DIGITS * after)
    assert [side["rows"] for side in data["quality"]] == c["names"]
    with pytest.raises(TypeError, match=r"needs no rows: ti\.report\(comparison"):
        report(found, X, y, path=path)
    with pytest.raises(TypeError, match="has no segments"):
        report(found, by=y, path=path)


def test_segments(fitted, tmp_path):
    model, X, y, *_ = fitted
    town = np.array(["<i>Ulm</i>", "Kiel", "Jena"])[np.arange(len(y)) % 3]
    data = data_of(report(model, X, y, by=town, path=tmp_path / "p.html"))
    imp, shown = importance(model, X, y, by=town), data["segments"]
    by = imp.by_segment
    assert (shown["names"], shown["n"]) == (list(by.labels), by.rows.tolist())
    assert shown["features"] == imp.order.tolist()
    close(shown["score"], by.statistics.score[:, imp.order])
    close(shown["difference"], by.difference.score[:, imp.order])
    close(shown["q"], by.difference.q_value[:, imp.order], 5.1e-3)
    close(shown["same"], by.same["q_value"][imp.order], 5.1e-3)
    assert "    by=by,\n" in data["call"]
    many = np.array([f"s{i:03}" for i in range(60)])[np.arange(len(y)) % 60]
    with pytest.warns(TreeInnerWarning, match="30 rows"):
        shown = data_of(report(model, X, y, by=many, path=tmp_path / "p.html"))["segments"]
    assert (len(shown["names"]), shown["all"]) == (50, 60)


# -- the file ------------------------------------------------------------------------------------------------------
def test_a_failure_leaves_the_old_file(fitted, tmp_path, monkeypatch):
    model, X, y, *_ = fitted
    path = tmp_path / "p.html"
    path.write_text("old")

    def full_disk(*_):
        raise OSError("no space left")

    monkeypatch.setattr(rendering.Path, "replace", full_disk)
    with pytest.raises(OSError, match="no space"):
        report(model, X, y, path=path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["p.html"]


def test_others_may_read_the_file(page, tmp_path):
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(page.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"X_train": np.zeros((2, 6))}, DataError, "X_train and y_train both or neither"),
        ({"explorer_rows": -1}, ValueError, "explorer_rows=-1"),
        ({"explorer_rows": 1.5}, ValueError, r"explorer_rows=1\.5: expected a whole number"),
        ({"random_state": "x"}, ValueError, "random_state='x': expected a whole number"),
        ({"path": "nowhere/page.html"}, FileNotFoundError, "does not exist"),
        ({"path": "."}, IsADirectoryError, "is a folder"),
    ],
)
def test_mistakes(fitted, tmp_path, monkeypatch, change, error, message):
    model, X, y, *_ = fitted
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        report(model, X, y, **{"path": "p.html", **change})
    assert list(tmp_path.iterdir()) == []


# -- small parts ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.int64(7), 7), (2**60, str(2**60)), (np.float32(0.1), 0.1), (1234567.52, 1234567.5), (1e20, 1e20), (3.0, 3),
        (np.bool_(False), False), (np.nan, None), (np.inf, "∞"), (pd.NaT, None), ("x" * 100, "x" * 59 + "…"),
    ],
)  # fmt: skip
def test_value_text(value, text):
    assert value_text(value) == text
    assert type(value_text(value)) is type(text)
