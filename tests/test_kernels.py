"""The kernels against the oracle, for every instruction set, tree shape and kind of value."""

import pickle
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treeinner import _core, compiled
from treeinner.attribution import root_values
from treeinner.compiled import threads
from treeinner.compiled.binning import plan
from treeinner.compiled.forest import INSTRUCTION_SETS, use_instruction_set

from . import oracle
from .forests import Recipe, make_ensemble, make_rows

LEVELS = INSTRUCTION_SETS


@pytest.fixture(autouse=True)
def restore_level():
    before = compiled.instruction_set()
    yield
    use_instruction_set(before)


def attribute(e, X, method, **options):
    from treeinner.tables import read_table

    value = e.node_value if method == "predecomp" else e.mean_value
    paths = None if method == "treeshap" else e.forest.path_table(value)
    return compiled.attribute(e.forest, read_table(X, e.schema), paths, **options)


recipes = st.builds(
    Recipe,
    n_trees=st.integers(1, 6),
    depth=st.integers(0, 7),
    n_columns=st.integers(1, 7),
    n_categorical=st.integers(0, 2).map(lambda n: n),
    n_categories=st.sampled_from([3, 12, 300]),
    n_outputs=st.integers(1, 3),
    vector=st.booleans(),
    grow=st.sampled_from([0.5, 0.85, 1.0]),
    thresholds=st.sampled_from([None, np.linspace(-2, 2, 300), np.array([0.0, np.inf]), np.array([5e-324, -5e-324])]),
    right_if=st.sampled_from(["greater", "greater_equal"]),
    float32_input=st.booleans(),
    known=st.booleans(),
).filter(lambda r: r.n_categorical <= r.n_columns)


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=60, deadline=None)
@given(recipe=recipes, n_rows=st.integers(1, 140), seed=st.integers(0, 2**32 - 1))
def test_routing_predicting_and_path_attribution_equal_the_oracle(level, recipe, n_rows, seed):
    use_instruction_set(level)
    e = make_ensemble(recipe, seed)
    X = make_rows(e, n_rows, seed + 1)
    assert np.array_equal(e.apply(X), oracle.apply(e, X))
    # The oracle adds leaves in the same order but starts at the base score: a few roundings of sums near 10.
    assert np.allclose(e.predict(X).reshape(n_rows, -1), oracle.predict(e, X), rtol=0, atol=1e-13)
    # A path's steps on one feature are added up before the trees are: a few roundings of sums near 10.
    expected = oracle.path_attribution(e, e.node_value, X)
    assert np.allclose(attribute(e, X, "predecomp"), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=25, deadline=None)
@given(recipe=recipes, seed=st.integers(0, 2**32 - 1))
def test_treeshap_is_the_shapley_value(level, recipe, seed):
    use_instruction_set(level)
    recipe.depth, recipe.n_columns = min(recipe.depth, 5), min(recipe.n_columns, 5)
    recipe.n_categorical = min(recipe.n_categorical, recipe.n_columns)
    e = make_ensemble(recipe, seed)
    X = make_rows(e, 5, seed + 1)
    # Quadrature is exact for the polynomial; what is left is rounding of numbers near 1.
    assert np.allclose(attribute(e, X, "treeshap"), oracle.shapley(e, X), rtol=0, atol=1e-13)


@settings(max_examples=40, deadline=None)
@given(recipe=recipes, n_rows=st.integers(1, 200), seed=st.integers(0, 2**32 - 1))
def test_every_method_adds_up_to_the_margin(recipe, n_rows, seed):
    e = make_ensemble(recipe, seed)
    X = make_rows(e, n_rows, seed + 1)
    margin = e.predict(X).reshape(n_rows, -1)
    for method in ("predecomp", "saabas", "treeshap"):
        base = e.base_score + root_values(e, e.node_value if method == "predecomp" else e.mean_value)
        assert np.allclose(base + attribute(e, X, method).sum(axis=1), margin, rtol=0, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(recipe=recipes, seed=st.integers(0, 2**32 - 1), data=st.data())
def test_any_split_of_the_rows_and_any_number_of_threads_gives_the_same_bits(recipe, seed, data):
    e = make_ensemble(recipe, seed)
    n_rows = data.draw(st.integers(1, 300))
    X = make_rows(e, n_rows, seed + 1)
    cut = data.draw(st.integers(0, n_rows))
    e.forest.task_rows = 64  # many tasks, so that threads have something to mix up
    for method in ("predecomp", "treeshap"):
        whole = attribute(e, X, method, n_jobs=1)
        assert np.array_equal(whole, attribute(e, X, method, n_jobs=3))
        parts = [attribute(e, part, method, n_jobs=1) for part in (X[:cut], X[cut:]) if len(part)]
        assert np.array_equal(whole, np.concatenate(parts))


@settings(max_examples=20, deadline=None)
@given(recipe=recipes, seed=st.integers(0, 2**32 - 1))
def test_every_instruction_set_gives_the_same_bits(recipe, seed):
    e = make_ensemble(recipe, seed)
    X = make_rows(e, 100, seed + 1)
    results = []
    for level in LEVELS:
        use_instruction_set(level)
        results.append([e.predict(X), attribute(e, X, "predecomp"), attribute(e, X, "treeshap")])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert np.array_equal(a, b)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), data=st.data())
def test_the_order_of_trees_changes_only_rounding(seed, data):
    e = make_ensemble(Recipe(n_trees=6), seed)
    X = make_rows(e, 50, seed + 1)
    order = data.draw(st.permutations(range(6)))
    parts = [e.slice_rounds(i, i + 1) for i in order]
    for method in ("predecomp", "treeshap"):
        shuffled = sum(attribute(part, X, method) for part in parts)
        assert np.allclose(attribute(e, X, method), shuffled, rtol=0, atol=1e-13)


def chain(n_splits, n_columns=3):
    """A tree that is one long path: the deepest shape there is."""
    n = 2 * n_splits + 1
    base = make_ensemble(Recipe(n_trees=1, depth=0, n_columns=n_columns), 0)
    feature = np.full(n, -1)
    left, right = np.full(n, -1), np.full(n, -1)
    inner = np.arange(n_splits) * 2
    feature[inner] = np.arange(n_splits) % n_columns
    left[inner], right[inner] = inner + 1, inner + 2
    threshold = np.full(n, np.nan)
    threshold[inner] = np.linspace(-1, 1, n_splits)
    rng = np.random.default_rng(0)
    value = np.where(feature < 0, rng.normal(size=n), 0.0)[:, None]
    cover = np.empty(n)
    cover[0] = 1.0
    for i in inner:
        cover[i + 1], cover[i + 2] = 0.01 * cover[i], 0.99 * cover[i]
    from dataclasses import replace

    return replace(
        base, tree_start=[0, n], feature=feature, threshold=threshold, left=left, right=right, value=value,
        missing_left=np.zeros(n, bool), category_set=np.full(n, -1), cover=np.maximum(cover, 1e-300), gain=np.zeros(n),
        node_value=np.where(feature[:, None] < 0, value, 0.0), leaf_id=np.where(feature < 0, np.arange(n), -1),
    )  # fmt: skip


def test_a_tree_with_65000_leaves_in_one_chain():
    e = chain(65_000)
    X = np.random.default_rng(1).normal(size=(70, 3))
    assert np.array_equal(e.apply(X[:3]), oracle.apply(e, X[:3]))
    for method in ("predecomp", "saabas", "treeshap"):
        values = attribute(e, X, method)
        base = e.base_score + root_values(e, e.node_value if method == "predecomp" else e.mean_value)
        # 65,000 additions along one path.
        assert np.allclose(base + values.sum(axis=1), e.predict(X)[:, None], rtol=0, atol=1e-9)


def test_a_bushy_tree_with_65536_leaves():
    e = make_ensemble(Recipe(n_trees=1, depth=16, grow=1.0, thresholds=np.linspace(-2, 2, 401)), 3)
    assert (e.feature < 0).sum() == 65_536
    X = make_rows(e, 300, 4)
    assert np.array_equal(e.apply(X[:40]), oracle.apply(e, X[:40]))
    expected = oracle.path_attribution(e, e.node_value, X[:40])
    assert np.array_equal(attribute(e, X[:40], "predecomp"), expected)  # one tree: the same additions in the same order
    small = attribute(e, X, "treeshap")
    base = e.base_score + root_values(e, e.mean_value)
    assert np.allclose(base + small.sum(axis=1), e.predict(X)[:, None], rtol=0, atol=1e-11)


def large(**recipe):
    return lambda: make_ensemble(Recipe(n_trees=2, grow=0.95, **recipe), 12)


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
    e = LARGE[name]()
    assert np.diff(e.forest.first_leaf).min() > 256
    X = make_rows(e, 333, 12)  # more than a run, and no whole block at the end
    leaves, margin = oracle.apply(e, X), oracle.predict(e, X)
    expected = oracle.path_attribution(e, e.node_value, X)
    weight = compiled.aligned((e.n_outputs, compiled.padded_rows(len(X))))
    weight[:] = np.random.default_rng(13).normal(size=weight.shape)
    table, results = e.forest.path_table(e.node_value), []
    for level in LEVELS:
        use_instruction_set(level)
        sums = compiled.Sums(e.forest, len(X), table)
        sums.add(e.forest.bin(X), 0, e.n_trees, weight)
        results.append(
            [e.predict(X).reshape(margin.shape), attribute(e, X, "predecomp"), e.forest.features(sums.players())]
        )
        assert np.array_equal(e.apply(X), leaves)
        for few in (slice(0, 3), slice(70, 75), slice(300, 333)):
            assert np.array_equal(e.apply(X[few]), leaves[few])
            assert np.array_equal(e.predict(X[few]).reshape(-1, e.n_outputs), results[-1][0][few])
            assert np.array_equal(attribute(e, X[few], "predecomp"), results[-1][1][few])
    predicted, values, weighted = results[0]
    # Hundreds of steps at most, each a rounding of numbers near 10.
    assert np.allclose(predicted, margin, rtol=0, atol=1e-12)
    assert np.allclose(values, expected, rtol=0, atol=1e-12)
    assert np.allclose(weighted, expected * weight.T[: len(X), None], rtol=0, atol=1e-12)
    base = e.base_score + root_values(e, e.node_value)
    assert np.allclose(base + values.sum(axis=1), predicted, rtol=0, atol=1e-12)
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_large_trees_give_the_same_bits_in_any_strips():
    """More rows than go through a large tree before the next one's turn."""
    e = make_ensemble(Recipe(n_trees=3, depth=10, grow=0.97), 14)
    X = np.tile(make_rows(e, 700, 15), (7, 1))
    whole = compiled.aligned((1, compiled.padded_rows(len(X))))
    e.forest.core.margins(e.forest.bin(X), 0, e.n_trees, whole)
    assert np.array_equal(whole[0, :700] + e.base_score, e.predict(X[:700]))
    assert np.array_equal(whole[0, : len(X)], np.tile(whole[0, :700], 7))
    sums = compiled.Sums(e.forest, len(X), e.forest.path_table(e.node_value))
    sums.add(e.forest.bin(X), 0, e.n_trees)
    assert np.array_equal(e.forest.features(sums.players()), attribute(e, X, "predecomp"))


def boosted(e, X, y, table):
    """Margins, leaf sums and row scores of all rounds of squared error."""
    f, n = e.forest, len(X)
    margin, largest = compiled.aligned((1, compiled.padded_rows(n))), np.zeros(n)
    leaf_sums = np.zeros((int(f.first_leaf[-1]), 1), np.int64)
    sums = np.zeros((n, 1, f.n_players))
    rounds = np.arange(e.n_trees + 1, dtype=np.int32)
    f.core.boost(
        f.bin(X), 0, 1.0, rounds, y[None], None, margin, 2.0**30, leaf_sums, largest, None, None, table, sums,
        None, None, None,
    )  # fmt: skip
    return margin[0, :n], leaf_sums[:, 0], sums


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("with_scores", [False, True])
def test_boosting_through_large_trees_is_its_rounds_one_by_one(level, with_scores):
    use_instruction_set(level)
    e = make_ensemble(Recipe(n_trees=4, depth=10, grow=0.97), 16)
    assert np.diff(e.forest.first_leaf).min() > 256
    X = np.tile(make_rows(e, 333, 17), (14, 1))  # more rows than go through a large tree before the next one's turn
    y = np.random.default_rng(18).normal(size=len(X))
    table = e.forest.path_table(e.node_value, with_scores=with_scores)
    margin, leaf_sums, scores = boosted(e, X, y, table)
    weight, before = (compiled.aligned((1, compiled.padded_rows(len(X)))) for _ in range(2))
    sums, codes = compiled.Sums(e.forest, len(X), table), e.forest.bin(X)
    whole, n_leaves = np.zeros_like(leaf_sums), int(e.forest.first_leaf[-1])
    for tree in range(e.n_trees):
        weight[0, : len(X)] = y - before[0, : len(X)]
        sums.add(codes, tree, 1, weight)
        rounded = np.rint(weight * 2.0**30).astype(np.int64)
        e.forest.core.leaf_sums(codes, tree, 1, rounded, whole.reshape(n_leaves, 1))
        e.forest.core.margins(codes, tree, 1, before)
    assert np.array_equal(margin, before[0, : len(X)])
    assert np.array_equal(leaf_sums, whole)
    assert np.array_equal(scores, sums.players())  # no tree is small enough for a batch, which has other roundings
    without = boosted(e, X, y, None)
    assert np.array_equal(without[0], margin)
    assert np.array_equal(without[1], leaf_sums)


@pytest.mark.parametrize(("n_thresholds", "code_bytes"), [(253, 1), (254, 1), (300, 1), (5_000, 2), (70_000, 2)])
def test_many_thresholds_on_a_feature(n_thresholds, code_bytes):
    """Codes overflow into further planes, then into 16 bits, then into further planes of 16 bits."""
    e = chain(n_thresholds, n_columns=1)
    assert plan(e).code_bytes == code_bytes
    last = e.threshold[~np.isnan(e.threshold)][-3:]
    X = np.concatenate([[-2, 2, 0, np.nan, np.inf, -np.inf], e.threshold[[0, 2, 4]], last])
    X = np.concatenate([X, np.nextafter(X, np.inf), np.nextafter(X, -np.inf)])[:, None]
    assert np.array_equal(e.apply(X), oracle.apply(e, X))


def test_treeshap_with_many_distinct_features_on_a_path():
    """40 players on one path need 20 quadrature points: several sweeps. Local accuracy and symmetry pin the values."""
    e = chain(40, n_columns=40)
    X = np.random.default_rng(2).normal(size=(30, 40))
    values = attribute(e, X, "treeshap")
    base = e.base_score + root_values(e, e.mean_value)
    assert np.allclose(base + values.sum(axis=1), e.predict(X)[:, None], rtol=0, atol=1e-12)


def test_a_child_without_cover_is_no_division_by_zero():
    e = make_ensemble(Recipe(n_trees=4, depth=4, n_columns=3), 5)
    cover = e.cover.copy()
    cover[e.right[e.feature >= 0]] = 0.0
    e = replace(e, cover=cover)
    X = make_rows(e, 20, 6)
    with np.errstate(divide="raise", invalid="raise"):
        values = attribute(e, X, "treeshap")
    base = e.base_score + root_values(e, e.mean_value)
    assert np.isfinite(values).all()
    assert np.allclose(base + values.sum(axis=1), e.predict(X)[:, None], rtol=0, atol=1e-12)


@pytest.mark.parametrize("share", [1e-2, 1e-8, 1e-14])
@pytest.mark.parametrize("seed", [0, 2, 3, 4, 5, 6, 7])  # trees with splits
def test_a_rare_leaf_of_huge_value_costs_treeshap_no_digits(seed, share):
    """TreeSHAP is linear in the leaves: the huge leaf alone and all others alone must add up."""
    e = make_ensemble(Recipe(n_trees=1, depth=6, n_columns=8, grow=0.95), seed)
    rng, X = np.random.default_rng(seed), make_rows(e, 100, seed)
    split = rng.choice([i for i in np.flatnonzero(e.feature >= 0) if e.feature[e.right[i]] < 0])
    leaf, cover = e.right[split], e.cover.copy()
    cover[leaf] = share * cover[e.left[split]]

    def values(leaves):
        leaves = leaves[:, None]
        rare = replace(e, cover=cover, value=leaves, node_value=leaves)
        return attribute(rare, X, "treeshap").reshape(len(X), -1)

    rest, alone = e.value[:, 0].copy(), np.zeros(e.n_nodes)
    rest[leaf], alone[leaf] = 0.0, 1.0
    expected, huge = values(rest), values(alone) / share
    largest = np.abs(expected).max(axis=1) + np.abs(huge).max(axis=1)
    # A value is a sum over some 30 splits and 3 points, each good to a few 2^-53; seen: 1.3e-15.
    assert (np.abs(values(rest + alone / share) - expected - huge).max(axis=1) <= 1e-14 * largest).all()


def test_zero_as_missing():
    e = make_ensemble(Recipe(zero_as_missing=(0, 2)), 7)
    X = make_rows(e, 200, 8)
    assert np.array_equal(e.apply(X), oracle.apply(e, X))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
def test_every_dtype_order_and_stride(dtype):
    e = make_ensemble(Recipe(), 9)
    X = np.random.default_rng(0).integers(0, 2, size=(90, 5)).astype(dtype)
    expected = oracle.apply(e, X.astype(float))
    wide = np.repeat(np.repeat(X, 3, axis=0), 2, axis=1)
    for view in (X, np.asfortranarray(X), wide[::3, ::2], X[::-1][::-1], np.ascontiguousarray(X[:, ::-1])[:, ::-1]):
        assert np.array_equal(e.apply(view), expected)


def test_unknown_instruction_set_is_named():
    with pytest.raises(ValueError, match="cannot run the instruction set 'sse9'"):
        use_instruction_set("sse9")


def test_n_jobs():
    assert threads.n_threads(None) == 1
    assert threads.n_threads(3) == 3
    assert threads.n_threads(-1) >= 1
    with pytest.raises(ValueError, match="n_jobs=0"):
        threads.n_threads(0)


def test_an_exception_in_a_thread_surfaces():
    def work(start, stop):
        raise RuntimeError(f"block {start}")

    with pytest.raises(RuntimeError, match="block 0"):
        list(threads.map_rows(100, 10, work, n_jobs=2))


def test_results_that_nobody_takes_are_not_piled_up():
    started = []
    results = threads.map_rows(1000, 10, lambda start, stop: started.append(start) or start, n_jobs=2)
    for taken, result in enumerate(results):
        assert result == 10 * taken
        time.sleep(0.002)  # the threads are faster than whoever takes their results
        assert len(started) <= taken + 1 + 4  # twice the threads at work or waiting
    assert sorted(started) == list(range(0, 1000, 10))


def test_an_ensemble_is_pickled_without_its_compiled_form():
    """Other processes need the model; they compile it again."""
    e = make_ensemble(Recipe(n_trees=4, depth=4, n_columns=3), 0)
    X = make_rows(e, 50, 1)
    before = e.predict(X)
    again = pickle.loads(pickle.dumps(e))
    assert "forest" not in vars(again)
    np.testing.assert_array_equal(again.predict(X), before)


def test_every_range_of_rows_is_worked_on_once_by_the_caller_or_a_thread():
    done = []

    def work(start, stop):
        time.sleep(0.001 * (start % 3))
        done.append((start, threading.current_thread()))
        return start

    for n_jobs in (2, 4):
        done.clear()
        assert list(threads.map_rows(97, 1, work, n_jobs=n_jobs)) == list(range(97))
        assert sorted(start for start, _ in done) == list(range(97))
        workers = {thread for _, thread in done}
        assert threading.main_thread() in workers
        assert len(workers) <= n_jobs


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("left", 10**6, "outside its tree"),
        ("right", 0, "two parents"),
        ("tree_output", 2**31 - 1, "output is out of range"),
    ],
)
def test_the_core_refuses_trees_that_are_none(field, value, message):
    """An Ensemble is checked before; the core relies on nobody, since it would read outside of its arrays."""
    e = make_ensemble(Recipe(n_trees=3, depth=3, grow=1.0), 0)
    names = ("tree_start", "tree_output", "left", "right", "value", "n_outputs")
    damaged = SimpleNamespace(**{name: getattr(e, name) for name in names})
    setattr(damaged, field, getattr(e, field).copy())
    getattr(damaged, field)[0] = value
    p, player = plan(e), np.zeros(e.n_nodes, np.int32)
    nodes = np.stack((damaged.left, damaged.right, p.node_plane, p.node_cut, p.node_set, player), axis=1)
    with pytest.raises(ValueError, match=message):
        _core.Forest(damaged, p, nodes, e.schema.n_columns)
