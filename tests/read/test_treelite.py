"""The treelite reader against treelite's own predictions, and against our readers of the models it was made from."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn import ensemble as ske
from sklearn.datasets import load_diabetes, load_iris

import treeinner as ti

treelite = pytest.importorskip("treelite")
lgb, xgb = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
builder = treelite.model_builder

rng = np.random.default_rng(5)
# In float32: scikit-learn compares in float32 what treelite compares in float64.
X, Y = (part.astype(np.float32).astype(float) for part in load_diabetes(return_X_y=True))
HOLES = np.where(rng.random(X.shape) < 0.1, np.nan, X)
CODES = np.column_stack([X[:, :3], rng.integers(0, 40, len(X)), rng.integers(0, 4, len(X))])
IRIS, KIND = load_iris(return_X_y=True)
IRIS = IRIS.astype(np.float32).astype(float)
BINARY = (np.median(Y) < Y).astype(int)
TERCILE = np.digitize(Y, np.quantile(Y, [1 / 3, 2 / 3]))
TWO = np.column_stack([Y, -np.sqrt(Y)])
LIGHT = {"n_estimators": 8, "verbose": -1, "n_jobs": 1}
XGB = {"n_estimators": 8, "max_depth": 3, "n_jobs": 1}
SQUARED = "squared_error"

# Estimator, X, y, what is said to read_model.
MODELS = {
    "xgboost": (xgb.XGBRegressor(**XGB), HOLES, Y, SQUARED),
    "xgboost-binary": (xgb.XGBClassifier(**XGB), X, BINARY, None),
    "xgboost-classes": (xgb.XGBClassifier(**XGB), IRIS, KIND, None),
    "xgboost-vectors": (xgb.XGBClassifier(**XGB, multi_strategy="multi_output_tree"), IRIS, KIND, None),
    "xgboost-targets": (xgb.XGBRegressor(**XGB), X, TWO, SQUARED),
    "xgboost-target-vectors": (xgb.XGBRegressor(**XGB, multi_strategy="multi_output_tree"), X, TWO, SQUARED),
    "xgboost-categories": (
        xgb.XGBRegressor(**XGB, enable_categorical=True, feature_types=["float"] * 3 + ["c"] * 2), CODES, Y, SQUARED,
    ),
    "xgboost-poisson": (xgb.XGBRegressor(**XGB, objective="count:poisson"), X, Y, "count:poisson"),
    "lightgbm": (lgb.LGBMRegressor(**LIGHT), HOLES, Y, SQUARED),
    "lightgbm-binary": (lgb.LGBMClassifier(**LIGHT), X, BINARY, None),
    "lightgbm-classes": (lgb.LGBMClassifier(**LIGHT), IRIS, KIND, None),
    "lightgbm-ova": (lgb.LGBMClassifier(**LIGHT, objective="multiclassova", sigmoid=0.8), IRIS, KIND, None),
    "lightgbm-no-average": (lgb.LGBMRegressor(**LIGHT, boost_from_average=False), X, Y, SQUARED),
    "forest": (ske.RandomForestRegressor(8, random_state=0), X, Y, None),
    "forest-targets": (ske.ExtraTreesRegressor(8, max_depth=6, random_state=0), X, TWO, None),
    "forest-classes": (ske.RandomForestClassifier(8, random_state=0), IRIS, KIND, None),
    "gradient-boosting": (ske.GradientBoostingRegressor(n_estimators=8), X, Y, SQUARED),
    "gradient-boosting-classes": (ske.GradientBoostingClassifier(n_estimators=8), IRIS, KIND, None),
    "hist": (ske.HistGradientBoostingRegressor(max_iter=8), HOLES, Y, SQUARED),
    "hist-categories": (
        ske.HistGradientBoostingRegressor(max_iter=8, categorical_features=[3, 4]), CODES, Y, SQUARED,
    ),
}  # fmt: skip
FITTED = {}


def fitted(case):
    """A fitted estimator, the treelite.Model made of it, its rows, and what reads it."""
    if case not in FITTED:
        estimator, rows, y, objective = MODELS[case]
        estimator.fit(rows, y)
        FITTED[case] = estimator, converted(estimator), rows, y, objective
    return FITTED[case]


def converted(estimator):
    if hasattr(estimator, "get_booster"):
        return treelite.frontend.from_xgboost(estimator.get_booster())
    if hasattr(estimator, "booster_"):
        return treelite.frontend.from_lightgbm(estimator.booster_)
    return treelite.sklearn.import_model(estimator)


def own_margin(model, rows):
    return treelite.gtil.predict(model, rows, pred_margin=True).reshape(rows.shape[0], -1)


@pytest.mark.parametrize("case", MODELS)
def test_margins_and_leaves_are_treelites_own(case):
    _, made, rows, *_ = fitted(case)
    found, own = ti.read_model(made), own_margin(made, rows)
    # XGBoost's models are added up in float32 there.
    assert np.allclose(found.predict(rows).reshape(own.shape), own, rtol=2e-6, atol=2e-6 * np.abs(own).max())
    assert np.array_equal(found.apply(rows), treelite.gtil.predict_leaf(made, rows))


@pytest.mark.parametrize("case", MODELS)
def test_importance_is_that_of_the_model_it_was_made_from(case):
    estimator, made, rows, y, objective = fitted(case)
    held_out = slice(None, None, 2)  # some rows: the start is not at their mean
    for asked in ({}, {"score": "loss"}, {"score": "tree_inner", "method": "saabas"}):
        own = ti.importance(estimator, rows[held_out], y[held_out], n_jobs=1, **asked)
        found = ti.importance(ti.read_model(made, objective=objective), rows[held_out], y[held_out], n_jobs=1, **asked)
        # treelite keeps base scores in other digits than the library: 1e-8 of the scores.
        assert np.allclose(found.scores, own.scores, rtol=1e-6, atol=1e-7 * np.abs(own.scores).max()), asked
        assert np.allclose(found.std_errors, own.std_errors, rtol=1e-6, atol=1e-7 * np.abs(own.scores).max()), asked


@pytest.mark.parametrize(("case", "told"), [("xgboost", 1.0), ("gradient-boosting", 0.0), ("forest-classes", None)])
def test_predecomp_by_the_l2_formula(case, told):
    estimator, made, rows, y, objective = fitted(case)
    asked = {"score": "tree_inner", "method": "predecomp", "n_jobs": 1}
    own = ti.importance(estimator, rows, y, **asked).scores
    if told is not None:
        with pytest.raises(ti.UnknownParameterError, match="reg_lambda"):
            ti.importance(ti.read_model(made, objective=objective), rows, y, **asked)
    found = ti.importance(ti.read_model(made, objective=objective, reg_lambda=told), rows, y, **asked).scores
    assert np.allclose(found, own, rtol=1e-5, atol=1e-6 * np.abs(own).max())  # XGBoost stores float32


def test_predecomp_is_refused_where_it_lacks_second_derivatives():
    for case in ("lightgbm", "xgboost-target-vectors"):
        _, made, rows, y, objective = fitted(case)
        model = ti.read_model(made, objective=objective, reg_lambda=0.0)
        with pytest.raises(ti.UnsupportedModelError, match="treelite does not have the second derivatives"):
            ti.importance(model, rows, y, score="tree_inner", method="predecomp")


def test_the_loss_of_a_regressor_must_be_told():
    for case in ("xgboost", "xgboost-poisson"):
        _, made, rows, y, _ = fitted(case)
        with pytest.raises(ti.UnknownParameterError, match=r"does not store its loss; pass read_model\(model, obj"):
            ti.importance(made, rows, y)


def test_what_is_assumed_is_noted():
    codes = {case: [note.code for note in ti.read_model(fitted(case)[1]).notes] for case in MODELS}
    assert codes["lightgbm"] == ["start_assumed", "loss_assumed"]
    assert codes["lightgbm-no-average"] == codes["xgboost-binary"] == ["loss_assumed"]
    assert codes["forest"] == codes["forest-classes"] == []


def test_sparse_rows_are_read_as_treelite_reads_them():
    _, made, rows, *_ = fitted("hist")
    matrix = csr_matrix(np.where(rng.random(rows.shape) < 0.5, 0.0, np.nan_to_num(rows)))
    assert np.allclose(ti.read_model(made).predict(matrix), own_margin(made, matrix)[:, 0], rtol=1e-12)


# -- forests made by hand ----------------------------------------------------------------------------------------
SPLITS = {0: (1, 2), 1: (3, 6), 2: (4, 5)}  # nodes 0 and 2 compare numbers, node 1 has a list of categories


def by_hand(operators, *, order=range(7), dtype="float64", post="identity", class_id=(0, 0, 0), **about):
    """Three trees of three splits each, with their nodes in some order."""
    given = {"task_type": "kRegressor", "average_tree_output": False, "num_target": 1, "num_class": [1]} | about
    made = builder.ModelBuilder(
        threshold_type=dtype, leaf_output_type=dtype, base_scores=[0.25] * given["num_class"][0],
        metadata=builder.Metadata(num_feature=3, leaf_vector_shape=(1, 1), **given),
        tree_annotation=builder.TreeAnnotation(len(class_id), [0] * len(class_id), list(class_id)),
        postprocessor=builder.PostProcessorFunc(post),
    )  # fmt: skip
    for tree in range(len(class_id)):
        made.start_tree()
        for key in order:
            made.start_node(key)
            left, right = SPLITS.get(key, (0, 0))
            children = {"left_child_key": left, "right_child_key": right}
            if key == 1:
                made.categorical_test(
                    2, default_left=tree == 1, category_list=[1, 3 + tree], category_list_right_child=tree == 2,
                    **children,
                )  # fmt: skip
            elif key in SPLITS:
                operator = operators[(tree + key) % len(operators)]
                made.numerical_test(
                    key // 2, float(tree - key // 2), default_left=tree == 0, opname=operator, **children
                )
            else:
                made.leaf(float(key + 10 * tree))
            made.end_node()
        made.end_tree()
    return made.commit()


GRID = np.array(
    [(a, b, c) for a in (-1, 0, 1, 2, np.nan) for b in (-2, -1, 0, 1, np.nan) for c in (1, 3, 4, 7, -1, np.nan)]
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("operators", [["<"], ["<="], [">"], [">="], ["<", "<="], ["<", ">", ">=", "<="], [">", "<="]])
def test_all_ways_to_compare(operators, dtype):
    made = by_hand(operators, order=(0, 2, 6, 1, 5, 4, 3), dtype=dtype)
    beside = np.nextafter(GRID, np.inf, dtype=dtype, casting="same_kind").astype(float)
    for rows in (GRID, np.column_stack([beside[:, :2], GRID[:, 2]])):
        model = ti.read_model(made)
        assert np.array_equal(model.predict(rows), own_margin(made, rows)[:, 0])
        assert np.array_equal(model.apply(rows), treelite.gtil.predict_leaf(made, rows))


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (lambda: by_hand(["=="]), "asks x == t"),
        (lambda: by_hand(["<"], task_type="kMultiClf", num_class=[3], class_id=(0, 0, 1)), "do not take turns"),
        (lambda: by_hand(["<"], average_tree_output=True, post="sigmoid"), "averages margins"),
        (lambda: converted(ske.IsolationForest(n_estimators=3).fit(X)), "isolation forest"),
        (
            lambda: converted(ske.RandomForestClassifier(3).fit(X, np.column_stack([BINARY, TERCILE]))),
            "several targets",
        ),
    ],
)
def test_refusals_by_name(made, match):
    with pytest.raises(ti.UnsupportedModelError, match=match):
        ti.read_model(made())


def test_nodes_without_training_rows():
    model = ti.read_model(by_hand(["<"]), objective=SQUARED)
    assert np.isnan(model.trees.cover).all()
    assert np.isfinite(ti.importance(model, GRID, np.arange(len(GRID))).scores).all()  # centred needs none
    with pytest.raises(ti.UnsupportedModelError, match="does not store"):
        ti.importance(model, GRID, np.arange(len(GRID)), score="tree_inner", method="saabas")
    with pytest.raises(ti.UnsupportedModelError, match="does not store the gains"):
        ti.total_gain(model)


def test_rounds_and_names():
    _, made, rows, y, _ = fitted("xgboost-classes")
    model = ti.read_model(made, iteration_range=(0, 3), feature_names=list("abcd"))
    assert (model.n_rounds, model.n_trees, model.library) == (3, 9, "treelite")
    assert ti.importance(model, rows, y).feature_names == ("a", "b", "c", "d")
    with pytest.raises(ValueError, match="8 boosting rounds"):
        ti.read_model(made, learning_rate=[0.3, 0.3])
