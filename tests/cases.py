"""Random trees with rows, targets and weights, and how their scores are compared with the oracle's."""

from dataclasses import replace
from functools import cached_property

import numpy as np

import treeinner as ti
from treeinner.losses import find_loss
from treeinner.read.trees import NodeValues

from . import oracle
from .forests import Recipe, make_model, make_rows, make_trees

N = 37  # rows of the small cases: less than a block of 64, and odd
METHODS = ("centred", "predecomp", "saabas", "treeshap")
FLOAT32 = 1e-6  # row scores are added in float32: 6e-8 for each rounding, a few of them in a row


def squared(y):
    """Gradient of half the squared error."""
    return lambda margin: margin - y.reshape(len(y), -1)


def softmax(y):
    """Gradient of the log loss of several classes."""

    def gradient(margin):
        e = np.exp(margin - margin.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True) - np.eye(margin.shape[1])[y]

    return gradient


def logistic(y):
    """Gradient of the log loss of two classes."""
    return lambda margin: 1 / (1 + np.exp(-margin)) - y[:, None]


def poisson(y):
    """Gradient of half the Poisson deviance."""
    return lambda margin: np.exp(margin) - y[:, None]


GRADIENTS = {"softmax": softmax, "logistic": logistic, "poisson": poisson, "squared_error": squared}


def loss_named(name, n_outputs=1):
    """Loss by its name, for models made by hand."""
    return find_loss(told=name, library="xgboost", name="", params={}, n_outputs=n_outputs)


class Case:
    """Random trees with rows, targets, weights, and the tensor of their definition."""

    def __init__(self, recipe, objective, seed, *, n=N, trees_per_round=1, weighted=True, rate=0.3, tree_weight=1.0):
        rng = np.random.default_rng(seed)
        trees = make_trees(recipe, seed)
        per_round = trees_per_round * (1 if recipe.vector else trees.n_outputs)
        self.trees = trees = replace(
            trees,
            round=np.arange(trees.n_trees) // per_round,
            weight=np.full(trees.n_trees, tree_weight),
            node_values=NodeValues(trees.known.value, np.full(trees.n_trees, rate)),
        )
        self.objective = objective
        self.model = make_model(trees, loss_named(objective, trees.n_outputs))
        self.X = make_rows(trees, n, seed + 1)
        if objective == "softmax":
            self.y = rng.integers(0, trees.n_outputs, n)
        elif objective == "logistic":
            self.y = rng.integers(0, 2, n).astype(float)
        elif objective == "poisson":
            self.y = rng.poisson(2.0, n).astype(float)
        else:
            self.y = rng.normal(size=(n, trees.n_outputs)) if trees.n_outputs > 1 else rng.normal(size=n)
        self.gradient = GRADIENTS[objective](self.y)
        self.weight = rng.choice([0.0, 0.5, 1.0, 2.5], n) if weighted else None

    @cached_property
    def residual(self):
        """Minus the gradient before each round, times the weight: (rounds, rows, outputs)."""
        return oracle.residuals(self.trees, self.X, self.gradient, self.weight)

    @property
    def alive(self):
        """Rows of positive weight."""
        return np.full(len(self.X), True) if self.weight is None else self.weight > 0

    def importance(self, **options):
        """What is tested."""
        given = {"score": "tree_inner", "sample_weight": self.weight, "n_jobs": 1, **options}
        return ti.importance(self.model, self.X, self.y, **given)

    def tensor(self, method):
        """Attribution of every tree, (trees, rows, columns, outputs), by its definition."""
        return oracle.tensor(self.trees, self.X, method, self.weight)

    def shares(self, method, residual=None):
        """Share of every round and row in the inner product with the residuals: (rounds, rows, columns, outputs)."""
        residual = self.residual if residual is None else residual
        if method == "centred":
            return oracle.centred_shares(self.trees, self.X, residual, self.weight)
        return oracle.tree_inner(self.trees, self.tensor(method), residual)

    def slack(self, r):
        """What rounded gradients, held to 2^-28 of the largest leaf, may change in a score: (columns,)."""
        return 2.0**-28 * np.abs(self.trees.value).max() * np.abs(r).sum(axis=(0, 1, 3)) + 1e-12 * np.abs(r).sum()


CASES = {
    "one output": (Recipe(n_trees=4, depth=4, n_columns=4), "squared_error", {}),
    "unweighted": (Recipe(n_trees=3, depth=3, n_columns=3), "squared_error", {"weighted": False}),
    "logistic": (Recipe(n_trees=4, depth=3, n_columns=4), "logistic", {"tree_weight": 0.7}),
    "poisson": (Recipe(n_trees=3, depth=4), "poisson", {}),
    "three classes": (Recipe(n_trees=9, depth=3, n_columns=4, n_outputs=3), "softmax", {}),
    "two trees a round": (Recipe(n_trees=12, depth=3, n_columns=4, n_outputs=3), "softmax", {"trees_per_round": 2}),
    "vector leaves": (Recipe(n_trees=4, depth=4, n_columns=4, n_outputs=3, vector=True), "squared_error", {}),
    "categories": (Recipe(n_trees=4, depth=4, n_columns=4, n_categorical=2), "squared_error", {}),
    "forest in one round": (Recipe(n_trees=5, depth=3, n_columns=4), "squared_error", {"trees_per_round": 5}),
    "a column never used": (Recipe(n_trees=1, depth=1, n_columns=5, grow=1.0), "squared_error", {}),
}


def make_case(name):
    """One of CASES."""
    recipe, objective, options = CASES[name]
    return Case(recipe, objective, seed=sorted(CASES).index(name), **options)


def check_errors(found, shares, near=FLOAT32):
    """Standard errors of a sum of independent shares, (units, features, ...)."""
    expected = np.sqrt(len(shares)) * shares.std(axis=0, ddof=1)
    # Features that hardly count are small differences of larger numbers.
    np.testing.assert_allclose(found, expected, rtol=near, atol=near / 10 * expected.max())


def same_bits(a, b):
    """Two importances are one, to the last bit."""
    assert (a.n_rows, a.sum_of_weights, a.feature_names) == (b.n_rows, b.sum_of_weights, b.feature_names)
    for part in ("statistics", "outputs", "losses"):
        one, two = getattr(a, part), getattr(b, part)
        assert (one is None) == (two is None)
        for name, value in ({} if one is None else vars(one)).items():
            np.testing.assert_array_equal(value, getattr(two, name), err_msg=name)
    if a.rounds is not None and b.rounds is not None:
        np.testing.assert_array_equal(a.by_round(), b.by_round())
