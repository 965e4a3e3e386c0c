"""What is distributed: one version, a complete source distribution, workflows that call what is there."""

import re
import tarfile
import tomllib
from importlib import metadata

import jinja2
import pytest
import scikit_build_core.build
import yaml

from tests import release

ROOT = release.ROOT
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "src" / "core" / "README.md"]


def read(path):
    return path.read_text(encoding="utf-8")


def make_targets():
    """Names that the Makefile has rules for, those of a pattern over systems included."""
    text = read(ROOT / "Makefile")
    systems = re.search(r"^CROSS := (.+)$", text, re.M).group(1).split()
    return set(re.findall(r"^([a-z][\w-]*):", text, re.M)) | {f"cross-{system}" for system in systems}


# -- one version
def test_version_and_licence_agree_everywhere():
    assert release.faults() == []
    assert metadata.version("treeinner") == PROJECT["version"]


def test_version_stands_in_no_file_that_could_look_it_up():
    places = [*ROOT.glob("src/**/*.py"), *ROOT.glob("src/core/**/*.cpp"), *ROOT.glob("src/core/**/*.h")]
    places += [ROOT / name for name in ("docs/conf.py", "conda/meta.yaml", "CMakeLists.txt", "Makefile")]
    assert [path for path in places if PROJECT["version"] in read(path)] == []


@pytest.mark.parametrize("tag", ["", "0.2.0", "v0.0.0"])
def test_another_tag_than_the_version_is_not_released(tag):
    assert any(f"expected v{PROJECT['version']}" in reason for reason in release.undone(tag))


# -- what is distributed
def test_source_distribution_has_all_that_its_tests_read(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    archive = tmp_path / scikit_build_core.build.build_sdist(str(tmp_path))
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    made = re.compile(
        r"__pycache__|\.(so|pyd|pyc)$|^docs/gallery/|\.egg-info|\.(pytest|mypy|ruff|hypothesis)_?cache|\.hypothesis"
    )
    rooms = ("src", "tests", "study", "docs", "examples", "benchmarks", ".github", "conda")
    there = (path.relative_to(ROOT).as_posix() for room in rooms for path in (ROOT / room).rglob("*") if path.is_file())
    wanted = {name for name in there if not made.search(name)}
    assert any(name.startswith("tests/golden/") for name in wanted)
    assert wanted - names == set()
    assert {name for name in names if made.search(name)} == set()


def test_wheels_are_built_for_every_python_that_is_promised():
    settings = SETTINGS["tool"]["cibuildwheel"]
    oldest = "cp" + PROJECT["requires-python"].removeprefix(">=").replace(".", "")
    stable = SETTINGS["tool"]["scikit-build"]["wheel"]["py-api"]
    assert settings["build"] == [f"{oldest}-*", f"{stable}-*"]
    (tests,) = re.findall(r"\{project\}/(\S+)", settings["test-command"])
    assert (ROOT / tests).exists()


def test_conda_recipe_asks_for_what_the_package_asks_for():
    given = {
        "load_file_data": lambda name, from_recipe_dir: tomllib.loads(read(ROOT / "conda" / name)),
        "compiler": "{}_compiler".format, "stdlib": "{}_stdlib".format, "PYTHON": "python",
    }  # fmt: skip
    recipe = yaml.safe_load(jinja2.Template(read(ROOT / "conda" / "meta.yaml")).render(**given))
    assert recipe["package"] == {"name": PROJECT["name"], "version": PROJECT["version"]}
    needs = recipe["requirements"]
    assert [n.replace(" ", "") for n in needs["run"]] == ["python", *PROJECT["dependencies"]]
    assert [n.replace(" ", "") for n in needs["host"]] == ["python", "pip", *SETTINGS["build-system"]["requires"]]
    assert recipe["build"]["entry_points"] == [f"{k} = {v}" for k, v in PROJECT["scripts"].items()]
    for name in recipe["test"]["source_files"]:
        assert (ROOT / name).exists(), name


# -- what runs elsewhere
def steps(workflow):
    for job in workflow["jobs"].values():
        yield from job.get("steps", ())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_what_is_there(path):
    workflow = yaml.safe_load(read(path))
    assert workflow["permissions"] == {"contents": "read"}  # more only in the job that needs it
    for job in workflow["jobs"].values():
        assert "uses" in job or "timeout-minutes" in job
        assert (ROOT / job.get("uses", ".")).exists()
    for step in steps(workflow):
        assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/none@v0")), step
        command = step.get("run", "")
        assert set(re.findall(r"^make ([\w-]+)", command, re.M)) <= make_targets(), command
        if command.startswith("."):
            assert (ROOT / command).exists(), command


def test_there_are_workflows():
    assert {path.stem for path in WORKFLOWS} == {"ci", "docs", "release", "wheels"}


def test_only_the_job_that_uploads_may_prove_who_it_is():
    jobs = yaml.safe_load(read(ROOT / ".github" / "workflows" / "release.yml"))["jobs"]
    assert {name: job["permissions"] for name, job in jobs.items() if "permissions" in job} == {
        "publish": {"id-token": "write"}
    }
    assert set(jobs["publish"]["needs"]) == {"sdist", "wheels"}


def test_hooks_before_a_commit_ask_for_the_versions_of_make_check():
    hooks = yaml.safe_load(read(ROOT / ".pre-commit-config.yaml"))["repos"][0]["hooks"]
    check = SETTINGS["dependency-groups"]["check"]
    asked = [need for hook in hooks if hook["id"] != "workflows" for need in hook["additional_dependencies"]]
    assert asked
    assert set(asked) <= {need for need in check if isinstance(need, str)}


def test_documentation_elsewhere_is_built_with_a_group_that_is_there():
    commands = " ".join(yaml.safe_load(read(ROOT / ".readthedocs.yaml"))["build"]["jobs"]["install"])
    assert set(re.findall(r"--group (\w+)", commands)) == {"docs"} <= set(SETTINGS["dependency-groups"])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_name_targets_of_make_that_are_there(path):
    assert set(re.findall(r"`make ([a-z][\w-]*)", read(path))) <= make_targets()


# -- compilers
def test_one_header_of_the_core_names_what_compilers_differ_in():
    own = re.compile(r"__attribute__|__builtin_|_Pragma|#pragma (?!once)|__declspec|__GNUC__|__clang__|_MSC_VER|__DBL_")
    files = [*ROOT.glob("src/core/**/*.h"), *ROOT.glob("src/core/**/*.cpp"), *ROOT.glob("tests/core/*")]
    assert [path.name for path in files if own.search(read(path))] == ["compiler.h"]
