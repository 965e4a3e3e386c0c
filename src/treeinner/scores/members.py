"""Scores of the members of a wrapper, added up row by row with the weights that the wrapper itself uses.

Every member is scored by its own loss, on the same rows. What is added up are shares of rows, so that the sum has a
standard error of its own, in which the members' common rows are counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import readers
from treeinner.compiled import Progress
from treeinner.errors import TreeInnerError, UnsupportedModelError, counted, short
from treeinner.groups import GroupSpec, resolve_groups
from treeinner.inference import check_confidence
from treeinner.model import Model
from treeinner.objectives import encode_target
from treeinner.objectives.losses import forest_error
from treeinner.scores.accumulator import CONFIDENCE
from treeinner.scores.batch import read_labels
from treeinner.scores.parts import Losses
from treeinner.scores.row_shares import RowShares, importance_of_shares, row_shares
from treeinner.tables.frames import as_stored, frame_library_of, names_of
from treeinner.wrapped import Member, Members

__all__ = ["check_arguments_for_members", "shares_of_members"]

FloatArray = NDArray[np.float64]
Sums = dict[str, tuple[FloatArray, FloatArray]]  # feature -> its shares, (rows, outputs), and score, (outputs,)
PROBED_ROWS = 64  # on which losses are compared
LISTED = 6  # members whose weights are listed
ONE_BY_ONE = "Score them one by one: ti.importance(member.model, X, y) for each member of ti.members(model)."
NO_GAINS = "A wrapper of several models has no gains; those of its members: ti.importance(member.model, X, y).gains."
ONE_STEP = (
    "Forests and boosted models are averaged here. The first-order score of a forest, which takes one large step, is "
    "up to twice what it gained, that of small steps is not; score='loss' puts both on one footing."
)


def check_arguments_for_members(kind: str, score: str, **given: Any) -> None:
    """Raise on a score or an argument that has no meaning for several models together."""
    if score not in ("tree_inner", "loss"):
        raise ValueError(
            f"score={score!r} of a {kind}: members are added up in units of their loss, by score='tree_inner' or "
            f"'loss'. {ONE_BY_ONE}"
        )
    for name, value in given.items():
        if value is not None and value is not False:
            raise ValueError(f"{name} has no meaning for the members of a {kind} together. {ONE_BY_ONE}")


def shares_of_members(
    found: Members,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    feature_groups: GroupSpec | None = None,
    clusters: Any = None,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
    **settings: Any,
) -> RowShares:
    """Score all members on the same rows, and add up; settings: score, method and n_jobs."""
    check_confidence(confidence)
    if found.refusal:
        raise UnsupportedModelError(
            f"The members of this {found.kind} cannot be added up: {found.refusal}. {ONE_BY_ONE}"
        )
    words = feature_groups if isinstance(feature_groups, str) else None  # resolved along each member's own pipeline
    X_seen, members = (X, found.members) if words else _behind_common_steps(found.members, X)
    _check_losses(found.kind, members, y)
    members = _with_names(found.kind, members, X_seen, words)
    parts: list[RowShares] = []
    outputs = {member.output for member in members}
    n_outputs = members[0].model.n_outputs if outputs == {None} else len(outputs)
    sums: Sums = {}
    for member in members:
        try:
            part = row_shares(member.model, X_seen, y, sample_weight=sample_weight, feature_groups=words, **settings)
        except TreeInnerError as error:
            raise type(error)(f"Member {member.name!r} of this {found.kind}: {error}") from error
        _add_member(sums, n_outputs, member, part)
        parts.append(replace(part, shares=part.shares[:0].copy()))  # those of all members at once may not fit in memory
        if progress is not None:
            progress(len(part.shares) * len(parts) // len(members), len(part.shares))
    weight = _common_weight(found, members, parts, sample_weight)
    names, score = tuple(sums), np.array([score for _, score in sums.values()])
    shares = np.stack([shares for shares, _ in sums.values()], axis=1)
    if not words:
        groups = resolve_groups(feature_groups, names)
        names, shares, score = groups.names, groups.add_up(shares, axis=1), groups.add_up(score, axis=0)
    total = float(len(shares) if weight is None else weight.sum())
    shares *= total
    own = [line for member in members for line in member.model.notes]
    said = _said(members, parts)
    imp = importance_of_shares(
        shares,
        weight,
        like=parts[0].importance,
        score=score * total,
        clusters=None if clusters is None else read_labels(clusters, len(shares), "clusters"),
        confidence=confidence,
        feature_names=names,
        output_names=_output_names(members, parts[0], y),
        frame_library=frame_library_of(X),
        losses=_losses(members, parts),
        gain_source=NO_GAINS,
        notes=tuple(dict.fromkeys([_heading(found), *found.notes, *own, *said])),
    )
    return RowShares(shares, weight, imp, said)


# -- before: what must hold for a sum to mean something ------------------------------------------------------
def _behind_common_steps(members: tuple[Member, ...], X: Any) -> tuple[Any, tuple[Member, ...]]:
    """X behind the steps that all members have in common, and members that begin there: they are taken once."""
    paths = [member.model.transformers for member in members]
    common = 0
    while all(len(path) > common and path[common] is paths[0][common] for path in paths):
        common += 1
    if not common:
        return X, members
    shorter = [replace(m, model=replace(m.model, transformers=m.model.transformers[common:])) for m in members]
    return readers.transform(paths[0][:common], X), tuple(shorter)


def _check_losses(kind: str, members: Sequence[Member], y: Any) -> None:
    """Raise unless the members of each output are fitted by the same loss: only then their scores have one unit."""
    for output in {member.outputs for member in members}:
        same = [member for member in members if member.outputs == output]
        first, *others = [_slope(member.model, y) for member in same]
        for member, other in zip(same[1:], others, strict=True):
            if first.shape != other.shape or not np.allclose(first, other, rtol=1e-6, atol=1e-9):
                a, b = (f"{m.name!r} by {m.model.ensemble.objective or 'a loss of its own'}" for m in (same[0], member))
                raise UnsupportedModelError(
                    f"The members of this {kind} are fitted by different losses, {a}, but {b}: their scores have "
                    f"different units and cannot be added up. {ONE_BY_ONE}"
                )


def _slope(model: Model, y: Any) -> FloatArray:
    """Gradients of the loss of a model at some targets and margins, by which losses are told apart: (rows, outputs)."""
    objective = forest_error(model.objective) if model.ensemble.averaged else model.objective
    if objective.scope == "query":
        raise UnsupportedModelError(f"The loss {objective.name!r} ranks rows, which wrappers of several models do not.")
    target = np.asarray(encode_target(model.ensemble, model.target(y), objective=model.objective))[:PROBED_ROWS]
    margin = np.random.default_rng(0).normal(size=(len(target), model.n_outputs))
    return objective.gradients(target, margin)


def _with_names(kind: str, members: Sequence[Member], X: Any, words: str | None) -> tuple[Member, ...]:
    """Members whose features can be told apart by their names, and matched."""
    direct = [m for m in members if not m.model.transformers]
    known = names_of(X) or next((m.model.feature_names for m in direct if m.model.feature_names), None)
    if known is None and words == "original" and len(direct) < len(members):
        known = tuple(f"x{j}" for j in range(direct[0].model.n_features)) if direct else None  # as origins calls them
    out = []
    for member in members:
        model, own = member.model, member.model.feature_names
        if model.transformers:
            if not words and len(members) > 1:
                _check_made_alike(kind, member)
        elif own is not None and known is not None:  # LightGBM keeps "my col" as "my_col"
            stored = dict(zip(as_stored(known, model.ensemble.schema), known, strict=True))
            own = tuple(stored.get(name, name) for name in own)
        elif known is not None and len(known) == model.n_features:
            own = known
        out.append(replace(member, model=replace(model, feature_names=own)))
    return tuple(out)


def _check_made_alike(kind: str, member: Member) -> None:
    """Raise if the features of a member's own pipeline cannot be matched with those of others by name."""
    steps = member.model.transformers
    cure = f"Put that step before the {kind}, in a pipeline around it, so that it is one for all members"
    if member.model.feature_names is None:
        raise UnsupportedModelError(
            f"The pipeline of member {member.name!r} does not tell the names of its columns, so that they cannot be "
            f"matched with those of the other members of this {kind}. {cure}, or set feature_names_out."
        )
    mixing = next((step for step in _all_steps(steps) if "ClassNamePrefixFeaturesOutMixin" in _bases(step)), None)
    if mixing is not None:
        raise UnsupportedModelError(
            f"Each member of this {kind} has a {type(mixing).__name__} of its own, whose columns have the same names "
            f"in every member, but not the same meaning. {cure}."
        )


def _bases(step: Any) -> list[str]:
    return [kind.__name__ for kind in type(step).__mro__]


def _all_steps(steps: Sequence[Any]) -> list[Any]:
    """Steps, and those inside pipelines, unions and column transformers."""
    out = []
    for step in steps:
        inner = [
            *getattr(step, "steps", ()),
            *getattr(step, "transformer_list", ()),
            *getattr(step, "transformers_", ()),
        ]
        out += [step, *_all_steps([part[1] for part in inner])]
    return out


# -- after ---------------------------------------------------------------------------------------------------
def _common_weight(
    found: Members, members: Sequence[Member], parts: Sequence[RowShares], sample_weight: Any
) -> FloatArray | None:
    """Weights of the rows. Those of class_weight="balanced" differ between the outputs of OneVsRestClassifier."""
    first = parts[0].weight
    if all(_same_weight(part.weight, first) for part in parts[1:]):
        return first
    by_output: dict[tuple[int, ...], RowShares] = {}
    for member, part in zip(members, parts, strict=True):
        if not _same_weight(by_output.setdefault(member.outputs, part).weight, part.weight):
            raise UnsupportedModelError(
                f"The members of this {found.kind} weigh the classes differently (class_weight), so that their scores "
                f"are of different losses. {ONE_BY_ONE}"
            )
    return None if sample_weight is None else np.asarray(sample_weight, np.float64).reshape(-1)


def _same_weight(a: FloatArray | None, b: FloatArray | None) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


def _add_member(sums: Sums, n_outputs: int, member: Member, part: RowShares) -> None:
    """Add what a member gives to each feature, by its weight."""
    imp = part.importance
    if member.output is None:
        outputs, shares = slice(None), part.shares
        scores = imp.scores[:, None] if imp.outputs is None else imp.outputs.score
    else:
        outputs, shares = slice(member.output, member.output + 1), part.shares.sum(axis=2, keepdims=True)
        scores = imp.scores[:, None]
    for k, name in enumerate(imp.feature_names):
        own = sums.setdefault(name, (np.zeros((len(shares), n_outputs)), np.zeros(n_outputs)))
        own[0][:, outputs] += shares[:, k] * (member.weight / imp.sum_of_weights)
        own[1][outputs] += scores[k] * member.weight


def _losses(members: Sequence[Member], parts: Sequence[RowShares]) -> Losses | None:
    """Mean of the members' losses, by their weights; the sum of those of several outputs."""
    known = [part.importance.losses for part in parts]
    if any(one is None for one in known):
        return None
    names = [field.name for field in fields(Losses) if field.name != "base_rounds"]
    pairs = list(zip(members, known, strict=True))
    return Losses(**{name: sum(member.weight * getattr(one, name) for member, one in pairs) for name in names})


def _output_names(members: Sequence[Member], part: RowShares, y: Any) -> tuple[str, ...] | None:
    first = members[0]
    if first.output is not None:
        named = {m.output: m.output_name for m in members}
        columns = names_of(y)
        if None not in named.values():
            return tuple(str(named[k]) for k in sorted(named, key=lambda k: k or 0))
        return columns if columns is not None and len(columns) == len(named) else None
    return part.importance.output_names


def _said(members: Sequence[Member], parts: Sequence[RowShares]) -> tuple[str, ...]:
    """What must be said about the members' scores; a line of several members once."""
    lines: dict[str, str] = {}
    for member, part in zip(members, parts, strict=True):
        for line in part.said:
            lines.setdefault(line, f"Member {member.name!r}: {line}")
    negative = [f"{m.name!r} ({short(m.weight)})" for m in members if m.weight < 0]
    if negative:
        lines["negative"] = (
            f"The predictions of {', '.join(negative)} are subtracted: what such a member finds counts against it."
        )
    kinds = {member.model.ensemble.averaged for member in members}
    if len(kinds) > 1 and parts[0].importance.score_name == "tree_inner":
        lines["one step"] = ONE_STEP
    return tuple(lines.values())


def _heading(found: Members) -> str:
    """What was added up, in one line."""
    members = found.members
    many = f"{counted(len(members), 'member')} of a {found.kind}"
    if members[0].output is not None:
        return f"The {many}: every output is scored by its own members, and the whole is the sum over the outputs."
    if len({member.weight for member in members}) == 1:
        weights = "equal weights"
    else:
        listed = [f"{member.name} {short(member.weight, 3)}" for member in members[:LISTED]]
        weights = f"the weights {', '.join(listed)}{', ...' * (len(members) > LISTED)}"
    return f"Mean over the {many}, each by its own loss, with {weights}."
