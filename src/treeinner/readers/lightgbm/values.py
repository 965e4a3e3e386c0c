"""Node values of LightGBM trees: what each inner node would have predicted had it been a leaf.

LightGBM writes leaf values and leaf hessian sums with 17 digits, but the values of inner nodes with 6, and it adds the
intercept to all of them in the first iteration. So inner values are computed from the leaves where plain l2
regularisation makes that exact:

    p = sum over the node's leaves of (H_leaf + lam_leaf) * (v - b), divided by (H + lam)

with `b` the intercept and `lam` larger by cat_l2 at the children of a many-vs-many categorical split. Routes:

    newton   the formula above; checked against the 6 digits
    stored   the 6 digits: l1, max_delta_step, path smoothing and monotone constraints bend the formula
    mean     hessian-weighted mean of the leaves: leaves renewed after growing (L1, quantile, MAPE), refit
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble.validation import inner_by_depth
from treeinner.errors import ModelError
from treeinner.options import ReadOptions
from treeinner.readers._trees import BoolArray, FloatArray, LongArray, add_up
from treeinner.readers.lightgbm.schema import n_bins
from treeinner.readers.lightgbm.text import ModelText, require

__all__ = ["Training", "Trees", "half_unit", "inner_values"]


RENEWED = frozenset({"regression_l1", "quantile", "mape"})


class Training:
    """What the text says about how the model was trained; what the user gives wins."""

    def __init__(self, model: ModelText, options: ReadOptions, rates: FloatArray | None) -> None:
        number, params = model.number, model.params or {}
        boosting = "rf" if "average_output" in model.header else params.get("boosting", "gbdt")
        goss = boosting == "goss" or params.get("data_sample_strategy") == "goss"
        fractions = ("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction")
        bagged = number("bagging_freq", 0) > 0 and any(number(key, 1) < 1 for key in fractions)
        costs = ("feature_contri", "cegb_penalty_feature_lazy", "cegb_penalty_feature_coupled")
        monotone = model.header.get("monotone_constraints", "") or params.get("monotone_constraints", "")
        self.objective = model.header.get("objective", "").partition(" ")[0]
        self.known = model.params is not None or options.reg_lambda is not None  # there is a parameters block
        self.boosting = "gbdt" if boosting in ("goss", "gbrt") else boosting
        self.learning_rate = number("learning_rate", np.nan) if rates is None else float(rates[0])  # NaN if unknown
        if self.learning_rate <= 0:
            raise ModelError(f"The LightGBM model's learning_rate is {self.learning_rate:g}; expected a positive one.")
        self.reg_lambda = number("lambda_l2", 0) if options.reg_lambda is None else options.reg_lambda
        self.reg_alpha = number("lambda_l1", 0) if options.reg_alpha is None else options.reg_alpha
        self.cat_l2 = number("cat_l2", 10)
        self.max_cat_to_onehot = int(number("max_cat_to_onehot", 4))
        self.max_delta_step, self.path_smooth = number("max_delta_step", 0), number("path_smooth", 0)
        self.monotone = any(word not in ("0", "") for word in monotone.replace(",", " ").split())
        self.quantized = number("use_quantized_grad", 0) != 0
        renewed = self.quantized and number("quant_train_renew_leaf", 0) != 0
        self.renewed = self.objective in RENEWED or renewed
        self.sampled = bagged or goss  # rows were sampled
        # split_gain is not the plain gain
        self.gain_altered = any(params.get(key) for key in costs) or number("cegb_penalty_split", 0) > 0
        self.average = number("boost_from_average", 1) != 0
        self.sigmoid, self.pos_weight = number("sigmoid", 1), number("scale_pos_weight", 1)
        self.unbalanced = number("is_unbalance", 0) != 0
        weighted = self.pos_weight != 1 or self.unbalanced
        self.class_weights = weighted and self.objective in ("binary", "multiclassova")
        # Compare with the stored digits; not if the user overrides what the model says.
        self.check = options.reg_lambda is None and options.reg_alpha is None

    @property
    def route(self) -> Literal["newton", "stored", "mean"]:
        """How the inner values are found."""
        if self.renewed:
            return "mean"
        bent = self.reg_alpha > 0 or self.max_delta_step > 0 or self.path_smooth > 0 or self.monotone
        return "stored" if bent or not self.known else "newton"


class Trees:
    """Where the nodes lie, and sums over the leaves below each; ModelError unless every tree is a tree.

    Of each tree first the inner nodes, then the leaves, each in LightGBM's order. `start` (trees + 1,) has the first
    node of each tree, `inner` and `leaf` the positions of the inner nodes and leaves, `left` and `right` (nodes,) those
    of the children as LightGBM has them, -1 at a leaf.
    """

    def __init__(self, model: ModelText, training: Training) -> None:
        self.model, self.training = model, training
        size = 2 * model.n_leaves - 1
        self.start = np.concatenate([[0], np.cumsum(size)])
        self.n_nodes = int(self.start[-1])
        self.tree = np.repeat(np.arange(model.n_trees), size)  # (nodes,)
        self.number = np.arange(self.n_nodes) - self.start[self.tree]  # (nodes,) of a node in its tree
        is_inner = self.number < (model.n_leaves - 1)[self.tree]
        self.inner, self.leaf = np.flatnonzero(is_inner), np.flatnonzero(~is_inner)
        self.tree_of_inner, self.tree_of_leaf = self.tree[self.inner], self.tree[self.leaf]
        self.left, self.right = self._links(model.left_child), self._links(model.right_child)
        reached = np.bincount(np.concatenate([self.left[self.inner], self.right[self.inner]]), minlength=self.n_nodes)
        reached[self.start[:-1]] += 1
        require(np.all(reached == 1), "a node is reached twice, or not at all")

    def _links(self, child: LongArray) -> LongArray:
        n_inner = (self.model.n_leaves - 1)[self.tree_of_inner]
        good = np.where(child >= 0, (child > self.number[self.inner]) & (child < n_inner), ~child <= n_inner)
        require(np.all(good), "a child is out of range, or a tree has a cycle")
        links = np.full(self.n_nodes, -1)
        links[self.inner] = self.start[self.tree_of_inner] + np.where(child >= 0, child, n_inner + ~child)
        return links

    @cached_property
    def levels(self) -> list[LongArray]:
        """Inner nodes by depth."""
        return inner_by_depth(self.left, self.right, self.start[:-1])

    def add_up(self, at_leaves: FloatArray) -> FloatArray:
        """Sum of a leaf quantity over the leaves below every node: (nodes,)."""
        total = np.zeros(self.n_nodes)
        total[self.leaf] = at_leaves
        return add_up(total, self.left, self.right, self.levels)

    @cached_property
    def hessian(self) -> FloatArray:
        """Hessian sum of each node: (nodes,)."""
        return self.add_up(self.model.leaf_weight)

    @cached_property
    def extra(self) -> FloatArray:
        """cat_l2 below splits on columns with too many categories for one-against-the-rest: (nodes,)."""
        model, extra = self.model, np.zeros(self.n_nodes)
        bins = np.array([n_bins(info) for info in model.header["feature_infos"].split()])
        many = model.categorical & (bins[model.split_feature] > self.training.max_cat_to_onehot)
        for links in (self.left, self.right):
            extra[links[self.inner[many]]] = self.training.cat_l2
        return extra

    @cached_property
    def own(self) -> FloatArray:
        """H + lam of the node's own value: (nodes,)."""
        return self.hessian + (self.training.reg_lambda + self.extra)

    @cached_property
    def weight(self) -> FloatArray:
        """Sum of (H + lam) over the leaves: (nodes,)."""
        return self.add_up(self.own[self.leaf])

    @cached_property
    def weighted(self) -> FloatArray:
        """Sum of (H + lam) * v over the leaves: (nodes,)."""
        return self.add_up(self.own[self.leaf] * self.model.leaf_value)

    @cached_property
    def unstored(self) -> BoolArray:
        """Roots without a stored value, as LightGBM 3 writes them: (inner,)."""
        return np.asarray((self.number[self.inner] == 0) & (self.model.internal_weight == 0))

    @cached_property
    def leaf_spread(self) -> FloatArray:
        """Largest minus smallest leaf of each tree: (trees,)."""
        value, first = self.model.leaf_value, np.cumsum(self.model.n_leaves) - self.model.n_leaves
        return np.asarray(np.maximum.reduceat(value, first) - np.minimum.reduceat(value, first))


def half_unit(stored: FloatArray) -> FloatArray:
    """Largest rounding error of numbers written with six digits."""
    size = np.abs(stored)
    digits = np.floor(np.log10(size, out=np.full(len(size), -290.0), where=size > 0))
    return np.asarray(0.5 * 10.0 ** (digits - 5), dtype=np.float64)


def inner_values(trees: Trees, intercept: FloatArray) -> tuple[FloatArray, list[str]]:
    """p-hat of every inner node without the intercept: (inner,), and what is not exact about it."""
    model, training, at, tree = trees.model, trees.training, trees.inner, trees.tree_of_inner
    mean = _mean_of_leaves(trees, intercept)
    if training.route == "mean":
        return mean, []
    newton = _divide((trees.weighted - intercept[trees.tree] * trees.weight)[at], trees.own[at])
    newton = np.where(np.isnan(newton), mean, newton)
    stored = np.where(trees.unstored, newton, model.internal_value - intercept[tree])
    if training.route == "stored":
        # In the first iteration six digits must hold intercept and value: useless if the intercept is huge.
        lost = half_unit(intercept) > 0.02 * trees.leaf_spread
        return np.where((lost & (intercept != 0))[tree], newton, stored), []
    return _checked(trees, intercept, newton=newton, stored=stored, mean=mean) if training.check else (newton, [])


def _checked(
    trees: Trees, intercept: FloatArray, *, newton: FloatArray, stored: FloatArray, mean: FloatArray
) -> tuple[FloatArray, list[str]]:
    """Newton values where the stored digits agree: the parameters block describes the last training only."""
    tree, at, n_trees = trees.tree_of_inner, trees.inner, trees.model.n_trees
    # Six digits of the largest number of the tree, and what summing the leaves loses.
    largest = np.zeros(n_trees)
    np.maximum.at(largest, tree, np.abs(stored))
    allowed = (3e-5 * (largest + np.abs(intercept)) + 1e-7 * trees.leaf_spread)[tree]
    bad = np.bincount(tree, np.abs(newton - stored) > allowed, n_trees) > 0
    if not np.any(bad):
        return newton, []
    # Is there one l2 for which (H + extra + lam) * v summed over the leaves equals that of the node?
    leaf_value = trees.model.leaf_value - intercept[trees.tree_of_leaf]
    weight = trees.hessian + trees.extra
    leaves, weighted = trees.add_up(leaf_value)[at], trees.add_up(weight[trees.leaf] * leaf_value)[at]
    slope, rest = stored - leaves, weighted - weight[at] * stored
    fitted = _divide(np.bincount(tree, rest * slope, n_trees), np.bincount(tree, slope**2, n_trees))
    lam = np.nan_to_num(np.maximum(fitted, 0.0))[tree]
    refitted = np.nan_to_num(_divide(weighted + lam * leaves, weight[at] + lam))
    changed = bad & (np.bincount(tree, np.abs(refitted - stored) > allowed, n_trees) > 0)
    notes = []
    if np.any(bad & ~changed):
        notes.append("trees of an earlier training call have another lambda_l2 (their node values have 6 digits)")
    if np.any(changed):
        notes.append(
            "the leaves of some trees do not match their inner values (refit, or an earlier training call with "
            "other parameters), so that inner values are the hessian-weighted mean of the leaves"
        )
    return np.where(changed[tree], mean, np.where(bad[tree], stored, newton)), notes


def _mean_of_leaves(trees: Trees, intercept: FloatArray) -> FloatArray:
    """Hessian-weighted mean of the leaves, the plain mean where the hessians are 0: (inner,)."""
    value = trees.model.leaf_value - intercept[trees.tree_of_leaf]
    mean = _divide(trees.add_up(trees.hessian[trees.leaf] * value), trees.hessian)
    return np.where(np.isnan(mean), trees.add_up(value) / trees.add_up(np.ones(len(value))), mean)[trees.inner]


def _divide(top: NDArray[Any], bottom: NDArray[Any]) -> FloatArray:
    """Quotient; NaN where there is nothing to divide by."""
    return np.asarray(np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0))
