"""compare(): both sides as importance() gives them, the optimism gap, and the warning when nothing was held out."""

import warnings

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from scipy import stats

import treeinner as ti
from treeinner.errors import DataError

N, K = 240, 8
ASKED = {
    "tree_inner": {},
    "loss": {"score": "loss"},
    "tree_inner_treeshap": {"method": "treeshap"},
    "forest_inner": {"score": "forest_inner"},
    "abs_treeshap": {"score": "abs", "method": "treeshap", "over": "forest"},
    "permutation": {"n_repeats": 1, "random_state": 0},
}


def asked(name, model, X, y, **options):
    """What `compare` should give under this name."""
    if name == "permutation":
        return ti.permutation_importance(model, X, y, **ASKED[name], **options)
    return ti.importance(model, X, *(() if name == "abs_treeshap" else (y,)), **ASKED[name], **options)


def data(classes=0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * N, K)).astype(np.float32)
    y = X[:, 0] + np.sin(X[:, 1]) + rng.normal(size=2 * N)
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    return X[:N], y[:N], X[N:], y[N:]


def model_of(X, y, **params):
    kind = xgb.XGBClassifier if np.issubdtype(y.dtype, np.integer) else xgb.XGBRegressor
    return kind(**{"n_estimators": 20, "max_depth": 4, "learning_rate": 0.1, "n_jobs": 1, **params}).fit(X, y)


@pytest.mark.parametrize("classes", [0, 3])
def test_both_sides_are_importances(classes):
    X, y, X_valid, y_valid = data(classes)
    model = model_of(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # held-out rows: no warning
        c = ti.compare(model, X, y, X_valid, y_valid, n_jobs=1)
    assert set(c.train) == set(c.valid) == set(ASKED)
    assert c.skipped == {}
    assert c.notes == ()
    assert c.training_rows is None
    assert repr(c).startswith("TreeInner(centred), training rows against held-out rows: first-order reduction")
    for name in ASKED:
        for side, rows in ((c.train, (X, y)), (c.valid, (X_valid, y_valid))):
            assert np.array_equal(side[name].scores, asked(name, model, *rows).scores)
    assert np.array_equal(c.total_gain, ti.total_gain(model).scores)
    # Noise is useful in sample and not outside of it: the gap is the optimism of the gain.
    assert np.all(c.gap.score[2:] > 0)
    assert c.gap.z[2:].min() > 2


@pytest.mark.filterwarnings("ignore:The steps of this model overshoot")  # on single rows
def test_the_gap_is_welchs():
    X, y, X_valid, y_valid = data()
    X_valid, y_valid = X_valid[:50], y_valid[:50]
    model = model_of(X, y)
    c = ti.compare(model, X, y, X_valid, y_valid, method="saabas")
    np.testing.assert_allclose(c.gap.score, c.train["tree_inner"].scores - c.valid["tree_inner"].scores, rtol=1e-13)
    e = ti.read_model(model).ensemble  # row shares, one row at a time: node values do not depend on the rows
    shares = [
        np.array([ti.importance(e, A[i : i + 1], b[i : i + 1], method="saabas").scores for i in range(len(A))])
        for A, b in ((X[:N], y[:N]), (X_valid, y_valid))
    ]
    test = stats.ttest_ind(*shares, equal_var=False, alternative="greater")
    # Scores are from the leaves, errors from row scores in float32.
    np.testing.assert_allclose(c.gap.z, test.statistic, rtol=1e-6)
    # Welch's degrees of freedom from those of each side.
    var = [s.var(axis=0, ddof=1) / len(s) for s in shares]
    df = [side["tree_inner"].statistics.df for side in (c.train, c.valid)]
    welch = sum(var) ** 2 / sum(v**2 / d for v, d in zip(var, df, strict=True))
    np.testing.assert_allclose(c.gap.p_value, stats.t.sf(test.statistic, welch), rtol=1e-5)
    np.testing.assert_allclose(c.gap.std_error, np.sqrt(sum(s.var(axis=0, ddof=1) / len(s) for s in shares)), rtol=1e-6)


def test_the_scale_of_the_weights_changes_no_gap():
    X, y, X_valid, y_valid = data()
    model = model_of(X, y)
    rng = np.random.default_rng(0)
    w, v = rng.gamma(2.0, size=N), rng.gamma(2.0, size=N)
    a = ti.compare(model, X, y, X_valid, y_valid, sample_weight_train=w, sample_weight_valid=v)
    b = ti.compare(model, X, y, X_valid, y_valid, sample_weight_train=w * 100, sample_weight_valid=v / 10)
    np.testing.assert_allclose(a.gap.score, a.train["tree_inner"].scores - a.valid["tree_inner"].scores, rtol=1e-12)
    # Leaf sums hold a gradient to 2^-32 of the largest leaf, row scores to float32.
    np.testing.assert_allclose(b.gap.score, a.gap.score, rtol=1e-7)
    np.testing.assert_allclose(b.gap.std_error, a.gap.std_error, rtol=1e-6)
    assert np.array_equal(
        a.valid["permutation"].scores,
        asked("permutation", model, X_valid, y_valid, sample_weight=v).scores,
    )


def test_clusters_of_each_side():
    X, y, X_valid, y_valid = data()
    model = model_of(X, y)
    clusters = np.arange(N) % 30
    c = ti.compare(model, X, y, X_valid, y_valid, clusters_valid=clusters)
    assert c.valid["tree_inner"].statistics.n_units == 30
    assert c.train["tree_inner"].statistics.n_units == N
    np.testing.assert_allclose(c.gap.score, c.train["tree_inner"].scores - c.valid["tree_inner"].scores, rtol=1e-12)
    a, b = c.train["tree_inner"], c.valid["tree_inner"]
    np.testing.assert_allclose(c.gap.std_error, np.hypot(a.std_errors, b.std_errors), rtol=1e-12)


def test_the_gap_is_of_the_scores_shown():
    X, y, X_valid, y_valid = data()
    for method in ("centred", "predecomp", "treeshap"):
        c = ti.compare(model_of(X, y), X, y, X_valid, y_valid, method=method)
        a, b = c.train["tree_inner"], c.valid["tree_inner"]
        assert a.method == b.method == c.valid["loss"].method == method
        assert c.valid["forest_inner"].method == ("predecomp" if method == "centred" else method)
        assert b.title in repr(c)
        np.testing.assert_allclose(c.gap.score, a.scores - b.scores, rtol=1e-13)
        np.testing.assert_allclose(c.gap.std_error, np.hypot(a.std_errors, b.std_errors), rtol=1e-12)


@pytest.mark.parametrize("subsample", [1.0, 0.5])
def test_training_rows_given_as_held_out_rows_are_noticed(subsample):
    X, y, X_valid, y_valid = data()
    model = model_of(X, y, subsample=subsample)
    rows = np.random.default_rng(0).permutation(N)
    with pytest.warns(ti.TreeInnerWarning, match="These are the rows that the model was trained on: they have the fea"):
        c = ti.compare(model, X, y, pd.DataFrame(X[rows]), y[rows])
    assert c.notes == (c.training_rows.note,)
    assert "training rows against 240 training rows: " in repr(c)
    assert repr(c).endswith(f"note: {c.notes[0]}")
    # Some of them, and all of them with others.
    few = np.vstack([X_valid, X[:24]]), np.append(y_valid, y[:24])
    with pytest.warns(ti.TreeInnerWarning, match="24 of these 264 rows are training rows"):
        c = ti.compare(model, X, y, *few)
    assert "training rows against 264 rows, 24 of them training rows: " in repr(c)
    with pytest.warns(ti.TreeInnerWarning, match="240 of these 480 rows are training rows"):
        ti.compare(model, X, y, np.vstack([X_valid, X]), np.append(y_valid, y))


def test_they_are_noticed_by_what_the_model_keeps_of_them():
    """The rows given for training are others."""
    X, y, X_valid, y_valid = data()
    params = {"num_leaves": 6, "num_threads": 1, "verbose": -1}
    binary = (X > 0).astype(np.float32)
    for model, rows, why in (
        (model_of(X, y), X, "thresholds"),
        (lgb.train(params, lgb.Dataset(X, y), 30), X, "thresholds"),
        (model_of(binary, y), binary, "equals the gains that the model stores"),
    ):
        with pytest.warns(ti.TreeInnerWarning, match=why):
            ti.compare(model, X_valid, y_valid, rows, y)


def test_rows_that_coincide_by_chance_are_a_note():
    """Copies among discrete rows are said, but the rows stay held-out rows."""
    X, y, X_valid, y_valid = data(2)
    X, X_valid = (X > 1)[:, :3].astype(float), (X_valid > 1)[:, :3].astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c = ti.compare(model_of(X, y), X, y, X_valid, y_valid)
    assert c.training_rows is None
    assert c.notes[0].startswith("240 of the 240 held-out rows (100%) have the features and the target of a training")
    assert "held-out rows" in repr(c)


def test_what_a_model_cannot_have_is_skipped_by_name():
    X, y, X_valid, y_valid = data()
    booster = xgb.train({"nthread": 1, "eta": 0.3}, xgb.DMatrix(X, y), 5, obj=lambda p, d: (p - y, np.ones(N)))
    c = ti.compare(booster, X, y, X_valid, y_valid, objective=lambda y, m: m - y)
    assert set(c.skipped) == {"permutation", "loss"}
    assert "gradient only" in c.skipped["permutation"]
    assert "has only a gradient" in c.skipped["loss"]
    assert not {"permutation", "loss"} & set(c.valid)
    assert not any("permutation" in column for column in c.to_frame().columns)
    # What TreeInner itself lacks is an error, as in importance().
    with pytest.raises(DataError, match="y has"):
        ti.compare(booster, X, y, X_valid, y_valid[:-1], objective=lambda y, m: m - y)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frame(library):
    X, y, X_valid, y_valid = data()
    names = [f"x{k}" for k in range(K)]
    model = model_of(pd.DataFrame(X, columns=names), y)
    make = (
        (lambda a: pd.DataFrame(a, columns=names)) if library == "pandas" else (lambda a: pl.DataFrame(a, schema=names))
    )
    c = ti.compare(model, make(X), y, make(X_valid), y_valid, feature_groups={"noise": names[4:]})
    frame = c.to_frame()
    assert isinstance(frame, pd.DataFrame if library == "pandas" else pl.DataFrame)
    assert sorted(frame["feature"]) == ["noise", *names[:4]]
    valid = c.valid["tree_inner"]
    assert list(frame["tree_inner_valid"]) == sorted(valid.scores.tolist(), reverse=True)
    assert list(frame["tree_inner_valid_rank"]) == [1, 2, 3, 4, 5]
    for name in ASKED:
        for side in ("train", "valid"):
            scores = np.array(frame[f"{name}_{side}"])
            ranks = np.array(frame[f"{name}_{side}_rank"])
            assert sorted(ranks) == [1, 2, 3, 4, 5]
            assert (np.diff(scores[np.argsort(ranks)]) <= 0).all()  # some are equal: a feature that is not used
    np.testing.assert_allclose(frame["gap"], np.array(frame["tree_inner_train"]) - np.array(frame["tree_inner_valid"]))
    assert list(frame["valid_q_value"]) == valid.q_values[valid.order].tolist()
    text = repr(c).splitlines()
    assert [line.split()[0] for line in text[2:]] == list(frame["feature"])
