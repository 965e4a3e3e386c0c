"""What follows from sums over rows: an Importance, and what must be said about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, Note, warn
from treeinner.kernels import Progress
from treeinner.losses import Loss
from treeinner.losses.labels import is_nested
from treeinner.read import Model
from treeinner.read.trees import Trees
from treeinner.rows import Stream
from treeinner.score.infer import Statistics, holds_of_clusters, holds_of_sums, of_clusters, of_sums, tested, unknown
from treeinner.score.passes import Centre, knows_loss, leaf_pass, node_means, share_columns, share_pass, total
from treeinner.score.result import LEVEL, Importance, Losses
from treeinner.score.segments import with_segments
from treeinner.score.signal import by_names, squares_of_steps, without_history
from treeinner.score.small_nodes import leave_one_out
from treeinner.score.spec import Spec, root_start, scored_loss
from treeinner.score.sums import Sums

__all__ = ["conclude", "scores_of", "statistics_of", "statistics_of_shares", "warned"]

Float = NDArray[np.float64]
FEW_ROWS = 20  # of equal weight, or clusters: below it p values are unreliable
LOST = 1e-3  # of the largest score: scores that may be off by more have a note
SAME_SCORE = 0.01  # of score and standard error: how far the shares' sum may be from the score
ONE_PASS = Note(
    "one_pass",
    "The rows could be read only once: no standard errors. Pass a file, or a function that returns the batches.",
)
OUT_OF_BAG = Note(
    "out_of_bag",
    "Out-of-bag rows depend on each other through the trees that they share: p values are too small.",
    True,
)


def scores_of(
    model: Model,
    spec: Spec,
    rows: Stream,
    *,
    std_errors: bool = True,
    margins_given: bool = False,
    keep: Float | None = None,
    n_jobs: int | None = -1,
    progress: Progress | None = None,
) -> Importance:
    """Importance by the passes over the rows that it takes; rows: a Stream, or the Partitions of a cluster.

    keep: filled with the shares of rows in memory, as by `share_pass`.
    """
    share, centre = None, None
    needed = std_errors or spec.score == "signal"
    run: dict[str, Any] = {"n_jobs": n_jobs}
    if spec.method == "centred":
        twice = (needed or spec.segmented) and rows.again
        half = partial(_half, progress, 0) if twice and progress else progress
        leaf = total(leaf_pass, model, spec, rows, progress=half, **run)
        centre = node_means(model, spec, leaf)
        if twice:
            half = progress and partial(_half, progress, leaf.rows)
            share = total(share_pass, model, spec, rows, centre, keep=keep, progress=half, **run)
    else:  # node values are stored: one pass gives everything
        centre = node_means(model, spec, None) if spec.by_path else None
        leaf = share = total(share_pass, model, spec, rows, centre, leaves=True, keep=keep, progress=progress, **run)
    leaf.margins_given = margins_given
    found = conclude(model, spec, leaf, share if needed else None, centre)
    if spec.segmented and share is not None:
        found = with_segments(found, share)
    return found if std_errors else replace(found, has_errors=False)


def _half(progress: Progress, first: int, done: int, rows: int) -> None:
    """Tell the progress of one of two passes; first: how many rows the first pass saw, 0 while it goes on."""
    progress((done + first) // 2, first or rows)


def conclude(
    model: Model, spec: Spec, leaf: Sums, share: Sums | None = None, centre: Centre | None = None
) -> Importance:
    """Scores and their statistics, per unit of weight.

    leaf: sums of the first pass; share: those of the second, or the same where one pass gives everything; None: scores
    alone. centre: node values of the shares.
    """
    weight, outputs = leaf.sum_of_weights(), None
    if not weight > 0:
        raise DataError("sample_weight is zero in every row; at least one row must count.")
    rounds = score = None
    if spec.by_path:
        assert centre is not None
        by_round = scores_from_leaves(model, spec, leaf, centre.value)
        score, rounds = by_round.sum(axis=0), by_round.sum(axis=2) / weight
    if spec.score == "signal":
        score = _signal(model, spec, leaf, share, centre, score)
    small: Float | float = 0.0
    if spec.score == "signal" and model.trees.averaged:
        assert centre is not None
        small = leave_one_out(model, spec, leaf, centre, 1.0 if leaf.tree_counts is None else leaf.tree_counts)
    if share is None and score is not None:
        whole, outputs = unknown(score.sum(axis=1) / weight), unknown(score * (1.0 / weight))  # as statistics_of has it
    else:  # scores by TreeSHAP are the sums of the shares, whether their errors are asked for or not
        known = None if score is None else score - small
        whole, outputs = statistics_of(leaf if share is None else share, model.n_outputs, known)
    if share is not None and share is not leaf:
        assert score is not None
        _check_same_rows(leaf, share, score.sum(axis=1) / weight, whole.std_error, _rounding(model, spec, leaf))
    if rounds is not None and spec.score != "signal":  # the rounds add up to the scores, to the last bit
        whole = replace(whole, score=rounds.sum(axis=0))
    if leaf.tree_counts is not None:  # out of bag: no one prediction that the contributions add up to
        whole, outputs = (replace(each, holds=None, holds_std_error=None) for each in (whole, outputs))
    loss = scored_loss(model, spec.score)
    return Importance(
        score=spec.score,
        method=spec.method,
        feature_names=spec.credit.names,
        statistics=whole,
        outputs=outputs if model.n_outputs > 1 else None,
        output_names=_output_names(model, leaf.target_names),
        has_errors=share is not None,
        rounds=rounds,
        rates=partial(_rates, model.trees) if spec.score == "tree_inner" else None,
        node_values=None if spec.method != "centred" or centre is None else _by_node(model, centre.value, leaf),
        model_digest=model.digest,
        losses=_losses(model, spec, loss, leaf, centre, whole.score),
        n_rows=leaf.rows,
        sum_of_weights=float(np.ldexp(weight, leaf.weight_exponent)),
        loss_name=loss.words,
        frame_library=leaf.frame_library,
        notes=_notes(model, spec, leaf, share, whole),
    )


def _signal(
    model: Model, spec: Spec, leaf: Sums, share: Sums | None, centre: Centre | None, score: Float | None
) -> Float:
    """Sums of the signal score: TreeInner's from the leaves, and what the second pass put back; (names, outputs)."""
    if share is None:
        raise DataError(
            "score='signal' needs the rows twice; pass an X that can be read again, such as a file or a function that "
            "returns the batches (an ImportanceAccumulator: see second_pass()), or use score='tree_inner'."
        )
    assert score is not None
    assert centre is not None
    put_back = share.signal_sums()[0][: score.size].reshape(score.shape)
    by_name = by_names(model, spec.credit)
    if without_history(*by_name, scored_loss(model, spec.score)):
        put_back = put_back - 0.5 * squares_of_steps(*by_name, leaf, centre.value)
    return np.asarray(score + put_back)


def _by_node(model: Model, value: Float, leaf: Sums) -> Float:
    """Node values in the order of the model's nodes; where no row came by, a split has its parent's: (nodes, width)."""
    trees, numbered = model.trees, model.trees.forest.numbered
    out = np.empty_like(value)
    out[numbered] = value
    weight = np.zeros(value.shape)
    weight[trees.forest.leaf_nodes] = leaf.leaf_sums()[1]
    for node, left, right in trees.upwards:
        weight[node] = weight[left] + weight[right]
    for node, left, right in reversed(trees.upwards):
        for child in (left, right):
            empty = (weight[child] == 0) & (trees.column[child] >= 0)[:, None]
            out[child] = np.where(empty, out[node], out[child])
    return out


def statistics_of(sums: Sums, n_outputs: int, score: Float | None = None) -> tuple[Statistics, Statistics]:
    """Statistics of the totals, (names,), and of every output, (names, outputs), per unit of weight.

    score: (names, outputs), where it is known better than by the sums of the shares, which the core may add in float32.
    """
    factor = 1.0 / sums.sum_of_weights()
    given = None if score is None else share_columns(score[None])[0]
    powers = sums.share_sums()
    n_columns = powers.shape[1]
    cut = 0 if n_outputs == 1 else n_columns - n_columns // (n_outputs + 1)

    # Rows of equal weight, or clusters if these are fewer; equal weights count as their number, to the last bit.
    independent = min(round(sums.effective_rows(), 6), sums.units if sums.labels is None else len(sums.labels))
    by_cluster = None if sums.clusters is None else np.split(sums.cluster_sums(), 1 if sums.signal is None else 3, 1)
    terms = None if sums.signal is None else sums.signal_sums()[1:]

    def part(columns: slice, *shape: int) -> Statistics:
        own = None if given is None else given[columns].reshape(shape)
        if by_cluster is not None:
            shares, *of_holds = (each[:, columns].reshape(-1, *shape) for each in by_cluster)
            found = of_clusters(shares, score=own, factor=factor)
            holds = holds_of_clusters(*of_holds) if of_holds else (None, None)
        else:
            total, squares, fourths = (power[columns].reshape(shape) for power in powers)
            found = of_sums(total, squares, fourths, sums.units, score=own, factor=factor)
            holds = (None, None) if terms is None else holds_of_sums(terms[:, columns].reshape(5, *shape), sums.units)
        if independent <= 2:  # two rows, or clusters, differ from their mean alike: no spread
            found = replace(unknown(found.score), df=np.ones_like(found.score))
        elif independent < FEW_ROWS:  # rows of tiny weight do not count
            found = tested(found.score, found.std_error, np.minimum(found.df, independent - 1.0))
        holds_std_error = holds[1] if independent > 2 or holds[1] is None else holds[1] + np.inf
        return replace(found, holds=holds[0], holds_std_error=holds_std_error)

    whole = part(slice(cut, None), n_columns - cut)
    return whole, whole if n_outputs == 1 else part(slice(0, cut), n_columns - cut, n_outputs)


def statistics_of_shares(
    shares: Float, weight: Float | None, clusters: NDArray[Any] | None, terms: Sequence[Float] | Float = ()
) -> tuple[Statistics, Statistics]:
    """The same of shares in memory, (rows, names, outputs): folds, members of an average, differences of two models.

    terms: of the signal score, s and l of every row, each as the shares.
    """
    sums = Sums.of_shares(share_columns(shares), weight, clusters, [share_columns(each) for each in terms])
    return statistics_of(sums, shares.shape[2])


def warned(found: Importance, *more: Note | None) -> Importance:
    """Put more notes on a result, and warn once if any is not quiet."""
    notes = (*(note for note in more if note is not None), *found.notes)
    q, df = found.statistics.q_value, found.statistics.df
    few = [found.feature_names[k] for k in np.flatnonzero((q <= LEVEL) & (df + 1 < FEW_ROWS))]
    if few and found.has_errors and found.folds is None and not {"few_rows", "training_rows"} & {n.code for n in notes}:
        text = f"{', '.join(few[:3])}{', ...' * (len(few) > 3)}: under {FEW_ROWS} rows or clusters carry its verdict."
        notes = (*notes, Note("few_shares", text, quiet=True))
    warn(*notes)
    return replace(found, notes=notes)


# -- scores from what reached the leaves ------------------------------------------------------------------------
def scores_from_leaves(model: Model, spec: Spec, leaf: Sums, value: Float) -> Float:
    """Score by round and output from the gradient sums of the leaves: (rounds, names, outputs).

    score = sum over edges of (value of the child - value of the node) * (sum of the gradients in the child), by node
    values in the core's order, (nodes, width).
    """
    trees, forest = model.trees, model.trees.forest
    sums, _, bits = leaf.leaf_sums()
    gains = np.empty((len(forest.split_nodes), trees.width))
    forest.core.split_scores(value, sums, spec.gradient_unit * 2.0**bits, gains)
    shape = (trees.n_rounds, forest.n_players, trees.n_outputs)
    tree = trees.tree_of_node[forest.split_nodes]
    place = np.ravel_multi_index((trees.round[tree], forest.split_player, trees.output[tree]), shape)
    by_player = np.zeros(math.prod(shape))
    for column in range(trees.width):
        by_player += np.bincount(place + column, gains[:, column], minlength=len(by_player))
    return spec.credit.add_up(by_player.reshape(shape), axis=1)


def _rates(trees: Trees) -> Float:
    """Learning rate times weight of the trees of each round; NaN where they differ, or are not known: (rounds,)."""
    factor = trees.known.rate * trees.weight
    low, high = (each.reduceat(factor, trees.first_trees[:-1]) for each in (np.minimum, np.maximum))
    return np.where((low == high) & (low > 0), low, np.nan)


def _losses(model: Model, spec: Spec, loss: Loss, leaf: Sums, centre: Centre | None, scores: Float) -> Losses | None:
    """What the rounds did to the loss, per row."""
    if not knows_loss(model, spec, loss):
        return None
    weight, trees, forest = leaf.sum_of_weights(), model.trees, model.trees.forest
    known: dict[str, Any] = {name: each / weight for name, each in leaf.loss_sums().items()}
    if known.pop("unbounded") or loss.least is None:
        known["least"] = math.nan
    breakdown = spec.score == "loss"
    if centre is not None:
        integers, _, bits = leaf.leaf_sums()
        sums = integers * (spec.gradient_unit * 2.0**bits / weight)
        # bincount adds one after the other: the same bits on every processor.
        if breakdown:
            root = centre.value[trees.start[:-1]] - root_start(model, spec.score)
            gained = (root * np.add.reduceat(sums, forest.first_leaf[:-1], axis=0)).sum(axis=1)
            known["base_rounds"] = np.bincount(trees.round, gained, trees.n_rounds)
            known["base"] = float(known["base_rounds"].sum())
        else:
            fall = (trees.value[forest.leaf_nodes] * sums).sum(axis=1)
            known["first_order"] = float(np.bincount(np.zeros(len(fall), np.intp), fall, 1)[0])
    return Losses(**known if breakdown else known | {"base": math.nan})


def _output_names(model: Model, targets: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Names of the outputs: the model's, else the columns of y; "target=class" if every target has classes."""
    if targets is not None and is_nested(model.classes):
        pairs = zip(targets, model.classes, strict=True)
        return tuple(f"{target}={label}" for target, labels in pairs for label in labels)
    if model.output_names is None and targets is not None and len(targets) == model.n_outputs:
        return targets
    return model.output_names


# -- notes and checks -------------------------------------------------------------------------------------------
def _notes(model: Model, spec: Spec, leaf: Sums, share: Sums | None, found: Statistics) -> tuple[Note, ...]:
    """What was assumed of the model, and what does not hold for these numbers."""
    notes = [note for note in model.notes if not (note.code == "start_assumed" and leaf.margins_given)]
    off, largest = _rounding(model, spec, leaf) / leaf.sum_of_weights(), float(np.abs(found.score).max(initial=0.0))
    if off > LOST * largest and len(spec.credit.player) and (largest or not leaf.leaf_sums()[0].any()):
        text = f"Scores of up to {largest:.1g} may be off by {off:.1g}: gradients are tiny beside the leaf values."
        text = text if largest else "All gradients are 0, or tiny beside the leaf values, and so all scores are 0."
        notes.append(Note("rounding", f"{text} Check y and base_margin."))
    if not len(model.trees.forest.split_nodes):
        notes.append(Note("no_splits", "The model has no splits: it predicts the same for every row."))
    rows, labels = leaf.effective_rows(), None if share is None else share.labels
    clusters = rows if labels is None else len(labels)
    if share is not None and min(rows, clusters) < FEW_ROWS:
        few = f"clusters ({clusters})" if clusters < rows else f"rows ({rows:.1f} of equal weight)"
        notes.append(Note("few_rows", f"Few {few}: errors and p values are rough; score more of them."))
    if leaf.targets[0] == leaf.targets[1] and leaf.units > 1:
        notes.append(Note("one_target", "All rows have the same target: check y, or score rows with other targets."))
    if isinstance(model.class_weight, str):
        text = f"class_weight={model.class_weight!r} goes by the class counts of these rows, not of the training rows."
        notes.append(Note("class_weight", text, quiet=True))
    return tuple(notes)


def _rounding(model: Model, spec: Spec, leaf: Sums) -> float:
    """How far a sum of shares may be off because gradients are rounded to units: eight standard deviations.

    Every row is off by a random part of a unit in every tree, times steps of up to twice the largest leaf that rows
    reach there.
    """
    if leaf.leaf is None:
        return 0.0
    sums, weights, bits = leaf.leaf_sums()
    trees, forest = model.trees, model.trees.forest
    size = np.where((sums != 0) | (weights > 0), np.abs(trees.value[forest.leaf_nodes]), 0.0).max(axis=1)
    by_tree = np.maximum.reduceat(size, forest.first_leaf[:-1])
    steps = 2.0 * float(np.sqrt(np.square(by_tree).sum()))
    return 8.0 * spec.gradient_unit * 2.0**bits / math.sqrt(12.0) * steps * math.sqrt(leaf.rows)


def _check_same_rows(leaf: Sums, share: Sums, score: Float, std_error: Float, rounded: float) -> None:
    """Raise unless the second pass saw the rows of the first; rounded: how far sums may be off."""
    # What tells rows from other rows: their number, weights, and what the trees add to their margins.
    leaf.settle()
    share.settle()
    telling = ("rows", "units", "weight_exponent", "weight", "moved")
    same = all(np.array_equal(getattr(leaf, name), getattr(share, name)) for name in telling)
    # Shares add up to the score, but for the float32 of the core and the units of the leaf sums.
    weight = leaf.sum_of_weights()
    total = share.share_sums()[0][-len(score) :] / weight if len(score) else score
    size, error = np.abs(score), np.nan_to_num(std_error, posinf=0.0)
    close = SAME_SCORE * (error + size) + 1e-6 * size.max(initial=0.0) + rounded / weight
    if not same or (np.abs(total - score) > close).any():
        numbers = f" ({share.rows:,} rows, then {leaf.rows:,})"
        why = ", or one weight is so large that the others are lost beside it" if same else numbers
        raise DataError(
            f"The second pass saw other rows than the first{why}; pass exactly the rows of the first pass, with the "
            "same targets and weights, in any batches."
        )
