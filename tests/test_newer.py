"""Files of a newer library than the readers know: read if all fields are known ones, else refused with what to do."""

import json
from pathlib import Path

import numpy as np
import pytest

from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.model import read_model
from treeinner.readers import newer
from treeinner.readers.xgboost import ubjson

GOLDEN = Path(__file__).parent / "golden"
XGBOOST, LIGHTGBM, CATBOOST = "xgboost-3.4.1/regression", "lightgbm-4.7.0/regression.txt", "catboost-1.2.10/regression"


def xgboost(tmp_path, change=None, version=(9, 0, 0)):
    document = json.loads((GOLDEN / f"{XGBOOST}.json").read_text())
    document["version"] = list(version)
    if change:
        change(document["learner"])
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    return path


def lightgbm(tmp_path, change=lambda text: text, version=9):
    path = tmp_path / "model.txt"
    path.write_text(change((GOLDEN / LIGHTGBM).read_text().replace("\nversion=v4\n", f"\nversion=v{version}\n")))
    return path


def catboost(tmp_path, change=None, version="9.1.0"):
    text = (GOLDEN / f"{CATBOOST}.json").read_text()
    assert "tags/v1.2.10" in text
    document = json.loads(text.replace("tags/v1.2.10", f"tags/v{version}"))
    if change:
        change(document)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    return path


def same(path, known):
    """Whether a file is read as the one of a known version that it was made from."""
    with np.load(GOLDEN / "data.npz") as data:
        X = data["X"]
    found, wanted = read_model(path), read_model(GOLDEN / known)
    np.testing.assert_array_equal(found.predict(X), wanted.predict(X))
    np.testing.assert_array_equal(found.ensemble.node_value, wanted.ensemble.node_value)


# -- read ----------------------------------------------------------------------------------------------------
def test_known_fields_are_read_whatever_the_version(tmp_path):
    same(xgboost(tmp_path), f"{XGBOOST}.json")
    same(lightgbm(tmp_path), LIGHTGBM)
    same(catboost(tmp_path), f"{CATBOOST}.json")


def test_ubj_and_cbm_of_a_newer_version_are_read(tmp_path):
    path, data = tmp_path / "model", (GOLDEN / f"{XGBOOST}.ubj").read_bytes()
    changed = data.replace(b"i\x03i\x04i\x01", b"i\x09i\x04i\x01")
    assert tuple(ubjson.parse(changed)["version"]) == (9, 4, 1)
    path.write_bytes(changed)
    same(path, f"{XGBOOST}.ubj")
    data = (GOLDEN / f"{CATBOOST}.cbm").read_bytes()
    path.write_bytes(data.replace(b"tags/v1.2.10", b"tags/v9.1.10"))
    same(path, f"{CATBOOST}.cbm")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*-*/*[!z]")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_field_of_the_known_versions_is_unknown(path, monkeypatch):
    # If these versions were newer than known, their fields would be checked.
    monkeypatch.setattr(newer, "NEWEST", dict.fromkeys(newer.NEWEST, (0,)))
    assert read_model(path).n_trees > 0


# -- refused -------------------------------------------------------------------------------------------------
def gone(field):
    def change(learner):
        for tree in learner["gradient_booster"]["model"]["trees"]:
            del tree[field]

    return change


XGBOOST_CHANGES = {
    "booster": lambda learner: learner["gradient_booster"].update(name="gbforest"),
    "no trees": lambda learner: learner["gradient_booster"]["model"].pop("trees"),
    "no children": gone("left_children"),
    "no weights": gone("base_weights"),
    "new in the model": lambda learner: learner["gradient_booster"]["model"].update(tree_weight=[0.5]),
    "new in a tree": lambda learner: learner["gradient_booster"]["model"]["trees"][0].update(linear=[1.0]),
    "new parameter": lambda learner: learner["learner_model_param"].update(base_scale="2"),
}


@pytest.mark.parametrize("name", XGBOOST_CHANGES)
def test_another_layout_of_xgboost(name, tmp_path):
    with pytest.raises(UnsupportedModelError, match=r"by XGBoost 9\.0\.0.*up to 3\.4: upgrade treeinner, or train"):
        read_model(xgboost(tmp_path, XGBOOST_CHANGES[name]))


LIGHTGBM_CHANGES = {
    "other name": lambda text: text.replace("leaf_value=", "leaf_output="),
    "no leaves": lambda text: "\n".join(line for line in text.split("\n") if not line.startswith("leaf_value=")),
    "no inner values": lambda text: "\n".join(x for x in text.split("\n") if not x.startswith("internal_value=")),
    "other trees": lambda text: text.replace("\nTree=", "\nNode="),
    "a flag": lambda text: text.replace("\nfeature_names=", "\nmedian_output\nfeature_names="),
}


@pytest.mark.parametrize("name", LIGHTGBM_CHANGES)
def test_another_layout_of_lightgbm(name, tmp_path):
    with pytest.raises(UnsupportedModelError, match=r"by LightGBM 9.*up to 4: upgrade treeinner, or train"):
        read_model(lightgbm(tmp_path, LIGHTGBM_CHANGES[name]))


CATBOOST_CHANGES = {
    "no leaves": lambda document: [tree.pop("leaf_values") for tree in document["oblivious_trees"]],
    "no bias": lambda document: document.pop("scale_and_bias"),
    "new": lambda document: document.update(tree_weights=[0.5]),
}


@pytest.mark.parametrize("name", CATBOOST_CHANGES)
def test_another_layout_of_catboost(name, tmp_path):
    with pytest.raises(UnsupportedModelError, match=r"by CatBoost 9\.1.*up to 1\.2: upgrade treeinner, or train"):
        read_model(catboost(tmp_path, CATBOOST_CHANGES[name]))


def test_another_format_of_cbm(tmp_path):
    path = tmp_path / "model.cbm"
    path.write_bytes((GOLDEN / f"{CATBOOST}.cbm").read_bytes().replace(b"FlabuffersModel_v1", b"FlabuffersModel_v2"))
    with pytest.raises(UnsupportedModelError, match=r"FlabuffersModel_v2.*knows FlabuffersModel_v1: upgrade treeinner"):
        read_model(path)


def test_damage_of_a_known_version_stays_damage(tmp_path):
    for path in (
        xgboost(tmp_path, XGBOOST_CHANGES["no weights"], version=(3, 4, 1)),
        lightgbm(tmp_path, LIGHTGBM_CHANGES["no leaves"], version=4),
        catboost(tmp_path, CATBOOST_CHANGES["no leaves"], version="1.2.11"),
    ):
        with pytest.raises(ModelError) as caught:
            read_model(path)
        assert "upgrade" not in str(caught.value)


def test_a_field_that_a_known_version_does_not_have_is_ignored(tmp_path):
    same(xgboost(tmp_path, XGBOOST_CHANGES["new in a tree"], version=(3, 4, 2)), f"{XGBOOST}.json")
