"""scikit-learn's HistGradientBoosting: nodes as they are stored, with the roots repaired.

What is stored (measured on 1.5 and 1.9): inner values without and leaf values with the learning rate, the gain of every
split, no hessians. A root's value is always 0, and its gain lacks the root's own term G^2 / (H + l2). Both follow from
the hessians of the root's two children, which the stored numbers determine:

* hessians that are constant (squared error without sample weights) are the row counts;
* else, at an inner node with children a, b and w = -G / (H + l2), the two equations "gradients add up" and "the gain is
  the stored one" are linear in H_a and H_b;
* a root's child that is a leaf follows from the root's own gain;
* where monotonic constraints moved the values next to the root, all equations of the tree are solved at once.

A lone stump with varying hessians leaves one equation for two unknowns: its root is NaN, and `needs` says so. Losses
that renew their leaves (absolute error, quantile) keep gradient steps at the inner nodes, in other units than the
leaves; their inner values are the mean of the leaves by row counts, as for other libraries.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from treeinner.ensemble import Ensemble, NodeValues
from treeinner.errors import UnsupportedModelError
from treeinner.options import ReadOptions
from treeinner.readers._trees import BoolArray, FloatArray, LongArray, mean_of_leaves
from treeinner.readers.sklearn.trees import Nodes, names_of, renewed
from treeinner.tables import Level, Schema

__all__ = ["is_custom_loss", "read_hist"]

RENEWED = ("absolute_error", "quantile")
CHECKED = ("squared_error", "log_loss", "poisson", "gamma")  # gains that tests/exactness.py compares
# The loss objects that `loss=` accepts besides names.
LOSS_CLASSES = {
    "HalfSquaredError": "squared_error",
    "AbsoluteError": "absolute_error",
    "PinballLoss": "quantile",
    "HalfPoissonLoss": "poisson",
    "HalfGammaLoss": "gamma",
    "HalfBinomialLoss": "log_loss",
    "HalfMultinomialLoss": "log_loss",
}
# Hessians and the root's stored gain must agree to this. Measured: 1e-7 or better where the equations hold; a wrong
# assumption (weights, clipped values) misses by percents.
AGREEMENT = 1e-4
MAX_LEAVES = 256  # of a tree whose equations are solved all at once


def read_hist(model: Any, options: ReadOptions) -> Ensemble:
    """Read a fitted HistGradientBoostingRegressor or HistGradientBoostingClassifier."""
    l2 = float(model.l2_regularization if options.reg_lambda is None else options.reg_lambda)
    columns, objective, alpha = _Columns(model), _objective(model), None
    if objective == "quantile":
        alpha = float(model.quantile if isinstance(model.loss, str) else model.loss.closs.quantile)
    predictors = [p for stage in model._predictors for p in stage]
    nodes = _Nodes(predictors, columns)
    rounds = nodes.rounds(len(model._predictors[0]), float(model.learning_rate), options)
    given = options.learning_rate is not None or objective in RENEWED
    rate, doubt = (rounds["tree_rate"], "") if given else _tree_rates(model, nodes, rounds["tree_rate"], l2)
    rounds["tree_rate"] = rate
    return nodes.ensemble(
        model,
        nodes.stored["value"][:, None],
        alpha=alpha,
        work_out=lambda: _node_values(model, nodes, rate, l2, objective, doubt),
        **rounds,
        **_splits(predictors, nodes, columns),
        base_score=np.asarray(model._baseline_prediction, dtype=np.float64).reshape(-1),
        objective=objective,
        params={"learning_rate": float(rate[0]), "reg_lambda": l2, "reg_alpha": 0.0},
    )


class _Columns:
    """The user's columns: the order the trees see them in, and the levels of the categorical ones."""

    def __init__(self, model: Any) -> None:
        n, flags = int(model.n_features_in_), model.is_categorical_
        categorical = np.zeros(n, bool) if flags is None else np.asarray(flags, dtype=bool)
        preprocessor = getattr(model, "_preprocessor", None)
        # The preprocessor hands the trees the categorical columns first.
        self.order = np.arange(n) if preprocessor is None else np.argsort(~categorical, kind="stable")
        bins = model._bin_mapper.bin_thresholds_  # of a categorical column: the codes seen in training
        self.codes = {int(c): np.asarray(bins[i]) for i, c in enumerate(self.order) if categorical[c]}
        self.none_code: dict[int, int] = {}  # columns in which None was a level of its own
        levels: list[tuple[Level, ...] | None] = [None] * n
        if preprocessor is None:  # before 1.4 the numbers in X were the codes
            for column, codes in self.codes.items():
                levels[column] = tuple(codes.tolist())
        else:
            encoder = preprocessor.named_transformers_["encoder"]
            for column, given in zip(self.codes, encoder.categories_, strict=True):
                levels[column] = self._levels(column, list(given))
        some = bool(categorical.any())
        self.schema = Schema(
            n_columns=n,
            names=names_of(model),
            categorical=tuple(categorical.tolist()) if some else None,
            levels=tuple(levels) if some else None,
            levels_for_arrays=True,
            unseen="missing",
            known_codes=tuple(None if v is None else len(v) for v in levels) if some else None,
        )

    def _levels(self, column: int, given: list[Any]) -> tuple[Level, ...]:
        """Levels in the order of their codes, without the missing ones, which the encoder puts last."""
        has_nan = bool(given) and given[-1] != given[-1]
        given = given[: len(given) - has_nan]
        if given and given[-1] is None:
            if has_nan:
                raise UnsupportedModelError(
                    f"Column {column} was trained with both None and NaN: scikit-learn takes None for a "
                    "level and NaN for missing, but tables do not tell them apart. Train with one of them."
                )
            given = given[:-1]
            self.none_code[column] = len(given)
        plain = tuple(level.item() if isinstance(level, np.generic) else level for level in given)
        odd = next((level for level in plain if not isinstance(level, str | int | float | bool)), None)
        if odd is not None:
            raise UnsupportedModelError(
                f"Column {column} has a category of type {type(odd).__name__} ({odd!r}); only strings, "
                "numbers and booleans are read. Train with such labels, e.g. X[column].astype(str)."
            )
        return plain


class _Nodes(Nodes):
    """The nodes of all trees; columns in the user's order."""

    def __init__(self, predictors: list[Any], columns: _Columns) -> None:
        super().__init__([p.nodes for p in predictors], "left", "right")
        column = columns.order[np.where(self.leaf, 0, self.stored["feature_idx"]).astype(np.int64)]
        self.feature = np.where(self.leaf, -1, column)
        self.weight = self.stored["count"].astype(np.float64)
        # Leaves that could have been split carry the gain of the split that was not made.
        self.gain = np.where(self.leaf, 0.0, self.stored["gain"])

    def root_children(self) -> tuple[BoolArray, LongArray]:
        """Which roots split, and the two children of those: (n_trees,), (2, trees that split)."""
        split = ~self.leaf[self.roots]
        parent = self.roots[split]
        return split, np.stack([self.left[parent], self.right[parent]])


def _splits(predictors: list[Any], nodes: _Nodes, columns: _Columns) -> dict[str, Any]:
    """Where rows go, and the schema that fits it. The stored sets of categories go left, ours right: children swap.

    Where None was a level (null in polars), missing values are that level and go where it goes. If that is not where
    scikit-learn sends unseen levels, those cannot count as missing any more and are refused.
    """
    swap = ~nodes.leaf & nodes.stored["is_categorical"].astype(bool)
    unseen_left = nodes.missing_left ^ swap
    missing_left = unseen_left.copy()
    tree = np.repeat(np.arange(nodes.n_trees), nodes.sizes)
    codes: list[LongArray] = []
    for node in np.flatnonzero(swap):
        column = int(nodes.feature[node])
        bits = predictors[tree[node]].raw_left_cat_bitsets[nodes.stored["bitset_idx"][node]]
        raw = np.flatnonzero(np.unpackbits(np.asarray(bits, "<u4").view(np.uint8), bitorder="little"))
        codes.append(np.flatnonzero(np.isin(columns.codes[column], raw)))  # a level's code: its position
        if column in columns.none_code:
            missing_left[node] = columns.none_code[column] not in codes[-1]
    same = np.array_equal(missing_left, unseen_left)
    return {
        "threshold": np.where(nodes.leaf | swap, np.nan, nodes.stored["num_threshold"]),
        "left": np.where(swap, nodes.right, nodes.left),
        "right": np.where(swap, nodes.left, nodes.right),
        "missing_left": missing_left,
        "category_set": np.where(swap, np.cumsum(swap) - 1, -1),
        "set_start": np.concatenate([[0], np.cumsum([len(c) for c in codes])]).astype(np.int64),
        "set_codes": np.concatenate([*codes, np.zeros(0, np.int64)]),
        "schema": columns.schema if same else replace(columns.schema, unseen="error"),
    }


# -- learning rates ------------------------------------------------------------------------------------------
def _tree_rates(model: Any, nodes: _Nodes, assumed: FloatArray, l2: float) -> tuple[FloatArray, str]:
    """Learning rate of each tree, which only its leaves hold, and what had to be assumed: (n_trees,), text or "".

    The estimator has the rate of its last fit, or what set_params made of it. With hessians that are row counts the
    gradients of a node tell the rate: (n + l2) w is the sum over its children, where w = value / rate at a leaf.
    """
    plain = getattr(model._loss, "constant_hessian", False) and model.monotonic_cst is None
    if plain:
        rate, fits = _rates_by_counts(nodes, assumed, l2)
        if fits:
            return rate, ""
    weighted = plain and getattr(model, "_fitted_with_sw", False)
    if model.warm_start or (plain and not weighted):
        return assumed, (
            f"every tree is taken to have learning_rate={assumed[0]:g} and l2_regularization={l2:g}, as the estimator "
            "says, but warm_start or set_params may have changed them; pass learning_rate, one per round, to confirm it"
        )
    return assumed, ""


def _rates_by_counts(nodes: _Nodes, assumed: FloatArray, l2: float) -> tuple[FloatArray, bool]:
    """Rate of each tree if hessians are row counts, and whether all its equations hold."""
    tree = np.repeat(np.arange(nodes.n_trees), nodes.sizes)
    value, weight = nodes.stored["value"], nodes.weight + l2
    below = np.setdiff1d(np.flatnonzero(~nodes.leaf), nodes.roots)  # a root's value is not stored
    known, shrunk, size = (weight * value)[below], np.zeros(len(below)), np.abs(weight * value)[below]
    for child in (nodes.left[below], nodes.right[below]):
        term = weight[child] * value[child]
        known = known - np.where(nodes.leaf[child], 0.0, term)
        shrunk += np.where(nodes.leaf[child], term, 0.0)
        size += np.abs(np.where(nodes.leaf[child], term / assumed[tree[child]], term))
    top = np.bincount(tree[below], known * shrunk, nodes.n_trees)
    bottom = np.bincount(tree[below], shrunk**2, nodes.n_trees)
    largest = np.bincount(tree[below], size**2, nodes.n_trees)
    told = (bottom > 1e-12 * largest) & (top > 0)
    rate = np.where(told, bottom / np.where(told, top, 1.0), assumed)
    split, child = nodes.root_children()
    lone = np.zeros(nodes.n_trees, bool)
    lone[split] = nodes.leaf[child].all(axis=0)  # a stump: the gain of its root is the sum of (n + l2) w^2
    total, squares = nodes.gain[nodes.roots[split]], (weight[child] * value[child] ** 2).sum(axis=0)
    by_gain = np.sqrt(squares / np.where(total > 0, total, 1.0))
    stump = lone[split] & (total > 0)
    rate[np.flatnonzero(split)[stump]] = by_gain[stump]
    rate = np.where(np.abs(rate / assumed - 1) <= AGREEMENT, assumed, rate)
    missed = np.abs(known - shrunk / rate[tree[below]])
    return rate, bool(np.all(missed <= AGREEMENT * np.maximum(size, np.abs(shrunk) / rate[tree[below]])))


# -- node values ---------------------------------------------------------------------------------------------
def _node_values(model: Any, nodes: _Nodes, tree_rate: FloatArray, l2: float, objective: str, doubt: str) -> NodeValues:
    """Value and gain of every node, NaN where not known; `tree_rate` (n_trees,), `doubt`: what it rests on."""
    stored, leaf, gain = nodes.stored["value"], nodes.leaf, nodes.gain.copy()
    if objective in RENEWED:
        weighted = bool(getattr(model, "_fitted_with_sw", False))
        gain[nodes.roots] = np.nan if weighted else _renewed_root_gain(nodes, l2)
        gain[leaf] = 0.0
        value = np.where(leaf, stored, 0.0)[:, None]
        mean = mean_of_leaves(value, nodes.weight, nodes.left, nodes.right, nodes.levels())
        return NodeValues(mean, gain=gain, exactness=renewed(objective), value_doubts=(renewed(objective),))
    rate = np.repeat(tree_rate, nodes.sizes)
    step = np.where(leaf, stored / rate, stored)
    constant = bool(getattr(model._loss, "constant_hessian", False))
    step[nodes.roots], gain[nodes.roots] = _roots(nodes, step, l2, _clipped(model, nodes, step), constant)
    unknown, why = np.isnan(step[nodes.roots]), "exact"
    node_value = np.where(leaf, stored, rate * step)
    node_value[np.repeat(unknown, nodes.sizes) & ~leaf] = np.nan
    if unknown.any():
        why = f"{int(unknown.sum())} trees are too small to tell the hessian of their root and its value"
    elif getattr(model, "do_early_stopping_", False) and getattr(model, "validation_fraction", None) is not None:
        why = "early stopping may have held out rows: equality holds on the rows the trees were grown on"
    elif objective not in CHECKED:
        why = f"the gains of {objective or 'a custom loss'} have not been compared with sums over the rows"
    needs = ("training data",) if unknown.any() else ()
    if doubt:
        why = doubt if why == "exact" else f"{why}; {doubt}"
    doubts = (doubt,) if doubt else ()
    return NodeValues(node_value[:, None], gain=gain, needs=needs, exactness=why, value_doubts=doubts)


def _roots(
    nodes: _Nodes, step: FloatArray, l2: float, clipped: BoolArray, constant: bool
) -> tuple[FloatArray, FloatArray]:
    """Step -G / (H + l2) and true gain of every root, NaN where not known: two arrays (n_trees,)."""
    split, child = nodes.root_children()
    w, total = step[child], nodes.gain[nodes.roots[split]]
    hessian = nodes.weight[child]
    agrees = _agree(hessian, w, l2, total)
    if not (constant and agrees.all()):  # sample weights make constant hessians vary
        hessian = _solved_hessians(nodes, step, child, l2, clipped)
        for i in (0, 1):  # where one of the two is unknown, the root's gain sum (H + l2) w^2 gives it
            with np.errstate(divide="ignore", invalid="ignore"):
                rest = (total - (hessian[1 - i] + l2) * w[1 - i] ** 2) / w[i] ** 2 - l2
            hessian[i] = np.where(np.isnan(hessian[i]), rest, hessian[i])
        agrees = _agree(hessian, w, l2, total)
    gradient = -((hessian + l2) * w).sum(axis=0)
    whole = hessian.sum(axis=0) + l2
    for j in np.flatnonzero(~agrees):
        gradient[j], whole[j] = _root_sums(nodes, step, int(np.flatnonzero(split)[j]), l2, clipped)
    agrees = whole > 0
    root_step, root_gain = np.zeros(len(split)), np.zeros(len(split))
    root_step[split] = np.where(agrees, -gradient / whole, np.nan)
    root_gain[split] = np.where(agrees, total - gradient**2 / whole, np.nan)
    return root_step, root_gain


def _agree(hessian: FloatArray, w: FloatArray, l2: float, total: FloatArray) -> BoolArray:
    """Are these hessians of the root's children what the root's stored gain says? NaN is not."""
    missed = np.abs(((hessian + l2) * w**2).sum(axis=0) - total)
    return np.asarray((hessian > 0).all(axis=0) & (missed <= AGREEMENT * total))


def _solved_hessians(nodes: _Nodes, step: FloatArray, node: LongArray, l2: float, clipped: BoolArray) -> FloatArray:
    """Hessian sums of inner nodes by the two equations at each; NaN at leaves and above clipped children."""
    hessian = np.full(node.shape, np.nan)
    a, b = nodes.left[node], nodes.right[node]
    can = (a >= 0) & ~clipped[a] & ~clipped[b]
    wt, wa, wb = step[node[can]], step[a[can]], step[b[can]]
    # gradients add up:  (wa - wt) Ha + (wb - wt) Hb = r1
    # the stored gain:   (wa^2 - wt^2) Ha + (wb^2 - wt^2) Hb = r2
    r1 = l2 * (wt - wa - wb)
    r2 = nodes.gain[node[can]] - l2 * (wa**2 + wb**2 - wt**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The determinant is (wa - wt)(wb - wt)(wb - wa); one factor cancels from each solution.
        ha = ((wb + wt) * r1 - r2) / ((wa - wt) * (wb - wa))
        hb = (r2 - (wa + wt) * r1) / ((wb - wt) * (wb - wa))
        hessian[can] = np.where((ha > 0) & (hb > 0), ha + hb, np.nan)
    return hessian


def _root_sums(nodes: _Nodes, step: FloatArray, tree: int, l2: float, clipped: BoolArray) -> tuple[float, float]:
    """Gradient and hessian + l2 of a root by all equations of its tree at once; NaN if they leave them open.

    Unknown are the hessian of every leaf and the gradient of the clipped ones; every gain is an equation, and so is the
    value of every inner node that was not clipped.
    """
    lo, hi = nodes.start[tree : tree + 2]
    leaves = np.flatnonzero(nodes.leaf[lo:hi])
    if not 3 <= len(leaves) <= MAX_LEAVES:
        return np.nan, np.nan
    unit = np.sqrt(np.mean(step[lo + 1 : hi] ** 2))  # steps of size 1 make the rows comparable
    w, gain, moved = step[lo:hi] / unit, nodes.gain[lo:hi] / unit**2, clipped[lo:hi]
    # Rows: a node's hessian and gradient in terms of the unknowns and, last, of the number 1.
    h, g = np.zeros((2, hi - lo, 2 * len(leaves) + 1))
    for i, leaf in enumerate(leaves):
        h[leaf, i] = 1.0
        g[leaf, [i, len(leaves) + i, -1]] = (0.0, 1.0, 0.0) if moved[leaf] else (-w[leaf], 0.0, -l2 * w[leaf])
    rows = []
    for t in range(hi - lo - 1, -1, -1):
        if nodes.leaf[lo + t]:
            continue
        a, b = nodes.left[lo + t] - lo, nodes.right[lo + t] - lo
        h[t], g[t] = h[a] + h[b], g[a] + g[b]
        rows.append(g[t] * w[t] - g[a] * w[a] - g[b] * w[b])  # w[0] is 0: the root's gain lacks its own term
        rows[-1][-1] -= gain[t]
        if t > 0 and not moved[t]:
            rows.append(g[t] + w[t] * h[t])
            rows[-1][-1] += l2 * w[t]
    equations = np.array(rows)
    sums = []
    for wanted in (g[0], h[0]):
        mix = np.linalg.lstsq(equations[:, :-1].T, wanted[:-1], rcond=1e-11)[0]
        terms = mix * equations[:, -1]
        # Open if no mix of the equations gives it, or only one that blows up their rounding errors.
        left_over = np.abs(mix @ equations[:, :-1] - wanted[:-1]).max()
        sure = left_over <= 1e-9 and np.abs(terms).sum() <= 1e6 * nodes.weight[lo]
        sums.append(wanted[-1] - terms.sum() if sure else np.nan)
    return sums[0] * unit, sums[1] + l2


def _clipped(model: Any, nodes: _Nodes, step: FloatArray) -> BoolArray:
    """Nodes whose value a monotonic constraint may have moved: those that sit on a bound."""
    clipped = np.zeros(len(step), bool)
    given = model.monotonic_cst
    if given is None:
        return clipped
    sign = np.array([given.get(n, 0) for n in names_of(model) or ()] if isinstance(given, dict) else given)
    lower, upper = np.full(len(step), -np.inf), np.full(len(step), np.inf)  # of a node's children
    for t in nodes.levels():
        a, b = nodes.left[t], nodes.right[t]
        middle, s = (step[a] + step[b]) / 2, sign[nodes.feature[t]]
        for child, below, above in ((a, s < 0, s > 0), (b, s > 0, s < 0)):
            # Leaves went through "times rate, divided by rate": equal up to rounding.
            on_bound = [np.isclose(step[child], bound[t], rtol=1e-12, atol=0) for bound in (lower, upper)]
            clipped[child] = on_bound[0] | on_bound[1]
            lower[child] = np.where(below, middle, lower[t])
            upper[child] = np.where(above, middle, upper[t])
    return clipped


def _renewed_root_gain(nodes: _Nodes, l2: float) -> FloatArray:
    """Gain of the roots when the leaves' own steps were overwritten: (n_trees,), NaN where not known.

    An inner child still has its step; that of a leaf follows from the root's stored gain up to the sign, and a median
    or quantile of the residuals has the sign of the gradient step it replaced.
    """
    split, child = nodes.root_children()
    total, stored = nodes.gain[nodes.roots[split]], nodes.stored["value"][child]
    weight = nodes.weight[child] + l2
    w = np.where(nodes.leaf[child], np.nan, stored)
    for i in (0, 1):
        rest = np.maximum(total - weight[1 - i] * w[1 - i] ** 2, 0.0) / weight[i]
        w[i] = np.where(np.isnan(w[i]), np.sign(stored[i]) * np.sqrt(rest), w[i])
    gain = np.zeros(len(split))
    true_gain = total - (weight * w).sum(axis=0) ** 2 / (weight.sum(axis=0) - l2)
    gain[split] = np.where(_agree(weight - l2, w, l2, total), true_gain, np.nan)
    return gain


# -- the loss ------------------------------------------------------------------------------------------------
def is_custom_loss(loss: Any) -> bool:
    """Whether a loss is an object of a user's own class."""
    return hasattr(loss, "gradient_hessian") and not type(loss).__module__.startswith("sklearn.")


def _objective(model: Any) -> str:
    if isinstance(model.loss, str):
        return str(model.loss)
    return "" if is_custom_loss(model.loss) else LOSS_CLASSES.get(type(model.loss).__name__, "")
