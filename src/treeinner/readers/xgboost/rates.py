"""Learning rate, lambda and alpha of XGBoost trees, inferred from the trees, certified by what is left over.

They are not in a saved model, and the configuration of a loaded one silently shows defaults. But the
equations of `equations.py` determine them, mostly many times over; residuals of about one unit of
rounding are the certificate. Where weights were clipped (max_delta_step, monotone constraints) or leaves
replaced, the residuals are 1e4 units and more, and nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeinner.readers._trees import BoolArray, FloatArray, LongArray
from treeinner.readers.xgboost.equations import (
    Fit,
    Splits,
    descend,
    fit_splits,
    read_splits,
    residuals,
    squared_residuals,
    start_x,
)
from treeinner.readers.xgboost.trees import Trees

__all__ = ["Rates", "confirmed_trees", "direct_rates", "infer_rates"]


# Residuals of a tree in units of rounding: at most 1.6 in 3097 plain trees, 1.8e4 and more in clipped ones.
RMS_LIMIT = 6.0
SAMPLE_NODES = 2000  # splits used for a fit; the certificate then judges every tree
CHANCE = 0.01  # how likely a fit without spare equations may be luck before it is not believed
MAX_MISSES = 12  # rounds in a row that fit nothing before the search for blocks stops


@dataclass(frozen=True, eq=False)
class Rates:
    """What was found. Trees whose equations do not hold, or do not determine the rate, have NaN."""

    rate: FloatArray  # (n_trees,)  factor between a leaf's value and its weight
    reg_lambda: float | None  # of the certified trees; None: not determined, or not the same in all of them
    reg_alpha: float | None
    certified: BoolArray  # (n_trees,)  the tree's equations hold
    uniform: bool = True  # no two trees are known to differ in lambda or alpha


def direct_rates(trees: Trees) -> FloatArray:
    """Rates of trees whose leaves kept their weight beside their value (exact, prune, refresh): (n_trees,).

    NaN for other trees. Two leaves of a tree, or of different trees, must give the same ratio; replaced
    leaves each give their own.
    """
    leaf = np.flatnonzero(trees.leaf)
    value, weight = trees.value[leaf], trees.weight[leaf]
    size = np.abs(value)
    differ = (np.abs(weight - value) > 1e-5 * size) & (weight != 0) & (size > 1e-30)
    ratio = value[differ] / weight[differ]
    tree = trees.tree[leaf[np.nonzero(differ)[0]]]
    rate = np.full(trees.n_trees, np.nan)
    if len(ratio) < 2:
        return rate
    low, high = np.full(trees.n_trees, np.inf), np.full(trees.n_trees, -np.inf)
    np.minimum.at(low, tree, ratio)
    np.maximum.at(high, tree, ratio)
    count = np.bincount(tree, minlength=trees.n_trees)
    agree = (count > 0) & (low > 0)
    agree[agree] &= high[agree] <= low[agree] * (1 + 1e-6)
    middle = np.median(ratio)
    agree &= (count > 1) | (np.abs(low - middle) <= 1e-6 * abs(middle))
    rate[agree] = [_shortest(r, 2e-7 * r)[0] for r in (low[agree] + high[agree]) / 2]
    return rate


def infer_rates(
    trees: Trees,
    tree_round: LongArray,
    leaf_value: FloatArray,
    *,
    rate: FloatArray | None = None,
    reg_lambda: float | None = None,
    reg_alpha: float | None = None,
) -> Rates:
    """Fit the equations.

    Parameters
    ----------
    leaf_value : array (n_nodes, width)
        What stands for rate x weight at leaves.
    rate : array (n_trees,), optional
        Rates already known; then only lambda and alpha are sought.
    reg_lambda, reg_alpha : float, optional
        Given numbers are held fixed.
    """
    splits = read_splits(trees, leaf_value)
    nothing = Rates(np.full(trees.n_trees, np.nan), None, None, np.zeros(trees.n_trees, bool))
    if rate is not None:
        splits = splits.take(np.isfinite(rate[splits.tree]) & (rate[splits.tree] > 0))
    if len(splits) == 0:
        return nothing
    with np.errstate(all="ignore"):  # hopeless starts overflow; their residuals then lose against the others
        for common in (True, False) if rate is None else (True,):
            for alpha in (0.0, None) if reg_alpha is None else (reg_alpha,):
                found = _whole(splits, trees.n_trees, common=common, lam=reg_lambda, alpha=alpha, rate=rate)
                if found is not None:
                    return found
        return nothing if rate is not None else _blocks(splits, trees, tree_round, reg_lambda, reg_alpha)


def confirmed_trees(
    trees: Trees, rate: float, lam: float, alpha: float, max_delta_step: float | None
) -> tuple[BoolArray, BoolArray]:
    """Trees in which a split or a clipped leaf agrees with the rate to rounding; those that could show it.

    Clipping spoils some nodes of a tree, rarely all; that a wrong rate fits a single one to seven digits is
    no accident to reckon with.
    """
    s = read_splits(trees, trees.value)
    with np.errstate(all="ignore"):
        residual, _, _, by_x = residuals(s, lam, alpha, np.full(len(s), 1 / rate))
    telling = np.abs(by_x) * 1e-5 > RMS_LIMIT  # a rate wrong in the fifth digit would show
    agrees = np.any(telling & (np.abs(residual) <= RMS_LIMIT), axis=1)
    hits = np.bincount(s.tree, agrees, trees.n_trees) > 0
    if max_delta_step is not None and max_delta_step > 0 and trees.value.shape[1] == 1:
        clipped = trees.leaf & (np.abs(np.abs(trees.value[:, 0]) / (rate * max_delta_step) - 1) < 1e-6)
        hits |= np.bincount(trees.tree, clipped, trees.n_trees) > 0
    checkable = np.bincount(s.tree, telling.any(axis=1), trees.n_trees) > 0
    if trees.value.shape[1] > 1:  # only the sum of the outputs' hessians is stored, so disagreement says nothing
        checkable[:] = False
    return hits, checkable


# -- which trees share what ---------------------------------------------------------------------------
def _tree_rms(s: Splits, n_trees: int, lam: float, alpha: float, x: FloatArray) -> FloatArray:
    """Root mean square of each tree's residuals; 0 for a tree without splits: (n_trees,)."""
    total = np.bincount(s.tree, squared_residuals(s, lam, alpha, x[s.tree]), n_trees)
    count = np.maximum(np.bincount(s.tree, minlength=n_trees) * (1 + s.width), 1)
    rms = np.sqrt(total / count)
    return np.where(np.isnan(rms), np.inf, rms)


def _sample(s: Splits) -> BoolArray:
    """Whole trees, spread evenly, of about SAMPLE_NODES splits."""
    step = max(1, len(s) // SAMPLE_NODES)
    chosen = np.zeros(int(s.tree.max()) + 1, bool)
    chosen[np.flatnonzero(np.bincount(s.tree))[::step]] = True
    return chosen[s.tree]


def _believed(fit: Fit) -> bool:
    """Is the fit more than luck? With spare equations the residuals say so; without, round numbers do."""
    if not (fit.rms <= RMS_LIMIT and np.median(fit.sd_log_x) <= 1e-3):
        return False
    if fit.spare >= 2:
        return True
    if fit.spare < 0:
        return False
    eta, tol = float(np.exp(-fit.log_x[0])), 5 * float(fit.sd_log_x[0]) + 1e-6
    _, luck_eta = _shortest(eta, eta * tol)
    _, luck_lam = _shortest(fit.lam, 5 * fit.sd_lam) if fit.sd_lam > 0 else (0.0, 1.0)
    return luck_eta * luck_lam <= CHANCE and eta <= 1.0 + tol


def _shortest(number: float, tolerance: float) -> tuple[float, float]:
    """Find the shortest decimal within the tolerance, and how likely one so short is there by chance."""
    if abs(number) <= tolerance:
        return 0.0, 1.0 if tolerance > 0.5 else min(1.0, 2 * tolerance)
    for digits in range(1, 9):
        rounded = float(f"{number:.{digits}g}")
        if abs(rounded - number) <= tolerance:
            spacing = 10.0 ** (np.floor(np.log10(abs(rounded))) + 1 - digits)
            return rounded, float(min(1.0, 2 * tolerance / spacing))
    return number, 1.0


def _rounded(fit: Fit) -> tuple[float | None, float | None, FloatArray]:
    """Lambda, alpha (None: not determined) and rates (n_groups,), as round numbers where the errors allow."""
    factor = 5 * max(1.0, fit.rms)
    lam: float | None = _shortest(fit.lam, factor * fit.sd_lam)[0]
    if factor * fit.sd_lam > max(0.05 * fit.lam, 0.05):
        lam = None
    # where the signs of parent and children cancel, as in a stump on a centred target, alpha leaves no trace
    traced = factor * fit.sd_alpha <= max(0.05 * fit.alpha, 0.05)
    alpha = _shortest(fit.alpha, max(factor * fit.sd_alpha, 1e-6 * fit.alpha))[0] if traced else None
    rate = np.exp(-fit.log_x)
    tolerance = rate * np.minimum(factor * fit.sd_log_x + 1e-7, 1e-3)
    return lam, alpha, np.array([_shortest(r, t)[0] for r, t in zip(rate, tolerance, strict=True)])


def _whole(
    s: Splits, n_trees: int, *, common: bool, lam: float | None, alpha: float | None, rate: FloatArray | None
) -> Rates | None:
    """One lambda and alpha for all trees, and one rate (`common`), a rate per tree, or given rates."""
    some = s.take(_sample(s))
    present, group = np.unique(some.tree, return_inverse=True)
    known = None if rate is None else -np.log(rate[present])
    n_groups = len(present)
    if common and rate is None:
        n_groups, group = 1, np.zeros(len(some), dtype=np.int64)
    fit = fit_splits(some, group, n_groups, lam=lam, alpha=alpha, log_x=known)
    if rate is None and not _believed(fit):
        return None
    if fit.rms > RMS_LIMIT:
        return None
    found_lam, found_alpha, found_rate = _rounded(fit)
    if rate is not None:
        all_rates = rate
    elif common:
        all_rates = np.full(n_trees, found_rate[0])
    else:
        each = descend(s, s.tree, (fit.lam, fit.alpha, start_x(s, fit.lam, s.tree, n_trees)), (False, False, True))
        all_rates = np.where(each.sd_log_x <= 1e-3, _rounded(each)[2], np.nan)
    with_splits = np.bincount(s.tree, minlength=n_trees) > 0
    rms = _tree_rms(s, n_trees, fit.lam, fit.alpha, np.where(np.isnan(all_rates), 1.0, 1 / all_rates))
    certified = (rms <= RMS_LIMIT) & np.isfinite(all_rates)
    if not np.all(certified[with_splits]):
        return None
    return Rates(all_rates, found_lam, found_alpha, certified)


def _blocks(s: Splits, trees: Trees, tree_round: LongArray, lam: float | None, alpha: float | None) -> Rates:
    """Continued training: runs of rounds with their own rate, lambda and alpha, from the first round on."""
    n_trees = trees.n_trees
    rate, certified = np.full(n_trees, np.nan), np.zeros(n_trees, bool)
    rounds = tree_round[s.tree]
    lams: set[float | None] = set()
    alphas: set[float | None] = set()
    at, misses, last = 0, 0, int(tree_round.max()) + 1
    while at < last and misses < MAX_MISSES:
        found = _first_block(s, rounds, at, lam=lam, alpha=alpha)
        if found is None:
            at, misses = at + 1, misses + 1
            continue
        x = np.exp(found.log_x[0])
        rms = _tree_rms(s, n_trees, found.lam, found.alpha, np.full(n_trees, x))
        bad = tree_round[(tree_round >= at) & (rms > RMS_LIMIT)]
        end = int(bad.min()) if len(bad) else last
        if end == at:
            at, misses = at + 1, misses + 1
            continue
        inside = (tree_round >= at) & (tree_round < end)
        block_lam, block_alpha, block_rate = _rounded(found)
        rate[inside], certified[inside] = block_rate[0], True
        lams.add(block_lam)
        alphas.add(block_alpha)
        at, misses = end, 0
    one_lam = next(iter(lams)) if len(lams) == 1 else None
    one_alpha = next(iter(alphas)) if len(alphas) == 1 else None
    return Rates(rate, one_lam, one_alpha, certified, uniform=len(lams) <= 1 and len(alphas) <= 1)


def _first_block(s: Splits, rounds: LongArray, at: int, *, lam: float | None, alpha: float | None) -> Fit | None:
    """Fit as few rounds from `at` on as will do; None if no fit is believed."""
    for length in (1, 3, 8):
        some = s.take((rounds >= at) & (rounds < at + length))
        if len(some) == 0:
            continue
        for given in (0.0, None) if alpha is None else (alpha,):
            fit = fit_splits(some, np.zeros(len(some), np.int64), 1, lam=lam, alpha=given)
            if fit.spare >= 3 and _believed(fit):
                return fit
        if fit.spare >= 3:  # equations enough, and they do not hold
            return None
    return None
