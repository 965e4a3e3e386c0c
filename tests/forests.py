"""Random trees and rows for them, from one seed: every shape, rule and corner that the kernels must get right."""

from dataclasses import dataclass

import numpy as np

from treeinner.read import Model
from treeinner.read.trees import NodeValues, Trees, players_of
from treeinner.rows.schema import Schema

GRID = np.array([-2.0, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.0])


@dataclass
class Recipe:
    """What random trees should look like."""

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


def make_trees(recipe: Recipe, seed: int) -> Trees:
    """Random trees with random values in every node, one or several per round."""
    rng = np.random.default_rng(seed)
    thresholds = GRID if recipe.thresholds is None else recipe.thresholds
    rows = {"column": [], "threshold": [], "left": [], "right": [], "missing_left": [], "set": [], "cover": []}
    starts, sets = [0], []
    for _ in range(recipe.n_trees):
        _grow(recipe, rng, thresholds, rows, sets)
        starts.append(len(rows["column"]))
    column = np.array(rows["column"])
    player, player_features = players_of(column)
    leaf, n = column < 0, len(column)
    width = recipe.n_outputs if recipe.vector else 1
    value = np.where(leaf[:, None], rng.normal(size=(n, width)), 0.0)
    node_value = np.where(leaf[:, None], value, rng.normal(size=(n, width)))
    output = np.zeros(recipe.n_trees, int) if recipe.vector else np.arange(recipe.n_trees) % recipe.n_outputs
    known = [recipe.n_categories if j < recipe.n_categorical else None for j in range(recipe.n_columns)]
    return Trees(
        start=starts,
        output=output,
        round=np.arange(recipe.n_trees) // (1 if recipe.vector else recipe.n_outputs),
        weight=np.ones(recipe.n_trees),
        column=column,
        player=player,
        threshold=rows["threshold"],
        left=rows["left"],
        right=rows["right"],
        missing_left=rows["missing_left"],
        category_set=rows["set"],
        set_start=np.concatenate([[0], np.cumsum([len(s) for s in sets])]),
        set_codes=np.concatenate([*sets, np.zeros(0, int)]),
        value=value,
        cover=rows["cover"],
        gain=np.zeros(n),
        leaf_id=np.where(leaf, np.arange(n), -1),
        base=rng.normal(size=recipe.n_outputs),
        player_features=player_features,
        n_features=recipe.n_columns,
        n_columns=recipe.n_columns,
        right_if=recipe.right_if,
        float32_input=recipe.float32_input,
        zero_as_missing=recipe.zero_as_missing,
        known_codes=tuple(known) if recipe.known else None,
        node_values=NodeValues(node_value, np.full(recipe.n_trees, 0.3)),
    )


def make_model(trees: Trees, loss=None, **fields) -> Model:
    """Model of trees made by hand, for the public functions."""
    schema = Schema(n_columns=trees.n_columns, categorical=tuple(is_categorical(trees).tolist()))
    return Model(trees=trees, library="test", schema=schema, find_loss=(loss, "pass objective="), **fields)


def is_categorical(trees: Trees) -> np.ndarray:
    """Which columns are split as categories: (columns,)."""
    return np.isin(np.arange(trees.n_columns), trees.column[trees.category_set >= 0])


def _grow(recipe, rng, thresholds, rows, sets):
    """Add one tree to the lists."""

    def add(depth, cover):
        node = len(rows["column"])
        for name, empty in (("column", -1), ("threshold", np.nan), ("left", -1), ("right", -1), ("set", -1)):
            rows[name].append(empty)
        rows["missing_left"].append(bool(rng.integers(2)))
        rows["cover"].append(cover)
        if depth == recipe.depth or rng.random() >= recipe.grow:
            return node
        column = int(rng.integers(recipe.n_columns))
        rows["column"][node] = column
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


def make_rows(trees: Trees, n_rows: int, seed: int) -> np.ndarray:
    """Rows at, just below and just above the thresholds, with zeros of both signs, denormals, infinities and NaN."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, trees.n_columns))
    split = (trees.column >= 0) & (trees.category_set < 0)
    if split.any():
        at = rng.choice(trees.threshold[split], size=X.shape)
        near = rng.choice([-1, 0, 1], size=X.shape)
        towards = np.where(near > 0, np.inf, -np.inf)
        around = np.where(near == 0, at, np.nextafter(at, towards))
        if trees.float32_input:
            at32 = at.astype(np.float32)
            around = np.where(near == 0, at32, np.nextafter(at32, towards.astype(np.float32)))
        X = np.where(rng.random(X.shape) < 0.5, around, X)
    odd = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e-40, 1e300, 1e-36], size=X.shape)
    X = np.where(rng.random(X.shape) < 0.25, odd, X)
    for column in np.flatnonzero(is_categorical(trees)):
        codes = rng.choice([-2, -1, -0.5, 0, 1, 2, 3, 4.0, 5, 6.7, 7, 8, 9, 10, 11, 12, 1e9, np.nan], size=n_rows)
        X[:, column] = np.where(rng.random(n_rows) < 0.5, rng.integers(0, 400, n_rows), codes)
    return X
