"""What a page is about: the model and the held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from treeinner.attribution import FloatArray
from treeinner.errors import TreeInnerError
from treeinner.groups import Groups, GroupSpec, resolve_groups
from treeinner.model import Model
from treeinner.scores import total_gain


@dataclass(frozen=True, eq=False)
class Subject:
    """The model, opened, the held-out rows, and how the features are grouped."""

    model: Model
    X: Any
    y: Any
    extra: Mapping[str, Any]  # sample_weight, clusters, base_margin and qid of the rows, each may be None
    feature_groups: GroupSpec | None
    n_jobs: int | None

    @cached_property
    def groups(self) -> Groups:
        """The user's groups, resolved by the names that the scores have."""
        return resolve_groups(self.feature_groups, self.model.labels(self.X))

    def stored_gain(self) -> FloatArray | None:
        """Total gain as the model stores it: (features,), or None."""
        try:
            gain = total_gain(self.model).scores
        except TreeInnerError:
            return None
        return self.groups.add_up(gain, axis=0)
