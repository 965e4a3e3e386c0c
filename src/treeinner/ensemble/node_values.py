"""What is worked out of a model, not stored in it: at the first use of PreDecomp or total gain, once, and kept.

A reader takes what is stored, and gives its Ensemble a function that returns NodeValues for the rest. The fields in
LATE that were left out of the Ensemble's constructor come from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LATE", "UNSET", "WORKED_OUT", "NodeValues", "Params", "WorkOut"]

FloatArray = NDArray[np.float64]

LATE = ("node_value", "tree_rate", "gain", "needs", "exactness", "value_doubts")
WORKED_OUT = ("learning_rate", "reg_lambda", "reg_alpha")  # of the parameters
UNSET: Any = object()


@dataclass(frozen=True, eq=False)
class NodeValues:
    """Node values and what they rest on; None: the Ensemble has it already."""

    node_value: FloatArray  # (n_nodes, width)
    tree_rate: FloatArray | None = None  # (n_trees,)
    gain: FloatArray | None = None  # (n_nodes,)
    params: Mapping[str, Any] = field(default_factory=dict)  # names in WORKED_OUT
    needs: tuple[str, ...] = ()
    exactness: str = "exact"
    value_doubts: tuple[str, ...] = ()

    def part(self, trees: slice, nodes: slice) -> NodeValues:
        """Those of some trees; what only the other trees needed is needed no more."""
        node_value = self.node_value[nodes]
        return replace(
            self,
            node_value=node_value,
            tree_rate=None if self.tree_rate is None else self.tree_rate[trees],
            gain=None if self.gain is None else self.gain[nodes],
            needs=self.needs if np.isnan(node_value).any() else (),
        )


WorkOut = Callable[[], NodeValues]


class Params(Mapping[str, Any]):
    """Training parameters: those that are stored, and those that are worked out when they are asked for."""

    def __init__(self, stored: Mapping[str, Any], work_out: WorkOut) -> None:
        self.stored, self._work_out = stored, work_out

    def __getitem__(self, name: str) -> Any:
        if name in self.stored or name not in WORKED_OUT:
            return self.stored[name]
        return self._work_out().params[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self.stored, **self._work_out().params})

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return repr(dict(self))
