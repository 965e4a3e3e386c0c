"""Scores in the raw columns of a pipeline: sums of the encoded ones, with the errors of explicit groups."""

import numpy as np
import polars as pl
import pytest
from sklearn import ensemble as ske
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
    TargetEncoder,
)

import treeinner as ti
from tests.test_origins import CLASSES, MIXED, NUMBERS, WORDS, N, Y


def estimators():
    import catboost
    import lightgbm
    import xgboost

    return {
        "xgboost": xgboost.XGBRegressor(n_estimators=12, max_depth=3, n_jobs=1),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=12, num_leaves=7, min_child_samples=5, verbose=-1, n_jobs=1),
        "catboost": catboost.CatBoostRegressor(iterations=12, depth=3, verbose=0, thread_count=1),
        "hist": ske.HistGradientBoostingRegressor(max_iter=12, max_leaf_nodes=7),
        "forest": ske.RandomForestRegressor(n_estimators=8, max_depth=4, random_state=0),
    }


def pipeline(library="xgboost", *, sparse=False):
    encode = ColumnTransformer(
        [
            ("words", OneHotEncoder(sparse_output=sparse), ["colour", "colour_of"]),
            (
                "binned",
                KBinsDiscretizer(3, encode="onehot" if sparse else "ordinal", quantile_method="linear"),
                ["size"],
            ),
            ("numbers", StandardScaler(), ["age", "age_2"]),
        ],
        sparse_threshold=1.0 if sparse else 0.0,
    )
    return make_pipeline(encode, estimators()[library])


GROUPS = ("colour", "colour_of", "town", "age", "age_2", "size", "size_of")


def explicit(names):
    """The groups as a user would write them by hand."""
    return {raw: [name for name in names if name.split("__")[1] in (raw, *levels(raw))] for raw in GROUPS
            if any(name.split("__")[1] in (raw, *levels(raw)) for name in names)}  # fmt: skip


def levels(raw):
    values = sorted(map(str, MIXED[raw].unique())) if raw in WORDS else ["0.0", "1.0", "2.0"]
    return [f"{raw}_{value}" for value in values]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost", "hist", "forest"])
def test_original_columns_are_the_explicit_groups_with_their_errors(library, sparse):
    if library == "hist" and sparse:
        pytest.skip("HistGradientBoosting takes no sparse matrix")
    train, valid = slice(0, 140), slice(140, N)
    pipe = pipeline(library, sparse=sparse).fit(MIXED[train], Y[train])
    score = {"score": "forest_inner"} if library == "forest" else {}
    rows = MIXED[valid], Y[valid]
    single = ti.importance(pipe, *rows, **score)
    raw = ti.importance(pipe, *rows, feature_groups="original", **score)
    by_hand = ti.importance(pipe, *rows, feature_groups=explicit(single.feature_names), **score)
    assert raw.feature_names == GROUPS
    for name in by_hand.feature_names:
        for field in ("score", "std_error", "p_value"):
            assert getattr(raw[name], field) == getattr(by_hand[name], field), (name, field)
    assert raw["town"].score == raw["size_of"].score == 0
    assert raw["town"].std_error == 0
    # Sums of the same numbers in another order.
    np.testing.assert_allclose(raw.scores.sum(), single.scores.sum(), rtol=1e-12)
    assert raw.order[0] in (0, 3)


def test_every_function_takes_the_word():
    train, valid = slice(0, 140), slice(140, N)
    pipe = pipeline().fit(MIXED[train], Y[train])
    rows = MIXED[valid], Y[valid]
    raw = ti.importance(pipe, *rows, feature_groups="original")
    state = ti.ImportanceAccumulator(pipe, feature_groups="original")
    for start in (140, 190):
        state.update(MIXED[start : start + 50], Y[start : start + 50])
    np.testing.assert_allclose(state.result().scores, raw.scores, rtol=0, atol=1e-12)  # sums of the batches
    again = ti.ImportanceAccumulator(pipe, feature_groups="original").from_bytes(state.to_bytes())
    assert again.result().feature_names == GROUPS
    assert state.fingerprint() != ti.ImportanceAccumulator(pipe).fingerprint()

    a, single = ti.attribute(pipe, rows[0], feature_groups="original"), ti.attribute(pipe, rows[0])
    np.testing.assert_allclose(a.values.sum(axis=1), single.values.sum(axis=1), rtol=0, atol=1e-12)  # ten numbers each
    assert a.data is rows[0]
    assert a[:, "town"].tolist() == [0.0] * 100

    by_hand = ti.permutation_importance(pipe, *rows, random_state=0, feature_groups=explicit(single.feature_names))
    shuffled = ti.permutation_importance(pipe, *rows, random_state=0, feature_groups="original")
    for name in by_hand.feature_names:
        assert (shuffled[name].score, shuffled[name].std_error) == (by_hand[name].score, by_hand[name].std_error)

    gains = ti.total_gain(pipe, feature_groups="original")
    np.testing.assert_allclose(gains.scores.sum(), ti.total_gain(pipe).scores.sum(), rtol=1e-12)  # another order
    both = ti.compare(pipe, MIXED[train], Y[train], *rows, feature_groups="original")
    assert both.feature_names == GROUPS
    assert not both.skipped
    np.testing.assert_array_equal(both.valid["tree_inner"].scores, raw.scores)
    np.testing.assert_array_equal(both.total_gain, gains.scores)


def test_the_page_shows_raw_columns_and_their_values(tmp_path):
    pipe = pipeline().fit(MIXED[:140], Y[:140])
    page = ti.report(pipe, MIXED[140:], Y[140:], path=tmp_path / "p.html", feature_groups="original").read_text()
    assert "feature_groups=&quot;original&quot;" in page or "feature_groups='original'" in page.replace("&#x27;", "'")
    assert "dark_red" in page  # the value of a row, which behind the encoder is 0s and a 1


def test_permutation_of_a_raw_column_is_that_of_the_whole_pipeline():
    """The model's columns of a group take the same row's values, so shuffling them is shuffling the raw column."""
    from sklearn.inspection import permutation_importance
    from sklearn.metrics import make_scorer, mean_squared_error

    pipe = pipeline().fit(MIXED[:140], Y[:140])
    rows = MIXED[140:], Y[140:]
    scorer = make_scorer(mean_squared_error, greater_is_better=False)
    theirs = permutation_importance(pipe, *rows, scoring=scorer, n_repeats=2, random_state=3)
    ours = ti.permutation_importance(pipe, *rows, n_repeats=2, random_state=3, feature_groups="original")
    # XGBoost's own loss is half the squared error; its predictions are float32.
    np.testing.assert_allclose(2 * ours.scores, theirs.importances_mean, rtol=0, atol=1e-5)


def test_polars_and_arrays():
    X, y = pl.from_pandas(MIXED), Y
    pipe = pipeline().fit(X[:140], y[:140])
    frame = ti.importance(pipe, X[140:], y[140:], feature_groups="original")
    pandas = ti.importance(pipeline().fit(MIXED[:140], y[:140]), MIXED[140:], y[140:], feature_groups="original")
    assert frame.feature_names == GROUPS
    np.testing.assert_array_equal(frame.scores, pandas.scores)
    codes = OrdinalEncoder().fit_transform(WORDS)
    onehot = make_pipeline(OneHotEncoder(drop="first"), estimators()["xgboost"]).fit(codes[:140], y[:140])
    array = ti.importance(onehot, codes[140:], y[140:], feature_groups="original")
    assert array.feature_names == ("x0", "x1", "x2")


def test_classes_and_a_target_encoder():
    import xgboost

    model = xgboost.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1)
    encode = make_column_transformer((TargetEncoder(), ["colour", "colour_of"]), ("passthrough", ["age"]))
    codes = np.unique(CLASSES, return_inverse=True)[1]
    pipe = make_pipeline(encode, model).fit(MIXED[:140], codes[:140])
    raw = ti.importance(pipe, MIXED[140:], codes[140:], feature_groups="original")
    single = ti.importance(pipe, MIXED[140:], codes[140:])
    assert len(single.feature_names) == 7
    assert raw.feature_names == GROUPS
    np.testing.assert_allclose(raw["colour"].score, single.scores[:3].sum(), rtol=1e-12)  # three numbers


def test_a_selector_in_the_pipeline_and_columns_that_never_arrive():
    pipe = Pipeline([("k", SelectKBest(f_regression, k=2)), ("m", estimators()["lightgbm"])]).fit(
        NUMBERS[:140], Y[:140]
    )
    raw = ti.importance(pipe, NUMBERS[140:], Y[140:], feature_groups="original")
    assert raw.feature_names == tuple(NUMBERS.columns)
    kept = pipe["k"].get_support()
    assert (raw.scores[~kept] == 0).all()
    assert raw["age"].score > 0


def test_without_a_pipeline_every_column_is_its_own():
    model = estimators()["xgboost"].fit(NUMBERS[:140], Y[:140])
    plain, raw = (ti.importance(model, NUMBERS[140:], Y[140:], feature_groups=g) for g in (None, "original"))
    np.testing.assert_array_equal(raw.scores, plain.scores)
    assert raw.feature_names == tuple(NUMBERS.columns)
    found = ti.read_model(model).origins(NUMBERS[NUMBERS.columns[::-1]])  # in the order of X
    assert found.names == tuple(NUMBERS.columns[::-1])
    assert [columns.tolist() for columns in found.columns] == [[3], [2], [1], [0]]


def test_without_a_pipeline_the_data_of_attributions_stay_in_the_order_of_the_model():
    model = estimators()["xgboost"].fit(NUMBERS[:140], Y[:140])
    turned, new = NUMBERS[NUMBERS.columns[::-1]], ["p", "q", "r", "s"]
    plain, raw = (ti.attribute(model, turned, feature_names=new, feature_groups=g) for g in (None, "original"))
    np.testing.assert_array_equal(raw.data, plain.data)


def test_groups_of_raw_columns_are_followed_through_the_pipeline():
    pipe = pipeline().fit(MIXED[:140], Y[:140])
    rows = MIXED[140:], Y[140:]
    single = ti.importance(pipe, *rows).feature_names
    words = explicit(single)["colour"] + explicit(single)["colour_of"]
    raw, by_hand = (ti.importance(pipe, *rows, feature_groups={"words": g}) for g in (["colour", "colour_of"], words))
    assert raw.feature_names == ("words", "town", "age", "age_2", "size", "size_of")  # all others by their own names
    assert (raw["words"].score, raw["words"].std_error) == (by_hand["words"].score, by_hand["words"].std_error)
    with pytest.raises(ValueError, match="names 'color', which is not a feature"):
        ti.importance(pipe, *rows, feature_groups={"words": ["color"]})
    mixing = make_pipeline(PCA(2), estimators()["hist"]).fit(NUMBERS, Y)
    with pytest.raises(ValueError, match="names 'age', which is not a feature"):
        ti.importance(mixing, NUMBERS, Y, feature_groups={"both": ["age", "size"]})


def test_folds_that_see_other_levels_have_the_same_columns():
    rare = MIXED.assign(colour=np.where(np.arange(N) < 3, "rare", MIXED["colour"]))
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["colour"]), ("passthrough", ["age"]))
    estimator, folds = (
        make_pipeline(encode, estimators()["xgboost"]),
        [(range(120, N), range(120)), (range(120), range(120, N))],
    )
    with pytest.raises(ti.UnsupportedModelError, match="feature_groups='original'"):
        ti.cross_importance(estimator, rare, Y, cv=folds)
    raw = ti.cross_importance(estimator, rare, Y, cv=folds, feature_groups="original")
    assert raw.feature_names == GROUPS
    assert set(raw.order[:2]) == {0, 3}


def test_origins_stand_in_the_order_of_x():
    pipe = pipeline().fit(MIXED, Y)
    model = ti.read_model(pipe)
    straight, turned = model.origins(MIXED), model.origins(MIXED.assign(more=0)[["more", *MIXED.columns[::-1]]])
    assert turned.names == ("more", *MIXED.columns[::-1])
    assert len(turned.columns[0]) == 0
    for name, columns in zip(straight.names, straight.columns, strict=True):
        np.testing.assert_array_equal(turned.columns[turned.names.index(name)], columns)
    with pytest.raises(ti.DataError, match="X has 2 columns, expected the 7"):
        model.origins(MIXED[["age", "town"]])


def test_a_mixing_step_is_refused_by_every_function():
    pipe = make_pipeline(PCA(2), estimators()["hist"]).fit(NUMBERS, Y)
    for call in (
        lambda: ti.importance(pipe, NUMBERS, Y, feature_groups="original"),
        lambda: ti.attribute(pipe, NUMBERS, feature_groups="original"),
        lambda: ti.permutation_importance(pipe, NUMBERS, Y, feature_groups="original"),
        lambda: ti.ImportanceAccumulator(pipe, feature_groups="original"),
    ):
        with pytest.raises(ti.UnsupportedModelError, match="PCA may make a column from several"):
            call()


def test_with_interactions_there_is_a_group_for_them_and_no_data():
    pipe = make_pipeline(PolynomialFeatures(2), estimators()["xgboost"]).fit(NUMBERS[["age", "size"]], Y)
    a = ti.attribute(pipe, NUMBERS[["age", "size"]], feature_groups="original")
    assert a.feature_names == ("age", "size", "(constant)", "age*size")
    assert a.data is None
    np.testing.assert_array_equal(a[:, "(constant)"], 0)
