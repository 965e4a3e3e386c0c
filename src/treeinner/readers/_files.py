"""What kind of model a file holds, told by its content and not by its ending."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Literal

from treeinner import storage
from treeinner.errors import ModelError, UnsupportedModelError

__all__ = ["kind_of_file"]

Kind = Literal["xgboost", "lightgbm", "catboost", "treeinner"]

SAVE_AS = (
    "save the model with its library: XGBoost model.save_model('model.ubj'), "
    "LightGBM model.save_model('model.txt'), CatBoost model.save_model('model.cbm')"
)
# First bytes of what joblib and friends write around a pickle.
COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ": "xz",
    b"\x5d\x00\x00": "lzma",
    b"\x04\x22M\x18": "lz4",
}
CATBOOST_KEYS = {"oblivious_trees", "features_info", "model_info", "scale_and_bias", "ctr_data"}


def kind_of_file(path: str | os.PathLike[str]) -> Kind:
    """Library that wrote the model file, or "treeinner" for a saved Ensemble."""
    text = os.fspath(path)
    if "\n" in text:
        raise ModelError("The model is given as a text of several lines; write it to a file and pass its path.")
    file = Path(text)
    if file.is_dir():
        raise ModelError(f"{file} is a directory; pass the path of one model file.")
    if not file.exists():
        raise FileNotFoundError(f"There is no model file {file}.")
    with file.open("rb") as stream:
        head = stream.read(4096)
    if not head:
        raise ModelError(f"{file} is empty; save the model again.")
    _refuse_pickles(file, head)
    if head.startswith(b"PK") and storage.format_of(file)[0]:
        return "treeinner"
    if head.startswith(b"CBM1"):
        return "catboost"
    if re.match(rb"tree\r?\n", head):
        return "lightgbm"
    if re.match(rb"\{[iUIlL$#]", head):  # UBJSON: a length follows the brace; in JSON it is a quote or a space
        return "xgboost"
    if re.match(rb"(\xef\xbb\xbf)?\s*[{\[]", head):
        return _kind_of_json(file, head)
    if head.startswith((b"binf", b"bs64")):
        raise UnsupportedModelError(
            f"{file} is in XGBoost's old binary format; load it with the XGBoost that wrote it and save it as .ubj."
        )
    raise ModelError(f"{file} is no model file that treeinner knows; {SAVE_AS}.")


def _refuse_pickles(file: Path, head: bytes) -> None:
    pickled = len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5
    if pickled or (head[0] == 0x78 and len(head) > 1 and head[1] in (0x01, 0x5E, 0x9C, 0xDA)):
        raise UnsupportedModelError(
            f"{file} is a pickle (or joblib) file, and loading one can run any code; "
            f"load it yourself and pass the object, or {SAVE_AS}."
        )
    for magic, name in COMPRESSED.items():
        if head.startswith(magic):
            raise UnsupportedModelError(
                f"{file} is compressed ({name}); decompress it, or if it is a joblib file, "
                "load it yourself and pass the object."
            )


def _kind_of_json(file: Path, head: bytes) -> Kind:
    """Look at the first key, which tells as a rule; only if it does not parse the whole file."""
    first = re.match(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(\w+)"', head)
    keys = {first[1].decode()} if first else set()
    if not keys & ({"learner"} | CATBOOST_KEYS):
        try:
            content = json.loads(file.read_bytes())
        except ValueError as error:
            raise ModelError(f"{file} is not a complete JSON file: {error}. Save the model again.") from error
        keys = set(content) if isinstance(content, dict) else set()
    if "learner" in keys:
        return "xgboost"
    if keys & CATBOOST_KEYS:
        return "catboost"
    if "tree_info" in keys:
        raise UnsupportedModelError(
            f"{file} is LightGBM's dump_model; save the model with model.save_model('model.txt')."
        )
    if not keys:
        raise UnsupportedModelError(
            f"{file} is a JSON list, perhaps XGBoost's dump_model, which lacks the values of inner nodes; "
            "save the model with model.save_model('model.ubj')."
        )
    raise ModelError(f"{file} is a JSON file, but no model of XGBoost or CatBoost; {SAVE_AS}.")
