"""The command line `treeinner`: read files, call the public functions, write files.

    app         the commands; importance, attribute, compare, report, select, demo have a file each
    options     what commands share; data: what they read; output, screen: what they write; errors

Belongs here: file names, columns, terminals. Does not: anything that a user of the library would want too.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

__all__ = ["main"]

NEEDED = ("typer", "rich", "pyarrow")


def main() -> None:
    """Run the command line; it lives in an extra, so that `import treeinner` stays light."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.exit(
            f"Error: the command line needs {' and '.join(missing)}, not installed here; "
            "install it with: pip install 'treeinner[cli]'"
        )
    from treeinner.cli.app import run

    run()
