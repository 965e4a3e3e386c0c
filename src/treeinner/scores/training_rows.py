"""Training rows among rows that were to be held out.

Two sets of rows are compared by a hash of each row (`copies`). One set alone is compared with what the model keeps of
its training rows (`traces`): thresholds are values of these rows, covers and gains are sums over them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble import Ensemble
from treeinner.errors import TreeInnerError, counted
from treeinner.model import Model, open_model
from treeinner.options import ReadOptions
from treeinner.scores.accumulator import ImportanceAccumulator
from treeinner.scores.batch import Batch, read_batch
from treeinner.scores.gain import stored_gains
from treeinner.tables import Table
from treeinner.tables.columns import listing

__all__ = ["Copies", "Search", "TrainingRows", "copies", "find_training_rows", "traces", "training_rows_note"]

FloatArray = NDArray[np.float64]
HashArray = NDArray[np.uint64]

CURE = "Score rows that the model has not seen: on training rows noise looks like signal."
HASHED_ROWS = 8192  # at a time: a column of hashes stays in the cache
CLEARLY = 5.0  # standard errors; with new rows of seven discrete kinds, 600 draws each, it was 4.3 at most
WORTH_A_NOTE = 0.01  # share of the rows

# Relative to the largest gain: rounding of XGBoost's float32 gains is far below, other rows are far above.
SAME_GAINS = 1e-4
SAME_COVERS = 1e-4  # XGBoost adds up hessians in float32 on some devices
GAIN_ROUNDS = 3  # whose gains are compared

TELLING_COLUMNS = 3  # that are enough
FEW_COLUMNS, MANY_COLUMNS = 4, 12  # that are looked at, those with the most thresholds first
SORTED_VALUES = 1_000_000  # in many columns; if there are more, few are looked at
TELLING = 0.75  # share of thresholds that new rows may match by chance
TOP_THRESHOLDS = 300  # nearest to the roots: there, "between two values" is between two values of all rows
FEW_THRESHOLDS = 10  # fewer say nothing
NEIGHBOURS = 32  # values on each side of a threshold that tell how dense the values are
ALIKE = 0.8  # mean ratio of neighbouring gaps from which values are on a grid
AT_A_VALUE = 1e-3  # of the gap between two values: so near to one of them, or to the middle, is a match
CHANCE = 1e-6  # of so many matches with new rows


@dataclass(frozen=True)
class TrainingRows:
    """Training rows that were found among the rows to be scored."""

    n_rows: int  #: rows that were looked at
    count: int | None  #: of them, training rows; None: it is not known how many
    evidence: str  #: how they were recognised

    @property
    def note(self) -> str:
        """What was found, why, and what to do."""
        if self.count == self.n_rows:
            what = "These are the rows that the model was trained on"
        elif self.count is None:
            what = "Training rows are among these rows"
        else:
            what = f"{self.count:,} of these {counted(self.n_rows, 'row')} are training rows"
        return f"{what}: {self.evidence}. {CURE}"

    @property
    def rows(self) -> str:
        """The rows as a heading calls them."""
        if self.count == self.n_rows:
            return f"{counted(self.n_rows, 'training row')}"
        some = "some" if self.count is None else f"{self.count:,}"
        return f"{counted(self.n_rows, 'row')}, {some} of them training rows"


@dataclass(frozen=True)
class Search:
    """What came of looking for training rows."""

    found: TrainingRows | None
    by_chance: str | None = None  #: on copies of training rows that may be there by chance

    def aloud(self, notes: Iterable[str]) -> list[str]:
        """What is to be said besides these notes, some of which may be about training rows themselves."""
        return [*([self.found.note] if self.found else []), *(note for note in notes if not note.endswith(CURE))]

    def notes(self, notes: Iterable[str]) -> tuple[str, ...]:
        """All notes: what is said aloud, and what is no reason to worry."""
        return (*self.aloud(notes), *([self.by_chance] if self.by_chance else []))


def find_training_rows(
    model: Model, rows: Mapping[str, Any], train: tuple[Any, Any] | None = None, *, n_jobs: int | None = -1
) -> Search:
    """Look for training rows among `rows`: X, y, sample_weight, base_margin and qid; clusters are not looked at.

    train: X and y of the training rows, where they are given.
    """
    shared = None if train is None else copies(model, train, (rows["X"], rows["y"]))
    found = None if shared is None else shared.found()
    if found is None:  # the rows given for training may be others than those of the model
        found = traces(model, **{name: array for name, array in rows.items() if name != "clusters"}, n_jobs=n_jobs)
    return Search(found, None if shared is None or found is not None else shared.note)


def training_rows_note(model: Model, X: Any, y: Any, **rows: Any) -> str | None:
    """Say that training rows are among the rows, as far as the model tells; None: it does not.

    `rows` are sample_weight, base_margin, qid and n_jobs, as for `importance`.
    """
    found = traces(model, X, y, **rows)
    return None if found is None else found.note


# -- two sets of rows ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Copies:
    """How many of one set of rows are also in another one."""

    count: int  #: held-out rows with the features and the target of a training row
    n_rows: int  #: held-out rows
    repeated: float  #: share of the training rows that have a copy among the training rows: how often chance does it
    n_train: int  #: training rows

    @property
    def leaked(self) -> bool:
        """Whether there are clearly more copies than chance would give."""
        chance = (self.repeated * self.n_train + 1) / (self.n_train + 2)
        # Copies come in pairs at least, which doubles the variance of their share among the training rows.
        variance = chance * (1 - chance) * (1 / self.n_rows + 2 / self.n_train)
        return bool(self.count / self.n_rows - self.repeated > CLEARLY * math.sqrt(variance))

    @property
    def note(self) -> str | None:
        """What a user should know where rows repeat by chance, it seems; None: nothing."""
        if self.count < WORTH_A_NOTE * self.n_rows:
            return None
        return (
            f"{self.count:,} of the {counted(self.n_rows, 'held-out row')} ({self.count / self.n_rows:.0%}) have the "
            f"features and the target of a training row; of the training rows, {self.repeated:.0%} have those of "
            "another one. If rows were copied or resampled before they were split, these were not held out."
        )

    def found(self) -> TrainingRows | None:
        """The training rows among the held-out rows; None: no more than chance would give."""
        if not self.leaked:
            return None
        among = "none has" if self.repeated == 0 else f"{self.repeated:.1%} have"
        evidence = f"they have the features and the target of a training row (of the training rows, {among} a copy)"
        return TrainingRows(self.n_rows, self.count, evidence)


def copies(model: Model, train: tuple[Any, Any], valid: tuple[Any, Any]) -> Copies:
    """Compare the rows of two pairs (X, y), in any containers and in any order, as the model sees them."""
    training, held_out = (_hashes(read_batch(model, model.objective, *rows)) for rows in (train, valid))
    training.sort()
    nearest = np.minimum(np.searchsorted(training, held_out), len(training) - 1)
    same = training[1:] == training[:-1]
    repeated = np.append(same, False) | np.append(False, same)
    count = int(np.count_nonzero(training[nearest] == held_out))
    return Copies(count, len(held_out), float(repeated.mean()), len(training))


def _hashes(batch: Batch) -> HashArray:
    """64 bits for each row, from its columns and target rounded to float32: (rows,)."""
    assert batch.y is not None
    target = np.asarray(batch.y, np.float64).reshape(batch.n_rows, -1)
    out = np.zeros(batch.n_rows, np.uint64)
    for rows, columns in _blocks(batch.table):
        every = [*columns, *target[rows].T]
        for key, column in zip(_keys(len(every)), every, strict=True):
            out[rows] += _mixed(column, key)
    return out


def _keys(n: int) -> HashArray:
    """An odd number for each column, always the same."""
    return np.random.SeedSequence(0).generate_state(n, np.uint64) | np.uint64(1)


def _mixed(column: NDArray[Any], key: np.uint64) -> HashArray:
    """Spread the bits of numbers over 64 bits."""
    with np.errstate(over="ignore"):
        number = column.astype(np.float32) + np.float32(0)  # -0 is 0
    number[np.isnan(number)] = np.nan  # there are many
    bits = number.view(np.uint32).astype(np.uint64) * key
    bits ^= bits >> np.uint64(32)
    bits *= key
    return bits


def _blocks(table: Table, most: int = HASHED_ROWS) -> Iterator[tuple[slice, list[NDArray[Any]]]]:
    """Rows of a table, some at a time, by columns."""
    step = min(most, table.block_rows or most)
    for start in range(0, table.n_rows, step):
        rows = slice(start, min(start + step, table.n_rows))
        block = table.block(rows.start, rows.stop)
        yield rows, list(block.T if isinstance(block, np.ndarray) else block)


# -- one set of rows and the model ---------------------------------------------------------------------------
def traces(model: Model, X: Any, y: Any, *, n_jobs: int | None = -1, **rows: Any) -> TrainingRows | None:
    """Find training rows by what the model keeps of them; None: it does not tell. rows: as for `training_rows_note`.

    Thresholds are values of the training rows, or lie halfway between two of them: whether they are so for these rows
    too is a matter of two or three sorted columns. Where values repeat, that says nothing; but if all the training
    rows are there, and the model saw all of them in every tree, the covers of its first tree and its gains are theirs.
    """
    batch = read_batch(model, model.objective, X, y, **rows)
    n = batch.n_rows
    if model.n_trees == 0:
        return None
    complete = _covers_match(model, batch, n_jobs)
    matches = _match_thresholds(model.ensemble, batch.table)
    if matches is not None:
        names = listing([model.labels(X)[j] for j in matches.columns])
        evidence = (
            f"{matches.found:,} of {matches.looked_at:,} thresholds of splits on {names} are values of these rows, or "
            "lie halfway between two of them"
        )
        return TrainingRows(n, n if complete else None, evidence)
    if complete and _gains_match(model, X, y, rows, n_jobs):
        return TrainingRows(n, n, "TreeInner(PreDecomp) on them equals the gains that the model stores")
    return None


@dataclass(frozen=True)
class _Matches:
    """Thresholds of the splits on some columns that are values of the rows, or halfway between two."""

    columns: tuple[int, ...]
    found: int
    looked_at: int
    expected: float  # to be found by chance, with new rows

    @property
    def telling(self) -> bool:
        """Whether new rows would be different: not if values repeat or fill a grid."""
        return self.looked_at >= FEW_THRESHOLDS and self.expected < TELLING * self.looked_at

    def chance(self, *, doubt: bool) -> float:
        """Chance that new rows match as often; with doubt, if each threshold were matched twice as easily."""
        from scipy.special import bdtrc

        p = self.expected / self.looked_at
        p = min(2 * p, (1 + p) / 2) if doubt else p
        return float(bdtrc(self.found - 1, self.looked_at, p)) if self.found else 1.0

    def __add__(self, other: _Matches) -> _Matches:
        return _Matches(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def _match_thresholds(e: Ensemble, table: Table) -> _Matches | None:
    """Matches that chance does not explain, in two columns at least; None: there are none.

    One column is not enough: it may hold what a person or a place had before and has again in new rows. For the same
    reason a column without matches, where others have them, is enough to say nothing.
    """
    if e.schema.external:  # columns are not those of the data
        return None
    thresholds = _top_thresholds(e)
    few = table.n_rows * MANY_COLUMNS > SORTED_VALUES
    tried = sorted(thresholds, key=lambda j: -len(thresholds[j]))[: FEW_COLUMNS if few else MANY_COLUMNS]
    telling: list[_Matches] = []
    for j, values in zip(tried, _columns(e, table, tried), strict=True):
        one = _match_column(j, thresholds[j], values)
        if one.telling and one.chance(doubt=False) > 0.05:
            return None
        telling += [one] if one.telling else []
        if len(telling) == TELLING_COLUMNS:
            break
    if len(telling) < 2:
        return None
    total = sum(telling[1:], telling[0])
    return total if total.chance(doubt=True) < CHANCE else None


def _top_thresholds(e: Ensemble) -> dict[int, FloatArray]:
    """Distinct thresholds of numeric splits by column, of those nearest to the roots."""
    nodes, splits = e.tree_start[:-1], np.zeros(0, np.intp)
    while len(nodes) and len(splits) < TOP_THRESHOLDS:
        inner = nodes[e.feature[nodes] >= 0]
        splits = np.concatenate([splits, inner[e.category_set[inner] < 0]])
        nodes = np.concatenate([e.left[inner], e.right[inner]])
    return {int(j): np.unique(e.threshold[splits[e.feature[splits] == j]]) for j in np.unique(e.feature[splits])}


def _columns(e: Ensemble, table: Table, which: Sequence[int]) -> list[NDArray[Any]]:
    """Columns in the precision that the model's library reads them in."""
    dtype = np.float32 if e.float32_input else np.float64
    out = [np.empty(table.n_rows, dtype) for _ in which]
    for rows, columns in _blocks(table, most=table.n_rows):
        for column, j in zip(out, which, strict=True):
            with np.errstate(over="ignore"):  # beyond float32: infinite to the library too
                column[rows] = columns[j]
    return out


def _match_column(j: int, thresholds: FloatArray, column: NDArray[Any]) -> _Matches:
    """Compare the thresholds with their neighbours among the values."""
    values, counts = np.unique(column[np.isfinite(column)], return_counts=True)
    values = values.astype(np.float64)
    gaps = np.diff(values)
    if len(gaps) < 2:
        return _Matches((j,), 0, 0, 0.0)
    below = np.clip(np.searchsorted(values, thresholds, side="right") - 1, 0, len(gaps) - 1)
    with np.errstate(over="ignore"):
        place = (thresholds - values[below]) / gaps[below]  # 0: at the value below, 1: at the one above
    found = np.abs(place[:, None] - [0.0, 0.5, 1.0]).min(axis=1) <= AT_A_VALUE
    near = np.clip(below[:, None] + np.arange(-NEIGHBOURS, NEIGHBOURS), 0, len(gaps) - 1)
    chance = (counts[near] > 1).mean(axis=1) + _on_a_grid(gaps[near]) + 4 * AT_A_VALUE
    expected = np.minimum(1.0, chance).sum()
    return _Matches((j,), int(np.count_nonzero(found)), len(thresholds), float(expected))


def _on_a_grid(gaps: FloatArray) -> FloatArray:
    """How far values with these gaps, (places, gaps), fill a grid that new rows have too; near 0 if they are random.

    Rounded numbers: the least gap is the step, and over the mean gap it is the share of the grid that is taken. Ranks
    and normal scores fill theirs, each gap being like the one before (random gaps have a mean ratio of 0.39).
    """
    a, b = gaps[:, 1:], gaps[:, :-1]
    alike = (np.minimum(a, b) / np.maximum(a, b)).mean(axis=1)
    return np.where(alike > ALIKE, 1.0, gaps.min(axis=1) / gaps.mean(axis=1))


def _covers_match(model: Model, batch: Batch, n_jobs: int | None) -> bool:
    """Whether these rows fill the leaves of the first tree as the training rows did."""
    assert batch.y is not None
    e = model.ensemble
    tree, output = e.slice_trees(0, 1), e.tree_output[0]
    leaves = np.flatnonzero(tree.feature < 0)
    size = np.ones(batch.n_rows)
    if e.cover_is == "hessian":
        hessian = model.objective.hessians(batch.y, batch.base, qid=batch.qid)
        if hessian is None:
            return True  # cannot be told; the gains will
        size = hessian[:, output]
    if batch.weight is not None and e.cover_is != "count":
        size = size * batch.weight
    # Hessians may have a factor that models do not store (XGBoost's count:poisson).
    unit = size.sum() / tree.cover[0] if e.cover_is == "hessian" else 1.0
    if not np.isclose(size.sum(), unit * tree.cover[0], rtol=SAME_COVERS):
        return False
    number = tree.apply_table(batch.table, n_jobs=n_jobs)[:, 0]
    sums = np.bincount(number, size, minlength=int(tree.leaf_id.max()) + 1)[tree.leaf_id[leaves]]
    return bool(np.allclose(sums, unit * tree.cover[leaves], rtol=SAME_COVERS, atol=0.0))


def _gains_match(model: Model, X: Any, y: Any, rows: dict[str, Any], n_jobs: int | None) -> bool:
    """Whether TreeInner(PreDecomp) of the first rounds is their stored gain: on the training rows alone it is."""
    first = open_model(model, ReadOptions(iteration_range=(0, min(GAIN_ROUNDS, model.n_rounds))))
    with suppress(TreeInnerError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about PreDecomp, which the user did not ask for
        stored = stored_gains(first)
        accumulator = ImportanceAccumulator(first, method="predecomp", std_errors=False, n_jobs=n_jobs)
        gains = accumulator.update(X, y, **rows).result().gains
        return bool(stored.max(initial=0.0) > 0 and np.abs(gains - stored).max() / stored.max() < SAME_GAINS)
    return False
