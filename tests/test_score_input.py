"""Bad input to the scores: one clear error each, which says what came, what was expected and what to do."""

import dataclasses

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost as xgb
from sklearn.ensemble import RandomForestClassifier

import treeinner as ti
from treeinner.errors import DataError, TreeInnerError, UnknownParameterError

N = 60
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3)).astype(np.float32)
SIGNAL = X[:, 0] + rng.normal(size=N)
LABEL = (SIGNAL > 0).astype(int)


def booster(y=SIGNAL, rounds=3, **params):
    return xgb.train({"nthread": 1, "max_depth": 2, "eta": 0.3, **params}, xgb.DMatrix(X, y), rounds)


@pytest.fixture(scope="module")
def regression():
    return booster(objective="reg:squarederror")


@pytest.fixture(scope="module")
def binary():
    return booster(LABEL, objective="binary:logistic")


@pytest.fixture(scope="module")
def animals():
    """A classifier of words."""
    return RandomForestClassifier(3, random_state=0).fit(X, np.where(LABEL > 0, "cat", "dog"))


def score_rows(score, model, X, y, **options):
    """Call the function that gives the score; abs has no target."""
    if score == "permutation":
        return ti.permutation_importance(model, X, y, random_state=0, **options)
    return ti.importance(model, X, *(() if score == "abs" else (y,)), score=score, **options)


def with_value(array, value, row=7):
    changed = np.array(array, dtype=object if isinstance(value, str) or value is None else None)
    changed[row] = value
    return changed


# -- y ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("score", ["tree_inner", "loss", "forest_inner", "permutation"])
def test_y_with_holes(regression, binary, animals, score):
    for model, y, hole in ((regression, SIGNAL, np.nan), (binary, LABEL.astype(float), np.nan)):
        with pytest.raises(DataError, match="missing"):
            score_rows(score, model, X, with_value(y, hole))
    words = np.where(LABEL > 0, "cat", "dog")
    for hole in (None, np.nan, pd.NA):
        y = pd.Series(words, dtype=object)
        y[7] = hole
        with pytest.raises(DataError, match="missing"):
            ti.importance(animals, X, y, score="tree_inner")


@pytest.mark.parametrize("score", ["tree_inner", "loss", "permutation"])
def test_y_of_the_wrong_length_or_shape(regression, score):
    with pytest.raises(DataError, match="y has 59 rows, but X has 60"):
        score_rows(score, regression, X, SIGNAL[:-1])
    with pytest.raises(DataError, match="y has 2 columns, expected 1"):
        score_rows(score, regression, X, np.stack([SIGNAL, SIGNAL], axis=1))
    with pytest.raises(DataError, match=r"pass y|y is missing"):
        score_rows(score, regression, X, None)
    column = score_rows(score, regression, X, SIGNAL[:, None])
    assert np.array_equal(column.scores, score_rows(score, regression, X, SIGNAL).scores)


def test_x_without_rows(regression):
    for score in ("tree_inner", "loss", "forest_inner", "abs", "permutation"):
        with pytest.raises(DataError, match="no rows"):
            score_rows(score, regression, X[:0], SIGNAL[:0])
        with pytest.raises(DataError, match="no rows"):
            score_rows(score, regression, pd.DataFrame(X[:0], columns=["f0", "f1", "f2"]), SIGNAL[:0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"over": "trees"}, "over='trees' only applies to score='abs'"),
        ({"against": "label"}, "against='label' only applies to score='forest_inner'"),
        ({"score": "abs", "by_round": True}, "by_round=True only applies to score='tree_inner' and 'loss'"),
        ({"score": "forest_inner", "oob": True}, "oob=True only applies to score='tree_inner'"),
        ({"score": "loss", "oob": True}, "oob=True only applies to score='tree_inner'"),
        ({"score": "loss", "over": "trees"}, "over='trees' only applies to score='abs'"),
        ({"score": "abs", "method": "centred"}, "method='centred' only applies to score='tree_inner' and 'loss'"),
        ({"score": "forest_inner", "method": "centred"}, "method='centred' only applies to score='tree_inner'"),
        ({"score": "abs"}, "score='abs' uses only the attributions; omit y"),
        ({"std_errors": "no"}, "std_errors='no': expected True or False"),
        ({"by_round": None}, "by_round=None: expected True or False"),
        ({"oob": "no"}, "oob='no': expected True or False"),
        ({"oob": True}, "bootstrap=True, which this xgboost model is not"),
        ({"std_errors": False, "confidence": 0.9}, "confidence only affects standard errors"),
        ({"n_jobs": "2"}, "n_jobs='2' has no meaning"),
        ({"n_jobs": 1.5}, r"n_jobs=1\.5 has no meaning"),
        ({"confidence": ".9"}, r"confidence='\.9'"),
        ({"qid": np.zeros(N)}, "'reg:squarederror' does not rank within queries"),
        ({"clusters": np.arange(N), "std_errors": False}, "clusters only affect standard errors"),
        ({"score": "total_gain"}, r"ti\.total_gain\(model\)"),
        ({"score": "permutation"}, r"ti\.permutation_importance\(model, X, y\)"),
        ({"n_repeats": 3}, "unexpected argument 'n_repeats'"),
        ({"sample_wieght": np.ones(N)}, "did you mean 'sample_weight'"),
        ({"learning_rte": 0.1}, "did you mean 'learning_rate'"),
    ],
)
def test_arguments_without_a_meaning_are_errors(regression, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ti.importance(regression, X, SIGNAL, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_repeats": 2.5}, r"n_repeats=2\.5: expected at least one shuffle"),
        ({"n_repeats": "2"}, "n_repeats='2': expected at least one shuffle"),
        ({"random_state": np.random.default_rng(0)}, r"random_state=Generator.* a numpy\.random\.RandomState or None"),
        ({"random_state": "x"}, "random_state='x': expected an integer"),
        ({"random_state": -1}, "random_state=-1: expected an integer"),
        ({"confidence": ".9"}, r"confidence='\.9'"),
        ({"n_jobs": "2"}, "n_jobs='2' has no meaning"),
        ({"learning_rate": 0.1}, "learning_rate has no effect on 'permutation' scores"),
    ],
)
def test_arguments_of_permutation_importance(regression, options, message):
    with pytest.raises(ValueError, match=message):
        ti.permutation_importance(regression, X, SIGNAL, **options)


def test_what_is_said_about_a_model_has_an_effect(regression):
    for name, value in {"objective": "squared_error", "learning_rate": 0.3, "reg_lambda": 1, "reg_alpha": 0}.items():
        with pytest.raises(ValueError, match=f"{name} has no effect on 'total_gain' scores"):
            ti.total_gain(regression, **{name: value})
    with pytest.raises(ValueError, match="objective has no effect on 'abs' scores"):
        ti.importance(regression, X, score="abs", objective="squared_error")
    with pytest.raises(ValueError, match="objective has no effect on 'abs' scores"):
        ti.ImportanceAccumulator(regression, score="abs", objective="squared_error")
    opened = ti.read_model(regression, objective="squared_error", learning_rate=0.3)  # for any score
    assert ti.importance(opened, X, score="abs").n_rows == N
    assert ti.total_gain(opened, iteration_range=(0, 1)).gains.sum() > 0


def test_a_penalty_that_does_not_fit_is_named(regression, tmp_path):
    regression.save_model(tmp_path / "model.json")  # trained with reg_lambda=1
    with pytest.raises(ti.UnknownParameterError, match="could not be inferred from its nodes with reg_lambda=0; pass"):
        ti.importance(tmp_path / "model.json", X, SIGNAL, method="predecomp", reg_lambda=0)
    plain = ti.importance(tmp_path / "model.json", X, SIGNAL, method="saabas", reg_lambda=0)
    with pytest.raises(ti.UnknownParameterError, match="could not be inferred from its nodes with reg_lambda=0; pass"):
        _ = plain.gains


def test_classes_that_the_model_does_not_know(animals, binary):
    with pytest.raises(DataError, match=r"are not in the model: 'horse'; it was trained on 'cat', 'dog'"):
        ti.importance(animals, X, with_value(np.where(LABEL > 0, "cat", "dog"), "horse"))
    with pytest.raises(DataError, match="y holds 2"):
        ti.importance(binary, X, with_value(LABEL, 2))
    many = xgb.XGBClassifier(n_estimators=2, n_jobs=1).fit(X, np.arange(N) % 3)
    for wrong in (3, -1):
        with pytest.raises(DataError, match="y holds"):
            ti.importance(many, X, with_value(np.arange(N) % 3, wrong))


def test_strings_for_a_regression(regression):
    with pytest.raises(DataError, match="'tall', which is not a number"):
        ti.importance(regression, X, with_value(SIGNAL, "tall"))


@pytest.mark.parametrize(
    ("objective", "good", "bad"),
    [
        ("count:poisson", 2.0, -1.0),
        ("reg:gamma", 2.0, 0.0),
        ("reg:squaredlogerror", 2.0, -2.0),
        ("binary:logistic", 1.0, 1.5),
        ("reg:squarederror", 1.0, np.inf),
    ],
)
def test_targets_outside_the_domain_of_the_loss(objective, good, bad):
    model = booster(np.full(N, good) * (np.arange(N) % 2 if good == 1.0 else 1.0), objective=objective, base_score=0.5)
    with pytest.raises(DataError, match=r"y holds .* in row 7"):
        ti.importance(model, X, with_value(np.full(N, good), bad))


def test_targets_in_any_container(regression, animals):
    expected = ti.importance(regression, X, SIGNAL).scores
    for y in (
        SIGNAL.tolist(),
        pd.Series(SIGNAL, index=np.arange(N)[::-1]),
        pl.Series(SIGNAL),
        pd.DataFrame({"y": SIGNAL}),
    ):
        assert np.array_equal(ti.importance(regression, X, y).scores, expected)
    words = np.where(LABEL > 0, "cat", "dog")
    expected = ti.importance(animals, X, words).scores
    for y in (words.tolist(), pd.Series(words, dtype="category"), pl.Series(words), words.astype(object)):
        assert np.array_equal(ti.importance(animals, X, y).scores, expected)


# -- weights, clusters, groups ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("score", ["tree_inner", "loss", "abs", "permutation"])
@pytest.mark.parametrize(
    ("weight", "says"),
    [
        (np.where(np.arange(N) == 3, -1.0, 1.0), "holds -1 in row 3"),
        (np.where(np.arange(N) == 3, np.nan, 1.0), "holds nan in row 3"),
        (np.where(np.arange(N) == 3, np.inf, 1.0), "holds inf in row 3"),
        (np.zeros(N), "zero in every row"),
        (np.ones(N - 1), "has 59 values, but X has 60 rows"),
        (["heavy"] * N, "not numbers; pass one number per row"),
    ],
)
def test_bad_weights(regression, score, weight, says):
    with pytest.raises(DataError, match=says):
        score_rows(score, regression, X, SIGNAL, sample_weight=weight)


@pytest.mark.parametrize("name", ["clusters", "qid"])
def test_labels_of_rows(regression, name):
    model, y = (regression, SIGNAL) if name == "clusters" else (ti.read_model(regression, objective="rank:ndcg"), LABEL)
    with pytest.raises(DataError, match=f"{name} has 59 labels, but X has 60 rows"):
        ti.importance(model, X, y, **{name: np.zeros(N - 1)})
    words = np.full(N, "a", dtype=object)
    for labels in (
        np.where(np.arange(N) == 5, np.nan, 1.0),
        with_value(words, None, 5),
        pd.Series(words).mask(np.arange(N) == 5, pd.NA),
        pd.Series(np.arange(N), dtype="Int64").mask(np.arange(N) == 5, pd.NA),
        pd.Series(pd.date_range("2024-01-01", periods=N)).mask(np.arange(N) == 5),
    ):
        with pytest.raises(DataError, match=f"{name} has no label in row 5"):
            ti.importance(model, X, y, **{name: labels})


@pytest.mark.parametrize(
    "labels",
    [
        np.arange(N) % 7,
        (np.arange(N) % 7).astype(float),
        [f"site {i % 7}" for i in range(N)],
        pd.Series([f"site {i % 7}" for i in range(N)], dtype="category"),
        pl.Series([f"site {i % 7}" for i in range(N)]),
        pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(N) % 7, unit="D"),
        np.arange(N) % 7 > 3,
    ],
    ids=["int", "float", "text", "category", "polars", "days", "bool"],
)
def test_clusters_may_be_labelled_in_any_way(regression, labels):
    imp = ti.importance(regression, X, SIGNAL, clusters=labels)
    assert imp.statistics.n_units == len(pd.unique(pd.Series(labels)))
    first = ti.ImportanceAccumulator(regression, clustered=True, std_errors=True).update(X, SIGNAL, clusters=labels)
    second = first.second_pass().update(X, SIGNAL, clusters=labels)
    again = first.second_pass().from_bytes(second.to_bytes())
    assert np.array_equal(again.result().std_errors, imp.std_errors)
    twice = ti.importance(regression, X, SIGNAL, clusters=labels, method="predecomp")
    accumulator = ti.ImportanceAccumulator(regression, clustered=True, method="predecomp")
    accumulator.update(X, SIGNAL, clusters=labels)
    again = ti.ImportanceAccumulator(regression, clustered=True, method="predecomp").from_bytes(accumulator.to_bytes())
    assert np.array_equal(again.merge(accumulator).result().std_errors, twice.std_errors)


def test_the_same_cluster_may_come_in_another_type(regression):
    labels = np.arange(N) % 7
    accumulator = ti.ImportanceAccumulator(regression, clustered=True)
    accumulator.update(X[:30], SIGNAL[:30], clusters=labels[:30])
    accumulator.update(X[30:], SIGNAL[30:], clusters=pd.Series(labels[30:], dtype="Int64"))
    assert accumulator.result().statistics.n_units == 7


def test_base_margin_of_the_wrong_shape(regression):
    with pytest.raises(DataError, match="base_margin has shape"):
        ti.importance(regression, X, SIGNAL, base_margin=np.zeros(N - 1))


def test_groups_that_do_not_fit(regression):
    with pytest.raises(ValueError, match="not a feature"):
        ti.importance(regression, X, SIGNAL, feature_groups={"pair": ["f0", "f9"]})
    with pytest.raises(ValueError, match="one group only"):
        ti.importance(regression, X, SIGNAL, feature_groups={"a": [0, 1], "b": [1, 2]})
    with pytest.raises(TypeError, match="mapping"):
        ti.importance(regression, X, SIGNAL, feature_groups=[[0, 1]])
    with pytest.raises(ValueError, match="Group 'pair' has no features"):
        ti.importance(regression, X, SIGNAL, feature_groups={"pair": []})
    with pytest.raises(TypeError, match="Group 'pair' contains None"):
        ti.importance(regression, X, SIGNAL, feature_groups={"pair": None})
    single = ti.ImportanceAccumulator(regression, feature_groups={"one": np.int64(1)}).update(X, SIGNAL)
    assert (single + single).result().feature_names == ("f0", "one", "f2")


# -- words -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [
        {"score": "gain"},
        {"method": "shap"},
        {"score": "abs", "method": "shap"},
        {"score": "forest_inner", "against": "y"},
        {"score": "abs", "over": "leaf"},
    ],
)
def test_unknown_words(regression, options):
    word, given = list(options.items())[-1]
    with pytest.raises(ValueError, match=f"{word}='{given}' is not recognised; choose one of"):
        ti.importance(regression, X, SIGNAL, **options)
    with pytest.raises(ValueError, match=f"{word}='{given}' is not recognised; choose one of"):
        ti.ImportanceAccumulator(regression, **options)


def test_confidence_is_a_coverage(regression):
    for confidence in (95, 0, 1, -0.1, float("nan")):
        for call in (
            lambda c: ti.importance(regression, X, SIGNAL, confidence=c),
            lambda c: ti.permutation_importance(regression, X, SIGNAL, confidence=c),
            lambda c: ti.ImportanceAccumulator(regression, confidence=c),
        ):
            with pytest.raises(ValueError, match="not a valid confidence level"):
                call(confidence)


def test_n_jobs_zero(regression):
    with pytest.raises(ValueError, match="n_jobs=0"):
        ti.importance(regression, X, SIGNAL, n_jobs=0)


# -- what a model does not say ---------------------------------------------------------------------------------------
def test_a_learning_rate_that_cannot_be_known(tmp_path):
    """max_delta_step clips the leaves of every tree, so that no node tells the rate; the file does not store it."""
    model = booster(SIGNAL * 100, objective="reg:squarederror", max_delta_step=0.1, base_score=0.0)
    path = tmp_path / "model.json"
    model.save_model(path)
    with pytest.raises(UnknownParameterError, match="learning_rate"):
        ti.importance(path, X, SIGNAL * 100, method="predecomp")
    assert np.array_equal(
        ti.importance(path, X, SIGNAL * 100).scores, ti.importance(path, X, SIGNAL * 100, learning_rate=0.3).scores
    )
    unknown = ti.importance(path, X, SIGNAL * 100, method="saabas")  # in units of the loss no rate is needed
    with pytest.raises(UnknownParameterError, match="gains divide every tree by its learning rate"):
        _ = unknown.gains
    known = ti.importance(path, X, SIGNAL * 100, method="saabas", learning_rate=0.3)
    half = ti.importance(path, X, SIGNAL * 100, method="saabas", learning_rate=0.6)
    assert np.array_equal(known.scores, unknown.scores)
    assert np.array_equal(half.scores, unknown.scores)
    np.testing.assert_allclose(known.gains, 2 * half.gains, rtol=1e-12)
    np.testing.assert_allclose(known.gains, N * known.scores / 0.3, rtol=1e-12)
    assert ti.importance(path, X, SIGNAL * 100, method="treeshap").scores.any()
    assert ti.importance(path, X, SIGNAL * 100, score="forest_inner", method="saabas").scores.any()
    # What does not divide by it does not ask for it.
    assert ti.importance(path, X, score="abs", method="treeshap").scores.any()
    assert ti.permutation_importance(path, X, SIGNAL, random_state=0).scores.any()
    assert ti.total_gain(path).scores.any()


def test_a_custom_objective_must_be_given():
    matrix = xgb.DMatrix(X, SIGNAL)
    model = lgb.train(
        {"objective": lambda p, d: (p - d.get_label(), np.ones(N)), "num_threads": 1, "verbose": -1, "num_leaves": 4},
        lgb.Dataset(X, SIGNAL, params={"min_data_in_bin": 1}),
        3,
    )
    for score in ("tree_inner", "forest_inner", "permutation"):
        with pytest.raises(UnknownParameterError, match=r"objective=callable\(y, margin\) -> gradient"):
            score_rows(score, model, X, SIGNAL)
    assert ti.importance(model, X, score="abs").scores.any()
    named = ti.importance(model, X, SIGNAL, objective="squared_error")
    function = ti.importance(model, X, SIGNAL, objective=lambda y, margin: margin - y)
    np.testing.assert_allclose(named.scores, function.scores, rtol=1e-7)  # leaf sums: 2^-32 of the largest leaf
    trained = xgb.train({"nthread": 1, "eta": 0.3}, matrix, 3, obj=lambda p, d: (p - d.get_label(), np.ones(N)))
    both = (
        ti.importance(trained, X, SIGNAL, objective="squared_error"),
        ti.importance(trained, X, SIGNAL, objective=lambda y, margin: (margin - y, np.ones_like(margin))),
    )
    np.testing.assert_allclose(both[0].scores, both[1].scores, rtol=1e-7)
    with pytest.raises(DataError, match="returned a gradient of shape"):
        ti.importance(model, X, SIGNAL, objective=lambda y, margin: np.zeros(3))
    with pytest.raises(UnknownParameterError, match="is not recognised"):
        ti.importance(model, X, SIGNAL, objective="squared_eror")


def test_a_gradient_that_is_not_finite(regression):
    with pytest.raises(DataError, match="gradient of row 0 is nan"):
        ti.importance(regression, X, SIGNAL, objective=lambda y, margin: np.full(len(margin), np.nan))


def test_a_ranking_model_needs_its_queries():
    group = np.repeat(np.arange(6), 10)
    y = np.arange(N) % 3
    params = {"objective": "rank:ndcg", "nthread": 1, "max_depth": 2, "lambdarank_pair_method": "topk"}
    model = xgb.train(params, xgb.DMatrix(X, y, qid=group), 3)
    with pytest.raises(DataError, match="query of each row"):
        ti.importance(model, X, y)
    assert ti.importance(model, X, y, qid=group).scores.any()


def test_no_error_is_a_bare_one(regression):
    """Whatever is wrong with y, users may catch one class."""
    for y in (None, SIGNAL[:3], ["a"] * N, np.full(N, np.nan), np.zeros((N, 2)), np.zeros((N, 1, 1)), {}, 3, object()):
        with pytest.raises(TreeInnerError):
            ti.importance(regression, X, y)


def test_l1_with_vector_leaves_is_refused_and_the_plain_product_is_not():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    Y = X[:, :2] + rng.normal(size=(200, 2))
    params = {"multi_strategy": "multi_output_tree", "reg_alpha": 3.0, "max_depth": 2, "nthread": 1}
    model = xgb.train(params, xgb.DMatrix(X, Y), 3)
    with pytest.raises(ti.UnsupportedModelError, match=r"reg_alpha > 0 with vector leaves.*Pass reg_alpha=0"):
        ti.importance(model, X, Y, method="predecomp")
    assert ti.importance(model, X, Y, method="predecomp", reg_alpha=0.0).scores.shape == (4,)
    assert ti.importance(model, X, Y).scores.shape == (4,)  # centred: nothing to do with the penalty


@pytest.mark.parametrize("method", ["saabas", "treeshap"])
def test_a_model_without_covers_is_refused_by_methods_that_need_them(method):
    e = ti.read_model(
        xgb.train({"max_depth": 2, "nthread": 1}, xgb.DMatrix(np.eye(40)[:, :4], np.arange(40)), 2)
    ).ensemble
    e = dataclasses.replace(e, cover=np.full(e.n_nodes, np.nan))
    with pytest.raises(ti.UnsupportedModelError, match=f"method='{method}' weights the children"):
        ti.importance(e, np.eye(40)[:, :4], np.arange(40), method=method)
    assert ti.importance(e, np.eye(40)[:, :4], np.arange(40)).scores.any()  # centred does without
