"""Scores by segment of the rows: node values are those of all rows, taken as fixed, so that segments add up.

A segment against the other rows compares different rows, so errors add up in squares; q values are over all cells of
the table, which is what one looks through. That a feature is the same in all segments is tested by Cochran's Q, whose p
value is Welch's, since the errors were estimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, Note
from treeinner.rows.segments import check_number_of_segments, in_order
from treeinner.score.conclude import statistics_of
from treeinner.score.infer import Statistics, benjamini_hochberg, difference, of_clusters, same_everywhere
from treeinner.score.result import BySegment, Importance
from treeinner.score.sums import Sums

__all__ = ["with_segments"]

Float = NDArray[np.float64]
FEW = 30  # rows of a segment, below which its errors are rough


def with_segments(found: Importance, share: Sums) -> Importance:
    """The importance of all rows with that of their segments; share: sums of the pass that gave every row its share."""
    labels = in_order(list(share.segments or {}))
    parts = [(share.segments or {})[label] for label in labels]
    if len(parts) < 2:
        raise DataError(f"by has one level, {labels[0]!r}, in all rows that count; segments need at least two.")
    check_number_of_segments(labels)
    weights = np.array([part.sum_of_weights() for part in parts])
    own = _stacked([statistics_of(part, 1)[0] for part in parts])
    # Rounding, and what is taken off for small nodes of forests, is that of all rows: each row has the same part of it.
    own = replace(own, score=own.score + (found.scores - weights @ own.score / weights.sum()))
    apart = _stacked([difference(*pair) for pair in _against_rest(parts, weights)])
    losses = [part.loss_sums() for part in parts] if found.losses is not None else []
    by = BySegment(
        labels=labels,
        rows=np.array([part.rows for part in parts]),
        weights=np.ldexp(weights, parts[0].weight_exponent),
        statistics=own,
        difference=apart,
        same=same_everywhere(own),
        loss_before=np.array([each["before"] for each in losses]) / weights if losses else None,
        loss_after=np.array([each["after"] for each in losses]) / weights if losses else None,
    )
    notes = found.notes
    if few := [f"{label!r} ({part.units})" for label, part in zip(labels, parts, strict=True) if part.units < FEW]:
        named = ", ".join(few[:3]) + (", ..." if len(few) > 3 else "")
        text = f"Segments with fewer than {FEW} rows: {named[:70]}; their errors are rough. Put small ones together."
        notes = (*notes, Note("small_segments", text))
    return replace(found, by_segment=by, notes=notes)


def _stacked(parts: Sequence[Statistics]) -> Statistics:
    """Statistics of segments as one, (segments, features), with q values over all of them."""
    held = {each.name: [getattr(part, each.name) for part in parts] for each in fields(Statistics)}
    arrays: dict[str, Any] = {name: None if some[0] is None else np.array(some) for name, some in held.items()}
    p = arrays["p_value"]
    return Statistics(**arrays | {"q_value": benjamini_hochberg(p.ravel()).reshape(p.shape)})


def _against_rest(parts: Sequence[Sums], weights: Float) -> Iterator[tuple[Statistics, Statistics, Float | float]]:
    """Statistics of each segment and of all other rows, and the covariance of their scores."""
    if parts[0].clusters is None:
        every = sum(parts[1:], start=parts[0])
        for part in parts:
            rest = replace(every, units=every.units - part.units, signal=None)
            for name in ("weight", "shares", "fourths"):
                setattr(rest, name, getattr(every, name) - getattr(part, name))
            yield statistics_of(replace(part, signal=None), 1)[0], statistics_of(rest, 1)[0], 0.0
        return
    clusters = np.unique(np.concatenate([part.labels for part in parts]))
    places = [np.searchsorted(clusters, labels) for labels in (part.labels for part in parts) if labels is not None]
    sums = [part.cluster_sums()[:, : len(part.share_sums()[0])] for part in parts]
    total, segments = np.zeros((len(clusters), sums[0].shape[1])), np.zeros(len(clusters), np.intp)
    for place, own in zip(places, sums, strict=True):
        total[place] += own
        segments[place] += 1
    for place, own, weight in zip(places, sums, weights, strict=True):
        left, others = total.copy(), segments.copy()
        left[place] -= own
        others[place] -= 1
        there, rest_weight = others > 0, weights.sum() - weight
        # A cluster with rows on both sides moves both.
        both = there[place]
        moves = ((own - own.mean(axis=0))[both] * (left[place] - left[there].mean(axis=0))[both]).sum(axis=0)
        one, other = of_clusters(own, factor=1.0 / weight), of_clusters(left[there], factor=1.0 / rest_weight)
        yield one, other, moves / (weight * rest_weight)
