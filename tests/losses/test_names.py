"""Names: what a model stores, what a user says, and what is refused."""

import pickle

import numpy as np
import pytest

from tests.losses.cases import CASES, loss_of
from treeinner.errors import DataError, UnknownParameterError, UnsupportedModelError
from treeinner.losses import Loss, catalogue, find_loss, find_stored_loss


def slope(y, margin):
    """A loss of one's own, at the top of a module so that it can be pickled."""
    return 2 * (margin - y)


def test_what_a_user_says_wins_over_what_the_model_stores():
    """Findings: parameters of the model's own loss were ignored."""
    for library, name, told in (
        ("lightgbm", "quantile", "quantile:alpha=0.9"),
        ("catboost", "Quantile", "Quantile:alpha=0.9"),
        ("xgboost", "reg:quantileerror", "reg:quantileerror:alpha=0.9"),
    ):
        stored = {"alpha": 0.3, "quantile_alpha": 0.3} if library == "xgboost" else {"alpha": 0.3}
        assert loss_of(library, name, stored, told=told).gradients([1.0], [0.0])[0, 0] == -0.9
        assert loss_of(library, name, stored, told=name).gradients([1.0], [0.0])[0, 0] == -0.3  # the others stay
    stored = {"sigmoid": 2.0, "is_unbalance": True, "label_weights": [1.0, 4.0]}  # those that training found
    for told, weight in ((None, 4.0), ("binary:scale_pos_weight=5", 5.0)):
        weighted = loss_of("lightgbm", "binary", stored, told=told)
        np.testing.assert_allclose(weighted.gradients([0.0, 1.0], [0.0, 0.0])[:, 0], [1.0, -weight])
    both = loss_of("catboost", "Logloss", {"class_weights": [1.0, 2.0]}, told="Logloss:scale_pos_weight=5")
    np.testing.assert_allclose(both.gradients([0.0, 1.0], [0.0, 0.0])[:, 0], [0.5, -2.5])
    for told, unit in (("mae", "square root of the target"), ("absolute_error", "units of the target")):
        assert loss_of("lightgbm", "regression_l1", {"reg_sqrt": True}, told=told).unit == unit


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("quantile:alfa=0.9", "alpha"),
        ("Logloss:class_weights=[1,2,3]", "expected 2"),
        ("quantil", "did you mean 'quantile'"),
        ("quantile:alpha=high", "'high'.* is not a number"),
        (3.0, "neither a name"),
    ],
)
def test_what_is_not_known_of_a_told_loss_is_an_error(told, says):
    with pytest.raises(UnknownParameterError, match=says):
        loss_of("lightgbm", "regression", told=told)


@pytest.mark.parametrize(
    ("library", "name", "params", "version", "error", "says"),
    [
        ("xgboost", "rank:ndcg", {}, (2, 1, 4), UnsupportedModelError, "XGBoost 3"),
        ("lightgbm", "rank_xendcg", {}, (), UnsupportedModelError, "random"),
        ("catboost", "PairLogit", {}, (), UnsupportedModelError, r"ti\.mean_abs"),
        ("xgboost", "quantile", {}, (3, 2), UnsupportedModelError, "quantile"),  # a name of other libraries
        ("lightgbm", "multiclassova", {"is_unbalance": True}, (), UnsupportedModelError, "class weights"),
        ("lightgbm", "binary", {"is_unbalance": True}, (), UnknownParameterError, "scale_pos_weight"),
        ("xgboost", "reg:absoluteerror", {}, (), UnknownParameterError, "smooth_absolute_error"),
        ("lightgbm", "huber", {}, (), UnknownParameterError, "huber:alpha="),
        ("xgboost", "", {}, (3, 2), UnknownParameterError, "objective="),
        ("xgboost", "survival:aft", {"aft_loss_distribution": "t"}, (3, 2), UnsupportedModelError, "known: normal"),
    ],
)
def test_what_is_not_known_of_a_stored_loss_says_what_to_pass(library, name, params, version, error, says):
    asked = {"library": library, "name": name, "params": params, "n_outputs": 1, "version": version}
    with pytest.raises(error, match=says):
        find_loss(told=None, **asked)
    loss, needed = find_stored_loss(**asked)
    assert loss is None
    assert needed
    assert find_loss(told=slope, **asked).gradients([1.0], [3.0])[0, 0] == 4.0


def test_losses_of_ones_own():
    ours = loss_of("xgboost", "", told=slope)
    np.testing.assert_array_equal(ours.gradients([1.0, 2.0], [3.0, 5.0], weight=[1.0, 3.0]), [[4.0], [18.0]])
    pair = loss_of("xgboost", "", told=lambda y, margin: (margin - y, np.ones_like(margin)))
    np.testing.assert_array_equal(pair.gradients([1.0], [3.0]), [[2.0]])
    own = Loss(name="mine", value=lambda y, m: (m - y) ** 4, gradient=lambda y, m: 4 * (m - y) ** 3, unit="feet")
    assert loss_of("xgboost", "", told=own) is own
    np.testing.assert_array_equal(own.gradients([1.0], [3.0], weight=[2.0]), [[64.0]])
    np.testing.assert_array_equal(own.losses([1.0], [3.0]), [16.0])
    with pytest.raises(DataError, match="gradient of row 0 is nan"):
        loss_of("xgboost", "", told=lambda y, margin: margin * np.nan).gradients([1.0], [3.0])


def test_losses_can_be_pickled():
    for library, name, params, _, k, _ in CASES:
        loss = loss_of(library, name, params, k)
        again = pickle.loads(pickle.dumps(loss))
        assert (again.name, again.words, again.scope) == (loss.name, loss.words, loss.scope)
    again = pickle.loads(pickle.dumps(loss_of("xgboost", "", told=slope)))
    assert again.gradients([1.0], [3.0])[0, 0] == 4.0
    own = pickle.loads(pickle.dumps(Loss(name="mine", gradient=slope)))
    assert own.gradients([1.0], [3.0])[0, 0] == 4.0


def test_every_name_can_be_made_and_says_in_words_what_it_is():
    given = {"alpha": 0.5, "delta": 0.5, "fair_c": 1.0, "q": 2.0, "tweedie_variance_power": 1.5, "variance_power": 1.5}
    given |= {"focal_alpha": 0.5, "focal_gamma": 2.0, "sigmoid": 1.0, "aft_loss_distribution": "normal"}
    for library, names in catalogue.LIBRARIES.items():
        for name in names:
            loss = loss_of(library, name, given, n_outputs=2 if "ulti" in name else 1)
            assert loss.name == name
            assert loss.words


@pytest.mark.parametrize(
    ("library", "name", "params", "words", "unit"),
    [
        ("xgboost", "reg:squarederror", {}, "half the squared error", "units of the target"),
        ("xgboost", "count:poisson", {}, "Poisson deviance / 2", "log of the mean"),
        ("xgboost", "binary:logistic", {"scale_pos_weight": 5.0}, "log loss, classes weighted 1, 5", "log-odds"),
        ("catboost", "MAE", {}, "half the absolute error", "units of the target"),
        ("catboost", "MultiClass", {}, "log loss", "unnormalised log-probability"),  # it has no zero of its own
        ("lightgbm", "quantile", {"alpha": 0.9}, "pinball loss at 0.9", "units of the target"),
    ],
)
def test_loss_and_margin_have_units_in_words(library, name, params, words, unit):
    loss = loss_of(library, name, params, n_outputs=3 if name == "MultiClass" else 1)
    assert (loss.words, loss.unit) == (words, unit)
