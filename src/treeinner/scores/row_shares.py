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

from treeinner.errors import DataError
from treeinner.scores.accumulator import CONFIDENCE, ImportanceAccumulator
from treeinner.scores.exact import ExactSums, Moments
from treeinner.scores.passes import take_passes
from treeinner.scores.result import Importance
from treeinner.scores.state import State

__all__ = ["RowShares", "importance_of_shares", "row_shares"]

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
    sample_weight: Any = None,
    base_margin: Any = None,
    qid: Any = None,
    **settings: Any,
) -> RowShares:
    """Score rows as `importance` does, and keep the share of every row; settings: those of `ImportanceAccumulator`.

    Nothing is said aloud: `said` has what is to be said about the model, for the caller to say once.
    """
    given = {"sample_weight": sample_weight, "clusters": None, "base_margin": base_margin, "qid": qid}
    done, batch = take_passes(ImportanceAccumulator(model, **settings), X, y, keep=True, **given)
    found, said = done._conclude(tested=False)  # raises if there are no rows
    assert batch is not None
    assert batch.shares is not None
    return RowShares(batch.shares, batch.weight, found, said)


def importance_of_shares(
    shares: FloatArray,
    weight: FloatArray | None,
    *,
    like: Importance,
    score: FloatArray | None = None,
    clusters: NDArray[Any] | None = None,
    confidence: float = CONFIDENCE,
    **changed: Any,
) -> Importance:
    """Importance from the shares of independent rows, (rows, features, outputs), with their weights in them.

    Parameters
    ----------
    weight
        (rows,); None: every row counts as 1.
    like
        An importance of the same kind: score, method, and what else is not given here.
    score
        (features, outputs): sums of the shares, where they are known better than by adding these up.
    clusters
        Label of each row; only clusters are independent.
    changed
        Other fields of the result that are not those of `like`: notes, losses, feature_names, output_names.
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
            "statistics": whole.scaled(1.0 / total),
            "outputs": None if outputs is None else outputs.scaled(1.0 / total),
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
