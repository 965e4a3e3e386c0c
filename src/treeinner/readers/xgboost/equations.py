"""The two equations that every split of an XGBoost tree obeys, and their least-squares fit.

With w the stored weight of an inner node, and value / rate at a leaf, a split t with children L, R has

    gain:     (H_L + lam) w_L² + (H_R + lam) w_R² - (H_t + lam) w_t² = loss_change
    balance:  sum over L, R of (H_c + lam) w_c + alpha sign(w_c)     = (H_t + lam) w_t + alpha sign(w_t)

Residuals are counted in units of what rounding to float32 alone would leave: about 1 where the laws hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from treeinner.readers._trees import BoolArray, FloatArray, IntArray, LongArray
from treeinner.readers.xgboost.trees import Trees

__all__ = ["Fit", "Splits", "descend", "fit_splits", "read_splits", "residuals", "squared_residuals", "start_x"]


CHUNK = 8192  # splits at a time, so that what is in between stays in the cache
ROUNDING = 6e-8  # half a unit in the last place of a float32, relative
TINY_ALPHA = 1e-20  # as good as 0, but already without the balance of weights that alpha may hold at zero


@dataclass(frozen=True, eq=False)
class Splits:
    """Some splits; the axis of three is parent, left, right.

    Numbers are looked up when they are asked for: a model has many more splits than are looked at together.
    """

    trees: Trees
    leaf_value: FloatArray  # (n_nodes, width)  what stands for rate x weight at leaves
    node: IntArray  # (3, n)

    def take(self, chosen: BoolArray | slice) -> Splits:
        """Some of them."""
        return replace(self, node=self.node[:, chosen])

    def __len__(self) -> int:
        return int(self.node.shape[1])

    @property
    def width(self) -> int:
        """Number of outputs."""
        return int(self.leaf_value.shape[1])

    @cached_property
    def tree(self) -> LongArray:
        """Number of the tree: (n,)."""
        return np.asarray(np.take(self.trees.tree, self.node[0]))

    @cached_property
    def hessian(self) -> FloatArray:
        """Per output, of which vector leaves store the sum: (3, n)."""
        found: FloatArray = np.take(self.trees.hessian, self.node)
        return found if self.width == 1 else found / self.width

    @cached_property
    def weight(self) -> FloatArray:
        """Weight of an inner node, value of a leaf: (3, n, width)."""
        value, weight = (np.take(array, self.node, axis=0) for array in (self.leaf_value, self.trees.weight))
        return np.where(self.leaf[:, :, None], value, weight)

    @cached_property
    def leaf(self) -> BoolArray:
        """Which are leaves: (3, n)."""
        return np.asarray(np.take(self.trees.leaf, self.node))

    @cached_property
    def gain(self) -> FloatArray:
        """Loss change: (n,)."""
        return np.asarray(np.take(self.trees.gain, self.node[0]))


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
    """Splits whose gain and hessians are known."""
    parent = np.flatnonzero(~trees.leaf).astype(np.int32)
    found = Splits(trees, leaf_value, np.stack([parent, trees.left[parent], trees.right[parent]]))
    if np.isfinite(trees.gain).all() and np.isfinite(trees.hessian).all():
        return found
    return found.take(np.isfinite(found.gain + found.hessian.sum(axis=0)))


@dataclass(frozen=True, eq=False)
class _Terms:
    """What the equations are made of, at one point."""

    w: FloatArray  # (3, n, width)  weights
    square: FloatArray  # (3, n)  their squares, summed over outputs
    energy: FloatArray  # (3, n)
    force: FloatArray  # (3, n, width)
    per_unit: FloatArray  # (n, 1 + width)  one over the rounding of each equation; 0: no equation


def _terms(s: Splits, lam: float, alpha: float, x: FloatArray, with_balance: bool) -> _Terms:
    w = np.where(s.leaf[:, :, None], s.weight * x[:, None], s.weight)
    damped = s.hessian + lam
    square = w[:, :, 0] ** 2 if w.shape[2] == 1 else (w**2).sum(axis=2)
    energy, force = damped * square, damped[:, :, None] * w
    per_unit = np.empty((len(s.gain), 1 + w.shape[2]))
    per_unit[:, 0] = energy.sum(axis=0) + np.abs(s.gain)
    per_unit[:, 1:] = np.abs(force).sum(axis=0) + 3 * alpha
    if alpha > 0:
        # XGBoost takes alpha off a gradient that it holds in float32: the rounding is that of the larger number
        per_unit[:, 0] += 2 * alpha * np.sqrt(square).sum(axis=0)
    per_unit = 1 / (ROUNDING * per_unit + 1e-30)
    if not with_balance:
        per_unit[:, 1:] = 0.0
    elif alpha > 0:  # alpha holds a weight at zero for a whole range of gradients: no balance there
        per_unit[:, 1:] *= np.all(w != 0, axis=0)
    return _Terms(w, square, energy, force, per_unit)


def _across(term: FloatArray) -> FloatArray:
    """Left and right less the parent."""
    return np.asarray(term[1] + term[2] - term[0])


def _both(gain: FloatArray, balance: FloatArray, per_unit: FloatArray) -> FloatArray:
    out = np.empty_like(per_unit)
    np.multiply(gain, per_unit[:, 0], out=out[:, 0])
    np.multiply(balance, per_unit[:, 1:], out=out[:, 1:])
    return out


def _residual(s: Splits, t: _Terms, alpha: float) -> FloatArray:
    balance = t.force + alpha * np.sign(t.w) if alpha > 0 else t.force
    return _both(_across(t.energy) - s.gain, _across(balance), t.per_unit)


def squared_residuals(s: Splits, lam: float, alpha: float, x: FloatArray) -> FloatArray:
    """Sum of each split's squared residuals: (n,)."""
    out = np.empty(len(s))
    for first in range(0, len(out), CHUNK):
        part = slice(first, first + CHUNK)
        some = s.take(part)
        residual = _residual(some, _terms(some, lam, alpha, x[part], True), alpha)
        out[part] = np.einsum("nw,nw->n", residual, residual)
    return out


def residuals(
    s: Splits, lam: float, alpha: float, x: FloatArray, *, with_balance: bool = True
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Residuals and their derivatives by lam, alpha and log x, in units of rounding: (n, 1 + width) each."""
    t = _terms(s, lam, alpha, x, with_balance)
    energy, force = np.where(s.leaf, t.energy, 0.0), np.where(s.leaf[:, :, None], t.force, 0.0)
    return (
        _residual(s, t, alpha),
        _both(_across(t.square), _across(t.w), t.per_unit),
        _both(np.zeros(len(s.gain)), _across(np.sign(t.w)), t.per_unit),
        _both(2 * _across(energy), _across(force), t.per_unit),
    )


def start_x(s: Splits, lam: float, group: LongArray, n_groups: int) -> FloatArray:
    """Find log x of each group by the gain equation alone, in which x² is linear: (n_groups,)."""
    energy = (s.hessian + lam) * (s.weight**2).sum(axis=2)
    scaled = np.bincount(group, (energy * s.leaf).sum(axis=0), n_groups)
    fixed = _across(np.where(s.leaf, 0.0, energy))
    square = np.bincount(group, s.gain - fixed, n_groups) / np.maximum(scaled, 1e-300)
    return np.asarray(0.5 * np.log(np.clip(square, 1e-8, 1e16)))


def _start_lam(s: Splits) -> list[float]:
    """Values of lam to start from; splits with two inner children give it without the rate."""
    starts = [1.0, 0.0, 10.0]
    inner = ~s.leaf[1] & ~s.leaf[2]
    if inner.any():
        square = (s.weight[:, inner] ** 2).sum(axis=2)
        energy = s.hessian[:, inner] * square
        slope, rest = _across(square), s.gain[inner] - _across(energy)
        unit = energy.sum(axis=0) + 1e-30
        lam = float(np.sum(slope * rest / unit**2) / max(float(np.sum((slope / unit) ** 2)), 1e-300))
        if np.isfinite(lam):
            starts.insert(0, max(lam, 0.0))
    return starts


def fit_splits(
    s: Splits,
    group: LongArray,
    n_groups: int,
    *,
    lam: float | None = None,
    alpha: float | None = None,
    log_x: FloatArray | None = None,
) -> Fit:
    """Best of the Gauss-Newton descents from each start; what is not None is held fixed."""
    best: Fit | None = None
    for start in [lam] if lam is not None else _start_lam(s):
        first_x = start_x(s, start, group, n_groups) if log_x is None else log_x
        point = (start, alpha if alpha is not None else TINY_ALPHA, first_x)
        free = (lam is None, alpha is None, log_x is None)
        if alpha is None:
            # the gain equation is free of alpha, and the balance is linear in it: a start close to the answer
            plain = descend(s, group, point, (free[0], False, free[2]), with_balance=False)
            residual, _, by_alpha, _ = residuals(s, plain.lam, TINY_ALPHA, np.exp(plain.log_x)[group])
            guess = -float(np.sum(residual * by_alpha)) / max(float(np.sum(by_alpha**2)), 1e-300)
            point = (plain.lam, max(guess, TINY_ALPHA), plain.log_x)
        tried = descend(s, group, point, free)
        if best is None or tried.rms < best.rms:
            best = tried
        if best.rms < 2.0:
            break
    assert best is not None
    return best


def descend(
    s: Splits,
    group: LongArray,
    point: tuple[float, float, FloatArray],
    free: tuple[bool, bool, bool],
    *,
    with_balance: bool = True,
) -> Fit:
    """Gauss-Newton; the rates of the groups are eliminated, so that a step costs one pass over the splits."""
    lam, alpha, log_x = point
    n_groups, shared = len(log_x), np.array(free[:2])
    residual, by_lam, by_alpha, by_x = residuals(s, lam, alpha, np.exp(log_x)[group], with_balance=with_balance)
    cost = float(np.sum(residual**2))
    for _ in range(30):
        by_shared = np.stack([by_lam, by_alpha])[shared]
        step, step_x, _ = _newton_step(residual, by_shared, by_x * free[2], group, n_groups)
        full = np.zeros(2)
        full[shared] = step
        scale, moved = 1.0, False
        while scale > 1e-3 and not moved:
            new = (
                max(lam + scale * full[0], 0.0) if free[0] else lam,
                max(alpha + scale * full[1], TINY_ALPHA) if free[1] else alpha,
                log_x + np.clip(scale * step_x, -1.0, 1.0),
            )
            tried = residuals(s, new[0], new[1], np.exp(new[2])[group], with_balance=with_balance)
            new_cost = float(np.sum(tried[0] ** 2))
            moved = new_cost < cost
            scale /= 4
        if not moved:
            break
        # far from any solution there is no point in polishing
        hopeless = new_cost > 1e6 * residual.size
        done = cost - new_cost < (1e-2 if hopeless else 1e-9) * cost
        (lam, alpha, log_x), (residual, by_lam, by_alpha, by_x), cost = new, tried, new_cost
        if done:
            break
    by_shared = np.stack([by_lam, by_alpha])[shared]
    _, _, (sd_shared, sd_x) = _newton_step(residual, by_shared, by_x * free[2], group, n_groups)
    unknowns = int(shared.sum()) + (n_groups if free[2] else 0)
    used = int(np.count_nonzero(by_lam) + np.count_nonzero((by_lam == 0) & (by_x != 0)))
    rms = float(np.sqrt(cost / max(used, 1))) if np.isfinite(cost) else np.inf
    sd_lam = float(sd_shared[0]) if free[0] else 0.0
    sd_alpha = 1 / max(float(np.sqrt(np.sum(by_alpha**2))), 1e-30)
    return Fit(lam, alpha, log_x, rms, sd_lam, sd_alpha, sd_x, used - unknowns)


def _newton_step(
    f: FloatArray, by_shared: FloatArray, by_x: FloatArray, group: LongArray, n_groups: int
) -> tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray]]:
    """Find the steps of the shared unknowns and of each group's, and the errors both have from rounding."""
    p = len(by_shared)

    def grouped(term: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(group, term.sum(axis=1), n_groups), dtype=np.float64)

    curve = grouped(by_x**2)
    inverse = np.where(curve > 0, 1 / np.where(curve > 0, curve, 1.0), 0.0)
    mixed = np.stack([grouped(j * by_x) for j in by_shared]) if p else np.zeros((0, n_groups))
    slope_x = grouped(f * by_x)
    square = np.einsum("anw,bnw->ab", by_shared, by_shared) - (mixed * inverse) @ mixed.T
    slope = np.einsum("anw,nw->a", by_shared, f) - mixed @ (inverse * slope_x)
    if not (np.all(np.isfinite(square)) and np.all(np.isfinite(slope))):
        return np.zeros(p), np.zeros(n_groups), (np.full(p, np.inf), np.full(n_groups, np.inf))
    back = np.linalg.pinv(square, rcond=1e-14, hermitian=True) if p else np.zeros((0, 0))
    step = -back @ slope
    step_x = -inverse * (slope_x + mixed.T @ step)
    spread = np.einsum("ag,ab,bg->g", mixed * inverse, back, mixed * inverse) if p else 0.0
    sd_shared = np.where(np.diag(square) > 0, np.sqrt(np.maximum(np.diag(back), 0)), np.inf)
    return step, step_x, (sd_shared, np.where(curve > 0, np.sqrt(inverse + spread), np.inf))
