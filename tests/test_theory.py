"""Propositions of docs/theory.md, on XGBoost's own trees: read from its JSON, and routed here, without treeinner."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import xgboost as xgb

import treeinner as ti

pytestmark = pytest.mark.filterwarnings("ignore::treeinner.TreeInnerWarning")  # training rows, an assumed loss
ETA = 0.3
ONE_THREAD = {"nthread": 1, "eta": ETA, "base_score": 0.0, "max_depth": 3}


def draw(seed, n=400, columns=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns)).astype(np.float32)
    return X, X[:, 0] * 2 + np.abs(X[:, 1]) + rng.normal(size=n)


def train(X, y, rounds=6, **params):
    return xgb.train(ONE_THREAD | params, xgb.DMatrix(X, y, nthread=1), rounds)


def steps(booster, X):
    """Of every tree: its arrays, which rows reach which node (nodes, rows), and the margin before it."""
    margin = np.zeros(len(X))
    for tree in json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]:
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        cut, column = np.array(tree["split_conditions"], np.float32), np.array(tree["split_indices"])
        inside = np.zeros((len(left), len(X)), bool)
        inside[0] = True
        for t in np.flatnonzero(left >= 0):  # children have larger numbers than their parents
            goes = X[:, column[t]] < cut[t]
            inside[left[t]], inside[right[t]] = inside[t] & goes, inside[t] & ~goes
        leaf = left < 0
        value = (inside[leaf] * cut[leaf].astype(float)[:, None]).sum(axis=0)
        weight = np.where(
            leaf, cut / ETA, np.array(tree["base_weights"])
        )  # what a node would predict, without the rate
        yield (
            {"left": left, "right": right, "column": column, "w": weight, "gain": tree["loss_changes"]},
            inside,
            margin,
        )
        margin = margin + value


@pytest.mark.parametrize(("loss", "alpha"), [("squared", 5), ("squared", 50), ("logistic", 5)])
def test_l1_gain_of_a_split_is_its_inner_product_and_a_term_without_data(loss, alpha):
    """worth(t) = -(w G + alpha |w|), and the gain is worth(left) + worth(right) - worth(t)."""
    X, y = draw(3)
    y = y if loss == "squared" else (y > 0).astype(float)
    objective = "reg:squarederror" if loss == "squared" else "binary:logistic"
    start = {} if loss == "squared" else {"base_score": 0.5}  # a probability: margin 0
    # min_child_weight 0: a node of little hessian would else have its weight set to 0
    booster = train(X, y, objective=objective, reg_alpha=alpha, min_child_weight=0, **start)
    for tree, inside, margin in steps(booster, X):
        G = inside @ ((margin if loss == "squared" else 1 / (1 + np.exp(-margin))) - y)
        worth = -(tree["w"] * G + alpha * np.abs(tree["w"]))
        t = np.flatnonzero(tree["left"] >= 0)
        gain = worth[tree["left"][t]] + worth[tree["right"][t]] - worth[t]
        # 4e-6 of the largest worth: float32 sums and gains, and a gain is a difference of worths
        np.testing.assert_allclose(gain, np.array(tree["gain"])[t], atol=4e-6 * max(np.abs(worth).max(), 1.0))


def test_centred_scores_are_sums_of_products_and_add_up_to_covariances():
    booster, (X, y) = train(*draw(0), reg_lambda=5), draw(1)
    found, halves, total = np.zeros(X.shape[1]), np.zeros(X.shape[1]), 0.0
    for tree, inside, margin in steps(booster, X):
        leaf = tree["left"] < 0
        value, residual = ETA * tree["w"][leaf] @ inside[leaf], y - margin
        total += np.cov(value, residual, bias=True)[0, 1]
        for t in np.flatnonzero(~leaf):
            low, high = inside[tree["left"][t]], inside[tree["right"][t]]
            if low.any() and high.any():
                dc, dg = value[low].mean() - value[high].mean(), residual[low].mean() - residual[high].mean()
                factor = low.sum() * high.sum() / inside[t].sum() / len(X)
                found[tree["column"][t]] += dc * dg * factor
                halves[tree["column"][t]] += dc * dc * factor / 2
    scores = ti.importance(booster, X, y, score="tree_inner").scores
    np.testing.assert_allclose(scores, found, atol=1e-6)  # XGBoost's leaves are float32
    assert scores.sum() == pytest.approx(total, abs=1e-6)
    paid = ti.importance(booster, X, y, score="loss").scores
    np.testing.assert_allclose(paid, found - halves, atol=1e-6)  # Proposition 11


def test_predecomp_less_centred_is_a_matter_of_the_roots():
    booster, (X, y) = train(*draw(0), reg_lambda=5), draw(1)
    expected = 0.0
    for tree, inside, margin in steps(booster, X):
        leaf = tree["left"] < 0
        centre = (ETA * tree["w"][leaf] @ inside[leaf]).mean()
        expected += (centre - ETA * tree["w"][0]) * (y - margin).mean()
    predecomp, centred = (
        ti.importance(booster, X, y, score="tree_inner", method=m).scores.sum() for m in ("predecomp", "centred")
    )
    assert predecomp - centred == pytest.approx(expected, abs=1e-6)


def test_every_test_that_the_page_names_exists():
    root = Path(__file__).parent
    named = re.findall(r"`(test_\w+)`", (root.parent / "docs/theory.md").read_text(encoding="utf-8"))
    tests = "".join(path.read_text(encoding="utf-8") for path in root.rglob("test_*.py"))
    assert not [name for name in named if f"def {name}(" not in tests]


def test_standard_errors_are_those_of_the_influence_function():
    booster, (X, y) = train(*draw(0)), draw(1, n=60)
    model, change = ti.read_model(booster), 2.0**-10
    influence = np.empty((len(X), X.shape[1]))
    asked = {"score": "tree_inner"}
    for i in range(len(X)):
        more, less = (np.where(np.arange(len(X)) == i, 1 + sign * change, 1.0) for sign in (1, -1))
        up, down = (ti.importance(model, X, y, sample_weight=w, std_errors=False, **asked).scores for w in (more, less))
        influence[i] = len(X) * (up - down) / (2 * change)
    expected = influence.std(axis=0, ddof=1) / np.sqrt(len(X))
    found = ti.importance(model, X, y, **asked).std_errors
    np.testing.assert_allclose(found, expected, rtol=1e-3)  # of the difference quotient
