"""Node values are worked out at their first use, once, and kept: whatever is done with the Ensemble before."""

import pickle
import threading
from dataclasses import fields, replace

import numpy as np
import pytest

import treeinner as ti
from treeinner.ensemble import Ensemble, NodeValues

from . import forests

LATE = ("node_value", "tree_rate", "gain", "needs", "exactness")


class Lazy:
    """An Ensemble that leaves for later what it can, and the number of times it was asked for."""

    def __init__(self, **changes):
        self.whole = replace(forests.make_ensemble(forests.Recipe(n_trees=6, n_outputs=2), 1), **changes)
        self.calls = 0
        given = {f.name: getattr(self.whole, f.name) for f in fields(Ensemble) if f.name not in LATE}
        self.lazy = Ensemble(**given | {"params": {"version": [3, 2]}}, work_out=self.work_out)

    def work_out(self):
        self.calls += 1
        late = {name: getattr(self.whole, name) for name in LATE}
        return NodeValues(**late, params={"reg_lambda": 2.0})


def same(one, other):
    return all(np.array_equal(getattr(one, n), getattr(other, n), equal_nan=True) for n in LATE[:3]) and all(
        getattr(one, n) == getattr(other, n) for n in LATE[3:]
    )


def test_what_is_stored_does_not_ask_for_node_values():
    case = Lazy()
    e = case.lazy
    X = np.zeros((3, e.schema.n_columns))
    assert np.array_equal(e.predict(X), case.whole.predict(X))
    _ = e.apply(X), e.mean_value, repr(e), e.slice_rounds(0, 2).predict(X), e.objective_params
    assert e.params.get("version") == [3, 2]
    assert "boosting" not in e.params
    _ = ti.read_model(e, iteration_range=(0, 2)).predict(X)
    assert case.calls == 0


@pytest.mark.parametrize("name", [*LATE, "params"])
def test_they_are_worked_out_once_whatever_is_asked_for(name):
    case = Lazy()
    value = case.lazy.params["reg_lambda"] if name == "params" else getattr(case.lazy, name)
    assert case.calls == 1
    assert value is not None
    assert same(case.lazy, case.whole)
    assert dict(case.lazy.params) == {"version": [3, 2], "reg_lambda": 2.0}
    assert not case.lazy.node_value.flags.writeable
    assert case.calls == 1


def test_threads_that_ask_together_get_the_same():
    case, found = Lazy(), []
    barrier = threading.Barrier(8)

    def ask():
        barrier.wait()
        found.append(case.lazy.node_value)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert case.calls == 1
    assert all(value is found[0] for value in found)


@pytest.mark.parametrize("early", [False, True], ids=["lazy", "known"])
def test_slices_are_the_slices_of_the_whole(early):
    case = Lazy()
    if early:
        _ = case.lazy.node_value
    part = case.lazy.slice_rounds(1, 3)
    assert case.calls == early
    assert same(part, case.whole.slice_rounds(1, 3))
    assert part.params["reg_lambda"] == 2.0
    assert part.params["version"] == [3, 2]
    assert case.calls == 1


def test_what_only_the_trees_cut_off_needed_is_needed_no_more():
    whole = Lazy().whole
    unknown = np.where((whole.tree_of_node < 2)[:, None] & (whole.feature >= 0)[:, None], np.nan, whole.node_value)
    case = Lazy(node_value=unknown, needs=("learning_rate",))
    assert case.lazy.slice_rounds(1, 3).needs == ()
    assert case.lazy.slice_rounds(0, 2).needs == ("learning_rate",)


def test_copies_hold_them(tmp_path):
    for copied in (lambda e: pickle.loads(pickle.dumps(e)), lambda e: replace(e, objective="other"), None):
        case = Lazy()
        if copied is None:
            case.lazy.save(tmp_path / "saved.ti")
            copy = Ensemble.load(tmp_path / "saved.ti")
        else:
            copy = copied(case.lazy)
        assert same(copy, case.whole)
        assert dict(copy.params) == {"version": [3, 2], "reg_lambda": 2.0}


def test_malformed_ones_are_an_error_when_they_come():
    case = Lazy()
    case.whole = replace(case.whole)
    object.__setattr__(case.whole, "node_value", case.whole.node_value[:-1])
    with pytest.raises(ti.ModelError, match="value and node_value differ in shape"):
        _ = case.lazy.node_value
    with pytest.raises(ti.ModelError, match="value and node_value differ in shape"):
        _ = case.lazy.exactness
