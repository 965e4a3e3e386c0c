"""Importance of an average of models (voting, bagging, calibration): the mean of the members' shares, row by row.

Every member is scored by its own loss on the same rows, and what is averaged are the rows' shares, with the weights
that the average itself uses. So the score has a standard error of its own, in which a row counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, Note, UnsupportedModelError
from treeinner.read import Model
from treeinner.read.columns import GroupSpec, credit
from treeinner.read.model import Told, read_unwrapped
from treeinner.read.unwrap import Unwrapped
from treeinner.rows import Rows, Stream, read_rows
from treeinner.score.conclude import scores_of, statistics_of_shares, warned
from treeinner.score.result import Importance
from treeinner.score.spec import Spec, make_spec
from treeinner.score.training_rows import training_rows_note

__all__ = [
    "Scored",
    "all_names",
    "average_importance",
    "average_shares",
    "importance_of_shares",
    "in_memory",
    "shares_of",
]

Float = NDArray[np.float64]
CHECKED = 3  # members whose training rows are looked for: all were fitted on samples of the same rows


class Scored(NamedTuple):
    """Rows that were scored, with the share of every row."""

    importance: Importance
    shares: Float  # (rows, names, outputs), weights in them
    terms: Float  # of the signal score, s and l of `holds`: (2, rows, names, outputs); (0, ...) of others
    rows: Rows
    model: Model | None = None  # None: an average of several
    spec: Spec | None = None  # what was asked of it


def average_importance(
    several: Sequence[Unwrapped], X: Any, y: Any, *, oob: bool = False, std_errors: bool = True, **asked: Any
) -> Importance:
    """Importance of an average; asked: other arguments of `importance`."""
    if oob:
        raise ValueError("oob has no meaning for the members of an average together; score them one by one.")
    return warned(replace(average_shares(several, X, y, **asked).importance, has_errors=std_errors))


def average_shares(several: Sequence[Unwrapped], X: Any, y: Any, *, checked: bool = True, **asked: Any) -> Scored:
    """Mean of the shares of the members of an average; arguments are those of `shares_of`."""
    for name in ("base_margin", "qid"):
        if asked.get(name) is not None:
            raise ValueError(f"{name} has no meaning for the members of an average together; score them one by one.")
    models = [read_unwrapped(member, Told()) for member in several]
    scored = [shares_of(one, X, y, checked=checked and i < CHECKED, **asked) for i, one in enumerate(models)]
    found, rows = [one.importance for one in scored], scored[0].rows
    if len({(imp.loss_name, imp.output_names) for imp in found}) > 1:
        raise UnsupportedModelError(
            f"Members of this average have other losses or classes than {found[0].loss_name}; score them one by one."
        )
    names = all_names(found)
    parts = np.zeros((1 + len(scored[0].terms), rows.n_rows, len(names), scored[0].shares.shape[2]))
    for member, one in zip(several, scored, strict=True):
        known = [names.index(name) for name in one.importance.feature_names]
        parts[:, :, known] += member.weight * np.concatenate([one.shares[None], one.terms])
    weights = ", ".join(f"{member.name} {member.weight:.3g}" for member in several[:6])
    text = f"Scores are averaged over {len(several)} models, by {weights}{', ...' if len(several) > 6 else '.'}"
    imp = importance_of_shares(found, parts[0], rows.weight, rows.clusters, terms=parts[1:], losses=None)
    return Scored(replace(imp, notes=(*imp.notes, Note("average", text[:200], quiet=True))), parts[0], parts[1:], rows)


def shares_of(
    model: Model,
    X: Any,
    y: Any,
    *,
    score: str,
    method: str,
    feature_groups: GroupSpec | None,
    n_jobs: int | None = 1,
    checked: bool = True,
    head: Any = None,
    **given: Any,
) -> Scored:
    """Score rows by one model, and keep the share of every row.

    given: sample_weight, clusters, base_margin and qid; checked: whether the rows are compared with the training rows;
    head: rows that show what a pipeline does to its columns, if not X.
    """
    stream = read_rows(model, X, y, **given)
    rows = in_memory(stream)
    groups = credit(model, stream.names, feature_groups, stream.head if head is None else head)
    spec = make_spec(model, groups, score=score, method=method, clustered=stream.clustered)
    kept = np.zeros((3 if score == "signal" else 1, rows.n_rows, len(spec.credit.names), model.n_outputs))
    found = scores_of(model, spec, stream, margins_given=given.get("base_margin") is not None, keep=kept, n_jobs=n_jobs)
    note = training_rows_note(model, stream) if checked else None
    notes = (*found.notes, *stream.notes, *([] if note is None else [note]))
    return Scored(replace(found, notes=notes), kept[0], kept[1:], rows, model, spec)


def in_memory(stream: Stream) -> Rows:
    """The rows of a table in memory."""
    first, *others = stream
    if others:
        raise DataError("X is read in pieces, and shares of all rows are needed at once; pass a table in memory.")
    return first


def all_names(found: Sequence[Importance]) -> tuple[str, ...]:
    """Features that any of several models knows: a member may know some of the columns only."""
    return tuple(dict.fromkeys(name for imp in found for name in imp.feature_names))


def importance_of_shares(
    found: Sequence[Importance],
    shares: Float,
    weight: Float | None,
    clusters: Any,
    terms: Sequence[Float] | Float = (),
    **changed: Any,
) -> Importance:
    """Importance of shares that come from several models; arguments as of `statistics_of_shares`."""
    whole, outputs = statistics_of_shares(shares, weight, clusters, terms)
    notes = tuple(dict.fromkeys(note for imp in found for note in imp.notes))
    return replace(
        found[0], feature_names=all_names(found), statistics=whole, outputs=None if outputs is whole else outputs,
        has_errors=True, rounds=None, rates=None, node_values=None, model_digest="", notes=notes, **changed,
    )  # fmt: skip
