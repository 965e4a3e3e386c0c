"""Features reported together: one-hot columns of one variable, lags of one series. Signed values add up."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import did_you_mean

__all__ = ["Groups", "members_of", "resolve_groups"]

GroupSpec = Mapping[str, Sequence[str | int]]


@dataclass(frozen=True, eq=False)
class Groups:
    """Which group each feature belongs to; a feature in no group is a group of its own."""

    names: tuple[str, ...]
    of_feature: NDArray[np.intp] | None = None  # (n_features,); None: every feature is a group of its own

    def add_up(self, values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        """Signed sums over the members of each group along an axis of features."""
        if self.of_feature is None:
            return values
        moved = np.moveaxis(values, axis, 0)
        out = np.zeros((len(self.names), *moved.shape[1:]))
        np.add.at(out, self.of_feature, moved)
        return np.moveaxis(out, 0, axis)


def resolve_groups(feature_groups: Any, feature_names: Sequence[str]) -> Groups:
    """Check the user's `feature_groups`: a mapping from a group's name to its features, by name or position."""
    if feature_groups is None:
        return Groups(tuple(feature_names))
    if not isinstance(feature_groups, Mapping):
        raise TypeError(
            f"feature_groups: expected a mapping, got a {type(feature_groups).__name__}; pass "
            "{'colour': ['colour_red', 'colour_blue'], ...}, features by name or position."
        )
    position = {name: i for i, name in enumerate(feature_names)}
    owner: dict[int, str] = {}
    for group, members in feature_groups.items():
        if not members_of(members):
            raise ValueError(f"Group {group!r} has no features; name at least one, or leave the group out.")
        for member in members_of(members):
            owned = _position(member, position, len(feature_names), str(group))
            if owned in owner:
                raise ValueError(
                    f"Feature {feature_names[owned]!r} is in groups {owner[owned]!r} and {group!r}; "
                    "a feature may be in one group only."
                )
            owner[owned] = str(group)
    # Groups stand where their first member stood.
    labels = [owner.get(i, f"\0{name}") for i, name in enumerate(feature_names)]
    order = list(dict.fromkeys(labels))
    names = tuple(label.removeprefix("\0") for label in order)
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"Groups {repeated} have the name of a feature outside the group; rename the groups.")
    index = {label: i for i, label in enumerate(order)}
    return Groups(names, np.array([index[label] for label in labels], np.intp))


def members_of(members: Any) -> list[Any]:
    """Members of a group as the user gave them; a single one may stand by itself."""
    return list(members) if np.iterable(members) and not isinstance(members, str) else [members]


def _position(member: Any, position: Mapping[str, int], n: int, group: str) -> int:
    if isinstance(member, str):
        if member in position:
            return position[member]
        some = ", ".join(map(repr, list(position)[:10])) + ", ..." * (len(position) > 10)
        hint = did_you_mean(member, position, f"; features: {some}.")
        raise ValueError(f"Group {group!r} names {member!r}, which is not a feature{hint}")
    try:
        index = operator.index(member)
    except TypeError:
        raise TypeError(f"Group {group!r} contains {member!r}; expected a feature's name or position.") from None
    if not 0 <= index < n:
        raise ValueError(f"Group {group!r} names feature {index}, but features are numbered 0..{n - 1}.")
    return index
