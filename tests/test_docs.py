"""The documentation is true: its code runs and prints what the page shows, its links lead somewhere, and the reference
leaves no name out.

One page alone: pytest tests/test_docs.py -k quickstart
"""

import io
import re
import shlex
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import matplotlib.pyplot as plt
import pytest
import xgboost
from markdown_it import MarkdownIt
from typer.testing import CliRunner

import treeinner as ti
from tests.doc_preludes import NOT_RUN, PRELUDES
from tests.stranger import SHOWN_WITH
from treeinner.show.cli.app import app

ROOT = Path(__file__).parent.parent
TOP_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "RELEASING.md")
NOTES = sorted(
    p.relative_to(ROOT).as_posix() for folder in ("docs", "decisions") for p in (ROOT / folder).rglob("*.md")
)
PAGES = [*TOP_PAGES, *NOTES]
GALLERY = sorted((ROOT / "examples" / "gallery").glob("*.py"))

SHELLS = {"console", "sh", "bash", "shell"}
PIPE = {"|", ">", ">>", "&&", ";"}


@dataclass(frozen=True)
class Block:
    """A block of code: its language, text, and the line of its page on which the text begins, from 1."""

    language: str
    text: str
    line: int


@cache
def tokens(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    # MyST's targets "(name)=" and comments "% ..." are paragraphs to CommonMark, which does no harm here.
    return tuple(MarkdownIt("commonmark").enable("table").parse(text))


def blocks(page):
    for token in tokens(page):
        if token.type == "fence":
            yield Block(token.info.split()[0] if token.info.strip() else "", token.content, token.map[0] + 2)
        elif token.type == "code_block":
            yield Block("", token.content, token.map[0] + 1)


def commands(block):
    """Our own commands in a block of the shell, or in an indented block, as lists of arguments."""
    lines = block.text.replace("\\\n", " ").splitlines()
    for line in lines:
        typed = line.strip().removeprefix("$ ")
        words = shlex.split(typed, comments=True)
        if words[:1] == ["treeinner"]:
            end = next((i for i, word in enumerate(words) if word in PIPE), len(words))
            yield words[1:end]


def runs(page):
    """May the page hold code to run? By its text: parsing every page takes a second of each collection."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return "```python" in text or re.search(r"^\s*(\$ )?treeinner ", text, re.MULTILINE)


def _commands_of(block):
    if block.language in SHELLS or not block.language:
        yield from commands(block)


def call(arguments):
    """Run a command in this process."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, f"treeinner {shlex.join(arguments)}\n{result.output}\n{result.exception!r}"


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    yield tmp_path
    plt.close("all")


@pytest.mark.parametrize("page", [page for page in PAGES if runs(page)])
def test_code_of_the_page_runs(page, empty_folder):
    namespace = {"__name__": "__page__", **(PRELUDES[page]() if page in PRELUDES else {})}
    printed = ""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Starting a Matplotlib GUI|More than 20 figures")
        for block in blocks(page):
            if block.language == "text" and printed and xgboost.__version__.startswith(SHOWN_WITH):
                assert block.text == printed, f"{page}:{block.line}: the page does not show what its code prints"
            printed = ""
            if block.language == "python":
                # Blank lines in front, so that a traceback names the line of the page.
                code = compile("\n" * (block.line - 1) + block.text, str(ROOT / page), "exec")
                with redirect_stdout(io.StringIO()) as out:
                    exec(code, namespace)
                printed = out.getvalue()
            for arguments in _commands_of(block):
                call(arguments)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_language_that_is_run_or_known_not_to_be(page):
    for block in blocks(page):
        known = block.language in NOT_RUN | SHELLS | {"python"} or block.language.startswith("{")
        assert known, f"{page}:{block.line}: {block.language}"


def test_preludes_are_of_pages_that_are_there():
    assert set(PRELUDES) <= set(PAGES)


@pytest.mark.parametrize("example", GALLERY, ids=lambda path: path.stem)
def test_example_of_the_gallery_runs(example, empty_folder):
    exec(compile(example.read_text(encoding="utf-8"), str(example), "exec"), {"__name__": "__main__"})
    assert plt.get_fignums(), "an example of the gallery shows a picture"


def links(page):
    """(line, address) of links and pictures, of raw HTML too."""
    for token in tokens(page):
        if token.type in ("html_block", "inline"):
            raw = token.content if token.type == "html_block" else ""
            for child in token.children or ():
                address = child.attrs.get("href") or child.attrs.get("src")
                if address:
                    yield token.map[0] + 1, str(address)
                if child.type == "html_inline":
                    raw += child.content
            for address in re.findall(r'(?:href|src|srcset)="([^"]+)"', raw):
                yield token.map[0] + 1, address


@cache
def anchors(page):
    """Anchors of a page: those that GitHub and MyST make of headings, and MyST's own "(name)="."""
    found = set(re.findall(r"^\(([\w-]+)\)=$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
    previous = None
    for token in tokens(page):
        if token.type == "inline" and previous == "heading_open":
            text = "".join(c.content for c in token.children if c.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            n = 0
            while (name := slug + f"-{n}" * bool(n)) in found:
                n += 1
            found.add(name)
        previous = token.type
    return found


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for line, address in links(page):
        if re.match(r"[a-z][a-z0-9+.-]*:", address):
            continue
        path, _, anchor = unquote(address).partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        there = target.resolve().relative_to(ROOT).as_posix()
        assert target.exists(), f"{page}:{line}: {address}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(there), f"{page}:{line}: {address}; there are {sorted(anchors(there))}"


BY_HAND = [page for page in PAGES if page.startswith("docs/") and not page.startswith("docs/evidence/")]


def prose(page):
    """Paragraphs and items of lists in plain text, links by their words."""
    for token in tokens(page):
        if token.type == "inline" and not re.match(r"[|:(]|%", token.content):
            words = "".join(
                " " if c.type in ("softbreak", "hardbreak") else c.content for c in token.children if c.type != "image"
            )
            yield token.map[0] + 1, re.sub(r"\s+", " ", words).strip()


def test_no_paragraph_stands_twice():
    # Headings, cells of tables and short lines may be alike; who reads ten words again has read them once too often.
    seen = {}
    for page in ["README.md", *BY_HAND]:
        for line, text in prose(page):
            if len(text.split()) >= 10:
                assert text not in seen, f"{page}:{line} says what {seen[text]} says: {text[:80]}"
                seen[text] = f"{page}:{line}"


def test_the_readme_is_short_and_plain():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) < 600
    cells = {cell.content for cell in tokens("README.md") if cell.type == "inline" and cell.level > 3}
    for line, paragraph in prose("README.md"):
        for sentence in re.split(r"(?<=[.?!:])\s", paragraph):
            assert paragraph in cells or len(sentence.split()) <= 30, f"README.md:{line}: {sentence}"


def test_pages_by_hand_have_so_many_words_at_most():
    assert sum(len((ROOT / page).read_text(encoding="utf-8").split()) for page in BY_HAND) <= 34_000


@pytest.mark.parametrize("page", PAGES)
def test_no_page_names_a_place_on_the_machine_that_made_it(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|Users|tmp|work|opt)/\w|file://", text)


def test_requests_name_tests_that_are_there():
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?` \|", (ROOT / "docs" / "requests.md").read_text(encoding="utf-8"))
    assert len(named) >= 25
    for path, name in named:
        assert f"def {name}" in (ROOT / "tests" / path).read_text(encoding="utf-8"), f"{path}::{name}"


def documented():
    """Names with an entry in the reference."""
    text = "\n".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "docs" / "api").glob("*.md")))
    return set(re.findall(r"^\.\. auto\w+:: (treeinner[\w.]*)", text, re.MULTILINE))


def test_the_reference_has_every_public_name():
    public = {f"treeinner.{name}" for name in ti.__all__} | {f"treeinner.plots.{name}" for name in ti.plots.__all__}
    assert public - {"treeinner.plots"} <= documented()
