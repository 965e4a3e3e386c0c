"""Models inside a wrapper of several: opened one by one, each with its weight, to take the wrapper's own X and y."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from treeinner import readers
from treeinner.ensemble import Ensemble
from treeinner.errors import UnsupportedModelError
from treeinner.model import Model, open_unwrapped
from treeinner.options import ReadOptions
from treeinner.readers import Unwrapped

__all__ = ["Member", "Members", "members", "open_members"]

Names = tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class Member:
    """A model inside a wrapper of several, such as a VotingRegressor. Made by `members`."""

    name: str  #: what the wrapper calls it
    weight: float  #: in the wrapper's mean, where all of an output add up to 1; NaN: it takes no mean
    model: Model  #: which takes the X and y of the wrapper
    outputs: tuple[int, ...] = ()  #: the one output of the wrapper that it stands for, and of wrappers inside; (): all
    output_name: str | None = None  #: of the first of them

    @property
    def output(self) -> int | None:
        """The one output of the wrapper that it stands for; None: all of them."""
        return self.outputs[0] if self.outputs else None


class Members(NamedTuple):
    """The models inside a wrapper."""

    kind: str  # class of the wrapper
    members: tuple[Member, ...]
    notes: tuple[str, ...]  # what the wrapper does that no score of its members speaks of
    refusal: str  # why they cannot be added up; "": they can


def members(model: Any, **reading: Any) -> tuple[Member, ...]:
    """Open the models inside a wrapper of several, one by one.

    Parameters
    ----------
    model : fitted wrapper
        VotingRegressor, VotingClassifier, BaggingRegressor, BaggingClassifier, CalibratedClassifierCV,
        StackingRegressor, StackingClassifier, MultiOutputRegressor, MultiOutputClassifier or OneVsRestClassifier of
        scikit-learn, wrappers inside wrappers included, or a Pipeline or search around one.
    **reading
        As for `read_model`, for every member.

    Returns
    -------
    tuple of Member
        The model of each takes the X and y of the wrapper: columns and labels become those that it was fitted on.
    """
    found = open_members(model, ReadOptions.of(reading, caller=members))
    if found is None:
        raise UnsupportedModelError(
            f"{type(model).__name__} is not a wrapper of several models; ti.read_model opens a single one."
        )
    return found.members


def open_members(model: Any, options: ReadOptions, names: Names = None) -> Members | None:
    """Open the models inside a wrapper of several; None: it is none. `names` are those of X, where they are known."""
    inside = Unwrapped(model) if isinstance(model, (Model, Ensemble, str, os.PathLike)) else readers.peel(model)
    if inside.wrapper is None:
        return None
    said: dict[str, set[str]] = {"note": set(), "refusal": set()}
    found = tuple(_leaves(inside, options, names, {"name": "", "weight": 1.0, "outputs": ()}, said))
    return Members(inside.wrapper.kind, found, tuple(sorted(said["note"])), "; ".join(sorted(said["refusal"])))


def _leaves(
    inside: Unwrapped, options: ReadOptions, names: Names, at: dict[str, Any], said: dict[str, set[str]]
) -> Iterator[Member]:
    """Members of a wrapper, and of the wrappers among them. `at`: fields of the wrapper as a member itself."""
    wrapper = inside.wrapper
    assert wrapper is not None
    said["note"] |= {note for note in (*inside.notes, wrapper.note) if note}
    said["refusal"] |= {wrapper.refusal} - {""}
    for k, part in enumerate(wrapper.parts):
        here = {**at, "name": f"{at['name']} / {part.name}".removeprefix(" / "), "weight": at["weight"] * part.weight}
        if wrapper.by_output:
            here["outputs"] = (*at["outputs"], k)
            if not at["outputs"] and wrapper.outputs is not None:
                here["output_name"] = wrapper.outputs[k]
        try:
            below = readers.peel(part).behind(inside)
            if below.wrapper is not None:
                yield from _leaves(below, options, names, here, said)
            else:
                yield Member(**here, model=open_unwrapped(below, options, names))
        except UnsupportedModelError as error:
            if at["name"]:  # the outermost wrapper says it
                raise
            raise UnsupportedModelError(
                f"The member {part.name!r} of this {wrapper.kind} cannot be scored, and it has its part in the "
                f"prediction: {error} Score the others one by one: ti.importance(member, X, y), from {wrapper.where}."
            ) from error
