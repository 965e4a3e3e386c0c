"""Files that only CatBoost can load are loaded by another process first.

On a damaged file CatBoost may crash, or never return, and takes along the process that it runs in. So a process of its
own loads the file and sends a few rows through it; where that one dies, the user gets an error and keeps the session.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from treeinner.errors import ModelError, limit

__all__ = ["require_survivor"]

SECONDS = 60  # of processor time: TREEINNER_CATBOOST_SECONDS; a model of 100 MB loads in less than a second
PATIENCE = 10  # so many times as long by the clock: a busy machine is no damage

# Its arguments are the path, the format and the seconds. What CatBoost says of the file is on stdout, in UTF-8.
LIMITS = """
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[3]), int(sys.argv[3]) + 1))
except (ImportError, ValueError, OSError):  # on Windows there is the clock alone
    pass
"""
LOAD = """
import catboost
model = catboost.CatBoost()
try:
    model.load_model(sys.argv[1], format=sys.argv[2])
except catboost.CatBoostError as error:
    sys.stdout.buffer.write(str(error).encode(errors="replace"))
    sys.exit(3)
categories = set(model.get_cat_feature_indices())
rows = [[text if i in categories else number for i in range(len(model.feature_names_))]
        for text, number in (("0", 0.0), ("", 1e30), ("a", -1e30), ("nan", float("nan")))]
try:
    model.calc_leaf_indexes(rows, thread_count=1)
except catboost.CatBoostError:
    pass
"""
REFUSED = 3

_survivors: set[str] = set()  # hashes of contents that CatBoost has loaded


def require_survivor(path: Path, format: str) -> None:
    """Raise ModelError if CatBoost does not survive this file, or does not take it; asked once for each content."""
    content = hashlib.sha256(path.read_bytes()).hexdigest()
    # A frozen application cannot start a Python: sys.executable is the application itself.
    if content in _survivors or getattr(sys, "frozen", False) or not sys.executable:
        return
    seconds = limit("TREEINNER_CATBOOST_SECONDS", SECONDS)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", "-c", LIMITS + LOAD, os.fspath(path), format, str(seconds)]
    too_long = ModelError(
        f"CatBoost did not load {path} within {seconds} seconds, in a process that was then stopped: the file is "
        "damaged, or very large. Set the environment variable TREEINNER_CATBOOST_SECONDS to allow more."
    )
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE * seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise too_long from None
    if done.returncode < 0 and -done.returncode == getattr(signal, "SIGXCPU", None):
        raise too_long
    if done.returncode == REFUSED:
        raise ModelError(f"CatBoost cannot load {path}: {done.stdout.decode(errors='replace')}")
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:200]
        raise ModelError(
            f"CatBoost crashed on {path}, in a process of its own (exit code {done.returncode}{': ' * bool(last)}{last}"
            "): the file is damaged. Save the model again."
        )
    _survivors.add(content)
