"""LightGBM's model text -> arrays. Knows the format and nothing of what the numbers mean.

The same text comes from `Booster.model_to_string` and from a saved file; LightGBM 3 writes v3, LightGBM 4 v4.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError
from treeinner.readers._trees import FloatArray, LongArray

__all__ = ["ModelText", "parse"]


END_OF_TREES = "\nend of trees"


def _column(key: str, kind: Callable[[str], Any], *, of_leaves: bool = False, required: bool = False) -> Any:
    """A column of ModelText: (leaves,) or (inner,), parsed at its first use; None if a tree lacks it."""

    def parsed(model: ModelText) -> Any:
        return model.column(key, kind, of_leaves, required)

    return cached_property(parsed)


@dataclass(frozen=True, eq=False)
class ModelText:
    """A model as it is written: inner nodes of all trees in a row, leaves of all trees in a row.

    A child c >= 0 is the c-th inner node of its tree, c < 0 its leaf number ~c. Numbers are parsed when they are asked
    for: of the dozen columns half are of use to few.
    """

    header: dict[str, str]
    params: dict[str, str] | None  # the parameters block; None if the text has none
    pandas_categorical: list[list[Any]] | None
    trees: list[dict[str, str]]  # key -> the text of its value

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.trees)

    def first(self, n_trees: int) -> ModelText:
        """The model of the first trees alone."""
        return replace(self, trees=self.trees[:n_trees])

    def number(self, key: str, default: float) -> float:
        """Parameter of the block as a number."""
        text = (self.params or {}).get(key, "")
        try:
            return float(text) if text else default
        except ValueError:
            raise ModelError(f"The LightGBM parameter {key} is {text!r}; expected a number.") from None

    @cached_property
    def n_leaves(self) -> LongArray:
        """(trees,)."""
        found = self._scalars("num_leaves", int)
        if np.any(found < 1):
            raise ModelError("The LightGBM model is malformed: a tree has no leaves.")
        return found

    @cached_property
    def shrinkage(self) -> FloatArray:
        """(trees,)."""
        return self._scalars("shrinkage", float, default="1")

    @property
    def linear(self) -> bool:
        """Whether leaves hold linear models."""
        return any(tree.get("is_linear", "0") != "0" for tree in self.trees)

    split_feature = _column("split_feature", int, required=True)
    split_gain = _column("split_gain", float)
    threshold = _column("threshold", float, required=True)
    left_child = _column("left_child", int, required=True)
    right_child = _column("right_child", int, required=True)
    internal_value = _column("internal_value", float)  # six digits
    # six digits; 0 at the root in LightGBM 3, which has no root value either
    internal_weight = _column("internal_weight", float)
    internal_count = _column("internal_count", int)
    leaf_value = _column("leaf_value", float, of_leaves=True, required=True)
    leaf_weight = _column("leaf_weight", float, of_leaves=True)  # hessian sums; 0 in a tree of one leaf
    leaf_count = _column("leaf_count", int, of_leaves=True)

    @cached_property
    def decision_type(self) -> LongArray:
        """(inner,)."""
        found: LongArray | None = self.column("decision_type", int, False, False)
        return np.zeros(int((self.n_leaves - 1).sum()), np.int64) if found is None else found

    @cached_property
    def n_sets(self) -> LongArray:
        """Category sets of each tree: (trees,)."""
        return self._scalars("num_cat", int, default="0")

    @cached_property
    def sets(self) -> tuple[LongArray, LongArray]:
        """Category sets of all trees in a row: (set_start, set_codes)."""
        return _category_sets(self.trees, self.n_sets)

    def _scalars(self, key: str, kind: Callable[[str], Any], default: str | None = None) -> NDArray[Any]:
        words = [tree.get(key, default) for tree in self.trees]
        if None in words:
            raise ModelError(f"The LightGBM model is malformed: a tree has no {key}.")
        return _numbers([word for word in words if word is not None], kind, key)

    def column(self, key: str, kind: Callable[[str], Any], of_leaves: bool, required: bool) -> Any:
        """One field of all trees in a row; None if a tree lacks it."""
        rows: list[str] = []
        lengths: list[int] = []
        for tree, n_leaves in zip(self.trees, self.n_leaves.tolist(), strict=True):
            row = tree.get(key)
            if n_leaves == 1 and not of_leaves:
                continue
            if n_leaves == 1 and not required:  # a tree of one leaf may leave the field out or empty: 0
                row = row or "0"
            if row is None:
                if required:
                    raise ModelError(f"The LightGBM model is malformed: a tree has no {key}.")
                return None
            rows.append(row)
            lengths.append(n_leaves if of_leaves else n_leaves - 1)
        if lengths == [row.count(" ") + 1 for row in rows]:
            # What is not a number is found below; it is a warning before numpy 2.4.
            with suppress(ValueError, DeprecationWarning), warnings.catch_warnings():
                warnings.simplefilter("error", DeprecationWarning)
                found = np.fromstring(" ".join(rows), np.int64 if kind is int else np.float64, sep=" ")
                if len(found) == sum(lengths):
                    return found
        words = [row.split() for row in rows]
        for split, length in zip(words, lengths, strict=True):
            if len(split) != length:
                raise ModelError(
                    f"The LightGBM model is malformed: {key} has {len(split)} entries where {length} belong."
                )
        return _numbers(chain.from_iterable(words), kind, key)


def parse(text: str) -> ModelText:
    """Read a model text; ModelError if it is not one, or not a whole one."""
    if "\r" in text[:10]:
        text = text.replace("\r\n", "\n")
    if not text.startswith("tree\n"):
        raise ModelError(
            f"The text begins with {text[:20]!r}, but a LightGBM model begins with 'tree'; "
            "pass a file written by Booster.save_model."
        )
    head, *blocks = text.split("\nTree=")
    last, found, tail = (blocks or [head])[-1].partition(END_OF_TREES)
    if not found:
        raise ModelError("The LightGBM model is cut off: there is no 'end of trees'; save it again.")
    head, blocks = (head, [*blocks[:-1], last]) if blocks else (last, [])
    header = _fields(head)
    announced = header.get("tree_sizes")
    if announced is not None and len(announced.split()) != len(blocks):
        raise ModelError(
            f"The LightGBM model announces {len(announced.split())} trees, but has {len(blocks)}; save it again."
        )
    return ModelText(header, _parameters(tail), _pandas_categorical(tail), [_fields(block) for block in blocks])


def _fields(block: str) -> dict[str, str]:
    """Lines key=value; a line without '=' is a flag."""
    fields = {}
    for line in block.split("\n"):
        key, _, value = line.partition("=")
        fields[key] = value
    return fields


def _numbers(words: Iterable[str], kind: Callable[[str], Any], key: str) -> NDArray[Any]:
    try:
        return np.array(list(map(kind, words)), dtype=np.int64 if kind is int else np.float64)
    except (ValueError, OverflowError) as error:
        raise ModelError(
            f"The LightGBM model is malformed: {key} holds something else than numbers ({error})."
        ) from None


def _category_sets(trees: list[dict[str, str]], n_sets: LongArray) -> tuple[LongArray, LongArray]:
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
