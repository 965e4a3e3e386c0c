"""Training rows among held-out rows: what is found, in which container, and where nothing may be said."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from catboost import CatBoostRegressor
from lightgbm import LGBMClassifier, LGBMRegressor
from scipy import sparse, stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingClassifier, RandomForestRegressor

import treeinner as ti
from treeinner.scores.training_rows import copies, traces, training_rows_note

N, K = 600, 6
NAMES = [f"x{k}" for k in range(K)]


def target(X, rng):
    return stats.zscore(X[:, 0]) + np.sin(X[:, 1]) + rng.normal(size=len(X))


def two_sets(draw=None, seed=0):
    """Two samples of one kind of rows: (X, y) of each."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(2):
        X = (draw or (lambda rng: rng.normal(size=(N, K))))(rng)
        out.append((X, target(X, rng)))
    return out


def booster(X, y, **params):
    return ti.read_model(xgb.XGBRegressor(n_estimators=30, n_jobs=1, **params).fit(X, y))


# -- two sets ----------------------------------------------------------------------------------------------
def test_rows_of_two_sets_are_compared_in_any_order_container_and_precision():
    (X, y), (X_valid, y_valid) = two_sets()
    X[::7, 2] = np.nan
    X[::5, 3] = 0.0
    X_valid[:60], y_valid[:60] = X[:60], y[:60]
    X_valid[:60:5, 3] = -0.0  # the same number
    model = booster(X, y, subsample=0.5)
    shuffled = np.random.default_rng(1).permutation(N)
    frame = pd.DataFrame(X_valid, columns=NAMES)
    tables = {
        "numpy": X_valid,
        "shuffled": X_valid[shuffled],
        "float32": X_valid.astype(np.float32),
        "fortran": np.asfortranarray(X_valid),
        "pandas": frame,
        "polars": pl.from_pandas(frame, nan_to_null=True),
        "arrow": pl.from_pandas(frame).to_arrow(),
    }
    for name, table in tables.items():
        labels = y_valid[shuffled] if name == "shuffled" else y_valid
        found = copies(model, (X, y), (table, labels))
        assert found.count == 60, name
        assert found.repeated == 0
        assert found.found().count == 60
    note = found.found().note
    assert note.startswith("60 of these 600 rows are training rows: they have the features and the target of a")
    assert "Score rows that the model has not seen" in note
    # A row with another target is another row, and so is one with another feature.
    assert copies(model, (X, y), (X_valid, y_valid + 1.0)).count == 0
    assert copies(model, (X, y), (X_valid + 1e-3 * np.eye(K)[-1], y_valid)).count == 0


def test_absent_entries_and_categories_are_compared_as_the_model_sees_them():
    rng = np.random.default_rng(0)
    X = sparse.random(N, K, 0.5, format="csr", random_state=0)
    y = rng.normal(size=N)
    model = ti.read_model(LGBMRegressor(n_estimators=3, verbose=-1, n_jobs=1).fit(X, y))
    assert copies(model, (X, y), (X.toarray()[:50], y[:50])).count == 50

    frame = pd.DataFrame({"colour": rng.choice(["red", "green", "blue"], N), "x": rng.normal(size=N)})
    as_categories = frame.astype({"colour": "category"})
    classes = np.where(frame["x"] > 0, "yes", "no")
    model = ti.read_model(LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1).fit(as_categories, classes))
    fewer = frame[frame["colour"] != "blue"]  # codes of its own would be others
    again = fewer.astype({"colour": "category"})
    assert copies(model, (as_categories, classes), (again, classes[fewer.index])).count == len(fewer)
    other = fewer.assign(colour=np.where(fewer["colour"] == "red", "green", "red")).astype({"colour": "category"})
    assert copies(model, (as_categories, classes), (other, classes[fewer.index])).count == 0


def test_rows_that_repeat_by_chance_are_not_called_training_rows():
    """Held-out rows of discrete data coincide with training rows as often as these do with one another."""
    rng = np.random.default_rng(0)
    for levels in (2, 3, 4, 8):
        X = rng.integers(0, levels, size=(4 * N, 4)).astype(float)
        y = rng.integers(0, 2, 4 * N)
        model = ti.read_model(xgb.XGBClassifier(n_estimators=2, n_jobs=1).fit(X, y))
        for train, valid in ((2 * N, 2 * N), (3 * N, N), (N, 3 * N)):
            found = copies(model, (X[:train], y[:train]), (X[-valid:], y[-valid:]))
            # One row in another training row's place: its chance is that of a training row.
            assert abs(found.count / valid - found.repeated) < 0.1
            assert found.found() is None
    assert f"{found.count:,} of the 1,800 held-out rows" in found.note
    assert "If rows were copied or resampled before they were split" in found.note
    # Where all held-out rows are copies, they are more than chance gives.
    assert found.repeated < 0.5
    assert copies(model, (X[:N], y[:N]), (X[:N][::-1], y[:N][::-1])).found().rows == "600 training rows"


def test_disjoint_rows_and_a_stray_copy_are_passed_over():
    (X, y), (X_valid, y_valid) = two_sets()
    model = booster(X, y)
    found = copies(model, (X, y), (X_valid, y_valid))
    assert (found.count, found.found(), found.note) == (0, None, None)
    X_valid[0], y_valid[0] = X[0], y[0]
    found = copies(model, (X, y), (X_valid, y_valid))
    assert (found.count, found.found(), found.note) == (1, None, None)


def test_a_file_with_all_training_rows_in_it():
    (X, y), (X_valid, y_valid) = two_sets()
    found = copies(booster(X, y), (X, y), (np.vstack([X_valid, X]), np.append(y_valid, y))).found()
    assert found.rows == "1,200 rows, 600 of them training rows"


# -- one set -----------------------------------------------------------------------------------------------
MODELS = {
    "xgboost": xgb.XGBRegressor(n_estimators=30, n_jobs=1),
    "xgboost, half of the rows": xgb.XGBRegressor(n_estimators=30, subsample=0.5, n_jobs=1),
    "xgboost, exact splits": xgb.XGBRegressor(n_estimators=30, tree_method="exact", n_jobs=1),
    "xgboost, classes": xgb.XGBClassifier(n_estimators=30, subsample=0.5, n_jobs=1),
    "lightgbm": LGBMRegressor(n_estimators=30, verbose=-1, n_jobs=1),
    "lightgbm, half of the rows": LGBMRegressor(n_estimators=30, subsample=0.5, subsample_freq=1, verbose=-1, n_jobs=1),
    "catboost": CatBoostRegressor(iterations=30, verbose=0, thread_count=1, allow_writing_files=False),
    "histogram": HistGradientBoostingClassifier(max_iter=30),
    "boosting": GradientBoostingRegressor(n_estimators=50, random_state=0),
    "bootstrapped forest": RandomForestRegressor(60, max_depth=4, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_training_rows_are_known_by_the_thresholds(name):
    (X, y), (X_valid, y_valid) = two_sets()
    if "Classifier" in type(MODELS[name]).__name__:
        y, y_valid = y > 0, y_valid > 0
    model = ti.read_model(MODELS[name].fit(X, y))
    assert traces(model, X_valid, y_valid) is None
    found = traces(model, X[::-1], y[::-1])
    assert found is not None
    seen_by_every_tree = name not in (
        "xgboost, half of the rows", "xgboost, classes", "lightgbm, half of the rows", "bootstrapped forest",
    )  # fmt: skip
    assert found.count == (N if seen_by_every_tree else None)
    assert training_rows_note(model, X[::-1], y[::-1]) == found.note


def test_training_rows_among_others_are_known_by_the_thresholds():
    (X, y), (X_valid, y_valid) = two_sets()
    model = booster(X, y, subsample=0.5)
    note = training_rows_note(model, np.vstack([X, X_valid]), np.append(y, y_valid))
    assert note.startswith("Training rows are among these rows: ")
    assert "192 of 192 thresholds of splits on 'f1', 'f0', 'f5' are values of these rows" in note
    assert traces(model, pd.DataFrame(X, columns=NAMES).astype(np.float32), y) is not None


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_diabetes, load_digits])
def test_real_rows(load):
    """Halves of measured data, most of them rounded: the half that was held out is never taken for the other."""
    X, y = load(return_X_y=True)
    y = y.astype(float)
    for seed in range(3):
        half = np.random.default_rng(seed).permutation(len(y))
        train, valid = half[: len(y) // 2], half[len(y) // 2 :]
        for subsample in (0.5, 1.0):
            model = booster(X[train], y[train], subsample=subsample, max_depth=4)
            assert traces(model, X[valid], y[valid]) is None
            if subsample == 1.0 or load in (load_breast_cancer, load_wine):  # of the others too many values are shared
                assert traces(model, X[train], y[train]) is not None


GRIDS = {
    "binary": lambda rng: rng.integers(0, 2, size=(N, K)).astype(float),
    "counts": lambda rng: rng.poisson(30, size=(N, K)).astype(float),
    "rounded": lambda rng: rng.normal(size=(N, K)).round(2),
    "ranks": lambda rng: np.column_stack([rng.permutation(N) / N for _ in range(K)]),
    "normal scores": lambda rng: np.column_stack([stats.norm.ppf((rng.permutation(N) + 0.5) / N) for _ in range(K)]),
    "places": lambda rng: np.random.default_rng(9).normal(size=(40, K))[rng.integers(0, 40, N)],
}


@pytest.mark.parametrize("name", GRIDS)
def test_values_that_new_rows_share_are_no_trace_but_gains_are(name):
    """Thresholds are values of new rows too; only the gains, which have the target in them, tell them apart."""
    (X, y), (X_valid, y_valid) = two_sets(GRIDS[name])
    whole, sampled = booster(X, y), booster(X, y, subsample=0.5)
    for model in (whole, sampled):
        assert traces(model, X_valid, y_valid) is None
    found = traces(whole, X, y)
    assert found.count == N
    assert "equals the gains that the model stores" in found.note
    assert traces(sampled, X, y) is None  # nothing tells
    # The same features with another draw of the target, as in a repeated experiment: new rows.
    assert traces(whole, X, target(X, np.random.default_rng(5))) is None


def test_a_person_who_comes_again_is_a_new_row():
    """One column is the same in both sets and unique in each; the others are new."""
    (X, y), (X_valid, y_valid) = two_sets()
    X_valid[:, 0] = X[:, 0]
    y_valid = target(X_valid, np.random.default_rng(5))
    assert traces(booster(X, y), X_valid, y_valid) is None


@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson", "multi:softprob"])
def test_gains_are_compared_with_weights_and_for_hessians(objective):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(N, K)).astype(float)
    y = (X[:, 0] + rng.integers(0, 3, N) > 2).astype(int) + (objective[0] == "m") * rng.integers(0, 2, N)
    w = rng.gamma(2.0, size=N)
    params = {"objective": objective, "nthread": 1, "max_delta_step": 0, "num_class": 3 if objective[0] == "m" else 0}
    model = ti.read_model(xgb.train(params, xgb.DMatrix(X, y, weight=w), 5))
    assert traces(model, X, y, sample_weight=w).count == N
    assert traces(model, X, y) is None
