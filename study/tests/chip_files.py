"""Where the ChIP files are on this machine, if they are."""

import os
from pathlib import Path

import pytest

from treeinner_study import chip

NEIGHBOUR = Path(__file__).resolve().parents[3] / "shared" / "chip"
CHIP_FOLDER = Path(os.environ.get(chip.ENVIRONMENT) or NEIGHBOUR)
needs_chip = pytest.mark.skipif(not CHIP_FOLDER.is_dir(), reason=f"the ChIP files are not here; set {chip.ENVIRONMENT}")
