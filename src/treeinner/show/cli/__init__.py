"""The command line `treeinner`: read files, call the public functions, print and write what they return.

    app         the commands
    files       what they read and write, and what they say

Belongs here: file names, columns, terminals. Does not: anything that a user of the library would want too.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from importlib.util import find_spec

__all__ = ["main"]


def main() -> None:
    """Run the command line on sys.argv; it is an extra, so that `import treeinner` stays light."""
    missing = [name for name in ("typer", "pyarrow") if find_spec(name) is None]
    if missing:
        sys.exit(f"The command line needs {' and '.join(missing)}; install it with: pip install 'treeinner[cli]'")
    from treeinner.show.cli.app import run

    code = run(sys.argv[1:])
    if (loky := sys.modules.get("joblib.externals.loky")) is not None:  # its workers would keep our pipes open
        loky.get_reusable_executor().shutdown(wait=True)
        atexit._run_exitfuncs()  # joblib removes its folder
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader closed the pipe
            stream.flush()
    os._exit(code)  # at once: Arrow's thread pools sometimes abort while they are torn down (apache/arrow#34314)
