"""Sums over rows: any batches, order, threads and instruction sets give the same bits; nothing else is added up."""

import copy
import functools
import pickle
from dataclasses import replace

import catboost
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

import treeinner as ti
from tests.cases import loss_named, same_bits
from tests.forests import Recipe, make_model, make_rows, make_trees
from tests.models import Models
from treeinner import _core
from treeinner.read.trees import NodeValues
from treeinner.score.sums import Sums

N = 150  # more than two blocks of 64
ALL = np.arange(N)
TREE_INNER = {"score": "tree_inner"}
# name -> (recipe, objective, options)
KINDS = {
    "signal": (Recipe(n_trees=5), "squared_error", {}),
    "signal with kinks": (Recipe(n_trees=5), "absolute_error", {}),
    "signal in a group": (Recipe(n_trees=5), "poisson", {"feature_groups": {"pair": [1, 3]}}),
    "signal in clusters": (Recipe(n_trees=6, n_outputs=3), "softmax", {"clustered": True}),
    "squared error": (Recipe(n_trees=5), "squared_error", TREE_INNER),
    "predecomp": (Recipe(n_trees=5), "squared_error", TREE_INNER | {"method": "predecomp"}),
    "loss": (Recipe(n_trees=5), "logistic", {"score": "loss"}),
    "loss of three classes": (Recipe(n_trees=9, depth=3, n_outputs=3), "softmax", {"score": "loss"}),
    "loss outside the core": (Recipe(n_trees=5), "reg:pseudohubererror", {"score": "loss"}),
    "loss by treeshap": (Recipe(n_trees=4), "logistic", {"score": "loss", "method": "treeshap"}),
    # Twelve outputs: from nine on numpy adds a row's outputs in another order if the row stands alone.
    "twelve classes": (Recipe(n_trees=24, depth=3, n_outputs=12), "softmax", TREE_INNER),
    "twelve classes by treeshap": (
        Recipe(n_trees=12, depth=3, n_outputs=12), "softmax", TREE_INNER | {"method": "treeshap"},
    ),
    "vector leaves": (Recipe(n_trees=4, n_outputs=3, vector=True), "softmax", {}),
    "clusters": (Recipe(n_trees=6, n_outputs=3), "softmax", TREE_INNER | {"clustered": True}),
    "clusters by saabas": (Recipe(n_trees=6), "logistic", TREE_INNER | {"clustered": True, "method": "saabas"}),
}  # fmt: skip


class Batches:
    """A model and rows, which come in batches or at once."""

    def __init__(self, kind):
        recipe, objective, self.options = KINDS[kind]
        trees = make_trees(recipe, 1)
        self.model = make_model(trees, loss_named(objective, trees.n_outputs))
        self.X = make_rows(trees, N, 2)
        rng = np.random.default_rng(3)
        real = objective in ("squared_error", "absolute_error", "reg:pseudohubererror")
        self.y = rng.normal(size=N) if real else rng.integers(0, max(2, trees.n_outputs), N)
        self.given = {
            "sample_weight": rng.choice([0.0, 0.3, 1.0, 7.0], N),
            "base_margin": rng.normal(size=(N, trees.n_outputs)),
        }
        if "clustered" in self.options:
            self.given["clusters"] = rng.integers(0, 9, N)

    def accumulator(self, **other):
        """One without rows."""
        return ti.ImportanceAccumulator(self.model, **{"n_jobs": 1, "largest_weight": 7.0, **self.options, **other})

    def add(self, accumulator, rows, **more):
        """Add some of the rows."""
        given = {name: values[rows] for name, values in self.given.items()}
        return accumulator.update(self.X[rows], self.y[rows], **given, **more)

    def scored(self, accumulators):
        """Result of accumulators that have all rows together, with a second pass where there is one."""
        found = sum(accumulators)
        if self.options.get("method", "centred") != "centred":
            return found.result()
        second = [found.second_pass() for _ in range(3)]
        for number, part in enumerate(second):
            self.add(part, ALL[number::3])
        return sum(pickle.loads(pickle.dumps(second))).result()

    def whole(self, **more):
        """What importance() makes of all rows."""
        options = {name: value for name, value in self.options.items() if name != "clustered"}
        return ti.importance(self.model, self.X, self.y, **self.given, **options, **more)


@functools.cache
def batches_of(kind):
    """Rows, and what importance() makes of them."""
    rows = Batches(kind)
    return rows, rows.whole(n_jobs=1)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_any_batches_in_any_order_added_in_any_tree_give_the_bits_of_importance(kind, data):
    rows, whole = batches_of(kind)
    order = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))).permutation(N)
    parts = [rows.accumulator(n_jobs=data.draw(st.sampled_from([1, 3]))) for _ in range(data.draw(st.integers(1, 4)))]
    cuts = sorted(data.draw(st.sets(st.integers(1, N - 1), max_size=6)))
    for batch in np.split(order, cuts):
        rows.add(parts[data.draw(st.integers(0, len(parts) - 1))], batch)
    while len(parts) > 1 and data.draw(st.booleans()):
        merged = parts.pop() + parts.pop()
        parts.insert(0, data.draw(st.sampled_from([copy.copy, copy.deepcopy]))(merged))
    same_bits(rows.scored(parts), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_at_a_time_gives_the_same_bits(kind):
    rows, whole = batches_of(kind)
    single = rows.accumulator()
    for i in reversed(ALL):
        rows.add(single, ALL[i : i + 1])
    same_bits(rows.scored([single]), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_instruction_sets_give_the_same_bits(kind):
    whole, before = batches_of(kind)[1], _core.instruction_set()
    try:
        for name in _core.instruction_sets():
            _core.use_instruction_set(name)
            same_bits(Batches(kind).whole(n_jobs=2), whole)  # compiled anew for these instructions
    finally:
        _core.use_instruction_set(before)


@pytest.mark.parametrize("score", ["signal", "tree_inner", "loss"])
def test_many_tasks_over_many_threads_give_the_same_bits_and_tell_their_progress(score, monkeypatch):
    trees = make_trees(Recipe(n_trees=6, n_outputs=2), 1)
    model, X = make_model(trees, loss_named("softmax", 2)), np.random.default_rng(0).normal(size=(20_000, 5))
    for method in ("centred", "predecomp", "treeshap")[: 1 if score == "signal" else 3]:
        done = []
        runs = [
            ti.importance(model, X, (X[:, 0] > 0).astype(int), score=score, method=method, n_jobs=n,
                          progress=lambda *a, done=done: done.append(a))
            for n in (1, 2, 5, None)
        ]  # fmt: skip
        for run in runs[1:]:
            same_bits(run, runs[0])
        assert done[-1] == (20_000, 20_000)
        assert len(done) > 4 * 4
        with monkeypatch.context() as changed:  # as after very many rows: carried into limbs after every task
            changed.setattr("treeinner.score.sums.ROOM", 1)
            changed.setattr("treeinner.score.sums.MOST_AT_ONCE", 500)
            changed.setattr("treeinner.score.passes.MOST_AT_ONCE", 500)
            same_bits(ti.importance(model, X, (X[:, 0] > 0).astype(int), score=score, method=method), runs[0])


# -- one pass, two passes --------------------------------------------------------------------------------------------
def test_one_pass_has_the_scores_and_says_what_the_errors_need():
    rows, whole = batches_of("squared error")
    one = rows.add(rows.accumulator(), ALL).result()
    np.testing.assert_array_equal(one.scores, whole.scores)
    np.testing.assert_array_equal(one.by_round(), whole.by_round())
    assert np.isnan(one.std_errors).all()
    assert "one_pass" in [note.code for note in one.notes]


@pytest.mark.parametrize("kind", ["signal", "squared error", "twelve classes", "loss", "clusters"])
def test_a_second_pass_over_other_rows_is_refused(kind):
    rows, _ = batches_of(kind)
    first = rows.add(rows.accumulator(), ALL)
    changed = [np.r_[ALL[:-1], 0], ALL[:-1]]
    seconds = [rows.add(first.second_pass(), which) for which in changed]
    seconds.append(rows.add(rows.add(first.second_pass(), ALL), ALL))
    for field in ("X", "y"):
        other = copy.copy(rows)
        setattr(other, field, getattr(rows, field)[np.random.default_rng(0).permutation(N)])
        seconds.append(other.add(first.second_pass(), ALL))
    for second in seconds:
        with pytest.raises(ti.DataError, match="other rows"):
            second.result()
    with pytest.raises(ti.DataError, match="no rows"):
        first.second_pass().result()
    for call in (rows.add(first.second_pass(), ALL).second_pass, batches_of("predecomp")[0].accumulator().second_pass):
        with pytest.raises(ValueError, match="second pass"):
            call()


def test_a_first_pass_that_goes_on_leaves_its_second_pass_alone():
    rows, whole = batches_of("squared error")
    first = rows.add(rows.accumulator(), ALL)
    second = first.second_pass()
    rows.add(first, ALL[:30])
    same_bits(rows.add(second, ALL).result(), whole)
    assert (first.n_rows, second.n_rows) == (N + 30, N)
    same_bits((rows.accumulator() + second).result(), whole)  # one without rows changes nothing


# -- what adds up ----------------------------------------------------------------------------------------------------
def test_adding_changes_neither_operand_and_nothing_counts_twice():
    rows, _ = batches_of("clusters by saabas")
    a, b = rows.add(rows.accumulator(), ALL[:70]), rows.add(rows.accumulator(), ALL[70:])
    before = a.result(), b.result()
    rows.add(a + b, ALL[:5])
    rows.add(sum([a]), ALL[:5])
    same_bits(a.result(), before[0])
    same_bits((b + rows.accumulator()).result(), before[1])
    same_bits((rows.accumulator() + b).result(), before[1])
    with pytest.raises(ti.DataError, match="twice"):
        a + a
    for other in (1, None, [a]):
        with pytest.raises(TypeError, match="unsupported operand"):
            a + other


def test_a_batch_with_an_id_counts_once():
    rows, whole = batches_of("predecomp")
    acc = rows.add(rows.accumulator(), ALL[:70], batch_id="a.parquet")
    state = acc.result()
    with pytest.raises(ti.DataError, match=r"a\.parquet"):
        rows.add(acc, ALL[:70], batch_id="a.parquet")
    same_bits(acc.result(), state)  # what is refused changes nothing
    other = rows.add(rows.accumulator(), ALL[:70], batch_id="a.parquet")
    with pytest.raises(ti.DataError, match=r"a\.parquet"):
        acc + other
    with pytest.raises(ti.DataError, match=r"a\.parquet"):
        acc + copy.copy(acc)
    same_bits(rows.add(acc, ALL[70:], batch_id="b.parquet").result(), whole)


def test_other_models_losses_and_settings_do_not_add_up():
    rows, _ = batches_of("loss")
    trees = rows.model.trees
    doubled = replace(trees, value=2 * trees.value, node_values=NodeValues(None, trees.known.rate))
    own = rows.add(rows.accumulator(), ALL)
    strangers = [
        rows.accumulator(score="tree_inner"),
        rows.accumulator(method="saabas"),
        rows.accumulator(feature_groups={"pair": [0, 1]}),
        own.second_pass(),
    ]
    for model in (doubled, trees.rounds(0, 4)):
        stranger = ti.ImportanceAccumulator(make_model(model, loss_named("logistic")), score="loss", largest_weight=7.0)
        strangers.append(stranger)
    for stranger in strangers:
        with pytest.raises(ti.ModelError, match="different"):
            own + rows.add(stranger, ALL)
    y = np.random.default_rng(0).normal(size=N)
    for pair in (("quantile:alpha=0.1", "quantile:alpha=0.9"), ("squared_error", "absolute_error")):
        a, b = (ti.ImportanceAccumulator(make_model(trees, loss_named(name))).update(rows.X, y) for name in pair)
        with pytest.raises(ti.ModelError, match="different"):
            a + b


def test_weights_of_batches_share_a_unit_or_are_refused():
    rows, whole = batches_of("predecomp")
    free = rows.accumulator(largest_weight=None)
    small = rows.given["sample_weight"] < 2
    rows.add(free, ALL[small])
    with pytest.raises(ti.DataError, match="largest_weight"):
        rows.add(free, ALL[~small])
    with pytest.raises(ti.DataError, match="largest_weight"):
        rows.add(rows.accumulator(largest_weight=2.0), ALL)
    larger = rows.add(rows.add(rows.accumulator(largest_weight=7.5), ALL[small]), ALL[~small])
    same_bits(larger.result(), whole)  # the same power of two
    dead = rows.accumulator().update(rows.X, rows.y, sample_weight=np.zeros(N))
    with pytest.raises(ti.DataError, match="zero in every row"):
        dead.result()


def test_clusters_are_announced_and_their_labels_are_of_one_type():
    rows, whole = batches_of("clusters by saabas")
    for clustered, clusters in ((True, None), (False, np.zeros(N))):
        with pytest.raises(ti.DataError, match="clustered=True"):
            rows.accumulator(clustered=clustered).update(rows.X, rows.y, clusters=clusters)
    labels = rows.given["clusters"]

    def scored(*parts):
        acc = rows.accumulator()
        for which, clusters in zip((ALL[:70], ALL[70:]), parts, strict=True):
            given = {name: values[which] for name, values in rows.given.items()} | {"clusters": clusters[which]}
            acc.update(rows.X[which], rows.y[which], **given)
        return acc.result()

    for other in (labels.astype(float), labels.astype(np.uint8), pd.Series(labels, dtype="Int64").to_numpy()):
        same_bits(scored(labels, other), whole)  # numbers are numbers
    with pytest.raises(ti.DataError, match="type"):
        scored(labels, labels.astype(str))


def test_columns_and_targets_keep_their_names_over_batches():
    trees = make_trees(Recipe(n_columns=4), 0)
    model, X = make_model(trees, loss_named("squared_error")), np.random.default_rng(0).normal(size=(40, 4))
    frame, y = pd.DataFrame(X, columns=list("abcd")), X.sum(axis=1)

    def make(*parts):
        acc = ti.ImportanceAccumulator(model, score="tree_inner", feature_groups={"ends": ["a", "d"]})
        for part in parts:
            acc.update(frame[part], y[part])
        return acc

    whole = make(slice(0, 20), slice(20, 40)).result()
    assert whole.feature_names == ("ends", "b", "c")
    assert isinstance(whole.to_frame(), pd.DataFrame)
    same_bits((make() + make(slice(0, 20)) + make(slice(20, 40))).result(), whole)
    with pytest.raises(ti.DataError, match="columns"):
        make(slice(0, 20)).update(frame[20:][list("bacd")], y[20:])
    acc = make()
    with pytest.raises(ti.DataError, match="rows"):
        acc.update(frame.set_axis(list("dcba"), axis=1), y[:-1])
    assert acc.update(frame, y).result().feature_names == ("ends", "b", "c")  # a refused batch leaves no names


def test_sums_of_any_number_of_rows_do_not_wrap():
    rows, _ = batches_of("predecomp")
    acc = rows.add(rows.accumulator(), ALL)
    expected = acc.result()
    for _ in range(38):  # 4e13 rows
        acc = acc + copy.copy(acc)
        found = acc.result()
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-9)
    assert acc.n_rows == N * 2**38
    np.testing.assert_allclose(found.std_errors, expected.std_errors * 2.0**-19, rtol=0.01)  # n / (n - 1)


def test_shares_out_of_all_proportion_are_refused_and_change_nothing():
    rows, _ = batches_of("squared error")
    acc = rows.add(rows.accumulator(), ALL)
    before = acc.result()
    for y in (1e13, 1e20, 1e300):
        with pytest.raises(ti.DataError, match="out of proportion"):
            acc.update(rows.X, np.full(N, y))
    same_bits(acc.result(), before)
    with pytest.raises(ti.DataError, match="not finite"):
        Sums.of_shares(np.full((3, 2), np.nan), None)


# -- models and their files ------------------------------------------------------------------------------------------
def rows_of(seed=1):
    """Rows with two signals."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4)).astype(np.float32)
    return X, 3 * X[:, 0] + X[:, 1] + rng.normal(size=N)


LIBRARIES = Models(
    xgboost=lambda: xgb.train({"max_depth": 3, "nthread": 1, "eta": 0.17}, xgb.DMatrix(*rows_of(0)), 8),
    lightgbm=lambda: lgb.train(
        {"num_leaves": 6, "num_threads": 1, "verbose": -1, "learning_rate": 0.17}, lgb.Dataset(*rows_of(0)), 8
    ),
    catboost=lambda: catboost.CatBoostRegressor(
        iterations=8, depth=3, thread_count=1, verbose=False, allow_writing_files=False
    ).fit(*rows_of(0)),
)


@pytest.mark.parametrize("method", ["predecomp", "saabas", "treeshap"])
@pytest.mark.parametrize(("library", "file"), [("xgboost", "m.json"), ("xgboost", "m.ubj"), ("lightgbm", "m.txt"),
                                               ("catboost", "m.cbm")])  # fmt: skip
def test_an_object_and_its_own_file_add_up(library, file, method, tmp_path):
    (X, y), model, asked = rows_of(), LIBRARIES[library], TREE_INNER | {"method": method}
    model.save_model(str(tmp_path / file))
    a = ti.ImportanceAccumulator(model, **asked).update(X[:100], y[:100])
    b = ti.ImportanceAccumulator(tmp_path / file, **asked).update(X[100:], y[100:])
    np.testing.assert_array_equal((a + b).result().scores, ti.importance(model, X, y, **asked).scores)


# -- sources ---------------------------------------------------------------------------------------------------------
def test_a_source_that_is_read_once_has_scores_and_a_note():
    (X, y), model = rows_of(), LIBRARIES["xgboost"]
    whole = ti.importance(model, X, y, **TREE_INNER)

    def batches():
        for part in np.array_split(np.arange(N), 4):
            yield X[part], y[part]

    with pytest.warns(ti.TreeInnerWarning, match="once"):
        once = ti.importance(model, batches(), **TREE_INNER)
    np.testing.assert_array_equal(once.scores, whole.scores)
    assert np.isnan(once.std_errors).all()
    assert "one_pass" in [note.code for note in once.notes]
    with pytest.raises(ti.DataError, match="twice"):
        ti.importance(model, batches())
    for asked in ({}, TREE_INNER):
        same_bits(ti.importance(model, batches, **asked), ti.importance(model, X, y, **asked))  # can be called again
    one_pass = ti.importance(model, batches(), method="saabas", **TREE_INNER)
    same_bits(one_pass, ti.importance(model, X, y, method="saabas", **TREE_INNER))


def test_files_give_the_bits_of_memory(tmp_path):
    (X, y), model = rows_of(), LIBRARIES["xgboost"]
    frame = pd.DataFrame(X, columns=["f0", "f1", "f2", "f3"]).assign(y=y, w=np.arange(N) % 4 + 0.5, c=np.arange(N) // 9)
    for number, part in enumerate(np.array_split(frame, 3)):
        pd.DataFrame(part, columns=frame.columns).to_parquet(tmp_path / f"{number}.parquet")
    given = {"sample_weight": "w", "clusters": "c"}
    whole = ti.importance(model, frame, "y", **given)
    same_bits(ti.importance(model, tmp_path, "y", **given), whole)
    same_bits(ti.importance(model, frame[["f0", "f1", "f2", "f3"]], y, sample_weight=frame.w, clusters=frame.c), whole)
