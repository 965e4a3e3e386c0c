"""Losses whose gradient needs the other rows of the query: lambdarank, rank:*, QueryRMSE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.losses.loss import Float, Loss, integers_below
from treeinner.losses.loss import sigmoid as logistic
from treeinner.losses.regression import NOT_NEGATIVE, TARGET_UNITS, ZERO_OR_ONE

# LightGBM looks its sigmoid up in a table of this many bins over +-25 / sigmoid.
SIGMOID_BINS = 1024 * 1024
MAX_LABEL = 31  # label_gain defaults to 2^label - 1 for labels 0 .. 30

Pairs = tuple[NDArray[np.intp], NDArray[np.intp], Float, Float]


def queries(qid: NDArray[Any]) -> Iterator[NDArray[np.intp]]:
    """Yield the rows of each query, in their order; a query's rows need not be neighbours."""
    _, codes = np.unique(qid, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _pairwise(name: str, pairs: Callable[..., Pairs], *, norm: bool, single: bool, **fields: Any) -> Loss:
    """Loss whose gradients are sums over pairs of rows of a query.

    `pairs(label, score)` gets the rows of one query, best score first, and returns the better and the worse row of each
    pair with the pair's first and second derivative. What a pair counts for and a query's norm are taken as constants,
    as the libraries take them. `single`: rows are ranked by their score in float32.
    """

    def derivative(which: int, y: Float, m: Float, qid: NDArray[Any]) -> Float:
        out = np.zeros_like(m)
        score = m[:, 0].astype(np.float32).astype(np.float64) if single else m[:, 0]
        for rows in queries(qid):
            order = rows[np.argsort(-score[rows], kind="stable")]
            high, low, slope, bend = pairs(y[order, 0], score[order])
            np.add.at(out[:, 0], order[high], (slope, bend)[which])
            np.add.at(out[:, 0], order[low], (-slope, bend)[which])
            total = -2.0 * slope.sum()
            if norm and total > 0:
                out[order] *= np.log2(1.0 + total) / total
        return out

    functions: dict[str, Any] = {"gradient": partial(derivative, 0), "curvature": partial(derivative, 1)}
    return Loss(name=name, words=f"{name} loss", scope="query", unit="ranking score", **functions, **fields)


def lambdarank(*, sigmoid: float, norm: bool, truncation_level: int, label_gain: Sequence[float]) -> Loss:
    """LightGBM's lambdarank (NDCG), without position bias; y holds relevance labels 0, 1, 2, ..."""
    gain = np.asarray(label_gain or 2.0 ** np.arange(MAX_LABEL) - 1.0, np.float64)

    def pairs(y: Float, score: Float) -> Pairs:
        label = y.astype(np.int64)
        high, low = _ranked_pairs(label, truncation_level)
        difference = score[high] - score[low]
        change = _change_of_ndcg(gain[label], high, low, truncation_level)
        if norm and len(label) and score[0] != score[-1]:
            change = change / (np.float64(np.float32(0.01)) + np.abs(difference))
        chance = _table_sigmoid(difference, sigmoid)
        return high, low, -sigmoid * change * chance, sigmoid**2 * change * chance * (1.0 - chance)

    return _pairwise("lambdarank", pairs, norm=norm, single=False, domain=integers_below(len(gain)))


def _table_sigmoid(x: Float, sigmoid: float) -> Float:
    """1 / (1 + e^(sigmoid x)) rounded down to LightGBM's table."""
    low = -50.0 / sigmoid / 2.0
    factor = SIGMOID_BINS / (-2.0 * low)
    index = np.clip(np.floor((x - low) * factor), 0, SIGMOID_BINS - 1)
    return 1.0 / (1.0 + np.exp((index / factor + low) * sigmoid))


def xgboost_rank(metric: str, *, top: int, norm: bool, score_norm: bool, exp_gain: bool) -> Loss:
    """XGBoost's rank:ndcg, rank:map, rank:pairwise; pairs by the "topk" method, no position bias."""

    def pairs(label: Float, score: Float) -> Pairs:
        high, low = _ranked_pairs(label, top)
        if metric == "ndcg":
            change = _change_of_ndcg(2.0**label - 1.0 if exp_gain else label, high, low, top)
        elif metric == "map":
            change = np.abs(_change_of_map(label, high, low))
        else:
            change = np.ones(len(high))
        difference = score[high] - score[low]
        if score_norm and len(score) and score[0] != score[-1]:
            change = change / (np.abs(difference) + 0.01)
        chance = logistic(difference)
        return high, low, (chance - 1.0) * change, chance * (1.0 - chance) * change

    domain = ZERO_OR_ONE if metric == "map" else integers_below(MAX_LABEL + 1) if exp_gain else NOT_NEGATIVE
    # XGBoost's weights are per query and normalised.
    return _pairwise(f"rank:{metric}", pairs, norm=norm, single=True, domain=domain, multiplies_weights=False)


def _ranked_pairs(label: NDArray[Any], top: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions (better label, worse label) of all pairs with one row among the first `top`."""
    i, j = np.triu_indices(len(label), 1)
    keep = (i < top) & (label[i] != label[j])
    i, j = i[keep], j[keep]
    first_wins = label[i] > label[j]
    return np.where(first_wins, i, j), np.where(first_wins, j, i)


def _change_of_ndcg(gain: Float, high: NDArray[np.intp], low: NDArray[np.intp], top: int) -> Float:
    """Change of the normalised discounted gain when two rows swap places."""
    discount = 1.0 / np.log2(np.arange(len(gain)) + 2.0)
    best = (np.sort(gain)[::-1] * discount)[:top].sum()
    return np.asarray((gain[high] - gain[low]) * np.abs(discount[high] - discount[low]) / (best or 1.0))


def _change_of_map(label: Float, high: NDArray[np.intp], low: NDArray[np.intp]) -> Float:
    """Change of the average precision when two rows swap places."""
    relevant, rank = np.cumsum(label), np.arange(len(label)) + 1.0
    precision = np.cumsum(label / rank)
    first, last = np.minimum(high, low), np.maximum(high, low)
    between = precision[last - 1] - precision[first]
    up = relevant[last] / rank[last] - (relevant[first] + 1.0) / rank[first] - between
    down = relevant[first] / rank[first] - relevant[last] / rank[last] + between
    return np.asarray(np.where(label[first] < label[last], up, down) / max(relevant[-1], 1.0))


def query_rmse() -> Loss:
    """CatBoost's QueryRMSE without weights: squared error after removing each query's mean residual."""

    def residual(y: Float, m: Float, qid: NDArray[Any]) -> Float:
        r = m - y
        for rows in queries(qid):
            r[rows] -= r[rows].mean()
        return r

    def own_part(y: Float, m: Float, qid: NDArray[Any]) -> Float:
        _, code, rows = np.unique(qid, return_inverse=True, return_counts=True)
        return np.asarray(1.0 - 1.0 / rows[code][:, None])

    return Loss(
        name="",
        words="half the squared error within queries",
        value=lambda y, m, qid: 0.5 * residual(y, m, qid) ** 2,
        gradient=residual,
        curvature=own_part,
        scope="query",
        multiplies_weights=False,  # they enter the query's mean too
        unit=TARGET_UNITS,
        least=np.zeros_like,
    )
