"""Scores by segment of the rows: node values are those of all rows, taken as fixed, so that segments add up.

A segment against the other rows compares different rows, so errors add up in squares; q values are over all cells of
the table, which is what one looks through. That a feature is the same in all segments is tested by Cochran's Q, whose p
value is Welch's, since the errors were estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from reprlib import repr as cut
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, Note
from treeinner.rows.segments import in_order
from treeinner.score import infer
from treeinner.score.infer import Statistics, difference, of_clusters, of_sums
from treeinner.score.result import BySegment, Importance
from treeinner.score.sums import Sums

__all__ = ["with_segments"]

Float = NDArray[np.float64]
NAMES, HOLDS = ("score", "std_error", "df", "p_value", "q_value"), ("holds", "holds_std_error")
FEW = 30  # rows of a segment, below which its errors are rough


def with_segments(found: Importance, share: Sums) -> Importance:
    """The importance of all rows with that of their segments; share: sums of the pass that gave every row its share."""
    labels = in_order(list(share.segments or {}))
    parts = [(share.segments or {})[label] for label in labels]
    if len(parts) < 2:
        raise DataError(f"by has one level, {labels[0]!r}, in all rows that count; segments need at least two.")
    weights = np.array([part.sum_of_weights() for part in parts])
    own, apart = (_by_cluster if parts[0].clusters is not None else _by_row)(parts, weights)
    # Rounding, and what is taken off for small nodes of forests, is that of all rows: each row has the same part of it.
    own = replace(own, score=own.score + (found.scores - weights @ own.score / weights.sum()))
    losses = [part.loss_sums() for part in parts] if found.losses is not None else []
    by = BySegment(
        labels=labels,
        rows=np.array([part.rows for part in parts]),
        weights=np.ldexp(weights, parts[0].weight_exponent),
        statistics=own,
        difference=apart,
        same=infer.same_everywhere(own),
        loss_before=np.array([each["before"] for each in losses]) / weights if losses else None,
        loss_after=np.array([each["after"] for each in losses]) / weights if losses else None,
    )
    notes = found.notes
    if few := [f"{cut(label)} ({part.units})" for label, part in zip(labels, parts, strict=True) if part.units < FEW]:
        shown = max(n for n in (1, 2, 3) if n == 1 or len(", ".join(few[:n])) < 52)
        named = ", ".join(few[:shown]) + ", ..." * (len(few) > shown)
        text = f"Segments with fewer than {FEW} rows: {named}; their errors are rough. Put small ones together."
        notes = (*notes, Note("small_segments", text))
    return replace(found, by_segment=by, notes=notes)


def _by_row(parts: Sequence[Sums], weights: Float) -> tuple[Statistics, Statistics]:
    """Statistics of each segment, (segments, features), and of its difference from all other rows."""
    limbs = ((name, [getattr(part, name) for part in parts]) for name in ("shares", "fourths", "signal"))
    of_all: dict[str, Any] = {name: np.stack(some, axis=-3) for name, some in limbs if some[0] is not None}
    stacked = replace(parts[0], **of_all)
    powers = stacked.share_sums()
    units, weight = np.array([part.units for part in parts])[:, None], weights[:, None]
    own = of_sums(powers[0], powers[1], powers[2], units, factor=1.0 / weight)
    others = powers.sum(axis=1, keepdims=True) - powers
    rest = of_sums(others[0], others[1], others[2], units.sum() - units, factor=1.0 / (weight.sum() - weight))
    if parts[0].signal is not None:
        own = replace(own, **dict(zip(HOLDS, infer.holds_of_sums(stacked.signal_sums()[1:], units), strict=True)))
    return _over_all(own), _over_all(difference(own, rest))


def _by_cluster(parts: Sequence[Sums], weights: Float) -> tuple[Statistics, Statistics]:
    """The same where only clusters are independent; one with rows on both sides moves both."""
    labels = [part.labels for part in parts if part.labels is not None]
    clusters = np.unique(np.concatenate(labels))
    places = [np.searchsorted(clusters, own) for own in labels]
    columns = len(parts[0].share_sums()[0])
    sums, *terms = zip(*(np.split(part.cluster_sums(), range(columns, 3 * columns, columns), 1) for part in parts))  # noqa: B905
    total, segments = np.zeros((len(clusters), columns)), np.zeros(len(clusters), np.intp)
    for place, own in zip(places, sums, strict=True):
        total[place] += own
        segments[place] += 1
    found, apart = [], []
    for place, own, weight in zip(places, sums, weights, strict=True):
        left, others, rest_weight = total.copy(), segments.copy(), weights.sum() - weight
        left[place] -= own
        others[place] -= 1
        there, both = others > 0, others[place] > 0
        moves = ((own - own.mean(axis=0))[both] * (left[place] - left[there].mean(axis=0))[both]).sum(axis=0)
        sides = of_clusters(own, factor=1.0 / weight), of_clusters(left[there], factor=1.0 / rest_weight)
        found.append(sides[0])
        apart.append(difference(*sides, moves / (weight * rest_weight)))
    stacked = [
        Statistics(*(np.array([getattr(part, name) for part in some]) for name in NAMES)) for some in (found, apart)
    ]
    if terms[0][0].shape[1]:
        holds = [infer.holds_of_clusters(*pair) for pair in zip(*terms, strict=True)]
        stacked[0] = replace(stacked[0], **dict(zip(HOLDS, map(np.array, zip(*holds)), strict=True)))  # noqa: B905
    return _over_all(stacked[0]), _over_all(stacked[1])


def _over_all(found: Statistics) -> Statistics:
    """The same with q values over all segments and features."""
    p = found.p_value
    return replace(found, q_value=infer.benjamini_hochberg(p.ravel()).reshape(p.shape))
