"""How the loss breakdown differs between two sets of rows, or two models: what `compare` returns, and its errors.

Two sets have the node values of the first, so that a change of the rows is not hidden in a change of the centre.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, Note, UnsupportedModelError, listing
from treeinner.kernels import Progress
from treeinner.read import Model
from treeinner.read.columns import GroupSpec, credit
from treeinner.rows import Rows, Stream
from treeinner.score.average import all_names
from treeinner.score.conclude import conclude, statistics_of
from treeinner.score.infer import Statistics, benjamini_hochberg, tested, unknown
from treeinner.score.passes import Centre, leaf_pass, node_gap, node_means, share_pass, total
from treeinner.score.result import Importance
from treeinner.score.spec import Spec, make_spec, scored_loss, start_of
from treeinner.score.sums import Sums
from treeinner.score.training_rows import training_rows_note

__all__ = ["change_of_models", "change_of_rows", "difference"]

Float = NDArray[np.float64]
LEAN_ROWS, LEAN_LEVELS = 500, 6  # with fewer rows and deeper trees node values are rough
LOSS, SIGNAL = "loss", "signal"
SIDES = ("before", "after")
# Of a feature that one of two models does not use.
NOTHING = {"score": 0.0, "std_error": 0.0, "df": 1.0, "p_value": 1.0, "holds": np.nan, "holds_std_error": np.nan}


# -- one model, two sets of rows ----------------------------------------------------------------------------------
def change_of_rows(
    model: Model,
    streams: Sequence[Stream],
    names: tuple[str, str],
    *,
    feature_groups: GroupSpec | None,
    n_jobs: int | None,
    progress: Progress | None,
) -> dict[str, Any]:
    """Fields of the Comparison of two sets of rows."""
    groups, parts = credit(model, streams[0].names, feature_groups, streams[0].head), _parts(progress, 9)

    def asked(score: str, side: int) -> Spec:
        return make_spec(model, groups, score=score, method="centred", clustered=streams[side].clustered)

    def run(work: Callable[..., Sums], score: str, side: int, *centre: Centre) -> Sums:
        options: dict[str, Any] = {"n_jobs": n_jobs, "progress": next(parts)}
        return total(work, model, asked(score, side), streams[side], *centre, **options)

    def own(score: str, side: int, leaf: Sums) -> Importance:
        """Importance with the node values of these rows themselves."""
        centre = node_means(model, asked(score, side), leaf)
        return conclude(model, asked(score, side), leaf, run(share_pass, score, side, centre), centre)

    leaves = [run(leaf_pass, LOSS, side) for side in (0, 1)]
    _check_sides(leaves, streams, names)
    before = own(LOSS, 0, leaves[0])
    assert before.node_values is not None
    # Nodes that no row of `before` reaches have the value of their parent.
    fixed = Centre(before.node_values[model.trees.forest.numbered])
    after = conclude(model, asked(LOSS, 1), leaves[1], run(share_pass, LOSS, 1, fixed), fixed)
    # The rows of `before` move the node values of both sides.
    gap = Centre(fixed.value, node_gap(model, asked(LOSS, 0), *leaves))
    moves, _ = statistics_of(run(share_pass, LOSS, 0, gap), model.n_outputs)
    found = {
        "before": before,
        "after": replace(after, node_values=before.node_values),
        "change": difference(replace(moves, score=before.scores), after.statistics),
        **{f"signal_{when}": own(SIGNAL, side, run(leaf_pass, SIGNAL, side)) for side, when in enumerate(SIDES)},
    }
    return found | {"notes": _notes(model, streams, names, found)}


def difference(a: Statistics, b: Statistics) -> Statistics:
    """Difference of the scores, a minus b, of two independent samples (Welch)."""
    score, var_a, var_b = a.score - b.score, a.std_error**2, b.std_error**2
    if not (np.isfinite(var_a).all() and np.isfinite(var_b).all()):
        return unknown(score)
    std_error = np.sqrt(var_a + var_b)
    weight = np.divide(var_a, var_a + var_b, out=np.zeros_like(var_a), where=std_error > 0)
    df = 1.0 / (weight**2 / np.maximum(a.df, 1.0) + (1.0 - weight) ** 2 / np.maximum(b.df, 1.0))
    return tested(score, std_error, df)


def _check_sides(leaves: Sequence[Sums], streams: Sequence[Stream], names: tuple[str, str]) -> None:
    """Raise unless both sides have the same columns, and rows of their own."""
    first, second = streams[0].names, streams[1].names
    if first is not None and second is not None and first != second:
        raise DataError(f"{names[0]}: X has the columns {listing(first)}, but {listing(second)} in {names[1]}.")
    for leaf in leaves:
        leaf.settle()
    a, b = leaves
    if a.rows == b.rows and all(np.array_equal(getattr(a, each), getattr(b, each)) for each in ("moved", "losses")):
        raise DataError(f"{names[0]} and {names[1]} are the same rows, so there is no change; pass two sets of rows.")


def _notes(model: Model, streams: Sequence[Stream], names: tuple[str, str], found: dict[str, Any]) -> tuple[Note, ...]:
    """What is said of both sides, then what is said of one."""
    sides: list[dict[Note, None]] = []
    for side, when in enumerate(SIDES):
        seen = training_rows_note(model, streams[side])
        if seen is not None and seen.code == "training_rows" and not side:
            text = "training rows are among these rows, so the change is overfitting too; pass held-out rows."
            seen = Note(seen.code, text, quiet=names[0] == "train")
        given = (seen, *streams[side].notes, *found[when].notes, *found[f"signal_{when}"].notes)
        sides.append(dict.fromkeys(note for note in given if note is not None))
    notes = [note for note in sides[0] if note in sides[1]]
    for name, own in zip(names, sides, strict=True):
        notes += [replace(note, text=f"{name}: {note.text}") for note in own if note not in notes]
    if found["before"].n_rows < LEAN_ROWS and len(model.trees.upwards) > LEAN_LEVELS:
        text = f"{names[0]} has under {LEAN_ROWS} rows and trees are deep: noise leans towards paying more now."
        notes.append(Note("few_before", text, quiet=True))
    return tuple(notes)


# -- two models, the same rows ------------------------------------------------------------------------------------
def change_of_models(
    models: Sequence[Model],
    streams: Sequence[Stream],
    *,
    feature_groups: GroupSpec | None,
    n_jobs: int | None,
    progress: Progress | None,
) -> dict[str, Any]:
    """Fields of the Comparison of two models on the same rows in memory; streams: the rows as each model reads them."""
    (rows,), (others,) = streams
    _check_metric(models, (rows, others))
    parts, shares, found = _parts(progress, 8), [], {}
    for model, stream, when in zip(models, streams, SIDES, strict=True):
        groups = credit(model, stream.names, feature_groups, stream.head)
        kept = np.zeros((1, rows.n_rows, len(groups.names), model.n_outputs))
        for score, name, keep in ((LOSS, when, kept), (SIGNAL, f"signal_{when}", None)):
            spec = make_spec(model, groups, score=score, method="centred", clustered=stream.clustered)
            leaf = total(leaf_pass, model, spec, stream, n_jobs=n_jobs, progress=next(parts))
            centre = node_means(model, spec, leaf)
            share = total(share_pass, model, spec, stream, centre, keep=keep, n_jobs=n_jobs, progress=next(parts))
            found[name] = conclude(model, spec, leaf, share, centre)
        shares.append(kept[0].sum(axis=2))
    names = all_names([found[when] for when in SIDES])
    paired = np.zeros((rows.n_rows, len(names)))
    for when, share, sign in zip(SIDES, shares, (1.0, -1.0), strict=True):
        paired[:, [names.index(name) for name in found[when].feature_names]] += sign * share
    found = {when: _of_names(imp, names) for when, imp in found.items()}
    error, _ = statistics_of(Sums.of_shares(paired, rows.weight, rows.clusters), 1)
    change = found["before"].scores - found["after"].scores
    notes = dict.fromkeys(note for imp in found.values() for note in imp.notes)
    seen = dict.fromkeys(map(training_rows_note, models, streams))
    return found | {
        "change": tested(change, error.std_error, error.df),
        "notes": tuple(note for note in (*seen, *streams[0].notes, *notes) if note is not None),
    }


def _check_metric(models: Sequence[Model], sides: Sequence[Rows]) -> None:
    """Raise unless both models are measured by the same loss, on the same targets and weights."""
    (a, b), (x, y) = (scored_loss(model, LOSS) for model in models), sides
    if models[0].n_outputs != models[1].n_outputs:
        why = f"they have {models[0].n_outputs} and {models[1].n_outputs} outputs"
    elif x.y.shape != y.y.shape or not np.allclose(x.y, y.y):
        why = "they code the targets in different ways"
    elif not np.array_equal(_weight(x), _weight(y)):
        why = "they weight classes in different ways"
    else:
        start = x.start + start_of(models[0], LOSS)
        margins = start, start + np.linspace(0.1, 0.5, start.shape[1])
        if all(np.allclose(a.losses(x.y, margin), b.losses(y.y, margin), rtol=1e-6) for margin in margins):
            return
        why = "losses differ"
    raise UnsupportedModelError(
        f"The models are not measured alike ({why}): {a.words or a.name}, and {b.words or b.name}. Give both one loss: "
        "ti.read_model(model, objective=...)."
    )


def _weight(rows: Rows) -> Float:
    """Weights of the rows, class weights in them."""
    return np.ones(rows.n_rows) if rows.weight is None else np.ldexp(rows.weight, rows.weight_exponent)


def _of_names(imp: Importance, names: tuple[str, ...]) -> Importance:
    """The same scores among those of more features, which the model does not use."""
    place = [names.index(name) for name in imp.feature_names]

    def spread(part: Statistics | None) -> Statistics | None:
        if part is None:
            return None
        held: dict[str, Any] = {}
        for name, nothing in NOTHING.items():
            if (array := getattr(part, name)) is not None:
                held[name] = np.full((len(names), *array.shape[1:]), nothing)
                held[name][place] = array
        return Statistics(**held, q_value=benjamini_hochberg(held["p_value"]))

    rounds = np.zeros((len(imp.by_round()), len(names)))
    rounds[:, place] = imp.by_round()
    whole = spread(imp.statistics)
    assert whole is not None
    return replace(imp, feature_names=names, statistics=whole, outputs=spread(imp.outputs), rounds=rounds)


def _parts(progress: Progress | None, n: int) -> Iterator[Progress | None]:
    """Progress of each of n passes, in thousandths of a pass."""
    if progress is None:
        return repeat(None)
    return (partial(lambda k, done, rows: progress(1000 * k + 1000 * done // rows, 1000 * n), k) for k in range(n))
