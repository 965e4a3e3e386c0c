"""The example of the first page with the installed package: `make wheel` runs this in an environment with nothing else.

Not a test of pytest, which is not there. Needs XGBoost, scikit-learn and Matplotlib, as the page does.
"""

import sys

sys.path.pop(0)  # this folder: its `select` would hide Python's own

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "index.md"
# A block of "text" after code that prints is what it prints with this XGBoost. Another one may sample other rows.
SHOWN_WITH = "3.2."


def main():
    """Run the page's code, show what it prints, and compare it with what the page shows."""
    import matplotlib

    matplotlib.use("Agg")
    import xgboost

    import treeinner as ti
    from treeinner.kernels import instruction_set

    where = Path(ti.__file__).resolve().parent
    if PAGE.parent.parent / "src" in where.parents:
        sys.exit(f"treeinner is the repository's own, {where}, not an installed one")
    code, shown = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S).groups()
    with redirect_stdout(io.StringIO()) as out:
        exec(compile(code, str(PAGE), "exec"), {"__name__": "__main__"})
    print(out.getvalue())
    same = out.getvalue() == shown
    if xgboost.__version__.startswith(SHOWN_WITH) and not same:
        sys.exit(f"docs/index.md shows something else:\n{shown}")
    compared = "the same as the page" if same else "not compared with the page"
    print(f"treeinner {ti.__version__}, {instruction_set()}, XGBoost {xgboost.__version__}: {compared}")


if __name__ == "__main__":
    main()
