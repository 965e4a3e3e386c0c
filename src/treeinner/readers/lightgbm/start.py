"""Where LightGBM's boosting started, and how far each tree stepped.

With boost_from_average LightGBM adds the starting margin b to every value of the first iteration's trees (of every tree
in a random forest) and sets the learning rate written there to 1. Neither number is written anywhere else. The margin
is found again from one of two facts:

    balance      the gradients add up to 0 at the average, and so does (H + lam) * (v - b) over the leaves
    consistency  with lam > 0 the formula of inner values fits the stored digits for one b only

and the rate from the stored gains, which are in the units of the gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from treeinner.readers._trees import FloatArray, LongArray
from treeinner.readers.lightgbm.text import ModelText
from treeinner.readers.lightgbm.values import Training, Trees, half_unit

__all__ = ["NO_AVERAGE", "Start", "find_start"]


# Losses whose gradients add up to 0 at LightGBM's starting margin.
BALANCED = frozenset(
    {"regression", "binary", "cross_entropy", "poisson", "gamma", "tweedie", "multiclass", "multiclassova"}
)
AVERAGING = BALANCED | {"regression_l1", "quantile", "mape", "huber", "fair", "cross_entropy_lambda"}
NO_AVERAGE = "the first tree holds no average, so the model was trained with init_score; pass it as base_margin"
SAME_RATE = 2e-3  # gains have six digits; learning rates differ by more than this


@dataclass(frozen=True, eq=False)
class Start:
    """Starting margin and steps, per tree."""

    intercept: FloatArray  # (trees,) part of the tree's leaf values
    rate: FloatArray  # (trees,) learning rate
    weight: FloatArray  # (trees,) what else multiplies the tree: DART, 1 / trees
    notes: list[str]  # what is not exact about it
    label_weights: tuple[float, float] | None  # (negative, positive) where is_unbalance chose them


def find_start(model: ModelText, training: Training, per_round: int) -> Start:
    """Intercept, learning rate and weight of every tree; only those that may hold an intercept are looked at."""
    n_trees, forest, dart = model.n_trees, training.boosting == "rf", training.boosting == "dart"
    intercept, rate, weight = np.zeros(n_trees), np.ones(n_trees), np.ones(n_trees)
    if forest:
        weight = weight / (n_trees // per_round)
    elif dart:
        rate, weight = training.learning_rate * rate, model.shrinkage / training.learning_rate
    else:
        rate = model.shrinkage.copy()
    later = model.shrinkage[(model.n_leaves > 1) & (model.shrinkage != 1)]
    known_rates = [known for known in (training.learning_rate, *later[:1].tolist()) if not np.isnan(known)]
    notes, label_weights = [], None
    trees = Trees(model if forest else replace(model, trees=model.trees[:per_round]), training)
    for output in range(per_round):
        members = np.arange(output, trees.model.n_trees, per_round)
        lone = trees.model.n_leaves[members] == 1
        constant, grown = members[lone], members[~lone]
        intercept[constant] = trees.model.leaf_value[np.searchsorted(trees.leaf, trees.start[constant])]
        rate[constant] = 1.0 if forest or np.isnan(training.learning_rate) else training.learning_rate
        if not len(grown):
            continue
        group = _Group(trees, grown, known_rates)
        if not group.has_intercept():
            if not forest and group.suspicious():
                notes.append(NO_AVERAGE)
            continue
        found = group.intercept()
        intercept[grown] = found.value
        label_weights = found.label_weights or label_weights
        if not found.exact:
            notes.append("the starting margin (boost_from_average) had to be estimated")
        elif not found.proved and not forest and 1 in known_rates and np.isinf(group.consistent[1]):
            notes.append(  # a first tree without an intercept would look the same
                "at learning_rate 1 without lambda_l2 nothing shows whether there was an init_score; "
                "exact if there was none"
            )
        if dart:
            rate[output], weight[output] = training.learning_rate, model.shrinkage[output]
        elif not forest:
            rate[output] = group.first_rate(found.value)
    return Start(intercept, rate, weight, list(dict.fromkeys(notes)), label_weights)


@dataclass(frozen=True)
class _Found:
    value: float
    exact: bool = False
    label_weights: tuple[float, float] | None = None
    proved: bool = False  # by two equations


class _Group:
    """The trees that share one starting margin, looked at from their roots."""

    def __init__(self, trees: Trees, members: LongArray, known_rates: list[float]) -> None:
        self.trees, self.model, self.training = trees, trees.model, trees.training
        self.members = members
        self.known_rates = known_rates  # that the first tree may have had: the parameters block's, a later tree's
        root = trees.start[members]
        self.weighted, self.weight, self.hessian = (
            math.fsum(sums[root]) for sums in (trees.weighted, trees.weight, trees.hessian)
        )
        self.balanced = self.weighted / self.weight if self.weight > 0 else 0.0
        self.leaves = np.isin(trees.tree_of_leaf, members)

    def has_intercept(self) -> bool:
        """Say whether a starting margin was added to these trees."""
        training, written = self.training, float(self.model.shrinkage[self.members[0]])
        allowed = training.objective in AVERAGING and training.average
        if training.boosting == "rf":
            return allowed
        if training.boosting == "dart":
            # The text has f with an intercept and rate * f without one, f from later drops: the gain tells.
            step = self._step_from_gain(self.balanced)
            if np.isnan(step) or training.learning_rate == 1:
                return allowed and written != training.learning_rate
            return written <= 0 or abs(step / written - 1) > SAME_RATE
        return written == 1 and (allowed or (len(self.known_rates) > 0 and 1 not in self.known_rates))

    def suspicious(self) -> bool:
        """Say whether an intercept is missed: boost_from_average is on, but the gradients do not cancel."""
        training, left = self.training, self.weighted
        if not (training.objective in BALANCED and training.average and training.known) or training.sampled:
            return False
        if training.class_weights:
            left = self._imbalance(float(self.model.shrinkage[self.members[0]]), np.zeros(1))[0]
        return bool(abs(left) > 1e-6 * np.abs(self.model.leaf_value[self.leaves]).max() * self.weight)

    def intercept(self) -> _Found:
        """Find the starting margin that is part of these trees' values."""
        training, trees = self.training, self.trees
        spread = float(np.ptp(self.model.leaf_value[self.leaves]))
        roots = np.searchsorted(trees.tree_of_inner, self.members)
        stored = float(np.mean(self.model.internal_value[roots]))
        unsure = half_unit(np.array([stored]))[0] / spread if spread > 0 else np.inf
        if training.route != "newton":  # the root's stored value is the intercept plus a step of about 0
            return _Found(stored if unsure < 0.05 else self.balanced)
        other, error = self.consistent
        found = _Found(self.balanced)
        if training.objective in BALANCED and not training.sampled:
            found = self._weighted_balance() if training.class_weights else _Found(self.balanced, exact=True)
            if found.exact and not abs(found.value - other) > 8 * error + 1e-4 * spread:
                return found
        if error < 1e-3 * spread:
            return _Found(other)
        root_is_start = np.all(trees.unstored[roots])  # LightGBM 3 writes no step there
        return _Found(stored if root_is_start and unsure < 1e-3 else found.value)

    def first_rate(self, intercept: float) -> float:
        """Learning rate of a tree whose text says 1."""
        step = self._step_from_gain(intercept)
        near = (rate for rate in self.known_rates if np.isnan(step) or abs(step / rate - 1) < SAME_RATE)
        return next(near, step)

    def _weighted_balance(self) -> _Found:
        """Balance, with the classes' weights that LightGBM forgets when it takes the average."""
        other, error = self.consistent
        near = self.balanced if np.isinf(error) else other
        steps = [1.0] if self.training.boosting == "rf" else [*self.known_rates, self._step_from_gain(near)]
        grid = np.linspace(-36, 36, 14401) / self.training.sigmoid  # every share that float64 can hold
        by_hessian = _roots(self._misfit, grid)
        best, gap, guesses = (near, near, 1.0), np.inf, []
        for step in (step for step in steps if not np.isnan(step)):
            by_balance = _roots(partial(self._imbalance, step), grid)
            guesses += by_balance.tolist()
            gaps = np.abs(by_balance[:, None] - by_hessian[None, :])
            if gaps.size and gaps.min() < gap:
                i, j = np.unravel_index(np.argmin(gaps), gaps.shape)
                best, gap = (float(by_balance[i]), float(by_hessian[j]), step), gaps.min()
        if gap < 1e-4:  # what float32 gradients allow where one of the equations is flat
            return self._pair(*best)
        # Rows with weights of their own spoil the second equation; then nothing proves the first one's root.
        return _Found(min(guesses, key=lambda guess: abs(guess - near), default=near))

    def _pair(self, by_balance: float, by_hessian: float, step: float) -> _Found:
        """Choose of two roots that agree the one whose equation is steeper there."""
        at = np.array([by_balance - 1e-4, by_balance + 1e-4])
        steep = np.abs(np.diff([self._imbalance(step, at) / self.weight, self._misfit(at)]))[:, 0]
        margin = by_balance if steep[0] >= steep[1] else by_hessian
        _, negative, positive = self._classes(np.array([margin]))
        labels = (float(negative[0]), float(positive[0])) if self.training.unbalanced else None
        return _Found(margin, exact=True, label_weights=labels, proved=True)

    def _imbalance(self, step: float, margin: FloatArray) -> FloatArray:
        """Take the gradients at the average off the leaves' sum: 0 at the true margin."""
        share, negative, positive = self._classes(margin)
        gradient = (negative - positive) / (self.training.sigmoid * (positive * share + negative * (1 - share)))
        return np.asarray(self.weighted - margin * self.weight + step * self.hessian * gradient)

    def _misfit(self, margin: FloatArray) -> FloatArray:
        """Relative distance of the hessian sum from what it must be where no row has a weight of its own."""
        share, negative, positive = self._classes(margin)
        mean = self.training.sigmoid**2 * share * (1 - share) * (positive * share + negative * (1 - share))
        return np.asarray(float(self.model.leaf_count[self.leaves].sum()) * mean / self.hessian - 1)

    def _classes(self, margin: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Share of positives at a margin, and the weights of the negative and the positive class."""
        share = 1 / (1 + np.exp(-self.training.sigmoid * margin))
        if not self.training.unbalanced:
            return share, np.ones_like(share), np.full_like(share, self.training.pos_weight)
        odds = share / np.maximum(1 - share, 1e-300)
        return share, np.where(share > 0.5, odds, 1.0), np.where(share > 0.5, 1.0, 1 / np.maximum(odds, 1e-300))

    @cached_property
    def consistent(self) -> tuple[float, float]:
        """The intercept that lets the stored digits fit, and its error; (0, inf) where nothing tells."""
        trees = self.trees
        nodes = np.flatnonzero(np.isin(trees.tree_of_inner, self.members) & ~trees.unstored)
        if not self.training.known or not len(nodes):
            return 0.0, np.inf
        at, stored = trees.inner[nodes], self.model.internal_value[nodes]
        own = trees.own[at]
        slope = trees.weight[at] - own
        noise = own * np.maximum(half_unit(stored), 1e-8 * np.abs(stored).max() + 1e-300)
        information = math.fsum((slope / noise) ** 2)  # numpy's sums have other bits on other processors
        if not information > 0 or np.abs(slope).max() < 1e-9 * own.max():
            return 0.0, np.inf
        left_over = trees.weighted[at] - own * stored
        return math.fsum(slope * left_over / noise**2) / information, information**-0.5

    def _step_from_gain(self, intercept: float) -> float:
        """Learning rate (times DART's weight) that turns the gains into the first tree's leaves; NaN if unknown."""
        training, trees, gain = self.training, self.trees, self.model.split_gain
        if training.route != "newton" or training.gain_altered:
            return np.nan
        nodes = np.flatnonzero(trees.tree_of_inner == self.members[0])
        at = trees.inner[nodes]
        total = trees.weighted - intercept * trees.weight  # rate times gradient sums
        with np.errstate(divide="ignore", invalid="ignore"):
            children = sum(total[c] ** 2 / trees.own[c] for c in (trees.left[at], trees.right[at]))
            # LightGBM's own gain takes the parent without cat_l2.
            reduction = children - total[at] ** 2 / (trees.hessian[at] + training.reg_lambda)
            step = np.sqrt(np.sum(reduction) / np.sum(gain[nodes]))
        return float(step) if np.isfinite(step) and step > 0 else np.nan


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
