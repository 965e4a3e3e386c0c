"""The machine and the versions that a measurement belongs to."""

import datetime
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from peers import PACKAGE_OF

EVERY = ("treeinner", "numpy", *dict.fromkeys(PACKAGE_OF.values()))


def describe():
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "shared_cores": _shared_cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: found for name in EVERY if (found := _version(name)) is not None},
        "missing": [name for name in EVERY if _version(name) is None],
    }


def _version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cpu():
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _shared_cores():
    """Whether two of the processors are threads of one core, so that two threads cannot be twice as fast."""
    files = [Path(f"/sys/devices/system/cpu/cpu{c}/topology/thread_siblings_list") for c in os.sched_getaffinity(0)]
    siblings = [f.read_text().strip() for f in files if f.exists()]
    return len(set(siblings)) < len(siblings)
