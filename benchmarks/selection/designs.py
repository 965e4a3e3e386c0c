"""Data whose relevant features are known: what promise.py measures selection on.

`DESIGNS[name](n, p, seed)` draws n rows of p columns. A column is

- conditionally relevant if it tells something about the mean of y that all other columns together do not;
- marginally relevant if it is conditionally relevant, or dependent on a column that is (a proxy).
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

N_SIGNALS = 5
BLOCK = 5  # columns of a correlated block
SLOPES = np.array([1.0, 0.8, 0.6, 0.5, 0.4])
N_LEVELS = 6


@dataclass(frozen=True, eq=False)
class Design:
    X: Any  # (n, p) array, or a pandas frame where columns are categorical
    y: np.ndarray
    relevant_marginal: np.ndarray  # (p,) bool
    relevant_conditional: np.ndarray  # (p,) bool
    task: str  # "regression", "binary" or "classes"
    groups: np.ndarray | None = None  # of each row


def relevance(p, columns):
    out = np.zeros(p, bool)
    out[list(columns)] = True
    return out


def design(X, y, conditional, marginal=None, task="regression", groups=None):
    p = X.shape[1]
    true = relevance(p, conditional)
    return Design(X, y, true if marginal is None else true | relevance(p, marginal), true, task, groups)


def blocks(rng, n, p, rho, size=BLOCK):
    """Standard normal columns; within a block of `size` neighbours each pair is correlated rho."""
    shared = rng.normal(size=(n, -(-p // size))).repeat(size, axis=1)[:, :p]
    return np.sqrt(rho) * shared + np.sqrt(1 - rho) * rng.normal(size=(n, p))


FIRST = np.arange(N_SIGNALS)  # the relevant columns of designs without blocks
TRUE = BLOCK * np.arange(3)  # the first members of three blocks
PROXIES = np.arange(3 * BLOCK)  # all their members
TRUE_SLOPES = SLOPES[:3]


# -- independent columns -------------------------------------------------------------------------------------
def friedman(rng, n, p):
    X = rng.random((n, p))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return design(X, y + 3 * rng.normal(size=n), FIRST)


def weak_linear(rng, n, p):
    """Five signals that explain a tenth of the variance between them."""
    X = rng.normal(size=(n, p))
    return design(X, 0.22 * X[:, FIRST] @ SLOPES + rng.normal(size=n), FIRST)


def logistic(rng, n, p):
    X = rng.normal(size=(n, p))
    y = 0.8 * X[:, FIRST] @ SLOPES + rng.logistic(size=n) > 0
    return design(X, y.astype(float), FIRST, task="binary")


def xor(rng, n, p):
    """Two pairs; no member of a pair says anything without the other."""
    X = rng.normal(size=(n, p))
    y = np.sign(X[:, 0] * X[:, 1]) + np.sign(X[:, 2] * X[:, 3])
    return design(X, y + 1.5 * rng.normal(size=n), range(4))


def three_way(rng, n, p):
    """The target is raised where three columns are positive together, and nowhere else."""
    X = rng.normal(size=(n, p))
    return design(X, 2.0 * (X[:, :3] > 0).all(axis=1) + rng.normal(size=n), range(3))


def pure_noise(rng, n, p):
    """Nothing to find; the columns are correlated in blocks."""
    return design(blocks(rng, n, p, 0.5), rng.normal(size=n), ())


def heteroscedastic(rng, n, p):
    """Column 5 drives the variance of y; it has no effect on the mean, and a find of it counts as false."""
    X = rng.normal(size=(n, p))
    return design(X, 0.8 * X[:, FIRST] @ SLOPES + np.exp(0.8 * X[:, 5]) * rng.normal(size=n), FIRST)


# -- dependent columns: one member of a block has the effect, the others are proxies -----------------------------
def correlated_blocks(rng, n, p):
    X = blocks(rng, n, p, 0.8)
    return design(X, X[:, TRUE] @ TRUE_SLOPES + rng.normal(size=n), TRUE, PROXIES)


def near_collinear(rng, n, p):
    """Pairs correlated .995: one of them has the effect, and data of this size can hardly say which."""
    X = blocks(rng, n, p, 0.995, size=2)
    true = 2 * np.arange(3)
    return design(X, X[:, true] @ TRUE_SLOPES + rng.normal(size=n), true, range(6))


def skewed(rng, n, p):
    """Blocks by a Gaussian copula; odd columns lognormal, even ones Student's t with two degrees of freedom."""
    from scipy import special

    Z = blocks(rng, n, p, 0.6)
    X = np.where(np.arange(p) % 2, np.exp(1.2 * Z), special.stdtrit(2, special.ndtr(Z)))
    return design(X, Z[:, TRUE] @ TRUE_SLOPES + rng.normal(size=n), TRUE, PROXIES)


def binary(rng, n, p):
    """Zeros and ones, correlated in blocks; the rates of ones are .05 to .5."""
    from scipy import special

    X = (blocks(rng, n, p, 0.7) < special.ndtri(np.linspace(0.05, 0.5, BLOCK))[np.arange(p) % BLOCK]).astype(float)
    true = TRUE + 3
    y = 1.5 * (X[:, true] @ TRUE_SLOPES - 1) + rng.logistic(size=n) > 0
    return design(X, y.astype(float), true, PROXIES, task="binary")


def categorical(rng, n, p):
    """The first two columns of each block are categories of six levels, the others normal; two categories and a
    normal column of other blocks have effects."""
    import pandas as pd
    from scipy import special

    Z = blocks(rng, n, p, 0.7)
    names = rng.permuted(np.tile(np.arange(N_LEVELS), (p, 1)), axis=1)  # the order of the levels says nothing
    X = pd.DataFrame(Z, columns=[f"x{k}" for k in range(p)])
    y = Z[:, BLOCK + 2] * SLOPES[1] + rng.normal(size=n)
    for k in np.flatnonzero(np.arange(p) % BLOCK < 2):
        codes = names[k][np.minimum((special.ndtr(Z[:, k]) * N_LEVELS).astype(int), N_LEVELS - 1)]
        X[f"x{k}"] = pd.Categorical.from_codes(codes, categories=[f"level {c}" for c in range(N_LEVELS)])
        if k in (0, 2 * BLOCK):
            y += np.array([1.2, -1.2, 0.6, -0.6, 0.0, 0.0])[codes]
    return design(X, y, (0, BLOCK + 2, 2 * BLOCK), PROXIES)


def missing(rng, n, p):
    """Blocks; a value is missing where the next column is large, and missing counts as 0 for the target."""
    X = blocks(rng, n, p, 0.6)
    hidden = np.roll(X, -1, axis=1) + rng.normal(size=(n, p)) > 1.5
    hidden[:, 1::2] = False  # so that what hides a value is seen
    y = np.where(hidden, 0.0, X)[:, TRUE] @ TRUE_SLOPES + rng.normal(size=n)
    return design(np.where(hidden, np.nan, X), y, TRUE, PROXIES)


def curved_proxies(rng, n, p):
    """Column 3 j + 1 is the square of column 3 j plus noise, column 3 j + 2 its absolute value plus noise: uncorrelated
    with it, but not independent."""
    X = rng.normal(size=(n, p))
    for k in range(0, p - 2, 3):
        X[:, k + 1] = X[:, k] ** 2 + 0.5 * X[:, k + 1]
        X[:, k + 2] = np.abs(X[:, k]) + 0.3 * X[:, k + 2]
    y = np.abs(X[:, 0]) + 0.8 * X[:, 3] + 0.6 * np.maximum(X[:, 6], 0) + rng.normal(size=n)
    return design(X, y, (0, 3, 6), range(9))


def chains(rng, n, p):
    """Two chains of columns, AR(1) with .9; three columns of the first one have effects."""
    X, first = rng.normal(size=(n, p)), p * 3 // 5
    for k in set(range(1, p)) - {first}:
        X[:, k] = 0.9 * X[:, k - 1] + np.sqrt(1 - 0.81) * X[:, k]
    true = first * np.array([1, 3, 5]) // 6
    return design(X, X[:, true] @ TRUE_SLOPES + rng.normal(size=n), true, range(first))


def children(shapes) -> Callable[[np.random.Generator, int, int], Design]:
    """Three parents with effects, and two children of each: a function of the parent plus noise."""

    def draw(rng, n, p):
        X = rng.normal(size=(n, p))
        for k in range(3):
            for j, shape in enumerate(shapes):
                X[:, 3 + 2 * k + j] = shape(X[:, k]) + 0.3 * X[:, 3 + 2 * k + j]
        return design(X, X[:, :3] @ TRUE_SLOPES + np.cos(2 * X[:, 0]) + rng.normal(size=n), range(3), range(9))

    return draw


def products(rng, n, p):
    """Column 2 is the product of columns 0 and 1 plus noise, and alone has an effect: given it, they tell nothing."""
    X = rng.normal(size=(n, p))
    X[:, 2] = X[:, 0] * X[:, 1] + 0.3 * X[:, 2]
    return design(X, X[:, 2] + rng.normal(size=n), [2], range(3))


# -- five that had no part in any choice -----------------------------------------------------------------------
def grouped_rows(rng, n, p):
    """Groups of ten rows with an effect of their own on the target; half of the columns are constant in a group."""
    groups = np.arange(n) // 10
    X = rng.normal(size=(n, p))
    X[:, ::2] = X[groups * 10, ::2]
    X[:, 1::2] = np.sqrt(0.5) * (X[:, 1::2] + rng.normal(size=(n, p))[groups * 10, 1::2])
    y = X[:, :4] @ SLOPES[:4] + rng.normal(size=n)[groups] + rng.normal(size=n)
    return design(X, y, range(4), groups=groups)


def sum_and_parts(rng, n, p):
    """Column 3 is the sum of columns 0, 1 and 2, column 7 that of 4, 5 and 6; columns 0 and 9 have effects."""
    X = rng.normal(size=(n, p))
    X[:, 3], X[:, 7] = X[:, :3].sum(axis=1), X[:, 4:7].sum(axis=1)
    return design(X, X[:, 0] + 0.6 * X[:, 9] + rng.normal(size=n), (0, 9), (0, 1, 2, 3, 9))


def four_classes(rng, n, p):
    """Four classes by noisy maxima of single columns, the columns correlated in blocks."""
    X = blocks(rng, n, p, 0.6)
    true = BLOCK * np.arange(4)
    return design(X, (1.2 * X[:, true] + rng.gumbel(size=(n, 4))).argmax(axis=1), true, range(4 * BLOCK), "classes")


def rare_class(rng, n, p):
    """About one row of twelve is positive."""
    X = rng.normal(size=(n, p))
    y = 0.8 * X[:, FIRST] @ SLOPES + rng.logistic(size=n) > 3
    return design(X, y.astype(float), FIRST, task="binary")


def heavy_tails(rng, n, p):
    """Blocks, and errors of Student's t with 2.5 degrees of freedom."""
    X = blocks(rng, n, p, 0.6)
    return design(X, X[:, TRUE] @ TRUE_SLOPES + rng.standard_t(2.5, n), TRUE, PROXIES)


DRAWS = {
    "Friedman": friedman,
    "weak linear": weak_linear,
    "logistic": logistic,
    "XOR": xor,
    "three-way": three_way,
    "pure noise": pure_noise,
    "heteroscedastic": heteroscedastic,
    "correlated blocks": correlated_blocks,
    "near-collinear": near_collinear,
    "skewed": skewed,
    "binary": binary,
    "categorical": categorical,
    "missing": missing,
    "curved proxies": curved_proxies,
    "AR(1) chains": chains,
    "curved children": children((lambda x: x**2, lambda x: np.sin(1.5 * x))),
    "bent children": children((lambda x: np.cos(3 * x), lambda x: np.exp(-4 * (x - 0.5) ** 2))),
    "products": products,
    "grouped rows": grouped_rows,
    "sum and parts": sum_and_parts,
    "four classes": four_classes,
    "rare class": rare_class,
    "heavy tails": heavy_tails,
}


def seeded(name) -> Callable[[int, int, int], Design]:
    """A design as a function of (n, p, seed); no two designs share random numbers."""

    def make(n, p, seed):
        return DRAWS[name](np.random.default_rng([zlib.crc32(name.encode()), n, p, seed]), n, p)

    return make


DESIGNS = {name: seeded(name) for name in DRAWS}
