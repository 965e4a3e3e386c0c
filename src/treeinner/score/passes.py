"""Once over the rows: leaf sums (pass 1), shares of the rows (pass 2).

The trees of a round were fitted to the gradients at the margin before it. So rows carry their margin along: take the
gradients, let the trees of the round give their attributions, add their leaf values, go on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from threading import get_ident
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError
from treeinner.kernels import BLOCK, PlayerSums, Progress, aligned, map_rows, padded_rows, task_rows
from treeinner.kernels import LOSSES as CORE_LOSSES
from treeinner.kernels.rows import Room, zeros
from treeinner.kernels.units import FOURTH_LIMBS, GRADIENT_BITS, LIMBS, WEIGHT_BITS, carry
from treeinner.losses import Loss, forest_error
from treeinner.read import Model
from treeinner.read.methods import node_values
from treeinner.rows import Rows
from treeinner.score.signal import by_names, holds_terms, own_effect, players_by_round, without_history
from treeinner.score.spec import Spec, largest_steps, scored_loss, start_of, step_rule
from treeinner.score.sums import LOSSES, MOST_AT_ONCE, NoRoomError, Sums, exact_sums

__all__ = ["Centre", "Task", "leaf_pass", "node_gap", "node_means", "open_task", "share_pass", "total"]

Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Centre:
    """Node values of a path attribution, in the core's order of the nodes: (nodes, width) each.

    residual None: the values are fixed, and on the way to a child a row adds (c' - c) g. Else the values were estimated
    on these very rows, and a row adds (c' - c)(g - m) + (m' - m)(l - c').
    """

    value: Float
    residual: Float | None = None

    @cached_property
    def digest(self) -> str:
        """Hash of values that were estimated on rows, which sums of a second pass depend on; "" of stored ones."""
        hashed = hashlib.sha256(self.value.tobytes())
        return "" if self.residual is None else hashlib.sha256(hashed.digest() + self.residual.tobytes()).hexdigest()


# Node values as the core takes them, for all batches: by the core's forest, and whether a row's effects have a history;
# and the node values taken as fixed.
TABLES: WeakKeyDictionary[Centre, dict[Any, Any]] = WeakKeyDictionary()
# Binned rows, by forest and task, for a second pass: so many codes at most, so that memory does not grow with rows.
CODES: WeakKeyDictionary[Rows, dict[Any, Any]] = WeakKeyDictionary()
KEPT_CODES = 2**25


def leaf_pass(
    model: Model, spec: Spec, rows: Rows, *, n_jobs: int | None = -1, progress: Progress | None = None
) -> Sums:
    """Residual and weight sums of the leaves, losses and margins."""
    return _run(_Pass(model, spec, leaves=True), rows, n_jobs, progress)


def share_pass(
    model: Model,
    spec: Spec,
    rows: Rows,
    centre: Centre | None,
    *,
    leaves: bool = False,
    keep: Float | None = None,
    n_jobs: int | None = -1,
    progress: Progress | None = None,
) -> Sums:
    """Every row's share: sums, squares, fourth powers, clusters; and those of segments, with node values as fixed.

    centre None: TreeSHAP. leaves: what `leaf_pass` sums in the same pass, where node values are known before it.
    keep: (1, rows, names, outputs), filled with the shares; of the signal score (3, ...), with the terms of `holds`.
    """
    beside = None
    if spec.segmented:
        beside = _Pass(model, spec, centre=_fixed(model, spec, centre), shares=True, by_segment=True)
    work = _Pass(model, spec, centre=centre, leaves=leaves, shares=True, keep=keep, beside=beside)
    return _run(work, rows, n_jobs, progress)


def total(
    work: Callable[..., Sums],
    model: Model,
    spec: Spec,
    stream: Iterable[Rows],
    *args: Any,
    progress: Progress | None = None,
    **options: Any,
) -> Sums:
    """Sum of `work` over the rows of a stream; progress is called with the rows done, and those known so far."""
    if not hasattr(stream, "__iter__"):  # rows of a cluster, summed where they are
        return cast(Sums, cast(Any, stream).total(work, model, spec, *args, **options))
    found: Sums | None = None
    for rows in stream:
        heard = None if progress is None else partial(_after, progress, 0 if found is None else found.rows)
        part = work(model, spec, rows, *args, progress=heard, **options)
        found = part if found is None else found + part
    if found is None or found.rows == 0:
        raise DataError("There are no rows to score; pass at least one row of X and y.")
    return found


def _after(progress: Progress, before: int, done: int, n: int) -> None:
    """Tell the progress of rows that come after others."""
    progress(before + done, before + n)


def node_means(model: Model, spec: Spec, leaf: Sums | None) -> Centre:
    """Node values: means of leaf values and residuals over the rows that were summed; stored ones of other methods."""
    trees, forest = model.trees, model.trees.forest
    if spec.method != "centred":
        fixed = f"centre, {spec.method}"
        if fixed not in forest.cache:
            forest.cache[fixed] = Centre(node_values(model, spec.method)[forest.numbered])
        return cast(Centre, forest.cache[fixed])
    assert leaf is not None
    sums, weights, _ = leaf.leaf_sums()
    value, residual = trees.value[forest.numbered], np.zeros((trees.n_nodes, trees.width))
    forest.core.centre_values(weights, value)
    unit = 2.0 ** (spec.scale_bits - GRADIENT_BITS + WEIGHT_BITS)
    of_leaf = np.divide(sums, weights, out=np.zeros(sums.shape), where=weights > 0)
    residual[trees.column[forest.numbered] < 0] = of_leaf * unit
    forest.core.centre_values(weights, residual)
    return Centre(value, residual)


def _fixed(model: Model, spec: Spec, centre: Centre | None) -> Centre | None:
    """Node values taken as fixed.

    The level is no feature's signal, and a forest's trees all begin at 0: there, residuals less their mean.
    """
    if centre is None or centre.residual is None:
        return centre
    tables, trees = TABLES.setdefault(centre, {}), model.trees
    if "fixed" not in tables:
        less_mean = spec.score == "signal" or (trees.averaged and spec.score != "loss")
        root = centre.residual[trees.start[:-1]][trees.tree_of_node]
        tables["fixed"] = Centre(centre.value, np.zeros_like(root) if less_mean else -root)
    return cast(Centre, tables["fixed"])


def node_gap(model: Model, spec: Spec, a: Sums, b: Sums) -> Float:
    """Mean residual of a in every node less that of b, over a's share of the rows in it; core order, (nodes, width).

    Where the means of a's rows are the node values of b's rows too, it is what a change of these means does to the
    difference of the scores: the `residual` of the `Centre` for the error of that difference. 0 where a has no rows.
    """
    trees, forest = model.trees, model.trees.forest
    gap, reached = np.zeros((2, trees.n_nodes, trees.width))
    for side, sign in ((a, 1.0), (b, -1.0)):
        sums, weights, bits = side.leaf_sums()
        unit = spec.gradient_unit * 2.0**bits / side.sum_of_weights()
        gap[forest.leaf_nodes] += sign * unit * sums
        if side is a:
            reached[forest.leaf_nodes] = weights * (2.0 ** (bits - WEIGHT_BITS) / side.sum_of_weights())
    for node, left, right in trees.upwards:
        gap[node], reached[node] = gap[left] + gap[right], reached[left] + reached[right]
    return np.divide(gap, reached, out=np.zeros_like(gap), where=reached > 0)[forest.numbered]


# -- what a pass needs, and what a thread collects --------------------------------------------------------------
@dataclass(eq=False)
class _Pass:
    """What one pass sums, prepared before the threads start."""

    model: Model
    spec: Spec
    centre: Centre | None = None
    leaves: bool = False  # sums of the leaves, losses and margins
    shares: bool = False
    keep: Float | None = None
    by_segment: bool = False  # sums of the shares and losses of each segment, not of all rows
    beside: _Pass | None = None  # that, in the same walk: its residuals are counted from the means of this one

    def __post_init__(self) -> None:
        trees, spec, centre = self.model.trees, self.spec, self.centre
        self.key = spec.key(self.model) + ("" if centre is None else centre.digest)
        self.credit, self.signal = spec.credit, self.shares and spec.score == "signal"
        if self.signal:
            self.model, self.credit = by_names(self.model, spec.credit)
            trees = self.model.trees
        self.loss: Loss = scored_loss(self.model, spec.score)
        self.start = start_of(self.model, spec.score)
        self.steps = largest_steps(self.model, spec.score) if spec.score == "loss" else None
        self.rule: Any = None
        if self.steps is not None and self.loss.core is not None:
            self.rule = step_rule(*self.loss.core[:2], self.steps)
        self.sums_leaves = self.leaves and spec.by_path
        scale = 2.0 ** (GRADIENT_BITS - spec.scale_bits)
        self.scale, self.paths, self.root, self.round_residual = scale, None, None, None
        self.in_core = self.loss.core is not None
        self.history = not self.signal or not without_history(self.model, self.credit, self.loss)
        self.steps_of: Any = None  # path table of a round's contributions
        if not self.shares:
            return
        if centre is None:
            trees.forest.shap_table()
            return
        core, value, residual = trees.forest.core, centre.value, centre.residual
        tables, kind = TABLES.setdefault(centre, {}), (core, self.history, self.beside is None)
        if kind not in tables and residual is None:
            tables[kind] = core.path_table(value, True)
        elif residual is not None and kind not in tables:
            counted = residual if self.by_segment else residual - residual[trees.start[:-1]][trees.tree_of_node]
            fixed = None if self.beside is None else self.beside.paths
            tables[kind] = core.share_table(value, counted, scale, not self.history, fixed)
        self.paths = tables[kind]
        self.in_core = self.loss.core is not None and (not self.signal or self.credit.places is not None)
        if self.signal and not self.in_core:
            self.steps_of = core.path_table(value, False)
        if residual is not None:
            self.root = residual[trees.start[:-1]]  # mean residual of all rows by tree: (trees, width)
            # By round and output: trees of a round see the same rows and gradients.
            self.round_residual = np.zeros((trees.n_rounds, trees.n_outputs))
            for column in range(trees.width):
                self.round_residual[trees.round, trees.output + column] = self.root[:, column]


def _no_sums(work: _Pass, clusters: NDArray[Any] | None, segments: int = 0) -> Sums:
    """Sums of no rows, which one thread adds to; clusters: their labels; by segment, with a place for each."""
    trees, spec = work.model.trees, work.spec
    shape, groups = (2, len(trees.forest.leaf_nodes), trees.width), (segments,) if work.by_segment else ()
    columns = len(spec.credit.names) * (1 if work.by_segment else trees.n_outputs + (trees.n_outputs > 1))
    out = Sums(key=work.key, exponent=spec.exponent, moved=np.zeros((trees.n_outputs, LIMBS), np.int64))
    if work.sums_leaves:
        out.integers, out.leaf = np.zeros(shape, np.int64), np.zeros((*shape, 2), np.int64)
    if work.leaves or work.by_segment:
        out.losses = np.zeros((*groups, len(LOSSES), LIMBS), np.int64)
    if work.shares:
        out.shares = np.zeros((2, *groups, columns, LIMBS), np.int64)
        out.fourths = np.zeros((*groups, columns, FOURTH_LIMBS), np.int64)
        if clusters is not None:
            out.labels = clusters
            out.clusters = np.zeros((len(clusters), columns * (3 if work.signal else 1), LIMBS), np.int64)
    return out


@dataclass(eq=False)
class Task:
    """At most 4,096 rows of one thread's turn, binned, with their margins and shares so far."""

    work: _Pass
    rows: Rows
    here: slice
    sums: Sums  # of the thread
    room: Room = field(default_factory=dict)  # of the thread, where its tasks come one after the other

    def __post_init__(self) -> None:
        forest, work, room = self.work.model.trees.forest, self.work, self.room
        self.n = n = self.here.stop - self.here.start
        key, kept = (forest, self.here.start, self.here.stop), CODES.setdefault(self.rows, {})
        self.codes = kept.get(key) or forest.bin(self.rows.table.block(*key[1:]))
        if self.here.stop * forest.n_planes <= KEPT_CODES:
            kept[key] = self.codes
        self.start = self.rows.start[self.here] + work.start
        self.margin = zeros(room, "margin", (forest.n_outputs, padded_rows(n)))
        self.margin[:, :n] = self.start.T
        self.residual = zeros(room, "residual", self.margin.shape)  # minus the gradient; 0 behind the last row
        self.step = zeros(room, "step", self.margin.shape)  # of the round
        self.players = self.fixed = PlayerSums(forest, n if work.shares else 0, work.paths, room, "players")
        if work.beside is not None and work.root is not None:
            self.fixed = PlayerSums(forest, n, work.beside.paths, room, "fixed")
        # Contributions so far, and what putting them back adds to the shares: (rows, outputs, players or names).
        places = len(work.credit.names) if work.credit.places is None else forest.n_players
        shape = (n if work.signal else 0, forest.n_outputs, places)
        self.effects = zeros(room, "effects", (2 if work.history else 1, *shape))
        self.without = zeros(room, "without", (2, *shape))  # terms of `holds`
        self.terms: tuple[Float, ...] = ()  # what was put back, and these, by names: (rows, names, outputs) each
        self.fall = np.zeros(n)  # of the loss, over the rounds: step times residual
        self.first_order = np.zeros(n)  # the same with the residuals at the start of each step
        self.weight = None if self.rows.weight is None else self.rows.weight[self.here]
        self.y = self.rows.y[self.here]
        # Numbers of the rows, the last repeated up to full blocks: numpy adds the outputs of a single row in another
        # order than those of many, and full blocks make the gradient of a row the same bits wherever it stands.
        self.padded = np.minimum(np.arange(padded_rows(n)), n - 1)
        # Weights as they were given: (padded rows,), and (rows,).
        exponent = self.rows.weight_exponent
        self.given_weight = None if self.weight is None else np.ldexp(self.weight[self.padded], exponent)
        self.rows_weight = None if self.given_weight is None else self.given_weight[:n]

    def padded_margins(self) -> Float:
        """Margins so far, the last row repeated up to full blocks: (padded rows, outputs)."""
        self.margin[:, self.n :] = self.margin[:, self.n - 1 : self.n]
        return self.margin.T

    def core_target(self) -> tuple[int, float, Float, Float | None]:
        """Number of the loss in the core and its scale, y as it takes it, (columns, rows), and weights, (rows,)."""
        loss = self.work.loss
        assert loss.core is not None
        kind, scale, encode = loss.core
        y = np.asarray(self.y, np.float64).reshape(self.n, -1)
        target = y if encode is None else encode(y)
        return CORE_LOSSES[kind], scale, np.ascontiguousarray(target.T), loss.total_weight(y, self.weight)

    def in_units(self, values: Float) -> Float:
        """What was worked out with weights as given, in the units in which weights are summed."""
        return np.ldexp(values, -self.rows.weight_exponent) if self.rows.weight_exponent else values


def open_task(model: Model, spec: Spec, rows: Rows, start: int, stop: int) -> Task:
    """Rows start..stop, binned, at their margins before the first round; for walks of their own, such as redraws."""
    work = _Pass(model, spec)
    return Task(work, rows, slice(start, stop), _no_sums(work, None))


# -- tasks over threads ---------------------------------------------------------------------------------------
def _run(work: _Pass, rows: Rows, n_jobs: int | None, progress: Progress | None, most: int = MOST_AT_ONCE) -> Sums:
    """Sums over all rows; most: rows of a task."""
    forest, n = work.model.trees.forest, rows.n_rows
    step, (clusters, cluster, pairs, pair) = min(task_rows(forest, rows.table), most), (None,) * 4
    one = work.loss.scope == "row"  # a task at a time
    segments = rows.segment if work.beside is not None else None
    if work.spec.clustered and work.shares:
        clusters, cluster = _groups(rows.clusters, rows.weight)
        if segments is not None:
            pairs, pair = _groups(cluster * len(segments[1]) + segments[0], rows.weight)
    by_thread: dict[int, tuple[Room, list[Sums]]] = {}

    def walk(*first: int) -> None:
        room, own = by_thread.setdefault(get_ident(), ({}, []))
        if not own:
            own.append(_no_sums(work, clusters))
            if work.beside is not None and segments is not None:
                own.append(_no_sums(work.beside, pairs, len(segments[1])))
        tasks = [Task(work, rows, slice(at, min(at + step, n)), own[0], room if one else {}) for at in first]
        if one:
            _through_rounds(tasks[0])
        else:
            _together(tasks, rows)
        for task in tasks:
            _finish(task, cluster)
            if work.beside is not None:
                task.work, task.sums, task.players = work.beside, own[1], task.fixed
                _finish(task, pair)

    try:
        if one:
            for _ in map_rows(n, step, lambda start, _: walk(start), n_jobs=n_jobs, progress=progress):
                pass
        else:  # the gradient of a row looks at other rows: all of them go through the rounds together
            walk(*range(0, n, step))
    except NoRoomError:
        if step <= BLOCK:
            raise
        return _run(work, rows, n_jobs, progress, BLOCK)
    found = [own for _, own in by_thread.values()]
    done = [_about(rows, sum(parts[1:], start=parts[0])) for parts in zip(*found, strict=True)]
    if segments is not None:
        if done[0].signal is None and done[1].signal is not None:  # they are the same with fixed node values
            done[0].signal = done[1].signal.sum(axis=1)
        done[0].segments = _split(done[1], rows, clusters)
    return done[0]


def _groups(labels: Any, weight: Float | None) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Labels of groups of rows, ascending, and the number of each row's group; a row of weight 0 makes no group."""
    found = np.unique(labels if weight is None else labels[weight > 0])
    return found, np.minimum(np.searchsorted(found, labels), len(found) - 1)


def _split(own: Sums, rows: Rows, clusters: NDArray[Any] | None) -> dict[str, Sums]:
    """Sums of every segment; own: of all of them, whose labels are those of pairs of cluster and segment."""
    assert rows.segment is not None
    (segment, names), weight = rows.segment, rows.weight
    counted = np.ones(len(segment)) if weight is None else weight
    own.settle()  # of all segments together, which is quicker
    order, limbs = np.argsort(segment, kind="stable"), np.zeros((2, len(names), 1, LIMBS), np.int64)
    exact_sums(counted[order, None], 0, *limbs, group=segment[order])
    carry(limbs)
    n_rows, units = (np.bincount(each, minlength=len(names)).tolist() for each in (segment, segment[counted > 0]))
    out = {}
    for s in np.flatnonzero(units).tolist():
        part = out[names[s]] = replace(own, rows=n_rows[s], units=units[s], weight=limbs[:, s], moved=None)
        for each in ("shares", "fourths", "signal", "losses"):
            held = getattr(own, each)
            setattr(part, each, held if held is None else held[s] if each in ("fourths", "losses") else held[:, s])
        if clusters is not None and own.labels is not None and own.clusters is not None:
            mine = own.labels % len(names) == s
            part.labels, part.clusters = clusters[own.labels[mine] // len(names)], own.clusters[mine]
    return out


def _about(rows: Rows, out: Sums) -> Sums:
    """Sums with what is known of the rows as a whole."""
    weight = rows.weight
    out.rows, out.units = rows.n_rows, rows.n_rows if weight is None else int(np.count_nonzero(weight))
    exact_sums(np.ones((rows.n_rows, 1)) if weight is None else weight[:, None], 0, *out.weight)
    out.weight_exponent = rows.weight_exponent
    out.queries = frozenset(() if rows.query is None else np.unique(rows.query).tolist())
    if out.units:
        y = rows.y if weight is None else rows.y[weight > 0]
        out.targets = (y.min(), y.max()) if y.dtype.kind in "biuf" else (np.nan, np.nan)
    out.names, out.target_names, out.frame_library = rows.names, rows.target_names, rows.frame_library
    out.tree_counts = None if rows.tree_weight is None else rows.tree_weight.max(axis=1)
    return out


# -- one task through the rounds --------------------------------------------------------------------------------
def _through_rounds(task: Task) -> None:
    """Take the rows of a task through all rounds; the gradient of a row needs that row alone."""
    work, loss = task.work, task.work.loss
    if work.in_core and work.spec.by_path and task.rows.tree_weight is None:
        _in_core(task)
        return
    y, weight, core = task.y[task.padded], task.given_weight, work.model.trees.forest.core
    target = None if loss.core is None else task.core_target()
    for number in range(work.model.trees.n_rounds):
        if target is not None:
            core.residuals(task.codes, *target, task.margin, task.residual)
        if target is None or not np.isfinite(task.residual.sum()):  # the loss says what is wrong
            _take(task, loss.gradients(y, task.padded_margins(), weight=weight)[: task.n])
        step = _step(task, number)
        if work.steps is not None:
            task.first_order += _times_residual(task, step)
            mean = loss.mean_gradients(y, task.padded_margins(), step.T, weight=weight, largest=work.steps[number])
            _take(task, mean[: task.n])
        if work.signal:
            _add_effects([task], number, task.y, task.margin[:, : task.n].T, task.rows_weight, None)
        _score_round(task, number, step)


def _together(tasks: Sequence[Task], rows: Rows) -> None:
    """Take tasks through all rounds together: the gradient of a row needs other rows too."""
    work = tasks[0].work
    weight = None if rows.weight is None else np.ldexp(rows.weight, rows.weight_exponent)
    for number in range(work.model.trees.n_rounds):
        margin = np.concatenate([task.margin[:, : task.n].T for task in tasks])
        gradient = work.loss.gradients(rows.y, margin, weight=weight, query=rows.query)
        if work.signal:
            _add_effects(tasks, number, rows.y, margin, weight, rows.query)
        for task in tasks:
            _take(task, gradient[task.here])
            _score_round(task, number, _step(task, number))
    if work.signal:  # the terms of `holds` need all rows too
        margin = np.concatenate([task.margin[:, : task.n].T for task in tasks])
        effect = np.concatenate([task.effects[0] for task in tasks])
        terms = np.empty((2, *effect.shape))
        holds_terms(work.loss, rows.y, margin, effect, weight, rows.query, out=terms)
        for task in tasks:
            task.without[:] = terms[:, task.here]


def _in_core(task: Task) -> None:
    """All rounds in one call of the core."""
    work, forest = task.work, task.work.model.trees.forest
    largest, sums, weights = np.zeros(padded_rows(task.n)), task.sums.integers, fixed_point(task.weight, task.n)
    kind, loss_scale, target, weight = task.core_target()
    first_order = task.first_order if work.leaves else np.zeros(0)
    forest.core.boost(
        task.codes,
        kind,
        loss_scale,
        work.model.trees.first_trees,
        target,
        weight,
        task.margin,
        work.scale,
        None if sums is None else sums[0],
        largest,
        None if sums is None else weights,
        None if sums is None else sums[1],
        work.paths,
        task.players.players() if work.shares else np.zeros((0, forest.n_outputs, forest.n_players)),
        work.round_residual,
        None if work.root is None else task.weight,
        None if work.rule is None else (*work.rule, first_order),
        (task.effects[0], task.effects[1] if work.history else None) if work.signal else None,
        None if task.fixed is task.players else (task.fixed.paths, task.fixed.players()),
    )
    task.sums.added(float(np.maximum(largest[: task.n], weights).sum()))


def _take(task: Task, gradient: Float) -> None:
    """Take the gradients of a round, (rows, outputs), with weights as given."""
    np.negative(task.in_units(gradient).T, out=task.residual[:, : task.n])


def _step(task: Task, number: int) -> Float:
    """What a round adds to the margins: (outputs, padded rows)."""
    trees = task.work.model.trees
    first, stop = trees.first_trees[number : number + 2].tolist()
    step = task.step
    step[:] = -task.work.start[:, None]
    trees.forest.core.margins(task.codes, first, stop - first, step)
    step[:, task.n :] = step[:, task.n - 1 : task.n]
    return step


def _times_residual(task: Task, step: Float) -> Float:
    """Fall of the loss in a step by the gradients taken: (rows,)."""
    return np.asarray((step * task.residual).sum(axis=0)[: task.n])


def _score_round(task: Task, number: int, step: Float) -> None:
    """Let the trees of one round score the rows by the gradients taken, then move on."""
    work, trees = task.work, task.work.model.trees
    first, stop = trees.first_trees[number : number + 2].tolist()
    shares = task.rows.tree_weight
    for tree in range(first, stop if shares is not None else first + 1):
        n_trees = 1 if shares is not None else stop - first
        residual, weight = task.residual, task.weight
        if shares is not None:
            part = shares[tree, task.here]
            residual = aligned(task.residual.shape)
            residual[:, : task.n] = task.residual[:, : task.n] * part
            weight = part if weight is None else weight * part
        if work.sums_leaves:
            _add_to_leaves(task, tree, n_trees, residual, weight)
        if work.shares:
            centred = residual if work.root is None else _less_mean(task, tree, n_trees, residual, weight)
            for each in {id(sums): sums for sums in (task.players, task.fixed)}.values():
                each.add(task.codes, tree, n_trees, centred, None if work.root is None else weight)
    task.fall += _times_residual(task, step)
    task.margin += step


def _add_effects(tasks: Sequence[Task], number: int, y: Any, margin: Float, weight: Float | None, query: Any) -> None:
    """Put the players' own effects before a round back, and add those of the round."""
    work, trees = tasks[0].work, tasks[0].work.model.trees
    first, stop = trees.first_trees[number : number + 2].tolist()
    used: Any = players_by_round(work.model)[number] if work.credit.places is not None else slice(None)
    steps = []
    for task in tasks:
        step = np.zeros((task.n, trees.n_outputs, trees.forest.n_players))
        trees.forest.core.path(task.codes, first, stop - first, work.steps_of, None, step, None)
        steps.append(step if work.credit.places is not None else work.credit.add_up(step, axis=2))
    if number:  # nothing came before the first round
        before = np.concatenate([task.effects[0][:, :, used] for task in tasks])
        moved = np.concatenate([step[:, :, used] for step in steps])
        own = own_effect(work.loss, y, margin, moved, before, weight, query)
        for task, part in zip(tasks, np.split(own, np.cumsum([task.n for task in tasks[:-1]])), strict=True):
            task.effects[1][:, :, used] += task.in_units(part)
    for task, step in zip(tasks, steps, strict=True):
        task.effects[0][:, :, used] += step[:, :, used]


def _less_mean(task: Task, tree: int, n_trees: int, residual: Float, weight: Float | None) -> Float:
    """Residuals counted from their mean over all rows, as some trees have it."""
    work, trees = task.work, task.work.model.trees
    assert work.root is not None
    mean = np.zeros(trees.n_outputs)
    for each in range(tree, tree + n_trees):
        mean[trees.output[each] : trees.output[each] + trees.width] = work.root[each]
    out = aligned(residual.shape)
    out[:, : task.n] = residual[:, : task.n] - mean[:, None] * (1.0 if weight is None else weight)
    return out


def _add_to_leaves(task: Task, tree: int, n_trees: int, residual: Float, weight: Float | None) -> None:
    """Add gradients and weights to the leaves of some trees."""
    core, integers = task.work.model.trees.forest.core, task.sums.integers
    assert integers is not None
    with np.errstate(over="ignore"):  # infinite is refused
        fixed = np.rint(residual * task.work.scale)
    counted = np.zeros(task.margin.shape, np.int64)
    counted[:, : task.n] = fixed_point(weight, task.n)
    task.sums.added(float(np.maximum(np.abs(fixed).max(axis=0), counted[0]).sum()))
    core.leaf_sums(task.codes, tree, n_trees, fixed.astype(np.int64), integers[0])
    core.leaf_sums(task.codes, tree, n_trees, counted, integers[1])


def fixed_point(weight: Float | None, n: int) -> NDArray[np.int64]:
    """Weights of n rows as integers: (rows,)."""
    return np.rint((np.ones(n) if weight is None else weight) * 2.0**WEIGHT_BITS).astype(np.int64)


# -- after the last round -------------------------------------------------------------------------------------
def _finish(task: Task, cluster: NDArray[np.intp] | None) -> None:
    """Add what the rows give to the sums of their thread; cluster: of every row, or pair of cluster and segment."""
    work, sums, n, exponent = task.work, task.sums, task.n, task.work.spec.exponent
    sums.uncarried += n
    if sums.uncarried >= MOST_AT_ONCE:
        sums.settle()
    scores = group = order = None
    if work.by_segment and task.rows.segment is not None:
        segment = task.rows.segment[0][task.here]
        order = np.argsort(segment, kind="stable")  # one segment after the other is quicker to add
        group = segment[order]
    if work.shares:
        scores = work.credit.add_up(task.players.players(), axis=2).transpose(0, 2, 1)  # (rows, names, outputs)
        if work.signal:
            task.terms = task.terms or _signal_terms(task)
            scores += task.terms[0]
        for kept, each in zip(() if work.keep is None else work.keep, (scores, *task.terms[1:]), strict=False):
            kept[task.here] = each
        assert sums.shares is not None
        n_columns = sums.shares.shape[-2]  # by segment those of the totals alone, which come last
        columns, *own = (share_columns(each)[:, -n_columns:] for each in (scores, *task.terms))
        exact_sums(columns, exponent, *sums.shares, sums.fourths, group=group, order=order)
        if own and (work.beside is None or scores.shape[2] > 1):  # else those of all segments together
            sums.add_signal(own, group, order)
        if cluster is not None and sums.clusters is not None:
            here = np.arange(n) if order is None else order
            here = here if task.weight is None else here[task.weight[here] > 0]
            columns = np.concatenate([columns, *own[1:]], axis=1)
            exact_sums(columns, exponent, sums.clusters, group=cluster[task.here][here], order=here)
    if sums.losses is not None:
        whole = None if scores is None or work.by_segment else scores.sum(axis=(1, 2))
        exact_sums(_losses_of(task, whole), exponent, sums.losses, group=group, order=order)
    # In units of the leaf values: the exponent is that of values times gradients.
    exact_sums(np.ldexp(task.margin[:, :n].T - task.start, work.spec.scale_bits), exponent, sums.moved)


def _signal_terms(task: Task) -> tuple[Float, ...]:
    """What was put back, and the terms of `holds`, weights in them: (rows, names, outputs) each."""
    work = task.work
    if work.loss.scope == "row":
        loss, margin = forest_error(work.loss) if work.model.trees.averaged else work.loss, task.margin[:, : task.n].T
        holds_terms(loss, task.y, margin, task.effects[0], task.rows_weight, None, out=task.without)
    without, whole = map(task.in_units, task.without)
    if not work.history:  # the contributions themselves are not needed any more
        np.multiply(np.subtract(without, whole, out=task.effects[0]), 0.5, out=task.effects[0])
    named = [task.effects[-1], without, whole]
    if work.credit.places is not None:
        named = [work.credit.add_up(each, axis=2) for each in named]
    return tuple(each.transpose(0, 2, 1) for each in named)


def share_columns(scores: Float) -> Float:
    """Shares (rows, names, outputs) as columns: (name, output) pairs, then the total of each name if K > 1."""
    if scores.shape[2] == 1:
        return scores[:, :, 0]
    return np.concatenate([scores.reshape(len(scores), -1), scores.sum(axis=2)], axis=1)


def _losses_of(task: Task, scores: Float | None) -> Float:
    """Losses of the rows by LOSSES: (rows, 6); scores: what their shares in all features add up to."""
    work, loss, n = task.work, task.work.loss, task.n
    known = {"first_order": task.fall if work.steps is None else task.first_order}
    if not work.sums_leaves and scores is not None:
        known["base"] = task.fall - scores
    if knows_loss(work.model, work.spec, loss):
        rows, weight = task.padded, task.given_weight  # full blocks, for the same reason as gradients
        for name, margin in {"before": task.start[rows], "after": task.padded_margins()}.items():
            known[name] = task.in_units(loss.losses(task.y[rows], margin, weight=weight)[:n])
        least = loss.least_losses(task.y[rows], weight=weight)
        if least is not None:
            least = task.in_units(least[:n])
            bounded = np.isfinite(least)
            counts = True if task.weight is None else task.weight > 0
            known |= {"least": np.where(bounded, least, 0.0), "unbounded": (~bounded & counts).astype(np.float64)}
    values = np.zeros((n, len(LOSSES)))
    for name, each in known.items():
        values[:, LOSSES.index(name)] = each
    return values


def knows_loss(model: Model, spec: Spec, loss: Loss) -> bool:
    """Whether every row has a loss that the rounds lower. The trees of a forest do so each on its own."""
    return loss.value is not None and loss.scope == "row" and (spec.score == "loss" or not model.trees.averaged)
