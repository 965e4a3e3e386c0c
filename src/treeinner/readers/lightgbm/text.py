"""LightGBM's model text -> arrays. Knows the format and nothing of what the numbers mean.

The same text comes from `Booster.model_to_string` and from a saved file; LightGBM 3 writes v3, LightGBM 4 v4.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble import validation
from treeinner.errors import ModelError
from treeinner.readers._numbers import parse_number
from treeinner.readers._trees import BoolArray, LongArray
from treeinner.readers.newer import check_fields

__all__ = ["DEFAULT_LEFT", "ModelText", "parse", "require", "version_of"]

require = partial(validation.require, owner="The LightGBM model is malformed")
LARGEST = 1e50  # of weights, values and gains: products of a few of them stay finite
# Fields of v3 and v4; "" is an empty line.
HEADER = {
    "tree", "version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective",
    "average_output", "feature_names", "monotone_constraints", "feature_infos", "tree_sizes", "",
}  # fmt: skip
TREE = {
    "num_leaves", "num_cat", "split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child",
    "leaf_value", "leaf_weight", "leaf_count", "internal_value", "internal_weight", "internal_count", "cat_boundaries",
    "cat_threshold", "is_linear", "leaf_const", "num_features", "leaf_features", "leaf_coeff", "shrinkage", "",
}  # fmt: skip
CATEGORICAL, DEFAULT_LEFT = 1, 2  # bits of decision_type; the next two hold the kind of missing value


def _column(key: str, kind: type = np.float64, *, of_leaves: bool = False) -> Any:
    """A column of ModelText: (leaves,) or (inner,), parsed at its first use."""
    return cached_property(lambda model: _sane(model.column(key, kind, of_leaves), key))


def _scalars(key: str, kind: type) -> Any:
    """A number of each tree: (trees,), parsed at its first use."""
    return cached_property(lambda model: _sane(model.scalars(key, kind), key))


def _sane(found: NDArray[Any], key: str) -> NDArray[Any]:
    """The numbers of a field, none of them absurd; thresholds may be infinite, and leaves have a limit of their own."""
    sane = key in ("threshold", "leaf_value") or np.all(np.abs(found) <= LARGEST)  # NaN is not
    require(sane, f"{key} is not finite, or absurdly large")
    return found


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

    def number(self, key: str, default: float) -> float:
        """Parameter of the block as a number."""
        text = (self.params or {}).get(key, "")
        return _parameter(key, text) if text else default

    def numbers(self, key: str) -> list[float]:
        """Parameter of the block as the numbers between its commas; none if it is empty or not there."""
        text = (self.params or {}).get(key, "")
        return [_parameter(key, word) for word in text.split(",")] if text else []

    def count(self, key: str, default: str = "") -> int:
        """Entry of the header that counts something."""
        word = self.header.get(key, default)
        require(word.isascii() and word.isdigit() and len(word) < 19, f"{key} is {word[:20]!r}, expected a count")
        return parse_number(word, int)

    @cached_property
    def n_leaves(self) -> LongArray:
        """(trees,)."""
        found = self.scalars("num_leaves", np.int64)
        require(np.all(found >= 1), "a tree has no leaves")
        return found

    shrinkage = _scalars("shrinkage", np.float64)
    n_sets = _scalars("num_cat", np.int64)  # category sets of each tree
    split_feature = _column("split_feature", np.int64)
    split_gain = _column("split_gain")
    threshold = _column("threshold")
    decision_type = _column("decision_type", np.int64)
    left_child = _column("left_child", np.int64)
    right_child = _column("right_child", np.int64)
    internal_value = _column("internal_value")  # six digits
    internal_weight = _column("internal_weight")  # six digits; 0 at the roots of LightGBM 3, which lack a value too
    internal_count = _column("internal_count", np.int64)
    leaf_value = _column("leaf_value", of_leaves=True)
    leaf_weight = _column("leaf_weight", of_leaves=True)  # hessian sums; 0 in a tree of one leaf
    leaf_count = _column("leaf_count", np.int64, of_leaves=True)

    @cached_property
    def categorical(self) -> BoolArray:
        """Whether a split is by category: (inner,)."""
        return np.asarray(self.decision_type & CATEGORICAL > 0)

    @property
    def missing(self) -> LongArray:
        """Kind of missing value of each split: (inner,)."""
        return np.asarray(self.decision_type >> 2 & 3)

    @cached_property
    def sets(self) -> tuple[LongArray, LongArray]:
        """Bit sets of all trees in a row as lists of codes: (set_start, set_codes)."""
        sizes, words = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for i in np.flatnonzero(self.n_sets > 0):
            tree = self.trees[i]
            bound = _numbers(_words(tree.get("cat_boundaries", "")), np.int64, "cat_boundaries")
            word = _numbers(_words(tree.get("cat_threshold", "")), np.int64, "cat_threshold")
            good = len(bound) - 1 == self.n_sets[i] and bound[0] == 0 and bound[-1] == len(word)
            good = good and np.all(np.diff(bound) >= 0) and np.all((word >= 0) & (word < 2**32))
            require(good, f"the category sets of tree {i} are inconsistent")
            sizes.append(np.diff(bound))  # words of each set
            words.append(word)
        size = np.concatenate(sizes)
        bits = np.unpackbits(np.concatenate(words).astype("<u4").view(np.uint8), bitorder="little")
        (at,) = np.nonzero(bits)
        of_code = np.repeat(np.arange(len(size)), size)[at // 32]
        set_start = np.concatenate([[0], np.cumsum(np.bincount(of_code, minlength=len(size)))])
        return set_start.astype(np.int64), at - 32 * (np.cumsum(size) - size)[of_code]

    def scalars(self, key: str, kind: type) -> NDArray[Any]:
        """One number of each tree: (trees,)."""
        return _numbers(_texts(self.trees, key), kind, key)

    def column(self, key: str, kind: type, of_leaves: bool) -> NDArray[Any]:
        """One field of all trees in a row."""
        trees, lengths = self.trees, self.n_leaves.tolist()
        if not of_leaves:
            trees = [tree for tree, n_leaves in zip(trees, lengths, strict=True) if n_leaves > 1]
            lengths = [n_leaves - 1 for n_leaves in lengths if n_leaves > 1]
        elif key != "leaf_value":  # in a tree of one leaf it may be left out or empty: 0
            trees = [tree if n > 1 or tree.get(key) else {key: "0"} for tree, n in zip(trees, lengths, strict=True)]
        rows = _texts(trees, key)
        if key != "threshold" and lengths == [row.count(" ") + 1 for row in rows]:
            # What is not a number is found below; it is a warning before numpy 2.4.
            with suppress(ValueError, DeprecationWarning), warnings.catch_warnings():
                warnings.simplefilter("error", DeprecationWarning)
                found: NDArray[Any] = np.fromstring(" ".join(rows), kind, sep=" ")
                if len(found) == sum(lengths):
                    return found
        words = [_words(row) for row in rows]
        for n, length in zip(map(len, words), lengths, strict=True):
            require(n == length, f"{key} has {n} entries, expected {length}")
        return _numbers(list(chain.from_iterable(words)), kind, key)


def parse(text: str) -> ModelText:
    """Read a model text; ModelError if it is not one, or not a complete one."""
    if "\r" in text[:10]:
        text = text.replace("\r\n", "\n")
    require("\r" not in text, "it has carriage returns that do not end lines")
    if not text.startswith("tree\n"):
        raise ModelError(
            f"The text begins with {text[:20]!r}, but a LightGBM model begins with 'tree'; "
            "pass a file written by Booster.save_model."
        )
    body, found, tail = text.rpartition("\nend of trees")
    if not found:
        raise ModelError("The LightGBM model is cut off: there is no 'end of trees'; save it again.")
    head, *blocks = body.split("\nTree=")
    require(not blocks or head.endswith("\n"), "there is no blank line between its header and its trees")
    header = _fields(head)
    ascii_only = all(f"{key}{value}".isascii() for key, value in header.items() if key != "feature_names")
    require(ascii_only, "a line of the header other than feature_names is not ASCII")
    sizes = _numbers(header["tree_sizes"].split(), np.int64, "tree_sizes") if "tree_sizes" in header else None
    require(sizes is None or np.all(sizes > 0), "tree_sizes are not positive")  # LightGBM skips so many bytes
    declared = len(blocks) if sizes is None else len(sizes)
    if declared != len(blocks):
        raise ModelError(f"The LightGBM model declares {declared} trees but contains {len(blocks)}; save it again.")
    trees, version = [_tree(block) for block in blocks], version_of(text)
    check_fields("LightGBM", version, "The header of the LightGBM model", header, HEADER)
    names = {name for tree in trees for name in tree if not name.isdigit()}  # a tree begins with its number
    check_fields("LightGBM", version, "A tree of the LightGBM model", names, TREE)
    return ModelText(header, _parameters(tail), _pandas_categorical(tail), trees)


def version_of(text: str) -> tuple[int, ...]:
    """Version of the format, (4,) for "version=v4"; () if it has none."""
    found = re.search(r"^version=v(\d{1,9})$", text[:1000], re.MULTILINE | re.ASCII)
    return (int(found[1]),) if found else ()


def _texts(trees: list[dict[str, str]], key: str) -> list[str]:
    """One field of each tree."""
    try:
        return [tree[key] for tree in trees]
    except KeyError:
        raise ModelError(
            f"The LightGBM model has a tree without {key}: it is damaged, or was written by a version before 3.0. "
            "Train it with LightGBM 3 or later, and save it again."
        ) from None


def _fields(block: str) -> dict[str, str]:
    """Lines key=value; a line without '=' is a flag. A key that is there twice is of two trees, run together."""
    parts = [line.partition("=") for line in block.split("\n")]
    names = [key for key, equals, _ in parts if equals]
    require(len(set(names)) == len(names), "a tree, or the header, has a field twice; save it again")
    return {key: value for key, _, value in parts}


def _tree(block: str) -> dict[str, str]:
    """Fields of a tree, behind its number; where LightGBM meets a line of another kind, it reads no further."""
    complete = all(not line or "=" in line for line in block.split("\n")[1:])
    require(complete, "a tree has a line that is not key=value; save it again")
    return _fields(block)


def _numbers(words: list[str], kind: type, key: str) -> NDArray[Any]:
    """Parse each different word once: thresholds are bounds of bins, the same ones in every tree."""
    try:
        number = {word: parse_number(word, kind) for word in set(words)}
        return np.array([number[word] for word in words], dtype=kind)
    except (ValueError, OverflowError) as error:
        raise ModelError(
            f"The LightGBM model is malformed: {key} holds something other than numbers ({error})."
        ) from None


def _words(text: str) -> list[str]:
    """Words of a list; a blank outside ASCII parts none."""
    return text.split() if text.isascii() else text.split(" ")


def _parameter(key: str, word: str) -> float:
    """Number in the parameters block."""
    try:
        found = parse_number(word, float)
    except ValueError:
        found = math.inf
    if not abs(found) <= LARGEST:  # NaN is not
        raise ModelError(f"The LightGBM parameter {key} is {word!r}; expected a number.")
    return found


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
    except (ValueError, RecursionError):
        raise ModelError("The LightGBM model is cut off inside its pandas_categorical line; save it again.") from None
    lists = levels is None or (isinstance(levels, list) and all(isinstance(item, list) for item in levels))
    require(lists, "pandas_categorical is not a list of lists")
    return levels or None
