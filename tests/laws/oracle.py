"""Slow, recursive, obviously right, and on trees of its own: nothing here comes from treeinner.

Trees are parsed from what the libraries write about themselves (JSON, dump_model, tree_), rows are walked one by one.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import factorial

import numpy as np
from scipy.special import expit, logsumexp, softmax


@dataclass(eq=False)
class Node:
    """A leaf, or a split: `goes_left` takes the value of the row. Values have the learning rate inside."""

    cover: float  # weight of the training rows as TreeSHAP takes it
    hessian: float = 0.0  # of a leaf
    value: float = 0.0  # of a leaf
    stored: float | None = None  # PreDecomp's value of a split, where the library stores it
    feature: int = -1
    goes_left: Callable[[float], bool] | None = None
    children: tuple["Node", ...] = ()

    def path(self, row):
        """Nodes from here to the leaf of a row."""
        return [self, *self.child(row).path(row)] if self.children else [self]

    def child(self, row):
        """The side that a row takes."""
        return self.children[0 if self.goes_left(row[self.feature]) else 1]

    def nodes(self):
        """All nodes from here down."""
        return [self, *(node for child in self.children for node in child.nodes())]

    def newton(self, penalty):
        """PreDecomp's value by the l2 formula: the leaves' gradient sums are (hessian + penalty) * value."""
        leaves = [node for node in self.nodes() if not node.children]
        gradient = sum((leaf.hessian + penalty) * leaf.value for leaf in leaves)
        return gradient / (sum(leaf.hessian for leaf in leaves) + penalty)

    def mean(self, row=None, known=()):
        """Mean of the leaves by cover (Saabas); the way of a row where the column is known (the game of TreeSHAP)."""
        if not self.children:
            return self.value
        if self.feature in known:
            return self.child(row).mean(row, known)
        left, right = self.children
        cover = left.cover + right.cover  # symmetric trees have nodes without any
        share = left.cover / cover if cover > 0 else 0.5
        return share * left.mean(row, known) + (1 - share) * right.mean(row, known)


@dataclass(eq=False)
class Forest:
    """Boosted trees."""

    rounds: list[list[tuple[int, Node]]]  # of each round (output, root)
    base: np.ndarray  # (outputs,) margin before the first round
    rate: float
    penalty: float
    gradient: Callable  # (y, margin) -> (rows, outputs)
    loss: Callable  # (y, margin) -> (rows,)


# -- losses ----------------------------------------------------------------------------------------------------------
def log_loss(y, margin):
    """Of the classes 0, 1, ...: (rows,)."""
    return logsumexp(margin, axis=1) - margin[np.arange(len(y)), y.astype(int)]


LOSSES = {  # name -> gradient, value
    "squared": (lambda y, m: m - y[:, None], lambda y, m: (m[:, 0] - y) ** 2 / 2),
    "logistic": (lambda y, m: expit(m) - y[:, None], lambda y, m: np.logaddexp(0, m[:, 0]) - y * m[:, 0]),
    "softmax": (lambda y, m: softmax(m, axis=1) - (y[:, None] == np.arange(m.shape[1])), log_loss),
}


# -- parsers ---------------------------------------------------------------------------------------------------------
def from_xgboost(path, loss, rate, penalty):
    """Numeric trees of XGBoost, by its JSON."""
    import xgboost as xgb

    learner = json.loads(bytes(xgb.Booster(model_file=path).save_raw("json")))["learner"]
    model = learner["gradient_booster"]["model"]
    start = np.array(json.loads(learner["learner_model_param"]["base_score"].lower()), float).reshape(-1)
    base = np.log(start / (1 - start)) if loss == "logistic" else start

    def grow(t, i):
        names = ("split_conditions", "sum_hessian", "base_weights")
        condition, cover, weight = (np.float32(t[name][i]) for name in names)
        if t["left_children"][i] < 0:
            return Node(float(cover), value=float(condition))
        children = tuple(grow(t, t[side][i]) for side in ("left_children", "right_children"))
        column, default = t["split_indices"][i], bool(t["default_left"][i])
        ask = lambda x: default if np.isnan(x) else bool(np.float32(x) < condition)  # noqa: E731
        return Node(float(cover), 0.0, 0.0, rate * float(weight), column, ask, children)

    trees = [(output, grow(t, 0)) for output, t in zip(model["tree_info"], model["trees"], strict=True)]
    rounds = [trees[i : i + len(base)] for i in range(0, len(trees), len(base))]
    return Forest(rounds, base, rate, penalty, *LOSSES[loss])


def from_lightgbm(path, loss, rate, penalty, start):
    """Numeric trees of LightGBM, by dump_model; `start` is in the leaves of the first round and is taken out."""
    import lightgbm as lgb

    def grow(t, start):
        if "leaf_value" in t:
            return Node(t["leaf_count"], t["leaf_weight"], t["leaf_value"] - start)
        children = tuple(grow(t[side], start) for side in ("left_child", "right_child"))
        threshold, default, missing = t["threshold"], t["default_left"], t["missing_type"] == "NaN"
        ask = lambda x: default if np.isnan(x) and missing else bool(np.nan_to_num(x) <= threshold)  # noqa: E731
        return Node(t["internal_count"], 0.0, 0.0, None, t["split_feature"], ask, children)

    trees = [t["tree_structure"] for t in lgb.Booster(model_file=path).dump_model()["tree_info"]]
    rounds = [[(0, grow(t, 0.0 if number else start))] for number, t in enumerate(trees)]
    return Forest(rounds, np.array([start]), rate, penalty, *LOSSES[loss])


def from_catboost(path, rate, penalty):
    """Symmetric trees of numbers for RMSE, by CatBoost's JSON: bit j of a leaf's number is the answer of split j."""
    document = json.loads(path.read_text())
    columns = document["features_info"]["float_features"]

    def grow(t, depth=0, number=0):
        if depth == len(t["splits"]):
            return Node(t["leaf_weights"][number], t["leaf_weights"][number], t["leaf_values"][number])
        children = tuple(grow(t, depth + 1, number + side * 2**depth) for side in (0, 1))
        border, column = np.float32(t["splits"][depth]["border"]), t["splits"][depth]["float_feature_index"]
        default = columns[column]["nan_value_treatment"] != "AsTrue"
        ask = lambda x: default if np.isnan(x) else not np.float32(x) > border  # noqa: E731
        return Node(sum(child.cover for child in children), 0.0, 0.0, None, column, ask, children)

    rounds = [[(0, grow(t))] for t in document["oblivious_trees"]]
    return Forest(rounds, np.array(document["scale_and_bias"][1]), rate, penalty, *LOSSES["squared"])


def from_boosting(estimator):
    """Trees of scikit-learn's GradientBoostingRegressor, squared error."""
    rate = estimator.learning_rate

    def grow(t, i):
        cover = t.weighted_n_node_samples[i]
        if t.children_left[i] < 0:
            return Node(cover, cover, rate * t.value[i, 0, 0])
        ask = lambda x: bool(np.float32(x) <= t.threshold[i])  # noqa: E731
        children = grow(t, t.children_left[i]), grow(t, t.children_right[i])
        return Node(cover, 0.0, 0.0, None, t.feature[i], ask, children)

    rounds = [[(0, grow(tree.tree_, 0))] for tree in estimator.estimators_[:, 0]]
    return Forest(rounds, estimator.init_.constant_.ravel(), rate, 0.0, *LOSSES["squared"])


# -- margins and residuals -------------------------------------------------------------------------------------------
def margins(forest, X):
    """Margin before each round, and the last one: (rounds + 1, rows, outputs)."""
    out = [np.tile(forest.base, (len(X), 1))]
    for trees in forest.rounds:
        out.append(out[-1].copy())
        for output, root in trees:
            out[-1][:, output] += [root.path(row)[-1].value for row in X]
    return np.array(out)


def residuals(forest, X, y, score):
    """Minus the gradient before each round, for the loss breakdown averaged over its step: (rounds, rows, outputs)."""
    margin = margins(forest, X)
    if score == "tree_inner":
        return np.array([-forest.gradient(y, m) for m in margin[:-1]])
    points, weights = np.polynomial.legendre.leggauss(30)  # exact to rounding for smooth losses and small steps
    steps = np.diff(margin, axis=0)
    along = zip((points + 1) / 2, weights / 2, strict=True)
    return sum(-w * np.array([forest.gradient(y, m) for m in margin[:-1] + u * steps]) for u, w in along)


# -- attributions ----------------------------------------------------------------------------------------------------
def shapley(root, row, n_columns):
    """Shapley values of one tree by their definition, over all coalitions: (columns,)."""
    players = sorted({node.feature for node in root.nodes() if node.children})
    out, n = np.zeros(n_columns), len(players)
    for player in players:
        others = [other for other in players if other != player]
        for size in range(n):
            share = factorial(size) * factorial(n - size - 1) / factorial(n)
            for known in combinations(others, size):
                out[player] += share * (root.mean(row, {*known, player}) - root.mean(row, known))
    return out


def row_means(root, X, weight, quantity):
    """Weighted mean of a quantity of the rows in each node, 0 where there are none: node -> number."""
    total, sums = dict.fromkeys(root.nodes(), 0.0), dict.fromkeys(root.nodes(), 0.0)
    for row, w, q in zip(X, weight, quantity, strict=True):
        for node in root.path(row):
            total[node] += w
            sums[node] += w * q
    return {node: sums[node] / total[node] if total[node] > 0 else 0.0 for node in total}


def node_values(forest, root, X, weight, method):
    """Value of each node for a path attribution: node -> number."""
    if method == "centred":
        return row_means(root, X, weight, [root.path(row)[-1].value for row in X])
    if method == "saabas":
        return {node: node.mean() for node in root.nodes()}
    known = {node: node.stored if node.children else node.value for node in root.nodes()}
    return {node: node.newton(forest.penalty) if value is None else value for node, value in known.items()}


def attributions(forest, X, method, weight):
    """Attribution of each round: (rounds, rows, columns, outputs)."""
    out = np.zeros((len(forest.rounds), *X.shape, len(forest.base)))
    for part, trees in zip(out, forest.rounds, strict=True):
        for output, root in trees:
            value = None if method == "treeshap" else node_values(forest, root, X, weight, method)
            for i, row in enumerate(X):
                if value is None:
                    part[i, :, output] += shapley(root, row, X.shape[1])
                    continue
                for parent, child in pairwise(root.path(row)):
                    part[i, parent.feature, output] += value[child] - value[parent]
    return out


# -- scores ----------------------------------------------------------------------------------------------------------
def products(forest, X, y, score, method, weight):
    """Attribution times residual times weight: (rounds, rows, columns, outputs); a score is their sum."""
    residual = residuals(forest, X, y, score)
    return attributions(forest, X, method, weight) * residual[:, :, None, :] * weight[:, None, None]


def centred_shares(forest, X, y, score, weight):
    """Share of each row in the centred scores: (rows, columns, outputs).

    The node values are estimated on these rows, and a row moves them too. By the influence function its share is
    (c_u - c_v)(g - g_v) + (g_u - g_v)(l - c_u) for each step from a node v to its child u, with c the means of the
    leaf values l, and g_v those of the residuals g.
    """
    out = np.zeros((*X.shape, len(forest.base)))
    for residual, trees in zip(residuals(forest, X, y, score), forest.rounds, strict=True):
        for output, root in trees:
            c = node_values(forest, root, X, weight, "centred")
            g = row_means(root, X, weight, residual[:, output])
            for i, row in enumerate(X):
                path = root.path(row)
                for v, u in pairwise(path):
                    share = (c[u] - c[v]) * (residual[i, output] - g[v]) + (g[u] - g[v]) * (path[-1].value - c[u])
                    out[i, v.feature, output] += weight[i] * share
    return out


def std_errors(shares, weight, clusters):
    """Standard error of the sum of independent shares over the sum of weights: shares.shape[1:]."""
    summed = np.array([shares[clusters == label].sum(axis=0) for label in np.unique(clusters)])
    n = len(summed)
    return np.sqrt(n / (n - 1) * ((summed - summed.mean(axis=0)) ** 2).sum(axis=0)) / weight.sum()
