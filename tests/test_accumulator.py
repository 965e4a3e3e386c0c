"""ImportanceAccumulator: any batches, any order, any tree of merges give the same bits; nothing else is added up."""

import copy
import functools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

import treeinner as ti
from treeinner import sign_flips
from treeinner.compiled import SIZES
from treeinner.compiled.forest import INSTRUCTION_SETS, instruction_set, use_instruction_set
from treeinner.errors import DataError, ModelError, UnsupportedModelError
from treeinner.scores.exact import ExactSums, Moments

from . import oracle
from .forests import Recipe, make_ensemble, make_rows

LEVELS = INSTRUCTION_SETS
N = 150  # more than two blocks of 64

# name -> (recipe, objective, options of the accumulator)
KINDS = {
    "squared error": (Recipe(n_trees=5), "squared_error", {}),
    "predecomp": (Recipe(n_trees=5), "squared_error", {"method": "predecomp"}),
    "loss": (Recipe(n_trees=5), "logistic", {"score": "loss"}),
    "loss of three classes": (Recipe(n_trees=9, depth=3, n_outputs=3), "softmax", {"score": "loss"}),
    "loss outside the core": (Recipe(n_trees=5), "reg:pseudohubererror", {"score": "loss"}),
    "loss by treeshap": (Recipe(n_trees=4), "logistic", {"score": "loss", "method": "treeshap", "by_round": True}),
    "logistic": (Recipe(n_trees=5), "logistic", {}),
    # Twelve outputs: from nine on numpy adds a row's outputs in another order if the row stands alone.
    "twelve classes": (Recipe(n_trees=24, depth=3, n_outputs=12), "softmax", {}),
    "poisson in a group": (Recipe(n_trees=5), "poisson", {"feature_groups": {"pair": [1, 3]}}),
    "vector leaves": (Recipe(n_trees=4, n_outputs=3, vector=True), "softmax", {}),
    "treeshap by round": (Recipe(n_trees=4), "logistic", {"method": "treeshap", "by_round": True}),
    "twelve classes by treeshap": (
        Recipe(n_trees=12, depth=3, n_outputs=12),
        "softmax",
        {"method": "treeshap", "by_round": True},
    ),
    "leaf sums alone": (Recipe(n_trees=5), "logistic", {"std_errors": False}),
    "forest_inner": (Recipe(n_trees=5), "logistic", {"score": "forest_inner"}),
    "abs": (Recipe(n_trees=5), "auto", {"score": "abs", "feature_groups": {"pair": [1, 3]}}),
    "clusters": (Recipe(n_trees=6, n_outputs=3), "softmax", {"clustered": True}),
}


@pytest.fixture(autouse=True)
def _same_level_after():
    before = instruction_set()
    yield
    use_instruction_set(before)


class Rows:
    def __init__(self, kind, recipe=None):
        usual, self.objective, self.options = KINDS[kind]
        recipe = recipe or usual
        self.e = make_ensemble(recipe, 1)
        self.X = make_rows(self.e, N, 2)
        rng = np.random.default_rng(3)
        classes = self.e.n_outputs if self.objective == "softmax" else 2
        real = self.objective in ("squared_error", "reg:pseudohubererror")
        self.y = rng.normal(size=N) if real else rng.integers(0, classes, N)
        self.weight = rng.choice([0.0, 0.3, 1.0, 7.0], N)
        self.base = rng.normal(size=(N, self.e.n_outputs))
        self.clusters = rng.integers(0, 9, N) if self.options.get("clustered") else None
        if self.options.get("score") == "abs":
            self.y = self.base = None

    def accumulator(self, **other):
        return ti.ImportanceAccumulator(self.e, objective=self.objective, **{"n_jobs": 1, **self.options, **other})

    def add(self, accumulator, rows):
        with_target = {} if self.y is None else {"y": self.y[rows], "base_margin": self.base[rows]}
        return accumulator.update(
            self.X[rows],
            **with_target,
            sample_weight=self.weight[rows],
            clusters=None if self.clusters is None else self.clusters[rows],
        )


@functools.cache
def rows_of(kind):
    rows = Rows(kind)
    return rows, rows.add(rows.accumulator(), np.arange(N))


def sums_of(accumulator):
    """Its bytes, whatever the number of batches."""
    accumulator = copy.copy(accumulator)
    accumulator._held.n_batches = 0
    return accumulator.to_bytes()


def same_bits(a, b):
    assert sums_of(a) == sums_of(b)
    same_numbers(a.result(), b.result())


def same_numbers(a, b):
    assert np.array_equal(a.scores, b.scores)
    assert np.array_equal(a.std_errors, b.std_errors, equal_nan=True)
    assert np.array_equal(a.p_values, b.p_values, equal_nan=True)
    assert (a.n_rows, a.sum_of_weights, a.statistics.n_units) == (b.n_rows, b.sum_of_weights, b.statistics.n_units)
    assert (a.rounds is None) == (b.rounds is None)
    if a.rounds is not None:
        assert np.array_equal(a.by_round(), b.by_round())
    if a.outputs is not None:
        assert np.array_equal(a.outputs.score, b.outputs.score)
        assert np.array_equal(a.outputs.std_error, b.outputs.std_error)
        assert np.array_equal(a.outputs.p_value, b.outputs.p_value)
    assert (a.losses is None) == (b.losses is None)
    for name, value in ({} if a.losses is None else vars(a.losses)).items():
        assert np.array_equal(getattr(b.losses, name), value, equal_nan=value is not None)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_any_batches_in_any_order_merged_in_any_tree_give_the_same_bits(kind, data):
    rows, whole = rows_of(kind)
    order = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))).permutation(N)
    cuts = sorted(data.draw(st.lists(st.integers(0, N), max_size=6)))  # equal cuts: an empty batch
    batches = np.split(order, cuts)
    parts = [rows.accumulator(n_jobs=data.draw(st.sampled_from([1, 3]))) for _ in range(data.draw(st.integers(1, 4)))]
    for batch in batches:
        rows.add(parts[data.draw(st.integers(0, len(parts) - 1))], batch)
    while len(parts) > 1:
        i, j = data.draw(st.permutations(range(len(parts))))[:2]
        merged = parts[i].merge(parts[j])
        if data.draw(st.booleans()):
            merged = rows.accumulator().from_bytes(merged.to_bytes())
        parts = [part for k, part in enumerate(parts) if k not in (i, j)] + [merged]
    same_bits(parts[0], whole)


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_at_a_time_gives_the_same_bits(kind):
    rows, whole = rows_of(kind)
    single = rows.accumulator()
    for i in reversed(range(N)):
        rows.add(single, np.array([i]))
    same_bits(single, whole)


@pytest.mark.parametrize("kind", KINDS)
def test_importance_gives_the_accumulators_bits(kind):
    rows, whole = rows_of(kind)
    options = {k: v for k, v in rows.options.items() if k != "clustered"}
    imp = ti.importance(
        rows.e, rows.X, rows.y, objective=rows.objective, sample_weight=rows.weight, base_margin=rows.base,
        clusters=rows.clusters, n_jobs=2, **options,
    )  # fmt: skip
    if imp.method == "centred" and imp.has_std_errors:
        whole = rows.add(whole.second_pass(), np.arange(N))
    result = whole.result()
    same_numbers(imp, result)
    assert imp.feature_names == result.feature_names
    assert imp.notes == result.notes


# Every bit of these is above the lowest unit of the sums, 2^-88.
NUMBERS = st.builds(
    lambda x, k: float(np.ldexp(x, k)), st.floats(-1, 1).filter(lambda x: abs(x) > 0.1), st.integers(-30, 69)
)


@settings(max_examples=100, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=40), st.integers(-20, 20))
def test_exact_sums_are_correctly_rounded(numbers, exponent):
    scaled = np.ldexp(np.array(numbers), -exponent)[:, None]
    sums = ExactSums.zeros(1, exponent)
    sums.add(scaled)
    assert sums.totals()[0] == math.fsum(scaled[:, 0])
    small = np.ldexp(scaled, -30)  # squares down to 2^-128 lose what is below 2^-88 of the unit
    moments = Moments.zeros(1, exponent, counted=False)
    moments.add(small)
    unit = 2.0 ** (-88 - 2 * exponent)
    assert moments.squares()[0] == pytest.approx(math.fsum(small[:, 0] ** 2), rel=1e-15, abs=len(numbers) * unit)


@settings(max_examples=100, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=40), st.integers(-400, 400), st.permutations(range(40)))
def test_effective_rows_of_every_number_whose_square_fits(numbers, exponent, order):
    """Against integers of any length; the parts may come in any order."""
    scaled = np.ldexp(np.array(numbers), -30)  # 2^-60 to 2^39
    order = [i for i in order if i < len(scaled)]
    values = np.ldexp(scaled, -exponent)[:, None]
    whole, parts = (Moments.zeros(1, exponent, counted=True) for _ in range(2))
    whole.add(values)
    for i in order:
        part = Moments.zeros(1, exponent, counted=True)
        part.add(values[i : i + 1])
        parts += part
    assert np.array_equal(whole.limbs, parts.limbs)
    assert np.array_equal(whole.counts, parts.counts)
    second, fourth = (sum(Fraction(x) ** power for x in scaled) for power in (2, 4))
    if np.abs(scaled).max() > 2.0**-30:  # smaller numbers are near the lowest units, 2^-88 of squares
        # All numbers of one bin count as equal, which is 8 % off if they lie at its two ends.
        assert whole.effective_rows()[0] == pytest.approx(float(second**2 / fourth), rel=0.08)


@pytest.mark.parametrize("level", LEVELS)
def test_powers_of_many_columns_at_every_instruction_set(level):
    """More rows and columns than a tile has, not whole vectors of them, of all sizes; to some places of the sums."""
    use_instruction_set(level)
    rng = np.random.default_rng(0)
    # By columns: rows that need three, four and five limbs.
    values = rng.normal(size=(150, 37)) * np.ldexp(
        1.0, rng.integers(-20, 4, 37)[None] + rng.integers(0, 25, 150)[:, None]
    )
    moments = Moments.zeros(50, 0, counted=True)
    places = rng.permutation(50)[:37]
    moments.add(values, places=places)
    assert not np.delete(moments.limbs, places, axis=1).any()
    assert not np.delete(moments.counts, places, axis=0).any()
    for place, column in zip(places, values.T, strict=True):
        sizes, offsets = oracle.bin_of(column), oracle.offset_of(column)
        counts = np.zeros((sign_flips.N_BINS, 2), np.int64)
        np.add.at(counts, sizes[sizes >= 0], np.stack([np.ones_like(offsets), offsets], axis=1)[sizes >= 0])
        assert np.array_equal(moments.counts[place], counts.ravel())
    for held, powers in zip(moments.limbs, (values, values**2), strict=True):
        for place, column in zip(places, powers.T, strict=True):
            units = sum(round(Fraction(x) * 2**88) for x in column)  # Python rounds a half to the even number too
            assert sum(int(limb) << 32 * (4 - i) for i, limb in enumerate(held[place])) == units


def test_the_core_and_the_test_of_flips_agree_on_the_sizes():
    assert (sign_flips.BITS, sign_flips.OFFSET_BITS, sign_flips.LOWEST, sign_flips.HIGHEST) == SIZES


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2.0**80])
def test_a_number_that_does_not_fit_is_refused_wherever_it_stands(level, bad):
    use_instruction_set(level)
    for row, column in ((0, 0), (63, 31), (64, 32), (149, 36)):
        values = np.ones((150, 37))
        values[row, column] = bad
        with pytest.raises(DataError, match="out of proportion"):
            ExactSums.zeros(37, 0).add(values)


@pytest.mark.parametrize("kind", ["logistic", "twelve classes", "vector leaves", "clusters", "treeshap by round"])
def test_a_group_of_one_feature_is_the_feature_if_some_are_unused(kind):
    """Without groups only the features in use are added up."""
    recipe, objective, options = KINDS[kind]
    rows = Rows(kind, replace(recipe, n_columns=200, depth=3))
    e = rows.e
    used = np.unique(e.feature[e.feature >= 0])
    assert 5 < len(used) < e.n_features
    options = {k: v for k, v in options.items() if k != "clustered"}
    options |= {"objective": objective, "clusters": rows.clusters, "n_jobs": 1}
    alone = ti.importance(e, rows.X, rows.y, **options)
    grouped = ti.importance(
        e, rows.X, rows.y, feature_groups={f"only {i}": [i] for i in range(e.n_features)}, **options
    )
    for name in ("score", "std_error", "p_value"):
        assert np.array_equal(getattr(alone.statistics, name), getattr(grouped.statistics, name), equal_nan=True)
        if e.n_outputs > 1:
            assert np.array_equal(getattr(alone.outputs, name), getattr(grouped.outputs, name), equal_nan=True)
    assert (alone.std_errors[used] > 0).any()
    assert not np.delete(alone.scores, used).any()


def test_numbers_out_of_all_proportion_are_refused():
    with pytest.raises(DataError, match="out of proportion"):
        ExactSums.zeros(1, 0).add(np.array([[2.0**81]]))
    rows, _ = rows_of("squared error")
    for y in (1e13, 1e20):  # sums of a task are 64-bit integers, in units of 2^-32 of the model's own values
        accumulator = rows.accumulator()
        with pytest.raises(DataError, match="out of proportion"):
            accumulator.update(rows.X, np.full(N, y))
        assert accumulator.to_bytes() == rows.accumulator().to_bytes()


def test_merge_changes_neither_operand():
    rows, _ = rows_of("clusters")
    a, b = rows.add(rows.accumulator(), np.arange(70)), rows.add(rows.accumulator(), np.arange(70, N))
    before = a.to_bytes(), b.to_bytes()
    merged = a.merge(b)
    assert (a.to_bytes(), b.to_bytes()) == before
    rows.add(merged, np.arange(5))
    rows.add(a, np.arange(10))
    assert b.to_bytes() == before[1]
    empty = rows.accumulator()
    both = b.merge(empty), empty.merge(b)
    assert [part.to_bytes() for part in both] == [before[1]] * 2
    rows.add(both[1], np.arange(3))
    assert b.to_bytes() == before[1]
    with pytest.raises(DataError, match="no rows"):
        empty.result()


def test_from_bytes_leaves_its_receiver_alone():
    rows, whole = rows_of("logistic")
    receiver = rows.accumulator()
    restored = receiver.from_bytes(whole.to_bytes())
    with pytest.raises(DataError, match="no rows"):
        receiver.result()
    same_bits(restored, whole)
    rows.add(restored, np.arange(N))
    assert restored.result().n_rows == 2 * N


def test_other_models_and_settings_do_not_add_up():
    rows, whole = rows_of("logistic")
    other_model = replace(rows.e, value=rows.e.value * 2, node_value=rows.e.node_value * 2)
    strangers = [
        ti.ImportanceAccumulator(other_model, objective="logistic"),
        ti.ImportanceAccumulator(rows.e, objective="squared_error"),
        ti.ImportanceAccumulator(rows.e, objective="logistic", method="saabas"),
        ti.ImportanceAccumulator(rows.e, objective="logistic", method="predecomp"),
        ti.ImportanceAccumulator(rows.e, objective="logistic", score="loss"),
        whole.second_pass(),
        ti.ImportanceAccumulator(rows.e, objective="logistic", score="forest_inner"),
        ti.ImportanceAccumulator(rows.e, objective="logistic", feature_groups={"pair": [0, 1]}),
        ti.ImportanceAccumulator(rows.e, objective="logistic", std_errors=False),
        ti.ImportanceAccumulator(rows.e, objective="logistic", clustered=True),
        ti.ImportanceAccumulator(rows.e, objective="logistic", iteration_range=(0, 4)),
    ]
    for stranger in strangers:
        with pytest.raises(ModelError, match="different models or settings"):
            whole.merge(stranger)
        with pytest.raises(ModelError, match="another model or other settings"):
            stranger.from_bytes(whole.to_bytes())
    with pytest.raises(TypeError, match="expected an ImportanceAccumulator"):
        whole.merge(rows.e)
    with pytest.raises(ModelError):
        whole.from_bytes(whole.to_bytes()[:-40])


def test_the_parameters_of_a_loss_are_part_of_the_settings():
    e = make_ensemble(Recipe(), 0)
    a, b = (ti.ImportanceAccumulator(e, objective=f"quantile:alpha={alpha}") for alpha in (0.1, 0.9))
    with pytest.raises(ModelError, match="different models or settings"):
        a.merge(b)
    trained = [
        replace(e, library="xgboost", objective="reg:tweedie", objective_params={"tweedie_variance_power": p})
        for p in (1.2, 1.8)
    ]
    a, b = map(ti.ImportanceAccumulator, trained)
    with pytest.raises(ModelError, match="different models or settings"):
        a.merge(b)


def test_memory_does_not_grow_with_the_rows():
    rows, _ = rows_of("twelve classes")
    sizes = []
    accumulator = rows.accumulator()
    for _ in range(4):
        rows.add(accumulator, np.arange(N))
        arrays, _ = accumulator._held.to_arrays()
        sizes.append(sum(array.nbytes for array in arrays.values()))
    assert len(set(sizes)) == 1


def test_no_rows_is_an_error():
    rows, _ = rows_of("logistic")
    empty = rows.accumulator()
    for _ in range(2):
        with pytest.raises(DataError, match="no rows"):
            empty.result()
        empty.update(rows.X[:0], rows.y[:0])
    assert empty.to_bytes() == rows.accumulator().to_bytes()
    with pytest.raises(DataError, match="no rows"):
        empty.from_bytes(empty.to_bytes()).result()


def test_weights_may_all_be_zero_in_a_batch_but_not_in_all():
    rows, _ = rows_of("logistic")
    accumulator = rows.accumulator()
    accumulator.update(rows.X[:5], rows.y[:5], sample_weight=np.zeros(5))
    with pytest.raises(DataError, match="zero in every row"):
        accumulator.result()
    accumulator.update(rows.X[5:], rows.y[5:])
    assert accumulator.result().statistics.n_units == N - 5
    assert accumulator.result().n_rows == N


def test_clusters_are_announced_and_then_always_given():
    rows, _ = rows_of("logistic")
    for clustered, clusters in ((True, None), (False, np.zeros(N))):
        with pytest.raises(DataError, match="clustered=True"):
            rows.accumulator(clustered=clustered).update(rows.X, rows.y, clusters=clusters)


def test_names_and_groups_are_learnt_from_the_first_frame_and_survive_merging():
    """A model without names: groups by name can only be resolved once a frame has come."""
    e = make_ensemble(Recipe(n_columns=4), 0)
    X = np.random.default_rng(0).normal(size=(40, 4))
    frame = pd.DataFrame(X, columns=list("abcd"))
    y = X.sum(axis=1)

    def make():
        return ti.ImportanceAccumulator(e, objective="squared_error", feature_groups={"ends": ["a", "d"]})

    whole = make().update(frame, y)
    assert whole.result().feature_names == ("ends", "b", "c")
    assert isinstance(whole.result().to_frame(), pd.DataFrame)
    empty = make().from_bytes(make().to_bytes())
    first, second = make().update(frame[:20], y[:20]), make().update(frame[20:], y[20:])
    for together in (
        empty.merge(first).merge(second),
        first.merge(empty).merge(second),
        make().from_bytes(first.to_bytes()).merge(second),
        make().from_bytes(first.to_bytes()).update(frame[20:], y[20:]),
        make().merge(make().from_bytes(first.to_bytes())).update(frame[20:], y[20:]),
    ):
        same_bits(together, whole)
        assert together.result().feature_names == ("ends", "b", "c")


def test_groups_by_position_without_any_names():
    rows, _ = rows_of("poisson in a group")
    first, second = rows.add(rows.accumulator(), np.arange(60)), rows.add(rows.accumulator(), np.arange(60, N))
    for together in (
        rows.accumulator().merge(first).merge(second),
        rows.accumulator().from_bytes(first.to_bytes()).merge(second),
    ):
        same_bits(together, rows_of("poisson in a group")[1])
        assert together.result().feature_names == ("f0", "pair", "f2", "f4")


# -- losses that look at more than one row ---------------------------------------------------------------------------
def survival():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    time = rng.exponential(np.exp(-X[:, 0]))
    y = np.where(rng.random(200) < 0.7, time, -time)  # negative: censored
    params = {"objective": "survival:cox", "nthread": 1, "max_depth": 2, "eta": 0.3, "base_score": 1.0}
    return xgb.train(params, xgb.DMatrix(X, y), 8), X, y


def test_cox_needs_all_rows_at_once():
    model, X, y = survival()
    with pytest.raises(UnsupportedModelError, match="depends on all rows together"):
        ti.ImportanceAccumulator(model).update(X, y)
    imp = ti.importance(model, X, y, method="predecomp")
    gains = model.get_score(importance_type="total_gain")
    own = np.array([gains.get(f"f{k}", 0.0) for k in range(4)])
    # Proposition 3 holds for any loss; XGBoost keeps its gradients in float32.
    assert np.abs(imp.gains / imp.gains.sum() - own / own.sum()).max() < 2e-6
    with pytest.raises(UnsupportedModelError, match="depends on other rows"):
        ti.permutation_importance(model, X, y)


def test_rows_that_look_at_each_other_go_through_the_rounds_together():
    """The result does not depend on how the rows are cut into tasks."""
    model, X, y = survival()
    e = ti.read_model(model).ensemble
    whole = ti.importance(e, X, y)
    e.forest.task_rows = 64
    cut = ti.importance(e, X, y)
    assert np.array_equal(whole.scores, cut.scores)
    assert np.array_equal(whole.std_errors, cut.std_errors)


def test_a_loss_with_a_number_per_round_needs_all_rows_at_once():
    """XGBoost >= 3.4's absolute error."""
    e = make_ensemble(Recipe(n_trees=4), 0)
    X = make_rows(e, 100, 1)
    y = np.random.default_rng(0).normal(size=100)
    with pytest.raises(UnsupportedModelError, match="depends on all rows together"):
        ti.ImportanceAccumulator(e, objective="smooth_absolute_error").update(X, y)
    weight = np.arange(100.0)

    def gradient(margin):
        r = margin[:, 0] - y
        s = np.average(np.sqrt(np.abs(r)), weights=weight) ** 2
        return (r * s / np.hypot(s, r))[:, None]

    residual = oracle.residuals(e, X, gradient, weight)
    plain = oracle.tree_inner(e, oracle.tensor(e, X, "predecomp"), residual)
    for method, shares in (("predecomp", plain), ("centred", oracle.centred_shares(e, X, residual, weight))):
        imp = ti.importance(e, X, y, objective="smooth_absolute_error", sample_weight=weight, method=method)
        # Leaf sums hold a gradient to 2^-32 of the largest leaf.
        found = imp.scores * weight.sum()
        np.testing.assert_allclose(found, shares.sum(axis=(0, 1, 3)), rtol=0, atol=1e-8 * np.abs(shares).sum())


def test_ranking_may_be_streamed_only_by_whole_queries():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4)).astype(np.float32)
    group = np.repeat(np.arange(12), 10)
    y = rng.integers(0, 3, 120)
    matrix = xgb.DMatrix(X, y, qid=group)
    model = xgb.train(
        {"objective": "rank:ndcg", "nthread": 1, "max_depth": 2, "lambdarank_pair_method": "topk"}, matrix, 5
    )
    whole = ti.importance(model, X, y, qid=group)
    streamed = ti.ImportanceAccumulator(model)
    for start in (60, 0):
        rows = slice(start, start + 60)
        streamed.update(X[rows], y[rows], qid=group[rows])
    # Sums over a query are taken in numpy's order, which may depend on the rows around it.
    np.testing.assert_allclose(streamed.result().scores, whole.scores, rtol=1e-10)


def test_permutation_cannot_be_streamed():
    with pytest.raises(ValueError, match=r"a separate function: ti\.permutation_importance"):
        ti.ImportanceAccumulator(make_ensemble(Recipe(), 0), score="permutation")
