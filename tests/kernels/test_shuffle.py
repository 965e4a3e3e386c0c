"""The kernel behind permutation importance: shuffled columns against a prediction of the shuffled rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.forests import Recipe, make_model, make_rows, make_trees
from tests.kernels.models import LEVELS, chain, recipes
from treeinner import kernels
from treeinner.kernels.forest import use_instruction_set
from treeinner.rows import read_table


def margins(trees, X, group_of_column, n_groups, order):
    """Margins as the rows are, and their changes with each group shuffled, from the core."""
    table = read_table(make_model(trees), X)
    shuffle = kernels.Shuffle(trees.forest, group_of_column, n_groups, table, n_jobs=1)
    parts = [
        shuffle.margins(start, order[start : start + shuffle.step]) for start in range(0, len(order), shuffle.step)
    ]
    return np.concatenate([p[0] for p in parts], axis=-1), np.concatenate([p[1] for p in parts], axis=-1)


def plain(trees, X):
    """Sums of the leaf values: (outputs, rows)."""
    return kernels.predict(trees.forest, read_table(make_model(trees), X), n_jobs=1).T


def check(trees, X, of_column, order):
    n_groups = int(of_column.max()) + 1
    own, changes = margins(trees, X, of_column, n_groups, order)
    assert np.array_equal(own, plain(trees, X))  # the same additions in the same order
    for group in range(n_groups):
        shuffled, columns = X.copy(), np.flatnonzero(of_column == group)
        shuffled[:, columns] = X[order][:, columns]
        # Differences of leaves near 1 are added instead of the leaves: a rounding per tree.
        assert np.allclose(own + changes[group], plain(trees, shuffled), rtol=0, atol=1e-13)
    return own, changes


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=60, deadline=None)
@given(recipe=recipes, n_rows=st.integers(1, 200), n_groups=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_shuffled_groups_are_routed_as_shuffled_rows_are(level, recipe, n_rows, n_groups, seed):
    use_instruction_set(level)
    trees = make_trees(recipe, seed)
    X = make_rows(trees, n_rows, seed + 1)
    rng = np.random.default_rng(seed)
    trees.forest.task_rows = 64  # the order reaches across tasks
    of_column = np.unique(rng.integers(0, n_groups, recipe.n_columns), return_inverse=True)[1].astype(np.int32)
    check(trees, X, of_column, rng.permutation(n_rows))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("depth", [9, 12])
def test_trees_of_more_leaves_than_rows(level, depth):
    use_instruction_set(level)
    trees = make_trees(Recipe(n_trees=2, depth=depth, n_columns=6, grow=0.97), depth)
    X = make_rows(trees, 150, 1)
    _, changes = check(trees, X, np.arange(6, dtype=np.int32), np.random.default_rng(0).permutation(150))
    assert np.all(np.any(changes != 0, axis=(1, 2)))


@pytest.mark.parametrize("level", LEVELS)
def test_a_tree_that_is_one_long_path(level):
    use_instruction_set(level)
    trees = chain(300)
    check(trees, make_rows(trees, 90, 1), np.arange(3, dtype=np.int32), np.random.default_rng(0).permutation(90))


def test_what_does_not_fit_is_refused():
    trees = make_trees(Recipe(n_columns=4), 0)
    table = read_table(make_model(trees), make_rows(trees, 70, 1))
    with pytest.raises(ValueError, match="one group per column"):
        kernels.Shuffle(trees.forest, np.zeros(3, np.int32), 1, table, n_jobs=1)
    with pytest.raises(ValueError, match="has no group"):
        kernels.Shuffle(trees.forest, np.full(4, -1, np.int32), 1, table, n_jobs=1)
    shuffle = kernels.Shuffle(trees.forest, np.zeros(4, np.int32), 1, table, n_jobs=1)
    with pytest.raises(IndexError, match="out of bounds"):
        shuffle.margins(0, np.full(70, 4096))
