"""Trees that are too deep, documents that nest too deep, numbers that are absurd: read quickly, or refused by name."""

import json
import re
import struct
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import treeinner as ti
from tests.test_ubjson import encode
from treeinner.ensemble import Ensemble, storage, validation
from treeinner.ensemble.ensemble import FORMAT, FORMAT_VERSION
from treeinner.tables import Schema

GOLDEN = Path(__file__).parents[1] / "golden"
SECONDS = 5  # of processor time; issue 17
MILLION = 1_000_001  # nodes of a chain: half of them splits, each with a leaf on its left


@cache
def golden_json():
    return (GOLDEN / "xgboost-3.2.0" / "regression.json").read_text()


def chain(n):
    """Left, right, feature of a chain of n nodes: node 2 i splits, node 2 i + 1 is its left leaf."""
    node = np.arange(n, dtype=np.int32)
    inner = (node % 2 == 0) & (node < n - 1)
    return np.where(inner, node + 1, -1), np.where(inner, node + 2, -1), np.where(inner, 0, -1)


# -- one tree in every format --------------------------------------------------------------------------------
def xgboost_document(n):
    document = json.loads(golden_json())
    model = document["learner"]["gradient_booster"]["model"]
    left, right, _ = chain(n)
    ones, zeros = np.ones(n, np.float32), np.zeros(n, np.int32)
    model["trees"] = [
        model["trees"][0]
        | dict.fromkeys(("base_weights", "loss_changes", "sum_hessian", "split_conditions"), ones)
        | {"left_children": left, "right_children": right, "parents": zeros, "split_indices": zeros}
        | {"default_left": zeros.astype(np.uint8), "split_type": zeros.astype(np.uint8)}
    ]
    return document | {"learner": document["learner"] | trees_of_one(document, model)}


def trees_of_one(document, model):
    model |= {"tree_info": [0], "iteration_indptr": [0, 1], "gbtree_model_param": {"num_parallel_tree": "1"}}
    return {"gradient_booster": document["learner"]["gradient_booster"] | {"model": model}}


def write_ubj(path, n):
    path.write_bytes(encode(xgboost_document(n)))


def write_json(path, n):
    path.write_text(json.dumps(xgboost_document(n), default=np.ndarray.tolist))


def write_lightgbm(path, n):
    m = n // 2  # splits; leaf i is on the left of split i

    def row(items):
        return " ".join(map(str, items))

    tree = {
        "num_leaves": m + 1, "num_cat": 0, "split_feature": row([0] * m), "split_gain": row([1] * m),
        "threshold": row([0.5] * m), "decision_type": row([2] * m), "left_child": row(range(-1, -m - 1, -1)),
        "right_child": row([*range(1, m), -m - 1]), "leaf_value": row([0.5] * (m + 1)),
        "leaf_weight": row([1] * (m + 1)), "leaf_count": row([1] * (m + 1)), "internal_value": row([0.5] * m),
        "internal_weight": row([1] * m), "internal_count": row([2] * m), "is_linear": 0, "shrinkage": 1,
    }  # fmt: skip
    head, _, rest = (GOLDEN / "lightgbm-4.6.0" / "regression.txt").read_text().partition("\nTree=0\n")
    head = "\n".join(line for line in head.split("\n") if not line.startswith("tree_sizes"))
    body = "\n".join(f"{key}={value}" for key, value in tree.items())
    path.write_text(f"{head}\nTree=0\n{body}\n\n\nend of trees{rest.partition('end of trees')[2]}")


def write_saved(path, n):
    left, right, feature = chain(n)
    leaf = feature < 0
    one = {name: np.ones(1) for name in ("tree_weight", "tree_rate", "base_score")}
    arrays = one | {
        "tree_start": np.array([0, n]), "tree_output": np.zeros(1, np.int32), "tree_round": np.zeros(1, np.int32),
        "feature": feature.astype(np.int32), "threshold": np.where(leaf, np.nan, 0.5), "left": left, "right": right,
        "missing_left": leaf, "category_set": np.full(n, -1, np.int32), "value": leaf[:, None] * 1.0,
        "node_value": np.ones((n, 1)), "cover": np.ones(n), "gain": np.zeros(n),
        "leaf_id": np.where(leaf, np.arange(n), -1).astype(np.int32), "set_start": np.zeros(1, np.int64),
        "set_codes": np.zeros(0, np.int32),
    }  # fmt: skip
    small = Ensemble(**{**arrays_of_stump(), "schema": Schema(n_columns=1), "library": "lightgbm", "objective": ""})
    small.save(path)
    storage.write(path, FORMAT, FORMAT_VERSION, arrays, storage.read(path, FORMAT, FORMAT_VERSION)[1])


def arrays_of_stump():
    return {
        "tree_start": [0, 1], "tree_output": [0], "tree_round": [0], "tree_weight": [1.0], "tree_rate": [1.0],
        "feature": [-1], "threshold": [np.nan], "left": [-1], "right": [-1], "missing_left": [False],
        "category_set": [-1], "value": [[1.0]], "node_value": [[1.0]], "cover": [1.0], "gain": [0.0], "leaf_id": [0],
        "set_start": [0], "set_codes": [], "base_score": [0.0],
    }  # fmt: skip


def write_cbm(path, n):
    """The trees of a good file are replaced by a chain: vectors of other lengths, put at its end."""
    data = bytearray((GOLDEN / "catboost-1.2.10" / "depthwise.cbm").read_bytes())
    core = data[8 : 8 + int.from_bytes(data[4:8], "little")]
    root = int.from_bytes(core[:4], "little")
    trees = place(core, root, 1)
    trees += int.from_bytes(core[trees : trees + 4], "little")
    left, right, feature = chain(n)
    inner = feature >= 0
    steps = np.where(inner[:, None], np.column_stack([left, right]) - np.arange(n)[:, None], 0)
    leaf_at = np.where(inner, 2**32 - 1, np.cumsum(~inner) - 1)
    leaves = np.ones(int((~inner).sum()))
    vectors = {
        1: np.zeros(n, "<i4"), 2: np.array([n], "<i4"), 3: np.zeros(1, "<i4"), 8: leaves, 9: leaves,
        10: steps.astype("<u2"),
        11: leaf_at.astype("<u4"),
    }  # fmt: skip
    for member, vector in vectors.items():
        core += bytes(-len(core) % 8)
        at = place(core, trees, member)
        core[at : at + 4] = struct.pack("<I", len(core) - at)
        core += struct.pack("<I", len(vector)) + vector.tobytes()
    path.write_bytes(b"CBM1" + struct.pack("<I", len(core)) + core)


def place(core, table, member):
    """Where a FlatBuffers table has a member."""
    members = table - struct.unpack_from("<i", core, table)[0]
    return table + struct.unpack_from("<H", core, members + 4 + 2 * member)[0]


WRITERS = {
    "xgboost.ubj": write_ubj,
    "xgboost.json": write_json,
    "lightgbm.txt": write_lightgbm,
    "catboost.cbm": write_cbm,
    "saved.zip": write_saved,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_chain_of_a_million_nodes_is_refused_in_seconds(name, tmp_path):
    WRITERS[name](tmp_path / name, MILLION)
    start = time.process_time()
    with pytest.raises(ti.ModelError, match=rf"{name}: A tree has more than 100,000 levels.*TREEINNER_MAX_DEPTH"):
        ti.read_model(tmp_path / name)
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize("name", WRITERS)
def test_the_limit_of_levels_can_be_moved(name, tmp_path, monkeypatch):
    WRITERS[name](tmp_path / name, 401)
    monkeypatch.setenv("TREEINNER_MAX_DEPTH", "199")
    with pytest.raises(ti.ModelError, match="more than 199 levels"):
        ti.read_model(tmp_path / name)
    monkeypatch.setenv("TREEINNER_MAX_DEPTH", "200")
    assert ti.read_model(tmp_path / name).ensemble.n_nodes == 401


@pytest.mark.parametrize("given", ["0", "-3", "many", "1e9"])
def test_a_limit_that_is_no_number_is_said(given, monkeypatch):
    monkeypatch.setenv("TREEINNER_MAX_DEPTH", given)
    with pytest.raises(ValueError, match="TREEINNER_MAX_DEPTH is"):
        validation.max_depth()


# -- nesting -------------------------------------------------------------------------------------------------
NESTED = {
    "list.json": b"[" * 200_000,
    "object.json": b'{"learner":' * 100_000,
    "catboost.json": b'{"oblivious_trees":' + b"[" * 100_000,
    "list.ubj": b"{L" + struct.pack(">q", 1) + b"a" + b"[" * 200_000,
    "object.ubj": (b"{L" + struct.pack(">q", 1) + b"a") * 100_000,
}


@pytest.mark.parametrize("name", NESTED)
def test_deep_nesting_is_an_error_of_ours(name, tmp_path):
    (tmp_path / name).write_bytes(NESTED[name])
    with pytest.raises(ti.ModelError, match=rf"{name}.*(recursion|nest)"):
        ti.read_model(tmp_path / name)


def test_a_chain_of_a_million_nodes_in_catboosts_json_is_refused_in_seconds(tmp_path):
    """Its nodes are nested, so that Python's parser stops first; CatBoost itself grows 16 levels at most."""
    text = (GOLDEN / "catboost-1.2.10" / "depthwise.json").read_text()
    document = json.loads(text)
    leaf, split = '{"value":1.0,"weight":1}', json.dumps(document["trees"][0]["split"])
    one = f'{{"split":{split},"left":{leaf},"right":'
    document["trees"] = ["CHAIN"]
    chained = json.dumps(document).replace('"CHAIN"', one * (MILLION // 2) + leaf + "}" * (MILLION // 2))
    (tmp_path / "model.json").write_text(chained)
    start = time.process_time()
    with pytest.raises(ti.ModelError, match=r"model\.json.*recursion"):
        ti.read_model(tmp_path / "model.json")
    assert time.process_time() - start < SECONDS


def test_levels_of_lightgbm_nested_too_deep_are_an_error_of_ours(tmp_path):
    text = (GOLDEN / "lightgbm-4.6.0" / "regression.txt").read_text()
    deep = text.replace("pandas_categorical:null", "pandas_categorical:" + "[" * 200_000)
    (tmp_path / "model.txt").write_text(deep)
    with pytest.raises(ti.ModelError, match=r"model\.txt.*pandas_categorical"):
        ti.read_model(tmp_path / "model.txt")


# -- absurd numbers ------------------------------------------------------------------------------------------
def absurd(field, at, number):
    """A file of XGBoost with one number changed in its first tree."""
    document = json.loads(golden_json())
    document["learner"]["gradient_booster"]["model"]["trees"][0][field][at] = number
    return json.dumps(document)


@cache
def first_tree():
    tree = json.loads(golden_json())["learner"]["gradient_booster"]["model"]["trees"][0]
    return tree["left_children"].index(-1), 0  # a leaf, the root


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0, 1e308])
def test_absurd_covers_are_refused_or_treeshap_is(number, tmp_path):
    (tmp_path / "model.json").write_text(absurd("sum_hessian", first_tree()[1], number))
    X = np.zeros((3, 7))
    with pytest.raises(ti.TreeInnerError):
        ti.attribute(tmp_path / "model.json", X, method="treeshap")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 9e18, 1e308])
def test_absurd_base_weights_are_refused_or_predecomp_is(number, tmp_path):
    (tmp_path / "model.json").write_text(absurd("base_weights", first_tree()[1], number))
    with pytest.raises(ti.TreeInnerError):
        ti.attribute(tmp_path / "model.json", np.zeros((3, 7)), method="predecomp", learning_rate=0.3)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), 1e308])
def test_leaves_that_are_no_numbers_are_refused(number, tmp_path):
    (tmp_path / "model.json").write_text(absurd("split_conditions", first_tree()[0], number))
    with pytest.raises(ti.ModelError, match=r"model\.json: .*a leaf value"):
        ti.read_model(tmp_path / "model.json")


def test_a_threshold_that_is_no_number_is_refused(tmp_path):
    (tmp_path / "model.json").write_text(absurd("split_conditions", first_tree()[1], float("nan")))
    with pytest.raises(ti.ModelError, match=r"model\.json: .*a threshold is NaN"):
        ti.read_model(tmp_path / "model.json")


@pytest.mark.parametrize(("threshold", "side"), [(np.inf, "left"), (-np.inf, "right"), (1e38, "left")])
def test_an_infinite_threshold_sends_every_number_to_one_side(threshold, side, tmp_path):
    """scikit-learn writes infinite ones, for missing values against all others; so they are read, and rightly."""
    (tmp_path / "model.json").write_text(absurd("split_conditions", first_tree()[1], threshold))
    e = ti.read_model(tmp_path / "model.json").ensemble
    reached = np.flatnonzero(e.leaf_id == e.apply(np.random.default_rng(1).normal(size=(1, 7)))[0, 0])
    other = getattr(e, "right" if side == "left" else "left")[0]
    below = {other}
    for node in range(other, e.tree_start[1]):
        below |= {e.left[node], e.right[node]} if node in below else set()
    assert reached[0] not in below


@pytest.mark.parametrize("number", ["1e308", "nan", "inf", "-1e300"])
def test_leaves_of_lightgbm_beyond_all_sums_are_refused(number, tmp_path):
    text = (GOLDEN / "lightgbm-4.6.0" / "regression.txt").read_text()
    before, key, after = text.partition("leaf_value=")
    (tmp_path / "model.txt").write_text(f"{before}{key}{number}{after[after.index(' ') :]}")
    with pytest.raises(ti.ModelError, match=r"model\.txt: .*a leaf value is not finite"):
        ti.read_model(tmp_path / "model.txt")


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e308", "x"])
@pytest.mark.parametrize("name", ["max_cat_to_onehot", "learning_rate", "lambda_l2", "sigmoid", "num_leaves"])
@pytest.mark.filterwarnings("ignore")  # what is assumed of such a model
def test_parameters_of_lightgbm_that_are_absurd_give_no_raw_error(name, number, tmp_path):
    text = (GOLDEN / "lightgbm-4.6.0" / "categorical.txt").read_text()
    changed = re.sub(rf"\[{name}: [^\]]*\]", f"[{name}: {number}]", text)
    assert changed != text
    (tmp_path / "model.txt").write_text(changed)
    for method in ("predecomp", "saabas"):
        try:
            found = ti.attribute(tmp_path / "model.txt", np.zeros((3, 7)), method=method)
        except ti.TreeInnerError:
            continue
        margin = ti.read_model(tmp_path / "model.txt").predict(np.zeros((3, 7)))
        np.testing.assert_allclose(found.values.sum(1) + found.base_values, margin, rtol=1e-9)


def test_a_name_that_is_a_list_of_numbers_is_an_error_of_ours(tmp_path):
    document = xgboost_document(3)
    document["learner"]["objective"]["name"] = np.zeros(3, np.float32)
    (tmp_path / "model.ubj").write_bytes(encode(document))
    with pytest.raises(ti.ModelError, match=r"model\.ubj: .*name is damaged"):
        ti.read_model(tmp_path / "model.ubj")
