"""Spec: what is asked of the rows, checked once; and what follows from it and the model alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import UnknownParameterError, UnsupportedModelError, did_you_mean
from treeinner.kernels.units import GRADIENT_BITS, scale_bits
from treeinner.losses import Loss, forest_error
from treeinner.losses.quadrature import rule
from treeinner.read import Model
from treeinner.read.columns import Credit
from treeinner.read.methods import node_values

__all__ = ["METHODS", "SCORES", "Spec", "check_choice", "make_spec", "scored_loss", "start_of", "step_rule"]

Float = NDArray[np.float64]
SCORES = ("signal", "tree_inner", "loss")
METHODS = ("centred", "predecomp", "saabas", "treeshap")
# What other questions are called.
FUNCTIONS = {
    "abs": "ti.mean_abs(model, X)",
    "forest_inner": "ti.forest_inner(model, X, y)",
    "permutation": "ti.permutation_importance(model, X, y)",
    "total_gain": "ti.total_gain(model)",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Spec:
    """What is asked. Attributions are on the margin, so that products with gradients are in units of the loss."""

    credit: Credit  # players -> features or groups that get a score
    score: Literal["signal", "tree_inner", "loss"]
    method: Literal["centred", "predecomp", "saabas", "treeshap"]
    clustered: bool  # whether rows come with clusters
    segmented: bool  # whether rows come with segments
    by_path: bool  # whether a row's attribution depends on its leaves alone
    scale_bits: int  # of the gradients: kernels/units.py
    gradient_unit: float  # in which gradients are summed in the leaves
    exponent: int  # of the shares

    def key(self, model: Model) -> str:
        """Digest of what enters the sums: the model, and what is asked."""
        rows = self.clustered, self.segmented
        parts = (model.digest, self.score, self.method, rows, self.credit.names, self.scale_bits)
        found = hashlib.sha256(repr(parts).encode())
        for array in (self.credit.player, self.credit.name):
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()


def make_spec(
    model: Model, credit: Credit, *, score: str, method: str, clustered: bool = False, segmented: bool = False
) -> Spec:
    """Check what is asked and what the model can answer; refuses here what does not go together."""
    if score in FUNCTIONS:
        raise ValueError(f"score={score!r} is a function of its own: {FUNCTIONS[score]}.")
    check_choice("score", score, SCORES)
    check_choice("method", method, METHODS)
    loss = scored_loss(model, score)
    if score == "signal" and method != "centred":
        raise ValueError(f"score='signal' goes by method='centred'; use score='tree_inner' for method={method!r}.")
    if method != "centred":
        node_values(model, method)  # asks for what is unknown before any row is read
    leaf_bits, bits = scale_bits(model.trees, loss.steepest)
    return Spec(
        credit=credit,
        score=cast(Any, score),
        method=cast(Any, method),
        clustered=clustered,
        segmented=segmented,
        by_path=method != "treeshap",
        scale_bits=bits,
        gradient_unit=2.0 ** (bits - GRADIENT_BITS),
        exponent=-leaf_bits - bits,
    )


def check_choice(name: str, given: object, choices: tuple[str, ...]) -> None:
    """Raise unless an argument is one of its choices."""
    if given not in choices:
        raise ValueError(
            f"{name}={given!r} is not recognised; choose one of {', '.join(map(repr, choices))}"
            f"{did_you_mean(given, choices)}"
        )


def scored_loss(model: Model, score: str) -> Loss:
    """The loss whose gradients a score takes."""
    if model.loss is None:
        raise UnknownParameterError(model.loss_needed)
    if score != "loss":
        return model.loss
    # The trees of a forest of scikit-learn fit y itself; what their mean does is measured by the squared error.
    loss = forest_error(model.loss) if model.trees.averaged else model.loss.metric or model.loss
    loss.check_breakdown()
    if model.trees.averaged and np.isnan(model.trees.cover).any():
        raise UnsupportedModelError(
            "score='loss' of a forest begins at the values of its roots, which this model does not store; "
            "score='signal', the default of importance, and score='tree_inner' do not need them."
        )
    return loss


def root_start(model: Model, score: str) -> Float:
    """What is taken off every tree's values and put before the first round: (trees, width).

    A forest has no path of rounds: its loss breakdown begins at the values of its roots.
    """
    trees = model.trees
    if trees.averaged and score == "loss":
        return trees.mean_value[trees.start[:-1]]
    return np.zeros((trees.n_trees, trees.width))


def start_of(model: Model, score: str) -> Float:
    """Sum of `root_start` over the trees: (outputs,)."""
    trees = model.trees
    return trees.root_sum(trees.mean_value) if trees.averaged and score == "loss" else np.zeros(trees.n_outputs)


def largest_steps(model: Model, score: str) -> Float:
    """Size of the largest step in the margin that a round can take in an output: (rounds,)."""
    trees, forest = model.trees, model.trees.forest
    largest = np.maximum.reduceat(np.abs(trees.value[forest.leaf_nodes]).max(axis=1), forest.first_leaf[:-1])
    by_output = np.zeros((trees.n_rounds, trees.n_outputs))
    for column in range(trees.width):
        np.add.at(by_output, (trees.round, trees.output + column), largest)
    return np.asarray(by_output.max(axis=1) + np.abs(start_of(model, score)).max())


def step_rule(kind: str, scale: float, steps: Float) -> tuple[NDArray[np.int32], Float, Float]:
    """How the core averages gradients over the step of each round: first point of each, points, weights."""
    rules = [rule(cast(Any, kind), float(largest), scale) for largest in steps]
    first = np.cumsum([0] + [len(points) for points, _ in rules], dtype=np.int32)
    points, weights = (np.concatenate([np.zeros(0), *(r[i] for r in rules)]) for i in (0, 1))
    return first, points, weights
