"""Files that old versions of the libraries wrote, read without them, against what those versions answered.

tests/golden/README.md says how the files were made. A model's answers are arrays named "<model>.<answer>" in the
answers.npz beside it; data.npz holds the rows. Only numpy, scipy, narwhals and pytest are needed: wheels are tested
with this file. CatBoost's own format and its text features need catboost, and are skipped without it.
"""

from collections import Counter
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import treeinner as ti
from tests import oracle
from treeinner.read.trees import NodeValues

GOLDEN = Path(__file__).parent.parent / "golden"

FILES = {"xgboost-1.7.6": 12, "xgboost-2.1.4": 14, "xgboost-3.0.5": 14}
FILES |= dict.fromkeys(("xgboost-3.2.0", "xgboost-3.3.0", "xgboost-3.4.1"), 15)
FILES |= dict.fromkeys(("lightgbm-3.3.5", "lightgbm-4.0.0", "lightgbm-4.3.0", "lightgbm-4.6.0", "lightgbm-4.7.0"), 13)
FILES |= dict.fromkeys(("catboost-1.2.2", "catboost-1.2.10"), 11)
PATHS = sorted(path for path in GOLDEN.glob("*-*/*") if path.suffix != ".npz")
CASES = [path.relative_to(GOLDEN).as_posix() for path in PATHS]
ANSWERS = ("margin", "leaf", "contribs", "approx_contribs", "total_gain")


def is_text(case):
    """Whether the rows hold text: CatBoost hashes it, so only it can route them."""
    return "/ctr." in case or "/onehot." in case


@cache
def data():
    """Rows and targets."""
    with np.load(GOLDEN / "data.npz") as stored:
        return {name: stored[name] for name in stored.files}


@cache
def answers(folder):
    """What the library said of the models in a folder."""
    with np.load(GOLDEN / folder / "answers.npz") as stored:
        return {name: stored[name] for name in stored.files}


def model_of(case):
    """Name of the model, without the ending."""
    return case.split("/")[1].rsplit(".", 1)[0]


def answer(case, name):
    """One stored answer, or None where that version could not give it."""
    return answers(case.split("/")[0]).get(f"{model_of(case)}.{name}")


def answered(name, cases=CASES):
    """The cases that have an answer."""
    return [case for case in cases if answer(case, name) is not None]


@cache
def model(case):
    """The file, read."""
    if (case.endswith(".cbm") or is_text(case)) and find_spec("catboost") is None:
        pytest.skip("catboost reads its own format and hashes text")
    return ti.read_model(GOLDEN / case)


def rows(case, name="X"):
    """The rows as the model saw them."""
    X = data()[name].copy()
    if model_of(case) == "frame":  # a frame has no codes outside its levels, those cells were missing
        X[:, -1] = np.where(np.isin(X[:, -1], np.arange(len(data()["levels"]))), X[:, -1], np.nan)
    if not is_text(case):
        return X
    level = dict(enumerate(data()["levels"])) | {-1: "none"}
    words = [str(level.get(code, "unseen")) for code in np.nan_to_num(X[:, -1], nan=-1)]
    X = X.astype(object)
    X[:, -1] = words
    return X


# -- the files -----------------------------------------------------------------------------------------------
def test_every_version_and_file_is_there_and_no_other():
    assert Counter(path.parent.name for path in PATHS) == FILES


def test_only_what_a_version_could_not_say_is_missing():
    missing = {(case, name) for case in CASES for name in ANSWERS if answer(case, name) is None}
    expected = {(case, "approx_contribs") for case in CASES if not case.startswith("xgboost") or "/vector." in case}
    expected |= {(case, "total_gain") for case in CASES if case.startswith("catboost")}
    vector = [case for case in CASES if model_of(case) == "vector"]
    expected |= {(case, "contribs") for case in vector if case < "xgboost-3.3"}
    expected |= {(case, "total_gain") for case in vector if case < "xgboost-3.2"}
    assert missing == expected


@pytest.mark.parametrize("case", CASES)
def test_shape_and_names(case):
    m, margin = model(case), answer(case, "margin")
    assert m.library == case.split("-")[0]
    assert m.loss is not None
    assert m.n_trees == answer(case, "leaf").shape[1]
    assert m.n_outputs == (1 if margin.ndim == 1 else margin.shape[1])
    if model_of(case) != "binary" or case.startswith("catboost"):  # trained without names elsewhere
        assert m.feature_names == tuple(data()["names"])


# -- where rows go, and what they get --------------------------------------------------------------------------
@pytest.mark.parametrize("case", CASES)
def test_leaves_and_margins_are_the_librarys(case):
    m, margin = model(case), answer(case, "margin")
    np.testing.assert_array_equal(m.apply(rows(case)), answer(case, "leaf"))
    scale = max(1.0, np.abs(margin).max())
    # XGBoost adds its trees up in float32: half a unit in the last place of the partial sum for each of them, and
    # partial sums overshoot the margin by less than a factor of two. The others add in float64; CatBoost's JSON loses
    # the last bit of a leaf.
    unit = 2.0**-23 if case.startswith("xgboost") else 1e-14
    np.testing.assert_allclose(m.predict(rows(case)), margin, rtol=0, atol=(m.n_trees + 1) * unit * scale)


@pytest.mark.parametrize("case", [case for case in CASES if not is_text(case)])
def test_the_oracle_finds_the_same_leaves(case):
    m = model(case)
    if m.route is None:
        np.testing.assert_array_equal(oracle.apply(m.trees, rows(case)), answer(case, "leaf"))


@pytest.mark.parametrize("case", [case for case in CASES if model_of(case) == "frame"])
def test_a_frame_goes_by_level_not_by_code(case):
    pd = pytest.importorskip("pandas")
    X, levels = rows(case), data()["levels"].tolist()
    table = pd.DataFrame(X, columns=data()["names"].tolist())
    text = [None if np.isnan(code) else levels[int(code)] for code in X[:, -1]]
    table["colour"] = pd.Categorical(text, categories=sorted(levels))  # in another order than at training
    np.testing.assert_array_equal(model(case).apply(table), answer(case, "leaf"))


@pytest.mark.parametrize("case", answered("total_gain"))
def test_total_gain_is_the_librarys(case):
    # XGBoost adds float32 gains in float32; LightGBM's answers are of a model that went through its text.
    np.testing.assert_allclose(ti.total_gain(model(case)).scores, answer(case, "total_gain"), rtol=1e-6)


# -- attributions ----------------------------------------------------------------------------------------------
def upside_down(m):
    """The same symmetric trees, last split at the root: how CatBoost's TreeSHAP sees them.

    The expectation that TreeSHAP takes over unknown features depends on the order of splits, so its values are not
    those of the trees as they were grown, but of these.
    """
    t = m.trees
    order, cover, left, start = [], [], [], [0]
    for tree in range(t.n_trees):
        splits, node = [], int(t.start[tree])
        while t.column[node] >= 0:
            splits.insert(0, node)
            node = int(t.left[node])
        own = np.arange(t.start[tree], t.start[tree + 1])
        leaves = own[t.column[own] < 0]
        leaves = leaves[np.argsort(t.leaf_id[leaves])]  # bit j of a leaf's number is the answer of split j
        for depth in range(len(splits) + 1):
            n = 2**depth
            order.extend(leaves if depth == len(splits) else [splits[depth]] * n)
            cover.extend(t.cover[leaves].reshape(n, -1).sum(axis=1))
            below = start[-1] + 2 * n - 1 + 2 * np.arange(n)
            left.extend(below if depth < len(splits) else np.full(n, -1))
        start.append(len(order))
    per_node = ("column", "player", "threshold", "missing_left", "category_set", "value", "gain", "leaf_id")
    arrays = {name: getattr(t, name)[order] for name in per_node}
    left = np.array(left)
    links = {"start": start, "left": left, "right": np.where(left >= 0, left + 1, -1), "cover": cover}
    unknown = NodeValues(None, np.full(t.n_trees, np.nan), refusal="the splits stand upside down")
    return replace(m, trees=replace(t, **arrays, **links, node_values=unknown))


def check_contribs(case, method, name):
    m, stored = model(case), answer(case, name)
    if case.startswith("catboost") and model_of(case) != "depthwise":
        m = upside_down(m)
        np.testing.assert_array_equal(m.apply(rows(case)), answer(case, "leaf"))
    if model_of(case) == "rf":
        stored = stored / m.n_trees  # LightGBM predicts the mean of a random forest's trees but explains their sum
    found = ti.attribute(m, rows(case), method=method)
    by_output = found.values.reshape(*found.values.shape[:2], -1).transpose(0, 2, 1)
    base = np.reshape(found.base_values, (len(by_output), -1, 1))
    found = np.concatenate([by_output, base], axis=2).reshape(stored.shape)
    # XGBoost: float32, summed over trees and path weights. The others: float64, weighed by counts that the file holds.
    share = 1e-6 if case.startswith("xgboost") else 1e-12
    np.testing.assert_allclose(found, stored, rtol=0, atol=share * np.abs(stored).max())


@pytest.mark.parametrize("case", [case for case in answered("contribs") if not is_text(case)])
def test_treeshap_is_the_librarys(case):
    check_contribs(case, "treeshap", "contribs")


@pytest.mark.parametrize("case", answered("approx_contribs"))
def test_saabas_is_xgboosts(case):
    check_contribs(case, "saabas", "approx_contribs")
