"""TreeInner(centred), its row shares and the sign-flip test: sections 4 and 6 of docs/theory.md, on real models.

The definitions are written out here, node by node, over the rows that `oracle.path` sends through each node.
"""

from dataclasses import replace

import numpy as np
import pytest

import treeinner as ti
from tests import oracle
from tests.test_theory import COLUMNS, derivatives, draw, train, trees_and_margins

LOSSES = {"squared error": "reg:squarederror", "logistic": "binary:logistic"}


def model_and_rows(loss="squared error", n=250, **params):
    """A model, held-out rows, and weights for them."""
    X, y, label = draw(11, 400)
    model = train(X, y if loss == "squared error" else label, objective=LOSSES[loss], **params)
    X, y, label = draw(12, n)
    return model, X, y if loss == "squared error" else label, np.random.default_rng(13).uniform(0.2, 3.0, n)


class Nodes:
    """One tree and the scored rows: who is where, and the weighted means of leaf values and negative gradients."""

    def __init__(self, tree, X, g, weight):
        self.tree, self.g, self.weight = tree, g, weight
        self.inside = np.zeros((tree.n_nodes, len(X)), bool)
        for i, row in enumerate(X):
            self.inside[oracle.path(tree, 0, row), i] = True
        self.leaf = tree.predict(X, n_jobs=1) - tree.base_score[0]
        self.W = self.inside @ weight
        self.c, self.m = (self._mean(value) for value in (self.leaf, g))

    def _mean(self, value):
        return np.divide(self.inside @ (self.weight * value), self.W, out=np.zeros_like(self.W), where=self.W > 0)

    def steps(self):
        """(feature, parent, child) of every edge of the tree."""
        for t in np.flatnonzero(self.tree.feature >= 0):
            for u in (self.tree.left[t], self.tree.right[t]):
                yield self.tree.feature[t], t, u

    def attribution(self):
        """Path attribution with node values c: (rows, features)."""
        out = np.zeros((len(self.g), COLUMNS))
        for k, t, u in self.steps():
            out[self.inside[u], k] += self.c[u] - self.c[t]
        return out

    def products(self):
        """The score by splits, W_l W_r / W_t times the two differences: (features,)."""
        out = np.zeros(COLUMNS)
        for t in np.flatnonzero((self.tree.feature >= 0) & (self.W > 0)):
            l, r = self.tree.left[t], self.tree.right[t]  # noqa: E741  as in the formula
            size = self.W[l] * self.W[r] / self.W[t]
            out[self.tree.feature[t]] += size * (self.c[l] - self.c[r]) * (self.m[l] - self.m[r])
        return out

    def shares(self):
        """Row shares, times the weight: (rows, features)."""
        out = np.zeros((len(self.g), COLUMNS))
        for k, t, u in self.steps():
            part = (self.c[u] - self.c[t]) * (self.g - self.m[t]) + (self.m[u] - self.m[t]) * (self.leaf - self.c[u])
            out[self.inside[u], k] += (self.weight * part)[self.inside[u]]
        return out

    def telescoped(self):
        """The same as a difference between child and parent."""
        out = np.zeros((len(self.g), COLUMNS))
        at = self.c[:, None] * self.g + self.m[:, None] * self.leaf - (self.c * self.m)[:, None]  # (nodes, rows)
        for k, t, u in self.steps():
            out[self.inside[u], k] += (self.weight * (at[u] - at[t]))[self.inside[u]]
        return out


def every_tree(model, X, y, loss, weight):
    for tree, margin in trees_and_margins(model, X):
        yield Nodes(tree, X, -derivatives(loss, y, margin)[0], weight)


def shares_of(model, X, y, loss, weight):
    return sum(nodes.shares() for nodes in every_tree(model, X, y, loss, weight))


# -- Proposition 4: the common level of a node, and what l2 makes of it ------------------------------------------
def test_predecomp_less_centred_is_a_matter_of_the_roots():
    model, X, y, weight = model_and_rows(reg_lambda=10.0)
    roots = sum(
        (nodes.c[0] - nodes.tree.node_value[0, 0]) * nodes.m[0]
        for nodes in every_tree(model, X, y, "squared error", weight)
    )
    total = {
        method: ti.importance(model, X, y, method=method, sample_weight=weight, n_jobs=1).scores.sum()
        for method in ("predecomp", "centred")
    }
    assert total["predecomp"] - total["centred"] == pytest.approx(roots, rel=1e-6)  # a difference of order 0.1 of them


@pytest.mark.parametrize(("lam", "negative"), [(0.0, False), (10.0, True)])
def test_l2_makes_predecomp_of_noise_negative(lam, negative):
    """One round from base score 0, mean 1, nothing but noise: an honest score expects 0 (doc_numbers.py l2)."""
    totals = {"predecomp": [], "centred": []}
    for seed in range(40):
        rng = np.random.default_rng([18, seed])
        X, y = rng.normal(size=(2000, COLUMNS)), 1 + rng.normal(size=2000)
        model = train(X[:1000], y[:1000], rounds=1, eta=1.0, max_depth=4, base_score=0.0, reg_lambda=lam)
        for method, values in totals.items():
            values.append(ti.importance(model, X[1000:], y[1000:], method=method, n_jobs=1).scores.sum())
    mean = {method: np.mean(values) for method, values in totals.items()}
    error = {method: np.std(values, ddof=1) / np.sqrt(40) for method, values in totals.items()}
    # 4 standard errors: t with 39 degrees of freedom
    assert abs(mean["centred"]) < 4 * error["centred"]
    assert mean["predecomp"] < -4 * error["predecomp"] if negative else abs(mean["predecomp"]) < 4 * error["predecomp"]


# -- Propositions 5 to 8: the centred score --------------------------------------------------------------------------
@pytest.mark.parametrize("loss", LOSSES)
def test_centred_score_is_attribution_times_gradient_and_a_sum_of_products(loss):
    model, X, y, weight = model_and_rows(loss, reg_lambda=3.0)
    trees = list(every_tree(model, X, y, loss, weight))
    by_rows = sum((nodes.attribution() * (weight * nodes.g)[:, None]).sum(axis=0) for nodes in trees) / weight.sum()
    by_splits = sum(nodes.products() for nodes in trees) / weight.sum()
    # a few thousand terms of order 1 in double precision
    np.testing.assert_allclose(by_rows, by_splits, atol=1e-12)
    imp = ti.importance(model, X, y, method="centred", sample_weight=weight, n_jobs=1)
    # leaf sums are fixed-point integers of 2^-32 of the largest leaf
    np.testing.assert_allclose(imp.scores, by_splits, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_centred_scores_add_up_to_covariances_of_trees_and_gradients(loss):
    """Local accuracy: a tree's value less its mean is the sum of its steps."""
    model, X, y, weight = model_and_rows(loss)
    covariance = 0.0
    for nodes in every_tree(model, X, y, loss, weight):
        np.testing.assert_allclose(nodes.attribution().sum(axis=1), nodes.leaf - nodes.c[0], atol=1e-12)
        covariance += np.cov(nodes.leaf, nodes.g, aweights=weight, ddof=0)[0, 1]
    imp = ti.importance(model, X, y, method="centred", sample_weight=weight, n_jobs=1)
    assert imp.scores.sum() == pytest.approx(covariance, rel=1e-8)


def in_sample(loss, weighted=False, **params):
    """Centred and PreDecomp scores on the training rows, largest difference relative to the largest score."""
    X, y, label = draw(14, 400)
    y = y if loss == "squared error" else label
    weight = np.random.default_rng(15).uniform(0.5, 2.0, len(X)) if weighted else None
    model = train(X, y, objective=LOSSES[loss], weight=weight, **params)
    scores = {
        method: ti.importance(model, X, y, method=method, sample_weight=weight, n_jobs=1).scores
        for method in ("centred", "predecomp")
    }
    return np.abs(scores["centred"] - scores["predecomp"]).max() / np.abs(scores["predecomp"]).max()


@pytest.mark.parametrize("weighted", [False, True])
def test_centred_is_predecomp_in_sample_without_penalties_and_with_unit_hessians(weighted):
    # leaf values and the gradients of the training are float32
    assert in_sample("squared error", weighted, reg_lambda=0.0) < 1e-5


@pytest.mark.parametrize(
    ("loss", "params"),
    [("squared error", {"reg_lambda": 10.0}), ("squared error", {"reg_lambda": 0.0, "reg_alpha": 20.0}),
     ("logistic", {"reg_lambda": 0.0})],
)  # fmt: skip
def test_centred_is_not_predecomp_in_sample_otherwise(loss, params):
    assert in_sample(loss, **params) > 1e-4


def test_centred_needs_leaf_values_and_rows_only():
    """Covers, stored node values, rates and penalties may be anything."""
    model, X, y, _ = model_and_rows(reg_lambda=3.0, reg_alpha=0.5)
    rng = np.random.default_rng(16)
    inner = (model.feature >= 0)[:, None]
    hidden = replace(
        model,
        cover=rng.uniform(1, 9, model.n_nodes),
        node_value=np.where(inner, rng.normal(size=model.node_value.shape), model.node_value),
        tree_rate=np.full(model.n_trees, 0.7),
        params={},
    )
    known, unknown = (ti.importance(m, X, y, method="centred", n_jobs=1) for m in (model, hidden))
    for column in ("scores", "std_errors", "p_values"):
        np.testing.assert_array_equal(getattr(known, column), getattr(unknown, column))


def test_a_common_level_of_the_gradients_does_not_count():
    """Squared error: y + 5 adds 5 to every negative gradient. The centred score stays, PreDecomp's does not."""
    model, X, y, _ = model_and_rows(reg_lambda=10.0)
    change = {}
    for method in ("centred", "predecomp"):
        scores = [ti.importance(model, X, y + shift, method=method, n_jobs=1).scores for shift in (0.0, 5.0)]
        change[method] = np.abs(scores[1] - scores[0]).max() / np.abs(scores[0]).max()
    assert change["centred"] < 1e-8  # leaf sums are fixed-point integers of 2^-32 of the largest leaf
    assert change["predecomp"] > 0.01


# -- Proposition 9: row shares ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("loss", LOSSES)
def test_row_shares_sum_to_the_score_and_telescope(loss):
    model, X, y, weight = model_and_rows(loss)
    for nodes in every_tree(model, X, y, loss, weight):
        shares = nodes.shares()
        np.testing.assert_allclose(shares.sum(axis=0), nodes.products(), atol=1e-11)
        np.testing.assert_allclose(shares, nodes.telescoped(), atol=1e-12)
        # over all features: the influence function of a covariance
        whole = weight * (nodes.leaf - nodes.c[0]) * (nodes.g - nodes.m[0])
        np.testing.assert_allclose(shares.sum(axis=1), whole, atol=1e-12)


def test_row_shares_are_the_derivative_by_the_weight_of_a_row():
    """d score / d w_i = (share of row i per weight - score) / W: the influence function, by its definition."""
    model, X, y, weight = model_and_rows("logistic", n=120)
    scores = sum(nodes.products() for nodes in every_tree(model, X, y, "logistic", weight)) / weight.sum()
    shares = shares_of(model, X, y, "logistic", weight)
    step = 1e-4
    for i in (0, 57, 119):
        bumped = []
        for sign in (1, -1):
            other = weight + sign * step * (np.arange(len(X)) == i)
            trees = every_tree(model, X, y, "logistic", other)
            bumped.append(sum(nodes.products() for nodes in trees) / other.sum())
        slope = (bumped[0] - bumped[1]) / (2 * step)
        # the second difference of a smooth function of order 1: step^2
        np.testing.assert_allclose(slope, (shares[i] / weight[i] - scores) / weight.sum(), atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_standard_errors_are_those_of_the_row_shares(loss):
    model, X, y, weight = model_and_rows(loss)
    shares, n = shares_of(model, X, y, loss, weight), len(X)
    spread = ((shares - shares.mean(axis=0)) ** 2).sum(axis=0)
    imp = ti.importance(model, X, y, method="centred", sample_weight=weight, n_jobs=1)
    # squares of shares are fixed-point integers, of 2^-32 of the largest
    np.testing.assert_allclose(imp.std_errors, np.sqrt(n / (n - 1) * spread) / weight.sum(), rtol=1e-6)
    used = imp.std_errors > 0
    np.testing.assert_allclose(imp.z[used], (imp.scores / imp.std_errors)[used], rtol=1e-12)


# -- Section 6: the sign-flip test -----------------------------------------------------------------------------------
def flipped(shares, draws):
    """Share of random sign flips whose sum reaches the score: (features,)."""
    rng, reached, sizes = np.random.default_rng(17), np.zeros(shares.shape[1]), np.abs(shares)
    for _ in range(draws // 2000):
        sums = rng.choice([-1.0, 1.0], size=(2000, len(shares))) @ sizes
        reached += (sums >= shares.sum(axis=0)).sum(axis=0)
    return reached / draws


@pytest.mark.parametrize("loss", LOSSES)
def test_p_values_are_those_of_sign_flips_of_the_shares(loss):
    model, X, y, _ = model_and_rows(loss, n=150)
    shares, draws = shares_of(model, X, y, loss, np.ones(len(X))), 200_000
    p = flipped(shares, draws)
    imp = ti.importance(model, X, y, method="centred", n_jobs=1)
    # 4 standard errors of the draws, and 5 % for the saddlepoint and its histogram
    np.testing.assert_array_less(np.abs(imp.p_values - p), 4 * np.sqrt(np.maximum(p, 1 / draws) / draws) + 0.05 * p)
    if loss == "logistic":  # and so where two rows carry most of a score
        assert ((shares**2).sum(axis=0) ** 2 / (shares**4).sum(axis=0)).min() < 3
