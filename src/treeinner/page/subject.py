"""What a page is about: the model and the rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import TreeInnerError
from treeinner.groups import Groups, GroupSpec, resolve_groups
from treeinner.model import Model
from treeinner.scores import Importance, importance, total_gain

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Side:
    """Rows with what comes along with them, named as the arguments of `importance`."""

    X: Any
    y: Any
    sample_weight: Any = None
    clusters: Any = None
    base_margin: Any = None
    qid: Any = None


@dataclass(frozen=True, eq=False)
class Subject:
    """The model, opened, and how its features are grouped."""

    model: Model
    feature_groups: GroupSpec | None = None
    n_jobs: int | None = -1

    def scores(self, side: Side) -> Importance:
        """TreeInner with PreDecomp on some rows."""
        rows = {f.name: getattr(side, f.name) for f in fields(side)}
        return importance(self.model, **rows, feature_groups=self.feature_groups, by_round=True, n_jobs=self.n_jobs)

    def stored_gain(self, X: Any) -> FloatArray | None:
        """Total gain as the model stores it: (features,), or None."""
        try:
            gain = total_gain(self.model).scores
        except TreeInnerError:
            return None
        return self.groups(X).add_up(gain, axis=0)

    def groups(self, X: Any) -> Groups:
        """The user's groups, resolved by the names that the scores have."""
        return resolve_groups(self.feature_groups, self.model.labels(X))
