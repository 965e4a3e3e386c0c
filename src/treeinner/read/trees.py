"""Trees: one fitted model's trees as frozen arrays, translated by a reader and checked once by `validate`.

Conventions that every reader settles, so that nobody behind it has to know which library a model came from:

* All trees lie in one set of arrays; `left` and `right` are positions in those arrays, -1 at a leaf.
* A numeric split sends a value right if it is greater than the threshold (`right_if="greater"`), or greater or equal
  (`"greater_equal"`); with `float32_input` the value is first rounded to float32.
* A categorical split sends the categories in its set right and every other one left. (A library that stores the set
  going left has its children swapped by its reader.)
* A missing value follows `missing_left`.
* Column j of a tree's values adds to output `output + j`: scalar trees have one column, vector leaves one per output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treeinner import kernels
from treeinner.errors import ModelError, TreeInnerError

__all__ = ["NodeValues", "Trees", "check_rounds", "in_order", "players_of", "require", "sets_of"]

Float = NDArray[np.float64]
Int = NDArray[np.int32]
Long = NDArray[np.int64]
Bool = NDArray[np.bool_]
Links = NDArray[Any]  # positions of nodes, -1: none

MAX_CODE = 2**24  # XGBoost's own limit; larger codes are not exact in float32
MAX_COVER = 1e100  # sums and products of covers stay finite
MAX_VALUE = 1e100  # of leaves and base scores; likewise
MAX_COLUMNS = 2**27  # a damaged number must not become a huge allocation
MAX_DEPTH = 100_000  # real trees have tens of levels, and time grows with each
# An inner node predicts about as much as its leaves. Far larger values leave no digits for the differences that count.
MAX_NODE_VALUE = 1e8  # in units of the largest leaf
RARE = 2.0**-10  # share of the cover below which it is worked out by itself, not as 1 less that of the sibling

DTYPES = {"Int": np.int32, "Long": np.int64, "Float": np.float64, "Bool": np.bool_}
PER_TREE = ("output", "round", "weight")
OF_ALL = ("start", "set_start", "set_codes", "base")  # the other arrays have an entry per node


@dataclass(frozen=True, eq=False)
class NodeValues:
    """What PreDecomp and gains need beyond the leaves."""

    value: Float | None  # (nodes, width) what each node would have predicted as a leaf; None: see `needs` and `refusal`
    rate: Float  # (trees,) learning rate in the leaf values; NaN: neither stored nor confirmed
    needs: tuple[str, ...] = ()  # arguments of read_model that would settle `value`, such as "reg_lambda"
    refusal: str = ""  # why PreDecomp does not hold for this model, in words

    def part(self, trees: slice, nodes: slice) -> NodeValues:
        """Those of some trees."""
        return replace(self, value=None if self.value is None else self.value[nodes], rate=self.rate[trees])


@dataclass(frozen=True, eq=False, kw_only=True)
class Trees:
    """Trees of one model, concatenated. n_trees T, n_nodes V, width w, n_outputs K."""

    start: Long  # (T + 1,) first node of each tree, then V; the root comes first, children lie behind parents
    output: Int  # (T,) first output that the tree adds to; vector leaves: 0
    round: Int  # (T,) trees of one round saw the same gradients; a forest has one round
    weight: Float  # (T,) factor in `value` besides the learning rate: DART, 1 / trees
    column: Int  # (V,) column of the table that a split reads; -1 at a leaf
    threshold: Float  # (V,) NaN at leaves and categorical splits
    left: Int  # (V,) -1 at a leaf
    right: Int  # (V,)
    missing_left: Bool  # (V,) where a missing value goes
    category_set: Int  # (V,) which set of categories goes right; -1: a numeric split or a leaf
    set_start: Long  # (sets + 1,) set s holds set_codes[set_start[s]:set_start[s + 1]]
    set_codes: Int
    value: Float  # (V, w) leaf values as they enter the margin: learning rate and weight included; 0 at splits
    cover: Float  # (V,) weight of the training rows as the library's own SHAP counts it; NaN: unknown
    gain: Float  # (V,) of the split as the library reports it; 0 at leaves, NaN: not stored
    leaf_id: Int  # (V,) number of the leaf in the library's own pred_leaf / apply; -1 at splits
    base: Float  # (K,) margin before the first tree
    n_columns: int  # of the table that the splits read
    # (V,) who gets the credit, a position in player_features; -1 at a leaf. Left out: the feature that a split reads.
    player: Int = field(default_factory=lambda: np.zeros(0, np.int32))
    player_features: tuple[tuple[int, ...], ...] = ()  # features that share a player's credit equally
    n_features: int = 0  # that attributions are reported for; 0: the columns
    right_if: Literal["greater", "greater_equal"] = "greater"
    float32_input: bool = False
    category_rule: Literal["floor", "truncate"] = "floor"  # how a number becomes a category code
    zero_as_missing: tuple[int, ...] = ()  # columns in which |x| <= 1e-35 means missing
    known_codes: tuple[int | None, ...] | None = None  # per column: a code outside 0..known-1 is missing; None: "other"
    averaged: bool = False  # a forest: every tree fits y itself
    node_values: NodeValues | Callable[[], NodeValues] = field(repr=False)  # worked out at first use: see `known`
    n_trees: int = field(init=False)
    n_nodes: int = field(init=False)
    n_outputs: int = field(init=False)  # margins per row: 1, or the number of classes or targets
    n_rounds: int = field(init=False)
    width: int = field(init=False)  # values in a leaf

    def __post_init__(self) -> None:
        if not len(self.player):
            player, features = players_of(np.asarray(self.column))
            self.__dict__.update(player=player, player_features=features, n_features=self.n_features or self.n_columns)
        held = {name: _frozen(getattr(self, name), dtype, name) for name, dtype in ARRAYS.items()}
        require(held["value"].ndim == 2, "value does not have one row per node")
        sizes = {"n_trees": len(held["output"]), "n_nodes": len(held["column"]), "n_outputs": len(held["base"])}
        n_rounds = int(held["round"][-1]) + 1 if len(held["round"]) else 0
        self.__dict__.update(held, **sizes, n_rounds=n_rounds, width=held["value"].shape[1])
        self.validate()

    # -- what is worked out at first use ---------------------------------------------------------------------------
    @cached_property
    def known(self) -> NodeValues:
        """Node values of PreDecomp and the learning rates, checked."""
        try:
            found = self.node_values() if callable(self.node_values) else self.node_values
        except (ValueError, LookupError, ArithmeticError) as error:  # of parts of a file that nobody has needed so far
            if isinstance(error, TreeInnerError):
                raise
            raise ModelError(f"The model is damaged ({error}); save it again.") from error
        self._check_node_values(found)
        return found

    @cached_property
    def tree_of_node(self) -> Int:
        """The tree each node belongs to: (V,)."""
        return np.repeat(np.arange(self.n_trees, dtype=np.int32), np.diff(self.start))

    @cached_property
    def first_trees(self) -> Int:
        """First tree of each round, then the number of trees: (rounds + 1,)."""
        return np.searchsorted(self.round, np.arange(self.n_rounds + 1)).astype(np.int32)

    @cached_property
    def upwards(self) -> list[tuple[Links, Int, Int]]:
        """Splits of one depth after another, the deepest first: (nodes, left children, right children)."""
        levels = by_level(self.left.astype(np.intp), self.right.astype(np.intp), self.start[:-1])
        inner = [nodes[self.left[nodes] >= 0] for nodes in reversed(levels)]
        return [(nodes, self.left[nodes], self.right[nodes]) for nodes in inner[1:]]  # the lowest are leaves

    @cached_property
    def mean_value(self) -> Float:
        """Cover-weighted mean of the leaves below each node, by halves where covers are unknown: (V, w)."""
        mean = self.value.copy()
        for node, left, right in self.upwards:
            total = self.cover[left] + self.cover[right]
            with np.errstate(invalid="ignore"):
                share = np.where(total > 0, self.cover[left] / total, 0.5)[:, None]  # no rows at all: halves
                # Near 1, 1 - share has few digits, and a rare leaf of huge value needs them all.
                rest = np.where(share > 1 - RARE, (self.cover[right] / total)[:, None], 1 - share)
            mean[node] = share * mean[left] + rest * mean[right]
        return mean

    @cached_property
    def forest(self) -> kernels.Forest:
        """The compiled form."""
        return kernels.Forest(self)

    def root_sum(self, node_value: Float) -> Float:
        """Sum of the root values of all trees, the constant that a path attribution leaves: (K,)."""
        out = np.zeros(self.n_outputs)
        for column in range(self.width):
            np.add.at(out, self.output + column, node_value[self.start[:-1], column])
        return out

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone, with node values worked out; the rest is built again at first use."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"node_values": self.known}

    def rounds(self, start: int, stop: int) -> Trees:
        """Keep the trees of rounds start <= r < stop; `base` stays."""
        check_rounds(start, stop, self.n_rounds)
        first, last = np.searchsorted(self.round, [start, stop]).tolist()
        if (first, last) == (0, self.n_trees):
            return self
        trees, nodes = slice(first, last), slice(int(self.start[first]), int(self.start[last]))
        kept: dict[str, Any] = {name: getattr(self, name)[trees] for name in PER_TREE}
        kept |= {name: getattr(self, name)[nodes] for name in PER_NODE}
        kept["start"] = self.start[first : last + 1] - nodes.start
        kept["round"] = kept["round"] - self.round[first]
        for side in ("left", "right"):
            kept[side] = np.where(kept[side] >= 0, kept[side] - nodes.start, -1)
        return replace(self, **kept, node_values=lambda: self.known.part(trees, nodes))

    # -- the only check that the kernels rely on --------------------------------------------------------------------
    def validate(self) -> None:
        """Raise ModelError unless the arrays describe proper trees; no file can make a kernel read out of bounds."""
        inner = self.column >= 0
        self._check_shapes()
        self._check_links(inner)
        if (deep := np.diff(self.start) > 2 * MAX_DEPTH).any():
            by_level(self.left, self.right, self.start[:-1][deep])
        self._check_splits(inner)
        # Whole arrays are compared and the nodes that do not count let pass: faster than picking the others out.
        leaf, inner_row, leaf_row = ~inner, inner[:, None], ~inner[:, None]
        sane = np.abs(self.value) <= MAX_VALUE  # NaN is not
        require(np.all(sane | inner_row), "a leaf value is not finite, or absurdly large")
        require(np.all((self.value == 0) | leaf_row), "an inner node has a leaf value")
        require(not np.any((self.cover < 0) | (self.cover > MAX_COVER)), "a cover is negative or absurdly large")
        root = self.cover[self.start[:-1]]  # deep nodes may have a tiny part of it
        require(not np.any((root > 0) & (root < 1 / MAX_COVER)), "the cover of a tree is absurdly small")
        require(not np.any(np.abs(self.gain) > MAX_COVER), "a gain is infinite, or absurdly large")
        numbered = np.where(leaf, self.leaf_id >= 0, self.leaf_id == -1)
        require(np.all(numbered), "leaf_id does not number the leaves")

    def _check_shapes(self) -> None:
        for name in ("output", "column", "set_start", "set_codes", "base"):
            require(getattr(self, name).ndim == 1, f"{name} does not have one dimension")
        for name in PER_TREE:
            require(getattr(self, name).shape == (self.n_trees,), f"{name} does not have one entry per tree")
        for name in PER_NODE:
            require(len(getattr(self, name)) == self.n_nodes, f"{name} does not have one entry per node")
        cut = self.start.shape == (self.n_trees + 1,) and _cuts(self.start, self.n_nodes, smallest=1)
        require(cut, "start does not cut the nodes into non-empty trees")
        require(self.n_outputs >= 1, "there is no output")
        require(np.all(np.abs(self.base) <= MAX_VALUE), "the base score is not finite, or absurdly large")
        weight = np.abs(self.weight)
        sane = (weight == 0) | ((weight >= 1 / MAX_VALUE) & (weight <= MAX_VALUE))
        require(np.all(sane), "the weight of a tree is not finite, or absurdly large or small")
        known = (self.output >= 0) & (self.output <= self.n_outputs - self.width)
        require(np.all(known), f"a tree adds to an output outside 0..{self.n_outputs - 1}")
        consecutive = self.n_trees == 0 or (self.round[0] == 0 and np.all(np.diff(self.round) >> 1 == 0))
        require(consecutive, "boosting rounds are not numbered consecutively from 0")

    def _check_links(self, inner: Bool) -> None:
        """Every child lies behind its parent in the same tree and has exactly one parent: so each tree is a tree."""
        both = (self.left >= 0) == inner, (self.right >= 0) == inner
        require(np.all(both), "a split lacks a child, or a leaf has one")
        parent = np.flatnonzero(inner).astype(np.int32)
        left, right = self.left[parent], self.right[parent]
        inner_of_tree = np.add.reduceat(inner, self.start[:-1], dtype=np.int64) if self.n_trees else 0
        end = np.repeat(self.start[1:].astype(np.int32), inner_of_tree)
        for child in (left, right):
            require(np.all((child > parent) & (child < end)), "a child is out of range, or the tree has a cycle")
        reached = np.zeros(self.n_nodes, bool)
        reached[left] = True
        reached[right] = True
        # As many edges as nodes that are no root, and all of these reached: each of them once.
        once = 2 * len(parent) == self.n_nodes - self.n_trees and np.count_nonzero(reached) == 2 * len(parent)
        require(once and not reached[self.start[:-1]].any(), "a node is reached twice, or not at all")

    def _check_splits(self, inner: Bool) -> None:
        last = self.n_columns - 1
        require(1 <= self.n_columns <= MAX_COLUMNS, f"it has {self.n_columns} columns")
        require(all(0 <= j <= last for j in self.zero_as_missing), "zero_as_missing names a column that there is not")
        require(np.all((self.column <= last) & (self.column >= -1)), f"a split tests a column outside 0..{last}")
        features = [feature for shared in self.player_features for feature in shared]
        named = all(self.player_features) and all(0 <= feature < self.n_features for feature in features)
        require(named, f"a player shares credit with a feature outside 0..{self.n_features - 1}")
        player = np.where(inner, self.player, 0)
        inside = (player >= 0) & (player < max(len(self.player_features), 1)) & ((self.player < 0) | inner)
        require(np.all(inside), "a split gives credit to a player that there is not")
        categorical = self.category_set >= 0
        n_sets = len(self.set_start) - 1
        require(np.all((self.category_set >= -1) & (self.category_set < n_sets)), "a category set is out of range")
        require(not np.any(categorical & ~inner), "a leaf has a category set")
        require(not np.any(np.isnan(self.threshold) & inner & ~categorical), "a threshold is NaN")
        require(_cuts(self.set_start, len(self.set_codes), smallest=0), "set_start does not cut set_codes into sets")
        in_range = (self.set_codes >= 0) & (self.set_codes < MAX_CODE)
        require(np.all(in_range), f"a category code is outside 0..{MAX_CODE - 1}")
        if categorical.any():
            mixed = np.intersect1d(self.column[inner & ~categorical], self.column[categorical])
            require(len(mixed) == 0, f"columns {mixed.tolist()} are split both as numbers and as categories")
        known = self.known_codes
        require(known is None or len(known) == self.n_columns, "known_codes does not have one entry per column")

    def _check_node_values(self, found: NodeValues) -> None:
        require(found.rate.shape == (self.n_trees,), f"rate does not have one entry per tree ({self.n_trees})")
        require(not np.any((found.rate < 0) | np.isinf(found.rate)), "a learning rate is negative or infinite")
        if found.value is None:
            return
        require(found.value.shape == self.value.shape, "value and node values differ in shape")
        same = (found.value == self.value) | (self.column >= 0)[:, None]
        require(np.all(same), "the node value of a leaf is not its value")
        most = MAX_NODE_VALUE * float(np.abs(self.value).max(initial=0.0))
        require(np.all(np.abs(found.value) <= most), "a node value is infinite, or absurdly large")


ARRAYS = {f.name: DTYPES[f.type] for f in fields(Trees) if f.type in DTYPES}
PER_NODE = tuple(name for name in ARRAYS if name not in (*PER_TREE, *OF_ALL))


def players_of(column: Links, shared: Sequence[tuple[int, ...]] | None = None) -> tuple[Int, Any]:
    """Fields `player` and `player_features` of trees whose splits read these columns, -1 at leaves.

    shared: features that share the credit of each column; None: each column is a feature. Only those in use count.
    """
    used = np.unique(column[column >= 0]).tolist()
    features = [(c,) if shared is None else tuple(shared[c]) for c in used]
    players = sorted(set(features))
    position = {player: i for i, player in enumerate(players)}
    of_column = np.full(max(used, default=-1) + 2, -1, np.int32)  # the last entry serves the leaves
    of_column[used] = [position[f] for f in features]
    return of_column[column], tuple(players)


def check_rounds(start: int, stop: int, n_rounds: int) -> None:
    """Raise unless a model of so many rounds has rounds start <= r < stop."""
    if not 0 <= start < stop <= n_rounds:
        raise ValueError(
            f"iteration_range=({start}, {stop}) does not fit {n_rounds} rounds; pass 0 <= start < stop <= {n_rounds}."
        )


def require(condition: bool | np.bool_, damage: str) -> None:
    """Raise ModelError unless a model is as it must be."""
    if not condition:
        raise ModelError(f"The model is malformed: {damage}.")


def _frozen(array: Any, dtype: type, name: str) -> NDArray[Any]:
    """Contiguous read-only array of `dtype`; a value that does not survive the conversion is an error."""
    given = np.asarray(array)
    held: NDArray[Any] = np.ascontiguousarray(given, dtype=dtype)
    if held is not given and np.issubdtype(dtype, np.integer) and not np.array_equal(held, given):
        raise ModelError(f"{name} contains values that are not integers or out of range for {np.dtype(dtype).name}.")
    if held is given and held.flags.writeable:
        held = held.copy()
    held.flags.writeable = False
    return held


def in_order(left: Links, right: Links, roots: Links) -> tuple[Links, Links, Links]:
    """Nodes that the roots reach, children behind their parents, and the new positions of the children of each.

    They keep the order in which they are stored, or if a child stands before its parent, go tree by tree and level by
    level.
    """
    level = np.full(len(left), -1, np.int32)
    for depth, nodes in enumerate(by_level(left, right, roots)):
        level[nodes] = depth
    node = np.flatnonzero(level >= 0)
    if np.any((np.minimum(left, right)[node] <= node) & (left[node] >= 0)):
        node = node[np.lexsort((level[node], np.searchsorted(roots, node, side="right")))]
    place = np.full(len(left) + 1, -1)  # its last entry serves the leaves
    place[node] = np.arange(len(node))
    return node, place[left[node]], place[right[node]]


def sets_of(codes: Sequence[Any]) -> dict[str, Any]:
    """Fields `set_start` and `set_codes` of sets of categories."""
    return {"set_start": np.cumsum([0, *map(len, codes)]), "set_codes": np.concatenate([np.zeros(0, np.int64), *codes])}


def by_level(left: Links, right: Links, roots: Links) -> list[Links]:
    """Nodes of all trees, level by level from the roots; ModelError if there are too many, or nodes come back."""
    levels: list[Links] = []
    nodes, reached = roots, 0
    while len(nodes):
        reached += len(nodes)
        require(reached <= len(left) and nodes.min() >= 0, "a node is reached twice")
        require(len(levels) <= MAX_DEPTH, f"a tree has more than {MAX_DEPTH:,} levels")
        levels.append(nodes)
        inner = nodes[left[nodes] >= 0]
        nodes = np.concatenate([left[inner], right[inner]])
    return levels


def _cuts(start: Long, n: int, *, smallest: int) -> bool:
    """Whether n items are cut into parts, of at least so many items, that begin at `start`."""
    inside = len(start) > 0 and start[0] == 0 and start[-1] == n and np.all((start >= 0) & (start <= n))
    return bool(inside and np.all(np.diff(start) >= smallest))  # of numbers in range, so that no difference wraps
