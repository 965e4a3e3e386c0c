"""Run test_live.py in an environment per cell of cells.toml; write versions.json and versions.md in docs/evidence.

    python tests/matrix/run.py                       # every cell whose Python is here
    python tests/matrix/run.py oldest "newest*"      # some, by name
    python tests/matrix/run.py --python 3.14=/path/to/python3.14
    python tests/matrix/run.py --page                # the page from the stored results alone

Needs uv (group `matrix` of pyproject.toml). Environments are removed after use unless --keep is given.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "matrix"
RESULTS, PAGE = ROOT / "docs" / "evidence" / "versions.json", ROOT / "docs" / "evidence" / "versions.md"
LIBRARIES = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "catboost": "CatBoost", "scikit-learn": "scikit-learn"}
TABLES = ("numpy", "scipy", "narwhals", "pandas", "polars", "pyarrow")
UV = (sys.executable, "-m", "uv", "--quiet")


def main() -> None:
    """Run what the command line asks for."""
    arguments = _arguments()
    cells = tomllib.loads((HERE / "cells.toml").read_text(encoding="utf-8"))["cell"]
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    told = dict(pair.split("=", 1) for pair in arguments.python)
    chosen = [cell for cell in cells if any(fnmatch(cell["name"], name) for name in arguments.cells or ["*"])]
    failed = []
    for cell in [] if arguments.page else chosen:
        python = _interpreter(cell["python"], told)
        if python is None:
            print(f"{cell['name']}: not run: no Python {cell['python']} here; pass --python {cell['python']}=PATH")
            continue
        result = _measure(cell, python, _wheel(cell["python"], told), keep=arguments.keep)
        print(f"{cell['name']}: {_outcome(result)}", flush=True)
        failed += [cell["name"]] if result["failures"] else []
        stored[cell["name"]] = result
        ordered = {one["name"]: stored[one["name"]] for one in cells if one["name"] in stored}
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(cells, stored), encoding="utf-8")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="*", help="names of cells, * for any text; all of them if none is given")
    parser.add_argument("--python", action="append", default=[], metavar="X.Y=PATH", help="where a Python is")
    parser.add_argument("--keep", action="store_true", help="leave the environments in build/matrix")
    parser.add_argument("--page", action="store_true", help="only write the page from the stored results")
    return parser.parse_args()


# -- environments --------------------------------------------------------------------------------------------
def _interpreter(version: str, told: dict[str, str]) -> str | None:
    """Path of a Python; None if there is none that runs."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for path in (told.get(version), shutil.which(f"python{version}"), *map(str, reversed(pyenv))):
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return path
    return None


_wheels: dict[str, Path] = {}  # by the Python they were built with


def _wheel(version: str, told: dict[str, str]) -> Path:
    """The wheel for a Python, built at its first use; one of the stable ABI serves 3.12 and later."""
    built_with = version if version == "3.11" else "3.12"
    python = _interpreter(built_with, told) or _interpreter(version, told)
    if built_with not in _wheels:
        out = BUILD / "wheels" / built_with
        shutil.rmtree(out, ignore_errors=True)
        build_dir = f"build-dir={BUILD}/cmake-{{wheel_tag}}"
        _run(*UV, "build", "--wheel", "--python", python, "--out-dir", out, "-C", build_dir, ROOT)
        (_wheels[built_with],) = out.glob("*.whl")
    return _wheels[built_with]


def _requirements(cell: dict) -> list[str]:
    wanted = []
    for name, version in (cell["libraries"] | cell["tables"]).items():
        package = name
        if name == "xgboost" and (version == "*" or int(version.split(".")[0]) >= 3):
            package = "xgboost-cpu"  # the same without 300 MB of GPU libraries
        wanted += [] if not version else [package] if version == "*" else [f"{package}=={version}"]
    return wanted


def _measure(cell: dict, python: str, wheel: Path, *, keep: bool) -> dict:
    """Make the environment of a cell, run the tests in it, and say what came out."""
    place = BUILD / "cells" / cell["name"].replace(" ", "-").replace(",", "")
    shutil.rmtree(place, ignore_errors=True)
    _run(*UV, "venv", "--python", python, place)
    inside = place / "bin" / "python"
    _run(*UV, "pip", "install", "--python", inside, wheel, "pytest", *_requirements(cell))
    report = place / "report.xml"
    # Neither the settings nor the conftest.py of the repository, which need what is not installed here.
    options = ("-q", "-c", os.devnull, "--rootdir", HERE, "--confcutdir", HERE, "--import-mode=importlib")
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with (BUILD / f"{place.name}.log").open("w", encoding="utf-8") as log:
        subprocess.run(
            [inside, "-m", "pytest", *options, "-p", "no:cacheprovider", f"--junitxml={report}", HERE / "test_live.py"],
            cwd=place, env=os.environ | threads, stdout=log, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": _run(inside, "-c", "import platform; print(platform.python_version())").strip(),
        "versions": _versions(inside),
        **_counts(report),
    }
    if not keep:
        shutil.rmtree(place)
    return result


def _versions(python: Path) -> dict[str, str]:
    listed = json.loads(_run(*UV, "pip", "list", "--python", python, "--format", "json"))
    found = {package["name"].removesuffix("-cpu"): package["version"] for package in listed}
    return {name: found[name] for name in ("treeinner", *LIBRARIES, *TABLES) if name in found}


def _counts(report: Path) -> dict:
    """Tests that passed, failures by name, skips by reason."""
    if not report.exists():
        return {"passed": 0, "failures": ["the tests did not run"], "skipped": {}, "seconds": 0}
    cases = list(ElementTree.parse(report).iter("testcase"))
    failures = [
        case.get("name") for case in cases if case.find("failure") is not None or case.find("error") is not None
    ]
    skips = [case.find("skipped").get("message") for case in cases if case.find("skipped") is not None]
    return {
        "passed": len(cases) - len(failures) - len(skips),
        "failures": failures,
        "skipped": dict(Counter(skips).most_common()),
        "seconds": round(sum(float(case.get("time", 0)) for case in cases)),
    }


def _run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


# -- the page ------------------------------------------------------------------------------------------------
def _outcome(result: dict) -> str:
    skipped = sum(result["skipped"].values())
    return f"{result['passed']} passed, {len(result['failures'])} failed, {skipped} skipped"


def page(cells: list[dict], stored: dict) -> str:
    measured = {cell["name"]: stored[cell["name"]] for cell in cells if cell["name"] in stored}
    dates = sorted({result["date"] for result in measured.values()})
    lines = []
    if dates:
        span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        lines += [f"Measured on {span} on Linux, x86-64.\n"]
    for title, names in (("Models", LIBRARIES), ("Tables", dict(zip(TABLES, TABLES, strict=True)))):
        lines += [f"## {title}\n"]
        lines += [f"| cell | Python | {' | '.join(names.values())} | passed | failed | skipped |"]
        lines += [f"|---|---|{'---|' * (len(names) + 3)}"]
        for name, result in measured.items():
            versions = " | ".join(result["versions"].get(library, "-") for library in names)
            counts = f"{result['passed']} | {len(result['failures'])} | {sum(result['skipped'].values())}"
            lines += [f"| {name} | {result['python']} | {versions} | {counts} |"]
        lines += [""]
    lines += ["## Skipped and failed\n"]
    reasons = Counter()
    for result in measured.values():
        reasons.update({_reason(reason): count for reason, count in result["skipped"].items()})
    lines += [f"- skipped, {count} in all: {reason}" for reason, count in reasons.most_common()]
    lines += [f"- failed in *{name}*: `{one}`" for name, result in measured.items() for one in result["failures"]]
    absent = [cell for cell in cells if cell["name"] not in stored]
    lines += [f"- *{cell['name']}* was not measured: no Python {cell['python']} there" for cell in absent]
    return (HERE / "page.md").read_text(encoding="utf-8").replace("{tables}", "\n".join(lines))


def _reason(message: str) -> str:
    """A reason for skipping without the words of pytest around it."""
    absent = message.removeprefix("could not import ")
    return message if absent == message else f"{absent.split(':')[0].strip(chr(39))} is not installed"


if __name__ == "__main__":
    main()
