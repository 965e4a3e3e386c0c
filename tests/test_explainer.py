"""TreeExplainer as a drop-in for shap's, and shap's own plots on what we hand over."""

import numpy as np
import pytest

shap = pytest.importorskip("shap")
mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import pandas as pd  # noqa: E402

import treeinner as ti  # noqa: E402
from treeinner.errors import UnsupportedModelError  # noqa: E402
from treeinner.explainer import TreeExplainer  # noqa: E402

NAMES = ["apple", "pear", "plum", "cherry", "quince"]


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 5)), columns=NAMES)
    y = (X["apple"] + X["pear"] * X["plum"] + 0.1 * rng.normal(size=120)).to_numpy()
    return X, y


def classes_of(y):
    return np.digitize(y, [-0.5, 0.5])


def xgboost_regressor(X, y):
    return pytest.importorskip("xgboost").XGBRegressor(n_estimators=15, max_depth=3, n_jobs=1).fit(X, y)


def xgboost_classes(X, y):
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1).fit(X, classes_of(y))


def lightgbm_binary(X, y):
    lgb = pytest.importorskip("lightgbm")
    return lgb.LGBMClassifier(n_estimators=15, num_leaves=7, n_jobs=1, verbose=-1).fit(X, y > 0)


def catboost_regressor(X, y):
    cat = pytest.importorskip("catboost")
    # CatBoost walks symmetric trees from the leaves up, where TreeSHAP gives other values (docs/exactness.md).
    return cat.CatBoostRegressor(
        iterations=15, depth=3, grow_policy="Depthwise", thread_count=1, verbose=0, allow_writing_files=False
    ).fit(X, y)


def sklearn_forest(X, y):
    ensemble = pytest.importorskip("sklearn.ensemble")
    return ensemble.RandomForestRegressor(10, max_depth=4, random_state=0).fit(X, y)


def sklearn_boosting(X, y):
    ensemble = pytest.importorskip("sklearn.ensemble")
    return ensemble.GradientBoostingRegressor(n_estimators=15, random_state=0).fit(X, y)


MODELS = [xgboost_regressor, xgboost_classes, lightgbm_binary, catboost_regressor, sklearn_forest, sklearn_boosting]


@pytest.mark.parametrize("fit", MODELS)
def test_equals_shap(fit, data):
    X, y = data
    model = fit(X, y)
    theirs, ours = shap.TreeExplainer(model), TreeExplainer(model)
    explanation, expected = ours(X), theirs(X)
    assert isinstance(explanation, shap.Explanation)
    assert explanation.shape == expected.shape
    # XGBoost's and shap's own C code sum in float32 for some models: 1e-6 of values of order 1, over 15 trees.
    close = {"rtol": 1e-4, "atol": 2e-5}
    np.testing.assert_allclose(explanation.values, expected.values, **close)
    np.testing.assert_allclose(
        explanation.base_values, np.broadcast_to(expected.base_values, explanation.base_values.shape), **close
    )
    np.testing.assert_array_equal(explanation.data, expected.data)
    assert list(explanation.feature_names) == list(expected.feature_names)
    np.testing.assert_allclose(ours.shap_values(X), theirs.shap_values(X), **close)
    assert np.shape(ours.expected_value) == np.shape(np.squeeze(theirs.expected_value))
    np.testing.assert_allclose(ours.expected_value, np.squeeze(theirs.expected_value), **close)


def test_approximate_is_saabas(data):
    X, y = data
    model = xgboost_regressor(X, y)
    # float32 sums of XGBoost, over 15 trees of values of order 1
    np.testing.assert_allclose(
        TreeExplainer(model).shap_values(X, approximate=True),
        shap.TreeExplainer(model).shap_values(X, approximate=True),
        rtol=1e-4,
        atol=2e-5,
    )


def test_another_method_and_the_options_of_attribute(data):
    X, y = data
    model = xgboost_regressor(X, y)
    explainer = TreeExplainer(model, method="predecomp", iteration_range=(0, 4), n_jobs=1)
    expected = ti.attribute(model, X, iteration_range=(0, 4))
    np.testing.assert_array_equal(explainer.shap_values(X), expected.values)
    np.testing.assert_allclose(explainer.expected_value, expected.base_values[0], rtol=1e-15)  # one more addition


def test_a_pipeline_is_explained_behind_its_transformers(data):
    pipeline = pytest.importorskip("sklearn.pipeline")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    X, y = data
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler(), pytest.importorskip("xgboost").XGBRegressor(n_estimators=5, n_jobs=1)
    )
    model.fit(X, y)
    explanation = TreeExplainer(model)(X)
    margin = model.predict(X)
    # float32 predictions of order 1
    np.testing.assert_allclose(explanation.base_values + explanation.values.sum(axis=1), margin, atol=1e-5)
    assert explanation.feature_names == NAMES


def test_names_of_the_users_choice(data):
    X, y = data
    model = xgboost_regressor(X, y)
    renamed = TreeExplainer(model, feature_names=list("abcde"))(X)
    assert list(renamed.feature_names) == list("abcde")
    np.testing.assert_array_equal(renamed.data, X.to_numpy())
    with pytest.raises(ValueError, match="feature_names has 2 names; expected 5"):
        TreeExplainer(model, feature_names=["a", "b"])(X)


def test_what_is_not_done_is_refused_by_name(data):
    X, y = data
    model = xgboost_regressor(X, y)
    with pytest.raises(UnsupportedModelError, match="background data"):
        TreeExplainer(model, X)
    with pytest.raises(UnsupportedModelError, match="interventional"):
        TreeExplainer(model, feature_perturbation="interventional")
    with pytest.raises(UnsupportedModelError, match="model_output='probability'"):
        TreeExplainer(model, model_output="probability")
    with pytest.raises(UnsupportedModelError, match="interactions"):
        TreeExplainer(model)(X, interactions=True)
    with pytest.raises(UnsupportedModelError, match=r"ti\.importance"):
        TreeExplainer(model).shap_values(X, y)
    with pytest.raises(ValueError, match="method='exact' is not recognised"):
        TreeExplainer(model, method="exact")


# -- shap's plots ------------------------------------------------------------------------------------------
def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize("rows", [40, 5])  # 5 rows, 5 features: names must not be taken for rows
@pytest.mark.parametrize("method", ["treeshap", "predecomp"])
def test_shap_draws_our_explanation(data, rows, method):
    X, y = data
    explanation = TreeExplainer(xgboost_regressor(X, y), method=method)(X[:rows])
    for draw in (shap.plots.bar, shap.plots.beeswarm, shap.plots.heatmap):
        draw(explanation, show=False)
        shown = [text for text in labels(plt.gcf().axes[0].yaxis) if text in NAMES]
        assert sorted(set(shown)) == sorted(NAMES), draw.__name__
        plt.close("all")
    shap.plots.waterfall(explanation[2], show=False)
    shown = labels(plt.gcf().axes[0].yaxis)
    for name in NAMES:
        assert any(text.endswith(name) for text in shown)
    plt.close("all")
    shap.plots.scatter(explanation[:, "plum"], show=False, color=explanation)
    assert plt.gcf().axes[0].get_xlabel() == "plum"
    dots = np.concatenate([c.get_offsets() for c in plt.gcf().axes[0].collections if len(c.get_offsets()) == rows])
    np.testing.assert_allclose(np.sort(dots[:rows, 1]), np.sort(explanation.values[:, 2]))


def test_shap_draws_one_class_of_many(data):
    X, y = data
    explanation = TreeExplainer(xgboost_classes(X, y))(X)
    shap.plots.beeswarm(explanation[..., 1], show=False)
    assert set(NAMES) <= set(labels(plt.gcf().axes[0].yaxis))
    plt.close("all")
    shap.plots.waterfall(explanation[0, :, 2], show=False)
    shap.plots.bar(explanation[..., 0], show=False)
