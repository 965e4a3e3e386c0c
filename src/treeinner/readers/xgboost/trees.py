"""The trees of an XGBoost document as concatenated arrays, live nodes only, each child behind its parent."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble import validation
from treeinner.errors import ModelError, UnsupportedModelError
from treeinner.readers._numbers import parse_number
from treeinner.readers._trees import BoolArray, FloatArray, IntArray, LongArray

__all__ = ["Trees", "array", "read_trees", "require"]

Stored = list[dict[str, Any]]  # trees as XGBoost writes them
require = partial(validation.require, owner="The XGBoost model is damaged")


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees as stored, before rates and DART weights are known; children are absolute, -1 at leaves."""

    start: LongArray  # (n_trees + 1,)
    left: IntArray  # (n_nodes,)
    right: IntArray
    feature: IntArray  # -1 at leaves
    threshold: FloatArray  # NaN at leaves and categorical splits
    missing_left: BoolArray
    category_set: IntArray  # -1: none
    value: FloatArray  # (n_nodes, width)  leaf values, learning rate included; 0 at inner nodes
    weight: FloatArray  # (n_nodes, width)  base_weights as stored: without learning rate at inner nodes
    hessian: FloatArray  # (n_nodes,)  NaN where not stored (vector leaves before 3.2)
    gain: FloatArray  # (n_nodes,)
    leaf_id: IntArray  # (n_nodes,)  node number inside its tree, as pred_leaf gives it; -1 at inner nodes
    set_start: LongArray
    set_codes: LongArray

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.start) - 1

    @cached_property
    def leaf(self) -> BoolArray:
        """Which nodes are leaves."""
        return self.left < 0

    @cached_property
    def tree(self) -> LongArray:
        """Tree of each node."""
        return np.repeat(np.arange(self.n_trees), np.diff(self.start))


def array(raw: Any, dtype: type, name: str) -> NDArray[Any]:
    """Make a 1-D array of a list of JSON or an array of UBJSON; ModelError where the numbers do not fit."""
    try:
        with np.errstate(all="ignore"):
            given = np.asarray(raw if len(raw) else np.empty(0, dtype))
            held: NDArray[Any] = given.astype(dtype, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"The XGBoost model is damaged: {name} does not hold numbers ({error}).") from None
    require(held.ndim == 1 and given.dtype.kind in "biuf", f"{name} is not a plain list of numbers")
    if held.dtype.kind in "iu" and not np.can_cast(given.dtype, held.dtype):
        require(np.array_equal(held, given), f"{name} contains non-integer values")
    return held


@np.errstate(invalid="ignore")  # converting a signalling NaN; it is refused like any other
def read_trees(trees: list[Any], n_features: int) -> Trees:
    """Concatenate the trees of `gradient_booster.model.trees`."""
    require(all(isinstance(tree, dict) for tree in trees), "a tree is not an object")
    # XGBoost puts each tree where its id says.
    require(all(tree.get("id", i) == i for i, tree in enumerate(trees)), "the id of a tree is not its position")
    local_left = _join(trees, "left_children", np.int32)
    sizes = _lengths(trees, "left_children")
    require(bool(np.all(sizes > 0)), "a tree has no node")
    start = np.concatenate([[0], np.cumsum(sizes)])
    if start[-1] >= 2**31:
        raise UnsupportedModelError(f"The XGBoost model has {start[-1]} nodes; 2^31 - 1 is the limit.")
    offset = np.repeat(start[:-1].astype(np.int32), sizes)
    leaf = local_left == -1
    local_right = _join(trees, "right_children", np.int32, sizes)
    left, right = (_absolute(local, leaf, offset, start) for local in (local_left, local_right))
    level = _levels(left, right, start[:-1])
    live = level >= 0

    stored_value = _join(trees, "split_conditions", np.float32, sizes).astype(np.float64)
    value, weight = _values(trees, stored_value, local_right, leaf, sizes=sizes, live=live)
    category_set, set_start, set_codes = _category_sets(trees, start)
    feature = np.where(leaf, np.int32(-1), _join(trees, "split_indices", np.int32, sizes))
    outside = ((feature < -1) | (feature >= n_features)) & live
    require(not np.any(outside), f"a split tests a column outside 0..{n_features - 1}")
    require(len({"split_type" in tree for tree in trees}) < 2, "some trees have split_type, and others do not")
    split_type = _join(trees, "split_type", np.uint8, sizes, fill=0)
    default_left = _join(trees, "default_left", np.uint8, sizes)
    require(np.all((split_type <= 1) & (default_left <= 1)), "split_type or default_left is neither 0 nor 1")
    categorical = (split_type == 1) & ~leaf
    require(not np.any(categorical & (category_set < 0) & live), "a categorical split has no categories")
    # left out for vector leaves before 3.2
    gain, hessian = (_join(trees, name, np.float32, sizes, fill=np.nan) for name in ("loss_changes", "sum_hessian"))
    require(not np.any(np.isinf(hessian) & live), "the hessian of a node is infinite")
    return _compact(
        Trees(
            start=start,
            left=left,
            right=right,
            feature=feature,
            threshold=np.where(leaf | categorical, np.nan, stored_value),
            missing_left=default_left != 0,
            category_set=np.where(categorical, category_set, np.int32(-1)),
            value=value,
            weight=weight,
            hessian=hessian.astype(np.float64),
            gain=np.where(leaf, 0.0, gain.astype(np.float64)),
            leaf_id=np.where(leaf, np.arange(len(left), dtype=np.int32) - offset, np.int32(-1)),
            set_start=set_start,
            set_codes=set_codes,
        ),
        level,
    )


def _absolute(local: IntArray, leaf: BoolArray, offset: IntArray, start: LongArray) -> IntArray:
    """Children as positions in the arrays of all trees; -1 at leaves."""
    inner = np.where(leaf, np.int32(0), local)
    if len(local):
        inside = inner.min() >= 0 and np.all(np.maximum.reduceat(inner, start[:-1]) < np.diff(start))
        require(inside, "a child lies outside its tree")
    return np.where(leaf, np.int32(-1), inner + offset)


def _parts(trees: Stored, name: str) -> list[Any] | None:
    """One array of every tree; None if a tree lacks it."""
    parts = [tree.get(name) for tree in trees]
    kinds = set(map(type, parts))
    require(kinds <= {list, np.ndarray, type(None)}, f"{name} of a tree is not a list")
    return None if type(None) in kinds else parts


def _lengths(trees: Stored, name: str) -> LongArray:
    """Number of items of an array in each tree."""
    return np.array([len(tree[name]) for tree in trees], np.int64)


def _join(
    trees: Stored, name: str, dtype: type, sizes: LongArray | None = None, fill: float | None = None
) -> NDArray[Any]:
    """Concatenate one field of all trees; `sizes`: how many entries each must have; `fill`: where it is left out."""
    parts = _parts(trees, name)
    if parts is None and fill is not None and sizes is not None:
        return np.full(int(sizes.sum()), fill)
    if parts is None:
        raise ModelError(f"The XGBoost model is damaged: a tree has no {name}.")
    require(sizes is None or list(map(len, parts)) == sizes.tolist(), f"{name} of a tree has a wrong length")
    try:
        joined = np.concatenate(parts) if parts else np.empty(0)
    except (TypeError, ValueError) as error:
        raise ModelError(f"The XGBoost model is damaged: {name} does not hold numbers ({error}).") from None
    return array(joined, dtype, name)


def _levels(left: IntArray, right: IntArray, roots: LongArray) -> IntArray:
    """Distance from the root; -1 at deleted nodes, which pruning leaves in the arrays."""
    level = np.full(len(left), -1, dtype=np.int32)
    frontier, depth, reached, most = roots, 0, len(roots), validation.max_depth()
    while len(frontier) and reached <= len(left) and not np.any(level[frontier] >= 0):
        validation.check_depth(depth, most)
        level[frontier] = depth
        inner = frontier[left[frontier] >= 0]
        frontier, depth = np.concatenate([left[inner], right[inner]]), depth + 1
        reached += len(frontier)
    require(reached == np.count_nonzero(level >= 0), "a node is reached twice")
    return level


def _width(trees: Stored) -> int:
    try:
        sizes = {str(tree["tree_param"]["size_leaf_vector"]) for tree in trees}
        widths = {max(1, parse_number(size, int)) for size in sizes} or {1}
    except (KeyError, TypeError, ValueError):
        raise ModelError("The XGBoost model is damaged: size_leaf_vector is missing or not a number.") from None
    require(max(widths) < 2**31, f"a leaf has {max(widths)} values")
    if len(widths) > 1:
        raise UnsupportedModelError(
            "The XGBoost model mixes trees with scalar and with vector leaves; slice the booster "
            "(booster[start:stop]) and read the parts one at a time."
        )
    return widths.pop()


def _values(
    trees: Stored, stored_value: FloatArray, right: IntArray, leaf: BoolArray, *, sizes: LongArray, live: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Leaf values and stored weights: (n_nodes, width) each."""
    width, n_nodes = _width(trees), len(leaf)
    weight = _join(trees, "base_weights", np.float32).astype(np.float64)
    if not np.array_equal(_lengths(trees, "base_weights"), sizes * width):
        if width > 1 and _parts(trees, "leaf_weights") is not None:
            raise UnsupportedModelError(
                "XGBoost vector leaves whose splits were found on reduced gradients (a custom objective with "
                "a split gradient): inner nodes have no value per output. Train with one tree per output."
            )
        raise ModelError(f"The XGBoost model is damaged: base_weights does not have {width} values per node.")
    weight = weight.reshape(n_nodes, width)
    value = stored_value[:, None] if width == 1 else weight
    if width > 1 and _parts(trees, "leaf_weights") is not None:
        # since 3.2 a leaf's row of leaf_weights stands where its right child would
        vectors, found = _join(trees, "leaf_weights", np.float32).astype(np.float64), leaf & live
        rows = _lengths(trees, "leaf_weights") // width
        outside = (right < 0) | (right >= np.repeat(rows, sizes))
        fits = len(vectors) == rows.sum() * width and not np.any(found & outside)
        require(fits, "a vector leaf lies outside leaf_weights")
        first = np.repeat(np.cumsum(rows) - rows, sizes)
        value = np.zeros((n_nodes, width))
        value[found] = vectors.reshape(-1, width)[(right + first)[found]]
    value = np.where(leaf[:, None], value, 0.0)
    require(np.all(np.isfinite(value + weight) | ~live[:, None]), "a leaf value or a base weight is not finite")
    return value, weight


def _category_sets(trees: Stored, start: LongArray) -> tuple[IntArray, LongArray, LongArray]:
    """Set of each node (-1: none), and the sets."""
    category_set = np.full(start[-1], -1, dtype=np.int32)
    sets: list[NDArray[Any]] = []
    names = ("categories_nodes", "categories_segments", "categories_sizes", "categories")
    for number, tree in enumerate(trees):
        if "categories_nodes" not in tree:
            continue
        complete = all(isinstance(tree.get(name), (list, np.ndarray)) for name in names)
        require(complete, f"tree {number} lacks part of its categories")
        if not len(tree["categories_nodes"]):  # as in most trees; what follows takes time
            continue
        nodes, first, count, codes = (array(tree[name], np.int64, name) for name in names)
        fits = len(nodes) == len(first) == len(count) and np.all((first >= 0) & (count >= 0))
        fits = fits and np.all((first <= len(codes)) & (count <= len(codes) - first))
        require(fits, f"the category sets of tree {number} are inconsistent")
        inside = np.all((nodes >= 0) & (nodes < start[number + 1] - start[number]))
        require(inside and len(np.unique(nodes)) == len(nodes), f"a category set of tree {number} has no node")
        category_set[start[number] + nodes] = len(sets) + np.arange(len(nodes))
        sets.extend(np.unique(codes[a : a + n]) for a, n in zip(first, count, strict=True))
    codes = np.concatenate(sets) if sets else np.empty(0, np.int64)
    return category_set, np.concatenate([[0], np.cumsum([len(s) for s in sets], dtype=np.int64)]), codes


def _compact(t: Trees, level: IntArray) -> Trees:
    """Drop deleted nodes, whose level is -1, and put every child behind its parent."""
    kept = np.flatnonzero(level >= 0)
    inner = kept[~t.leaf[kept]]
    ordered = bool(np.all(t.left[inner] > inner) and np.all(t.right[inner] > inner))
    if ordered and len(kept) == len(t.left):
        return t
    if not ordered:  # a deleted node's place was used again
        kept = kept[np.lexsort((level[kept], t.tree[kept]))]
    place = np.full(len(t.left), -1, dtype=np.int32)
    place[kept] = np.arange(len(kept))
    held = (field.name for field in fields(Trees) if field.name not in ("start", "set_start", "set_codes"))
    moved = {name: getattr(t, name)[kept] for name in held}
    for child in ("left", "right"):
        moved[child] = np.where(t.leaf[kept], np.int32(-1), place[moved[child]])
    counts = np.bincount(t.tree[kept], minlength=t.n_trees)
    return replace(t, start=np.concatenate([[0], np.cumsum(counts)]), **moved)
