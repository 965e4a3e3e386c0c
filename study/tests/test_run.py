"""A miniature of the study end to end; and what is killed, resumed, mixed up or missing."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import typer.main
import xgboost
from chip_files import CHIP_FOLDER, needs_chip
from typer.testing import CliRunner

import treeinner as ti
from treeinner_study import chip, grid
from treeinner_study.cli import HELP, app
from treeinner_study.cost import cost_of
from treeinner_study.measure import _cuts, _matrix, _train, area_under_curve, measure
from treeinner_study.names import ADDED, PROBLEMS, StudyError
from treeinner_study.problems import Seeds, make_data
from treeinner_study.run import REPLICATIONS, SWEEP_REPLICATIONS, Plan, run_study

SIMULATED = PROBLEMS[2:]
SCORES = {
    "TreeInner": partial(ti.importance, score="tree_inner", std_errors=False),
    "Account": partial(ti.importance, score="loss", std_errors=False),
    "ForestInner": ti.forest_inner,
    "ForestInner(label)": partial(ti.forest_inner, against="label"),
    "Abs": partial(ti.mean_abs, over="trees"),
}
SECONDS = ["score_seconds", "train_seconds", "read_seconds", "alone_seconds"]
PIECE = {"replications": 2, "rounds": 4, "sweeps": ("eta", "num_boost_round")}
CORES = 2


@pytest.fixture
def no_chip(monkeypatch, tmp_path):
    """A machine without the ChIP files and without a way to them: the study runs the rest."""
    monkeypatch.setenv(chip.ENVIRONMENT, str(tmp_path / "nowhere"))


def command(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def numbers(results: Path):
    """Rows that are stored, without the times, as text that tells every bit (and in which NaN equals NaN)."""
    return [
        repr(row) for row in pyarrow.parquet.read_table(results / "results.parquet").drop_columns(SECONDS).to_pylist()
    ]


# -- the grid ----------------------------------------------------------------------------------------------------
def test_no_model_is_trained_twice():
    settings = grid.settings_of(grid.SWEEPS)
    assert sum(map(len, grid.SWEEPS.values())) == 26
    assert len(settings) == 22
    for task, n in (("classification", 18), ("regression", 17)):
        trainings = grid.trainings(settings, task)
        assert len(trainings) == n
        assert sorted(s for t in trainings for s in t.settings) == sorted(settings)
    (long,) = [t for t in trainings if len(t.settings) > 1]
    assert long.setting.num_boost_round == 1000
    assert grid.STANDARD in long.settings


def test_help_says_how_many_models_are_trained():
    settings = grid.settings_of(grid.SWEEPS)
    models = 0
    for problem in PROBLEMS:
        for replication in range(REPLICATIONS):
            chosen = settings if replication < SWEEP_REPLICATIONS else [grid.STANDARD]
            models += len(grid.trainings(chosen, problem.task)) + 1  # the placebo
    assert f"Trains {models:,} models" in HELP


def test_min_child_weight_below_one_changes_no_tree_of_squared_error():
    data = make_data(SIMULATED[1], "as_run", Seeds(0, SIMULATED[1], 0).generator("data"))
    dumps = [
        _train(SIMULATED[1], grid.Setting(num_boost_round=5, min_child_weight=w), _matrix(data)).booster.get_dump()
        for w in (0.5, 1.0)
    ]
    assert dumps[0] == dumps[1]


# -- one replication ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("problem", SIMULATED)
def test_scores_of_a_cut_are_those_of_a_model_trained_so_far(problem):
    settings = grid.settings_of(["num_boost_round"], rounds=10)
    data = make_data(problem, "as_run", Seeds(0, problem, 0).generator("data"))
    (training,) = grid.trainings(settings, problem.task)
    model = _train(problem, training.setting, _matrix(data))
    seen = 0
    for setting, found, _ in _cuts(problem, training, model, data, [1, 2]):
        params = {
            "objective": "binary:logistic" if problem.task == "classification" else "reg:squarederror",
            "base_score": 0.5 if problem.task == "classification" else 0.0,
            "tree_method": "exact", "eta": 0.01, "max_depth": 4, "nthread": 1,
        }  # fmt: skip
        alone = xgboost.train(params, xgboost.DMatrix(data.X_train, data.y_train), setting.num_boost_round)
        told = {"objective": params["objective"], "learning_rate": params["eta"], "reg_lambda": 1.0}
        read = ti.read_model(alone, **told)
        for score, (vector, _) in found.scores.items():
            if score.gfa in SCORES:
                X, y = data.rows(score.domain)
                rows = (X,) if score.gfa == "Abs" else (X, y)
                imp = SCORES[score.gfa](read, *rows, method=score.ifa.lower(), n_jobs=1)
                # the stretches are added in another order: rounding of float64, of the largest score
                expected = imp.gains if score.gfa == "TreeInner" and score.ifa != "Centred" else imp.scores
                np.testing.assert_allclose(vector, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
                seen += 1
        gain = alone.get_score(importance_type="total_gain")
        np.testing.assert_array_equal(found.total_gain, [gain.get(f"f{k}", 0.0) for k in range(50)])
        margin = alone.predict(xgboost.DMatrix(data.X_valid), output_margin=True)
        if problem.task == "classification":
            assert found.risk == pytest.approx(
                1 - area_under_curve(data.y_valid > 0.5, margin), abs=1e-3
            )  # float32 ties
        else:
            assert found.risk == pytest.approx(((data.y_valid - margin) ** 2).mean(), rel=1e-6)  # float32 margins
    assert seen == (12 + len(ADDED)) * len(settings)


def test_rows_of_a_replication():
    settings = grid.settings_of(["num_boost_round", "min_child_weight"], rounds=4)
    usual = grid.standard(4)
    unit = measure(SIMULATED[1], 0, settings, usual, process="as_run", seed=0)
    assert len(unit.rows) == 21 * len(settings) + 5
    for row in unit.rows:
        assert 0 <= row["auc"] <= 1
        assert 0 <= row["auc_first10"] <= 1
        assert abs(row["score_noisy"]) <= 1
        proposition_3 = (row["gfa"], row["domain"], row["ifa"]) == ("TreeInner", "Train", "PreDecomp")
        assert np.isfinite(row["error"]) == proposition_3
        assert not proposition_3 or row["error"] < 1e-6  # XGBoost keeps gains and node values in float32
        reference = row["gfa"] in {"F-test", "Linear |t|"}
        assert np.isnan(row["risk"]) == reference
    # Sums over settings count every training once, and it is all of the training but the placebo's.
    models = {tuple(row[name] for name in usual.__dataclass_fields__): row["train_seconds"] for row in unit.rows}
    assert len(models) == len(settings)
    assert sum(models.values()) < unit.training_seconds < unit.cpu_seconds
    assert sum(seconds > 0 for seconds in models.values()) == len(grid.trainings(settings, "regression"))
    # The standard setting carries its own times, not the setting that is the same model.
    inner = [
        r["score_seconds"]
        for r in unit.rows
        if grid.Setting(**{k: r[k] for k in usual.__dataclass_fields__}) == usual and r["gfa"] == "TreeInner"
    ]
    assert len(inner) == 8
    assert min(inner) > 0


@needs_chip
def test_a_replication_of_chip():
    files = chip.load_chip(chip.find_chip(CHIP_FOLDER))
    usual = grid.standard(2)
    unit = measure(PROBLEMS[0], 0, [usual], usual, process="as_run", seed=0, chip=files)
    assert len(unit.rows) == 26
    assert all(np.isnan(row["auc_first10"]) for row in unit.rows)


# -- end to end --------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("no_chip")
def test_a_miniature_end_to_end(tmp_path):
    out = tmp_path / "study"
    result = command("--out", out, "--replications", 2, "--rounds", 6, "--jobs", CORES)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "ChIP was not run" in result.stderr
    assert "% of the training time" in result.stdout
    assert "4 of 4" in result.stderr
    meta = json.loads((out / "results" / "meta.json").read_text())
    assert (meta["rounds"], meta["replications"], meta["seed"]) == (6, 2, 0)
    assert len(meta["settings"]) == 22
    table = pyarrow.parquet.read_table(out / "results" / "results.parquet")
    assert table.num_rows == 2 * 2 * (22 * 21 + 5)
    cost = cost_of(out / "results", meta)
    assert 0 < cost.inner_share < cost.inner_share_with_reading
    assert 0 < cost.training_seconds < cost.cpu_seconds
    opened = [_open(path) for path in sorted(out.rglob("*")) if path.is_file()]
    assert {"table.csv", "table.md", "table.tex", "index.html"} <= set(opened)
    assert sum(name.endswith(".svg") for name in opened) >= 25  # five figures for each of five sweeps
    with (out / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 56
    assert {row["dataset"] for row in rows if row["auc_mean"]} == {"Simulated"}


def test_only_show_runs_nothing(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("treeinner_study.show.write_outputs", lambda *folders: drawn.append(folders))
    monkeypatch.setattr("treeinner_study.run.run_study", None)
    assert command("--out", tmp_path, "--only-show").exit_code == 0
    assert drawn == [(tmp_path / "results", tmp_path)]


def _open(path):
    """Open a file of the output as what it says it is, and return its name."""
    if path.suffix == ".parquet":
        assert pyarrow.parquet.read_table(path).num_rows > 0
    elif path.suffix == ".svg":
        assert xml.etree.ElementTree.parse(path).getroot().tag.endswith("svg")
    elif path.suffix == ".json":
        json.loads(path.read_text())
    else:
        assert path.suffix in {".csv", ".md", ".tex", ".html"}, path
        assert len(path.read_text(encoding="utf-8")) > 100
    return path.name


# -- killed and resumed ------------------------------------------------------------------------------------------
def start(out, jobs, **more):
    code = (
        "import sys; from pathlib import Path; from treeinner_study.run import Plan, run_study\n"
        f"run_study(Plan(Path({str(out)!r}), jobs={jobs}, **{PIECE!r}), lambda p: print(p.done, flush=True))"
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, **more)


def children(pid):
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in listed.read_text().split()] if listed.exists() else []


@pytest.mark.usefixtures("no_chip")
def test_killed_and_resumed_it_gives_the_same_table(tmp_path):
    whole = run_study(Plan(tmp_path / "whole", **PIECE))
    out = tmp_path / "killed"
    rng = np.random.default_rng()  # other moments every time: the law holds at any
    for done, jobs in ((1, 1), (2, 2), (3, 1)):
        process = start(out, jobs)
        for line in process.stdout:
            if int(line) >= done:
                break
        time.sleep(rng.uniform(0, 0.3))
        workers = children(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        process.stdout.close()
        until = time.monotonic() + 20
        while any(map(_runs, workers)) and time.monotonic() < until:
            time.sleep(0.05)
        # Nobody goes on working for a parent that is gone.
        assert not [w for w in workers if _runs(w)]
    counted = []
    resumed = run_study(Plan(out, **PIECE), lambda p: counted.append(p.done))
    assert counted[-1] == 4
    assert counted[0] >= 1
    assert len(numbers(whole)) == 2 * 2 * (10 * 21 + 5)
    assert numbers(resumed) == numbers(whole)
    assert not list(resumed.rglob("*.tmp"))
    assert json.loads((resumed / "meta.json").read_text())["wall_seconds"] > 0


def _runs(pid):
    """Whether a process is there and not merely waiting to be reaped."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.mark.usefixtures("no_chip")
def test_ctrl_c_stops_and_says_how_to_go_on(tmp_path):
    arguments = ["--out", tmp_path, "--replications", 20, "--rounds", 4, "--sweeps", "eta", "--jobs", 2]
    # As from a terminal, also if these tests run in the background, where a shell has SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-m", "treeinner_study", *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    signal.signal(signal.SIGINT, before)
    seen = []
    for line in process.stderr:
        seen.append(line)
        if line.startswith("1 of 40"):
            os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the workers too
            break
    seen += process.stderr.readlines()
    assert process.wait(30) == 130
    process.stderr.close()
    text = "".join(seen)
    assert "of 40 replications are stored; the same command goes on from there." in text
    assert "Traceback" not in text


@pytest.mark.usefixtures("no_chip")
def test_a_replication_does_not_depend_on_the_others(tmp_path):
    few = run_study(Plan(tmp_path, replications=1, rounds=4, quick=True))
    first = numbers(few)
    more = numbers(run_study(Plan(tmp_path, replications=2, rounds=4, quick=True, jobs=2)))
    assert len(more) == 2 * len(first)
    assert [row for row in more if "'replication': 0," in row] == first


@pytest.mark.usefixtures("no_chip")
def test_later_replications_have_the_standard_setting_alone(tmp_path):
    plan = {"rounds": 4, "sweeps": ("num_boost_round",)}
    whole = numbers(run_study(Plan(tmp_path / "whole", replications=2, **plan)))
    part = numbers(run_study(Plan(tmp_path / "part", replications=2, sweep_replications=1, **plan)))
    usual = [row for row in whole if "'replication': 1," in row and "'num_boost_round': 4," in row]
    assert len(usual) == 2 * (21 + 5)
    later = [row for row in part if "'replication': 1," in row]
    assert len(later) == len(usual)
    # One of the two is cut out of a longer model: the same AUC, normalised scores but for rounding.
    auc = re.compile(r"'auc': [^,]*")
    assert [auc.findall(row) for row in later] == [auc.findall(row) for row in usual]
    assert [row for row in part if row not in later] == [row for row in whole if "'replication': 0," in row]


# -- refusals ----------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("no_chip")
def test_parts_of_different_studies_are_never_mixed(tmp_path):
    mini = {"replications": 1, "rounds": 2, "quick": True}
    results = run_study(Plan(tmp_path, **mini))
    with pytest.raises(StudyError, match=r"another seed \(0, now 1\)"):
        run_study(Plan(tmp_path, seed=1, **mini))
    with pytest.raises(StudyError, match="another process"):
        run_study(Plan(tmp_path, process="as_written", **mini))
    with pytest.raises(StudyError, match="another rounds"):
        run_study(Plan(tmp_path, replications=1, rounds=3, quick=True))
    with pytest.raises(StudyError, match=r"set of settings \(1, now 5"):
        run_study(Plan(tmp_path, replications=1, rounds=2, sweeps=("max_depth",)))
    with pytest.raises(StudyError, match=r"number of replications of the sweeps \(20, now 5\)"):
        run_study(Plan(tmp_path, sweep_replications=5, **mini))
    other = run_study(Plan(tmp_path / "other", seed=1, **mini))
    part = next((results / "parts").iterdir())
    kept = part.read_bytes()
    part.write_bytes((other / "parts" / part.name).read_bytes())
    with pytest.raises(StudyError, match="was made with another seed"):
        run_study(Plan(tmp_path, **mini))
    part.write_bytes(kept[:100])
    with pytest.raises(StudyError, match="cannot be read as Parquet"):
        run_study(Plan(tmp_path, **mini))
    part.write_bytes(kept)
    (results / "meta.json").unlink()
    with pytest.raises(StudyError, match=r"no meta\.json"):
        run_study(Plan(tmp_path, **mini))


def test_slips_on_the_command_line(tmp_path):
    wrong = command("--out", tmp_path, "--sweeps", "eta,depth")
    assert wrong.exit_code == 2
    assert "there is no sweep 'depth'" in wrong.stderr
    nowhere = command("--out", tmp_path, "--chip-dir", tmp_path)
    assert nowhere.exit_code == 1
    assert "does not contain X_train.csv" in nowhere.stderr


def test_commands_of_the_page_are_understood():
    page = Path(__file__).parents[2] / "docs" / "evidence" / "study.md"
    typed = re.findall(r"^\$ treeinner-study (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert typed
    for arguments in typed:
        # Raises for an unknown option.
        typer.main.get_command(app).make_context("treeinner-study", shlex.split(arguments))
