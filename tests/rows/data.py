"""Rows that the tests of this folder share, and models of every library on them."""

from functools import cache

import catboost
import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from treeinner.read import read_model

N = 1200
RNG = np.random.default_rng(3)
# Dyadic numbers: CSV gives them back to the bit, and float32 holds them.
ALL = pd.DataFrame(np.round(RNG.normal(size=(2 * N, 4)) * 64) / 64, columns=list("abcd"))
ALL.loc[::17, "b"] = np.nan
ALL["kind"] = pd.Categorical(RNG.choice(["NA", "u", "v"], 2 * N), categories=["NA", "u", "v"])
TARGET = np.round((ALL["a"] + (ALL["kind"] == "u") + RNG.normal(size=2 * N)) * 64) / 64
X, Y = ALL[N:].reset_index(drop=True), TARGET[N:].to_numpy()
WEIGHT = RNG.integers(1, 9, N) / 4
NUMBERS = X[list("abcd")]


@cache
def fitted(library):
    """A small regression of the library on columns a to d, with missing values in b."""
    rows, y = ALL[:N][list("abcd")], TARGET[:N]
    if library == "sklearn":
        return HistGradientBoostingRegressor(max_iter=10, max_depth=3).fit(rows, y)
    if library == "forest":
        return RandomForestRegressor(10, max_depth=4, random_state=0).fit(rows.fillna(0.0), y)
    if library == "catboost":
        return catboost.CatBoostRegressor(iterations=10, depth=3, verbose=0, allow_writing_files=False).fit(rows, y)
    kind = {"xgboost": xgboost.XGBRegressor, "lightgbm": lightgbm.LGBMRegressor}[library]
    return kind(n_estimators=10, max_depth=3, verbosity={"xgboost": 1, "lightgbm": -1}[library]).fit(rows, y)


@cache
def with_categories(library):
    """The same with the categories of `kind`."""
    rows, y = ALL[:N], TARGET[:N]
    if library == "xgboost":
        return xgboost.XGBRegressor(n_estimators=12, max_depth=3, enable_categorical=True).fit(rows, y)
    if library == "sklearn":
        return HistGradientBoostingRegressor(max_iter=10, categorical_features="from_dtype").fit(rows, y)
    return lightgbm.LGBMRegressor(n_estimators=12, min_child_samples=5, verbosity=-1).fit(rows, y)


@cache
def model(library, *, categories=False):
    """The Model of one of these."""
    return read_model((with_categories if categories else fitted)(library))


def matrix(table):
    """All numbers of a table, block by block, as float64."""
    step = table.block_rows or 100
    blocks = [table.block(start, min(start + step, table.n_rows)) for start in range(0, table.n_rows, step)]
    return np.concatenate([np.asarray(b if isinstance(b, np.ndarray) else np.column_stack(b), float) for b in blocks])
