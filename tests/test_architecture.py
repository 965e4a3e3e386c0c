"""The house rules that a reader of the code may rely on: who imports whom, what an import costs, what is public."""

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import treeinner as ti

SOURCE = Path(ti.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"
SHOWN = {  # results print and draw themselves
    "score/result.py", "score/compare.py", "explain/attribute.py", "explain/explainer.py", "read/model.py",
    "select/selector.py",
}  # fmt: skip

# Where an optional library may be imported at all.
OPTIONAL = {
    "xgboost": {"read/xgboost.py"},
    "lightgbm": {"read/lightgbm.py"},
    "catboost": {"read/catboost.py"},
    "sklearn": {"read/sklearn.py", "score/shift.py", "select/"},
    "shap": {"explain/attribute.py"},
    "dask": {"dask.py"},
    "distributed": {"dask.py"},
    "pandas": {"read/catboost.py", "rows/segments.py", "dask.py", "show/cli/"},  # CatBoost takes no others; periods
    "pyspark": {"spark.py"},
    "polars": set(),
    "pyarrow": {"rows/stream.py", "spark.py", "show/cli/"},
    "tqdm": {"kernels/threads.py"},
    "typer": {"show/cli/"},
    "rich": set(),
    "matplotlib": {"show/plots/"},
}
RUNTIME = {"numpy", "narwhals", "scipy"}


def layers():
    """Folder or module -> its layer, as the page has it."""
    block = re.search(r"## Layers.*?```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S).group(1)
    lines = [line.split() for line in block.splitlines()]
    return {name: int(number) for number, *names in lines for name in names}


def modules():
    """Every module of the package, as a path."""
    return sorted(p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.py"))


def imports(path, *, at_import_time_only=False):
    """(module, name) pairs that a file imports; blocks under TYPE_CHECKING do not count."""

    def visit(node):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if at_import_time_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((node.module, alias.name) for alias in node.names)
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    return list(visit(ast.parse((SOURCE / path).read_text(encoding="utf-8"))))


@pytest.mark.parametrize("path", modules())
def test_imports_go_downwards(path):
    layer = layers()
    own = path.split("/")[0].removesuffix(".py")
    for module, name in imports(path):
        if module.split(".")[0] != "treeinner":
            continue
        dotted = f"treeinner.{name}" if module == "treeinner" else module
        other = dotted.split(".")[1] if "." in dotted else "__init__"
        if other in {own, "_core"} or (other == "show" and path in SHOWN):
            continue
        assert layer[other] < layer[own], f"{path} imports {dotted}"


def test_only_the_kernels_touch_the_core():
    for path in modules():
        names = {name for module, name in imports(path) if module == "treeinner"}
        assert path.startswith("kernels/") or "_core" not in names, path


@pytest.mark.parametrize("path", modules())
def test_third_party_imports(path):
    for module, _ in imports(path):
        top = module.split(".")[0]
        if top in OPTIONAL:
            assert any(path.startswith(where) for where in OPTIONAL[top]), f"{path} imports {top}"
        elif top != "treeinner":
            assert top in sys.stdlib_module_names or top in RUNTIME, f"{path} imports {top}"


def test_importing_treeinner_loads_no_optional_library():
    # scipy is always installed, but imported where it is used: scipy.special alone takes longer than all of treeinner
    code = "import sys, treeinner; print(*sorted(set(sys.modules) & set(sys.argv[1:])))"
    names = [*OPTIONAL, "scipy"]
    loaded = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


def test_dir_shows_the_public_names_and_no_others():
    shown = {name for name in dir(ti) if not name.startswith("_")}
    assert shown == set(ti.__all__)
    assert sorted(ti.__all__) == ti.__all__
    for name in ti.__all__:
        assert getattr(ti, name) is not None


@pytest.mark.parametrize("path", modules())
def test_all_of_every_module_exists(path):
    if path in ("dask.py", "spark.py"):
        pytest.importorskip("dask" if path == "dask.py" else "pyspark")
    name = ".".join(["treeinner", *Path(path).with_suffix("").parts]).removesuffix(".__init__")
    module = importlib.import_module(name) if not name.endswith("__main__") else None
    for each in getattr(module, "__all__", ()):
        assert hasattr(module, each), f"{path} promises {each}"


# -- the path of one call ------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def walk():
    """(files in the order of first visit, named functions, calls of some functions) of ti.importance(model, X, y)."""
    pd, xgb = pytest.importorskip("pandas"), pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 6)), columns=list("abcdef"))
    y = X["a"] + rng.normal(size=300)
    model = xgb.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1).fit(X[:150], y[:150])
    ti.importance(model, X[150:], y[150:], n_jobs=1)  # lazy imports, compiled tables
    files, functions, calls = {}, set(), []

    def profile(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)) and not code.co_name.startswith("<"):
            name = os.path.relpath(code.co_filename, SOURCE).replace(os.sep, "/")
            files.setdefault(name)
            functions.add((name, code.co_qualname))
            calls.append((name, code.co_qualname))

    sys.setprofile(profile)
    try:
        ti.importance(model, X[150:], y[150:], n_jobs=1)
    finally:
        sys.setprofile(None)
    return list(files), functions, calls


def test_one_call_can_be_followed(walk):
    files, functions, _ = walk
    assert len(files) <= 32
    assert len(functions) <= 190


def test_folders_are_entered_in_the_order_of_the_path(walk):
    folders = list(dict.fromkeys(name.split("/")[0] for name in walk[0] if name != "score/importance.py"))
    path = ["read", "rows", "losses", "kernels", "score"]
    assert [folder for folder in folders if folder in path] == path


def test_model_rows_and_forest_are_made_once(walk):
    calls = walk[2]
    for once in (("read/xgboost.py", "read"), ("rows/rows.py", "one_batch"), ("kernels/forest.py", "Forest.__init__")):
        assert calls.count(once) == 1, once


# -- the tests themselves -----------------------------------------------------------------------------------------
TESTS = Path(__file__).parent


def calls_at_import(tree):
    """Names of the functions and methods that importing a file calls: bodies of functions and lambdas do not count."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for outside in (*node.decorator_list, *node.args.defaults):
                yield from calls_at_import(ast.Expression(outside))
        elif not isinstance(node, ast.Lambda):
            if isinstance(node, ast.Call):
                yield getattr(node.func, "attr", getattr(node.func, "id", ""))
            yield from calls_at_import(node)


@pytest.mark.parametrize("path", sorted(p.relative_to(TESTS).as_posix() for p in TESTS.rglob("*.py")))
def test_no_test_file_trains_or_reads_a_model_when_it_is_imported(path):
    """Collecting the tests must stay quick: see models.py."""
    called = set(calls_at_import(ast.parse((TESTS / path).read_text(encoding="utf-8"))))
    assert called.isdisjoint({"fit", "train", "read_model", "importance", "attribute"})
