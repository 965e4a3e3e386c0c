"""Training rows are recognised by the thresholds, new rows never are, and where nothing can be told it is said."""

import catboost
import lightgbm as lgb
import numpy as np
import pytest
import scipy.sparse as sp
import xgboost as xgb
from sklearn import ensemble as ske

import treeinner as ti
from treeinner.rows import read_rows
from treeinner.score.training_rows import training_rows_note

CATBOOST = {"iterations": 40, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
ESTIMATORS = {
    "xgboost": lambda: xgb.XGBRegressor(n_estimators=40, n_jobs=1),
    "exact": lambda: xgb.XGBRegressor(n_estimators=40, tree_method="exact", n_jobs=1),
    "sampled": lambda: xgb.XGBRegressor(n_estimators=40, subsample=0.5, n_jobs=1),
    "lightgbm": lambda: lgb.LGBMRegressor(n_estimators=40, n_jobs=1, verbose=-1),
    "catboost": lambda: catboost.CatBoostRegressor(**CATBOOST),
    "lossguide": lambda: catboost.CatBoostRegressor(grow_policy="Lossguide", **CATBOOST),
    "hist": lambda: ske.HistGradientBoostingRegressor(max_iter=40),
    "boosting": lambda: ske.GradientBoostingRegressor(n_estimators=40),
    "forest": lambda: ske.RandomForestRegressor(40, random_state=0),
    "small samples": lambda: ske.RandomForestRegressor(40, max_samples=0.3, random_state=0),
}
KINDS = {
    "normal": lambda rng, n: rng.normal(size=(n, 5)),
    "skewed": lambda rng, n: np.exp(2 * rng.normal(size=(n, 5))),
    "zeros": lambda rng, n: np.where(rng.random((n, 5)) < 0.5, 0.0, rng.normal(size=(n, 5))),
    "integers": lambda rng, n: rng.integers(0, 40, (n, 5)).astype(float),
    "rounded": lambda rng, n: rng.normal(size=(n, 5)).round(1),
    "mixed": lambda rng, n: np.column_stack([rng.integers(0, 9, (n, 2)), rng.normal(size=(n, 3)).round(2)]),
}


def code(model, X):
    model = ti.read_model(model)
    note = training_rows_note(model, read_rows(model, X, np.zeros(X.shape[0])))
    assert note is None or len(note.text) <= 200
    return None if note is None else note.code


def fitted(name, kind, n, seed=0):
    """A model, its training rows and new rows."""
    rng = np.random.default_rng([n, seed])
    X, new = KINDS[kind](rng, n), KINDS[kind](rng, n)
    y = X[:, 0] + np.sin(X[:, 1]) * X[:, 2] + X[:, 3] + 0.3 * rng.normal(size=n)
    return ESTIMATORS[name]().fit(X, (y - y.mean()) / y.std()), X, new


@pytest.mark.parametrize("n", [300, 2000])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_training_rows_and_half_of_them_are_recognised(name, n):
    model, X, new = fitted(name, "normal", n)
    half = np.random.default_rng(0).random(n) < 0.5
    assert (code(model, X), code(model, X[half])) == ("training_rows", "training_rows")
    assert code(model, np.concatenate([X[half], new[half]])) in ("training_rows", None)
    assert code(model, new) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_new_rows_are_never_taken_for_training_rows(name, kind):
    for seed in range(3):
        model, X, new = fitted(name, kind, 400, seed)
        assert code(model, new) in (None, "training_rows_unchecked")
        if kind in ("integers", "rounded"):  # thresholds are values of any rows
            assert code(model, X) == code(model, new) == "training_rows_unchecked"


def test_where_nothing_can_be_told():
    _, X, new = fitted("forest", "normal", 400)
    y = X[:, 0] + X[:, 1]
    random = ske.ExtraTreesRegressor(20, random_state=0).fit(X, y)  # thresholds are drawn at random
    stump = xgb.XGBRegressor(n_estimators=2, max_depth=1, n_jobs=1).fit(X, y)
    ranks = X.argsort(axis=0).argsort(axis=0) / 400  # new rows have the same ones
    ranked = lgb.LGBMRegressor(n_estimators=40, n_jobs=1, verbose=-1).fit(ranks, y)
    for model, rows in ((random, X), (stump, X), (ranked, ranks), (ranked, new.argsort(axis=0).argsort(axis=0) / 400)):
        assert code(model, rows) == "training_rows_unchecked"


def test_what_a_place_has_again_in_new_rows_is_no_training_row():
    rng = np.random.default_rng(4)
    places = rng.normal(size=(500, 2))  # each place once in either set
    rows = [np.column_stack([places[rng.permutation(500)], rng.normal(size=(500, 2))]) for _ in range(2)]
    model = lgb.LGBMRegressor(n_estimators=60, n_jobs=1, verbose=-1).fit(rows[0], rows[0].sum(axis=1))
    assert code(model, rows[0]) == "training_rows"
    assert code(model, rows[1]) is None


def test_importance_warns_or_says_quietly_that_it_was_not_checked():
    model, X, new = fitted("xgboost", "normal", 300)
    with pytest.warns(ti.TreeInnerWarning, match="Training rows are among"):
        assert "training_rows" in [note.code for note in ti.importance(model, X, X[:, 0]).notes]
    assert ti.importance(model, new, new[:, 0]).notes == ()
    sparse = sp.csr_array(np.where(X > 0, X, 0.0))
    held = xgb.XGBRegressor(n_estimators=40, n_jobs=1).fit(sparse, X[:, 0])
    with pytest.warns(ti.TreeInnerWarning, match="Training rows are among"):
        ti.importance(held, sparse, X[:, 0])
    whole, _, _ = fitted("xgboost", "integers", 300)
    notes = ti.importance(whole, np.random.default_rng(1).integers(0, 40, (300, 5)).astype(float), X[:, 0]).notes
    assert [(note.code, note.quiet) for note in notes] == [("training_rows_unchecked", True)]
