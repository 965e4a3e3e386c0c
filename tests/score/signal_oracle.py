"""The signal score and `holds` by their definition, row by row, from what each library says of its own trees.

Slow and obviously right; nothing here is treeinner's. Shapes: n rows, p features, K outputs, R rounds.
"""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass
class Tree:
    """One tree, and where the rows go in it."""

    parent: np.ndarray  # (nodes,) -1 at the root
    features: list  # of the split in each node: the features that share its credit; () in a leaf
    leaf: np.ndarray  # (n,) node that each row ends in
    step: np.ndarray  # (n, K) what the tree adds to the margin, learning rate included
    round: int


# -- trees, from each library's own dump and predict -----------------------------------------------------------------
def xgboost_trees(booster, data):
    """Trees of an XGBoost booster over the rows of a DMatrix."""
    model = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]["model"]
    n, output, trees = data.num_row(), model["tree_info"], []
    leaf = booster.predict(data, pred_leaf=True).reshape(n, -1).astype(int)
    for t, tree in enumerate(model["trees"]):
        inner, parent = np.array(tree["left_children"]) >= 0, np.array(tree["parents"])
        features = [(f,) if split else () for f, split in zip(tree["split_indices"], inner, strict=True)]
        step = np.zeros((n, max(output) + 1))
        step[:, output[t]] = np.array(tree["split_conditions"], np.float32)[leaf[:, t]]
        r = int(np.searchsorted(model["iteration_indptr"], t, side="right")) - 1
        trees.append(Tree(np.where(parent < len(inner), parent, -1), features, leaf[:, t], step, r))
    return trees


def lightgbm_trees(booster, X, start):
    """Trees of a LightGBM booster; start, (K,): what `boost_from_average` hid in its first trees."""
    K, trees = booster.num_model_per_iteration(), []
    for t, nodes in booster.trees_to_dataframe().groupby("tree_index"):
        position = {name: at for at, name in enumerate(nodes["node_index"])}
        parent = np.array([position.get(name, -1) for name in nodes["parent_index"]])
        names = booster.feature_name()
        features = [(names.index(name),) if isinstance(name, str) else () for name in nodes["split_feature"]]
        only = {"start_iteration": t // K, "num_iteration": 1}
        leaf = booster.predict(X, pred_leaf=True, **only).reshape(len(X), -1)[:, t % K]
        step = np.eye(K)[t % K] * booster.predict(X, raw_score=True, **only).reshape(len(X), -1)
        step[:, t % K] -= start[t % K] * (t < K)
        trees.append(Tree(parent, features, np.array([position[f"{t}-L{i}"] for i in leaf]), step, t // K))
    return trees


def catboost_trees(model, pool):
    """Symmetric trees of a CatBoost model over the rows of a Pool."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_model(f"{folder}/m.json", format="json", pool=pool)
        dump = json.loads(Path(folder, "m.json").read_text())
    info, credit = dump["features_info"], []  # of every split that the model knows, in its order
    floats, categories = (info.get(kind, []) for kind in ("float_features", "categorical_features"))
    for feature in [*floats, *categories]:
        credit += [(feature["flat_feature_index"],)] * len(feature.get("borders") or feature.get("values") or [])
    for ctr in info.get("ctrs", []):
        several = [(floats, e["float_feature_index"]) for e in ctr["elements"] if "float_feature_index" in e]
        several += [(categories, e["cat_feature_index"]) for e in ctr["elements"] if "cat_feature_index" in e]
        used = {kind[place]["flat_feature_index"] for kind, place in several}
        credit += [tuple(sorted(used))] * len(ctr["borders"])
    trees, bias = [], np.atleast_1d(model.get_scale_and_bias()[1])
    for t, leaf in enumerate(model.calc_leaf_indexes(pool).T):
        step = model.predict(pool, prediction_type="RawFormulaVal", ntree_start=t, ntree_end=t + 1)
        parent, features, last = [-1], [], [0]
        for split in dump["oblivious_trees"][t]["splits"]:  # the first is at the root, and the lowest bit of a leaf
            features += [credit[split["split_index"]]] * len(last)
            parent += last + last
            last = list(range(len(parent) - 2 * len(last), len(parent)))
        step = step.reshape(len(leaf), -1) - bias * (t == 0)
        trees.append(Tree(np.array(parent), features + [()] * len(last), np.array(last)[leaf], step, t))
    return trees


def binary_tree(left, right, feature, leaf, step, r):
    """Tree from the children of its nodes, 0 or less in a leaf."""
    parent = np.full(len(left), -1)
    for child in (left, right):
        parent[child[child > 0]] = np.flatnonzero(child > 0)
    return Tree(parent, [(f,) if c > 0 else () for f, c in zip(feature, left, strict=True)], leaf, step, r)


def sklearn_trees(estimators, X, step):
    """Trees of scikit-learn's estimators, one row of them in each round; step(estimator, output): (n, K)."""
    return [
        binary_tree(e.tree_.children_left, e.tree_.children_right, e.tree_.feature.tolist(), e.apply(X), step(e, k), r)
        for r, several in enumerate(estimators)
        for k, e in enumerate(several)
    ]


def histogram_trees(model, X, order):
    """Trees of HistGradientBoosting; order: the column that each of its own columns is."""
    inside, bitsets, trees = model._preprocess_X(X, reset=False), model._bin_mapper.make_known_categories_bitsets(), []
    for r, several in enumerate(model._predictors):
        for k, predictor in enumerate(several):
            nodes, own = predictor.nodes, predictor.nodes["value"].copy()
            nodes["value"] = np.arange(len(nodes))  # what it predicts is then the leaf
            leaf = predictor.predict(inside, *bitsets, 1).astype(int)
            nodes["value"] = own
            left, right = (np.where(nodes["is_leaf"], 0, nodes[side].astype(int)) for side in ("left", "right"))
            step = np.eye(len(several))[k] * own[leaf][:, None]
            trees.append(binary_tree(left, right, np.take(order, nodes["feature_idx"]).tolist(), leaf, step, r))
    return trees


# -- the definitions -------------------------------------------------------------------------------------------------
def centred(tree, g, weight, p):
    """Centred contributions of one tree and the rows' shares in TreeInner, (n, p, K) each; and by chance: (p, K).

    Node by node: which rows are below it, their mean leaf value c and mean residual m, and
    (c_u - c_v)(g_i - m_v) + (m_u - m_v)(L_i - c_u) for the step from v to its child u. By chance, because both means
    are over the same rows, a split has (n_r s_l + n_l s_r) / n_v, s_u the covariance of L and g in u; all that it has,
    where a child that is no leaf has one row. (Rows of weight 1.)
    """
    n, below = len(g), np.zeros((len(tree.parent), len(g)), bool)
    for i in range(n):
        node = tree.leaf[i]
        while node >= 0:
            below[node, i] = True
            node = tree.parent[node]
    total = (below @ weight)[:, None]
    c, m = ((below * weight) @ each / np.where(total > 0, total, 1) for each in (tree.step, g))
    phi, share, chance = np.zeros((n, p, g.shape[1])), np.zeros((n, p, g.shape[1])), np.zeros((p, g.shape[1]))
    for v in (v for v, used in enumerate(tree.features) if used):
        used, part, children = list(tree.features[v]), 1 / len(tree.features[v]), np.flatnonzero(tree.parent == v)
        if min(total[children]) == 0:
            continue  # all rows on one side: nothing moves
        gained, lost = 0.0, 0.0
        for u in children:
            i = np.flatnonzero(below[u])
            one = weight[i, None] * ((c[u] - c[v]) * (g[i] - m[v]) + (m[u] - m[v]) * (tree.step[i] - c[u]))
            phi[np.ix_(i, used)] += part * (c[u] - c[v])
            share[np.ix_(i, used)] += part * one[:, None]
            covariance = ((tree.step[i] - c[u]) * (g[i] - m[u])).sum(axis=0) / max(len(i) - 1, 1)
            gained, lost = gained + one.sum(axis=0), lost + (total[v] - total[u]) / total[v] * covariance
        single = any(tree.features[u] and below[u].sum() == 1 for u in children)
        chance[used] += part * (gained if single else lost)
    return phi, share, chance


@dataclass
class Answer:
    """What the rows add to each quantity, weights included, (n, names, K) each, and what follows."""

    tree_inner: np.ndarray  # shares in TreeInner, with the influence of the node means
    fixed: np.ndarray  # the same with the node means taken as fixed: contributions times residuals less their mean
    own: np.ndarray  # each feature's own earlier effect
    s: np.ndarray  # of holds
    l: np.ndarray  # noqa: E741
    Phi: np.ndarray  # contributions to the final model
    rounds: np.ndarray  # TreeInner by round: (R, names)
    chance: np.ndarray  # (names, K) of a forest's small nodes
    weight: np.ndarray
    clusters: np.ndarray | None

    def error(self, terms):
        """Standard error of the sum of the rows' terms, (n, names), per unit of weight."""
        alive = self.weight > 0
        units = np.flatnonzero(alive) if self.clusters is None else self.clusters[alive]
        sums = np.array([terms[alive][units == unit].sum(axis=0) for unit in np.unique(units)])
        return np.sqrt(len(sums)) * sums.std(axis=0, ddof=1) / self.weight.sum()

    def result(self, output=None):
        """Score, its standard error, holds and its standard error: (names,) each."""
        chosen = slice(None) if output is None else [output]
        shares, s, l = ((each[..., chosen]).sum(axis=2) for each in (self.tree_inner + self.own, self.s, self.l))  # noqa: E741
        score = (shares.sum(axis=0) - self.chance[:, chosen].sum(axis=1)) / self.weight.sum()
        steepness = np.where((s != l).any(axis=0), (s - l).sum(axis=0), np.nan)  # no factor changes what is left
        holds = s.sum(axis=0) / steepness
        influence = (s - holds * (s - l)) / (steepness / self.weight.sum())
        return score, self.error(shares), holds, self.error(influence)


def answer(trees, start, gradient, curvature, p, *, weight=None, clusters=None, groups=None, forest=False):
    """Signal and holds.

    start: margin before the first round, (n, K); gradient(margin): of the loss, (n, K); curvature(margin): its matrix,
    (n, K) or (n, K, K), or None for a loss with kinks; groups: lists of features to be scored as one; forest: the trees
    stand side by side, all in round 0, and what they have by chance is taken off.
    """
    n, K = start.shape
    weight = np.ones(n) if weight is None else np.asarray(weight, float)
    names = [[k] for k in range(p)] if groups is None else groups
    R = 1 + max(tree.round for tree in trees)
    phi, margins, margin = np.zeros((R, n, len(names), K)), [], start
    shares, fixed, chance = np.zeros((R, n, len(names), K)), np.zeros((n, len(names), K)), np.zeros((len(names), K))
    for r in range(R):
        margins.append(margin)
        for tree in (tree for tree in trees if tree.round == r):
            one_phi, one_share, one_chance = centred(tree, -gradient(margins[r]), weight, p)
            margin = margin + tree.step
            for k, members in enumerate(names):
                phi[r][:, k] += one_phi[:, members].sum(axis=1)
                shares[r][:, k] += one_share[:, members].sum(axis=1)
                apart = weight @ gradient(margins[r]) / weight.sum() - gradient(margins[r])
                fixed[:, k] += weight[:, None] * one_phi[:, members].sum(axis=1) * apart
                chance[k] += one_chance[members].sum(axis=0)
    own, Phi = np.zeros((n, len(names), K)), np.zeros((n, len(names), K))
    for r in range(R):
        h = None if curvature is None else curvature(margins[r])
        for k in np.flatnonzero(Phi.any(axis=(0, 2))):
            if h is None:
                effect = gradient(margins[r]) - gradient(margins[r] - Phi[:, k])
            else:
                effect = h * Phi[:, k] if h.ndim == 2 else np.einsum("iab,ib->ia", h, Phi[:, k])
            own[:, k] += weight[:, None] * phi[r][:, k] * effect
        Phi += phi[r]
    without = np.stack([-gradient(margin - Phi[:, k]) for k in range(len(names))], axis=1)
    s, l = (weight[:, None, None] * Phi * g for g in (without, -gradient(margin)[:, None]))  # noqa: E741
    rounds = shares.sum(axis=(1, 3)) / weight.sum()
    return Answer(shares.sum(axis=0), fixed, own, s, l, Phi, rounds, chance * forest, weight, clusters)
