"""PreDecomp against its definition: p-hat(t) from gradients and hessians of a node's training rows, and the paper."""

from fractions import Fraction

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn import ensemble as ske

import treeinner as ti
from tests import oracle
from treeinner.tables import Schema

N, N_ROWS = 150, 70  # training rows; rows explained: one block of 64 and a ragged one
rng = np.random.default_rng(3)
X = rng.normal(size=(N, 4)).astype(np.float32).astype(np.float64)
X[rng.random(X.shape) < 0.05] = np.nan
WEIGHT = rng.uniform(0.5, 2.0, N)
SIGNAL = np.nan_to_num(2 * X[:, 0] + X[:, 1] * X[:, 2]) + 0.5 * rng.normal(size=N)
Y = {
    "regression": SIGNAL + 2,
    "binary": (SIGNAL > 0.5).astype(float),
    "multi": np.digitize(SIGNAL, [-0.8, 0.9]).astype(float),
    "targets": np.column_stack([SIGNAL, np.cos(SIGNAL)]),
}


# -- the oracle ----------------------------------------------------------------------------------------------
def gradients(task, margin, hessian_factor):
    """Gradient and hessian of each row at its margin: (rows, outputs) each. Libraries differ in softmax's hessian."""
    if task in ("regression", "targets"):
        return margin - Y[task].reshape(N, -1), np.ones_like(margin)
    if task == "binary":
        q = 1 / (1 + np.exp(-margin))
        return q - Y[task][:, None], q * (1 - q)
    q = np.exp(margin - margin.max(axis=1, keepdims=True))
    q /= q.sum(axis=1, keepdims=True)
    return q - (Y[task][:, None] == np.arange(3)), hessian_factor * q * (1 - q)


def p_hat(e, task, *, rate, lam, alpha=0.0, weight=1.0, hessian_factor=1.0):
    """-rate * soft(G, alpha) / (H + lam) of every node, G and H summed over the training rows that pass it."""
    out = np.full_like(e.node_value, np.nan)
    margin = np.tile(e.base_score, (N, 1))
    weight = np.broadcast_to(weight, N)[:, None]
    for this_round in range(e.n_rounds):
        g, h = (weight * part for part in gradients(task, margin, hessian_factor))
        step = np.zeros_like(margin)
        for tree in np.flatnonzero(e.tree_round == this_round):
            outputs = slice(e.tree_output[tree], e.tree_output[tree] + e.width)
            G, H = np.zeros_like(out), np.zeros_like(out)
            for i, row in enumerate(X):
                nodes = oracle.path(e, tree, row)
                G[nodes] += g[i, outputs]
                H[nodes] += h[i, outputs]
                step[i, outputs] += e.value[nodes[-1]]
            own = slice(e.tree_start[tree], e.tree_start[tree + 1])
            out[own] = -rate * np.sign(G[own]) * np.maximum(np.abs(G[own]) - alpha, 0) / (H[own] + lam)
        margin = margin + step
    return out


def check_predecomp(model, task, tolerance, **definition):
    e = ti.read_model(model).ensemble
    values = p_hat(e, task, **definition)
    expected = oracle.path_attribution(e, values, X[:N_ROWS])
    base = np.tile(e.base_score, (N_ROWS, 1))
    for tree in range(e.n_trees):
        base[:, e.tree_output[tree] : e.tree_output[tree] + e.width] += values[e.tree_start[tree]]
    found = ti.attribute(model, X[:N_ROWS], method="predecomp")
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found.values.reshape(expected.shape), expected, rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(found.base_values.reshape(base.shape), base, rtol=0, atol=tolerance * scale)
    if definition["lam"] > 0.5 and task in ("regression", "targets"):  # the test can tell p-hat from p-tilde
        other = ti.attribute(model, X[:N_ROWS], method="saabas")
        assert np.abs(other.values.reshape(expected.shape) - expected).max() > 100 * tolerance * scale


XGB_TASKS = {
    "regression": {},
    "binary": {"objective": "binary:logistic"},
    "multi": {"objective": "multi:softprob", "num_class": 3},
    "targets": {},
}
PENALTIES = {"l2": (3.0, 0.0), "none": (0.0, 0.0), "l1": (1.0, 2.0)}


def train_xgboost(task, weight=None, **params):
    params = {"nthread": 1, "max_depth": 4, "eta": 0.4} | XGB_TASKS[task] | params
    return xgb.train(params, xgb.DMatrix(X, Y[task], weight=weight), 4)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("task", XGB_TASKS)
def test_xgboost_from_gradients(task, penalty):
    lam, alpha = PENALTIES[penalty]
    model = train_xgboost(task, WEIGHT, reg_lambda=lam, reg_alpha=alpha)
    # XGBoost holds gradients, hessians and node weights in float32: 6e-8 each, in sums that partly cancel
    check_predecomp(model, task, 3e-6, rate=0.4, lam=lam, alpha=alpha, weight=WEIGHT, hessian_factor=2.0)


@pytest.mark.parametrize("task", ["multi", "targets"])
def test_xgboost_vector_leaves_from_gradients(task):
    model = train_xgboost(task, multi_strategy="multi_output_tree", reg_lambda=2.0, min_child_weight=0)
    check_predecomp(model, task, 3e-6, rate=0.4, lam=2.0, hessian_factor=2.0)  # float32, as above


@pytest.mark.parametrize("lam", [0.0, 4.0])
@pytest.mark.parametrize("task", ["regression", "binary", "multi"])
def test_lightgbm_from_gradients(task, lam):
    objective = {"multi": {"objective": "multiclass", "num_class": 3}}.get(task, {"objective": task})
    params = {"num_leaves": 8, "min_data_in_leaf": 5, "lambda_l2": lam, "learning_rate": 0.4}
    data = lgb.Dataset(X, Y[task], weight=WEIGHT)
    model = lgb.train(params | objective | {"verbosity": -1, "num_threads": 1}, data, 4)
    # gradients in float32; LightGBM adds 1e-15 to each hessian sum, which is nothing beside it
    check_predecomp(model, task, 3e-6, rate=0.4, lam=lam, weight=WEIGHT, hessian_factor=3 / 2)


@pytest.mark.parametrize("lam", [0.0, 4.0])
@pytest.mark.parametrize("task", ["regression", "binary", "multi"])
def test_histogram_boosting_from_gradients(task, lam):
    kind = ske.HistGradientBoostingRegressor if task == "regression" else ske.HistGradientBoostingClassifier
    model = kind(max_iter=4, learning_rate=0.4, l2_regularization=lam, min_samples_leaf=5, max_leaf_nodes=8)
    model.fit(X, Y[task])
    # gradients in float32
    check_predecomp(model, task, 3e-6, rate=0.4, lam=lam)


# -- without a penalty ---------------------------------------------------------------------------------------
FULL = np.nan_to_num(X)


def unpenalised(kind):
    if kind == "xgboost":
        return train_xgboost("binary", reg_lambda=0.0)
    if kind == "lightgbm":
        params = {"num_leaves": 8, "min_data_in_leaf": 5, "verbosity": -1, "num_threads": 1}
        return lgb.train(params, lgb.Dataset(X, Y["regression"]), 4)
    kinds = {"hist": ske.HistGradientBoostingRegressor, "boosting": ske.GradientBoostingRegressor}
    kinds["forest"] = ske.RandomForestRegressor
    model = kinds[kind](**({"max_iter": 4} if kind == "hist" else {"n_estimators": 4, "max_depth": 4}), random_state=0)
    return model.fit(FULL, Y["regression"])


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "hist", "boosting", "forest"])
def test_without_a_penalty_predecomp_is_saabas(kind):
    """S6 of the paper: p-hat = p-tilde if lambda = 0, where the cover is the hessian."""
    model = unpenalised(kind)
    one, other = (ti.attribute(model, FULL, method=method) for method in ("predecomp", "saabas"))
    # XGBoost stores its node weights in float32; HistGradientBoosting's gradients are float32, and its leaves are
    # quotients of their sums; the others are means in float64
    tolerance = {"xgboost": 1e-6, "hist": 1e-7}.get(kind, 1e-12)
    np.testing.assert_allclose(one.values, other.values, rtol=0, atol=tolerance * np.abs(other.values).max())
    np.testing.assert_allclose(one.base_values, other.base_values, rtol=0, atol=tolerance * 10)
    assert np.abs(one.values).max() > 0.1


# -- Example 1 of the paper ----------------------------------------------------------------------------------
SPECIMENS = {"A": (0, 0, 0), "B": (0, 1, 1), "C": (1, 0, -1)}  # X1, X2, Y
SPECIMEN_X = np.array([row[:2] for row in SPECIMENS.values()], dtype=float)
SPECIMEN_Y = np.array([row[2] for row in SPECIMENS.values()], dtype=float)
# The table of p(t): structure -> (column split, {method: (root, left, right)})
F = Fraction
TABLE = {
    "I": (0, {"predecomp": (F(0), F(1, 3), F(-1, 2)), "saabas": (F(1, 18), F(1, 3), F(-1, 2))}),
    "II": (1, {"predecomp": (F(0), F(-1, 3), F(1, 2)), "saabas": (F(-1, 18), F(-1, 3), F(1, 2))}),
}


def stump(structure):
    """The tree as the paper draws it, one array entry per node: root, left, right."""
    column, table = TABLE[structure]
    node_value = np.array([[float(p)] for p in table["predecomp"]])
    return ti.Ensemble(
        tree_start=[0, 3],
        tree_output=[0],
        tree_round=[0],
        tree_weight=[1.0],
        tree_rate=[1.0],
        feature=[column, -1, -1],
        threshold=[0.0, np.nan, np.nan],
        left=[1, -1, -1],
        right=[2, -1, -1],
        missing_left=[False] * 3,
        category_set=[-1] * 3,
        value=np.where([[False], [True], [True]], node_value, 0.0),
        node_value=node_value,
        cover=[3.0, 2.0, 1.0],
        gain=[0.0] * 3,
        leaf_id=[-1, 1, 2],
        set_start=[0],
        set_codes=[],
        base_score=[0.0],
        schema=Schema(n_columns=2),
        library="paper",
        objective="squared error",
    )


def trained_stump(structure):
    """XGBoost takes the first of two equally good columns, so the order of the columns chooses the structure."""
    names = ["X1", "X2"] if structure == "I" else ["X2", "X1"]
    columns = SPECIMEN_X if structure == "I" else SPECIMEN_X[:, ::-1]
    params = {"max_depth": 1, "reg_lambda": 1.0, "eta": 1.0, "base_score": 0.0, "min_child_weight": 0, "nthread": 1}
    model = xgb.train(params, xgb.DMatrix(columns, SPECIMEN_Y, feature_names=names), 1)
    assert set(model.get_score()) == {f"X{TABLE[structure][0] + 1}"}
    return model, names, columns


@pytest.mark.parametrize("method", ["predecomp", "saabas"])
@pytest.mark.parametrize("structure", TABLE)
@pytest.mark.parametrize("source", ["by hand", "xgboost"])
def test_example_1_of_the_paper(source, structure, method):
    if source == "by hand":
        model, names, columns, exact = stump(structure), ["X1", "X2"], SPECIMEN_X, 1e-15  # float64
    else:
        model, names, columns = trained_stump(structure)
        exact = 3e-8  # -1/2 is exact in float32, 1/3 is off by 1e-8
    column, table = TABLE[structure]
    root, left, right = table[method]
    found = ti.attribute(model, columns, method=method)
    np.testing.assert_allclose(found.base_values, [float(root)] * 3, rtol=0, atol=exact)
    step = [float((right if x[column] > 0 else left) - root) for x in SPECIMEN_X]
    np.testing.assert_allclose(found.values[:, names.index(f"X{column + 1}")], step, rtol=0, atol=exact)
    assert not found.values[:, names.index(f"X{2 - column}")].any()
