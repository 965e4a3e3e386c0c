"""The only importer of the compiled core: an Ensemble in its compiled form, and what is done to rows with it."""

from treeinner.compiled.forest import BLOCK, LOSSES, TASK_ROWS, Forest, instruction_set
from treeinner.compiled.rows import (
    FOURTHS_EXPONENTS,
    Shuffle,
    Sums,
    add_exact,
    aligned,
    apply,
    attribute,
    padded_rows,
    predict,
    task_rows,
)
from treeinner.compiled.threads import Progress, map_rows, n_threads

__all__ = [
    "BLOCK",
    "FOURTHS_EXPONENTS",
    "LOSSES",
    "TASK_ROWS",
    "Forest",
    "Progress",
    "Shuffle",
    "Sums",
    "add_exact",
    "aligned",
    "apply",
    "attribute",
    "instruction_set",
    "map_rows",
    "n_threads",
    "padded_rows",
    "predict",
    "task_rows",
]
