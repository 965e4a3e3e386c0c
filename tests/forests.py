"""Random ensembles and rows for them, from one seed: every shape, rule and corner that the kernels must get right."""

from dataclasses import dataclass

import numpy as np

from treeinner.ensemble import Ensemble
from treeinner.tables import Schema

GRID = np.array([-2.0, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.0])


@dataclass
class Recipe:
    """What a random ensemble should look like."""

    n_trees: int = 5
    depth: int = 5
    n_columns: int = 5
    n_categorical: int = 0
    n_categories: int = 12
    n_outputs: int = 1
    vector: bool = False  # vector leaves
    grow: float = 0.85  # chance that a node above the last depth is split
    thresholds: np.ndarray | None = None  # drawn from these
    right_if: str = "greater"
    float32_input: bool = False
    known: bool = False  # categories outside the known ones are missing
    zero_as_missing: tuple[int, ...] = ()


def make_ensemble(recipe: Recipe, seed: int) -> Ensemble:
    rng = np.random.default_rng(seed)
    thresholds = GRID if recipe.thresholds is None else recipe.thresholds
    rows = {"feature": [], "threshold": [], "left": [], "right": [], "missing_left": [], "set": [], "cover": []}
    starts, sets = [0], []
    for _ in range(recipe.n_trees):
        _grow(recipe, rng, thresholds, rows, sets)
        starts.append(len(rows["feature"]))
    feature = np.array(rows["feature"])
    leaf, n = feature < 0, len(feature)
    width = recipe.n_outputs if recipe.vector else 1
    value = np.where(leaf[:, None], rng.normal(size=(n, width)), 0.0)
    node_value = np.where(leaf[:, None], value, rng.normal(size=(n, width)))
    output = np.zeros(recipe.n_trees, int) if recipe.vector else np.arange(recipe.n_trees) % recipe.n_outputs
    categorical = np.arange(recipe.n_columns) < recipe.n_categorical
    return Ensemble(
        tree_start=starts,
        tree_output=output,
        tree_round=np.arange(recipe.n_trees) // (1 if recipe.vector else recipe.n_outputs),
        tree_weight=np.ones(recipe.n_trees),
        tree_rate=np.full(recipe.n_trees, 0.3),
        feature=feature,
        threshold=rows["threshold"],
        left=rows["left"],
        right=rows["right"],
        missing_left=rows["missing_left"],
        category_set=rows["set"],
        value=value,
        node_value=node_value,
        cover=rows["cover"],
        gain=np.zeros(n),
        leaf_id=np.where(leaf, np.arange(n), -1),
        set_start=np.concatenate([[0], np.cumsum([len(s) for s in sets])]),
        set_codes=np.concatenate([*sets, np.zeros(0, int)]),
        base_score=rng.normal(size=recipe.n_outputs),
        schema=Schema(
            n_columns=recipe.n_columns,
            categorical=tuple(categorical.tolist()),
            known_codes=tuple(recipe.n_categories if c else None for c in categorical) if recipe.known else None,
        ),
        library="test",
        objective="",
        right_if=recipe.right_if,
        float32_input=recipe.float32_input,
        zero_as_missing=recipe.zero_as_missing,
    )


def _grow(recipe, rng, thresholds, rows, sets):
    def add(depth, cover):
        node = len(rows["feature"])
        for name, empty in (("feature", -1), ("threshold", np.nan), ("left", -1), ("right", -1), ("set", -1)):
            rows[name].append(empty)
        rows["missing_left"].append(bool(rng.integers(2)))
        rows["cover"].append(cover)
        if depth == recipe.depth or rng.random() >= recipe.grow:
            return node
        column = int(rng.integers(recipe.n_columns))
        rows["feature"][node] = column
        if column < recipe.n_categorical:
            rows["set"][node] = len(sets)
            sets.append(np.flatnonzero(rng.random(recipe.n_categories) < 0.5))
        else:
            rows["threshold"][node] = float(rng.choice(thresholds))
        share = rng.uniform(0.05, 0.95)
        rows["left"][node] = add(depth + 1, cover * share)
        rows["right"][node] = add(depth + 1, cover * (1 - share))
        return node

    add(0, 1000.0)


def make_rows(ensemble: Ensemble, n_rows: int, seed: int) -> np.ndarray:
    """Rows at, just below and just above the thresholds, with zeros of both signs, denormals, infinities and NaN."""
    rng = np.random.default_rng(seed)
    n_columns = ensemble.schema.n_columns
    X = rng.normal(size=(n_rows, n_columns))
    split = (ensemble.feature >= 0) & (ensemble.category_set < 0)
    if split.any():
        at = rng.choice(ensemble.threshold[split], size=X.shape)
        near = rng.choice([-1, 0, 1], size=X.shape)
        towards = np.where(near > 0, np.inf, -np.inf)
        around = np.where(near == 0, at, np.nextafter(at, towards))
        if ensemble.float32_input:
            at32 = at.astype(np.float32)
            around = np.where(near == 0, at32, np.nextafter(at32, towards.astype(np.float32)))
        X = np.where(rng.random(X.shape) < 0.5, around, X)
    odd = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e-40, 1e300, 1e-36], size=X.shape)
    X = np.where(rng.random(X.shape) < 0.25, odd, X)
    for column in np.flatnonzero(ensemble.schema.categorical or np.zeros(n_columns, bool)):
        codes = rng.choice([-2, -1, -0.5, 0, 1, 2, 3, 4.0, 5, 6.7, 7, 8, 9, 10, 11, 12, 1e9, np.nan], size=n_rows)
        X[:, column] = np.where(rng.random(n_rows) < 0.5, rng.integers(0, 400, n_rows), codes)
    return X
