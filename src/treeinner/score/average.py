"""Importance of an average of models (voting, bagging, calibration): the mean of the members' shares, row by row.

Every member is scored by its own loss on the same rows, and what is averaged are the rows' shares, with the weights
that the average itself uses. So the score has a standard error of its own, in which a row counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, Note, UnsupportedModelError
from treeinner.read.columns import credit
from treeinner.read.model import Told, read_unwrapped
from treeinner.read.unwrap import Member
from treeinner.rows import Rows, read_rows
from treeinner.score.conclude import conclude, statistics_of, warned
from treeinner.score.passes import leaf_pass, node_means, share_columns, share_pass, total
from treeinner.score.result import Importance
from treeinner.score.spec import make_spec
from treeinner.score.sums import Sums
from treeinner.score.training_rows import training_rows_note

__all__ = ["average_importance"]

Float = NDArray[np.float64]
CHECKED = 3  # members whose training rows are looked for: all were fitted on samples of the same rows


def average_importance(
    several: Sequence[Member], X: Any, y: Any, *, oob: bool = False, std_errors: bool = True, **asked: Any
) -> Importance:
    """Importance of an average; asked: other arguments of `importance`."""
    given = {name: asked.pop(name) for name in ("sample_weight", "clusters", "base_margin", "qid")}
    for name, value in {"oob": oob or None, "base_margin": given["base_margin"], "qid": given["qid"]}.items():
        if value is not None:
            raise ValueError(f"{name} has no meaning for the members of an average together; score them one by one.")
    scored = [_scored(member, number, X, y, given, **asked) for number, member in enumerate(several)]
    found, rows = [imp for imp, _, _ in scored], scored[0][2]
    if len({(imp.loss_name, imp.output_names) for imp in found}) > 1:
        raise UnsupportedModelError(
            f"The members of this average have different losses or classes ({found[0].loss_name}, ...), so their scores "
            "do not add up; score them one by one."
        )
    # A member may know some of the columns only.
    names = tuple(dict.fromkeys(name for imp in found for name in imp.feature_names))
    shares = np.zeros((rows.n_rows, len(names), scored[0][1].shape[2]))
    for member, (imp, own, _) in zip(several, scored, strict=True):
        shares[:, [names.index(name) for name in imp.feature_names]] += member.weight * own
    sums = Sums.of_shares(share_columns(shares), rows.weight, rows.clusters)
    whole, outputs = statistics_of(sums, shares.shape[2])
    notes = dict.fromkeys(note for imp in found for note in imp.notes)
    weights = ", ".join(f"{member.name} {member.weight:.3g}" for member in several[:6])
    text = f"Scores are averaged over {len(several)} models, by {weights}{', ...' if len(several) > 6 else '.'}"
    average = replace(
        found[0], feature_names=names, statistics=whole, outputs=outputs if shares.shape[2] > 1 else None,
        has_errors=std_errors, rounds=None, rates=None, losses=None, notes=tuple(notes),
    )  # fmt: skip
    return warned(average, Note("average", text[:200], quiet=True))


def _scored(
    member: Member, number: int, X: Any, y: Any, given: dict[str, Any], *, score: str, method: str, **asked: Any
) -> tuple[Importance, Float, Rows]:
    """A member's importance without errors, the shares of the rows, (rows, names, outputs), and the rows."""
    model = read_unwrapped(member.inside, Told())
    stream = read_rows(model, X, y, **given)
    (rows, *more) = stream
    if more:
        raise DataError("An average of models is scored on rows in memory; read the files first, or score a member.")
    groups = credit(model, stream.names, asked["feature_groups"], stream.head)
    spec = make_spec(model, groups, score=score, method=method, clustered=stream.clustered)
    shares, run = np.zeros((rows.n_rows, len(spec.credit.names), model.n_outputs)), {"n_jobs": asked["n_jobs"]}
    leaf = total(leaf_pass, model, spec, [rows], **run) if spec.by_path else None
    centre = node_means(model, spec, leaf) if spec.by_path else None
    share = total(share_pass, model, spec, [rows], centre, leaves=leaf is None, keep=shares, **run)
    found = conclude(model, spec, leaf or share, None if spec.by_path else share, centre)
    note = training_rows_note(model, stream) if number < CHECKED else None
    return replace(found, notes=(*found.notes, *([] if note is None else [note]))), shares, rows
