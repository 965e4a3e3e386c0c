"""scikit-learn's models made of `tree_` objects: single trees, forests and GradientBoosting.

Single trees and forests predict the mean of their trees' values, and every node stores its value: the mean of y, or the
fractions of the classes. That is p-hat.

GradientBoosting stores at an inner node the mean of the negative gradient, and at a leaf what was written there
afterwards. The value a node would have had as a leaf is

* squared error: the stored mean itself;
* log_loss and exponential: the Newton step `factor * R / H` with R the sum of the negative gradients and H that of the
  hessians, factor (K - 1) / K for K > 2 classes. R is known at the inner nodes; a leaf's R follows from its sibling's,
  or, where both are leaves, from the stored impurities up to a sign, which must fit the leaf values. A leaf's H is then
  R / value, and an inner node's H the sum of its leaves'. (The stored means are no choice: they are in other units than
  the leaves, and would give every row's last split the credit for the change of units.)
* absolute error, huber, quantile: a median of residuals, which is not stored. As for the other libraries that
  renew their leaves: the weighted mean of the leaves.

A tree whose hessians cannot be determined (a leaf of value 0, two signs that both fit and matter) has NaN at its inner
nodes, and `needs` says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble import Ensemble, NodeValues
from treeinner.ensemble.validation import inner_by_depth
from treeinner.errors import UnsupportedModelError, readable
from treeinner.options import ReadOptions
from treeinner.readers._trees import FloatArray, LongArray, add_up, mean_of_leaves
from treeinner.tables import Schema

__all__ = ["Nodes", "names_of", "read_boosted", "read_forest", "renewed"]


NEWTON = ("log_loss", "deviance", "exponential")
# Gradients are known to rounding (1e-16) only, and the square root of a difference of variances to less.
SLACK = 1e-9
MOVED = "monotonic constraints moved node values away from the means of their rows"


# -- shared with HistGradientBoosting ------------------------------------------------------------------------
def names_of(model: Any) -> tuple[str, ...] | None:
    """Training names of the columns, if the model was fitted on a data frame."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(readable, names))


def takes_missing(model: Any) -> bool:
    """Whether the estimator's own predict takes NaN."""
    tags = getattr(model, "__sklearn_tags__", None)  # scikit-learn 1.6 and later
    return True if tags is None else bool(tags().input_tags.allow_nan)


def renewed(loss: str) -> str:
    """Say that the leaves are not those that the splits were chosen for."""
    return f"{loss} renews the leaves after the splits were chosen"


class Nodes:
    """The nodes of some trees, concatenated: `stored` as they are, children as positions in these arrays."""

    feature: LongArray  # (n_nodes,) column a split tests; -1 at a leaf
    weight: FloatArray  # (n_nodes,) of the training rows in it

    def __init__(self, trees: list[NDArray[Any]], left: str, right: str) -> None:
        self.n_trees = len(trees)
        self.stored = np.concatenate(trees)
        self.sizes = np.array([len(nodes) for nodes in trees])
        self.start = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.roots = self.start[:-1]
        self.offset = np.repeat(self.roots, self.sizes)
        is_leaf = "is_leaf" in (self.stored.dtype.names or ())
        self.leaf = self.stored["is_leaf"].astype(bool) if is_leaf else self.stored[left] < 0
        self.left = np.where(self.leaf, -1, self.stored[left] + self.offset)
        self.right = np.where(self.leaf, -1, self.stored[right] + self.offset)
        self.missing_left = ~self.leaf & self.stored["missing_go_to_left"].astype(bool)

    def levels(self) -> list[LongArray]:
        """Inner nodes by depth."""
        return inner_by_depth(self.left, self.right, self.roots)

    def rounds(self, per_round: int, learning_rate: float, options: ReadOptions) -> dict[str, Any]:
        """Output, round and learning rate of each tree; a rate that the user gives wins."""
        number, rates = np.arange(self.n_trees), options.rates(self.n_trees // per_round)
        rate = np.full(self.n_trees, learning_rate) if rates is None else rates[number // per_round]
        return {"tree_output": number % per_round, "tree_round": number // per_round, "tree_rate": rate}

    def ensemble(self, model: Any, value: FloatArray, *, alpha: float | None = None, **other: Any) -> Ensemble:
        """Put together what all kinds have in common; `value` (n_nodes, width) counts at leaves only."""
        classes = getattr(model, "classes_", None)  # one array, or one per target; None for a regressor
        if classes is not None:
            classes = [c.tolist() for c in classes] if isinstance(classes, list) else np.asarray(classes).tolist()
        fields = {
            "tree_start": self.start,
            "tree_weight": np.ones(self.n_trees),
            "feature": self.feature,
            "left": self.left,
            "right": self.right,
            "missing_left": self.missing_left,
            "category_set": np.full(len(self.leaf), -1),
            "value": np.where(self.leaf[:, None], value, 0.0),
            "cover": self.weight,
            "leaf_id": np.where(self.leaf, np.arange(len(self.leaf)) - self.offset, -1),
            "set_start": np.zeros(1, np.int64),
            "set_codes": np.zeros(0, np.int32),
            "library": "sklearn",
            "objective_params": {k: v for k, v in (("classes", classes), ("alpha", alpha)) if v is not None},
            "output_names": None if classes is None or len(other["base_score"]) == 1 else tuple(map(str, classes)),
            "feature_names": names_of(model),
        }
        return Ensemble(**(fields | other))


# -- arrays of many tree_ objects ----------------------------------------------------------------------------
class _Nodes(Nodes):
    """The nodes of some `tree_` objects."""

    def __init__(self, trees: list[Any]) -> None:
        super().__init__([tree.__getstate__()["nodes"] for tree in trees], "left_child", "right_child")
        self.feature = np.where(self.leaf, -1, self.stored["feature"])
        self.weight = self.stored["weighted_n_node_samples"].astype(np.float64)
        self.impurity = self.stored["impurity"].astype(np.float64)
        self.value = np.concatenate([tree.value for tree in trees])  # (n_nodes, targets, classes)

    def gain(self) -> FloatArray:
        """Impurity decrease of each split times its weight; 0 at leaves."""
        risk = self.weight * self.impurity
        return np.where(self.leaf, 0.0, risk - risk[self.left] - risk[self.right])

    def splits(self, model: Any) -> dict[str, Any]:
        """What else an Ensemble of `tree_` objects needs."""
        return {
            "threshold": np.where(self.leaf, np.nan, self.stored["threshold"]),
            "gain": self.gain(),
            "schema": Schema(
                n_columns=int(model.n_features_in_),
                names=names_of(model),
                allow_infinite=False,
                allow_missing=takes_missing(model),
            ),
            "float32_input": True,
        }


# -- single trees and forests --------------------------------------------------------------------------------
def read_forest(model: Any, trees: list[Any]) -> Ensemble:
    """Read a tree or a forest; a classifier has one output per class (of each target): its fraction."""
    nodes, classes = _Nodes(trees), getattr(model, "classes_", None)
    width = np.atleast_1d(np.ones(model.n_outputs_, int) if classes is None else model.n_classes_)
    values = [nodes.value[:, target, :k] for target, k in enumerate(width)]
    if classes is not None and not np.allclose(nodes.value.sum(axis=2), 1.0):  # counts until 1.3, fractions since
        values = [v / v.sum(axis=1, keepdims=True) for v in values]
    value = np.concatenate(values, axis=1) / nodes.n_trees
    other: dict[str, Any] = {}
    if len(width) > 1 and classes is not None:
        other["output_names"] = tuple(f"{t}={label}" for t, some in enumerate(classes) for label in some.tolist())
    return nodes.ensemble(
        model,
        value,
        work_out=lambda: _forest_values(model, value, len(width)),
        tree_output=np.zeros(nodes.n_trees),
        tree_round=np.zeros(nodes.n_trees),
        tree_weight=np.full(nodes.n_trees, 1 / nodes.n_trees),
        tree_rate=np.ones(nodes.n_trees),
        base_score=np.zeros(value.shape[1]),
        objective=str(model.criterion),
        params={"reg_lambda": 0.0, "reg_alpha": 0.0},
        averaged=True,
        **nodes.splits(model),
        **other,
    )


def _forest_values(model: Any, value: FloatArray, n_targets: int) -> NodeValues:
    constrained = getattr(model, "monotonic_cst", None) is not None
    reasons = {
        f"the gain of criterion={model.criterion!r} is not an inner product with the node values": (
            model.criterion not in ("squared_error", "friedman_mse", "gini")
        ),
        MOVED: constrained,
        "bootstrap: equality holds tree by tree on its own sample, not on the training rows": (
            getattr(model, "bootstrap", False)
        ),
        f"the impurity is a mean over {n_targets} targets: TreeInner is {n_targets} times the gain": n_targets > 1,
    }
    why = "; ".join(text for text, holds in reasons.items() if holds)
    return NodeValues(value, exactness=why or "exact", value_doubts=(MOVED,) if constrained else ())


# -- GradientBoosting ----------------------------------------------------------------------------------------
def read_boosted(model: Any, options: ReadOptions) -> Ensemble:
    """Read a fitted GradientBoostingRegressor or GradientBoostingClassifier."""
    rate = float(model.learning_rate)  # predict() multiplies by it, whatever the trees were trained with
    base, per_round = _initial_margin(model), model.estimators_.shape[1]
    nodes = _Nodes([tree.tree_ for tree in model.estimators_.ravel()])
    return nodes.ensemble(
        model,
        rate * nodes.value[:, 0, :1],
        alpha=float(model.alpha) if model.loss in ("huber", "quantile") else None,
        work_out=lambda: _boosted_values(model, nodes, per_round, base),
        base_score=base,
        objective=str(model.loss),
        params={"learning_rate": rate, "reg_lambda": 0.0, "reg_alpha": 0.0},
        **nodes.rounds(per_round, rate, options),
        **nodes.splits(model),
    )


def _boosted_values(model: Any, nodes: _Nodes, per_round: int, base: FloatArray) -> NodeValues:
    """Value of every node as a leaf; NaN at the inner nodes of trees that do not tell."""
    value, rate = nodes.value[:, 0, :1], float(model.learning_rate)
    if model.loss == "squared_error":
        why = "exact"
        if model.subsample < 1:
            why = "subsample < 1: the gain is about the sampled rows of each tree, not about all training rows"
        elif model.n_iter_no_change is not None:
            why = "early stopping held out rows: equality holds on the rows the trees were grown on"
        return NodeValues(rate * value, exactness=why)
    if model.loss not in NEWTON:
        mean = mean_of_leaves(value, nodes.weight, nodes.left, nodes.right, nodes.levels())
        return NodeValues(rate * mean, exactness=renewed(model.loss), value_doubts=(renewed(model.loss),))
    factor = (per_round - 1) / per_round if per_round > 1 else 1.0
    hessian = _newton_hessian(nodes, factor, model.loss == "exponential")
    if model.loss != "exponential":  # before the first round all rows have the same probabilities
        first = int(nodes.start[per_round])
        hessian[:first] = nodes.weight[:first] * np.repeat(_spread(base), nodes.sizes[:per_round])
    node_value = factor * value[:, 0] * nodes.weight / hessian
    unknown = np.add.reduceat(~np.isfinite(node_value) & ~nodes.leaf, nodes.roots) > 0  # (n_trees,)
    node_value[np.repeat(unknown, nodes.sizes)] = np.nan
    node_value = np.where(nodes.leaf, value[:, 0], node_value)[:, None]
    if unknown.any():
        why = f"{int(unknown.sum())} trees do not tell the hessians of their leaves"
        return NodeValues(rate * node_value, needs=("training data",), exactness=why)
    why = f"scikit-learn's gain is the variance of the gradients, not the Newton gain of {model.loss}"
    return NodeValues(rate * node_value, exactness=why)


def _initial_margin(model: Any) -> FloatArray:
    """Margin before the first tree: (outputs,)."""
    init, kind = model.init_, type(model.init_).__name__
    constant = isinstance(init, str) or kind == "DummyRegressor"
    if not (constant or (kind == "DummyClassifier" and init.strategy != "stratified")):
        raise UnsupportedModelError(
            f"GradientBoosting with init={kind}: its first margin differs from row to row and is not made of these "
            "trees. Fit with init=None or init='zero'; to build on another regressor, fit on y - other.predict(X)."
        )
    margin = model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32))
    return np.asarray(margin, np.float64).reshape(-1)


def _spread(margin: FloatArray) -> FloatArray:
    """Variance p (1 - p) of each class at a margin: (outputs,)."""
    if len(margin) == 1:
        p = 1 / (1 + np.exp(-margin))
    else:
        p = np.exp(margin - margin.max())
        p /= p.sum()
    return np.asarray(p * (1 - p))


def _newton_hessian(nodes: _Nodes, factor: float, exponential: bool) -> FloatArray:
    """Sum of the hessians in each node: (n_nodes,); NaN where it cannot be determined."""
    total = np.where(nodes.leaf, np.nan, nodes.weight * nodes.value[:, 0, 0])  # R, known at inner nodes
    levels = nodes.levels()
    parent = np.concatenate([*levels, np.zeros(0, np.int64)])
    a, b = nodes.left[parent], nodes.right[parent]
    for child, other in ((a, b), (b, a)):
        lone = nodes.leaf[child] & ~nodes.leaf[other]
        total[child[lone]] = total[parent[lone]] - total[other[lone]]
    both = parent[nodes.leaf[a] & nodes.leaf[b]]
    total[nodes.left[both]], total[nodes.right[both]] = _pair_sums(nodes, factor, exponential, both)
    # A leaf's sum that rounding may have made is none to divide by.
    rms = np.sqrt(np.maximum(nodes.impurity[parent], 0) + nodes.value[parent, 0, 0] ** 2)
    for child in (a, b):
        lost = nodes.leaf[child] & (np.abs(total[child]) <= SLACK * nodes.weight[parent] * rms)
        total[child[lost]] = np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        hessian = np.where(nodes.leaf, factor * total / nodes.value[:, 0, 0], np.nan)
    hessian[~(hessian > 0)] = np.nan
    return add_up(hessian, nodes.left, nodes.right, levels)


def _pair_sums(nodes: _Nodes, factor: float, exponential: bool, t: LongArray) -> tuple[FloatArray, FloatArray]:
    """Negative gradients summed in the two leaves below each t; NaN if their difference has no sign."""
    a, b = nodes.left[t], nodes.right[t]
    n, na, nb = nodes.weight[t], nodes.weight[a], nodes.weight[b]
    mean = nodes.value[t, 0, 0]
    # The squared difference of the two means; rounding may leave it below zero.
    difference = np.sqrt(np.maximum(nodes.gain()[t], 0.0) * n / (na * nb))
    sums, marks, whole = [], [], []
    for sign in (1.0, -1.0):
        pair = (na * (mean + sign * difference * nb / n), nb * (mean - sign * difference * na / n))
        mark = [_plausible(nodes, factor, exponential, leaf, r) for leaf, r in zip((a, b), pair, strict=True)]
        sums.append(pair)
        marks.append(np.minimum(*mark) * 3 + np.maximum(*mark))  # both leaves must fit; then the better one decides
        with np.errstate(divide="ignore", invalid="ignore"):
            whole.append(pair[0] / nodes.value[a, 0, 0] + pair[1] / nodes.value[b, 0, 0])  # hessian of t
    plus, minus = marks
    # Leaves of equal value, or means that differ by rounding only: the parent's hessian is the same.
    same = np.abs(whole[0] - whole[1]) <= SLACK * np.abs(whole[0])
    told = same | ((plus != minus) & (np.maximum(plus, minus) >= 4))
    first, second = (np.where(told, np.where(plus > minus, sums[0][i], sums[1][i]), np.nan) for i in (0, 1))
    return first, second


def _plausible(nodes: _Nodes, factor: float, exponential: bool, leaf: LongArray, total: FloatArray) -> LongArray:
    """Tell whether a leaf's negative gradients may add up to `total`: 0 no, 1 yes, 2 yes and of one sign.

    The hessian h of a row is |r| for the exponential loss and |r| - r^2 for log_loss, r its negative gradient. So the
    sum of the h, which the leaf value tells, gives sum |r|, which lies between |sum r| and sqrt(n sum r^2). Where it
    meets |sum r| to the last digits all rows of the leaf are of one class: no coincidence does that.
    """
    n = nodes.weight[leaf]
    squares = n * nodes.impurity[leaf] + total**2 / n
    with np.errstate(divide="ignore", invalid="ignore"):
        hessian = factor * total / nodes.value[leaf, 0, 0]
        absolute = hessian if exponential else hessian + squares
        fits = (hessian > 0) & (absolute >= np.abs(total) - SLACK * n) & (absolute <= np.sqrt(n * squares) + SLACK * n)
        one_sign = np.abs(absolute - np.abs(total)) <= 1e-12 * absolute
    return np.where(fits, np.where(one_sign, 2, 1), 0)
