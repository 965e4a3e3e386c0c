"""What a table must look like for an XGBoost model: names, types, categories of data frame columns."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from treeinner.readers.xgboost.document import Parts
from treeinner.readers.xgboost.trees import array, require
from treeinner.tables import Level, Schema

__all__ = ["read_schema"]


def read_schema(parts: Parts, missing: float) -> Schema:
    """Collect names, types and levels of the columns; `missing`: the number that stands for no value."""
    learner, n_features = parts.learner, parts.n_features
    names, types = _texts(learner, "feature_names", n_features), _texts(learner, "feature_types", n_features)
    categorical = np.array([kind == "c" for kind in types]) if types else np.zeros(n_features, bool)
    categorical[parts.trees.feature[parts.trees.category_set >= 0]] = True
    levels = _levels(parts.model.get("cats"), n_features, parts.version)
    return Schema(
        n_columns=n_features,
        names=tuple(names) or None,
        categorical=tuple(bool(c) for c in categorical) if categorical.any() else None,
        levels=levels,
        # XGBoost >= 3.3 refuses a level that training did not see; 3.1 and 3.2 take a neighbour's by mistake
        unseen="error" if levels is not None else "other",
        absent="missing",
        missing=missing,
    )


def _texts(learner: Mapping[str, Any], name: str, n_features: int) -> list[str]:
    """One text per feature, or none at all."""
    found = learner.get(name)
    texts = [str(text) for text in found] if isinstance(found, list) else []
    require(len(texts) in (0, n_features), f"{len(texts)} {name} for {n_features} features")
    return texts


def _levels(cats: Any, n_features: int, version: tuple[int, ...]) -> tuple[tuple[Level, ...] | None, ...] | None:
    """Training categories of data frame columns (3.1 and later)."""
    encodings = cats.get("enc") if isinstance(cats, dict) else None
    if not isinstance(encodings, list) or not encodings:
        return None
    complete = all(isinstance(one, dict) and "values" in one for one in encodings)
    require(len(encodings) == n_features and complete, "cats does not describe every feature")
    levels = tuple(_column_levels(one, version) for one in encodings)
    return levels if any(column is not None for column in levels) else None


def _column_levels(encoding: Mapping[str, Any], version: tuple[int, ...]) -> tuple[Level, ...] | None:
    if "offsets" not in encoding:
        numbers = np.asarray(encoding["values"])
        require(numbers.ndim == 1 and numbers.dtype.kind in "iuf", "the categories of a feature are not numbers")
        return tuple(numbers.tolist())
    cuts = array(encoding["offsets"], np.int64, "offsets")
    text = array(encoding["values"], np.int64, "values")
    fits = len(cuts) == 0 or (cuts[0] == 0 and cuts[-1] <= len(text) and np.all(np.diff(cuts) >= 0))
    require(fits and np.all((text >= -128) & (text <= 255)), "the categories of a feature are inconsistent")
    raw = (text % 256).astype(np.uint8).tobytes()
    parts = [raw[a:b] for a, b in pairwise(cuts.tolist())]
    try:
        levels = [part.decode() for part in parts]
        cut_wrong = not raw.isascii() and version < (3, 4)
    except UnicodeDecodeError:
        levels, cut_wrong = [part.decode(errors="backslashreplace") for part in parts], True
    if cut_wrong:
        # 3.1 and 3.2 count letters where they cut bytes, so that every level behind one with a letter outside
        # ASCII is shifted, perhaps onto another one's name; these names match nothing, and so are refused
        levels = [f"{level} (category {code}, cut wrong by XGBoost)" for code, level in enumerate(levels)]
    return tuple(levels) or None
