"""States that travel and sums without an end: any number of rows of any weight, each counted once."""

import copy
import functools
import pickle
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

import treeinner as ti
from treeinner.errors import DataError, ModelError
from treeinner.scores.exact import LIMBS, ExactSums, Moments, plus, shifted_sum, whole_numbers
from treeinner.scores.leaves import Leaves, combined_leaves

from .test_accumulator import KINDS, N, Rows, rows_of, same_bits, sums_of

ALL = np.arange(N)
# Written by version 4 of the format. Later versions must read it; a new version of the format gets a new file.
GOLDEN = Path(__file__).parent / "golden" / "accumulator-4.bin"


# -- sums without an end -----------------------------------------------------------------------------------------
@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**300), 2**300), min_size=1, max_size=6), st.integers(0, 200))
def test_limbs_are_integers_of_any_length(numbers, bits):
    def limbs(number):
        return shifted_sum([(np.array([0, 0, 0, 0, int(d)]), 32 * i) for i, d in enumerate(digits(number))])

    def digits(number):
        sign = -1 if number < 0 else 1
        return [sign * (abs(number) >> 32 * i & 2**32 - 1) for i in range(10)]

    total = functools.reduce(plus, map(limbs, numbers))
    assert whole_numbers(total) == sum(numbers)
    again = functools.reduce(plus, map(limbs, reversed(numbers)))
    assert np.array_equal(total, again)  # one form only, also after sums that were larger on the way
    assert np.array_equal(total, limbs(sum(numbers)))
    assert whole_numbers(shifted_sum([(total, bits), (total, 0)])) == sum(numbers) * (2**bits + 1)


def exact_arrays(state):
    """All sums of a state as Python's integers."""
    limbs = {"sums": state.shares.limbs, "weight": state.weight.limbs}
    limbs |= {name: getattr(state, name).limbs for name in ("rounds", "losses") if getattr(state, name) is not None}
    limbs |= {("cluster", label): part for label, part in (state.clusters or {}).items()}
    if state.leaves is not None:
        limbs["leaves"] = state.leaves.all_limbs()
    out = {name: whole_numbers(part) for name, part in limbs.items()}
    counts = state.shares.counts.astype(object)
    out["counts"] = counts if state.shares.high is None else counts + state.shares.high.astype(object) * 2**48
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_added_to_itself_sixty_times_is_two_to_the_sixty_of_it(kind):
    rows, whole = rows_of(kind)
    many = whole
    for _ in range(60):
        many = many + many
    (once,), (often,) = (acc._held.by_scale.values() for acc in (whole, many))
    before, after = exact_arrays(once), exact_arrays(often)
    assert before.keys() == after.keys()
    for name, numbers in before.items():
        assert np.array_equal(numbers * 2**60, after[name]), name
    assert (many.n_rows, many.n_batches) == (N << 60, 1 << 60)
    assert np.array_equal(many.result().scores, whole.result().scores)
    assert rows.accumulator().from_bytes(many.to_bytes()).to_bytes() == many.to_bytes()


def test_a_number_that_outgrows_its_limbs_gets_more_of_them():
    sums, moments = ExactSums.zeros(2, 0), Moments.zeros(2, 0, counted=True)
    values = np.array([[2.0**79, -3.0], [2.0**79, 1.0]])
    sums.add(values)
    moments.add(np.array([[2.0**39, -3.0]]))
    for _ in range(200):
        sums += copy.deepcopy(sums)
        moments += copy.deepcopy(moments)
    assert sums.limbs.shape[-1] > LIMBS
    assert np.array_equal(sums.totals(), np.ldexp([2.0**80, -2.0], 200))
    assert np.array_equal(moments.squares(), np.ldexp([2.0**78, 9.0], 200))
    sums.add(-values)  # where there are more limbs than the core knows
    assert [int(n) for n in whole_numbers(sums.limbs)] == [
        int(Fraction(x) * 2**88 * (2**200 - 1)) for x in (2.0**80, -2)
    ]
    negative = ExactSums(-sums.limbs, 0)
    sums += negative
    assert sums.limbs.shape[-1] == LIMBS
    assert not sums.limbs.any()


def test_leaf_sums_are_carried_and_then_rounded_to_what_the_core_can_add():
    leaves = Leaves(np.array([[2**60], [-3]]), np.array([[5], [7]]), bound=2**60, since=2**60)
    total = copy.deepcopy(leaves)
    for _ in range(70):
        total += copy.deepcopy(total)
    assert np.array_equal(whole_numbers(total.all_limbs()), np.array([[[2**60], [-3]], [[5], [7]]], object) * 2**70)
    ready = combined_leaves([(total, 0)])
    assert np.array_equal(np.ldexp(ready.sums, ready.exponent), np.ldexp(leaves.sums, 70))
    assert np.abs(ready.sums).max() < 2**62
    with pytest.raises(DataError, match="out of proportion"):
        leaves.raise_bound(2**62)


# -- weights of any scale ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("bits", [-640, -48, -16, 16, 48, 640])
@pytest.mark.parametrize("kind", KINDS)
def test_the_unit_of_the_weights_changes_no_bit(kind, bits):
    """Units of 2^16: the scales of weights are that far apart."""
    rows, whole = rows_of(kind)
    scaled = copy.copy(rows)
    scaled.weight = np.ldexp(rows.weight, bits)
    ours, expected = scaled.add(scaled.accumulator(), ALL).result(), whole.result()
    assert np.array_equal(ours.scores, expected.scores)
    assert np.array_equal(ours.std_errors, expected.std_errors, equal_nan=True)
    assert np.array_equal(ours.p_values, expected.p_values, equal_nan=True)
    assert ours.sum_of_weights == np.ldexp(expected.sum_of_weights, bits)


@pytest.mark.parametrize("unit", [1e-12, 1e12, 1e-3, 300.0])
@pytest.mark.parametrize("kind", ["squared error", "predecomp", "loss", "clusters", "treeshap by round", "abs"])
def test_weights_of_any_mean(kind, unit):
    rows, whole = rows_of(kind)
    scaled = copy.copy(rows)
    scaled.weight = rows.weight * unit
    ours, expected = scaled.add(scaled.accumulator(), ALL).result(), whole.result()
    # A leaf sum holds a row to 2^-32 of the model's values; the least weight of a scale is 2^-8 of its unit, a gradient
    # 2^-4 of these values; and scores are sums that cancel.
    close = {"rtol": 0, "atol": 2.0**-16 * np.abs(expected.scores).max()}
    np.testing.assert_allclose(ours.scores, expected.scores, **close)
    np.testing.assert_allclose(ours.std_errors, expected.std_errors, rtol=1e-6)


@pytest.mark.parametrize("kind", ["squared error", "loss", "treeshap by round", "clusters", "twelve classes", "abs"])
def test_weights_of_many_scales_add_up_in_any_batches(kind):
    """Against the same rows with weights that fit one scale, where every row counts by its own weight."""
    rows = copy.copy(rows_of(kind)[0])
    rng = np.random.default_rng(0)
    rows.weight = np.where(rng.random(N) < 0.1, 0.0, np.exp2(rng.uniform(-60, 40, N)))
    whole = rows.add(rows.accumulator(), ALL)
    assert len(whole._held.by_scale) > 5
    parts = [rows.add(rows.accumulator(n_jobs=2), some) for some in np.array_split(rng.permutation(N), 7)]
    same_bits(sum(parts), whole)
    assert ti.ImportanceAccumulator.merge_bytes([part.to_bytes() for part in parts]) == sum(parts).to_bytes()
    heavy = rows.weight > 2.0**20  # what is below 2^-20 of the heaviest rows is not seen beside them
    alone = copy.copy(rows)
    alone.weight = np.where(heavy, rows.weight, 0.0) * 2.0**-32  # 2^-12 to 2^8
    result, expected = whole.result(), alone.add(alone.accumulator(), ALL).result()
    assert result.statistics.n_units == (
        len(np.unique(rows.clusters)) if kind == "clusters" else (rows.weight > 0).sum()
    )
    close = {"rtol": 1e-3, "atol": 1e-4 * np.abs(expected.scores).max()}
    np.testing.assert_allclose(result.scores, expected.scores, **close)
    assert result.sum_of_weights == pytest.approx(rows.weight.sum(), rel=1e-15)


def test_both_passes_and_shares_with_weights_of_many_scales():
    rows = copy.copy(rows_of("logistic")[0])
    rows.weight = np.exp2(np.random.default_rng(0).uniform(-30, 30, N))
    given = {"objective": rows.objective, "sample_weight": rows.weight, "base_margin": rows.base, "n_jobs": 1}
    imp = ti.importance(rows.e, rows.X, rows.y, **given)
    second = rows.add(rows.accumulator(), ALL).second_pass()
    for some in np.array_split(ALL, 3):
        rows.add(second, some)
    result = second.result()
    assert np.array_equal(result.scores, imp.scores)
    assert np.array_equal(result.p_values, imp.p_values)


# -- a state that travels ----------------------------------------------------------------------------------------
@functools.cache
def tables():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = X[:, 0] + rng.normal(size=90)
    return xgb.train({"max_depth": 2, "nthread": 1}, xgb.DMatrix(X, y), 4), X, y


def accumulator(**options):
    return ti.ImportanceAccumulator(tables()[0], method="predecomp", n_jobs=1, **options)


def part(k, n=3, **given):
    _, X, y = tables()
    return accumulator().update(X[k::n], y[k::n], **given)


def test_rows_and_batches_are_counted():
    _, X, y = tables()
    acc = accumulator()
    assert (acc.n_rows, acc.n_batches) == (0, 0)
    acc.update(X[:10], y[:10]).update(X[:0], y[:0]).update(X[10:], y[10:])
    for same in (acc, pickle.loads(pickle.dumps(acc)), accumulator().from_bytes(acc.to_bytes()), copy.copy(acc)):
        assert (same.n_rows, same.n_batches) == (90, 2)
    assert (acc + part(0)).n_batches == 3


def test_bytes_add_up_without_a_model():
    whole = accumulator().update(*tables()[1:])
    parts = [part(k).to_bytes() for k in range(3)]
    merged = ti.ImportanceAccumulator.merge_bytes(iter(parts))
    assert merged == ti.ImportanceAccumulator.merge_bytes(parts[::-1]) == sum(part(k) for k in range(3)).to_bytes()
    same_bits(accumulator().from_bytes(merged), whole)
    assert ti.ImportanceAccumulator.merge_bytes([parts[0], accumulator().to_bytes()]) == parts[0]
    other = ti.ImportanceAccumulator(tables()[0], method="saabas").update(*tables()[1:]).to_bytes()
    with pytest.raises(ModelError, match="Part 1 belongs to another model or other settings"):
        ti.ImportanceAccumulator.merge_bytes([parts[0], other])
    with pytest.raises(DataError, match="nothing to merge"):
        ti.ImportanceAccumulator.merge_bytes([])
    for damaged in (parts[0][:-40], b"", b"PK"):
        with pytest.raises(ModelError):
            ti.ImportanceAccumulator.merge_bytes([damaged])


def test_a_batch_with_an_id_counts_once():
    _, X, y = tables()
    acc = accumulator().update(X[:20], y[:20], batch_id="a.parquet").update(X[20:40], y[20:40], batch_id=7)
    before = acc.to_bytes()
    again = {"match": r"Batch 'a.parquet' was added already"}
    twin = accumulator().update(X[:20], y[:20], batch_id="a.parquet")
    for work in (
        lambda: acc.update(X[:5], y[:5], batch_id="a.parquet"),
        lambda: acc + twin,
        lambda: sum([twin, twin]),
        lambda: ti.ImportanceAccumulator.merge_bytes([before, twin.to_bytes()]),
        lambda: accumulator().from_bytes(before).update(X[:5], y[:5], batch_id="a.parquet"),
        lambda: pickle.loads(pickle.dumps(acc)).update(X[:5], y[:5], batch_id="a.parquet"),
    ):
        with pytest.raises(DataError, **again):
            work()
    assert acc.to_bytes() == before
    acc.update(X[40:], y[40:]).update(X[40:], y[40:])  # without ids nothing is known
    assert sums_of(acc) == sums_of(accumulator().from_bytes(acc.to_bytes()))
    with pytest.raises(DataError, match=r"batch_id=1\.5: expected a text or an integer"):
        acc.update(X, y, batch_id=1.5)


def test_columns_keep_their_order_everywhere():
    _, X, y = tables()
    frame = pd.DataFrame(X, columns=list("abc"))
    acc, other = accumulator().update(frame, y), accumulator().update(frame[list("bac")], y)
    moved = {"match": r"X has the columns .*'b', 'a', 'c'.*but .*'a', 'b', 'c'.* in other batches"}
    for work in (
        lambda: acc.update(frame[list("bac")], y),
        lambda: acc + other,
        lambda: accumulator().from_bytes(acc.to_bytes()) + other,
        lambda: ti.ImportanceAccumulator.merge_bytes([acc.to_bytes(), other.to_bytes()]),
        lambda: pickle.loads(pickle.dumps(acc)).update(frame[list("bac")], y),
    ):
        with pytest.raises(DataError, **moved):
            work()


def test_labels_of_clusters_are_of_one_type():
    _, X, y = tables()
    label = np.arange(90) % 9

    def clustered(labels):
        return accumulator(clustered=True).update(X, y, clusters=labels)

    number, text, truth = clustered(label), clustered(label.astype(str)), clustered(label > 4)
    for a, b in ((number, text), (truth, number), (text, truth)):
        for work in (lambda a=a, b=b: a + b, lambda a=a, b=b: type(a).merge_bytes([a.to_bytes(), b.to_bytes()])):
            with pytest.raises(DataError, match="Clusters are labelled by"):
                work()
    assert (number + clustered(label.astype(float))).result().statistics.n_units == 9
    assert (number + clustered(label.astype(object))).result().statistics.n_units == 9
    with pytest.raises(DataError, match="clusters holds numbers and text"):
        clustered(np.array([1, "1"] * 45, object))
    assert clustered(label.astype("S")).result().statistics.n_units == 9


def test_queries_come_whole():
    rng = np.random.default_rng(0)
    X, y, query = rng.normal(size=(60, 3)), rng.integers(0, 3, 60), np.repeat(np.arange(6), 10)
    model = xgb.train({"objective": "rank:ndcg", "nthread": 1, "max_depth": 2}, xgb.DMatrix(X, y, qid=query), 3)

    def of(rows, labels=query):
        return ti.ImportanceAccumulator(model).update(X[rows], y[rows], qid=labels[rows])

    first, second, torn = of(slice(30)), of(slice(30, 60)), of(slice(25, 60))
    assert (first + second).n_rows == 60
    for work in (lambda: first + torn, lambda: type(first).merge_bytes([first.to_bytes(), torn.to_bytes()])):
        with pytest.raises(DataError, match="Query 2 is in two batches"):
            work()
    with pytest.raises(DataError, match="Queries are labelled by"):
        first + of(slice(25, 60), query.astype(str))


def test_the_order_of_groups_and_of_their_members_is_no_part_of_the_fingerprint():
    a = accumulator(feature_groups={"one": [0, 1], "two": [2]}).update(*tables()[1:])
    b = accumulator(feature_groups={"two": [2], "one": [1, 0]}).update(*tables()[1:])
    assert a.to_bytes() == b.to_bytes()
    assert np.array_equal((a + b).result().scores, a.result().scores)


def attribution(tree, rows):
    return np.ones((len(rows), 3))


def test_functions_are_told_apart_by_name_and_code_or_by_what_the_user_calls_them():
    def method(function):
        return ti.ImportanceAccumulator(tables()[0], method=function)

    named = method(attribution)
    assert pickle.loads(pickle.dumps(named)).fingerprint() == named.fingerprint()
    for unnamed in (lambda tree, rows: None, functools.partial(attribution), method):
        with pytest.raises(ModelError, match=r"give it a name: method\.fingerprint = "):
            method(unnamed).fingerprint()
    one, two = (functools.partial(attribution) for _ in range(2))
    one.fingerprint, two.fingerprint = "ones, version 1", "ones, version 2"
    with pytest.raises(ModelError, match="different models or settings"):
        method(one) + method(two)
    two.fingerprint = "ones, version 1"
    assert (method(one) + method(two)).n_rows == 0
    _, X, y = tables()
    assert ti.importance(tables()[0], X, y, method=functools.partial(attribution)).n_rows == 90


# -- the format --------------------------------------------------------------------------------------------------
def golden_rows():
    """A model and rows that depend on no library: sums of every kind, two scales of weights, clusters."""
    rows = Rows("clusters")
    rows.weight = np.ldexp(rows.weight, np.where(ALL % 3 == 0, 40, 0))
    return rows


def golden():
    rows = golden_rows()
    rows.options = rows.options | {"method": "predecomp"}
    first, second = (rows.add(rows.accumulator(), some) for some in (ALL[:70], ALL[70:]))
    first.update(rows.X[:0], rows.y[:0], clusters=ALL[:0], batch_id="empty")
    return rows, first + second


def test_files_of_this_version_are_read():
    rows, fresh = golden()
    stored = rows.accumulator().from_bytes(GOLDEN.read_bytes())
    assert (stored.n_rows, stored.n_batches) == (N, 2)
    for found in (stored, stored + fresh):  # numpy's exp and log may differ in their last bits between processors
        np.testing.assert_allclose(found.result().scores, fresh.result().scores, rtol=1e-9)


def test_a_file_that_is_well_formed_but_not_ours_is_refused():
    acc = part(0)
    state = copy.deepcopy(acc)
    scale = state._held.by_scale[0]
    scale.shares.limbs, scale.shares.counts = scale.shares.limbs[:, :2], scale.shares.counts[:2]
    with pytest.raises(ModelError, match="other columns, leaves or rounds"):
        accumulator().from_bytes(state.to_bytes())
    with pytest.raises(ModelError, match="other columns, leaves or rounds"):
        ti.ImportanceAccumulator.merge_bytes([acc.to_bytes(), state.to_bytes()])
    state = copy.deepcopy(acc)
    state._held = replace(state._held, names=3)
    with pytest.raises(ModelError, match="damaged"):
        accumulator().from_bytes(state.to_bytes())
