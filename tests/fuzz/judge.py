"""What is done with a mutant, and what must hold: it is refused by an error of ours, or its numbers are right."""

import warnings
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import treeinner as ti
from tests import oracle
from tests.fuzz.library import Library
from tests.fuzz.seeds import N_ROWS, Seed, accumulator, frame, words
from treeinner.objectives.labels import encode_target

__all__ = ["Judge", "Verdict", "WrongError"]

METHODS = ("saabas", "treeshap", "predecomp")
QUERIES = np.arange(N_ROWS) // 4
MOST_COLUMNS = 64  # a mutant that claims more gets rows of the seed, which do not fit


class WrongError(AssertionError):
    """A number that is not right, or an error that does not say which file it is about."""


@dataclass
class Verdict:
    """How a mutant ended."""

    end: str  # "right", "refused", or "unused": read, but only CatBoost could use it
    asked: str = ""  # of the library: "agrees", "refused", "crashed"; "": it was not asked
    methods_refused: int = 0


class Judge:
    """Reads, predicts, attributes and scores mutants of one format, in this process."""

    def __init__(self, format: str, library: str, path: Path) -> None:
        self.format, self.path = format, path
        self.library = Library(library) if library else None
        warnings.simplefilter("ignore")  # what is assumed of a model
        warnings.filterwarnings("error", category=RuntimeWarning, module="treeinner")  # numbers out of range
        self.empty: dict[str, Any] = {}  # accumulators

    def __call__(self, seed: Seed, data: bytes) -> Verdict:
        try:
            if self.format == "accumulator":
                return self.accumulated(seed, data)
            self.path.write_bytes(data)
            thing = ti.load(self.path) if seed.name.endswith(".zip") else ti.read_model(self.path)
        except ti.TreeInnerError as error:
            if self.format != "accumulator" and str(self.path) not in str(error):
                raise WrongError(f"the error does not name the file: {error}") from error
            return Verdict("refused")
        if isinstance(thing, ti.Model):
            return self.used(thing, seed, data)
        try:
            look_at(thing)
        except ti.TreeInnerError:
            return Verdict("refused")
        return Verdict("right")

    # -- models ----------------------------------------------------------------------------------------------
    def used(self, model: Any, seed: Seed, data: bytes) -> Verdict:
        if model.ensemble.schema.external and self.format != "catboost-categories":
            return Verdict("unused")
        X, y = rows_for(model, seed, self.format)
        try:
            margin = model.predict(X, n_jobs=1)
        except ti.TreeInnerError:
            return Verdict("refused")
        expect(np.all(np.isfinite(margin)), "a margin is not finite")
        asked = self.library is not None and not self.library.is_older_than(seed)
        if asked:  # it works while we do
            self.library.ask(self.path, X)
        refused = sum(not adds_up(model, X, margin, method) for method in METHODS)
        # Errors and the oracle take longer than all the rest, so not every mutant has them.
        refused += not scores_right(model, X, y, std_errors=len(data) % 8 == 0, defined=len(data) % 8 < 2)
        if self.library is None and not model.ensemble.schema.external:
            self.like_the_oracle(model, X, margin)
        return Verdict("right", self.compared(model, X, margin) if asked else "", refused)

    def like_the_oracle(self, model: Any, X: np.ndarray, margin: np.ndarray) -> None:
        if isinstance(X, np.ndarray) and model.n_trees <= 100:
            close(margin.reshape(len(X), -1), oracle.predict(model.ensemble, X), model, X, 1e-12, "the oracle")

    def compared(self, model: Any, X: Any, margin: np.ndarray) -> str:
        """What the library answered: what it accepts too, it must predict alike."""
        said, found = self.library.answer()
        if said != "margins":
            return said
        theirs, n_rounds = found
        if self.library.name == "catboost":  # a class that training did not see has no trees
            theirs = theirs[:, ~np.all(theirs == -np.inf, axis=0)]
        ours = margin.reshape(len(margin), -1)
        if model.ensemble.averaged:  # LightGBM's own raw score of a random forest is the sum
            ours = ours * n_rounds
        expect(theirs.shape == ours.shape, f"{self.library.name} predicts {theirs.shape}, we {ours.shape}")
        # XGBoost adds up leaves in float32; the others in float64, from the same decimal or binary numbers.
        close(ours, theirs, model, X, 3e-6 if self.library.name == "xgboost" else 1e-11, self.library.name)
        return "agrees"

    # -- accumulators ----------------------------------------------------------------------------------------
    def accumulated(self, seed: Seed, data: bytes) -> Verdict:
        merged = ti.ImportanceAccumulator.merge_bytes([data])
        for part in (data, merged):
            found = accumulator(seed.name).from_bytes(part).result()
            expect(np.all(np.isfinite(found.scores)), "a score is not finite")
        return Verdict("right")


def expect(condition: Any, otherwise: str) -> None:
    if not condition:
        raise WrongError(otherwise)


def rows_for(model: Any, seed: Seed, format: str) -> tuple[Any, np.ndarray]:
    """Rows of the seed, cut or filled up to the columns that the mutant claims to have."""
    X, n = seed.X, model.ensemble.schema.n_columns
    if format == "catboost-categories":
        return words(X), seed.y
    if n != X.shape[1] and n <= MOST_COLUMNS and not seed.in_frame:
        X = np.column_stack([X, np.zeros((len(X), max(0, n - X.shape[1])))])[:, :n]
    return frame(X) if seed.in_frame else X, seed.y


def adds_up(model: Any, X: Any, margin: np.ndarray, method: str) -> bool:
    """Whether a method answers; its attributions must add up to the margin."""
    try:
        found = ti.attribute(model, X, method=method, n_jobs=1)
    except ti.TreeInnerError:
        return False
    e = model.ensemble
    held = e.node_value if method == "predecomp" else e.value
    largest = max(np.abs(held).max(initial=0.0), np.abs(e.base_score).max(), 1.0)
    # Sums of a few dozen float64 numbers of the size of the largest.
    off = np.abs(found.values.sum(axis=1) + found.base_values - margin).max(initial=0.0)
    expect(off <= 1e-12 * largest, f"{method}: off by {off:.3g}, where the largest value is {largest:.3g}")
    return True


def scores_right(model: Any, X: Any, y: np.ndarray, *, std_errors: bool, defined: bool) -> bool:
    """Whether there are scores; if `defined`, they must be the sums over splits of their definition."""
    scored = model if model.ensemble.objective else ti.read_model(model, objective="squared_error")
    try:
        qid = QUERIES if scored.objective.scope == "query" else None
        found = ti.importance(scored, X, y, qid=qid, n_jobs=1, std_errors=std_errors)
    except ti.TreeInnerError:
        return False
    for name in ("scores", "std_errors", "p_values") if std_errors else ("scores",):
        expect(np.all(np.isfinite(getattr(found, name))), f"{name} are not finite")
    e, loss = scored.ensemble, scored.objective
    if not defined or e.averaged or e.schema.external or not isinstance(X, np.ndarray) or e.n_trees > 100:
        return True
    target = encode_target(e, y, objective=loss)
    residual = oracle.residuals(e, X, lambda margin: loss.gradients(target, margin, qid=qid))
    expected = oracle.centred_product(e, X, residual).sum(axis=(0, 2))
    r = oracle.centred_tensor(e, X)
    # Leaf sums hold gradients to 2^-28 of the largest leaf or gradient, and a margin is rounded after each tree.
    size = max(np.abs(e.value).max(initial=0.0), np.abs(residual).max(initial=0.0))
    rounded = 2.0**-50 * e.n_trees * np.abs(e.base_score).max() * max(size, 1.0)
    off = np.abs(found.scores * found.sum_of_weights - expected)
    slack = (2.0**-28 * size + rounded) * np.abs(r).sum(axis=(0, 1, 3)) + 1e-12 * size * np.abs(r).sum()
    worst = int(np.argmax(off - slack))
    expect(
        off[worst] <= slack[worst],
        f"not the oracle's score: column {worst}, off by {off[worst]:.3g}, {slack[worst]:.3g} allowed",
    )
    return True


def close(ours: np.ndarray, theirs: np.ndarray, model: Any, X: Any, tolerance: float, whose: str) -> None:
    """Equal up to the rounding of sums: relative to the sum of the absolute values of the leaves that a row reaches."""
    if np.all(np.abs(ours - theirs) <= tolerance * (1 + np.abs(ours))):
        return
    off = np.abs(ours - theirs) / (1 + size_of_leaves(model.ensemble, X))
    if not np.all(off <= tolerance):
        row, output = np.unravel_index(np.nanargmax(np.where(np.isnan(off), np.inf, off)), off.shape)
        raise WrongError(
            f"not as {whose} predicts: row {row}, ours {ours[row, output]!r}, {whose} {theirs[row, output]!r}"
        )


def size_of_leaves(e: Any, X: Any) -> np.ndarray:
    """Absolute values of the base score and of the leaves that each row reaches, added up: (rows, outputs)."""
    reached = e.apply(X, n_jobs=1)
    size = np.tile(np.abs(e.base_score), (len(reached), 1))
    for tree, (first, stop) in enumerate(pairwise(e.tree_start.tolist())):
        nodes = first + np.argmax(e.leaf_id[first:stop] == reached[:, tree : tree + 1], axis=1)
        output = e.tree_output[tree]
        size[:, output : output + e.width] += np.abs(e.value[nodes])
    # XGBoost weights what a tree of DART and the base score predict, less the base score, in float32.
    size += np.abs(e.base_score) * np.abs(e.tree_weight[e.tree_weight != 1.0]).sum()
    return size


def look_at(thing: Any) -> None:
    """Everything that is done with a loaded Attribution or Importance."""
    if isinstance(thing, ti.Attribution):
        expect(np.all(np.isfinite(thing.values)), "a value is not finite")
        _ = thing[0] if len(thing.values) else None, thing.base_definition, thing.output_labels
    else:
        _ = thing.verdicts, thing.top(2), thing.title, thing.unit, thing[0] if len(thing.scores) else None
        _ = None if thing.rounds is None else thing.by_round()
    expect(repr(thing) and thing._repr_html_(), "nothing to show")
