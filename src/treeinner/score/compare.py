"""compare(): why the loss of a model differs between two sets of rows, or that of two models on the same rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import DataError, Note, warn
from treeinner.kernels import Progress, heard
from treeinner.read import Model, read_model
from treeinner.read.columns import GroupSpec
from treeinner.rows import Stream, load_table, read_rows
from treeinner.rows.frames import collected, make_frame, names_of
from treeinner.rows.rows import features_among
from treeinner.rows.stream import naming
from treeinner.score.change import change_of_models, change_of_rows, counted
from treeinner.score.infer import Statistics
from treeinner.score.result import LEVEL, Importance, Losses, plain, position_of
from treeinner.score.shift import domain_odds
from treeinner.score.spec import METHODS, check_choice

__all__ = ["NAMES", "Comparison", "Rows", "compare", "comparison_of"]

Float = NDArray[np.float64]
NAMES = ("before", "after")


@dataclass(frozen=True, eq=False)
class Rows:
    """One set of rows as a user has it, for `compare`: what `importance` takes, each by value or by a column's name."""

    X: Any  #: table, file or other source of rows
    y: Any = None  #: target; None where the batches of X bring it along
    sample_weight: Any = field(default=None, kw_only=True)
    clusters: Any = field(default=None, kw_only=True)
    base_margin: Any = field(default=None, kw_only=True)
    qid: Any = field(default=None, kw_only=True)

    @property
    def given(self) -> dict[str, Any]:
        """What comes with X."""
        return {name: value for name, value in vars(self).items() if name != "X"}


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison:
    """Why the loss differs between two sets of rows, feature by feature; or between two models on the same rows.

    Exactly, loss_after - loss_before = harder + base + change.score.sum(). All per row and in units of the loss.
    """

    names: tuple[str, str]  #: of the two sets, or models
    before: Importance  #: the loss breakdown: what each feature takes off the loss
    after: Importance  #: the same of the second set; by centred, with the node values of the first
    signal_before: Importance  #: the signal score, with `holds`: does what was learnt still hold?
    signal_after: Importance
    change: Statistics  #: before - after of the breakdown, (features,): positive where a feature pays less now
    moved: Statistics | None = None  #: with split_shift: of the change, what came from rows that moved
    changed: Statistics | None = None  #: and what came from rows that are there as before, but behave otherwise
    effective_rows: float | None = None  #: of `before`, weighted to look like `after`
    notes: tuple[Note, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Features, or groups of them."""
        return self.before.feature_names

    @property
    def loss_name(self) -> str:
        """The loss in words."""
        return self.before.loss_name

    @property
    def loss_before(self) -> float:
        """Loss of the model on the first set, per row."""
        return _losses(self.before).after

    @property
    def loss_after(self) -> float:
        """Loss of the model on the second set, per row."""
        return _losses(self.after).after

    @property
    def harder(self) -> float:
        """Rise of the loss that the model starts from, before the first tree: the targets got harder."""
        return _losses(self.after).before - _losses(self.before).before

    @property
    def base(self) -> float:
        """What the root values of the trees take off the loss, before - after: the level moved."""
        return self.before.base - self.after.base

    @property
    def verdicts(self) -> tuple[str, ...]:
        """worse, unclear or better for every feature: q at most 0.1, and the sign."""
        found = np.where(self.change.score > 0, "worse", "better")
        return tuple(np.where(self.change.q_value <= LEVEL, found, "unclear").tolist())

    @property
    def order(self) -> NDArray[np.intp]:
        """Features, those that changed most first."""
        return np.argsort(-np.abs(self.change.score), kind="stable")

    def interval(self, level: float = 0.95) -> tuple[Float, Float]:
        """Lower and upper ends of the intervals of the change, by Student's t."""
        return self.change.interval(level)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The table by columns, in the order of the features."""
        low, high = self.interval()
        out = {
            "feature": np.array(self.feature_names, np.str_),
            "before": self.before.scores,
            "after": self.after.scores,
            "change": self.change.score,
            "std_error": self.change.std_error,
            "ci_low": low,
            "ci_high": high,
            "p_value": self.change.p_value,
            "q_value": self.change.q_value,
            "verdict": np.array(self.verdicts, np.str_),
        }
        for name, part in (("moved", self.moved), ("changed", self.changed)):
            out |= {} if part is None else {name: part.score, f"{name}_std_error": part.std_error}
        for when, imp in zip(NAMES, (self.signal_before, self.signal_after), strict=True):
            signal = imp.columns()
            out |= {f"signal_{when}": signal["score"], f"holds_{when}": signal["holds"]}
            out[f"holds_{when}_std_error"] = signal["holds_std_error"]
        return out

    def __getitem__(self, feature: str | int) -> SimpleNamespace:
        """Return the numbers of one feature, by name or position."""
        k = position_of(feature, self.feature_names, "feature")
        return SimpleNamespace(**{name: column[k].item() for name, column in self.columns().items()})

    def to_frame(self) -> Any:
        """Data frame in the library of X, largest change first."""
        order = self.order
        return make_frame({k: v[order] for k, v in self.columns().items()}, library=self.after.frame_library)

    def to_dict(self) -> dict[str, Any]:
        """Everything as lists, texts and numbers, for JSON: largest change first."""
        about = ("loss_name", "loss_before", "loss_after", "harder", "base", "effective_rows")
        sides = {"names": list(self.names), "rows": [self.before.n_rows, self.after.n_rows]}
        table = {k: [plain(each) for each in v[self.order].tolist()] for k, v in self.columns().items()}
        told = {name: getattr(self, name) for name in about}
        notes = [note.text for note in self.notes]
        return {"method": self.before.method, **sides, **told, "notes": notes, "features": table}

    def __repr__(self) -> str:
        from treeinner.show.table import of_comparison

        return of_comparison(self).text()

    def _repr_html_(self) -> str:
        from treeinner.show.table import of_comparison

        return of_comparison(self).html()


def compare(
    model: Any,
    before: Any,
    after: Any,
    *,
    method: str = "centred",
    names: tuple[str, str] = NAMES,
    split_shift: Any = False,
    feature_groups: GroupSpec | None = None,
    n_jobs: int | None = -1,
    progress: Progress | bool | None = None,
) -> Comparison:
    """Why did the loss rise? What each feature no longer pays, with standard errors, so that all adds up.

    `ti.compare(model, (X, y), (X_new, y_new))` compares two sets of rows, `ti.compare(model_a, model_b, (X, y))` two
    models on the same rows, of any libraries but with the same loss.

    Parameters
    ----------
    model : fitted model, path or Model
        As for `importance`.
    before, after : Rows, (X, y) or mapping
        The two sets of rows: held-out rows from then, and rows from now. X is whatever `importance` takes, and y may
        be the name of a column: ("march.parquet", "price"). With the training rows first and held-out rows second, the
        change is the optimism of every feature. Or before is a second model, and after the rows for both.
    method : {"centred", "predecomp", "saabas", "treeshap"}
        The attribution of the loss breakdown; signal and holds go by centred. Where features act together (an
        interaction), treeshap shares what they earn evenly, so the one that broke comes first more often; on many rows
        it takes two to four times as long.
    names : pair of str
        What the two sets, or models, are called.
    split_shift : bool or array
        True: split the change of every feature into what came from rows that moved and what came from rows that are
        there as before but behave otherwise. The rows of `before` are weighted by the odds that a domain classifier of
        scikit-learn gives them, fitted on other rows; or pass such weights. With fewer than 50 effective rows the two
        sets are too far apart, and are refused. For method="centred".
    feature_groups, n_jobs, progress
        As for `importance`.

    Returns
    -------
    Comparison
        `change` is positive where a feature pays less in the second set. By method="centred" the means of the leaf
        values in the nodes are those of the first set for both.

    Warns
    -----
    TreeInnerWarning
        If something does not hold, such as training rows in one of the sets.
    """
    _check_names(names)
    check_choice("method", method, METHODS)
    if split_shift is not False and method != "centred":
        raise ValueError(f"split_shift needs the node values of method='centred'; compare by {method!r} without it.")
    opened = read_model(model)
    run: dict[str, Any] = {"method": method, "feature_groups": feature_groups}
    run["count_passes"] = partial(counted, n_jobs, heard(progress))
    if isinstance(before, str | os.PathLike) or hasattr(before, "predict"):
        if split_shift is not False:
            raise ValueError("split_shift is about two sets of rows; two models have the same.")
        names = ("first model", "second model") if names == NAMES else names
        rows, models = _rows(after, "after"), (opened, read_model(before))
        streams = [_read(each, _in_memory(each, rows, name), name) for each, name in zip(models, names, strict=True)]
        found = change_of_models(models, streams, **run)
    else:
        sides = [_rows(rows, name) for rows, name in zip((before, after), names, strict=True)]
        _check_alike(sides, names)
        if split_shift is not False:
            sides = [_in_memory(opened, rows, name) for rows, name in zip(sides, names, strict=True)]
        streams = [_read(opened, rows, name) for rows, name in zip(sides, names, strict=True)]
        odds, effective = (None, None) if split_shift is False else domain_odds(sides, split_shift, names)
        found = change_of_rows(opened, streams, names, odds, **run) | {"effective_rows": effective}
    warn(*found["notes"])
    return Comparison(names=names, **found)


def comparison_of(model: Model, sides: Sequence[Any], names: tuple[str, str], **asked: Any) -> Comparison:
    """Comparison of two sets of rows in the partitions of a cluster; asked: method and feature_groups."""
    _check_names(names)
    if any("by" in side.given for side in sides):
        raise TypeError("by is no argument of compare; importance has segments.")
    found = change_of_rows(model, sides, names, None, **asked, count_passes=partial(counted, 1, None))
    warn(*found["notes"])
    return Comparison(names=names, **found)


def _rows(given: Any, name: str) -> Rows:
    """One set of rows from what the user passed."""
    if isinstance(given, Rows):
        return given
    known = list(Rows.__dataclass_fields__)
    if isinstance(given, Mapping) and "X" in given and not set(given) - set(known):
        return Rows(**given)
    if not isinstance(given, tuple | list) or len(given) != 2:
        what = f"a mapping of {list(given)}" if isinstance(given, Mapping) else type(given).__name__
        raise TypeError(f"{name}: expected ti.Rows, a pair (X, y) or a mapping of {', '.join(known)}; got {what}.")
    return Rows(*given)


def _read(model: Model, rows: Rows, name: str) -> Stream:
    """Rows as the model takes them; in an error they are called by their name."""
    with naming(name):
        stream = read_rows(model, rows.X, **rows.given)
        if not stream.again:
            raise DataError("X can be read only once; pass a file or a function that returns the batches.")
    return stream


def _in_memory(model: Model, rows: Rows, name: str) -> Rows:
    """The same rows, read, with the columns alone that the model knows; in an error they are called by their name."""
    with naming(name):
        X, given = load_table(model, rows.X, rows.given)
        if (names := names_of(X)) is not None:
            X = collected(X)[:, [names.index(name) for name in features_among(model, names, {})]].to_native()
    return Rows(X, **given)


def _check_names(names: Any) -> None:
    """Raise unless there are two names that tell the sides apart."""
    pair = names if isinstance(names, tuple | list) else ()
    if len(pair) != 2 or pair[0] == pair[1] or not all(isinstance(name, str) for name in pair):
        raise ValueError(f"names: expected two different names, such as ('May', 'June'); got {names!r}.")


def _check_alike(sides: list[Rows], names: tuple[str, str]) -> None:
    """Raise if what makes numbers comparable comes with one side only."""
    for what in ("sample_weight", "base_margin"):
        has = [getattr(rows, what) is not None for rows in sides]
        if has[0] != has[1]:
            raise DataError(f"{what} was given for {names[has[1]]} and not for {names[has[0]]}; pass it for both.")


def _losses(imp: Importance) -> Losses:
    """The losses of a breakdown, which always has them."""
    assert imp.losses is not None
    return imp.losses
