"""How the loss breakdown differs between two sets of rows, or two models: the fields of what `compare` returns.

Two sets have the node values of the first, so that a change of the rows is not hidden in a change of the centre; by
another method than centred, those that the model stores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, Note, UnsupportedModelError, listing
from treeinner.kernels import Progress
from treeinner.read import Model
from treeinner.read.columns import Credit, GroupSpec, credit
from treeinner.rows import Rows, Stream
from treeinner.rows.stream import naming
from treeinner.score.conclude import conclude, statistics_of, statistics_of_shares
from treeinner.score.infer import difference, tested
from treeinner.score.passes import Centre, leaf_pass, node_gap, node_means, share_pass, total
from treeinner.score.result import Importance
from treeinner.score.shift import moved_and_changed
from treeinner.score.spec import Spec, make_spec, scored_loss, start_of
from treeinner.score.sums import Sums
from treeinner.score.training_rows import training_rows_note

__all__ = ["change_of_models", "change_of_rows", "counted"]

Float = NDArray[np.float64]
Run = Callable[..., Sums]
FEW_BEFORE = 500  # rows


# -- one model, two sets of rows ----------------------------------------------------------------------------------
def change_of_rows(
    model: Model,
    streams: Sequence[Stream],
    names: tuple[str, str],
    odds: Float | None,
    *,
    method: str,
    feature_groups: GroupSpec | None,
    count_passes: Callable[[int], Run],
) -> dict[str, Any]:
    """Fields of the Comparison of two sets of rows; odds: weights by which the first looks like the second, or None."""
    run = count_passes(6 if method != "centred" else 9 if odds is None else 13)
    groups = credit(model, streams[0].names, feature_groups, streams[0].head)
    specs = [_spec(model, groups, "loss", method, stream) for stream in streams]
    with naming(names[0]):
        leaf, before = _scored(run, model, specs[0], streams[0])
    split: dict[str, Any] = {}
    if method == "centred":
        with naming(names[1]):
            leaves = leaf, run(leaf_pass, model, specs[1], streams[1])
        _check_sides(leaves, streams, names)
        assert before.node_values is not None
        # Nodes that no row of `before` reaches have the value of their parent.
        fixed = Centre(before.node_values[model.trees.forest.numbered])
        after = conclude(model, specs[1], leaves[1], run(share_pass, model, specs[1], streams[1], fixed), fixed)
        # The rows of `before` move the node values of both sides.
        gap = Centre(fixed.value, node_gap(model, specs[0], *leaves))
        moves, _ = statistics_of(run(share_pass, model, specs[0], streams[0], gap), model.n_outputs)
        if odds is not None:
            (rows,) = streams[0]
            split = moved_and_changed(run, model, specs[0], rows, odds, leaves, fixed, before.scores, after.statistics)
    else:  # node values are stored, and no row moves them
        with naming(names[1]):
            leaf_after, after = _scored(run, model, specs[1], streams[1])
        _check_sides((leaf, leaf_after), streams, names)
        moves = before.statistics
    found: dict[str, Any] = {
        "before": before,
        "after": replace(after, node_values=before.node_values),
        "change": difference(replace(moves, score=before.scores), after.statistics),
        **split,
    }
    for when, stream in zip(("before", "after"), streams, strict=True):
        _, found[f"signal_{when}"] = _scored(run, model, _spec(model, groups, "signal", "centred", stream), stream)
    return found | {"notes": _notes(model, streams, names, found)}


def _check_sides(leaves: Sequence[Sums], streams: Sequence[Stream], names: tuple[str, str]) -> None:
    """Raise unless both sides have the same columns, and rows of their own."""
    first, second = streams[0].names, streams[1].names
    if first is not None and second is not None and first != second:
        raise DataError(f"{names[0]}: X has the columns {listing(first)}, but {listing(second)} in {names[1]}.")
    states = [leaf.__getstate__() for leaf in leaves]
    if all(np.array_equal(*(state[name] for state in states)) for name in ("rows", "moved", "losses")):
        raise DataError(f"{names[0]} and {names[1]} are the same rows, so there is no change; pass two sets of rows.")


def _notes(model: Model, streams: Sequence[Stream], names: tuple[str, str], found: dict[str, Any]) -> tuple[Note, ...]:
    """What is said of both sides, then what is said of one."""
    sides: list[dict[Note, None]] = []
    for stream, when in zip(streams, ("before", "after"), strict=True):
        seen = training_rows_note(model, stream)
        if seen is not None and seen.code == "training_rows" and not sides:
            text = "training rows are among these rows, so the change is overfitting too; pass held-out rows."
            seen = Note(seen.code, text, quiet=names[0].lower().startswith("train"))
        given = (seen, *stream.notes, *found[when].notes, *found[f"signal_{when}"].notes)
        sides.append(dict.fromkeys(note for note in given if note is not None))
    notes = [note for note in sides[0] if note in sides[1]]
    for name, own in zip(names, sides, strict=True):
        notes += [replace(note, text=f"{name}: {note.text}") for note in own if note not in notes]
    if found["before"].method == "centred" and (n := found["before"].n_rows) < FEW_BEFORE:
        notes.append(Note("few_before", f"{names[0]} has {n} rows: deep trees let noise seem to pay more.", quiet=True))
    return tuple(notes)


# -- two models, the same rows ------------------------------------------------------------------------------------
def change_of_models(
    models: Sequence[Model],
    streams: Sequence[Stream],
    *,
    method: str,
    feature_groups: GroupSpec | None,
    count_passes: Callable[[int], Run],
) -> dict[str, Any]:
    """Fields of the Comparison of two models on the same rows in memory; streams: the rows as each model reads them."""
    (rows,), (others,) = streams
    _check_metric(models, (rows, others))
    run, shares = count_passes(8 if method == "centred" else 6), []
    found: dict[str, Any] = {}
    own = [credit(m, stream.names, feature_groups, stream.head) for m, stream in zip(models, streams, strict=True)]
    names = tuple(dict.fromkeys(name for groups in own for name in groups.names))
    for when, model, stream, groups in zip(("before", "after"), models, streams, own, strict=True):
        kept = np.zeros((1, rows.n_rows, len(names), model.n_outputs))
        for score, by, name, keep in (("loss", method, when, kept), ("signal", "centred", f"signal_{when}", None)):
            _, found[name] = _scored(run, model, _spec(model, _among(names, groups), score, by, stream), stream, keep)
        shares.append(kept[0].sum(axis=2))
    error, _ = statistics_of_shares((shares[0] - shares[1])[:, :, None], rows.weight, rows.clusters)
    change = found["before"].scores - found["after"].scores
    notes = [*map(training_rows_note, models, streams), *streams[0].notes]
    notes += [note for imp in found.values() for note in imp.notes]
    return found | {
        "change": tested(change, error.std_error, error.df),
        "notes": tuple(dict.fromkeys(note for note in notes if note is not None)),
    }


def _among(names: tuple[str, ...], own: Credit) -> Credit:
    """The same credit among more names."""
    name = np.array([names.index(each) for each in own.names], np.intp)[own.name]
    order = np.argsort(name, kind="stable")
    return Credit(names, own.player[order], name[order], own.part[order])


def _check_metric(models: Sequence[Model], sides: Sequence[Rows]) -> None:
    """Raise unless both models are measured by the same loss, on the same targets and weights."""
    (a, b), (x, y) = (scored_loss(model, "loss") for model in models), sides
    weights = [1.0 if each.weight is None else np.ldexp(each.weight, each.weight_exponent) for each in sides]
    if models[0].n_outputs != models[1].n_outputs:
        why, cure = f"they have {models[0].n_outputs} and {models[1].n_outputs} outputs", "Compare models of one target"
    elif x.y.shape != y.y.shape or not np.allclose(x.y, y.y) or np.any(weights[0] != weights[1]):
        why, cure = "they code targets or weight classes in different ways", "Train both alike"
    else:
        start = x.start + start_of(models[0], "loss")
        margins = start, start + np.linspace(0.1, 0.5, start.shape[1])
        if all(np.allclose(a.losses(x.y, margin), b.losses(y.y, margin), rtol=1e-6) for margin in margins):
            return
        why, cure = "losses differ", "Give both one loss: ti.read_model(model, objective=...)"
    held = f"{a.words or a.name}, and {b.words or b.name}"
    raise UnsupportedModelError(f"The models are not measured alike ({why}): {held}. {cure}.")


# -- passes ---------------------------------------------------------------------------------------------------------
def _spec(model: Model, groups: Credit, score: str, method: str, stream: Stream) -> Spec:
    """What is asked of one set of rows."""
    return make_spec(model, groups, score=score, method=method, clustered=stream.clustered)


def _scored(run: Run, model: Model, spec: Spec, stream: Stream, keep: Float | None = None) -> tuple[Sums, Importance]:
    """Leaf sums and importance by the node values of these rows themselves, or by stored ones in one pass.

    keep: filled with the rows' shares.
    """
    stored = spec.method != "centred"
    leaf = None if stored else run(leaf_pass, model, spec, stream)
    centre = node_means(model, spec, leaf) if spec.by_path else None
    share = run(share_pass, model, spec, stream, centre, leaves=stored, keep=keep)
    leaf = share if leaf is None else leaf
    return leaf, conclude(model, spec, leaf, share, centre)


def counted(n_jobs: int | None, progress: Progress | None, n: int) -> Run:
    """Make passes; progress hears of n passes, in thousandths of one."""
    number = count()

    def run(*args: Any, **options: Any) -> Sums:
        k = next(number)
        heard = progress and (lambda done, rows: progress(1000 * k + 1000 * done // rows, 1000 * n))
        return total(*args, **options, n_jobs=n_jobs, progress=heard)

    return run
