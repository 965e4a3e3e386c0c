"""What the golden models give, to the last bit: digests in golden/bits.json (see bits.py)."""

import json

import pytest

from . import bits

STORED = json.loads((bits.GOLDEN / "bits.json").read_text())
# Written anew for the second edition, by intention: (name within a case, part of the case's name) -> why.
INTENDED = {
    ("gains saabas", ""): "Saabas needs no learning rate any more, so the unit of its leaf sums does not follow it",
    ("gains treeshap", ""): "shares of rows are summed in units of the loss and divided by the rate afterwards",
    ("gains predecomp", "/alpha."): "the same: with l1 the score comes from the shares of rows, not from the leaves",
    ("gains predecomp", "/lambda_l1."): "the same",
    ("gains predecomp", "catboost"): "the learning rate is the float32 of the training, not JSON's ten digits",
    ("", "lightgbm-*/rf.txt"): "the estimated start is a correctly rounded sum: numpy's had other bits elsewhere",
    ("", "xgboost-*/binary."): "the base margin is computed in float32, as XGBoost does",
    ("", "xgboost-*/poisson."): "the same",
    ("gains", "/rf."): "gains of forests are sums over the trees, as total gain is; the unit of leaf sums follows",
}


def test_every_golden_model_has_its_bits():
    assert sorted(STORED) == bits.cases()


@pytest.mark.parametrize("case", STORED)
@pytest.mark.filterwarnings("ignore")
def test_golden_models_give_their_bits(case):
    assert bits.bits_of(case) == STORED[case]
