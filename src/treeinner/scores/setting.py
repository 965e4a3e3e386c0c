"""What is to be scored and how: the user's words, checked once and made ready for the kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from treeinner.attribution import METHODS, node_values
from treeinner.compiled import Forest
from treeinner.ensemble import Ensemble
from treeinner.errors import UnknownParameterError, UnsupportedModelError
from treeinner.objectives import Objective

__all__ = ["SCORES", "Setting", "make_setting"]

SCORES = ("tree_inner", "forest_inner", "abs", "total_gain", "permutation")
GRADIENT_BITS = 32  # a typical gradient is held as a whole number of 2^-32 of the model's scale
WEIGHT_BITS = 32  # the weight of a row, as a whole number of 2^-32

T = TypeVar("T")
FloatArray = NDArray[np.float64]
TreeAttribution = Callable[[Ensemble, Any], Any]  # (one tree, rows) -> (rows, features[, outputs])


@dataclass(frozen=True, eq=False)
class Setting:
    """A score of one model, ready to be summed over rows."""

    ensemble: Ensemble
    objective: Objective | None  # None: the score needs no target
    score: str  # "tree_inner", "forest_inner" or "abs"
    method: str | TreeAttribution
    target: str = "residual"  # of forest_inner: "residual" or "label"
    level: str = "tree"  # of abs: "tree" or "forest"
    std_errors: bool = True
    by_round: bool = False

    @property
    def forest(self) -> Forest:
        """The compiled trees."""
        return self.ensemble.forest

    @property
    def by_path(self) -> bool:
        """Whether a row's attribution depends on its leaves alone."""
        return self.method in ("predecomp", "saabas")

    @property
    def needs_rows(self) -> bool:
        """Whether row scores are needed; else the sums of the gradients in the leaves are enough."""
        return self.std_errors or not self.by_path or self.score != "tree_inner" or self.penalty is not None

    @property
    def needs_leaves(self) -> bool:
        """Whether the sums of the gradients in the leaves are needed: for the curve by round, or the score itself."""
        return self.by_path and self.score == "tree_inner"

    @property
    def centred(self) -> bool:
        """Whether the test is of the centred score, for which the weights of the rows in the leaves are summed too."""
        return self.std_errors and self.needs_leaves

    @property
    def rounds_by_rows(self) -> bool:
        """Whether the curve by round must be taken from the row scores: asked for, and not to be had from leaves."""
        return self.by_round and self.score == "tree_inner" and (not self.by_path or self.penalty is not None)

    @cached_property
    def tree_scale(self) -> FloatArray:
        """One over the factor that turned a tree's own node values into what it adds to the margin: (n_trees,).

        In a forest every tree speaks for itself, so that the score is the mean over the trees, as MDI is.
        """
        e = self.ensemble
        factor = e.tree_rate if e.averaged else e.tree_rate * e.tree_weight
        if self.score == "abs":
            return np.ones(e.n_trees)
        if np.isnan(factor).any():
            raise UnknownParameterError(
                f"TreeInner divides by the learning rate, which this {e.library} model does not store and which could "
                "not be inferred from its nodes; pass learning_rate=..."
            )
        return np.divide(1.0, factor, out=np.zeros(e.n_trees), where=factor != 0)

    @cached_property
    def node_value(self) -> FloatArray:
        """Node values of a path attribution, in the units of one tree: (n_nodes, width)."""
        method = self.method
        assert isinstance(method, str)

        def scaled() -> FloatArray:
            scale = self.tree_scale[self.ensemble.tree_of_node]
            return np.asarray(node_values(self.ensemble, method) * scale[:, None])

        return self._cached(f"node_value of {method}", scaled)

    @cached_property
    def numbered_value(self) -> FloatArray:
        """`node_value` in the order that the core numbers the nodes in."""
        return self._cached(f"numbered value of {self.method}", lambda: self.node_value[self.forest.numbered])

    @cached_property
    def split_place(self) -> NDArray[np.intp]:
        """Place of each split, in the core's order, among (rounds, players, outputs); of its tree's first output."""

        def places() -> NDArray[np.intp]:
            e, forest = self.ensemble, self.forest
            tree = e.tree_of_node[forest.split_nodes]
            shape = (e.n_rounds, forest.n_players, e.n_outputs)
            return np.ravel_multi_index((e.tree_round[tree], forest.split_player, e.tree_output[tree]), shape)

        return self._cached("split_place", places)

    @cached_property
    def paths(self) -> Any:
        """The path attribution in its compiled form; None for other methods."""
        return self._cached(f"paths of {self.method}", self._paths) if self.by_path else None

    def prepare(self) -> None:
        """Work out what the threads will ask for, before they start: else each of them would make its own."""
        _ = self.rounds, self.scale_bits, self.tree_scale, self.penalty
        if self.needs_rows and self.by_path:
            _ = self.paths
        if self.method == "treeshap":
            self.forest.prepare_shap()

    def _paths(self) -> Any:
        return self.forest.path_table(self.node_value, with_scores=True)

    def _cached(self, what: str, work_out: Callable[[], T]) -> T:
        """Work out what depends on the model and the tree scale alone, once for all settings."""
        key = (what, self.score == "abs")
        if key not in self.forest.cache:
            self.forest.cache[key] = work_out()
        return cast(T, self.forest.cache[key])

    @cached_property
    def rounds(self) -> list[tuple[int, int]]:
        """First tree and number of trees of each round."""
        return [(int(a), int(b - a)) for a, b in pairwise(self.first_trees)]

    @cached_property
    def first_trees(self) -> NDArray[np.int32]:
        """First tree of each round, then the number of trees: (rounds + 1,)."""
        e = self.ensemble
        return np.searchsorted(e.tree_round, np.arange(e.n_rounds + 1)).astype(np.int32)

    @cached_property
    def scale_bits(self) -> int:
        """Power of two above the largest leaf in the units of one tree: the size of a typical gradient."""

        def bits() -> int:
            leaves = self.forest.leaf_nodes
            scale = self.tree_scale[self.ensemble.tree_of_node[leaves]][:, None]
            largest = float(np.abs(self.ensemble.value[leaves] * scale).max(initial=0.0))
            return int(np.frexp(largest)[1]) if largest > 0 else 0

        return self._cached("scale_bits", bits)

    @property
    def exponent(self) -> int:
        """Row scores are held as multiples of 2^-exponent times a small unit (scores/exact.py)."""
        return -self.scale_bits * (1 if self.score == "abs" else 2)

    @cached_property
    def penalty(self) -> list[tuple[NDArray[np.int32], FloatArray]] | None:
        """With l1, what every tree's splits cost their players: reg_alpha (|w_left| + |w_right| - |w|), in whole.

        The gain of a node is -(w G + reg_alpha |w|), so the inner product falls short of the gain by this.
        """
        e = self.ensemble
        alpha = float(e.params.get("reg_alpha") or 0.0)
        if alpha == 0.0 or self.method != "predecomp" or self.score != "tree_inner":
            return None
        if e.width > 1:
            raise UnsupportedModelError(
                "reg_alpha > 0 with vector leaves: the model keeps one cover for all targets, so the l1 penalty cannot "
                "be shared out among the rows. Pass reg_alpha=0 for the plain inner product."
            )
        size = np.abs(self.node_value).sum(axis=1)
        nodes = self.forest.split_nodes
        cost = alpha * (size[e.left[nodes]] + size[e.right[nodes]] - size[nodes])
        out = []
        for tree in range(e.n_trees):
            here = slice(self.forest.first_split[tree], self.forest.first_split[tree + 1])
            totals = np.bincount(self.forest.split_player[here], cost[here], minlength=self.forest.n_players)
            players = np.unique(self.forest.split_player[here])
            out.append((players, np.asarray(totals[players], np.float64)))
        return out


def make_setting(
    ensemble: Ensemble,
    objective: Objective | None,
    *,
    score: str,
    method: str | TreeAttribution,
    target: str,
    level: str,
    std_errors: bool,
    by_round: bool,
) -> Setting:
    """Check the words of the user and put them together."""
    for word, given, known in (
        ("score", score, SCORES),
        ("target", target, ("residual", "label")),
        ("level", level, ("tree", "forest")),
    ):
        if given not in known:
            raise ValueError(f"{word}={given!r} is not known; choose one of {', '.join(map(repr, known))}.")
    if not callable(method) and method not in METHODS:
        known_methods = ", ".join(map(repr, METHODS))
        raise ValueError(
            f"method={method!r} is not known; choose one of {known_methods}, or pass a function (tree, rows) -> values."
        )
    if score == "total_gain":
        # On given rows, total gain is TreeInner with PreDecomp (Proposition 3).
        score, method = "tree_inner", "predecomp"
    setting = Setting(ensemble, objective, score, method, target, level, std_errors, by_round)
    # Ask for what is unknown, and refuse what cannot be had, before X is touched.
    if isinstance(method, str):
        node_values(ensemble, method)
    _ = setting.tree_scale
    return setting
