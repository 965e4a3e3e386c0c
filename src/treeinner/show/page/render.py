"""Data into the page."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

# What report() does when it is not told otherwise; the call on the page leaves these out.
DEFAULTS: dict[str, Any] = {
    "score": "signal", "method": "centred", "explorer_rows": 0, "random_state": 0,
}  # fmt: skip


def render(data: Mapping[str, Any]) -> str:
    """Fill the template. Names reach the page only as JSON, and the DOM only as text."""
    style, script = _file("style.css"), _file("page.js")
    parts = {
        "title": html.escape(str(data["title"])).encode("ascii", "xmlcharrefreplace").decode("ascii"),
        "policy": _policy(style, script),
        "style": style,
        "script": script,
        "data": as_json(data),
    }
    # One pass over the template: a title that looks like a placeholder stays a title.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _file("template.html"))


def as_json(data: Any) -> str:
    """JSON that cannot end the script block it stands in, nor begin a comment there."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def call_text(path: Path, *, arrays: Mapping[str, Any], plain: Mapping[str, Any]) -> str:
    """Python that writes this page again; tables go by the names of their arguments."""
    arguments = [f"{name}={name}" for name, array in arrays.items() if array is not None]
    arguments.append(f"path={path.name!r}")
    for name, given in plain.items():
        value = given.item() if hasattr(given, "item") else given  # a numpy number
        if value is not None and value != DEFAULTS.get(name):
            arguments.append(f"{name}={value!r}" if isinstance(value, str | int | dict) else f"{name}={name}")
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f"import treeinner as ti\n\nti.report(\n    model, X, y,\n{lines})\n"


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded from anywhere, and no other script or style may run."""
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    """Hash of a script or style as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _file(name: str) -> str:
    """Text of a file beside this one."""
    return files("treeinner.show.page").joinpath(name).read_text(encoding="utf-8")
