"""What is scored and how: the user's choices, checked once and made ready for the kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from treeinner.attribution import METHODS, check_choice, node_values, told_penalties
from treeinner.compiled import Forest
from treeinner.ensemble import Ensemble
from treeinner.errors import UnknownParameterError, UnsupportedModelError
from treeinner.groups import Groups
from treeinner.model import Model
from treeinner.objectives import Objective
from treeinner.objectives.losses import forest_error
from treeinner.objectives.quadrature import rule
from treeinner.scores.arguments import CHOICES, check_arguments

__all__ = ["SCORES", "Setting", "make_setting"]

SCORES = ("tree_inner", "loss", "forest_inner", "abs")
SCORE_METHODS = ("centred", *METHODS)
GRADIENT_BITS = 32  # a typical gradient is held as a multiple of 2^-32 of the model's scale
SPARE_BITS = 4  # by which a unit may exceed that of the steepest gradient
WEIGHT_BITS = 32  # the weight of a row, as a multiple of 2^-32
TYPICAL_RATE = 1 / 16  # stands in for a learning rate that the method does not need
NOTHING = 1e-200  # leaves below it have no score: products with gradients of their size are 0 in float64
OUTLIER_BITS = 16  # the largest leaf may be 2^16 times the median one before the unit of the gradients becomes finer,
MOST_FINER = 12  # by at most so many bits: 4,096 rows of 64 times the model's scale still fit 64-bit integers

T = TypeVar("T")
FloatArray = NDArray[np.float64]
TreeAttribution = Callable[[Ensemble, Any], Any]  # (one tree, rows) -> (rows, features[, outputs])


@dataclass(frozen=True, eq=False)
class NodeMeans:
    """Means over the rows scored in every node, in the core's order: (n_nodes, width) each."""

    value: FloatArray  # of the leaf values
    residual: FloatArray  # of minus the gradients


@dataclass(frozen=True, eq=False, kw_only=True)
class Setting:
    """A score of one model, ready to be summed over rows.

    Attributions are in units of the margin, learning rate included, so that inner products with gradients are in
    units of the loss.
    """

    ensemble: Ensemble
    objective: Objective | None  # None: the score needs no target
    score: str
    method: str | TreeAttribution
    groups: Groups  # the features, or groups of them, that get a score
    over: str = "trees"  # of abs: |attribution| of each tree, or of the whole forest
    against: str = "residual"  # of forest_inner: what the attribution is multiplied by
    std_errors: bool = True
    by_round: bool = False
    clustered: bool = False  # whether every batch comes with clusters
    means: NodeMeans | None = None  # known after the first pass of a centred score; set: this is the second one

    @property
    def forest(self) -> Forest:
        """The compiled trees."""
        return self.ensemble.forest

    @property
    def method_name(self) -> str:
        """Name of the attribution; of a user's function its own."""
        return self.method if isinstance(self.method, str) else getattr(self.method, "__qualname__", "callable")

    @property
    def by_path(self) -> bool:
        """Whether a row's attribution depends on its leaves alone."""
        return self.method in ("centred", "predecomp", "saabas")

    @property
    def centred(self) -> bool:
        """Whether node values are means over the rows scored, for which their weights are summed by leaf too."""
        return self.method == "centred"

    @property
    def wants_second_pass(self) -> bool:
        """Whether this is the first pass of a score that has standard errors of its own in a second one."""
        return self.centred and self.std_errors and self.means is None

    @property
    def inner(self) -> bool:
        """Whether the score is an inner product with gradients, round by round: at the start of a step, or over it."""
        return self.score in ("tree_inner", "loss")

    @property
    def knows_loss(self) -> bool:
        """Whether every row has a loss that the rounds lower. The trees of a forest do so each on its own."""
        one_by_one = self.ensemble.averaged and self.score != "loss"
        objective = self.objective
        return objective is not None and objective.value is not None and objective.per_row and not one_by_one

    @property
    def needs_leaves(self) -> bool:
        """Whether gradients are summed by leaf: for the score, and the score by round."""
        return self.by_path and self.inner and self.means is None

    @property
    def leaves_suffice(self) -> bool:
        """Whether the score follows from the gradient sums of the leaves."""
        return self.needs_leaves and self.penalty is None

    @property
    def needs_rows(self) -> bool:
        """Whether every row's share of the score is needed."""
        return self.std_errors or not self.leaves_suffice

    @property
    def rounds_by_rows(self) -> bool:
        """Whether the scores by round must be summed over the rows' shares."""
        return self.inner and not self.leaves_suffice and (self.by_round or self.penalty is not None)

    @cached_property
    def node_value(self) -> FloatArray:
        """Node values of a path attribution that are known before the rows: (n_nodes, width).

        For the centred one they stand in where a single pass is to give standard errors: the training rows' means.
        """
        assert isinstance(self.method, str)
        return self.ensemble.mean_value if self.centred else node_values(self.ensemble, self.method)

    @cached_property
    def numbered_value(self) -> FloatArray:
        """`node_value` in the core's order of the nodes."""
        return self._cached(f"numbered value of {self.method}", lambda: self.node_value[self.forest.numbered])

    @cached_property
    def leaf_value(self) -> FloatArray:
        """Values of the leaves and 0 at the splits, in the core's order of the nodes: (n_nodes, width)."""
        return self._cached("leaf value", lambda: self.ensemble.value[self.forest.numbered])

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
        """The path attribution in its compiled form; None for other methods, and where no row's share is needed."""
        if not (self.by_path and self.needs_rows):
            return None
        if self.means is not None:
            scale = 2.0 ** (GRADIENT_BITS - self.scale_bits)
            return self.forest.core.share_table(self.means.value, self.means.residual, scale)
        return self._cached(
            f"paths of {self.method}", lambda: self.forest.path_table(self.node_value, with_scores=True)
        )

    def prepare(self) -> None:
        """Work out what the threads will ask for before they start, so that it is done once."""
        _ = self.first_trees, self.scale_bits, self.penalty, self.paths
        if self.means is not None:
            _ = self.round_residual
        if self.score == "loss":
            _ = self.start, self.largest_steps
            if self.objective is not None and self.objective.core_loss() is not None:
                _ = self.step_rule
        if self.method == "treeshap":
            self.forest.shap_table()

    def _cached(self, what: str, work_out: Callable[[], T]) -> T:
        """What depends on the model alone is worked out once for all settings."""
        if what not in self.forest.cache:
            self.forest.cache[what] = work_out()
        return cast(T, self.forest.cache[what])

    @cached_property
    def first_trees(self) -> NDArray[np.int32]:
        """First tree of each round, then the number of trees: (rounds + 1,)."""
        e = self.ensemble
        return np.searchsorted(e.tree_round, np.arange(e.n_rounds + 1)).astype(np.int32)

    @cached_property
    def root_start(self) -> FloatArray:
        """What is taken off every tree's values and put before the first round: (trees, width).

        The account of a forest, which has no path of rounds, begins at the values of its roots.
        """
        e = self.ensemble
        forest = e.averaged and self.score == "loss"
        return e.mean_value[e.tree_start[:-1]] if forest else np.zeros((e.n_trees, e.width))

    @cached_property
    def start(self) -> FloatArray:
        """Sum of `root_start` over the trees: (outputs,)."""
        out = np.zeros(self.ensemble.n_outputs)
        for column in range(self.ensemble.width):
            np.add.at(out, self.ensemble.tree_output + column, self.root_start[:, column])
        return out

    @cached_property
    def root_residual(self) -> FloatArray:
        """Mean of minus the gradients over all rows of every tree: (trees, width)."""
        assert self.means is not None
        return self.means.residual[self.ensemble.tree_start[:-1]]

    @cached_property
    def round_residual(self) -> FloatArray:
        """The same for every round and output, whose trees see the same rows and gradients."""
        e = self.ensemble
        out = np.zeros((e.n_rounds, e.n_outputs))
        for column in range(e.width):
            out[e.tree_round, e.tree_output + column] = self.root_residual[:, column]
        return out

    @cached_property
    def largest_steps(self) -> FloatArray:
        """Size of the largest step in the margin that a round can take in an output: (rounds,)."""
        e, forest = self.ensemble, self.forest
        largest = np.maximum.reduceat(np.abs(e.value[forest.leaf_nodes]).max(axis=1), forest.first_leaf[:-1])
        by_output = np.zeros((e.n_rounds, e.n_outputs))
        for column in range(e.width):
            np.add.at(by_output, (e.tree_round, e.tree_output + column), largest)
        return np.asarray(by_output.max(axis=1) + np.abs(self.start).max())

    @cached_property
    def step_rule(self) -> tuple[NDArray[np.int32], FloatArray, FloatArray]:
        """How the core averages gradients over the step of each round: first point of each, points, weights."""
        assert self.objective is not None
        loss = self.objective.core_loss()
        assert loss is not None
        rules = [rule(loss.kind, float(largest), loss.scale) for largest in self.largest_steps]
        first = np.cumsum([0] + [len(points) for points, _ in rules], dtype=np.int32)
        points, weights = (np.concatenate([np.zeros(0), *(r[i] for r in rules)]) for i in (0, 1))
        return first, points, weights

    # -- learning rates ------------------------------------------------------------------------------------------
    @cached_property
    def tree_factor(self) -> FloatArray:
        """What the paper divides a tree's leaf values by; NaN: not known.

        The learning rate, times a DART weight or a forest's 1 / trees: libraries add up the gains of all trees.
        """
        return self.ensemble.tree_rate * self.ensemble.tree_weight

    def known_factor(self) -> FloatArray:
        """`tree_factor`, or an error that asks for the learning rate."""
        if np.isnan(self.tree_factor).any():
            raise UnknownParameterError(
                "gains divide every tree by its learning rate, which this "
                f"{self.ensemble.library} model does not store and which could not be inferred from its "
                f"nodes{told_penalties(self.ensemble)}; pass learning_rate=..."
            )
        return self.tree_factor

    @cached_property
    def scale_bits(self) -> int:
        """Power of two above the size of a typical gradient: the largest leaf value over its learning rate.

        Leaves of a model of large targets may be far above gradients that have a bound, such as signs: then it follows
        the bound.
        """
        steepest = None if self.objective is None else self.objective.steepest
        value_bits, finer = self._leaf_bits
        own = value_bits - finer
        return own if not steepest else min(own, int(np.frexp(steepest)[1]) + SPARE_BITS)

    @property
    def has_outliers(self) -> bool:
        """Whether few leaves are so far above the others that the unit of the gradients is finer."""
        return self._leaf_bits[1] > 0

    @property
    def _leaf_bits(self) -> tuple[int, int]:
        """Power of two above the largest leaf value over its learning rate; by how many bits few leaves are outliers.

        PreDecomp knows the rates; other methods do without, and a typical one stands in.
        """
        e, leaves, exact = self.ensemble, self.forest.leaf_nodes, self.method == "predecomp"

        def bits() -> tuple[int, int]:
            typical = e.tree_weight * (1.0 if e.averaged else TYPICAL_RATE)
            factor = np.where(np.isnan(self.tree_factor), typical, self.tree_factor) if exact else typical
            scale = np.divide(1.0, factor, out=np.zeros(e.n_trees), where=factor != 0)[e.tree_of_node[leaves]]
            sizes = np.abs(e.value[leaves] * scale[:, None])
            largest, finer = float(sizes.max(initial=0.0)), 0
            if largest > 0:
                above = np.frexp(largest)[1] - np.frexp(np.median(sizes[sizes > 0]))[1]
                finer = int(np.clip(above - OUTLIER_BITS, 0, MOST_FINER))
            if len(leaves) == e.n_trees:  # no splits: leaves may be rounding errors, below the gradients
                largest = max(largest, float(np.abs(e.base_score).max()))
            return int(np.frexp(largest)[1]) if largest > NOTHING else 0, finer

        return self._cached(f"leaf bits {exact}", bits)

    @property
    def exponent(self) -> int:
        """Shares of rows are held as multiples of 2^-exponent times a small unit (scores/exact.py)."""
        return -self._leaf_bits[0] - (0 if self.score == "abs" else self.scale_bits)

    @cached_property
    def penalty(self) -> list[tuple[NDArray[np.int32], FloatArray]] | None:
        """With l1, what every tree's splits cost their players: reg_alpha (|w_left| + |w_right| - |w|).

        The gain of a node is -(w G + reg_alpha |w|), so the inner product exceeds the gain by this.
        """
        e = self.ensemble
        if self.method != "predecomp" or self.score != "tree_inner":
            return None
        alpha = float(e.params.get("reg_alpha") or 0.0)
        if alpha == 0.0:
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


def _objective(model: Model, score: str) -> Objective:
    """The loss that a score follows."""
    if score != "loss":
        return model.objective
    # The trees of a forest of scikit-learn fit y itself; what their mean does is measured by the squared error.
    objective = forest_error(model.objective) if model.ensemble.averaged else model.objective
    objective.check_account()
    if model.ensemble.averaged and np.isnan(model.ensemble.cover).any():
        raise UnsupportedModelError(
            "score='loss' of a forest begins at the values of its roots, which this model does not store; use "
            "score='tree_inner'."
        )
    return objective


def make_setting(
    model: Model,
    *,
    score: str,
    method: str | TreeAttribution | None,
    over: str | None = None,
    against: str | None = None,
    std_errors: bool = True,
    by_round: bool = False,
    clustered: bool = False,
) -> Setting:
    """Check the user's choices and put them together; features are grouped later, when their names are known."""
    if score in ("total_gain", "permutation"):
        call = "ti.total_gain(model)" if score == "total_gain" else "ti.permutation_importance(model, X, y)"
        raise ValueError(f"score={score!r} is a separate function: {call}.")
    check_choice("score", score, SCORES)
    inner = score in ("tree_inner", "loss")
    method = ("centred" if inner else "predecomp") if method is None else method
    if method == "centred" and not inner:
        raise ValueError(f"method='centred' only applies to score='tree_inner' and 'loss', not to score={score!r}.")
    if not callable(method):
        check_choice("method", method, SCORE_METHODS, ", or pass a function (tree, rows) -> values.")
    check_arguments(score, over=over, against=against, by_round=by_round, std_errors=std_errors, clustered=clustered)
    setting = Setting(
        ensemble=model.ensemble,
        objective=None if score == "abs" else _objective(model, score),
        score=score,
        method=method,
        groups=Groups(model.labels(None)),
        over=over or CHOICES["over"][0],
        against=against or CHOICES["against"][0],
        std_errors=std_errors,
        by_round=by_round,
        clustered=clustered,
    )
    if isinstance(method, str) and not setting.centred:
        node_values(model.ensemble, method)  # asks for what is unknown before X is touched
    return setting
