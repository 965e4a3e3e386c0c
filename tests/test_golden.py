"""Files that old versions of the libraries wrote, read without them, against what those versions answered.

tests/golden/README.md says how the files were made. A model's answers are arrays named "<model>.<answer>" in
the answers.npz beside it; data.npz holds the rows.
"""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import treeinner
from tests import oracle
from treeinner.ensemble.ensemble import PER_NODE
from treeinner.errors import DataError
from treeinner.model import read_model
from treeinner.readers.catboost import make_table

GOLDEN = Path(__file__).parent / "golden"

XGBOOST = {
    *("absolute.ubj", "alpha.ubj", "binary.ubj", "categorical.ubj", "categorical_onehot.ubj", "dart.ubj"),
    *("multiclass.ubj", "parallel.ubj", "poisson.ubj", "pruned.ubj", "regression.json", "regression.ubj"),
}
LIGHTGBM = {
    *(
        "binary.txt",
        "categorical.txt",
        "categorical_onehot.txt",
        "dart.txt",
        "frame.txt",
        "l1.txt",
        "lambda_l1.txt",
    ),
    *("multiclass.txt", "no_missing.txt", "poisson.txt", "regression.txt", "rf.txt", "zero_as_missing.txt"),
}
CATBOOST = {
    *("binary.cbm", "ctr.cbm", "depthwise.cbm", "depthwise.json", "multiclass.cbm", "multiclass.json"),
    *("nan_max.json", "onehot.cbm", "onehot.json", "regression.cbm", "regression.json"),
}
FILES = {
    "xgboost-1.7.6": XGBOOST,
    "xgboost-2.1.4": XGBOOST | {"vector.ubj", "quantile.ubj"},
    "xgboost-3.0.5": XGBOOST | {"vector.ubj", "quantile.ubj"},
    "xgboost-3.2.0": XGBOOST | {"vector.ubj", "quantile.ubj", "frame.ubj"},
    "xgboost-3.3.0": XGBOOST | {"vector.ubj", "quantile.ubj", "frame.ubj"},
    "xgboost-3.4.1": XGBOOST | {"vector.ubj", "quantile.ubj", "frame.ubj"},
    **{f"lightgbm-{version}": LIGHTGBM for version in ("3.3.5", "4.0.0", "4.3.0", "4.6.0", "4.7.0")},
    **{f"catboost-{version}": CATBOOST for version in ("1.2.2", "1.2.10")},
}
CASES = [f"{folder}/{name}" for folder, names in FILES.items() for name in sorted(names)]
TEXT = [case for case in CASES if "/ctr." in case or "/onehot." in case]  # CatBoost hashes text, so only it can route
NUMERIC = [case for case in CASES if case not in TEXT]  # X is an array of numbers


@cache
def data():
    with np.load(GOLDEN / "data.npz") as stored:
        return {name: stored[name] for name in stored.files}


@cache
def all_answers(folder):
    with np.load(GOLDEN / folder / "answers.npz") as stored:
        return {name: stored[name] for name in stored.files}


@cache
def names_of_answers(folder):
    with np.load(GOLDEN / folder / "answers.npz") as stored:
        return set(stored.files)


def answered(cases, name):
    """The cases that have an answer; without loading it, since files are collected before they are run."""
    return [c for c in cases if f"{model_of(c)}.{name}" in names_of_answers(c.split("/")[0])]


def answer(case, name):
    """One stored answer, or None where that version could not give it."""
    folder, model = case.split("/")
    return all_answers(folder).get(f"{model.rsplit('.', 1)[0]}.{name}")


@cache
def ensemble(case):
    return read_model(GOLDEN / case).ensemble


def model_of(case):
    return case.split("/")[1].rsplit(".", 1)[0]


def version_of(case):
    return tuple(int(part) for part in case.split("/")[0].split("-")[1].split("."))


def rows(case, X):
    """The rows as the model saw them; a frame has no codes outside its levels, those cells were missing."""
    X = X.copy()
    if model_of(case) == "frame":
        codes = X[:, -1]
        X[:, -1] = np.where(np.isin(codes, np.arange(len(data()["levels"]))), codes, np.nan)
    return X


def words(X):
    """The rows as CatBoost's categorical models saw them: levels as text in the last column."""
    level = dict(enumerate(data()["levels"])) | {-1: "none"}
    table = X.astype(object)
    table[:, -1] = [str(level.get(code, "unseen")) for code in np.nan_to_num(X[:, -1], nan=-1)]
    return table


def frame(X):
    """A pandas frame whose categories are listed in another order than at training: they go by value."""
    pd = pytest.importorskip("pandas")
    levels = data()["levels"].tolist()
    known = np.isin(X[:, -1], np.arange(len(levels)))
    table = pd.DataFrame(X, columns=data()["names"].tolist())
    text = [levels[int(code)] if ok else None for code, ok in zip(X[:, -1], known, strict=True)]
    table["colour"] = pd.Categorical(text, categories=sorted(levels))
    return table


def margin_tolerance(case):
    """Absolute error allowed on a margin."""
    scale = max(1.0, np.abs(answer(case, "margin")).max())
    if case.startswith("xgboost"):
        # It adds its trees up one by one in float32: half a unit in the last place of the partial sum for
        # each of them, and partial sums overshoot the margin by less than a factor of two.
        return (ensemble(case).n_trees + 1) * 2.0**-24 * 2 * scale
    return 1e-14 * scale * ensemble(case).n_trees  # float64 sums; CatBoost's JSON loses the last bit of a leaf


# -- the files -----------------------------------------------------------------------------------------------
def test_every_version_and_file_is_there_and_no_other():
    found = {
        folder.name: {path.name for path in folder.iterdir() if path.suffix != ".npz"}
        for folder in GOLDEN.iterdir()
        if folder.is_dir() and "-" in folder.name
    }
    assert found == FILES


def test_only_what_a_version_could_not_say_is_missing():
    missing = {
        (case, name)
        for case in CASES
        for name in ("margin", "leaf", "contribs", "approx_contribs", "total_gain")
        if answer(case, name) is None
        and not (name == "approx_contribs" and not case.startswith("xgboost"))
        and not (name == "total_gain" and case.startswith("catboost"))
    }
    vector = [case for case in CASES if model_of(case) == "vector"]
    expected = {(case, "approx_contribs") for case in vector}
    expected |= {(case, "contribs") for case in vector if version_of(case) < (3, 3)}
    expected |= {(case, "total_gain") for case in vector if version_of(case) < (3, 2)}
    assert missing == expected


# -- what the reader says ------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", CASES)
def test_shape_and_names(case):
    e = ensemble(case)
    margin = answer(case, "margin")
    assert e.library == case.split("-")[0]
    assert e.n_trees == answer(case, "leaf").shape[1]
    assert e.n_outputs == (1 if margin.ndim == 1 else margin.shape[1])
    if model_of(case) != "binary" or case.startswith("catboost"):  # trained without names elsewhere
        assert e.feature_names == tuple(data()["names"])


@pytest.mark.parametrize("case", NUMERIC)
def test_leaves(case):
    X = rows(case, data()["X"])
    np.testing.assert_array_equal(oracle.apply(ensemble(case), X), answer(case, "leaf"))


@pytest.mark.parametrize("case", NUMERIC)
def test_margins(case):
    margin = answer(case, "margin").reshape(len(data()["X"]), -1)
    found = oracle.predict(ensemble(case), rows(case, data()["X"]))
    np.testing.assert_allclose(found, margin, rtol=0, atol=margin_tolerance(case))


@pytest.mark.parametrize("case", NUMERIC)
def test_kernels_find_the_same_leaves_and_margins(case):
    X = rows(case, data()["X"])
    np.testing.assert_array_equal(ensemble(case).apply(X), answer(case, "leaf"))
    found = ensemble(case).predict(X)
    np.testing.assert_allclose(found, answer(case, "margin"), rtol=0, atol=margin_tolerance(case))


@pytest.mark.parametrize("case", [case for case in CASES if model_of(case) == "frame"])
def test_a_frame_goes_by_level_not_by_code(case):
    table = frame(data()["X"])
    np.testing.assert_array_equal(ensemble(case).apply(table), answer(case, "leaf"))
    np.testing.assert_allclose(
        ensemble(case).predict(table), answer(case, "margin"), rtol=0, atol=margin_tolerance(case)
    )


@pytest.mark.parametrize("case", TEXT)
def test_rows_with_text_need_the_library_and_the_error_says_so(case):
    with pytest.raises(DataError, match="CatBoost"):
        ensemble(case).predict(words(data()["X"]))


@pytest.mark.parametrize("case", TEXT)
def test_rows_with_text_go_where_the_library_sends_them(case):
    pytest.importorskip("catboost")  # it hashes the text
    table = make_table(GOLDEN / case, words(data()["X"]), ensemble(case))
    block = table.block(0, table.n_rows)
    X = np.asarray(block, dtype=np.float64) if isinstance(block, np.ndarray) else np.column_stack(block).astype(float)
    np.testing.assert_array_equal(oracle.apply(ensemble(case), X), answer(case, "leaf"))
    found = oracle.predict(ensemble(case), X)[:, 0]
    np.testing.assert_allclose(found, answer(case, "margin"), rtol=0, atol=margin_tolerance(case))


# -- gains, rates, node values -------------------------------------------------------------------------------
@pytest.mark.parametrize("case", answered(CASES, "total_gain"))
def test_stored_gains_add_up_to_the_librarys_total_gain(case):
    e, inner = ensemble(case), ensemble(case).feature >= 0
    found = np.bincount(e.feature[inner], e.gain[inner], minlength=e.schema.n_columns)
    # XGBoost adds float32 gains in float32; LightGBM's answers are of a model that went through its text.
    np.testing.assert_allclose(found, answer(case, "total_gain"), rtol=1e-6)


# One plain Newton step in every round, so that the file (or inference, where it is silent) settles the rate.
PLAIN = ("regression", "binary", "multiclass", "categorical", "categorical_onehot", "frame", "pruned")


@pytest.mark.parametrize("case", [case for case in CASES if model_of(case) in (*PLAIN, "alpha", "lambda_l1")])
def test_rate_and_penalties_are_known(case):
    e = ensemble(case)
    # Stored in float32 by CatBoost; inferred for XGBoost from float32 weights: 6 to 8 digits at depth 3.
    np.testing.assert_allclose(e.tree_rate, answer(case, "learning_rate"), rtol=2e-6)
    np.testing.assert_allclose(e.params["reg_lambda"], answer(case, "reg_lambda"), rtol=2e-5)
    np.testing.assert_allclose(e.params["reg_alpha"], answer(case, "reg_alpha"), rtol=2e-5)


@pytest.mark.parametrize("case", CASES)
def test_what_a_file_does_not_say_can_be_told(case):
    told = {name: float(answer(case, name)) for name in ensemble(case).needs}
    e = read_model(GOLDEN / case, **told).ensemble if told else ensemble(case)
    assert e.needs == ()
    assert np.isfinite(e.node_value).all()


def gradients(case, margin):
    """Gradient of each row at its margin: (rows, outputs)."""
    if model_of(case) == "binary":
        return 1 / (1 + np.exp(-margin)) - data()["y_binary"][:, None]
    if model_of(case) == "multiclass":
        share = np.exp(margin - margin.max(axis=1, keepdims=True))
        return share / share.sum(axis=1, keepdims=True) - (data()["y_class"][:, None] == np.arange(3))
    return margin - data()["y"][:, None]


def inner_products(case, e, X):
    """TreeInner(PreDecomp) of the training rows by the definition: (columns,)."""
    margin, score = np.tile(e.base_score, (len(X), 1)), np.zeros(e.schema.n_columns)
    for this_round in range(e.n_rounds):
        G, step = gradients(case, margin), np.zeros_like(margin)
        for tree in np.flatnonzero(e.tree_round == this_round):
            output = e.tree_output[tree]
            for i, row in enumerate(X):
                nodes = oracle.path(e, tree, row)
                for parent, child in pairwise(nodes):
                    moved = e.node_value[child, 0] - e.node_value[parent, 0]
                    score[e.feature[parent]] -= G[i, output] * moved / e.tree_rate[tree]
                step[i, output] += e.value[nodes[-1], 0]
        margin = margin + step
    return score


# Total gain is these models' in-sample inner product. Left out: LightGBM's many-vs-many splits (cat_l2 enters
# their children but not their parent) and CatBoost (no own gain).
EXACT = [case for case in CASES if case.startswith("xgboost") and model_of(case) in PLAIN] + [
    case
    for case in CASES
    if case.startswith("lightgbm")
    and model_of(case) in {*PLAIN, "zero_as_missing", "no_missing"} - {"categorical", "frame"}
]


@pytest.mark.parametrize("case", EXACT)
def test_node_values_reproduce_total_gain_in_sample(case):
    e = ensemble(case)
    gain = answer(case, "total_gain")
    found = inner_products(case, e, rows(case, data()["X_train"]))
    # Share of all gain. The libraries hold gradients in float32 and the rate is inferred: 3e-7 was measured.
    np.testing.assert_allclose(found / gain.sum(), gain / gain.sum(), rtol=0, atol=1e-6)
    # A file does not store whether rows were sampled, except where the hessians of the roots would show it.
    assert e.exactness == "exact" or e.exactness.endswith("exact if they were not")


# -- attributions --------------------------------------------------------------------------------------------
def upside_down(e):
    """The same symmetric trees, last split at the root: how CatBoost's TreeSHAP sees them.

    The expectation that TreeSHAP takes over unknown features depends on the order of splits, so its values
    are not those of the trees as they were grown, but of these. Node values of inner nodes mean nothing here.
    """
    nodes = {name: [] for name in PER_NODE if name not in ("left", "right")}
    left, right, start = [], [], [0]
    for tree in range(e.n_trees):
        first, splits = int(e.tree_start[tree]), []
        node = first
        while e.feature[node] >= 0:
            splits.insert(0, node)
            node = e.left[node]
        own = np.arange(first, e.tree_start[tree + 1])
        leaves = own[e.feature[own] < 0]
        leaves = leaves[np.argsort(e.leaf_id[leaves])]  # bit j of a leaf's number is the answer of split j
        for depth, split in enumerate([*splits, None]):
            level = leaves if split is None else np.full(2**depth, split)
            for name, values in nodes.items():
                values.extend(getattr(e, name)[level])
            below = start[-1] + 2 ** (depth + 1) - 1 + 2 * np.arange(2**depth)
            left.extend(below if split is not None else np.full(2**depth, -1))
            right.extend(below + 1 if split is not None else np.full(2**depth, -1))
            nodes["cover"][-(2**depth) :] = e.cover[leaves].reshape(2**depth, -1).sum(axis=1)
        start.append(len(left))
    arrays = {name: np.array(values) for name, values in nodes.items()}
    return replace(e, tree_start=np.array(start), left=np.array(left), right=np.array(right), **arrays)


SYMMETRIC = [case for case in NUMERIC if case.startswith("catboost") and model_of(case) != "depthwise"]


def check_contribs(case, method, stored):
    e = upside_down(ensemble(case)) if case in SYMMETRIC else ensemble(case)
    if model_of(case) == "rf":
        # LightGBM predicts the mean of a random forest's trees but explains their sum
        stored = stored / e.n_trees
    found = treeinner.attribute(e, rows(case, data()["X"]), method=method).to_contribs()
    # XGBoost: float32, summed over trees and path weights. The others: float64, weighed by counts that the
    # file holds exactly.
    share = 1e-6 if case.startswith("xgboost") else 1e-12
    np.testing.assert_allclose(found, stored, rtol=0, atol=share * np.abs(stored).max())


@pytest.mark.parametrize("case", answered(NUMERIC, "contribs"))
def test_treeshap_equals_the_librarys(case):
    check_contribs(case, "treeshap", answer(case, "contribs"))


@pytest.mark.parametrize("case", answered(NUMERIC, "approx_contribs"))
def test_saabas_equals_xgboosts(case):
    check_contribs(case, "saabas", answer(case, "approx_contribs"))


@pytest.mark.parametrize("case", SYMMETRIC)
def test_a_tree_upside_down_has_the_same_leaves(case):
    X = rows(case, data()["X"])
    np.testing.assert_array_equal(oracle.apply(upside_down(ensemble(case)), X), answer(case, "leaf"))
