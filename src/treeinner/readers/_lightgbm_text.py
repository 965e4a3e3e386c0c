"""LightGBM's model text -> arrays. Knows the format and nothing of what the numbers mean.

The same text comes from `Booster.model_to_string` and from a saved file; LightGBM 3 writes v3, LightGBM 4 v4.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError

__all__ = ["ModelText", "parse"]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

END_OF_TREES = "\nend of trees"


@dataclass(frozen=True, eq=False)
class ModelText:
    """A model as it is written: inner nodes of all trees in a row, leaves of all trees in a row.

    A child c >= 0 is the c-th inner node of its tree, c < 0 its leaf number ~c.
    """

    header: dict[str, str]
    params: dict[str, str] | None  # the parameters block; None if the text has none
    pandas_categorical: list[list[Any]] | None
    n_leaves: IntArray  # (trees,)
    shrinkage: FloatArray  # (trees,)
    linear: bool
    split_feature: IntArray  # (inner,)
    split_gain: FloatArray | None
    threshold: FloatArray
    decision_type: IntArray
    left_child: IntArray
    right_child: IntArray
    internal_value: FloatArray | None  # six digits
    internal_weight: FloatArray | None  # six digits; 0 at the root in LightGBM 3, which has no root value either
    internal_count: FloatArray | None
    leaf_value: FloatArray  # (leaves,)
    leaf_weight: FloatArray | None  # hessian sums; 0 in a tree of one leaf
    leaf_count: FloatArray | None
    n_sets: IntArray  # (trees,) category sets of each tree
    set_start: IntArray  # category sets of all trees in a row
    set_codes: IntArray

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.n_leaves)

    def number(self, key: str, default: float) -> float:
        """Parameter of the block as a number."""
        text = (self.params or {}).get(key, "")
        try:
            return float(text) if text else default
        except ValueError:
            raise ModelError(f"The LightGBM parameter {key} is {text!r}, but a number was needed.") from None


def parse(text: str) -> ModelText:
    """Read a model text; ModelError if it is not one, or not a whole one."""
    text = text.replace("\r\n", "\n")
    if not text.startswith("tree\n"):
        raise ModelError(
            f"The text begins with {text[:20]!r}, but a LightGBM model begins with 'tree'; "
            "pass a file written by Booster.save_model."
        )
    body, found, tail = text.partition(END_OF_TREES)
    if not found:
        raise ModelError("The LightGBM model is cut off: there is no 'end of trees'; save it again.")
    head, *blocks = body.split("\nTree=")
    header = _fields(head)
    announced = header.get("tree_sizes")
    if announced is not None and len(announced.split()) != len(blocks):
        raise ModelError(
            f"The LightGBM model announces {len(announced.split())} trees, but has {len(blocks)}; save it again."
        )
    trees = [_fields(block) for block in blocks]
    n_leaves = _scalars(trees, "num_leaves", int)
    if np.any(n_leaves < 1):
        raise ModelError("The LightGBM model is malformed: a tree has no leaves.")
    n_sets = _scalars(trees, "num_cat", int, default="0")
    set_start, set_codes = _category_sets(trees, n_sets)
    split = [i for i, n in enumerate(n_leaves) if n > 1]
    grown, inner = [trees[i] for i in split], n_leaves[split] - 1

    def per_split(key: str, kind: Callable[[str], Any], required: bool = False) -> Any:
        return _column(grown, inner, key, kind, required)

    decision_type = per_split("decision_type", int)
    return ModelText(
        header=header,
        params=_parameters(tail),
        pandas_categorical=_pandas_categorical(tail),
        n_leaves=n_leaves,
        shrinkage=_scalars(trees, "shrinkage", float, default="1"),
        linear=any(tree.get("is_linear", "0") != "0" for tree in trees),
        split_feature=per_split("split_feature", int, required=True),
        split_gain=per_split("split_gain", float),
        threshold=per_split("threshold", float, required=True),
        decision_type=np.zeros(int(inner.sum()), np.int64) if decision_type is None else decision_type,
        left_child=per_split("left_child", int, required=True),
        right_child=per_split("right_child", int, required=True),
        internal_value=per_split("internal_value", float),
        internal_weight=per_split("internal_weight", float),
        internal_count=per_split("internal_count", float),
        leaf_value=_column(trees, n_leaves, "leaf_value", float, required=True),
        leaf_weight=_leaf_column(trees, n_leaves, "leaf_weight"),
        leaf_count=_leaf_column(trees, n_leaves, "leaf_count"),
        n_sets=n_sets,
        set_start=set_start,
        set_codes=set_codes,
    )


def _fields(block: str) -> dict[str, str]:
    """Lines key=value; a line without '=' is a flag."""
    fields = {}
    for line in block.split("\n"):
        key, _, value = line.partition("=")
        fields[key] = value
    return fields


def _numbers(words: Sequence[str] | chain[str], kind: Callable[[str], Any], key: str) -> NDArray[Any]:
    dtype = np.int64 if kind is int else np.float64
    try:
        return np.array(list(map(kind, words)), dtype=dtype)
    except (ValueError, OverflowError) as error:
        raise ModelError(
            f"The LightGBM model is malformed: {key} holds something else than numbers ({error})."
        ) from None


def _scalars(
    trees: list[dict[str, str]], key: str, kind: Callable[[str], Any], default: str | None = None
) -> NDArray[Any]:
    words = [tree.get(key, default) for tree in trees]
    if None in words:
        raise ModelError(f"The LightGBM model is malformed: a tree has no {key}.")
    return _numbers([word for word in words if word is not None], kind, key)


def _column(
    trees: list[dict[str, str]],
    lengths: IntArray,
    key: str,
    kind: Callable[[str], Any],
    required: bool = False,
) -> Any:
    """One field of all trees in a row; None if a tree lacks it."""
    if not all(key in tree for tree in trees):
        if required:
            raise ModelError(f"The LightGBM model is malformed: a tree has no {key}.")
        return None
    rows = [tree[key].split() for tree in trees]
    for row, length in zip(rows, lengths.tolist(), strict=True):
        if len(row) != length:
            raise ModelError(f"The LightGBM model is malformed: {key} has {len(row)} entries where {length} belong.")
    return _numbers(chain.from_iterable(rows), kind, key)


def _leaf_column(trees: list[dict[str, str]], n_leaves: IntArray, key: str) -> Any:
    """As `_column`; a tree of one leaf may leave the field out or empty, and then counts 0."""
    filled = [{key: tree.get(key) or "0"} if n == 1 else tree for tree, n in zip(trees, n_leaves.tolist(), strict=True)]
    return _column(filled, n_leaves, key, float)


def _category_sets(trees: list[dict[str, str]], n_sets: IntArray) -> tuple[IntArray, IntArray]:
    """Bit sets of all trees as lists of codes: (set_start, set_codes)."""
    having = [i for i, n in enumerate(n_sets) if n > 0]
    if not having:
        return np.zeros(1, np.int64), np.zeros(0, np.int64)
    bounds = [_numbers(trees[i].get("cat_boundaries", "").split(), int, "cat_boundaries") for i in having]
    words = [_numbers(trees[i].get("cat_threshold", "").split(), int, "cat_threshold") for i in having]
    for i, bound, word in zip(having, bounds, words, strict=True):
        good = len(bound) == n_sets[i] + 1 and bound[0] == 0 and bound[-1] == len(word) and np.all(np.diff(bound) >= 0)
        if not good or np.any((word < 0) | (word >= 2**32)):
            raise ModelError(f"The LightGBM model is malformed: the category sets of tree {i} do not fit together.")
    sizes = np.concatenate([np.diff(bound) for bound in bounds])  # words of each set
    starts = np.cumsum(sizes) - sizes
    bits = np.unpackbits(np.concatenate(words).astype("<u4").view(np.uint8), bitorder="little")
    (at,) = np.nonzero(bits)
    of_word = np.repeat(np.arange(len(sizes)), sizes)
    of_code = of_word[at // 32]
    set_start = np.concatenate([[0], np.cumsum(np.bincount(of_code, minlength=len(sizes)))])
    return set_start.astype(np.int64), at - 32 * starts[of_code]


def _parameters(tail: str) -> dict[str, str] | None:
    _, found, block = tail.partition("\nparameters:\n")
    if not found:
        return None
    block, found, _ = block.partition("\nend of parameters")
    if not found:
        raise ModelError("The LightGBM model is cut off inside its parameters block; save it again.")
    lines = (line[1:-1].partition(":") for line in block.split("\n") if line.startswith("[") and line.endswith("]"))
    return {key: value.strip() for key, _, value in lines}


def _pandas_categorical(tail: str) -> list[list[Any]] | None:
    _, found, line = tail.partition("\npandas_categorical:")
    if not found:
        return None
    try:
        levels = json.loads(line.partition("\n")[0])
    except ValueError:
        raise ModelError("The LightGBM model is cut off inside its pandas_categorical line; save it again.") from None
    if levels is not None and not (isinstance(levels, list) and all(isinstance(item, list) for item in levels)):
        raise ModelError("The LightGBM model is malformed: pandas_categorical is not a list of lists.")
    return levels or None
