"""The numbers of the second edition, setting by setting: pins.npz, made by make_pins.py."""

import numpy as np
import pytest

from tests.laws.settings import FITTED, SELECTIONS, SETTINGS, Setting, answer, fitted, pins, support

pytestmark = pytest.mark.filterwarnings("ignore")  # training rows, estimated starts: on purpose
ASKED = [(name, ask) for name, setting in SETTINGS.items() for ask in setting.asks]


def test_every_question_has_its_pin_and_no_other():
    others = [("selection", name) for name in SELECTIONS] + [("predict", name) for name in FITTED]
    assert sorted(ASKED + others) == sorted(pins())


@pytest.mark.parametrize(("name", "ask"), ASKED)
def test_numbers_have_not_changed(name, ask):
    setting = SETTINGS[name]
    if setting.source.endswith(".cbm"):
        pytest.importorskip("catboost")
    if setting.source in FITTED:
        known = pins()["predict", setting.source]["prediction"]
        if not np.allclose(fitted(setting.source).predict(Setting(setting.source).rows()[0]), known, rtol=1e-9):
            pytest.skip("this version of scikit-learn grows other trees")
    found, stored = answer(setting, ask), pins()[name, ask]
    assert found.keys() == stored.keys()
    for quantity, expected in stored.items():
        array = found[quantity].reshape(expected.shape)  # the third edition keeps the axis of a single output
        size = stored["scores"] if quantity == "base" else expected  # the base may cancel to next to nothing
        allowed = setting.tolerance_of(ask, quantity) * np.abs(size).max(initial=0)
        np.testing.assert_allclose(array, expected, rtol=0, atol=allowed, err_msg=quantity)


@pytest.mark.parametrize("name", SELECTIONS)
def test_the_selector_keeps_the_same_columns(name):
    np.testing.assert_array_equal(support(name), pins()["selection", name]["support"])
