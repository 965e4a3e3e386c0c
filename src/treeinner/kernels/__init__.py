"""The compiled core as the package uses it; the only importer of `treeinner._core`.

    forest      Trees in their compiled form, and the tables that methods need, made at their first use
    binning     values -> small integers
    rows        what is done to rows: predict, apply, attribute, shuffle, add exactly
    threads     the one place that starts threads

Belongs here: arrays in the core's layout, threads. Does not: what a user typed, losses, statistics.
"""

from treeinner.kernels.forest import BLOCK, LOSSES, Forest, aligned, instruction_set, leaf_ranges, padded_rows
from treeinner.kernels.rows import PlayerSums, Shuffle, add_exact, apply, attribute, by_task, predict, task_rows
from treeinner.kernels.threads import Progress, heard, map_rows

__all__ = [
    "BLOCK", "LOSSES", "Forest", "PlayerSums", "Progress", "Shuffle", "add_exact", "aligned", "apply", "attribute",
    "by_task", "heard", "instruction_set", "leaf_ranges", "map_rows", "padded_rows", "predict", "task_rows",
]  # fmt: skip
