"""The second pass of a centred score: the same rows again, in any batches, give the errors of its own."""

import copy
import functools
import pickle
import warnings

import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

import treeinner as ti
from treeinner.compiled.forest import INSTRUCTION_SETS, instruction_set, use_instruction_set
from treeinner.errors import DataError, ModelError

from .test_accumulator import N, Rows, same_numbers

TWO_PASSES = [
    "squared error", "logistic", "twelve classes", "poisson in a group", "vector leaves", "clusters", "loss",
    "loss of three classes", "loss outside the core",
]  # fmt: skip
ALL = np.arange(N)


@pytest.fixture(autouse=True)
def _same_instructions_after():
    before = instruction_set()
    yield
    use_instruction_set(before)


@functools.cache
def passes(kind):
    """Rows, their first pass, and what importance() makes of them."""
    rows = Rows(kind)
    options = {k: v for k, v in rows.options.items() if k != "clustered"}
    imp = ti.importance(
        rows.e, rows.X, rows.y, objective=rows.objective, sample_weight=rows.weight, base_margin=rows.base,
        clusters=rows.clusters, n_jobs=1, **options,
    )  # fmt: skip
    return rows, rows.add(rows.accumulator(), ALL), imp


@pytest.mark.parametrize("kind", TWO_PASSES)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_any_batches_in_any_order_merged_in_any_tree_give_the_bits_of_importance(kind, data):
    rows, _, imp = passes(kind)
    errors = rows.clusters is not None or data.draw(st.booleans())  # of the first pass: they change nothing
    first = rows.accumulator(std_errors=errors, n_jobs=data.draw(st.sampled_from([1, 3])))
    for batch in np.array_split(ALL, data.draw(st.integers(1, 4))):
        rows.add(first, batch)
    order = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))).permutation(N)
    parts = [first.second_pass() for _ in range(data.draw(st.integers(1, 3)))]
    for batch in np.split(order, sorted(data.draw(st.lists(st.integers(0, N), max_size=5)))):
        rows.add(parts[data.draw(st.integers(0, len(parts) - 1))], batch)
    while len(parts) > 1:
        merged = parts.pop() + parts.pop()
        moves = (
            copy.copy,
            lambda a: pickle.loads(pickle.dumps(a)),
            lambda a: first.second_pass().from_bytes(a.to_bytes()),
        )
        parts.append(data.draw(st.sampled_from(moves))(merged))
    same_numbers(parts[0].result(), imp)


@pytest.mark.parametrize("level", INSTRUCTION_SETS)
@pytest.mark.parametrize("kind", TWO_PASSES)
def test_every_instruction_set_gives_the_same_bits(kind, level):
    _, _, imp = passes(kind)
    use_instruction_set(level)
    fresh = Rows(kind)  # compiled for this instruction set
    second = fresh.add(fresh.accumulator(), ALL).second_pass()
    for i in range(0, N, 40):
        fresh.add(second, ALL[i : i + 40])
    same_numbers(second.result(), imp)


@pytest.mark.parametrize("kind", TWO_PASSES)
def test_one_pass_has_the_score_and_says_what_its_errors_are(kind):
    _, first, imp = passes(kind)
    with pytest.warns(ti.TreeInnerWarning, match=r"a single pass over the rows, and conservative.*acc\.second_pass"):
        one = first.result()
    assert any("single pass" in note for note in one.notes)
    assert not any("single pass" in note for note in imp.notes)
    assert np.array_equal(one.scores, imp.scores)
    assert np.array_equal(one.by_round(), imp.by_round())
    used = imp.std_errors > 0
    assert np.all(one.std_errors[used] > 0)
    assert not np.array_equal(one.std_errors, imp.std_errors)


def test_scores_alone_need_no_second_pass_and_no_warning():
    rows, _, imp = passes("logistic")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ti.TreeInnerWarning)
        alone = rows.add(rows.accumulator(std_errors=False, score="loss"), ALL).result()
    assert alone.notes == ()
    scores = rows.add(rows.accumulator(std_errors=False), ALL)
    assert np.array_equal(scores.result().scores, imp.scores)


def test_errors_of_one_pass_are_conservative_where_the_model_overfits():
    """Node values of the training rows are further apart than those of new rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 8)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=2000)
    model = xgb.train({"max_depth": 5, "eta": 0.3, "nthread": 1}, xgb.DMatrix(X[:1000], y[:1000]), 40)
    first = ti.ImportanceAccumulator(model).update(X[1000:], y[1000:])
    exact = ti.importance(model, X[1000:], y[1000:])
    noise = np.arange(8) > 0
    assert np.all(first.result().std_errors[noise] > exact.std_errors[noise])


def refused(second):
    with pytest.raises(DataError, match="The second pass saw other rows than the first"):
        second.result()


@pytest.mark.parametrize("kind", ["squared error", "twelve classes", "loss", "clusters"])
def test_other_rows_are_refused(kind):
    rows, first, _ = passes(kind)
    refused(rows.add(first.second_pass(), ALL[:-1]))
    refused(rows.add(rows.add(first.second_pass(), ALL), ALL))
    refused(rows.add(first.second_pass(), np.r_[ALL[:-1], 0]))
    for field in ("X", "y", "weight", "base"):
        other = copy.copy(rows)
        setattr(other, field, getattr(rows, field)[np.random.default_rng(0).permutation(N)])
        refused(other.add(first.second_pass(), ALL))


def test_no_rows_in_the_second_pass_are_none():
    _, first, _ = passes("logistic")
    with pytest.raises(DataError, match="no rows"):
        first.second_pass().result()


def test_second_passes_of_different_rows_do_not_add_up():
    rows, first, _ = passes("logistic")
    other = rows.add(rows.accumulator(), ALL[:100])
    a, b = rows.add(first.second_pass(), ALL[:50]), rows.add(other.second_pass(), ALL[50:])
    with pytest.raises(ModelError, match="different models or settings"):
        a.merge(b)
    with pytest.raises(ModelError, match="different models or settings"):
        a.merge(first)
    with pytest.raises(ModelError, match="another model or other settings"):
        first.from_bytes(a.to_bytes())
    with pytest.raises(ModelError, match="another model or other settings"):
        other.second_pass().from_bytes(a.to_bytes())


def test_a_first_pass_that_goes_on_leaves_its_second_pass_alone():
    rows, _, imp = passes("logistic")
    first = rows.add(rows.accumulator(), ALL)
    second = first.second_pass()
    rows.add(first, ALL[:30])
    same_numbers(rows.add(second, ALL).result(), imp)
    assert first.result().n_rows == N + 30
    assert second.result().n_rows == N


def test_who_has_no_second_pass():
    rows, first, _ = passes("logistic")
    with pytest.raises(ValueError, match=r"This is the second pass; its result\(\) has everything"):
        rows.add(first.second_pass(), ALL).second_pass()
    for options in ({"method": "predecomp"}, {"method": "treeshap"}, {"score": "forest_inner"}):
        with pytest.raises(ValueError, match="A second pass belongs to method='centred'"):
            rows.add(rows.accumulator(**options), ALL).second_pass()


def test_queries_may_be_streamed_twice():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4)).astype(np.float32)
    qid, y = np.repeat(np.arange(12), 10), rng.integers(0, 3, 120)
    params = {"objective": "rank:ndcg", "nthread": 1, "max_depth": 2, "lambdarank_pair_method": "topk"}
    model = xgb.train(params, xgb.DMatrix(X, y, qid=qid), 5)
    whole = ti.importance(model, X, y, qid=qid)

    def stream(accumulator):
        for rows in (slice(60, 120), slice(0, 60)):
            accumulator.update(X[rows], y[rows], qid=qid[rows])
        return accumulator

    streamed = stream(stream(ti.ImportanceAccumulator(model, std_errors=False)).second_pass())
    # Sums over a query are taken in numpy's order, which may depend on the rows around it.
    np.testing.assert_allclose(streamed.result().std_errors, whole.std_errors, rtol=1e-10)
