"""The ChIP files: from a folder, or fetched once from the paper's public repository into the user's cache.

Enhancer status of regions of the Drosophila genome and 80 measurements of each (Li et al. 2019). The study draws labels
of its own, so only the two files of features are needed; a file is used only if its SHA-256 is the known one.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import numpy as np
import pooch
from numpy.typing import NDArray

from treeinner_study.names import StudyError

__all__ = ["ENVIRONMENT", "FILES", "find_chip", "load_chip"]

ENVIRONMENT = "TREEINNER_CHIP"
SOURCE = "https://raw.githubusercontent.com/nalzok/TreeInner/main/02_enhancer/"
FILES = {
    "X_train.csv": "f398a3ab2378ad7529ceacf685e58fa1deefe3fa0b507811d72c80d283ef34a5",
    "X_test.csv": "830d873474fc4de8de2f2c88fc96ad35c1873e4296c1a3e78d4a11722dccd812",
    "y_train.csv": "18b9499af5d97903464f2c2d58c379f35cdbb735912834052a2176fca336c846",
    "y_test.csv": "d217c4e6e51c5481064d868fad02f72b12e0d71803fa4938d3098bc05f223ac7",
}
FEATURES = ("X_train.csv", "X_test.csv")
TIMEOUT = 20.0  # seconds without an answer
WHAT_TO_DO = (
    f"get {' and '.join(FEATURES)} from the folder 02_enhancer of github.com/nalzok/TreeInner and pass that folder as "
    f"--chip-dir or {ENVIRONMENT}"
)


def find_chip(folder: str | Path | None = None) -> Path:
    """Return a folder that holds the files of features, checked.

    Parameters
    ----------
    folder
        Where the user has them; None: where the variable TREEINNER_CHIP says, else they are fetched.
    """
    folder = folder or os.environ.get(ENVIRONMENT) or None
    if folder is None:
        return _fetched()
    for name in FEATURES:
        path = Path(folder) / name
        if not path.is_file():
            raise StudyError(f"{folder} does not contain {name} of the ChIP data; {WHAT_TO_DO}.")
        if hashlib.sha256(path.read_bytes()).hexdigest() != FILES[name]:
            raise StudyError(f"{path} is not the file that the paper used (its SHA-256 differs); {WHAT_TO_DO}.")
    return Path(folder).absolute()


@cache
def load_chip(folder: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the features of the training rows, (3912, 80), and of the validation rows, (3897, 80)."""
    parts = [np.loadtxt(folder / name, delimiter=",", skiprows=1)[:, 1:] for name in FEATURES]  # first: row number
    for part in parts:
        part.setflags(write=False)
    return parts[0], parts[1]


def _fetched() -> Path:
    """Fetch the files into the user's cache, unless they are there."""
    shelf = pooch.create(path=pooch.os_cache("treeinner") / "chip", base_url=SOURCE, registry=FILES)
    try:
        for name in FEATURES:
            shelf.fetch(name, downloader=pooch.HTTPDownloader(timeout=TIMEOUT))
    except (OSError, ValueError) as error:  # no network, or a file that is another one
        reason = " ".join(str(error).split()) if isinstance(error, ValueError) else type(error).__name__
        raise StudyError(f"The ChIP data could not be fetched ({reason}); {WHAT_TO_DO}.") from error
    return Path(shelf.path)
