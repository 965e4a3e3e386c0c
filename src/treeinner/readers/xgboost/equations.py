"""The two equations that every split of an XGBoost tree obeys, and their least-squares fit.

With w the stored weight of an inner node, and value / rate at a leaf, a split t with children L, R has

    gain:     (H_L + lam) w_L² + (H_R + lam) w_R² - (H_t + lam) w_t² = loss_change
    balance:  sum over L, R of (H_c + lam) w_c + alpha sign(w_c)     = (H_t + lam) w_t + alpha sign(w_t)

Residuals are counted in units of what rounding to float32 alone would leave: about 1 where the laws hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treeinner.readers._trees import BoolArray, FloatArray, LongArray
from treeinner.readers.xgboost.trees import Trees

__all__ = ["Fit", "Splits", "descend", "fit_splits", "read_splits", "residuals", "start_x"]

Point = tuple[float, float, FloatArray]  # lam, alpha, log x of each group
Free = tuple[bool, bool, bool]  # which of them are sought
ROUNDING = 6e-8  # half a unit in the last place of a float32, relative
TINY_ALPHA = 1e-20  # as good as 0, but already without the balance of weights that alpha may hold at zero
STARTS = (1.0, 0.0, 10.0, 100.0)  # lambdas to descend from


@dataclass(frozen=True, eq=False)
class Splits:
    """Some splits; the axis of three is parent, left, right."""

    tree: LongArray  # (n,)
    leaf: BoolArray  # (3, n)
    hessian: FloatArray  # (3, n)  per output, of which vector leaves store the sum
    weight: FloatArray  # (3, n, width)  weight of an inner node, value of a leaf
    gain: FloatArray  # (n,)

    def take(self, chosen: BoolArray) -> Splits:
        """Some of them."""
        leaf, hessian, weight = self.leaf[:, chosen], self.hessian[:, chosen], self.weight[:, chosen]
        return Splits(self.tree[chosen], leaf, hessian, weight, self.gain[chosen])

    def __len__(self) -> int:
        return len(self.tree)


@dataclass(frozen=True, eq=False)
class Fit:
    """A solution of the equations, and how sure it is."""

    lam: float
    alpha: float
    log_x: FloatArray  # (n_groups,)  logarithm of 1 / rate
    rms: float
    sd_lam: float
    sd_alpha: float
    sd_log_x: FloatArray  # (n_groups,)
    spare: int  # equations minus unknowns


def read_splits(trees: Trees, leaf_value: FloatArray) -> Splits:
    """Splits whose gain and hessians are known; `leaf_value`: what stands for rate x weight, (n_nodes, width)."""
    parent = np.flatnonzero(~trees.leaf)
    node = np.stack([parent, trees.left[parent], trees.right[parent]])
    leaf, hessian = trees.leaf[node], trees.hessian[node] / leaf_value.shape[1]
    weight = np.where(leaf[:, :, None], leaf_value[node], trees.weight[node])
    found = Splits(trees.tree[parent], leaf, hessian, weight, trees.gain[parent])
    return found.take(np.isfinite(found.gain + hessian.sum(axis=0)))


def _across(term: FloatArray) -> FloatArray:
    """Left and right less the parent."""
    return np.asarray(term[1] + term[2] - term[0])


def residuals(s: Splits, lam: float, alpha: float, x: FloatArray, *, with_balance: bool = True) -> FloatArray:
    """Residuals and their derivatives by lam, alpha and log x, in units of rounding: (4, n, 1 + width)."""
    leaf = s.leaf[:, :, None]
    w = np.where(leaf, s.weight * x[:, None], s.weight)
    damped, square, sign = s.hessian + lam, (w**2).sum(axis=2), np.sign(w)
    energy, force = damped * square, damped[:, :, None] * w
    out = np.zeros((4, len(s), 1 + w.shape[2]))
    out[0, :, 0], out[0, :, 1:] = _across(energy) - s.gain, _across(force + alpha * sign)
    out[1, :, 0], out[1, :, 1:] = _across(square), _across(w)
    out[2, :, 1:] = _across(sign)
    out[3, :, 0], out[3, :, 1:] = 2 * _across(np.where(s.leaf, energy, 0.0)), _across(np.where(leaf, force, 0.0))
    # XGBoost takes alpha off a gradient that it holds in float32: the rounding is that of the larger number
    size = (energy + 2 * alpha * np.sqrt(square)).sum(axis=0) + np.abs(s.gain)
    out[:, :, 0] /= ROUNDING * size + 1e-30
    out[:, :, 1:] /= ROUNDING * (np.abs(force).sum(axis=0) + 3 * alpha) + 1e-30
    # alpha holds a weight at zero for a whole range of gradients: no balance there
    out[:, :, 1:] *= with_balance & ((alpha == 0) | np.all(w != 0, axis=0))
    return out


def start_x(s: Splits, lam: float, group: LongArray) -> FloatArray:
    """Find log x of each group by the gain equation alone, in which x² is linear: (n_groups,)."""
    energy = (s.hessian + lam) * (s.weight**2).sum(axis=2)
    scaled = np.bincount(group, (energy * s.leaf).sum(axis=0))
    fixed = _across(np.where(s.leaf, 0.0, energy))
    square = np.bincount(group, s.gain - fixed) / np.maximum(scaled, 1e-300)
    return np.asarray(0.5 * np.log(np.clip(square, 1e-8, 1e16)))


def fit_splits(
    s: Splits, group: LongArray, *, lam: float | None, alpha: float | None, log_x: FloatArray | None = None
) -> Fit:
    """Best of the Gauss-Newton descents from some lambdas; what is not None is held fixed."""
    fits: list[Fit] = []
    free = (lam is None, alpha is None, log_x is None)
    for start in STARTS if lam is None else (lam,):
        first_x = start_x(s, start, group) if log_x is None else log_x
        point = (start, alpha if alpha is not None else TINY_ALPHA, first_x)
        if alpha is None:
            # the gain equation is free of alpha, and the balance is linear in it: a start close to the answer
            plain = descend(s, group, point, (free[0], False, free[2]), with_balance=False)
            residual, _, by_alpha, _ = residuals(s, plain.lam, TINY_ALPHA, np.exp(plain.log_x)[group])
            guess = -float(np.sum(residual * by_alpha)) / max(float(np.sum(by_alpha**2)), 1e-300)
            point = (plain.lam, max(guess, TINY_ALPHA), plain.log_x)
        fits.append(descend(s, group, point, free))
        if fits[-1].rms < 2.0:
            break
    return min(fits, key=lambda fit: fit.rms)


def descend(s: Splits, group: LongArray, point: Point, free: Free, *, with_balance: bool = True) -> Fit:
    """Gauss-Newton from `point`; only what is `free` moves."""
    lam, alpha, log_x = point
    mask = np.reshape(free, (3, 1, 1))
    now = residuals(s, lam, alpha, np.exp(log_x)[group], with_balance=with_balance)
    cost = float(np.sum(now[0] ** 2))
    for _ in range(30):
        (step_lam, step_alpha), step_x, _ = _newton_step(now[0], now[1:] * mask, group, len(log_x))
        for scale in (1.0, 1 / 4, 1 / 16, 1 / 64, 1 / 256):
            new_lam = max(lam + scale * step_lam, 0.0)
            new_alpha = max(alpha + scale * step_alpha, TINY_ALPHA) if free[1] else alpha
            new_x = log_x + np.clip(scale * step_x, -1.0, 1.0)
            tried = residuals(s, new_lam, new_alpha, np.exp(new_x)[group], with_balance=with_balance)
            new_cost = float(np.sum(tried[0] ** 2))
            gone = cost - new_cost
            if gone > 0:
                lam, alpha, log_x, now, cost = new_lam, new_alpha, new_x, tried, new_cost
                break
        # far from any solution there is no point in polishing
        if not gone > (1e-2 if cost > 1e6 * now[0].size else 1e-9) * (cost + gone):
            break
    _, _, (sd_shared, sd_x) = _newton_step(now[0], now[1:] * mask, group, len(log_x))
    used = int(np.count_nonzero((now[1] != 0) | (now[3] != 0)))
    rms = float(np.sqrt(cost / max(used, 1))) if np.isfinite(cost) else np.inf
    sd_lam = float(sd_shared[0]) if free[0] else 0.0
    sd_alpha = 1 / max(float(np.sqrt(np.sum(now[2] ** 2))), 1e-30)
    return Fit(lam, alpha, log_x, rms, sd_lam, sd_alpha, sd_x, used - free[0] - free[1] - free[2] * len(log_x))


def _newton_step(
    f: FloatArray, by: FloatArray, group: LongArray, n_groups: int
) -> tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray]]:
    """Find the steps of lam and alpha (2,) and of each group's log x, and the errors both have from rounding."""
    by_shared, by_x = by[:2], by[2]  # by_x is eliminated, so that a step costs one pass over the splits

    def grouped(term: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(group, term.sum(axis=1), n_groups), dtype=np.float64)

    curve, slope_x = grouped(by_x**2), grouped(f * by_x)
    inverse = np.where(curve > 0, 1 / np.where(curve > 0, curve, 1.0), 0.0)
    mixed = np.stack([grouped(j * by_x) for j in by_shared])
    square = np.einsum("anw,bnw->ab", by_shared, by_shared) - (mixed * inverse) @ mixed.T
    slope = np.einsum("anw,nw->a", by_shared, f) - mixed @ (inverse * slope_x)
    if not (np.all(np.isfinite(square)) and np.all(np.isfinite(slope))):
        return np.zeros(2), np.zeros(n_groups), (np.full(2, np.inf), np.full(n_groups, np.inf))
    back = np.linalg.pinv(square, rcond=1e-14, hermitian=True)
    step = -back @ slope
    step_x = -inverse * (slope_x + mixed.T @ step)
    spread = np.einsum("ag,ab,bg->g", mixed * inverse, back, mixed * inverse)
    sd_shared = np.where(np.diag(square) > 0, np.sqrt(np.maximum(np.diag(back), 0)), np.inf)
    return step, step_x, (sd_shared, np.where(curve > 0, np.sqrt(inverse + spread), np.inf))
