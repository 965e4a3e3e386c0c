"""What a page is about: the model, what the user says about it, and the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import objectives
from treeinner.errors import TreeInnerError
from treeinner.groups import Groups, GroupSpec, resolve_groups
from treeinner.model import Model, open_model
from treeinner.objectives import Objective
from treeinner.options import ReadOptions
from treeinner.scores import Importance, importance

__all__ = ["Side", "Subject"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Side:
    """Rows with what comes along with them."""

    X: Any
    y: Any
    sample_weight: Any = None
    clusters: Any = None
    base_margin: Any = None
    group: Any = None


@dataclass(frozen=True, eq=False)
class Subject:
    """The model, and what the user says about it."""

    model: Any
    reading: Mapping[str, Any]  # learning_rate, reg_lambda, reg_alpha, iteration_range
    objective: Any = "auto"
    groups: GroupSpec | None = None
    n_jobs: int | None = -1

    @cached_property
    def opened(self) -> Model:
        """The model, read."""
        return open_model(self.model, ReadOptions(**self.reading))

    @cached_property
    def loss(self) -> Objective:
        """The loss the scores are taken from."""
        return objectives.for_ensemble(self.opened.ensemble, self.objective)

    def scores(self, side: Side) -> Importance:
        """TreeInner with PreDecomp on some rows."""
        return importance(
            self.opened,
            side.X,
            side.y,
            sample_weight=side.sample_weight,
            clusters=side.clusters,
            base_margin=side.base_margin,
            group=side.group,
            objective=self.objective,
            groups=self.groups,
            by_round=True,
            n_jobs=self.n_jobs,
        )

    def stored_gain(self, X: Any) -> FloatArray | None:
        """Total gain as the model stores it: (features,), or None."""
        try:
            gain = importance(self.opened, score="total_gain").scores
        except TreeInnerError:
            return None
        grouped = self.grouping(X)
        return gain if grouped is None else grouped.add_up(gain, axis=0)

    def grouping(self, X: Any) -> Groups | None:
        """The user's groups, resolved by the names that the scores have."""
        n = self.opened.ensemble.n_features
        return resolve_groups(self.groups, self.opened.names(X) or tuple(f"f{i}" for i in range(n)))
