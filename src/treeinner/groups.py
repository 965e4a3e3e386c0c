"""Features reported together: one-hot columns of one variable, lags of one series. Signed values add up.

"original", the raw columns of a pipeline, is resolved where the pipeline is known: see `Model.groups`.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import did_you_mean, readable

__all__ = ["OWN_SEPARATOR", "PREFIX", "GroupSpec", "Groups", "by_prefix", "identity_of", "members_of", "resolve_groups"]

GroupSpec = Mapping[str, Sequence[str | int]] | str
PREFIX = "prefix:"
OWN_SEPARATOR = (
    "Make the dummies with a separator that names do not have, such as pandas.get_dummies(X, prefix_sep='=') and "
    "feature_groups='prefix:=', or pass a mapping."
)


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
    """Check the user's `feature_groups`: a mapping from a group's name to its features, or one of the two words."""
    if isinstance(feature_groups, str):
        feature_groups = _spelled_out(feature_groups, feature_names)
    if feature_groups is None:
        return Groups(tuple(feature_names))
    if not isinstance(feature_groups, Mapping):
        raise TypeError(
            f"feature_groups: expected a mapping, got a {type(feature_groups).__name__}; pass "
            "{'colour': ['colour_red', 'colour_blue'], ...}, features by name or position, 'original' or 'prefix:_'."
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
            owner[owned] = readable(group)
    # Groups stand where their first member stood.
    labels = [owner.get(i, f"\0{name}") for i, name in enumerate(feature_names)]
    order = list(dict.fromkeys(labels))
    names = tuple(label.removeprefix("\0") for label in order)
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"Groups {repeated} have the name of a feature outside the group; rename the groups.")
    index = {label: i for i, label in enumerate(order)}
    return Groups(names, np.array([index[label] for label in labels], np.intp))


def _spelled_out(word: str, feature_names: Sequence[str]) -> dict[str, list[str]] | None:
    """The groups that a word stands for; None: every column by itself, as without a pipeline it is."""
    if word == "original":
        return None
    if not word.startswith(PREFIX) or word == PREFIX:
        raise ValueError(
            f"feature_groups={word!r} is not recognised; pass 'original' for the raw columns of a pipeline, 'prefix:_' "
            "for columns that pandas.get_dummies made with the separator '_', or a mapping."
        )
    return by_prefix(feature_names, word.removeprefix(PREFIX))


def by_prefix(names: Sequence[str], separator: str) -> dict[str, list[str]]:
    """Columns of the same prefix: what stands before the first separator, as for `pandas.from_dummies`.

    A prefix that only one column has makes no group. A group is called by all that its columns have in common, up to a
    separator: eye_colour_blue and eye_colour_green are "eye_colour". If some of them have more in common than all of
    them do (eye_colour_blue, eye_colour_green, eye_size), there are two ways to read the names, and that is refused.
    """
    parts = [name.split(separator) for name in names]
    groups: dict[str, list[list[str]]] = {}
    for words in parts:
        if len(words) > 1:
            groups.setdefault(words[0], []).append(words)
    out: dict[str, list[str]] = {}
    for columns in groups.values():
        if len(columns) > 1:
            shared = _shared(columns, separator)
            out[separator.join(columns[0][:shared])] = [separator.join(words) for words in columns]
    if not out:
        raise ValueError(
            f"feature_groups='prefix:{separator}': no two columns have the same text before {separator!r}; "
            f"the columns are {', '.join(map(repr, names[:5]))}{', ...' * (len(names) > 5)}. Check the separator."
        )
    return out


def _shared(columns: list[list[str]], separator: str) -> int:
    """How many words all columns of a group begin with; raises if some of them share more than all do."""
    most = min(map(len, columns)) - 1  # the last word is the level
    shared = next((k for k in range(most) if len({words[k] for words in columns}) > 1), most)
    deeper: dict[str, str] = {}
    for words in columns:
        if len(words) > shared + 1:
            longer, name = separator.join(words[: shared + 1]), separator.join(words)
            if longer in deeper:
                prefix = separator.join(columns[0][:shared])
                raise ValueError(
                    f"feature_groups='prefix:{separator}' is ambiguous: {deeper[longer]!r} and {name!r} may be levels "
                    f"of {prefix!r} or of {longer!r}. {OWN_SEPARATOR}"
                )
            deeper[longer] = name
    return shared


def identity_of(feature_groups: Any) -> Any:
    """What two equal `feature_groups` have in common, as plain data: the order of groups and members is not part."""
    if isinstance(feature_groups, str):
        return feature_groups
    return sorted((str(name), sorted(map(repr, members_of(given)))) for name, given in (feature_groups or {}).items())


def members_of(members: Any) -> list[Any]:
    """Members of a group as the user gave them; a single one may stand by itself."""
    return list(members) if np.iterable(members) and not isinstance(members, str) else [members]


def _position(member: Any, position: Mapping[str, int], n: int, group: str) -> int:
    if isinstance(member, str):
        if readable(member) in position:
            return position[readable(member)]
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
