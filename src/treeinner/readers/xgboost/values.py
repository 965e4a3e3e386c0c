"""Node values of XGBoost trees: which route gives them, with which learning rate, and what is exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from treeinner.ensemble import NodeValues
from treeinner.ensemble.validation import inner_by_depth
from treeinner.options import ReadOptions
from treeinner.readers._trees import FloatArray
from treeinner.readers.xgboost.document import Parts
from treeinner.readers.xgboost.rates import Rates, confirmed_trees, direct_rates, infer_rates
from treeinner.readers.xgboost.trees import Trees

__all__ = ["CONSTANT_HESSIAN", "Given", "find_node_values"]

# until 3.3 the leaves of these are medians and quantiles, put in after the splits were chosen
RENEWED = ("reg:absoluteerror", "reg:quantileerror")
MAX_RUN = 4  # trees in a row that may fail to confirm a candidate rate
CONSTANT_HESSIAN = ("reg:squarederror", "reg:linear")
# Losses whose gains tests/exactness.py compares with sums over the rows.
CHECKED = {
    *CONSTANT_HESSIAN, "reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror", "reg:quantileerror",
    "reg:logistic", "binary:logistic", "binary:logitraw", "binary:hinge", "multi:softmax", "multi:softprob",
    "count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox", "rank:pairwise", "rank:ndcg",
    "rank:map",
}  # fmt: skip
# What save_config shows for a model loaded from a file. Any other number was given by whoever trained it.
DEFAULTS = {"learning_rate": 0.3, "max_depth": 6.0, "max_bin": 256.0}
DEFAULTS |= dict.fromkeys(("reg_alpha", "max_delta_step", "min_split_loss", "max_leaves"), 0.0)
DEFAULTS |= dict.fromkeys(("reg_lambda", "subsample", "min_child_weight"), 1.0)
DEFAULTS |= dict.fromkeys(("colsample_bytree", "colsample_bylevel", "colsample_bynode"), 1.0)


@dataclass(frozen=True)
class Given:
    """What is known from outside the trees: from the user, and from the configuration of a live object."""

    objective: str  # as the document names it
    options: ReadOptions
    config: Mapping[str, Any] | None = None  # tree_train_param; None: the model came from a file

    def config_value(self, name: str) -> float | None:
        """Look up a number of the configuration."""
        try:
            # parameters are float32, shown with nine digits: 0.170000002 is what a user wrote as 0.17
            return float(str(np.float32(self.config[name]))) if self.config is not None else None
        except (KeyError, TypeError, ValueError):
            return None

    @cached_property
    def is_live(self) -> bool:
        """Whether the configuration is that of the training, not that of a loaded model."""
        if self.config is None:
            return False
        # count:poisson sets max_delta_step by itself, also in a loaded model
        skip = "max_delta_step" if self.objective == "count:poisson" else ""
        said = {name: self.config_value(name) for name in DEFAULTS.keys() - {skip}}
        differs = any(number is not None and abs(number - DEFAULTS[name]) > 1e-6 for name, number in said.items())
        return differs or self.monotone

    @property
    def all_rows(self) -> bool:
        """Whether every tree is known to have seen all rows."""
        return self.is_live and (self.config_value("subsample") or 1.0) == 1.0

    @property
    def monotone(self) -> bool:
        """Whether there are monotone constraints."""
        text = str((self.config or {}).get("monotone_constraints", ""))
        return any(part.strip() in ("1", "-1") for part in text.strip("()[]").split(","))


def find_node_values(parts: Parts, given: Given) -> NodeValues:
    """Choose the route by objective, version and certificate; DART's weights are not in these values yet."""
    trees, objective = parts.trees, parts.objective
    rates = given.options.rates(int(parts.tree_round.max(initial=-1)) + 1)
    rate = None if rates is None else rates[parts.tree_round] / parts.n_parallel
    if objective in RENEWED and parts.version < (3, 4):
        return _renewed(parts, rate, given)
    direct = direct_rates(trees)
    has_splits = np.diff(trees.start) > 1
    known = rate if rate is not None else direct if np.all(np.isfinite(direct[has_splits])) else None
    found = infer_rates(trees, parts.tree_round, trees.value, given.options, rate=known)
    plain = bool(np.all(found.certified[has_splits]))
    if rate is None:
        if not plain and objective in RENEWED:  # trained before 3.4, saved again later
            return _renewed(parts, rate, given)
        refreshed = None if plain or known is not None else _refreshed(parts, given)
        if refreshed is not None:
            return refreshed
        rate = _fill(parts, np.where(np.isfinite(direct), direct, found.rate), found, given)
    value = np.where(trees.weight == 0, 0.0, rate[trees.tree][:, None] * trees.weight)  # 0 whatever the rate is
    value = np.where(trees.leaf[:, None], trees.value, value)
    trust = given.is_live and found.uniform
    clipped = _clipped(trees, given) if not plain and np.any(~trees.leaf) else None
    values = _node_values(value, rate * parts.n_parallel, given, found, clipped, trust=trust)
    reasons = [*_reasons(trees, given), *values.value_doubts]
    return replace(values, exactness="; ".join(reasons) or "exact")


def _node_values(
    value: FloatArray, rate: FloatArray, given: Given, found: Rates, doubt: str | None, *, trust: bool = False
) -> NodeValues:
    """Collect what is known; `trust`: the configuration may say lambda and alpha where the trees do not."""
    unknown, rates = bool(np.isnan(value).any()), np.unique(rate)
    if unknown:  # what holds for some trees only is no fact about the model
        found = replace(found, reg_lambda=None, reg_alpha=None)
    params = {
        name: _first(getattr(given.options, name), getattr(found, name), given.config_value(name) if trust else None)
        for name in ("reg_lambda", "reg_alpha")
    } | {"learning_rate": float(rates[0]) if len(rates) == 1 else None}
    return NodeValues(
        node_value=value,
        tree_rate=rate,
        params={name: number for name, number in params.items() if number is not None and np.isfinite(number)},
        needs=("learning_rate",) if unknown else (),
        exactness=doubt or "exact",
        value_doubts=(doubt,) if doubt else (),
    )


def mean_from_leaves(trees: Trees, lam: float) -> FloatArray:
    """Values of inner nodes from the leaves below them: sum of (H_c + lam) p_c over (H_t + lam)."""
    value = trees.value.copy()
    for node in reversed(inner_by_depth(trees.left, trees.right, trees.start[:-1])):
        left, right = trees.left[node], trees.right[node]
        share_left, share_right = trees.hessian[left] + lam, trees.hessian[right] + lam
        total = (share_left + share_right if lam == 0 else trees.hessian[node] + lam)[:, None]
        summed = share_left[:, None] * value[left] + share_right[:, None] * value[right]
        with np.errstate(all="ignore"):  # no hessian, or one that is not finite
            value[node] = np.where(total > 0, summed / total, (value[left] + value[right]) / 2)
    return value


def _first(*numbers: float | None) -> float | None:
    return next((number for number in numbers if number is not None), None)


def _renewed(parts: Parts, rate: FloatArray | None, given: Given) -> NodeValues:
    """Leaves were replaced by medians or quantiles: the mean of the leaves is all that is consistent."""
    # the weights of the leaves are those from before, so the equations still tell the learning rate
    found = infer_rates(parts.trees, parts.tree_round, parts.trees.weight, given.options)
    if rate is None:
        # a factor of 1 only says that this tree method stores weights of leaves without the learning rate
        rate = np.where(np.abs(found.rate - 1) < 1e-4, np.nan, found.rate)
        said = given.config_value("learning_rate")
        if said is not None and given.is_live:
            rate = np.where(np.isnan(rate), said / parts.n_parallel, rate)
    reason = "leaves were replaced by medians or quantiles after the splits were chosen"
    return _node_values(mean_from_leaves(parts.trees, 0.0), rate * parts.n_parallel, given, found, reason)


def _refreshed(parts: Parts, given: Given) -> NodeValues | None:
    """`refresh_leaf=0`: node statistics of new rows above leaves of old ones; None: not of that kind."""
    trees, no_rate = parts.trees, np.full(parts.trees.n_trees, np.nan)
    changed = trees.leaf & np.any(np.abs(trees.weight - trees.value) > 1e-5 * np.abs(trees.value), axis=1)
    if trees.value.shape[1] > 1 or np.mean(changed[trees.leaf]) < 0.5:
        return None
    found = infer_rates(trees, parts.tree_round, trees.weight, given.options, rate=np.ones(trees.n_trees))
    if not np.all(found.certified[np.diff(trees.start) > 1]) or found.reg_lambda is None:
        return None
    reason = "refresh_leaf=0: gains and hessians are of other rows than the leaves"
    return _node_values(mean_from_leaves(trees, found.reg_lambda), no_rate, given, found, reason)


def _fill(parts: Parts, rate: FloatArray, found: Rates, given: Given) -> FloatArray:
    """Rates that the equations as a whole did not give: a candidate counts where single splits confirm it."""
    open_, said = np.isnan(rate), given.config_value("learning_rate")
    candidates = np.unique(rate[~open_])
    certain = len(candidates) == 1
    if len(candidates) == 0 and said is not None:
        candidates = np.array([said / parts.n_parallel])
    if not open_.any() or len(candidates) != 1:
        return rate
    lam = _first(given.options.reg_lambda, found.reg_lambda, given.config_value("reg_lambda"))
    alpha = _first(given.options.reg_alpha, found.reg_alpha, given.config_value("reg_alpha"))
    penalties = (1.0 if lam is None else lam, alpha or 0.0)
    step = given.config_value("max_delta_step") or 0.0
    confirmed, checkable = confirmed_trees(parts.trees, candidates[0], *penalties, step)
    confirmed |= ~open_
    if np.any(open_ & checkable):
        # rightly unconfirmed trees are few and far between (1 in 10 measured); a run of them is another rate
        run = np.diff(np.flatnonzero(np.concatenate([[True], confirmed, [True]]))).max() - 1
        enough = bool(np.mean(confirmed[checkable]) >= 0.5 and run <= MAX_RUN)
    else:
        # nothing to check by: vector leaves of losses with a hessian per output, trees without splits
        enough = certain or given.is_live
    return np.where(open_ & enough, candidates[0], rate)


def _reasons(trees: Trees, given: Given) -> list[str]:
    """Why the gains of these trees are not sums over the training rows."""
    objective, live, roots = given.objective, given.is_live, trees.hessian[trees.start[:-1]]
    reasons = []
    if objective not in CHECKED:
        reasons.append(f"the gains of {objective} have not been compared with sums over the rows")
    if live and not given.all_rows:
        reasons.append(
            "row sampling (subsample < 1): gains are sums over the sampled rows, which the model does not store"
        )
    elif objective in CONSTANT_HESSIAN and len(roots) and np.ptp(roots) > 1e-5 * np.max(roots):
        reasons.append("the hessians of the roots differ: rows were sampled, or the objective is a custom one")
    elif not live and objective not in CONSTANT_HESSIAN:
        reasons.append("a saved model does not store whether rows were sampled (subsample < 1); exact if they were not")
    return reasons


def _clipped(trees: Trees, given: Given) -> str | None:
    """What clipped weights of nodes, as far as it shows; None: vector leaves, which do not show it."""
    if trees.value.shape[1] > 1:
        return None
    if given.is_live and given.monotone:
        return "monotone constraints clipped weights of nodes"
    poisson = given.objective == "count:poisson"
    if (given.config_value("max_delta_step") or 0.0) > 0 or (given.config is None and poisson):
        default = " (0.7 by default for count:poisson)" if poisson else ""
        return f"max_delta_step{default} clipped weights of nodes"
    return "the gains are not those of the node values (max_delta_step, monotone constraints, ...)"
