"""Where calibration.py measures: data whose relevant columns are known, models as users fit them, and what is recorded
of one draw."""

import time
import warnings
import zlib
from dataclasses import dataclass

import numpy as np

import treeinner as ti

SIZES = (150, 500, 2000, 5000)  # rows that a model is scored on, for tests and intervals
COMPARED = (500, 2000)  # where TreeInner is tested beside signal
MANY_ROWS = (2000, 5000)  # where forest_inner is tested beside signal, for large steps
N_TRAIN, FEW = 1000, 300
N_TRUTH = 50_000
ITERATIONS, TREES = 200, 50  # of CatBoost, whose default is 1000, and of forests
SIGNALS = 6
KINDS = {  # of noise, by column
    "normal": (6, 7, 8),
    "correlated .8": (9, 10, 11, 12),
    "many levels": (13, 14),
    "few levels": (15, 16),
    "rare": (17, 18),
    "drives the variance": (19, 20),
}
N_FEATURES = 21
CATEGORIES = {"x4": 5, "x14": 200, "x16": 5}  # columns that may be passed as categories, and their levels
PER_CLUSTER = 5
CLASS_SLOPES = np.random.default_rng(3).normal(size=(SIGNALS, 4))


# -- data ----------------------------------------------------------------------------------------------------
def columns(rng, n):
    """Six columns that matter, fifteen that do not, of every kind at once: (n, 21)."""
    X = rng.normal(size=(n, N_FEATURES))
    X[:, 2] = rng.uniform(-np.sqrt(3), np.sqrt(3), n)
    X[:, 3] = rng.random(n) < 0.5
    X[:, 4] = rng.integers(0, 5, n)
    X[:, 9:13] = np.sqrt(0.8) * rng.normal(size=(n, 1)) + np.sqrt(0.2) * X[:, 9:13]
    X[:, 13] = rng.integers(0, 1000, n)
    X[:, 14] = np.floor(200 * rng.random(n) ** 2)  # the first levels are frequent, the last ones rare
    X[:, 15] = rng.integers(0, 3, n)
    X[:, 16] = rng.integers(0, 5, n)
    X[:, 17] = rng.random(n) < 0.03
    X[:, 18] = rng.random(n) < 0.01
    X[:, 20] = rng.random(n) < 0.2
    return X


def effects(X):
    """What each relevant column does, medium and weak: (rows, 6). The last one matters where column 3 is 1."""
    x = X[:, :SIGNALS].T
    parts = [x[0], 0.5 * x[1], 0.6 * (x[2] ** 2 - 1), x[3] - 0.5, 0.4 * (x[4] - 2), 0.8 * x[5] * x[3]]
    return np.stack(parts, axis=1)


def spread(X):
    """How columns 19 and 20 scale the errors."""
    return np.exp(0.4 * X[:, 19]) * np.where(X[:, 20] > 0, 2.0, 1.0)


def gaussian(rng, X):
    return 0.4 * effects(X).sum(axis=1) + spread(X) * rng.normal(size=len(X))


def heavy_tails(rng, X):
    return 0.5 * effects(X).sum(axis=1) + spread(X) * rng.standard_t(2.5, size=len(X))


def lognormal(rng, X):
    """Its mean is exp(.5 effects), whatever the spread."""
    sd = np.sqrt(spread(X))
    return np.exp(0.5 * effects(X).sum(axis=1) + sd * rng.normal(size=len(X)) - sd**2 / 2)


def logistic(strength, level):
    def draw(rng, X):
        return (strength * effects(X).sum(axis=1) + level + rng.logistic(size=len(X)) > 0).astype(int)

    return draw


def classes(rng, X):
    return (0.6 * effects(X) @ CLASS_SLOPES + rng.gumbel(size=(len(X), 4))).argmax(axis=1)


def counts(rng, X):
    """Poisson, with a mean that varies between rows of the same columns; how much, columns 19 and 20 say."""
    sd = 0.3 * spread(X)
    return rng.poisson(np.exp(0.25 * effects(X).sum(axis=1) + sd * rng.normal(size=len(X)) - sd**2 / 2)).astype(float)


@dataclass(frozen=True)
class Target:
    """How y follows from the columns, and the loss that models of it minimise."""

    name: str
    draw: object  # (rng, X) -> y
    loss: str = "squared"
    noise: tuple[int, ...] = tuple(range(SIGNALS, N_FEATURES))


TARGETS = (
    Target("Gaussian", gaussian),
    Target("t2.5", heavy_tails),
    Target("lognormal", lognormal),
    Target("binary, 50 %", logistic(0.6, 0.0), "logistic"),
    Target("binary, 5 %", logistic(0.8, -3.6), "logistic"),
    Target("4 classes", classes, "softmax"),
    Target("Poisson", counts, "poisson"),
)
KINKS = (
    Target("absolute error", heavy_tails, "absolute"),
    # what drives the variance moves the 80 % quantile: there it is no noise
    Target("quantile .8", heavy_tails, "quantile", tuple(range(SIGNALS, 19))),
)


# -- models --------------------------------------------------------------------------------------------------
def xgboost(loss, seed, **params):
    from xgboost import XGBClassifier, XGBRegressor

    by_loss = {
        "poisson": {"objective": "count:poisson"},
        "absolute": {"objective": "reg:absoluteerror"},
        "quantile": {"objective": "reg:quantileerror", "quantile_alpha": 0.8},
    }
    make = XGBClassifier if loss in ("logistic", "softmax") else XGBRegressor
    return make(n_jobs=1, random_state=seed, **by_loss.get(loss, {}), **params)


def lightgbm(loss, seed, **params):
    from lightgbm import LGBMClassifier, LGBMRegressor

    by_loss = {
        "poisson": {"objective": "poisson"},
        "absolute": {"objective": "l1"},
        "quantile": {"objective": "quantile", "alpha": 0.8},
    }
    make = LGBMClassifier if loss in ("logistic", "softmax") else LGBMRegressor
    return make(n_jobs=1, random_state=seed, verbose=-1, **by_loss.get(loss, {}), **params)


def catboost(loss, seed, **params):
    from catboost import CatBoostClassifier, CatBoostRegressor

    by_loss = {"poisson": "Poisson", "absolute": "MAE", "quantile": "Quantile:alpha=0.8"}
    params = {"iterations": ITERATIONS, "loss_function": by_loss.get(loss), **params}
    make = CatBoostClassifier if loss in ("logistic", "softmax") else CatBoostRegressor
    return make(thread_count=1, random_seed=seed, verbose=0, allow_writing_files=False, **params)


def hist(loss, seed, **params):
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    if loss in ("logistic", "softmax"):
        return HistGradientBoostingClassifier(random_state=seed, **params)
    names = {"squared": "squared_error", "poisson": "poisson", "absolute": "absolute_error", "quantile": "quantile"}
    quantile = {"quantile": 0.8} if loss == "quantile" else {}
    return HistGradientBoostingRegressor(loss=names[loss], random_state=seed, **quantile, **params)


def forest(kind):
    def make(loss, seed):
        import sklearn.ensemble

        what = "Classifier" if loss in ("logistic", "softmax") else "Regressor"
        return getattr(sklearn.ensemble, f"{kind}{what}")(TREES, random_state=seed, n_jobs=1)

    return make


def lightgbm_forest(loss, seed):
    deep = {"num_leaves": 255, "min_child_samples": 5, "n_estimators": TREES}
    return lightgbm(loss, seed, boosting_type="rf", bagging_freq=1, bagging_fraction=0.632, **deep)


def setting(eta, depth):
    """XGBoost with 100 rounds; fewer bins than its default, for speed."""
    return lambda loss, seed: xgboost(loss, seed, learning_rate=eta, max_depth=depth, max_bin=64)


def additive(loss, seed):
    """XGBoost's defaults, but each tree has one column: contributions of the others do not depend on a column."""
    return xgboost(loss, seed, interaction_constraints=str([[k] for k in range(N_FEATURES)]))


LIBRARIES = {"XGBoost": xgboost, "LightGBM": lightgbm, "CatBoost": catboost, "HistGradientBoosting": hist}
GRID = {f"eta {eta:g}, depth {depth}": setting(eta, depth) for eta in (0.05, 0.3, 1.0) for depth in (3, 6, 10)}
FORESTS = {
    "RandomForest": forest("RandomForest"),
    "ExtraTrees": forest("ExtraTrees"),
    "LightGBM rf": lightgbm_forest,
}


@dataclass(frozen=True)
class Cell:
    """One target and one kind of model."""

    target: Target
    model: str
    make: object  # (loss, seed) -> estimator
    n_train: int = N_TRAIN
    categories: bool = False
    samples: int = 3  # of each size, in draws that measure coverage
    steep: bool = False  # large steps: forest_inner is tested too

    def rng(self, *key):
        """The data of a draw are the same for all models of a target."""
        return np.random.default_rng([zlib.crc32(self.target.name.encode()), self.n_train, *key])

    def sample(self, rng, n):
        X = columns(rng, n)
        y = self.target.draw(rng, X)
        return (framed(X) if self.categories else X), y

    def fit(self, rng, seed):
        estimator, (X, y) = self.make(self.target.loss, seed), self.sample(rng, self.n_train)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ti.read_model(estimator.fit(X, y))


def framed(X):
    """A frame whose columns CATEGORIES are categories."""
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(N_FEATURES)])
    for name, levels in CATEGORIES.items():
        frame[name] = pd.Categorical.from_codes(frame[name].astype(int), categories=range(levels))
    return frame


WITH_CATEGORIES = {
    "XGBoost": lambda loss, seed: xgboost(loss, seed, enable_categorical=True),
    "LightGBM": lightgbm,
    "CatBoost": lambda loss, seed: catboost(loss, seed, cat_features=list(CATEGORIES)),
    "HistGradientBoosting": hist,
}
PICKED = (TARGETS[0], TARGETS[2], TARGETS[4], TARGETS[5])  # forests are slow: not all targets
STUDIES = {
    "libraries": [Cell(t, name, make) for t in TARGETS for name, make in LIBRARIES.items()],
    "rates": [Cell(t, name, make, samples=1, steep="eta 1," in name) for t in TARGETS for name, make in GRID.items()],
    "forests": [Cell(t, name, make) for t in PICKED for name, make in FORESTS.items()],
    "few": [Cell(t, n, LIBRARIES[n], n_train=FEW, samples=1) for t in TARGETS for n in ("XGBoost", "LightGBM")],
    "kinks": [Cell(t, n, LIBRARIES[n]) for t in KINKS for n in ("XGBoost", "LightGBM", "HistGradientBoosting")],
    "categories": [
        Cell(t, name, make, categories=True, samples=1)
        for t in (TARGETS[0], TARGETS[3])
        for name, make in WITH_CATEGORIES.items()
    ],
    "additive": [Cell(t, "XGBoost, additive", additive, samples=1) for t in (TARGETS[3], TARGETS[5])],
}


# -- what is recorded of one draw ----------------------------------------------------------------------------
def quiet(function, model, X, y, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ti.TreeInnerWarning)
        return function(model, X, y, n_jobs=1, **how)


def score(model, X, y, **how):
    return quiet(ti.importance, model, X, y, **how)


def signed_p(imp):
    """Two-sided p values, with the sign of the score."""
    return np.where(imp.scores < 0, -1.0, 1.0) * imp.p_values


def used(model):
    """Which columns the model splits on: (columns,)."""
    return np.isin(np.arange(N_FEATURES), model.trees.column).astype(int)


def measured(cell, draw, *, covered):
    """p values of one model on fresh rows of each size; covered: also whether intervals contain what many rows give."""
    rng = cell.rng(draw)
    model = cell.fit(rng, draw)
    many = score(model, *cell.sample(rng, N_TRUTH), score="signal") if covered else None
    out = {"used": used(model), "signal": {}, "tree_inner": {}, "forest_inner": {}}
    if many:
        out |= {"truth": {"score": many.scores, "holds": np.nan_to_num(many.holds)}, "covered": {}}
    for n in SIZES:
        rows = [cell.sample(rng, n) for _ in range(cell.samples if covered else 1)]
        found = [score(model, *some, score="signal") for some in rows]
        out["signal"][str(n)] = signed_p(found[0])
        if n in COMPARED:
            out["tree_inner"][str(n)] = signed_p(score(model, *rows[0], score="tree_inner"))
        if cell.steep and n in MANY_ROWS:
            out["forest_inner"][str(n)] = signed_p(quiet(ti.forest_inner, model, *rows[0]))
        if many:
            out["covered"][str(n)] = inside(found, many)
    return out


def inside(found, many):
    """By column: how many intervals there were, and how many contained the truth; of the score, of holds, and of holds
    where it is printed (its error is below .5)."""
    ends = [(imp.interval(), imp.holds_interval(), imp) for imp in found]
    known = np.array([imp.std_errors > 0 for imp in found])
    shown = np.array([imp.holds_std_errors < 0.5 for imp in found])
    there = known & np.array([np.isfinite(imp.holds_std_errors) for imp in found])
    score_in = np.array([(low <= many.scores) & (many.scores <= high) for (low, high), _, _ in ends])
    holds_in = np.array([(low <= many.holds) & (many.holds <= high) for _, (low, high), _ in ends])
    pairs = {"score": (known, score_in), "holds": (there, holds_in), "holds shown": (there & shown, holds_in)}
    return {name: [(asked & hit).sum(axis=0), asked.sum(axis=0)] for name, (asked, hit) in pairs.items()}


# -- rows that are not clean, weighted, or not independent ---------------------------------------------------
def checks(draw):
    """Signed p values by case: early stopping and tuning on the scored rows, weights, clusters."""
    return {**stopped(draw, "XGBoost"), **stopped(draw, "LightGBM"), **weighted(draw), **clustered(draw)}


def stopped(draw, library):
    """A binary target; early stopping and the best of ten seeds by 500 rows, which are then scored; and 500 others."""
    cell = Cell(TARGETS[3], library, LIBRARIES[library])
    rng = cell.rng(draw, 1)
    train, valid, fresh = (cell.sample(rng, n) for n in (N_TRAIN, 500, 500))
    how = {"n_estimators": 300, "learning_rate": 0.1}
    if library == "XGBoost":
        model = xgboost("logistic", draw, early_stopping_rounds=10, **how)
        model.fit(*train, eval_set=[valid], verbose=False)
    else:
        import lightgbm as lgb

        model = lightgbm("logistic", draw, **how)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 4.7 has another name for eval_set
            model.fit(*train, eval_set=[valid], callbacks=[lgb.early_stopping(10, verbose=False)])
    sampled = {"subsample": 0.5, "subsample_freq": 1} if library == "LightGBM" else {"subsample": 0.5}
    tried = [LIBRARIES[library]("logistic", seed, n_estimators=30, **sampled).fit(*train) for seed in range(10)]
    best = max(tried, key=lambda m: np.log(m.predict_proba(valid[0])[np.arange(500), valid[1]]).sum())
    cases = {
        "stopped early, fresh rows": (model, fresh),
        "stopped early, the same rows": (model, valid),
        "best of ten, fresh rows": (best, fresh),
        "best of ten, the same rows": (best, valid),
        "the training rows": (model, train),
    }
    return {f"{library}: {case}": recorded(ti.read_model(m), rows) for case, (m, rows) in cases.items()}


def weighted(draw):
    """Importance weights towards rows with a larger signal (column 0) and a larger noise column (6)."""
    cell = Cell(TARGETS[0], "XGBoost", xgboost)
    rng = cell.rng(draw, 2)
    (X, y), rows = cell.sample(rng, N_TRAIN), cell.sample(rng, N_TRAIN)
    weights = [np.exp(0.7 * (Z[:, 0] + Z[:, 6])) for Z in (X, rows[0])]
    model = ti.read_model(xgboost("squared", draw).fit(X, y, sample_weight=weights[0]))
    return {"XGBoost: weights": recorded(model, rows, sample_weight=weights[1])}


def clustered(draw):
    """Five measurements of each of 200 subjects, which share the subject's columns and its own level."""
    cell = Cell(TARGETS[0], "LightGBM", lightgbm)
    rng = cell.rng(draw, 3)
    halves = []
    for _ in range(2):
        X = np.repeat(columns(rng, N_TRAIN // PER_CLUSTER), PER_CLUSTER, axis=0)
        level = np.repeat(rng.normal(size=N_TRAIN // PER_CLUSTER), PER_CLUSTER)
        halves.append((X, gaussian(rng, X) + level))
    model = ti.read_model(lightgbm("squared", draw).fit(*halves[0]))
    labels = np.repeat(np.arange(N_TRAIN // PER_CLUSTER), PER_CLUSTER)
    return {
        "LightGBM: clusters=": recorded(model, halves[1], clusters=labels),
        "LightGBM: clusters left out": recorded(model, halves[1]),
    }


def recorded(model, rows, **how):
    return {"used": used(model), "p": signed_p(score(model, *rows, score="signal", **how))}


def timed(function, *args, **kwargs):
    began = time.process_time()
    return {**function(*args, **kwargs), "seconds": time.process_time() - began}
