"""What others compute: by definition, by the libraries' own numbers, and by scikit-learn's."""

import numpy as np
import pytest
from sklearn.inspection import permutation_importance as scikit_learns

from tests import oracle
from tests.explain.fitted import CLASS, CODE, MODELS, TARGET, X, Y
from treeinner.errors import UnsupportedModelError
from treeinner.explain import attribute
from treeinner.read import read_model
from treeinner.score.baselines import forest_inner, mean_abs, total_gain
from treeinner.score.importance import importance
from treeinner.score.permutation import permutation_importance

WEIGHT = np.random.default_rng(1).choice([0.0, 1.0, 2.5], 150)
CLUSTER = np.arange(150) % 40


@pytest.mark.parametrize("name", MODELS)
def test_mean_abs_is_the_mean_of_absolute_attributions(name):
    values = np.abs(attribute(MODELS[name], X, method="treeshap").by_output[0]).sum(axis=2)
    found = mean_abs(MODELS[name], X, sample_weight=WEIGHT)
    np.testing.assert_allclose(found.scores, np.average(values, axis=0, weights=WEIGHT), rtol=1e-13)
    shares = (values * WEIGHT[:, None])[WEIGHT > 0]
    expected = shares.std(axis=0, ddof=1) * np.sqrt(len(shares)) / WEIGHT.sum()
    np.testing.assert_allclose(found.std_errors, expected, rtol=1e-12)
    assert np.isnan(found.p_values).all()  # a mean of absolute values is never 0
    by_tree = mean_abs(MODELS[name], X, over="trees").scores
    assert (by_tree >= mean_abs(MODELS[name], X).scores - 1e-15).all()


@pytest.mark.parametrize("against", ["residual", "label"])
@pytest.mark.parametrize("name", ["xgboost", "xgboost_classes", "forest"])
def test_forest_inner_by_definition(name, against):
    model, one_hot = read_model(MODELS[name]), np.eye(3)[CODE]
    y = Y[:, None] if name == "xgboost" else one_hot
    if against == "residual" and name != "forest":  # negative gradients before every round, added up
        before = [read_model(model, iteration_range=(0, rounds)).predict(X) for rounds in range(1, model.n_rounds)]
        margins = [np.tile(model.trees.base, (150, 1)), *(margin.reshape(150, -1) for margin in before)]
        y = -sum(model.loss.gradients(Y if name == "xgboost" else CODE, margin) for margin in margins)
    shares = (attribute(model, X).by_output[0] * y[:, None, :]).sum(axis=2)
    sums = np.stack([np.bincount(CLUSTER, column) for column in shares.T], axis=1)
    found = forest_inner(model, X, TARGET[name], against=against, clusters=CLUSTER)
    np.testing.assert_allclose(found.scores, shares.mean(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.std_errors, sums.std(axis=0, ddof=1) * np.sqrt(40) / 150, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"forest"}))
def test_forest_inner_is_the_label_less_its_mean_times_centred_contributions(name):
    model, y = read_model(MODELS[name]), TARGET[name].astype(float)
    n_outputs = model.n_outputs
    label = np.eye(3)[CODE] if n_outputs == 3 else y[:, None]
    label = label - np.average(label, axis=0, weights=WEIGHT)  # of classes too: the start is the same for all rows
    found = forest_inner(model, X, TARGET[name], sample_weight=WEIGHT, clusters=CLUSTER)
    assert (found.score, found.method) == ("forest_inner", "centred")
    centred = attribute(model, X, method="centred", reference=found).by_output[0]
    expected = np.average(centred * label[:, None, :], axis=0, weights=WEIGHT)
    np.testing.assert_allclose(found.scores, expected.sum(axis=1), rtol=1e-6, atol=1e-8)  # gradients in 32 bits
    if n_outputs > 1:
        np.testing.assert_allclose(found.outputs.score, expected, rtol=1e-6, atol=1e-8)
    # Errors: the means of the nodes were estimated on these rows too.
    residual = np.broadcast_to(WEIGHT[:, None] * label, (model.n_rounds, 150, n_outputs))
    shares = oracle.centred_shares(model.trees, X.to_numpy(), residual, WEIGHT).sum(axis=(0, 3))
    used = np.unique(CLUSTER[WEIGHT > 0])
    sums = np.stack([np.bincount(CLUSTER, column)[used] for column in shares.T], axis=1)
    errors = sums.std(axis=0, ddof=1) * np.sqrt(len(used)) / WEIGHT.sum()
    np.testing.assert_allclose(found.std_errors, errors, rtol=1e-5, atol=1e-8)
    low, high = found.interval(0.95)
    np.testing.assert_array_equal(found.p_values < 0.05, (low > 0) | (high < 0))


def test_forest_inner_goes_by_the_margin_before_the_first_tree():
    start, model = np.linspace(-1, 1, 150), MODELS["boosting"]
    plain = forest_inner(MODELS["xgboost"], X, Y)
    given = forest_inner(MODELS["xgboost"], X, Y + start, base_margin=start)
    np.testing.assert_allclose(given.scores, plain.scores, rtol=1e-6)  # only the distance counts
    both = forest_inner(model, X, Y, feature_groups={"both": ["alpha", "beta"]}).scores
    np.testing.assert_allclose(both[0], forest_inner(model, X, Y).scores[:2].sum(), rtol=1e-9)
    grown_side_by_side = forest_inner(MODELS["forest"], X, CLASS)
    np.testing.assert_array_equal(grown_side_by_side.scores, importance(MODELS["forest"], X, CLASS).scores)
    with pytest.raises(ValueError, match="does not go with against='label'"):
        forest_inner(model, X, Y, method="centred", against="label")
    with pytest.raises(ValueError, match="'predecomp' does not go with against='start'"):
        forest_inner(model, X, Y, method="predecomp", against="start")
    with pytest.raises(ValueError, match=r"ti\.attribute"):
        mean_abs(model, X, method="centred")


def test_total_gain_is_the_librarys():
    gain = MODELS["xgboost"].get_booster().get_score(importance_type="total_gain")
    np.testing.assert_allclose(total_gain(MODELS["xgboost"]).scores, [gain[name] for name in X], rtol=1e-6)  # float32
    gain = MODELS["lightgbm"].booster_.feature_importance("gain")
    np.testing.assert_allclose(total_gain(MODELS["lightgbm"]).scores, gain, rtol=1e-5)  # six digits
    with pytest.raises(UnsupportedModelError, match="predecomp"):
        total_gain(MODELS["catboost"])


def test_permutation_importance_has_scikit_learns_numbers():
    model = MODELS["boosting"]
    own = scikit_learns(
        model, X, Y, scoring="neg_mean_squared_error", n_repeats=4, random_state=7, sample_weight=WEIGHT
    )
    found = permutation_importance(model, X, Y, n_repeats=4, random_state=7, sample_weight=WEIGHT)
    np.testing.assert_allclose(2 * found.scores, own.importances_mean, atol=1e-12)  # the loss is half the squared error
    both = permutation_importance(model, X, Y, random_state=1, feature_groups={"both": ["alpha", "beta"]})
    one = permutation_importance(model, X, Y, random_state=1, clusters=np.arange(150))
    np.testing.assert_allclose(both.scores[1:], one.scores[2:], rtol=1e-12)
    np.testing.assert_allclose(one.std_errors[2:], both.std_errors[1:], rtol=1e-9)  # each row a cluster
    with pytest.raises(ValueError, match="n_repeats"):
        permutation_importance(model, X, Y, n_repeats=0)
    with pytest.raises(UnsupportedModelError, match="loss of each row"):
        permutation_importance(read_model(model, objective=lambda y, m: m - y), X, Y)


def test_random_states_of_the_permutations():
    def scores(state):
        return permutation_importance(MODELS["xgboost"], X, Y, n_repeats=2, random_state=state).scores

    np.testing.assert_array_equal(scores(np.random.RandomState(3)), scores(3))
    with pytest.raises(ValueError, match="random_state='three': expected an integer"):
        scores("three")
