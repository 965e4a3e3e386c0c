"""Credit: from the players of the trees to the names that get a score: features, groups, raw columns of a pipeline."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from treeinner.errors import UnsupportedModelError, did_you_mean, readable
from treeinner.read.model import Model
from treeinner.rows.rows import columns_of, transform

__all__ = ["Credit", "GroupSpec", "as_table", "credit", "gathered", "grouped", "numbers_of"]

Float = NDArray[np.float64]
Index = NDArray[np.intp]
Bool = NDArray[np.bool_]
GroupSpec = Mapping[str, Sequence[str | int]] | str

FIRST_ROWS = 32  # on which a pipeline is probed
MANY_ROWS = 20_000  # among which, at a time, rows are looked for that differ in a column of the model
CELLS = 4_000_000  # of a table of changed rows
FEW_COLUMNS = 500  # that are changed one by one, where the model's columns are made from several
NO_NUMBER = -1e99  # stands for missing values
ROUNDING = 1e-9  # of a column's range: matrix products depend on where a row stands


@dataclass(frozen=True, eq=False)
class Credit:
    """What each player gives to which name, as a list of entries (player, name, part)."""

    names: tuple[str, ...]  # of what gets a score
    player: Index  # (entries,)
    name: Index  # (entries,) position in `names`, ascending
    part: Float  # (entries,) those of a player add up to 1

    @cached_property
    def places(self) -> Index | None:
        """Where each player's values go: (players,); None: some go to several names, or several to one."""
        distinct = len(np.unique(self.player)) == len(self.player) == len(np.unique(self.name))
        return self.name[np.argsort(self.player)] if distinct else None

    def add_up(self, values: Float, axis: int) -> Float:
        """Values along an axis of players, as values along an axis of names."""
        n = len(self.names)
        if self.places is not None and np.array_equal(self.places, np.arange(n)):
            return values
        axis %= values.ndim
        out = np.zeros((*values.shape[:axis], n, *values.shape[axis + 1 :]))
        by_name = np.moveaxis(out, axis, 0)  # a view
        if len(self.player):
            first = np.flatnonzero(np.diff(self.name, prepend=-1))
            shares = values.take(self.player, axis) * self.part.reshape(-1, *[1] * (values.ndim - axis - 1))
            by_name[self.name[first]] = np.moveaxis(np.add.reduceat(shares, first, axis), axis, 0)
        return out


def credit(model: Model, names: Sequence[str] | None, feature_groups: GroupSpec | None, head: Any = None) -> Credit:
    """Who gets the credit of the model's splits.

    Parameters
    ----------
    model
        The model.
    names
        Names of the columns of X, which win over the model's own spelling; f0, f1, ... where neither has any.
    feature_groups
        Name of a group -> its features, by name or position; a feature in no group stands for itself. "encoded": the
        columns that the model itself sees. "original", which behind a pipeline is the default: the columns that go in.
        A column of the model belongs to the raw column that moves it, if two do, to "a*b", which is neither's; where
        more do (PCA), or the rows do not tell, it is reported by its own name.
    head
        Rows of X, on which a pipeline is probed; the more there are, the rarer may the categories be.
    """
    n, known = model.n_features, () if names is None or model.transformers else names
    labels, of_feature = list(known) if len(known) == n else [f"f{j}" for j in range(n)], np.arange(n)
    if model.feature_names is not None:  # as X spells them if the user did not tell others; LightGBM has no blanks
        spelled = {} if model.told.feature_names else {name.replace(" ", "_"): name for name in known}
        labels = [name if name in known else spelled.get(name, name) for name in model.feature_names]
    mapping = feature_groups if isinstance(feature_groups, Mapping) else None
    if mapping is None and feature_groups not in (None, "original", "encoded"):
        raise ValueError(
            f"feature_groups={feature_groups!r} is not recognised; pass a mapping such as {{'colour': ['colour_red', "
            "'colour_blue']}, features by name or position, or 'original' or 'encoded' (columns of a Pipeline)."
        )
    behind = bool(model.transformers) and feature_groups != "encoded"
    if behind and mapping is not None:  # groups of raw columns, unless they are all the model's own
        behind = not {member for given in mapping.values() for member in _listed(given)} <= set(labels)
    if behind and head is None and feature_groups == "original":
        raise ValueError("feature_groups='original' needs rows of X, which show what a Pipeline does to its columns.")
    if behind and head is not None:
        labels, of_feature = _raw_columns(model, labels, head)
    if mapping is not None:
        labels, group = grouped(mapping, labels)
        of_feature = group[of_feature]
    entries = [
        (of_feature[feature], player, 1 / len(shared))
        for player, shared in enumerate(model.trees.player_features)
        for feature in shared
    ]
    name, player, part = zip(*sorted(entries), strict=True) if entries else ((), (), ())
    return Credit(tuple(labels), np.array(player, np.intp), np.array(name, np.intp), np.array(part, np.float64))


# -- groups -------------------------------------------------------------------------------------------------------
def grouped(feature_groups: Mapping[str, Any], names: Sequence[str]) -> tuple[list[str], Index]:
    """Names of the groups, and the group of every feature; groups stand where their first member stood."""
    position = {name: i for i, name in enumerate(names)}
    owner: dict[int, str] = {}
    for group, given in feature_groups.items():
        if not _listed(given):
            raise ValueError(f"Group {group!r} has no features; name at least one, or leave the group out.")
        for member in _listed(given):
            feature = _position(member, position, readable(group))
            if feature in owner:
                raise ValueError(f"Feature {names[feature]!r} is in groups {owner[feature]!r} and {group!r}.")
            owner[feature] = readable(group)
    labels = [(True, owner[i]) if i in owner else (False, name) for i, name in enumerate(names)]
    order = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    repeated = {name for grouped, name in order if grouped} & {name for grouped, name in order if not grouped}
    if repeated:
        raise ValueError(f"Groups {sorted(repeated)} have the name of a feature outside the group; rename the groups.")
    return [name for _, name in order], np.array([order[label] for label in labels], np.intp)


def _listed(given: Any) -> list[Any]:
    """Members of a group; a single one may stand by itself."""
    return list(given) if np.iterable(given) and not isinstance(given, str) else [given]


def _position(member: Any, position: Mapping[str, int], group: str) -> int:
    if readable(member) in position:  # numbers too, where columns have numbers for names
        return position[readable(member)]
    if isinstance(member, str):
        hint = did_you_mean(member, position, f"; features: {', '.join(map(repr, list(position)[:10]))}, ...")
        raise ValueError(f"Group {group!r} names {member!r}, which is not a feature{hint}")
    try:
        index = operator.index(member)
    except TypeError:
        raise TypeError(f"Group {group!r} contains {member!r}; expected a feature's name or position.") from None
    if not 0 <= index < len(position):
        raise ValueError(f"Group {group!r} names feature {index}, but features are numbered 0..{len(position) - 1}.")
    return index


# -- raw columns of a pipeline, by probing -----------------------------------------------------------------------
def _raw_columns(model: Model, own: Sequence[str], X: Any) -> tuple[list[str], Index]:
    """Raw columns, then what belongs to none of them; and which of these every feature of the model belongs to."""
    X = as_table(X)
    known = X.columns if isinstance(X, nw.DataFrame) else columns_of(model)[0]
    names = [f"f{k}" for k in range(X.shape[1])] if known is None else [readable(name) for name in known]
    used = np.unique([j for shared in model.trees.player_features for j in shared]).astype(np.intp)
    try:
        moved = _movers(model.transformers, X, used)
    except Exception as error:
        raise UnsupportedModelError(
            f"The pipeline's columns cannot be followed, since its steps fail on changed rows ({type(error).__name__}: "
            f"{error}); pass feature_groups='encoded' for the columns that the model sees."
        ) from error
    labels = {name: k for k, name in enumerate(names)}
    of_feature = np.zeros(model.n_features, np.intp)
    for j, movers in zip(used.tolist(), moved.T, strict=True):
        by = [names[k] for k in np.flatnonzero(movers)]
        inside = own[j] if model.feature_names is not None else f"encoded {own[j]}"
        of_feature[j] = labels.setdefault("*".join(by) if len(by) in (1, 2) else inside, len(labels))
    return list(labels), of_feature


def _movers(steps: Sequence[Any], X: Any, used: Index) -> Bool:
    """Which raw columns move which of the model's columns in use: (raw columns, used)."""
    moved = _probe(steps, X[:FIRST_ROWS], used)
    start, stop = 0, MANY_ROWS
    while start < X.shape[0] and not moved.any(axis=0).all():
        still = ~moved.any(axis=0)  # perhaps a level that few rows have: see rows in which these columns differ
        some = X[start:stop]
        seen = numbers_of(transform(steps, some.to_native() if isinstance(some, nw.DataFrame) else some), used[still])
        rows = np.unique([seen.argmin(axis=0), seen.argmax(axis=0)])
        moved[:, still] = _probe(steps, some[rows.tolist()], used[still])
        start, stop = stop, stop + MANY_ROWS
    return moved


def _probe(steps: Sequence[Any], X: Any, used: Index) -> Bool:
    """The same, from a few rows: (raw columns, used).

    Raw columns take other values of their own, in rows without gaps. What does not move then, such as an indicator of
    missing values, may do so when they are missing: a filled gap belongs to its own column, not to those that fill it.
    """
    X = X.toarray() if hasattr(X, "toarray") else X
    n_rows, n = X.shape
    base, other, missing = np.stack([_changes(list(X[:, k])) for k in range(n)], axis=2)

    def moves(columns: Sequence[Bool], changed: Index) -> Bool:
        """What moves when these columns change, one set of them after the other: (sets, used)."""
        out, at_once = [], max(1, CELLS // base.size)
        for i in range(0, len(columns), at_once):
            tried = [np.where(each, changed, base) for each in columns[i : i + at_once]]
            values = numbers_of(transform(steps, gathered(X, np.concatenate([base, *tried]))), used)
            values = values.reshape(len(tried) + 1, n_rows, len(used))
            close = ROUNDING * np.ptp(values, axis=(0, 1))
            out.append((np.abs(values[1:] - values[0]) > close).any(axis=1))
        return np.concatenate(out)

    # Half of the columns at a time, by the digits of their numbers: what a single column moves says which one it is.
    digits = max(1, (n - 1).bit_length())
    halves = [(np.arange(n) >> digit & 1) == bit for digit in range(digits) for bit in (0, 1)]
    moved = np.zeros((n, len(used)), bool)
    for changed in (other, missing):
        if moved.any(axis=0).all() or np.array_equal(changed, base):
            continue
        found = moves(halves, changed).reshape(digits, 2, -1)
        found[:, :, moved.any(axis=0)] = False  # settled
        single = (found[:, 0] != found[:, 1]).all(axis=0)
        moved[(found[:, 1, single] << np.arange(digits)[:, None]).sum(axis=0), np.flatnonzero(single)] = True
        several = found.any(axis=(0, 1)) & ~single
        if several.any():
            alone = moves(list(np.eye(n, dtype=bool)), changed) if n <= FEW_COLUMNS else np.ones((n, len(used)), bool)
            moved[:, several] = alone[:, several]
    return moved


def _changes(values: list[Any]) -> Index:
    """Rows whose values stand in for those of a column: without gaps, with other values, with gaps: (3, rows)."""
    keys = [value if isinstance(value, (str, int, float)) else repr(value) for value in values]
    gap = np.array([str(key) in ("None", "NaT", "<NA>", "nan") for key in keys], bool)
    code = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    known, gaps, here = np.flatnonzero(~gap), np.flatnonzero(gap), np.arange(len(keys))
    filled = np.where(gap, known[here % len(known)], here) if len(known) else here
    # Half a turn in the order of the values: every value comes and goes in some row.
    order = np.argsort(np.array([code[keys[i]] for i in filled]), kind="stable")
    other = np.empty_like(here)
    other[order] = filled[np.roll(order, len(here) // 2)]
    return np.stack([filled, other, np.full_like(here, gaps[0]) if len(gaps) else filled])


# -- tables of any kind --------------------------------------------------------------------------------------------
def as_table(X: Any) -> Any:
    """X as a frame of narwhals, a sparse matrix or an array."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):  # scikit-learn takes no Arrow tables
        return nw.from_native(frame.to_pandas(), eager_only=True) if frame.implementation.is_pyarrow() else frame
    return X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)


def gathered(X: Any, index: Index) -> Any:
    """Table whose column k holds the rows index[:, k] of X's column k."""
    if hasattr(X, "tocsr"):
        rows, place = np.unique(index, return_inverse=True)
        return type(X)(gathered(X[rows].toarray(), place.reshape(index.shape)))
    if not isinstance(X, nw.DataFrame):
        return X[index, np.arange(X.shape[1])]
    columns = [X[:, k][index[:, k].tolist()] for k in range(X.shape[1])]
    return X[index[:, 0].tolist()].with_columns(*columns).to_native()


def numbers_of(made: Any, columns: Index) -> Float:
    """Some columns of a table, as numbers that differ where the columns do: (rows, columns)."""
    made, places = as_table(made), columns.tolist()
    if hasattr(made, "tocsr"):
        made, places = made[:, columns].toarray(), range(len(columns))
    out = np.empty((made.shape[0], len(columns)))
    for i, j in enumerate(places):
        values = np.asarray(made[:, j])
        if values.dtype.kind not in "biuf":
            values = np.unique([repr(value) for value in values.tolist()], return_inverse=True)[1]
        out[:, i] = values
    return np.nan_to_num(out, nan=NO_NUMBER, posinf=-NO_NUMBER, neginf=2 * NO_NUMBER)
