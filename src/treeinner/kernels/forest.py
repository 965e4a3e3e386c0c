"""Trees in their compiled form."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner import _core
from treeinner.kernels.binning import plan
from treeinner.kernels.quadrature import quadrature

if TYPE_CHECKING:
    from treeinner.read.trees import Trees

__all__ = [
    "BLOCK", "INSTRUCTION_SETS", "LOSSES", "Forest", "aligned", "instruction_set", "leaf_ranges", "padded_rows",
    "use_instruction_set",
]  # fmt: skip

# The position is the number that core/kernels/bin.h knows the type by; a bool is a byte.
_DTYPE_CODE = {np.dtype(t): i for i, t in enumerate(("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"))}
_DTYPE_CODE[np.dtype(bool)] = _DTYPE_CODE[np.dtype("u1")]

BLOCK = 64  # rows that go down a tree together
TASK_ROWS = 4096  # rows of one task at most
TASK_BYTES = 1 << 23  # of sums that one task holds at most
instruction_set = _core.instruction_set  # () -> name of the one in use: "baseline", "avx2", "avx512" or "neon"
INSTRUCTION_SETS: tuple[str, ...] = tuple(_core.instruction_sets())  # that this machine can run, slowest first

# Losses whose gradients the core computes, by their number in the core.
LOSSES = {"squared": 0, "logistic": 1, "poisson": 2, "softmax": 3}


def use_instruction_set(name: str) -> None:
    """Switch to another instruction set; for tests and the environment variable."""
    if name not in INSTRUCTION_SETS:
        raise ValueError(f"This machine cannot run the instruction set {name!r}; it has {', '.join(INSTRUCTION_SETS)}.")
    _core.use_instruction_set(name)


if os.environ.get("TREEINNER_ISA"):
    use_instruction_set(os.environ["TREEINNER_ISA"])


def aligned(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Zeros at an address that is a multiple of 64, as the vector loads need."""
    size = int(np.prod(shape))
    buffer = np.zeros(size + 8)
    offset = -buffer.ctypes.data % 64 // 8
    return buffer[offset : offset + size].reshape(shape)


def padded_rows(n_rows: int) -> int:
    """Rows rounded up to whole blocks."""
    return -(-n_rows // BLOCK) * BLOCK


class Forest:
    """Trees in their compiled form."""

    def __init__(self, e: Trees) -> None:
        self.n_trees, self.n_outputs, self.n_players = e.n_trees, e.n_outputs, len(e.player_features)
        planned = plan(e)
        self.n_planes, self.code_dtype = len(planned.planes), np.dtype(f"u{planned.code_bytes}")
        self.plane_column = planned.planes[:, 0]
        nodes = (e.left, e.right, planned.node_plane, planned.node_cut, planned.node_set, e.player)
        self.core = _core.Forest(e, planned, np.stack(nodes, axis=1), self.n_players)
        # Node of the trees by the core's number: each tree's splits in pre-order, then its leaves.
        self.numbered = np.empty(e.n_nodes, np.int32)
        self.core.numbered(self.numbered)
        inner = e.column >= 0
        self.first_split = np.concatenate([[0], np.cumsum(inner)])[e.start]
        self.first_leaf = e.start - self.first_split
        self.split_nodes = self.numbered[inner[self.numbered]]
        self.leaf_nodes = self.numbered[~inner[self.numbered]]
        self.leaf_id = e.leaf_id[self.leaf_nodes]  # of each leaf, in the library's own count
        self.split_player = e.player[self.split_nodes]

        self._cover = e.cover
        self._lock = threading.Lock()
        self.cache: dict[Any, Any] = {}  # what callers work out of the model alone, once for all their calls
        # Tasks depend on the model alone, so that they do not depend on the number of threads.
        rows = TASK_BYTES // (8 * max(1, self.n_players * self.n_outputs))
        self.task_rows = min(TASK_ROWS, max(BLOCK, rows // BLOCK * BLOCK))

    def shap_table(self) -> Any:
        """What TreeSHAP needs besides the trees, made at the first call and never changed."""
        with self._lock:
            if "shap" not in self.cache:
                self.cache["shap"] = self.core.shap_table(self._cover[self.numbered], quadrature)
            return self.cache["shap"]

    def path_table(self, node_value: NDArray[np.float64]) -> _core.PathTable:
        """Path attribution by these node values, (n_nodes, width), compiled."""
        return self.core.path_table(np.ascontiguousarray(node_value[self.numbered]), False)

    def bin(self, block: NDArray[Any] | Sequence[NDArray[Any]]) -> Any:
        """Codes of a block of rows; `block` as `Table.block` gives it."""
        # Address, stride in bytes and type of each column.
        if isinstance(block, np.ndarray):
            n_rows, n_columns = block.shape
            values = np.empty((n_columns, 3), np.int64)
            values[:, 0] = block.ctypes.data + np.arange(n_columns) * block.strides[1]
            values[:, 1:] = block.strides[0], _DTYPE_CODE[block.dtype]
        else:
            n_rows = len(block[0]) if block else 0
            columns = [(column.ctypes.data, column.strides[0], _DTYPE_CODE[column.dtype]) for column in block]
            values = np.array(columns, np.int64).reshape(-1, 3)
        return self.core.bin(values, n_rows)

    def blocks(self, codes: _core.Codes) -> NDArray[Any]:
        """View codes as (blocks, planes, 64)."""
        return codes.bytes().view(self.code_dtype).reshape(-(-codes.n_rows // BLOCK), self.n_planes, BLOCK)


def leaf_ranges(e: Trees) -> NDArray[np.int64]:
    """Leaves below every split: the first, the first on its right side, and the end; (splits, 3).

    In the order of their numbers the leaves below a node follow one another.
    """
    forest = e.forest
    if "leaf ranges" not in forest.cache:
        leaves, first = (e.column < 0).astype(np.int64), np.zeros(e.n_nodes, np.int64)
        for node, left, right in e.upwards:
            leaves[node] = leaves[left] + leaves[right]
        first[e.start[:-1]] = forest.first_leaf[:-1]
        for node, left, right in reversed(e.upwards):
            first[left], first[right] = first[node], first[node] + leaves[left]
        split = forest.split_nodes
        ranges = (first[split], first[e.right[split]], first[split] + leaves[split])
        forest.cache["leaf ranges"] = np.stack(ranges, axis=1)
    found: NDArray[np.int64] = forest.cache["leaf ranges"]
    return found
