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
from treeinner.rows import Rows, read_rows
from treeinner.score.conclude import conclude, statistics_of, warned
from treeinner.score.passes import leaf_pass, node_means, share_columns, share_pass
from treeinner.score.result import Importance
from treeinner.score.spec import Spec, make_spec
from treeinner.score.sums import Sums
from treeinner.score.training_rows import training_rows_note

__all__ = ["Scored", "all_names", "average_importance", "average_shares", "importance_of_shares", "shares_of"]

Float = NDArray[np.float64]
CHECKED = 3  # members whose training rows are looked for: all were fitted on samples of the same rows


class Scored(NamedTuple):
    """Rows that were scored, with the share of every row."""

    importance: Importance  # of one model: without standard errors
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
            f"The members of this average have different losses or classes ({found[0].loss_name}, ...), so scores do "
            "not add up; score them one by one."
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
    (rows, *more) = stream
    if more:
        raise DataError("An average of models is scored on rows in memory; read the files first, or score a member.")
    groups = credit(model, stream.names, feature_groups, stream.head if head is None else head)
    spec = make_spec(model, groups, score=score, method=method, clustered=stream.clustered)
    kept = np.zeros((3 if score == "signal" else 1, rows.n_rows, len(spec.credit.names), model.n_outputs))
    leaf = leaf_pass(model, spec, rows, n_jobs=n_jobs) if spec.by_path else None
    centre = node_means(model, spec, leaf) if spec.by_path else None
    share = share_pass(model, spec, rows, centre, leaves=leaf is None, keep=kept, n_jobs=n_jobs)
    sums = leaf or share
    sums.margins_given = given.get("base_margin") is not None
    alone = spec.by_path and score != "signal"
    found = replace(conclude(model, spec, sums, None if alone else share, centre), has_errors=not spec.by_path)
    note = training_rows_note(model, stream) if checked else None
    notes = (*found.notes, *stream.notes, *([] if note is None else [note]))
    return Scored(replace(found, notes=notes), kept[0], kept[1:], rows, model, spec)


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
    """Importance of the sums of shares, (rows, names, outputs), that come from several models.

    terms: of the signal score, s and l of every row, each as the shares.
    """
    sums = Sums.of_shares(share_columns(shares), weight, clusters, [share_columns(each) for each in terms])
    whole, outputs = statistics_of(sums, shares.shape[2])
    notes = tuple(dict.fromkeys(note for imp in found for note in imp.notes))
    return replace(
        found[0], feature_names=all_names(found), statistics=whole, outputs=outputs if shares.shape[2] > 1 else None,
        has_errors=True, rounds=None, rates=None, node_values=None, model_digest="", notes=notes, **changed,
    )  # fmt: skip
