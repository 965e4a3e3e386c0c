"""The kernels against the oracle, for every instruction set, tree shape and kind of value."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracle
from tests.forests import Recipe, make_rows, make_trees
from tests.kernels.models import LEVELS, METHODS, apply, attribute, chain, predict, recipes
from treeinner import _core, kernels
from treeinner.kernels.binning import plan
from treeinner.kernels.forest import use_instruction_set

seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=60, deadline=None)
@given(recipe=recipes, n_rows=st.integers(1, 140), seed=seeds)
def test_routing_predicting_and_path_attribution_equal_the_oracle(level, recipe, n_rows, seed):
    use_instruction_set(level)
    trees = make_trees(recipe, seed)
    X = make_rows(trees, n_rows, seed + 1)
    assert np.array_equal(apply(trees, X), oracle.apply(trees, X))
    # The oracle adds leaves in the same order but starts at the base score: a few roundings of sums near 10.
    assert np.allclose(predict(trees, X), oracle.predict(trees, X), rtol=0, atol=1e-13)
    # A path's steps on one feature are added up before the trees are: a few roundings of sums near 10.
    expected = oracle.path_attribution(trees, trees.known.value, X)
    assert np.allclose(attribute(trees, X, "predecomp")[0], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=25, deadline=None)
@given(recipe=recipes, seed=seeds)
def test_treeshap_is_the_shapley_value(level, recipe, seed):
    use_instruction_set(level)
    recipe.depth, recipe.n_columns = min(recipe.depth, 5), min(recipe.n_columns, 5)
    recipe.n_categorical = min(recipe.n_categorical, recipe.n_columns)
    trees = make_trees(recipe, seed)
    X = make_rows(trees, 5, seed + 1)
    # Quadrature is exact for the polynomial; what is left is rounding of numbers near 1.
    assert np.allclose(attribute(trees, X, "treeshap")[0], oracle.shapley(trees, X), rtol=0, atol=1e-13)


@settings(max_examples=40, deadline=None)
@given(recipe=recipes, n_rows=st.integers(1, 200), seed=seeds)
def test_every_method_adds_up_to_the_margin(recipe, n_rows, seed):
    trees = make_trees(recipe, seed)
    X = make_rows(trees, n_rows, seed + 1)
    for method in METHODS:
        values, base = attribute(trees, X, method)
        assert np.allclose(base + values.sum(axis=1), predict(trees, X), rtol=0, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(recipe=recipes, seed=seeds, data=st.data())
def test_any_split_of_the_rows_and_any_number_of_threads_gives_the_same_bits(recipe, seed, data):
    trees = make_trees(recipe, seed)
    n_rows = data.draw(st.integers(1, 300))
    X = make_rows(trees, n_rows, seed + 1)
    cut = data.draw(st.integers(0, n_rows))
    trees.forest.task_rows = 64  # many tasks, so that threads have something to mix up
    for method in ("predecomp", "treeshap"):
        whole = attribute(trees, X, method, n_jobs=1)[0]
        assert np.array_equal(whole, attribute(trees, X, method, n_jobs=3)[0])
        parts = [attribute(trees, part, method, n_jobs=1)[0] for part in (X[:cut], X[cut:]) if len(part)]
        assert np.array_equal(whole, np.concatenate(parts))


@settings(max_examples=20, deadline=None)
@given(recipe=recipes, seed=seeds)
def test_every_instruction_set_gives_the_same_bits(recipe, seed):
    trees = make_trees(recipe, seed)
    X = make_rows(trees, 100, seed + 1)
    results = []
    for level in LEVELS:
        use_instruction_set(level)
        results.append([predict(trees, X), *(attribute(trees, X, method)[0] for method in METHODS)])
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


@settings(max_examples=20, deadline=None)
@given(seed=seeds, data=st.data())
def test_the_order_of_trees_changes_only_rounding(seed, data):
    trees = make_trees(Recipe(n_trees=6), seed)
    X = make_rows(trees, 50, seed + 1)
    parts = [trees.rounds(i, i + 1) for i in data.draw(st.permutations(range(6)))]
    for method in ("predecomp", "treeshap"):
        shuffled = sum(attribute(part, X, method)[0] for part in parts)
        assert np.allclose(attribute(trees, X, method)[0], shuffled, rtol=0, atol=1e-13)


# -- large trees ------------------------------------------------------------------------------------------------
def test_a_tree_with_65000_leaves_in_one_chain():
    trees = chain(65_000)
    X = np.random.default_rng(1).normal(size=(70, 3))
    assert np.array_equal(apply(trees, X[:3]), oracle.apply(trees, X[:3]))
    for method in METHODS:
        values, base = attribute(trees, X, method)
        # 65,000 additions along one path.
        assert np.allclose(base + values.sum(axis=1), predict(trees, X), rtol=0, atol=1e-9)


def test_a_bushy_tree_with_65536_leaves():
    trees = make_trees(Recipe(n_trees=1, depth=16, grow=1.0, thresholds=np.linspace(-2, 2, 401)), 3)
    assert (trees.column < 0).sum() == 65_536
    X = make_rows(trees, 300, 4)
    assert np.array_equal(apply(trees, X[:40]), oracle.apply(trees, X[:40]))
    expected = oracle.path_attribution(trees, trees.known.value, X[:40])
    assert np.array_equal(attribute(trees, X[:40], "predecomp")[0], expected)  # the same additions in the same order
    values, base = attribute(trees, X, "treeshap")
    assert np.allclose(base + values.sum(axis=1), predict(trees, X), rtol=0, atol=1e-11)


def large(**recipe):
    return lambda: make_trees(Recipe(n_trees=2, grow=0.95, **recipe), 12)


LARGE = {  # trees that go on below their top (core/model/build.h)
    "one split below the top": lambda: chain(256),
    "a chain below the top": lambda: chain(700),
    "bush": large(depth=12),
    "two bytes": large(depth=10, n_columns=2, thresholds=np.linspace(-2, 2, 3000)),
    "categories": large(depth=11, n_categorical=3, n_categories=300),
    "vector leaves": large(depth=10, n_outputs=3, vector=True),
    "outputs": large(depth=10, n_outputs=2),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_trees_equal_the_oracle_at_every_instruction_set(name):
    trees = LARGE[name]()
    assert np.diff(trees.forest.first_leaf).min() > 256
    X = make_rows(trees, 333, 12)  # more than a run, and no whole block at the end
    leaves, results = oracle.apply(trees, X), []
    for level in LEVELS:
        use_instruction_set(level)
        results.append([predict(trees, X), attribute(trees, X, "predecomp")[0]])
        assert np.array_equal(apply(trees, X), leaves)
        for few in (slice(0, 3), slice(70, 75), slice(300, 333)):
            assert np.array_equal(apply(trees, X[few]), leaves[few])
            assert np.array_equal(predict(trees, X[few]), results[-1][0][few])
            assert np.array_equal(attribute(trees, X[few], "predecomp")[0], results[-1][1][few])
    # Hundreds of steps at most, each a rounding of numbers near 10.
    assert np.allclose(results[0][0], oracle.predict(trees, X), rtol=0, atol=1e-12)
    assert np.allclose(results[0][1], oracle.path_attribution(trees, trees.known.value, X), rtol=0, atol=1e-12)
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


def boosted(trees, X, y, table):
    """Margins, leaf sums and row scores of all rounds of squared error, in one call of the core."""
    f, n = trees.forest, len(X)
    margin, largest = kernels.aligned((1, kernels.padded_rows(n))), np.zeros(n)
    leaf_sums, sums = np.zeros((int(f.first_leaf[-1]), 1), np.int64), np.zeros((n, 1, f.n_players))
    f.core.boost(
        f.bin(X), 0, 1.0, trees.first_trees, y[None], None, margin, 2.0**30, leaf_sums, largest, None, None, table,
        sums, None, None, None, None, None,
    )  # fmt: skip
    return margin[0, :n], leaf_sums, sums


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("for_scores", [False, True])
def test_boosting_through_large_trees_is_its_rounds_one_by_one(level, for_scores):
    use_instruction_set(level)
    trees = make_trees(Recipe(n_trees=4, depth=10, grow=0.97), 16)
    f, n = trees.forest, 14 * 333
    assert np.diff(f.first_leaf).min() > 256
    X = np.tile(make_rows(trees, 333, 17), (14, 1))  # more rows than go through a large tree before the next one's turn
    y = np.random.default_rng(18).normal(size=n)
    table = f.core.path_table(trees.known.value[f.numbered], for_scores)
    margin, leaf_sums, scores = boosted(trees, X, y, table)
    weight, before = (kernels.aligned((1, kernels.padded_rows(n))) for _ in range(2))
    sums, codes, whole = kernels.PlayerSums(f, n, table), f.bin(X), np.zeros_like(leaf_sums)
    for tree in range(4):
        weight[0, :n] = y - before[0, :n]
        sums.add(codes, tree, 1, weight)
        f.core.leaf_sums(codes, tree, 1, np.rint(weight * 2.0**30).astype(np.int64), whole)
        f.core.margins(codes, tree, 1, before)
    assert np.array_equal(margin, before[0, :n])
    assert np.array_equal(margin + trees.base, predict(trees, X)[:, 0])
    assert np.array_equal(leaf_sums, whole)
    assert np.array_equal(scores, sums.players())  # no tree is small enough for a batch, which has other roundings
    without = boosted(trees, X, y, None)
    assert np.array_equal(without[0], margin)
    assert np.array_equal(without[1], leaf_sums)


def test_leaf_ranges_are_the_leaves_below_a_split():
    trees = make_trees(Recipe(n_trees=5, depth=6), 3)
    forest = trees.forest
    number = {int(node): i for i, node in enumerate(forest.leaf_nodes)}

    def leaves(node):
        return [number[node]] if trees.column[node] < 0 else leaves(trees.left[node]) + leaves(trees.right[node])

    for split, (first, middle, stop) in zip(forest.split_nodes, kernels.leaf_ranges(trees).tolist(), strict=True):
        assert leaves(trees.left[split]) == list(range(first, middle))
        assert leaves(trees.right[split]) == list(range(middle, stop))


# -- kinds of values --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("n_thresholds", "code_bytes"), [(253, 1), (254, 1), (300, 1), (5_000, 2), (70_000, 2)])
def test_many_thresholds_on_a_feature(n_thresholds, code_bytes):
    """Codes overflow into further planes, then into 16 bits, then into further planes of 16 bits."""
    trees = chain(n_thresholds, n_columns=1)
    assert plan(trees).code_bytes == code_bytes
    last = trees.threshold[~np.isnan(trees.threshold)][-3:]
    X = np.concatenate([[-2, 2, 0, np.nan, np.inf, -np.inf], trees.threshold[[0, 2, 4]], last])
    X = np.concatenate([X, np.nextafter(X, np.inf), np.nextafter(X, -np.inf)])[:, None]
    assert np.array_equal(apply(trees, X), oracle.apply(trees, X))


@pytest.mark.parametrize("n_categories", [60, 62, 126, 253, 254, 300, 700])
def test_many_categories(n_categories):
    """Sets of 256 bits, then as many words of 64 as the codes need."""
    recipe = Recipe(n_trees=6, depth=6, n_columns=2, n_categorical=2, n_categories=n_categories)
    trees = make_trees(recipe, n_categories)
    assert plan(trees).code_bytes == (1 if n_categories <= 253 else 2)
    X = np.random.default_rng(0).integers(-1, n_categories + 2, (300, 2)).astype(float)
    assert np.array_equal(apply(trees, X), oracle.apply(trees, X))


def test_zero_as_missing():
    trees = make_trees(Recipe(zero_as_missing=(0, 2)), 7)
    X = make_rows(trees, 200, 8)
    assert np.array_equal(apply(trees, X), oracle.apply(trees, X))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
def test_every_dtype_order_and_stride(dtype):
    trees = make_trees(Recipe(), 9)
    X = np.random.default_rng(0).integers(0, 2, size=(90, 5)).astype(dtype)
    expected = oracle.apply(trees, X.astype(float))
    wide = np.repeat(np.repeat(X, 3, axis=0), 2, axis=1)
    for view in (X, np.asfortranarray(X), wide[::3, ::2], X[::-1][::-1], np.ascontiguousarray(X[:, ::-1])[:, ::-1]):
        assert np.array_equal(apply(trees, view), expected)


# -- what surrounds the kernels ---------------------------------------------------------------------------------
def test_unknown_instruction_set_is_named():
    with pytest.raises(ValueError, match="cannot run the instruction set 'sse9'"):
        use_instruction_set("sse9")


def test_trees_are_pickled_without_their_compiled_form():
    """Other processes need the model; they compile it again."""
    trees = make_trees(Recipe(n_trees=4, depth=4, n_columns=3), 0)
    X = make_rows(trees, 50, 1)
    before = predict(trees, X)
    again = pickle.loads(pickle.dumps(trees))
    assert "forest" not in vars(again)
    np.testing.assert_array_equal(predict(again, X), before)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("left", 10**6, "outside its tree"),
        ("right", 0, "two parents"),
        ("output", 2**31 - 1, "output is out of range"),
        ("start", 1, "trees begin at the first node"),
    ],
)
def test_the_core_refuses_trees_that_are_none(field, value, message):
    """Trees are checked before; the core relies on nobody, since it would read outside of its arrays."""
    trees = make_trees(Recipe(n_trees=3, depth=3, grow=1.0), 0)
    names = ("start", "output", "left", "right", "value", "n_outputs")
    damaged = SimpleNamespace(**{name: getattr(trees, name) for name in names})
    setattr(damaged, field, getattr(trees, field).copy())
    getattr(damaged, field)[0] = value
    p, player = plan(trees), np.zeros(trees.n_nodes, np.int32)
    nodes = np.stack((damaged.left, damaged.right, p.node_plane, p.node_cut, p.node_set, player), axis=1)
    with pytest.raises(ValueError, match=message):
        _core.Forest(damaged, p, nodes, trees.n_columns)
