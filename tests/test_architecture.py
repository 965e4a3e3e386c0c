"""The house rules that a reader of the code may rely on: who imports whom, what an import costs, what is public."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import treeinner

SOURCE = Path(treeinner.__file__).parent

# A module may import modules of rows above its own, and of its own package. See docs/decisions/0001.
LAYERS = [
    {"errors"},
    {"tables", "groups", "html", "sign_flips"},
    {"inference"},
    {"compiled"},
    {"ensemble"},
    {"objectives"},
    {"options"},
    {"readers"},
    {"model"},
    {"stream"},
    {"wrapped"},
    {"attribution"},
    {"attribution_file"},
    {"scores"},
    {"selection"},
    {"plots", "explainer", "page", "dask", "spark"},
    {"cli"},
    {"files"},
    {"__init__"},
]
LAYER = {name: i for i, names in enumerate(LAYERS) for name in names}

# Where an optional library may be imported at all.
OPTIONAL = {
    "xgboost": {"readers/xgboost/__init__.py", "cli/demo.py"},
    "lightgbm": {"readers/lightgbm/__init__.py"},
    "catboost": {"readers/catboost/__init__.py"},
    "sklearn": {"cli/demo.py", "selection/default.py", "selection/selector.py"},
    "shap": {"attribution.py"},
    "dask": {"dask/__init__.py", "dask/rows.py"},
    "distributed": {"dask/__init__.py"},
    "pandas": {"dask/__init__.py"},
    "pyspark": {"spark/__init__.py", "spark/columns.py", "spark/workers.py"},
    "polars": set(),
    "pyarrow": {
        "attribution_file.py",
        "cli/data.py",
        "cli/output.py",
        "spark/workers.py",
        "tables/files.py",
        "tables/sources.py",
    },
    "typer": {
        f"cli/{m}.py" for m in ("app", "attribute", "compare", "errors", "importance", "options", "output", "select")
    },
    "rich": {"cli/screen.py"},
    "matplotlib": {"plots/_style.py", "cli/demo.py"},
}
RUNTIME = {"numpy", "narwhals", "scipy"}


def modules():
    return sorted(p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.py"))


def imports(path, *, at_import_time_only):
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

    return list(visit(ast.parse((SOURCE / path).read_text())))


def room(dotted):
    return dotted.split(".")[1] if "." in dotted else "__init__"


@pytest.mark.parametrize("path", modules())
def test_imports_go_downwards(path):
    own = path.split("/")[0].removesuffix(".py")
    assert own in LAYER, f"{own} has no place in LAYERS"
    for module, name in imports(path, at_import_time_only=False):
        if module.split(".")[0] != "treeinner":
            continue
        dotted = f"treeinner.{name}" if module == "treeinner" else module
        other = room(dotted)
        if other in {own, "_core"}:
            continue
        assert LAYER[other] < LAYER[own], f"{path} imports {dotted}"


def test_only_the_compiled_package_touches_the_core():
    for path in modules():
        names = {name for module, name in imports(path, at_import_time_only=False) if module == "treeinner"}
        assert path.startswith("compiled/") or "_core" not in names, path


@pytest.mark.parametrize("path", modules())
def test_third_party_imports(path):
    for module, _ in imports(path, at_import_time_only=False):
        top = module.split(".")[0]
        if top in OPTIONAL:
            assert path in OPTIONAL[top], f"{path} imports {top}"
        elif top != "treeinner":
            assert top in sys.stdlib_module_names or top in RUNTIME, f"{path} imports {top}"
    for module, _ in imports(path, at_import_time_only=True):
        # The commands are written with typer; only main() imports them, and says what to install if it is not there.
        command = path.startswith("cli/") and path != "cli/__init__.py" and module == "typer"
        # A selector of scikit-learn is one by its bases; nothing of ours imports it but the lazy name.
        command |= path == "selection/selector.py" and module.split(".")[0] == "sklearn"
        # Only users of a cluster import this room, and its collections are of that library.
        command |= path.startswith("dask/")
        assert command or module.split(".")[0] not in OPTIONAL, f"{path} imports {module} when it is imported"


def test_importing_treeinner_loads_no_optional_library():
    # scipy is always installed, but imported where it is used: scipy.special alone takes longer than all of treeinner
    code = "import sys, treeinner; print(*sorted(set(sys.modules) & set(sys.argv[1:])))"
    names = [*OPTIONAL, "scipy"]
    loaded = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


def test_all_is_the_public_surface():
    for name in treeinner.__all__:
        assert getattr(treeinner, name) is not None
    assert sorted(treeinner.__all__) == treeinner.__all__
    public = {name for name in vars(treeinner) if not name.startswith("_")}
    rooms = {name for names in LAYERS for name in names}
    assert public - rooms == set(treeinner.__all__) - rooms


@pytest.mark.parametrize("path", modules())
def test_all_of_every_module_exists(path):
    module = importlib.import_module(
        ".".join(["treeinner", *Path(path).with_suffix("").parts]).removesuffix(".__init__")
    )
    for name in getattr(module, "__all__", ()):
        assert hasattr(module, name), f"{path} promises {name}"


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
