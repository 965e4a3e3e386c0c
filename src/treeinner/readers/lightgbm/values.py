"""Node values of LightGBM trees: what each inner node would have predicted had it been a leaf.

LightGBM writes leaf values and leaf hessian sums with 17 digits, but the values of inner nodes with 6, and it
adds the intercept to all of them in the first iteration. So inner values are computed from the leaves where
plain l2 regularisation makes that exact:

    p = sum over the node's leaves of (H_leaf + lam_leaf) * (v - b), divided by (H + lam)

with `b` the intercept and `lam` larger by cat_l2 at the children of a many-vs-many categorical split. Routes:

    newton   the formula above; checked against the 6 digits
    stored   the 6 digits: l1, max_delta_step, path smoothing and monotone constraints bend the formula
    mean     hessian-weighted mean of the leaves: leaves renewed after growing (L1, quantile, MAPE), refit
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.options import ReadOptions
from treeinner.readers._trees import BoolArray, FloatArray, LongArray, add_up, inner_by_depth
from treeinner.readers.lightgbm.schema import n_bins
from treeinner.readers.lightgbm.text import ModelText

__all__ = [
    "Layout",
    "Sums",
    "Training",
    "half_unit",
    "inner_values",
    "lay_out",
    "many_vs_many",
    "read_training",
    "sum_leaves",
]


CATEGORICAL = 1  # bit of decision_type
RENEWED = frozenset({"regression_l1", "quantile", "mape"})


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the nodes lie: of each tree first the inner nodes, then the leaves, each in LightGBM's order."""

    start: LongArray  # (trees + 1,)
    inner: LongArray  # position of each inner node
    leaf: LongArray  # position of each leaf
    tree_of_inner: LongArray
    tree_of_leaf: LongArray
    left: LongArray  # (nodes,) position of the child, as LightGBM has it; -1 at a leaf
    right: LongArray

    @cached_property
    def levels(self) -> list[LongArray]:
        """Inner nodes by depth."""
        return inner_by_depth(self.left, self.right, self.start[:-1])

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.start[-1])

    def add_up(self, at_leaves: FloatArray) -> FloatArray:
        """Sum of a leaf quantity over the leaves below every node: (nodes,)."""
        total = np.zeros(self.n_nodes)
        total[self.leaf] = at_leaves
        return add_up(total, self.left, self.right, self.levels)


@dataclass(frozen=True)
class Training:
    """What the text says about how the model was trained."""

    objective: str
    known: bool  # there is a parameters block
    boosting: str
    rate: float  # NaN if unknown
    reg_lambda: float
    reg_alpha: float
    cat_l2: float
    max_cat_to_onehot: int
    max_delta_step: float
    path_smooth: float
    monotone: bool
    quantized: bool
    renewed: bool
    sampled: bool  # rows were sampled
    gain_altered: bool  # split_gain is not the plain gain
    average: bool  # boost_from_average
    sigmoid: float
    pos_weight: float
    unbalanced: bool
    check: bool  # compare with the stored digits; not if the user overrides what the model says

    @property
    def route(self) -> Literal["newton", "stored", "mean"]:
        """How the inner values are found."""
        if self.renewed:
            return "mean"
        bent = self.reg_alpha > 0 or self.max_delta_step > 0 or self.path_smooth > 0 or self.monotone
        return "stored" if bent or not self.known else "newton"


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over the leaves below every node, all (nodes,)."""

    hessian: FloatArray
    extra: FloatArray  # cat_l2 where it applies to the node's own value
    lam: FloatArray  # l2 of the node's own value
    weighted: FloatArray  # sum of (H + lam) * v
    weight: FloatArray  # sum of (H + lam)
    plain_root: BoolArray  # (trees,) the root's stored value is a value; not in LightGBM 3


def lay_out(model: ModelText) -> Layout:
    """Positions of all nodes; ModelError unless every tree is a tree."""
    n_leaves, trees = model.n_leaves, np.arange(model.n_trees)
    start = np.concatenate([[0], np.cumsum(2 * n_leaves - 1)])
    tree_of_inner, tree_of_leaf = np.repeat(trees, n_leaves - 1), np.repeat(trees, n_leaves)
    number = np.arange(len(tree_of_inner)) - (np.cumsum(n_leaves - 1) - (n_leaves - 1))[tree_of_inner]
    leaf_number = np.arange(len(tree_of_leaf)) - (np.cumsum(n_leaves) - n_leaves)[tree_of_leaf]
    inner = start[tree_of_inner] + number
    size = n_leaves[tree_of_inner]
    left, right = np.full(start[-1], -1), np.full(start[-1], -1)
    for child, links in ((model.left_child, left), (model.right_child, right)):
        good = np.where(child >= 0, (child > number) & (child < size - 1), ~child < size)
        if not np.all(good):
            raise ModelError("The LightGBM model is malformed: a child is out of range, or a tree has a cycle.")
        links[inner] = start[tree_of_inner] + np.where(child >= 0, child, size - 1 + ~child)
    reached = np.bincount(np.concatenate([left[inner], right[inner]]), minlength=start[-1])
    reached[start[:-1]] += 1
    if not np.all(reached == 1):
        raise ModelError("The LightGBM model is malformed: a node is reached twice, or not at all.")
    leaf = start[tree_of_leaf] + n_leaves[tree_of_leaf] - 1 + leaf_number
    return Layout(start, inner, leaf, tree_of_inner, tree_of_leaf, left, right)


def read_training(model: ModelText, options: ReadOptions, rates: FloatArray | None) -> Training:
    """Collect the settings that matter; what the user gives wins."""
    reg_lambda, reg_alpha = options.reg_lambda, options.reg_alpha
    number, params = model.number, model.params or {}
    boosting = "rf" if "average_output" in model.header else params.get("boosting", "gbdt")
    objective = model.header.get("objective", "").partition(" ")[0]
    quantized = number("use_quantized_grad", 0) != 0
    bagged = number("bagging_freq", 0) > 0 and any(
        number(key, 1) < 1 for key in ("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction")
    )
    goss = boosting == "goss" or params.get("data_sample_strategy") == "goss"
    costs = ("feature_contri", "cegb_penalty_feature_lazy", "cegb_penalty_feature_coupled")
    monotone = model.header.get("monotone_constraints", "") or params.get("monotone_constraints", "")
    return Training(
        objective=objective,
        known=model.params is not None or reg_lambda is not None,
        boosting="gbdt" if boosting in ("goss", "gbrt") else boosting,
        rate=number("learning_rate", np.nan) if rates is None else float(rates[0]),
        reg_lambda=number("lambda_l2", 0) if reg_lambda is None else reg_lambda,
        reg_alpha=number("lambda_l1", 0) if reg_alpha is None else reg_alpha,
        cat_l2=number("cat_l2", 10),
        max_cat_to_onehot=int(number("max_cat_to_onehot", 4)),
        max_delta_step=number("max_delta_step", 0),
        path_smooth=number("path_smooth", 0),
        monotone=any(word not in ("0", "") for word in monotone.replace(",", " ").split()),
        quantized=quantized,
        renewed=objective in RENEWED or (quantized and number("quant_train_renew_leaf", 0) != 0),
        sampled=bagged or goss,
        gain_altered=any(params.get(key) for key in costs) or number("cegb_penalty_split", 0) > 0,
        average=number("boost_from_average", 1) != 0,
        sigmoid=number("sigmoid", 1),
        pos_weight=number("scale_pos_weight", 1),
        unbalanced=number("is_unbalance", 0) != 0,
        check=reg_lambda is None and reg_alpha is None,
    )


def many_vs_many(model: ModelText, training: Training, n_columns: int) -> BoolArray:
    """Mark splits on columns with too many categories for one-against-the-rest, which get cat_l2: (inner,)."""
    if np.any(model.split_feature >= n_columns):
        raise ModelError(f"The LightGBM model is malformed: a split tests a column outside 0..{n_columns - 1}.")
    bins = np.array([n_bins(info) for info in model.header["feature_infos"].split()])
    return np.asarray(
        (model.decision_type & CATEGORICAL > 0) & (bins[model.split_feature] > training.max_cat_to_onehot)
    )


def sum_leaves(model: ModelText, layout: Layout, training: Training, many: BoolArray) -> Sums:
    """Hessian sums and what the formula needs; `many` marks many-vs-many splits: (inner,)."""
    if model.leaf_weight is None:
        raise UnsupportedModelError(
            "The LightGBM model has no leaf_weight: it was written by a version before 3.0. "
            "Train it again with LightGBM 3 or later."
        )
    hessian = layout.add_up(model.leaf_weight)
    extra = np.zeros(layout.n_nodes)
    for links in (layout.left, layout.right):
        extra[links[layout.inner[many]]] = training.cat_l2
    lam = training.reg_lambda + extra
    at_leaf = (hessian + lam)[layout.leaf]
    plain_root = np.ones(model.n_trees, bool)
    if model.internal_weight is not None:
        first = np.searchsorted(layout.tree_of_inner, np.flatnonzero(model.n_leaves > 1))
        plain_root[layout.tree_of_inner[first]] = model.internal_weight[first] != 0
    return Sums(hessian, extra, lam, layout.add_up(at_leaf * model.leaf_value), layout.add_up(at_leaf), plain_root)


def half_unit(stored: FloatArray) -> FloatArray:
    """Largest rounding error of numbers written with six digits."""
    size = np.abs(stored)
    digits = np.floor(np.log10(size, out=np.full(len(size), -290.0), where=size > 0))
    return np.asarray(0.5 * 10.0 ** (digits - 5), dtype=np.float64)


def inner_values(
    model: ModelText, layout: Layout, training: Training, sums: Sums, intercept: FloatArray
) -> tuple[FloatArray, list[str]]:
    """p-hat of every inner node without the intercept: (inner,), and what is not exact about it."""
    at, tree = layout.inner, layout.tree_of_inner
    newton = _divide(
        (sums.weighted - intercept[_tree_of_node(layout)] * sums.weight)[at], (sums.hessian + sums.lam)[at]
    )
    mean = _mean_of_leaves(model, layout, sums, intercept)
    newton = np.where(np.isnan(newton), mean, newton)
    stored = None if model.internal_value is None else _stored_values(model, layout, sums, intercept, newton)
    if training.route == "mean":
        return mean, []
    if training.route == "stored":
        if stored is None:
            return newton, [
                "the model has no inner values, so they were computed as if nothing but l2 had been at work"
            ]
        # In the first iteration six digits must hold intercept and value: useless if the intercept is huge.
        lost = half_unit(intercept)[tree] > 0.02 * _leaf_spread(model, layout)[tree]
        return np.where(lost & (intercept[tree] != 0), newton, stored), []
    if stored is None or not training.check:
        return newton, []
    return _checked(model, layout, sums, intercept, newton=newton, stored=stored, mean=mean)


def _checked(
    model: ModelText,
    layout: Layout,
    sums: Sums,
    intercept: FloatArray,
    *,
    newton: FloatArray,
    stored: FloatArray,
    mean: FloatArray,
) -> tuple[FloatArray, list[str]]:
    """Newton values where the stored digits agree: the parameters block describes the last training only."""
    tree, at = layout.tree_of_inner, layout.inner
    allowed = _allowed_error(model, layout, stored, intercept)
    bad = _trees_where(np.abs(newton - stored) > allowed, tree, model.n_trees)
    if not np.any(bad):
        return newton, []
    # Is there one l2 for which (H + extra + lam) * v summed over the leaves equals that of the node?
    leaf_value = model.leaf_value - intercept[layout.tree_of_leaf]
    weight = sums.hessian + sums.extra
    leaves = layout.add_up(leaf_value)[at]
    rest = layout.add_up(weight[layout.leaf] * leaf_value)[at] - weight[at] * stored
    slope = stored - leaves
    top: FloatArray = np.bincount(tree, rest * slope, minlength=model.n_trees).astype(np.float64)
    bottom: FloatArray = np.bincount(tree, slope**2, minlength=model.n_trees).astype(np.float64)
    lam = np.maximum(_divide(top, bottom), 0.0)
    lam = np.nan_to_num(lam)[tree]
    refitted = _divide(layout.add_up(weight[layout.leaf] * leaf_value)[at] + lam * leaves, weight[at] + lam)
    unlike = np.abs(np.nan_to_num(refitted) - stored) > allowed
    changed = bad & _trees_where(unlike, tree, model.n_trees)
    notes = []
    if np.any(bad & ~changed):
        notes.append("trees of an earlier training call have another lambda_l2 (their node values have 6 digits)")
    if np.any(changed):
        notes.append(
            "the leaves of some trees do not fit their inner values (refit, or an earlier training call with "
            "other parameters), so that inner values are the hessian-weighted mean of the leaves"
        )
    return np.where(changed[tree], mean, np.where(bad[tree], stored, newton)), notes


def _allowed_error(model: ModelText, layout: Layout, stored: FloatArray, intercept: FloatArray) -> FloatArray:
    """Six digits of the largest number of the tree, and what summing the leaves loses."""
    tree = layout.tree_of_inner
    largest = np.zeros(model.n_trees)
    np.maximum.at(largest, tree, np.abs(stored))
    return np.asarray(3e-5 * (largest + np.abs(intercept))[tree] + 1e-7 * _leaf_spread(model, layout)[tree])


def _stored_values(
    model: ModelText, layout: Layout, sums: Sums, intercept: FloatArray, newton: FloatArray
) -> FloatArray:
    """Six digits without the intercept; LightGBM 3 stores no root value, so that one is computed."""
    stored: Any = model.internal_value
    is_root = layout.inner == layout.start[layout.tree_of_inner]
    return np.where(is_root & ~sums.plain_root[layout.tree_of_inner], newton, stored - intercept[layout.tree_of_inner])


def _mean_of_leaves(model: ModelText, layout: Layout, sums: Sums, intercept: FloatArray) -> FloatArray:
    """Hessian-weighted mean of the leaves, the plain mean where the hessians are 0: (inner,)."""
    value = model.leaf_value - intercept[layout.tree_of_leaf]
    weighted = layout.add_up(sums.hessian[layout.leaf] * value)
    count = layout.add_up(np.ones(len(value)))
    mean = _divide(weighted, sums.hessian)
    return np.where(np.isnan(mean), layout.add_up(value) / count, mean)[layout.inner]


def _leaf_spread(model: ModelText, layout: Layout) -> FloatArray:
    """Largest minus smallest leaf of each tree: (trees,)."""
    first = layout.start[:-1] - np.concatenate([[0], np.cumsum(model.n_leaves - 1)])[:-1]
    return np.asarray(np.maximum.reduceat(model.leaf_value, first) - np.minimum.reduceat(model.leaf_value, first))


def _trees_where(bad: BoolArray, tree: LongArray, n_trees: int) -> BoolArray:
    return np.bincount(tree, bad, minlength=n_trees) > 0


def _tree_of_node(layout: Layout) -> LongArray:
    return np.repeat(np.arange(len(layout.start) - 1), np.diff(layout.start))


def _divide(top: FloatArray, bottom: FloatArray) -> FloatArray:
    """Quotient; NaN where there is nothing to divide by."""
    return np.asarray(np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0))
