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

import numpy as np

from treeinner.show.page import numbers


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
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=numbers.plain)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def call_text(path: Path, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Python that writes this page again; tables go by the names of their arguments."""
    arguments = [f"path={path.name!r}"]
    for name, default in defaults.items():
        value = given[name].item() if isinstance(given[name], np.generic) else given[name]
        plain = isinstance(value, str | int | dict)
        if value is not None and not (plain and value == default):
            arguments.append(f"{name}={value!r}" if plain else f"{name}={name}")
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f"import treeinner as ti\n\nti.report(\n    model, X, y,\n{lines})\n"


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded from anywhere, and no other script or style may run."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    return (
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; "
        "form-action 'none'".format(*hashes)
    )


def _file(name: str) -> str:
    """Text of a file beside this one."""
    return files("treeinner.show.page").joinpath(name).read_text(encoding="utf-8")
