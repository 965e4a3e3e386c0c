"""Where rivals.py measures: data whose relevant columns are known, the paper's four problems, and some real data.

Strengths were set by a look at the rivals on one draw, which is not used, so that none of them ranks perfectly.
"""

import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

ROWS = 1000  # to train, and as many to score; the ChIP problems have 3912 and 3897
COLUMNS = 24


@dataclass(frozen=True, eq=False)
class Draw:
    """Rows to train on and rows to score; relevant: 1, noise: 0, a proxy of a relevant column: NaN."""

    X: np.ndarray
    y: np.ndarray
    relevant: np.ndarray
    task: str = "regression"
    n_train: int | None = None  # None: half of the rows

    @property
    def train(self):
        return self.X[: self._cut], self.y[: self._cut]

    @property
    def valid(self):
        return self.X[self._cut :], self.y[self._cut :]

    @property
    def _cut(self):
        return len(self.X) // 2 if self.n_train is None else self.n_train


def first(n, columns=COLUMNS):
    """Which columns are relevant: the first n."""
    return (np.arange(columns) < n).astype(float)


SLOPES = np.array([0.3, 0.25, 0.2, 0.15, 0.12, 0.1])


def gaussian(rng, n, correlation=0.0, block=1):
    """Standard normal columns, correlated within blocks of neighbours."""
    common = np.repeat(rng.normal(size=(n, -(-COLUMNS // block))), block, axis=1)[:, :COLUMNS]
    return np.sqrt(correlation) * common + np.sqrt(1 - correlation) * rng.normal(size=(n, COLUMNS))


def independent(rng, n):
    X = gaussian(rng, n)
    return Draw(X, X[:, :6] @ SLOPES + rng.normal(size=n), first(6))


def beside_strong(strong):
    """Two strong signals of so many times the slopes 1.2 and 0.8, and four weak ones."""

    def make(rng, n):
        X = gaussian(rng, n)
        slopes = [1.2 * strong, 0.8 * strong, 0.25, 0.2, 0.15, 0.12]
        return Draw(X, X[:, :6] @ slopes + rng.normal(size=n), first(6))

    return make


def correlated_blocks(rng, n):
    """Blocks of four with correlation .7: two relevant columns and two proxies in each of three; three of noise."""
    X, relevant = gaussian(rng, n, 0.7, 4), np.zeros(COLUMNS)
    true, proxies = [0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11]
    relevant[true], relevant[proxies] = 1, np.nan
    return Draw(X, X[:, true] @ SLOPES + rng.normal(size=n), relevant)


def redundant(rng, n):
    """Three signals, each in four near copies (correlation .95) that are all relevant; twelve columns of noise."""
    X = gaussian(rng, n)
    X[:, :12] = np.sqrt(0.95) * np.repeat(rng.normal(size=(n, 3)), 4, axis=1) + np.sqrt(0.05) * X[:, :12]
    return Draw(X, X[:, [0, 4, 8]] @ [0.3, 0.2, 0.15] + rng.normal(size=n), first(12))


def interactions(rng, n):
    X = gaussian(rng, n)
    y = 0.35 * X[:, 0] * X[:, 1] + 0.3 * X[:, 2] * X[:, 3] + 0.2 * np.abs(X[:, 4]) + 0.15 * X[:, 5] ** 2
    return Draw(X, y + rng.normal(size=n), first(6))


def binary(rng, n):
    X = gaussian(rng, n)
    return Draw(X, (X[:, :6] @ (1.2 * SLOPES) + rng.logistic(size=n) > 0).astype(float), first(6), "binary")


def four_classes(rng, n):
    X = gaussian(rng, n)
    angle = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    effects = 2 * SLOPES[:, None] * np.cos(angle[:, None] + np.pi / 2 * np.arange(4))
    return Draw(X, (X[:, :6] @ effects + rng.gumbel(size=(n, 4))).argmax(axis=1), first(6), "classes")


def heavy_tails(rng, n):
    X = gaussian(rng, n)
    return Draw(X, X[:, :6] @ SLOPES + rng.standard_t(2.5, size=n) / np.sqrt(5), first(6))


def levels(rng, n):
    """Weak signals of two levels; noise of two levels, of twenty, and of as many as there are rows."""
    X = gaussian(rng, n)
    X[:, :12], X[:, 12:18] = X[:, :12] > 0, rng.integers(0, 20, (n, 6))
    return Draw(X, X[:, :6] @ (2 * SLOPES) + rng.normal(size=n), first(6))


def poisson(rng, n):
    X = gaussian(rng, n)
    return Draw(X, rng.poisson(np.exp(X[:, :6] @ (0.6 * SLOPES))).astype(float), first(6), "poisson")


OWN: dict[str, Callable[..., Draw]] = {
    "independent Gaussian": independent,
    "weak beside strong": beside_strong(1.0),
    "weak beside very strong": beside_strong(3.0),
    "correlated blocks": correlated_blocks,
    "redundant copies": redundant,
    "interactions": interactions,
    "binary, weak": binary,
    "four classes": four_classes,
    "heavy tails": heavy_tails,
    "few levels beside many": levels,
    "Poisson": poisson,
}
PLACEBO = "Simulated regression, placebo"
PAPER = ("Simulated classification", "Simulated regression", "ChIP classification", "ChIP regression")


@functools.cache
def chip_rows():
    """Features of the ChIP files, or None where they are not here."""
    from treeinner_study.chip import find_chip, load_chip
    from treeinner_study.names import StudyError

    try:
        return load_chip(find_chip())
    except StudyError:
        return None


def designs():
    """Names of the designs that can be drawn here."""
    return [*OWN, *(name for name in PAPER if not name.startswith("ChIP") or chip_rows() is not None)]


@functools.lru_cache(maxsize=1)
def draw(design, number):
    """One draw of a design; no two designs share random numbers."""
    if design in DRAWN:
        return DRAWN[design](np.random.default_rng([zlib.crc32(design.encode()), number]), 2 * ROWS)
    from treeinner_study.names import Problem
    from treeinner_study.problems import Seeds, make_data, permuted_labels

    problem = Problem(*design.removesuffix(", placebo").split())
    chip = chip_rows() if problem.dataset == "ChIP" else None
    seeds = Seeds(0, problem, number)
    data = make_data(problem, "as_run", seeds.generator("data"), chip)
    if design == PLACEBO:  # no column says anything, but the ones called relevant have few levels
        data = permuted_labels(data, seeds.generator("placebo"))
    X, y = np.concatenate([data.X_train, data.X_valid]), np.concatenate([data.y_train, data.y_valid])
    task = "binary" if problem.task == "classification" else "regression"
    return Draw(X, y.astype(float), data.relevant.astype(float), task, len(data.X_train))


def long_steps(rows):
    """Six signals, and noise columns with correlation .8 among themselves."""

    def make(rng, _):
        X = gaussian(rng, 2 * rows, 0.8, COLUMNS)
        X[:, :6] = rng.normal(size=(2 * rows, 6))
        return Draw(X, X[:, :6] @ SLOPES + rng.normal(size=2 * rows), first(6))

    return make


def real(name):
    """A data set of scikit-learn, half of its rows to train; which columns are relevant is not known."""

    def make(rng, _):
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        order, n_classes = rng.permutation(len(X)), len(np.unique(y))
        task = "binary" if n_classes == 2 else "classes" if n_classes < 10 else "regression"
        return Draw(X[order], y[order].astype(float), np.full(X.shape[1], np.nan), task, len(X) // 2)

    return make


LONG_STEPS = {f"{rows} rows": long_steps(rows) for rows in (1000, 5000)}
REAL = {name.replace("_", " "): real(name) for name in ("breast_cancer", "diabetes", "wine")}
DRAWN = OWN | LONG_STEPS | REAL
