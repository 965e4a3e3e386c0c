"""Learning rate, lambda and alpha of XGBoost trees, inferred from the trees, certified by what is left over.

They are not in a saved model, and the configuration of a loaded one silently shows defaults. But the
equations of `equations.py` determine them, mostly many times over; residuals of about one unit of
rounding are the certificate. Where weights were clipped (max_delta_step, monotone constraints) or leaves
replaced, the residuals are 1e4 units and more, and nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from treeinner.options import ReadOptions
from treeinner.readers._trees import BoolArray, FloatArray, LongArray
from treeinner.readers.xgboost.equations import Fit, Splits, descend, fit_splits, read_splits, residuals, start_x
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

    NaN for other trees. Two leaves, of one tree or of two, must give the same ratio; replaced leaves have their own.
    """
    size = np.abs(trees.value)
    differ = trees.leaf[:, None] & (np.abs(trees.weight - trees.value) > 1e-5 * size) & (size > 1e-30)
    differ &= trees.weight != 0
    ratio, tree = trees.value[differ] / trees.weight[differ], trees.tree[np.nonzero(differ)[0]]
    rate = np.full(trees.n_trees, np.nan)
    if len(ratio) < 2:
        return rate
    middle = np.median(ratio)
    for number, own in zip(np.unique(tree), np.split(ratio, np.flatnonzero(np.diff(tree)) + 1), strict=True):
        low, high = own.min(), own.max()
        alone = len(own) == 1 and abs(low - middle) > 1e-6 * abs(middle)
        if low > 0 and high <= low * (1 + 1e-6) and not alone:
            rate[number] = _shortest((low + high) / 2, 1e-7 * (low + high))[0]
    return rate


def infer_rates(
    trees: Trees, tree_round: LongArray, leaf_value: FloatArray, options: ReadOptions, *, rate: FloatArray | None = None
) -> Rates:
    """Fit the equations; lambda and alpha of the options, and `rate` (n_trees,), are held fixed where given.

    `leaf_value` (n_nodes, width) stands for rate x weight at leaves.
    """
    splits = read_splits(trees, leaf_value)
    if rate is not None:
        splits = splits.take(np.isfinite(rate[splits.tree]) & (rate[splits.tree] > 0))
    lam, alphas = options.reg_lambda, (0.0, None) if options.reg_alpha is None else (options.reg_alpha,)
    with np.errstate(all="ignore"):  # hopeless starts overflow; their residuals then lose against the others
        for common, alpha in product((True, False) if rate is None else (True,), alphas if len(splits) else ()):
            found = _whole(splits, trees.n_trees, common=common, lam=lam, alpha=alpha, rate=rate)
            if found is not None:
                return found
        if rate is None and len(splits):
            return _blocks(splits, tree_round, lam, alphas)
    return Rates(np.full(trees.n_trees, np.nan), None, None, np.zeros(trees.n_trees, bool))


def confirmed_trees(
    trees: Trees, rate: float, lam: float, alpha: float, max_step: float
) -> tuple[BoolArray, BoolArray]:
    """Trees in which a split or a clipped leaf agrees with the rate to rounding; those that could show it.

    Clipping spoils some nodes of a tree, rarely all; a wrong rate fits none to seven digits by accident.
    """
    s = read_splits(trees, trees.value)
    with np.errstate(all="ignore"):
        residual, _, _, by_x = residuals(s, lam, alpha, np.full(len(s), 1 / rate))
    telling = np.abs(by_x) * 1e-5 > RMS_LIMIT  # a rate wrong in the fifth digit would show
    agrees = np.any(telling & (np.abs(residual) <= RMS_LIMIT), axis=1)
    hits = np.bincount(s.tree, agrees, trees.n_trees) > 0
    if max_step > 0 and trees.value.shape[1] == 1:
        clipped = trees.leaf & (np.abs(np.abs(trees.value[:, 0]) / (rate * max_step) - 1) < 1e-6)
        hits |= np.bincount(trees.tree, clipped, trees.n_trees) > 0
    # of vector leaves only the sum of the outputs' hessians is stored, so disagreement says nothing
    checkable = (np.bincount(s.tree, telling.any(axis=1), trees.n_trees) > 0) & (trees.value.shape[1] == 1)
    return hits, checkable


# -- which trees share what ---------------------------------------------------------------------------
def _tree_rms(s: Splits, lam: float, alpha: float, x: FloatArray) -> FloatArray:
    """Root mean square of each tree's residuals, given its x; 0 for a tree without splits: (n_trees,)."""
    square = np.mean(residuals(s, lam, alpha, x[s.tree])[0] ** 2, axis=1)
    rms = np.sqrt(np.bincount(s.tree, square, len(x)) / np.maximum(np.bincount(s.tree, minlength=len(x)), 1))
    return np.where(np.isnan(rms), np.inf, rms)


def _believed(fit: Fit) -> bool:
    """Is the fit more than luck? With spare equations the residuals say so; without, round numbers do."""
    holds = bool(fit.rms <= RMS_LIMIT and np.median(fit.sd_log_x) <= 1e-3)
    if not holds or fit.spare < 0 or fit.spare >= 2:
        return holds and fit.spare >= 2
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
    determined = factor * fit.sd_lam <= max(0.05 * fit.lam, 0.05)
    lam = _shortest(fit.lam, factor * fit.sd_lam)[0] if determined else None
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
    # whole trees, spread evenly, of about SAMPLE_NODES splits
    some = s.take(np.isin(s.tree, np.unique(s.tree)[:: max(1, len(s) // SAMPLE_NODES)]))
    present, group = np.unique(some.tree, return_inverse=True)
    if rate is not None:
        fit = fit_splits(some, group, lam=lam, alpha=alpha, log_x=-np.log(rate[present]))
    else:
        fit = fit_splits(some, np.zeros_like(group) if common else group, lam=lam, alpha=alpha)
    if fit.rms > RMS_LIMIT or (rate is None and not _believed(fit)):
        return None
    found_lam, found_alpha, found_rate = _rounded(fit)
    if rate is None and common:
        rate = np.full(n_trees, found_rate[0])
    elif rate is None:
        present, group = np.unique(s.tree, return_inverse=True)
        each = descend(s, group, (fit.lam, fit.alpha, start_x(s, fit.lam, group)), (False, False, True))
        rate = np.full(n_trees, np.nan)
        rate[present] = np.where(each.sd_log_x <= 1e-3, _rounded(each)[2], np.nan)
    rms = _tree_rms(s, fit.lam, fit.alpha, np.where(np.isnan(rate), 1.0, 1 / rate))
    certified = (rms <= RMS_LIMIT) & np.isfinite(rate)
    return Rates(rate, found_lam, found_alpha, certified) if np.all(certified[s.tree]) else None


def _blocks(s: Splits, tree_round: LongArray, lam: float | None, alphas: Sequence[float | None]) -> Rates:
    """Continued training: runs of rounds with their own rate, lambda and alpha, from the first round on."""
    rate = np.full(len(tree_round), np.nan)
    found_lam, found_alpha = set[float | None](), set[float | None]()
    at, misses, last = 0, 0, int(tree_round.max()) + 1
    while at < last and misses < MAX_MISSES:
        end, fit = at, _first_block(s, tree_round[s.tree] - at, lam, alphas)
        if fit is not None:
            rms = _tree_rms(s, fit.lam, fit.alpha, np.full(len(rate), np.exp(fit.log_x[0])))
            end = int(tree_round[(tree_round >= at) & (rms > RMS_LIMIT)].min(initial=last))
        if fit is None or end == at:
            at, misses = at + 1, misses + 1
            continue
        block_lam, block_alpha, block_rate = _rounded(fit)
        rate[(tree_round >= at) & (tree_round < end)] = block_rate[0]
        found_lam.add(block_lam)
        found_alpha.add(block_alpha)
        at, misses = end, 0
    uniform = len(found_lam) <= 1 and len(found_alpha) <= 1
    one_lam, one_alpha = (found.pop() if len(found) == 1 else None for found in (found_lam, found_alpha))
    return Rates(rate, one_lam, one_alpha, np.isfinite(rate), uniform)


def _first_block(s: Splits, age: LongArray, lam: float | None, alphas: Sequence[float | None]) -> Fit | None:
    """Fit as few rounds as will do, from age 0 on; None if no fit is believed."""
    tries = ((s.take((age >= 0) & (age < length)), alpha) for length in (1, 3, 8) for alpha in alphas)
    fits = (fit_splits(some, np.zeros_like(some.tree), lam=lam, alpha=alpha) for some, alpha in tries if len(some))
    return next((fit for fit in fits if fit.spare >= 3 and _believed(fit)), None)
