"""What makes an Ensemble well formed. A malformed model is one clear error here and never a crash in a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError, limit

if TYPE_CHECKING:
    from treeinner.ensemble.ensemble import Ensemble

__all__ = [
    "MAX_VALUE", "check_depth", "frozen", "inner_by_depth", "max_depth", "require", "validate", "validate_node_values",
]  # fmt: skip

IntArray = NDArray[np.int32]
LongArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Links = NDArray[Any]  # positions of nodes, -1: none

MAX_CODE = 2**24  # XGBoost's own limit; larger codes are not exact in float32
MAX_COVER = 1e100  # sums and products of covers stay finite
MAX_VALUE = 1e100  # of leaves and base scores; likewise
MAX_COLUMNS = 2**27  # a damaged number must not become a huge allocation
MAX_DEPTH = 100_000  # TREEINNER_MAX_DEPTH. Real trees have tens of levels, and time grows with each
# An inner node predicts about as much as its leaves. Far larger values leave no digits for the differences that count.
MAX_NODE_VALUE = 1e8  # in units of the largest leaf


def require(condition: bool | np.bool_, damage: str, *, owner: str = "The model is malformed") -> None:
    """Raise ModelError unless a model is as it must be."""
    if not condition:
        raise ModelError(f"{owner}: {damage}.")


def frozen(array: Any, dtype: type, name: str) -> NDArray[Any]:
    """Contiguous read-only array of `dtype`; a value that does not survive the conversion is an error."""
    given = np.asarray(array)
    held: NDArray[Any] = np.ascontiguousarray(given, dtype=dtype)
    if held is not given and np.issubdtype(dtype, np.integer) and not np.array_equal(held, given):
        raise ModelError(f"{name} contains values that are not integers or out of range for {np.dtype(dtype).name}.")
    if held is given and held.flags.writeable:
        held = held.copy()
    held.flags.writeable = False
    return held


def max_depth() -> int:
    """How many levels of splits a tree may have."""
    return limit("TREEINNER_MAX_DEPTH", MAX_DEPTH)


def check_depth(depth: int, most: int) -> None:
    """Raise ModelError if a tree has more levels of splits than it may have."""
    if depth > most:
        raise ModelError(
            f"A tree has more than {most:,} levels, as a damaged or malicious file may; if the model is real, set the "
            "environment variable TREEINNER_MAX_DEPTH to the number of levels to allow."
        )


def inner_by_depth(left: Links, right: Links, roots: Links) -> list[Links]:
    """Inner nodes of all trees, level by level from the roots; ModelError if there are too many levels."""
    levels, most = [], max_depth()
    nodes = roots[left[roots] >= 0]
    while len(nodes):
        levels.append(nodes)
        check_depth(len(levels), most)
        children = np.concatenate([left[nodes], right[nodes]])
        nodes = children[left[children] >= 0]
    return levels


def validate(e: Ensemble) -> None:
    """Raise ModelError unless the arrays describe proper trees."""
    _check_shapes(e)
    inner = e.feature >= 0
    _check_links(e, inner)
    has_nodes_enough = np.diff(e.tree_start) > 2 * max_depth()  # to be too deep
    inner_by_depth(e.left, e.right, e.tree_start[:-1][has_nodes_enough])
    _check_splits(e, inner)
    _check_values(e, inner)


def validate_node_values(e: Ensemble, node_value: FloatArray, tree_rate: FloatArray, gain: FloatArray) -> None:
    """Raise ModelError unless what may be worked out later fits the rest."""
    require(tree_rate.shape == (e.n_trees,), f"tree_rate does not have one entry per tree ({e.n_trees})")
    require(gain.shape == (e.n_nodes,), f"gain does not have one entry per node ({e.n_nodes})")
    require(node_value.shape == e.value.shape, "value and node_value differ in shape")
    require(not np.any((tree_rate < 0) | np.isinf(tree_rate)), "a learning rate is negative or infinite")
    require(not np.any(np.abs(gain) > MAX_COVER), "a gain is infinite, or absurdly large")
    same = (node_value == e.value) | (e.feature >= 0)[:, None]
    require(np.all(same), "node_value differs from value at a leaf")
    largest = float(np.abs(e.value).max(initial=0.0))
    # A comparison with NaN, a value that is not known, is false.
    require(not np.any(np.abs(node_value) > MAX_NODE_VALUE * largest), "a node value is infinite, or absurdly large")


def _cuts(start: LongArray, n: int, *, smallest: int) -> bool:
    """Whether n items are cut into parts, of at least so many items, that begin at `start`."""
    inside = len(start) > 0 and start[0] == 0 and start[-1] == n and np.all((start >= 0) & (start <= n))
    return bool(inside and np.all(np.diff(start) >= smallest))  # of numbers in range, so that no difference wraps


def _check_shapes(e: Ensemble) -> None:
    for name in ("tree_output", "feature", "set_start", "set_codes", "base_score"):
        require(getattr(e, name).ndim == 1, f"{name} does not have one dimension")
    n_trees, n_nodes = len(e.tree_output), len(e.feature)
    for name in ("tree_round", "tree_weight"):
        require(getattr(e, name).shape == (n_trees,), f"{name} does not have one entry per tree ({n_trees})")
    for name in ("threshold", "left", "right", "missing_left", "category_set", "cover", "leaf_id"):
        require(getattr(e, name).shape == (n_nodes,), f"{name} does not have one entry per node ({n_nodes})")
    require(e.value.ndim == 2 and len(e.value) == n_nodes, f"value does not have one row per node ({n_nodes})")
    cut = e.tree_start.shape == (n_trees + 1,) and _cuts(e.tree_start, n_nodes, smallest=1)
    require(cut, "tree_start does not cut the nodes into non-empty trees")
    require(len(e.base_score) >= 1, "there is no output")
    sane = np.abs(e.base_score) <= MAX_VALUE  # NaN is not
    require(np.all(sane), "the base score is not finite, or absurdly large")
    weight = np.abs(e.tree_weight)
    sane = (weight == 0) | ((weight >= 1 / MAX_VALUE) & (weight <= MAX_VALUE))
    require(np.all(sane), "the weight of a tree is not finite, or absurdly large or small")
    known = (e.tree_output >= 0) & (e.tree_output <= len(e.base_score) - e.value.shape[1])
    require(np.all(known), f"a tree adds to an output outside 0..{len(e.base_score) - 1}")
    one_at_a_time = n_trees == 0 or (e.tree_round[0] == 0 and np.all(np.diff(e.tree_round) >> 1 == 0))
    require(one_at_a_time, "boosting rounds are not numbered consecutively from 0")


def _check_links(e: Ensemble, inner: BoolArray) -> None:
    """Every child lies behind its parent in the same tree and has exactly one parent: so each tree is a tree."""
    both = (e.left >= 0) == inner, (e.right >= 0) == inner
    require(np.all(both), "a split lacks a child, or a leaf has one")
    parent = np.flatnonzero(inner).astype(np.int32)
    left, right = e.left[parent], e.right[parent]
    inner_of_tree = np.add.reduceat(inner, e.tree_start[:-1], dtype=np.int64) if len(e.tree_output) else 0
    end = np.repeat(e.tree_start[1:].astype(np.int32), inner_of_tree)
    for child in (left, right):
        require(np.all((child > parent) & (child < end)), "a child is out of range, or the tree has a cycle")
    reached = np.zeros(len(e.feature), bool)
    reached[left] = True
    reached[right] = True
    # As many edges as nodes that are no root, and all of these reached: each of them once.
    once = 2 * len(parent) == len(e.feature) - len(e.tree_output) and np.count_nonzero(reached) == 2 * len(parent)
    require(once and not reached[e.tree_start[:-1]].any(), "a node is reached twice, or not at all")


def _check_splits(e: Ensemble, inner: BoolArray) -> None:
    last = e.schema.n_columns - 1
    require(1 <= last + 1 <= MAX_COLUMNS, f"it has {last + 1} columns")
    for name in ("names", "categorical", "levels", "known_codes"):
        given = getattr(e.schema, name)
        require(given is None or len(given) == last + 1, f"{name} does not have one entry per column ({last + 1})")
    require(all(0 <= j <= last for j in e.zero_as_missing), "zero_as_missing names a column that there is not")
    require(np.all(e.feature <= last), f"a split tests a column outside 0..{last}")
    require(np.all(e.feature >= -1), "a column number is negative")
    categorical = e.category_set >= 0
    n_sets = len(e.set_start) - 1
    require(np.all(e.category_set >= -1) and np.all(e.category_set < n_sets), "a category set is out of range")
    require(not np.any(categorical & ~inner), "a leaf has a category set")
    require(not np.any(np.isnan(e.threshold) & inner & ~categorical), "a threshold is NaN")
    require(_cuts(e.set_start, len(e.set_codes), smallest=0), "set_start does not cut set_codes into sets")
    in_range = (e.set_codes >= 0) & (e.set_codes < MAX_CODE)
    require(np.all(in_range), f"a category code is outside 0..{MAX_CODE - 1}")
    if categorical.any():
        mixed = np.intersect1d(e.feature[inner & ~categorical], e.feature[categorical])
        require(len(mixed) == 0, f"columns {mixed.tolist()} are split both as numbers and as categories")
    if e.column_features is not None:
        named = all(c and all(0 <= f < e.n_features for f in c) for c in e.column_features)
        every = len(e.column_features) == e.schema.n_columns
        require(named and every, "column_features does not name features for every column")
    elif e.feature_names is not None:
        require(len(e.feature_names) == e.schema.n_columns, "feature_names does not have one name per column")
    if e.output_names is not None:
        require(len(e.output_names) == len(e.base_score), "output_names does not have one name per output")


def _check_values(e: Ensemble, inner: BoolArray) -> None:
    # Whole arrays are compared and the nodes that do not count let pass: faster than picking the others out.
    leaf, inner_row, leaf_row = ~inner, inner[:, None], ~inner[:, None]
    sane = np.abs(e.value) <= MAX_VALUE  # NaN is not
    require(np.all(sane | inner_row), "a leaf value is not finite, or absurdly large")
    require(np.all((e.value == 0) | leaf_row), "an inner node has a leaf value")
    require(not np.any((e.cover < 0) | (e.cover > MAX_COVER)), "a cover is negative, infinite or absurdly large")
    root = e.cover[e.tree_start[:-1]]  # deep nodes may have a tiny part of it
    require(not np.any((root > 0) & (root < 1 / MAX_COVER)), "the cover of a tree is absurdly small")
    numbered = np.where(leaf, e.leaf_id >= 0, e.leaf_id == -1)
    require(np.all(numbered), "leaf_id does not number the leaves")
