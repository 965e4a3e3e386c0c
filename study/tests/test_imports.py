"""The study is a user of treeinner: public names only, and all of its calls in one module."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import treeinner
import treeinner_study

SOURCE = Path(treeinner_study.__file__).parent
OTHERS = {("treeinner.kernels", "instruction_set")}  # recorded with the results
MODULES = sorted(p.name for p in SOURCE.glob("*.py"))


def tree(name):
    return ast.parse((SOURCE / name).read_text(encoding="utf-8"))


def treeinner_imports(name):
    """(module, imported name, name in the file) of every import from treeinner."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "treeinner":
                    yield alias.name, None, alias.asname or alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module.split(".")[0] == "treeinner":
                for alias in node.names:
                    yield node.module, alias.name, alias.asname or alias.name


@pytest.mark.parametrize("name", MODULES)
def test_only_public_names_of_treeinner(name):
    found = list(treeinner_imports(name))
    assert not found or name == "scores.py", f"{name} imports treeinner; its calls belong in scores.py"
    here = set()
    for module, imported, alias in found:
        if (module, imported) in OTHERS:
            continue
        assert module == "treeinner", f"{name} imports {module}"
        assert imported is None or imported in treeinner.__all__, f"{name} imports {imported}"
        here |= {alias} if imported is None else set()
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in here:
            assert node.attr in treeinner.__all__, f"{name} uses treeinner.{node.attr}"


@pytest.mark.parametrize("name", MODULES)
def test_no_private_attributes(name):
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            own = isinstance(node.value, ast.Name) and node.value.id in {"self", "os"}
            named_tuple = node.attr in {"_asdict", "_make"}
            assert own or named_tuple, f"{name}:{node.lineno} uses {node.attr}"


def test_scores_does_use_treeinner():
    assert list(treeinner_imports("scores.py"))


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith("__")])
def test_all_exists(name):
    module = import_module(f"treeinner_study.{name.removesuffix('.py')}")
    for public in module.__all__:
        assert hasattr(module, public), f"{name} has no {public}"
