"""The signal score: TreeInner with each feature's own earlier effect put back; and how much of the effect holds.

TreeInner multiplies a round's steps on a feature by gradients that the feature's earlier steps have already used up.
Here a row carries the contributions of the features so far, and takes the gradient where it would be without the
feature's own: to second order for smooth losses, exactly for those with kinks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from treeinner.kernels.units import WEIGHT_BITS
from treeinner.losses import Loss
from treeinner.read import Model
from treeinner.read.columns import Credit
from treeinner.score.sums import Sums

__all__ = ["by_names", "holds_terms", "own_effect", "players_by_round", "squares_of_steps", "without_history"]

Float = NDArray[np.float64]
SMALL_TREE = 256  # leaves of a tree that the core takes whole


def by_names(model: Model, credit: Credit) -> tuple[Model, Credit]:
    """Model whose players are names, where every player belongs to one: a group's own effect is that of its sum."""
    if credit.places is not None or len(np.unique(credit.player)) < len(credit.player):
        return model, credit
    cache, key = model.trees.forest.cache, ("players are names", credit.name.tobytes(), credit.player.tobytes())
    if key not in cache:
        used, own = np.unique(credit.name, return_inverse=True)
        player = np.zeros(len(model.trees.player_features) + 1, np.int32)
        player[credit.player], player[-1] = own, -1  # the last one: leaves have player -1
        features = tuple((0,) for _ in used)
        trees = replace(model.trees, player=player[model.trees.player], player_features=features)
        cache[key] = replace(model, trees=trees), Credit(credit.names, np.arange(len(used)), used, np.ones(len(used)))
    return cast(tuple[Model, Credit], cache[key])


def players_by_round(model: Model) -> list[NDArray[np.intp]]:
    """Players that the trees of each round split on."""
    trees, forest = model.trees, model.trees.forest
    if "players by round" not in forest.cache:
        round_of = trees.round[trees.tree_of_node[forest.split_nodes]]
        pairs = np.unique(np.stack([round_of, forest.split_player], axis=1), axis=0)
        cuts = np.searchsorted(pairs[:, 0], np.arange(1, trees.n_rounds))
        forest.cache["players by round"] = np.split(pairs[:, 1].astype(np.intp), cuts)
    return cast(list[NDArray[np.intp]], forest.cache["players by round"])


def without_history(model: Model, credit: Credit, loss: Loss) -> bool:
    """Whether the core puts own effects back as (Phi^2 - sum of phi^2) / 2: squared error, small trees, one per round.

    Half of the squares of the steps is then taken off every row's share by leaf, and Phi^2 / 2 is added at the end.
    Model and credit are those of `by_names`.
    """
    trees = model.trees
    if credit.places is None or loss.core is None or loss.core[0] != "squared" or trees.width > 1 or trees.averaged:
        return False
    small = np.diff(trees.forest.first_leaf).max(initial=0) <= SMALL_TREE
    return bool(small) and len(np.unique(np.stack([trees.round, trees.output]), axis=1).T) == trees.n_trees


def squares_of_steps(model: Model, credit: Credit, leaf: Sums, value: Float) -> Float:
    """Sum over the rows of the squares of each tree's contributions, by the weights of the leaves: (names, outputs).

    Model and credit are those of `by_names`.
    """
    forest = model.trees.forest
    out = np.zeros((model.n_outputs, forest.n_players))
    _, weights, bits = leaf.leaf_sums()
    forest.core.squares(forest.core.path_table(value, False), weights, out)
    return np.asarray(credit.add_up(out, axis=1).T * 2.0 ** (bits - WEIGHT_BITS))


def own_effect(
    loss: Loss, y: Any, margin: Float, step: Float, so_far: Float, weight: Float | None, query: Any
) -> Float:
    """What putting the players' own effects back adds to the shares of a round: (rows, outputs, players).

    step: their contributions in the round, so_far: those before it, both (rows, outputs, players).
    """
    curvature = loss.curvatures(y, margin, weight=weight, query=query)
    if curvature is None:
        now = loss.gradients(y, margin, weight=weight, query=query)
        return step * (now[:, :, None] - gradients_without(loss, y, margin, so_far, weight, query))
    if curvature.ndim == 2:
        return step * (curvature[:, :, None] * so_far)
    moved = np.zeros_like(so_far)
    for output in range(so_far.shape[1]):  # one after the other: the same bits for any rows
        moved += curvature[:, :, output, None] * so_far[:, output, None, :]
    return step * moved


def gradients_without(loss: Loss, y: Any, margin: Float, effect: Float, weight: Float | None, query: Any) -> Float:
    """Gradients where the margin would be without each player's effect: (rows, outputs, players)."""
    n, n_outputs, n_players = effect.shape
    out = np.zeros(effect.shape)
    if loss.scope != "row":
        for k in range(n_players):
            out[:, :, k] = loss.gradients(y, margin - effect[:, :, k], weight=weight, query=query)
        return out
    # All players at once; a single row twice, since numpy adds the outputs of one row in another order.
    rows = np.tile(np.arange(n), n_players + (n * n_players == 1))
    at = np.resize((margin[:, :, None] - effect).transpose(2, 0, 1), (len(rows), n_outputs))
    found = loss.gradients(y[rows], at, weight=None if weight is None else weight[rows])[: n * n_players]
    out[:] = found.reshape(n_players, n, n_outputs).transpose(1, 2, 0)
    return out


def holds_terms(
    loss: Loss, y: Any, margin: Float, effect: Float, weight: Float | None, query: Any, *, out: Float
) -> None:
    """Contribution times minus the gradient, without the player's effect and with it: out, (2, *effect.shape).

    The sums s and l of these give `holds`, s / (s - l): the factor by which contributions fit these rows best.
    """
    if not effect.shape[2]:
        return
    without, whole = out
    np.multiply(effect, -loss.gradients(y, margin, weight=weight, query=query)[:, :, None], out=whole)
    if loss.core is not None and loss.core[0] == "squared":
        np.multiply(effect, effect, out=without)
        if (total := loss.total_weight(y, weight)) is not None:
            without *= total[:, None, None]
        without += whole
    else:
        np.multiply(-effect, gradients_without(loss, y, margin, effect, weight, query), out=without)
