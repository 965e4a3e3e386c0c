"""What has to hold before a release: `make release-check TAG=v1.2.3`. Needs nothing but Python.

`faults` are wrong at any time, and tests/test_packaging.py looks for them; `undone` is what a release waits for.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ADDRESSES = ("Source", "Documentation", "Issues")


def project():
    """The table [project]."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def first(pattern, name):
    """The first group of a pattern's first match in a file."""
    found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    return found.group(1) if found else None


def faults():
    """Where another version, licence or name stands than in pyproject.toml."""
    about = project()
    said = {
        "CITATION.cff, version": (first(r"^version: (\S+)$", "CITATION.cff"), about["version"]),
        "CITATION.cff, license": (first(r"^license: (\S+)$", "CITATION.cff"), about["license"]),
        "CHANGELOG.md, newest version": (first(r"^## \[([^\]]+)\]", "CHANGELOG.md"), about["version"]),
        "LICENSE": (first(r"^(\w+) License", "LICENSE"), about["license"]),
    }
    return [f"{where}: {found}, not {wanted}" for where, (found, wanted) in said.items() if found != wanted]


def undone(tag):
    """What keeps the tag from being released."""
    about = project()
    out = faults()
    if tag != f"v{about['version']}":
        out.append(
            f"the tag is {tag or 'missing'}, and pyproject.toml says {about['version']}: expected v{about['version']}"
        )
    date = first(r"^## \[[^\]]+\] - (.+)$", "CHANGELOG.md") or ""
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        out.append(f"CHANGELOG.md: the newest version has no date, but {date!r}")
    out += [f"pyproject.toml: [project.urls] has no {name}" for name in ADDRESSES if name not in about.get("urls", {})]
    return out


if __name__ == "__main__":
    left = undone(sys.argv[1] if len(sys.argv) > 1 else "")
    sys.exit("\n".join(["Not to be released yet:", *left]) if left else 0)
