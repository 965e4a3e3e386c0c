"""Node values of XGBoost trees: which route gives them, with which learning rate, and what is exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from treeinner.ensemble import NodeValues
from treeinner.options import ReadOptions
from treeinner.readers._trees import FloatArray, LongArray
from treeinner.readers.xgboost.document import Parts
from treeinner.readers.xgboost.rates import Rates, confirmed_trees, direct_rates, infer_rates
from treeinner.readers.xgboost.trees import Trees

__all__ = ["Given", "find_node_values", "is_custom"]


# until 3.3 the leaves of these are medians and quantiles, put in after the splits were chosen
RENEWED = ("reg:absoluteerror", "reg:quantileerror")
MAX_RUN = 4  # trees in a row that may fail to confirm a candidate rate
CONSTANT_HESSIAN = ("reg:squarederror", "reg:linear")
# What save_config shows for a model loaded from a file. Any other number was given by whoever trained it.
DEFAULTS = {
    "learning_rate": 0.3,
    "reg_lambda": 1.0,
    "reg_alpha": 0.0,
    "max_delta_step": 0.0,
    "subsample": 1.0,
    "min_child_weight": 1.0,
    "min_split_loss": 0.0,
    "max_depth": 6.0,
    "max_leaves": 0.0,
    "max_bin": 256.0,
    "colsample_bytree": 1.0,
    "colsample_bylevel": 1.0,
    "colsample_bynode": 1.0,
}


@dataclass(frozen=True)
class Given:
    """What is known from outside the trees: from the user, and from the configuration of a live object."""

    options: ReadOptions = field(default_factory=ReadOptions)
    config: Mapping[str, Any] | None = None  # tree_train_param; None: the model came from a file

    @property
    def reg_lambda(self) -> float | None:
        """The user's l2 penalty."""
        return self.options.reg_lambda

    @property
    def reg_alpha(self) -> float | None:
        """The user's l1 penalty."""
        return self.options.reg_alpha

    def config_value(self, name: str) -> float | None:
        """Look up a number of the configuration."""
        try:
            # parameters are float32, shown with nine digits: 0.170000002 is what a user wrote as 0.17
            return float(str(np.float32(self.config[name]))) if self.config is not None else None
        except (KeyError, TypeError, ValueError):
            return None

    def is_live(self, objective: str) -> bool:
        """Tell whether the configuration is that of the training, not that of a loaded model."""
        if self.config is None:
            return False
        # count:poisson sets max_delta_step by itself, also in a loaded model
        skip = "max_delta_step" if objective == "count:poisson" else ""
        numbers = ((self.config_value(name), default) for name, default in DEFAULTS.items() if name != skip)
        differs = any(said is not None and abs(said - default) > 1e-6 for said, default in numbers)
        return differs or self.monotone

    @property
    def monotone(self) -> bool:
        """Whether there are monotone constraints."""
        text = str((self.config or {}).get("monotone_constraints", ""))
        return any(part.strip() in ("1", "-1") for part in text.strip("()[]").split(","))


def find_node_values(parts: Parts, given: Given) -> NodeValues:
    """Choose the route by objective, version and certificate; DART's weights are not in these values yet."""
    trees, tree_round, n_parallel, objective = parts.trees, parts.tree_round, parts.n_parallel, parts.objective
    rates = given.options.rates(int(tree_round.max(initial=-1)) + 1)
    rate = None if rates is None else rates[tree_round] / n_parallel
    if objective in RENEWED and parts.version < (3, 4):
        return _renewed(trees, tree_round, n_parallel, rate, given)
    direct = direct_rates(trees)
    has_splits = np.diff(trees.start) > 1
    known = rate if rate is not None else direct if np.all(np.isfinite(direct[has_splits])) else None
    found = infer_rates(
        trees, tree_round, trees.value, rate=known, reg_lambda=given.reg_lambda, reg_alpha=given.reg_alpha
    )
    plain = bool(np.all(found.certified[has_splits]))
    if rate is None:
        if not plain and objective in RENEWED:  # trained before 3.4, saved again later
            return _renewed(trees, tree_round, n_parallel, rate, given)
        if not plain and known is None:
            refreshed = _refreshed(trees, tree_round, given)
            if refreshed is not None:
                return refreshed
        rate = np.where(np.isfinite(direct), direct, found.rate)
        rate = _fill(trees, rate, found, n_parallel, objective=objective, given=given)
    value = np.where(trees.weight == 0, 0.0, rate[trees.tree][:, None] * trees.weight)  # 0 whatever the rate is
    value = np.where(trees.leaf[:, None], trees.value, value)
    unknown = bool(np.isnan(value).any())
    if unknown:  # what holds for some trees only is no fact about the model
        found = replace(found, reg_lambda=None, reg_alpha=None)
    trust = given.is_live(objective) and found.uniform
    return _node_values(
        value,
        rate * n_parallel,
        _first(given.reg_lambda, found.reg_lambda, given.config_value("reg_lambda") if trust else None),
        _first(given.reg_alpha, found.reg_alpha, given.config_value("reg_alpha") if trust else None),
        _reasons(trees, plain, objective, given),
        needs=("learning_rate",) if unknown else (),
    )


def _node_values(
    value: FloatArray,
    rate: FloatArray,
    reg_lambda: float | None,
    reg_alpha: float | None,
    why_not_exact: Sequence[str],
    needs: tuple[str, ...] = (),
) -> NodeValues:
    rates = np.unique(rate)
    one_rate = float(rates[0]) if len(rates) == 1 else None
    known = {"reg_lambda": reg_lambda, "reg_alpha": reg_alpha, "learning_rate": one_rate}
    return NodeValues(
        node_value=value,
        tree_rate=rate,
        params={name: number for name, number in known.items() if number is not None and np.isfinite(number)},
        needs=needs,
        exactness="; ".join(why_not_exact) or "exact",
    )


def mean_from_leaves(trees: Trees, lam: float) -> FloatArray:
    """Values of inner nodes from the leaves below them: sum of (H_c + lam) p_c over (H_t + lam)."""
    value = trees.value.copy()
    for level in range(int(trees.level.max(initial=0)) - 1, -1, -1):
        node = np.flatnonzero((trees.level == level) & ~trees.leaf)
        left, right = trees.left[node], trees.right[node]
        share_left, share_right = trees.hessian[left] + lam, trees.hessian[right] + lam
        total = (share_left + share_right if lam == 0 else trees.hessian[node] + lam)[:, None]
        summed = share_left[:, None] * value[left] + share_right[:, None] * value[right]
        even = (value[left] + value[right]) / 2
        with np.errstate(all="ignore"):  # a hessian that is not finite
            value[node] = np.where(total > 0, summed / np.where(total > 0, total, 1.0), even)
    return value


def _first(*numbers: float | None) -> float | None:
    return next((number for number in numbers if number is not None), None)


def _renewed(trees: Trees, tree_round: LongArray, n_parallel: int, rate: FloatArray | None, given: Given) -> NodeValues:
    """Leaves were replaced by medians or quantiles: the mean of the leaves is all that is consistent."""
    # the weights of the leaves are those from before, so the equations still tell the learning rate
    found = infer_rates(trees, tree_round, trees.weight, reg_lambda=given.reg_lambda, reg_alpha=given.reg_alpha)
    if rate is None:
        # a factor of 1 only says that this tree method stores weights of leaves without the learning rate
        rate = np.where(np.abs(found.rate - 1) < 1e-4, np.nan, found.rate)
        said = given.config_value("learning_rate")
        if said is not None and given.is_live(RENEWED[0]):
            rate = np.where(np.isnan(rate), said / n_parallel, rate)
    return _node_values(
        mean_from_leaves(trees, 0.0),
        rate * n_parallel,
        _first(given.reg_lambda, found.reg_lambda),
        _first(given.reg_alpha, found.reg_alpha),
        ("leaves were replaced by medians or quantiles after the splits were chosen",),
    )


def _refreshed(trees: Trees, tree_round: LongArray, given: Given) -> NodeValues | None:
    """`refresh_leaf=0`: node statistics of new rows above leaves of old ones; None: not of that kind."""
    changed = trees.leaf & np.any(np.abs(trees.weight - trees.value) > 1e-5 * np.abs(trees.value), axis=1)
    if trees.value.shape[1] > 1 or np.mean(changed[trees.leaf]) < 0.5:
        return None
    ones = np.ones(trees.n_trees)
    found = infer_rates(
        trees, tree_round, trees.weight, rate=ones, reg_lambda=given.reg_lambda, reg_alpha=given.reg_alpha
    )
    if not np.all(found.certified[np.diff(trees.start) > 1]) or found.reg_lambda is None:
        return None
    return _node_values(
        mean_from_leaves(trees, found.reg_lambda),
        np.full(trees.n_trees, np.nan),
        found.reg_lambda,
        found.reg_alpha,
        ("refresh_leaf=0: gains and hessians are of other rows than the leaves",),
    )


def _fill(trees: Trees, rate: FloatArray, found: Rates, n_parallel: int, *, objective: str, given: Given) -> FloatArray:
    """Rates that the equations as a whole did not give: a candidate counts where single splits confirm it."""
    open_ = np.isnan(rate)
    if not open_.any():
        return rate
    certain = np.unique(rate[~open_])
    said, live = given.config_value("learning_rate"), given.is_live(objective)
    if len(certain) > 1:
        return rate
    if len(certain) == 1:
        candidate = float(certain[0])
    elif said is not None:
        candidate = said / n_parallel
    else:
        return rate
    lam = _first(given.reg_lambda, found.reg_lambda, given.config_value("reg_lambda"), 1.0)
    alpha = _first(given.reg_alpha, found.reg_alpha, given.config_value("reg_alpha"), 0.0)
    assert lam is not None
    assert alpha is not None
    confirmed, checkable = confirmed_trees(trees, candidate, lam, alpha, given.config_value("max_delta_step"))
    checked, confirmed = open_ & checkable, confirmed | ~open_
    if checked.any():
        # rightly unconfirmed trees are few and far between (1 in 10 measured); a run of them is another rate
        run = np.diff(np.flatnonzero(np.concatenate([[True], confirmed, [True]]))).max() - 1
        enough = bool(np.mean(confirmed[checkable]) >= 0.5 and run <= MAX_RUN)
    else:
        # nothing to check by: vector leaves of losses with a hessian per output, trees without splits
        enough = live or len(certain) == 1
    return np.where(open_ & enough, candidate, rate)


def is_custom(trees: Trees, objective: str, given: Given) -> bool:
    """Whether a live model that says squared error was trained with a custom objective.

    XGBoost files every custom objective under its default, reg:squarederror, whose hessian is 1 for every row. Roots
    whose hessians change from tree to tree, without row sampling, are not its own. (Continued training on other rows
    changes them once.)
    """
    roots = trees.hessian[trees.start[:-1]]
    if objective not in CONSTANT_HESSIAN or len(roots) < 2 or not given.is_live(objective):
        return False
    changes = np.abs(np.diff(roots)) > 1e-5 * np.max(roots)
    return (given.config_value("subsample") or 1.0) == 1.0 and bool(np.mean(changes) > 0.5)


def _reasons(trees: Trees, plain: bool, objective: str, given: Given) -> tuple[str, ...]:
    """Why the gain of these trees is not the inner product of node values and gradients."""
    reasons = []
    live = given.is_live(objective)
    subsample = given.config_value("subsample")
    roots = trees.hessian[trees.start[:-1]]
    if live and subsample is not None and subsample < 1:
        reasons.append(
            "row sampling (subsample < 1): gains are sums over the sampled rows, which the model does not store"
        )
    elif objective in CONSTANT_HESSIAN and len(roots) and np.ptp(roots) > 1e-5 * np.max(roots):
        reasons.append("the hessians of the roots differ: rows were sampled, or the objective is a custom one")
    elif not live and objective not in CONSTANT_HESSIAN:
        reasons.append("a saved model does not tell whether rows were sampled (subsample < 1); exact if they were not")
    if not plain and trees.value.shape[1] == 1 and np.any(~trees.leaf):
        step = given.config_value("max_delta_step")
        if live and given.monotone:
            reasons.append("monotone constraints: weights of nodes were clipped")
        elif step is not None and step > 0:
            reasons.append("max_delta_step: weights of nodes were clipped")
        else:
            reasons.append("the gains are not those of the node values (max_delta_step, monotone constraints, ...)")
    return tuple(reasons)
