"""Where calibration.py measures: data whose relevant features are known, models small enough to train by the thousand,
and what one replication records."""

import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import treeinner as ti

N_TRAIN = N_VALID = 1000
N_FEATURES, N_SIGNALS = 30, 5
SIZES = (100, 300, 1000, 5000)
N_TRUTH = 200_000
N_LEVELS, PER_CLUSTER = 300, 5
SLOPES = np.array([1.0, 0.8, 0.6, 0.5, 0.4])  # of the five signals, times the strength of a design
LEVEL_EFFECTS = np.random.default_rng(N_LEVELS).normal(size=N_LEVELS)
CLASS_SLOPES = np.random.default_rng(3).normal(size=(N_SIGNALS, 3))


@dataclass
class Sample:
    X: Any  # array, or pandas frame where a column is categorical
    y: np.ndarray
    weight: np.ndarray | None = None
    clusters: np.ndarray | None = None

    def rows(self, start, stop):
        def cut(a):
            return None if a is None else a[start:stop]

        return Sample(self.X[start:stop], self.y[start:stop], cut(self.weight), cut(self.clusters))


@dataclass(frozen=True)
class Design:
    """One kind of data and one kind of model. The first `signals` features are relevant, `proxies` go with them."""

    name: str
    draw: Callable[[np.random.Generator, int], Sample]
    library: str = "XGBoost"
    params: dict = field(default_factory=dict)
    rounds: int = 60
    signals: int = N_SIGNALS
    proxies: tuple[int, ...] = ()
    oob: bool = False  # scored on the training rows, each tree on its out-of-bag rows

    def rng(self, *key):
        return np.random.default_rng([zlib.crc32(self.name.encode()), *key])


# -- data ----------------------------------------------------------------------------------------------------
def linear(X, strength):
    return strength * (X[:, :N_SIGNALS] @ SLOPES)


def normal_columns(rng, n, n_features=N_FEATURES):
    return rng.normal(size=(n, n_features))


def friedman(rng, n):
    X = rng.random((n, N_FEATURES))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return Sample(X, y + rng.normal(size=n))


def gaussian(strength):
    def draw(rng, n):
        X = normal_columns(rng, n)
        return Sample(X, linear(X, strength) + rng.normal(size=n))

    return draw


def t3_errors(rng, n):
    X = normal_columns(rng, n)
    return Sample(X, linear(X, 0.5) + rng.standard_t(3, size=n))


def lognormal(rng, n):
    X = normal_columns(rng, n)
    return Sample(X, np.exp(linear(X, 0.5) + 1.2 * rng.normal(size=n)))


def logistic(strength, level):
    def draw(rng, n):
        X = normal_columns(rng, n)
        return Sample(X, (linear(X, strength) + level + rng.logistic(size=n) > 0).astype(float))

    return draw


def rare_binary(rng, n):
    X = (rng.random((n, N_FEATURES)) < 0.03).astype(float)
    return Sample(X, linear(X, 2.0) + rng.normal(size=n))


def poisson(rng, n):
    X = normal_columns(rng, n)
    return Sample(X, rng.poisson(np.exp(linear(X, 0.2))).astype(float))


def three_classes(rng, n):
    X = normal_columns(rng, n)
    return Sample(X, (0.4 * X[:, :N_SIGNALS] @ CLASS_SLOPES + rng.gumbel(size=(n, 3))).argmax(axis=1).astype(float))


def categories(rng, n):
    """Column 0, a signal, and column 5, noise, have 300 levels."""
    import pandas as pd

    X = normal_columns(rng, n)
    levels = rng.integers(0, N_LEVELS, size=(n, 2))
    y = 0.5 * (LEVEL_EFFECTS[levels[:, 0]] + X[:, 1:N_SIGNALS] @ SLOPES[1:]) + rng.normal(size=n)
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(N_FEATURES)])
    for column, codes in zip(("x0", "x5"), levels.T, strict=True):
        frame[column] = pd.Categorical.from_codes(codes, categories=range(N_LEVELS))
    return Sample(frame, y)


def correlated(rng, n):
    """Columns 5 to 9 are correlated .9 with the signals, and y depends on them through these only."""
    X = normal_columns(rng, n)
    X[:, 5:10] = 0.9 * X[:, :5] + np.sqrt(1 - 0.81) * X[:, 5:10]
    return Sample(X, linear(X, 0.5) + rng.normal(size=n))


def heteroscedastic(rng, n):
    """Column 5 drives the variance of y and has no effect on its mean."""
    X = normal_columns(rng, n)
    return Sample(X, linear(X, 0.8) + np.exp(X[:, 5]) * rng.normal(size=n))


def weighted(rng, n):
    """Importance weights: towards rows with a larger signal (column 0) and a larger noise feature (column 5)."""
    sample = gaussian(0.3)(rng, n)
    return replace(sample, weight=np.exp(0.7 * (sample.X[:, 0] + sample.X[:, 5])))


def clustered(rng, n):
    """Five measurements of each subject, which share its features and its own level."""
    label = np.repeat(np.arange(-(-n // PER_CLUSTER)), PER_CLUSTER)[:n]
    X, level = normal_columns(rng, label[-1] + 1), rng.normal(size=label[-1] + 1)
    return Sample(X[label], linear(X, 0.5)[label] + level[label] + rng.normal(size=n), clusters=label)


def pure_noise(rng, n):
    return Sample(normal_columns(rng, n), rng.normal(size=n))


def of_eta(noise, binary=False):
    """Four signals, ten noise columns."""

    def draw(rng, n):
        X = normal_columns(rng, n, 14)
        signal = X[:, 0] + np.abs(X[:, 1]) + X[:, 2] * X[:, 3]
        y = signal + noise * (rng.logistic(size=n) if binary else rng.normal(size=n))
        return Sample(X, (y > 0.8).astype(float) if binary else y)

    return draw


LOGISTIC = {"objective": "binary:logistic"}
POISSON = {"objective": "count:poisson", "max_delta_step": 0.7}
SOFTMAX = {"objective": "multi:softprob", "num_class": 3}
DESIGNS = [
    Design("Friedman's function", friedman),
    Design("strong linear signal", gaussian(2.0)),
    Design("weak linear signal", gaussian(0.2)),
    Design("t3 errors", t3_errors),
    Design("lognormal target", lognormal),
    Design("heteroscedastic", heteroscedastic),
    Design("logistic", logistic(0.8, 0.0), params=LOGISTIC),
    Design("2 % positives", logistic(1.2, -5.4), params=LOGISTIC),
    Design("Poisson, max_delta_step .7", poisson, params=POISSON),
    Design("three classes", three_classes, params=SOFTMAX),
    Design("rare binary columns", rare_binary),
    Design("300 categories", categories),
    Design("correlated .9", correlated, proxies=(5, 6, 7, 8, 9)),
    Design("weights", weighted),
    Design("clusters", clustered),
    Design("LightGBM", gaussian(0.3), "LightGBM"),
    Design("random forest", gaussian(0.2), "RandomForest"),
]
OUT_OF_BAG = Design("random forest, out of bag", gaussian(0.2), "RandomForest", oob=True)
ETAS = (0.05, 0.1, 0.3, 0.5, 1.0, 1.3)
TARGETS = {
    "strong signal": Design("eta, strong signal", of_eta(0.5), rounds=80, signals=4),
    "noisy": Design("eta, noisy", of_eta(3.0), rounds=80, signals=4),
    "logistic": Design("eta, logistic", of_eta(0.5, binary=True), params=LOGISTIC, rounds=80, signals=4),
}


# -- models --------------------------------------------------------------------------------------------------
def fit(design, train, *, seed=0, eta=0.1, depth=4):
    """Train on one thread."""
    return {"XGBoost": _xgboost, "LightGBM": _lightgbm, "RandomForest": _forest}[design.library](
        design, train, seed, eta, depth
    )


def _xgboost(design, train, seed, eta, depth):
    import xgboost as xgb

    data = xgb.QuantileDMatrix(
        train.X, train.y, weight=train.weight, max_bin=64, nthread=1, enable_categorical=not _is_array(train.X)
    )
    params = {"eta": eta, "max_depth": depth, "max_bin": 64, "nthread": 1, "seed": seed, **design.params}
    return xgb.train(params, data, design.rounds)


def _lightgbm(design, train, seed, eta, depth):
    import lightgbm as lgb

    params = {"learning_rate": eta, "max_depth": depth, "num_leaves": 2**depth, "max_bin": 63, "seed": seed}
    params |= {"num_threads": 1, "verbose": -1, "force_col_wise": True, **design.params}
    return lgb.train(params, lgb.Dataset(train.X, train.y, weight=train.weight), design.rounds)


def _forest(design, train, seed, eta, depth):
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(
        design.rounds, max_depth=2 * depth, min_samples_leaf=5, max_features=0.3, n_jobs=1, random_state=seed
    )
    return forest.fit(train.X, train.y, sample_weight=train.weight)


def _is_array(X):
    return isinstance(X, np.ndarray)


def score(model, sample, score="tree_inner", **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ti.TreeInnerWarning)
        return ti.importance(
            model,
            sample.X,
            sample.y,
            score=score,
            sample_weight=sample.weight,
            clusters=sample.clusters,
            n_jobs=1,
            **how,
        )


# -- one replication -----------------------------------------------------------------------------------------
def p_values(imp):
    """Two-sided, by two tests: Student's t with effective rows, and the normal distribution; 1 where nothing is known.

    A p value counts as found only where the score is positive; `up` says where.
    """
    from scipy.special import ndtr

    asked = imp.std_errors > 0
    z = np.divide(imp.scores, imp.std_errors, out=np.zeros_like(imp.scores), where=asked)
    return {"t": imp.p_values, "z": 2 * ndtr(-np.abs(z)), "up": (imp.scores > 0).astype(int)}


def split_on(model):
    """Which features the model splits on: (features,)."""
    return np.isin(np.arange(model.n_features), model.trees.column)


def significance(design, replication, eta=0.1, n=N_VALID, depth=4):
    """p values of a model's features on fresh rows, by TreeInner and by the loss breakdown."""
    rng = design.rng(0, replication)
    data = design.draw(rng, 2 * n)
    train, valid = data.rows(0, n), data.rows(n, 2 * n)
    fitted = fit(design, train, seed=replication, eta=eta, depth=depth)
    model = ti.read_model(fitted)
    if design.oob:
        found = {"tree_inner": score(model, train, oob=True)}
    else:
        found = {name: score(model, valid, score=name) for name in ("tree_inner", "loss")}
    p = {name: p_values(imp) for name, imp in found.items()}
    return {"used": split_on(model).astype(int), "p": p}


def coverage(design, replication, score_name="tree_inner", samples=20):
    """How often the intervals of one model's scores, on samples of each size, contain the scores of many rows."""
    rng = design.rng(1, replication)
    model = ti.read_model(fit(design, design.draw(rng, N_TRAIN), seed=replication))
    many = replace(design.draw(rng, N_TRUTH), clusters=None)  # clusters matter to standard errors only
    truth = score(model, many, score=score_name, std_errors=False).scores
    out = {"used": split_on(model).astype(int), "truth": truth, "samples": samples}
    for n in SIZES:
        found = [score(model, design.draw(rng, n), score=score_name) for _ in range(samples)]
        scores, errors = np.array([imp.scores for imp in found]), np.array([imp.std_errors for imp in found])
        intervals = [imp.interval() for imp in found]
        inside = np.array([(low <= truth) & (truth <= high) for low, high in intervals])
        out[str(n)] = {
            "reached": (errors > 0).sum(axis=0),  # else no row came where the feature's splits tell rows apart
            "inside": (inside & (errors > 0)).sum(axis=0),
            "mean": scores.mean(axis=0),
            "sd": scores.std(axis=0, ddof=1),
            "error": np.sqrt((errors**2).mean(axis=0)),
        }
    return out


def misuse(replication):
    """p values that must not be trusted: dependent rows taken as independent, rows that helped to make the model."""
    import lightgbm as lgb

    design = Design("misuse", pure_noise, "LightGBM")
    data = clustered(design.rng(0, replication), 2 * N_TRAIN)
    model = ti.read_model(fit(design, data.rows(0, N_TRAIN)))
    valid = data.rows(N_TRAIN, 2 * N_TRAIN)
    found = {"clusters=": (model, valid), "clusters left out": (model, replace(valid, clusters=None))}

    data = pure_noise(design.rng(1, replication), N_TRAIN + 400)
    train, valid, fresh = data.rows(0, N_TRAIN), data.rows(N_TRAIN, N_TRAIN + 200), data.rows(N_TRAIN + 200, None)
    params = {
        "learning_rate": 0.1,
        "max_depth": 4,
        "num_leaves": 12,
        "num_threads": 1,
        "verbose": -1,
        "seed": replication,
    }
    params |= {"bagging_fraction": 0.5, "bagging_freq": 1, "feature_fraction_bynode": 0.5}
    rows = lgb.Dataset(train.X, train.y)
    watch = [lgb.Dataset(valid.X, valid.y, reference=rows)]
    stop = [lgb.early_stopping(100, verbose=False)]
    stopped = ti.read_model(lgb.train(params, rows, 100, valid_sets=watch, callbacks=stop))
    models = [ti.read_model(lgb.train(params | {"seed": seed}, rows, 10)) for seed in range(10)]
    best = min(models, key=lambda m: np.mean((valid.y - m.predict(valid.X, n_jobs=1)) ** 2))
    found |= {
        "stopped early, fresh rows": (stopped, fresh),
        "stopped early, the same rows": (stopped, valid),
        "best of ten, fresh rows": (best, fresh),
        "best of ten, the same rows": (best, valid),
        "the training rows": (stopped, train),
    }
    return {
        case: {"used": split_on(m).astype(int), "p": np.where(imp.scores > 0, imp.p_values, 1.0)}
        for case, m, imp in ((case, m, score(m, rows)) for case, (m, rows) in found.items())
    }


def timed(function, *args, **kwargs):
    began = time.process_time()
    return {**function(*args, **kwargs), "seconds": time.process_time() - began}
