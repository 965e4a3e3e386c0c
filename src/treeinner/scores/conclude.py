"""What follows from sums over rows: an Importance, and what must be said about it."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, TreeInnerError, speak
from treeinner.inference import Inference, without_errors
from treeinner.model import Model
from treeinner.objectives.labels import is_nested
from treeinner.scores.leaves import Leaves
from treeinner.scores.parts import Losses
from treeinner.scores.result import Importance
from treeinner.scores.setting import GRADIENT_BITS, WEIGHT_BITS, NodeMeans, Setting
from treeinner.scores.state import LOSSES, State
from treeinner.scores.totals import Names, Totals

__all__ = ["conclude", "node_means", "overshoot_notes", "with_note"]

FloatArray = NDArray[np.float64]
OVERSHOOT = 0.3  # above it, TreeInner's p values are too small (docs/calibration.md)
SOME_ROWS = 30  # on fewer, overshoot says little
LOST = 1e-3  # of the largest score: scores that may be off by more have a note
SAME_SCORE = 0.01  # of score and standard error: how far the shares' sum may be from the score
ONE_PASS = (
    "Standard errors and p values are those of a single pass over the rows, and conservative. Their own need the rows "
    "twice: acc.second_pass() of an accumulator, or an X that can be read again (not an iterator)."
)


def conclude(
    model: Model, setting: Setting, totals: Totals, first: Totals | None, *, confidence: float, tested: bool = True
) -> tuple[Importance, tuple[str, ...]]:
    """Scores and their statistics, per row, and which of the notes must be said aloud.

    first: the sums of the first pass, if `totals` has those of the second. tested=False leaves all but the scores out,
    for the rest takes longer where rows are few.
    """
    state = totals.combined()
    summed, weight = state if first is None else first.combined(), float(state.weight.totals()[0])
    rounds = score = value = None
    if summed.leaves is not None and setting.penalty is None:
        value = centred_values(setting, summed.leaves) if setting.centred else setting.numbered_value
        by_round = score_from_leaves(setting, summed.leaves, value)
        score = by_round.sum(axis=0)
        rounds = by_round.sum(axis=2) / weight
    elif state.rounds is not None:
        rounds = state.rounds.totals().reshape(setting.ensemble.n_rounds, -1)[:, :-1] / weight
    if setting.needs_rows and (tested or score is None):
        whole, outputs = state.infer(score, confidence, flips=tested and setting.means is not None)
    else:
        assert score is not None
        whole = without_errors(score.sum(axis=1))
        outputs = without_errors(score) if state.n_outputs > 1 else None
    if first is not None:
        _check_same_rows(summed, state, whole, rounding(setting, summed))
    statistics = whole.scaled(1.0 / weight)
    gain_source = _gain_source(setting, summed, statistics.score, rounds, weight)
    if rounds is not None:  # the rounds add up to the scores, to the last bit
        statistics = replace(statistics, score=rounds.sum(axis=0))
    said = _doubts(model, setting, base_margin=totals.margins_given) + _rounding_notes(setting, summed, statistics)
    found = Importance(
        score_name=setting.score,
        method=setting.method if isinstance(setting.method, str) else "callable",
        feature_names=setting.groups.names,
        statistics=statistics,
        outputs=None if outputs is None else outputs.scaled(1.0 / weight),
        output_names=_output_names(model, totals.target_names),
        n_rows=state.n_rows,
        sum_of_weights=float(np.ldexp(weight, state.weight_exponent)),
        tested=tested and setting.score != "abs",
        has_std_errors=tested and setting.std_errors,
        rounds=rounds,
        notes=(*model.notes, *said),
        frame_library=totals.frame_library,
        losses=losses_of(setting, summed, value, statistics.score),
        gain_source=gain_source,
    )
    return found, said


def _doubts(model: Model, setting: Setting, *, base_margin: bool) -> tuple[str, ...]:
    """What was assumed, and what does not hold for these numbers."""
    said = model.doubts(setting.score, setting.method, base_margin=base_margin)
    return (*said, ONE_PASS) if setting.wants_second_pass else said


def with_note(found: Importance, note: str | None) -> Importance:
    """Say a note aloud and put it on a result; None: there is nothing to say."""
    if note is None:
        return found
    speak(note)
    return replace(found, notes=(*found.notes, note))


def overshoot_notes(found: Importance) -> tuple[str, ...]:
    """Say if the steps are so large that first-order scores flatter."""
    if found.score_name != "tree_inner" or found.n_rows < SOME_ROWS or not found.overshoot > OVERSHOOT:
        return ()
    return (
        f"The steps of this model overshoot: on these rows the loss fell by {1 - found.overshoot:.0%} of what "
        "its slope promised, and first-order scores may take harm of the second order for signal. p values may be "
        "too small; use score='loss', which accounts for the loss itself.",
    )


def _rounding_notes(setting: Setting, summed: State, found: Inference) -> tuple[str, ...]:
    """Say if gradients are so far below the largest leaf value that scores have lost their digits."""
    off, largest = rounding(setting, summed) / float(summed.weight.totals()[0]), float(np.abs(found.score).max())
    if not off > LOST * largest or not setting.has_outliers:
        return ()
    return (
        f"A leaf value of this model, {float(np.abs(setting.leaf_value).max()):.3g}, is far out of proportion to the "
        f"others. Gradients are summed in units of its size, and the scores may be off by {off:.1g}, where the largest "
        f"is {largest:.1g}. Check the training targets for outliers, or remove the trees with such leaves.",
    )


# -- scores from what reached the leaves ---------------------------------------------------------------------
def centred_values(setting: Setting, leaves: Leaves) -> FloatArray:
    """Mean of the leaf values over the rows in every node, in the core's order: (n_nodes, width)."""
    assert leaves.weights is not None
    value = setting.leaf_value.copy()
    setting.forest.core.centre_values(leaves.weights, value)
    return value


def node_means(setting: Setting, leaves: Leaves) -> NodeMeans:
    """Return the means over the rows in every node, of the leaf values and of minus the gradients."""
    assert leaves.weights is not None
    residual = np.zeros_like(setting.leaf_value)
    is_leaf = setting.ensemble.feature[setting.forest.numbered] < 0
    unit = 2.0 ** (setting.scale_bits - GRADIENT_BITS + WEIGHT_BITS)
    of_leaf = np.divide(leaves.sums, leaves.weights, out=np.zeros(leaves.sums.shape), where=leaves.weights > 0)
    residual[is_leaf] = of_leaf * unit
    setting.forest.core.centre_values(leaves.weights, residual)
    return NodeMeans(centred_values(setting, leaves), residual)


def score_from_leaves(setting: Setting, leaves: Leaves, value: FloatArray) -> FloatArray:
    """Score by round and output from the gradient sums of the leaves: (rounds, features, outputs).

    score = sum over edges of (value of the child - value of the node) * (sum of the gradients in the child), by node
    values `value`, (n_nodes, width), in the core's order.
    """
    e, forest = setting.ensemble, setting.forest
    gains = np.empty((len(forest.split_nodes), e.width))
    forest.core.split_scores(value, leaves.sums, leaf_unit(setting, leaves), gains)
    shape = (e.n_rounds, forest.n_players, e.n_outputs)
    by_player = np.zeros(math.prod(shape))
    for width in range(e.width):
        by_player += np.bincount(setting.split_place + width, gains[:, width], minlength=len(by_player))
    return setting.groups.add_up(forest.features(by_player.reshape(shape).transpose(0, 2, 1)), axis=1)


def leaf_unit(setting: Setting, leaves: Leaves) -> float:
    """Unit of the gradient sums of the leaves."""
    return float(2.0 ** (setting.scale_bits - GRADIENT_BITS + leaves.exponent))


def rounding(setting: Setting, state: State) -> float:
    """How far a sum of shares may be off because gradients are rounded to units: eight standard deviations.

    Every row is off by a random part of a unit in every tree, times steps of up to twice the largest leaf that rows
    reach there.
    """
    if state.leaves is None:
        return 0.0
    leaves, forest = state.leaves, setting.forest
    reached = leaves.sums != 0 if leaves.weights is None else leaves.weights > 0
    is_leaf = setting.ensemble.feature[forest.numbered] < 0
    size = np.where(reached, np.abs(setting.leaf_value[is_leaf]), 0.0).max(axis=1)
    by_tree = np.maximum.reduceat(size, forest.first_leaf[:-1])
    steps = 2.0 * float(np.sqrt(np.square(by_tree).sum()))
    return 8.0 * leaf_unit(setting, leaves) / math.sqrt(12.0) * steps * math.sqrt(state.n_rows)


def losses_of(setting: Setting, state: State, value: FloatArray | None, scores: FloatArray) -> Losses | None:
    """What the rounds did to the loss, per row; value: node values, where the scores come from the leaves."""
    if state.losses is None or not setting.knows_loss:
        return None
    assert setting.objective is not None
    weight = float(state.weight.totals()[0])
    known: dict[str, Any] = dict(zip(LOSSES, (state.losses.totals() / weight).tolist(), strict=True))
    if known.pop("unbounded") or setting.objective.least is None:
        known["least"] = math.nan
    e, forest, account = setting.ensemble, setting.forest, setting.score == "loss"
    if value is not None and state.leaves is not None:
        sums = state.leaves.sums * (leaf_unit(setting, state.leaves) / weight)
        # bincount adds one after the other: the same bits on every processor.
        if account:
            root = value[e.tree_start[:-1]] - setting.root_start
            gained = (root * np.add.reduceat(sums, forest.first_leaf[:-1], axis=0)).sum(axis=1)
            known["base_rounds"] = np.bincount(e.tree_round, gained, e.n_rounds)
            # The losses are exact, leaf sums of large leaves and small gradients only to 2^-28 of a leaf.
            known["base"] = known["before"] - known["after"] - float(scores.sum())
        else:
            fall = (e.value[forest.leaf_nodes] * sums).sum(axis=1)
            known["first_order"] = float(np.bincount(np.zeros(len(fall), np.intp), fall, 1)[0])
    elif account and state.rounds is not None:
        known["base_rounds"] = state.rounds.totals().reshape(e.n_rounds, -1)[:, -1] / weight
    return Losses(**known if account else known | {"base": math.nan})


def _gain_source(setting: Setting, state: State, score: FloatArray, rounds: FloatArray | None, weight: float) -> Any:
    """How to work out the paper's sums over rows, each tree divided by its learning rate; None: not of this score."""
    if setting.score != "tree_inner":
        return None
    leaves, exponent = copy.deepcopy(state.leaves), state.weight_exponent  # an accumulator goes on adding

    def gains() -> FloatArray:
        return np.ldexp(in_units(), exponent)

    def in_units() -> FloatArray:
        factor = setting.known_factor()
        scale = np.divide(1.0, factor, out=np.zeros(len(factor)), where=factor != 0)
        if setting.leaves_suffice:
            assert leaves is not None
            value = centred_values(setting, leaves) if setting.centred else setting.numbered_value
            value = value * scale[setting.ensemble.tree_of_node[setting.forest.numbered]][:, None]
            return np.asarray(score_from_leaves(setting, leaves, value).sum(axis=0).sum(axis=1))
        first = scale[setting.first_trees[:-1]]
        if len(np.unique(scale)) == 1:
            return np.asarray(score * (weight * first[0]))
        if rounds is None or np.any(scale != first[setting.ensemble.tree_round]):
            raise TreeInnerError(
                f"The learning rate changes from tree to tree, and gains by {setting.method_name!r} then need the "
                "scores by round; pass by_round=True."
            )
        return np.asarray((rounds * first[:, None]).sum(axis=0) * weight)

    return gains


def _output_names(model: Model, targets: Names) -> Names:
    """Names of the outputs: the model's, else the columns of y; "target=class" if every target has classes."""
    classes: Any = model.ensemble.objective_params.get("classes")
    if targets is not None and is_nested(classes):
        return tuple(f"{target}={label}" for target, some in zip(targets, classes, strict=True) for label in some)
    if model.output_names is None and targets is not None and len(targets) == model.n_outputs:
        return targets
    return model.output_names


# -- checks ------------------------------------------------------------------------------------------------
def _check_same_rows(first: State, second: State, whole: Inference, rounded: float) -> None:
    """Raise unless the second pass saw the rows of the first; rounded: how far scores may be off."""
    same = _weights_of(first) == _weights_of(second)
    if first.moved is not None and second.moved is not None:  # the same leaves were reached
        same = same and first.moved.limbs.tolist() == second.moved.limbs.tolist()
    # Shares add up to the score, but for the float32 of the core and the units of the leaf sums.
    total, size = second._shaped(second.shares.sums(), total=True), np.abs(whole.score)
    close = SAME_SCORE * (np.nan_to_num(whole.std_error, posinf=0.0) + size) + 1e-6 * size.max(initial=0.0) + rounded
    off = np.abs(total - whole.score) > close
    if not same or off.any():
        counts = f" ({second.n_rows:,} rows, then {first.n_rows:,})"
        why = ", or one weight is so large that the others are lost beside it" if same else counts
        raise DataError(
            f"The second pass saw other rows than the first{why}; pass exactly the rows of the first pass, with "
            "the same targets and weights, in any batches."
        )


def _weights_of(state: State) -> tuple[Any, ...]:
    return state.n_rows, state.n_units, state.weight_exponent, state.weight.limbs.tolist()
