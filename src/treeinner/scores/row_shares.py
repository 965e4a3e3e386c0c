"""Shares of single rows in a score, and what follows from shares that come from several models.

A score is the sum of its rows' shares. So scores of several models, each on its own rows or all on the same ones, add
up row by row: folds of a cross-validation, members of a voting regressor. The sums of these shares then have a standard
error like those of one model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.compiled import Progress
from treeinner.errors import DataError
from treeinner.inference import Inference, check_confidence
from treeinner.model import Model
from treeinner.options import ReadOptions
from treeinner.scores.accumulator import CONFIDENCE, ImportanceAccumulator
from treeinner.scores.arguments import open_for
from treeinner.scores.batch import read_labels
from treeinner.scores.exact import ExactSums, Moments
from treeinner.scores.members import add_up, check_arguments_for_members
from treeinner.scores.passes import take_passes
from treeinner.scores.result import Importance
from treeinner.scores.state import State
from treeinner.tables.frames import names_of
from treeinner.wrapped import Members, open_members

__all__ = ["RowShares", "importance_of_shares", "row_shares", "shares_of_members"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowShares:
    """The shares of rows in the scores of a model."""

    shares: FloatArray  #: (rows, features or groups, outputs); a row's weight is in it. They add up to score x weights
    weight: FloatArray | None  #: (rows,), those of the model's class_weight included; None: every row counts as 1
    importance: Importance  #: of these rows by themselves: scores alone, for `importance_of_shares` gives the rest
    said: tuple[str, ...] = ()  #: which of its notes must be said aloud


def row_shares(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    score: str = "tree_inner",
    method: Any = None,
    sample_weight: Any = None,
    base_margin: Any = None,
    qid: Any = None,
    feature_groups: Any = None,
    n_jobs: int | None = -1,
    **reading: Any,
) -> RowShares:
    """Score rows as `importance` does, and keep the share of every row. Parameters as there.

    Nothing is said aloud: `said` has what is to be said about the model, for the caller to say once.
    """
    wrapper = open_members(model, ReadOptions.of(reading, caller=row_shares), names_of(X))
    if wrapper is not None:
        check_arguments_for_members(wrapper.kind, score, base_margin=base_margin, qid=qid)
        return shares_of_members(
            wrapper, X, y, score=score, method=method, sample_weight=sample_weight, feature_groups=feature_groups,
            n_jobs=n_jobs,
        )  # fmt: skip
    accumulator = ImportanceAccumulator(
        open_for(score, model, reading, caller=row_shares),
        score=score, method=method, feature_groups=feature_groups, n_jobs=n_jobs,
    )  # fmt: skip
    given = {"sample_weight": sample_weight, "clusters": None, "base_margin": base_margin, "qid": qid}
    done, batch = take_passes(accumulator, X, y, keep=True, **given)
    found, said = done._conclude(tested=False)  # raises if there are no rows
    assert batch is not None
    assert batch.shares is not None
    return RowShares(batch.shares, batch.weight, found, said)


def shares_of_members(
    wrapper: Members,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    feature_groups: Any = None,
    clusters: Any = None,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
    **given: Any,
) -> RowShares:
    """Shares of the rows in the scores of a wrapper of several models; given: score, method and n_jobs."""
    check_confidence(confidence)
    done = 0

    def score_one(model: Model, X_seen: Any, groups: Any) -> RowShares:
        nonlocal done
        found = row_shares(model, X_seen, y, sample_weight=sample_weight, feature_groups=groups, **given)
        done += 1
        if progress is not None:
            progress(len(found.shares) * done // len(wrapper.members), len(found.shares))
        return found

    total = add_up(wrapper, X, y, score_one, sample_weight=sample_weight, feature_groups=feature_groups)
    labels = None if clusters is None else read_labels(clusters, len(total.shares), "clusters")
    found = importance_of_shares(
        total.shares, total.weight, like=total.like, score=total.score, clusters=labels, confidence=confidence,
        **total.changes,
    )  # fmt: skip
    return RowShares(total.shares, total.weight, found, total.said)


def importance_of_shares(
    shares: FloatArray,
    weight: FloatArray | None,
    *,
    like: Importance,
    score: FloatArray | None = None,
    feature_names: tuple[str, ...] | None = None,
    clusters: NDArray[Any] | None = None,
    confidence: float = CONFIDENCE,
    **changed: Any,
) -> Importance:
    """Importance from the shares of independent rows.

    Parameters
    ----------
    shares
        (rows, features, outputs), weights included.
    weight
        (rows,); None: every row counts as 1.
    like
        An importance of the same kind: score, method, and what else is not given here.
    score
        (features, outputs): sums of the shares, where they are known better than by adding these up.
    feature_names
        Names of the features, where they are not those of `like`.
    clusters
        Label of each row; only clusters are independent.
    changed
        Other fields of the result: notes, losses, output_names.
    """
    n_rows, n_features, n_outputs = shares.shape
    largest = float(np.abs(shares).max(initial=0.0))
    if not np.isfinite(largest):
        raise DataError("The share of some row in a score is not finite; check y, sample_weight and base_margin.")
    exponent = -int(np.frexp(largest)[1]) if largest > 0 else 0
    heaviest = 1.0 if weight is None else float(weight.max(initial=0.0))
    columns = n_features * (n_outputs + (n_outputs > 1))
    state = State(
        n_features=n_features,
        n_outputs=n_outputs,
        shares=Moments.zeros(columns, exponent, counted=clusters is None),
        weight=ExactSums.zeros(1, -int(np.frexp(heaviest)[1])),
        clusters=None if clusters is None else {},
    )
    state.add_rows(shares, None, weight, clusters)
    state.count_rows(n_rows, weight)
    total = float(state.weight.totals()[0])
    whole, outputs = state.infer(score, confidence, flips=like.method == "centred")
    return replace(
        like,
        **{
            "feature_names": feature_names or like.feature_names,
            "statistics": whole.scaled(1.0 / total),
            "outputs": _scaled(outputs, total),
            "n_rows": n_rows,
            "sum_of_weights": total,
            "tested": True,
            "has_std_errors": True,
            "rounds": None,
            "losses": None,
            "notes": (),
            "gain_source": None,
            **changed,
        },
    )


def _scaled(outputs: Inference | None, total: float) -> Inference | None:
    return None if outputs is None else outputs.scaled(1.0 / total)
