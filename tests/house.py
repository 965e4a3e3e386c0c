"""The size of the house: `make check` prints the table and fails above a limit. Nothing but an issue raises a limit.

Code lines are lines that hold a statement: no blank line, no comment, no docstring.
"""

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {
    "src/treeinner": 11_900, "src/core": 3_250, "tests": 14_500, "files": 100, "classes": 66, "words of docs": 34_000,
}  # fmt: skip
BUDGET = {  # code lines by folder
    "(root)": 140, "read": 2_480, "rows": 880, "losses": 1_170, "kernels": 480, "score": 2_800, "explain": 345,
    "select": 1_255, "show": 1_980, "dask.py and spark.py": 370,
}  # fmt: skip
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text):
    """Number of lines of Python that hold a statement."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines.difference_update(range(first.lineno, first.end_lineno + 1))
    return len(lines)


def cpp_lines(text):
    """Number of lines of C++ that are neither blank nor comments."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


def counted():
    """(code lines by folder of the package, what the limits are about)."""
    package = ROOT / "src/treeinner"
    folders, files, classes = dict.fromkeys(BUDGET, 0), 0, 0
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        own = path.relative_to(package).parts[0] if path.parent != package else "(root)"
        own = "dask.py and spark.py" if path.name in ("dask.py", "spark.py") else own
        folders[own] = folders.get(own, 0) + code_lines(text)
        files += 1
        classes += sum(isinstance(node, ast.ClassDef) for node in ast.walk(ast.parse(text)))
    by_hand = [path for path in (ROOT / "docs").rglob("*.md") if "evidence" not in path.parts]
    core = [path for path in (ROOT / "src/core").rglob("*") if path.suffix in (".h", ".cpp")]
    found = {
        "src/treeinner": sum(folders.values()),
        "src/core": sum(cpp_lines(path.read_text(encoding="utf-8")) for path in core),
        "tests": sum(code_lines(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("*.py")),
        "files": files,
        "classes": classes,
        "words of docs": sum(len(path.read_text(encoding="utf-8").split()) for path in by_hand),
    }
    return folders, found


def main():
    """Print both tables; the exit status is 1 above a limit."""
    folders, found = counted()
    print(f"{'folder':<24}{'code lines':>12}{'budget':>10}")
    for name, lines in folders.items():
        print(f"{name:<24}{lines:>12,}{BUDGET.get(name, 0):>10,}")
    print(f"{'':<24}{'found':>12}{'limit':>10}")
    for name, limit in LIMITS.items():
        print(f"{name:<24}{found[name]:>12,}{limit:>10,}{'  above the limit' if found[name] > limit else ''}")
    return any(found[name] > limit for name, limit in LIMITS.items())


if __name__ == "__main__":
    sys.exit(main())
