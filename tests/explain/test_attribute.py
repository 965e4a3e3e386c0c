"""attribute, Attribution and TreeExplainer against the libraries, shap and their own laws."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost as xgb
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import treeinner as ti
from tests.explain.fitted import CODE, MODELS, SMALL, TARGET, X, Y, margin_of
from treeinner.errors import UnsupportedModelError
from treeinner.explain import TreeExplainer, attribute

EVERY = [(name, method) for name in MODELS for method in ("predecomp", "saabas", "treeshap")]


@pytest.mark.parametrize(("name", "method"), EVERY)
def test_attributions_add_up_to_the_margin(name, method):
    found = attribute(MODELS[name], X, method=method)
    expected = margin_of(name)
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), expected, atol=3e-6)  # float32 in XGBoost
    np.testing.assert_allclose(TreeExplainer(MODELS[name], method=method).expected_value, found.base_values[0])
    assert found.values.shape == (150, 4, *expected.shape[1:])
    assert not found.values.flags.writeable


@pytest.mark.parametrize(
    "name", sorted(set(MODELS) - {"catboost"})
)  # for which shap asks CatBoost, and that walks otherwise
def test_treeshap_is_shaps(name):
    shap = pytest.importorskip("shap")
    ours, theirs = TreeExplainer(MODELS[name]), shap.TreeExplainer(MODELS[name])
    # XGBoost's and shap's own code sum in float32 for some models: 1e-6 of values of order 1.
    np.testing.assert_allclose(ours(X).values, theirs(X).values, rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(ours.shap_values(X), theirs.shap_values(X), rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(np.ravel(ours.expected_value), np.ravel(theirs.expected_value), rtol=1e-5, atol=1e-5)
    assert ours(X[:3]).data.shape == (3, 4)


def test_contributions_are_those_of_xgboost():
    data = xgb.DMatrix(X)
    for name in ("xgboost", "xgboost_classes"):
        booster = MODELS[name].get_booster()
        for method, approximate in (("treeshap", False), ("saabas", True)):
            expected = booster.predict(data, pred_contribs=True, approx_contribs=approximate)
            found = attribute(MODELS[name], X, method=method)
            ours = np.concatenate([found.values, found.base_values[:, None]], axis=1).swapaxes(1, -1)
            np.testing.assert_allclose(ours, expected, atol=2e-6)


def test_rows_by_number_and_features_by_name():
    found = attribute(MODELS["xgboost_classes"], X)
    np.testing.assert_array_equal(found[3].values, found.values[3:4])
    np.testing.assert_array_equal(found[-1].base_values, found.base_values[-1:])
    np.testing.assert_array_equal(found[:, ["delta", "alpha"]], found.values[:, [3, 0]])
    assert list(found[5:7].to_frame().index) == [5, 6]
    assert list(found.to_frame().columns)[:2] == ["0: alpha", "0: beta"]
    with pytest.raises(KeyError, match="alpha"):
        found[:, "alpah"]


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (pl.DataFrame(X.to_dict("list")), pl.DataFrame),
        (pa.table(X.to_dict("list")), pa.Table),
        (X.to_numpy(), pd.DataFrame),
        (X[["delta", "beta", "alpha", "gamma"]], pd.DataFrame),
    ],
    ids=["polars", "pyarrow", "numpy", "another order"],
)
def test_frames_come_back_in_the_library_they_came_in(table, kind):
    found, expected = attribute(MODELS["xgboost"], table), attribute(MODELS["xgboost"], X)
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.to_shap().data, X.to_numpy())
    assert isinstance(found.to_frame(), kind)


def test_groups_margins_and_copies():
    start, plain = np.linspace(-1, 1, 150), attribute(MODELS["xgboost"], X)
    found = attribute(MODELS["xgboost"], X, base_margin=start, feature_groups={"outer": ["alpha", 3]})
    assert (found.feature_names, found.data) == (("outer", "beta", "gamma"), None)
    np.testing.assert_array_equal(found.values[:, 0], plain.values[:, 0] + plain.values[:, 3])
    expected = MODELS["xgboost"].get_booster().predict(xgb.DMatrix(X, base_margin=start))
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), expected, atol=2e-6)  # float32
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.values, found.values)
    assert repr(again) == "Attribution(predecomp: 150 rows x 3 features, in units of the target)"
    assert "outer" in again[0]._repr_html_()


def test_a_pipeline_is_reported_by_the_columns_that_go_in():
    raw = X.assign(colour=np.where(np.arange(150) % 3, "red", "blue"))
    encode = ColumnTransformer([("colour", OneHotEncoder(), ["colour"])], remainder="passthrough")
    model = make_pipeline(encode, xgb.XGBRegressor(**SMALL)).fit(raw, Y + 3 * (raw["colour"] == "red"))
    inside, found = attribute(model, raw, feature_groups="encoded"), attribute(model, raw)
    assert set(found.feature_names) == set(raw.columns)
    assert len(inside.feature_names) == 6
    np.testing.assert_allclose(found[:, "colour"], inside.values[:, :2].sum(axis=1), atol=1e-15)
    assert (found.to_shap().data[:, -1] == raw["colour"]).all()


@pytest.mark.parametrize("name", MODELS)
def test_centred_contributions_are_those_that_are_scored(name):
    few = np.arange(150) % 5 == 0  # so few that rows of X reach nodes which no scored row reached
    imp = ti.importance(MODELS[name], X[few], TARGET[name][few])
    found = attribute(MODELS[name], X, method="centred", reference=imp)
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), margin_of(name), atol=3e-6)  # float32
    values, base = found[few].by_output
    np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=1e-9)  # every node's mean is that of its rows
    np.testing.assert_allclose(base[0], margin_of(name)[few].reshape(30, -1).mean(axis=0), atol=3e-6)
    # holds is a matter of these contributions and the margins alone.
    margin, loss = base + values.sum(axis=1), ti.read_model(MODELS[name]).loss
    y = CODE if name == "forest" else TARGET[name]

    def gain(effect, margin):
        target = np.eye(3)[y[few]] - margin if name == "forest" else -loss.gradients(y[few].astype(float), margin)
        return (effect * target).sum()

    for k, feature in enumerate(X):
        effect = values[:, k]
        without, whole = gain(effect, margin - effect), gain(effect, margin)
        expected = without / (without - whole) if np.any(effect) else np.nan
        assert imp[feature].holds == pytest.approx(expected, rel=1e-5, nan_ok=True)


def test_a_reference_is_of_the_model_and_of_centred_scores():
    imp, other = ti.importance(MODELS["xgboost"], X, Y), MODELS["boosting"]
    for reference, words in ((None, "it is missing"), (imp.scores, "ndarray has no node values")):
        with pytest.raises(ValueError, match=rf"reference=ti\.importance.*{words}"):
            attribute(MODELS["xgboost"], X, method="centred", reference=reference)
    with pytest.raises(ValueError, match="another model"):
        attribute(other, X, method="centred", reference=imp)
    with pytest.raises(ValueError, match="method='centred', not with 'saabas'"):
        attribute(MODELS["xgboost"], X, method="saabas", reference=imp)
    with pytest.raises(ValueError, match=r"ti\.attribute\(model, X, method='centred', reference=imp\)"):
        TreeExplainer(MODELS["xgboost"], method="centred")
    found = attribute(MODELS["xgboost"], X, method="centred", reference=pickle.loads(pickle.dumps(imp)))
    assert "rows of the reference" in found.base_definition


def test_what_is_not_an_attribution_of_single_rows_is_refused():
    with pytest.raises(ValueError, match="treeshap"):
        attribute(MODELS["xgboost"], X, method="tree_shap")
    with pytest.raises(UnsupportedModelError, match="Background data"):
        TreeExplainer(MODELS["xgboost"], X)
    with pytest.raises(TypeError, match="positional"):
        TreeExplainer(MODELS["xgboost"]).shap_values(X, Y)
    with pytest.raises(UnsupportedModelError, match="model_output='raw'"):
        TreeExplainer(MODELS["xgboost"], model_output="probability")
    with pytest.raises(UnsupportedModelError, match="no SHAP interaction values"):
        TreeExplainer(MODELS["xgboost"])(X, interactions=True)
    with pytest.raises(IndexError, match="150 is out of bounds"):
        attribute(MODELS["xgboost"], X)[150]
