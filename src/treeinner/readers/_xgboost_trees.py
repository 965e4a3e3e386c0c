"""The trees of an XGBoost document as concatenated arrays, live nodes only, each child behind its parent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError, UnsupportedModelError

__all__ = ["Trees", "array", "read_trees"]

FloatArray = NDArray[np.float64]
LongArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

MAX_CODE = 2**24  # a float32 counts exactly up to here; XGBoost sends larger codes left, so no set need hold them


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees as stored, before rates and DART weights are known; children are absolute, -1 at leaves."""

    start: LongArray  # (n_trees + 1,)
    left: LongArray  # (n_nodes,)
    right: LongArray
    feature: LongArray  # -1 at leaves
    threshold: FloatArray  # NaN at leaves and categorical splits
    missing_left: BoolArray
    category_set: LongArray  # -1: none
    value: FloatArray  # (n_nodes, width)  leaf values, learning rate included; 0 at inner nodes
    weight: FloatArray  # (n_nodes, width)  base_weights as stored: without learning rate at inner nodes
    hessian: FloatArray  # (n_nodes,)  NaN where not stored (vector leaves before 3.2)
    gain: FloatArray  # (n_nodes,)
    leaf_id: LongArray  # (n_nodes,)  node number inside its tree, as pred_leaf gives it; -1 at inner nodes
    level: LongArray  # (n_nodes,)  0 at the root
    set_start: LongArray
    set_codes: LongArray

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.start) - 1

    @property
    def leaf(self) -> BoolArray:
        """Which nodes are leaves."""
        return self.left < 0

    @property
    def tree(self) -> LongArray:
        """Tree of each node."""
        return np.repeat(np.arange(self.n_trees), np.diff(self.start))


def array(raw: Any, dtype: type, name: str) -> NDArray[Any]:
    """Make a 1-D array of a list of JSON or an array of UBJSON; ModelError where the numbers do not fit."""
    try:
        with np.errstate(all="ignore"):
            given = np.asarray(raw if len(raw) else np.empty(0, dtype))
            held: NDArray[Any] = given.astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"The XGBoost model is damaged: {name} does not hold numbers ({error}).") from None
    if held.ndim != 1 or given.dtype.kind not in "biuf":
        raise ModelError(f"The XGBoost model is damaged: {name} is not a plain list of numbers.")
    if held.dtype.kind in "iu" and not np.array_equal(held, given):
        raise ModelError(f"The XGBoost model is damaged: {name} holds numbers that are not whole.")
    return held


def read_trees(trees: list[Any], n_features: int) -> Trees:
    """Concatenate the trees of `gradient_booster.model.trees`."""
    if not all(isinstance(tree, dict) for tree in trees):
        raise ModelError("The XGBoost model is damaged: a tree is not an object.")
    join = _joiner(trees)
    local_left = join("left_children", np.int64)
    sizes = np.array([len(tree["left_children"]) for tree in trees], dtype=np.int64)
    if len(trees) and sizes.min() < 1:
        raise ModelError("The XGBoost model is damaged: a tree has no node.")
    start = np.concatenate([[0], np.cumsum(sizes)])
    offset, size = np.repeat(start[:-1], sizes), np.repeat(sizes, sizes)
    leaf = local_left == -1
    local_right = join("right_children", np.int64)
    for child in (local_left[~leaf], local_right[~leaf]):
        if np.any((child < 0) | (child >= size[~leaf])):
            raise ModelError("The XGBoost model is damaged: a child lies outside its tree.")
    left = np.where(leaf, -1, local_left + offset)
    right = np.where(leaf, -1, local_right + offset)
    level = _levels(left, right, start[:-1])

    value, weight = _values(trees, join, leaf, local_right, sizes=sizes, live=level >= 0)
    category_set, set_start, set_codes = _category_sets(trees, start)
    feature = np.where(leaf, -1, join("split_indices", np.int64))
    if np.any((feature[level >= 0] < -1) | (feature[level >= 0] >= n_features)):
        raise ModelError(f"The XGBoost model is damaged: a split tests a column outside 0..{n_features - 1}.")
    threshold = join("split_conditions", np.float32).astype(np.float64)
    categorical = (_optional(join, trees, "split_type", np.int64, 0.0) == 1) & ~leaf
    if np.any(categorical & (category_set < 0) & (level >= 0)):
        raise ModelError("The XGBoost model is damaged: a categorical split has no categories.")
    return _compact(
        Trees(
            start=start,
            left=left,
            right=right,
            feature=feature,
            threshold=np.where(leaf | categorical, np.nan, threshold),
            missing_left=join("default_left", np.int64) != 0,
            category_set=np.where(categorical, category_set, -1),
            value=value,
            weight=weight,
            hessian=_optional(join, trees, "sum_hessian", np.float32, np.nan).astype(np.float64),
            gain=np.where(leaf, 0.0, _optional(join, trees, "loss_changes", np.float32, np.nan).astype(np.float64)),
            leaf_id=np.where(leaf, np.arange(len(left)) - offset, -1),
            level=level,
            set_start=set_start,
            set_codes=set_codes,
        )
    )


Join = Callable[[str, type], NDArray[Any]]


def _joiner(trees: list[dict[str, Any]]) -> Join:
    """Make a function that concatenates one field of all trees, one entry per node (and value)."""

    def join(name: str, dtype: type) -> NDArray[Any]:
        parts: list[Any] = [tree.get(name) for tree in trees]
        # base_weights and leaf_weights of vector leaves have their own lengths, checked where they are used
        free = name.endswith("_weights")
        for number, (part, tree) in enumerate(zip(parts, trees, strict=True)):
            if not isinstance(part, (list, np.ndarray)):
                raise ModelError(f"The XGBoost model is damaged: tree {number} has no {name}.")
            if not free and len(part) != len(tree["left_children"]):
                raise ModelError(f"The XGBoost model is damaged: {name} of tree {number} has a wrong length.")
        try:
            joined: NDArray[Any] = np.concatenate(parts) if parts else np.empty(0, dtype)
        except (TypeError, ValueError) as error:
            raise ModelError(f"The XGBoost model is damaged: {name} does not hold numbers ({error}).") from None
        return array(joined, dtype, name)

    return join


def _optional(join: Join, trees: list[dict[str, Any]], name: str, dtype: type, fill: float) -> NDArray[Any]:
    if all(name in tree for tree in trees):
        return join(name, dtype)
    # the writer leaves it out for vector leaves before 3.2
    return np.full(sum(len(tree["left_children"]) for tree in trees), fill)


def _levels(left: LongArray, right: LongArray, roots: LongArray) -> LongArray:
    """Distance from the root; -1 at deleted nodes, which pruning leaves in the arrays."""
    level = np.full(len(left), -1, dtype=np.int64)
    frontier, depth = roots, 0
    reached = len(roots)
    while len(frontier) and reached <= len(left) and not np.any(level[frontier] >= 0):
        level[frontier] = depth
        inner = frontier[left[frontier] >= 0]
        frontier, depth = np.concatenate([left[inner], right[inner]]), depth + 1
        reached += len(frontier)
    if reached != np.count_nonzero(level >= 0):
        raise ModelError("The XGBoost model is damaged: a node is reached twice.")
    return level


def _width(trees: list[dict[str, Any]]) -> int:
    widths = set()
    for tree in trees:
        param = tree.get("tree_param")
        try:
            widths.add(max(1, int(param["size_leaf_vector"])) if isinstance(param, dict) else 1)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ModelError("The XGBoost model is damaged: size_leaf_vector is missing or no number.") from None
    if len(widths) > 1:
        raise UnsupportedModelError(
            "The XGBoost model mixes trees with scalar and with vector leaves; slice the booster "
            "(booster[start:stop]) and read the parts one at a time."
        )
    return widths.pop() if widths else 1


def _values(
    trees: list[dict[str, Any]],
    join: Join,
    leaf: BoolArray,
    local_right: LongArray,
    *,
    sizes: LongArray,
    live: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """Leaf values and stored weights: (n_nodes, width) each."""
    width, n_nodes = _width(trees), len(leaf)
    weight = join("base_weights", np.float32).astype(np.float64)
    lengths = np.array([len(tree["base_weights"]) for tree in trees], dtype=np.int64)
    if not np.array_equal(lengths, sizes * width):
        if width > 1 and all(isinstance(tree.get("leaf_weights"), (list, np.ndarray)) for tree in trees):
            raise UnsupportedModelError(
                "XGBoost vector leaves whose splits were found on reduced gradients (a custom objective with "
                "a split gradient): inner nodes have no value per output. Train with one tree per output."
            )
        raise ModelError(f"The XGBoost model is damaged: base_weights has not {width} per node.")
    weight = weight.reshape(n_nodes, width)
    if width == 1:
        value = join("split_conditions", np.float32).astype(np.float64)[:, None]
    elif all("leaf_weights" in tree for tree in trees):
        # since 3.2 a leaf's row of leaf_weights stands where its right child would
        stored = join("leaf_weights", np.float32).astype(np.float64)
        rows = np.array([len(tree["leaf_weights"]) // width for tree in trees], dtype=np.int64)
        found = leaf & live
        limit = np.repeat(rows, sizes)
        if len(stored) != rows.sum() * width or np.any(found & ((local_right < 0) | (local_right >= limit))):
            raise ModelError("The XGBoost model is damaged: a vector leaf lies outside leaf_weights.")
        first = np.repeat(np.concatenate([[0], np.cumsum(rows)[:-1]]), sizes)
        value = np.zeros((n_nodes, width))
        value[found] = stored.reshape(-1, width)[(local_right + first)[found]]
    else:
        value = weight
    value = np.where(leaf[:, None], value, 0.0)
    if not (np.all(np.isfinite(value[live])) and np.all(np.isfinite(weight[live]))):
        raise ModelError("The XGBoost model is damaged: a leaf value or a base weight is not finite.")
    return value, weight


def _category_sets(trees: list[dict[str, Any]], start: LongArray) -> tuple[LongArray, LongArray, LongArray]:
    """Set of each node (-1: none), and the sets."""
    category_set = np.full(start[-1], -1, dtype=np.int64)
    sets: list[NDArray[Any]] = []
    for number, tree in enumerate(trees):
        names = ("categories_nodes", "categories_segments", "categories_sizes", "categories")
        if "categories_nodes" not in tree:
            continue
        if not all(isinstance(tree.get(name), (list, np.ndarray)) for name in names):
            raise ModelError(f"The XGBoost model is damaged: tree {number} lacks part of its categories.")
        if not len(tree["categories_nodes"]):
            continue
        nodes, first, count, codes = (array(tree[name], np.int64, name) for name in names)
        fits = len(nodes) == len(first) == len(count) and np.all((first >= 0) & (count >= 0))
        if not fits or np.any((first > len(codes)) | (count > len(codes) - first)):
            raise ModelError(f"The XGBoost model is damaged: the category sets of tree {number} do not fit.")
        if np.any((nodes < 0) | (nodes >= start[number + 1] - start[number])) or len(np.unique(nodes)) != len(nodes):
            raise ModelError(f"The XGBoost model is damaged: a category set of tree {number} has no node.")
        category_set[start[number] + nodes] = len(sets) + np.arange(len(nodes))
        sets.extend(np.unique(codes[a : a + n]) for a, n in zip(first, count, strict=True))
    codes = np.concatenate(sets) if sets else np.empty(0, np.int64)
    if np.any((codes < 0) | (codes >= MAX_CODE)):
        raise ModelError("The XGBoost model is damaged: a category code is negative or 2^24 or more.")
    return category_set, np.concatenate([[0], np.cumsum([len(s) for s in sets], dtype=np.int64)]), codes


def _compact(t: Trees) -> Trees:
    """Drop deleted nodes and put every child behind its parent."""
    live = t.level >= 0
    inner = np.flatnonzero(live & ~t.leaf)
    ordered = bool(np.all(t.left[inner] > inner) and np.all(t.right[inner] > inner))
    if ordered and live.all():
        return t
    kept = np.flatnonzero(live)
    if not ordered:  # a deleted node's place was used again
        kept = kept[np.lexsort((t.level[kept], t.tree[kept]))]
    place = np.full(len(live), -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    fields = (
        "feature",
        "threshold",
        "missing_left",
        "category_set",
        "value",
        "weight",
        "hessian",
        "gain",
        "leaf_id",
    )
    moved = {name: getattr(t, name)[kept] for name in (*fields, "level")}
    counts = np.bincount(t.tree[kept], minlength=t.n_trees)
    return Trees(
        start=np.concatenate([[0], np.cumsum(counts)]),
        left=np.where(t.leaf, -1, place[t.left])[kept],
        right=np.where(t.leaf, -1, place[t.right])[kept],
        set_start=t.set_start,
        set_codes=t.set_codes,
        **moved,
    )
