"""What the pages of the documentation show: run their Python and write what it prints and draws into them.

    python examples/doc_outputs.py README.md docs/guide/start-here.md    # these pages
    python examples/doc_outputs.py                                       # every page that shows something

A block of "text" after Python that prints shows what was printed. A picture of docs/images/guide after Python that
draws shows the last figure. XGBoost 3.2 made what is on the pages; tests/test_docs.py compares the text.
"""

import argparse
import io
import os
import re
import sys
import tempfile
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the pages' data are made by tests/doc_preludes.py

from tests.doc_preludes import PRELUDES  # noqa: E402

PART = re.compile(
    r"(?P<indent>[ \t]*)```(?P<language>python|text)\n(?P<code>.*?)(?P=indent)```"
    r"|!\[[^\]]*\]\((?P<picture>[^)]*images/guide/[\w-]+\.png)\)",
    re.DOTALL,
)


def fresh(page: Path) -> str:
    """The text of the page with what its code shows now."""
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    namespace = {"__name__": "__page__", **(PRELUDES[name]() if name in PRELUDES else {})}
    printed, pieces, end = "", [], 0
    for part in PART.finditer(text):
        pieces.append(text[end : part.start()])
        end = part.end()
        shown = part.group()
        if part["picture"] and plt.get_fignums():
            plt.gcf().savefig((page.parent / part["picture"]).resolve(), dpi=90, bbox_inches="tight")
            plt.close("all")
        elif part["language"] == "text" and printed:
            shown = f"```text\n{printed}```"
            printed = ""
        elif part["language"] == "python":
            code = compile("\n" * text[: part.start("code")].count("\n") + part["code"], str(page), "exec")
            with redirect_stdout(io.StringIO()) as out:
                exec(code, namespace)
            printed = out.getvalue()
        pieces.append(shown)
    return "".join([*pieces, text[end:]])


def main() -> None:
    """Run the pages that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, help="default: README.md and every page of docs by hand")
    asked = [page.resolve() for page in parser.parse_args().pages]
    every = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "evidence" not in page.parts]
    mpl.use("Agg")
    warnings.simplefilter("ignore")
    (ROOT / "docs" / "images" / "guide").mkdir(exist_ok=True)
    for page in asked or [ROOT / "README.md", *every]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            text = fresh(page)
            os.chdir(ROOT)
        plt.close("all")
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            print(f"wrote {page.relative_to(ROOT)}", flush=True)


if __name__ == "__main__":
    main()
