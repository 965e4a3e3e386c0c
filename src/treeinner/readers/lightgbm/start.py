"""Where LightGBM's boosting started, and how far each tree stepped.

With boost_from_average LightGBM adds the starting margin b to every value of the first iteration's trees (of
every tree in a random forest) and sets the learning rate written there to 1. Neither number is written
anywhere else. The margin is found again from one of two facts:

    balance      the gradients add up to 0 at the average, and so does (H + lam) * (v - b) over the leaves
    consistency  with lam > 0 the formula of inner values fits the stored digits for one b only

and the rate from the stored gains, which are in the units of the gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from treeinner.readers._trees import FloatArray, LongArray
from treeinner.readers.lightgbm.text import ModelText
from treeinner.readers.lightgbm.values import (
    Layout,
    Sums,
    Training,
    half_unit,
    lay_out,
    many_vs_many,
    sum_leaves,
)

__all__ = ["Start", "find_start"]


# Losses whose gradients add up to 0 at LightGBM's starting margin.
BALANCED = frozenset(
    {"regression", "binary", "cross_entropy", "poisson", "gamma", "tweedie", "multiclass", "multiclassova"}
)
AVERAGING = BALANCED | {"regression_l1", "quantile", "mape", "huber", "fair", "cross_entropy_lambda"}
SAME_RATE = 2e-3  # gains have six digits; learning rates differ by more than this


@dataclass(frozen=True, eq=False)
class Start:
    """Starting margin and steps, per tree."""

    intercept: FloatArray  # (trees,) part of the tree's leaf values
    rate: FloatArray  # (trees,) learning rate
    weight: FloatArray  # (trees,) what else multiplies the tree: DART, 1 / trees
    notes: list[str]  # what is not exact about it
    label_weights: tuple[float, float] | None  # (negative, positive) where is_unbalance chose them


def find_start(model: ModelText, training: Training, per_round: int, n_columns: int) -> Start:
    """Intercept, learning rate and weight of every tree; only those that may hold an intercept are looked at."""
    n_trees, forest = model.n_trees, training.boosting == "rf"
    intercept, notes = np.zeros(n_trees), []
    rate, weight = _written_rates(model, training)
    label_weights = None
    later = model.shrinkage[(model.n_leaves > 1) & (model.shrinkage != 1)]
    if not forest:
        model = model.first(per_round)
    layout = lay_out(model)
    sums = sum_leaves(model, layout, training, many_vs_many(model, training, n_columns))
    view = _View(model, layout, training, sums, tuple(later[:1].tolist()))
    for output in range(per_round):
        group = np.arange(output, n_trees, per_round) if forest else np.array([output])
        constant = group[model.n_leaves[group] == 1]
        intercept[constant] = model.leaf_value[np.searchsorted(layout.leaf, layout.start[constant])]
        rate[constant] = 1.0 if forest or np.isnan(training.rate) else training.rate
        grown = group[model.n_leaves[group] > 1]
        if not len(grown):
            continue
        if not view.has_intercept(grown):
            if view.suspicious(grown) and not forest:
                notes.append(
                    "the first tree holds no average, so the model was trained with init_score; pass it as base_margin"
                )
            continue
        found = view.intercept(grown)
        intercept[grown] = found.value
        label_weights = found.label_weights or label_weights
        if not found.exact:
            notes.append("the starting margin (boost_from_average) had to be estimated")
        elif not found.proved and view.ambiguous(grown):
            notes.append(
                "at learning_rate 1 without lambda_l2 nothing shows whether there was an init_score; "
                "exact if there was none"
            )
        if not forest:
            rate[output] = view.first_rate(output, found.value)
            if training.boosting == "dart":
                weight[output] = model.shrinkage[output]
    if forest:
        weight = weight / max(n_trees // per_round, 1)
    return Start(intercept, rate, weight, list(dict.fromkeys(notes)), label_weights)


def _written_rates(model: ModelText, training: Training) -> tuple[FloatArray, FloatArray]:
    """Learning rate and weight as the trees carry them."""
    ones = np.ones(model.n_trees)
    if training.boosting == "rf":
        return ones, ones.copy()
    if training.boosting == "dart":
        return training.rate * ones, model.shrinkage / training.rate
    return model.shrinkage.copy(), ones


@dataclass(frozen=True)
class _Found:
    value: float
    exact: bool
    label_weights: tuple[float, float] | None = None
    proved: bool = False  # by two equations


@dataclass(frozen=True, eq=False)
class _View:
    """The trees that share one starting margin, looked at from their roots."""

    model: ModelText
    layout: Layout
    training: Training
    sums: Sums
    later_rate: tuple[float, ...]  # of the first tree that carries its learning rate, if there is one

    def has_intercept(self, trees: LongArray) -> bool:
        """Say whether a starting margin was added to these trees."""
        training, written = self.training, float(self.model.shrinkage[trees[0]])
        allowed = training.objective in AVERAGING and training.average
        if training.boosting == "rf":
            return allowed
        known = self._known_rates()
        if training.boosting == "dart":
            # The text has f with an intercept and rate * f without one, f from later drops: the gain tells.
            step = self._step_from_gain(int(trees[0]), self._balanced(trees))
            if np.isnan(step) or training.rate == 1:
                return allowed and written != training.rate
            return abs(step / written - 1) > SAME_RATE
        if written != 1:
            return False
        return allowed or (len(known) > 0 and all(rate != 1 for rate in known))

    def suspicious(self, trees: LongArray) -> bool:
        """Say whether an intercept is missed: boost_from_average is on, but the gradients do not cancel."""
        training = self.training
        if not (training.objective in BALANCED and training.average and training.known) or training.sampled:
            return False
        root = self.layout.start[trees]
        if self._class_weights:
            left = self._imbalance(trees, float(self.model.shrinkage[trees[0]]), np.zeros(1))[0]
        else:
            left = self.sums.weighted[root].sum()
        leaves = np.abs(self.model.leaf_value[self.layout.tree_of_leaf == trees[0]]).max()
        return bool(abs(left) > 1e-6 * leaves * self.sums.weight[root].sum())

    def ambiguous(self, trees: LongArray) -> bool:
        """Say whether a first tree without an intercept would look the same."""
        same_rate = any(rate == 1 for rate in self._known_rates())
        return self.training.boosting != "rf" and same_rate and np.isinf(self._consistent(trees)[1])

    def intercept(self, trees: LongArray) -> _Found:
        """Find the starting margin that is part of these trees' values."""
        training = self.training
        leaves = self.model.leaf_value[np.isin(self.layout.tree_of_leaf, trees)]
        spread = float(np.ptp(leaves))
        stored = self._stored_root(trees)
        if training.route != "newton":
            # The root's stored value is the intercept plus a step of about 0.
            if stored is not None and half_unit(np.array([stored]))[0] < 0.05 * spread:
                return _Found(stored, exact=False)
            return _Found(self._balanced(trees), exact=False)
        other, error = self._consistent(trees)
        found = _Found(self._balanced(trees), exact=False)
        if training.objective in BALANCED and not training.sampled:
            found = self._weighted_balance(trees)
            if found.exact and not abs(found.value - other) > 8 * error + 1e-4 * spread:
                return found
        if error < 1e-3 * spread:
            return _Found(other, exact=False)
        root_is_start = not np.any(self.sums.plain_root[trees])  # LightGBM 3 writes no step there
        if root_is_start and stored is not None and half_unit(np.array([stored]))[0] < 1e-3 * spread:
            return _Found(stored, exact=False)
        return _Found(found.value, exact=False)

    def first_rate(self, tree: int, intercept: float) -> float:
        """Learning rate of a tree whose text says 1."""
        known = self._known_rates()
        step = self._step_from_gain(tree, intercept)
        if self.training.boosting == "dart":
            return self.training.rate
        for rate in known:
            if np.isnan(step) or abs(step / rate - 1) < SAME_RATE:
                return rate
        return step

    def _known_rates(self) -> list[float]:
        """Rates the first tree may have had: the parameters block's, a later tree's."""
        return [rate for rate in (self.training.rate, *self.later_rate) if not np.isnan(rate)]

    def _balanced(self, trees: LongArray) -> float:
        root = self.layout.start[trees]
        total = self.sums.weight[root].sum()
        return float(self.sums.weighted[root].sum() / total) if total > 0 else 0.0

    def _weighted_balance(self, trees: LongArray) -> _Found:
        """Balance, with the classes' weights that LightGBM forgets when it takes the average."""
        plain = self._balanced(trees)
        if not self._class_weights:
            return _Found(plain, exact=True)
        other, error = self._consistent(trees)
        near = plain if np.isinf(error) else other
        from_gain = self._step_from_gain(int(trees[0]), near)
        steps = [1.0] if self.training.boosting == "rf" else [*self._known_rates(), from_gain]
        grid = np.linspace(-36, 36, 14401) / self.training.sigmoid  # every share that float64 can hold
        by_hessian = _roots(lambda margin: self._misfit(trees, margin), grid)
        best, gap, guesses = (plain, plain, 1.0), np.inf, []
        for step in (step for step in steps if not np.isnan(step)):
            by_balance = _roots(partial(self._imbalance, trees, step), grid)
            guesses += by_balance.tolist()
            gaps = np.abs(by_balance[:, None] - by_hessian[None, :])
            if gaps.size and gaps.min() < gap:
                i, j = np.unravel_index(np.argmin(gaps), gaps.shape)
                best, gap = (float(by_balance[i]), float(by_hessian[j]), step), gaps.min()
        if gap < 1e-4:  # what float32 gradients allow where one of the equations is flat
            return self._pair(trees, *best)
        # Rows with weights of their own spoil the second equation; then nothing proves the first one's root.
        return _Found(min(guesses, key=lambda guess: abs(guess - near), default=near), exact=False)

    def _pair(self, trees: LongArray, by_balance: float, by_hessian: float, step: float) -> _Found:
        """Choose of two roots that agree the one whose equation is steeper there."""
        at = np.array([by_balance - 1e-4, by_balance + 1e-4])
        weight = self.sums.weight[self.layout.start[trees]].sum()
        steep = np.abs(np.diff([self._imbalance(trees, step, at) / weight, self._misfit(trees, at)]))[:, 0]
        margin = by_balance if steep[0] >= steep[1] else by_hessian
        negative, positive = self._label_weights(_logistic(self.training.sigmoid * np.array([margin])))
        labels = (float(negative[0]), float(positive[0])) if self.training.unbalanced else None
        return _Found(margin, exact=True, label_weights=labels, proved=True)

    @property
    def _class_weights(self) -> bool:
        training = self.training
        weighted = training.pos_weight != 1 or training.unbalanced
        return weighted and training.objective in ("binary", "multiclassova")

    def _imbalance(self, trees: LongArray, step: float, margin: FloatArray) -> FloatArray:
        """Take the gradients at the average off the leaves' sum: 0 at the true margin."""
        root, s = self.layout.start[trees], self.training.sigmoid
        share = _logistic(s * margin)
        negative, positive = self._label_weights(share)
        gradient = (negative - positive) / (s * (positive * share + negative * (1 - share)))
        total = self.sums.weighted[root].sum() - margin * self.sums.weight[root].sum()
        return np.asarray(total + step * self.sums.hessian[root].sum() * gradient)

    def _misfit(self, trees: LongArray, margin: FloatArray) -> FloatArray:
        """Relative distance of the hessian sum from what it must be where no row has a weight of its own."""
        s, share = self.training.sigmoid, _logistic(self.training.sigmoid * margin)
        negative, positive = self._label_weights(share)
        mean = s * s * share * (1 - share) * (positive * share + negative * (1 - share))
        return np.asarray(self._rows(trees) * mean / self.sums.hessian[self.layout.start[trees]].sum() - 1)

    def _label_weights(self, share: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights of the negative and the positive class, given the share of positives."""
        if not self.training.unbalanced:
            return np.ones_like(share), np.full_like(share, self.training.pos_weight)
        odds = share / np.maximum(1 - share, 1e-300)
        return np.where(share > 0.5, odds, 1.0), np.where(share > 0.5, 1.0, 1 / np.maximum(odds, 1e-300))

    def _rows(self, trees: LongArray) -> float:
        counts = self.model.leaf_count
        return 0.0 if counts is None else float(counts[np.isin(self.layout.tree_of_leaf, trees)].sum())

    def _stored_root(self, trees: LongArray) -> float | None:
        if self.model.internal_value is None:
            return None
        return float(np.mean(self.model.internal_value[np.searchsorted(self.layout.tree_of_inner, trees)]))

    def _consistent(self, trees: LongArray) -> tuple[float, float]:
        """Find the intercept that lets the stored digits fit, and its error; (0, inf) where nothing tells."""
        nodes = np.flatnonzero(np.isin(self.layout.tree_of_inner, trees))
        at = self.layout.inner[nodes]
        is_root = at == self.layout.start[self.layout.tree_of_inner[nodes]]
        keep = ~is_root | self.sums.plain_root[self.layout.tree_of_inner[nodes]]
        if self.model.internal_value is None or not self.training.known or not np.any(keep):
            return 0.0, np.inf
        nodes, at = nodes[keep], at[keep]
        stored = self.model.internal_value[nodes]
        own = (self.sums.hessian + self.sums.lam)[at]
        left_over = self.sums.weighted[at] - own * stored
        slope = self.sums.weight[at] - own
        noise = own * np.maximum(half_unit(stored), 1e-8 * np.abs(stored).max() + 1e-300)
        information = float(np.sum((slope / noise) ** 2))
        if not information > 0 or np.abs(slope).max() < 1e-9 * own.max():
            return 0.0, np.inf
        return float(np.sum(slope * left_over / noise**2) / information), information**-0.5

    def _step_from_gain(self, tree: int, intercept: float) -> float:
        """Learning rate (times DART's weight) that turns the gains into these leaf values; NaN if unknown."""
        training, gain = self.training, self.model.split_gain
        if gain is None or training.route != "newton" or training.gain_altered:
            return np.nan
        nodes = np.flatnonzero(self.layout.tree_of_inner == tree)
        at = self.layout.inner[nodes]
        total = self.sums.weighted - intercept * self.sums.weight  # rate times gradient sums
        own = self.sums.hessian + self.sums.lam
        with np.errstate(divide="ignore", invalid="ignore"):
            children = sum(total[c] ** 2 / own[c] for c in (self.layout.left[at], self.layout.right[at]))
            # LightGBM's own gain takes the parent without cat_l2.
            reduction = children - total[at] ** 2 / (self.sums.hessian[at] + training.reg_lambda)
            step = np.sqrt(np.sum(reduction) / np.sum(gain[nodes]))
        return float(step) if np.isfinite(step) and step > 0 else np.nan


def _logistic(margin: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-margin)))


def _roots(function: Callable[[FloatArray], FloatArray], grid: FloatArray) -> FloatArray:
    """Roots of a function, one for each step of the grid in which it changes sign."""
    sign = function(grid) > 0
    at = np.flatnonzero(sign[:-1] != sign[1:])
    low, high, low_sign = grid[at], grid[at + 1], sign[at]
    for _ in range(60):
        middle = (low + high) / 2
        same = (function(middle) > 0) == low_sign
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return np.asarray((low + high) / 2)
