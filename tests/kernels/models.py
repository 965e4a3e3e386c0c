"""Models made by hand that the kernels are tried on, and what the kernels give for them."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

import treeinner as ti
from tests.forests import Recipe, make_model, make_trees
from treeinner.kernels.forest import INSTRUCTION_SETS
from treeinner.read.trees import NodeValues

LEVELS = INSTRUCTION_SETS
METHODS = ("predecomp", "saabas", "treeshap")

recipes = st.builds(
    Recipe,
    n_trees=st.integers(1, 6),
    depth=st.integers(0, 7),
    n_columns=st.integers(1, 7),
    n_categorical=st.integers(0, 2),
    n_categories=st.sampled_from([3, 12, 300]),
    n_outputs=st.integers(1, 3),
    vector=st.booleans(),
    grow=st.sampled_from([0.5, 0.85, 1.0]),
    thresholds=st.sampled_from([None, np.linspace(-2, 2, 300), np.array([0.0, np.inf]), np.array([5e-324, -5e-324])]),
    right_if=st.sampled_from(["greater", "greater_equal"]),
    float32_input=st.booleans(),
    known=st.booleans(),
).filter(lambda r: r.n_categorical <= r.n_columns)


def attribute(trees, X, method, **options):
    """Values by feature and output, (rows, features, outputs), and base values, (rows, outputs)."""
    found = ti.attribute(make_model(trees), X, method=method, **options)
    shape = (len(X), trees.n_features, trees.n_outputs)
    return found.values.reshape(shape), found.base_values.reshape(len(X), -1)


def predict(trees, X, **options):
    """Margins: (rows, outputs)."""
    return make_model(trees).predict(X, **options).reshape(len(X), -1)


def apply(trees, X):
    """Leaves: (rows, trees)."""
    return make_model(trees).apply(X)


def chain(n_splits, n_columns=3, *, share=0.01, thresholds=None, seed=0):
    """A tree that is one long path, with a leaf at every split that has a share of its cover (None: any share).

    By default thresholds rise along the path; with others a row of ones goes all the way down.
    """
    n, rng = 2 * n_splits + 1, np.random.default_rng(seed)
    base = make_trees(Recipe(n_trees=1, depth=0, n_columns=n_columns), seed)
    column, left, right, threshold = np.full(n, -1), np.full(n, -1), np.full(n, -1), np.full(n, np.nan)
    inner = np.arange(n_splits) * 2
    column[inner], left[inner], right[inner] = np.arange(n_splits) % n_columns, inner + 1, inner + 2
    threshold[inner] = np.linspace(-1, 1, n_splits) if thresholds is None else thresholds
    leaf = (column < 0)[:, None]
    value, cover = np.where(leaf, rng.normal(size=(n, 1)), 0.0), np.ones(n)
    for i in inner:
        part = rng.uniform(0.05, 0.95) if share is None else share
        cover[i + 1], cover[i + 2] = part * cover[i], (1 - part) * cover[i]
    return replace(
        base, start=[0, n], column=column, player=column, threshold=threshold, left=left, right=right, value=value,
        missing_left=np.zeros(n, bool), category_set=np.full(n, -1), cover=np.maximum(cover, 1e-300), gain=np.zeros(n),
        leaf_id=np.where(column < 0, np.arange(n), -1),
        player_features=tuple((j,) for j in range(min(n_columns, n_splits))),
        node_values=NodeValues(np.where(leaf, value, rng.normal(size=(n, 1))), np.ones(1)),
    )  # fmt: skip
