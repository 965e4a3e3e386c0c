"""Random ensembles with rows, targets and weights, and how their scores are compared with the oracle's."""

from dataclasses import replace

import numpy as np

import treeinner as ti

from . import oracle
from .forests import Recipe, make_ensemble, make_rows

N = 37  # rows of the small cases: less than a block of 64, and odd
METHODS = ("predecomp", "saabas", "treeshap")
INNER_METHODS = ("centred", *METHODS)  # of scores that multiply by gradients


def squared(y):
    return lambda margin: margin - y.reshape(len(y), -1)


def softmax(y):
    def gradient(margin):
        e = np.exp(margin - margin.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True) - np.eye(margin.shape[1])[y]

    return gradient


def logistic(y):
    return lambda margin: 1 / (1 + np.exp(-margin)) - y[:, None]


def poisson(y):
    return lambda margin: np.exp(margin) - y[:, None]


class Case:
    """A random ensemble with rows, targets, weights, and the tensor of its definition."""

    def __init__(self, recipe, objective, seed, *, n=N, trees_per_round=1, weighted=True, rate=0.3, tree_weight=1.0):
        rng = np.random.default_rng(seed)
        e = make_ensemble(recipe, seed)
        rounds = np.arange(e.n_trees) // (trees_per_round * (1 if recipe.vector else e.n_outputs))
        self.e = e = replace(
            e, tree_round=rounds, tree_rate=np.full(e.n_trees, rate), tree_weight=np.full(e.n_trees, tree_weight)
        )
        self.X = make_rows(e, n, seed + 1)
        self.objective = objective
        if objective == "softmax":
            self.y = rng.integers(0, e.n_outputs, n)
        elif objective == "logistic":
            self.y = rng.integers(0, 2, n).astype(float)
        elif objective == "poisson":
            self.y = rng.poisson(2.0, n).astype(float)
        else:
            self.y = rng.normal(size=(n, e.n_outputs)) if e.n_outputs > 1 else rng.normal(size=n)
        self.gradient = {"softmax": softmax, "logistic": logistic, "poisson": poisson}.get(objective, squared)(self.y)
        self.weight = rng.choice([0.0, 0.5, 1.0, 2.5], n) if weighted else None
        self.residual = oracle.residuals(e, self.X, self.gradient, self.weight)

    def importance(self, **options):
        defaults = {"sample_weight": self.weight, "n_jobs": 1}
        if options.get("score") != "abs":  # which asks for no loss
            defaults |= {"y": self.y, "objective": self.objective}
        return ti.importance(self.e, self.X, **{**defaults, **options})

    def tensor(self, method):
        """Attribution of every tree, (trees, rows, columns, outputs), by its definition."""
        if method == "centred":
            return oracle.centred_tensor(self.e, self.X, self.weight)
        return oracle.tensor(self.e, self.X, method)

    def shares(self, method, residual=None):
        """Share of every round and row in the inner product with the residuals: (rounds, rows, columns, outputs)."""
        residual = self.residual if residual is None else residual
        if method == "centred":
            return oracle.centred_shares(self.e, self.X, residual, self.weight)
        return oracle.tree_inner(self.e, self.tensor(method), residual)

    def leaf_bound(self, r):
        """Leaf sums hold a gradient to 2^-32 of the largest leaf: what that may change in each feature's score."""
        largest = np.abs(self.e.value * oracle.paper_units(self.e)[self.e.tree_of_node][:, None]).max()
        resolution = 2.0 ** (np.frexp(largest)[1] - 32 + 3) / 2  # 3: a typical rate, 1/16, may stand in for 0.3
        return resolution * np.abs(r).sum(axis=(0, 1, 3)) + 1e-12 * np.abs(r).sum()


CASES = {
    "one output": (Recipe(n_trees=4, depth=4, n_columns=4), "squared_error", {}),
    "unweighted": (Recipe(n_trees=3, depth=3, n_columns=3), "squared_error", {"weighted": False}),
    "logistic": (Recipe(n_trees=4, depth=3, n_columns=4), "logistic", {"tree_weight": 0.7}),
    "three classes": (Recipe(n_trees=9, depth=3, n_columns=4, n_outputs=3), "softmax", {}),
    "two trees a round": (Recipe(n_trees=12, depth=3, n_columns=4, n_outputs=3), "softmax", {"trees_per_round": 2}),
    "vector leaves": (Recipe(n_trees=4, depth=4, n_columns=4, n_outputs=3, vector=True), "squared_error", {}),
    "categories": (Recipe(n_trees=4, depth=4, n_columns=4, n_categorical=2), "squared_error", {}),
    "forest in one round": (Recipe(n_trees=5, depth=3, n_columns=4), "squared_error", {"trees_per_round": 5}),
    "a column never used": (Recipe(n_trees=1, depth=1, n_columns=5, grow=1.0), "squared_error", {}),
}


FLOAT32 = 1e-6  # row scores are added in float32: 6e-8 for each rounding, a few of them in a row


def check(imp, shares, n_units, *, slack=None):
    """Scores and standard errors of an Importance against the share of every row: (rows, features, outputs).

    slack: (features,) what the leaf sums may change in the scores, where these come from them.
    """
    total = shares.sum(axis=2)
    size = np.abs(shares).sum() + 1e-300
    by_leaf = slack is not None
    if slack is None:  # both add the same few thousand terms, in another order
        slack = np.full(total.shape[1], 1e-12 * size)
    weight = imp.sum_of_weights
    assert np.all(np.abs(imp.scores * weight - total.sum(axis=0)) <= slack)
    spread = (total**2).sum(axis=0) - total.sum(axis=0) ** 2 / n_units
    error = np.sqrt(np.maximum(spread, 0) * n_units / (n_units - 1))
    # Sums of squares cancel to 1e-16 of their size at worst, so their root to 1e-8; here they hardly cancel.
    np.testing.assert_allclose(imp.std_errors * weight, error, rtol=FLOAT32 if by_leaf else 1e-9, atol=1e-7 * size)
    if shares.shape[2] > 1:
        assert np.all(np.abs(imp.outputs.score * weight - shares.sum(axis=0)) <= slack[:, None])
        for k in range(shares.shape[2]):
            assert np.all(np.abs(imp.for_output(k).scores * weight - shares[:, :, k].sum(axis=0)) <= slack)
    else:
        assert imp.outputs is None


def units(case):
    """Rows of positive weight."""
    return len(case.X) if case.weight is None else np.count_nonzero(case.weight)
